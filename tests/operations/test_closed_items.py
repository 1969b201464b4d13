"""One memory, one question: the decision about an item closes the other pending ones on the same memory."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from decisions import approve, reject
from memdir.errors import ConflictError
from memdir.operations.review import reopen
from memdir.operations.write import WriteContext
from memdir.records import Edit, InboxItem, InboxKind, InboxState, Origin, Rewrite
from memdir.store.files import FileStore
from memdir.store.inbox import render_edits
from memdir.testing import sample_memory

AT = datetime(2026, 3, 3, 12, 0, tzinfo=UTC)


def make_item(name: str, who: str, *edits: Edit) -> InboxItem:
    payload = {"edits": render_edits(edits)}
    return InboxItem(InboxKind.PROPOSAL, f"{who} {name}", "why", AT, f"{who}:{name}", name, Origin(who), payload)


@pytest.fixture
def store(memory: Path) -> FileStore:
    store = FileStore(memory, clock=lambda: AT)
    for name in ("one", "two"):
        store.write(sample_memory(name=name, title=name))
    rewrites = {
        at: Rewrite(at, store.read(at).text + f"\nMore of {at}.\n", store.read(at).digest) for at in ("one", "two")
    }
    store.inbox_add(
        [
            make_item("one", "dream", rewrites["one"]),
            make_item("one", "extractor", rewrites["one"]),
            make_item("two", "extractor", rewrites["two"]),
            make_item("", "import", rewrites["one"], rewrites["two"]),
        ]
    )
    return store


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_decision_closes_the_others_on_the_same_memory(store: FileStore, is_approved: bool) -> None:
    first, second, other, both = store.inbox()
    if is_approved:
        approve(store, first)
    else:
        reject(store, first)
    assert [item.id for item in store.inbox()] == [other.id]
    assert {store.inbox_item(item.id).note for item in (second, both)} == {
        f"closed with item {first.id}, which is about the same memory"
    }
    assert store.read("two").text.count("More of two.") == 0


def test_a_closed_item_is_refused_to_who_saw_it_pending_and_can_be_approved_later(store: FileStore) -> None:
    first, second, *_ = store.inbox()
    reject(store, first)
    for decide in (approve, reject):
        with pytest.raises(ConflictError, match="closed with item"):
            decide(store, second)
    approve(store, store.inbox_item(second.id))
    assert "More of one." in store.read("one").text


def test_reopening_an_item_leaves_the_others_closed(store: FileStore) -> None:
    first, *_ = store.inbox()
    approve(store, first)
    reopened, _ = reopen(store, store.inbox_item(first.id), WriteContext(Origin(), AT))
    assert reopened.state is InboxState.WAITING and [item.title for item in store.inbox()] == [
        "extractor two",
        "dream one",
    ]
