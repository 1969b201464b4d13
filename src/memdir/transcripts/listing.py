"""All transcripts of one project: those whose recorded working directory has its canonical root.

The folder names of the hosts are lossy and go by working directory, so every transcript is asked for its own. Worktrees
and subfolders lead to the root they belong to; a worktree that is gone does so only where it lay inside its project.
Subagents' transcripts and compressed rollouts (.zst) are left out.

What it does not do: remember what it found. A scan of a thousand transcripts takes a fraction of a second, and who asks
often keeps count himself.
"""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from memdir.errors import MemdirError
from memdir.gitroot import find_root
from memdir.settings import Environment
from memdir.transcripts.formats import TranscriptInfo, describe, is_agent_file

_GEMINI_CHATS = "chats"  # tmp/<project>/chats/session-*.jsonl
_CODEX_DEPTH = 4  # sessions/YYYY/MM/DD/rollout-*.jsonl, archived ones lie flat


def list_transcripts(
    environment: Environment, root: Path, *, since: datetime | None = None
) -> tuple[TranscriptInfo, ...]:
    """The project's transcripts, oldest first by their last record; with `since` those written to at or after it."""
    wanted = os.path.realpath(root)
    roots: dict[str, str] = {}
    found = []
    for path in _list_files(environment, since):
        try:
            info = describe(path)
        except MemdirError:  # gone since, closed to us, or no transcript
            continue
        if info.is_subagent or not os.path.isabs(info.cwd) or "\0" in info.cwd:
            continue
        if info.cwd not in roots:
            roots[info.cwd] = str(find_root(Path(info.cwd)).path)
        if roots[info.cwd] == wanted:
            found.append(info)
    return tuple(sorted(found, key=lambda info: (info.ended or info.modified, str(info.path))))


def _list_files(environment: Environment, since: datetime | None) -> Iterator[str]:
    after = since.timestamp() if since else None
    for folder in _list_folders(environment.claude_home / "projects"):
        yield from (path for path in _list_files_in(folder, after) if not is_agent_file(path))
    for name in ("sessions", "archived_sessions"):
        for folder in _walk(str(environment.codex_home / name), _CODEX_DEPTH):
            yield from (path for path in _list_files_in(folder, after) if os.path.basename(path).startswith("rollout-"))
    for folder in _list_folders(environment.gemini_home / "tmp"):
        yield from _list_files_in(os.path.join(folder, _GEMINI_CHATS), after)


def _walk(folder: str, depth: int) -> Iterator[str]:
    yield folder
    if depth > 1:
        for below in _list_folders(folder):
            yield from _walk(below, depth - 1)


def _list_folders(folder: str | Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _list_files_in(folder: str, after: float | None) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if _is_wanted(entry, after)]
    except OSError:
        return []


def _is_wanted(entry: os.DirEntry[str], after: float | None) -> bool:
    if not entry.name.endswith(".jsonl") or not entry.is_file(follow_symlinks=False):
        return False
    return after is None or entry.stat(follow_symlinks=False).st_mtime >= after
