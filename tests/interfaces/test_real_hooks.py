"""memdir inside the real Claude Code client: what reaches the API, what is kept, and what is denied."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from claude_client import Project, bodies, list_texts, playing, said_to_model
from clihelp import NO_FORCE, PUSH, RELEASE, SHIP, memory_text
from hook_calls import wait_until
from loads import ROOT, scaled
from memdir.frozen import replace
from memdir.project.paths import slug
from memdir.store.state import read_events
from memdir.text import shorten_home
from servers import Answer, AnthropicServer, Call

# The client has a scanner of its own for tokens of known vendors; a password in plain words is ours to find.
PASSWORD = "Xk93vP2q7Lw4mZ"
FERRY = memory_text(
    "Ferry", "When the ferry to Lindholm leaves", "The ferry to Lindholm leaves at six, from pier nine.\n"
)
ASKED = "When does the ferry to Lindholm leave?"


def test_a_memory_is_kept_after_a_conversation_recalled_in_the_next_and_a_secret_is_denied(tmp_path: Path) -> None:
    """Two runs of the client, because each takes seconds: what is asked of either is told apart below."""
    key = slug(os.path.realpath(tmp_path / "project"))
    team = tmp_path / "claude-home" / ".claude" / "projects" / key / "memory" / "team"
    text = memory_text("Ci", body=f"The password of the staging database is {PASSWORD}\n")
    calls = [
        Call("Write", {"file_path": str(team / "ci.md"), "content": text}, "toolu_1"),
        Call("Write", {"file_path": str(team / "runners.md"), "content": memory_text("Runners")}, "toolu_2"),
    ]
    with playing(tmp_path, "Noted.", calls, "On the third.") as (project, server):
        assert project.memory == team.parent
        project.keep("ferry", FERRY)
        (project.memory / "MEMORY.md").write_text("- [Ferry](ferry.md) — to Lindholm, by boat\n", encoding="utf-8")
        assert project.client("Remember that invoices are sent on the third of each month.").out == "Noted."
        state = project.memory / ".memdir"
        wait_until(lambda: any("third of each month" in text for text in read_kept(project)), "it is kept")
        writing = ("--allowedTools", "Write", "--permission-mode", "acceptEdits")
        assert project.client("On which day of the month are invoices sent?", *writing).out == "On the third."
        first, second, third = bodies(server)
        assert len(read_kept(project)) == 1
        check_recalled(project, said_to_model(first), said_to_model(second))
        check_denied(team, third)
        events = {at.event for at in read_events(state) if at.host == "claude-code"}
        assert {"session-start", "user-prompt", "before-tool", "stop", "session-end"} <= events


def read_kept(project: Project) -> list[str]:
    """What a worker that nobody waited for has written, beside the client's own files."""
    paths = [path for path in project.memory.glob("*.md") if path.name not in ("ferry.md", "MEMORY.md")]
    return [path.read_text(encoding="utf-8") for path in paths]


def check_recalled(project: Project, first: str, second: str) -> None:
    """A prompt that fits nothing brings nothing, and the next one what was kept after it."""
    assert "pier nine" not in first and "sent on the third of each month" in second
    for said in (first, second):
        # The client has loaded the index by itself, from the directory that memdir found, and nobody sent it again.
        assert said.count("to Lindholm, by boat") == 1 and str(project.memory) in said


def check_denied(team: Path, body: Any) -> None:
    """A password is kept out of the team's memory with a reason that does not tell it; another file needs review."""
    assert list(team.glob("*.md")) == []
    results = {at["tool_use_id"]: at for at in find_blocks(body, "tool_result")}
    reason, review = ("\n".join(list_texts(results[at]["content"])) for at in ("toolu_1", "toolu_2"))
    assert results["toolu_1"]["is_error"] is True and PASSWORD not in reason
    assert "memdir keeps this out of memory" in reason and "waits for the person's review" in review


def test_what_a_model_selects_beside_the_turn_comes_with_the_result_of_the_first_tool(tmp_path: Path) -> None:
    """The local selector does not find it: no word of the prompt stands in the memory."""
    asked = "add a chapter about vacation to the handbook, please"
    # The tool takes until the selection is there, as a build or a test run would.
    wait = "until ls ~/.claude/projects/*/memory/.memdir/sessions/selection~* >/dev/null 2>&1; do sleep 0.05; done; echo on"
    script: list[Answer] = [[Call("Bash", {"command": wait}, "toolu_w")], "Done."]
    selects: list[Any] = []

    def answer(body: Any) -> Answer:
        if "selected_memories" in json.dumps(body.get("system")):
            selects.append(body)
            return '{"selected_memories": ["ferry.md"]}'
        return script.pop(0)

    with AnthropicServer(answer) as server:
        project = Project(tmp_path, server.url)
        project.memdir("install", "claude-code", "--model", "none")
        project.memdir("config", "set", "model", "anthropic:claude-test")
        path = project.keep("ferry", FERRY)
        assert project.client(asked, "--allowedTools", "Bash").out == "Done."
        assert server.problems == [] and len(selects) == 1 and asked in said_to_model(selects[0])
        first, second = [said_to_model(at) for at in bodies(server) if at not in selects]
        assert (
            "pier nine" not in first
            and "leaves at six, from pier nine" in second
            and shorten_home(str(path), project.client.home) in second
        )
        shown = project.client.transcript.read_text(encoding="utf-8")
        assert "memdir: recalled 1 (Ferry)" in shown, "the line that the person is shown"


def test_a_rule_comes_with_the_command_or_before_it_and_a_failure_brings_its_memory(tmp_path: Path) -> None:
    script: list[Answer] = [[Call("Bash", {"command": PUSH})], [Call("Bash", {"command": "make relase"})], "Done."]
    denied: list[Answer] = [[Call("Bash", {"command": PUSH})], "Not done."]
    with playing(tmp_path, *script, *denied, *denied) as (project, server):
        project.keep("no-force", NO_FORCE)
        project.keep("release", RELEASE)
        pushed = project.client.cwd / "pushed"
        assert project.client(SHIP, "--allowedTools", "Bash").out == "Done." and pushed.exists()
        before, after, failed = (said_to_model(body) for body in bodies(server))
        assert "Sam lost" not in before and after.count("Sam lost two days") == 1
        assert "with `just release`" not in after and "with `just release`" in failed
        for enforce in ("deny", "ask"):  # nobody can be asked in a headless run
            pushed.unlink(missing_ok=True)
            project.memdir("edit", "no-force", "--enforce", enforce)
            assert project.client(SHIP, "--allowedTools", "Bash").out == "Not done." and not pushed.exists()
            (result,) = find_blocks(bodies(server)[-1], "tool_result")
            assert result["is_error"] and "a rule of the user applies" in result["content"], result
            assert "Sam lost two days" in result["content"]


def test_the_repository_is_a_marketplace_from_which_the_plugin_is_installed_and_recalls(tmp_path: Path) -> None:
    with playing(tmp_path, "At six.", installed=False) as (project, server):
        project.keep("ferry", FERRY)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**project.client.environment(), "PATH": path}
        for words in (["marketplace", "add", str(ROOT)], ["install", "memdir@memdir"], ["list"]):
            command = [project.client.program, "plugin", *words]
            done = subprocess.run(command, env=env, cwd=project.client.cwd, capture_output=True, encoding="utf-8")
            assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert "memdir@memdir" in done.stdout and "enabled" in done.stdout
        client = replace(project.client, variables={**project.client.variables, "PATH": path})
        assert client(ASKED, "--strict-mcp-config").out == "At six."
        assert "leaves at six, from pier nine" in said_to_model(bodies(server)[0])


@pytest.mark.load
def test_the_client_finds_nothing_wrong_with_the_plugin(tmp_path: Path) -> None:
    if scaled(10) < 10:
        pytest.skip("another start of the client: full load only")
    with playing(tmp_path, installed=False) as (project, _):
        command = [project.client.program, "plugin", "validate", str(ROOT / "plugin"), "--strict"]
        checked = subprocess.run(command, env=project.client.environment(), capture_output=True, check=False)
        assert checked.returncode == 0, checked.stdout


@pytest.mark.load
def test_after_a_compaction_the_memories_come_again(tmp_path: Path) -> None:
    if scaled(10) < 10:
        pytest.skip("four turns of the client: full load only")
    summary = "<summary>They asked about a boat.</summary>"
    with playing(tmp_path, "At six.", "An hour.", summary, "Quite sure.") as (project, server):
        project.keep("ferry", FERRY)
        project.client(ASKED)
        project.client("And how long does it take?", "-c")
        assert project.client("/compact", "-c").code == 0
        assert project.client("Are you sure about that?", "-c").out == "Quite sure."
        assert "pier nine" in said_to_model(bodies(server)[-1])


def find_blocks(body: Any, kind: str) -> list[Any]:
    contents = [at["content"] for at in body["messages"] if isinstance(at["content"], list)]
    return [block for content in contents for block in content if block.get("type") == kind]
