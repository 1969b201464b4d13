"""How long the doors take to open, as ratios to a bare Python that imports json and sqlite3, run beside them.

    python benchmarks/startup.py

Medians of 20 interleaved runs of the interpreter itself (never a shim); goals from the first issue.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 20
BASE = "import json, sqlite3"


def plant(memory: Path, count: int) -> None:
    memory.mkdir(parents=True)
    lines = []
    for number in range(count):
        name = f"thing-{number}"
        head = f"---\nname: Thing {number}\ndescription: What thing {number} is about\ntype: project\n---\n\n"
        (memory / f"{name}.md").write_text(f"{head}Body of {name}.\n" * 3, encoding="utf-8")
        lines.append(f"- [Thing {number}]({name}.md) — what it is about\n")
    (memory / "MEMORY.md").write_text("".join(lines), encoding="utf-8")


def measure(commands: dict[str, list[str]], env: dict[str, str], cwd: Path) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *command], env=env, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        home, project, memory = Path(folder) / "home", Path(folder) / "project", Path(folder) / "memory"
        home.mkdir()
        project.mkdir()
        plant(memory, 1_000)
        env = {**os.environ, "HOME": str(home)}
        commands = {
            "base": ["-c", BASE],
            "import memdir": ["-c", "import memdir"],
            "open_store": ["-c", "from memdir.store.open import open_store"],
            "memdir list, 1,000 files": ["-m", "memdir", "--dir", str(memory), "list"],
        }
        subprocess.run(
            [sys.executable, *commands["memdir list, 1,000 files"]],
            env=env,
            cwd=project,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        found = measure(commands, env, project)
    goals = {"import memdir": 3.0, "memdir list, 1,000 files": 6.0}
    print(f"| what | median ms | × `{BASE}` | goal |\n|---|---|---|---|")
    for name, seconds in found.items():
        ratio = seconds / found["base"]
        print(f"| {name} | {seconds * 1000:.0f} | {ratio:.1f} | {goals.get(name, '')} |")
    return int(any(found[name] / found["base"] > goal for name, goal in goals.items()))


if __name__ == "__main__":
    sys.exit(main())
