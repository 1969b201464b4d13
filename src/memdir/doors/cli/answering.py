"""What `recall` answers, on a terminal, in a pipe and as JSON. No word here of how it was asked."""

from typing import Any

from memdir.age import render_age
from memdir.asking import recall_here
from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.quick import Wish
from memdir.doors.cli.rows import make_time
from memdir.gates import Skip
from memdir.opening import Opened
from memdir.recall import Recalled
from memdir.records import Excerpt, Pick

_STEP = 200  # so many files are read in a fraction of a second; fewer are not worth a word
_COLUMNS = (
    Column("NAME", "cyan", is_cut=True),
    Column("SCORE", "bold"),
    Column("WORDS"),
    Column("MEANING"),
    Column("PRIOR"),
    Column("MATCHED", "magenta", is_cut=True),
    Column("WHY", "dim", is_cut=True),
)


def answer(call: Call, wish: Wish) -> None:
    opened = call.open()
    found = recall_here(
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


def _make_answer(found: Recalled, opened: Opened, *, explain: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "query": found.query,
        "selector": found.selector,
        "memories": [_make_row(excerpt, opened) for excerpt in found.memories],
        "skipped": found.skipped.value if found.skipped else None,
        "elapsed_ms": round(found.elapsed_ms, 2),
    }
    return answer | {"candidates": [_make_candidate(pick) for pick in found.picks]} if explain else answer


def _make_row(excerpt: Excerpt, opened: Opened) -> dict[str, Any]:
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


def _say_why(skip: Skip) -> str:
    return "nothing here fits" if skip is Skip.NOTHING_FITS else f"nothing is recalled: {skip.words}"


def _show(out: Output, found: Recalled, opened: Opened) -> None:
    # Imported here: the tables against forged reminders are large, and JSON shows no memory's text.
    from memdir.reminder import render_reminder

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
