"""The tools of a fork, in this process: list, read and search memory and project; write, edit and delete memories.

A fork is shown its parent's tool list, so it calls tools by the parent's names and in the parent's shapes; a table says
which of ours each of them means. Everything else is refused, in words the model can use: no shell, no network, no
file outside. Nothing is written here: writes go to the staging.
"""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from memdir import frontmatter
from memdir.errors import MemdirError, NotFoundError
from memdir.fork import Answer
from memdir.frozen import dataclass
from memdir.index import INDEX_FILE
from memdir.limits import FORK_HITS, FORK_WRITTEN_BYTES
from memdir.manifest import render_manifest
from memdir.records import Tool, ToolCall
from memdir.staging import Staging
from memdir.text import one_line, replace_surrogates, shorten
from memdir.tree import Tree

# What hosts call them, in small letters without `_` and `-`.
_NAMES = {
    "list": "list ls listfiles listdirectory listdir glob view_directory",
    "read": "read readfile view viewfile openfile cat",
    "search": "search grep grepsearch searchfilecontent searchfiles ripgrep",
    "write": "write writefile create createfile save",
    "edit": "edit editfile strreplace replace",
    "delete": "delete deletefile remove removefile",
}
_VERBS = {name.replace("_", ""): verb for verb, names in _NAMES.items() for name in names.split()}
# Tools that are one name with a `command` inside, such as the providers' own editor and memory tools.
_MANY = {"memory", "strreplacebasededittool", "strreplaceeditor", "texteditor"}
PATH_KEYS = ("file_path", "path", "absolute_path", "filepath", "filename", "file", "name", "dir_path", "directory")
TEXT_KEYS = ("content", "contents", "file_text", "text", "code_edit")
OLD_KEYS, NEW_KEYS = ("old_string", "old_str", "old", "old_text"), ("new_string", "new_str", "new", "new_text")
_WORDS, _GLOB = ("pattern", "query", "regex", "words"), ("glob", "include", "include_pattern", "pattern")
_INDEX_KEPT = "The index is kept in step by itself: nothing to do for MEMORY.md."
_OUTSIDE = "outside the memory and project directories"


def _make_tool(name: str, description: str, **parameters: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters), "additionalProperties": False}
    return Tool(name, description, schema)


# For a fork without a parent.
TOOLS = (
    _make_tool("list", "List memories, or files of the project.", path="`memory`, or a glob of project files"),
    _make_tool("read", "Read a memory or a project file.", path="`memory/NAME.md`, or a project file's path"),
    _make_tool(
        "search", "Find lines that hold one of the words.", query="words with | between them", path="`memory` or a glob"
    ),
    _make_tool("write", "Write a whole memory file.", path="`memory/NAME.md`", content="frontmatter and body"),
    _make_tool(
        "edit",
        "Replace one passage.",
        path="`memory/NAME.md`",
        old="the passage, once",
        new="its replacement",
    ),
    _make_tool("delete", "Delete a memory.", path="`memory/NAME.md`"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a path leads: a memory, the project, or nowhere a fork may go."""

    where: str
    path: str


class Hands:
    """`act` for a fork: one run's tools over one staging and one project; `limit` is what it may write, in bytes."""

    def __init__(self, staging: Staging, memory: Path, tree: Tree | None, *, limit: int = FORK_WRITTEN_BYTES) -> None:
        self.staging = staging
        self.written = 0
        self.seen: list[str] = []  # what the project's files said: words that nobody said in the conversation
        self._limit = limit
        self._memory = memory
        self._tree = tree

    def __call__(self, call: ToolCall) -> Answer:
        verb, values = translate(call)
        act: Callable[[Mapping[str, object]], str] | None = {
            "list": self._list,
            "read": self._read,
            "search": self._search,
            "write": self._write,
            "edit": self._edit,
            "delete": self._delete,
        }.get(verb)
        if act is None:
            return _refuse(f"{shorten(one_line(call.name), 40)!r} is not available in this run", _what_is())
        try:
            return Answer(replace_surrogates(act(values)))  # a file's name may hold what no request can
        except MemdirError as error:
            return _refuse(str(error), error.hint)

    # --- reading ----------------------------------------------------------------------------------------------------

    def _list(self, values: Mapping[str, object]) -> str:
        pattern = pick(values, _GLOB)
        target = self.find(pick(values, PATH_KEYS) or pattern or "memory")
        if target.where == "memory":
            return render_manifest(self.staging.scan()) or "There is no memory yet."
        files = self._project().list_files(pattern or target.path or "*")
        return self._see("\n".join(files)) or "No file matches."

    def _read(self, values: Mapping[str, object]) -> str:
        target = self.find(pick(values, PATH_KEYS))
        if target.where == "memory":
            if target.path == INDEX_FILE:
                return render_manifest(self.staging.scan()) or "The index is empty."
            return self.staging.read(target.path.removesuffix(".md"))
        return self._see(self._project().read(target.path))

    def _search(self, values: Mapping[str, object]) -> str:
        words = pick(values, _WORDS)
        target = self.find(pick(values, PATH_KEYS) or "memory")
        if target.where == "memory":
            hits = self._search_memory([at.strip().lower() for at in words.split("|") if at.strip()])
        else:
            hits = self._project().search(words, target.path or "*")
            self._see("\n".join(hits))
        return "\n".join(hits) or "No line matches."

    def _search_memory(self, words: list[str]) -> list[str]:
        hits: list[str] = []
        for header in self.staging.scan():
            try:
                text = self.staging.read(header.name)
            except MemdirError:
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if any(word in line.lower() for word in words):
                    hits.append(f"{header.file}:{number}: {shorten(line, 300)}")
            if len(hits) >= FORK_HITS:
                break
        return hits[:FORK_HITS]

    # --- writing ----------------------------------------------------------------------------------------------------

    def _write(self, values: Mapping[str, object]) -> str:
        name = self._find_memory(pick(values, PATH_KEYS))
        text = pick(values, TEXT_KEYS)
        if name is None:
            return _INDEX_KEPT
        if not text.strip():
            return self._forget(name)
        return self._put(name, text)

    def _edit(self, values: Mapping[str, object]) -> str:
        name = self._find_memory(pick(values, PATH_KEYS))
        if name is None:
            return _INDEX_KEPT
        old, new = pick(values, OLD_KEYS), pick(values, NEW_KEYS)
        text = self.staging.read(name)
        if not old or text.count(old) != 1:
            count = text.count(old) if old else 0
            raise NotFoundError(f"the passage stands {count} times in {name}.md, not once", name=name)
        return self._put(name, text.replace(old, new))

    def _delete(self, values: Mapping[str, object]) -> str:
        name = self._find_memory(pick(values, PATH_KEYS))
        return _INDEX_KEPT if name is None else self._forget(name)

    def _put(self, name: str, text: str) -> str:
        size = len(text.encode("utf-8", "replace"))
        if self.written + size > self._limit:
            raise _Refused(f"a run may write {self._limit:,} bytes, and this would be more")
        is_new = self.staging.write(name, self._leave_pin(name, text))
        self.written += size
        return f"{'Created' if is_new else 'Updated'} {name}.md."

    def _leave_pin(self, name: str, text: str) -> str:
        """The text pinned as the memory was: what stays in every prompt is for a person to say."""
        was = frontmatter.parse_fields(self.staging.find_before(name) or "").pinned
        if not frontmatter.split(text).opening or frontmatter.parse_fields(text).pinned == was:
            return text
        return frontmatter.set_fields(text, {"pinned": "true" if was else None})

    def _forget(self, name: str) -> str:
        self.staging.forget(name)
        return f"Deleted {name}.md."

    def _see(self, text: str) -> str:
        if text:
            self.seen.append(text)
        return text

    # --- where ------------------------------------------------------------------------------------------------------

    def _project(self) -> Tree:
        if self._tree is None:
            raise _Refused("there is no project to look into in this run")
        return self._tree

    def _find_memory(self, path: str) -> str | None:
        """The memory a path names; None for the index, which nobody needs to write."""
        target = self.find(path)
        if target.where != "memory":
            raise _Refused("only memory files may be changed in this run", hint=f"write to {self._memory}")
        if PurePosixPath(target.path).name == INDEX_FILE:
            return None
        return target.path.removesuffix(".md")

    def find(self, path: str) -> Target:
        """Where a path leads; raises for one that leads nowhere a fork may go."""
        if not path:
            raise _Refused("the call names no file")
        if "\0" in path or path != replace_surrogates(path) or ".." in PurePosixPath(path.replace("\\", "/")).parts:
            raise _Refused(f"{shorten(one_line(path), 80)!r} is refused: it climbs or hides something")
        plain = path.removeprefix("file://")
        for where, root in (("memory", self._memory), ("project", self._tree.root if self._tree else None)):
            for spelling in () if root is None else {str(root), str(root.resolve())}:
                if plain == spelling or plain.startswith(spelling.rstrip("/") + "/"):
                    return Target(where, plain[len(spelling) :].strip("/"))
        if plain.startswith(("/", "~")):
            raise _Refused(f"{shorten(one_line(path), 80)!r} is {_OUTSIDE}")
        if plain in ("memory", "memory/"):
            return Target("memory", "")
        if plain.startswith("memory/"):
            return Target("memory", plain.removeprefix("memory/"))
        return Target("project", plain.removeprefix("./").strip("/")) if self._tree else Target("memory", plain)


class _Refused(MemdirError):
    """What a tool answers instead of doing it."""


def has_writing_tools(parent: Mapping[str, object]) -> bool:
    """Whether a parent's tool list has one that can write a memory; a fork of any other could only look."""
    tools = parent.get("tools")
    rows = tools if isinstance(tools, list | tuple) else ()
    names = [str(row.get("name") or _mapping(row.get("function")).get("name", "")) for row in rows if _mapping(row)]
    return any(_VERBS.get(plain := _plain(name)) in ("write", "edit") or plain in _MANY for name in names)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _plain(name: str) -> str:
    return name.rpartition("__")[2].replace("_", "").replace("-", "").lower()


def translate(call: ToolCall) -> tuple[str, Mapping[str, object]]:
    """Which of our verbs a call means, and what it was given."""
    plain = _plain(call.name)
    if plain in _MANY:
        command = str(call.input.get("command", "")).replace("_", "").lower()
        if command == "view":
            path = str(pick(call.input, PATH_KEYS))
            return "read" if path.endswith(".md") else "list", call.input
        return _VERBS.get(command, ""), call.input
    return _VERBS.get(plain, ""), call.input


def pick(values: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """The first of these that was given as text."""
    return next((value for key in keys if isinstance(value := values.get(key), str)), "")


def _refuse(problem: str, hint: str = "") -> Answer:
    return Answer(f"Refused: {problem}.{f' {hint}.' if hint else ''}", refused=True)


def _what_is() -> str:
    return "Only listing, reading and searching, and writing memory files, work here; there is no shell and no network"
