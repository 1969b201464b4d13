"""From a question to scored memories: candidates, their scores in parts, and the floor below which nothing is said.

Every query word may be met by itself, by a word of the directory that begins alike, or by one of its neighbours in the
word table, worth the less the farther it is (soft matching). A memory is scored whole and by its best passage, by words
and by the direction of its vectors. All parts are on an absolute scale: no score depends on the other candidates, so a
floor means the same in every directory.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from memdir.frozen import dataclass
from memdir.recall import table as vectors
from memdir.recall.index import SATURATION, Catalog, IndexRow, IndexTotals, MemoryPriors
from memdir.recall.table import WordTable
from memdir.recall.terms import REQUEST, is_date_term, is_wish, parse_names, parse_terms

# --- rank ---

LENGTH = 0.5  # BM25's b: how much a long text is held to its length
FULL_MATCH = 1.4  # the usual saturated count of a matching word, so that a full match scores about 1
SOFT_START, SOFT_TOP = 0.25, 0.9  # a neighbour at cosine .25 counts nothing, one at 1 counts .9
KIN_WORTH, KIN_LETTERS = 0.4, 5  # a word that only begins alike, and how long the beginning must be
REQUEST_WORTH = 0.4  # words that phrase a request
WHOLE, PASSAGE = 1.0, 1.0  # lexical weights
MEANING_WHOLE, MEANING_PASSAGE = 0.5, 0.5  # vector weights
CANDIDATES, PLAIN_CANDIDATES = 100, 250  # scored in full, with vectors and without; more changed nothing in any set
RELATED = 0.5  # the best of the related stands at half of the weakest that was met
_SHOWN = 8  # matched words that are told
POSTINGS = 8_000  # how many postings a query may touch; the rest of its words only rescore


Answers = dict[str, list[tuple[int, float]]]  # a word of the directory: which terms it answers, and how well
Gains = Answers  # the same, and how much of the question that is


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A question made ready: its terms with their weights, and for each word that may answer one which and how well.

    `shares` are the terms that tell what it is about, each with its part of the whole: a date that no memory mentions
    tells nothing. `unknown` is the part of those that no memory has.
    """

    weights: dict[str, float]
    shares: dict[str, float]
    unknown: float
    answers: Answers
    vector: vectors.Vector | None
    names: tuple[str, ...]
    names_known: int
    is_wish: bool


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
    facts: MemoryPriors

    @property
    def score(self) -> float:
        return self.lexical + self.semantic

    @property
    def lexical(self) -> float:
        return WHOLE * self.whole + PASSAGE * self.passage

    @property
    def semantic(self) -> float:
        return MEANING_WHOLE * self.meaning_whole + MEANING_PASSAGE * self.meaning_passage


@dataclass(frozen=True, slots=True)
class _Scale:
    """What all candidates of a question are measured by, worked out once; a term's share of the question in all."""

    gains: Gains
    worth: dict[str, float]
    exact: dict[str, float]
    flat: float
    a_word: float
    a_passage_word: float
    dim: int


def prepare_query(catalog: Catalog, text: str, totals: IndexTotals) -> tuple[PreparedQuery, dict[int, float]]:
    """A question against one directory: its weights, and the postings worth looking at, weightiest first."""
    table = catalog.table
    terms = list(dict.fromkeys(parse_terms(text)))
    soft = {term: _soften(catalog, table if catalog.semantic else None, term) for term in terms}
    wanted = list(dict.fromkeys(word for words in soft.values() for word, _ in words))
    known = catalog.find_terms(wanted)
    weights = {term: _weigh(term, known.get(term, (0, 0))[1], totals, table) for term in terms}
    answers: Answers = {}
    postings: list[tuple[float, int, int]] = []
    for number, term in enumerate(terms):
        for word, worth in soft[term]:
            if word in known:
                answers.setdefault(word, []).append((number, worth))
                postings.append((worth * weights[term], *known[word]))
    names = tuple(parse_names(text))
    vector = None
    if table is not None and catalog.semantic:
        vector = vectors.pool(table, [(term, _vector_weight(term, known, totals)) for term in terms])
    shares = _share(weights, known)
    unknown = sum(share for term, share in shares.items() if term not in known)
    known_names = sum(name in known for name in names)
    asked = PreparedQuery(weights, shares, unknown, answers, vector, names, known_names, is_wish(text))
    return asked, _spend(postings)


def find_related(
    catalog: Catalog, scored: Sequence[ScoredMemory], most: int, totals: IndexTotals
) -> list[ScoredMemory]:
    """When a question meets too few memories: others that share rare words with those it met, ranked below them."""
    lowest = min(at.score for at in scored)
    met = {at.path for at in scored}
    weights: dict[str, float] = {}
    for row in catalog.read_rows(catalog.find_docs(list(met))):
        value = next(at.score for at in scored if at.path == row.path)
        for word in set(row.passages.split()):
            weights[word] = weights.get(word, 0.0) + value
    known = catalog.find_terms(list(weights))
    postings = [
        (weights[word] * totals.idf(df), *known[word]) for word, (_, df) in known.items() if df * 4 <= totals.docs
    ]
    related = catalog.read_rows(catalog.find_candidates(_spend(postings), most + len(met)))
    fresh = [row for row in related if row.path not in met][:most]
    shared = [sum(weights[word] for word in set(row.passages.split()) if word in weights) for row in fresh]
    top = max(shared, default=1.0)
    return [
        ScoredMemory(row.path, lowest * RELATED * value / top, 0.0, 0.0, 0.0, 0.0, (), row.facts)
        for row, value in zip(fresh, shared, strict=True)
    ]


def score_all(
    catalog: Catalog, asked: PreparedQuery, postings: Mapping[int, float], totals: IndexTotals
) -> list[ScoredMemory]:
    """Every candidate with its parts, in no order. A small directory is looked at whole, for its meaning."""
    most = PLAIN_CANDIDATES if asked.vector is None else CANDIDATES
    everything = totals.docs <= most and asked.vector is not None
    docs = None if everything else catalog.find_candidates(postings, most)
    if docs is not None and not docs:
        return []
    scale = _make_scale(asked, totals, catalog.table)
    scored = (_score(row, asked, scale) for row in catalog.read_rows(docs))
    return [at for at in scored if at.score > 0]


def _soften(catalog: Catalog, table: WordTable | None, term: str) -> list[tuple[str, float]]:
    """Words that may stand for a term, with what they are worth."""
    words = {term: 1.0}
    if len(term) >= KIN_LETTERS and term.isascii():
        stem = term[: max(KIN_LETTERS, len(term) - 3)]
        words |= {word: KIN_WORTH for word in catalog.find_kin(stem, len(term) + 4) if word != term}
    for word, near in table.near(term) if table else ():
        worth = SOFT_TOP * (near - SOFT_START) / (1 - SOFT_START)
        if worth > words.get(word, 0.0):
            words[word] = worth
    return list(words.items())


def _weigh(term: str, df: int, totals: IndexTotals, table: WordTable | None) -> float:
    rarity = table.rarity(term) if table else 1.0
    return totals.idf(df) * rarity * (REQUEST_WORTH if term in REQUEST else 1.0)


def _share(weights: dict[str, float], known: Collection[str]) -> dict[str, float]:
    telling = {term: weight for term, weight in weights.items() if term in known or not is_date_term(term)}
    total = sum(telling.values()) or 1.0
    return {term: weight / total for term, weight in telling.items()}


def _vector_weight(term: str, known: dict[str, tuple[int, int]], totals: IndexTotals) -> float:
    rarity = math.sqrt(totals.idf(known.get(term, (0, 0))[1]))
    return rarity * (REQUEST_WORTH if term in REQUEST else 1.0)


def _spend(postings: Iterable[tuple[float, int, int]]) -> dict[int, float]:
    """The weightiest words whose postings fit the budget; the first always does."""
    best: dict[int, float] = {}
    left = POSTINGS
    for weight, term, df in sorted(postings, reverse=True):
        if term not in best and (df <= left or not best):
            best[term] = weight
            left -= df
    return best


def _score(row: IndexRow, asked: PreparedQuery, scale: _Scale) -> ScoredMemory:
    gains = scale.gains
    met: list[str] = []
    held: list[str] = []
    best = 0.0
    for passage in row.passages.split("\n"):
        words = passage.split(" ")
        hits = [word for word in words if word in gains]
        if hits:
            met += hits
            value = _match(hits, gains, scale.flat + scale.a_passage_word * len(words))
            if value > best:
                best, held = value, hits
    whole = _match(met, gains, scale.flat + scale.a_word * row.length) if met else 0.0
    meaning = _compare(row, asked, scale.dim)
    coverage = sum([scale.exact[word] for word in set(held) if word in scale.exact])
    shown = tuple(sorted(dict.fromkeys(met), key=scale.worth.__getitem__, reverse=True)[:_SHOWN])
    return ScoredMemory(row.path, whole / FULL_MATCH, best / FULL_MATCH, *meaning, coverage, shown, row.facts)


def _match(hits: list[str], gains: Gains, damping: float) -> float:
    """The sum of each term's best answer in these words, saturated."""
    best: dict[int, float] = {}
    distinct = set(hits)
    if len(distinct) == len(hits):
        for word in hits:
            for number, value in gains[word]:
                if value > best.get(number, 0.0):
                    best[number] = value
        return sum(best.values()) * (SATURATION + 1) / (1 + damping)
    for word in distinct:
        count = hits.count(word)
        saturated = count * (SATURATION + 1) / (count + damping)
        for number, value in gains[word]:
            if value * saturated > best.get(number, 0.0):
                best[number] = value * saturated
    return sum(best.values())


def _compare(row: IndexRow, asked: PreparedQuery, dim: int) -> tuple[float, float]:
    """How much the whole and its best passage point the question's way."""
    if asked.vector is None or not row.vectors:
        return 0.0, 0.0
    whole, *passages = vectors.compare(asked.vector, row.vectors, dim)
    return whole, max(passages, default=whole)


def _make_scale(asked: PreparedQuery, totals: IndexTotals, table: WordTable | None) -> _Scale:
    total = sum(asked.weights.values()) or 1.0
    shares = [weight / total for weight in asked.weights.values()]
    answers = asked.answers.items()
    bend = SATURATION * LENGTH / (totals.length or 1)
    return _Scale(
        {word: [(number, worth * shares[number]) for number, worth in found] for word, found in answers},
        {word: max(worth for _, worth in found) for word, found in answers},
        asked.shares,
        SATURATION * (1 - LENGTH),
        bend * totals.docs,
        bend * totals.passages,
        table.dim if table else 0,
    )


# --- floor ---
# The floor: whether the best candidates are good enough to be said at all. An honest nothing beats noise.
#
# Six signs, none of which depends on the size of the directory, in a weighted sum. Weights and floor were fitted on
# every
# second group of the public sets and checked on the others (`benchmarks/abstain.py`; docs/benchmarks.md has the
# curve).

SIGNS = ("strangers", "known", "together", "passage", "meaning", "wish")
# With the word table, and by words alone.
WEIGHTS, LEVEL = (-3.0, 1.2, 1.4, 2.4, 4.3, 2.1), -2.5
PLAIN_WEIGHTS, PLAIN_LEVEL = (-3.0, 1.1, 1.2, 2.6, 0.0, 2.1), -5.8
_LEAST = 0.02  # the passage of a question that met nothing: its logarithm must be a number


def measure_fit(asked: PreparedQuery, scored: Sequence[ScoredMemory]) -> tuple[float, ...]:
    """What speaks for an answer and against one, in the order of SIGNS.

    strangers  it names somebody or something, and the directory knows none of the names; in a question for advice a
               name is a place to go to as often as not, and counts for nothing
    known      it names what the directory knows
    together   of the weight of its words that the directory knows, how much stands in one passage
    passage    how well the best passage answers, neighbours included; as a logarithm
    meaning    how much the best memory points the question's way
    wish       it asks for advice: then what is known of a person counts, and it shares few words with the question
    """
    coverage = max((at.coverage for at in scored), default=0.0)
    total = sum(asked.weights[term] for term in asked.shares)
    return (
        float(bool(asked.names) and not asked.names_known and not asked.is_wish),
        float(asked.names_known > 0),
        coverage * total / ((1.0 - asked.unknown) * total + 1.0),
        math.log(max((at.passage for at in scored), default=0.0) + _LEAST),
        max((at.meaning_whole for at in scored), default=0.0),
        float(asked.is_wish),
    )


def is_enough(asked: PreparedQuery, scored: Sequence[ScoredMemory]) -> bool:
    semantic = asked.vector is not None
    signs = measure_fit(asked, scored)
    value = sum(weight * sign for weight, sign in zip(find_weights(semantic=semantic), signs, strict=True))
    return bool(scored) and value > find_level(semantic=semantic)


def find_weights(*, semantic: bool) -> tuple[float, ...]:
    return WEIGHTS if semantic else PLAIN_WEIGHTS


def find_level(*, semantic: bool) -> float:
    return LEVEL if semantic else PLAIN_LEVEL
