"""Small files of memdir's own and of its hosts: read within a bound, written whole or not at all.

For config files, pointers and records, whose place a person or memdir itself has chosen. Memories do not come this way:
their names come from outside, and only the guard opens those.
"""

import errno
import fcntl
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from memdir.errors import DiskError, LockedError
from memdir.frozen import dataclass, replace
from memdir.text import one_line, shorten

# --- small_files ---

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
class ReadResult:
    """What came of reading: the bytes, or None with the reason; None without a reason means there is no such file."""

    data: bytes | None
    problem: str = ""


def read_small(path: str | Path, limit: int, *, follow: bool = True) -> ReadResult:
    """The bytes of a regular file of at most `limit` bytes. Never raises, never waits for a FIFO."""
    reading = read_head(path, limit + 1, follow=follow)
    if reading.data is not None and len(reading.data) > limit:
        return ReadResult(None, f"it is larger than {limit:,} bytes")
    return reading


def read_head(path: str | Path, count: int, *, follow: bool = True) -> ReadResult:
    """The first `count` bytes of a regular file, or all of it. Never raises, never waits for a FIFO."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return ReadResult(None)
    except ValueError:  # what Python says of a NUL inside a path
        return ReadResult(None, "its path holds a NUL")
    except OSError as error:
        return ReadResult(None, "it is a link" if error.errno == errno.ELOOP else _describe(error))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ReadResult(None, "it is not a regular file")
        return ReadResult(_read_up_to(descriptor, count))
    except OSError as error:
        return ReadResult(None, _describe(error))
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


# --- lock ---
# One holder at a time, decided by the operating system; the file's text only informs.
#
# A PID written into a file and read back does not exclude (measured elsewhere: 293 of 300 rounds let several in), and
# a
# lock broken by age loses writes of a slow holder. `flock` does neither: it ends with its holder. The file is never
# removed, so there is no race about which inode is locked. No model call happens while a lock is held.
#
# It does not work across machines on network file systems without lock support.

_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.02


@contextmanager
def hold(folder: int, name: str, *, seconds: float) -> Iterator[int]:
    """Hold the lock file `name` in an open folder, waiting at most so long; answers its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        _wait_for(handle, seconds)
        os.pwrite(handle, f"{os.getpid():<20}\n".encode(), 0)
        yield handle
        # An empty file says that the last holder came to its end; a PID without a holder says that it was killed.
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _wait_for(handle: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    pause = _FIRST_WAIT
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise
        if time.monotonic() >= deadline:
            raise _locked(handle, seconds)
        # Waiters that wake together would only meet again: each waits its own random while.
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))
        pause = min(pause * 2, _LONGEST_WAIT)


def _locked(handle: int, seconds: float) -> LockedError:
    text = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    pid = int(text) if text.isdigit() else None
    who = f"process {pid}" if pid else "another process"
    return LockedError(
        f"the memory directory is held by {who} for more than {seconds:g} s",
        pid=pid,
        since=os.fstat(handle).st_mtime,
        hint="wait for it or end it; the lock ends with its process",
    )


# --- processes ---
# Is a process alive, and is it still the one that was meant: a PID alone is given to another sooner or later.
#
# What this room does not do: end a process, or wait for one. Where there is no `/proc`, nobody knows when one began,
# and
# a PID that is alive passes for the one that was meant.

_GONE = ("Z", "X", "x")  # ended, and only not yet asked about


def is_alive(pid: int) -> bool:
    """Whether there is such a process, anybody's; one that has ended and was not waited for does not count."""
    if not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    facts = _read_facts(pid)
    return facts is None or facts[0] not in _GONE


def read_start(pid: int) -> str:
    """A mark that no other process with this PID has, also after a restart of the machine; empty if nobody knows."""
    facts = _read_facts(pid)
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    return f"{boot[:8]}-{facts[1]}" if facts and boot else ""


def find_began(pid: int) -> float | None:
    """When a process began, in seconds since 1970 to about one second; None if nobody knows."""
    facts = _read_facts(pid)
    boot = next((line.split()[1] for line in _read("/proc/stat").splitlines() if line.startswith("btime ")), "")
    return int(boot) + facts[1] / os.sysconf("SC_CLK_TCK") if facts and boot.isdigit() else None


def _read_facts(pid: int) -> tuple[str, int] | None:
    """The state of a process, and its start in ticks since the machine's."""
    # The program's name stands in brackets and may hold anything; what is wanted comes after the last one.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 and fields[19].isdigit() else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


# --- detach ---
# A call of memdir as a process of its own that nobody waits for: it outlives whoever began it.
#
# It is kept apart from what such processes do, because hooks begin them within milliseconds.


def start_detached(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Begin `memdir ARGUMENTS` in a directory, with nothing to read and nobody to hear it; answers its PID.

    `environ` are the variables it gets, this process's own without them.
    `-P`: that directory may be somebody else's project, and a `json.py` lying there is not the one we want.
    """
    # Imported here: most calls start no process, and every prompt hook would pay for it.
    import subprocess

    null = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "memdir", *arguments],
        cwd=cwd,
        env=environ,
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
        close_fds=True,
    )
    process.returncode = 0  # nobody waits for it: without this the interpreter would warn of a child left behind
    return process.pid


# --- events ---
# What hosts sent to memdir's hooks and when, and what went wrong there: witnesses of a process nobody watches.
#
# An event is an empty file `<state>/events/HOST.EVENT` whose time of change is when it last arrived: noting one is two
# system calls and cannot leave half a record. Problems are lines in `<state>/problems.jsonl`, the newest kept. Neither
#  is
# flushed to the disk, and noting never raises: a hook has better things to do than to fail at its own diary. Both can
# be
# deleted at any time.
#
# A session's start shows what went wrong since the start before: `read_problems(state, since=...)` with the time that
# `read_events` has for it. `doctor` shows what is recent, and `doctor --fix` clears it. A problem's text may speak a
# memory's name, so purging removes the file.
#
# What it does not do: know which hosts there are or which of their events matter.

FOLDER = "events"
PROBLEMS = "problems.jsonl"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")  # hosts and events alike; no dot, which stands between the two
_TEXT = 300  # characters of one problem
_KEPT = 20  # problems
_BYTES = 65_536  # far above what _KEPT lines can need
_EVENTS = 500  # files that are looked at; nobody has so many, but a folder may be filled by anybody


@dataclass(frozen=True, slots=True)
class LastEvent:
    """When a host last sent this event."""

    host: str
    event: str
    at: datetime


@dataclass(frozen=True, slots=True)
class HookProblem:
    """What went wrong in a hook; `times` counts the same words of the same host, `at` is the last time."""

    host: str
    text: str
    at: datetime
    times: int = 1


def note_event(state: Path, host: str, event: str, now: datetime) -> None:
    """This event has arrived. Whatever goes wrong here is let be."""
    if not (_NAME.fullmatch(host) and _NAME.fullmatch(event)) or state.is_symlink():
        return
    path = state / FOLDER / f"{host}.{event}"
    try:
        try:
            _stamp(path, now)
        except FileNotFoundError:
            make_private_dirs(path.parent)
            _stamp(path, now)
    except (OSError, OverflowError):  # or a time that no file can have
        pass


def read_events(state: Path) -> tuple[LastEvent, ...]:
    """The last arrival of every event of every host, newest first; none where nothing was noted."""
    folder = state / FOLDER
    if state.is_symlink() or folder.is_symlink():
        return ()
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_EVENTS), strict=False):
                host, _, event = entry.name.partition(".")
                if _NAME.fullmatch(host) and _NAME.fullmatch(event) and entry.is_file(follow_symlinks=False):
                    at = datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC)
                    found.append(LastEvent(host, event, at))
    except (OSError, OverflowError, ValueError):  # gone, closed to us, or of a year that has no date
        pass
    return tuple(sorted(found, key=lambda at: (at.at, at.host, at.event), reverse=True))


def note_problem(state: Path, host: str, text: str, now: datetime) -> None:
    """Something went wrong that nobody has seen. Several processes may do so at once; failing here is let be."""
    path = state / PROBLEMS
    if state.is_symlink() or path.is_symlink():
        return
    row = {"at": now.isoformat(), "host": host[:48], "text": shorten(one_line(text), _TEXT)}
    try:
        if append_private(path, json.dumps(row).encode("ascii")) > _BYTES // 2:
            _keep(path, _read_rows(path)[-_KEPT:])
    except (OSError, DiskError):
        pass


def read_problems(state: Path, *, since: datetime | None = None) -> tuple[HookProblem, ...]:
    """What went wrong, newest first, the same words of one host told once; with `since` only what came after."""
    if state.is_symlink():
        return ()
    found: dict[tuple[str, str], HookProblem] = {}
    for problem in _read_rows(state / PROBLEMS):
        if since is None or problem.at > since:
            key = problem.host, problem.text
            times = found.pop(key).times + 1 if key in found else 1
            found[key] = replace(problem, times=times)
    return tuple(reversed(found.values()))[:_KEPT]


def clear_problems(state: Path, *, until: datetime | None = None) -> int:
    """Forget what went wrong, with `until` only what a person has seen by then; answers how many lines went."""
    path = state / PROBLEMS
    if state.is_symlink() or path.is_symlink():
        return 0
    rows = _read_rows(path)
    left = [] if until is None else [problem for problem in rows if problem.at > until]
    try:
        if left:
            _keep(path, left)
        else:
            path.unlink(missing_ok=True)
    except (OSError, DiskError):
        return 0
    return len(rows) - len(left)


def _stamp(path: Path, now: datetime) -> None:
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags, 0o600)
    try:
        os.utime(handle, (now.timestamp(), now.timestamp()))
    finally:
        os.close(handle)


def _keep(path: Path, problems: list[HookProblem]) -> None:
    rows = [{"at": problem.at.isoformat(), "host": problem.host, "text": problem.text} for problem in problems]
    write_private(path, b"".join(json.dumps(row).encode("ascii") + b"\n" for row in rows))


def _read_rows(path: Path) -> list[HookProblem]:
    """Every line that tells of a problem; others are passed over."""
    data = read_small(path, _BYTES, follow=False).data or b""
    problems = (_parse_row(line) for line in data.splitlines())
    return [problem for problem in problems if problem is not None]


def _parse_row(line: bytes) -> HookProblem | None:
    try:
        row = json.loads(line)
        at, host, text = datetime.fromisoformat(row["at"]), row["host"], row["text"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not isinstance(host, str) or not isinstance(text, str) or at.tzinfo is None:
        return None
    return HookProblem(one_line(host), shorten(one_line(text), _TEXT), at)
