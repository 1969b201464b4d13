"""Recall from Python: one store or several, with everything in its place."""

from pathlib import Path

from memdir.format.shown import show_memory
from memdir.recall.pipeline import recall
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.testing import sample_memory
from recall_stores import NOW

QUESTION = "should a reply end with a summary?"


def test_a_store_and_a_question_are_enough(tmp_path: Path) -> None:
    for store in (FileStore(tmp_path / "memory"), MemoryStore()):
        assert list(recall(store, QUESTION)) == []
        store.write(sample_memory())
        told = [show_memory(memory, now=NOW) for memory in recall(store, QUESTION, now=NOW)]
        assert len(told) == 1 and "Leave out the closing summary." in told[0]
