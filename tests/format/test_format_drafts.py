"""Descriptions, parts of a body, and names."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdir import limits
from memdir.errors import FormatError
from memdir.files import check_name
from memdir.format.frontmatter import check_description, check_title, make_slug
from memdir.language import count_content
from memdir.records import Kind
from tables import read_rows, table

ROWS = read_rows("slugs")

DESCRIPTIONS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "descriptions.jsonl").read_text(encoding="utf-8").splitlines()
]


def is_refused(description: str) -> bool:
    try:
        check_description(description)
    except FormatError as error:
        assert error.field == "description"
        assert error.hint
        assert len(str(error).splitlines()) == 1
        return True
    return False


def test_vague_descriptions_are_refused_and_good_ones_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    vague = [row["text"] for row in DESCRIPTIONS if row["vague"]]
    good = [row["text"] for row in DESCRIPTIONS if not row["vague"]]
    assert len(vague) >= 60
    assert len(good) >= 200
    of_vague = sum(map(is_refused, vague)) / len(vague)
    of_good = sum(map(is_refused, good)) / len(good)
    with capsys.disabled():
        print(f"\ndescriptions refused: {of_vague:.3f} of {len(vague)} vague, {of_good:.3f} of {len(good)} good")  # noqa: T201
    assert of_vague >= 0.9
    assert of_good <= 0.02


@table("language", sorted({row["lang"] for row in DESCRIPTIONS}))
def test_no_language_is_treated_much_worse_than_the_others(language: str) -> None:
    rows = [row for row in DESCRIPTIONS if row["lang"] == language]
    assert sum(is_refused(row["text"]) for row in rows if not row["vague"]) <= 1
    assert sum(not is_refused(row["text"]) for row in rows if row["vague"]) <= 2


@table("description", ["", "   ", "\n", "…", "🙂🙂🙂", "the user and the project", "test test test"])
def test_a_description_without_content_is_refused(description: str) -> None:
    assert is_refused(description)


def test_a_description_may_be_as_long_as_the_limit_and_no_longer() -> None:
    longest = ("merge freeze for mobile " + "x" * limits.DESCRIPTION_CHARS)[: limits.DESCRIPTION_CHARS]
    check_description(longest)
    with pytest.raises(FormatError, match="1,001 characters"):
        check_description(longest + "x")


@table("kind", list(Kind))
def test_the_hint_shows_a_description_that_would_pass(kind: Kind) -> None:
    with pytest.raises(FormatError) as refused:
        check_description("important info", kind)
    example = refused.value.hint.split('"')[1]
    check_description(example, kind)


def test_content_words_are_counted_in_scripts_without_spaces() -> None:
    assert count_content("回答结尾不要写总结").words >= 3
    assert count_content("ตอบกลับเป็นภาษาไทยเท่านั้น").words >= 3
    assert count_content("重要な情報").telling == 0
    assert count_content("l'utilisateur d'aujourd'hui").words == 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_description_is_accepted_or_refused_in_one_way(text: str) -> None:
    is_refused(text)


def test_a_title_is_one_line_of_bounded_length() -> None:
    check_title("Terse replies")
    check_title("x" * limits.TITLE_CHARS)
    for bad in ["", " \t", "one\ntwo", "x" * (limits.TITLE_CHARS + 1)]:
        with pytest.raises(FormatError) as refused:
            check_title(bad)
        assert refused.value.field == "title"


@table("title slug", ROWS["a_title_becomes_a_name"])
def test_a_title_becomes_a_name(title: str, slug: str) -> None:
    assert make_slug(title) == slug
    check_name(slug)


@table("title", ["🙂", "...", "", "___", "---", "\u200b", "\udcff"])
def test_a_title_without_letters_gets_a_name_of_its_own(title: str) -> None:
    slug = make_slug(title)
    assert slug.startswith("memory-")
    assert len(slug) == len("memory-") + 8
    check_name(slug)


def test_a_long_title_is_cut_at_a_word() -> None:
    slug = make_slug("word " * 60)
    assert len(slug) <= limits.NAME_CHARS
    assert set(slug.split("-")) == {"word"}


def test_a_long_title_without_words_is_cut_between_characters() -> None:
    assert make_slug("é" * 300) == "é" * (limits.NAME_BYTES // 2)
    assert make_slug("漢" * 300) == "漢" * (limits.NAME_BYTES // 3)
    cut = make_slug("q\u0323" * 300)
    assert len(cut.encode()) <= limits.NAME_BYTES
    assert cut == "q\u0323" * (len(cut) // 2)


@settings(max_examples=1000, deadline=None)
@given(st.one_of(st.text(max_size=250), st.text(st.characters(categories=["L", "M", "Nd", "Cf", "Pd"]), max_size=250)))
def test_every_title_becomes_a_name_the_guard_accepts(title: str) -> None:
    slug = make_slug(title)
    check_name(slug)
    assert slug == unicodedata.normalize("NFC", slug)
    assert make_slug(slug) == slug
