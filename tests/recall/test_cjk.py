"""Chinese and Japanese memories are found by questions in other words, without a word list of either language."""

import json
from pathlib import Path

import pytest

from memdir.recall.select import LocalSearch
from memdir.records import Kind, Query
from memdir.store.files import FileStore
from search_stores import NOW, write_memory

DATA = Path(__file__).parents[1] / "data" / "cjk.jsonl"
FOUND_AT_LEAST = 0.9


def read_rows(lang: str) -> list[dict[str, str]]:
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["lang"] == lang]


@pytest.mark.parametrize("lang", ["zh", "ja"])
def test_most_questions_find_their_memory_among_the_first_five(lang: str, memory: Path) -> None:
    rows = read_rows(lang)
    for row in rows:
        write_memory(memory, row["name"], row["description"], row["body"], kind=Kind(row["type"]))
    missed = []
    first = 0
    with FileStore(memory) as store, LocalSearch([store]) as search:
        search.refresh()
        for row in rows:
            names = [pick.header.name for pick in search.search(Query(row["query"], now=NOW, wide=True), 5).picks]
            first += names[:1] == [row["name"]]
            if row["name"] not in names:
                missed.append((row["query"], names))
    share = 1 - len(missed) / len(rows)
    print(f"{lang}: any@5 {share:.3f}, first {first / len(rows):.3f} of {len(rows)}")  # noqa: T201
    assert share >= FOUND_AT_LEAST, missed
