"""Claude Code's settings files, as far as memdir honours them: `autoMemoryDirectory` and `autoMemoryEnabled`.

    policy   the managed settings of the machine
    local    <root>/.claude/settings.local.json, the person's own for this project
    project  <root>/.claude/settings.json, committed: it comes with a clone and may only switch off
    user     <claude home>/settings.json

A file that is missing or broken is an empty one with a note, and so is one in the project that is a link to something
else than settings: a clone could name any file so. A local file that is tracked by git is not the person's
own, whatever its name says, and counts as committed. This room reads; which file wins is decided in paths.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from memdir.frozen import dataclass, field
from memdir.gitroot import is_tracked
from memdir.limits import FILE_BYTES
from memdir.settings import Environment
from memdir.small_files import Reading, read_small
from memdir.text import one_line

DIRECTORY_KEY = "autoMemoryDirectory"
ENABLED_KEY = "autoMemoryEnabled"
_LOCAL = ".claude/settings.local.json"
_PROJECT = ".claude/settings.json"
_NAMES = ("settings.json", "settings.local.json")


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """The four files as tables; keys memdir does not know are in there too."""

    policy: Mapping[str, object] = field(default_factory=dict)
    local: Mapping[str, object] = field(default_factory=dict)
    project: Mapping[str, object] = field(default_factory=dict)
    user: Mapping[str, object] = field(default_factory=dict)
    local_is_committed: bool = False
    notes: tuple[str, ...] = ()


def read_claude_settings(environment: Environment, root: Path) -> ClaudeSettings:
    """The four files. Git is asked about the local one only where it says something a clone may not say."""
    notes: list[str] = []
    local = _read_table(root / _LOCAL, notes, is_own=False)
    user = _read_table(environment.claude_home / "settings.json", notes)
    widens = local.get(ENABLED_KEY) is True and user.get(ENABLED_KEY) is False
    committed = (DIRECTORY_KEY in local or widens) and is_tracked(root, _LOCAL)
    if committed:
        notes.append(f"{root / _LOCAL} counts as committed: git tracks it, or could not say that it does not")
    return ClaudeSettings(
        policy=_read_table(environment.policy_file, notes),
        local=local,
        project=_read_table(root / _PROJECT, notes, is_own=False),
        user=user,
        local_is_committed=committed,
        notes=tuple(notes),
    )


def _read_table(path: Path, notes: list[str], *, is_own: bool = True) -> Mapping[str, object]:
    leads_there = is_own or _leads_to_settings(path)
    reading = read_small(path, FILE_BYTES) if leads_there else Reading(None, "it is a link to something else")
    problem = reading.problem
    if reading.data is not None:
        try:
            table = json.loads(reading.data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            problem = f"it is not JSON: {error}"
        else:
            if isinstance(table, dict):
                return table
            problem = "it is not a table"
    if problem:
        notes.append(f"{path} is ignored: {one_line(problem)}")
    return {}


def _leads_to_settings(path: Path) -> bool:
    """Whether a path, its links followed, still has a name that settings have."""
    try:
        return os.path.basename(os.path.realpath(path)) in _NAMES
    except (OSError, RecursionError):
        return False
