"""Does a message ask to leave memory alone, for this turn or for the whole conversation? In six languages.

Precision first: a memory that is missing when nobody asked for that is noticed late. So a request is heard only at the
start of a clause, in the imperative or as a polite question, and not inside quotes, code or quoted lines; and "ignore
memory" in a sentence about heaps and profilers means the machine's.

It hears requests to use or not to use memory. "Forget that…" is another thing and not heard here.
"""

from memdir.ignoring.reach import Ignoring

__all__ = ["Ignoring", "find_ignoring"]

# A text without any of these is not looked at: nearly all texts.
_HINTS = (
    "memor", "memdir", "remember", "recall", "gedächtnis", "gedaechtnis", "erinnerung", "speicher", "mémoire", "mémor",
    "souv", "recuerd", "记忆", "記憶", "回忆", "回憶", "メモリ", "覚えて", "gemerkt",
)  # fmt: skip


def find_ignoring(text: str) -> Ignoring | None:
    """What a message asks of memory; the widest of several requests counts."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return None
    # Imported here: nearly no prompt speaks of memory.
    from memdir.ignoring.hearing import hear_all

    return hear_all(text)
