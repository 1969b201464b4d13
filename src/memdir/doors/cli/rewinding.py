"""`undo` and `restore`: take a change back, bring a version back, and say exactly what was put where."""

import click

from memdir.doors.cli.call import Call, choose_store, scope_flag
from memdir.doors.cli.names import find_past, notice
from memdir.doors.cli.output import Styled
from memdir.doors.cli.rows import find_names, make_act_row, make_row, show_time
from memdir.doors.cli.verb import Verb, json_option, name_argument, scope_option
from memdir.errors import MemdirError
from memdir.records import Act, Memory
from memdir.store.files import FileStore
from memdir.store.plan import Planned

# An act's number: as large as SQLite counts.
ACT_ID = click.IntRange(1, 2**63 - 1)


@click.command(
    "undo", short_help="Take back the last act, or any one.", cls=Verb, examples=("memdir undo", "memdir undo 12")
)
@click.argument("act_id", metavar="[ID]", type=ACT_ID, required=False)
@scope_option
@json_option
@click.pass_obj
def undo_verb(call: Call, act_id: int | None, scope: str | None, as_json: bool) -> None:
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
        Styled(f"undone: act {undone.id}", "bold"), f" ({undone.verb} {', '.join(find_names(undone))}, {when})"
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
    cls=Verb,
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
def restore_verb(call: Call, name: str, act_id: int | None, scope: str | None, as_json: bool) -> None:
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


def _name_change(planned: Planned) -> str:
    if planned.before is None:
        return "created"
    return "removed" if planned.after is None else "changed"


def _describe(planned: Planned, undone: Act) -> str:
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


def _find_source(store: FileStore, memory: Memory) -> Act | None:
    """The oldest act that left the memory as it is now: the one that made this version."""
    path = memory.header.file
    makers = [
        act
        for act in store.acts(memory.header.name)
        for at in act.changes
        if (at.path, at.after) == (path, memory.digest)
    ]
    return makers[-1] if makers else None
