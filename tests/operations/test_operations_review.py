"""Decisions about inbox items, and the table of kinds that every interface reads."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

import memdir
from clihelp import Cli
from memdir.errors import ConflictError, FormatError, SettingsError
from memdir.frozen import replace
from memdir.interfaces.web.actions import Form
from memdir.interfaces.web.actions import decide as decide_on_page
from memdir.interfaces.web.review import show_inbox
from memdir.interfaces.web.site import Site
from memdir.operations.review import KINDS, ReviewKind, decide, reopen
from memdir.operations.write import WriteAction, WriteContext
from memdir.records import Forget, InboxItem, InboxKind, InboxState, Origin, Save
from memdir.store.contract import PERSON
from memdir.store.files import FileStore
from memdir.store.inbox import OTHERWISE, render_edits
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


@pytest.fixture
def question(monkeypatch: pytest.MonkeyPatch) -> ReviewKind:
    """Turn proposals into a kind whose "no" writes, which no kind of memdir's own does."""
    row = ReviewKind("still so?", "marks it as verified", "forgets it", "Still so", "Forget it", no_writes=True)
    monkeypatch.setitem(cast("dict[InboxKind, ReviewKind]", KINDS), InboxKind.PROPOSAL, row)
    return row


def ask(store: FileStore | MemoryStore, title: str = "Terse replies", key: str = "") -> InboxItem:
    """Save a memory and ask whether it still holds."""
    memory = store.write(sample_memory(title=title))
    edits = render_edits([mark_verified(memory, NOW)])
    payload = {"edits": edits, OTHERWISE: render_edits([Forget(memory.name, memory.digest)])}
    item = InboxItem(InboxKind.PROPOSAL, "Still so?", "a test", NOW, key, memory.name, Origin("dream"), payload)
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
    assert len(store.scan()) == 2, "rejecting writes only for a kind that says so"


def test_memory_that_is_off_takes_no_answer_that_may_write(question: ReviewKind) -> None:
    store, off = MemoryStore(), replace(CONTEXT, check_on=refuse)
    item = ask(store)
    for is_approved in (True, False):
        with pytest.raises(SettingsError):
            decide(store, item.id, is_approved, off)
    (asked,) = store.inbox_add([InboxItem(InboxKind.APPROVAL, "include", "outside", NOW)])
    with pytest.raises(SettingsError):
        decide(store, asked.id, True, off)
    assert store.inbox() == (item, asked)
    assert decide(store, asked.id, False, off)[1].state is InboxState.REJECTED


def test_a_no_that_writes_is_one_change_that_is_undone_with_the_decision(question: ReviewKind) -> None:
    store = MemoryStore()
    item = ask(store)
    done, after = decide(store, item.id, False, replace(CONTEXT, origin=Origin(session="s7")))
    assert done.names == ("terse-replies",) and store.scan() == () and after.state is InboxState.REJECTED
    change = store.changes()[0]
    assert (change.id, change.verb, change.origin.who, change.origin.session) == (done.change, "reject", "person", "s7")
    for is_approved in (True, False):
        with pytest.raises(ConflictError, match="already rejected"):
            decide(store, item.id, is_approved, CONTEXT)
    again, undone = reopen(store, after, CONTEXT)
    assert undone is not None and again.state is InboxState.WAITING and len(store.scan()) == 1


def test_a_corrupt_no_is_refused_like_a_corrupt_yes(question: ReviewKind) -> None:
    store = MemoryStore()
    item = InboxItem(InboxKind.PROPOSAL, "x", "y", NOW, payload={OTHERWISE: [{"edit": "shell"}]})
    (item,) = store.inbox_add([item])
    with pytest.raises(FormatError):
        decide(store, item.id, False, CONTEXT)


def test_every_interface_carries_out_a_no_that_writes(cli: Cli, project: Project, question: ReviewKind) -> None:
    store = project.private
    items = [ask(store, title, title) for title in ("One", "Two", "Three")]
    shown = cli("inbox", "show", "1")
    assert "would rewrite one" in shown.lines and "if rejected, would forget one" in shown.lines
    assert shown.lines[-1] == "`memdir inbox approve 1` marks it as verified, `memdir inbox reject 1` forgets it"
    assert "memory is off" in cli("inbox", "reject", "1", CLAUDE_CODE_DISABLE_AUTO_MEMORY="1").refusal
    (row,) = cli("inbox", "reject", "1", "--json").json
    assert (row["state"], row["names"]) == ("rejected", ["one"]) and row["change"] == store.changes()[0].id
    site = Site(project.stores, title="work", clock=project.now, project=project)
    data = show_inbox(site, {"item": f"private:{items[1].id}"})["item"]
    assert data["words"]["no"] == "Forget it" and data["edits"][1]["does"] == "If rejected: would be forgotten"
    decide_on_page(site, Form({"item": [f"private:{items[1].id}"], "do": ["reject"]}))
    with memdir.Memory(project) as memory:
        assert memory.review(store.inbox_item(items[2].id), approve=False) == ()
    assert store.scan() == () and [change.verb for change in store.changes(limit=3)] == ["reject"] * 3
    assert {change.origin.who for change in store.changes(limit=3)} == {"person"}


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
