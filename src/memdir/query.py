"""Which message is the query: the last thing the person typed, without what the host wrote into it.

Hosts put much into a user's message: reminders, the text of slash commands and their output, results of tools. None of
it was asked by the person, and recalling by it would let a memory call for itself. What a person typed is not judged
here (gates), nor searched for (recall).
"""

import re
from collections.abc import Iterable

from memdir.records import Message

# Blocks that hosts write. The first is ours and theirs; the others come with commands, shells, editors and tasks.
_BLOCKS = (
    "system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    "local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook|task-notification|"
    "ide_opened_file|ide_selection|ide_diagnostics|hook_context|session_context"
)
_TAG = re.compile(rf"<(/?)({_BLOCKS})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)
_COMMAND = re.compile(r"/[A-Za-z][\w:-]*(?=\s|$)")
_INDENT = 100  # more white space than this before a tag is no indentation
_HOST_LINE = re.compile(r"\[Request (?:interrupted|cancelled)\b[^\n\]]*\]")


def find_query(messages: Iterable[Message]) -> str:
    """The text of the last message the person typed; empty if there is none."""
    for message in reversed(list(messages)):
        if message.role != "user" or message.is_meta or message.answers:
            continue
        if typed := strip_host_text(message.text):
            return typed
    return ""


def strip_host_text(text: str) -> str:
    """What is left of a message without the host's blocks, slash commands and notices."""
    kept = strip_blocks(text)
    lines = [line for line in kept.splitlines() if not _is_host_line(line.strip())]
    return "\n".join(lines).strip()


def strip_blocks(text: str) -> str:
    """Without `<system-reminder>…</system-reminder>` and the like; a block that is not closed goes to the end.

    A lone opening tag in the middle of a line is somebody writing about tags, and stays.
    """
    kept, at, inside = [], 0, ""
    open_ended: set[str] = set()
    for tag in _TAG.finditer(text):
        closing, name = bool(tag[1]), tag[2].lower()
        if inside:
            if closing and name == inside:
                at, inside = tag.end(), ""
        elif not closing and (_starts_line(text, tag.start(), at) or _is_closed(text, tag, open_ended)):
            kept.append(text[at : tag.start()])
            inside = name
    if not inside:
        kept.append(text[at:])
    return "".join(kept)


def _starts_line(text: str, at: int, start: int) -> bool:
    before = text[max(start, at - _INDENT) : at].rstrip(" \t")
    return not before or before.endswith("\n")


def _is_closed(text: str, tag: re.Match[str], open_ended: set[str]) -> bool:
    """Whether its end tag follows; `open_ended` remembers those that have none, so that a text is searched once."""
    if tag[2] not in open_ended and text.find(f"</{tag[2]}", tag.end()) < 0:
        open_ended.add(tag[2])
    return tag[2] not in open_ended


def _is_host_line(line: str) -> bool:
    return bool(_COMMAND.match(line) or _HOST_LINE.fullmatch(line))
