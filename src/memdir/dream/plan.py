"""From a store to a patch set: rules first, then the model on what they would leave. Nothing is changed.

The model works on an overlay in memory, so its changes are written against the tidied texts, while the edits of the set
expect the files as they are on the disk. Applied together, in this order, they fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from pathlib import Path

from memdir.dream.by_model import NO_CONTEXT, DreamContext, dream_on, gather, mark_shown_logs
from memdir.dream.lock import DreamLock
from memdir.dream.pointers import plan_tidy
from memdir.dream.records import (
    MODEL,
    RULES,
    VERB,
    Cancelled,
    DreamChecks,
    DreamPhase,
    DreamProgress,
    OnProgress,
    Patch,
    PatchSet,
    TidyResult,
    go_on,
    list_sets,
    make_id,
    make_item,
    say_nothing,
)
from memdir.dream.review import (
    KEY,
    RemainingSentences,
    RemovedSentence,
    SentenceFate,
    find_removed,
    find_sentence_ages,
    list_sentences,
    review_patches,
)
from memdir.dream.review import WHO as REVIEW_WHO
from memdir.dream.stale import propose_repairs, propose_reviews, read_memory_verdicts
from memdir.errors import MemdirError, NotFoundError
from memdir.extraction.provenance import fold_sentence
from memdir.extraction.word import SHARED, mask_words
from memdir.format.age import HalfLives
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_VERIFY_SECONDS
from memdir.models import new_run
from memdir.models.staged import Staging
from memdir.records import (
    BatchResult,
    Change,
    Forget,
    InboxItem,
    InboxKind,
    IndexEdit,
    Memory,
    Model,
    Origin,
    Rewrite,
    Save,
)
from memdir.store.batch import StoreOverlay
from memdir.store.contract import StoreBase, utc_now
from memdir.store.files import FileStore
from memdir.store.inbox import render_edits
from memdir.store.plan import digest_of, encode, is_index_path, is_team
from memdir.verify.check import refresh
from memdir.verify.records import Verdict

# --- planning ---


def plan_dream(
    store: StoreBase,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    context: DreamContext = NO_CONTEXT,
    on_progress: OnProgress = say_nothing,
    cancelled: Cancelled = go_on,
) -> PatchSet:
    """What a dream would change, without a model by rules alone; raises ModelError or BudgetError if a model fails."""
    return plan(store, DreamProgress(on_progress, cancelled), model=model, now=now or utc_now(), context=context)


def plan(
    store: StoreBase, progress: DreamProgress, *, model: Model | None, now: datetime, context: DreamContext
) -> PatchSet:
    """The same, watched by the caller, who sees what it took even where it fails."""
    progress.enter(DreamPhase.TIDY)
    if isinstance(store, FileStore) and context.project is not None:
        refresh(store, context.project, now=now, seconds=DREAM_VERIFY_SECONDS)
    memories = _read_memories(store)
    verdicts = read_memory_verdicts(store, memories)
    tidied = _look_at_age(store, _tidy(store, now), memories, verdicts, context.half_lives, now)
    ground = StoreOverlay(store, [patch.edits for patch in tidied.patches], now=now)
    progress.touch(sum(not at.is_index for at in ground.batch.changes))
    if model is None:
        progress.enter(DreamPhase.CHECK)
        checks, items = _count(store, ground, ()), tidied.list_items(())
        return PatchSet(make_id(now), now, RULES, tidied.patches, items, checks=checks, spared=tidied.spared)
    return _plan_with(new_run(model), store, ground, tidied, verdicts, progress, now, context)


def mark_applied_logs(store: FileStore) -> None:
    """Mark the logs of dreams that were applied: one that was killed right behind its change could not do it."""
    for kept in reversed(list_sets(store.state)):
        if kept.logs and store.has_mark(kept.mark):
            mark_shown_logs(store, kept.logs)


@dataclass(frozen=True, slots=True)
class _Tidied:
    """What the rules want; a proposal about a memory that the model deals with is left to the next dream."""

    patches: tuple[Patch, ...]
    proposals: tuple[tuple[tuple[str, ...], InboxItem], ...]
    spared: int = 0

    def list_items(self, changed: Iterable[Patch]) -> tuple[InboxItem, ...]:
        touched = {name for patch in changed for name in patch.names}
        return tuple(item for names, item in self.proposals if not touched.intersection(names))


def _tidy(store: StoreBase, now: datetime) -> _Tidied:
    found = plan_tidy(store, now=now)
    origin = Origin(REVIEW_WHO, f"by {RULES}")
    every = _list_patches(found)
    patches = [at for at in every if not _changes_team(at)]
    wanted = _leave_taken_back(store, patches)
    kept = set(map(id, wanted))  # the very same patches; to compare each with all would take long
    spared = frozenset(name for at in every if id(at) not in kept for name in at.names)
    left = wanted
    if spared:  # once more, as if they were pinned: the index has to fit what stays
        found = plan_tidy(store, now=now, keep=spared)
        left = _leave_taken_back(store, [at for at in _list_patches(found) if not _changes_team(at)])
    proposals = [(at.names, make_item(at, at=now, origin=origin)) for at in found.proposals]
    proposals += [(at.names, _make_team_item(at, now, origin)) for at in every if _changes_team(at)]
    unasked = tuple((names, item) for names, item in proposals if _is_unasked(store, item))
    return _Tidied(left, unasked, len(patches) - len(wanted))


def _look_at_age(
    store: StoreBase,
    tidied: _Tidied,
    memories: Sequence[Memory],
    verdicts: Mapping[str, Verdict],
    lives: HalfLives,
    now: datetime,
) -> _Tidied:
    """With what is out of date or old, as far as nothing else is to be done with it."""
    changing = [at for at in tidied.patches if not all(isinstance(edit, IndexEdit) for edit in at.edits)]
    busy = {name for patch in changing for name in patch.names}
    busy |= {name for names, _ in tidied.proposals for name in names}
    free = [memory for memory in memories if memory.header.name not in busy]
    origin = Origin(REVIEW_WHO, f"by {RULES}")
    repairs = [at for at in propose_repairs(free, verdicts, now, origin) if _is_unasked(store, at[1])]
    reviews = propose_reviews(store, free, verdicts, lives, now, origin)
    return replace(tidied, proposals=(*tidied.proposals, *repairs, *reviews))


def _read_memories(store: StoreBase) -> list[Memory]:
    found = []
    for header in store.scan():
        try:
            found.append(store.read(header.name))
        except MemdirError:
            continue
    return found


def _changes_team(patch: Patch) -> bool:
    """Whether it changes what a team shares, or takes away what only the team says too; an index may be mended."""
    return any(map(is_team, patch.names)) and not all(isinstance(edit, IndexEdit) for edit in patch.edits)


def _make_team_item(patch: Patch, now: datetime, origin: Origin) -> InboxItem:
    edits = render_edits(patch.edits)
    key = digest_of(repr(edits).encode("utf-8", "replace"))[:24]
    payload: dict[str, object] = {"edits": edits, "evidence": list(patch.evidence)}
    title, why = f"{patch.kind} {patch.names[0]}", f"{SHARED}: {patch.reason}"
    return InboxItem(
        InboxKind.PROPOSAL, title, why, now, key=f"{KEY}{key}", name=patch.names[0], origin=origin, payload=payload
    )


def _list_patches(found: TidyResult) -> list[Patch]:
    return [
        Patch(at.kind.value, at.names, at.edits, at.reason, (at.evidence,) if at.evidence else ())
        for at in found.patches
    ]


def _leave_taken_back(store: StoreBase, patches: Sequence[Patch]) -> tuple[Patch, ...]:
    """The patches without those that a dream made before and somebody undid: a no holds until the text is another."""
    if not patches:
        return ()
    undone = (change for change in store.changes() if change.verb == VERB and change.undone_by is not None)
    taken = {(at.path, at.before, at.after) for change in undone for at in change.files}
    begun = {(path, before) for path, before, _ in taken}
    return tuple(at for at in patches if not _was_taken_back(at, taken, begun))


def _was_taken_back(
    patch: Patch, taken: AbstractSet[tuple[str, str | None, str | None]], begun: AbstractSet[tuple[str, str | None]]
) -> bool:
    """Whether it is the very same change; of a merge, whether it takes away the same and adds to the same."""
    gone = [(f"{at.name}.md", at.expect, None) for at in patch.edits if isinstance(at, Forget)]
    written = [at for at in patch.edits if isinstance(at, Rewrite)]
    if gone:
        return all(at in taken for at in gone) and all((f"{at.name}.md", at.expect) in begun for at in written)
    return bool(written) and all((f"{at.name}.md", at.expect, digest_of(encode(at.text))) in taken for at in written)


def _plan_with(
    model: Model,
    store: StoreBase,
    ground: StoreOverlay,
    tidied: _Tidied,
    verdicts: Mapping[str, Verdict],
    progress: DreamProgress,
    now: datetime,
    context: DreamContext,
) -> PatchSet:
    material = gather(store, ground, verdicts, lives=context.half_lives, now=now)
    staging = Staging(ground, now=now)
    memory = Path(getattr(store, "root", "/memory"))
    dreamt = dream_on(model, staging, ground, material, memory=memory, context=context, progress=progress, now=now)
    progress.enter(DreamPhase.CHECK)
    weighed = review_patches(staging, ground, dreamt, material.list_messages(), now=now)
    wanted = _leave_taken_back(store, weighed.patches)
    done = progress.now
    return PatchSet(
        make_id(now),
        now,
        MODEL,
        (*tidied.patches, *wanted),
        (*tidied.list_items(wanted), *(at for at in weighed.proposals if _is_unasked(store, at))),
        done.usage,
        _count(store, ground, weighed.removed),
        material.logs,
        mask_words(dreamt.summary, store.rules.find),
        done.turns,
        done.calls,
        dreamt.refused,
        tidied.spared + len(weighed.patches) - len(wanted),
    )


def _is_unasked(store: StoreBase, item: InboxItem) -> bool:
    """Whether it neither waits already nor was decided: nobody is asked the same thing twice."""
    return store.inbox_find(item.key) is None


def _count(store: StoreBase, ground: StoreOverlay, by_model: tuple[RemovedSentence, ...]) -> DreamChecks:
    """What there is, and what goes: by the rules, then by the model."""
    before = _read_texts(store)
    dated = [(before[at.name], at.modified.timestamp()) for at in store.scan() if at.name in before]
    touched = {name: text for name, text in before.items() if ground.is_changed(name)}
    by_rules: tuple[RemovedSentence, ...] = ()
    if touched:
        remaining = RemainingSentences(_read_texts(ground), find_sentence_ages(dated))
        by_rules = find_removed(touched, remaining)
    removed = (*by_rules, *by_model)
    return DreamChecks(
        memories=len(before),
        sentences=sum(len(list_sentences(text)) for text in before.values()),
        removed=len(removed),
        elsewhere=sum(at.fate is SentenceFate.KEPT for at in removed),
        overtaken=sum(at.fate is SentenceFate.OVERTAKEN for at in removed),
    )


def _read_texts(ground: StoreBase | StoreOverlay) -> dict[str, str]:
    texts = {}
    for header in ground.scan():
        try:
            texts[header.name] = ground.read(header.name).text
        except MemdirError:
            continue
    return texts


# --- applying ---
# A patch set becomes one change: the inbox first, then every change together, then the proof that nothing was lost.
#
# Whoever was quicker wins: a patch whose memory changed meanwhile, or was pinned, is left out as a whole. Logs are
# marked
# as distilled last, because only then have they become memories. Applying a set twice does nothing the second time.

WHO = "dream"


@dataclass(frozen=True, slots=True)
class RemovalProof:
    """Every sentence that the change took out of a memory: how many, how many still stand somewhere, how many history has.

    `missing` is what neither a memory nor the history holds: nothing, or something is badly wrong.
    """

    removed: int = 0
    elsewhere: int = 0
    in_history: int = 0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What came of a set: the change, the memories it changed, those left out, and the items that wait since now.

    `repeated` says that the set was applied before, `undone_by` which change has taken it back since.
    """

    change: int | None
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    waiting: tuple[int, ...] = ()
    proof: RemovalProof = RemovalProof()
    repeated: bool = False
    undone_by: int | None = None


def apply_dream(store: FileStore, patches: PatchSet, held: DreamLock, now: datetime) -> ApplyResult:
    """Apply a set; raises LockedError, with nothing done, if this dream no longer holds the directory."""
    held.check()
    if store.has_mark(patches.mark):
        mark_shown_logs(store, patches.logs)
        change = store.change((), verb=VERB, mark=patches.mark).change
        return ApplyResult(
            change, repeated=True, undone_by=None if change is None else store.read_change(change).undone_by
        )
    before = _applying_read_texts(store, _list_names(patches))
    known = {item.id for item in store.inbox(None)}
    items = store.inbox_add(replace(item, at=now) for item in patches.proposals)
    held.check()
    done = store.change(
        [patch.edits for patch in patches.patches],
        verb=VERB,
        origin=Origin(WHO, f"by {patches.by}, dream {patches.id}"),
        mark=patches.mark,
        drop_conflicts=True,
        keep_pinned=True,
    )
    mark_shown_logs(store, patches.logs)
    return _tell(store, done, before, tuple(item.id for item in items if item.id not in known))


def prove(store: FileStore, change: Change, before: Mapping[str, str]) -> RemovalProof:
    """Look up every sentence that a change took out of these memories, where they stand now and in the history."""
    names = [header.name for header in store.scan()]
    now = {name: _fold_all(text) for name, text in _applying_read_texts(store, names).items()}
    standing = frozenset[str]().union(*now.values())
    removed = elsewhere = kept = 0
    missing: list[str] = []
    for file in change.files:
        name = file.path.removesuffix(".md")
        if name not in before or file.before is None:
            continue
        gone = {at: fold_sentence(at) for at in list_sentences(before[name])}
        gone = {at: folded for at, folded in gone.items() if folded not in now.get(name, ())}
        recorded = _fold_all(_read_recorded(store, file.before))
        removed += len(gone)
        elsewhere += sum(folded in standing for folded in gone.values())
        kept += sum(folded in recorded for folded in gone.values())
        missing += [at for at, folded in gone.items() if folded not in recorded and folded not in standing]
    return RemovalProof(removed, elsewhere, kept, tuple(missing))


def _tell(store: FileStore, done: BatchResult, before: Mapping[str, str], waiting: tuple[int, ...]) -> ApplyResult:
    dropped = tuple(dict.fromkeys(done.dropped))
    if done.change is None:
        return ApplyResult(None, dropped=dropped, waiting=waiting)
    change = store.read_change(done.change)
    names = tuple(at.path.removesuffix(".md") for at in change.files if not is_index_path(at.path))
    return ApplyResult(change.id, names, dropped, waiting, prove(store, change, before), done.repeated)


def _list_names(patches: PatchSet) -> Iterator[str]:
    for patch in patches.patches:
        for edit in patch.edits:
            if isinstance(edit, Rewrite | Forget):
                yield edit.name
            elif isinstance(edit, Save) and edit.draft.name:
                yield edit.draft.name


def _applying_read_texts(store: FileStore, names: Iterable[str]) -> dict[str, str]:
    texts = {}
    for name in dict.fromkeys(names):
        try:
            texts[name] = store.read(name).text
        except MemdirError:
            continue
    return texts


def _read_recorded(store: FileStore, digest: str) -> str:
    try:
        return store.read_content(digest).decode("utf-8", "replace")
    except NotFoundError:
        return ""


def _fold_all(text: str) -> frozenset[str]:
    return frozenset(map(fold_sentence, list_sentences(text)))
