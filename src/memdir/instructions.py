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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memdir import guard
from memdir.agent_places import AgentPlace
from memdir.agents import keep_out, open_agent_store
from memdir.authors import read_authors
from memdir.clip import clip_index
from memdir.errors import SettingsError
from memdir.frozen import dataclass, replace
from memdir.guidance import LOGS_FOLDER, Mode, Part, Setup, render_guidance
from memdir.index import INDEX_FILE, parse_index
from memdir.opening import Opened
from memdir.paths import DIR_NAME
from memdir.prompts import render_prompt
from memdir.records import Clip, Header, Scope
from memdir.reminder import defuse
from memdir.slugs import find_project_dir, slug
from memdir.store.contract import Store
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER
from memdir.text import fold, one_line, printable

_PLAIN = str.maketrans("[]()", "    ")


@dataclass(frozen=True, slots=True)
class Loaded:
    """One index as it is loaded: whose, its file, what was cut, and the text that a prompt gets."""

    scope: Scope
    path: str
    clip: Clip
    text: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a conversation is told of its memory at the start."""

    mode: Mode
    parts: tuple[Part, ...] = ()
    clips: tuple[Loaded, ...] = ()

    @property
    def guidance(self) -> str:
        return "\n\n".join(part.text for part in self.parts)

    @property
    def index(self) -> str:
        return "\n\n".join(text for text in (self.heading, *(loaded.text for loaded in self.clips)) if text)

    @property
    def heading(self) -> str:
        """What stands above the indexes; empty where there is none."""
        return _render("index") if any(loaded.text for loaded in self.clips) else ""

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in (self.guidance, self.index) if text)


@dataclass(frozen=True, slots=True)
class Frame:
    """What instructions are built from: the stores that count, the one to write to first, and all that was chosen."""

    mode: Mode
    stores: tuple[Store, ...] = ()
    team: bool = False
    skip_index: bool = False
    is_loaded: bool = True
    order: str = "rank"
    past: bool = True
    transcripts: Path | None = None
    extra: str = ""
    agent: AgentPlace | None = None


def instructions(stores: Store | Sequence[Store], *, mode: Mode = Mode.NORMAL) -> str:
    """A section for the system prompt: how to use the memory, then its index. Of several stores the project's first."""
    return build_instructions(stores, mode=mode).text


def build_instructions(
    where: Opened | Store | Sequence[Store],
    *,
    mode: Mode | None = None,
    agent: AgentPlace | None = None,
    make: bool = True,
) -> Instructions:
    """The instructions for a place; see the top of this room."""
    frame = find_frame(where, mode=mode, agent=agent)
    if make:
        make_directories(frame)
    return Instructions(frame.mode, render_parts(frame), load_indexes(frame))


def find_frame(
    where: Opened | Store | Sequence[Store], *, mode: Mode | None = None, agent: AgentPlace | None = None
) -> Frame:
    """What would be built, without touching anything."""
    if mode is Mode.AGENT and agent is None:
        raise SettingsError("agent mode needs an agent", key="mode", hint="name the agent and its scope")
    if isinstance(where, Opened):
        return _find_frame_here(where, mode, agent)
    stores = tuple(where) if isinstance(where, Sequence) else (where,)
    skip = bool(getattr(getattr(stores[0], "rules", None), "skip_index", False))
    chosen = Mode.AGENT if agent is not None else mode or Mode.NORMAL
    if chosen not in (Mode.OFF, Mode.NORMAL) and not isinstance(stores[0], FileStore):
        raise SettingsError(f"{chosen} mode needs a memory directory", key="mode", hint="open the store by its path")
    if chosen is Mode.OFF:
        return Frame(chosen)
    return Frame(chosen, stores, team=chosen is Mode.TEAM, skip_index=skip, agent=agent)


def make_directories(frame: Frame) -> tuple[Path, ...]:
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


def render_parts(frame: Frame) -> tuple[Part, ...]:
    """The guidance, part by part."""
    return render_guidance(_make_setup(frame))


def load_indexes(frame: Frame) -> tuple[Loaded, ...]:
    """Every index that a session loads, after the cut."""
    return tuple(loaded for store in frame.stores for loaded in load_store(frame, store))


def load_store(frame: Frame, store: Store) -> Iterator[Loaded]:
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


def _find_frame_here(opened: Opened, mode: Mode | None, agent: AgentPlace | None) -> Frame:
    settings = opened.settings
    if not opened.places.switch.on or mode is Mode.OFF:
        return Frame(Mode.OFF)
    chosen = mode or _choose_mode(opened, agent)
    frame = Frame(
        chosen,
        opened.stores,
        team=chosen is Mode.TEAM or settings.flag("team"),
        skip_index=settings.flag("skip_index"),
        is_loaded=not opened.environment.disable_claude_mds,
        order=settings.text("index_order"),
        past=settings.flag("past_context"),
        transcripts=_find_transcripts(opened),
        extra=opened.environment.extra_guidelines,
    )
    if chosen is not Mode.AGENT or agent is None:
        return frame
    return replace(frame, stores=(open_agent_store(opened, agent),), team=False, transcripts=None, agent=agent)


def _choose_mode(opened: Opened, agent: AgentPlace | None) -> Mode:
    if agent is not None:
        return Mode.AGENT
    if opened.settings.flag("daily_log"):
        return Mode.DAILY_LOG
    return Mode.TEAM if opened.settings.flag("team") else Mode.NORMAL


def _find_transcripts(opened: Opened) -> Path:
    """Where the host keeps the transcripts of conversations that were begun at the project's root."""
    projects, place = opened.environment.claude_home / "projects", opened.places.private
    if place.rule == DIR_NAME:
        return projects / place.path.parent.name
    return find_project_dir(projects, slug(str(opened.places.root.path)), windows=os.name == "nt")


def _make_setup(frame: Frame) -> Setup:
    if frame.mode is Mode.OFF:
        return Setup(Mode.OFF)
    roots = [store.root for store in frame.stores if isinstance(store, FileStore)]
    others = {at.scope: str(at.root) for at in frame.stores[1:] if isinstance(at, FileStore)}
    transcripts = frame.transcripts
    return Setup(
        frame.mode,
        directory=str(roots[0]) if roots else "",
        user=others.get(Scope.USER, ""),
        team=str(roots[0] / TEAM_FOLDER) if roots and frame.mode is Mode.TEAM else "",
        project=others.get(Scope.PROJECT, ""),
        agent=frame.agent.name if frame.agent else "",
        agent_scope=frame.agent.scope if frame.agent else "",
        skip_index=frame.skip_index,
        is_loaded=frame.is_loaded,
        past=frame.past,
        transcripts=str(transcripts) if transcripts is not None and transcripts.is_dir() else "",
        extra=frame.extra,
    )


def _is_told(frame: Frame, store: Store) -> bool:
    """What a project keeps in its own history is shared as a team's is: it is told where the team's is."""
    return frame.team or getattr(store, "scope", Scope.PRIVATE) is not Scope.PROJECT


def _list_folders(frame: Frame, store: FileStore) -> list[str]:
    if store is not frame.stores[0]:
        return []
    return [TEAM_FOLDER] * frame.team + [LOGS_FOLDER] * (frame.mode is Mode.DAILY_LOG)


# --- what is loaded -------------------------------------------------------------------------------------------------


def _load(
    frame: Frame, scope: Scope, path: str, text: str, headers: Sequence[Header], uses: Mapping[str, int]
) -> Loaded:
    clip = clip_index(text.removeprefix("\ufeff"), headers, order=frame.order, uses=uses, file=path)
    return Loaded(scope, path, clip, _render_block(frame, scope, path, clip))


def _render_block(frame: Frame, scope: Scope, path: str, clip: Clip) -> str:
    # What stands in an index may have come from anybody: nothing in it may hide, or end the block it is put in.
    lines = printable(clip.text.replace("\r\n", "\n")).strip("\n")
    if not lines and not clip.warning:
        if frame.skip_index:
            return ""
        lines = _render("empty")
    shown = [text for text in (lines, f"> {one_line(clip.warning)}" if clip.warning else "") if text]
    return defuse(_render(f"index_{scope}", path=one_line(path), lines="\n\n".join(shown)))


def _render(name: str, **slots: str) -> str:
    return render_prompt(f"instructions/{name}", **slots)
