"""The static part of the prompt: fixed guidance, and the current memory indexes.

    build_instructions(where)     the instructions for a project, a store, or several stores

`Instructions` contains `guidance`, which is stable and suits a cached prefix, `index`, which changes with the memory, and
`text` with both. Without a `mode`, the settings select one: none if memory is off, else daily log, team or normal. The
indexes of the project, its team and all projects are loaded; an agent loads only its own. If CLAUDE_CODE_DISABLE_CLAUDE_MDS
is set, none is loaded and the guidance says so, because an index counts as an instruction file. There are no dates in either
string, and the same files and settings give the same bytes. The texts are in models/prompts/instructions.

A prompt that changed during a conversation would invalidate the host's cached prefix and tell the model nothing new, so a
host computes it once and again only after clear or compact, as `Session` does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from enum import StrEnum
from pathlib import Path

from memdir import files
from memdir.errors import SettingsError
from memdir.format.index import INDEX_FILE, clip_index, drop_lines, parse_index
from memdir.format.rules import find_rules
from memdir.format.shown import TextVoice, find_heads, find_title, show_line, show_text
from memdir.frozen import dataclass, field, replace
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES, RULE_CHARS, RULE_SHORT_CHARS, RULES_CHARS
from memdir.models.prompts import render_prompt
from memdir.project.paths import DIR_NAME, find_project_dir, slug
from memdir.recall.reminder import fit_lines
from memdir.records import LOGS_FOLDER, TEAM_FOLDER, Clip, Header, Kind, Scope, make_log_path
from memdir.store.contract import Folder, Store, StoreReader, widen
from memdir.store.facts import find_authors
from memdir.store.open import AgentDirectory, AgentScope, Project, keep_out, open_agent_store
from memdir.text import fold, one_line

LOG_PATTERN = f"{LOGS_FOLDER}/YYYY/MM/YYYY-MM-DD.md"


def render_date(last_seen: date | None, now: datetime, *, zone: tzinfo | None = None, logs: Path | None = None) -> str:
    """Return the current date for the prompt, or "" if it is still `last_seen`. With `logs`, add the day's log file."""
    local = now.astimezone(zone)
    if last_seen == local.date():
        return ""
    slots = {"weekday": f"{local:%A}", "date": local.date().isoformat(), "zone": f"UTC{local:%z}"}
    text = render_prompt("date" if last_seen is None else "date_change", **slots)
    path = "" if logs is None else render_prompt("log_date", path=one_line(str(logs / make_log_path(local.date()))))
    return " ".join(filter(None, (text, path)))


class InstructionMode(StrEnum):
    OFF = "off"
    NORMAL = "normal"
    TEAM = "team"
    DAILY_LOG = "daily_log"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    scope: Scope
    path: str
    clip: Clip
    text: str


@dataclass(frozen=True, slots=True)
class Instructions:
    """The guidance by the name of its part, the loaded indexes, and the standing rules without a line in them."""

    mode: InstructionMode
    parts: Mapping[str, str] = field(default_factory=dict)
    clips: tuple[LoadedIndex, ...] = ()
    rules: str = ""

    @property
    def guidance(self) -> str:
        return "\n\n".join(self.parts.values())

    @property
    def index(self) -> str:
        return "\n\n".join(filter(None, (self.rules, self.heading, *(loaded.text for loaded in self.clips))))

    @property
    def heading(self) -> str:
        return _render("index") if any(loaded.text for loaded in self.clips) else ""

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in (self.guidance, self.index) if text)


@dataclass(frozen=True, slots=True)
class InstructionsContext:
    """The stores and settings that are used to build instructions."""

    mode: InstructionMode
    stores: tuple[StoreReader, ...] = ()
    team: bool = False
    skip_index: bool = False
    keeps_index: bool = False
    is_loaded: bool = True
    order: str = "rank"
    past: bool = True
    transcripts: Path | None = None
    extra: str = ""
    agent: AgentDirectory | None = None

    @property
    def directory(self) -> str:
        """Return the directory to write memories to, or "" for a store without a directory."""
        return next((one_line(str(store.root)) for store in self.stores if isinstance(store, Folder)), "")

    def find_other(self, scope: Scope) -> str:
        """Return the directory for another scope, or "" if there is none or it is the default directory."""
        others = (store for store in self.stores[1:] if store.scope is scope)
        return next((one_line(str(store.root)) for store in others if isinstance(store, Folder)), "")


def instructions(stores: Store | Sequence[Store], *, mode: InstructionMode = InstructionMode.NORMAL) -> str:
    """Return a section for the system prompt with guidance and memory indexes. Pass the project's store first."""
    return build_instructions(stores, mode=mode).text


def build_instructions(
    where: Project | Store | Sequence[Store],
    *,
    mode: InstructionMode | None = None,
    agent: AgentDirectory | None = None,
    keeps_index: bool = False,
    make: bool = True,
) -> Instructions:
    """Build the instructions for a project or stores.

    `mode` overrides the settings. Agent mode requires `agent`. With `make`, the directories are created (mode 0700) before
    a model is shown their paths. With `keeps_index`, the host's tools update MEMORY.md, so the model need not.
    """
    context = replace(find_frame(where, mode=mode, agent=agent), keeps_index=keeps_index)
    if make:
        make_directories(context)
    clips = load_indexes(context)
    rules = find_rules(header for store in context.stores for header in store.scan()) if context.is_loaded else ()
    parts = dict(_render_guidance(context)) if context.mode is not InstructionMode.OFF else {}
    return Instructions(context.mode, parts, clips, render_rules(rules, clips))


def render_rules(rules: Sequence[Header], clips: Sequence[LoadedIndex] = (), *, is_again: bool = False) -> str:
    """Render the standing rules that have no line in a loaded index, as a list. With `is_again`, use a short form."""
    shown = {(loaded.scope, line.key) for loaded in clips for line in parse_index(loaded.clip.text) if line.is_pointer}
    missing = [rule for rule in rules if (rule.scope, fold(rule.name)) not in shown]
    if not missing:
        return ""
    lines = "\n".join(_render_rule(rule, RULE_SHORT_CHARS if is_again else RULE_CHARS) for rule in missing)
    return _render("standing_again" if is_again else "standing", rules=fit_lines(lines, RULES_CHARS))


def _render_rule(header: Header, limit: int) -> str:
    """Return a rule as one list item: its title, and its description if that says more."""
    about = one_line(header.description)
    text = ": ".join(filter(None, (*find_heads(find_title(header), "", about), about)))
    return f"- {show_line(text or header.title, limit)}"


def find_frame(
    where: Project | Store | Sequence[Store],
    *,
    mode: InstructionMode | None = None,
    agent: AgentDirectory | None = None,
) -> InstructionsContext:
    """Return the stores and settings for building instructions. Does not write anything."""
    if mode is InstructionMode.AGENT and agent is None:
        raise SettingsError("the mode `agent` needs an agent", key="mode", hint="pass the agent and its scope")
    if isinstance(where, Project):
        return _find_project_context(where, mode, agent)
    stores = tuple(widen(store) for store in (where if isinstance(where, Sequence) else (where,)))
    skip = stores[0].rules.skip_index
    chosen = InstructionMode.AGENT if agent is not None else mode or InstructionMode.NORMAL
    if chosen is InstructionMode.OFF:
        return InstructionsContext(chosen)
    if chosen is not InstructionMode.NORMAL and not isinstance(stores[0], Folder):
        raise SettingsError(f"{chosen} mode needs a memory directory", key="mode", hint="open the store by its path")
    return InstructionsContext(chosen, stores, team=chosen is InstructionMode.TEAM, skip_index=skip, agent=agent)


def _find_project_context(
    project: Project, mode: InstructionMode | None, agent: AgentDirectory | None
) -> InstructionsContext:
    settings = project.settings
    if not project.places.switch.on or mode is InstructionMode.OFF:
        return InstructionsContext(InstructionMode.OFF)
    by_settings = (
        (InstructionMode.AGENT, agent is not None),
        (InstructionMode.DAILY_LOG, settings.flag("daily_log")),
        (InstructionMode.TEAM, settings.flag("team")),
    )
    chosen: InstructionMode = mode or next(
        (candidate for candidate, is_set in by_settings if is_set), InstructionMode.NORMAL
    )
    # The host's folder for transcripts of conversations that started in the project's root.
    projects, private = project.environment.claude_home / "projects", project.places.private
    if private.rule == DIR_NAME:
        transcripts = projects / private.path.parent.name
    else:
        transcripts = find_project_dir(projects, slug(str(project.places.root.path)))
    context = InstructionsContext(
        chosen,
        project.stores,
        team=chosen is InstructionMode.TEAM or settings.flag("team"),
        skip_index=settings.flag("skip_index"),
        is_loaded=not project.environment.disable_claude_mds,
        order=settings.text("index_order"),
        past=settings.flag("past_context"),
        transcripts=transcripts,
        extra=project.environment.extra_guidelines,
    )
    if chosen is not InstructionMode.AGENT or agent is None:
        return context
    return replace(context, stores=(open_agent_store(project, agent),), team=False, transcripts=None, agent=agent)


def make_directories(context: InstructionsContext) -> tuple[Path, ...]:
    """Create the memory directories with mode 0700, and return those that were missing."""
    created: list[Path] = []
    if context.agent is not None:
        keep_out(context.agent)
    for number, store in enumerate(context.stores):
        if not isinstance(store, Folder):
            continue
        is_log = context.mode is InstructionMode.DAILY_LOG
        folders = [] if number else [TEAM_FOLDER] * context.team + [LOGS_FOLDER] * is_log
        created += [path for path in (store.root, *(store.root / folder for folder in folders)) if not path.is_dir()]
        with files.open_root(store.root, create=True) as root:
            for folder in folders:
                with files.disk_errors(str(store.root / folder)), files.open_folder(root, (folder,), create=True):
                    pass
    return tuple(created)


def load_indexes(context: InstructionsContext) -> tuple[LoadedIndex, ...]:
    return tuple(loaded for store in context.stores for loaded in load_store(context, store))


def load_store(
    context: InstructionsContext, store: StoreReader, without: Iterable[Header] = ()
) -> Iterator[LoadedIndex]:
    """Yield the index of a store, without the lines of some memories, and that of its team.

    Memory inside a repository is treated like team memory.
    """
    scope = store.scope
    if not context.is_loaded or (scope is Scope.PROJECT and not (context.team or context.agent)):
        return
    headers, uses = store.scan(), store.count_recalls().by_name
    folder = f"{store.root}/" if isinstance(store, Folder) else ""
    text = store.index()
    for header in without:
        text = drop_lines(text, header.name) if header.scope is scope else text
    yield _load(context, scope, f"{folder}{INDEX_FILE}", text, headers, uses)
    if context.team and folder and scope is Scope.PRIVATE:
        start = f"{TEAM_FOLDER}/"
        # An index names memories relative to its own folder, so make these names relative too.
        ours = [
            replace(header, name=header.name.removeprefix(start)) for header in headers if header.name.startswith(start)
        ]
        used = {name.removeprefix(start): count for name, count in uses.items() if name.startswith(start)}
        signed = find_authors(store, [header.name for header in headers if header.name.startswith(start)])
        authors = {fold(name.removeprefix(start)): author for name, author in signed.items()}
        text = sign_lines(store.index(TEAM_FOLDER), authors)
        yield _load(context, Scope.TEAM, f"{folder}{TEAM_FOLDER}/{INDEX_FILE}", text, ours, used)


def sign_lines(text: str, authors: Mapping[str, str]) -> str:
    """Return a team's index with the author of each memory added to its line."""
    if not authors:
        return text
    signed = ""
    for line in parse_index(text):
        author = authors.get(fold(line.name)) if line.is_pointer else None
        end = line.text[len(line.text.rstrip("\r\n")) :]
        signed += f'{line.text.rstrip()} (by "{author}"){end}' if author else line.text
    return signed


def _load(
    context: InstructionsContext, scope: Scope, path: str, text: str, headers: Sequence[Header], uses: Mapping[str, int]
) -> LoadedIndex:
    clip = clip_index(text.removeprefix("\ufeff"), headers, order=context.order, uses=uses, file=path)
    # Others may have written an index, so it may not contain invisible text or end the block around it.
    lines = clip.text.replace("\r\n", "\n").strip("\n")
    if not lines and not clip.warning:
        if context.skip_index:
            return LoadedIndex(scope, path, clip, "")
        lines = _render("empty")
    index_text = "\n\n".join(filter(None, (lines, f"> {one_line(clip.warning)}" if clip.warning else "")))
    name = f"index_{scope}"
    if context.agent is not None:  # its memory in the repository comes with a clone
        name = "index_agent_project" if context.agent.scope is AgentScope.PROJECT else "index_agent"
    index = _render(name, path=one_line(path), lines=show_text(index_text, TextVoice.OWN))
    return LoadedIndex(scope, path, clip, show_text(index, TextVoice.FILE))


def _render_guidance(context: InstructionsContext) -> Iterator[tuple[str, str]]:
    is_log = context.mode is InstructionMode.DAILY_LOG
    yield "where", _render_where(context)
    yield "ask", _render("ask_log" if is_log else "ask")
    is_team = context.mode is InstructionMode.TEAM
    scopes = {f"{kind}_scope": "\n" + _render(f"scope_{kind}") if is_team else "" for kind in Kind}
    yield "types", _render("types", **scopes)
    yield "omit", _render("omit")
    yield "save", _render("log") if is_log else _render_save(context)
    loaded = _render("loaded" if context.is_loaded and not context.skip_index else "loaded_files")
    yield "access", _render("access", loaded=loaded)
    yield "verify", _render("verify")
    yield "others", _render("others")
    if context.past and context.directory:
        folders = " and ".join(f"`{path}`" for path in (context.directory, context.find_other(Scope.USER)) if path)
        path = context.transcripts
        more = _render("past_transcripts", transcripts=one_line(str(path))) if path and path.is_dir() else ""
        yield "past", "\n\n".join(filter(None, (_render("past", directories=folders), more)))
    if context.extra.strip():
        yield "extra", context.extra.strip()


def _render_where(context: InstructionsContext) -> str:
    directory, user, shared = context.directory, context.find_other(Scope.USER), context.find_other(Scope.PROJECT)
    purpose = "purpose"
    more = [_render("where_user", directory=user)] if user else []
    if context.agent is not None:
        first = _render("where_agent", agent=one_line(context.agent.name), directory=directory)
        purpose, more = "purpose_agent", [_render(f"agent_{context.agent.scope}")]
    elif context.mode is InstructionMode.TEAM:
        first = _render("where_team", directory=directory, team=f"{directory}/{TEAM_FOLDER}")
        more += [_render("where_project", directory=shared)] if shared else []
    elif context.mode is InstructionMode.DAILY_LOG:
        first, more = _render("where_log", pattern=f"{directory}/{LOG_PATTERN}"), []
    else:
        first = _render("where", directory=directory) if directory else _render("where_tools")
    return "\n\n".join([first, _render(purpose), *more])


def _render_save(context: InstructionsContext) -> str:
    parts = {"form": _render("form"), "rules": _render("rules")}
    if context.keeps_index and not context.skip_index:
        return _render("save_kept", **parts)
    sizes = {"chars": str(INDEX_LINE_CHARS), "lines": str(INDEX_LINES), "bytes": f"{INDEX_BYTES:,}"}
    return _render("save_one", **parts) if context.skip_index else _render("save", **parts, **sizes)


def _render(name: str, **slots: str) -> str:
    return render_prompt(f"instructions/{name}", **slots)
