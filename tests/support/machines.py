"""Machines of one person for tests: homes of their own, clones of the same projects at different paths, one remote."""

import os
import shutil
from pathlib import Path

from clihelp import NOW, Cli, Result
from memdir.store.open import Project, open_project
from memdir.sync import own
from memdir.sync.state import SyncResult
from teams import make_git_dir

ADDRESS = "https://git.example.org/me/{}.git"


def add_clone(path: Path, name: str, *, scheme: str = ADDRESS) -> Path:
    """A clone of the project `name`, without a process: its remote is what says which project it is."""
    path.mkdir(parents=True)
    make_git_dir(path / ".git", "bare = false", '[remote "origin"]', f"url = {scheme.format(name)}")
    return path


class Machine:
    """One machine: a home, and a clone of the project `app` where only this machine has it."""

    def __init__(self, tmp_path: Path, name: str, remote: Path) -> None:
        self.name, self.remote = name, remote
        self.cli = Cli(tmp_path / name, MEMDIR_AUTHOR=f"{name.title()} <{name}@example.org>")
        shutil.rmtree(self.cli.project)
        self.projects = self.cli.home / f"src-{name}"
        self.app = add_clone(self.projects / "app", "app")
        self.variables = {**self.cli.variables, "MEMDIR_NOW": NOW}

    def __call__(self, *argv: str, cwd: Path | None = None) -> Result:
        return self.cli(*argv, cwd=cwd or self.app)

    def open(self, cwd: Path | None = None) -> Project:
        return open_project(cwd or self.app, environ=self.variables)

    def init(self, *options: str) -> Result:
        done = self("sync", "init", str(self.remote), *options)
        assert done.code == 0, (done.out, done.err)
        return done

    def sync(self, cwd: Path | None = None) -> SyncResult:
        opened = self.open(cwd)
        try:
            return own.sync_own(opened, now=opened.now(), seconds=120)
        finally:
            opened.close()

    def memory(self, cwd: Path | None = None) -> Path:
        opened = self.open(cwd)
        opened.close()
        return opened.private.root

    @property
    def user(self) -> Path:
        return self.cli.home / ".claude" / "memory"

    def write(self, name: str, text: str, cwd: Path | None = None) -> Path:
        """A file as an agent leaves it."""
        path = self.memory(cwd) / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def save(self, name: str, body: str = "Tuesdays.", *options: str, cwd: Path | None = None) -> None:
        said = f"Deploys of {name} happen on Tuesdays only"
        words = ["--type", "feedback", "--name", name, "--description", said, "--body", body]
        done = self("save", *words, *options, cwd=cwd)
        assert done.code == 0, done.err

    def files(self, cwd: Path | None = None) -> dict[str, str]:
        return read_memories(self.memory(cwd))


def read_memories(folder: Path) -> dict[str, str]:
    """Every memory and the index, without what stays on a machine."""
    found = {}
    for at in sorted(folder.rglob("*.md")):
        path = str(at.relative_to(folder))
        if not path.startswith((".memdir", "team" + os.sep, "logs" + os.sep)):
            found[path] = at.read_text(encoding="utf-8")
    return found
