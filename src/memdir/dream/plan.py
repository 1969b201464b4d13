"""From a store to a patch set, and from a patch set to one change.

Planning changes nothing: patterns first, then the model on what they would leave. The model works on an overlay in
memory, so its changes are written against the tidied texts, while the edits of the set expect the files as they are on
disk. Applied together, in this order, they fit.

Applying puts items into the inbox first, then makes every change together, then proves that nothing was lost. A patch
whose memory changed meanwhile, or was pinned, is left out as a whole. Logs are marked as distilled last, because only
then have they become memories. Applying a set twice does nothing the second time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from pathlib import Path

from memdir.dream.by_model import NO_CONTEXT, DreamContext, ModelDream, dream_with_model, gather, mark_shown_logs
from memdir.dream.lock import DreamLock
from memdir.dream.records import (
    MODEL,
    RULES,
    VERB,
    WHO,
    Cancelled,
    DreamChecks,
    DreamPhase,
    DreamProgress,
    NamedItem,
    OnProgress,
    Patch,
    PatchSet,
    go_on,
    list_sets,
    make_id,
    read_memories,
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
from memdir.dream.stale import BY_RULES, propose_repairs, propose_reviews, read_memory_verdicts
from memdir.dream.tidy import plan_tidy
from memdir.errors import MemdirError, NotFoundError
from memdir.extraction.judge import SHARED, mask_words
from memdir.extraction.provenance import fold_sentence
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_VERIFY_SECONDS
from memdir.models import new_run
from memdir.models.staged import Staging
from memdir.records import Change, Forget, InboxItem, InboxKind, IndexEdit, Memory, Model, Origin, Rewrite, Save
from memdir.store.batch import StoreOverlay
from memdir.store.contract import StoreBase, utc_now
from memdir.store.files import FileStore
from memdir.store.inbox import render_edits
from memdir.store.plan import digest_of, encode, is_index_path, is_team
from memdir.verify.check import refresh


def plan_dream(
    store: StoreBase,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    context: DreamContext = NO_CONTEXT,
    on_progress: OnProgress = say_nothing,
    cancelled: Cancelled = go_on,
) -> PatchSet:
    """What a dream would change, without a model by patterns alone; raises ModelError or BudgetError if one fails."""
    return plan(store, DreamProgress(on_progress, cancelled), model=model, now=now or utc_now(), context=context)


def plan(
    store: StoreBase, progress: DreamProgress, *, model: Model | None, now: datetime, context: DreamContext
) -> PatchSet:
    """The same with the caller's progress, which shows what was spent even if it fails."""
    progress.enter(DreamPhase.TIDY)
    if isinstance(store, FileStore) and context.project is not None:
        refresh(store, context.project, now=now, seconds=DREAM_VERIFY_SECONDS)
    memories = read_memories(store)
    verdicts = read_memory_verdicts(store, memories)
    tidied = _tidy(store, now)
    free = [memory for name, memory in memories.items() if name not in tidied.busy]
    repairs = [at for at in propose_repairs(free, verdicts, now) if _is_new(store, at[1])]
    reviews = propose_reviews(store, free, verdicts, context.half_lives, now)
    tidied = replace(tidied, proposals=(*tidied.proposals, *repairs, *reviews))
    overlay = StoreOverlay(store, [patch.edits for patch in tidied.patches], now=now)
    progress.touch(sum(not at.is_index for at in overlay.batch.changes))
    if model is None:
        progress.enter(DreamPhase.CHECK)
        checks, items = _count(memories, overlay, ()), tidied.list_items(())
        return PatchSet(make_id(now), now, RULES, tidied.patches, items, checks=checks, spared=tidied.spared)
    given = gather(store, overlay, verdicts, lives=context.half_lives, now=now)
    staging = Staging(overlay, now=now)
    root = Path(getattr(store, "root", "/memory"))
    run: ModelDream = dream_with_model(
        new_run(model), staging, overlay, given, memory=root, context=context, progress=progress, now=now
    )
    progress.enter(DreamPhase.CHECK)
    reviewed = review_patches(staging, overlay, run, given.list_messages(), now=now)
    wanted = _leave_undone(store, reviewed.patches)
    done = progress.now
    return PatchSet(
        id=make_id(now),
        at=now,
        by=MODEL,
        patches=(*tidied.patches, *wanted),
        proposals=(*tidied.list_items(wanted), *(at for at in reviewed.proposals if _is_new(store, at))),
        usage=done.usage,
        checks=_count(memories, overlay, reviewed.removed),
        logs=given.logs,
        summary=mask_words(run.summary, store.rules.find),
        requests=done.turns,
        calls=done.calls,
        refused=run.refused,
        spared=tidied.spared + len(reviewed.patches) - len(wanted),
    )


def mark_applied_logs(store: FileStore) -> None:
    """Mark the logs of dreams that were applied: one that was killed right after its change could not do it."""
    for kept in reversed(list_sets(store.state)):
        if kept.logs and store.has_mark(kept.mark):
            mark_shown_logs(store, kept.logs)


@dataclass(frozen=True, slots=True)
class _Tidied:
    """What is to be done without a model."""

    patches: tuple[Patch, ...]
    proposals: tuple[NamedItem, ...]
    spared: int = 0

    @property
    def busy(self) -> set[str]:
        """Memories with which something is to be done already."""
        changing = [at for at in self.patches if not all(isinstance(edit, IndexEdit) for edit in at.edits)]
        return {name for names in (*(at.names for at in changing), *(at[0] for at in self.proposals)) for name in names}

    def list_items(self, changed: Iterable[Patch]) -> tuple[InboxItem, ...]:
        """The items, without those about a memory that the model changes: they are left to the next dream."""
        touched = {name for patch in changed for name in patch.names}
        return tuple(item for names, item in self.proposals if not touched.intersection(names))


def _tidy(store: StoreBase, now: datetime) -> _Tidied:
    found = plan_tidy(store, now=now)
    every = found.patches
    patches = [at for at in every if not _changes_team(at)]
    wanted = _leave_undone(store, patches)
    kept = set(map(id, wanted))  # by identity: to compare each with all would take long
    spared = frozenset(name for at in every if id(at) not in kept for name in at.names)
    left = wanted
    if spared:  # once more, as if they were pinned: the index has to fit what stays
        found = plan_tidy(store, now=now, keep=spared)
        left = _leave_undone(store, [at for at in found.patches if not _changes_team(at)])
    proposals = [*found.proposals, *(_make_team_item(at, now) for at in every if _changes_team(at))]
    return _Tidied(left, tuple(at for at in proposals if _is_new(store, at[1])), len(patches) - len(wanted))


def _changes_team(patch: Patch) -> bool:
    """Whether it changes what a team shares, or removes what only the team says too; an index may be repaired."""
    return any(map(is_team, patch.names)) and not all(isinstance(edit, IndexEdit) for edit in patch.edits)


def _make_team_item(patch: Patch, now: datetime) -> NamedItem:
    edits = render_edits(patch.edits)
    key = KEY + digest_of(repr(edits).encode("utf-8", "replace"))[:24]
    payload: dict[str, object] = {"edits": edits, "evidence": list(patch.evidence)}
    name, title, why = patch.names[0], f"{patch.kind} {patch.names[0]}", f"{SHARED}: {patch.reason}"
    item = InboxItem(InboxKind.PROPOSAL, title, why, now, key=key, name=name, origin=BY_RULES, payload=payload)
    return patch.names, item


def _leave_undone(store: StoreBase, patches: Sequence[Patch]) -> tuple[Patch, ...]:
    """The patches without those that a dream made before and somebody undid, until the text is another."""
    if not patches:
        return ()
    undone = (change for change in store.changes() if change.verb == VERB and change.undone_by is not None)
    changes = {(at.path, at.before, at.after) for change in undone for at in change.files}
    begun = {(path, before) for path, before, _ in changes}
    return tuple(at for at in patches if not _was_undone(at, changes, begun))


def _was_undone(
    patch: Patch, changes: AbstractSet[tuple[str, str | None, str | None]], begun: AbstractSet[tuple[str, str | None]]
) -> bool:
    """Whether it is the very same change; for a merge, whether it removes the same and adds to the same."""
    gone = [(f"{at.name}.md", at.expect, None) for at in patch.edits if isinstance(at, Forget)]
    written = [at for at in patch.edits if isinstance(at, Rewrite)]
    if gone:
        return all(at in changes for at in gone) and all((f"{at.name}.md", at.expect) in begun for at in written)
    return bool(written) and all((f"{at.name}.md", at.expect, digest_of(encode(at.text))) in changes for at in written)


def _is_new(store: StoreBase, item: InboxItem) -> bool:
    """Whether it is neither in the inbox nor was decided before."""
    return store.inbox_find(item.key) is None


def _count(memories: Mapping[str, Memory], overlay: StoreOverlay, by_model: tuple[RemovedSentence, ...]) -> DreamChecks:
    """What there is, and what is removed: by patterns, then by the model."""
    before = {name: memory.text for name, memory in memories.items()}
    touched = {name: text for name, text in before.items() if overlay.is_changed(name)}
    by_rules: tuple[RemovedSentence, ...] = ()
    if touched:
        dated = [(memory.text, memory.header.modified.timestamp()) for memory in memories.values()]
        after = {name: memory.text for name, memory in read_memories(overlay).items()}
        by_rules = find_removed(touched, RemainingSentences(after, find_sentence_ages(dated)))
    removed = (*by_rules, *by_model)
    return DreamChecks(
        memories=len(before),
        sentences=sum(len(list_sentences(text)) for text in before.values()),
        removed=len(removed),
        elsewhere=sum(at.fate is SentenceFate.KEPT for at in removed),
        overtaken=sum(at.fate is SentenceFate.OVERTAKEN for at in removed),
    )


@dataclass(frozen=True, slots=True)
class RemovalProof:
    """How many sentences a change removed from memories, how many of them stand elsewhere, how many are in history.

    `missing` is what neither a memory nor the history holds: nothing, or something is badly wrong.
    """

    removed: int = 0
    elsewhere: int = 0
    in_history: int = 0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What came of a set: the change, the memories it changed, those left out, and the new items of the inbox.

    `repeated` says that the set was applied before, `undone_by` which change has undone it since.
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
        undone_by = None if change is None else store.read_change(change).undone_by
        return ApplyResult(change, repeated=True, undone_by=undone_by)
    before = _read_texts(store, _list_names(patches))
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
    waiting = tuple(item.id for item in items if item.id not in known)
    dropped = tuple(dict.fromkeys(done.dropped))
    if done.change is None:
        return ApplyResult(None, dropped=dropped, waiting=waiting)
    made = store.read_change(done.change)
    names = tuple(at.path.removesuffix(".md") for at in made.files if not is_index_path(at.path))
    return ApplyResult(made.id, names, dropped, waiting, _prove(store, made, before), done.repeated)


def _prove(store: FileStore, change: Change, before: Mapping[str, str]) -> RemovalProof:
    """Look up every sentence that a change removed from these memories, in all memories and in the history."""
    names = [header.name for header in store.scan()]
    now = {name: _fold_all(text) for name, text in _read_texts(store, names).items()}
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


def _list_names(patches: PatchSet) -> Iterator[str]:
    for edit in (edit for patch in patches.patches for edit in patch.edits):
        if isinstance(edit, Rewrite | Forget):
            yield edit.name
        elif isinstance(edit, Save) and edit.draft.name:
            yield edit.draft.name


def _read_texts(store: FileStore, names: Iterable[str]) -> dict[str, str]:
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
