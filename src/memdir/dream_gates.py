"""Is a dream due, and if not, why: the closed list of reasons, and the gates in order of what they cost.

    off, paused         settings
    too_soon            hours since the last dream: one `stat` (dream_lock)
    scanned_lately      sessions were counted a short while ago and were too few
    too_few_sessions    a look at every transcript, and at memdir's own records of conversations
    locked              somebody dreams already

Sessions are all conversations since the last dream whose working directory belongs to this project, each once; the one
that asks does not count. What was counted is kept in `<state>/dream-scan.json`, noted before the count begins, so that
neither a failure nor many processes lead to more than one look in ten minutes. The file holds ids of conversations and
can be deleted at any time.

A clock that was set back leaves times that lie ahead. One further ahead than the gate is wide says nothing, so that a
wrong clock delays a dream by that width at most and never stops it for good.

What it does not do: take the lock, or dream. A person who asks for a dream is not asked about hours and sessions.
"""

import json
import os
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from memdir.dream_lock import Holder, find_holder, read_last
from memdir.errors import DiskError
from memdir.frozen import dataclass
from memdir.limits import DREAM_HOURS, DREAM_SCAN_KEPT, DREAM_SCAN_MINUTES, DREAM_SESSIONS
from memdir.opening import Opened
from memdir.session import FOLDER, find_link, make_leaf
from memdir.settings import Environment
from memdir.small_files import read_small, write_private
from memdir.store.contract import read_time
from memdir.store.files import FileStore
from memdir.transcripts import list_transcripts

SCAN = "dream-scan.json"
_SCAN_BYTES = 65_536
_RECORD = ".json"


class DreamSkip(StrEnum):
    """Every reason why there is no dream, or none that changed anything."""

    OFF = "off"
    PAUSED = "paused"
    TOO_SOON = "too_soon"
    SCANNED_LATELY = "scanned_lately"
    TOO_FEW_SESSIONS = "too_few_sessions"
    LOCKED = "locked"
    NOTHING_TO_DO = "nothing_to_do"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    DreamSkip.OFF: "dreaming is switched off here",
    DreamSkip.PAUSED: "memory is paused",
    DreamSkip.TOO_SOON: "the last one was not long ago: dream_hours says how long",
    DreamSkip.SCANNED_LATELY: "sessions were counted a moment ago and were too few: dream_scan_minutes says how often",
    DreamSkip.TOO_FEW_SESSIONS: "there were too few sessions since the last one: dream_sessions says how many",
    DreamSkip.LOCKED: "another one is under way",
    DreamSkip.NOTHING_TO_DO: "there is nothing to tidy",
    DreamSkip.FAILED: "it failed and changed nothing; the next one tries again",
    DreamSkip.CANCELLED: "it was cancelled and changed nothing",
}


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a place wants to dream; the defaults are those of the settings."""

    on: bool = True
    paused: bool = False
    hours: float = DREAM_HOURS
    sessions: int = DREAM_SESSIONS
    scan_minutes: float = DREAM_SCAN_MINUTES


PLAINLY = Pace()


@dataclass(frozen=True, slots=True)
class Due:
    """Whether a dream is due. `sessions` is None where nobody counted; `next_at` is when it is worth asking again."""

    skip: DreamSkip | None = None
    last: datetime | None = None
    sessions: int | None = None
    next_at: datetime | None = None
    holder: Holder | None = None

    @property
    def is_due(self) -> bool:
        return self.skip is None


@dataclass(frozen=True, slots=True)
class _Scan:
    """What the last count found: ids as file names, of the time since `last`."""

    at: datetime
    last: datetime | None
    ids: frozenset[str]


def read_pace(opened: Opened) -> Pace:
    settings = opened.settings
    return Pace(
        on=opened.places.switch.on and settings.flag("dream"),
        paused=settings.flag("paused"),
        hours=settings.number("dream_hours"),
        sessions=int(settings.number("dream_sessions")),
        scan_minutes=settings.number("dream_scan_minutes"),
    )


def find_due(opened: Opened, *, now: datetime, session: str = "") -> Due:
    """Whether a dream is due in this place; `session` is the conversation that asks."""
    environment, root = opened.environment, opened.places.root.path
    return find_due_in(
        opened.private, now=now, pace=read_pace(opened), environment=environment, root=root, session=session
    )


def find_due_in(
    store: FileStore,
    *,
    now: datetime,
    pace: Pace = PLAINLY,
    environment: Environment | None = None,
    root: Path | None = None,
    session: str = "",
) -> Due:
    """The same for a store. Without an environment and the project's root only memdir's own records are counted."""
    if not pace.on or pace.paused:
        return Due(DreamSkip.PAUSED if pace.on else DreamSkip.OFF)
    wait = timedelta(hours=pace.hours)
    found = read_last(store.root)
    last = None if found is None or found - now > wait else found
    if last is not None and now - last < wait:
        return Due(DreamSkip.TOO_SOON, last, next_at=last + wait)
    if not store.root.is_dir():
        return Due(DreamSkip.NOTHING_TO_DO, last)

    def list_ids() -> frozenset[str]:
        return frozenset(list_sessions(store.state, last)) | _list_transcribed(environment, root, last)

    due = _judge_sessions(store.state, now, pace, last, {make_leaf(session)} if session else set(), list_ids)
    if due.skip is None and (holder := find_holder(store.root, now=now)):
        return Due(DreamSkip.LOCKED, last, due.sessions, holder=holder)
    return due


def _judge_sessions(
    state: Path,
    now: datetime,
    pace: Pace,
    last: datetime | None,
    own: set[str],
    list_ids: Callable[[], frozenset[str]],
) -> Due:
    if pace.sessions <= 0:
        return Due(last=last)
    wait, known = timedelta(minutes=pace.scan_minutes), _read_scan(state)
    if known is not None and known.last == last and abs(now - known.at) < wait:
        short, scan, again = DreamSkip.SCANNED_LATELY, known, known.at + wait
    else:
        _keep_scan(state, _Scan(now, last, frozenset()))
        short, scan, again = DreamSkip.TOO_FEW_SESSIONS, _Scan(now, last, list_ids()), now + wait
        _keep_scan(state, scan)
    count = len(scan.ids - own)
    return Due(None, last, count) if count >= pace.sessions else Due(short, last, count, again)


def list_sessions(state: Path, since: datetime | None) -> list[str]:
    """Conversations that memdir has a record of and that went on after `since`, by the names of their files."""
    folder, after = state / FOLDER, since.timestamp() if since else None
    if find_link(folder):
        return []
    try:
        with os.scandir(folder) as entries:
            return [
                entry.name.removesuffix(_RECORD)
                for entry in entries
                if entry.name.endswith(_RECORD) and entry.is_file(follow_symlinks=False)
                if after is None or entry.stat(follow_symlinks=False).st_mtime > after
            ]
    except OSError:
        return []


def _list_transcribed(environment: Environment | None, root: Path | None, since: datetime | None) -> frozenset[str]:
    if environment is None or root is None:
        return frozenset()
    found = list_transcripts(environment, root, since=since)
    return frozenset(make_leaf(at.session) for at in found if since is None or (at.ended or at.modified) > since)


def _read_scan(state: Path) -> _Scan | None:
    try:
        table = json.loads(read_small(state / SCAN, _SCAN_BYTES, follow=False).data or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict) or not isinstance(table.get("at"), str):
        return None
    at, last, ids = read_time(table["at"]), table.get("last"), table.get("ids")
    if at is None or not isinstance(ids, list):
        return None
    return _Scan(
        at, read_time(last) if isinstance(last, str) else None, frozenset(id for id in ids if isinstance(id, str))
    )


def _keep_scan(state: Path, scan: _Scan) -> None:
    """Best effort: where nothing can be written, each who asks has to count for himself."""
    last = None if scan.last is None else scan.last.isoformat()
    table = {"at": scan.at.isoformat(), "last": last, "ids": sorted(scan.ids)[:DREAM_SCAN_KEPT]}
    if state.is_symlink():
        return
    try:
        write_private(state / SCAN, json.dumps(table).encode("ascii") + b"\n")
    except DiskError:
        pass
