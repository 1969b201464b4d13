"""Sixty-four processes on one directory: nothing lost, nothing torn, nothing twice, history complete."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from loads import IS_FULL
from memdir.errors import ConflictError, NotFoundError
from memdir.format.index import parse_index
from memdir.records import Draft, Kind
from memdir.store.files import FileStore

WORKER = Path(__file__).with_name("worker.py")
PROCESSES = 64
TURNS = 1000 if IS_FULL else 30  # of each process


def run_workers(memory: Path, turns: int, *, lock: bool = True) -> list[dict[str, object]]:
    """All workers at once; each reports the changes it was told had happened, in order."""
    reader, writer = os.pipe()
    command = [sys.executable, str(WORKER), str(memory), str(turns), "lock" if lock else "no-lock", str(reader)]
    workers = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, pass_fds=[reader], encoding="utf-8")
        for number in range(PROCESSES)
    ]
    os.close(reader)
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    os.close(writer)
    reports = []
    for worker in workers:
        output, _ = worker.communicate(timeout=1800)
        reports.append(json.loads(output))
        assert worker.returncode == 0
    return reports


def find_losses(memory: Path, reports: list[dict[str, object]]) -> list[str]:
    """Everything that was acknowledged and is not so; empty if nothing was lost."""
    store = FileStore(memory)
    losses = []
    for report in reports:
        wanted = report["files"]
        assert isinstance(wanted, dict)
        for name, body in wanted.items():
            try:
                found = store.read(name).body.strip()
            except NotFoundError:
                found = None
            if found != body:
                losses.append(f"{name}: {found!r} instead of {body!r}")
    shared = store.read("shared").body
    for report in reports:
        marks = report["marks"]
        assert isinstance(marks, list)
        losses += [f"the mark {mark} is gone from shared" for mark in marks if f"\n{mark}\n" not in shared]
    pointers = Counter(line.name for line in parse_index(store.index()) if line.is_pointer)
    losses += [f"{name} has {count} index lines" for name, count in pointers.items() if count > 1]
    living = {header.name for header in store.scan()}
    losses += [f"{name} has no index line" for name in living - set(pointers)]
    losses += [f"the index points to {name}" for name in set(pointers) - living]
    losses += [f"{header.name} is torn: {header.problem}" for header in store.scan() if header.problem]
    changes = sum(int(str(report["changes"])) for report in reports)
    recorded = len(store.changes()) - 1
    if recorded != changes:
        losses.append(f"history has {recorded} changes of {changes}")
    return losses


@pytest.mark.load
def test_nothing_is_lost_among_64_processes(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(Draft(Kind.PROJECT, "Shared", "Shared release checklist every process edits", "Start.\n", "shared"))
    reports = run_workers(memory, TURNS)
    assert find_losses(memory, reports) == []
    assert sum(int(str(report["changes"])) for report in reports) > PROCESSES * TURNS // 2


def test_the_count_goes_red_when_the_lock_is_taken_out(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(Draft(Kind.PROJECT, "Shared", "Shared release checklist every process edits", "Start.\n", "shared"))
    reports = run_workers(memory, 10, lock=False)
    assert find_losses(memory, reports)


def test_a_worker_does_a_mix_of_everything() -> None:
    from hostile import worker

    kinds = Counter(worker.choose(random.Random(number), ["x"]) for number in range(300))
    assert set(kinds) == {"save", "edit", "forget", "mark"} and min(kinds.values()) > 30
    assert issubclass(ConflictError, Exception)
