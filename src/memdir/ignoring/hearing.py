"""The languages a request is looked for in, sentence by sentence.

A text comes here only if a word in it can mean memory at all: loading six languages costs every prompt milliseconds.
"""

import re
from collections.abc import Iterator

from memdir.ignoring.chinese import CHINESE
from memdir.ignoring.english import ENGLISH
from memdir.ignoring.french import FRENCH
from memdir.ignoring.german import GERMAN
from memdir.ignoring.japanese import JAPANESE
from memdir.ignoring.reach import Ignoring
from memdir.ignoring.spanish import SPANISH
from memdir.ignoring.tongue import Tongue, compile_free, compile_pattern, compile_requests, mark

TONGUES = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
_QUOTED = (
    r"(?sm)```.*?(?:```|\Z)|`[^`\n]*`|^\s*>.*?$|\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]|«[^»\n]{0,300}»|"
    r"「[^」\n]{0,300}」|『[^』\n]{0,300}』|《[^》\n]{0,300}》|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_SENTENCE = r"[^.!?。！？\n]*(?:[.!?](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]*"
# People say it first or last; what lies between in a long message is mostly pasted.
_EDGE = 3000
_LONGEST = 400


def hear_all(text: str) -> Ignoring | None:
    """What a message asks of memory; the widest of several requests counts."""
    found = {_hear(sentence, tongue) for sentence in _list_sentences(text) for tongue in TONGUES}
    return next((at for at in (Ignoring.CONVERSATION, Ignoring.TURN, Ignoring.LIFTED) if at in found), None)


def _list_sentences(text: str) -> Iterator[str]:
    edges = text if len(text) <= 2 * _EDGE else f"{text[:_EDGE]}\n{text[-_EDGE:]}"
    plain = re.sub(r"[\u2019\u02bc\uff07]", "'", edges).replace("\xa0", " ").replace("\u202f", " ")
    for match in re.finditer(_SENTENCE, re.sub(_QUOTED, " § ", plain)):
        sentence = " ".join(match.group().casefold().split())
        if sentence and len(sentence) <= _LONGEST:
            yield sentence


def _hear(sentence: str, tongue: Tongue) -> Ignoring | None:
    if not compile_pattern(tongue.cues).search(sentence):
        return None
    words = mark(sentence.rstrip(".!?。！？ "), tongue)
    if "¤" not in words and "°" not in words and "recall" not in words:
        return None
    found = compile_requests(tongue).search(words)
    if found and found.lastgroup in ("again", "stop"):
        return Ignoring.LIFTED if found.lastgroup == "again" else Ignoring.CONVERSATION
    if not found and tongue.free:
        found = compile_free(tongue).search(words)
    if not found or _means_the_machine(words, found.group(), tongue) or _only_wonders(sentence, words, found, tongue):
        return None
    return Ignoring.CONVERSATION if compile_pattern(tongue.lasting).search(sentence) else Ignoring.TURN


def _means_the_machine(words: str, found: str, tongue: Tongue) -> bool:
    return bool(tongue.doubts and "¤" not in found and compile_pattern(tongue.doubts).search(words))


def _only_wonders(sentence: str, words: str, found: re.Match[str], tongue: Tongue) -> bool:
    """A question that is no polite request, and in which nothing else is asked: "ignore memory, how do I…?" asks."""
    if not sentence.endswith(("?", "？")) or compile_pattern(tongue.asks).search(sentence):
        return False
    rest = words[found.end() :]
    return len(rest.split()) < 3 and not re.search(r"[^\x00-\x7f]{4}", rest)
