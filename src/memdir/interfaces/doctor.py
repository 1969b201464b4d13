"""Find problems in a memory directory and its surroundings; each finding includes a fix.

`examine` checks one directory: files, index, history, texts. `examine_background` checks hooks, the queue and sync,
`check_settings` the settings, `examine_project` all of it. `repair` rebuilds derived state (index lines, the files that
history knows) and never changes a memory.

Stale claims are those that `verify` has recorded. Secrets are reported by rule and line, never by value.
"""

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from memdir.conversation.transcripts import TranscriptInfo, list_transcripts
from memdir.dream.lock import FILE as DREAM_LOCK
from memdir.dream.lock import find_holder
from memdir.errors import MemdirError, SettingsError
from memdir.files import INDEX_COPY, find_refusal
from memdir.format.age import find_link_target, find_links, make_targets
from memdir.format.frontmatter import make_slug
from memdir.format.index import INDEX_FILE, find_long_lines, parse_index
from memdir.format.rules import OWN_SCOPES, find_rules
from memdir.frozen import dataclass
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES, RULES
from memdir.operations.write import WriteContext, carry_out
from memdir.project.hosts import InstalledHost, find_installed
from memdir.project.paths import ProjectPaths
from memdir.project.settings import PROJECT_FILE, Settings
from memdir.recall.triggers import read_frequent
from memdir.records import TEAM_FOLDER, Header, Kind, Origin, StoredMemory
from memdir.store.facts import find_stored_secrets
from memdir.store.files import FileStore
from memdir.store.history import FILE as HISTORY_FILE
from memdir.store.open import Project
from memdir.store.plan import find_unfit, index_path, is_index_path, is_shared, plan_dead_pointers, plan_pointers
from memdir.store.secrets import FILE as SECRETS_FILE
from memdir.store.secrets import read_own_rules, render_advice
from memdir.store.sessions import read_ended, read_queue
from memdir.store.state import (
    ENDED_FOLDER,
    LATE,
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

# Every kind of finding, in display order. Errors and warnings mean that something does not work.
# docs/doctor.md explains each. `dead_setting` and `never_recalled` are not reported any more; JSON counts them as 0.
_LEVELS = (
    ("error", "broken_frontmatter"),
    ("warning", "unknown_type bad_name special_file oversize_file duplicate dead_pointer orphan oversize_index"),
    ("error", "slug_collision unreadable_settings"),
    ("warning", "setting"),
    ("error", "state_file history"),
    ("warning", "out_of_step secret about_person dream_lock queue team_sync own_sync hooks_silent hook_problem stale"),
    ("advice", "partly_stale dead_setting never_recalled wide_trigger many_rules long_line unresolved_link"),
)
LEVELS = {kind: level for level, kinds in _LEVELS for kind in kinds.split()}
_ORDER = {kind: number for number, kind in enumerate(LEVELS)}
STUCK = timedelta(days=1)  # A turn queued for longer is reported.
RECENT = timedelta(days=7)  # Older problems are not reported.
SLACK = timedelta(minutes=10)  # Allows for installing during a session, and for clocks that differ a little.
SILENT = timedelta(days=7)  # A remote that is unreachable for longer is a problem.
_SHOWN = 5  # The limit for names or files in a list.
_CHARS = 200
_ORIGIN = Origin(who="doctor", why="derived state repaired")


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A problem with its kind, file, message and remedy. `--fix` repairs it if it is `fixable`."""

    kind: str
    where: str
    message: str
    fix: str
    line: int | None = None
    fixable: bool = False

    @property
    def level(self) -> str:
        return LEVELS[self.kind]


Findings = Iterator[DoctorFinding]


def examine(store: FileStore, *, skip_index: bool = False) -> tuple[DoctorFinding, ...]:
    """Return the problems of one directory in the order of `LEVELS`."""
    headers = store.scan()
    memories = list(store.read_many(header.name for header in headers).values())
    return _sort_findings(
        _check_entries(store, headers),
        _check_state(store.state),
        _check_headers(store, headers),
        _check_duplicates(memories),
        _check_links(memories),
        _check_history(store, memories),
        _check_dream(store),
        _check_verdicts(store, memories),
        _check_secrets(store, memories),
        _check_rules(headers),
        *(() if skip_index else (_check_index(store, headers, ""), _check_index(store, headers, TEAM_FOLDER))),
    )


def examine_background(
    state: Path, *, now: datetime, installed: Sequence[InstalledHost] = (), ran: Sequence[TranscriptInfo] = ()
) -> tuple[DoctorFinding, ...]:
    """Return problems with a project's hooks, worker and sync; `state` is the state folder of its private memory."""
    return _sort_findings(
        _check_hooks(state, installed, ran, now),
        _check_problems(state, now),
        _check_triggers(state),
        _check_queue(state, now),
        _check_team_sync(state, now),
        _check_own_sync(state, now),
    )


def _sort_findings(*checks: Findings) -> tuple[DoctorFinding, ...]:
    return tuple(sorted(chain(*checks), key=lambda finding: (_ORDER[finding.kind], finding.where, finding.line or 0)))


def examine_project(
    project: Project, stores: Sequence[FileStore], *, is_wide: bool = True
) -> list[tuple[str, DoctorFinding]]:
    """Return each problem with its scope: `settings`, the scope of a store or, if `is_wide`, `background`."""
    environment, now = project.environment, project.now()
    findings = [("settings", finding) for finding in check_settings(project.settings, project.places)]
    try:
        read_own_rules(environment.config_file.with_name(SECRETS_FILE))
    except SettingsError as error:
        findings.append(("settings", DoctorFinding("setting", SECRETS_FILE, str(error), error.hint or "fix it")))
    skip_index = project.settings.flag("skip_index")
    findings += [(store.scope.value, finding) for store in stores for finding in examine(store, skip_index=skip_index)]
    if not is_wide:
        return findings
    # Hooks record no events while memory is off, and sessions cannot be matched if each worktree has its own memory.
    is_known = project.places.switch.on and project.settings.text("worktree") == "shared"
    installed = find_installed(environment, project.places.root.path) if is_known else ()
    since = min((installation.since for installation in installed), default=now)
    past = list_transcripts(environment, project.places.root.path, since=since) if installed else ()
    background = examine_background(project.private.state, now=now, installed=installed, ran=past)
    # Errors that occur before a hook knows its project are recorded in the user's state folder.
    background += examine_background(environment.state_home, now=now)
    return [*findings, *(("background", finding) for finding in background)]


def repair_project(project: Project, stores: Sequence[FileStore], *, is_wide: bool = True) -> int:
    """Rebuild derived state of the stores and, if `is_wide`, mark hook problems as seen; return the number fixed."""
    project.check_on()
    skip_index, fixed = project.settings.flag("skip_index"), 0
    for store in stores:
        fixed += repair(store, [finding for finding in examine(store, skip_index=skip_index) if finding.fixable])
    for state in (project.private.state, project.environment.state_home) if is_wide else ():
        problems = [
            finding for finding in examine_background(state, now=project.now()) if finding.kind == "hook_problem"
        ]
        if problems:
            clear_problems(state, until=project.now())
        fixed += len(problems)
    return fixed


def count_kinds(findings: Sequence[DoctorFinding]) -> dict[str, int]:
    """Return the number of findings of each kind, including zeros."""
    return dict.fromkeys(LEVELS, 0) | Counter(finding.kind for finding in findings)


def repair(store: FileStore, findings: Sequence[DoctorFinding]) -> int:
    """Rebuild derived state, each step as an undoable change; return the number of findings fixed."""
    orphans = [
        finding.where.removesuffix(".md") for finding in findings if finding.kind == "orphan" and finding.fixable
    ]
    dead = [finding.message.split("`")[1].removesuffix(".md") for finding in findings if finding.kind == "dead_pointer"]
    unseen = [finding for finding in findings if finding.kind == "out_of_step"]
    rebuilt = sum(finding.kind == "history" for finding in findings)
    if rebuilt:
        store.rebuild_history()
    if unseen:
        store.note_outside()
    context = WriteContext(_ORIGIN, store.clock())
    if orphans:
        carry_out(store, lambda view: plan_pointers(view, orphans), orphans, context, verb="index")
    if dead:
        carry_out(store, lambda view: plan_dead_pointers(view, dead), dead, context, verb="index")
    return len(orphans) + len(dead) + len(unseen) + rebuilt


def check_settings(settings: Settings, places: ProjectPaths) -> Findings:
    """Yield settings that are unknown or ignored."""
    for key in settings.unknown:
        yield DoctorFinding("setting", "config file", f"unknown setting {key}", f"`memdir config unset {key}`")
    for key, reason in settings.ignored.items():
        yield DoctorFinding("setting", PROJECT_FILE, f"{key} is ignored: {reason}", "remove it from the file")
    for note in places.notes:
        if note != places.root.note:
            yield DoctorFinding("setting", "places", note, "`memdir where` shows each rule")


def _check_hooks(
    state: Path, installed: Sequence[InstalledHost], transcripts: Sequence[TranscriptInfo], now: datetime
) -> Findings:
    """Yield installed hooks that were not called in the last two finished conversations."""
    # One conversation is not enough: an interrupted turn sends no end event, and a host can be started without hooks.
    arrived = {(row.host, row.event): row.at for row in read_events(state)}
    for host in dict.fromkeys(row.host for row in installed):
        since = min(row.since for row in installed if row.host == host)
        events = dict.fromkeys(event for row in installed if row.host == host for event in row.events)
        finished = [talk for talk in transcripts if talk.format == host and now - (talk.ended or talk.modified) > SLACK]
        starts = sorted(talk.started for talk in finished if talk.started and talk.started > since + SLACK)
        if len(starts) < 2:
            continue
        start = starts[-2]
        active = [event for event in events if (when := arrived.get((host, event))) and when > start - SLACK]
        if silent := [event for event in events if event not in active]:
            what = f"no {', '.join(silent)} hook" if active else "no hook"
            message = f"{what} from {host} since {_show_time(start)}, in at least two sessions"
            fix = f"run `memdir install {host}` again; check that its program has not moved and hooks are enabled"
            yield DoctorFinding("hooks_silent", host, message, fix)


def _check_problems(state: Path, now: datetime) -> Findings:
    for problem in read_problems(state, since=now - RECENT):
        times = f", {problem.times} times" if problem.times > 1 else ""
        message = f"{problem.host}: {problem.text} ({_show_time(problem.at)}{times})"
        fix = "fix the cause; `memdir doctor --fix` marks it as seen"
        if LATE in problem.text:
            fix = "`memdir config set hook_patience 3` gives hooks more time; `memdir extract` learns from turns that already ended"
        yield DoctorFinding("hook_problem", PROBLEMS, message, fix, fixable=True)


def _check_triggers(state: Path) -> Findings:
    for name, pattern in sorted(read_frequent(state)):
        message = (
            f"its trigger {shorten(one_line(pattern), _CHARS)} fires in more than one of 20 turns, and counts less"
        )
        yield DoctorFinding("wide_trigger", f"{name}.md", message, "make `when` in the memory more specific")


def _check_queue(state: Path, now: datetime) -> Findings:
    times = []
    for turn in read_queue(state):
        with suppress(OverflowError, ValueError, OSError):
            times.append(datetime.fromtimestamp(int(turn.path.name.partition("-")[0]) / 1e9, UTC))
    if ended := read_ended(state):
        turns = "1 turn is" if len(ended) == 1 else f"{len(ended)} turns are"
        message = f"{turns} not queued yet: the hook was killed or ran out of time"
        fix = "`memdir extract` learns from them in their projects, and so does the next session"
        yield DoctorFinding("queue", ENDED_FOLDER, message, fix)
    if stuck := [time for time in times if time < now - STUCK]:
        turns = "1 turn is" if len(stuck) == 1 else f"{len(stuck)} turns are"
        message = f"{turns} still queued, since {_show_time(min(stuck))}"
        yield DoctorFinding("queue", QUEUE_FOLDER, message, "`memdir extract` learns from them and reports errors")


def _show_time(time: datetime) -> str:
    return f"{time.astimezone():%Y-%m-%d %H:%M}"


def _check_team_sync(state: Path, now: datetime) -> Findings:
    return iter(()) if read_membership(state) is None else _check_sync(read_sync_record(state), "team ", now)


def _check_own_sync(home: Path, now: datetime) -> Findings:
    """Check the sync between the user's machines. Its records are in the user's state folder `home`."""
    folder = home / OWN_FOLDER
    return (
        _check_sync(read_sync_record(folder, OWN_RECORD), "", now) if os.path.isfile(folder / OWN_SETUP) else iter(())
    )


def _check_sync(record: SyncRecord, prefix: str, now: datetime) -> Findings:
    kind, file = ("team_sync", RECORD) if prefix else ("own_sync", OWN_RECORD)
    verbs = ("`memdir team sync`", "`memdir team status`") if prefix else ("`memdir sync`", "`memdir sync status`")
    good, since = record.last_good, f" since {record.last_good.astimezone():%Y-%m-%d}" if record.last_good else ""
    messages: dict[str, str] = {
        SyncOutcome.DENIED: "the remote refuses changes from this machine",
        SyncOutcome.FAILED: "the last sync failed",
        SyncOutcome.OFFLINE: f"the remote has not answered{since}" if good is None or now - good > SILENT else "",
    }
    if message := messages.get(record.outcome, ""):
        why = f": {shorten(one_line(record.error), _CHARS)}" if record.error else ""
        yield DoctorFinding(kind, file, message + why, f"{verbs[0]} tries again, {verbs[1]} shows details")
    theirs = "ask its author to fix it, or remove it from the branch with git"
    ours = f"fix it here, then {verbs[0]}"
    for reasons, what, fix in ((record.refused, "not imported", theirs), (record.withheld, "not sent", ours)):
        for path, why in sorted(reasons.items())[:_SHOWN]:
            message = f"{what}: {shorten(one_line(why), _CHARS)}"
            yield DoctorFinding(kind, shorten(one_line(path), _CHARS), message, fix)
        if len(reasons) > _SHOWN:
            message = f"{len(reasons) - _SHOWN} more files were {what}"
            yield DoctorFinding(kind, file, message, verbs[1])


def _check_entries(store: FileStore, headers: Sequence[Header]) -> Findings:
    listed = {header.file for header in headers}
    for file in store.list_entries():
        stem, path = file.path.removesuffix(".md"), shlex.quote(str(store.root / file.path))
        if file.refusal:
            kind, fix = "special_file", f"replace it with a regular file, or move it away: `mv {path} /tmp/`"
            if "larger" in file.refusal:
                kind, fix = "oversize_file", "split it or move it elsewhere"
            if file.refusal == INDEX_COPY:
                kind, fix = "bad_name", f"copy missing lines to {INDEX_FILE}, then delete it: `rm {path}`"
            yield DoctorFinding(kind, file.path, f"not read: {file.refusal}", fix)
        elif file.path not in listed and not os.access(store.root / file.path, os.R_OK):
            fix = f"check its owner: `ls -l {path}`; `sudo chown $(id -u) {path}` makes it yours"
            yield DoctorFinding("special_file", file.path, "not read: no permission", fix)
        elif reason := next((problem for problem in map(find_refusal, stem.split("/")) if problem), ""):
            yield DoctorFinding(
                "bad_name", file.path, f"can be read but not written: {reason}", _suggest_rename(store, file.path)
            )


def _suggest_rename(store: FileStore, path: str) -> str:
    folder, _, leaf = path.removesuffix(".md").rpartition("/")
    plain = make_slug(leaf) if make_slug(leaf) != leaf else "another-name"
    old, new = store.root / path, store.root / folder / f"{plain}.md"
    if os.path.lexists(new):
        return "rename the file"
    return f"rename the file: `mv {shlex.quote(str(old))} {shlex.quote(str(new))}`"


def _check_state(state: Path) -> Findings:
    """Yield problems with memdir's own files, some of which block saving."""
    for path, reason in find_bad_files(state):
        quoted = shlex.quote(str(path))
        fix = f"move it away: `mv {quoted} {shlex.quote(f'{path}.bad')}`; memdir creates a new one"
        if path.name == HISTORY_FILE:
            fix += ", memories are not affected"
        if reason == NO_PERMISSION:
            fix = f"`sudo chown -R $(id -u) {quoted}` makes it yours again, or move it away"
        yield DoctorFinding("state_file", _show_path(path, state), f"cannot be used: {reason}", fix)


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
            message = "about the user, but others can read it"
            yield DoctorFinding("about_person", header.file, message, fix)


def _is_about_person(store: FileStore, header: Header) -> bool:  # memdir refuses this, but users can edit the files.
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
            fix = f"`memdir forget {shlex.quote(other)}` if it adds nothing"
            yield DoctorFinding("duplicate", f"{other}.md", f"{what} {first}.md", fix)


def _check_links(memories: Sequence[StoredMemory]) -> Findings:
    targets = make_targets([memory.header for memory in memories])
    for memory in memories:
        for link, line in find_links(memory.text):
            if find_link_target(link, targets) is None:
                message = f"[[{shorten(one_line(link), 60)}]] does not match any memory here"
                yield DoctorFinding("unresolved_link", memory.header.file, message, "correct it, or leave it", line)


def _check_index(store: FileStore, headers: Sequence[Header], folder: str) -> Findings:
    prefix, fix = f"{folder}/" if folder else "", "`memdir doctor --fix`"
    file = f"{prefix}{INDEX_FILE}"
    try:
        store.read_bytes(file)
    except MemdirError as error:
        # Without the lines of the index, orphans cannot be found.
        move = f"move it away: `mv {shlex.quote(str(store.root / file))} /tmp/`, then {fix} creates a new one"
        yield DoctorFinding("special_file", file, f"not read, sessions load no index: {error}", move)
        return
    text = store.index(folder)
    lines = parse_index(text)
    mine = [header for header in headers if index_path(header.name)[0] == file]
    existing = {fold(header.name) for header in mine}
    pointers = [line for line in lines if line.is_pointer]
    lines_seen: Counter[str] = Counter()
    for line in pointers:
        name, number = prefix + line.name, line.number + 1
        lines_seen[line.text.strip()] += 1
        if fold(name) not in existing:
            message = f"points to `{name}.md`, which does not exist"
            yield DoctorFinding("dead_pointer", file, message, fix, number, fixable=True)
        elif lines_seen[line.text.strip()] == 2:
            yield DoctorFinding("duplicate", file, f"duplicate line for {name}", "remove one", number)
    targets = {fold(prefix + line.name) for line in pointers}
    for header in mine:
        # An invalid name may not be readable in a line either; it is reported as bad_name.
        is_odd = any(map(find_refusal, header.name.split("/")))
        if fold(header.name) in targets or is_odd or _is_about_person(store, header):
            continue
        if why := find_unfit(header, store.rules):
            message = f"cannot be listed in {file}, which others read: {why}"
            yield DoctorFinding("orphan", header.file, message, f"`memdir demote {header.name}`, or `memdir edit` it")
        else:
            yield DoctorFinding("orphan", header.file, f"not listed in {file}", fix, fixable=True)
    size = len(text.encode("utf-8", "surrogateescape"))
    if len(lines) > INDEX_LINES or size > INDEX_BYTES:
        message = f"{len(lines)} lines and {size:,} bytes; {INDEX_LINES} lines and {INDEX_BYTES:,} bytes are loaded"
        yield DoctorFinding("oversize_index", file, message, "shorten lines and move detail into topic files")
    for line in find_long_lines(text):
        message = f"{len(line.text.rstrip())} characters; use at most {INDEX_LINE_CHARS} per index line"
        yield DoctorFinding("long_line", file, message, "move the detail into its topic file", line.number + 1)


def _check_history(store: FileStore, memories: Sequence[StoredMemory]) -> Findings:
    """Yield an unreadable history, and unrecorded edits, which `undo` and `restore` cannot handle."""
    try:
        store.check_history()
        recorded = store.read_digests()
    except MemdirError as error:
        where, is_damaged = _show_path(store.state / HISTORY_FILE, store.state), "rebuilds it" in error.hint
        fix = error.hint or "move it away; memories are not affected"
        yield DoctorFinding("history", where, str(error), fix, fixable=is_damaged)
        return
    try:
        store.check_saving()
    except MemdirError as error:
        yield DoctorFinding("state_file", _show_path(store.state, store.state), f"saving fails: {error}", error.hint)
    digests = {memory.header.file: memory.digest for memory in memories}
    for path, digest in recorded.items():
        is_gone = path not in digests and not is_index_path(path) and not os.path.exists(store.root / path)
        if is_gone or digests.get(path, digest) != digest:
            message = f"{'deleted' if is_gone else 'changed'} by another program and not recorded in history"
            yield DoctorFinding("out_of_step", path, message, "`memdir doctor --fix` records it", fixable=True)


def _check_dream(store: FileStore) -> Findings:
    holder = find_holder(store.root, now=store.clock())
    if holder is not None and holder.is_late:
        message = f"process {holder.pid} has been dreaming since {_show_time(holder.since)} and blocks other dreams"
        yield DoctorFinding("dream_lock", DREAM_LOCK, message, "check this process; the lock ends with it")


def _check_verdicts(store: FileStore, memories: Sequence[StoredMemory]) -> Findings:
    known = find_verdicts(store, {memory.header.name: memory.digest for memory in memories})
    for name, verdict in known.items():
        if verdict.state in (VerifyState.STALE, VerifyState.PARTLY):
            kind = "stale" if verdict.state is VerifyState.STALE else "partly_stale"
            fix = f"`memdir edit {name}`; `memdir verify {name}` checks again"
            line = min((check.claim.line for check in verdict.stale), default=None)
            yield DoctorFinding(kind, f"{name}.md", render_caveat(verdict).rstrip("."), fix, line)


def _check_secrets(store: FileStore, memories: Sequence[StoredMemory]) -> Findings:
    for memory in memories:
        for secret in find_stored_secrets(store, memory.text):
            message, fix = f"looks like {secret.what} ({secret.rule})", render_advice(memory.header.name)
            yield DoctorFinding("secret", memory.header.file, message, fix, secret.line)


def _check_rules(headers: Sequence[Header]) -> Findings:
    written = [header for header in headers if header.when.always and header.scope in OWN_SCOPES]
    if len(written) > RULES:
        left = set(written) - set(find_rules(written))
        names = ", ".join(sorted(header.name for header in left)[:_SHOWN])
        message = f"{len(written)} standing rules; conversations have {RULES}, without {names}"
        yield DoctorFinding(
            "many_rules", "rules", message, "`memdir rule off NAME`, or give one --when-command instead"
        )
