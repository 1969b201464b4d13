"""Fields of a memory file, read and written."""

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from loads import bench
from memdir.errors import FormatError
from memdir.format import frontmatter
from memdir.format.frontmatter import compose_file, parse_fields, replace_body, set_fields, split_frontmatter
from memdir.records import Dialect, Kind
from tables import read_rows, table

ROWS = read_rows("format_frontmatter")
FLAT = "---\nname: Terse\ndescription: No summary at the end\ntype: feedback\n---\nbody\n"
NESTED = (
    '---\nname: terse\ndescription: "No summary: at the end"\nmetadata: \n  node_type: memory\n  type: feedback\n'
    "  originSessionId: 0e1\n  modified: 2026-05-01T10:00:00Z\n---\n\nbody\n"
)


def test_both_dialects_are_read() -> None:
    flat, nested = parse_fields(FLAT), parse_fields(NESTED)
    assert (flat.kind, flat.dialect, flat.title) == (Kind.FEEDBACK, Dialect.FLAT, "Terse")
    assert (nested.kind, nested.dialect, nested.description) == (
        Kind.FEEDBACK,
        Dialect.NESTED,
        "No summary: at the end",
    )
    assert nested.modified == "2026-05-01T10:00:00Z"
    assert flat.problem == nested.problem == ""


@table("text problem", ROWS["a_broken_head_is_a_problem_in_words_and_never_an_error"])
def test_a_broken_head_is_a_problem_in_words_and_never_an_error(text: str, problem: str) -> None:
    assert parse_fields(text).problem.startswith(problem)


def test_an_unquoted_colon_is_still_read() -> None:
    fields = parse_fields("---\nname: Deploys: who and when\ndescription: a: b: c\ntype: project\n---\n")
    assert fields.title == "Deploys: who and when" and fields.kind is Kind.PROJECT


def test_words_that_yaml_turns_into_values_stay_text() -> None:
    fields = parse_fields('---\nname: no\ndescription: 012\ntype: "user"\n---\n')
    assert (fields.title, fields.description, fields.kind) == ("no", "012", Kind.USER)


def test_the_title_falls_back_to_the_first_heading() -> None:
    assert parse_fields("---\ndescription: x\ntype: user\n---\n\n# Who I am #\n").title == "Who I am"
    assert parse_fields("# Only a heading\n").title == "Only a heading"


def test_an_edit_keeps_unknown_keys_order_comments_line_ends_and_body() -> None:
    text = (
        "\ufeff---\r\n# mine\r\ntags: [a, b]\r\nname: Old # why\r\nextra:\r\n  deep: 1\r\n"
        "description: x y z\r\ntype: user\r\n---\r\nBody\r\nwithout end"
    )
    edited = set_fields(text, {"name": "New: name", "description": "other words here"})
    assert edited == text.replace("name: Old # why", 'name: "New: name" # why').replace("x y z", "other words here")


def test_the_nested_dialect_is_edited_inside_metadata() -> None:
    assert set_fields(NESTED, {"type": "project"}) == NESTED.replace("  type: feedback", "  type: project")
    pinned = set_fields(NESTED, {"pinned": "true"})
    assert "  pinned: true\n---" in pinned and parse_fields(pinned).pinned
    assert set_fields(pinned, {"pinned": None}) == NESTED
    flow = "---\nname: a\ndescription: b\nmetadata: {type: user, node_type: memory} # c\n---\n"
    assert parse_fields(set_fields(flow, {"type": "feedback"})).kind is Kind.FEEDBACK


def test_block_scalars_are_replaced_whole() -> None:
    text = "---\nname: a\ndescription: >\n  long\n  words\n\ntype: user\n---\nb\n"
    assert parse_fields(text).description == "long words"
    assert set_fields(text, {"description": "short"}) == "---\nname: a\ndescription: short\n\ntype: user\n---\nb\n"


def test_missing_keys_go_to_their_customary_place() -> None:
    text = "---\ntags: x\ntype: user\n---\n"
    assert (
        set_fields(text, {"name": "nn", "description": "d"})
        == "---\nname: nn\ndescription: d\ntags: x\ntype: user\n---\n"
    )


def test_a_file_without_head_cannot_be_edited_by_field() -> None:
    with pytest.raises(FormatError):
        set_fields("plain", {"name": "x"})


def test_replacing_the_body_with_itself_changes_nothing() -> None:
    for text in (FLAT, NESTED, FLAT.replace("\n", "\r\n")):
        assert replace_body(text, split_frontmatter(text).body) == text
    assert replace_body(FLAT.replace("\n", "\r\n"), "a\nb") == FLAT.replace("body\n", "a\nb\n").replace("\n", "\r\n")


def test_every_real_file_survives_a_rewrite_byte_for_byte() -> None:
    for path in sorted(bench("realworld_memory", "memory").glob("*_*.md")):
        text = path.read_bytes().decode("utf-8")
        fields = parse_fields(text)
        raw = {
            key: value for key, value in fields.raw.items() if key in ("name", "description") and isinstance(value, str)
        }
        assert replace_body(set_fields(text, {**raw, "type": str(fields.kind)}), split_frontmatter(text).body) == text


PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\ufeff\ufffe\uffff"))


@example("true")
@given(PRINTABLE.filter(lambda text: text == " ".join(text.split()) and text))
def test_any_line_of_text_round_trips_through_both_dialects(value: str) -> None:
    for dialect in Dialect:
        text = compose_file({"name": value, "description": value, "type": "user"}, "b", dialect)
        assert parse_fields(text).raw["name"] == value
        assert yaml.safe_load(text.split("---\n")[1])["name"] == value
        assert set_fields(set_fields(text, {"name": "x"}), {"name": value}) == text


@given(st.text(alphabet=st.sampled_from("ab:-# \"'[]{}|>&*!%@`\n\t,?~01._é中"), max_size=60))
def test_the_fast_reader_agrees_with_yaml_or_steps_aside(head: str) -> None:
    simple = frontmatter._parse_simple(head)
    if simple is not None:
        assert simple == (frontmatter._parse_events(head) if head.strip() else {})


@given(st.text())
def test_no_text_makes_a_reader_raise(text: str) -> None:
    parse_fields(text)
    parse_fields(f"---\n{text}\n---\n")
    parts = split_frontmatter(text)
    assert parts.render(parts.head) == text


@given(st.dictionaries(st.sampled_from(["name", "description", "type"]), st.text(), min_size=1), st.text())
def test_an_edit_is_exact_or_refused(changes: dict[str, str], body: str) -> None:
    text = FLAT + body
    try:
        edited = set_fields(text, changes)
    except FormatError:
        return
    assert split_frontmatter(edited).body == split_frontmatter(text).body
    assert all(parse_fields(edited).raw[key] == value for key, value in changes.items())


def test_an_alias_bomb_costs_nothing() -> None:
    bomb = "a: &a [x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)},*{chr(97 + n)}]\n" for n in range(20)
    )
    assert "anchors" in parse_fields(f"---\n{bomb}---\n").problem
    assert "deep" in parse_fields("---\na: " + "[" * 5000 + "\n---\n").problem
    assert json.dumps(parse_fields(f"---\n{'x' * 20000}: 1\n---\n").problem)


def test_cues_are_a_list_in_both_dialects_and_can_be_replaced_and_removed() -> None:
    for text in (FLAT, NESTED):
        edited = set_fields(text, {"cues": ("may I deploy today?", 'what is "the freeze": when')})
        assert parse_fields(edited).cues == ("may I deploy today?", 'what is "the freeze": when')
        again = set_fields(edited, {"cues": ("one only",)})
        assert parse_fields(again).cues == ("one only",)
        assert set_fields(again, {"cues": None}) == text
    plain = set_fields(FLAT, {"cues": ("may I deploy today?", "what is the freeze")})
    assert frontmatter._parse_simple(split_frontmatter(plain).head) is not None  # without PyYAML, which takes 20 ms
    assert parse_fields(FLAT.replace("type:", "cues: a single one\ntype:")).cues == ("a single one",)
    assert parse_fields(FLAT.replace("type:", "cues: [one, two]\ntype:")).cues == ("one", "two")


@table("line description", ROWS["values_that_a_model_left_unquoted_are_read_as_meant"])
def test_values_that_a_model_left_unquoted_are_read_as_meant(line: str, description: str) -> None:
    text = FLAT.replace("description: No summary at the end", line)
    fields = parse_fields(frontmatter.quote_values(text))
    assert (fields.description, fields.problem) == (description, "")
