"""Daily logs: one file a day, `logs/YYYY/MM/YYYY-MM-DD.md`, to which an assistant only ever appends.

An entry is one line, `- 14:05 text`, with further lines indented below it; day and time are local. Any number of
processes may append at once: each holds a lock for the moment, and a line is whole or not there. A line that was left
without its end, by a crash or an editor, is ended before the next one begins.

Logs are the person's own files and no memories: `undo` and `forget --purge` do not reach into them. The dream makes
memories of what is new in them. How far it has come is kept by bytes in `<state>/distilled.json`, so that an entry added
to an old day later is found as well. A file that was changed otherwise counts as new.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, tzinfo
from pathlib import Path

from memdir import files, limits
from memdir.errors import DiskError, FormatError, MemdirError, NotFoundError, PathError
from memdir.files import hold, write_private
from memdir.format.frontmatter import digest_of
from memdir.frozen import dataclass, replace
from memdir.limits import LOCK_SECONDS, LOG_BYTES, LOG_ENTRY_CHARS
from memdir.records import LOGS_FOLDER, Signature, make_log_path
from memdir.store.contract import Folder
from memdir.store.state import read_table
from memdir.text import find_forbidden

DISTILLED = "distilled.json"
_LOCK = "log.lock"
_DISTILLED_BYTES = 4_194_304  # a day takes a hundred bytes
_DISTILLED_KEYS = ("bytes", "digest", "mtime_ns")
_TRIES = 5


_ENTRY = re.compile(r"^- (?:\d{1,2}:\d{2} )?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One day's log: its path below the memory directory, its size, and when it was last written to."""

    day: date
    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Whole lines of one day that were not distilled yet; `digest` is that of the file up to `end`."""

    day: date
    path: str
    start: int
    end: int
    text: str
    digest: str
    mtime_ns: int


def append_log(store: Folder, text: str, *, now: datetime, zone: tzinfo | None = None) -> LogFile:
    """Append an entry to the log of the day that it is in `zone`, the machine's own if none is given."""
    local = now.astimezone(zone)
    return _append_to(store, local.date(), render_entry(text, local.time()))


def extend_log(store: Folder, path: str, text: str, *, now: datetime, zone: tzinfo | None = None) -> LogFile:
    """Append what `text` says after what the log at `path` says now, as an agent writes whole files.

    Raises PathError if it is not the log of today, or would change what is there.
    """
    today = now.astimezone(zone).date()
    if path != make_log_path(today):
        raise PathError(path, f"of the logs only that of today, {make_log_path(today)}, is written to")
    before = read_log_file(store, path) or ""
    if not text.startswith(before):
        raise PathError(path, "a log is only added to", hint="leave its lines as they are and put new ones at the end")
    added = text[len(before) :].strip("\n")
    _check_entry(added)
    return _append_to(store, today, f"{added}\n")


def _append_to(store: Folder, day: date, text: str) -> LogFile:
    path = make_log_path(day)
    *folders, leaf = path.split("/")
    with _holding(store) as root, files.disk_errors(path), files.open_folder(root, tuple(folders), create=True) as at:
        for _ in range(_TRIES):
            facts = _append(at, leaf, path, text.encode("utf-8"))
            if facts is not None:
                return LogFile(day, path, facts.st_size, facts.st_mtime_ns)
    raise DiskError(f"{path} is replaced again and again while it is written to", path=path, hint="try again")


def render_entry(text: str, at: time) -> str:
    """The lines of an entry; raises FormatError for what may not be stored, for nothing, and for far too much."""
    plain = re.sub(r"\r\n?|\u2028|\u2029", "\n", text).strip()
    _check_entry(plain)
    first, *rest = (line.rstrip() for line in plain.split("\n"))
    return "".join(f"{line}\n" for line in (f"- {at:%H:%M} {first}", *(line and f"  {line}" for line in rest)))


def _check_entry(text: str) -> None:
    if not text.strip():
        raise FormatError("there is nothing to log", field="text", hint="say in a line what happened")
    if len(text) > LOG_ENTRY_CHARS:
        hint = "log the gist, and where the rest is"
        raise FormatError(f"an entry may have {LOG_ENTRY_CHARS:,} characters", field="text", hint=hint)
    if found := find_forbidden(text, lines=True):
        raise FormatError(f"the text holds {found}", field="text", hint="take the character out and log again")


def read_log_file(store: Folder, path: str) -> str | None:
    """The text at a path below the memory directory; None if there is no file."""
    found = _read(store, path)
    return None if found is None else found[0].decode("utf-8", "replace")


def read_log(store: Folder, day: date) -> str:
    """All of a day's log; raises NotFoundError if there is none."""
    text = read_log_file(store, make_log_path(day))
    if text is None:
        hint = "`memdir log list` shows the days that have one"
        raise NotFoundError(f"there is no log of {day.isoformat()}", name=day.isoformat(), hint=hint)
    return text


def list_logs(store: Folder) -> tuple[LogFile, ...]:
    """Every day that has a log, oldest first; what is no plain file, or not where its name says, is not one."""
    try:
        root = files.open_root(store.root)
    except NotFoundError:
        return ()
    try:
        found = list(_walk(root, (LOGS_FOLDER,), 2))
    finally:
        os.close(root)
    return tuple(sorted(found, key=lambda at: at.day))


def list_undistilled(store: Folder) -> tuple[LogSlice, ...]:
    """What was logged since it was last distilled, oldest first; a line that has no end yet waits for it."""
    known = _read_distilled(store.state)
    found = []
    for log in list_logs(store):
        done, digest, mtime_ns = known.get(log.day.isoformat(), (0, "", 0))
        if (done, mtime_ns) == (log.size, log.mtime_ns):
            continue
        try:
            data, signature = _read(store, log.path) or (b"", None)
        except (PathError, DiskError):
            continue
        end = data.rfind(b"\n") + 1
        start = done if done <= end and digest_of(data[:done]) == digest else 0
        if start < end and signature is not None:
            text = data[start:end].decode("utf-8", "replace")
            found.append(LogSlice(log.day, log.path, start, end, text, digest_of(data[:end]), signature.mtime_ns))
    return tuple(found)


def mark_distilled(store: Folder, slices: Iterable[LogSlice]) -> None:
    """Record that these have become memories, or were worth none."""
    done = {at.day.isoformat(): (at.end, at.digest, at.mtime_ns) for at in slices}
    if not done:
        return
    with _holding(store):
        rows = {**_read_distilled(store.state), **done}
        table = {day: dict(zip(_DISTILLED_KEYS, row, strict=True)) for day, row in sorted(rows.items())}
        write_private(store.state / DISTILLED, json.dumps(table, indent=1).encode("ascii") + b"\n")


@contextmanager
def _holding(store: Folder) -> Iterator[int]:
    """The memory directory, made if need be, with its logs held."""
    root = files.open_root(store.root, create=True)
    try:
        with (
            files.disk_errors(str(store.state)),
            files.open_state(root, store.root, store.state) as state,
            hold(state, _LOCK, seconds=LOCK_SECONDS),
        ):
            yield root
    finally:
        os.close(root)


def _append(folder: int, leaf: str, path: str, data: bytes) -> os.stat_result | None:
    """Put data at the end of a file in one step; None if the file was replaced by another meanwhile."""
    files.check_target(folder, leaf, path)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | files.NOFOLLOW | files.CLOEXEC
    handle = os.open(leaf, flags, 0o600, dir_fd=folder)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise PathError(path, "it is not a regular file with one link")
        size = facts.st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            data = b"\n" + data
        if size + len(data) > LOG_BYTES:
            hint = "what is in it can be moved to a file of its own"
            raise FormatError(f"the log {path} is full: it may hold {LOG_BYTES:,} bytes", field="text", hint=hint)
        if os.write(handle, data) < len(data):
            os.ftruncate(handle, size)
            raise OSError(errno.ENOSPC, "the line does not fit")
        files.flush(handle)
        if not size:
            files.flush(folder)
        is_same = os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_ino == facts.st_ino
        return os.fstat(handle) if is_same else None
    except FileNotFoundError:
        return None
    finally:
        os.close(handle)


def _read(store: Folder, path: str) -> tuple[bytes, Signature] | None:
    try:
        root = files.open_root(store.root)
    except NotFoundError:
        return None
    try:
        with files.disk_errors(path):
            return files.read_file(root, path, limit=LOG_BYTES)
    finally:
        os.close(root)


def _walk(root: int, segments: tuple[str, ...], depth: int) -> Iterator[LogFile]:
    """Years, months, and the days in them."""
    try:
        with files.open_folder(root, segments) as folder, os.scandir(folder) as entries:
            names = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except (OSError, PathError):
        return
    for name, facts in names:
        if depth and stat.S_ISDIR(facts.st_mode) and re.fullmatch(r"[0-9]{4}" if depth == 2 else r"[0-9]{2}", name):
            yield from _walk(root, (*segments, name), depth - 1)
        elif not depth and stat.S_ISREG(facts.st_mode):
            path = "/".join((*segments, name))
            with suppress(ValueError):
                if path == make_log_path(day := date.fromisoformat(name.removesuffix(".md"))):
                    yield LogFile(day, path, facts.st_size, facts.st_mtime_ns)


def _read_distilled(state: Path) -> dict[str, tuple[int, str, int]]:
    """For each day how many bytes are distilled, their digest, and the time of the file then."""
    found = {}
    for day, row in read_table(state, DISTILLED, _DISTILLED_BYTES).items():
        size, digest, mtime = map(row.get, _DISTILLED_KEYS) if isinstance(row, dict) else (None, None, None)
        if type(size) is int and isinstance(digest, str) and type(mtime) is int:
            found[day] = size, digest, mtime
    return found


def mark_shown_logs(store: Folder, logs: Sequence[LogSlice]) -> None:
    """Record that these logs have become memories, but for those that were marked further meanwhile."""
    if logs:
        begun = {(at.day, at.start) for at in list_undistilled(store)}
        mark_distilled(store, [at for at in logs if (at.day, at.start) in begun])


def select_logs(store: Folder) -> Iterator[LogSlice]:
    """The oldest logs that fit, the last of them cut at an entry."""
    room = limits.DREAM_LOG_CHARS
    for log in list_undistilled(store):
        if len(log.text) > room:
            if part := _cut_log(store, log, room):
                yield part
            return
        room -= len(log.text)
        yield log


def _cut_log(store: Folder, log: LogSlice, room: int) -> LogSlice | None:
    """The first whole entries that fit; None if not even one does."""
    end = max((at.start() for at in _ENTRY.finditer(log.text) if at.start() <= room), default=0)
    try:
        data = store.read_bytes(log.path)
    except MemdirError:
        return None
    if not end or data is None:
        return None
    size = log.start + len(log.text[:end].encode("utf-8"))
    if data[log.start : size].decode("utf-8", "replace") != log.text[:end]:
        return None  # no valid text, so characters cannot be counted as bytes: it is left until it fits whole
    return replace(log, end=size, text=log.text[:end], digest=digest_of(data[:size]))
