"""The stable half of the static prompt: what an agent is told of its memory, part by part, for one mode.

Pure: the words are the files in prompts/instructions, order and conditions are here. The same setup gives the same
bytes in every process and on every day; no date and nothing that changes while a project is worked on goes in.

`render_types` and `render_omissions` serve other prompts too, such as that of the extraction.

What it does not do: find directories, or load what is remembered (instructions).
"""

from collections.abc import Iterator
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES
from memdir.prompts import render_prompt
from memdir.records import Kind
from memdir.text import one_line

LOGS_FOLDER = "logs"
LOG_PATTERN = f"{LOGS_FOLDER}/YYYY/MM/YYYY-MM-DD.md"
_FOLDER = "instructions/"


class Mode(StrEnum):
    """How an agent keeps its memory."""

    OFF = "off"
    NORMAL = "normal"
    TEAM = "team"
    DAILY_LOG = "daily_log"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of the guidance. A name stands for the same subject in every mode."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Setup:
    """All that decides the guidance. Directories are empty where there is none."""

    mode: Mode
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


def render_guidance(setup: Setup) -> tuple[Part, ...]:
    """The parts in the order they are read; none when memory is off."""
    return tuple(_render_parts(setup)) if setup.mode is not Mode.OFF else ()


def render_types(*, team: bool = False) -> str:
    """The four types; with a team each says which directory it belongs in."""
    scopes = {f"{kind}_scope": "\n" + _render(f"scope_{kind}") if team else "" for kind in Kind}
    return _render("types", **scopes)


def render_omissions() -> str:
    """What is not to be saved, even if asked for."""
    return _render("omit")


def _render_parts(setup: Setup) -> Iterator[Part]:
    is_log = setup.mode is Mode.DAILY_LOG
    yield Part("where", _render_where(setup))
    yield Part("ask", _render("ask_log" if is_log else "ask"))
    yield Part("types", render_types(team=setup.mode is Mode.TEAM))
    yield Part("omit", render_omissions())
    yield Part("save", _render("log") if is_log else _render_save(setup.skip_index))
    loaded = _render("loaded" if setup.is_loaded and not setup.skip_index else "loaded_files")
    yield Part("access", _render("access", loaded=loaded))
    yield Part("verify", _render("verify"))
    yield Part("others", _render("others"))
    if setup.past and setup.directory:
        yield Part("past", _render_past(setup))
    if setup.extra.strip():
        yield Part("extra", setup.extra.strip())


def _render_where(setup: Setup) -> str:
    directory = one_line(setup.directory)
    purpose = "purpose"
    more = [_render("where_user", directory=one_line(setup.user))] if setup.user else []
    if setup.mode is Mode.AGENT:
        first = _render("where_agent", agent=one_line(setup.agent), directory=directory)
        purpose, more = "purpose_agent", [_render(f"agent_{setup.agent_scope}")]
    elif setup.mode is Mode.TEAM:
        first = _render("where_team", directory=directory, team=one_line(setup.team))
        more += [_render("where_project", directory=one_line(setup.project))] if setup.project else []
    elif setup.mode is Mode.DAILY_LOG:
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


def _render_past(setup: Setup) -> str:
    folders = " and ".join(f"`{one_line(folder)}`" for folder in (setup.directory, setup.user) if folder)
    told = [_render("past", directories=folders)]
    if setup.transcripts:
        told.append(_render("past_transcripts", transcripts=one_line(setup.transcripts)))
    return "\n\n".join(told)


def _render(name: str, **slots: str) -> str:
    return render_prompt(_FOLDER + name, **slots)
