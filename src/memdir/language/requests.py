"""What a person wants remembered, in six languages: the patterns, and where in a sentence they may match.

A rule is a pattern at the start of a clause, after any number of leads ("please", "and"). Its group `what` is the
content; without one the whole sentence is. The position is what separates "remember that we squash" from "do you
remember whether we squash". What is made of a match is decided in `extraction.find`.
"""

import re
from enum import StrEnum
from functools import cache
from typing import Any

from memdir.frozen import dataclass, once
from memdir.language import CODES, read_section
from memdir.language.words import CJK, HIRAGANA, KATAKANA, load_stop_words
from memdir.records import Kind

# Where a clause may begin: the sentence, or after a comma, dash, colon or bracket.
_CLAUSE = re.compile(r"(?:^|[,;:!(—–，、；：（]|\s-\s)\s*[¿¡\"'“]?\s*")
_LONGEST = 2_000  # of a sentence: requests are cut at a quarter of it, and the patterns are slow on long ones
_LEADS = 8
_LOOK = 1000  # characters by which the language is recognized
_WIDE = re.compile(rf"[{CJK}]")
_KANA = re.compile(rf"[{HIRAGANA}{KATAKANA}]")
_SMALL_WORD = re.compile(r"[a-zà-ÿ']+")


class RequestCategory(StrEnum):
    """What sort of words a request rests on."""

    REQUEST = "request"
    CORRECTION = "correction"
    CONFIRMATION = "confirmation"
    IDENTITY = "identity"
    DEADLINE = "deadline"
    DECISION = "decision"
    POINTER = "pointer"
    FORGET = "forget"


class RuleNeed(StrEnum):
    """What a sentence must have besides the words of a rule."""

    STRONG = "strong"  # nothing: the words ask for memory by themselves, in a question and in a long message too
    GENERAL = "general"  # a sign that it is meant for good ("ever", "in this project")
    LASTING = "lasting"  # content that is no plan or report of the speaker's own
    ANSWERED = "answered"  # an agent's message before it, which it corrects or praises
    DATED = "dated"  # a date
    ALONE = "alone"  # words for later, or no other sentence beside it that orders something
    DIRECTING = "directing"  # a sentence before it that tells the agent what to do
    SOUND = "sound"  # no word of `ails`: a norm, not a report of what is wrong
    WHOLE = "whole"  # the rule fits the sentence from its beginning, not a later clause


@dataclass(frozen=True, slots=True)
class RequestRule:
    """One pattern. Without a `kind` the content decides, and `default` where that is unclear."""

    category: RequestCategory
    pattern: str
    needs: tuple[RuleNeed, ...] = ()
    kind: Kind | None = None
    default: Kind = Kind.PROJECT


@dataclass(frozen=True, slots=True, eq=False)
class RequestLanguage:
    """The patterns of one language."""

    name: str
    leads: str  # what may stand before a rule in its clause
    rules: tuple[RequestRule, ...]  # the rules, best first
    asks: str  # makes a question a request
    questions: str  # begins a question that has no mark
    reported: str  # before a rule: somebody else's words, a supposition, a title
    refusals: str  # asks not to keep this message
    tasks: str  # says that only the work at hand is meant
    states: str  # says so of content that was asked to be remembered, too
    idle: str  # content of a "from now on" that asks nothing of the agent
    general: str  # says that it is meant for good
    vouches: str  # a sentence after it that says so
    pronouns: str  # content that points to what was said before
    refers: str  # a word in it that does
    that: str  # words between a request and its content
    tail: str  # politeness after it
    why: str  # sets a reason apart, as the group `why`
    about_me: str  # content about the person
    prefers: str  # what they like: feedback
    directs: str  # how to work: feedback
    praise: str  # words of praise that do not say what for
    goes_on: str  # a sentence after a correction that belongs to it
    negates: str  # words that turn a sentence round
    places: str  # where a system outside is a place to look
    links: frozenset[str]  # words that may stand inside a title, but not begin or end it
    empty: frozenset[str]  # words a title does without
    spaced: bool = True  # whether words are set apart by spaces
    lasts: str = ""  # says that it is for later
    orders: str = ""  # begins an order for now
    plays: str = ""  # begins a role to be played; what is asked for then is asked of the role
    begs: str = ""  # begins a question that orders to leave something: "can you stop"
    tags: str = ""  # ends an order with a question mark that asks nothing: ", okay?"
    widens: str = ""  # says that not only the work at hand is meant, in words that name it: "not just this one"
    looks: str = ""  # content that tells to look there, though it is worded as a habit or an order
    mine: str = ""  # content that speaks of the person further on, and orders nothing
    breaks: str = ""  # where a clause begins though nothing marks it: before "and from now on"
    ails: str = ""  # says that something is out of order, or how it was: a report, not a norm


@cache
def load_request_languages() -> tuple[RequestLanguage, ...]:
    system = read_section("systems", "names")["system"]
    return tuple(_make_language(code, read_section(code, "requests", system=system)) for code in CODES)


def _make_language(code: str, section: dict[str, Any]) -> RequestLanguage:
    section["rules"] = tuple(
        RequestRule(
            RequestCategory(group["category"]),
            pattern,
            tuple(RuleNeed(need) for need in group.get("needs", ())),
            Kind(group["kind"]) if "kind" in group else None,
            Kind(group.get("default", Kind.PROJECT)),
        )
        for group in section["rules"]
        for pattern in group["patterns"]
    )
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


def may_fit(language: RequestLanguage, text: str) -> bool:
    """Whether any rule fits a sentence at all; most sentences end here, and all that are too long to be a request."""
    if len(text) > _LONGEST:
        return False
    whole, places = find_starts(text, language)
    if _compile_any(language, True).match(text, whole):
        return True
    pattern = _compile_any(language, False)
    return any(pattern.match(text, place) for place in places)


def find_starts(text: str, language: RequestLanguage) -> tuple[int, list[int]]:
    """Where a rule may begin: after all leads of the sentence, and at or after each lead of each clause."""
    lead = _compile_lead(language.leads, language.spaced)
    places: list[int] = []
    whole = 0
    breaks = compile_pattern(language.breaks).finditer(text) if language.breaks else ()
    for clause in [*_CLAUSE.finditer(text), *breaks]:
        place = clause.end()
        places.append(place)
        for _ in range(_LEADS):
            found = lead.match(text, place)
            if not found:
                break
            place = found.end()
            places.append(place)
        whole = whole if clause.start() else place
    return whole, sorted(set(places))


def skip_interjections(text: str, language: RequestLanguage) -> int:
    """Where a sentence begins after the leads that a comma or the like sets apart from it."""
    place = 0
    for _ in range(_LEADS):
        found = _compile_lead(language.leads, language.spaced).match(text, place)
        if not found or not re.search(r"[,.:!…，、]", found[0]):
            break
        place = found.end()
    return place


def has(pattern: str, text: str) -> bool:
    """Whether a pattern, if there is one, is anywhere in a text."""
    return bool(pattern) and compile_pattern(pattern).search(text) is not None


def starts(pattern: str, text: str) -> bool:
    return bool(pattern) and compile_pattern(pattern).match(text) is not None


@once
def compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@once
def _compile_lead(leads: str, spaced: bool) -> re.Pattern[str]:
    end = r"(?![\w'])" if spaced else ""
    return re.compile(rf"(?:{leads}){end}[\s,.:!…，、]*", re.IGNORECASE)


@once
def _compile_any(language: RequestLanguage, whole: bool) -> re.Pattern[str]:
    """All rules of a language as one pattern, to pass quickly over sentences that none of them fits."""
    patterns = [rule.pattern for rule in language.rules if (RuleNeed.WHOLE in rule.needs) is whole]
    return re.compile("|".join(at.replace("(?P<what>", "(?:") for at in patterns), re.IGNORECASE)
