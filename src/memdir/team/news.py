"""What a sync leaves for people: its result, the record of the last one, news of others, and items in the inbox.

    <state>/team-sync.json   the last sync, for `status` and `doctor`, with what was refused
    <state>/team-news.json   what came from others since the last session, newest last

News are quoted text of others: one line each, cut, with its author, and never an instruction. What needs review is known
by file and version. A clash is a notice in the inbox: the merged file holds both sides already.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from memdir.errors import DiskError, FormatError, PathError
from memdir.format.drafts import check_description
from memdir.format.frontmatter import parse_fields, split_frontmatter
from memdir.frozen import dataclass, field
from memdir.limits import TEAM_DUE_MINUTES, TEAM_NEWS
from memdir.records import Edit, Forget, InboxItem, InboxKind, InboxState, Origin, Put, Rewrite
from memdir.store.files import SYNC, FileStore
from memdir.store.inbox import render_edits
from memdir.store.plan import TEAM_FOLDER, digest_of
from memdir.store.state import NEWS, RECORD, Author, read_authors, read_table, write_authors, write_table
from memdir.team.git import TeamCommit
from memdir.team.plan import Approved, ArrivedChange, LocalTeam, SyncClash, WaitingChange
from memdir.text import one_line, shorten

WAIT = "team:wait:"
CLASH = "team:clash:"
_CHARS = 120  # of one memory's first line
_WHY_CHARS = 300
_SHOWN = 10  # memories shown one by one
_SHOWN_CHARS = 20_000  # of each side of a clash; the rest is in history


@dataclass(frozen=True, slots=True)
class TeamNews:
    """One memory that others added, changed or deleted."""

    name: str
    change: str
    author: str = ""
    line: str = ""
    at: datetime | None = None


def read_team_news(state: Path) -> tuple[TeamNews, ...]:
    """What nobody has looked at yet, oldest first; nothing if that cannot be read."""
    rows = read_table(state, NEWS).get("news")
    found = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("name"), str):
            name, change, author, line = (str(row.get(key) or "") for key in ("name", "change", "author", "line"))
            found.append(TeamNews(name, change, author, line, _read_time(row.get("at"))))
    return tuple(found)


def add_news(state: Path, news: Sequence[TeamNews]) -> None:
    """Keep what came; of one memory only the newest."""
    if not news:
        return
    names = {at.name for at in news}
    kept = [at for at in read_team_news(state) if at.name not in names]
    _write(state, [*kept, *news][-TEAM_NEWS:])


def mark_seen(state: Path) -> None:
    """Everything was shown; best effort, since showing it twice does no harm."""
    with suppress(DiskError, PathError):
        if read_team_news(state):
            _write(state, [])


def render_news(news: Sequence[TeamNews], *, limit: int = _SHOWN) -> str:
    """What came, for the beginning of a session; empty for nothing."""
    if not news:
        return ""
    lines = []
    for at in news[::-1][:limit]:
        by = f" by {one_line(at.author)}" if at.author else ""
        words = f": {shorten(one_line(at.line), _CHARS)}" if at.line and at.change != "deleted" else ""
        lines.append(f"- {one_line(at.name)} ({at.change}{by}){words}")
    if len(news) > limit:
        lines.append(f"- and {len(news) - limit} more (`memdir team log`)")
    return "\n".join(["New in team memory since the last session, written by others:", *lines]) + "\n"


def _write(state: Path, news: Iterable[TeamNews]) -> None:
    write_table(state, NEWS, {"news": [render_row(at) for at in news]})


def render_row(at: TeamNews) -> dict[str, object]:
    when = at.at.isoformat(timespec="seconds") if at.at else None
    return {"name": at.name, "change": at.change, "author": at.author, "line": at.line, "at": when}


class SyncOutcome(StrEnum):
    """How a sync ended."""

    SYNCED = "synced"
    OFFLINE = "offline"  # the remote does not answer
    DENIED = "denied"  # it accepts nothing from us
    BUSY = "busy"  # another sync is running
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SyncRefusal:
    """A file that was not taken, or not sent; `is_new` if the last sync did not say so already."""

    path: str
    why: str
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class SyncResult:
    """Names of memories as they are here, `team/…`; `change` is what `undo` takes, None if nothing changed here."""

    outcome: SyncOutcome
    error: str = ""
    sent: tuple[str, ...] = ()
    received: tuple[TeamNews, ...] = ()
    clashes: tuple[str, ...] = ()
    refused: tuple[SyncRefusal, ...] = ()
    withheld: tuple[SyncRefusal, ...] = ()
    waiting: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    change: int | None = None
    commit: str = ""
    is_news: bool = True  # whether the error is another than last time


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """The last sync as it was kept."""

    at: datetime | None = None
    outcome: str = ""
    error: str = ""
    last_good: datetime | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)


def mark_known(refused: Mapping[str, str], known: Mapping[str, str]) -> tuple[SyncRefusal, ...]:
    """Refusals with whether they are new, names and reasons as they may be printed."""
    rows = {one_line(path): shorten(one_line(why), _WHY_CHARS) for path, why in refused.items()}
    return tuple(SyncRefusal(path, why, known.get(path) != why) for path, why in sorted(rows.items()))


def read_sync_record(state: Path) -> SyncRecord:
    table = read_table(state, RECORD)
    reasons = (value if isinstance(value := table.get(key), dict) else {} for key in ("refused", "withheld"))
    refused, withheld = ({str(path): str(why) for path, why in rows.items()} for rows in reasons)
    at, last_good = (_read_time(table.get(key)) for key in ("at", "last_good"))
    return SyncRecord(at, str(table.get("outcome", "")), str(table.get("error", "")), last_good, refused, withheld)


def write_sync_record(state: Path, done: SyncResult, now: datetime) -> None:
    """Keep how it went; best effort. What could not be looked at this time is refused as before."""
    if done.outcome is SyncOutcome.BUSY:
        return
    before = read_sync_record(state)
    looked = done.outcome in (SyncOutcome.SYNCED, SyncOutcome.DENIED)
    last_good = now if looked else before.last_good
    table = {
        "at": now.isoformat(),
        "outcome": done.outcome.value,
        "error": done.error,
        "last_good": last_good.isoformat() if last_good else None,
        "refused": {at.path: at.why for at in done.refused} if looked else dict(before.refused),
        "withheld": {at.path: at.why for at in done.withheld} if looked else dict(before.withheld),
    }
    with suppress(DiskError, PathError):
        write_table(state, RECORD, table)


def is_sync_due(state: Path, now: datetime, *, minutes: float = TEAM_DUE_MINUTES) -> bool:
    """Whether the last sync is long enough ago; a time in the future counts as now."""
    at = read_sync_record(state).at
    return at is None or abs(now - at) >= timedelta(minutes=minutes)


def _read_time(value: object) -> datetime | None:
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return when if when.tzinfo else None


def name_memory(path: str) -> str:
    return f"{TEAM_FOLDER}/{path.removesuffix('.md')}"


def make_approved(store: FileStore) -> Approved:
    """A function that says whether a person has approved a version of a file."""
    items = {item.key for item in store.inbox(InboxState.APPROVED) if item.key.startswith(WAIT)}
    return lambda path, sha: f"{WAIT}{path}:{sha}" in items


def put_in_inbox(
    store: FileStore, waiting: Sequence[WaitingChange], local: LocalTeam, authors: Mapping[str, Author]
) -> None:
    """Put what needs review into the inbox, and remove what no longer does."""
    now, items = store.clock(), []
    for at in waiting:
        name, author = name_memory(at.path), authors.get(at.path)
        by = f" (by {author.name})" if author else ""
        edits = _make_edits(at, name, local)
        kind = InboxKind.MEMORY if edits else InboxKind.APPROVAL
        payload: dict[str, object] = {"edits": render_edits(edits)} if edits else {"text": at.text or ""}
        title = f"{name} {'taken away' if at.text is None else 'from the team'}{by}"
        origin = Origin(SYNC, f"by {author.name}" if author else "")
        items.append(InboxItem(kind, title, at.why, now, f"{WAIT}{at.path}:{at.sha}", name, origin, payload))
    if items or any(item.key.startswith(WAIT) for item in store.inbox()):
        store.inbox_replace(WAIT, items)


def report_clashes(store: FileStore, clashes: Sequence[SyncClash]) -> None:
    now, items = store.clock(), []
    for at in clashes:
        key = f"{CLASH}{at.path}:{digest_of((at.ours + chr(0) + at.theirs).encode('utf-8', 'replace'))[:16]}"
        payload = {"ours": at.ours[:_SHOWN_CHARS], "theirs": at.theirs[:_SHOWN_CHARS]}
        name, why = name_memory(at.path), shorten(one_line("; ".join(at.told)), 500)
        title = f"{name}: both sides changed it"
        items.append(InboxItem(InboxKind.CONFLICT, title, why, now, key, name, Origin(SYNC), payload))
    store.inbox_add(items)


def find_authors(commits: Sequence[TeamCommit]) -> dict[str, Author]:
    """Path -> who changed it last, by commits given newest first."""
    return {path: commit.author for commit in reversed(commits) for path in commit.changes}


def keep_authors(store: FileStore, authors: Mapping[str, Author], paths: Sequence[str]) -> None:
    """Note who last changed each memory that is here; what the new commits do not tell is as it was."""
    before = read_authors(store.state)
    known = {name_memory(path): authors.get(path) or before.get(name_memory(path)) for path in paths}
    others = {name: at for name, at in before.items() if not name.startswith(f"{TEAM_FOLDER}/")}
    kept = {**others, **{name: at for name, at in known.items() if at is not None}}
    if kept != before:
        write_authors(store.state, kept)


def make_news(
    received: Mapping[str, ArrivedChange], files: Mapping[str, bytes | None], authors: Mapping[str, Author]
) -> tuple[TeamNews, ...]:
    """A row for each file, with its description, else the first line of its body."""
    rows = []
    for path, change in sorted(received.items()):
        text = (files.get(path) or b"").decode("utf-8", "replace")
        words = parse_fields(text).description or split_frontmatter(text).body.strip().partition("\n")[0]
        author, line = authors.get(path), shorten(one_line(words), 200)
        who, when = (author.name, author.when) if author else ("", None)
        rows.append(TeamNews(name_memory(path), change.value, who, line, when))
    return tuple(rows)


def _make_edits(at: WaitingChange, name: str, local: LocalTeam) -> tuple[Edit, ...]:
    """What approving would do at once; nothing where only the next sync can."""
    before = local.files.get(at.path)
    digest = None if before is None else digest_of(before)
    if at.text is None:
        return (Forget(name, digest),)
    if digest is not None:
        return (Rewrite(name, at.text, digest),)
    fields = parse_fields(at.text)
    try:
        check_description(fields.description, fields.kind)
    except FormatError:
        return ()
    return (Put(name, at.text),)
