"""The chat completions API of OpenAI, of compatible endpoints and of a local ollama.

The API has no breakpoints: endpoints cache by prefix, so stable parts come first. A parent's body is sent unchanged, with the
request's messages after it. Bodies of the Responses API are not accepted.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from memdir.errors import ReplyError
from memdir.limits import THINKING_TOKENS
from memdir.models import connection
from memdir.models.connection import THINKS, AdaptedReply, ApiModel, Connection, as_count, make_error, wrong_parent
from memdir.records import Message, Reply, Request, StopReason, ToolCall, Usage
from memdir.text import as_list, as_table, as_text, parse_json

# Optional features that an endpoint may reject.
PLAIN, OTHER_LIMIT, NO_USAGE = "plain", "other_limit", "no_usage"
_STOPS = {
    "length": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
    "tool_calls": StopReason.CALLS,
    "function_call": StopReason.CALLS,
}
_LIMITS = ("max_completion_tokens", "max_tokens")


def render_openai_body(
    name: str, request: Request, quirks: frozenset[str] = frozenset(), *, is_vendor: bool = False
) -> dict[str, object]:
    """Return the body of a request. With a parent, its body is extended with the request's messages."""
    room = request.max_tokens + (THINKING_TOKENS if THINKS in quirks else 0)
    limit = "max_completion_tokens" if is_vendor != (OTHER_LIMIT in quirks) else "max_tokens"
    if request.parent is not None:
        messages = [as_table(message) for message in as_list(request.parent.get("messages"))]
        is_ours = bool(messages) and "system" not in request.parent and all(map(is_openai_state, messages))
        if not is_ours or any("input_schema" in as_table(tool) for tool in as_list(request.parent.get("tools"))):
            raise wrong_parent("the chat completions API")
        body = {
            key: value for key, value in request.parent.items() if key not in (*_LIMITS, "stream", "stream_options")
        }
        body.setdefault("model", name)
        body["messages"] = [*messages, *render_openai_messages(request.messages)]
        # Use the name that the host's request uses for the limit, as its endpoint accepts it.
        own = next((name for name in _LIMITS if name in request.parent and OTHER_LIMIT not in quirks), limit)
        return {**body, own: room}
    system = [{"role": "system", "content": request.system}] if request.system else []
    body = {"model": name, "messages": [*system, *render_openai_messages(request.messages)], limit: room}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": one.schema},
            }
            for one in request.tools
        ]
    if request.schema is not None and PLAIN not in quirks:
        schema = connection.narrow_schema(request.schema)
        bound = {"name": "answer", "strict": is_strict(schema), "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": bound}
    return body


def is_strict(schema: object) -> bool:
    """Return whether all properties are required at every level, as strict mode demands."""
    if isinstance(schema, list | tuple):
        return all(is_strict(part) for part in schema)
    table = as_table(schema)
    properties = as_table(table.get("properties"))
    is_complete = set(properties) <= set(as_list(table.get("required")))
    return is_complete and all(
        is_strict(part) for key, part in table.items() if key not in ("enum", "const", "required")
    )


def is_openai_state(raw: object) -> bool:
    """Return whether a message is in the format of this API and can be sent back unchanged."""
    message = as_table(raw)
    if not as_text(message.get("role")):
        return False
    parts = message.get("content")
    if isinstance(parts, list | tuple):
        foreign = ("tool_use", "tool_result", "thinking", "redacted_thinking")
        return not any(as_table(part).get("type") in foreign or "cache_control" in as_table(part) for part in parts)
    return isinstance(parts, str) or bool(message.get("tool_calls"))


def render_openai_messages(messages: Sequence[Message]) -> list[object]:
    """Render messages for this API. Adjacent user messages are merged, because some endpoints require that."""
    rendered: list[object] = []
    last_user: dict[str, object] | None = None
    for message in messages:
        if is_openai_state(message.raw):
            rendered.append(message.raw)
            last_user = None
        elif message.role in ("tool", "assistant"):
            if message.role == "tool" or message.text.strip() or message.calls:
                rendered.append(_render(message))
                last_user = None
        elif last_user is not None and message.text.strip():
            last_user["content"] = f"{last_user['content']}\n\n{message.text}"
        elif message.text.strip():
            last_user = {"role": "user", "content": message.text}
            rendered.append(last_user)
    return rendered


def _render(message: Message) -> dict[str, object]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.answers, "content": message.text or "(nothing)"}
    rendered: dict[str, object] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        rendered["tool_calls"] = [
            _render_call(call.id, call.name, json.dumps(dict(call.input), ensure_ascii=False)) for call in message.calls
        ]
    return rendered


def _render_call(id: str, name: str, arguments: str) -> dict[str, object]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def read_openai_reply(answer: Mapping[str, object], label: str, dollars: float | None = None) -> AdaptedReply:
    """Parse a response. If it ends with StopReason.LENGTH, its calls may be truncated and must not be executed."""
    choices = as_list(answer.get("choices"))
    choice = as_table(choices[0]) if choices else {}
    # Gateways report provider errors with a success status.
    faulty = next((table for table in (answer, choice) if as_table(table.get("error"))), None)
    if faulty is not None:
        code = as_count(as_table(faulty["error"]).get("code"))
        raise connection.make_status_error(label, code if 400 <= code < 600 else 200, faulty)
    if choice.get("finish_reason") == "error":
        raise make_error(label, "broken")
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise ReplyError(f"{label} did not return a message", hint="check that the URL is a chat completions endpoint")
    usage = read_openai_usage(as_table(answer.get("usage")), dollars)
    finish = as_text(choice.get("finish_reason"))
    call_rows = [as_table(row) for row in as_list(message.get("tool_calls"))]
    calls = tuple(_read_call(row, number, finish, usage) for number, row in enumerate(call_rows))
    stop = _STOPS.get(finish, StopReason.DONE)
    if stop in (StopReason.DONE, StopReason.CALLS):
        stop = StopReason.CALLS if calls else StopReason.DONE
    parts = as_list(message.get("content"))
    text = as_text(message.get("content")) or "".join(as_text(as_table(part).get("text")) for part in parts)
    refusal = as_text(message.get("refusal"))
    if refusal and not text:
        text, stop = refusal, StopReason.REFUSED
    state = {key: message[key] for key in ("role", "content", "tool_calls", "refusal") if message.get(key)}
    # Results refer to calls by ID, so make one for each call without an ID.
    has_ids = all(as_text(row.get("id")) for row in call_rows)
    raw = {"role": "assistant", "content": None, **state} if has_ids and (text or calls) else {}
    thought = as_count(as_table(as_table(answer.get("usage")).get("completion_tokens_details")).get("reasoning_tokens"))
    is_starved = stop is StopReason.LENGTH and bool(thought) and not raw
    return Reply(text, usage, calls, stop, raw or None), is_starved


def read_openai_usage(usage: Mapping[str, object], dollars: float | None = None) -> Usage:
    read = as_count(usage.get("prompt_tokens"))
    cached = min(read, as_count(as_table(usage.get("prompt_tokens_details")).get("cached_tokens")))
    return Usage(read - cached, cached, as_count(usage.get("completion_tokens")), 0, dollars)


def _read_call(call: Mapping[str, object], number: int, finish: str, usage: Usage) -> ToolCall:
    function = as_table(call.get("function"))
    arguments = function.get("arguments")
    parsed = parse_json(arguments or "{}") if isinstance(arguments, str) else arguments
    if not isinstance(parsed, Mapping):
        if finish != "length":
            raise ReplyError("the arguments of a tool call are not valid JSON", usage=usage)
        parsed = {}  # truncated by the limit and never executed
    return ToolCall(as_text(call.get("id")) or f"call_{number}", as_text(function.get("name")), parsed)


class OpenAIStream:
    def __init__(self) -> None:
        self.usage: Mapping[str, object] = {}
        self.finish = self._text = self._refusal = ""
        self._calls: list[tuple[object, dict[str, str]]] = []

    @property
    def is_whole(self) -> bool:
        return bool(self.finish)

    def add(self, event: Mapping[str, object]) -> str:
        self.usage = as_table(event.get("usage")) or self.usage
        choices = as_list(event.get("choices"))
        choice = as_table(choices[0]) if choices else {}
        delta = as_table(choice.get("delta"))
        self.finish = as_text(choice.get("finish_reason")) or self.finish
        self._refusal += as_text(delta.get("refusal"))
        for number, part in enumerate(map(as_table, as_list(delta.get("tool_calls")))):
            self._add_call(part.get("index", number), part)
        text = as_text(delta.get("content"))
        self._text += text
        return text

    def _add_call(self, index: object, part: Mapping[str, object]) -> None:
        """Add a part of a tool call. A new ID starts a new call, because some endpoints reuse the index."""
        id, function = as_text(part.get("id")), as_table(part.get("function"))
        name = as_text(function.get("name"))
        call = next((pieces for call_index, pieces in reversed(self._calls) if call_index == index), None)
        if call is None or (id and call["id"] and id != call["id"]):
            call = {"id": "", "name": "", "arguments": ""}
            self._calls.append((index, call))
        call["id"] = call["id"] or id
        call["name"] += name if name != call["name"] else ""
        call["arguments"] += as_text(function.get("arguments"))

    def answer(self) -> dict[str, object]:
        calls = [_render_call(**call) for _, call in self._calls]
        message = {"role": "assistant", "content": self._text, "tool_calls": calls, "refusal": self._refusal}
        return {"choices": [{"message": message, "finish_reason": self.finish}], "usage": self.usage}


class OpenAIModel(ApiModel):
    """A model of an OpenAI-compatible API. `is_vendor` means OpenAI itself, `is_free` a local endpoint."""

    cures: ClassVar = {
        OTHER_LIMIT: re.compile(r"max_(?:completion_)?tokens", re.IGNORECASE),
        NO_USAGE: re.compile(r"stream_options", re.IGNORECASE),
        PLAIN: re.compile(r"response_format|json_schema|schema|grammar", re.IGNORECASE),
    }
    make_stream = OpenAIStream

    def __init__(self, name: str, connection: Connection, *, is_vendor: bool = False, is_free: bool = False) -> None:
        super().__init__(name, connection)
        self._is_vendor, self._dollars = is_vendor, 0.0 if is_free else None

    def render(self, request: Request) -> dict[str, object]:
        return render_openai_body(self._name, request, frozenset(self._quirks), is_vendor=self._is_vendor)

    def ask_stream(self) -> dict[str, object]:
        counted = {} if NO_USAGE in self._quirks else {"stream_options": {"include_usage": True}}
        return {"stream": True, **counted}

    def read(self, answer: Mapping[str, object]) -> AdaptedReply:
        return read_openai_reply(answer, self._connection.label, self._dollars)

    def read_usage(self, usage: Mapping[str, object]) -> Usage:
        return read_openai_usage(usage, self._dollars)
