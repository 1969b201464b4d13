"""Looking at and reading one file whose path somebody else wrote.

A path is judged by where it really leads, and then opened there: from the file system's root, one folder after
the other, following no link. A link put in between the two steps makes the second one fail; it leads nowhere.

It does not decide which files may be read; `loading` does, with what it learns here.
"""

import errno
import os
import stat
from pathlib import PurePosixPath

from memdir import guard
from memdir.errors import PathError
from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES
from memdir.project_files.loaded import Reason

# O_PATH needs no right to list a folder, only to pass through it.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | guard.CLOEXEC
# Files of the kernel, which only look like files; and folders where a mere look can mount something from far away.
_KERNEL = ("/proc", "/sys", "/dev", "/net", "/afs")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a path leads, and why the file there cannot be read: None if nothing speaks against it yet."""

    real: str
    problem: Reason | None = None


def find_target(path: str) -> Target:
    """Where a path leads and what is there, without opening it."""
    plain = os.path.normpath(path)
    if is_kernel(plain):
        return Target(plain, Reason.SPECIAL)
    real = find_real(path)
    if real is None:
        return Target(plain, Reason.UNREADABLE)
    if is_kernel(real):
        return Target(real, Reason.SPECIAL)
    try:
        facts = os.lstat(real)
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
        return Target(real, Reason.MISSING if gone else Reason.UNREADABLE)
    return Target(real, _find_problem(facts))


def find_real(path: str) -> str | None:
    """A path with all its links followed; None for a chain without end, or one that changes under our eyes."""
    try:
        return os.path.realpath(path)
    except (OSError, RecursionError):
        return None


def read_bytes(real: str) -> bytes | Reason:
    """The bytes of a regular file at a path without links, or why not; a larger one is not read to its end."""
    try:
        folder = os.open("/", _PASS)
        try:
            *folders, leaf = PurePosixPath(real).parts[1:]
            for name in folders:
                following = os.open(name, _PASS | guard.NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = following
            with guard.open_plain(folder, leaf, real) as handle:
                return _read_within(handle)
        finally:
            os.close(folder)
    except (OSError, PathError):
        return Reason.UNREADABLE


def is_kernel(path: str) -> bool:
    return any(is_below(path, tree) for tree in _KERNEL)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies in it; both without links."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def _find_problem(facts: os.stat_result) -> Reason | None:
    if stat.S_ISDIR(facts.st_mode):
        return Reason.FOLDER
    if stat.S_ISLNK(facts.st_mode):
        return Reason.UNREADABLE  # a link that still stands after all were followed leads in a circle
    if not stat.S_ISREG(facts.st_mode):
        return Reason.SPECIAL
    return Reason.TOO_LARGE if facts.st_size > FILE_BYTES else None


def _read_within(handle: int) -> bytes | Reason:
    chunks: list[bytes] = []
    left = FILE_BYTES + 1
    while left > 0 and (chunk := os.read(handle, min(left, 65_536))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks) if left > 0 else Reason.TOO_LARGE
