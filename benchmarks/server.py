"""The store in PostgreSQL under load, in one run: beside bare psycopg doing the same statements, beside LangGraph's
PostgresStore, and with 10 and many tenants.

    python benchmarks/server.py [--tenants 10000] [--memories 100] [--rounds 300] [--dsn OWNER_DSN]

Each figure is of one connection; rounds of the contenders alternate, so that a busy machine slows all of them. Without a DSN
it starts a PostgreSQL of its own with durable commits.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from langgraph.store.postgres import PostgresStore as LangGraphStore
from psycopg import ClientCursor
from psycopg.conninfo import make_conninfo

from memdir.format.frontmatter import digest_of
from memdir.interfaces.server.cluster import PostgresCluster
from memdir.recall.pipeline import recall
from memdir.recall.postgres import PostgresSearch
from memdir.records import Draft, Kind
from memdir.store import plan, postgres
from memdir.store.contract import utc_now
from memdir.store.postgres import APP_ROLE, PostgresDatabase, PostgresStore, create_store, create_tenant, migrate

Work = Callable[[int], object]


@contextmanager
def open_server(dsn: str) -> Iterator[tuple[str, str]]:
    if dsn:
        yield dsn, make_conninfo(dsn, user=APP_ROLE)
        return
    with tempfile.TemporaryDirectory(prefix="memdir-bench-") as folder:
        Path(folder).chmod(0o755)
        cluster = PostgresCluster(Path(folder) / "pg", settings={"shared_buffers": "512MB", "max_wal_size": "2GB"})
        cluster.start()
        try:
            yield cluster.create()
        finally:
            cluster.stop()


def measure(rounds: int, **contenders: Work) -> dict[str, list[float]]:
    """Seconds of each call, the contenders in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            work(number)
            times[name].append(time.perf_counter() - start)
    return times


def show(title: str, times: dict[str, list[float]]) -> None:
    first = statistics.median(next(iter(times.values())))
    for name, each in times.items():
        middle, p99 = statistics.median(each), sorted(each)[int(len(each) * 0.99)]
        rate = len(each) / sum(each)
        print(
            f"{title:24} {name:12} {rate:8.0f}/s  median {middle * 1e3:7.2f} ms  p99 {p99 * 1e3:7.2f} ms  {middle / first:5.2f}"
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

    def replay(turn: int) -> None:
        for text, values in sent[turn]:
            plain(bare, text, values | {"tenant": copy.tenant, "store": copy.store, "key": uuid4()})

    read_text = ";".join(
        ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", postgres._TENANT, postgres._READ, "COMMIT"]
    )

    def read_bare(turn: int) -> None:
        values = {"tenant": copy.tenant, "store": copy.store, "paths": [f"service-{turn % 100}.md"]}
        plain(bare, read_text, values)

    show("read", measure(rounds, psycopg=read_bare, memdir=lambda turn: store.read(f"service-{turn % 100}")))
    times = measure(rounds, memdir=save, psycopg=replay)
    show("compare and swap", {"psycopg": times["psycopg"], "memdir": times["memdir"]})
    bare.close()


def plan_edit(view: Any, name: str, given: Draft) -> Any:
    found = view.read_bytes(f"{name}.md")
    return plan.plan_write(view, given, digest_of(found), utc_now().astimezone(), plan.WriteRules())[1]


def bench_langgraph(database: PostgresDatabase, owner: str, rounds: int) -> None:
    store = make_store(database, owner)
    with psycopg.connect(owner, autocommit=True, row_factory=psycopg.rows.dict_row) as db:
        db.execute("CREATE SCHEMA IF NOT EXISTS langgraph")
        db.execute("SET search_path TO langgraph")
        other = LangGraphStore(db)
        other.setup()
        space = ("organisation", "store")
        value = {"description": draft(1).description, "body": draft(1).body}

        def search(turn: int) -> object:
            question = f"when does service {turn % rounds} go out"
            with PostgresSearch([store]) as found:
                return recall(store, question, selector=found, limit=5)

        show(
            "put",
            measure(
                rounds,
                langgraph=lambda turn: other.put(space, f"service-{turn}", value),
                memdir=lambda turn: store.write(draft(turn)),
            ),
        )
        show(
            "get",
            measure(
                rounds,
                langgraph=lambda turn: other.get(space, f"service-{turn}"),
                memdir=lambda turn: store.read(f"service-{turn}"),
            ),
        )
        show(
            "search",
            measure(
                rounds,
                langgraph=lambda turn: other.search(space, query=f"when does service {turn} go out", limit=5),
                memdir=search,
            ),
        )
        db.execute("DROP SCHEMA langgraph CASCADE")


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
    few = plant(owner, 10, memories)
    times: dict[str, list[float]] = {"10 tenants": [], f"{tenants}": []}
    for name, made in (("10 tenants", few), (f"{tenants}", plant(owner, tenants, memories))):
        stores = [PostgresStore(database, *at) for at in made]
        pick = random.Random(1)
        for store in stores[:10]:
            store.read("service-1")
        for _ in range(rounds):
            store = pick.choice(stores)
            start = time.perf_counter()
            store.read(f"service-{pick.randint(1, memories)}")
            times[name].append(time.perf_counter() - start)
    show("read, tenants", times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--memories", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--dsn", default="")
    given = parser.parse_args()
    with open_server(given.dsn) as (owner, app):
        migrate(owner)
        database = PostgresDatabase(app, size=2)
        try:
            bench_store(database, owner, app, given.rounds)
            bench_langgraph(database, owner, given.rounds)
            bench_tenants(database, owner, given.tenants, given.memories, 4 * given.rounds)
        finally:
            database.close()


if __name__ == "__main__":
    main()
