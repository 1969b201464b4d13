"""Relative dates in text become absolute: "from Thursday", read against a given day, says "from 2026-11-19".

Precision first, since it rewrites what people wrote: code, paths, addresses and quotations are left as they are, and so
is whatever is not clearly a date. Pure; a second run changes nothing. It does not know tenses or times of day: "we met
on Thursday" is the coming one, as every bare weekday is, and "at 5pm" stays where it stands.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from memdir.frozen import dataclass, replace
from memdir.phrases import MONTHS, REACH, Phrase, find_phrases, is_meant, starts_clause
from memdir.shield import find_blocks, find_shielded, is_shielded
from memdir.tongues.grammar import BARE, OFFSETS, PERIODS, What

_FRIDAY = 4
_COLUMN = {"day": 0, "offset": 0, "span": 1, "year": 1, "week": 2}
_MONTH_BEFORE = re.compile(rf"(?<!\w)(?:{MONTHS}|Q[1-4])[^\S\n]+\Z", re.IGNORECASE)
_LABELLED = re.compile(r"[:(\[=|：（]\**[^\S\n]*\Z")
_APPOSED = re.compile(r"[^\S\n]*[,(（，、]?[^\S\n]*(?:(?:on|am)[^\S\n]+)?")
_LINE_END = re.compile(r"\r?\n[^\S\n]*")


@dataclass(frozen=True, slots=True)
class Replaced:
    """One phrase of the text, where it stood, and what stands there now."""

    start: int
    end: int
    was: str
    now_text: str


def make_absolute(text: str, now: datetime) -> tuple[str, tuple[Replaced, ...]]:
    """The text with its relative dates absolute, seen from `now` in its own zone, and what was replaced."""
    done = tuple(
        replace(one, start=start + one.start, end=start + one.end)
        for start, end in find_blocks(text)
        for one in _rewrite(text[start:end], now.date())
    )
    return _apply(text, done), done


def _rewrite(block: str, today: date) -> tuple[Replaced, ...]:
    """What to replace in a block: nothing if a second run would go on changing it, for then it was not understood."""
    done = tuple(_replace(block, today))
    return () if done and any(_replace(_apply(block, done), today)) else done


def _apply(text: str, done: tuple[Replaced, ...]) -> str:
    parts, place = [], 0
    for one in done:
        parts += [text[place : one.start], one.now_text]
        place = one.end
    return "".join([*parts, text[place:]])


def _replace(text: str, today: date) -> Iterator[Replaced]:
    found = find_phrases(text)
    shielded = find_shielded(text) if found else ()
    phrases = [one for one in found if not is_shielded(shielded, one.start, one.end)]
    touched = -1  # where the last date ended: two that touch are set apart
    for place, one in enumerate(phrases):
        beside = [*phrases[max(0, place - 1) : place], *phrases[place + 1 : place + 2]]
        if not is_meant(text, one) or any(_is_spoken_for(text, one, other, today) for other in beside):
            continue
        words = _render(text, one, today)
        replaced = _keep_line_end(text, one, words) if words else None
        if replaced is not None:
            touches = replaced.start == touched and replaced.now_text[0].isdigit()
            yield replace(replaced, now_text=f" {replaced.now_text}") if touches else replaced
            touched = replaced.end


def _is_spoken_for(text: str, one: Phrase, other: Phrase, today: date) -> bool:
    """Whether the phrase beside it already gives the date of this weekday ("tomorrow, Monday"), or contradicts it."""
    first, second = (one, other) if one.core < other.core else (other, one)
    if (one.what in BARE) == (other.what in BARE) or not _APPOSED.fullmatch(text[first.end : second.core]):
        return False
    if other.what is What.DAY:
        return (today.weekday() + other.step) % 7 == one.weekday
    return bool({one.what, other.what} & {*OFFSETS, *PERIODS})


def _render(text: str, one: Phrase, today: date) -> str:
    """What to write instead; nothing when the date lies beyond the calendar."""
    try:
        day = _resolve(one, today)
    except (OverflowError, ValueError):
        return ""
    grain, words = _write_date(one, day)
    before = one.tongue.prepositions[one.preposition][_COLUMN[grain]] if one.preposition else _glue(text, one, grain)
    words = f"{before.strip()} {words}{one.tail}".strip()
    if text[one.start].isupper():
        words = words[0].upper() + words[1:]
    return words if one.tongue.spaced else _set_apart(text, one, words)


def _resolve(one: Phrase, today: date) -> date:
    step = one.step * one.count if one.what in OFFSETS else one.step
    monday = today - timedelta(days=today.weekday())
    match one.what:
        case What.DAY | What.DAYS:
            return today + timedelta(days=step)
        case What.WEEKS:
            return today + timedelta(weeks=step)
        case What.WEEKDAY | What.SHORT | What.COMING | What.PREVIOUS:
            back = one.what is What.PREVIOUS or (one.what in BARE and one.preposition in one.tongue.past)
            ahead = (one.weekday - today.weekday() - 1) % 7 + 1  # 1 to 7: today is never meant
            behind = (today.weekday() - one.weekday - 1) % 7 + 1
            return today + timedelta(days=-behind if back else ahead)
        case What.IN_WEEK:
            return monday + timedelta(weeks=step, days=one.weekday)
        case What.WEEK:
            return monday + timedelta(weeks=step)
        case What.WEEK_END:
            late = step == 0 and today.weekday() > _FRIDAY
            return monday + timedelta(weeks=step + late, days=_FRIDAY)
        case What.MONTH | What.MONTHS:
            return _first_of_month(today, step)
        case What.QUARTER:
            return _first_of_month(today, 3 * step - (today.month - 1) % 3)
        case What.YEAR | What.YEARS:
            return date(today.year + step, 1, 1)
        case What.MONTH_END:
            return _first_of_month(today, step + 1) - timedelta(days=1)
        case What.QUARTER_END:
            return _first_of_month(today, 3 * (step + 1) - (today.month - 1) % 3) - timedelta(days=1)
        case What.YEAR_END:
            return date(today.year + step, 12, 31)


def _first_of_month(today: date, step: int) -> date:
    year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
    return date(year, month + 1, 1)


def _write_date(one: Phrase, day: date) -> tuple[str, str]:
    """The grain of the phrase, and its date no more exact than it was said."""
    match one.what:
        case What.WEEK:
            return "week", one.tongue.week.format(day.isoformat())
        case What.MONTH | What.MONTHS:
            return "span", day.isoformat()[:7]
        case What.QUARTER:
            return "span", f"{day.year:04d}-Q{(day.month + 2) // 3}"
        case What.YEAR | What.YEARS:
            return "year", one.tongue.year.format(f"{day.year:04d}")
        case What.DAYS | What.WEEKS:
            return "offset", day.isoformat()
    return "day", day.isoformat()


def _glue(text: str, one: Phrase, grain: str) -> str:
    """What grammar needs before the date when no preposition stands there."""
    low = max(0, one.start - REACH)
    after = text[one.end : one.end + REACH]
    if _LABELLED.search(text, low, one.start) or after.startswith(("'s", "’s")):
        return ""
    if one.what in OFFSETS or grain == "week":
        return one.tongue.glue.get(grain, "")
    verbs = one.tongue.verbs if one.what in PERIODS else "(?!)"
    if starts_clause(text, one.start) and re.match(rf"\s*(?:\Z|\n|[:：]|(?:{verbs})\b)", after):
        return ""
    return "" if one.what in PERIODS and _MONTH_BEFORE.search(text, low, one.start) else one.tongue.glue.get(grain, "")


def _set_apart(text: str, one: Phrase, words: str) -> str:
    """In a language without spaces a date still needs one beside digits and Latin letters."""
    before, after = text[one.start - 1 : one.start] if one.start else "", text[one.end : one.end + 1]
    left = " " if before.isascii() and before.isalnum() else ""
    right = " " if after.isascii() and after.isalnum() and words[-1].isascii() else ""
    return f"{left}{words}{right}"


def _keep_line_end(text: str, one: Phrase, words: str) -> Replaced | None:
    """The replacement; of a phrase that runs over a line end it goes to the next line, so that no lines are joined."""
    start, was = one.start, text[one.start : one.end]
    ends = _LINE_END.findall(was)
    if ends:
        start = len(text[:start].rstrip(" \t"))
        wraps = 0 < start < one.start and (text[start - 1].isalnum() or text[start - 1] in ",;.)")
        numbers = words[0].isdigit() and text[one.end : one.end + 1] in {".", ")"}  # would begin a numbered list
        if len(ends) > 1 or not wraps or numbers:
            return None
        words = ends[0] + words
    return Replaced(start, one.end, text[start : one.end], words)
