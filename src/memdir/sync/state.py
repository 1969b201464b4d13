"""Local state of a team member: the membership, and the merge base of the last sync.

`<state>/team.json` contains the team's remote. If it is empty, the team uses a branch of the project's own remote,
which is looked up at each sync. A URL may be a path, `file://`, ssh or https, or http to this machine. URLs that would
start another program or contain a password are refused; git has credential helpers for passwords.

`<state>/team-point.json` is the merge base: this member's files when they were last in step with the branch. It is
updated only after the files were written. Names are stored as digests, so that it reveals no purged memory. If a sync
was killed, its pending merge base is used if the change with its idempotency key has happened.
"""

import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from memdir import __version__
from memdir import files as guard
from memdir.errors import DiskError, MemdirError, PathError, SettingsError
from memdir.format.frontmatter import decode
from memdir.format.index import INDEX_FILE
from memdir.frozen import asdict, dataclass, field, fill, replace
from memdir.limits import NAME_DEPTH, TEAM_DUE_MINUTES, TEAM_NEWS
from memdir.project.paths import MEMBERSHIP, find_address
from memdir.records import TEAM_FOLDER
from memdir.store.files import FileStore
from memdir.store.history import MemorySource
from memdir.store.plan import is_team
from memdir.store.state import MANIFEST, NEWS, POINT, RECORD, Author, read_table, read_time, write_table
from memdir.text import as_table, one_line, parse_json, printable, shorten

# --- membership ------------------------------------------------------------------------------------------------------

BRANCH = "memdir/team"
OWN_RECORD = "sync-record.json"  # of a person's own machines
FILES = (MEMBERSHIP, POINT, RECORD, NEWS, MANIFEST)  # all that a member keeps but the copy of the branch
_SCHEMES = ("file", "ssh", "https")
_SCP = re.compile(r"(?:[\w.+-]+@)?\[?[A-Za-z0-9][\w.:-]*\]?:(?!//)[^\s:][^\n]*")
_BRANCH = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)|/\.|/\Z|\.\Z))[\w][\w./+-]{0,200}")


@dataclass(frozen=True, slots=True)
class Membership:
    """A member's settings. An empty `remote` means the project's own; with `review`, changes by others need approval.
    With `is_server`, the remote is a server and the branch is the ID of its store."""

    remote: str = ""
    branch: str = BRANCH
    read_only: bool = False
    review: bool = False
    is_server: bool = False


def read_membership(state: Path) -> Membership | None:
    """Return this member's settings, or None if they are not in a team or the record is damaged."""
    table = read_table(state, MEMBERSHIP)
    is_whole = isinstance(table.get("remote"), str) and isinstance(table.get("branch"), str)
    return fill(Membership(), table) if is_whole else None


def write_membership(state: Path, member: Membership) -> None:
    write_table(state, MEMBERSHIP, asdict(member))


def resolve_remote(member: Membership, root: Path) -> str:
    """Return the URL of the remote. Raises SettingsError if there is none that can be used."""
    if member.is_server:
        return member.remote
    if member.remote:
        return check_remote(member.remote, root)
    url = find_address(root)
    if not url:
        hint = "pass a URL: `memdir team init --remote URL`"
        raise SettingsError("this project has no git remote", key="remote", hint=hint)
    # Use the URL without its password, which may not be stored or shown; git's credential helpers have to know it.
    url = re.sub(r"\A(https://)[^/@]*@", r"\1", url)
    address = check_remote(re.sub(r"\A(ssh://[^/@:]*):[^/@]*@", r"\1@", url), root)
    if address.startswith(("/", "file:")):
        # git runs the hooks of such a repository, and an unpacked archive may contain hooks and a config.
        what = f"the project's own remote is a path on this machine ({one_line(url)})"
        hint = f"its hooks would run as you; if it is yours, run `memdir team init --remote {one_line(url)}`"
        raise SettingsError(what, key="remote", hint=hint)
    return address


def check_remote(address: str, root: Path) -> str:
    """Return a URL that git may use, with an absolute path. Raises SettingsError if it is invalid."""
    display = one_line(address)
    if not address.strip() or printable(address) != address or address.startswith("-") or "\n" in address:
        raise _refuse(display, "invalid URL")
    try:
        parts = urlsplit(address)
    except ValueError:
        raise _refuse(display, "invalid URL") from None
    scheme = parts.scheme.lower() if "://" in address else ""
    if scheme == "http" and is_loopback(address):
        scheme = "https"
    if "::" in address.split("/", 1)[0] or (scheme and scheme not in _SCHEMES):
        raise _refuse(display.split(":", 1)[0] + ":…", "only paths, file://, ssh and https are supported")
    if scheme in ("ssh", "https"):
        if parts.password is not None or (scheme == "https" and parts.username):
            hint = "remove them from the URL; git's credential helpers store passwords"
            raise SettingsError("the remote URL contains a user name or password", key="remote", hint=hint)
        if not parts.hostname or unquote(parts.hostname).startswith("-"):
            raise _refuse(display, "the URL has no host")
        return address
    if scheme == "file" or (_SCP.fullmatch(address) and not os.path.exists(address)):
        return address
    return str((root / os.path.expanduser(address)).resolve())


def is_loopback(address: str) -> bool:
    """Return whether an http or https URL is one of this machine."""
    return bool(re.match(r"https?://(localhost|127\.0\.0\.1|\[::1\])[:/]", address + "/"))


def check_branch(branch: str) -> str:
    if not _BRANCH.fullmatch(branch) or branch.startswith("refs/") or branch == "HEAD":
        raise SettingsError(f"invalid branch name {one_line(branch)!r}", key="branch", hint=f"for example {BRANCH}")
    return branch


def _refuse(shown: str, why: str) -> SettingsError:
    hint = "use a path, file:///…, ssh://…, git@host:path or https://…"
    return SettingsError(f"the remote {shown!r} is refused: {why}", key="remote", hint=hint)


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """A merge base: `head` is the commit, `files` maps path digests to objects, `index` is the index text or None."""

    head: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    index: str | None = None
    mark: str = ""

    def find(self, path: str) -> str | None:
        """Return the object of a file in the merge base."""
        return self.files.get(hash_path(path))


def hash_path(path: str) -> str:
    return sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_point(state: Path, file: str = POINT) -> tuple[SyncPoint, SyncPoint | None]:
    """Return the merge base, and the pending one of an unfinished sync."""
    table = read_table(state, file)
    pending = table.get("pending")
    return _parse(table), _parse(pending) if isinstance(pending, dict) else None


def write_point(state: Path, point: SyncPoint, pending: SyncPoint | None = None, *, file: str = POINT) -> None:
    write_table(state, file, asdict(point) | ({"pending": asdict(pending)} if pending is not None else {}))


def _parse(table: Mapping[str, object]) -> SyncPoint:
    point, index = fill(SyncPoint(), table), table.get("index")
    files = {key: value for key, value in point.files.items() if isinstance(value, str)}
    return replace(point, files=files, index=index if isinstance(index, str) else None)


# --- the record of the last sync, and news of others ------------------------------------------------------------------
#     <state>/team-sync.json   the last sync, for `status` and `doctor`, with what was refused
#     <state>/team-news.json   changes by others since the last session, newest last
#
# Incoming changes quote text of others: one shortened line each, with its author, never as an instruction.

_CHARS = 120  # of one memory's first line
_WHY_CHARS = 300
_SHOWN = 10  # memories shown one by one
_SETTLED_NS = 100_000_000  # a file system's clock may tick a hundred times a second


@dataclass(frozen=True, slots=True)
class TeamNews:
    name: str
    change: str
    author: str = ""
    line: str = ""
    at: datetime | None = None


def read_team_news(state: Path) -> tuple[TeamNews, ...]:
    """Return changes not shown yet, oldest first, or none if they cannot be read."""
    rows = read_table(state, NEWS).get("news")
    news = []
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("name"), str):
            news.append(replace(fill(TeamNews("", ""), row), at=read_time(row.get("at"))))
    return tuple(news)


def add_news(state: Path, news: Sequence[TeamNews]) -> None:
    """Store incoming changes to show later, keeping only the newest for each memory."""
    if not news:
        return
    names = {entry.name for entry in news}
    older = [entry for entry in read_team_news(state) if entry.name not in names]
    _write_news(state, [*older, *news][-TEAM_NEWS:])


def mark_seen(state: Path) -> None:
    """Delete stored changes that were shown; ignores errors, because showing them twice is harmless."""
    with suppress(DiskError, PathError):
        if read_team_news(state):
            _write_news(state, [])


def render_news(news: Sequence[TeamNews]) -> str:
    """Render incoming changes for the start of a session, or return "" if there are none."""
    if not news:
        return ""
    lines = []
    for entry in news[::-1][:_SHOWN]:
        by = f' by "{one_line(entry.author)}"' if entry.author else ""
        words = f": {shorten(one_line(entry.line), _CHARS)}" if entry.line and entry.change != "deleted" else ""
        lines.append(f"- {one_line(entry.name)} ({entry.change}{by}){words}")
    if len(news) > _SHOWN:
        lines.append(f"- and {len(news) - _SHOWN} more (`memdir team log`)")
    return "\n".join(["New in team memory since the last session, written by others:", *lines]) + "\n"


def _write_news(state: Path, news: Iterable[TeamNews]) -> None:
    write_table(state, NEWS, {"news": [render_row(entry) for entry in news]})


def render_row(news: TeamNews) -> dict[str, object]:
    return asdict(news) | {"at": news.at.isoformat(timespec="seconds") if news.at else None}


class SyncOutcome(StrEnum):
    SYNCED = "synced"
    OFFLINE = "offline"  # the remote does not answer
    DENIED = "denied"  # the remote rejects our push
    BUSY = "busy"  # another sync is running
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SyncRefusal:
    """A file that was not imported or not sent; `is_new` means the last sync did not report it."""

    path: str
    why: str
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The result of a sync, with local memory names. `change` is the ID to undo, or None if nothing changed here."""

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


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """The result of the last sync. `here` is the digest from `look` if both sides were in step at the commit `head`."""

    at: datetime | None = None
    outcome: str = ""
    error: str = ""
    last_good: datetime | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    here: str = ""
    head: str = ""


def list_refusals(refused: Mapping[str, str]) -> tuple[SyncRefusal, ...]:
    """Convert refused names and reasons to refusals with printable text."""
    rows = {one_line(path): shorten(one_line(why), _WHY_CHARS) for path, why in refused.items()}
    return tuple(SyncRefusal(path, why) for path, why in sorted(rows.items()))


def mark_known(refused: Sequence[SyncRefusal], known: Mapping[str, str]) -> tuple[SyncRefusal, ...]:
    """Return the refusals, each marked as new or already known."""
    return tuple(SyncRefusal(refusal.path, refusal.why, known.get(refusal.path) != refusal.why) for refusal in refused)


def read_sync_record(state: Path, file: str = RECORD) -> SyncRecord:
    table = read_table(state, file)
    record = fill(SyncRecord(), table)
    refused, withheld = ({path: str(why) for path, why in rows.items()} for rows in (record.refused, record.withheld))
    last, last_good = (read_time(table.get(key)) for key in ("at", "last_good"))
    return replace(record, at=last, last_good=last_good, refused=refused, withheld=withheld)


def write_sync_record(state: Path, done: SyncResult, now: datetime, file: str = RECORD, *, here: str = "") -> None:
    """Store the result of a sync, ignoring errors. Refused files that could not be checked this time remain listed."""
    if done.outcome is SyncOutcome.BUSY:
        return
    before = read_sync_record(state, file)
    looked = done.outcome in (SyncOutcome.SYNCED, SyncOutcome.DENIED)
    last_good = now if looked else before.last_good
    table = {
        "at": now.isoformat(),
        "outcome": done.outcome.value,
        "error": done.error,
        "last_good": last_good.isoformat() if last_good else None,
        "refused": {refusal.path: refusal.why for refusal in done.refused} if looked else dict(before.refused),
        "withheld": {refusal.path: refusal.why for refusal in done.withheld} if looked else dict(before.withheld),
        "here": here,
        "head": done.commit if here else "",
    }
    with suppress(DiskError, PathError):
        write_table(state, file, table)


def is_sync_due(state: Path, now: datetime, *, minutes: float = TEAM_DUE_MINUTES, file: str = RECORD) -> bool:
    """Return whether enough time has passed since the last sync; a future time counts as now."""
    last = read_sync_record(state, file).at
    return last is None or abs(now - last) >= timedelta(minutes=minutes)


# --- both sides of a sync --------------------------------------------------------------------------------------------
# Both sides of a sync as records, and the protocol of a remote.
#
# A `SyncPart` pairs a local memory directory with a folder of the tree that several machines share. A team syncs one
# part, the folder `team/` with the whole tree; a user's own machines sync many parts, each with one folder of the tree
# (`own`). A `Remote` stores such a tree: in a branch of a git remote (`git`), encrypted in such a branch (`own`), or in
# a store of a server (`server`).

PLAIN_MODE = "100644"
_Kept = TypeVar("_Kept")


class RemoteError(MemdirError):
    """A remote cannot be reached, or a request to it failed. The next sync tries again."""


@dataclass(frozen=True, slots=True)
class SyncPart:
    """A part of a store to sync. `folder` is below the store's root; "" means all memories except `team/`. `prefix` is
    the location of its files in the remote's tree. Shared memories are checked more strictly than a user's own."""

    store: FileStore
    folder: str = TEAM_FOLDER
    prefix: str = ""
    point_file: str = POINT
    is_shared: bool = True

    def locate(self, path: str) -> str:
        """Return a file's path below the store's root."""
        return f"{self.folder}/{path}" if self.folder else path

    def name(self, path: str) -> str:
        """Return a memory's name in its store."""
        return self.locate(path).removesuffix(".md")

    def show(self, path: str) -> str:
        """Return a memory's displayed name, with the folder of the tree if a sync has several parts."""
        return self.name(path) if self.is_shared else self.prefix + path.removesuffix(".md")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry in a tree: its git mode, object and size. Names that are not UTF-8 are shown with escapes."""

    mode: str
    sha: str
    size: int
    is_text: bool = True  # whether the name is UTF-8


@dataclass(frozen=True, slots=True)
class LocalTree:
    """The local state of a part: files by path, the index or None, unreadable entries, and names of memories that are
    not in any part."""

    files: Mapping[str, bytes]
    index: str | None = None
    blocked: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteTree:
    """A fetched remote; `head` is empty if it has no commits. `mark` is the object of its own file, and `is_ours` tells
    whether such a file exists in any form. `is_gone`: the remote has lost everything, and this is its last known
    state."""

    head: str = ""
    tree: Mapping[str, TreeEntry] = field(default_factory=dict)
    mark: str = ""
    is_gone: bool = False
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class TeamCommit:
    """A commit and its changed paths, each mapped to added, changed or deleted."""

    sha: str
    author: Author
    changes: Mapping[str, str]


class PushResult(StrEnum):
    """The outcome of a push: accepted, out of date, rejected, or no answer."""

    DONE = "done"
    QUICKER = "quicker"
    DENIED = "denied"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class PushState:
    answer: PushResult
    said: str = ""


class Remote(Protocol):
    """A file tree that several machines share. Any method may raise RemoteError."""

    def hash(self, data: bytes) -> str:
        """Return the object ID for this content."""

    def fetch(self) -> RemoteTree:
        """Return the current tree."""

    def find_common(self, known: str, head: str) -> Mapping[str, TreeEntry] | None:
        """Return None if `head` continues `known`, otherwise their common tree, which may be empty."""

    def read(self, shas: Iterable[str]) -> dict[str, bytes]:
        """Return a dict from object IDs to contents, omitting missing objects."""

    def push(
        self, tree: RemoteTree, files: Mapping[str, bytes | None], author: Author, now: datetime, message: str
    ) -> tuple[str, PushState]:
        """Write files to a tree atomically, where None deletes a file; return the new head and the outcome."""

    def find_versions(self, head: str, after: str, paths: Collection[str]) -> dict[str, set[str]]:
        """Return the known object IDs of each path since `after`."""

    def find_authors(self, head: str, after: str) -> dict[str, Author]:
        """Return who last changed each path since `after`."""

    def find_sources(self, head: str, after: str) -> dict[str, MemorySource]:
        """Return age and author by path from the messages since `after`."""

    def keep(self, head: str) -> None:
        """Record that all parts are in sync at this head, so that older objects can be deleted."""


class TeamRemote(Remote, Protocol):
    """A remote that records the author of each change."""

    def find_head(self) -> str:
        """Return the current head, or "" if there is none, preferably without fetching files."""

    def read_log(self, head: str) -> tuple[TeamCommit, ...]:
        """Return the commits up to a head, newest first."""

    def read_texts(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return texts by commit and path, omitting unreadable ones; `COMMIT^` is the parent."""


# The start of a line in a commit message with the age and author of each file's text.
DATES = "Memdir-Dates: "


def render_sources(sources: Mapping[str, MemorySource]) -> str:
    rows = {
        path: f"{source.since.astimezone(UTC).isoformat(timespec='seconds')} {source.who}".rstrip()
        for path, source in sorted(sources.items())
    }
    return f"\n{DATES}{json.dumps(rows)}\n" if rows else ""


def parse_sources(text: str) -> dict[str, MemorySource]:
    """Return the ages and authors in a message by path, omitting invalid lines."""
    sources = {}
    for path, row in as_table(parse_json(text)).items():
        since, _, who = str(row).partition(" ")
        if (moment := read_time(since)) is not None:
            sources[path] = MemorySource(moment, shorten(one_line(who), 40))
    return sources


def cut_tree(rows: Mapping[str, _Kept], prefix: str) -> Mapping[str, _Kept]:
    """Return the entries below a folder of a tree, by relative path."""
    return {path.removeprefix(prefix): row for path, row in rows.items() if path.startswith(prefix)} if prefix else rows


def read_local(part: SyncPart) -> LocalTree:
    """Return the current local state of a part; a missing directory counts as empty."""
    files: dict[str, bytes] = {}
    blocked: dict[str, str] = {}
    others: list[str] = []
    with guard.open_existing(part.store.root) as root:
        if root is None:
            return LocalTree({})
        for entry in guard.walk(root, folder=part.folder):
            path = entry.path.removeprefix(f"{part.folder}/") if part.folder else entry.path
            if not part.folder and is_team(path):
                others.append(path.removesuffix(".md"))
                continue
            data = None if entry.refusal else _read(root, entry.path)
            if data is None:
                why = entry.refusal or "unreadable"
                blocked[path] = f"there is something else than a regular file here ({why})"
            else:
                files[path] = data
        index = _read(root, part.locate(INDEX_FILE))
    return LocalTree(files, None if index is None else decode(index), blocked, tuple(others))


def look(parts: Iterable[SyncPart], *facts: object) -> str:
    """Return a digest of the local state that a sync depends on, from file stats alone. Returns "" if a file was
    written so recently that another write might not change its stat, or if the files cannot be read."""
    rows: list[object] = [__version__, *map(str, facts)]
    latest = time.time_ns() - _SETTLED_NS
    for part in parts:
        try:
            with guard.open_existing(part.store.root) as root:
                index = () if root is None else guard.read_stat(root, part.locate(INDEX_FILE))
                is_missing = root is None or not os.path.isdir(part.store.root / part.folder)
                stats = [] if root is None or is_missing else list(_sum_stats(root, part.folder))
        except (MemdirError, OSError):
            return ""
        if max((sums[-1] for _, sums in (*stats, ("", index)) if sums), default=0) > latest:
            return ""
        rows += [part.prefix, stats, index, find_stat(part.store.state / part.point_file)]
    return sha256(repr(rows).encode()).hexdigest()


def _sum_stats(root: int, folder: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the path, stat and sums of its files' stats for each folder, the latest time last. A file that was added,
    removed or replaced changes the times of its folder; one that was overwritten in place has a new time itself."""
    segments = tuple(folder.split("/")) if folder else ()
    with guard.open_folder(root, segments) as handle, os.scandir(handle) as entries:
        own = os.fstat(handle)
        named = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries if entry.name[0] != "."]
    times = [facts.st_ctime_ns for _, facts in named if not stat.S_ISDIR(facts.st_mode)]
    sizes = [facts.st_size for _, facts in named if not stat.S_ISDIR(facts.st_mode)]
    yield folder, (own.st_ino, own.st_mtime_ns, own.st_ctime_ns, sum(times), sum(sizes), max(times, default=0))
    for name, facts in named:
        is_searched = len(segments) + 1 < NAME_DEPTH and (folder or name.casefold() != "logs")
        if is_searched and stat.S_ISDIR(facts.st_mode):
            yield from _sum_stats(root, f"{folder}/{name}" if folder else name)


def find_stat(path: Path) -> tuple[int, ...]:
    """Return inode, size and modification time of a file, or () if it is missing."""
    try:
        facts = os.lstat(path)
    except OSError:
        return ()
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def _read(root: int, path: str) -> bytes | None:
    try:
        content = guard.read_file(root, path)
    except (OSError, PathError):
        return None
    return content[0] if content else None
