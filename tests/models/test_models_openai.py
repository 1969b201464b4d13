"""The chat completions shape through the real SDK: the vendor's endpoint, any other, and ollama."""

import copy
from pathlib import Path
from typing import Any

import openai
import pytest

from memdir.errors import ModelError, UnreachableError
from memdir.frozen import replace
from memdir.models.openai import (
    OTHER_LIMIT,
    PLAIN,
    OpenAIStream,
    read_openai_reply,
    render_openai_body,
    render_openai_messages,
)
from memdir.records import Message, Request, StopReason, ToolCall
from scripted_models import READ, SCHEMA, ask, open_at, rows, same
from servers import Call, OpenAIServer, Part, Say, Think
from tables import read_rows, table

ROWS = read_rows("models_openai")
SPEC = "openai:gpt-4.1"


def make_parent() -> dict[str, Any]:
    said = [
        {"role": "user", "content": "Question: " + "how does it work? " * 300},
        {"role": "assistant", "content": "Answer. " * 200},
        {"role": "user", "content": "And?"},
    ]
    return {
        "model": "host-model",
        "messages": [{"role": "system", "content": "You are a coding agent. " * 60}, *said],
        "tools": [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}],
        "max_completion_tokens": 5000,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.2,
    }


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_comes_back_with_text_and_usage(tmp_path: Path, streamed: bool) -> None:
    heard: list[str] = []
    with OpenAIServer([[Think("hm"), Say("Nothing is known yet.")]]) as server:
        reply = open_at(server.url, SPEC, tmp_path)(ask(on_text=heard.append if streamed else None))
        assert server.problems == []
    assert reply.text == "Nothing is known yet." and reply.stop is StopReason.DONE
    assert reply.usage.input > 0 and reply.usage.output > 0 and reply.usage.dollars
    assert "".join(heard) == (reply.text if streamed else "")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_with_tools_goes_back_and_forth(tmp_path: Path, streamed: bool) -> None:
    calls: list[Part] = [Say("I look."), Call("read", {"path": "a.md"}), Call("read", {"path": "b.md"})]
    with OpenAIServer([calls, "Done."]) as server:
        model = open_at(server.url, SPEC, tmp_path)
        first = ask(tools=(READ,), on_text=(lambda text: None) if streamed else None)
        reply = model(first)
        assert reply.stop is StopReason.CALLS and [call.input["path"] for call in reply.calls] == ["a.md", "b.md"]
        said = Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)
        results = tuple(Message("tool", "text", answers=call.id, failed=True) for call in reply.calls)
        assert model(replace(first, messages=(*first.messages, said, *results))).text == "Done."
        assert server.problems == []
        body = server.requests[1].body
    assert [at["role"] for at in body["messages"]] == ["system", "user", "assistant", "tool", "tool"]
    assert same(body["messages"][2], reply.raw)


def test_structured_output_is_asked_for(tmp_path: Path) -> None:
    with OpenAIServer(['{"names": []}']) as server:
        assert open_at(server.url, SPEC, tmp_path)(ask(schema=SCHEMA)).text == '{"names": []}'
        asked = server.requests[0].body["response_format"]
        assert server.problems == []
    assert asked["type"] == "json_schema" and asked["json_schema"]["strict"] is True


def test_a_schema_with_optional_properties_is_sent_as_guidance(tmp_path: Path) -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}
    loose = {"type": "object", "properties": {"all": {"type": "array", "items": inner}}, "required": ["all"]}
    with OpenAIServer(["{}"]) as server:
        open_at(server.url, SPEC, tmp_path)(ask(schema=loose))
        assert server.problems == []
        assert server.requests[0].body["response_format"]["json_schema"]["strict"] is False


def test_a_fork_sends_the_parent_unchanged_and_reads_it_from_the_cache(tmp_path: Path) -> None:
    parent = make_parent()
    before = copy.deepcopy(parent)
    with OpenAIServer(["That was all.", "Saved."]) as server:
        model = open_at(server.url, SPEC, tmp_path)
        list(openai.OpenAI(api_key="host", base_url=server.url).chat.completions.create(**parent))
        task = (Message("assistant", "That was all."), Message("user", "Now save what is worth it."))
        reply = model(Request("", task, 1000, parent=parent))
        body = server.requests[1].body
        assert server.problems == []
    assert parent == before and body["messages"][:4] == parent["messages"] and body["tools"] == parent["tools"]
    assert body["model"] == "host-model" and body["temperature"] == 0.2 and "stream" not in body
    assert reply.usage.cached / reply.usage.input > 0.9


@pytest.mark.parametrize("wrong", ROWS["a_parent_of_another_provider_is_refused"])
def test_a_parent_of_another_provider_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with OpenAIServer([]) as server, pytest.raises(ModelError, match="the parent request is not valid for the chat"):
        open_at(server.url, SPEC, tmp_path)(Request("", (Message("user", "x"),), 10, parent=wrong))


def test_ollama_is_the_same_shape_on_this_machine_and_free(tmp_path: Path) -> None:
    with OpenAIServer(['{"names": []}', "Yes."], ollama=True) as server:
        host = server.url.removeprefix("http://").removesuffix("/v1")
        model = open_at("", "ollama:qwen3:8b", tmp_path, OLLAMA_HOST=host)
        reply = model(ask(schema=SCHEMA))
        assert open_at(server.url, "ollama:qwen3:8b", tmp_path)(ask()).text == "Yes."
        body = server.requests[0].body
        assert server.problems == []
    assert body["model"] == "qwen3:8b" and body["max_tokens"] == 200 and "response_format" in body
    assert reply.usage.dollars == 0.0


def test_a_parameter_that_an_endpoint_refuses_by_name_is_not_sent_to_it_again(tmp_path: Path) -> None:
    with OpenAIServer(["One.", "Two."]) as server:
        model = open_at(server.url, "openai:gpt-5", tmp_path)
        assert [model(ask()).text, model(ask()).text] == ["One.", "Two."]
        assert ["max_tokens" in request.body for request in server.requests] == [True, False, False]
    assert len(rows(tmp_path)) == 2


def test_the_limit_has_the_name_that_the_endpoint_knows() -> None:
    assert "max_completion_tokens" in render_openai_body("x", ask(), is_vendor=True)
    assert "max_tokens" in render_openai_body("x", ask())
    assert "max_tokens" in render_openai_body("x", ask(), frozenset({OTHER_LIMIT}), is_vendor=True)
    assert "response_format" not in render_openai_body("x", ask(schema=SCHEMA), frozenset({PLAIN}))


def test_a_message_of_another_provider_is_rendered_anew() -> None:
    raw = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "read", "input": {}}]}
    said = Message("assistant", "", calls=(ToolCall("1", "read", {"path": "é"}),), raw=raw)
    body: Any = render_openai_body("x", ask(messages=(Message("user", "a"), said)))
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "é"}'}


def make_chunk(*calls: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": list(calls)}, "finish_reason": finish}]}


def make_call(id: str, name: str, arguments: object, **more: object) -> dict[str, Any]:
    return {"id": id, "function": {"name": name, "arguments": arguments}, **more}


@table("more", [{"index": 0}, {}])
def test_calls_that_share_an_index_are_told_apart_by_their_ids(more: dict[str, object]) -> None:
    gathering = OpenAIStream()
    for id, path in (("c1", "a"), ("c2", "b")):
        gathering.add(make_chunk(make_call(id, "read", '{"path": ', **more)))
        gathering.add(make_chunk(make_call("", "", f'"{path}"}}', **more)))
    gathering.add(make_chunk(finish="tool_calls"))
    calls = read_openai_reply(gathering.answer(), "x")[0].calls
    assert calls == (ToolCall("c1", "read", {"path": "a"}), ToolCall("c2", "read", {"path": "b"}))


def test_a_name_that_comes_with_every_piece_is_one_name() -> None:
    gathering = OpenAIStream()
    gathering.add(make_chunk(make_call("c1", "read", '{"path": ', index=0)))
    gathering.add(make_chunk(make_call("c1", "read", '"a"}', index=0), finish="tool_calls"))
    assert read_openai_reply(gathering.answer(), "x")[0].calls == (ToolCall("c1", "read", {"path": "a"}),)


def test_calls_without_ids_are_given_some_that_go_back_with_them() -> None:
    made = [make_call("", "read", {"path": "a"}), make_call("", "read", {"path": "b"})]
    answer = {"choices": [{"message": {"tool_calls": made}, "finish_reason": "tool_calls"}]}
    reply = read_openai_reply(answer, "x")[0]
    assert len({call.id for call in reply.calls} - {""}) == 2
    (back,) = render_openai_messages([Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)])
    assert isinstance(back, dict) and [at["id"] for at in back["tool_calls"]] == [call.id for call in reply.calls]


@table("answer reason", ROWS["an_error_with_the_status_of_success_is_an_error"])
def test_an_error_with_the_status_of_success_is_an_error(answer: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        read_openai_reply(answer, "openai:x")
    assert caught.value.reason == reason and caught.value.is_transient
