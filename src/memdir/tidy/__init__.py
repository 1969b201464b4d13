"""The dream by rules: what can be put in order in a memory directory without a model, as a plan.

Patches are certain and meant to be applied, all as one act; proposals wait in the inbox. Dates come first, then
duplicates, then the index; a memory that was merged is left alone by what comes after, until the next dream. Pinned
memories, named in `keep` or by their own head, are read and never changed.

It does not write, knows no lock and no gates: `dream` does that. No sentence goes that another memory does not say, or
that a person has not seen in the inbox.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from memdir.errors import MemdirError
from memdir.index import INDEX_FILE, parse_index
from memdir.records import Header, Memory, Rewrite
from memdir.store.contract import Verbs, make_memory
from memdir.store.plan import TEAM_FOLDER, decode, encode, index_path
from memdir.store.shared import find_unfit
from memdir.text import fold
from memdir.tidy.contradictions import find_contradictions
from memdir.tidy.dates import plan_dates
from memdir.tidy.duplicates import Merging
from memdir.tidy.expiry import find_expired
from memdir.tidy.facts import Fact
from memdir.tidy.pointers import plan_dead, plan_long_lines, plan_missing
from memdir.tidy.records import Patch, PatchKind, Proposal, ProposalKind, Tidied, make_item

__all__ = ["Patch", "PatchKind", "Proposal", "ProposalKind", "Tidied", "make_item", "plan_tidy"]


def plan_tidy(store: Verbs, *, now: datetime, keep: frozenset[str] = frozenset()) -> Tidied:
    """What the rules would do to this directory as it is now."""
    headers = store.scan()
    memories = _read_all(store, headers)
    pinned = keep | {header.name for header in headers if header.pinned}
    digests = {name: memory.digest for name, memory in memories.items()}
    indexes = _read_indexes(store)

    dated = _date(memories, now, pinned)
    facts = {name: Fact(memory) for name, memory in memories.items() if not memory.header.problem}
    merging = Merging(facts, headers, digests, _find_hooks(indexes, memories), pinned)
    merged = list(merging.run())
    lines: list[Patch] = []
    if not store.rules.skip_index:
        lines = list(_order_indexes(store, indexes, memories, digests, merging, pinned))
    left = [fact for name, fact in sorted(merging.facts.items()) if name not in merging.touched and name not in dated]
    proposals = (*find_expired(left, now=now, keep=pinned), *find_contradictions(left, keep=pinned))
    return Tidied((*dated.values(), *merged, *lines), proposals)


def _read_all(store: Verbs, headers: Sequence[Header]) -> dict[str, Memory]:
    memories: dict[str, Memory] = {}
    for header in headers:
        try:
            memories[header.name] = store.read(header.name)
        except MemdirError:
            continue
    return memories


def _read_indexes(store: Verbs) -> dict[str, str]:
    """Each index by its folder; one that may not be read is not put in order either."""
    indexes: dict[str, str] = {}
    for folder in ("", TEAM_FOLDER):
        try:
            indexes[folder] = decode(store.read_bytes(f"{folder}/{INDEX_FILE}" if folder else INDEX_FILE) or b"")
        except MemdirError:
            continue
    return indexes


def _date(memories: dict[str, Memory], now: datetime, pinned: frozenset[str]) -> dict[str, Patch]:
    """Patches for dates; what follows sees the memories as these leave them."""
    dated: dict[str, Patch] = {}
    for name, memory in memories.items():
        patch = plan_dates(memory, now) if name not in pinned else None
        if patch is not None and isinstance(edit := patch.edits[0], Rewrite):
            dated[name] = patch
            memories[name] = make_memory(name, encode(edit.text), memory.header.signature, memory.header.scope)
    return dated


def _find_hooks(indexes: Mapping[str, str], memories: Mapping[str, Memory]) -> dict[str, tuple[str, ...]]:
    """What the indexes say of each memory they point to."""
    names = {fold(name): name for name in memories}
    hooks: defaultdict[str, list[str]] = defaultdict(list)
    for folder, text in indexes.items():
        for line in parse_index(text):
            name = names.get(fold(f"{folder}/{line.name}" if folder else line.name)) if line.is_pointer else None
            if name is not None:
                hooks[name] += [line.hook.rstrip("…")] if line.hook else []
    return {name: tuple(found) for name, found in hooks.items()}


def _order_indexes(
    store: Verbs,
    indexes: Mapping[str, str],
    memories: Mapping[str, Memory],
    digests: Mapping[str, str],
    merging: Merging,
    pinned: frozenset[str],
) -> Iterator[Patch]:
    free = {fold(name): at for name, at in memories.items() if name not in merging.touched and not at.header.problem}
    for folder, text in indexes.items():
        prefix = f"{folder}/" if folder else ""
        file = f"{prefix}{INDEX_FILE}"
        mine = [name for name in memories if index_path(name)[0] == file]
        yield from plan_long_lines(text, prefix, free, digests, pinned)
        yield from plan_dead(text, prefix, mine, store)
        fit = [at for at in mine if at not in merging.gone and not find_unfit(memories[at].header, store.rules)]
        yield from plan_missing(text, prefix, sorted(fit))
