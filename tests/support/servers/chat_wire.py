"""Answers as OpenAI's chat completions are written: one JSON body, or the chunks of a stream; and the errors."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from servers.cache import Spent
from servers.scripts import Body, FaultKind, Piece, split_text

# Nobody looks at the time, and an answer that is the same each time is easier to compare.
CREATED = 1_700_000_000
REFUSAL = "I cannot help with that."
DONE = b"data: [DONE]\n\n"

# Of each fault that is a status: the status, the error's type, its code, and its message.
ERRORS: dict[FaultKind, tuple[int, str, str | None, str]] = {
    "auth": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    "billing": (429, "insufficient_quota", "credit_balance_exhausted", "The prepaid credits are used up."),
    "permission": (403, "invalid_request_error", "permission_denied", "This key may not use this resource."),
    "rate": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    "spending": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
    "usage_limit": (429, "insufficient_quota", "organization_spend_limit_exceeded", "The monthly limit is reached."),
    "server": (500, "server_error", None, "The server had an error while processing your request."),
    "overloaded": (503, "server_error", "overloaded", "The engine is currently overloaded, please try again later."),
}


def make_error(kind: str, code: str | None, message: str) -> Body:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def make_usage(spent: Spent, output: int, thoughts: int) -> Body:
    prompt = spent.fresh + spent.cached
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": spent.cached},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


def list_prompt(body: Body) -> list[str]:
    """The prompt as a row of texts, in the order in which a cache sees it: tools, the form of the output, messages."""
    fixed = [body["model"], *(body.get("tools") or ()), body.get("response_format")]
    return [_render(part) for part in [*fixed, *body["messages"]] if part is not None]


def _render(part: Any) -> str:
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def make_completion(id: str, model: str, pieces: Sequence[Piece], stop: str, usage: Body, *, reasoning: bool) -> Body:
    """The whole answer; thoughts are shown only where `reasoning` says so, as ollama does."""
    message: Body = {"role": "assistant", "content": _join(pieces, "text") or None, "refusal": None}
    if reasoning and (thoughts := _join(pieces, "thinking")):
        message["reasoning"] = thoughts
    if calls := [piece for piece in pieces if piece.kind == "call"]:
        message["tool_calls"] = [_make_call(call) for call in calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": stop}
    return {**_head(id, model, "chat.completion"), "choices": [choice], "usage": usage}


def _join(pieces: Sequence[Piece], kind: str) -> str:
    return "".join(piece.text for piece in pieces if piece.kind == kind)


def _make_call(piece: Piece) -> Body:
    return {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": piece.text}}


def _head(id: str, model: str, kind: str) -> Body:
    return {"id": id, "object": kind, "created": CREATED, "model": model}


def render_chunks(completion: Body, pieces: Sequence[Piece], *, usage: bool) -> Iterator[bytes]:
    """The same answer as a stream tells it; its usage, if asked for, in a chunk of its own."""
    head = _head(completion["id"], completion["model"], "chat.completion.chunk")
    silent: Body = {"usage": None} if usage else {}
    for delta in _list_deltas(completion["choices"][0]["message"], pieces):
        yield _render_chunk({**head, **silent, "choices": [_make_choice(delta)]})
    stop = completion["choices"][0]["finish_reason"]
    yield _render_chunk({**head, **silent, "choices": [_make_choice({}, stop)]})
    if usage:
        yield _render_chunk({**head, "choices": [], "usage": completion["usage"]})
    yield DONE


def _make_choice(delta: Body, stop: str | None = None) -> Body:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}


def _list_deltas(message: Body, pieces: Sequence[Piece]) -> Iterator[Body]:
    yield {"role": "assistant", "content": "", "refusal": None}
    if message["refusal"]:
        yield {"refusal": message["refusal"]}
    for portion in split_text(message.get("reasoning", "")):
        yield {"reasoning": portion}
    for portion in split_text(message["content"] or ""):
        yield {"content": portion}
    for index, call in enumerate(piece for piece in pieces if piece.kind == "call"):
        first = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [first]}
        for portion in split_text(call.text):
            yield {"tool_calls": [{"index": index, "function": {"arguments": portion}}]}


def _render_chunk(chunk: Body) -> bytes:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


def render_error_chunk(error: Body) -> bytes:
    return _render_chunk(error)
