"""benchmarks/bench.py: recall as shipped, on real files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench import (
    BenchOutcome,
    BenchRow,
    bench_recall,
    main,
    make_report,
    parse_date,
    plant,
    render_bench_row,
)
from loads import bench
from memdir.errors import DiskError, FormatError
from memdir.format.frontmatter import parse_fields
from memdir.store.files import FileStore
from tables import table

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
CORPUS = [
    {"id": "a/1", "group": "a", "text": "The staging database is wiped every Sunday night."},
    {"id": "a/2", "group": "a", "text": "Release notes are written by the support group.", "date": "2026-02-01"},
    {"id": "a/3", "group": "a", "text": "Lunch is at noon.\nIn the canteen.", "description": "When the office eats"},
    {"id": "b/1", "group": "b", "text": "Penguins cannot fly but swim well."},
    {"id": "b/2", "group": "b", "text": "Database of birds: https://birds.example"},
]
QUERIES: list[dict[str, Any]] = [
    {"id": 1, "group": "a", "query": "when is the staging database wiped?", "gold": ["a/1"], "category": "when"},
    {"id": 2, "group": "a", "query": "who writes notes and wipes staging?", "gold": ["a/1", "a/2"], "category": "two"},
    {"id": 3, "group": "b", "query": "can penguins fly or swim?", "gold": ["b/1"], "category": "when"},
    {"id": 4, "group": "b", "query": "zzyzx qwerfl vrkkm", "gold": [], "category": "none"},
    {"id": 5, "group": "b", "query": "penguins", "gold": ["b/1"], "category": "gate"},
]  # fmt: skip


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "corpus.jsonl", CORPUS), write(tmp_path / "queries.jsonl", QUERIES)


def test_every_group_is_a_directory_of_its_own_and_every_gate_counts(files: tuple[Path, Path]) -> None:
    seen: list[tuple[int, int]] = []
    report = bench_recall(*files, now=NOW, on_progress=lambda done, total: seen.append((done, total)))
    assert report.all.n == 5 and list(report.categories) == ["gate", "none", "two", "when"]
    assert report.categories["when"].hit_at_1 == 1.0
    assert report.categories["two"].all_at_k == 1.0
    assert report.categories["none"].any_at_k == 1.0  # nothing was the right answer
    assert report.categories["gate"].any_at_k == 0.0  # one word is too little, here as anywhere
    assert report.all.hit_at_1 == pytest.approx(0.8)
    assert 0 < report.p50_ms <= report.p95_ms and report.index_s > 0
    assert seen == [(number, 5) for number in range(1, 6)]


def test_k_is_how_many_a_question_gets(files: tuple[Path, Path]) -> None:
    one = bench_recall(*files, now=NOW, k=1)
    assert one.categories["two"].any_at_k == 1.0 and one.categories["two"].all_at_k == 0.0


def test_the_script_prints_figures_as_lines_or_json(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["recall", "--corpus", str(files[0]), "--queries", str(files[1])]
    answers: list[Any] = []
    for options in ([], ["--k", "10", "--no-semantic"]):
        assert main([*argv, *options, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert list(answers[0]) == ["all", "categories", "p50_ms", "p95_ms", "index_s", "selector"]
    assert list(answers[0]["all"]) == list(answers[0]["categories"]["two"]) == ["n", "hit_at_1", "any_at_5", "all_at_5"]
    assert list(answers[1]["all"]) == ["n", "hit_at_1", "any_at_10", "all_at_10"]
    assert answers[0]["selector"] != answers[1]["selector"]
    assert main(argv) == 0
    assert capsys.readouterr().out.splitlines()[-2].split("\t")[:2] == ["all", "5"]


BROKEN: list[tuple[str, list[Any], list[Any], str]] = [
    ("not json", ["{"], QUERIES, "corpus.jsonl line 1: it is not JSON"),
    ("no object", [*CORPUS, "[]"], QUERIES, "corpus.jsonl line 6: it is not an object"),
    ("no id", [{"group": "a", "text": "x"}], QUERIES, 'corpus.jsonl line 1: it has no "id"'),
    ("no text", [{"group": "a", "id": 1}], QUERIES, 'corpus.jsonl line 1: it has no "text"'),
    ("blank lines count", ["", *CORPUS, "", "nope"], QUERIES, "corpus.jsonl line 8: it is not JSON"),
    ("no query", CORPUS, [{"group": "a", "gold": []}], 'queries.jsonl line 1: it has no "query"'),
    ("no gold", CORPUS, [{"group": "a", "query": "x"}], 'queries.jsonl line 1: "gold" is not a list of ids'),
    ("group", CORPUS, [*QUERIES, QUERIES[0] | {"group": "c"}], "queries.jsonl line 6: its group 'c' is not in the"),
    ("no rows", CORPUS, [], "queries.jsonl has no rows"),
]  # fmt: skip


@pytest.mark.parametrize(("_", "corpus", "queries", "words"), BROKEN, ids=[at[0] for at in BROKEN])
def test_a_row_that_cannot_be_used_is_one_line_with_its_place(
    tmp_path: Path, _: str, corpus: list[Any], queries: list[Any], words: str
) -> None:
    files = write(tmp_path / "corpus.jsonl", corpus), write(tmp_path / "queries.jsonl", queries)
    with pytest.raises(FormatError) as raised:
        bench_recall(*files, now=NOW)
    assert words in str(raised.value) and raised.value.hint.startswith("a row is")


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DiskError):
        bench_recall(tmp_path / "no", tmp_path / "no", now=NOW)
    assert main(["recall", "--corpus", "no", "--queries", "no"]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_a_gold_id_that_nobody_has_is_a_miss(tmp_path: Path) -> None:
    query = QUERIES[0] | {"gold": ["a/1", "gone"]}
    report = bench_recall(write(tmp_path / "c", CORPUS), write(tmp_path / "q", [query]), now=NOW)
    assert (report.all.any_at_k, report.all.all_at_k) == (1.0, 0.0)


def test_each_entry_becomes_a_file_that_reads_back(tmp_path: Path) -> None:
    long = "word " * 100
    entries = [
        BenchRow("x/1", "First line.\nSecond line.", date="1:56 pm on 8 May, 2023"),
        BenchRow("x-1", "---\nlooks: like a head\n---\n"),
        BenchRow("X 1", long, "Said of it: a \"quoted\" thing"),
        BenchRow("日本", "\n\n  日本語のメモ\n"),
        BenchRow("", ""),
        BenchRow("y" * 300, "cut"),
        BenchRow("y" * 301, "cut"),
    ]  # fmt: skip
    ids = plant(tmp_path / "memory", entries)
    assert sorted(ids.values()) == sorted(entry.id for entry in entries)
    headers = {ids[header.name]: header for header in FileStore(tmp_path / "memory").scan()}
    assert len(headers) == len(entries) and not [at.problem for at in headers.values() if at.problem and at.description]
    assert headers["x/1"].modified == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert headers["x/1"].title == headers["x/1"].description == "First line."
    assert headers["X 1"].description == 'Said of it: a "quoted" thing' and len(headers["X 1"].title) <= 60
    assert headers["日本"].title == "日本語のメモ"
    assert (
        FileStore(tmp_path / "memory").read(next(name for name, at in ids.items() if at == "X 1")).body.strip()
        == long.strip()
    )


def test_a_file_is_in_the_newer_dialect_with_its_date() -> None:
    text = render_bench_row(BenchRow("a", "Text.", date="2023/04/10 (Mon) 17:50"))
    assert "metadata:\n  type: project\n  modified:" in text
    assert parse_fields(text).modified.startswith("2023-04-10T17:50")
    assert parse_fields(render_bench_row(BenchRow("a", "Text.", date="some day"))).modified == ""


@table(
    "text iso",
    [
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00+00:00"),
        ("10:04 am on 19 December, 2023", "2023-12-19T10:04:00+00:00"),
        ("2023/04/10 (Mon) 17:50", "2023-04-10T17:50:00+00:00"),
        ("2023/04/10", "2023-04-10T00:00:00+00:00"),
        ("2023-04-10", "2023-04-10T00:00:00+00:00"),
        ("2023-04-10T17:50:00+02:00", "2023-04-10T17:50:00+02:00"),
    ],
)
def test_dates_of_the_public_sets_are_understood(text: str, iso: str) -> None:
    found = parse_date(text)
    assert found is not None and found.isoformat() == iso


def test_percentiles_are_of_single_questions() -> None:
    outcomes = [BenchOutcome("", True, True, True, float(ms)) for ms in range(1, 101)]
    report = make_report(outcomes, k=5, index_s=0.0, selector="local")
    assert (report.p50_ms, report.p95_ms, dict(report.categories)) == (51.0, 96.0, {})


def test_a_public_set_runs_through_it(tmp_path: Path) -> None:
    """A slice of a real set; how good it is stands in docs/benchmarks.md."""
    folder = bench("locomo_observations")
    corpus = [row for row in _read(folder / "corpus.jsonl") if row["group"] == "conv-26"]
    queries = [row for row in _read(folder / "queries.jsonl") if row["group"] == "conv-26"][:40]
    report = bench_recall(write(tmp_path / "c", corpus), write(tmp_path / "q", queries), now=NOW)
    assert report.all.n == 40 and report.all.any_at_k > 0.5


def _read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
