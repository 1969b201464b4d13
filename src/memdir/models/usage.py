"""The hard stop: how many tokens a run and a day may spend, and what counts. Pure; the counting is kept by usage.

Before a request its input is estimated and the whole of its answer set aside; afterwards what it really took is put in
the place of that. A token read from a cache counts a tenth, as it costs. Of a fork the parent's part is estimated as
cached, because that is what a fork is for: if the cache turns out cold, that one request may overshoot, and the next is
refused.
"""

import contextlib
import json
import logging
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from memdir.errors import BudgetError, DiskError, ModelError, ReplyError, StoppedError, UnreachableError
from memdir.files import disk_error, make_private_dirs
from memdir.frozen import dataclass, field, replace
from memdir.limits import CACHED_WEIGHT, MODEL_RETRY_SECONDS, MODEL_TRIES, USAGE_DAYS, USAGE_ROWS
from memdir.models.connection import as_text, can_use_tools
from memdir.records import Model, Reply, Request, Usage
from memdir.store.history import Database, create_file
from memdir.text import estimate_tokens

# --- budget ---

_PARTS = 256  # texts whose size is known already: a conversation sends nearly all of its texts again each time
_JSON_CHARS = 4  # of a token, in a parent's body: exact enough for what counts a tenth


@dataclass(frozen=True, slots=True)
class TokenCaps:
    """Tokens; 0 is no cap."""

    run: int = 0
    day: int = 0


@dataclass(frozen=True, slots=True)
class SpentTokens:
    """Tokens that count already, those set aside for requests under way among them."""

    run: int = 0
    day: int = 0


def count_tokens_spent(usage: Usage) -> int:
    """What a request counts."""
    return usage.fresh + usage.stored + usage.output + round(usage.cached * CACHED_WEIGHT)


def estimate_input(request: Request) -> int:
    """About what a request's input will count."""
    parts = [request.system, *(message.text for message in request.messages)]
    parts += [json.dumps(call.input, default=str) for message in request.messages for call in message.calls]
    parts += [f"{tool.name} {tool.description} {_dump(tool.schema)}" for tool in request.tools]
    own = sum(map(_estimate, parts))
    inherited = 0 if request.parent is None else len(_dump(request.parent)) // _JSON_CHARS
    return own + round(inherited * CACHED_WEIGHT)


_estimate = lru_cache(maxsize=_PARTS)(estimate_tokens)


def check_caps(caps: TokenCaps, spent: SpentTokens, needed: int, now: datetime) -> None:
    """Raise if a request that counts so much would go over a cap."""
    if caps.run and spent.run + needed > caps.run:
        raise _over(caps.run, "one run", spent.run, needed, "budget.run_tokens", "the next run begins at nothing")
    if caps.day and spent.day + needed > caps.day:
        renewed = f"it begins anew at {find_day(now) + timedelta(days=1):%Y-%m-%d %H:%M}"
        raise _over(caps.day, "one day", spent.day, needed, "budget.day_tokens", renewed)


def find_day(now: datetime) -> datetime:
    """When the day of `now` began, where the person is."""
    return now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)


def _over(cap: int, span: str, spent: int, needed: int, key: str, renewed: str) -> BudgetError:
    return BudgetError(
        f"the cap of {cap:,} tokens for {span} stops this: {spent:,} are spent, about {needed:,} would be added",
        hint=f"{renewed}; `memdir config set {key} N` changes it, 0 is no cap",
    )


def _dump(table: Mapping[str, object]) -> str:
    return json.dumps(table, default=str, ensure_ascii=False)


# --- prices ---
# What tokens cost, by the providers' lists: an estimate for a person's eyes, not a bill.
#
# Written down on 2026-11-16. A model that is not in the table has no price, and nobody guesses one. Tiers by length,
# by
# region and by hour, batches, and caches that are kept for an hour are not in it.

WRITTEN = "2026-11-16"
_STORED = 1.25  # times the price of input, for what is put into the cache


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens: read, written, and read from the cache."""

    input: float
    output: float
    cached: float


PRICES: Mapping[str, Price] = {
    "claude-fable-5-1": Price(10, 50, 0.25),
    "claude-fable-5": Price(10, 50, 1),
    "claude-opus-5-5": Price(4, 20, 0.2),
    "claude-opus-5": Price(5, 25, 0.5),
    "claude-opus-4-8": Price(5, 25, 0.5),
    "claude-opus-4-7": Price(5, 25, 0.5),
    "claude-opus-4-6": Price(5, 25, 0.5),
    "claude-opus-4-5": Price(5, 25, 0.5),
    "claude-opus-4-1": Price(15, 75, 1.5),
    "claude-sonnet-5-5": Price(2, 10, 0.1),
    "claude-sonnet-5": Price(2, 10, 0.2),
    "claude-sonnet-4-6": Price(3, 15, 0.3),
    "claude-sonnet-4-5": Price(3, 15, 0.3),
    "claude-haiku-4-5": Price(1, 5, 0.1),
    "gpt-5.4": Price(2.5, 15, 0.25),
    "gpt-5.4-mini": Price(0.75, 4.5, 0.075),
    "gpt-5.1": Price(1.25, 10, 0.125),
    "gpt-5": Price(1.25, 10, 0.125),
    "gpt-4.1": Price(2, 8, 0.5),
    "gpt-4.1-mini": Price(0.4, 1.6, 0.1),
    "gpt-4o": Price(2.5, 10, 1.25),
    "gpt-4o-mini": Price(0.15, 0.6, 0.075),
}
_DATE = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d\d-\d\d|-latest)$")


def find_price(name: str) -> Price | None:
    """The price of a model by its name: with or without a date, a vendor before it, or a window after it."""
    bare = re.sub(r"\[.*\]$", "", name.rpartition("/")[2].strip().lower())
    return PRICES.get(_DATE.sub("", bare))


def find_cost(name: str, usage: Usage) -> float | None:
    """The dollars a request cost; None where no price is known."""
    price = find_price(name)
    if price is None:
        return None
    read = usage.fresh * price.input + usage.stored * price.input * _STORED + usage.cached * price.cached
    return (read + usage.output * price.output) / 1_000_000


# --- retry ---
# Asking again when that may help: at most three tries, ninety seconds in all.
#
# Only faults that pass are worth another try: a busy or broken provider, a lost connection. A wrong key, a spending
# limit, a refusal or an unusable answer would be the same again. When words have already been shown to a person,
# nothing
# is asked again either: they would read them twice.

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 20.0
_NAP = 0.25  # how long a wait goes without looking whether anybody still waits


def with_retry(
    model: Model,
    *,
    tries: int = MODEL_TRIES,
    seconds: float = MODEL_RETRY_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> Model:
    """The same model, asked again for faults that pass; `chance` spreads the waits of many."""
    return RetryingModel(model, tries, seconds, sleep, clock, chance)


class RetryingModel:
    """See above; a class only so that it says what the model inside can do."""

    def __init__(
        self,
        model: Model,
        tries: int,
        seconds: float,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._model, self._tries, self._seconds = model, tries, seconds
        self._sleep, self._clock, self._chance = sleep, clock, chance
        self.has_tools = can_use_tools(model)

    def __call__(self, request: Request) -> Reply:
        deadline = self._clock() + self._seconds
        shown: list[str] = []
        asked = _note_text(request, shown)
        for attempt in range(1, self._tries + 1):
            try:
                return self._model(asked)
            except UnreachableError as error:
                wait = self._find_wait(error, attempt)
                if not error.passing or shown or attempt == self._tries or self._clock() + wait >= deadline:
                    raise
                fault = error
            except StoppedError:
                if attempt > 1 and not _is_cancelled(request):  # it was the deadline that stopped it
                    raise fault from None
                raise
            self._wait(wait, request)
            asked = replace(asked, cancelled=lambda: _is_cancelled(request) or self._clock() >= deadline)
        raise AssertionError("the last try returns or raises")

    def _find_wait(self, error: UnreachableError, attempt: int) -> float:
        """What the provider asks for, or twice as long each time, somewhere in the upper half of it."""
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * float(1 << (attempt - 1)))
        return max(error.after or 0.0, longest * (0.5 + self._chance() / 2))

    def _wait(self, seconds: float, request: Request) -> None:
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            if _is_cancelled(request):
                raise StoppedError("the request was cancelled while it waited for another try")
            self._sleep(min(left, _NAP) if request.cancelled else left)


def _note_text(request: Request, shown: list[str]) -> Request:
    tell = request.on_text
    if tell is None:
        return request

    def note(text: str) -> None:
        shown.append(text)
        tell(text)

    return replace(request, on_text=note)


def _is_cancelled(request: Request) -> bool:
    return request.cancelled is not None and request.cancelled()


# --- usage ---
# What each request to a model took: one row in one file of the person's, for all projects and processes.
#
# It is the log of the models and what the budget is counted from. A row is written before its request goes out, with
# what
# is set aside for it, and put right afterwards; a process that is killed between leaves the row as it was, and it
# counts.
# No row holds text of a message, a memory or its name.

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
class UsageRow:
    """One request. `outcome` is why the model stopped, or why there was no answer; `counted` is the budget's figure."""

    at: datetime
    project: str
    purpose: str
    model: str
    outcome: str
    usage: Usage
    counted: int


@dataclass(frozen=True, slots=True)
class UsageTotal:
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

    def begin(self, entry: UsageRow, run: str, caps: TokenCaps) -> int:
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

    def read_spent(self, run: str, now: datetime) -> SpentTokens:
        with self.reading() as db:
            of_run = db.execute("SELECT sum(counted) FROM requests WHERE run = ?", (run,)).fetchone()[0]
            today = find_day(now)
            # What a clock that was wrong has put into the years ahead must not count on every day until then.
            day = (today.timestamp(), (today + timedelta(days=1)).timestamp())
            of_day = db.execute("SELECT sum(counted) FROM requests WHERE at >= ? AND at < ?", day).fetchone()[0]
        return SpentTokens(of_run or 0, of_day or 0)

    def read_last(self, limit: int) -> tuple[UsageRow, ...]:
        """The newest requests, newest first."""
        query = (
            "SELECT at, project, purpose, model, outcome, fresh, cached, output, stored, dollars, counted"
            " FROM requests ORDER BY id DESC LIMIT ?"
        )
        with self.reading() as db:
            rows = db.execute(query, (limit,)).fetchall()
        return tuple(_read_entry(row) for row in rows)

    def read_totals(self, since: datetime) -> tuple[UsageTotal, ...]:
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


class UsageFile:
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
class UsageReport:
    """What a person wants to know of it: what counts today, the weeks, and the newest requests."""

    today: int = 0
    totals: Sequence[UsageTotal] = ()
    last: Sequence[UsageRow] = ()


def read_usage_report(path: Path, *, now: datetime, weeks: int = 8, last: int = 20) -> UsageReport:
    """A summary of the file, empty when there is none."""
    if not path.exists():
        return UsageReport()
    book = UsageBook(path, MIGRATIONS, readonly=True, busy_seconds=_BUSY_SECONDS)
    try:
        if book.version < len(MIGRATIONS):
            return UsageReport()
        since = datetime.fromisoformat(find_week(now - timedelta(weeks=weeks - 1))).astimezone()
        return UsageReport(book.read_spent("", now).day, book.read_totals(since), book.read_last(last))
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


def _read_entry(row: Sequence[Any]) -> UsageRow:
    at, project, purpose, model, outcome = row[:5]
    return UsageRow(
        datetime.fromtimestamp(at).astimezone(), project, purpose, model, outcome, Usage(*row[5:10]), row[10]
    )


def _read_total(row: Sequence[Any]) -> UsageTotal:
    week, project, purpose, requests, failed, unpriced = row[:6]
    return UsageTotal(week, project, purpose, requests, failed, unpriced, Usage(*row[6:11]))


# --- meter ---
# A model that counts: each request is checked against the caps before it goes out and recorded when it has ended.
#
# If the record cannot be written, nothing is asked while there is a cap: what cannot be counted cannot be stopped. An
# answer that went over a cap is returned all the same, since it is paid for; the next request is refused.

log = logging.getLogger("memdir.models")
_PURPOSE = re.compile(r"[a-z][a-z0-9_.-]{0,39}")
# After these the provider has read the request and may charge for it.
_READ = frozenset({"timeout", "broken"})


@dataclass(frozen=True, slots=True)
class UsageMeter:
    """Where requests are recorded, under which heading, and what may be spent."""

    path: Path
    model: str
    caps: TokenCaps
    clock: Callable[[], datetime]
    run: str
    project: str = ""
    held: UsageFile = field(default_factory=UsageFile, repr=False, compare=False)


def ask_metered(model: Model, request: Request, meter: UsageMeter) -> Reply:
    """Ask `model`, within the caps, and leave a row of what it took."""
    needed = estimate_input(request)
    entry = _make_entry(request, meter, needed + request.max_tokens)
    row = _begin(entry, meter)
    try:
        reply = model(request)
    except ModelError as error:
        usage = _price(error.usage or Usage(), entry.model)
        counted = count_tokens_spent(usage) if error.usage else needed if _was_read(error) else 0
        _settle(meter, row, entry, find_outcome(error), usage, counted)
        raise
    usage = _price(reply.usage, entry.model)
    # An endpoint that reports nothing is not free of the caps: what was estimated stands.
    counted = count_tokens_spent(usage) if usage.input or usage.output else needed + _estimate_output(reply)
    _settle(meter, row, entry, reply.stop.value, usage, counted)
    return replace(reply, usage=usage)


def _estimate_output(reply: Reply) -> int:
    return estimate_tokens(reply.text) + sum(estimate_tokens(str(call.input)) for call in reply.calls)


def find_outcome(error: ModelError) -> str:
    """One word for what went wrong."""
    if isinstance(error, UnreachableError):
        return error.reason or "unreachable"
    return "cancelled" if isinstance(error, StoppedError) else "unusable" if isinstance(error, ReplyError) else "failed"


def render_usage_row(entry: UsageRow) -> str:
    """One line of the log: how much was read, how much of it from the cache, and what that cost."""
    usage = entry.usage
    share = f" ({usage.cached / usage.input:.1%})" if usage.input else ""
    cost = "" if usage.dollars is None else f", ${usage.dollars:.4f}"
    read = f"input {usage.input:,}: cached {usage.cached:,}{share}, stored {usage.stored:,}, fresh {usage.fresh:,}"
    return f"{entry.purpose or 'request'} {entry.model} {entry.outcome}: {read}; output {usage.output:,}{cost}"


def _make_entry(request: Request, meter: UsageMeter, counted: int) -> UsageRow:
    purpose = request.purpose if _PURPOSE.fullmatch(request.purpose) else "other" if request.purpose else ""
    provider = meter.model.partition(":")[0]
    inherited = as_text((request.parent or {}).get("model"))
    model = f"{provider}:{inherited}" if inherited else meter.model
    return UsageRow(meter.clock(), meter.project, purpose, model, OPEN, Usage(), counted)


def _begin(entry: UsageRow, meter: UsageMeter) -> int | None:
    try:
        with closing(open_book(meter.path)) as book:
            meter.held.hold(meter.path)
            row = book.begin(entry, meter.run, meter.caps)
            if row % 100 == 1:
                book.prune(entry.at)
            return row
    except DiskError as error:
        if not (meter.caps.run or meter.caps.day):
            return None
        message = f"what models cost cannot be recorded, so none is asked: {error}"
        raise BudgetError(message, hint=f"mend or move away {meter.path}; or set both caps to 0") from error


def _settle(meter: UsageMeter, row: int | None, entry: UsageRow, outcome: str, usage: Usage, counted: int) -> None:
    log.info("%s", render_usage_row(replace(entry, outcome=outcome, usage=usage)))
    if row is not None:
        # A row that cannot be put right still counts what was set aside: the safe side.
        with contextlib.suppress(DiskError), closing(open_book(meter.path)) as book:
            book.settle(row, outcome, usage, counted)


def _price(usage: Usage, model: str) -> Usage:
    if usage.dollars is not None or not (usage.input or usage.output):
        return usage
    return replace(usage, dollars=find_cost(model.partition(":")[2], usage))


def _was_read(error: ModelError) -> bool:
    return isinstance(error, StoppedError | ReplyError) or (
        isinstance(error, UnreachableError) and error.reason in _READ
    )
