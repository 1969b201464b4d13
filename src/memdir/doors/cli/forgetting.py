"""`forget`: take a memory away, or wipe every trace of it."""

import sys
from typing import Any

import click

from memdir.doors.cli.call import Call, name_scope, scope_flag
from memdir.doors.cli.names import find_past
from memdir.doors.cli.output import Styled, is_terminal
from memdir.doors.cli.verb import Verb, json_option, name_argument, scope_option
from memdir.edits import drop_edits
from memdir.opening import Opened
from memdir.promoting import find_traces
from memdir.store.files import FileStore

UNREACHED = (
    "what your daily logs say, copies that git has committed or pushed, a host's transcripts, notes of sessions,"
    " histories of other projects that it was promoted from, and backups"
)


@click.command(
    "forget",
    short_help="Forget a memory; --purge wipes every trace.",
    cls=Verb,
    examples=("memdir forget terse-replies", "memdir forget terse-replies --purge --yes"),
)
@name_argument()
@click.option(
    "--purge", is_flag=True, help="Also out of history and every other file of memdir's own. Cannot be undone."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@scope_option
@json_option
@click.pass_obj
def forget_verb(call: Call, name: str, purge: bool, yes: bool, scope: str | None, as_json: bool) -> None:
    """Forget a memory: its file and its index line go, history keeps them, and `memdir undo` brings them back.

    It works while memory is switched off, too.
    """
    opened = call.open()
    store, found = find_past(opened, name, scope)
    if purge:
        _confirm(found, yes=yes)
        _purge(call, opened, store, found, as_json=as_json)
        return
    store.delete(found, origin=call.origin())
    act = store.acts(found, limit=1)[0].id
    if as_json:
        call.out.json(_make_row(store, found, act=act))
        return
    call.out.line("forgot ", Styled(found, "cyan"), f"; `memdir undo{scope_flag(store)} {act}` brings it back")


def _confirm(name: str, *, yes: bool) -> None:
    if yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError("--purge cannot be undone and nobody can be asked here; say --yes")
    click.confirm(f"Wipe every trace of {name!r}? This cannot be undone.", abort=True, err=True)


def _purge(call: Call, opened: Opened, store: FileStore, name: str, *, as_json: bool) -> None:
    traces = find_traces(opened, store, name)
    count = store.purge(name) + sum(other.purge(was) for other, was in traces)
    for at, was in ((store, name), *traces):
        drop_edits(call.environment, at.root, was)
    if as_json:
        call.out.json(_make_row(store, name) | {"purged": True, "acts_cleaned": count, "unreached": UNREACHED})
        return
    acts = "1 act" if count == 1 else f"{count} acts"
    call.out.line("purged ", Styled(name, "cyan"), f" from the directory and from {acts} of its history")
    call.out.line(f"memdir cannot reach {UNREACHED}")


def _make_row(store: FileStore, name: str, *, act: int | None = None) -> dict[str, Any]:
    row = {"name": name, "scope": name_scope(store, name), "act": act}
    return row | {"purged": False, "acts_cleaned": 0, "unreached": None}
