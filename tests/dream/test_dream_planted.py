"""Must show 3 of the dream: what was planted is mended, look-alikes stay, and recall is not worse for it."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from bench import BenchOutcome, make_report
from dream_data import NOW, Planted, plant
from memdir.dream.plan import TidyResult, plan_tidy
from memdir.dream.records import PatchKind
from memdir.format.index import parse_index
from memdir.frozen import dataclass
from memdir.limits import INDEX_LINE_CHARS
from memdir.recall.pipeline import recall
from memdir.recall.select import LocalSearch
from memdir.records import Origin
from memdir.store.files import FileStore


@dataclass(frozen=True, slots=True)
class Dreamt:
    """A planted directory before and after one dream by rules."""

    planted: Planted
    store: FileStore
    before: dict[str, str]
    index: str
    recalled: dict[str, float]
    tidied: TidyResult
    merged: frozenset[frozenset[str]]


@pytest.fixture(scope="module")
def dreamt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dreamt]:
    planted = plant(tmp_path_factory.mktemp("planted") / "memory")
    with FileStore(planted.folder, clock=lambda: NOW) as store:
        before = {at.name: store.read(at.name).text for at in store.scan()}
        index, recalled = store.index(), measure(store, planted)
        tidied = plan_tidy(store, now=NOW)
        merges = [at.names for at in tidied.patches if at.kind is PatchKind.DUPLICATE]
        edits = [at.edits for at in tidied.patches]
        done = store.change(edits, verb="dream", origin=Origin(who="dream"), drop_conflicts=True, keep_pinned=True)
        assert done.change is not None and not done.dropped
        yield Dreamt(planted, store, before, index, recalled, tidied, frozenset(map(frozenset, merges)))


def measure(store: FileStore, planted: Planted) -> dict[str, float]:
    """What `benchmarks/bench.py` counts, on the questions that the background answers."""
    outcomes = []
    with LocalSearch((store,)) as search:
        search.refresh()
        for question in planted.questions:
            found = recall((store,), question.text, selector=search, now=NOW)
            picked = [planted.ids.get(at.header.name, "") for at in found.memories]
            some, all_ = bool(question.gold & set(picked)), question.gold <= set(picked)
            outcomes.append(BenchOutcome(question.category, not question.gold.isdisjoint(picked[:1]), some, all_, 0.0))
    if not outcomes:
        return {}
    figures = make_report(outcomes, k=5, index_s=0.0, selector="local").all
    return {"hit_at_1": figures.hit_at_1, "any_at_k": figures.any_at_k, "all_at_k": figures.all_at_k}


def test_every_exact_duplicate_is_merged(dreamt: Dreamt) -> None:
    assert all(frozenset(pair) in dreamt.merged for pair in dreamt.planted.duplicates)


def test_no_look_alike_is_merged_and_each_still_says_what_it_said(dreamt: Dreamt) -> None:
    for pair, name, other in dreamt.planted.lookalikes:
        assert {name, other} not in dreamt.merged
        assert pair.a.body in dreamt.store.read(name).text and pair.b.body in dreamt.store.read(other).text


def test_nothing_else_is_merged(dreamt: Dreamt) -> None:
    meant = {frozenset(pair) for pair in dreamt.planted.duplicates}
    rest = {frozenset(pair) for pair in combinations(dreamt.planted.background, 2)} & dreamt.merged
    contained = {pair for pair in rest if len({dreamt.before[name] for name in pair}) == 1}
    assert dreamt.merged <= meant | contained


def test_every_relative_date_is_absolute(dreamt: Dreamt) -> None:
    wrong = [row.id for row, name in dreamt.planted.relative if row.want not in dreamt.store.read(name).body]
    assert not wrong


def test_the_index_has_every_pointer_and_no_dead_or_long_one(dreamt: Dreamt) -> None:
    lines = [line for line in parse_index(dreamt.store.index()) if line.is_pointer]
    assert {line.name for line in lines} == {at.name for at in dreamt.store.scan()} and len(lines) == len(
        dreamt.store.scan()
    )
    assert not [line for line in lines if len(line.text.rstrip()) > INDEX_LINE_CHARS]
    for long, name in dreamt.planted.long:
        assert long.keep in dreamt.store.read(name).body


def test_recall_is_not_worse_after_than_before(dreamt: Dreamt) -> None:
    if dreamt.planted.skipped:
        pytest.skip(dreamt.planted.skipped)
    after = measure(dreamt.store, dreamt.planted)
    assert all(after[what] >= value for what, value in dreamt.recalled.items()), (dreamt.recalled, after)


def test_a_second_dream_finds_nothing_to_do(dreamt: Dreamt) -> None:
    assert not plan_tidy(dreamt.store, now=NOW).patches


def test_one_undo_puts_everything_back(dreamt: Dreamt, tmp_path: Path) -> None:
    dreamt.store.undo()
    assert {at.name: dreamt.store.read(at.name).text for at in dreamt.store.scan()} == dreamt.before
    assert dreamt.store.index() == dreamt.index
