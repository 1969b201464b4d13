"""Run a model with tools within limits (a fork), and provide tools for memory and project files.

A fork continues the request of a parent. The parent's tools, system prompt and messages are the provider's cache key and are
sent unchanged, so permissions are checked when a tool is called. A fork uses its parent's tool names and formats, which tables
translate to ours. All other tools (shells, the network, other files) are refused with a message for the model. Repeating an
identical call ends the run, because a model that repeats itself makes no progress.

Project files can be listed, read and searched, with limits. Hidden files and files that look like secrets are not shown, and
links are not followed. A search takes words instead of patterns, which could take very long. Memories are only written to a
staging area.
"""

import fnmatch
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from pathlib import Path, PurePosixPath

from memdir import files as guard
from memdir.errors import MemdirError, NotFoundError, PathError, ReplyError
from memdir.format import frontmatter
from memdir.format.index import INDEX_FILE
from memdir.format.shown import show_byline, show_manifest
from memdir.frozen import dataclass, replace
from memdir.limits import FORK_CALLS, FORK_HITS, FORK_READ_BYTES, FORK_TURNS, FORK_WRITTEN_BYTES
from memdir.models.connection import sum_usage
from memdir.models.staged import Staging
from memdir.records import Message, Model, Request, Scope, StopReason, ToolCall, Usage
from memdir.store.plan import is_team
from memdir.text import as_list, as_table, one_line, replace_surrogates, shorten

_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})
_ENTRIES = 20_000  # max files that one listing visits
_SEARCHED_BYTES = 20_000_000  # max characters that one search reads
_LINE_CHARS = 300
# The names that hosts use for each tool, in lower case without `_` and `-`.
_NAMES = {
    "list": "list ls listfiles listdirectory listdir glob view_directory",
    "read": "read readfile view viewfile openfile cat",
    "search": "search grep grepsearch searchfilecontent searchfiles ripgrep",
    "write": "write writefile create createfile save",
    "edit": "edit editfile strreplace replace",
    "delete": "delete deletefile remove removefile",
}
_TOOLS = {name.replace("_", ""): tool for tool, names in _NAMES.items() for name in names.split()}
# Tools with a `command` in their input, such as the providers' own editor and memory tools.
_COMMAND_TOOLS = {"memory", "strreplacebasededittool", "strreplaceeditor", "texteditor"}
PATH_KEYS = ("file_path", "path", "absolute_path", "filepath", "filename", "file", "name", "dir_path", "directory")
TEXT_KEYS = ("content", "contents", "file_text", "text", "code_edit")
OLD_KEYS, NEW_KEYS = ("old_string", "old_str", "old", "old_text"), ("new_string", "new_str", "new", "new_text")
_WORDS, _GLOB = ("pattern", "query", "regex", "words"), ("glob", "include", "include_pattern", "pattern")
_INDEX_KEPT = "The index is kept in step by itself: nothing to do for MEMORY.md."
_OUTSIDE = "outside the memory and project directories"
_AVAILABLE = (
    "Only listing, reading and searching, and writing memory files, work here; there is no shell and no network"
)


@dataclass(frozen=True, slots=True)
class ToolResult:
    text: str
    refused: bool = False


RunTool = Callable[[ToolCall], ToolResult]


class ForkEnd(StrEnum):
    DONE = "done"
    TURNS = "turns"
    CALLS = "calls"
    REPEATED = "repeated"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True)
class ForkResult:
    """The result of a run. `usage` is the sum of all requests; `first` is only the first one, to check caching."""

    end: ForkEnd
    text: str = ""
    turns: int = 0
    calls: int = 0
    refused: int = 0
    usage: Usage = Usage()
    first: Usage = Usage()


def run_fork(
    model: Model,
    request: Request,
    run_tool: RunTool,
    *,
    turns: int = FORK_TURNS,
    calls: int = FORK_CALLS,
    last: str = "",
) -> ForkResult:
    """Call the model until it makes no more tool calls or reaches a limit. Raises ReplyError and the model's errors.

    If the model writes the word `last` next to its calls and none of them is refused, the run ends after these.
    """
    result = ForkResult(ForkEnd.TURNS)
    past_calls: set[str] = set()
    while result.turns < turns:
        reply = model(request)
        first = reply.usage if result.turns == 0 else result.first
        usage = sum_usage(result.usage, reply.usage)
        result = replace(result, text=reply.text, turns=result.turns + 1, usage=usage, first=first)
        if reply.stop is StopReason.REFUSED:
            return replace(result, end=ForkEnd.DECLINED)
        if not reply.calls:
            return replace(result, end=ForkEnd.DONE)
        if reply.stop is StopReason.LENGTH:
            raise ReplyError("a tool call was cut off by the token limit", hint="the next run will retry")
        answers = []
        for call in reply.calls:
            key = f"{call.name} {json.dumps(call.input, sort_keys=True, default=str)}"
            if key in past_calls:
                return replace(result, end=ForkEnd.REPEATED)
            if result.calls >= calls:
                return replace(result, end=ForkEnd.CALLS)
            past_calls.add(key)
            answer = run_tool(call)
            answers.append(Message("tool", answer.text, answers=call.id, failed=answer.refused))
            result = replace(result, calls=result.calls + 1, refused=result.refused + answer.refused)
        is_last = bool(last) and reply.text.strip().strip('."`*').lower() == last
        if is_last and not any(answer.failed for answer in answers):
            return replace(result, end=ForkEnd.DONE)
        turn = Message("assistant", reply.text, calls=reply.calls, raw=reply.raw)
        request = replace(request, messages=(*request.messages, turn, *answers))
    return result


class ProjectTree:
    """The files of a project. `is_secret` returns whether the content of a path must not be shown."""

    def __init__(self, root: Path, is_secret: Callable[[str], bool]) -> None:
        self.root, self._is_secret = root, is_secret

    def read(self, path: str) -> str:
        """Return the text of a file. Long files are truncated."""
        guard.check_path(path)
        if self._is_secret(path):
            raise PathError(path, "it looks like a secret")
        with guard.open_root(self.root) as root, guard.disk_errors(path):
            file = guard.read_file(root, path)
        if file is None:
            raise NotFoundError(f"file not found: {path}", name=path)
        data = file[0]
        if b"\0" in data[:8192]:
            raise PathError(path, "it is not a text file")
        text = data[:FORK_READ_BYTES].decode("utf-8", "replace")
        rest = len(data) - FORK_READ_BYTES
        return text if rest <= 0 else f"{text}\n… {rest:,} bytes more are not shown"

    def list_files(self, pattern: str = "*") -> list[str]:
        return list(islice(self._match(pattern), FORK_HITS))

    def search(self, words: str, pattern: str = "*") -> list[str]:
        """Return the lines that contain any of the words separated by `|`, as `path:line: text`."""
        return _search(self._read_all(pattern), words)

    def _read_all(self, pattern: str) -> Iterator[tuple[str, str]]:
        left = _SEARCHED_BYTES
        for path in self._match(pattern):
            with suppress(PathError, NotFoundError):
                text = self.read(path)
                left -= len(text)
                yield path, text
            if left < 0:
                return

    def _match(self, pattern: str) -> Iterator[str]:
        glob = pattern.removeprefix("./").replace("**/", "*") or "*"
        for path in self._walk():
            if fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(path.rpartition("/")[2], glob):
                yield path

    def _walk(self) -> Iterator[str]:
        count = 0
        for folder, folders, files in os.walk(self.root, followlinks=False):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
            base = os.path.relpath(folder, self.root)
            for leaf in sorted(files):
                count += 1
                if count > _ENTRIES:
                    return
                path = leaf if base == "." else f"{base}/{leaf}"
                if not leaf.startswith(".") and not self._is_secret(path):
                    yield path


def _search(texts: Iterable[tuple[str, str]], words: str) -> list[str]:
    lowered = [word.strip().lower() for word in words.split("|") if word.strip()]
    hits = (
        f"{path}:{number}: {shorten(line.strip(), _LINE_CHARS)}"
        for path, text in (texts if lowered else ())
        for number, line in enumerate(text.splitlines(), 1)
        if any(word in line.lower() for word in lowered)
    )
    return list(islice(hits, FORK_HITS))


class MemoryTools:
    """Run the tool calls of a fork: stage changes to memories, and read project files. It may write `limit` bytes."""

    def __init__(
        self, staging: Staging, memory: Path, tree: ProjectTree | None, *, limit: int = FORK_WRITTEN_BYTES
    ) -> None:
        self.staging, self.written = staging, 0
        self._limit, self._memory, self._tree = limit, memory, tree

    def __call__(self, call: ToolCall) -> ToolResult:
        tool, values = translate_names(call)
        tools = (self._list, self._read, self._search, self._write, self._edit, self._delete)
        run_tool = dict(zip(_NAMES, tools, strict=True)).get(tool)
        if run_tool is None:
            return _refuse(f"{shorten(one_line(call.name), 40)!r} is not available in this run", _AVAILABLE)
        try:
            return ToolResult(replace_surrogates(run_tool(values)))  # file names may contain surrogate characters
        except MemdirError as error:
            return _refuse(str(error), error.hint)

    def _list(self, values: Mapping[str, object]) -> str:
        pattern = pick(values, _GLOB)
        where, path = self.find(pick(values, PATH_KEYS) or pattern or "memory")
        if where == "memory":
            return show_manifest(self.staging.scan()) or "There is no memory yet."
        return "\n".join(self._project().list_files(pattern or path or "*")) or "No file matches."

    def _read(self, values: Mapping[str, object]) -> str:
        where, path = self.find(pick(values, PATH_KEYS))
        if where != "memory":
            return self._project().read(path)
        if path == INDEX_FILE:
            return show_manifest(self.staging.scan()) or "The index is empty."
        text = self.staging.read(path.removesuffix(".md"))
        return f"{show_byline(Scope.TEAM)}\n\n{text}" if is_team(path) else text

    def _search(self, values: Mapping[str, object]) -> str:
        words = pick(values, _WORDS)
        where, path = self.find(pick(values, PATH_KEYS) or "memory")
        is_memory = where == "memory"
        hits = _search(self._read_memories(), words) if is_memory else self._project().search(words, path or "*")
        return "\n".join(hits) or "No line matches."

    def _read_memories(self) -> Iterator[tuple[str, str]]:
        for header in self.staging.scan():
            with suppress(MemdirError):
                yield header.file, self.staging.read(header.name)

    def _write(self, values: Mapping[str, object]) -> str:
        name, text = self._find_memory(values), pick(values, TEXT_KEYS)
        if name is None:
            return _INDEX_KEPT
        return self._stage(name, text) if text.strip() else self._forget(name)

    def _edit(self, values: Mapping[str, object]) -> str:
        name = self._find_memory(values)
        if name is None:
            return _INDEX_KEPT
        old, new, text = pick(values, OLD_KEYS), pick(values, NEW_KEYS), self.staging.read(name)
        count = text.count(old) if old else 0
        if count != 1:
            raise NotFoundError(f"the passage occurs {count} times in {name}.md, not once", name=name)
        return self._stage(name, text.replace(old, new))

    def _delete(self, values: Mapping[str, object]) -> str:
        return _INDEX_KEPT if (name := self._find_memory(values)) is None else self._forget(name)

    def _stage(self, name: str, text: str) -> str:
        size = len(text.encode("utf-8", "replace"))
        if self.written + size > self._limit:
            raise _Refused(f"a run may write {self._limit:,} bytes, and this would be more")
        # Keep `pinned` unchanged, because only the user decides which memories are in every prompt.
        was = frontmatter.parse_fields(self.staging.find_before(name) or "").pinned
        if frontmatter.split_frontmatter(text).opening and frontmatter.parse_fields(text).pinned != was:
            text = frontmatter.set_fields(text, {"pinned": "true" if was else None})
        is_new = self.staging.write(name, text)
        self.written += size
        return f"{'Created' if is_new else 'Updated'} {name}.md."

    def _forget(self, name: str) -> str:
        self.staging.forget(name)
        return f"Deleted {name}.md."

    def _project(self) -> ProjectTree:
        if self._tree is None:
            raise _Refused("there is no project to look into in this run")
        return self._tree

    def _find_memory(self, values: Mapping[str, object]) -> str | None:
        """Return the memory that a call names, or None for the index, which is updated automatically."""
        where, path = self.find(pick(values, PATH_KEYS))
        if where != "memory":
            raise _Refused("only memory files may be changed in this run", hint=f"write to {self._memory}")
        return None if PurePosixPath(path).name == INDEX_FILE else path.removesuffix(".md")

    def find(self, path: str) -> tuple[str, str]:
        """Return "memory" or "project" and the path relative to it. Raises an error if access is not allowed."""
        if not path:
            raise _Refused("the call names no file")
        if "\0" in path or path != replace_surrogates(path) or ".." in PurePosixPath(path.replace("\\", "/")).parts:
            raise _Refused(f"{shorten(one_line(path), 80)!r} is refused: it climbs or hides something")
        plain = path.removeprefix("file://")
        for where, root in (("memory", self._memory), ("project", self._tree.root if self._tree else None)):
            for spelling in () if root is None else {str(root), str(root.resolve())}:
                if plain == spelling or plain.startswith(spelling.rstrip("/") + "/"):
                    return where, plain[len(spelling) :].strip("/")
        if plain.startswith(("/", "~")):
            raise _Refused(f"{shorten(one_line(path), 80)!r} is {_OUTSIDE}")
        if plain == "memory" or plain.startswith("memory/"):
            return "memory", plain.removeprefix("memory").removeprefix("/")
        return ("project", plain.removeprefix("./").strip("/")) if self._tree else ("memory", plain)


class _Refused(MemdirError):
    """Raised for a call that is not allowed."""


def has_writing_tools(parent: Mapping[str, object]) -> bool:
    rows = [as_table(row) for row in as_list(parent.get("tools"))]
    names = [_normalise_name(str(row.get("name") or as_table(row.get("function")).get("name", ""))) for row in rows]
    return any(_TOOLS.get(name) in ("write", "edit") or name in _COMMAND_TOOLS for name in names)


def _normalise_name(name: str) -> str:
    return name.rpartition("__")[2].replace("_", "").replace("-", "").lower()


def translate_names(call: ToolCall) -> tuple[str, Mapping[str, object]]:
    """Return which of memdir's tools a call means, and the call's input."""
    plain = _normalise_name(call.name)
    if plain in _COMMAND_TOOLS:
        plain = str(call.input.get("command", "")).replace("_", "").lower()
        if plain == "view":
            return "read" if pick(call.input, PATH_KEYS).endswith(".md") else "list", call.input
    return _TOOLS.get(plain, ""), call.input


def pick(values: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """Return the first string among the values of these keys, or ""."""
    return next((value for key in keys if isinstance(value := values.get(key), str)), "")


def _refuse(problem: str, hint: str = "") -> ToolResult:
    return ToolResult(f"Refused: {problem}.{f' {hint}.' if hint else ''}", refused=True)


def render_ran(result: ForkResult | None) -> dict[str, object]:
    """Return the cost of a run and the cached share of its first request for the run log."""
    usage, first = (result.usage, result.first) if result else (Usage(), Usage())
    return {
        "requests": result.turns if result else 0,
        "calls": result.calls if result else 0,
        "refused": result.refused if result else 0,
        "tokens": {key: getattr(usage, key) for key in ("fresh", "cached", "stored", "output")} if result else None,
        "cached_share": round(first.cached / first.input, 4) if first.input else None,
        "dollars": usage.dollars,
    }
