"""What is wrong with a memory directory and what surrounds it, one line a finding, with the fix.

`examine` looks at one directory: files, index, history, texts. `examine_background` looks at hooks, the queue and the
team's sync, `check_settings` at settings. `repair` rebuilds derived state (index lines, history's view of files) and never
changes a memory.

Verdicts about stale claims are those that `verify` has stored. Secrets are reported by rule and line, never by value.
"""

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from memdir.dream.lock import FILE as DREAM_LOCK
from memdir.dream.lock import find_holder
from memdir.errors import MemdirError
from memdir.files import INDEX_COPY, find_refusal
from memdir.format.age import find_link_target, find_links, make_targets
from memdir.format.frontmatter import make_slug
from memdir.format.index import INDEX_FILE, find_long_lines, parse_index
from memdir.frozen import dataclass
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES, LEDGER_ROWS
from memdir.project.hosts import InstalledHost
from memdir.project.paths import ProjectPaths
from memdir.project.settings import BY_KEY, PROJECT_FILE, Settings, Value
from memdir.records import TEAM_FOLDER, Header, Kind, Origin, StoredMemory
from memdir.store.files import FileStore
from memdir.store.history import FILE as HISTORY_FILE
from memdir.store.plan import find_unfit, index_path, is_index_path, is_shared
from memdir.store.secrets import OwnSecretRules, find_secrets
from memdir.store.sessions import read_ended, read_queue
from memdir.store.state import (
    ENDED_FOLDER,
    NO_PERMISSION,
    OWN_FOLDER,
    OWN_SETUP,
    PROBLEMS,
    QUEUE_FOLDER,
    RECORD,
    clear_problems,
    find_bad_files,
    read_events,
    read_problems,
)
from memdir.sync.state import OWN_RECORD, SyncOutcome, SyncRecord, read_membership, read_sync_record
from memdir.text import fold, one_line, shorten
from memdir.verify.records import VerifyState, find_verdicts, render_caveat

# Every kind of finding, in the order in which they are shown. Above advice, something does not work as it should.
# docs/doctor.md explains each.
_LEVELS = (
    ("error", "broken_frontmatter"),
    ("warning", "unknown_type bad_name special_file oversize_file duplicate dead_pointer orphan oversize_index"),
    ("error", "slug_collision unreadable_settings"),
    ("warning", "setting"),
    ("error", "state_file history"),
    ("warning", "out_of_step secret about_person dream_lock queue team_sync own_sync hooks_silent hook_problem stale"),
    ("advice", "partly_stale dead_setting never_recalled long_line unresolved_link"),
)
LEVELS = {kind: level for level, kinds in _LEVELS for kind in kinds.split()}
_ORDER = {kind: number for number, kind in enumerate(LEVELS)}
STUCK = timedelta(days=1)  # a turn that was queued longer ago is stuck
RECENT = timedelta(days=7)  # older problems have been seen or do not matter
SLACK = timedelta(minutes=10)  # for an install in the middle of a session, and clocks that differ a little
SILENT = timedelta(days=7)  # a remote that was unreachable for longer is a problem
UNUSED_DAYS = 60  # age of a memory, and of the first recall, from which "never recalled" means something
UNUSED_SESSIONS = 20  # conversations that must have recalled something meanwhile
_SHOWN = 5  # names or files in one list
_CHARS = 200
_LATE = "it took longer than"  # a hook that missed its deadline
_ORIGIN = Origin(who="doctor", why="derived state repaired")
_NO_RULES = OwnSecretRules()
# A setting, its value, and the settings that have no effect with it.
_NEEDS: tuple[tuple[str, Value, str], ...] = (
    ("dream", False, "dream_hours dream_sessions dream_scan_minutes"),
    ("extract", False, "extract_headless extract_every"),
    ("model", "none", "model_url model_seconds budget.run_tokens budget.day_tokens"),
    ("skip_index", True, "index_order"),
)


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


@dataclass(frozen=True, slots=True)
class HostConversation:
    """A conversation of a host, from the first record of its transcript to the last."""

    host: str
    started: datetime
    ended: datetime


Findings = Iterator[DoctorFinding]


def examine(
    store: FileStore, *, skip_index: bool = False, own: OwnSecretRules = _NO_RULES
) -> tuple[DoctorFinding, ...]:
    """Everything that is wrong with one directory, in the order of `LEVELS`. `own` are a person's rules for secrets."""
    headers, memories = store.scan(), list[StoredMemory]()
    for header in headers:
        with suppress(MemdirError):
            memories.append(store.read(header.name))
    return _sort(
        _check_entries(store, headers),
        _check_state(store.state),
        _check_headers(store, headers),
        _check_duplicates(memories),
        _check_links(memories),
        _check_history(store, memories),
        _check_dream(store),
        _check_verdicts(store, memories),
        _check_secrets(memories, own),
        _check_uses(store, memories),
        *(() if skip_index else (_check_index(store, headers, ""), _check_index(store, headers, TEAM_FOLDER))),
    )


def examine_background(
    state: Path, *, now: datetime, installed: Sequence[InstalledHost] = (), ran: Sequence[HostConversation] = ()
) -> tuple[DoctorFinding, ...]:
    """What is wrong with a project's hooks, worker and sync; `state` is the state folder of its own memory."""
    return _sort(
        _check_hooks(state, installed, ran, now),
        _check_problems(state, now),
        _check_queue(state, now),
        _check_team(state, now),
        _check_own(state, now),
    )


def _sort(*checks: Findings) -> tuple[DoctorFinding, ...]:
    return tuple(sorted(chain(*checks), key=lambda at: (_ORDER[at.kind], at.where, at.line or 0)))


def count_kinds(findings: Sequence[DoctorFinding]) -> dict[str, int]:
    """How often each kind was found, the absent ones too."""
    return dict.fromkeys(LEVELS, 0) | Counter(finding.kind for finding in findings)


def repair(store: FileStore, findings: Sequence[DoctorFinding]) -> int:
    """Rebuild derived state, each step as a change that can be undone; returns how many findings that settled."""
    orphans = [at.where.removesuffix(".md") for at in findings if at.kind == "orphan" and at.fixable]
    dead = [at.message.split("`")[1].removesuffix(".md") for at in findings if at.kind == "dead_pointer"]
    unseen = [at for at in findings if at.kind == "out_of_step"]
    if unseen:
        store.notice()
    if orphans:
        store.add_pointers(orphans, origin=_ORIGIN)
    if dead:
        store.drop_pointers(dead, origin=_ORIGIN)
    return len(orphans) + len(dead) + len(unseen)


def repair_background(state: Path, findings: Sequence[DoctorFinding], *, now: datetime) -> int:
    """Mark the problems of hooks as seen; returns how many findings that settled."""
    if count := sum(finding.kind == "hook_problem" for finding in findings):
        clear_problems(state, until=now)
    return count


def check_settings(settings: Settings, places: ProjectPaths) -> Findings:
    """Settings that are unknown, ignored, or without effect."""
    for key in settings.unknown:
        yield DoctorFinding("setting", "config file", f"there is no setting {key}", f"`memdir config unset {key}`")
    for key, reason in settings.ignored.items():
        yield DoctorFinding("setting", PROJECT_FILE, f"{key} is ignored: {reason}", "take it out of the file")
    for note in places.notes:
        if note != places.root.note:
            yield DoctorFinding("setting", "places", note, "`memdir where` shows each rule")
    for other, value, key in ((other, value, key) for other, value, keys in _NEEDS for key in keys.split()):
        # Only what the person has set: a variable is for one call, and a project's file is not theirs.
        is_own = settings.sources.get(key, "").startswith("config file ") and settings[key] != BY_KEY[key].default
        if is_own and settings[other] == value:
            message = f"{key} = {settings[key]} has no effect while {other} is {str(value).lower()}"
            yield DoctorFinding("dead_setting", "config file", message, f"`memdir config unset {key}`, or set {other}")


def _check_hooks(
    state: Path, installed: Sequence[InstalledHost], ran: Sequence[HostConversation], now: datetime
) -> Findings:
    """Hooks that sent nothing in the last two conversations that began after they were installed and are over."""
    # Two, because one says little: a turn that was broken off sends no end, and a host can be started without hooks.
    arrived = {(at.host, at.event): at.at for at in read_events(state)}
    for host in dict.fromkeys(at.host for at in installed):
        since = min(at.since for at in installed if at.host == host)
        events = dict.fromkeys(event for at in installed if at.host == host for event in at.events)
        over = [at for at in ran if at.host == host and at.started > since + SLACK and now - at.ended > SLACK]
        if len(over) < 2:
            continue
        start = sorted(at.started for at in over)[-2]
        seen = [event for event in events if (at := arrived.get((host, event))) and at > start - SLACK]
        if silent := [event for event in events if event not in seen]:
            what = ", ".join(silent) if seen else "no hook"
            message = f"{what} of {host} has arrived since {_show_time(start)}, in two sessions or more"
            fix = f"`memdir install {host}` again; has the program it names moved, or are hooks switched off?"
            yield DoctorFinding("hooks_silent", host, message, fix)


def _check_problems(state: Path, now: datetime) -> Findings:
    for problem in read_problems(state, since=now - RECENT):
        times = f", {problem.times} times" if problem.times > 1 else ""
        message = f"{problem.host}: {problem.text} ({_show_time(problem.at)}{times})"
        fix = "fix the cause; `memdir doctor --fix` marks it as seen"
        if _LATE in problem.text:
            fix = "`memdir config set hook_patience 3` gives hooks more time; a turn that ended is kept, `memdir extract` learns from it"
        yield DoctorFinding("hook_problem", PROBLEMS, message, fix, fixable=True)


def _check_queue(state: Path, now: datetime) -> Findings:
    times = []
    for turn in read_queue(state):
        with suppress(OverflowError, ValueError, OSError):
            times.append(datetime.fromtimestamp(int(turn.path.name.partition("-")[0]) / 1e9, UTC))
    if ended := read_ended(state):
        turns = "1 turn is" if len(ended) == 1 else f"{len(ended)} turns are"
        message = f"{turns} not queued yet: the hook was killed, or had no time"
        fix = "`memdir extract` learns from them in their projects, and so does the next session"
        yield DoctorFinding("queue", ENDED_FOLDER, message, fix)
    if stuck := [at for at in times if at < now - STUCK]:
        turns = "1 turn waits" if len(stuck) == 1 else f"{len(stuck)} turns wait"
        message = f"{turns} to be learned from since {_show_time(min(stuck))}"
        yield DoctorFinding("queue", QUEUE_FOLDER, message, "`memdir extract` learns from them and says what is wrong")


def _show_time(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def _check_team(state: Path, now: datetime) -> Findings:
    return iter(()) if read_membership(state) is None else _check_sync(read_sync_record(state), "team ", now)


def _check_own(home: Path, now: datetime) -> Findings:
    """The sync of a person's own machines, whose folder is in the state folder of all projects."""
    folder = home / OWN_FOLDER
    return (
        _check_sync(read_sync_record(folder, OWN_RECORD), "", now) if os.path.isfile(folder / OWN_SETUP) else iter(())
    )


def _check_sync(record: SyncRecord, verb: str, now: datetime) -> Findings:
    kind, file = ("team_sync", RECORD) if verb else ("own_sync", OWN_RECORD)
    verbs = ("`memdir team sync`", "`memdir team status`") if verb else ("`memdir sync`", "`memdir sync status`")
    good, since = record.last_good, f" since {record.last_good.astimezone():%Y-%m-%d}" if record.last_good else ""
    messages: dict[str, str] = {
        SyncOutcome.DENIED: "the remote takes nothing from here",
        SyncOutcome.FAILED: "the last sync failed",
        SyncOutcome.OFFLINE: f"the remote has not answered{since}" if good is None or now - good > SILENT else "",
    }
    if message := messages.get(record.outcome, ""):
        why = f": {shorten(one_line(record.error), _CHARS)}" if record.error else ""
        yield DoctorFinding(kind, file, message + why, f"{verbs[0]} tries again, {verbs[1]} tells more")
    theirs = "its author has to fix it, or somebody takes it out of the branch with git"
    ours = f"fix it here, then {verbs[0]}"
    for reasons, what, fix in ((record.refused, "not taken", theirs), (record.withheld, "not sent", ours)):
        for path, why in sorted(reasons.items())[:_SHOWN]:
            message = f"{what}: {shorten(one_line(why), _CHARS)}"
            yield DoctorFinding(kind, shorten(one_line(path), _CHARS), message, fix)
        if len(reasons) > _SHOWN:
            message = f"{len(reasons) - _SHOWN} more files were {what}"
            yield DoctorFinding(kind, file, message, verbs[1])


def _check_entries(store: FileStore, headers: Sequence[Header]) -> Findings:
    listed = {header.file for header in headers}
    for found in store.look():
        stem, path = found.path.removesuffix(".md"), shlex.quote(str(store.root / found.path))
        if found.refusal:
            kind, fix = "special_file", f"replace it by a plain file, or move it away: `mv {path} /tmp/`"
            if "larger" in found.refusal:
                kind, fix = "oversize_file", "split it or move it elsewhere"
            if found.refusal == INDEX_COPY:
                kind, fix = "bad_name", f"take over what {INDEX_FILE} lacks, then delete it: `rm {path}`"
            yield DoctorFinding(kind, found.path, f"not read: {found.refusal}", fix)
        elif found.path not in listed and not os.access(store.root / found.path, os.R_OK):
            fix = f"check who owns it: `ls -l {path}`; `sudo chown $(id -u) {path}` makes it yours"
            yield DoctorFinding("special_file", found.path, "not read: no permission", fix)
        elif reason := next((at for at in map(find_refusal, stem.split("/")) if at), ""):
            yield DoctorFinding(
                "bad_name", found.path, f"it can be read but not written: {reason}", _advise_name(store, found.path)
            )


def _advise_name(store: FileStore, path: str) -> str:
    folder, _, leaf = path.removesuffix(".md").rpartition("/")
    plain = make_slug(leaf) if make_slug(leaf) != leaf else "another-name"
    old, new = store.root / path, store.root / folder / f"{plain}.md"
    if os.path.lexists(new):
        return "rename the file"
    return f"rename the file: `mv {shlex.quote(str(old))} {shlex.quote(str(new))}`"


def _check_state(state: Path) -> Findings:
    """Files of memdir's own that cannot be used: without some of them nothing can be saved."""
    for path, reason in find_bad_files(state):
        quoted = shlex.quote(str(path))
        fix = f"move it away: `mv {quoted} {shlex.quote(f'{path}.bad')}`; memdir makes a new one"
        if path.name == HISTORY_FILE:
            fix += ", memories are not affected"
        if reason == NO_PERMISSION:
            fix = f"`sudo chown -R $(id -u) {quoted}` makes it yours again; or move it away"
        yield DoctorFinding("state_file", _show_path(path, state), f"it cannot be used: {reason}", fix)


def _show_path(path: Path, state: Path) -> str:
    return str(path.relative_to(state.parent)) if path.is_relative_to(state.parent) else str(path)


def _check_headers(store: FileStore, headers: Sequence[Header]) -> Findings:
    for header in headers:
        if "type" in header.problem:
            fix = "set type: to user, feedback, project or reference"
            yield DoctorFinding("unknown_type", header.file, f"{header.problem}; it is still listed and recalled", fix)
        elif header.problem:
            fix = f"`memdir edit {header.name}`: name, description and type between two --- lines"
            yield DoctorFinding("broken_frontmatter", header.file, header.problem, fix)
        if _is_about_person(store, header):
            fix = f"`memdir demote {header.name}` makes it yours again"
            message = "it is about a person, and lies where others read it"
            yield DoctorFinding("about_person", header.file, message, fix)


def _is_about_person(store: FileStore, header: Header) -> bool:  # where others read it, put there by hand
    return header.kind is Kind.USER and is_shared(header.file, store.rules)


def _check_duplicates(memories: Sequence[StoredMemory]) -> Findings:
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
            fix = f"`memdir forget {shlex.quote(other)}` if it says no more"
            yield DoctorFinding("duplicate", f"{other}.md", f"{what} {first}.md", fix)


def _check_links(memories: Sequence[StoredMemory]) -> Findings:
    targets = make_targets([memory.header for memory in memories])
    for memory in memories:
        for link, line in find_links(memory.text):
            if find_link_target(link, targets) is None:
                message, fix = (
                    f"[[{shorten(one_line(link), 60)}]] names no memory here",
                    "correct it, or leave it for later",
                )
                yield DoctorFinding("unresolved_link", memory.header.file, message, fix, line)


def _check_index(store: FileStore, headers: Sequence[Header], folder: str) -> Findings:
    prefix, fix = f"{folder}/" if folder else "", "`memdir doctor --fix`"
    file = f"{prefix}{INDEX_FILE}"
    try:
        store.read_bytes(file)
    except MemdirError as error:
        # Its lines are not known, so nothing can be said of memories without one.
        move = f"move it away: `mv {shlex.quote(str(store.root / file))} /tmp/`, then {fix} makes a new one"
        yield DoctorFinding("special_file", file, f"not read, sessions load no index: {error}", move)
        return
    text = store.index(folder)
    lines = parse_index(text)
    mine = [header for header in headers if index_path(header.name)[0] == file]
    existing = {fold(header.name) for header in mine}
    pointers = [line for line in lines if line.is_pointer]
    seen: Counter[str] = Counter()
    for line in pointers:
        name, number = prefix + line.name, line.number + 1
        seen[line.text.strip()] += 1
        if fold(name) not in existing:
            message = f"points to `{name}.md`, which does not exist"
            yield DoctorFinding("dead_pointer", file, message, fix, number, fixable=True)
        elif seen[line.text.strip()] == 2:
            yield DoctorFinding("duplicate", file, f"the line for {name} stands twice", "take one out", number)
    targets = {fold(prefix + line.name) for line in pointers}
    for header in mine:
        # A name that no memory gets may not be readable in a line either: it is reported as one to be changed.
        is_odd = any(map(find_refusal, header.name.split("/")))
        if fold(header.name) in targets or is_odd or _is_about_person(store, header):
            continue
        if why := find_unfit(header, store.rules):
            message = f"no line in {file} may point to it: {why}, and others read that"
            yield DoctorFinding("orphan", header.file, message, f"`memdir demote {header.name}`, or `memdir edit` it")
        else:
            yield DoctorFinding("orphan", header.file, f"no line in {file} points to it", fix, fixable=True)
    size = len(text.encode("utf-8", "surrogateescape"))
    if len(lines) > INDEX_LINES or size > INDEX_BYTES:
        message = f"{len(lines)} lines and {size:,} bytes; {INDEX_LINES} lines and {INDEX_BYTES:,} bytes are loaded"
        yield DoctorFinding("oversize_index", file, message, "shorten lines and move detail into topic files")
    for line in find_long_lines(text):
        message = f"{len(line.text.rstrip())} characters, {INDEX_LINE_CHARS} are enough for a pointer"
        yield DoctorFinding("long_line", file, message, "move the detail into its topic file", line.number + 1)


def _check_history(store: FileStore, memories: Sequence[StoredMemory]) -> Findings:
    """An unreadable history, and edits that could not be recorded: `undo` and `restore` know nothing of them."""
    try:
        store.check_history()
        recorded = store.recorded()
    except MemdirError as error:
        where = _show_path(store.state / HISTORY_FILE, store.state)
        yield DoctorFinding("history", where, str(error), error.hint or "move it away; memories are not affected")
        return
    digests = {memory.header.file: memory.digest for memory in memories}
    for path, digest in recorded.items():
        is_gone = path not in digests and not is_index_path(path) and not os.path.exists(store.root / path)
        if is_gone or digests.get(path, digest) != digest:
            message = f"it was {'deleted' if is_gone else 'changed'} by somebody else, and history has not seen it"
            yield DoctorFinding("out_of_step", path, message, "`memdir doctor --fix` records it", fixable=True)


def check_deep(store: FileStore) -> Findings:
    """Every version, change and index line of the history that does not prove itself."""
    try:
        found = store.find_damage()
    except MemdirError:
        return  # `_check_history` reports what cannot be read
    for path, what in found:
        fix = (
            "other versions are not affected; restore history.db from a backup, or keep it as it is: memories are files"
        )
        yield DoctorFinding("history", path, what, fix)


def _check_dream(store: FileStore) -> Findings:
    holder = find_holder(store.root, now=store.clock())
    if holder is not None and holder.is_late:
        message = f"process {holder.pid} dreams since {_show_time(holder.since)}, and nobody else can meanwhile"
        yield DoctorFinding("dream_lock", DREAM_LOCK, message, "look what it does; the lock ends with its process")


def _check_verdicts(store: FileStore, memories: Sequence[StoredMemory]) -> Findings:
    known = find_verdicts(store, {memory.header.name: memory.digest for memory in memories})
    for name, verdict in known.items():
        if verdict.state in (VerifyState.STALE, VerifyState.PARTLY):
            kind = "stale" if verdict.state is VerifyState.STALE else "partly_stale"
            fix = f"`memdir edit {name}`; `memdir verify {name}` looks again"
            line = min((at.claim.line for at in verdict.stale), default=None)
            yield DoctorFinding(kind, f"{name}.md", render_caveat(verdict).rstrip("."), fix, line)


def _check_secrets(memories: Sequence[StoredMemory], own: OwnSecretRules) -> Findings:
    for memory in memories:
        for at in find_secrets(memory.text, allow=own.allow, extra=own.rules):
            fix = f"change it where it is used, then `memdir edit {memory.header.name}`; history keeps the old text"
            yield DoctorFinding("secret", memory.header.file, f"looks like {at.what} ({at.rule})", fix, at.line)


def _check_uses(store: FileStore, memories: Sequence[StoredMemory]) -> Findings:
    try:
        recalls = store.recalls(limit=LEDGER_ROWS)
    except MemdirError:
        return
    # Where the ids of conversations are not known, days are counted.
    sessions = {recall.session or f"{recall.at:%Y-%m-%d}" for recall in recalls}
    if len(sessions) < UNUSED_SESSIONS or recalls[-1].at > store.clock() - timedelta(days=UNUSED_DAYS):
        return
    used = {recall.name for recall in recalls}
    never = [at.header for at in memories if at.header.name not in used]
    if names := sorted(at.name for at in never if at.modified < recalls[-1].at and not at.pinned and not at.problem):
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        what = "1 memory" if len(names) == 1 else f"{len(names):,} memories"
        message = (
            f"{what} never recalled since {recalls[-1].at.astimezone():%Y-%m-%d}: {', '.join(names[:_SHOWN])}{more}"
        )
        yield DoctorFinding(
            "never_recalled", "ledger", message, "a better description helps; `memdir forget NAME` if not"
        )
