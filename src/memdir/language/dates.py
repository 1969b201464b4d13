"""Make relative dates in text absolute: "from Thursday", written on a given day, becomes "from 2026-11-19".

Dates of single events are changed; habits and uncertain phrases are not, because this rewrites the user's text. Code, paths,
URLs, quotations and phrases that span lines are not changed either. A second run changes nothing. The table of each language
contains the forms of a date and, for a weekday alone ("on Monday"), the words that indicate a habit ("every", "the standup
is") or a tense. A weekday that is used as a habit anywhere in a text is treated as one everywhere in it.

- A weekday alone is the next one, or the last one if the nearest verb form is past ("we met on Monday"), and never today.
  "next Thursday" is the next one too: for a deadline, the earlier date does less harm.
- The end of a week is its Friday; on a weekend, the following Friday.
- Periods are only as exact as the phrase: "in two months" is a month, "two years ago" a year.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cache, lru_cache

from memdir.frozen import dataclass, field, replace
from memdir.language import compile_any, read_sections
from memdir.text import CJK, blank_fences

_REACH = 60  # characters of context examined on either side
_LETTER = rf"[^\W{CJK}]"  # of a script with spaces between words
_EDGES = {  # characters next to a phrase that make it part of a name, a path, a flag or a call
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
    """The patterns of one language.

    A form is (pattern, kind, number). The kind is `day` or `offset`; `weekday` alone, `coming`, `previous` or `in_week` (last,
    this or next week); `period` or its `end`; `habit` or `name`, which are not changed. After a `habit`, its weekday is not
    changed in the entire text. The number is a step or the sign of one. In a pattern, a space matches any white space, `{N}` a
    number, `{W}` a weekday, `{A}` its abbreviation, `{D}` either, `{U}` a unit, and `{P}` a period. Patterns ignore case. If
    several forms match at an offset, the longest is used.
    """

    cues: str  # every form contains a cue, so a text without any cue is skipped
    forms: tuple[tuple[str, str, int], ...]
    weekdays: tuple[str, ...]
    numbers: tuple[str, ...]  # one, two, three…; several words for one number are separated by spaces
    units: tuple[str, ...]  # day, week, month, quarter, year as they are counted
    spans: tuple[str, ...]  # week, month, quarter, year
    past: str  # words that show the past tense
    ahead: str
    habit: str  # words that make the bare weekdays of a sentence a habit
    doubt: str  # the same, unless a preposition sets a limit ("by Friday")
    hedge: str  # words that make a sentence uncertain
    week: str
    short: tuple[str, ...] = ()
    before: Mapping[str, str] = field(default_factory=dict)  # contexts that veto a form, by its name
    after: Mapping[str, str] = field(default_factory=dict)
    follows: str = ""  # text required after a bare weekday that could be an adjective ("Friday deploys")
    limits: str = "(?!)"  # prepositions that mean the future, regardless of tense
    since: str = "(?!)"  # prepositions that mean the past
    prepositions: str = "(?!)"  # other prepositions; after any preposition no glue is needed
    unsure: str = "(?!)"  # verbs that may be of either tense
    joins: str = "(?!)"  # words between two clauses
    glue: Mapping[str, str] = field(default_factory=dict)  # words put before a date: by unit, and for an `offset`
    year: str = "{}"
    spaced: bool = True


@dataclass(frozen=True, slots=True)
class DatePhrase:
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
    """A phrase of the text with its position and its replacement."""

    start: int
    end: int
    was: str
    now_text: str


def make_absolute(text: str, now: datetime, known: Collection[str] = ()) -> tuple[str, tuple[ReplacedDate, ...]]:
    """Return the text with its relative dates made absolute as of `now`, and the replacements.

    Lines in `known` are not changed, because they were written on another day.
    """
    masked = blank_fences(text, "\0")
    for pattern in (_CODE, _PROSELESS):
        masked = pattern.sub(lambda match: "\0" * len(match[0]), masked)
    lines = [(match.start(), masked[match.start() : match.end()]) for match in re.finditer(r"[^\n]+", text)]
    habits = {phrase.weekday for _, line in lines for phrase in _find_phrases(line) if _is_habit(line, phrase)}
    replaced = []
    for start, line in lines:
        is_known = text[start : start + len(line)].strip() in known
        dates = () if is_known else tuple(_find_replacements(line, now.date(), habits))
        # A line that a second run would change again was not understood.
        if dates and not any(_find_replacements(_apply_all(line, dates), now.date(), habits)):
            replaced += [replace(phrase, start=start + phrase.start, end=start + phrase.end) for phrase in dates]
    return _apply_all(text, replaced), tuple(replaced)


def _apply_all(text: str, replacements: Sequence[ReplacedDate]) -> str:
    parts, offset = [], 0
    for replacement in replacements:
        parts += [text[offset : replacement.start], replacement.now_text]
        offset = replacement.end
    return "".join([*parts, text[offset:]])


def _find_replacements(text: str, today: date, habits: set[int]) -> Iterator[ReplacedDate]:
    phrases, touched = _find_phrases(text), -1  # where the last date ended: adjacent dates get a space between them
    for number, phrase in enumerate(phrases):
        neighbours = [*phrases[max(0, number - 1) : number], *phrases[number + 1 : number + 2]]
        if not _is_date(text, phrase) or any(_has_date_nearby(text, phrase, other) for other in neighbours):
            continue
        sign = 1
        if phrase.form == "weekday":
            sign = 0 if phrase.weekday in habits or _is_habit(text, phrase) else _find_tense(text, phrase)
        elif phrase.form == "coming" and phrase.step:  # "this Tuesday"
            sign = _find_tense(text, phrase)
        try:
            day = _resolve(phrase, today, back=sign < 0)
            # The author may have added the date already: "end of next week, about 2026-11-27".
            words = _render(text, phrase, day) if sign and day.isoformat() not in text else ""
        except (OverflowError, ValueError):  # beyond the calendar
            continue
        if words:
            words = f" {words}" if phrase.start == touched and words[0].isdigit() else words
            yield ReplacedDate(phrase.start, phrase.end, text[phrase.start : phrase.end], words)
            touched = phrase.end


def _has_date_nearby(text: str, phrase: DatePhrase, other: DatePhrase) -> bool:
    """Return whether another phrase next to a weekday already gives its date, as in "tomorrow, Monday"."""
    first, second = (phrase, other) if phrase.start < other.start else (other, phrase)
    bare = [item.form == "weekday" for item in (phrase, other)]
    if bare[0] == bare[1] or not _APPOSED.fullmatch(text, first.end, second.start):
        return False
    return bare[0] or phrase.form not in ("day", "coming", "previous")


def _resolve(phrase: DatePhrase, today: date, *, back: bool) -> date:
    """Return the date that a phrase refers to, or the first day of a period."""
    step, day = phrase.step, today.weekday()
    if phrase.form in ("weekday", "coming", "previous"):
        behind = -((day - phrase.weekday - 1) % 7 + 1)  # 1 to 7 days, never today
        return today + timedelta(behind if back or phrase.form == "previous" else (phrase.weekday - day - 1) % 7 + 1)
    if phrase.form == "in_week":
        return today + timedelta(phrase.weekday - day, weeks=step)
    if phrase.form == "end" and phrase.unit == "week":
        return today + timedelta(_FRIDAY - day, weeks=step + (step == 0 and day > _FRIDAY))
    if phrase.form == "offset" and phrase.unit == "week":
        return today + timedelta(weeks=step)
    if phrase.unit in ("day", "week"):
        return today + (timedelta(step) if phrase.unit == "day" else timedelta(-day, weeks=step))
    months, is_end = _MONTHS[phrase.unit], phrase.form == "end"  # the day before the next span is the end
    step += is_end
    year, month = divmod(today.year * 12 + (today.month - 1) // months * months + months * step, 12)
    return date(year, month + 1, 1) - timedelta(is_end)


def _render(text: str, phrase: DatePhrase, day: date) -> str:
    """Return the date as exact as the phrase, with a preposition if the grammar requires one."""
    language, unit, words = phrase.language, "day", day.isoformat()
    if phrase.form == "period" or (phrase.form == "offset" and phrase.unit != "week"):
        unit = phrase.unit
        quarter = f"{day.year:04d}-Q{(day.month + 2) // 3}"
        spans = (words, language.week.format(words), words[:7], quarter, language.year.format(f"{day.year:04d}"))
        words = spans[_UNITS.index(unit)]
    low = max(0, phrase.start - _REACH)
    glue = language.glue.get("offset" if unit == "day" and phrase.form in ("offset", "end") else unit, "")
    is_named = phrase.form == "period" and compile_any("month_before").search(text, low, phrase.start)
    if (
        phrase.preposition
        or is_named
        or _CLAUSE_START.search(text, low, phrase.start)
        or re.match("['’]s", text[phrase.end :])
    ):
        glue = ""
    words = f"{glue} {words}".strip()
    if text[phrase.start].isupper():
        words = words[0].upper() + words[1:]
    if language.spaced:
        return words
    # Even in a language without spaces, a date needs a space next to digits and Latin letters.
    left = " " if re.search(r"[A-Za-z0-9]\Z", text[: phrase.start]) else ""
    right = " " if re.match(r"[A-Za-z0-9]", text[phrase.end :]) and words[-1].isascii() else ""
    return f"{left}{words}{right}"


def _is_date(text: str, phrase: DatePhrase) -> bool:
    """Return whether the context allows the phrase to be a date."""
    if phrase.form in ("habit", "name") or (phrase.is_short and not phrase.preposition):
        return False
    low, language = max(0, phrase.start - _REACH), phrase.language
    if compile_any("date_after").match(text, phrase.end) or compile_any("date_before").search(text, low, phrase.start):
        return False
    if _compile(language.hedge).search("¦".join(_find_sentence(text, phrase))):
        return False
    before, after = language.before.get(phrase.form), language.after.get(phrase.form)
    if before and _compile(rf"(?:{before})\s*\Z").search(text, low, phrase.start):
        return False
    if after and _compile(after).match(text, phrase.end):
        return False
    if phrase.form != "weekday" or not language.follows or _compile(language.follows).match(text, phrase.end):
        return True
    opening = phrase.preposition and _CLAUSE_START.search(text[: phrase.start].rstrip()[: -len(phrase.preposition)])
    return bool(opening) and not text[phrase.end : phrase.end + 2].strip().isupper()


def _is_habit(text: str, phrase: DatePhrase) -> bool:
    if phrase.form != "weekday":
        return phrase.form == "habit"
    before, after = _find_sentence(text, phrase)
    if any(_compile(language.habit).search(before + after) for language in load_date_languages()):
        return True
    if _compile(phrase.language.limits).fullmatch(phrase.preposition):
        return False
    clause = f"{_CLAUSE_END.split(before)[-1]}¦{_CLAUSE_END.split(after)[0]}"
    return _compile(phrase.language.doubt).search(clause) is not None


def _find_tense(text: str, phrase: DatePhrase) -> int:
    """Return 1 for a future date, -1 for a past one, or 0 if unclear, from the nearest word that shows the tense.

    If the phrase is a clause of its own, the next clause is used: "On Monday, we met".
    """
    language = phrase.language
    if _compile(language.limits).fullmatch(phrase.preposition):
        return 1
    if _compile(language.since).fullmatch(phrase.preposition):
        return -1
    before, after = _find_sentence(text, phrase)
    before = _CLAUSE_END.split(before)[-1]
    signs = _compile(f"(?P<past>{language.past})|(?P<ahead>{language.ahead})|(?P<unsure>{language.unsure})")
    for rest in (_CLAUSE_END.split(after)[0], after):
        offset = len(before)
        matches = signs.finditer(f"{before}¦{rest}")
        nearest = min(matches, key=lambda sign: max(offset - sign.end(), sign.start() - offset, 0), default=None)
        if nearest is not None and nearest.lastgroup == "past":
            # "We shipped on Friday and start on Monday": a joined clause may have its own verb.
            return 0 if _compile(rf"\b(?:{language.joins})\b").search(before, nearest.end()) else -1
        if nearest is not None:
            return int(nearest.lastgroup == "ahead")
    return 1


def _find_sentence(text: str, phrase: DatePhrase) -> tuple[str, str]:
    stop = _SENTENCE_END.search(text, phrase.end)
    return _SENTENCE_END.split(text[: phrase.start])[-1], text[phrase.end : stop.start() if stop else len(text)]


@lru_cache(maxsize=64)  # each line is searched twice
def _find_phrases(text: str) -> tuple[DatePhrase, ...]:
    """Return the date phrases of all languages in order, without overlaps."""
    candidates = [language for language in load_date_languages() if _compile(language.cues).search(text)]
    phrases = [phrase for language in candidates for phrase in _find_in_language(text, language)]
    apart: list[DatePhrase] = []
    for phrase in sorted(phrases, key=lambda phrase: (phrase.start, -phrase.end)):
        if not apart or phrase.start >= apart[-1].end:
            apart.append(phrase)
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
        # four digits are a year, and after a digit or dash it is part of something larger
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
