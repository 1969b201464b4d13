"""`bench`: how well recall finds, on data with known answers."""

from pathlib import Path
from typing import Any

import click

from memdir.bench import Figures, Report, bench_recall
from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.output import Styled
from memdir.doors.cli.verb import VerbGroup, json_option
from memdir.frozen import asdict
from memdir.limits import SELECTED
from memdir.store.contract import utc_now

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("bench", short_help="How well recall finds.", cls=VerbGroup)
def bench_verb() -> None:
    """Measure memdir on data with known answers."""


@bench_verb.command(
    "recall",
    examples=("memdir bench recall --corpus corpus.jsonl --queries queries.jsonl --json",),
)
@click.option("--corpus", metavar="FILE", type=_FILE, required=True, help="Memories, a JSON object a line.")
@click.option("--queries", metavar="FILE", type=_FILE, required=True, help="Questions and their right answers.")
@click.option(
    "--k", type=click.IntRange(min=1), default=SELECTED, show_default=True, help="How many memories a question gets."
)
@click.option("--no-semantic", is_flag=True, help="By the words alone, not by their meaning.")
@json_option
@click.pass_obj
def _recall(call: Call, corpus: Path, queries: Path, k: int, no_semantic: bool, as_json: bool) -> None:
    """Run every question through recall as it is shipped, over real files in a throw-away directory for each group.

    A row of the corpus is {"id", "group", "text"} and may have "description" and "date"; a question is {"id", "group",
    "query", "gold": [ids], "category"}. One with no gold is answered right by nothing at all.
    """
    report = bench_recall(
        call.cwd / corpus,
        call.cwd / queries,
        now=call.environment.now or utc_now(),
        k=k,
        semantic=not no_semantic,
        on_progress=lambda done, total: call.out.progress(f"{done} of {total} questions"),
    )
    call.out.progress("")
    if as_json:
        call.out.json(_make_answer(report))
    else:
        _show(call, report)


def _make_answer(report: Report) -> dict[str, Any]:
    return {
        "all": _make_figures(report.all, report.k),
        "categories": {name: _make_figures(at, report.k) for name, at in report.categories.items()},
        "p50_ms": round(report.p50_ms, 3),
        "p95_ms": round(report.p95_ms, 3),
        "index_s": round(report.index_s, 3),
        "selector": report.selector,
    }


def _make_figures(figures: Figures, k: int) -> dict[str, Any]:
    return {name.replace("_k", f"_{k}"): round(value, 4) for name, value in asdict(figures).items()}


def _show(call: Call, report: Report) -> None:
    columns = (Column("CATEGORY", "cyan"), *map(Column, ("N", "HIT@1", f"ANY@{report.k}", f"ALL@{report.k}")))
    rows = [*report.categories.items(), ("all", report.all)]
    call.out.table(columns, [_make_cells(name, figures) for name, figures in rows])
    times = f"p50 {report.p50_ms:.1f} ms, p95 {report.p95_ms:.1f} ms, indexed in {report.index_s:.1f} s"
    call.out.line(Styled(f"{times}, selector {report.selector}", "dim"))


def _make_cells(name: str, at: Figures) -> list[str]:
    return [name, str(at.n), *(f"{share:.3f}" for share in (at.hit_at_1, at.any_at_k, at.all_at_k))]
