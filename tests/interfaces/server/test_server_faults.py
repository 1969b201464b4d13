"""Load, kills, lost connections, failover and PgBouncer against real clusters: 0 acknowledged changes lost, 0 done twice,
0 torn, 0 in the wrong tenant."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from loads import IS_FULL, ROOT, scaled
from memdir.format.frontmatter import digest_of
from memdir.postgres.database import PostgresDatabase, create_store, create_tenant, migrate
from memdir.postgres.store import PostgresStore
from memdir.records import Draft, Kind
from memdir.store.plan import is_index_path
from memdir.testing import check_store
from pg_writer import SHARED_EVERY
from postgres import Postgres, PostgresCluster, Proxy, cluster, cut_power, free_port

# Writers are threads of processes; in CI of fewer, since a process takes longer to start than to write.
PROCESSES, THREADS, CHANGES = (8, 8, 200) if IS_FULL else (4, 16, 10)
FEW = PROCESSES // 2
DURABLE = {"fsync": "on", "synchronous_commit": "on", "max_connections": "200", "wal_level": "replica"}


class Writers:
    """Processes of writers on one store, and what they said was acknowledged."""

    def __init__(self, dsn: str, tenant: UUID, store: UUID, changes: int, *, processes: int = PROCESSES) -> None:
        self.changes, self.acknowledged = changes, dict[int, int]()
        self._begun = threading.Event()
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        command = [sys.executable, str(ROOT / "tests" / "support" / "pg_writer.py"), dsn, str(tenant), str(store)]
        self.processes = [
            subprocess.Popen([*command, str(at * THREADS), str(THREADS), str(changes)], env=env, stdout=subprocess.PIPE)
            for at in range(processes)
        ]
        self._readers = [threading.Thread(target=self._read, args=(at,)) for at in self.processes]
        for reader in self._readers:
            reader.start()

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            writer, number = map(int, line.split())
            self.acknowledged[writer] = number
            if number >= max(2, self.changes // 4):
                self._begun.set()

    def wait_until_busy(self) -> None:
        assert self._begun.wait(240), "no writer got so far"

    def join(self, *, allowed: tuple[int, ...] = (0,)) -> None:
        for process in self.processes:
            assert process.wait(300) in allowed
        for reader in self._readers:
            reader.join(30)
        for process in self.processes:
            assert process.stdout is not None
            process.stdout.close()


def make_shared(database: PostgresDatabase, tenant: UUID) -> PostgresStore:
    store = PostgresStore(database, tenant, create_store(database, tenant, f"s{time.time_ns()}"))
    store.write(Draft(Kind.PROJECT, "Shared", "Counter that all writers share", "n=0", "shared"))
    return store


def check_whole(store: PostgresStore, writers: Writers, *, killed: bool = False) -> None:
    """Every acknowledged change is there, none twice, and every change is whole."""
    changes = store.changes()
    assert [at.id for at in changes] == list(range(len(changes), 0, -1)) and store.read_head().revision == len(changes)
    times = {f"w{writer}.md": 0 for writer in writers.acknowledged}
    shared = 0
    now: dict[str, str | None] = {}
    for change in reversed(changes):
        for file in change.files:
            assert now.get(file.path) == file.before, f"change {change.id} does not follow what was there"
            now[file.path] = file.after
            if file.path in times:
                times[file.path] += 1
            shared += file.path == "shared.md"
    for writer, number in writers.acknowledged.items():
        body = store.read(f"w{writer}").body
        assert body.startswith(f"n={times[f'w{writer}.md']} "), "the file is what its changes made of it"
        more = times[f"w{writer}.md"] - number
        assert more in ((0, 1) if killed else (0,)), f"writer {writer}: {number} acknowledged, {more} more in the store"
    assert store.read("shared").body.startswith(f"n={shared - 1}"), "no increment of the shared counter was lost"
    if not killed:
        each = writers.changes // SHARED_EVERY
        assert len(writers.acknowledged) == len(writers.processes) * THREADS
        assert shared - 1 == each * len(writers.acknowledged)
    for path, digest in now.items():
        data = store.read_bytes(path)
        assert (None if data is None else digest_of(data)) == digest, path
    files = {path for path, digest in now.items() if digest}
    assert {at.file for at in store.scan()} == {path for path in files if not is_index_path(path)}


@pytest.mark.load
def test_64_writers_on_one_store_beside_200_tenants(postgres: Postgres) -> None:
    tenant = postgres.tenant()
    store = make_shared(postgres.database, tenant)
    others = [postgres.store() for _ in range(scaled(200))]
    writers = Writers(postgres.app, tenant, store._table.store, CHANGES)

    def fill(stores: list[PostgresStore]) -> None:
        for number in range(3):
            for at in stores:
                body = f"of {at._table.tenant}"
                at.write(
                    Draft(Kind.PROJECT, f"Own {number}", "Nightly release checklist of a tenant", body, f"own-{number}")
                )

    threads = [threading.Thread(target=fill, args=(others[at::4],)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    writers.join()
    check_whole(store, writers)
    for at in others:
        assert sorted(header.name for header in at.scan()) == ["own-0", "own-1", "own-2"]
        assert all(f"of {at._table.tenant}" in at.read(f"own-{number}").body for number in range(3))
        assert len(at.changes()) == 3


@contextmanager
def database_of(dsn: str) -> Iterator[PostgresDatabase]:
    made = PostgresDatabase(dsn, size=4, seconds=60.0)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.load
def test_a_killed_database_and_killed_clients_lose_nothing_acknowledged() -> None:
    port = free_port()
    with cluster(DURABLE, port=port) as server:
        owner, app = server.create()
        migrate(owner)
        tenant = create_tenant(owner, "o")
        with database_of(app) as database:
            store = make_shared(database, tenant)
            writers = Writers(app, tenant, store._table.store, CHANGES, processes=FEW)
            writers.wait_until_busy()
            writers.processes[0].kill()
            cut_power(server)
            server.start()
            writers.join(allowed=(0, -signal.SIGKILL))
            check_whole(store, writers, killed=True)


@pytest.mark.load
def test_connections_lost_in_the_middle_of_commits(postgres: Postgres) -> None:
    tenant = postgres.tenant()
    store = make_shared(postgres.database, tenant)
    count = iter(range(10**9))

    def cut(data: bytes) -> str:
        if b"INSERT INTO memdir.changes" not in data:
            return ""
        return {5: "before", 11: "after"}.get(next(count) % 13, "")

    proxy = Proxy(postgres.app, cut)
    writers = Writers(proxy.dsn(postgres.app), tenant, store._table.store, CHANGES, processes=2)
    writers.join()
    check_whole(store, writers)
    assert proxy.cuts > CHANGES
    proxy.close()


@pytest.mark.load
def test_failover_to_a_synchronous_standby_loses_nothing_acknowledged() -> None:
    ports = free_port(), free_port()
    primary_settings = {**DURABLE, "synchronous_standby_names": "*", "max_wal_senders": "4", "hot_standby": "on"}
    with cluster(DURABLE, port=ports[0]) as primary, tempfile.TemporaryDirectory(prefix="memdir-standby-") as folder:
        owner, app = primary.create()
        migrate(owner)
        tenant = create_tenant(owner, "o")
        Path(folder).chmod(0o755)
        standby = PostgresCluster(Path(folder) / "pg", port=ports[1], settings=DURABLE)
        standby.folder.mkdir(mode=0o700)
        standby._give(standby.folder)
        source = primary.dsn().replace(" connect_timeout=10", "")
        standby.run("pg_basebackup", "-d", source, "-D", str(standby.data), "-R", "-X", "stream", "-c", "fast")
        try:
            standby.start()
            with psycopg.connect(primary.dsn(), autocommit=True) as db:
                for name in ("synchronous_standby_names",):
                    db.execute(f"ALTER SYSTEM SET {name} = '{primary_settings[name]}'")
                db.execute("SELECT pg_reload_conf()")
                until = time.monotonic() + 60
                while (
                    time.monotonic() < until
                    and not db.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone()
                ):
                    threading.Event().wait(0.05)
                assert db.execute("SELECT sync_state FROM pg_stat_replication").fetchone() == ("sync",)
            both = (
                f"host=127.0.0.1,127.0.0.1 port={ports[0]},{ports[1]} target_session_attrs=read-write connect_timeout=5"
            )
            dsn = both + " " + " ".join(part for part in app.split() if part.startswith(("user=", "dbname=")))
            with database_of(dsn) as database:
                store = make_shared(database, tenant)
                writers = Writers(dsn, tenant, store._table.store, CHANGES, processes=FEW)
                writers.wait_until_busy()
                cut_power(primary)
                standby.run("pg_ctl", "-D", str(standby.data), "-w", "promote")
                writers.join()
                check_whole(store, writers)
        finally:
            standby.stop()


@pytest.mark.load
def test_behind_pgbouncer_with_transaction_pooling(postgres: Postgres, tmp_path: Path) -> None:
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer absent: apt-get install pgbouncer")
    given = psycopg.conninfo.conninfo_to_dict(postgres.app)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="memdir-bouncer-") as folder:
        Path(folder).chmod(0o777)
        users = Path(folder) / "users.txt"
        users.write_text('"memdir_app" ""\n', encoding="utf-8")
        config = Path(folder) / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n* = host={given['host']} port={given['port']}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
            f"unix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = transaction\ndefault_pool_size = 6\n"
            "max_client_conn = 200\nignore_startup_parameters = extra_float_digits\n",
            encoding="utf-8",
        )
        user = {"user": "postgres"} if os.geteuid() == 0 else {}
        log = (Path(folder) / "log").open("wb")
        bouncer = subprocess.Popen([program, str(config)], stdout=log, stderr=log, **user)  # type: ignore[call-overload]
        try:
            dsn = f"host=127.0.0.1 port={port} user={given['user']} dbname={given['dbname']} sslmode=disable"
            with database_of(dsn) as database:
                tenant = postgres.tenant()
                number = iter(range(1000))
                check_store(lambda: PostgresStore(database, tenant, create_store(database, tenant, f"c{next(number)}")))
                store = make_shared(database, tenant)
                writers = Writers(dsn, tenant, store._table.store, CHANGES, processes=FEW)
                writers.join()
                check_whole(store, writers)
        finally:
            bouncer.terminate()
            bouncer.wait(30)
            log.close()
