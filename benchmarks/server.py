"""The store in PostgreSQL at several sizes, in one run, beside LangGraph's PostgresStore and bare psycopg doing the same work.

    python benchmarks/server.py [--sizes 100 10000] [--rounds 200] [--tenants 1000] [--dsn OWNER_DSN]

Each figure is the median of one connection, as wall time and as processor time of this process and of the database's together,
which other work on the machine changes less. Contenders alternate. Without a DSN it starts a PostgreSQL of its own with
durable commits.

- put: the text of a memory is replaced if it still has the digest that was read, with a version in the history. Bare psycopg
  does this with one prepared statement, without row-level security; LangGraph's store overwrites and keeps no version.
- search: memdir ranks with words and their meaning; bare psycopg with `ts_rank` over a GIN index. LangGraph's store ranks
  nothing without an embedding model, and is left out.
- load: memdir writes 1,000 files per change, with history; bare psycopg copies the texts into one table.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from langgraph.store.postgres import PostgresStore as LangGraphStore
from psycopg.conninfo import make_conninfo

from memdir.format.frontmatter import digest_of
from memdir.postgres.database import APP_ROLE, PostgresDatabase, create_store, create_tenant, migrate
from memdir.postgres.search import PostgresSearch
from memdir.postgres.store import PostgresStore
from memdir.recall.pipeline import recall
from memdir.records import Rewrite
from memdir.store.plan import FileChange

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
from postgres import PostgresCluster

WORDS = "deploy release staging database cache queue review owner rollback schedule support region token quota".split()
BATCH = 1_000


@contextmanager
def open_server(dsn: str) -> Iterator[tuple[str, str, str]]:
    """Yield the DSNs of the owner, of the application, and of a superuser."""
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
    work: Callable[[int], object]
    pid: int  # of the database's process that serves it


def read_cpu(pid: int) -> float:
    """Return the processor seconds of a process, or 0 if it runs on another machine."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:
        return 0.0


def measure(title: str, rounds: int, **contenders: Contender) -> dict[str, float]:
    """Run the contenders in turn, print the medians, and return the processor milliseconds of each."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, contender in contenders.items():
            used, start = time.process_time() + read_cpu(contender.pid), time.perf_counter()
            contender.work(number)
            wall = time.perf_counter() - start
            times[name].append((wall, time.process_time() + read_cpu(contender.pid) - used))
    found = {}
    for name, rows in times.items():
        wall, cpu = (statistics.median(column) * 1e3 for column in zip(*rows, strict=True))
        found[name] = cpu
        print(f"{title:26} {name:10} wall {wall:8.2f} ms  processor {cpu:8.2f} ms", flush=True)
    return found


def make_text(number: int, turn: int = 0) -> str:
    pick = random.Random(number)
    words = " ".join(pick.choices(WORDS, k=12))
    return (
        f"---\nname: Service {number}\ndescription: Release days of service {number} and the {pick.choice(WORDS)}\ntype: project\n---\n"
        f"The release of service {number} goes out on a Tuesday, because support is staffed then. {words}. Round {turn}.\n"
    )


def make_store(database: PostgresDatabase, owner: str) -> PostgresStore:
    tenant = create_tenant(owner, "bench")
    with psycopg.connect(owner) as db:
        db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
        db.execute("UPDATE memdir.tenants SET max_memories = 10000000")
    return PostgresStore(database, tenant, create_store(database, tenant, "main"))


def load(store: PostgresStore, size: int) -> float:
    start = time.perf_counter()
    for first in range(0, size, BATCH):
        changes = [
            FileChange(f"service-{number}.md", None, make_text(number).encode())
            for number in range(first, min(first + BATCH, size))
        ]
        store.carry_out(lambda _, changes=changes: changes, verb="import")  # type: ignore[misc]
    return time.perf_counter() - start


def load_bare(db: "psycopg.Connection[Any]", size: int) -> float:
    """Copy the texts into one table, then make what the other statements need."""
    db.execute("DROP TABLE IF EXISTS bare, bare_versions")
    db.execute("CREATE TABLE bare (name text PRIMARY KEY, digest text, version int, data text, terms tsvector)")
    db.execute(
        "CREATE TABLE bare_versions (name text, version int, digest text, data text, PRIMARY KEY (name, version))"
    )
    start = time.perf_counter()
    with db.cursor() as cursor, cursor.copy("COPY bare (name, digest, version, data) FROM STDIN") as copy:
        for number in range(size):
            text = make_text(number)
            copy.write_row((f"service-{number}", digest_of(text.encode()), 1, text))
    took = time.perf_counter() - start
    db.execute("UPDATE bare SET terms = to_tsvector('english', data)")
    db.execute("CREATE INDEX ON bare USING gin (terms)")
    db.execute("VACUUM ANALYZE bare")
    return took


PUT = """
    WITH changed AS (
        UPDATE bare SET digest = %(after)s, version = version + 1, data = %(data)s, terms = to_tsvector('english', %(data)s)
        WHERE name = %(name)s AND digest = %(before)s RETURNING name, version
    ) INSERT INTO bare_versions SELECT name, version, %(after)s, %(data)s FROM changed
"""
FIND = """
    SELECT name, data, ts_rank(terms, query) FROM bare, websearch_to_tsquery('english', %(text)s) AS query
    WHERE terms @@ query ORDER BY 3 DESC LIMIT 5
"""


def bench_size(
    database: PostgresDatabase, owner: str, admin: str, size: int, rounds: int
) -> dict[str, dict[str, float]]:
    print(f"\n{size:,} memories in one store", flush=True)
    store = make_store(database, owner)
    bare = psycopg.connect(admin, autocommit=True, prepare_threshold=1)
    took, copied = load(store, size), load_bare(bare, size)
    print(f"load: memdir {took:.2f} s, COPY {copied:.2f} s: {took / copied:.1f} ×", flush=True)

    def search(turn: int) -> object:
        with PostgresSearch([store]) as found:
            return recall(store, f"when does service {turn * 7 % size} go out", selector=found, limit=5)

    first = []
    for turn in range(5):
        start = time.perf_counter()
        search(turn)
        first.append(time.perf_counter() - start)
    print(f"searches right after the load: {', '.join(f'{wall * 1e3:.1f}' for wall in first)} ms", flush=True)
    start = time.perf_counter()
    with PostgresSearch([store]) as indexer:
        indexer.refresh()
    print(f"indexed in the background in {time.perf_counter() - start:.1f} s", flush=True)
    with psycopg.connect(admin, autocommit=True) as db:
        db.execute("VACUUM ANALYZE")
    space, lang = ("organisation", f"store{size}"), open_langgraph(admin)
    for number in range(min(size, 10_000)):
        lang.put(space, f"service-{number}", {"text": make_text(number)})

    with psycopg.connect(admin, autocommit=True) as db:
        db.execute("VACUUM ANALYZE")

    def put(turn: int) -> None:
        number, text = turn % size, make_text(turn % size, turn + 1)
        memory = store.read(f"service-{number}")
        store.change([Rewrite(f"service-{number}", text, memory.digest)], verb="edit")

    def put_bare(turn: int) -> None:
        number, text = turn % size, make_text(turn % size, turn + 1)
        row = bare.execute("SELECT digest, data FROM bare WHERE name = %s", (f"service-{number}",)).fetchone()
        assert row is not None
        values = {"name": f"service-{number}", "before": row[0], "after": digest_of(text.encode()), "data": text}
        assert bare.execute(PUT, values).rowcount == 1

    ours = int(database.show("SELECT pg_backend_pid()"))
    theirs, bares = lang.conn.info.backend_pid, bare.info.backend_pid
    found = {
        "put": measure(
            "read and put",
            rounds,
            memdir=Contender(put, ours),
            langgraph=Contender(
                lambda turn: (
                    lang.get(space, f"service-{turn % size}"),
                    lang.put(space, f"service-{turn % size}", {"text": make_text(turn % size, turn + 1)}),
                ),
                theirs,
            ),
            psycopg=Contender(put_bare, bares),
        ),
        "get": measure(
            "get",
            rounds,
            memdir=Contender(lambda turn: store.read(f"service-{turn % size}"), ours),
            langgraph=Contender(lambda turn: lang.get(space, f"service-{turn % min(size, 10_000)}"), theirs),
            psycopg=Contender(
                lambda turn: bare.execute("SELECT * FROM bare WHERE name = %s", (f"service-{turn % size}",)).fetchall(),
                bares,
            ),
        ),
        "search": measure(
            "search",
            rounds,
            memdir=Contender(search, ours),
            psycopg=Contender(
                lambda turn: bare.execute(FIND, {"text": f"when does service {turn * 7 % size} go out"}).fetchall(),
                bares,
            ),
        ),
    }
    bare.close()
    lang.conn.close()
    return found


def open_langgraph(admin: str) -> LangGraphStore:
    db = psycopg.connect(admin, autocommit=True, row_factory=psycopg.rows.dict_row, prepare_threshold=0)
    db.execute("CREATE SCHEMA IF NOT EXISTS langgraph")
    db.execute("SET search_path TO langgraph, public")
    made = LangGraphStore(db)
    made.setup()
    return made


def bench_tenants(database: PostgresDatabase, owner: str, tenants: int, rounds: int) -> None:
    print(f"\n20 memories in each of {tenants:,} organisations", flush=True)
    stores = [make_store(database, owner) for _ in range(tenants)]
    for store in stores:
        load(store, 20)
        with PostgresSearch([store]) as indexer:
            indexer.refresh()
    pick, pid = random.Random(1), int(database.show("SELECT pg_backend_pid()"))

    def put(turn: int) -> None:
        store, name = pick.choice(stores), f"service-{turn % 20}"
        store.change([Rewrite(name, make_text(turn % 20, turn + 1), store.read(name).digest)], verb="edit")

    def search(turn: int) -> object:
        store = pick.choice(stores)
        with PostgresSearch([store]) as found:
            return recall(store, f"when does service {turn % 20} go out", selector=found, limit=5)

    measure("read and put", rounds, memdir=Contender(put, pid))
    measure("get", rounds, memdir=Contender(lambda turn: pick.choice(stores).read(f"service-{turn % 20}"), pid))
    measure("search", rounds, memdir=Contender(search, pid))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--dsn", default="")
    options = parser.parse_args()
    with open_server(options.dsn) as (owner, app, admin):
        migrate(owner)
        database = PostgresDatabase(app, size=1)
        try:
            found = {size: bench_size(database, owner, admin, size, options.rounds) for size in options.sizes}
            if options.tenants:
                bench_tenants(database, owner, options.tenants, options.rounds)
        finally:
            database.close()
    small, large = found[min(found)], found[max(found)]
    for name in small:
        ratios = {other: large[name]["memdir"] / value for other, value in large[name].items() if other != "memdir"}
        shown = ", ".join(f"{ratio:.2f} × {other}" for other, ratio in ratios.items())
        print(
            f"{name}: {shown}; {large[name]['memdir'] / small[name]['memdir']:.2f} × from {min(found):,} to {max(found):,}"
        )


if __name__ == "__main__":
    main()
