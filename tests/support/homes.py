"""A home of its own for a test: nothing of the machine's settings reaches it, and git works in it."""

import os
import subprocess
from pathlib import Path

from memdir.project.settings import Environment, read_environment


def make_environment(tmp_path: Path, **variables: str) -> Environment:
    """An environment whose every directory lies in `tmp_path`."""
    home = tmp_path / "home" / "me"
    home.mkdir(parents=True, exist_ok=True)
    return read_environment({"HOME": str(home), **variables}, policy_file=tmp_path / "policy" / "managed-settings.json")


def write(path: Path, text: str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def git(cwd: Path, *arguments: str) -> str:
    """Run the real git, untouched by the person's own configuration."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "memdir tests",
        "GIT_AUTHOR_EMAIL": "tests@memdir.invalid",
        "GIT_COMMITTER_NAME": "memdir tests",
        "GIT_COMMITTER_EMAIL": "tests@memdir.invalid",
    }
    quiet = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *quiet, *arguments], cwd=cwd, env=env, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    return done.stdout.strip()


def make_repository(path: Path) -> Path:
    """A repository with one commit."""
    path.mkdir(parents=True)
    git(path, "init", "-q")
    write(path / "readme.txt", "hello\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path
