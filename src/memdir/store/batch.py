"""Plan many edits as one change. Each edit sees the result of earlier ones, and each file is written once.

`StoreBase.change` documents which edits are left out. The edits in a tuple are left out together, because a merge that
cannot be written must not remove its sources. `StoreOverlay` shows a store as it would be after a batch.
"""

from collections.abc import Sequence
from datetime import datetime

from memdir import records
from memdir.errors import ConflictError, NotFoundError
from memdir.files import check_name, check_path
from memdir.format.frontmatter import decode, digest_of, make_memory, parse_fields
from memdir.frozen import dataclass, replace
from memdir.records import Edit, Header, Signature, StoredMemory
from memdir.store import plan
from memdir.store.contract import Edits, StoreBase
from memdir.store.plan import FileChange, Overlay, StoreView, WriteRules, is_index_path


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """The combined file changes of all edits, the memory name for each edit, and the names of omitted edits."""

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
        group_names = [name for name, _ in planned]
        names += group_names
        for _, problem in planned:
            if problem is not None and not (drop_conflicts or isinstance(problem, _PinnedError)):
                raise problem
        if any(problem is not None for _, problem in planned):
            overlay.changed = before
            dropped += group_names
    return PlannedBatch(tuple(overlay.list_changes()), tuple(names), tuple(dropped))


class _PinnedError(ConflictError):
    """A pinned memory would be changed by this batch. Internal: never reaches callers."""


def _plan_edit(
    overlay: Overlay, edit: Edit, now: datetime, rules: WriteRules, *, keep_pinned: bool
) -> tuple[str, ConflictError | NotFoundError | None]:
    """Add the changes of one edit to the overlay; return the memory's name and the conflict, if any."""
    is_line = isinstance(edit, records.IndexEdit)
    if isinstance(edit, records.Save):
        plan.check_draft(edit.draft, rules)
        name = plan.find_write_target(overlay, edit.draft)[0]
    else:
        name = edit.name
        if is_line or isinstance(edit, records.Forget):
            check_path(f"{name}.md")  # an index line may contain an invalid name, and a file with one may be deleted
        else:
            check_name(name)
    try:
        old = overlay.read_before(f"{name}.md") if keep_pinned and not is_line else None
        if old is not None and parse_fields(decode(old)).pinned:
            raise _PinnedError(f"{name} is pinned")
        changes = _plan_changes(overlay, edit, name, now, rules)
    except (ConflictError, NotFoundError) as problem:
        return name, problem
    overlay.put(changes)
    return name, None


def _plan_changes(overlay: Overlay, edit: Edit, name: str, now: datetime, rules: WriteRules) -> list[FileChange]:
    if isinstance(edit, records.AddPointer):
        return plan.plan_pointers(overlay, [name])
    if isinstance(edit, records.DropPointer):
        return plan.plan_dead_pointers(overlay, [name])
    if isinstance(edit, records.ReplaceLine):
        return plan.plan_line(overlay, name, edit.was, edit.line)
    if isinstance(edit, records.Pin):
        return plan.plan_pin(overlay, name, rules, pinned=edit.pinned)
    if isinstance(edit, records.Put):
        return plan.plan_put(overlay, name, edit.text, edit.hook, now, rules)
    expect, path = edit.expect, f"{name}.md"
    before, current = overlay.read_before(path), overlay.read_bytes(path)
    # A caller that has seen the memory before the batch may replace the batch's own version.
    if expect is not None and before is not None and current is not None and expect == digest_of(before):
        expect = digest_of(current)
    if isinstance(edit, records.Save):
        return plan.plan_write(overlay, edit.draft, expect, now, rules)[1]
    if expect is not None:
        plan.check_expected(name, current, expect)
    if isinstance(edit, records.Rewrite):
        return plan.plan_text(overlay, name, edit.text, expect, now, rules)
    return plan.plan_delete(overlay, name, expect, rules)


class StoreOverlay(Overlay):
    """A read-only view of a store after these edits, without conflicting edits and edits of pinned memories.

    A memory has the digest of its new text; `find_digest` returns the current file's digest, as edits expect it.
    """

    def __init__(self, store: StoreBase, edits: Sequence[Sequence[Edit]], *, now: datetime) -> None:
        self.batch = plan_batch(store, edits, now, store.rules, drop_conflicts=True, keep_pinned=True)
        super().__init__(store, {planned.path: planned.after for planned in self.batch.changes})
        self.rules = store.rules
        self._store = store
        self._headers = {header.name: header for header in store.scan()}
        self._now = now

    def scan(self) -> tuple[Header, ...]:
        headers = dict(self._headers)
        for path, data in self.changed.items():
            name = path.removesuffix(".md")
            if data is None:
                headers.pop(name, None)
            elif not is_index_path(path):
                headers[name] = self._make_memory(name, data).header
        return tuple(sorted(headers.values(), key=lambda header: (header.modified, header.name), reverse=True))

    def read(self, name: str) -> StoredMemory:
        if not self.is_changed(name):
            return self._store.read(name)
        data = self.changed[f"{name}.md"]
        if data is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        return self._make_memory(name, data)

    def index(self) -> str:
        return decode(self.read_bytes("MEMORY.md") or b"")

    def find_digest(self, name: str) -> str | None:
        """Return the digest of the current file, or of the new one if these edits create it."""
        path = f"{name}.md"
        data = self._store.read_bytes(path) if name in self._headers else self.changed.get(path)
        return None if data is None else digest_of(data)

    def is_changed(self, name: str) -> bool:
        return f"{name}.md" in self.changed

    def _make_memory(self, name: str, data: bytes) -> StoredMemory:
        """Return the memory with its old date, because rewording does not add information."""
        nanoseconds, old = int(self._now.timestamp() * 1e9), self._headers.get(name)
        signature = old.signature if old is not None else Signature(0, len(data), nanoseconds, nanoseconds)
        memory = make_memory(name, data, signature, self._store.scope)
        return memory if old is None else replace(memory, header=replace(memory.header, modified=old.modified))
