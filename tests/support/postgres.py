"""A real PostgreSQL for tests: one cluster a process, made on first use; every test has tenants of its own.

MEMDIR_TEST_PG=DSN uses another server, where the DSN's role may create roles and databases, and that has a superuser
`postgres`: the whole suite then runs there.

`initdb` runs once a test session, whatever the number of processes and clusters: each cluster begins with a copy of what it made.
"""

import fcntl
import os
import select
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memdir.interfaces.server.cluster import PostgresCluster
from memdir.postgres.database import APP_ROLE, PostgresDatabase, create_store, create_tenant, migrate
from memdir.postgres.store import PostgresStore

GIVEN = os.environ.get("MEMDIR_TEST_PG", "")
SHARED = os.environ.get("MEMDIR_TEST_SHARED", "")  # a folder of this session, for all of its processes
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


class Postgres:
    """A database with the schema, as its owner and as the application."""

    def __init__(self, owner: str, app: str) -> None:
        self.owner, self.app = owner, app
        migrate(owner)
        self.database = PostgresDatabase(app, size=8)

    @property
    def admin(self) -> str:
        """As one who sees every row and may make databases."""
        return make_conninfo(self.owner, user="postgres")

    def tenant(self, name: str = "organisation") -> UUID:
        return create_tenant(self.owner, name)

    def store(self, tenant: UUID | None = None, **options: Any) -> PostgresStore:
        tenant = tenant or self.tenant()
        return PostgresStore(self.database, tenant, create_store(self.database, tenant, f"s{uuid4()}"), **options)

    def dump(self, tenant: UUID) -> str:
        """Every row of a tenant in every table, as text."""
        found = []
        with psycopg.connect(self.owner) as db:
            db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
            for (table,) in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'memdir'").fetchall():
                if table not in ("migrations", "server", "directory", "queue", "logins"):
                    rows = db.execute(f"SELECT * FROM memdir.{table}").fetchall()
                    found += [
                        " ".join(
                            bytes(at).decode("utf-8", "replace") if isinstance(at, bytes) else str(at) for at in row
                        )
                        for row in rows
                    ]
        return "\n".join(found)


@contextmanager
def open_postgres() -> Iterator[Postgres]:
    if GIVEN:
        name = f"memdir_test_{uuid4().hex[:8]}"
        with psycopg.connect(GIVEN, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
            try:
                yield from _use(
                    Postgres(make_conninfo(GIVEN, dbname=name), make_conninfo(GIVEN, dbname=name, user=APP_ROLE))
                )
            finally:
                db.execute(f"DROP DATABASE {name}")
        return
    with cluster(FAST) as started:
        yield from _use(Postgres(*started.create()))


def _use(found: Postgres) -> Iterator[Postgres]:
    try:
        yield found
    finally:
        found.database.close()


@contextmanager
def cluster(settings: dict[str, str], *, port: int = 0) -> Iterator[PostgresCluster]:
    """A cluster of the test's own, in a folder that its user can enter."""
    with tempfile.TemporaryDirectory(prefix="memdir-cluster-") as folder:
        Path(folder).chmod(0o755)
        made = PostgresCluster(Path(folder) / "pg", port=port, settings=settings)
        try:
            if SHARED:
                _copy_fresh(made)
            made.start()
            yield made
        finally:
            made.stop()


def cut_power(server: PostgresCluster) -> None:
    """Kill a cluster with its children, which share a session, as a power cut does."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            session = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[3])
            if server.pid in (session, int(stat.parent.name)):
                os.kill(int(stat.parent.name), signal.SIGKILL)
    server.stop()


def _copy_fresh(made: PostgresCluster) -> None:
    """Lay the data of a fresh cluster into this one, which is then not made by initdb."""
    with (Path(SHARED) / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = PostgresCluster(Path(SHARED) / "pg")
        if not (Path(SHARED) / "made").exists():
            fresh.init()
            (Path(SHARED) / "made").touch()
    made.folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(fresh.data, made.data)
    made._give(made.folder)
    made.data.chmod(0o700)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Proxy:
    """A port that leads to a database. When `cut` says so of what a client sent, both connections are dropped: "before" it
    is passed on, or "after" the database has answered it."""

    def __init__(self, target: str, cut: Callable[[bytes], str] = lambda data: "") -> None:
        self._target, self.cut = target, cut
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def dsn(self, dsn: str) -> str:
        return make_conninfo(dsn, host="127.0.0.1", port=self.port, sslmode="disable", gssencmode="disable")

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        given = conninfo_to_dict(self._target)
        host, port = str(given["host"]), int(str(given["port"]))
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
        else:
            server = socket.create_connection((host, port))
        with client, server, suppress(OSError):
            is_last = False  # drop the answer: what was asked travels in several parts
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if server in ready:
                    data = server.recv(65536)
                    if is_last:
                        self.cuts += 1
                        return
                    client.sendall(data)
                    if not data:
                        return
                if client in ready:
                    data = client.recv(1 << 20)
                    how = self.cut(data)
                    if not data or how == "before":
                        self.cuts += bool(data)
                        return
                    server.sendall(data)
                    is_last = is_last or how == "after"
