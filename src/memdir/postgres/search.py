"""Search in a PostgresStore: finds candidates by words and ranks them with the same code as files.

Each memory has a row with its terms as a tsvector, its passages and its vectors, derived from its text when a search
first needs it. A process caches the rows of a store as of a change, with the documents of each word, and updates those
that differ: a search of an unchanged store reads one row. Large stores are not cached; plain SQL finds their candidates.
With row-level security an operator such as `@@` cannot use its own index, but it filters the rows of one store, which are
found by their key.
"""

import heapq
import math
import threading
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import islice

from memdir.format.age import HALF_LIVES, HalfLives
from memdir.frozen import dataclass, replace
from memdir.postgres.cache import SearchHead
from memdir.postgres.history import OF_STORE, Row
from memdir.postgres.store import PostgresStore, execute
from memdir.recall.index import (
    COUNT_BITS,
    MAX_COUNT,
    Catalog,
    IndexRow,
    IndexTotals,
    MemoryPriors,
    WordTable,
    choose_candidates,
    make_vectors,
    open_words,
    parse_memory,
)
from memdir.recall.select import KIN_LETTERS, Drop, LocalSearch, SearchResult, StoreScores
from memdir.recall.terms import parse_terms
from memdir.records import Kind, Query

VERSION = "1"  # of the row format; rows of other versions are made again
_HELD = 5_000  # maximum rows of a store that a process caches: some 10 MB
_RANKED = 40  # candidates of a store that are fully scored; 25 and 100 gave the same results in the public set
_MATCHED = 500  # rows with a matching word that are read, the best by the database's own rank
_READ_TOGETHER = 24
_BATCH = 200  # memories that are read and indexed at once
_TERM_CHARS = 200  # longer words are ignored, and PostgreSQL refuses one of 2,046 bytes
_COLUMNS = "path, length, passages, vectors, links, modified, pinned, kind"
_HEAD = """
    SELECT s.revision, s.epoch, c.key, coalesce(d.revision, 0), coalesce(d.epoch, -1), coalesce(d.version, ''),
        coalesce(d.docs, 0), coalesce(d.length, 0), coalesce(d.lines, 0)
    FROM memdir.stores s
    LEFT JOIN memdir.searched d ON d.tenant = s.tenant AND d.store = s.store
    LEFT JOIN memdir.changes c ON c.tenant = s.tenant AND c.store = s.store AND c.change = s.revision
    WHERE s.tenant = %(tenant)s AND s.store = %(store)s
"""
# The change of the last update; 0 if rows have to be compared one by one.
_BROUGHT = f"""
    (SELECT CASE WHEN d.version = '{VERSION}' AND d.epoch = s.epoch THEN d.revision ELSE 0 END
    FROM memdir.searched d JOIN memdir.stores s ON s.tenant = d.tenant AND s.store = d.store
    WHERE d.tenant = %(tenant)s AND d.store = %(store)s)
"""
# Only one process at a time updates the rows; another may already have done it.
_ENTER = (
    "INSERT INTO memdir.searched VALUES (%(tenant)s, %(store)s, 0, -1, '', 0, 0, 0) ON CONFLICT DO NOTHING",
    f"SELECT 1 FROM memdir.searched WHERE {OF_STORE} FOR NO KEY UPDATE",
    _HEAD,
    f"DELETE FROM memdir.search WHERE {OF_STORE} AND (SELECT d.version FROM memdir.searched d"
    f" WHERE d.tenant = %(tenant)s AND d.store = %(store)s) <> '{VERSION}'",
    f"""
    DELETE FROM memdir.search x WHERE {OF_STORE} AND ({_BROUGHT} = 0 OR x.path IN (SELECT g.path
        FROM memdir.changed_files g WHERE g.tenant = %(tenant)s AND g.store = %(store)s AND g.change > {_BROUGHT}
        AND g.after IS NULL)) AND NOT EXISTS (SELECT 1 FROM memdir.files f
        WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = x.path AND f.data IS NULL)
    """,
)
_STALE = f"""
    SELECT f.path, f.digest, f.mtime_ns, c.data FROM memdir.files f
    JOIN memdir.contents c ON c.tenant = f.tenant AND c.store = f.store AND c.digest = f.digest
    LEFT JOIN memdir.search x ON x.tenant = f.tenant AND x.store = f.store AND x.path = f.path
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.change > {_BROUGHT} AND c.data IS NOT NULL
        AND x.digest IS DISTINCT FROM f.digest
    LIMIT {_BATCH}
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
    WHERE d.tenant = %(tenant)s AND d.store = %(store)s RETURNING d.docs, d.length, d.lines
"""
_COUNT_WORDS = """
    SELECT w.word, count(*) FROM unnest(%(words)s::text[], %(queries)s::text[]::tsquery[]) AS w(word, query)
    JOIN memdir.search x ON x.terms @@ w.query WHERE x.tenant = %(tenant)s AND x.store = %(store)s GROUP BY w.word
"""


class PostgresSearch(LocalSearch):
    """LocalSearch for stores in PostgreSQL."""

    def __init__(
        self, stores: Sequence[PostgresStore], *, semantic: bool = True, half_lives: HalfLives = HALF_LIVES
    ) -> None:
        super().__init__(stores, semantic=semantic, half_lives=half_lives)
        self._sources = tuple(stores)
        self._heads: dict[int, SearchHead] = {}
        self._question = ""
        self._holds = ExitStack()

    def search(self, query: Query, limit: int, *, drop: Drop = lambda store, name: "") -> SearchResult:
        self._question = query.text
        self._catalogs.clear()
        return super().search(query, limit, drop=drop)

    def close(self) -> None:
        self._holds.close()
        super().close()

    def read_links(self) -> list[dict[str, frozenset[str]]]:
        self.refresh()
        select = f"SELECT path, links FROM memdir.search WHERE {OF_STORE} AND links <> ''"
        results = (store._table.read(select)[0] for store in self._sources)
        return [{path: frozenset(links.split("\n")) for path, links in rows} for rows in results]

    def _score(self, number: int, query: Query, drop: Drop, worth: Sequence[float]) -> StoreScores:
        """Score rows as in a directory, then read the best ones in one round trip, because ranking needs their text."""
        scores = super()._score(number, query, drop, worth)
        best = heapq.nlargest(_READ_TOGETHER, scores.kept, key=lambda score: score.score)
        if best:
            hold = self._holds.enter_context(self._sources[number]._hold_memories(self._heads[number]))
            hold([score.path.removesuffix(".md") for score in best])
        return scores

    def _open(self, number: int) -> Catalog:
        if number not in self._catalogs:
            store, table = self._sources[number], open_words()
            if number not in self._heads:
                self._heads[number] = _read_head(store)
            head = self._heads[number]
            is_small = head.docs <= _HELD
            rows = _find_cached(store).update(store, head) if is_small else _find_rows(store, table, self._question)
            self._catalogs[number] = PostgresCatalog(rows, head, table, semantic=self._semantic)
        return self._catalogs[number]

    def _refresh(self, number: int) -> int:
        count, self._heads[number] = refresh_rows(self._sources[number], open_words())
        return count


def _read_head(store: PostgresStore) -> SearchHead:
    (rows,) = store._table.read(_HEAD)
    return SearchHead(*rows[0]) if rows else SearchHead(0, 0, None, 0, 0, VERSION, 0, 0, 0)


def refresh_rows(store: PostgresStore, table: WordTable | None) -> tuple[int, SearchHead]:
    head = _read_head(store)
    if (head.revision, head.epoch, VERSION) == (head.searched, head.searched_epoch, head.version):
        return 0, head
    own = store._table
    base: dict[str, object] = {"tenant": own.tenant, "store": own.store}
    postings = _find_cached(store).rows.postings  # the frequency of words at the last search is near enough
    count = 0
    with own.database.transaction(own.tenant) as db:
        _, _, heads, *_, rows = execute(db, ";".join([*_ENTER, _STALE]), base)
        if not heads:  # the store was deleted since
            return 0, head
        head = SearchHead(*heads[0])
        while True:
            texts = [(path, data.decode("utf-8", "replace"), f"0 0 {mtime} {mtime}") for path, _, mtime, data in rows]
            memories = [parse_memory(*text) for text in texts]
            memories = [replace(row, passages=row.passages.replace("\0", " ")) for row in memories]
            counts = [Counter(row.passages.split()) for row in memories]
            fresh = Counter(word for counted in counts for word in counted)
            totals = IndexTotals(head.docs + count + len(rows), 0, 0)
            rarity = {word: math.sqrt(totals.idf(len(postings.get(word, ())) + df)) for word, df in fresh.items()}
            for (path, digest, *_), row, counted in zip(rows, memories, counts, strict=True):
                priors = row.priors
                values = base | {"path": path, "digest": digest, "length": row.length, "passages": row.passages}
                values |= {"lines": row.passages.count("\n") + 1 if row.passages else 0, "pinned": priors.pinned}
                values |= {"vectors": make_vectors(table, row, counted, rarity) if table else b""}
                values |= {"links": "\n".join(sorted(priors.links)).replace("\0", ""), "kind": priors.kind or ""}
                words = [word for word in counted if len(word) <= _TERM_CHARS]
                db.execute(_PUT, values | {"modified": priors.modified.timestamp(), "words": words})
            count += len(rows)
            if len(rows) < _BATCH:
                break
            (rows,) = execute(db, _STALE, base)
        ((totalled,),) = execute(db, _DONE, base | {"revision": head.revision, "epoch": head.epoch})
    docs, length, lines = totalled
    brought = {"searched": head.revision, "searched_epoch": head.epoch, "version": VERSION}
    return count, replace(head, **brought, docs=docs, length=length, lines=lines)


@dataclass(frozen=True, slots=True)
class SearchRows:
    """A store's rows by number, the documents of each word (number and count packed in one integer, as in the index of
    a directory), and the total number of rows if these are not all."""

    rows: Sequence[IndexRow | None]
    postings: Mapping[str, Sequence[int]]
    words: Sequence[str]
    counted: Mapping[str, int]


class _CachedRows:
    """All rows of a store as of a change, kept in a StoreCache and updated incrementally. Only one search updates them
    at a time; a running search keeps the rows that it started with."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.mark: tuple[object, ...] = ()
        self.rows = SearchRows((), {}, (), {})
        self._digests: dict[str, tuple[int, str]] = {}

    def update(self, store: PostgresStore, head: SearchHead) -> SearchRows:
        mark = (head.searched, head.searched_epoch, head.key if head.searched == head.revision else None)
        with self.lock:
            if self.mark != mark or mark[2] is None:
                self._update(store)
                self.mark = mark
            return self.rows

    def _update(self, store: PostgresStore) -> None:
        (listed,) = store._table.read(
            f"SELECT path, digest FROM memdir.search WHERE {OF_STORE} ORDER BY modified, path"
        )
        now: dict[str, str] = dict(listed)
        fresh = [path for path, digest in now.items() if self._digests.get(path, (0, ""))[1] != digest]
        gone = [path for path in self._digests if path not in now]
        if not fresh and not gone:
            return
        rows, postings = list(self.rows.rows), dict(self.rows.postings)
        changed = {self._digests[path][0] for path in (*gone, *fresh) if path in self._digests}
        lost = {word for number in changed if (row := rows[number]) for word in row.passages.split()}
        for word in lost:
            postings[word] = array("I", (posting for posting in postings[word] if posting >> COUNT_BITS not in changed))
        for number in changed:
            rows[number] = None
        for path in (*gone, *fresh):
            self._digests.pop(path, None)
        added: dict[str, array[int]] = {}
        for start in range(0, len(fresh), _BATCH):
            select = f"SELECT digest, {_COLUMNS} FROM memdir.search WHERE {OF_STORE} AND path = ANY(%(paths)s)"
            (batch,) = store._table.read(f"{select} ORDER BY modified, path", paths=fresh[start : start + _BATCH])
            for digest, *columns in batch:
                row = _make_row(tuple(columns))
                self._digests[row.path] = len(rows), digest
                for word, count in Counter(row.passages.split()).items():
                    added.setdefault(word, array("I")).append(len(rows) << COUNT_BITS | min(count, MAX_COUNT))
                rows.append(row)
        for word, numbers in added.items():
            postings[word] = array("I", [*postings.get(word, ()), *numbers])
        postings = {word: numbers for word, numbers in postings.items() if numbers}
        self.rows = SearchRows(rows, postings, sorted(postings), {})


def _find_cached(store: PostgresStore) -> _CachedRows:
    rows = store._cache.search
    if not isinstance(rows, _CachedRows):
        rows = store._cache.search = _CachedRows()
    return rows


def _find_rows(store: PostgresStore, table: WordTable | None, text: str) -> SearchRows:
    """Return rows of a large store that contain a word of the question, its prefix, or a related word."""
    terms = [term for term in dict.fromkeys(parse_terms(text)) if len(term) <= _TERM_CHARS]
    if not terms:
        return SearchRows((), {}, (), {})
    near = table.near if table is not None else lambda word: []
    words = dict.fromkeys(word for term in terms for word in (term, *(neighbour for neighbour, _ in near(term))))
    soft = _render_query(words, [term for term in terms if len(term) >= KIN_LETTERS and term.isascii()])
    rank = "ts_rank(terms, %(exact)s::tsquery) * 10 + ts_rank(terms, %(soft)s::tsquery)"
    select = f"SELECT {_COLUMNS} FROM memdir.search WHERE {OF_STORE}"
    matched = f"{select} AND terms @@ %(soft)s::tsquery ORDER BY {rank} DESC, modified DESC LIMIT {_MATCHED}"
    queries = [_render_query([term]) for term in terms]
    values = {"exact": _render_query(terms), "soft": soft, "words": terms, "queries": queries}
    matches, counted = store._table.read(matched, _COUNT_WORDS, **values)
    rows = [_make_row(row) for row in reversed(matches)]
    postings: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        for word, count in Counter(row.passages.split()).items():
            postings.setdefault(word, []).append(number << COUNT_BITS | min(count, MAX_COUNT))
    return SearchRows(rows, postings, sorted(postings), dict(counted))


class PostgresCatalog(Catalog):
    """The rows of one store, with the same methods as the index of a directory."""

    def __init__(self, found: SearchRows, head: SearchHead, table: WordTable | None, *, semantic: bool) -> None:
        self.table = table
        self.semantic = semantic and table is not None
        self._found, self._totals = found, IndexTotals(head.docs, head.length, head.lines)

    def close(self) -> None:
        pass

    def read_totals(self) -> IndexTotals:
        return self._totals

    def find_terms(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        known, counted, numbers = self._found.postings, self._found.counted, self._found.words
        return {
            word: (bisect_left(numbers, word), max(len(known[word]), counted.get(word, 0)))
            for word in words
            if word in known
        }

    def find_kin(self, stem: str, max_length: int) -> list[str]:
        words = self._found.words
        upper = stem[:-1] + chr(ord(stem[-1]) + 1)
        alike = (
            word for word in words[bisect_left(words, stem) : bisect_left(words, upper)] if len(word) <= max_length
        )
        return list(islice(alike, 20))

    def find_candidates(self, weights: Mapping[int, float], limit: int) -> list[int]:
        words, postings = self._found.words, self._found.postings
        listed = ((weight, postings[words[number]]) for number, weight in weights.items())
        return choose_candidates(listed, min(limit, _RANKED))

    def read_rows(self, docs: Iterable[int] | None) -> list[IndexRow]:
        rows = self._found.rows
        return [row for row in (rows if docs is None else [rows[doc] for doc in docs]) if row is not None]

    def has_name(self, name: str) -> bool:
        return False


def _render_query(words: Iterable[str], kin: Iterable[str] = ()) -> str:
    """Return a tsquery that matches any of the words, and words with the same prefix as one of `kin`."""
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
