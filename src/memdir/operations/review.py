"""Decisions about inbox items: decide one, and reopen what was decided. `KINDS` describes each kind of item."""

from collections.abc import Mapping
from contextlib import suppress

from memdir.errors import ConflictError, FormatError, NotFoundError
from memdir.format.frontmatter import digest_of, encode
from memdir.frozen import dataclass, replace
from memdir.operations.write import WriteAction, WriteContext, WriteResult, change, undo
from memdir.records import Edit, Forget, InboxItem, InboxKind, InboxState, Rewrite
from memdir.store.contract import StoreBase
from memdir.store.inbox import find_payload_edits, find_subjects, make_mark
from memdir.text import one_line, shorten

_WHY_CHARS = 200
VERSIONS = ("ours", "theirs", "merged")  # of a memory in a conflict


@dataclass(frozen=True, slots=True)
class ReviewKind:
    """A kind of inbox item, with its texts for all interfaces and the effects of approving and rejecting it.

    `approving` and `rejecting` describe the effects, as in "approving it ..."; `yes` and `no` are button labels.
    `needs_edits`: an item without edits cannot be approved.
    """

    label: str
    approving: str
    rejecting: str = "discards it"
    yes: str = "Approve"
    no: str = "Reject"
    needs_edits: bool = False


KINDS: Mapping[InboxKind, ReviewKind] = {
    InboxKind.MEMORY: ReviewKind("needs review", "saves it as your own change", needs_edits=True),
    InboxKind.CONFLICT: ReviewKind("two versions", "keeps the merged text", "closes it as well", "Keep merged"),
    InboxKind.PROPOSAL: ReviewKind("proposal", "applies it as your own change", needs_edits=True),
    InboxKind.APPROVAL: ReviewKind("approval", "allows it", "refuses it"),
}


def decide(
    store: StoreBase,
    item_id: int,
    approve: bool,
    context: WriteContext,
    *,
    note: str = "",
    edits: tuple[Edit, ...] | None = None,
    seen: InboxState | None = None,
    take: str = "",
) -> tuple[WriteResult, InboxItem]:
    """Approve or reject an item: apply the edits of the decision, if any, as one change, then record the decision.

    `edits` replace the proposed ones if the user edited them; `take` names the version of a conflict to keep. If the process dies between the two steps, deciding again
    does not repeat the change. A rejected item is kept, so that it is not proposed again, and can be approved later.
    Both decisions reject the other pending items about the same memory. Raise
    ConflictError if the item's state is no longer `seen`, and SettingsError if memories may change and memory is off.
    """
    item = store.inbox_item(item_id)
    if seen is not None and item.state is not seen:
        hint = f"`memdir inbox show {item.id}` shows it; a rejected item can still be approved"
        raise ConflictError(f"this item is {item.note or f'already {item.state.value}'}", hint=hint)
    kind, state = KINDS[item.kind], InboxState.APPROVED if approve else InboxState.REJECTED
    if item.state in (InboxState.APPROVED, state):
        hint = "`memdir history` shows its change, if it made one, and `memdir undo` reverts it"
        raise ConflictError(f"this item is already {item.state.value}", hint=hint)
    result = WriteResult(WriteAction.UNCHANGED, item.name, store.scope)
    if approve:
        context.check_on()
        if take:
            edits = _make_version_edits(item, take)
        edits = find_payload_edits(item.payload) if edits is None else edits
        if kind.needs_edits and not edits:
            hint = "reject it; its source can propose it again"
            raise FormatError("this item contains no changes", field="edits", hint=hint)
        if edits:
            result = _apply(store, item, edits, context)
    # Once a change is made, its decision is recorded in any case.
    was = item.state if result.change is None else None
    decided = store.inbox_decide(item.id, state, note, name=item.name or result.name, was=was)
    _close_others(store, item)
    return result, decided


def find_versions(item: InboxItem) -> dict[str, str]:
    """Return the texts of a conflict: ours, theirs, and merged, which the memory has; "" is a deleted memory. Empty for
    other items."""
    texts = {key: item.payload.get(key) for key in VERSIONS} if item.kind is InboxKind.CONFLICT else {}
    return {key: text for key, text in texts.items() if isinstance(text, str)} if "merged" in item.payload else {}


def _make_version_edits(item: InboxItem, take: str) -> tuple[Edit, ...]:
    texts = find_versions(item)
    if take not in texts:
        hint = (
            "`memdir inbox show` shows its texts; leave out --take"
            if take in VERSIONS
            else f"use {', '.join(VERSIONS)}"
        )
        raise FormatError(f"inbox item {item.id} has no version {take!r}", field="take", hint=hint)
    if texts[take] == texts["merged"]:
        return ()
    expect = digest_of(encode(texts["merged"]))
    return (Rewrite(item.name, texts[take], expect) if texts[take] else Forget(item.name, expect),)


def _apply(store: StoreBase, item: InboxItem, edits: tuple[Edit, ...], context: WriteContext) -> WriteResult:
    why = shorten(one_line(f"approved inbox item {item.id}: {item.why}"), _WHY_CHARS)
    context = replace(context, origin=replace(context.origin, why=why))
    try:
        return change(store, edits, context, verb="approve", mark=make_mark(item)).check_written()
    except ConflictError as error:
        hint = "`memdir inbox show` compares; change the memory by hand and reject the item"
        raise ConflictError(str(error), expected=error.expected, found=error.found, hint=hint) from None


def reopen(store: StoreBase, item: InboxItem, context: WriteContext) -> tuple[InboxItem, int | None]:
    """Undo the change that an item made, if any, and reopen the item with a new number.

    Return the item and the ID of the undo. Raise ConflictError if the memory was changed after the decision.
    """
    if item.state is InboxState.WAITING:
        raise ConflictError("this item is not decided yet", hint="approve or reject it")
    change_id = store.find_marked(make_mark(item))
    undone = None
    if change_id is not None and store.read_change(change_id).undone_by is None:
        undone = undo(store, change_id, context).check_written().change
    return store.inbox_reopen(item.id), undone


def _close_others(store: StoreBase, item: InboxItem) -> None:
    """Reject the other pending items about the same memory, because one decision settles it."""
    subjects = find_subjects(item)
    for other in store.inbox():
        if other.id != item.id and not subjects.isdisjoint(find_subjects(other)):
            with suppress(ConflictError, NotFoundError):  # another process has just decided it
                note = f"closed with item {item.id}, which is about the same memory"
                store.inbox_decide(other.id, InboxState.REJECTED, note, was=InboxState.WAITING)
