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
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench import (
    BenchQuestion,
    BenchRow,
    parse_date,
    read_corpus,
    read_queries,
    render_bench_row,
)
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
class Rewording:
    way: str
    note: Note
    clause: str


@dataclass(frozen=True, slots=True)
class Fact:
    id: str
    note: Note
    rewordings: tuple[Rewording, ...]


@dataclass(frozen=True, slots=True)
class Lookalike:
    """`what` is the sort of the difference, `differs` its two sides as they stand in the bodies."""

    id: str
    what: str
    reworded: bool
    differs: tuple[str, str]
    a: Note
    b: Note


@dataclass(frozen=True, slots=True)
class Claims:
    """Two statements; `why` says why they do not contradict each other, if they do not."""

    id: str
    contradicts: bool
    attribute: str
    why: str
    a: Note
    b: Note


@dataclass(frozen=True, slots=True)
class Relative:
    id: str
    lang: str
    when: datetime
    note: Note
    was: str
    want: str


@dataclass(frozen=True, slots=True)
class DeadLine:
    title: str
    name: str
    hook: str


@dataclass(frozen=True, slots=True)
class LongLine:
    note: Note
    hook: str
    keep: str


@dataclass(frozen=True, slots=True)
class Planted:
    """Names of what lies in the folder. `ids` leads from background names, copies too, to rows of the public set."""

    folder: Path
    background: tuple[str, ...]
    duplicates: tuple[tuple[str, str], ...]
    rewordings: tuple[tuple[Fact, str, str], ...]
    lookalikes: tuple[tuple[Lookalike, str, str], ...]
    relative: tuple[tuple[Relative, str], ...]
    dead: tuple[str, ...]
    missing: tuple[str, ...]
    long: tuple[tuple[LongLine, str], ...]
    ids: Mapping[str, str]
    questions: tuple[BenchQuestion, ...]
    skipped: str


def read_facts() -> tuple[Fact, ...]:
    return tuple(
        Fact(row["id"], _parse_note(row), tuple(_parse_rewording(at, row["kind"]) for at in row["rewordings"]))
        for row in _read_rows("dream_pairs")
    )


def read_lookalikes() -> tuple[Lookalike, ...]:
    return tuple(
        Lookalike(row["id"], row["what"], row["reworded"], (row["differs"][0], row["differs"][1]), *_parse_sides(row))
        for row in _read_rows("dream_lookalikes")
    )


def read_contradictions() -> tuple[Claims, ...]:
    return tuple(
        Claims(row["id"], row["contradicts"], row["attribute"], row["why"], *_parse_sides(row))
        for row in _read_rows("contradictions")
    )


def read_relative() -> tuple[Relative, ...]:
    return tuple(
        Relative(at["id"], at["lang"], datetime.fromisoformat(at["date"]), _parse_note(at), at["was"], at["want"])
        for at in _read_rows("dream_relative")
    )


def read_dead_lines() -> tuple[DeadLine, ...]:
    rows = (row for row in _read_rows("dream_index") if row["sort"] == "dead")
    return tuple(DeadLine(row["title"], row["file"].removesuffix(".md"), row["hook"]) for row in rows)


def read_long_lines() -> tuple[LongLine, ...]:
    rows = (row for row in _read_rows("dream_index") if row["sort"] == "long")
    return tuple(LongLine(_parse_note(row), row["hook"], row["keep"]) for row in rows)


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
    rewordings = [(fact, bed.put(fact.note), bed.put(fact.rewordings[0].note)) for fact in read_facts()]
    originals = list(ids) or [name for _, name, _ in rewordings]
    duplicates = [(name, bed.copy(name)) for name in bed.rng.sample(originals, min(DUPLICATES, len(originals)))]
    lookalikes = [(pair, bed.put(pair.a), bed.put(pair.b)) for pair in read_lookalikes()]
    relative = [(row, bed.put(row.note, when=row.when)) for row in read_relative()]
    long = [(line, bed.put(line.note, hook=line.hook)) for line in read_long_lines()]
    missing = bed.rng.sample([b for _, _, b in lookalikes], MISSING)
    bed.write_index(read_dead_lines(), without=missing)
    return Planted(
        folder=store_folder,
        background=tuple(ids),
        duplicates=tuple(duplicates),
        rewordings=tuple(rewordings),
        lookalikes=tuple(lookalikes),
        relative=tuple(relative),
        dead=tuple(line.name for line in read_dead_lines()),
        missing=tuple(sorted(missing)),
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

    def write_index(self, dead: Sequence[DeadLine], *, without: Sequence[str]) -> None:
        """Pointers below the heading of their type in no order, the dead ones among them, and a word of prose."""
        lines = [pair for name, pair in self.lines.items() if name not in without]
        lines += [(self.rng.choice(list(Kind)), render_line(line.title, line.name, line.hook)) for line in dead]
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


def _read_rows(name: str) -> Iterator[dict[str, Any]]:
    for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _parse_note(fields: Mapping[str, Any], kind: str = "") -> Note:
    return Note(Kind(kind or fields["kind"]), fields["title"], fields["description"], fields["body"])


def _parse_sides(row: Mapping[str, Any]) -> tuple[Note, Note]:
    return _parse_note(row["a"], row["kind"]), _parse_note(row["b"], row["kind"])


def _parse_rewording(fields: Mapping[str, Any], kind: str) -> Rewording:
    return Rewording(fields["way"], _parse_note(fields, kind), fields.get("clause", ""))
