"""What came from others since somebody last looked: `<state>/team-news.json`, newest last; and how it is told.

A sync adds to it, whoever begins a session takes it out. What it tells is quoted text of others: one line each, cut,
with its author, and never as an instruction.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from memdir.errors import ConflictError, DiskError, FormatError, NotFoundError, PathError
from memdir.format.drafts import check_description
from memdir.format.frontmatter import parse_fields, split_frontmatter
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, field
from memdir.limits import TEAM_DUE_MINUTES, TEAM_NEWS
from memdir.records import Edit, Forget, InboxItem, InboxKind, InboxState, Origin, Put, Rewrite
from memdir.store.contract import PERSON
from memdir.store.files import SYNC, FileStore
from memdir.store.inbox import render_edits
from memdir.store.plan import (
    TEAM_FOLDER,
    FileChange,
    Finder,
    Overlay,
    Planner,
    StoreView,
    digest_of,
    plan_dead_pointers,
    plan_pointers,
)
from memdir.store.secrets import find_secrets
from memdir.store.state import NEWS, RECORD, Author, read_authors, read_table, write_authors, write_table
from memdir.team.admit import PLAIN_MODE, AdmitRuling, judge_place, judge_text
from memdir.team.git import TeamClone, TeamCommit, read_commits, read_versions
from memdir.team.merge import merge_memory, merge_units, split_paragraphs
from memdir.team.plan import Approved, ArrivedChange, LocalTeam, SyncClash, WaitingChange, read_local
from memdir.text import fold, one_line, shorten

# --- news ---

_CHARS = 120  # of one memory's first line
_SHOWN = 10  # memories told one by one


@dataclass(frozen=True, slots=True)
class TeamNews:
    """One memory that others added, changed or took away."""

    name: str
    change: str
    author: str = ""
    line: str = ""
    at: datetime | None = None


def read_team_news(state: Path) -> tuple[TeamNews, ...]:
    """What nobody has looked at yet, oldest first; nothing where that cannot be read."""
    rows = read_table(state, NEWS).get("news")
    return tuple(found for row in rows if (found := _parse(row))) if isinstance(rows, list) else ()


def add_news(state: Path, news: Sequence[TeamNews]) -> None:
    """Keep what came; of one memory only the newest."""
    if not news:
        return
    names = {at.name for at in news}
    kept = [at for at in read_team_news(state) if at.name not in names]
    _write(state, [*kept, *news][-TEAM_NEWS:])


def mark_seen(state: Path) -> None:
    """Everything was told; best effort, since telling twice does no harm."""
    try:
        if read_team_news(state):
            _write(state, [])
    except (DiskError, PathError):
        pass


def render_news(news: Sequence[TeamNews], *, limit: int = _SHOWN) -> str:
    """What came, for the beginning of a session; empty for nothing."""
    if not news:
        return ""
    newest = list(reversed(news))
    lines = [_render(at) for at in newest[:limit]]
    if len(newest) > limit:
        lines.append(f"- and {len(newest) - limit} more (`memdir team log`)")
    return "\n".join(["New in team memory since the last session, written by others:", *lines]) + "\n"


def _render(at: TeamNews) -> str:
    by = f" by {one_line(at.author)}" if at.author else ""
    words = f": {shorten(one_line(at.line), _CHARS)}" if at.line and at.change != "deleted" else ""
    return f"- {one_line(at.name)} ({at.change}{by}){words}"


def _write(state: Path, news: Iterable[TeamNews]) -> None:
    write_table(state, NEWS, {"news": [render_row(at) for at in news]})


def render_row(at: TeamNews) -> dict[str, object]:
    when = at.at.isoformat(timespec="seconds") if at.at else None
    return {"name": at.name, "change": at.change, "author": at.author, "line": at.line, "at": when}


def _parse(row: object) -> TeamNews | None:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        return None
    name, change, author, line = (str(row.get(key) or "") for key in ("name", "change", "author", "line"))
    try:
        at = datetime.fromisoformat(str(row.get("at")))
    except ValueError:
        at = None
    return TeamNews(name, change, author, line, at)


# --- synced ---
# What came of a sync, and the record of the last one: `<state>/team-sync.json`, for `status` and `doctor`.
#
# The record remembers what is refused, so that it is told as new only once. It can be deleted at any time.

_WHY_CHARS = 300


class SyncOutcome(StrEnum):
    """How it ended: all is in step; the remote does not answer; it takes nothing from us; another sync is under way;
    something else went wrong."""

    SYNCED = "synced"
    OFFLINE = "offline"
    DENIED = "denied"
    BUSY = "busy"
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
    refused, withheld = (_read_reasons(table.get(key)) for key in ("refused", "withheld"))
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
    try:
        write_table(state, RECORD, table)
    except (DiskError, PathError):
        pass


def is_sync_due(state: Path, now: datetime, *, minutes: float = TEAM_DUE_MINUTES) -> bool:
    """Whether the last sync is long enough ago; a time in the future counts as now."""
    at = read_sync_record(state).at
    return at is None or abs(now - at) >= timedelta(minutes=minutes)


def _read_reasons(value: object) -> dict[str, str]:
    return {str(key): str(why) for key, why in value.items()} if isinstance(value, dict) else {}


def _read_time(value: object) -> datetime | None:
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return when if when.tzinfo else None


# --- telling ---
# What a sync leaves for people: things that wait in the inbox, who wrote what, and the news.
#
# What waits is known by file and version: approved, it comes in as it is; rejected, it stays away until its author
# writes another version. A clash waits as a notice: the merged file holds both sides already.

WAIT = "team:wait:"
CLASH = "team:clash:"
_SHOWN_CHARS = 20_000  # of each side of a clash; the rest is in history


def name_memory(path: str) -> str:
    return f"{TEAM_FOLDER}/{path.removesuffix('.md')}"


def make_approved(store: FileStore) -> Approved:
    """Whether a person has let a version of a file in."""
    items = {item.key for item in store.inbox(InboxState.APPROVED) if item.key.startswith(WAIT)}
    return lambda path, sha: f"{WAIT}{path}:{sha}" in items


def let_wait(
    store: FileStore, waiting: Sequence[WaitingChange], local: LocalTeam, authors: Mapping[str, Author]
) -> None:
    """Put what needs a person's word into the inbox, and take out what has become of no matter."""
    now = store.clock()
    items = []
    for at in waiting:
        name, author = name_memory(at.path), authors.get(at.path)
        by = f" (by {author.name})" if author else ""
        edits = _make_edits(at, name, local)
        kind = InboxKind.MEMORY if edits else InboxKind.APPROVAL
        payload: dict[str, object] = {"edits": render_edits(edits)} if edits else {"text": at.text or ""}
        title = f"{name} {'taken away' if at.text is None else 'from the team'}{by}"
        origin = Origin(SYNC, f"by {author.name}" if author else "")
        items.append(InboxItem(kind, title, at.why, now, f"{WAIT}{at.path}:{at.sha}", name, origin, payload))
    if items:
        store.inbox_replace(WAIT, items)
    else:
        drop_waiting(store)


def drop_waiting(store: FileStore) -> None:
    """Take out what nobody has decided about."""
    if any(item.key.startswith(WAIT) for item in store.inbox()):
        store.inbox_replace(WAIT, [])


def tell_clashes(store: FileStore, clashes: Sequence[SyncClash]) -> None:
    now = store.clock()
    items = []
    for at in clashes:
        key = f"{CLASH}{at.path}:{digest_of((at.ours + chr(0) + at.theirs).encode('utf-8', 'replace'))[:16]}"
        payload = {"ours": at.ours[:_SHOWN_CHARS], "theirs": at.theirs[:_SHOWN_CHARS]}
        name = name_memory(at.path)
        why = shorten(one_line("; ".join(at.told)), 500)
        items.append(
            InboxItem(InboxKind.CONFLICT, f"{name}: both sides changed it", why, now, key, name, Origin(SYNC), payload)
        )
    store.inbox_add(items)


def find_authors(commits: Sequence[TeamCommit]) -> dict[str, Author]:
    """Path -> who changed it last, by commits given newest first."""
    found: dict[str, Author] = {}
    for commit in commits:
        for path in commit.changes:
            found.setdefault(path, commit.author)
    return found


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
    rows = []
    for path, change in sorted(received.items()):
        author = authors.get(path)
        line = _find_line((files.get(path) or b"").decode("utf-8", "replace"))
        rows.append(
            TeamNews(
                name_memory(path), change.value, author.name if author else "", line, author.when if author else None
            )
        )
    return tuple(rows)


def _find_line(text: str) -> str:
    """The description, else the first line of the body."""
    words = parse_fields(text).description or next(
        (at for at in split_frontmatter(text).body.splitlines() if at.strip()), ""
    )
    return shorten(one_line(words), 200)


def _make_edits(at: WaitingChange, name: str, local: LocalTeam) -> tuple[Edit, ...]:
    """What approving would do at once; nothing where only the next sync can."""
    before = local.files.get(at.path)
    if at.text is None:
        return (Forget(name, None if before is None else digest_of(before)),)
    if before is not None:
        return (Rewrite(name, at.text, digest_of(before)),)
    fields = parse_fields(at.text)
    try:
        check_description(fields.description, fields.kind)
    except FormatError:
        return ()
    return (Put(name, at.text),)


# --- reverting ---
# Taking back what one author wrote, in one change: everything of theirs goes, what others wrote in the same files stays.
#
# Each of the author's commits is turned round, newest first: what it put in goes out, what it took out comes back, and
# where somebody else has written since, that stays. The change is this member's own, so `undo` takes it back; the next
# sync
# brings it to the others as a new commit.
#
# An author is known by what commits say: whoever signs with another's name is reverted as that other.

Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class RevertResult:
    """The change, how many commits it turns round, and the memories it changed, took away or brought back."""

    change: int | None
    commits: int
    names: tuple[str, ...]
    left: tuple[str, ...] = ()  # what may not be brought back: it would be refused today


def is_by(author: Author, wanted: str) -> bool:
    """Whether somebody is meant: by the whole name, the whole address, or both as git writes them."""
    known = {author.name, author.email, f"{author.name} <{author.email}>"}
    return bool(wanted.strip()) and fold(wanted.strip()) in {fold(at) for at in known if at}


def revert_author(
    store: FileStore, copy: TeamClone, head: str, wanted: str, *, since: datetime | None = None, origin: Origin = PERSON
) -> RevertResult:
    """Take back what somebody wrote; raises NotFoundError if the branch knows of nothing."""
    commits = [at for at in read_commits(copy, head) if is_by(at.author, wanted)]
    commits = [at for at in commits if since is None or (at.author.when is not None and at.author.when >= since)]
    if not commits:
        hint = "`memdir team log` shows who wrote what; the name or address has to be whole"
        raise NotFoundError(f"the team's branch holds nothing by {wanted}", name=wanted, hint=hint)
    local = read_local(store)
    before: Texts = {path: data.decode("utf-8", "surrogateescape") for path, data in local.files.items()}
    after = _turn_round(copy, commits, before)
    find = store.rules.find or find_secrets
    wrong = [path for path, text in after.items() if text is not None and _is_refused(path, text, find)]
    changed = {path: text for path, text in after.items() if text != before.get(path) and path not in wrong}
    done = store.carry_out(_make_planner(before, changed), verb="revert", origin=origin) if changed else None
    names = tuple(name_memory(path) for path in sorted(changed))
    left = tuple(name_memory(path) for path in sorted(wrong) if after[path] != before.get(path))
    return RevertResult(done.change if done else None, len(commits), names, left)


def _turn_round(copy: TeamClone, commits: Sequence[TeamCommit], before: Texts) -> Texts:
    state = dict(before)
    wanted = [(at.sha, path) for at in commits for path in at.changes if path != INDEX_FILE and _is_memory(path)]
    texts = read_versions(copy, [spec for sha, path in wanted for spec in ((sha, path), (f"{sha}^", path))])
    for sha, path in wanted:
        state[path] = _turn_one(texts.get((sha, path)), state.get(path), texts.get((f"{sha}^", path)))
    return state


def _turn_one(theirs: str | None, now: str | None, older: str | None) -> str | None:
    """One file without what one commit did to it: `theirs` is what it left, `older` what it found."""
    if now == theirs:
        return older
    if now is None or theirs is None:
        return now  # somebody else has decided since
    if older is not None:
        return merge_memory(theirs, now, older).text
    pieces = [split_paragraphs(split_frontmatter(text).body) for text in (theirs, now)]
    left = merge_units(pieces[0], pieces[1], ()).pieces
    if not left:
        return None
    parts = split_frontmatter(now)
    return parts.opening + parts.head + parts.closing + "\n" + "\n\n".join(left) + "\n"


def _make_planner(before: Mapping[str, str | None], changed: Mapping[str, str | None]) -> Planner:
    def planner(view: StoreView) -> list[FileChange]:
        overlay = Overlay(view)
        for path, text in changed.items():
            found = view.read_bytes(f"{TEAM_FOLDER}/{path}")
            if found != _encode(before.get(path)):
                raise ConflictError(f"{name_memory(path)} changed meanwhile", hint="try again")
            overlay.put([FileChange(f"{TEAM_FOLDER}/{path}", found, _encode(text))])
        names = [name_memory(path) for path in changed]
        overlay.put(plan_dead_pointers(overlay, names))
        overlay.put(plan_pointers(overlay, names))
        return list(overlay.list_changes())

    return planner


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _is_memory(path: str) -> bool:
    return not judge_place(path, PLAIN_MODE, 0)


def _is_refused(path: str, text: str, find: Finder) -> bool:
    return judge_text(path, text.encode("utf-8", "surrogateescape"), find).ruling is AdmitRuling.REFUSE
