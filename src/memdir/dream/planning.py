"""From a store to a patch set: rules first, then the model on what they would leave. Nothing is changed.

The model works on an overlay in memory, so its changes are written against the tidied texts, while the edits of the set
expect the files as they are on the disk. Applied together, in this order, they fit.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from pathlib import Path

from memdir.age import HalfLives
from memdir.dream.by_model import dream_on
from memdir.dream.drifting import propose_repairs, propose_reviews, read_verdicts
from memdir.dream.losses import Fate, Remaining, Removed, find_ages, find_removed, list_sentences
from memdir.dream.material import NOWHERE, Surroundings, gather, mark_read
from memdir.dream.overlay import Overlaid
from memdir.dream.progress import Cancelled, OnProgress, Phase, Watch, go_on, say_nothing
from memdir.dream.sets import MODEL, RULES, VERB, Checks, Patch, PatchSet, list_kept, make_id
from memdir.dream.weighing import KEY, WHO, weigh
from memdir.errors import MemdirError
from memdir.frozen import dataclass, replace
from memdir.judging import SHARED, mask_words
from memdir.limits import DREAM_VERIFY_SECONDS
from memdir.models import new_run
from memdir.records import Forget, InboxItem, InboxKind, IndexEdit, Memory, Model, Origin, Rewrite
from memdir.staging import Staging
from memdir.store.contract import Verbs, utc_now
from memdir.store.files import FileStore
from memdir.store.payloads import render_edits
from memdir.store.plan import digest_of, encode
from memdir.store.shared import is_team
from memdir.tidy import Tidied, make_item, plan_tidy
from memdir.verify.records import Verdict
from memdir.verify.verifying import refresh


def plan_dream(
    store: Verbs,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    surroundings: Surroundings = NOWHERE,
    on_progress: OnProgress = say_nothing,
    cancelled: Cancelled = go_on,
) -> PatchSet:
    """What a dream would change, without a model by rules alone; raises ModelError or BudgetError if a model fails."""
    return plan(store, Watch(on_progress, cancelled), model=model, now=now or utc_now(), surroundings=surroundings)


def plan(store: Verbs, watch: Watch, *, model: Model | None, now: datetime, surroundings: Surroundings) -> PatchSet:
    """The same, watched by the caller, who sees what it took even where it fails."""
    watch.enter(Phase.TIDY)
    if isinstance(store, FileStore) and surroundings.project is not None:
        refresh(store, surroundings.project, now=now, seconds=DREAM_VERIFY_SECONDS)
    memories = _read_memories(store)
    verdicts = read_verdicts(store, memories)
    tidied = _look_at_age(store, _tidy(store, now), memories, verdicts, surroundings.half_lives, now)
    ground = Overlaid(store, [patch.edits for patch in tidied.patches], now=now)
    watch.touch(sum(not at.is_index for at in ground.batch.changes))
    if model is None:
        watch.enter(Phase.CHECK)
        checks, items = _count(store, ground, ()), tidied.list_items(())
        return PatchSet(make_id(now), now, RULES, tidied.patches, items, checks=checks, spared=tidied.spared)
    return _plan_with(new_run(model), store, ground, tidied, verdicts, watch, now, surroundings)


def settle_logs(store: FileStore) -> None:
    """Mark the logs of dreams that were applied: one that was killed right behind its act could not do it."""
    for kept in reversed(list_kept(store.state)):
        if kept.logs and store.has_mark(kept.mark):
            mark_read(store, kept.logs)


@dataclass(frozen=True, slots=True)
class _Tidied:
    """What the rules want; a proposal about a memory that the model deals with is left to the next dream."""

    patches: tuple[Patch, ...]
    proposals: tuple[tuple[tuple[str, ...], InboxItem], ...]
    spared: int = 0

    def list_items(self, changed: Iterable[Patch]) -> tuple[InboxItem, ...]:
        touched = {name for patch in changed for name in patch.names}
        return tuple(item for names, item in self.proposals if not touched.intersection(names))


def _tidy(store: Verbs, now: datetime) -> _Tidied:
    found = plan_tidy(store, now=now)
    origin = Origin(WHO, f"by {RULES}")
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
    store: Verbs,
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
    origin = Origin(WHO, f"by {RULES}")
    repairs = [at for at in propose_repairs(free, verdicts, now, origin) if _is_unasked(store, at[1])]
    reviews = propose_reviews(store, free, verdicts, lives, now, origin)
    return replace(tidied, proposals=(*tidied.proposals, *repairs, *reviews))


def _read_memories(store: Verbs) -> list[Memory]:
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


def _list_patches(found: Tidied) -> list[Patch]:
    return [
        Patch(at.kind.value, at.names, at.edits, at.reason, (at.evidence,) if at.evidence else ())
        for at in found.patches
    ]


def _leave_taken_back(store: Verbs, patches: Sequence[Patch]) -> tuple[Patch, ...]:
    """The patches without those that a dream made before and somebody undid: a no holds until the text is another."""
    if not patches:
        return ()
    undone = (act for act in store.acts() if act.verb == VERB and act.undone_by is not None)
    taken = {(at.path, at.before, at.after) for act in undone for at in act.changes}
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
    store: Verbs,
    ground: Overlaid,
    tidied: _Tidied,
    verdicts: Mapping[str, Verdict],
    watch: Watch,
    now: datetime,
    surroundings: Surroundings,
) -> PatchSet:
    material = gather(store, ground, verdicts, lives=surroundings.half_lives, now=now)
    staging = Staging(ground, now=now)
    memory = Path(getattr(store, "root", "/memory"))
    dreamt = dream_on(model, staging, ground, material, memory=memory, surroundings=surroundings, watch=watch, now=now)
    watch.enter(Phase.CHECK)
    weighed = weigh(staging, ground, dreamt, material.list_messages(), now=now)
    wanted = _leave_taken_back(store, weighed.patches)
    done = watch.now
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


def _is_unasked(store: Verbs, item: InboxItem) -> bool:
    """Whether it neither waits already nor was decided: nobody is asked the same thing twice."""
    return store.inbox_find(item.key) is None


def _count(store: Verbs, ground: Overlaid, by_model: tuple[Removed, ...]) -> Checks:
    """What there is, and what goes: by the rules, then by the model."""
    before = _read_texts(store)
    dated = [(before[at.name], at.modified.timestamp()) for at in store.scan() if at.name in before]
    touched = {name: text for name, text in before.items() if ground.is_changed(name)}
    by_rules: tuple[Removed, ...] = ()
    if touched:
        remaining = Remaining(_read_texts(ground), find_ages(dated))
        by_rules = find_removed(touched, remaining)
    removed = (*by_rules, *by_model)
    return Checks(
        memories=len(before),
        sentences=sum(len(list_sentences(text)) for text in before.values()),
        removed=len(removed),
        elsewhere=sum(at.fate is Fate.KEPT for at in removed),
        overtaken=sum(at.fate is Fate.OVERTAKEN for at in removed),
    )


def _read_texts(ground: Verbs | Overlaid) -> dict[str, str]:
    texts = {}
    for header in ground.scan():
        try:
            texts[header.name] = ground.read(header.name).text
        except MemdirError:
            continue
    return texts
