"""What a change takes away, sentence by sentence: does it stand elsewhere, was it overtaken, or is it lost?

A sentence stands elsewhere if another one says all of its words, or the same in other words, with the same numbers,
days, names, limits and the same negation. It was overtaken if a newer one says the same of the same with another value.
All else is lost. Read strictly: a rewording that is not seen as one waits for a person, which is better than a fact
that nobody misses.

Titles are labels and are left out; of a description only what it names counts. Pure; it decides nothing.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from math import ceil

from memdir import frontmatter
from memdir.frozen import dataclass
from memdir.taint.claims import Claim, fold_text, parse_claim, split_sentences
from memdir.tidy.duplicates import find_signature
from memdir.tidy.facts import find_shape
from memdir.tidy.shape import is_same
from memdir.tidy.uniting import is_within

_LABEL = re.compile(r"\A\**(?:why|how to apply):\*\*\s*", re.IGNORECASE)
_MISSING_SHARE = 0.12  # of a sentence's words that another one may leave out; nothing below nine words
_SAME_SHARE = 0.7  # of its words that one with another value must have
_SMALL = 3  # words; a shorter sentence is compared to the letter


class Fate(StrEnum):
    KEPT = "kept"
    OVERTAKEN = "overtaken"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Removed:
    """One sentence that a memory no longer says, and the memories that say it, or say it anew."""

    name: str
    text: str
    fate: Fate
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Said:
    """One sentence of a memory as it will be, and since when it is said."""

    name: str
    claim: Claim
    folded: str
    since: float


def list_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a memory's body, without the labels of its parts."""
    found = (_LABEL.sub("", at) for at in split_sentences(frontmatter.split(text).body))
    return tuple(at for at in found if at)


def find_ages(texts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Every sentence of these texts, folded, with the newest time at which one of them says it."""
    ages: dict[str, float] = {}
    for text, at in texts:
        for sentence in list_sentences(text):
            folded = fold_text(sentence)
            ages[folded] = max(at, ages.get(folded, at))
    return ages


class Remaining:
    """All that is said after a change. `ages` says since when a sentence is said; one it does not know is new."""

    def __init__(self, texts: Mapping[str, str], ages: Mapping[str, float]) -> None:
        self._ages = ages
        self._said = [said for name, text in texts.items() for said in _list_said(name, text, ages)]
        self._words: dict[str, list[int]] = defaultdict(list)
        self._letters: dict[str, list[int]] = defaultdict(list)
        self._things = frozenset[str]().union(*(_list_things(said.claim) for said in self._said))
        for number, said in enumerate(self._said):
            if said.folded:
                self._letters[said.folded].append(number)
            for key in said.claim.keys:
                self._words[key].append(number)

    def judge(self, name: str, text: str) -> Removed:
        """What becomes of a sentence that a memory no longer says, or says still."""
        folded = fold_text(text)
        if same := self._letters.get(folded):
            return Removed(name, text, Fate.KEPT, self._name(same))
        claim = parse_claim(text)
        if not claim.keys and not claim.numbers and not claim.exact:
            return Removed(name, text, Fate.KEPT, (name,))  # it says nothing: a rule, a lone mark
        near = self._find_near(claim)
        if kept := [at for at in near if _says(self._said[at].claim, claim)]:
            return Removed(name, text, Fate.KEPT, self._name(kept))
        since = self._ages.get(folded, 0.0)
        newer = [at for at in near if self._said[at].since > since and _overtakes(self._said[at].claim, claim)]
        return Removed(name, text, Fate.OVERTAKEN if newer else Fate.LOST, self._name(newer))

    def has(self, text: str) -> bool:
        """Whether a sentence is said, in these words or nearly."""
        return self.judge("", text).fate is Fate.KEPT

    def has_things(self, text: str) -> bool:
        """Whether all that a line names is named somewhere."""
        claim = parse_claim(text)
        return _list_things(claim) <= self._things

    def _find_near(self, claim: Claim) -> list[int]:
        """Sentences that share most words; of the rarest few, one at least is in each of them."""
        if len(claim.keys) < _SMALL:
            return []
        least = ceil(_SAME_SHARE * len(claim.keys))
        rarest = sorted(claim.keys, key=lambda key: len(self._words.get(key, ())))[: len(claim.keys) - least + 1]
        found = {at for key in rarest for at in self._words.get(key, ())}
        return sorted(at for at in found if len(claim.keys & self._said[at].claim.keys) >= least)

    def _name(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._said[at].name for at in numbers))


def find_removed(before: Mapping[str, str], remaining: Remaining) -> tuple[Removed, ...]:
    """Every sentence of these memories as they were that its own memory says no longer, with what becomes of it."""
    found = []
    for name, text in before.items():
        for sentence in list_sentences(text):
            judged = remaining.judge(name, sentence)
            if judged.fate is not Fate.KEPT or name not in judged.where:
                found.append(judged)
        description = frontmatter.parse_fields(text).description
        if description and not remaining.has_things(description):
            found.append(Removed(name, description, Fate.LOST))
    return tuple(found)


def _list_said(name: str, text: str, ages: Mapping[str, float]) -> Iterator[_Said]:
    """The description, and every sentence."""
    if description := frontmatter.parse_fields(text).description:
        yield _Said(name, parse_claim(description), "", 0.0)  # a label overtakes nothing
    for sentence in list_sentences(text):
        folded = fold_text(sentence)
        yield _Said(name, parse_claim(sentence), folded, ages.get(folded, float("inf")))


def _list_things(claim: Claim) -> frozenset[str]:
    return claim.exact | claim.numbers | claim.days


def _says(one: Claim, wanted: Claim) -> bool:
    """Whether one sentence holds another, by its words or by what the rules know of other words for them."""
    if one.negated is not wanted.negated or not set(find_signature(wanted.text)) <= set(find_signature(one.text)):
        return False
    if len(wanted.keys - one.keys) <= _MISSING_SHARE * len(wanted.keys) and _list_things(wanted) <= _list_things(one):
        return True
    outer, inner = find_shape(one.text), find_shape(wanted.text)
    return outer is not None and inner is not None and (is_same(inner, outer) or is_within(inner, outer))


def _overtakes(one: Claim, old: Claim) -> bool:
    """The same of the same, with another value: a number, a day, a thing, a yes for a no, or one word for another."""
    if len(one.keys & old.keys) < _SAME_SHARE * len(old.keys) or len(one.keys - old.keys) > max(2, len(old.keys) // 2):
        return False
    values = (one.numbers, one.days, one.exact) != (old.numbers, old.days, old.exact)
    return values or one.negated is not old.negated or len(old.keys - one.keys) == 1
