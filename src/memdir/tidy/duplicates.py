"""Memories that say the same, made one: to the letter, or in other words with every number, date, name and negation.

Candidates are met in buckets, by the text itself, by its bag of words, or by what is left without an added clause; no
two memories are compared that do not share one, so the work grows with their number and not with its square.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from memdir.errors import FormatError
from memdir.links import make_targets, resolve_links
from memdir.records import Edit, Forget, Header, Rewrite
from memdir.store.contract import make_memory
from memdir.store.plan import TEAM_FOLDER, encode
from memdir.text import shorten
from memdir.tidy.facts import Fact, find_hard
from memdir.tidy.pieces import Keys
from memdir.tidy.records import Patch, PatchKind
from memdir.tidy.shape import is_same
from memdir.tidy.tokens import Sort, is_past_tense, parse_tokens
from memdir.tidy.uniting import has_own_fields, is_within, repoint, unite
from memdir.tidy.words import LIMITS, NEGATIONS

_CROWD = 24  # memories in one bucket that are all compared with one another


def is_reworded(one: Fact, other: Fact) -> bool:
    """Whether two memories say the same in other words, or one says what the other does and a clause more."""
    if one.place != other.place or one.shape is None or other.shape is None or not _heads_agree(one, other):
        return False
    if not (is_same(one.shape, other.shape) or is_within(one.shape, other.shape) or is_within(other.shape, one.shape)):
        return False
    if _is_ahead(one, other) or _is_ahead(other, one):
        return False
    labels = one.parts.keys() & other.parts.keys()
    return all(find_signature(one.parts[label]) == find_signature(other.parts[label]) for label in labels)


def is_copy(one: Fact, other: Fact) -> bool:
    return one.place == other.place and bool(one.exact) and one.exact == other.exact and _heads_agree(one, other)


def find_signature(text: str) -> tuple[str, ...]:
    """What two texts must agree in to be the same: values, names, negations and limits, sorted."""
    keys = [
        token.key
        for token in parse_tokens(text)
        if token.is_hard or token.is_sign or token.sort is Sort.NAME or token.key in NEGATIONS or token.key in LIMITS
    ]
    return tuple(sorted(key.lower() for key in keys))


def _is_ahead(one: Fact, other: Fact) -> bool:
    """Whether one tells what will be and the other what was: in between it has happened, or has not."""
    will, did = ({"will", "shall"}.intersection(at.word for at in fact.tokens) for fact in (one, other))
    return bool(will) and not did and is_past_tense(other.tokens)


def _heads_agree(one: Fact, other: Fact) -> bool:
    """Titles and descriptions may differ, but not as those of two things of one sort do."""
    first, second = one.memory.header, other.memory.header
    if find_hard(one.head) - other.words and find_hard(other.head) - one.words:
        return False
    return not (_are_alike(first.title, second.title) or _are_alike(first.description, second.description))


def _are_alike(one: str, other: str) -> bool:
    """Whether two lines are the same but for one word: the left column and the right one."""
    first, second = ([at.key for at in parse_tokens(text) if at.key] for text in (one, other))
    return len(first) == len(second) > 1 and sum(map(str.__ne__, first, second)) == 1


class Merging:
    """The memories while they are merged: each step sees what the last one left."""

    def __init__(
        self,
        facts: Mapping[str, Fact],
        headers: Sequence[Header],
        digests: Mapping[str, str],
        hooks: Mapping[str, tuple[str, ...]],
        keep: frozenset[str],
    ) -> None:
        self.facts = dict(facts)
        self._headers = headers
        self._digests = digests
        self._hooks = hooks
        self._keep = keep
        self._targets = make_targets(headers)
        self._links: dict[str, set[str]] = defaultdict(set)
        for name, linked in resolve_links(headers, {at.name: at.memory.text for at in facts.values()}).items():
            for target in linked:
                self._links[target].add(name)
        self.touched: set[str] = set()
        self.gone: set[str] = set()

    def run(self) -> Iterator[Patch]:
        for pairs, kind in ((self._pair_copies, PatchKind.DUPLICATE), (self._pair_rewordings, PatchKind.REWORDING)):
            for one, other in list(pairs()):
                if one in self.facts and other in self.facts and (patch := self._merge(one, other, kind)) is not None:
                    yield patch

    def _pair_copies(self) -> Iterator[tuple[str, str]]:
        buckets: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for fact in self.facts.values():
            if fact.exact:
                buckets[*fact.place, fact.exact].append(fact.name)
        for names in buckets.values():
            yield from _pair(names)

    def _pair_rewordings(self) -> Iterator[tuple[str, str]]:
        bags: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        whole: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        sizes: set[tuple[object, ...]] = set()
        for fact in self.facts.values():
            if fact.shape is not None and fact.shape.keys:
                bags[*fact.place, fact.shape.bag].append(fact.name)
                whole[*fact.place, fact.shape.keys].append(fact.name)
                sizes.add((*fact.place, len(fact.shape.keys)))
        for names in bags.values():
            yield from _pair(names)
        for fact in self.facts.values():
            for keys in _list_shorter(fact, sizes):
                yield from ((fact.name, name) for name in whole.get((*fact.place, keys), ()) if name != fact.name)

    def _merge(self, one: str, other: str, kind: PatchKind) -> Patch | None:
        first, second = self.facts[one], self.facts[other]
        if not (is_copy(first, second) if kind is PatchKind.DUPLICATE else is_reworded(first, second)):
            return None
        kept, away = sorted((first, second), key=self._rank)
        linkers = self._links[away.name] - {kept.name, away.name}
        if away.name in self._keep or linkers & self._keep or has_own_fields(away, kept):
            return None
        try:
            text = unite(kept, away, self._hooks.get(away.name, ()))
        except FormatError:
            return None
        if text != kept.memory.text and kept.name in self._keep:
            return None
        return self._apply(kept, away, text, linkers, kind)

    def _apply(self, kept: Fact, away: Fact, text: str, linkers: Iterable[str], kind: PatchKind) -> Patch:
        edits: list[Edit] = []
        if text != kept.memory.text:
            edits.append(self._rewrite(kept.name, text))
        for name in sorted(linkers):
            if name in self.facts:
                moved = repoint(self.facts[name].memory.text, self._targets, away.name, kept.name)
                edits.append(self._rewrite(name, moved))
                self._links[kept.name].add(name)
        edits.append(Forget(away.name, self._digests[away.name]))
        del self.facts[away.name]
        self.gone.add(away.name)
        self.touched |= {kept.name, away.name, *linkers}
        how = "the same text" if kind is PatchKind.DUPLICATE else "the same in other words"
        reason = f"{away.name} says {how} as {kept.name}; {kept.name} stays"
        evidence = f"{kept.name}: {shorten(kept.exact, 200)}\n{away.name}: {shorten(away.exact, 200)}"
        return Patch(kind, (kept.name, away.name), tuple(edits), reason, evidence)

    def _rewrite(self, name: str, text: str) -> Rewrite:
        header = self.facts[name].memory.header
        made = make_memory(name, encode(text), header.signature, header.scope)
        self.facts[name] = Fact(made)
        return Rewrite(name, text, self._digests[name])

    def _rank(self, fact: Fact) -> tuple[object, ...]:
        """Who stays: pinned before linked, linked before indexed, then the older one.

        In team memory nothing counts that is another on another machine: if two people's dreams each kept the one that
        the other dropped, both would be gone after a sync.
        """
        linked = self._links[fact.name]
        if fact.name.startswith(f"{TEAM_FOLDER}/"):
            return fact.name not in self._keep, not linked & self._keep, fact.name not in self._hooks, fact.name
        return (
            fact.name not in self._keep,
            not linked & self._keep,
            not linked,
            fact.name not in self._hooks,
            fact.memory.header.modified,
            fact.name,
        )


def _list_shorter(fact: Fact, sizes: Container[tuple[object, ...]]) -> Iterator[Keys]:
    """What is left of a fact without each clause that could have been added, where a fact of that size is known."""
    if (shape := fact.shape) is not None:
        for span in shape.spans:
            if (*fact.place, len(shape.keys) - span[1] + span[0]) in sizes:
                yield shape.leave_out(span)


def _pair(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, one in enumerate(names):
        yield from ((one, other) for other in names[at + 1 : at + 1 + _CROWD])
