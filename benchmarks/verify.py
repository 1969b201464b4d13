"""How right and how fast verification is, on releases of real projects and on a project of ten thousand files.

    python benchmarks/verify.py releases [--keep FOLDER]     three projects from pip and npm, a commit for each release
    python benchmarks/verify.py repo PATH OLD NEW LANGUAGE   a repository with its real history
    python benchmarks/verify.py scale [--files 10000]        times beside `git grep` of one word

Things are taken from the oldest release with a parser (Python's own, tree-sitter for the rest); the truth about each is
what git's rename detection and the parser say of the newest. The verifier itself uses neither.
"""

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from memdir.store.files import FileStore
from memdir.verify.check import verify
from memdir.verify.claims import find_claims
from memdir.verify.lookup import LookupContext, check_claims
from memdir.verify.project import open_project
from verify_data import Thing, import_commits, make_project
from verify_memories import write_memories
from verify_parsed import read_definitions
from verify_score import Score, score_claims, score_verdicts

NOW = datetime(2026, 11, 16, tzinfo=UTC)
RELEASES: Mapping[str, tuple[str, Sequence[str]]] = {
    "click (Python)": ("pip", ("click==6.7", "click==7.1.2", "click==8.0.4", "click==8.1.7")),
    "express (JavaScript)": ("npm", ("express@3.21.2", "express@4.18.2", "express@5.1.0")),
    "psutil (C)": ("pip", ("psutil==5.4.8", "psutil==5.9.8", "psutil==6.1.1", "psutil==7.1.3")),
}
LANGUAGES = {"click (Python)": "python", "express (JavaScript)": "javascript", "psutil (C)": "c"}
ENDINGS = {"python": ".py", "javascript": ".js", "c": ".c", "go": ".go"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    releases = verbs.add_parser("releases")
    releases.add_argument("--keep", type=Path)
    repo = verbs.add_parser("repo")
    for name in ("path", "old", "new", "language"):
        repo.add_argument(name)
    scale = verbs.add_parser("scale")
    scale.add_argument("--files", type=int, default=10_000)
    given = parser.parse_args()
    if given.verb == "scale":
        return measure_scale(given.files)
    with tempfile.TemporaryDirectory() as folder:
        if given.verb == "repo":
            root = Path(folder) / "repo"
            clone(Path(given.path), root, given.new)
            return show(score_repository(root, given.old, given.new, given.language, 70), given.path)
        return measure_releases(given.keep or Path(folder))


def measure_releases(folder: Path) -> int:
    total = Score()
    for name, (tool, wanted) in RELEASES.items():
        root = folder / name.split()[0]
        if not root.exists():
            snapshots = [(at, download(tool, at, folder / "packages")) for at in wanted]
            import_commits(root, snapshots)
        first = run("git", "-C", str(root), "rev-list", "--max-parents=0", "HEAD").strip()
        score = score_repository(root, first, "HEAD", LANGUAGES[name], 50)
        show(score, name)
        add(total, score)
    root = folder / "own"
    if root.exists():
        shutil.rmtree(root)
    own = score_things(root, make_project(root, 99), 50, held_out=True)
    show(own, "own history (held-out templates)")
    add(total, own)
    return show(total, "all")


def download(tool: str, package: str, folder: Path) -> dict[str, str]:
    """The text files of one release, by path."""
    place = folder / package.replace("/", "-")
    place.mkdir(parents=True, exist_ok=True)
    if not list(place.iterdir()):
        if tool == "pip":
            quiet = ("-q", "--no-deps", "--no-binary", ":all:")
            command = [sys.executable, "-m", "pip", "download", *quiet, "-d", str(place), package]
        else:
            command = ["npm", "pack", "--silent", "--pack-destination", str(place), package]
        subprocess.run(command, check=True, capture_output=True)
    files: dict[str, str] = {}
    with tarfile.open(next(place.iterdir())) as archive:
        for member in archive:
            data = archive.extractfile(member) if member.isfile() else None
            path = member.name.partition("/")[2]
            if data is not None and path and ".egg-info/" not in path and path != "PKG-INFO":
                try:
                    files[path] = data.read().decode("utf-8")
                except UnicodeDecodeError:
                    continue
    return files


# --- truth ----------------------------------------------------------------------------------------------------------


def score_repository(root: Path, old: str, new: str, language: str, count: int) -> Score:
    rng = random.Random(3)
    things = [*sample_paths(root, old, new, rng), *sample_symbols(root, old, new, language, rng)]
    return score_things(root, things, count, held_out=True)


def score_things(root: Path, things: Sequence[Thing], count: int, *, held_out: bool) -> Score:
    score = Score()
    memories = write_memories(things, count, held_out=held_out)
    claims = [find_claims(memory.text) for memory in memories]
    flat = [claim for found in claims for claim in found]
    answers = iter(check_claims(flat, open_project(root), LookupContext(NOW.date()), seconds=120))
    for memory, found in zip(memories, claims, strict=True):
        checked = [next(answers) for _ in found]
        score_claims(score, memory, checked)
        score_verdicts(score, memory, checked)
    return score


def sample_paths(root: Path, old: str, new: str, rng: random.Random) -> list[Thing]:
    """Files of the old commit: where history's own renames lead each, commit by commit."""
    now = set(list_files(root, new))
    where = {path: path for path in list_files(root, old)}
    at = {path: path for path in where}
    wanted = ("--reverse", "-M", "-l1000", "--no-merges", "--diff-filter=DR", "--name-status", "--format=")
    log = run("git", "-C", str(root), "log", *wanted, f"{old}..{new}", "--")
    for line in log.splitlines():
        status, *paths = line.split("\t")
        origin = at.pop(paths[0], None) if paths else None
        if origin is not None and status.startswith("R"):
            at[paths[1]] = origin
            where[origin] = paths[1]
    things = []
    for path in [at for at in where if "/" in at or "." in at]:
        if path in now:
            things.append(Thing("path", path))
        elif where[path] in now:
            things.append(Thing("path", path, "moved", where[path], renamed=True))
        else:
            things.append(Thing("path", path, "gone"))
    return choose(things, {"present": 25, "moved": 40, "gone": 20}, rng)


def sample_symbols(root: Path, old: str, new: str, language: str, rng: random.Random) -> list[Thing]:
    """Functions, classes and members of the old commit: whether the parser still finds them defined in the new one."""
    before = read_all(root, old, language)
    after = read_all(root, new, language)
    names = {word for found in after.values() for at in found for word in at.split(".")}
    owners: dict[str, set[str]] = {}
    for path, found in after.items():
        for at in found:
            owners.setdefault(at.split(".")[0], set()).add(path)
    things: dict[str, Thing] = {}
    for found in before.values():
        for at in sorted(found):
            owner, _, member = at.rpartition(".")
            if len(member) < 5 or member.startswith("__") or member.isupper():
                continue
            if not owner:
                things[at] = Thing("symbol", at, "present" if at in names else "gone")
            elif owner not in names or member not in names:
                things[at] = Thing("symbol", at, "gone")
            elif any(at in defined for defined in after.values()):
                things[at] = Thing("symbol", at)
            elif not any(member in name.split(".") for path in owners[owner] for name in after[path]):
                things[at] = Thing("symbol", at, "gone")
    return choose(list(things.values()), {"present": 60, "gone": 60}, rng)


def choose(things: Sequence[Thing], most: Mapping[str, int], rng: random.Random) -> list[Thing]:
    kept: list[Thing] = []
    for status, count in most.items():
        some = sorted((at for at in things if at.status == status), key=lambda at: at.text)
        kept += rng.sample(some, min(count, len(some)))
    return kept


def read_all(root: Path, commit: str, language: str) -> dict[str, set[str]]:
    found = {}
    for path in list_files(root, commit):
        if path.endswith(ENDINGS[language]) or (language == "c" and path.endswith(".h")):
            found[path] = read_definitions(run("git", "-C", str(root), "show", f"{commit}:{path}"), language)
    return found


def list_files(root: Path, commit: str) -> list[str]:
    return run("git", "-C", str(root), "ls-tree", "-r", "-z", "--name-only", commit).rstrip("\0").split("\0")


def clone(source: Path, root: Path, commit: str) -> None:
    run("git", "clone", "-q", "--no-hardlinks", "--no-checkout", str(source), str(root))
    run("git", "-C", str(root), "checkout", "-q", "--detach", commit)


def run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "replace")


def add(total: Score, score: Score) -> None:
    for name in ("found", "right", "made", "judged", "correct", "renames", "followed", "alarms", "false_alarms"):
        setattr(total, name, getattr(total, name) + getattr(score, name))


def show(score: Score, name: str) -> int:
    print(f"{name}: {score.render()}")
    for line, count in Counter(score.wrong).most_common(12):
        print(f"    {count} x {line}")
    return int(score.precision < 0.95 or score.recall < 0.95 or score.accuracy < 0.95 or score.rename_share < 0.8)


# --- time -----------------------------------------------------------------------------------------------------------


def measure_scale(count: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        root, memory = Path(folder) / "project", Path(folder) / "memory"
        things = make_large(root, count)
        memory.mkdir()
        for written in write_memories(things, 100):
            (memory / f"{written.name}.md").write_text(written.text, encoding="utf-8")
        grep = take(lambda: run("git", "-C", str(root), "grep", "-l", "-w", things[0].text), 9)
        with FileStore(memory) as store:
            first = take(lambda: verify(store, root, now=NOW), 1)
            again = take(lambda: verify(store, root, now=NOW), 9)
            report = verify(store, root, now=NOW)
        states = Counter(at.state.value for at in report.verdicts)
        print(f"{count} files, 100 memories {dict(states)}: git grep {grep * 1e3:.0f} ms, first {first:.2f} s "
              f"({first / grep:.1f} x), again {again * 1e3:.0f} ms ({again / grep:.2f} x)")  # fmt: skip
    return int(first > 60 * grep or again > 4 * grep)


def make_large(root: Path, count: int) -> list[Thing]:
    """A project of so many files of about 150 lines, two commits, with words like those of real code."""
    rng = random.Random(5)
    words = [
        f"{one}{two.capitalize()}{three.capitalize()}"
        for one in SYLLABLES
        for two in SYLLABLES
        for three in SYLLABLES[:12]
    ]
    files = {}
    things = []
    for number in range(count):
        name = f"{rng.choice(words)}N{number}"
        lines = [
            f"  const {rng.choice(words)} = {rng.choice(words)}({rng.choice(words)}, {rng.randint(1, 999)});"
            for _ in range(150)
        ]
        path = f"src/part{number % 97}/unit{number}.ts"
        files[path] = f"export function {name}(x: number) {{\n" + "\n".join(lines) + "\n}\n"
        if number % 50 == 0:
            things += [Thing("symbol", name), Thing("path", path)]
    before = {**files, "src/old.ts": "export function vanishedLongAgo(x: number) {\n  return x;\n}\n"}
    import_commits(root, [("first", before), ("second", files)])
    return [*things, Thing("symbol", "vanishedLongAgo", "gone"), Thing("path", "src/old.ts", "gone")]


SYLLABLES = (
    "load parse render merge fetch build check store index split order rotate encode queue trace batch draft cache"
).split()


def take(work: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


if __name__ == "__main__":
    raise SystemExit(main())
