"""How many files of memdir a flow passes, and how often it changes file, counted by profiling real commands.

    python benchmarks/flows.py [--list]

Each flow is one process on a project of its own. A call of a function counts for the file it is defined in; loading a
module does not count, nor do `frozen`'s records and late patterns, which stand for the standard library's. A change of file is a call in another file than the call before it. `--list` names the files.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOW = "2026-03-05T12:00:00+00:00"
# Goals: files, and half of the changes of file that this program counted at commit 4124b66, before modules were merged.
GOALS = {
    "save": (25, 241),
    "prompt hook": (28, 320),
    "extract": (35, 2024),
    "dream": (35, 1418),
    "team sync": (20, 216),
}
PROFILED = """
import _thread, atexit, json, os, sys, threading
files, last, changes = {}, [""], [0]
left_out = ("frozen.py", "lazy.py", "once.py")
home = os.path.dirname(os.path.abspath(__import__("memdir").__file__)) + os.sep
def is_loading(frame):
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib") or (frame.f_code.co_name == "<module>" and name.startswith(home)):
            return True
        frame = frame.f_back
    return False
def count(frame, event, argument):
    if event == "call":
        code = frame.f_code
        name = code.co_filename
        if name.startswith(home) and not name.endswith(left_out) and not is_loading(frame):
            files[name] = files.get(name, 0) + 1
            if name != last[0]:
                last[0] = name
                changes[0] += 1
def report():
    sys.setprofile(None)
    loaded = [name for name in sys.modules if name == "memdir" or name.startswith("memdir.")]
    with open(os.environ["FLOW_REPORT"], "w", encoding="utf-8") as file:
        json.dump({"files": [name[len(home):] for name in files], "changes": changes[0], "loaded": len(loaded)}, file)
leave = os._exit
os._exit = lambda code: (report(), leave(code))
atexit.register(report)
start = _thread.start_new_thread
def run_profiled(function, arguments):
    sys.setprofile(count)
    function(*arguments)
_thread.start_new_thread = lambda function, arguments: start(run_profiled, (function, arguments))
threading.setprofile(count)
sys.setprofile(count)
from memdir.__main__ import main
main()
"""


class Flow:
    """A project with its memory in a temporary home, and a way to profile commands there."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.report = folder / "report.json"
        self.env = {"HOME": str(self.home), "PATH": os.environ["PATH"], "MEMDIR_NOW": NOW, "MEMDIR_HOOK_PATIENCE": "60"}
        self.env |= {"PYTHONPATH": str(ROOT / "src"), "FLOW_REPORT": str(self.report), "PYTHONDONTWRITEBYTECODE": "1"}
        self.env |= {"MEMDIR_AUTHOR": "Flow <flow@example.org>"}

    def run(self, *words: str, given: str = "", profiled: bool = False) -> str:
        start = ["-c", PROFILED] if profiled else ["-m", "memdir"]
        command = [sys.executable, *start, *words]
        done = subprocess.run(
            command, input=given, env=self.env, cwd=self.project, capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def save(self, name: str, text: str, kind: str = "project", *, profiled: bool = False) -> None:
        words = ["--type", kind, "--name", name, "--description", f"{text} {name}", "--body", f"{text}."]
        self.run("save", *words, profiled=profiled)


def make_memories(flow: Flow) -> None:
    texts = (
        "Deploys happen on Tuesdays only because support is staffed",
        "Deploys happen on Tuesdays only, because support is staffed then",
        "The billing tracker is the board called Ledger",
        "Invoices are rounded to full cents before tax",
        "Release branch is frozen from 2026-02-01 for the mobile release",
        "Search runs on a replica that lags some minutes",
        "Feature flags are named by team and quarter",
    )
    for number, text in enumerate(texts):
        flow.save(f"memory-{number}", text)


def save(flow: Flow) -> None:
    flow.save("first", "Invoices are rounded to full cents before tax")
    flow.save("second", "Search runs on a replica that lags some minutes", profiled=True)


def prompt_hook(flow: Flow) -> None:
    make_memories(flow)
    flow.run("recall", "when do deploys happen?")
    table = {"session_id": "s-1", "cwd": str(flow.project), "prompt": "when do deploys happen, and who is staffed?"}
    flow.run("hook", "user-prompt", given=json.dumps(table), profiled=True)


def extract(flow: Flow) -> None:
    make_memories(flow)
    said = (
        ("user", "Remember that the staging database is restored every Monday from production."),
        ("assistant", "I will."),
        ("user", "From now on never squash commits; we read the history of a branch when we look for faults."),
        ("assistant", "Understood."),
        ("user", "I am a data engineer and new to this code base."),
        ("assistant", "Good to know."),
    )
    path = flow.project / "chat.json"
    path.write_text(json.dumps([{"role": role, "content": text} for role, text in said]), encoding="utf-8")
    flow.run("extract", str(path), profiled=True)


def dream(flow: Flow) -> None:
    make_memories(flow)
    flow.run("dream", profiled=True)


def team_sync(flow: Flow) -> None:
    remote = flow.project.parent / "remote.git"
    for words in (["init", "-q", "--bare", str(remote)], ["init", "-q"], ["remote", "add", "origin", str(remote)]):
        subprocess.run(["git", *words], cwd=flow.project, env=flow.env, check=True, capture_output=True)
    flow.run("team", "init", "--remote", str(remote))
    flow.run(
        "save", "--scope", "team", "--type", "reference", "--name", "tracker",
        "--description", "Where the billing bugs are tracked", "--body", "On the board Ledger.",
    )  # fmt: skip
    flow.run("team", "sync", profiled=True)


FLOWS: dict[str, Callable[[Flow], None]] = {
    "save": save,
    "prompt hook": prompt_hook,
    "extract": extract,
    "dream": dream,
    "team sync": team_sync,
}


def measure(name: str) -> tuple[list[str], int, int]:
    """The files that a flow passed, its changes of file, and the memdir modules that were loaded."""
    with tempfile.TemporaryDirectory() as folder:
        flow = Flow(Path(folder))
        FLOWS[name](flow)
        found = json.loads(flow.report.read_text(encoding="utf-8"))
    return sorted(found["files"]), found["changes"], found["loaded"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the files")
    options = parser.parse_args()
    print("| flow | files (goal) | changes of file (goal) | modules loaded |")
    print("|---|--:|--:|--:|")
    missed = 0
    for name, (most_files, most_changes) in GOALS.items():
        files, changes, loaded = measure(name)
        missed += len(files) > most_files or changes > most_changes
        print(f"| {name} | {len(files)} ({most_files}) | {changes} ({most_changes}) | {loaded} |")
        if options.list:
            print("    " + " ".join(files))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
