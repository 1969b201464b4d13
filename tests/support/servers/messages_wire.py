"""Answers as the Messages API writes them: one JSON body, or the events of a stream; and its errors.

What is said comes from a script; what it cost from the cache. Nothing is sent here.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from servers.cache import Spent
from servers.scripts import Body, FaultKind, Piece, split_text

Event = tuple[str, Body]

# Of each fault that is a status: the status, the error's type, its message, and its machine-readable cause.
ERRORS: dict[FaultKind, tuple[int, str, str, str]] = {
    "auth": (401, "authentication_error", "invalid x-api-key", ""),
    "billing": (402, "billing_error", "There is a problem with the billing of this account.", ""),
    "permission": (403, "permission_error", "This key may not use this resource.", ""),
    "rate": (429, "rate_limit_error", "This request would exceed the rate limit of this account.", ""),
    "spending": (429, "rate_limit_error", "The monthly limit of this tier is reached.", "enforced_spend_limit_reached"),
    "usage_limit": (400, "invalid_request_error", "You have reached your specified API usage limits.", ""),
    "server": (500, "api_error", "Internal server error", ""),
    "overloaded": (529, "overloaded_error", "Overloaded", ""),
}


def make_error(kind: str, message: str, request_id: str, code: str = "") -> Body:
    error: Body = {"type": kind, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error, "request_id": request_id}


def sign_thinking(text: str) -> str:
    """The signature that the server gives a thought and asks for when it comes back."""
    return base64.b64encode(hashlib.sha256(f"thought:{text}".encode("utf-8", "replace")).digest()).decode()


def make_block(piece: Piece) -> Body:
    """A piece as a content block; of a call whose input was cut there is no input to show."""
    if piece.kind == "text":
        return {"type": "text", "text": piece.text}
    if piece.kind == "thinking":
        return {"type": "thinking", "thinking": piece.text, "signature": sign_thinking(piece.text)}
    return {"type": "tool_use", "id": piece.id, "name": piece.name, "input": _parse_input(piece.text)}


def _parse_input(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def make_usage(spent: Spent, output: int) -> Body:
    return {
        "input_tokens": spent.fresh,
        "cache_creation_input_tokens": spent.stored,
        "cache_read_input_tokens": spent.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": spent.stored, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "service_tier": "standard",
    }


def make_message(id: str, model: str, pieces: Sequence[Piece], stop: str, usage: Body) -> Body:
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [make_block(piece) for piece in pieces],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def make_events(message: Body, pieces: Sequence[Piece]) -> Iterator[Event]:
    """The same message as a stream tells it."""
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield "message_start", {"message": begun}
    yield "ping", {}
    for index, piece in enumerate(pieces):
        yield "content_block_start", {"index": index, "content_block": _make_start(piece)}
        for delta in _list_deltas(piece):
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    usage = {name: message["usage"][name] for name in _COUNTS}
    yield "message_delta", {"delta": ended, "usage": usage}
    yield "message_stop", {}


_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def _make_start(piece: Piece) -> Body:
    block = make_block(piece)
    empty: dict[str, Body] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "call": {"input": {}},
    }
    return {**block, **empty[piece.kind]}


def _list_deltas(piece: Piece) -> Iterator[Body]:
    for portion in split_text(piece.text):
        match piece.kind:
            case "text":
                yield {"type": "text_delta", "text": portion}
            case "thinking":
                yield {"type": "thinking_delta", "thinking": portion}
            case "call":
                yield {"type": "input_json_delta", "partial_json": portion}
    if piece.kind == "thinking":
        yield {"type": "signature_delta", "signature": sign_thinking(piece.text)}


def render_event(event: Event) -> bytes:
    name, data = event
    body = json.dumps({"type": name, **data}, ensure_ascii=False)
    return f"event: {name}\ndata: {body}\n\n".encode("utf-8", "replace")
