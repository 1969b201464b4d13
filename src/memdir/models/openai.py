"""The chat completions shape: OpenAI's own endpoint, any other that speaks it, and a local ollama.

There are no breakpoints in it: such endpoints cache by prefix on their own, so what is stable comes first and that is
all. A parent's body goes out as it came, with our messages after it. Bodies of the Responses API are not taken.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from memdir.errors import ModelError, ReplyError, UnreachableError
from memdir.frozen import dataclass, replace
from memdir.limits import STREAM_TOKENS, THINKING_TOKENS
from memdir.models.connection import (
    Connection,
    add_usage,
    as_count,
    as_list,
    as_table,
    as_text,
    check_request,
    make_fault,
    make_status_fault,
    narrow_schema,
    wrong_parent,
)
from memdir.records import Message, Reply, Request, StopReason, ToolCall, Usage

# --- adapting ---
# Endpoints that are like another one, but not quite: what one refuses is left out, once, and remembered.
#
# Many servers speak the shape of a vendor and know only a part of it. Rather than a table of servers, the refusal
# itself
# is read: if it names something that can be done without, the request goes out again without it.

THINKS = "thinks"


@dataclass(frozen=True, slots=True)
class AdaptedReply:
    """A reply, and whether thinking left no room for it."""

    reply: Reply
    starved: bool = False


def ask_adapting(
    send: Callable[[Request, frozenset[str]], AdaptedReply],
    request: Request,
    quirks: set[str],
    cures: Mapping[str, re.Pattern[str]],
) -> Reply:
    """Send; of what is refused by name, note the quirk and send again. `quirks` is what is known of the endpoint."""
    spent = None
    while True:
        try:
            heard = send(request, frozenset(quirks))
        except UnreachableError as error:
            cure = _find_cure(error, quirks, cures)
            if cure is None:
                raise
            quirks.add(cure)
            continue
        usage = heard.reply.usage if spent is None else add_usage(spent, heard.reply.usage)
        if heard.starved and THINKS not in quirks:
            quirks.add(THINKS)
            spent = usage
            continue
        return replace(heard.reply, usage=usage)


def _find_cure(error: UnreachableError, quirks: set[str], cures: Mapping[str, re.Pattern[str]]) -> str | None:
    if error.reason != "refused":
        return None
    return next((name for name, words in cures.items() if name not in quirks and words.search(str(error))), None)


# --- openai ---

# What an endpoint may not know, and the words of a refusal that says so.
PLAIN, OTHER_LIMIT, NO_USAGE = "plain", "other_limit", "no_usage"
_CURES = {
    OTHER_LIMIT: re.compile(r"max_(?:completion_)?tokens", re.IGNORECASE),
    NO_USAGE: re.compile(r"stream_options", re.IGNORECASE),
    PLAIN: re.compile(r"response_format|json_schema|schema|grammar", re.IGNORECASE),
}
_STOPS = {
    "length": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
    "tool_calls": StopReason.CALLS,
    "function_call": StopReason.CALLS,
}
_LIMITS = ("max_completion_tokens", "max_tokens")
_OURS = (*_LIMITS, "stream", "stream_options")


class OpenAIModel:
    """`is_vendor`: OpenAI's own endpoint, which calls the limit by its newer name; `is_free`: on this machine."""

    has_tools = True

    def __init__(self, name: str, line: Connection, *, is_vendor: bool = False, is_free: bool = False) -> None:
        self._name, self._line, self._is_vendor = name, line, is_vendor
        self._dollars = 0.0 if is_free else None
        self._quirks: set[str] = set()

    def __call__(self, request: Request) -> Reply:
        check_request(request)
        return ask_adapting(self._send, request, self._quirks, _CURES)

    def render(self, request: Request) -> dict[str, object]:
        """The body as this endpoint is sent it, for a fork to go on from."""
        return render_openai_body(self._name, request, frozenset(self._quirks), is_vendor=self._is_vendor)

    def _send(self, request: Request, quirks: frozenset[str]) -> AdaptedReply:
        body = render_openai_body(self._name, request, quirks, is_vendor=self._is_vendor)
        if request.on_text is None and request.max_tokens <= STREAM_TOKENS:
            answer = self._line.ask(body, request, {})
        else:
            counted = {} if NO_USAGE in quirks else {"stream_options": {"include_usage": True}}
            with closing(self._line.stream({**body, "stream": True, **counted}, request, {})) as events:
                answer = self._gather(events, request)
        return read_openai_reply(answer, self._line.who, self._dollars)

    def _gather(self, events: Iterator[Mapping[str, object]], request: Request) -> Mapping[str, object]:
        """The answer that a stream of deltas amounts to."""
        gathered = OpenAIStream()
        try:
            for event in events:
                text = gathered.add(event)
                if text and request.on_text is not None:
                    request.on_text(text)
            if not gathered.finish:
                raise make_fault(self._line.who, "broken")
        except ModelError as error:
            error.usage = read_openai_usage(gathered.usage, self._dollars) if gathered.usage else None
            raise
        return gathered.answer()


# --- out --------------------------------------------------------------------------------------------------------------


def render_openai_body(
    name: str, request: Request, quirks: frozenset[str] = frozenset(), *, is_vendor: bool = False
) -> dict[str, object]:
    """The body of a request, the parent's with our messages after it or our own."""
    room = request.max_tokens + (THINKING_TOKENS if THINKS in quirks else 0)
    limit = "max_completion_tokens" if is_vendor != (OTHER_LIMIT in quirks) else "max_tokens"
    if request.parent is not None:
        check_openai_parent(request.parent)
        body = {key: value for key, value in request.parent.items() if key not in _OURS}
        body.setdefault("model", name)
        body["messages"] = [*as_list(request.parent["messages"]), *render_openai_messages(request.messages)]
        # The host knows by which name its endpoint takes the limit.
        own = next((name for name in _LIMITS if name in request.parent and OTHER_LIMIT not in quirks), limit)
        return {**body, own: room}
    system = [{"role": "system", "content": request.system}] if request.system else []
    body = {"model": name, "messages": [*system, *render_openai_messages(request.messages)], limit: room}
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": at.name, "description": at.description, "parameters": at.schema}}
            for at in request.tools
        ]
    if request.schema is not None and PLAIN not in quirks:
        schema = narrow_schema(request.schema)
        bound = {"name": "answer", "strict": is_strict(schema), "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": bound}
    return body


def is_strict(schema: object) -> bool:
    """Whether every property is required, everywhere: only such a schema can be held to the letter."""
    if isinstance(schema, list | tuple):
        return all(is_strict(part) for part in schema)
    table = as_table(schema)
    properties = as_table(table.get("properties"))
    whole = set(properties) <= set(as_list(table.get("required")))
    return whole and all(is_strict(part) for key, part in table.items() if key not in ("enum", "const", "required"))


def check_openai_parent(parent: Mapping[str, object]) -> None:
    """Raise if this is not a body of the chat completions shape."""
    what = "the chat completions shape"
    messages = parent.get("messages")
    if not isinstance(messages, list | tuple) or not messages:
        raise wrong_parent(what, "it has no messages")
    if "system" in parent:
        raise wrong_parent(what, "its system prompt stands beside the messages")
    if any(
        "function" not in as_table(tool) and "input_schema" in as_table(tool) for tool in as_list(parent.get("tools"))
    ):
        raise wrong_parent(what, "its tools are not functions")
    for message in map(as_table, messages):
        if not is_openai_state(message):
            raise wrong_parent(what, f"a message of the role {message.get('role')!r} is of another shape")


def is_openai_state(raw: object) -> bool:
    """Whether a message was written in this shape, so that it can go back as it is."""
    message = as_table(raw)
    if not as_text(message.get("role")):
        return False
    parts = message.get("content")
    if isinstance(parts, list | tuple):
        foreign = ("tool_use", "tool_result", "thinking", "redacted_thinking")
        return not any(as_table(part).get("type") in foreign or "cache_control" in as_table(part) for part in parts)
    return isinstance(parts, str) or bool(message.get("tool_calls"))


def render_openai_messages(messages: Sequence[Message]) -> list[object]:
    """Messages in this shape; what a person says in two messages is one: some endpoints insist on turns."""
    rendered: list[object] = []
    said: dict[str, object] | None = None
    for message in messages:
        if is_openai_state(message.raw):
            rendered.append(message.raw)
            said = None
        elif message.role in ("tool", "assistant"):
            if message.role == "tool" or message.text.strip() or message.calls:
                rendered.append(_render(message))
                said = None
        elif said is not None and message.text.strip():
            said["content"] = f"{said['content']}\n\n{message.text}"
        elif message.text.strip():
            said = {"role": "user", "content": message.text}
            rendered.append(said)
    return rendered


def _render(message: Message) -> dict[str, object]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.answers, "content": message.text or "(nothing)"}
    rendered: dict[str, object] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        rendered["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _dump(call.input)}}
            for call in message.calls
        ]
    return rendered


def _dump(table: Mapping[str, object]) -> str:
    return json.dumps(dict(table), ensure_ascii=False)


# --- back -------------------------------------------------------------------------------------------------------------


def read_openai_reply(answer: Mapping[str, object], who: str, dollars: float | None = None) -> AdaptedReply:
    """A whole answer as a reply; with Stop.LENGTH its calls may be cut and must not be carried out."""
    choices = as_list(answer.get("choices"))
    choice = as_table(choices[0]) if choices else {}
    _check_error(answer, choice, who)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise ReplyError(f"{who} did not answer with a message", hint="is the address one of chat completions?")
    usage = read_openai_usage(as_table(answer.get("usage")), dollars)
    finish = as_text(choice.get("finish_reason"))
    wanted = [as_table(at) for at in as_list(message.get("tool_calls"))]
    calls = tuple(_read_call(at, place, finish, usage) for place, at in enumerate(wanted))
    stop = _STOPS.get(finish, StopReason.DONE)
    stop = (
        StopReason.CALLS
        if calls and stop is StopReason.DONE
        else StopReason.DONE
        if stop is StopReason.CALLS and not calls
        else stop
    )
    text, refusal = _read_text(message.get("content")), as_text(message.get("refusal"))
    if refusal and not text:
        text, stop = refusal, StopReason.REFUSED
    raw = {
        key: value for key, value in message.items() if key in ("role", "content", "tool_calls", "refusal") and value
    }
    raw = {"role": "assistant", "content": None, **raw} if text or calls else {}
    if not all(as_text(at.get("id")) for at in wanted):
        raw = {}  # answers go by id: the calls go back with those they were given here
    thought = as_count(as_table(as_table(answer.get("usage")).get("completion_tokens_details")).get("reasoning_tokens"))
    return AdaptedReply(
        Reply(text, usage, calls, stop, raw or None), stop is StopReason.LENGTH and bool(thought) and not raw
    )


def _check_error(answer: Mapping[str, object], choice: Mapping[str, object], who: str) -> None:
    """Raise for an error that comes with the status of success, as gateways tell of the provider behind them."""
    found = next((at for at in (answer, choice) if as_table(at.get("error"))), None)
    if found is not None:
        code = as_count(as_table(found["error"]).get("code"))
        raise make_status_fault(who, code if 400 <= code < 600 else 200, found)
    if choice.get("finish_reason") == "error":
        raise make_fault(who, "broken")


def read_openai_usage(usage: Mapping[str, object], dollars: float | None = None) -> Usage:
    read = as_count(usage.get("prompt_tokens"))
    cached = min(read, as_count(as_table(usage.get("prompt_tokens_details")).get("cached_tokens")))
    return Usage(read - cached, cached, as_count(usage.get("completion_tokens")), 0, dollars)


def _read_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(as_text(as_table(part).get("text")) for part in as_list(content))


def _read_call(call: Mapping[str, object], place: int, finish: str, usage: Usage) -> ToolCall:
    function = as_table(call.get("function"))
    given = function.get("arguments")
    try:
        parsed = json.loads(given or "{}") if isinstance(given, str) else given
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, Mapping):
        if finish != "length":
            raise ReplyError("the input of a tool call is not JSON", usage=usage)
        parsed = {}  # cut by the limit; nobody carries it out
    return ToolCall(as_text(call.get("id")) or f"call_{place}", as_text(function.get("name")), parsed)


class OpenAIStream:
    """An answer put together from the deltas of a stream."""

    def __init__(self) -> None:
        self.usage: Mapping[str, object] = {}
        self.finish = ""
        self._text = ""
        self._refusal = ""
        self._calls: list[tuple[object, dict[str, str]]] = []

    def add(self, event: Mapping[str, object]) -> str:
        """Take one chunk; what it adds to the text is returned."""
        self.usage = as_table(event.get("usage")) or self.usage
        choices = as_list(event.get("choices"))
        choice = as_table(choices[0]) if choices else {}
        delta = as_table(choice.get("delta"))
        self.finish = as_text(choice.get("finish_reason")) or self.finish
        self._refusal += as_text(delta.get("refusal"))
        for place, at in enumerate(map(as_table, as_list(delta.get("tool_calls")))):
            self._add_call(at.get("index", place), at)
        text = as_text(delta.get("content"))
        self._text += text
        return text

    def _add_call(self, index: object, part: Mapping[str, object]) -> None:
        """A piece of a call. Some endpoints give all calls one index: another id is another call."""
        id, function = as_text(part.get("id")), as_table(part.get("function"))
        name = as_text(function.get("name"))
        call = next((at for place, at in reversed(self._calls) if place == index), None)
        if call is None or (id and call["id"] and id != call["id"]):
            call = {"id": "", "name": "", "arguments": ""}
            self._calls.append((index, call))
        call["id"] = call["id"] or id
        call["name"] += name if name != call["name"] else ""
        call["arguments"] += as_text(function.get("arguments"))

    def answer(self) -> dict[str, object]:
        calls = [
            {"id": at["id"], "type": "function", "function": {"name": at["name"], "arguments": at["arguments"]}}
            for _, at in self._calls
        ]
        message = {"role": "assistant", "content": self._text, "tool_calls": calls, "refusal": self._refusal}
        return {"choices": [{"message": message, "finish_reason": self.finish}], "usage": self.usage}
