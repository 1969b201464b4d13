"""What one language brings for hearing what a person wants remembered: its patterns as text, compiled when needed.

A rule is a pattern at the start of a clause, after any number of leads ("please", "and"). Its group `what` is the
content; without one the whole sentence is. That is what tells "remember that we squash" from "do you remember whether
we squash": the words are the same, the place is not.

It hears nothing itself.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.once import once
from memdir.records import Kind

# Where a clause may begin: the sentence, or after a comma, dash, colon or bracket.
_CLAUSE = re.compile(r"(?:^|[,;:!(—–，、；：（]|\s-\s)\s*[¿¡\"'“]?\s*")
_LONGEST = 2_000  # of a sentence: requests are cut at a quarter of it, and the patterns take their time over long ones
_LEADS = 8
_LOOK = 1000  # characters that tell the language
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_SMALL_WORD = re.compile(r"[a-zà-ÿ']+")


class Category(StrEnum):
    """What sort of words a wish rests on."""

    REQUEST = "request"
    CORRECTION = "correction"
    CONFIRMATION = "confirmation"
    IDENTITY = "identity"
    DEADLINE = "deadline"
    DECISION = "decision"
    POINTER = "pointer"
    FORGET = "forget"


class Need(StrEnum):
    """What a sentence must have besides the words of a rule.

    STRONG    nothing: the words ask for memory by themselves, in a question and in a long message too
    GENERAL   a sign that it is meant for good ("ever", "in this project")
    LASTING   content that is no plan or report of the speaker's own
    ANSWERED  an agent's message before it, which it corrects or praises
    DATED     a date
    ALONE     words for later, or no other sentence beside it that orders something
    DIRECTING it stands after a sentence that tells the agent what to do
    SOUND     nothing that ails: a norm, not a report of what is wrong
    WHOLE     the rule fits the sentence from its beginning, not a later clause
    """

    STRONG = "strong"
    GENERAL = "general"
    LASTING = "lasting"
    ANSWERED = "answered"
    DATED = "dated"
    ALONE = "alone"
    DIRECTING = "directing"
    SOUND = "sound"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to say it. Without a `kind` the content decides, and `default` where it does not tell."""

    category: Category
    pattern: str
    needs: tuple[Need, ...] = ()
    kind: Kind | None = None
    default: Kind = Kind.PROJECT


@dataclass(frozen=True, slots=True, eq=False)
class Tongue:
    """The patterns of one language.

    breaks     where a clause begins though nothing marks it: before "and from now on"
    leads      what may stand before a rule in its clause
    rules      the rules, best first
    asks       makes a question a request
    begs       begins a question that orders to leave something: "can you stop"
    tags       ends an order with a question mark that asks nothing: ", okay?"
    widens     says that not only the work at hand is meant, in words that name it: "not just this one"
    questions  begins a question that has no mark
    reported   before a rule: somebody else's words, a supposition, a title
    refusals   asks not to keep this message
    tasks      says that only the work at hand is meant
    states     says so of content that was asked to be remembered, too
    idle       content of a "from now on" that asks nothing of the agent
    general    says that it is meant for good
    plays      begins a role to be played; what is asked for then is asked of the role
    lasts      says that it is for later; `orders` begins an order for now
    vouches    a sentence after it that says so
    pronouns   content that points to what was said before
    refers     a word in it that does
    that       words between a request and its content
    tail       politeness after it
    why        sets a reason apart, as the group `why`
    about_me   content about the person; `prefers` what they like, `directs` how to work, both feedback
    places     where a system outside is a place to look; without it any system is
    looks      content that tells to look there, though it is worded as a habit or an order
    mine       content that speaks of the person further on, and orders nothing
    praise     words of praise that do not say what for
    goes_on    a sentence after a correction that belongs to it
    negates    words that turn a sentence round
    links      words that may stand inside a title, but not begin or end it
    empty      words a title does without
    ails       says that something is out of order, or how it was: a report, not a norm
    spaced     whether words are set apart by spaces
    """

    name: str
    leads: str
    rules: tuple[Rule, ...]
    asks: str
    questions: str
    reported: str
    refusals: str
    tasks: str
    states: str
    idle: str
    general: str
    vouches: str
    pronouns: str
    refers: str
    that: str
    tail: str
    why: str
    about_me: str
    prefers: str
    directs: str
    praise: str
    goes_on: str
    negates: str
    links: frozenset[str]
    empty: frozenset[str]
    spaced: bool = True
    lasts: str = ""
    orders: str = ""
    plays: str = ""
    begs: str = ""
    tags: str = ""
    widens: str = ""
    places: str = ""
    looks: str = ""
    mine: str = ""
    breaks: str = ""
    ails: str = ""


def make_rule(
    category: Category, pattern: str, *needs: Need, kind: Kind | None = None, default: Kind = Kind.PROJECT
) -> Rule:
    return Rule(category, pattern, needs, kind, default)


def any_of(words: str) -> str:
    """A pattern for any of the words: separated by commas, patterns themselves, over as many lines as it takes."""
    parts, depth = [""], 0
    for char in re.sub(r"([|,])\s*\n\s*", r"\1", words):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return f"(?:{'|'.join(' '.join(part.split()) for part in parts)})"


def words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


@once
def compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@once
def _compile_lead(leads: str, spaced: bool) -> re.Pattern[str]:
    end = r"(?![\w'])" if spaced else ""
    return re.compile(rf"(?:{leads}){end}[\s,.:!…，、]*", re.IGNORECASE)


def find_tongues(text: str, tongues: Sequence[Tongue]) -> list[Tongue]:
    """The languages a text may be written in, by its script and its small words."""
    lowered = text[:_LOOK].lower()
    if not _CJK.search(lowered):
        candidates = [tongue for tongue in tongues if tongue.spaced]
    else:
        other = "zh" if _KANA.search(lowered) else "ja"
        candidates = [tongue for tongue in tongues if tongue.name != other]
    words = _SMALL_WORD.findall(lowered)
    counts = {at.name: sum(word in at.empty or word in at.links for word in words) for at in candidates if at.spaced}
    most = max(counts.values(), default=0)
    least = max(min(most, 1), most * 3 // 4)
    near = [tongue for tongue in candidates if tongue.spaced and counts[tongue.name] >= least]
    wide = [tongue for tongue in candidates if not tongue.spaced]
    return wide + (near if most or not wide else [])


@once
def _compile_any(tongue: Tongue, whole: bool) -> re.Pattern[str]:
    """All rules of a language as one pattern, to pass quickly over sentences that none of them fits."""
    patterns = [rule.pattern for rule in tongue.rules if (Need.WHOLE in rule.needs) is whole]
    return re.compile("|".join(at.replace("(?P<what>", "(?:") for at in patterns), re.IGNORECASE)


def may_fit(tongue: Tongue, text: str) -> bool:
    """Whether any rule fits a sentence at all; most sentences end here, and all that nobody would say in one breath."""
    if len(text) > _LONGEST:
        return False
    whole, places = find_starts(text, tongue)
    if _compile_any(tongue, True).match(text, whole):
        return True
    pattern = _compile_any(tongue, False)
    return any(pattern.match(text, place) for place in places)


def find_starts(text: str, tongue: Tongue) -> tuple[int, list[int]]:
    """Where a rule may begin: behind all leads of the sentence, and at or behind each lead of each clause."""
    lead = _compile_lead(tongue.leads, tongue.spaced)
    places: list[int] = []
    whole = 0
    breaks = compile_pattern(tongue.breaks).finditer(text) if tongue.breaks else ()
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


def skip_interjections(text: str, tongue: Tongue) -> int:
    """Where a sentence begins behind the leads that a comma or the like sets apart from it."""
    place = 0
    for _ in range(_LEADS):
        found = _compile_lead(tongue.leads, tongue.spaced).match(text, place)
        if not found or not re.search(r"[,.:!…，、]", found[0]):
            break
        place = found.end()
    return place


def has(pattern: str, text: str) -> bool:
    """Whether a pattern, if there is one, is anywhere in a text."""
    return bool(pattern) and compile_pattern(pattern).search(text) is not None


def starts(pattern: str, text: str) -> bool:
    return bool(pattern) and compile_pattern(pattern).match(text) is not None
