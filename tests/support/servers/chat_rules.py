"""The rules of OpenAI's chat completions for a request: headers, roles, tool calls and results, tools, output, limits.

Every function yields sentences. With `lenient`, as ollama's endpoint of the same shape is: no key, unknown fields are
passed over, and nobody counts calls and results. Not checked: whether a model of that name exists, and audio.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from servers.scripts import Body
from servers.shapes import TOOL_NAME, check_input_schema, check_output_schema, has_text, is_whole

_FIELDS = {
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format", "max_tokens",
    "max_completion_tokens", "temperature", "top_p", "n", "stop", "stream", "stream_options", "seed", "user",
    "metadata", "store", "logprobs", "top_logprobs", "logit_bias", "frequency_penalty", "presence_penalty",
    "reasoning_effort", "verbosity", "service_tier", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "prediction", "safety_identifier", "modalities", "web_search_options", "moderation",
}  # fmt: skip
# Models that think: they take no `max_tokens` and no temperature but their own.
_THINKING = re.compile(r"(o\d|gpt-5)")
_ROLES = ("developer", "system", "user", "assistant", "tool")
_PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}


def check_key(headers: Mapping[str, str], key: str | None, *, lenient: bool) -> Iterator[str]:
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if not given and not lenient:
        yield "You didn't provide an API key."
    elif key is not None and given != key:
        yield "Incorrect API key provided."


def check_body(
    body: Any, headers: Mapping[str, str], *, lenient: bool = False, extra: Collection[str] = ()
) -> Iterator[str]:
    """Everything wrong with a request for a completion."""
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        yield f"content-type must be application/json, not {headers.get('content-type')!r}"
    if not isinstance(body, dict):
        yield "We could not parse the JSON body of your request."
        return
    for name in body if not lenient else ():
        if name not in _FIELDS and name not in extra:
            yield f"Unknown parameter: '{name}'."
    yield from _check_scalars(body)
    yield from _check_limits(body)
    yield from _check_tools(body)
    yield from _check_format(body, lenient=lenient)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "Missing or empty required parameter: 'messages'."
        return
    problems = [at for number, message in enumerate(messages) for at in _check_message(message, f"messages[{number}]")]
    yield from problems
    if not problems and not lenient:
        yield from _check_pairs(messages)


def _check_scalars(body: Body) -> Iterator[str]:
    if not has_text(body.get("model")):
        yield "you must provide a model parameter"
    for name in ("stream", "store", "logprobs", "parallel_tool_calls"):
        if body.get(name) is not None and not isinstance(body[name], bool):
            yield f"Invalid type for '{name}': expected a boolean."
    if body.get("stream_options") is not None and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    if body.get("n") not in (None, 1):
        yield "n: this server gives one answer to a request"
    stop = body.get("stop")
    stops = [stop] if isinstance(stop, str) else stop
    if stops is not None and not (
        isinstance(stops, list) and len(stops) <= 4 and all(isinstance(at, str) for at in stops)
    ):
        yield "Invalid 'stop': expected a string or at most 4 of them."
    for name, most in (("temperature", 2), ("top_p", 1)):
        value = body.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most
        ):
            yield f"Invalid '{name}': expected a number from 0 to {most}."


def _check_limits(body: Body) -> Iterator[str]:
    old, new = body.get("max_tokens"), body.get("max_completion_tokens")
    for name, value in (("max_tokens", old), ("max_completion_tokens", new)):
        if value is not None and not is_whole(value):
            yield f"Invalid '{name}': expected an integer of at least 1."
    if old is not None and new is not None:
        yield "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    if not _THINKING.match(str(body.get("model"))):
        return
    if old is not None:
        yield "Unsupported parameter: 'max_tokens'. This model takes 'max_completion_tokens' instead."
    if body.get("temperature") not in (None, 1):
        yield "Unsupported value: 'temperature' supports only the default (1) with this model."


# --- tools and the form of the output -------------------------------------------------------------------------------


def _check_tools(body: Body) -> Iterator[str]:
    tools = body.get("tools")
    if tools is None:
        for name in ("tool_choice", "parallel_tool_calls"):
            if body.get(name) not in (None, "none"):
                yield f"'{name}' is only allowed when 'tools' are specified."
        return
    if not isinstance(tools, list) or not tools:
        yield "Invalid 'tools': expected a list with at least one tool."
        return
    names: list[str] = []
    for at, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        if not isinstance(function, dict):
            yield f"Invalid 'tools[{at}]': expected type 'function' and an object of that name."
            continue
        names.append(str(function.get("name")))
        yield from _check_function(function, f"tools[{at}].function")
    if len(set(names)) != len(names):
        yield "Invalid 'tools': names must be unique."
    yield from _check_choice(body.get("tool_choice"), names)


def _check_function(function: Mapping[str, Any], where: str) -> Iterator[str]:
    for name in function:
        if name not in ("name", "description", "parameters", "strict"):
            yield f"Unknown parameter: '{where}.{name}'."
    if not (isinstance(function.get("name"), str) and TOOL_NAME.fullmatch(function["name"])):
        yield f"Invalid '{where}.name': expected a string that matches the pattern '^[a-zA-Z0-9_-]{{1,64}}$'."
    if "parameters" in function:
        yield from check_input_schema(function["parameters"], f"{where}.parameters")
    if function.get("strict") is True:
        yield from check_output_schema(function.get("parameters"), f"{where}.parameters", all_required=True)


def _check_choice(choice: Any, names: list[str]) -> Iterator[str]:
    if choice is None or choice in ("none", "auto", "required"):
        return
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    if not isinstance(function, dict):
        yield "Invalid value for 'tool_choice': expected 'none', 'auto', 'required' or a function."
    elif function.get("name") not in names:
        yield f"Invalid value for 'tool_choice': tool {function.get('name')!r} not found in 'tools'."


def _check_format(body: Body, *, lenient: bool) -> Iterator[str]:
    form = body.get("response_format")
    if form is None:
        return
    kind = form.get("type") if isinstance(form, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        yield "Invalid 'response_format.type': expected 'text', 'json_object' or 'json_schema'."
    elif kind == "json_object" and not lenient and "json" not in str(body.get("messages")).lower():
        yield "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
    elif kind == "json_schema":
        yield from _check_json_schema(form.get("json_schema"), lenient=lenient)


def _check_json_schema(form: Any, *, lenient: bool) -> Iterator[str]:
    where = "response_format.json_schema"
    if not isinstance(form, dict):
        yield f"Missing required parameter: '{where}'."
        return
    if not lenient and not (isinstance(form.get("name"), str) and TOOL_NAME.fullmatch(form["name"])):
        yield f"Invalid '{where}.name': expected a string that matches the pattern '^[a-zA-Z0-9_-]{{1,64}}$'."
    for name in form:
        if name not in ("name", "description", "schema", "strict"):
            yield f"Unknown parameter: '{where}.{name}'."
    if not isinstance(form.get("schema"), dict):
        yield f"Missing required parameter: '{where}.schema'."
    elif form.get("strict") is True:
        yield from check_output_schema(form["schema"], f"{where}.schema", all_required=True)


# --- messages -------------------------------------------------------------------------------------------------------


def _check_message(message: Any, where: str) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"Invalid type for '{where}': expected an object."
        return
    role = message.get("role")
    if role not in _ROLES:
        yield f"Invalid value for '{where}.role': {role!r}. Supported values are: {', '.join(_ROLES)}."
        return
    calls = message.get("tool_calls")
    if role == "assistant" and calls is not None:
        yield from _check_calls(calls, where)
    elif calls is not None:
        yield f"Unknown parameter: '{where}.tool_calls'."
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield f"Missing required parameter: '{where}.tool_call_id'."
    yield from _check_content(message, role, where)


def _check_content(message: Mapping[str, Any], role: str, where: str) -> Iterator[str]:
    content = message.get("content")
    if content is None:
        if role != "assistant" or not (message.get("tool_calls") or message.get("refusal")):
            yield f"Invalid value for '{where}.content': expected a string, got null."
        return
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        yield f"Invalid type for '{where}.content': expected a string or a list of parts."
        return
    for at, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _PARTS.get(role, ("text",)):
            yield f"Invalid value for '{where}.content[{at}].type': {kind!r} cannot stand here."
        elif kind == "text" and not isinstance(part.get("text"), str):
            yield f"Missing required parameter: '{where}.content[{at}].text'."


def _check_calls(calls: Any, where: str) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        yield f"Invalid '{where}.tool_calls': expected a list with at least one call."
        return
    for at, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) and call.get("type") == "function" else None
        if not isinstance(function, dict) or not has_text(call.get("id")):
            yield f"Invalid '{where}.tool_calls[{at}]': expected an id, type 'function' and an object of that name."
        elif not has_text(function.get("name")) or not isinstance(function.get("arguments"), str):
            yield f"Invalid '{where}.tool_calls[{at}].function': expected a name, and arguments as a string."


def _check_pairs(messages: list[Mapping[str, Any]]) -> Iterator[str]:
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"messages[{at}]: role 'tool' must be a response to a preceding message with 'tool_calls'."
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        yield from _check_answered(open_calls)
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    yield from _check_answered(open_calls)


def _check_answered(missing: list[str]) -> Iterator[str]:
    if missing:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}"
        )
