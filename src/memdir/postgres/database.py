"""Connections to PostgreSQL, transactions of one tenant, and migrations.

Several statements are sent in one round trip (pipeline mode) and form one transaction, which first sets its tenant and
its time limits. They are prepared, except behind a pooler such as PgBouncer, where the next transaction may use another
connection. Row-level security applies to every statement (`migrations/0003_rows.sql`).
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

from memdir.errors import (
    BudgetError,
    ConflictError,
    DiskError,
    FormatError,
    LockedError,
    NotFoundError,
    SettingsError,
    hint_extra,
)
from memdir.format.frontmatter import decode
from memdir.format.index import INDEX_FILE, parse_index
from memdir.records import Scope
from memdir.store.plan import is_index_path
from memdir.text import fold, replace_surrogates

try:
    import psycopg
    from psycopg import errors
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError:
    _PROBLEM = "the server needs psycopg, which is not installed"
    raise SettingsError(_PROBLEM, hint=hint_extra("server")) from None

Row = tuple[Any, ...]
MIGRATIONS = Path(__file__).with_name("migrations")
APP_ROLE = "memdir_app"
SET_TENANT = "SELECT set_config('app.tenant', %(tenant)s::text, true)"
_TIMES = {"statement_timeout": "10s", "lock_timeout": "5s", "idle_in_transaction_session_timeout": "10s"}
_TENANT = f"{SET_TENANT}, " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _TIMES.items())
_RETRIED = frozenset({"40001", "40P01", "26000"})  # serialisation failure, deadlock, not prepared: nothing was written
# The connection or the server went away, or it is a standby: whether the commit happened is unknown.
_LOST = frozenset({"57P01", "57P02", "57P03", "25006", "08000", "08003", "08006", "08001", "08004", "08P01"})
_FULL = frozenset({"53100", "53200", "53400", "58030"})  # disk full, memory, configuration limit, I/O error
_SLOW = frozenset({"57014", "55P03", "25P03"})  # statement, lock and idle time-outs
_TRIES = 12
_RECONNECT_SECONDS = 30.0  # a failover takes seconds
_WAIT_SECONDS = 0.5  # for a connection, before the next attempt, so that the end of an outage is noticed soon
_FULL_DISK, _FULL_SECONDS = "the database has no room to write", 10.0
T = TypeVar("T")


class PostgresDatabase:
    """Connections to one database as the application role. Each statement runs in a transaction of one tenant."""

    def __init__(self, dsn: str, *, size: int = 8, seconds: float = _RECONNECT_SECONDS) -> None:
        self.dsn, self.size, self.seconds = dsn, size, seconds
        self.write_problem = (
            ""  # why the last write failed, if the database is at fault; "" after a write that succeeded
        )
        self._full_until = 0.0
        self.notify: Callable[[], None] = lambda: None  # called after a change, for an indexer in this process
        logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # errors are raised to the caller
        kwargs = {"connect_timeout": 3, **psycopg.conninfo.conninfo_to_dict(dsn), "autocommit": True}
        self._pool = ConnectionPool(
            kwargs=kwargs, min_size=1, max_size=size, open=False, reconnect_timeout=0.0, configure=_configure
        )
        self._pool.open()

    def close(self) -> None:
        self._pool.close()

    def read(self, tenant: UUID, *statements: str, **values: object) -> list[list[Row]]:
        """Run statements in one round trip, several on one database snapshot, and return the rows of each."""
        if len(statements) == 1:
            return self.write(tenant, *statements, **values)
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return self.run(
            lambda db, _: execute(db, begin, _find_start(db), *statements, "COMMIT", **values, tenant=tenant)
        )[2:-1]

    def write(self, tenant: UUID, *statements: str, **values: object) -> list[list[Row]]:
        """Run statements as one transaction. They may run twice, so they must be repeatable."""
        return self.run(lambda db, _: self.ask_on(db, *statements, **values, tenant=tenant))

    def ask_on(self, db: "psycopg.Connection[Row]", *statements: str, **values: object) -> list[list[Row]]:
        """Run statements as one transaction on the connection that `run` passes to its function."""
        return execute(db, _find_start(db), *statements, **values)[1:]

    def count_migrations(self) -> int:
        return int(self.show("SELECT count(*) FROM memdir.migrations"))

    def show(self, statement: str) -> str:
        """Return the single value of a statement about the server, as text."""
        try:
            return str(self.run(lambda db, _: execute(db, statement))[0][0][0])
        except psycopg.Error as error:
            raise SettingsError(str(error).splitlines()[0], key="dsn", hint="run `memdir serve migrate`") from None

    def find_write_problem(self) -> str:
        """Return why the database cannot be written, or "". A full disk is reported for some seconds."""
        lag = "coalesce(extract(epoch FROM now() - pg_last_xact_replay_timestamp())::int, 0)"
        if (behind := self.show(f"SELECT CASE WHEN pg_is_in_recovery() THEN {lag} ELSE -1 END")) != "-1":
            return f"the database is a standby, {behind} seconds behind"
        return _FULL_DISK if time.monotonic() < self._full_until else ""

    def measure(self) -> dict[str, int]:
        return {key: int(value) for key, value in self._pool.get_stats().items()}

    def run(self, work: "Callable[[psycopg.Connection[Row], bool], T]") -> T:
        """Run `work` on a connection, and retry after a serialisation failure or a lost connection. Its second
        argument tells whether this is the first attempt. An open transaction is rolled back."""
        tries, until = 0, time.monotonic() + self.seconds
        while True:
            try:
                with self._pool.connection(timeout=min(_WAIT_SECONDS, self.seconds)) as db:
                    try:
                        return work(db, tries == 0)
                    finally:
                        if not db.closed and db.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                            db.rollback()
            except PoolTimeout:
                if time.monotonic() > until:
                    raise _make_unavailable_error("no connection within the time limit") from None
            except (psycopg.OperationalError, errors.InvalidSqlStatementName) as error:
                tries += 1
                is_lost = error.sqlstate is None or error.sqlstate in _LOST
                if not (is_lost or error.sqlstate in _RETRIED):
                    raise self._explain(error) from None
                if time.monotonic() > until or (not is_lost and tries >= _TRIES):
                    raise _make_unavailable_error(str(error).splitlines()[0]) from None
                if is_lost:
                    self._pool.check()
                time.sleep(random.uniform(0, min(0.01 * 2**tries, 0.5)))
            except psycopg.DataError:  # such as NUL, which PostgreSQL cannot store
                raise FormatError("this contains a character that cannot be stored", hint="remove it") from None

    @contextmanager
    def transaction(self, tenant: UUID) -> "Iterator[psycopg.Connection[Row]]":
        """Open a transaction for several steps. It is not retried: a lost connection raises an error."""
        try:
            with self._pool.connection(timeout=self.seconds) as db, db.transaction():
                db.execute(_find_start(db), {"tenant": tenant})
                yield db
        except PoolTimeout:
            raise _make_unavailable_error("no connection within the time limit") from None
        except psycopg.OperationalError as error:
            raise self._explain(error) from None

    def _explain(self, error: psycopg.Error) -> DiskError | LockedError:
        """Return the error for callers, without paths and addresses of the database."""
        if error.sqlstate in _FULL:
            self._full_until = time.monotonic() + _FULL_SECONDS
            return DiskError(_FULL_DISK, hint="memories can be read; the server's administrator frees space")
        if error.sqlstate in _SLOW:
            return LockedError("this took longer than the server allows", hint="try again, or ask for less")
        return _make_unavailable_error(str(error).splitlines()[0] if str(error) else "connection lost")


def _configure(db: "psycopg.Connection[Row]") -> None:
    """Prepare statements and set time limits unless a pooler is in between, which reports other process IDs than the server."""
    row = db.execute("SELECT pg_backend_pid()").fetchone()
    db.prepare_threshold = 3 if row == (db.info.backend_pid,) else None
    if db.prepare_threshold is not None:
        for setting in _TIMES.items():
            db.execute("SELECT set_config(%s, %s, false)", setting)


def _find_start(db: "psycopg.Connection[Row]") -> str:
    """Return the first statement of a transaction: behind a pooler, the time limits are not those of the connection."""
    return _TENANT if db.prepare_threshold is None else SET_TENANT


def execute(db: "psycopg.Connection[Row]", *statements: str, **values: object) -> list[list[Row]]:
    """Send several statements in one round trip, and return a list of rows for each statement."""
    is_open = db.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
    try:
        with db.pipeline():
            cursors = [db.execute(statement, values, prepare=False if is_open else None) for statement in statements]
    except psycopg.Error:
        if not is_open and not db.closed:
            db.rollback()
            _forget_prepared(db)
        raise
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _forget_prepared(db: "psycopg.Connection[Row]") -> None:
    """Drop all prepared statements: those after a failed statement were not prepared, which psycopg does not notice."""
    if db.prepare_threshold is not None:
        db.execute("DEALLOCATE ALL", prepare=False)
        db._prepared.clear()
        db._prepared._to_flush.clear()


def clean_text(text: str) -> str:
    """Return text that PostgreSQL can store."""
    return replace_surrogates(text).replace("\0", "\ufffd")


def _make_unavailable_error(reason: str) -> DiskError:
    return DiskError(f"the database is not responding: {reason}", hint="try again; `memdir serve --check` tests it")


def run_as_owner(dsn: str) -> "psycopg.Connection[Row]":
    """Open a separate connection for administrative commands."""
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        raise _make_unavailable_error(str(error).splitlines()[0]) from None


def migrate(dsn: str, *, until: int | None = None) -> list[str]:
    """Migrate the schema to this version or up to a number, as its owner role; return the migrations that ran.

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
            if number in known or (until is not None and number > until):
                continue
            try:
                with db.transaction():
                    db.execute("INSERT INTO memdir.migrations (number, name) VALUES (%s, %s)", (number, path.stem))
                    db.execute(path.read_text(encoding="utf-8").encode())
                    if number == _LINES_SINCE:
                        _fill_lines(db)
            except errors.UniqueViolation:
                continue
            names.append(path.stem)
    return names


def list_migrations() -> list[tuple[int, Path]]:
    return [(int(path.name[:4]), path) for path in sorted(MIGRATIONS.glob("*.sql"))]


_LINES_SINCE = 7
_ADD_PROSE = "INSERT INTO memdir.prose (tenant, store, path, rank, line) VALUES (%s, %s, %s, %s, %s)"
_SET_LINES = """
    UPDATE memdir.files f SET folded = v.folded, line = v.line, rank = v.rank
    FROM unnest(%(paths)s::text[], %(folded)s::text[], %(lines)s::text[], %(ranks)s::float[]) AS v(path, folded, line, rank)
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = v.path
"""


def _fill_lines(db: "psycopg.Connection[Row]") -> None:
    """Split every stored MEMORY.md into the lines of memories and prose, so that it is rendered byte for byte."""
    for (tenant,) in db.execute("SELECT tenant FROM memdir.directory").fetchall():
        db.execute(SET_TENANT, {"tenant": tenant})
        for (store,) in db.execute("SELECT store FROM memdir.stores WHERE tenant = %s", (tenant,)).fetchall():
            own = {"tenant": tenant, "store": store}
            of_store = "tenant = %(tenant)s AND store = %(store)s"
            rows = db.execute(f"SELECT path, data FROM memdir.files WHERE {of_store}", own).fetchall()
            memories, placed = [path for path, _ in rows if not is_index_path(path)], dict[str, tuple[str, float]]()
            for path, data in rows:
                if is_index_path(path):
                    lines, prose = split_index(path, decode(bytes(data)), memories)
                    placed |= lines
                    with db.cursor() as cursor:
                        cursor.executemany(_ADD_PROSE, [(tenant, store, path, *line) for line in prose])
            db.execute(
                f"DELETE FROM memdir.files WHERE {of_store} AND (path = '{INDEX_FILE}' OR path LIKE '%%/{INDEX_FILE}')",
                own,
            )
            values = {"paths": memories, "folded": [fold(path) for path in memories]}
            values |= {
                key: [placed.get(path, ("", 0.0))[at] for path in memories] for at, key in enumerate(("lines", "ranks"))
            }
            db.execute(_SET_LINES, own | values)
            size = f"SELECT coalesce(sum(size), 0) FROM memdir.files WHERE {of_store}"
            db.execute(f"UPDATE memdir.stores SET bytes = ({size}), epoch = epoch + 1 WHERE {of_store}", own)
            queue = "INSERT INTO memdir.queue (tenant, store, revision) SELECT tenant, store, revision"
            db.execute(f"{queue} FROM memdir.stores WHERE {of_store} AND revision > 0", own)


def split_index(
    path: str, text: str, memories: "Iterator[str] | list[str]"
) -> tuple[dict[str, tuple[str, float]], list[tuple[float, str]]]:
    """Return the line and rank of each memory in an index, and its other lines with their ranks, which are below 1."""
    folder = path.removesuffix(INDEX_FILE)
    known = {fold(memory.removesuffix(".md")): memory for memory in memories}
    lines, prose = dict[str, tuple[str, float]](), list[tuple[float, str]]()
    parsed = parse_index(text)
    for number, entry in enumerate(parsed, 1):
        rank, line = number / (len(parsed) + 1), clean_text(entry.text.rstrip("\r\n"))
        memory = known.get(f"{fold(folder)}{entry.key}") if entry.is_pointer else None
        if memory is None or memory in lines:
            prose.append((rank, line))
        else:
            lines[memory] = line, rank
    return lines, prose


def create_tenant(dsn: str, name: str, *, tenant: UUID | None = None) -> UUID:
    """Create an organisation, as the owner role; return its ID."""
    id = tenant or uuid4()
    with run_as_owner(dsn) as db, db.transaction():
        db.execute(SET_TENANT, {"tenant": id})
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
        insert = f"INSERT INTO memdir.stores (tenant, {names}) VALUES (%(tenant)s, {slots})"
        upkeep = "INSERT INTO memdir.upkeep (tenant) VALUES (%(tenant)s) ON CONFLICT DO NOTHING"
        database.write(tenant, insert, upkeep, **row)
    except errors.UniqueViolation:
        raise ConflictError(f"a store named {name} already exists", hint="choose another name") from None
    except errors.ForeignKeyViolation:
        raise NotFoundError("team or organisation not found", name=name) from None
    return store
