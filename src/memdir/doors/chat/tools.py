"""The file tools of chat's model: read, search, edit and write below the project, each asked for; and memory files.

Memory goes through the store, as everything does: guarded, in history, with its index line. For that nobody is asked,
since `/undo` takes it back. Files of the project are reached without following a link; hidden files and files that look
like secrets are not shown. There is no shell and no network.
"""

import contextlib
import difflib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from memdir import disk, guard
from memdir.doors.chat.allowing import CHANGE, LOOK, Permissions
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, PathError
from memdir.fork import Answer
from memdir.project_files.secrecy import looks_secret
from memdir.records import Origin, Tool, ToolCall
from memdir.staging import Staging, make_edits
from memdir.store.files import FileStore
from memdir.text import one_line, replace_surrogates, shorten
from memdir.tools import NEW_KEYS, OLD_KEYS, PATH_KEYS, TEXT_KEYS, Hands, pick, translate
from memdir.tree import Tree

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
        self._tree = Tree(root, looks_secret)

    def __call__(self, call: ToolCall) -> Answer:
        verb, values = translate(call)
        store = self._find_store(pick(values, PATH_KEYS))
        hands = Hands(Staging(store, now=store.clock()), store.root, self._tree)
        try:
            target = hands.find(pick(values, PATH_KEYS) or "memory")
            if target.where == "memory":
                return self._touch_memory(hands, store, call)
            if verb in ("list", "read", "search"):
                allowed = self._permissions.check(LOOK, target.path or "the project", self._show)
                return hands(call) if allowed else Answer(_NO, refused=True)
            if verb in ("write", "edit"):
                return self._change(target.path, verb, values)
        except MemdirError as error:
            return Answer(f"Refused: {error}. {error.hint}".rstrip(), refused=True)
        return hands(call)  # it knows how to refuse

    def find_path(self, call: ToolCall) -> Path | None:
        """The file a call is about, for the record of what was read."""
        path = pick(translate(call)[1], PATH_KEYS)
        return self._root / path if path else None

    def _find_store(self, path: str) -> FileStore:
        fits = (store for store in self._stores if path.startswith(f"{store.root}{os.sep}"))
        return next(fits, self._stores[0])

    def _touch_memory(self, hands: Hands, store: FileStore, call: ToolCall) -> Answer:
        answer = hands(call)
        if staged := hands.staging.staged:
            origin = Origin("agent", "by the file tools of chat", self._session)
            store.change(make_edits(staged), verb=_VERB, origin=origin)
            self._on_saved(tuple(at.name for at in staged))
        return answer

    def _change(self, path: str, verb: str, values: Mapping[str, object]) -> Answer:
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
            return Answer(f"{path} says that already.")
        self._show(render_diff(before or "", after, path))
        if not self._permissions.check(CHANGE, path, self._show):
            return Answer(_NO, refused=True)
        if _read(self._root, path) != before:
            raise ConflictError(f"{path} has changed while the person was asked", hint="Read it again.")
        _write(self._root, path, after.encode("utf-8"))
        return Answer(f"{'Wrote' if before is None else 'Changed'} {path}.")


def render_diff(before: str, after: str, path: str) -> str:
    """What would change, in at most a screenful."""
    lines = [*difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="", n=2)]
    more = [f"… {len(lines) - _DIFF_LINES} lines more"] if len(lines) > _DIFF_LINES else []
    return "\n".join([*lines[:_DIFF_LINES], *more])


def describe_call(call: ToolCall) -> str:
    """A call in one line."""
    verb, values = translate(call)
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
            found = disk.read_file(handle, path)
    except FileNotFoundError:
        return None
    finally:
        os.close(handle)
    try:
        return None if found is None else found[0].decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not a text file", field="path") from None


def _write(root: Path, path: str, data: bytes) -> None:
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
