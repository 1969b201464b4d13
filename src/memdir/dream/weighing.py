"""What may be kept of what a model staged: patches that lose nothing and rest on our own words, the rest as proposals.

Changes that belong together stand or fall together: a memory that was merged away goes only if the one that took over
its sentences is written. A change that would lose a sentence, or carries text from tools, files or pages, waits in the
inbox. A run that would take away a fifth of everything is not believed at all.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from memdir.dream.believing import Belief, find_doubts
from memdir.dream.by_model import Dreamt
from memdir.dream.losses import Fate, Remaining, Removed, find_ages, find_removed, list_sentences
from memdir.dream.overlay import Overlaid
from memdir.dream.sets import Patch
from memdir.errors import MemdirError, ReplyError
from memdir.frozen import dataclass, replace
from memdir.judging import Doubt, mask_doubt, mask_words
from memdir.limits import DREAM_GONE_LEAST, DREAM_GONE_SHARE
from memdir.records import Edit, InboxItem, InboxKind, Message, Origin, Rewrite
from memdir.staging import Staged, Staging, make_edits
from memdir.store.payloads import Quote, render_edits, render_evidence
from memdir.store.plan import Finder, digest_of
from memdir.text import fold, one_line, shorten

REASON = "tidied by the model"
WHO = "dream"
KEY = "dream:"


@dataclass(frozen=True, slots=True)
class Weighed:
    """What is applied and what waits; `removed` are the sentences that go, and where they stand."""

    patches: tuple[Patch, ...] = ()
    proposals: tuple[InboxItem, ...] = ()
    removed: tuple[Removed, ...] = ()


def weigh(staging: Staging, ground: Overlaid, dreamt: Dreamt, notes: Iterable[Message], *, now: datetime) -> Weighed:
    """Sort what was staged; raises ReplyError when too much would be gone. `notes` are the log's entries."""
    staged = staging.staged
    if not staged:
        return Weighed()
    before, ages = _read_all(ground)
    after = {name: text for name, text in before.items() if name not in {at.name for at in staged}}
    after |= {at.name: at.text for at in staged if at.text is not None}
    remaining = Remaining(after, ages)
    removed = find_removed({at.name: at.before for at in staged if at.before is not None}, remaining)
    _check_gross(staged, removed, before)
    belief = Belief(ground.scan(), before, ages, tuple(notes), dreamt.shown)
    doubts = find_doubts(staged, belief, dreamt.evidence, ground.rules)
    return _sort(_group(staged, removed), removed, doubts, ground, dreamt, before, now)


def _read_all(ground: Overlaid) -> tuple[dict[str, str], dict[str, float]]:
    texts: dict[str, str] = {}
    dated = []
    for header in ground.scan():
        try:
            texts[header.name] = ground.read(header.name).text
        except MemdirError:
            continue
        dated.append((texts[header.name], header.modified.timestamp()))
    return texts, find_ages(dated)


# --- too much -------------------------------------------------------------------------------------------------------


def _check_gross(staged: Sequence[Staged], removed: Sequence[Removed], before: Mapping[str, str]) -> None:
    """Deletions that are no plain merges, and sentences that would be nowhere, counted over the whole run."""
    unkept = {at.name for at in removed if at.fate is not Fate.KEPT}
    lost_of = Counter(at.name for at in removed if at.fate is Fate.LOST)
    hollow = {at.name for at in staged if at.before and lost_of[at.name] >= len(list_sentences(at.before)) > 0}
    gone = sum(at.name in hollow or (at.text is None and at.name in unkept) for at in staged)
    lost = sum(at.fate is Fate.LOST for at in removed)
    said = sum(len(list_sentences(text)) for text in before.values())
    if _is_gross(gone, len(before), DREAM_GONE_LEAST) or _is_gross(lost, said, 4 * DREAM_GONE_LEAST):
        raise ReplyError(
            f"the model would take away {gone} of {len(before)} memories and {lost} of {said} sentences",
            hint="nothing was changed; try another model, or `--model none`",
        )


def _is_gross(gone: int, total: int, least: int) -> bool:
    return gone > max(least, DREAM_GONE_SHARE * total) or gone == total > 1


# --- what belongs together ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """Changes that stand or fall together, and untouched memories that must stay for them to be right."""

    staged: tuple[Staged, ...]
    leans: tuple[str, ...] = ()


def _group(staged: Sequence[Staged], removed: Sequence[Removed]) -> list[_Group]:
    names = {at.name for at in staged}
    heads = {name: name for name in names}
    leans: dict[str, list[str]] = {name: [] for name in names}

    def find(name: str) -> str:
        while heads[name] != name:
            name = heads[name]
        return name

    for at in removed:
        if at.fate is Fate.LOST or not at.where or at.name in at.where:
            continue
        if untouched := next((name for name in at.where if name not in names), None):
            leans[at.name].append(untouched)
        else:
            heads[find(at.name)] = find(at.where[0])
    groups: dict[str, list[Staged]] = {}
    for one in staged:
        groups.setdefault(find(one.name), []).append(one)
    return [
        _Group(tuple(group), tuple(dict.fromkeys(lean for one in group for lean in leans[one.name])))
        for group in groups.values()
    ]


def _sort(
    groups: Sequence[_Group],
    removed: Sequence[Removed],
    doubts: Mapping[str, str],
    ground: Overlaid,
    dreamt: Dreamt,
    before: Mapping[str, str],
    now: datetime,
) -> Weighed:
    patches, proposals = [], []
    kept: set[str] = set()
    for group in groups:
        names = [at.name for at in group.staged]
        lost = [at for at in removed if at.name in names and at.fate is Fate.LOST]
        doubt = next((doubts[name] for name in names if name in doubts), "")
        if doubt or lost:
            proposals.append(_make_item(group, doubt, lost, dreamt, now, ground.rules.find))
        else:
            patches.append(_make_patch(group, removed, ground, dreamt, before))
            kept |= set(names)
    return Weighed(tuple(patches), tuple(proposals), tuple(at for at in removed if at.name in kept))


def _make_patch(
    group: _Group, removed: Sequence[Removed], ground: Overlaid, dreamt: Dreamt, before: Mapping[str, str]
) -> Patch:
    real = [replace(at, digest=ground.find_digest(at.name) if at.digest else None) for at in group.staged]
    edits = (*make_edits(real), *_make_guards(group, ground, before))
    overtaken = [at.text for at in removed if at.fate is Fate.OVERTAKEN and at.name in {one.name for one in real}]
    find = ground.rules.find
    evidence = (*_list_evidence(group, dreamt, find), *(f"overtaken: {mask_words(text, find)}" for text in overtaken))
    names = tuple(at.name for at in real)
    return Patch(_name_kind(group), names, edits, _give_reason(group, dreamt, find), evidence)


def _make_guards(group: _Group, ground: Overlaid, before: Mapping[str, str]) -> Iterator[Edit]:
    """Rewrites that change nothing: if such a memory is another by then, what leans on it is left out."""
    headers = {header.name: header for header in ground.scan()}
    for name in group.leans:
        is_plain = name in headers and not headers[name].pinned and not ground.is_changed(name)
        digest = ground.find_digest(name)
        # A text that is no valid UTF-8 would not be the same when it is written back.
        if is_plain and digest is not None and digest_of(before[name].encode("utf-8", "replace")) == digest:
            yield Rewrite(name, before[name], digest)


def _make_item(
    group: _Group, doubt: str, lost: Sequence[Removed], dreamt: Dreamt, now: datetime, find: Finder | None
) -> InboxItem:
    """What waits, as it may be kept: no credential is in it any more."""
    staged = [mask_doubt(Doubt(at, ""), find).staged for at in group.staged]
    edits = render_edits(make_edits(staged))
    main = next((at for at in staged if at.text is not None), staged[0])
    why = doubt or f"it would lose what stands nowhere else: “{shorten(one_line(lost[0].text), 120)}”"
    told = [
        mask_doubt(Doubt(at, "", text), find).quote
        for text in _list_evidence(group, dreamt, find)
        for at in group.staged
    ]
    quotes = [Quote(text, "what the model says it rests on") for text in dict.fromkeys(told)]
    key = digest_of(repr(sorted(map(repr, edits))).encode("utf-8", "replace"))[:24]
    payload: dict[str, object] = {"edits": edits, "evidence": render_evidence(quotes)}
    return InboxItem(
        InboxKind.MEMORY if doubt else InboxKind.PROPOSAL,
        f"{_name_kind(group)} {main.name}",
        why,
        now,
        key=f"{KEY}{key}",
        name=main.name,
        origin=Origin(WHO, f"by model: {_give_reason(group, dreamt, find)}"),
        payload=payload,
    )


def _give_reason(group: _Group, dreamt: Dreamt, find: Finder | None) -> str:
    reasons = (mask_words(dreamt.reasons.get(fold(at.name), ""), find) for at in group.staged)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or REASON


def _list_evidence(group: _Group, dreamt: Dreamt, find: Finder | None) -> list[str]:
    quotes = (mask_words(dreamt.evidence.get(fold(at.name), ""), find) for at in group.staged)
    return list(dict.fromkeys(quote for quote in quotes if quote))


def _name_kind(group: _Group) -> str:
    gone = any(at.text is None for at in group.staged)
    if gone:
        return "merge" if len(group.staged) > 1 or group.leans else "forget"
    return "create" if all(at.before is None for at in group.staged) else "update"
