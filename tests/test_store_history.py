import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loads import ROOT, scaled
from memdir.format.index import clip_index
from memdir.limits import LEDGER_QUERY_CHARS, LEDGER_ROWS
from memdir.records import Surfacing
from memdir.store import history
from memdir.store.files import FileStore
from memdir.store.postgres import PostgresStore
from memdir.testing import sample_memory
from pressure import Unavailable, nobody_folder, run_in_child

NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
NOTE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from memdir.records import Surfacing
from memdir.store.files import FileStore
from memdir.store.postgres import PostgresStore
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


@pytest.fixture(params=["files", "postgres"])
def ledger(request: pytest.FixtureRequest, memory: Path) -> FileStore | PostgresStore:
    if request.param == "files":
        return FileStore(memory)
    made: PostgresStore = request.getfixturevalue("postgres").store()
    return made


def test_what_was_surfaced_is_told_newest_first(ledger: FileStore | PostgresStore) -> None:
    store = ledger
    store.note_recalls([row("terse-replies"), row("other")])
    store.note_recalls([row("terse-replies", "and summaries?", hours=1, session="s2")])
    assert store.recalls("terse-replies") == (
        row("terse-replies", "and summaries?", hours=1, session="s2"),
        row("terse-replies"),
    )
    assert [at.name for at in store.recalls(limit=2)] == ["terse-replies", "other"]
    assert store.uses() == {"terse-replies": 2, "other": 1}
    assert store.recalls("nothing") == ()


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
    assert f"({wanted}.md)" in clip_index(text, headers, uses=store.uses()).text


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


def test_a_history_of_version_1_is_read_and_grows_a_ledger(memory: Path) -> None:
    state = memory / ".memdir"
    state.mkdir(parents=True)
    with closing(sqlite3.connect(state / history.FILE)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"BEGIN; {history.MIGRATIONS[0]} PRAGMA user_version = 1; COMMIT;")
        db.execute("INSERT INTO acts VALUES (1, '2026-01-01T00:00:00+00:00', 'save', 'person', '', '', NULL, 0)")
        db.commit()
    reader = FileStore(memory)
    assert (
        reader.recalls("a") == () and reader.uses() == {} and [change.verb for change in reader.changes()] == ["save"]
    )
    reader.note_recalls([row("a")])
    assert reader.recalls("a") == (row("a"),) and len(reader.changes()) == 1
    store = FileStore(memory)
    store.write(sample_memory())
    assert [change.verb for change in store.changes()] == ["save", "save"] and store.recalls("a") == (row("a"),)


def test_a_purge_takes_the_rows_and_the_queries_with_it(ledger: FileStore | PostgresStore) -> None:
    store = ledger
    store.write(sample_memory())
    store.write(sample_memory(title="Zebra Crossing"))
    store.note_recalls([row("zebra-crossing", "where is the unicorn"), row("terse-replies", "where is the unicorn")])
    store.note_recalls([row("terse-replies", "and the Zebra crossing?"), row("terse-replies", "how do zebras reply")])
    store.purge("zebra-crossing")
    assert store.recalls("zebra-crossing") == ()
    assert [at.query for at in store.recalls("terse-replies")] == ["how do zebras reply", "", ""]
    if isinstance(store, PostgresStore):
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
            locked = FileStore(memory, cache=folder / "cache")
            locked.note_recalls([row("terse-replies")])
            return len(locked.recalls())

        try:
            done = run_in_child(work, as_nobody=True)
        except Unavailable as error:
            pytest.skip(str(error))
        assert not done.error and done.value == 0, done.detail
