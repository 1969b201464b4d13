"""The floor: whether the best candidates are good enough to be said at all. An honest nothing beats noise.

Six signs, none of which depends on the size of the directory, in a weighted sum. Weights and floor were fitted on every
second group of the public sets and checked on the others (`benchmarks/abstain.py`; docs/benchmarks.md has the curve).
"""

import math
from collections.abc import Sequence

from memdir.search.rank import Asked, Scored

SIGNS = ("strangers", "known", "together", "passage", "meaning", "wish")
# With the word table, and by words alone.
WEIGHTS, LEVEL = (-3.0, 1.2, 1.4, 2.4, 4.3, 2.1), -2.5
PLAIN_WEIGHTS, PLAIN_LEVEL = (-3.0, 1.1, 1.2, 2.6, 0.0, 2.1), -5.8
_LEAST = 0.02  # the passage of a question that met nothing: its logarithm must be a number


def measure(asked: Asked, scored: Sequence[Scored]) -> tuple[float, ...]:
    """What speaks for an answer and against one, in the order of SIGNS.

    strangers  it names somebody or something, and the directory knows none of the names; in a question for advice a
               name is a place to go to as often as not, and counts for nothing
    known      it names what the directory knows
    together   of the weight of its words that the directory knows, how much stands in one passage
    passage    how well the best passage answers, neighbours included; as a logarithm
    meaning    how much the best memory points the question's way
    wish       it asks for advice: then what is known of a person counts, and it shares few words with the question
    """
    coverage = max((at.coverage for at in scored), default=0.0)
    total = sum(asked.weights[term] for term in asked.shares)
    return (
        float(bool(asked.names) and not asked.names_known and not asked.is_wish),
        float(asked.names_known > 0),
        coverage * total / ((1.0 - asked.unknown) * total + 1.0),
        math.log(max((at.passage for at in scored), default=0.0) + _LEAST),
        max((at.meaning_whole for at in scored), default=0.0),
        float(asked.is_wish),
    )


def is_enough(asked: Asked, scored: Sequence[Scored]) -> bool:
    semantic = asked.vector is not None
    signs = measure(asked, scored)
    value = sum(weight * sign for weight, sign in zip(find_weights(semantic=semantic), signs, strict=True))
    return bool(scored) and value > find_level(semantic=semantic)


def find_weights(*, semantic: bool) -> tuple[float, ...]:
    return WEIGHTS if semantic else PLAIN_WEIGHTS


def find_level(*, semantic: bool) -> float:
    return LEVEL if semantic else PLAIN_LEVEL
