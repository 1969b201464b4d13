"""Is this known already? A candidate against the memories that are there, by the same rules by which a dream merges.

To the letter, whatever its type; or in other words, with every number, date, name and negation the same. Memories are
met in buckets, so the work grows with their number. It changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable

from memdir.tidy.duplicates import is_reworded
from memdir.tidy.facts import Fact


class Known:
    """The memories of a store, and those that this import has added so far."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts: dict[str, Fact] = {}
        self._exact: dict[str, str] = {}
        self._bags: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        self._whole: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        self._added: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for fact in facts:
            self.add(fact)

    def add(self, fact: Fact) -> None:
        """One more memory, or another text of one."""
        self.facts[fact.name] = fact
        if fact.exact:
            self._exact.setdefault(fact.exact, fact.name)
        if fact.shape is not None and fact.shape.keys:
            self._bags[*fact.place, fact.shape.bag].append(fact.name)
            self._whole[*fact.place, fact.shape.keys].append(fact.name)
            for keys in map(fact.shape.leave_out, fact.shape.spans):
                self._added[*fact.place, hash(keys)].append(fact.name)  # the keys of each would be the text many times

    def find_same(self, fact: Fact) -> Fact | None:
        """The memory that says this to the letter."""
        name = self._exact.get(fact.exact) if fact.exact else None
        return self.facts[name] if name is not None else None

    def find_near(self, fact: Fact) -> Fact | None:
        """A memory that says this in other words, or with a clause more or less."""
        if fact.shape is None or not fact.shape.keys:
            return None
        shorter = map(fact.shape.leave_out, fact.shape.spans)
        names = [
            *self._bags.get((*fact.place, fact.shape.bag), ()),
            *self._added.get((*fact.place, hash(fact.shape.keys)), ()),
            *(name for keys in shorter for name in self._whole.get((*fact.place, keys), ())),
        ]
        return next((self.facts[name] for name in names if is_reworded(self.facts[name], fact)), None)
