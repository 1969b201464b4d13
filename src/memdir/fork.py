"""A bounded agent run: ask, act, stop. It knows models and calls, and nothing of memory.

What a run may do is decided by `act`, call by call, never by another tool list: tools, system prompt and messages of
the parent are the key of the provider's cache and go out unchanged. A refusal is an answer like any other, so the model
can do better. The identical call twice ends the run: a model that repeats itself has stopped getting anywhere.
"""

import json
from collections.abc import Callable
from enum import StrEnum

from memdir.errors import ReplyError
from memdir.frozen import dataclass, replace
from memdir.limits import FORK_CALLS, FORK_TURNS
from memdir.models.wire import add_usage
from memdir.records import Message, Model, Reply, Request, Stop, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says to the model."""

    text: str
    refused: bool = False


Act = Callable[[ToolCall], Answer]


class End(StrEnum):
    """Why a run ended."""

    DONE = "done"
    TURNS = "turns"
    CALLS = "calls"
    REPEATED = "repeated"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run came to; the usage is that of all its requests, `first` that of the one that shows the cache."""

    end: End
    text: str = ""
    turns: int = 0
    calls: int = 0
    refused: int = 0
    usage: Usage = Usage()
    first: Usage = Usage()


def run(model: Model, request: Request, act: Act, *, turns: int = FORK_TURNS, calls: int = FORK_CALLS) -> Ran:
    """Ask until the model calls no more tools or a limit is met. Raises what the model raises, and ReplyError."""
    done = Ran(End.TURNS)
    seen: set[str] = set()
    while done.turns < turns:
        reply = model(request)
        done = _count(done, reply)
        if reply.stop is Stop.REFUSED:
            return replace(done, end=End.DECLINED)
        if not reply.calls:
            return replace(done, end=End.DONE)
        if reply.stop is Stop.LENGTH:
            raise ReplyError("the token limit cut a tool call short", hint="the next run tries again")
        answers = []
        for call in reply.calls:
            key = _make_key(call)
            if key in seen:
                return replace(done, end=End.REPEATED)
            if done.calls >= calls:
                return replace(done, end=End.CALLS)
            seen.add(key)
            answer = act(call)
            answers.append(Message("tool", answer.text, answers=call.id, failed=answer.refused))
            done = replace(done, calls=done.calls + 1, refused=done.refused + answer.refused)
        said = Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)
        request = replace(request, messages=(*request.messages, said, *answers))
    return done


def _count(done: Ran, reply: Reply) -> Ran:
    first = reply.usage if done.turns == 0 else done.first
    usage = add_usage(done.usage, reply.usage)
    return replace(done, text=reply.text, turns=done.turns + 1, usage=usage, first=first)


def _make_key(call: ToolCall) -> str:
    return f"{call.name} {json.dumps(call.input, sort_keys=True, default=str)}"
