"""The rules of the Messages API for a request: headers, fields, tools, output, thinking, marks for the cache.

`check_body` yields every breach as a sentence that begins with its place; `messages` has a room of its own. Fields that
only some account or beta has are let through when their header is there. Not checked: whether a model of that name
exists, sizes in bytes, and what is inside the provider's own tools.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from servers.cache import as_blocks, can_be_marked
from servers.messages_turns import Issued, Sign, check_messages
from servers.scripts import Body
from servers.shapes import (
    LONG_TOOL_NAME,
    check_input_schema,
    check_output_schema,
    find_unknown,
    has_text,
    is_whole,
)

_COUNTED = {
    "model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "output_format",
    "cache_control", "context_management", "mcp_servers", "speed",
}  # fmt: skip
_FIELDS = _COUNTED | {
    "max_tokens", "stream", "stop_sequences", "metadata", "service_tier", "temperature", "top_p", "top_k", "container",
    "inference_geo", "diagnostics", "user_profile_id", "workspace_id", "fallbacks", "fallback_credit_token",
    "compaction", "thread",
}  # fmt: skip
# Fields that need a beta header, and how the header's words begin.
_BETAS = {
    "context_management": ("context-management-", "compact-"),
    "mcp_servers": ("mcp-client-",),
    "output_format": ("structured-outputs-",),
}
_TOOL_FIELDS = {
    "type", "name", "description", "input_schema", "cache_control", "strict", "defer_loading", "input_examples",
    "allowed_callers", "eager_input_streaming",
}  # fmt: skip
_SERVER_TOOL = re.compile(r"[a-z0-9_]+_20\d{6}|mcp_toolset")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_VERSIONS = ("2026-10-21", "2023-06-01", "2023-01-01")
_SAMPLING = ("temperature", "top_p", "top_k")
_MARKS = 4


def check_key(headers: Mapping[str, str], key: str | None) -> Iterator[str]:
    """The client says who it is; with `key`, that it is this one."""
    given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    if not given:
        yield "x-api-key: header is required"
    elif key is not None and given != key:
        yield "x-api-key: this is not the right one"


def check_headers(headers: Mapping[str, str]) -> Iterator[str]:
    version = headers.get("anthropic-version")
    if version not in _VERSIONS:
        yield f"anthropic-version: header is required and must be one of {', '.join(_VERSIONS)}, not {version!r}"
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        yield f"content-type: must be application/json, not {headers.get('content-type')!r}"


def check_body(
    body: Any,
    headers: Mapping[str, str],
    sign: Sign,
    issued: Issued,
    *,
    counting: bool = False,
    extra: Collection[str] = (),
) -> Iterator[str]:
    """Everything wrong with a body; `counting` for one whose tokens are only counted."""
    if not isinstance(body, dict):
        yield "The request body is not valid JSON"
        return
    problems = [
        *find_unknown(body, (_COUNTED if counting else _FIELDS) | set(extra)),
        *_check_betas(body, headers.get("anthropic-beta", "")),
        *_check_version(body, headers.get("anthropic-version", "")),
        *_check_scalars(body, counting=counting),
        *_check_system(body.get("system")),
        *_check_tools(body.get("tools")),
        *_check_choice(body),
        *_check_output(body),
        *_check_thinking(body),
        *check_messages(body, sign, issued),
    ]
    yield from problems
    if not problems:
        # These go through the whole prompt and need one that is well made.
        yield from _check_marks(body)
        yield from _check_tools_there(body)


def _check_betas(body: Body, header: str) -> Iterator[str]:
    words = [word.strip() for word in header.split(",")]
    for name, betas in _BETAS.items():
        if body.get(name) is not None and not any(word.startswith(betas) for word in words):
            yield f"{name}: Extra inputs are not permitted"


def _check_version(body: Body, version: str) -> Iterator[str]:
    """What the version of the API that a client asks for has taken away."""
    if version >= "2026-10-21":
        for name in _SAMPLING:
            if name in body:
                yield f"{name}: Extra inputs are not permitted in this version"
        yield from (f"messages.{at}: citations cannot stand in a user message" for at in _find_citing(body))


def _find_citing(body: Body) -> Iterator[int]:
    messages = body.get("messages")
    for at, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "text" and part.get("citations"):
                yield at


def _check_scalars(body: Body, *, counting: bool) -> Iterator[str]:
    if not has_text(body.get("model")):
        yield "model: String should have at least 1 character" if "model" in body else "model: Field required"
    if not counting and not is_whole(body.get("max_tokens")):
        yield "max_tokens: must be greater than or equal to 1" if "max_tokens" in body else "max_tokens: Field required"
    if not isinstance(body.get("stream", False), bool):
        yield "stream: Input should be a valid boolean"
    stops = body.get("stop_sequences") or []
    if not isinstance(stops, list) or not all(has_text(stop) for stop in stops):
        yield "stop_sequences: each stop sequence must contain non-whitespace"
    for name in ("temperature", "top_p"):
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
            yield f"{name}: must be a number from 0 to 1"
    if not isinstance(body.get("metadata", {}), dict):
        yield "metadata: Input should be a valid dictionary"
    elif body.get("metadata"):
        yield from find_unknown(body["metadata"], ("user_id",), "metadata.")


def _check_system(system: Any) -> Iterator[str]:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        yield "system: Input should be a valid string or list"
        return
    for at, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            yield f"system.{at}: Input should be a text block"
        elif not block["text"].strip():
            yield f"system.{at}: text content blocks must be non-empty"
        else:
            yield from find_unknown(block, ("type", "text", "cache_control", "citations"), f"system.{at}.")


def _check_tools(tools: Any) -> Iterator[str]:
    if tools is None:
        return
    if not isinstance(tools, list):
        yield "tools: Input should be a valid list"
        return
    names: list[str] = []
    for at, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield f"tools.{at}: Input should be a valid dictionary"
            continue
        names.append(str(tool.get("name")))
        if tool.get("type") in (None, "custom"):
            yield from _check_tool(tool, f"tools.{at}.custom")
        elif not _SERVER_TOOL.fullmatch(str(tool["type"])):
            yield f"tools.{at}: Input tag {tool['type']!r} does not match any of the expected tags"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"tools: Tool names must be unique: {name}"


def _check_tool(tool: Mapping[str, Any], where: str) -> Iterator[str]:
    yield from find_unknown(tool, _TOOL_FIELDS, f"{where}.")
    if not (isinstance(tool.get("name"), str) and LONG_TOOL_NAME.fullmatch(tool["name"])):
        yield f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(tool.get("description", ""), str):
        yield f"{where}.description: Input should be a valid string"
    if "input_schema" not in tool:
        yield f"{where}.input_schema: Field required"
    else:
        yield from check_input_schema(tool["input_schema"], f"{where}.input_schema")
        if tool.get("strict") is True:
            yield from check_output_schema(tool["input_schema"], f"{where}.input_schema")


def _check_choice(body: Body) -> Iterator[str]:
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind not in ("auto", "any", "tool", "none"):
        yield "tool_choice: Input should have type 'auto', 'any', 'tool' or 'none'"
        return
    yield from find_unknown(choice, ("type", "name", "disable_parallel_tool_use"), "tool_choice.")
    if not body.get("tools"):
        yield "tool_choice: tool_choice may only be specified while providing tools"
    names = [tool.get("name") for tool in body.get("tools") or () if isinstance(tool, dict)]
    if kind == "tool" and choice.get("name") not in names:
        yield f"tool_choice: Tool {choice.get('name')!r} not found in provided tools"
    thinking = body.get("thinking")
    if kind in ("any", "tool") and isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive"):
        yield "tool_choice: Thinking may not be enabled when tool_choice forces tool use"


def _check_output(body: Body) -> Iterator[str]:
    config = body.get("output_config")
    if config is not None and not isinstance(config, dict):
        yield "output_config: Input should be a valid dictionary"
        return
    yield from find_unknown(config or {}, ("effort", "format", "task_budget"), "output_config.")
    if (config or {}).get("effort") not in (None, *_EFFORTS):
        yield f"output_config.effort: Input should be one of {', '.join(_EFFORTS)}"
    for where, form in (
        ("output_config.format", (config or {}).get("format")),
        ("output_format", body.get("output_format")),
    ):
        if form is None:
            continue
        if not isinstance(form, dict) or form.get("type") != "json_schema":
            yield f"{where}.type: Input should be 'json_schema'"
            continue
        yield from find_unknown(form, ("type", "schema"), f"{where}.")
        yield from check_output_schema(form.get("schema"), f"{where}.schema")


def _check_thinking(body: Body) -> Iterator[str]:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        yield "thinking: Input should have type 'enabled', 'disabled' or 'adaptive'"
        return
    if kind != "enabled":
        yield from find_unknown(thinking, ("type", "display"), f"thinking.{kind}.")
        return
    budget = thinking.get("budget_tokens")
    if not is_whole(budget, 1024):
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    elif is_whole(body.get("max_tokens")) and budget >= body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    if body.get("temperature") not in (None, 1):
        yield "`temperature` may only be set to 1 when thinking is enabled"


def _check_tools_there(body: Body) -> Iterator[str]:
    kinds = {block["type"] for message in body["messages"] for block in as_blocks(message["content"])}
    if kinds & {"tool_use", "tool_result"} and not body.get("tools"):
        yield "Requests which have `tool_use` or `tool_result` blocks in messages must define tools"


# --- marks for the cache --------------------------------------------------------------------------------------------


def _check_marks(body: Body) -> Iterator[str]:
    marked = list(_list_marks(body))
    lives: list[str] = []
    for where, owner in marked:
        control = owner["cache_control"]
        if not isinstance(control, dict) or control.get("type") != "ephemeral":
            yield f"{where}.cache_control.type: Input should be 'ephemeral'"
            continue
        yield from find_unknown(control, ("type", "ttl", "scope"), f"{where}.cache_control.")
        if control.get("ttl", "5m") not in ("5m", "1h"):
            yield f"{where}.cache_control.ttl: Input should be '5m' or '1h'"
        if not can_be_marked(owner):
            yield f"{where}: cache_control cannot be set for empty text blocks or thinking blocks"
        lives.append(str(control.get("ttl", "5m")))
    if len(marked) > _MARKS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
    if lives != sorted(lives):  # "1h" sorts before "5m", as it must stand
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def _list_marks(body: Body) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Everything that has a mark, in the order of the prompt; a mark on the request itself stands at its end."""
    for at, tool in enumerate(body.get("tools") or ()):
        if tool.get("cache_control") is not None:
            yield f"tools.{at}", tool
    for at, block in enumerate(as_blocks(body.get("system") or [])):
        if block.get("cache_control") is not None:
            yield f"system.{at}", block
    for at, message in enumerate(body["messages"]):
        for number, block in enumerate(as_blocks(message["content"])):
            inner = block.get("content") if block["type"] == "tool_result" else None
            for part in [*(inner if isinstance(inner, list) else []), block]:
                if part.get("cache_control") is not None:
                    yield f"messages.{at}.content.{number}", part
    if body.get("cache_control") is not None:
        yield "request", {"type": "request", "cache_control": body["cache_control"]}
