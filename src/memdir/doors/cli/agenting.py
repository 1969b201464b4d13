"""`agent`: the memories that agents keep for themselves; who has one, what is in it, and where it lies."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click

from memdir.agent_places import AgentPlace, AgentScope, find_agent_place
from memdir.agents import Definition, find_place, list_definitions, list_kept, open_agent_store
from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.output import Styled
from memdir.doors.cli.rows import Row, make_row
from memdir.doors.cli.showing import make_index_row, show_index
from memdir.doors.cli.verb import VerbGroup, json_option
from memdir.errors import MemdirError, PathError
from memdir.instructions import find_frame, load_indexes
from memdir.opening import Opened
from memdir.text import fold

_COLUMNS = (
    Column("AGENT", "cyan", is_cut=True),
    Column("MEMORY", "magenta"),
    Column("COUNT", "bold"),
    Column("DIRECTORY", "dim", is_cut=True),
    Column("PROBLEM", "yellow", is_cut=True),
)
_scope = click.option(
    "--scope",
    type=click.Choice([scope.value for scope in AgentScope]),
    help="All projects, committed with this one, or this machine; what its definition says if not given.",
)


@click.group("agent", short_help="Memories that agents keep for themselves.", cls=VerbGroup)
def agent_verb() -> None:
    """Look at the memories that agents keep for themselves.

    An agent has one where its definition (.claude/agents/NAME.md of the project, or of your home) says `memory: user`,
    `project` or `local`. `memdir save --agent NAME` writes to it; nothing is learned into it in the background.
    """


@agent_verb.command("list", examples=("memdir agent list", "memdir agent list --json"))
@json_option
@click.pass_obj
def _list(call: Call, as_json: bool) -> None:
    """List the agents that are defined here or have a memory here.

    In a pipe: agent, scope or `none`, how many memories, directory, problem, with tabs between.
    """
    rows = list(_find_rows(call.open()))
    if as_json:
        call.out.json(rows)
    elif rows:
        call.out.table(_COLUMNS, [_make_cells(row) for row in rows])
    elif call.out.is_table:
        call.out.line("no agent is defined here, and none has a memory here")


@agent_verb.command("show", examples=("memdir agent show reviewer", "memdir agent show reviewer --scope local --json"))
@click.argument("name", metavar="NAME")
@_scope
@json_option
@click.pass_obj
def _show(call: Call, name: str, scope: str | None, as_json: bool) -> None:
    """Print what an agent would load of its memory, and the memories that are in it."""
    opened = call.open()
    place, rule = find_place(opened, name, None if scope is None else AgentScope(scope))
    clips = load_indexes(find_frame(opened, agent=place))
    with closing(open_agent_store(opened, place)) as store:
        rows = [make_row(header, store) for header in store.scan()]
    if as_json:
        index = [make_index_row(at) for at in clips]
        call.out.json(_make_facts(opened, place, rule) | {"indexes": index, "memories": rows})
        return
    if not opened.places.switch.on:
        call.out.line(f"memory is off ({opened.places.switch.rule}): an agent loads nothing")
    for loaded in clips:
        show_index(call, loaded)
    call.out.line(Styled(f"{len(rows)} {'memory' if len(rows) == 1 else 'memories'}", "dim"))
    for row in rows:
        call.out.line("  ", Styled(row["name"], "cyan"), f"  {row['description']}")


@agent_verb.command(
    "where", examples=("memdir agent where reviewer", "memdir agent where plugin:reviewer --scope user")
)
@click.argument("name", metavar="NAME")
@_scope
@json_option
@click.pass_obj
def _where(call: Call, name: str, scope: str | None, as_json: bool) -> None:
    """Print the directory of an agent's memory, and which rule chose it. Nothing is made by asking."""
    opened = call.open()
    place, rule = find_place(opened, name, None if scope is None else AgentScope(scope))
    facts = _make_facts(opened, place, rule)
    if as_json:
        call.out.json(facts)
        return
    missing = "" if facts["exists"] else "; not made yet"
    call.out.line(str(place.path), Styled(f" ({place.scope}, {rule}{missing})", "dim"))


def _make_facts(opened: Opened, place: AgentPlace, rule: str) -> dict[str, Any]:
    switch = opened.places.switch
    return {
        "agent": place.name,
        "scope": place.scope.value,
        "rule": rule,
        "path": str(place.path),
        "exists": place.path.is_dir(),
        "on": switch.on,
    }


def _find_rows(opened: Opened) -> Iterator[Row]:
    """One row for each definition, then one for each memory that no definition asks for."""
    environment, root = opened.environment, opened.places.root.path
    asked: set[tuple[str, AgentScope]] = set()
    for definition in list_definitions(environment, root):
        place, problem = None, definition.problem
        if definition.memory is not None:
            try:
                place = find_agent_place(definition.name, definition.memory, environment=environment, root=root)
                asked.add((fold(place.name), place.scope))
            except PathError as error:
                problem = str(error)
        yield _make_row(opened, definition.name, place, definition, problem)
    for kept in list_kept(environment, root):
        if (fold(kept.name), kept.scope) not in asked:
            yield _make_row(opened, kept.name, kept, None, "")


def _make_row(opened: Opened, name: str, place: AgentPlace | None, definition: Definition | None, problem: str) -> Row:
    return {
        "agent": name,
        "scope": None if place is None else place.scope.value,
        "path": None if place is None else str(place.path),
        "exists": place is not None and place.path.is_dir(),
        "memories": 0 if place is None else _count(opened, place),
        "definition": None if definition is None else str(definition.path),
        "problem": problem or None,
    }


def _count(opened: Opened, place: AgentPlace) -> int:
    try:
        with closing(open_agent_store(opened, place)) as store:
            return len(store.scan())
    except MemdirError:
        return 0


def _make_cells(row: Row) -> list[str]:
    return [row["agent"], row["scope"] or "none", str(row["memories"]), row["path"] or "", row["problem"] or ""]
