"""The history of all changes in SQLite, which is also the journal for completing or reverting interrupted changes.

A change is recorded as pending, with the bytes it will write, before the first file is touched, and marked done after the
last. Contents are stored once, by digest; for an index only the spliced lines are stored, plus its last known bytes. A
change may have a mark, its idempotency key, which exists if and only if the change has happened. The recall log and the
inbox are in the same file. The tables keep their first names: a change is a row of `acts`, its files are rows of `changes`.
This module neither touches memory files nor takes a lock: callers that write changes hold the directory's lock.

A memory's text dates from the last change after which the file had these bytes, if that change said something new. If bytes
were only brought from elsewhere (undo, restore, sync, import, an edit noticed afterwards), the earliest recorded time
counts. Changes that do not alter the text (pin, verify) are skipped, and a renamed file is followed. A later modification
time on the same inode with the same bytes is a `touch`, by which the user says that the memory is still true; a checkout, a
sync tool or a restored backup makes another inode.
"""

import errno
import os
import sqlite3
from _thread import allocate_lock  # the same as `threading.Lock`, but importing `threading` slows the first recall
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from memdir.errors import DiskError, LockedError, NotFoundError
from memdir.files import describe_errno, find_lock_holder, is_plain_file
from memdir.format.frontmatter import digest_of
from memdir.format.index import find_splice
from memdir.frozen import dataclass
from memdir.limits import LEDGER_QUERY_CHARS, LEDGER_ROWS
from memdir.records import Change, ChangedFile, Header, Moment, Origin, RecallCounts, Signature, StoredMemory, Surfacing
from memdir.store import inbox
from memdir.store.plan import FileChange, is_index_path
from memdir.text import fold_words, one_line, replace_surrogates

FILE = "history.db"
ENDINGS = ("", "-wal", "-shm")  # endings of a database's file names
IN_MEMORY = ":memory:"
OUTSIDE = "outside"
REBUILD = "rebuild"  # the kind of change that records what was lost when a damaged history was rebuilt
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
    """
    CREATE TABLE recalls (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, name TEXT NOT NULL, query TEXT NOT NULL,
        session TEXT NOT NULL, selector TEXT NOT NULL, score REAL NOT NULL
    );
    CREATE INDEX recalls_name ON recalls (name);
    """,
    """
    ALTER TABLE acts ADD COLUMN mark TEXT NOT NULL DEFAULT '';
    CREATE INDEX acts_mark ON acts (mark) WHERE mark <> '';
    """,
    inbox.MIGRATION,
    """
    ALTER TABLE files ADD COLUMN since_ns INTEGER;
    ALTER TABLE files ADD COLUMN touched_ns INTEGER
    """,
    """
    CREATE TABLE seen (path TEXT, digest TEXT, since_ns INTEGER NOT NULL, PRIMARY KEY (path, digest)) WITHOUT ROWID
    """,
    "ALTER TABLE seen ADD COLUMN who TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE recalls ADD COLUMN moment TEXT NOT NULL DEFAULT 'prompt'",
)
SHOWN_MOMENTS = str(tuple(moment.value for moment in Moment if moment.is_shown))  # in SQL
# Verbs that add no information, so that a memory keeps its age.
SAME_WORDS = frozenset({"pin", "unpin", "verify", "stamp", "dream"})
_RETURNING_VERBS = frozenset({"undo", "restore", "revert", "promote", "demote"})  # the content may be in the history
_BRINGING_VERBS = _RETURNING_VERBS | {"sync", "import", "approve"}
_BRINGING_WHO = frozenset({"sync", "import", "dream"})
_FILE_TIMES = "SELECT digest, inode, mtime_ns, since_ns, touched_ns FROM files WHERE path = ?"
_LAST_CHANGE = "SELECT after FROM (SELECT act, path, after FROM changes JOIN acts ON act = id WHERE NOT pending)"
_COMPACT = "compact"  # the verb of a change by which an earlier memdir removed old versions
_CREATING = allocate_lock()
_FEW_NAMES = 100  # more are read together
_CODES = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}
_PATH_BYTES = 504  # SQLite's own 512 for a path, less the endings of its logs


class Database:
    """An open database with numbered migrations. PRAGMA user_version is the number of applied migrations."""

    def __init__(
        self, path: Path, migrations: Sequence[str], *, readonly: bool = False, busy_seconds: float = 30.0
    ) -> None:
        self.path = path
        self._migrations = migrations
        self._file = (0, 0)
        if str(path) != IN_MEMORY and os.path.lexists(path) and not is_plain_file(path):
            # A link would lead to another file, and opening a FIFO would block.
            hint = "move it away; memories are not affected, and a new one begins"
            raise DiskError(f"cannot use {path.name}: it is not a plain file", path=str(path), hint=hint)
        with sqlite_errors(path, is_write=not readonly):
            if not readonly and str(path) != IN_MEMORY:
                create_file(path)  # SQLite would make it readable for everybody
            # In a read-only folder SQLite cannot create its log, unless it may assume that nothing writes.
            frozen = "&immutable=1" if readonly and not os.access(path.parent, os.W_OK) else ""
            uri = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rwc'}{frozen}"
            if str(path) == IN_MEMORY:
                uri = f"file:{IN_MEMORY}"
            self._db = sqlite3.connect(
                uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                with suppress(sqlite3.DatabaseError):  # whoever reads gets the error
                    if readonly and self._read_version() < len(migrations):
                        self._copy_into_memory()  # only writers migrate the file
                if not readonly:
                    self._prepare()
                    self._file = self._find_file()
            except (sqlite3.Error, DiskError):
                self._db.close()
                raise

    def _copy_into_memory(self) -> None:
        copy = sqlite3.connect(IN_MEMORY, isolation_level=None, check_same_thread=False)
        with closing(self._db):
            self._db.backup(copy)
        self._db = copy
        self._prepare()

    def _prepare(self) -> None:
        self.check_version()
        version, known = self._read_version(), len(self._migrations)
        if version < known:
            self._db.execute("PRAGMA journal_mode = WAL")
            with self.transaction(durable=True):
                # Another process may have migrated the file since.
                version = self._read_version()
                for number, script in enumerate(self._migrations[version:], version + 1):
                    for statement in script.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {number}")
        self._db.execute("PRAGMA secure_delete = ON")

    @property
    def is_in_place(self) -> bool:
        """Return whether the open database is still the file at its path."""
        return self._file == self._find_file()

    def _find_file(self) -> tuple[int, int]:
        try:
            facts = os.lstat(self.path)
        except OSError:
            return 0, 0
        return facts.st_dev, facts.st_ino

    def check_version(self) -> None:
        """Raise DiskError if a newer version of memdir has written this file. Reading does not need this check."""
        version, known = self.version, len(self._migrations)
        if version > known:
            raise DiskError(
                f"{self.path.name} was made by a newer memdir (format {version}; this supports up to {known})",
                path=str(self.path),
                hint="update memdir, for example with `pipx upgrade memdir`; nothing was changed",
            )

    @property
    def version(self) -> int:
        with sqlite_errors(self.path):
            return self._read_version()

    def _read_version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def wait_at_most(self, seconds: float) -> None:
        """Set how long each statement waits for a lock of another process."""
        self._db.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def check_tables(self) -> None:
        """Raise DiskError if a page or version is damaged, or a table, column or index is missing. Reads the whole file."""
        with self.reading() as db:
            row = db.execute("PRAGMA quick_check(1)").fetchone()
            parts = "SELECT m.name || '.' || p.name FROM sqlite_master AS m, pragma_table_info(m.name) AS p"
            select = f"SELECT name FROM sqlite_master UNION {parts}"
            with closing(History(Path(IN_MEMORY))) as model:
                missing = {*model._db.execute(select)} - {*db.execute(select)}
            if row[0] != "ok" or (missing and self.version == len(self._migrations)):
                words = f"no such part: {min(missing)[0]}" if row[0] == "ok" else f"damaged: {row[0]}"
                raise sqlite3.DatabaseError(one_line(words))
            for digest, data in db.execute("SELECT digest, data FROM contents"):
                if digest_of(bytes(data)) != digest:
                    raise sqlite3.DatabaseError(f"damaged: version {digest[:12]}")

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction; with `durable`, its commit survives a power cut."""
        with sqlite_errors(self.path, is_write=True):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with sqlite_errors(self.path):
            yield self._db


def create_file(path: Path) -> None:
    """Create the file with mode 0600 if it is missing. Raises OSError if it is a symbolic link.

    An existing file is not opened, because closing it would drop all locks that this process has on it, including
    those of SQLite in other threads, so that two processes could write at the same time.
    """
    with _CREATING:
        if os.path.islink(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not os.path.exists(path):
            with suppress(FileExistsError):  # another process was quicker
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


@contextmanager
def sqlite_errors(path: Path, *, is_write: bool = False) -> Iterator[None]:
    """Convert SQLite errors: to LockedError if a lock stops a writer, otherwise to DiskError with a fitting hint."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        words, code = str(error), getattr(error, "sqlite_errorcode", 0) & 0xFF
        hint = "check the disk and who owns the folder"
        if code == sqlite3.SQLITE_BUSY:
            pid = find_lock_holder(path, path.with_name(f"{path.name}-shm"))
            words = f"it is locked by {f'process {pid}' if pid else 'another process'}"
            hint = "wait for it or end it; the lock ends with its process"
            if is_write:
                raise LockedError(f"cannot use {path.name}: {words}", pid=pid, hint=hint) from None
        elif code in _CODES:
            hint = describe_errno(_CODES[code])[1]
        elif code == sqlite3.SQLITE_READONLY:
            is_readonly = bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
            hint = describe_errno(errno.EROFS if is_readonly else errno.EACCES)[1]
        elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or words.startswith(("no such", "damaged")):
            hint = "the history is damaged; memories are not affected: `memdir doctor --fix` rebuilds it from what is whole"
        if "unable to open" in words and (size := len(os.fsencode(path.absolute()))) > _PATH_BYTES:
            hint = f"its path has {size} bytes, and SQLite's limit is {_PATH_BYTES}: choose a shorter directory"
        raise DiskError(f"cannot use {path.name}: {words}", path=str(path), hint=hint) from None


class MemorySource(NamedTuple):
    """The age and author of some content. The author is, for example, `person` or `agent`, or empty if unknown."""

    since: datetime
    who: str = ""


class History(Database):
    def __init__(self, path: Path, *, readonly: bool = False, busy_seconds: float = 30.0) -> None:
        super().__init__(path, MIGRATIONS, readonly=readonly, busy_seconds=busy_seconds)

    # Writing, under the directory's lock

    def begin(
        self,
        verb: str,
        origin: Origin,
        at: datetime,
        plan: Sequence[FileChange],
        *,
        seen: Mapping[str, Signature | None],
        undoes: int | None,
        mark: str,
    ) -> int:
        """Record a change as pending, durably, and return its ID. `seen` contains file signatures, from which the age
        of replaced content is recorded."""
        with self.transaction(durable=True):
            for planned in plan:
                signature = seen.get(planned.path)
                if planned.before is not None and signature is not None and not planned.is_index:
                    digest = digest_of(planned.before)
                    times = self._db.execute(_FILE_TIMES, (planned.path,)).fetchone()
                    row = (planned.path, digest, _find_times(times, digest, signature)[0])
                    self._db.execute("INSERT OR IGNORE INTO seen (path, digest, since_ns) VALUES (?, ?, ?)", row)
                if self._note_outside(planned.path, planned.before, at) and planned.before is not None and signature:
                    self._remember(planned.path, planned.before, signature)  # or an abandoned change records it again
            who = (origin.who, origin.why, origin.session)
            return self._insert((at.isoformat(), verb, *who, undoes, True, replace_surrogates(mark)), plan)

    def finish(self, change: int, written: Sequence[tuple[FileChange, Signature | None]]) -> None:
        """Mark a change as done. If a power cut loses this mark, healing finds the change complete."""
        with self.transaction(durable=False):
            self._db.execute("UPDATE acts SET pending = 0 WHERE id = ?", (change,))
            for planned, signature in written:
                self._remember(planned.path, planned.after, signature)

    def abandon(self, change: int) -> None:
        """Remove a pending change that was not made."""
        with self.transaction(durable=False):
            self._db.execute("DELETE FROM changes WHERE act = ?", (change,))
            self._db.execute("DELETE FROM acts WHERE id = ?", (change,))

    def note_sources(self, sources: Mapping[tuple[str, str], MemorySource]) -> None:
        with self.transaction(durable=False):
            rows = [(*key, int(source.since.timestamp() * 1e9), source.who) for key, source in sources.items()]
            known = "ON CONFLICT DO UPDATE SET who = excluded.who WHERE who = ''"
            self._db.executemany(f"INSERT INTO seen VALUES (?, ?, ?, ?) {known}", rows)

    def note_outside(
        self, seen: Sequence[tuple[str, bytes | None, Signature | None]], at: datetime
    ) -> tuple[FileChange, ...]:
        """Compare files with their last recorded versions, and record and return edits made outside memdir."""
        changed = []
        with self.transaction(durable=False):
            for path, data, signature in seen:
                changed.append(self._note_outside(path, data, at))
                self._remember(path, data, signature)
        return tuple(planned for planned in changed if planned is not None)

    def purge(self, name: str) -> int:
        """Remove every trace of a memory: its contents, changes, and the index lines that point to it."""
        path, lines = f"{name}.md", make_link_ends(name)
        with self.transaction(durable=True):
            rows = self._db.execute("SELECT before, after FROM changes WHERE path = ?", (path,)).fetchall()
            digests = {digest for row in rows for digest in row if digest}
            digests |= {row[0] for row in self._db.execute("SELECT digest FROM files WHERE path = ?", (path,))}
            select = "SELECT DISTINCT act, mark FROM changes JOIN acts ON act = id WHERE path = ?"
            marks: dict[int, str] = dict(self._db.execute(select, (path,)).fetchall())
            inbox.drop_rows(inbox.SqliteInbox(self._db), name, set(marks.values()) - {""})
            self._db.execute("DELETE FROM changes WHERE path = ?", (path,))
            self._db.execute("DELETE FROM files WHERE path = ?", (path,))
            self._db.execute("DELETE FROM seen WHERE path = ?", (path,))
            # An identical file of another name keeps its contents.
            used = "SELECT 1 FROM changes WHERE :at IN (before, after) UNION ALL SELECT 1 FROM files WHERE digest = :at"
            delete = f"DELETE FROM contents WHERE digest = :at AND NOT EXISTS ({used})"
            self._db.executemany(delete, [{"at": digest} for digest in digests])
            # Index changes with such a line keep their digests and lose their text.
            select = "SELECT act, seq, removed, inserted FROM changes WHERE splice_at IS NOT NULL"
            redact = "UPDATE changes SET removed = NULL, inserted = NULL WHERE act = ? AND seq = ?"
            for *key, removed, inserted in self._db.execute(select).fetchall():
                if any(line in (removed or b"") or line in (inserted or b"") for line in lines):
                    self._db.execute(redact, key)
            for change in marks:
                self._db.execute("UPDATE acts SET why = '' WHERE id = ?", (change,))
            self._drop_recalls(name)
        self.vacuum()
        return len(marks)

    def vacuum(self) -> None:
        with sqlite_errors(self.path):
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # Reading

    def find_pending(self) -> tuple[Change, ...]:
        return tuple(self._read_changes("WHERE pending ORDER BY id", ()))

    def read_change(self, change: int) -> Change:
        for record in self._read_changes("WHERE id = ? AND NOT pending", (change,)):
            return record
        raise NotFoundError(f"no change {change} in this history", name=str(change), hint="`memdir history` lists them")

    def find_last(self) -> Change | None:
        """Return the newest change that can be undone, ignoring undos, undone changes and edits made outside memdir."""
        where = "WHERE NOT pending AND undoes IS NULL AND verb NOT IN (?, ?, ?) ORDER BY id DESC"
        changes = self._read_changes(where, (OUTSIDE, _COMPACT, REBUILD))
        return next((change for change in changes if change.undone_by is None), None)

    def read_changes(self, *, path: str | None = None, limit: int = -1, below: int | None = None) -> tuple[Change, ...]:
        where, values = "WHERE NOT pending", list[object]()
        if path is not None:
            where, values = f"{where} AND id IN (SELECT act FROM changes WHERE path = ?)", [path]
        if below is not None:
            where, values = f"{where} AND id < ?", [*values, below]
        return tuple(self._read_changes(f"{where} ORDER BY id DESC LIMIT ?", (*values, limit)))

    def find_marked(self, mark: str) -> int | None:
        """Return the ID of the completed change with this idempotency key, or None."""
        if not mark:
            return None
        select = "SELECT min(id) FROM acts WHERE mark = ? AND mark <> '' AND NOT pending"
        with self.reading() as db:
            change: int | None = db.execute(select, (replace_surrogates(mark),)).fetchone()[0]
            return change

    def count_changes(self) -> int:
        with self.reading() as db:
            return int(db.execute("SELECT count(*) FROM acts WHERE NOT pending").fetchone()[0])

    def read_content(self, digest: str) -> bytes:
        with sqlite_errors(self.path):
            row = self._db.execute("SELECT data FROM contents WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            hint = "it was purged, or an earlier memdir removed it as old"
            raise NotFoundError("this version is no longer in the history", name=digest[:12], hint=hint)
        if digest_of(data := bytes(row[0])) != digest:
            hint = "nothing was changed; `memdir doctor --fix` removes what is damaged"
            raise DiskError(f"version {digest[:12]} in {self.path.name} is damaged", path=str(self.path), hint=hint)
        return data

    def find_last_steps(self, names: Collection[str] | None = None) -> dict[str, Change]:
        """Return a dict from memory names to the last change of the text; `names` limits it. The `files` are empty."""
        columns = "path, max(act) AS act, at, verb, acts.who AS who, why, session, after"
        source = "(SELECT nullif(seen.who, '') FROM seen WHERE seen.path = last.path AND digest = after)"
        where = f"WHERE NOT pending AND (before IS NULL OR verb NOT IN ({','.join('?' * len(SAME_WORDS))}))"
        values = sorted(SAME_WORDS)
        if names is not None and len(names) <= _FEW_NAMES:
            where += f" AND path IN ({','.join('?' * len(names))})"
            values += [f"{name}.md" for name in names]
        with self.reading() as db:
            last = f"SELECT {columns} FROM changes JOIN acts ON act = id {where} GROUP BY path"
            select = f"SELECT path, act, at, verb, coalesce({source}, who), {source}, why, session, after FROM ({last}) AS last"
            steps = {}
            for path, change, time, verb, who, known, why, session, digest in db.execute(select, values).fetchall():
                name = path.removesuffix(".md")
                if not is_index_path(path) and (names is None or name in names):
                    if known is None and verb in _RETURNING_VERBS:
                        who = _find_writer(db, path, digest) or who
                    steps[name] = Change(change, datetime.fromisoformat(time), verb, Origin(who, why, session))
        return steps

    def find_dates(self, memories: Sequence[StoredMemory]) -> "tuple[ChangeDate, ...]":
        """Return the known dates of each memory's content."""
        with self.reading() as db:
            known = None
            if len(memories) > _FEW_NAMES:
                known = {
                    row[0]
                    for row in db.execute(
                        "SELECT path FROM files UNION SELECT path FROM seen UNION SELECT path FROM changes"
                    )
                }
            return tuple(
                ChangeDate()
                if known is not None and memory.header.file not in known
                else _find_dates(db, memory.header, memory.digest)
                for memory in memories
            )

    def find_recorded(self) -> dict[str, tuple[str, Signature]]:
        """Return the last recorded digest and signature of every file, by path."""
        with sqlite_errors(self.path):
            rows = self._db.execute("SELECT path, digest, inode, size, mtime_ns, ctime_ns FROM files").fetchall()
        return {row[0]: (row[1], Signature(*(value or 0 for value in row[2:]))) for row in rows}

    # The recall log

    def add_recalls(self, recalls: Sequence[Surfacing]) -> None:
        """Add rows to the recall log, and delete the oldest rows that exceed its limit."""
        insert = "INSERT INTO recalls (at, name, query, session, selector, score, moment) VALUES (?, ?, ?, ?, ?, ?, ?)"
        with self.transaction(durable=False) as db:
            for recall in recalls:
                texts = (recall.name, recall.query[:LEDGER_QUERY_CHARS], recall.session)
                row = (
                    recall.at.isoformat(),
                    *map(replace_surrogates, texts),
                    recall.selector,
                    recall.score,
                    recall.moment,
                )
                db.execute(insert, row)
            db.execute("DELETE FROM recalls WHERE id <= (SELECT max(id) FROM recalls) - ?", (LEDGER_ROWS,))

    def move_recalls(self, name: str, new: str | None) -> None:
        """Rename the rows of one memory, or delete them if the new name is None."""
        with self.transaction(durable=False) as db:
            if new is None:
                db.execute("DELETE FROM recalls WHERE name = ?", (name,))
            else:
                db.execute("UPDATE recalls SET name = ? WHERE name = ?", (new, name))

    def read_recalls(self, name: str | None, limit: int) -> tuple[Surfacing, ...]:
        """Return the rows of one memory, or of all, newest first."""
        select = "SELECT name, at, query, session, selector, score, moment FROM recalls"
        where = "WHERE :name IS NULL OR name = :name ORDER BY id DESC LIMIT :limit"
        with self.reading() as db:
            rows = db.execute(f"{select} {where}", {"name": name, "limit": limit}).fetchall()
        return tuple(
            Surfacing(name, datetime.fromisoformat(time), query, session, selector, score, Moment(moment))
            for name, time, query, session, selector, score, moment in rows
        )

    def count_recalls(self) -> RecallCounts:
        with self.reading() as db:
            select = f"SELECT name, count(*) FROM recalls WHERE moment IN {SHOWN_MOMENTS} GROUP BY name"
            by_name = dict(db.execute(select).fetchall())
        return RecallCounts(sum(by_name.values()), by_name)

    def _drop_recalls(self, name: str) -> None:
        """Delete the rows of one memory and, in other rows, queries that led to it or contain its name."""
        queries = {row[0] for row in self._db.execute("SELECT query FROM recalls WHERE name = ?", (name,))}
        self._db.execute("DELETE FROM recalls WHERE name = ?", (name,))
        others = [row[0] for row in self._db.execute("SELECT DISTINCT query FROM recalls")]
        for query in find_leading(others, name, queries):
            self._db.execute("UPDATE recalls SET query = '' WHERE query = ?", (query,))

    def _read_changes(self, where: str, values: tuple[object, ...]) -> Iterator[Change]:
        with self.reading() as db:
            select = "SELECT undoes, id FROM acts WHERE undoes IS NOT NULL AND NOT pending ORDER BY id"
            undone = find_undone(db.execute(select).fetchall())
            rows = db.execute(f"SELECT id, at, verb, who, why, session, undoes FROM acts {where}", values)
            for change, time, verb, who, why, session, undoes in rows:
                origin, files = Origin(who, why, session), tuple(self._read_files(change))
                yield Change(change, datetime.fromisoformat(time), verb, origin, files, undoes, undone.get(change))

    def _read_files(self, change: int) -> Iterator[ChangedFile]:
        select = "SELECT path, before, after, splice_at, removed, inserted FROM changes WHERE act = ? ORDER BY seq"
        for path, before, after, offset, removed, inserted in self._db.execute(select, (change,)).fetchall():
            splice = None if removed is None or inserted is None else (offset, removed, inserted)
            yield ChangedFile(path, before, after, splice)

    def _insert(self, row: tuple[object, ...], plan: Sequence[FileChange]) -> int:
        insert = "INSERT INTO acts (at, verb, who, why, session, undoes, pending, mark) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        change = self._db.execute(insert, row).lastrowid or 0
        for number, planned in enumerate(plan):
            sides = (planned.before, planned.after)
            digests = [None if data is None else digest_of(data) for data in sides]
            splice: tuple[int | None, bytes | None, bytes | None] = (None, None, None)
            if planned.is_index:
                splice = find_splice(planned.before or b"", planned.after or b"")
            else:
                contents = [pair for pair in zip(digests, sides, strict=True) if pair[0] is not None]
                self._db.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?)", contents)
            values = (change, number, planned.path, *digests, *splice)
            self._db.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        return change

    def _note_outside(self, path: str, data: bytes | None, at: datetime) -> FileChange | None:
        row = self._db.execute("SELECT digest FROM files WHERE path = ?", (path,)).fetchone()
        digest = digest_of(data) if data is not None else None
        if row is None:  # a file that was deleted is known by its last change
            row = self._db.execute(f"{_LAST_CHANGE} WHERE path = ? ORDER BY act DESC LIMIT 1", (path,)).fetchone()
        if row is None or row[0] == digest:
            return None
        if is_index_path(path):
            old = self._db.execute("SELECT data FROM indexes WHERE path = ?", (path,)).fetchone()
        else:
            old = self._db.execute("SELECT data FROM contents WHERE digest = ?", (row[0],)).fetchone()
        old = old if row[0] is not None else None
        planned = FileChange(path, bytes(old[0]) if old else None, data)
        self._insert((at.isoformat(), OUTSIDE, OUTSIDE, "", "", None, False, ""), [planned])
        return planned

    def _remember(self, path: str, data: bytes | None, signature: Signature | None) -> None:
        if data is None or signature is None:
            self._db.execute("DELETE FROM files WHERE path = ?", (path,))
            return
        digest = digest_of(data)
        times = _find_times(self._db.execute(_FILE_TIMES, (path,)).fetchone(), digest, signature)
        values = (path, digest, signature.inode, signature.size, signature.mtime_ns, signature.ctime_ns, *times)
        self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        if is_index_path(path):
            self._db.execute("INSERT OR REPLACE INTO indexes VALUES (?, ?)", (path, data))
        else:
            self._db.execute("INSERT OR IGNORE INTO contents VALUES (?, ?)", (digest, data))


def find_undone(undos: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return a dict from change IDs to the undo that reverted each, ignoring undos that were themselves undone."""
    undone: dict[int, int] = {}
    for target, undo in sorted(dict(undos).items(), reverse=True):
        if undo not in undone:
            undone[target] = undo
    return undone


@contextmanager
def open_briefly(path: Path, busy_seconds: float) -> Iterator[History]:
    """Open a history for one small write. Skips the checkpoint that SQLite makes when the last writing connection
    closes, because it would take as long as a recall."""
    with closing(History(path, readonly=True)) as reader:
        _ = reader.version  # only a connection that has read something counts
        with closing(History(path, busy_seconds=busy_seconds)) as past:
            yield past


def find_moved_files(changes: Iterable[Change], name: str) -> set[str]:
    """Return the names that these changes moved a memory from or to, recognised by the same content."""
    path, names = f"{name}.md", set()
    for change in changes:
        left = {file.before: file.path for file in change.files if file.after is None}
        came = {file.after: file.path for file in change.files if file.before is None}
        pairs = ((left[digest], came[digest]) for digest in left.keys() & came.keys() if digest is not None)
        names |= {other.removesuffix(".md") for pair in pairs if path in pair for other in pair if other != path}
    return names


def make_link_ends(name: str) -> list[bytes]:
    """Return the two forms in which a link to a memory can end in an index line."""
    leaf = name.rpartition("/")[2]
    return [f"{leaf}.md)".encode(), f"{leaf}.md]".encode()]


def find_leading(queries: Iterable[str], name: str, known: Collection[str]) -> list[str]:
    """Return the queries that contain the name of a memory, or that are in `known`."""
    spoken = _list_words(name.rpartition("/")[2])
    return [query for query in queries if query in known or spoken in _list_words(query)]


def _list_words(text: str) -> str:
    return f" {fold_words(text.replace('_', ' '))} "


@dataclass(frozen=True, slots=True)
class ChangeDate:
    """The dates of a file's content. `changed` is None if unknown; `brought` means that it was copied from elsewhere.

    `since` is the modification time when this content was first seen; a checkout does not change it.
    """

    changed: datetime | None = None
    brought: bool = False
    since: datetime | None = None
    touched: datetime | None = None
    is_known: bool = False  # history knows the file, with these bytes or others


def _find_dates(db: sqlite3.Connection, header: Header, digest: str) -> ChangeDate:
    since, touched, path = None, None, header.file
    times = db.execute(_FILE_TIMES, (path,)).fetchone()
    if times is not None and times[0] == digest:
        since, touched = map(_make_time, _find_times(times, digest, header.signature))
    changed, brought = _find_change(db, path, digest, since)
    known = db.execute("SELECT 1 FROM changes WHERE path = ? LIMIT 1", (path,)).fetchone()
    return ChangeDate(changed, brought, since, touched, known is not None)


def _find_times(
    known: tuple[str, int, int, int | None, int | None] | None, digest: str, signature: Signature
) -> tuple[int, int | None]:
    """Return the times to record for a file, in nanoseconds: when its content was first seen, and its last touch.
    `known` contains the recorded digest, inode and modification time, and these two times."""
    if known is None or known[0] != digest:
        return signature.mtime_ns, None
    _, inode, mtime, since, touched = known
    if inode == signature.inode and signature.mtime_ns > mtime:
        touched = signature.mtime_ns
    return min(mtime if since is None else since, signature.mtime_ns), touched


def _find_change(
    db: sqlite3.Connection, path: str, digest: str, since: datetime | None
) -> tuple[datetime | None, bool]:
    """Return when these bytes were written, and whether the date in the file counts instead.

    It counts if the bytes were copied from elsewhere, or reworded by `memdir dream`, which dates them itself.
    """
    earliest: datetime | None = None
    brought = has_dreamed = False
    steps = _read_steps(db, path, None)
    while (step := next(steps, None)) is not None:
        change, time, verb, who, before, after = step
        moment = datetime.fromisoformat(time)
        if after == digest and verb in SAME_WORDS and before is not None:
            digest, has_dreamed = before, has_dreamed or who == "dream"
        elif after == digest and before is None and (source := _find_source(db, change, digest, path)):
            path, steps = source, _read_steps(db, source, change)
            earliest = moment if earliest is None else min(earliest, moment)
        elif after == digest:
            brought = verb in _BRINGING_VERBS or who in _BRINGING_WHO
            if verb in (OUTSIDE, "import"):
                # The edit was noticed later, or kept the time it had elsewhere; the file may show an earlier time.
                moment = moment if since is None else min(moment, since)
            elif not brought:
                return moment, has_dreamed
            earliest = moment if earliest is None else min(earliest, moment)
        elif before == digest and earliest is not None:
            earliest = min(earliest, moment)  # this change replaced the bytes, so they are older
    # memdir did not write these bytes: use a date that came with them, or the file's when memdir first replaced them.
    row = db.execute("SELECT since_ns FROM seen WHERE path = ? AND digest = ?", (path, digest)).fetchone()
    moments = [moment for moment in (earliest, _make_time(row[0]) if row else None) if moment is not None]
    return min(moments, default=None), brought or has_dreamed or row is not None


def _find_writer(db: sqlite3.Connection, path: str, digest: str | None) -> str:
    """Return who wrote this content, which a change only brought back or moved, or "" if history does not know."""
    writer, steps = "", _read_steps(db, path, None)
    while (step := next(steps, None)) is not None:
        change, _, verb, who, before, after = step
        if after != digest or digest is None:
            continue
        if before is None and (source := _find_source(db, change, digest, path)):
            path, steps = source, _read_steps(db, source, change)
        elif verb in SAME_WORDS and before is not None:
            digest = before
        elif verb not in _RETURNING_VERBS:
            writer = who
    return writer


def _read_steps(db: sqlite3.Connection, path: str, below: int | None) -> Iterator[tuple[int, str, str, str, str, str]]:
    select = "SELECT id, at, verb, who, before, after FROM changes JOIN acts ON act = id"
    where = "WHERE path = :path AND NOT pending AND (:below IS NULL OR id < :below) ORDER BY id DESC"
    return iter(db.execute(f"{select} {where}", {"path": path, "below": below}).fetchall())


def _find_source(db: sqlite3.Connection, change: int, digest: str, path: str) -> str | None:
    """Return the file from which the same change moved this content."""
    select = "SELECT path FROM changes WHERE act = ? AND before = ? AND after IS NULL AND path <> ?"
    row = db.execute(select, (change, digest, path)).fetchone()
    return None if row is None else str(row[0])


def _make_time(nanoseconds: int | None) -> datetime | None:
    try:
        return None if nanoseconds is None else datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return None
