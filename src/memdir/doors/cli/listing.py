"""`list`: what is remembered."""

from collections.abc import Sequence
from datetime import datetime

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.output import Output
from memdir.doors.cli.rows import NO_TYPE, find_author, make_row, show_time
from memdir.doors.cli.verb import KINDS, SCOPES, Verb, json_option
from memdir.records import Header
from memdir.store.files import FileStore

_ORDER = {kind: number for number, kind in enumerate((*KINDS, NO_TYPE))}
_COLUMNS = (
    Column("NAME", "cyan", is_cut=True),
    Column("TYPE", "magenta"),
    Column("SCOPE", "dim"),
    Column("AGE", "dim"),
    Column("", "yellow"),
    Column("DESCRIPTION", is_cut=True),
)

Listed = tuple[FileStore, Header]


@click.command(
    "list",
    short_help="What is remembered here.",
    cls=Verb,
    examples=("memdir list", "memdir list --type feedback --sort name", "memdir list --json"),
)
@click.option("--type", "kind", type=click.Choice((*KINDS, NO_TYPE)), help="Only memories of this type.")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help="Only this memory: yours for this project, the team's, yours for all projects, or the repository's own.",
)
@click.option(
    "--sort", type=click.Choice(("newest", "name", "type")), default="newest", show_default=True, help="The order."
)
@json_option
@click.pass_obj
def list_verb(call: Call, kind: str | None, scope: str | None, sort: str, as_json: bool) -> None:
    """List what is remembered here: the project's memory, what its team shares, and the memory for all projects.

    In a pipe each memory is one line: name, type, scope, time, `pinned` or nothing, description, with tabs between.
    Who wrote a team's memory is told on a terminal and in JSON.
    """
    opened = call.open()
    found = [(store, header) for store in opened.stores for header in store.scan()]
    chosen = sort_headers([at for at in found if _is_wanted(at[1], kind, scope)], sort)
    if as_json:
        call.out.json([make_row(header, store) for store, header in chosen])
    elif chosen:
        call.out.table(_COLUMNS, [_make_cells(header, store, call.out, opened.now()) for store, header in chosen])
    elif call.out.is_table:
        call.out.line("nothing is remembered here yet; `memdir remember TEXT` begins" if not found else "none")


def sort_headers(found: Sequence[Listed], order: str) -> list[Listed]:
    newest = sorted(found, key=lambda at: (at[1].modified, at[1].name), reverse=True)
    if order == "name":
        return sorted(newest, key=lambda at: at[1].name.casefold())
    if order == "type":
        return sorted(newest, key=lambda at: _ORDER[at[1].kind or NO_TYPE])
    return newest


def _is_wanted(header: Header, kind: str | None, scope: str | None) -> bool:
    return (kind is None or kind == (header.kind or NO_TYPE)) and (scope is None or scope == header.scope)


def _make_cells(header: Header, store: FileStore, out: Output, now: datetime) -> list[str]:
    pinned = "pinned" if header.pinned else ""
    when = show_time(out, header.modified, now)
    author = find_author(header, store) if out.is_table else None
    scope = f"{header.scope} by {author}" if author else header.scope
    return [header.name, header.kind or NO_TYPE, scope, when, pinned, header.description]
