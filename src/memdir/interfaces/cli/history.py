"""`history` and `diff`: what changed, when, by whom, and how exactly."""

from collections.abc import Sequence
from datetime import datetime

import click

from memdir.errors import MemdirError, NotFoundError
from memdir.interfaces.cli import (
    CliContext,
    CliVerb,
    choose_store,
    json_option,
    name_argument,
    scope_flag,
    scope_option,
)
from memdir.interfaces.cli.names import find_past, notice
from memdir.interfaces.cli.output import (
    Output,
    Styled,
    TableColumn,
    find_change_names,
    make_act_row,
    make_row,
    render_change,
    show_time,
)
from memdir.records import Change, ChangedFile, Memory
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.plan import FileChange

# --- past ---

_LIMIT = 50
_COLUMNS = (
    TableColumn("ID", "bold"),
    TableColumn("WHEN", "dim"),
    TableColumn("WHO"),
    TableColumn("DID", "magenta"),
    TableColumn("WHAT", "cyan", is_cut=True),
    TableColumn("WHY", is_cut=True),
    TableColumn("", "yellow"),
)


@click.command(
    "history",
    short_help="What changed, when, by whom.",
    cls=CliVerb,
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
def history_verb(call: CliContext, name: str | None, limit: int, scope: str | None, as_json: bool) -> None:
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
    cls=CliVerb,
    examples=("memdir diff", "memdir diff terse-replies", "memdir diff 12"),
)
@name_argument(required=False, name="target", metavar="NAME|ID")
@scope_option
@json_option
@click.pass_obj
def diff_verb(call: CliContext, target: str | None, scope: str | None, as_json: bool) -> None:
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


def _find_place(opened: Project, name: str | None, scope: str | None) -> tuple[FileStore, str | None]:
    """The store asked about and, if one was named, the memory; edits from outside are recorded on the way."""
    for store in opened.stores if scope is None else (choose_store(opened, scope),):
        notice(store)
    return (choose_store(opened, scope), None) if name is None else find_past(opened, name, scope)


def _find_act(
    opened: Project, target: str | None, scope: str | None
) -> tuple[FileStore, Change, Sequence[ChangedFile]]:
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


def _make_cells(act: Change, out: Output, now: datetime) -> list[str]:
    marks = [f"undone by {act.undone_by}"] if act.undone_by is not None else []
    marks += [f"undoes {act.undoes}"] if act.undoes is not None else []
    names = ", ".join(find_change_names(act))
    when = show_time(out, act.at, now)
    return [str(act.id), when, act.origin.who, act.verb, names, act.origin.why, ", ".join(marks)]


# --- rewinding ---
# `undo` and `restore`: take a change back, bring a version back, and say exactly what was put where.

# An act's number: as large as SQLite counts.
ACT_ID = click.IntRange(1, 2**63 - 1)


@click.command(
    "undo", short_help="Take back the last act, or any one.", cls=CliVerb, examples=("memdir undo", "memdir undo 12")
)
@click.argument("act_id", metavar="[ID]", type=ACT_ID, required=False)
@scope_option
@json_option
@click.pass_obj
def undo_verb(call: CliContext, act_id: int | None, scope: str | None, as_json: bool) -> None:
    """Take back the last act, or the one with that ID (`memdir history` lists them). An undo can itself be undone.

    If a file was changed since, nothing is taken back and the conflict is named.
    """
    opened = call.open_to_write()
    store = choose_store(opened, scope)
    notice(store)
    undone, planned = store.undo(act_id, origin=call.origin())
    number = store.read_act(undone.id).undone_by
    if as_json:
        changes = [{"path": at.path, "change": _name_change(at)} for at in planned]
        call.out.json({"undone": make_act_row(undone), "act": number, "changes": changes})
        return
    when = show_time(call.out, undone.at, opened.now())
    call.out.line(
        Styled(f"undone: act {undone.id}", "bold"), f" ({undone.verb} {', '.join(find_change_names(undone))}, {when})"
    )
    for at in planned:
        call.out.line("  ", _describe(at, undone))
    if not planned:
        call.out.line("  everything already was as before it")
    if number is not None:
        call.out.line(f"`memdir undo{scope_flag(store)} {number}` takes this undo back")


@click.command(
    "restore",
    short_help="Bring back an earlier version.",
    cls=CliVerb,
    examples=("memdir restore terse-replies", "memdir restore terse-replies --to 12"),
)
@name_argument()
@click.option(
    "--to",
    "act_id",
    metavar="ID",
    type=ACT_ID,
    help="As it was after this act; without it the version before the present one.",
)
@scope_option
@json_option
@click.pass_obj
def restore_verb(call: CliContext, name: str, act_id: int | None, scope: str | None, as_json: bool) -> None:
    """Bring back an earlier version of a memory, forgotten or not."""
    opened = call.open_to_write()
    store, found = find_past(opened, name, scope)
    notice(store)
    before = _find_digest(store, found)
    memory = store.restore(found, act=act_id, origin=call.origin())
    action = "unchanged" if before == memory.digest else "restored"
    source = _find_source(store, memory)
    if as_json:
        act = store.acts(found, limit=1)[0].id if action == "restored" else None
        row = make_row(memory.header, store) | {"action": action, "act": act}
        call.out.json(row | {"version": source.id if source else None})
        return
    left = (
        f" as act {source.id} left it ({show_time(call.out, source.at, opened.now())})"
        if source
        else " as it was before"
    )
    verb = "restored " if action == "restored" else "nothing to restore: it is already "
    call.out.line(verb, Styled(found, "cyan"), left)


def _name_change(planned: FileChange) -> str:
    if planned.before is None:
        return "created"
    return "removed" if planned.after is None else "changed"


def _describe(planned: FileChange, undone: Change) -> str:
    what = planned.path if planned.is_index else planned.path.removesuffix(".md")
    if planned.is_index:
        return f"{what}: its lines are as before act {undone.id}"
    words = {
        "created": f"{what} is back",
        "removed": f"{what} is gone again (act {undone.id} had made it)",
        "changed": f"{what} reads as before act {undone.id}",
    }
    return words[_name_change(planned)]


def _find_digest(store: FileStore, name: str) -> str | None:
    try:
        return store.read(name).digest
    except MemdirError:
        return None


def _find_source(store: FileStore, memory: Memory) -> Change | None:
    """The oldest act that left the memory as it is now: the one that made this version."""
    path = memory.header.file
    makers = [
        act
        for act in store.acts(memory.header.name)
        for at in act.changes
        if (at.path, at.after) == (path, memory.digest)
    ]
    return makers[-1] if makers else None
