"""Search in PostgreSQL finds what the index of a directory finds."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import BenchQuestion, plant, read_corpus, read_queries
from loads import IS_FULL, bench, scaled
from memdir.postgres.search import PostgresSearch
from memdir.postgres.store import PostgresStore
from memdir.recall.pipeline import recall
from memdir.records import Draft, Kind, Origin, Query
from memdir.store.files import FileStore
from memdir.store.plan import FileChange
from memdir.testing import sample_memory
from postgres import Postgres

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def copy_files(memory: Path, store: PostgresStore) -> None:
    found = {path.name: path.read_bytes() for path in sorted(memory.glob("*.md"))}
    store.carry_out(lambda _: [FileChange(name, None, data) for name, data in found.items()], verb="import")


def find_gold(store: FileStore | PostgresStore, questions: Sequence[BenchQuestion], ids: dict[str, str]) -> list[bool]:
    selector = PostgresSearch([store]) if isinstance(store, PostgresStore) else None
    if selector is not None:
        selector.refresh()
    found = [recall(store, at.text, selector=selector, now=NOW, limit=5) for at in questions]
    picked = [{ids[at.header.name] for at in result.memories} for result in found]
    return [
        not at.gold.isdisjoint(names) if at.gold else not names for at, names in zip(questions, picked, strict=True)
    ]


def test_recall_is_within_a_point_of_the_file_store(postgres: Postgres, tmp_path: Path) -> None:
    groups = read_corpus(bench("locomo_observations") / "corpus.jsonl")
    questions = [at for _, at in read_queries(bench("locomo_observations") / "queries.jsonl")]
    files, rows = list[bool](), list[bool]()
    for group in list(groups)[: max(1, scaled(len(groups)))]:
        asked = [at for at in questions if at.group == group][: None if IS_FULL else 40]
        memory = tmp_path / group / "memory"
        ids = plant(memory, groups[group])
        with FileStore(memory) as store:
            files += find_gold(store, asked, ids)
        copied = postgres.store()
        copy_files(memory, copied)
        rows += find_gold(copied, asked, ids)
        assert len(groups[group]) > 100, "larger than what is scored whole"
    assert abs(sum(files) - sum(rows)) <= 0.01 * len(files), (sum(files), sum(rows), len(files))


def test_the_rows_follow_the_files(postgres: Postgres) -> None:
    store = postgres.store()
    first = store.write(Draft(Kind.PROJECT, "Deploys", "Deploys happen on Tuesdays only", "Support is staffed then."))
    store.write(sample_memory())
    with PostgresSearch([store]) as search:
        assert [search.refresh() for _ in range(2)] == [2, 0]

    def names(text: str) -> list[str]:
        with PostgresSearch([store]) as search:
            search.refresh()
            found = recall(store, text, selector=search, limit=3)
        return [at.header.name for at in found.memories]

    assert names("when may I deploy this?")[0] == "deploys"
    changed = Draft(Kind.PROJECT, "Deploys", "Releases go out by the zeppelin", "It leaves at noon.")
    store.write(changed, expect=first.digest)
    assert names("where is the zeppelin kept")[0] == "deploys"
    store.delete("deploys", origin=Origin("agent"))
    assert "deploys" not in names("where is the zeppelin kept")
    store.purge("deploys")
    assert "zeppelin" not in postgres.dump(store._table.tenant)


def test_odd_words_of_a_question_are_words(postgres: Postgres) -> None:
    store = postgres.store()
    store.carry_out(
        lambda _: [FileChange("odd.md", None, b"---\nname: o\n---\n" + b"x" * 3000 + b" it's a\\b 'q' \x00 zz\n")],
        verb="x",
    )
    for number in range(120):
        store.write(sample_memory(title=f"Memory {number}"))
    for text in ("it's a\\b 'q' & | ! :* <->", "x" * 5000, "'", "\\", "a:*b", "\0", "zz & !q", "日本語 東京", ""):
        with PostgresSearch([store]) as search:
            search.refresh()
            search.search(Query(text, now=NOW, wide=True), 5)
