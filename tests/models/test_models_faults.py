"""Whatever goes wrong at a provider becomes one clear error of ours, streamed or not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memdir.errors import ModelError, ReplyError, StoppedError, UnreachableError
from memdir.models.connection import REASONS, make_status_error, read_after
from memdir.models.open import absent
from memdir.records import StopReason
from memdir.text import find_json
from scripted_models import READ, ask, open_at, rows
from servers import AnthropicServer, Fault, FaultKind, OpenAIServer, refusing_url
from tables import read_rows, table

ROWS = read_rows("models_faults")
SHAPES = {"anthropic:claude-test": AnthropicServer, "openai:gpt-test": OpenAIServer}
# The fault, its reason, and whether another try may help.
EXPECTED: list[tuple[FaultKind, str, bool]] = ROWS["EXPECTED"]


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("kind", "reason", "passing"), EXPECTED)
def test_a_fault_has_its_reason_and_says_whether_to_try_again(
    tmp_path: Path, spec: str, streamed: bool, kind: FaultKind, reason: str, passing: bool
) -> None:
    heard: list[str] = []
    with SHAPES[spec]([Fault(kind)]) as server:
        model = open_at(server.url, spec, tmp_path)
        with pytest.raises(UnreachableError) as caught:
            model(ask(on_text=heard.append if streamed else None))
        assert server.problems == [] and len(server.requests) == 1
    error = caught.value
    assert (error.reason, error.is_transient) == (reason, passing), str(error)
    assert "\n" not in str(error) and error.hint and spec in str(error)
    assert "sk-test" not in str(error)
    assert [(row.outcome, row.purpose) for row in rows(tmp_path)] == [(reason, "test")]
    if kind == "rate":
        assert error.retry_after == 1.0
    if streamed and kind in ("reset", "truncated", "error_event"):
        assert heard and caught.value.usage is not None if spec.startswith("anthropic") else heard


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_is_not_json_cannot_be_used(tmp_path: Path, spec: str, streamed: bool) -> None:
    with SHAPES[spec]([Fault("bad_json")]) as server:
        model = open_at(server.url, spec, tmp_path)
        with pytest.raises(ReplyError, match="not return JSON"):
            model(ask(on_text=(lambda text: None) if streamed else None))
    assert [row.outcome for row in rows(tmp_path)] == ["unusable"]


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["stall", "stall_midway"])
def test_silence_ends_as_a_timeout(tmp_path: Path, spec: str, streamed: bool, kind: FaultKind) -> None:
    with SHAPES[spec]([Fault(kind)]) as server:
        model = open_at(server.url, spec, tmp_path, MEMDIR_MODEL_SECONDS="1")
        with pytest.raises(UnreachableError) as caught:
            model(ask(on_text=(lambda text: None) if streamed else None))
    assert caught.value.reason == "timeout" and caught.value.is_transient
    assert rows(tmp_path)[0].outcome == "timeout" and rows(tmp_path)[0].counted > 0


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["stall", "stall_midway"])
def test_a_cancelled_request_ends_at_once_and_the_provider_sees_it(
    tmp_path: Path, spec: str, streamed: bool, kind: FaultKind
) -> None:
    with SHAPES[spec]([Fault(kind)]) as server:
        model = open_at(server.url, spec, tmp_path, MEMDIR_MODEL_SECONDS="300")
        with pytest.raises(StoppedError, match="cancelled"):
            model(ask(cancelled=server.stalled.is_set, on_text=(lambda text: None) if streamed else None))
        server.close()
        assert server.dropped == 1
    assert rows(tmp_path)[0].outcome == "cancelled"


@pytest.mark.parametrize("spec", SHAPES)
def test_a_cancel_between_two_events_is_heard(tmp_path: Path, spec: str) -> None:
    enough = threading.Event()
    with SHAPES[spec](["A long answer " * 200]) as server, pytest.raises(StoppedError):
        open_at(server.url, spec, tmp_path)(
            ask(max_tokens=4000, on_text=lambda text: enough.set(), cancelled=enough.is_set)
        )


@contextmanager
def answering_once(data: bytes, sent: threading.Event, *, ends: bool) -> Iterator[str]:
    """The address of a server that answers one connection with these bytes; afterwards the client has gone."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            sent.set()
            while connection.recv(65_536):  # closed with something unread, it would take the answer back
                continue

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(120)
        assert not thread.is_alive()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_cancel_is_not_taken_for_the_end_of_an_answer_without_a_length(tmp_path: Path, streamed: bool) -> None:
    sent = threading.Event()
    event = b'event: message_start\ndata: {"type": "message_start", "message": {"usage": {"input_tokens": 7}}}\n\n'
    start = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n"
    with answering_once(start + (event if streamed else b'{"content": ['), sent, ends=False) as url:
        model = open_at(url, "anthropic:x", tmp_path)
        with pytest.raises(StoppedError):
            model(ask(cancelled=sent.is_set, on_text=(lambda text: None) if streamed else None))


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
def test_nobody_at_the_address_is_offline(tmp_path: Path, spec: str, streamed: bool) -> None:
    with refusing_url() as url, pytest.raises(UnreachableError) as caught:
        open_at(url, spec, tmp_path)(ask(on_text=(lambda text: None) if streamed else None))
    assert caught.value.reason == "offline" and caught.value.is_transient
    assert "refused" in str(caught.value)
    assert rows(tmp_path)[0].counted == 0


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_cut_by_the_limit_is_told_as_such(tmp_path: Path, spec: str, streamed: bool) -> None:
    with SHAPES[spec]([Fault("cut_call")]) as server:
        model = open_at(server.url, spec, tmp_path)
        reply = model(ask(tools=(READ,), on_text=(lambda text: None) if streamed else None))
        assert server.problems == []
    assert reply.stop is StopReason.LENGTH and reply.calls


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_that_declines_is_refused_not_failed(tmp_path: Path, spec: str, streamed: bool) -> None:
    with SHAPES[spec]([Fault("refusal"), Fault("empty")]) as server:
        model = open_at(server.url, spec, tmp_path)
        request = ask(on_text=(lambda text: None) if streamed else None)
        assert model(request).stop is StopReason.REFUSED
        assert model(request).text == ""


def test_a_page_in_place_of_an_endpoint_cannot_be_used(tmp_path: Path) -> None:
    with OpenAIServer([]) as server, pytest.raises(UnreachableError) as caught:
        open_at(server.url + "/nowhere", "openai:x", tmp_path)(ask())
    assert caught.value.reason == "missing"


@table("status body reason", ROWS["statuses_and_bodies_mean_one_reason"])
def test_statuses_and_bodies_mean_one_reason(status: int, body: object, reason: str) -> None:
    error = make_status_error("x:y", status, body)
    assert error.reason == reason and reason in REASONS and str(error)[:8] == REASONS[reason].format(label="x:y")[:8]


def test_a_key_in_the_providers_words_is_masked() -> None:
    error = make_status_error("openai:x", 401, {"message": "Incorrect API key provided: sk-proj-abcdef***wxyz."})
    assert "abcdef" not in str(error) and "Incorrect API key provided" in str(error)


def test_the_wait_a_provider_asks_for_is_read_in_each_of_its_forms() -> None:
    assert read_after({"retry-after": "7"}) == 7.0
    assert read_after({"retry-after-ms": "1500", "retry-after": "7"}) == 1.5
    assert read_after({"retry-after": "soon"}) is None and read_after({}) is None


def test_without_a_model_the_error_says_how_to_choose_one() -> None:
    with pytest.raises(ModelError) as caught:
        absent(ask())
    assert "config set model" in caught.value.hint


@pytest.mark.parametrize("spec", SHAPES)
@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_is_nested_without_end_cannot_be_used(tmp_path: Path, spec: str, streamed: bool) -> None:
    deep = b"[" * 100_000
    kind = b"text/event-stream" if streamed else b"application/json"
    data = b"event: message_start\ndata: " + deep + b"\n\n" if streamed else deep
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: " + kind + b"\r\n\r\n"
    answering = answering_once(head + data, threading.Event(), ends=True)
    with answering as url, pytest.raises(ReplyError, match="not return JSON"):
        open_at(url, spec, tmp_path)(ask(on_text=(lambda text: None) if streamed else None))


@pytest.mark.parametrize("spec", SHAPES)
def test_half_a_character_is_not_sent_and_not_counted(tmp_path: Path, spec: str) -> None:
    with SHAPES[spec]([]) as server:
        with pytest.raises(ModelError, match="invalid Unicode"):
            open_at(server.url, spec, tmp_path)(ask("a\ud800b"))
        assert server.requests == []
    assert rows(tmp_path)[0].counted == 0


def test_brackets_without_end_are_given_up_at_once() -> None:
    assert list(find_json("[" * 200_000)) == []  # begun again at each of them, it would take minutes
