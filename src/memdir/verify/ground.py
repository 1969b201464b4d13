"""One project made ready for a set of claims: what costs a pass over files or history is done when first needed.

It holds what the lookups share: the listing by last part, the wanted words, what history knows. It judges nothing.
"""

import time
from collections.abc import Iterable, Sequence
from functools import cached_property

from memdir.verify import past
from memdir.verify.manifests import Manifests, read_manifests
from memdir.verify.past import Names
from memdir.verify.project import Project, has_partial_history
from memdir.verify.records import Checked, Claim, ClaimKind, Status
from memdir.verify.shapes import PARTS
from memdir.verify.words import Lookup, look_up

NEVER = "never seen in this project"
_UNREAD = "the history could not be read to its end"
_NO_PAST = "no history to look in"
_OWN = frozenset({"self", "this", "cls", "super", "window", "document", "console", "process", "module", "exports"})


class Ground:
    """A project, the claims that are looked up in it, and until when history may be searched."""

    def __init__(self, project: Project, claims: Sequence[Claim], seconds: float) -> None:
        self.project = project
        self.claims = tuple(claims)
        self.ends = time.monotonic() + seconds

    @cached_property
    def leaves(self) -> dict[str, list[str]]:
        """Files and folders by their last part."""
        found: dict[str, list[str]] = {}
        for path in (*self.project.entries, *self.project.folders):
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    @cached_property
    def stems(self) -> dict[str, str]:
        """The names of files and folders without what follows a dot, each with one of them."""
        return {leaf.partition(".")[0]: paths[0] for leaf, paths in self.leaves.items()}

    @cached_property
    def manifests(self) -> Manifests:
        return read_manifests(self.project)

    @cached_property
    def lookup(self) -> Lookup:
        """The words and flags of all claims, found in one pass."""
        words = {word for claim in self.claims for word in list_words(claim)}
        return look_up(self.project, words, {claim.text for claim in self.claims if claim.kind is ClaimKind.FLAG})

    @cached_property
    def is_whole(self) -> bool:
        """Whether every file was listed and searched, so that a word that was not found is not there."""
        return self.project.is_whole and self.lookup.is_whole

    @cached_property
    def has_past(self) -> bool:
        return bool(self.project.commit) and not has_partial_history(self.project.root)

    @cached_property
    def names(self) -> Names:
        return past.read_names(self.project.root, self.ends) if self.has_past else Names(is_whole=False)

    def follow(self, path: str) -> past.Gone | None:
        """Where history took a path, if it did."""
        return past.follow(self.names, path, self.project.entries)

    def follow_all(self, paths: Iterable[str]) -> set[str]:
        """Files of another time under the names they have now."""
        return {gone.to if (gone := self.follow(path)) is not None and gone.to else path for path in paths}

    def not_found(self, claim: Claim, *, is_whole: bool = True) -> Checked:
        """What was never seen may be anything; it is no alarm."""
        note = NEVER if is_whole else _UNREAD
        return Checked(claim, Status.UNKNOWN, note=note if self.has_past else _NO_PAST)


def list_words(claim: Claim) -> tuple[str, ...]:
    """The words a claim stands and falls with."""
    if claim.kind in (ClaimKind.CONSTANT, ClaimKind.VARIABLE):
        return tuple(PARTS.split(claim.text))
    if claim.kind is ClaimKind.SYMBOL:
        parts = [part.rstrip("!?") for part in PARTS.split(claim.text)]
        return tuple(part for part in parts if part and (part not in _OWN or len(parts) == 1))
    return (claim.text.replace("-", "_"),) if claim.kind is ClaimKind.PACKAGE else ()
