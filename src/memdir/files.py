"""Small files of memdir's own and of its hosts, locks, and what is known of processes.

For config files, pointers and records, whose location a person or memdir itself has chosen: they are read within a
limit, and written whole or not at all. Memories are opened by the guard alone, because their names come from outside.
"""

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from memdir.errors import DiskError, LockedError
from memdir.frozen import dataclass
from memdir.text import shorten

_NOFOLLOW, _NONBLOCK = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
# What the file system reports, in words a person can act on.
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
class ReadResult:
    """The bytes, or None with the reason; None without a reason means that there is no such file."""

    data: bytes | None
    problem: str = ""


def read_small(path: str | Path, limit: int, *, follow: bool = True) -> ReadResult:
    """Returns the bytes of a regular file of at most `limit` bytes. Never raises, never waits for a FIFO."""
    result = read_head(path, limit + 1, follow=follow)
    if result.data is not None and len(result.data) > limit:
        return ReadResult(None, f"it is larger than {limit:,} bytes")
    return result


def read_head(path: str | Path, count: int, *, follow: bool = True) -> ReadResult:
    """Returns the first `count` bytes of a regular file, or all of it. Never raises, never waits for a FIFO."""
    try:
        handle = os.open(path, os.O_RDONLY | _NONBLOCK | (0 if follow else _NOFOLLOW))
    except (FileNotFoundError, NotADirectoryError):
        return ReadResult(None)
    except ValueError:  # what Python raises for a NUL inside a path
        return ReadResult(None, "its path holds a NUL")
    except OSError as error:
        return ReadResult(None, "it is a link" if error.errno == errno.ELOOP else _describe(error))
    data = b""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ReadResult(None, "it is not a regular file")
        while len(data) < count and (chunk := os.read(handle, count - len(data))):
            data += chunk
        return ReadResult(data)
    except OSError as error:
        return ReadResult(None, _describe(error))
    finally:
        os.close(handle)


def is_plain_file(path: str | Path) -> bool:
    """Whether this is a regular file itself, not a link, FIFO or folder. Never raises, as `Path.is_file` may."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def make_private_dirs(path: Path) -> None:
    """Make a directory and its missing parents, each 0700; existing ones keep their mode."""
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
    """Replace a file in one step, mode 0600: a reader sees the old bytes or the new ones, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    try:
        make_private_dirs(path.parent)
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        sync_dir(path.parent)
    except OSError as error:
        raise disk_error(error, path) from error


def append_private(path: Path, line: bytes) -> int:
    """Append a line, mode 0600, not flushed; several processes may at once. Returns the length of the file."""
    make_private_dirs(path.parent)
    # Without waiting: the file may have been replaced by a FIFO without a reader.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NOFOLLOW | _NONBLOCK, 0o600)
    try:
        os.write(handle, line + b"\n")
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def sync_dir(path: Path) -> None:
    """Make the names in a directory durable, where the system can sync a directory."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def disk_error(error: OSError, path: str | Path) -> DiskError:
    words, hint = _WORDS.get(error.errno or 0, (_describe(error), "nothing was changed; try again when it is fixed"))
    message = f"cannot write {shorten(str(path), 120)}: {words}"
    return DiskError(message, path=str(path), errno=error.errno or 0, hint=hint)


def _describe(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


@contextmanager
def hold(folder: int, name: str, *, seconds: float) -> Iterator[int]:
    """Hold the lock file `name` in an open folder, waiting at most so long; yields its descriptor.

    The operating system decides who holds it, by `flock`, and releases it when the holder ends; the PID in the file
    only informs. The file is never removed, so there is no race about which inode is locked. Network file systems
    without lock support do not exclude other machines. No model is called while a lock is held.
    """
    handle = os.open(name, os.O_RDWR | os.O_CREAT | _NOFOLLOW | getattr(os, "O_CLOEXEC", 0), 0o600, dir_fd=folder)
    try:
        _wait_for(handle, seconds)
        os.pwrite(handle, f"{os.getpid():<20}\n".encode(), 0)
        yield handle
        # An empty file means that the last holder ended normally; a PID without a holder, that it was killed.
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _wait_for(handle: int, seconds: float) -> None:
    deadline, pause = time.monotonic() + seconds, 0.0005
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise
        if time.monotonic() >= deadline:
            break
        # Random, because processes that wake together would only collide again.
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))
        pause = min(pause * 2, 0.02)
    text = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    pid = int(text) if text.isdigit() else None
    raise LockedError(
        f"the memory directory is held by {f'process {pid}' if pid else 'another process'} for more than {seconds:g} s",
        pid=pid,
        since=os.fstat(handle).st_mtime,
        hint="wait for it or end it; the lock ends with its process",
    )


def is_alive(pid: int) -> bool:
    """Whether there is such a process, of any user; one that has ended and was not waited for does not count."""
    if not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    facts = _read_facts(pid)
    return facts is None or facts[0] not in ("Z", "X", "x")


def read_start(pid: int) -> str:
    """A mark that no other process with this PID has, also after a restart; empty where `/proc` does not say."""
    facts = _read_facts(pid)
    boot = _read_text("/proc/sys/kernel/random/boot_id").strip()
    return f"{boot[:8]}-{facts[1]}" if facts and boot else ""


def find_began(pid: int) -> float | None:
    """When a process began, in seconds since 1970 to about one second; None where `/proc` does not say."""
    facts = _read_facts(pid)
    boot = next((line.split()[1] for line in _read_text("/proc/stat").splitlines() if line.startswith("btime ")), "")
    return int(boot) + facts[1] / os.sysconf("SC_CLK_TCK") if facts and boot.isdigit() else None


def _read_facts(pid: int) -> tuple[str, int] | None:
    # The program's name stands in brackets and may hold anything; the fields come after the last one.
    fields = _read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 and fields[19].isdigit() else None


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def start_detached(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Start `memdir ARGUMENTS` in a directory as a process that outlives this one; returns its PID.

    `environ` are its variables, by default those of this process. `-P`, because the directory may be any project, and a
    `json.py` in it must not be imported.
    """
    # Imported here: most calls start no process, and every prompt hook would pay for it.
    import subprocess

    null = subprocess.DEVNULL
    command = [sys.executable, "-P", "-m", "memdir", *arguments]
    process = subprocess.Popen(
        command, cwd=cwd, env=environ, stdin=null, stdout=null, stderr=null, start_new_session=True, close_fds=True
    )
    process.returncode = 0  # nobody waits for it: without this the interpreter would warn of a child left behind
    return process.pid
