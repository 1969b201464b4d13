"""How memdir grows: build, warm and cold queries, freshness and memory, beside a plain search of the files; commands
over a directory with a line of MEMORY.md for every memory; a dream without a model; and a queue of ended turns.

    python benchmarks/scale.py [--sizes 100,1000,10000,100000] [--no-semantic] [--turns 2000]

Times are medians of interleaved runs. "names" are queries that match the same number of files at every size, "words"
ordinary ones whose matches grow. Commands, dreams and turns are measured in seconds of the processor. The plain search is
ripgrep (`apt install ripgrep`), or git's own where there is none. The last table holds the ratios with their goals; the
exit code is 1 if one is missed.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from memdir.extraction.turns import ExtractOptions
from memdir.format.frontmatter import parse_fields
from memdir.format.index import render_line
from memdir.interfaces.worker import work
from memdir.recall.select import LocalSearch
from memdir.records import Query
from memdir.store.files import FileStore
from memdir.store.sessions import QueuedTurn, enqueue
from sentences import ODDEST_QUERY, PLANTED, make_queries, make_texts, write_files

RUNS = 20
QUERIES = 50
BASE = "import json, sqlite3"
DREAMT = 10_000  # files, beyond which a dream is not waited for
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Run apart, so that memory and time are those of a process that does this and nothing else.
BUILD = """
import json, resource, sys, time
from pathlib import Path
from memdir.recall.select import LocalSearch
from memdir.store.files import FileStore
start = time.perf_counter()
with FileStore(Path(sys.argv[1])) as store, LocalSearch([store], semantic=sys.argv[2] == "1") as search:
    count = search.refresh()
print(json.dumps([count, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
ASK = """
import json, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from memdir.records import Query
from memdir.recall.select import LocalSearch
from memdir.store.files import FileStore
with FileStore(Path(sys.argv[1])) as store, LocalSearch([store], semantic=sys.argv[2] == "1") as search:
    for text in sys.argv[3:]:
        search.search(Query(text, now=datetime.now(UTC)), 5)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured at one size; times in milliseconds, build in seconds, memory in MB."""

    files: int
    build: float
    build_memory: float
    index_size: float
    names: float
    words: float
    memory: float
    fresh: float
    walk: float
    cold: float
    base: float
    grep: float
    oldest_found: bool
    commands: Mapping[str, float]


def take_time(change: Callable[[], object]) -> float:
    start = time.perf_counter()
    change()
    return (time.perf_counter() - start) * 1000


def measure_queries(search: LocalSearch, texts: Sequence[str]) -> float:
    """Median over the queries; each after one that is not counted, so that no cache of the system is cold."""
    search.search(Query(texts[0], now=NOW), 5)
    return statistics.median(take_time(lambda at=text: search.search(Query(at, now=NOW), 5)) for text in texts)  # type: ignore[misc]


def walk_plainly(folder: Path) -> int:
    """What any tool must do to see that nothing has changed: one stat for each file."""
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                count += walk_plainly(Path(entry.path))
            else:
                count += entry.stat(follow_symlinks=False).st_size > 0
    return count


def measure_freshness(search: LocalSearch, folder: Path) -> tuple[float, float]:
    """The check that nothing has changed, and a plain walk of the same tree, one after the other."""
    fresh, walk = [], []
    for _ in range(RUNS):
        fresh.append(take_time(search.refresh))
        walk.append(take_time(lambda: walk_plainly(folder)))
    return statistics.median(fresh), statistics.median(walk)


def run_python(*arguments: str, env: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, *arguments], env=env, check=True, capture_output=True, encoding="utf-8")
    return done.stdout


def measure_cold(folder: Path, env: dict[str, str], extra: Sequence[str]) -> tuple[float, float]:
    """A whole `memdir recall` process over an unchanged directory, and a bare interpreter beside it."""
    texts = make_queries(RUNS)
    cold, base = [], []
    for text in texts:
        command = ["-m", "memdir", "--dir", str(folder), "recall", text, *extra]
        cold.append(take_time(lambda at=command: run_python(*at, env=env)))  # type: ignore[misc]
        base.append(take_time(lambda: run_python("-c", BASE, env=env)))
    return statistics.median(cold), statistics.median(base)


def make_grep(folder: Path, text: str) -> list[str]:
    """ripgrep, else git's own, for files with any of the words."""
    words = [word for word in text.rstrip("?").split() if len(word) > 3]
    tool = shutil.which("rg")
    start = [tool, "-l", "-i", "--no-ignore"] if tool else ["git", "grep", "--no-index", "-l", "-i"]
    return [*start, *(part for word in words for part in ("-e", word)), "--", str(folder) if tool else "."]


def measure_grep(folder: Path) -> float:
    times = []
    for text in make_queries(RUNS // 2):
        command = make_grep(folder, text)
        times.append(take_time(lambda at=command: subprocess.run(at, cwd=folder, stdout=subprocess.DEVNULL)))  # type: ignore[misc]
    return statistics.median(times)


def measure_commands(memory: Path, count: int, env: dict[str, str]) -> dict[str, float]:
    """Seconds of the processor for commands that are run as people run them, in a directory with a whole index."""
    heads = ((name.removesuffix(".md"), parse_fields(text)) for name, text in make_texts(count))
    lines = [f"{render_line(at.title, name, at.description)}\n" for name, at in heads]
    (memory / "MEMORY.md").write_text("".join(["# Memory\n\n", *lines]), encoding="utf-8")
    about = (
        "--type",
        "feedback",
        "--description",
        "The quay crane is painted red every spring",
        "--body",
        "It is red.",
    )

    def run(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_python("-m", "memdir", "--dir", str(memory), *words, env={**env, "MEMDIR_MODEL": "none"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    run("list", "--json")  # the headers are cached, and history knows every file
    kinds: dict[str, Callable[[int], tuple[str, ...]]] = {
        "save": lambda at: ("save", "--title", f"Quay crane {at}", *about),
        "edit": lambda at: ("edit", "oldest-0", "--description", f"When the ferry number {at} leaves"),
        "read": lambda at: ("read", "oldest-0"),
        "list": lambda at: ("list", "--json"),
        "undo": lambda at: ("undo",),
        "forget": lambda at: ("forget", f"quay-crane-{at}"),
    }
    made = {name: statistics.median([run(*words(at)) for at in range(3)]) for name, words in kinds.items()}
    return {**made, "dream": run("dream", "--preview", "--json") if count <= DREAMT else float("nan")}


def measure_turns(folder: Path, count: int) -> tuple[float, float]:
    """Milliseconds of the processor for a queued turn, each of a conversation of its own: the first and last hundred."""
    memory, done = folder / "queue" / "memory", list[float]()
    with FileStore(memory) as store:
        for number in range(count):
            path = folder / "queue" / f"{number}.jsonl"
            path.parent.mkdir(exist_ok=True)
            said = {"role": "user", "content": f"Please look at part {number}, its tests fail."}
            path.write_text(f"{json.dumps(said)}\n{json.dumps({'role': 'assistant', 'content': 'Done.'})}\n", "utf-8")
            enqueue(store.state, QueuedTurn(f"conversation-{number}", str(path)))
        start = time.process_time()
        on_done = lambda entry, result: done.append(time.process_time())  # noqa: E731
        work(store, options=ExtractOptions(), model=None, clock=lambda: NOW, on_done=on_done)
    times = [(after - before) * 1000 for before, after in pairwise([start, *done])]
    return statistics.median(times[:100]), statistics.median(times[-100:])


def measure(folder: Path, count: int, *, semantic: bool) -> Row:
    memory = folder / f"m{count}"
    home = folder / "home"
    home.mkdir(exist_ok=True)
    write_files(memory, count)
    # What an installed package has: compiled modules; here beside the index and not in the source tree.
    env = {**os.environ, "HOME": str(home), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    flag = "1" if semantic else "0"
    _, build, build_memory = json.loads(run_python("-c", BUILD, str(memory), flag, env=env))
    names = [" ".join(random.Random(at).sample(PLANTED, 2)) for at in range(QUERIES)]
    with FileStore(memory) as store, LocalSearch([store], semantic=semantic) as search:
        search.refresh()
        named, worded = measure_queries(search, names), measure_queries(search, make_queries(QUERIES))
        fresh, walk = measure_freshness(search, memory)
        first = search.search(Query(ODDEST_QUERY, now=NOW), 5).picks
    used = float(run_python("-c", ASK, str(memory), flag, *make_queries(5), env=env))
    cold, base = measure_cold(memory, env, [] if semantic else ["--no-semantic"])
    size = (memory / ".memdir" / "index.db").stat().st_size / 1e6
    grep = measure_grep(memory)
    found = bool(first) and first[0].header.name == "oldest-0"
    commands = measure_commands(memory, count, env)
    return Row(count, build, build_memory, size, named, worded, used, fresh, walk, cold, base, grep, found, commands)


def render(rows: Sequence[Row]) -> str:
    tool = "rg" if shutil.which("rg") else "git grep"
    head = f"files|build s|index MB|warm names ms|warm words ms|freshness ms|walk ms|cold ms|bare python ms|{tool} ms"
    lines = [f"| {' | '.join([*head.split('|'), 'RSS MB', 'RSS build MB', 'oldest found'])} |", "|" + "---|" * 13]
    for at in rows:
        cells = (
            f"{at.files:,}", f"{at.build:.1f}", f"{at.index_size:.1f}", f"{at.names:.1f}", f"{at.words:.1f}",
            f"{at.fresh:.1f}", f"{at.walk:.1f}", f"{at.cold:.0f}", f"{at.base:.0f}", f"{at.grep:.0f}",
            f"{at.memory:.0f}", f"{at.build_memory:.0f}", "yes" if at.oldest_found else "no",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    names = list(rows[0].commands)
    lines += ["", f"| files | {' | '.join(f'{name} s' for name in names)} |", "|" + "---|" * (len(names) + 1)]
    lines += [f"| {at.files:,} | {' | '.join(f'{at.commands[name]:.2f}' for name in names)} |" for at in rows]
    return "\n".join(lines)


def make_ratios(rows: Sequence[Row]) -> list[tuple[str, float, float, bool]]:
    """What the goals ask: name, ratio, goal, whether it is met."""
    by_size = {row.files: row for row in rows}
    made = []
    if at := by_size.get(10_000):
        made.append(("plain search ÷ warm query, 10,000 files (at least)", at.grep / at.words, 10.0, False))
        made.append(("cold recall ÷ bare python, 10,000 files", at.cold / at.base, 6.0, True))
        if least := by_size.get(100):
            made.append(("save at 10,000 ÷ save at 100", at.commands["save"] / least.commands["save"], 3.0, True))
        if less := by_size.get(1_000):  # n log n: 10 × log 10,000 ÷ log 1,000
            made.append(("dream at 10,000 ÷ dream at 1,000", at.commands["dream"] / less.commands["dream"], 13.3, True))
    if (large := by_size.get(100_000)) and (small := by_size.get(1_000)):
        made.append(("warm 100,000 ÷ 1,000, same number of matches", large.names / small.names, 5.0, True))
        made.append(("warm 100,000 ÷ 1,000, matches grow", large.words / small.words, 20.0, True))
    made += [(f"freshness ÷ scandir and stat, {at.files:,} files", at.fresh / at.walk, 3.0, True) for at in rows]
    return [(name, ratio, goal, ratio <= goal if less else ratio >= goal) for name, ratio, goal, less in made]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,1000,10000,100000")
    parser.add_argument("--no-semantic", action="store_true")
    parser.add_argument("--turns", type=int, default=2_000)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes.split(","):
            rows.append(measure(Path(folder), int(size), semantic=not options.no_semantic))
            shutil.rmtree(Path(folder) / f"m{size}")
        print(render(rows))
        first, last = measure_turns(Path(folder), options.turns)
    print(f"\n{options.turns:,} queued turns: {first:.1f} ms each at first, {last:.1f} ms at last")
    print("\n| ratio | measured | goal | met |\n|---|---|---|---|")
    ratios = [*make_ratios(rows), ("a queued turn, last ÷ first", last / first, 2.0, last <= 2 * first)]
    for name, ratio, goal, met in ratios:
        print(f"| {name} | {ratio:.1f} | {goal:.0f} | {'yes' if met else 'no'} |")
    return int(not all(met for *_, met in ratios) or not all(row.oldest_found for row in rows))


if __name__ == "__main__":
    sys.exit(main())
