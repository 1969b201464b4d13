"""The local selector: the best memories of one or several stores for a question, or none.

It keeps each store's index fresh by one look at the directory (no second scan), scores candidates, adds weak evidence
(date, pin, recency, links), and stays silent below the floor. It works on any store; on a FileStore it opens only the
handful of files that may be answers.
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
from memdir.recall.index import Catalog, MemoryPriors, Read
from memdir.recall.table import open_words
from memdir.recall.terms import match_date, parse_dates
from memdir.records import Evidence, Header, Memory, Pick, Query, Scope
from memdir.store.contract import Store
from memdir.store.files import FileStore
from memdir.text import fold, fold_link

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory


# --- local ---

DATE = 0.2  # a question that names the day
PINNED, RECENT, LINKED = 0.02, 0.02, 0.05  # weak evidence: it breaks near ties and nothing else
FEW = 5  # below so many that were met, related ones are looked for
SHORTLIST = 5  # how many more than asked for are opened, to be shown by --explain
# A memory that meets no word of the question and has less than this share of the best one's score is a candidate only
# because a small directory is looked at whole. Leaving those out costs no right answer in the public sets, where such
# cases are rare (at most 0.2 % of what is told): the share was chosen by looking at small directories, not fitted.
FAINT = 0.25
BELOW, WORSE, HIDDEN = "below the floor", "others fit better", "the project has a memory of this name"
WEAK = "too weak beside the best"

Answer = TypeVar("Answer")
Drop = Callable[[Store, str], str]  # why this memory may not be taken; empty if it may


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search came to: the picks in order, the store of each, and of those not taken why."""

    picks: tuple[Pick, ...]
    passed_over: tuple[Pick, ...] = ()
    owners: tuple[Store, ...] = ()


def take_all(_: Store, __: str) -> str:
    return ""


class LocalSearch:
    """The open indexes of several stores, the project's first. `on_read` is told how many files were read so far;
    `read_signatures` lists a store's files for whoever need not look at each of them anew."""

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
        self._is_aside = False

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
        """Bring every index up to its files; answers how many files were read."""
        return self._healing(self._refresh_all)

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        """The seam of `recall.Finder`: the picks, then what was passed over with the reason."""
        return self._healing(lambda: self._find(query, limit, drop))

    def _find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        self._refresh_all()
        above: list[frozenset[str]] = []

        def find_reason(store: Store, name: str) -> str:
            if _scope_of(store) is Scope.USER:
                if not above:
                    above.append(self._list_hiding())
                if fold(name) in above[0]:
                    return HIDDEN
            return drop(_scope_of(store), name)

        found = self.search(query, limit, drop=find_reason)
        return (*found.picks, *found.passed_over)

    def select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        """The seam of `records.Selector`: picks among these headers."""
        return self._healing(lambda: self._select(query, headers, limit))

    def _select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        self._refresh_all()
        asked = {(_home_of(header.scope), header.name): header for header in headers}

        def drop(store: Store, name: str) -> str:
            return "" if (_scope_of(store), name) in asked else "not asked for"

        found = self.search(query, limit, drop=drop)
        return [
            replace(pick, header=asked[_scope_of(owner), pick.header.name])
            for pick, owner in zip(found.picks, found.owners, strict=True)
        ]

    def search(self, query: Query, limit: int, *, drop: Drop = take_all) -> SearchResult:
        """The best memories, at most `limit`, and what came close. What is dropped lifts no other over the floor."""
        ranked: list[tuple[Pick, Store]] = []
        dropped: list[Pick] = []
        enough = False
        for number, store in enumerate(self._stores):
            scored = self._score(number, query, drop)
            enough = enough or scored.enough
            best = _weigh(scored.kept, query, self._half_lives)[: limit + SHORTLIST]
            picks = (_make_pick(store, *at, self.name) for at in best)
            ranked += [(pick, store) for pick in picks if pick is not None]
            for at, reason in sorted(scored.dropped, key=lambda at: -at[0].score)[:SHORTLIST]:
                if (pick := _make_pick(store, at, 0.0, self.name)) is not None:
                    dropped.append(replace(pick, dropped=reason))
        ranked.sort(key=lambda at: (-at[0].score, -at[0].header.modified.timestamp(), at[0].header.name))
        dropped.sort(key=lambda pick: -pick.score)
        least = FAINT * ranked[0][0].score if ranked else 0.0
        fitting = [at for at in ranked if not _is_faint(at[0], least)] if enough else []
        faint = [pick for pick, _ in ranked if _is_faint(pick, least)] if enough else []
        taken = fitting[:limit]
        rest = [replace(pick, dropped=WORSE) for pick, _ in fitting[limit:]]
        rest += [replace(pick, dropped=WEAK) for pick in faint]
        rest += [] if enough else [replace(pick, dropped=BELOW) for pick, _ in ranked]
        return SearchResult(tuple(pick for pick, _ in taken), (*rest, *dropped), tuple(store for _, store in taken))

    def _score(self, number: int, query: Query, drop: Drop) -> "_Scored":
        store = self._stores[number]
        if number in self._paths and not self._paths[number]:
            return _Scored([], [], False)
        catalog = self._open(number)
        totals = catalog.read_totals()
        if not totals.docs:
            return _Scored([], [], False)
        asked, postings = rank.prepare_query(catalog, query.text, totals)
        kept: list[rank.ScoredMemory] = []
        dropped: list[tuple[rank.ScoredMemory, str]] = []
        for at in rank.score_all(catalog, asked, postings, totals):
            if reason := drop(store, at.path.removesuffix(".md")):
                dropped.append((at, reason))
            else:
                kept.append(at)
        enough = rank.is_enough(asked, kept)
        if enough and len(kept) < FEW:
            related = rank.find_related(catalog, kept, FEW - len(kept), totals)
            kept += [at for at in related if not drop(store, at.path.removesuffix(".md"))]
        return _Scored(kept, dropped, enough)

    def _list_hiding(self) -> frozenset[str]:
        """Names of the project's own memories, which hide the user's of the same name."""
        own = (at for at, store in enumerate(self._stores) if _scope_of(store) is Scope.PRIVATE)
        return frozenset(fold(path.removesuffix(".md")) for at in own for path in self._paths.get(at, ()))

    def _open(self, number: int) -> Catalog:
        if number not in self._catalogs:
            table = open_words()
            store = self._stores[number]
            path = store.find_index_file() if isinstance(store, FileStore) and not self._is_aside else None
            try:
                self._catalogs[number] = Catalog(path or self._make_path(number), table, semantic=self._semantic)
            except (sqlite3.Error, OSError):
                self._catalogs[number] = Catalog(self._make_path(number), table, semantic=self._semantic)
        return self._catalogs[number]

    def _make_path(self, number: int) -> Path:
        """For a store that has no place for an index: one that lives as long as this search."""
        if self._folder is None:
            # Imported here: nearly every store has a place, and the module takes as long as a whole query.
            from tempfile import TemporaryDirectory

            self._folder = TemporaryDirectory(prefix="memdir-")
        return Path(self._folder.name) / f"{number}.db"

    def _refresh_all(self) -> int:
        return sum(self._refresh(number) for number in range(len(self._stores)))

    def _refresh(self, number: int) -> int:
        store = self._stores[number]
        try:
            self._paths[number] = signatures = self._read_signatures(store)
        except MemdirError:  # it cannot be looked at, so nothing of it can be read either
            self._paths[number] = ()
            return 0
        return self._open(number).refresh(signatures, self._count(_reader(store))) if signatures else 0

    def _count(self, read: Read) -> Read:
        def counted(path: str) -> bytes | None:
            self._reads += 1
            self._on_read(self._reads)
            return read(path)

        return counted

    def _healing(self, step: Callable[[], Answer]) -> Answer:
        """Do it, and once more with another index: made anew if it was broken, aside if others do not let us at it."""
        try:
            return step()
        except sqlite3.DatabaseError as error:
            self._is_aside = isinstance(error, sqlite3.OperationalError)
            for catalog in self._catalogs.values():
                catalog.close() if self._is_aside else catalog.rebuild()
            if self._is_aside:
                self._catalogs.clear()
            return step()


@dataclass(frozen=True, slots=True)
class _Scored:
    kept: list[rank.ScoredMemory]
    dropped: list[tuple[rank.ScoredMemory, str]]
    enough: bool


def list_signatures(store: Store) -> dict[str, Stat]:
    if isinstance(store, FileStore):
        return store.signatures()
    facts = ((header.file, header.signature) for header in store.scan())
    return {file: (at.inode, at.size, at.mtime_ns, at.ctime_ns) for file, at in facts}


def _home_of(scope: Scope) -> Scope:
    """The team's memories lie in a folder of the project's."""
    return Scope.PRIVATE if scope is Scope.TEAM else scope


def _scope_of(store: Store) -> Scope:
    return _home_of(getattr(store, "scope", Scope.PRIVATE))


def _reader(store: Store) -> Read:
    """How the index reads one memory: the bytes where there are files, else the text."""

    def read(path: str) -> bytes | None:
        if isinstance(store, FileStore):
            try:
                return store.read_bytes(path)
            except MemdirError:
                return None
        memory = _read(store, path.removesuffix(".md"))
        return None if memory is None else memory.text.encode("utf-8", "replace")

    return read


def _read(store: Store, name: str) -> Memory | None:
    try:
        return store.read(name)
    except MemdirError:
        return None


def _weigh(
    scored: Sequence[rank.ScoredMemory], query: Query, lives: HalfLives
) -> list[tuple[rank.ScoredMemory, float]]:
    """Every candidate with its weak evidence, best first, ties to the newer."""
    dates = parse_dates(query.text)
    priors = {at.path: _find_prior(at.facts, dates, query.now, lives) for at in scored}
    best = sorted(scored, key=lambda at: (-(at.score + priors[at.path]), at.path))
    linked: dict[str, float] = {}
    for at in best[:5]:
        for link in at.facts.links:
            linked[link] = max(linked.get(link, 0.0), LINKED * at.score)
    if linked:
        for at in best:
            name = at.path.removesuffix(".md")
            priors[at.path] += linked.get(fold_link(name), linked.get(fold_link(name.rpartition("/")[2]), 0.0))
    order = sorted(best, key=lambda at: (-(at.score + priors[at.path]), -at.facts.modified.timestamp(), at.path))
    return [(at, priors[at.path]) for at in order]


def _find_prior(facts: MemoryPriors, dates: list[tuple[int, int, int]], now: datetime, lives: HalfLives) -> float:
    prior = DATE * match_date(dates, facts.modified) if dates else 0.0
    fresh = weigh_age(facts.modified, now, find_half_life(facts.kind, lives))
    return prior + RECENT * fresh + (PINNED if facts.pinned else 0.0)


def _is_faint(pick: Pick, least: float) -> bool:
    return not pick.evidence.lexical and pick.score < least


def _make_pick(store: Store, at: rank.ScoredMemory, prior: float, by: str) -> Pick | None:
    """A candidate as it is on disk now; None if it is gone."""
    memory = _read(store, at.path.removesuffix(".md"))
    if memory is None:
        return None
    return Pick(memory.header, at.score + prior, Evidence(at.lexical, at.semantic, prior, at.words), by=by)
