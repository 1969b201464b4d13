"""Recognise English sentences that state something worth keeping, such as "prices are stored without VAT".

A linear model over small words, their neighbours and the shapes of all other words, fitted to labelled sentences by
`benchmarks/statements.py`. It knows how people phrase statements, not their subjects: other words are only shapes.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Set
from functools import cache
from itertools import pairwise

from memdir.frozen import compile_late, dataclass
from memdir.records import Kind

FOLDER = os.path.join(os.path.dirname(__file__), "data")
_TOKEN = compile_late(r"`[^`]*`|[\w'-]+(?:[./_][\w-]+)+|[A-Za-z']+(?:-[a-z]+)*|\d[\d.,:]*\w*|\S")
_TOKENS = 60  # tokens of a sentence that are examined
_UNLIKELY = -2.4  # below the level of a statement; irony, quotations and suppositions are there
_ENDS = ("ing", "ed", "ly", "n't", "s")


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A linear model of features that are present or absent. It accepts a score above `level`.

    With fewer than `least` known features, the score is as small as with that many.
    """

    words: Set[str]
    weights: Mapping[str, float]
    bias: float
    level: float = 0.0
    least: int = 1

    def score(self, features: Iterable[str]) -> float:
        known = [self.weights[name] for name in features if name in self.weights]
        return self.bias + math.fsum(known) / math.sqrt(max(self.least, len(known)))


@cache
def load_model(file: str, name: str) -> LinearModel:
    with open(os.path.join(FOLDER, f"{file}.json"), encoding="utf-8") as opened:
        table = json.load(opened)
    return LinearModel(frozenset(table["words"]), **table[name])


def _measure(name: str, sentence: str) -> float:
    """Return how far the score of a sentence is above the level of a model."""
    model = load_model("statements", name)
    return model.score(list_features(sentence, model.words)) - model.level


def is_statement(sentence: str) -> bool:
    """Return whether an English sentence states something worth keeping."""
    return _measure("statement", sentence) > 0


def is_unlikely(sentences: Iterable[str]) -> bool:
    """Return whether none of these English sentences is meant, though the words are those of a rule ("always …")."""
    return all(_measure("statement", sentence) < _UNLIKELY for sentence in sentences)


def guess_kind(sentence: str) -> Kind:
    """Return the kind of memory that an English statement most likely is."""
    return max(Kind, key=lambda kind: _measure(kind, sentence))


def split_tokens(sentence: str) -> list[str]:
    return _TOKEN.findall(sentence.replace("’", "'"))[:_TOKENS]


def list_features(sentence: str, words: Set[str]) -> set[str]:
    """Return the features of a sentence: its small words and shapes, pairs of them, its beginning, end and length."""
    tokens = split_tokens(sentence)
    shapes = ["^", *(_find_shape(token, words, is_first=number == 0) for number, token in enumerate(tokens))]
    features = {*shapes, *(f"{one} {other}" for one, other in pairwise(shapes)), f"{shapes[-1]} $"}
    features |= {f"^ {' '.join(shapes[1:end])}" for end in (3, 4, 5)}
    return features | {f"#{min(8, int(2 * math.log2(len(shapes))))}"}


def _find_shape(token: str, words: Set[str], *, is_first: bool) -> str:
    """Return a word of `words` as it is, and any other token as a placeholder for its kind."""
    low = token.lower()
    if low in words:
        return low
    if token[0].isdigit():
        return "0"
    if token[0] == "`" or re.search(r"\w[./_]\w", token):
        return "<code>"
    if not token[0].isalpha():
        return token
    end = next((end for end in _ENDS if low.endswith(end) and len(low) > 4), "")
    return f"<{'A' if token[0].isupper() and not is_first else 'a'}{end}>"
