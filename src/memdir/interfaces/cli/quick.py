"""`memdir recall` without click: agents call it all the time, and importing click takes as long as recalling.

What is not understood here to the letter (help, mistakes, options of other verbs) is left to click; a test compares the
two readings. The click verb shows its result by `show_recall`, too.
"""

import re
from typing import Any, NotRequired, TypedDict

from memdir.format.age import render_age
from memdir.frozen import dataclass
from memdir.interfaces.cli import CliContext
from memdir.interfaces.cli.output import Output, Styled, TableColumn, Time, fill
from memdir.limits import SELECTED
from memdir.recall.pipeline import RecallResult, RecallSkip, recall_in_project
from memdir.records import Excerpt, Kind, Pick, Scope
from memdir.store.open import Project

_FLAGS = {"--explain": "explain", "--no-semantic": "no_semantic", "--json": "as_json"}
_VALUES = {"--session": "session", "--tools": "tools", "--limit": "limit"}
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_STEP = 200  # files that are read in a fraction of a second; fewer need no progress
_EXPLAINED = (
    TableColumn("NAME", "cyan", "name", is_cut=True),
    TableColumn("SCORE", "bold", lambda row: f"{row['score']:.3f}"),
    TableColumn("WORDS", "", lambda row: f"{row['lexical']:.3f}"),
    TableColumn("MEANING", "", lambda row: f"{row['semantic']:.3f}"),
    TableColumn("PRIOR", "", lambda row: f"{row['prior']:.3f}"),
    TableColumn("MATCHED", "magenta", lambda row: " ".join(row["words"]), is_cut=True),
    TableColumn("WHY", "dim", lambda row: row["dropped"] or "selected", is_cut=True),
)


@dataclass(frozen=True, slots=True)
class RecallCall:
    """A call of `recall`, as it was typed."""

    query: tuple[str, ...]
    session: str = ""
    tools: str = ""
    limit: int = SELECTED
    explain: bool = False
    no_semantic: bool = False
    as_json: bool = False


class RecalledRow(TypedDict):
    """A memory that fits. `age` is in words and counts from `since`: the latest of a change of the words, a verification
    and a touch (docs/verify.md). `caveat` says what the last verification found out of date; it is empty if nothing."""

    name: str
    path: str
    type: Kind | None
    scope: Scope
    description: str
    modified: Time
    age: str
    since: Time
    caveat: str
    score: float
    truncated: bool
    author: str | None


class CandidateRow(TypedDict):
    """A candidate; `dropped` is why it was not selected. The score is the sum of its three parts."""

    name: str
    scope: Scope
    score: float
    lexical: float
    semantic: float
    prior: float
    words: list[str]
    dropped: str | None


class RecallRow(TypedDict):
    """The memories that fit a question, best first. If there are none, `skipped` says why. `candidates` is there with
    `--explain` only: first those that were selected, then the others."""

    query: str
    selector: str
    memories: list[RecalledRow]
    skipped: RecallSkip | None
    elapsed_ms: float
    candidates: NotRequired[list[CandidateRow]]


def parse_recall(argv: list[str]) -> tuple[str | None, RecallCall] | None:
    """The directory given and the call; None for any other call, and for one that click should look at."""
    directory, rest = _split_directory(argv)
    if rest[:1] != ["recall"]:
        return None
    options: dict[str, Any] = {}
    words: list[str] = []
    rest = rest[1:]
    while rest:
        word = rest.pop(0)
        name, is_joined, value = word.partition("=")
        if word == "--":
            words += rest
            break
        if word in _FLAGS:
            options[_FLAGS[word]] = True
        elif name in _VALUES:
            if not is_joined:
                if not rest or rest[0].startswith("-"):
                    return None
                value = rest.pop(0)
            if name == "--limit" and not _NUMBER.fullmatch(value):
                return None
            options[_VALUES[name]] = int(value) if name == "--limit" else value
        elif word.startswith("-") and word != "-":
            return None
        else:
            words.append(word)
    return (directory, RecallCall(tuple(words), **options)) if words else None


def show_recall(call: CliContext, asked: RecallCall) -> None:
    project, out = call.open(), call.out

    def show_progress(count: int) -> None:
        if count % _STEP == 0:
            out.progress(f"reading memories into the index: {count:,}")

    found = recall_in_project(
        project,
        " ".join(asked.query),
        session=asked.session,
        tools=tuple(tool.strip() for tool in asked.tools.split(",") if tool.strip()),
        limit=asked.limit,
        semantic=not asked.no_semantic,
        peek=asked.explain,
        on_read=show_progress,
    )
    out.progress("")
    candidates = [_make_candidate(pick) for pick in found.picks] if asked.explain else []
    if asked.as_json:
        memories = [_make_recalled(excerpt, project) for excerpt in found.memories]
        row = fill(RecallRow, found, memories=memories, elapsed_ms=round(found.elapsed_ms, 2))
        out.json(row | {"candidates": candidates} if asked.explain else row)
        return
    if candidates:
        out.table(_EXPLAINED, candidates)
    elif found.memories:
        _show_memories(out, found, project)
    if found.skipped is not None and (out.is_table or not candidates):
        is_usual = found.skipped is RecallSkip.NOTHING_FITS
        out.line("nothing here fits" if is_usual else f"nothing is recalled: {found.skipped.words}")


def _split_directory(argv: list[str]) -> tuple[str | None, list[str]]:
    """The only option before the verb that is understood here."""
    if argv[:1] == ["--dir"] and len(argv) > 1 and not argv[1].startswith("-"):
        return argv[1], argv[2:]
    if argv and argv[0].startswith("--dir="):
        return argv[0].removeprefix("--dir="), argv[1:]
    return None, argv


def _make_recalled(excerpt: Excerpt, project: Project) -> RecalledRow:
    return fill(
        RecalledRow,
        excerpt,
        excerpt.header,
        type=excerpt.header.kind,
        age=render_age(excerpt.dated, project.now().astimezone()),
        since=excerpt.dated,
        score=round(excerpt.score, 4),
    )


def _make_candidate(pick: Pick) -> CandidateRow:
    parts = pick.evidence
    numbers = {key: round(getattr(parts, key), 4) for key in ("lexical", "semantic", "prior")}
    return fill(CandidateRow, pick, pick.header, parts, score=round(pick.score, 4), **numbers)


def _show_memories(out: Output, found: RecallResult, project: Project) -> None:
    # Imported here: the tables against forged reminders are large, and JSON shows no memory's text.
    from memdir.recall.reminder import render_reminder

    now = project.now().astimezone()
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
