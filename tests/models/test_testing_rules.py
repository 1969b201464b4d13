"""Each strict rule of the two servers has a request that keeps it and one that breaks it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from servers import AnthropicServer, OpenAIServer, sign_thinking
from tables import table
from wire import CHAT_HEAD, MESSAGES_HEAD, post, send

Body = dict[str, Any]
MARK = {"type": "ephemeral"}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}


def turn(role: str, *content: object) -> Body:
    return {"role": role, "content": list(content)}


def text(words: str, **more: object) -> Body:
    return {"type": "text", "text": words, **more}


def use(id: str, name: str = "read") -> Body:
    return {"type": "tool_use", "id": id, "name": name, "input": {"path": "a"}}


def result(id: str, content: object = "all of it", **more: object) -> Body:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def thought(words: str, signature: str | None = None) -> Body:
    return {
        "type": "thinking",
        "thinking": words,
        "signature": sign_thinking(words) if signature is None else signature,
    }


def request(*messages: Body, **fields: object) -> Body:
    return {"model": "claude-opus-4-8", "max_tokens": 100, "messages": list(messages), **fields}


HELLO = turn("user", text("hello"))
LOOP = (HELLO, turn("assistant", text("I look."), use("a"), use("b")), turn("user", result("a"), result("b")))
TOOLS = {"tools": [READ]}


def without(body: Body, name: str) -> Body:
    return {key: value for key, value in body.items() if key != name}


def form(**more: object) -> Body:
    return {"output_config": {"format": {"type": "json_schema", "schema": {**SCHEMA, **more}}}}


KEPT: dict[str, Body] = {
    "one message": request(HELLO),
    "content as a string": request({"role": "user", "content": "hello"}),
    "turns of the same role": request(HELLO, HELLO, turn("assistant", text("a")), HELLO),
    "a tool loop": request(*LOOP, **TOOLS),
    "text after results": request(*LOOP[:2], turn("user", result("a"), result("b"), text("go on")), **TOOLS),
    "results in two turns that are merged": request(
        *LOOP[:2], turn("user", result("a")), turn("user", result("b")), **TOOLS
    ),
    "a result without content": request(HELLO, turn("assistant", use("a")), turn("user", result("a", "")), **TOOLS),
    "a failed result": request(
        HELLO, turn("assistant", use("a")), turn("user", result("a", [text("no")], is_error=True)), **TOOLS
    ),
    "system as text": request(HELLO, system="Be brief."),
    "system as blocks": request(HELLO, system=[text("Be brief.", cache_control=MARK)]),
    "a system turn": request(HELLO, {"role": "system", "content": "From now on in verse."}),
    "four marks": request(
        turn("user", text("a", cache_control=MARK), text("b", cache_control=MARK)),
        system=[text("s", cache_control=MARK)],
        tools=[{**READ, "cache_control": MARK}],
    ),
    "the hour before the minutes": request(
        turn("user", text("a", cache_control=MARK)), system=[text("s", cache_control={**MARK, "ttl": "1h"})]
    ),
    "a mark on the request": request(HELLO, cache_control=MARK),
    "a thought that comes back": request(
        HELLO,
        turn("assistant", thought("hm"), use("a")),
        turn("user", result("a")),
        thinking={"type": "adaptive"},
        **TOOLS,
    ),
    "thinking with a budget": request(HELLO, max_tokens=3000, thinking={"type": "enabled", "budget_tokens": 2000}),
    "output by a schema": request(HELLO, **form()),
    "effort": request(HELLO, output_config={"effort": "low"}),
    "a choice of tool": request(HELLO, tool_choice={"type": "tool", "name": "read"}, **TOOLS),
    "the provider's own tool": request(HELLO, tools=[{"type": "memory_20250818", "name": "memory"}]),
    "temperature in the old version": request(HELLO, temperature=0),
    "the last word of an old model": request(HELLO, turn("assistant", text("{")), model="claude-3-5-haiku-latest"),
    "an image": request(
        turn("user", {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}})
    ),
}

BROKEN: dict[str, tuple[Body | bytes, str]] = {
    "no JSON": (b'{"model": ', "not valid JSON"),
    "no object": (b"[]", "not valid JSON"),
    "no model": (without(request(HELLO), "model"), "model: Field required"),
    "a model without a name": (request(HELLO, model=""), "model: String"),
    "no limit": (without(request(HELLO), "max_tokens"), "max_tokens: Field required"),
    "a limit of nothing": (request(HELLO, max_tokens=0), "max_tokens: must be"),
    "a limit that is no number": (request(HELLO, max_tokens=True), "max_tokens: must be"),
    "no messages": (without(request(), "messages"), "messages: Field required"),
    "messages that are no list": (request(HELLO, messages="hello"), "messages: Input"),
    "an empty conversation": (request(), "at least one message"),
    "an unknown field": (request(HELLO, max_retries=3), "max_retries: Extra inputs"),
    "a beta's field without its header": (
        request(HELLO, context_management={"edits": []}),
        "context_management: Extra",
    ),
    "a message that is no object": (request(["hello"]), "messages.0: Input"),  # type: ignore[arg-type]
    "an unknown field in a message": (request({**HELLO, "id": "1"}), "messages.0.id: Extra inputs"),
    "an unknown role": (request(turn("tool", text("a"))), "messages.0.role"),
    "content that is a number": (request({"role": "user", "content": 1}), "messages.0.content"),
    "empty content": (request({"role": "user", "content": ""}), "non-empty content"),
    "blank content": (request({"role": "user", "content": " \n"}), "non-whitespace"),
    "an empty block": (request(turn("user", text(""))), "must be non-empty"),
    "a blank block": (request(turn("user", text("  "))), "non-whitespace"),
    "a block without a type": (request(turn("user", {"text": "a"})), "content.0.type: Field required"),
    "a block of the wrong role": (request(turn("user", use("a")), **TOOLS), "cannot stand here"),
    "an unknown field in a block": (request(turn("user", text("a", id=1))), "text.id: Extra inputs"),
    "a text that is none": (request(turn("user", {"type": "text", "text": 1})), "text.text: Field required"),
    "an image without a source": (request(turn("user", {"type": "image"})), "image.source"),
    "the assistant first": (request(turn("assistant", text("a")), HELLO), "first message"),
    "the last word": (request(HELLO, turn("assistant", text("{"))), "prefill"),
    "a system turn first": (request({"role": "system", "content": "a"}, HELLO), "first message"),
    "a system turn after the assistant": (
        request(HELLO, turn("assistant", text("a")), {"role": "system", "content": "a"}),
        "must immediately follow",
    ),
    "a system turn before the user": (request(HELLO, {"role": "system", "content": "a"}, HELLO), "must be the last"),
    "a system turn for an older model": (
        request(HELLO, {"role": "system", "content": "a"}, model="claude-sonnet-5"),
        "not supported on this model",
    ),
    "a call without an answer": (request(*LOOP[:2], **TOOLS), "without `tool_result` blocks immediately after: a, b"),
    "a call half answered": (request(*LOOP[:2], turn("user", result("a")), **TOOLS), "immediately after: b"),
    "an answer too late": (
        request(*LOOP[:2], HELLO, turn("assistant", text("a")), turn("user", result("a"), result("b")), **TOOLS),
        "immediately after: a, b",
    ),
    "text before results": (
        request(*LOOP[:2], turn("user", text("here"), result("a"), result("b")), **TOOLS),
        "immediately after: a, b",
    ),
    "an answer to nothing": (request(turn("user", result("z")), **TOOLS), "unexpected `tool_use_id`"),
    "two answers to one call": (
        request(HELLO, turn("assistant", use("a")), turn("user", result("a"), result("a")), **TOOLS),
        "single result",
    ),
    "one id for two calls": (
        request(*LOOP, turn("assistant", use("a")), turn("user", result("a")), **TOOLS),
        "ids must be unique",
    ),
    "a call with a bad id": (
        request(HELLO, turn("assistant", use("a b")), turn("user", result("a b")), **TOOLS),
        "tool_use.id",
    ),
    "a call with a bad name": (
        request(HELLO, turn("assistant", use("a", "re ad")), turn("user", result("a")), **TOOLS),
        "tool_use.name",
    ),
    "a call whose input is a string": (
        request(HELLO, turn("assistant", {**use("a"), "input": "{}"}), turn("user", result("a")), **TOOLS),
        "tool_use.input",
    ),
    "a result for nobody": (
        request(turn("user", {"type": "tool_result", "content": "a"}), **TOOLS),
        "tool_use_id: Field",
    ),
    "a result whose content is a number": (
        request(HELLO, turn("assistant", use("a")), turn("user", result("a", 1)), **TOOLS),
        "tool_result.content",
    ),
    "a failure that is no boolean": (
        request(HELLO, turn("assistant", use("a")), turn("user", result("a", is_error="yes")), **TOOLS),
        "is_error",
    ),
    "a failed result with an image": (
        request(
            HELLO,
            turn("assistant", use("a")),
            turn("user", result("a", [{"type": "image", "source": {"type": "url"}}], is_error=True)),
            **TOOLS,
        ),
        "cannot stand here",
    ),
    "a tool loop without tools": (request(*LOOP), "must define tools"),
    "a thought with a false signature": (
        request(HELLO, turn("assistant", thought("hm", "x"), use("a")), turn("user", result("a")), **TOOLS),
        "Invalid `signature`",
    ),
    "a thought that was changed": (
        request(
            HELLO, turn("assistant", thought("hm", sign_thinking("hmm")), use("a")), turn("user", result("a")), **TOOLS
        ),
        "Invalid `signature`",
    ),
    "a thought without a signature": (
        request(HELLO, turn("assistant", {"type": "thinking", "thinking": "a"}, text("b")), HELLO),
        "signature: Field required",
    ),
    "a budget and no thought in the loop": (
        request(
            HELLO,
            turn("assistant", use("a")),
            turn("user", result("a")),
            max_tokens=3000,
            thinking={"type": "enabled", "budget_tokens": 2000},
            **TOOLS,
        ),
        "must start with it",
    ),
    "thinking of no kind": (request(HELLO, thinking={"type": "hard"}), "thinking: Input"),
    "too small a budget": (request(HELLO, thinking={"type": "enabled", "budget_tokens": 100}), "1024"),
    "a budget above the limit": (
        request(HELLO, max_tokens=1500, thinking={"type": "enabled", "budget_tokens": 2000}),
        "must be greater than `thinking.budget_tokens`",
    ),
    "thinking and a forced tool": (
        request(HELLO, thinking={"type": "adaptive"}, tool_choice={"type": "any"}, **TOOLS),
        "forces tool use",
    ),
    "thinking and a temperature": (
        request(HELLO, max_tokens=3000, temperature=0, thinking={"type": "enabled", "budget_tokens": 2000}),
        "only be set to 1",
    ),
    "a temperature out of range": (request(HELLO, temperature=2), "temperature: must be"),
    "a stream that is no boolean": (request(HELLO, stream="yes"), "stream: Input"),
    "a blank stop sequence": (request(HELLO, stop_sequences=[" "]), "stop_sequences"),
    "metadata of our own": (request(HELLO, metadata={"session": "1"}), "metadata.session"),
    "metadata that is none": (request(HELLO, metadata="1"), "metadata: Input"),
    "system as a number": (request(HELLO, system=1), "system: Input"),
    "system with an image": (request(HELLO, system=[{"type": "image"}]), "system.0: Input"),
    "an empty system block": (request(HELLO, system=[text("")]), "system.0: text"),
    "an unknown field in the system": (request(HELLO, system=[text("a", id=1)]), "system.0.id"),
    "tools that are no list": (request(HELLO, tools={"read": READ}), "tools: Input"),
    "a tool that is no object": (request(HELLO, tools=["read"]), "tools.0: Input"),
    "a tool without a name": (request(HELLO, tools=[without(READ, "name")]), "tools.0.custom.name"),
    "a tool with a bad name": (request(HELLO, tools=[{**READ, "name": "re.ad"}]), "tools.0.custom.name"),
    "a tool with too long a name": (request(HELLO, tools=[{**READ, "name": "a" * 129}]), "tools.0.custom.name"),
    "two tools of a name": (request(HELLO, tools=[READ, READ]), "names must be unique"),
    "a tool of an unknown type": (request(HELLO, tools=[{**READ, "type": "function"}]), "does not match any"),
    "a tool in the other provider's shape": (request(HELLO, tools=[{**READ, "parameters": {}}]), "parameters: Extra"),
    "a tool whose description is a list": (request(HELLO, tools=[{**READ, "description": []}]), "description"),
    "a tool without a schema": (request(HELLO, tools=[without(READ, "input_schema")]), "input_schema: Field required"),
    "a tool whose schema is no object": (request(HELLO, tools=[{**READ, "input_schema": "{}"}]), "input_schema: Input"),
    "a tool that takes a list": (request(HELLO, tools=[{**READ, "input_schema": {"type": "array"}}]), "'object'"),
    "a tool with a choice at the top": (
        request(HELLO, tools=[{**READ, "input_schema": {"type": "object", "anyOf": [{}]}}]),
        "at the top level",
    ),
    "a strict tool that is open": (request(HELLO, tools=[{**READ, "strict": True}]), "additionalProperties"),
    "a choice of nothing": (request(HELLO, tool_choice="auto", **TOOLS), "tool_choice: Input"),
    "a choice without tools": (request(HELLO, tool_choice={"type": "auto"}), "while providing tools"),
    "a choice of an unknown tool": (request(HELLO, tool_choice={"type": "tool", "name": "x"}, **TOOLS), "not found"),
    "output config that is none": (request(HELLO, output_config="json"), "output_config: Input"),
    "an unknown effort": (request(HELLO, output_config={"effort": "much"}), "effort"),
    "an unknown form": (request(HELLO, output_config={"format": {"type": "json"}}), "'json_schema'"),
    "a form with a name": (
        request(HELLO, output_config={"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}),
        "format.name: Extra",
    ),
    "a form without a schema": (
        request(HELLO, output_config={"format": {"type": "json_schema"}}),
        "a schema is an object",
    ),
    "an open object": (request(HELLO, **form(additionalProperties=True)), "explicitly set to false"),
    "an open object inside": (
        request(HELLO, **form(properties={"in": {"type": "object", "properties": {}}})),
        "properties.in: For 'object' type",
    ),
    "a smallest number": (
        request(HELLO, **form(properties={"n": {"type": "integer", "minimum": 1}})),
        "'minimum' is not supported",
    ),
    "a longest list": (
        request(HELLO, **form(properties={"n": {"type": "array", "items": {"type": "string"}, "maxItems": 3}})),
        "only 'minItems'",
    ),
    "a schema that holds itself": (
        request(
            HELLO,
            **form(
                **{
                    "$defs": {
                        "node": {
                            "type": "object",
                            "properties": {"next": {"$ref": "#/$defs/node"}},
                            "additionalProperties": False,
                        }
                    }
                }
            ),
        ),
        "recursive",
    ),
    "a type that is none": (request(HELLO, **form(properties={"n": {"type": "text"}})), "is no type"),
    "properties that are a list": (request(HELLO, **form(properties=["n"])), "must be an object"),
    "required by a string": (request(HELLO, **form(required="name")), "list of names"),
    "required twice": (request(HELLO, **form(required=["name", "name"])), "stands twice"),
    "a choice of none": (request(HELLO, **form(properties={"n": {"enum": []}})), "with something in it"),
    "five marks": (
        request(turn("user", *(text(str(at), cache_control=MARK) for at in range(5)))),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "five marks on five places": (
        request(
            turn("user", text("a", cache_control=MARK), text("b", cache_control=MARK)),
            system=[text("s", cache_control=MARK)],
            tools=[{**READ, "cache_control": MARK}],
            cache_control=MARK,
        ),
        "Found 5.",
    ),
    "a mark of another kind": (request(turn("user", text("a", cache_control={"type": "always"}))), "'ephemeral'"),
    "a mark for a day": (request(turn("user", text("a", cache_control={**MARK, "ttl": "1d"}))), "'5m' or '1h'"),
    "a mark on a thought": (
        request(HELLO, turn("assistant", {**thought("a"), "cache_control": MARK}, text("b")), HELLO),
        "cache_control: Extra inputs",
    ),
    "the minutes before the hour": (
        request(turn("user", text("a", cache_control={**MARK, "ttl": "1h"})), system=[text("s", cache_control=MARK)]),
        "must not come after",
    ),
}


@table("case", KEPT)
def test_a_request_that_keeps_the_rules_of_the_messages_api_is_answered(case: str) -> None:
    with AnthropicServer(["fine"]) as server:
        status, answer = post(f"{server.url}/v1/messages", KEPT[case], MESSAGES_HEAD)
    assert server.problems == [] and (status, answer["content"]) == (200, [text("fine")])


@table("case", BROKEN)
def test_a_request_that_breaks_a_rule_of_the_messages_api_is_refused(case: str) -> None:
    body, said = BROKEN[case]
    with AnthropicServer(["fine"]) as server:
        status, answer = post(f"{server.url}/v1/messages?beta=true", body, MESSAGES_HEAD)
    assert status == 400 and answer["type"] == "error" and answer["error"]["type"] == "invalid_request_error"
    assert server.problems[0] == f"request 1: {answer['error']['message']}"
    assert any(said in problem for problem in server.problems), server.problems


HEADERS: dict[str, tuple[dict[str, str], int]] = {
    "no key": (without(MESSAGES_HEAD, "x-api-key"), 401),
    "another key": ({**MESSAGES_HEAD, "x-api-key": "other"}, 401),
    "no version": (without(MESSAGES_HEAD, "anthropic-version"), 400),
    "an unknown version": ({**MESSAGES_HEAD, "anthropic-version": "2024-01-01"}, 400),
    "another content type": ({**MESSAGES_HEAD, "content-type": "text/plain"}, 400),
}


@table("case", HEADERS)
def test_wrong_headers_are_refused(case: str) -> None:
    headers, status = HEADERS[case]
    with AnthropicServer([], key="k") as server:
        assert post(f"{server.url}/v1/messages", request(HELLO), headers)[0] == status
    assert len(server.problems) == 1


def test_a_bearer_token_is_a_key_too() -> None:
    headers = {**without(MESSAGES_HEAD, "x-api-key"), "authorization": "Bearer k"}
    with AnthropicServer(["fine"], key="k") as server:
        assert post(f"{server.url}/v1/messages", request(HELLO), headers)[0] == 200


@table("field", ["temperature", "top_p", "top_k"])
def test_the_new_version_has_no_sampling_parameters(field: str) -> None:
    headers = {**MESSAGES_HEAD, "anthropic-version": "2026-10-21"}
    with AnthropicServer(["fine"]) as server:
        assert post(f"{server.url}/v1/messages", request(HELLO, **{field: 1}), headers)[0] == 400
        assert post(f"{server.url}/v1/messages", request(HELLO), headers)[0] == 200
    assert field in server.problems[0]


def test_a_citation_of_a_user_is_refused_by_the_new_version() -> None:
    cited = request(turn("user", text("a", citations=[{"type": "char_location"}])))
    with AnthropicServer(["fine"]) as server:
        assert post(f"{server.url}/v1/messages", cited, {**MESSAGES_HEAD, "anthropic-version": "2026-10-21"})[0] == 400
        assert post(f"{server.url}/v1/messages", cited, MESSAGES_HEAD)[0] == 200


def test_a_beta_field_is_taken_with_its_header_and_any_field_by_name() -> None:
    body = request(HELLO, context_management={"edits": []}, novelty=1)
    headers = {**MESSAGES_HEAD, "anthropic-beta": "other-1, context-management-2025-06-27"}
    with AnthropicServer(["fine"], extra_fields=["novelty"]) as server:
        assert post(f"{server.url}/v1/messages", body, headers)[0] == 200


def test_counting_tokens_takes_no_limit_and_answers_with_a_number() -> None:
    with AnthropicServer([], count=len) as server:
        counted = without(request(HELLO), "max_tokens")
        url = f"{server.url}/v1/messages/count_tokens"
        assert post(url, counted, MESSAGES_HEAD) == (200, {"input_tokens": 5})
        assert post(url, request(HELLO), MESSAGES_HEAD)[0] == 400
    assert server.requests == [] and server.others == ["POST /v1/messages/count_tokens"] * 2


def test_a_client_may_look_at_the_root_and_finds_nothing_else() -> None:
    with AnthropicServer([]) as server:
        assert send("HEAD", f"{server.url}/") == (200, b"") and send("GET", f"{server.url}/")[0] == 200
        assert send("GET", f"{server.url}/v1/files")[0] == 404
        assert post(f"{server.url}/v1/complete", {}, MESSAGES_HEAD)[0] == 404
    assert server.others == ["HEAD /", "GET /", "GET /v1/files", "POST /v1/complete"] and server.problems == []


# --- chat completions -----------------------------------------------------------------------------------------------

FUNCTION = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
USER = {"role": "user", "content": "hello"}


def chat(*messages: Body, **fields: object) -> Body:
    return {"model": "gpt-4.1", "messages": list(messages), **fields}


def called(*ids: str, content: object = None) -> Body:
    calls = [{"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def told(id: str) -> Body:
    return {"role": "tool", "tool_call_id": id, "content": "all of it"}


def function(**more: object) -> Body:
    return {"tools": [{"type": "function", "function": {**FUNCTION["function"], **more}}]}  # type: ignore[dict-item]


def shape(**more: object) -> Body:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, **more}}}


CHAT_KEPT: dict[str, Body] = {
    "one message": chat(USER),
    "roles": chat({"role": "developer", "content": "a"}, {"role": "system", "content": "b"}, USER),
    "parts": chat({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}),
    "a tool loop": chat(USER, called("a", "b"), told("b"), told("a"), tools=[FUNCTION]),
    "a closed schema": chat(USER, **shape(strict=True)),
    "an open schema": chat(USER, **shape(schema={"type": "object"})),
    "json": chat({"role": "user", "content": "As JSON."}, response_format={"type": "json_object"}),
    "a limit": chat(USER, max_tokens=5),
    "the new limit": chat(USER, max_completion_tokens=5, model="o4-mini"),
    "a choice": chat(USER, tools=[FUNCTION], tool_choice={"type": "function", "function": {"name": "read"}}),
}

CHAT_BROKEN: dict[str, tuple[Body | bytes, str]] = {
    "no JSON": (b"{", "could not parse"),
    "no model": (without(chat(USER), "model"), "model parameter"),
    "no messages": (without(chat(), "messages"), "'messages'"),
    "an unknown field": (chat(USER, system="a"), "Unknown parameter: 'system'"),
    "an unknown role": (chat({"role": "human", "content": "a"}), "messages[0].role"),
    "a message that is no object": (chat("a"), "expected an object"),  # type: ignore[arg-type]
    "no content": (chat({"role": "user", "content": None}), "got null"),
    "an assistant with nothing to say": (chat(USER, {"role": "assistant", "content": None}), "got null"),
    "content that is a number": (chat({"role": "user", "content": 1}), "a string or a list"),
    "a part of no kind": (chat({"role": "user", "content": [{"type": "tool_result"}]}), "cannot stand here"),
    "a part without text": (chat({"role": "user", "content": [{"type": "text"}]}), "content[0].text"),
    "a user that calls": (chat({**called("a"), "role": "user", "content": "a"}), "messages[0].tool_calls"),
    "no calls in a list of calls": (chat(USER, {**called(), "content": "a"}), "at least one call"),
    "a call without an id": (chat(USER, called("")), "expected an id"),
    "a call whose arguments are no string": (
        chat(
            USER,
            {
                **called("a"),
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": {}}}],
            },
        ),
        "arguments as a string",
    ),
    "a result without its call's id": (chat(USER, called("a"), without(told("a"), "tool_call_id")), "tool_call_id"),
    "a call without an answer": (chat(USER, called("a", "b"), told("a"), USER), "response messages: b"),
    "a call at the end": (chat(USER, called("a")), "response messages: a"),
    "an answer to nothing": (chat(USER, told("a")), "must be a response"),
    "an answer twice": (chat(USER, called("a"), told("a"), told("a")), "must be a response"),
    "no tools in a list of tools": (chat(USER, tools=[]), "at least one tool"),
    "a tool in the other provider's shape": (chat(USER, tools=[READ]), "expected type 'function'"),
    "two tools of a name": (chat(USER, tools=[FUNCTION, FUNCTION]), "unique"),
    "a tool with a bad name": (chat(USER, **function(name="re.ad")), "function.name"),
    "a tool with too long a name": (chat(USER, **function(name="a" * 65)), "function.name"),
    "an unknown field of a tool": (chat(USER, **function(input_schema={})), "input_schema"),
    "a tool that takes a list": (chat(USER, **function(parameters={"type": "array"})), "'object'"),
    "a strict tool that is open": (chat(USER, **function(strict=True)), "explicitly set to false"),
    "a choice without tools": (chat(USER, tool_choice="auto"), "'tool_choice' is only allowed"),
    "calls at once without tools": (chat(USER, parallel_tool_calls=True), "'parallel_tool_calls' is only allowed"),
    "a choice of no kind": (chat(USER, tools=[FUNCTION], tool_choice="any"), "tool_choice"),
    "a choice of an unknown tool": (
        chat(USER, tools=[FUNCTION], tool_choice={"type": "function", "function": {"name": "x"}}),
        "not found",
    ),
    "both limits": (chat(USER, max_tokens=1, max_completion_tokens=1), "at the same time"),
    "a limit of nothing": (chat(USER, max_tokens=0), "at least 1"),
    "the old limit for a model that thinks": (chat(USER, model="gpt-5", max_tokens=5), "'max_completion_tokens'"),
    "a temperature for a model that thinks": (chat(USER, model="o4-mini", temperature=0), "default (1)"),
    "a temperature out of range": (chat(USER, temperature=3), "from 0 to 2"),
    "a stream that is no boolean": (chat(USER, stream=1), "expected a boolean"),
    "options of a stream that is none": (
        chat(USER, stream_options={"include_usage": True}),
        "only allowed when 'stream'",
    ),
    "many answers": (chat(USER, n=2), "one answer"),
    "many stops": (chat(USER, stop=["a", "b", "c", "d", "e"]), "'stop'"),
    "an unknown form": (chat(USER, response_format={"type": "xml"}), "response_format.type"),
    "json that nobody mentions": (chat(USER, response_format={"type": "json_object"}), "the word 'json'"),
    "a schema without its wrapping": (chat(USER, response_format={"type": "json_schema"}), "json_schema'"),
    "a schema without a name": (chat(USER, **shape(name="")), "json_schema.name"),
    "a schema with an unknown field": (chat(USER, **shape(type="object")), "json_schema.type"),
    "a wrapping without a schema": (chat(USER, **shape(schema=None)), "json_schema.schema"),
    "a strict schema that is open": (
        chat(USER, **shape(strict=True, schema={**SCHEMA, "additionalProperties": True})),
        "explicitly set to false",
    ),
    "a strict schema with something optional": (
        chat(USER, **shape(strict=True, schema={**SCHEMA, "required": ["name"]})),
        "missing tags",
    ),
    "a strict schema of a list": (
        chat(USER, **shape(strict=True, schema={"type": "array", "items": {"type": "string"}})),
        "'type: \"object\"'",
    ),
}


@table("case", CHAT_KEPT)
def test_a_request_that_keeps_the_rules_of_chat_completions_is_answered(case: str) -> None:
    with OpenAIServer(["fine"]) as server:
        status, answer = post(f"{server.url}/chat/completions", CHAT_KEPT[case], CHAT_HEAD)
    assert server.problems == [] and status == 200
    assert answer["choices"][0]["message"]["content"] == "fine"


@table("case", CHAT_BROKEN)
def test_a_request_that_breaks_a_rule_of_chat_completions_is_refused(case: str) -> None:
    body, said = CHAT_BROKEN[case]
    with OpenAIServer(["fine"]) as server:
        status, answer = post(f"{server.url}/chat/completions", body, CHAT_HEAD)
    assert status == 400 and answer["error"]["type"] == "invalid_request_error"
    assert any(said in problem for problem in server.problems), server.problems


@table("headers", [{"content-type": "application/json"}, {**CHAT_HEAD, "authorization": "Bearer x"}])
def test_a_completion_needs_the_right_key(headers: dict[str, str]) -> None:
    with OpenAIServer(["fine"], key="k") as server:
        status, answer = post(f"{server.url}/chat/completions", chat(USER), headers)
    assert status == 401 and answer["error"]["code"] == "invalid_api_key" and len(server.problems) == 1


def test_ollama_wants_no_key_knows_more_fields_and_counts_no_calls() -> None:
    body = chat(USER, called("a"), USER, think=True, options={"num_ctx": 4096}, **shape(name=""))
    with OpenAIServer(["fine"], ollama=True) as server:
        status, _ = post(f"{server.url}/chat/completions", body, {"content-type": "application/json"})
    assert status == 200 and server.problems == []


def test_the_models_are_listed() -> None:
    with OpenAIServer([], models=["small", "large"]) as server:
        assert b'"small"' in send("GET", f"{server.url}/models")[1]
        assert send("GET", f"{server.url}/models/large")[0] == 200
        assert send("GET", f"{server.url}/models/huge")[0] == 404
        assert post(f"{server.url}/responses", {}, CHAT_HEAD)[0] == 404, "out of scope"


# --- any damage -----------------------------------------------------------------------------------------------------


def replace_each(value: Any, put: Callable[[Any], None], odd: object) -> int:
    """Puts something odd in the place of every value inside, one at a time, and asks; how often."""
    count = 0
    places: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        places = [(value, key) for key in value]
    elif isinstance(value, list):
        places = [(value, at) for at in range(len(value))]
    for holder, key in places:
        kept = holder[key]
        holder[key] = odd
        put(holder)
        holder[key] = kept
        count += 1 + replace_each(kept, put, odd)
    return count


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, [None], [{}], {"type": "text"}, True], ids=repr)
@pytest.mark.parametrize("server", [AnthropicServer, OpenAIServer])
def test_no_odd_value_anywhere_in_a_request_upsets_a_server(server: Any, odd: object) -> None:
    if server is AnthropicServer:
        asked, path, head = (
            KEPT["a tool loop"] | {"system": [text("s")], "thinking": {"type": "adaptive"}} | form(),
            "/v1/messages",
            MESSAGES_HEAD,
        )
    else:
        asked, path, head = CHAT_KEPT["a tool loop"] | shape(strict=True), "/chat/completions", CHAT_HEAD
    body = copy.deepcopy(asked)
    statuses: list[int] = []
    with server(lambda body: "fine") as running:
        count = replace_each(body, lambda _: statuses.append(post(f"{running.url}{path}", body, head)[0]), odd)
    assert count == len(statuses) > 30 and set(statuses) <= {200, 400}
    assert not any("raised" in problem for problem in running.problems)
