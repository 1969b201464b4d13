"""Files outside the project wait in the inbox until a person has said yes or no, once for each file.

An item is known by the file's real path, so a link that is later turned elsewhere asks again. A clone can fill the
inbox only so far: beyond a few new questions in one load, a file stays refused without asking.
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.limits import INCLUDE_ASKS
from memdir.project_files.loaded import Refusal
from memdir.project_files.loading import Approved
from memdir.records import InboxItem, InboxKind, InboxState, Origin
from memdir.text import one_line

if TYPE_CHECKING:
    from memdir.store.inbox import Inbox

KEY = "include:"


def find_approved(store: "Inbox") -> Approved:
    """What a person has allowed so far; the inbox is read once, when first asked."""
    keys: list[frozenset[str]] = []

    def approved(path: Path) -> bool:
        if not keys:
            keys.append(frozenset(item.key for item in store.inbox(InboxState.APPROVED)))
        return f"{KEY}{path}" in keys[0]

    return approved


def ask(store: "Inbox", refusals: Iterable[Refusal], now: datetime, *, session: str = "") -> tuple[InboxItem, ...]:
    """Put what is asked for the first time into the inbox; answers what now waits for these files, new or not."""
    wanted = {f"{KEY}{refusal.real}": refusal for refusal in refusals if refusal.real}
    if not wanted:
        return ()
    known = {item.key: item for item in store.inbox(None)}
    fresh = [key for key in wanted if key not in known][:INCLUDE_ASKS]
    waiting = [item for key in wanted if (item := known.get(key)) and item.state is InboxState.WAITING]
    made = store.inbox_add([_make_item(key, wanted[key], now, session) for key in fresh]) if fresh else ()
    return (*waiting, *made)


def _make_item(key: str, refusal: Refusal, now: datetime, session: str) -> InboxItem:
    return InboxItem(
        InboxKind.APPROVAL,
        title=f"May {one_line(refusal.real)} be read? It lies outside the project.",
        why=f"asked for by {one_line(refusal.by)}; once allowed, every session here gives it to its model",
        at=now,
        key=key,
        origin=Origin("instructions", "an instruction file names it", session),
        payload={"path": refusal.path, "real": refusal.real, "by": refusal.by},
    )
