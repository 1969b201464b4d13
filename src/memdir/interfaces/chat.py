"""`memdir chat`: the reference host of memory, and the command a newcomer runs first.

This module contains the state of a chat and its loop, which reads a line, handles it as a command or message, and shows
the result. `chat_terminal` is input and output, `chat_commands` the /commands and the assistant without a model, and
`chat_model` a turn with a model. They make no decisions about memory: `memdir.session.Session` does.

Ctrl-C stops a turn or clears the line; pressing it twice in a row ends the chat, as Ctrl-D does. If the lines come from a
file or pipe, the chat asks no questions.
"""

import gc
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from importlib import import_module
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdir.errors import DiskError, FormatError, MemdirError
from memdir.frozen import dataclass, replace
from memdir.interfaces import chat_terminal
from memdir.interfaces.chat_terminal import Permissions, Screen, Terminal, play_lines
from memdir.interfaces.cli import is_terminal
from memdir.records import Message, Model, Usage
from memdir.store.open import Project, open_project
from memdir.text import one_line, replace_surrogates, shorten

if TYPE_CHECKING:
    from memdir.extraction import ExtractResult
    from memdir.session import Session, SkipReason

# One call of the command line: arguments, environment, directory -> exit code.
RunVerb = Callable[..., int]
_MORNING = timedelta(hours=9)  # the time of day that /now sets if the user names only a date
_SETTLED_SECONDS = 0.2
_ANEW = "A new conversation begins here."
_NO_MODEL = (
    "No model is chosen, so memory answers alone: tell me things, ask about them later. `/model claude-cli` or another"
    " NAME adds a model for this chat, `memdir config set model NAME` for good."
)
_ORIENTATION = """memdir chat: an assistant that remembers what you tell it, in plain files.

  memdir chat                    talk to it in a terminal
  memdir chat --script FILE      play the lines of a file; /now 2026-03-02 sets the day
  memdir demo                    three days in a few seconds, in a temporary folder
  echo "remember that we deploy on Tuesdays" | memdir chat"""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    script: str | None = None
    model: str | None = None
    allowed: tuple[str, ...] = ()
    private: bool = False
    as_json: bool = False
    color: str = "auto"
    directory: Path | None = None


def chat(*, cwd: Path, variables: Mapping[str, str] | None, run_verb: RunVerb, spec: str | None, **options: Any) -> int:
    """Run a chat and return the exit code; `options` are fields of ChatOptions."""
    gc.enable()  # other commands run without the garbage collector, but a chat may run for hours
    try:
        return Chat(ChatOptions(model=spec, **options), cwd=cwd, variables=variables, run_verb=run_verb).run()
    except BrokenPipeError:
        # Nobody reads the output any more; redirect it so that the interpreter's last flush does not fail.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 0


class ChatClock:
    """A clock that shows the real time until a day is set, and then continues from that day."""

    def __init__(self, real: Callable[[], datetime]) -> None:
        self._real, self._since = real, 0.0
        self.day: datetime | None = None

    def __call__(self) -> datetime:
        if self.day is None:
            return self._real()
        return self.day + timedelta(seconds=time.monotonic() - self._since)

    def set(self, text: str) -> None:
        """Set the clock to an ISO date, with or without a time. Raises FormatError if it is invalid."""
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            value = shorten(one_line(text), 40)
            raise FormatError(f"{value!r} is not a date", field="now", hint="for example /now 2026-03-02") from None
        if len(text.strip()) <= len("2026-03-02"):
            moment += _MORNING
        self.day = moment if moment.tzinfo else moment.astimezone()
        self._since = time.monotonic()


class ChatTalk:
    """The state of one chat. The session opens on first use, so that the prompt appears without waiting for memory.

    `variables` replaces the process environment unless it is None; `run_verb` calls the command line.
    """

    def __init__(
        self, options: ChatOptions, screen: Screen, permissions: Permissions, *,
        cwd: Path, variables: Mapping[str, str] | None, run_verb: RunVerb,
    ) -> None:  # fmt: skip
        self.options, self.screen, self.permissions, self.cwd = options, screen, permissions, cwd
        self._variables, self._run_verb = variables, run_verb
        self.id = os.urandom(16).hex()
        self.project, self.clock = self._open(None)
        self.messages: list[Message] = []
        self.learned: list[ExtractResult] = []  # from the last turn, for the assistant without a model
        self.length = 0  # tokens of the last request and its reply
        self.spent: dict[str, Usage] = {}
        self.spec = options.model or self.project.settings.text("model")
        self._session: Session | None = None
        self._model: Model | None = None

    @property
    def has_model(self) -> bool:
        return self.spec.strip() != "none" and not self.project.environment.inside

    @property
    def session(self) -> "Session":
        if self._session is None:
            from memdir.session import Callbacks, Session

            callbacks = Callbacks(
                saved=self._show_saved, skipped=self._show_skipped, cost=self.add_cost, error=self.show_error
            )
            self._session = Session(
                self.project, id=self.id, cwd=self.cwd, callbacks=callbacks, clock=self.clock, keeps_index=True
            )
            try:
                self._session.set_model(self.model)
            except MemdirError:
                self._session.set_model(None)  # the error is shown when the model is asked
            if self.options.private:
                self._session.set_private()
        return self._session

    @property
    def model(self) -> Model | None:
        """Return the model, which is opened on first use and may raise ModelError or SettingsError then."""
        if self._model is None and self.has_model:
            from memdir.models.open import open_model

            environment, root = self.project.environment, str(self.project.places.root.path)
            self._model = open_model(self.spec, environment=environment, settings=self.project.settings, project=root)
        return self._model

    def set_model(self, spec: str) -> None:
        before, self.spec, self._model = (self.spec, self._model), spec, None
        try:
            self.session.set_model(self.model)
        except MemdirError:
            self.spec, self._model = before
            raise

    def add(self, message: Message) -> None:
        """Add a message to the conversation, with an ID for the extraction cursor."""
        self.messages.append(replace(message, id=str(uuid.uuid4()), at=message.at or self.clock()))

    def add_cost(self, usage: Usage, purpose: str) -> None:
        from memdir.models.connection import sum_usage

        self.spent[purpose] = sum_usage(self.spent.get(purpose, Usage()), usage)

    def clear(self) -> None:
        from memdir.format.shown import wrap

        self.session.clear()
        self._begin_anew(wrap(_ANEW) if self.messages else "")

    def compact(self) -> bool:
        if text := self.session.compact(self.messages):
            self._begin_anew(text)
        return bool(text)

    def _begin_anew(self, text: str) -> None:
        self.messages, self.length = [], 0
        if text:
            self.add(Message("user", text, is_meta=True))

    def reopen(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
        self.project.close()
        self.project, _ = self._open(self.clock)

    def set_day(self, text: str) -> None:
        """Wait for the current day's extraction, then set the clock to another day."""
        if self._session is not None:
            self._session.wait()
        self.clock.set(text)

    def run_verb(self, *argv: str) -> int:
        """Run a CLI command in this project, using this chat's clock."""
        self.screen.flush()
        environ = dict(self.project.environment.inherited)
        if self.clock.day is not None:
            environ["MEMDIR_NOW"] = self.clock().isoformat()
        directory = [] if self.options.directory is None else ["--dir", str(self.options.directory)]
        words = [*directory, "--color", self.options.color, *argv]
        if not self.screen.as_json:
            return self._run_verb(words, environ=environ, cwd=self.cwd)
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = self._run_verb(words, environ=environ, cwd=self.cwd)
        for kind, text in (("output", out.getvalue()), ("error", err.getvalue())):
            if text:
                self.screen.show(kind, text.rstrip("\n"))
        return code

    def close(self) -> bool:
        """Wait for background extraction and return whether it finished."""
        is_complete = True
        if self._session is not None:
            if not self._session.wait(0):
                self.screen.show("notice", "Finishing what is being learned. Ctrl-C leaves it.")
            is_complete = self._session.close()
        self.screen.flush()
        self.project.close()
        return is_complete

    def show_error(self, error: MemdirError) -> None:
        self.screen.show("error", f"{error}; {error.hint}" if error.hint else str(error), hint=error.hint or "")

    def _open(self, clock: ChatClock | None) -> tuple[Project, ChatClock]:
        project = open_project(self.cwd, environ=self._variables, directory=self.options.directory)
        clock = clock or ChatClock(project.clock)
        for store in project.stores:
            store.clock = clock
        return replace(project, clock=clock), clock

    def _show_saved(self, done: "ExtractResult") -> None:
        self.learned.append(done)
        facts = {"written": list(done.written), "forgotten": list(done.forgotten), "waiting": list(done.waiting)}
        self.screen.show("saved", done.notice, **facts)

    def _show_skipped(self, what: str, reason: "SkipReason") -> None:
        if self.screen.as_json:
            self.screen.show("skipped", reason.words, what=what, reason=reason.value)


class Chat:
    def __init__(
        self, options: ChatOptions, *, cwd: Path, variables: Mapping[str, str] | None, run_verb: RunVerb
    ) -> None:
        self._options, self._cwd, self._variables, self._run_verb = options, cwd, variables, run_verb
        self._is_played = options.script is not None or not (is_terminal(sys.stdin) and is_terminal(sys.stdout))
        color = chat_terminal.has_color(options.color, variables)
        self.screen = Screen(as_json=options.as_json, color=color, echoes=self._is_played)

    def run(self) -> int:
        if not self._is_played:
            terminal = Terminal(self.screen)
            permissions = Permissions(lambda question: _ask(terminal, question), self._options.allowed)
            self._talk(permissions, _read_lines(terminal, self.screen))
            return 0
        lines = _read_script(self._options.script)
        if (first := next(lines, None)) is None:
            self.screen.show("output", _ORIENTATION)
        else:
            self._talk(Permissions(allowed=self._options.allowed), chain([first], lines))
        return 0

    def _talk(self, permissions: Permissions, lines: Iterable[str]) -> None:
        talk = ChatTalk(
            self._options, self.screen, permissions, cwd=self._cwd, variables=self._variables, run_verb=self._run_verb
        )
        self._welcome(talk)
        leaving = threading.Event()
        warm = threading.Thread(target=_warm_up, args=(talk, leaving), name="memdir-warm", daemon=True)
        if not self._is_played:
            warm.start()
        try:
            for line in lines:
                if self._is_played:
                    self.screen.show("heard", line)
                if not handle(talk, line):
                    break
        finally:
            leaving.set()
            if not self._is_played:
                warm.join()
            if not talk.close():
                self.screen.show("warning", "not everything was learned in time; the next turn here continues")
            self.screen.show("end", "", session=talk.id)

    def _welcome(self, talk: ChatTalk) -> None:
        root, switch = talk.project.places.root.path, talk.project.places.switch
        lines = [f"memdir chat in {root}; /help lists the commands, `memdir ui` shows the memory."]
        if not switch.on:
            lines.append(f"Memory is off here ({switch.rule}): nothing is remembered.")
        elif not talk.has_model:
            lines.append(_NO_MODEL)
        model = talk.spec if talk.has_model else None
        self.screen.show("start", "\n".join(lines), session=talk.id, model=model, project=str(root))


def handle(talk: ChatTalk, line: str) -> bool:
    """Handle one line; return whether the chat continues."""
    # Imported here: the prompt is on the screen before all of memory is loaded.
    from memdir.interfaces.chat_commands import QuitChat, answer_from_memory, find_command, run_command

    line = replace_surrogates(line)  # a terminal may pass invalid Unicode
    try:
        if (command := find_command(line)) is not None:
            run_command(talk, *command)
        elif (model := talk.model) is None:
            answer_from_memory(talk, line)
        else:
            from memdir.interfaces.chat_model import take_model_turn

            with _cancelling() as cancelled:
                take_model_turn(talk, model, line, cancelled)
    except QuitChat:
        return False
    except MemdirError as error:
        talk.show_error(error)
    talk.screen.flush()
    return True


@contextmanager
def _cancelling() -> Iterator[Callable[[], bool]]:
    """Stop the turn at the first Ctrl-C within this context, and end the chat at the second."""
    stop = threading.Event()

    def interrupt(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _read_lines(terminal: Terminal, screen: Screen) -> Iterator[str]:
    interrupts = 0
    while True:
        try:
            line = terminal.read()
        except KeyboardInterrupt:
            interrupts += 1
            sys.stdout.write("\n")
            if interrupts > 1:
                return
            screen.show("notice", "Ctrl-C once more ends the chat.")
            continue
        except EOFError:
            sys.stdout.write("\n")
            return
        interrupts = 0
        if line.strip():
            yield line


def _ask(terminal: Terminal, question: str) -> str:
    # In the middle of a turn; Ctrl-C there stops the turn.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return terminal.ask(question)
    except KeyboardInterrupt:
        raise chat_terminal.StoppedAsking from None
    finally:
        signal.signal(signal.SIGINT, before)


def _warm_up(talk: ChatTalk, leaving: threading.Event) -> None:
    """Import the modules for the first message while the user types; import SDKs only after the prompt appears."""
    import_module("memdir.interfaces.chat_commands")
    if talk.has_model and not leaving.wait(_SETTLED_SECONDS):
        import_module("memdir.interfaces.chat_model")
        import_module("memdir.models.open").load_sdk(talk.spec)


def _read_script(path: str | None) -> Iterator[str]:
    if path is None or path == "-":
        yield from play_lines(line.decode("utf-8", "replace") for line in sys.stdin.buffer)
        return
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from play_lines(file)
    except OSError as error:
        problem = f"cannot read {path}: {(error.strerror or '').lower()}"
        raise DiskError(problem, path=path, hint="pass a text file, or - for standard input") from error
