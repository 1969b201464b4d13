"""One long-lived process in which eight agents work without pause: its memory and its descriptors do not grow.

A day of work at the pace of people is some thousands of calls; they are made without the pauses.
"""

import ctypes
import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from loads import ROOT, scaled

AGENTS = 8
ROUNDS = scaled(500)  # of each agent


def measure() -> tuple[int, int]:
    """Resident kilobytes and open descriptors of this process. What malloc keeps of memory that was freed is given back
    first: how much that is depends on which of the threads allocated at the same time."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024, len(os.listdir("/proc/self/fd"))


def work(memory: Path, agent: int, rounds: int, first: int) -> None:
    """What an agent does in a turn: recall, read, save, change, forget, take back, learn."""
    from memdir.interfaces.tools import call_tool
    from memdir.records import Origin
    from memdir.store.open import open_project

    origin = Origin("agent", "by a test", f"s-{agent}")
    environ = {"HOME": str(memory.parent), "PATH": os.environ["PATH"]}
    for turn in range(first, first + rounds):
        name = f"thing-{agent}-{turn % 5}"
        project = open_project(memory.parent, environ=environ, directory=memory)
        try:
            fields = {"type": "reference", "name": name, "description": f"Where thing {agent} {turn % 5} is kept"}
            known = call_tool(project, "memory_list", {}, origin=origin)["memories"]
            assert isinstance(known, list)
            if any(at["name"] == name for at in known):
                call_tool(project, "memory_forget", {"name": name}, origin=origin)
            else:
                call_tool(project, "memory_save", {**fields, "body": f"Shelf {turn}."}, origin=origin)
                call_tool(project, "memory_read", {"name": name}, origin=origin)
            call_tool(project, "memory_search", {"query": f"where is thing {agent}"}, origin=origin)
        finally:
            project.close()


def main(memory: Path, rounds: int) -> None:
    from threading import Thread

    memory.mkdir(parents=True, exist_ok=True)
    sizes = []
    for part in range(4):  # the first two quarters fill caches and pools
        each = rounds // 4
        agents = [Thread(target=work, args=(memory, agent, each, part * each)) for agent in range(AGENTS)]
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.join()
        sizes.append(measure())
    print(*(f"{kilobytes} {descriptors}" for kilobytes, descriptors in sizes), sep="\n")  # noqa: T201


def test_memory_and_descriptors_stay_where_they_are(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests" / "support")))}
    command = [sys.executable, __file__, str(tmp_path / "memory"), str(ROUNDS)]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=3600)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    (middle, open_then), (last, open_now) = rows[1], rows[-1]
    assert open_now <= open_then, rows
    assert last <= middle * 1.05, rows
    assert not list((tmp_path / "memory").rglob("*.tmp"))
    record_property(
        "result", f"{AGENTS * ROUNDS * 3:,} calls: {middle / 1024:.0f} MB half way, {last / 1024:.0f} MB at the end, "
        f"{open_then} and {open_now} descriptors, 0 temporary files",
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
