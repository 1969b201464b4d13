"""Decisions about inbox items, and the table of kinds that every interface reads."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import memdir
from clihelp import Cli
from memdir.errors import FormatError, SettingsError
from memdir.frozen import replace
from memdir.operations.review import KINDS, decide
from memdir.operations.write import WriteAction, WriteContext
from memdir.records import InboxItem, InboxKind, InboxState, Origin, Save
from memdir.store.contract import PERSON
from memdir.store.files import FileStore
from memdir.store.inbox import render_edits
from memdir.store.memory import MemoryStore
from memdir.store.open import Project, open_project
from memdir.testing import sample_memory
from memdir.verify.records import mark_verified

NOW = datetime(2026, 3, 5, 12, 0, tzinfo=UTC)
CONTEXT = WriteContext(PERSON, NOW)


def refuse() -> None:
    raise SettingsError("memory is off here (a test)", key="off")


@pytest.fixture
def project(cli: Cli) -> Iterator[Project]:
    opened = open_project(cli.project, environ=cli.variables)
    yield opened
    opened.close()


def ask(store: FileStore | MemoryStore, title: str = "Terse replies", key: str = "") -> InboxItem:
    """Save a memory and ask whether it still holds."""
    memory = store.write(sample_memory(title=title))
    edits = render_edits([mark_verified(memory, NOW)])
    item = InboxItem(
        InboxKind.PROPOSAL, "Still so?", "a test", NOW, key, memory.name, Origin("dream"), {"edits": edits}
    )
    return store.inbox_add([item])[0]


def test_every_kind_of_item_has_a_row() -> None:
    assert set(KINDS) == set(InboxKind)
    rows = [(kind.label, kind.approving, kind.rejecting, kind.yes, kind.no) for kind in KINDS.values()]
    assert all(text for row in rows for text in row)


def test_a_decision_answers_with_what_was_written_and_the_item_as_it_is_now() -> None:
    store = MemoryStore(clock=lambda: NOW)
    first, second = (ask(store, title, title) for title in ("One", "Two"))
    done, item = decide(store, first.id, True, CONTEXT, note="fine")
    assert (done.action, done.names, item.state, item.note) == (
        WriteAction.CHANGED, ("one",), InboxState.APPROVED, "fine",
    )  # fmt: skip
    assert 'verified: "2026-03-05' in store.read("one").text
    done, item = decide(store, second.id, False, CONTEXT)
    assert (done.action, done.change, item.state) == (WriteAction.UNCHANGED, None, InboxState.REJECTED)
    assert len(store.scan()) == 2, "rejecting writes nothing"


def test_memory_that_is_off_takes_no_answer_that_may_write() -> None:
    store, off = MemoryStore(), replace(CONTEXT, check_on=refuse)
    item = ask(store)
    with pytest.raises(SettingsError):
        decide(store, item.id, True, off)
    (asked,) = store.inbox_add([InboxItem(InboxKind.APPROVAL, "include", "outside", NOW)])
    with pytest.raises(SettingsError):
        decide(store, asked.id, True, off)
    assert store.inbox() == (item, asked)
    assert decide(store, asked.id, False, off)[1].state is InboxState.REJECTED


def test_the_library_decides_an_item_without_a_key() -> None:
    with memdir.Memory(MemoryStore(), clock=lambda: NOW) as memory:
        edits = {"edits": render_edits([Save(sample_memory())])}
        (item,) = memory.stores[0].inbox_add([InboxItem(InboxKind.MEMORY, "One", "a test", NOW, payload=edits)])
        assert memory.review(item) == () and len(memory.list()) == 1


def test_a_file_that_is_broken_cannot_be_marked_as_verified(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    (tmp_path / "latin.md").write_bytes(b"---\nname: latin\ndescription: caf\xe9\ntype: project\n---\ncaf\xe9\n")
    with pytest.raises(FormatError, match="UTF-8"):
        mark_verified(store.read("latin"), NOW)
    store.close()
