"""Search in a PostgresStore with postings, and the indexer that creates the postings in the background.

A search makes three queries by key: for the words of the question and similar words, for the postings of the rarest
words, and for the documents of the best candidates, which are ranked with the same code as files. It never indexes;
`is_complete` tells whether everything was indexed.

Every change adds its store to `queue`. An indexer in any process leases a store from there for some seconds, indexes
the changes since the store's revision in `searched`, a few memories per transaction, and removes the store from the
queue if it has not changed since. A killed indexer loses one small transaction, and its lease expires. Document numbers
only grow, and a changed memory gets a new number.
"""

import heapq
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from memdir.errors import MemdirError
from memdir.format.age import HALF_LIVES, HalfLives
from memdir.frozen import replace
from memdir.postgres.database import PostgresDatabase, Row, execute
from memdir.postgres.history import OF_STORE, Ask, tidy_tenant
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
from memdir.recall.select import KIN_LETTERS, POSTINGS, Drop, LocalSearch, SearchResult, StoreScores
from memdir.recall.terms import parse_terms
from memdir.records import Kind, Query

if TYPE_CHECKING:
    from memdir.postgres.store import PostgresStore, StoreTable

VERSION = "2"  # of the index; stores indexed with another version are indexed again
TERM_CHARS = 200  # longer words are ignored
_RANKED = 40  # candidates of a store that are fully scored; 25 and 100 gave the same results in the public set
_SMALL = 100  # documents of a store that may all be scored
_READ_TOGETHER = 24
_KIN = 20  # similar words (with the same beginning) per word of the question
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
        self, stores: Sequence["PostgresStore"], *, semantic: bool = True, half_lives: HalfLives = HALF_LIVES
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

    def close(self) -> None:
        self._holds.close()
        super().close()

    def refresh(self) -> int:
        """Index all changes now instead of in the background, and return how many memories were read."""
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

    def __init__(self, own: "StoreTable", text: str, table: WordTable | None, *, semantic: bool) -> None:
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
        found = []
        for path, length, passages, vectors, links, modified, pinned, kind in rows:
            linked = frozenset(links.split("\n")) if links else frozenset[str]()
            moment = datetime.fromtimestamp(modified).astimezone()
            priors = MemoryPriors(moment, pinned, Kind(kind) if kind else None, linked)
            found.append(IndexRow(path, length, passages, bytes(vectors), priors))
        return found

    def has_name(self, name: str) -> bool:
        return False


# --- the indexer -----------------------------------------------------------------------------------------------------

_BATCH = 100  # memories per transaction
_LEASE_SECONDS = 30
_IDLE_SECONDS = 1.0  # between checks of the queue for changes made by other processes
_ENTER = (
    f"INSERT INTO memdir.searched (tenant, store, version) VALUES (%(tenant)s, %(store)s, '{VERSION}')"
    " ON CONFLICT DO NOTHING",
    f"SELECT version, revision, path, dropped, last_doc, docs FROM memdir.searched WHERE {OF_STORE} FOR NO KEY UPDATE",
    f"SELECT revision FROM memdir.stores WHERE {OF_STORE}",
)
_START_AGAIN = (
    f"DELETE FROM memdir.postings WHERE {OF_STORE}",
    f"DELETE FROM memdir.terms WHERE {OF_STORE}",
    f"DELETE FROM memdir.search WHERE {OF_STORE}",
    f"UPDATE memdir.searched SET version = '{VERSION}', revision = 0, path = '', dropped = 0, docs = 0, length = 0,"
    f" lines = 0 WHERE {OF_STORE}",
)
_CHANGED = f"""
    SELECT f.path, f.digest, f.mtime_ns, f.change, c.data FROM memdir.files f
    JOIN memdir.contents c ON c.tenant = f.tenant AND c.store = f.store AND c.digest = f.digest
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND (f.change, f.path) > (%(revision)s, %(path)s)
    ORDER BY f.change, f.path LIMIT {_BATCH}
"""
_DELETED = f"""
    SELECT change, path FROM memdir.changed_files WHERE {OF_STORE} AND change > %(dropped)s AND change <= %(last)s
        AND after IS NULL
"""
_OLD = f"SELECT doc, path, length, passages FROM memdir.search WHERE {OF_STORE} AND path = ANY(%(paths)s)"
_DROP = (
    "DELETE FROM memdir.postings p USING unnest(%(terms)s::text[], %(docs)s::bigint[]) AS v(term, doc)"
    " WHERE p.tenant = %(tenant)s AND p.store = %(store)s AND p.term = v.term AND p.doc = v.doc",
    f"DELETE FROM memdir.search WHERE {OF_STORE} AND path = ANY(%(paths)s)",
    "UPDATE memdir.terms t SET docs = t.docs - v.docs FROM unnest(%(words)s::text[], %(counts)s::int[]) AS v(term, docs)"
    " WHERE t.tenant = %(tenant)s AND t.store = %(store)s AND t.term = v.term",
    f"DELETE FROM memdir.terms WHERE {OF_STORE} AND term = ANY(%(words)s) AND docs <= 0",
    "UPDATE memdir.searched SET docs = docs - %(fewer)s, length = length - %(shorter)s, lines = lines - %(less)s"
    f" WHERE {OF_STORE}",
)
_COLUMNS = "doc path digest length passages vectors links modified pinned kind".split()
_TYPES = "bigint text text int text bytea text float boolean text".split()
_ADD = (
    f"INSERT INTO memdir.search (tenant, store, {', '.join(_COLUMNS)}) SELECT %(tenant)s, %(store)s, v.* FROM unnest("
    + ", ".join(f"%({name})s::{kind}[]" for name, kind in zip(_COLUMNS, _TYPES, strict=True))
    + ") AS v",
    "INSERT INTO memdir.postings (tenant, store, term, doc, count) SELECT %(tenant)s, %(store)s, v.*"
    " FROM unnest(%(terms)s::text[], %(docs)s::bigint[], %(counts)s::int[]) AS v",
    "INSERT INTO memdir.terms (tenant, store, term, docs) SELECT %(tenant)s, %(store)s, v.*"
    " FROM unnest(%(words)s::text[], %(more)s::int[]) AS v"
    " ON CONFLICT (tenant, store, term) DO UPDATE SET docs = memdir.terms.docs + excluded.docs",
    "UPDATE memdir.searched SET last_doc = %(last_doc)s, docs = docs + %(added)s, length = length + %(longer)s,"
    f" lines = lines + %(extra)s WHERE {OF_STORE}",
)
_MARK = f"UPDATE memdir.searched SET revision = %(revision)s, path = %(path)s, dropped = %(dropped)s WHERE {OF_STORE}"
_LAST_PATH = "\U0010ffff"


def index_store(database: PostgresDatabase, tenant: UUID, store: UUID) -> int:
    """Index everything in a store that changed since it was last indexed; return how many memories were read."""
    total = 0
    while (count := _index_batch(database, tenant, store, open_words())) is not None:
        total += count
    return total


def _index_batch(database: PostgresDatabase, tenant: UUID, store: UUID, table: WordTable | None) -> int | None:
    """Index some memories in one transaction. Returns None if there was nothing to do."""
    with database.transaction(tenant) as db:
        ask = partial(execute, db, tenant=tenant, store=store)
        if not (head := ask(_ENTER[2])[0]):
            return None  # the store was deleted
        _, marks, head = ask(*_ENTER)
        version, revision, path, dropped, last_doc, docs = marks[0]
        last = head[0][0]
        if version != VERSION:
            ask(*_START_AGAIN)
            revision, path, dropped, docs = 0, "", 0, 0
        elif revision >= last and path == _LAST_PATH and dropped >= last:
            return None
        changed, deleted = ask(_CHANGED, _DELETED, revision=revision, path=path, dropped=dropped, last=last)
        changed = [row for row in changed if row[3] <= last]  # leave out newer changes
        drop_documents(ask, sorted({*(row[0] for row in changed), *(row[1] for row in deleted)}))
        _add_documents(ask, [row for row in changed if row[4] is not None], last_doc, docs, table)
        is_done = len(changed) < _BATCH
        mark = (last, _LAST_PATH) if is_done else (changed[-1][3], changed[-1][0])
        ask(_MARK, revision=mark[0], path=mark[1], dropped=last)
        return len(changed)


def drop_documents(ask: Ask, paths: Sequence[str]) -> None:
    """Remove documents and their postings, locking the store's row in `searched`."""
    _, rows = ask(_ENTER[1], _OLD, paths=list(paths))
    if not rows:
        return
    words = [(doc, word) for doc, _, _, passages in rows for word in _count_words(passages)]
    lost = sorted(Counter(word for _, word in words).items())
    ask(
        *_DROP,
        paths=list(paths),
        terms=[word for _, word in words],
        docs=[doc for doc, _ in words],
        words=[word for word, _ in lost],
        counts=[count for _, count in lost],
        fewer=len(rows),
        shorter=sum(row[2] for row in rows),
        less=sum(_count_lines(row[3]) for row in rows),
    )


def _add_documents(ask: Ask, rows: Sequence[Row], last_doc: int, docs: int, table: WordTable | None) -> None:
    if not rows:
        return
    texts = [(path, data.decode("utf-8", "replace"), f"0 0 {mtime} {mtime}") for path, _, mtime, _, data in rows]
    memories = [parse_memory(*text) for text in texts]
    memories = [replace(row, passages=row.passages.replace("\0", " ")) for row in memories]
    counts = [_count_words(row.passages) for row in memories]
    fresh = Counter(word for counted in counts for word in counted)
    known: dict[str, int] = dict(
        ask(f"SELECT term, docs FROM memdir.terms WHERE {OF_STORE} AND term = ANY(%(words)s)", words=list(fresh))[0]
    )
    totals = IndexTotals(docs + len(rows), 0, 0)
    rarity = {word: math.sqrt(totals.idf(known.get(word, 0) + df)) for word, df in fresh.items()}
    columns: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for number, ((path, digest, *_), row, counted) in enumerate(zip(rows, memories, counts, strict=True), last_doc + 1):
        vectors = make_vectors(table, row, counted, rarity) if table else b""
        facts = row.priors
        links, kind = "\n".join(sorted(facts.links)).replace("\0", ""), facts.kind.value if facts.kind else ""
        known_facts = links, facts.modified.timestamp(), facts.pinned, kind
        values = (number, path, digest, row.length, row.passages, vectors, *known_facts)
        for name, value in zip(_COLUMNS, values, strict=True):
            columns[name].append(value)
    postings = [
        (word, last_doc + 1 + at, count) for at, counted in enumerate(counts) for word, count in counted.items()
    ]
    postings.sort()
    added = sorted(fresh.items())
    ask(
        *_ADD,
        **columns,
        terms=[word for word, _, _ in postings],
        docs=[doc for _, doc, _ in postings],
        counts=[count for _, _, count in postings],
        words=[word for word, _ in added],
        more=[count for _, count in added],
        last_doc=last_doc + len(rows),
        added=len(rows),
        longer=sum(row.length for row in memories),
        extra=sum(_count_lines(row.passages) for row in memories),
    )


def _count_words(passages: str) -> Counter[str]:
    return Counter(word for word in passages.split() if len(word) <= TERM_CHARS)


def _count_lines(passages: str) -> int:
    return passages.count("\n") + 1 if passages else 0


_TAKE = f"""
    UPDATE memdir.queue q SET leased = now() + interval '{_LEASE_SECONDS} seconds'
    WHERE q.tenant = %(tenant)s AND q.store = %(store)s AND q.leased < now() RETURNING q.revision
"""
_WAITING = "SELECT tenant, store FROM memdir.queue WHERE leased < now() LIMIT 20"
_LEAVE = "DELETE FROM memdir.queue WHERE tenant = %(tenant)s AND store = %(store)s AND revision <= %(revision)s"
_RETURN = "UPDATE memdir.queue SET leased = 'epoch' WHERE tenant = %(tenant)s AND store = %(store)s"


# Whichever process sets the time first has taken the organisation.
_UNTIDY = "SELECT tenant FROM memdir.upkeep WHERE tidied < now() - interval '1 day' ORDER BY tidied LIMIT 20"
_TIDY = (
    "UPDATE memdir.upkeep SET tidied = now() WHERE tenant = %(tenant)s AND tidied < now() - interval '1 day'"
    " RETURNING tenant"
)
_TIDY_SECONDS = 60.0  # between checks for organisations whose old history was not deleted today
_FORGET = (
    "DELETE FROM memdir.logins WHERE until < now()",
    "SELECT set_config('app.tenant', '00000000-0000-0000-0000-000000000000', true)",
    "DELETE FROM memdir.rates WHERE tenant = '00000000-0000-0000-0000-000000000000' AND until < now()",
)


class Indexer:
    """A thread that indexes changed stores, whichever process changed them, and deletes what is kept no longer."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._wake, self._closed, self._tidied_at = threading.Event(), False, float("-inf")
        self._thread = threading.Thread(target=self._run, name="memdir-indexer", daemon=True)
        database.notify = self._wake.set
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._closed:
            self._wake.clear()
            try:
                count = self._index_waiting()
                if not count and time.monotonic() - self._tidied_at > _TIDY_SECONDS:
                    self._tidied_at = time.monotonic()
                    self._tidy()
            except MemdirError as error:  # the database cannot be reached
                logging.getLogger("memdir").warning("indexing: %s", error)
                count = 0
            if not count:
                self._wake.wait(_IDLE_SECONDS)

    def _index_waiting(self) -> int:
        """Index each queued store for a limited time, so that a large store does not delay the others."""
        (waiting,) = self._database.run(lambda db, _: execute(db, _WAITING))
        for tenant, store in waiting:
            if self._closed:
                break
            if not (taken := self._database.write(tenant, _TAKE, store=store)[0]):
                continue
            with suppress(MemdirError):
                until, is_done = time.monotonic() + _LEASE_SECONDS / 2, False
                while not is_done and time.monotonic() < until and not self._closed:
                    is_done = _index_batch(self._database, tenant, store, open_words()) is None
                self._database.write(tenant, _LEAVE if is_done else _RETURN, store=store, revision=taken[0][0])
        return len(waiting)

    def _tidy(self) -> None:
        """Delete what is kept no longer, once a day for each organisation, and what belongs to none."""
        self._database.run(lambda db, _: execute(db, *_FORGET))
        for (tenant,) in self._database.run(lambda db, _: execute(db, _UNTIDY))[0]:
            if not self._closed and self._database.write(tenant, _TIDY)[0]:
                tidy_tenant(self._database, tenant)
