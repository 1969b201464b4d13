"""Two versions of one file made into one: nothing that either side wrote is lost, and all machines come to the same."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from memdir.format import frontmatter
from memdir.format.index import merge_index, tidy_index
from memdir.records import Kind
from memdir.sync.merge import merge_memory, split_paragraphs
from memdir.text import merge_units
from tables import table

PIECES = st.lists(st.sampled_from("abcdefgh"), max_size=8)


def memory(*paragraphs: str, description: str = "Where the billing bugs are tracked", more: str = "") -> str:
    body = "\n\n".join(paragraphs)
    return f"---\nname: Tracker\ndescription: {description}\ntype: reference\n{more}---\n\n{body}\n"


@given(base=PIECES, one=PIECES, other=PIECES, pairs=st.sampled_from([0, 1_000]))
@settings(max_examples=100, deadline=None)
def test_merging_is_the_same_in_either_direction_and_loses_nothing(
    base: list[str], one: list[str], other: list[str], pairs: int
) -> None:
    merged = merge_units(base, one, other, pairs=pairs)
    assert merged == merge_units(base, other, one, pairs=pairs)
    assert merge_units(base, one, one).pieces == tuple(one)
    assert merge_units(base, base, other).pieces == tuple(other)
    kept, old, ours, theirs = (Counter(at) for at in (merged.pieces, base, one, other))
    for piece in set("abcdefgh"):
        assert kept[piece] >= min(ours[piece], theirs[piece]), "what both have is there"
        assert kept[piece] <= max(ours[piece], theirs[piece]), "nothing is there more often than on either side"
        if max(ours[piece], theirs[piece]) > old[piece]:
            assert kept[piece] == max(ours[piece], theirs[piece]), "what a side wrote is there"
    unmoved = [piece for piece in base if kept[piece] < old[piece]]
    assert all(min(ours[piece], theirs[piece]) < old[piece] for piece in unmoved), "only a side can take out"


@given(base=PIECES, one=PIECES, other=PIECES, pairs=st.sampled_from([0, 1_000]))
@settings(max_examples=100, deadline=None)
def test_merging_again_what_was_merged_changes_no_piece(
    base: list[str], one: list[str], other: list[str], pairs: int
) -> None:
    """A sync that was killed after its push merges its own changes a second time."""
    merged = merge_units(base, one, other, pairs=pairs).pieces
    again = merge_units(base, one, merged, pairs=pairs).pieces
    assert Counter(again) == Counter(merged)


@given(
    st.lists(st.sampled_from(["One.", "Two.", "Three.", "Four."]), max_size=4),
    st.lists(st.sampled_from(["One.", "Two.", "Five.", "Six."]), max_size=4),
    st.lists(st.sampled_from(["One.", "Three.", "Seven."]), max_size=4),
    st.lists(st.sampled_from(["About a", "About b", "About c"]), min_size=3, max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_merged_files_are_readable_and_the_same_both_ways(
    base: list[str], one: list[str], other: list[str], told: list[str]
) -> None:
    texts = [memory(*at, description=words) for at, words in zip((base, one, other), told, strict=True)]
    merged = merge_memory(*texts)
    assert merged == merge_memory(texts[0], texts[2], texts[1])
    assert merged.text is not None
    fields = frontmatter.parse_fields(merged.text)
    assert not fields.problem and fields.kind is Kind.REFERENCE
    for side, words in ((one, told[1]), (other, told[2])):
        for piece in set(side) - set(base):
            assert piece in split_paragraphs(frontmatter.split_frontmatter(merged.text).body)
        if words != told[0]:
            assert words in fields.description


def test_more_paragraphs_than_anybody_writes_are_merged_all_the_same() -> None:
    """Compared one by one, these would take minutes."""
    base = [str(number) for number in range(20_000)]
    sides = [[f"{at}{end}" if int(at) % step else at for at in base] for end, step in (("x", 2), ("y", 3))]
    pieces, (one, other) = set(merge_units(base, *sides).pieces), map(set, sides)
    assert pieces == (one | other) - set(base) | (one & other)


def test_changes_of_different_paragraphs_both_stand_without_a_clash() -> None:
    merged = merge_memory(memory("One.", "Two."), memory("One, ours.", "Two."), memory("One.", "Two, theirs."))
    assert merged.text == memory("One, ours.", "Two, theirs.") and not merged.clashes


def test_paragraphs_added_by_both_sides_both_stand_without_a_clash() -> None:
    merged = merge_memory(memory("One."), memory("One.", "Ours."), memory("One.", "Theirs."))
    assert merged.text == memory("One.", "Ours.", "Theirs.") and not merged.clashes


def test_a_paragraph_that_both_sides_changed_is_kept_twice_and_told() -> None:
    merged = merge_memory(memory("One."), memory("One, ours."), memory("One, theirs."))
    assert merged.text == memory("One, ours.", "One, theirs.")
    assert merged.clashes == ("both sides changed the paragraph “One.”",)


def test_a_paragraph_taken_out_by_one_side_goes() -> None:
    assert merge_memory(memory("One.", "Two."), memory("One."), memory("One.", "Two.", "Three.")).text == memory(
        "One.", "Three."
    )


def test_an_edit_wins_over_a_deletion() -> None:
    for merged in (merge_memory("a", None, "b"), merge_memory("a", "b", None)):
        assert merged.text == "b" and merged.clashes
    assert merge_memory("a", None, "a").text is None and merge_memory("a", None, None).text is None


def test_the_head_is_merged_by_key() -> None:
    base = memory("One.", more="pinned: true\n")
    ours = memory("One.", description="Where billing bugs go", more="pinned: true\n")
    theirs = memory("One.", more="owner: ops\n")
    merged = merge_memory(base, ours, theirs).text or ""
    fields = frontmatter.parse_fields(merged)
    assert fields.description == "Where billing bugs go" and not fields.pinned and fields.raw["owner"] == "ops"


def test_two_descriptions_become_both_and_two_times_the_later() -> None:
    def make(words: str, time: str, kind: str) -> str:
        return f"---\nname: T\ndescription: {words}\nmetadata:\n  type: {kind}\n  modified: {time}\nkey: v\n---\n\nx\n"

    merged = merge_memory(
        make("Zero", "2026-01-01", "project"),
        make("Left", "2026-01-03", "feedback"),
        make("Right", "2026-01-02", "reference"),
    )
    fields = frontmatter.parse_fields(merged.text or "")
    assert fields.description == "Left / Right" and fields.modified == "2026-01-03" and not fields.problem
    assert fields.kind in (Kind.FEEDBACK, Kind.REFERENCE)
    assert any("type" in told for told in merged.clashes) and any("description" in told for told in merged.clashes)


def test_a_key_added_inside_metadata_stays_inside() -> None:
    base = "---\nname: T\ndescription: d\nmetadata:\n  type: project\nkey: v\n---\n\nx\n"
    ours = base.replace("key: v", "key: w")
    theirs = base.replace("  type: project\n", "  type: project\n  pinned: true\n").replace("name: T", "name: U")
    fields = frontmatter.parse_fields(merge_memory(base, ours, theirs).text or "")
    assert fields.pinned and fields.title == "U" and fields.raw["key"] == "w" and not fields.problem


def test_code_with_blank_lines_is_one_paragraph() -> None:
    body = "Before.\n\n```sh\none\n\ntwo\n```\n\nAfter.\n"
    assert split_paragraphs(body) == ("Before.", "```sh\none\n\ntwo\n```", "After.")


def test_an_index_is_merged_by_line() -> None:
    base = "# Team\n\n- [A](a.md)\n- [B](b.md)\n"
    ours = "# Team\n\n- [A](a.md)\n- [B](b.md)\n- [C](c.md)\n"
    theirs = "# Team\n\n- [A](a.md) — more\n- [B](b.md)\n- [D](d.md)\n"
    assert merge_index(base, ours, theirs) == "# Team\n\n- [A](a.md) — more\n- [B](b.md)\n- [C](c.md)\n- [D](d.md)\n"


@table("end", ["", "\n"])
def test_a_tidied_index_has_one_line_for_each_memory_that_is_there(end: str) -> None:
    text = f"- [A](a.md) — ours\n- [A](a.md) — theirs\n- [Gone](gone.md)\n- [B](b.md){end}"
    tidied = tidy_index(text, ["a", "b"], "- [A](a.md) — theirs\n")
    assert tidied == f"- [A](a.md) — theirs\n- [B](b.md){end}"


def test_what_came_back_has_its_line_again_and_what_was_left_out_has_not() -> None:
    tidied = tidy_index("- [B](b.md)\n", ["a", "b", "c"], "", revived=["a"], known=["- [A](a.md)\n- [C](c.md)\n"])
    assert tidied == "- [B](b.md)\n- [A](a.md)\n"


def test_a_paragraph_that_ends_with_code_has_no_carriage_return_behind_it() -> None:
    assert split_paragraphs("a\r\n\r\n```\r\nx\r\n```\r\n\r\nb\r\n") == ("a", "```\r\nx\r\n```", "b")
