"""A conversation's instructions, computed once: what changes meanwhile is seen after clear or compact, not before.

A prompt that changed in the middle would cost a host its cached prefix and tell the model nothing new: it made the
change itself. Two keepers, for the two kinds of host:

    InstructionsCache            one process: keeps them in memory; `drop` on clear and compact
    session_instructions(...)    hooks, each a process: keeps files beside the conversation's record; `reset` drops them

Index lines of a directory are kept in that directory's own state folder and nowhere else, so that purging a memory,
which drops every prompt there, leaves none of its text behind. They are read and kept under one lock: a purge comes
before or after that, never between. Where nothing can be kept, the answer is computed each time.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from memdir.agent_places import AgentPlace
from memdir.errors import DiskError, LockedError, PathError
from memdir.frozen import list_fields
from memdir.guidance import Mode, Part
from memdir.instructions import Frame, Instructions, Loaded, find_frame, load_store, make_directories, render_parts
from memdir.limits import SESSION_SECONDS
from memdir.opening import Opened
from memdir.records import Clip, Scope
from memdir.session import SessionFile, digest, find_link, holding, open_session, prune, read_json, render_json
from memdir.small_files import write_private
from memdir.store.files import FileStore


def session_instructions(
    opened: Opened, id: str, *, mode: Mode | None = None, agent: AgentPlace | None = None
) -> Instructions:
    """The instructions of the conversation with that id, the same in every process until its record is reset."""
    frame = find_frame(opened, mode=mode, agent=agent)
    if frame.mode is Mode.OFF:
        return Instructions(Mode.OFF)
    make_directories(frame)  # what was kept still says that they exist
    key = digest(f"{agent.scope}\0{agent.path}") if agent else str(mode or "chosen")
    sessions = _open_sessions(opened, frame, id)
    kept = _read(key, sessions)
    if kept is not None:
        return kept
    try:
        with ExitStack() as held:
            # The same session may stand twice here, but a lock is taken once.
            for folder in dict.fromkeys(session.path.parent for session in sessions):
                held.enter_context(holding(folder, SESSION_SECONDS))
            return _read(key, sessions) or _write(key, sessions, frame)
    except (LockedError, DiskError, PathError):
        return _build(frame)[0]


class InstructionsCache:
    """For a host that is one process; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: dict[str, Instructions] = {}

    def take(self, build: Callable[[], Instructions], key: str = "") -> Instructions:
        """What was built under this key, or what is built now; several threads wait for one to build."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = build()
            return self._kept[key]

    def drop(self) -> None:
        """The conversation was cleared or compacted: everything is computed anew when it is next asked for."""
        with self._lock:
            self._kept.clear()


def _open_sessions(opened: Opened, frame: Frame, id: str) -> tuple[SessionFile, ...]:
    """The conversation's own record first, then its place in each directory that is loaded."""
    states = [opened.private.state, *(store.state for store in frame.stores if isinstance(store, FileStore))]
    return tuple(open_session(state, id) for state in states)


def _build(frame: Frame) -> tuple[Instructions, list[tuple[Loaded, ...]]]:
    pieces = [tuple(load_store(frame, store)) for store in frame.stores]
    return Instructions(frame.mode, render_parts(frame), tuple(at for piece in pieces for at in piece)), pieces


def _write(key: str, sessions: tuple[SessionFile, ...], frame: Frame) -> Instructions:
    made, pieces = _build(frame)
    token = os.urandom(8).hex()
    for session, piece in zip(sessions[1:], pieces, strict=True):
        _keep(session, token, {"clips": [_render_loaded(at) for at in piece]})
    parts = [[part.name, part.text] for part in made.parts]
    _keep(sessions[0], key, {"token": token, "mode": made.mode, "parts": parts})
    return made


def _keep(session: SessionFile, key: str, table: Mapping[str, object]) -> None:
    path = session.find_prompt_file(key)
    write_private(path, render_json(table))
    prune(path)


def _read(key: str, sessions: tuple[SessionFile, ...]) -> Instructions | None:
    """What was kept, whole; None if any of it is gone or is not what we wrote."""
    if any(find_link(session.path.parent) for session in sessions):
        return None
    try:
        first = read_json(sessions[0].find_prompt_file(key))
        token = str(first["token"])
        tables = [read_json(session.find_prompt_file(token)) for session in sessions[1:]]
        clips = tuple(_parse_loaded(row) for table in tables for row in _list(table["clips"]))
        parts = tuple(Part(str(name), str(text)) for name, text in map(_list, _list(first["parts"])))
        return Instructions(Mode(str(first["mode"])), parts, clips)
    except (KeyError, TypeError, ValueError):
        return None


def _render_loaded(loaded: Loaded) -> dict[str, object]:
    clip = {name: getattr(loaded.clip, name) for name in list_fields(Clip)}
    return {"scope": loaded.scope, "path": loaded.path, "text": loaded.text, "clip": clip}


def _parse_loaded(row: object) -> Loaded:
    if not isinstance(row, dict) or not isinstance(row.get("clip"), dict):
        raise TypeError(row)
    return Loaded(Scope(row["scope"]), str(row["path"]), Clip(**row["clip"]), str(row["text"]))


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value
