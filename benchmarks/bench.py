"""Measure how well recall finds the right memories of a corpus with known answers.

    python benchmarks/bench.py recall --corpus FILE --queries FILE [--k 5] [--no-semantic] [--json]

A row of the corpus is {"id", "group", "text"} and may have "description" and "date"; a question is {"id", "group",
"query", "gold": [ids], "category"}. A question without gold is answered correctly by no memory at all. Each group is
written as a memory directory, and each question is asked through recall as it is shipped, in a conversation of its own.
Memories are compared by identity, not by the answer a model would give.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from memdir.errors import DiskError, FormatError, MemdirError
from memdir.format.frontmatter import compose_file, make_slug, read_time
from memdir.limits import DESCRIPTION_CHARS, SELECTED
from memdir.recall.pipeline import recall
from memdir.recall.select import LocalSearch
from memdir.records import Dialect
from memdir.store.contract import utc_now
from memdir.store.files import FileStore
from memdir.text import fold, one_line, shorten

CORPUS_ROW = '{"id", "group", "text"} with, where known, "description" and "date"'
QUERY_ROW = '{"id", "group", "query", "gold": [ids], "category"}'
_DATES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y/%m/%d")


class BenchRow(NamedTuple):
    id: str
    text: str
    description: str = ""
    date: str = ""


class BenchQuestion(NamedTuple):
    """One row of the queries; no gold means that nothing is the right answer."""

    group: str
    text: str
    gold: frozenset[str]
    category: str = ""


class BenchOutcome(NamedTuple):
    category: str
    hit: bool
    any: bool
    all: bool
    ms: float


class BenchFigures(NamedTuple):
    """Shares of `n` questions: the first pick was right, any of the first k, all that were wanted among them."""

    n: int
    hit_at_1: float
    any_at_k: float
    all_at_k: float


class BenchReport(NamedTuple):
    k: int
    all: BenchFigures
    categories: Mapping[str, BenchFigures]
    p50_ms: float
    p95_ms: float
    index_s: float
    selector: str


def bench_recall(
    corpus: Path,
    queries: Path,
    *,
    now: datetime,
    k: int = SELECTED,
    semantic: bool = True,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> BenchReport:
    """Run all questions; raises FormatError for a row that cannot be used and DiskError for a file that cannot."""
    groups, questions = read_corpus(corpus), read_queries(queries)
    asked: dict[str, list[BenchQuestion]] = {}
    for number, question in questions:
        if question.group not in groups:
            raise _refuse(queries, number, f"its group {question.group!r} is not in the corpus", QUERY_ROW)
        asked.setdefault(question.group, []).append(question)
    outcomes: list[BenchOutcome] = []
    index_s, selector = 0.0, ""
    for group, group_questions in asked.items():
        with tempfile.TemporaryDirectory(prefix="memdir-bench-") as folder:
            memory = Path(folder) / "memory"
            ids = plant(memory, groups[group])
            with FileStore(memory) as store, LocalSearch((store,), semantic=semantic) as search:
                start = time.perf_counter()
                search.refresh()
                index_s += time.perf_counter() - start
                selector = search.name
                for question in group_questions:
                    outcomes.append(_ask(store, search, question, ids, k, now))
                    on_progress(len(outcomes), len(questions))
    return make_report(outcomes, k=k, index_s=index_s, selector=selector)


def read_corpus(path: Path) -> dict[str, list[BenchRow]]:
    """The entries of each group, in the order of the file. Public sets repeat ids: each row is a file of its own."""
    groups: dict[str, list[BenchRow]] = {}
    for number, row in _read_rows(path, CORPUS_ROW, ("id", "group")):
        if not isinstance(text := row.get("text"), str):
            raise _refuse(path, number, 'it has no "text"', CORPUS_ROW)
        entry = BenchRow(str(row["id"]), text, *(str(row.get(key) or "") for key in ("description", "date")))
        groups.setdefault(str(row["group"]), []).append(entry)
    return groups


def read_queries(path: Path) -> list[tuple[int, BenchQuestion]]:
    """Every question with its line."""
    numbered_questions: list[tuple[int, BenchQuestion]] = []
    for number, row in _read_rows(path, QUERY_ROW, ("group",)):
        text, gold = row.get("query"), row.get("gold")
        if not isinstance(text, str) or not text.strip():
            raise _refuse(path, number, 'it has no "query"', QUERY_ROW)
        if not isinstance(gold, list) or not all(isinstance(id_value, str | int) for id_value in gold):
            raise _refuse(path, number, '"gold" is not a list of ids', QUERY_ROW)
        group, category = str(row["group"]), str(row.get("category") or "")
        numbered_questions.append((number, BenchQuestion(group, text, frozenset(map(str, gold)), category)))
    if not numbered_questions:
        raise FormatError(f"{path} has no rows", hint=f"a row is {QUERY_ROW}")
    return numbered_questions


def plant(memory: Path, entries: Sequence[BenchRow]) -> dict[str, str]:
    """Write one Markdown file an entry; returns the id behind each name."""
    memory.mkdir(mode=0o700, parents=True)
    ids: dict[str, str] = {}
    used: set[str] = set()
    for entry in entries:
        slug = make_slug(entry.id)[:90].rstrip("-_")  # a number still fits behind it
        names = chain([slug], (f"{slug}-{number}" for number in count(2)))  # ids that come out the same get a number
        name = next(name for name in names if fold(name) not in used)
        used.add(fold(name))
        ids[name] = entry.id
        (memory / f"{name}.md").write_bytes(render_bench_row(entry).encode("utf-8", "replace"))
    return ids


def render_bench_row(entry: BenchRow) -> str:
    first = one_line(next((line for line in entry.text.split("\n") if line.strip()), ""))
    modified = parse_date(entry.date)
    fields = {
        "name": shorten(first, 60) or "Untitled",
        "description": shorten(one_line(entry.description), DESCRIPTION_CHARS) or shorten(first, 150),
        "type": "project",
        "modified": modified.isoformat() if modified else None,
    }
    return compose_file(fields, entry.text, Dialect.NESTED)


def parse_date(text: str) -> datetime | None:
    """The forms that public sets use, read as UTC; None for any other."""
    if (when := read_time(text)) is not None:
        return when
    plain = re.sub(r"\s*\([A-Za-z]+\)", "", text.strip())  # without the weekday
    for form in _DATES:
        with suppress(ValueError):
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
    return None


def make_report(outcomes: Sequence[BenchOutcome], *, k: int, index_s: float, selector: str) -> BenchReport:
    names = sorted({outcome.category for outcome in outcomes if outcome.category})
    categories = {name: _count([outcome for outcome in outcomes if outcome.category == name]) for name in names}
    times = sorted(outcome.ms for outcome in outcomes)
    p50, p95 = (times[min(len(times) - 1, len(times) * percent // 100)] for percent in (50, 95))  # the nearest rank
    return BenchReport(k, _count(outcomes), categories, p50, p95, index_s, selector)


def _ask(
    store: FileStore, search: LocalSearch, question: BenchQuestion, ids: Mapping[str, str], k: int, now: datetime
) -> BenchOutcome:
    start = time.perf_counter()
    recalled = recall((store,), question.text, selector=search, now=now, limit=k)
    ms = (time.perf_counter() - start) * 1000
    picked = [ids[memory.header.name] for memory in recalled.memories]
    if gold := question.gold:
        figures = (not gold.isdisjoint(picked[:1]), not gold.isdisjoint(picked), gold.issubset(picked))
    else:
        figures = (not picked, not picked, not picked)
    return BenchOutcome(question.category, *figures, ms)


def _count(outcomes: Sequence[BenchOutcome]) -> BenchFigures:
    shares = (sum(getattr(one, key) for one in outcomes) / len(outcomes) for key in ("hit", "any", "all"))
    return BenchFigures(len(outcomes), *shares)


def _read_rows(path: Path, shape: str, ids: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line.decode("utf-8-sig"))
                except (ValueError, RecursionError):
                    raise _refuse(path, number, "it is not JSON", shape) from None
                if not isinstance(row, dict):
                    raise _refuse(path, number, "it is not an object", shape)
                for key in ids:
                    if isinstance(row.get(key), bool) or not isinstance(row.get(key), str | int) or row[key] == "":
                        raise _refuse(path, number, f'it has no "{key}"', shape)
                yield number, row
    except OSError as error:
        words = (error.strerror or type(error).__name__).lower()
        raise DiskError(f"cannot read {path}: {words}", path=str(path), hint="check the path") from None


def _refuse(path: Path, number: int, what: str, shape: str) -> FormatError:
    return FormatError(f"{path} line {number}: {what}", field="row", hint=f"a row is {shape}")


def render_report(report: BenchReport) -> str:
    """Return one line per category and one for all questions, with tabs between, then the times."""
    rows = [*report.categories.items(), ("all", report.all)]
    lines = ["\t".join((name, str(row.n), *(f"{share:.3f}" for share in row[1:]))) for name, row in rows]
    times = f"p50 {report.p50_ms:.1f} ms, p95 {report.p95_ms:.1f} ms, indexed in {report.index_s:.1f} s"
    return "\n".join([*lines, f"{times}, selector {report.selector}"])


def render_json(report: BenchReport) -> str:
    def name_shares(figures: BenchFigures) -> dict[str, Any]:
        return {name.replace("_k", f"_{report.k}"): round(value, 4) for name, value in figures._asdict().items()}

    categories = {name: name_shares(figures) for name, figures in report.categories.items()}
    times = {key: round(getattr(report, key), 3) for key in ("p50_ms", "p95_ms", "index_s")}
    answer = {"all": name_shares(report.all), "categories": categories, **times, "selector": report.selector}
    return json.dumps(answer, indent=2, ensure_ascii=False)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["recall"])
    parser.add_argument("--corpus", type=Path, required=True, help="memories, one JSON object per line")
    parser.add_argument("--queries", type=Path, required=True, help="questions and their correct answers")
    parser.add_argument("--k", type=int, default=SELECTED, help="number of memories per question")
    parser.add_argument("--no-semantic", action="store_true", help="match words only, not their meaning")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    if options.k < 1:
        parser.error("--k must be at least 1")
    try:
        semantic = not options.no_semantic
        report = bench_recall(options.corpus, options.queries, now=utc_now(), k=options.k, semantic=semantic)
    except MemdirError as error:
        print(f"{error}\n{error.hint}", file=sys.stderr)
        return 1
    print(render_json(report) if options.json else render_report(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
