"""Decide an item of the inbox as a person does, with memory on."""

from typing import Any

from memdir.operations.review import decide
from memdir.operations.write import WriteContext, WriteResult
from memdir.records import InboxItem, Origin
from memdir.store.contract import PERSON, StoreBase


def approve(store: StoreBase, item: InboxItem, *, origin: Origin = PERSON, **options: Any) -> WriteResult:
    return decide(store, item.id, True, WriteContext(origin, store.clock()), seen=item.state, **options)[0]


def reject(store: StoreBase, item: InboxItem, *, note: str = "") -> InboxItem:
    return decide(store, item.id, False, WriteContext(PERSON, store.clock()), note=note, seen=item.state)[1]
