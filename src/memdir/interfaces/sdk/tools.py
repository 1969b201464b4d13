"""The seven tools of `toolset` as other SDKs call them: a name, arguments, a text back.

What a tool refuses is its answer: a model reads what is wrong and what to do next, and a run does not fail by it.
"""

import json
from collections.abc import Mapping

from memdir.errors import MemdirError
from memdir.files import disk_error
from memdir.frozen import dataclass, replace
from memdir.interfaces.tools import OFFERS, ToolSpec, call_tool, render_refusal
from memdir.models.prompts import render_prompt
from memdir.records import Origin
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project


@dataclass(frozen=True, slots=True)
class SdkToolResult:
    text: str
    failed: bool = False


class SdkTools:
    """Tools on a place with its settings, or on one store alone, for which nothing of the environment is read."""

    offers: tuple[ToolSpec, ...] = OFFERS

    def __init__(self, where: FileStore | Project, *, by: str, session: str = "") -> None:
        self._opened = where if isinstance(where, Project) else _enclose(where)
        self._origin = Origin("agent", f"by {by}", session)

    def call(self, name: str, given: object, *, session: str = "") -> SdkToolResult:
        """What a tool answers; arguments are a table, or the JSON text of one."""
        origin = replace(self._origin, session=session) if session else self._origin
        try:
            row = call_tool(self._opened, name, _parse(given), origin=origin)
        except MemdirError as error:
            return SdkToolResult(render_refusal(error), failed=True)
        except OSError as error:
            return SdkToolResult(render_refusal(disk_error(error, error.filename or "")), failed=True)
        return SdkToolResult(json.dumps(row, ensure_ascii=False))


def read_guidance() -> str:
    """How a model should use the tools, for its system prompt."""
    return render_prompt("mcp/instructions")


def _parse(given: object) -> Mapping[str, object]:
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given or "{}")
        except (ValueError, RecursionError):
            given = None
    return {str(key): value for key, value in given.items()} if isinstance(given, Mapping) else {}


def _enclose(store: FileStore) -> Project:
    """The store as a place of its own, with every setting as it is by default."""
    opened = open_project(store.root, environ={"HOME": str(store.state)}, directory=store.root)
    opened.private.close()
    return replace(opened, private=store)
