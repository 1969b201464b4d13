"""The 64 processes of test_processes: each saves, edits, forgets at random and reports what it was told had happened.

    worker.py MEMORY TURNS PROCESSES lock|no-lock     prints one report a line, as JSON

They are forked by a process that has already imported and compiled everything, and start together behind one gate.
"""

import contextlib
import json
import os
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from memdir.errors import ConflictError, MemdirError
from memdir.records import Draft, Kind
from memdir.store import contract as held
from memdir.store.files import FileStore
from outcome import fork

PAGE = 100  # turns after which marks go to another shared memory, so that none grows without end


def choose(dice: random.Random, living: list[str]) -> str:
    return dice.choice(["save", "save", "edit", "edit", "forget", "mark"] if living else ["save"])


def work(memory: Path, turns: int, number: int) -> dict[str, object]:
    store = FileStore(memory, lock_seconds=600)
    dice = random.Random(number)
    files: dict[str, str | None] = {}
    marks: dict[str, list[str]] = {}
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
            name = f"shared-{turn // PAGE}"
            mark_shared(store, name, f"mark {number}.{turn}")
            marks.setdefault(name, []).append(f"mark {number}.{turn}")
        changes += 1
    store.close()
    return {"files": files, "marks": marks, "changes": changes}


def share(store: FileStore, name: str) -> None:
    store.write(
        Draft(Kind.PROJECT, f"Shared {name}", f"Release checklist {name} every process edits", "Start.\n", name)
    )


def mark_shared(store: FileStore, name: str, mark: str) -> None:
    """A line in a memory that all the others edit as well: read, change, compare and swap, again until it holds."""
    while True:
        seen = store.read(name)
        draft = Draft(Kind.PROJECT, f"Shared {name}", seen.description, f"{seen.body}{mark}\n", name)
        try:
            store.write(draft, expect=seen.digest)
            return
        except ConflictError:
            continue


def take_out_the_lock() -> None:
    @contextlib.contextmanager
    def open_door(folder: int, name: str, *, seconds: float) -> Iterator[None]:
        yield

    assert "hold" in vars(held)
    vars(held)["hold"] = open_door


def run(memory: Path, turns: int, number: int) -> dict[str, object]:
    """A report, whatever happens: an error counts as an acknowledged mark that nobody will find."""
    try:
        return work(memory, turns, number)
    except MemdirError as error:
        return {"files": {}, "marks": {"shared-0": [f"an error: {error}"]}, "changes": 0}


def main(memory: Path, turns: int, processes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        share(FileStore(Path(folder)), "shared-0")
        run(Path(folder), 30, 0)
    reports = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(processes)]  # noqa: SIM115
    gate_out, gate_in = os.pipe()
    pids = []
    for number, report in enumerate(reports):
        pid = fork()
        if pid == 0:
            try:
                os.close(gate_in)
                os.read(gate_out, 1)
                json.dump(run(memory, turns, number), report)
                report.flush()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        pids.append(pid)
    os.close(gate_in)
    for pid in pids:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for report in reports:
        report.seek(0)
        print(report.read())  # noqa: T201


if __name__ == "__main__":
    if sys.argv[4] == "no-lock":
        take_out_the_lock()
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
