"""Render requests for Anthropic's Messages API and parse its responses.

A parent's body is sent unchanged, block for block, because it is the cache key; a schema would change the key, so it is not
sent with a parent, and the task must ask for JSON in words. The API allows four breakpoints; at most three are set here: at
the end of system prompt and tools, and at the ends of the stable messages.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from memdir.errors import ReplyError, UnreachableError
from memdir.limits import THINKING_TOKENS
from memdir.models import connection
from memdir.models.connection import THINKS, AdaptedReply, ApiModel, as_count, role_of, wrong_parent
from memdir.records import Message, Reply, Request, StopReason, ToolCall, Usage
from memdir.text import as_list, as_table, as_text, parse_json

Block = dict[str, object]
BREAKPOINTS = 4
_MARK = {"type": "ephemeral"}
_PLAIN = "plain"  # the quirk of an endpoint that does not support structured output
_STOPS = {
    "tool_use": StopReason.CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSED,
}
_SAMPLING, _OLDER = ("temperature", "top_p", "top_k"), "2023-06-01"


def render_anthropic_body(name: str, request: Request, quirks: frozenset[str] = frozenset()) -> dict[str, object]:
    """Return the body of a request. With a parent, its body is extended with the request's messages."""
    room = request.max_tokens + (THINKING_TOKENS if THINKS in quirks else 0)
    if request.parent is not None:
        return _extend(name, request.parent, request, room)
    body: dict[str, object] = {"model": name, "max_tokens": room}
    tools: list[Block] = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
        for tool in request.tools
    ]
    if request.system:
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _MARK}]
    elif tools:
        tools[-1]["cache_control"] = _MARK
    if tools:
        body["tools"] = tools
    rendered = [_render(message) for message in request.messages]
    _mark_stable(request, rendered)
    body["messages"] = _merge(request.messages, rendered)
    if request.schema is not None and _PLAIN not in quirks:
        schema = connection.narrow_schema(request.schema)
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return body


def _extend(name: str, parent: Mapping[str, object], request: Request, room: int) -> dict[str, object]:
    messages = [as_table(message) for message in as_list(parent.get("messages"))]
    roles = {one.get("role") if "tool_calls" not in one else None for one in messages}
    is_ours = bool(messages) and messages[0].get("role") != "system" and roles <= {"user", "assistant", "system"}
    if not is_ours or any("function" in as_table(tool) for tool in as_list(parent.get("tools"))):
        raise wrong_parent("the Messages API")
    rendered = [_render(message) for message in request.messages]
    if count_marks(parent) < BREAKPOINTS and not parent.get("cache_control"):
        for block in rendered[-1][-1:]:
            block["cache_control"] = _MARK
    body = {key: value for key, value in parent.items() if key not in ("stream", "betas")}
    body.setdefault("model", name)
    body["messages"] = [*messages, *_merge(request.messages, rendered)]
    # The limit must exceed the thinking budget, and changing that budget would change the cache key.
    body["max_tokens"] = room + as_count(as_table(parent.get("thinking")).get("budget_tokens"))
    return body


def count_marks(body: Mapping[str, object]) -> int:
    blocks = [*as_list(body.get("tools")), *as_list(body.get("system"))]
    for message in as_list(body.get("messages")):
        for block in as_list(as_table(message).get("content")):
            blocks += [block, *as_list(as_table(block).get("content"))]
    return sum(1 for block in blocks if as_table(block).get("cache_control")) + bool(body.get("cache_control"))


def is_anthropic_state(raw: object) -> bool:
    """Return whether a message is in the format of this API and can be sent back unchanged."""
    message = as_table(raw)
    blocks = message.get("content")
    is_ours = message.get("role") in ("user", "assistant") and "tool_calls" not in message
    return is_ours and isinstance(blocks, list) and bool(blocks) and all(as_table(one).get("type") for one in blocks)


def _render(message: Message) -> list[Block]:
    """Return the content blocks of a message, or none if it is sent back unchanged."""
    if is_anthropic_state(message.raw):
        return []
    if message.role == "tool":
        result: Block = {"type": "tool_result", "tool_use_id": message.answers, "content": message.text or "(nothing)"}
        return [{**result, "is_error": True} if message.failed else result]
    text: list[Block] = [{"type": "text", "text": message.text}] if message.text.strip() else []
    calls: list[Block] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.input)} for call in message.calls
    ]
    return text + calls


def _mark_stable(request: Request, rendered: Sequence[list[Block]]) -> None:
    """Set cache breakpoints after the messages that later requests repeat."""
    turns = list(zip(request.messages, rendered, strict=True))
    if not request.tools:
        user_blocks = [blocks for message, blocks in turns if blocks and role_of(message) == "user"]
        marked = user_blocks[:1] if len(user_blocks) > 1 else []
    else:
        marked, before = [], ""
        for message, blocks in turns:
            if role_of(message) == "user" and blocks:
                marked = [*(marked[:-1] if before == "user" else marked), blocks]
            before = role_of(message)
    for blocks in marked[-2:]:
        blocks[-1]["cache_control"] = _MARK


def _merge(messages: Sequence[Message], rendered: Sequence[list[Block]]) -> list[object]:
    """Merge adjacent messages with the same role, except those sent back unchanged."""
    merged, content, open_role = list[object](), list[Block](), ""
    for message, blocks in zip(messages, rendered, strict=True):
        if is_anthropic_state(message.raw):
            merged.append(copy.deepcopy(message.raw))
            open_role = ""
        elif blocks and role_of(message) == open_role:
            content.extend(blocks)
        elif blocks:
            open_role, content = role_of(message), blocks
            merged.append({"role": open_role, "content": content})
    return merged


def read_anthropic_reply(message: Mapping[str, object], label: str) -> AdaptedReply:
    """Parse a response. If it ends with StopReason.LENGTH, its calls may be truncated and must not be executed."""
    content = message.get("content")
    if not isinstance(content, list):
        raise ReplyError(f"{label} did not return a message", hint="check that the URL is a Messages API endpoint")
    blocks = [as_table(block) for block in content]
    usage = read_anthropic_usage(as_table(message.get("usage")))
    text = "".join(as_text(block.get("text")) for block in blocks if block.get("type") == "text")
    calls = tuple(
        ToolCall(as_text(block.get("id")), as_text(block.get("name")), as_table(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    stop = _STOPS.get(as_text(message.get("stop_reason")), StopReason.CALLS if calls else StopReason.DONE)
    raw = {"role": "assistant", "content": content} if content else None
    thought = any(block.get("type") in ("thinking", "redacted_thinking") for block in blocks)
    is_starved = stop is StopReason.LENGTH and thought and not text and not calls
    return Reply(text, usage, calls, stop, raw), is_starved


def read_anthropic_usage(usage: Mapping[str, object]) -> Usage:
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens", "cache_creation_input_tokens")
    return Usage(*(as_count(usage.get(name)) for name in names))


class AnthropicStream:
    def __init__(self) -> None:
        self.usage: Mapping[str, object] = {}
        self.is_whole = False
        self._stop: object = None
        self._blocks: dict[object, dict[str, object]] = {}
        self._inputs: dict[object, str] = {}

    def add(self, event: Mapping[str, object]) -> str:
        """Add one event and return its text."""
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            self.usage = {**self.usage, **as_table(as_table(event.get("message")).get("usage"))}
        elif kind == "content_block_start":
            self._blocks[index] = dict(as_table(event.get("content_block")))
            return as_text(self._blocks[index].get("text"))
        elif kind == "content_block_delta":
            return self._grow(index, as_table(event.get("delta")))
        elif kind == "message_delta":
            self._stop = as_table(event.get("delta")).get("stop_reason") or self._stop
            counts = {key: count for key, count in as_table(event.get("usage")).items() if count is not None}
            self.usage = {**self.usage, **counts}
        elif kind == "message_stop":
            self.is_whole = True
        elif kind == "error":
            raise UnreachableError("the stream ended with an error", reason="down", is_transient=True)
        return ""

    def answer(self) -> dict[str, object]:
        for index, text in self._inputs.items():
            self._blocks[index]["input"] = self._parse_input(text)
        return {"content": list(self._blocks.values()), "stop_reason": self._stop, "usage": self.usage}

    def _grow(self, index: object, delta: Mapping[str, object]) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = as_text(delta.get("type"))
        if kind == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + as_text(delta.get("partial_json"))
        elif kind == "citations_delta":
            block["citations"] = [*as_list(block.get("citations")), delta.get("citation")]
        elif kind == "signature_delta":
            block["signature"] = as_text(delta.get("signature"))
        elif kind in ("text_delta", "thinking_delta"):
            key = kind.removesuffix("_delta")
            block[key] = as_text(block.get(key)) + as_text(delta.get(key))
            return as_text(delta.get("text"))
        return ""

    def _parse_input(self, text: str) -> object:
        if isinstance(parsed := parse_json(text or "{}"), dict):
            return parsed
        if self._stop == "max_tokens":  # truncated by the limit and never executed
            return {}
        raise ReplyError("the arguments of a tool call are not valid JSON")


class AnthropicModel(ApiModel):
    cures: ClassVar = {_PLAIN: re.compile(r"output_config|output_format|json_schema|schema", re.IGNORECASE)}
    make_stream = AnthropicStream
    read_usage = staticmethod(read_anthropic_usage)

    def render(self, request: Request) -> dict[str, object]:
        return render_anthropic_body(self._name, request, frozenset(self._quirks))

    def make_headers(self, request: Request) -> dict[str, str]:
        """Return the headers that a parent's body needs, such as its beta features."""
        parent = request.parent or {}
        betas = as_list(parent.get("betas"))
        headers = {"anthropic-beta": ",".join(map(str, betas))} if betas else {}
        return headers | ({"anthropic-version": _OLDER} if any(name in parent for name in _SAMPLING) else {})

    def read(self, answer: Mapping[str, object]) -> AdaptedReply:
        return read_anthropic_reply(answer, self._connection.label)
