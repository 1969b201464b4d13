"""How right verification is: claims found against claims made, verdicts against the truth."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memdir.verify.check import drop_weak
from memdir.verify.records import CheckedClaim
from verify_data import Thing
from verify_memories import Written


@dataclass
class Score:
    """Counts, and what went wrong in words."""

    found: int = 0
    right: int = 0
    made: int = 0
    judged: int = 0
    correct: int = 0
    renames: int = 0
    followed: int = 0
    alarms: int = 0
    false_alarms: int = 0
    wrong: list[str] = field(default_factory=list)
    by_kind: Counter[str] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.made if self.made else 1.0

    @property
    def accuracy(self) -> float:
        return self.correct / self.judged if self.judged else 1.0

    @property
    def rename_share(self) -> float:
        return self.followed / self.renames if self.renames else 1.0

    def render(self) -> str:
        return (
            f"claims {self.made}: precision {self.precision:.3f}, recall {self.recall:.3f}; verdicts {self.judged}: "
            f"{self.accuracy:.3f} right, {self.false_alarms} false alarms of {self.alarms}; "
            f"renames {self.renames}: {self.rename_share:.3f} found"
        )


def score_claims(score: Score, memory: Written, checked: Iterable[CheckedClaim]) -> None:
    """Claims that are reported: a weak one only if the project has or had it."""
    found = {(str(at.claim.kind), at.claim.text, at.claim.line) for at in drop_weak(checked)}
    made = {(thing.kind, thing.text, line) for thing, line in memory.named}
    score.found += len(found)
    score.made += len(made)
    score.right += len(found & made)
    score.wrong += [f"not claimed {at}" for at in sorted(found - made)] + [
        f"not found {at}" for at in sorted(made - found)
    ]


def score_verdicts(score: Score, memory: Written, checked: Sequence[CheckedClaim]) -> None:
    answers = {(at.claim.text, at.claim.line): at for at in drop_weak(checked)}
    for thing, line in memory.named:
        at = answers.get((thing.text, line))
        if at is None:
            continue
        score.judged += 1
        is_right = at.status.value == thing.status
        score.correct += is_right
        score.by_kind[f"{thing.kind} {thing.status} -> {at.status.value}"] += 1
        score.alarms += at.is_stale
        score.false_alarms += at.is_stale and thing.status == "present"
        if not is_right:
            score.wrong.append(
                f"{thing.kind} {thing.text} is {thing.status}, said {at.status.value} ({at.note}{at.where})"
            )
        if thing.renamed:
            score.renames += 1
            score.followed += _is_same(thing, at)
            if not _is_same(thing, at):
                score.wrong.append(f"{thing.kind} {thing.text} became {thing.to}, said {at.to or at.came or 'nothing'}")


def _is_same(thing: Thing, at: CheckedClaim) -> bool:
    return (at.to or at.came).rstrip("/") == thing.to.rstrip("/")
