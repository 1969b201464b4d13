"""Types age differently: weak evidence for ranking, and never a reason to delete."""

import os
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path

import pytest

from homes import make_environment, write
from memdir.format.age import HALF_LIVES, find_half_life, weigh_age
from memdir.project.settings import read_settings
from memdir.recall.select import LocalSearch
from memdir.records import Kind, Query
from memdir.store.files import FileStore

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
BODY = "The nightly export of the ledger goes to the harbour bucket.\n"
QUERY = "where does the nightly export of the ledger go?"


def put(memory: Path, name: str, kind: str, days: float, more: str = "") -> None:
    text = f"---\nname: Export\ndescription: where the nightly export goes\ntype: {kind}\n{more}---\n\n{BODY}"
    moment = (NOW - timedelta(days=days)).timestamp()
    os.utime(write(memory / f"{name}.md", text), (moment, moment))


def rank(memory: Path, **lives: float) -> list[str]:
    half_lives = {**HALF_LIVES, **{Kind(kind): days for kind, days in lives.items()}}
    with FileStore(memory) as store, LocalSearch([store], half_lives=half_lives) as search:
        search.refresh()
        return [pick.header.name for pick in search.search(Query(QUERY, now=NOW), 5).picks]


@pytest.mark.parametrize(("one", "other"), list(permutations(Kind, 2)))
@pytest.mark.parametrize(("days", "more"), [(20, 20), (60, 60), (60, 400), (10, 300)])
def test_of_two_equal_memories_the_one_that_aged_less_by_the_table_comes_first(
    memory: Path, one: Kind, other: Kind, days: int, more: int
) -> None:
    put(memory, "one", one, days)
    put(memory, "other", other, more)
    fresh, stale = (
        weigh_age(NOW - timedelta(days=age), NOW, HALF_LIVES[kind]) for kind, age in ((one, days), (other, more))
    )
    first = "one" if (fresh, -days, "b") > (stale, -more, "a") else "other"
    assert rank(memory)[0] == first


def test_a_verified_memory_counts_as_fresh_as_its_verification(memory: Path) -> None:
    put(memory, "checked", "project", 200, "verified: 2026-11-15\n")
    put(memory, "written", "project", 30)
    assert rank(memory) == ["checked", "written"]


def test_age_is_weak_evidence_and_outweighs_no_word_of_the_question(memory: Path) -> None:
    put(memory, "old", "project", 3000)
    put(memory, "new", "project", 0)
    path = memory / "new.md"
    path.write_text(path.read_text(encoding="utf-8").replace("nightly ", "").replace("ledger", "shop"), "utf-8")
    assert rank(memory)[0] == "old"


def test_nothing_is_ever_deleted_or_hidden_by_age(memory: Path) -> None:
    put(memory, "ancient", "project", 20_000)
    assert rank(memory) == ["ancient"] and rank(memory, project=1) == ["ancient"]
    assert (memory / "ancient.md").exists()


def test_a_half_life_halves_and_zero_never_ages() -> None:
    old = NOW - timedelta(days=60)
    assert weigh_age(old, NOW, 30) == pytest.approx(0.25) and weigh_age(old, NOW, 60) == pytest.approx(0.5)
    assert weigh_age(old, NOW, 0) == 1.0 and weigh_age(NOW + timedelta(days=9), NOW, 30) == 1.0
    assert find_half_life(None) == HALF_LIVES[Kind.REFERENCE]


def test_the_settings_are_the_table(tmp_path: Path) -> None:
    assert read_settings(make_environment(tmp_path), root=None).half_lives() == HALF_LIVES
    given = make_environment(tmp_path, MEMDIR_HALF_LIFE_PROJECT="7")
    assert read_settings(given, root=None).half_lives()[Kind.PROJECT] == 7
