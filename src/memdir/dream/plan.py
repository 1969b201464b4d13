"""Plan a dream as a patch set, and apply a patch set as one change.

Planning changes nothing. The built-in patterns plan first, and the model works on their result in an overlay in memory, so
that its changes are based on the tidied texts. The edits expect the files on disk and must be applied in this order.
Patches are certain, proposals need review: no sentence is removed unless another memory contains it or the user has
reviewed the change.

Applying adds the inbox items, then makes all changes together, then checks that no sentence was lost. A patch whose memory
has been changed or pinned since is left out completely. Logs are marked as summarised last, when their memories exist.
Applying a set again does nothing.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import memdir.dream.records as records
import memdir.dream.review as review
from memdir.dream.by_model import NO_CONTEXT, DreamContext, dream_with_model, gather, split_log
from memdir.dream.duplicates import DuplicateMerge, MemoryFacts, find_words
from memdir.dream.lock import DreamLock
from memdir.dream.logs import LogSlice, mark_shown_logs, select_logs
from memdir.dream.records import DreamPhase, DreamProgress, NamedItem, Patch, PatchKind, PatchSet, make_key, stamp
from memdir.dream.stale import BY_RULES, propose_expired, propose_repairs, propose_reviews
from memdir.errors import BudgetError, FormatError, MemdirError, ModelError, NotFoundError
from memdir.extraction.find import SAVE, MemoryRequest, compose_memory, find_requests
from memdir.extraction.merge import place
from memdir.extraction.provenance import SHARED, mask_words
from memdir.files import check_name, check_path
from memdir.format import frontmatter
from memdir.format.document import add_to_fact, parse_document
from memdir.format.frontmatter import decode, digest_of, encode, make_memory, read_time
from memdir.format.index import INDEX_FILE, IndexLine, find_long_lines, parse_index
from memdir.frozen import dataclass, replace
from memdir.language.dates import make_absolute
from memdir.language.requests import RequestCategory
from memdir.language.sentences import find_sentences
from memdir.limits import DREAM_LINES, DREAM_VERIFY_SECONDS, INDEX_LINE_CHARS
from memdir.models.open import new_run
from memdir.models.staged import Staging, make_edits
from memdir.records import (
    TEAM_FOLDER,
    AddPointer,
    Change,
    Draft,
    DropPointer,
    Edit,
    Forget,
    InboxItem,
    InboxKind,
    InboxState,
    IndexEdit,
    Kind,
    Message,
    Model,
    Origin,
    ReplaceLine,
    Rewrite,
    Save,
    StoredMemory,
)
from memdir.store.batch import StoreOverlay
from memdir.store.contract import Folder, StoreBase, utc_now
from memdir.store.facts import find_ages
from memdir.store.inbox import find_subjects, render_edits
from memdir.store.plan import find_unfit, index_path, is_index_path, is_team
from memdir.text import fold, fold_words, one_line, shorten
from memdir.verify.check import refresh
from memdir.verify.records import find_verdicts

_TYPED_ENTRY = re.compile(rf"\[?(?P<kind>{'|'.join(Kind)})\]?(?:\s*[:,–—-]\s*|(?<=\])\s+)(?P<text>.+)", re.I | re.S)
_HOOK_CHARS = 24  # min characters of a useful hook


def plan_dream(
    store: StoreBase,
    *,
    model: Model | None = None,
    now: datetime | None = None,
    context: DreamContext = NO_CONTEXT,
    progress: DreamProgress | None = None,
) -> PatchSet:
    """Plan the changes of a dream. If there is no model or it fails, only built-in patterns are used."""
    now, progress = now or utc_now(), progress or DreamProgress()
    progress.enter(DreamPhase.TIDY)
    folder = store if isinstance(store, Folder) else None
    if folder is not None and context.project is not None:
        refresh(folder, context.project, now=now, seconds=DREAM_VERIFY_SECONDS)
    memories = records.read_memories(store)
    verdicts = {}
    if folder is not None:
        verdicts = find_verdicts(folder, {name: memory.digest for name, memory in memories.items()})
    tidied = _plan_patterns(store, now)
    busy = tidied.busy
    free = [memory for name, memory in memories.items() if name not in busy]
    repairs = [
        proposal for proposal in propose_repairs(free, verdicts, now) if store.inbox_find(proposal[1].key) is None
    ]
    reviews = propose_reviews(store, free, verdicts, context.half_lives, now)
    tidied = replace(tidied, proposals=(*tidied.proposals, *repairs, *reviews))
    overlay = StoreOverlay(store, [patch.edits for patch in tidied.patches], now=now)
    progress.touch(sum(not change.is_index for change in overlay.batch.changes))
    patch_set = PatchSet(records.make_id(now), now, records.RULES, tidied.patches, spared=tidied.spared)
    if model is None:
        logged = _plan_from_logs(store, folder, overlay, now) if folder is not None else TidyResult()
        progress.enter(DreamPhase.CHECK)
        items = (*tidied.list_items(logged.patches), *logged.list_items(()))
        return replace(patch_set, patches=(*patch_set.patches, *logged.patches), proposals=items, logs=logged.logs)
    gathered = gather(store, overlay, verdicts, lives=context.half_lives, now=now)
    staging, root, fresh = Staging(overlay, now=now), Path("/memory") if folder is None else folder.root, new_run(model)
    try:
        run = dream_with_model(
            fresh, staging, overlay, gathered, memory=root, context=context, progress=progress, now=now
        )
    except (ModelError, BudgetError) as error:
        progress.add(getattr(error, "usage", None))
        progress.enter(DreamPhase.CHECK)
        patch_set = replace(patch_set, error=mask_words(one_line(str(error)), store.rules.find))
        return _count_spent(replace(patch_set, by=records.MODEL, proposals=tidied.list_items(())), progress)
    progress.enter(DreamPhase.CHECK)
    ages = find_ages(store, list(memories.values()), now=now)
    notes = [entry for log in gathered.logs for entry in split_log(log)]  # to trace where a text came from
    safe, doubtful = review.review_patches(
        staging, overlay, run, notes, ages=ages, reader=progress.wrap(fresh), now=now
    )
    accepted = _drop_undone(store, safe)
    result = replace(
        patch_set,
        by=records.MODEL,
        patches=(*tidied.patches, *accepted),
        proposals=(
            *tidied.list_items(accepted, doubtful),
            *(item for item in doubtful if store.inbox_find(item.key) is None),
        ),
        logs=gathered.logs,
        summary=mask_words(run.summary, store.rules.find),
        refused=run.refused,
        spared=tidied.spared + len(safe) - len(accepted),
    )
    return _count_spent(result, progress)


def _count_spent(patch_set: PatchSet, progress: DreamProgress) -> PatchSet:
    spent = progress.now
    return replace(patch_set, usage=spent.usage, requests=spent.turns, calls=spent.calls)


def mark_applied_logs(store: StoreBase, state: Path) -> None:
    """Mark the logs of applied dreams as summarised, in case a dream was interrupted before doing so."""
    for patch_set in reversed(records.list_sets(state)):
        if patch_set.logs and store.has_mark(patch_set.mark):
            _mark_logs(store, patch_set)


def _mark_logs(store: StoreBase, patches: PatchSet) -> None:
    if isinstance(store, Folder):
        mark_shown_logs(store, patches.logs)


@dataclass(frozen=True, slots=True)
class TidyResult:
    """The changes planned without a model. `logs` are the daily logs that become memories."""

    patches: tuple[Patch, ...] = ()
    proposals: tuple[NamedItem, ...] = ()
    spared: int = 0
    logs: tuple[LogSlice, ...] = ()

    @property
    def busy(self) -> set[str]:
        """Return the names of the memories with a planned change or proposal."""
        changing = [patch for patch in self.patches if not all(isinstance(edit, IndexEdit) for edit in patch.edits)]
        groups = (*(patch.names for patch in changing), *(names for names, _ in self.proposals))
        return {name for names in groups for name in names}

    def list_items(self, changed: Iterable[Patch], others: Iterable[InboxItem] = ()) -> tuple[InboxItem, ...]:
        """Return at most one inbox item per memory, and none for memories that this dream changes."""
        touched = {fold(name) for patch in changed for name in patch.names}
        touched |= {name for item in others for name in find_subjects(item)}
        items = []
        for names, item in self.proposals:
            if touched.isdisjoint(subjects := {fold(name) for name in names}):
                items.append(item)
                touched |= subjects
        return tuple(items)


def _plan_from_logs(store: StoreBase, folder: Folder, overlay: StoreOverlay, now: datetime) -> TidyResult:
    """Plan memories from log entries that match a pattern or name a type. The others become one inbox item per day."""
    staging, items, logs = Staging(overlay, now=now), list[InboxItem](), tuple(select_logs(folder))
    days: dict[str, str] = {}
    for log in logs:
        remaining = [entry.text for entry in split_log(log) if not _place_entry(entry, staging)]
        days |= {memory.name: days.get(memory.name, log.day.isoformat()) for memory in staging.staged}
        if remaining:
            items.append(_make_log_item(log, [mask_words(text, store.rules.find) for text in remaining], now))
    patches = []
    for memory in staging.staged:
        kind = "create" if memory.before is None else "update"
        edits = make_edits([memory if memory.before is None else replace(memory, text=stamp(memory.text or "", now))])
        patches.append(Patch(kind, (memory.name,), edits, f"from the log of {days[memory.name]}"))
    waiting = tuple(((), item) for item in items if store.inbox_find(item.key) is None)
    return TidyResult(_drop_undone(store, patches), waiting, logs=logs)


def _place_entry(entry: Message, staging: Staging) -> bool:
    """Stage a log entry if a pattern recognises it. Return whether it was staged."""
    typed_entry, now = _TYPED_ENTRY.fullmatch(entry.text), entry.at or utc_now()
    before = staging.copy()
    try:
        if typed_entry is None:
            requests = [request for request in find_requests([entry], now=now) if request.action == SAVE]
        else:
            draft = compose_memory(typed_entry["text"], now=now, kind=Kind(typed_entry["kind"].lower()))
            words = (draft.title, draft.description, draft.body, typed_entry["text"])
            requests = [MemoryRequest(RequestCategory.REQUEST, SAVE, draft.kind, *words)]
        names = [placement.name for request in requests for placement in place(request, staging)]
        if names and not any(frontmatter.parse_fields(staging.find_before(name) or "").pinned for name in names):
            return True
    except MemdirError:
        pass
    staging.restore(before)
    return False


def _make_log_item(log: LogSlice, entries: Sequence[str], now: datetime) -> InboxItem:
    day, body = log.day.isoformat(), "\n".join(f"- {text}" for text in entries)
    description = shorten(f"Entries of the daily log of {day}: {one_line(entries[0])}", 120)
    draft = Draft(Kind.PROJECT, f"Log of {day}", description, f"{body}\n")
    edits = render_edits([Save(draft)])
    count = f"{len(entries)} entries" if len(entries) > 1 else "1 entry"
    why = f"not made into memories without a model: {count}; approving saves the text as one memory"
    payload: dict[str, object] = {"edits": edits, "evidence": list(entries[:3])}
    return InboxItem(InboxKind.PROPOSAL, f"log of {day}", why, now, make_key(edits), "", BY_RULES, payload)


def _plan_patterns(store: StoreBase, now: datetime) -> TidyResult:
    tidied = plan_tidy(store, now=now)
    all_patches = tidied.patches
    patches = [patch for patch in all_patches if not _changes_team(patch)]
    left = accepted = _drop_undone(store, patches)
    accepted_ids = set(map(id, accepted))  # by identity, because comparing all patches would be slow
    spared = frozenset(name for patch in all_patches if id(patch) not in accepted_ids for name in patch.names)
    if spared:  # treat them as pinned and plan again, so that the index fits
        tidied = plan_tidy(store, now=now, keep=spared)
        left = _drop_undone(store, [patch for patch in tidied.patches if not _changes_team(patch)])
    proposals = [*tidied.proposals, *(_make_team_item(patch, now) for patch in all_patches if _changes_team(patch))]
    new = tuple(proposal for proposal in proposals if store.inbox_find(proposal[1].key) is None)
    return TidyResult(left, new, len(patches) - len(accepted))


def _changes_team(patch: Patch) -> bool:
    """Return whether a patch changes a team memory, apart from index lines."""
    return any(map(is_team, patch.names)) and not all(isinstance(edit, IndexEdit) for edit in patch.edits)


def _make_team_item(patch: Patch, now: datetime) -> NamedItem:
    edits = render_edits(patch.edits)
    payload: dict[str, object] = {"edits": edits, "evidence": list(patch.evidence)}
    name, title, why = patch.names[0], f"{patch.kind} {patch.names[0]}", f"{SHARED}: {patch.reason}"
    item = InboxItem(InboxKind.PROPOSAL, title, why, now, make_key(edits), name, BY_RULES, payload)
    return patch.names, item


def _drop_undone(store: StoreBase, patches: Sequence[Patch]) -> tuple[Patch, ...]:
    """Drop patches that the user undid or rejected after an earlier dream, unless the text has changed since."""
    if not patches:
        return ()
    undone = (change for change in store.changes() if change.verb == records.VERB and change.undone_by is not None)
    files = {(file.path, file.before, file.after) for change in undone for file in change.files}
    starts = {(path, before) for path, before, _ in files}

    def was_undone(patch: Patch) -> bool:
        forgets = [(f"{edit.name}.md", edit.expect, None) for edit in patch.edits if isinstance(edit, Forget)]
        rewrites = [edit for edit in patch.edits if isinstance(edit, Rewrite)]
        ends = [(f"{edit.name}.md", edit.expect, digest_of(encode(edit.text))) for edit in rewrites]
        is_same = starts.issuperset(end[:2] for end in ends) if forgets else files.issuperset(ends)
        return bool(forgets or rewrites) and files.issuperset(forgets) and is_same

    return tuple(patch for patch in patches if not was_undone(patch) and not is_rejected(store, patch))


def reject_patches(store: StoreBase, patches: Sequence[Patch], now: datetime) -> None:
    """Record these patches as rejected inbox items, so that they are not planned again."""
    note = "rejected in the review of a dream"
    for patch in patches:
        _, item = _make_team_item(patch, now)
        (added,) = store.inbox_add([replace(item, why=patch.reason)])
        if added.state is InboxState.WAITING:
            store.inbox_decide(added.id, InboxState.REJECTED, note)


def is_rejected(store: StoreBase, patch: Patch) -> bool:
    item = store.inbox_find(make_key(render_edits(patch.edits)))
    return item is not None and item.state is InboxState.REJECTED


@dataclass(frozen=True, slots=True)
class RemovalProof:
    """How many removed sentences are still in other memories or in history, and those that are in neither."""

    removed: int = 0
    elsewhere: int = 0
    in_history: int = 0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of applying patches. If `repeated`, they were applied before; `undone_by` is the change that undid it."""

    change: int | None
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    waiting: tuple[int, ...] = ()
    proof: RemovalProof = RemovalProof()
    repeated: bool = False
    undone_by: int | None = None


def apply_dream(store: StoreBase, patches: PatchSet, lock: DreamLock, now: datetime) -> ApplyResult:
    """Apply a patch set. Raises LockedError, without making changes, if the lock was lost."""
    lock.check()
    if store.has_mark(patches.mark):
        _mark_logs(store, patches)
        change = store.change((), verb=records.VERB, mark=patches.mark).change
        undone_by = None if change is None else store.read_change(change).undone_by
        return ApplyResult(change, repeated=True, undone_by=undone_by)
    before = _read_texts(store, _list_names(patches))
    known = {item.id for item in store.inbox(None)}
    proposals = {item.key for item in patches.proposals}
    subjects = frozenset[str]().union(*map(find_subjects, patches.proposals))
    for item in store.inbox():  # replace an earlier dream's item about the same memory
        if (
            item.origin.who == records.WHO
            and item.key not in proposals
            and not subjects.isdisjoint(find_subjects(item))
        ):
            store.inbox_withdraw(item.id)
    items = store.inbox_add(replace(item, at=now) for item in patches.proposals)
    lock.check()
    result = store.change(
        [patch.edits for patch in patches.patches],
        verb=records.VERB,
        origin=Origin(records.WHO, f"by {patches.by}, dream {patches.id}"),
        mark=patches.mark,
        drop_conflicts=True,
        keep_pinned=True,
    )
    _mark_logs(store, patches)
    waiting = tuple(item.id for item in items if item.id not in known)
    dropped = tuple(dict.fromkeys(result.dropped))
    if result.change is None:
        return ApplyResult(None, dropped=dropped, waiting=waiting)
    record = store.read_change(result.change)
    names = tuple(file.path.removesuffix(".md") for file in record.files if not is_index_path(file.path))
    return ApplyResult(record.id, names, dropped, waiting, _find_removed(store, record, before), result.repeated)


def _find_removed(store: StoreBase, change: Change, before: Mapping[str, str]) -> RemovalProof:
    """Search all memories and the history for every sentence that a change removed."""
    names = [header.name for header in store.scan()]
    now = {name: _fold_all(text) for name, text in _read_texts(store, names).items()}
    standing = frozenset[str]().union(*now.values())
    removed = elsewhere = in_history = 0
    missing: list[str] = []
    for file in change.files:
        name = file.path.removesuffix(".md")
        if name not in before or file.before is None:
            continue
        folds = {text: fold_words(text, signs=True) for text in parse_document(before[name]).list_sentences()}
        lost = {sentence: folded for sentence, folded in folds.items() if folded not in now.get(name, ())}
        recorded = frozenset[str]()
        with suppress(NotFoundError):
            recorded = _fold_all(store.read_content(file.before).decode("utf-8", "replace"))
        removed += len(lost)
        elsewhere += sum(folded in standing for folded in lost.values())
        in_history += sum(folded in recorded for folded in lost.values())
        missing += [sentence for sentence, folded in lost.items() if folded not in recorded and folded not in standing]
    return RemovalProof(removed, elsewhere, in_history, tuple(missing))


def _list_names(patches: PatchSet) -> Iterator[str]:
    for edit in (edit for patch in patches.patches for edit in patch.edits):
        if isinstance(edit, Rewrite | Forget):
            yield edit.name
        elif isinstance(edit, Save) and edit.draft.name:
            yield edit.draft.name


def _read_texts(store: StoreBase, names: Iterable[str]) -> dict[str, str]:
    texts = {}
    for name in dict.fromkeys(names):
        with suppress(MemdirError):
            texts[name] = store.read(name).text
    return texts


def _fold_all(text: str) -> frozenset[str]:
    return frozenset(fold_words(sentence, signs=True) for sentence in parse_document(text).list_sentences())


def plan_tidy(store: StoreBase, *, now: datetime, keep: frozenset[str] = frozenset()) -> TidyResult:
    """Plan the repairs that need no model. Does not write anything.

    Relative dates come first, then duplicates, then the index: broken lines are removed, missing ones added, and long
    ones shortened after moving their details into the memory. Later steps skip merged memories. Pinned memories, and
    those named in `keep`, are never changed.
    """
    headers = store.scan()
    memories = records.read_memories(store)
    pinned = keep | {header.name for header in headers if header.pinned}
    odd = frozenset(name for name in memories if _has_invalid_name(name))
    fixed, originals, indexes = pinned | odd, dict(memories), _read_indexes(store)
    digests = {name: memory.digest for name, memory in memories.items()}

    dated: dict[str, Patch] = {}
    for name, memory in memories.items():
        patch = _plan_dates(memory, now) if name not in fixed else None
        if patch is not None and isinstance(edit := patch.edits[0], Rewrite):
            dated[name] = patch
            memories[name] = make_memory(name, encode(edit.text), memory.header.signature, memory.header.scope)
    facts = {name: MemoryFacts(memory) for name, memory in memories.items() if not memory.header.problem}
    merge = DuplicateMerge(facts, headers, digests, _find_hooks(indexes, memories), pinned, odd)
    merged = list(merge.run())
    lines: list[Patch] = []
    if not store.rules.skip_index:
        gone = merge.gone | odd
        free = {fold(name): fact.memory for name, fact in facts.items() if name not in merge.touched}
        for prefix, text in indexes.items():
            own = [name for name in memories if index_path(name)[0] == f"{prefix}{INDEX_FILE}"]
            fit = [name for name in own if name not in gone and not find_unfit(memories[name].header, store.rules)]
            lines += _plan_long_lines(text, prefix, free, digests, fixed)
            fit.sort(key=lambda name: (memories[name].header.modified, name), reverse=True)
            lines += _plan_pointers(text, prefix, own, fit, store)
    busy = merge.touched | dated.keys() | pinned
    remaining = [fact for name, fact in sorted(merge.facts.items()) if name not in busy]
    # Each repair searches the full index, so limit their number; the next dream repairs the other lines.
    patches = (*dated.values(), *merged, *lines[:DREAM_LINES])
    changed = {edit.name for patch in patches for edit in patch.edits if isinstance(edit, Rewrite | Forget)}
    changed |= {patch.names[0] for patch in merged}
    ages = find_ages(store, [originals[name] for name in changed], now=now)
    return TidyResult(tuple(_stamp_all(patches, ages)), tuple(propose_expired(remaining, now)))


def _stamp_all(patches: Iterable[Patch], ages: dict[str, datetime]) -> Iterator[Patch]:
    """Yield the patches, with each rewritten memory as old as its newest source."""
    for patch in patches:
        if merged_ages := [ages[edit.name] for edit in patch.edits if isinstance(edit, Forget)]:
            ages[patch.names[0]] = max(ages[patch.names[0]], *merged_ages)
        edits = (
            replace(edit, text=stamp(edit.text, ages[edit.name])) if isinstance(edit, Rewrite) else edit
            for edit in patch.edits
        )
        yield replace(patch, edits=tuple(edits))


def _has_invalid_name(name: str) -> bool:
    """Return whether a name is invalid, such as "x (1)" from a sync tool. Such a memory can only be deleted."""
    with suppress(MemdirError):
        return not check_name(name)
    return True


def _read_indexes(store: StoreBase) -> dict[str, str]:
    """Return each readable index by the prefix of its memory names."""
    indexes: dict[str, str] = {}
    for prefix in ("", f"{TEAM_FOLDER}/"):
        with suppress(MemdirError):
            indexes[prefix] = decode(store.read_bytes(prefix + INDEX_FILE) or b"")
    return indexes


def _find_hooks(indexes: Mapping[str, str], memories: Mapping[str, StoredMemory]) -> dict[str, tuple[str, ...]]:
    names = {fold(name): name for name in memories}
    hooks: defaultdict[str, list[str]] = defaultdict(list)
    for prefix, text in indexes.items():
        for line in parse_index(text):
            name = names.get(fold(prefix + line.name)) if line.is_pointer else None
            if name is not None:
                hooks[name] += [line.hook.rstrip("…")] if line.hook else []
    return {name: tuple(lines) for name, lines in hooks.items()}


def _plan_dates(memory: StoredMemory, now: datetime) -> Patch | None:
    """Make the dates in a memory absolute, relative to when it was written. Skips Why and How to apply."""
    header = memory.header
    if header.kind is not Kind.PROJECT or header.problem:
        return None
    when = read_time(frontmatter.parse_fields(memory.text).modified) or header.modified.astimezone(now.tzinfo)
    document = parse_document(memory.text)
    fact = document.parts[0]
    dated, in_body = make_absolute(document.text[fact.start : fact.end], when)
    description, in_description = make_absolute(header.description, when)
    if not in_body and not in_description:
        return None
    try:
        text = document.text[: fact.start] + dated + document.text[fact.end :]
        text = frontmatter.set_fields(text, {"description": description}) if in_description else text
    except FormatError:
        return None
    replacements = dict.fromkeys(f"{date.was} → {date.now_text}" for date in (*in_body, *in_description))
    reason = f"dates of {header.name} said as of {when.date().isoformat()}, when it was written"
    edit = Rewrite(header.name, text, memory.digest)
    return Patch(PatchKind.DATE, (header.name,), (edit,), reason, ("; ".join(replacements),))


def _plan_long_lines(
    text: str, prefix: str, memories: Mapping[str, StoredMemory], digests: Mapping[str, str], keep: frozenset[str]
) -> Iterator[Patch]:
    """Shorten the long lines of one index. `memories` are those without other planned changes."""
    names: set[str] = set()
    for line in find_long_lines(text):
        memory = memories.get(fold(prefix + line.name)) if line.is_pointer else None
        if memory is None or memory.header.name in names:
            continue
        name, whole = memory.header.name, line.text.strip()
        names.add(name)
        short, details = _shorten_line(line), tuple(_find_details(line, memory))
        if short == whole or (details and name in keep):
            continue
        edits: list[Edit] = [ReplaceLine(name, whole, short)]
        if details:
            try:
                moved = add_to_fact(parse_document(memory.text), "; ".join(details) + ".")
            except FormatError:
                continue
            edits.insert(0, Rewrite(name, moved, digests[name]))
        reason = f"the index line of {name} has {len(whole)} characters"
        evidence = "; ".join(details) or "the memory says all of it"
        yield Patch(PatchKind.LONG_LINE, (name,), tuple(edits), reason, (evidence,))


def _plan_pointers(text: str, prefix: str, own: Iterable[str], fit: Iterable[str], store: StoreBase) -> Iterator[Patch]:
    """Remove index lines without a file, and add missing ones."""
    entries = dict.fromkeys(prefix + line.name for line in parse_index(text) if line.is_pointer)
    known = set(map(fold, own))
    for name in entries:
        if fold(name) not in known and _is_missing(store, f"{name}.md"):
            reason = f"the index points to {name}.md, which does not exist"
            yield Patch(PatchKind.DEAD_POINTER, (name,), (DropPointer(name),), reason, ("no such file",))
    folded = set(map(fold, entries))
    for name in fit:
        if fold(name) not in folded:
            reason = f"no line of the index points to {name}"
            yield Patch(PatchKind.MISSING_POINTER, (name,), (AddPointer(name),), reason, (f"{name}.md exists",))


def _is_missing(store: StoreBase, path: str) -> bool:
    """Return whether a path is valid but the file does not exist."""
    with suppress(MemdirError):
        check_path(path)
        return store.read_bytes(path) is None
    return False


def _shorten_line(line: IndexLine) -> str:
    """Return the index line with its description shortened to the limit."""
    whole = line.text.strip()
    if not line.hook:  # an older format: the text, then the file in brackets
        start = whole.rfind("[")
        room = INDEX_LINE_CHARS - (len(whole) - start) - 1
        return f"{_clip(whole[:start].rstrip(), room)} {whole[start:]}" if start > 0 and room > _HOOK_CHARS else whole
    link = whole[: len(whole) - len(line.hook)]
    room = INDEX_LINE_CHARS - len(link)
    return link.rstrip(" —–:-") if room < _HOOK_CHARS else link + _clip(line.hook, room)


def _clip(words: str, room: int) -> str:
    """Shorten a text, at the end of a clause if possible."""
    if len(words) <= room:
        return words
    for mark in ("; ", ". ", ", "):
        end = words.rfind(mark, 0, room)
        if end >= _HOOK_CHARS:
            return words[:end] + ("…" if mark == ", " else "")  # "on Fridays, except …" must not become "on Fridays"
    return shorten(words, room)


def _find_details(line: IndexLine, memory: StoredMemory) -> Iterator[str]:
    """Yield the parts of an index line's description that contain words missing from the memory."""
    body = frontmatter.split_frontmatter(memory.text).body
    known = find_words(f"{memory.header.title}. {memory.header.description}. {body}")
    for part in (line.hook or line.title).split("; "):
        for start, end in find_sentences(part):
            plain = one_line(part[start:end]).strip(" .;")
            if plain and not find_words(plain) <= known:
                yield plain
