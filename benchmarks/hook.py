"""How long a prompt waits for its memories: the hook's process beside a bare Python that imports json and sqlite3.

    python benchmarks/hook.py [--files 10000] [--runs 1000] [--records 20000]

Every run is a process of its own, started as the `memdir` script starts it, with a conversation of its own; a bare one
runs after every tenth. Goals: the median at most 4 × the bare one's, 6 × from 100,000 memories on; the 99th percentile
under 3 × the median. Before a tool the median is at most 2.2 × the bare one's, with `--triggers` written ones. `--records` are conversations that were held before. On a machine that does other things as well
the time on the processor is the one to look at; the goals are on the clock.
"""

import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sentences import make_queries, write_files

BASE = "import json, sqlite3"
SCRIPT = "from memdir.__main__ import main; main()"
PR_SET_CHILD_SUBREAPER = 36  # orphans below this process become its children, on Linux
LINES = "def load(path):\n    return json.loads(path.read_text())\n" * 20
TOOLS: list[dict[str, object]] = [
    {"tool_name": "Read", "tool_input": {"file_path": "src/main.py"}},
    {"tool_name": "Write", "tool_input": {"file_path": "src/main.py", "content": LINES}},
    {
        "tool_name": "Bash",
        "tool_input": {"command": "cd src && git add -A && git commit -m 'load the files' && pytest -q"},
    },
    {"tool_name": "Edit", "tool_input": {"file_path": "src/main.py", "old_string": "load(x)", "new_string": LINES}},
]
EVENTS = ("user-prompt", "before-tool", "after-tool", "stop", "session-start")


def run(command: list[str], given: bytes, env: dict[str, str], cwd: Path) -> tuple[float, float, bytes]:
    """Seconds on the clock and on the processor, and what was printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *command], input=given, env=env, cwd=cwd, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def wait_for_workers() -> None:
    """Wait for the detached processes that hooks have started: they write in the folder that is removed next."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def find_medians(rows: list[tuple[float, float, bytes]]) -> tuple[float, float]:
    return statistics.median(wall for wall, *_ in rows), statistics.median(cpu for _, cpu, _ in rows)


def write_triggers(memory: Path, count: int) -> None:
    """Write memories with eight triggers each: expressions for commands and text, and globs."""
    for number in range(0, count, 8):
        commands = [f"deploy-{number}-{one}.*--force" for one in range(3)]
        content = [rf"(fetch|load)_{number}_{one}\\(" for one in range(3)]
        when = {"paths": [f"src/part{number}/**", f"**/step_{number}.py"], "commands": commands, "content": content}
        text = f"---\nname: Rule {number}\ndescription: What to do at step {number} of a deploy\ntype: feedback\nwhen: {json.dumps(when)}\n---\n\nAsk.\n"
        (memory / f"rule-{number}.md").write_text(text, "utf-8")


def make_given(event: str, number: int, query: str, project: Path) -> bytes:
    table = {
        "session_id": f"{'user-prompt' if event == 'before-tool' else event}-{number}",
        "cwd": str(project),
        "prompt": query,
        "source": "startup",
        **(TOOLS[number % len(TOOLS)] if event == "before-tool" else TOOLS[0]),
    }
    return json.dumps(table).encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=0)
    parser.add_argument("--triggers", type=int, default=1_000)
    options = parser.parse_args()
    is_linux = sys.platform == "linux"
    if is_linux:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=not is_linux) as folder:
        home, project = Path(folder) / "home", Path(folder) / "project"
        home.mkdir()
        project.mkdir()
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env = {**env, "HOME": str(home), "MEMDIR_HOOK_PATIENCE": "60"}
        where = run(["-P", "-m", "memdir", "where", "--json"], b"", env, project)[2]
        memory = Path(json.loads(where)["private"]["path"])
        write_files(memory, options.files)
        write_triggers(memory, options.triggers)
        (memory / ".memdir" / "sessions").mkdir(parents=True)
        for number in range(options.records):
            record = memory / ".memdir" / "sessions" / f"past-{number}.json"
            record.write_text(json.dumps({"surfaced": {}, "read": [], "ignoring": False, "private": False}), "utf-8")
        queries = make_queries(50)

        def call(event: str, number: int) -> tuple[float, float, bytes]:
            given = make_given(event, number, queries[number % len(queries)], project)
            return run(["-P", "-c", SCRIPT, "hook", event], given, env, project)

        for event in EVENTS:
            call(event, -1)  # the index is built, and every module is compiled
        others = {event: [call(event, number) for number in range(20)] for event in EVENTS[2:]}
        base, prompts, actions = [], [], []
        for number in range(options.runs):
            prompts.append(call("user-prompt", number))
            if number % 5 == 0:  # in a conversation with a prompt, by whose ranking the words are compared
                actions.append(call("before-tool", number // 5))
            if number % 10 == 0:
                base.append(run(["-c", BASE], b"", env, project))
        with_memories = sum(bool(output) for *_, output in prompts)
        wait_for_workers()
    walls = sorted(wall for wall, *_ in prompts)
    median, tail = statistics.median(walls), walls[int(len(walls) * 0.99)]
    bare, bare_cpu = find_medians(base)
    print(f"{options.files:,} memories, {options.runs:,} prompts, {with_memories:,} of them with memories\n")
    print("| event | ms | × bare | processor ms | × bare |\n|---|---|---|---|---|")
    rows_of = {"bare python": base, "user-prompt": prompts, "before-tool": actions, **others}
    for event, rows in rows_of.items():
        wall, cpu = find_medians(rows)
        print(f"| {event} | {wall * 1000:.0f} | {wall / bare:.1f} | {cpu * 1000:.0f} | {cpu / bare_cpu:.1f} |")
    ratio, spread = median / bare, tail / median
    action = find_medians(actions)[0] / bare
    goal = 6 if options.files >= 100_000 else 4
    print(
        f"\nmedian ÷ bare {ratio:.2f} (goal {goal}), p99 ÷ median {spread:.2f} (goal 3), before a tool {action:.2f} (goal 2.2)"
    )
    return int(ratio > goal or spread >= 3 or action > 2.2)


if __name__ == "__main__":
    sys.exit(main())
