"""Fit the linear models that memdir ships, by gradient descent with Adam, which takes seconds."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from memdir.language.statements import FOLDER, LinearModel, split_tokens

PENALTY, STEPS, RATE = 0.1, 250, 0.15
LEAST = 3  # times of a feature


def find_small_words(texts: Iterable[tuple[str, str]], *, least: int, authors: int) -> frozenset[str]:
    """Return the words that are written often enough, and by enough authors, to say how and not what about."""
    counts, writers = Counter[str](), dict[str, set[str]]()
    for author, text in texts:
        for token in {token.lower() for token in split_tokens(text)}:
            counts[token] += 1
            writers.setdefault(token, set()).add(author)
    return frozenset(word for word, count in counts.items() if count >= least and len(writers[word]) >= authors)


def fit(
    rows: Sequence[tuple[Set[str], bool, float]], words: frozenset[str], *, penalty: float = PENALTY, least: int = 1
) -> LinearModel:
    """Fit rows of features, answer and weight."""
    features = [sorted(names) for names, _, _ in rows]
    often = Counter(name for names in features for name in names)
    index = {name: number for number, name in enumerate(sorted(name for name in often if often[name] >= LEAST))}
    pairs = [(row, index[name]) for row, names in enumerate(features) for name in names if name in index]
    at, column = np.array(pairs).T
    scale = 1 / np.sqrt(np.maximum(np.bincount(at, minlength=len(rows)), least))
    wanted, shares = np.array([float(yes) for _, yes, _ in rows]), np.array([weight for _, _, weight in rows])
    values = np.zeros(len(index) + 1)
    mean, square = np.zeros_like(values), np.zeros_like(values)
    for step in range(1, STEPS + 1):
        scores = np.bincount(at, values[column] * scale[at], len(rows)) + values[-1]
        error = shares * (1 / (1 + np.exp(-scores)) - wanted)
        slope = np.append(np.bincount(column, (error * scale)[at], len(index)) + penalty * values[:-1], error.sum())
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        values -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-6)
    weights = {name: round(float(values[number]), 2) for name, number in index.items()}
    strong = {name: weight for name, weight in weights.items() if abs(weight) >= 0.05}
    return LinearModel(words, strong, round(float(values[-1]), 3), least=least)


def write(file: str, models: Mapping[str, LinearModel]) -> None:
    """Write models that share their words."""
    table: dict[str, Any] = {"words": sorted(next(iter(models.values())).words)}
    for name, model in models.items():
        weights = dict(sorted(model.weights.items()))
        table[name] = {"level": model.level, "bias": model.bias, "least": model.least, "weights": weights}
    path = Path(FOLDER) / f"{file}.json"
    path.write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
