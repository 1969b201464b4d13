"""Text as terms: what counts as the same word, what counts for nothing, where passages end, which days are meant."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdir.recall.terms import PASSAGE_WORDS, make_term, match_date, parse_dates, parse_terms, split_passages
from tables import read_rows, table

ROWS = read_rows("recall_terms")

DAY = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)


@table("words", ["deploy deploys deployed deploying Deploy", "migration migrations migrate", "test's tests test’s"])
def test_forms_of_a_word_are_one_term(words: str) -> None:
    assert len({make_term(word) for word in words.split()}) == 1


def test_stop_words_count_for_nothing() -> None:
    assert parse_terms("What is the and of it, I'm sure you're not? Don't tell me") == [make_term("sure")]


def test_terms_stay_in_order_and_are_repeated() -> None:
    assert parse_terms("cache, queue; cache!") == [make_term("cache"), make_term("queue"), make_term("cache")]


@table("word parts", [("handleAuth", "handle auth"), ("HTTPServer", "http server"), ("parseURLPath", "parse url path")])
def test_a_camel_case_name_is_found_whole_and_by_its_parts(word: str, parts: str) -> None:
    terms = parse_terms(word)
    assert terms == [make_term(word), *map(make_term, parts.split())]


def test_a_snake_case_name_is_its_words() -> None:
    assert parse_terms("retry_budget") == parse_terms("retry budget")


def test_a_word_in_capitals_is_not_cut() -> None:
    assert parse_terms("HTTP") == ["http"]


@table("text", ["缓存穿透", "キャッシュ", "캐시서버"])
def test_cjk_runs_are_characters_and_pairs(text: str) -> None:
    terms = parse_terms(text)
    assert set(terms) == {*text, *(text[at : at + 2] for at in range(len(text) - 1))}


def test_latin_words_inside_cjk_are_terms_of_their_own() -> None:
    terms = parse_terms("用Redis做缓存v2")
    assert {make_term("Redis"), "缓存", "v2"} <= set(terms)
    assert "用R" not in terms


def test_each_line_is_a_passage_and_blank_lines_are_none() -> None:
    assert split_passages("one\n\n  two  \n \nthree") == ["one", "two", "three"]


def test_a_long_line_is_cut_at_sentence_ends_only() -> None:
    sentences = [f"Sentence number {at} has exactly these eight words." for at in range(30)]
    passages = split_passages(" ".join(sentences))
    assert len(passages) > 3
    assert " ".join(passages) == " ".join(sentences)
    for passage in passages:
        assert passage.endswith(".") and len(passage.split()) <= PASSAGE_WORDS


def test_a_long_chinese_line_is_cut_at_its_full_stops() -> None:
    line = "每次上线先放百分之五的流量观察半小时再决定。" * 30
    passages = split_passages(line)
    assert len(passages) > 1 and all(passage.endswith("。") for passage in passages)
    assert "".join(passages).replace(" ", "") == line


def test_a_long_line_without_a_sentence_end_stays_whole() -> None:
    line = "word " * 200
    assert split_passages(line) == [line.strip()]


@table("text dates", ROWS["dates_of_a_question_are_parsed"])
def test_dates_of_a_question_are_parsed(text: str, dates: list[list[int]]) -> None:
    assert [list(date) for date in parse_dates(text)] == dates


@table(
    "wanted worth",
    [((2026, 3, 5), 1.0), ((0, 3, 5), 1.0), ((0, 3, 0), 0.5), ((0, 3, 6), 0.25), ((2025, 3, 5), 0.0), ((0, 4, 5), 0.0)],
)
def test_a_day_answers_a_date_the_better_the_closer_it_is(wanted: tuple[int, int, int], worth: float) -> None:
    assert match_date([wanted], DAY) == worth


def test_no_date_is_answered_by_no_day() -> None:
    assert match_date([], DAY) == 0.0


@pytest.mark.slow
@given(st.text())
def test_no_text_makes_it_raise_and_no_term_holds_a_blank(text: str) -> None:
    for term in parse_terms(text):
        assert term and not term.split()[1:]
    assert all(passage.strip() for passage in split_passages(text))
    match_date(parse_dates(text), DAY)


@given(st.text(alphabet="0123456789-/ .,ndthmayrc漢字。"))
def test_nothing_that_looks_like_a_date_makes_it_raise(text: str) -> None:
    match_date(parse_dates(text), DAY)
    split_passages(text * 20)
