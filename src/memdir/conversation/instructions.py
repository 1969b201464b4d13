"""The static prompt: the guidance that stays the same, and the indexes as they are now, as two strings.

    build_instructions(where, *, mode=None, agent=None, make=True) -> Instructions
        where    an Opened (modes and texts by its settings), a Store, or several Stores, the project's first
        mode     one to take instead of the settings' own; agent mode needs an `agent` (agent_places)
        make     make the directories, 0700, before anybody is told of them; False only looks
    Instructions
        .mode    .guidance (stable, for a cached prefix)    .index (volatile)    .text (both)
        .parts   Part(name, text): what the guidance is made of
        .clips   Loaded(scope, path, clip, text): what the index is made of, one for each MEMORY.md
    instructions(stores) -> str                                the same as one string, for `memdir.instructions`

Without a `mode` memory that is off gives nothing; then the daily log goes before the team, and the team before normal.
Loaded are the indexes of the project, of its team and of all projects; an agent has its own and no other. Where
CLAUDE_CODE_DISABLE_CLAUDE_MDS is set none is, and the guidance says so: an index counts as an instruction file. Neither
string holds a date, and both are the same bytes for the same files and settings.

What it does not do: keep the strings for a conversation (prompt_cache), load instruction files (project_files), or
recall.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path

from memdir import guard
from memdir.errors import DiskError, LockedError, PathError, SettingsError
from memdir.format.clip import clip_index
from memdir.format.index import INDEX_FILE, parse_index
from memdir.frozen import dataclass, list_fields, replace
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES, SESSION_SECONDS
from memdir.models.prompts import render_prompt
from memdir.project.paths import DIR_NAME, find_project_dir, slug
from memdir.recall.reminder import defuse
from memdir.records import Clip, Header, Kind, Scope
from memdir.store.contract import Store
from memdir.store.files import FileStore
from memdir.store.open import AgentDirectory, Project, keep_out, open_agent_store
from memdir.store.plan import TEAM_FOLDER
from memdir.store.sessions import SessionFile, open_session
from memdir.store.state import digest_text, hold_sessions, read_authors
from memdir.text import fold, one_line, printable

# What it does not do: find directories, or load what is remembered (instructions).

LOGS_FOLDER = "logs"
LOG_PATTERN = f"{LOGS_FOLDER}/YYYY/MM/YYYY-MM-DD.md"
_FOLDER = "instructions/"


class InstructionMode(StrEnum):
    """How an agent keeps its memory."""

    OFF = "off"
    NORMAL = "normal"
    TEAM = "team"
    DAILY_LOG = "daily_log"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class GuidancePart:
    """One piece of the guidance. A name stands for the same subject in every mode."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class GuidanceContext:
    """All that decides the guidance. Directories are empty where there is none."""

    mode: InstructionMode
    directory: str = ""
    user: str = ""
    team: str = ""
    project: str = ""
    agent: str = ""
    agent_scope: str = ""
    skip_index: bool = False
    is_loaded: bool = True  # whether the indexes come with it
    past: bool = False
    transcripts: str = ""
    extra: str = ""


def render_guidance(setup: GuidanceContext) -> tuple[GuidancePart, ...]:
    """The parts in the order they are read; none when memory is off."""
    return tuple(_render_parts(setup)) if setup.mode is not InstructionMode.OFF else ()


def render_types(*, team: bool = False) -> str:
    """The four types; with a team each says which directory it belongs in."""
    scopes = {f"{kind}_scope": "\n" + _render(f"scope_{kind}") if team else "" for kind in Kind}
    return _render("types", **scopes)


def render_omissions() -> str:
    """What is not to be saved, even if asked for."""
    return _render("omit")


def _render_parts(setup: GuidanceContext) -> Iterator[GuidancePart]:
    is_log = setup.mode is InstructionMode.DAILY_LOG
    yield GuidancePart("where", _render_where(setup))
    yield GuidancePart("ask", _render("ask_log" if is_log else "ask"))
    yield GuidancePart("types", render_types(team=setup.mode is InstructionMode.TEAM))
    yield GuidancePart("omit", render_omissions())
    yield GuidancePart("save", _render("log") if is_log else _render_save(setup.skip_index))
    loaded = _render("loaded" if setup.is_loaded and not setup.skip_index else "loaded_files")
    yield GuidancePart("access", _render("access", loaded=loaded))
    yield GuidancePart("verify", _render("verify"))
    yield GuidancePart("others", _render("others"))
    if setup.past and setup.directory:
        yield GuidancePart("past", _render_past(setup))
    if setup.extra.strip():
        yield GuidancePart("extra", setup.extra.strip())


def _render_where(setup: GuidanceContext) -> str:
    directory = one_line(setup.directory)
    purpose = "purpose"
    more = [_render("where_user", directory=one_line(setup.user))] if setup.user else []
    if setup.mode is InstructionMode.AGENT:
        first = _render("where_agent", agent=one_line(setup.agent), directory=directory)
        purpose, more = "purpose_agent", [_render(f"agent_{setup.agent_scope}")]
    elif setup.mode is InstructionMode.TEAM:
        first = _render("where_team", directory=directory, team=one_line(setup.team))
        more += [_render("where_project", directory=one_line(setup.project))] if setup.project else []
    elif setup.mode is InstructionMode.DAILY_LOG:
        first, more = _render("where_log", pattern=f"{directory}/{LOG_PATTERN}"), []
    else:
        first = _render("where", directory=directory) if directory else _render("where_tools")
    return "\n\n".join([first, _render(purpose), *more])


def _render_save(skip_index: bool) -> str:
    form, rules = _render("form"), _render("rules")
    if skip_index:
        return _render("save_one", form=form, rules=rules)
    sizes = {"chars": str(INDEX_LINE_CHARS), "lines": str(INDEX_LINES), "bytes": f"{INDEX_BYTES:,}"}
    return _render("save", form=form, rules=rules, **sizes)


def _render_past(setup: GuidanceContext) -> str:
    folders = " and ".join(f"`{one_line(folder)}`" for folder in (setup.directory, setup.user) if folder)
    told = [_render("past", directories=folders)]
    if setup.transcripts:
        told.append(_render("past_transcripts", transcripts=one_line(setup.transcripts)))
    return "\n\n".join(told)


def _render(name: str, **slots: str) -> str:
    return render_prompt(_FOLDER + name, **slots)


# --- instructions ---

_PLAIN = str.maketrans("[]()", "    ")


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """One index as it is loaded: whose, its file, what was cut, and the text that a prompt gets."""

    scope: Scope
    path: str
    clip: Clip
    text: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a conversation is told of its memory at the start."""

    mode: InstructionMode
    parts: tuple[GuidancePart, ...] = ()
    clips: tuple[LoadedIndex, ...] = ()

    @property
    def guidance(self) -> str:
        return "\n\n".join(part.text for part in self.parts)

    @property
    def index(self) -> str:
        return "\n\n".join(text for text in (self.heading, *(loaded.text for loaded in self.clips)) if text)

    @property
    def heading(self) -> str:
        """What stands above the indexes; empty where there is none."""
        return _instructions_render("index") if any(loaded.text for loaded in self.clips) else ""

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in (self.guidance, self.index) if text)


@dataclass(frozen=True, slots=True)
class InstructionsContext:
    """What instructions are built from: the stores that count, the one to write to first, and all that was chosen."""

    mode: InstructionMode
    stores: tuple[Store, ...] = ()
    team: bool = False
    skip_index: bool = False
    is_loaded: bool = True
    order: str = "rank"
    past: bool = True
    transcripts: Path | None = None
    extra: str = ""
    agent: AgentDirectory | None = None


def instructions(stores: Store | Sequence[Store], *, mode: InstructionMode = InstructionMode.NORMAL) -> str:
    """A section for the system prompt: how to use the memory, then its index. Of several stores the project's first."""
    return build_instructions(stores, mode=mode).text


def build_instructions(
    where: Project | Store | Sequence[Store],
    *,
    mode: InstructionMode | None = None,
    agent: AgentDirectory | None = None,
    make: bool = True,
) -> Instructions:
    """The instructions for a place; see the top of this room."""
    frame = find_frame(where, mode=mode, agent=agent)
    if make:
        make_directories(frame)
    return Instructions(frame.mode, render_parts(frame), load_indexes(frame))


def find_frame(
    where: Project | Store | Sequence[Store],
    *,
    mode: InstructionMode | None = None,
    agent: AgentDirectory | None = None,
) -> InstructionsContext:
    """What would be built, without touching anything."""
    if mode is InstructionMode.AGENT and agent is None:
        raise SettingsError("agent mode needs an agent", key="mode", hint="name the agent and its scope")
    if isinstance(where, Project):
        return _find_frame_here(where, mode, agent)
    stores = tuple(where) if isinstance(where, Sequence) else (where,)
    skip = bool(getattr(getattr(stores[0], "rules", None), "skip_index", False))
    chosen = InstructionMode.AGENT if agent is not None else mode or InstructionMode.NORMAL
    if chosen not in (InstructionMode.OFF, InstructionMode.NORMAL) and not isinstance(stores[0], FileStore):
        raise SettingsError(f"{chosen} mode needs a memory directory", key="mode", hint="open the store by its path")
    if chosen is InstructionMode.OFF:
        return InstructionsContext(chosen)
    return InstructionsContext(chosen, stores, team=chosen is InstructionMode.TEAM, skip_index=skip, agent=agent)


def make_directories(frame: InstructionsContext) -> tuple[Path, ...]:
    """Make what a model is about to be told of, mode 0700; answers what was not there before."""
    made: list[Path] = []
    if frame.agent is not None:
        keep_out(frame.agent)
    for store in frame.stores:
        if isinstance(store, FileStore):
            folders = _list_folders(frame, store)
            made += [path for path in (store.root, *(store.root / at for at in folders)) if not path.is_dir()]
            root = guard.open_root(store.root, create=True)
            try:
                for folder in folders:
                    with guard.disk_errors(str(store.root / folder)), guard.open_folder(root, (folder,), create=True):
                        pass
            finally:
                os.close(root)
    return tuple(made)


def render_parts(frame: InstructionsContext) -> tuple[GuidancePart, ...]:
    """The guidance, part by part."""
    return render_guidance(_make_setup(frame))


def load_indexes(frame: InstructionsContext) -> tuple[LoadedIndex, ...]:
    """Every index that a session loads, after the cut."""
    return tuple(loaded for store in frame.stores for loaded in load_store(frame, store))


def load_store(frame: InstructionsContext, store: Store) -> Iterator[LoadedIndex]:
    """The index of one store, and that of its team where there is one; none where the switch of Claude Code says so."""
    if not frame.is_loaded or not _is_told(frame, store):
        return
    headers, uses = store.scan(), store.uses() if isinstance(store, FileStore) else {}
    scope = getattr(store, "scope", Scope.PRIVATE)
    path = str(store.root / INDEX_FILE) if isinstance(store, FileStore) else INDEX_FILE
    yield _load(frame, scope, path, store.index(), headers, uses)
    if frame.team and isinstance(store, FileStore) and scope is Scope.PRIVATE:
        start = f"{TEAM_FOLDER}/"
        # An index spells names from its own folder, and so must what is compared with it.
        ours = [replace(at, name=at.name.removeprefix(start)) for at in headers if at.name.startswith(start)]
        used = {name.removeprefix(start): count for name, count in uses.items() if name.startswith(start)}
        text = sign_lines(store.index(TEAM_FOLDER), _find_authors(store, start))
        yield _load(frame, Scope.TEAM, str(store.root / TEAM_FOLDER / INDEX_FILE), text, ours, used)


def sign_lines(text: str, authors: Mapping[str, str]) -> str:
    """A team's index with the author, by the name of the memory, behind each line; the file itself has none."""
    if not authors:
        return text
    lines = []
    for line in parse_index(text):
        author = authors.get(fold(line.name)) if line.is_pointer else None
        end = line.text[len(line.text.rstrip("\r\n")) :]
        lines.append(f"{line.text.rstrip()} (by {author}){end}" if author else line.text)
    return "".join(lines)


def _find_authors(store: FileStore, start: str) -> dict[str, str]:
    known = read_authors(store.state).items()
    # An author's name must not look like a pointer of the index.
    return {fold(name.removeprefix(start)): at.name.translate(_PLAIN) for name, at in known if name.startswith(start)}


# --- what is chosen -------------------------------------------------------------------------------------------------


def _find_frame_here(
    opened: Project, mode: InstructionMode | None, agent: AgentDirectory | None
) -> InstructionsContext:
    settings = opened.settings
    if not opened.places.switch.on or mode is InstructionMode.OFF:
        return InstructionsContext(InstructionMode.OFF)
    chosen = mode or _choose_mode(opened, agent)
    frame = InstructionsContext(
        chosen,
        opened.stores,
        team=chosen is InstructionMode.TEAM or settings.flag("team"),
        skip_index=settings.flag("skip_index"),
        is_loaded=not opened.environment.disable_claude_mds,
        order=settings.text("index_order"),
        past=settings.flag("past_context"),
        transcripts=_find_transcripts(opened),
        extra=opened.environment.extra_guidelines,
    )
    if chosen is not InstructionMode.AGENT or agent is None:
        return frame
    return replace(frame, stores=(open_agent_store(opened, agent),), team=False, transcripts=None, agent=agent)


def _choose_mode(opened: Project, agent: AgentDirectory | None) -> InstructionMode:
    if agent is not None:
        return InstructionMode.AGENT
    if opened.settings.flag("daily_log"):
        return InstructionMode.DAILY_LOG
    return InstructionMode.TEAM if opened.settings.flag("team") else InstructionMode.NORMAL


def _find_transcripts(opened: Project) -> Path:
    """Where the host keeps the transcripts of conversations that were begun at the project's root."""
    projects, place = opened.environment.claude_home / "projects", opened.places.private
    if place.rule == DIR_NAME:
        return projects / place.path.parent.name
    return find_project_dir(projects, slug(str(opened.places.root.path)), windows=os.name == "nt")


def _make_setup(frame: InstructionsContext) -> GuidanceContext:
    if frame.mode is InstructionMode.OFF:
        return GuidanceContext(InstructionMode.OFF)
    roots = [store.root for store in frame.stores if isinstance(store, FileStore)]
    others = {at.scope: str(at.root) for at in frame.stores[1:] if isinstance(at, FileStore)}
    transcripts = frame.transcripts
    return GuidanceContext(
        frame.mode,
        directory=str(roots[0]) if roots else "",
        user=others.get(Scope.USER, ""),
        team=str(roots[0] / TEAM_FOLDER) if roots and frame.mode is InstructionMode.TEAM else "",
        project=others.get(Scope.PROJECT, ""),
        agent=frame.agent.name if frame.agent else "",
        agent_scope=frame.agent.scope if frame.agent else "",
        skip_index=frame.skip_index,
        is_loaded=frame.is_loaded,
        past=frame.past,
        transcripts=str(transcripts) if transcripts is not None and transcripts.is_dir() else "",
        extra=frame.extra,
    )


def _is_told(frame: InstructionsContext, store: Store) -> bool:
    """What a project keeps in its own history is shared as a team's is: it is told where the team's is."""
    return frame.team or getattr(store, "scope", Scope.PRIVATE) is not Scope.PROJECT


def _list_folders(frame: InstructionsContext, store: FileStore) -> list[str]:
    if store is not frame.stores[0]:
        return []
    return [TEAM_FOLDER] * frame.team + [LOGS_FOLDER] * (frame.mode is InstructionMode.DAILY_LOG)


# --- what is loaded -------------------------------------------------------------------------------------------------


def _load(
    frame: InstructionsContext, scope: Scope, path: str, text: str, headers: Sequence[Header], uses: Mapping[str, int]
) -> LoadedIndex:
    clip = clip_index(text.removeprefix("\ufeff"), headers, order=frame.order, uses=uses, file=path)
    return LoadedIndex(scope, path, clip, _render_block(frame, scope, path, clip))


def _render_block(frame: InstructionsContext, scope: Scope, path: str, clip: Clip) -> str:
    # What stands in an index may have come from anybody: nothing in it may hide, or end the block it is put in.
    lines = printable(clip.text.replace("\r\n", "\n")).strip("\n")
    if not lines and not clip.warning:
        if frame.skip_index:
            return ""
        lines = _instructions_render("empty")
    shown = [text for text in (lines, f"> {one_line(clip.warning)}" if clip.warning else "") if text]
    return defuse(_instructions_render(f"index_{scope}", path=one_line(path), lines="\n\n".join(shown)))


def _instructions_render(name: str, **slots: str) -> str:
    return render_prompt(f"instructions/{name}", **slots)


# --- prompt_cache ---
# A conversation's instructions, computed once: what changes meanwhile is seen after clear or compact, not before.
#
# A prompt that changed in the middle would cost a host its cached prefix and tell the model nothing new: it made the
# change itself. Two keepers, for the two kinds of host:
#
#     InstructionsCache            one process: keeps them in memory; `drop` on clear and compact
#     session_instructions(...)    hooks, each a process: keeps files beside the conversation's record; `reset` drops
# them
#
# Index lines of a directory are kept in that directory's own state folder and nowhere else, so that purging a memory,
# which drops every prompt there, leaves none of its text behind. They are read and kept under one lock: a purge comes
# before or after that, never between. Where nothing can be kept, the answer is computed each time.


def session_instructions(
    opened: Project, id: str, *, mode: InstructionMode | None = None, agent: AgentDirectory | None = None
) -> Instructions:
    """The instructions of the conversation with that id, the same in every process until its record is reset."""
    frame = find_frame(opened, mode=mode, agent=agent)
    if frame.mode is InstructionMode.OFF:
        return Instructions(InstructionMode.OFF)
    make_directories(frame)  # what was kept still says that they exist
    key = digest_text(f"{agent.scope}\0{agent.path}") if agent else str(mode or "chosen")
    sessions = _open_sessions(opened, frame, id)
    kept = _read(key, sessions)
    if kept is not None:
        return kept
    try:
        with ExitStack() as held:
            # The same session may stand twice here, but a lock is taken once.
            for folder in dict.fromkeys(session.path.parent for session in sessions):
                held.enter_context(hold_sessions(folder, SESSION_SECONDS))
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


def _open_sessions(opened: Project, frame: InstructionsContext, id: str) -> tuple[SessionFile, ...]:
    """The conversation's own record first, then its place in each directory that is loaded."""
    states = [opened.private.state, *(store.state for store in frame.stores if isinstance(store, FileStore))]
    return tuple(open_session(state, id) for state in states)


def _build(frame: InstructionsContext) -> tuple[Instructions, list[tuple[LoadedIndex, ...]]]:
    pieces = [tuple(load_store(frame, store)) for store in frame.stores]
    return Instructions(frame.mode, render_parts(frame), tuple(at for piece in pieces for at in piece)), pieces


def _write(key: str, sessions: tuple[SessionFile, ...], frame: InstructionsContext) -> Instructions:
    made, pieces = _build(frame)
    token = os.urandom(8).hex()
    for session, piece in zip(sessions[1:], pieces, strict=True):
        session.write_prompt(token, {"clips": [_render_loaded(at) for at in piece]})
    parts = [[part.name, part.text] for part in made.parts]
    sessions[0].write_prompt(key, {"token": token, "mode": made.mode, "parts": parts})
    return made


def _read(key: str, sessions: tuple[SessionFile, ...]) -> Instructions | None:
    """What was kept, whole; None if any of it is gone or is not what we wrote."""
    try:
        first = sessions[0].read_prompt(key)
        token = str(first["token"])
        tables = [session.read_prompt(token) for session in sessions[1:]]
        clips = tuple(_parse_loaded(row) for table in tables for row in _list(table["clips"]))
        parts = tuple(GuidancePart(str(name), str(text)) for name, text in map(_list, _list(first["parts"])))
        return Instructions(InstructionMode(str(first["mode"])), parts, clips)
    except (KeyError, TypeError, ValueError):
        return None


def _render_loaded(loaded: LoadedIndex) -> dict[str, object]:
    clip = {name: getattr(loaded.clip, name) for name in list_fields(Clip)}
    return {"scope": loaded.scope, "path": loaded.path, "text": loaded.text, "clip": clip}


def _parse_loaded(row: object) -> LoadedIndex:
    if not isinstance(row, dict) or not isinstance(row.get("clip"), dict):
        raise TypeError(row)
    return LoadedIndex(Scope(row["scope"]), str(row["path"]), Clip(**row["clip"]), str(row["text"]))


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value
