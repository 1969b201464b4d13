"""When to say nothing: the trade between answers found and empty answers for questions from elsewhere.

    python benchmarks/abstain.py [--no-semantic] [--fit]

On the public sets with several groups: a group's own questions should be answered, questions of other groups should
not. Half of the groups (every second) choose the floor, the other half are reported, and then the other way round.
`--fit` also looks for the best weights of the signs; without it the ones in `memdir.search.floor` are measured.
"""

import argparse
import itertools
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memdir.bench import plant, read_corpus, read_queries
from memdir.records import Query
from memdir.search import floor, rank
from memdir.search.catalog import Catalog
from memdir.search.local import LocalSearch
from memdir.search.words import open_words
from memdir.store.files import FileStore

SETS = ("locomo_observations", "locomo_sessions", "locomo_turns", "longmemeval_s_lite", "prefeval_topics")
PER_GROUP = 40
NOW = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Sample:
    """One question put to one group: its signs, whether it belongs there, and whether the answer was among the five."""

    set: str
    half: int
    own: bool
    found: bool
    signs: tuple[float, ...]


def collect(bench: Path, *, semantic: bool) -> list[Sample]:
    samples: list[Sample] = []
    for name in SETS:
        groups = read_corpus(bench / name / "corpus.jsonl")
        asked: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for _, question in read_queries(bench / name / "queries.jsonl"):
            asked.setdefault(question.group, []).append((question.text, question.gold))
        dice = random.Random(7)
        for number, group in enumerate(groups):
            own = asked.get(group, [])
            others = [text for other in asked if other != group for text, _ in asked[other]]
            foreign = dice.sample(others, min(PER_GROUP, max(len(own), 3), len(others)))
            questions = [(text, gold, True) for text, gold in dice.sample(own, min(PER_GROUP, len(own)))]
            questions += [(text, frozenset(), False) for text in foreign]
            with tempfile.TemporaryDirectory(prefix="memdir-abstain-") as folder:
                memory = Path(folder) / "memory"
                ids = plant(memory, groups[group])
                with FileStore(memory) as store, LocalSearch((store,), semantic=semantic) as search:
                    search.refresh()
                    samples += [_ask(name, number % 2, search, store, ids, at, semantic) for at in questions]
    return samples


def _ask(
    name: str, half: int, search: LocalSearch, store: FileStore, ids: dict[str, str],
    question: tuple[str, frozenset[str], bool], semantic: bool,
) -> Sample:  # fmt: skip
    text, gold, own = question
    found = search.search(Query(text, now=NOW), 5)
    best = [*found.picks, *found.passed_over][:5]
    path = store.find_index_file()
    assert path is not None
    catalog = Catalog(path, open_words(), semantic=semantic)
    try:
        totals = catalog.read_totals()
        asked, postings = rank.ask(catalog, text, totals)
        signs = floor.measure(asked, rank.score_all(catalog, asked, postings, totals))
    finally:
        catalog.close()
    return Sample(name, half, own, any(ids[pick.header.name] in gold for pick in best), signs)


def weigh(sample: Sample, weights: Sequence[float]) -> float:
    return sum(weight * sign for weight, sign in zip(weights, sample.signs, strict=True))


def trade(samples: Iterable[Sample], weights: Sequence[float], level: float) -> tuple[float, float]:
    """Mean over the sets of the any@5 lost and of the share of foreign questions that get nothing."""
    cost, empty = [], []
    by_set: dict[str, list[Sample]] = {}
    for sample in samples:
        by_set.setdefault(sample.set, []).append(sample)
    for rows in by_set.values():
        own = [sample for sample in rows if sample.own]
        foreign = [sample for sample in rows if not sample.own]
        cost.append(sum(at.found and weigh(at, weights) <= level for at in own) / max(len(own), 1))
        empty.append(sum(weigh(at, weights) <= level for at in foreign) / max(len(foreign), 1))
    return sum(cost) / len(cost), sum(empty) / len(empty)


def find_level(samples: Sequence[Sample], weights: Sequence[float], most: float) -> float:
    """The highest floor that costs at most so much."""
    levels = sorted({weigh(sample, weights) for sample in samples})
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        if trade(samples, weights, levels[middle])[0] <= most:
            low = middle + 1
        else:
            high = middle
    return levels[low - 1] if low else levels[0] - 1.0


def fit(samples: Sequence[Sample], most: float) -> tuple[float, ...]:
    """The weights whose floor empties most, from a coarse grid; the first sign that is used always weighs 1."""
    best, chosen = -1.0, (1.0,) * len(floor.SIGNS)
    for weights in itertools.product((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 0.5, 1.0), (0.0, -0.2), (0.0, 0.5)):
        if any(weights[:3]) or weights[5]:
            value = trade(samples, weights, find_level(samples, weights, most))[1]
            if value > best:
                best, chosen = value, weights
    return chosen


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--bench", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "bench")
    options.add_argument("--no-semantic", action="store_true")
    options.add_argument("--fit", action="store_true")
    given = options.parse_args()
    samples = collect(given.bench, semantic=not given.no_semantic)
    halves = [[at for at in samples if at.half == half] for half in (0, 1)]
    weights: Sequence[float] = floor.find_weights(semantic=not given.no_semantic)
    if given.fit:
        for half in (0, 1):
            chosen = fit(halves[half], 0.01)
            level = find_level(halves[half], chosen, 0.01)
            cost, empty = trade(halves[1 - half], chosen, level)
            print(f"fitted on half {half}: {dict(zip(floor.SIGNS, chosen, strict=True))} floor {level:.3f}; "
                  f"other half: cost {cost:.3f}, empty {empty:.3f}")  # fmt: skip
        weights = fit(samples, 0.01)
        print("fitted on all:", dict(zip(floor.SIGNS, weights, strict=True)), find_level(samples, weights, 0.01))
    print("| chosen for at most | cost, other half | empty, other half | cost, swapped | empty, swapped |")
    print("|---|---|---|---|---|")
    for most in (0.005, 0.01, 0.02, 0.03, 0.05):
        row = [trade(halves[1 - half], weights, find_level(halves[half], weights, most)) for half in (0, 1)]
        print(f"| {most:.3f} | {row[0][0]:.3f} | {row[0][1]:.2f} | {row[1][0]:.3f} | {row[1][1]:.2f} |")
    level = floor.find_level(semantic=not given.no_semantic)
    print(f"\nThe shipped floor, {level:g}, by set:\n\n| set | any@5 without | any@5 with | foreign questions empty |")
    print("|---|---|---|---|")
    for name in SETS:
        rows = [at for at in samples if at.set == name]
        own = [at for at in rows if at.own]
        kept = sum(at.found and weigh(at, weights) > level for at in own) / len(own)
        empty = trade(rows, weights, level)[1]
        print(f"| {name} | {sum(at.found for at in own) / len(own):.3f} | {kept:.3f} | {empty:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
