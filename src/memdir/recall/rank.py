"""From a question to scored memories: candidates, their scores in parts, and the threshold below which none is shown.

A query word can be matched by itself, by a word of the directory that begins alike, or by one of its neighbours in the
word table, which counts less the farther it is. A memory is scored as a whole and by its best passage, by words and by
the direction of its vectors. All parts are on an absolute scale: no score depends on the other candidates, so a
threshold means the same in every directory.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from memdir.frozen import dataclass
from memdir.recall.index import SATURATION, Catalog, IndexRow, IndexTotals, MemoryPriors
from memdir.recall.table import Vector, WordTable, compare, pool
from memdir.recall.terms import REQUEST, asks_advice, is_date_term, parse_names, parse_terms

LENGTH = 0.5  # BM25's b: how much a long text is penalised for its length
FULL_MATCH = 1.4  # the usual saturated count of a matching word, so that a full match scores about 1
SOFT_START, SOFT_TOP = 0.25, 0.9  # a neighbour at cosine .25 counts nothing, one at 1 counts .9
KIN_WORTH, KIN_LETTERS = 0.4, 5  # a word that only begins alike, and how long the beginning must be
REQUEST_WORTH = 0.4  # words that phrase a request
WHOLE, PASSAGE = 1.0, 1.0  # lexical weights
MEANING_WHOLE, MEANING_PASSAGE = 0.5, 0.5  # vector weights
CANDIDATES, PLAIN_CANDIDATES = 100, 250  # scored in full, with vectors and without; more changed nothing in any set
RELATED = 0.5  # the best related memory scores half of the weakest that matched
POSTINGS = 8_000  # how many postings a query may touch; the rest of its words only rescore
_SHOWN = 8  # matched words that are reported

# What speaks for and against showing the best candidates; none of it depends on the size of the directory.
#     strangers  the question has names, and the directory knows none of them; not in a question for advice, where a name
#                is a place to go to as often as not
#     known      it has a name that the directory knows
#     together   of the weight of its words that the directory knows, the share that stands in one passage
#     passage    how well the best passage matches, neighbours included; as a logarithm
#     meaning    how close the best memory's vector is to the question's
#     advice     it asks for advice: then what is known of a person counts, and shares few words with the question
SIGNS = ("strangers", "known", "together", "passage", "meaning", "advice")
# Weights and threshold with the word table, and by words alone. They were fitted on every second group of the public
# sets and checked on the others (`benchmarks/abstain.py`; docs/benchmarks.md has the curve).
WEIGHTS, LEVEL = (-3.0, 1.2, 1.4, 2.4, 4.3, 2.1), -2.5
PLAIN_WEIGHTS, PLAIN_LEVEL = (-3.0, 1.1, 1.2, 2.6, 0.0, 2.1), -5.8
_LEAST = 0.02  # the passage score of a question that matched nothing: its logarithm must be a number

Matches = dict[
    str, list[tuple[int, float]]
]  # a word of the directory -> the numbers of the terms it matches, and worth


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A question made ready: its terms with their weights, and the words of the directory that match them.

    `shares` are the terms that say what it is about, each with its part of the whole: a date that no memory mentions
    says nothing. `unknown` is the part of those that no memory has.
    """

    weights: dict[str, float]
    shares: dict[str, float]
    unknown: float
    matches: Matches
    vector: Vector | None
    names: tuple[str, ...]
    names_known: int
    asks_advice: bool


@dataclass(frozen=True, slots=True)
class ScoredMemory:
    """One memory's parts. `coverage` is the share of the question's weight that its best passage has word for word."""

    path: str
    whole: float
    passage: float
    meaning_whole: float
    meaning_passage: float
    coverage: float
    words: tuple[str, ...]
    priors: MemoryPriors

    @property
    def score(self) -> float:
        return self.lexical + self.semantic

    @property
    def lexical(self) -> float:
        return WHOLE * self.whole + PASSAGE * self.passage

    @property
    def semantic(self) -> float:
        return MEANING_WHOLE * self.meaning_whole + MEANING_PASSAGE * self.meaning_passage


def prepare_query(catalog: Catalog, text: str, totals: IndexTotals) -> tuple[PreparedQuery, dict[int, float]]:
    """Prepare a question for one directory: its weights, and the postings to look at, heaviest first."""
    table = catalog.table
    terms = list(dict.fromkeys(parse_terms(text)))
    soft = {term: _soften(catalog, table if catalog.semantic else None, term) for term in terms}
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
    names = tuple(parse_names(text))
    names_known = sum(name in known for name in names)
    query = PreparedQuery(weights, shares, unknown, matches, vector, names, names_known, asks_advice(text))
    return query, _choose_postings(postings)


def score_all(
    catalog: Catalog, query: PreparedQuery, postings: Mapping[int, float], totals: IndexTotals
) -> list[ScoredMemory]:
    """Return every candidate with its parts, in no order. All of a small directory is scored, for its meaning."""
    limit = PLAIN_CANDIDATES if query.vector is None else CANDIDATES
    is_small = totals.docs <= limit and query.vector is not None
    docs = None if is_small else catalog.find_candidates(postings, limit)
    if docs is not None and not docs:
        return []
    scorer = _Scorer(query, totals, catalog.table)
    scored = map(scorer.score, catalog.read_rows(docs))
    return [at for at in scored if at.score > 0]


def find_related(
    catalog: Catalog, scored: Sequence[ScoredMemory], limit: int, totals: IndexTotals
) -> list[ScoredMemory]:
    """When too few memories match a question: others that share rare words with those, ranked below them."""
    lowest = min(at.score for at in scored)
    matched = {at.path for at in scored}
    weights: dict[str, float] = {}
    for row in catalog.read_rows(catalog.find_docs(list(matched))):
        value = next(at.score for at in scored if at.path == row.path)
        for word in set(row.passages.split()):
            weights[word] = weights.get(word, 0.0) + value
    known = catalog.find_terms(list(weights))
    rare = [(weights[word] * totals.idf(df), term, df) for word, (term, df) in known.items() if df * 4 <= totals.docs]
    related = catalog.read_rows(catalog.find_candidates(_choose_postings(rare), limit + len(matched)))
    fresh = [row for row in related if row.path not in matched][:limit]
    shared = [sum(weights[word] for word in set(row.passages.split()) if word in weights) for row in fresh]
    top = max(shared, default=1.0)
    return [
        ScoredMemory(row.path, lowest * RELATED * value / top, 0.0, 0.0, 0.0, 0.0, (), row.priors)
        for row, value in zip(fresh, shared, strict=True)
    ]


def is_enough(query: PreparedQuery, scored: Sequence[ScoredMemory]) -> bool:
    """Whether the best candidates are good enough to be shown; returning nothing is better than noise."""
    semantic = query.vector is not None
    signs = zip(find_weights(semantic=semantic), measure_fit(query, scored), strict=True)
    return bool(scored) and sum(weight * sign for weight, sign in signs) > find_level(semantic=semantic)


def measure_fit(query: PreparedQuery, scored: Sequence[ScoredMemory]) -> tuple[float, ...]:
    """Return the values of SIGNS, in their order."""
    coverage = max((at.coverage for at in scored), default=0.0)
    total = sum(query.weights[term] for term in query.shares)
    return (
        float(bool(query.names) and not query.names_known and not query.asks_advice),
        float(query.names_known > 0),
        coverage * total / ((1.0 - query.unknown) * total + 1.0),
        math.log(max((at.passage for at in scored), default=0.0) + _LEAST),
        max((at.meaning_whole for at in scored), default=0.0),
        float(query.asks_advice),
    )


def find_weights(*, semantic: bool) -> tuple[float, ...]:
    return WEIGHTS if semantic else PLAIN_WEIGHTS


def find_level(*, semantic: bool) -> float:
    return LEVEL if semantic else PLAIN_LEVEL


def _soften(catalog: Catalog, table: WordTable | None, term: str) -> dict[str, float]:
    """Words that may stand for a term, with what they are worth."""
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
    """The heaviest words whose postings fit the budget; the first always does."""
    best: dict[int, float] = {}
    left = POSTINGS
    for weight, term, df in sorted(postings, reverse=True):
        if term not in best and (df <= left or not best):
            best[term] = weight
            left -= df
    return best


class _Scorer:
    """What all candidates of a question are measured by, computed once."""

    def __init__(self, query: PreparedQuery, totals: IndexTotals, table: WordTable | None) -> None:
        total = sum(query.weights.values()) or 1.0
        shares = [weight / total for weight in query.weights.values()]
        matches = query.matches.items()
        bend = SATURATION * LENGTH / (totals.length or 1)
        self._gains = {word: [(at, worth * shares[at]) for at, worth in found] for word, found in matches}
        self._worth = {word: max(worth for _, worth in found) for word, found in matches}
        self._exact, self._vector = query.shares, query.vector
        self._flat = SATURATION * (1 - LENGTH)
        self._a_word, self._a_passage_word = bend * totals.docs, bend * totals.passages
        self._dim = table.dim if table else 0

    def score(self, row: IndexRow) -> ScoredMemory:
        gains = self._gains
        matched: list[str] = []
        held: list[str] = []
        best = 0.0
        for passage in row.passages.split("\n"):
            words = passage.split(" ")
            hits = [word for word in words if word in gains]
            if hits:
                matched += hits
                value = self._match(hits, self._flat + self._a_passage_word * len(words))
                if value > best:
                    best, held = value, hits
        whole = self._match(matched, self._flat + self._a_word * row.length) if matched else 0.0
        meaning = meaning_passage = 0.0
        if self._vector is not None and row.vectors:
            meaning, *rest = compare(self._vector, row.vectors, self._dim)
            meaning_passage = max(rest, default=meaning)
        coverage = sum([self._exact[word] for word in set(held) if word in self._exact])
        shown = tuple(sorted(dict.fromkeys(matched), key=self._worth.__getitem__, reverse=True)[:_SHOWN])
        parts = whole / FULL_MATCH, best / FULL_MATCH, meaning, meaning_passage, coverage
        return ScoredMemory(row.path, *parts, shown, row.priors)

    def _match(self, hits: list[str], damping: float) -> float:
        """The sum of each term's best match in these words, saturated."""
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
