"""Relative dates: tables in six languages, and what must hold for any text. Now is a Sunday, 2026-11-15."""

import json
import tomllib
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memdir.language.dates import make_absolute
from tables import read_rows, table

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=timezone(timedelta(hours=1)))

ROWS = read_rows("dates")
LANGUAGES = [ROWS[name] for name in ("ENGLISH", "GERMAN", "FRENCH", "SPANISH", "CHINESE", "JAPANESE")]
POSITIVE = [row for rows in LANGUAGES for row in rows]

LEFT_ALONE = [row for rows in ROWS["LEFT_ALONE"].values() for row in rows]

DATA = Path(__file__).parents[1] / "data"
SENTENCES = tomllib.loads((DATA / "dates.toml").read_text(encoding="utf-8"))["rows"]
OTHERS = [json.loads(line) for line in (DATA / "dates_other.jsonl").read_text(encoding="utf-8").splitlines()]

WORDS = [
    *"every each the a on by in of at weekly Thursday Monday Fri tomorrow today yesterday ago next last this".split(),
    *"week month year end two 3 days weeks and or to 2026-11-19 March since from we is was 's week. \" ' `".split(),
    *"( ) , . : ".split(),
    *"morgen Montag nächste Woche heute vor zwei Tagen bis demain lundi le prochain hier dans jours la semaine".split(),
    *"prochaine mañana el jueves hoy hace días que viene 明天 周四 下周 3天后 今日 来週 木曜日 の".split(),
    "\n",
]
PLAIN = [*"parser cache deploy branch the of and with 42 2026-11-19 Fehler données prueba 测试 型 , .".split(), "\n"]


@table("row", [*SENTENCES, *OTHERS])
def test_one_occasion_becomes_a_date_and_a_habit_does_not(row: dict[str, Any]) -> None:
    said = datetime.fromisoformat(row.get("said", "2026-11-18T10:00:00+01:00"))
    _, replaced = make_absolute(row["text"], said.astimezone(ZoneInfo(row["tz"])) if "tz" in row else said)
    found = [(one.was, one.now_text) for one in replaced]
    assert len(found) == len(row["expect"]), found
    for (was, now), (phrase, day) in zip(found, row["expect"], strict=True):
        assert (was.lower() in phrase.lower() or phrase.lower() in was.lower()) and day in now, found


@table("text expected", POSITIVE)
def test_a_relative_date_becomes_absolute(text: str, expected: str) -> None:
    found, replaced = make_absolute(text, NOW)
    assert found == expected
    assert replaced


@table("text expected", POSITIVE)
def test_a_second_run_changes_nothing(text: str, expected: str) -> None:
    assert make_absolute(expected, NOW) == (expected, ())


@table("text", LEFT_ALONE)
def test_what_is_no_relative_date_is_left_alone(text: str) -> None:
    assert make_absolute(text, NOW) == (text, ())


@table("table", [*LANGUAGES, POSITIVE])
def test_a_long_text_is_read_as_its_paragraphs_are(table: list[tuple[str, str]]) -> None:
    whole, _ = make_absolute("\n\n".join(text for text, _ in table), NOW)
    assert whole.split("\n\n") == [expected for _, expected in table]
    lines = [(text, expected) for text, expected in table if "\n" not in text]
    whole, _ = make_absolute("\n".join(f"- {text}" for text, _ in lines), NOW)
    assert whole.split("\n") == [f"- {expected}" for _, expected in lines]


@table("day text expected", ROWS["the_day_it_is_read_on_counts"])
def test_the_day_it_is_read_on_counts(day: str, text: str, expected: str) -> None:
    now = datetime.fromisoformat(f"{day}T09:00:00+00:00")
    assert make_absolute(text, now)[0] == expected


def test_the_zone_of_now_decides_which_day_it_is() -> None:
    moment = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)
    assert make_absolute("today", moment)[0] == "2026-11-15"
    assert make_absolute("today", moment.astimezone(timezone(timedelta(hours=9))))[0] == "2026-11-16"


def test_a_replacement_says_where_it_stood_and_what_it_was() -> None:
    text = "Freeze from Thursday, thaw in two weeks."
    found, replaced = make_absolute(text, NOW)
    assert [(one.was, one.now_text) for one in replaced] == [
        ("Thursday", "2026-11-19"),
        ("in two weeks", "on 2026-11-29"),
    ]
    assert all(text[one.start : one.end] == one.was for one in replaced)
    assert found == "Freeze from 2026-11-19, thaw on 2026-11-29."


@pytest.mark.parametrize("now", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
@table("text", [text for text, _ in POSITIVE])
def test_the_edges_of_the_calendar_raise_nothing(text: str, now: datetime) -> None:
    make_absolute(text, now)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from([" ", " ", ""]))
def test_any_mix_of_date_words_is_read_once(words: list[str], between: str) -> None:
    text = between.join(words)
    once, replaced = make_absolute(text, NOW)
    assert all(text[one.start : one.end] == one.was for one in replaced)
    assert make_absolute(once, NOW)[0] == once


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_without_raising(text: str) -> None:
    once = make_absolute(text, NOW)[0]
    assert make_absolute(once, NOW)[0] == once


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PLAIN)))
def test_text_without_date_words_is_unchanged(words: list[str]) -> None:
    text = " ".join(words)
    assert make_absolute(text, NOW) == (text, ())
