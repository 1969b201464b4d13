"""The derived index of one directory, in SQLite: kept up with the files, and asked for candidates.

One file, `index.db`, written in transactions, so that several processes can use it at once and a killed one leaves it
whole. It extends what a listing keeps there: a file that has not changed is not read again, one that has is read alone.
Whatever is wrong with it, it is deleted and made anew: the files are canonical.

It stores and fetches; what a score is worth is `rank`'s business.
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
from memdir.recall import table as vectors
from memdir.recall.table import WordTable
from memdir.recall.terms import parse_terms, split_passages
from memdir.records import Kind
from memdir.store import files
from memdir.store.contract import read_time
from memdir.text import fold_link

# --- postings ---
# Which documents hold a term and how often, as strings of 32-bit numbers, and the best documents for weighted terms.
#
# A term's documents lie in blocks by their number, so that changing one document rewrites one block a term. A posting
# is
# the document's number with the count in its last four bits; counts beyond 15 say no more. Pure: `catalog` keeps the
# blocks.

BLOCK_BITS = 11  # 2,048 documents a block
SATURATION = 0.9  # BM25's k1: how soon more of the same word counts no more
_COUNT_BITS, _MOST = 4, 15


def make_posting(doc: int, count: int) -> int:
    return doc << _COUNT_BITS | min(count, _MOST)


def find_posting_block(doc: int) -> int:
    return doc >> BLOCK_BITS


def pack_postings(postings: Iterable[int]) -> bytes:
    return array("I", postings).tobytes()


def remove_postings(data: bytes, docs: frozenset[int]) -> bytes:
    """A block without these documents."""
    return pack_postings(at for at in array("I", data) if at >> _COUNT_BITS not in docs)


def find_best(blocks: Iterable[tuple[int, bytes]], weights: Mapping[int, float], most: int) -> list[int]:
    """The documents with the largest sum of weighted terms, at most so many; in no order."""
    scores: dict[int, float] = {}
    find = scores.get
    gains = {
        term: [weight * count / (count + SATURATION) for count in range(_MOST + 1)] for term, weight in weights.items()
    }
    for term, data in blocks:
        gain = gains[term]
        for at in array("I", data):
            doc = at >> _COUNT_BITS
            scores[doc] = find(doc, 0.0) + gain[at & _MOST]
    if len(scores) <= most:
        return list(scores)
    least = heapq.nlargest(most, scores.values())[-1]
    best = [doc for doc, score in scores.items() if score > least]
    # Of those that are all alike the later ones, which are the newer more often than not.
    alike = sorted([doc for doc, score in scores.items() if score == least], reverse=True)
    return best + alike[: most - len(best)]


# --- bodies ---
# What is kept of one memory for finding it: the terms of each passage, its links, and what counts before any question.
#
# Pure: text goes in, a record comes out. The first passage is the head, title and description, unless the body says
# the
# same; a file without words has no passage.


@dataclass(frozen=True, slots=True)
class MemoryPriors:
    """What counts for a memory before anything is asked: age, pin, type, and the names it links to."""

    modified: datetime
    pinned: bool
    kind: Kind | None
    links: frozenset[str]


@dataclass(frozen=True, slots=True)
class MemoryTerms:
    """One memory as terms: passages on lines of their own, words apart by a space, and how many words in all."""

    path: str
    passages: str
    length: int
    facts: MemoryPriors

    @property
    def words(self) -> list[str]:
        """Every word as often as it occurs."""
        return self.passages.split()


def parse_body(path: str, text: str, signature: str) -> MemoryTerms:
    """What is kept of one memory. A title or description that only repeats the body counts once."""
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
    facts = MemoryPriors(modified, fields.pinned, fields.kind, links)
    return MemoryTerms(path, "\n".join(map(" ".join, passages)), sum(map(len, passages)), facts)


# --- entries ---
# The rows of the derived index, and how a document goes in and out of them. Every function works inside a transaction.
#
#     files     path, stat signature, document number
#     bodies    a document's passages, vectors, and what counts before any question
#     terms     each word of the directory and in how many documents it is
#     postings  blocks of document numbers for each word (see `postings`)
#     totals    counts over all documents; which kind of index this is; the listing it was brought up to
#
# Taking a document out leaves the rows as if it had never been there; a test compares them with those of a new index.

_TABLES = {
    "files": "path TEXT PRIMARY KEY, sig TEXT NOT NULL, doc INTEGER NOT NULL",
    "bodies": "doc INTEGER PRIMARY KEY, path TEXT, length INTEGER, passages TEXT, vectors BLOB, links TEXT,"
    " modified REAL, pinned INTEGER, kind TEXT",
    "terms": "id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE, df INTEGER NOT NULL",
    "postings": "term INTEGER, block INTEGER, data BLOB NOT NULL, PRIMARY KEY (term, block)",
    "totals": "name TEXT PRIMARY KEY, value",
}
_MANY = 500  # values in one IN (…)
_APPEND = (
    "INSERT INTO postings VALUES (?, ?, ?)"
    " ON CONFLICT (term, block) DO UPDATE SET data = CAST(data || excluded.data AS BLOB)"
)
_ADD_TERM = "INSERT INTO terms (word, df) VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET df = df + excluded.df"
_ADD_COUNT = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndexTotals:
    """Counts over a directory, for rarity and length."""

    docs: int
    length: int
    passages: int

    def idf(self, df: int) -> float:
        """How telling a word is that so many documents have; some may have been added since these were counted."""
        df = min(df, self.docs)
        return math.log(1.0 + (self.docs - df + 0.5) / (df + 0.5))


def make_tables(db: sqlite3.Connection, kind: str) -> None:
    """Empty tables, whatever was there before."""
    for name, columns in _TABLES.items():
        db.execute(f"DROP TABLE IF EXISTS {name}")
        keyed = "" if "INTEGER PRIMARY KEY" in columns else " WITHOUT ROWID"
        db.execute(f"CREATE TABLE {name} ({columns}){keyed}")
    write_note(db, "kind", kind)


def find_note(db: sqlite3.Connection, name: str) -> str | None:
    row = db.execute("SELECT value FROM totals WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def write_note(db: sqlite3.Connection, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO totals VALUES (?, ?)", (name, value))


def read_totals(db: sqlite3.Connection) -> IndexTotals:
    found = dict(db.execute("SELECT name, value FROM totals WHERE name IN ('docs', 'length', 'passages')"))
    return IndexTotals(found.get("docs", 0), found.get("length", 0), found.get("passages", 0))


def find_entry_terms(db: sqlite3.Connection, words: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Number and document frequency of the words that occur."""
    found = {}
    for some in _split(words):
        rows = db.execute(f"SELECT word, id, df FROM terms WHERE word IN ({','.join('?' * len(some))})", some)
        found.update({word: (term, df) for word, term, df in rows})
    return found


def find_docs(db: sqlite3.Connection, paths: Sequence[str]) -> list[int]:
    found: list[int] = []
    for some in _split(paths):
        rows = db.execute(f"SELECT doc FROM files WHERE path IN ({','.join('?' * len(some))})", some)
        found += [doc for (doc,) in rows]
    return found


def add_entry_rows(
    db: sqlite3.Connection, made: Sequence[MemoryTerms], signatures: Mapping[str, str], table: WordTable | None
) -> None:
    """Put documents in; with a word table, their vectors too."""
    counts = [Counter(body.words) for body in made]
    fresh: Counter[str] = Counter()
    for count in counts:
        fresh.update(count.keys())
    db.executemany(_ADD_TERM, fresh.items())
    _count(db, len(made), sum(body.length for body in made), sum(_count_lines(body.passages) for body in made))
    known = find_entry_terms(db, list(fresh))
    totals = read_totals(db)
    rarity = {word: math.sqrt(totals.idf(df)) for word, (_, df) in known.items()}
    first = (db.execute("SELECT MAX(doc) FROM bodies").fetchone()[0] or 0) + 1
    rows = [
        _make_row(doc, body, _make_vectors(table, body, count, rarity) if table else b"")
        for doc, (body, count) in enumerate(zip(made, counts, strict=True), first)
    ]
    db.executemany("INSERT INTO bodies VALUES (?,?,?,?,?,?,?,?,?)", rows)
    numbered = [(body.path, signatures[body.path], doc) for doc, body in enumerate(made, first)]
    db.executemany("INSERT INTO files VALUES (?, ?, ?)", numbered)
    blocks: dict[tuple[int, int], list[int]] = {}
    for doc, count in enumerate(counts, first):
        block = find_posting_block(doc)
        for word, tf in count.items():
            blocks.setdefault((known[word][0], block), []).append(make_posting(doc, tf))
    db.executemany(_APPEND, [(*key, pack_postings(blocks[key])) for key in sorted(blocks)])


def remove_entries(db: sqlite3.Connection, paths: Sequence[str]) -> None:
    for docs in _split(find_docs(db, paths)):
        marks = ",".join(map(str, docs))
        holders: dict[str, set[int]] = {}
        for doc, length, passages in db.execute(f"SELECT doc, length, passages FROM bodies WHERE doc IN ({marks})"):
            _count(db, -1, -length, -_count_lines(passages))
            for word in set(passages.split()):
                holders.setdefault(word, set()).add(doc)
        for word, (term, _) in find_entry_terms(db, list(holders)).items():
            _take_out(db, term, frozenset(holders[word]))
        db.executemany("UPDATE terms SET df = df - ? WHERE word = ?", [(len(at), word) for word, at in holders.items()])
        db.executemany("DELETE FROM terms WHERE word = ? AND df <= 0", [(word,) for word in holders])
        db.execute(f"DELETE FROM bodies WHERE doc IN ({marks})")
        db.execute(f"DELETE FROM files WHERE doc IN ({marks})")


def _take_out(db: sqlite3.Connection, term: int, docs: frozenset[int]) -> None:
    for key in {(term, find_posting_block(doc)) for doc in docs}:
        row = db.execute("SELECT data FROM postings WHERE term = ? AND block = ?", key).fetchone()
        left = remove_postings(row[0], docs) if row else b""
        if left:
            db.execute("UPDATE postings SET data = ? WHERE term = ? AND block = ?", (left, *key))
        else:
            db.execute("DELETE FROM postings WHERE term = ? AND block = ?", key)


def _count(db: sqlite3.Connection, docs: int, length: int, passages: int) -> None:
    db.executemany(_ADD_COUNT, [("docs", docs), ("length", length), ("passages", passages)])


def _make_row(doc: int, body: MemoryTerms, data: bytes) -> tuple[object, ...]:
    facts = body.facts
    links, kind = "\n".join(sorted(facts.links)), facts.kind.value if facts.kind else ""
    moment = facts.modified.timestamp()
    return doc, body.path, body.length, body.passages, data, links, moment, facts.pinned, kind


def _make_vectors(table: WordTable, body: MemoryTerms, total: Counter[str], rarity: Mapping[str, float]) -> bytes:
    """The whole document's vector, then one for each passage if there are several."""
    groups: list[Mapping[str, int]] = [total]
    if "\n" in body.passages:
        groups += [Counter(passage.split()) for passage in body.passages.split("\n")]
    made = [
        vectors.pool(table, [(word, rarity[word] * math.sqrt(tf)) for word, tf in group.items()]) for group in groups
    ]
    return vectors.pack_vector(made, table.dim)


def _count_lines(passages: str) -> int:
    return passages.count("\n") + 1 if passages else 0


def _split(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _MANY] for start in range(0, len(values), _MANY))


# --- catalog ---

_SCHEMA = f"1-{sys.byteorder}"  # how rows are written; an index of another kind is made anew
_BUSY_SECONDS = 0.5
_BATCH = 2_000  # files in one transaction: what a killed build loses, and what is in memory at once
_CACHE_KIB = 16_384
_NO_LINKS: frozenset[str] = frozenset()
_KINDS = {"": None, **{kind.value: kind for kind in Kind}}
Read = Callable[[str], "bytes | None"]


@dataclass(frozen=True, slots=True)
class IndexRow:
    """One document as it is kept; `vectors` holds the whole's, then one a passage if there are several."""

    path: str
    length: int
    passages: str
    vectors: bytes
    facts: MemoryPriors


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the index: that passes, and nothing is wrong with it."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # `open_index` has errors of its own
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Catalog:
    """One open index. Without `semantic` the table serves for rarity alone: no neighbours, no vectors asked for."""

    def __init__(self, path: Path, table: WordTable | None, *, semantic: bool = True) -> None:
        self.path = path
        self.table = table
        self.semantic = semantic and table is not None
        self._keeps_vectors = False
        self._db = self._open()

    def close(self) -> None:
        self._db.close()

    def rebuild(self) -> None:
        """Throw the index away and begin with an empty one."""
        self._db.close()
        files.drop_index(self.path)
        self._db = self._open()

    # --- keeping up -------------------------------------------------------------------------------------------------

    def is_fresh(self, listed: Mapping[str, Stat]) -> bool:
        return find_note(self._db, "listing") == _digest(listed)

    def refresh(self, listed: Mapping[str, Stat], read: Read) -> int:
        """Bring the index up to the files; answers how many were read. A busy index is left as it is."""
        if self.is_fresh(listed):
            return 0
        listing = _digest(listed)
        # As text, since inode numbers of some file systems do not fit SQLite's signed integers.
        signatures = {path: " ".join(map(str, at)) for path, at in listed.items()}
        known = self._read_known()
        changed = [path for path, signature in signatures.items() if known.get(path) != signature]
        count = 0
        for start in range(0, len(changed) or 1, _BATCH):
            made = [
                parse_body(path, data.decode("utf-8", "replace"), signatures[path])
                for path in changed[start : start + _BATCH]
                if (data := read(path)) is not None
            ]
            if not self._change(made, signatures, listing if start + _BATCH >= len(changed) else ""):
                break
            count += len(made)
        return count

    def _change(self, made: Sequence[MemoryTerms], signatures: Mapping[str, str], listing: str) -> bool:
        """One transaction, the last one with the digest of the listing. Another process may have been quicker: what
        stands there now decides."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        with self._db:
            known = self._read_known()
            fresh = [body for body in made if known.get(body.path) != signatures[body.path]]
            gone = [path for path in known if path not in signatures] if listing else []
            remove_entries(self._db, [*gone, *(body.path for body in fresh if body.path in known)])
            add_entry_rows(self._db, fresh, signatures, self.table if self._keeps_vectors else None)
            # A file that could not be read leaves the listing open: it is tried again the next time.
            is_whole = bool(listing) and self._read_known() == signatures
            write_note(self._db, "listing", listing if is_whole else "")
        return True

    # --- asking -----------------------------------------------------------------------------------------------------

    def read_totals(self) -> IndexTotals:
        return read_totals(self._db)

    def find_terms(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Number and document frequency of the words that occur here."""
        return find_entry_terms(self._db, words)

    def find_kin(self, stem: str, most: int) -> list[str]:
        """Words of the directory that begin with this stem and are not much longer."""
        upper = stem[:-1] + chr(ord(stem[-1]) + 1)
        select = "SELECT word FROM terms WHERE word >= ? AND word < ? AND length(word) <= ? LIMIT 20"
        return [word for (word,) in self._db.execute(select, (stem, upper, most))]

    def find_candidates(self, weights: Mapping[int, float], most: int) -> list[int]:
        """The documents with the largest sum of weighted terms, in no order."""
        terms = ",".join(map(str, weights))
        blocks = self._db.execute(f"SELECT term, data FROM postings WHERE term IN ({terms})")
        return find_best(blocks, weights, most)

    def find_docs(self, paths: Sequence[str]) -> list[int]:
        return find_docs(self._db, paths)

    def read_rows(self, docs: Iterable[int] | None) -> Iterator[IndexRow]:
        """Some documents, or all."""
        select = "SELECT path, length, passages, vectors, links, modified, pinned, kind FROM bodies"
        if docs is not None:
            select += f" WHERE doc IN ({','.join(map(str, docs))})"
        for path, length, passages, data, links, modified, pinned, kind in self._db.execute(select):
            linked = frozenset(links.split("\n")) if links else _NO_LINKS
            yield IndexRow(
                path, length, passages, data, MemoryPriors(_read_time(modified), bool(pinned), _KINDS[kind], linked)
            )

    # --- inside -----------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            return self._open_once()
        except sqlite3.DatabaseError as error:
            # What lies behind a linked folder may be somebody else's; a name in our own folder is ours to take away.
            if is_busy(error) or self.path.parent.is_symlink():
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
        """An index with vectors serves a search without them, and keeps having them; not the other way round."""
        plain = f"{_SCHEMA} "
        full = plain + (self.table.name if self.table is not None else "")
        wanted = full if self.semantic else plain
        if _find_kind(db) not in (full, wanted):
            db.execute("BEGIN IMMEDIATE")
            with db:
                if _find_kind(db) not in (full, wanted):  # nobody else has made it meanwhile
                    make_tables(db, wanted)
        self._keeps_vectors = _find_kind(db) == full

    def _read_known(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT path, sig FROM files"))


def _find_kind(db: sqlite3.Connection) -> str | None:
    has = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals'").fetchone()
    return find_note(db, "kind") if has else None


def _read_time(moment: float) -> datetime:
    try:
        return datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _digest(listed: Mapping[str, Stat]) -> str:
    """A short form of a whole listing in the order it was read: the same again means that nothing has changed.

    Hashes of numbers, unlike those of text, are the same in every process; where one differs, files are compared.
    """
    names = "\n".join(listed).encode("utf-8", "replace")
    return f"{len(listed)}-{zlib.crc32(names):08x}{hash(tuple(listed.values())) & 0xFFFF_FFFF_FFFF_FFFF:016x}"
