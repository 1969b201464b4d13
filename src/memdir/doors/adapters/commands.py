"""The six commands of the memory tool on a memdir store: view, create, str_replace, insert, delete, rename.

The words of the answers are those that Anthropic documents, since models know them. `/memories` is the memory
directory: its memories are the files, MEMORY.md can be viewed and is kept by memdir itself. Each change is one act of
history, said to be an agent's. What looks like a secret is refused wherever it would go: nobody watches an agent write.

No SDK is needed here; `run` takes a call's input as it comes from the API.
"""

from collections.abc import Callable, Mapping

from memdir import frontmatter
from memdir.dates import make_absolute
from memdir.doors.adapters.pages import (
    Page,
    change_page,
    compose_page,
    find_once,
    fit_line_ends,
    has_head,
    open_page,
)
from memdir.doors.adapters.paths import ROOT, RefusedError, is_index, make_name, parse_path, say, show_name
from memdir.doors.adapters.views import render_folder, render_lines, render_snippet
from memdir.errors import ConflictError, MemdirError, NotFoundError, PathError
from memdir.guard import check_name
from memdir.records import Dialect, Forget, Header, Kind, Memory, Origin, Put, Scope
from memdir.secrets import find_secrets, render_findings
from memdir.store import plan
from memdir.store.batch import Overlay
from memdir.store.files import FileStore
from memdir.text import find_forbidden, fold
from memdir.toolset.arguments import render_refusal
from memdir.toolset.looking import check_told, list_told

Given = Mapping[str, object]
_TRIES = 5  # when somebody else changes the same memory between reading and writing
_LOGS = "logs"


class MemoryCommands:
    """`session` is the conversation that history files the changes under. Safe to use from several threads."""

    def __init__(self, store: FileStore, *, session: str = "") -> None:
        self.store = store
        self.origin = Origin("agent", "by the memory tool", session)
        self._acts: Mapping[str, Callable[[Given], str]] = {
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
        act = self._acts.get(str(table.get("command")))
        if act is None:
            raise RefusedError(f"Error: The parameter `command` is one of {', '.join(self._acts)}.")
        try:
            return act(table)
        except MemdirError as error:
            raise RefusedError(f"Error: {render_refusal(error)}") from error

    def clear(self) -> str:
        """Forget every memory, in one act that `memdir undo` takes back."""
        names = [header.name for header in list_told(self.store)]
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
        check_told(self.store, name)
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
        check_told(self.store, moves[0][1])
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
        return [at for at in list_told(self.store) if at.name.startswith(prefix)]

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

    def _write(self, memory: Memory, page: Page, text: str) -> None:
        name = memory.header.name
        file = change_page(page, show_name(name).rpartition("/")[2], text, scope=self.store.scope)
        self.store.edit(name, file, expect=memory.digest, origin=self.origin)

    def _plan_moves(self, view: plan.View, moves: list[tuple[str, str]]) -> list[plan.Planned]:
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
            overlay.put([plan.Planned(f"{new}.md", None, plan.encode(text))])
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
