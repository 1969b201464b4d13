"""Consolidation across sessions: gates, lock, a plan by rules and model on a staged copy, one act, one undo.

    store --plan--> patch set --keep--> <state>/dreams/ID.json --apply--> one act, the inbox, a proof

A dream that fails, is cancelled or loses its lock has changed nothing, and the time of the last dream is what it was.
Every run leaves a line in the record of runs, which names no memory.

The rooms: progress; sets (the record and its JSON); material, hands and by_model (what a model sees, may do, and how it
is asked); drifting (what may no longer hold); losses, believing and weighing (what may be kept of it); overlay;
planning; applying.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from memdir.aging import read_half_lives
from memdir.dream import sets
from memdir.dream.applying import Applied, Proof, apply_dream
from memdir.dream.material import NOWHERE, Surroundings
from memdir.dream.planning import plan, plan_dream, settle_logs
from memdir.dream.progress import Cancelled, OnProgress, Phase, Progress, Watch, go_on, say_nothing
from memdir.dream.sets import Checks, PatchSet
from memdir.dream_gates import DreamSkip, Due, find_due, find_due_in
from memdir.dream_lock import Held, hold_dream
from memdir.errors import BudgetError, LockedError, MemdirError, ModelError, NotFoundError, StoppedError
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_FAILURES
from memdir.models.wire import add_usage
from memdir.opening import Opened
from memdir.records import Model, Usage
from memdir.runs import note_run, read_runs
from memdir.store.contract import utc_now
from memdir.store.files import FileStore
from memdir.transcript_search import list_folders

__all__ = [
    "NOWHERE",
    "Applied",
    "Checks",
    "DreamSkip",
    "Dreamed",
    "Due",
    "PatchSet",
    "Phase",
    "Progress",
    "Proof",
    "Surroundings",
    "apply_dream",
    "apply_kept",
    "count_failures",
    "dream",
    "dream_is_due",
    "find_due",
    "find_surroundings",
    "note_failure",
    "plan_dream",
    "preview_dream",
]

TASK = "dream"
_UNTRIED = (DreamSkip.LOCKED, DreamSkip.CANCELLED)


@dataclass(frozen=True, slots=True)
class Dreamed:
    """What came of a dream. `skipped` says why nothing was changed; `patches` and `applied` are None where none is.

    `failures` is set where the model was not asked: so many dreams in a row it has failed.
    """

    patches: PatchSet | None = None
    applied: Applied | None = None
    skipped: DreamSkip | None = None
    due: Due | None = None
    failures: int = 0


def dream(
    store: FileStore,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    surroundings: Surroundings = NOWHERE,
    due: Due | None = None,
    insist: bool = False,
    on_progress: OnProgress = say_nothing,
    cancelled: Cancelled = go_on,
) -> Dreamed:
    """Tidy a memory directory: by rules, and with a model by more than rules. `memdir undo` takes all of it back.

    `due` is what the gates said: without it they are not asked, with a skip there is no dream. Raises LockedError if
    another one is under way, StoppedError when cancelled, ModelError or BudgetError when the model fails; then nothing
    was changed. A model that has failed three dreams in a row is not asked in the next one, so that it cannot stop the
    rules for good; `insist` asks it all the same.
    """
    at = now or utc_now()
    if due is not None and due.skip is not None:
        return Dreamed(skipped=due.skip, due=due)
    if not store.root.is_dir():
        return Dreamed(skipped=DreamSkip.NOTHING_TO_DO)
    watch = Watch(on_progress, cancelled)
    with _noting(store, watch, at) as row, hold_dream(store.root, store.state, now=at) as held:
        failures = 0 if model is None or insist else count_failures(store.state)
        if failures < DREAM_FAILURES:
            failures = 0
        patches = _plan(store, watch, None if failures else model, at, surroundings, row)
        watch.enter(Phase.APPLY)
        return replace(_apply(store, patches, held, at, row), failures=failures)


def preview_dream(
    store: FileStore,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    surroundings: Surroundings = NOWHERE,
    on_progress: OnProgress = say_nothing,
    cancelled: Cancelled = go_on,
) -> PatchSet:
    """Plan and keep a set, to be applied by its id; it does not count as a dream."""
    at = now or utc_now()
    if not store.root.is_dir():
        return PatchSet(sets.make_id(at), at, sets.RULES)
    watch = Watch(on_progress, cancelled)
    with _noting(store, watch, at) as row, hold_dream(store.root, store.state, now=at) as held:
        held.withdraw()
        row["preview"] = True
        return _plan(store, watch, model, at, surroundings, row)


def apply_kept(
    store: FileStore, id: str, *, now: datetime | None = None, on_progress: OnProgress = say_nothing
) -> Dreamed:
    """Apply a set that a preview has kept."""
    at = now or utc_now()
    patches = sets.load(store.state, id)
    watch = Watch(on_progress)
    with _noting(store, watch, at) as row, hold_dream(store.root, store.state, now=at) as held:
        row["by"] = patches.by
        watch.enter(Phase.APPLY)
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
    row = {"at": now.isoformat(timespec="seconds"), "task": TASK, "by": sets.MODEL, "skipped": DreamSkip.FAILED}
    note_run(store.state, {**row, "error": _describe(error), "model_failed": True})


def find_surroundings(opened: Opened) -> Surroundings:
    """What a dream in this place may look at: the project, and its transcripts."""
    root = opened.places.root.path
    folders = list_folders(opened.places, opened.environment.claude_home, Path(root))
    return Surroundings(root, folders, read_half_lives(opened.settings))


def _plan(
    store: FileStore,
    watch: Watch,
    model: Model | None,
    now: datetime,
    surroundings: Surroundings,
    row: dict[str, object],
) -> PatchSet:
    row["by"] = sets.RULES if model is None else sets.MODEL
    settle_logs(store)
    patches = plan(store, watch, model=model, now=now, surroundings=surroundings)
    row |= {"patches": len(patches.patches), "proposals": len(patches.proposals), "refused": patches.refused}
    if not patches.is_empty or patches.logs:
        sets.keep(store.state, patches)
    return patches


def _apply(store: FileStore, patches: PatchSet, held: Held, now: datetime, row: dict[str, object]) -> Dreamed:
    applied = apply_dream(store, patches, held, now)
    if applied.repeated:
        held.withdraw()
    proof = applied.proof
    row |= {
        "act": applied.act,
        "changed": len(applied.changed),
        "dropped": len(applied.dropped),
        "waiting": len(applied.waiting),
        "sentences": {"removed": proof.removed, "elsewhere": proof.elsewhere, "in_history": proof.in_history},
    }
    if proof.missing:
        raise NotFoundError(
            f"{len(proof.missing)} sentences that this dream removed are not in the history",
            hint=f"`memdir undo {applied.act}` puts the files back, `memdir doctor` looks for what is wrong",
        )
    skipped = DreamSkip.NOTHING_TO_DO if applied.act is None and not applied.waiting else None
    row["skipped"] = skipped
    return Dreamed(patches, applied, skipped)


@contextmanager
def _noting(store: FileStore, watch: Watch, now: datetime) -> Iterator[dict[str, object]]:
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
        _note(store, row, watch, spent)


def _describe(error: MemdirError) -> str:
    """What went wrong, without what may be a memory's name or text: such details stand behind a colon."""
    return str(error).partition(": ")[0] if _is_models(error) else type(error).__name__


def _is_models(error: MemdirError) -> bool:
    return isinstance(error, ModelError | BudgetError)


def _note(store: FileStore, row: dict[str, object], watch: Watch, spent: Usage) -> None:
    usage = add_usage(watch.now.usage, spent)
    tokens = {"fresh": usage.fresh, "cached": usage.cached, "stored": usage.stored, "output": usage.output}
    facts = {
        "requests": watch.now.turns,
        "calls": watch.now.calls,
        "tokens": tokens if watch.now.turns or usage != Usage() else None,
        "dollars": usage.dollars,
    }
    note_run(store.state, {**row, **facts})
