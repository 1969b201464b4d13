"""A process of writers for test_server_faults.py: each thread changes a memory of its own by compare and swap, and says so.

    python pg_writer.py DSN TENANT STORE FIRST WRITERS CHANGES

A line `WRITER NUMBER` on standard output means that the store has acknowledged this change. Sometimes all writers change one
memory, where a conflict is read again and retried.
"""

import sys
import threading
from uuid import UUID

from memdir.errors import ConflictError, NotFoundError
from memdir.postgres.database import PostgresDatabase
from memdir.postgres.store import PostgresStore
from memdir.records import Draft, Kind

SHARED_EVERY = 10


def make_draft(writer: int, number: int) -> Draft:
    return Draft(
        Kind.PROJECT,
        f"Writer {writer}",
        "Nightly release checklist of a writer",
        f"n={number} {'x' * 200}",
        f"w{writer}",
    )


def change_shared(store: PostgresStore) -> None:
    while True:
        try:
            memory = store.read("shared")
            count = int(memory.body.partition("=")[2].split()[0]) + 1
            store.write(
                Draft(Kind.PROJECT, "Shared", "Counter that all writers share", f"n={count}", "shared"),
                expect=memory.digest,
            )
            return
        except ConflictError:
            continue


def write(store: PostgresStore, writer: int, changes: int, lock: threading.Lock) -> None:
    try:
        expect = store.read(f"w{writer}").digest
    except NotFoundError:
        expect = None
    for number in range(1, changes + 1):
        expect = store.write(make_draft(writer, number), expect=expect).digest
        if number % SHARED_EVERY == 0:
            change_shared(store)
        with lock:
            sys.stdout.write(f"{writer} {number}\n")
            sys.stdout.flush()


def main() -> None:
    dsn, tenant, store, *numbers = sys.argv[1:]
    first, writers, changes = map(int, numbers)
    database = PostgresDatabase(dsn, size=min(writers, 8), seconds=90.0)
    lock = threading.Lock()
    made = [PostgresStore(database, UUID(tenant), UUID(store)) for _ in range(writers)]
    threads = [threading.Thread(target=write, args=(at, first + n, changes, lock)) for n, at in enumerate(made)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()


if __name__ == "__main__":
    main()
