"""Symbols, constants and variables that memories name: defined or used, or gone, and then what came in their stead.

A symbol that is still used but no longer defined is gone, if history shows where its definition went out. A dotted name
stands and falls with its parts, and its last part with the body of the one before.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from memdir.frozen import replace
from memdir.verify import past
from memdir.verify.ground import Ground, list_words
from memdir.verify.past import Gone, Trace
from memdir.verify.records import Checked, Claim, ClaimKind, Status
from memdir.verify.words import has_member, look_up, read_entry

_HOPS = 3  # renames of a word that are followed, a pass over history each


class WordLookup:
    def __init__(self, ground: Ground) -> None:
        self.ground, self.project = ground, ground.project
        self._left: dict[tuple[str, str], bool] = {}

    def check(self, claim: Claim) -> Checked:
        if claim.is_weak:
            return self._check_plain(claim)
        words = list_words(claim)
        answers = [self._check_word(claim, word) for word in words]
        for word, at in zip(words, answers, strict=True):
            if at.status is Status.GONE:
                return replace(at, came=_spell(claim, word, at.came))
        unknown = next((at for at in answers if at.status is Status.UNKNOWN), None)
        if unknown is not None or not answers:
            return unknown or self.ground.not_found(claim)
        return self._check_member(claim, words) or answers[-1]

    def _check_plain(self, claim: Claim) -> Checked:
        """A plain word in code: only what is or was defined by name, and the rest is a word like any other."""
        found, trace = self.ground.lookup.find(claim.text), self._find_trace(claim.text)
        if found.defined:
            return Checked(claim, Status.PRESENT, where=found.defined[0])
        if trace.named is not None and not found.code and self.ground.is_whole:
            return self._say_gone(claim, trace.named)
        return self.ground.not_found(claim)

    def _check_word(self, claim: Claim, word: str) -> Checked:
        found = self.ground.lookup.find(word)
        if found.defined:
            return Checked(claim, Status.PRESENT, where=found.defined[0])
        if not found.code and word in self.ground.stems:
            return Checked(claim, Status.PRESENT, where=self.ground.stems[word])
        trace = self._find_trace(word)
        if found.code and (trace.undefined is None or claim.kind is not ClaimKind.SYMBOL):
            return Checked(claim, Status.PRESENT, where=found.code[0])
        gone = trace.undefined if found.code else trace.vanished
        if gone is not None and self.ground.is_whole:
            return self._say_gone(claim, gone)
        if found.documents:
            return Checked(claim, Status.PRESENT, where=found.documents[0])
        return self.ground.not_found(claim, is_whole=self._traces[1])

    def _check_member(self, claim: Claim, words: Sequence[str]) -> Checked | None:
        """A member that its owner has lost, though the word is there; None where nothing speaks for that."""
        if not self._is_left_by_owner(claim, words):
            return None
        trace = self._find_trace(words[-1])
        homes = set(self.ground.lookup.find(words[-2]).code)
        if trace.undefined is None or not self.ground.follow_all(trace.files) & homes:
            return None
        gone = self._say_gone(claim, trace.undefined)
        return replace(gone, came=_spell(claim, words[-1], gone.came))

    def _say_gone(self, claim: Claim, gone: Gone) -> Checked:
        return Checked(claim, Status.GONE, commit=gone.commit, came=self._successors.get(gone.came, ""))

    def _is_left_by_owner(self, claim: Claim, words: Sequence[str]) -> bool:
        """Whether `Owner` is defined in the project, and nowhere with `member` in its body."""
        if claim.kind is not ClaimKind.SYMBOL or len(words) < 2:
            return False
        key = (words[-2], words[-1])
        if key not in self._left:
            owner = self.ground.lookup.find(words[-2])
            spelled = [word.encode("utf-8", "replace") for word in key]
            files = (read_entry(self.project.root, self.project.entries[path]) or b"" for path in owner.code)
            self._left[key] = bool(owner.defined) and not any(has_member(data, *spelled) for data in files)
        return self._left[key]

    # --- history ----------------------------------------------------------------------------------------------------

    def _find_trace(self, word: str) -> Trace:
        return self._traces[0].get(word, Trace())

    @cached_property
    def _traces(self) -> tuple[dict[str, Trace], bool]:
        """What history knows of the words that are not there, or are used and nowhere defined."""
        if not self.ground.has_past:
            return {}, False
        return past.read_words(self.project.root, set(self._list_doubtful()), self.ground.ends)

    def _list_doubtful(self) -> Iterator[str]:
        """Nothing is asked of history for what is defined: most memories need no look back at all."""
        for claim in self.ground.claims:
            words = list_words(claim)
            for word in words:
                if not self.ground.lookup.find(word).defined and word not in self.ground.stems:
                    yield word
            if self._is_left_by_owner(claim, words):
                yield words[-1]

    @cached_property
    def _successors(self) -> dict[str, str]:
        """Each word that came for another, to what it is called now; all together, so that a hop costs one pass."""
        traces = self._traces[0].values()
        came = {gone.came for at in traces for gone in (at.vanished, at.undefined, at.named) if gone and gone.came}
        leads = {word: word for word in came}
        for _ in range(_HOPS):
            found = look_up(self.project, set(leads.values()) - {""})
            lost = {word for word in leads.values() if word and not found.find(word).code}
            if not lost:
                break
            later = past.read_words(self.project.root, lost, self.ground.ends)[0]
            then = {word: at.vanished.came for word, at in later.items() if at.vanished is not None}
            leads = {word: then.get(to, "") if to in lost else to for word, to in leads.items()}
        else:
            found = look_up(self.project, set(leads.values()) - {""})
            leads = {word: to if to and found.find(to).code else "" for word, to in leads.items()}
        return leads


def _spell(claim: Claim, word: str, came: str) -> str:
    """What came, in the place of the part that is gone."""
    if not came or claim.text == word:
        return came
    return re.sub(rf"(?<![\w$]){re.escape(word)}(?![\w$])", lambda _: came, claim.text)
