"""How well recall finds: a corpus and questions with known answers, run through the shipped path on real files.

Each group of the corpus becomes a memory directory of Markdown files; each question is a conversation of its own, with
every gate and the floor as a person would meet them. Nothing is special-cased: what is measured is `recall` over the
local index, and a question that recall does not answer counts as a miss.

It judges by the identity of the memories alone, not by what a model would make of them.
"""

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memdir.drafts import make_slug
from memdir.errors import DiskError, FormatError
from memdir.frontmatter import compose
from memdir.frozen import dataclass
from memdir.limits import DESCRIPTION_CHARS, SELECTED
from memdir.recall import recall
from memdir.records import Dialect
from memdir.search.local import LocalSearch
from memdir.store.contract import read_time
from memdir.store.files import FileStore
from memdir.text import fold, one_line, shorten

CORPUS_ROW = '{"id", "group", "text"} with, where known, "description" and "date"'
QUERY_ROW = '{"id", "group", "query", "gold": [ids], "category"}'
_TITLE_CHARS, _LINE_CHARS = 60, 150
_LEAF_CHARS = 90  # of a name, so that a number still fits behind it
_WEEKDAY = re.compile(r"\s*\([A-Za-z]+\)")
_DATES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y/%m/%d")


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a corpus."""

    id: str
    text: str
    description: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One row of the queries; no gold means that nothing is the right answer."""

    group: str
    text: str
    gold: frozenset[str]
    category: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one question."""

    category: str
    hit: bool
    any: bool
    all: bool
    ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Shares of `n` questions: the first pick was right, any of the first k, all that were wanted among them."""

    n: int
    hit_at_1: float
    any_at_k: float
    all_at_k: float


@dataclass(frozen=True, slots=True)
class Report:
    k: int
    all: Figures
    categories: Mapping[str, Figures]
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
) -> Report:
    """Run all questions; raises FormatError for a row that cannot be used and DiskError for a file that cannot."""
    groups, questions = read_corpus(corpus), read_queries(queries)
    asked: dict[str, list[Question]] = {}
    for number, question in questions:
        if question.group not in groups:
            raise _refuse(queries, number, f"its group {question.group!r} is not in the corpus", QUERY_ROW)
        asked.setdefault(question.group, []).append(question)
    outcomes: list[Outcome] = []
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


def read_corpus(path: Path) -> dict[str, list[Entry]]:
    """The entries of each group, in the order of the file. Public sets repeat ids: each row is a file of its own."""
    groups: dict[str, list[Entry]] = {}
    for number, row in _read_rows(path, CORPUS_ROW):
        id_, group = (_take_id(path, number, row, key, CORPUS_ROW) for key in ("id", "group"))
        text = row.get("text")
        if not isinstance(text, str):
            raise _refuse(path, number, 'it has no "text"', CORPUS_ROW)
        entry = Entry(id_, text, *(str(row.get(key) or "") for key in ("description", "date")))
        groups.setdefault(group, []).append(entry)
    return groups


def read_queries(path: Path) -> list[tuple[int, Question]]:
    """Every question with its line."""
    found: list[tuple[int, Question]] = []
    for number, row in _read_rows(path, QUERY_ROW):
        group = _take_id(path, number, row, "group", QUERY_ROW)
        text, gold = row.get("query"), row.get("gold")
        if not isinstance(text, str) or not text.strip():
            raise _refuse(path, number, 'it has no "query"', QUERY_ROW)
        if not isinstance(gold, list) or not all(isinstance(at, str | int) for at in gold):
            raise _refuse(path, number, '"gold" is no list of ids', QUERY_ROW)
        question = Question(group, text, frozenset(map(str, gold)), str(row.get("category") or ""))
        found.append((number, question))
    if not found:
        raise FormatError(f"{path} has no rows", hint=f"a row is {QUERY_ROW}")
    return found


def plant(memory: Path, entries: Sequence[Entry]) -> dict[str, str]:
    """One Markdown file an entry; answers the id behind each name."""
    memory.mkdir(mode=0o700, parents=True)
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for entry in entries:
        name = _make_name(entry.id, taken)
        ids[name] = entry.id
        (memory / f"{name}.md").write_bytes(render_entry(entry).encode("utf-8", "replace"))
    return ids


def render_entry(entry: Entry) -> str:
    first = next((line for line in entry.text.split("\n") if line.strip()), "")
    described = shorten(one_line(entry.description), DESCRIPTION_CHARS)
    modified = parse_date(entry.date)
    fields = {
        "name": shorten(one_line(first), _TITLE_CHARS) or "Untitled",
        "description": described or shorten(one_line(first), _LINE_CHARS),
        "type": "project",
        "modified": modified.isoformat() if modified else None,
    }
    return compose(fields, entry.text, Dialect.NESTED)


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


def make_report(outcomes: Sequence[Outcome], *, k: int, index_s: float, selector: str) -> Report:
    by_category: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.category:
            by_category.setdefault(outcome.category, []).append(outcome)
    times = sorted(outcome.ms for outcome in outcomes)
    return Report(
        k,
        _count(outcomes),
        {name: _count(some) for name, some in sorted(by_category.items())},
        _find_percentile(times, 50),
        _find_percentile(times, 95),
        index_s,
        selector,
    )


def _ask(
    store: FileStore, search: LocalSearch, question: Question, ids: Mapping[str, str], k: int, now: datetime
) -> Outcome:
    start = time.perf_counter()
    found = recall((store,), question.text, selector=search, now=now, limit=k)
    ms = (time.perf_counter() - start) * 1000
    picked = [ids[memory.header.name] for memory in found.memories]
    if not question.gold:
        return Outcome(question.category, not picked, not picked, not picked, ms)
    is_hit = bool(picked) and picked[0] in question.gold
    return Outcome(question.category, is_hit, bool(question.gold & set(picked)), question.gold <= set(picked), ms)


def _count(outcomes: Sequence[Outcome]) -> Figures:
    n = len(outcomes)
    return Figures(n, *(sum(at) / n for at in zip(*((one.hit, one.any, one.all) for one in outcomes), strict=True)))


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
