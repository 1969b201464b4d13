"""`promote` and `demote`: move a memory to where others share it, or where all projects have it, and back."""

from typing import Any

import click

from memdir.doors.cli.call import Call, scope_flag
from memdir.doors.cli.incoming import warn_of_secrets, warn_of_team
from memdir.doors.cli.names import find_memory
from memdir.doors.cli.output import Styled
from memdir.doors.cli.rows import make_row
from memdir.doors.cli.verb import SCOPES, Verb, json_option, name_argument, scope_option
from memdir.errors import NotFoundError, SettingsError
from memdir.opening import Opened
from memdir.promoting import Moved, move
from memdir.records import Header, Scope
from memdir.store.files import FileStore

_UP = (Scope.TEAM.value, Scope.USER.value, Scope.PROJECT.value)
_named = click.option("--name", "named", metavar="NEW", help="Call it this there; its own name if not given.")


@click.command(
    "promote",
    short_help="Share a memory with the team or with all your projects.",
    cls=Verb,
    examples=("memdir promote deploy-days", "memdir promote terse-replies --to user"),
)
@name_argument()
@click.option(
    "--to",
    type=click.Choice(_UP),
    default=Scope.TEAM.value,
    show_default=True,
    help="The team's memory, yours for all projects, or .claude/memory of the repository.",
)
@_named
@scope_option
@json_option
@click.pass_obj
def promote_verb(call: Call, name: str, to: str, named: str | None, scope: str | None, as_json: bool) -> None:
    """Move a memory to where more can use it. Its bytes and its index line go along, and history keeps both ends.

    Refused: a user memory and anything with a secret for a team, a project or reference memory for all projects, a
    description that says nothing, and a name that is taken there. Nothing is committed or pushed by it.
    """
    _move(call, name, Scope(to), named, scope, "promote", as_json=as_json)


@click.command(
    "demote",
    short_help="Take a shared memory back to yourself.",
    cls=Verb,
    examples=("memdir demote team/deploy-days", "memdir demote terse-replies --scope user"),
)
@name_argument()
@click.option(
    "--to",
    type=click.Choice((Scope.PRIVATE.value,)),
    default=Scope.PRIVATE.value,
    show_default=True,
    help="Your memory for this project.",
)
@_named
@scope_option
@json_option
@click.pass_obj
def demote_verb(call: Call, name: str, to: str, named: str | None, scope: str | None, as_json: bool) -> None:
    """Move a memory of the team, or of all your projects, to your own memory for this project.

    With the next sync it is gone for the team too; what others have committed or copied stays theirs.
    """
    _move(call, name, Scope(to), named, scope, "demote", as_json=as_json)


def _move(call: Call, name: str, to: Scope, named: str | None, scope: str | None, verb: str, *, as_json: bool) -> None:
    opened = call.open_to_write()
    store, header = _find(opened, name, scope, to)
    moved = move(
        opened, store, header.name, to, verb=verb, origin=call.origin(), named=(named or "").removesuffix(".md")
    )
    warnings = warn_of_team(moved.store, moved.memory.header.scope)
    if to in (Scope.PRIVATE, Scope.USER):
        warnings += warn_of_secrets(moved.memory.text, moved.memory.header.file, opened.environment)
    if as_json:
        call.out.json(make_row(moved.memory.header, moved.store) | _make_facts(moved, header, verb, warnings))
    else:
        _show(call, moved, header, verb)
    for warning in warnings:
        call.out.warn(warning)


def _find(opened: Opened, name: str, scope: str | None, to: Scope) -> tuple[FileStore, Header]:
    """The memory meant; one that is where it should go is not, if another scope has that name: a move was cut short."""
    found = find_memory(opened, name, scope)
    if scope is not None or found[1].scope is not to:
        return found
    for other in (at for at in SCOPES if at != to.value):
        try:
            return find_memory(opened, name, other)
        except (NotFoundError, SettingsError):
            continue
    return found


def _make_facts(moved: Moved, header: Header, verb: str, warnings: list[str]) -> dict[str, Any]:
    return {
        "action": f"{verb}d",
        "was": {"name": header.name, "scope": header.scope.value},
        "act": moved.act,
        "source_act": moved.source_act,
        "undo": _list_undos(moved),
        "warnings": warnings,
    }


def _list_undos(moved: Moved) -> list[str]:
    """What takes the move back; the old place first, so that the memory is never nowhere."""
    pairs = ((moved.source, moved.source_act), (moved.store, moved.act))
    return [f"memdir undo{scope_flag(store)} {act}" for store, act in pairs if act is not None]


def _show(call: Call, moved: Moved, header: Header, verb: str) -> None:
    now = moved.memory.header
    call.out.line(f"{verb}d ", Styled(header.name, "cyan"), f" ({header.scope}) to ", Styled(now.name, "cyan"))
    call.out.line(Styled(f"  {moved.store.root / now.file}", "dim"))
    undos = [f"`{undo}`" for undo in _list_undos(moved)]
    verb = "takes" if len(undos) == 1 else "take"
    call.out.line(f"  {' and then '.join(undos)} {verb} it back")
