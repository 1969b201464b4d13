"""Allow one dream at a time per memory directory.

    <state>/dream.lock    the lock: the dream holds it with `flock`, so it is released when the process ends
    .consolidate-lock     shared with Claude Code: its mtime is the time of the last dream, its first line the holder

While memdir dreams, the second file contains these lines:

    12345                 the holder's PID, as Claude Code would write it
    memdir
    start 8f14e45f-99887  when that process started: a later process with the same PID is not the holder
    token …               identifies this dream, and is checked before anything is applied
    lock 4711             the inode of the first file: if another process can lock that, this holder has ended
    before 17633…         the time of the last dream in nanoseconds, or `none`

The mtime is then the start of this dream, because Claude Code ignores an older lock. At the end the file is emptied; after
a failure its mtime is restored, or the file is deleted. A killed holder can do neither, so as long as the line `before`
exists it gives the time of the last dream.

Claude Code does not use `flock`: a living PID in a file younger than an hour counts, unless its process started after the
file was written. Claude Code leaves its PID there at the end, so it may seem to be dreaming for another hour.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memdir import files
from memdir.errors import LockedError, MemdirError, NotFoundError, PathError
from memdir.files import find_began, hold, is_alive, read_start
from memdir.frozen import dataclass
from memdir.limits import DREAM_LATE_MINUTES

FILE = ".consolidate-lock"
LOCK = "dream.lock"
_TEMP = f"{FILE}.memdir"
_MARK = "memdir"
_BYTES = 4096  # max bytes that are read; memdir writes about 200
_FOREIGN_BYTES = 16  # max length of a PID; a longer file may be memdir's and must be read
_REUSE_SECONDS = 60.0  # a process that started this long after the file was written did not write it
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DreamHolder:
    """The process that holds the lock. `is_late` means that it has held the lock for more than an hour."""

    pid: int
    since: datetime
    is_ours: bool
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class _Note:
    """The content of the lock file. Only memdir writes `before`, the time of the last dream."""

    modified: int
    pid: int | None = None
    is_ours: bool = False
    start: str = ""
    token: str = ""
    lock: int = 0
    before: int | None = None

    @property
    def last(self) -> int | None:
        """Return when the last dream finished, in nanoseconds, or None."""
        return self.before if self.is_ours else self.modified


@contextmanager
def hold_dream(root: Path, state: Path, *, now: datetime) -> Iterator["DreamLock"]:
    """Hold the dream lock and record `now` as the last dream at the end. Raises LockedError if the lock is taken."""
    with ExitStack() as stack:
        folder = stack.enter_context(files.open_root(root, create=True))
        with files.disk_errors(str(state)):
            state_folder = stack.enter_context(files.open_state(folder, root, state))
            files.check_target(state_folder, LOCK, LOCK)
            try:
                handle = stack.enter_context(hold(state_folder, LOCK, seconds=0))
            except LockedError as error:
                raise _refuse(_find_holder(_read_note(folder), now), error.pid) from None
        lock = _acquire(folder, os.fstat(handle).st_ino, now)
        is_done = False
        try:
            yield lock
            is_done = not lock.is_not_counted
        finally:
            lock._leave(is_done=is_done)


def read_last(root: Path) -> datetime | None:
    """Return when the last dream finished, or None."""
    try:
        facts = os.stat(root / FILE, follow_symlinks=False)
    except OSError:
        return None
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= _FOREIGN_BYTES:
        return _make_time(facts.st_mtime_ns)
    note = _read_note_at(root)
    return _make_time(note.last) if note else None


def find_holder(root: Path, *, now: datetime) -> DreamHolder | None:
    """Return the process that is dreaming in this directory, or None. Does not lock anything."""
    return _find_holder(_read_note_at(root), now)


class DreamLock:
    """A held dream lock, created only by `hold_dream`. `last` is when the last dream finished, or None."""

    def __init__(self, folder: int, note: _Note) -> None:
        self._folder, self._note = folder, note
        self.is_not_counted = False
        self._is_over = False

    @property
    def last(self) -> datetime | None:
        return _make_time(self._note.before)

    def check(self) -> None:
        """Raise LockedError unless this process still holds the lock. Call this right before applying changes."""
        note = None if self._is_over else _read_note(self._folder)
        if self._is_recorded(note) and os.getpid() == self._note.pid:
            return
        pid, since = (note.pid, note.modified / 1e9) if note else (None, None)
        who = "its file is missing" if note is None else f"process {pid} took it" if pid else "its file was changed"
        message = f"this dream lost its lock: {who}; no changes were made"
        raise LockedError(message, pid=pid, since=since, hint="dream again later")

    def do_not_count(self) -> None:
        """Do not record this run as a dream, because it is a preview or should be repeated."""
        self.is_not_counted = True

    def _leave(self, *, is_done: bool) -> None:
        """Record the end of the dream. Never raises if the dream failed."""
        self._is_over = True
        if os.getpid() != self._note.pid:
            return  # a forked child does not hold the lock
        try:
            if not self._is_recorded(_read_note(self._folder)):
                return  # another process has written to it since
            if (last := self._note.modified if is_done else self._note.before) is not None:
                _write(self._folder, b"", last)
            else:
                os.unlink(FILE, dir_fd=self._folder)
        except (OSError, MemdirError):
            if is_done:
                raise

    def _is_recorded(self, note: _Note | None) -> bool:
        return note is not None and note.is_ours and note.token == self._note.token


def _acquire(folder: int, lock: int, now: datetime) -> DreamLock:
    """Record this process as the holder. Raises LockedError if a process without our `flock` holds the lock."""
    note = _read_note(folder)
    # We hold the flock, so an older note on this file is stale, even if its PID is in use.
    is_released = note is not None and note.is_ours and note.lock == lock
    if not is_released and (holder := _find_holder(note, now)):
        raise _refuse(holder)
    pid, before = os.getpid(), note.last if note else None
    note = _Note(_count_ns(now), pid, True, read_start(pid), os.urandom(16).hex(), lock, before)
    before_text = "none" if before is None else before
    rows = (pid, _MARK, f"start {note.start}", f"token {note.token}", f"lock {lock}", f"before {before_text}")
    _write(folder, "".join(f"{row}\n" for row in rows).encode("ascii"), note.modified)
    return DreamLock(folder, note)


def _find_holder(note: _Note | None, now: datetime) -> DreamHolder | None:
    if note is None or note.pid is None or not is_alive(note.pid):
        return None
    since, age = _make_time(note.modified), (_count_ns(now) - note.modified) / 60e9
    is_late = age >= DREAM_LATE_MINUTES
    if note.is_ours:
        start = read_start(note.pid)
        is_gone = bool(note.start and start and start != note.start)
    else:
        is_reused = note.pid == os.getpid() or (find_began(note.pid) or 0) > note.modified / 1e9 + _REUSE_SECONDS
        # A time far in the future comes from a wrong clock and is ignored like an old one.
        is_gone, is_late = is_reused or abs(age) >= DREAM_LATE_MINUTES, False
    return None if is_gone or since is None else DreamHolder(note.pid, since, note.is_ours, is_late)


def _refuse(holder: DreamHolder | None, pid: int | None = None) -> LockedError:
    who, since = f"process {pid}" if pid else "another process", None
    if holder:
        pid, since, program = holder.pid, holder.since.timestamp(), "" if holder.is_ours else "another program, "
        who = f"{program}process {pid}, since {holder.since.astimezone():%Y-%m-%d %H:%M}"
    hint = "wait for it or end it; the lock ends with its process"
    return LockedError(f"another dream is in progress ({who})", pid=pid, since=since, hint=hint)


def _read_note_at(root: Path) -> _Note | None:
    """Read the lock file. Returns None if it is missing or unreadable."""
    try:
        with files.open_root(root) as folder:
            return _read_note(folder)
    except (OSError, NotFoundError, PathError):
        return None


def _read_note(folder: int) -> _Note | None:
    try:
        with files.open_plain(folder, FILE, FILE) as handle:
            return _parse_note(os.read(handle, _BYTES), os.fstat(handle).st_mtime_ns)
    except FileNotFoundError:
        return None


def _write(folder: int, body: bytes, modified: int) -> None:
    """Replace the lock file atomically and set its mtime."""
    with files.disk_errors(FILE):
        files.check_target(folder, FILE, FILE)
        files.check_target(folder, _TEMP, _TEMP)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | files.NOFOLLOW | files.CLOEXEC
        handle = os.open(_TEMP, flags, 0o600, dir_fd=folder)
        try:
            os.write(handle, body)
            os.utime(handle, ns=(modified, modified))
            files.flush(handle)
        finally:
            os.close(handle)
        os.rename(_TEMP, FILE, src_dir_fd=folder, dst_dir_fd=folder)
        files.flush(folder)


def _parse_note(data: bytes, modified: int) -> _Note:
    lines = data.decode("ascii", "replace").split("\n")
    pid = _parse_count(lines[0].strip())
    fields = dict(line.split(" ", 1) for line in lines[2:] if " " in line)
    if lines[1:2] != [_MARK] or not {"start", "token", "lock", "before"} <= fields.keys():
        return _Note(modified, pid)
    lock, before = _parse_count(fields["lock"]) or 0, _parse_count(fields["before"])
    return _Note(modified, pid, True, fields["start"], fields["token"], lock, before)


def _parse_count(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None


def _make_time(ns: int | None) -> datetime | None:
    """Convert a file time to a datetime. Returns None if it is out of range."""
    try:
        return None if ns is None else _EPOCH + timedelta(microseconds=ns // 1000)
    except OverflowError:
        return None


def _count_ns(when: datetime) -> int:
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000
