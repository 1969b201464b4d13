"""`why`: when and for which question a memory was surfaced."""

from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.names import find_surfaced
from memdir.doors.cli.output import Styled
from memdir.doors.cli.rows import make_skip_rows, make_time, show_time
from memdir.doors.cli.verb import Verb, json_option, name_argument, scope_option
from memdir.records import Surfacing
from memdir.store.files import FileStore

_LIMIT = 20
_COLUMNS = (
    Column("WHEN", "dim"),
    Column("SCORE", "bold"),
    Column("QUESTION", is_cut=True),
    Column("SESSION", "dim", is_cut=True),
    Column("BY", "magenta"),
)


@click.command(
    "why",
    short_help="For which questions a memory came up.",
    cls=Verb,
    examples=("memdir why terse-replies", "memdir why terse-replies --json"),
)
@name_argument()
@click.option("--limit", type=click.IntRange(min=0), default=_LIMIT, show_default=True, help="At most so many; 0 all.")
@scope_option
@json_option
@click.pass_obj
def why_verb(call: Call, name: str, limit: int, scope: str | None, as_json: bool) -> None:
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
        call.out.json(_make_answer(store, found, rows, shown))
        return
    if rows:
        if call.out.is_table:
            often = "once" if len(rows) == 1 else f"{len(rows)} times"
            call.out.line(Styled(found, "bold"), f" was recalled {often}")
        times = [show_time(call.out, row.at, opened.now()) for row in shown]
        facts = [[f"{row.score:.3f}", row.query, row.session, row.selector] for row in shown]
        call.out.table(_COLUMNS, [[when, *fact] for when, fact in zip(times, facts, strict=True)])
    elif call.out.is_table:
        call.out.line(Styled(found, "bold"), " was never recalled. Recall brings nothing at all when")
        for skip in make_skip_rows():
            call.out.line(f"  {skip['words']}", Styled(f"  ({skip['reason']})", "dim"))


def _make_answer(
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
