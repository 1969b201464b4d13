"""What `recall` answers, on a terminal, in a pipe and as JSON. No word here of how it was asked."""

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from memdir.conversation.transcripts import TranscriptHit, list_folders, search_transcripts
from memdir.errors import DiskError, FormatError
from memdir.format.age import render_age
from memdir.format.drafts import make_slug
from memdir.format.frontmatter import compose_file
from memdir.frozen import asdict, dataclass
from memdir.interfaces.cli import CliContext, CliVerb, RecallCall, VerbGroup, json_option, name_argument, scope_option
from memdir.interfaces.cli.names import find_surfaced
from memdir.interfaces.cli.output import Output, Styled, TableColumn, make_skip_rows, make_time, show_time
from memdir.limits import DESCRIPTION_CHARS, SELECTED
from memdir.recall.find import SearchHit, search_memories
from memdir.recall.pipeline import RecallResult, RecallSkip, recall, recall_in_project
from memdir.recall.select import LocalSearch
from memdir.records import Dialect, Excerpt, Pick, Surfacing
from memdir.store.contract import read_time, utc_now
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.text import fold, one_line, shorten

# --- answering ---

_STEP = 200  # so many files are read in a fraction of a second; fewer are not worth a word
_COLUMNS = (
    TableColumn("NAME", "cyan", is_cut=True),
    TableColumn("SCORE", "bold"),
    TableColumn("WORDS"),
    TableColumn("MEANING"),
    TableColumn("PRIOR"),
    TableColumn("MATCHED", "magenta", is_cut=True),
    TableColumn("WHY", "dim", is_cut=True),
)


def answer(call: CliContext, wish: RecallCall) -> None:
    opened = call.open()
    found = recall_in_project(
        opened,
        " ".join(wish.query),
        session=wish.session,
        tools=tuple(tool.strip() for tool in wish.tools.split(",") if tool.strip()),
        limit=wish.limit,
        semantic=not wish.no_semantic,
        peek=wish.explain,
        on_read=lambda count: _show_reading(call.out, count),
    )
    call.out.progress("")
    if wish.as_json:
        call.out.json(_make_answer(found, opened, explain=wish.explain))
        return
    if wish.explain and found.picks:
        call.out.table(_COLUMNS, [_make_cells(pick) for pick in found.picks])
    elif found.memories:
        _show(call.out, found, opened)
    if found.skipped is not None and not (wish.explain and found.picks and not call.out.is_table):
        call.out.line(_say_why(found.skipped))


def _show_reading(out: Output, count: int) -> None:
    if count % _STEP == 0:
        out.progress(f"reading memories into the index: {count:,}")


def _make_answer(found: RecallResult, opened: Project, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "query": found.query,
        "selector": found.selector,
        "memories": [_make_row(excerpt, opened) for excerpt in found.memories],
        "skipped": found.skipped.value if found.skipped else None,
        "elapsed_ms": round(found.elapsed_ms, 2),
    }
    return answer | {"candidates": [_make_candidate(pick) for pick in found.picks]} if explain else answer


def _make_row(excerpt: Excerpt, opened: Project) -> dict[str, Any]:
    header = excerpt.header
    return {
        "name": header.name,
        "path": excerpt.path,
        "type": header.kind.value if header.kind else None,
        "scope": header.scope.value,
        "description": header.description,
        "modified": make_time(header.modified),
        "age": render_age(excerpt.dated, opened.now().astimezone()),
        "since": make_time(excerpt.dated),
        "caveat": excerpt.caveat,
        "score": round(excerpt.score, 4),
        "truncated": excerpt.truncated,
        "author": excerpt.author or None,
    }


def _make_candidate(pick: Pick) -> dict[str, Any]:
    parts = pick.evidence
    return {
        "name": pick.header.name,
        "scope": pick.header.scope.value,
        "score": round(pick.score, 4),
        "lexical": round(parts.lexical, 4),
        "semantic": round(parts.semantic, 4),
        "prior": round(parts.prior, 4),
        "words": list(parts.words),
        "dropped": pick.dropped or None,
    }


def _make_cells(pick: Pick) -> list[str]:
    parts = pick.evidence
    numbers = (pick.score, parts.lexical, parts.semantic, parts.prior)
    return [pick.header.name, *(f"{at:.3f}" for at in numbers), " ".join(parts.words), pick.dropped or "taken"]


def _say_why(skip: RecallSkip) -> str:
    return "nothing here fits" if skip is RecallSkip.NOTHING_FITS else f"nothing is recalled: {skip.words}"


def _show(out: Output, found: RecallResult, opened: Project) -> None:
    # Imported here: the tables against forged reminders are large, and JSON shows no memory's text.
    from memdir.recall.reminder import render_reminder

    now = opened.now().astimezone()
    for number, excerpt in enumerate(found.memories):
        header = excerpt.header
        if number:
            out.line()
        scope = f"{header.scope.value} by {excerpt.author}" if excerpt.author else header.scope.value
        facts = (header.kind or "no type", scope, render_age(excerpt.dated, now))
        out.line(Styled(header.name, "bold"), Styled(f"  {' · '.join(facts)}", "dim"))
        if header.description:
            out.line(header.description)
        out.line()
        out.block("\n".join(f"  {line}".rstrip() for line in render_reminder(excerpt, now=now).split("\n")))


# --- recalling ---
# `recall`: what fits a question.


@click.command(
    "recall",
    short_help="What fits a question.",
    cls=CliVerb,
    examples=("memdir recall 'how do we deploy?'", "memdir recall --explain --no-semantic 'who reviews migrations?'"),
)
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option("--session", metavar="ID", default="", help="The conversation: what it was given already is left out.")
@click.option("--tools", metavar="A,B", default="", help="Tools in use at the moment.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=SELECTED, show_default=True, help="At most so many memories."
)
@click.option(
    "--explain", is_flag=True, help="Every candidate with the parts of its score; nothing counts as recalled by it."
)
@click.option("--no-semantic", is_flag=True, help="By the words alone, not by their meaning.")
@json_option
@click.pass_obj
def recall_verb(call: CliContext, /, **options: Any) -> None:
    """Print the memories that fit a question, or say why there are none: nothing is a good answer, and exits with 0.

    They come as a conversation would be given them: with their age, cut where they are long. `memdir why NAME` tells
    later for which questions a memory came up. In a pipe, --explain prints name, score, its three parts, the words
    that matched, and `taken` or why not, with tabs between.
    """
    answer(call, RecallCall(**options))


# --- searching ---
# `search`: plain search over memories and past transcripts, with the place.

_LIMIT = 20
_MEMORIES = (TableColumn("NAME", "cyan", is_cut=True), TableColumn("LINE", "dim"), TableColumn("TEXT", is_cut=True))
_TRANSCRIPTS = (
    TableColumn("TRANSCRIPT", "cyan", is_cut=True),
    TableColumn("LINE", "dim"),
    TableColumn("WHEN", "dim"),
    TableColumn("WHO", "magenta"),
    TableColumn("TEXT", is_cut=True),
)


@click.command(
    "search",
    short_help="Where certain words stand.",
    cls=CliVerb,
    examples=("memdir search merge freeze", "memdir search --transcripts 'flaky test' --limit 5"),
)
@click.argument("text", nargs=-1, required=True, metavar="TEXT")
@click.option("--transcripts", is_flag=True, help="Look into past conversations of this project too.")
@click.option("--limit", type=click.IntRange(min=1), default=_LIMIT, show_default=True, help="At most so many of each.")
@json_option
@click.pass_obj
def search_verb(call: CliContext, text: tuple[str, ...], transcripts: bool, limit: int, as_json: bool) -> None:
    """Find memories that hold every word of TEXT, in any case and form, with the line where they stand.

    With --transcripts also messages of past conversations that Claude Code has kept of this project, newest first. In
    a pipe each memory is one line: path, line, text; each message: path, line, time, who, text; with tabs between.
    """
    opened = call.open()
    words = " ".join(text)
    hits = search_memories(opened.stores, words, limit=limit)
    said: tuple[TranscriptHit, ...] = ()
    if transcripts:
        folders = list_folders(opened.places, opened.environment.claude_home, call.cwd)
        said = search_transcripts(folders, words, limit=limit)
    if as_json:
        rows = [_searching_make_row(at) for at in said] if transcripts else None
        call.out.json({"query": words, "memories": [_make_hit_row(hit) for hit in hits], "transcripts": rows})
    else:
        _searching_show(call.out, opened, hits, said)


def _make_hit_row(hit: SearchHit) -> dict[str, Any]:
    return {
        "name": hit.header.name,
        "path": hit.path,
        "scope": hit.header.scope.value,
        "line": hit.line,
        "snippet": hit.snippet,
    }


def _searching_make_row(said: TranscriptHit) -> dict[str, Any]:
    return {
        "path": said.file,
        "line": said.line,
        "time": make_time(said.at) if said.at else None,
        "role": said.role,
        "snippet": said.snippet,
    }


def _searching_show(out: Output, opened: Project, hits: tuple[SearchHit, ...], said: tuple[TranscriptHit, ...]) -> None:
    if hits:
        names = [at.header.name if out.is_table else at.path for at in hits]
        out.table(_MEMORIES, [[name, str(at.line), at.snippet] for name, at in zip(names, hits, strict=True)])
    if hits and said and out.is_table:
        out.line()
    if said:
        out.table(_TRANSCRIPTS, [_searching_make_cells(at, out, opened) for at in said])
    if not hits and not said and out.is_table:
        out.line("these words stand nowhere together")


def _searching_make_cells(said: TranscriptHit, out: Output, opened: Project) -> list[str]:
    when = show_time(out, said.at, opened.now()) if said.at else ""
    file = os.path.basename(said.file) if out.is_table else said.file
    return [file, str(said.line), when, said.role, said.snippet]


# --- telling ---
# `why`: when and for which question a memory was surfaced.

_TELLING_LIMIT = 20
_TELLING_COLUMNS = (
    TableColumn("WHEN", "dim"),
    TableColumn("SCORE", "bold"),
    TableColumn("QUESTION", is_cut=True),
    TableColumn("SESSION", "dim", is_cut=True),
    TableColumn("BY", "magenta"),
)


@click.command(
    "why",
    short_help="For which questions a memory came up.",
    cls=CliVerb,
    examples=("memdir why terse-replies", "memdir why terse-replies --json"),
)
@name_argument()
@click.option(
    "--limit", type=click.IntRange(min=0), default=_TELLING_LIMIT, show_default=True, help="At most so many; 0 all."
)
@scope_option
@json_option
@click.pass_obj
def why_verb(call: CliContext, name: str, limit: int, scope: str | None, as_json: bool) -> None:
    """Tell when and for which questions a memory was brought into a conversation, newest first, or that it never was.

    If it never was, the reasons for which recall brings nothing at all are listed; `memdir recall --explain QUESTION`
    shows why it did not come up for a certain one. In a pipe: time, score, question, session, selector, with tabs
    between.
    """
    opened = call.open()
    store, found = find_surfaced(opened, name, scope)
    rows = store.recalls(found)
    shown = rows[: limit or None]
    if as_json:
        call.out.json(_telling_make_answer(store, found, rows, shown))
        return
    if rows:
        if call.out.is_table:
            often = "once" if len(rows) == 1 else f"{len(rows)} times"
            call.out.line(Styled(found, "bold"), f" was recalled {often}")
        times = [show_time(call.out, row.at, opened.now()) for row in shown]
        facts = [[f"{row.score:.3f}", row.query, row.session, row.selector] for row in shown]
        call.out.table(_TELLING_COLUMNS, [[when, *fact] for when, fact in zip(times, facts, strict=True)])
    elif call.out.is_table:
        call.out.line(Styled(found, "bold"), " was never recalled. Recall brings nothing at all when")
        for skip in make_skip_rows():
            call.out.line(f"  {skip['words']}", Styled(f"  ({skip['reason']})", "dim"))


def _telling_make_answer(
    store: FileStore, name: str, rows: tuple[Surfacing, ...], shown: tuple[Surfacing, ...]
) -> dict[str, Any]:
    return {
        "name": name,
        "scope": store.scope.value,
        "count": len(rows),
        "surfaced": [
            {
                "at": make_time(row.at),
                "query": row.query,
                "session": row.session,
                "selector": row.selector,
                "score": round(row.score, 4),
            }
            for row in shown
        ],
        "skip_reasons": make_skip_rows(),
    }


# --- bench ---
# How well recall finds: a corpus and questions with known answers, run through the shipped path on real files.
#
# Each group of the corpus becomes a memory directory of Markdown files; each question is a conversation of its own,
# with
# every gate and the floor as a person would meet them. Nothing is special-cased: what is measured is `recall` over the
# local index, and a question that recall does not answer counts as a miss.
#
# It judges by the identity of the memories alone, not by what a model would make of them.

CORPUS_ROW = '{"id", "group", "text"} with, where known, "description" and "date"'
QUERY_ROW = '{"id", "group", "query", "gold": [ids], "category"}'
_TITLE_CHARS, _LINE_CHARS = 60, 150
_LEAF_CHARS = 90  # of a name, so that a number still fits behind it
_WEEKDAY = re.compile(r"\s*\([A-Za-z]+\)")
_DATES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y/%m/%d")


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One row of a corpus."""

    id: str
    text: str
    description: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class BenchQuestion:
    """One row of the queries; no gold means that nothing is the right answer."""

    group: str
    text: str
    gold: frozenset[str]
    category: str = ""


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """What came of one question."""

    category: str
    hit: bool
    any: bool
    all: bool
    ms: float


@dataclass(frozen=True, slots=True)
class BenchFigures:
    """Shares of `n` questions: the first pick was right, any of the first k, all that were wanted among them."""

    n: int
    hit_at_1: float
    any_at_k: float
    all_at_k: float


@dataclass(frozen=True, slots=True)
class BenchReport:
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
    for group, wanted in asked.items():
        with tempfile.TemporaryDirectory(prefix="memdir-bench-") as folder:
            memory = Path(folder) / "memory"
            ids = plant(memory, groups[group])
            with FileStore(memory) as store, LocalSearch((store,), semantic=semantic) as search:
                start = time.perf_counter()
                search.refresh()
                index_s += time.perf_counter() - start
                selector = search.name
                for question in wanted:
                    outcomes.append(_ask(store, search, question, ids, k, now))
                    on_progress(len(outcomes), len(questions))
    return make_report(outcomes, k=k, index_s=index_s, selector=selector)


def read_corpus(path: Path) -> dict[str, list[BenchRow]]:
    """The entries of each group, in the order of the file. Public sets repeat ids: each row is a file of its own."""
    groups: dict[str, list[BenchRow]] = {}
    for number, row in _read_rows(path, CORPUS_ROW):
        id_, group = (_take_id(path, number, row, key, CORPUS_ROW) for key in ("id", "group"))
        text = row.get("text")
        if not isinstance(text, str):
            raise _refuse(path, number, 'it has no "text"', CORPUS_ROW)
        entry = BenchRow(id_, text, *(str(row.get(key) or "") for key in ("description", "date")))
        groups.setdefault(group, []).append(entry)
    return groups


def read_queries(path: Path) -> list[tuple[int, BenchQuestion]]:
    """Every question with its line."""
    found: list[tuple[int, BenchQuestion]] = []
    for number, row in _read_rows(path, QUERY_ROW):
        group = _take_id(path, number, row, "group", QUERY_ROW)
        text, gold = row.get("query"), row.get("gold")
        if not isinstance(text, str) or not text.strip():
            raise _refuse(path, number, 'it has no "query"', QUERY_ROW)
        if not isinstance(gold, list) or not all(isinstance(at, str | int) for at in gold):
            raise _refuse(path, number, '"gold" is no list of ids', QUERY_ROW)
        question = BenchQuestion(group, text, frozenset(map(str, gold)), str(row.get("category") or ""))
        found.append((number, question))
    if not found:
        raise FormatError(f"{path} has no rows", hint=f"a row is {QUERY_ROW}")
    return found


def plant(memory: Path, entries: Sequence[BenchRow]) -> dict[str, str]:
    """One Markdown file an entry; answers the id behind each name."""
    memory.mkdir(mode=0o700, parents=True)
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for entry in entries:
        name = _make_name(entry.id, taken)
        ids[name] = entry.id
        (memory / f"{name}.md").write_bytes(render_bench_row(entry).encode("utf-8", "replace"))
    return ids


def render_bench_row(entry: BenchRow) -> str:
    first = next((line for line in entry.text.split("\n") if line.strip()), "")
    described = shorten(one_line(entry.description), DESCRIPTION_CHARS)
    modified = parse_date(entry.date)
    fields = {
        "name": shorten(one_line(first), _TITLE_CHARS) or "Untitled",
        "description": described or shorten(one_line(first), _LINE_CHARS),
        "type": "project",
        "modified": modified.isoformat() if modified else None,
    }
    return compose_file(fields, entry.text, Dialect.NESTED)


def parse_date(text: str) -> datetime | None:
    """The forms that public sets use, taken as UTC; None for any other."""
    if (when := read_time(text)) is not None:
        return when
    plain = _WEEKDAY.sub("", text.strip())
    for form in _DATES:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def make_report(outcomes: Sequence[BenchOutcome], *, k: int, index_s: float, selector: str) -> BenchReport:
    by_category: dict[str, list[BenchOutcome]] = {}
    for outcome in outcomes:
        if outcome.category:
            by_category.setdefault(outcome.category, []).append(outcome)
    times = sorted(outcome.ms for outcome in outcomes)
    return BenchReport(
        k,
        _count(outcomes),
        {name: _count(some) for name, some in sorted(by_category.items())},
        _find_percentile(times, 50),
        _find_percentile(times, 95),
        index_s,
        selector,
    )


def _ask(
    store: FileStore, search: LocalSearch, question: BenchQuestion, ids: Mapping[str, str], k: int, now: datetime
) -> BenchOutcome:
    start = time.perf_counter()
    found = recall((store,), question.text, selector=search, now=now, limit=k)
    ms = (time.perf_counter() - start) * 1000
    picked = [ids[memory.header.name] for memory in found.memories]
    if not question.gold:
        return BenchOutcome(question.category, not picked, not picked, not picked, ms)
    is_hit = bool(picked) and picked[0] in question.gold
    return BenchOutcome(question.category, is_hit, bool(question.gold & set(picked)), question.gold <= set(picked), ms)


def _count(outcomes: Sequence[BenchOutcome]) -> BenchFigures:
    n = len(outcomes)
    return BenchFigures(
        n, *(sum(at) / n for at in zip(*((one.hit, one.any, one.all) for one in outcomes), strict=True))
    )


def _find_percentile(ordered: Sequence[float], percent: int) -> float:
    """The nearest rank."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _make_name(id_: str, taken: set[str]) -> str:
    """A file name from an id; ids that come out the same get a number."""
    slug = make_slug(id_)[:_LEAF_CHARS].rstrip("-_")
    name, number = slug, 1
    while fold(name) in taken:
        number += 1
        name = f"{slug}-{number}"
    taken.add(fold(name))
    return name


def _read_rows(path: Path, shape: str) -> Iterator[tuple[int, dict[str, object]]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _parse_row(path, number, line, shape)
    except OSError as error:
        words = (error.strerror or type(error).__name__).lower()
        raise DiskError(f"cannot read {path}: {words}", path=str(path), hint="check the path") from None


def _parse_row(path: Path, number: int, line: bytes, shape: str) -> dict[str, object]:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise _refuse(path, number, "it is not JSON", shape) from None
    if not isinstance(row, dict):
        raise _refuse(path, number, "it is not an object", shape)
    return row


def _take_id(path: Path, number: int, row: Mapping[str, object], key: str, shape: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise _refuse(path, number, f'it has no "{key}"', shape)
    return str(value)


def _refuse(path: Path, number: int, what: str, shape: str) -> FormatError:
    return FormatError(f"{path} line {number}: {what}", field="row", hint=f"a row is {shape}")


# --- benching ---
# `bench`: how well recall finds, on data with known answers.

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
def _recall(call: CliContext, corpus: Path, queries: Path, k: int, no_semantic: bool, as_json: bool) -> None:
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
        call.out.json(_benching_make_answer(report))
    else:
        _benching_show(call, report)


def _benching_make_answer(report: BenchReport) -> dict[str, Any]:
    return {
        "all": _make_figures(report.all, report.k),
        "categories": {name: _make_figures(at, report.k) for name, at in report.categories.items()},
        "p50_ms": round(report.p50_ms, 3),
        "p95_ms": round(report.p95_ms, 3),
        "index_s": round(report.index_s, 3),
        "selector": report.selector,
    }


def _make_figures(figures: BenchFigures, k: int) -> dict[str, Any]:
    return {name.replace("_k", f"_{k}"): round(value, 4) for name, value in asdict(figures).items()}


def _benching_show(call: CliContext, report: BenchReport) -> None:
    columns = (TableColumn("CATEGORY", "cyan"), *map(TableColumn, ("N", "HIT@1", f"ANY@{report.k}", f"ALL@{report.k}")))
    rows = [*report.categories.items(), ("all", report.all)]
    call.out.table(columns, [_benching_make_cells(name, figures) for name, figures in rows])
    times = f"p50 {report.p50_ms:.1f} ms, p95 {report.p95_ms:.1f} ms, indexed in {report.index_s:.1f} s"
    call.out.line(Styled(f"{times}, selector {report.selector}", "dim"))


def _benching_make_cells(name: str, at: BenchFigures) -> list[str]:
    return [name, str(at.n), *(f"{share:.3f}" for share in (at.hit_at_1, at.any_at_k, at.all_at_k))]
