"""Small files of memdir's own and of its hosts: read within a bound, written whole or not at all.

For config files, pointers and records, whose place a person or memdir itself has chosen. Memories do not come this way:
their names come from outside, and only the guard opens those.
"""

import errno
import os
import stat
from pathlib import Path

from memdir.errors import DiskError
from memdir.frozen import dataclass
from memdir.text import shorten

# What the file system says, in words a person can act on.
_WORDS = {
    errno.ENOSPC: ("the disk is full", "free some space; nothing was changed"),
    errno.EDQUOT: ("the disk quota is used up", "free some space; nothing was changed"),
    errno.EROFS: ("the file system is read-only", "remount it writable or set autoMemoryDirectory to another place"),
    errno.EACCES: ("no permission", "check who owns it: `ls -ld` shows it"),
    errno.EPERM: ("no permission", "check who owns it: `ls -ld` shows it"),
    errno.EMFILE: ("too many open files", "raise `ulimit -n` or close other programs"),
    errno.ENFILE: ("too many open files on this machine", "close other programs"),
    errno.EFBIG: ("the file would be larger than allowed", "raise `ulimit -f`"),
    errno.EIO: ("the disk reports an error", "check the disk; nothing was acknowledged"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading: the bytes, or None with the reason; None without a reason means there is no such file."""

    data: bytes | None
    problem: str = ""


def read_small(path: str | Path, limit: int, *, follow: bool = True) -> Reading:
    """The bytes of a regular file of at most `limit` bytes. Never raises, never waits for a FIFO."""
    reading = read_head(path, limit + 1, follow=follow)
    if reading.data is not None and len(reading.data) > limit:
        return Reading(None, f"it is larger than {limit:,} bytes")
    return reading


def read_head(path: str | Path, count: int, *, follow: bool = True) -> Reading:
    """The first `count` bytes of a regular file, or all of it. Never raises, never waits for a FIFO."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return Reading(None)
    except ValueError:  # what Python says of a NUL inside a path
        return Reading(None, "its path holds a NUL")
    except OSError as error:
        return Reading(None, "it is a link" if error.errno == errno.ELOOP else _describe(error))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return Reading(None, "it is not a regular file")
        return Reading(_read_up_to(descriptor, count))
    except OSError as error:
        return Reading(None, _describe(error))
    finally:
        os.close(descriptor)


def make_private_dirs(path: Path) -> None:
    """Make a directory and its missing parents, each 0700; what is there already keeps its mode."""
    if path.is_dir():
        return
    make_private_dirs(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        sync_dir(path.parent)


def write_private(path: Path, data: bytes) -> None:
    """Put `data` there in one step, mode 0600: a reader sees the old bytes or the new ones, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        make_private_dirs(path.parent)
        try:
            _write_new(temporary, data)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_dir(path.parent)
    except OSError as error:
        raise disk_error(error, path) from error


def append_private(path: Path, line: bytes) -> int:
    """Add a whole line, mode 0600, not flushed; several processes may at once. Answers how long the file is now."""
    make_private_dirs(path.parent)
    # Without waiting: what stands there may be a FIFO nobody reads.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, line + b"\n")
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def sync_dir(path: Path) -> None:
    """Make the names in a directory durable; a system that cannot sync a directory is left to its own promises."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: OSError, path: str | Path) -> DiskError:
    """The file system's refusal in memdir's own words."""
    words, hint = _WORDS.get(error.errno or 0, (_describe(error), "nothing was changed; try again when it is mended"))
    place = shorten(str(path), 120)
    return DiskError(f"cannot write {place}: {words}", path=str(path), errno=error.errno or 0, hint=hint)


def _write_new(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _read_up_to(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count and (chunk := os.read(descriptor, count - len(data))):
        data += chunk
    return data


def _describe(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
