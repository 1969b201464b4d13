"""Several memories in one answer of limited size: the best first, each whole or cut, the last ones by a line each.

The size of a text is counted as hosts do, in UTF-16 units and in tokens; the second is only estimated.
"""

from collections.abc import Sequence
from datetime import datetime

from memdir.frozen import replace
from memdir.limits import HOOK_CHARS, HOOK_LEAST_CHARS, HOOK_TOKENS
from memdir.records import Excerpt
from memdir.reminder import defuse, render_reminder
from memdir.text import one_line, shorten

_LINE_CHARS = 260  # of a memory that is only named
_GAP = "\n\n"


def fit_memories(
    excerpts: Sequence[Excerpt], *, now: datetime, chars: int = HOOK_CHARS, tokens: int = HOOK_TOKENS
) -> str:
    """What is said of these memories within the limits; those there is no room for are not said at all."""
    whole = _GAP.join(render_reminder(at, now=now) for at in excerpts)
    if measure(whole) <= chars and has_tokens_at_most(whole, tokens):
        return whole
    said = ""
    for number, excerpt in enumerate(excerpts):
        gap = _GAP if said else ""
        left, rest = chars - measure(said) - len(gap), tokens - estimate(said)
        kept_back = min((len(excerpts) - number - 1) * _LINE_CHARS, left // 3)
        text = _fit(excerpt, now, left - kept_back, rest - kept_back // 4) or _name(excerpt)
        if measure(text) <= left and estimate(text) <= rest:
            said += gap + text
    return said


def fit_lines(text: str, chars: int, *, tokens: int = HOOK_TOKENS, where: str = "") -> str:
    """As many whole lines as there is room for, and how many are left out."""
    if measure(text) <= chars and has_tokens_at_most(text, tokens):
        return text
    lines = text.split("\n")
    kept = []
    room, rest = chars - 40 - len(where), tokens - 20 - len(where) // 2
    for line in lines:
        room -= measure(line) + 1
        rest -= estimate(line) + 1
        if room < 0 or rest < 0:
            break
        kept.append(line)
    more = len(lines) - len(kept)
    return "\n".join([*kept, f"({more} more lines{f' in {where}' if where else ''})"]) if kept else ""


def measure(text: str) -> int:
    """Length as JavaScript counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def has_tokens_at_most(text: str, limit: int) -> bool:
    """Whether it stays within so many tokens; of what is short or plain that is known without counting."""
    return len(text) * (0.5 if text.isascii() else 1.25) <= limit or estimate(text) <= limit


def estimate(text: str) -> int:
    """About how many tokens."""
    # Imported here: most answers are short, and the tables of scripts are not.
    from memdir.tokens import estimate_tokens

    return estimate_tokens(text)


def _fit(excerpt: Excerpt, now: datetime, left: int, rest: int) -> str:
    """The memory whole, or as much of it as there is room for; empty if that is too little to be worth it."""
    whole = render_reminder(excerpt, now=now)
    size, weight = measure(whole), estimate(whole)
    if size <= left and weight <= rest:
        return whole
    frame = measure(render_reminder(replace(excerpt, text="", truncated=True), now=now)) + 20
    share = min(1.0, rest / weight * 0.95) if weight else 1.0
    room = min(left, int(size * share)) - frame
    if room < HOOK_LEAST_CHARS:
        return ""
    text = _cut(excerpt.text, room)
    cut = replace(excerpt, text=text, truncated=True, lines=text.count("\n") + 1)
    return render_reminder(cut, now=now)


def _cut(text: str, room: int) -> str:
    while (over := measure(text) - room) > 0:
        text = text[: len(text) - max(1, over // 2)] if not text.isascii() else text[:room]
    for sign in ("\n", " "):
        at = text.rfind(sign)
        if at > len(text) // 2:
            return text[:at].rstrip()
    return text.rstrip()


def _name(excerpt: Excerpt) -> str:
    """One line: which memory, what about, and where it is."""
    header = excerpt.header
    about = shorten(one_line(header.description or header.title), 120)
    return defuse(f"There is also the memory {header.name} ({about}): {one_line(excerpt.path)}")
