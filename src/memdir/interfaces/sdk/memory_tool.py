"""Anthropic's memory tool (`memory_20250818`) on a memdir store, for the SDK's own tool runner.

    memory = MemoryTool(memdir.FileStore("agent/memory"))
    client.beta.messages.tool_runner(model=…, max_tokens=…, messages=[…], tools=[memory]).until_done()

`/memories` is the memory directory and its memories are the files; MEMORY.md can be viewed and is maintained by memdir.
Results use the wording that Anthropic documents, because models know it. Each command is one change in history with an agent as
its origin. Text that looks like a secret is refused, because no user watches an agent write.

A memory is a `.md` file whose name has no dot, but models also write `notes.txt` and `plan.xml`: a dot inside a name is stored
as `__`, so `notes.txt` is the memory `notes__txt`. Text without frontmatter is stored exactly, below a hidden frontmatter with
`plain: true`. Its description is the beginning of the text and follows it unless the description was edited.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

from memdir.errors import ConflictError, MemdirError, NotFoundError, PathError
from memdir.files import check_name
from memdir.format import frontmatter
from memdir.format.frontmatter import split_lines
from memdir.format.index import INDEX_FILE
from memdir.format.shown import TextVoice, show_byline, show_line, show_text
from memdir.frozen import dataclass
from memdir.interfaces.sdk import describe_text, make_missing
from memdir.interfaces.tools import check_visible, render_refusal
from memdir.language.dates import make_absolute
from memdir.operations import write
from memdir.operations.find import list_memories
from memdir.operations.write import WriteContext
from memdir.records import Dialect, Edit, Forget, Header, Kind, Origin, Put, Scope, StoredMemory
from memdir.store import plan
from memdir.store.facts import find_authors
from memdir.store.files import FileStore
from memdir.text import find_forbidden, one_line, shorten

try:
    import anyio.to_thread
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ModuleNotFoundError as error:
    raise make_missing(error, "anthropic") from None

ROOT = "/memories"
LINES_MOST = 999_999
CHARS_MOST = 16_000  # per view; the tool's documentation tells models this limit
_PLAIN = "plain"
_DEPTH = 2
_AROUND = 2  # lines of a snippet before and after the change
_SKIPPED = "node_modules"
_LOGS = "logs"
Arguments = Mapping[str, object]


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool. History records its changes under `session`."""

    def __init__(self, store: FileStore, *, session: str = "", cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self.commands = MemoryCommands(store, session=session)

    def call(self, input: object) -> str:
        """Run a command from the model's raw input, which may lack fields that the SDK's types require."""
        return _run(self.commands, input)

    def execute(self, command: Any) -> str:
        return _run(self.commands, command.model_dump())

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        return self.commands.clear()


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for the asynchronous client; commands run in a thread."""

    def __init__(self, store: FileStore, *, session: str = "", cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self.commands = MemoryCommands(store, session=session)

    async def call(self, input: object) -> str:
        return await anyio.to_thread.run_sync(_run, self.commands, input)

    async def execute(self, command: Any) -> str:
        return await anyio.to_thread.run_sync(_run, self.commands, command.model_dump())

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        return await anyio.to_thread.run_sync(self.commands.clear)


def _run(commands: "MemoryCommands", arguments: object) -> str:
    try:
        return commands.run(arguments)
    except RefusedError as error:
        raise ToolError(str(error)) from None


class RefusedError(Exception):
    """Raised when a command is refused; the model reads the message."""


class MemoryCommands:
    """The six commands, without the SDK. `session` is the conversation that history records with the changes. Safe
    to use from several threads."""

    def __init__(self, store: FileStore, *, session: str = "") -> None:
        self.store = store
        self.origin = Origin("agent", "by the memory tool", session)
        commands = (self.view, self.create, self.str_replace, self.insert, self.delete, self.rename)
        self._commands: Mapping[str, Callable[[Arguments], str]] = {command.__name__: command for command in commands}

    def run(self, arguments: object) -> str:
        """Run the command that a tool call contains and return the text for the model. Raises RefusedError if it fails."""
        table = arguments if isinstance(arguments, Mapping) else {}
        run = self._commands.get(str(table.get("command")))
        if run is None:
            raise RefusedError(f"Error: The parameter `command` must be one of {', '.join(self._commands)}.")
        try:
            return run(table)
        except MemdirError as error:
            raise RefusedError(f"Error: {render_refusal(error)}") from error

    def _make_context(self) -> WriteContext:
        return WriteContext(self.origin, self.store.clock())

    def clear(self) -> str:
        """Forget every memory, in one change that `memdir undo` reverts."""
        names = [header.name for header in self._list_headers(())]
        if names:
            write.forget_many(self.store, names, self._make_context()).check_written()
        return "All memory cleared"

    def view(self, arguments: Arguments) -> str:
        segments = _parse_path(arguments.get("path"))
        path = _show_path(str(arguments["path"]))
        if _is_index(segments) and (text := self.store.index("/".join(segments[:-1]))):
            byline = show_byline(Scope.TEAM) if len(segments) > 1 else ""
            return _render_lines(path, text, arguments.get("view_range"), byline)
        memory = self._find_memory(segments)
        if memory is not None:
            name, scope = memory.name, memory.header.scope
            author = find_authors(self.store, [name]).get(name, "") if scope is Scope.TEAM else ""
            byline = show_byline(scope, author)
            return _render_lines(path, _open_page(memory.text).text, arguments.get("view_range"), byline)
        sizes = {_show_name(header.name): header.signature.size for header in self._list_headers(segments)}
        if not sizes and segments:
            raise RefusedError(f"The path {path} does not exist. Please provide a valid path.")
        if index := self.store.index() if not segments else "":
            sizes["MEMORY.md"] = len(index.encode("utf-8", "replace"))
        return _render_folder(path.rstrip("/"), len(segments), sizes)

    def create(self, arguments: Arguments) -> str:
        segments, text = self._read_file_path(arguments), _read_text(arguments, "file_text")
        path, name = _show_path(str(arguments["path"])), _make_name(segments)
        check_name(name)
        check_visible(self.store, name)
        if self._is_folder(segments):
            raise RefusedError(f"Error: The path {path} is a directory. Please provide the path of a file.")
        text, dated = self._resolve_dates(text, frontmatter.parse_fields(text).kind)
        plan.check_secrets(text, "", path, self.store.rules, "memories")
        if not _has_frontmatter(text):
            text = _compose_page(segments[-1], text, scope=self.store.scope, dialect=plan.find_dialect(self.store, ""))
        try:
            write.change(self.store, [Put(name, text)], self._make_context(), verb="save").check_written()
        except ConflictError:
            raise RefusedError(f"Error: File {path} already exists") from None
        return f"File created successfully at: {path}{dated}"

    def str_replace(self, arguments: Arguments) -> str:
        segments, old = self._read_file_path(arguments), _read_text(arguments, "old_str")
        path, new = _show_path(str(arguments["path"])), _read_text(arguments, "new_str", default="")

        def replace(text: str, kind: Kind | None) -> tuple[str, str]:
            gone = _fit_line_ends(old, text)
            position = _find_once(text, gone, path)
            fresh, dated = self._resolve_dates(_fit_line_ends(new, text), kind)
            changed = text[:position] + fresh + text[position + len(gone) :]
            return changed, f"The memory file has been edited.{dated}\n{_render_snippet(changed, position, fresh)}"

        missing = f"Error: The path {path} does not exist. Please provide a valid path."
        return self._edit_memory(segments, path, replace, missing)

    def insert(self, arguments: Arguments) -> str:
        segments, line = self._read_file_path(arguments), arguments.get("insert_line")
        text, path = _read_text(arguments, "insert_text"), _show_path(str(arguments["path"]))

        def insert(before: str, kind: Kind | None) -> tuple[str, str]:
            lines = frontmatter.split_lines(before)
            if type(line) is not int or not 0 <= line <= len(lines):
                raise RefusedError(
                    f"Error: Invalid `insert_line` parameter: {_show_path(str(line))}. "
                    f"It should be within the range of lines of the file: [0, {len(lines)}]"
                )
            fresh, dated = self._resolve_dates(text, kind)
            head, rest = "".join(lines[:line]), "".join(lines[line:])
            head = head if not head or head.endswith("\n") else head + _fit_line_ends("\n", before)
            fresh = _fit_line_ends(fresh if fresh.endswith("\n") else fresh + "\n", before)
            return head + fresh + rest, f"The file {path} has been edited.{dated}"

        return self._edit_memory(segments, path, insert, f"Error: The path {path} does not exist")

    def delete(self, arguments: Arguments) -> str:
        segments = self._read_path(arguments, "path", "delete")
        path = _show_path(str(arguments["path"]))
        try:
            if not (names := self._find_below(segments)):
                raise NotFoundError(path)
            write.forget_many(self.store, names, self._make_context()).check_written()
        except NotFoundError:
            raise RefusedError(f"Error: The path {path} does not exist") from None
        return f"Successfully deleted {path}"

    def rename(self, arguments: Arguments) -> str:
        old, new = self._read_path(arguments, "old_path", "rename"), self._read_path(arguments, "new_path", "rename")
        old_path, new_path = _show_path(str(arguments["old_path"])), _show_path(str(arguments["new_path"]))
        names = self._find_below(old)
        if not names:
            raise RefusedError(f"Error: The path {old_path} does not exist")
        if old != new and new[: len(old)] == old:
            raise RefusedError(f"Error: The destination {new_path} is inside {old_path}")
        if self._find_below(new):
            raise RefusedError(f"Error: The destination {new_path} already exists")
        is_file = self._find_memory(old) is not None
        moves = [(name, _make_name(new) if is_file else "/".join(new) + name[len("/".join(old)) :]) for name in names]
        check_visible(self.store, moves[0][1])
        edits = [edit for old_name, new_name in moves for edit in self._make_move(old_name, new_name)]
        try:
            write.change(self.store, edits, self._make_context(), verb="move").check_written()
        except ConflictError:
            raise RefusedError(f"Error: The destination {new_path} already exists") from None
        except NotFoundError:
            raise RefusedError(f"Error: The path {old_path} does not exist") from None
        return f"Successfully renamed {old_path} to {new_path}"

    def _list_headers(self, segments: tuple[str, ...]) -> list[Header]:
        prefix = "".join(f"{segment}/" for segment in segments)
        return [header for _, header in list_memories([self.store], visible=True) if header.name.startswith(prefix)]

    def _find_memory(self, segments: tuple[str, ...]) -> StoredMemory | None:
        if not segments or _is_index(segments) or segments[0].casefold() == _LOGS or self._is_folder(segments):
            return None
        try:
            memory = self.store.read(_make_name(segments))
        except (NotFoundError, PathError):
            return None
        return memory if self.store.team or memory.header.scope is not Scope.TEAM else None

    def _is_folder(self, segments: tuple[str, ...]) -> bool:
        """Return whether a path without a suffix is a folder; a memory of the same name is listed with its suffix."""
        return "." not in segments[-1] and bool(self._list_headers(segments))

    def _find_below(self, segments: tuple[str, ...]) -> list[str]:
        memory = self._find_memory(segments)
        return [memory.header.name] if memory is not None else [header.name for header in self._list_headers(segments)]

    def _read_path(self, arguments: Arguments, key: str, verb: str) -> tuple[str, ...]:
        segments = _parse_path(arguments.get(key), key)
        if not segments:
            raise RefusedError(f"Error: Cannot {verb} the {ROOT} directory itself")
        if _is_index(segments):
            path = _show_path(str(arguments[key]))
            raise RefusedError(f"Error: {path} is managed by memdir. Change the memories instead.")
        return segments

    def _read_file_path(self, arguments: Arguments) -> tuple[str, ...]:
        segments = _parse_path(arguments.get("path"))
        if not segments:
            raise RefusedError(f"Error: The path {ROOT} is a directory. Please provide the path of a file.")
        return self._read_path(arguments, "path", "change")

    def _edit_memory(
        self, segments: tuple[str, ...], path: str, change: Callable[[str, Kind | None], tuple[str, str]], missing: str
    ) -> str:
        def step() -> str:
            memory = self._find_memory(segments)
            if memory is None:
                raise RefusedError(missing)
            name, page = memory.header.name, _open_page(memory.text)
            text, result = change(page.text, memory.header.kind)
            plan.check_secrets(text, page.text, path, self.store.rules, "memories")
            file = _change_page(page, _show_name(name).rpartition("/")[2], text, scope=self.store.scope)
            write.rewrite(self.store, name, file, self._make_context(), expect=memory.digest).check_written()
            return result

        return write.retry(step)

    def _make_move(self, old: str, new: str) -> tuple[Edit, Edit]:
        memory = self.store.read(old)
        page, (was, now) = _open_page(memory.text), (_show_name(name).rpartition("/")[2] for name in (old, new))
        text = _change_page(page, was, page.text, scope=self.store.scope, new_leaf=now)
        return Forget(old, memory.digest), Put(new, text)

    def _resolve_dates(self, text: str, kind: Kind | None) -> tuple[str, str]:
        """Make relative dates absolute if `kind` is project; return the text and a note that lists the changed dates."""
        if kind is not Kind.PROJECT:
            return text, ""
        text, replaced = make_absolute(text, self.store.clock().astimezone())
        changes = ", ".join(f"{date.was} -> {date.now_text}" for date in replaced)
        return text, f"\nRelative dates were made absolute: {changes}" if changes else ""


def _read_text(arguments: Arguments, key: str, *, default: str | None = None) -> str:
    value = arguments.get(key)
    text = default if value is None else value
    if not isinstance(text, str):
        raise RefusedError(f"Error: The parameter `{key}` is missing. Please provide it as text.")
    if forbidden := find_forbidden(text, lines=True):
        raise RefusedError(f"Error: The parameter `{key}` contains {forbidden}. Please remove it.")
    return text


def _parse_path(path: object, key: str = "path") -> tuple[str, ...]:
    """Split a path below /memories into segments. Raises RefusedError for any other path."""
    if not isinstance(path, str) or not path:
        raise RefusedError(f"Error: The parameter `{key}` is missing. Please provide a path that begins with {ROOT}.")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise RefusedError(f"Error: The path {_show_path(path)} is not in {ROOT}. Please provide a valid path.")
    segments = tuple(segment for segment in path.removeprefix(ROOT).split("/") if segment)
    if find_forbidden(path, lines=False) or any(set(segment) == {"."} for segment in segments):
        raise RefusedError(f"Error: The path {_show_path(path)} is outside {ROOT}. Please provide a valid path.")
    return segments


def _make_name(segments: tuple[str, ...]) -> str:
    """Return the memory name for a path: the file name without `.md` or, if it has other dots, with `__` for each dot."""
    *folders, leaf = segments
    stem = leaf.removesuffix(".md")
    return "/".join([*folders, stem if "." not in stem else re.sub(r"(?<=\w)\.(?=\w)", "__", leaf)])


def _show_name(name: str) -> str:
    folder, slash, leaf = name.rpartition("/")
    file_name = re.sub(r"(?<=[^\W_])__(?=[^\W_])", ".", leaf)
    return f"{folder}{slash}{file_name}" if file_name != leaf else f"{name}.md"


def _is_index(segments: tuple[str, ...]) -> bool:
    return bool(segments) and segments[-1] == INDEX_FILE


def _show_path(path: str) -> str:
    return shorten(one_line(path), 300)


@dataclass(frozen=True, slots=True)
class _Page:
    """A file in two parts: the hidden frontmatter, empty if everything is shown, and the text."""

    frontmatter: str
    text: str


def _open_page(text: str) -> _Page:
    if frontmatter.parse_fields(text).raw.get(_PLAIN) != "true":
        return _Page("", text)
    body = frontmatter.split_frontmatter(text).body.removeprefix("\n")
    return _Page(text[: len(text) - len(body)], body)


def _has_frontmatter(text: str) -> bool:
    return bool(frontmatter.split_frontmatter(text).opening)


def _compose_page(leaf: str, text: str, *, scope: Scope, dialect: Dialect) -> str:
    """Return a file with hidden frontmatter for plain text. Its type is reference, or user in user memory."""
    kind = Kind.USER if scope is Scope.USER else Kind.REFERENCE
    fields = {"name": leaf, "description": describe_text(leaf, text), "type": kind.value, _PLAIN: "true"}
    return frontmatter.compose_file(fields, "", dialect) + text


def _change_page(page: _Page, leaf: str, text: str, *, scope: Scope, new_leaf: str = "") -> str:
    """Return the file with this text, renamed to `new_leaf` if given; adds hidden frontmatter if neither has any."""
    new_leaf = new_leaf or leaf
    if not page.frontmatter:
        if _has_frontmatter(text) or _has_frontmatter(page.text):
            return text
        return _compose_page(new_leaf, text, scope=scope, dialect=Dialect.FLAT)
    changed, fields = page.frontmatter + text, frontmatter.parse_fields(page.frontmatter)
    if fields.title == leaf != new_leaf:
        changed = frontmatter.set_fields(changed, {"name": new_leaf})
    if fields.description == describe_text(leaf, page.text):
        changed = frontmatter.set_fields(changed, {"description": describe_text(new_leaf, text)})
    return changed


def _fit_line_ends(new_text: str, text: str) -> str:
    """Convert the model's `new_text` to the line endings of the file's `text`, which `view` does not show."""
    return new_text.replace("\n", "\r\n") if "\r\n" in text and "\r" not in new_text else new_text


def _find_once(text: str, old: str, path: str) -> int:
    """Return the position of the old text. Raises RefusedError unless it occurs exactly once."""
    positions = [match.start() for match in re.finditer(f"(?={re.escape(old)})", text)] if old else []
    if not positions:
        raise RefusedError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(positions) > 1:
        lines = ", ".join(str(text.count("\n", 0, position) + 1) for position in positions[:100])
        raise RefusedError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    return positions[0]


def _render_folder(path: str, depth: int, sizes: Mapping[str, int]) -> str:
    """List two levels of the folder `path`, which is `depth` levels deep; `sizes` maps every file to its size."""
    totals: Counter[str] = Counter()
    for file, size in sizes.items():
        *folders, leaf = file.split("/")[depth:]
        if _SKIPPED in folders:
            continue
        for level in range(1, min(len(folders), _DEPTH) + 1):
            totals["/".join(folders[:level]) + "/"] += size
        if len(folders) < _DEPTH:
            totals["/".join([*folders, leaf])] = size
    lines = [f"{_render_size(sum(sizes.values()))}\t{path}"]
    lines += [f"{_render_size(size)}\t{path}/{show_line(entry)}" for entry, size in sorted(totals.items())]
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
    count = _count_fitting(lines)
    rest = f"\n({len(lines) - count} more; view a directory inside to see them)" if count < len(lines) else ""
    return "\n".join([head, *lines[:count]]) + rest


def _render_lines(path: str, text: str, span: object, note: str) -> str:
    """Return a file with line numbers, or its lines from `span`; -1 means the end. `note` names the author."""
    lines = split_lines(text)
    if len(lines) > LINES_MOST:
        raise RefusedError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = _find_span(span, len(lines))
    numbered = [_number_line(number, lines[number - 1]) for number in range(first, last + 1)]
    count = _count_fitting(numbered)
    rest = ""
    if count < len(numbered):
        rest = f"\n(truncated: lines {first} to {first + count - 1} of {len(lines)}; view_range shows the others)"
    return (
        "\n".join([*filter(None, [note]), f"Here's the content of {path} with line numbers:", *numbered[:count]]) + rest
    )


def _render_snippet(text: str, offset: int, new_text: str) -> str:
    lines = split_lines(text)
    first = text.count("\n", 0, offset) + 1
    last = min(first + new_text.count("\n") + _AROUND, len(lines))
    numbered = [_number_line(number, lines[number - 1]) for number in range(max(1, first - _AROUND), last + 1)]
    return "\n".join(numbered[: _count_fitting(numbered)])


def _number_line(number: int, line: str) -> str:
    return f"{number:>6}\t{show_text(line.removesuffix(chr(10)).removesuffix(chr(13)), TextVoice.FILE)}"


def _find_span(span: object, count: int) -> tuple[int, int]:
    if span is None:
        return 1, count
    if isinstance(span, list | tuple) and len(span) == 2 and all(type(number) is int for number in span):
        first, last = span[0], count if span[1] == -1 else min(span[1], count)
        if 1 <= first <= max(count, 1) and last >= first - (not count):
            return first, last
    raise RefusedError(
        f"Error: Invalid `view_range` parameter: {_show_path(str(span))}. "
        f"It should be within the range of lines of the file: [1, {count}]"
    )


def _count_fitting(lines: list[str]) -> int:
    """Return how many lines fit into a view, at least one."""
    fitting = sum(size <= CHARS_MOST for size in accumulate(len(line) + 1 for line in lines))
    return max(fitting, 1) if lines else 0


def _render_size(size: int) -> str:
    power = min(max(size.bit_length() - 1, 0) // 10, 3)
    return f"{size / 1024**power:.{1 if power else 0}f}{'BKMG'[power]}"
