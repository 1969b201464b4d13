"""The store in PostgreSQL under load, in one run: beside bare psycopg doing the same statements, beside LangGraph's
PostgresStore, and with 10 and many tenants.

    python benchmarks/server.py [--tenants 10000] [--memories 100] [--rounds 300] [--dsn OWNER_DSN]

Each figure is of one connection; rounds of the contenders alternate, so that a busy machine slows all of them. Beside the time
stands the processor time, of this process and of the database's together, which other work on the machine does not change. Without a
DSN it starts a PostgreSQL of its own with durable commits.

LangGraph's store is opened as its `from_conn_string` does. Its search returns the newest rows of a namespace, whatever the question
is, unless it is given an embedding model. `langgraph+vec` has one: the mean of the word vectors that come with memdir, the
cheapest that ranks at all; a sentence encoder takes milliseconds, one behind an API more. It needs pgvector.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from langgraph.store.postgres import PostgresStore as LangGraphStore
from psycopg import ClientCursor
from psycopg.conninfo import make_conninfo

from memdir.format.frontmatter import digest_of
from memdir.interfaces.server.cluster import PostgresCluster
from memdir.postgres import store as postgres
from memdir.postgres.database import APP_ROLE, PostgresDatabase, create_store, create_tenant, migrate
from memdir.postgres.search import PostgresSearch
from memdir.postgres.store import PostgresStore
from memdir.recall.index import open_words, pool
from memdir.recall.pipeline import recall
from memdir.recall.terms import parse_terms
from memdir.records import Draft, Kind
from memdir.store import plan
from memdir.store.contract import utc_now

Work = Callable[[int], object]


@contextmanager
def open_server(dsn: str) -> Iterator[tuple[str, str, str]]:
    """The DSNs of the owner, of the application, and of one who may make extensions."""
    if dsn:
        yield dsn, make_conninfo(dsn, user=APP_ROLE), dsn
        return
    with tempfile.TemporaryDirectory(prefix="memdir-bench-") as folder:
        Path(folder).chmod(0o755)
        cluster = PostgresCluster(Path(folder) / "pg", settings={"shared_buffers": "512MB", "max_wal_size": "2GB"})
        cluster.start()
        try:
            yield *cluster.create(), cluster.dsn("postgres", "memdir")
        finally:
            cluster.stop()


@dataclass(frozen=True)
class Contender:
    work: Work
    pid: int  # of the database's process that serves it


def measure(rounds: int, **contenders: Contender) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each call, and processor seconds, the contenders in turn."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, at in contenders.items():
            used, start = time.process_time() + read_cpu(at.pid), time.perf_counter()
            at.work(number)
            end = time.perf_counter()
            times[name].append((end - start, time.process_time() + read_cpu(at.pid) - used))
    return times


def read_cpu(pid: int) -> float:
    """Processor seconds of a process; 0 where it runs on another machine."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:
        return 0.0


def find_pid(database: PostgresDatabase) -> int:
    return int(database.show("SELECT pg_backend_pid()"))


def show(title: str, times: dict[str, list[tuple[float, float]]]) -> None:
    first = [statistics.median(column) for column in zip(*next(iter(times.values())), strict=True)]
    for name, each in times.items():
        walls, used = zip(*each, strict=True)
        middle, cpu = statistics.median(walls), statistics.median(used)
        p99, cpu99 = (sorted(column)[int(len(column) * 0.99)] for column in (walls, used))
        print(
            f"{title:24} {name:14} {len(walls) / sum(walls):6.0f}/s  median {middle * 1e3:7.2f} ms  p99 {p99 * 1e3:7.2f} ms"
            f" {middle / first[0]:5.2f}  processor {cpu * 1e3:6.2f} ms {cpu / (first[1] or 1):5.2f}  p99 {cpu99 * 1e3:6.2f} ms",
            flush=True,
        )


def draft(number: int, turn: int = 0) -> Draft:
    body = f"Round {turn}: the release of service {number} goes out on a Tuesday, because support is staffed then."
    return Draft(
        Kind.PROJECT, f"Service {number}", f"Release days of service {number} and why", body, f"service-{number}"
    )


def bench_store(database: PostgresDatabase, owner: str, app: str, rounds: int) -> None:
    store, copy = (make_store(database, owner) for _ in range(2))
    bare = psycopg.connect(app, autocommit=True, cursor_factory=ClientCursor, prepare_threshold=None)
    for number in range(100):
        store.write(draft(number))
        copy.write(draft(number))
    # The statements of a write, as they are sent: the same ones are then sent by psycopg alone, to another store.
    sent: list[list[tuple[str, dict[str, Any]]]] = []
    plain = postgres.execute

    def record(db: Any, text: str, values: Any) -> Any:
        sent[-1].append((text, dict(values)))
        return plain(db, text, values)

    prepared = [(f"service-{turn % 100}", draft(turn % 100, turn + 1)) for turn in range(rounds)]

    def save(turn: int) -> None:
        name, given = prepared[turn]
        sent.append([])
        postgres.execute = record
        try:
            store.carry_out(lambda view: plan_edit(view, name, given), verb="edit")
        finally:
            postgres.execute = plain

    last = [copy._read_snapshot().key]

    def replay(turn: int) -> None:
        for text, values in sent[turn]:
            given = values | {
                "tenant": copy._table.tenant,
                "store": copy._table.store,
                "key": uuid4(),
                "last": last[-1],
            }
            last.append(given["key"])
            assert plain(bare, text, given)[1] == [(1,)], "the change was made"

    read_text = f"{postgres._TENANT};{postgres._READ}"

    def read_bare(turn: int) -> None:
        values = {"tenant": copy._table.tenant, "store": copy._table.store, "paths": [f"service-{turn % 100}.md"]}
        plain(bare, read_text, values)

    ours, theirs = find_pid(database), bare.info.backend_pid
    show(
        "read",
        measure(
            rounds,
            psycopg=Contender(read_bare, theirs),
            memdir=Contender(lambda turn: store.read(f"service-{turn % 100}"), ours),
        ),
    )
    times = measure(rounds, memdir=Contender(save, ours), psycopg=Contender(replay, theirs))
    show("compare and swap", {"psycopg": times["psycopg"], "memdir": times["memdir"]})
    bare.close()


def plan_edit(view: Any, name: str, given: Draft) -> Any:
    found = view.read_bytes(f"{name}.md")
    return plan.plan_write(view, given, digest_of(found), utc_now().astimezone(), plan.WriteRules())[1]


def bench_langgraph(database: PostgresDatabase, owner: str, admin: str, rounds: int) -> None:
    store = make_store(database, owner)
    space = ("organisation", "store")
    value = {"description": draft(1).description, "body": draft(1).body}
    others = {"langgraph": open_langgraph(admin, "plain"), "langgraph+vec": open_langgraph(admin, "vectors")}
    ours = find_pid(database)

    def search(turn: int) -> object:
        with PostgresSearch([store]) as found:
            return recall(store, f"when does service {turn % rounds} go out", selector=found, limit=5)

    def put_and_search(turn: int) -> object:
        store.write(draft(rounds + turn))
        return search(turn)

    def find(other: LangGraphStore, turn: int) -> object:
        return other.search(space, query=f"when does service {turn % rounds} go out", limit=5)

    def put_and_find(other: LangGraphStore, turn: int) -> object:
        other.put(space, f"service-{rounds + turn}", value)
        return find(other, turn)

    kinds: dict[str, tuple[Callable[[LangGraphStore, int], object], Work]] = {
        "put": (lambda at, turn: at.put(space, f"service-{turn}", value), lambda turn: store.write(draft(turn))),
        "get": (lambda at, turn: at.get(space, f"service-{turn}"), lambda turn: store.read(f"service-{turn}")),
        "search": (find, search),
        "put, then search": (put_and_find, put_and_search),
    }
    for title, (theirs, mine) in kinds.items():
        given = {
            name: Contender(partial(theirs, at), at.conn.info.backend_pid)
            for name, at in others.items()
            if at is not None
        }
        mine(3 * rounds)  # patterns are compiled once
        show(title, measure(rounds, **given, memdir=Contender(mine, ours)))
    for at in filter(None, others.values()):
        at.conn.close()


def open_langgraph(admin: str, kind: str) -> LangGraphStore | None:
    """Its store in a schema of its own; None where the database has no pgvector."""
    db = psycopg.connect(admin, autocommit=True, row_factory=psycopg.rows.dict_row, prepare_threshold=0)
    db.execute(f"CREATE SCHEMA IF NOT EXISTS langgraph_{kind}")
    try:
        if kind == "vectors":
            db.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    except psycopg.Error as error:
        print(f"without vectors: {str(error).splitlines()[0]}")
        db.close()
        return None
    db.execute(f"SET search_path TO langgraph_{kind}, public")
    table = open_words()
    assert table is not None
    made = LangGraphStore(db, index={"dims": table.dim, "embed": embed} if kind == "vectors" else None)
    made.setup()
    return made


def embed(texts: Sequence[str]) -> list[list[float]]:
    table = open_words()
    assert table is not None
    found = [pool(table, [(term, 1.0) for term in parse_terms(text)]) for text in texts]
    return [[(at - 128) / vector[1] for at in vector[0]] if vector else [0.0] * table.dim for vector in found]


def make_store(database: PostgresDatabase, owner: str) -> PostgresStore:
    tenant = create_tenant(owner, "bench")
    return PostgresStore(database, tenant, create_store(database, tenant, "main"))


def plant(owner: str, tenants: int, memories: int) -> list[tuple[UUID, UUID]]:
    """Tenants with one store each, by COPY-like inserts: what a store would have written, without its history."""
    made = []
    data = (
        "---\nname: Service\ndescription: Release days\ntype: project\n---\n" + "The release goes out on Tuesday. " * 12
    )
    digest = digest_of(data.encode())
    with psycopg.connect(owner, autocommit=True) as db:
        for number in range(tenants):
            tenant, store = uuid4(), uuid4()
            with db.transaction():
                db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
                values = {
                    "t": tenant,
                    "s": store,
                    "n": memories,
                    "d": data.encode(),
                    "x": digest[:50],
                    "name": f"t{number}",
                }
                db.execute("INSERT INTO memdir.tenants (tenant, name) VALUES (%(t)s, %(name)s)", values)
                db.execute(
                    "INSERT INTO memdir.stores (tenant, store, name, scope, revision) VALUES (%(t)s, %(s)s, 'main', 'team', 1)",
                    values,
                )
                db.execute(
                    "INSERT INTO memdir.contents SELECT %(t)s, %(s)s, %(x)s || i, %(d)s FROM generate_series(1, %(n)s) i",
                    values,
                )
                db.execute(
                    "INSERT INTO memdir.files SELECT %(t)s, %(s)s, 'service-' || i || '.md', %(x)s || i, length(%(d)s), 1, 0, NULL FROM generate_series(1, %(n)s) i",
                    values,
                )
            made.append((tenant, store))
        db.execute("ANALYZE")
    return made


def bench_tenants(database: PostgresDatabase, owner: str, tenants: int, memories: int, rounds: int) -> None:
    pick, pid = random.Random(1), find_pid(database)
    made = {name: plant(owner, count, memories) for name, count in (("few", 10), ("many", tenants))}
    stores = {name: [PostgresStore(database, *at) for at in each] for name, each in made.items()}

    def read(name: str, turn: int) -> object:
        return pick.choice(stores[name]).read(f"service-{pick.randint(1, memories)}")

    show(f"read, 10 and {tenants}", measure(rounds, **{name: Contender(partial(read, name), pid) for name in stores}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--memories", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--dsn", default="")
    given = parser.parse_args()
    with open_server(given.dsn) as (owner, app, admin):
        migrate(owner)
        database = PostgresDatabase(app, size=1)
        try:
            bench_store(database, owner, app, given.rounds)
            bench_langgraph(database, owner, admin, given.rounds)
            if given.tenants:
                bench_tenants(database, owner, given.tenants, given.memories, 4 * given.rounds)
        finally:
            database.close()


if __name__ == "__main__":
    main()
