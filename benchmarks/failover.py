"""Kill the primary of a Patroni cluster again and again while clients write through two servers behind a proxy.

    python benchmarks/failover.py [--kills 10] [--writers 8]

Needs Debian's `patroni`, `etcd-server` and PostgreSQL. Three nodes of etcd and three of Patroni with a synchronous standby run on
loopback; a kill ends the Patroni and the PostgreSQL of the primary with SIGKILL, as a power cut does, and the node comes back later.
Each writer changes its own memory again and again by compare-and-swap and sends a request until it is answered, with one
idempotency key. At the end every acknowledged change is in the history once. The time until the first write is counted from the moment
at which a node says that it is the primary.
"""

import argparse
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import yaml

from memdir.format.frontmatter import digest_of
from memdir.interfaces.server.access import create_token
from memdir.postgres.database import PostgresDatabase, create_store, create_tenant, migrate
from memdir.store.contract import utc_now

ROOT = Path(__file__).parent.parent
BIN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
TEXT = "---\nname: Writer {0}\ndescription: Counter that writer {0} changes\ntype: project\n---\nn={1} end\n"


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [made.getsockname()[1] for made in sockets]


class Cluster:
    """Three nodes of etcd, and three of Patroni, whose processes share a session each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.user = folder, pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        ports = free_ports(12)
        self.peers, self.clients, self.rest, self.pg = ports[:3], ports[3:6], ports[6:9], ports[9:]
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.etcd = [self._start_etcd(number) for number in range(3)]
        for number in range(3):
            self.start(number)

    def _run(self, name: str, *command: object, **more: Any) -> "subprocess.Popen[bytes]":
        user = {} if self.user is None else {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            options: dict[str, Any] = {
                "stdout": log,
                "stderr": log,
                "start_new_session": True,
                "cwd": "/",
                **user,
                **more,
            }
            made: subprocess.Popen[bytes] = subprocess.Popen(list(map(str, command)), **options)
            return made

    def _start_etcd(self, number: int) -> "subprocess.Popen[bytes]":
        everybody = ",".join(f"e{at}=http://127.0.0.1:{port}" for at, port in enumerate(self.peers))
        peer, client = (f"http://127.0.0.1:{ports[number]}" for ports in (self.peers, self.clients))
        options = {
            "name": f"e{number}", "data-dir": self.folder / f"e{number}", "initial-cluster": everybody, "log-level": "error",
            "listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "listen-client-urls": client, "advertise-client-urls": client,
        }  # fmt: skip
        return self._run(f"etcd{number}", "etcd", *(f"--{name}={value}" for name, value in options.items()))

    def start(self, number: int) -> None:
        address = f"127.0.0.1:{self.pg[number]}"
        config = {
            "scope": "memdir", "name": f"n{number}",
            "restapi": {"listen": f"127.0.0.1:{self.rest[number]}", "connect_address": f"127.0.0.1:{self.rest[number]}"},
            "etcd3": {"hosts": [f"127.0.0.1:{port}" for port in self.clients]},
            "bootstrap": {
                "dcs": {"ttl": 20, "loop_wait": 2, "retry_timeout": 5, "synchronous_mode": True, "postgresql": {
                    "use_pg_rewind": True, "parameters": {"synchronous_commit": "on", "max_connections": 100, "wal_log_hints": "on"}}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": address, "connect_address": address, "data_dir": str(self.folder / f"n{number}"), "bin_dir": str(BIN),
                "pgpass": str(self.folder / f"pgpass{number}"), "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
                "authentication": {name: {"username": name} for name in ("superuser", "replication", "rewind")}
                | {"superuser": {"username": "postgres"}},
            },
        }  # fmt: skip
        path = self.folder / f"n{number}.yml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        path.chmod(0o644)
        self.nodes[number] = self._run(f"patroni{number}", "patroni", path)

    def find_primary(self) -> int | None:
        for number, port in enumerate(self.rest):
            if self._ask(port, "/primary") is not None:
                return number
        return None

    def _ask(self, port: int, path: str) -> Any:
        """Return the JSON that a node's Patroni answers, or None without a good answer."""
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            data = json.loads(answer.read())
            return data if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            link.close()

    def wait(self, *, members: int, seconds: float = 240) -> int:
        """Wait until there is a primary with a synchronous standby, and `members` standbys follow it."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (number := self.find_primary()) is not None:
                # The standby that etcd names as synchronous: only this one may take over.
                known = (self._ask(self.rest[number], "/cluster") or {}).get("members", [])
                if "sync_standby" in [row["role"] for row in known]:
                    with suppress(psycopg.Error), psycopg.connect(self.dsn(number), connect_timeout=2) as db:
                        rows = db.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").fetchall()
                        if len(rows) >= members:
                            return number
            time.sleep(0.2)
        raise TimeoutError("the cluster is not whole: see " + str(self.folder))

    def dsn(self, number: int, user: str = "postgres", database: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.pg[number]} user={user} dbname={database}"

    def kill(self, number: int) -> None:
        """End Patroni and PostgreSQL of a node at once. PostgreSQL's server process begins a session of its own."""
        victims = {self.nodes[number].pid}
        with suppress(OSError):
            victims.add(int((self.folder / f"n{number}" / "postmaster.pid").read_text(encoding="utf-8").split()[0]))
        for pid in find_family(victims):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.nodes[number].wait(30)

    def stop(self) -> None:
        for number in self.nodes:
            self.kill(number)
        for node in self.etcd:
            node.kill()
            node.wait(30)


def find_family(parents: set[int]) -> list[int]:
    """Return processes with their children, of any depth."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            children.setdefault(int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1]), []).append(
                int(stat.parent.name)
            )
    family, left = list[int](), list(parents)
    while left:
        family.append(left.pop())
        left += children.get(family[-1], [])
    return family


class Balancer:
    """A proxy that passes connections to the servers in turn, and to another one if a server cannot be reached."""

    def __init__(self, ports: list[int]) -> None:
        self.ports, self._socket = ports, socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        number = 0
        while True:
            client, _ = self._socket.accept()
            number += 1
            for port in (self.ports[number % 2], self.ports[(number + 1) % 2]):
                with suppress(OSError):
                    server = socket.create_connection(("127.0.0.1", port), timeout=5)
                    server.settimeout(None)
                    for pair in ((client, server), (server, client)):
                        threading.Thread(target=_pump, args=pair, daemon=True).start()
                    break


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
            end.close()


class Writer(threading.Thread):
    def __init__(self, port: int, token: str, number: int) -> None:
        super().__init__(daemon=True)
        self.port, self.token, self.name = port, token, f"w{number}"
        self.number, self.count, self.times = number, 0, list[float]()
        self.statuses: Counter[object] = Counter()
        self.is_over = False

    def run(self) -> None:
        seen = None
        while not self.is_over:
            text = TEXT.format(self.number, self.count + 1)
            body, key = json.dumps({"content": text, "content_sha256": seen}), uuid4().hex
            while True:
                status = self.send(body, key)
                self.statuses[status] += 1
                if status in (200, 201):
                    break
                time.sleep(0.1)
            seen, self.count = digest_of(text.encode()), self.count + 1
            self.times.append(time.monotonic())

    def send(self, body: str, key: str) -> object:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "Idempotency-Key": key}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            link.request("PUT", f"/v1/stores/main/memories/{self.name}", body, headers)
            answer = link.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            link.close()


def start_server(dsn: str) -> "tuple[subprocess.Popen[str], int]":
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "memdir", "serve", "--port", "0", "--dsn", dsn]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, encoding="utf-8")
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(":")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--writers", type=int, default=8)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="memdir-patroni-"))
    folder.chmod(0o777)
    servers = []
    cluster = Cluster(folder)
    try:
        primary = cluster.wait(members=2)
        with psycopg.connect(cluster.dsn(primary), autocommit=True) as db:
            db.execute("CREATE ROLE memdir_owner LOGIN")
            db.execute("CREATE ROLE memdir_app LOGIN")
            db.execute("CREATE DATABASE memdir OWNER memdir_owner")
        owner = cluster.dsn(primary, "memdir_owner", "memdir")
        migrate(owner)
        tenant = create_tenant(owner, "failover")
        with psycopg.connect(owner) as db:
            db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
            db.execute("UPDATE memdir.tenants SET max_requests = 10000000")
        ports = ",".join(map(str, cluster.pg))
        dsn = f"host=127.0.0.1,127.0.0.1,127.0.0.1 port={ports} target_session_attrs=read-write connect_timeout=2 user=memdir_app dbname=memdir"
        database = PostgresDatabase(dsn, size=2)
        store = create_store(database, tenant, "main")
        _, token, _ = create_token(database, tenant, name="failover", access="admin", now=utc_now())
        servers = [start_server(dsn) for _ in range(2)]
        balancer = Balancer([port for _, port in servers])
        writers = [Writer(balancer.port, token, number) for number in range(options.writers)]
        for writer in writers:
            writer.start()
        waits = []
        for number in range(options.kills):
            time.sleep(3)
            primary, start = cluster.wait(members=2), time.monotonic()
            cluster.kill(primary)
            while (fresh := cluster.find_primary()) in (None, primary):
                time.sleep(0.02)
            elected = time.monotonic()
            while not any(at > elected for writer in writers for at in writer.times[-1:]):
                time.sleep(0.005)
            first = min(at for writer in writers for at in writer.times[-20:] if at > start + 1)
            waits.append(max(0.0, first - elected))
            print(
                f"kill {number + 1}: n{primary} to n{fresh}, elected after {elected - start:.1f} s, first write {first - elected:+.2f} s",
                flush=True,
            )
            cluster.start(primary)
        for writer in writers:
            writer.is_over = True
        for writer in writers:
            writer.join(120)
        cluster.wait(members=2)
        lost = doubled = 0
        select = "SELECT count(*) FROM memdir.changed_files WHERE tenant = %(tenant)s AND store = %(store)s AND path = %(path)s"
        text = (
            "SELECT c.data FROM memdir.files f JOIN memdir.contents c USING (tenant, store, digest)"
            " WHERE tenant = %(tenant)s AND store = %(store)s AND path = %(path)s"
        )
        for writer in writers:
            counts, texts = database.read(tenant, select, text, store=store, path=f"{writer.name}.md")
            made, last = counts[0][0], int(re.findall(rb"n=(\d+)", bytes(texts[0][0]))[0])
            lost += max(0, writer.count - made) + max(0, writer.count - last)
            doubled += max(0, made - writer.count)
        statuses: Counter[object] = sum((writer.statuses for writer in writers), Counter())
        print(
            f"{sum(writer.count for writer in writers)} acknowledged, {lost} lost, {doubled} doubled; answers {dict(statuses)}"
        )
        print(f"first write after election: median {sorted(waits)[len(waits) // 2]:.2f} s, worst {max(waits):.2f} s")
        database.close()
    finally:
        for process, _ in servers:
            process.kill()
            process.wait(30)
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
