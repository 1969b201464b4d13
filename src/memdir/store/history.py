"""Every change of every memory, in SQLite; also the journal from which a killed act is healed.

An act is recorded as pending, with the bytes it will write, before the first file is touched, and marked done after the
last. The only kept state besides the memories themselves. Contents are stored once, by digest; of an index only the
spliced lines are stored, plus its last known bytes. Beside the acts lie the ledger of recalls and the inbox.

An act may carry a mark, by which whoever has to do a thing once sees that it was done: the mark is recorded with the
act, so it is there if and only if the act has happened.

It does not touch memory files and takes no lock: whoever writes acts holds the directory's lock. Recalls are noted
without it, since nothing depends on them.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

from memdir.errors import NotFoundError
from memdir.index import find_splice
from memdir.records import Act, Origin, Signature
from memdir.store import acts, dating, inbox, ledger
from memdir.store.database import Database, sqlite_errors
from memdir.store.plan import Planned, digest_of, is_index
from memdir.text import replace_surrogates

FILE = "history.db"
MIGRATIONS = (
    """
    CREATE TABLE acts (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, verb TEXT NOT NULL, who TEXT NOT NULL,
        why TEXT NOT NULL, session TEXT NOT NULL, undoes INTEGER, pending INTEGER NOT NULL
    );
    CREATE INDEX acts_pending ON acts (id) WHERE pending;
    CREATE INDEX acts_undoes ON acts (undoes) WHERE undoes IS NOT NULL;
    CREATE TABLE changes (
        act INTEGER NOT NULL REFERENCES acts (id), seq INTEGER NOT NULL, path TEXT NOT NULL, before TEXT, after TEXT,
        splice_at INTEGER, removed BLOB, inserted BLOB, PRIMARY KEY (act, seq)
    ) WITHOUT ROWID;
    CREATE INDEX changes_path ON changes (path, act);
    CREATE TABLE contents (digest TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE files (
        path TEXT PRIMARY KEY, digest TEXT NOT NULL, inode INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE indexes (path TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
    """,
    ledger.MIGRATION,
    """
    ALTER TABLE acts ADD COLUMN mark TEXT NOT NULL DEFAULT '';
    CREATE INDEX acts_mark ON acts (mark) WHERE mark <> '';
    """,
    inbox.MIGRATION,
    dating.MIGRATION,
)
OUTSIDE = "outside"


class History(Database):
    """One open history database."""

    def __init__(self, path: Path, *, readonly: bool = False, busy_seconds: float = 30.0) -> None:
        super().__init__(path, MIGRATIONS, readonly=readonly, busy_seconds=busy_seconds)

    # --- writing, under the directory's lock ------------------------------------------------------------------------

    def begin(
        self,
        verb: str,
        origin: Origin,
        at: datetime,
        plan: Sequence[Planned],
        *,
        undoes: int | None = None,
        mark: str = "",
    ) -> int:
        """Record an act as pending. When this returns, the act survives a power cut."""
        with self.transaction(durable=True):
            for planned in plan:
                self._note_outside(planned.path, planned.before, at)
            return self._insert(verb, origin, at, plan, undoes=undoes, pending=True, mark=mark)

    def finish(self, act: int, written: Sequence[tuple[Planned, Signature | None]]) -> None:
        """Mark an act as done. Losing this mark to a power cut is harmless: healing finds the act complete."""
        with self.transaction(durable=False):
            self._db.execute("UPDATE acts SET pending = 0 WHERE id = ?", (act,))
            for planned, signature in written:
                self._remember(planned.path, planned.after, signature)

    def abandon(self, act: int) -> None:
        """Take a pending act out again: nothing of it happened."""
        with self.transaction(durable=False):
            self._db.execute("DELETE FROM changes WHERE act = ?", (act,))
            self._db.execute("DELETE FROM acts WHERE id = ?", (act,))

    def note_outside(
        self, seen: Sequence[tuple[str, bytes | None, Signature | None]], at: datetime
    ) -> tuple[Planned, ...]:
        """Compare files with what was last recorded and record what somebody else changed."""
        changed = []
        with self.transaction(durable=False):
            for path, data, signature in seen:
                planned = self._note_outside(path, data, at)
                if planned:
                    changed.append(planned)
                self._remember(path, data, signature)
        return tuple(changed)

    def purge(self, path: str, lines: Sequence[bytes]) -> int:
        """Take every trace of one file out: its contents, its changes, and index lines that point to it."""
        with self.transaction(durable=True):
            rows = self._db.execute("SELECT before, after FROM changes WHERE path = ?", (path,)).fetchall()
            digests = {digest for row in rows for digest in row if digest}
            digests |= {row[0] for row in self._db.execute("SELECT digest FROM files WHERE path = ?", (path,))}
            told = [row[0] for row in self._db.execute("SELECT DISTINCT act FROM changes WHERE path = ?", (path,))]
            inbox.drop_rows(self._db, path.removesuffix(".md"), acts.find_marks(self._db, path))
            self._db.execute("DELETE FROM changes WHERE path = ?", (path,))
            self._db.execute("DELETE FROM files WHERE path = ?", (path,))
            self._drop_contents(digests)
            self._redact_splices(lines)
            for act in told:
                self._db.execute("UPDATE acts SET why = '' WHERE id = ?", (act,))
            ledger.drop_rows(self._db, path.removesuffix(".md"))
        with sqlite_errors(self.path):
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return len(told)

    # --- reading ----------------------------------------------------------------------------------------------------

    def find_pending(self) -> tuple[Act, ...]:
        return tuple(self._read_acts("WHERE pending ORDER BY id", ()))

    def read_act(self, act: int) -> Act:
        for found in self._read_acts("WHERE id = ? AND NOT pending", (act,)):
            return found
        raise NotFoundError(f"no act {act} in this history", name=str(act), hint="`memdir history` lists them")

    def find_last(self) -> Act | None:
        """The newest act that can be taken back: not an undo, not undone, not somebody else's edit."""
        with self.reading() as db:
            undone = acts.find_undone(db)
        where = "WHERE NOT pending AND undoes IS NULL AND verb <> ? ORDER BY id DESC"
        return next((act for act in self._read_acts(where, (OUTSIDE,)) if act.id not in undone), None)

    def read_acts(self, *, path: str | None = None, limit: int = -1) -> tuple[Act, ...]:
        """Acts newest first, all or those that changed one file."""
        if path is None:
            return tuple(self._read_acts("WHERE NOT pending ORDER BY id DESC LIMIT ?", (limit,)))
        where = "WHERE NOT pending AND id IN (SELECT act FROM changes WHERE path = ?) ORDER BY id DESC LIMIT ?"
        return tuple(self._read_acts(where, (path, limit)))

    def find_marked(self, mark: str) -> int | None:
        """The act that was recorded with this mark and has happened."""
        if self.version < acts.MARKS_SINCE:
            return None
        with self.reading() as db:
            return acts.find_marked(db, replace_surrogates(mark))

    def count_acts(self) -> int:
        with sqlite_errors(self.path):
            return int(self._db.execute("SELECT count(*) FROM acts WHERE NOT pending").fetchone()[0])

    def read_content(self, digest: str) -> bytes:
        with sqlite_errors(self.path):
            row = self._db.execute("SELECT data FROM contents WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise NotFoundError("this version is no longer in the history", name=digest[:12], hint="it was purged")
        return bytes(row[0])

    def find_recorded(self) -> dict[str, tuple[str, Signature]]:
        """Path to digest and signature of every file as it was last recorded."""
        with sqlite_errors(self.path):
            rows = self._db.execute("SELECT path, digest, inode, size, mtime_ns, ctime_ns FROM files").fetchall()
        return {row[0]: (row[1], Signature(*(value or 0 for value in row[2:]))) for row in rows}

    # --- inside -----------------------------------------------------------------------------------------------------

    def _read_acts(self, where: str, values: tuple[object, ...]) -> Iterator[Act]:
        with self.reading() as db:
            yield from acts.read_acts(db, where, values)

    def _insert(
        self,
        verb: str,
        origin: Origin,
        at: datetime,
        plan: Sequence[Planned],
        *,
        undoes: int | None = None,
        pending: bool = False,
        mark: str = "",
    ) -> int:
        row = (at.isoformat(), verb, origin.who, origin.why, origin.session, undoes, pending, replace_surrogates(mark))
        insert = "INSERT INTO acts (at, verb, who, why, session, undoes, pending, mark) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        act = self._db.execute(insert, row).lastrowid or 0
        for number, planned in enumerate(plan):
            before, after = self._keep(planned, planned.before), self._keep(planned, planned.after)
            splice: tuple[int | None, bytes | None, bytes | None] = (None, None, None)
            if planned.is_index:
                splice = find_splice(planned.before or b"", planned.after or b"")
            values = (act, number, planned.path, before, after, *splice)
            self._db.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        return act

    def _keep(self, planned: Planned, data: bytes | None) -> str | None:
        if data is None:
            return None
        digest = digest_of(data)
        if not planned.is_index:
            self._db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, data))
        return digest

    def _note_outside(self, path: str, data: bytes | None, at: datetime) -> Planned | None:
        row = self._db.execute("SELECT digest FROM files WHERE path = ?", (path,)).fetchone()
        digest = digest_of(data) if data is not None else None
        if row is None or row[0] == digest:
            return None
        table = (
            "SELECT data FROM indexes WHERE path = ?"
            if is_index(path)
            else "SELECT data FROM contents WHERE digest = ?"
        )
        old = self._db.execute(table, (path if is_index(path) else row[0],)).fetchone()
        planned = Planned(path, bytes(old[0]) if old else None, data)
        self._insert(OUTSIDE, Origin(who=OUTSIDE), at, [planned])
        return planned

    def _remember(self, path: str, data: bytes | None, signature: Signature | None) -> None:
        if data is None or signature is None:
            self._db.execute("DELETE FROM files WHERE path = ?", (path,))
            return
        digest = digest_of(data)
        select = "SELECT digest, inode, mtime_ns, since_ns, touched_ns FROM files WHERE path = ?"
        times = dating.find_times(self._db.execute(select, (path,)).fetchone(), digest, signature)
        values = (path, digest, signature.inode, signature.size, signature.mtime_ns, signature.ctime_ns, *times)
        self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        if is_index(path):
            self._db.execute("INSERT OR REPLACE INTO indexes VALUES (?, ?)", (path, data))
        else:
            self._db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, data))

    def _drop_contents(self, digests: set[str]) -> None:
        """Contents nobody else refers to; an identical file of another name keeps its own."""
        for digest in digests:
            used = self._db.execute(
                "SELECT 1 FROM changes WHERE before = ?1 OR after = ?1 UNION ALL SELECT 1 FROM files WHERE digest = ?1",
                (digest,),
            ).fetchone()
            if used is None:
                self._db.execute("DELETE FROM contents WHERE digest = ?", (digest,))

    def _redact_splices(self, lines: Sequence[bytes]) -> None:
        """Index changes that hold such a line keep their digests and lose their text."""
        rows = self._db.execute(
            "SELECT act, seq, removed, inserted FROM changes WHERE splice_at IS NOT NULL"
        ).fetchall()
        for act, seq, removed, inserted in rows:
            if any(line in (removed or b"") or line in (inserted or b"") for line in lines):
                redact = "UPDATE changes SET removed = NULL, inserted = NULL WHERE act = ? AND seq = ?"
                self._db.execute(redact, (act, seq))


@contextmanager
def open_briefly(path: Path, *, busy_seconds: float) -> Iterator[History]:
    """A history for one note among many. Its log is not rolled up at the end: that takes a recall as long as searching.

    SQLite does that when the last connection closes, unless it is one that cannot write. The next act does it then, or
    the log's own limit.
    """
    with closing(History(path, readonly=True)) as reader:
        _ = reader.version  # only a connection that has read something counts
        with closing(History(path, busy_seconds=busy_seconds)) as past:
            yield past
