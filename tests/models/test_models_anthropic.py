"""The Messages API through the real SDK, on a server that is as strict as the provider's."""

import copy
from pathlib import Path
from typing import Any

import anthropic
import pytest

from memdir.errors import ModelError
from memdir.frozen import replace
from memdir.models.anthropic import count_marks, render_anthropic_body
from memdir.recall.prefetch import make_select_request
from memdir.records import Header, Kind, Message, Query, Request, Scope, Signature, StopReason, ToolCall
from scripted_models import NOW, READ, SCHEMA, ask, open_at, rows, same
from servers import AnthropicServer, Call, Part, Say, Think
from tables import read_rows

ROWS = read_rows("models_anthropic")
SPEC = "anthropic:claude-sonnet-5"
MARK = {"type": "ephemeral"}


def make_parent(turns: int = 60) -> dict[str, Any]:
    """A host's own body, with its breakpoints, its tools, and a long conversation."""
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        messages.append(
            {"role": "user", "content": f"Question {number}: " + "how does the billing service work? " * 20}
        )
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Answer {number}. " * 40}]})
    messages.append({"role": "user", "content": [{"type": "text", "text": "And the last?", "cache_control": MARK}]})
    return {
        "model": "claude-host-model",
        "max_tokens": 9000,
        "stream": True,
        "system": [{"type": "text", "text": "You are a coding agent. " * 50, "cache_control": MARK}],
        "tools": [{"name": "Bash", "description": "Run", "input_schema": {"type": "object", "properties": {}}}],
        "metadata": {"user_id": "u1"},
        "messages": messages,
    }


def fork(parent: dict[str, Any], *after: Message, **more: Any) -> Request:
    task = Message("user", "Now save what is worth remembering.")
    return Request("", (Message("assistant", "That was all."), task, *after), 1000, parent=parent, **more)


def test_an_answer_comes_back_with_text_usage_and_cost(tmp_path: Path) -> None:
    with AnthropicServer(["Nothing yet."]) as server:
        reply = open_at(server.url, SPEC, tmp_path)(ask())
        sent = server.requests[0]
        assert server.problems == []
    assert reply.text == "Nothing yet." and reply.stop is StopReason.DONE and not reply.calls
    assert reply.usage.input > 0 and reply.usage.output > 0
    assert reply.usage.dollars == pytest.approx((reply.usage.input * 2 + reply.usage.output * 10) / 1e6, rel=0.3)
    assert sent.body["model"] == "claude-sonnet-5" and "stream" not in sent.body
    assert "sk-test-1234567890" in (sent.headers.get("x-api-key") or sent.headers["authorization"])


def test_text_is_streamed_as_it_comes(tmp_path: Path) -> None:
    heard: list[str] = []
    with AnthropicServer([[Think("hm"), Say("One two three four five six.")]]) as server:
        reply = open_at(server.url, SPEC, tmp_path)(ask(on_text=heard.append))
        assert server.requests[0].body["stream"] is True
    assert len(heard) > 1 and "".join(heard) == reply.text == "One two three four five six."


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_with_tools_goes_back_and_forth_with_thoughts_unchanged(tmp_path: Path, streamed: bool) -> None:
    calls: list[Part] = [
        Think("I look."),
        Say("I look."),
        Call("read", {"path": "a.md"}),
        Call("read", {"path": "b.md"}),
    ]
    on_text = (lambda text: None) if streamed else None
    with AnthropicServer([calls, "Done."]) as server:
        model = open_at(server.url, SPEC, tmp_path)
        first = ask(tools=(READ,), on_text=on_text)
        reply = model(first)
        assert reply.stop is StopReason.CALLS and [call.input["path"] for call in reply.calls] == ["a.md", "b.md"]
        said = Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)
        results = (
            Message("tool", "text of a", answers=reply.calls[0].id),
            Message("tool", "there is no b", answers=reply.calls[1].id, failed=True),
        )
        assert model(replace(first, messages=(*first.messages, said, *results))).text == "Done."
        assert server.problems == []
        *_, thought, answered = server.requests[1].body["messages"]
    assert same(thought, reply.raw) and thought["content"][0]["type"] == "thinking"
    assert [block["type"] for block in answered["content"]] == ["tool_result", "tool_result"]
    assert [block.get("is_error", False) for block in answered["content"]] == [False, True]


def test_a_run_reads_its_own_beginning_from_the_cache(tmp_path: Path) -> None:
    with AnthropicServer([[Call("read", {"path": f"{at}.md"})] for at in range(3)]) as server:
        model = open_at(server.url, SPEC, tmp_path)
        request = ask("Look at this: " + "the deploy runs at night and needs a flag. " * 200, tools=(READ,))
        shares = []
        for _ in range(3):
            reply = model(request)
            shares.append(reply.usage.cached / reply.usage.input)
            said = Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)
            result = Message("tool", "a line of text", answers=reply.calls[0].id)
            request = replace(request, messages=(*request.messages, said, result))
        assert server.problems == []
    assert shares[0] == 0 and min(shares[1:]) > 0.9


def test_structured_output_is_asked_for_without_what_the_api_refuses(tmp_path: Path) -> None:
    with AnthropicServer(['{"names": ["a.md"]}']) as server:
        assert open_at(server.url, SPEC, tmp_path)(ask(schema=SCHEMA)).text == '{"names": ["a.md"]}'
        asked = server.requests[0].body["output_config"]["format"]
        assert server.problems == []
    assert asked["type"] == "json_schema" and "maxItems" not in str(asked) and "names" in asked["schema"]["properties"]


def test_an_endpoint_without_structured_output_is_asked_once_more_and_remembered(tmp_path: Path) -> None:
    with AnthropicServer(["{}", "{}"]) as server:
        # A schema that the strict server refuses stands for an endpoint that refuses the parameter.
        recursive = {"type": "object", "properties": {"x": {"$ref": "#"}}}
        model = open_at(server.url, SPEC, tmp_path)
        assert model(ask(schema=recursive)).text == "{}" and model(ask(schema=recursive)).text == "{}"
        assert ["output_config" in request.body for request in server.requests] == [True, False, False]


def test_thinking_that_leaves_no_room_is_given_more(tmp_path: Path) -> None:
    with AnthropicServer([[Think("thought " * 400), Say("No.")], [Think("thought " * 400), Say("Yes.")]]) as server:
        reply = open_at(server.url, SPEC, tmp_path)(ask(max_tokens=100))
        assert [request.body["max_tokens"] for request in server.requests] == [100, 4196]
    assert reply.text == "Yes." and reply.usage.output > 100
    assert rows(tmp_path)[0].usage.output == reply.usage.output


def test_a_fork_sends_the_parent_unchanged_and_reads_it_from_the_cache(tmp_path: Path) -> None:
    parent = make_parent()
    before = copy.deepcopy(parent)
    with AnthropicServer(["That was all.", "Saved."]) as server:
        anthropic.Anthropic(api_key="host", base_url=server.url).messages.create(**{**parent, "stream": False})
        reply = open_at(server.url, SPEC, tmp_path)(fork(parent, purpose="extract"))
        body = server.requests[1].body
        assert server.problems == []
    assert parent == before
    assert {key: body[key] for key in ("model", "system", "tools", "metadata")} == {
        key: parent[key] for key in ("model", "system", "tools", "metadata")
    }
    assert body["messages"][: len(parent["messages"])] == parent["messages"]
    assert count_marks(body) == count_marks(parent) + 1 == 3
    assert body["max_tokens"] == 1000
    assert reply.usage.cached / reply.usage.input >= 0.95
    row = rows(tmp_path)[-1]
    assert (row.purpose, row.model) == ("extract", "anthropic:claude-host-model")


def test_a_parent_with_all_its_breakpoints_gets_no_other(tmp_path: Path) -> None:
    parent = make_parent(2)
    parent["tools"][0]["cache_control"] = MARK
    parent["messages"][1]["content"][0]["cache_control"] = MARK
    assert count_marks(render_anthropic_body("x", fork(parent))) == 4
    automatic = {**make_parent(2), "cache_control": MARK}
    body = render_anthropic_body("x", fork(automatic))
    assert count_marks(body) == count_marks(automatic) == 3 and body["cache_control"] == MARK


def test_a_parent_that_thinks_keeps_its_budget_and_gets_room_above_it() -> None:
    parent = {**make_parent(1), "thinking": {"type": "enabled", "budget_tokens": 4000}}
    body = render_anthropic_body("x", fork(parent))
    assert body["thinking"] == parent["thinking"] and body["max_tokens"] == 5000


def test_a_schema_is_not_sent_with_a_parent_since_it_would_be_another_cache_key() -> None:
    assert "output_config" not in render_anthropic_body("x", fork(make_parent(1), schema=SCHEMA))


def test_a_parents_betas_and_sampling_go_out_as_its_host_would_send_them(tmp_path: Path) -> None:
    parent = {**make_parent(1), "betas": ["context-management-2025-06-27"], "temperature": 0.5}
    parent["context_management"] = {"edits": []}
    with AnthropicServer(["Yes."]) as server:
        assert open_at(server.url, SPEC, tmp_path)(fork(parent)).text == "Yes."
        assert server.problems == [] and server.requests[0].body["temperature"] == 0.5
        assert "betas" not in server.requests[0].body


@pytest.mark.parametrize("wrong", ROWS["a_parent_of_another_provider_is_refused"])
def test_a_parent_of_another_provider_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with AnthropicServer([]) as server:
        with pytest.raises(ModelError, match="the parent request is not valid for the Messages API"):
            open_at(server.url, SPEC, tmp_path)(fork(wrong))
        assert server.requests == []


def test_a_request_with_a_parent_has_no_system_prompt_or_tools_of_its_own(tmp_path: Path) -> None:
    with AnthropicServer([]) as server, pytest.raises(ModelError, match="cannot set a system prompt"):
        open_at(server.url, SPEC, tmp_path)(ask(parent=make_parent(1)))


def test_the_manifest_is_cached_and_the_query_is_not() -> None:
    sign = Signature(1, 1, 1, 1)
    headers = [Header(f"m{at}", f"M{at}", "About it", Kind.USER, Scope.PRIVATE, NOW, False, sign) for at in range(3)]
    body: Any = render_anthropic_body("x", make_select_request(Query("deploys?", now=NOW), headers, 5))
    manifest, query = body["messages"][0]["content"]
    assert "cache_control" in manifest and "cache_control" not in query and len(body["messages"]) == 1
    assert "cache_control" in body["system"][0]


def test_neighbours_of_one_role_are_one_message_and_empty_ones_are_none() -> None:
    messages = (Message("user", "a"), Message("user", "b"), Message("assistant", " "), Message("user", "c"))
    body: Any = render_anthropic_body("x", ask(messages=messages))
    assert [at["role"] for at in body["messages"]] == ["user"]
    assert [block["text"] for block in body["messages"][0]["content"]] == ["a", "b", "c"]


def test_a_message_of_another_provider_is_rendered_anew() -> None:
    raw = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    said = Message("assistant", "I look", calls=(ToolCall("1", "read", {"path": "x"}),), raw=raw)
    body: Any = render_anthropic_body("x", ask(messages=(Message("user", "a"), said, Message("tool", "", answers="1"))))
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text", "tool_use"]
    assert body["messages"][2]["content"][0]["content"] == "(nothing)"


@pytest.mark.parametrize("request_", [ask(max_tokens=0), ask(" "), ask(messages=())])
def test_what_cannot_be_asked_is_refused_before_anything_is_sent(tmp_path: Path, request_: Request) -> None:
    with AnthropicServer([]) as server, pytest.raises(ModelError):
        open_at(server.url, SPEC, tmp_path)(request_)
