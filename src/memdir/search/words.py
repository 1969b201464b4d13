"""The word table: for 30,000 English stems how rare each is, which others are near it, and a small vector.

A file that is mapped into memory, so that a cold process pays for the pages it looks at and for nothing else. How it
was made is told in docs/decisions; `benchmarks/build_words.py` makes it again. It knows single English words, no
names and no phrases; a word it does not know counts as rare and is near nothing.
"""

import json
import mmap
import struct
from bisect import bisect_left
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("words.bin")
HEAD_MAX = 4096  # bytes; a longer head is no head


def _read_size(head: object, name: str) -> int:
    value = head.get(name) if isinstance(head, dict) else None
    if type(value) is not int or value < 1:
        raise ValueError(f"the head of the word table has no {name}")
    return value


class WordTable:
    """Look-ups only. The words are sorted: halving a list can start at once, a dictionary would have to be built."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = struct.unpack_from("<I", self._map, 0)[0]
        if size > HEAD_MAX:
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
        # Looked at once here, so that no look-up can run over an end.
        if len(self._map) != self._similar + self.count * self.near_count or len(self._words) != self.count:
            raise ValueError(f"{path} is cut short, or not of the size it says")

    def find(self, word: str) -> int | None:
        """A word's number; None for a word the table does not know."""
        key = word.encode("utf-8", "replace")
        place = bisect_left(self._words, key)
        return place if place < self.count and self._words[place] == key else None

    def rarity(self, word: str) -> float:
        """0.1 for the commonest words of the language, 1 for rare and unknown ones."""
        number = self.find(word)
        return 1.0 if number is None else self._map[self._rarity + number] / 255

    def near(self, word: str) -> list[tuple[str, float]]:
        """The nearest words with their cosine, nearest first."""
        number = self.find(word)
        if number is None:
            return []
        ids = struct.unpack_from(f"<{self.near_count}H", self._map, self._near + number * self.near_count * 2)
        start = self._similar + number * self.near_count
        similar = self._map[start : start + self.near_count]
        pairs = zip(ids, similar, strict=True)
        return [(self._words[at].decode("utf-8", "replace"), value / 255) for at, value in pairs if at < self.count]

    def vector(self, word: str) -> tuple[bytes, float] | None:
        """A word's vector as signed bytes, and how much it weighs in a sum."""
        number = self.find(word)
        if number is None:
            return None
        start = self._vectors + number * self.dim
        return self._map[start : start + self.dim], self._map[self._weights + number] / 4


@cache
def open_words(path: Path = FILE) -> WordTable | None:
    """The table that came with memdir; None if the file is missing or broken, and then ranking is by words alone."""
    try:
        return WordTable(path)
    except (OSError, ValueError, struct.error):
        return None
