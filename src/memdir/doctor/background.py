"""What is wrong with what nobody watches: hooks that do not fire, hooks that failed, turns that wait.

Pure but for the small files it reads in a state folder. Which hosts have memdir's hooks, and when conversations ran, is
told to it.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memdir.doctor.findings import Finding
from memdir.events import PROBLEMS, read_events, read_problems
from memdir.frozen import dataclass
from memdir.hosts.places import Installed
from memdir.queue import FOLDER as QUEUE
from memdir.queue import Entry, read_queue

STUCK = timedelta(days=1)  # a turn that waits longer waits for nobody
RECENT = timedelta(days=7)  # what went wrong before that has been seen or does not matter
SLACK = timedelta(minutes=10)  # an install in the middle of a session, clocks that differ a little


@dataclass(frozen=True, slots=True)
class Ran:
    """A conversation of a host, from its first record to its last, as its transcript tells."""

    host: str
    started: datetime
    ended: datetime


def check_hooks(state: Path, installed: Sequence[Installed], ran: Sequence[Ran], now: datetime) -> Iterator[Finding]:
    """Hooks that stayed silent through the last two conversations, which began after they were installed and are over.

    Two, because one says little: a turn that was broken off sends no end, and a host can be started without hooks.
    """
    arrived = {(at.host, at.event): at.at for at in read_events(state)}
    for host in dict.fromkeys(at.host for at in installed):
        since = min(at.since for at in installed if at.host == host)
        events = dict.fromkeys(event for at in installed if at.host == host for event in at.events)
        over = [at for at in ran if at.host == host and at.started > since + SLACK and now - at.ended > SLACK]
        if len(over) < 2:
            continue
        start = sorted(at.started for at in over)[-2]
        silent = [event for event in events if not _came(arrived.get((host, event)), start)]
        if silent:
            what = "no hook" if len(silent) == len(events) else ", ".join(silent)
            message = f"{what} of {host} has arrived since {start.astimezone():%Y-%m-%d %H:%M}, in two sessions or more"
            fix = f"`memdir install {host}` again; has the program it names moved, or are hooks switched off?"
            yield Finding("hooks_silent", host, message, fix)


def check_problems(state: Path, now: datetime) -> Iterator[Finding]:
    """What went wrong in a hook lately; `--fix` takes it as read."""
    for problem in read_problems(state, since=now - RECENT):
        when = f"{problem.at.astimezone():%Y-%m-%d %H:%M}"
        often = f", {problem.times} times" if problem.times > 1 else ""
        message = f"{problem.host}: {problem.text} ({when}{often})"
        fix = "mend the cause; `memdir doctor --fix` takes it as read"
        yield Finding("hook_problem", PROBLEMS, message, fix, fixable=True)


def check_queue(state: Path, now: datetime) -> Iterator[Finding]:
    """Turns that no worker has learned from for a day."""
    waiting = [(at, entry) for entry in read_queue(state) if (at := _read_queued(entry)) and now - at > STUCK]
    if waiting:
        since = min(at for at, _ in waiting)
        turns = "1 turn waits" if len(waiting) == 1 else f"{len(waiting)} turns wait"
        message = f"{turns} to be learned from since {since.astimezone():%Y-%m-%d %H:%M}"
        yield Finding("queue", QUEUE, message, "`memdir extract` learns from them and says what is wrong")


def _came(arrival: datetime | None, start: datetime) -> bool:
    return arrival is not None and arrival > start - SLACK


def _read_queued(entry: Entry) -> datetime | None:
    """When an entry was put into the queue: its name begins with that moment."""
    nanoseconds = entry.path.name.partition("-")[0]
    if not (nanoseconds.isascii() and nanoseconds.isdigit()):
        return None
    try:
        return datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return None
