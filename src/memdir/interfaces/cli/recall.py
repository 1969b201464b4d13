"""`recall`, `search`, `why` and `bench`: find memories, and measure how well they are found.

`bench` writes each group of a corpus as a memory directory and asks each question in a conversation of its own. It judges
by the identity of the memories alone, not by what a model would make of them.
"""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import click

from memdir.conversation.tool_calls import list_recent_tools
from memdir.conversation.transcripts import read_tail, search_transcripts
from memdir.errors import DiskError, FormatError, MemdirError
from memdir.format.frontmatter import compose_file, make_slug, read_time
from memdir.interfaces.cli import CliContext, Row, Styled, TableColumn, choose_stores, fill, make_skip_rows
from memdir.interfaces.cli.app import (
    CliVerb,
    VerbGroup,
    json_option,
    limit_option,
    name_argument,
    scope_option,
    verb,
)
from memdir.interfaces.cli.quick import RecallCall, show_recall
from memdir.limits import DESCRIPTION_CHARS, SELECTED
from memdir.operations.find import find_past
from memdir.project.paths import list_folders
from memdir.recall.find import search_memories
from memdir.recall.pipeline import recall
from memdir.recall.prefetch import select_beside
from memdir.recall.select import LocalSearch
from memdir.records import Dialect
from memdir.store.contract import utc_now
from memdir.store.files import FileStore
from memdir.store.state import note_problem
from memdir.text import fold, one_line, shorten

_TOOL_MESSAGES = 40  # the newest of a transcript, in which tools in use are found
_MEMORIES = (
    TableColumn("NAME", "cyan", "name", is_cut=True),
    TableColumn("LINE", "dim", "line"),
    TableColumn("TEXT", "", "snippet", is_cut=True),
)
_TRANSCRIPTS = (
    TableColumn("TRANSCRIPT", "cyan", lambda row: os.path.basename(row["path"]), is_cut=True),
    TableColumn("LINE", "dim", "line"),
    TableColumn("WHEN", "dim", "time", is_time=True),
    TableColumn("WHO", "magenta", "role"),
    TableColumn("TEXT", "", "snippet", is_cut=True),
)
_SURFACED = (
    TableColumn("WHEN", "dim", "at", is_time=True),
    TableColumn("SCORE", "bold", lambda row: f"{row['score']:.3f}"),
    TableColumn("QUESTION", "", "query", is_cut=True),
    TableColumn("SESSION", "dim", "session", is_cut=True),
    TableColumn("BY", "magenta", "selector"),
)


@verb(
    "recall", "What fits a question, by meaning; `search` finds exact words.",
    "memdir recall 'how do we deploy?'", "memdir recall --explain --no-semantic 'who reviews migrations?'",
)  # fmt: skip
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option("--session", metavar="ID", default="", help="The conversation: what it was given already is left out.")
@click.option("--tools", metavar="A,B", default="", help="Tools in use at the moment.")
@limit_option(None, "The best that match, up to so many; without it, only what surely helps.")
@click.option(
    "--explain", is_flag=True, help="Every candidate with the parts of its score; nothing counts as recalled by it."
)
@click.option("--no-semantic", is_flag=True, help="By the words alone, not by their meaning.")
@json_option
@click.pass_obj
def recall_verb(call: CliContext, /, **options: Any) -> None:
    """Print the memories that fit a question, or say why there are none: nothing is a good answer, and exits with 0.

    They come as a conversation would be given them: with their age, cut where they are long. `memdir why NAME` shows
    later for which questions a memory came up. In a pipe, --explain prints name, score, its three parts, the words
    that matched, and `selected` or why not, with tabs between.
    """
    show_recall(call, RecallCall(**options))


@click.command("select", hidden=True, cls=CliVerb, examples=("memdir select --session ID",))
@click.option(
    "--session", metavar="ID", required=True, help="The conversation that a prompt hook has left a question for."
)
@click.pass_obj
def select_verb(call: CliContext, session: str) -> None:
    """Select memories for a question that waits, quietly, for the next hook to show; a prompt hook starts this."""

    def read_tools(transcript: str) -> tuple[str, ...]:
        with suppress(MemdirError):  # not written yet, or of a host whose transcripts cannot be read
            return list_recent_tools(read_tail(transcript, _TOOL_MESSAGES)) if transcript else ()
        return ()

    project = call.open()
    try:
        select_beside(project, session, read_tools)
    except MemdirError as error:
        note_problem(project.private.state, "select", str(error), project.now())


@verb(
    "search", "Where certain words stand; `recall` finds by meaning.",
    "memdir search merge freeze", "memdir search --transcripts 'flaky test' --limit 5",
)  # fmt: skip
@click.argument("text", nargs=-1, required=True, metavar="TEXT")
@click.option("--transcripts", is_flag=True, help="Look into past conversations of this project too.")
@limit_option(20, "At most so many of each.")
@json_option
@click.pass_obj
def search_verb(call: CliContext, text: tuple[str, ...], transcripts: bool, limit: int, as_json: bool) -> None:
    """Find memories that hold every word of TEXT, in any case and form, with the line where they stand.

    With --transcripts also messages of past conversations that Claude Code has kept of this project, newest first. In
    a pipe each memory is one line: path, line, text; each message: path, line, time, who, text; with tabs between.
    """
    project, out, words = call.open(), call.out, " ".join(text)
    memories = [
        fill("name path scope line snippet", hit, hit.header)
        for hit in search_memories(project.stores, words, limit=limit)
    ]
    transcript_rows: list[Row] = []
    if transcripts:
        folders = list_folders(project.places, project.environment.claude_home, call.cwd)
        hits = search_transcripts(folders, words, limit=limit)
        transcript_rows = [fill("line role snippet", hit, path=hit.file, time=hit.at) for hit in hits]
    if as_json:
        out.json({"query": words, "memories": memories, "transcripts": transcript_rows if transcripts else None})
        return
    tables: list[tuple[Sequence[TableColumn], Sequence[Any]]] = [(_MEMORIES, memories), (_TRANSCRIPTS, transcript_rows)]
    for number, ((first, *others), rows) in enumerate([table for table in tables if table[1]]):
        if number and out.is_table:
            out.line()
        out.table((first if out.is_table else first._replace(cell="path"), *others), rows, project.now())
    if not memories and not transcript_rows and out.is_table:
        out.line("these words stand nowhere together")


@verb(
    "why",
    "For which questions a memory came up; `recall --explain` shows scores.",
    "memdir why terse-replies",
    "memdir why terse-replies --json",
)
@name_argument()
@limit_option(20, "At most so many; 0 all.", least=0)
@scope_option
@json_option
@click.pass_obj
def why_verb(call: CliContext, name: str, limit: int, scope: str | None, as_json: bool) -> None:
    """Show when and for which questions a memory was brought into a conversation, newest first, or that it never was.

    If it never was, the reasons for which recall brings nothing at all are listed; `memdir recall --explain QUESTION`
    shows why it did not come up for a certain one. In a pipe: time, score, question, session, selector, with tabs
    between.
    """
    project, out = call.open(), call.out
    store, past_name = find_past(choose_stores(project, scope), name, scope=scope, recalled=True)
    recalls = store.recalls(past_name)
    rows = [fill("at query session selector", entry, score=round(entry.score, 4)) for entry in recalls[: limit or None]]
    if as_json:
        facts = {"count": len(recalls), "surfaced": rows, "skip_reasons": make_skip_rows()}
        out.json({"name": past_name, "scope": store.scope, **facts})
    elif rows:
        if out.is_table:
            often = "once" if len(recalls) == 1 else f"{len(recalls)} times"
            out.line(Styled(past_name, "bold"), f" was recalled {often}")
        out.table(_SURFACED, rows, project.now())
    elif out.is_table:
        out.line(Styled(past_name, "bold"), " was never recalled. Recall brings nothing at all when")
        for skip in make_skip_rows():
            out.line(f"  {skip['words']}", Styled(f"  ({skip['reason']})", "dim"))


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group("bench", short_help="How well recall finds.", cls=VerbGroup)
def bench_verb() -> None:
    """Measure memdir on data with known answers."""


@bench_verb.command("recall", examples=("memdir bench recall --corpus corpus.jsonl --queries queries.jsonl --json",))
@click.option("--corpus", metavar="FILE", type=_FILE, required=True, help="Memories, a JSON object a line.")
@click.option("--queries", metavar="FILE", type=_FILE, required=True, help="Questions and their right answers.")
@limit_option(SELECTED, "How many memories a question gets.", name="--k")
@click.option("--no-semantic", is_flag=True, help="By the words alone, not by their meaning.")
@json_option
@click.pass_obj
def _bench_recall(call: CliContext, corpus: Path, queries: Path, k: int, no_semantic: bool, as_json: bool) -> None:
    """Run every question through recall as it is shipped, over real files in a throw-away directory for each group.

    A row of the corpus is {"id", "group", "text"} and may have "description" and "date"; a question is {"id", "group",
    "query", "gold": [ids], "category"}. One with no gold is answered right by nothing at all.
    """
    paths, now = (call.cwd / corpus, call.cwd / queries), call.environment.now or utc_now()

    def show(done: int, total: int) -> None:
        call.out.progress("questions", done, total)

    report = bench_recall(*paths, now=now, k=k, semantic=not no_semantic, on_progress=show)
    call.out.progress("")
    if as_json:
        figures = {name: _make_figures(category, k) for name, category in report.categories.items()}
        times = {key: round(getattr(report, key), 3) for key in ("p50_ms", "p95_ms", "index_s")}
        whole = _make_figures(report.all, k)
        call.out.json({"all": whole, "categories": figures, **times, "selector": report.selector})
        return
    columns = (
        TableColumn("CATEGORY", "cyan", lambda row: row[0]),
        TableColumn("N", "", lambda row: row[1].n),
        TableColumn("HIT@1", "", lambda row: f"{row[1].hit_at_1:.3f}"),
        TableColumn(f"ANY@{k}", "", lambda row: f"{row[1].any_at_k:.3f}"),
        TableColumn(f"ALL@{k}", "", lambda row: f"{row[1].all_at_k:.3f}"),
    )
    call.out.table(columns, [*report.categories.items(), ("all", report.all)])
    times_shown = f"p50 {report.p50_ms:.1f} ms, p95 {report.p95_ms:.1f} ms, indexed in {report.index_s:.1f} s"
    call.out.line(Styled(f"{times_shown}, selector {report.selector}", "dim"))


def _make_figures(figures: "BenchFigures", k: int) -> dict[str, Any]:
    return {name.replace("_k", f"_{k}"): round(value, 4) for name, value in figures._asdict().items()}


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
            raise _refuse(path, number, '"gold" is no list of ids', QUERY_ROW)
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
