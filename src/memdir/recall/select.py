"""Select the best memories of one or several stores for a question, without a model.

It updates each store's index with one listing of the directory, scores candidates, adds weak evidence (date, pin,
recency, links), and drops those below the threshold. It works on any store; in a folder it opens only the few files that
may be selected.
"""

import json
import math
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, TypeVar

from memdir.errors import MemdirError
from memdir.files import ChangedListing, Stat
from memdir.format.age import HALF_LIVES, HalfLives, find_half_life, weigh_age
from memdir.format.rules import OWN_SCOPES, choose_rules
from memdir.frozen import dataclass, replace
from memdir.limits import SHOWN
from memdir.recall.index import (
    SATURATION,
    Catalog,
    IndexRow,
    IndexTotals,
    MemoryPriors,
    Vector,
    WordTable,
    open_words,
    pool,
)
from memdir.recall.terms import (
    NAME,
    NUMBER,
    REQUEST,
    STOP,
    is_date_term,
    make_term,
    match_date,
    parse_dates,
    parse_prompt,
    parse_terms,
)
from memdir.recall.triggers import LeadingMemory, PromptRanking
from memdir.records import Evidence, Header, Pick, Query, Scope, When
from memdir.store.contract import Folder, StoreReader
from memdir.text import fold_link

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

LENGTH = 0.5  # BM25's b: how much a long text is penalised for its length
FULL_MATCH = 1.4  # the usual saturated count of a matching word, so that a full match scores about 1
SOFT_START, SOFT_TOP = 0.25, 0.9  # a neighbour's weight: 0 at cosine 0.25, 0.9 at cosine 1
KIN_WORTH, KIN_LETTERS = 0.4, 5  # weight of a word that only begins alike, and the letters it must share
REQUEST_WORTH = 0.4  # words that phrase a request
CANDIDATES, PLAIN_CANDIDATES = 100, 250  # fully scored, with vectors and without; more changed nothing in any set
POSTINGS = 8_000  # max postings of a query; the rest of its words only rescore
_SHOWN = 8  # matched words that are reported
# The parts of a score, and their weights in a search: the matched words of the full memory, of its best passage and of the
# second best, the share of the question that is literally in the best, the number of the question's words in the memory
# and the weight of the heaviest; then the direction of the full memory, of the best passage, of the two best, and of the
# cues (or of title and description). With an encoder three more follow: the cosine with all cues together, with the two
# best cues, and with the full memory.
WORD_PARTS = ("whole", "passage", "second", "coverage", "count", "heaviest")
PARTS = (*WORD_PARTS, "meaning", "meaning_passage", "meaning_two", "meaning_cues")
ENCODED_PARTS = ("sentence_cues", "sentence_best", "sentence_whole")
SEARCH = (0.7, 1.0, 0.0, 0.4, 0.1, 0.0, 0.35, 0.35, 0.0, 0.35)
# The weights that decide whether a memory is shown are learned from developers' prompts (`benchmarks/gate.py`;
# docs/recall.md). There is one file per kind, because a prompt hook needs only one and must be fast.
GATES = {kind: Path(__file__).with_name(f"gate_{kind}.json") for kind in ("semantic", "plain", "encoder")}
# Features of a prompt in addition to its words and its vector; and features of a memory at this prompt.
SIGNS = ("length", "three", "six", "names", "names_count", "asks", "number", "lines")
SHOW = (
    "bias", "long", "second", "uncued", "fit", "margin", "lead", "prompt", "doubt", "unknown", "terms", "weight",
    "one_term", "two_terms",
)  # fmt: skip
SHORT_TERMS, LONG_TERMS = 3, 7  # a prompt with up to this many terms is short, from this many on long
HEAVY = 5.0  # about the weight of a rare word
LEAST_WORDS = 0.1  # min word match for a memory to be shown: a neighbour of a single word is too little
UNTAUGHT = 0.35  # min match of words in languages that the gate does not know; 2 is a full match
LEADERS = 6  # the best memories that a memory is compared with
Matches = dict[str, list[tuple[int, float]]]  # a word of the directory -> numbers of the terms it matches, and weights


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """The weighted terms of a query and their matches. `unknown` are terms that occur in no memory."""

    weights: dict[str, float]
    shares: dict[str, float]
    unknown: float
    matches: Matches
    vector: Vector | None


@dataclass(frozen=True, slots=True)
class ScoredMemory:
    """A memory with the parts of its score, its matched words, and its priors."""

    path: str
    parts: tuple[float, ...]
    lexical: float
    semantic: float
    words: tuple[str, ...]
    priors: MemoryPriors

    @property
    def score(self) -> float:
        return self.lexical + self.semantic


@dataclass(frozen=True, slots=True)
class Gate:
    """The learned weights that decide whether a prompt needs memories, and which of them to show."""

    bias: float
    words: Mapping[str, float]
    signs: tuple[float, ...]
    vector: tuple[float, ...]
    fit: tuple[float, ...]
    show: tuple[float, ...]


DATE = 0.2  # a question that names the day
PINNED, RECENT, LINKED = 0.02, 0.02, 0.05  # weak evidence, which only breaks near ties
LEADING = 16  # best memories of a prompt that count at the actions of its turn
LEADING_TERMS, LEADING_WORDS = 100, 32  # terms of such a memory that are read, and the rarest that are kept
LEADING_WEIGHT = 0.1  # min weight of a word; more common words say nothing
SHORTLIST = 5  # candidates above the limit that are opened for --explain
# A memory that matches no word of the question and has less than this share of the best score is a candidate only because
# all memories of a small directory are scored. Dropping those costs no right answer in the public sets, where such cases
# are rare (at most 0.2 % of what is shown): the share was chosen by looking at small directories, not fitted.
FAINT = 0.25
# Many prompts need a memory only at a later edit. A memory with paths or content in `when` waits for it, unless its
# confidence is at least this, or the prompt is a question, which may lead to no edit. A memory with commands does not
# wait, because a command cannot be undone, and hosts show memories only with its result.
WAITING = 1.0
SHORT_WORDS, MOST_DOUBT = 6, 2.0  # "commit and push" says little about its work; the highest doubt
# Why a candidate was dropped.
BELOW, WORSE, HIDDEN = "not sure enough to be shown", "others fit better", "the project has a memory of this name"
WAITS = "it waits for the action that it is about; the prompt alone is not sure enough"
WEAK = "too weak compared with the best"
STANDING = "a standing rule, which the conversation has from its start"
ENCODER = "encoder"
T = TypeVar("T")
Encode = Callable[[str], Sequence[float]]  # a question -> its direction
Compare = Callable[[StoreReader, str], Mapping[str, Sequence[float]]]  # a store and a question -> ENCODED_PARTS by path
Drop = Callable[[StoreReader, str], str]  # why this memory cannot be selected, or ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The selected candidates with their stores, and the next best candidates with the reasons for dropping them."""

    picks: tuple[Pick, ...]
    passed_over: tuple[Pick, ...] = ()
    owners: tuple[StoreReader, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreScores:
    query: PreparedQuery | None
    kept: list[ScoredMemory]
    dropped: list[tuple[ScoredMemory, str]]


class LocalSearch:
    """Search several stores, with the project's store first.

    `on_read` is called with the number of files read so far. With `trusts`, not every file of a large directory is checked:
    files that were overwritten in place are ranked by their old text until the next `refresh`.
    """

    def __init__(
        self,
        stores: Sequence[StoreReader],
        *,
        semantic: bool = True,
        half_lives: HalfLives = HALF_LIVES,
        on_read: Callable[[int], None] = lambda count: None,
        trusts: bool = False,
    ) -> None:
        self._encode: Encode | None = None
        self._compare: Compare | None = None
        self._stores = tuple(stores)
        self._folders = tuple(store if isinstance(store, Folder) else None for store in self._stores)
        self._trusts = trusts
        self._half_lives = half_lives
        self._semantic = semantic
        self._on_read = on_read
        self._reads = 0
        self._catalogs: dict[int, Catalog] = {}
        self._leading: list[tuple[float, int, str]] = []  # scores, stores and paths of the best of the last search
        self._weight = 0.0  # what `weigh_prompt` returned for the last prompt
        self._empty: set[int] = set()  # stores without a memory, for which no index is made
        self._folder: TemporaryDirectory[str] | None = None
        self._is_aside = False  # whether to use temporary indexes, because the stores' indexes cannot be used

    @property
    def name(self) -> str:
        return ENCODER if self._compare else "local" if self._semantic else "local-lexical"

    def use_encoder(self, encode: Encode, compare: Compare) -> None:
        """Also select with a sentence encoder, except for queries that are `wide`."""
        self._encode, self._compare = encode, compare

    def close(self) -> None:
        for catalog in self._catalogs.values():
            catalog.close()
        self._catalogs.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(self) -> int:
        """Update all indexes and return the number of files read."""
        return self._retry(lambda: sum(self._refresh(number) for number in range(len(self._stores))))

    def refresh_files(self, paths: Iterable[Path]) -> int:
        """Update the index for these files. Small directories do not need it: each search updates them."""
        real = [os.path.realpath(path) for path in paths]
        return self._retry(lambda: sum(self._refresh_files(number, real) for number in range(len(self._stores))))

    def read_links(self) -> list[dict[str, frozenset[str]]]:
        """Return, for each store, the link targets of each memory with links."""

        def read() -> list[dict[str, frozenset[str]]]:
            self._refresh_all()
            return [self._open(number).read_links() for number in range(len(self._stores))]

        return self._retry(read)

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        """Return the selected candidates, then the dropped ones with the reasons. Implements `pipeline.StoreFinder`."""
        return self._retry(lambda: self._find(query, limit, drop))

    def select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        """Select among these headers. Implements `records.Selector`."""
        return self._retry(lambda: self._select(query, headers, limit))

    def search(self, query: Query, limit: int, *, drop: Drop = lambda store, name: "") -> SearchResult:
        """Return up to `limit` memories and the next best. Unless `wide`, all must be above the threshold."""
        table = open_words()
        # The gate was trained in English: at other prompts only common words count.
        is_taught = table is None or not query.text or knows_words(table, query.text)
        kind = ENCODER if self._compare else "semantic" if self._semantic and table is not None else "plain"
        gate = None if query.wide or not is_taught else read_gate(kind)
        limit = limit if query.wide else min(limit, SHOWN)
        ranked: list[tuple[Pick, StoreReader, PreparedQuery]] = []
        dropped: list[Pick] = []
        leading: list[tuple[float, int, str]] = []
        for number, store in enumerate(self._stores):
            for _ in range(2 if self._trusts else 1):  # again if a file differs from its index row
                scores = self._score(number, query, drop, SEARCH if gate is None else gate.fit)
                best = _rank(scores.kept, query, self._half_lives)[: max(limit, LEADERS) + SHORTLIST]
                picks = _make_picks(store, best, self.name)
                headers = {pick.header.file: pick.header for pick in picks}
                if not (self._trusts and picks and self._reindex_files(number, headers)):
                    break
            ranked += [(pick, store, scores.query) for pick in picks if scores.query is not None]
            every = [*scores.kept, *(memory for memory, _ in scores.dropped)]
            leading += [(memory.score, number, memory.path) for memory in every]
            left = sorted(scores.dropped, key=lambda row: -row[0].score)[:SHORTLIST]
            reasons = {memory.path: reason for memory, reason in left}
            for pick in _make_picks(store, [(memory, 0.0) for memory, _ in left], self.name):
                dropped.append(replace(pick, dropped=reasons[pick.header.file]))
        ranked.sort(key=lambda row: (-row[0].score, -row[0].header.modified.timestamp(), row[0].header.name))
        dropped.sort(key=lambda pick: -pick.score)
        self._leading = sorted(leading, key=lambda row: -row[0])[:LEADING]
        selected: list[tuple[Pick, StoreReader]] = []
        worse, weak = list[Pick](), list[Pick]()
        # The gate was trained without priors, which only break near ties.
        fits = [pick.score - (pick.evidence.prior if gate is not None else 0.0) for pick, _, _ in ranked]
        direction = self._encode(query.text) if self._encode and gate is not None else None
        prompt = self._weight = weigh_prompt(gate, query.text, direction) if gate is not None and ranked else 0.0
        may_wait = query.acts and "?" not in query.text
        for number, (pick, store, prepared) in enumerate(ranked):
            if gate is None:
                is_near = bool(number) and fits[number] >= FAINT * fits[0]
                is_met = pick.evidence.lexical > (0.0 if query.wide else UNTAUGHT)
                reason = "" if is_met or (is_near and query.wide) else WEAK
            else:
                sure = _dot(gate.show, measure_showing(fits, number, bool(pick.header.cues), prompt, prepared))
                pick = replace(pick, evidence=replace(pick.evidence, sure=sure))
                has_words = self._compare is not None or pick.evidence.lexical > LEAST_WORDS
                reason = "" if sure > 0 and has_words else BELOW
                if not reason and sure < WAITING and may_wait and _can_wait(pick.header.when):
                    reason = WAITS
            if reason:
                weak.append(replace(pick, dropped=reason))
            elif len(selected) < limit:
                selected.append((pick, store))
            else:
                worse.append(replace(pick, dropped=WORSE))
        owners = tuple(store for _, store in selected)
        return SearchResult(tuple(pick for pick, _ in selected), (*worse, *weak, *dropped), owners)

    def find_ranking(self, text: str) -> PromptRanking:
        """Return the best memories of the last search, shown or not, with their rarest words, and the doubt.

        Words of `text` are left out, because at an action they would be no new evidence. Memories of other directories
        get no words, because a purge there does not find the files of conversations here.
        """
        used = frozenset(parse_terms(text))
        words: dict[tuple[int, str], dict[str, float]] = {}
        for number in {number for _, number, _ in self._leading if self._stores[number].scope is Scope.PRIVATE}:
            catalog = self._open(number)
            table, totals = catalog.table, catalog.read_totals()
            rows = catalog.read_rows(catalog.find_docs([path for _, store, path in self._leading if store == number]))
            terms = {row.path: list(dict.fromkeys(row.passages.split()))[:LEADING_TERMS] for row in rows}
            known = catalog.find_terms(list({term for some in terms.values() for term in some} - used))
            scale = math.log1p(totals.docs)
            weights = {
                term: round(totals.idf(df) / scale * (table.rarity(term) if table else 1.0), 2)
                for term, (_, df) in known.items()
                if len(term) > 2 and not term.isdigit()
            }
            for path, own in terms.items():
                rarest = sorted(
                    (term for term in own if weights.get(term, 0.0) >= LEADING_WEIGHT), key=lambda term: -weights[term]
                )
                words[number, path] = {term: weights[term] for term in rarest[:LEADING_WORDS]}
        leaders = [
            LeadingMemory(
                _find_store_scope(self._stores[number].scope), path.removesuffix(".md"), words.get((number, path), {})
            )
            for _, number, path in self._leading
        ]
        doubt = 0.0 if is_short(text) else min(max(0.0, -self._weight), MOST_DOUBT)
        return PromptRanking(leaders=tuple(leaders), doubt=doubt)

    def _find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        self._refresh_all()
        own = [number for number, store in enumerate(self._stores) if _find_store_scope(store.scope) is Scope.PRIVATE]
        own = [number for number in own if number not in self._empty]

        def find_reason(store: StoreReader, name: str) -> str:
            scope = _find_store_scope(store.scope)
            is_hidden = scope is Scope.USER and any(self._open(number).has_name(name) for number in own)
            return HIDDEN if is_hidden else drop(scope, name)

        result = self.search(query, limit, drop=find_reason)
        if not query.skips_rules:
            return (*result.picks, *result.passed_over)
        # Rules are dropped after ranking, so that the other memories must also fit well compared with them.
        rules, picks = set(self._find_rules()), list[Pick]()
        for pick, owner in zip(result.picks, result.owners, strict=True):
            is_rule = (_find_store_scope(owner.scope), pick.header.name) in rules
            picks.append(replace(pick, dropped=STANDING) if is_rule else pick)
        return (*sorted(picks, key=lambda pick: bool(pick.dropped)), *result.passed_over)

    def list_rules(self) -> tuple[Header, ...]:
        """Return the standing rules, best first."""

        def read() -> list[tuple[Scope, str]]:
            self._refresh_all()
            return self._find_rules()

        stores = {_find_store_scope(store.scope): store for store in self._stores}
        pairs = [(stores[scope], name) for scope, name in self._retry(read)]
        stored = {id(store): store.read_many([name for owner, name in pairs if owner is store]) for store, _ in pairs}
        return tuple(stored[id(store)][name].header for store, name in pairs if name in stored[id(store)])

    def _find_rules(self) -> list[tuple[Scope, str]]:
        """Return the scopes and names of the standing rules, best first."""
        stores = [(number, store.scope) for number, store in enumerate(self._stores) if number not in self._empty]
        rows = [
            (*row[:3], (_find_store_scope(scope), row[3].removesuffix(".md")))
            for number, scope in stores
            if scope in OWN_SCOPES
            for row in self._open(number).read_rules()
        ]
        return choose_rules(rows)

    def _select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        self._refresh_all()
        headers_by_key = {(_find_store_scope(header.scope), header.name): header for header in headers}

        def drop(store: StoreReader, name: str) -> str:
            return "" if (_find_store_scope(store.scope), name) in headers_by_key else "not asked for"

        result = self.search(query, limit, drop=drop)
        return [
            replace(pick, header=headers_by_key[_find_store_scope(owner.scope), pick.header.name])
            for pick, owner in zip(result.picks, result.owners, strict=True)
        ]

    def _score(self, number: int, query: Query, drop: Drop, worth: Sequence[float]) -> StoreScores:
        store = self._stores[number]
        if number in self._empty:
            return StoreScores(None, [], [])
        catalog = self._open(number)
        totals = catalog.read_totals()
        if not totals.docs:
            return StoreScores(None, [], [])
        prepared, postings = prepare_query(catalog, query.text, totals)
        accepted: list[ScoredMemory] = []
        dropped: list[tuple[ScoredMemory, str]] = []
        encoded = self._compare(store, query.text) if self._compare and len(worth) > len(PARTS) else {}
        for memory in score_all(catalog, prepared, postings, totals, worth, encoded):
            if reason := drop(store, memory.path.removesuffix(".md")):
                dropped.append((memory, reason))
            else:
                accepted.append(memory)
        return StoreScores(prepared, accepted, dropped)

    def _open(self, number: int) -> Catalog:
        if number not in self._catalogs:
            folder, is_shared = self._folders[number], self._stores[number].scope is Scope.PROJECT
            open_catalog = partial(Catalog, table=open_words(), semantic=self._semantic, shared=is_shared)
            path = folder.find_index_file() if folder is not None and not self._is_aside else None
            try:
                self._catalogs[number] = open_catalog(path or self._make_path(number))
            except (sqlite3.Error, OSError):
                self._catalogs[number] = open_catalog(self._make_path(number))
        return self._catalogs[number]

    def _make_path(self, number: int) -> Path:
        """Return the path of a temporary index, for a store that cannot have its own."""
        if self._folder is None:
            # Imported here, because the module takes as long to load as a query, and few stores need it.
            from tempfile import TemporaryDirectory

            self._folder = TemporaryDirectory(prefix="memdir-")
        return Path(self._folder.name) / f"{number}.db"

    def _refresh_all(self) -> None:
        for number in range(len(self._stores)):
            if not (self._trusts and self._refresh_changed(number)):
                self._refresh(number)

    def _refresh(self, number: int) -> int:
        store, marks = self._stores[number], dict[str, Stat]()
        self._empty.discard(number)
        try:
            signatures = store.list_signatures(marks)
        except MemdirError:  # a directory that cannot be listed cannot be read either
            signatures = {}
        if not signatures:
            self._empty.add(number)
            return 0
        return self._open(number).refresh(signatures, partial(self._read, store), marks)

    def _refresh_changed(self, number: int) -> bool:
        """Update the index from the folders that changed. Returns False if all files must be listed."""
        store, folder = self._stores[number], self._folders[number]
        if folder is None or not ((path := folder.find_index_file()) and path.exists()):
            return False
        catalog = self._open(number)
        if not (marks := catalog.read_marks()):
            return False
        changed = folder.find_changed(marks, catalog.read_inodes)
        if changed.marks != marks:
            catalog.update(changed, partial(self._read, store))
        return True

    def _refresh_files(self, number: int, paths: Sequence[str]) -> int:
        folder = self._folders[number]
        if folder is None or not ((index := folder.find_index_file()) and index.exists()):
            return 0
        root = os.path.join(os.path.realpath(folder.root), "")
        below = [path.removeprefix(root) for path in paths if path.startswith(root)]
        return self._reindex_stale(number, folder.read_signatures(below)) if below else 0

    def _reindex_files(self, number: int, read: Mapping[str, Header]) -> int:
        """Index the files that differ from their signature in the index."""
        facts = {file: header.signature for file, header in read.items()}
        now = {file: (stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns) for file, stat in facts.items()}
        return self._reindex_stale(number, now) if self._folders[number] is not None else 0

    def _reindex_stale(self, number: int, now: Mapping[str, Stat]) -> int:
        catalog, store = self._open(number), self._stores[number]
        if not (stale := catalog.find_stale(now)):
            return 0
        return catalog.update(ChangedListing(stale, (), catalog.read_marks()), partial(self._read, store))

    def _read(self, store: StoreReader, path: str) -> bytes | None:
        self._reads += 1
        self._on_read(self._reads)
        try:
            return store.read_bytes(path)
        except MemdirError:
            return None

    def _retry(self, step: Callable[[], T]) -> T:
        """Run a step. If an index fails, replace it by a new or temporary index and try again."""
        try:
            return step()
        except sqlite3.DatabaseError as error:
            self._is_aside = isinstance(error, sqlite3.OperationalError)
            for catalog in self._catalogs.values():
                catalog.close() if self._is_aside else catalog.rebuild()
            if self._is_aside:
                self._catalogs.clear()
            return step()


def _find_store_scope(scope: Scope) -> Scope:
    """Return the scope of the store that contains memories of this scope. Team memories are in the project's store."""
    return Scope.PRIVATE if scope is Scope.TEAM else scope


def _rank(scored: Sequence[ScoredMemory], query: Query, lives: HalfLives) -> list[tuple[ScoredMemory, float]]:
    """Return the candidates with their priors, best first. Newer memories win ties."""
    dates = parse_dates(query.text)
    priors = {}
    for memory in scored:
        fresh = weigh_age(memory.priors.modified, query.now, find_half_life(memory.priors.kind, lives))
        dated = DATE * match_date(dates, memory.priors.modified) if dates else 0.0
        priors[memory.path] = dated + RECENT * fresh + (PINNED if memory.priors.pinned else 0.0)
    best = sorted(scored, key=lambda memory: (-(memory.score + priors[memory.path]), memory.path))
    linked: dict[str, float] = {}
    for memory in best[:5]:
        for link in memory.priors.links:
            linked[link] = max(linked.get(link, 0.0), LINKED * memory.score)
    if linked:
        for memory in best:
            name = memory.path.removesuffix(".md")
            priors[memory.path] += linked.get(fold_link(name), linked.get(fold_link(name.rpartition("/")[2]), 0.0))
    rows = [(memory, priors[memory.path]) for memory in best]
    return sorted(rows, key=lambda row: (-(row[0].score + row[1]), -row[0].priors.modified.timestamp(), row[0].path))


def _make_picks(store: StoreReader, scored: Sequence[tuple[ScoredMemory, float]], by: str) -> list[Pick]:
    """Return the candidates with their headers. Deleted memories are skipped."""
    stored = store.read_many([memory.path.removesuffix(".md") for memory, _ in scored])
    picks = []
    for memory, prior in scored:
        if (current := stored.get(memory.path.removesuffix(".md"))) is not None:
            evidence = Evidence(memory.lexical, memory.semantic, prior, memory.words)
            picks.append(Pick(current.header, memory.score + prior, evidence, by=by))
    return picks


# --- scores ----------------------------------------------------------------------------------------------------------
# A query word can match itself, a word of the directory with the same beginning, or one of its neighbours in the word
# table, which counts less the farther it is. A memory is scored by its full text and by its best passage, by words and by
# the direction of its vectors. All parts are on an absolute scale: no score depends on the other candidates, so a
# threshold means the same in every directory.


def prepare_query(catalog: Catalog, text: str, totals: IndexTotals) -> tuple[PreparedQuery, dict[int, float]]:
    """Return the weights of a query in one directory, and the postings to read, heaviest first."""
    table = catalog.table
    terms = list(dict.fromkeys(parse_terms(text)))
    soft = {term: _find_similar(catalog, table if catalog.semantic else None, term) for term in terms}
    known = catalog.find_terms(list(dict.fromkeys(word for words in soft.values() for word in words)))
    worth = {term: REQUEST_WORTH if term in REQUEST else 1.0 for term in terms}
    idf = {term: totals.idf(known.get(term, (0, 0))[1]) for term in terms}
    weights = {term: idf[term] * (table.rarity(term) if table else 1.0) * worth[term] for term in terms}
    matches: Matches = {}
    postings: list[tuple[float, int, int]] = []
    for number, term in enumerate(terms):
        for word, similarity in soft[term].items():
            if word in known:
                matches.setdefault(word, []).append((number, similarity))
                postings.append((similarity * weights[term], *known[word]))
    vector = None
    if table is not None and catalog.semantic:
        vector = pool(table, [(term, math.sqrt(idf[term]) * worth[term]) for term in terms])
    topical = {term: weight for term, weight in weights.items() if term in known or not is_date_term(term)}
    total = sum(topical.values()) or 1.0
    shares = {term: weight / total for term, weight in topical.items()}
    unknown = sum(share for term, share in shares.items() if term not in known)
    return PreparedQuery(weights, shares, unknown, matches, vector), _choose_postings(postings)


def score_all(
    catalog: Catalog,
    query: PreparedQuery,
    postings: Mapping[int, float],
    totals: IndexTotals,
    worth: Sequence[float] = SEARCH,
    encoded: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> list[ScoredMemory]:
    """Return the scored candidates. In a large directory, only matches and the best `encoded` memories are scored."""
    limit = PLAIN_CANDIDATES if query.vector is None else CANDIDATES
    is_small = totals.docs <= limit and query.vector is not None
    docs = None if is_small else catalog.find_candidates(postings, limit)
    if docs is not None and encoded:
        best = sorted(encoded, key=lambda path: -sum(encoded[path]))[:limit]
        docs = list({*docs, *catalog.find_docs(best)})
    if docs is not None and not docs:
        return []
    scorer = _Scorer(query, totals, catalog.table, worth, encoded)
    scored = map(scorer.score, catalog.read_rows(docs))
    return [memory for memory in scored if memory.score > 0]


# --- the gate: decide whether to show a memory at a prompt -----------------------------------------------------------


@cache
def read_gate(kind: str) -> Gate:
    """Return the weights for `semantic`, `plain` (only words) or `encoder`."""
    table = json.loads(GATES[kind].read_text(encoding="utf-8"))
    lists = {name: tuple(table[name]) for name in ("signs", "vector", "fit", "show")}
    return Gate(table["bias"], table["words"], **lists)


def weigh_prompt(gate: Gate, text: str, direction: Sequence[float] | None = None) -> float:
    """Return how likely a prompt needs memories. `direction` is the prompt's vector from an encoder."""
    words, signs, pooled = measure_prompt(text, open_words() if gate.vector and direction is None else None)
    known = sum([gate.words[word] for word in words if word in gate.words])
    value = gate.bias + known + _dot(gate.signs, signs)
    turned = pooled if direction is None else direction
    is_own = len(turned) == len(gate.vector)  # the direction from another encoder is useless
    return value + (_dot(gate.vector, turned) if is_own else 0.0)


def measure_prompt(text: str, table: WordTable | None) -> tuple[set[str], tuple[float, ...], tuple[float, ...]]:
    """Return the words, signs and vector of a prompt."""
    words = parse_prompt(text)
    count, names = len(words), words.count(NAME)
    signs = (
        math.log1p(count), count <= 3, count <= 6, names > 0, math.log1p(names), "?" in words, NUMBER in words,
        "\n" in text.strip(),
    )  # fmt: skip
    terms = dict.fromkeys(parse_terms(text))
    vector = table and pool(table, [(term, REQUEST_WORTH if term in REQUEST else 1.0) for term in terms])
    direction = (
        tuple((value - 128) / vector[1] for value in vector[0]) if vector else (0.0,) * (table.dim if table else 0)
    )
    starts = {f"^{' '.join(words[:size])}" for size in (1, 2) if count >= size}
    return {*words, *starts}, tuple(map(float, signs)), direction


def _can_wait(when: When) -> bool:
    return bool(when.paths or when.content) and not when.commands


def is_short(text: str) -> bool:
    return len(parse_prompt(text)) <= SHORT_WORDS


def knows_words(table: WordTable, text: str) -> bool:
    """Return whether the word table contains most words of a text. It contains only English words."""
    terms = [make_term(word) for word in parse_prompt(text) if word[0].isalpha()]
    return not terms or 2 * sum(term in STOP or table.find(term) is not None for term in terms) > len(terms)


def measure_showing(
    fits: Sequence[float], number: int, has_cues: bool, prompt: float, query: PreparedQuery
) -> tuple[float, ...]:
    """Return the features that decide whether to show memory `number`. `fits` are in order, best first."""
    fit, best, terms = fits[number], fits[:LEADERS], len(query.weights)
    other = best[1] if not number and len(best) > 1 else best[0] if number else 0.0
    long = (terms - SHORT_TERMS) / (LONG_TERMS - SHORT_TERMS)
    crowd = 0.0 if has_cues else min(len(fits) / (LEADERS + SHORTLIST), 1.0)  # among many, a title says too little
    return (
        1.0, min(max(long, 0.0), 1.0), float(number > 0), crowd, fit, fit - other, fit - sum(best) / len(best), prompt, min(prompt, 0.0), query.unknown, math.log1p(terms),
        math.log1p(sum(query.weights.values())), float(terms <= 1), float(terms <= 2),
    )  # fmt: skip


def _dot(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum([weight * value for weight, value in zip(weights, values, strict=True)])


def _find_similar(catalog: Catalog, table: WordTable | None, term: str) -> dict[str, float]:
    """Return similar words that may replace a term, with their weights."""
    words = {term: 1.0}
    if len(term) >= KIN_LETTERS and term.isascii():
        stem = term[: max(KIN_LETTERS, len(term) - 3)]
        words |= {word: KIN_WORTH for word in catalog.find_kin(stem, len(term) + 4) if word != term}
    for word, near in table.near(term) if table else ():
        worth = SOFT_TOP * (near - SOFT_START) / (1 - SOFT_START)
        if worth > words.get(word, 0.0):
            words[word] = worth
    return words


def _choose_postings(postings: Iterable[tuple[float, int, int]]) -> dict[int, float]:
    """Return the heaviest terms whose postings fit the budget, but at least one."""
    best: dict[int, float] = {}
    room = POSTINGS
    for weight, term, df in sorted(postings, reverse=True):
        if term not in best and (df <= room or not best):
            best[term] = weight
            room -= df
    return best


class _Scorer:
    """Score the candidates of a query."""

    def __init__(
        self,
        query: PreparedQuery,
        totals: IndexTotals,
        table: WordTable | None,
        part_worth: Sequence[float],
        encoded: Mapping[str, Sequence[float]],
    ) -> None:
        self._part_worth, self._encoded = part_worth, encoded
        self._no_parts = (0.0,) * (len(part_worth) - len(PARTS))
        total = sum(query.weights.values()) or 1.0
        shares = [weight / total for weight in query.weights.values()]
        matches = query.matches.items()
        bend = SATURATION * LENGTH / (totals.length or 1)
        self._gains = {word: [(term, worth * shares[term]) for term, worth in gains] for word, gains in matches}
        self._worth = {word: max(worth for _, worth in gains) for word, gains in matches}
        self._exact, self._weights = query.shares, query.weights
        self._point = None if query.vector is None else (tuple(query.vector[0]), query.vector[1])
        self._flat = SATURATION * (1 - LENGTH)
        self._a_word, self._a_passage_word = bend * totals.docs, bend * totals.passages
        self._layout = f"<{table.dim if table else 0}sf"  # of a packed vector

    def score(self, row: IndexRow) -> ScoredMemory:
        gains = self._gains
        matched: list[str] = []
        best_hits: list[str] = []
        best = second = 0.0
        for passage in row.passages.split("\n"):
            words = passage.split(" ")
            hits = [word for word in words if word in gains]
            if hits:
                matched += hits
                value = self._match(hits, self._flat + self._a_passage_word * len(words))
                if value > best:
                    best, second, best_hits = value, best, hits
                else:
                    second = max(second, value)
        whole = self._match(matched, self._flat + self._a_word * row.length) if matched else 0.0
        heads = meaning = meaning_passage = meaning_two = 0.0
        if self._point is not None and row.vectors:
            heads, meaning, *rest = _compare(self._point, row.vectors, self._layout)
            meaning_passage, other = sorted(rest)[:-3:-1] if rest else (meaning, meaning)
            meaning_two = (meaning_passage + other) / 2
        coverage = sum([self._exact[word] for word in set(best_hits) if word in self._exact])
        same = [self._weights[word] for word in set(matched) if word in self._weights]
        top_words = tuple(sorted(dict.fromkeys(matched), key=self._worth.__getitem__, reverse=True)[:_SHOWN])
        encoded = self._encoded.get(row.path, self._no_parts)
        parts = (
            whole / FULL_MATCH, best / FULL_MATCH, second / FULL_MATCH, coverage, math.log1p(len(same)),
            max(same, default=0.0) / HEAVY, meaning, meaning_passage, meaning_two, heads, *encoded,
        )  # fmt: skip
        values, first = [worth * part for worth, part in zip(self._part_worth, parts, strict=True)], len(WORD_PARTS)
        return ScoredMemory(row.path, parts, sum(values[:first]), sum(values[first:]), top_words, row.priors)

    def _match(self, hits: list[str], damping: float) -> float:
        """Return the sum of each term's best match in these words. Repetitions of a word count less and less."""
        best: dict[int, float] = {}
        distinct = dict.fromkeys(hits)
        is_plain = len(distinct) == len(hits)  # the usual case, and the faster: every word once
        for word in distinct:
            count = 1 if is_plain else hits.count(word)
            saturated = count * (SATURATION + 1) / (count + damping)
            for number, value in self._gains[word]:
                if value * saturated > best.get(number, 0.0):
                    best[number] = value * saturated
        return sum(best.values())


def _compare(query: tuple[tuple[int, ...], float], data: bytes, layout: str) -> list[float]:
    """Return the cosines of a query with several packed vectors."""
    point, length = query
    square, double = length * length, 2 * length
    # |q - d|² = |q|² + |d|² - 2 q·d, and adding 128 to both does not change the distance.
    return [
        (square + other * other - math.dist(point, values) ** 2) / (double * other) if other else 0.0
        for values, other in struct.iter_unpack(layout, data)
    ]
