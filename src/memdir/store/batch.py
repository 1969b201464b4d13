"""Many edits planned as one change: each sees what those before it would leave, and a file changes once. Pure as `plan`.

Every edit is looked at before anything is done. One that may not be written raises, and with it the whole batch; one
whose memory has changed since the caller saw it raises too, or is left out if that was asked for. Edits given together
in a tuple are left out together: a merge that cannot be written must not take away what it was made from.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from memdir.errors import ConflictError, NotFoundError
from memdir.format import frontmatter
from memdir.format.frontmatter import parse_fields
from memdir.frozen import dataclass, replace
from memdir.guard import check_name, check_path
from memdir.records import (
    AddPointer,
    DropPointer,
    Edit,
    Header,
    IndexEdit,
    Memory,
    Put,
    ReplaceLine,
    Rewrite,
    Save,
    Signature,
)
from memdir.store import plan
from memdir.store.contract import StoreBase, make_header, make_memory
from memdir.store.plan import FileChange, StoreView, WriteRules, decode, digest_of, is_index_path

# --- batch ---

# One edit, or several that stand or fall together.
Edits = Sequence[Edit | Sequence[Edit]]


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The changes of all edits together, the name each edit meant, and the names of those that were left out."""

    changes: tuple[FileChange, ...]
    names: tuple[str, ...]
    dropped: tuple[str, ...]


def plan_batch(
    view: StoreView,
    edits: Edits,
    now: datetime,
    rules: WriteRules,
    *,
    drop_conflicts: bool = False,
    keep_pinned: bool = False,
) -> PlannedBatch:
    overlay = Overlay(view)
    names: list[str] = []
    dropped: list[str] = []
    for item in edits:
        before = overlay.changed
        group = item if isinstance(item, Sequence) else (item,)
        planned = [_plan_edit(overlay, edit, now, rules, keep_pinned=keep_pinned) for edit in group]
        meant = [name for name, _ in planned]
        names += meant
        for _, problem in planned:
            if problem is not None and not (drop_conflicts or isinstance(problem, PinnedError)):
                raise problem
        if any(problem is not None for _, problem in planned):
            overlay.changed = before
            dropped += meant
    return PlannedBatch(tuple(overlay.list_changes()), tuple(names), tuple(dropped))


class PinnedError(ConflictError):
    """A pinned memory that this batch may not touch; it never leaves this room."""


class Overlay:
    """A view in which planned changes have already happened. All is read once, so that every edit sees the same."""

    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._read: dict[str, bytes | None] = {}
        self._listed: dict[str, tuple[str, ...]] = {}
        self.changed: dict[str, bytes | None] = {}

    def read_bytes(self, path: str) -> bytes | None:
        return self.changed[path] if path in self.changed else self.read_before(path)

    def read_before(self, path: str) -> bytes | None:
        """As it was before the batch."""
        if path not in self._read:
            self._read[path] = self._view.read_bytes(path)
        return self._read[path]

    def list_files(self, folder: str) -> list[str]:
        if folder not in self._listed:
            self._listed[folder] = tuple(self._view.list_files(folder))
        names = dict.fromkeys(self._listed[folder])
        for path, data in self.changed.items():
            place, _, leaf = path.rpartition("/")
            if place == folder and data is None:
                names.pop(leaf, None)
            elif place == folder:
                names[leaf] = None
        return list(names)

    def put(self, changes: Sequence[FileChange]) -> None:
        for planned in changes:
            if planned.before != self.read_bytes(planned.path):
                # Listed as absent, read as there: somebody outside was quicker. An empty `found` means: plan anew.
                raise ConflictError(f"{planned.path} changed while it was being written", hint="try again", found="")
        self.changed = {**self.changed, **{planned.path: planned.after for planned in changes}}

    def list_changes(self) -> Iterator[FileChange]:
        """One change a file, memories before indexes, without those that came to nothing."""
        for path in sorted(self.changed, key=plan.is_index_path):
            before, after = self.read_before(path), self.changed[path]
            if before != after and not (before is None and not after):
                yield FileChange(path, before, after)


def _plan_edit(
    overlay: Overlay, edit: Edit, now: datetime, rules: WriteRules, *, keep_pinned: bool
) -> tuple[str, ConflictError | NotFoundError | None]:
    """Put one edit's changes into the overlay; answers its name, and why it cannot be done if that is a clash."""
    name = _find_name(overlay, edit, rules)
    try:
        if keep_pinned and not isinstance(edit, IndexEdit) and _was_pinned(overlay, name):
            raise PinnedError(f"{name} is pinned")
        changes = _plan_changes(overlay, edit, name, now, rules)
    except (ConflictError, NotFoundError) as problem:
        return name, problem
    overlay.put(changes)
    return name, None


def _find_name(overlay: Overlay, edit: Edit, rules: WriteRules) -> str:
    if isinstance(edit, Save):
        plan.check_draft(edit.draft, rules)
        return plan.find_write_target(overlay, edit.draft)[0]
    if isinstance(edit, IndexEdit):
        check_path(f"{edit.name}.md")  # a line may point to what no memory could be called
    else:
        check_name(edit.name)
    return edit.name


def _plan_changes(overlay: Overlay, edit: Edit, name: str, now: datetime, rules: WriteRules) -> list[FileChange]:
    if isinstance(edit, AddPointer):
        return plan.plan_pointers(overlay, [name])
    if isinstance(edit, DropPointer):
        return plan.plan_dead_pointers(overlay, [name])
    if isinstance(edit, ReplaceLine):
        return plan.plan_line(overlay, name, edit.was, edit.line)
    if isinstance(edit, Put):
        return plan.plan_put(overlay, name, edit.text, edit.hook, rules)
    expect = _find_expected(overlay, name, edit.expect)
    if isinstance(edit, Save):
        return plan.plan_write(overlay, edit.draft, expect, now, rules)[1]
    if expect is not None:
        plan.check_expected(name, overlay.read_bytes(f"{name}.md"), expect)
    if isinstance(edit, Rewrite):
        return plan.plan_text(overlay, name, edit.text, expect, rules)
    return plan.plan_delete(overlay, name, expect)


def _find_expected(overlay: Overlay, name: str, expect: str | None) -> str | None:
    """The digest an edit expects: whoever has seen the memory before the batch knows what the batch made of it."""
    path = f"{name}.md"
    before, current = overlay.read_before(path), overlay.read_bytes(path)
    if expect is None or before is None or current is None or expect != digest_of(before):
        return expect
    return digest_of(current)


def _was_pinned(overlay: Overlay, name: str) -> bool:
    found = overlay.read_before(f"{name}.md")
    return found is not None and frontmatter.parse_fields(plan.decode(found)).pinned


# --- overlay ---
# A store as it would be with patches applied: in memory, for whoever dreams on from there.
#
# It reads the files through the store, once, and writes nothing anywhere. The digests it gives are those of the texts
# it
# shows; `find_digest` gives that of the file as it really is, which is what a batch compares with.


class DreamOverlay:
    """The store after these edits; those that clash or touch a pinned memory are left out, as they will be."""

    def __init__(self, store: StoreBase, edits: Sequence[Sequence[Edit]], *, now: datetime) -> None:
        self._store = store
        self.rules: WriteRules = store.rules
        self.batch: PlannedBatch = plan_batch(store, edits, now, store.rules, drop_conflicts=True, keep_pinned=True)
        self._changed = {at.path: at.after for at in self.batch.changes}
        self._headers = {header.name: header for header in store.scan()}
        self._now = now

    def scan(self) -> tuple[Header, ...]:
        gone = {path.removesuffix(".md") for path, data in self._changed.items() if data is None}
        found = {name: header for name, header in self._headers.items() if name not in gone}
        for path, data in self._changed.items():
            if data is not None and not is_index_path(path):
                name = path.removesuffix(".md")
                found[name] = self._make_header(name, data)
        return tuple(sorted(found.values(), key=lambda header: (header.modified, header.name), reverse=True))

    def read(self, name: str) -> Memory:
        path = f"{name}.md"
        if path not in self._changed:
            return self._store.read(name)
        data = self._changed[path]
        if data is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        memory = make_memory(name, data, self._make_signature(name, data), self._store.scope)
        return replace(memory, header=self._make_header(name, data))

    def read_bytes(self, path: str) -> bytes | None:
        return self._changed[path] if path in self._changed else self._store.read_bytes(path)

    def list_files(self, folder: str) -> list[str]:
        names = dict.fromkeys(self._store.list_files(folder))
        for path, data in self._changed.items():
            place, _, leaf = path.rpartition("/")
            if place == folder and data is None:
                names.pop(leaf, None)
            elif place == folder:
                names[leaf] = None
        return list(names)

    def index(self) -> str:
        return decode(self.read_bytes("MEMORY.md") or b"")

    def find_digest(self, name: str) -> str | None:
        """Of the file as it is; of one that these edits make, as they make it."""
        path = f"{name}.md"
        data = self._store.read_bytes(path) if name in self._headers else self._changed.get(path)
        return None if data is None else digest_of(data)

    def is_changed(self, name: str) -> bool:
        return f"{name}.md" in self._changed

    def _make_header(self, name: str, data: bytes) -> Header:
        """The head of the new text; a memory is as old as it was, because tidying it says nothing new of the world."""
        made = make_header(name, parse_fields(decode(data)), self._make_signature(name, data), self._store.scope)
        old = self._headers.get(name)
        return made if old is None else replace(made, modified=old.modified)

    def _make_signature(self, name: str, data: bytes) -> Signature:
        old = self._headers.get(name)
        at = int(self._now.timestamp() * 1e9)
        return old.signature if old is not None else Signature(0, len(data), at, at)
