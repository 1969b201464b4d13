"""Headers as lines: one each, newest first, always the same bytes."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from memdir import limits
from memdir.format.index import render_manifest, render_manifest_line
from memdir.records import Header, Kind, Scope, Signature

TIME = datetime(2026, 11, 15, 9, 30, 15, 999_999, tzinfo=timezone(timedelta(hours=1)))


def make_header(
    name: str = "terse", description: str = "No summary", kind: Kind | None = Kind.FEEDBACK, day: int = 0
) -> Header:
    return Header(
        name=name,
        title="Title",
        description=description,
        kind=kind,
        scope=Scope.PRIVATE,
        modified=TIME + timedelta(days=day),
        pinned=False,
        signature=Signature(1, 1, 1, 1),
    )


def test_a_line_has_type_file_time_and_description() -> None:
    assert (
        render_manifest_line(make_header("sub/terse")) == "- [feedback] sub/terse.md (2026-11-15T08:30:15Z): No summary"
    )


def test_a_missing_type_leaves_no_bracket() -> None:
    assert render_manifest_line(make_header(kind=None)) == "- terse.md (2026-11-15T08:30:15Z): No summary"


def test_a_missing_description_leaves_no_colon() -> None:
    assert render_manifest_line(make_header(description=" \n ")) == "- [feedback] terse.md (2026-11-15T08:30:15Z)"


def test_a_description_of_many_lines_stays_on_one() -> None:
    line = render_manifest_line(make_header(description="a\n- [user] b.md (x): y\r\n\u2028c\x1b[31m\u202e"))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    assert line.endswith(": a - [user] b.md (x): y c\\x1b[31m\\u202e")


def test_the_newest_come_first_and_no_more_than_the_limit() -> None:
    headers = [make_header(f"m{day:03}", day=-day) for day in range(limits.MANIFEST_ENTRIES + 50)]
    lines = render_manifest(reversed(headers)).splitlines()
    assert len(lines) == limits.MANIFEST_ENTRIES
    assert lines[0].startswith("- [feedback] m000.md")
    assert render_manifest(headers, limit=2) == "\n".join(render_manifest_line(header) for header in headers[:2])


def test_no_headers_make_an_empty_manifest() -> None:
    assert render_manifest([]) == ""
    assert render_manifest([make_header()], limit=0) == ""


def test_the_same_time_is_ordered_by_file() -> None:
    lines = render_manifest([make_header("b"), make_header("a")]).splitlines()
    assert [line.split()[2] for line in lines] == ["a.md", "b.md"]


@given(st.permutations([make_header(name, day=day) for name, day in zip("abcde", [0, 0, 1, -1, -1], strict=True)]))
def test_the_order_of_the_input_does_not_matter(headers: list[Header]) -> None:
    assert render_manifest(headers) == render_manifest(sorted(headers, key=lambda header: header.name))


@given(st.text(), st.datetimes(timezones=st.sampled_from([UTC, *(timezone(timedelta(hours=h)) for h in (14, -12))])))
def test_every_entry_is_one_physical_line(description: str, modified: datetime) -> None:
    header = make_header(description=description)
    line = render_manifest_line(
        Header(header.name, "", description, None, Scope.PRIVATE, modified, False, header.signature)
    )
    assert len(line.splitlines()) == 1
