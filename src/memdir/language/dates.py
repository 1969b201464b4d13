"""Relative dates in text become absolute: "from Thursday", read on a given day, becomes "from 2026-11-19".

Precision comes first, since this rewrites what people wrote: code, paths, addresses and quotations stay as they are, and
so does whatever is not clearly a date: habits ("every Thursday"), names ("Black Friday"), ranges ("Monday to Friday"),
weekdays with their date beside them. A second run changes nothing. Tenses and times of day are not understood: "we met
on Thursday" is the coming one, as every bare weekday is, and "at 5pm" stays.

Where people disagree, all six languages follow the same rules:
- "next Thursday" is the coming one, as "this Thursday" is. Speakers split over it near the day itself, and the
  earlier date does less harm when it is a deadline. "Thursday next week" is the one of next week.
- The end of a week is its Friday: it is said of work. On a weekend it is the Friday to come.
- A span is not made more exact than it was said: "in two months" is a month, "two years ago" a year.
- "since Thursday" looks back, whatever a bare weekday does elsewhere.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any

from memdir.frozen import dataclass, field, replace
from memdir.language import CODES, read_section
from memdir.language.words import CJK, compile_any

_REACH = 60  # characters of context looked at on either side
_SENTENCE = 4 * _REACH
_SPACE = r"(?:[^\S\n]+\n?[^\S\n]*|\n[^\S\n]*)"
_LETTER = rf"[^\W{CJK}]"  # of a script whose words stand apart
_EDGES = {  # what may not touch a phrase: it would be part of a name, a path, a flag, a call
    True: (rf"(?<!{_LETTER})(?<![/\\@#$%=.~^+-])", rf"(?!{_LETTER}|[/\\@=(]|-\w|\.\w|['’](?=\w)(?!s\b))"),
    False: (r"(?<![/\\_@#$%=])", r"(?![/\\_@=]|-\w|\.\w)"),
}
_CLAUSE_START = re.compile(r"(?:\A|[\n.!?;:。！？；：(（—–>#|*+-]|\d[.)])[^\S\n]*\Z")
_SENTENCE_END = re.compile(r"[!?\n。！？]|\.(?=\s|\Z)")
_TO = r"\s*(?:to|through|thru|until|till|bis|à|au|a|al|から|到|至|[-–—~〜～/])\s*(?:the\s+|zum\s+|le\s+|el\s+)?"
_AND = r"\s*(?:and|und|et|y|和|と|及)\s*(?:le\s+|el\s+)?"
_FENCED = re.compile(r"^[ >]*(`{3,}|~{3,})[^\n]*(?:\n|\Z)(?:.*?^[ >]*\1[^\n]*(?:\n|\Z)|.*)", re.MULTILINE | re.DOTALL)
_BREAK = re.compile(r"\n\s*\n|\n(?=[^\S\n]*(?:[-*+#>|]|\d{1,9}[.)])[^\S\n])")
_CODE = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_PROSELESS = re.compile(
    r"""
      (?<!\w)[A-Za-z][A-Za-z0-9+.-]{1,20}://\S*            # an address
    | (?<!\w)www\.\S+
    | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+                 # mail
    | (?<![\w./\\~-])[A-Za-z0-9_.~@+-]*[/\\][A-Za-z0-9_./\\~@+:*-]*   # a path
    | \]\([^()\n]*\)                                       # where a link goes
    | \[\[[^\[\]\n]*\]\]                                   # a link to a memory
    | <[^<>\n]*>                                           # a tag
    | "[^"\n]*" | “[^“”\n]*” | „[^„“”\n]*[“”] | «[^«»\n]*» | ‹[^‹›\n]*› | 「[^「」\n]*」 | 『[^『』\n]*』
    | (?<!\w)'[^'\n]+'(?!\w) | ‘[^‘’\n]*’(?!\w)
    """,
    re.VERBOSE,
)
_FRIDAY = 4
_COLUMN = {"day": 0, "offset": 0, "span": 1, "year": 1, "week": 2}
_LABELLED = re.compile(r"[:(\[=|：（]\**[^\S\n]*\Z")
_APPOSED = re.compile(r"[^\S\n]*[,(（，、]?[^\S\n]*(?:(?:on|am)[^\S\n]+)?")
_LINE_END = re.compile(r"\r?\n[^\S\n]*")


class DateForm(StrEnum):
    """What a form stands for; the number beside it is a step, or the sign of one that the text counts out."""

    DAY = "day"
    WEEKDAY = "weekday"  # bare: the coming one
    SHORT = "short"  # bare and abbreviated: the coming one, and only behind a preposition
    COMING = "coming"
    PREVIOUS = "previous"
    IN_WEEK = "in_week"  # a weekday of the last, this or the next week
    DAYS = "days"
    WEEKS = "weeks"
    MONTHS = "months"
    YEARS = "years"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    WEEK_END = "week_end"
    MONTH_END = "month_end"
    QUARTER_END = "quarter_end"
    YEAR_END = "year_end"


FormTypes = tuple[DateForm, ...]
Form = tuple[str, DateForm, int] | tuple[str, DateForm, int, str]
Vetoes = Mapping[FormTypes, str]

_PERIODS: FormTypes = (DateForm.WEEK, DateForm.MONTH, DateForm.QUARTER, DateForm.YEAR)
_OFFSETS: FormTypes = (DateForm.DAYS, DateForm.WEEKS, DateForm.MONTHS, DateForm.YEARS)
_BARE: FormTypes = (DateForm.WEEKDAY, DateForm.SHORT)
_GROUPS: Mapping[str, FormTypes] = {  # names for several forms at once in the language files
    "periods": _PERIODS,
    "offsets": _OFFSETS,
    "bare": _BARE,
    "named": (*_BARE, DateForm.COMING, DateForm.PREVIOUS),
    "ends": (DateForm.WEEK_END, DateForm.MONTH_END, DateForm.QUARTER_END, DateForm.YEAR_END),
}


@dataclass(frozen=True, slots=True, eq=False)  # its compiled patterns are cached by identity
class DateLanguage:
    """One language.

    A form is (pattern, what it means, a number[, words put after the date]). In a pattern a space is any white space
    within a paragraph, `{N}` a number, `{W}` a weekday, `{A}` a short weekday; its first letter may be a capital unless
    it starts with `=`. The first form that matches counts, so longer ones come first.
    """

    forms: tuple[Form, ...]
    weekdays: tuple[str, ...]
    numbers: Mapping[str, int]
    # small letters of which every form holds one: a text without any of them need not be looked at
    stems: tuple[str, ...]
    before: Vetoes = field(default_factory=dict)  # contexts that veto a form, as regular expressions that touch it
    after: Vetoes = field(default_factory=dict)  # contexts that veto a form, as regular expressions that touch it
    follows: Vetoes = field(default_factory=dict)  # what must follow a form, where a language is that strict
    # what stands before -> what then stands before a date, a month or year, a week
    prepositions: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    # what is put before when nothing stands there: "day", "offset", "span", "year", "week"
    glue: Mapping[str, str] = field(default_factory=dict)
    opens: tuple[str, ...] = ()  # prepositions that free a weekday at the start of a clause from `follows`
    past: tuple[str, ...] = ()  # prepositions that turn a bare weekday into the previous one
    short: tuple[str, ...] = ()
    habit: str = "(?!)"  # words that make the weekdays of a whole sentence a habit
    verbs: str = "(?!)"  # verbs after which a period at the start of a clause is seen to be the subject: no glue
    # (words, expected, unexpected): words counted only where their language shows in the same line
    needs: tuple[str, str, str] = ("(?!)", "", "")
    week: str = "{}"
    year: str = "{}"
    spaced: bool = True


@dataclass(frozen=True, slots=True)
class DatePhrase:
    """Words that have the form of a relative date: from `start`, behind a preposition from `core`, up to `end`."""

    language: DateLanguage
    start: int
    core: int
    end: int
    what: DateForm
    step: int
    tail: str
    count: int
    weekday: int
    preposition: str


@dataclass(frozen=True, slots=True)
class ReplacedDate:
    """One phrase of the text, where it stood, and what stands there now."""

    start: int
    end: int
    was: str
    now_text: str


def make_absolute(text: str, now: datetime) -> tuple[str, tuple[ReplacedDate, ...]]:
    """The text with its relative dates absolute, seen from `now` in its own zone, and what was replaced."""
    today, replaced = now.date(), []
    for start, end in _find_blocks(text):
        block = text[start:end]
        found = tuple(_replace(block, today))
        # A block that a second run would go on changing was not understood.
        if found and not any(_replace(_apply(block, found), today)):
            replaced += [replace(one, start=start + one.start, end=start + one.end) for one in found]
    return _apply(text, replaced), tuple(replaced)


def _apply(text: str, done: Sequence[ReplacedDate]) -> str:
    parts, place = [], 0
    for one in done:
        parts += [text[place : one.start], one.now_text]
        place = one.end
    return "".join([*parts, text[place:]])


def _replace(text: str, today: date) -> Iterator[ReplacedDate]:
    phrases = _find_phrases(text)
    for pattern in (_CODE, _PROSELESS) if phrases else ():
        masked = pattern.sub(lambda found: "\0" * len(found[0]), text)
        phrases = [one for one in phrases if "\0" not in masked[one.start : one.end]]
    touched = -1  # where the last date ended: two that touch are set apart
    for place, one in enumerate(phrases):
        beside = [*phrases[max(0, place - 1) : place], *phrases[place + 1 : place + 2]]
        if not _is_meant(text, one) or any(_is_spoken_for(text, one, other, today) for other in beside):
            continue
        words = _render(text, one, today)
        replaced = _keep_line_end(text, one, words) if words else None
        if replaced is not None:
            touches = replaced.start == touched and replaced.now_text[0].isdigit()
            yield replace(replaced, now_text=f" {replaced.now_text}") if touches else replaced
            touched = replaced.end


def _is_spoken_for(text: str, one: DatePhrase, other: DatePhrase, today: date) -> bool:
    """Whether the phrase beside it already gives the date of this weekday ("tomorrow, Monday"), or contradicts it."""
    first, second = (one, other) if one.core < other.core else (other, one)
    if (one.what in _BARE) == (other.what in _BARE) or not _APPOSED.fullmatch(text[first.end : second.core]):
        return False
    if other.what is DateForm.DAY:
        return (today.weekday() + other.step) % 7 == one.weekday
    return bool({one.what, other.what} & {*_OFFSETS, *_PERIODS})


def _render(text: str, one: DatePhrase, today: date) -> str:
    """What to write instead; nothing when the date lies beyond the calendar."""
    try:
        day = _resolve(one, today)
    except (OverflowError, ValueError):
        return ""
    grain, words = _write_date(one, day)
    before = one.language.prepositions[one.preposition][_COLUMN[grain]] if one.preposition else _glue(text, one, grain)
    words = f"{before.strip()} {words}{one.tail}".strip()
    if text[one.start].isupper():
        words = words[0].upper() + words[1:]
    if one.language.spaced:
        return words
    # In a language without spaces a date still needs one beside digits and Latin letters.
    before, after = text[one.start - 1 : one.start] if one.start else "", text[one.end : one.end + 1]
    left = " " if before.isascii() and before.isalnum() else ""
    right = " " if after.isascii() and after.isalnum() and words[-1].isascii() else ""
    return f"{left}{words}{right}"


def _resolve(one: DatePhrase, today: date) -> date:
    step = one.step * one.count if one.what in _OFFSETS else one.step
    monday = today - timedelta(days=today.weekday())
    match one.what:
        case DateForm.DAY | DateForm.DAYS:
            return today + timedelta(days=step)
        case DateForm.WEEKS:
            return today + timedelta(weeks=step)
        case DateForm.WEEKDAY | DateForm.SHORT | DateForm.COMING | DateForm.PREVIOUS:
            back = one.what is DateForm.PREVIOUS or (one.what in _BARE and one.preposition in one.language.past)
            ahead = (one.weekday - today.weekday() - 1) % 7 + 1  # 1 to 7: today is never meant
            behind = (today.weekday() - one.weekday - 1) % 7 + 1
            return today + timedelta(days=-behind if back else ahead)
        case DateForm.IN_WEEK | DateForm.WEEK:
            return monday + timedelta(weeks=step, days=one.weekday)
        case DateForm.WEEK_END:
            late = step == 0 and today.weekday() > _FRIDAY
            return monday + timedelta(weeks=step + late, days=_FRIDAY)
        case DateForm.MONTH | DateForm.MONTHS:
            return _first_of_month(today, step)
        case DateForm.QUARTER:
            return _first_of_month(today, 3 * step - (today.month - 1) % 3)
        case DateForm.YEAR | DateForm.YEARS:
            return date(today.year + step, 1, 1)
        case DateForm.MONTH_END:
            return _first_of_month(today, step + 1) - timedelta(days=1)
        case DateForm.QUARTER_END:
            return _first_of_month(today, 3 * (step + 1) - (today.month - 1) % 3) - timedelta(days=1)
        case DateForm.YEAR_END:
            return date(today.year + step, 12, 31)


def _first_of_month(today: date, step: int) -> date:
    year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
    return date(year, month + 1, 1)


def _write_date(one: DatePhrase, day: date) -> tuple[str, str]:
    """The grain of the phrase, and its date no more exact than it was said."""
    match one.what:
        case DateForm.WEEK:
            return "week", one.language.week.format(day.isoformat())
        case DateForm.MONTH | DateForm.MONTHS:
            return "span", day.isoformat()[:7]
        case DateForm.QUARTER:
            return "span", f"{day.year:04d}-Q{(day.month + 2) // 3}"
        case DateForm.YEAR | DateForm.YEARS:
            return "year", one.language.year.format(f"{day.year:04d}")
        case DateForm.DAYS | DateForm.WEEKS:
            return "offset", day.isoformat()
    return "day", day.isoformat()


def _glue(text: str, one: DatePhrase, grain: str) -> str:
    """What grammar needs before the date when no preposition stands there."""
    low = max(0, one.start - _REACH)
    after = text[one.end : one.end + _REACH]
    if _LABELLED.search(text, low, one.start) or after.startswith(("'s", "’s")):
        return ""
    if one.what in _OFFSETS or grain == "week":
        return one.language.glue.get(grain, "")
    verbs = one.language.verbs if one.what in _PERIODS else "(?!)"
    if _starts_clause(text, one.start) and re.match(rf"\s*(?:\Z|\n|[:：]|(?:{verbs})\b)", after):
        return ""
    is_named = one.what in _PERIODS and compile_any("month_before").search(text, low, one.start)
    return "" if is_named else one.language.glue.get(grain, "")


def _keep_line_end(text: str, one: DatePhrase, words: str) -> ReplacedDate | None:
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
    return ReplacedDate(start, one.end, text[start : one.end], words)


def _find_phrases(text: str) -> list[DatePhrase]:
    """Every phrase of every language, meant or not, in order and apart; of two that overlap the earlier, the longer."""
    lower = text.lower()
    candidates = [language for language in load_date_languages() if any(stem in lower for stem in language.stems)]
    found = [one for language in candidates for one in _find_in_language(text, language)]
    apart: list[DatePhrase] = []
    for one in sorted(found, key=lambda one: (one.core, -one.end)):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return apart


def _is_meant(text: str, one: DatePhrase) -> bool:
    """Whether nothing around the phrase says that it is something else."""
    low = max(0, one.start - _REACH)
    if one.what is DateForm.SHORT and not one.preposition:
        return False
    if compile_any("date_after").match(text, one.end) or compile_any("date_before").search(text, low, one.start):
        return False
    if _is_vetoed(text, one) or not _has_language(text, one):
        return False
    if one.what not in _BARE:
        return True
    # Monday to Friday: mostly a habit, and the coming Friday may be before the Monday.
    upto, since = _compile_ranges()
    return not (_is_habit(text, one) or upto.match(text, one.end) or since.search(text, low, one.core))


def _starts_clause(text: str, place: int) -> bool:
    """Whether a clause, a line or a list item begins there."""
    return _CLAUSE_START.search(text, max(0, place - _REACH), place) is not None


def _find_in_language(text: str, language: DateLanguage) -> Iterator[DatePhrase]:
    forms = _compile_forms(language)
    days = [*enumerate(language.weekdays), *enumerate(language.short)]
    for match in forms.finditer(text):
        name = match.lastgroup or ""
        _, what, step, *tail = language.forms[int(name[1:])]
        word = next((group for group in match.groups()[forms.groupindex[name] :] if group is not None), "")
        start, preposition = _find_preposition(text, language, match.start(), what)
        yield DatePhrase(
            language=language,
            start=start,
            core=match.start(),
            end=match.end(),
            what=what,
            step=step,
            tail=tail[0] if tail else "",
            count=0 if what not in _OFFSETS else (language.numbers.get(word.lower()) or int(word)) if word else 1,
            weekday=next((day for day, name in days if word and re.fullmatch(name, word)), 0),
            preposition=preposition,
        )


def _find_preposition(text: str, language: DateLanguage, core: int, what: DateForm) -> tuple[int, str]:
    """Where the phrase begins, and the preposition there: none if it stays as it is before a week."""
    before = _compile_prepositions(language).search(text, max(0, core - _REACH), core)
    if before is None:
        return core, ""
    word = " ".join(before[1].lower().split())
    word = word if word in language.prepositions else word.capitalize()
    return (core, "") if what is DateForm.WEEK and not language.prepositions[word][2] else (before.start(), word)


def _is_vetoed(text: str, one: DatePhrase) -> bool:
    before, after, follows = (
        [pattern for forms, pattern in vetoes.items() if one.what in forms]
        for vetoes in (one.language.before, one.language.after, one.language.follows)
    )
    for veto in before:
        ending = re.compile(rf"(?:{veto})\Z", re.IGNORECASE)
        if any(ending.search(text, max(0, place - _REACH), place) for place in {one.core, one.start}):
            return True
    rest = text[one.end : one.end + _REACH]
    if any(re.match(veto, rest) for veto in after):
        return True
    opens = one.preposition in one.language.opens and _starts_clause(text, one.start)
    return not (opens and not rest[:2].strip().isupper()) and any(not re.match(must, rest) for must in follows)


def _is_habit(text: str, one: DatePhrase) -> bool:
    low, high = max(0, one.start - _SENTENCE), one.end + _SENTENCE
    starts = [match.end() for match in _SENTENCE_END.finditer(text, low, one.start)]
    stop = _SENTENCE_END.search(text, one.end, high)
    sentence = text[starts[-1] if starts else low : stop.start() if stop else high]
    return any(re.search(language.habit, sentence, re.IGNORECASE) for language in load_date_languages())


def _has_language(text: str, one: DatePhrase) -> bool:
    words, expected, unexpected = one.language.needs
    if not re.fullmatch(words, text[one.core : one.end]):
        return True
    line = text[text.rfind("\n", 0, one.start) + 1 : one.start] + text[one.end :].partition("\n")[0]
    return bool(re.search(expected, line, re.IGNORECASE)) and not re.search(unexpected, line)


@cache
def _compile_forms(language: DateLanguage) -> re.Pattern[str]:
    before, after = _EDGES[language.spaced]
    start = r"\w"  # what a form may start with, to pass over most places quickly
    if not language.spaced:
        patterns = "".join([*(form[0] for form in language.forms), *language.weekdays, *language.numbers])
        start = f"[0-9{''.join(sorted({letter for letter in patterns if not letter.isascii()}))}]"
    forms = "|".join(f"(?P<f{place}>{_spell(language, form[0])})" for place, form in enumerate(language.forms))
    return re.compile(rf"{before}(?={start})(?:{forms}){after}", re.MULTILINE)


def _spell(language: DateLanguage, pattern: str) -> str:
    """A form as a regular expression: the first letter in both cases, spaces, numbers and weekdays filled in."""
    if pattern[0].isalpha() and language.spaced:
        pattern = f"[{pattern[0]}{pattern[0].upper()}]{pattern[1:]}"
    words = [*language.numbers, *(word.capitalize() for word in language.numbers)]
    # four digits are a year, and a digit or dash before makes it part of a larger thing
    number = rf"(?<![\d.,–-])((?:[0-9０-９]{{1,3}}|{'|'.join(sorted(words, key=len, reverse=True))})(?![\d.,]))"
    spelled = pattern.removeprefix("=").replace(" ", _SPACE if language.spaced else " ").replace("{N}", number)
    weekdays, short = ("|".join(names) for names in (language.weekdays, language.short))
    return spelled.replace("{W}", f"({weekdays})").replace("{A}", f"({short})")


@cache
def _compile_prepositions(language: DateLanguage) -> re.Pattern[str]:
    words = sorted(language.prepositions, key=len, reverse=True)
    spelled = "|".join(
        re.escape(word).replace(r"\ ", _SPACE) + ("" if word[-1] in "'’" else rf"(?={_SPACE})") for word in words
    )
    return re.compile(rf"(?<![\w'’-])((?i:{spelled})){_SPACE}?\Z" if words else "(?!)")


@cache
def _compile_ranges() -> tuple[re.Pattern[str], re.Pattern[str]]:
    names = [name for language in load_date_languages() if language.spaced for name in language.weekdays]
    weekday = rf"(?:{'|'.join(names)}|(?:周|週|星期)[一二三四五六日天]|[月火水木金土日]曜日?)"
    part = r"(?:\s+(?:morning|afternoon|evening|night|soir|matin|abend))?"
    since = rf"(?:{weekday}{part}{_TO}|(?:between|zwischen|entre)\s+(?:el\s+)?{weekday}{_AND})(?:on\s+|am\s+)?"
    return re.compile(rf"{part}{_TO}{weekday}"), re.compile(rf"{since}\Z")


@cache
def load_date_languages() -> tuple[DateLanguage, ...]:
    return tuple(_make_language(read_section(code, "dates")) for code in CODES)


def _make_language(section: dict[str, Any]) -> DateLanguage:
    section["forms"] = tuple((pattern, DateForm(what), *rest) for pattern, what, *rest in section["forms"])
    section["numbers"] = {word: at for at, words in enumerate(section["numbers"], 1) for word in words.split()}
    section["prepositions"] = {word: tuple(before) for word, *before in section.get("prepositions", ())}
    for key in ("before", "after", "follows"):
        section[key] = {
            tuple(form for name in names.split() for form in _GROUPS.get(name) or (DateForm(name),)): pattern
            for names, pattern in section.get(key, {}).items()
        }
    return DateLanguage(**section)


def _find_blocks(text: str) -> Iterator[tuple[int, int]]:
    """The prose of a text, block by block: paragraphs and list items, outside of fences."""
    place = 0
    for start, end in [*(found.span() for found in _FENCED.finditer(text)), (len(text), len(text))]:
        for gap in [*_BREAK.finditer(text, place, start), None]:
            stop = gap.start() if gap else start
            if text[place:stop].strip():
                yield place, stop
            place = gap.end() if gap else end
