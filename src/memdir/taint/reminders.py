"""memdir's own reminders, taken out of a message: a memory must not feed itself.

They come in two forms (`reminder.render_reminder`): inside `<system-reminder>`, or bare, for hosts that wrap them
themselves. A bare one has no end of its own: it goes up to the next tag of the block or the end of the message. Blocks
that hold no memory belong to the host and stay; who wrote them is for `split_message` to say.
"""

import re
from collections.abc import Iterator

_TAG = re.compile(r"<\s*(/?)\s*system-reminder\b[^<>]{0,200}>", re.IGNORECASE)
# The line before a memory's text, perhaps behind words of the host ("… additional context: ").
_HEADER = re.compile(
    r"^(?:[^\n]{0,120}?:[ \t]+)?Memory(?: \(saved (?:today|yesterday)\))?: [^\n]{1,4096}\.md:[ \t]*\r?$", re.MULTILINE
)
_NOTED = re.compile(r"This was noted \d+ days? ago and describes that moment")
_LINES_ABOVE = 2  # the sentence on its age, and a caveat


def strip_reminders(text: str) -> str:
    """The message without memories that were put into it, wrapped or bare, several, nested or cut off."""
    if not _HEADER.search(text) and not _TAG.search(text):
        return text
    kept = "".join(part for part, ours in _split_blocks(text) if not ours)
    return _strip_bare(kept).strip() if kept != text or _HEADER.search(kept) else text


def _split_blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Outermost blocks and what stands between them, each with whether a memory is in it."""
    place = start = depth = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if depth == 0:
                yield text[place : tag.start()], False
                start = tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                place = tag.end()
                yield text[start:place], _HEADER.search(text, start, place) is not None
        elif _is_alone(text, tag):
            # The beginning was cut off: what stands before belongs to the block.
            place = tag.end()
            yield "", True
    if depth:
        yield text[start:], _HEADER.search(text, start) is not None
    else:
        yield text[place:], False


def _is_alone(text: str, tag: re.Match[str]) -> bool:
    line = text[text.rfind("\n", 0, tag.start()) + 1 : (text.find("\n", tag.end()) + 1 or len(text) + 1) - 1]
    return line.strip() == tag[0].strip()


def _strip_bare(text: str) -> str:
    while header := _HEADER.search(text):
        tag = _TAG.search(text, header.end())
        text = text[: _find_start(text, header.start())] + (text[tag.start() :] if tag else "")
    return text


def _find_start(text: str, header: int) -> int:
    """Where a bare reminder begins: at the sentence on its age, if it has one."""
    start = header
    for _ in range(_LINES_ABOVE):
        above = text.rfind("\n", 0, max(start - 1, 0)) + 1
        if above >= start:
            break
        if _NOTED.search(text, above, start):
            return above
        start = above
    return header
