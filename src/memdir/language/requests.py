"""What a person wants remembered or forgotten, in six languages: the patterns, and where in a sentence they may match.

A pattern is tried at the start of a clause, after any number of leads ("please", "and"). Its group `what` is the content,
where the words that ask for memory can be left out; the group `about` is the subject, where they cannot; without either
it is all from the match on. What is made of a match is decided in `extraction.find`.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache

from memdir.frozen import dataclass, once
from memdir.language import CODES, read_section
from memdir.language.words import CJK, HIRAGANA, KATAKANA, load_stop_words

# Where a clause may begin: the sentence, or after a comma, dash, colon or bracket.
_CLAUSE = re.compile(r"(?:^|[,;:!(—–，、；：（]|\s-\s)\s*[¿¡\"'“]?\s*")
_LEADS = 8
_LOOK = 1000  # characters by which the language is recognized
_WIDE = re.compile(rf"[{CJK}]")
_KANA = re.compile(rf"[{HIRAGANA}{KATAKANA}]")
_SMALL_WORD = re.compile(r"[a-zà-ÿ']+")


class RequestCategory(StrEnum):
    """What sort of words a request rests on; patterns are tried in this order."""

    FORGET = "forget"
    REQUEST = "request"  # "remember that…"
    ORDER = "order"  # "from now on…", "always", "never"
    PREFERENCE = "preference"  # how somebody likes the work done, what a team does
    IDENTITY = "identity"  # who the user is
    POINTER = "pointer"  # where to look outside the project
    PLAN = "plan"  # what happens at a date
    FACT = "fact"  # a decision, or a requirement with its reason


@dataclass(frozen=True, slots=True, eq=False)
class RequestLanguage:
    """The patterns of one language."""

    name: str
    rules: Mapping[RequestCategory, tuple[str, ...]]
    leads: str  # what may stand before a rule in its clause
    breaks: str  # where a clause begins though nothing marks it: before "and from now on"
    questions: str  # begins a question that has no mark
    asks: str  # makes a question a request
    reported: str  # before a rule: somebody else's words, a supposition, a title, a text to be written
    refusals: str  # asks not to keep this message
    tasks: str  # says that only the work at hand is meant
    state: str  # says how the work at hand stands, which is not kept even if asked for
    judgement: str  # speaks ill of a person, which is not kept either
    pronouns: str  # content that only points to what was said before
    tail: str  # politeness after the content
    about_me: str  # content about the person
    directs: str  # how to work: feedback
    places: str  # where a system outside is a place to look
    negates: str  # words that turn a sentence round
    corrects: str  # says that what was said before is wrong
    renews: str  # says that something is otherwise from now on
    forgets: str  # asks to forget something, if it is said to a memory and not to an agent
    small_talk: str  # thanks, a greeting, a yes: neither a question nor a statement
    orders: str  # begins an order to do something now
    links: frozenset[str]  # words that may stand inside a title, but not begin or end it
    empty: frozenset[str]  # words a title does without
    spaced: bool = True  # whether words are set apart by spaces


@cache
def load_request_languages() -> tuple[RequestLanguage, ...]:
    system = read_section("systems", "names")["system"]
    return tuple(_make_language(code, system) for code in CODES)


def _make_language(code: str, system: str) -> RequestLanguage:
    section = read_section(code, "requests", system=system)
    section["rules"] = {at: section["rules"].get(at.value, ()) for at in RequestCategory}
    section["links"] = frozenset(section["links"])
    section["empty"] = (load_stop_words(code) | frozenset(section["empty"])) - section["links"]
    return RequestLanguage(name=code, **section)


def find_request_languages(text: str) -> list[RequestLanguage]:
    """The languages a text may be written in, by its script and its small words."""
    lowered = text[:_LOOK].lower()
    if not _WIDE.search(lowered):
        candidates = [at for at in load_request_languages() if at.spaced]
    else:
        other = "zh" if _KANA.search(lowered) else "ja"
        candidates = [at for at in load_request_languages() if at.name != other]
    words = _SMALL_WORD.findall(lowered)
    counts = {at.name: sum(word in at.empty or word in at.links for word in words) for at in candidates if at.spaced}
    most = max(counts.values(), default=0)
    least = max(min(most, 1), most * 3 // 4)
    near = [at for at in candidates if at.spaced and counts[at.name] >= least]
    wide = [at for at in candidates if not at.spaced]
    return wide + (near if most or not wide else [])


def find_starts(text: str, language: RequestLanguage, *, whole: bool = False) -> list[int]:
    """Where a rule may begin: at each clause, and after each of its leads; with `whole` at the first clause alone."""
    places = []
    clauses = [*_CLAUSE.finditer(text), *compile_pattern(language.breaks).finditer(text)]
    for clause in clauses[:1] if whole else clauses:
        place = clause.end()
        places.append(place)
        for _ in range(_LEADS):
            found = _compile_lead(language.leads, language.spaced).match(text, place)
            if not found:
                break
            place = found.end()
            places.append(place)
    return sorted(set(places))


def is_question(text: str, language: RequestLanguage) -> bool:
    return text.rstrip(" )\"'”」").endswith(("?", "？")) or starts(language.questions, text)


def has(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def starts(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).match(text) is not None


@once
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of a language; letters match in both cases, and an empty one never does."""
    return re.compile(pattern or "(?!)", re.IGNORECASE)


@once
def _compile_lead(leads: str, spaced: bool) -> re.Pattern[str]:
    end = r"(?![\w'])" if spaced else ""
    return re.compile(rf"(?:{leads}){end}[\s,.:!…，、]*", re.IGNORECASE)
