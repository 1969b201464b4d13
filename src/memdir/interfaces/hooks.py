"""The hook door: coding agents call it at every turn of a conversation, and it never fails them.

    given.py      what the host tells               answers.py    what it is told, as it likes to read it
    prompting.py  a prompt -> memories              fitting.py    many memories -> one answer
    starting.py   a session begins                  tooling.py    tools that write or read memory
    ending.py     a turn or a session ends          agents.py     a subagent begins

Whatever is broken, the exit code is 0 and the output one line of JSON or nothing. The work is done beside the thread
that answers: when the deadline has come, the host is told what is ready by then, and the process ends with the rest
undone. What went wrong is noted where `doctor` and the next start of a session tell it.

Nothing is imported before it is needed: this process is born and dies at every prompt.
"""

import _thread
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memdir.errors import FormatError, MemdirError
from memdir.files import note_event, note_problem
from memdir.frozen import dataclass
from memdir.limits import HOOK_INPUT_BYTES, HOOK_PROMPT_SECONDS, HOOK_SECONDS, HOOK_START_SECONDS
from memdir.project.hosts import (
    CLAUDE_CODE,
    GEMINI,
    VSCODE,
    HookEvent,
    Host,
    ReplyStyle,
    find_event,
    find_host,
    find_name,
)
from memdir.project.settings import Environment, read_environment
from memdir.store.open import Project, open_project

# --- given ---
# What a host tells a hook: JSON on standard input, with small differences between hosts that end here.

_CHUNK = 1_048_576


@dataclass(frozen=True, slots=True)
class HookInput:
    """One call of a hook; texts that the host did not give are empty."""

    event: HookEvent
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


def read_given(event: HookEvent, host: Host) -> HookInput | None:
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
    return HookInput(event, host, environment, _find_cwd(host, environment, table), table)


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


# --- answers ---
# What a hook says, and how each host wants to read it: one line of JSON, or nothing.
#
# Only fields that all documented versions of a host know are written: Codex refuses an answer with any other.


@dataclass(frozen=True, slots=True)
class HookReply:
    """`context` goes before the model, `message` to the person, `refused` is why a tool may not run."""

    context: str = ""
    message: str = ""
    refused: str = ""


NOTHING = HookReply()
# Where a host reads no answer, none is given.
_SILENT = frozenset((HookEvent.AFTER_TOOL, HookEvent.STOP, HookEvent.COMPACT, HookEvent.END))


def render_answer(answer: HookReply, event: HookEvent, host: Host) -> str:
    """One line in ASCII; empty if there is nothing to say, or nobody to hear it."""
    if event in _SILENT:
        return ""
    table: dict[str, Any] = {}
    specific: dict[str, Any] = {}
    if answer.message:
        table["systemMessage"] = answer.message
    if answer.context and event in host.told:
        specific["additionalContext"] = answer.context
    if answer.refused and event is HookEvent.BEFORE_TOOL:
        if host.style is ReplyStyle.GEMINI:
            table |= {"decision": "deny", "reason": answer.refused}
        else:
            specific |= {"permissionDecision": "deny", "permissionDecisionReason": answer.refused}
    if specific:
        table["hookSpecificOutput"] = {"hookEventName": find_name(event, host), **specific}
    return json.dumps(table) if table else ""


# --- hooks ---

_SECONDS = {
    HookEvent.PROMPT: HOOK_PROMPT_SECONDS,
    HookEvent.BEFORE_TOOL: HOOK_PROMPT_SECONDS,
    HookEvent.START: HOOK_START_SECONDS,
}
_MOST_PATIENCE = 300.0
_NOTE_SECONDS = 0.25  # how long a late process still tries to say that it was late, and to see that the next is not


class HookOutput:
    """What the two threads share: the answer as far as it goes, where problems are noted, and whose answer it is.

    `patience` is the person's setting, by which the deadline is multiplied as soon as it is known.
    """

    def __init__(self, host: Host) -> None:
        self.answer: HookReply = NOTHING
        self.state: Path | None = None
        self.cwd: Path | None = None
        self.host = host
        self.patience = 1.0


def run_hook(argv: list[str]) -> int:
    """One call of a hook; the answer goes to standard output, and the code is always 0."""
    host, event = _parse(argv)
    if host is None or event is None:
        _complain(argv)
        return 0
    ready, done = HookOutput(host), _thread.allocate_lock()
    done.acquire()
    seconds = _SECONDS.get(event, HOOK_SECONDS)
    try:
        _thread.start_new_thread(_work, (event, ready, done.release))
        in_time = done.acquire(timeout=seconds) or _wait_on(ready, done, seconds)
        _write(render_answer(ready.answer, event, ready.host))
        if not in_time:
            _note_late(event, ready, seconds)
    except (KeyboardInterrupt, RuntimeError):  # Ctrl-C reaches hooks, too; or no thread could be started
        pass
    return 0


def _wait_on(ready: HookOutput, done: _thread.LockType, seconds: float) -> bool:
    """The rest of a deadline that somebody has made longer."""
    more = seconds * min(ready.patience, _MOST_PATIENCE) - seconds
    return more > 0 and done.acquire(timeout=more)


def _parse(argv: list[str]) -> tuple[Host | None, HookEvent | None]:
    words = [word for at in argv for word in (at.split("=", 1) if at.startswith("--host=") else [at])]
    name = "claude-code"
    if "--host" in words[:-1]:
        at = words.index("--host")
        name = words[at + 1]
        del words[at : at + 2]
    host = find_host(name)
    return host, find_event(words[0], host) if host and len(words) == 1 else None


def _work(event: HookEvent, ready: HookOutput, done: Callable[[], object]) -> None:
    try:
        _answer(event, ready)
    except Exception as error:
        # Nobody watches a hook, and its host must not suffer from it: what went wrong is noted, and that is all.
        _note(ready, event, error)
    finally:
        done()


def _answer(event: HookEvent, ready: HookOutput) -> None:

    given = read_given(event, ready.host)
    if given is None:
        return
    ready.host, ready.patience, ready.cwd = given.host, given.patience, given.cwd
    if event is HookEvent.PROMPT:
        from memdir.interfaces.hook_events import answer_prompt as handle
    elif event is HookEvent.START:
        from memdir.interfaces.hook_events import answer_start as handle
    elif event in (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL):
        from memdir.interfaces.hook_events import answer_tool as handle
    elif event is HookEvent.AGENT:
        from memdir.interfaces.hook_events import answer_agent as handle
    else:
        from memdir.interfaces.hook_events import answer_end as handle
    handle(given, ready)


def _note(ready: HookOutput, event: HookEvent, error: Exception) -> None:

    tell_trouble(ready, event, error)


def _note_late(event: HookEvent, ready: HookOutput, seconds: float) -> None:
    """Say that the deadline has come. The disk may be what hangs: that is not waited for either."""
    said = _thread.allocate_lock()
    said.acquire()
    late = TimeoutError(f"it took longer than {seconds:g} s")
    _thread.start_new_thread(_tell_late, (ready, event, late, said.release))
    said.acquire(timeout=_NOTE_SECONDS)


def _tell_late(ready: HookOutput, event: HookEvent, late: Exception, done: Callable[[], object]) -> None:
    try:
        _note(ready, event, late)
        if event is HookEvent.PROMPT and ready.cwd is not None:
            # Mostly there is more to be read into the index than a prompt has time for: a worker does it.
            from memdir.files import start_detached

            start_detached(ready.cwd, "worker")
    except OSError:
        pass  # no process can be started; the next one may
    finally:
        done()


def _write(line: str) -> None:
    """One line, by the system's own call: nothing is left in a buffer for a process that ends without ceremony."""
    # Without a standard output, its number may by now be that of any file.
    data = line.encode("ascii") + b"\n" if line and sys.stdout is not None else b""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        pass  # the host has gone, or its disk is full


def _complain(argv: list[str]) -> None:
    words = f"memdir: no hook is meant by {' '.join(argv)!r}; `memdir hook --help` tells which there are\n"
    try:
        os.write(2, words.encode("utf-8", "replace"))
    except OSError:
        pass


# --- opening ---
# The memory of the place a hook is called in, with the call noted; and what comes before it is opened.


@contextmanager
def open_here(given: HookInput, ready: "HookOutput") -> Iterator[Project | None]:
    """Everything open; None where memory is off. That the event arrived is noted at the end: `starting` reads it."""
    opened = open_project(given.cwd)
    try:
        ready.state, ready.patience = opened.private.state, opened.settings.number("hook_patience")
        yield opened if opened.places.switch.on else None
        if opened.places.switch.on:
            note_event(ready.state, given.host.key, given.event.value, opened.now())
    finally:
        opened.close()


# --- troubles ---
# What went wrong in a hook: noted where it will be seen. At the start of a session the person is told at once.


def tell_trouble(ready: "HookOutput", event: HookEvent, error: Exception) -> None:
    """Note it; never raises. Where the place itself could not be opened, the note goes to the person's own state."""
    text = str(error) if isinstance(error, MemdirError | TimeoutError) else f"{type(error).__name__}: {error}"
    try:
        if event is HookEvent.START and isinstance(error, MemdirError) and ready.answer == HookReply():
            hint = f"; {error.hint}" if error.hint else ""
            ready.answer = HookReply(message=f"memdir is not at work here: {text}{hint}")
        environment = read_environment()
        now = environment.now or datetime.now(UTC)
        note_problem(ready.state or environment.state_home, ready.host.key, f"{event.value}: {text}", now)
    except (MemdirError, OSError):
        pass  # not even a home is known: there is nobody to tell
