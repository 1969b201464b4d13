"""What each arm adds to an episode, and the BM25 search of one of them."""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

HOOKS = frozenset(("session-start", "user-prompt", "before-tool", "after-tool", "tool-failure"))
Talk = list[dict[str, str]]
_TOP = 5
_K1, _B = 1.5, 0.75


@dataclass(frozen=True)
class Arm:
    """`text` names what is added to the report, `hooks` the events that memdir hears. The host loads MEMORY.md at the start
    if the arm has an `index`."""

    text: str = ""
    hooks: frozenset[str] = frozenset()
    index: bool = False
    selects: bool = False


ARMS = {
    "nothing": Arm(),
    "files": Arm("files"),
    "bm25": Arm("bm25"),
    "memdir": Arm(hooks=HOOKS, index=True),
    "memdir-select": Arm(hooks=HOOKS, index=True, selects=True),
    "decision": Arm("decision"),
    # Rules that matter at an action: heard at the prompt alone, or at actions, too; no index, so that the moment decides.
    "rule-prompt": Arm(hooks=frozenset(("session-start", "user-prompt"))),
    "rule-action": Arm(hooks=HOOKS),
}


def render_talk(talk: Talk) -> str:
    return "\n".join(f"{turn['role']}: {turn['text']}" for turn in talk)


def search(query: str, talks: Sequence[tuple[str, Talk]], top: int = _TOP) -> list[tuple[str, Talk]]:
    """Return the best conversations by BM25 over lower-case words, best first."""
    documents = [Counter(_list_words(render_talk(talk))) for _, talk in talks]
    mean = sum(sum(words.values()) for words in documents) / len(documents)
    scores = [0.0] * len(documents)
    for word in set(_list_words(query)):
        holders = sum(word in words for words in documents)
        weight = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        for number, words in enumerate(documents):
            length = _K1 * (1 - _B + _B * sum(words.values()) / mean)
            scores[number] += weight * words[word] * (_K1 + 1) / (words[word] + length)
    best = sorted(range(len(talks)), key=lambda number: -scores[number])
    return [talks[number] for number in best[:top]]


def render_added(arm: Arm, report: str, talks: Sequence[tuple[str, Talk]], decision: str) -> str:
    """Return the text that stands beside the report, empty for arms with hooks and for `nothing`."""
    if arm.text == "files":
        return (
            f"Transcripts of {len(talks)} earlier conversations in this project are in ../conversations, one JSON file "
            "each. They may be searched with grep."
        )
    if arm.text == "bm25":
        found = (f"### {name}\n{render_talk(talk)}" for name, talk in search(report, talks))
        return "Earlier conversations in this project that may be related:\n\n" + "\n\n".join(found)
    if arm.text == "decision":
        return f"Decided earlier in this project: {decision}"
    return ""


def _list_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def dump_talk(talk: Talk) -> str:
    return json.dumps([{"role": turn["role"], "text": turn["text"]} for turn in talk], ensure_ascii=False, indent=1)
