"""MEMORY.md as lines, and the manifest."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from loads import bench
from memdir import limits
from memdir.format.index import (
    add_line,
    append_pointer,
    apply_splice,
    drop_lines,
    find_lines,
    find_splice,
    parse_index,
    render_line,
    replace_line,
)
from memdir.format.shown import show_header, show_manifest
from memdir.limits import INDEX_LINE_CHARS
from memdir.records import Header, Kind, Scope, Signature
from tables import read_rows, table

ROWS = read_rows("format_index")
NEW = "- [New](new.md) — hook"


@table("line name title hook", ROWS["pointers_of_both_forms_are_read"])
def test_pointers_of_both_forms_are_read(line: str, name: str, title: str, hook: str) -> None:
    (parsed,) = parse_index(line)
    assert (parsed.name, parsed.title.removeprefix("- "), parsed.hook) == (name, title, hook)


@table("line", ROWS["prose_and_links_elsewhere_are_no_pointers"])
def test_prose_and_links_elsewhere_are_no_pointers(line: str) -> None:
    assert not parse_index(line)[0].is_pointer


def test_what_stands_in_a_code_fence_is_prose() -> None:
    lines = parse_index("```\n- [A](a.md)\n# no heading\n```\n- [B](b.md)\n")
    assert [line.name for line in lines if line.is_pointer] == ["b"]
    assert not any(line.level for line in lines)


def test_a_line_goes_below_the_heading_of_its_type() -> None:
    text = "# Memory\n\n## User\n\n- [A](a.md)\n\n## Feedback\n\n- [B](b.md)\nprose about it\n"
    assert add_line(text, NEW, kind=Kind.FEEDBACK, words="x") == text.replace("- [B](b.md)\n", f"- [B](b.md)\n{NEW}\n")
    assert add_line(text, NEW, kind=Kind.USER, words="x") == text.replace("- [A](a.md)\n", f"- [A](a.md)\n{NEW}\n")


def test_a_heading_with_only_prose_below_gets_the_line_above_the_prose() -> None:
    text = "## Project\nThings to know.\n"
    assert add_line(text, NEW, kind=Kind.PROJECT, words="x") == f"## Project\n\n{NEW}\n\nThings to know.\n"


def test_a_line_goes_beside_its_nearest_relatives() -> None:
    text = "## Build\n- [Cache](c.md) — docker layer cache\n\n## Deploy\n- [Freeze](f.md) — freeze calendar\n\nprose\n"
    placed = add_line(text, NEW, kind=Kind.PROJECT, words="docker build cache misses")
    assert placed == text.replace("layer cache\n", f"layer cache\n{NEW}\n")


def test_else_it_goes_to_the_end_of_the_list_and_never_after_prose() -> None:
    text = "- [A](a.md)\n- [B](b.md)\n\nSome prose to end with.\n"
    assert add_line(text, NEW, kind=Kind.USER, words="x") == text.replace("- [B](b.md)\n", f"- [B](b.md)\n{NEW}\n")


@table(
    "text wanted",
    [
        ("", f"{NEW}\n"),
        ("\n\n", f"{NEW}\n"),
        ("# Title\n", f"# Title\n\n{NEW}\n"),
        ("# Title\n\nprose\n", f"# Title\n\n{NEW}\n\nprose\n"),
        ("prose only", f"{NEW}\n\nprose only"),
        ("- [A](a.md)", f"- [A](a.md)\n{NEW}\n"),
    ],
)
def test_the_first_line_finds_a_place_in_any_index(text: str, wanted: str) -> None:
    assert append_pointer(text, NEW) == wanted


def test_only_a_line_that_memdir_wrote_is_rewritten() -> None:
    ours = render_line("A", "a", "old words")
    text = f"- [B](b.md)\n  {ours}\n"
    assert replace_line(text, "a", ours, "- [A](a.md) — new") == "- [B](b.md)\n  - [A](a.md) — new\n"
    curated = "- [A](a.md) — **my** words\n"
    assert replace_line(curated, "a", ours, "- [A](a.md) — new") == curated


def test_all_pointers_to_a_memory_are_dropped_and_nothing_else() -> None:
    text = "# T\n- one [a.md]\n- [A](a.md) — two\n- see [A](a.md)?\nprose a.md\n- [B](b.md)\n"
    assert drop_lines(text, "A") == "# T\n- see [A](a.md)?\nprose a.md\n- [B](b.md)\n".replace(
        "- see [A](a.md)?\n", "- see [A](a.md)?\n"
    )
    assert [line.name for line in find_lines(text, "a")] == ["a", "a"]


def test_a_rendered_line_fits_and_reads_back() -> None:
    line = render_line("A [very] long\ntitle " * 9, "sub/name", "words " * 60)
    assert len(line) <= INDEX_LINE_CHARS and "\n" not in line
    assert parse_index(line)[0].name == "sub/name"
    assert render_line("标题", "名字", "描述") == "- [标题](名字.md) — 描述"


def test_the_real_index_has_its_nineteen_pointers() -> None:
    text = (bench("realworld_memory", "memory") / "MEMORY.md").read_text(encoding="utf-8")
    assert sum(line.is_pointer for line in parse_index(text)) == 19


@given(
    st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"d"]), max_size=8),
    st.lists(st.sampled_from([b"a\n", b"b\n", b"x"]), max_size=8),
)
def test_a_splice_leads_forth_and_back(before: list[bytes], after: list[bytes]) -> None:
    old, new = b"".join(before), b"".join(after)
    splice = find_splice(old, new)
    assert apply_splice(old, splice) == new
    start, removed, inserted = splice
    assert apply_splice(new, (start, inserted, removed)) == old


@given(st.text(), st.sampled_from(list(Kind)), st.text())
def test_adding_then_dropping_never_touches_another_line(text: str, kind: Kind, words: str) -> None:
    added = add_line(text, "- [Q](q_unique_q.md)", kind=kind, words=words)
    assert len(find_lines(added, "q_unique_q")) == 1 + len(find_lines(text, "q_unique_q"))
    kept = [line.text.strip() for line in parse_index(drop_lines(added, "q_unique_q")) if not line.is_blank]
    assert kept == [line.text.strip() for line in parse_index(text) if not line.is_blank]


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
    assert show_header(make_header("sub/terse")) == "- [feedback] sub/terse.md (2026-11-15T08:30:15Z): No summary"


def test_the_newest_come_first_and_no_more_than_the_limit() -> None:
    headers = [make_header(f"m{day:03}", day=-day) for day in range(limits.MANIFEST_ENTRIES + 50)]
    lines = show_manifest(reversed(headers)).splitlines()
    assert len(lines) == limits.MANIFEST_ENTRIES
    assert lines[0].startswith("- [feedback] m000.md")
    assert show_manifest(headers, limit=2) == "\n".join(show_header(header) for header in headers[:2])


@given(st.permutations([make_header(name, day=day) for name, day in zip("abcde", [0, 0, 1, -1, -1], strict=True)]))
def test_the_order_of_the_input_does_not_matter(headers: list[Header]) -> None:
    assert show_manifest(headers) == show_manifest(sorted(headers, key=lambda header: header.name))


@given(st.text(), st.datetimes(timezones=st.sampled_from([UTC, *(timezone(timedelta(hours=h)) for h in (14, -12))])))
def test_every_entry_is_one_physical_line(description: str, modified: datetime) -> None:
    header = make_header(description=description)
    line = show_header(Header(header.name, "", description, None, Scope.PRIVATE, modified, False, header.signature))
    assert len(line.splitlines()) == 1
