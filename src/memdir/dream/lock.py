"""One dream at a time in a memory directory: the operating system decides, `.consolidate-lock` informs.

    <state>/dream.lock    held with `flock` by the dream; it is released with its process, however that ends
    .consolidate-lock     Claude Code's too: its mtime is the time of the last dream, its first line names the holder

While memdir holds it, the second one has these lines:

    12345                 the holder, as Claude Code would write it
    memdir
    start 8f14e45f-99887  when that process began: another one with its PID is not the holder
    token …               this very hold, looked for before anything is applied
    lock 4711             the first file: whoever holds the same one knows that this holder is gone
    before 17633…         the time of the last dream in nanoseconds, or `none`

Its mtime is then that of the beginning, because Claude Code takes an older one for dead. At the end the body is emptied;
after a failure the mtime is put back, or the file removed. A killed holder can do neither, so `before` counts as the time
of the last dream while that line is there.

Claude Code holds it without `flock`: a living PID in a file younger than an hour counts, unless its process began after
the file was written. It leaves its PID there when it is done, so for that hour the two cannot be told apart.
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
_BYTES = 4096  # ours has two hundred
_FOREIGN_BYTES = 16  # a PID; a longer body may be ours and has to be read
_REUSE_SECONDS = 60.0  # a process that began so long after the file was written did not write it, also by a wrong clock
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DreamHolder:
    """Who dreams now, as far as the file tells; `is_late` says that it has done so for more than an hour."""

    pid: int
    since: datetime
    is_ours: bool
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class _Note:
    """What the file says. `before` stands in ours alone: the time of the last dream, None for never."""

    modified: int
    pid: int | None = None
    is_ours: bool = False
    start: str = ""
    token: str = ""
    lock: int = 0
    before: int | None = None

    @property
    def last(self) -> int | None:
        """When a dream last came to its end, in nanoseconds."""
        return self.before if self.is_ours else self.modified


@contextmanager
def hold_dream(root: Path, state: Path, *, now: datetime) -> Iterator["DreamLock"]:
    """Hold the dream of a memory directory, or raise LockedError at once with who holds it.

    A block that comes to its end makes `now` the time of the last dream, unless it raises or is not to count.
    """
    with ExitStack() as stack:
        folder = files.open_root(root, create=True)
        stack.callback(os.close, folder)
        with files.disk_errors(str(state)):
            place = stack.enter_context(files.open_state(folder, root, state))
            files.check_target(place, LOCK, LOCK)
            try:
                handle = stack.enter_context(hold(place, LOCK, seconds=0))
            except LockedError as error:
                raise _refuse(_find_holder(_read_note(folder), now), error.pid) from None
        held = _take(folder, os.fstat(handle).st_ino, now)
        is_done = False
        try:
            yield held
            is_done = not held.is_not_counted
        finally:
            held._leave(is_done=is_done)


def read_last(root: Path) -> datetime | None:
    """When a dream last came to its end, None for never; one `stat`, unless a dream is under way or was killed."""
    try:
        facts = os.stat(root / FILE, follow_symlinks=False)
    except OSError:
        return None
    if stat.S_ISREG(facts.st_mode) and facts.st_size <= _FOREIGN_BYTES:
        return _make_time(facts.st_mtime_ns)
    note = _look(root)
    return _make_time(note.last) if note else None


def find_holder(root: Path, *, now: datetime) -> DreamHolder | None:
    """Who dreams here now. It looks and takes nothing, so it is never in a dreamer's way."""
    return _find_holder(_look(root), now)


class DreamLock:
    """A dream that is held; made by `hold_dream` only. `last` is when one came to its end before, None for never."""

    def __init__(self, folder: int, note: _Note) -> None:
        self._folder, self._note = folder, note
        self.is_not_counted = False
        self._is_over = False

    @property
    def last(self) -> datetime | None:
        return _make_time(self._note.before)

    def check(self) -> None:
        """Raise LockedError unless this is still the recorded holder: to be called right before anything is applied."""
        found = None if self._is_over else _read_note(self._folder)
        if self._is_recorded(found) and os.getpid() == self._note.pid:
            return
        pid, since = (found.pid, found.modified / 1e9) if found else (None, None)
        who = "its file is gone" if found is None else f"process {pid} took it" if pid else "its file was changed"
        message = f"this dream no longer holds the directory: {who}; nothing was applied"
        raise LockedError(message, pid=pid, since=since, hint="dream again later")

    def do_not_count(self) -> None:
        """This run shall not count as a dream: a preview, or one with nothing to do that is to be tried again."""
        self.is_not_counted = True

    def _leave(self, *, is_done: bool) -> None:
        """Put down how it ended. After a failure nothing is raised: the file still says `before`, and that is true."""
        self._is_over = True
        if os.getpid() != self._note.pid:
            return  # a child that was forked meanwhile and ends: nothing of this is its own
        try:
            if not self._is_recorded(_read_note(self._folder)):
                return  # somebody else wrote there since
            if (last := self._note.modified if is_done else self._note.before) is not None:
                _write(self._folder, b"", last)
            else:
                os.unlink(FILE, dir_fd=self._folder)
        except (OSError, MemdirError):
            if is_done:
                raise

    def _is_recorded(self, found: _Note | None) -> bool:
        return found is not None and found.is_ours and found.token == self._note.token


def _take(folder: int, lock: int, now: datetime) -> DreamLock:
    """Write down that we hold it, if nobody does who has no part in our lock."""
    found = _read_note(folder)
    # Whoever held the same file has let go of it: that we hold it now proves it, whatever its PID says.
    is_released = found is not None and found.is_ours and found.lock == lock
    if not is_released and (holder := _find_holder(found, now)):
        raise _refuse(holder)
    pid, before = os.getpid(), found.last if found else None
    note = _Note(_count_ns(now), pid, True, read_start(pid), os.urandom(16).hex(), lock, before)
    shown = "none" if before is None else before
    rows = (pid, _MARK, f"start {note.start}", f"token {note.token}", f"lock {lock}", f"before {shown}")
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
        # A time far ahead comes from a wrong clock and says as little as one long ago.
        is_gone, is_late = is_reused or abs(age) >= DREAM_LATE_MINUTES, False
    return None if is_gone or since is None else DreamHolder(note.pid, since, note.is_ours, is_late)


def _refuse(holder: DreamHolder | None, pid: int | None = None) -> LockedError:
    who, since = f"process {pid}" if pid else "another process", None
    if holder:
        pid, since, program = holder.pid, holder.since.timestamp(), "" if holder.is_ours else "another program, "
        who = f"{program}process {pid}, since {holder.since.astimezone():%Y-%m-%d %H:%M}"
    hint = "wait for it or end it; the lock ends with its process"
    return LockedError(f"a dream is under way already ({who})", pid=pid, since=since, hint=hint)


def _look(root: Path) -> _Note | None:
    """The file for whoever only reads: what may not be read counts as not there."""
    try:
        folder = files.open_root(root)
        try:
            return _read_note(folder)
        finally:
            os.close(folder)
    except (OSError, NotFoundError, PathError):
        return None


def _read_note(folder: int) -> _Note | None:
    try:
        with files.open_plain(folder, FILE, FILE) as handle:
            return _parse(os.read(handle, _BYTES), os.fstat(handle).st_mtime_ns)
    except FileNotFoundError:
        return None


def _write(folder: int, body: bytes, modified: int) -> None:
    """A new file in the old one's place, with its time, in one step: a kill leaves the one or the other."""
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


def _parse(data: bytes, modified: int) -> _Note:
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
    """A time of the file system as one of the calendar's; None for one that no calendar has."""
    try:
        return None if ns is None else _EPOCH + timedelta(microseconds=ns // 1000)
    except OverflowError:
        return None


def _count_ns(when: datetime) -> int:
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000
