"""What the dream by rules is measured by, written before there were rules; and a directory to plant it in.

- `dream_pairs.jsonl`: facts, each with rewordings in some of five ways. A rewording says the same: numbers, dates,
  names, negations and units agree. A `clause` is one that was added; whoever unites the two keeps it.
- `dream_lookalikes.jsonl`: two memories that differ in one number, date, name, negation or unit, and must stay two. Of
  most the rest is the same word for word; where `reworded`, it says the same in other words.
- `contradictions.jsonl`: two statements of which at most one can hold, or two that only look so, and why they do not:
  another subject or attribute, compatible values, one more specific, or past and present told apart by dates.
- `dream_relative.jsonl`: project memories with the day they were written on, the phrase in them that is relative to it
  (`was`) and the absolute one that is right (`want`), whatever `memdir.language.dates` makes of it.
- `dream_index.jsonl`: lines of an index that point nowhere, and over-long ones; `keep` stands in the line alone.

The background comes from the public LoCoMo observations, which are no part of the project: the first, third and fifth
group of the file, every second one. It judges nothing and knows nothing of the rules.
"""

import json
import os
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import BenchQuestion, BenchRow, parse_date, read_corpus, read_queries, render_bench_row
from loads import ROOT
from memdir.format.frontmatter import compose_file, make_slug
from memdir.format.index import INDEX_FILE, render_line
from memdir.frozen import dataclass
from memdir.records import Dialect, Kind
from memdir.text import fold

DATA = Path(__file__).parents[1] / "data"
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)  # the newest planted memory is a day older
DUPLICATES, MISSING = 60, 30
_OLDEST_DAYS = 70  # of what has no date of its own
_PROSE = "Lists are kept by hand; what is not in one is still found."


@dataclass(frozen=True, slots=True)
class Note:
    """A memory as it is written, without its file."""

    kind: Kind
    title: str
    description: str
    body: str


@dataclass(frozen=True, slots=True)
class Planted:
    """Names of what lies in the folder. `ids` leads from background names, copies too, to rows of the public set."""

    folder: Path
    background: tuple[str, ...]
    duplicates: tuple[tuple[str, str], ...]
    lookalikes: tuple[tuple[Any, str, str], ...]
    relative: tuple[tuple[Any, str], ...]
    long: tuple[tuple[Any, str], ...]
    ids: Mapping[str, str]
    questions: tuple[BenchQuestion, ...]
    skipped: str


def read_rows(name: str) -> list[Any]:
    """The rows of a file of `data/`, their fields as attributes."""
    text = (DATA / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line, object_hook=lambda fields: SimpleNamespace(**fields)) for line in text.splitlines()]


def make_note(row: Any, kind: str = "") -> Note:
    return Note(Kind(kind or row.kind), row.title, row.description, row.body)


def find_bench() -> Path | None:
    """The folder of the LoCoMo observations, if it is there."""
    home = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench") / "locomo_observations"
    return home if (home / "corpus.jsonl").exists() else None


def read_background(count: int, *, seed: int) -> tuple[list[BenchRow], list[BenchQuestion]]:
    """So many rows of the even groups, no text and no id twice, and the questions that these rows answer whole."""
    home = find_bench()
    if home is None:
        return [], []
    groups = read_corpus(home / "corpus.jsonl")
    ours = set(list(groups)[::2])
    rows = {entry.id: entry for group in groups if group in ours for entry in reversed(groups[group])}
    rows = {entry.id: entry for entry in {fold(entry.text): entry for entry in rows.values()}.values()}
    chosen = random.Random(f"background/{seed}").sample(sorted(rows.values(), key=lambda entry: entry.id), count)
    held = {entry.id for entry in chosen}
    asked = [question for _, question in read_queries(home / "queries.jsonl") if question.group in ours]
    return chosen, [question for question in asked if question.gold and question.gold <= held]


def plant(store_folder: Path, *, background: int = 300, seed: int = 0) -> Planted:
    """A memory directory with all of it, the same for the same seed; without the public data it has no background.

    Of each fact the first rewording is planted: every way has its share of them. Copies are copies of the background,
    or without one of the facts. What lacks its pointer is a side of a look-alike, which nothing may merge.
    """
    entries, questions = read_background(background, seed=seed) if background else ([], [])
    bed = _Bed(store_folder, random.Random(f"plant/{seed}"))
    ids = {bed.put_entry(entry): entry.id for entry in entries}
    facts = [
        (bed.put(make_note(row)), bed.put(make_note(row.rewordings[0], row.kind)))[0]
        for row in read_rows("dream_pairs")
    ]
    originals = list(ids) or facts
    duplicates = [(name, bed.copy(name)) for name in bed.rng.sample(originals, min(DUPLICATES, len(originals)))]
    pairs = [(row, make_note(row.a, row.kind), make_note(row.b, row.kind)) for row in read_rows("dream_lookalikes")]
    lookalikes = [(row, bed.put(a), bed.put(b)) for row, a, b in pairs]
    dated = read_rows("dream_relative")
    relative = [(row, bed.put(make_note(row), when=datetime.fromisoformat(row.date))) for row in dated]
    lines = read_rows("dream_index")
    long = [(row, bed.put(make_note(row), hook=row.hook)) for row in lines if row.sort == "long"]
    missing = bed.rng.sample([b for _, _, b in lookalikes], MISSING)
    bed.write_index([row for row in lines if row.sort == "dead"], without=missing)
    return Planted(
        folder=store_folder,
        background=tuple(ids),
        duplicates=tuple(duplicates),
        lookalikes=tuple(lookalikes),
        relative=tuple(relative),
        long=tuple(long),
        ids=ids | {copy: ids[name] for name, copy in duplicates if name in ids},
        questions=tuple(questions),
        skipped="bench data absent: locomo_observations" if background and not entries else "",
    )


class _Bed:
    """The folder while it is planted: files at once, index lines at the end."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        folder.mkdir(mode=0o700, parents=True)
        self.folder = folder
        self.rng = rng
        self.lines: dict[str, tuple[Kind, str]] = {}

    def put(self, note: Note, *, when: datetime | None = None, hook: str = "") -> str:
        """One memory of our own. With a day of its own it says so in its head, else two of three do."""
        name = self._find_free(make_slug(note.title))
        dialect = Dialect.NESTED if when or self.rng.random() < 2 / 3 else Dialect.FLAT
        when = when or NOW - timedelta(days=self.rng.randrange(1, _OLDEST_DAYS), minutes=self.rng.randrange(600))
        fields = {"name": note.title, "description": note.description, "type": note.kind.value}
        dated = fields | {"modified": when.isoformat()} if dialect is Dialect.NESTED else fields
        line = f"- [{note.title}]({name}.md) — {hook}" if hook else render_line(note.title, name, note.description)
        self._write(name, compose_file(dated, note.body, dialect), when)
        self.lines[name] = (note.kind, line)
        return name

    def put_entry(self, entry: BenchRow) -> str:
        name = self._find_free(make_slug(entry.id))
        self._write(name, render_bench_row(entry), parse_date(entry.date) or NOW - timedelta(days=_OLDEST_DAYS))
        self.lines[name] = (Kind.PROJECT, render_line(entry.text[:60], name, entry.text))
        return name

    def copy(self, name: str) -> str:
        """The same bytes, written a day later under another name."""
        other = self._find_free(f"{name}-copy")
        source = self.folder / f"{name}.md"
        later = datetime.fromtimestamp(source.stat().st_mtime, UTC) + timedelta(days=1)
        self._write(other, source.read_text(encoding="utf-8"), min(later, NOW))
        kind, line = self.lines[name]
        self.lines[other] = (kind, line.replace(f"]({name}.md)", f"]({other}.md)"))
        return other

    def write_index(self, dead: Sequence[Any], *, without: Sequence[str]) -> None:
        """Pointers below the heading of their type in no order, the dead ones among them, and a word of prose."""
        lines = [pair for name, pair in self.lines.items() if name not in without]
        lines += [
            (self.rng.choice(list(Kind)), render_line(line.title, line.file.removesuffix(".md"), line.hook))
            for line in dead
        ]
        self.rng.shuffle(lines)
        parts = ["# Memory index\n"]
        for kind in Kind:
            parts += [f"\n## {kind.value.capitalize()}\n\n", *(f"{line}\n" for of, line in lines if of is kind)]
        (self.folder / INDEX_FILE).write_text("".join([*parts, f"\n{_PROSE}\n"]), encoding="utf-8")

    def _find_free(self, slug: str) -> str:
        name, number = slug, 1
        while name in self.lines:
            number += 1
            name = f"{slug}-{number}"
        return name

    def _write(self, name: str, text: str, when: datetime) -> None:
        path = self.folder / f"{name}.md"
        path.write_text(text, encoding="utf-8")
        os.utime(path, (when.timestamp(), when.timestamp()))
