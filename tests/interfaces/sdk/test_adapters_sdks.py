"""The adapters for other people's agent SDKs, each through its SDK against the provider's protocol on loopback.

SDKs are imported inside: every worker of a parallel run reads this file, and they take seconds to load.
"""

import asyncio
import gc
import importlib.util
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from homes import make_repository, write
from loads import ROOT, scaled
from memdir.errors import hint_extra
from memdir.interfaces.sdk import SdkTools, make_missing
from memdir.interfaces.sdk.claude_agent import AgentMemory
from memdir.recall.pipeline import recall
from memdir.records import Draft, Kind, Message
from memdir.session import Session
from memdir.store.files import FileStore
from memdir.store.open import open_project, open_store
from servers import AnthropicServer, Call, OpenAIServer

REMEMBER = "Remember that we deploy on Tuesdays only, because support is fully staffed then"
ASK = "on which day do we deploy?"
DEPLOYS = Draft(Kind.PROJECT, "Deploys", "We deploy on Tuesdays only", "We deploy on Tuesdays only.", "deploys")
TOLD = "Memory (saved today)"
KEY = "sk-test-1234567890"


def flatten(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def load_example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


@pytest.fixture(scope="module", autouse=True)
def _is_warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first recall of a process loads a second's worth of rooms; no test here is about that."""
    store = open_store(tmp_path_factory.mktemp("warm") / "memory")
    store.write(DEPLOYS)
    assert recall(store, ASK).memories


def run_example(name: str, place: Path, lines: list[str], **variables: str) -> str:
    """What an example prints; at a tenth of the load it runs in this process, since an SDK takes seconds to import."""
    variables = {**variables, "HOME": str(place.parent)}
    if scaled(10) == 10:
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src"), **variables}
        command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), str(place)]
        done = subprocess.run(
            command, input="\n".join(lines), env=env, capture_output=True, encoding="utf-8", timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout
    example = load_example(name)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # SDKs leave connections to the collector, so it comes now
        for variable, value in variables.items():
            patch.setenv(variable, value)
        example.chat(place, lines)
        gc.collect()
    return out.getvalue()


def test_a_toolbox_on_a_store_alone_reads_nothing_of_the_environment(memory: Path, tmp_path: Path) -> None:
    store = open_store(memory)
    box = SdkTools(store, by="a test", session="s1")
    given = {"type": "project", "name": "deploys", "description": DEPLOYS.description, "body": DEPLOYS.body}
    assert json.loads(box.call("memory_save", given).text)["action"] == "created"
    assert json.loads(box.call("memory_list", "").text)["total"] == 1
    assert "Tuesdays" in box.call("memory_search", flatten({"query": ASK})).text
    [change] = store.changes()
    assert (change.origin.who, change.origin.why, change.origin.session) == ("agent", "by a test", "s1")
    for name, bad in (("memory_read", {"name": "none"}), ("memory_read", "no json"), ("dance", {}), ("memory_save", 7)):
        answer = box.call(name, bad)
        assert answer.refused and answer.text.endswith(".")
    assert sorted(at.name for at in tmp_path.iterdir()) == ["project"]
    assert sorted(at.name for at in memory.iterdir()) == [".memdir", "MEMORY.md", "deploys.md"]


def test_a_missing_sdk_is_said_with_the_extra_that_brings_it() -> None:
    missing = make_missing(ModuleNotFoundError("No module named 'x'", name="x"), "langgraph")
    assert str(missing) == f"this adapter needs x, which is not installed: {hint_extra('langgraph')}"
    own = ModuleNotFoundError("No module named 'memdir.x'", name="memdir.x")
    assert make_missing(own, "langgraph") is own
    code = (
        "import sys; sys.modules['langgraph.store.base'] = None\n"
        "try:\n    import memdir.interfaces.sdk.langgraph\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip().endswith("-m pip install 'langgraph<2,>=1.2.20'")


def test_the_example_of_the_memory_tool_writes_down_and_finds_again(tmp_path: Path) -> None:
    note = {"command": "create", "path": "/memories/deploys.txt", "file_text": "We deploy on Tuesdays only\n"}
    look = {"command": "view", "path": "/memories/deploys.txt"}
    with AnthropicServer([[Call("memory", note)], "Noted.", [Call("memory", look)], "On Tuesdays."]) as server:
        out = run_example(
            "memory_tool", tmp_path / "memory", [REMEMBER, ASK], ANTHROPIC_BASE_URL=server.url, ANTHROPIC_API_KEY=KEY
        )
        assert (out, server.problems) == ("Noted.\nOn Tuesdays.\n", [])
        assert "We deploy on Tuesdays only" in flatten(server.requests[-1].body["messages"][-1])
    assert [at.name for at in FileStore(tmp_path / "memory").scan()] == ["deploys__txt"]


def test_the_agents_session_knows_in_a_new_conversation_what_it_was_told(tmp_path: Path) -> None:
    script: list[Any] = ["Noted.", [Call("memory_search", {"query": ASK})], "On Tuesdays.", "You are welcome."]
    with OpenAIServer(script) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        assert run_example("agents_session", tmp_path / "agent", [REMEMBER], **env) == "Noted.\n"
        out = run_example("agents_session", tmp_path / "agent", [ASK, "Thank you"], **env)
        assert (out, server.problems) == ("On Tuesdays.\nYou are welcome.\n", [])
        first, second, third = (at.body["messages"] for at in server.requests[1:])
    assert [flatten(at).count(TOLD) for at in (first, second, third)] == [1, 1, 1], "told once, and kept in its place"
    assert second[: len(first)] == first and third[: len(second)] == second, "the beginning stays what it was"
    assert third[1]["content"].startswith("<system-reminder>") and "MEMORY.md" in third[1]["content"]
    assert "Tuesdays" in second[-1]["content"], "the tool found it too"
    [header] = FileStore(tmp_path / "agent" / "memory").scan()
    assert header.description.startswith("we deploy on Tuesdays only")


def test_the_agents_session_is_the_sdk_s_protocol(memory: Path) -> None:
    from agents.memory import Session as Protocol

    from memdir.interfaces.sdk.openai_agents import MemorySession, memory_tools

    store = open_store(memory)
    store.write(DEPLOYS)

    async def live() -> None:
        with Session(store, id="c1") as session:
            kept = MemorySession(session, seconds=60)
            assert isinstance(kept, Protocol) and kept.session_id == "c1"
            await kept.add_items([{"role": "user", "content": ASK}])
            await kept.add_items([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}])
            await kept.add_items([])
            assert len(await kept.get_items()) == 4 and len(await kept.get_items(2)) == 2
            assert TOLD in flatten((await kept.get_items())[2])
            await kept.pop_item()
            assert await kept.pop_item() == {"role": "user", "content": ASK}
            assert await kept.pop_item() is None
            await kept.add_items([{"role": "user", "content": ASK}])
            await kept.clear_session()
            assert await kept.get_items() == []
            kept.inner.close()

    asyncio.run(live())
    assert {tool.name for tool in memory_tools(store)} == {offer.name for offer in SdkTools.offers}
    assert "Tuesdays" in asyncio.run(memory_tools(store)[0].on_invoke_tool(None, flatten({"query": ASK})))


def test_items_of_the_responses_api_are_read_as_messages() -> None:
    from memdir.interfaces.sdk.openai_agents import read_items

    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"x": 1}'}
    said = {"role": "user", "content": "hello"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    user, asked, answered = read_items([said, call, output])
    assert user == said
    assert isinstance(asked, Message) and asked.calls[0].input == {"x": 1}
    assert answered == Message("tool", "found", answers="c1")


def test_the_capability_recalls_offers_tools_and_learns(tmp_path: Path) -> None:
    script: list[Any] = ["Noted.", [Call("memory_search", {"query": ASK})], "On Tuesdays.", "You are welcome."]
    with OpenAIServer(script) as server:
        env = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        assert run_example("capability", tmp_path / "memory", [REMEMBER], **env) == "Noted.\n"
        out = run_example("capability", tmp_path / "memory", [ASK, "Thank you"], **env)
        assert (out, server.problems) == ("On Tuesdays.\nYou are welcome.\n", [])
        first, second, third = (at.body["messages"] for at in server.requests[1:])
        assert len(server.requests[1].body["tools"]) == 7
    assert [flatten(at).count(TOLD) for at in (first, second, third)] == [1, 1, 1], "told once, and kept in its place"
    assert second[: len(first)] == first and third[: len(second)] == second, "the beginning stays what it was"
    assert "MEMORY.md" in flatten(first[1:3]) and "memory_save" in first[0]["content"]
    assert "Tuesdays" in second[-1]["content"], "the tool found it too"
    [header] = FileStore(tmp_path / "memory").scan()
    assert header.description.startswith("we deploy on Tuesdays only")


def test_the_toolset_works_without_the_capability_and_the_capability_without_tools(memory: Path) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from memdir.interfaces.sdk.pydantic_ai import MemoryCapability, memory_toolset

    store = open_store(memory)
    agent = Agent(TestModel(call_tools=["memory_list"]), toolsets=[memory_toolset(store)])
    assert '"total": 0' in flatten(json.loads(asyncio.run(agent.run("what is there?")).output)).replace('\\"', '"')
    with Session(store) as session:
        bare = MemoryCapability(session, tools=False)
        assert (bare.get_toolset(), bare.get_instructions(), bare.get_serialization_name()) == (None, None, None)
        done = asyncio.run(Agent(TestModel(), capabilities=[bare]).run(["hello", "there"]))
        assert done.output == "success (no tool calls)"


def test_a_history_of_pydantic_ai_is_read_as_messages() -> None:
    from pydantic_ai.messages import (
        ImageUrl,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    from memdir.interfaces.sdk.pydantic_ai import read_history

    history = [
        ModelRequest(
            [SystemPromptPart("be brief"), UserPromptPart(["look", ImageUrl("https://example.invalid/x.png")])]
        ),
        ModelResponse([TextPart("I look"), ToolCallPart("look", '{"x": 1}', "c1")]),
        ModelRequest(
            [ToolReturnPart("look", {"y": 2}, "c1"), ToolReturnPart("look", "wrong", "c2", outcome="retried")]
        ),
        ModelResponse([TextPart("done")]),
    ]
    read = list(read_history(history))
    assert [(at.role, at.text, at.is_meta, at.failed) for at in read[:4]] == [
        ("user", "be brief", True, False),
        ("user", "look", False, False),
        ("assistant", "I look", False, False),
        ("tool", '{"y":2}', False, False),
    ]
    assert read[2].calls[0].input == {"x": 1} and read[3].answers == "c1"
    assert read[4].failed and read[4].answers == "c2" and read[5].text == "done"


def test_the_example_of_the_graph_answers_with_what_it_kept(tmp_path: Path) -> None:
    lines = ["I take my coffee black, without sugar", "how do I take my coffee?"]
    assert run_example("graph_store", tmp_path / "memory", lines) == f"I did not know that.\n{lines[0]}\n"
    names = {at.name for at in FileStore(tmp_path / "memory").scan()}
    assert names == {"users/somebody/line-1", "users/somebody/line-2"}


def call(hook: Any, **given: object) -> Mapping[str, Any]:
    return asyncio.run(hook({"session_id": "c1", **given}, None, {}))


def test_the_hooks_recall_and_learn_without_the_sdk_being_there(memory: Path, tmp_path: Path) -> None:
    store = open_store(memory)
    turn = {"role": "user", "content": REMEMBER}, {"role": "assistant", "content": "Noted."}
    said = write(tmp_path / "talk.jsonl", "".join(json.dumps(at) + "\n" for at in turn))
    with AgentMemory(store, seconds=60) as agent:
        assert call(agent.on_prompt, prompt=ASK) == {}
        assert call(agent.on_stop, transcript_path=str(said), cwd=str(tmp_path)) == {}
    assert len(store.scan()) == 1
    with AgentMemory(store, seconds=60) as agent:
        answer = call(agent.on_prompt, prompt=ASK, session_id="c2")["hookSpecificOutput"]
        assert answer["hookEventName"] == "UserPromptSubmit"
        assert answer["additionalContext"].startswith(TOLD) and "Tuesdays" in answer["additionalContext"]
        assert call(agent.on_prompt, prompt=f"Again: {ASK}", session_id="c2") == {}, "told once"
        assert call(agent.on_prompt, prompt=ASK, session_id="") == {}
        heard: list[object] = []
        assert call(agent.on_stop, transcript_path=str(tmp_path / "none.jsonl")) == {} and heard == []


def test_the_example_with_the_real_agent_sdk_recalls_uses_tools_and_learns(tmp_path: Path) -> None:
    """Where the SDK is installed: it brings its own client, which asks the server on loopback."""
    pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk absent: it brings a client of 350 MB")
    project = make_repository(tmp_path / "project")
    with closing(open_project(project)) as opened:
        opened.private.write(DEPLOYS)

    def play(body: Mapping[str, Any]) -> Any:
        is_new = body.get("tools") and '"tool_result"' not in flatten(body["messages"])
        return [Call("mcp__memdir__memory_list", {})] if is_new else "On Tuesdays."

    with AnthropicServer(play) as server:
        env = {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": server.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "IS_SANDBOX": "1",
        }
        with redirect_stdout(io.StringIO()) as out:
            lines = [ASK, REMEMBER.replace("deploy on Tuesdays", "release on Mondays")]
            asyncio.run(load_example("agent_hooks").talk(project, lines, env=env, setting_sources=[]))
        asked = [flatten(at.body["messages"]) for at in server.requests if at.body.get("tools")]
    assert out.getvalue() == "On Tuesdays.\nOn Tuesdays.\n"
    assert [at for at in asked if TOLD in at] and asked[-1].count(TOLD) == 1, "the hook recalled, once"
    assert any("total" in at for at in asked), "the tool answered"
    with closing(open_project(project)) as opened:
        assert len(opened.private.scan()) == 2, "the second line was learned"
