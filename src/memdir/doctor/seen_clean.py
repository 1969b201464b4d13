"""Which texts were searched for secrets and had none: digests in the derived index, so that doctor stays quick.

Only digests, no names and no texts. They hold for the version of memdir whose rules they were searched by, and for the
person's own rules as they were; a change of either is another mark, and all is searched again.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Set
from contextlib import closing
from functools import cache
from pathlib import Path

from memdir import secrets
from memdir.secrets.own import Own
from memdir.store import headers
from memdir.store.files import FileStore

_TABLE = "CREATE TABLE IF NOT EXISTS clean (digest TEXT PRIMARY KEY, mark TEXT NOT NULL) WITHOUT ROWID"
_SECONDS = 0.5


def read_clean(store: FileStore, mark: str) -> frozenset[str]:
    """Digests of texts that were found clean by these rules."""
    path = headers.find_place(store.root, store.state, store.cache, write=False)
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_SECONDS)) as db:
            rows = db.execute("SELECT digest FROM clean WHERE mark = ?", (mark,))
            return frozenset(digest for (digest,) in rows)
    except sqlite3.Error:
        return frozenset()


def write_clean(store: FileStore, fresh: Iterable[str], mark: str, *, keep: Set[str]) -> None:
    """Add digests and drop those of texts that are no more. What cannot be written is searched again: it is a cache."""
    path, rows = store.find_index_file(), [(digest, mark) for digest in fresh]
    if path is None or not rows:
        return
    try:
        with closing(headers.open_index(path, _SECONDS)) as db:
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.execute(_TABLE)
                known = [digest for (digest,) in db.execute("SELECT digest FROM clean")]
                db.executemany("DELETE FROM clean WHERE digest = ?", [(at,) for at in known if at not in keep])
                db.executemany("INSERT OR REPLACE INTO clean VALUES (?, ?)", rows)
    except (sqlite3.Error, OSError):
        pass


def find_mark(own: Own) -> str:
    """What the rules are at the moment: the person's own, and the rooms in which the built-in ones stand."""
    return hashlib.sha256(f"{_find_built_in()} {own}".encode()).hexdigest()[:16]


@cache
def _find_built_in() -> str:
    rooms = sorted(Path(secrets.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(room.read_bytes() for room in rooms)).hexdigest()
