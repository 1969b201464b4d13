"""What a provider would refuse in a request: each function yields sentences, and none means that all is well.

Fields and their types are those of the providers' own SDKs, where these are installed. The rules that types cannot
express are written out: every tool call has one result in the next turn, thoughts come back as they were, at most four
marks for the cache, and output schemas are closed.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from servers.cache import as_blocks
from servers.scripts import Body

_MARKS = 4


def check_key(headers: Mapping[str, str], key: str | None, *, required: bool = True) -> Iterator[str]:
    """Check that the client shows a key, with `key` this one."""
    shown_key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    if not shown_key and required:
        yield "x-api-key: the API key is missing"
    elif key is not None and shown_key != key:
        yield "x-api-key: the API key is wrong"


def check_types(name: str, body: Any, extra: Collection[str] = ()) -> Iterator[str]:
    """Check the fields against a type of an SDK, such as "openai.types.chat.CompletionCreateParams"."""
    for known, validate in filter(None, [_load_type(name)]):
        yield from (f"{field}: unknown field" for field in body if field not in known and field not in extra)
        try:
            _exhaust(validate(body))
        except ValueError as error:
            yield " ".join(str(error).split())[:500]


@cache
def _load_type(name: str) -> tuple[Collection[str], Callable[[Any], Any]] | None:
    module, _, kind = name.rpartition(".")
    try:
        params: Any = getattr(import_module(module), kind)
        adapter: Any = import_module("pydantic").TypeAdapter(params)
    except ModuleNotFoundError:
        return None
    fields = {field for part in getattr(params, "__args__", [params]) for field in get_type_hints(part)}
    return fields, adapter.validate_python


def _exhaust(value: Any) -> None:
    """Walk a validated value: pydantic checks the items of an iterable only when they are read."""
    if isinstance(value, Mapping):
        value = value.values()
    elif isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return
    for item in value:
        _exhaust(item)


def check_messages(body: Body, sign: Callable[[str], str], issued: Mapping[str, list[Body]]) -> Iterator[str]:
    """Check a request of the Messages API. `issued` holds the thoughts before each call that the server made."""
    turns = [(message["role"], as_blocks(message["content"])) for message in body["messages"]]
    if not turns or turns[-1][0] == "assistant":
        yield "messages: the conversation must end with a user message"
    for number, (role, blocks) in enumerate(turns):
        where, calls = f"messages.{number}", [block["id"] for block in blocks if block["type"] == "tool_use"]
        following = turns[number + 1][1] if number + 1 < len(turns) else []
        results = [block["tool_use_id"] for block in following if block["type"] == "tool_result"]
        if calls and sorted(calls) != sorted(results):
            yield f"{where}: each `tool_use` must have a single `tool_result` in the next message"
        if not calls and results:
            yield f"{where}: `tool_result` without a `tool_use` in the message before"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield f"{where}: text content blocks must contain non-whitespace text"
        thoughts = [block for block in blocks if block["type"] == "thinking"]
        if any(block["signature"] != sign(block["thinking"]) for block in thoughts):
            yield f"{where}: invalid `signature` in a `thinking` block"
        expected_thoughts = [thought for call in calls[:1] for thought in issued.get(call, [])]
        if body.get("thinking") and role == "assistant" and expected_thoughts and thoughts != expected_thoughts:
            yield f"{where}: `thinking` blocks cannot be modified"
    if json.dumps(body).count('"cache_control": {') > _MARKS:
        yield "a maximum of 4 blocks with cache_control may be provided"
    form = (body.get("output_config") or {}).get("format") or {}
    yield from check_closed(form.get("schema"), "output_config.format.schema")


def check_completion(body: Body) -> Iterator[str]:
    """Check a request for a chat completion: each call has its result, and the output schema is closed."""
    if "max_tokens" in body and re.match(r"gpt-5|o\d", body["model"]):
        yield "Unsupported parameter: 'max_tokens'. This model takes 'max_completion_tokens' instead."
    open_calls: set[str] = set()
    for number, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"messages[{number}]: no call {message['tool_call_id']} before this result"
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            yield f"messages[{number}]: calls without a result: {', '.join(sorted(open_calls))}"
        open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    form = (body.get("response_format") or {}).get("json_schema") or {}
    yield from check_closed(form.get("schema"), "response_format.json_schema.schema")


def check_closed(schema: Any, where: str) -> Iterator[str]:
    """Check that every object in an output schema forbids other properties."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield f"{where}: 'additionalProperties' must be explicitly set to false"
    if schema.get("$ref") == "#":
        yield f"{where}: recursive schemas are not supported"
    for name, part in schema.items():
        yield from check_closed(part, f"{where}.{name}")
