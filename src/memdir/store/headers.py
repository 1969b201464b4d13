"""The derived cache: the header of every file under the stat signature it had. May be deleted; it comes back.

An unchanged directory is listed from here without opening a single memory. Whatever is wrong with the cache, it counts
as empty: reading forgives, and the files are canonical.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memdir.frontmatter import Fields
from memdir.records import Dialect, Kind, Signature

FILE = "index.db"
_VERSION = 1
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
        _write(path, fresh, gone)
    except sqlite3.OperationalError:
        pass
    except sqlite3.DatabaseError:
        for leaf in (path, path.with_name(path.name + "-journal")):
            leaf.unlink(missing_ok=True)


def _write(path: Path, fresh: Mapping[str, Cached], gone: Iterable[str]) -> None:
    with closing(sqlite3.connect(path, timeout=1.0)) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA secure_delete = ON")
        if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            db.execute("DROP TABLE IF EXISTS headers")
            db.execute(f"CREATE TABLE headers ({_COLUMNS}, PRIMARY KEY (path)) WITHOUT ROWID")
            db.execute(f"PRAGMA user_version = {_VERSION}")
        db.executemany("DELETE FROM headers WHERE path = ?", [(path,) for path in gone])
        marks = ", ".join("?" * 12)
        db.executemany(f"INSERT OR REPLACE INTO headers VALUES ({marks})", [_make_row(*item) for item in fresh.items()])
    path.chmod(0o600)


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
