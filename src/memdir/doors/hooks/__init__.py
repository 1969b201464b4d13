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
import os
import sys
from collections.abc import Callable
from pathlib import Path

from memdir.doors.hooks.answers import NOTHING, Answer, render_answer
from memdir.hosts.rows import Event, Host, find_event, find_host
from memdir.limits import HOOK_PROMPT_SECONDS, HOOK_SECONDS, HOOK_START_SECONDS

_SECONDS = {
    Event.PROMPT: HOOK_PROMPT_SECONDS,
    Event.BEFORE_TOOL: HOOK_PROMPT_SECONDS,
    Event.START: HOOK_START_SECONDS,
}
_MOST_PATIENCE = 300.0
_NOTE_SECONDS = 0.25  # how long a late process still tries to say that it was late, and to see that the next is not


class Ready:
    """What the two threads share: the answer as far as it goes, where problems are noted, and whose answer it is.

    `patience` is the person's setting, by which the deadline is multiplied as soon as it is known.
    """

    def __init__(self, host: Host) -> None:
        self.answer: Answer = NOTHING
        self.state: Path | None = None
        self.cwd: Path | None = None
        self.host = host
        self.patience = 1.0


def run(argv: list[str]) -> int:
    """One call of a hook; the answer goes to standard output, and the code is always 0."""
    host, event = _parse(argv)
    if host is None or event is None:
        _complain(argv)
        return 0
    ready, done = Ready(host), _thread.allocate_lock()
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


def _wait_on(ready: Ready, done: _thread.LockType, seconds: float) -> bool:
    """The rest of a deadline that somebody has made longer."""
    more = seconds * min(ready.patience, _MOST_PATIENCE) - seconds
    return more > 0 and done.acquire(timeout=more)


def _parse(argv: list[str]) -> tuple[Host | None, Event | None]:
    words = [word for at in argv for word in (at.split("=", 1) if at.startswith("--host=") else [at])]
    name = "claude-code"
    if "--host" in words[:-1]:
        at = words.index("--host")
        name = words[at + 1]
        del words[at : at + 2]
    host = find_host(name)
    return host, find_event(words[0], host) if host and len(words) == 1 else None


def _work(event: Event, ready: Ready, done: Callable[[], object]) -> None:
    try:
        _answer(event, ready)
    except Exception as error:
        # Nobody watches a hook, and its host must not suffer from it: what went wrong is noted, and that is all.
        _note(ready, event, error)
    finally:
        done()


def _answer(event: Event, ready: Ready) -> None:
    from memdir.doors.hooks.given import read_given

    given = read_given(event, ready.host)
    if given is None:
        return
    ready.host, ready.patience, ready.cwd = given.host, given.patience, given.cwd
    if event is Event.PROMPT:
        from memdir.doors.hooks.prompting import answer_prompt as act
    elif event is Event.START:
        from memdir.doors.hooks.starting import answer_start as act
    elif event in (Event.BEFORE_TOOL, Event.AFTER_TOOL):
        from memdir.doors.hooks.tooling import answer_tool as act
    elif event is Event.AGENT:
        from memdir.doors.hooks.agents import answer_agent as act
    else:
        from memdir.doors.hooks.ending import answer_end as act
    act(given, ready)


def _note(ready: Ready, event: Event, error: Exception) -> None:
    from memdir.doors.hooks.troubles import tell_trouble

    tell_trouble(ready, event, error)


def _note_late(event: Event, ready: Ready, seconds: float) -> None:
    """Say that the deadline has come. The disk may be what hangs: that is not waited for either."""
    said = _thread.allocate_lock()
    said.acquire()
    late = TimeoutError(f"it took longer than {seconds:g} s")
    _thread.start_new_thread(_tell_late, (ready, event, late, said.release))
    said.acquire(timeout=_NOTE_SECONDS)


def _tell_late(ready: Ready, event: Event, late: Exception, done: Callable[[], object]) -> None:
    try:
        _note(ready, event, late)
        if event is Event.PROMPT and ready.cwd is not None:
            # Mostly there is more to be read into the index than a prompt has time for: a worker does it.
            from memdir.detach import start_detached

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
