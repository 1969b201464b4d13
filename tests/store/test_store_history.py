import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loads import ROOT, scaled
from memdir import files
from memdir.errors import DiskError
from memdir.format.index import clip_index
from memdir.limits import LEDGER_QUERY_CHARS, LEDGER_ROWS
from memdir.postgres.store import PostgresStore
from memdir.records import Origin, Surfacing
from memdir.store import history
from memdir.store.contract import RecallLog, StoreBase
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.plan import FileChange
from memdir.store.state import read_problems
from memdir.testing import sample_memory
from pressure import Unavailable, nobody_folder, run_in_child

NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
NOTE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from memdir.records import Surfacing
from memdir.store.files import FileStore
from memdir.postgres.store import PostgresStore
store = FileStore(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    store.note_recalls([Surfacing("terse-replies", datetime.now(UTC), f"{sys.argv[2]} {number}")])
"""


def row(name: str, query: str = "how do we reply", *, hours: int = 0, session: str = "s1") -> Surfacing:
    return Surfacing(name, NOW + timedelta(hours=hours), query, session, "local", 0.5)


@pytest.fixture
def store(memory: Path) -> FileStore:
    store = FileStore(memory)
    store.write(sample_memory())
    return store


@pytest.fixture(params=["files", "memory", "postgres"])
def recall_log(request: pytest.FixtureRequest, memory: Path) -> StoreBase:
    if request.param == "files":
        memory.mkdir(parents=True)  # recalls are noted best effort, and make no directory
        return FileStore(memory)
    if request.param == "memory":
        return MemoryStore()
    made: PostgresStore = request.getfixturevalue("postgres").store()
    return made


def test_what_was_surfaced_is_told_newest_first(recall_log: StoreBase) -> None:
    store = recall_log
    assert isinstance(store, RecallLog)
    store.note_recalls([row("terse-replies"), row("other")])
    store.note_recalls([row("terse-replies", "and summaries?", hours=1, session="s2")])
    assert store.recalls("terse-replies") == (
        row("terse-replies", "and summaries?", hours=1, session="s2"),
        row("terse-replies"),
    )
    assert [at.name for at in store.recalls(limit=2)] == ["terse-replies", "other"]
    assert store.count_recalls().by_name == {"terse-replies": 2, "other": 1}
    assert store.recalls("nothing") == ()


def test_recalls_are_counted_by_memory(recall_log: StoreBase) -> None:
    recall_log.note_recalls([*(row("a", hours=number) for number in (-24 * 7, 0, 5)), row("b", hours=-1)])
    counts = recall_log.count_recalls()
    assert counts.total == 4 and counts.by_name == {"a": 3, "b": 1}


@pytest.mark.slow
def test_use_keeps_a_line_in_the_index_that_is_loaded(memory: Path) -> None:
    store = FileStore(memory, skip_index=True)
    for number in range(230):
        store.write(sample_memory(title=f"Memory {number:03}"))
    text = "".join(f"- [M](memory-{number:03}.md)\n" for number in range(230))
    headers = store.scan()
    oldest = headers[-1].name
    cut = {header.name for header in headers if f"({header.name}.md)" not in clip_index(text, headers).text}
    wanted = sorted(cut)[0] if oldest not in cut else oldest
    store.note_recalls([row(wanted)])
    assert f"({wanted}.md)" in clip_index(text, headers, uses=store.count_recalls().by_name).text


def test_a_directory_without_history_gets_one_and_no_change(memory: Path) -> None:
    memory.mkdir(parents=True)
    (memory / "a.md").write_text("---\nname: a\n---\nb\n", encoding="utf-8")
    store = FileStore(memory)
    store.note_recalls([row("a")])
    assert store.recalls("a") == (row("a"),) and store.changes() == ()


def test_the_ledger_keeps_the_newest_rows_and_the_head_of_a_query(store: FileStore) -> None:
    store.note_recalls([row("a", f"question {number}") for number in range(LEDGER_ROWS)])
    store.note_recalls([row("b", "x" * 5000), row("b", "a \ud800 surrogate")])
    rows = store.recalls()
    assert len(rows) == LEDGER_ROWS and rows[-1].query == "question 2"
    assert len(rows[1].query) == LEDGER_QUERY_CHARS and "surrogate" in rows[0].query


def test_a_purge_takes_the_rows_and_the_queries_with_it(recall_log: StoreBase) -> None:
    store = recall_log
    store.write(sample_memory())
    store.write(sample_memory(title="Zebra Crossing"))
    store.note_recalls([row("zebra-crossing", "where is the unicorn"), row("terse-replies", "where is the unicorn")])
    store.note_recalls([row("terse-replies", "and the Zebra crossing?"), row("terse-replies", "how do zebras reply")])
    store.purge("zebra-crossing")
    assert store.recalls("zebra-crossing") == ()
    assert [at.query for at in store.recalls("terse-replies")] == ["how do zebras reply", "", ""]
    if not isinstance(store, FileStore):
        return
    store.close()
    left = b"".join(path.read_bytes() for path in store.state.iterdir() if path.is_file())
    assert b"unicorn" not in left and b"ebra crossing" not in left


def test_processes_note_at_once_beside_a_writer(store: FileStore) -> None:
    each = scaled(200)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", NOTE, str(store.root)]
    running = [subprocess.Popen([*command, f"p{number}", str(each)], env=env) for number in range(3)]
    for number in range(20):
        store.write(sample_memory(title=f"Meanwhile {number}"))
    assert [process.wait(120) for process in running] == [0, 0, 0]
    noted = len(store.recalls("terse-replies"))
    assert 0 < noted <= 3 * each and len(store.changes()) == 21


def test_whatever_is_wrong_nobody_is_told(memory: Path, tmp_path: Path) -> None:
    FileStore(tmp_path / "nowhere" / "memory").note_recalls([row("a")])
    assert not (tmp_path / "nowhere").exists()
    store = FileStore(memory)
    store.write(sample_memory())
    store.close()
    for path in store.state.glob("history.db*"):
        path.unlink()
    (store.state / history.FILE).write_bytes(b"no database" * 99)
    FileStore(memory).note_recalls([row("a")])
    (store.state / history.FILE).unlink()
    (store.state / history.FILE).symlink_to(tmp_path / "victim")
    FileStore(memory).note_recalls([row("a")])
    assert not (tmp_path / "victim").exists()


def test_a_locked_database_is_not_waited_for_long(store: FileStore) -> None:
    with closing(sqlite3.connect(store.state / history.FILE)) as db:
        db.execute("BEGIN IMMEDIATE")
        store.note_recalls([row("terse-replies")])
        db.rollback()
    assert store.recalls() == ()
    store.note_recalls([row("terse-replies")])
    assert len(store.recalls()) == 1


def test_a_read_only_directory_has_no_ledger() -> None:
    with nobody_folder() as folder:

        def work() -> int:
            memory = folder / "project" / "memory"
            with FileStore(memory) as store:
                store.write(sample_memory())
            for path in (memory / ".memdir", memory):
                path.chmod(0o500)
            locked = FileStore(memory)
            locked.note_recalls([row("terse-replies")])
            return len(locked.recalls())

        try:
            done = run_in_child(work, as_nobody=True)
        except Unavailable as error:
            pytest.skip(str(error))
        assert not done.error and done.value == 0, done.detail


def rot(memory: Path, statement: str) -> None:
    with closing(sqlite3.connect(memory / ".memdir" / "history.db")) as db, db:
        db.execute(statement)


def test_damaged_bytes_are_never_restored_nor_undone_to(memory: Path) -> None:
    with FileStore(memory) as store:
        first = store.write(sample_memory())
        store.edit("terse-replies", first.text + "More.\n", expect=first.digest)
        rot(memory, f"UPDATE contents SET data = x'726f74' WHERE digest = '{first.digest}'")
        now = store.read("terse-replies").text
        for act in (store.undo, lambda: store.restore("terse-replies")):
            with pytest.raises(DiskError, match="damaged"):
                act()
        assert store.read("terse-replies").text == now
        with pytest.raises(DiskError, match=f"damaged: version {first.digest[:12]}"):
            store.check_history()
        store.write(sample_memory(name="another"))


def test_a_killed_change_whose_bytes_are_damaged_keeps_nobody_from_writing(memory: Path) -> None:
    with FileStore(memory) as store:
        saved = store.write(sample_memory())
        store.delete("terse-replies")
    rot(memory, "UPDATE acts SET pending = 1 WHERE verb = 'forget'")
    rot(memory, f"UPDATE contents SET data = x'726f74' WHERE digest = '{saved.digest}'")
    with FileStore(memory) as store:
        store.write(sample_memory(name="another"))
        assert [header.name for header in store.scan()] == ["another"]


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced", "folder deleted"])
def test_a_history_that_was_taken_away_is_not_written_to_any_more(memory: Path, tmp_path: Path, how: str) -> None:
    with FileStore(memory) as store, FileStore(tmp_path / "b" / "other") as other:
        store.write(sample_memory())
        other.write(sample_memory(name="elsewhere"))
        state = memory / ".memdir"
        if how == "folder deleted":
            shutil.rmtree(state)
        for path in state.glob("history.db*"):
            path.unlink() if how == "deleted" else path.rename(tmp_path / path.name)
        if how == "replaced":
            other.close()
            shutil.copy(other.state / "history.db", state / "history.db")
        store.write(sample_memory(name="later"))
        assert "later" in [at.files[0].path.removesuffix(".md") for at in store.changes()]
        store.undo()
        assert [header.name for header in store.scan()] == ["terse-replies"]
    with FileStore(memory) as store:
        assert "undo" in [at.verb for at in store.changes(limit=3)]
        assert "replaced while in use" in read_problems(store.state)[0].text


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced"])
def test_a_directory_that_was_moved_is_noticed_and_not_silently_made_again(memory: Path, how: str) -> None:
    """F5. Whoever wants a new one there repeats the change."""
    with FileStore(memory) as store:
        store.write(sample_memory())
        memory.rename(memory.with_name("away"))
        if how == "deleted":
            shutil.rmtree(memory.with_name("away"))
        if how == "replaced":
            shutil.copytree(memory.with_name("away"), memory)
            store.scan()  # which records what other programs changed, and must not use up the notice
        with pytest.raises(DiskError, match="was moved, deleted or replaced, so nothing was saved"):
            store.write(sample_memory(name="later"))
        assert memory.exists() == (how == "replaced")
        store.write(sample_memory(name="later"))
        assert "later" in [header.name for header in store.scan()]


def test_a_file_deleted_and_made_again_outside_is_in_two_changes(memory: Path) -> None:
    with FileStore(memory) as store:
        text = store.write(sample_memory()).text
        path = memory / "terse-replies.md"
        path.unlink()
        store.note_outside()
        path.write_text(text + "Again.\n", encoding="utf-8")
        store.note_outside()
        kinds = [
            (at.verb, at.files[0].before is None, at.files[0].after is None) for at in store.changes("terse-replies")
        ]
        assert kinds == [("outside", True, False), ("outside", False, True), ("save", True, False)]
        (memory / "new.md").write_text(text, encoding="utf-8")
        store.note_outside()
        assert store.changes("new") == (), "a file never seen before is its own beginning"
        store.check_history()


def test_an_edit_of_the_index_is_recorded_once_though_the_change_that_saw_it_was_abandoned(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(sample_memory())
        index = memory / "MEMORY.md"
        index.write_text(index.read_text("utf-8") + "\nprose\n", encoding="utf-8")
        with store._holding() as (root, past):
            data, seen = files.read_file(root, "MEMORY.md") or (None, None)
            plan = [FileChange("MEMORY.md", data, b"other\n")]
            change = past.begin("index", Origin(), NOW, plan, seen={"MEMORY.md": seen}, undoes=None, mark="")
            past.abandon(change)
        store.write(sample_memory(name="another"))
        assert [at.verb for at in store.changes()].count("outside") == 1


def test_the_history_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        history.History(tmp_path / "history.db").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "history.db").stat().st_mode) == 0o600
