"""All that chat shows, one event at a time: for a person at a terminal, for a pipe, or as JSON for another program.

An event has a kind, a text and facts. A person sees the text, dressed by its kind; a program gets one JSON object a
line (docs/json.md). Whatever a memory, a model or a file says is made printable before it reaches a terminal.

Background threads tell things at any moment. What they tell is queued and shown by the main thread when nothing is
half-written: before a prompt, after an answer, or, when somebody sits before an empty prompt, at once (`on_queued`).
"""

import contextlib
import difflib
import json
import os
import select
import signal
import socket
import stat
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

from memdir import __version__, guard
from memdir.conversation.includes import looks_secret
from memdir.conversation.lines import describe_transcript
from memdir.conversation.transcripts import read_messages, read_tail
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, PathError
from memdir.frozen import dataclass, replace
from memdir.models.agent import (
    NEW_KEYS,
    OLD_KEYS,
    PATH_KEYS,
    TEXT_KEYS,
    MemoryTools,
    ProjectTree,
    ToolResult,
    pick,
    translate_names,
)
from memdir.models.staged import Staging, make_edits
from memdir.recall.query import strip_host_text
from memdir.records import Message, Origin, Tool, ToolCall
from memdir.store.files import FileStore
from memdir.store.state import append_record, find_path, list_chats
from memdir.text import one_line, printable, replace_surrogates, shorten

# --- screen ---

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


# --- reading ---
# Where lines come from: a person at a terminal, or a file or pipe that is played.
#
# At a terminal GNU readline edits the line: history, Tab, and a paste of any size as one message. A line that ends
# with a
# backslash goes on in the next one, and three quotes open a message that lasts until three quotes close it. Where the
# library behind is libedit, which knows no pastes, lines that wait already when one is entered belong to it.
#
# It does not know what a line means.

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


# --- allowing ---
# May the model do that? A person is asked, once for a thing or once for all of its kind in this conversation.
#
# Two kinds: to look (read and search files of the project, whose text goes to the model's provider) and to change
# (write
# and edit them). Where nobody can be asked the answer is no, unless the caller has said yes beforehand.

LOOK, CHANGE = "look", "change"
KINDS = (LOOK, CHANGE)
_WORDS = {LOOK: "look into", CHANGE: "change"}
_QUESTION = "  Allow it? [y]es, [a]lways in this conversation, [n]o: "


class StoppedAsking(Exception):
    """The person wants neither this nor what follows: Ctrl-C at the question."""


class Permissions:
    """`ask` puts a question and answers what was typed; None where nobody sits there."""

    def __init__(self, ask: Callable[[str], str] | None = None, allowed: Iterable[str] = ()) -> None:
        self._ask = ask
        self._allowed = set(allowed)

    def check(self, kind: str, what: str, show: Callable[[str], None]) -> bool:
        """Whether a thing of this kind may be done now; `what` says which, to the person."""
        if kind in self._allowed:
            return True
        if self._ask is None:
            return False
        show(f"The model wants to {_WORDS[kind]} {what}.")
        answer = self._ask(_QUESTION).strip().lower()
        if answer in ("a", "always"):
            self._allowed.add(kind)
        return answer in ("y", "yes", "a", "always")


# --- transcript ---
# The conversation on disk, in the form Claude Code keeps its own: `memdir extract`, `notes` and resuming read it.
#
# Every message is written before anything is done with it. The id of a message is the one of its record, so the cursor
#  of
# extraction holds when the conversation is resumed. Where it was cleared or compacted stands a boundary; resuming
# begins
# behind the last one.

_TITLE = 60
_INPUTS = 200  # messages that the arrow keys bring back
_BROKEN_OFF = "The conversation was broken off before this was done."


@dataclass(frozen=True, slots=True)
class PastChat:
    """An earlier conversation: its id, when it was last spoken in, and how it began."""

    id: str
    at: datetime
    title: str


class ChatTranscript:
    """Of one conversation; `clock` gives the times, and nothing is written before the first message.

    What cannot be written costs no answer: `on_lost` hears of it once. Without `keeps` nothing is written at all.
    """

    def __init__(
        self,
        state: Path,
        id: str,
        *,
        cwd: Path,
        clock: Callable[[], datetime],
        keeps: bool = True,
        on_lost: Callable[[MemdirError], None],
    ) -> None:
        self.path = find_path(state, id)
        self._id, self._cwd, self._clock = id, str(cwd), clock
        self._keeps, self._on_lost, self._is_lost = keeps, on_lost, False
        self._last: str | None = None

    def add(self, message: Message) -> Message:
        """Write a message down; answers it with its id and time."""
        at = message.at or self._clock()
        named = replace(message, id=str(uuid.uuid4()), at=at)
        kind = "assistant" if message.role == "assistant" else "user"
        facts: dict[str, object] = {"isMeta": True} if message.is_meta else {}
        self._append(kind, named.id, at, message=_render(named), **facts)
        return named

    def begin_anew(self, text: str) -> Message:
        """From here on it is another conversation, or a shortened one, and this is how it begins."""
        before, self._last, at = self._last, None, self._clock()
        self._append("system", str(uuid.uuid4()), at, subtype="compact_boundary", logicalParentUuid=before, content="")
        first = Message("user", text, str(uuid.uuid4()), at, is_meta=True)
        self._append("user", first.id, at, message=_render(first), isCompactSummary=True)
        return first

    def resume(self) -> tuple[Message, ...]:
        """What was said since the last boundary, fit to be gone on with."""
        found = tuple(read_messages(self.path, since_compaction=True))
        self._last = found[-1].id if found else None
        return tuple(mend(found))

    def _append(self, kind: str, id: str, at: datetime, **facts: object) -> None:
        place = {"sessionId": self._id, "cwd": self._cwd, "version": f"memdir {__version__}", "isSidechain": False}
        time = at.astimezone(UTC).isoformat(timespec="milliseconds")
        record = {"type": kind, "uuid": id, "parentUuid": self._last, "timestamp": time, **place, **facts}
        if not self._keeps:
            return
        try:
            append_record(self.path, record)
        except MemdirError as error:
            if not self._is_lost:
                self._is_lost = True
                self._on_lost(error)
            return
        self._last = id


def mend(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages with an answer for every call: a process that was killed may have left some without."""
    answered = {message.answers for message in messages if message.answers}
    for message in messages:
        yield message
        for call in message.calls:
            if call.id not in answered:
                yield Message("tool", _BROKEN_OFF, answers=call.id, failed=True)


def list_past_chats(state: Path, limit: int) -> tuple[PastChat, ...]:
    """The conversations that can be resumed, newest first."""
    found = []
    for path in list_chats(state)[:limit]:
        try:
            info = describe_transcript(path)
            typed = (message for message in read_messages(path) if message.role == "user" and not message.is_meta)
            first = next(typed, None)
        except MemdirError:
            continue
        title = shorten(one_line(strip_host_text(first.text)), _TITLE) if first else ""
        found.append(PastChat(info.session, info.ended or info.modified, title))
    return tuple(found)


def find_past_chat(state: Path, id: str) -> str:
    """The id of the conversation that is meant: the newest, or the one that begins so; raises NotFoundError."""
    kept = list_past_chats(state, 1 if not id else 1_000)
    fits = [at.id for at in kept if at.id.startswith(id)]
    if not fits or (len(fits) > 1 and id and id not in fits):
        problem = f"{len(fits)} conversations begin with {id}" if fits else f"there is no conversation {id}".strip()
        raise NotFoundError(problem, name=id, hint="`memdir chat --resume` lists those that can be resumed")
    return id if id in fits else fits[0]


def list_inputs(state: Path) -> list[str]:
    """What was typed in the newest conversation, for the arrow keys; nothing if that cannot be read."""
    for path in list_chats(state)[:1]:
        try:
            said = [at.text for at in read_tail(path, 2 * _INPUTS) if at.role == "user" and not at.is_meta]
        except MemdirError:
            return []
        return [text for text in said if "\n" not in text]
    return []


def _render(message: Message) -> dict[str, object]:
    """As the Messages API would have it."""
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.answers, "content": message.text}
        return {"role": "user", "content": [result | ({"is_error": True} if message.failed else {})]}
    if message.role != "assistant":
        return {"role": "user", "content": message.text}
    blocks: list[dict[str, object]] = [{"type": "text", "text": message.text}] if message.text else []
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.input)} for call in message.calls
    ]
    return {"id": f"msg_{message.id}", "type": "message", "role": "assistant", "model": "memdir", "content": blocks}


# --- tools ---
# The file tools of chat's model: read, search, edit and write below the project, each asked for; and memory files.
#
# Memory goes through the store, as everything does: guarded, in history, with its index line. For that nobody is
# asked,
# since `/undo` takes it back. Files of the project are reached without following a link; hidden files and files that
# look
# like secrets are not shown. There is no shell and no network.

_DIFF_LINES = 40
_VERB = "write"
_NO = "The person did not allow this."


def _make_tool(name: str, description: str, **parameters: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters), "additionalProperties": False}
    return Tool(name, description, schema)


_PATH = "a path below the project, or the whole path of a memory file"
TOOLS = (
    _make_tool("read", "Read a file of the project, or a memory.", path=_PATH),
    _make_tool(
        "search",
        "Find lines that hold one of the words.",
        query="words with | between them",
        path="a glob of project files such as *.py, or `memory`",
    ),
    _make_tool("edit", "Replace one passage of a file.", path=_PATH, old="a passage that stands there once",
               new="what shall stand there"),
    _make_tool("write", "Write a whole file, new or not.", path=_PATH, content="all of its text"),
)  # fmt: skip


class FileTools:
    """`show` is for what a person should see before being asked; `on_saved` hears the names of memories written."""

    def __init__(
        self,
        root: Path,
        stores: tuple[FileStore, ...],
        permissions: Permissions,
        *,
        session: str,
        show: Callable[[str], None],
        on_saved: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._root, self._stores, self._permissions = root, stores, permissions
        self._session, self._show, self._on_saved = session, show, on_saved
        self._tree = ProjectTree(root, looks_secret)

    def __call__(self, call: ToolCall) -> ToolResult:
        verb, values = translate_names(call)
        store = self._find_store(pick(values, PATH_KEYS))
        hands = MemoryTools(Staging(store, now=store.clock()), store.root, self._tree)
        try:
            target = hands.find(pick(values, PATH_KEYS) or "memory")
            if target.where == "memory":
                return self._touch_memory(hands, store, call)
            if verb in ("list", "read", "search"):
                allowed = self._permissions.check(LOOK, target.path or "the project", self._show)
                return hands(call) if allowed else ToolResult(_NO, refused=True)
            if verb in ("write", "edit"):
                return self._change(target.path, verb, values)
        except MemdirError as error:
            return ToolResult(f"Refused: {error}. {error.hint}".rstrip(), refused=True)
        return hands(call)  # it knows how to refuse

    def find_path(self, call: ToolCall) -> Path | None:
        """The file a call is about, for the record of what was read."""
        path = pick(translate_names(call)[1], PATH_KEYS)
        return self._root / path if path else None

    def _find_store(self, path: str) -> FileStore:
        fits = (store for store in self._stores if path.startswith(f"{store.root}{os.sep}"))
        return next(fits, self._stores[0])

    def _touch_memory(self, hands: MemoryTools, store: FileStore, call: ToolCall) -> ToolResult:
        answer = hands(call)
        if staged := hands.staging.staged:
            origin = Origin("agent", "by the file tools of chat", self._session)
            store.change(make_edits(staged), verb=_VERB, origin=origin)
            self._on_saved(tuple(at.name for at in staged))
        return answer

    def _change(self, path: str, verb: str, values: Mapping[str, object]) -> ToolResult:
        """Write or edit one file of the project."""
        if looks_secret(path):
            raise PathError(path, "it looks like a secret")
        before = _read(self._root, path)
        if verb == "edit":
            if before is None:
                raise NotFoundError(f"there is no file {path}", name=path)
            after = _replace_once(before, pick(values, OLD_KEYS), pick(values, NEW_KEYS), path)
        else:
            after = pick(values, TEXT_KEYS)
        after = replace_surrogates(after)  # JSON can spell characters that no file can hold
        if after == before:
            return ToolResult(f"{path} says that already.")
        self._show(render_diff(before or "", after, path))
        if not self._permissions.check(CHANGE, path, self._show):
            return ToolResult(_NO, refused=True)
        if _read(self._root, path) != before:
            raise ConflictError(f"{path} has changed while the person was asked", hint="Read it again.")
        _tools_write(self._root, path, after.encode("utf-8"))
        return ToolResult(f"{'Wrote' if before is None else 'Changed'} {path}.")


def render_diff(before: str, after: str, path: str) -> str:
    """What would change, in at most a screenful."""
    lines = [*difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="", n=2)]
    more = [f"… {len(lines) - _DIFF_LINES} lines more"] if len(lines) > _DIFF_LINES else []
    return "\n".join([*lines[:_DIFF_LINES], *more])


def describe_call(call: ToolCall) -> str:
    """A call in one line."""
    verb, values = translate_names(call)
    about = " ".join(filter(None, (pick(values, ("query", "pattern")), pick(values, PATH_KEYS))))
    return shorten(f"{verb or one_line(call.name)} {one_line(about)}".strip(), 100)


def _replace_once(text: str, old: str, new: str, path: str) -> str:
    if not old or text.count(old) != 1:
        count = text.count(old) if old else 0
        raise NotFoundError(f"the passage stands {count} times in {path}, not once", name=path)
    return text.replace(old, new)


def _read(root: Path, path: str) -> str | None:
    guard.check_path(path)
    handle = guard.open_root(root)
    try:
        with guard.disk_errors(path):
            found = guard.read_file(handle, path)
    except FileNotFoundError:
        return None
    finally:
        os.close(handle)
    try:
        return None if found is None else found[0].decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not a text file", field="path") from None


def _tools_write(root: Path, path: str, data: bytes) -> None:
    """In one step beside the old file, with its mode, behind no link."""
    *folders, leaf = path.split("/")
    handle = guard.open_root(root)
    try:
        with guard.disk_errors(path):
            for depth in range(len(folders)):
                with guard.open_folder(handle, tuple(folders[:depth])) as above, contextlib.suppress(FileExistsError):
                    os.mkdir(folders[depth], 0o777, dir_fd=above)
            with guard.open_folder(handle, tuple(folders)) as folder:
                guard.check_target(folder, leaf, path)
                _put(folder, leaf, data)
    finally:
        os.close(handle)


def _put(folder: int, leaf: str, data: bytes) -> None:
    temp = f".{leaf[:40]}.{os.urandom(6).hex()}.tmp"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | guard.NOFOLLOW | guard.CLOEXEC
    new = os.open(temp, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(new, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(new, stat.S_IMODE(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode))
            file.write(data)
        os.rename(temp, leaf, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temp, dir_fd=folder)
        raise
