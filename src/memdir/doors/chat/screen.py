"""All that chat shows, one event at a time: for a person at a terminal, for a pipe, or as JSON for another program.

An event has a kind, a text and facts. A person sees the text, dressed by its kind; a program gets one JSON object a
line (docs/json.md). Whatever a memory, a model or a file says is made printable before it reaches a terminal.

Background threads tell things at any moment. What they tell is queued and shown by the main thread when nothing is
half-written: before a prompt, after an answer, or, when somebody sits before an empty prompt, at once (`on_queued`).
"""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from memdir.text import one_line, printable

# How each kind of event looks to a person: what stands before its text, and its colour.
_LOOKS = {
    "start": ("", "2"),
    "day": ("== ", "1"),
    "heard": ("> ", "1"),
    "answer": ("", ""),
    "output": ("", ""),
    "told": ("\n# ", "35"),
    "recalled": ("", "36"),
    "saved": ("", "32"),
    "tool": ("", "2"),
    "notice": ("", "2"),
    "warning": ("warning: ", "33"),
    "error": ("error: ", "31"),
    "end": ("", "2"),
}
_BLOCKS = ("answer", "output", "heard", "start")  # these may have lines


class Screen:
    """`echoes` says whether what was typed must be shown, as when it came from a file; `color` only for people."""

    def __init__(self, *, as_json: bool = False, color: bool = False, echoes: bool = True) -> None:
        self.as_json, self.echoes = as_json, echoes
        self._color = color and not as_json
        # Without a lock of ours: a Ctrl-C in the main thread could leave it locked for ever.
        self._queue: SimpleQueue[tuple[str, str, dict[str, object]]] = SimpleQueue()
        self._main = threading.get_ident()
        self._is_streaming = False
        self.on_queued: Callable[[], None] = lambda: None

    def tell(self, kind: str, text: str = "", **facts: object) -> None:
        """Show an event now, or from another thread as soon as it fits."""
        if threading.get_ident() != self._main:
            self._queue.put((kind, text, facts))
            self.on_queued()
            return
        self._end_line()
        self._show(kind, text, facts)

    def stream(self, text: str) -> None:
        """A piece of an answer, as it comes."""
        if self.as_json:
            self._show("text", text, {})
        else:
            self._is_streaming = self._is_streaming or bool(text)
            _write(printable(text))
            sys.stdout.flush()

    def flush(self) -> None:
        """Show what threads have told meanwhile."""
        self._end_line()
        _write(self.take_queued())
        sys.stdout.flush()

    def take_queued(self) -> str:
        """What threads have told meanwhile, as it is to be shown."""
        shown = []
        while not self._queue.empty():
            shown.append(self._render(*self._queue.get()))
        return "".join(shown)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """While an answer comes in pieces; its last line ends with it."""
        try:
            yield
        finally:
            self._end_line()

    def _end_line(self) -> None:
        if self._is_streaming:
            self._is_streaming = False
            _write("\n")
            sys.stdout.flush()

    def _show(self, kind: str, text: str, facts: dict[str, object]) -> None:
        _write(self._render(kind, text, facts))
        sys.stdout.flush()

    def _render(self, kind: str, text: str, facts: dict[str, object]) -> str:
        if self.as_json:
            return _render_json({"event": kind, "text": text, **facts}) + "\n"
        if text and (self.echoes or kind != "heard") and not (kind == "answer" and facts.get("streamed")):
            return self._dress(kind, text) + "\n"
        return ""

    def _dress(self, kind: str, text: str) -> str:
        before, style = _LOOKS[kind]
        lines = printable(text.replace("\r\n", "\n")).rstrip("\n").split("\n") if kind in _BLOCKS else [one_line(text)]
        shown = "\n".join(f"{before if number == 0 else ' ' * len(before)}{line}" for number, line in enumerate(lines))
        return f"\x1b[{style}m{shown}\x1b[0m" if self._color and style else shown


def _render_json(event: dict[str, object]) -> str:
    return json.dumps(event, ensure_ascii=True)


def encode_for_screen(text: str) -> bytes:
    """In the encoding of standard output; what it cannot spell becomes an escape."""
    return text.encode(_encoding(), "backslashreplace")


def _write(text: str) -> None:
    sys.stdout.write(encode_for_screen(text).decode(_encoding()))


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"
