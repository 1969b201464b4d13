"""What is wrong with a team's sync, by the record of the last one. It asks no remote."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from memdir.doctor.findings import Finding
from memdir.kept_team import RECORD
from memdir.team.membership import read_membership
from memdir.team.synced import Outcome, Record, read_record
from memdir.text import one_line, shorten

SILENT = timedelta(days=7)  # a remote that was out of reach for so long is more than a train ride
_SHOWN = 5
_CHARS = 200


def check_team(state: Path, now: datetime) -> Iterator[Finding]:
    """A sync that failed or has not been for long, and files that it does not take or send."""
    if read_membership(state) is None:
        return
    record = read_record(state)
    if message := _find_trouble(record, now):
        yield Finding("team_sync", RECORD, message, "`memdir team sync` tries again, `memdir team status` tells more")
    yield from _tell_files(
        record.refused, "not taken", "its author has to mend it, or somebody takes it out of the branch with git"
    )
    yield from _tell_files(record.withheld, "not sent", "mend it here, then `memdir team sync`")


def _find_trouble(record: Record, now: datetime) -> str:
    why = f": {shorten(one_line(record.error), _CHARS)}" if record.error else ""
    if record.outcome == Outcome.DENIED:
        return f"the remote takes nothing from here{why}"
    if record.outcome == Outcome.FAILED:
        return f"the last sync failed{why}"
    good = record.last_good
    if record.outcome == Outcome.OFFLINE and (good is None or now - good > SILENT):
        since = f" since {good.astimezone():%Y-%m-%d}" if good else ""
        return f"the remote has not answered{since}{why}"
    return ""


def _tell_files(reasons: Mapping[str, str], what: str, fix: str) -> Iterator[Finding]:
    for number, (path, why) in enumerate(sorted(reasons.items())):
        if number == _SHOWN:
            yield Finding(
                "team_sync", RECORD, f"{len(reasons) - _SHOWN} more files were {what}", "`memdir team status`"
            )
            return
        yield Finding("team_sync", shorten(one_line(path), _CHARS), f"{what}: {shorten(one_line(why), _CHARS)}", fix)
