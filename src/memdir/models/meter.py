"""A model that counts: each request is checked against the caps before it goes out and recorded when it has ended.

If the record cannot be written, nothing is asked while there is a cap: what cannot be counted cannot be stopped. An
answer that went over a cap is returned all the same, since it is paid for; the next request is refused.
"""

import contextlib
import logging
import re
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

from memdir.errors import BudgetError, DiskError, ModelError, ReplyError, StoppedError, UnreachableError
from memdir.frozen import dataclass, field, replace
from memdir.models.budget import Caps, estimate_input, weigh
from memdir.models.prices import find_cost
from memdir.models.usage import OPEN, Entry, Held, open_book
from memdir.models.wire import as_text
from memdir.records import Model, Reply, Request, Usage
from memdir.tokens import estimate_tokens

log = logging.getLogger("memdir.models")
_PURPOSE = re.compile(r"[a-z][a-z0-9_.-]{0,39}")
# After these the provider has read the request and may charge for it.
_READ = frozenset({"timeout", "broken"})


@dataclass(frozen=True, slots=True)
class Meter:
    """Where requests are recorded, under which heading, and what may be spent."""

    path: Path
    model: str
    caps: Caps
    clock: Callable[[], datetime]
    run: str
    project: str = ""
    held: Held = field(default_factory=Held, repr=False, compare=False)


def ask_metered(model: Model, request: Request, meter: Meter) -> Reply:
    """Ask `model`, within the caps, and leave a row of what it took."""
    needed = estimate_input(request)
    entry = _make_entry(request, meter, needed + request.max_tokens)
    row = _begin(entry, meter)
    try:
        reply = model(request)
    except ModelError as error:
        usage = _price(error.usage or Usage(), entry.model)
        counted = weigh(usage) if error.usage else needed if _was_read(error) else 0
        _settle(meter, row, entry, find_outcome(error), usage, counted)
        raise
    usage = _price(reply.usage, entry.model)
    # An endpoint that reports nothing is not free of the caps: what was estimated stands.
    counted = weigh(usage) if usage.input or usage.output else needed + _estimate_output(reply)
    _settle(meter, row, entry, reply.stop.value, usage, counted)
    return replace(reply, usage=usage)


def _estimate_output(reply: Reply) -> int:
    return estimate_tokens(reply.text) + sum(estimate_tokens(str(call.input)) for call in reply.calls)


def find_outcome(error: ModelError) -> str:
    """One word for what went wrong."""
    if isinstance(error, UnreachableError):
        return error.reason or "unreachable"
    return "cancelled" if isinstance(error, StoppedError) else "unusable" if isinstance(error, ReplyError) else "failed"


def render_entry(entry: Entry) -> str:
    """One line of the log: how much was read, how much of it from the cache, and what that cost."""
    usage = entry.usage
    share = f" ({usage.cached / usage.input:.1%})" if usage.input else ""
    cost = "" if usage.dollars is None else f", ${usage.dollars:.4f}"
    read = f"input {usage.input:,}: cached {usage.cached:,}{share}, stored {usage.stored:,}, fresh {usage.fresh:,}"
    return f"{entry.purpose or 'request'} {entry.model} {entry.outcome}: {read}; output {usage.output:,}{cost}"


def _make_entry(request: Request, meter: Meter, counted: int) -> Entry:
    purpose = request.purpose if _PURPOSE.fullmatch(request.purpose) else "other" if request.purpose else ""
    provider = meter.model.partition(":")[0]
    inherited = as_text((request.parent or {}).get("model"))
    model = f"{provider}:{inherited}" if inherited else meter.model
    return Entry(meter.clock(), meter.project, purpose, model, OPEN, Usage(), counted)


def _begin(entry: Entry, meter: Meter) -> int | None:
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


def _settle(meter: Meter, row: int | None, entry: Entry, outcome: str, usage: Usage, counted: int) -> None:
    log.info("%s", render_entry(replace(entry, outcome=outcome, usage=usage)))
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
