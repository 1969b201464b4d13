"""What each request to a model took: one row in one file of the person's, for all projects and processes.

It is the log of the models and what the budget is counted from. A row is written before its request goes out, with what
is set aside for it, and put right afterwards; a process that is killed between leaves the row as it was, and it counts.
No row holds text of a message, a memory or its name.
"""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from memdir.errors import DiskError
from memdir.frozen import dataclass
from memdir.limits import USAGE_DAYS, USAGE_ROWS
from memdir.models.budget import Caps, Spent, check_caps, find_day
from memdir.records import Usage
from memdir.small_files import disk_error, make_private_dirs
from memdir.store.database import Database, create_file

FILE = "usage.db"
OPEN = "open"  # under way, or its process was killed
_BUSY_SECONDS = 10.0
MIGRATIONS = (
    """
    CREATE TABLE requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, week TEXT NOT NULL, run TEXT NOT NULL,
        project TEXT NOT NULL, purpose TEXT NOT NULL, model TEXT NOT NULL, outcome TEXT NOT NULL,
        fresh INTEGER NOT NULL DEFAULT 0, cached INTEGER NOT NULL DEFAULT 0, stored INTEGER NOT NULL DEFAULT 0,
        output INTEGER NOT NULL DEFAULT 0, dollars REAL, counted INTEGER NOT NULL
    );
    CREATE INDEX requests_at ON requests (at);
    CREATE INDEX requests_run ON requests (run)
    """,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One request. `outcome` is why the model stopped, or why there was no answer; `counted` is the budget's figure."""

    at: datetime
    project: str
    purpose: str
    model: str
    outcome: str
    usage: Usage
    counted: int


@dataclass(frozen=True, slots=True)
class Total:
    """A week's requests of one project for one purpose; `failed` had no answer, `unpriced` an unknown price."""

    week: str
    project: str
    purpose: str
    requests: int
    failed: int
    unpriced: int
    usage: Usage


class UsageBook(Database):
    """The open file; `open_book` makes it."""

    def begin(self, entry: Entry, run: str, caps: Caps) -> int:
        """Set tokens aside for a request, unless that goes over a cap: BudgetError. No two can take the same rest."""
        at, week = entry.at.timestamp(), find_week(entry.at)
        row = (at, week, run, entry.project, entry.purpose, entry.model, entry.outcome, entry.counted)
        with self.transaction(durable=False) as db:
            check_caps(caps, self.read_spent(run, entry.at), entry.counted, entry.at)
            columns = "at, week, run, project, purpose, model, outcome, counted"
            made = db.execute(f"INSERT INTO requests ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
            return made or 0

    def settle(self, row: int, outcome: str, usage: Usage, counted: int) -> None:
        """Put what a request really took in the place of what was set aside."""
        values = (outcome, usage.fresh, usage.cached, usage.stored, usage.output, usage.dollars, counted, row)
        with self.transaction(durable=False) as db:
            db.execute(
                "UPDATE requests SET outcome = ?, fresh = ?, cached = ?, stored = ?, output = ?, dollars = ?,"
                " counted = ? WHERE id = ?",
                values,
            )

    def prune(self, now: datetime) -> None:
        """Leave out what is too old to be asked for, and of too many the oldest."""
        oldest = (now - timedelta(days=USAGE_DAYS)).timestamp()
        with self.transaction(durable=False) as db:
            db.execute("DELETE FROM requests WHERE at < ?", (oldest,))
            db.execute("DELETE FROM requests WHERE id <= (SELECT max(id) FROM requests) - ?", (USAGE_ROWS,))

    def read_spent(self, run: str, now: datetime) -> Spent:
        with self.reading() as db:
            of_run = db.execute("SELECT sum(counted) FROM requests WHERE run = ?", (run,)).fetchone()[0]
            today = find_day(now)
            # What a clock that was wrong has put into the years ahead must not count on every day until then.
            day = (today.timestamp(), (today + timedelta(days=1)).timestamp())
            of_day = db.execute("SELECT sum(counted) FROM requests WHERE at >= ? AND at < ?", day).fetchone()[0]
        return Spent(of_run or 0, of_day or 0)

    def read_last(self, limit: int) -> tuple[Entry, ...]:
        """The newest requests, newest first."""
        query = (
            "SELECT at, project, purpose, model, outcome, fresh, cached, output, stored, dollars, counted"
            " FROM requests ORDER BY id DESC LIMIT ?"
        )
        with self.reading() as db:
            rows = db.execute(query, (limit,)).fetchall()
        return tuple(_read_entry(row) for row in rows)

    def read_totals(self, since: datetime) -> tuple[Total, ...]:
        """Sums by week, project and purpose, newest week first."""
        query = (
            "SELECT week, project, purpose, count(*), sum(outcome NOT IN ('done', 'calls', 'length', 'refused')),"
            " sum(dollars IS NULL AND fresh + cached + stored + output > 0),"
            " sum(fresh), sum(cached), sum(output), sum(stored), sum(dollars) FROM requests"
            " WHERE at >= ? GROUP BY week, project, purpose ORDER BY week DESC, project, purpose"
        )
        with self.reading() as db:
            rows = db.execute(query, (since.timestamp(),)).fetchall()
        return tuple(_read_total(row) for row in rows)


class Held:
    """The file held open between requests by a connection that is never used: SQLite puts its log away and waits for
    the disk whenever the last one is closed, and a person would wait for that before every request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: tuple[int, int] | None = None
        self._let_go: Callable[[], object] = lambda: None

    def hold(self, path: Path) -> None:
        """Hold this file, and no longer one that was moved away or deleted; if that fails, requests take longer."""
        with self._lock, suppress(OSError, DiskError):
            facts = os.stat(path)
            if self._file != (facts.st_dev, facts.st_ino):
                self._let_go()
                self._file = None
                self._let_go = weakref.finalize(self, open_book(path).close)
                self._file = facts.st_dev, facts.st_ino


@dataclass(frozen=True, slots=True)
class Report:
    """What a person wants to know of it: what counts today, the weeks, and the newest requests."""

    today: int = 0
    totals: Sequence[Total] = ()
    last: Sequence[Entry] = ()


def read_usage(path: Path, *, now: datetime, weeks: int = 8, last: int = 20) -> Report:
    """A summary of the file, empty when there is none."""
    if not path.exists():
        return Report()
    book = UsageBook(path, MIGRATIONS, readonly=True, busy_seconds=_BUSY_SECONDS)
    try:
        if book.version < len(MIGRATIONS):
            return Report()
        since = datetime.fromisoformat(find_week(now - timedelta(weeks=weeks - 1))).astimezone()
        return Report(book.read_spent("", now).day, book.read_totals(since), book.read_last(last))
    finally:
        book.close()


def open_book(path: Path) -> UsageBook:
    """The file, made readable by its owner only if it is not there."""
    try:
        make_private_dirs(path.parent)
        create_file(path)
    except OSError as error:
        raise disk_error(error, path) from error
    return UsageBook(path, MIGRATIONS, busy_seconds=_BUSY_SECONDS)


def find_week(at: datetime) -> str:
    """The Monday of its week, as a date, where the person is."""
    day = find_day(at)
    return (day - timedelta(days=day.weekday())).date().isoformat()


def _read_entry(row: Sequence[Any]) -> Entry:
    at, project, purpose, model, outcome = row[:5]
    return Entry(datetime.fromtimestamp(at).astimezone(), project, purpose, model, outcome, Usage(*row[5:10]), row[10])


def _read_total(row: Sequence[Any]) -> Total:
    week, project, purpose, requests, failed, unpriced = row[:6]
    return Total(week, project, purpose, requests, failed, unpriced, Usage(*row[6:11]))
