"""memdir inside the real clients of other hosts: what reaches the API, what is kept, and what is denied.

pi is run everywhere, the others by scripts/faults; elsewhere tests/conversation/test_clients.py has what they wrote.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from claude_client import bodies, make_client
from clihelp import NO_FORCE, PUSH, RELEASE, SHIP, SOURCE, memory_text
from hook_calls import wait_until
from loads import IS_FULL
from memdir.frozen import replace
from memdir.project.hosts import HOSTS as KNOWN
from memdir.store.state import read_events
from other_clients import Api, Client, make_codex, make_copilot, make_gemini, make_opencode, make_pi, make_qwen, serving
from servers import AnthropicServer

full = pytest.mark.skipif(not IS_FULL, reason="whole sessions of this client are run by scripts/faults")

FERRY = memory_text(
    "Ferry", "When the ferry to Lindholm leaves", "The ferry to Lindholm leaves at six, from pier nine.\n"
)
ASKED = "When does the ferry to Lindholm leave?"
WISH = "Remember that invoices are sent on the third of each month."
COMMAND = "echo 'password: Xk93vP2q7Lw4mZ' > .claude/memory/ci.md"
STARTED = "This project has a memory that outlives the conversation"


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as api:
        yield api


def prepare(client: Client, host: str) -> dict[Path, bytes]:
    """Install, with a memory there; answers the settings as they were."""
    folder = client.home / (".codex" if host == "codex" else ".gemini")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    client.memory.mkdir(parents=True)
    (client.memory / "ferry.md").write_text(FERRY, encoding="utf-8")
    (client.cwd / ".claude" / "memory").mkdir(parents=True)
    client.memdir("install", host)
    return before


def check_kept(client: Client, host: str) -> None:
    def has_learned() -> bool:
        texts = [path.read_text(encoding="utf-8") for path in client.memory.glob("*.md")]
        return any("third of each month" in text for text in texts)

    wait_until(has_learned, "what was asked for is kept")
    assert not (client.cwd / ".claude" / "memory" / "ci.md").exists()
    events = {at.event for at in read_events(client.memory / ".memdir") if at.host == host}
    assert {"session-start", "user-prompt", "before-tool", "stop", "session-end"} <= events


@full
def test_the_real_codex_recalls_denies_and_learns_once_its_hooks_are_trusted(tmp_path: Path, api: Api) -> None:
    client = make_codex(tmp_path, api)
    before = prepare(client, "codex")
    api.script = ["One.", "Two.", {"name": "exec_command", "arguments": json.dumps({"cmd": COMMAND})}, "Noted."]
    trusted = ("exec", "--dangerously-bypass-hook-trust", "-s", "workspace-write")
    client("exec", ASKED)
    client(*trusted, ASKED)
    assert client(*trusted, WISH).strip() == "Noted."
    untrusted, told, wish, denied = (json.dumps(body) for body in api.bodies)
    assert "pier nine" not in untrusted and STARTED not in untrusted
    assert "pier nine" in told and "pier nine" not in wish and STARTED in wish and "config set model" not in wish
    assert "memdir keeps this out of memory" in denied
    check_kept(client, "codex")
    client.memdir("uninstall", "codex")
    for path, data in before.items():
        assert path.read_bytes().startswith(data)  # Codex itself may have written more
    assert not (client.home / ".codex" / "hooks.json").exists()


def check_rules(client: Client, api: Api, call: Callable[[str], Mapping[str, Any]], *command: str) -> None:
    """A rule and a memory about an error come with the results of commands, and with `ask` and `deny` nothing runs."""
    (client.memory / "no-force.md").write_text(NO_FORCE, encoding="utf-8")
    (client.memory / "release.md").write_text(RELEASE, encoding="utf-8")
    pushed = client.cwd / "pushed"
    api.bodies.clear()
    api.script = [call(PUSH), call("make relase"), "Done."]
    client(*command, SHIP)
    before, after, failed = (json.dumps(body) for body in api.bodies)
    assert "Sam lost" not in before and after.count("Sam lost two days") == 1 and pushed.exists()
    assert "with `just release`" not in after and "with `just release`" in failed
    for enforce in ("deny", "ask"):  # neither client can be made to ask by a hook
        pushed.unlink(missing_ok=True)
        client.memdir("edit", "no-force", "--enforce", enforce)
        api.script = [call(PUSH), "Not done."]
        client(*command, SHIP)
        assert "a rule of the user applies" in json.dumps(api.bodies[-1]) and not pushed.exists()
        assert "Sam lost two days" in json.dumps(api.bodies[-1])


@full
def test_the_real_codex_reminds_and_refuses_at_a_command(tmp_path: Path, api: Api) -> None:
    client = make_codex(tmp_path, api)
    prepare(client, "codex")
    call = partial(_call, "exec_command", "arguments", "cmd")
    check_rules(client, api, call, "exec", "--dangerously-bypass-hook-trust", "-s", "workspace-write")


@full
def test_the_real_gemini_reminds_and_refuses_at_a_command(tmp_path: Path, api: Api) -> None:
    client = make_gemini(tmp_path, api)
    prepare(client, "gemini-cli")
    call = partial(_call, "run_shell_command", "args", "command")
    check_rules(client, api, call, "--approval-mode", "yolo", "-m", "gemini-2.5-flash", "-p")


def _call(name: str, field: str, key: str, command: str) -> Mapping[str, Any]:
    values = {key: command}
    return {"name": name, field: json.dumps(values) if field == "arguments" else values}


@full
def test_the_real_gemini_recalls_denies_learns_and_keeps_a_prompt_when_it_resumes(tmp_path: Path, api: Api) -> None:
    client = make_gemini(tmp_path, api)
    before = prepare(client, "gemini-cli")
    api.script = [{"name": "run_shell_command", "args": {"command": COMMAND}}, "Noted.", "At six."]
    client("--approval-mode", "yolo", "-m", "gemini-2.5-flash", "-p", WISH)
    check_kept(client, "gemini-cli")
    client("--resume", "latest", "-m", "gemini-2.5-flash", "-p", ASKED)
    first, denied, told = (json.dumps(body["contents"]) for body in api.bodies)
    assert "pier nine" not in first and STARTED in first and "config set model" not in first  # that is for the person
    assert "memdir keeps this out of memory" in denied
    assert WISH in told and "pier nine" in told
    client.memdir("uninstall", "gemini-cli")
    assert {path: path.read_bytes() for path in before} == before


RULE = (
    "rule",
    "Never force-push to a shared branch",
    "--why",
    "The mirror of the auditors breaks.",
    "--command",
    "push.*--force",
)
FORCE = {"command": "git push --force origin main", "description": "push"}
HOSTS: dict[str, tuple[Callable[[Path, Api], Client], tuple[str, ...], str]] = {
    "copilot": (make_copilot, ("--allow-all-tools", "-p"), "bash"),
    "opencode": (make_opencode, ("run",), "bash"),
    "qwen-code": (make_qwen, ("--yolo", "-p"), "run_shell_command"),
    "pi": (make_pi, ("--provider", "loop", "--model", "m", "-p"), "bash"),
}


@pytest.mark.parametrize("host", [pytest.param(at, marks=() if at == "pi" else full) for at in HOSTS])
def test_a_real_client_recalls_is_reminded_at_the_action_learns_and_is_left_as_it_was(
    tmp_path: Path, api: Api, host: str
) -> None:
    make, options, shell = HOSTS[host]
    client = make(tmp_path, api)
    client(*options, "Hello.")  # it writes settings of its own at its first start
    hooks = client.home / KNOWN[host].folder / KNOWN[host].hooks_files[0]
    before = hooks.read_bytes() if hooks.exists() else None
    api.bodies.clear()
    client.memory.mkdir(parents=True)
    (client.memory / "ferry.md").write_text(FERRY, encoding="utf-8")
    client.memdir(*RULE)
    client.memdir("install", host)
    api.script = [{"name": shell, "arguments": json.dumps(FORCE)}, "At six.", "Noted."]
    client(*options, ASKED)
    asked, acted = (json.dumps(body) for body in api.bodies)
    assert "pier nine" in asked and STARTED in asked and "auditors breaks" not in asked
    assert "auditors breaks" in acted, "the rule comes with the action"
    client(*options, WISH)
    wish = json.dumps(api.bodies[2])
    assert "pier nine" not in wish and STARTED in wish

    wait_until(lambda: has_kept(client, "third of each month"), "what was asked for is kept")
    assert client.memdir("recall", "when are invoices sent?").count("third of each month")
    told = {at.event for at in read_events(client.memory / ".memdir") if at.host == host}
    assert {"user-prompt", "before-tool", "stop"} <= told
    client.memdir("uninstall", host)
    assert (hooks.read_bytes() if hooks.exists() else None) == before


def test_a_probe_says_what_reaches_the_model_and_notices_a_client_that_drops_it(tmp_path: Path, api: Api) -> None:
    client = make_pi(tmp_path, api)
    programs = tmp_path / "bin"
    programs.mkdir()
    real = shlex.join(client.program)
    variables = {**client.variables, "PATH": f"{programs}{os.pathsep}{client.variables['PATH']}"}

    def probe(script: str) -> tuple[int, dict[str, Any]]:
        (programs / "pi").write_text(f"#!/bin/sh\n{script}", encoding="utf-8")
        (programs / "pi").chmod(0o755)
        command = [sys.executable, "-P", "-m", "memdir", "doctor", "--probe", "pi", "--json"]
        done = subprocess.run(
            command, env=variables, cwd=client.cwd, capture_output=True, encoding="utf-8", check=False
        )
        return done.returncode, json.loads(done.stdout)["probes"][0]

    code, row = probe(f'exec {real} "$@"\n')
    assert code == 0 and row["reached"] == dict.fromkeys(("start", "prompt", "action", "end"), True), row
    assert row["version"] and not row["problem"]
    client.memdir("install", "pi")
    client.variables = variables
    assert "was updated" not in client.memdir("status")
    dropping = f'rm -f "$HOME/.pi/agent/extensions/memdir.ts"\nexec {real} "$@"\n'
    code, row = probe(dropping)
    assert code == 1 and not any(row["reached"].values()) and row["version"]
    (programs / "pi").write_text("#!/bin/sh\n# another version\n", encoding="utf-8")
    assert "pi was updated: `memdir doctor --probe pi`" in client.memdir("status")
    code, row = probe("exit 3\n")
    assert code == 1 and "no request" in row["problem"]


TOLD = {
    **{host: (make, options) for host, (make, options, _) in HOSTS.items()},
    "codex": (make_codex, ("exec", "--dangerously-bypass-hook-trust", "-s", "workspace-write")),
    "gemini-cli": (make_gemini, ("--approval-mode", "yolo", "-m", "gemini-2.5-flash", "-p")),
}


@full
@pytest.mark.parametrize("host", TOLD)
def test_what_is_told_in_claude_code_is_recalled_in_another_client_and_the_other_way_round(
    tmp_path: Path, api: Api, host: str
) -> None:
    make, options = TOLD[host]
    client = make(tmp_path, api)
    client.memory.mkdir(parents=True)
    with AnthropicServer(lambda body: "Noted.") as server:
        (tmp_path / "claude").mkdir()
        claude = make_client(tmp_path / "claude", server.url)
        claude = replace(claude, home=client.home, cwd=client.cwd,
                         variables={"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0", "PYTHONPATH": str(SOURCE), "MEMDIR_HOOK_PATIENCE": "60"})  # fmt: skip
        client.memdir("install", host, "claude-code", "--model", "none")
        assert claude(WISH).code == 0
        wait_until(lambda: has_kept(client, "third of each month"), "what was told in Claude Code is kept")
        client(*options, "On which day of the month are invoices sent?")
        assert "third of each month" in json.dumps(api.bodies)
        client(*options, "Remember that the ferry to Lindholm leaves at six, from pier nine, and takes no cars.")
        wait_until(lambda: has_kept(client, "pier nine"), f"what was told in {host} is kept")
        count = len(bodies(server))
        assert claude(ASKED).code == 0
        assert "pier nine" in json.dumps(bodies(server)[count:])


def has_kept(client: Client, words: str) -> bool:
    return any(words in path.read_text(encoding="utf-8") for path in client.memory.glob("*.md"))
