"""The word table: for 30,000 English stems how rare each is, which others are near it, and a small vector.

A file that is mapped into memory, so that a cold process reads only the pages it needs. `benchmarks/build_words.py`
makes it; docs/decisions describes how. It has single English words, no names and no phrases; a word it does not know
counts as rare and is near nothing.

Vectors of passages and queries are weighted sums of word vectors, one byte a value, added and compared without numpy:
importing numpy costs a cold process more than a whole query. Two loops that run in C do the work: Python's long
integers add many slots of 64 bits at once, and `math.dist` measures from one byte string to another.
"""

import json
import math
import mmap
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

FILE = Path(__file__).with_name("words.bin")
Vector = tuple[bytes, float]  # each value plus 128, and the length of the vector

_HEAD_BYTES = 4096  # a longer head is no head
_ZERO = 128  # the byte that stands for 0
_LIFT = bytes(value ^ 0x80 for value in range(256))  # signed bytes to lifted ones
_SLOT = 8  # bytes of a slot
_TOTAL_WEIGHT = 1 << 22  # all weights of a sum: with the 8 bits of a value this fills half a slot
_POINT = 32  # bits behind the point when sums are scaled to a byte: the other half


class WordTable:
    """Lookups only. The words are sorted, since bisection can start at once; a dictionary would have to be built."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = struct.unpack_from("<I", self._map, 0)[0]
        if size > _HEAD_BYTES:
            raise ValueError(f"{path} does not begin like a word table")
        head = json.loads(self._map[4 : 4 + size])
        self.count, self.dim, self.near_count = (_read_size(head, name) for name in ("n", "dim", "k"))
        self.name = f"{path.name}-{self.count}-{self.dim}-{head.get('kind', '')}"
        start = 4 + size
        self._vectors = start + _read_size(head, "words")
        self._weights = self._vectors + self.count * self.dim
        self._rarity = self._weights + self.count
        self._near = self._rarity + self.count
        self._similar = self._near + self.count * self.near_count * 2
        self._words = self._map[start : self._vectors].split(b"\n")
        # Checked once here, so that no lookup can run over an end.
        if len(self._map) != self._similar + self.count * self.near_count or len(self._words) != self.count:
            raise ValueError(f"{path} is truncated, or not of the size it says")

    def find(self, word: str) -> int | None:
        """Return a word's number; None for a word the table does not know."""
        key = word.encode("utf-8", "replace")
        place = bisect_left(self._words, key)
        return place if place < self.count and self._words[place] == key else None

    def rarity(self, word: str) -> float:
        """0.1 for the commonest words of the language, 1 for rare and unknown ones."""
        number = self.find(word)
        return 1.0 if number is None else self._map[self._rarity + number] / 255

    def near(self, word: str) -> list[tuple[str, float]]:
        """Return the nearest words with their cosine, nearest first."""
        number = self.find(word)
        if number is None:
            return []
        ids = struct.unpack_from(f"<{self.near_count}H", self._map, self._near + number * self.near_count * 2)
        start = self._similar + number * self.near_count
        pairs = zip(ids, self._map[start : start + self.near_count], strict=True)
        return [(self._words[at].decode("utf-8", "replace"), value / 255) for at, value in pairs if at < self.count]

    def vector(self, word: str) -> tuple[bytes, float] | None:
        """Return a word's vector as signed bytes, and its weight in a sum."""
        number = self.find(word)
        if number is None:
            return None
        start = self._vectors + number * self.dim
        return self._map[start : start + self.dim], self._map[self._weights + number] / 4


@cache
def open_words(path: Path = FILE) -> WordTable | None:
    """Open the table that came with memdir; None if it is missing or broken: then ranking is by words alone."""
    try:
        return WordTable(path)
    except (OSError, ValueError, struct.error):
        return None


def pool(table: WordTable, weighted: Iterable[tuple[str, float]]) -> Vector | None:
    """Return the direction of weighted words; None if the table knows none of them."""
    found = [(at[0], weight * at[1]) for word, weight in weighted if (at := _find_slots(table, word)) is not None]
    total = sum([weight for _, weight in found])
    if not total:
        return None
    scale = _TOTAL_WEIGHT / total
    slots = lifted = 0
    for values, weight in found:
        share = int(weight * scale)
        slots += values * share
        lifted += share
    packed = _scale_down(slots, _ZERO * lifted, table.dim)
    return packed, _find_length(packed)


def compare(query: Vector, data: bytes, dim: int) -> list[float]:
    """Return the cosine of a query with each of several packed vectors."""
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


def pack_vector(vectors: Iterable[Vector | None], dim: int) -> bytes:
    """Pack vectors one after another; a missing one has length 0."""
    blank = bytes(dim + 4)
    return b"".join(blank if at is None else at[0] + struct.pack("<f", at[1]) for at in vectors)


def _read_size(head: object, name: str) -> int:
    value = head.get(name) if isinstance(head, dict) else None
    if type(value) is not int or value < 1:
        raise ValueError(f"the head of the word table has no {name}")
    return value


def _scale_down(slots: int, zero: int, dim: int) -> bytes:
    """The sums as bytes, the largest at the end of the range: one multiplication and one addition for all of them."""
    size = dim * _SLOT
    sums = array("Q", slots.to_bytes(size, sys.byteorder))
    factor = (127 << _POINT) // (max(max(sums) - zero, zero - min(sums)) or 1)
    start = (_ZERO << _POINT) + (1 << _POINT - 1) - zero * factor
    made = (slots * factor + start * _make_ones(dim)).to_bytes(size, sys.byteorder)
    return made[_POINT // 8 :: _SLOT] if sys.byteorder == "little" else made[_SLOT - 1 - _POINT // 8 :: _SLOT]


@cache
def _make_ones(dim: int) -> int:
    """A 1 in every slot."""
    return int.from_bytes((1).to_bytes(_SLOT, sys.byteorder) * dim, sys.byteorder)


@lru_cache(maxsize=8_192)
def _find_slots(table: WordTable, word: str) -> tuple[int, float] | None:
    """A word's lifted values, each in a slot of one long integer, and the factor for a sum."""
    found = table.vector(word)
    if found is None:
        return None
    values = found[0].translate(_LIFT)
    slots = bytearray(table.dim * _SLOT)
    slots[0 if sys.byteorder == "little" else _SLOT - 1 :: _SLOT] = values
    length = _find_length(values)
    return (int.from_bytes(slots, sys.byteorder), found[1] / length) if length else None


def _find_length(values: bytes) -> float:
    return math.dist(values, bytes([_ZERO]) * len(values))
