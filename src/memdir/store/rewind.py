"""Taking back: what an undo or a restore would do, file by file. Pure, like `plan`.

A topic file goes back only if it still is what the change left behind; else that is a conflict and nothing changes. An
index goes back byte for byte if nothing else touched it, and line by line if something did.
"""

from collections.abc import Callable

from memdir.errors import ConflictError, NotFoundError
from memdir.format import frontmatter, index
from memdir.guard import check_name
from memdir.records import Change, ChangedFile
from memdir.store.plan import FileChange, StoreView, decode, digest_of, encode, is_index_path, plan_pointers

Contents = Callable[[str], bytes]


def plan_undo(view: StoreView, change: Change, contents: Contents) -> list[FileChange]:
    """The changes that take a change back, or ConflictError."""
    changes = []
    for file in change.files:
        current = view.read_bytes(file.path)
        if is_index_path(file.path):
            planned = _rewind_index(file, current)
        else:
            check_unchanged(file, current)
            planned = FileChange(file.path, current, contents(file.before) if file.before else None)
        if planned.before != planned.after:
            changes.append(planned)
    return changes


def plan_restore(view: StoreView, name: str, data: bytes) -> list[FileChange]:
    """One memory as it was in some earlier version, with a pointer if it has none."""
    check_name(name)
    path = f"{name}.md"
    current = view.read_bytes(path)
    changes = [FileChange(path, current, data)] if current != data else []
    return changes + plan_pointers(_Overlay(view, path, data), [name])


def find_version(changes: tuple[Change, ...], name: str, change: int | None, current: str | None) -> str:
    """The digest to restore: what the file was after that change, else the version before the present one."""
    path = f"{name}.md"
    files = [(step.id, file) for step in changes for file in step.files if file.path == path]
    if change is not None:
        for number, file in files:
            if number <= change:
                if file.after is None:
                    raise NotFoundError(f"{name} did not exist after change {change}", name=name)
                return file.after
        raise NotFoundError(f"{name} has no version that old", name=name, hint=f"`memdir history {name}` lists them")
    for _, file in files:
        for digest in (file.after, file.before):
            if digest is not None and digest != current:
                return digest
    raise NotFoundError(f"no other version of {name} is in the history", name=name)


def check_unchanged(change: ChangedFile, current: bytes | None) -> None:
    found = digest_of(current) if current is not None else None
    if found == change.after:
        return
    name = change.path.removesuffix(".md")
    what = "is gone" if found is None else "exists again" if change.after is None else "was changed"
    raise ConflictError(
        f"cannot undo: {name} {what} since then",
        expected=change.after,
        found=found,
        hint=f"`memdir history {name}` shows by whom; undo that first, or `memdir restore {name}`",
    )


def merge_lines(text: str, removed: bytes, inserted: bytes) -> str:
    """Line by line: take out the lines that left, put in the ones that came, wherever the rest now stands."""
    old, new = frontmatter.split_lines(decode(removed)), frontmatter.split_lines(decode(inserted))
    gone = [line for line in old if line not in new]
    lines = [line for line in frontmatter.split_lines(text) if line not in gone]
    text = "".join(lines)
    for line in new:
        if line in old or line in lines or not line.strip():
            continue
        parsed = index.parse_index(line)[0]
        if parsed.is_pointer and not index.find_lines(text, parsed.name):
            text = index.append_pointer(text, line.rstrip("\r\n"))
    return text


def redo_index(change: ChangedFile, current: bytes | None) -> bytes | None:
    """An index as a change meant to leave it, starting from what it is now."""
    found = digest_of(current) if current is not None else None
    if found == change.after or change.splice is None:
        return current
    if found == change.before:
        return index.apply_splice(current or b"", change.splice) if change.after is not None else None
    return encode(merge_lines(decode(current or b""), change.splice[1], change.splice[2]))


def _rewind_index(change: ChangedFile, current: bytes | None) -> FileChange:
    if change.splice is None:
        return FileChange(change.path, current, current)
    at, removed, inserted = change.splice
    back = ChangedFile(change.path, change.after, change.before, (at, inserted, removed))
    return FileChange(change.path, current, redo_index(back, current))


class _Overlay:
    """A view in which one file already has its new bytes."""

    def __init__(self, view: StoreView, path: str, data: bytes) -> None:
        self._view, self._path, self._data = view, path, data

    def read_bytes(self, path: str) -> bytes | None:
        return self._data if path == self._path else self._view.read_bytes(path)

    def list_files(self, folder: str) -> list[str]:
        return list(self._view.list_files(folder))
