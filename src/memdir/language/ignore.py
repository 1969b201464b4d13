"""Whether a message asks to leave memory alone, for this turn or for the whole conversation, in six languages.

Precision comes first: a memory that is missing when nobody asked for that is noticed late. A request counts only at the
start of a clause, in the imperative or as a polite question, and not inside quotes, code or quoted lines.

Before a sentence is matched, the words for memory in it become one sign: `¤` where the agent's own is meant for sure
("your memory", "saved memories"), `°` where it could be the machine's ("memory"); words that may stand anywhere
("please") are removed. A request is then a core at the start of a clause, with leads before it ("could you") and a tail
after it. In "the linter ignores memory" and "don't ignore memory" the words are there, but not in that position; in
"ignore memory leaks" the tail is wrong. "Forget that…" is another request and not found here.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache

from memdir.frozen import dataclass
from memdir.language import CODES, read_section

# A text without any of these is not looked at: nearly all texts, and no language file is read for them.
_HINTS = (
    "memor", "memdir", "remember", "recall", "gedächtnis", "gedaechtnis", "erinnerung", "speicher", "mémoire", "mémor",
    "souv", "recuerd", "记忆", "記憶", "回忆", "回憶", "メモリ", "覚えて", "gemerkt",
)  # fmt: skip
_CLAUSE = r"(?:^|[,;:(—–，、；：（]|\s-\s)\s*[¿¡]?"  # where a clause may begin
_QUOTED = (
    r"(?sm)```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*?$|\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|"
    r"「[^」\n]{0,300}」|『[^』\n]{0,300}』|《[^》\n]{0,300}》|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_SENTENCE = r"[^.!?。！？\n]*(?:[.!?](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]*"
_EDGE = 3000  # people ask first or last; the middle of a long message is mostly pasted
_LONGEST = 400


class IgnoreReach(StrEnum):
    """How far a request reaches; LIFTED takes an earlier one back."""

    TURN = "turn"
    CONVERSATION = "conversation"
    LIFTED = "lifted"


@dataclass(frozen=True, slots=True, eq=False)
class IgnoreLanguage:
    """The patterns of one language; each is tried on one sentence in lower case."""

    cues: str  # one of them is in every request; a sentence without is not looked at
    owned: str  # words for the agent's own memory, which become `¤`
    bare: str  # words for memory of any kind, which become `°`
    leads: str  # what may stand before a core
    cores: tuple[str, ...]  # the requests
    again: tuple[str, ...]  # requests that take an earlier one back
    tail: str  # what must follow any of these
    lasting: str  # words that make a core hold for the conversation
    asks: str  # words that make a question a request
    fill: str = ""  # words that are removed first
    stops: tuple[str, ...] = ()  # requests that hold for the conversation by what they say ("stop using…")
    free: tuple[str, ...] = ()  # requests so plain that they may stand anywhere in a sentence
    doubts: str = ""  # words that make a core with `°` mean the machine's memory


def find_ignoring(text: str) -> IgnoreReach | None:
    """What a message asks of memory; the widest of several requests counts."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return None
    found = {_match(sentence, at) for sentence in _list_sentences(text) for at in load_ignore_languages()}
    return next((at for at in (IgnoreReach.CONVERSATION, IgnoreReach.TURN, IgnoreReach.LIFTED) if at in found), None)


@cache
def load_ignore_languages() -> tuple[IgnoreLanguage, ...]:
    return tuple(IgnoreLanguage(**read_section(code, "ignore")) for code in CODES)


def _list_sentences(text: str) -> Iterator[str]:
    edges = text if len(text) <= 2 * _EDGE else f"{text[:_EDGE]}\n{text[-_EDGE:]}"
    plain = re.sub(r"[\u2019\u02bc\uff07]", "'", edges).replace("\xa0", " ").replace("\u202f", " ")
    for match in re.finditer(_SENTENCE, re.sub(_QUOTED, " § ", plain)):
        sentence = " ".join(match.group().casefold().split())
        if sentence and len(sentence) <= _LONGEST:
            yield sentence


def _match(sentence: str, language: IgnoreLanguage) -> IgnoreReach | None:
    if not _compile(language.cues).search(sentence):
        return None
    words = _mark(sentence.rstrip(".!?。！？ "), language)
    if "¤" not in words and "°" not in words and "recall" not in words:
        return None
    found = _compile_requests(language).search(words)
    if found and found.lastgroup in ("again", "stop"):
        return IgnoreReach.LIFTED if found.lastgroup == "again" else IgnoreReach.CONVERSATION
    if not found and language.free:
        found = _compile(f"(?:{'|'.join(language.free)}){language.tail}").search(words)
    if not found or _is_question(sentence, words[found.end() :], language):
        return None
    if language.doubts and "¤" not in found.group() and _compile(language.doubts).search(words):
        return None
    return IgnoreReach.CONVERSATION if _compile(language.lasting).search(sentence) else IgnoreReach.TURN


def _mark(sentence: str, language: IgnoreLanguage) -> str:
    """The sentence with its signs, and without what may stand anywhere."""
    signed = _compile(language.owned).sub("¤", sentence.replace("¤", " ").replace("°", " "))
    signed = _compile(language.bare).sub("°", signed)
    return " ".join(_compile(language.fill).sub(" ", signed).split()) if language.fill else signed


def _is_question(sentence: str, rest: str, language: IgnoreLanguage) -> bool:
    """A question that is no polite request and asks nothing else; "ignore memory, how do I…?" does."""
    if not sentence.endswith(("?", "？")) or _compile(language.asks).search(sentence):
        return False
    return len(rest.split()) < 3 and not re.search(r"[^\x00-\x7f]{4}", rest)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def _compile_requests(language: IgnoreLanguage) -> re.Pattern[str]:
    """All requests at the start of a clause, any number of leads before them, as the groups again, stop and ask."""
    groups = [f"(?P<again>{'|'.join(language.again)})", f"(?P<ask>{'|'.join(language.cores)})"]
    groups += [f"(?P<stop>{'|'.join(language.stops)})"] if language.stops else []
    return re.compile(rf"{_CLAUSE}(?:{language.leads}[\s,，、]*)*(?:{'|'.join(groups)}){language.tail}")
