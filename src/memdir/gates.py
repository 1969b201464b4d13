"""May recall speak at all? The closed list of reasons why not, and the gates that need no memory to be read.

Cheapest first. What a gate cannot know (whether there is a memory, whether one fits) is decided in recall with the last
two reasons of the list.
"""

import re
from enum import StrEnum
from functools import cache

from memdir.ignoring import Ignoring
from memdir.limits import CONVERSATION_BYTES
from memdir.session import Record


class Skip(StrEnum):
    """Every reason why a recall brings nothing."""

    OFF = "off"
    PAUSED = "paused"
    PRIVATE = "private"
    IGNORE_CONVERSATION = "ignore_conversation"
    IGNORE_TURN = "ignore_turn"
    ONE_WORD = "one_word"
    BUDGET = "budget"
    EMPTY = "empty"
    NOTHING_FITS = "nothing_fits"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Skip.OFF: "recall is switched off here",
    Skip.PAUSED: "memory is paused",
    Skip.PRIVATE: "this conversation is private",
    Skip.IGNORE_CONVERSATION: "the person asked to leave memory out of this conversation",
    Skip.IGNORE_TURN: "the message asks to leave memory out of this answer",
    Skip.ONE_WORD: "one word is too little to search by",
    Skip.BUDGET: f"this conversation was given its {CONVERSATION_BYTES:,} bytes of memory; compacting resets that",
    Skip.EMPTY: "there is no memory yet",
    Skip.NOTHING_FITS: "no memory fits the question",
}

# Chinese, Japanese and Korean write words without spaces, or in few characters.
_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# So do these, with an alphabet: what looks like one word of them may be a sentence.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_PLAIN = re.compile(r"\w+(?:[^\s\w]+\w+)*")
_CJK_CHARS = 4
_UNSPACED_CHARS = 8


def find_skip(
    text: str, record: Record, *, wish: Ignoring | None = None, on: bool = True, paused: bool = False
) -> Skip | None:
    """The first gate that is shut for this message in this conversation, or None; `wish` is what it asks of memory."""
    gates = (
        (Skip.OFF, not on),
        (Skip.PAUSED, paused),
        (Skip.PRIVATE, record.private),
        (Skip.IGNORE_CONVERSATION, wish is Ignoring.CONVERSATION),
        (Skip.IGNORE_CONVERSATION, record.ignoring and wish is not Ignoring.LIFTED),
        (Skip.IGNORE_TURN, wish is Ignoring.TURN),
        (Skip.ONE_WORD, is_one_word(text)),
        (Skip.BUDGET, record.surfaced_bytes >= CONVERSATION_BYTES),
    )
    return next((skip for skip, shut in gates if shut), None)


def is_one_word(text: str) -> bool:
    """Whether a query says one word or less. Four CJK characters in a row are more than one word; so are two words."""
    if text.isascii():
        words = _PLAIN.finditer(text[:2000])
        return next(words, None) is None or next(words, None) is None
    count = 0
    for cjk, unspaced, _ in _compile_runs().findall(text[:2000]):
        count += 2 if len(cjk) >= _CJK_CHARS or len(unspaced) >= _UNSPACED_CHARS else 1
        if count > 1:
            return False
    return True


@cache
def _compile_runs() -> re.Pattern[str]:
    """Runs of each kind of script. Made when a text needs it: these sets take longer to compile than a search takes."""
    word, gap = rf"[^\W{_CJK}{_UNSPACED}]+", rf"[^\s\w{_CJK}{_UNSPACED}]+"
    return re.compile(rf"([{_CJK}]+)|([{_UNSPACED}]+)|({word}(?:{gap}{word})*)")
