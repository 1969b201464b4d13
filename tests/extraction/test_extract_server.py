"""Extraction through the real SDKs against the strict servers: the cache, and a provider's faults at every stage."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest

from extraction_talks import DEPLOYS, NOW, make_parent, make_talk, name_file
from memdir.extraction import ConversationSource, ExtractResult, ExtractSkip, extract
from memdir.extraction.turns import EndedTurn, extract_turn
from memdir.models.open import OpenModel
from memdir.records import Model
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile
from memdir.store.state import read_runs
from memdir.testing import sample_memory
from opinions import with_reader
from scripted_models import open_at, rows
from servers import Answer, AnthropicServer, Call, Fault, FaultKind, OpenAIServer, refusing_url

OPERATIONS = json.dumps(
    {
        "operations": [
            {
                "action": "create",
                "name": "deploys",
                "type": "project",
                "title": "Deploys",
                "description": "We deploy on Tuesdays only",
                "body": "We deploy on Tuesdays only.",
                "why": "",
                "how": "",
                "evidence": "we deploy on Tuesdays only",
            }
        ]
    }
)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    found = FileStore(tmp_path / "home" / "memory", clock=lambda: NOW)
    found.write(sample_memory(name="terse"))
    return found


def names(store: FileStore) -> list[str]:
    return sorted(header.name for header in store.scan())


def send_as_host(url: str, parent: dict[str, Any]) -> None:
    """What the host itself asked before: everything but the answer it got."""
    client = anthropic.Anthropic(base_url=url, api_key="sk-test-1234567890", max_retries=0)
    asked: Any = {**parent, "messages": parent["messages"][:-1]}
    client.messages.create(**asked)


def test_a_fork_of_a_long_conversation_is_read_from_the_cache_in_three_requests(
    store: FileStore, tmp_path: Path
) -> None:
    talk = make_talk(turns=150)
    parent = dict(make_parent(talk, filler=3000))
    script: list[Answer] = [
        "Noted.",
        [Call("Read", {"file_path": name_file(store.root, "terse")})],
        [Call("Write", {"file_path": name_file(store.root, "deploys"), "content": DEPLOYS})],
        "done",
    ]
    with AnthropicServer(with_reader(script)) as server:
        send_as_host(server.url, parent)
        model = open_at(server.url, "anthropic:claude-sonnet-5", tmp_path)
        session = SessionFile(store.state, "s1")
        turn = EndedTurn(talk, conversation=ConversationSource("s1", parent=parent))
        done = extract_turn(store, session, turn, model=model, now=NOW)
        assert server.problems == []
        assert len(server.requests) == 1 + 3 + 1
    assert done.written == ("deploys",)
    assert done.ran is not None
    share = done.ran.first.cached / done.ran.first.input
    assert share >= 0.95, f"{share:.3f} of the first request came from the cache"
    for request in server.requests[1:4]:
        body = dict(request.body)
        assert body["system"] == parent["system"] and body["tools"] == parent["tools"]
        assert body["messages"][: len(parent["messages"])] == parent["messages"]
    row = read_runs(store.state)[0]
    assert row["requests"] == 4 and isinstance(row["cached_share"], float) and row["cached_share"] >= 0.95
    assert [entry.purpose for entry in rows(tmp_path)] == ["extract"] * 3 + ["second-opinion"]


KINDS: tuple[FaultKind, ...] = (
    "auth", "billing", "rate", "spending", "usage_limit", "server", "overloaded", "reset", "truncated", "bad_json",
    "cut_call", "empty", "refusal",
)  # fmt: skip
Run = Callable[[Model], ExtractResult]


def make_stages(store: FileStore) -> list[Answer]:
    return [
        [Call("Read", {"file_path": name_file(store.root, "terse")})],
        [Call("Write", {"file_path": name_file(store.root, "deploys"), "content": DEPLOYS})],
        "done",
    ]


@contextmanager
def forking(store: FileStore, tmp_path: Path, script: list[Answer]) -> Iterator[tuple[OpenModel, Run, AnthropicServer]]:
    talk = make_talk(turns=2)
    place = ConversationSource("s1", parent=make_parent(talk))
    with AnthropicServer(with_reader(script)) as server:
        model = open_at(server.url, "anthropic:claude-sonnet-5", tmp_path)
        yield model, lambda at: extract(store, talk, model=at, now=NOW, conversation=place), server


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_in_a_fork_writes_nothing_bad_and_the_next_run_picks_up(
    store: FileStore, tmp_path: Path, kind: FaultKind, stage: int
) -> None:
    stages = make_stages(store)
    answer = (
        stages[stage] if not isinstance(stages[stage], str) else [Call("Write", {"file_path": "x", "content": "y"})]
    )
    fault = Fault(kind, answer if kind == "cut_call" else "Half of", retry_after=0)  # type: ignore[arg-type]
    with forking(store, tmp_path, [*stages[:stage], fault]) as (model, run, _):
        failed = run(model)
    harmless = kind == "empty" or (kind == "truncated" and stage == 2 and failed.skipped is None)
    if harmless:
        # An answer without a word and without a call says that the run is over: nothing was lost by that.
        assert failed.cursor is not None
    else:
        assert (failed.skipped, failed.cursor) == (ExtractSkip.FAILED, None), failed
    kept = names(store)
    assert len(kept) == 2, "the person's request is kept all the same, once"
    with forking(store, tmp_path, ["done"]) as (model, run, _):
        done = run(model)
    assert done.cursor is not None or harmless
    assert names(store) == kept, "nothing is written twice"


@pytest.mark.parametrize("tool", ["Bash", "Nothing"])
def test_a_tool_that_does_not_work_here_is_told_and_the_run_goes_on(
    store: FileStore, tmp_path: Path, tool: str
) -> None:
    script: list[Answer] = [
        Fault("unknown_tool") if tool == "Nothing" else [Call("Bash", {"command": "rm -rf ~"})],
        [Call("Edit", {"file_path": name_file(store.root, "nothing"), "old_string": "a", "new_string": "b"})],
        *make_stages(store)[1:],
    ]
    with forking(store, tmp_path, script) as (model, run, server):
        done = run(model)
        assert server.problems == []
    assert done.written == ("deploys",) and done.ran is not None and done.ran.refused == 2


def test_a_model_that_never_ends_is_ended(store: FileStore, tmp_path: Path) -> None:
    count = iter(range(1000))

    def endless(body: dict[str, Any]) -> Answer:
        return [Call("Read", {"file_path": name_file(store.root, f"x{next(count)}")})]

    with AnthropicServer(endless) as server:
        model = open_at(server.url, "anthropic:claude-sonnet-5", tmp_path)
        place = ConversationSource("s1", parent=make_parent(make_talk()))
        done = extract(store, make_talk(), model=model, now=NOW, conversation=place)
        assert len(server.requests) == 5
    assert done.skipped is ExtractSkip.FAILED and len(names(store)) == 2


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("cut_call", "empty")])
def test_a_fault_of_the_one_request_is_no_different(store: FileStore, tmp_path: Path, kind: FaultKind) -> None:
    for spec, make in (("anthropic:claude-sonnet-5", AnthropicServer), ("openai:scripted", OpenAIServer)):
        script: list[Answer] = [Fault(kind, OPERATIONS, retry_after=0)] * 2
        with make(script) as server:
            model = open_at(server.url, spec, tmp_path)
            done = extract(store, make_talk(), model=model, now=NOW, conversation=ConversationSource("s1"))
        assert (done.skipped, done.cursor) == (ExtractSkip.FAILED, None), (spec, done)
        assert len(names(store)) == 2
    with OpenAIServer(with_reader([OPERATIONS])) as good:
        model = open_at(good.url, "openai:scripted", tmp_path)
        done = extract(store, make_talk(), model=model, now=NOW, conversation=ConversationSource("s1"))
        assert good.problems == []
    assert done.cursor is not None


def test_no_connection_is_no_loss(store: FileStore, tmp_path: Path) -> None:
    with refusing_url() as url:
        done = extract(store, make_talk(), model=open_at(url, "anthropic:claude-sonnet-5", tmp_path), now=NOW)
    assert done.skipped is ExtractSkip.FAILED and len(names(store)) == 2


def test_an_answer_that_never_comes_is_given_up(store: FileStore, tmp_path: Path) -> None:
    with AnthropicServer([Fault("stall")]) as server:
        model = open_at(server.url, "anthropic:claude-sonnet-5", tmp_path, MEMDIR_MODEL_SECONDS="1")
        done = extract(store, make_talk(), model=model, now=NOW)
        server.release()
    assert done.skipped is ExtractSkip.FAILED and len(names(store)) == 2


def test_a_spent_budget_is_a_failure_with_words(store: FileStore, tmp_path: Path) -> None:
    with AnthropicServer([OPERATIONS]) as server:
        model = open_at(server.url, "anthropic:claude-sonnet-5", tmp_path, MEMDIR_BUDGET_RUN_TOKENS="10")
        done = extract(store, make_talk(), model=model, now=NOW)
        assert server.requests == []
    assert done.skipped is ExtractSkip.FAILED and "10" in done.error and len(names(store)) == 2
