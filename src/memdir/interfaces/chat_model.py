"""A chat turn with a model: ask, stream, run the tools it calls, ask again; and the file tools it may call.

    prompt arrives -> recall begins -> request -> reply in pieces -> tools -> request ... -> final reply -> extraction

Each request includes the recalled memories that are ready by then. The parts of a request that do not change come first,
so that a provider's cache covers everything except the newest messages.

The tools read, search, edit and write files in the project if the user permits it. Changes of memory files go through the
store and need no permission, because `/undo` reverts them; today's log can only be appended to. The tools do not follow
links, show no hidden files or files that look like secrets, and offer no shell and no network.
"""

import contextlib
import difflib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from memdir import files
from memdir.conversation.includes import looks_secret
from memdir.dream.logs import extend_log, read_log_file
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, PathError, StoppedError
from memdir.extraction import ExtractResult
from memdir.format.shown import wrap
from memdir.interfaces.chat import ChatTalk
from memdir.interfaces.chat_terminal import CHANGE, LOOK, Permissions, StoppedAsking
from memdir.models import agent
from memdir.models.agent import PATH_KEYS, MemoryTools, ProjectTree, ToolResult, pick, translate_names
from memdir.models.connection import can_use_tools
from memdir.models.open import render_parent
from memdir.models.prompts import render_prompt
from memdir.models.staged import StagedMemory, Staging, make_edits
from memdir.operations.write import WriteContext, change
from memdir.records import LOGS_FOLDER, Message, Model, Origin, Reply, Request, StopReason, Tool, ToolCall
from memdir.store.files import FileStore
from memdir.text import fold, one_line, replace_surrogates, shorten

ROUNDS = 40  # the most requests in one turn
COMPACT_TOKENS = 150_000  # a conversation longer than this is compacted before the next turn
_REPLY_TOKENS = 8_000
_RECALL_SECONDS = 0.25  # how long the first request waits for recalled memories
_PLAYED_SECONDS = 30.0  # the same for a script, so that it gives the same results on slow machines
_PURPOSE = "chat"
_STOPPED = "The person stopped this turn."
_NOT_ALLOWED = "The person did not allow this."
_DIFF_LINES = 40


def _make_tool(name: str, description: str, **parameters: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters), "additionalProperties": False}
    return Tool(name, description, schema)


_PATH = "a path below the project, or the whole path of a memory file"
TOOLS = (
    _make_tool("read", "Read a file of the project, or a memory.", path=_PATH),
    _make_tool("search", "Find lines that hold one of the words.", query="words with | between them",
               path="a glob of project files such as *.py, or `memory`"),
    _make_tool("edit", "Replace one passage of a file.", path=_PATH, old="a passage that occurs once",
               new="its replacement"),
    _make_tool("write", "Write a whole file, new or not.", path=_PATH, content="all of its text"),
    _make_tool("delete", "Delete a memory.", path="the whole path of a memory file"),
)  # fmt: skip


def take_model_turn(talk: ChatTalk, model: Model, text: str, cancelled: Callable[[], bool]) -> None:
    """Handle one message up to the final reply; an error is shown and ends the turn."""
    session = talk.session
    if talk.length > COMPACT_TOKENS and talk.compact():
        talk.screen.show("notice", "The conversation was long and continues from its notes.")
    session.context()  # contains the standing rules
    for notice in filter(None, (session.date_notice(), session.rules_notice())):
        talk.add(Message("user", wrap(notice), is_meta=True))
    talk.add(Message("user", text))
    session.prompt_arrived(text)
    turn = _Turn(talk, model, cancelled)
    try:
        turn.run()
    except (StoppedError, StoppedAsking):
        turn.break_off(_STOPPED)
        session.cancel_turn()
        talk.screen.show("notice", "Stopped.")
    except MemdirError as error:
        turn.break_off(str(error))
        talk.show_error(error)
    session.turn_ended(talk.messages, parent=turn.parent)


class _Turn:
    def __init__(self, talk: ChatTalk, model: Model, cancelled: Callable[[], bool]) -> None:
        self._talk, self._model, self._cancelled = talk, model, cancelled
        self._streamed: list[str] = []
        self._request: Request | None = None
        self._reply: Reply | None = None
        root, show = talk.project.places.root.path, partial(talk.screen.show, "output")
        self._tools = FileTools(
            root, talk.project.stores, talk.permissions, session=talk.id, show=show, on_saved=self._show_saved
        )

    @property
    def parent(self) -> Mapping[str, object] | None:
        if self._request is None or self._reply is None or not self._reply.text:
            return None
        return render_parent(self._model, self._request, self._reply)

    def run(self) -> None:
        for number in range(ROUNDS):
            self._add_reminders(0 if number else _PLAYED_SECONDS if self._talk.screen.echoes else _RECALL_SECONDS)
            reply = self._ask_model()
            if reply.stop is StopReason.LENGTH and reply.calls:
                # The last call may be truncated, so discard the calls.
                reply = self._reply = Reply(reply.text, reply.usage, stop=reply.stop)
            if reply.text or reply.calls:
                self._talk.add(Message("assistant", reply.text, calls=reply.calls, raw=reply.raw))
            if not reply.calls:
                self._show_end(reply)
                self._add_reminders(0)  # memories that are ready only now go into the next request
                return
            self._reply = None
            read = [self._run_call(call) for call in reply.calls]
            # Add this after all results, because providers allow no message between them.
            if added := self._talk.session.note_read([path for path in read if path is not None]):
                self._talk.add(Message("user", added, is_meta=True))
        self._talk.screen.show("warning", f"the model was stopped after {ROUNDS} requests")

    def break_off(self, reason: str) -> None:
        """End a turn early so that the conversation can continue: keep streamed text and give every call a result."""
        if self._streamed:
            self._talk.add(Message("assistant", "".join(self._streamed)))
        answered = {message.answers for message in self._talk.messages}
        for call in [call for message in self._talk.messages for call in message.calls if call.id not in answered]:
            self._talk.add(Message("tool", reason, answers=call.id, failed=True))
        self._reply = None

    def _ask_model(self) -> Reply:
        talk = self._talk
        system = render_prompt("chat/system", root=str(talk.project.places.root.path))
        first = (Message("user", context, is_meta=True),) if (context := talk.session.context()) else ()
        self._request = Request(
            "\n\n".join(filter(None, (system, talk.session.instructions()))),
            (*first, *talk.messages),
            _REPLY_TOKENS,
            on_text=self._show_streamed_text,
            cancelled=self._cancelled,
            tools=TOOLS if can_use_tools(self._model) else (),
            purpose=_PURPOSE,
        )
        self._streamed.clear()
        try:
            reply = self._model(self._request)
        finally:
            talk.screen.end_line()
        self._streamed.clear()
        self._reply = reply
        talk.add_cost(reply.usage, _PURPOSE)
        talk.length = reply.usage.input + reply.usage.output
        return reply

    def _show_streamed_text(self, text: str) -> None:
        self._streamed.append(text)
        self._talk.screen.stream(text)

    def _show_end(self, reply: Reply) -> None:
        screen, usage = self._talk.screen, reply.usage
        spent = {"input": usage.input, "cached": usage.cached, "output": usage.output}
        screen.show("answer", reply.text, names=[], streamed=True, usage=spent)
        if reply.stop is StopReason.LENGTH:
            screen.show("warning", "the answer was cut: it reached the most a request may bring")
        if reply.stop is StopReason.REFUSED:
            screen.show("notice", "The model declined to answer.")

    def _add_reminders(self, seconds: float) -> None:
        if (reminders := self._talk.session.take_reminders(seconds=seconds)) is not None:
            self._talk.add(reminders.message)
            text = f"[Recalled: {', '.join(reminders.names)} ({reminders.tokens} tokens)]"
            self._talk.screen.show("recalled", text, names=list(reminders.names), tokens=reminders.tokens)

    def _run_call(self, call: ToolCall) -> Path | None:
        if self._cancelled():
            raise StoppedAsking
        verb, values = translate_names(call)
        about = " ".join(filter(None, (pick(values, ("query", "pattern")), pick(values, PATH_KEYS))))
        text = shorten(f"{verb or one_line(call.name)} {one_line(about)}".strip(), 100)
        self._talk.screen.show("tool", f"[{text}]", name=call.name, input=dict(call.input))
        result = self._tools(call)
        self._talk.add(Message("tool", result.text, answers=call.id, failed=result.refused))
        path = pick(values, PATH_KEYS)
        return None if result.refused or not path else self._talk.project.places.root.path / path

    def _show_saved(self, staged: Sequence[StagedMemory]) -> None:
        written = tuple(change.name for change in staged if change.text is not None)
        gone = tuple(change.name for change in staged if change.text is None)
        text = ExtractResult(written, gone).notice
        self._talk.screen.show("saved", text, written=list(written), forgotten=list(gone), waiting=[])


class FileTools:
    """The file tools. `show` displays a change before the user is asked; `on_saved` receives changed memories."""

    def __init__(
        self, root: Path, stores: tuple[FileStore, ...], permissions: Permissions, *, session: str,
        show: Callable[[str], None], on_saved: Callable[[Sequence[StagedMemory]], None],
    ) -> None:  # fmt: skip
        self._root, self._stores, self._permissions = root, stores, permissions
        self._session, self._show, self._on_saved = session, show, on_saved
        self._tree = ProjectTree(root, looks_secret)

    def __call__(self, call: ToolCall) -> ToolResult:
        verb, values = translate_names(call)
        path = pick(values, PATH_KEYS)
        stores = (store for store in self._stores if path.startswith(f"{store.root}{os.sep}"))
        store = next(stores, self._stores[0])
        tools = MemoryTools(Staging(store, now=store.clock()), store.root, self._tree)
        try:
            where, path = tools.find(path or "memory")
            if where == "memory" and store is self._stores[0] and fold(path).startswith(f"{LOGS_FOLDER}/"):
                return _append_to_log(store, path, verb, values)
            if where == "memory":
                result = tools(call)
                if staged := tools.staging.staged:
                    origin = Origin("agent", "by the file tools of chat", self._session)
                    context = WriteContext(origin, store.clock())
                    change(store, make_edits(staged), context, verb="write").check_written()
                    self._on_saved(staged)
                return result
            if verb in ("list", "read", "search"):
                allowed = self._permissions.check(LOOK, path or "the project", self._show)
                return tools(call) if allowed else ToolResult(_NOT_ALLOWED, refused=True)
            if verb in ("write", "edit"):
                return self._change_file(path, verb, values)
        except MemdirError as error:
            return ToolResult(f"Refused: {error}. {error.hint}".rstrip(), refused=True)
        return tools(call)  # refuses, with a reason

    def _change_file(self, path: str, command: str, values: Mapping[str, object]) -> ToolResult:
        if looks_secret(path):
            raise PathError(path, "it looks like a secret")
        before = _read(self._root, path)
        after = _make_new_text(before, path, command, values)
        if after == before:
            return ToolResult(f"{path} says that already.")
        lines = [*difflib.unified_diff((before or "").splitlines(), after.splitlines(), path, path, lineterm="", n=2)]
        more = [f"… {len(lines) - _DIFF_LINES} lines more"] if len(lines) > _DIFF_LINES else []
        self._show("\n".join([*lines[:_DIFF_LINES], *more]))
        if not self._permissions.check(CHANGE, path, self._show):
            return ToolResult(_NOT_ALLOWED, refused=True)
        if _read(self._root, path) != before:
            raise ConflictError(f"{path} changed while the user was being asked", hint="Read it again.")
        _write(self._root, path, after.encode("utf-8"))
        return ToolResult(f"{'Wrote' if before is None else 'Changed'} {path}.")


def _append_to_log(store: FileStore, path: str, command: str, values: Mapping[str, object]) -> ToolResult:
    before = read_log_file(store, path)
    if command == "read":
        if before is None:
            raise NotFoundError(f"file not found: {path}", name=path)
        return ToolResult(before)
    if command not in ("write", "edit"):
        raise PathError(path, "logs are append-only")
    extend_log(store, path, _make_new_text(before, path, command, values), now=store.clock())
    return ToolResult(f"Logged in {path}.")


def _make_new_text(before: str | None, path: str, command: str, values: Mapping[str, object]) -> str:
    """Return the file's text after a `write` or `edit`."""
    if command == "write":
        return replace_surrogates(pick(values, agent.TEXT_KEYS))  # JSON can spell characters that no file can hold
    if before is None:
        raise NotFoundError(f"file not found: {path}", name=path)
    old = pick(values, agent.OLD_KEYS)
    if (count := before.count(old) if old else 0) != 1:
        raise NotFoundError(f"the passage must occur exactly once in {path}, but occurs {count} times", name=path)
    return replace_surrogates(before.replace(old, pick(values, agent.NEW_KEYS)))


def _read(root: Path, path: str) -> str | None:
    files.check_path(path)
    try:
        with files.open_root(root) as handle, files.disk_errors(path):
            content = files.read_file(handle, path)
    except FileNotFoundError:
        return None
    try:
        return None if content is None else content[0].decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not a text file", field="path") from None


def _write(root: Path, path: str, data: bytes) -> None:
    """Replace the file atomically, keeping its mode, without following links."""
    *folders, leaf = path.split("/")
    with files.open_root(root) as handle, files.disk_errors(path):
        for depth in range(len(folders)):
            with files.open_folder(handle, tuple(folders[:depth])) as above, contextlib.suppress(FileExistsError):
                os.mkdir(folders[depth], 0o777, dir_fd=above)
        with files.open_folder(handle, tuple(folders)) as folder:
            files.check_target(folder, leaf, path)
            _replace(folder, leaf, data)


def _replace(folder: int, leaf: str, data: bytes) -> None:
    temp = f".{leaf[:40]}.{os.urandom(6).hex()}.tmp"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | files.NOFOLLOW | files.CLOEXEC
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
