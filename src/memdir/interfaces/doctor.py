"""What is wrong in a memory directory and around it, in one line each with the fix. It repairs derived state alone.

    findings.py    the kinds, how grave each is, and the record
    files.py       files, heads, names, copies, links
    indexes.py     MEMORY.md
    past.py        history and the lock of the dream
    texts.py       stale claims, secrets, memories never recalled
    seen_clean.py  texts that were searched for secrets already
    background.py  hooks, queue
    shared.py      the team's sync
    configured.py  settings

Memories themselves are never changed here: index lines and caches can be rebuilt, topic files cannot.
"""

import hashlib
import os
import re
import sqlite3
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path

from memdir.dream.lock import FILE as DREAM_LOCK
from memdir.dream.lock import find_holder
from memdir.errors import MemdirError
from memdir.extraction.turns import FOLDER as QUEUE
from memdir.extraction.turns import QueuedTurn, read_queue
from memdir.files import PROBLEMS, clear_problems, read_events, read_head, read_problems
from memdir.format.age import find_link_target, find_links, make_targets
from memdir.format.clip import find_long_lines
from memdir.format.index import parse_index
from memdir.frozen import dataclass
from memdir.guard import find_refusal
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES, LEDGER_ROWS
from memdir.project.git import run_git
from memdir.project.hosts import InstalledHost
from memdir.project.options import BY_KEY, Value
from memdir.project.paths import ProjectPaths
from memdir.project.settings import PROJECT_FILE, Settings
from memdir.records import Header, Kind, Memory, Origin, Surfacing
from memdir.store import files, secrets
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER, find_unfit, index_path, is_index_path, is_shared
from memdir.store.secrets import OwnSecretRules, find_secrets
from memdir.store.state import RECORD
from memdir.team.news import SyncOutcome, SyncRecord, read_sync_record
from memdir.team.state import read_membership
from memdir.text import fold, one_line, shorten
from memdir.verify.records import VerifyState, find_verdicts, render_caveat

__all__ = [
    "LEVELS",
    "DoctorFinding",
    "HostConversation",
    "check_settings",
    "count_kinds",
    "examine",
    "examine_background",
    "repair",
    "repair_background",
]


# --- findings ---
# What a finding is, and every kind of it with how grave it is. The list is closed; docs/doctor.md explains each.

# In the order in which they are told. Above advice means that something does not work as it should.
LEVELS = {
    "broken_frontmatter": "error",
    "unknown_type": "warning",
    "bad_name": "warning",
    "special_file": "warning",
    "oversize_file": "warning",
    "duplicate": "warning",
    "dead_pointer": "warning",
    "orphan": "warning",
    "oversize_index": "warning",
    "slug_collision": "error",
    "unreadable_settings": "error",
    "setting": "warning",
    "history": "error",
    "out_of_step": "warning",
    "secret": "warning",
    "about_person": "warning",
    "dream_lock": "warning",
    "queue": "warning",
    "team_sync": "warning",
    "hooks_silent": "warning",
    "hook_problem": "warning",
    "stale": "warning",
    "partly_stale": "advice",
    "dead_setting": "advice",
    "never_recalled": "advice",
    "long_line": "advice",
    "unresolved_link": "advice",
}
_ORDER = {kind: number for number, kind in enumerate(LEVELS)}


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that is wrong: its kind, where, in words, and what to do. `fixable`: `--fix` does it."""

    kind: str
    where: str
    message: str
    fix: str
    line: int | None = None
    fixable: bool = False

    @property
    def level(self) -> str:
        return LEVELS[self.kind]


def count_kinds(findings: Sequence[DoctorFinding]) -> dict[str, int]:
    """Every kind with how often it was found, the absent ones too."""
    counts = Counter(finding.kind for finding in findings)
    return {kind: counts[kind] for kind in LEVELS}


def order(finding: DoctorFinding) -> tuple[int, str, int]:
    """By kind, then by place."""
    return _ORDER[finding.kind], finding.where, finding.line or 0


# --- background ---
# What is wrong with what nobody watches: hooks that do not fire, hooks that failed, turns that wait.
#
# Pure but for the small files it reads in a state folder. Which hosts have memdir's hooks, and when conversations ran,
#  is
# told to it.

STUCK = timedelta(days=1)  # a turn that waits longer waits for nobody
RECENT = timedelta(days=7)  # what went wrong before that has been seen or does not matter
SLACK = timedelta(minutes=10)  # an install in the middle of a session, clocks that differ a little


@dataclass(frozen=True, slots=True)
class HostConversation:
    """A conversation of a host, from its first record to its last, as its transcript tells."""

    host: str
    started: datetime
    ended: datetime


def check_hooks(
    state: Path, installed: Sequence[InstalledHost], ran: Sequence[HostConversation], now: datetime
) -> Iterator[DoctorFinding]:
    """Hooks that stayed silent through the last two conversations, which began after they were installed and are over.

    Two, because one says little: a turn that was broken off sends no end, and a host can be started without hooks.
    """
    arrived = {(at.host, at.event): at.at for at in read_events(state)}
    for host in dict.fromkeys(at.host for at in installed):
        since = min(at.since for at in installed if at.host == host)
        events = dict.fromkeys(event for at in installed if at.host == host for event in at.events)
        over = [at for at in ran if at.host == host and at.started > since + SLACK and now - at.ended > SLACK]
        if len(over) < 2:
            continue
        start = sorted(at.started for at in over)[-2]
        silent = [event for event in events if not _came(arrived.get((host, event)), start)]
        if silent:
            what = "no hook" if len(silent) == len(events) else ", ".join(silent)
            message = f"{what} of {host} has arrived since {start.astimezone():%Y-%m-%d %H:%M}, in two sessions or more"
            fix = f"`memdir install {host}` again; has the program it names moved, or are hooks switched off?"
            yield DoctorFinding("hooks_silent", host, message, fix)


def check_problems(state: Path, now: datetime) -> Iterator[DoctorFinding]:
    """What went wrong in a hook lately; `--fix` takes it as read."""
    for problem in read_problems(state, since=now - RECENT):
        when = f"{problem.at.astimezone():%Y-%m-%d %H:%M}"
        often = f", {problem.times} times" if problem.times > 1 else ""
        message = f"{problem.host}: {problem.text} ({when}{often})"
        fix = "mend the cause; `memdir doctor --fix` takes it as read"
        yield DoctorFinding("hook_problem", PROBLEMS, message, fix, fixable=True)


def check_queue(state: Path, now: datetime) -> Iterator[DoctorFinding]:
    """Turns that no worker has learned from for a day."""
    waiting = [(at, entry) for entry in read_queue(state) if (at := _read_queued(entry)) and now - at > STUCK]
    if waiting:
        since = min(at for at, _ in waiting)
        turns = "1 turn waits" if len(waiting) == 1 else f"{len(waiting)} turns wait"
        message = f"{turns} to be learned from since {since.astimezone():%Y-%m-%d %H:%M}"
        yield DoctorFinding("queue", QUEUE, message, "`memdir extract` learns from them and says what is wrong")


def _came(arrival: datetime | None, start: datetime) -> bool:
    return arrival is not None and arrival > start - SLACK


def _read_queued(entry: QueuedTurn) -> datetime | None:
    """When an entry was put into the queue: its name begins with that moment."""
    nanoseconds = entry.path.name.partition("-")[0]
    if not (nanoseconds.isascii() and nanoseconds.isdigit()):
        return None
    try:
        return datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return None


# --- configured ---
# What is wrong with settings: keys nobody knows, lines that do not count, values that can have no effect.

# A setting, another one, and the value of that other with which the first means nothing.
_NEEDS: tuple[tuple[str, str, Value], ...] = (
    ("dream_hours", "dream", False),
    ("dream_sessions", "dream", False),
    ("dream_scan_minutes", "dream", False),
    ("extract_headless", "extract", False),
    ("extract_every", "extract", False),
    ("model_url", "model", "none"),
    ("model_seconds", "model", "none"),
    ("budget.run_tokens", "model", "none"),
    ("budget.day_tokens", "model", "none"),
    ("index_order", "skip_index", True),
)


def check_settings(settings: Settings, places: ProjectPaths) -> Iterator[DoctorFinding]:
    """Settings and places that are not as somebody meant them to be."""
    for key in settings.unknown:
        yield DoctorFinding("setting", "config file", f"there is no setting {key}", f"`memdir config unset {key}`")
    for key, reason in settings.ignored.items():
        yield DoctorFinding("setting", PROJECT_FILE, f"{key} is ignored: {reason}", "take it out of the file")
    for note in places.notes:
        if note != places.root.note:
            yield DoctorFinding("setting", "places", note, "`memdir where` shows each rule")
    yield from _check_effect(settings, _find_own(settings))


def _find_own(settings: Settings) -> Mapping[str, str]:
    """What a person has set, and where. A variable is somebody's for this one call, a project's file not ours."""
    own = {key: source for key, source in settings.sources.items() if source.startswith("config file ")}
    return {key: source for key, source in own.items() if settings[key] != BY_KEY[key].default}


def _check_effect(settings: Settings, own: Mapping[str, str]) -> Iterator[DoctorFinding]:
    for key, other, value in _NEEDS:
        if key in own and settings[other] == value:
            shown = str(value).lower()
            message = f"{key} = {settings[key]} has no effect while {other} is {shown}"
            yield DoctorFinding("dead_setting", "config file", message, f"`memdir config unset {key}`, or set {other}")


# --- files ---
# What is wrong with memory files one by one: what cannot be read, heads, names, copies, links.


def check_entries(store: FileStore) -> Iterator[DoctorFinding]:
    """Files that look like memories and may not be read, or not be written."""
    for found in store.look():
        stem = found.path.removesuffix(".md")
        if "larger" in found.refusal:
            yield DoctorFinding(
                "oversize_file", found.path, f"not read: {found.refusal}", "split it or move it elsewhere"
            )
        elif found.refusal:
            yield DoctorFinding("special_file", found.path, f"not read: {found.refusal}", "replace it by a plain file")
        elif reason := next((at for at in map(find_refusal, stem.split("/")) if at), ""):
            yield DoctorFinding("bad_name", found.path, f"it can be read but not written: {reason}", "rename the file")


def check_headers(headers: Sequence[Header]) -> Iterator[DoctorFinding]:
    for header in headers:
        if "type" in header.problem:
            fix = "set type: to user, feedback, project or reference"
            yield DoctorFinding("unknown_type", header.file, f"{header.problem}; it is still listed and recalled", fix)
        elif header.problem:
            fix = f"`memdir edit {header.name}`: name, description and type between two --- lines"
            yield DoctorFinding("broken_frontmatter", header.file, header.problem, fix)


def check_shared_files(store: FileStore, headers: Sequence[Header]) -> Iterator[DoctorFinding]:
    """Memories about a person where others will read them; only a file put there by hand can be one."""
    for header in headers:
        if is_about_person(store, header):
            message = "it is about a person, and lies where others read it"
            yield DoctorFinding(
                "about_person", header.file, message, f"`memdir demote {header.name}` makes it yours again"
            )


def is_about_person(store: FileStore, header: Header) -> bool:
    """Whether others can read something here that is about a person."""
    return header.kind is Kind.USER and is_shared(header.file, store.rules)


def check_duplicates(memories: Sequence[Memory]) -> Iterator[DoctorFinding]:
    """Two files of one name but for case and the like, or of one text."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    bodies: defaultdict[str, list[str]] = defaultdict(list)
    for memory in memories:
        names[fold(memory.header.name)].append(memory.header.name)
        if memory.body.strip():
            bodies[" ".join(memory.body.split())].append(memory.header.name)
    for same in [*names.values(), *bodies.values()]:
        first, *others = sorted(same)
        for other in others:
            what = "the same name as" if fold(other) == fold(first) else "the same text as"
            yield DoctorFinding(
                "duplicate", f"{other}.md", f"{what} {first}.md", f"`memdir forget {other}` if it says no more"
            )


def check_links(memories: Sequence[Memory]) -> Iterator[DoctorFinding]:
    targets = make_targets([memory.header for memory in memories])
    for memory in memories:
        for link, line in find_links(memory.text):
            if find_link_target(link, targets) is None:
                shown = shorten(one_line(link), 60)
                message = f"[[{shown}]] names no memory here"
                yield DoctorFinding(
                    "unresolved_link", memory.header.file, message, "correct it, or leave it for later", line
                )


# --- indexes ---
# What is wrong with an index: lines that lead nowhere, memories without a line, and more of it than is loaded.

INDEX_FIX = "`memdir doctor --fix`"


def check_index(store: FileStore, headers: Sequence[Header], folder: str) -> Iterator[DoctorFinding]:
    text = store.index(folder)
    file = f"{folder}/MEMORY.md" if folder else "MEMORY.md"
    prefix = f"{folder}/" if folder else ""
    lines = parse_index(text)
    mine = [header for header in headers if index_path(header.name)[0] == file]
    alive = {fold(header.name) for header in mine}
    pointed: Counter[str] = Counter()
    for line in lines:
        if line.is_pointer:
            name = prefix + line.name
            pointed[line.text.strip()] += 1
            if fold(name) not in alive:
                message = f"points to `{name}.md`, which does not exist"
                yield DoctorFinding("dead_pointer", file, message, INDEX_FIX, line.number + 1, fixable=True)
            elif pointed[line.text.strip()] == 2:
                yield DoctorFinding(
                    "duplicate", file, f"the line for {name} stands twice", "take one out", line.number + 1
                )
    targets = {fold(prefix + line.name) for line in lines if line.is_pointer}
    for header in mine:
        if fold(header.name) not in targets and not is_about_person(store, header):
            yield _tell_orphan(store, header, file)
    yield from _check_size(text, file, len(lines))


def _tell_orphan(store: FileStore, header: Header, file: str) -> DoctorFinding:
    if why := find_unfit(header, store.rules):
        fix = f"`memdir demote {header.name}`, or `memdir edit` it"
        return DoctorFinding(
            "orphan", header.file, f"no line in {file} may point to it: {why}, and others read that", fix
        )
    return DoctorFinding("orphan", header.file, f"no line in {file} points to it", INDEX_FIX, fixable=True)


def _check_size(text: str, file: str, count: int) -> Iterator[DoctorFinding]:
    size = len(text.encode("utf-8", "surrogateescape"))
    if count > INDEX_LINES or size > INDEX_BYTES:
        message = f"{count} lines and {size:,} bytes; {INDEX_LINES} lines and {INDEX_BYTES:,} bytes are loaded"
        yield DoctorFinding("oversize_index", file, message, "shorten lines and move detail into topic files")
    for line in find_long_lines(text):
        length = len(line.text.rstrip("\r\n"))
        message = f"{length} characters, {INDEX_LINE_CHARS} are enough for a pointer"
        yield DoctorFinding("long_line", file, message, "move the detail into its topic file", line.number + 1)


# --- past ---
# What is wrong with what a directory keeps: its history, whether that is in step with the files, and the dream's lock.
#
# An edit by somebody else's editor is nothing wrong: listing records it. What is told is an edit that could not be
# recorded, because then `undo` and `restore` know less than they should.

PAST_FIX = "`memdir doctor --fix` records it"


def check_history(store: FileStore) -> Iterator[DoctorFinding]:
    try:
        store.changes(limit=1)
    except MemdirError as error:
        yield DoctorFinding("history", str(store.state), str(error), error.hint or "move history.db away")


def check_step(store: FileStore, memories: Sequence[Memory]) -> Iterator[DoctorFinding]:
    """Memories that are not what history last saw of them, after it has had the chance to look."""
    try:
        recorded = store.recorded()
    except MemdirError:
        return  # told already
    found = {memory.header.file: memory.digest for memory in memories}
    for path, digest in recorded.items():
        if path in found and found[path] != digest:
            message = "it was changed by somebody else, and history has not seen it"
            yield DoctorFinding("out_of_step", path, message, PAST_FIX, fixable=True)
        elif path not in found and not is_index_path(path) and not (store.root / path).exists():
            message = "it was deleted by somebody else, and history has not seen it"
            yield DoctorFinding("out_of_step", path, message, PAST_FIX, fixable=True)


def check_dream(store: FileStore) -> Iterator[DoctorFinding]:
    holder = find_holder(store.root, now=store.clock())
    if holder is not None and holder.is_late:
        since = f"{holder.since.astimezone():%Y-%m-%d %H:%M}"
        message = f"process {holder.pid} dreams since {since}, and nobody else can meanwhile"
        yield DoctorFinding("dream_lock", DREAM_LOCK, message, "look what it does; the lock ends with its process")


# --- seen_clean ---
# Which texts were searched for secrets and had none: digests in the derived index, so that doctor stays quick.
#
# Only digests, no names and no texts. They hold for the version of memdir whose rules they were searched by, and for
# the
# person's own rules as they were; a change of either is another mark, and all is searched again.

_TABLE = "CREATE TABLE IF NOT EXISTS clean (digest TEXT PRIMARY KEY, mark TEXT NOT NULL) WITHOUT ROWID"
_SECONDS = 0.5


def read_clean(store: FileStore, mark: str) -> frozenset[str]:
    """Digests of texts that were found clean by these rules."""
    path = files.find_header_cache(store.root, store.state, store.cache, write=False)
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=_SECONDS)) as db:
            rows = db.execute("SELECT digest FROM clean WHERE mark = ?", (mark,))
            return frozenset(digest for (digest,) in rows)
    except sqlite3.Error:
        return frozenset()


def write_clean(store: FileStore, fresh: Iterable[str], mark: str, *, keep: Set[str]) -> None:
    """Add digests and drop those of texts that are no more. What cannot be written is searched again: it is a cache."""
    path, rows = store.find_index_file(), [(digest, mark) for digest in fresh]
    if path is None or not rows:
        return
    try:
        with closing(files.open_index(path, _SECONDS)) as db:
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.execute(_TABLE)
                known = [digest for (digest,) in db.execute("SELECT digest FROM clean")]
                db.executemany("DELETE FROM clean WHERE digest = ?", [(at,) for at in known if at not in keep])
                db.executemany("INSERT OR REPLACE INTO clean VALUES (?, ?)", rows)
    except (sqlite3.Error, OSError):
        pass


def find_mark(own: OwnSecretRules) -> str:
    """What the rules are at the moment: the person's own, and the rooms in which the built-in ones stand."""
    return hashlib.sha256(f"{_find_built_in()} {own}".encode()).hexdigest()[:16]


@cache
def _find_built_in() -> str:
    rooms = sorted(Path(secrets.__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(room.read_bytes() for room in rooms)).hexdigest()


# --- shared ---
# What is wrong with a team's sync, by the record of the last one. It asks no remote.

SILENT = timedelta(days=7)  # a remote that was out of reach for so long is more than a train ride
_SHOWN = 5
_CHARS = 200


def check_team(state: Path, now: datetime) -> Iterator[DoctorFinding]:
    """A sync that failed or has not been for long, and files that it does not take or send."""
    if read_membership(state) is None:
        return
    record = read_sync_record(state)
    if message := _find_trouble(record, now):
        yield DoctorFinding(
            "team_sync", RECORD, message, "`memdir team sync` tries again, `memdir team status` tells more"
        )
    yield from _tell_files(
        record.refused, "not taken", "its author has to mend it, or somebody takes it out of the branch with git"
    )
    yield from _tell_files(record.withheld, "not sent", "mend it here, then `memdir team sync`")


def _find_trouble(record: SyncRecord, now: datetime) -> str:
    why = f": {shorten(one_line(record.error), _CHARS)}" if record.error else ""
    if record.outcome == SyncOutcome.DENIED:
        return f"the remote takes nothing from here{why}"
    if record.outcome == SyncOutcome.FAILED:
        return f"the last sync failed{why}"
    good = record.last_good
    if record.outcome == SyncOutcome.OFFLINE and (good is None or now - good > SILENT):
        since = f" since {good.astimezone():%Y-%m-%d}" if good else ""
        return f"the remote has not answered{since}{why}"
    return ""


def _tell_files(reasons: Mapping[str, str], what: str, fix: str) -> Iterator[DoctorFinding]:
    for number, (path, why) in enumerate(sorted(reasons.items())):
        if number == _SHOWN:
            yield DoctorFinding(
                "team_sync", RECORD, f"{len(reasons) - _SHOWN} more files were {what}", "`memdir team status`"
            )
            return
        yield DoctorFinding(
            "team_sync", shorten(one_line(path), _CHARS), f"{what}: {shorten(one_line(why), _CHARS)}", fix
        )


# --- texts ---
# What is wrong with what memories say: claims the project no longer bears out, pairs that cannot both hold, secrets,
# and memories nobody was ever given.
#
# Verdicts are those that `verify` has kept; doctor itself looks at no project. Secrets are told by rule and line,
# never
# by value; a text that was found clean is not searched again until the text or the rules change.

UNUSED_DAYS = 60  # so old a memory must be, and so long ago the first recall, before "never recalled" says anything
UNUSED_SESSIONS = 20  # and so many conversations must have recalled something meanwhile
_TEXTS_SHOWN = 5  # names in one line


def check_verdicts(store: FileStore, memories: Sequence[Memory]) -> Iterator[DoctorFinding]:
    """What the last verification found of the texts as they are now."""
    known = find_verdicts(store, {memory.header.name: memory.digest for memory in memories})
    for name, verdict in known.items():
        if verdict.state in (VerifyState.STALE, VerifyState.PARTLY):
            kind = "stale" if verdict.state is VerifyState.STALE else "partly_stale"
            fix = f"`memdir edit {name}`; `memdir verify {name}` looks again"
            line = min((at.claim.line for at in verdict.stale), default=None)
            yield DoctorFinding(kind, f"{name}.md", render_caveat(verdict).rstrip("."), fix, line)


def check_secrets(store: FileStore, memories: Sequence[Memory], own: OwnSecretRules) -> Iterator[DoctorFinding]:
    """Credentials in memories: which rule, in which line."""
    mark = find_mark(own)
    clean = read_clean(store, mark)
    fresh = []
    for memory in memories:
        if memory.digest in clean:
            continue
        found = find_secrets(memory.text, allow=own.allow, extra=own.rules)
        for at in found:
            fix = f"change it where it is used, then `memdir edit {memory.header.name}`; history keeps the old text"
            yield DoctorFinding("secret", memory.header.file, f"looks like {at.what} ({at.rule})", fix, at.line)
        fresh += [] if found else [memory.digest]
    write_clean(store, fresh, mark, keep={memory.digest for memory in memories})


def check_uses(store: FileStore, memories: Sequence[Memory], now: datetime) -> Iterator[DoctorFinding]:
    """Memories that were there all the time and never fitted anything, where that says something."""
    try:
        recalls = store.recalls(limit=LEDGER_ROWS)
    except MemdirError:
        return
    old = now - timedelta(days=UNUSED_DAYS)
    if not recalls or recalls[-1].at > old or _count_sessions(recalls) < UNUSED_SESSIONS:
        return
    used = {recall.name for recall in recalls}
    never = [at.header for at in memories if at.header.name not in used]
    names = sorted(at.name for at in never if at.modified < recalls[-1].at and not at.pinned and not at.problem)
    if names:
        since = f"{recalls[-1].at.astimezone():%Y-%m-%d}"
        shown = ", ".join(names[:_TEXTS_SHOWN]) + (
            f" and {len(names) - _TEXTS_SHOWN} more" if len(names) > _TEXTS_SHOWN else ""
        )
        what = "1 memory" if len(names) == 1 else f"{len(names):,} memories"
        message = f"{what} never recalled since {since}: {shown}"
        yield DoctorFinding(
            "never_recalled", "ledger", message, "a better description helps; `memdir forget NAME` if not"
        )


def _count_sessions(recalls: Sequence[Surfacing]) -> int:
    """Conversations, or where their ids are not known, days."""
    return len({recall.session or f"{recall.at:%Y-%m-%d}" for recall in recalls})


# --- doctor ---

DOCTOR = Origin(who="doctor", why="derived state repaired")
_NO_RULES = OwnSecretRules()


def examine(
    store: FileStore, *, skip_index: bool = False, own: OwnSecretRules = _NO_RULES
) -> tuple[DoctorFinding, ...]:
    """Everything that is wrong with one directory, in the order of `LEVELS`. `own` are a person's rules for secrets."""
    headers = store.scan()
    memories = list(_read_all(store, headers))
    checks: list[Callable[[], Iterator[DoctorFinding]]] = [
        lambda: check_entries(store),
        lambda: check_headers(headers),
        lambda: check_shared_files(store, headers),
        lambda: check_duplicates(memories),
        lambda: check_links(memories),
        lambda: check_history(store),
        lambda: check_step(store, memories),
        lambda: check_dream(store),
        lambda: check_verdicts(store, memories),
        lambda: check_secrets(store, memories, own),
        lambda: check_uses(store, memories, store.clock()),
    ]
    if not skip_index:
        checks += [lambda: check_index(store, headers, ""), lambda: check_index(store, headers, TEAM_FOLDER)]
    return tuple(sorted((finding for check in checks for finding in check()), key=order))


def examine_background(
    state: Path, *, now: datetime, installed: Sequence[InstalledHost] = (), ran: Sequence[HostConversation] = ()
) -> tuple[DoctorFinding, ...]:
    """What is wrong with a project's hooks, worker and sync; `state` is the state folder of its own memory."""
    checks = (
        check_hooks(state, installed, ran, now),
        check_problems(state, now),
        check_queue(state, now),
        check_team(state, now),
    )
    return tuple(sorted((finding for check in checks for finding in check), key=order))


def repair(store: FileStore, findings: Sequence[DoctorFinding]) -> int:
    """Rebuild what can be rebuilt, each as a change that can be undone; answers how many findings that settled."""
    orphans = [at.where.removesuffix(".md") for at in findings if at.kind == "orphan" and at.fixable]
    dead = [finding.message.split("`")[1].removesuffix(".md") for finding in findings if finding.kind == "dead_pointer"]
    unseen = [finding for finding in findings if finding.kind == "out_of_step"]
    if unseen:
        store.notice()
    if orphans:
        store.add_pointers(orphans, origin=DOCTOR)
    if dead:
        store.drop_pointers(dead, origin=DOCTOR)
    return len(orphans) + len(dead) + len(unseen)


def repair_background(state: Path, findings: Sequence[DoctorFinding], *, now: datetime) -> int:
    """Take what went wrong in hooks as read; answers how many findings that settled."""
    problems = [finding for finding in findings if finding.kind == "hook_problem"]
    if problems:
        clear_problems(state, until=now)
    return len(problems)


def _read_all(store: FileStore, headers: Sequence[Header]) -> Iterator[Memory]:
    for header in headers:
        try:
            yield store.read(header.name)
        except MemdirError:
            continue


# --- derivable ---
# Remember only what cannot be derived: whether a text says what the project already says, and where it says so.
#
# Three narrow rules, since a wrong warning teaches people to ignore the right ones:
# - a sentence of five words or more that also stands in an instruction file, compared without markup and punctuation;
# - a text of which more than half the sentences do nothing but say where a tracked file lies ("the parser is in
#   src/parser.py"). A path beside a fact does not count: the sentence must end where the place ends;
# - a sentence that is the subject of one of the last commits.
#
# It warns and never refuses, reads a bounded part of a bounded number of files, never leaves the root through a link,
# and
# raises nothing: without git, or when git takes too long, it knows less.

_FILES = (
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "GEMINI.md",
    ".claude/CLAUDE.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".github/copilot-instructions.md",
)
_FOLDERS = ((".claude/rules", ".md"), (".cursor/rules", ".mdc"))
_FILE_BYTES = 262_144  # an instruction file longer than this is a book
_FOLDER_FILES = 200  # and a folder with more rules than this a library; as many folders are looked into
_LAYOUT_CHARS = 300  # to say where a file lies takes less than this
_COMMITS = 2_000
_WORDS = 5
_DERIVABLE_SHOWN = 60

_LIST_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d+[.)])[ \t]+|[ \t>]*#{1,6}[ \t]")
_STOP = re.compile(r"(?<=[.!?])[\s*_`\"')]+|[。！？]+")
_LABEL = re.compile(r"^(?:why|how to apply)\b[\s:]*", re.IGNORECASE)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_TYPED = re.compile(r"^[a-z]+(?:\([^)]*\))?!?:\s+")  # "fix(parser): " before a commit subject

_PATH = r"[`\"'*]*(?:\./)?(?P<path>[\w@.+~-]*[\w@+~-](?:/[\w@.+~-]+)*/?)[`\"'*]*"
_PLACED = (
    r"(?:(?:is|are|lives?|lies|lie|sits?|resides?|stays?|belongs?|goes|"
    r"(?:is |are |can be )?(?:located|found|defined|implemented|stored|kept|declared|placed))"
    r"\s+(?:in|at|under|inside|within)|"
    r"(?:liegt|steht|ist|befindet\s+sich)\s+in|(?:se\s+trouve|est|est\s+définie?)\s+dans|(?:está|se\s+encuentra)\s+en)"
)
_THING = r"(?:[\w`'’-]+\s+){0,5}[\w`'’-]+"
_END = r"(?:\s+(?:file|folder|directory|module|package))?[.\s*_]*"
_LAYOUT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_THING}\s+{_PLACED}\s+(?:the\s+(?:file|folder|directory)\s+)?{_PATH}{_END}",
        rf"(?:the\s+file\s+)?{_PATH}\s+(?:contains|holds|has|defines|implements|enthält|contient|contiene)\s+{_THING}[.\s*_]*",
        rf"(?:{_THING}\s*(?::|->|→|=>)\s*)?{_PATH}{_END}",
        rf"[^\s]{{1,20}}在\s*{_PATH}\s*(?:里|中|内)?[。\s]*",
        rf"[^\s]{{1,20}}は\s*{_PATH}\s*に(?:ある|あります)[。\s]*",
    )
)


@dataclass(frozen=True, slots=True)
class DerivableReason:
    """What could be looked up instead of remembered, and where."""

    what: str
    source: str


def find_derivable(text: str, root: Path, *, timeout: float = 2.0) -> tuple[DerivableReason, ...]:
    """Why this text need not be remembered; nothing when no rule says so. `timeout` bounds the time spent in git."""
    sentences = list(_split_sentences(text))
    ends = time.monotonic() + timeout
    return (
        *_find_in_instructions(sentences, root),
        *_find_layout(sentences, root, ends),
        *_find_in_commits(sentences, root, ends),
    )


def _find_in_instructions(sentences: list[str], root: Path) -> Iterator[DerivableReason]:
    ours = {_normalise(sentence): sentence for sentence in sentences if _is_long(_normalise(sentence))}
    if not ours:
        return
    for name in _list_instructions(root):
        theirs = {_normalise(sentence) for sentence in _split_sentences(_read_inside(root, name))}
        for key in [key for key in ours if key in theirs]:
            yield DerivableReason(
                f"“{shorten(ours.pop(key), _DERIVABLE_SHOWN)}” already stands in an instruction file", name
            )


def _find_layout(sentences: list[str], root: Path, ends: float) -> Iterator[DerivableReason]:
    paths = [path for sentence in sentences if (path := _find_place(sentence))]
    if not paths or 2 * len(paths) <= len(sentences):
        return
    for path in dict.fromkeys(paths):
        spec = f":(literal){path}" if "/" in path else f":(glob)**/{path}"
        tracked = _run_git(root, ends, "ls-files", "-z", "--", spec).split("\0")[0]
        if tracked:
            shown = tracked if tracked.endswith(path.rstrip("/")) else path
            yield DerivableReason("it says where a tracked file lies", shown)


def _find_in_commits(sentences: list[str], root: Path, ends: float) -> Iterator[DerivableReason]:
    ours = {_normalise(sentence): sentence for sentence in sentences if _is_long(_normalise(sentence))}
    if not ours:
        return
    log = _run_git(root, ends, "log", f"--max-count={_COMMITS}", "--no-show-signature", "--format=%h %s")
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        for key in {_normalise(subject), _normalise(_TYPED.sub("", subject))}:
            if key in ours:
                yield DerivableReason(
                    f"“{shorten(ours.pop(key), _DERIVABLE_SHOWN)}” is the subject of a commit", f"commit {commit}"
                )


def _find_place(sentence: str) -> str:
    """The path a sentence is about, if to say where it lies is all the sentence does."""
    patterns = _LAYOUT if len(sentence) <= _LAYOUT_CHARS else ()
    match = next((found for pattern in patterns if (found := pattern.fullmatch(sentence.strip()))), None)
    path = match["path"] if match else ""
    return path if ("/" in path or "." in path.strip(".")) and ".." not in path.split("/") else ""


def _split_sentences(text: str) -> Iterator[str]:
    """Sentences of Markdown text: paragraphs are joined over their lines, list items and headings stand alone."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        starts = _LIST_ITEM.match(line)
        if (starts or not line.strip()) and block:
            yield from _split_block(" ".join(block))
            block = []
        if line.strip():
            block.append(line[starts.end() :] if starts else line)


def _split_block(block: str) -> Iterator[str]:
    for sentence in _STOP.split(block):
        if any(char.isalnum() for char in sentence):
            yield _LABEL.sub("", sentence.strip().strip("*_").strip()).lstrip("*: ")


def _normalise(sentence: str) -> str:
    """Words only, in small letters, one space between them."""
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return " ".join(re.sub(r"[^\w\s]|_", " ", re.sub(r"['’]", "", folded)).split())


def _is_long(normalised: str) -> bool:
    """Five words; in a script without spaces two characters count as one."""
    return len(normalised.split()) + len(_CJK.findall(normalised)) // 2 >= _WORDS


def _list_instructions(root: Path) -> Iterator[str]:
    yield from _FILES
    for folder, ending in _FOLDERS:
        if _is_inside(root, root / folder):
            names = (name for name in _list_files(root / folder) if name.endswith(ending))
            yield from (Path(name).relative_to(root).as_posix() for name in islice(names, _FOLDER_FILES))


def _list_files(folder: Path) -> Iterator[str]:
    for place, folders, names in islice(os.walk(folder), _FOLDER_FILES):
        folders.sort()
        yield from (os.path.join(place, name) for name in sorted(names))


def _read_inside(root: Path, name: str) -> str:
    """The head of a file below the root; nothing if a link leads out of it, or it cannot be read."""
    reading = read_head(root / name, _FILE_BYTES) if _is_inside(root, root / name) else None
    return (reading.data or b"").decode("utf-8", "replace") if reading else ""


def _is_inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL in the path
        return False


def _run_git(root: Path, ends: float, *arguments: str) -> str:
    """What git prints; nothing when it fails, is missing or would take longer than is left."""
    code, output = run_git(root, arguments, max(0.0, ends - time.monotonic()))
    return output if code == 0 else ""
