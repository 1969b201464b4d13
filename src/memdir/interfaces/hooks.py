"""Hooks: coding agents call `memdir hook EVENT` at every turn of a conversation.

A hook never fails its host: the exit code is 0, and the output is one line of JSON or nothing. The work is done in a
second thread. At the deadline the reply is sent as far as it is ready, and the process ends. Problems are recorded for
`doctor` and for the next start of a session.

This process starts at every prompt, so modules are imported only when the event needs them. The prompt event is handled
here, the others in `hook_events`.
"""

import _thread
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdir.errors import FormatError, MemdirError
from memdir.files import start_detached
from memdir.frozen import dataclass
from memdir.limits import (
    HOOK_CHARS,
    HOOK_PROMPT_SECONDS,
    HOOK_SECONDS,
    HOOK_START_SECONDS,
    HOOK_TOKENS,
)
from memdir.project.hosts import (
    CLAUDE_CODE,
    COPILOT,
    GEMINI,
    HookEvent,
    Host,
    ReplyStyle,
    find_event,
    find_host,
    find_name,
)
from memdir.project.settings import Environment, read_environment
from memdir.store.sessions import SessionFile
from memdir.store.state import LATE, note_event, note_problem, take_saved
from memdir.text import cut_middle, estimate_tokens, one_line, shorten

if TYPE_CHECKING:
    from memdir.recall.pipeline import RecallResult
    from memdir.records import Excerpt
    from memdir.store.open import Project

_SECONDS = {
    HookEvent.PROMPT: HOOK_PROMPT_SECONDS,
    HookEvent.BEFORE_TOOL: HOOK_PROMPT_SECONDS,
    HookEvent.AFTER_TOOL: HOOK_PROMPT_SECONDS,
    HookEvent.TOOL_FAILURE: HOOK_PROMPT_SECONDS,
    HookEvent.START: HOOK_START_SECONDS,
}
_MOST_PATIENCE = 300.0
_PROMPT_CHARS = 262_144  # recall uses less, but text that the host added is removed first
_NOTE_SECONDS = 0.25  # how long a late process may take to record that it was late
_GAP = "\n\n"
_TITLES, _TITLE_CHARS = 4, 60  # in the line for the user
# Events whose reply no host reads.
_SILENT = frozenset((HookEvent.STOP, HookEvent.COMPACT, HookEvent.END))


@dataclass(frozen=True, slots=True)
class HookInput:
    """The input of a hook call. Text fields that the host did not send are empty."""

    event: HookEvent
    host: Host
    environment: Environment
    cwd: Path
    table: Mapping[str, object]

    @property
    def patience(self) -> float:
        """Return the deadline factor from the environment; the project's settings are read later."""
        try:
            return float(self.environment.variables.get("hook_patience", ""))
        except ValueError:
            return 1.0

    @property
    def session(self) -> str:
        return self.text("session_id", "sessionId")

    @property
    def is_subagent(self) -> bool:
        return bool(self.text("agent_id"))

    @property
    def is_headless(self) -> bool:
        """Return whether the agent runs non-interactively; only Claude Code reports this."""
        return self.host is CLAUDE_CODE and self.environment.entrypoint.startswith("sdk")

    def text(self, *keys: str) -> str:
        """Return the first of these fields that contains text."""
        return next((value for key in keys if isinstance(value := self.table.get(key), str) and value), "")

    def find_tool_input(self) -> Mapping[str, object]:
        value = self.table.get("tool_input")
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class HookReply:
    """The reply: `context` for the model, `message` for the user, `refused` as the reason to block a tool, `asked` as the
    reason to ask the user first."""

    context: str = ""
    message: str = ""
    refused: str = ""
    asked: str = ""


class HookOutput:
    """State shared by the two threads. `patience` multiplies the deadline once it is known; `kept` is the file in which
    `__main__` saved an ended turn."""

    def __init__(self, host: Host, kept: str = "") -> None:
        self.kept = kept
        self.reply = HookReply()
        self.state: Path | None = None  # where problems are recorded
        self.cwd: Path | None = None
        self.host = host
        self.patience = 1.0


def run_hook(argv: list[str], table: Mapping[str, object] | None, *, kept: str = "") -> int:
    """Run one hook and write the reply to standard output; the exit code is always 0. `table` is the host's input, None
    if it is not a JSON object; `kept` names a saved turn."""
    host, event = _parse_arguments(argv)
    if host is None or event is None:
        text = f"memdir: unknown hook {' '.join(argv)!r}; `memdir hook --help` lists the hooks\n"
        _write(2, text.encode("utf-8", "replace"))
        return 0
    output, latch = HookOutput(host, kept), _thread.allocate_lock()
    latch.acquire()
    seconds = _SECONDS.get(event, HOOK_SECONDS)
    try:
        _thread.start_new_thread(_run, (event, output, table, latch.release))
        in_time = latch.acquire(timeout=seconds)
        more = seconds * min(output.patience, _MOST_PATIENCE) - seconds
        if not in_time and more > 0:
            in_time = latch.acquire(timeout=more)
        line = render_reply(output.reply, event, output.host)
        # If standard output is closed, its file descriptor may belong to another file.
        _write(1, line.encode("ascii") + b"\n" if line and sys.stdout is not None else b"")
        if not in_time:
            _note_late(event, output, seconds)
    except (KeyboardInterrupt, RuntimeError):  # Ctrl-C reaches hooks, too; or no thread could be started
        pass
    return 0


def render_reply(reply: HookReply, event: HookEvent, host: Host) -> str:
    """Return one line of ASCII, or nothing if there is no reply or the host ignores it.

    Contains only fields that every documented version of the host supports, because Codex rejects unknown ones.
    """
    if event in _SILENT:
        return ""
    table: dict[str, Any] = {}
    specific: dict[str, Any] = {}
    if reply.message:
        table["systemMessage"] = reply.message
    if reply.context and event in host.shows_after:
        specific["additionalContext"] = reply.context
    if (reason := reply.refused or reply.asked) and event is HookEvent.BEFORE_TOOL:
        # A host that cannot ask refuses with the reason.
        decision = "ask" if reply.asked and host.can_ask and not reply.refused else "deny"
        if host.style is ReplyStyle.GEMINI:
            table |= {"decision": decision, "reason": reason}
        else:
            specific |= {"permissionDecision": decision, "permissionDecisionReason": reason}
    if specific and host.style is ReplyStyle.COPILOT:
        table |= specific
    if specific:
        table["hookSpecificOutput"] = {"hookEventName": find_name(event, host), **specific}
    return json.dumps(table) if table else ""


@contextmanager
def open_hook_project(call: HookInput, output: HookOutput) -> "Iterator[Project | None]":
    """Open the project of a call, or return None if memory is off. Records the event last, because `handle_start` reads
    the previous one."""
    # Imported here, because most tool calls do not need a store.
    from memdir.store.open import open_project

    project = open_project(call.cwd)
    is_on = project.places.switch.on
    try:
        output.state, output.patience = project.private.state, project.settings.number("hook_patience")
        yield project if is_on else None
        if is_on:
            note_event(output.state, call.host.key, call.event.value, project.now())
    finally:
        project.close()


def _parse_arguments(argv: list[str]) -> tuple[Host | None, HookEvent | None]:
    words = [word for text in argv for word in (text.split("=", 1) if text.startswith("--host=") else [text])]
    name = "claude-code"
    if "--host" in words[:-1]:
        option_index = words.index("--host")
        name = words[option_index + 1]
        del words[option_index : option_index + 2]
    host = find_host(name)
    return host, find_event(words[0], host) if host and len(words) == 1 else None


def _run(event: HookEvent, output: HookOutput, table: Mapping[str, object] | None, done: Callable[[], object]) -> None:
    try:
        call = _parse_input(event, output.host, table)
        if call is None:
            return
        output.host, output.patience, output.cwd = call.host, call.patience, call.cwd
        if event is HookEvent.PROMPT:
            _handle_prompt(call, output)
        elif event is HookEvent.BEFORE_TOOL:
            from memdir.interfaces.hook_tools import handle_before

            handle_before(call, output)
        elif event in (HookEvent.AFTER_TOOL, HookEvent.TOOL_FAILURE):
            from memdir.interfaces.hook_tools import handle_after

            handle_after(call, output)
        else:
            from memdir.interfaces.hook_events import HANDLERS

            HANDLERS[event](call, output)
        if output.kept:  # the turn is queued, or does not need to be
            with suppress(FileNotFoundError):  # a worker was quicker
                os.unlink(output.kept)
    except Exception as error:
        # A hook must not disturb its host, so only record the error.
        _note_error(output, event, error)
    finally:
        done()


def _parse_input(event: HookEvent, host: Host, table: Mapping[str, object] | None) -> HookInput | None:
    """Find host and directory of a call. Returns None in a program that memdir started. Raises FormatError without input."""
    environment = read_environment()
    if environment.inside:
        return None
    if table is None:
        raise FormatError("hook input is not a JSON object", hint="`memdir doctor` checks the installation")
    if host is CLAUDE_CODE and "sessionId" in table and "session_id" not in table:
        host = COPILOT  # VS Code also runs the hooks in Claude Code's settings
    # The directory in which the conversation began: its memory stays the same when the agent changes directory. One
    # host may run inside another, so the variable is read only for hosts that set it.
    began = environment.project_dir if host in (CLAUDE_CODE, GEMINI) else ""
    for folder in (began, table.get("cwd")):
        if isinstance(folder, str) and os.path.isabs(folder) and "\0" not in folder and os.path.isdir(folder):
            return HookInput(event, host, environment, Path(folder), table)
    return HookInput(event, host, environment, Path.cwd(), table)


def _write(descriptor: int, data: bytes) -> None:
    """Write without buffering, because the process exits without flushing."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass  # the host has gone, or its disk is full


def _note_error(output: HookOutput, event: HookEvent, error: Exception) -> None:
    """Record an error, in the user's state folder if no project is open; at the start of a session, also show it."""
    text = str(error) if isinstance(error, MemdirError | TimeoutError) else f"{type(error).__name__}: {error}"
    try:
        if event is HookEvent.START and isinstance(error, MemdirError) and output.reply == HookReply():
            hint = f"; {error.hint}" if error.hint else ""
            output.reply = HookReply(message=f"memdir is not at work here: {text}{hint}")
        environment = read_environment()
        now = environment.now or datetime.now(UTC)
        note_problem(output.state or environment.state_home, output.host.key, f"{event.value}: {text}", now)
    except (MemdirError, OSError):
        pass  # not even a home directory is known


def _note_late(event: HookEvent, output: HookOutput, seconds: float) -> None:
    """Record a missed deadline in a separate thread, because the disk may be unresponsive."""
    latch = _thread.allocate_lock()
    latch.acquire()
    _thread.start_new_thread(record_late, (event, output, seconds, latch.release))
    latch.acquire(timeout=_NOTE_SECONDS)


def record_late(event: HookEvent, output: HookOutput, seconds: float, done: Callable[[], object]) -> None:
    try:
        _note_error(output, event, TimeoutError(f"{LATE} {seconds:g} s"))
        if event is HookEvent.PROMPT and output.cwd is not None:
            # Usually the prompt timed out while it updated the index, so a worker updates it.
            start_detached(output.cwd, "worker")
    except OSError:
        pass  # no process can be started; the next hook may
    finally:
        done()


def _handle_prompt(call: HookInput, output: HookOutput) -> None:
    """Show the model memories relevant to the prompt, and with the first prompt the index if START did not."""
    from memdir.conversation.typed import strip_host_text
    from memdir.recall.pipeline import RecallSkip, leave_ranking, recall_in_project, take_selection
    from memdir.records import Moment
    from memdir.store.open import read_loaded_index

    text = strip_host_text(cut_middle(call.text("prompt"), _PROMPT_CHARS, "…"))
    with open_hook_project(call, output) as project:
        if project is None or not text:
            return
        index = _load_first_index(call, project, output) if HookEvent.START not in call.host.shows_after else ""
        index = index or _repeat_rules(call, project)
        if project.settings.flag("daily_log"):  # imported here, because few projects have a daily log
            from memdir.interfaces.hook_events import give_date

            index = _GAP.join(filter(None, (index, give_date(call, project))))
        saved = take_saved_titles(project)
        output.reply = HookReply(index, render_line((), saved))
        late: list[Excerpt] = []

        def show_late(recalled: "RecallResult") -> None:
            late[:] = recalled
            output.reply = render_recalled(project, late, index, saved)

        def show(recalled: "RecallResult") -> None:
            output.reply = render_recalled(project, [*recalled, *late], index, saved)

        if call.session:
            take_selection(project, call.session, show_late, Moment.LATE)
        last = recall_in_project(
            project,
            text,
            session=call.session,
            trusts=True,
            acts=bool({HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL} & set(call.host.shows_after)),
            is_message=True,
            read_index=lambda: read_loaded_index(project, call.host),
            on_found=show,
        )
        if call.session:
            with suppress(MemdirError):  # the actions of this turn then cannot be related to the prompt
                leave_ranking(SessionFile(project.private.state, call.session), last)
        if call.session and last.skipped in (None, RecallSkip.NOTHING_FITS):
            _start_selection(call, project, text)


def render_recalled(
    project: "Project", memories: "Sequence[Excerpt]", before: str = "", saved: Sequence[str] = ()
) -> HookReply:
    """Return the text for the model and the line for the user. The text is `before` and as many memories as fit the
    hook limits; the line lists the titles of recalled and saved memories."""
    titles = [excerpt.header.title for excerpt in memories] if project.settings.flag("visible") else []
    message = render_line(titles, saved)
    if not memories:
        return HookReply(before, message)
    # Imported here, because most prompts recall nothing.
    from memdir.recall.reminder import fit_memories, measure_reply, shorten_paths

    memories = shorten_paths(memories, project.environment.home)
    now, used = project.now().astimezone(), before and before + _GAP
    chars, tokens = HOOK_CHARS - measure_reply(used), HOOK_TOKENS - (estimate_tokens(used) if used else 0)
    return HookReply(used + fit_memories(memories, now=now, chars=chars, tokens=tokens), message)


def take_saved_titles(project: "Project") -> tuple[str, ...]:
    """Return titles saved in the background since the last call, or none if the setting `visible` is off."""
    return take_saved(project.private.state) if project.settings.flag("visible") else ()


def render_line(recalled: Sequence[str], saved: Sequence[str], reminded: Sequence[str] = ()) -> str:
    """Return one line for the user with the titles of the memories recalled, saved and shown for an action, or ""."""
    parts = []
    if reminded:
        parts.append(f"reminded of {_list_titles(reminded)}")
    if recalled:
        parts.append(f"recalled {len(recalled)} ({_list_titles(recalled)})")
    if saved:
        parts.append(f"saved {_list_titles([f'“{title}”' for title in saved])}")
    return f"memdir: {', '.join(parts)}" if parts else ""


def _list_titles(titles: Sequence[str]) -> str:
    more = f" and {len(titles) - _TITLES} more" if len(titles) > _TITLES else ""
    return ", ".join(shorten(one_line(title), _TITLE_CHARS) for title in titles[:_TITLES]) + more


def _start_selection(call: HookInput, project: "Project", text: str) -> None:
    """Start background selection if a model or encoder is configured; a later hook shows the result."""
    from memdir.recall.pipeline import selects_in_background
    from memdir.store.sessions import QUESTION

    if not selects_in_background(project):
        return

    question = {"text": text, "transcript": call.text("transcript_path"), "id": os.urandom(8).hex()}
    SessionFile(project.private.state, call.session).write_prompt(QUESTION, question)
    start_detached(call.cwd, "select", "--session", call.session)


def _repeat_rules(call: HookInput, project: "Project") -> str:
    """Return the standing rules in short form at every fortieth message of a conversation, else ""."""
    if not call.session or not SessionFile(project.private.state, call.session).is_rules_turn():
        return ""
    # Imported here, because few prompts need it.
    from memdir.conversation.start import repeat_rules

    return repeat_rules(project)


def _load_first_index(call: HookInput, project: "Project", output: HookOutput) -> str:
    # Imported here, because few hosts need it, and only once in a conversation.
    from memdir.interfaces.hook_events import load_index

    session = SessionFile(project.private.state, call.session)
    if not call.session or session.find_index():
        return ""
    index = load_index(call, project)
    output.reply = HookReply(index)
    session.note_index(index)
    return index
