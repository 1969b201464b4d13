"""Dreams: consolidate memories across sessions as one change that can be undone.

    store --plan--> patch set --save--> <state>/dreams/ID.json --apply--> one change, inbox items, and a proof

A dream that is cancelled or loses its lock changes nothing, not even the time of the last dream. If the model fails, the
patches of the built-in patterns are still applied, and the next dream asks the model again. Every run adds a line without
memory names to the run log.

Preconditions decide whether a dream is due, the cheapest first: settings, the hours since the last dream (one `stat`), the
number of sessions since, and the lock. Sessions are this project's other conversations since the last dream. Their number is
cached in `<state>/dream-scan.json`, which is written before the scan, so that there is at most one scan in ten minutes even
after failures or with many processes. A dream that the user starts skips the checks for hours and sessions.
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path

from memdir.conversation.transcripts import list_transcripts
from memdir.dream import records
from memdir.dream.by_model import NO_CONTEXT, DreamContext
from memdir.dream.lock import DreamHolder, DreamLock, find_holder, hold_dream, read_last
from memdir.dream.plan import ApplyResult, apply_dream, mark_applied_logs, plan_dream, reject_patches
from memdir.dream.plan import is_rejected as is_rejected
from memdir.dream.records import DreamPhase, DreamProgress, PatchSet
from memdir.dream.records import ProgressStep as ProgressStep
from memdir.errors import DiskError, LockedError, MemdirError, NotFoundError, StoppedError
from memdir.files import write_private
from memdir.format.frontmatter import read_time
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_FAILURES, DREAM_HOURS, DREAM_SCAN_KEPT, DREAM_SCAN_MINUTES, DREAM_SESSIONS
from memdir.project.paths import list_folders
from memdir.project.settings import Environment
from memdir.records import Model, SkipReason, Usage
from memdir.store.contract import StoreBase, Workplace, utc_now
from memdir.store.open import Project
from memdir.store.state import SESSIONS_FOLDER, find_link, make_leaf, note_run, read_runs, read_table

SCAN = "dream-scan.json"
TASK = "dream"
_SCAN_BYTES = 65_536
_RECORD = ".json"
_Row = dict[str, object]


class DreamSkip(SkipReason):
    OFF = "off", "dreaming is switched off here"
    PAUSED = "paused", "memory is paused"
    TOO_SOON = "too_soon", "the last dream was too recent; see the setting dream_hours"
    SCANNED_LATELY = (
        "scanned_lately",
        "there were too few sessions at the last count; see the setting dream_scan_minutes",
    )
    TOO_FEW_SESSIONS = (
        "too_few_sessions",
        "there were too few sessions since the last dream; see the setting dream_sessions",
    )
    LOCKED = "locked", "another dream is in progress"
    NOTHING_TO_DO = "nothing_to_do", "there is nothing to tidy"
    FAILED = "failed", "the model failed, and there was nothing to tidy without it; the next dream tries again"
    CANCELLED = "cancelled", "it was cancelled and changed nothing"


@dataclass(frozen=True, slots=True)
class DreamOptions:
    on: bool = True
    paused: bool = False
    hours: float = DREAM_HOURS
    sessions: int = DREAM_SESSIONS
    scan_minutes: float = DREAM_SCAN_MINUTES


_DEFAULTS = DreamOptions()


@dataclass(frozen=True, slots=True)
class DreamDue:
    """Whether a dream is due. `sessions` is None if sessions were not counted; `next_at` is when to check again."""

    skip: DreamSkip | None = None
    last: datetime | None = None
    sessions: int | None = None
    next_at: datetime | None = None
    holder: DreamHolder | None = None

    @property
    def is_due(self) -> bool:
        return self.skip is None


@dataclass(frozen=True, slots=True)
class DreamResult:
    """The result of a dream. `skipped` is the reason why nothing was changed, if any."""

    patches: PatchSet | None = None
    applied: ApplyResult | None = None
    skipped: DreamSkip | None = None
    failures: int = 0

    @property
    def text(self) -> str:
        """Return one line on merged, removed, added and changed memories."""
        dropped = set(self.applied.dropped) if self.applied else set()
        patches = self.patches.patches if self.patches else ()
        return records.summarize(patch for patch in patches if dropped.isdisjoint(records.list_changed(patch)))


def dream(
    store: StoreBase,
    *,
    state: Path | None = None,
    model: Model | None = None,
    now: datetime | None = None,
    context: DreamContext = NO_CONTEXT,
    due: DreamDue | None = None,
    insist: bool = False,
    on_progress: records.OnProgress = records.say_nothing,
    cancelled: records.Cancelled = records.never_cancelled,
) -> DreamResult:
    """Tidy a memory directory with built-in patterns and, if there is one, a model. `memdir undo` reverts it.

    `state` is the folder for locks and records of a store that has none. `due` is the result of the preconditions;
    without it they are not checked. Raises LockedError if another dream is running, and StoppedError if cancelled; both
    change nothing. If the model fails, `patches.error` is the reason, and only patches from patterns are applied.
    A model that failed in three dreams in a row is not asked, unless `insist` is set.
    """
    started_at = now or utc_now()
    if due is not None and due.skip is not None:
        return DreamResult(skipped=due.skip)
    place = store.open_workplace(state)
    if not place.root.is_dir():
        return DreamResult(skipped=DreamSkip.NOTHING_TO_DO)
    progress = DreamProgress(on_progress, cancelled)
    with _log_run(place, progress, started_at) as row, hold_dream(place.root, place.state, now=started_at) as lock:
        failures = 0 if model is None or insist else count_failures(place.state)
        failures = failures if failures >= DREAM_FAILURES else 0
        patches = _plan_and_store(store, place, progress, None if failures else model, started_at, context, row)
        progress.enter(DreamPhase.APPLY)
        return replace(_apply(store, patches, lock, started_at, row), failures=failures)


def preview_dream(
    store: StoreBase,
    *,
    state: Path | None = None,
    model: Model | None = None,
    now: datetime | None = None,
    context: DreamContext = NO_CONTEXT,
    on_progress: records.OnProgress = records.say_nothing,
    cancelled: records.Cancelled = records.never_cancelled,
) -> PatchSet:
    """Plan a dream and store it as a patch set, which `apply_preview` can apply. This does not count as a dream."""
    started_at = now or utc_now()
    place = store.open_workplace(state)
    if not place.root.is_dir():
        return PatchSet(records.make_id(started_at), started_at, records.RULES)
    progress = DreamProgress(on_progress, cancelled)
    with _log_run(place, progress, started_at) as row, hold_dream(place.root, place.state, now=started_at) as lock:
        lock.do_not_count()
        row["preview"] = True
        return _plan_and_store(store, place, progress, model, started_at, context, row)


def apply_preview(
    store: StoreBase,
    id: str,
    *,
    state: Path | None = None,
    accept: Collection[int] | None = None,
    now: datetime | None = None,
    on_progress: records.OnProgress = records.say_nothing,
) -> DreamResult:
    """Apply a stored patch set. With `accept`, apply only those patches and reject the others."""
    started_at = now or utc_now()
    place = store.open_workplace(state)
    patches = records.load(place.state, id)
    if accept is not None and not store.has_mark(patches.mark):
        numbered = list(enumerate(patches.patches))
        reject_patches(store, [patch for number, patch in numbered if number not in accept], started_at)
        patches = replace(patches, patches=tuple(patch for number, patch in numbered if number in accept))
    progress = DreamProgress(on_progress)
    with _log_run(place, progress, started_at) as row, hold_dream(place.root, place.state, now=started_at) as lock:
        row["by"] = patches.by
        progress.enter(DreamPhase.APPLY)
        return _apply(store, patches, lock, started_at, row)


def find_dream_context(project: Project) -> DreamContext:
    """Return the files and transcripts that a dream in this project may read."""
    root = project.places.root.path
    folders = list_folders(project.places, project.environment.claude_home, Path(root))
    return DreamContext(root, folders, project.settings.half_lives())


def count_failures(state: Path) -> int:
    """Return how many dreams in a row failed because of the model. Locked and cancelled dreams do not count."""
    rows = (row for row in read_runs(state) if row.get("task") == TASK and not row.get("preview"))
    attempts = (row for row in rows if row.get("skipped") not in ("locked", "cancelled"))
    return sum(1 for _ in takewhile(lambda row: row.get("model_failed"), attempts))


def _plan_and_store(
    store: StoreBase,
    place: Workplace,
    progress: DreamProgress,
    model: Model | None,
    now: datetime,
    context: DreamContext,
    row: _Row,
) -> PatchSet:
    row["by"] = records.RULES if model is None else records.MODEL
    mark_applied_logs(store, place.state)
    patches = plan_dream(store, model=model, now=now, context=context, progress=progress)
    row |= {"patches": len(patches.patches), "proposals": len(patches.proposals), "refused": patches.refused}
    if patches.error:
        row |= {"error": patches.error.partition(": ")[0], "model_failed": True}
    if not patches.is_empty or patches.logs:
        records.keep_set(place.state, patches)
    return patches


def _apply(store: StoreBase, patches: PatchSet, lock: DreamLock, now: datetime, row: _Row) -> DreamResult:
    applied = apply_dream(store, patches, lock, now)
    if applied.repeated or patches.error:
        lock.do_not_count()
    proof = applied.proof
    row |= {
        "change": applied.change,
        "changed": len(applied.changed),
        "dropped": len(applied.dropped),
        "waiting": len(applied.waiting),
        "sentences": {"removed": proof.removed, "elsewhere": proof.elsewhere, "in_history": proof.in_history},
    }
    if proof.missing:
        raise NotFoundError(
            f"{len(proof.missing)} sentences that this dream removed are not in the history",
            hint=f"`memdir undo {applied.change}` restores the files, `memdir doctor` checks the store",
        )
    nothing = DreamSkip.FAILED if patches.error else DreamSkip.NOTHING_TO_DO
    skipped = nothing if applied.change is None and not applied.waiting else None
    row["skipped"] = skipped
    return DreamResult(patches, applied, skipped)


@contextmanager
def _log_run(place: Workplace, progress: DreamProgress, now: datetime) -> Iterator[_Row]:
    """Yield a row for the caller to fill in, and append it to the run log even on errors."""
    row: _Row = {"at": now.isoformat(timespec="seconds"), "task": TASK, "skipped": None, "error": ""}
    try:
        yield row
    except LockedError as error:
        row |= {"skipped": DreamSkip.LOCKED, "error": str(error)}
        raise
    except (StoppedError, KeyboardInterrupt):
        row |= {"skipped": DreamSkip.CANCELLED, "error": "cancelled"}
        raise
    except MemdirError as error:
        row |= {"skipped": DreamSkip.FAILED, "error": type(error).__name__}
        raise
    finally:
        usage, turns = progress.now.usage, progress.now.turns
        tokens = {"fresh": usage.fresh, "cached": usage.cached, "stored": usage.stored, "output": usage.output}
        row |= {"requests": turns, "calls": progress.now.calls, "dollars": usage.dollars}
        note_run(place.state, {**row, "tokens": tokens if turns or usage != Usage() else None})


def find_due(project: Project, *, now: datetime, session: str = "") -> DreamDue:
    """Return whether a dream is due in this project, not counting the current `session`."""
    settings, environment, root = project.settings, project.environment, project.places.root.path
    options = DreamOptions(
        on=project.places.switch.on and settings.flag("dream"),
        paused=settings.flag("paused"),
        hours=settings.number("dream_hours"),
        sessions=int(settings.number("dream_sessions")),
        scan_minutes=settings.number("dream_scan_minutes"),
    )
    return find_due_in(project.private, now=now, options=options, environment=environment, root=root, session=session)


def find_due_in(
    place: Workplace,
    *,
    now: datetime,
    options: DreamOptions = _DEFAULTS,
    environment: Environment | None = None,
    root: Path | None = None,
    session: str = "",
) -> DreamDue:
    """Return whether a dream is due. Without `environment` and `root`, only memdir's own session records count."""
    if not options.on or options.paused:
        return DreamDue(DreamSkip.PAUSED if options.on else DreamSkip.OFF)
    wait = timedelta(hours=options.hours)
    recorded = read_last(place.root)
    # A time far in the future comes from a wrong clock, which must not stop dreams for good.
    last = None if recorded is None or recorded - now > wait else recorded
    if last is not None and now - last < wait:
        return DreamDue(DreamSkip.TOO_SOON, last, next_at=last + wait)
    if not place.root.is_dir():
        return DreamDue(DreamSkip.NOTHING_TO_DO, last)
    due = DreamDue(last=last)
    if options.sessions > 0:
        due = _count_sessions(place.state, now, options, last, environment, root, session)
    if due.skip is None and (holder := find_holder(place.root, now=now)):
        return DreamDue(DreamSkip.LOCKED, last, due.sessions, holder=holder)
    return due


def _count_sessions(
    state: Path,
    now: datetime,
    options: DreamOptions,
    last: datetime | None,
    environment: Environment | None,
    root: Path | None,
    session: str,
) -> DreamDue:
    wait, table = timedelta(minutes=options.scan_minutes), read_table(state, SCAN, _SCAN_BYTES)
    scanned, before = (read_time(text) if isinstance(text := table.get(key), str) else None for key in ("at", "last"))
    known = table.get("ids")
    if scanned is not None and isinstance(known, list) and before == last and abs(now - scanned) < wait:
        too_few, ids, again = DreamSkip.SCANNED_LATELY, {id for id in known if isinstance(id, str)}, scanned + wait
    else:
        _cache_scan(state, now, last, ())
        files = list_transcripts(environment, root, since=last) if environment and root else ()
        active = {make_leaf(file.session) for file in files if last is None or (file.ended or file.modified) > last}
        ids = {*list_sessions(state, last), *active}
        too_few, again = DreamSkip.TOO_FEW_SESSIONS, now + wait
        _cache_scan(state, now, last, ids)
    count = len(ids - {make_leaf(session)} if session else ids)
    return DreamDue(None, last, count) if count >= options.sessions else DreamDue(too_few, last, count, again)


def list_sessions(state: Path, since: datetime | None) -> list[str]:
    """Return the names of the session records modified after `since`."""
    folder, after = state / SESSIONS_FOLDER, since.timestamp() if since else None
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


def _cache_scan(state: Path, scanned_at: datetime, last: datetime | None, ids: Iterable[str]) -> None:
    """Cache the session count. Errors are ignored, because the next process then counts again."""
    table = {"at": scanned_at.isoformat(), "last": last and last.isoformat(), "ids": sorted(ids)[:DREAM_SCAN_KEPT]}
    if not state.is_symlink():
        with suppress(DiskError):
            write_private(state / SCAN, json.dumps(table).encode("ascii") + b"\n")
