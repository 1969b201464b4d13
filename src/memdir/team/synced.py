"""What came of a sync, and the record of the last one: `<state>/team-sync.json`, for `status` and `doctor`.

The record remembers what is refused, so that it is told as new only once. It can be deleted at any time.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from memdir.errors import DiskError, PathError
from memdir.frozen import dataclass, field
from memdir.kept_team import RECORD, read_table, write_table
from memdir.limits import TEAM_DUE_MINUTES
from memdir.team.news import News
from memdir.text import one_line, shorten

_WHY_CHARS = 300


class Outcome(StrEnum):
    """How it ended: all is in step; the remote does not answer; it takes nothing from us; another sync is under way;
    something else went wrong."""

    SYNCED = "synced"
    OFFLINE = "offline"
    DENIED = "denied"
    BUSY = "busy"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that was not taken, or not sent; `is_new` if the last sync did not say so already."""

    path: str
    why: str
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Synced:
    """Names of memories as they are here, `team/…`; `act` is what `undo` takes, None if nothing changed here."""

    outcome: Outcome
    error: str = ""
    sent: tuple[str, ...] = ()
    received: tuple[News, ...] = ()
    clashes: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    withheld: tuple[Refusal, ...] = ()
    waiting: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    act: int | None = None
    commit: str = ""
    is_news: bool = True  # whether the error is another than last time


@dataclass(frozen=True, slots=True)
class Record:
    """The last sync as it was kept."""

    at: datetime | None = None
    outcome: str = ""
    error: str = ""
    last_good: datetime | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)


def mark_known(refused: Mapping[str, str], known: Mapping[str, str]) -> tuple[Refusal, ...]:
    """Refusals with whether they are new, names and reasons as they may be printed."""
    rows = {one_line(path): shorten(one_line(why), _WHY_CHARS) for path, why in refused.items()}
    return tuple(Refusal(path, why, known.get(path) != why) for path, why in sorted(rows.items()))


def read_record(state: Path) -> Record:
    table = read_table(state, RECORD)
    refused, withheld = (_read_reasons(table.get(key)) for key in ("refused", "withheld"))
    at, last_good = (_read_time(table.get(key)) for key in ("at", "last_good"))
    return Record(at, str(table.get("outcome", "")), str(table.get("error", "")), last_good, refused, withheld)


def write_record(state: Path, done: Synced, now: datetime) -> None:
    """Keep how it went; best effort. What could not be looked at this time is refused as before."""
    if done.outcome is Outcome.BUSY:
        return
    before = read_record(state)
    looked = done.outcome in (Outcome.SYNCED, Outcome.DENIED)
    last_good = now if looked else before.last_good
    table = {
        "at": now.isoformat(),
        "outcome": done.outcome.value,
        "error": done.error,
        "last_good": last_good.isoformat() if last_good else None,
        "refused": {at.path: at.why for at in done.refused} if looked else dict(before.refused),
        "withheld": {at.path: at.why for at in done.withheld} if looked else dict(before.withheld),
    }
    try:
        write_table(state, RECORD, table)
    except (DiskError, PathError):
        pass


def is_due(state: Path, now: datetime, *, minutes: float = TEAM_DUE_MINUTES) -> bool:
    """Whether the last sync is long enough ago; a time in the future counts as now."""
    at = read_record(state).at
    return at is None or abs(now - at) >= timedelta(minutes=minutes)


def _read_reasons(value: object) -> dict[str, str]:
    return {str(key): str(why) for key, why in value.items()} if isinstance(value, dict) else {}


def _read_time(value: object) -> datetime | None:
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return when if when.tzinfo else None
