"""The derived index of one directory, in SQLite: kept up to date with the files, and searched for candidates.

One file, `index.db`, written in transactions, so that several processes can use it at once and a killed one leaves it
intact. A file that has not changed is not read again. If anything is wrong with the index it is deleted and made anew:
the files are canonical. Scores are computed in `rank`.

    files     path, stat signature, document number
    bodies    a document's passages, vectors, and what counts before any question
    terms     each word of the directory, and the number of documents that contain it
    postings  for each word, blocks of document numbers with counts, as strings of 32-bit integers
    totals    counts over all documents; the kind of this index; the listing it was brought up to

Documents of a term lie in blocks by their number, so that changing one document rewrites one block a term.
"""

import heapq
import math
import sqlite3
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from memdir.format import frontmatter
from memdir.format.age import find_links
from memdir.frozen import dataclass
from memdir.guard import Stat
from memdir.recall.table import WordTable, pack_vector, pool
from memdir.recall.terms import parse_terms, split_passages
from memdir.records import Kind
from memdir.store import files
from memdir.store.contract import read_time
from memdir.text import fold_link

SATURATION = 0.9  # BM25's k1: how soon more occurrences of the same word count no more
_BLOCK_BITS = 11  # 2,048 documents a block
_COUNT_BITS, _MAX_COUNT = 4, 15  # a posting is a document number with the count in its last bits
_SCHEMA = f"1-{sys.byteorder}"  # how rows are written; an index of another kind is made anew
_TABLES = {
    "files": "path TEXT PRIMARY KEY, sig TEXT NOT NULL, doc INTEGER NOT NULL",
    "bodies": "doc INTEGER PRIMARY KEY, path TEXT, length INTEGER, passages TEXT, vectors BLOB, links TEXT,"
    " modified REAL, pinned INTEGER, kind TEXT",
    "terms": "id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE, df INTEGER NOT NULL",
    "postings": "term INTEGER, block INTEGER, data BLOB NOT NULL, PRIMARY KEY (term, block)",
    "totals": "name TEXT PRIMARY KEY, value",
}
_APPEND = (
    "INSERT INTO postings VALUES (?, ?, ?)"
    " ON CONFLICT (term, block) DO UPDATE SET data = CAST(data || excluded.data AS BLOB)"
)
_ADD_TERM = "INSERT INTO terms (word, df) VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET df = df + excluded.df"
_ADD_COUNT = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
_MANY = 500  # values in one IN (…)
_BUSY_SECONDS = 0.5
_BATCH = 2_000  # files in one transaction: what a killed build loses, and what is in memory at once
_CACHE_KIB = 16_384
_NO_LINKS: frozenset[str] = frozenset()
_KINDS = {"": None, **{kind.value: kind for kind in Kind}}
Read = Callable[[str], "bytes | None"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryPriors:
    """What counts for a memory before any question: its age, pin, type, and the names it links to."""

    modified: datetime
    pinned: bool
    kind: Kind | None
    links: frozenset[str]


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One document as stored: passages on lines of their own, words separated by a space, and the number of words.

    `vectors` has the vector of the whole document, then one for each passage if there are several.
    """

    path: str
    length: int
    passages: str
    vectors: bytes
    priors: MemoryPriors


@dataclass(frozen=True, slots=True)
class IndexTotals:
    """Counts over a directory, for rarity and length."""

    docs: int
    length: int
    passages: int

    def idf(self, df: int) -> float:
        """The weight of a word that occurs in `df` documents; some may have been added since these were counted."""
        df = min(df, self.docs)
        return math.log(1.0 + (self.docs - df + 0.5) / (df + 0.5))


class Catalog:
    """One open index. Without `semantic` the table serves for rarity alone: no neighbours and no vectors are used."""

    def __init__(self, path: Path, table: WordTable | None, *, semantic: bool = True) -> None:
        self.path = path
        self.table = table
        self.semantic = semantic and table is not None
        self._keeps_vectors = False
        self._db = self._open()

    def close(self) -> None:
        self._db.close()

    def rebuild(self) -> None:
        """Delete the index and begin with an empty one."""
        self._db.close()
        files.drop_index(self.path)
        self._db = self._open()

    def refresh(self, listed: Mapping[str, Stat], read: Read) -> int:
        """Bring the index up to the files; returns how many were read. A busy index is left as it is."""
        listing = _digest(listed)
        if _find_total(self._db, "listing") == listing:
            return 0
        # As text, since inode numbers of some file systems do not fit SQLite's signed integers.
        signatures = {path: " ".join(map(str, at)) for path, at in listed.items()}
        known = self._read_signatures()
        changed = [path for path, signature in signatures.items() if known.get(path) != signature]
        count = 0
        for start in range(0, len(changed) or 1, _BATCH):
            rows = [
                _parse_memory(path, data.decode("utf-8", "replace"), signatures[path])
                for path in changed[start : start + _BATCH]
                if (data := read(path)) is not None
            ]
            if not self._change(rows, signatures, listing if start + _BATCH >= len(changed) else ""):
                break
            count += len(rows)
        return count

    def read_totals(self) -> IndexTotals:
        found = dict(self._db.execute("SELECT name, value FROM totals WHERE name IN ('docs', 'length', 'passages')"))
        return IndexTotals(found.get("docs", 0), found.get("length", 0), found.get("passages", 0))

    def find_terms(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return number and document frequency of the words that occur here."""
        found = {}
        for some in _split(words):
            rows = self._db.execute(f"SELECT word, id, df FROM terms WHERE word IN ({_marks(some)})", some)
            found.update({word: (term, df) for word, term, df in rows})
        return found

    def find_kin(self, stem: str, max_length: int) -> list[str]:
        """Return words of the directory that begin with this stem and are not much longer."""
        upper = stem[:-1] + chr(ord(stem[-1]) + 1)
        select = "SELECT word FROM terms WHERE word >= ? AND word < ? AND length(word) <= ? LIMIT 20"
        return [word for (word,) in self._db.execute(select, (stem, upper, max_length))]

    def find_candidates(self, weights: Mapping[int, float], limit: int) -> list[int]:
        """Return the documents with the largest sum of weighted terms, in no order."""
        counts = range(_MAX_COUNT + 1)
        gains = {term: [weight * at / (at + SATURATION) for at in counts] for term, weight in weights.items()}
        scores: dict[int, float] = {}
        find = scores.get
        terms = ",".join(map(str, weights))
        for term, data in self._db.execute(f"SELECT term, data FROM postings WHERE term IN ({terms})"):
            gain = gains[term]
            for posting in array("I", data):
                doc = posting >> _COUNT_BITS
                scores[doc] = find(doc, 0.0) + gain[posting & _MAX_COUNT]
        if len(scores) <= limit:
            return list(scores)
        least = heapq.nlargest(limit, scores.values())[-1]
        best = [doc for doc, score in scores.items() if score > least]
        # Of those with the same score the later ones, which are the newer more often than not.
        same = sorted([doc for doc, score in scores.items() if score == least], reverse=True)
        return best + same[: limit - len(best)]

    def find_docs(self, paths: Sequence[str]) -> list[int]:
        found: list[int] = []
        for some in _split(paths):
            rows = self._db.execute(f"SELECT doc FROM files WHERE path IN ({_marks(some)})", some)
            found += [doc for (doc,) in rows]
        return found

    def read_rows(self, docs: Iterable[int] | None) -> Iterator[IndexRow]:
        """Yield some documents, or all if None."""
        select = "SELECT path, length, passages, vectors, links, modified, pinned, kind FROM bodies"
        if docs is not None:
            select += f" WHERE doc IN ({','.join(map(str, docs))})"
        for path, length, passages, data, links, modified, pinned, kind in self._db.execute(select):
            linked = frozenset(links.split("\n")) if links else _NO_LINKS
            priors = MemoryPriors(_read_moment(modified), bool(pinned), _KINDS[kind], linked)
            yield IndexRow(path, length, passages, data, priors)

    def _read_signatures(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT path, sig FROM files"))

    def _change(self, rows: Sequence[IndexRow], signatures: Mapping[str, str], listing: str) -> bool:
        """One transaction, the last one with the digest of the listing. Another process may have been faster, so what
        to change is decided inside."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _is_busy(error):
                return False
            raise
        with self._db:
            known = self._read_signatures()
            fresh = [row for row in rows if known.get(row.path) != signatures[row.path]]
            gone = [path for path in known if path not in signatures] if listing else []
            self._remove([*gone, *(row.path for row in fresh if row.path in known)])
            self._add(fresh, signatures)
            # A file that could not be read leaves the listing open: it is tried again the next time.
            is_whole = bool(listing) and self._read_signatures() == signatures
            _write_total(self._db, "listing", listing if is_whole else "")
        return True

    def _add(self, rows: Sequence[IndexRow], signatures: Mapping[str, str]) -> None:
        counts = [Counter(row.passages.split()) for row in rows]
        fresh: Counter[str] = Counter()
        for count in counts:
            fresh.update(count.keys())
        self._db.executemany(_ADD_TERM, fresh.items())
        self._count(len(rows), sum(row.length for row in rows), sum(_count_lines(row.passages) for row in rows))
        known = self.find_terms(list(fresh))
        totals = self.read_totals()
        rarity = {word: math.sqrt(totals.idf(df)) for word, (_, df) in known.items()}
        first = (self._db.execute("SELECT MAX(doc) FROM bodies").fetchone()[0] or 0) + 1
        table = self.table if self._keeps_vectors else None
        bodies, blocks = [], dict[tuple[int, int], list[int]]()
        for doc, (row, count) in enumerate(zip(rows, counts, strict=True), first):
            vectors = _make_vectors(table, row.passages, count, rarity) if table else b""
            at = row.priors
            links, kind = "\n".join(sorted(at.links)), at.kind.value if at.kind else ""
            moment = at.modified.timestamp()
            bodies.append((doc, row.path, row.length, row.passages, vectors, links, moment, at.pinned, kind))
            for word, tf in count.items():
                posting = doc << _COUNT_BITS | min(tf, _MAX_COUNT)
                blocks.setdefault((known[word][0], doc >> _BLOCK_BITS), []).append(posting)
        self._db.executemany("INSERT INTO bodies VALUES (?,?,?,?,?,?,?,?,?)", bodies)
        numbered = [(row.path, signatures[row.path], doc) for doc, row in enumerate(rows, first)]
        self._db.executemany("INSERT INTO files VALUES (?, ?, ?)", numbered)
        self._db.executemany(_APPEND, [(*key, array("I", blocks[key]).tobytes()) for key in sorted(blocks)])

    def _remove(self, paths: Sequence[str]) -> None:
        """Remove documents; the rows are then as if they had never been there, but for vectors."""
        db = self._db
        for docs in _split(self.find_docs(paths)):
            numbers = ",".join(map(str, docs))
            holders: dict[str, set[int]] = {}
            select = f"SELECT doc, length, passages FROM bodies WHERE doc IN ({numbers})"
            for doc, length, passages in db.execute(select):
                self._count(-1, -length, -_count_lines(passages))
                for word in set(passages.split()):
                    holders.setdefault(word, set()).add(doc)
            for word, (term, _) in self.find_terms(list(holders)).items():
                self._remove_postings(term, holders[word])
            lost = [(len(at), word) for word, at in holders.items()]
            db.executemany("UPDATE terms SET df = df - ? WHERE word = ?", lost)
            db.executemany("DELETE FROM terms WHERE word = ? AND df <= 0", [(word,) for word in holders])
            db.execute(f"DELETE FROM bodies WHERE doc IN ({numbers})")
            db.execute(f"DELETE FROM files WHERE doc IN ({numbers})")

    def _remove_postings(self, term: int, docs: set[int]) -> None:
        for key in {(term, doc >> _BLOCK_BITS) for doc in docs}:
            row = self._db.execute("SELECT data FROM postings WHERE term = ? AND block = ?", key).fetchone()
            left = array("I", (at for at in array("I", row[0] if row else b"") if at >> _COUNT_BITS not in docs))
            if left:
                self._db.execute("UPDATE postings SET data = ? WHERE term = ? AND block = ?", (left.tobytes(), *key))
            else:
                self._db.execute("DELETE FROM postings WHERE term = ? AND block = ?", key)

    def _count(self, docs: int, length: int, passages: int) -> None:
        self._db.executemany(_ADD_COUNT, [("docs", docs), ("length", length), ("passages", passages)])

    def _open(self) -> sqlite3.Connection:
        try:
            return self._open_once()
        except sqlite3.DatabaseError as error:
            # What lies behind a linked folder may be somebody else's; a file in our own folder may be deleted.
            if _is_busy(error) or self.path.parent.is_symlink():
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
        """An index with vectors serves a search without them, and keeps them; not the other way round."""
        plain = f"{_SCHEMA} "
        full = plain + (self.table.name if self.table is not None else "")
        wanted = full if self.semantic else plain
        if _find_kind(db) not in (full, wanted):
            db.execute("BEGIN IMMEDIATE")
            with db:
                if _find_kind(db) not in (full, wanted):  # no other process has made it meanwhile
                    for name, columns in _TABLES.items():
                        db.execute(f"DROP TABLE IF EXISTS {name}")
                        keyed = "" if "INTEGER PRIMARY KEY" in columns else " WITHOUT ROWID"
                        db.execute(f"CREATE TABLE {name} ({columns}){keyed}")
                    _write_total(db, "kind", wanted)
        self._keeps_vectors = _find_kind(db) == full


def _parse_memory(path: str, text: str, signature: str) -> IndexRow:
    """A memory as terms, without vectors. The first passage is title and description, unless the body repeats them."""
    fields = frontmatter.parse_fields(text)
    body = frontmatter.split_frontmatter(text).body
    plain = " ".join(body.split())
    stem = path.removesuffix(".md").replace("/", " ").replace("_", " ").replace("-", " ")
    heads = [fields.title or stem, fields.description]
    heads = [at for at in heads if at and " ".join(at.rstrip("….").split()) not in plain]
    parsed = [parse_terms("\n".join(heads)), *map(parse_terms, split_passages(body))]
    passages = [passage for passage in parsed if passage]
    links = frozenset(fold_link(link.removesuffix(".md")) for link, _ in find_links(text))
    written = read_time(fields.modified) or datetime.fromtimestamp(int(signature.split()[2]) / 1e9, UTC)
    modified = max(written, read_time(fields.verified) or written)
    priors = MemoryPriors(modified, fields.pinned, fields.kind, links)
    return IndexRow(path, sum(map(len, passages)), "\n".join(map(" ".join, passages)), b"", priors)


def _make_vectors(table: WordTable, passages: str, total: Mapping[str, int], rarity: Mapping[str, float]) -> bytes:
    groups = [total]
    if "\n" in passages:
        groups += [Counter(passage.split()) for passage in passages.split("\n")]
    made = [pool(table, [(word, rarity[word] * math.sqrt(tf)) for word, tf in group.items()]) for group in groups]
    return pack_vector(made, table.dim)


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds the index: then nothing is wrong with it."""
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


def _digest(listed: Mapping[str, Stat]) -> str:
    """A short form of a listing in the order it was read: the same digest means that nothing has changed.

    Hashes of numbers, unlike those of text, are the same in every process; where one differs, files are compared.
    """
    names = "\n".join(listed).encode("utf-8", "replace")
    return f"{len(listed)}-{zlib.crc32(names):08x}{hash(tuple(listed.values())) & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def _count_lines(passages: str) -> int:
    return passages.count("\n") + 1 if passages else 0


def _split(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _MANY] for start in range(0, len(values), _MANY))


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
