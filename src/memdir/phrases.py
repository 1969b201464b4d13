"""Relative dates in text, found: which words form one, with which preposition, and whether they are meant as one.

The words of six languages are tables in `tongues`; here is what reads them. It says no to habits ("every Thursday"),
names ("Black Friday"), ranges ("Monday to Friday") and weekdays whose date stands beside them. It knows no calendar:
`dates` turns a phrase into a date.
"""

import re
from collections.abc import Iterator
from functools import cache

from memdir.frozen import dataclass
from memdir.tongues import TONGUES
from memdir.tongues.grammar import BARE, OFFSETS, Tongue, Vetoes, What

REACH = 60  # characters of context looked at on either side
_SENTENCE = 4 * REACH

_SPACE = r"(?:[^\S\n]+\n?[^\S\n]*|\n[^\S\n]*)"
_LETTER = r"[^\W\u3040-\u30ff\u3400-\u9fff]"  # of a script whose words stand apart
_EDGES = {  # what may not touch a phrase: it would be part of a name, a path, a flag, a call
    True: (rf"(?<!{_LETTER})(?<![/\\@#$%=.~^+-])", rf"(?!{_LETTER}|[/\\@=(]|-\w|\.\w|['’](?=\w)(?!s\b))"),
    False: (r"(?<![/\\_@#$%=])", r"(?![/\\_@=]|-\w|\.\w)"),
}
MONTHS = (
    "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|janv|fév|avr|juin|juil|août|déc|ene|abr|ago|dic)"
    r"[a-zäéû]*\.?"
)
_NUMBERED = r"\d{1,2}(?:st|nd|rd|th|er|\.)?"
_ABSOLUTE = (
    r"(?:\d{4}-(?:\d\d(?:-\d\d)?|Q[1-4])(?!\w)|\d{4}/\d{1,2}/\d{1,2}|"
    r"\d{1,2}[./]\d{1,2}(?![\d:])(?:[./](?:\d{2,4})?)?(?!\s*(?:Uhr|h\b|[ap]m))|"
    rf"(?:{_NUMBERED}\s*[-–]\s*)?{_NUMBERED}\s+(?:of\s+|de\s+)?{MONTHS}(?!\w)|{MONTHS}\s+{_NUMBERED}(?![\w:])|"
    r"\d{1,2}(?:st|nd|rd|th)\b|(?:\d{4}年)?\d{1,2}月(?:\d{1,2}[日号號])?|\d{4}年|(?:in|en|of|de)\s+\d{4}(?!\w))"
)
_LINKED = r"(?:(?:on|the|in|of|week|am|im|den|dem|der|le|el|du|del|en|la|semaine|semana|Woche|vom)[^\S\n]+)"
_BESIDE = r"[^\S\n]*(?:(?:[,:(（\[、，–—-]|\n)[^\S\n]*)?"
_ABSOLUTE_AFTER = re.compile(rf"{_BESIDE}{_LINKED}{{0,4}}{_ABSOLUTE}", re.IGNORECASE)
_ABSOLUTE_BEFORE = re.compile(rf"(?<![\w.]){_ABSOLUTE}{_BESIDE}{_LINKED}?\Z", re.IGNORECASE)
_CLAUSE_START = re.compile(r"(?:\A|[\n.!?;:。！？；：(（—–>#|*+-]|\d[.)])[^\S\n]*\Z")
_SENTENCE_END = re.compile(r"[!?\n。！？]|\.(?=\s|\Z)")
_TO = r"\s*(?:to|through|thru|until|till|bis|à|au|a|al|から|到|至|[-–—~〜～/])\s*(?:the\s+|zum\s+|le\s+|el\s+)?"
_AND = r"\s*(?:and|und|et|y|和|と|及)\s*(?:le\s+|el\s+)?"


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that have the form of a relative date: from `start`, behind a preposition from `core`, up to `end`."""

    tongue: Tongue
    start: int
    core: int
    end: int
    what: What
    step: int
    tail: str
    count: int
    weekday: int
    preposition: str


def find_phrases(text: str) -> list[Phrase]:
    """Every phrase of every language, meant or not, in order and apart; of two that overlap the earlier, the longer."""
    lower = text.lower()
    spoken = [tongue for tongue in TONGUES if any(stem in lower for stem in tongue.stems)]
    found = [one for tongue in spoken for one in _find_in_tongue(text, tongue)]
    apart: list[Phrase] = []
    for one in sorted(found, key=lambda one: (one.core, -one.end)):
        if not apart or one.start >= apart[-1].end:
            apart.append(one)
    return apart


def is_meant(text: str, one: Phrase) -> bool:
    """Whether nothing around the phrase says that it is something else."""
    if one.what is What.SHORT and not one.preposition:
        return False
    if _ABSOLUTE_AFTER.match(text, one.end) or _ABSOLUTE_BEFORE.search(text, max(0, one.start - REACH), one.start):
        return False
    if _is_vetoed(text, one) or not _has_language(text, one):
        return False
    return one.what not in BARE or not (_is_habit(text, one) or _is_range(text, one))


def starts_clause(text: str, place: int) -> bool:
    """Whether a clause, a line or a list item begins there."""
    return _CLAUSE_START.search(text, max(0, place - REACH), place) is not None


def _find_in_tongue(text: str, tongue: Tongue) -> Iterator[Phrase]:
    forms = _compile_forms(tongue)
    for match in forms.finditer(text):
        name = match.lastgroup or ""
        _, what, step, *tail = tongue.forms[int(name[1:])]
        word = next((group for group in match.groups()[forms.groupindex[name] :] if group is not None), "")
        start, preposition = _find_preposition(text, tongue, match.start(), what)
        yield Phrase(
            tongue=tongue,
            start=start,
            core=match.start(),
            end=match.end(),
            what=what,
            step=step,
            tail=tail[0] if tail else "",
            count=_read_number(tongue, word) if what in OFFSETS else 0,
            weekday=_read_weekday(tongue, word) if what not in OFFSETS else 0,
            preposition=preposition,
        )


def _find_preposition(text: str, tongue: Tongue, core: int, what: What) -> tuple[int, str]:
    """Where the phrase begins, and the preposition there: none if it stays as it is before a week."""
    before = _compile_prepositions(tongue).search(text, max(0, core - REACH), core)
    if before is None:
        return core, ""
    word = " ".join(before[1].lower().split())
    word = word if word in tongue.prepositions else word.capitalize()
    return (core, "") if what is What.WEEK and not tongue.prepositions[word][2] else (before.start(), word)


def _is_vetoed(text: str, one: Phrase) -> bool:
    places = {one.core, one.start}
    for veto in _pick(one.tongue.before, one.what):
        ending = re.compile(rf"(?:{veto})\Z", re.IGNORECASE)
        if any(ending.search(text, max(0, place - REACH), place) for place in places):
            return True
    after = text[one.end : one.end + REACH]
    if any(re.match(veto, after) for veto in _pick(one.tongue.after, one.what)):
        return True
    opens = one.preposition in one.tongue.opens and starts_clause(text, one.start) and not after[:2].strip().isupper()
    return not opens and any(not re.match(must, after) for must in _pick(one.tongue.follows, one.what))


def _is_habit(text: str, one: Phrase) -> bool:
    low, high = max(0, one.start - _SENTENCE), one.end + _SENTENCE
    starts = [match.end() for match in _SENTENCE_END.finditer(text, low, one.start)]
    stop = _SENTENCE_END.search(text, one.end, high)
    sentence = text[starts[-1] if starts else low : stop.start() if stop else high]
    return any(re.search(tongue.habit, sentence, re.IGNORECASE) for tongue in TONGUES)


def _is_range(text: str, one: Phrase) -> bool:
    """Monday to Friday, between Monday and Friday: mostly a habit, and the coming Friday may be before the Monday."""
    upto, since = _compile_ranges()
    return bool(upto.match(text, one.end) or since.search(text, max(0, one.start - REACH), one.core))


def _has_language(text: str, one: Phrase) -> bool:
    words, expected, unexpected = one.tongue.needs
    if not re.fullmatch(words, text[one.core : one.end]):
        return True
    line = text[text.rfind("\n", 0, one.start) + 1 : one.start] + text[one.end :].partition("\n")[0]
    return bool(re.search(expected, line, re.IGNORECASE)) and not re.search(unexpected, line)


def _pick(vetoes: Vetoes, what: What) -> list[str]:
    return [pattern for whats, pattern in vetoes.items() if what in whats]


def _read_number(tongue: Tongue, word: str) -> int:
    """The number a word says; a phrase that counts nothing ("a week ago") says one."""
    return (tongue.numbers.get(word.lower()) or int(word)) if word else 1


def _read_weekday(tongue: Tongue, word: str) -> int:
    names = (tongue.weekdays, tongue.short)
    return next((day for days in names for day, name in enumerate(days) if word and re.fullmatch(name, word)), 0)


@cache
def _compile_forms(tongue: Tongue) -> re.Pattern[str]:
    before, after = _EDGES[tongue.spaced]
    forms = "|".join(f"(?P<f{place}>{_spell(tongue, form[0])})" for place, form in enumerate(tongue.forms))
    return re.compile(rf"{before}(?={_starts(tongue)})(?:{forms}){after}", re.MULTILINE)


def _starts(tongue: Tongue) -> str:
    """What a form may start with, to pass over most places quickly."""
    if tongue.spaced:
        return r"\w"
    patterns = [*(form[0] for form in tongue.forms), *tongue.weekdays, *tongue.numbers]
    letters = sorted({letter for pattern in patterns for letter in pattern if not letter.isascii()})
    return f"[0-9{''.join(letters)}]"


def _spell(tongue: Tongue, pattern: str) -> str:
    """A form as a regular expression: the first letter in both cases, spaces, numbers and weekdays filled in."""
    if pattern[0].isalpha() and tongue.spaced:
        pattern = f"[{pattern[0]}{pattern[0].upper()}]{pattern[1:]}"
    words = [*tongue.numbers, *(word.capitalize() for word in tongue.numbers)]
    # four digits are a year, and a digit or dash before makes it part of a larger thing
    number = rf"(?<![\d.,–-])((?:[0-9０-９]{{1,3}}|{'|'.join(sorted(words, key=len, reverse=True))})(?![\d.,]))"
    spelled = pattern.removeprefix("=").replace(" ", _SPACE if tongue.spaced else " ")
    return (
        spelled.replace("{N}", number)
        .replace("{W}", f"({'|'.join(tongue.weekdays)})")
        .replace("{A}", f"({'|'.join(tongue.short)})")
    )


@cache
def _compile_prepositions(tongue: Tongue) -> re.Pattern[str]:
    words = sorted(tongue.prepositions, key=len, reverse=True)
    spelled = "|".join(
        re.escape(word).replace(r"\ ", _SPACE) + ("" if word[-1] in "'’" else rf"(?={_SPACE})") for word in words
    )
    return re.compile(rf"(?<![\w'’-])((?i:{spelled})){_SPACE}?\Z" if words else "(?!)")


@cache
def _compile_ranges() -> tuple[re.Pattern[str], re.Pattern[str]]:
    weekday = "(?:" + "|".join(name for tongue in TONGUES if tongue.spaced for name in tongue.weekdays)
    weekday += "|(?:周|週|星期)[一二三四五六日天]|[月火水木金土日]曜日?)"
    part = r"(?:\s+(?:morning|afternoon|evening|night|soir|matin|abend))?"
    since = rf"(?:{weekday}{part}{_TO}|(?:between|zwischen|entre)\s+(?:el\s+)?{weekday}{_AND})(?:on\s+|am\s+)?"
    return re.compile(rf"{part}{_TO}{weekday}"), re.compile(rf"{since}\Z")
