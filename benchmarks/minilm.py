"""all-MiniLM-L6-v2 forwards, in numpy: a vector for each of many single words. What `build_words.py` needs of it.

For words, not for texts: nothing is padded or masked, so only inputs of equally many pieces go through together.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = Any  # numpy is not among the packages that memdir's types are checked with

LAYERS, HEADS, WIDTH = 6, 12, 384
BATCH = 2048  # pieces at a time


def embed_by_minilm(forms: Sequence[str], weights: Mapping[str, Array], pieces: Any) -> Array:
    """MiniLM: the mean of what comes out for a word alone. Words of as many pieces go together, without padding."""
    encoded = [at.ids for at in pieces.encode_batch(list(forms))]
    by_length = defaultdict(list)
    for number, ids in enumerate(encoded):
        by_length[len(ids)].append(number)
    out = np.zeros((len(forms), WIDTH), np.float32)
    for length, numbers in sorted(by_length.items()):
        step = max(1, BATCH // length)
        for start in range(0, len(numbers), step):
            some = numbers[start : start + step]
            out[some] = _run_minilm(weights, np.array([encoded[at] for at in some]))
    return out


def unit(rows: Array) -> Array:
    """Each row at length 1; a row of zeros stays one."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-6)


def _run_minilm(weights: Mapping[str, Array], ids: Array) -> Array:
    """The network forwards, for words of equally many pieces: rows of unit length."""

    def linear(rows: Array, name: str) -> Array:
        return rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def level(rows: Array, name: str) -> Array:
        centred = rows - rows.mean(-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
        return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    count, length = ids.shape
    state = weights["embeddings.word_embeddings.weight"][ids]
    state = state + weights["embeddings.position_embeddings.weight"][:length]
    state = level(state + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        query, key, value = (
            linear(state, f"{layer}.attention.self.{part}").reshape(count, length, HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        seen = np.exp(query @ key.transpose(0, 1, 3, 2) / np.float32((WIDTH / HEADS) ** 0.5))
        mixed = (seen / seen.sum(-1, keepdims=True) @ value).transpose(0, 2, 1, 3).reshape(count, length, WIDTH)
        state = level(state + linear(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        inner = linear(state, f"{layer}.intermediate.dense")
        inner = inner * (1 + _erf(inner / np.float32(2**0.5))) / 2
        state = level(state + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return unit(state.mean(1))


def _erf(rows: Array) -> Array:
    """The error function by Abramowitz and Stegun 7.1.26: wrong by 1.5e-7 at most, and no need for scipy."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(rows))
    factors = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    tail = np.zeros_like(rows)
    for factor in factors:
        tail = (tail + np.float32(factor)) * t
    return np.sign(rows) * (1 - tail * np.exp(-rows * rows))
