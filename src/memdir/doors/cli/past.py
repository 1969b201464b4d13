"""`history` and `diff`: what changed, when, by whom, and how exactly."""

from collections.abc import Sequence
from datetime import datetime

import click

from memdir.doors.cli.call import Call, choose_store
from memdir.doors.cli.columns import Column
from memdir.doors.cli.diffs import render_change
from memdir.doors.cli.names import find_past, notice
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import find_names, make_act_row, show_time
from memdir.doors.cli.verb import Verb, json_option, name_argument, scope_option
from memdir.errors import NotFoundError
from memdir.opening import Opened
from memdir.records import Act, Change
from memdir.store.files import FileStore

_LIMIT = 50
_COLUMNS = (
    Column("ID", "bold"),
    Column("WHEN", "dim"),
    Column("WHO"),
    Column("DID", "magenta"),
    Column("WHAT", "cyan", is_cut=True),
    Column("WHY", is_cut=True),
    Column("", "yellow"),
)


@click.command(
    "history",
    short_help="What changed, when, by whom.",
    cls=Verb,
    examples=("memdir history", "memdir history terse-replies --limit 5"),
)
@name_argument(required=False)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_LIMIT,
    show_default=True,
    help="At most so many, newest first; 0 all.",
)
@scope_option
@json_option
@click.pass_obj
def history_verb(call: Call, name: str | None, limit: int, scope: str | None, as_json: bool) -> None:
    """List what happened to this directory, or to one memory, forgotten or not. Edits made outside memdir are in it.

    In a pipe: id, time, who, verb, memories, why, `undone by ID` or `undoes ID`, with tabs between.
    """
    opened = call.open()
    store, found = _find_place(opened, name, scope)
    acts = store.acts(found, limit=limit or -1)
    if as_json:
        call.out.json([make_act_row(act) for act in acts])
    elif acts:
        call.out.table(_COLUMNS, [_make_cells(act, call.out, opened.now()) for act in acts])
    elif call.out.is_table:
        call.out.line("nothing has been changed here by memdir yet")


@click.command(
    "diff",
    short_help="How exactly it changed.",
    cls=Verb,
    examples=("memdir diff", "memdir diff terse-replies", "memdir diff 12"),
)
@name_argument(required=False, name="target", metavar="NAME|ID")
@scope_option
@json_option
@click.pass_obj
def diff_verb(call: Call, target: str | None, scope: str | None, as_json: bool) -> None:
    """Show what an act changed: the last one, the one with that ID, or the last one that touched a memory.

    A memory whose name is a number is meant by NAME.md.
    """
    store, act, changes = _find_act(call.open(), target, scope)
    diffs = [(change, render_change(change, store.read_content)) for change in changes]
    if as_json:
        rows = [
            {"path": at.path, "before": at.before, "after": at.after, "diff": "\n".join(lines)} for at, lines in diffs
        ]
        call.out.json({"act": make_act_row(act), "diffs": rows})
        return
    when = show_time(call.out, act.at, call.open().now())
    call.out.line(Styled(f"act {act.id}", "bold"), f": {act.verb} by {act.origin.who}, {when}")
    for _, lines in diffs:
        call.out.diff(lines)


def _find_place(opened: Opened, name: str | None, scope: str | None) -> tuple[FileStore, str | None]:
    """The store asked about and, if one was named, the memory; edits from outside are recorded on the way."""
    for store in opened.stores if scope is None else (choose_store(opened, scope),):
        notice(store)
    return (choose_store(opened, scope), None) if name is None else find_past(opened, name, scope)


def _find_act(opened: Opened, target: str | None, scope: str | None) -> tuple[FileStore, Act, Sequence[Change]]:
    is_id = target is not None and target.isascii() and target.isdigit()
    store, name = _find_place(opened, None if is_id else target, scope)
    if is_id:
        act = store.read_act(parse_id(target or ""))
        return store, act, act.changes
    acts = store.acts(name, limit=1)
    if not acts:
        raise NotFoundError("nothing has been changed here yet" if name is None else f"no change of {name} is recorded")
    changes = [change for change in acts[0].changes if name is None or change.path == f"{name}.md"]
    return store, acts[0], changes


def parse_id(text: str) -> int:
    """An act's number; more digits than SQLite can hold are no act's."""
    if len(text) > 18:
        raise NotFoundError(f"no act {text[:18]}… in this history", hint="`memdir history` lists them")
    return int(text)


def _make_cells(act: Act, out: Output, now: datetime) -> list[str]:
    marks = [f"undone by {act.undone_by}"] if act.undone_by is not None else []
    marks += [f"undoes {act.undoes}"] if act.undoes is not None else []
    names = ", ".join(find_names(act))
    when = show_time(out, act.at, now)
    return [str(act.id), when, act.origin.who, act.verb, names, act.origin.why, ", ".join(marks)]
