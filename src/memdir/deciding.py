"""What a person decides about something that waits in the inbox: to let it happen, or not.

Approving does what the item says, as one act of the person's that `undo` takes back, and then records the decision; if
the process dies between the two, approving again does nothing twice. Rejecting only records. Both leave the item where
it is, so that it is not asked again; one that was rejected can still be approved.
"""

from memdir.errors import ConflictError, FormatError
from memdir.frozen import replace
from memdir.records import Changed, InboxItem, InboxKind, InboxState, Origin
from memdir.store.contract import PERSON, Verbs
from memdir.store.inbox import make_mark
from memdir.store.payloads import find_edits
from memdir.text import one_line, shorten

_WHY_CHARS = 200


def approve(store: Verbs, item: InboxItem, *, origin: Origin = PERSON, note: str = "") -> Changed | None:
    """Carry an item out; answers what changed, None for one that changes no memory."""
    _check_open(item)
    edits = find_edits(item.payload)
    if not edits and item.kind in (InboxKind.MEMORY, InboxKind.PROPOSAL):
        hint = "reject it; what made it can propose it anew"
        raise FormatError("it says nothing that could be done", field="edits", hint=hint)
    if not edits:
        store.inbox_decide(item.id, InboxState.APPROVED, note)
        return None
    words = shorten(one_line(f"approved inbox item {item.id}: {item.why}"), _WHY_CHARS)
    try:
        done = store.change(edits, verb="approve", origin=replace(origin, why=words), mark=make_mark(item))
    except ConflictError as error:
        hint = "`memdir inbox show` compares; change the memory by hand and reject the item"
        raise ConflictError(str(error), expected=error.expected, found=error.found, hint=hint) from None
    store.inbox_decide(item.id, InboxState.APPROVED, note, name=item.name or next(iter(done.names), ""))
    return done


def reject(store: Verbs, item: InboxItem, *, note: str = "") -> InboxItem:
    """Record that an item is not wanted; nothing else happens."""
    _check_open(item)
    return store.inbox_decide(item.id, InboxState.REJECTED, note, was=item.state)


def _check_open(item: InboxItem) -> None:
    if item.state is InboxState.APPROVED:
        hint = "`memdir history` shows what it changed, and `memdir undo` takes that back"
        raise ConflictError("it was approved already", hint=hint)
