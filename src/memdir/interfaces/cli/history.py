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
    make_change_row,
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
    changes = store.changes(found, limit=limit or -1)
    if as_json:
        call.out.json([make_change_row(change) for change in changes])
    elif changes:
        call.out.table(_COLUMNS, [_make_cells(change, call.out, opened.now()) for change in changes])
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
    """Show what a change changed: the last one, the one with that ID, or the last one that touched a memory.

    A memory whose name is a number is meant by NAME.md.
    """
    store, change, changes = _find_change(call.open(), target, scope)
    diffs = [(file, render_change(file, store.read_content)) for file in changes]
    if as_json:
        rows = [
            {"path": at.path, "before": at.before, "after": at.after, "diff": "\n".join(lines)} for at, lines in diffs
        ]
        call.out.json({"change": make_change_row(change), "diffs": rows})
        return
    when = show_time(call.out, change.at, call.open().now())
    call.out.line(Styled(f"change {change.id}", "bold"), f": {change.verb} by {change.origin.who}, {when}")
    for _, lines in diffs:
        call.out.diff(lines)


def _find_place(opened: Project, name: str | None, scope: str | None) -> tuple[FileStore, str | None]:
    """The store asked about and, if one was named, the memory; edits from outside are recorded on the way."""
    for store in opened.stores if scope is None else (choose_store(opened, scope),):
        notice(store)
    return (choose_store(opened, scope), None) if name is None else find_past(opened, name, scope)


def _find_change(
    opened: Project, target: str | None, scope: str | None
) -> tuple[FileStore, Change, Sequence[ChangedFile]]:
    is_id = target is not None and target.isascii() and target.isdigit()
    store, name = _find_place(opened, None if is_id else target, scope)
    if is_id:
        change = store.read_change(parse_id(target or ""))
        return store, change, change.files
    changes = store.changes(name, limit=1)
    if not changes:
        raise NotFoundError("nothing has been changed here yet" if name is None else f"no change of {name} is recorded")
    files = [file for file in changes[0].files if name is None or file.path == f"{name}.md"]
    return store, changes[0], files


def parse_id(text: str) -> int:
    """A change's number; more digits than SQLite can hold are no change's."""
    if len(text) > 18:
        raise NotFoundError(f"no change {text[:18]}… in this history", hint="`memdir history` lists them")
    return int(text)


def _make_cells(change: Change, out: Output, now: datetime) -> list[str]:
    marks = [f"undone by {change.undone_by}"] if change.undone_by is not None else []
    marks += [f"undoes {change.undoes}"] if change.undoes is not None else []
    names = ", ".join(find_change_names(change))
    when = show_time(out, change.at, now)
    return [str(change.id), when, change.origin.who, change.verb, names, change.origin.why, ", ".join(marks)]


# --- rewinding ---
# `undo` and `restore`: take a change back, bring a version back, and say exactly what was put where.

# A change's number: as large as SQLite counts.
CHANGE_ID = click.IntRange(1, 2**63 - 1)


@click.command(
    "undo", short_help="Take back the last change, or any one.", cls=CliVerb, examples=("memdir undo", "memdir undo 12")
)
@click.argument("change_id", metavar="[ID]", type=CHANGE_ID, required=False)
@scope_option
@json_option
@click.pass_obj
def undo_verb(call: CliContext, change_id: int | None, scope: str | None, as_json: bool) -> None:
    """Take back the last change, or the one with that ID (`memdir history` lists them). An undo can itself be undone.

    If a file was changed since, nothing is taken back and the conflict is named.
    """
    opened = call.open_to_write()
    store = choose_store(opened, scope)
    notice(store)
    undone, planned = store.undo(change_id, origin=call.origin())
    number = store.read_change(undone.id).undone_by
    if as_json:
        changes = [{"path": at.path, "change": _name_change(at)} for at in planned]
        call.out.json({"undone": make_change_row(undone), "change": number, "changes": changes})
        return
    when = show_time(call.out, undone.at, opened.now())
    call.out.line(
        Styled(f"undone: change {undone.id}", "bold"),
        f" ({undone.verb} {', '.join(find_change_names(undone))}, {when})",
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
    "change_id",
    metavar="ID",
    type=CHANGE_ID,
    help="As it was after this change; without it the version before the present one.",
)
@scope_option
@json_option
@click.pass_obj
def restore_verb(call: CliContext, name: str, change_id: int | None, scope: str | None, as_json: bool) -> None:
    """Bring back an earlier version of a memory, forgotten or not."""
    opened = call.open_to_write()
    store, found = find_past(opened, name, scope)
    notice(store)
    before = _find_digest(store, found)
    memory = store.restore(found, change=change_id, origin=call.origin())
    action = "unchanged" if before == memory.digest else "restored"
    source = _find_source(store, memory)
    if as_json:
        change = store.changes(found, limit=1)[0].id if action == "restored" else None
        row = make_row(memory.header, store) | {"action": action, "change": change}
        call.out.json(row | {"version": source.id if source else None})
        return
    left = (
        f" as change {source.id} left it ({show_time(call.out, source.at, opened.now())})"
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
        return f"{what}: its lines are as before change {undone.id}"
    words = {
        "created": f"{what} is back",
        "removed": f"{what} is gone again (change {undone.id} had made it)",
        "changed": f"{what} reads as before change {undone.id}",
    }
    return words[_name_change(planned)]


def _find_digest(store: FileStore, name: str) -> str | None:
    try:
        return store.read(name).digest
    except MemdirError:
        return None


def _find_source(store: FileStore, memory: Memory) -> Change | None:
    """The oldest change that left the memory as it is now: the one that made this version."""
    path = memory.header.file
    makers = [
        change
        for change in store.changes(memory.header.name)
        for at in change.files
        if (at.path, at.after) == (path, memory.digest)
    ]
    return makers[-1] if makers else None
