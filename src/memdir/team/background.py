"""A sync that nobody waits for: a process of its own, which outlives the one that began it."""

from collections.abc import Mapping
from pathlib import Path

from memdir.detach import start_detached


def start_sync(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Begin a sync for the project at `cwd`; answers its PID. If one is under way already, it ends at once.

    `arguments` are options of the whole program, `environ` the variables it gets, this process's own without them.
    """
    return start_detached(cwd, *arguments, "team", "sync", environ=environ)
