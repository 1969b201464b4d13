"""Vectors of passages and queries: weighted sums of word vectors, one byte a value, added and compared without numpy.

Importing numpy costs a cold process more than a whole query does. Two loops that run in C stand in for it: Python's
long integers add many slots of 64 bits at once, and `math.dist` measures from one string of bytes to another.
"""

import math
import struct
import sys
from array import array
from collections.abc import Iterable
from functools import cache, lru_cache

from memdir.search.words import WordTable

Vector = tuple[bytes, float]  # each value plus 128, and the length of the vector

_MIDDLE = 128  # the byte that stands for 0
_LIFT = bytes(value ^ 0x80 for value in range(256))  # signed bytes to lifted ones
_SLOT = 8  # bytes of a slot
_ROOM = 1 << 22  # what all weights add up to: with a value's 8 bits half a slot is enough, and the other half is for
_POINT = 32  # bits behind the point when sums are brought down to a byte


def pool(table: WordTable, weighted: Iterable[tuple[str, float]]) -> Vector | None:
    """The direction of weighted words; None if the table knows none of them."""
    found = [(at[0], weight * at[1]) for word, weight in weighted if (at := _find_slots(table, word)) is not None]
    total = sum([weight for _, weight in found])
    if not total:
        return None
    scale = _ROOM / total
    slots = lifted = 0
    for values, weight in found:
        share = int(weight * scale)
        slots += values * share
        lifted += share
    packed = _bring_down(slots, _MIDDLE * lifted, table.dim)
    return packed, _find_length(packed)


def _bring_down(slots: int, zero: int, dim: int) -> bytes:
    """The sums as bytes, the largest at the end of the range: one multiplication and one addition for all of them."""
    size = dim * _SLOT
    sums = array("Q", slots.to_bytes(size, sys.byteorder))
    factor = (127 << _POINT) // (max(max(sums) - zero, zero - min(sums)) or 1)
    start = (_MIDDLE << _POINT) + (1 << _POINT - 1) - zero * factor
    made = (slots * factor + start * _make_ones(dim)).to_bytes(size, sys.byteorder)
    return made[_POINT // 8 :: _SLOT] if sys.byteorder == "little" else made[_SLOT - 1 - _POINT // 8 :: _SLOT]


def compare(query: Vector, data: bytes, dim: int) -> list[float]:
    """The cosine of a query with each of several packed vectors."""
    values, length = query
    point = tuple(values)
    found = []
    for start in range(0, len(data), dim + 4):
        middle = start + dim
        other: float = struct.unpack_from("<f", data, middle)[0]
        # |q - d|² = |q|² + |d|² - 2 q·d, and lifting both moves neither.
        distance = math.dist(point, data[start:middle])
        product = (length * length + other * other - distance * distance) / 2
        found.append(product / (length * other) if other else 0.0)
    return found


def pack(vectors: Iterable[Vector | None], dim: int) -> bytes:
    """Vectors one after another; a missing one has no length."""
    blank = bytes(dim + 4)
    return b"".join(blank if at is None else at[0] + struct.pack("<f", at[1]) for at in vectors)


@cache
def _make_ones(dim: int) -> int:
    """A 1 in every slot."""
    one = (1).to_bytes(_SLOT, sys.byteorder)
    return int.from_bytes(one * dim, sys.byteorder)


@lru_cache(maxsize=8_192)
def _find_slots(table: WordTable, word: str) -> tuple[int, float] | None:
    """A word's lifted values, each in a slot of one long integer, and what a sum multiplies them by."""
    found = table.vector(word)
    if found is None:
        return None
    values = found[0].translate(_LIFT)
    slots = bytearray(table.dim * _SLOT)
    slots[0 if sys.byteorder == "little" else _SLOT - 1 :: _SLOT] = values
    length = _find_length(values)
    return (int.from_bytes(slots, sys.byteorder), found[1] / length) if length else None


def _find_length(values: bytes) -> float:
    return math.dist(values, bytes([_MIDDLE]) * len(values))
