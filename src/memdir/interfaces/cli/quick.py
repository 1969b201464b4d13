"""`memdir recall` without click: agents call it often, and importing click takes as long as a recall.

Other command lines, such as `--help` or invalid options, are left to click. A test checks that both parse alike.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from memdir.format.age import render_age
from memdir.interfaces.cli import CliContext, Output, Row, Styled, TableColumn, fill
from memdir.recall.pipeline import RecallResult, RecallSkip, recall_in_project, selects_in_background
from memdir.records import Excerpt, Pick
from memdir.store.open import Project

if TYPE_CHECKING:
    from memdir.recall.pipeline import StoreFinder
    from memdir.recall.select import LocalSearch
    from memdir.records import Selector

_FLAGS = {"--explain": "explain", "--no-semantic": "no_semantic", "--json": "as_json"}
_VALUES = {"--session": "session", "--tools": "tools", "--limit": "limit"}
_EXPLAINED = (
    TableColumn("NAME", "cyan", "name", is_cut=True),
    TableColumn("SCORE", "bold", lambda row: f"{row['score']:.3f}"),
    TableColumn("WORDS", "", lambda row: f"{row['lexical']:.3f}"),
    TableColumn("MEANING", "", lambda row: f"{row['semantic']:.3f}"),
    TableColumn("PRIOR", "", lambda row: f"{row['prior']:.3f}"),
    TableColumn("MATCHED", "magenta", lambda row: " ".join(row["words"]), is_cut=True),
    TableColumn("WHY", "dim", lambda row: row["dropped"] or "selected", is_cut=True),
)


class RecallCall(NamedTuple):
    query: tuple[str, ...]
    session: str = ""
    tools: str = ""
    limit: int | None = None
    explain: bool = False
    no_semantic: bool = False
    as_json: bool = False


def parse_recall(argv: list[str]) -> tuple[str | None, RecallCall] | None:
    """Return the directory option and the recall call, or None if click should parse the command line."""
    directory: str | None = None
    rest = argv[:]
    if rest[:1] == ["--dir"] and len(rest) > 1 and not rest[1].startswith("-"):
        directory, rest = rest[1], rest[2:]
    elif rest and rest[0].startswith("--dir="):
        directory, rest = rest[0].removeprefix("--dir="), rest[1:]
    if not rest or rest.pop(0) != "recall":
        return None
    options: dict[str, Any] = {}
    words: list[str] = []
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
            if name == "--limit" and not re.fullmatch(r"[1-9][0-9]{0,8}", value):
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
        if count % 200 == 0:  # fewer files are read in a fraction of a second
            out.progress(f"reading memories into the index: {count:,}")

    recalled = recall_in_project(
        project,
        " ".join(asked.query),
        session=asked.session,
        tools=tuple(tool.strip() for tool in asked.tools.split(",") if tool.strip()),
        limit=asked.limit,
        semantic=not asked.no_semantic,
        peek=asked.explain or (out.is_table and not asked.session),  # agents read a pipe
        on_read=show_progress,
        make_selector=_find_selector(project, asked),
    )
    out.progress("")
    candidates = [_make_candidate(pick) for pick in recalled.picks] if asked.explain else []
    if asked.as_json:
        memories = [_make_recalled(excerpt, project) for excerpt in recalled.memories]
        elapsed = round(recalled.elapsed_ms, 2)
        row = fill("query selector memories skipped elapsed_ms", recalled, memories=memories, elapsed_ms=elapsed)
        out.json(row | {"candidates": candidates} if asked.explain else row)
        return
    if candidates:
        if out.is_table:
            chosen = [row["name"] for row in candidates if not row["dropped"]]
            out.line("Agents would be shown " + (" and ".join(chosen) if chosen else "nothing") + " for this question.")
            out.line(Styled("Score = matched words + similar meaning + use and age; WHY says what was decided.", "dim"))
        out.table(_EXPLAINED, candidates)
    elif recalled.memories:
        _show_memories(out, recalled, project)
    if recalled.skipped is not None and (out.is_table or not candidates):
        is_usual = recalled.skipped is RecallSkip.NOTHING_FITS
        out.line("nothing here fits" if is_usual else f"nothing is recalled: {recalled.skipped.words}")


def _find_selector(project: Project, asked: RecallCall) -> "Callable[[LocalSearch], Selector | StoreFinder]":
    """Return a function that gets the local search and returns the selector: that search, a model or an encoder."""
    if asked.explain or asked.no_semantic or asked.limit is not None or not selects_in_background(project):
        return lambda search: search
    # Imported here, because most calls do not use a model.
    from memdir.recall.prefetch import open_selector

    return partial(open_selector, project)


def _make_recalled(excerpt: Excerpt, project: Project) -> Row:
    header, since = excerpt.header, excerpt.dated
    age, score = render_age(since, project.now().astimezone()), round(excerpt.score, 4)
    fields = "name path type scope description modified age since caveat score truncated author?"
    return fill(fields, excerpt, header, type=header.kind, age=age, since=since, score=score)


def _make_candidate(pick: Pick) -> Row:
    numbers = {key: round(getattr(pick.evidence, key), 4) for key in ("lexical", "semantic", "prior")}
    return fill("name scope words dropped?", pick, pick.header, pick.evidence, score=round(pick.score, 4), **numbers)


def _show_memories(out: Output, found: RecallResult, project: Project) -> None:
    # Imported here, because the module is large and JSON output does not need it.
    from memdir.format.shown import show_memory

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
        out.block("\n".join(f"  {line}".rstrip() for line in show_memory(excerpt, now=now).split("\n")))
