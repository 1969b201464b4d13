"""Model usage: the record of requests, token limits, prices, and retries.

`ask_metered` checks a request against the limits and adds one row to the user's usage file, which all projects and processes
share. Before a request, its estimated input and its maximum output are reserved, and afterwards replaced by the real numbers.
If the process is killed in between, the reserved tokens count. If a limit is set and the row cannot be written, no request
is sent. A reply that exceeds a limit is returned, because it is paid for, and the next request is refused. Tokens read from
a cache count a tenth, like their price. A fork's parent is assumed to be cached; if it is not, that request may exceed the
limit. Rows contain no text of messages or memories and no memory names.
"""

import json
import logging
import random
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path

from memdir.errors import BudgetError, DiskError, ModelError, ReplyError, StoppedError, UnreachableError
from memdir.files import make_private_dirs, raise_disk_errors
from memdir.frozen import dataclass, replace
from memdir.limits import CACHED_WEIGHT, MODEL_RETRY_SECONDS, MODEL_TRIES, USAGE_DAYS, USAGE_ROWS
from memdir.models.connection import can_use_tools, sum_usage
from memdir.records import Model, Reply, Request, Usage
from memdir.store.history import Database, create_file
from memdir.text import as_text, estimate_tokens

FILE = "usage.db"
OPEN = "open"  # the request is running, or its process was killed
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
    "ALTER TABLE requests ADD COLUMN seconds REAL",
)
_BUSY_SECONDS = 10.0
_WEEKS, _LAST = 8, 20  # of a report: weeks, and newest requests
_CACHED_TEXTS = 256  # cached because each request of a conversation repeats nearly all texts
_JSON_CHARS = 4  # characters per token, to estimate the size of a parent's body
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 20.0
_NAP = 0.25  # how often a wait checks whether the request was cancelled
_PURPOSE = re.compile(r"[a-z][a-z0-9_.-]{0,39}")
_READ = frozenset({"timeout", "broken"})  # the provider has read the request and may charge for it
_STORED = 1.25  # times the input price, for tokens written to the cache
_DATE = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d\d-\d\d|-latest)$")
log = logging.getLogger("memdir.models")


@dataclass(frozen=True, slots=True)
class TokenCaps:
    """Tokens per run and per day: either the limits (0 means unlimited), or those already used or reserved."""

    run: int = 0
    day: int = 0


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The record of one request. `counted` is the number of tokens that count towards the budget."""

    at: datetime
    project: str
    purpose: str
    model: str
    outcome: str
    usage: Usage
    counted: int


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """A project's requests in one week for one purpose. `seconds` is the mean response time, if known."""

    week: str
    project: str
    purpose: str
    requests: int
    failed: int
    unpriced: int
    usage: Usage
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    today: int = 0
    totals: Sequence[UsageTotal] = ()
    last: Sequence[UsageRow] = ()


@dataclass(frozen=True, slots=True)
class UsageMeter:
    """The usage file and limits, with the run and project under which requests are recorded."""

    path: Path
    model: str
    caps: TokenCaps
    clock: Callable[[], datetime]
    run: str
    project: str = ""


def ask_metered(model: Model, request: Request, meter: UsageMeter) -> Reply:
    needed = estimate_input(request)
    purpose = request.purpose if _PURPOSE.fullmatch(request.purpose) else "other" if request.purpose else ""
    inherited = as_text((request.parent or {}).get("model"))
    name = f"{meter.model.partition(':')[0]}:{inherited}" if inherited else meter.model
    entry = UsageRow(meter.clock(), meter.project, purpose, name, OPEN, Usage(), needed + request.max_tokens)
    row, began = _begin(entry, meter), time.monotonic()
    try:
        reply = model(request)
    except ModelError as error:
        usage = _price(error.usage or Usage(), entry.model)
        reason = (error.reason or "unreachable") if isinstance(error, UnreachableError) else ""
        word = (
            "cancelled"
            if isinstance(error, StoppedError)
            else "unusable"
            if isinstance(error, ReplyError)
            else "failed"
        )
        was_read = isinstance(error, StoppedError | ReplyError) or reason in _READ
        counted = count_tokens_spent(usage) if error.usage else needed if was_read else 0
        _settle(meter, row, entry, reason or word, usage, counted)
        raise
    usage = _price(reply.usage, entry.model)
    counted = count_tokens_spent(usage)
    if not (usage.input or usage.output):  # the endpoint does not report usage, so use the estimate
        counted = needed + sum(map(estimate_tokens, (reply.text, *(str(call.input) for call in reply.calls))))
    _settle(meter, row, entry, reply.stop.value, usage, counted, time.monotonic() - began)
    return replace(reply, usage=usage)


def sum_totals(totals: Sequence[UsageTotal]) -> UsageTotal:
    """Add up several totals. The week, project and purpose are those of the first."""
    counts = {name: sum(getattr(total, name) for total in totals) for name in ("requests", "failed", "unpriced")}
    return replace(totals[0], usage=sum_usage(*(total.usage for total in totals)), seconds=None, **counts)


def sum_last_week(report: UsageReport) -> dict[str, UsageTotal]:
    """Return the totals by purpose in the newest week with requests."""
    week = max((total.week for total in report.totals), default="")
    by_purpose: dict[str, list[UsageTotal]] = {}
    for total in report.totals:
        if total.week == week:
            by_purpose.setdefault(total.purpose or "other", []).append(total)
    return {purpose: sum_totals(totals) for purpose, totals in sorted(by_purpose.items())}


def describe_cost(usage: Usage, *, unpriced: int = 0) -> str:
    """Describe the tokens sent and received, the cached share, and the cost."""
    share = f" ({usage.cached / usage.input:.0%} cached)" if usage.input else ""
    return f"{usage.input:,} tokens in{share}, {usage.output:,} out, {describe_dollars(usage, unpriced=unpriced)}"


def describe_dollars(usage: Usage, *, unpriced: int = 0) -> str:
    """Describe the approximate cost. `unpriced` is the number of requests that it does not include."""
    if usage.dollars is None:
        return "price unknown" if usage.input or usage.output else "nothing spent"
    digits = 4 if 0 < usage.dollars < 0.01 else 2
    return f"about ${usage.dollars:.{digits}f}{' and more' if unpriced else ''}"


def render_usage_row(entry: UsageRow) -> str:
    """Render one line with the input tokens, their cached share, the output tokens and the cost."""
    usage = entry.usage
    share = f" ({usage.cached / usage.input:.1%})" if usage.input else ""
    cost = "" if usage.dollars is None else f", ${usage.dollars:.4f}"
    read = f"input {usage.input:,}: cached {usage.cached:,}{share}, stored {usage.stored:,}, fresh {usage.fresh:,}"
    return f"{entry.purpose or 'request'} {entry.model} {entry.outcome}: {read}; output {usage.output:,}{cost}"


def _begin(entry: UsageRow, meter: UsageMeter) -> int | None:
    try:
        with closing(open_book(meter.path)) as book:
            row = book.begin(entry, meter.run, meter.caps)
            if row % 100 == 1:
                book.prune(entry.at)
            return row
    except DiskError as error:
        if not (meter.caps.run or meter.caps.day):
            return None
        message = f"cannot record model costs, so no request is sent: {error}"
        raise BudgetError(message, hint=f"repair or move {meter.path}, or set both limits to 0") from error


def _settle(
    meter: UsageMeter, row: int | None, entry: UsageRow, outcome: str, usage: Usage, counted: int,
    seconds: float | None = None,
) -> None:  # fmt: skip
    log.info("%s", render_usage_row(replace(entry, outcome=outcome, usage=usage)))
    if row is not None:
        # A row that cannot be corrected still counts the reserved tokens, which is safe.
        with suppress(DiskError), closing(open_book(meter.path)) as book:
            book.settle(row, outcome, usage, counted, seconds)


def _price(usage: Usage, model: str) -> Usage:
    if usage.dollars is not None or not (usage.input or usage.output):
        return usage
    return replace(usage, dollars=find_cost(model.partition(":")[2], usage))


@dataclass(frozen=True, slots=True)
class RetryingModel:
    """A model that retries requests after temporary errors, unless text was already shown, which would appear twice.

    `chance` varies the delays, so that processes do not retry together.
    """

    model: Model
    tries: int = MODEL_TRIES
    seconds: float = MODEL_RETRY_SECONDS
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random

    @property
    def has_tools(self) -> bool:
        return can_use_tools(self.model)

    def __call__(self, request: Request) -> Reply:
        deadline = self.clock() + self.seconds
        streamed: list[str] = []
        on_text = request.on_text

        def show(text: str) -> None:
            streamed.append(text)
            if on_text is not None:
                on_text(text)

        pending = request if on_text is None else replace(request, on_text=show)
        for attempt in range(1, self.tries + 1):
            try:
                return self.model(pending)
            except UnreachableError as error:
                # Wait as long as the provider asks, or a random time in the upper half of a doubling interval.
                longest = min(_LONGEST_WAIT, _FIRST_WAIT * float(1 << (attempt - 1)))
                wait = max(error.retry_after or 0.0, longest * (0.5 + self.chance() / 2))
                if not error.is_transient or streamed or attempt == self.tries or self.clock() + wait >= deadline:
                    raise
                fault = error
            except StoppedError:
                if attempt > 1 and not _is_cancelled(request):  # stopped by the deadline, not by the caller
                    raise fault from None
                raise
            self._wait(wait, request)
            pending = replace(pending, cancelled=lambda: _is_cancelled(request) or self.clock() >= deadline)
        raise AssertionError("the last try returns or raises")

    def _wait(self, seconds: float, request: Request) -> None:
        until = self.clock() + seconds
        while (left := until - self.clock()) > 0:
            if _is_cancelled(request):
                raise StoppedError("the request was cancelled before a retry")
            self.sleep(min(left, _NAP) if request.cancelled else left)


with_retry = RetryingModel


def _is_cancelled(request: Request) -> bool:
    return request.cancelled is not None and request.cancelled()


class UsageBook(Database):
    def begin(self, entry: UsageRow, run: str, caps: TokenCaps) -> int:
        """Reserve tokens for a request. Raises BudgetError if that exceeds a limit."""
        timestamp, week = entry.at.timestamp(), find_week(entry.at)
        row = (timestamp, week, run, entry.project, entry.purpose, entry.model, entry.outcome, entry.counted)
        with self.transaction(durable=False) as db:
            check_caps(caps, self.read_spent(run, entry.at), entry.counted, entry.at)
            columns = "at, week, run, project, purpose, model, outcome, counted"
            return db.execute(f"INSERT INTO requests ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid or 0

    def settle(self, row: int, outcome: str, usage: Usage, counted: int, seconds: float | None = None) -> None:
        """Replace the reserved tokens with those that a request used. `seconds` is its response time."""
        values = (outcome, usage.fresh, usage.cached, usage.stored, usage.output, usage.dollars, counted, seconds, row)
        columns = "outcome = ?, fresh = ?, cached = ?, stored = ?, output = ?, dollars = ?, counted = ?, seconds = ?"
        with self.transaction(durable=False) as db:
            db.execute(f"UPDATE requests SET {columns} WHERE id = ?", values)

    def prune(self, now: datetime) -> None:
        oldest = (now - timedelta(days=USAGE_DAYS)).timestamp()
        with self.transaction(durable=False) as db:
            db.execute("DELETE FROM requests WHERE at < ?", (oldest,))
            db.execute("DELETE FROM requests WHERE id <= (SELECT max(id) FROM requests) - ?", (USAGE_ROWS,))

    def read_spent(self, run: str, now: datetime) -> TokenCaps:
        with self.reading() as db:
            of_run = db.execute("SELECT sum(counted) FROM requests WHERE run = ?", (run,)).fetchone()[0]
            today = find_day(now)
            # Do not count rows with a future time, which come from a wrong clock.
            day = (today.timestamp(), (today + timedelta(days=1)).timestamp())
            of_day = db.execute("SELECT sum(counted) FROM requests WHERE at >= ? AND at < ?", day).fetchone()[0]
        return TokenCaps(of_run or 0, of_day or 0)

    def read_last(self, limit: int) -> tuple[UsageRow, ...]:
        columns = "at, project, purpose, model, outcome, fresh, cached, output, stored, dollars, counted"
        with self.reading() as db:
            rows = db.execute(f"SELECT {columns} FROM requests ORDER BY id DESC LIMIT ?", (limit,)).fetchall()
        return tuple(
            UsageRow(
                datetime.fromtimestamp(when).astimezone(), project, purpose, model, outcome, Usage(*usage), counted
            )
            for when, project, purpose, model, outcome, *usage, counted in rows
        )

    def read_totals(self, since: datetime) -> tuple[UsageTotal, ...]:
        """Return totals by week, project and purpose, newest week first."""
        query = (
            "SELECT week, project, purpose, count(*), sum(outcome NOT IN ('done', 'calls', 'length', 'refused')),"
            " sum(dollars IS NULL AND fresh + cached + stored + output > 0),"
            " avg(seconds), sum(fresh), sum(cached), sum(output), sum(stored), sum(dollars) FROM requests"
            " WHERE at >= ? GROUP BY week, project, purpose ORDER BY week DESC, project, purpose"
        )
        with self.reading() as db:
            rows = db.execute(query, (since.timestamp(),)).fetchall()
        return tuple(
            UsageTotal(week, project, purpose, requests, failed, unpriced, Usage(*usage), seconds)
            for week, project, purpose, requests, failed, unpriced, seconds, *usage in rows
        )


def read_usage_report(path: Path, *, now: datetime) -> UsageReport:
    if not path.exists():
        return UsageReport()
    with closing(UsageBook(path, MIGRATIONS, readonly=True, busy_seconds=_BUSY_SECONDS)) as book:
        since = datetime.fromisoformat(find_week(now - timedelta(weeks=_WEEKS - 1))).astimezone()
        return UsageReport(book.read_spent("", now).day, book.read_totals(since), book.read_last(_LAST))


def open_book(path: Path) -> UsageBook:
    """Open the usage file, and create it if necessary, readable only by its owner."""
    with raise_disk_errors(path):
        make_private_dirs(path.parent)
        create_file(path)
    return UsageBook(path, MIGRATIONS, busy_seconds=_BUSY_SECONDS)


def find_week(time: datetime) -> str:
    """Return the Monday of a week as a local date."""
    day = find_day(time)
    return (day - timedelta(days=day.weekday())).date().isoformat()


def count_tokens_spent(usage: Usage) -> int:
    return usage.fresh + usage.stored + usage.output + round(usage.cached * CACHED_WEIGHT)


def estimate_input(request: Request) -> int:
    parts = [request.system, *(message.text for message in request.messages)]
    parts += [json.dumps(call.input, default=str) for message in request.messages for call in message.calls]
    parts += [f"{tool.name} {tool.description} {_dump(tool.schema)}" for tool in request.tools]
    own = sum(map(_estimate, parts))
    inherited = 0 if request.parent is None else len(_dump(request.parent)) // _JSON_CHARS
    return own + round(inherited * CACHED_WEIGHT)


_estimate = lru_cache(maxsize=_CACHED_TEXTS)(estimate_tokens)


def check_caps(caps: TokenCaps, spent: TokenCaps, needed: int, now: datetime) -> None:
    renewed = f"it is reset at {find_day(now) + timedelta(days=1):%Y-%m-%d %H:%M}"
    rows = (
        (caps.run, spent.run, "one run", "budget.run_tokens", "the next run starts from zero"),
        (caps.day, spent.day, "one day", "budget.day_tokens", renewed),
    )
    for cap, used, span, key, when in rows:
        if cap and used + needed > cap:
            raise BudgetError(
                f"token limit for {span} reached: {used:,} of {cap:,} spent, this needs about {needed:,}",
                hint=f"{when}; `memdir config set {key} N` changes it, 0 means unlimited",
            )


def find_day(now: datetime) -> datetime:
    return now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)


def _dump(table: Mapping[str, object]) -> str:
    return json.dumps(table, default=str, ensure_ascii=False)


@cache
def _read_prices() -> dict[str, list[float]]:
    return tomllib.loads(Path(__file__).with_name("prices.toml").read_text(encoding="utf-8"))


def find_price(name: str) -> Sequence[float]:
    """Return the dollars per million tokens of input, output and cached input of a model; empty if unknown.

    The name may include a vendor, a date or a context size.
    """
    return _read_prices().get(_DATE.sub("", re.sub(r"\[.*\]$", "", name.rpartition("/")[2].strip().lower())), ())


def find_cost(name: str, usage: Usage) -> float | None:
    """Return the cost of a request in dollars, or None if the price is unknown."""
    if not (price := find_price(name)):
        return None
    fresh, output, cached = price
    read = usage.fresh * fresh + usage.stored * fresh * _STORED + usage.cached * cached
    return (read + usage.output * output) / 1_000_000
