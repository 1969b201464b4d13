"""Patterns for requests to remember or forget, and the positions in a sentence where they may match.

A pattern is tried at the start of a clause, also after introductory words such as "please" and "and". Its group `what` is
the content without the words of the request. Its group `about` is the subject, if those words cannot be removed. Without
either group, the content is all text from the match on. `extraction.find` uses the matches.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from memdir.frozen import compile_late, dataclass, once
from memdir.language import compile_any, load_stop_words, read_section, read_sections
from memdir.text import CJK, HIRAGANA, KATAKANA

# A clause may begin at the start of the sentence, or after a comma, dash, colon or bracket.
_CLAUSE = compile_late(r"(?:^|[,;:!(—–，、；：（]|\s-\s)\s*[¿¡\"'“]?\s*")
_LEADS = 8
_LANGUAGE_CHARS = 1000  # examined to recognise the language
_WIDE = compile_late(rf"[{CJK}]")
_KANA = compile_late(rf"[{HIRAGANA}{KATAKANA}]")
_SMALL_WORD = compile_late(r"[a-zà-ÿ']+")


class RequestCategory(StrEnum):
    """The kinds of sentences that contain a request, in the order in which their patterns are tried."""

    FORGET = "forget"
    REQUEST = "request"  # "remember that…"
    ORDER = "order"  # "from now on…", "always", "never"
    PREFERENCE = "preference"  # how the user likes the work done, a habit of the team
    IDENTITY = "identity"  # who the user is
    POINTER = "pointer"  # where to look outside the project
    PLAN = "plan"  # what happens at a date
    FACT = "fact"  # a decision, or a requirement with its reason
    STATEMENT = "statement"  # any other fact or rule, recognised as a whole (`language.statements`)


@dataclass(frozen=True, slots=True, eq=False)
class RequestLanguage:
    """The patterns of one language."""

    name: str
    rules: Mapping[RequestCategory, tuple[str, ...]]
    leads: str  # words allowed before a rule in its clause
    breaks: str  # an unmarked start of a clause: before "and from now on"
    questions: str  # begins a question that has no mark
    asks: str  # makes a question a request
    reported: str  # before a rule: a quotation, a supposition, a title, a text to write
    refusals: str  # asks not to keep this message
    tasks: str  # says that it is only about the current work
    state: str  # describes the state of the current work, which is never kept
    judgement: str  # criticises a person, which is never kept
    pronouns: str  # content that only refers to earlier text
    tail: str  # politeness after the content
    about_me: str  # content about the user
    directs: str  # how to work: feedback
    places: str  # phrases that name an outside system as a place to look
    negates: str  # words that negate a sentence
    corrects: str  # says that an earlier statement is wrong
    renews: str  # says that something changes from now on
    forgets: str  # asks to forget something, when said to a memory and not to an agent
    small_talk: str  # thanks, a greeting, a yes: neither a question nor a statement
    orders: str  # begins an order to do something now
    links: frozenset[str]  # words that a title may contain, but not begin or end with
    empty: frozenset[str]  # words that a title omits
    spaced: bool = True  # whether spaces separate words


@cache
def load_request_languages() -> tuple[RequestLanguage, ...]:
    system = read_section("systems", "names")["system"]
    return tuple(_make_language(code, section) for code, section in read_sections("requests", system=system).items())


def _make_language(code: str, section: dict[str, Any]) -> RequestLanguage:
    section["rules"] = {category: section["rules"].get(category.value, ()) for category in RequestCategory}
    section["links"] = frozenset(section["links"])
    section["empty"] = (load_stop_words(code) | frozenset(section["empty"])) - section["links"]
    return RequestLanguage(name=code, **section)


def find_request_languages(text: str) -> list[RequestLanguage]:
    """Return the languages that a text may be written in, judged by its script and common words."""
    lowered = text[:_LANGUAGE_CHARS].lower()
    if not _WIDE.search(lowered):
        candidates = [language for language in load_request_languages() if language.spaced]
    else:
        other = "zh" if _KANA.search(lowered) else "ja"
        candidates = [language for language in load_request_languages() if language.name != other]
    words = _SMALL_WORD.findall(lowered)
    spaced = [language for language in candidates if language.spaced]
    counts = {
        language.name: sum(word in language.empty or word in language.links for word in words) for language in spaced
    }
    most = max(counts.values(), default=0)
    least = max(min(most, 1), most * 3 // 4)
    near = [language for language in spaced if counts[language.name] >= least]
    wide = [language for language in candidates if not language.spaced]
    return wide + (near if most or not wide else [])


def find_starts(text: str, language: RequestLanguage, *, whole: bool = False) -> list[int]:
    """Return the offsets where a pattern may match: the start of each clause, also after words such as "please"."""
    offsets = []
    clauses = [*_CLAUSE.finditer(text), *compile_pattern(language.breaks).finditer(text)]
    for clause in clauses[:1] if whole else clauses:
        offset = clause.end()
        offsets.append(offset)
        for _ in range(_LEADS):
            lead = _compile_lead(language.leads, language.spaced).match(text, offset)
            if not lead:
                break
            offset = lead.end()
            offsets.append(offset)
    return sorted(set(offsets))


def is_question(text: str, language: RequestLanguage) -> bool:
    return text.rstrip(" )\"'”」").endswith(("?", "？")) or starts(language.questions, text)


def has(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def starts(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).match(text) is not None


@once
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a language's pattern, ignoring case. An empty pattern never matches."""
    return re.compile(pattern or "(?!)", re.IGNORECASE)


@once
def _compile_lead(leads: str, spaced: bool) -> re.Pattern[str]:
    end = r"(?![\w'])" if spaced else ""
    return re.compile(rf"(?:{leads}){end}[\s,.:!…，、]*", re.IGNORECASE)


# --- "ignore memory" -------------------------------------------------------------------------------------------------
# Detects whether a message asks to ignore memory, for this turn or for the full conversation, in six languages.
#
# Precision comes first: a memory that is missing without a request is noticed late. A request counts only at the start of a
# clause, in the imperative or as a polite question, and not inside quotes, code or quoted lines.
#
# The words for memory in a sentence become one sign: `¤` if they certainly mean the agent's ("your memory"), `°` if they could
# mean the machine's ("memory"). Words that may occur anywhere ("please") are removed, and so is the subject of the memories
# ("memories about zebras"), which limits the request to these. A request is a core at the start of a clause, with leads
# before it ("could you") and a tail after it, so that "the linter ignores memory" and "ignore memory leaks" do not match.

# A text without any of these is skipped: nearly all texts, and no language file is read for them.
_HINTS = (
    "memor", "memdir", "remember", "recall", "gedächtnis", "erinnerung", "speicher", "mémo", "souv", "recuerd",
    "记忆", "記憶", "回忆", "回憶", "メモリ", "覚えて", "gemerkt",
)  # fmt: skip
_IGNORE_CLAUSE = r"(?:^|[,;:(—–，、；：（]|\s-\s)\s*[¿¡]?"  # possible starts of a clause
_CLAUSE_END = r"\s*(?:$|[,;:)—–，、；：）]|\s-\s)"
_QUOTED = (
    r"(?sm)```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*?$|\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|"
    r"「[^」\n]{0,300}」|『[^』\n]{0,300}』|《[^》\n]{0,300}》|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_SENTENCE = r"[^.!?。！？\n]*(?:[.!?](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]*"
_EDGE = 3000  # requests come first or last; the middle of a long message is mostly pasted
_SENTENCE_CHARS = 400


class IgnoreReach(StrEnum):
    """How much a request to ignore memory covers. LIFTED cancels an earlier request."""

    TURN = "turn"
    CONVERSATION = "conversation"
    LIFTED = "lifted"


@dataclass(frozen=True, slots=True, eq=False)
class IgnoreLanguage:
    """The patterns of one language. Each is matched against a sentence in lower case."""

    owned: str  # words for the agent's own memory, which `_simplify` replaces by `¤`
    bare: str  # words for memory of any kind, which it replaces by `°`
    about: str  # next to such a sign: the subject of the memories, as the group `subject`
    leads: str  # words allowed before a request
    cores: tuple[str, ...]  # the requests
    again: tuple[str, ...]  # requests that cancel an earlier one
    after: str  # text that may follow any of these, besides the end of a clause
    lasting: str  # words that extend a request to the conversation
    asks: str  # words that make a question a request
    fill: str = "(?!)"  # filler words, which are removed first
    free: tuple[str, ...] = ("(?!)",)  # clear requests that may occur anywhere in a sentence


def find_ignoring(text: str) -> IgnoreReach | None:
    """Return how much of the memory a message asks to ignore, or None."""
    reaches = {reach for reach, subject in _find_requests(text) if not subject}
    widest_first = (IgnoreReach.CONVERSATION, IgnoreReach.TURN, IgnoreReach.LIFTED)
    return next((reach for reach in widest_first if reach in reaches), None)


def find_ignored(text: str) -> tuple[str, ...]:
    """Return the subjects that a message asks to ignore, such as "zebra" in "ignore memories about zebra"."""
    subjects = (subject for reach, subject in _find_requests(text) if subject and reach is not IgnoreReach.LIFTED)
    return tuple(dict.fromkeys(subjects))


def _find_requests(text: str) -> Iterator[tuple[IgnoreReach, str]]:
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return
    for sentence in _list_sentences(text):
        for language in load_ignore_languages():
            words, subject = _simplify(sentence.rstrip(".!?。！？ "), language)
            reach = _match(sentence, words, language) if re.search("[¤°]|recall", words) else None
            if reach is not None:
                yield reach, subject


@cache
def load_ignore_languages() -> tuple[IgnoreLanguage, ...]:
    return tuple(IgnoreLanguage(**section) for section in read_sections("ignore").values())


def _list_sentences(text: str) -> Iterator[str]:
    edges = text if len(text) <= 2 * _EDGE else f"{text[:_EDGE]}\n{text[-_EDGE:]}"
    plain = re.sub(r"[\u2019\u02bc\uff07]", "'", edges).replace("\xa0", " ").replace("\u202f", " ")
    for match in re.finditer(_SENTENCE, re.sub(_QUOTED, " § ", plain)):
        sentence = " ".join(match.group().casefold().split())
        if sentence and len(sentence) <= _SENTENCE_CHARS:
            yield sentence


def _match(sentence: str, words: str, language: IgnoreLanguage) -> IgnoreReach | None:
    request = _compile_requests(language).search(words)
    if request and request.lastgroup == "again":
        return IgnoreReach.LIFTED
    if not request:
        return None
    if sentence.endswith(("?", "？")) and not re.search(language.asks, sentence):
        rest = words[request.end() :]  # a question about memory, unless more is asked: "ignore memory, how do I…?"
        if len(rest.split()) < 3 and not re.search(r"[^\x00-\x7f]{4}", rest):
            return None
    if "¤" not in request.group() and compile_any("machine_memory").search(words):
        return None
    return IgnoreReach.CONVERSATION if re.search(language.lasting, sentence) else IgnoreReach.TURN


def _simplify(sentence: str, language: IgnoreLanguage) -> tuple[str, str]:
    """Return the sentence with placeholders and without filler words, and the subject of the memories."""
    signed = re.sub(language.owned, "¤", sentence.replace("¤", " ").replace("°", " "))
    signed = " ".join(re.sub(language.fill, " ", re.sub(language.bare, "°", signed)).split())
    named = re.search(language.about, signed)
    if named is None:
        return signed, ""
    return signed[: named.start()] + signed[named.end() :], named["subject"].strip()


@cache
def _compile_requests(language: IgnoreLanguage) -> re.Pattern[str]:
    """Compile a pattern for all requests at the start of a clause. The group `again` cancels a request."""
    again, ask, free = map("|".join, (language.again, language.cores, language.free))
    at_start = rf"{_IGNORE_CLAUSE}(?:{language.leads}[\s,，、]*)*(?:(?P<again>{again})|{ask})"
    return re.compile(rf"(?:{at_start}|{free})(?={_CLAUSE_END}|{language.after})")
