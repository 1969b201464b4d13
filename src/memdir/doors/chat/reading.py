"""Where lines come from: a person at a terminal, or a file or pipe that is played.

At a terminal GNU readline edits the line: history, Tab, and a paste of any size as one message. A line that ends with a
backslash goes on in the next one, and three quotes open a message that lasts until three quotes close it. Where the
library behind is libedit, which knows no pastes, lines that wait already when one is entered belong to it.

It does not know what a line means.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from memdir.doors.chat.screen import Screen, encode_for_screen

PROMPT, MORE = "> ", ". "
_QUOTES = '"""'
_WAITING_SECONDS = 0.02  # between two lines of one paste
_HISTORY = 1_000
_NUDGES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # seconds between one and the next
# One says that there is something to show; the other does nothing but end a wait.
_NEWS, _NUDGE = getattr(signal, "SIGUSR1", None), getattr(signal, "SIGUSR2", None)


class Interrupted(Exception):
    """Ctrl-C at the prompt."""


def play_lines(lines: Iterable[str]) -> Iterator[str]:
    """The messages of a script; an empty line is none."""
    source = iter(lines)
    for line in source:
        text = join_lines(line.rstrip("\r\n"), lambda: next(source).rstrip("\r\n"))
        if text.strip():
            yield text


def join_lines(line: str, read_more: Callable[[], str]) -> str:
    """A message that may go on over several lines; the end of the input ends it too."""
    found = [line]
    with contextlib.suppress(StopIteration, EOFError):
        if line.strip() == _QUOTES:
            found = []
            while (more := read_more()).strip() != _QUOTES:
                found.append(more)
        while found and found[-1].endswith("\\") and line.strip() != _QUOTES:
            found[-1] = found[-1][:-1]
            found.append(read_more())
    return "\n".join(found)


class Terminal:
    """A person. `complete` is given the text before the cursor and the word it ends in, and answers what fits."""

    def __init__(self, screen: Screen, complete: Callable[[str, str], Sequence[str]]) -> None:
        self._screen = screen
        self._complete = complete
        self._offered: Sequence[str] = ()
        self._is_waiting = self._shows_notices = self._is_showing = False
        self._main = threading.get_ident()
        self._number = 0  # of the prompt
        self._readline = _open_readline()
        if self._readline is not None:
            self._set_up(self._readline)

    def remember(self, lines: Iterable[str]) -> None:
        """Let the arrow keys bring these back, the last one first."""
        for line in lines:
            if self._readline is not None:
                self._readline.add_history(line)

    def read(self) -> str:
        """The next message; raises Interrupted or EOFError."""
        try:
            first = self._input(PROMPT)
            text = join_lines(first, lambda: self._input(MORE))
        except KeyboardInterrupt:
            raise Interrupted from None
        self.remember([text] if "\n" not in text and text.strip() else [])
        return text

    def ask(self, question: str) -> str:
        """A short answer to a question, empty for none; raises KeyboardInterrupt."""
        try:
            return self._wait(question).strip()
        except EOFError:
            return ""

    @contextlib.contextmanager
    def attending(self) -> Iterator[None]:
        """While it lasts, what threads tell is shown above an empty prompt at once, and no Ctrl-C goes unheard."""
        if _NEWS is None or _NUDGE is None:
            yield
            return
        before = [(number, signal.getsignal(number)) for number in (_NEWS, _NUDGE)]
        signal.signal(_NEWS, self._show_notices)
        signal.signal(_NUDGE, lambda *_: None)
        self._screen.on_queued = self._wake
        ears, mouth = socket.socketpair()
        mouth.setblocking(False)
        old = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=self._nudge, args=(ears, _NUDGE), name="memdir-keys", daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(old)
            mouth.close()
            thread.join()
            ears.close()
            self._screen.on_queued = lambda: None
            for number, handler in before:
                signal.signal(number, handler)

    def _wake(self) -> None:
        if self._shows_notices and _NEWS is not None:
            signal.pthread_kill(self._main, _NEWS)

    def _nudge(self, ears: socket.socket, nudge: int) -> None:
        """Python's readline acts on a signal only if it waits for a key just then, else when the next signal comes.

        So each signal is followed by some that do nothing, until the prompt is another one. Sending the signal itself
        once more would not do: a Ctrl-C that was heard after all would count as two.
        """
        while caught := ears.recv(64):
            if not caught.strip(bytes([nudge])):
                continue
            number = self._number
            for pause in _NUDGES:
                time.sleep(pause)
                if not self._is_waiting or self._number != number:
                    break
                signal.pthread_kill(self._main, nudge)

    def _show_notices(self, *_: object) -> None:
        """In the main thread, between two keys; also between two bytes of its own, as signals come when they like."""
        if self._is_showing or not self._shows_notices or self._readline is None or self._readline.get_line_buffer():
            return
        self._is_showing = True
        try:
            while notices := self._screen.take_queued():
                # Past Python's own buffer: what is in the middle of a write there cannot be called again.
                os.write(sys.stdout.fileno(), encode_for_screen(f"\r\x1b[K{notices}{PROMPT}"))
        finally:
            self._is_showing = False

    def _input(self, prompt: str) -> str:
        self._screen.flush()
        self._shows_notices = prompt == PROMPT
        try:
            line = self._wait(prompt)
        finally:
            self._shows_notices = False
        return "\n".join([line, *self._read_pasted()])

    def _wait(self, prompt: str) -> str:
        """One line; raises KeyboardInterrupt for a Ctrl-C, whichever way Python tells of it."""
        self._number += 1
        self._is_waiting = True
        try:
            return input(prompt)
        except SystemError as error:
            # Python runs the handler of a second signal while the exception of the first is set.
            if not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            raise KeyboardInterrupt from None
        finally:
            self._is_waiting = False

    def _read_pasted(self) -> Iterator[str]:
        """Lines that were there already when one was entered, where pastes cannot be told from typing."""
        if self._readline is not None and not _is_libedit(self._readline):
            return
        while select.select([sys.stdin], [], [], _WAITING_SECONDS)[0]:
            try:
                yield input()
            except EOFError:
                return

    def _set_up(self, readline: Any) -> None:
        readline.set_completer(self._offer)
        readline.set_completer_delims(" \t\n")
        readline.parse_and_bind("bind ^I rl_complete" if _is_libedit(readline) else "tab: complete")
        if not _is_libedit(readline):
            readline.parse_and_bind("set enable-bracketed-paste on")
        readline.set_history_length(_HISTORY)
        readline.set_auto_history(False)  # an answer to a question is nothing to bring back

    def _offer(self, word: str, state: int) -> str | None:
        if state == 0 and self._readline is not None:
            start = self._readline.get_line_buffer()[: self._readline.get_endidx()]
            self._offered = self._complete(start, word)
        return self._offered[state] if state < len(self._offered) else None


def _open_readline() -> Any:
    """The library, or None where Python was built without one; then lines are read as the terminal gives them."""
    try:
        import readline
    except ImportError:
        return None
    return readline


def _is_libedit(readline: Any) -> bool:
    return "libedit" in (readline.__doc__ or "")


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
