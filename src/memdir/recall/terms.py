"""Split text into terms (English stems without stop words, pairs of CJK characters) and passages, and find dates."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

import Stemmer

from memdir.frozen import compile_late

PASSAGE_WORDS = 60  # a longer line is split at sentence ends, so that the best passage of a long memory stands out

_STOP = """
a an and are as at be been being but by can could did do does doing done for from had has have having he her hers him
his how i i'm i've i'd i'll if in into is it it's its me my mine of on or our ours she so than that that's the their
theirs them then there there's these they this those to too up us was we were what what's when where which while who
who's whom whose why will with would you you're your yours am about also any because just should some such not no nor
only own same more most other over under again very s t don't didn't doesn't isn't wasn't please tell
""".split()
# Words that phrase a request and say little about its subject.
_REQUEST = """
recommend recommendation suggest suggestion advice advise tip idea option help consider thinking think look want need
know plan best good great better provide explain describe list show example information interested interesting popular
wondering curious guide guidance way kind type sort thing
""".split()

NAME, NUMBER = "@name", "@number"  # replace identifiers and numbers in a prompt
# Bounded runs: a text without spaces, as in Chinese, is one word of any length.
_CODE = compile_late(
    r"`[^`\n]*`|\b\w+(?:\.\w+)+(?:\(\))?|\b\w+\(\)|\b[a-z]+[A-Z]\w*|\b\w+_\w+|\b[A-Z]{2,}\b|\w{0,100}/\w[\w/.]*|\"[^\"\n]*\"|\S{0,100}[{}<>=|&;$\\]\S*"
)
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_PROMPT = re.compile(r"@\w+|[^\W\d_]+(?:['’][^\W\d_]+)*|\?")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CJK = compile_late(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_CAMEL = compile_late(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SENTENCE = compile_late(r"(?<=[.!?])\s+|(?<=[。！？])")
_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = {name: number for number, name in enumerate(_MONTHS, 1)}
_MONTH |= {name[:3]: number for number, name in enumerate(_MONTHS, 1)} | {"sept": 9}
_NAMES = "|".join(sorted(_MONTH, key=len, reverse=True))
_CLEAR = "|".join(name for name in sorted(_MONTH, key=len, reverse=True) if name not in ("may", "mar", "march"))
# Date patterns are compiled when a question first seems to contain a date, because most do not.
_SHORT = [name[:3] for name in _MONTHS]
_DAY_MONTH = rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_NAMES})\b\.?,?(?: (\d{{4}}))?"
_MONTH_DAY = rf"\b({_NAMES})\b\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?"
_ISO = r"\b(\d{4})[-/](\d{1,2})[-/](\d{1,2})\b"
_MONTH_ONLY = rf"\b({_CLEAR})\b,?(?: (?:of )?(\d{{4}}))?|\b(?:in|during|last|this|since|until) (may|march)\b"

_stemmer = Stemmer.Stemmer("english")


@lru_cache(maxsize=65_536)
def make_term(word: str) -> str:
    """Return the stem of a word, which is the same for all its inflections."""
    plain = word.lower().replace("’", "'").removesuffix("'s").replace("'", "")
    return str(_stemmer.stemWord(plain))


_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_CALENDAR = frozenset(make_term(word) for word in [*_MONTH, *_WEEKDAYS])
STOP = frozenset(make_term(word) for word in _STOP) | {word.replace("'", "") for word in _STOP}
REQUEST = frozenset(make_term(word) for word in _REQUEST)


def parse_terms(text: str) -> list[str]:
    """Return the terms of a text in order, without stop words."""
    terms: list[str] = []
    for word in _WORD.findall(text):
        if not word.isascii() and _CJK.search(word):
            terms += _split_cjk(word)
            continue
        term = make_term(word)
        if term not in STOP:
            terms.append(term)
        # `handleAuth` is also found by "handle auth".
        if not word.islower() and not word.isupper() and len(parts := _CAMEL.split(word)) > 1:
            terms += [part for part in map(make_term, parts) if part not in STOP]
    return terms


def parse_prompt(text: str) -> list[str]:
    """Return all words of a prompt in lower case. Code, paths and numbers are replaced by placeholders."""
    plain = _DIGITS.sub(f" {NUMBER} ", _CODE.sub(f" {NAME} ", text))
    return _PROMPT.findall(plain.lower())


def is_date_term(term: str) -> bool:
    """Return whether a term is a number, month or weekday."""
    return term[:1].isdigit() or term in _CALENDAR


def split_passages(text: str) -> list[str]:
    """Split a text into lines, and long lines at the ends of sentences."""
    passages: list[str] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        if len(line.split()) <= PASSAGE_WORDS and (line.isascii() or len(line) <= 4 * PASSAGE_WORDS):
            passages.append(line.strip())
        else:
            passages += _join_sentences(_SENTENCE.split(line))
    return passages


def parse_dates(text: str) -> list[tuple[int, int, int]]:
    """Return the year, month and day of each date in a query. Missing parts are 0."""
    low = text.lower()
    if "-" not in low and "/" not in low and not any(name in low for name in _SHORT):
        return []
    dates = [(_number(match[3]), _MONTH[match[2]], int(match[1])) for match in re.finditer(_DAY_MONTH, low)]
    dates += [(_number(match[3]), _MONTH[match[1]], int(match[2])) for match in re.finditer(_MONTH_DAY, low)]
    dates += [(int(match[1]), int(match[2]), int(match[3])) for match in re.finditer(_ISO, low)]
    return dates or [(_number(match[2]), _MONTH[match[1] or match[3]], 0) for match in re.finditer(_MONTH_ONLY, low)]


def match_date(dates: list[tuple[int, int, int]], day: datetime) -> float:
    """Return how well a day matches the dates in a query, from 0 to 1."""
    best = 0.0
    for year, month, number in dates:
        if day.month == month and (not year or day.year == year):
            best = max(best, 0.5 if not number else 1.0 if day.day == number else 0.25)
    return best


def _split_cjk(word: str) -> Iterator[str]:
    """Yield the characters and character pairs of CJK text, and the other words."""
    offset = 0
    for run in _CJK.finditer(word):
        if run.start() > offset:
            yield make_term(word[offset : run.start()])
        yield from run.group()
        yield from (run.group()[index : index + 2] for index in range(len(run.group()) - 1))
        offset = run.end()
    if offset < len(word):
        yield make_term(word[offset:])


def _join_sentences(sentences: list[str]) -> Iterator[str]:
    current: list[str] = []
    count = 0
    for sentence in sentences:
        size = max(len(sentence.split()), len(sentence) // 4 if not sentence.isascii() else 0)
        if current and count + size > PASSAGE_WORDS:
            yield " ".join(current).strip()
            current, count = [], 0
        current.append(sentence)
        count += size
    if current:
        yield " ".join(current).strip()


def _number(text: str | None) -> int:
    return int(text) if text else 0
