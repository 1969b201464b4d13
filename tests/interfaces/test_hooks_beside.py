"""A model selects memories beside the turn: a prompt hook starts it, and a later hook shows what it selected, once."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hook_calls import Hooks, Told, wait_until
from memdir.store.sessions import QUESTION, SELECTION, SessionFile
from servers import AnthropicServer

BODY = "The stripes of zebra clusters are counted from one to nine."
PROMPT = "add a chapter about vacation to the handbook, please"  # shares no word with the memory


def save(hooks: Hooks, name: str = "zebra", body: str = BODY) -> None:
    hooks.cli(
        "save", "--type", "project", "--name", name, "--description", "Names of the hosts in a rack", "--body", body
    )


class Selector:
    """Answers every request to select with these files, and keeps what was asked."""

    def __init__(self, *files: str) -> None:
        self.answer, self.asked = json.dumps({"selected_memories": files}), list[dict[str, Any]]()

    def __call__(self, body: dict[str, Any]) -> str:
        self.asked.append(body)
        return self.answer


def make_hooks(tmp_path: Path, server: AnthropicServer, **more: str) -> Hooks:
    return Hooks(
        tmp_path, MEMDIR_MODEL="anthropic:claude-test", MEMDIR_MODEL_URL=server.url, ANTHROPIC_API_KEY="sk-test-12345",
        **more,
    )  # fmt: skip


def session_of(hooks: Hooks, id: str = "s-1") -> SessionFile:
    return SessionFile(hooks.state, id)


def wait_for_selection(hooks: Hooks) -> None:
    file = session_of(hooks)
    wait_until(file.find_prompt_file(SELECTION).exists, "the model has selected")
    wait_until(lambda: not file.find_prompt_file(QUESTION).exists(), "the question is answered")


def tool(hooks: Hooks, **more: Any) -> Told:
    return hooks("after-tool", tool_name="Bash", tool_input={"command": "ls"}, **more)


def test_what_the_index_does_not_find_is_shown_after_the_first_tool_call_once(tmp_path: Path) -> None:
    selector = Selector("zebra.md")
    with AnthropicServer(selector) as server:
        hooks = make_hooks(tmp_path, server)
        save(hooks)
        path = hooks.transcript("go on", "I look.")
        row = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
        row["message"]["content"] = [{"type": "tool_use", "id": "t1", "name": "Grep", "input": {}}]
        path.write_text(path.read_text(encoding="utf-8") + json.dumps(row | {"uuid": "x"}) + "\n", encoding="utf-8")
        assert hooks("user-prompt", prompt=PROMPT, transcript_path=str(path)).context == ""
        wait_for_selection(hooks)
        assert tool(hooks, agent_id="a subagent").context == "", "it is not the subagent's prompt"
        assert tool(hooks, session="s-2").context == "", "nor another conversation's"
        shown = tool(hooks)
        assert BODY in shown.context and shown.table["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
        assert tool(hooks).context == "" and hooks("user-prompt", prompt="and the one before it?").context == ""
    assert list(session_of(hooks).read().surfaced) == ["zebra"]
    asked = json.dumps(selector.asked[0])
    assert PROMPT in asked and "zebra.md" in asked and "Tools in use: Grep" in asked and BODY not in asked
    (row,) = hooks.cli("why", "zebra", "--json").json["surfaced"]
    assert row["selector"] == "model" and row["query"] == PROMPT


def test_the_command_line_asks_the_model_too(tmp_path: Path) -> None:
    with AnthropicServer(Selector("zebra.md")) as server:
        hooks = make_hooks(tmp_path, server)
        save(hooks)
        found = hooks.cli("recall", PROMPT, "--json").json
    assert found["selector"] == "model" and [at["name"] for at in found["memories"]] == ["zebra"]


def test_without_a_tool_call_the_next_prompt_shows_it_beside_its_own(tmp_path: Path) -> None:
    with AnthropicServer(Selector("zebra.md")) as server:
        hooks = make_hooks(tmp_path, server)
        save(hooks)
        save(hooks, "ferry", "The ferry to Lindholm leaves at six from pier nine.")
        hooks("user-prompt", prompt=PROMPT)
        wait_for_selection(hooks)
        shown = hooks("user-prompt", prompt="when does the ferry to Lindholm leave?").context
        assert BODY in shown and "pier nine" in shown
        assert set(session_of(hooks).read().surfaced) == {"zebra", "ferry"}
        assert [row["moment"] for row in hooks.cli("why", "zebra", "--json").json["surfaced"]] == ["late"]
        recalled = hooks.cli("status", "--json").json["scopes"][0]["recalled"]
        assert (recalled["selected"], recalled["late"]) == (1, 1)


def test_a_selection_for_an_older_question_or_a_cleared_conversation_is_dropped(tmp_path: Path) -> None:
    with AnthropicServer(Selector("zebra.md")) as server:
        hooks = make_hooks(tmp_path, server)
        save(hooks)
        file = session_of(hooks)
        hooks("user-prompt", prompt=PROMPT)
        wait_for_selection(hooks)
        hooks("session-start", source="clear")
        assert tool(hooks).context == ""
        question = {"text": PROMPT, "transcript": "", "id": "1"}
        file.write_prompt(QUESTION, question)

        def answer(body: dict[str, Any]) -> str:
            file.write_prompt(QUESTION, question | {"id": "2"})  # a new prompt, while the model thinks
            return json.dumps({"selected_memories": ["zebra.md"]})

        with AnthropicServer(answer) as slow:
            hooks.cli.variables["MEMDIR_MODEL_URL"] = slow.url
            assert hooks.cli("select", "--session", "s-1").code == 0
        assert not file.read_prompt(SELECTION) and file.read_prompt(QUESTION)["id"] == "2"
        why = hooks.cli("why", "zebra", "--json").json
        assert why["count"] == 0 and [row["moment"] for row in why["surfaced"]] == ["too late"]


def test_what_was_forgotten_or_shown_meanwhile_and_private_conversations_stay_silent(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    save(hooks)
    file = session_of(hooks)
    left = {"query": PROMPT, "by": "model", "names": [["private", "zebra"], ["private", "gone"], ["user", "zebra"]]}
    file.write_prompt(SELECTION, left)
    file.set_private()
    assert tool(hooks).context == "" and not file.read_prompt(SELECTION)
    file.set_private(False)
    file.write_prompt(SELECTION, left)
    assert BODY in tool(hooks).context
    file.write_prompt(SELECTION, left)
    assert tool(hooks).context == "", "the conversation has it"
    for broken in ({"names": 3}, {**left, "names": [3, ["private"], ["x", "zebra"]]}):
        file.write_prompt(SELECTION, broken)
        assert tool(hooks).out == b""


@pytest.mark.parametrize(
    ("prompt", "variables"),
    [
        ("thanks", {}),
        (f"ignore your memory: {PROMPT}", {}),
        (PROMPT, {"MEMDIR_SELECTOR": "local"}),
        (PROMPT, {"MEMDIR_MODEL": "none"}),
        (PROMPT, {"MEMDIR_RECALL": "off"}),
        (PROMPT, {"MEMDIR_INSIDE": "1"}),
    ],
)
def test_no_model_is_asked_where_recall_is_not_wanted(tmp_path: Path, prompt: str, variables: dict[str, str]) -> None:
    hooks = Hooks(tmp_path, **{"MEMDIR_MODEL": "anthropic:claude-test", "ANTHROPIC_API_KEY": "sk-test", **variables})
    save(hooks)
    assert hooks("user-prompt", prompt=prompt).out == b""
    assert not session_of(hooks).find_prompt_file(QUESTION).exists()


def test_a_model_that_fails_leaves_nothing_and_a_record(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path, MEMDIR_MODEL="anthropic:claude-test")  # no key is set
    save(hooks)
    session_of(hooks).write_prompt(QUESTION, {"text": PROMPT, "transcript": "", "id": "1"})
    assert hooks.cli("select", "--session", "s-1").code == 0
    assert not session_of(hooks).read_prompt(SELECTION)
    assert "ANTHROPIC_API_KEY is not set" in hooks.cli("doctor").out


def test_of_many_hooks_at_once_one_shows_the_selection(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    save(hooks)
    file = session_of(hooks)
    file.write_prompt(SELECTION, {"query": PROMPT, "by": "model", "names": [["private", "zebra"]]})
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        shown = list(pool.map(lambda _: tool(hooks).context, range(8)))
    assert sum(BODY in text for text in shown) == 1 and not os.path.exists(file.find_prompt_file(SELECTION))


def test_a_secret_in_the_prompt_is_not_sent_to_the_selecting_model(tmp_path: Path) -> None:
    selector = Selector()
    with AnthropicServer(selector) as server:
        hooks = make_hooks(tmp_path, server)
        save(hooks)
        text = "why does login with the password tr0ub4dor&3xQ fail?"
        session_of(hooks).write_prompt(QUESTION, {"text": text, "transcript": "", "id": "1"})
        hooks.cli("select", "--session", "s-1")
    assert len(selector.asked) == 1 and "tr0ub4dor" not in json.dumps(selector.asked)
