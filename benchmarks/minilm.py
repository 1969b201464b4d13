"""all-MiniLM-L6-v2 forwards, in numpy: a vector for each of many single words. What `build_words.py` needs of it.

For words, not for texts: nothing is padded or masked, so only inputs of equally many pieces go through together.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memdir.recall.encode import run_bert

Array = Any  # numpy is not among the packages that memdir's types are checked with

WIDTH = 384
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
            out[some] = run_bert(weights, np.array([encoded[at] for at in some]))
    return out


def unit(rows: Array) -> Array:
    """Each row at length 1; a row of zeros stays one."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-6)
