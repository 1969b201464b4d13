"""What a memory's text claims to be there, and what it does not."""

from hypothesis import given, settings
from hypothesis import strategies as st

from memdir.limits import CLAIMS
from memdir.records import Kind
from memdir.verify.claims import find_claims
from tables import read_rows, table

ROWS = read_rows("claims")


def claims_of(body: str, *, weak: bool = False) -> list[tuple[str, str]]:
    return [(str(at.kind), at.text) for at in find_claims(body, Kind.PROJECT) if weak or not at.is_weak]


@table("text wanted", ROWS["what_is_named_is_claimed"])
def test_what_is_named_is_claimed(text: str, wanted: list[tuple[str, str]]) -> None:
    assert claims_of(text) == [tuple(claim) for claim in wanted]


@table("text", ROWS["prose_addresses_and_examples_claim_nothing"])
def test_prose_addresses_and_examples_claim_nothing(text: str) -> None:
    assert claims_of(text) == []


@table("text reason", ROWS["what_no_project_can_settle_is_claimed_as_not_checkable"])
def test_what_no_project_can_settle_is_claimed_as_not_checkable(text: str, reason: str) -> None:
    assert [at.reason for at in find_claims(text)] == [reason]


def test_a_claim_keeps_its_place() -> None:
    text = "---\nname: x\ndescription: about `a/b.py` here\ntype: project\n---\n\nFirst.\n\n- calls `doIt()` twice\n"
    found = find_claims(text)
    assert [(at.text, at.line, at.column, text[at.start : at.end]) for at in found] == [
        ("a/b.py", 3, 21, "a/b.py"),
        ("doIt", 9, 10, "doIt"),
    ]


def test_a_line_number_is_kept_beside_its_path() -> None:
    assert [(at.text, at.extra) for at in find_claims("`a/b.py:12` and `c.ts#L7-L9`")] == [
        ("a/b.py", "12"),
        ("c.ts", "7"),
    ]


def test_a_weak_claim_is_marked_as_one() -> None:
    weak = [(at.text, at.is_weak) for at in find_claims("Ask `owner/name` about the `redirect` thing.")]
    assert weak == [("owner/name", True), ("redirect", True)]


def test_what_a_repair_has_written_down_is_claimed_no_more() -> None:
    text = (
        "`handleAuth()` and `src/a.py` and `src/b.py` until 2026-03-05.\n\n"
        "**Checked 2026-03-10:** `handleAuth` is gone; `authenticate` came with the commit that removed it; "
        "`src/a.py` is now `src/c.py`; the date 2026-03-05 has passed.\n"
    )
    open_claims = [(at.text, at.line) for at in find_claims(text, Kind.PROJECT) if not at.reason and not at.is_weak]
    assert open_claims == [("src/b.py", 1), ("src/c.py", 3)]


@table("text", ROWS["the_day_of_an_event_is_no_deadline"])
def test_the_day_of_an_event_is_no_deadline(text: str) -> None:
    assert claims_of(text) == []


@table("text", ROWS["the_day_that_ends_something_is_a_deadline"])
def test_the_day_that_ends_something_is_a_deadline(text: str) -> None:
    assert claims_of(text) == [("date", "2026-03-05")]


def test_no_more_than_so_many_claims_are_read() -> None:
    assert len(find_claims("\n".join(f"`a/b{number}.py`" for number in range(2 * CLAIMS)))) == CLAIMS


@table("piece", ROWS["hostile_text_is_read_to_its_end"])
def test_hostile_text_is_read_to_its_end(piece: str) -> None:
    """A rule that is not linear would sit here for minutes; the clock of a loaded machine is no witness."""
    assert len(find_claims(piece * 15_000, Kind.PROJECT)) <= CLAIMS


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("ab/._-`$(){}<>[]:#*=\"' \n\t1A\u4e00\u00e9")), max_size=200))
def test_any_text_is_read_and_places_are_right(text: str) -> None:
    for at in find_claims(text, Kind.PROJECT):
        assert 0 <= at.start < at.end <= len(text)
        assert text.count("\n", 0, at.start) + 1 == at.line
