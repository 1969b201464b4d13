"""Differences as lines: of texts, of recorded acts, and of the lines that an act changed in an index."""

from collections.abc import Callable, Sequence
from difflib import unified_diff

from memdir.errors import NotFoundError
from memdir.records import Change
from memdir.store.plan import decode, is_index

_SHORT = 40
PURGED = "(this version was purged)"


def render_diff(before: str, after: str, old: str, new: str) -> list[str]:
    """A unified diff without line ends; a missing one at the end of a text is said."""
    lines = []
    for line in unified_diff(_split(before), _split(after), old, new):
        lines.append(line.rstrip("\r\n"))
        if not line.endswith("\n"):
            lines.append("\\ no line end here")
    return lines


def shorten_diff(lines: Sequence[str], limit: int = _SHORT) -> list[str]:
    if len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"… and {len(lines) - limit} more lines"]


def render_change(change: Change, read: Callable[[str], bytes]) -> list[str]:
    """One file of an act. Of an index only the lines are kept that changed, so their surroundings are not shown."""
    old, new = _name_sides(change)
    if is_index(change.path):
        if change.splice is None:
            return [f"--- {old}", f"+++ {new}", PURGED]
        _, removed, inserted = change.splice
        gone, came = _split(decode(removed)), _split(decode(inserted))
        marked = [*(f"-{line}" for line in gone), *(f"+{line}" for line in came)]
        return [f"--- {old}", f"+++ {new}", *(line.rstrip("\r\n") for line in marked)]
    try:
        before = decode(read(change.before)) if change.before else ""
        after = decode(read(change.after)) if change.after else ""
    except NotFoundError:
        return [f"--- {old}", f"+++ {new}", PURGED]
    return render_diff(before, after, old, new)


def _name_sides(change: Change) -> tuple[str, str]:
    nothing = "(no file)"
    return change.path if change.before else nothing, change.path if change.after else nothing


def _split(text: str) -> list[str]:
    """Lines with their ends, cut at line feeds alone."""
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [text.rpartition("\n")[2]] if text[-1:] != "\n" and text else []
    )
