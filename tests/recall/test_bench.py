"""benchmarks/bench.py: recall as shipped, on real files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench import bench_recall, main

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
    assert report.categories["gate"].any_at_k == 1.0  # one word is a search; only as a message it is too little
    assert report.all.hit_at_1 == 1.0
    assert 0 < report.p50_ms <= report.p95_ms and report.index_s > 0
    assert seen == [(number, 5) for number in range(1, 6)]


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
