from datetime import UTC, datetime

import pytest

from memdir.operations import write
from memdir.operations.write import WriteAction, WriteContext
from memdir.records import Draft, Forget, Kind, Origin, Rewrite, Save
from memdir.store.memory import MemoryStore

CONTEXT = WriteContext(Origin(), datetime(2026, 5, 20, 12, 0, tzinfo=UTC))


def make_draft(name: str) -> Draft:
    return Draft(
        Kind.FEEDBACK,
        name.title(),
        f"when {name} wait for review by the release team",
        "Ask first.\n\n**Why:** x\n\n**How to apply:** y",
        name,
    )


def test_an_undo_says_what_became_of_the_memory() -> None:
    store = MemoryStore()
    saved = write.save(store, make_draft("deploys"), CONTEXT)
    edited = write.update(store, "deploys", {"title": "Releases"}, CONTEXT)
    assert (saved.action, edited.action) == (WriteAction.CREATED, WriteAction.CHANGED)
    back = write.undo(store, edited.change, CONTEXT)
    assert back.action is WriteAction.CHANGED and back.memory is not None and back.memory.title == "Deploys"
    gone = write.undo(store, saved.change, CONTEXT)
    assert gone.action is WriteAction.FORGOTTEN and gone.memory is not None and gone.name == "deploys"
    assert write.undo(store, gone.change, CONTEXT).action is WriteAction.CREATED
    assert write.undo(store, None, CONTEXT, names=()).names == ("deploys",)


def test_a_batch_says_what_became_of_its_first_memory() -> None:
    store = MemoryStore()
    both = write.change(store, [Save(make_draft("deploys")), (Save(make_draft("tests")),)], CONTEXT, verb="save")
    assert (both.action, both.names) == (WriteAction.CREATED, ("deploys", "tests"))
    memory = store.read("tests")
    text = memory.text.replace("Ask first.", "Ask.")
    edited = write.change(store, [(Rewrite("tests", text, memory.digest), Forget("deploys"))], CONTEXT, verb="edit")
    assert edited.action is WriteAction.CHANGED and edited.before == memory.text
    assert write.change(store, [], CONTEXT, verb="edit").action is WriteAction.UNCHANGED


@pytest.mark.parametrize("names", [["deploys"], ["deploys", "tests"]])
def test_memories_forgotten_together_are_forgotten(names: list[str]) -> None:
    store = MemoryStore()
    for name in names:
        write.save(store, make_draft(name), CONTEXT)
    assert write.forget_many(store, names, CONTEXT).action is WriteAction.FORGOTTEN and store.scan() == ()
