"""When notes are worth the trouble: sizes of the conversation, counted, and the decision that follows from them. Pure.

Notes are for the moment at which a host shortens a conversation, so they are only kept where a host does that.
"""

import json
from collections.abc import Iterable, Sequence

from memdir.frozen import dataclass
from memdir.limits import NOTES_CALLS, NOTES_START_TOKENS, NOTES_STEP_TOKENS
from memdir.records import Message
from memdir.tokens import estimate_tokens


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of the conversation so far, and at the last update (None before the first); what came since then.

    `is_pause`: since the person last said something, no tool was called.
    """

    tokens: int
    noted: int | None
    calls: int = 0
    is_pause: bool = False


def count(since: Sequence[Message], noted: int | None) -> Counts:
    """Counts of a conversation, from the messages since the last update and the tokens there were then."""
    last = next((at for at in range(len(since) - 1, -1, -1) if _is_said(since[at])), 0)
    calls = sum(len(message.calls) for message in since)
    pause = bool(since) and not any(message.calls for message in since[last:])
    return Counts((noted or 0) + count_tokens(since), noted, calls, pause)


def is_due(counts: Counts) -> bool:
    """Whether the notes should be begun or brought up to date."""
    if counts.noted is None:
        return counts.tokens >= NOTES_START_TOKENS
    grown = counts.tokens - counts.noted
    return grown >= NOTES_STEP_TOKENS and (counts.calls >= NOTES_CALLS or counts.is_pause)


def count_tokens(messages: Iterable[Message]) -> int:
    """What these messages take in a conversation, calls of tools included."""
    return sum(estimate_tokens(at.text) + sum(map(_weigh_call, at.calls)) for at in messages)


def _weigh_call(call: object) -> int:
    name, given = getattr(call, "name", ""), getattr(call, "input", {})
    return estimate_tokens(f"{name} {json.dumps(dict(given), ensure_ascii=False, default=str)}")


def _is_said(message: Message) -> bool:
    return message.role == "user" and not message.is_meta
