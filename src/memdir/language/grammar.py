"""What a language says of relative dates: the shape of the tables that `phrases` reads. It holds no language itself.

A form is (pattern, what it means, a number[, words put behind the date]). In a pattern a space is any white space
within a paragraph, `{N}` a number, `{W}` a weekday, `{A}` a short weekday; its first letter may be a capital unless
it starts with `=`. The first form that matches counts, so longer ones stand first.

Decided here, where people disagree, and the same in all six languages:
- "next Thursday" is the coming one, as "this Thursday" is. Speakers split over it near the day itself, and the
  earlier date does less harm when it is a deadline. "Thursday next week" is the one of next week.
- The end of a week is its Friday: it is said of work. On a weekend it is the Friday to come.
- A span is not made more exact than it was said: "in two months" is a month, "two years ago" a year.
- "since Thursday" looks back, whatever a bare weekday does elsewhere.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache

from memdir.frozen import dataclass, field, once
from memdir.records import Kind

# --- grammar ---


class DateForm(StrEnum):
    """What a form stands for; the number beside it is a step, or the sign of one that the text counts out."""

    DAY = "day"
    WEEKDAY = "weekday"  # bare: the coming one
    SHORT = "short"  # bare and abbreviated: the coming one, and only behind a preposition
    COMING = "coming"
    PREVIOUS = "previous"
    IN_WEEK = "in week"  # a weekday of the last, this or the next week
    DAYS = "days"
    WEEKS = "weeks"
    MONTHS = "months"
    YEARS = "years"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    WEEK_END = "week end"
    MONTH_END = "month end"
    QUARTER_END = "quarter end"
    YEAR_END = "year end"


Whats = tuple[DateForm, ...]
Form = tuple[str, DateForm, int] | tuple[str, DateForm, int, str]
Vetoes = Mapping[Whats, str]

PERIODS: Whats = (DateForm.WEEK, DateForm.MONTH, DateForm.QUARTER, DateForm.YEAR)
ENDS: Whats = (DateForm.WEEK_END, DateForm.MONTH_END, DateForm.QUARTER_END, DateForm.YEAR_END)
OFFSETS: Whats = (DateForm.DAYS, DateForm.WEEKS, DateForm.MONTHS, DateForm.YEARS)
BARE: Whats = (DateForm.WEEKDAY, DateForm.SHORT)
NAMED: Whats = (*BARE, DateForm.COMING, DateForm.PREVIOUS)


@dataclass(frozen=True, slots=True, eq=False)  # each is one of a kind; its patterns are kept by identity
class DateLanguage:
    """One language.

    stems           small letters of which every form holds one: a text without any of them need not be looked at
    before, after   contexts that veto a form, as regular expressions that touch it
    follows         what must follow a form, where a language is that strict
    prepositions    what stands before -> what then stands before a date, a month or year, a week
    glue            what is put before when nothing stands there: "day", "offset", "span", "year", "week"
    opens           prepositions that free a weekday at the start of a clause from `follows`
    past            prepositions that turn a bare weekday into the previous one
    habit           words that make the weekdays of a whole sentence a habit
    verbs           verbs after which a period at the start of a clause is seen to be the subject: no glue
    needs           (words, expected, unexpected): words counted only where their language shows in the same line
    """

    forms: tuple[Form, ...]
    weekdays: tuple[str, ...]
    numbers: Mapping[str, int]
    stems: tuple[str, ...]
    before: Vetoes = field(default_factory=dict)
    after: Vetoes = field(default_factory=dict)
    follows: Vetoes = field(default_factory=dict)
    prepositions: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    glue: Mapping[str, str] = field(default_factory=dict)
    opens: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    habit: str = "(?!)"
    verbs: str = "(?!)"
    needs: tuple[str, str, str] = ("(?!)", "", "")
    week: str = "{}"
    year: str = "{}"
    spaced: bool = True


def periods(step: int, *, week: str, month: str, quarter: str, year: str) -> tuple[Form, ...]:
    """The four forms of one step: last, this or next."""
    patterns = (week, month, quarter, year)
    return tuple((pattern, what, step) for pattern, what in zip(patterns, PERIODS, strict=True))


def count_words(words: str, start: int = 1) -> dict[str, int]:
    """Number words in order, from `start` on."""
    return {word: count for count, word in enumerate(words.split(), start)}


def split_forms(words: str) -> tuple[str, ...]:
    """Stems, divided by commas."""
    return tuple(words.split(","))


def keep_phrase(words: str) -> dict[str, tuple[str, str, str]]:
    """Prepositions that stand before a date as they stood before its words."""
    return {word: (word, word, word) for word in words.split()}


# --- tongue ---
# What one language brings for hearing what a person wants remembered: its patterns as text, compiled when needed.
#
# A rule is a pattern at the start of a clause, after any number of leads ("please", "and"). Its group `what` is the
# content; without one the whole sentence is. That is what tells "remember that we squash" from "do you remember
# whether
# we squash": the words are the same, the place is not.
#
# It hears nothing itself.

# Where a clause may begin: the sentence, or after a comma, dash, colon or bracket.
_CLAUSE = re.compile(r"(?:^|[,;:!(—–，、；：（]|\s-\s)\s*[¿¡\"'“]?\s*")
_LONGEST = 2_000  # of a sentence: requests are cut at a quarter of it, and the patterns take their time over long ones
_LEADS = 8
_LOOK = 1000  # characters that tell the language
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_SMALL_WORD = re.compile(r"[a-zà-ÿ']+")


class RequestCategory(StrEnum):
    """What sort of words a wish rests on."""

    REQUEST = "request"
    CORRECTION = "correction"
    CONFIRMATION = "confirmation"
    IDENTITY = "identity"
    DEADLINE = "deadline"
    DECISION = "decision"
    POINTER = "pointer"
    FORGET = "forget"


class RuleNeed(StrEnum):
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
class RequestRule:
    """One way to say it. Without a `kind` the content decides, and `default` where it does not tell."""

    category: RequestCategory
    pattern: str
    needs: tuple[RuleNeed, ...] = ()
    kind: Kind | None = None
    default: Kind = Kind.PROJECT


@dataclass(frozen=True, slots=True, eq=False)
class RequestLanguage:
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
    rules: tuple[RequestRule, ...]
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


def make_request_rule(
    category: RequestCategory, pattern: str, *needs: RuleNeed, kind: Kind | None = None, default: Kind = Kind.PROJECT
) -> RequestRule:
    return RequestRule(category, pattern, needs, kind, default)


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


def find_tongues(text: str, tongues: Sequence[RequestLanguage]) -> list[RequestLanguage]:
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
def _compile_any(tongue: RequestLanguage, whole: bool) -> re.Pattern[str]:
    """All rules of a language as one pattern, to pass quickly over sentences that none of them fits."""
    patterns = [rule.pattern for rule in tongue.rules if (RuleNeed.WHOLE in rule.needs) is whole]
    return re.compile("|".join(at.replace("(?P<what>", "(?:") for at in patterns), re.IGNORECASE)


def may_fit(tongue: RequestLanguage, text: str) -> bool:
    """Whether any rule fits a sentence at all; most sentences end here, and all that nobody would say in one breath."""
    if len(text) > _LONGEST:
        return False
    whole, places = find_starts(text, tongue)
    if _compile_any(tongue, True).match(text, whole):
        return True
    pattern = _compile_any(tongue, False)
    return any(pattern.match(text, place) for place in places)


def find_starts(text: str, tongue: RequestLanguage) -> tuple[int, list[int]]:
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


def skip_interjections(text: str, tongue: RequestLanguage) -> int:
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


# --- tongue ---
# What one language brings for hearing "leave memory alone": its patterns as text, compiled when they are needed.
#
# Before a sentence is looked at, the words for memory in it become one sign: `¤` where the agent's own is meant for
# sure
# ("your memory", "saved memories"), `°` where it could be the machine's ("memory"); and words that may stand anywhere
# ("please") are taken out. A request is then a core at the start of a clause, with leads before it (this time, could
# you)
# and a tail after it. That is what tells it from a sentence about something else: in "the linter ignores memory",
# "don't
# ignore memory" and "they are fast and don't use memory" the words are there, but not at that place; in "ignore memory
# leaks" the tail is wrong.

MEM = "[¤°]"
# Where a clause may begin: the sentence, or after a comma, dash, colon or bracket.
_TONGUE_CLAUSE = r"(?:^|[,;:(—–，、；：（]|\s-\s)\s*[¿¡]?"
# Where one may end.
END = r"\s*(?:$|[,;:)—–，、；：）]|\s-\s)"


@dataclass(frozen=True, slots=True)
class IgnoreLanguage:
    """The patterns of one language; each is tried on one sentence in lower case.

    cues     one of them is in every request; a text without is not looked at
    owned    words for the agent's own memory, which become `¤`
    bare     words for memory of any kind, which become `°`
    fill     words that are taken out before
    leads    what may stand before a core
    cores    the requests
    stops    requests that hold for the conversation by what they say ("stop using…")
    again    requests that take an earlier one back
    free     requests so plain that they may stand anywhere in a sentence
    tail     what must follow any of these
    lasting  words that make a core hold for the conversation
    asks     words that make a question a request
    doubts   words that make a core with `°` mean the machine's memory
    """

    cues: str
    owned: str
    bare: str
    leads: str
    cores: tuple[str, ...]
    again: tuple[str, ...]
    tail: str
    lasting: str
    asks: str
    fill: str = ""
    stops: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    doubts: str = ""


def any_word_of(words: str) -> str:
    """A pattern for any of the words, which are separated by commas and may be patterns themselves."""
    return f"(?:{'|'.join(' '.join(word.split()) for word in words.split(','))})"


def mark(sentence: str, tongue: IgnoreLanguage) -> str:
    """The sentence with its signs, and without what may stand anywhere."""
    signed = compile_ignore_pattern(tongue.owned).sub("¤", sentence.replace("¤", " ").replace("°", " "))
    signed = compile_ignore_pattern(tongue.bare).sub("°", signed)
    return " ".join(compile_ignore_pattern(tongue.fill).sub(" ", signed).split()) if tongue.fill else signed


@cache
def compile_ignore_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def compile_requests(tongue: IgnoreLanguage) -> re.Pattern[str]:
    """All requests at the start of a clause, any number of leads before them, as the groups again, stop and ask."""
    groups = [f"(?P<again>{'|'.join(tongue.again)})", f"(?P<ask>{'|'.join(tongue.cores)})"]
    groups += [f"(?P<stop>{'|'.join(tongue.stops)})"] if tongue.stops else []
    return re.compile(rf"{_TONGUE_CLAUSE}(?:{tongue.leads}[\s,，、]*)*(?:{'|'.join(groups)}){tongue.tail}")


@cache
def compile_free(tongue: IgnoreLanguage) -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(tongue.free)}){tongue.tail}")
