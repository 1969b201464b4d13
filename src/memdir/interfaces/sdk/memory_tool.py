"""Anthropic's memory tool (`memory_20250818`) on a memdir store, for the SDK's own tool runner.

    memory = MemoryTool(memdir.open_store())
    client.beta.messages.tool_runner(model=…, max_tokens=…, messages=[…], tools=[memory]).until_done()

What a command refuses comes back to the model as an error of the tool, in the words it knows. What each command does is
in `commands`.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, PathError
from memdir.format import frontmatter
from memdir.format.drafts import check_description
from memdir.format.frontmatter import split_lines
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.guard import check_name
from memdir.interfaces.sdk import make_missing
from memdir.interfaces.tools import check_visible, clean_result, list_visible, render_refusal
from memdir.language.dates import make_absolute
from memdir.records import Dialect, Forget, Header, Kind, Memory, Origin, Put, Scope
from memdir.store import plan
from memdir.store.files import FileStore
from memdir.store.plan import Overlay
from memdir.store.secrets import find_secrets, render_findings
from memdir.text import find_forbidden, fold, one_line, shorten

# --- paths ---
# The paths of the memory tool: `/memories/…` to names of memories and back. Pure.
#
# A memory is a `.md` file whose name knows no dot, but models like `notes.txt` and `plan.xml` too. So a dot inside a
# name
# is kept as `__`: `notes.txt` is the memory `notes__txt`. A path without a suffix means the memory of that name.
# Folders
# are what they are. Whether a name may be written is the guard's question.

ROOT = "/memories"
_DOT = re.compile(r"(?<=[^\W_])__(?=[^\W_])")
_DEEP = 3  # decodings after which a path that still changes is up to something


class RefusedError(Exception):
    """What a command answers when it does not do what was asked; the text is for the model."""


def parse_path(path: object, key: str = "path") -> tuple[str, ...]:
    """The segments below the root, none for the root itself; raises RefusedError for what is not below it."""
    if not isinstance(path, str) or not path:
        raise RefusedError(f"Error: The parameter `{key}` is missing. Please provide a path that begins with {ROOT}.")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise RefusedError(f"Error: The path {say(path)} is not in {ROOT}. Please provide a valid path.")
    if _climbs(path) or find_forbidden(path, lines=False):
        raise RefusedError(f"Error: The path {say(path)} leads out of {ROOT}. Please provide a valid path.")
    return tuple(segment for segment in path.removeprefix(ROOT).split("/") if segment)


def make_name(segments: tuple[str, ...]) -> str:
    """The name of the memory that a path means."""
    *folders, leaf = segments
    stem = leaf.removesuffix(".md")
    return "/".join([*folders, stem if "." not in stem else re.sub(r"(?<=\w)\.(?=\w)", "__", leaf)])


def show_name(name: str) -> str:
    """A memory's path below the root, as listings tell it."""
    folder, slash, leaf = name.rpartition("/")
    shown = _DOT.sub(".", leaf)
    return f"{folder}{slash}{shown}" if shown != leaf else f"{name}.md"


def is_index(segments: tuple[str, ...]) -> bool:
    return bool(segments) and segments[-1] == INDEX_FILE


def say(path: str) -> str:
    """A path as an answer repeats it."""
    return shorten(one_line(path), 300)


def _climbs(path: str) -> bool:
    """Whether any reading of the path has a segment that goes up: as it is, decoded, in full-width characters."""
    for _ in range(_DEEP):
        plain = unicodedata.normalize("NFKC", path).replace("\\", "/")
        if "\0" in plain or any(set(segment) == {"."} for segment in plain.split("/") if segment):
            return True
        decoded = unquote(plain, errors="replace")
        if decoded == path:
            return False
        path = decoded
    return True


# --- pages ---
# Plain text as a memory: what an agent writes without frontmatter is kept to the letter, below a head of memdir's.
#
# Such a file says `plain: true` in its head; whoever reads it through the memory tool sees the text alone, everybody
# else
# a memory like any other. The description is made from how the text begins, and made anew when the text changes,
# unless
# somebody has given it another. Pure.

_MARK = "plain"
_DESCRIPTION_CHARS = 140


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A file in two parts: the head that is not shown, empty if all of it is, and the text."""

    head: str
    text: str


def open_page(text: str) -> MemoryPage:
    parts = frontmatter.split_frontmatter(text)
    if frontmatter.parse_fields(text).raw.get(_MARK) != "true":
        return MemoryPage("", text)
    body = parts.body.removeprefix("\n")
    return MemoryPage(text[: len(text) - len(body)], body)


def has_head(text: str) -> bool:
    """Whether the text brings frontmatter of its own."""
    return bool(frontmatter.split_frontmatter(text).opening)


def compose_page(leaf: str, text: str, *, scope: Scope, dialect: Dialect) -> str:
    """The file of a plain text. Its type is one whose words are kept as they are: a reference, or about the user."""
    kind = Kind.USER if scope is Scope.USER else Kind.REFERENCE
    fields = {"name": leaf, "description": describe_page(leaf, text), "type": kind.value, _MARK: "true"}
    return frontmatter.compose_file(fields, "", dialect) + text


def change_page(page: MemoryPage, leaf: str, text: str, *, scope: Scope, new_leaf: str = "") -> str:
    """The file with another text, or under another name; one that has no head at all gets one."""
    new_leaf = new_leaf or leaf
    if not page.head:
        return (
            text
            if has_head(text) or has_head(page.text)
            else compose_page(new_leaf, text, scope=scope, dialect=Dialect.FLAT)
        )
    changed, fields = page.head + text, frontmatter.parse_fields(page.head)
    if fields.title == leaf != new_leaf:
        changed = frontmatter.set_fields(changed, {"name": new_leaf})
    if fields.description == describe_page(leaf, page.text):
        changed = frontmatter.set_fields(changed, {"description": describe_page(new_leaf, text)})
    return changed


def describe_page(leaf: str, text: str) -> str:
    """One line by which recall can judge a text: how it begins, after its name if that alone says too little."""
    begins = shorten(one_line(text[:2000]).lstrip("#-*> "), _DESCRIPTION_CHARS)
    named = f"What an agent wrote down in {leaf}"
    return next((line for line in (begins, f"{named}: {begins}") if begins and _is_telling(line)), named)


def fit_line_ends(said: str, text: str) -> str:
    """What a model says with the line ends of the text it is for: a view does not show which those are."""
    return said.replace("\n", "\r\n") if "\r\n" in text and "\r" not in said else said


def find_once(text: str, old: str, path: str) -> int:
    """Where the old text stands; raises RefusedError unless that is one place."""
    at = text.find(old) if old else -1
    if at < 0:
        raise RefusedError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    places = [at]
    while (more := text.find(old, places[-1] + 1)) >= 0:
        places.append(more)
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:100])
        raise RefusedError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    return at


def _is_telling(line: str) -> bool:
    try:
        check_description(line)
    except FormatError:
        return False
    return not find_forbidden(line, lines=False)


# --- views ---
# How the memory tool shows folders and files: lines with sizes, lines with numbers. Pure.
#
# What is longer than a view may be ends at a line, with a word on how to see the rest: models are told to expect that.

LINES_MOST = 999_999
CHARS_MOST = 16_000  # of one view; what a model is told about text views
_DEPTH = 2
_AROUND = 2  # lines of a snippet before and after what changed
_SKIPPED = "node_modules"


def render_folder(path: str, depth: int, sizes: Mapping[str, int]) -> str:
    """The folder at `path`, itself so many levels deep, whose files are among these; two levels of it."""
    totals: dict[str, int] = {}
    for file, size in sizes.items():
        *folders, leaf = file.split("/")[depth:]
        if _SKIPPED in folders:
            continue
        for level in range(1, min(len(folders), _DEPTH) + 1):
            folder = "/".join(folders[:level]) + "/"
            totals[folder] = totals.get(folder, 0) + size
        if len(folders) < _DEPTH:
            totals["/".join([*folders, leaf])] = size
    lines = [f"{_render_size(sum(sizes.values()))}\t{path}"]
    lines += [f"{_render_size(size)}\t{path}/{clean_result(at)}" for at, size in sorted(totals.items())]
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
    kept = _fit(lines)
    rest = f"\n({len(lines) - kept} more; view a directory inside to see them)" if kept < len(lines) else ""
    return "\n".join([head, *lines[:kept]]) + rest


def render_lines(path: str, text: str, span: object) -> str:
    """A file with line numbers, or the lines from and to which `span` says; -1 stands for the last."""
    lines = split_lines(text)
    if len(lines) > LINES_MOST:
        raise RefusedError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = _find_span(span, len(lines))
    shown = [_number(number, lines[number - 1]) for number in range(first, last + 1)]
    kept = _fit(shown)
    rest = ""
    if kept < len(shown):
        rest = f"\n(truncated: lines {first} to {first + kept - 1} of {len(lines)}; view_range shows the others)"
    return "\n".join([f"Here's the content of {path} with line numbers:", *shown[:kept]]) + rest


def render_snippet(text: str, at: int, fresh: str) -> str:
    """The lines around what has been put in."""
    lines = split_lines(text)
    first = text.count("\n", 0, at) + 1
    last = min(first + fresh.count("\n") + _AROUND, len(lines))
    shown = [_number(number, lines[number - 1]) for number in range(max(1, first - _AROUND), last + 1)]
    return "\n".join(shown[: _fit(shown)])


def _number(number: int, line: str) -> str:
    return f"{number:>6}\t{clean_result(line.removesuffix(chr(10)).removesuffix(chr(13)))}"


def _find_span(span: object, count: int) -> tuple[int, int]:
    if span is None:
        return 1, count
    if isinstance(span, list | tuple) and len(span) == 2 and all(type(at) is int for at in span):
        first, last = span[0], count if span[1] == -1 else min(span[1], count)
        if 1 <= first <= max(count, 1) and last >= first - (not count):
            return first, last
    raise RefusedError(
        f"Error: Invalid `view_range` parameter: {say(str(span))}. "
        f"It should be within the range of lines of the file: [1, {count}]"
    )


def _fit(lines: list[str]) -> int:
    """How many of the lines fit into a view; the first always does, cut by nobody."""
    room = CHARS_MOST
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return max(number, 1)
    return len(lines)


def _render_size(size: int) -> str:
    value, unit = float(size), "B"
    for unit in "BKMG":
        if value < 1024 or unit == "G":
            break
        value /= 1024
    return f"{value:.0f}{unit}" if unit == "B" else f"{value:.1f}{unit}"


# --- commands ---
# The six commands of the memory tool on a memdir store: view, create, str_replace, insert, delete, rename.
#
# The words of the answers are those that Anthropic documents, since models know them. `/memories` is the memory
# directory: its memories are the files, MEMORY.md can be viewed and is kept by memdir itself. Each change is one change
# of
# history, said to be an agent's. What looks like a secret is refused wherever it would go: nobody watches an agent
# write.
#
# No SDK is needed here; `run` takes a call's input as it comes from the API.

Given = Mapping[str, object]
_TRIES = 5  # when somebody else changes the same memory between reading and writing
_LOGS = "logs"


class MemoryCommands:
    """`session` is the conversation that history files the changes under. Safe to use from several threads."""

    def __init__(self, store: FileStore, *, session: str = "") -> None:
        self.store = store
        self.origin = Origin("agent", "by the memory tool", session)
        self._commands: Mapping[str, Callable[[Given], str]] = {
            "view": self.view,
            "create": self.create,
            "str_replace": self.str_replace,
            "insert": self.insert,
            "delete": self.delete,
            "rename": self.rename,
        }

    def run(self, given: object) -> str:
        """What one call answers; raises RefusedError with the words for the model."""
        table = given if isinstance(given, Mapping) else {}
        run = self._commands.get(str(table.get("command")))
        if run is None:
            raise RefusedError(f"Error: The parameter `command` is one of {', '.join(self._commands)}.")
        try:
            return run(table)
        except MemdirError as error:
            raise RefusedError(f"Error: {render_refusal(error)}") from error

    def clear(self) -> str:
        """Forget every memory, in one change that `memdir undo` takes back."""
        names = [header.name for header in list_visible(self.store)]
        if names:
            self.store.change([Forget(name) for name in names], verb="forget", origin=self.origin)
        return "All memory cleared"

    # --- looking ----------------------------------------------------------------------------------------------------

    def view(self, given: Given) -> str:
        segments = parse_path(given.get("path"))
        path = say(str(given["path"]))
        if is_index(segments) and (text := self.store.index("/".join(segments[:-1]))):
            return render_lines(path, text, given.get("view_range"))
        memory = self._find(segments)
        if memory is not None:
            return render_lines(path, open_page(memory.text).text, given.get("view_range"))
        sizes = {show_name(at.name): at.signature.size for at in self._list(segments)}
        if not sizes and segments:
            raise RefusedError(f"The path {path} does not exist. Please provide a valid path.")
        if index := self.store.index() if not segments else "":
            sizes["MEMORY.md"] = len(index.encode("utf-8", "replace"))
        return render_folder(path.rstrip("/"), len(segments), sizes)

    # --- changing ---------------------------------------------------------------------------------------------------

    def create(self, given: Given) -> str:
        segments, text = self._take_file(given), _take_text(given, "file_text")
        path, name = say(str(given["path"])), make_name(segments)
        check_name(name)
        check_visible(self.store, name)
        if self._is_folder(segments):
            raise RefusedError(f"Error: The path {path} is a directory. Please provide the path of a file.")
        text, dated = self._date(text, frontmatter.parse_fields(text).kind)
        self._check_secrets(text, "", path)
        if not has_head(text):
            text = compose_page(segments[-1], text, scope=self.store.scope, dialect=self._find_dialect())
        try:
            self.store.change([Put(name, text)], verb="save", origin=self.origin)
        except ConflictError:
            raise RefusedError(f"Error: File {path} already exists") from None
        return f"File created successfully at: {path}{dated}"

    def str_replace(self, given: Given) -> str:
        segments, old = self._take_file(given), _take_text(given, "old_str")
        path, new = say(str(given["path"])), _take_text(given, "new_str", default="")

        def replace(text: str, kind: Kind | None) -> tuple[str, str]:
            gone = fit_line_ends(old, text)
            at = find_once(text, gone, path)
            fresh, dated = self._date(fit_line_ends(new, text), kind)
            changed = text[:at] + fresh + text[at + len(gone) :]
            return changed, f"The memory file has been edited.{dated}\n{render_snippet(changed, at, fresh)}"

        missing = f"Error: The path {path} does not exist. Please provide a valid path."
        return self._edit(segments, path, replace, missing)

    def insert(self, given: Given) -> str:
        segments, line, text = self._take_file(given), given.get("insert_line"), _take_text(given, "insert_text")
        path = say(str(given["path"]))

        def insert(before: str, kind: Kind | None) -> tuple[str, str]:
            lines = frontmatter.split_lines(before)
            if type(line) is not int or not 0 <= line <= len(lines):
                span = f"[0, {len(lines)}]"
                raise RefusedError(
                    f"Error: Invalid `insert_line` parameter: {say(str(line))}. "
                    f"It should be within the range of lines of the file: {span}"
                )
            fresh, dated = self._date(text, kind)
            head, rest = "".join(lines[:line]), "".join(lines[line:])
            head = head if not head or head.endswith("\n") else head + fit_line_ends("\n", before)
            fresh = fit_line_ends(fresh if fresh.endswith("\n") else fresh + "\n", before)
            return head + fresh + rest, f"The file {path} has been edited.{dated}"

        return self._edit(segments, path, insert, f"Error: The path {path} does not exist")

    def delete(self, given: Given) -> str:
        segments = self._take_any(given, "path", "delete")
        path = say(str(given["path"]))
        names = self._find_below(segments)
        if not names:
            raise RefusedError(f"Error: The path {path} does not exist")
        try:
            self.store.change([Forget(name) for name in names], verb="forget", origin=self.origin)
        except NotFoundError:
            raise RefusedError(f"Error: The path {path} does not exist") from None
        return f"Successfully deleted {path}"

    def rename(self, given: Given) -> str:
        old, new = self._take_any(given, "old_path", "rename"), self._take_any(given, "new_path", "rename")
        old_path, new_path = say(str(given["old_path"])), say(str(given["new_path"]))
        names = self._find_below(old)
        if not names:
            raise RefusedError(f"Error: The path {old_path} does not exist")
        if old != new and new[: len(old)] == old:
            raise RefusedError(f"Error: The destination {new_path} is inside {old_path}")
        if self._find_below(new):
            raise RefusedError(f"Error: The destination {new_path} already exists")
        is_file = self._find(old) is not None
        moves = [(name, make_name(new) if is_file else "/".join(new) + name[len("/".join(old)) :]) for name in names]
        check_visible(self.store, moves[0][1])
        try:
            self.store.carry_out(lambda view: self._plan_moves(view, moves), verb="move", origin=self.origin)
        except ConflictError:
            raise RefusedError(f"Error: The destination {new_path} already exists") from None
        except NotFoundError:
            raise RefusedError(f"Error: The path {old_path} does not exist") from None
        return f"Successfully renamed {old_path} to {new_path}"

    # --- inside -----------------------------------------------------------------------------------------------------

    def _list(self, segments: tuple[str, ...]) -> list[Header]:
        prefix = "".join(f"{segment}/" for segment in segments)
        return [at for at in list_visible(self.store) if at.name.startswith(prefix)]

    def _find(self, segments: tuple[str, ...]) -> Memory | None:
        """The memory that a path means, if it does."""
        if not segments or is_index(segments) or segments[0].casefold() == _LOGS or self._is_folder(segments):
            return None
        try:
            memory = self.store.read(make_name(segments))
        except (NotFoundError, PathError):
            return None
        return memory if self.store.team or memory.header.scope is not Scope.TEAM else None

    def _is_folder(self, segments: tuple[str, ...]) -> bool:
        """Whether a path without a suffix is a folder's: a memory of the same name is listed with its suffix."""
        return "." not in segments[-1] and bool(self._list(segments))

    def _find_below(self, segments: tuple[str, ...]) -> list[str]:
        """The memory that a path means, else all in the folder that it means."""
        memory = self._find(segments)
        return [memory.header.name] if memory is not None else [at.name for at in self._list(segments)]

    def _take_any(self, given: Given, key: str, verb: str) -> tuple[str, ...]:
        segments = parse_path(given.get(key), key)
        if not segments:
            raise RefusedError(f"Error: Cannot {verb} the {ROOT} directory itself")
        if is_index(segments):
            raise RefusedError(f"Error: {say(str(given[key]))} is kept by memdir itself. Change the memories instead.")
        return segments

    def _take_file(self, given: Given) -> tuple[str, ...]:
        segments = parse_path(given.get("path"))
        if not segments:
            raise RefusedError(f"Error: The path {ROOT} is a directory. Please provide the path of a file.")
        return self._take_any(given, "path", "change")

    def _edit(
        self,
        segments: tuple[str, ...],
        path: str,
        change: Callable[[str, Kind | None], tuple[str, str]],
        missing: str,
    ) -> str:
        for attempt in range(_TRIES):
            memory = self._find(segments)
            if memory is None:
                raise RefusedError(missing)
            page = open_page(memory.text)
            text, answer = change(page.text, memory.header.kind)
            self._check_secrets(text, page.text, path)
            try:
                self._write(memory, page, text)
            except ConflictError:
                if attempt == _TRIES - 1:
                    raise
            else:
                return answer
        raise AssertionError("unreachable")

    def _write(self, memory: Memory, page: MemoryPage, text: str) -> None:
        name = memory.header.name
        file = change_page(page, show_name(name).rpartition("/")[2], text, scope=self.store.scope)
        self.store.edit(name, file, expect=memory.digest, origin=self.origin)

    def _plan_moves(self, view: plan.StoreView, moves: list[tuple[str, str]]) -> list[plan.FileChange]:
        overlay = Overlay(view)
        for old, new in moves:
            data = overlay.read_bytes(f"{old}.md")
            if data is None:
                raise NotFoundError(f"no memory named {old}", name=old)
            overlay.put(plan.plan_delete(overlay, old, None))
            *folders, leaf = check_name(new)
            if any(fold(at) == fold(f"{leaf}.md") for at in overlay.list_files("/".join(folders))):
                raise ConflictError(f"{new} exists already")
            page, scope = open_page(plan.decode(data)), self.store.scope
            was, now = (show_name(name).rpartition("/")[2] for name in (old, new))
            text = change_page(page, was, page.text, scope=scope, new_leaf=now) if page.head else plan.decode(data)
            overlay.put([plan.FileChange(f"{new}.md", None, plan.encode(text))])
            if not self.store.rules.skip_index:
                overlay.put(plan.plan_pointers(overlay, [new]))
        return list(overlay.list_changes())

    def _find_dialect(self) -> Dialect:
        """What most of the memories here use."""
        known = [at.dialect for at in self.store.scan() if at.dialect is not None]
        return Dialect.NESTED if known.count(Dialect.NESTED) * 2 > len(known) else Dialect.FLAT

    def _date(self, text: str, kind: Kind | None) -> tuple[str, str]:
        """The text with absolute dates if it goes into a project memory, and what to say of it."""
        if kind is not Kind.PROJECT:
            return text, ""
        text, replaced = make_absolute(text, self.store.clock().astimezone())
        said = ", ".join(f"{at.was} -> {at.now_text}" for at in replaced)
        return text, f"\nRelative dates were made absolute: {said}" if said else ""

    def _check_secrets(self, text: str, before: str, path: str) -> None:
        find = self.store.rules.find or find_secrets
        known = {before[at.start : at.end] for at in find(before)} if before else set()
        found = [at for at in find(text) if text[at.start : at.end] not in known]
        if found:
            said = ", ".join(render_findings(found[:3], place=path))
            raise RefusedError(f"Error: Memory may not hold secrets: {said}. Write down where it is kept instead.")


def _take_text(given: Given, key: str, *, default: str | None = None) -> str:
    value = given.get(key)
    text = default if value is None else value
    if not isinstance(text, str):
        raise RefusedError(f"Error: The parameter `{key}` is missing. Please provide it as text.")
    if found := find_forbidden(text, lines=True):
        raise RefusedError(f"Error: The parameter `{key}` holds {found}. Please take it out.")
    return text


# --- anthropic ---

try:
    import anyio.to_thread
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ModuleNotFoundError as error:
    raise make_missing(error, "anthropic") from None


class MemoryTool(BetaAbstractMemoryTool):
    """`session` is the conversation that history files the changes under."""

    def __init__(self, store: FileStore, *, session: str = "", cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self.commands = MemoryCommands(store, session=session)

    def call(self, input: object) -> str:
        """As the model gave it: what the SDK's types require may be missing."""
        return _run(self.commands, input)

    def execute(self, command: Any) -> str:
        return _run(self.commands, command.model_dump())

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        return self.commands.clear()


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for the asynchronous client; the work is done in a thread."""

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


def _run(commands: MemoryCommands, given: object) -> str:
    try:
        return commands.run(given)
    except RefusedError as error:
        raise ToolError(str(error)) from None
