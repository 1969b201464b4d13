"""How old a memory is, in words, and the caveat an old one carries.

Days are calendar days in the zone of `now`: what was saved late last evening is "yesterday" in the morning. From which
moment a memory's age counts is not decided here.
"""

from datetime import datetime


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
