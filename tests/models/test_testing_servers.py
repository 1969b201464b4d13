"""The providers' own clients against the loopback servers: answers, streams, tool loops, and every fault."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from claude_client import make_client
from servers import (
    FAULTS,
    Answer,
    AnthropicServer,
    Call,
    Fault,
    FaultKind,
    OpenAIServer,
    Part,
    Say,
    Think,
    refusing_url,
    sign_thinking,
)
from servers.loopback import Loopback
from tables import table
from wire import MESSAGES_HEAD, post, send

# Loaded by name: without the extras these tests are skipped, and with them nothing is checked against their types.
anthropic: Any = pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
openai: Any = pytest.importorskip("openai", reason="the extra `openai` is not installed")
httpx: Any = pytest.importorskip("httpx2")

READ = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
HELLO = [{"role": "user", "content": "hello"}]


@contextmanager
def claude(server: AnthropicServer, **options: Any) -> Iterator[Any]:
    with anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0, **options) as client:
        yield client


@contextmanager
def gpt(server: OpenAIServer, **options: Any) -> Iterator[Any]:
    with openai.OpenAI(api_key="k", base_url=server.url, max_retries=0, **options) as client:
        yield client


def ask(client: Any, *, stream: bool = False, messages: Any = HELLO, max_tokens: int = 100, **fields: Any) -> Any:
    asked = {"model": "claude-opus-4-8", "max_tokens": max_tokens, "messages": messages, **fields}
    if not stream:
        return client.messages.create(**asked)
    with client.messages.stream(**asked) as events:
        return events.get_final_message()


def complete(client: Any, *, stream: bool = False, messages: Any = HELLO, **fields: Any) -> Any:
    """The choice of a completion; of a streamed one, put together as a client does."""
    asked = {"model": "gpt-4.1", "messages": messages, **fields}
    if not stream:
        return client.chat.completions.create(**asked).choices[0]
    with client.chat.completions.stream(**asked) as events:
        return events.get_final_completion().choices[0]


# --- answers --------------------------------------------------------------------------------------------------------

THOUGHT = Think("The user wants to know. " * 5)
WORDS = Say("I look — first at ä, then at 漢字. " * 3)
CALL = Call("read", {"path": "a.md", "lines": [1, 2], "note": 'quotes " and \\ and é'})
LONG: list[Part] = [THOUGHT, WORDS, CALL, Call("read", {}, "toolu_mine")]


@table("stream", [False, True])
def test_text_thoughts_and_calls_arrive_as_they_were_scripted(stream: bool) -> None:
    with AnthropicServer([LONG]) as server, claude(server) as client:
        message = ask(client, stream=stream, tools=[READ], max_tokens=1000)
    thought, words, first, second = message.content
    assert (thought.thinking, thought.signature) == (THOUGHT.text, sign_thinking(THOUGHT.text))
    assert words.text == WORDS.text and first.input == CALL.input
    assert second.id == "toolu_mine" and second.input == {} and first.id != second.id
    assert message.stop_reason == "tool_use" and message.usage.output_tokens > 40
    assert server.problems == [] and server.requests[0].body["max_tokens"] == 1000
    assert server.requests[0].headers["authorization"] == "Bearer k"


@table("stream", [False, True])
def test_a_completion_arrives_as_it_was_scripted(stream: bool) -> None:
    with OpenAIServer([LONG]) as server, gpt(server) as client:
        choice = complete(client, stream=stream, tools=[FUNCTION])
    first, second = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and choice.message.content == WORDS.text
    assert json.loads(first.function.arguments) == CALL.input
    assert (second.id, second.function.arguments) == ("toolu_mine", "{}") and server.problems == []


def test_a_stream_has_every_event_in_its_order() -> None:
    with AnthropicServer([[Think("a"), Say("b" * 30), Call("read", {"c": 1})]]) as server:
        body = {"model": "m", "max_tokens": 99, "messages": HELLO, "stream": True}
        _, data = send("POST", f"{server.url}/v1/messages", json.dumps(body).encode(), MESSAGES_HEAD)
    events = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]
    names = [line[7:] for line in data.decode().splitlines() if line.startswith("event: ")]
    assert names == [event["type"] for event in events]
    deltas = [event["delta"]["type"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == ["thinking_delta", "signature_delta", "text_delta", "text_delta", "input_json_delta"]
    assert names[:2] == ["message_start", "ping"] and names[-2:] == ["message_delta", "message_stop"]
    assert names.count("content_block_start") == names.count("content_block_stop") == 3
    assert events[0]["message"]["content"] == [] and events[-2]["delta"]["stop_reason"] == "tool_use"


def test_the_usage_of_a_streamed_completion_comes_last_and_only_if_asked_for() -> None:
    with OpenAIServer(["hello there", "hello there"]) as server, gpt(server) as client:
        asked = {"model": "m", "messages": HELLO, "stream": True}
        silent = list(client.chat.completions.create(**asked))
        told = list(client.chat.completions.create(**asked, stream_options={"include_usage": True}))
    assert silent[-1].choices[0].finish_reason == "stop" and all(chunk.usage is None for chunk in silent)
    assert told[-1].choices == [] and told[-1].usage.completion_tokens > 0 and told[-2].usage is None


def test_a_tool_loop_goes_round_and_round() -> None:
    script: list[Answer] = [[Think("first"), Call("read")], [Think("then"), Call("read")], "done"]
    messages: list[Any] = list(HELLO)
    with AnthropicServer(script) as server, claude(server) as client:
        while True:
            message = ask(client, messages=messages, tools=[READ], thinking={"type": "adaptive"})
            if message.stop_reason != "tool_use":
                break
            call = message.content[-1]
            messages.append({"role": "assistant", "content": message.content})
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "a"}
            messages.append({"role": "user", "content": [result]})
    assert message.content[0].text == "done" and len(server.requests) == 3 and server.problems == []


@table("damage", ["left out", "changed", "put last"])
def test_a_thought_that_does_not_come_back_as_it_was_is_refused(damage: str) -> None:
    with AnthropicServer([[Think("first"), Call("read")]]) as server, claude(server) as client:
        message = ask(client, tools=[READ], thinking={"type": "adaptive"})
        thought, call = (block.model_dump(exclude_none=True) for block in message.content)
        changed = {**thought, "thinking": "other", "signature": sign_thinking("other")}
        content = {"left out": [call], "changed": [changed, call], "put last": [thought, thought, call]}[damage]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "a"}
        later = [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
            ask(client, messages=[*HELLO, *later], tools=[READ], thinking={"type": "adaptive"})


@table("stream", [False, True])
def test_an_answer_beyond_the_limit_is_cut(stream: bool) -> None:
    words = "one two three four five six seven eight nine ten"
    script: list[Answer] = [words, [Say("ab"), Call("read", {"path": "abcdef"})]]
    with AnthropicServer(script, count=len) as server, claude(server) as client:
        message = ask(client, stream=stream, max_tokens=13)
        assert (message.stop_reason, message.content[0].text) == ("max_tokens", "one two three")
        assert message.usage.output_tokens == 13
        assert ask(client, stream=stream, max_tokens=20).content[1].input in ({}, {"path": ""}, {"path": "abcd"})
    with OpenAIServer([words], count=len) as chat, gpt(chat) as client:
        asked = {"model": "m", "messages": HELLO, "max_tokens": 13, "stream": stream}
        done = client.chat.completions.create(**asked)
        last = list(done)[-1] if stream else done
        assert last.choices[0].finish_reason == "length"


def test_output_by_a_schema_is_parsed_by_the_client() -> None:
    pydantic = pytest.importorskip("pydantic")
    kind = pydantic.create_model("Found", name=(str, ...), tags=(list[str], ...))
    with AnthropicServer(['{"name": "a", "tags": ["b"]}']) as server, claude(server) as client:
        parsed = client.messages.parse(model="m", max_tokens=50, messages=HELLO, output_format=kind)
        assert parsed.parsed_output.tags == ["b"] and server.problems == []
    with OpenAIServer(['{"name": "a", "tags": ["b"]}']) as chat, gpt(chat) as client:
        done = client.chat.completions.parse(model="m", messages=HELLO, response_format=kind)
        assert done.choices[0].message.parsed.name == "a" and chat.problems == []


def test_tokens_are_counted_as_the_answer_counts_them() -> None:
    with AnthropicServer(["ok"]) as server, claude(server) as client:
        counted = client.messages.count_tokens(model="m", messages=HELLO, system="Be brief.", tools=[READ])
        usage = ask(client, system="Be brief.", tools=[READ]).usage
        assert counted.input_tokens == usage.input_tokens > 5


def test_the_beta_door_of_the_client_and_its_memory_tool_are_let_in() -> None:
    with (
        AnthropicServer([Call("memory", {"command": "view", "path": "/memories"})]) as server,
        claude(server) as client,
    ):
        message = client.beta.messages.create(
            model="m",
            max_tokens=100,
            messages=HELLO,
            tools=[{"type": "memory_20250818", "name": "memory"}],
            betas=["context-management-2025-06-27"],
            context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        )
    assert message.content[0].name == "memory" and server.requests[0].headers["anthropic-beta"]
    assert server.problems == []


def test_a_script_can_be_a_function_of_the_request() -> None:
    with AnthropicServer(lambda body: Say(body["messages"][-1]["content"].upper())) as server, claude(server) as client:
        assert [ask(client, messages=[{"role": "user", "content": word}]).content[0].text for word in "ab"] == [
            "A",
            "B",
        ]


def test_a_script_that_ends_too_early_is_told_to_both_sides() -> None:
    with AnthropicServer(["one"]) as server, claude(server) as client:
        ask(client)
        with pytest.raises(anthropic.BadRequestError, match="no answer"):
            ask(client)
    assert server.problems == ["request 2: the script has no answer for it"]


def test_a_refused_request_uses_up_no_answer() -> None:
    with AnthropicServer(["one"]) as server, claude(server) as client:
        with pytest.raises(anthropic.BadRequestError):
            ask(client, messages=[])
        assert ask(client).content[0].text == "one"


@table("script", [[7], [[Say("a"), 7]], [Fault("explosion")], [None]])  # type: ignore[arg-type]
def test_a_slip_in_a_script_is_seen_before_anybody_asks(script: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        AnthropicServer(script)


def test_what_a_scripts_function_raises_is_a_problem() -> None:
    def fail(body: Any) -> str:
        raise LookupError("no such turn")

    with AnthropicServer(fail) as server, claude(server) as client, pytest.raises(anthropic.APIConnectionError):
        ask(client)
    assert server.problems == ["the script raised LookupError: no such turn"]


def test_many_clients_at_once_are_all_answered() -> None:
    with AnthropicServer(lambda body: body["messages"][0]["content"]) as server:
        answers: list[str] = []

        def work(word: str) -> None:
            body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": word}]}
            answers.append(post(f"{server.url}/v1/messages", body, MESSAGES_HEAD)[1]["content"][0]["text"])

        threads = [threading.Thread(target=work, args=(f"word{at}",)) for at in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == sorted(f"word{at}" for at in range(20)) and len(server.requests) == 20


def test_when_a_server_is_closed_its_port_is_free_and_its_threads_are_gone() -> None:
    before = threading.active_count()
    with AnthropicServer(["a"]) as server, claude(server) as client:
        ask(client)
        server.close()
        with pytest.raises(anthropic.APIConnectionError):
            ask(client)
    assert threading.active_count() == before
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", int(server.url.rpartition(":")[2])))


def test_a_server_that_was_never_entered_can_be_closed() -> None:
    OpenAIServer([]).close()


# --- faults ---------------------------------------------------------------------------------------------------------

# What the client raises, not streamed and streamed; a string is why it stopped instead.
CLAUDE: dict[FaultKind, tuple[Any, Any]] = {
    "auth": (anthropic.AuthenticationError,) * 2,
    "billing": (anthropic.APIStatusError,) * 2,
    "permission": (anthropic.PermissionDeniedError,) * 2,
    "rate": (anthropic.RateLimitError,) * 2,
    "spending": (anthropic.RateLimitError,) * 2,
    "usage_limit": (anthropic.BadRequestError,) * 2,
    "server": (anthropic.InternalServerError,) * 2,
    "overloaded": (anthropic.InternalServerError,) * 2,
    "stall": (anthropic.APITimeoutError,) * 2,
    "stall_midway": (anthropic.APITimeoutError, (httpx.ReadTimeout, anthropic.APITimeoutError)),  # by where it waits
    "reset": (anthropic.APIConnectionError, httpx.ReadError),
    "truncated": (anthropic.APIConnectionError, "None"),
    "bad_json": (ValueError, ValueError),
    "error_event": (anthropic.InternalServerError, anthropic.APIStatusError),
    "cut_call": ("max_tokens",) * 2,
    "unknown_tool": ("tool_use",) * 2,
    "empty": ("end_turn",) * 2,
    "refusal": ("refusal",) * 2,
}
GPT: dict[FaultKind, tuple[Any, Any]] = {
    "auth": (openai.AuthenticationError,) * 2,
    "billing": (openai.RateLimitError,) * 2,
    "permission": (openai.PermissionDeniedError,) * 2,
    "rate": (openai.RateLimitError,) * 2,
    "spending": (openai.RateLimitError,) * 2,
    "usage_limit": (openai.RateLimitError,) * 2,
    "server": (openai.InternalServerError,) * 2,
    "overloaded": (openai.InternalServerError,) * 2,
    "stall": (openai.APITimeoutError,) * 2,
    "stall_midway": (openai.APITimeoutError, openai.APITimeoutError),
    "reset": (openai.APIConnectionError, openai.APIConnectionError),
    "truncated": (openai.APIConnectionError, "None"),
    "bad_json": (ValueError, ValueError),
    "error_event": (openai.InternalServerError, openai.APIError),
    "cut_call": ("length",) * 2,
    "unknown_tool": ("tool_calls",) * 2,
    "empty": ("stop",) * 2,
    "refusal": ("stop",) * 2,
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_reaches_the_messages_client_as_what_it_is(kind: FaultKind, stream: bool) -> None:
    expected = CLAUDE[kind][stream]
    with AnthropicServer([Fault(kind)]) as server, claude(server, timeout=1.0 if "stall" in kind else 20) as client:
        if isinstance(expected, str):
            message = ask(client, stream=stream, tools=[READ])
            assert str(message.stop_reason) == expected
        else:
            with pytest.raises(expected) as raised:
                ask(client, stream=stream, tools=[READ])
            if kind == "rate":
                assert raised.value.response.headers["retry-after"] == "1"
            if kind == "spending":
                assert raised.value.error_code == "enforced_spend_limit_reached"
                assert "retry-after" not in raised.value.response.headers
            if kind == "billing":
                assert (raised.value.status_code, raised.value.type) == (402, "billing_error")
    assert server.problems == [] and len(server.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_reaches_the_completions_client_as_what_it_is(kind: FaultKind, stream: bool) -> None:
    expected = GPT[kind][stream]

    def go(client: Any) -> Any:
        done = client.chat.completions.create(model="m", messages=HELLO, tools=[FUNCTION], stream=stream)
        return list(done)[-1] if stream else done

    with OpenAIServer([Fault(kind)]) as server, gpt(server, timeout=1.0 if "stall" in kind else 20) as client:
        if isinstance(expected, str):
            assert str(go(client).choices[0].finish_reason) == expected
        else:
            with pytest.raises(expected) as raised:
                go(client)
            if kind == "spending":
                assert raised.value.code == "insufficient_quota" and raised.value.status_code == 429
    assert server.problems == [] and len(server.requests) == 1


def test_a_cut_call_has_half_of_its_input() -> None:
    call = Call("read", {"path": "a/long/path/to/some/file.md"})
    with AnthropicServer([Fault("cut_call", call)] * 2) as server, claude(server) as client:
        assert ask(client, tools=[READ]).content[0].input == {}
        parts = [
            event.delta.partial_json
            for event in client.messages.create(model="m", max_tokens=9, messages=HELLO, tools=[READ], stream=True)
            if event.type == "content_block_delta"
        ]
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads("".join(parts))
    with OpenAIServer([Fault("cut_call", call)]) as chat, gpt(chat) as client:
        (cut,) = complete(client, tools=[FUNCTION]).message.tool_calls
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(cut.function.arguments)


def test_a_stream_can_break_as_late_as_before_its_last_event() -> None:
    with AnthropicServer([Fault("truncated", "all of it", at=1.0)]) as server, claude(server) as client:
        events = list(client.messages.create(model="m", max_tokens=9, messages=HELLO, stream=True))
    assert events[-1].type == "message_delta" and events[-1].delta.stop_reason == "end_turn"


@table("kind", ["stall", "stall_midway"])
def test_a_stalled_answer_goes_on_when_it_is_released(kind: FaultKind) -> None:
    said: list[str] = []

    def work() -> None:
        with claude(server) as client:
            said.append(ask(client, stream=True).content[0].text)

    with AnthropicServer([Fault(kind, "slow and steady wins the race, they say")]) as server:
        thread = threading.Thread(target=work)
        thread.start()
        assert server.stalled.wait(20) and said == []
        server.release()
        thread.join()
    assert said == ["slow and steady wins the race, they say"] and server.dropped == 0


def test_a_client_that_leaves_a_stalled_stream_is_noticed() -> None:
    with AnthropicServer([Fault("stall_midway"), "ok"]) as server, claude(server) as client:
        stream = client.messages.create(model="m", max_tokens=50, messages=HELLO, stream=True)
        assert next(iter(stream)).type == "message_start"
        stream.close()
        assert ask(client).content[0].text == "ok"
    assert server.dropped == 1


def test_leaving_a_server_ends_what_stalls() -> None:
    failed: list[str] = []

    def work() -> None:
        with claude(server) as client:
            try:
                ask(client)
            except anthropic.APIConnectionError as error:
                failed.append(type(error).__name__)

    with AnthropicServer([Fault("stall")]) as server:
        thread = threading.Thread(target=work)
        thread.start()
        assert server.stalled.wait(20)
    thread.join()
    assert failed == ["APIConnectionError"]


def test_a_closed_port_refuses() -> None:
    with refusing_url() as url, anthropic.Anthropic(api_key="k", base_url=url, max_retries=0) as client:
        with pytest.raises(anthropic.APIConnectionError) as raised:
            ask(client)
        assert isinstance(raised.value.__cause__, httpx.ConnectError)


def test_the_client_tries_again_by_itself_after_a_passing_fault() -> None:
    with AnthropicServer([Fault("overloaded"), Fault("reset"), "at last"]) as server, claude(server) as client:
        assert ask(client.with_options(max_retries=2)).content[0].text == "at last"
    assert len(server.requests) == 3


def test_a_loopback_alone_knows_no_protocol() -> None:
    with Loopback() as server, pytest.raises(OSError):
        send("GET", server.url + "/")
    assert server.problems == ["the script raised NotImplementedError: "]


# --- a whole agent --------------------------------------------------------------------------------------------------


def test_the_real_claude_code_client_breaks_no_rule(tmp_path: Path) -> None:
    look: list[Part] = [
        Think("I look first."),
        Say("I look."),
        Call("Read", {"file_path": str(tmp_path / "project" / "nowhere.md")}),
    ]
    with AnthropicServer([look, "There is no such file.", "Hello again."]) as server:
        client = make_client(tmp_path, server.url)
        assert client("What is in nowhere.md?").out == "There is no such file."
        assert client("hello", "--continue").out == "Hello again."
    assert server.problems == [] and len(server.requests) == 3 and set(server.others) <= {"HEAD /"}
    first, second = server.usages[:2]
    assert second["cache_read_input_tokens"] == first["cache_creation_input_tokens"] > 5000
