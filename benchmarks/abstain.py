"""When to say nothing: the trade between answers found and empty answers for questions from elsewhere.

    python benchmarks/abstain.py [--no-semantic] [--fit] [--bench FOLDER]

On the public sets with several groups: a group's own questions should be answered, as many questions of other groups
should not. Every second group (the even ones) chooses the floor, the others are reported. `--fit` also fits the weights
of the signs on the even groups, by logistic regression; without it those in `memdir.recall.rank` are measured. An own
question whose answer is not among the first five anyway costs nothing when it gets nothing.
"""

import argparse
import math
import os
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memdir.interfaces.cli.recall import BenchQuestion, BenchRow, plant, read_corpus, read_queries
from memdir.recall import rank
from memdir.recall.index import Catalog
from memdir.recall.select import LocalSearch
from memdir.recall.table import open_words
from memdir.records import Query
from memdir.store.files import FileStore

SETS = ("locomo_observations", "locomo_sessions", "locomo_turns", "longmemeval_s_lite", "prefeval_topics")
LEAST_FOREIGN = 4  # questions from elsewhere for a group that has fewer of its own
COSTS = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05)
CHOSEN = 0.01
NOW = datetime(2024, 1, 1, tzinfo=UTC)
BENCH = Path(os.environ.get("MEMDIR_BENCH") or Path(__file__).resolve().parents[2] / "shared" / "bench")


@dataclass(frozen=True, slots=True)
class Sample:
    """One question put to one group: its signs, whether it belongs there, and whether the answer was among the five."""

    set: str
    half: int
    own: bool
    found: bool
    signs: tuple[float, ...]


def collect(bench: Path, *, semantic: bool) -> Iterator[Sample]:
    for name in SETS:
        groups = read_corpus(bench / name / "corpus.jsonl")
        questions = [question for _, question in read_queries(bench / name / "queries.jsonl")]
        for number, (group, entries) in enumerate(groups.items()):
            own = [question for question in questions if question.group == group]
            others = [question for question in questions if question.group != group]
            foreign = random.Random(f"{name}/{group}").sample(others, min(max(len(own), LEAST_FOREIGN), len(others)))
            for question, found, signs in ask_group(entries, [*own, *foreign], semantic=semantic):
                yield Sample(name, number % 2, question.group == group, found and question.group == group, signs)


def ask_group(
    entries: Sequence[BenchRow], questions: Sequence[BenchQuestion], *, semantic: bool
) -> Iterator[tuple[BenchQuestion, bool, tuple[float, ...]]]:
    """Each question with whether it was answered among the first five, had there been no floor, and its signs."""
    with tempfile.TemporaryDirectory(prefix="memdir-abstain-") as folder:
        memory = Path(folder) / "memory"
        ids = plant(memory, entries)
        with FileStore(memory) as store, LocalSearch((store,), semantic=semantic) as search:
            search.refresh()
            path = store.find_index_file()
            assert path is not None
            catalog = Catalog(path, open_words(), semantic=semantic)
            totals = catalog.read_totals()
            for question in questions:
                found = search.search(Query(question.text, now=NOW), 5)
                first = [ids[pick.header.name] for pick in (*found.picks, *found.passed_over)][:5]
                asked, postings = rank.prepare_query(catalog, question.text, totals)
                signs = rank.measure_fit(asked, rank.score_all(catalog, asked, postings, totals))
                yield question, bool(question.gold & set(first)), signs
            catalog.close()


def weigh(sample: Sample, weights: Sequence[float]) -> float:
    return sum(weight * sign for weight, sign in zip(weights, sample.signs, strict=True))


def measure_trade(samples: Iterable[Sample], weights: Sequence[float], level: float) -> dict[str, tuple[float, float]]:
    """For each set the any@5 lost, and the share of foreign questions that get nothing."""
    by_set: dict[str, list[tuple[Sample, bool]]] = {}
    for sample in samples:
        by_set.setdefault(sample.set, []).append((sample, weigh(sample, weights) <= level))
    trade = {}
    for name, rows in by_set.items():
        own = [at.found and silent for at, silent in rows if at.own]
        foreign = [silent for at, silent in rows if not at.own]
        trade[name] = sum(own) / len(own), sum(foreign) / len(foreign)
    return trade


def find_means(trade: dict[str, tuple[float, float]]) -> tuple[float, float]:
    cost, empty = zip(*trade.values(), strict=True)
    return sum(cost) / len(cost), sum(empty) / len(empty)


def find_level(samples: Sequence[Sample], weights: Sequence[float], most: float) -> float:
    """The highest floor that costs at most so much."""
    levels = sorted({weigh(sample, weights) for sample in samples})
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        if find_means(measure_trade(samples, weights, levels[middle]))[0] <= most:
            low = middle + 1
        else:
            high = middle
    return levels[low - 1] if low else levels[0] - 1.0


def fit(samples: Sequence[Sample], *, steps: int = 30, ridge: float = 1e-4) -> tuple[float, ...]:
    """Weights by which own questions that were answered and foreign ones part best; every set and side counts alike."""
    rows = [sample for sample in samples if sample.found or not sample.own]
    sizes: dict[tuple[str, bool], int] = {}
    for row in rows:
        sizes[row.set, row.own] = sizes.get((row.set, row.own), 0) + 1
    shares = [len(rows) / len(sizes) / sizes[row.set, row.own] for row in rows]
    width = len(rank.SIGNS) + 1
    weights = [0.0] * width
    for _ in range(steps):
        slope = [0.0] + [ridge * weight for weight in weights[1:]]
        bend = [[ridge * (one == other) for other in range(width)] for one in range(width)]
        for row, share in zip(rows, shares, strict=True):
            signs = (1.0, *row.signs)
            raw = sum(weight * sign for weight, sign in zip(weights, signs, strict=True))
            likely = 1 / (1 + math.exp(-max(-30.0, min(30.0, raw))))
            for one in range(width):
                slope[one] += share * (likely - row.own) * signs[one] / len(rows)
                for other in range(width):
                    bend[one][other] += share * likely * (1 - likely) * signs[one] * signs[other] / len(rows)
        step = solve(bend, slope)
        weights = [weight - change for weight, change in zip(weights, step, strict=True)]
    return tuple(weights[1:])


def solve(matrix: list[list[float]], values: list[float]) -> list[float]:
    """Gauss's elimination; a sign that never varies leaves a row of almost nothing, which changes nothing."""
    rows = [[*row, value] for row, value in zip(matrix, values, strict=True)]
    for at in range(len(rows)):
        pivot = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        head = rows[at][at] or 1e-12
        rows[at] = [value / head for value in rows[at]]
        for other in range(len(rows)):
            if other != at:
                factor = rows[other][at]
                rows[other] = [old - factor * value for old, value in zip(rows[other], rows[at], strict=True)]
    return [row[-1] for row in rows]


def print_curve(halves: Sequence[Sequence[Sample]], weights: Sequence[float]) -> None:
    print("| chosen to cost at most | floor | cost, even groups | empty, even | cost, odd groups | empty, odd |")
    print("|---|---|---|---|---|---|")
    for most in COSTS:
        level = find_level(halves[0], weights, most)
        (cost, empty), (cost2, empty2) = (find_means(measure_trade(half, weights, level)) for half in halves)
        print(f"| {most:.4f} | {level:.2f} | {cost:.4f} | {empty:.2f} | {cost2:.4f} | {empty2:.2f} |")


def print_sets(halves: Sequence[Sequence[Sample]], weights: Sequence[float], level: float) -> None:
    print(f"\nWith the floor at {level:g}:\n")
    print("| set | any@5, odd groups | lost | foreign empty, odd | any@5, all groups | lost | foreign empty, all |")
    print("|---|---|---|---|---|---|---|")
    sides = [list(halves[1]), [*halves[0], *halves[1]]]
    trades = [measure_trade(side, weights, level) for side in sides]
    for name in SETS:
        cells = []
        for side, trade in zip(sides, trades, strict=True):
            own = [at.found for at in side if at.own and at.set == name]
            cells += [f"{sum(own) / len(own):.3f}", f"{trade[name][0]:.3f}", f"{trade[name][1]:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    (cost, empty), (cost2, empty2) = map(find_means, trades)
    print(f"| mean | | {cost:.4f} | {empty:.2f} | | {cost2:.4f} | {empty2:.2f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, default=BENCH)
    parser.add_argument("--no-semantic", action="store_true")
    parser.add_argument("--fit", action="store_true")
    given = parser.parse_args()
    semantic = not given.no_semantic
    samples = list(collect(given.bench, semantic=semantic))
    halves = [[at for at in samples if at.half == half] for half in (0, 1)]
    weights, level = rank.find_weights(semantic=semantic), rank.find_level(semantic=semantic)
    if given.fit:
        weights = fit(halves[0])
        level = find_level(halves[0], weights, CHOSEN)
    print(", ".join(f"{name} {weight:.2f}" for name, weight in zip(rank.SIGNS, weights, strict=True)), end="\n\n")
    print_curve(halves, weights)
    print_sets(halves, weights, level)
    return 0


if __name__ == "__main__":
    sys.exit(main())
