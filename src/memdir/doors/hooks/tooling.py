"""Before a tool runs that writes memory: may it. After one that read or wrote a memory: the conversation has it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.doors.hooks.answers import Answer
from memdir.doors.hooks.given import Given
from memdir.doors.hooks.opening import open_here
from memdir.errors import SettingsError
from memdir.gitroot import find_root
from memdir.hosts.rows import Event
from memdir.opening import Opened
from memdir.own_writes import EDITORS, PATH_KEYS, SHELLS, WRITERS, plain_name
from memdir.recall import find_key
from memdir.records import Scope, ToolCall
from memdir.session import open_session
from memdir.settings import Environment
from memdir.tool_writes import Ground, find_writes, judge

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready
    from memdir.secrets import Finding

_READERS = frozenset("read readfile viewfile view".split())


def answer_tool(given: Given, ready: "Ready") -> None:
    name = plain_name(given.text("tool_name"))
    if given.event is Event.BEFORE_TOOL and name in WRITERS | EDITORS | SHELLS:
        _look_at_write(given, ready)
    elif given.event is Event.AFTER_TOOL and name in WRITERS | EDITORS | _READERS and not given.is_subagent:
        _note_read(given, ready)


def _look_at_write(given: Given, ready: "Ready") -> None:
    call = ToolCall("", given.text("tool_name"), given.find_input())
    with open_here(given, ready) as opened:
        if opened is None:
            return
        cwd, home = given.text("cwd") or str(given.cwd), str(opened.environment.home)
        writes = list(find_writes(call, list(_list_grounds(opened, Path(cwd))), cwd=cwd, home=home))
        verdicts = [judge(write, lambda text: _find_secrets(opened.environment, text)) for write in writes]
        refused = next((at.refused for at in verdicts if at.refused), "")
        said = "; ".join(text for at in verdicts for text in at.said)
        if refused:
            ready.answer = Answer(refused=f"memdir keeps this out of memory: {refused}.")
        elif said:
            text = f"memdir noticed in what is written to memory: {said}."
            ready.answer = Answer(context=text, message=text)


def _list_grounds(opened: Opened, cwd: Path) -> Iterator[Ground]:
    """Every directory that is somebody's memory here, those that others read marked so; of one place the last counts.

    A worktree has its own `.claude/memory`. At home that folder is the person's own.
    """
    root, home = opened.places.root.path, opened.environment.claude_home
    for top in (root, find_root(cwd, worktree="own").path):
        yield Ground(top / ".claude" / "memory", is_shared=True)
    yield Ground(root / ".claude" / "agent-memory", is_shared=True)
    yield Ground(root / ".claude" / "agent-memory-local")
    yield Ground(home / "agent-memory")
    for store in opened.stores:
        yield Ground(store.root, is_shared=store.scope is Scope.PROJECT)


def _find_secrets(environment: Environment, text: str) -> "Sequence[Finding]":
    # Imported here: few calls write memory, and the tables of vendors' tokens are large.
    from memdir.secrets import find_secrets
    from memdir.secrets.own import find_for

    try:
        return find_for(environment, text)
    except SettingsError:
        return find_secrets(text)  # the person's own rules cannot be read; `doctor` says so


def _note_read(given: Given, ready: "Ready") -> None:
    paths = [value for key in PATH_KEYS if isinstance(value := given.find_input().get(key), str)]
    paths = [path for path in paths if path.endswith(".md") and "\0" not in path]
    if not paths or not given.session:
        return
    with open_here(given, ready) as opened:
        if opened is None:
            return
        session, cwd = open_session(opened.private.state, given.session), given.text("cwd") or str(given.cwd)
        keys = [find_key(session, opened.stores, Path(os.path.join(cwd, path))) for path in paths]
        session.note_read(key for key in keys if key is not None)
