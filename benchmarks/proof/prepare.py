"""Prepare episodes: a folder for the agent under a random name, and its state elsewhere.

A task folder has `repo/` (with the failing test), `report.md`, `task.json` (`visible`, `keep`, `hidden`: test files), `hidden/`
(files to copy over the repository for grading), `decision.md` and `conversations/*.json` (lists of role and text). Instead of
tests it may have `check.py` (`grading.py`); `setup.sh` runs in the repository; `memories/` are those of this task alone.
"""

import json
import os
import random
import secrets
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proof.arms import ARMS, dump_talk, render_added
from proof.learning import copy_memory, read_conversations

HERE = Path(__file__).parent
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".pytest_cache", "*.pyc")


@dataclass(frozen=True)
class Block:
    """Episodes of one kind: each task once with each arm. `memories` is the memory folder of arms with hooks."""

    name: str
    tasks: Path
    arms: Sequence[str]
    replay: int = 1
    reports: Path | None = None
    memories: Path | None = None
    decoys: Path | None = None
    only: Sequence[str] = ()
    series: bool = False  # a helper may play several of these episodes, of one arm
    selector: Mapping[str, str] = field(default_factory=dict)  # the environment of arms whose model selects


@dataclass(frozen=True)
class Work:
    folder: Path
    play: Path
    memdir: Sequence[str]
    python: str
    hidden: Sequence[str]

    @property
    def states(self) -> Path:
        return self.folder / "state"


def prepare(work: Work, block: Block) -> list[str]:
    """Prepare a block and add it to the queue, in random order. Returns the folders."""
    tasks = sorted(path for path in block.tasks.iterdir() if (path / "task.json").exists())
    tasks = [task for task in tasks if not block.only or task.name in block.only]
    pairs = [(task, arm) for task in tasks for arm in block.arms]
    random.Random(f"{block.name}-{block.replay}").shuffle(pairs)
    queue = work.folder / "QUEUE.tsv"
    number = len(queue.read_text(encoding="utf-8").splitlines()) if queue.exists() else 0
    folders = []
    for task, arm in pairs:
        number += 1
        folder = _prepare_episode(work, block, task, arm, number)
        with queue.open("a", encoding="utf-8") as file:
            file.write(f"{number}\t{folder}\n")
        folders.append(str(folder))
    return folders


def _prepare_episode(work: Work, block: Block, task: Path, arm: str, number: int) -> Path:
    token = secrets.token_hex(4)
    folder, state = work.play / token, work.states / token
    repo, home = folder / "repo", folder / "home"
    shutil.copytree(task / "repo", repo, ignore=_LEFT_OUT)
    home.mkdir()
    state.mkdir(parents=True, mode=0o700)
    git = ["git", "-C", str(repo)]
    who = ["config", "user.name", "dev"], ["config", "user.email", "dev@example.com"]
    for command in (["init", "-q", "-b", "main", "."], *who, ["add", "-A"], ["commit", "-q", "-m", "As it is"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    if (task / "setup.sh").exists():
        subprocess.run(["sh", str(task / "setup.sh")], cwd=repo, check=True, capture_output=True)
    (repo / ".git" / "info" / "exclude").write_text("__pycache__/\n*.pyc\n.pytest_cache/\n", encoding="utf-8")
    source = task / "report.md" if block.reports is None else block.reports / f"{task.name}.md"
    report = source.read_text(encoding="utf-8")
    talks = read_conversations(block.tasks, block.decoys) if ARMS[arm].text in ("files", "bm25") else []
    talks = [(f"{place:03d}", talk) for place, (_, talk) in enumerate(talks, 1)]  # the names tell too much
    decision = task / "decision.md"
    added = render_added(ARMS[arm], report, talks, decision.read_text(encoding="utf-8") if decision.exists() else "")
    (state / "report.md").write_text(report, encoding="utf-8")
    (state / "added.md").write_text(added, encoding="utf-8")
    if ARMS[arm].text == "files":
        (folder / "conversations").mkdir()
        for name, talk in talks:
            (folder / "conversations" / f"{name}.json").write_text(dump_talk(talk), encoding="utf-8")
    environment = {"MEMDIR_MODEL": "none", "MEMDIR_HOOK_PATIENCE": "20"}
    memories = task / "memories" if (task / "memories").is_dir() else block.memories
    if ARMS[arm].hooks and memories is not None:
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment}
        copy_memory(memories, home, repo, work.memdir, env)
        # A person's index is up to date before the session starts.
        subprocess.run([*work.memdir, "recall", "the weather"], cwd=repo, env=env, check=False, capture_output=True)
    base = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    facts = {
        "episode": number,
        "base": base,
        "block": block.name,
        "task": task.name,
        "arm": arm,
        "replay": block.replay,
        "folder": str(folder),
        "session": str(uuid.uuid4()),
        "memdir": list(work.memdir),
        "python": work.python,
        "hidden": list(work.hidden),
        "environment": environment | (dict(block.selector) if ARMS[arm].selects else {}),
        "source": str(task),
        "series": block.series,
    }
    (state / "episode.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    shutil.copy(HERE / "TASK.md", folder / "TASK.md")
    stub = (
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(HERE))} agent {shlex.quote(str(state))} "$@"\n'
    )
    (folder / "agent").write_text(stub, encoding="utf-8")
    (folder / "agent").chmod(0o755)
    return folder


def list_queue(work: Work) -> list[str]:
    """Return a line for each queued episode: its folder, and whether it has begun and ended."""
    lines = []
    for row in (work.folder / "QUEUE.tsv").read_text(encoding="utf-8").splitlines():
        folder = row.split("\t")[1]
        log = work.states / Path(folder).name / "log.jsonl"
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        state = "ended" if '"verb": "done"' in text else "begun" if text else "not begun"
        lines.append(f"{folder}  {state}")
    return lines
