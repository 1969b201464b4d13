"""The derived index of one directory in SQLite, which is updated from the files and searched for candidates.

The index is one file, `index.db`. It is written in transactions, so that several processes can use it at once and a killed
process leaves it intact. Unchanged files are not read again. If the index is damaged it is deleted and built again from the
files. Scores are computed in `select`.

    files     path, stat signature, document number, normalised name
    bodies    a document's passages (including its cues), vectors, and properties that do not depend on a query
    terms     each word of the directory, and the number of documents that contain it
    postings  for each word, blocks of document numbers with counts, as strings of 32-bit integers
    triggers  the actions that call for a document (`recall.triggers`)
    totals    counts over all documents; the type of the index; the listing and the folders at the last update

The documents of a term are stored in blocks by number, so that changing one document rewrites one block per term.
"""

import heapq
import json
import math
import mmap
import os
import sqlite3
import struct
import sys
import time
import zlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

from memdir.files import ChangedListing, Stat
from memdir.format import frontmatter
from memdir.format.age import find_links
from memdir.format.frontmatter import read_time
from memdir.format.rules import judge_rule
from memdir.format.shown import find_heads
from memdir.frozen import dataclass
from memdir.limits import RULES
from memdir.recall.terms import parse_terms, split_passages
from memdir.recall.triggers import TRIGGER_COLUMNS, Trigger, list_triggers
from memdir.records import TEAM_FOLDER, Kind, When
from memdir.store import files
from memdir.text import fold, fold_link

# --- the word table: for 30,000 English stems how rare each is, which others are near it, and a vector ---------------
# The file is mapped into memory, so that a cold process reads only the pages it needs. `benchmarks/build_words.py` makes
# it; docs/decisions describes how. It has single English words, no names and no phrases; an unknown word counts as rare
# and has no neighbours.
#
# Vectors of passages and queries are weighted sums of word vectors, one byte per value. They are added and compared
# without numpy, whose import costs a cold process more than a query. Two loops run in C instead: Python's long integers
# add many slots of 64 bits at once, and `math.dist` returns the distance between two byte strings.

FILE = Path(__file__).with_name("words.bin")
Vector = tuple[bytes, float]  # each value plus 128, and the length of the vector

_HEAD_BYTES = 4096  # longer headers are invalid
_ZERO = 128  # the byte that stands for 0
_LIFT = bytes(value ^ 0x80 for value in range(256))  # translates signed bytes to bytes plus 128
_SLOT = 8  # bytes of a slot
_TOTAL_WEIGHT = 1 << 22  # sum of all weights: times the 8 bits of a value, it fits into half a slot
_POINT = 32  # fraction bits when sums are scaled to a byte: the other half of a slot


class WordTable:
    """A read-only table of words with their rarity and vectors."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = struct.unpack_from("<I", self._map, 0)[0]
        if size > _HEAD_BYTES:
            raise ValueError(f"{path} is not a valid word-vector file")
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
        # Checked here once, so that no lookup exceeds the file.
        if len(self._map) != self._similar + self.count * self.near_count or len(self._words) != self.count:
            raise ValueError(f"{path} does not have the size in its header")

    def find(self, word: str) -> int | None:
        """Return the index of a word in the table, or None."""
        key = word.encode("utf-8", "replace")
        index = bisect_left(self._words, key)
        return index if index < self.count and self._words[index] == key else None

    def rarity(self, word: str) -> float:
        """Return how rare a word is, from 0.1 for the most common words to 1 for rare and unknown ones."""
        number = self.find(word)
        return 1.0 if number is None else self._map[self._rarity + number] / 255

    def near(self, word: str) -> list[tuple[str, float]]:
        """Return the most similar words and their cosines, most similar first."""
        number = self.find(word)
        if number is None:
            return []
        ids = struct.unpack_from(f"<{self.near_count}H", self._map, self._near + number * self.near_count * 2)
        start = self._similar + number * self.near_count
        pairs = zip(ids, self._map[start : start + self.near_count], strict=True)
        return [(self._words[id].decode("utf-8", "replace"), value / 255) for id, value in pairs if id < self.count]

    def vector(self, word: str) -> tuple[bytes, float] | None:
        """Return a word's vector as signed bytes and its weight in a sum, or None."""
        number = self.find(word)
        if number is None:
            return None
        start = self._vectors + number * self.dim
        return self._map[start : start + self.dim], self._map[self._weights + number] / 4


@cache
def open_words(path: Path = FILE) -> WordTable | None:
    """Open the built-in word table. Returns None if it is missing or invalid."""
    try:
        return WordTable(path)
    except (OSError, ValueError, struct.error):
        return None


def pool(table: WordTable, weighted: Iterable[tuple[str, float]]) -> Vector | None:
    """Return the normalised sum of the words' weighted vectors, or None if none of them is in the table."""
    parts = [(slot[0], weight * slot[1]) for word, weight in weighted if (slot := _find_slots(table, word)) is not None]
    total = sum([weight for _, weight in parts])
    if not total:
        return None
    scale = _TOTAL_WEIGHT / total
    slots = lifted = 0
    for values, weight in parts:
        share = int(weight * scale)
        slots += values * share
        lifted += share
    packed = _scale_down(slots, _ZERO * lifted, table.dim)
    return packed, _find_length(packed)


def pack_vector(vectors: Iterable[Vector | None], dim: int) -> bytes:
    """Pack vectors into bytes. A missing vector is packed as zeros."""
    blank = bytes(dim + 4)
    return b"".join(blank if vector is None else vector[0] + struct.pack("<f", vector[1]) for vector in vectors)


def _read_size(head: object, name: str) -> int:
    value = head.get(name) if isinstance(head, dict) else None
    if type(value) is not int or value < 1:
        raise ValueError(f"the header of the word-vector file lacks {name}")
    return value


def _scale_down(slots: int, zero: int, dim: int) -> bytes:
    """Scale the sums to bytes, using the full range."""
    size = dim * _SLOT
    sums = array("Q", slots.to_bytes(size, sys.byteorder))
    factor = (127 << _POINT) // (max(max(sums) - zero, zero - min(sums)) or 1)
    start = (_ZERO << _POINT) + (1 << _POINT - 1) - zero * factor
    scaled = (slots * factor + start * _make_ones(dim)).to_bytes(size, sys.byteorder)
    return scaled[_POINT // 8 :: _SLOT] if sys.byteorder == "little" else scaled[_SLOT - 1 - _POINT // 8 :: _SLOT]


@cache
def _make_ones(dim: int) -> int:
    """Return an integer with the value 1 in every slot."""
    return int.from_bytes((1).to_bytes(_SLOT, sys.byteorder) * dim, sys.byteorder)


@lru_cache(maxsize=8_192)
def _find_slots(table: WordTable, word: str) -> tuple[int, float] | None:
    """Return a word's vector packed into one integer with a slot per value, and its weight in a sum."""
    vector = table.vector(word)
    if vector is None:
        return None
    values = vector[0].translate(_LIFT)
    slots = bytearray(table.dim * _SLOT)
    slots[0 if sys.byteorder == "little" else _SLOT - 1 :: _SLOT] = values
    length = _find_length(values)
    return (int.from_bytes(slots, sys.byteorder), vector[1] / length) if length else None


def _find_length(values: bytes) -> float:
    return math.dist(values, bytes([_ZERO]) * len(values))


# --- the index -------------------------------------------------------------------------------------------------------

SATURATION = 0.9  # BM25's k1: how soon more occurrences of a word stop counting
_BLOCK_BITS = 11  # 2,048 documents per block
COUNT_BITS, MAX_COUNT = 4, 15  # a posting is a document number with the count in its last bits
_SCHEMA = f"6-{sys.byteorder}"  # an index with another schema is built again
_TABLES = {
    "files": "path TEXT PRIMARY KEY, sig TEXT NOT NULL, doc INTEGER NOT NULL, key TEXT NOT NULL",
    "bodies": "doc INTEGER PRIMARY KEY, path TEXT, length INTEGER, passages TEXT, vectors BLOB, links TEXT,"
    " modified REAL, pinned INTEGER, kind TEXT, rule INTEGER",
    "terms": "id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE, df INTEGER NOT NULL",
    "postings": "term INTEGER, block INTEGER, data BLOB NOT NULL, PRIMARY KEY (term, block)",
    "triggers": TRIGGER_COLUMNS,
    "totals": "name TEXT PRIMARY KEY, value",
}
_APPEND = (
    "INSERT INTO postings VALUES (?, ?, ?)"
    " ON CONFLICT (term, block) DO UPDATE SET data = CAST(data || excluded.data AS BLOB)"
)
_ADD_TERM = "INSERT INTO terms (word, df) VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET df = df + excluded.df"
_ADD_COUNT = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
_MANY = 500  # max values in one IN (…)
_BUSY_SECONDS = 0.5
LARGE = 500  # files; listing fewer takes no noticeable time, and finds files overwritten in place
_SETTLED_NS = 2_000_000_000  # a folder that has just changed may change again with the same mtime
_BATCH = 2_000  # files per transaction, which a killed build loses and which are in memory at once
_CACHE_KIB = 16_384
_NO_LINKS: frozenset[str] = frozenset()
_KINDS = {"": None, **{kind.value: kind for kind in Kind}}
Read = Callable[[str], "bytes | None"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryPriors:
    """The properties of a memory that affect its rank for any query. `rule`: how certain it is a standing rule."""

    modified: datetime
    pinned: bool
    kind: Kind | None
    links: frozenset[str]
    rule: int = 0


@dataclass(frozen=True, slots=True)
class IndexRow:
    """An indexed document. `passages` are its words by passage, and `length` their number.

    `vectors` are those of its cues (or title and description), of the full document, and of each passage if there are
    several. `heads` are the words of the cues; they are not stored. `triggers` are rows of their own table.
    """

    path: str
    length: int
    passages: str
    vectors: bytes
    priors: MemoryPriors
    heads: tuple[str, ...] = ()
    triggers: tuple[Trigger, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexTotals:
    """The totals of a directory, which determine the weights of words."""

    docs: int
    length: int
    passages: int

    def idf(self, df: int) -> float:
        """Return the inverse document frequency of a word that occurs in `df` documents."""
        df = min(df, self.docs)
        return math.log(1.0 + (self.docs - df + 0.5) / (df + 0.5))


class Catalog:
    """An open index. Without `semantic`, the word table is used only for rarity, not for similarity. `shared`: others can
    write the memories, so pins and triggers in them do not count."""

    def __init__(self, path: Path, table: WordTable | None, *, semantic: bool = True, shared: bool = False) -> None:
        self.path = path
        self._is_shared = shared
        self.table = table
        self.semantic = semantic and table is not None
        self._keeps_vectors = False
        self._db = self._open()

    def close(self) -> None:
        self._db.close()

    def __del__(self) -> None:
        if hasattr(self, "_db"):  # Python 3.13 warns of connections that were not closed
            self._db.close()

    def rebuild(self) -> None:
        """Delete the index and create an empty one."""
        self._db.close()
        files.drop_index(self.path)
        self._db = self._open()

    def refresh(self, listed: Mapping[str, Stat], read: Read, marks: Mapping[str, Stat] | None = None) -> int:
        """Update the index from a listing. Return the number of files read. `marks` is stored for `read_marks`."""
        listing, version = _digest_listing(listed), self._read_version()
        folders = _render_marks(marks or {}) if len(listed) >= LARGE else ""
        if _find_total(self._db, "listing") == listing:
            if (_find_total(self._db, "folders") or "") != folders:
                self._write([], {}, [], {"folders": folders})
            return 0
        known = dict(self._db.execute("SELECT path, sig FROM files"))
        signatures = _render_signatures(listed)
        changed = {path: signature for path, signature in signatures.items() if known.get(path) != signature}
        gone = [path for path in known if path not in signatures]
        return self._update_rows(changed, gone, read, {"listing": listing, "folders": folders}, version)

    def update(self, changed: ChangedListing, read: Read) -> int:
        """Update the index with the changes since `marks` were stored. Return the number of files read."""
        totals = {"listing": "", "folders": _render_marks(changed.marks)}
        return self._update_rows(_render_signatures(changed.changed), changed.gone, read, totals)

    def read_marks(self) -> dict[str, Stat]:
        """Return the stat results of the folders at the last update, or an empty dict for small directories."""
        try:
            marks = json.loads(_find_total(self._db, "folders") or "{}")
            return {folder: tuple(stat) for folder, stat in marks.items()}
        except ValueError:
            return {}

    def read_inodes(self, folder: str) -> dict[str, int]:
        """Return the indexed files of a folder with their inode numbers."""
        select, values = "SELECT path, sig FROM files WHERE instr(path, '/') = 0", tuple[str, ...]()
        if folder:
            select = "SELECT path, sig FROM files WHERE path > ? AND path < ? AND instr(substr(path, ?), '/') = 0"
            values = f"{folder}/", f"{folder}0", str(len(folder) + 2)
        return {path: int(sig[: sig.index(" ")]) for path, sig in self._db.execute(select, values)}

    def find_signatures(self, paths: Sequence[str]) -> dict[str, str]:
        signatures: dict[str, str] = {}
        for batch in _split_batches(paths):
            signatures.update(
                self._db.execute(f"SELECT path, sig FROM files WHERE path IN ({_make_placeholders(batch)})", batch)
            )
        return signatures

    def find_stale(self, now: Mapping[str, Stat]) -> dict[str, Stat]:
        """Return the files that differ from their signature in the index."""
        known = self.find_signatures(list(now))
        return {path: stat for path, stat in now.items() if path in known and known[path] != _render_signature(stat)}

    def has_name(self, name: str) -> bool:
        """Return whether a memory with this name exists, regardless of case and Unicode form."""
        return self._db.execute("SELECT 1 FROM files WHERE key = ?", (fold(name),)).fetchone() is not None

    def _update_rows(
        self, changed: Mapping[str, str], gone: Sequence[str], read: Read, totals: Mapping[str, str], version: int = 0
    ) -> int:
        paths, count = list(changed), 0
        for start in range(0, len(paths) or 1, _BATCH):
            rows = [
                parse_memory(path, data.decode("utf-8", "replace"), changed[path], shared=self._is_shared)
                for path in paths[start : start + _BATCH]
                if (data := read(path)) is not None
            ]
            is_last = start + _BATCH >= len(paths)
            # After an unreadable file or a write by another process, the next refresh compares all files again.
            is_complete = is_last and count + len(rows) == len(paths) and self._read_version() == version
            last = {**totals, **({} if is_complete else {"listing": ""})} if is_last else {"listing": ""}
            if not self._write(rows, changed, gone if is_last else (), last):
                break
            count += len(rows)
        return count

    def read_links(self) -> dict[str, frozenset[str]]:
        """Return the link targets of each memory with links, by path."""
        rows = self._db.execute("SELECT path, links FROM bodies WHERE links <> ''").fetchall()
        return {path: frozenset(links.split("\n")) for path, links in rows}

    def read_rules(self) -> list[tuple[int, bool, float, str]]:
        """Return the rows of possible standing rules for `choose_rules`, with their paths."""
        order = "rule DESC, pinned DESC, modified DESC"
        select = f"SELECT rule, pinned, modified, path FROM bodies WHERE rule > 0 ORDER BY {order} LIMIT {RULES}"
        return self._db.execute(select).fetchall()

    def read_totals(self) -> IndexTotals:
        totals = dict(self._db.execute("SELECT name, value FROM totals WHERE name IN ('docs', 'length', 'passages')"))
        return IndexTotals(totals.get("docs", 0), totals.get("length", 0), totals.get("passages", 0))

    def find_terms(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return the ID and document frequency of each word that is in the index."""
        terms = {}
        for batch in _split_batches(words):
            rows = self._db.execute(
                f"SELECT word, id, df FROM terms WHERE word IN ({_make_placeholders(batch)})", batch
            )
            terms.update({word: (term, df) for word, term, df in rows})
        return terms

    def find_kin(self, stem: str, max_length: int) -> list[str]:
        """Return the indexed words that start with a stem and are not longer than `max_length`."""
        upper = stem[:-1] + chr(ord(stem[-1]) + 1)
        select = "SELECT word FROM terms WHERE word >= ? AND word < ? AND length(word) <= ? LIMIT 20"
        return [word for (word,) in self._db.execute(select, (stem, upper, max_length))]

    def find_candidates(self, weights: Mapping[int, float], limit: int) -> list[int]:
        """Return the documents with the largest sum of term weights, in no particular order."""
        terms = ",".join(map(str, weights))
        rows = self._db.execute(f"SELECT term, data FROM postings WHERE term IN ({terms})")
        return choose_candidates(((weights[term], array("I", data)) for term, data in rows), limit)

    def find_docs(self, paths: Sequence[str]) -> list[int]:
        docs: list[int] = []
        for batch in _split_batches(paths):
            rows = self._db.execute(f"SELECT doc FROM files WHERE path IN ({_make_placeholders(batch)})", batch)
            docs += [doc for (doc,) in rows]
        return docs

    def read_rows(self, docs: Iterable[int] | None) -> list[IndexRow]:
        """Return the rows of these documents, or all rows if `docs` is None."""
        select = "SELECT path, length, passages, vectors, links, modified, pinned, kind FROM bodies"
        if docs is not None:
            select += f" WHERE doc IN ({','.join(map(str, docs))})"
        rows = []
        for path, length, passages, data, links, modified, pinned, kind in self._db.execute(select):
            linked = frozenset(links.split("\n")) if links else _NO_LINKS
            priors = MemoryPriors(_read_moment(modified), bool(pinned), _KINDS[kind], linked)
            rows.append(IndexRow(path, length, passages, data, priors))
        return rows

    def _read_version(self) -> int:
        """Return a number that changes when another process writes to the index."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def _write(
        self, rows: Sequence[IndexRow], signatures: Mapping[str, str], gone: Sequence[str], totals: Mapping[str, str]
    ) -> bool:
        """Write rows in one transaction, except rows already added by others. Returns False if the index is locked."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _is_busy(error):
                return False
            raise
        with self._db:
            known = self.find_signatures([row.path for row in rows])
            fresh = [row for row in rows if known.get(row.path) != signatures[row.path]]
            self._remove([*gone, *(row.path for row in fresh if row.path in known)])
            if fresh:
                self._add(fresh, signatures)
            for name, value in totals.items():
                _write_total(self._db, name, value)
        return True

    def _add(self, rows: Sequence[IndexRow], signatures: Mapping[str, str]) -> None:
        counts = [Counter(row.passages.split()) for row in rows]
        fresh: Counter[str] = Counter()
        for count in counts:
            fresh.update(count.keys())
        self._db.executemany(_ADD_TERM, fresh.items())
        self._add_counts(len(rows), sum(row.length for row in rows), sum(_count_lines(row.passages) for row in rows))
        known = self.find_terms(list(fresh))
        totals = self.read_totals()
        rarity = {word: math.sqrt(totals.idf(df)) for word, (_, df) in known.items()}
        first = (self._db.execute("SELECT MAX(doc) FROM bodies").fetchone()[0] or 0) + 1
        table = self.table if self._keeps_vectors else None
        bodies, blocks = [], dict[tuple[int, int], list[int]]()
        for doc, (row, count) in enumerate(zip(rows, counts, strict=True), first):
            vectors = make_vectors(table, row, count, rarity) if table else b""
            priors = row.priors
            links, kind = "\n".join(sorted(priors.links)), priors.kind.value if priors.kind else ""
            facts = links, priors.modified.timestamp(), priors.pinned, kind, priors.rule
            bodies.append((doc, row.path, row.length, row.passages, vectors, *facts))
            for word, tf in count.items():
                posting = doc << COUNT_BITS | min(tf, MAX_COUNT)
                blocks.setdefault((known[word][0], doc >> _BLOCK_BITS), []).append(posting)
        self._db.executemany("INSERT INTO bodies VALUES (?,?,?,?,?,?,?,?,?,?)", bodies)
        trigger_rows = [(doc, *trigger) for doc, row in enumerate(rows, first) for trigger in row.triggers]
        self._db.executemany("INSERT OR IGNORE INTO triggers VALUES (?,?,?,?)", trigger_rows)
        numbered = [
            (row.path, signatures[row.path], doc, fold(row.path.removesuffix(".md")))
            for doc, row in enumerate(rows, first)
        ]
        self._db.executemany("INSERT INTO files VALUES (?, ?, ?, ?)", numbered)
        self._db.executemany(_APPEND, [(*key, array("I", blocks[key]).tobytes()) for key in sorted(blocks)])

    def _remove(self, paths: Sequence[str]) -> None:
        """Remove documents and their terms from the index."""
        db = self._db
        for docs in _split_batches(self.find_docs(paths)):
            numbers = ",".join(map(str, docs))
            holders: dict[str, set[int]] = {}
            select = f"SELECT doc, length, passages FROM bodies WHERE doc IN ({numbers})"
            for doc, length, passages in db.execute(select):
                self._add_counts(-1, -length, -_count_lines(passages))
                for word in set(passages.split()):
                    holders.setdefault(word, set()).add(doc)
            for word, (term, _) in self.find_terms(list(holders)).items():
                self._remove_postings(term, holders[word])
            lost = [(len(docs_of), word) for word, docs_of in holders.items()]
            db.executemany("UPDATE terms SET df = df - ? WHERE word = ?", lost)
            db.executemany("DELETE FROM terms WHERE word = ? AND df <= 0", [(word,) for word in holders])
            db.execute(f"DELETE FROM bodies WHERE doc IN ({numbers})")
            db.execute(f"DELETE FROM triggers WHERE doc IN ({numbers})")
            db.execute(f"DELETE FROM files WHERE doc IN ({numbers})")

    def _remove_postings(self, term: int, docs: set[int]) -> None:
        for key in {(term, doc >> _BLOCK_BITS) for doc in docs}:
            row = self._db.execute("SELECT data FROM postings WHERE term = ? AND block = ?", key).fetchone()
            postings = array("I", row[0] if row else b"")
            rest = array("I", (posting for posting in postings if posting >> COUNT_BITS not in docs))
            if rest:
                self._db.execute("UPDATE postings SET data = ? WHERE term = ? AND block = ?", (rest.tobytes(), *key))
            else:
                self._db.execute("DELETE FROM postings WHERE term = ? AND block = ?", key)

    def _add_counts(self, docs: int, length: int, passages: int) -> None:
        self._db.executemany(_ADD_COUNT, [("docs", docs), ("length", length), ("passages", passages)])

    def _open(self) -> sqlite3.Connection:
        try:
            return self._open_once()
        except sqlite3.DatabaseError as error:
            # Only a file in our own folder may be deleted; a linked folder may belong to others.
            if _is_busy(error) or os.path.islink(self.path.parent):
                raise
            files.drop_index(self.path)
            return self._open_once()

    def _open_once(self) -> sqlite3.Connection:
        db = files.open_index(self.path, _BUSY_SECONDS)
        try:
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._check_kind(db)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _check_kind(self, db: sqlite3.Connection) -> None:
        """Create the tables again if the index was made with other settings or by another version."""
        plain = f"{_SCHEMA} "
        full = plain + (self.table.name if self.table is not None else "")
        own_kind = full if self.semantic else plain
        if _find_kind(db) not in (full, own_kind):
            db.execute("BEGIN IMMEDIATE")
            with db:
                if _find_kind(db) not in (full, own_kind):  # no other process has built it since
                    for name, columns in _TABLES.items():
                        db.execute(f"DROP TABLE IF EXISTS {name}")
                        keyed = "" if "INTEGER PRIMARY KEY" in columns else " WITHOUT ROWID"
                        db.execute(f"CREATE TABLE {name} ({columns}){keyed}")
                    db.execute("CREATE INDEX files_key ON files (key)")
                    db.execute("CREATE INDEX rules ON bodies (rule, pinned, modified, path) WHERE rule > 0")
                    _write_total(db, "kind", own_kind)
        self._keeps_vectors = _find_kind(db) == full


def choose_candidates(postings: Iterable[tuple[float, Iterable[int]]], limit: int) -> list[int]:
    """Return the documents with the largest sum of weights, in no particular order."""
    counts = range(MAX_COUNT + 1)
    scores: dict[int, float] = {}
    find = scores.get
    for weight, data in postings:
        gain = [weight * count / (count + SATURATION) for count in counts]
        for posting in data:
            doc = posting >> COUNT_BITS
            scores[doc] = find(doc, 0.0) + gain[posting & MAX_COUNT]
    if len(scores) <= limit:
        return list(scores)
    lowest = heapq.nlargest(limit, scores.values())[-1]
    best = [doc for doc, score in scores.items() if score > lowest]
    # Later documents, which are usually newer, win ties.
    same = sorted([doc for doc, score in scores.items() if score == lowest], reverse=True)
    return best + same[: limit - len(best)]


def is_large(path: Path) -> bool:
    """Return whether the index at `path` is of a directory so large that a prompt updates only part of it."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as db:
            return bool(_find_total(db, "folders"))
    except sqlite3.Error:  # there is no index yet, or it is broken and the next search builds it again
        return False


def parse_memory(path: str, text: str, signature: str, *, shared: bool = False) -> IndexRow:
    """Return a memory as an index row without vectors."""
    fields = frontmatter.parse_fields(text)
    body = frontmatter.split_frontmatter(text).body
    title = fields.title or path.removesuffix(".md").replace("/", " ").replace("_", " ").replace("-", " ")
    heads = parse_terms("\n".join(fields.cues or (title, fields.description)))
    lines = ["\n".join(find_heads(title, fields.description, body)), *fields.cues, *split_passages(body)]
    passages = [passage for passage in map(parse_terms, lines) if passage]
    links = frozenset(fold_link(link.removesuffix(".md")) for link, _ in find_links(text))
    written = read_time(fields.modified) or datetime.fromtimestamp(int(signature.split()[2]) / 1e9, UTC)
    modified = max(written, read_time(fields.verified) or written)
    is_own = not shared and not path.startswith(f"{TEAM_FOLDER}/")
    pinned, rule = (fields.pinned, judge_rule(fields)) if is_own else (False, 0)  # as in a header
    when = fields.when if is_own else When()
    priors = MemoryPriors(modified, pinned, fields.kind, links, rule)
    joined = "\n".join(map(" ".join, passages))
    triggers = list_triggers(when, "\n".join((title, fields.description, body)))
    return IndexRow(path, sum(map(len, passages)), joined, b"", priors, tuple(heads), tuple(triggers))


def make_vectors(table: WordTable, row: IndexRow, total: Mapping[str, int], rarity: Mapping[str, float]) -> bytes:
    groups = [Counter(row.heads), total]
    if "\n" in row.passages:
        groups += [Counter(passage.split()) for passage in row.passages.split("\n")]
    weighted = ([(word, rarity.get(word, 1.0) * math.sqrt(tf)) for word, tf in group.items()] for group in groups)
    return pack_vector([pool(table, words) for words in weighted], table.dim)


def _is_busy(error: sqlite3.Error) -> bool:
    """Return whether an error means that another process has locked the index."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # `open_index` has errors of its own
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _find_kind(db: sqlite3.Connection) -> str | None:
    has = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals'").fetchone()
    return _find_total(db, "kind") if has else None


def _find_total(db: sqlite3.Connection, name: str) -> str | None:
    row = db.execute("SELECT value FROM totals WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _write_total(db: sqlite3.Connection, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO totals VALUES (?, ?)", (name, value))


def _read_moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _render_signature(stat: Stat) -> str:
    """Render a stat result as text, because some inode numbers exceed SQLite's integers."""
    return " ".join(map(str, stat))


def _render_signatures(listed: Mapping[str, Stat]) -> dict[str, str]:
    return {path: _render_signature(stat) for path, stat in listed.items()}


def _render_marks(marks: Mapping[str, Stat]) -> str:
    """Render the stat results of folders. Recently changed folders get none, so that they are listed again."""
    latest = time.time_ns() - _SETTLED_NS
    return json.dumps({folder: stat if stat and stat[2] < latest else () for folder, stat in marks.items()})


def _digest_listing(listed: Mapping[str, Stat]) -> str:
    """Return a digest of a directory listing that is the same in every process."""
    names = "\n".join(listed).encode("utf-8", "replace")
    return f"{len(listed)}-{zlib.crc32(names):08x}{hash(tuple(listed.values())) & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def _count_lines(passages: str) -> int:
    return passages.count("\n") + 1 if passages else 0


def _split_batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _MANY] for start in range(0, len(values), _MANY))


def _make_placeholders(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
