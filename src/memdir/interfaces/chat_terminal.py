"""The terminal of chat: the screen, the lines typed or played, and permissions.

All output consists of events with a kind, a text and facts. Users see the text, made printable; with --json, each event is
one JSON object on a line (docs/json.md). Events from background threads are queued, and the main thread shows them when
no line is half-written: before a prompt, or after an answer.
"""

import contextlib
import json
import select
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import SimpleQueue

from memdir.interfaces.cli import is_terminal
from memdir.project.settings import read_environment
from memdir.text import one_line, printable

# The prefix and the colour of each kind of event; the default is neither.
_PREFIXES = {"day": "== ", "heard": "> ", "told": "\n# ", "warning": "warning: ", "error": "error: "}
_COLORS = {"day": "1", "heard": "1", "told": "35", "recalled": "36", "saved": "32", "warning": "33", "error": "31"}
_COLORS |= dict.fromkeys(("start", "tool", "notice", "end"), "2")
_BLOCKS = ("answer", "output", "heard", "start")  # these may have several lines
PROMPT, MORE = "> ", ". "
_QUOTES = '"""'
_WAITING_SECONDS = 0.02  # the longest pause between two lines of one paste
LOOK, CHANGE = "look", "change"
KINDS = (LOOK, CHANGE)
_WORDS = {LOOK: "look into", CHANGE: "change"}
_QUESTION = "  Allow it? [y]es, [a]lways in this conversation, [n]o: "


class Screen:
    """The chat's output. `echoes` shows input lines, for input from a file; `color` does not apply to JSON."""

    def __init__(self, *, as_json: bool = False, color: bool = False, echoes: bool = True) -> None:
        self.as_json, self.echoes = as_json, echoes
        self._color = color and not as_json
        # A queue needs no lock of our own, which a Ctrl-C in the main thread could leave locked.
        self._queue: SimpleQueue[tuple[str, str, dict[str, object]]] = SimpleQueue()
        self._main = threading.get_ident()
        self._is_streaming = False

    def show(self, kind: str, text: str = "", **facts: object) -> None:
        """Show an event; from another thread, queue it for the next flush."""
        if threading.get_ident() != self._main:
            self._queue.put((kind, text, facts))
            return
        self.end_line()
        _write(self._render(kind, text, facts))

    def stream(self, text: str) -> None:
        self._is_streaming |= bool(text) and not self.as_json
        _write(self._render("text", text, {}) if self.as_json else printable(text))

    def flush(self) -> None:
        self.end_line()
        while not self._queue.empty():
            _write(self._render(*self._queue.get()))

    def end_line(self) -> None:
        if self._is_streaming:
            self._is_streaming = False
            _write("\n")

    def _render(self, kind: str, text: str, facts: dict[str, object]) -> str:
        if self.as_json:
            return json.dumps({"event": kind, "text": text, **facts}) + "\n"
        if not text or (kind == "heard" and not self.echoes) or (kind == "answer" and facts.get("streamed")):
            return ""
        before, style = _PREFIXES.get(kind, ""), _COLORS.get(kind)
        lines = printable(text.replace("\r\n", "\n")).rstrip("\n").split("\n") if kind in _BLOCKS else [one_line(text)]
        text = "\n".join(f"{before if number == 0 else ' ' * len(before)}{line}" for number, line in enumerate(lines))
        return (f"\x1b[{style}m{text}\x1b[0m" if self._color and style else text) + "\n"


def _write(text: str) -> None:
    """Write to standard output, escaping characters that its encoding does not support."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def has_color(option: str, variables: Mapping[str, str] | None = None) -> bool:
    """Return whether --color and the environment allow colours on standard output."""
    is_fit = option == "auto" and is_terminal(sys.stdout) and not read_environment(variables).no_color
    return option == "always" or is_fit


def play_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the messages of a script, skipping empty lines."""
    source = iter(lines)
    for line in source:
        text = _join_lines(line.rstrip("\r\n"), lambda: next(source).rstrip("\r\n"))
        if text.strip():
            yield text


def _join_lines(line: str, read_more: Callable[[], str]) -> str:
    """Read a message of one or more lines. A backslash continues a line, and triple quotes enclose several lines."""
    lines = [line]
    with contextlib.suppress(StopIteration, EOFError):
        if line.strip() == _QUOTES:
            lines = []
            while (more := read_more()).strip() != _QUOTES:
                lines.append(more)
        while lines and lines[-1].endswith("\\") and line.strip() != _QUOTES:
            lines[-1] = lines[-1][:-1]
            lines.append(read_more())
    return "\n".join(lines)


class Terminal:
    """Interactive input with GNU readline: history, and pasted text of any size as one message.

    libedit does not support bracketed paste, so lines already buffered when a line is entered become part of the message.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen, self._knows_pastes = screen, False
        with contextlib.suppress(ImportError):  # Python may have been built without it
            import readline

            readline.parse_and_bind("set enable-bracketed-paste on")
            self._knows_pastes = "libedit" not in (readline.__doc__ or "")

    def read(self) -> str:
        """Return the next message. Raises KeyboardInterrupt or EOFError."""
        return _join_lines(self._input(PROMPT), lambda: self._input(MORE))

    def ask(self, question: str) -> str:
        """Ask a question and return the answer, or "" at the end of input. Raises KeyboardInterrupt."""
        try:
            return input(question).strip()
        except EOFError:
            return ""

    def _input(self, prompt: str) -> str:
        self._screen.flush()
        lines = [input(prompt)]
        with contextlib.suppress(EOFError):
            while not self._knows_pastes and select.select([sys.stdin], [], [], _WAITING_SECONDS)[0]:
                lines.append(input())
        return "\n".join(lines)


class StoppedAsking(Exception):
    """The user pressed Ctrl-C at a permission prompt, which declines this request and all later ones."""


class Permissions:
    """The model's permissions to read project files, which sends them to the provider, or to change them.

    The user can allow one action or all of its kind. `ask` shows a question and returns the reply; if it is None, only
    the kinds in `allowed` are permitted.
    """

    def __init__(self, ask: Callable[[str], str] | None = None, allowed: Iterable[str] = ()) -> None:
        self._ask, self._allowed = ask, set(allowed)

    def check(self, kind: str, action: str, show: Callable[[str], None]) -> bool:
        """Return whether an action of this kind is allowed now; `what` describes it to the user."""
        if kind in self._allowed or self._ask is None:
            return kind in self._allowed
        show(f"The model wants to {_WORDS[kind]} {action}.")
        answer = self._ask(_QUESTION).strip().lower()
        if answer in ("a", "always"):
            self._allowed.add(kind)
        return answer in ("y", "yes", "a", "always")
