"""The rows of the derived index, and how a document goes in and out of them. Every function works inside a transaction.

    files     path, stat signature, document number
    bodies    a document's passages, vectors, and what counts before any question
    terms     each word of the directory and in how many documents it is
    postings  blocks of document numbers for each word (see `postings`)
    totals    counts over all documents; which kind of index this is; the listing it was brought up to

Taking a document out leaves the rows as if it had never been there; a test compares them with those of a new index.
"""

import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from memdir.frozen import dataclass
from memdir.search import postings, vectors
from memdir.search.bodies import Body
from memdir.search.words import WordTable

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
class Totals:
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


def read_totals(db: sqlite3.Connection) -> Totals:
    found = dict(db.execute("SELECT name, value FROM totals WHERE name IN ('docs', 'length', 'passages')"))
    return Totals(found.get("docs", 0), found.get("length", 0), found.get("passages", 0))


def find_terms(db: sqlite3.Connection, words: Sequence[str]) -> dict[str, tuple[int, int]]:
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


def add(db: sqlite3.Connection, made: Sequence[Body], signatures: Mapping[str, str], table: WordTable | None) -> None:
    """Put documents in; with a word table, their vectors too."""
    counts = [Counter(body.words) for body in made]
    fresh: Counter[str] = Counter()
    for count in counts:
        fresh.update(count.keys())
    db.executemany(_ADD_TERM, fresh.items())
    _count(db, len(made), sum(body.length for body in made), sum(_count_lines(body.passages) for body in made))
    known = find_terms(db, list(fresh))
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
        block = postings.find_block(doc)
        for word, tf in count.items():
            blocks.setdefault((known[word][0], block), []).append(postings.make_posting(doc, tf))
    db.executemany(_APPEND, [(*key, postings.pack(blocks[key])) for key in sorted(blocks)])


def remove(db: sqlite3.Connection, paths: Sequence[str]) -> None:
    for docs in _split(find_docs(db, paths)):
        marks = ",".join(map(str, docs))
        holders: dict[str, set[int]] = {}
        for doc, length, passages in db.execute(f"SELECT doc, length, passages FROM bodies WHERE doc IN ({marks})"):
            _count(db, -1, -length, -_count_lines(passages))
            for word in set(passages.split()):
                holders.setdefault(word, set()).add(doc)
        for word, (term, _) in find_terms(db, list(holders)).items():
            _take_out(db, term, frozenset(holders[word]))
        db.executemany("UPDATE terms SET df = df - ? WHERE word = ?", [(len(at), word) for word, at in holders.items()])
        db.executemany("DELETE FROM terms WHERE word = ? AND df <= 0", [(word,) for word in holders])
        db.execute(f"DELETE FROM bodies WHERE doc IN ({marks})")
        db.execute(f"DELETE FROM files WHERE doc IN ({marks})")


def _take_out(db: sqlite3.Connection, term: int, docs: frozenset[int]) -> None:
    for key in {(term, postings.find_block(doc)) for doc in docs}:
        row = db.execute("SELECT data FROM postings WHERE term = ? AND block = ?", key).fetchone()
        left = postings.remove(row[0], docs) if row else b""
        if left:
            db.execute("UPDATE postings SET data = ? WHERE term = ? AND block = ?", (left, *key))
        else:
            db.execute("DELETE FROM postings WHERE term = ? AND block = ?", key)


def _count(db: sqlite3.Connection, docs: int, length: int, passages: int) -> None:
    db.executemany(_ADD_COUNT, [("docs", docs), ("length", length), ("passages", passages)])


def _make_row(doc: int, body: Body, data: bytes) -> tuple[object, ...]:
    facts = body.facts
    links, kind = "\n".join(sorted(facts.links)), facts.kind.value if facts.kind else ""
    moment = facts.modified.timestamp()
    return doc, body.path, body.length, body.passages, data, links, moment, facts.pinned, kind


def _make_vectors(table: WordTable, body: Body, total: Counter[str], rarity: Mapping[str, float]) -> bytes:
    """The whole document's vector, then one for each passage if there are several."""
    groups: list[Mapping[str, int]] = [total]
    if "\n" in body.passages:
        groups += [Counter(passage.split()) for passage in body.passages.split("\n")]
    made = [
        vectors.pool(table, [(word, rarity[word] * math.sqrt(tf)) for word, tf in group.items()]) for group in groups
    ]
    return vectors.pack(made, table.dim)


def _count_lines(passages: str) -> int:
    return passages.count("\n") + 1 if passages else 0


def _split(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _MANY] for start in range(0, len(values), _MANY))
