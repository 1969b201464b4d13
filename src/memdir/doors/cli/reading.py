"""`list` and `read`: what is remembered, and one memory."""

from collections.abc import Sequence
from datetime import datetime

import click

from memdir.age import render_age
from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.names import find_memory
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import make_row, make_time
from memdir.doors.cli.verb import KINDS, Verb, json_option, name_argument, scope_option
from memdir.errors import NotFoundError
from memdir.records import Header, Memory, Scope
from memdir.store.files import FileStore

NO_TYPE = "none"
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
    "--scope", type=click.Choice((Scope.PRIVATE.value, Scope.USER.value, Scope.TEAM.value)), help="Only this scope."
)
@click.option(
    "--sort", type=click.Choice(("newest", "name", "type")), default="newest", show_default=True, help="The order."
)
@json_option
@click.pass_obj
def list_verb(call: Call, kind: str | None, scope: str | None, sort: str, as_json: bool) -> None:
    """List what is remembered here: the project's memory and the one for all projects.

    In a pipe each memory is one line: name, type, scope, time, `pinned` or nothing, description, with tabs between.
    """
    opened = call.open()
    found = [(store, header) for store in opened.stores for header in store.scan()]
    chosen = sort_headers([at for at in found if _is_wanted(at[1], kind, scope)], sort)
    if as_json:
        call.out.json([make_row(header, store) for store, header in chosen])
    elif chosen:
        call.out.table(_COLUMNS, [_make_cells(header, call.out, opened.now()) for _, header in chosen])
    elif call.out.is_table:
        call.out.line(
            "nothing is remembered here yet; `memdir save --help` shows how to begin" if not found else "none"
        )


@click.command(
    "read",
    short_help="One memory.",
    cls=Verb,
    examples=("memdir read terse-replies", "memdir read 'Terse replies' --json"),
)
@name_argument()
@scope_option
@click.option("--raw", is_flag=True, help="The file's exact bytes; on a terminal they are still made printable.")
@json_option
@click.pass_obj
def read_verb(call: Call, name: str, scope: str | None, raw: bool, as_json: bool) -> None:
    """Print one memory. NAME is its name, a title that only one memory has, or its path."""
    opened = call.open()
    store, header = find_memory(opened, name, scope)
    memory = store.read(header.name)
    if as_json:
        extra = {"body": memory.body, "text": memory.text, "digest": memory.digest}
        call.out.json(make_row(memory.header, store) | extra)
    elif raw:
        data = store.read_bytes(header.file)
        if data is None:
            raise NotFoundError(f"{header.name} is gone", name=header.name)
        call.out.raw(data)
    else:
        _show_memory(call.out, memory, store, opened.now())


def sort_headers(found: Sequence[Listed], order: str) -> list[Listed]:
    newest = sorted(found, key=lambda at: (at[1].modified, at[1].name), reverse=True)
    if order == "name":
        return sorted(newest, key=lambda at: at[1].name.casefold())
    if order == "type":
        return sorted(newest, key=lambda at: _ORDER[at[1].kind or NO_TYPE])
    return newest


def show_time(out: Output, when: datetime, now: datetime) -> str:
    """Words for a person, the very time for a pipe."""
    return render_age(when, now.astimezone()) if out.is_table else make_time(when)


def _is_wanted(header: Header, kind: str | None, scope: str | None) -> bool:
    return (kind is None or kind == (header.kind or NO_TYPE)) and (scope is None or scope == header.scope)


def _make_cells(header: Header, out: Output, now: datetime) -> list[str]:
    pinned = "pinned" if header.pinned else ""
    when = show_time(out, header.modified, now)
    return [header.name, header.kind or NO_TYPE, header.scope, when, pinned, header.description]


def _show_memory(out: Output, memory: Memory, store: FileStore, now: datetime) -> None:
    header = memory.header
    facts = [header.kind or "no type", header.scope.value, show_time(out, header.modified, now)]
    out.line(Styled(header.title, "bold"))
    out.line(Styled(" · ".join([*facts, *(["pinned"] if header.pinned else [])]), "dim"))
    out.line(Styled(str(store.root / header.file), "dim"))
    if header.description:
        out.line(header.description)
    if header.problem:
        out.line(Styled(f"problem: {header.problem}", "yellow"))
    out.line()
    out.block(memory.body)
