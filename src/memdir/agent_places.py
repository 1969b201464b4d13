"""Where an agent's own memory lives, by its scope: computed from the agent's name and the project's root.

    user      <base>/agent-memory/<agent>/                     in every project
    project   <root>/.claude/agent-memory/<agent>/             committed with the project
    local     <root>/.claude/agent-memory-local/<agent>/       this machine only; on the mount where there is one

A name is one segment of the guard's grammar once its `:` have become `-` (plugins write `plugin:agent`). What lies in
a work tree came with a clone: a link on the way down to it could lead anywhere, so it is refused.

What this room does not do: make or open anything, keep local memory out of version control, or read which scope an
agent's own file asks for.
"""

import os
from enum import StrEnum
from pathlib import Path

from memdir.errors import PathError
from memdir.frozen import dataclass
from memdir.guard import find_refusal
from memdir.paths import check_root, find_base
from memdir.settings import Environment
from memdir.slugs import slug


class AgentScope(StrEnum):
    """Where an agent's memory counts."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class AgentPlace:
    """An agent's memory directory; `name` is the agent's as it stands in the path."""

    name: str
    scope: AgentScope
    path: Path


def find_agent_place(name: str, scope: AgentScope, *, environment: Environment, root: Path) -> AgentPlace:
    """The directory of that agent; raises PathError for a name or place that may not be one."""
    leaf = name.replace(":", "-")
    reason = find_refusal(leaf)
    if reason:
        raise PathError(name, reason, hint="an agent's name is letters, digits, `-`, `_` and `:`")
    path = _find_folder(scope, environment, root) / leaf
    check_root(str(path))
    if path.is_relative_to(root):
        _check_no_link(root, path)
    return AgentPlace(leaf, scope, path)


def _find_folder(scope: AgentScope, environment: Environment, root: Path) -> Path:
    if scope is AgentScope.USER:
        return find_base(environment)[0] / "agent-memory"
    if scope is AgentScope.PROJECT:
        return root / ".claude" / "agent-memory"
    if mount := environment.remote_memory_dir:
        check_root(mount)
        return Path(mount) / "projects" / slug(str(root)) / "agent-memory-local"
    return root / ".claude" / "agent-memory-local"


def _check_no_link(root: Path, path: Path) -> None:
    for depth in range(len(path.relative_to(root).parts)):
        at = path if depth == 0 else path.parents[depth - 1]
        if os.path.islink(at):
            raise PathError(str(path), f"{at} is a symbolic link, and it came with the project")
