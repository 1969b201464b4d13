"""PostgresStore: the store of an organisation in PostgreSQL, with the same plans and rules as FileStore.

A change is planned on the cached files, and sent as one statement that does nothing unless the cache is current: one round
trip. Otherwise the change locks the row of its store, plans on the current files, and commits: two more. Every statement
names its tenant, and row-level security also applies (`migrations/0003_rows.sql`). A change gets a key before it begins; if
the answer to its commit is lost, or the server was replaced, it is tried again and found by that key, so that it happens
once. The files of a store, without their contents, are cached as of a revision and updated with the changes since. Only
committed changes are cached.
"""

import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID, uuid4

from memdir.errors import (
    BudgetError,
    ConflictError,
    DiskError,
    FormatError,
    MemdirError,
    NotFoundError,
    SettingsError,
    hint_extra,
)
from memdir.files import check_name
from memdir.format.frontmatter import digest_of, make_header, make_memory, parse_fields
from memdir.format.index import find_splice
from memdir.frozen import dataclass
from memdir.limits import HEADER_BYTES, LEDGER_QUERY_CHARS, LEDGER_ROWS
from memdir.postgres.cache import FileRow, SearchHead, SnapshotView, StoreCache, StoreSnapshot
from memdir.postgres.history import OF_STORE, Ask, PostgresHistory, PostgresInbox, Row, clean_text
from memdir.records import Header, Origin, Scope, StoredMemory, Surfacing
from memdir.store import inbox
from memdir.store.contract import ChangeResult, Clock, Screen, StoreBase, StoreHead, utc_now
from memdir.store.history import find_leading, make_link_ends
from memdir.store.plan import FileChange, Finder, Planner, WriteRules, is_index_path, list_folder
from memdir.store.state import Author, make_author

try:
    import psycopg
    from psycopg import ClientCursor, errors
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError:
    _PROBLEM = "the server needs psycopg, which is not installed"
    raise SettingsError(_PROBLEM, hint=hint_extra("server")) from None

MIGRATIONS = Path(__file__).with_name("migrations")
APP_ROLE = "memdir_app"
_TENANT = "SELECT set_config('app.tenant', %(tenant)s::text, true)"
_RETRIED = frozenset({"40001", "40P01"})  # serialisation, deadlock: nothing has happened
# The connection or the server went away, or it is a standby: whether the commit happened is unknown.
_LOST = frozenset({"57P01", "57P02", "57P03", "25006", "08000", "08003", "08006", "08001", "08004", "08P01"})
_TRIES = 12
_RECONNECT_SECONDS = 30.0  # a failover takes seconds
T = TypeVar("T")
Values = Mapping[str, object]


class PostgresDatabase:
    """Connections to one database as the application role. Each statement runs in a transaction of one tenant."""

    def __init__(self, dsn: str, *, size: int = 8, seconds: float = _RECONNECT_SECONDS) -> None:
        self.seconds = seconds
        logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # errors are raised to the caller
        # No prepared statements: behind PgBouncer the next transaction may be on another connection.
        kwargs = {"autocommit": True, "prepare_threshold": None, "cursor_factory": ClientCursor}
        self._pool = ConnectionPool(
            dsn, kwargs=kwargs, min_size=1, max_size=size, open=False, timeout=seconds, reconnect_timeout=seconds
        )
        self._pool.open()

    def close(self) -> None:
        self._pool.close()

    def read(self, tenant: UUID, *statements: str, **values: object) -> list[list[Row]]:
        """Collect statements, run them in one round trip on one database snapshot, and return the rows of each."""
        bound = {**values, "tenant": tenant}
        if len(statements) == 1:  # statements sent together are one transaction
            return self.run(lambda db, _: execute(db, f"{_TENANT};{statements[0]}", bound)[1:])
        text = ";".join(["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", _TENANT, *statements, "COMMIT"])
        return self.run(lambda db, _: execute(db, text, bound)[2:-1])

    def write(self, tenant: UUID, *statements: str, **values: object) -> list[list[Row]]:
        """Run statements as `read` does, and commit. They may run twice, so they must be repeatable."""
        text = ";".join(["BEGIN", _TENANT, *statements, "COMMIT"])
        return self.run(lambda db, _: execute(db, text, {**values, "tenant": tenant})[2:-1])

    def count_migrations(self) -> int:
        return int(self.show("SELECT count(*) FROM memdir.migrations"))

    def show(self, statement: str) -> str:
        """Return the single value of a statement about the server, as text."""
        try:
            return str(self.run(lambda db, _: execute(db, statement, {}))[0][0][0])
        except psycopg.Error as error:
            raise SettingsError(str(error).splitlines()[0], key="dsn", hint="run `memdir serve migrate`") from None

    def measure(self) -> dict[str, int]:
        return {key: int(value) for key, value in self._pool.get_stats().items()}

    def run(self, work: "Callable[[psycopg.Connection[Row], bool], T]") -> T:
        """Run `work` on a connection, and retry after a serialisation failure or a lost connection. Its second
        argument tells whether this is the first attempt. An open transaction is rolled back."""
        tries, until = 0, time.monotonic() + self.seconds
        while True:
            try:
                with self._pool.connection(timeout=self.seconds) as db:
                    try:
                        return work(db, tries == 0)
                    finally:
                        if not db.closed and db.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                            db.rollback()
            except PoolTimeout:
                raise _unavailable("no connection within the time limit") from None
            except psycopg.OperationalError as error:
                tries += 1
                is_lost = error.sqlstate is None or error.sqlstate in _LOST
                if not (is_lost or error.sqlstate in _RETRIED):
                    raise _unavailable(str(error).splitlines()[0]) from None
                if time.monotonic() > until or (not is_lost and tries >= _TRIES):
                    raise _unavailable(str(error).splitlines()[0]) from None
                if is_lost:
                    self._pool.check()
                time.sleep(random.uniform(0, min(0.01 * 2**tries, 0.5)))
            except psycopg.DataError:  # such as NUL, which texts in PostgreSQL cannot contain
                raise FormatError("this contains a character that cannot be stored", hint="remove it") from None

    @contextmanager
    def transaction(self, tenant: UUID) -> "Iterator[psycopg.Connection[Row]]":
        """Open a transaction for several steps. It is not retried: a lost connection raises an error."""
        try:
            with self._pool.connection() as db, db.transaction():
                db.execute(_TENANT, {"tenant": tenant})
                yield db
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise _unavailable(str(error).splitlines()[0] if str(error) else "connection lost") from None


def execute(db: "psycopg.Connection[Row]", text: str, values: Values) -> list[list[Row]]:
    """Send several statements as one and return the rows of each; a statement without rows gives an empty list."""
    results = []
    cursor = db.execute(text, values)
    while True:
        results.append(cursor.fetchall() if cursor.description else [])
        if not cursor.nextset():
            return results


def _unavailable(words: str) -> DiskError:
    return DiskError(f"the database is not responding: {words}", hint="try again; `memdir serve --check` tests it")


def run_as_owner(dsn: str) -> "psycopg.Connection[Row]":
    """Open a separate connection for administrative commands."""
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        raise _unavailable(str(error).splitlines()[0]) from None


def migrate(dsn: str) -> list[str]:
    """Migrate the schema to this version, as its owner role; return the migrations that ran.

    Each migration runs in a transaction that first inserts its number, so concurrent runs wait and then skip it.
    """
    names = []
    with run_as_owner(dsn) as db:
        table = "number integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now()"
        statements = ["CREATE SCHEMA IF NOT EXISTS memdir", f"CREATE TABLE IF NOT EXISTS memdir.migrations ({table})"]
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (APP_ROLE,)).fetchone():
            statements.append(f"CREATE ROLE {APP_ROLE} LOGIN")
        for statement in statements:
            # Even with IF NOT EXISTS, one of two concurrent statements may fail.
            with suppress(errors.UniqueViolation, errors.DuplicateObject):
                db.execute(statement)
        known = {number for (number,) in db.execute("SELECT number FROM memdir.migrations")}
        for number, path in list_migrations():
            if number in known:
                continue
            try:
                with db.transaction():
                    db.execute("INSERT INTO memdir.migrations (number, name) VALUES (%s, %s)", (number, path.stem))
                    db.execute(path.read_text(encoding="utf-8").encode())
            except errors.UniqueViolation:
                continue
            names.append(path.stem)
    return names


def list_migrations() -> list[tuple[int, Path]]:
    return [(int(path.name[:4]), path) for path in sorted(MIGRATIONS.glob("*.sql"))]


@dataclass(frozen=True, slots=True)
class StoreTable:
    """The rows of one store in the shared database."""

    database: PostgresDatabase
    tenant: UUID
    store: UUID

    def read(self, *statements: str, **values: object) -> list[list[Row]]:
        return self.database.read(self.tenant, *statements, store=self.store, **values)

    def write(self, *statements: str, **values: object) -> list[list[Row]]:
        return self.database.write(self.tenant, *statements, store=self.store, **values)


# The rows that update a snapshot: the keys of two changes, files written since, files deleted since.
_SINCE = (
    f"SELECT change, key FROM memdir.changes WHERE {OF_STORE} AND change IN (%(since)s, (SELECT revision"
    f" FROM memdir.stores WHERE {OF_STORE}))",
    f"SELECT path, digest, size, change, mtime_ns FROM memdir.files WHERE {OF_STORE} AND change > %(since)s",
    f"SELECT DISTINCT path FROM memdir.changed_files WHERE {OF_STORE} AND change > %(since)s AND after IS NULL",
)
_HEAD = """
    SELECT s.revision, s.epoch, s.items, s.memories, s.bytes,
        (SELECT sum(o.memories) FROM memdir.stores o WHERE o.tenant = %(tenant)s)::bigint,
        (SELECT sum(o.bytes) FROM memdir.stores o WHERE o.tenant = %(tenant)s)::bigint, t.max_memories, t.max_bytes
    FROM memdir.stores s JOIN memdir.tenants t ON t.tenant = s.tenant
    WHERE s.tenant = %(tenant)s AND s.store = %(store)s
"""
_LOCK = f"{_HEAD} FOR NO KEY UPDATE OF s"
_READ = """
    SELECT coalesce(f.data, c.data), f.path, f.digest, f.size, f.change, f.mtime_ns FROM memdir.files f
    LEFT JOIN memdir.contents c ON c.tenant = f.tenant AND c.store = f.store AND c.digest = f.digest
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = ANY(%(paths)s)
"""
# A change is one statement: it increments the revision if the plan's snapshot is current, and only then does the rest.
_COUNT = """
    UPDATE memdir.stores s SET revision = %(change)s, memories = s.memories + %(memories)s, bytes = s.bytes + %(bytes)s
    WHERE s.tenant = %(tenant)s AND s.store = %(store)s AND s.revision = %(since)s AND s.epoch = %(epoch)s
        AND (%(since)s = 0 OR EXISTS (SELECT 1 FROM memdir.changes c WHERE c.tenant = %(tenant)s
            AND c.store = %(store)s AND c.change = %(since)s AND c.key = %(last)s))
"""
_HAS_ROOM = """
    AND EXISTS (SELECT 1 FROM memdir.tenants t WHERE t.tenant = %(tenant)s
        AND t.max_memories >= %(memories)s + (SELECT sum(o.memories) FROM memdir.stores o WHERE o.tenant = %(tenant)s)
        AND t.max_bytes >= %(bytes)s + (SELECT sum(o.bytes) FROM memdir.stores o WHERE o.tenant = %(tenant)s))
"""
_IS_NEW = """
    AND NOT EXISTS (SELECT 1 FROM memdir.changes c WHERE c.tenant = %(tenant)s AND c.store = %(store)s
        AND c.mark = %(mark)s)
"""
_ADD_CHANGE = """
    INSERT INTO memdir.changes (tenant, store, change, key, at, verb, who, why, session, actor, undoes, mark)
    SELECT h.tenant, h.store, %(change)s, %(key)s, %(at)s, %(verb)s, %(who)s, %(why)s, %(session)s, %(actor)s,
        %(undoes)s, %(mark)s FROM head h
"""
_ADD_CHANGED = """
    INSERT INTO memdir.changed_files (tenant, store, change, seq, path, before, after, splice_at, removed, inserted)
    SELECT h.tenant, h.store, %(change)s, v.* FROM head h CROSS JOIN (VALUES {rows})
        AS v(seq, path, before, after, splice_at, removed, inserted)
"""
_ADD_CONTENTS = """
    INSERT INTO memdir.contents (tenant, store, digest, data)
    SELECT h.tenant, h.store, v.* FROM head h CROSS JOIN (VALUES {rows}) AS v(digest, data)
    ON CONFLICT (tenant, store, digest) DO UPDATE SET data = excluded.data WHERE memdir.contents.data IS NULL
"""
_PUT_FILES = """
    INSERT INTO memdir.files (tenant, store, path, digest, size, data, change, mtime_ns)
    SELECT h.tenant, h.store, v.*, %(change)s, %(mtime_ns)s FROM head h CROSS JOIN (VALUES {rows})
        AS v(path, digest, size, data)
    ON CONFLICT (tenant, store, path) DO UPDATE SET digest = excluded.digest, size = excluded.size,
        change = excluded.change, mtime_ns = excluded.mtime_ns, data = excluded.data
"""
_DROP_FILES = """
    DELETE FROM memdir.files f USING head h
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = ANY(%(gone)s)
"""


class PostgresStore(StoreBase):
    """A store of a tenant. `actor` is recorded as the author of its changes; `strict` is for private text that leaves
    the user's machine."""

    def __init__(
        self,
        database: PostgresDatabase,
        tenant: UUID,
        store: UUID,
        *,
        scope: Scope = Scope.PRIVATE,
        skip_index: bool = False,
        clock: Clock = utc_now,
        find_secrets: Finder | None = None,
        shared: bool = False,
        strict: bool = False,
        review: bool = True,
        actor: str = "",
        actor_name: str = "",
        cache: "StoreCache | None" = None,
        screen: Screen | None = None,
    ) -> None:
        self._table = StoreTable(database, tenant, store)
        self.scope, self.clock, self.actor, self.actor_name = scope, clock, actor, actor_name
        self.rules = WriteRules(scope, skip_index, find_secrets, shared, review, strict)
        self._cache = cache or StoreCache()
        self.screen = screen or self.screen
        self._history = PostgresHistory(self._table.read)
        self._held: dict[str, StoredMemory] = {}
        self._keys: dict[str, object] = {"tenant": tenant, "store": store}

    # Reading

    def scan(self) -> tuple[Header, ...]:
        snapshot = self._read_snapshot()
        rows = {path: row for path, row in snapshot.files.items() if not is_index_path(path)}
        fields = self._cache.heads
        missing = list({row.digest for row in rows.values()} - fields.keys())
        for start in range(0, len(missing), 1000):
            select = f"SELECT digest, substring(data FROM 1 FOR {HEADER_BYTES}) FROM memdir.contents WHERE {OF_STORE}"
            (contents,) = self._table.read(
                f"{select} AND digest = ANY(%(digests)s)", digests=missing[start : start + 1000]
            )
            for digest, data in contents:
                self._cache.add_head(digest, parse_fields((data or b"").decode("utf-8", "replace")))
        headers = [
            make_header(path.removesuffix(".md"), fields[row.digest], row.signature, self.scope)
            for path, row in rows.items()
            if row.digest in fields
        ]
        return tuple(sorted(headers, key=lambda header: (header.modified, header.name), reverse=True))

    def read(self, name: str) -> StoredMemory:
        check_name(name)
        if (memory := self._held.get(name)) is not None:
            return memory
        (rows,) = self._table.read(_READ, paths=[f"{name}.md"])
        if not rows or rows[0][0] is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        data, _, *file = rows[0]
        return make_memory(name, data, FileRow(*file).signature, self.scope)

    @contextmanager
    def _hold_memories(self, head: "SearchHead") -> Iterator[Callable[[Iterable[str]], None]]:
        """Yield a function that reads memories together and caches them within this context, for a search that then
        reads them one by one. Memories cached as of `head` are not read again."""

        def hold(names: Iterable[str]) -> None:
            snapshot, cached, paths = self._cache.snapshot, self._cache.memories, list[str]()
            is_same = (snapshot.revision, snapshot.epoch, snapshot.key) == (head.revision, head.epoch, head.key)
            for name in names:
                row = snapshot.files.get(f"{name}.md") if is_same else None
                memory = cached.get(name) if row is not None else None
                if row is not None and memory is not None and memory.header.signature == row.signature:
                    self._held[name] = memory
                else:
                    paths.append(f"{name}.md")
            (rows,) = self._table.read(_READ, paths=paths) if paths else ([],)
            for data, path, *file in rows:
                if data is not None:
                    name = path.removesuffix(".md")
                    self._held[name] = make_memory(name, data, FileRow(*file).signature, self.scope)
                    self._cache.keep_memory(self._held[name])

        try:
            yield hold
        finally:
            self._held = {}

    def read_bytes(self, path: str) -> bytes | None:
        (rows,) = self._table.read(_READ, paths=[path])
        return rows[0][0] if rows else None

    def list_files(self, folder: str) -> list[str]:
        return list_folder(self._read_snapshot().files, folder)

    def read_changed(self, since: int, *, content: bool) -> tuple[StoreHead, list[Row], list[Row]]:
        data = "coalesce(f.data, b.data)" if content else "NULL"
        of_change = "h.tenant = f.tenant AND h.store = f.store AND h.change = f.change"
        mine = "f.tenant = %(tenant)s AND f.store = %(store)s"
        written = f"""
            SELECT f.path, f.digest, f.change, h.actor, h.at, {data} FROM memdir.files f
            JOIN memdir.changes h ON {of_change}
            LEFT JOIN memdir.contents b ON b.tenant = f.tenant AND b.store = f.store AND b.digest = f.digest
            WHERE {mine} AND f.change > %(since)s ORDER BY f.path
        """
        deleted = f"""
            SELECT DISTINCT ON (f.path) f.path, f.change, h.actor, h.at FROM memdir.changed_files f
            JOIN memdir.changes h ON {of_change}
            WHERE {mine} AND f.change > %(since)s AND f.after IS NULL AND NOT EXISTS (SELECT 1 FROM memdir.files n
                WHERE n.tenant = f.tenant AND n.store = f.store AND n.path = f.path)
            ORDER BY f.path, f.change DESC
        """
        head, files, gone = self._table.read(_HEAD, written, deleted, since=since)
        return self._make_head(head), files, gone

    def read_head(self) -> StoreHead:
        (rows,) = self._table.read(_HEAD)
        return self._make_head(rows)

    def read_digests(self) -> dict[str, str]:
        return {path: row.digest for path, row in self._read_snapshot().files.items()}

    def read_signers(self, names: Collection[str] = ()) -> Mapping[str, Author]:
        if self.scope is not Scope.TEAM:
            return {}
        steps = self._history.find_last_steps(names)
        people = self._history.find_people(step.id for step in steps.values())
        return {name: make_author(people[step.id], "", step.at) for name, step in steps.items() if step.id in people}

    # Writing

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        names = ("id", "at", "name", "query", "session", "selector", "score", "moment")
        rows, values = list[str](), dict[str, object]()
        start = time.time_ns()
        for number, recall in enumerate(recalls):
            texts = map(clean_text, (recall.name, recall.query[:LEDGER_QUERY_CHARS], recall.session, recall.selector))
            row = (
                f"{start + number:016x}{random.getrandbits(32):08x}",
                recall.at,
                *texts,
                recall.score,
                recall.moment.value,
            )
            values |= {f"{key}{number}": value for key, value in zip(names, row, strict=True)}
            rows.append(f"(%(tenant)s, %(store)s, {', '.join(f'%({key}{number})s' for key in names)})")
        if not rows:
            return
        # This does not wait for the disk: a crash may lose the newest rows of the recall log.
        statements = [
            "SELECT set_config('synchronous_commit', 'off', true)",
            f"INSERT INTO memdir.recalls (tenant, store, {', '.join(names)}) VALUES {', '.join(rows)}",
        ]
        if random.random() < len(rows) / 100:  # now and then, the oldest are removed
            select = f"SELECT id FROM memdir.recalls WHERE {OF_STORE} ORDER BY id DESC OFFSET {LEDGER_ROWS} LIMIT 1"
            statements.append(f"DELETE FROM memdir.recalls WHERE {OF_STORE} AND id <= ({select})")
        self._table.write(*statements, **values)

    def redact(self, change: int, path: str) -> None:
        file = next((entry for entry in self.read_change(change).files if entry.path == path), None)
        if file is None or file.after is None or is_index_path(path):
            raise NotFoundError(f"change {change} did not write {path}", name=path)
        (rows,) = self._table.read(
            f"SELECT path FROM memdir.files WHERE {OF_STORE} AND digest = %(digest)s", digest=file.after
        )
        if rows:
            hint = "change or forget it first; current content cannot be redacted"
            raise ConflictError(f"{rows[0][0]} still has this content", found=file.after, hint=hint)
        lines = f"UPDATE memdir.changed_files SET removed = NULL, inserted = NULL WHERE {OF_STORE}"
        self._table.write(
            f"UPDATE memdir.contents SET data = NULL WHERE {OF_STORE} AND digest = %(digest)s",
            # The memory's index line describes it.
            f"{lines} AND splice_at IS NOT NULL AND change IN (SELECT change FROM memdir.changed_files WHERE {OF_STORE}"
            " AND path = %(path)s AND (before = %(digest)s OR after = %(digest)s))",
            digest=file.after,
            path=path,
        )
        self._cache.forget(file.after)

    def _apply(self, verb: str, origin: Origin, planner: Planner, undoes: int | None, mark: str) -> ChangeResult:
        words = {"who": origin.who, "why": origin.why, "session": origin.session, "actor": self.actor, "verb": verb}
        values = {name: clean_text(text) for name, text in {**words, "mark": mark}.items()}
        key = uuid4()
        change = _NewChange(key, values["mark"], {**values, "key": key, "undoes": undoes})
        return self._table.database.run(lambda db, is_first: self._commit_once(db, is_first, change, planner))

    def _commit_once(
        self, db: "psycopg.Connection[Row]", is_first: bool, change: "_NewChange", planner: Planner
    ) -> ChangeResult:
        if is_first and self._cache.is_current and (result := self._try_commit(db, change, planner)) is not None:
            return result
        base = {**self._keys, **change.values}
        known = f"SELECT min(change) FROM memdir.changes WHERE {OF_STORE}"
        extra = [f"{known} AND mark = %(mark)s"] if change.mark else []
        extra += [] if is_first else [f"{known} AND key = %(key)s"]
        before = self._cache.snapshot
        text = ";".join(["BEGIN", _TENANT, _LOCK, *_SINCE, *extra])
        rows = execute(db, text, {**base, "since": before.revision})
        head = self._make_head(rows[2])
        earlier = [row[0][0] for row in rows[6:]]
        if not is_first and earlier.pop() is not None:
            # The answer was lost, but not the commit: read the changes from the history.
            db.rollback()
            return self._find_done(change.key)
        if change.mark and earlier[0] is not None:
            return ChangeResult(earlier[0], repeated=True)
        snapshot = self._advance(before, head, rows[3:6], lambda: execute(db, ";".join(_SINCE), {**base, "since": 0}))
        self._cache.is_current = snapshot is before
        changes = planner(
            SnapshotView(self._cache, snapshot, lambda paths: execute(db, _READ, {**base, "paths": paths})[0])
        )
        _check_quota(head, *_measure(changes))
        result = self._write(db, ("", "COMMIT"), change, snapshot, changes) if changes else ChangeResult()
        assert result is not None, "the row of the store is locked"
        return result

    def _try_commit(self, db: "psycopg.Connection[Row]", change: "_NewChange", planner: Planner) -> ChangeResult | None:
        """Plan on the cached files and send the change in one round trip. Returns None if the files were not current or
        the change would be refused; the change is then made under the store's lock."""
        snapshot = self._cache.snapshot

        def load(paths: Sequence[str]) -> list[Row]:
            return execute(db, f"{_TENANT};{_READ}", {**self._keys, "paths": paths})[1]

        try:
            changes = planner(SnapshotView(self._cache, snapshot, load))
        except MemdirError:
            return None
        result = self._write(db, (_TENANT, ""), change, snapshot, changes) if changes else None
        self._cache.is_current = result is not None
        return result

    def _write(
        self,
        db: "psycopg.Connection[Row]",
        around: tuple[str, str],
        change: "_NewChange",
        snapshot: StoreSnapshot,
        changes: Sequence[FileChange],
    ) -> ChangeResult | None:
        """Record, apply and commit changes planned on a snapshot; return None if the store has a newer revision.
        `around` are the statements before and after: the tenant if no transaction is open, otherwise COMMIT."""
        now, number = self.clock(), snapshot.revision + 1
        grown, size = _measure(changes)
        values = {**self._keys, **change.values}
        values |= {"since": snapshot.revision, "epoch": snapshot.epoch, "last": snapshot.key, "change": number}
        values |= {"at": now, "memories": grown, "bytes": size, "mtime_ns": int(now.timestamp() * 1e9)}
        count = _COUNT + (_HAS_ROOM if grown > 0 or size > 0 else "") + (_IS_NEW if change.mark else "")
        parts = [f"head AS ({count} RETURNING s.tenant, s.store)", f"change AS ({_ADD_CHANGE})"]
        parts += [f"step{index} AS ({text})" for index, text in enumerate(_write_files(changes, values))]
        before, after = around
        text = ";".join(filter(None, [before, f"WITH {', '.join(parts)} SELECT count(*) FROM head", after]))
        if execute(db, text, values)[1 if before else 0] == [(0,)]:
            return None
        files = dict(snapshot.files)
        for planned in changes:
            files.pop(planned.path, None)
            if planned.after is not None:
                digest = digest_of(planned.after)
                self._cache.keep(digest, planned.after)
                files[planned.path] = FileRow(digest, len(planned.after), number, int(now.timestamp() * 1e9))
        if self._cache.snapshot is snapshot:  # otherwise it is newer
            self._cache.snapshot = StoreSnapshot(number, snapshot.epoch, change.key, files)
        return ChangeResult(number, tuple(changes))

    def _find_done(self, key: UUID) -> ChangeResult:
        (rows,) = self._table.read(f"SELECT change FROM memdir.changes WHERE {OF_STORE} AND key = %(key)s", key=key)
        if not rows:
            raise DiskError("the database lost a recorded change", hint="check the current memories")
        change = self.read_change(rows[0][0])
        changes = []
        for file in change.files:
            if not is_index_path(file.path):
                sides = [None if digest is None else self.read_content(digest) for digest in (file.before, file.after)]
                changes.append(FileChange(file.path, *sides))
        return ChangeResult(change.id, tuple(changes))

    def _make_head(self, rows: list[Row]) -> StoreHead:
        if not rows:
            raise NotFoundError(
                "this store does not exist", name=str(self._table.store), hint="GET /v1/stores lists them"
            )
        return StoreHead(*rows[0])

    def _read_snapshot(self) -> StoreSnapshot:
        """Return the current files, updated if they have changed."""
        snapshot = self._cache.snapshot
        head, *rows = self._table.read(_HEAD, *_SINCE, since=snapshot.revision)
        return self._advance(snapshot, self._make_head(head), rows, lambda: self._table.read(*_SINCE, since=0))

    def _advance(
        self, snapshot: StoreSnapshot, head: StoreHead, rows: list[list[Row]], load: Callable[[], list[list[Row]]]
    ) -> StoreSnapshot:
        """Return the snapshot with later changes applied, or reloaded if the store was restored or purged."""
        keys: dict[int, UUID] = dict(rows[0])
        is_same = head.epoch == snapshot.epoch and (
            not snapshot.revision or keys.get(snapshot.revision) == snapshot.key
        )
        if not is_same or head.revision < snapshot.revision:
            snapshot, rows = StoreSnapshot(epoch=head.epoch), load()
            keys = dict(rows[0])
        elif head.revision == snapshot.revision:
            return snapshot
        files = dict(snapshot.files)
        for (path,) in rows[2]:
            files.pop(path, None)
        files |= {path: FileRow(*row) for path, *row in rows[1]}
        snapshot = StoreSnapshot(head.revision, head.epoch, keys.get(head.revision), files)
        self._cache.snapshot = snapshot
        return snapshot

    @contextmanager
    def _reading_history(self) -> Iterator[PostgresHistory]:
        yield self._history

    @contextmanager
    def _using_inbox(self, *, write: bool) -> Iterator[PostgresInbox]:
        if not write:
            yield PostgresInbox(self._table.read)
            return
        with self._locking() as ask:
            yield PostgresInbox(ask)

    @contextmanager
    def _locking(self) -> Iterator[Ask]:
        """Lock the row of the store, and yield a function that runs statements in the same transaction."""
        with self._table.database.transaction(self._table.tenant) as db:
            self._make_head(execute(db, _LOCK, self._keys)[0])
            yield lambda *statements, **values: execute(db, ";".join(statements), {**self._keys, **values})

    def _purge_name(self, name: str) -> int:
        self._forget_known(name)
        path, lines = f"{name}.md", make_link_ends(name)
        with self._locking() as ask_store:
            ask = partial(ask_store, path=path, name=name)
            select = f"SELECT change, before, after FROM memdir.changed_files WHERE {OF_STORE} AND path = %(path)s"
            mine, splices, recalls = ask(
                select,
                f"SELECT change, seq, removed, inserted FROM memdir.changed_files WHERE {OF_STORE}"
                " AND splice_at IS NOT NULL",
                f"SELECT DISTINCT name, query FROM memdir.recalls WHERE {OF_STORE}",
            )
            changes = sorted({row[0] for row in mine})
            (marks,) = ask(
                f"SELECT DISTINCT mark FROM memdir.changes WHERE {OF_STORE} AND mark <> '' AND change = ANY(%(changes)s)",
                changes=changes,
            )
            inbox.drop_rows(PostgresInbox(ask), name, {mark for (mark,) in marks})
            known = {query for recalled, query in recalls if recalled == name}
            queries = find_leading([query for recalled, query in recalls if recalled != name], name, known)
            used = f"SELECT 1 FROM memdir.changed_files WHERE {OF_STORE} AND c.digest IN (before, after)"
            ask(
                f"DELETE FROM memdir.changed_files WHERE {OF_STORE} AND path = %(path)s",
                f"DELETE FROM memdir.contents c WHERE {OF_STORE} AND digest = ANY(%(digests)s) AND NOT EXISTS ({used})",
                f"UPDATE memdir.changes SET why = '' WHERE {OF_STORE} AND change = ANY(%(changes)s)",
                f"DELETE FROM memdir.recalls WHERE {OF_STORE} AND name = %(name)s",
                f"UPDATE memdir.recalls SET query = '' WHERE {OF_STORE} AND query = ANY(%(queries)s)",
                f"DELETE FROM memdir.search WHERE {OF_STORE} AND path = %(path)s",
                # Another process may have cached a file whose deletion is no longer recorded.
                f"UPDATE memdir.stores SET epoch = epoch + 1 WHERE {OF_STORE}",
                digests=[digest for _, *both in mine for digest in both if digest],
                changes=changes,
                queries=queries,
            )
            redact = f"UPDATE memdir.changed_files SET removed = NULL, inserted = NULL WHERE {OF_STORE}"
            for change, seq, *texts in splices:
                if any(line in (text or b"") for line in lines for text in texts):
                    ask(f"{redact} AND change = %(change)s AND seq = %(seq)s", change=change, seq=seq)
        self._cache.clear()
        return len(changes)


@dataclass(frozen=True, slots=True)
class _NewChange:
    """A change to be made: its key, its idempotency key, and the columns that do not depend on the files."""

    key: UUID
    mark: str
    values: Mapping[str, object]


def _measure(changes: Iterable[FileChange]) -> tuple[int, int]:
    """Return how many memories and bytes these changes add."""
    grown = sum((file.after is not None) - (file.before is not None) for file in changes if not file.is_index)
    return grown, sum(len(file.after or b"") - len(file.before or b"") for file in changes)


def _write_files(changes: Sequence[FileChange], values: dict[str, object]) -> Iterator[str]:
    """Yield the parts of the statement that records and applies changes; add their values to `values`."""
    history, contents, files, gone = list[str](), list[str](), list[str](), list[str]()

    def slot(value: object, kind: str) -> str:
        values[f"v{len(values)}"] = value
        return f"%(v{len(values) - 1})s::{kind}"

    for number, planned in enumerate(changes):
        before, after = (None if data is None else digest_of(data) for data in (planned.before, planned.after))
        splice: tuple[object, ...] = (None, None, None)
        if planned.is_index:
            splice = find_splice(planned.before or b"", planned.after or b"")
        path, digest = slot(planned.path, "text"), slot(after, "text")
        parts = (slot(value, kind) for value, kind in zip(splice, ("int", "bytea", "bytea"), strict=True))
        history.append(f"({number}, {path}, {slot(before, 'text')}, {digest}, {', '.join(parts)})")
        if planned.after is None:
            gone.append(planned.path)
            continue
        data, size = slot(planned.after, "bytea"), slot(len(planned.after), "int")
        if not planned.is_index:
            contents.append(f"({digest}, {data})")
            data = "NULL::bytea"
        files.append(f"({path}, {digest}, {size}, {data})")
    yield _ADD_CHANGED.format(rows=", ".join(history))
    if contents:
        yield _ADD_CONTENTS.format(rows=", ".join(dict.fromkeys(contents)))
    if files:
        yield _PUT_FILES.format(rows=", ".join(files))
    if gone:
        values["gone"] = gone
        yield _DROP_FILES


def _check_quota(head: StoreHead, grown: int, size: int) -> None:
    for more, have, most, what in (
        (grown, head.all_memories, head.max_memories, "memories"),
        (size, head.all_bytes, head.max_bytes, "bytes"),
    ):
        if more > 0 and have + more > most:
            hint = "forget old memories, or ask the server's administrator for more"
            raise BudgetError(f"this organisation has {have:,} of at most {most:,} {what}", hint=hint)


def create_tenant(dsn: str, name: str, *, tenant: UUID | None = None) -> UUID:
    """Create an organisation, as the owner role; return its ID."""
    id = tenant or uuid4()
    with run_as_owner(dsn) as db, db.transaction():
        db.execute(_TENANT, {"tenant": id})
        for table in ("tenants", "directory"):
            db.execute(f"INSERT INTO memdir.{table} (tenant, name) VALUES (%s, %s)", (id, clean_text(name)))
    return id


def create_store(database: PostgresDatabase, tenant: UUID, name: str, **columns: object) -> UUID:
    """Create an empty store. Raises ConflictError if the name is taken, BudgetError if there are too many."""
    store = uuid4()
    row: dict[str, object] = {"scope": Scope.TEAM.value, **columns, "store": store, "name": clean_text(name)}
    names, slots = ", ".join(row), ", ".join(f"%({key})s" for key in row)
    count = "SELECT max_stores FROM memdir.tenants WHERE tenant = %(tenant)s"
    (limits, stores) = database.read(tenant, count, "SELECT count(*) FROM memdir.stores WHERE tenant = %(tenant)s")
    if limits and stores[0][0] >= limits[0][0]:
        raise BudgetError(f"the limit is {limits[0][0]:,} stores", hint="delete an unused store")
    try:
        database.write(tenant, f"INSERT INTO memdir.stores (tenant, {names}) VALUES (%(tenant)s, {slots})", **row)
    except errors.UniqueViolation:
        raise ConflictError(f"a store named {name} already exists", hint="choose another name") from None
    except errors.ForeignKeyViolation:
        raise NotFoundError("team or organisation not found", name=name) from None
    return store
