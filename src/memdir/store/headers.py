"""The derived cache: the header of every file under the stat signature it had. May be deleted; it comes back.

An unchanged directory is listed from here without opening a single memory. Whatever is wrong with the cache, it counts
as empty: reading forgives, and the files are canonical.
"""

import os
import sqlite3
import stat
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from memdir.frontmatter import Fields
from memdir.frozen import dataclass
from memdir.records import Dialect, Kind, Signature
from memdir.store.database import create_file

FILE = "index.db"
_VERSION = 2
_COLUMNS = "path, inode, size, mtime_ns, ctime_ns, title, description, kind, pinned, modified, dialect, problem"


@dataclass(frozen=True, slots=True)
class Cached:
    signature: Signature
    fields: Fields


def read_headers(path: Path) -> dict[str, Cached]:
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=1.0)) as db:
            if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                return {}
            return {row[0]: _make_cached(row) for row in db.execute(f"SELECT {_COLUMNS} FROM headers")}
    except (sqlite3.Error, ValueError, TypeError):
        return {}


def write_headers(path: Path, fresh: Mapping[str, Cached], gone: Iterable[str]) -> None:
    """Best effort: a cache that cannot be written is no cache, and nobody is told."""
    try:
        with closing(open_index(path, 1.0)) as db, db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("DELETE FROM headers WHERE path = ?", [(path,) for path in gone])
            insert = f"INSERT OR REPLACE INTO headers VALUES ({', '.join('?' * 12)})"
            db.executemany(insert, [_make_row(*item) for item in fresh.items()])
    except (sqlite3.OperationalError, OSError):
        pass
    except sqlite3.DatabaseError:
        with suppress(OSError):
            drop_index(path)


def find_place(root: Path, state: Path, cache: Path | None, *, write: bool) -> Path:
    """Where the derived index lies: with the state, or in the person's cache where that cannot be written."""
    folder = state
    if state.is_symlink() or not os.access(state if state.is_dir() else root, os.W_OK):
        folder = cache or state
    if write and not folder.is_dir() and (folder is cache or os.access(root, os.W_OK)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / FILE


def open_index(path: Path, seconds: float) -> sqlite3.Connection:
    """The derived index's database, made or brought to this version if need be."""
    _check_ours(path)
    create_file(path)
    db = sqlite3.connect(path, timeout=seconds, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA synchronous = OFF")
        if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                db.execute(f"DROP TABLE {name}")
            db.execute(f"CREATE TABLE headers ({_COLUMNS}, PRIMARY KEY (path)) WITHOUT ROWID")
            db.execute(f"PRAGMA user_version = {_VERSION}")
            db.execute("COMMIT")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _check_ours(path: Path) -> None:
    """A link here could lead to somebody else's database, which we would empty: it is no place for an index."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        facts = None
    linked = facts is not None and (not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1)
    if linked or path.parent.is_symlink():
        raise sqlite3.OperationalError("the index is a link")


def drop_index(path: Path) -> None:
    """Take the derived index away; it comes back."""
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _make_row(path: str, cached: Cached) -> tuple[object, ...]:
    at, fields = cached.signature, cached.fields
    kind = fields.kind.value if fields.kind else None
    dialect = fields.dialect.value if fields.dialect else None
    # Inode numbers of some file systems do not fit SQLite's signed integers; as text they do.
    return (
        path, str(at.inode), at.size, at.mtime_ns, at.ctime_ns, fields.title, fields.description,
        kind, fields.pinned, fields.modified, dialect, fields.problem,
    )  # fmt: skip


def _make_cached(row: tuple[object, ...]) -> Cached:
    _, inode, size, mtime, ctime, title, description, kind, pinned, modified, dialect, problem = row
    return Cached(
        Signature(int(str(inode)), int(str(size)), int(str(mtime)), int(str(ctime))),
        Fields(
            title=str(title),
            description=str(description),
            kind=Kind(str(kind)) if kind else None,
            pinned=bool(pinned),
            modified=str(modified),
            dialect=Dialect(str(dialect)) if dialect else None,
            problem=str(problem),
        ),
    )
