"""Hooks as hosts call them: a process, JSON on its standard input, and what it answers."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clihelp import Cli
from memdir.frozen import dataclass

PATIENT = {"MEMDIR_HOOK_PATIENCE": "60"}  # what is tested is what a hook says, not how slow the machine is
SECONDS = 120.0  # a loaded machine may take its time


@dataclass(frozen=True, slots=True)
class Told:
    """What a hook answered."""

    code: int
    out: bytes
    err: bytes

    @property
    def table(self) -> dict[str, Any]:
        """The one line of JSON; empty for no answer."""
        assert self.code == 0, (self.code, self.err)
        assert self.out == b"" or (self.out.endswith(b"\n") and self.out.count(b"\n") == 1)
        found = json.loads(self.out or b"{}")
        assert isinstance(found, dict)
        return found

    @property
    def context(self) -> str:
        return str(self.table.get("hookSpecificOutput", {}).get("additionalContext", ""))

    @property
    def message(self) -> str:
        return str(self.table.get("systemMessage", ""))

    @property
    def refusal(self) -> str:
        specific = self.table.get("hookSpecificOutput", {})
        return str(specific.get("permissionDecisionReason", "")) if specific.get("permissionDecision") == "deny" else ""


def call_hook(
    event: str, given: Mapping[str, Any] | bytes, *, cwd: Path, env: Mapping[str, str], host: str = "claude-code"
) -> Told:
    """One call; `given` as bytes is sent as it is."""
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    command = [sys.executable, "-W", "error", "-P", "-m", "memdir", "hook", event, "--host", host]
    done = subprocess.run(
        command, cwd=cwd, env=dict(env), input=data, capture_output=True, timeout=SECONDS, check=False
    )
    return Told(done.returncode, done.stdout, done.stderr)


class Hooks:
    """A project with its memory, and a host that calls hooks in it."""

    def __init__(self, tmp_path: Path, **variables: str) -> None:
        self.cli = Cli(tmp_path, **{**PATIENT, **variables})

    def __call__(self, event: str, *, host: str = "claude-code", session: str = "s-1", **given: Any) -> Told:
        table = {"session_id": session, "cwd": str(self.cli.project), **given}
        return call_hook(event, table, cwd=self.cli.project, env=self.cli.environ(), host=host)

    @property
    def state(self) -> Path:
        return self.cli.memory / ".memdir"

    def transcript(self, *texts: str, session: str = "s-1") -> Path:
        """A transcript as Claude Code writes it: the person and the agent in turn."""
        path = self.cli.home / ".claude" / "projects" / "-app" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows, last = [], None
        for number, text in enumerate(texts):
            role = "assistant" if number % 2 else "user"
            content: Any = [{"type": "text", "text": text}] if number % 2 else text
            row = {
                "type": role,
                "uuid": f"00000000-0000-4000-8000-{number:012}",
                "parentUuid": last,
                "sessionId": session,
                "timestamp": f"2026-03-05T11:{number:02}:00.000Z",
                "cwd": str(self.cli.project),
                "message": {"role": role, "content": content},
            }
            rows.append(json.dumps(row))
            last = row["uuid"]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return path


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Until something that another process does has been done; its lock is not touched, because it would give way."""
    end, pause = time.monotonic() + SECONDS, threading.Event()
    while not holds():
        assert time.monotonic() < end, f"it never came to this: {what}"
        pause.wait(0.02)


def wait_for_worker(state: Path) -> None:
    """Until a worker has learned from every turn that waits."""
    wait_until(lambda: not list((state / "queue").glob("*.json")), "the queue is empty")
