"""A subagent begins: it gets the index of its own memory, where it has one and the host does not load it.

Claude Code loads the one that the agent's definition asks for; any other is told here.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memdir.agent_places import AgentPlace, AgentScope, find_agent_place
from memdir.agents import list_definitions
from memdir.doors.hooks.answers import Answer
from memdir.doors.hooks.fitting import fit_lines
from memdir.doors.hooks.given import Given
from memdir.doors.hooks.opening import open_here
from memdir.errors import PathError
from memdir.guidance import Mode
from memdir.index import INDEX_FILE
from memdir.instructions import find_frame, load_indexes
from memdir.limits import HOOK_INDEX_CHARS
from memdir.opening import Opened
from memdir.text import fold

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready


def answer_agent(given: Given, ready: "Ready") -> None:
    name = given.text("agent_type")
    with open_here(given, ready) as opened:
        if opened is None or not name:
            return
        loaded = _find_loaded(opened, name) if given.host.loads_index else None
        places = [place for place in _list_places(opened, name) if place.scope is not loaded]
        texts = [text for place in places for text in _load(opened, place)]
        ready.answer = Answer(fit_lines("\n\n".join(texts), HOOK_INDEX_CHARS, where=INDEX_FILE))


def _find_loaded(opened: Opened, name: str) -> AgentScope | None:
    """The scope of the memory that the host itself puts before this agent."""
    definitions = list_definitions(opened.environment, opened.places.root.path)
    return next((at.memory for at in definitions if fold(at.name) == fold(name)), None)


def _list_places(opened: Opened, name: str) -> Iterator[AgentPlace]:
    """The memories this agent has, whatever its definition says of them."""
    for scope in AgentScope:
        try:
            place = find_agent_place(name, scope, environment=opened.environment, root=opened.places.root.path)
        except PathError:
            continue
        if place.path.is_dir():
            yield place


def _load(opened: Opened, place: AgentPlace) -> list[str]:
    frame = find_frame(opened, mode=Mode.AGENT, agent=place)
    return [at.text for at in load_indexes(frame) if at.clip.lines_total or at.clip.warning]
