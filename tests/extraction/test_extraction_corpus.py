"""The labelled messages are enough, evenly spread and soundly labelled. What the extractor makes of them is not asked.

A failure names rows by id, never by text, so that a run shows nobody the measured third.
"""

import json
import re
import unicodedata
from collections import Counter
from typing import Any

from extraction_corpus import CORPUS, Row, Want, is_met, read_corpus, read_measured, read_tuning
from memdir.records import Kind
from tables import table

LANGUAGES = {"en": 110, "de": 26, "fr": 26, "es": 26, "zh": 26, "ja": 26}
CATEGORIES = {"request", "correction", "confirmation", "identity", "deadline", "decision", "pointer", "forget"}
KINDS = {
    "correction": {Kind.FEEDBACK},
    "confirmation": {Kind.FEEDBACK},
    "identity": {Kind.USER},
    "deadline": {Kind.PROJECT},
    "decision": {Kind.PROJECT},
    "pointer": {Kind.REFERENCE},
}
EXPLICIT_AT_LEAST = 12  # requests and forgets in each language
KEYS = {"id", "lang", "date", "text", "want", "note"}
ISO_DATE = re.compile(r"\d{4}-(?:\d\d(?:-\d\d)?|Q[1-4])", re.IGNORECASE)


def read_lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def find_wants(rows: tuple[Row, ...]) -> list[tuple[Row, Want]]:
    return [(row, want) for row in rows for want in row.want]


def fold(text: str) -> str:
    """Letters and digits alone: what differs only in case, width or punctuation is the same message."""
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


@table("lang least", LANGUAGES.items())
def test_each_language_has_enough_messages_with_and_without_something_to_save(lang: str, least: int) -> None:
    full = Counter(bool(row.want) for row in read_corpus() if row.lang == lang)
    assert min(full[True], full[False]) >= least


@table("lang", LANGUAGES)
def test_explicit_requests_are_there_in_each_language(lang: str) -> None:
    wants = [want for row, want in find_wants(read_corpus()) if row.lang == lang]
    assert sum(want.category in {"request", "forget"} for want in wants) >= EXPLICIT_AT_LEAST


def test_the_corpus_holds_at_least_240_of_each_sort_and_no_other_language() -> None:
    full = Counter(bool(row.want) for row in read_corpus())
    assert min(full[True], full[False]) >= 240
    assert {row.lang for row in read_corpus()} == set(LANGUAGES)


def test_each_row_has_its_fields_and_no_others() -> None:
    fields = {"kind", "category", "action", "must", "not"}
    for row in read_lines():
        assert KEYS <= set(row) <= KEYS | {"before"}, row["id"]
        assert {frozenset(want) for want in row["want"]} <= {frozenset(fields)}, row["id"]
    assert [row["id"] for row in read_lines() if not row["note"] or row["text"].strip() != (row["text"] or " ")] == []


def test_ids_count_up_from_one() -> None:
    assert [row.id for row in read_corpus()] == [f"x{place:03d}" for place in range(1, len(read_corpus()) + 1)]


def test_each_message_has_a_date_with_a_zone() -> None:
    assert [row.id for row in read_corpus() if row.when.tzinfo is None] == []


def test_no_message_stands_there_twice() -> None:
    counts = Counter(fold(row.text) for row in read_corpus())
    assert [row.id for row in read_corpus() if counts[fold(row.text)] > 1] == []


def test_categories_are_known_and_fit_their_kind() -> None:
    for row, want in find_wants(read_corpus()):
        assert want.category in CATEGORIES, row.id
        assert want.kind in KINDS.get(want.category, set(Kind)), row.id
        assert want.action == ("forget" if want.category == "forget" else "save"), row.id


def was_said(row: Row, words: str) -> bool:
    return words.casefold() in f"{row.text}\n{row.before or ''}".casefold()


def test_what_must_be_saved_was_said_or_is_an_absolute_date() -> None:
    wants = find_wants(read_corpus())
    pairs = [(row, one.split("|")) for row, want in wants for one in want.must]
    assert [row.id for row, want in wants if not want.must] == []
    assert [
        row.id for row, ways in pairs if not any(ISO_DATE.fullmatch(way) or was_said(row, way) for way in ways)
    ] == []


def test_what_must_not_be_saved_was_said_and_is_not_asked_for() -> None:
    pairs = [(row, want, one) for row, want in find_wants(read_corpus()) for one in want.unwanted]
    assert [row.id for row, _, one in pairs if not was_said(row, one)] == []
    assert [row.id for row, want, one in pairs if one.casefold() in "|".join(want.must).casefold()] == []


def test_about_a_third_is_measured_and_the_rest_is_for_tuning() -> None:
    tuning, measured = read_tuning(), read_measured()
    assert len(tuning) + len(measured) == len(read_corpus())
    assert 0.28 < len(measured) / len(read_corpus()) < 0.39
    assert {row.lang for row in measured} == {row.lang for row in tuning} == set(LANGUAGES)


def test_a_label_is_met_by_any_of_its_spellings_in_any_case() -> None:
    want = Want(Kind.PROJECT, "deadline", "save", ("beta", "march 31|03-31"), ("tomorrow",))
    assert is_met(want, "Beta due on 2027-03-31")
    assert not is_met(want, "Beta due soon")
    assert not is_met(want, "Beta due March 31, so not tomorrow")
