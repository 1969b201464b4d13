"""`prompt`: what an agent is told of its memory at the start of a session."""

from typing import Any

import click

from memdir.agent_places import AgentPlace, AgentScope, find_agent_place
from memdir.doors.cli.call import Call
from memdir.doors.cli.output import complain
from memdir.doors.cli.showing import make_index_row
from memdir.doors.cli.verb import Verb, json_option
from memdir.guidance import Mode
from memdir.instructions import Instructions, build_instructions, find_frame, make_directories
from memdir.opening import Opened
from memdir.tokens import estimate_tokens

_PARTS = ("all", "guidance", "index")


@click.command(
    "prompt",
    short_help="What an agent is told of its memory.",
    cls=Verb,
    examples=(
        "memdir prompt",
        "memdir prompt --part guidance --json",
        "memdir prompt --agent reviewer --scope project",
    ),
)
@click.option(
    "--mode", type=click.Choice([mode.value for mode in Mode]), help="This mode instead of the settings' own."
)
@click.option("--agent", metavar="NAME", help="For this agent's own memory; needs --scope.")
@click.option(
    "--scope", type=click.Choice([scope.value for scope in AgentScope]), help="Where that agent's memory counts."
)
@click.option(
    "--part", type=click.Choice(_PARTS), default="all", show_default=True, help="Print only this of the text."
)
@json_option
@click.pass_obj
def prompt_verb(call: Call, mode: str | None, agent: str | None, scope: str | None, part: str, as_json: bool) -> None:
    """Print the section for the system prompt: the guidance, which stays the same, then the indexes as they are now.

    A model is only told of directories that exist, so the missing ones are made (mode 0700), and a line on standard
    error says which. With memory switched off nothing is printed. JSON holds the whole text whatever --part says, with
    an estimate of the tokens of each part.
    """
    _check_options(mode, agent, scope)
    opened = call.open()
    place = _find_place(opened, agent, scope)
    frame = find_frame(opened, mode=Mode(mode) if mode else None, agent=place)
    made = [str(path) for path in make_directories(frame)]
    told = build_instructions(opened, mode=frame.mode, agent=place)
    for path in made:
        complain(f"made {path}, so that a model can be told of it")
    if as_json:
        call.out.json(_make_facts(opened, told, made))
    elif told.mode is Mode.OFF:
        complain("memory is off" + (f" ({opened.places.switch.rule})" if not opened.places.switch.on else ""))
    else:
        text = {"all": told.text, "guidance": told.guidance, "index": told.index}[part]
        call.out.raw(f"{text}\n".encode("utf-8", "replace") if text else b"")


def _check_options(mode: str | None, agent: str | None, scope: str | None) -> None:
    if (agent is None) != (scope is None):
        raise click.UsageError("--agent and --scope go together: `--agent reviewer --scope project`")
    if (mode == Mode.AGENT) != (agent is not None) and (agent is None or mode is not None):
        raise click.UsageError("--mode agent needs --agent NAME --scope SCOPE, and no other mode takes them")


def _find_place(opened: Opened, agent: str | None, scope: str | None) -> AgentPlace | None:
    if agent is None or scope is None:
        return None
    root = opened.places.root.path
    return find_agent_place(agent, AgentScope(scope), environment=opened.environment, root=root)


def _make_facts(opened: Opened, told: Instructions, made: list[str]) -> dict[str, Any]:
    return {
        "on": opened.places.switch.on,
        "rule": opened.places.switch.rule,
        "mode": told.mode.value,
        "guidance": told.guidance,
        "index": told.index,
        "tokens": {"guidance": estimate_tokens(told.guidance), "index": estimate_tokens(told.index)},
        "parts": [{"name": at.name, "text": at.text, "tokens": estimate_tokens(at.text)} for at in told.parts],
        "indexes": [make_index_row(at) | {"tokens": estimate_tokens(at.text)} for at in told.clips],
        "made": made,
    }
