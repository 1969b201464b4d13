"""PostgresStore: the store of an organisation in PostgreSQL, by the same plan and the same rules as FileStore.

A change is planned on the files as they are remembered, and sent as one statement that does nothing unless the store is
still so: one round trip. Where it is not, the change locks the row of its store, plans on the files as they are then, and
commits: two more. Every statement names its tenant, and row-level security holds where one would not
(`migrations/0003_rows.sql`). Before it begins, a change gets a key; if the answer to its commit is lost, or the server was
replaced meanwhile, it is begun again and found by that key, so that it happens once.

The files of a store, without their contents, are remembered as of a revision and brought up to date by what changed
since. Nothing is remembered that was not committed.
"""

import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
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
from memdir.postgres.cache import FileRow, SearchHead, SnapshotView, StoreCache, StoreSnapshot, list_folder
from memdir.postgres.history import OF_STORE, PostgresHistory, PostgresInbox, Row, clean_text, render_limit
from memdir.records import Header, Origin, RecallCounts, Scope, StoredMemory, Surfacing
from memdir.store import inbox
from memdir.store.contract import ChangeResult, Clock, Screen, StoreBase, utc_now
from memdir.store.history import find_leading, make_link_ends, sum_recalls
from memdir.store.plan import FileChange, Finder, Planner, WriteRules, is_index_path
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
    """Connections to one database as the application role; each statement runs in a transaction of one tenant."""

    def __init__(self, dsn: str, *, size: int = 8, seconds: float = _RECONNECT_SECONDS) -> None:
        self.seconds = seconds
        logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # what fails is raised to who asked
        # No prepared statements: behind PgBouncer the next transaction may be on another connection.
        kwargs = {"autocommit": True, "prepare_threshold": None, "cursor_factory": ClientCursor}
        self._pool = ConnectionPool(
            dsn, kwargs=kwargs, min_size=1, max_size=size, open=False, timeout=seconds, reconnect_timeout=seconds
        )
        self._pool.open()

    def close(self) -> None:
        self._pool.close()

    def read(self, tenant: UUID, *statements: str, **values: object) -> list[list[Row]]:
        """The rows of each statement, all in one round trip and on one state of the database."""
        given = {**values, "tenant": tenant}
        if len(statements) == 1:  # what is sent together is one transaction
            return self.run(lambda db, _: execute(db, f"{_TENANT};{statements[0]}", given)[1:])
        text = ";".join(["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", _TENANT, *statements, "COMMIT"])
        return self.run(lambda db, _: execute(db, text, given)[2:-1])

    def write(self, tenant: UUID, *statements: str, **values: object) -> list[list[Row]]:
        """As `read`, and changes what they say. A statement that may run twice is the caller's to write."""
        text = ";".join(["BEGIN", _TENANT, *statements, "COMMIT"])
        return self.run(lambda db, _: execute(db, text, {**values, "tenant": tenant})[2:-1])

    def count_migrations(self) -> int:
        """How many migrations the schema has; these belong to no tenant."""
        return int(self.show("SELECT count(*) FROM memdir.migrations"))

    def show(self, statement: str) -> str:
        """The one value of a statement about the server itself, as text."""
        try:
            return str(self.run(lambda db, _: execute(db, statement, {}))[0][0][0])
        except psycopg.Error as error:
            raise SettingsError(str(error).splitlines()[0], key="dsn", hint="run `memdir serve migrate`") from None

    def measure(self) -> dict[str, int]:
        """Figures of the pool of connections."""
        return {key: int(value) for key, value in self._pool.get_stats().items()}

    def run(self, work: "Callable[[psycopg.Connection[Row], bool], T]") -> T:
        """Do some work on a connection, again if it lost to another transaction or the connection was lost; `work` is
        told whether it is the first time. What it leaves open is rolled back."""
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
            except psycopg.DataError:  # such as NUL, which its texts cannot hold
                raise FormatError("this holds a character that cannot be stored", hint="take it out") from None

    @contextmanager
    def transaction(self, tenant: UUID) -> "Iterator[psycopg.Connection[Row]]":
        """A transaction for several steps. It is not repeated: what is lost raises."""
        try:
            with self._pool.connection() as db, db.transaction():
                db.execute(_TENANT, {"tenant": tenant})
                yield db
        except (psycopg.OperationalError, PoolTimeout) as error:
            raise _unavailable(str(error).splitlines()[0] if str(error) else "it is gone") from None


def execute(db: "psycopg.Connection[Row]", text: str, values: Values) -> list[list[Row]]:
    """The rows of every statement of a text, sent as one; a statement that returns none has an empty list."""
    found = []
    cursor = db.execute(text, values)
    while True:
        found.append(cursor.fetchall() if cursor.description else [])
        if not cursor.nextset():
            return found


def _unavailable(words: str) -> DiskError:
    return DiskError(f"the database does not answer: {words}", hint="try again; `memdir serve --check` looks at it")


def run_as_owner(dsn: str) -> "psycopg.Connection[Row]":
    """A connection of its own, for the commands of those who run a server."""
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        raise _unavailable(str(error).splitlines()[0]) from None


def migrate(dsn: str) -> list[str]:
    """Bring the schema up to this version, as the role that owns it; returns the migrations that ran.

    Each runs in a transaction that begins by entering its number: of two that run at once, one waits and then finds it.
    """
    ran = []
    with run_as_owner(dsn) as db:
        table = "number integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now()"
        statements = ["CREATE SCHEMA IF NOT EXISTS memdir", f"CREATE TABLE IF NOT EXISTS memdir.migrations ({table})"]
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (APP_ROLE,)).fetchone():
            statements.append(f"CREATE ROLE {APP_ROLE} LOGIN")
        for statement in statements:
            # Even with IF NOT EXISTS, of two at the same time one may fail.
            with suppress(errors.UniqueViolation, errors.DuplicateObject):
                db.execute(statement)
        done = {number for (number,) in db.execute("SELECT number FROM memdir.migrations")}
        for number, path in list_migrations():
            if number in done:
                continue
            try:
                with db.transaction():
                    db.execute("INSERT INTO memdir.migrations (number, name) VALUES (%s, %s)", (number, path.stem))
                    db.execute(path.read_text(encoding="utf-8").encode())
            except errors.UniqueViolation:
                continue
            ran.append(path.stem)
    return ran


def list_migrations() -> list[tuple[int, Path]]:
    return [(int(path.name[:4]), path) for path in sorted(MIGRATIONS.glob("*.sql"))]


@dataclass(frozen=True, slots=True)
class StoreHead:
    """The row of a store, and how much its organisation has and may have."""

    revision: int
    epoch: int
    items: int
    memories: int
    bytes: int
    all_memories: int
    all_bytes: int
    max_memories: int
    max_bytes: int


# What a client needs to bring a snapshot up to date: the keys of two changes, files written since, files deleted since.
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
# A change is one statement: it counts the revision if the store is as it was planned on, and only then does the rest.
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
    """One store of one tenant. `actor` is who is recorded as the author of its changes; `strict` is for text
    that leaves a person's machine although nobody else reads it."""

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
        self.database, self.tenant, self.store = database, tenant, store
        self.scope, self.clock, self.actor, self.actor_name = scope, clock, actor, actor_name
        self.rules = WriteRules(scope, skip_index, find_secrets, shared, review, strict)
        self._cache = cache or StoreCache()
        self.screen = screen or self.screen
        self._history = PostgresHistory(self.ask)
        self._held: dict[str, StoredMemory] = {}

    # Reading

    def scan(self) -> tuple[Header, ...]:
        snapshot = self._refresh()
        rows = {path: row for path, row in snapshot.files.items() if not is_index_path(path)}
        fields = self._cache.heads
        missing = list({row.digest for row in rows.values()} - fields.keys())
        for start in range(0, len(missing), 1000):
            select = f"SELECT digest, substring(data FROM 1 FOR {HEADER_BYTES}) FROM memdir.contents WHERE {OF_STORE}"
            (found,) = self.ask(f"{select} AND digest = ANY(%(digests)s)", digests=missing[start : start + 1000])
            for digest, data in found:
                self._cache.add_head(digest, parse_fields((data or b"").decode("utf-8", "replace")))
        made = [
            make_header(path.removesuffix(".md"), fields[row.digest], row.signature, self.scope)
            for path, row in rows.items()
            if row.digest in fields
        ]
        return tuple(sorted(made, key=lambda at: (at.modified, at.name), reverse=True))

    def read(self, name: str) -> StoredMemory:
        check_name(name)
        if (found := self._held.get(name)) is not None:
            return found
        (rows,) = self.ask(_READ, paths=[f"{name}.md"])
        if not rows or rows[0][0] is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        data, _, *file = rows[0]
        return make_memory(name, data, FileRow(*file).signature, self.scope)

    @contextmanager
    def holding(self, head: "SearchHead") -> Iterator[Callable[[Iterable[str]], None]]:
        """Read some memories together and keep them until the end, for a search that reads each of them alone. Those
        that are remembered as of `head` are not read again."""

        def hold(names: Iterable[str]) -> None:
            snapshot, kept, wanted = self._cache.snapshot, self._cache.memories, list[str]()
            is_same = (snapshot.revision, snapshot.epoch, snapshot.key) == (head.revision, head.epoch, head.key)
            for name in names:
                row = snapshot.files.get(f"{name}.md") if is_same else None
                found = kept.get(name) if row is not None else None
                if row is not None and found is not None and found.header.signature == row.signature:
                    self._held[name] = found
                else:
                    wanted.append(f"{name}.md")
            (rows,) = self.ask(_READ, paths=wanted) if wanted else ([],)
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
        (rows,) = self.ask(_READ, paths=[path])
        return rows[0][0] if rows else None

    def list_files(self, folder: str) -> list[str]:
        return list_folder(self._refresh(), folder)

    def snapshot(self) -> StoreSnapshot:
        """The files there are now."""
        return self._refresh()

    def read_changed(self, since: int, *, content: bool) -> tuple[StoreHead, list[Row], list[Row]]:
        """The head, then files written after a revision (path, digest, version, actor, time, content), then those
        deleted (path, version, actor, time)."""
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
        head, files, gone = self.ask(_HEAD, written, deleted, since=since)
        return self._make_head(head), files, gone

    def read_head(self) -> StoreHead:
        (rows,) = self.ask(_HEAD)
        return self._make_head(rows)

    def ask(self, *statements: str, **values: object) -> list[list[Row]]:
        return self.database.read(self.tenant, *statements, store=self.store, **values)

    def tell(self, *statements: str, **values: object) -> list[list[Row]]:
        return self.database.write(self.tenant, *statements, store=self.store, **values)

    def read_signers(self, names: Collection[str] = ()) -> Mapping[str, Author]:
        if self.scope is not Scope.TEAM:
            return {}
        steps = self._history.find_last_steps(names)
        people = self._history.find_people(step.id for step in steps.values())
        return {name: make_author(people[step.id], "", step.at) for name, step in steps.items() if step.id in people}

    def recalls(self, name: str | None = None, *, limit: int = -1) -> tuple[Surfacing, ...]:
        select = f"SELECT name, at, query, session, selector, score FROM memdir.recalls WHERE {OF_STORE}"
        where = "" if name is None else " AND name = %(name)s"
        (rows,) = self.ask(f"{select}{where} ORDER BY id DESC LIMIT {render_limit(limit)}", name=name)
        return tuple(Surfacing(*row) for row in rows)

    def count_recalls(self, *, weeks: int = 0, now: datetime | None = None) -> RecallCounts:
        age = "greatest(0, floor(extract(epoch FROM %(now)s - at) / 604800))::int" if weeks else "0"
        select = f"SELECT name, {age}, count(*) FROM memdir.recalls WHERE {OF_STORE} GROUP BY 1, 2"
        (rows,) = self.ask(select, now=now or self.clock())
        return sum_recalls(((name, week, count) for name, week, count in rows), weeks)

    # Writing

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        names = ("id", "at", "name", "query", "session", "selector", "score")
        rows, values = list[str](), dict[str, object]()
        start = time.time_ns()
        for number, at in enumerate(recalls):
            texts = map(clean_text, (at.name, at.query[:LEDGER_QUERY_CHARS], at.session, at.selector))
            row = (f"{start + number:016x}{random.getrandbits(32):08x}", at.at, *texts, at.score)
            values |= {f"{key}{number}": value for key, value in zip(names, row, strict=True)}
            rows.append(f"(%(tenant)s, %(store)s, {', '.join(f'%({key}{number})s' for key in names)})")
        if not rows:
            return
        # Nobody waits for the disk: what a crash takes of the recall log is the last moment's.
        statements = [
            "SELECT set_config('synchronous_commit', 'off', true)",
            f"INSERT INTO memdir.recalls (tenant, store, {', '.join(names)}) VALUES {', '.join(rows)}",
        ]
        if random.random() < len(rows) / 100:  # the oldest go, now and then
            select = f"SELECT id FROM memdir.recalls WHERE {OF_STORE} ORDER BY id DESC OFFSET {LEDGER_ROWS} LIMIT 1"
            statements.append(f"DELETE FROM memdir.recalls WHERE {OF_STORE} AND id <= ({select})")
        self.tell(*statements, **values)

    def redact(self, change: int, path: str) -> None:
        """Remove the content that a change gave a file; who changed what and when stays, with the digests."""
        file = next((at for at in self.read_change(change).files if at.path == path), None)
        if file is None or file.after is None or is_index_path(path):
            raise NotFoundError(f"change {change} gave {path} no content", name=path)
        (rows,) = self.ask(f"SELECT path FROM memdir.files WHERE {OF_STORE} AND digest = %(digest)s", digest=file.after)
        if rows:
            hint = "change or forget it first; what is current cannot be redacted"
            raise ConflictError(f"{rows[0][0]} still has this content", found=file.after, hint=hint)
        lines = f"UPDATE memdir.changed_files SET removed = NULL, inserted = NULL WHERE {OF_STORE}"
        self.tell(
            f"UPDATE memdir.contents SET data = NULL WHERE {OF_STORE} AND digest = %(digest)s",
            # The index line of the memory says what it was about.
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
        return self.database.run(lambda db, is_first: self._commit_once(db, is_first, change, planner))

    def _commit_once(
        self, db: "psycopg.Connection[Row]", is_first: bool, change: "_NewChange", planner: Planner
    ) -> ChangeResult:
        if is_first and self._cache.is_current and (done := self._try_commit(db, change, planner)) is not None:
            return done
        base: dict[str, object] = {"tenant": self.tenant, "store": self.store, **change.values}
        known = f"SELECT min(change) FROM memdir.changes WHERE {OF_STORE}"
        extra = [f"{known} AND mark = %(mark)s"] if change.mark else []
        extra += [] if is_first else [f"{known} AND key = %(key)s"]
        before = self._cache.snapshot
        text = ";".join(["BEGIN", _TENANT, _LOCK, *_SINCE, *extra])
        rows = execute(db, text, {**base, "since": before.revision})
        head = self._make_head(rows[2])
        found = [row[0][0] for row in rows[6:]]
        if not is_first and found.pop() is not None:
            # The answer was lost and not the commit. What it changed is read back from the history.
            db.rollback()
            return self._find_done(change.key)
        if change.mark and found[0] is not None:
            return ChangeResult(found[0], repeated=True)
        snapshot = self._advance(before, head, rows[3:6], lambda: execute(db, ";".join(_SINCE), {**base, "since": 0}))
        self._cache.is_current = snapshot is before
        changes = planner(
            SnapshotView(self._cache, snapshot, lambda paths: execute(db, _READ, {**base, "paths": paths})[0])
        )
        _check_quota(head, *_measure(changes))
        done = self._write(db, ("", "COMMIT"), change, snapshot, changes) if changes else ChangeResult()
        assert done is not None, "the row of the store is locked"
        return done

    def _try_commit(self, db: "psycopg.Connection[Row]", change: "_NewChange", planner: Planner) -> ChangeResult | None:
        """Plan on what is remembered, and send the change in one round trip; None where that was not the newest, or
        would be refused: then it is done under the lock of the store."""
        snapshot = self._cache.snapshot

        def load(paths: Sequence[str]) -> list[Row]:
            values = {"tenant": self.tenant, "store": self.store, "paths": paths}
            return execute(db, f"{_TENANT};{_READ}", values)[1]

        try:
            changes = planner(SnapshotView(self._cache, snapshot, load))
        except MemdirError:
            return None
        done = self._write(db, (_TENANT, ""), change, snapshot, changes) if changes else None
        self._cache.is_current = done is not None
        return done

    def _write(
        self,
        db: "psycopg.Connection[Row]",
        around: tuple[str, str],
        change: "_NewChange",
        snapshot: StoreSnapshot,
        changes: Sequence[FileChange],
    ) -> ChangeResult | None:
        """Record and do what was planned on a snapshot, and commit; None if the store is no longer at its revision. Sent
        `around` it: the tenant, where nothing was begun, so that it is a transaction of its own; else COMMIT."""
        now, number = self.clock(), snapshot.revision + 1
        grown, size = _measure(changes)
        values: dict[str, object] = {"tenant": self.tenant, "store": self.store, **change.values}
        values |= {"since": snapshot.revision, "epoch": snapshot.epoch, "last": snapshot.key, "change": number}
        values |= {"at": now, "memories": grown, "bytes": size, "mtime_ns": int(now.timestamp() * 1e9)}
        count = _COUNT + (_HAS_ROOM if grown > 0 or size > 0 else "") + (_IS_NEW if change.mark else "")
        parts = [f"head AS ({count} RETURNING s.tenant, s.store)", f"change AS ({_ADD_CHANGE})"]
        parts += [f"step{at} AS ({text})" for at, text in enumerate(_write_files(changes, values))]
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
        if self._cache.snapshot is snapshot:  # else others have gone on meanwhile
            self._cache.snapshot = StoreSnapshot(number, snapshot.epoch, change.key, files)
        return ChangeResult(number, tuple(changes))

    def _read_written(self, name: str, done: ChangeResult) -> StoredMemory:
        path, row = f"{name}.md", self._cache.snapshot.files.get(f"{name}.md")
        data = next((at.after for at in done.changes if at.path == path), None)
        if data is None or row is None or row.change != done.change:
            return self.read(name)
        return make_memory(name, data, row.signature, self.scope)

    def _find_done(self, key: UUID) -> ChangeResult:
        (rows,) = self.ask(f"SELECT change FROM memdir.changes WHERE {OF_STORE} AND key = %(key)s", key=key)
        if not rows:
            raise DiskError("a change was recorded and then lost by the database", hint="look at what is there now")
        change = self.read_change(rows[0][0])
        made = []
        for file in change.files:
            if not is_index_path(file.path):
                sides = [None if at is None else self.read_content(at) for at in (file.before, file.after)]
                made.append(FileChange(file.path, *sides))
        return ChangeResult(change.id, tuple(made))

    def _make_head(self, rows: list[Row]) -> StoreHead:
        if not rows:
            raise NotFoundError("this store does not exist", name=str(self.store), hint="GET /v1/stores lists them")
        return StoreHead(*rows[0])

    def _refresh(self) -> StoreSnapshot:
        snapshot = self._cache.snapshot
        head, *rows = self.ask(_HEAD, *_SINCE, since=snapshot.revision)
        return self._advance(snapshot, self._make_head(head), rows, lambda: self.ask(*_SINCE, since=0))

    def _advance(
        self, snapshot: StoreSnapshot, head: StoreHead, rows: list[list[Row]], load: Callable[[], list[list[Row]]]
    ) -> StoreSnapshot:
        """The snapshot with what changed since; loaded whole where it belongs to another past."""
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
            yield PostgresInbox(self.ask)
            return
        with self.database.transaction(self.tenant) as db:
            base = {"tenant": self.tenant, "store": self.store}
            self._make_head(execute(db, _LOCK, base)[0])

            def ask(*statements: str, **values: object) -> list[list[Row]]:
                return execute(db, ";".join(statements), {**base, **values})

            yield PostgresInbox(ask)

    def _purge_name(self, name: str) -> int:
        self._forget_known(name)
        path, lines = f"{name}.md", make_link_ends(name)
        base: dict[str, object] = {"tenant": self.tenant, "store": self.store, "path": path, "name": name}
        with self.database.transaction(self.tenant) as db:

            def ask(*statements: str, **values: object) -> list[list[Row]]:
                return execute(db, ";".join(statements), {**base, **values})

            select = f"SELECT change, before, after FROM memdir.changed_files WHERE {OF_STORE} AND path = %(path)s"
            _, mine, splices, recalls = ask(
                _LOCK,
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
            known = {query for at, query in recalls if at == name}
            queries = find_leading([query for at, query in recalls if at != name], name, known)
            used = (
                f"SELECT 1 FROM memdir.changed_files f WHERE {OF_STORE} AND (f.before = c.digest OR f.after = c.digest)"
            )
            ask(
                f"DELETE FROM memdir.changed_files WHERE {OF_STORE} AND path = %(path)s",
                f"DELETE FROM memdir.contents c WHERE {OF_STORE} AND digest = ANY(%(digests)s) AND NOT EXISTS ({used})",
                f"UPDATE memdir.changes SET why = '' WHERE {OF_STORE} AND change = ANY(%(changes)s)",
                f"DELETE FROM memdir.recalls WHERE {OF_STORE} AND name = %(name)s",
                f"UPDATE memdir.recalls SET query = '' WHERE {OF_STORE} AND query = ANY(%(queries)s)",
                f"DELETE FROM memdir.search WHERE {OF_STORE} AND path = %(path)s",
                # Others may remember a file whose deletion is no longer recorded.
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
    """A change that is about to be made: its key, its mark, and the columns that do not depend on the files."""

    key: UUID
    mark: str
    values: Mapping[str, object]


def _measure(changes: Iterable[FileChange]) -> tuple[int, int]:
    """How many memories and bytes there will be more."""
    grown = sum((at.after is not None) - (at.before is not None) for at in changes if not at.is_index)
    return grown, sum(len(at.after or b"") - len(at.before or b"") for at in changes)


def _write_files(changes: Sequence[FileChange], values: dict[str, object]) -> Iterator[str]:
    """The parts of the statement that record and do what was planned; their values are added to `values`."""
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
            hint = "forget what is of no use any more, or ask who runs the server for more"
            raise BudgetError(f"this organisation may have {most:,} {what}, and has {have:,}", hint=hint)


def create_tenant(dsn: str, name: str, *, tenant: UUID | None = None) -> UUID:
    """Make an organisation, as the owner role; returns its id."""
    made = tenant or uuid4()
    with run_as_owner(dsn) as db, db.transaction():
        db.execute(_TENANT, {"tenant": made})
        for table in ("tenants", "directory"):
            db.execute(f"INSERT INTO memdir.{table} (tenant, name) VALUES (%s, %s)", (made, clean_text(name)))
    return made


def create_store(database: PostgresDatabase, tenant: UUID, name: str, **columns: object) -> UUID:
    """Make an empty store; ConflictError if the organisation has one of this name, BudgetError if it has too many."""
    store = uuid4()
    given: dict[str, object] = {"scope": Scope.TEAM.value, **columns, "store": store, "name": clean_text(name)}
    names, slots = ", ".join(given), ", ".join(f"%({key})s" for key in given)
    count = "SELECT max_stores FROM memdir.tenants WHERE tenant = %(tenant)s"
    (limits, made) = database.read(tenant, count, "SELECT count(*) FROM memdir.stores WHERE tenant = %(tenant)s")
    if limits and made[0][0] >= limits[0][0]:
        raise BudgetError(f"this organisation may have {limits[0][0]:,} stores", hint="delete one that is not used")
    try:
        database.write(tenant, f"INSERT INTO memdir.stores (tenant, {names}) VALUES (%(tenant)s, {slots})", **given)
    except errors.UniqueViolation:
        raise ConflictError(f"there is a store named {name} already", hint="choose another name") from None
    except errors.ForeignKeyViolation:
        raise NotFoundError("there is no such team or organisation", name=name) from None
    return store
