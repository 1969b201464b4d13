"""Consolidation across sessions: gates, lock, a plan by rules and model on a staged copy, one change, one undo.

    store --plan--> patch set --keep--> <state>/dreams/ID.json --apply--> one change, the inbox, a proof

A dream that fails, is cancelled or loses its lock has changed nothing, and the time of the last dream is what it was.
Every run leaves a line in the record of runs, which names no memory.

The rooms: progress; sets (the record and its JSON); material, hands and by_model (what a model sees, may do, and how it
is asked); drifting (what may no longer hold); losses, believing and weighing (what may be kept of it); overlay;
planning; applying.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from memdir.conversation.transcripts import list_folders, list_transcripts
from memdir.dream import records
from memdir.dream.by_model import NO_CONTEXT, DreamContext
from memdir.dream.lock import DreamHolder, DreamLock, find_holder, hold_dream, read_last
from memdir.dream.plan import ApplyResult, RemovalProof, apply_dream, mark_applied_logs, plan, plan_dream
from memdir.dream.records import (
    Cancelled,
    DreamChecks,
    DreamPhase,
    DreamProgress,
    OnProgress,
    PatchSet,
    ProgressStep,
    go_on,
    say_nothing,
)
from memdir.errors import BudgetError, DiskError, LockedError, MemdirError, ModelError, NotFoundError, StoppedError
from memdir.files import read_small, write_private
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_FAILURES, DREAM_HOURS, DREAM_SCAN_KEPT, DREAM_SCAN_MINUTES, DREAM_SESSIONS
from memdir.models.agent import note_run, read_runs
from memdir.models.connection import add_usage
from memdir.project.settings import Environment
from memdir.recall.freshness import read_half_lives
from memdir.records import Model, Usage
from memdir.store.contract import read_time, utc_now
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.state import SESSIONS_FOLDER, find_link, make_leaf

__all__ = [
    "NO_CONTEXT",
    "ApplyResult",
    "DreamChecks",
    "DreamContext",
    "DreamDue",
    "DreamPhase",
    "DreamResult",
    "DreamSkip",
    "PatchSet",
    "ProgressStep",
    "RemovalProof",
    "apply_dream",
    "apply_kept",
    "count_failures",
    "dream",
    "dream_is_due",
    "find_dream_context",
    "find_due",
    "note_failure",
    "plan_dream",
    "preview_dream",
]


# --- dream_gates ---
# Is a dream due, and if not, why: the closed list of reasons, and the gates in order of what they cost.
#
#     off, paused         settings
#     too_soon            hours since the last dream: one `stat` (dream_lock)
#     scanned_lately      sessions were counted a short while ago and were too few
#     too_few_sessions    a look at every transcript, and at memdir's own records of conversations
#     locked              somebody dreams already
#
# Sessions are all conversations since the last dream whose working directory belongs to this project, each once; the
# one
# that asks does not count. What was counted is kept in `<state>/dream-scan.json`, noted before the count begins, so
# that
# neither a failure nor many processes lead to more than one look in ten minutes. The file holds ids of conversations
# and
# can be deleted at any time.
#
# A clock that was set back leaves times that lie ahead. One further ahead than the gate is wide says nothing, so that
# a
# wrong clock delays a dream by that width at most and never stops it for good.
#
# What it does not do: take the lock, or dream. A person who asks for a dream is not asked about hours and sessions.

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
class DreamOptions:
    """How often a place wants to dream; the defaults are those of the settings."""

    on: bool = True
    paused: bool = False
    hours: float = DREAM_HOURS
    sessions: int = DREAM_SESSIONS
    scan_minutes: float = DREAM_SCAN_MINUTES


PLAINLY = DreamOptions()


@dataclass(frozen=True, slots=True)
class DreamDue:
    """Whether a dream is due. `sessions` is None where nobody counted; `next_at` is when it is worth asking again."""

    skip: DreamSkip | None = None
    last: datetime | None = None
    sessions: int | None = None
    next_at: datetime | None = None
    holder: DreamHolder | None = None

    @property
    def is_due(self) -> bool:
        return self.skip is None


@dataclass(frozen=True, slots=True)
class _Scan:
    """What the last count found: ids as file names, of the time since `last`."""

    at: datetime
    last: datetime | None
    ids: frozenset[str]


def read_dream_options(opened: Project) -> DreamOptions:
    settings = opened.settings
    return DreamOptions(
        on=opened.places.switch.on and settings.flag("dream"),
        paused=settings.flag("paused"),
        hours=settings.number("dream_hours"),
        sessions=int(settings.number("dream_sessions")),
        scan_minutes=settings.number("dream_scan_minutes"),
    )


def find_due(opened: Project, *, now: datetime, session: str = "") -> DreamDue:
    """Whether a dream is due in this place; `session` is the conversation that asks."""
    environment, root = opened.environment, opened.places.root.path
    return find_due_in(
        opened.private, now=now, options=read_dream_options(opened), environment=environment, root=root, session=session
    )


def find_due_in(
    store: FileStore,
    *,
    now: datetime,
    options: DreamOptions = PLAINLY,
    environment: Environment | None = None,
    root: Path | None = None,
    session: str = "",
) -> DreamDue:
    """The same for a store. Without an environment and the project's root only memdir's own records are counted."""
    if not options.on or options.paused:
        return DreamDue(DreamSkip.PAUSED if options.on else DreamSkip.OFF)
    wait = timedelta(hours=options.hours)
    found = read_last(store.root)
    last = None if found is None or found - now > wait else found
    if last is not None and now - last < wait:
        return DreamDue(DreamSkip.TOO_SOON, last, next_at=last + wait)
    if not store.root.is_dir():
        return DreamDue(DreamSkip.NOTHING_TO_DO, last)

    def list_ids() -> frozenset[str]:
        return frozenset(list_sessions(store.state, last)) | _list_transcribed(environment, root, last)

    due = _judge_sessions(store.state, now, options, last, {make_leaf(session)} if session else set(), list_ids)
    if due.skip is None and (holder := find_holder(store.root, now=now)):
        return DreamDue(DreamSkip.LOCKED, last, due.sessions, holder=holder)
    return due


def _judge_sessions(
    state: Path,
    now: datetime,
    options: DreamOptions,
    last: datetime | None,
    own: set[str],
    list_ids: Callable[[], frozenset[str]],
) -> DreamDue:
    if options.sessions <= 0:
        return DreamDue(last=last)
    wait, known = timedelta(minutes=options.scan_minutes), _read_scan(state)
    if known is not None and known.last == last and abs(now - known.at) < wait:
        short, scan, again = DreamSkip.SCANNED_LATELY, known, known.at + wait
    else:
        _keep_scan(state, _Scan(now, last, frozenset()))
        short, scan, again = DreamSkip.TOO_FEW_SESSIONS, _Scan(now, last, list_ids()), now + wait
        _keep_scan(state, scan)
    count = len(scan.ids - own)
    return DreamDue(None, last, count) if count >= options.sessions else DreamDue(short, last, count, again)


def list_sessions(state: Path, since: datetime | None) -> list[str]:
    """Conversations that memdir has a record of and that went on after `since`, by the names of their files."""
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


# --- dream ---

TASK = "dream"
_UNTRIED = (DreamSkip.LOCKED, DreamSkip.CANCELLED)


@dataclass(frozen=True, slots=True)
class DreamResult:
    """What came of a dream. `skipped` says why nothing was changed; `patches` and `applied` are None where none is.

    `failures` is set where the model was not asked: so many dreams in a row it has failed.
    """

    patches: PatchSet | None = None
    applied: ApplyResult | None = None
    skipped: DreamSkip | None = None
    due: DreamDue | None = None
    failures: int = 0


def dream(
    store: FileStore,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    context: DreamContext = NO_CONTEXT,
    due: DreamDue | None = None,
    insist: bool = False,
    on_progress: OnProgress = say_nothing,
    cancelled: Cancelled = go_on,
) -> DreamResult:
    """Tidy a memory directory: by rules, and with a model by more than rules. `memdir undo` takes all of it back.

    `due` is what the gates said: without it they are not asked, with a skip there is no dream. Raises LockedError if
    another one is under way, StoppedError when cancelled, ModelError or BudgetError when the model fails; then nothing
    was changed. A model that has failed three dreams in a row is not asked in the next one, so that it cannot stop the
    rules for good; `insist` asks it all the same.
    """
    at = now or utc_now()
    if due is not None and due.skip is not None:
        return DreamResult(skipped=due.skip, due=due)
    if not store.root.is_dir():
        return DreamResult(skipped=DreamSkip.NOTHING_TO_DO)
    progress = DreamProgress(on_progress, cancelled)
    with _noting(store, progress, at) as row, hold_dream(store.root, store.state, now=at) as held:
        failures = 0 if model is None or insist else count_failures(store.state)
        if failures < DREAM_FAILURES:
            failures = 0
        patches = _plan(store, progress, None if failures else model, at, context, row)
        progress.enter(DreamPhase.APPLY)
        return replace(_apply(store, patches, held, at, row), failures=failures)


def preview_dream(
    store: FileStore,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    context: DreamContext = NO_CONTEXT,
    on_progress: OnProgress = say_nothing,
    cancelled: Cancelled = go_on,
) -> PatchSet:
    """Plan and keep a set, to be applied by its id; it does not count as a dream."""
    at = now or utc_now()
    if not store.root.is_dir():
        return PatchSet(records.make_id(at), at, records.RULES)
    progress = DreamProgress(on_progress, cancelled)
    with _noting(store, progress, at) as row, hold_dream(store.root, store.state, now=at) as held:
        held.do_not_count()
        row["preview"] = True
        return _plan(store, progress, model, at, context, row)


def apply_kept(
    store: FileStore, id: str, *, now: datetime | None = None, on_progress: OnProgress = say_nothing
) -> DreamResult:
    """Apply a set that a preview has kept."""
    at = now or utc_now()
    patches = records.load(store.state, id)
    progress = DreamProgress(on_progress)
    with _noting(store, progress, at) as row, hold_dream(store.root, store.state, now=at) as held:
        row["by"] = patches.by
        progress.enter(DreamPhase.APPLY)
        return _apply(store, patches, held, at, row)


def dream_is_due(store: FileStore, *, now: datetime | None = None) -> bool:
    """Whether it is time for a dream, by memdir's own records of conversations and the default settings."""
    return find_due_in(store, now=now or utc_now()).is_due


def count_failures(state: Path) -> int:
    """How many dreams in a row the model has failed, by the record of runs; locked and cancelled ones do not count."""
    count = 0
    for row in read_runs(state):
        if row.get("task") != TASK or row.get("preview") or row.get("skipped") in _UNTRIED:
            continue
        if not row.get("model_failed"):
            break
        count += 1
    return count


def note_failure(store: FileStore, error: MemdirError, *, now: datetime) -> None:
    """Put down that there was no dream because its model could not even be opened: a key is missing, a name wrong."""
    row = {"at": now.isoformat(timespec="seconds"), "task": TASK, "by": records.MODEL, "skipped": DreamSkip.FAILED}
    note_run(store.state, {**row, "error": _describe(error), "model_failed": True})


def find_dream_context(opened: Project) -> DreamContext:
    """What a dream in this place may look at: the project, and its transcripts."""
    root = opened.places.root.path
    folders = list_folders(opened.places, opened.environment.claude_home, Path(root))
    return DreamContext(root, folders, read_half_lives(opened.settings))


def _plan(
    store: FileStore,
    progress: DreamProgress,
    model: Model | None,
    now: datetime,
    context: DreamContext,
    row: dict[str, object],
) -> PatchSet:
    row["by"] = records.RULES if model is None else records.MODEL
    mark_applied_logs(store)
    patches = plan(store, progress, model=model, now=now, context=context)
    row |= {"patches": len(patches.patches), "proposals": len(patches.proposals), "refused": patches.refused}
    if not patches.is_empty or patches.logs:
        records.keep_set(store.state, patches)
    return patches


def _apply(store: FileStore, patches: PatchSet, held: DreamLock, now: datetime, row: dict[str, object]) -> DreamResult:
    applied = apply_dream(store, patches, held, now)
    if applied.repeated:
        held.do_not_count()
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
            hint=f"`memdir undo {applied.change}` puts the files back, `memdir doctor` looks for what is wrong",
        )
    skipped = DreamSkip.NOTHING_TO_DO if applied.change is None and not applied.waiting else None
    row["skipped"] = skipped
    return DreamResult(patches, applied, skipped)


@contextmanager
def _noting(store: FileStore, progress: DreamProgress, now: datetime) -> Iterator[dict[str, object]]:
    """A line in the record of runs, whatever becomes of it; the row may be filled meanwhile."""
    row: dict[str, object] = {"at": now.isoformat(timespec="seconds"), "task": TASK, "skipped": None, "error": ""}
    spent = Usage()
    try:
        yield row
    except LockedError as error:
        row |= {"skipped": DreamSkip.LOCKED, "error": str(error)}
        raise
    except (StoppedError, KeyboardInterrupt):
        row |= {"skipped": DreamSkip.CANCELLED, "error": "cancelled"}
        raise
    except MemdirError as error:
        spent = getattr(error, "usage", None) or spent
        row |= {"skipped": DreamSkip.FAILED, "error": _describe(error), "model_failed": _is_models(error)}
        raise
    finally:
        _note(store, row, progress, spent)


def _describe(error: MemdirError) -> str:
    """What went wrong, without what may be a memory's name or text: such details stand behind a colon."""
    return str(error).partition(": ")[0] if _is_models(error) else type(error).__name__


def _is_models(error: MemdirError) -> bool:
    return isinstance(error, ModelError | BudgetError)


def _note(store: FileStore, row: dict[str, object], progress: DreamProgress, spent: Usage) -> None:
    usage = add_usage(progress.now.usage, spent)
    tokens = {"fresh": usage.fresh, "cached": usage.cached, "stored": usage.stored, "output": usage.output}
    facts = {
        "requests": progress.now.turns,
        "calls": progress.now.calls,
        "tokens": tokens if progress.now.turns or usage != Usage() else None,
        "dollars": usage.dollars,
    }
    note_run(store.state, {**row, **facts})
