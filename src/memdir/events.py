"""What hosts sent to memdir's hooks and when, and what went wrong there: witnesses of a process nobody watches.

An event is an empty file `<state>/events/HOST.EVENT` whose time of change is when it last arrived: noting one is two
system calls and cannot leave half a record. Problems are lines in `<state>/problems.jsonl`, the newest kept. Neither is
flushed to the disk, and noting never raises: a hook has better things to do than to fail at its own diary. Both can be
deleted at any time.

A session's start shows what went wrong since the start before: `read_problems(state, since=...)` with the time that
`read_events` has for it. `doctor` shows what is recent, and `doctor --fix` clears it. A problem's text may speak a
memory's name, so purging removes the file.

What it does not do: know which hosts there are or which of their events matter.
"""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from memdir.errors import DiskError
from memdir.frozen import dataclass, replace
from memdir.small_files import append_private, make_private_dirs, read_small, write_private
from memdir.text import one_line, shorten

FOLDER = "events"
PROBLEMS = "problems.jsonl"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")  # hosts and events alike; no dot, which stands between the two
_TEXT = 300  # characters of one problem
_KEPT = 20  # problems
_BYTES = 65_536  # far above what _KEPT lines can need
_EVENTS = 500  # files that are looked at; nobody has so many, but a folder may be filled by anybody


@dataclass(frozen=True, slots=True)
class Event:
    """When a host last sent this event."""

    host: str
    event: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Problem:
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


def read_events(state: Path) -> tuple[Event, ...]:
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
                    found.append(Event(host, event, at))
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


def read_problems(state: Path, *, since: datetime | None = None) -> tuple[Problem, ...]:
    """What went wrong, newest first, the same words of one host told once; with `since` only what came after."""
    if state.is_symlink():
        return ()
    found: dict[tuple[str, str], Problem] = {}
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


def _keep(path: Path, problems: list[Problem]) -> None:
    rows = [{"at": problem.at.isoformat(), "host": problem.host, "text": problem.text} for problem in problems]
    write_private(path, b"".join(json.dumps(row).encode("ascii") + b"\n" for row in rows))


def _read_rows(path: Path) -> list[Problem]:
    """Every line that tells of a problem; others are passed over."""
    data = read_small(path, _BYTES, follow=False).data or b""
    problems = (_parse_row(line) for line in data.splitlines())
    return [problem for problem in problems if problem is not None]


def _parse_row(line: bytes) -> Problem | None:
    try:
        row = json.loads(line)
        at, host, text = datetime.fromisoformat(row["at"]), row["host"], row["text"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    if not isinstance(host, str) or not isinstance(text, str) or at.tzinfo is None:
        return None
    return Problem(one_line(host), shorten(one_line(text), _TEXT), at)
