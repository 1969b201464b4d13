"""Whether a message asks to leave memory alone, for this turn or for the whole conversation, in six languages.

Precision comes first: a memory that is missing when nobody asked for that is noticed late. A request counts only at the
start of a clause, in the imperative or as a polite question, and not inside quotes, code or quoted lines.

The words for memory in a sentence become one sign: `¤` where the agent's own is meant for sure ("your memory"), `°` where
it could be the machine's ("memory"). Words that may stand anywhere ("please") are removed, and so is what the memories are
about ("memories about zebras"): then only those are meant. A request is a core at the start of a clause, with leads before
it ("could you") and a tail after it, so that "the linter ignores memory" and "ignore memory leaks" are none.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache

from memdir.frozen import dataclass
from memdir.language import CODES, read_section
from memdir.language.words import compile_any

# A text without any of these is not looked at: nearly all texts, and no language file is read for them.
_HINTS = (
    "memor", "memdir", "remember", "recall", "gedächtnis", "erinnerung", "speicher", "mémo", "souv", "recuerd",
    "记忆", "記憶", "回忆", "回憶", "メモリ", "覚えて", "gemerkt",
)  # fmt: skip
_CLAUSE = r"(?:^|[,;:(—–，、；：（]|\s-\s)\s*[¿¡]?"  # where a clause may begin
_CLAUSE_END = r"\s*(?:$|[,;:)—–，、；：）]|\s-\s)"
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

    owned: str  # words for the agent's own memory, which become `¤`
    bare: str  # words for memory of any kind, which become `°`
    about: str  # beside such a sign: what the memories are about, as the group `subject`
    leads: str  # what may stand before a core
    cores: tuple[str, ...]  # the requests
    again: tuple[str, ...]  # requests that take an earlier one back
    after: str  # what may follow any of these besides the end of a clause
    lasting: str  # words that make a core hold for the conversation
    asks: str  # words that make a question a request
    fill: str = "(?!)"  # words that are removed first
    free: tuple[str, ...] = ("(?!)",)  # requests so plain that they may stand anywhere in a sentence


def find_ignoring(text: str) -> IgnoreReach | None:
    """What a message asks of all memory; the widest of several requests counts."""
    found = {reach for reach, subject in _find_requests(text) if not subject}
    return next((at for at in (IgnoreReach.CONVERSATION, IgnoreReach.TURN, IgnoreReach.LIFTED) if at in found), None)


def find_ignored(text: str) -> tuple[str, ...]:
    """What a message asks to leave the memories of alone: "zebra" of "ignore memories about zebra"."""
    found = (subject for reach, subject in _find_requests(text) if subject and reach is not IgnoreReach.LIFTED)
    return tuple(dict.fromkeys(found))


def _find_requests(text: str) -> Iterator[tuple[IgnoreReach, str]]:
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return
    for sentence in _list_sentences(text):
        for language in load_ignore_languages():
            words, subject = _mark(sentence.rstrip(".!?。！？ "), language)
            reach = _match(sentence, words, language) if re.search("[¤°]|recall", words) else None
            if reach is not None:
                yield reach, subject


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


def _match(sentence: str, words: str, language: IgnoreLanguage) -> IgnoreReach | None:
    found = _compile_requests(language).search(words)
    if found and found.lastgroup == "again":
        return IgnoreReach.LIFTED
    if not found:
        return None
    if sentence.endswith(("?", "？")) and not re.search(language.asks, sentence):
        rest = words[found.end() :]  # a question about it, unless more is asked: "ignore memory, how do I…?"
        if len(rest.split()) < 3 and not re.search(r"[^\x00-\x7f]{4}", rest):
            return None
    if "¤" not in found.group() and compile_any("machine_memory").search(words):
        return None
    return IgnoreReach.CONVERSATION if re.search(language.lasting, sentence) else IgnoreReach.TURN


def _mark(sentence: str, language: IgnoreLanguage) -> tuple[str, str]:
    """The sentence with its signs, without what may stand anywhere, and what the memories are about."""
    signed = re.sub(language.owned, "¤", sentence.replace("¤", " ").replace("°", " "))
    signed = " ".join(re.sub(language.fill, " ", re.sub(language.bare, "°", signed)).split())
    named = re.search(language.about, signed)
    if named is None:
        return signed, ""
    return signed[: named.start()] + signed[named.end() :], named["subject"].strip()


@cache
def _compile_requests(language: IgnoreLanguage) -> re.Pattern[str]:
    """All requests at the start of a clause, any number of leads before them; the group `again` takes one back."""
    again, ask, free = map("|".join, (language.again, language.cores, language.free))
    begun = rf"{_CLAUSE}(?:{language.leads}[\s,，、]*)*(?:(?P<again>{again})|{ask})"
    return re.compile(rf"(?:{begun}|{free})(?={_CLAUSE_END}|{language.after})")
