"""When the bytes of a memory came to be what they are, as far as history knows; and when somebody touched the file.

**Change.** The last act after which the file had these bytes, if that act said something new. Acts that only bring
bytes from elsewhere (undo, restore, a sync, an import, an edit noticed afterwards) do not make old words new: where
history has seen the same bytes earlier, that earlier time counts. Acts that leave the words alone (pin, the stamp of a
verification) are looked through, and a file that was renamed in one act is followed.

**Touch.** A person who runs `touch` on a memory says that it still holds. It shows as a later time of change on the
same file with the same bytes. A checkout, a sync tool, a backup that is put back, also give a later time to the same
bytes, but they write a new file and move it into place, so its inode is another: that is no touch. A tool that
overwrites in place with the same bytes cannot be told from a touch, and a file system that has no lasting inodes shows
none.

For each file history keeps since when its bytes have been there (the time of change they were first seen with) and the
last touch, both dropped when the bytes change. Functions on an open `history.db`; they know no path but the one given.
"""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime

from memdir.frozen import dataclass
from memdir.records import Signature

# The migration of `history` with which files came to have dates.
SINCE = 5
MIGRATION = """
    ALTER TABLE files ADD COLUMN since_ns INTEGER;
    ALTER TABLE files ADD COLUMN touched_ns INTEGER
"""
SAME_WORDS = frozenset({"pin", "unpin", "verify", "stamp"})
OUTSIDE = "outside"
_BRINGING_VERBS = frozenset({"undo", "restore", "sync", "import", "revert"})
_KEEPING_VERBS = frozenset({"import"})  # they give a file the time it had where it came from
_BRINGING_WHO = frozenset({"sync", "import"})


@dataclass(frozen=True, slots=True)
class Dated:
    """`changed` is None where history does not know these bytes; `brought`: then an act brought them from elsewhere.

    `since` is the file's time of change when these bytes were first seen, which a checkout does not move.
    """

    changed: datetime | None = None
    brought: bool = False
    since: datetime | None = None
    touched: datetime | None = None
    is_known: bool = False  # history knows the file, with these bytes or others


def find_dates(db: sqlite3.Connection, path: str, digest: str, signature: Signature) -> Dated:
    """What history knows of a file that has these bytes and this signature now."""
    since, touched = _find_file_times(db, path, digest, signature)
    changed, brought = _find_change(db, path, digest, since)
    known = db.execute("SELECT 1 FROM changes WHERE path = ? LIMIT 1", (path,)).fetchone()
    return Dated(changed, brought, since, touched, known is not None)


def find_times(
    known: tuple[str, int, int, int | None, int | None] | None, digest: str, signature: Signature
) -> tuple[int, int | None]:
    """What to keep of a file's times: since when its bytes are there, and the last touch, in nanoseconds.

    `known` is what was kept: digest, inode, time of change, and these two.
    """
    if known is None or known[0] != digest:
        return signature.mtime_ns, None
    _, inode, mtime, since, touched = known
    if inode == signature.inode and signature.mtime_ns > mtime:
        touched = signature.mtime_ns
    return min(mtime if since is None else since, signature.mtime_ns), touched


def _find_file_times(
    db: sqlite3.Connection, path: str, digest: str, signature: Signature
) -> tuple[datetime | None, datetime | None]:
    if db.execute("PRAGMA user_version").fetchone()[0] < SINCE:
        return None, None
    select = "SELECT digest, inode, mtime_ns, since_ns, touched_ns FROM files WHERE path = ?"
    known = db.execute(select, (path,)).fetchone()
    if known is None or known[0] != digest:
        return None, None
    since, touched = find_times(known, digest, signature)
    return _make_time(since), _make_time(touched) if touched is not None else None


def _find_change(
    db: sqlite3.Connection, path: str, digest: str, since: datetime | None
) -> tuple[datetime | None, bool]:
    """When these bytes were said, and whether that is only when they were brought."""
    wanted, earliest, brought = digest, None, False
    acts = _read_rows(db, path, None)
    while (row := next(acts, None)) is not None:
        act, at, verb, who, before, after = row
        moment = datetime.fromisoformat(at)
        if after == wanted and verb in SAME_WORDS and before is not None:
            wanted = before
        elif after == wanted and before is None and (source := _find_source(db, act, wanted, path)):
            path, acts = source, _read_rows(db, source, act)
            earliest = moment if earliest is None else min(earliest, moment)
        elif after == wanted:
            brought = verb in _BRINGING_VERBS or who in _BRINGING_WHO
            if verb == OUTSIDE or verb in _KEEPING_VERBS:
                # It was noticed afterwards, or came with the time it had elsewhere; the file may tell when it was.
                moment = moment if since is None else min(moment, since)
            elif not brought:
                return moment, False
            earliest = moment if earliest is None else min(earliest, moment)
        elif before == wanted and earliest is not None:
            earliest = min(earliest, moment)  # they were there before this act, which replaced them
    return earliest, brought


def _read_rows(db: sqlite3.Connection, path: str, below: int | None) -> Iterator[tuple[int, str, str, str, str, str]]:
    """The acts that changed a file, newest first, all or those before one."""
    select = "SELECT id, at, verb, who, before, after FROM changes JOIN acts ON act = id WHERE path = ? AND NOT pending"
    if below is None:
        return iter(db.execute(f"{select} ORDER BY id DESC", (path,)).fetchall())
    return iter(db.execute(f"{select} AND id < ? ORDER BY id DESC", (path, below)).fetchall())


def _find_source(db: sqlite3.Connection, act: int, digest: str, path: str) -> str | None:
    """The file that these bytes left in the same act: they were moved, not said anew."""
    select = "SELECT path FROM changes WHERE act = ? AND before = ? AND after IS NULL AND path <> ?"
    row = db.execute(select, (act, digest, path)).fetchone()
    return None if row is None else str(row[0])


def _make_time(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return None
