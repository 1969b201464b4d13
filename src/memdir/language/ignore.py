"""Does a message ask to leave memory alone, for this turn or for the whole conversation? In six languages.

Precision first: a memory that is missing when nobody asked for that is noticed late. So a request is heard only at the
start of a clause, in the imperative or as a polite question, and not inside quotes, code or quoted lines; and "ignore
memory" in a sentence about heaps and profilers means the machine's.

It hears requests to use or not to use memory. "Forget that…" is another thing and not heard here.
"""

import re
from collections.abc import Iterator

from memdir.ignoring.chinese import CHINESE
from memdir.ignoring.english import ENGLISH
from memdir.ignoring.french import FRENCH
from memdir.ignoring.german import GERMAN
from memdir.ignoring.japanese import JAPANESE
from memdir.ignoring.spanish import SPANISH
from memdir.language import IgnoreReach
from memdir.language.grammar import IgnoreLanguage, compile_free, compile_ignore_pattern, compile_requests, mark

__all__ = [
    "find_ignoring",
]


# --- ignoring ---

# A text without any of these is not looked at: nearly all texts.
_HINTS = (
    "memor", "memdir", "remember", "recall", "gedächtnis", "gedaechtnis", "erinnerung", "speicher", "mémoire", "mémor",
    "souv", "recuerd", "记忆", "記憶", "回忆", "回憶", "メモリ", "覚えて", "gemerkt",
)  # fmt: skip


def find_ignoring(text: str) -> IgnoreReach | None:
    """What a message asks of memory; the widest of several requests counts."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return None
    # Imported here: nearly no prompt speaks of memory.
    hear_all = find_ignore_requests

    return hear_all(text)


# --- hearing ---
# The languages a request is looked for in, sentence by sentence.
#
# A text comes here only if a word in it can mean memory at all: loading six languages costs every prompt milliseconds.

TONGUES = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
_QUOTED = (
    r"(?sm)```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*?$|\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|"
    r"「[^」\n]{0,300}」|『[^』\n]{0,300}』|《[^》\n]{0,300}》|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_SENTENCE = r"[^.!?。！？\n]*(?:[.!?](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]*"
# People say it first or last; what lies between in a long message is mostly pasted.
_EDGE = 3000
_LONGEST = 400


def find_ignore_requests(text: str) -> IgnoreReach | None:
    """What a message asks of memory; the widest of several requests counts."""
    found = {_hear(sentence, tongue) for sentence in _list_sentences(text) for tongue in TONGUES}
    return next((at for at in (IgnoreReach.CONVERSATION, IgnoreReach.TURN, IgnoreReach.LIFTED) if at in found), None)


def _list_sentences(text: str) -> Iterator[str]:
    edges = text if len(text) <= 2 * _EDGE else f"{text[:_EDGE]}\n{text[-_EDGE:]}"
    plain = re.sub(r"[\u2019\u02bc\uff07]", "'", edges).replace("\xa0", " ").replace("\u202f", " ")
    for match in re.finditer(_SENTENCE, re.sub(_QUOTED, " § ", plain)):
        sentence = " ".join(match.group().casefold().split())
        if sentence and len(sentence) <= _LONGEST:
            yield sentence


def _hear(sentence: str, tongue: IgnoreLanguage) -> IgnoreReach | None:
    if not compile_ignore_pattern(tongue.cues).search(sentence):
        return None
    words = mark(sentence.rstrip(".!?。！？ "), tongue)
    if "¤" not in words and "°" not in words and "recall" not in words:
        return None
    found = compile_requests(tongue).search(words)
    if found and found.lastgroup in ("again", "stop"):
        return IgnoreReach.LIFTED if found.lastgroup == "again" else IgnoreReach.CONVERSATION
    if not found and tongue.free:
        found = compile_free(tongue).search(words)
    if not found or _means_the_machine(words, found.group(), tongue) or _only_wonders(sentence, words, found, tongue):
        return None
    return IgnoreReach.CONVERSATION if compile_ignore_pattern(tongue.lasting).search(sentence) else IgnoreReach.TURN


def _means_the_machine(words: str, found: str, tongue: IgnoreLanguage) -> bool:
    return bool(tongue.doubts and "¤" not in found and compile_ignore_pattern(tongue.doubts).search(words))


def _only_wonders(sentence: str, words: str, found: re.Match[str], tongue: IgnoreLanguage) -> bool:
    """A question that is no polite request, and in which nothing else is asked: "ignore memory, how do I…?" asks."""
    if not sentence.endswith(("?", "？")) or compile_ignore_pattern(tongue.asks).search(sentence):
        return False
    rest = words[found.end() :]
    return len(rest.split()) < 3 and not re.search(r"[^\x00-\x7f]{4}", rest)
