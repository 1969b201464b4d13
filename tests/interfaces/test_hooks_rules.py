"""Standing rules in hooks: at the start, again in a long conversation, for subagents, and not at prompts."""

from pathlib import Path
from typing import Any

import pytest

from hook_calls import Hooks
from memdir.limits import HOOK_INDEX_CHARS, RULES_PROMPTS
from memdir.recall.reminder import measure_reply
from memdir.store.sessions import SessionFile

PLAN = "Write a plan before large changes and wait for a yes"


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    hooks = Hooks(tmp_path, MEMDIR_MODEL="none")
    texts = {"plan-first": ("feedback", PLAN), "go": ("user", "Knows Go well, new to React")}
    texts["tuesdays"] = ("project", "The shop is deployed on Tuesdays")
    for name, (kind, description) in texts.items():
        hooks.cli(
            "save", "--type", kind, "--name", name, "--description", description, "--body", f"{description}, see."
        )
    return hooks


def find_file_line(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("- ")]


def test_a_host_that_loads_the_index_is_not_told_the_rules_and_others_are_before_the_index(hooks: Hooks) -> None:
    assert hooks("session-start", source="startup").context == ""
    told = hooks("session-start", host="codex", source="startup").context
    assert [line.partition(" — ")[0] for line in find_file_line(told)] == [
        "- Knows Go well, new to React",
        f"- {PLAN}",
        "- [tuesdays](tuesdays.md)",
    ], "once each"
    assert (
        PLAN in hooks("user-prompt", host="gemini-cli", session="s-2", prompt="Hello there, can you help me?").context
    )


def test_rules_without_a_line_in_the_loaded_index_are_told_everywhere(hooks: Hooks) -> None:
    index = hooks.cli.memory / "MEMORY.md"
    lines = index.read_text(encoding="utf-8").splitlines(keepends=True)
    index.write_text("".join(line for line in lines if "go.md" not in line), encoding="utf-8")
    told = hooks("session-start", source="startup").context
    assert find_file_line(told) == ["- Knows Go well, new to React"]


def test_many_rules_leave_room_for_the_index(hooks: Hooks) -> None:
    for number in range(60):
        text = f"---\nname: Rule {number}\ndescription: {'Ask before it. ' * 12}\ntype: user\nwhen:\n  always: true\n---\n\nYes.\n"
        (hooks.cli.memory / f"rule-{number}.md").write_text(text, encoding="utf-8")
    told = hooks("session-start", host="codex", source="startup").context
    assert "more lines" in told and "(tuesdays.md)" in told and measure_reply(told) <= HOOK_INDEX_CHARS


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_after_a_compaction_the_rules_are_told_once_more(hooks: Hooks, host: str) -> None:
    hooks("session-start", host=host, source="startup")
    assert PLAN in hooks("session-start", host=host, source="compact").context


def test_in_a_long_conversation_the_rules_are_told_again(hooks: Hooks) -> None:
    session = SessionFile(hooks.state, "s-1")
    assert not any(session.is_rules_turn() for _ in range(RULES_PROMPTS - 1))
    told = hooks("user-prompt", prompt="Which paint is best for a wooden boat?").context
    assert PLAN in told and "once more" in told
    assert hooks("user-prompt", prompt="Which varnish is best for a wooden boat?").out == b""
    assert sum(session.is_rules_turn() for _ in range(2 * RULES_PROMPTS)) == 2
    session.reset()
    assert not any(session.is_rules_turn() for _ in range(RULES_PROMPTS - 1)), "the count starts again"


def test_a_prompt_does_not_recall_a_rule_but_a_search_finds_it(hooks: Hooks) -> None:
    prompt = "Should I write a plan before large changes and wait for a yes?"
    assert hooks("user-prompt", prompt=prompt).out == b""
    assert PLAN in hooks.cli("recall", prompt).out and PLAN in hooks.cli("recall", "plan").out
    hooks.cli("save", "--type", "feedback", "--name", "plan-names", "--description", "Names of plan files have the date",
              "--body", "Plans are named by date, large changes too.", "--how", "Before a plan for large changes.")  # fmt: skip
    given = hooks("user-prompt", prompt="How shall I name the plan files of large changes?").context
    assert PLAN not in given


def test_where_the_index_is_loaded_a_memory_that_says_no_more_than_its_line_is_not_sent(hooks: Hooks) -> None:
    prompt = "On which days is the shop deployed?"
    hooks.cli("edit", "tuesdays", "--body", "The shop is deployed on Tuesdays.")
    assert hooks("user-prompt", prompt=prompt).out == b""
    assert "Tuesdays" in hooks("user-prompt", host="codex", session="s-2", prompt=prompt).context
    hooks.cli("edit", "tuesdays", "--body", "The shop is deployed on Tuesdays, because support is there.")
    assert "support" in hooks("user-prompt", prompt=prompt).context


def test_a_subagent_has_the_rules_whatever_its_parent_was_told(hooks: Hooks) -> None:
    hooks("session-start", host="codex", source="startup")
    for agent in ("a-1", "a-2"):
        told = hooks("subagent-start", host="codex", agent_id=agent, agent_type="explorer").context
        assert PLAN in told and "new to React" in told


def test_a_host_without_an_event_for_subagents_gives_them_the_rules_at_their_first_action(hooks: Hooks) -> None:
    call: dict[str, Any] = {
        "tool_name": "run_shell_command",
        "tool_input": {"command": "ls"},
        "tool_response": {"output": "a"},
    }
    for agent in ("a-1", "a-2"):
        told = [hooks("after-tool", host="gemini-cli", agent_id=agent, **call).context for _ in range(2)]
        assert PLAN in told[0] and told[1] == ""
    assert hooks("after-tool", host="gemini-cli", **call).context == ""
    assert hooks("before-tool", host="codex", agent_id="a-1", **call).context == "", "it has been told at its start"


def test_memory_that_is_off_tells_no_rules(hooks: Hooks) -> None:
    hooks.cli.variables["CLAUDE_CODE_DISABLE_AUTO_MEMORY"] = "1"
    assert hooks("subagent-start", agent_id="a-1", agent_type="explorer").out == b""
    assert hooks("session-start", host="codex", source="compact").context == ""


def test_a_rule_that_refuses_holds_at_the_next_action_and_again_after_undo(hooks: Hooks) -> None:
    command: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "psql -c 'drop table x'"}}
    hooks("session-start", source="startup")
    hooks.cli("rule", "add", "never drop a table", "--command", "drop table", "--deny")
    assert b"never drop a table" in hooks("before-tool", **command).out
    change = hooks.cli("rule", "off", "never-drop-table", "--json").json["change"]
    assert b"never drop a table" not in hooks("before-tool", **command).out
    hooks.cli("undo", str(change))
    assert b"never drop a table" in hooks("before-tool", **command).out
    assert "unknown command 'on'" in hooks.cli("rule", "on", "never-drop-table").err
