"""The commands that show memories and their changes, and undo them: `list`, `read`, `history`, `diff`, `undo`, `restore`."""

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path

import click

from memdir.errors import NotFoundError
from memdir.format.fields import FLAG, LISTED_FIELDS, describe_fields, name_field
from memdir.format.rules import find_rules
from memdir.format.when import describe_when, dump_when
from memdir.interfaces import cli
from memdir.interfaces.cli import (
    CliContext,
    Row,
    Styled,
    TableColumn,
    app,
    choose_store,
    choose_stores,
    describe_memories,
    describe_memory,
    fill,
    make_change_row,
    scope_flag,
)
from memdir.interfaces.cli.app import limit_option, name_argument, scope_option, verb
from memdir.operations.find import find_past, list_memories
from memdir.operations.write import WriteAction, WriteContext, restore, undo
from memdir.records import Change, ChangedFile
from memdir.store.facts import find_ages
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.plan import is_index_path
from memdir.store.state import drop_learned
from memdir.text import shorten_home

_MEMORIES = (
    TableColumn("NAME", "cyan", "name", is_cut=True),
    TableColumn("TYPE", "magenta", lambda row: row["type"] or cli.NO_TYPE),
    TableColumn("SCOPE", "dim", "scope"),
    TableColumn("AGE", "dim", "since", is_time=True),
    TableColumn("", "yellow", "pinned"),
    TableColumn("", "yellow", "always"),
    TableColumn("DESCRIPTION", "", "description", is_cut=True),
    # A later field comes last, so that scripts find the others where they were.
    *(
        TableColumn("" if schema is FLAG else name_field(key).upper(), "yellow", key)
        for key, schema in LISTED_FIELDS.items() if key != "pinned"
    ),
)  # fmt: skip
_LIST_HELP = f"""List the memories of the project, its team, and all projects, newest first.

In a pipe, one line per memory: name, type, scope, time, `pinned` or nothing, `always` or nothing,
{", ".join(column.title.lower() or f"`{column.cell}` or nothing" for column in _MEMORIES[6:])}, separated by tabs. `always` marks standing
rules, which conversations have from their start. The authors of team memories are shown on a terminal and in JSON.
"""


def _is_large(root: Path) -> bool:
    """Return whether listing a directory takes long enough to show progress."""
    with suppress(OSError), os.scandir(root) as entries:
        return next(islice(entries, 2_000, None), None) is not None
    return False


@verb(
    "list", "List memories.",
    "memdir list", "memdir list --type feedback", "memdir list --all", "memdir list --json", help=_LIST_HELP,
)  # fmt: skip
@click.option("--type", "kind", type=click.Choice((*app.KINDS, cli.NO_TYPE)), help="Only memories of this type.")
@scope_option
@app.everywhere_option
def list_verb(call: CliContext, kind: str | None, scope: str | None, is_everywhere: bool, as_json: bool) -> None:
    project = call.open()
    stores = app.list_everywhere(project, is_everywhere=is_everywhere)
    is_slow = any(_is_large(store.root) for store, _ in stores.values())
    call.out.progress("reading memories" if is_slow else "")
    listed = list_memories([store for store, _ in stores.values()])
    chosen = [
        memory
        for memory in listed
        if kind in (None, memory.header.kind or cli.NO_TYPE) and scope in (None, memory.header.scope)
    ]
    rules = set(find_rules(memory.header for memory in listed))
    rows = [
        row
        | {"always": memory.header in rules}
        | ({"project": shorten_home(stores[id(memory.store)][1], call.environment.home)} if is_everywhere else {})
        for row, memory in zip(describe_memories(chosen, project.now()), chosen, strict=True)
    ]
    rows.sort(key=itemgetter("since", "name"), reverse=True)
    empty = "none" if listed else "no memories yet; `memdir remember TEXT` saves one"
    columns = [
        column._replace(cell=_render_scope) if column.title == "SCOPE" and call.out.is_table else column
        for column in _MEMORIES
    ]
    if is_everywhere:
        columns.insert(1, TableColumn("PROJECT", "dim", "project", is_cut=True))
    call.out.progress("")
    call.show_rows(columns, rows, as_json=as_json, empty=empty)


@verb(
    "read", "Print a memory.",
    "memdir read terse-replies", "memdir read 'Terse replies' --json",
)  # fmt: skip
@name_argument()
@scope_option
@click.option("--raw", is_flag=True, help="Print the exact file; control characters are escaped on a terminal.")
def read_verb(call: CliContext, name: str, scope: str | None, raw: bool, as_json: bool) -> None:
    """Print a memory. NAME is its name, its title if unique, its path, or words that only this memory contains."""
    project, out = call.open(), call.out
    store, header = app.pick_memory(choose_stores(project, scope), name, scope=scope)
    memory = store.read(header.name)
    header = memory.header
    since = find_ages(store, [memory], now=project.now())[header.name]
    row = describe_memory(store, header) | fill("body text digest", memory, since=since, when=dump_when(header.when))
    if as_json:
        out.json(row)
        return
    if raw:
        if (data := store.read_bytes(header.file)) is None:
            raise NotFoundError(f"{header.name} was deleted", name=header.name)
        out.raw(data)
        return
    facts = [
        header.kind or "no type",
        _render_scope(row),
        cli.show_time(out, since, project.now()),
        *describe_fields(header),
    ]
    out.line(Styled(header.title, "bold"))
    out.line(Styled(" · ".join(facts), "dim"))
    out.line(Styled(row["path"], "dim"))
    if header.description:
        out.line(header.description)
    if words := describe_when(header.when):
        out.line(Styled(f"when: {words}", "dim"))
    if header.problem:
        out.line(Styled(f"problem: {header.problem}", "yellow"))
    out.line()
    out.block(memory.body)


def _render_scope(row: Row) -> str:
    return f"{row['scope']} by {row['author']}" if row["author"] else row["scope"]


# History.

CHANGE_ID = click.IntRange(1, 2**63 - 1)  # SQLite's largest integer.
_MARKS = ("undone_by", "undoes")
_CHANGES = (
    TableColumn("ID", "bold", "id"),
    TableColumn("WHEN", "dim", "at", is_time=True),
    TableColumn("WHO", "", "who"),
    TableColumn("DID", "magenta", "verb"),
    TableColumn("WHAT", "cyan", "names", is_cut=True),
    TableColumn("WHY", "", "why", is_cut=True),
    TableColumn(
        "", "yellow", lambda row: ", ".join(f"{one.replace('_', ' ')} {row[one]}" for one in _MARKS if row[one])
    ),
)


@verb(
    "history",
    "List changes with time, author and reason.",
    "memdir history",
    "memdir history terse-replies --limit 5",
)
@name_argument(required=False)
@limit_option(50, "Maximum number of changes, newest first; 0 for all.", minimum=0)
@scope_option
def history_verb(call: CliContext, name: str | None, limit: int, scope: str | None, as_json: bool) -> None:
    """List the changes of this directory, or of one memory, even if forgotten. Includes edits made outside memdir.

    In a pipe: ID, time, author, command, memories, reason, `undone by ID` or `undoes ID`, separated by tabs.
    """
    store, past_name = _find_store(call.open(), name, scope)
    rows = [make_change_row(change) for change in store.changes(past_name, limit=limit or -1)]
    call.show_rows(_CHANGES, rows, as_json=as_json, empty="no changes yet")


@verb("diff", "Show the text of a change.", "memdir diff", "memdir diff terse-replies", "memdir diff 12")
@name_argument(required=False, name="target", metavar="NAME|ID")
@scope_option
def diff_verb(call: CliContext, target: str | None, scope: str | None, as_json: bool) -> None:
    """Show the diff of the last change, of change ID, or of the last change of a memory.

    For a memory whose name is a number, write NAME.md.
    """
    store, change, files = _find_change(call.open(), target, scope)
    diffs = [(file, cli.render_change(file, store.read_content)) for file in files]
    if as_json:
        rows = [fill("path before? after?", file, diff="\n".join(lines)) for file, lines in diffs]
        call.out.json({"change": make_change_row(change), "diffs": rows})
        return
    when = cli.show_time(call.out, change.at, call.open().now())
    call.out.line(Styled(f"change {change.id}", "bold"), f": {change.verb} by {change.origin.who}, {when}")
    for _, lines in diffs:
        call.out.diff(lines)


@verb(
    "undo", "Undo a change.",
    "memdir undo", "memdir undo 12", "memdir undo --session 'chatgpt:*'",
)  # fmt: skip
@click.argument("change_id", metavar="[ID]", type=CHANGE_ID, required=False)
@click.option("--session", metavar="ID", help="All changes of this conversation; `chatgpt:*` for a whole import.")
@scope_option
def undo_verb(call: CliContext, change_id: int | None, session: str | None, scope: str | None, as_json: bool) -> None:
    """Undo the last change, or change ID. If a file changed since, reports the conflict and changes nothing.

    `memdir history` lists the IDs. An undo can itself be undone. --session undoes all changes of a conversation, newest
    first; a star at its end matches anything.
    """
    store = choose_store(call.open_to_write(), scope)
    app.notice(store)
    if session is not None:
        _undo_session(call, store, session, as_json=as_json)
        return
    undone = store.find_last_change() if change_id is None else store.read_change(change_id)
    if undone is None:
        raise NotFoundError("no changes to undo in this directory")
    number, changed = _undo_change(call, store, undone)
    if as_json:
        files = [{"path": file.path, "change": _name_change(file)} for file in changed]
        call.out.json({"undone": make_change_row(undone), "change": number, "changes": files, "more": []})
        return
    when = cli.show_time(call.out, undone.at, call.open().now())
    what = f" ({undone.verb} {', '.join(cli.find_change_names(undone))}, {when})"
    call.out.line(Styled(f"undone: change {undone.id}", "bold"), what)
    for file in changed:
        name = file.path.removesuffix(".md")
        words = {
            "created": f"{name} is back",
            "removed": f"{name} was deleted again (change {undone.id} created it)",
            "changed": f"{name} is as before change {undone.id}",
        }
        index = f"{file.path}: its lines are as before change {undone.id}"
        call.out.line("  ", index if is_index_path(file.path) else words[_name_change(file)])
    if not changed:
        call.out.line("  everything already was as before it")
    if number is not None:
        call.out.line(f"`memdir undo{scope_flag(store)} {number}` reverts this undo")


@verb(
    "restore",
    "Restore an earlier version of a memory.",
    "memdir restore terse-replies",
    "memdir restore terse-replies --to 12",
)
@name_argument()
@click.option(
    "--to", "change_id", metavar="ID", type=CHANGE_ID,
    help="The version after this change; default: the previous version.",
)  # fmt: skip
@scope_option
def restore_verb(call: CliContext, name: str, change_id: int | None, scope: str | None, as_json: bool) -> None:
    """Restore an earlier version of a memory, even if it was forgotten."""
    project = call.open_to_write()
    store, past_name = find_past(choose_stores(project, scope), name, scope=scope)
    app.notice(store)
    done = restore(store, past_name, WriteContext(call.origin(), project.now()), change=change_id)
    memory, is_new = done.memory or store.read(past_name), done.action is not WriteAction.UNCHANGED
    # The oldest change that left the memory as it is now made this version.
    header, version = memory.header, (memory.header.file, memory.digest)
    makers = [one for one in store.changes(header.name) if version in [(file.path, file.after) for file in one.files]]
    source = makers[-1] if makers else None
    if as_json:
        facts = {"action": "restored" if is_new else "unchanged", "version": source.id if source else None}
        call.out.json(describe_memory(store, header) | {"change": done.change, **facts})
        return
    when = cli.show_time(call.out, source.at, project.now()) if source else ""
    message = "restored " if is_new else "nothing to restore: it is already "
    left = f" as change {source.id} left it ({when})" if source else " as it was before"
    call.out.line(message, Styled(past_name, "cyan"), left)


def _find_store(project: Project, name: str | None, scope: str | None) -> tuple[FileStore, str | None]:
    """Return the store and, if named, the memory; records edits made outside memdir first."""
    stores = choose_stores(project, scope)
    for store in stores:
        app.notice(store)
    return (choose_store(project, scope), None) if name is None else find_past(stores, name, scope=scope)


def _find_change(
    project: Project, target: str | None, scope: str | None
) -> tuple[FileStore, Change, Sequence[ChangedFile]]:
    is_id = target is not None and target.isascii() and target.isdigit()
    store, name = _find_store(project, None if is_id else target, scope)
    if target is not None and is_id:
        if len(target) > 18:  # The number exceeds SQLite's integers.
            raise NotFoundError(f"no change {target[:18]}… in this history", hint="`memdir history` lists them")
        change = store.read_change(int(target))
        return store, change, change.files
    changes = store.changes(name, limit=1)
    if not changes:
        raise NotFoundError("no changes yet" if name is None else f"no recorded changes of {name}")
    return store, changes[0], [file for file in changes[0].files if name is None or file.path == f"{name}.md"]


def _undo_session(call: CliContext, store: FileStore, session: str, *, as_json: bool) -> None:
    prefix, is_open = session.removesuffix("*"), session.endswith("*")
    session_changes = [
        one
        for one in store.changes()
        if one.undone_by is None and one.undoes is None
        if (one.origin.session.startswith(prefix) if is_open else one.origin.session == session) and one.origin.session
    ]
    if not session_changes:
        raise NotFoundError(f"no changes in conversation {session}", hint="`memdir history` shows what changed")
    files: list[Row] = []
    for number, change in enumerate(session_changes):
        call.out.progress("undoing", number, len(session_changes))
        files += [{"path": file.path, "change": _name_change(file)} for file in _undo_change(call, store, change)[1]]
    call.out.progress("")
    drop_learned(store.state, prefix if is_open else session)
    if as_json:
        first, *more = [make_change_row(store.read_change(undone_change.id)) for undone_change in session_changes]
        call.out.json({"undone": first, "change": first["undone_by"], "changes": files, "more": more})
    else:
        call.out.line(f"undone: {cli.count_words(len(session_changes), 'change')} of {session}")


def _undo_change(call: CliContext, store: FileStore, change: Change) -> tuple[int | None, Sequence[ChangedFile]]:
    """Undo a change; return the number of the undo and the files it changed."""
    result = undo(store, change.id, WriteContext(call.origin(), call.open().now()))
    number = result.change
    if result.memory is not None and result.memory.header.when.enforce:
        from memdir.operations.turn import refresh_index  # Few changes concern a rule.

        refresh_index(call.open().stores)  # A rule that is switched on again holds at the next action.
    return number, store.read_change(number).files if number is not None else ()


def _name_change(file: ChangedFile) -> str:
    return "created" if file.before is None else "removed" if file.after is None else "changed"
