"""Sixty-four processes on one directory: nothing lost, nothing torn, nothing twice, history complete."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from loads import IS_FULL, ROOT
from memdir.errors import NotFoundError
from memdir.format.index import parse_index
from memdir.store.files import FileStore
from worker import PAGE, share

WORKER = Path(__file__).parents[1] / "support" / "worker.py"
PROCESSES = 64
TURNS = 1000 if IS_FULL else 30  # of each process


def run_workers(memory: Path, turns: int, *, lock: bool = True) -> list[dict[str, object]]:
    """All workers at once; each reports the changes it was told had happened, in order."""
    with FileStore(memory) as store:
        for page in range(-(-turns // PAGE)):
            share(store, f"shared-{page}")
    command = [sys.executable, str(WORKER), str(memory), str(turns), str(PROCESSES), "lock" if lock else "no-lock"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests" / "support")))}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=3600)
    return [json.loads(line) for line in done.stdout.splitlines()]


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
    pages = {header.name: set(store.read(header.name).body.splitlines()) for header in store.scan()}
    for report in reports:
        marks = report["marks"]
        assert isinstance(marks, dict)
        losses += [
            f"{mark} is gone from {name}" for name, said in marks.items() for mark in said if mark not in pages[name]
        ]
    pointers = Counter(line.name for line in parse_index(store.index()) if line.is_pointer)
    losses += [f"{name} has {count} index lines" for name, count in pointers.items() if count > 1]
    living = {header.name for header in store.scan()}
    losses += [f"{name} has no index line" for name in living - set(pointers)]
    losses += [f"the index points to {name}" for name in set(pointers) - living]
    losses += [f"{header.name} is torn: {header.problem}" for header in store.scan() if header.problem]
    changes = sum(int(str(report["changes"])) for report in reports)
    recorded = len(store.changes()) - sum(name.startswith("shared-") for name in pages)
    if recorded != changes:
        losses.append(f"history has {recorded} changes of {changes}")
    return losses


@pytest.mark.load
def test_nothing_is_lost_among_64_processes(memory: Path, record_property: Callable[[str, object], None]) -> None:
    reports = run_workers(memory, TURNS)
    assert find_losses(memory, reports) == []
    changes = sum(int(str(report["changes"])) for report in reports)
    assert changes > PROCESSES * TURNS // 2
    record_property("result", f"{changes:,} changes acknowledged, 0 lost, 0 torn, 0 duplicate")


def test_the_count_goes_red_when_the_lock_is_taken_out(memory: Path) -> None:
    assert find_losses(memory, run_workers(memory, 10, lock=False))


def test_a_worker_does_a_mix_of_everything() -> None:
    import worker

    kinds = Counter(worker.choose(random.Random(number), ["x"]) for number in range(300))
    assert set(kinds) == {"save", "edit", "forget", "mark"} and min(kinds.values()) > 30
