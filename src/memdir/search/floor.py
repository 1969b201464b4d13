"""The floor: whether the best candidate is good enough to be said at all. An honest nothing beats noise.

Six signs, all on an absolute scale, in a weighted sum. The weights and the floor were chosen on half of the groups of
the public sets and checked on the other half (`benchmarks/abstain.py`; docs/benchmarks.md has the curve).
"""

from collections.abc import Sequence

from memdir.search.rank import Asked, Scored

SIGNS = ("coverage", "passage", "meaning", "names", "strangers", "top")
# With the word table, and by words alone.
WEIGHTS, LEVEL = (1.0, 1.0, 0.0, 1.0, 0.0, 0.0), 0.57
PLAIN_WEIGHTS, PLAIN_LEVEL = (1.0, 1.0, 0.0, 1.0, 0.0, 0.0), 0.526


def measure(asked: Asked, scored: Sequence[Scored]) -> tuple[float, ...]:
    """Best coverage, best passage, best direction, share of names known here, names not known, best score."""
    coverage = max((at.coverage for at in scored), default=0.0)
    passage = max((at.passage for at in scored), default=0.0)
    meaning = max((at.meaning_passage for at in scored), default=0.0)
    share = asked.names_known / len(asked.names) if asked.names else 0.5
    strangers = float(len(asked.names) - asked.names_known)
    return coverage, passage, meaning, share, strangers, max((at.score for at in scored), default=0.0)


def is_enough(asked: Asked, scored: Sequence[Scored]) -> bool:
    semantic = asked.vector is not None
    signs = measure(asked, scored)
    value = sum(weight * sign for weight, sign in zip(find_weights(semantic=semantic), signs, strict=True))
    return bool(scored) and value > find_level(semantic=semantic)


def find_weights(*, semantic: bool) -> tuple[float, ...]:
    return WEIGHTS if semantic else PLAIN_WEIGHTS


def find_level(*, semantic: bool) -> float:
    return LEVEL if semantic else PLAIN_LEVEL
