"""The local selector: the best memories of one or several stores for a question, or none.

It brings each store's index up to date with one listing of the directory, scores candidates, adds weak evidence (date,
pin, recency, links), and returns nothing below the threshold. It works on any store; on a FileStore it opens only the
few files that may be selected.
"""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memdir.errors import MemdirError
from memdir.format.age import HALF_LIVES, HalfLives, find_half_life, weigh_age
from memdir.frozen import dataclass, replace
from memdir.guard import Stat
from memdir.recall import rank
from memdir.recall.index import Catalog, MemoryPriors
from memdir.recall.rank import ScoredMemory
from memdir.recall.table import open_words
from memdir.recall.terms import match_date, parse_dates
from memdir.records import Evidence, Header, Pick, Query, Scope
from memdir.store.contract import Store
from memdir.store.files import FileStore
from memdir.text import fold, fold_link

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

DATE = 0.2  # a question that names the day
PINNED, RECENT, LINKED = 0.02, 0.02, 0.05  # weak evidence: it breaks near ties and nothing else
FEW = 5  # if fewer memories match, related ones are added
SHORTLIST = 5  # how many more than the limit are opened, to be shown by --explain
# A memory that matches no word of the question and has less than this share of the best one's score is a candidate only
# because all of a small directory is scored. Dropping those costs no right answer in the public sets, where such cases
# are rare (at most 0.2 % of what is shown): the share was chosen by looking at small directories, not fitted.
FAINT = 0.25
# Why a candidate was dropped.
BELOW, WORSE, HIDDEN = "below the floor", "others fit better", "the project has a memory of this name"
WEAK = "too weak beside the best"

T = TypeVar("T")
Drop = Callable[[Store, str], str]  # why this memory may not be selected; empty if it may


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The picks in order, the store of each, and those that were not selected, with the reason."""

    picks: tuple[Pick, ...]
    passed_over: tuple[Pick, ...] = ()
    owners: tuple[Store, ...] = ()


@dataclass(frozen=True, slots=True)
class _StoreScores:
    kept: list[ScoredMemory]
    dropped: list[tuple[ScoredMemory, str]]
    enough: bool


class LocalSearch:
    """The open indexes of several stores, the project's first.

    `on_read` is called with the number of files read so far. `read_signatures` lists the files of a store, for a caller
    that has a recent listing.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        *,
        semantic: bool = True,
        half_lives: HalfLives = HALF_LIVES,
        on_read: Callable[[int], None] = lambda count: None,
        read_signatures: "Callable[[Store], dict[str, Stat]] | None" = None,
    ) -> None:
        self._stores = tuple(stores)
        self._read_signatures = read_signatures or list_signatures
        self._half_lives = half_lives
        self._semantic = semantic
        self._on_read = on_read
        self._reads = 0
        self._catalogs: dict[int, Catalog] = {}
        self._paths: dict[int, Collection[str]] = {}
        self._folder: TemporaryDirectory[str] | None = None
        self._is_aside = False  # use temporary indexes, because the stores' own cannot be used

    @property
    def name(self) -> str:
        return "local" if self._semantic else "local-lexical"

    def close(self) -> None:
        for catalog in self._catalogs.values():
            catalog.close()
        self._catalogs.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> "LocalSearch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(self) -> int:
        """Bring every index up to its files; returns how many files were read."""
        return self._retry(self._refresh_all)

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        """Implements `pipeline.StoreFinder`: the picks, then what was passed over with the reason."""
        return self._retry(lambda: self._find(query, limit, drop))

    def select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        """Implements `records.Selector`: picks among these headers."""
        return self._retry(lambda: self._select(query, headers, limit))

    def search(self, query: Query, limit: int, *, drop: Drop = lambda store, name: "") -> SearchResult:
        """Return the best memories, at most `limit`, and what came close. What is dropped does not count as a match."""
        ranked: list[tuple[Pick, Store]] = []
        dropped: list[Pick] = []
        enough = False
        for number, store in enumerate(self._stores):
            scores = self._score(number, query, drop)
            enough = enough or scores.enough
            best = _weigh(scores.kept, query, self._half_lives)[: limit + SHORTLIST]
            picks = (_make_pick(store, *at, self.name) for at in best)
            ranked += [(pick, store) for pick in picks if pick is not None]
            for at, reason in sorted(scores.dropped, key=lambda at: -at[0].score)[:SHORTLIST]:
                if (pick := _make_pick(store, at, 0.0, self.name)) is not None:
                    dropped.append(replace(pick, dropped=reason))
        ranked.sort(key=lambda at: (-at[0].score, -at[0].header.modified.timestamp(), at[0].header.name))
        dropped.sort(key=lambda pick: -pick.score)
        selected: list[tuple[Pick, Store]] = []
        worse, weak = list[Pick](), list[Pick]()
        for pick, store in ranked:
            if not enough:
                weak.append(replace(pick, dropped=BELOW))
            elif not pick.evidence.lexical and pick.score < FAINT * ranked[0][0].score:
                weak.append(replace(pick, dropped=WEAK))
            elif len(selected) < limit:
                selected.append((pick, store))
            else:
                worse.append(replace(pick, dropped=WORSE))
        owners = tuple(store for _, store in selected)
        return SearchResult(tuple(pick for pick, _ in selected), (*worse, *weak, *dropped), owners)

    def _find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        self._refresh_all()
        above: list[frozenset[str]] = []  # the project's own names, listed when first needed

        def find_reason(store: Store, name: str) -> str:
            scope = _scope_of(store)
            if scope is Scope.USER:
                if not above:
                    own = (at for at, one in enumerate(self._stores) if _scope_of(one) is Scope.PRIVATE)
                    paths = (path for at in own for path in self._paths.get(at, ()))
                    above.append(frozenset(fold(path.removesuffix(".md")) for path in paths))
                if fold(name) in above[0]:
                    return HIDDEN
            return drop(scope, name)

        found = self.search(query, limit, drop=find_reason)
        return (*found.picks, *found.passed_over)

    def _select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        self._refresh_all()
        wanted = {(_home_of(header.scope), header.name): header for header in headers}

        def drop(store: Store, name: str) -> str:
            return "" if (_scope_of(store), name) in wanted else "not asked for"

        found = self.search(query, limit, drop=drop)
        return [
            replace(pick, header=wanted[_scope_of(owner), pick.header.name])
            for pick, owner in zip(found.picks, found.owners, strict=True)
        ]

    def _score(self, number: int, query: Query, drop: Drop) -> _StoreScores:
        store = self._stores[number]
        if number in self._paths and not self._paths[number]:
            return _StoreScores([], [], False)
        catalog = self._open(number)
        totals = catalog.read_totals()
        if not totals.docs:
            return _StoreScores([], [], False)
        prepared, postings = rank.prepare_query(catalog, query.text, totals)
        kept: list[ScoredMemory] = []
        dropped: list[tuple[ScoredMemory, str]] = []
        for at in rank.score_all(catalog, prepared, postings, totals):
            if reason := drop(store, at.path.removesuffix(".md")):
                dropped.append((at, reason))
            else:
                kept.append(at)
        enough = rank.is_enough(prepared, kept)
        if enough and len(kept) < FEW:
            related = rank.find_related(catalog, kept, FEW - len(kept), totals)
            kept += [at for at in related if not drop(store, at.path.removesuffix(".md"))]
        return _StoreScores(kept, dropped, enough)

    def _open(self, number: int) -> Catalog:
        if number not in self._catalogs:
            table, store = open_words(), self._stores[number]
            path = store.find_index_file() if isinstance(store, FileStore) and not self._is_aside else None
            try:
                self._catalogs[number] = Catalog(path or self._make_path(number), table, semantic=self._semantic)
            except (sqlite3.Error, OSError):
                self._catalogs[number] = Catalog(self._make_path(number), table, semantic=self._semantic)
        return self._catalogs[number]

    def _make_path(self, number: int) -> Path:
        """A temporary index, for a store that has no place for one."""
        if self._folder is None:
            # Imported here: nearly every store has a place, and the module takes as long to load as a query.
            from tempfile import TemporaryDirectory

            self._folder = TemporaryDirectory(prefix="memdir-")
        return Path(self._folder.name) / f"{number}.db"

    def _refresh_all(self) -> int:
        return sum(self._refresh(number) for number in range(len(self._stores)))

    def _refresh(self, number: int) -> int:
        store = self._stores[number]
        try:
            self._paths[number] = signatures = self._read_signatures(store)
        except MemdirError:  # a directory that cannot be listed cannot be read either
            self._paths[number] = ()
            return 0

        def read(path: str) -> bytes | None:
            self._reads += 1
            self._on_read(self._reads)
            try:
                if isinstance(store, FileStore):
                    return store.read_bytes(path)
                return store.read(path.removesuffix(".md")).text.encode("utf-8", "replace")
            except MemdirError:
                return None

        return self._open(number).refresh(signatures, read) if signatures else 0

    def _retry(self, step: Callable[[], T]) -> T:
        """Run a step; if an index fails, once more with another: a new one if it is broken, else a temporary one."""
        try:
            return step()
        except sqlite3.DatabaseError as error:
            self._is_aside = isinstance(error, sqlite3.OperationalError)
            for catalog in self._catalogs.values():
                catalog.close() if self._is_aside else catalog.rebuild()
            if self._is_aside:
                self._catalogs.clear()
            return step()


def list_signatures(store: Store) -> dict[str, Stat]:
    """Return the files of a store with the facts by which a change is seen."""
    if isinstance(store, FileStore):
        return store.signatures()
    files = ((header.file, header.signature) for header in store.scan())
    return {file: (at.inode, at.size, at.mtime_ns, at.ctime_ns) for file, at in files}


def _home_of(scope: Scope) -> Scope:
    """The team's memories lie in a folder of the project's."""
    return Scope.PRIVATE if scope is Scope.TEAM else scope


def _scope_of(store: Store) -> Scope:
    return _home_of(getattr(store, "scope", Scope.PRIVATE))


def _weigh(scored: Sequence[ScoredMemory], query: Query, lives: HalfLives) -> list[tuple[ScoredMemory, float]]:
    """Every candidate with its weak evidence, best first, the newer first of equals."""
    dates = parse_dates(query.text)
    priors = {at.path: _find_prior(at.priors, dates, query.now, lives) for at in scored}
    best = sorted(scored, key=lambda at: (-(at.score + priors[at.path]), at.path))
    linked: dict[str, float] = {}
    for at in best[:5]:
        for link in at.priors.links:
            linked[link] = max(linked.get(link, 0.0), LINKED * at.score)
    if linked:
        for at in best:
            name = at.path.removesuffix(".md")
            priors[at.path] += linked.get(fold_link(name), linked.get(fold_link(name.rpartition("/")[2]), 0.0))
    order = sorted(best, key=lambda at: (-(at.score + priors[at.path]), -at.priors.modified.timestamp(), at.path))
    return [(at, priors[at.path]) for at in order]


def _find_prior(priors: MemoryPriors, dates: list[tuple[int, int, int]], now: datetime, lives: HalfLives) -> float:
    value = DATE * match_date(dates, priors.modified) if dates else 0.0
    fresh = weigh_age(priors.modified, now, find_half_life(priors.kind, lives))
    return value + RECENT * fresh + (PINNED if priors.pinned else 0.0)


def _make_pick(store: Store, at: ScoredMemory, prior: float, by: str) -> Pick | None:
    """A candidate as it is on disk now; None if it is gone."""
    try:
        memory = store.read(at.path.removesuffix(".md"))
    except MemdirError:
        return None
    return Pick(memory.header, at.score + prior, Evidence(at.lexical, at.semantic, prior, at.words), by=by)
