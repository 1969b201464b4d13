"""One of the 64 processes of test_processes: saves, edits, forgets at random and reports what it was told had happened.

worker.py MEMORY TURNS lock|no-lock READY_FD NUMBER
"""

import contextlib
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from memdir.errors import ConflictError, MemdirError
from memdir.records import Draft, Kind
from memdir.store import files as held
from memdir.store.files import FileStore


def choose(dice: random.Random, living: list[str]) -> str:
    return dice.choice(["save", "save", "edit", "edit", "forget", "mark"] if living else ["save"])


def main(memory: Path, turns: int, number: int) -> None:
    store = FileStore(memory, lock_seconds=600)
    dice = random.Random(number)
    files: dict[str, str | None] = {}
    marks: list[str] = []
    changes = 0
    for turn in range(turns):
        living = [name for name, body in files.items() if body is not None]
        what = choose(dice, living)
        body = f"Body of {number} at turn {turn}."
        if what == "save":
            name = f"p{number}-{dice.randrange(12)}"
            if files.get(name) is not None:
                continue
            store.write(
                Draft(Kind.PROJECT, f"Thing {name}", f"Nightly release checklist of process {number}", body, name)
            )
            files[name] = body
        elif what == "edit":
            name = dice.choice(living)
            draft = Draft(
                Kind.PROJECT,
                f"Thing {name}",
                f"Nightly release checklist of process {number} at turn {turn}",
                body,
                name,
            )
            store.write(draft, expect=store.read(name).digest)
            files[name] = body
        elif what == "forget":
            name = dice.choice(living)
            store.delete(name)
            files[name] = None
        else:
            mark_shared(store, f"mark {number}.{turn}")
            marks.append(f"mark {number}.{turn}")
        changes += 1
    json.dump({"files": files, "marks": marks, "changes": changes}, sys.stdout)


def mark_shared(store: FileStore, mark: str) -> None:
    """A line in a memory that all the others edit as well: read, change, compare and swap, again until it holds."""
    while True:
        seen = store.read("shared")
        draft = Draft(
            Kind.PROJECT, "Shared", "Shared release checklist every process edits", f"{seen.body}{mark}\n", "shared"
        )
        try:
            store.write(draft, expect=seen.digest)
            return
        except ConflictError:
            continue


def take_out_the_lock() -> None:
    @contextlib.contextmanager
    def open_door(folder: int, name: str, *, seconds: float) -> Iterator[None]:
        yield

    vars(held)["hold"] = open_door


if __name__ == "__main__":
    if sys.argv[3] == "no-lock":
        take_out_the_lock()
    print("ready", flush=True)  # noqa: T201
    os.read(int(sys.argv[4]), 1)
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[5]))
    except MemdirError as error:
        if sys.argv[3] == "lock":
            raise
        json.dump({"files": {}, "marks": [f"an error: {error}"], "changes": 0}, sys.stdout)
