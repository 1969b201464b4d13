"""May this be read or written: names by a strict grammar, folders and files reached without following a link.

Every path is walked from a directory descriptor, one segment at a time. Checking a path first and opening it afterwards
is not containment (measured elsewhere: hundreds of escapes in 20,000 tries against a process that swaps a folder for a
link). Targets must be regular files with one link. `disk` holds the hands that read and write through these doors.

It does not protect against root, against somebody who already writes as this user inside the memory directory, nor on
Windows, where these calls do not exist. The root itself may be a link; nothing below it may.
"""

import errno
import fcntl
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memdir.errors import NotFoundError, PathError
from memdir.limits import NAME_BYTES, NAME_CHARS, NAME_DEPTH
from memdir.paths import STATE, check_root
from memdir.records import Signature
from memdir.small_files import disk_error, make_private_dirs

INDEX_FOLDED = "memory"
DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³")})
# Letters that show nothing, and so can make two names look alike.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
_MOST = 2**63 - 1
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOEXEC


def check_name(name: str) -> tuple[str, ...]:
    """The segments of a memory's name, or PathError with the reason."""
    segments = tuple(name.split("/"))
    if len(segments) > NAME_DEPTH:
        raise PathError(shown(name), f"more than {NAME_DEPTH} folders deep")
    for segment in segments:
        reason = find_refusal(segment)
        if reason:
            raise PathError(
                shown(name), reason, hint="a name is letters, digits, `-` and `_`, with `/` between folders"
            )
    if segments[0].casefold() == "logs" and len(segments) > 1:
        raise PathError(shown(name), "`logs/` is kept for daily logs", hint="choose another folder")
    return segments


def find_refusal(segment: str) -> str:
    """Why this cannot be one segment of a name; empty when it can."""
    if not segment:
        return "a name or folder is empty"
    if segment in (".", "..") or segment.startswith("."):
        return "it begins with a dot"
    if unicodedata.normalize("NFC", segment) != segment:
        return "it is not in Unicode normal form C"
    for before, char in zip(" " + segment, segment, strict=False):
        if not _is_allowed(char, before):
            return f"{char!r} is not a letter, digit, `-` or `_`"
    if len(segment) > NAME_CHARS or len(segment.encode()) > NAME_BYTES:
        return f"it is longer than {NAME_CHARS} characters or {NAME_BYTES} bytes"
    folded = unicodedata.normalize("NFKC", segment).casefold()
    if folded == INDEX_FOLDED:
        return "that is the name of the index"
    return "that is a device name on Windows" if folded in DEVICES else ""


def open_root(path: Path, *, create: bool = False) -> int:
    """A descriptor of a memory directory; made with its parents, mode 0700, if asked to."""
    check_root(str(path))
    with disk_errors(str(path)):
        if create:
            make_private_dirs(path)
        try:
            return os.open(path, _FOLDER)
        except FileNotFoundError:
            raise NotFoundError(f"no memory directory at {path}", name=str(path)) from None
        except NotADirectoryError:
            raise PathError(str(path), "it is not a directory") from None


@contextmanager
def open_folder(root: int, segments: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """A descriptor of a folder below the root, reached without following any link."""
    current = os.dup(root)
    try:
        for depth, segment in enumerate(segments, 1):
            current = _step(current, segment, "/".join(segments[:depth]), create=create)
        yield current
    finally:
        os.close(current)


@contextmanager
def open_state(root: int, path: Path, state: Path) -> Iterator[int]:
    """A descriptor of the folder for memdir's own files: below the open root at `path` without a link, or elsewhere."""
    if state == path / STATE:
        with open_folder(root, (STATE,), create=True) as folder:
            yield folder
        return
    folder = open_root(state, create=True)
    try:
        yield folder
    finally:
        os.close(folder)


def check_plain(folder: int, leaf: str) -> None:
    """Refuse a link or special file where one of our own files should be; none yet is fine."""
    check_target(folder, leaf, leaf)


def check_path(path: str) -> None:
    """A path below the root for reading: nothing that climbs, nothing hidden, no NUL. Odd names may be read."""
    for segment in path.split("/"):
        if segment in ("", ".", "..") or segment.startswith(".") or "\0" in segment or "\\" in segment:
            raise PathError(shown(path), "it is not the name of a memory")


def make_signature(facts: os.stat_result) -> Signature:
    """What tells one state of a file from another. Some disks know numbers and times that no database can hold."""
    times = (max(-_MOST, min(at, _MOST)) for at in (facts.st_mtime_ns, facts.st_ctime_ns))
    return Signature(facts.st_ino & _MOST, facts.st_size, *times)


def flush(handle: int) -> None:
    """Bytes to the disk itself; macOS needs its own call for that."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(handle, full)
    else:
        os.fsync(handle)


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Turn what the operating system says into one clear error."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PathError(path, "it lies behind a symbolic link or is not a folder") from None
        raise disk_error(error, path) from None


def _is_allowed(char: str, before: str) -> bool:
    if char.isascii():
        return char.isalnum() or char in "-_"
    category = unicodedata.category(char)
    if char in _INVISIBLE or 0xE0000 <= ord(char) <= 0xE0FFF:
        return False
    return (
        category[0] == "L" or category == "Nd" or (category in ("Mn", "Mc") and unicodedata.category(before)[0] in "LM")
    )


def _step(current: int, segment: str, path: str, *, create: bool) -> int:
    """From one folder's descriptor to the next; closes the one it came from."""
    try:
        if create:
            try:
                os.mkdir(segment, 0o700, dir_fd=current)
                flush(current)
            except FileExistsError:
                pass
        following = os.open(segment, _FOLDER | NOFOLLOW, dir_fd=current)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(current, segment)):
            raise PathError(path, "it is a symbolic link") from None
        raise
    os.close(current)
    return following


def _is_link(folder: int, leaf: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


@contextmanager
def open_plain(folder: int, leaf: str, path: str) -> Iterator[int]:
    """Open a regular file for reading; a FIFO must not block us, a device must not be touched."""
    facts = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(facts.st_mode):
        raise PathError(path, f"it is {name_type(facts.st_mode)}")
    try:
        handle = os.open(leaf, os.O_RDONLY | os.O_NONBLOCK | NOFOLLOW | CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathError(path, "it is a symbolic link") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise PathError(path, "it is not a regular file")
        yield handle
    finally:
        os.close(handle)


def check_target(folder: int, leaf: str, path: str) -> None:
    try:
        facts = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise PathError(path, f"it is {name_type(facts.st_mode)}")
    if facts.st_nlink > 1:
        raise PathError(path, "it has several links", hint="a hard link could change a file elsewhere; copy it instead")


def name_type(mode: int) -> str:
    names = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "not a regular file")


def shown(path: str) -> str:
    return path if len(path) <= 120 else path[:117] + "..."
