"""From a store to a patch set: rules first, then the model on what they would leave. Nothing is changed.

The model works on an overlay in memory, so its changes are written against the tidied texts, while the edits of the set
expect the files as they are on the disk. Applied together, in this order, they fit.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from pathlib import Path

from memdir.dream.by_model import dream_on
from memdir.dream.losses import Fate, Remaining, Removed, find_ages, find_removed, list_sentences
from memdir.dream.material import NOWHERE, Surroundings, gather, mark_read
from memdir.dream.overlay import Overlaid
from memdir.dream.progress import Cancelled, OnProgress, Phase, Watch, go_on, say_nothing
from memdir.dream.sets import MODEL, RULES, VERB, Checks, Patch, PatchSet, list_kept, make_id
from memdir.dream.weighing import WHO, weigh
from memdir.errors import MemdirError
from memdir.frozen import dataclass
from memdir.models import new_run
from memdir.records import Forget, InboxItem, Model, Origin, Rewrite
from memdir.staging import Staging
from memdir.store.contract import Verbs, utc_now
from memdir.store.files import FileStore
from memdir.store.plan import digest_of, encode
from memdir.tidy import Tidied, make_item, plan_tidy


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
    tidied = _tidy(store, now)
    ground = Overlaid(store, [patch.edits for patch in tidied.patches], now=now)
    watch.touch(sum(not at.is_index for at in ground.batch.changes))
    if model is None:
        watch.enter(Phase.CHECK)
        checks, items = _count(store, ground, ()), tidied.list_items(())
        return PatchSet(make_id(now), now, RULES, tidied.patches, items, checks=checks, spared=tidied.spared)
    return _plan_with(new_run(model), store, ground, tidied, watch, now, surroundings)


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
    patches = _list_patches(found)
    wanted = _leave_taken_back(store, patches)
    spared = frozenset(name for at in patches if at not in wanted for name in at.names)
    if spared:  # once more, as if they were pinned: the index has to fit what stays
        found = plan_tidy(store, now=now, keep=spared)
    return _Tidied(
        _leave_taken_back(store, _list_patches(found)) if spared else wanted,
        tuple(
            (at.names, item)
            for at in found.proposals
            if _is_unasked(store, item := make_item(at, at=now, origin=origin))
        ),
        len(patches) - len(wanted),
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
    watch: Watch,
    now: datetime,
    surroundings: Surroundings,
) -> PatchSet:
    material = gather(store, ground, now=now)
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
        dreamt.summary,
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
