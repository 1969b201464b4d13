"""The public object: every method on each kind of store, the errors a caller meets, and the same from an event loop."""

import asyncio
import inspect
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import memdir
from memdir.operations.write import WriteAction
from memdir.records import InboxItem, InboxKind, Save
from memdir.store.contract import StoreBase
from memdir.store.inbox import render_edits

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
DEPLOYS = "we deploy on Tuesdays only, because support is staffed then"
DRAFT = memdir.Draft(
    memdir.Kind.REFERENCE, "Tracker", "Bugs are tracked in the Linear project INGEST", "Linear INGEST."
)


def open_memory(where: str | Path | StoreBase) -> memdir.Memory:
    return memdir.Memory(where, clock=lambda: NOW)


@pytest.fixture(params=["directory", "memory"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> memdir.Memory:
    return open_memory(tmp_path / "notes" if request.param == "directory" else memdir.MemoryStore())


def test_a_sentence_is_remembered_recalled_corrected_and_undone(memory: memdir.Memory) -> None:
    saved = memory.remember(DEPLOYS)
    assert saved.action is WriteAction.CREATED and saved.change is not None
    (hit,) = memory.recall("may I deploy on Friday?")
    assert "support is staffed" in hit.text
    assert memory.remember(DEPLOYS).action is WriteAction.UNCHANGED
    memory.undo()
    assert memory.list() == () and not list(memory.recall("may I deploy on Friday?"))


def test_a_draft_is_saved_read_updated_forgotten_and_restored(memory: memdir.Memory) -> None:
    name = memory.save(DRAFT).name
    first = memory.get("Tracker")
    assert (first.name, [header.name for header in memory.list(kind="reference")]) == (name, [name])
    memory.update(name, description="Bugs are tracked in the Jira project INGEST", expect=first.digest)
    with pytest.raises(memdir.ConflictError):
        memory.update(name, title="Other", expect=first.digest)
    assert [hit.header.name for hit in memory.search("jira")] == [name]
    assert memory.forget(name).action is WriteAction.FORGOTTEN
    with pytest.raises(memdir.NotFoundError):
        memory.get(name)
    assert memory.restore(name).name == name and "Jira" in memory.get(name).text
    assert [change.verb for change in memory.history(name)] == ["restore", "forget", "edit", "save"]


def test_a_memory_is_forgotten_by_words_that_clearly_mean_it(memory: memdir.Memory) -> None:
    memory.remember(DEPLOYS)
    assert memory.forget("the Tuesday deploys").action is WriteAction.FORGOTTEN
    with pytest.raises(memdir.NotFoundError):
        memory.forget("the colour of the bikeshed")


def test_a_taken_name_is_refused_unless_it_is_to_be_replaced(memory: memdir.Memory) -> None:
    memory.save(DRAFT)
    other = memdir.Draft(memdir.Kind.REFERENCE, "Tracker", "Bugs are tracked on a whiteboard", "Whiteboard.")
    with pytest.raises(memdir.ConflictError):
        memory.save(other)
    assert memory.save(other, replace=True).action is WriteAction.CHANGED


def test_a_conversation_is_learned_from_and_goes_on_in_a_session(memory: memdir.Memory) -> None:
    learned = memory.learn([{"role": "user", "content": "Remember that the tracker is Linear"}])
    assert len(learned.written) == 1
    with memory.session("s1") as session:
        assert session.recall("which tracker do we use?").memories


def test_a_dream_is_previewed_and_then_done(memory: memdir.Memory) -> None:
    memory.save(DRAFT)
    memory.save(memdir.Draft(DRAFT.kind, "Tracker again", DRAFT.description, DRAFT.body))
    before = len(memory.list())
    assert memory.dream(preview=True).patches is not None and len(memory.list()) == before
    memory.dream()
    assert len(memory.list()) == before - 1


def test_an_item_of_the_inbox_is_approved_or_rejected(memory: memdir.Memory) -> None:
    items = [
        InboxItem(InboxKind.PROPOSAL, f"Item {key}", "a test", NOW, key, payload={"edits": render_edits([Save(draft)])})
        for key, draft in (("a", DRAFT), ("b", memdir.Draft(DRAFT.kind, "Other", "Another thing to review here", "B.")))
    ]
    first, second = memory.stores[0].inbox_add(items)
    assert memory.review() == (first, second)
    assert memory.review(first) == (second,)
    assert memory.review(second, approve=False) == ()
    assert [header.title for header in memory.list()] == ["Tracker"]
    with pytest.raises(memdir.NotFoundError):
        memory.review(second)


def test_without_a_place_it_is_the_projects_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    subprocess.run(["git", "init", "-q", str(tmp_path / "app")], check=True)
    monkeypatch.chdir(tmp_path / "app")
    with memdir.Memory() as memory:
        memory.remember(DEPLOYS)
        assert [hit.name for hit in memory.recall("may I deploy on Friday?")]
    assert list((tmp_path / ".claude" / "projects").rglob("deploy*.md"))
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1")
    with pytest.raises(memdir.SettingsError):
        memdir.Memory()


def test_a_text_that_cannot_be_remembered_is_an_error_that_says_why() -> None:
    memory = open_memory(memdir.MemoryStore())
    for text, words in (("", "too vague"), ("thanks!", "too vague"), ("my password is hunter2-Xk39!", "password")):
        with pytest.raises(memdir.FormatError, match=words):
            memory.remember(text)
    with pytest.raises(memdir.NotFoundError, match="clearly matches"):
        memory.remember("forget what I said about deploys")
    assert memory.remember("the tracker is Linear", kind="reference", name="tracker").name == "tracker"
    with pytest.raises(memdir.ConflictError, match="tracker already exists"):
        memory.remember("the tracker is Jira", name="tracker")


def test_a_wrong_type_is_an_error_that_says_what_is_wanted() -> None:
    memory = open_memory(memdir.MemoryStore())
    calls: tuple[Callable[..., object], ...] = (memory.remember, memory.recall, memory.search, memory.forget)
    for call in calls:
        with pytest.raises(TypeError, match="expected text, not int"):
            call(5)
    with pytest.raises(TypeError, match="needs messages"):
        memory.learn("hello")


def test_an_event_loop_has_the_same_methods() -> None:
    async def talk() -> list[str]:
        async with memdir.AsyncMemory(memdir.MemoryStore(), clock=lambda: NOW) as memory:
            await memory.remember(DEPLOYS)
            return [hit.name for hit in await memory.recall("may I deploy on Friday?")]

    assert asyncio.run(talk()) == ["deploy-on-tuesdays-only"]
    methods: Callable[[type], set[str]] = lambda kind: {name for name in vars(kind) if not name.startswith("_")}  # noqa: E731
    assert methods(memdir.AsyncMemory) == methods(memdir.Memory)
    assert all(inspect.iscoroutinefunction(getattr(memdir.AsyncMemory, name)) for name in methods(memdir.Memory))
