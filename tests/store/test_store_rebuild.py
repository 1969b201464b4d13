"""F2: doctor sees each damage of the history that would stop a save, and `--fix` rebuilds it from what is whole."""

import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from memdir.errors import DiskError, LockedError
from memdir.interfaces import doctor
from memdir.records import Draft, InboxItem, InboxKind, Kind, Moment, Surfacing
from memdir.store.contract import utc_now
from memdir.store.files import FileStore
from memdir.store.history import FILE, sqlite_errors

COUNT = 40


def draft(number: int, body: str) -> Draft:
    return Draft(Kind.PROJECT, f"Note {number}", f"What note {number} says about releases", body, f"note-{number}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a history of several pages in each table."""
    root = tmp_path_factory.mktemp("whole") / "project" / "memory"
    now = utc_now()
    with FileStore(root) as store:
        for number in range(COUNT):
            memory = store.write(draft(number, f"First text {number}. " * 40))
            store.write(draft(number, f"Second text {number}."), expect=memory.digest)
        store.delete("note-0")
        store.note_recalls(
            [
                Surfacing(f"note-{number % COUNT}", now, "q" * 80, "s", "words", 1.0, Moment.PROMPT)
                for number in range(300)
            ]
        )
        items = [
            InboxItem(InboxKind.PROPOSAL, f"Item {number}", "w" * 200, now, f"key:{number}") for number in range(60)
        ]
        store.inbox_add(items)
    with closing(sqlite3.connect(root / ".memdir" / FILE)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return root


def damage(whole: Path, root: Path) -> Path:
    shutil.copytree(whole, root)
    return root / ".memdir" / FILE


def check_rebuilt(root: Path) -> tuple[int, int]:
    """Find the damage, repair it, and return how many changes and versions were kept."""
    with FileStore(root) as store:
        (finding,) = [finding for finding in doctor.examine(store) if finding.kind == "history"]
        assert finding.fixable and "doctor --fix" in finding.fix
        assert doctor.repair(store, [finding]) == 1
        assert not [finding for finding in doctor.examine(store) if finding.kind in ("history", "state_file")]
        store.write(draft(COUNT, "Saved afterwards."))
        (change,) = [change for change in store.changes() if change.verb == "rebuild"]
        assert "changes and" in change.origin.why and "replaced-1" in change.origin.why
        kept = {number for number in range(COUNT) for _ in store.changes(f"note-{number}")}
        texts = 0
        for change in store.changes(limit=-1):
            for file in change.files:
                try:
                    texts += bool(file.after and not file.splice and store.read_content(file.after))
                except Exception as error:
                    assert "no longer in the history" in str(error)
        assert (store.state / "replaced-1" / FILE).exists()
        return len(kept), texts


def test_each_zeroed_page_is_seen_and_the_rest_is_kept(whole: Path, tmp_path: Path) -> None:
    size = (whole / ".memdir" / FILE).stat().st_size // 4096
    poor = []
    for page in range(1, size):
        path = damage(whole, tmp_path / f"at-{page}" / "memory")
        with path.open("r+b") as file:
            file.seek(page * 4096)
            file.write(bytes(4096))
        with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(path)) as db:
            if db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]:
                continue  # the page is free
        kept, texts = check_rebuilt(path.parent.parent)
        if kept < COUNT * 0.8 or texts < COUNT * 1.5:
            poor.append((page, kept, texts))
    assert size > 20 and poor == []


def test_a_missing_table_index_or_column_is_seen_and_made_again(whole: Path, tmp_path: Path) -> None:
    tables = ("recalls", "inbox", "seen", "indexes", "files")
    statements = [
        *(f"DROP TABLE {table}" for table in tables),
        "DROP INDEX acts_pending",
        "ALTER TABLE recalls DROP COLUMN moment",
    ]
    for number, statement in enumerate(statements):
        path = damage(whole, tmp_path / f"at-{number}" / "memory")
        with closing(sqlite3.connect(path)) as db:
            db.execute(statement)
        assert check_rebuilt(path.parent.parent)[0] == COUNT, statement


def test_a_file_that_is_no_database_begins_anew_and_is_kept(whole: Path, tmp_path: Path) -> None:
    path = damage(whole, tmp_path / "memory")
    path.write_bytes(b"not a database " * 1000)
    check_rebuilt(path.parent.parent)
    with FileStore(path.parent.parent) as store:
        (change,) = [change for change in store.changes() if change.verb == "rebuild"]
        assert "all of it" in change.origin.why


def test_a_whole_history_is_not_rebuilt_and_a_purge_removes_the_damaged_copy(whole: Path, tmp_path: Path) -> None:
    path = damage(whole, tmp_path / "memory")
    with FileStore(path.parent.parent) as store:
        assert not store.rebuild_history()
        with path.open("r+b") as file:
            file.seek(8192)
            file.write(bytes(4096))
    with FileStore(path.parent.parent) as store:
        with pytest.raises(DiskError, match="damaged"):
            store.check_history()
        assert store.rebuild_history()
        store.delete("note-1")
        store.purge("note-1")
    left = [path for path in path.parent.rglob("*") if path.is_file() and b"Second text 1." in path.read_bytes()]
    assert left == []


HOLD = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def test_a_save_waits_no_longer_than_its_limit_for_a_locked_history_and_names_the_holder(
    whole: Path, tmp_path: Path
) -> None:
    """F4; and doctor sees it."""
    path = damage(whole, tmp_path / "memory")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with FileStore(path.parent.parent, lock_seconds=0.5) as store:
            begin = time.monotonic()
            with pytest.raises(LockedError, match=f"process {holder.pid}"):
                store.write(draft(COUNT, "Text."))
            assert time.monotonic() - begin < 5
            (finding,) = [finding for finding in doctor.examine(store) if finding.kind == "state_file"]
            assert f"process {holder.pid}" in finding.message and finding.message.startswith("saving fails")
        holder.communicate(b"")
    with FileStore(path.parent.parent) as store:
        store.write(draft(COUNT, "Text."))
        assert not [finding for finding in doctor.examine(store) if finding.kind == "state_file"]


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (sqlite3.SQLITE_FULL, "free some space"),
        (sqlite3.SQLITE_IOERR_FSYNC, "check the disk"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "who owns it"),
        (sqlite3.SQLITE_CORRUPT, "doctor --fix"),
        (sqlite3.SQLITE_NOTADB, "doctor --fix"),
    ],
)
def test_the_hint_fits_the_error(tmp_path: Path, code: int, hint: str) -> None:
    """F5: an error of the disk does not ask to free space."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    with pytest.raises(DiskError) as raised, sqlite_errors(tmp_path / FILE):
        raise error
    assert hint in raised.value.hint
