"""What a host tells a hook: JSON on standard input, with small differences between hosts that end here."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.hosts.rows import CLAUDE_CODE, GEMINI, VSCODE, Event, Host
from memdir.limits import HOOK_INPUT_BYTES
from memdir.settings import Environment, read_environment

_CHUNK = 1_048_576


@dataclass(frozen=True, slots=True)
class Given:
    """One call of a hook; texts that the host did not give are empty."""

    event: Event
    host: Host
    environment: Environment
    cwd: Path
    table: Mapping[str, object]

    @property
    def patience(self) -> float:
        """What the environment says of it; the settings of the place are read later."""
        try:
            return float(self.environment.variables.get("hook_patience", ""))
        except ValueError:
            return 1.0

    @property
    def session(self) -> str:
        return self.text("session_id", "sessionId")

    @property
    def is_subagent(self) -> bool:
        """Whether it happened inside a subagent, whose turns are not the conversation's."""
        return bool(self.text("agent_id"))

    @property
    def is_headless(self) -> bool:
        """Whether a program talks to the agent; only Claude Code says so."""
        return self.host is CLAUDE_CODE and self.environment.entrypoint.startswith("sdk")

    def text(self, *keys: str) -> str:
        """The first of these fields that holds text."""
        return next((value for key in keys if isinstance(value := self.table.get(key), str) and value), "")

    def find_input(self) -> Mapping[str, object]:
        """What a tool was called with."""
        value = self.table.get("tool_input")
        return value if isinstance(value, dict) else {}


def read_given(event: Event, host: Host) -> Given | None:
    """What standard input says; None inside a program that memdir itself started. Raises FormatError."""
    environment = read_environment()
    if environment.inside:
        return None
    data = _read_all()
    try:
        table = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise FormatError("what the host told is no JSON object", hint="`memdir doctor` looks at what is installed")
    if host is CLAUDE_CODE and "sessionId" in table and "session_id" not in table:
        host = VSCODE  # it runs the hooks of Claude Code's settings, too
    return Given(event, host, environment, _find_cwd(host, environment, table), table)


def _read_all() -> bytes:
    if sys.stdin is None:
        return b""
    parts, size = [], 0
    try:
        while chunk := os.read(0, _CHUNK):
            parts.append(chunk)
            size += len(chunk)
            if size > HOOK_INPUT_BYTES:
                raise FormatError(f"the host told more than {HOOK_INPUT_BYTES:,} bytes")
    except OSError:
        pass  # nothing to read from, or half of it: what there is must do
    return b"".join(parts)


def _find_cwd(host: Host, environment: Environment, table: Mapping[str, object]) -> Path:
    """Where the conversation was begun: its memory stays the same when the agent changes its directory.

    One host may run inside another: the variable is believed only of those that set it.
    """
    begun = environment.project_dir if host in (CLAUDE_CODE, GEMINI) else ""
    for at in (begun, table.get("cwd")):
        if isinstance(at, str) and os.path.isabs(at) and "\0" not in at and os.path.isdir(at):
            return Path(at)
    return Path.cwd()
