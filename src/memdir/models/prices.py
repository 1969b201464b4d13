"""What tokens cost, by the providers' lists: an estimate for a person's eyes, not a bill.

Written down on 2026-11-16. A model that is not in the table has no price, and nobody guesses one. Tiers by length, by
region and by hour, batches, and caches that are kept for an hour are not in it.
"""

import re
from collections.abc import Mapping

from memdir.frozen import dataclass
from memdir.records import Usage

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
