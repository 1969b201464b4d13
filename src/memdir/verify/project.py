"""The project a memory speaks of: its files as git lists them, or a bounded walk outside git, and its state as a key.

Nothing of the repository is run or written: no hook, no monitor, no filter. Whether a file has changed is asked of
`stat`, not of git, because git would run a clean filter to know. What git ignores is not listed, but `has` looks for
it on the disk. A listing that is not whole says so: nothing may count as gone then.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from memdir.frozen import dataclass, replace
from memdir.gitroot import find_git_dir, run_git
from memdir.limits import VERIFY_FILES, VERIFY_GIT_SECONDS
from memdir.small_files import read_small

_ENTRY = re.compile(r"([HSMRCK?]) (?:(\d{6}) [0-9a-f]+ \d\t)?(.+)", re.DOTALL)
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", "target", "dist", "build"})
_CONFIG_BYTES = 262_144
_PLAIN_FILES = 20_000  # outside git the root may be somebody's home
_PLAIN_SECONDS = 5.0
_NO_LISTING = "git does not list the project's files: it is missing, too slow, or does not trust this folder"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its mode, size and time, by which a change is seen."""

    path: str
    mode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Project:
    """`commit` is empty outside git and before the first commit. `inner` are folders whose files are not listed.

    `key` is the same as long as no listed file and no commit has changed. `problem` says why there is no listing.
    """

    root: Path
    entries: dict[str, Entry]
    folders: frozenset[str]
    commit: str
    key: str
    inner: tuple[str, ...] = ()
    is_git: bool = False
    is_whole: bool = True
    problem: str = ""

    def has(self, path: str) -> bool:
        """Whether there is such a file or folder, ignored ones included; nothing outside the root."""
        bare = path.strip("/")
        if bare in self.entries or bare in self.folders:
            return True
        if not bare or "\0" in bare or ".." in bare.split("/"):
            return False
        place = f"{self.root}/{bare}"
        inside = os.path.realpath(os.path.dirname(place))
        root = os.path.realpath(self.root)
        return (inside == root or inside.startswith(f"{root}/")) and os.path.lexists(place)


def open_project(root: Path, seconds: float = VERIFY_GIT_SECONDS) -> Project:
    """List a project. Never fails: where git does not answer, the listing is empty and not whole."""
    ends = time.monotonic() + seconds
    if find_git_dir(root) is None:
        return _make(root, *_walk(root, min(ends, time.monotonic() + _PLAIN_SECONDS)), is_git=False)
    code, output = run_git(root, ("ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard"), seconds)
    if code != 0:
        return replace(_make(root, {}, (), False, is_git=True), problem=_NO_LISTING)
    head, commit = run_git(
        root, ("rev-parse", "--verify", "--quiet", "HEAD^{commit}"), max(0.1, ends - time.monotonic())
    )
    entries, inner, is_whole = _read_listing(root, output)
    return _make(root, entries, inner, is_whole, commit=commit.strip() if head == 0 else "", is_git=True)


def has_partial_history(root: Path) -> bool:
    """Whether git would have to ask a server for some of its objects: then history is not looked at."""
    folder = find_git_dir(root)
    config = read_small(folder / "config", _CONFIG_BYTES).data if folder else None
    return config is None or b"promisor" in config.lower() or b"partialclone" in config.lower()


def _read_listing(root: Path, output: str) -> tuple[dict[str, Entry], tuple[str, ...], bool]:
    entries: dict[str, Entry] = {}
    inner: list[str] = []
    listed = output.split("\0")
    for line in listed[:VERIFY_FILES]:
        match = _ENTRY.match(line)
        if match is None:
            continue
        tag, mode, path = match.groups()
        if mode == "160000" or path.endswith("/"):
            inner.append(path.rstrip("/"))
        elif found := _look(root, path):
            entries[path] = found
        elif tag == "S":  # a sparse checkout leaves it out; it is there all the same
            entries[path] = Entry(path, 0, 0, 0)
    return entries, tuple(inner), len(listed) <= VERIFY_FILES


def _walk(root: Path, ends: float) -> tuple[dict[str, Entry], tuple[str, ...], bool]:
    entries: dict[str, Entry] = {}
    top = len(str(root).rstrip("/")) + 1
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in names:
            path = os.path.join(place, name)[top:]
            if found := _look(root, path):
                entries[path] = found
        if len(entries) > _PLAIN_FILES or time.monotonic() > ends:
            return entries, (), False
    return entries, (), True


def _look(root: Path, path: str) -> Entry | None:
    try:
        at = os.lstat(f"{root}/{path}")
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(at.st_mode) else Entry(path, at.st_mode, at.st_size, at.st_mtime_ns)


def _make(
    root: Path, entries: dict[str, Entry], inner: tuple[str, ...], is_whole: bool, *, commit: str = "", is_git: bool
) -> Project:
    folders = frozenset(_list_folders(entries)) | frozenset(inner)
    digest = hashlib.sha256(f"{root}\0{commit}\0".encode("utf-8", "replace"))
    for path in sorted(entries):
        at = entries[path]
        digest.update(f"{path}\0{at.size} {at.mtime_ns} {at.mode}\0".encode("utf-8", "replace"))
    return Project(root, entries, folders, commit, digest.hexdigest()[:32], inner, is_git, is_whole)


def _list_folders(paths: dict[str, Entry]) -> Iterator[str]:
    seen: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in seen:
            seen.add(folder)
            yield folder
            folder = folder.rpartition("/")[0]
