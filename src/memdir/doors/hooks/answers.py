"""What a hook says, and how each host wants to read it: one line of JSON, or nothing.

Only fields that all documented versions of a host know are written: Codex refuses an answer with any other.
"""

import json
from typing import Any

from memdir.frozen import dataclass
from memdir.hosts.rows import Event, Host, Style, find_name


@dataclass(frozen=True, slots=True)
class Answer:
    """`context` goes before the model, `message` to the person, `refused` is why a tool may not run."""

    context: str = ""
    message: str = ""
    refused: str = ""


NOTHING = Answer()
# Where a host reads no answer, none is given.
_SILENT = frozenset((Event.AFTER_TOOL, Event.STOP, Event.COMPACT, Event.END))


def render_answer(answer: Answer, event: Event, host: Host) -> str:
    """One line in ASCII; empty if there is nothing to say, or nobody to hear it."""
    if event in _SILENT:
        return ""
    table: dict[str, Any] = {}
    specific: dict[str, Any] = {}
    if answer.message:
        table["systemMessage"] = answer.message
    if answer.context and event in host.told:
        specific["additionalContext"] = answer.context
    if answer.refused and event is Event.BEFORE_TOOL:
        if host.style is Style.GEMINI:
            table |= {"decision": "deny", "reason": answer.refused}
        else:
            specific |= {"permissionDecision": "deny", "permissionDecisionReason": answer.refused}
    if specific:
        table["hookSpecificOutput"] = {"hookEventName": find_name(event, host), **specific}
    return json.dumps(table) if table else ""
