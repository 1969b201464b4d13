"""Daily logs: append-only files `logs/YYYY/MM/YYYY-MM-DD.md`.

An entry is a line `- 14:05 text`, with further lines indented below it; day and time are local. Any number of processes
may append at once: each holds a lock while it writes, and a line is written completely or not at all. If a crash or an
editor left a line without a newline, the next entry adds it first.

Logs are the user's own files, not memories: `undo` and `forget --purge` do not change them. A dream turns new entries
into memories. `<state>/distilled.json` stores its position in each file in bytes, so entries added later to an old day
are found too. A file that was changed in another way counts as new.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time, tzinfo
from pathlib import Path

from memdir import files, limits
from memdir.errors import DiskError, FormatError, MemdirError, NotFoundError, PathError
from memdir.files import write_private
from memdir.format.frontmatter import digest_of
from memdir.frozen import dataclass, replace
from memdir.limits import LOCK_SECONDS, LOG_BYTES, LOG_ENTRY_CHARS
from memdir.records import LOGS_FOLDER, Signature, make_log_path
from memdir.store.contract import Folder, hold_state
from memdir.store.state import read_table
from memdir.text import find_forbidden

DISTILLED = "distilled.json"
_LOCK = "log.lock"
_DISTILLED_BYTES = 4_194_304  # each day needs about a hundred bytes
_DISTILLED_KEYS = ("bytes", "digest", "mtime_ns")
_TRIES = 5


_ENTRY = re.compile(r"^- (?:\d{1,2}:\d{2} )?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LogFile:
    day: date
    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class LogSlice:
    """The complete lines of a daily log that were not summarised yet. `digest` covers the file up to `end`."""

    day: date
    path: str
    start: int
    end: int
    text: str
    digest: str
    mtime_ns: int


def append_log(store: Folder, text: str, *, now: datetime, zone: tzinfo | None = None) -> LogFile:
    """Append an entry to today's log. `zone` defaults to the machine's time zone."""
    local = now.astimezone(zone)
    return _append_to(store, local.date(), render_entry(text, local.time()))


def extend_log(store: Folder, path: str, text: str, *, now: datetime) -> LogFile:
    """Append the new part of `text` to today's log; raise PathError for another log, or if lines would change."""
    today = now.astimezone().date()
    if path != make_log_path(today):
        raise PathError(path, f"only today's log, {make_log_path(today)}, can be changed")
    before = read_log_file(store, path) or ""
    if not text.startswith(before):
        raise PathError(path, "logs are append-only", hint="keep its lines unchanged and add new ones at the end")
    added = text[len(before) :].strip("\n")
    _check_entry(added)
    return _append_to(store, today, f"{added}\n")


def _append_to(store: Folder, day: date, text: str) -> LogFile:
    path = make_log_path(day)
    *parents, leaf = path.split("/")
    with (
        hold_state(store, _LOCK, LOCK_SECONDS) as (root, _),
        files.disk_errors(path),
        files.open_folder(root, (*parents,), create=True) as folder,
    ):
        for _ in range(_TRIES):
            facts = _append(folder, leaf, path, text.encode("utf-8"))
            if facts is not None:
                return LogFile(day, path, facts.st_size, facts.st_mtime_ns)
    raise DiskError(f"another process keeps replacing {path}", path=path, hint="try again")


def render_entry(text: str, at: time) -> str:
    """Return the lines of an entry. Raises FormatError if it is empty, too long or contains forbidden characters."""
    plain = re.sub(r"\r\n?|\u2028|\u2029", "\n", text).strip()
    _check_entry(plain)
    first, *rest = (line.rstrip() for line in plain.split("\n"))
    return "".join(f"{line}\n" for line in (f"- {at:%H:%M} {first}", *(line and f"  {line}" for line in rest)))


def _check_entry(text: str) -> None:
    if not text.strip():
        raise FormatError("the entry is empty", field="text", hint="describe in one line what happened")
    if len(text) > LOG_ENTRY_CHARS:
        hint = "log a summary, and where to find the rest"
        raise FormatError(f"the entry exceeds {LOG_ENTRY_CHARS:,} characters", field="text", hint=hint)
    if character := find_forbidden(text, lines=True):
        raise FormatError(f"the text contains {character}", field="text", hint="remove the character and try again")


def read_log_file(store: Folder, path: str) -> str | None:
    """Return the text of a log by its relative path, or None if there is no file."""
    content = _read_file(store, path)
    return None if content is None else content[0].decode("utf-8", "replace")


def read_log(store: Folder, day: date) -> str:
    """Return the log of a day. Raises NotFoundError if there is none."""
    text = read_log_file(store, make_log_path(day))
    if text is None:
        hint = "`memdir log list` lists the days with a log"
        raise NotFoundError(f"no log for {day.isoformat()}", name=day.isoformat(), hint=hint)
    return text


def list_logs(store: Folder) -> tuple[LogFile, ...]:
    """Return all logs, oldest first. Skips files whose path does not match a date."""
    with files.open_existing(store.root) as root:
        logs = [] if root is None else list(_walk(root, (LOGS_FOLDER,), 2))
    return tuple(sorted(logs, key=lambda log: log.day))


def list_undistilled(store: Folder) -> tuple[LogSlice, ...]:
    """Return the complete log lines that have not been summarised, oldest first."""
    known = _read_distilled(store.state)
    slices = []
    for log in list_logs(store):
        distilled, digest, mtime_ns = known.get(log.day.isoformat(), (0, "", 0))
        if (distilled, mtime_ns) == (log.size, log.mtime_ns):
            continue
        try:
            data, signature = _read_file(store, log.path) or (b"", None)
        except (PathError, DiskError):
            continue
        end = data.rfind(b"\n") + 1
        start = distilled if distilled <= end and digest_of(data[:distilled]) == digest else 0
        if start < end and signature is not None:
            text = data[start:end].decode("utf-8", "replace")
            slices.append(LogSlice(log.day, log.path, start, end, text, digest_of(data[:end]), signature.mtime_ns))
    return tuple(slices)


def mark_distilled(store: Folder, slices: Iterable[LogSlice]) -> None:
    rows = {log.day.isoformat(): (log.end, log.digest, log.mtime_ns) for log in slices}
    if not rows:
        return
    with hold_state(store, _LOCK, LOCK_SECONDS):
        all_rows = {**_read_distilled(store.state), **rows}
        table = {day: dict(zip(_DISTILLED_KEYS, row, strict=True)) for day, row in sorted(all_rows.items())}
        write_private(store.state / DISTILLED, json.dumps(table, indent=1).encode("ascii") + b"\n")


def _append(folder: int, leaf: str, path: str, data: bytes) -> os.stat_result | None:
    """Append data to a file atomically. Returns None if the file was replaced while writing."""
    files.check_target(folder, leaf, path)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | files.NOFOLLOW | files.CLOEXEC
    handle = os.open(leaf, flags, 0o600, dir_fd=folder)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise PathError(path, "it is not a regular file, or has several hard links")
        size = facts.st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            data = b"\n" + data
        if size + len(data) > LOG_BYTES:
            hint = "move its lines to another file"
            raise FormatError(f"the log {path} is full: the limit is {LOG_BYTES:,} bytes", field="text", hint=hint)
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


def _read_file(store: Folder, path: str) -> tuple[bytes, Signature] | None:
    with files.open_existing(store.root) as root, files.disk_errors(path):
        return None if root is None else files.read_file(root, path, limit=LOG_BYTES)


def _walk(root: int, segments: tuple[str, ...], depth: int) -> Iterator[LogFile]:
    """Yield the logs below a year or month folder."""
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
    """Return for each day the number of summarised bytes, their digest, and the mtime of the file."""
    rows = {}
    for day, row in read_table(state, DISTILLED, _DISTILLED_BYTES).items():
        size, digest, mtime = map(row.get, _DISTILLED_KEYS) if isinstance(row, dict) else (None, None, None)
        if type(size) is int and isinstance(digest, str) and type(mtime) is int:
            rows[day] = size, digest, mtime
    return rows


def mark_shown_logs(store: Folder, logs: Sequence[LogSlice]) -> None:
    """Record that these logs have been summarised, unless they were marked since."""
    if logs:
        starts = {(log.day, log.start) for log in list_undistilled(store)}
        mark_distilled(store, [log for log in logs if (log.day, log.start) in starts])


def select_logs(store: Folder) -> Iterator[LogSlice]:
    """Yield the oldest logs that fit into a dream. The last one is cut after an entry."""
    room = limits.DREAM_LOG_CHARS
    for log in list_undistilled(store):
        if len(log.text) > room:
            if part := _cut_log(store, log, room):
                yield part
            return
        room -= len(log.text)
        yield log


def _cut_log(store: Folder, log: LogSlice, room: int) -> LogSlice | None:
    """Return the first entries that fit into `room`, or None if there are none."""
    end = max((entry.start() for entry in _ENTRY.finditer(log.text) if entry.start() <= room), default=0)
    try:
        data = store.read_bytes(log.path)
    except MemdirError:
        return None
    if not end or data is None:
        return None
    size = log.start + len(log.text[:end].encode("utf-8"))
    if data[log.start : size].decode("utf-8", "replace") != log.text[:end]:
        return None  # invalid UTF-8: characters cannot be counted as bytes, so it must fit completely
    return replace(log, end=size, text=log.text[:end], digest=digest_of(data[:size]))
