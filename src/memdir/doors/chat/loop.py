"""The chat itself: a line comes, it is a command or a message, and what follows is shown; until there are no more.

A person's Ctrl-C stops a turn, or clears the line; two in a row end the chat, as Ctrl-D does. Played lines have nobody
who could interrupt, and nobody who could be asked.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from memdir.doors.chat.allowing import Permissions, StoppedAsking
from memdir.doors.chat.reading import Interrupted, Terminal, is_terminal, play_lines
from memdir.doors.chat.screen import Screen
from memdir.doors.chat.talk import RunVerb, Talk
from memdir.doors.chat.transcript import find_kept, list_inputs, list_kept
from memdir.doors.chat.wishes import Wish
from memdir.errors import DiskError, MemdirError
from memdir.opening import open_places
from memdir.settings import read_environment
from memdir.text import replace_surrogates

_LISTED = 10
_SETTLED_SECONDS = 0.2
_NO_MODEL = (
    "No model is chosen, so memory answers alone: tell me things, ask about them later. `/model claude-cli` or another"
    " NAME adds a model for this chat, `memdir config set model NAME` for good."
)
_ORIENTATION = """memdir chat: an assistant that remembers what you tell it, in plain files.

  memdir chat                    talk to it in a terminal
  memdir chat --script FILE      play the lines of a file; /now 2026-03-02 sets the day
  memdir demo                    three days in a few seconds, in a temporary folder
  echo "remember that we deploy on Tuesdays" | memdir chat"""


class Chat:
    """One call of `memdir chat`."""

    def __init__(self, wish: Wish, *, cwd: Path, variables: Mapping[str, str] | None, run_verb: RunVerb) -> None:
        self._wish, self._cwd, self._variables, self._run_verb = wish, cwd, variables, run_verb
        self._is_played = wish.script is not None or not (is_terminal(sys.stdin) and is_terminal(sys.stdout))
        environment = read_environment(variables)
        wanted = wish.color == "always" or (
            wish.color == "auto" and is_terminal(sys.stdout) and not environment.no_color
        )
        self.screen = Screen(as_json=wish.as_json, color=wanted, echoes=self._is_played)

    def run(self) -> int:
        if self._wish.lists:
            self._list()
            return 0
        lines = _read_script(self._wish.script) if self._is_played else None
        if lines is not None:
            first = next(lines, None)
            if first is None:
                self.screen.tell("output", _ORIENTATION)
                return 0
            self._play(self._open(Permissions(allowed=self._wish.allowed)), _chain(first, lines))
        else:
            self._converse()
        return 0

    def _list(self) -> None:
        """The conversations that can be resumed here."""
        opened = open_places(self._cwd, environ=self._variables, directory=self._wish.directory)
        kept = list_kept(opened.private.state, _LISTED)
        opened.close()
        for at in kept:
            time = at.at.isoformat(timespec="seconds")
            self.screen.tell("output", f"{at.id[:8]}  {time}  {at.title}", session=at.id)
        if not kept:
            self.screen.tell("notice", "There is no conversation to resume here.")

    # --- lines that are played ----------------------------------------------------------------------------------------

    def _play(self, talk: Talk, lines: Iterable[str]) -> None:
        self._welcome(talk)
        try:
            for line in lines:
                talk.screen.tell("heard", line)
                if not handle(talk, line):
                    break
        finally:
            self._leave(talk)

    # --- a person -----------------------------------------------------------------------------------------------------

    def _converse(self) -> None:
        terminal = Terminal(self.screen, lambda line, word: _complete(talk, line, word))
        talk = self._open(Permissions(lambda question: _ask(terminal, question), self._wish.allowed))
        self._welcome(talk)
        terminal.remember(list_inputs(talk.opened.private.state))
        leaving = threading.Event()
        warm = threading.Thread(target=_warm_up, args=(talk, leaving), name="memdir-warm", daemon=True)
        warm.start()
        dreaming = None
        try:
            with terminal.attending():
                for line in _read_lines(terminal, self.screen):
                    if not handle(talk, line):
                        break
                    if talk.is_open:
                        dreaming = dreaming or import_module("memdir.doors.chat.dreaming").Dreaming(talk)
                        dreaming.begin_if_due()
        finally:
            leaving.set()
            warm.join()
            if dreaming is not None:
                dreaming.leave()
            self._leave(talk)

    def _open(self, permissions: Permissions) -> Talk:
        id = os.urandom(16).hex()
        if self._wish.resume is not None:
            opened = open_places(self._cwd, environ=self._variables, directory=self._wish.directory)
            id = find_kept(opened.private.state, self._wish.resume)
            opened.close()
        talk = Talk(
            self._wish, self.screen, permissions, id=id, cwd=self._cwd, variables=self._variables,
            run_verb=self._run_verb,
        )  # fmt: skip
        if self._wish.resume is not None:
            talk.messages += talk.transcript.resume()
        return talk

    def _welcome(self, talk: Talk) -> None:
        root = talk.opened.places.root.path
        lines = [f"memdir chat in {root}; /help lists the commands."]
        if talk.messages:
            said = sum(message.role == "user" and not message.is_meta for message in talk.messages)
            lines.append(f"Going on with conversation {talk.id[:8]}: {said} of your messages.")
        if not talk.opened.places.switch.on:
            lines.append(f"Memory is off here ({talk.opened.places.switch.rule}): nothing is remembered.")
        elif not talk.has_model:
            lines.append(_NO_MODEL)
        model = talk.spec if talk.has_model else None
        self.screen.tell("start", "\n".join(lines), session=talk.id, model=model, project=str(root))

    def _leave(self, talk: Talk) -> None:
        done = talk.close()
        if not done:
            self.screen.tell("warning", "not everything was learned in time; the next turn here goes on with it")
        self.screen.tell("end", "", session=talk.id)


def handle(talk: Talk, line: str) -> bool:
    """One line; answers whether to go on."""
    # Imported here: the prompt is on the screen before these rooms, and all of memory behind them, are loaded.
    from memdir.doors.chat.commands import Quit, find_command, run_command

    line = replace_surrogates(line)  # a terminal lets bytes through that are no text
    try:
        command = find_command(line)
        if command is not None:
            run_command(talk, *command)
        else:
            _take_turn(talk, line)
    except Quit:
        return False
    talk.screen.flush()
    return True


def _take_turn(talk: Talk, text: str) -> None:
    try:
        model = talk.model
        if model is None:
            from memdir.doors.chat.remembering import take_turn as answer_alone

            answer_alone(talk, text)
            return
        from memdir.doors.chat.turning import take_turn

        with _cancelling() as cancelled:
            take_turn(talk, model, text, cancelled)
    except MemdirError as error:
        talk.tell_error(error)


@contextmanager
def _cancelling() -> Iterator[Callable[[], bool]]:
    """While it lasts, the first Ctrl-C asks to stop, and the second leaves everything."""
    stop = threading.Event()

    def hear(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield stop.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _read_lines(terminal: Terminal, screen: Screen) -> Iterator[str]:
    interrupts = 0
    while True:
        try:
            line = terminal.read()
        except Interrupted:
            interrupts += 1
            sys.stdout.write("\n")
            if interrupts > 1:
                return
            screen.tell("notice", "Ctrl-C once more ends the chat.")
            continue
        except EOFError:
            sys.stdout.write("\n")
            return
        interrupts = 0
        if line.strip():
            yield line


def _ask(terminal: Terminal, question: str) -> str:
    """Put a question in the middle of a turn; Ctrl-C there stops the turn."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return terminal.ask(question)
    except KeyboardInterrupt:
        raise StoppedAsking from None
    finally:
        signal.signal(signal.SIGINT, before)


def _warm_up(talk: Talk, leaving: threading.Event) -> None:
    """Load, while the person types, what the first line needs; a vendor's SDK when the prompt is surely there."""
    import_module("memdir.doors.chat.commands")
    if talk.has_model and not leaving.wait(_SETTLED_SECONDS):
        import_module("memdir.doors.chat.turning")
        import_module("memdir.models").load_sdk(talk.spec)


def _complete(talk: Talk, line: str, word: str) -> list[str]:
    from memdir.doors.chat.commands import complete

    return complete(talk, line, word)


def _read_script(path: str | None) -> Iterator[str]:
    if path is None or path == "-":
        yield from play_lines(line.decode("utf-8", "replace") for line in sys.stdin.buffer)
        return
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from play_lines(file)
    except OSError as error:
        problem = f"cannot read {path}: {(error.strerror or '').lower()}"
        raise DiskError(problem, path=path, hint="--script takes a text file, or - for standard input") from error


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
