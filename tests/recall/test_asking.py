"""Recall from Python: one store or several, with everything in its place."""

import os
from pathlib import Path

from memdir.recall.pipeline import recall
from memdir.recall.reminder import render_reminder
from memdir.records import Draft, Kind, Scope
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.sessions import open_session
from memdir.testing import sample_memory
from recalling import NOW

QUESTION = "should a reply end with a summary?"


def test_a_store_and_a_question_are_enough(tmp_path: Path) -> None:
    for store in (FileStore(tmp_path / "memory"), MemoryStore()):
        assert list(recall(store, QUESTION)) == []
        store.write(sample_memory())
        told = [render_reminder(memory, now=NOW) for memory in recall(store, QUESTION, now=NOW)]
        assert len(told) == 1 and "Leave out the closing summary." in told[0]


def test_the_projects_memory_hides_the_users_of_the_same_name(tmp_path: Path) -> None:
    project, user = FileStore(tmp_path / "p"), FileStore(tmp_path / "u", scope=Scope.USER)
    project.write(sample_memory())
    user.write(sample_memory())
    user.write(Draft(Kind.USER, "Reads replies", "Reads the summary of a reply on a phone", "Short screens."))
    found = {(at.header.scope.value, at.header.name) for at in recall([project, user], QUESTION, now=NOW, limit=5)}
    assert found == {("private", "terse-replies"), ("user", "reads-replies")}


def test_a_conversation_is_told_once_and_the_ledger_knows(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    store.write(sample_memory())
    session = open_session(store.state, "s1")
    assert len(list(recall(store, QUESTION, session=session, now=NOW))) == 1
    again = recall(store, QUESTION, session=session, now=NOW)
    assert list(again) == [] and again.skipped == "nothing_fits"
    assert [(at.query, at.session) for at in store.recalls("terse-replies")] == [(QUESTION, "s1")]


def test_the_oldest_of_very_many_is_found(tmp_path: Path) -> None:
    root = tmp_path / "memory"
    root.mkdir()
    for number in range(1000):
        text = (
            f"---\nname: Note {number}\ndescription: Meeting about budget item {number}\ntype: project\n---\n\nText.\n"
        )
        (root / f"note-{number}.md").write_text(text, encoding="utf-8")
    old = root / "lighthouse.md"
    old.write_text(
        "---\nname: L\ndescription: The lighthouse keeper\ntype: user\n---\n\nLives on the isle.\n", encoding="utf-8"
    )
    os.utime(old, (1_000_000_000, 1_000_000_000))
    found = recall(FileStore(root), "where does the lighthouse keeper live?", now=NOW)
    assert next(iter(found)).header.name == "lighthouse"
