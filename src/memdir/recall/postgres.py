"""Search in a PostgresStore: candidates by SQL that plain PostgreSQL has, ranked by the code that ranks files.

Each memory has a row with its terms as a tsvector, its passages and its vectors, derived from its text when a search
first needs it. Under row-level security an operator such as `@@` cannot use an index of its own; the rows of one store lie
together by their key, and are filtered there. Of a small store all rows are scored, of a large one those that have a word
of the question, one that begins alike or a neighbour: the same that the index of a directory finds.
"""

import heapq
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import islice

from memdir.format.age import HALF_LIVES, HalfLives
from memdir.frozen import replace
from memdir.recall.index import (
    SATURATION,
    Catalog,
    IndexRow,
    IndexTotals,
    MemoryPriors,
    WordTable,
    make_vectors,
    open_words,
    parse_memory,
)
from memdir.recall.select import CANDIDATES, KIN_LETTERS, PLAIN_CANDIDATES, Drop, LocalSearch, SearchResult, StoreScores
from memdir.recall.terms import parse_terms
from memdir.records import Kind, Query
from memdir.store.postgres import PostgresStore
from memdir.store.postgres_history import OF_STORE, Row

VERSION = "1"  # of how rows are made; others are made anew
_MATCHED = 500  # rows with a matching word that are looked at, the best by the database's own rank
_READ_TOGETHER = 24
_BATCH = 200  # memories that are read and indexed at once
_TERM_CHARS = 200  # a longer word is no word, and PostgreSQL refuses one of 2,046 bytes
_MAX_COUNT = 15
_COLUMNS = "path, length, passages, vectors, links, modified, pinned, kind"
_STATE = """
    SELECT s.revision, s.epoch, d.revision, d.epoch, d.version, d.docs, d.length, d.lines FROM memdir.stores s
    LEFT JOIN memdir.searched d ON d.tenant = s.tenant AND d.store = s.store
    WHERE s.tenant = %(tenant)s AND s.store = %(store)s
"""
_STALE = f"""
    SELECT f.path, f.digest, f.mtime_ns, c.data FROM memdir.files f
    JOIN memdir.contents c ON c.tenant = f.tenant AND c.store = f.store AND c.digest = f.digest
    LEFT JOIN memdir.search x ON x.tenant = f.tenant AND x.store = f.store AND x.path = f.path
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND c.data IS NOT NULL AND x.digest IS DISTINCT FROM f.digest
    LIMIT {_BATCH}
"""
_GONE = f"""
    DELETE FROM memdir.search x WHERE {OF_STORE} AND NOT EXISTS (SELECT 1 FROM memdir.files f
        WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = x.path AND f.data IS NULL)
"""
_PUT = """
    INSERT INTO memdir.search
        (tenant, store, path, digest, length, passages, lines, vectors, links, modified, pinned, kind, terms)
    VALUES (%(tenant)s, %(store)s, %(path)s, %(digest)s, %(length)s, %(passages)s, %(lines)s, %(vectors)s, %(links)s,
        %(modified)s, %(pinned)s, %(kind)s, array_to_tsvector(%(words)s::text[]))
    ON CONFLICT (tenant, store, path) DO UPDATE SET digest = excluded.digest, length = excluded.length,
        passages = excluded.passages, lines = excluded.lines, vectors = excluded.vectors, links = excluded.links,
        modified = excluded.modified, pinned = excluded.pinned, kind = excluded.kind, terms = excluded.terms
"""
_DONE = f"""
    UPDATE memdir.searched d SET revision = %(revision)s, epoch = %(epoch)s, version = '{VERSION}', docs = t.docs,
        length = t.length, lines = t.lines
    FROM (SELECT count(*) AS docs, coalesce(sum(length), 0) AS length, coalesce(sum(lines), 0) AS lines
        FROM memdir.search WHERE {OF_STORE}) t
    WHERE d.tenant = %(tenant)s AND d.store = %(store)s
"""
_COUNT_WORDS = """
    SELECT w.word, count(*) FROM unnest(%(words)s::text[], %(queries)s::text[]::tsquery[]) AS w(word, query)
    JOIN memdir.search x ON x.terms @@ w.query WHERE x.tenant = %(tenant)s AND x.store = %(store)s GROUP BY w.word
"""


class PostgresSearch(LocalSearch):
    """As LocalSearch, over stores in PostgreSQL. It keeps nothing between two searches."""

    def __init__(
        self, stores: Sequence[PostgresStore], *, semantic: bool = True, half_lives: HalfLives = HALF_LIVES
    ) -> None:
        super().__init__(stores, semantic=semantic, half_lives=half_lives)
        self._sources = tuple(stores)
        self._question = ""
        self._holds = ExitStack()

    def search(self, query: Query, limit: int, *, drop: Drop = lambda store, name: "") -> SearchResult:
        self._question = query.text
        self._catalogs.clear()
        return super().search(query, limit, drop=drop)

    def close(self) -> None:
        self._holds.close()
        super().close()

    def _score(self, number: int, query: Query, drop: Drop, worth: Sequence[float]) -> StoreScores:
        """As for a directory, and the best are read in one round trip: ranking reads each of them."""
        scores = super()._score(number, query, drop, worth)
        best = heapq.nlargest(_READ_TOGETHER, scores.kept, key=lambda at: at.score)
        if best:
            self._holds.enter_context(self._sources[number].holding())([at.path.removesuffix(".md") for at in best])
        return scores

    def _open(self, number: int) -> Catalog:
        if number not in self._catalogs:
            made = PostgresCatalog(self._sources[number], open_words(), self._question, semantic=self._semantic)
            self._catalogs[number] = made
        return self._catalogs[number]

    def _refresh(self, number: int) -> int:
        return refresh_search(self._sources[number], open_words())


def refresh_search(store: PostgresStore, table: WordTable | None) -> int:
    """Bring the rows of a store up to its files; returns how many memories were read."""
    (state,) = store.ask(_STATE)
    if not state or (state[0][:2] == state[0][2:4] and state[0][4] == VERSION):
        return 0
    base: dict[str, object] = {"tenant": store.tenant, "store": store.store}
    count = 0
    with store.database.transaction(store.tenant) as db:
        empty = "0, -1, '', 0, 0, 0"
        db.execute(f"INSERT INTO memdir.searched VALUES (%(tenant)s, %(store)s, {empty}) ON CONFLICT DO NOTHING", base)
        # One at a time: another process may be here already, and has then done it.
        db.execute(f"SELECT 1 FROM memdir.searched WHERE {OF_STORE} FOR NO KEY UPDATE", base)
        revision, epoch, *_, version, _, _, _ = db.execute(_STATE, base).fetchone() or (0, 0, 0, 0, "", 0, 0, 0)
        if version != VERSION:
            db.execute(f"DELETE FROM memdir.search WHERE {OF_STORE}", base)
        db.execute(_GONE, base)
        while rows := db.execute(_STALE, base).fetchall():
            made = [parse_memory(path, data.decode("utf-8", "replace"), f"0 0 {at} {at}") for path, _, at, data in rows]
            made = [replace(row, passages=row.passages.replace("\0", " ")) for row in made]
            counts = [Counter(row.passages.split()) for row in made]
            words = list({word for at in counts for word in at if len(word) <= _TERM_CHARS})
            known = dict(db.execute(_COUNT_WORDS, base | _make_queries(words)).fetchall())
            fresh = Counter(word for at in counts for word in at)
            docs = (db.execute(f"SELECT count(*) FROM memdir.search WHERE {OF_STORE}", base).fetchone() or (0,))[0]
            totals = IndexTotals(docs + len(rows), 0, 0)
            rarity = {word: math.sqrt(totals.idf(known.get(word, 0) + count)) for word, count in fresh.items()}
            for (path, digest, *_), row, counted in zip(rows, made, counts, strict=True):
                at = row.priors
                values = base | {"path": path, "digest": digest, "length": row.length, "passages": row.passages}
                values |= {"lines": row.passages.count("\n") + 1 if row.passages else 0, "pinned": at.pinned}
                values |= {"vectors": make_vectors(table, row, counted, rarity) if table else b""}
                values |= {"links": "\n".join(sorted(at.links)).replace("\0", ""), "kind": at.kind or ""}
                values |= {
                    "modified": at.modified.timestamp(),
                    "words": [at for at in counted if len(at) <= _TERM_CHARS],
                }
                db.execute(_PUT, values)
            count += len(rows)
        db.execute(_DONE, base | {"revision": revision, "epoch": epoch})
    return count


class PostgresCatalog(Catalog):
    """What a question needs of one store, read in two round trips; the rest of ranking asks it as a directory's index."""

    def __init__(self, store: PostgresStore, table: WordTable | None, text: str, *, semantic: bool) -> None:
        self.table = table
        self.semantic = semantic and table is not None
        (state,) = store.ask(_STATE)
        docs, length, lines = state[0][5:] if state and state[0][5] is not None else (0, 0, 0)
        self._totals = IndexTotals(docs, length, lines)
        select = f"SELECT {_COLUMNS} FROM memdir.search WHERE {OF_STORE}"
        terms = [term for term in dict.fromkeys(parse_terms(text)) if len(term) <= _TERM_CHARS]
        exact, counted = _render_query(terms), list[Row]()
        if docs <= (CANDIDATES if self.semantic else PLAIN_CANDIDATES):
            (rows,) = store.ask(f"{select} ORDER BY modified, path")
        elif not terms:
            rows = []
        else:
            soft = _render_query(self._list_soft(terms), [term for term in terms if _has_kin(term)])
            rank = "ts_rank(terms, %(exact)s::tsquery) * 10 + ts_rank(terms, %(soft)s::tsquery)"
            matched = f"{select} AND terms @@ %(soft)s::tsquery ORDER BY {rank} DESC, modified DESC LIMIT {_MATCHED}"
            rows, counted = store.ask(matched, _COUNT_WORDS, exact=exact, soft=soft, **_make_queries(terms))
            rows.reverse()
        self._rows = [_make_row(row) for row in rows]
        self._counts = [Counter(row.passages.split()) for row in self._rows]
        self._df = Counter(word for count in self._counts for word in count) | Counter(dict(counted))
        self._words = sorted(self._df)
        self._numbers = {word: number for number, word in enumerate(self._words)}

    def close(self) -> None:
        pass

    def read_totals(self) -> IndexTotals:
        return self._totals

    def find_terms(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        return {word: (self._numbers[word], self._df[word]) for word in words if word in self._numbers}

    def find_kin(self, stem: str, max_length: int) -> list[str]:
        start = bisect_left(self._words, stem)
        upper = stem[:-1] + chr(ord(stem[-1]) + 1)
        alike = (word for word in self._words[start : bisect_left(self._words, upper)] if len(word) <= max_length)
        return list(islice(alike, 20))

    def find_candidates(self, weights: Mapping[int, float], limit: int) -> list[int]:
        words = {self._words[number]: weight for number, weight in weights.items()}
        scores = {}
        for doc, count in enumerate(self._counts):
            met = [(weight, min(count[word], _MAX_COUNT)) for word, weight in words.items() if word in count]
            if met:
                scores[doc] = sum(weight * tf / (tf + SATURATION) for weight, tf in met)
        return heapq.nlargest(limit, scores, key=lambda doc: (scores[doc], doc))

    def read_rows(self, docs: Iterable[int] | None) -> list[IndexRow]:
        return self._rows if docs is None else [self._rows[doc] for doc in docs]

    def has_name(self, name: str) -> bool:
        return False

    def _list_soft(self, terms: Iterable[str]) -> list[str]:
        near = self.table.near if self.table is not None and self.semantic else lambda word: []
        return list(dict.fromkeys(word for term in terms for word in (term, *(at for at, _ in near(term)))))


def _has_kin(term: str) -> bool:
    return len(term) >= KIN_LETTERS and term.isascii()


def _make_queries(words: Sequence[str]) -> dict[str, object]:
    return {"words": list(words), "queries": [_render_query([word]) for word in words]}


def _render_query(words: Iterable[str], kin: Iterable[str] = ()) -> str:
    """A tsquery that any of the words matches, or a word that begins as one of `kin` does."""
    parts = [_quote(word) for word in words]
    parts += [f"{_quote(term[: max(KIN_LETTERS, len(term) - 3)])}:*" for term in kin]
    return " | ".join(parts)


def _quote(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _make_row(row: Row) -> IndexRow:
    path, length, passages, vectors, links, modified, pinned, kind = row
    linked = frozenset(links.split("\n")) if links else frozenset[str]()
    moment = datetime.fromtimestamp(modified).astimezone()
    priors = MemoryPriors(moment, pinned, Kind(kind) if kind else None, linked)
    return IndexRow(path, length, passages, bytes(vectors), priors)
