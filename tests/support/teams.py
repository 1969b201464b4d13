"""Members of a team for tests: a bare remote, and projects that share it, each in a home of its own."""

import os
import subprocess
from functools import cached_property
from pathlib import Path

from clihelp import Cli
from memdir.store.open import Project, open_project
from memdir.sync.state import Membership, SyncResult
from memdir.sync.sync import enter, open_sync, sync

NOW = "2026-03-05T12:00:00+00:00"


def make_remote(tmp_path: Path, name: str = "remote.git") -> Path:
    return make_git_dir(tmp_path / name, "bare = true")


def make_git_dir(path: Path, *settings: str) -> Path:
    """An empty repository, without a process: most tests need three of them."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    lines = ["[core]", "repositoryformatversion = 0", *settings]
    (path / "config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def memory_text(title: str, *paragraphs: str, description: str = "Where the billing bugs are tracked") -> str:
    body = "\n\n".join(paragraphs or ("Text.",))
    return f"---\nname: {title}\ndescription: {description}\ntype: reference\n---\n\n{body}\n"


class Member:
    """One person's project below a home of their own."""

    def __init__(self, tmp_path: Path, name: str, remote: Path) -> None:
        self.name = name
        self.remote = remote
        self.cli = Cli(tmp_path / name, MEMDIR_AUTHOR=f"{name.title()} <{name}@example.org>")
        self.variables = self.cli.variables
        make_git_dir(self.cli.project / ".git", "bare = false", '[remote "origin"]', f"url = {remote}")

    def open(self) -> Project:
        return open_project(self.cli.project, environ=self.variables)

    @cached_property
    def memory(self) -> Path:
        return self.cli.memory

    @property
    def state(self) -> Path:
        return self.memory / ".memdir"

    def enter(self, *, create: bool = False, read_only: bool = False, review: bool = False) -> SyncResult:
        opened = self.open()
        try:
            # Named: a path that came with the folder is refused.
            member = Membership(str(self.remote), read_only=read_only, review=review)
            return enter(opened, member, now=opened.now(), create=create)
        finally:
            opened.close()

    def sync(self, *, seconds: float = 120) -> SyncResult:
        opened = self.open()
        try:
            return sync(open_sync(opened, seconds=seconds), now=opened.now())
        finally:
            opened.close()

    def write(self, name: str, text: str) -> None:
        """A file as somebody's editor leaves it."""
        path = self.memory / "team" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.memory / "team" / f"{name}.md").read_text(encoding="utf-8")

    def has(self, name: str) -> bool:
        return (self.memory / "team" / f"{name}.md").exists()

    def files(self) -> dict[str, str]:
        return read_team(self.memory)


def read_team(memory: Path) -> dict[str, str]:
    folder = memory / "team"
    return {str(at.relative_to(folder)): at.read_text(encoding="utf-8") for at in sorted(folder.rglob("*.md"))}


def make_team(tmp_path: Path, *names: str) -> list[Member]:
    """Members who all take part; the first has begun."""
    remote = make_remote(tmp_path)
    members = [Member(tmp_path, name, remote) for name in names]
    for number, member in enumerate(members):
        member.enter(create=number == 0)
    return members


def raw_git(
    cwd: Path, *arguments: str, given: bytes = b"", author: str = "Eve", email: str = "eve@example.org"
) -> bytes:
    """Git without any of our precautions, as an attacker uses it."""
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": author, f"GIT_{who}_EMAIL": email, f"GIT_{who}_DATE": "1772000000 +0000"}
    done = subprocess.run(["git", *arguments], cwd=cwd, env=env, input=given, capture_output=True, check=True)
    return done.stdout
