"""The hard stop: how many tokens a run and a day may spend, and what counts. Pure; the counting is kept by usage.

Before a request its input is estimated and the whole of its answer set aside; afterwards what it really took is put in
the place of that. A token read from a cache counts a tenth, as it costs. Of a fork the parent's part is estimated as
cached, because that is what a fork is for: if the cache turns out cold, that one request may overshoot, and the next is
refused.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from memdir.errors import BudgetError
from memdir.frozen import dataclass
from memdir.limits import CACHED_WEIGHT
from memdir.records import Request, Usage
from memdir.tokens import estimate_tokens

_PARTS = 256  # texts whose size is known already: a conversation sends nearly all of its texts again each time
_JSON_CHARS = 4  # of a token, in a parent's body: exact enough for what counts a tenth


@dataclass(frozen=True, slots=True)
class Caps:
    """Tokens; 0 is no cap."""

    run: int = 0
    day: int = 0


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens that count already, those set aside for requests under way among them."""

    run: int = 0
    day: int = 0


def weigh(usage: Usage) -> int:
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


def check_caps(caps: Caps, spent: Spent, needed: int, now: datetime) -> None:
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
