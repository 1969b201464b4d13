"""The terminal of chat: the screen, the lines typed or played, permissions, and the transcript on disk.

All output consists of events with a kind, a text and facts. Users see the text, made printable; with --json, each event is
one JSON object on a line (docs/json.md). Events from background threads are queued, and the main thread shows them when
no line is half-written: before a prompt, or after an answer.

The transcript has Claude Code's format, which `memdir extract`, `memdir notes` and resuming a chat can read.
"""

import contextlib
import json
import select
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from memdir import __version__
from memdir.conversation.transcripts import describe_transcript, read_messages
from memdir.errors import MemdirError, NotFoundError
from memdir.frozen import replace
from memdir.interfaces.cli import is_terminal
from memdir.project.settings import read_environment
from memdir.records import Message
from memdir.store.state import append_record, find_chat_file, list_chats
from memdir.text import one_line, printable

# The prefix and the colour of each kind of event; the default is neither.
_PREFIXES = {"day": "== ", "heard": "> ", "told": "\n# ", "warning": "warning: ", "error": "error: "}
_COLORS = {"day": "1", "heard": "1", "told": "35", "recalled": "36", "saved": "32", "warning": "33", "error": "31"}
_COLORS |= dict.fromkeys(("start", "tool", "notice", "end"), "2")
_BLOCKS = ("answer", "output", "heard", "start")  # these may have several lines
PROMPT, MORE = "> ", ". "
_QUOTES = '"""'
_WAITING_SECONDS = 0.02  # the longest pause between two lines of one paste
_HISTORY = 1_000
LOOK, CHANGE = "look", "change"
KINDS = (LOOK, CHANGE)
_WORDS = {LOOK: "look into", CHANGE: "change"}
_QUESTION = "  Allow it? [y]es, [a]lways in this conversation, [n]o: "
_OnLost = Callable[[MemdirError], None]
_BROKEN_OFF = "The conversation was broken off before this was done."


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
        self._end_line()
        _write(self._render(kind, text, facts))

    def stream(self, text: str) -> None:
        self._is_streaming |= bool(text) and not self.as_json
        _write(self._render("text", text, {}) if self.as_json else printable(text))

    def flush(self) -> None:
        self._end_line()
        while not self._queue.empty():
            _write(self._render(*self._queue.get()))

    @contextlib.contextmanager
    def streaming(self) -> Iterator[None]:
        """Stream an answer within this context, and end its last line on exit."""
        try:
            yield
        finally:
            self._end_line()

    def _end_line(self) -> None:
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


class Interrupted(Exception):
    """The user pressed Ctrl-C at the prompt."""


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
    """Interactive input with GNU readline: history, Tab completion, and pasted text of any size as one message.

    `complete` receives the text before the cursor and its last word, and returns the completions. libedit does not
    support bracketed paste, so lines already buffered when a line is entered become part of the same message.
    """

    def __init__(self, screen: Screen, complete: Callable[[str, str], Sequence[str]]) -> None:
        self._screen, self._complete = screen, complete
        self._offered: Sequence[str] = ()
        self._readline: Any = None
        self._knows_pastes = False
        with contextlib.suppress(ImportError):  # Python may have been built without it
            import readline

            readline.set_completer(self._complete_word)
            readline.set_completer_delims(" \t\n")
            readline.set_history_length(_HISTORY)
            readline.set_auto_history(False)  # answers to questions are not history
            self._readline, self._knows_pastes = readline, "libedit" not in (readline.__doc__ or "")
            bindings = ("tab: complete", "set enable-bracketed-paste on")
            for binding in bindings if self._knows_pastes else ("bind ^I rl_complete",):
                readline.parse_and_bind(binding)

    def remember(self, lines: Iterable[str]) -> None:
        for line in lines:
            if self._readline is not None:
                self._readline.add_history(line)

    def read(self) -> str:
        """Return the next message. Raises Interrupted or EOFError."""
        try:
            text = _join_lines(self._input(PROMPT), lambda: self._input(MORE))
        except KeyboardInterrupt:
            raise Interrupted from None
        self.remember([text] if "\n" not in text and text.strip() else [])
        return text

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

    def _complete_word(self, word: str, state: int) -> str | None:
        if state == 0:
            self._offered = self._complete(self._readline.get_line_buffer()[: self._readline.get_endidx()], word)
        return self._offered[state] if state < len(self._offered) else None


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


class ChatTranscript:
    """The transcript of one conversation; each message is written before it is processed.

    Message IDs match their records, so that the extraction cursor stays valid after resuming. A boundary marks where
    the conversation was cleared or compacted; resuming starts after the last one. A write error is reported once to
    `on_lost`. Without `keeps`, nothing is written.
    """

    def __init__(
        self, state: Path, id: str, *, cwd: Path, clock: Callable[[], datetime], keeps: bool = True, on_lost: _OnLost
    ) -> None:
        self.path = find_chat_file(state, id)
        self._id, self._cwd, self._clock = id, str(cwd), clock
        self._keeps, self._on_lost, self._is_lost = keeps, on_lost, False
        self._last: str | None = None

    def add(self, message: Message) -> Message:
        time = message.at or self._clock()
        named = replace(message, id=str(uuid.uuid4()), at=time)
        kind = "assistant" if message.role == "assistant" else "user"
        facts: dict[str, object] = {"isMeta": True} if message.is_meta else {}
        self._append(kind, named.id, time, message=_render_message(named), **facts)
        return named

    def begin_anew(self, text: str) -> Message:
        """Write a boundary, then the first message of the new or compacted conversation."""
        before, self._last, time = self._last, None, self._clock()
        id = str(uuid.uuid4())
        self._append("system", id, time, subtype="compact_boundary", logicalParentUuid=before, content="")
        first = Message("user", text, str(uuid.uuid4()), time, is_meta=True)
        self._append("user", first.id, time, message=_render_message(first), isCompactSummary=True)
        return first

    def resume(self) -> Iterator[Message]:
        """Return the messages since the last boundary, adding results for calls that a killed process left open."""
        messages = tuple(read_messages(self.path, since_compaction=True))
        self._last = messages[-1].id if messages else None
        answered = {message.answers for message in messages if message.answers}
        for message in messages:
            yield message
            for call in message.calls:
                if call.id not in answered:
                    yield Message("tool", _BROKEN_OFF, answers=call.id, failed=True)

    def _append(self, kind: str, id: str, at: datetime, **facts: object) -> None:
        if not self._keeps:
            return
        origin = {"sessionId": self._id, "cwd": self._cwd, "version": f"memdir {__version__}", "isSidechain": False}
        time = at.astimezone(UTC).isoformat(timespec="milliseconds")
        record = {"type": kind, "uuid": id, "parentUuid": self._last, "timestamp": time, **origin, **facts}
        try:
            append_record(self.path, record)
        except MemdirError as error:
            if not self._is_lost:
                self._is_lost = True
                self._on_lost(error)
        else:
            self._last = id


def _render_message(message: Message) -> dict[str, object]:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.answers, "content": message.text}
        return {"role": "user", "content": [result | ({"is_error": True} if message.failed else {})]}
    if message.role != "assistant":
        return {"role": "user", "content": message.text}
    blocks: list[dict[str, object]] = [{"type": "text", "text": message.text}] if message.text else []
    for call in message.calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.input)})
    return {"id": f"msg_{message.id}", "type": "message", "role": "assistant", "model": "memdir", "content": blocks}


def find_last_chat(state: Path) -> str:
    """Return the ID of the newest conversation. Raises NotFoundError."""
    for path in list_chats(state):
        with contextlib.suppress(MemdirError):
            return describe_transcript(path).session
    raise NotFoundError("there is no conversation to continue", hint="`memdir chat` starts one")
