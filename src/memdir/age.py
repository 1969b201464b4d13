"""How old a memory is, in words, and the caveat an old one carries.

Days are calendar days in the zone of `now`: what was saved late last evening is "yesterday" in the morning. Which
moments a memory's age could count from is found elsewhere (aging).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from memdir.limits import HALF_LIFE_FEEDBACK, HALF_LIFE_PROJECT, HALF_LIFE_REFERENCE, HALF_LIFE_USER
from memdir.records import Kind

HalfLives = Mapping[Kind, float]
# Days after which a memory of each type counts half as fresh; 0: never.
HALF_LIVES: HalfLives = {
    Kind.PROJECT: HALF_LIFE_PROJECT,
    Kind.REFERENCE: HALF_LIFE_REFERENCE,
    Kind.USER: HALF_LIFE_USER,
    Kind.FEEDBACK: HALF_LIFE_FEEDBACK,
}


def count_from(moments: Iterable[datetime | None], now: datetime) -> datetime | None:
    """The latest of the moments that are known; one to come counts as now."""
    known = [min(moment, now) for moment in moments if moment is not None]
    return max(known, default=None)


def find_half_life(kind: Kind | None, lives: HalfLives = HALF_LIVES) -> float:
    """The half-life of a type; what has none is taken for a reference."""
    return lives[kind or Kind.REFERENCE]


def weigh_age(modified: datetime, now: datetime, half_life: float) -> float:
    """From 1 for what is new towards 0: half after every so many days; a half-life of 0 means that it never ages."""
    return 0.5 ** (days_old(modified, now) / half_life) if half_life > 0 else 1.0


def days_old(modified: datetime, now: datetime) -> int:
    """Whole calendar days between the two, in the zone of `now`; a moment to come counts as now."""
    try:
        seen = modified.astimezone(now.tzinfo)
    except OverflowError:  # within hours of the first or last day of the calendar
        seen = modified
    return max(0, (now.date() - seen.date()).days)


def render_age(modified: datetime, now: datetime) -> str:
    """today, yesterday, or N days ago."""
    days = days_old(modified, now)
    return ("today", "yesterday")[days] if days < 2 else f"{days} days ago"


def render_freshness(modified: datetime, now: datetime) -> str:
    """The caveat for a memory older than yesterday; nothing for a younger one."""
    days = days_old(modified, now)
    if days < 2:
        return ""
    return (
        f"This was noted {days} days ago and describes that moment, not the present: "
        "check it against the current state before you state it as fact."
    )
