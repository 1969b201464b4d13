"""Search in a PostgresStore: candidates by postings, ranked with the same code as files.

A search reads three times by keys: the words of the question and those like them, the postings of the rarest of them, and
the documents of the best candidates. It never indexes (`postings.py` does, in the background), and says in `is_complete`
whether everything was indexed.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Self

from memdir.format.age import HALF_LIVES, HalfLives
from memdir.postgres.history import OF_STORE
from memdir.postgres.postings import TERM_CHARS, VERSION, index_store
from memdir.postgres.store import PostgresStore, StoreTable
from memdir.recall.index import SATURATION, Catalog, IndexRow, IndexTotals, MemoryPriors, WordTable, open_words
from memdir.recall.select import KIN_LETTERS, POSTINGS, Drop, LocalSearch, SearchResult, StoreScores
from memdir.recall.terms import parse_terms
from memdir.records import Kind, Query

_RANKED = 40  # candidates of a store that are fully scored; 25 and 100 gave the same results in the public set
_SMALL = 100  # documents of a store that may all be scored
_READ_TOGETHER = 24
_KIN = 20  # words with the same beginning, per word of the question
_HEAD = f"""
    SELECT s.revision, coalesce(d.revision, 0), coalesce(d.docs, 0), coalesce(d.length, 0), coalesce(d.lines, 0)
    FROM memdir.stores s
    LEFT JOIN memdir.searched d ON d.tenant = s.tenant AND d.store = s.store AND d.version = '{VERSION}'
    WHERE s.tenant = %(tenant)s AND s.store = %(store)s
"""
_TERMS = f"SELECT term, docs FROM memdir.terms WHERE {OF_STORE} AND term = ANY(%(words)s::text[])"
_LIKE = f"""
    SELECT v.stem, k.term, k.docs FROM unnest(%(stems)s::text[], %(ends)s::text[], %(sizes)s::int[]) AS v(stem, upper, size)
    CROSS JOIN LATERAL (
        SELECT term, docs FROM memdir.terms WHERE {OF_STORE} AND term >= v.stem AND term < v.upper
            AND length(term) <= v.size ORDER BY term LIMIT {_KIN}
    ) k
"""
_BEST = f"""
    SELECT p.doc, sum(v.weight * p.count / (p.count + {SATURATION})) AS score
    FROM unnest(%(words)s::text[], %(weights)s::float[]) AS v(term, weight)
    CROSS JOIN LATERAL (
        SELECT doc, count FROM memdir.postings WHERE {OF_STORE} AND term = v.term ORDER BY doc DESC LIMIT {POSTINGS}
    ) p GROUP BY p.doc ORDER BY score DESC, p.doc DESC LIMIT %(limit)s
"""
_ROWS = f"SELECT path, length, passages, vectors, links, modified, pinned, kind FROM memdir.search WHERE {OF_STORE}"


class PostgresSearch(LocalSearch):
    """LocalSearch for stores in PostgreSQL."""

    def __init__(
        self, stores: Sequence[PostgresStore], *, semantic: bool = True, half_lives: HalfLives = HALF_LIVES
    ) -> None:
        super().__init__(stores, semantic=semantic, half_lives=half_lives)
        self._sources = tuple(stores)
        self._question = ""
        self._holds = ExitStack()
        self.is_complete = True

    def search(self, query: Query, limit: int, *, drop: Drop = lambda store, name: "") -> SearchResult:
        self._question = query.text
        self._catalogs.clear()
        return super().search(query, limit, drop=drop)

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self._holds.close()
        super().close()

    def refresh(self) -> int:
        """Index what has changed now, instead of in the background."""
        tables = [store._table for store in self._sources]
        return sum(index_store(table.database, table.tenant, table.store) for table in tables)

    def read_links(self) -> list[dict[str, frozenset[str]]]:
        select = f"SELECT path, links FROM memdir.search WHERE {OF_STORE} AND links <> ''"
        results = (store._table.read(select)[0] for store in self._sources)
        return [{path: frozenset(links.split("\n")) for path, links in rows} for rows in results]

    def _score(self, number: int, query: Query, drop: Drop, worth: Sequence[float]) -> StoreScores:
        """Score documents as in a directory, then read the best ones in one round trip, because ranking needs them."""
        scores = super()._score(number, query, drop, worth)
        best = heapq.nlargest(_READ_TOGETHER, scores.kept, key=lambda score: score.score)
        if best:
            held = self._holds.enter_context(self._sources[number]._hold_memories())
            held.update(self._sources[number].read_many(score.path.removesuffix(".md") for score in best))
        return scores

    def _open(self, number: int) -> Catalog:
        if number not in self._catalogs:
            catalog = PostgresCatalog(
                self._sources[number]._table, self._question, open_words(), semantic=self._semantic
            )
            self.is_complete = self.is_complete and catalog.is_complete
            self._catalogs[number] = catalog
        return self._catalogs[number]

    def _refresh(self, number: int) -> int:
        return 0


class PostgresCatalog(Catalog):
    """The postings of one store for one question, with the same methods as the index of a directory."""

    def __init__(self, own: StoreTable, text: str, table: WordTable | None, *, semantic: bool) -> None:
        self.table = table
        self.semantic = semantic and table is not None
        self._own = own
        terms = [term for term in dict.fromkeys(parse_terms(text)) if len(term) <= TERM_CHARS and "\0" not in term]
        near = table.near if table is not None and self.semantic else lambda word: []
        words = dict.fromkeys(word for term in terms for word in (term, *(other for other, _ in near(term))))
        stems = {
            term[: max(KIN_LETTERS, len(term) - 3)]: len(term) + 4
            for term in sorted(terms, key=len)
            if len(term) >= KIN_LETTERS and term.isascii()
        }
        ends = [stem[:-1] + chr(ord(stem[-1]) + 1) for stem in stems]
        values = {"words": list(words), "stems": list(stems), "ends": ends, "sizes": list(stems.values())}
        heads, known, alike = own.read(_HEAD, _TERMS, _LIKE, **values)
        revision, indexed, docs, length, lines = heads[0] if heads else (0, 0, 0, 0, 0)
        self.is_complete = indexed >= revision
        self._totals = IndexTotals(docs, length, lines)
        self._known = {term: int(count) for term, count in known} | {term: int(count) for _, term, count in alike}
        self._words = list(self._known)
        self._alike: dict[str, list[str]] = {}
        for stem, term, _ in alike:
            self._alike.setdefault(stem, []).append(term)

    def close(self) -> None:
        pass

    def read_totals(self) -> IndexTotals:
        return self._totals

    def find_terms(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        numbers = {word: number for number, word in enumerate(self._words)}
        return {word: (numbers[word], self._known[word]) for word in words if word in numbers}

    def find_kin(self, stem: str, max_length: int) -> list[str]:
        return [word for word in self._alike.get(stem, ()) if len(word) <= max_length]

    def find_candidates(self, weights: Mapping[int, float], limit: int) -> list[int]:
        words = [self._words[number] for number in weights]
        best = {"words": words, "weights": list(weights.values()), "limit": min(limit, _RANKED)}
        return [doc for doc, _ in self._own.read(_BEST, **best)[0]] if words else []

    def read_rows(self, docs: Iterable[int] | None) -> list[IndexRow]:
        where = f" ORDER BY doc LIMIT {_SMALL}" if docs is None else " AND doc = ANY(%(docs)s::bigint[])"
        (rows,) = self._own.read(_ROWS + where, docs=list(docs or ()))
        return [
            IndexRow(path, length, passages, bytes(vectors), _make_priors(links, modified, pinned, kind))
            for path, length, passages, vectors, links, modified, pinned, kind in rows
        ]

    def has_name(self, name: str) -> bool:
        return False


def _make_priors(links: str, modified: float, pinned: bool, kind: str) -> MemoryPriors:
    linked = frozenset(links.split("\n")) if links else frozenset[str]()
    return MemoryPriors(datetime.fromtimestamp(modified).astimezone(), pinned, Kind(kind) if kind else None, linked)
