"""Decisions about inbox items: approve, reject, and reopen what was decided."""

from contextlib import suppress

from memdir.errors import ConflictError, FormatError, NotFoundError
from memdir.frozen import replace
from memdir.operations.write import WriteAction, WriteContext, WriteResult, change, undo
from memdir.records import Edit, InboxItem, InboxKind, InboxState, Origin
from memdir.store.contract import StoreBase
from memdir.store.inbox import find_payload_edits, find_subjects, make_mark
from memdir.text import one_line, shorten

_WHY_CHARS = 200
_PERSON = Origin()


def approve(
    store: StoreBase,
    item: InboxItem,
    *,
    origin: Origin = _PERSON,
    note: str = "",
    edits: tuple[Edit, ...] | None = None,
) -> WriteResult:
    """Apply an item's edits as one change, then record the decision; some items change no memory.

    `edits` replace the proposed ones if the user edited them. If the process dies between the two steps, approving
    again does not repeat the change. A rejected item can still be approved.
    """
    _check_open(store, item)
    edits = find_payload_edits(item.payload) if edits is None else edits
    if not edits:
        if item.kind in (InboxKind.MEMORY, InboxKind.PROPOSAL):
            hint = "reject it; its source can propose it again"
            raise FormatError("this item contains no changes", field="edits", hint=hint)
        store.inbox_decide(item.id, InboxState.APPROVED, note)
        return WriteResult(WriteAction.UNCHANGED, item.name, store.scope)
    why = shorten(one_line(f"approved inbox item {item.id}: {item.why}"), _WHY_CHARS)
    context = WriteContext(replace(origin, why=why), store.clock())
    try:
        result = change(store, edits, context, verb="approve", mark=make_mark(item)).check_written()
    except ConflictError as error:
        hint = "`memdir inbox show` compares; change the memory by hand and reject the item"
        raise ConflictError(str(error), expected=error.expected, found=error.found, hint=hint) from None
    store.inbox_decide(item.id, InboxState.APPROVED, note, name=item.name or result.name)
    _close_others(store, item)
    return result


def reject(store: StoreBase, item: InboxItem, *, note: str = "") -> InboxItem:
    """Record that an item is rejected, and the others on its memory; they are kept, so that none is proposed again."""
    _check_open(store, item)
    rejected = store.inbox_decide(item.id, InboxState.REJECTED, note, was=item.state)
    _close_others(store, item)
    return rejected


def reopen(store: StoreBase, item: InboxItem, *, origin: Origin = _PERSON) -> tuple[InboxItem, int | None]:
    """Undo the change that an item made, if any, and reopen the item under another number.

    Return the item and the change that undid its own. Raise ConflictError if the memory was changed since.
    """
    if item.state is InboxState.WAITING:
        raise ConflictError("this item is not decided yet", hint="approve or reject it")
    change_id = store.find_marked(make_mark(item))
    undone = None
    if change_id is not None and store.read_change(change_id).undone_by is None:
        undone = undo(store, change_id, WriteContext(origin, store.clock())).check_written().change
    return store.inbox_reopen(item.id), undone


def _close_others(store: StoreBase, item: InboxItem) -> None:
    """Reject the other pending items about the same memory, because one decision settles it."""
    subjects = find_subjects(item)
    for other in store.inbox():
        if other.id != item.id and not subjects.isdisjoint(find_subjects(other)):
            with suppress(ConflictError, NotFoundError):  # another process has just decided it
                note = f"closed with item {item.id}, which is about the same memory"
                store.inbox_decide(other.id, InboxState.REJECTED, note, was=InboxState.WAITING)


def _check_open(store: StoreBase, item: InboxItem) -> None:
    current = store.inbox_item(item.id)
    if item.state is InboxState.WAITING and current.state is InboxState.REJECTED:
        hint = f"`memdir inbox show {item.id}` shows it; it can still be approved"
        raise ConflictError(f"this item is {current.note or 'already rejected'}", hint=hint)
    if item.state is InboxState.APPROVED:
        hint = "`memdir history` shows its change, and `memdir undo` reverts it"
        raise ConflictError("this item is already approved", hint=hint)
