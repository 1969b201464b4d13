"""Many edits planned as one act: each sees what those before it would leave, and a file changes once. Pure as `plan`.

Every edit is looked at before anything is done. One that may not be written raises, and with it the whole batch; one
whose memory has changed since the caller saw it raises too, or is left out if that was asked for. Edits given together
in a tuple are left out together: a merge that cannot be written must not take away what it was made from.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from memdir import frontmatter
from memdir.errors import ConflictError, NotFoundError
from memdir.frozen import dataclass
from memdir.guard import check_name, check_path
from memdir.records import AddPointer, DropPointer, Edit, IndexEdit, Put, ReplaceLine, Rewrite, Save
from memdir.store import plan
from memdir.store.plan import Planned, Rules, View, digest_of

# One edit, or several that stand or fall together.
Edits = Sequence[Edit | Sequence[Edit]]


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of all edits together, the name each edit meant, and the names of those that were left out."""

    changes: tuple[Planned, ...]
    names: tuple[str, ...]
    dropped: tuple[str, ...]


def plan_batch(
    view: View,
    edits: Edits,
    now: datetime,
    rules: Rules,
    *,
    drop_conflicts: bool = False,
    keep_pinned: bool = False,
) -> Batch:
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
    return Batch(tuple(overlay.list_changes()), tuple(names), tuple(dropped))


class PinnedError(ConflictError):
    """A pinned memory that this batch may not touch; it never leaves this room."""


class Overlay:
    """A view in which planned changes have already happened. All is read once, so that every edit sees the same."""

    def __init__(self, view: View) -> None:
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

    def put(self, changes: Sequence[Planned]) -> None:
        for planned in changes:
            if planned.before != self.read_bytes(planned.path):
                # Listed as absent, read as there: somebody outside was quicker. An empty `found` means: plan anew.
                raise ConflictError(f"{planned.path} changed while it was being written", hint="try again", found="")
        self.changed = {**self.changed, **{planned.path: planned.after for planned in changes}}

    def list_changes(self) -> Iterator[Planned]:
        """One change a file, memories before indexes, without those that came to nothing."""
        for path in sorted(self.changed, key=plan.is_index):
            before, after = self.read_before(path), self.changed[path]
            if before != after and not (before is None and not after):
                yield Planned(path, before, after)


def _plan_edit(
    overlay: Overlay, edit: Edit, now: datetime, rules: Rules, *, keep_pinned: bool
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


def _find_name(overlay: Overlay, edit: Edit, rules: Rules) -> str:
    if isinstance(edit, Save):
        plan.check_draft(edit.draft, rules)
        return plan.find_target(overlay, edit.draft)[0]
    if isinstance(edit, IndexEdit):
        check_path(f"{edit.name}.md")  # a line may point to what no memory could be called
    else:
        check_name(edit.name)
    return edit.name


def _plan_changes(overlay: Overlay, edit: Edit, name: str, now: datetime, rules: Rules) -> list[Planned]:
    if isinstance(edit, AddPointer):
        return plan.plan_pointers(overlay, [name])
    if isinstance(edit, DropPointer):
        return plan.plan_dead(overlay, [name])
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
