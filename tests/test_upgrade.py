"""State that an earlier memdir left is opened by this one with nothing lost; what a newer one left is not written into.

The formats below are those that were in use, written down once more: whoever changes a migration that people have run
is told here.
"""

import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from clihelp import Cli, memory_text
from homes import write
from memdir.errors import DiskError
from memdir.records import Draft, Kind
from memdir.store import history
from memdir.store.files import FileStore
from memdir.store.history import Database
from memdir.store.sessions import SessionFile, read_queue
from memdir.store.state import INDEX

STEPS = (
    """
    CREATE TABLE acts (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, verb TEXT NOT NULL, who TEXT NOT NULL,
        why TEXT NOT NULL, session TEXT NOT NULL, undoes INTEGER, pending INTEGER NOT NULL);
    CREATE INDEX acts_pending ON acts (id) WHERE pending;
    CREATE INDEX acts_undoes ON acts (undoes) WHERE undoes IS NOT NULL;
    CREATE TABLE changes (act INTEGER NOT NULL REFERENCES acts (id), seq INTEGER NOT NULL, path TEXT NOT NULL,
        before TEXT, after TEXT, splice_at INTEGER, removed BLOB, inserted BLOB, PRIMARY KEY (act, seq)) WITHOUT ROWID;
    CREATE INDEX changes_path ON changes (path, act);
    CREATE TABLE contents (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE files (path TEXT PRIMARY KEY, digest TEXT NOT NULL, inode INTEGER, size INTEGER, mtime_ns INTEGER,
        ctime_ns INTEGER) WITHOUT ROWID;
    CREATE TABLE indexes (path TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
    """,
    """
    CREATE TABLE recalls (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, name TEXT NOT NULL,
        query TEXT NOT NULL, session TEXT NOT NULL, selector TEXT NOT NULL, score REAL NOT NULL);
    CREATE INDEX recalls_name ON recalls (name);
    """,
    """
    ALTER TABLE acts ADD COLUMN mark TEXT NOT NULL DEFAULT '';
    CREATE INDEX acts_mark ON acts (mark) WHERE mark <> '';
    """,
    """
    CREATE TABLE inbox (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
        title TEXT NOT NULL, why TEXT NOT NULL, name TEXT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL,
        session TEXT NOT NULL, payload TEXT NOT NULL, state TEXT NOT NULL, decided TEXT, note TEXT NOT NULL);
    CREATE UNIQUE INDEX inbox_key ON inbox (key) WHERE key <> '';
    CREATE INDEX inbox_state ON inbox (state);
    """,
    """
    ALTER TABLE files ADD COLUMN since_ns INTEGER;
    ALTER TABLE files ADD COLUMN touched_ns INTEGER;
    """,
    """
    CREATE TABLE seen (path TEXT, digest TEXT, since_ns INTEGER NOT NULL, PRIMARY KEY (path, digest)) WITHOUT ROWID;
    """,
    "ALTER TABLE seen ADD COLUMN who TEXT NOT NULL DEFAULT '';",
    "ALTER TABLE recalls ADD COLUMN moment TEXT NOT NULL DEFAULT 'prompt';",
)
NEWEST = len(history.MIGRATIONS)
FIRST = memory_text("Tracker", body="Jira.\n")
SECOND = memory_text("Tracker", body="Linear, since March.\n")
LINE = "- [Tracker](tracker.md) — Bugs of the billing service are tracked there\n"
DAY = "2026-02-0{}T08:00:00+00:00"
ROWS = (
    "INSERT INTO recalls (at, name, query, session, selector, score) "
    f"VALUES ('{DAY.format(3)}', 'tracker', 'where are bugs', 's', 'local', 0.5)",
    "UPDATE acts SET mark = 'once' WHERE id = 2",
    "INSERT INTO inbox (at, kind, key, title, why, name, who, reason, session, payload, state, decided, note) VALUES "
    f"('{DAY.format(4)}', 'memory', 'k', 'create freeze', 'from a page', 'freeze', 'extract', '', 's', "
    """'{"edits": [{"edit": "forget", "name": "tracker", "expect": null}], "evidence": []}', 'waiting', NULL, '')""",
    "UPDATE files SET since_ns = 1000",
    "INSERT INTO seen VALUES ('tracker.md', 'unknown', 1000)",
    "UPDATE seen SET who = 'agent'",
    "UPDATE recalls SET moment = 'action'",
)


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def make_old(memory: Path, version: int) -> Path:
    """A directory as memdir left it when history had that format: a memory saved and edited, and what came with it."""
    write(memory / "tracker.md", SECOND)
    write(memory / "MEMORY.md", LINE)
    path = memory / ".memdir" / history.FILE
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"{STEPS[0]} PRAGMA user_version = 1")
        for number, verb in ((1, "save"), (2, "edit")):
            change = (number, DAY.format(number), verb, "person", "asked", "s1", None, 0)
            db.execute("INSERT INTO acts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", change)
        inserted = (1, 1, "MEMORY.md", None, digest(LINE), 0, b"", LINE.encode())
        for row in (
            (1, 0, "tracker.md", None, digest(FIRST), None, None, None),
            inserted,
            (2, 0, "tracker.md", digest(FIRST), digest(SECOND), None, None, None),
        ):
            db.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        for text in (FIRST, SECOND):
            db.execute("INSERT INTO contents VALUES (?, ?)", (digest(text), text.encode()))
        for file, text in (("tracker.md", SECOND), ("MEMORY.md", LINE)):
            facts = (memory / file).stat()
            values = (file, digest(text), facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            db.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", values)
        db.execute("INSERT INTO indexes VALUES ('MEMORY.md', ?)", (LINE.encode(),))
        for number in range(2, version + 1):
            db.executescript(f"{STEPS[number - 1]} PRAGMA user_version = {number}")
            db.execute(ROWS[number - 2])
    return path


def read_shape(path: Path) -> list[tuple[str, list[tuple[object, ...]]]]:
    with closing(sqlite3.connect(path)) as db:
        names = db.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name").fetchall()
        return [(name, db.execute(f"PRAGMA table_xinfo({name})").fetchall()) for (name,) in names]


def check_whole(store: FileStore, version: int) -> None:
    """Everything that was there is still there."""
    assert [(change.id, change.verb, change.origin.why) for change in store.changes("tracker")][-2:] == [
        (2, "edit", "asked"),
        (1, "save", "asked"),
    ]
    assert store.read_content(digest(FIRST)) == FIRST.encode()
    assert store.read("tracker").text == SECOND and store.index().startswith(LINE)
    assert [row.query for row in store.recalls("tracker")] == (["where are bugs"] if version >= 2 else [])
    assert store.has_mark("once") is (version >= 3)
    assert [item.title for item in store.inbox()] == (["create freeze"] if version >= 4 else [])


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_history_of_each_earlier_format_is_read_migrated_and_loses_nothing(memory: Path, version: int) -> None:
    path = make_old(memory, version)
    with FileStore(memory) as store:
        check_whole(store, version)
    with FileStore(memory) as store:
        store.write(Draft(Kind.USER, "Rust", "Writes Rust every day at work", "Rust.\n"))
        check_whole(store, version)
        change, _ = store.undo(2)
        assert change.id == 2 and store.read("tracker").text == FIRST
        store.undo(1)
        assert [header.name for header in store.scan()] == ["rust"] and LINE not in store.index()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (NEWEST,)


def test_the_formats_here_are_all_there_are_and_those_the_migrations_make(memory: Path) -> None:
    assert len(STEPS) == NEWEST, "a new format needs its step here"
    for version in range(1, NEWEST + 1):
        old = make_old(memory / str(version), version)
        made = memory / f"{version}.db"
        with closing(sqlite3.connect(made)) as db:
            db.executescript("".join(f"{script};" for script in history.MIGRATIONS[:version]))
        assert read_shape(made) == read_shape(old)


def test_a_migration_that_is_killed_half_way_has_not_begun(memory: Path) -> None:
    path = make_old(memory, 1)
    with pytest.raises(DiskError):
        Database(path, (*history.MIGRATIONS[:2], "CREATE TABLE good (a); CREATE TABLE bad (")).close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name IN ('recalls', 'good')").fetchall()
    with FileStore(memory) as store:
        check_whole(store, 1)


def test_a_history_of_a_newer_memdir_is_read_and_never_written(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.save("mine", "Text.")
    path = cli.memory / ".memdir" / history.FILE
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE changes ADD COLUMN later TEXT")
        db.execute(f"PRAGMA user_version = {NEWEST + 1}")
    words = cli.save("other", "More.").refusal
    assert f"newer memdir (format {NEWEST + 1}; this supports up to {NEWEST})" in words and "pipx upgrade" in words
    assert not (cli.memory / "other.md").exists()
    assert "newer memdir" in cli("undo").refusal
    cli.file("outside", memory_text("Outside"))
    assert {row["name"] for row in cli("list", "--json").json} == {"mine", "outside"}
    assert cli("recall", "summary at the end of a reply", "--json").json["memories"][0]["name"] == "mine"
    assert [row["verb"] for row in cli("history", "--json").json] == ["save"]
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (NEWEST + 1,)
        assert db.execute("SELECT count(*) FROM acts").fetchone() == (1,)


@pytest.mark.parametrize("version", [1, 99])
def test_an_index_of_another_version_is_made_anew(tmp_path: Path, version: int) -> None:
    cli = Cli(tmp_path)
    cli.save("mine", "Text.")
    assert cli("recall", "summary at the end of a reply", "--json").json["memories"]
    path = cli.memory / ".memdir" / INDEX
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            db.execute(f"DROP TABLE {name}")
        db.execute("CREATE TABLE headers (path PRIMARY KEY, other)")
        db.execute("INSERT INTO headers VALUES ('ghost.md', 1)")
        db.execute(f"PRAGMA user_version = {version}")
    assert [row["name"] for row in cli("list", "--json").json] == ["mine"]
    assert cli("recall", "summary at the end of a reply", "--json").json["memories"][0]["name"] == "mine"


def test_a_conversation_of_the_first_format_goes_on_and_of_a_newer_one_keeps_what_is_unknown(tmp_path: Path) -> None:
    file = SessionFile(tmp_path, "s").path
    write(file, json.dumps({"surfaced": {"a": {"digest": "d", "bytes": 7}}, "read": ["b"], "ignoring": True}))
    record = SessionFile(tmp_path, "s").read()
    assert (record.surfaced_bytes, record.read, record.ignoring) == (7, frozenset({"b"}), True)
    write(file, json.dumps({"surfaced": {}, "read": [], "turns": 3, "mood": {"calm": 1}}))
    SessionFile(tmp_path, "s").note_read(["c"])
    assert json.loads(file.read_text(encoding="utf-8"))["mood"] == {"calm": 1}


def test_turns_that_an_earlier_or_a_newer_memdir_queued_are_still_learned_from(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"session": "s", "transcript": "/t"},
        {"session": "u", "transcript": "/v", "headless": True, "later": 1},
    ]
    for number, row in enumerate(rows):
        write(tmp_path / "queue" / f"{number:020}-aa.json", json.dumps(row))
    found = [(entry.session, entry.transcript, entry.headless) for entry in read_queue(tmp_path)]
    assert found == [("s", "/t", False), ("u", "/v", True)]
