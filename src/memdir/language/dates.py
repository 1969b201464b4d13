"""Relative dates in text become absolute: "from Thursday", read on a given day, becomes "from 2026-11-19".

One occasion becomes a date, a habit does not, and what is not certain is left alone: this rewrites what people wrote.
Code, paths, addresses and quotations stay as they are, and so does a phrase that runs over a line end. A second run changes
nothing. The tables of each language name the forms of a date, and for a bare weekday ("on Monday") the signs of a habit
("every", "the standup is") and of the tense. A weekday that is a habit anywhere in a text is one in all of it.

- A bare weekday is the coming one, or the last one where the nearest sign of tense is past ("we met on Monday"), and is
  never today. "next Thursday" is the coming one, too: as a deadline the earlier date does less harm.
- The end of a week is its Friday. On a weekend it is the Friday to come.
- A span is not made more exact than it was said: "in two months" is a month, "two years ago" a year.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cache, lru_cache

from memdir.frozen import dataclass, field, replace
from memdir.language import compile_any, read_sections
from memdir.text import CJK, blank_fences

_REACH = 60  # characters of context looked at on either side
_LETTER = rf"[^\W{CJK}]"  # of a script whose words stand apart
_EDGES = {  # what may not touch a phrase: it would be part of a name, a path, a flag, a call
    True: (rf"(?<!{_LETTER})(?<![/\\@#$%=.~^+-])", rf"(?!{_LETTER}|[/\\@=(]|-\w|\.\w|['’](?=\w)(?!s\b))"),
    False: (r"(?<![/\\_@#$%=])", r"(?![/\\_@=]|-\w|\.\w)"),
}
_CLAUSE_START = re.compile(r"(?:\A|[\n.!?;:。！？；：(（\[=—–>#|*+-]|\d[.)])[^\S\n]*\Z")
_CLAUSE_END = re.compile(r"[,;:()（）—，、；：]")
_SENTENCE_END = re.compile(r"[!?\n。！？]|\.(?=\s|\Z)")
_CODE = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_PROSELESS = re.compile(
    r"""(?<!\w)[A-Za-z][A-Za-z0-9+.-]{1,20}://\S* | (?<!\w)www\.\S+ | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+  # addresses
    | (?<![\w./\\~-])[A-Za-z0-9_.~@+-]*[/\\][A-Za-z0-9_./\\~@+:*-]*   # a path
    | \]\([^()\n]*\) | \[\[[^\[\]\n]*\]\] | <[^<>\n]*>               # links and tags
    | "[^"\n]*" | “[^“”\n]*” | „[^„“”\n]*[“”] | «[^«»\n]*» | ‹[^‹›\n]*› | 「[^「」\n]*」 | 『[^『』\n]*』
    | (?<!\w)'[^'\n]+'(?!\w) | ‘[^‘’\n]*’(?!\w)""",
    re.VERBOSE,
)
_UNITS = ("day", "week", "month", "quarter", "year")
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FRIDAY = 4
_APPOSED = re.compile(r"[^\S\n]*[,(（，、]?[^\S\n]*(?:(?:on|am)[^\S\n]+)?")


@dataclass(frozen=True, slots=True, eq=False)  # its compiled patterns are cached by identity
class DateLanguage:
    """One language.

    A form is (pattern, what it is, a number). It is a `day` or an `offset`; a `weekday` that is
    bare, `coming` or `previous`, or `in_week`, of the last, this or the next one; a `period` or its `end`; a `habit`, left
    alone with every bare mention of its weekday; or a `name`, left alone. The number is a step, or the sign of the counted
    one. In a pattern a space is any space, `{N}` a number, `{W}` a weekday, `{A}` a short one, `{D}` any of both, `{U}` a
    unit, `{P}` a span. Letters match in both cases. If several forms match at an offset, the longest counts.
    """

    cues: str  # one of them is in every form: a text without any need not be looked at
    forms: tuple[tuple[str, str, int], ...]
    weekdays: tuple[str, ...]
    numbers: tuple[str, ...]  # one, two, three…; several words for one number are separated by spaces
    units: tuple[str, ...]  # day, week, month, quarter, year as they are counted
    spans: tuple[str, ...]  # week, month, quarter, year
    past: str  # signs of a tense
    ahead: str
    habit: str  # words that make the bare weekdays of a sentence a habit
    doubt: str  # and words that do so unless a preposition sets a limit ("by Friday")
    hedge: str  # words that say that a sentence is not certain
    week: str
    short: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)  # contexts that veto a form, by its name
    after: Mapping[str, str] = field(default_factory=dict)
    follows: str = ""  # what must follow a bare weekday, where it may be an adjective ("Friday deploys")
    limits: str = "(?!)"  # prepositions that point ahead, whatever the tense
    since: str = "(?!)"  # those that point back
    prepositions: str = "(?!)"  # and others; after all of them no glue is needed
    unsure: str = "(?!)"  # verbs that may be of either tense
    joins: str = "(?!)"  # words between two clauses
    glue: Mapping[str, str] = field(default_factory=dict)  # what is put before a date: by unit, and for an `offset`
    year: str = "{}"
    spaced: bool = True


@dataclass(frozen=True, slots=True)
class DatePhrase:
    """Words that have one of the forms."""

    language: DateLanguage
    start: int
    end: int
    form: str
    step: int
    weekday: int
    unit: str
    is_short: bool
    preposition: str


@dataclass(frozen=True, slots=True)
class ReplacedDate:
    """One phrase of the text, its position, and its replacement."""

    start: int
    end: int
    was: str
    now_text: str


def make_absolute(text: str, now: datetime, known: Collection[str] = ()) -> tuple[str, tuple[ReplacedDate, ...]]:
    """Return the text with its relative dates absolute, seen from `now` in its own zone, and what was replaced.

    Lines in `known` stay: they were said on another day.
    """
    masked = blank_fences(text, "\0")
    for pattern in (_CODE, _PROSELESS):
        masked = pattern.sub(lambda match: "\0" * len(match[0]), masked)
    lines = [(match.start(), masked[match.start() : match.end()]) for match in re.finditer(r"[^\n]+", text)]
    habits = {one.weekday for _, line in lines for one in _find_phrases(line) if _is_habit(line, one)}
    replaced = []
    for start, line in lines:
        is_known = text[start : start + len(line)].strip() in known
        dates = () if is_known else tuple(_replace(line, now.date(), habits))
        # A line that a second run would change again was not understood.
        if dates and not any(_replace(_apply(line, dates), now.date(), habits)):
            replaced += [replace(one, start=start + one.start, end=start + one.end) for one in dates]
    return _apply(text, replaced), tuple(replaced)


def _apply(text: str, done: Sequence[ReplacedDate]) -> str:
    parts, place = [], 0
    for one in done:
        parts += [text[place : one.start], one.now_text]
        place = one.end
    return "".join([*parts, text[place:]])


def _replace(text: str, today: date, habits: set[int]) -> Iterator[ReplacedDate]:
    phrases, touched = _find_phrases(text), -1  # where the last date ended: two that touch are set apart
    for place, one in enumerate(phrases):
        beside = [*phrases[max(0, place - 1) : place], *phrases[place + 1 : place + 2]]
        if not _is_meant(text, one) or any(_is_spoken_for(text, one, other) for other in beside):
            continue
        sign = 1
        if one.form == "weekday":
            sign = 0 if one.weekday in habits or _is_habit(text, one) else _find_tense(text, one)
        elif one.form == "coming" and one.step:  # "this Tuesday"
            sign = _find_tense(text, one)
        try:
            day = _resolve(one, today, back=sign < 0)
            # If the date is next to it already, the author has worked it out: "end of next week, about 2026-11-27".
            words = _render(text, one, day) if sign and day.isoformat() not in text else ""
        except (OverflowError, ValueError):  # beyond the calendar
            continue
        if words:
            words = f" {words}" if one.start == touched and words[0].isdigit() else words
            yield ReplacedDate(one.start, one.end, text[one.start : one.end], words)
            touched = one.end


def _is_spoken_for(text: str, one: DatePhrase, other: DatePhrase) -> bool:
    """Return whether the phrase next to a bare weekday already gives its date ("tomorrow, Monday"), or changes its meaning."""
    first, second = (one, other) if one.start < other.start else (other, one)
    bare = [phrase.form == "weekday" for phrase in (one, other)]
    if bare[0] == bare[1] or not _APPOSED.fullmatch(text, first.end, second.start):
        return False
    return bare[0] or one.form not in ("day", "coming", "previous")


def _resolve(one: DatePhrase, today: date, *, back: bool) -> date:
    """The day, or the first day of a span."""
    step, day = one.step, today.weekday()
    if one.form in ("weekday", "coming", "previous"):
        behind = -((day - one.weekday - 1) % 7 + 1)  # 1 to 7 days: today is never meant
        return today + timedelta(behind if back or one.form == "previous" else (one.weekday - day - 1) % 7 + 1)
    if one.form == "in_week":
        return today + timedelta(one.weekday - day, weeks=step)
    if one.form == "end" and one.unit == "week":
        return today + timedelta(_FRIDAY - day, weeks=step + (step == 0 and day > _FRIDAY))
    if one.form == "offset" and one.unit == "week":
        return today + timedelta(weeks=step)
    if one.unit in ("day", "week"):
        return today + (timedelta(step) if one.unit == "day" else timedelta(-day, weeks=step))
    months, is_end = _MONTHS[one.unit], one.form == "end"  # the day before the next span is the end
    step += is_end
    year, month = divmod(today.year * 12 + (today.month - 1) // months * months + months * step, 12)
    return date(year, month + 1, 1) - timedelta(is_end)


def _render(text: str, one: DatePhrase, day: date) -> str:
    """Return the replacement: the date, as exact as the phrase, with the word that grammar needs before it."""
    language, unit, words = one.language, "day", day.isoformat()
    if one.form == "period" or (one.form == "offset" and one.unit != "week"):
        unit = one.unit
        quarter = f"{day.year:04d}-Q{(day.month + 2) // 3}"
        spans = (words, language.week.format(words), words[:7], quarter, language.year.format(f"{day.year:04d}"))
        words = spans[_UNITS.index(unit)]
    low = max(0, one.start - _REACH)
    glue = language.glue.get("offset" if unit == "day" and one.form in ("offset", "end") else unit, "")
    is_named = one.form == "period" and compile_any("month_before").search(text, low, one.start)
    if one.preposition or is_named or _CLAUSE_START.search(text, low, one.start) or re.match("['’]s", text[one.end :]):
        glue = ""
    words = f"{glue} {words}".strip()
    if text[one.start].isupper():
        words = words[0].upper() + words[1:]
    if language.spaced:
        return words
    # In a language without spaces a date still needs one next to digits and Latin letters.
    left = " " if re.search(r"[A-Za-z0-9]\Z", text[: one.start]) else ""
    right = " " if re.match(r"[A-Za-z0-9]", text[one.end :]) and words[-1].isascii() else ""
    return f"{left}{words}{right}"


def _is_meant(text: str, one: DatePhrase) -> bool:
    """Whether nothing around the phrase says that it is something else."""
    if one.form in ("habit", "name") or (one.is_short and not one.preposition):
        return False
    low, language = max(0, one.start - _REACH), one.language
    if compile_any("date_after").match(text, one.end) or compile_any("date_before").search(text, low, one.start):
        return False
    if _compile(language.hedge).search("¦".join(_find_sentence(text, one))):
        return False
    before, after = language.before.get(one.form), language.after.get(one.form)
    if before and _compile(rf"(?:{before})\s*\Z").search(text, low, one.start):
        return False
    if after and _compile(after).match(text, one.end):
        return False
    if one.form != "weekday" or not language.follows or _compile(language.follows).match(text, one.end):
        return True
    opening = one.preposition and _CLAUSE_START.search(text[: one.start].rstrip()[: -len(one.preposition)])
    return bool(opening) and not text[one.end : one.end + 2].strip().isupper()


def _is_habit(text: str, one: DatePhrase) -> bool:
    if one.form != "weekday":
        return one.form == "habit"
    before, after = _find_sentence(text, one)
    if any(_compile(language.habit).search(before + after) for language in load_date_languages()):
        return True
    if _compile(one.language.limits).fullmatch(one.preposition):
        return False
    clause = f"{_CLAUSE_END.split(before)[-1]}¦{_CLAUSE_END.split(after)[0]}"
    return _compile(one.language.doubt).search(clause) is not None


def _find_tense(text: str, one: DatePhrase) -> int:
    """Return 1 for the coming day, -1 for the last one, 0 if unclear, by the nearest sign in the clause.

    The clause that follows counts where the phrase stands alone in its own: "On Monday, we met".
    """
    language = one.language
    if _compile(language.limits).fullmatch(one.preposition):
        return 1
    if _compile(language.since).fullmatch(one.preposition):
        return -1
    before, after = _find_sentence(text, one)
    before = _CLAUSE_END.split(before)[-1]
    signs = _compile(f"(?P<past>{language.past})|(?P<ahead>{language.ahead})|(?P<unsure>{language.unsure})")
    for rest in (_CLAUSE_END.split(after)[0], after):
        offset = len(before)
        matches = signs.finditer(f"{before}¦{rest}")
        nearest = min(matches, key=lambda sign: max(offset - sign.end(), sign.start() - offset, 0), default=None)
        if nearest is not None and nearest.lastgroup == "past":
            # "We shipped on Friday and start on Monday": what is joined may have a verb of its own.
            return 0 if _compile(rf"\b(?:{language.joins})\b").search(before, nearest.end()) else -1
        if nearest is not None:
            return int(nearest.lastgroup == "ahead")
    return 1


def _find_sentence(text: str, one: DatePhrase) -> tuple[str, str]:
    """Return the text before and after a phrase in its sentence."""
    stop = _SENTENCE_END.search(text, one.end)
    return _SENTENCE_END.split(text[: one.start])[-1], text[one.end : stop.start() if stop else len(text)]


@lru_cache(maxsize=64)  # a line is asked for twice
def _find_phrases(text: str) -> tuple[DatePhrase, ...]:
    """Return every phrase of every language, in order; of two that overlap the earlier, of two at one offset the longer."""
    candidates = [language for language in load_date_languages() if _compile(language.cues).search(text)]
    phrases = [one for language in candidates for one in _find_in_language(text, language)]
    apart: list[DatePhrase] = []
    for one in sorted(phrases, key=lambda one: (one.start, -one.end)):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return tuple(apart)


def _find_in_language(text: str, language: DateLanguage) -> Iterator[DatePhrase]:
    days = [*enumerate(language.weekdays), *enumerate(language.short)]
    numbers = {word: value for value, words in enumerate(language.numbers, 1) for word in words.split()}
    units = [*zip(_UNITS, language.units, strict=True), *zip(_UNITS[1:], language.spans, strict=True)]
    prepositions = _compile(rf"(?<![\w'’-])({language.limits}|{language.since}|{language.prepositions})\s*\Z")
    for pattern, form, step in language.forms:
        for match in _compile_form(language, pattern).finditer(text):
            parts = match.groupdict("")
            number, weekday, unit = (parts.get(name, "") for name in ("n", "w", "u"))
            before = prepositions.search(text, max(0, match.start() - _REACH), match.start())
            counted = step * (int(number) if number.isdecimal() else numbers.get(number.lower(), 1))
            day = next((day for day, name in days if _compile(name).fullmatch(weekday)), 0)
            span = next((unit_name for unit_name, name in units if _compile(name).fullmatch(unit)), "day")
            is_short = any(_compile(name).fullmatch(match[0]) for name in language.short)
            yield DatePhrase(language, *match.span(), form, counted, day, span, is_short, before[1] if before else "")


@cache
def _compile_form(language: DateLanguage, pattern: str) -> re.Pattern[str]:
    before, after = _EDGES[language.spaced]
    words = sorted(" ".join(language.numbers).split(), key=len, reverse=True)
    slots = {
        " ": r"(?:[^\S\n]+)" if language.spaced else " ",
        # four digits are a year, and a digit or dash before makes it part of a larger thing
        "{N}": rf"(?<![\d.,–-])(?P<n>(?:[0-9０-９]{{1,3}}|{'|'.join(words)})(?![\d.,]))",
        "{W}": f"(?P<w>{'|'.join(language.weekdays)})",
        "{A}": f"(?P<w>(?-i:{'|'.join(language.short)}))",
        "{D}": f"(?:{'|'.join([*language.weekdays, *language.short])})",
        "{U}": f"(?P<u>{'|'.join(language.units)})",
        "{P}": f"(?P<u>{'|'.join(language.spans)})",
    }
    spelled = re.sub(r" |\{[NWADUP]\}", lambda slot: slots[slot[0]], pattern)
    return _compile(rf"{before}(?:{spelled}){after}")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


@cache
def load_date_languages() -> tuple[DateLanguage, ...]:
    return tuple(DateLanguage(**section) for section in read_sections("dates").values())
