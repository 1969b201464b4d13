"""What a person named on the command line, as files of a known format: a tool's name, a project, a file, an archive.

A tool's name means where that tool keeps its memories. Of a project the memory directory is meant that Claude Code or
memdir keep for it, else its instruction files. The format is told by what is in the files, not by their ending.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memdir.errors import FormatError, NotFoundError
from memdir.frozen import dataclass
from memdir.importing.chatgpt import read_chatgpt
from memdir.importing.claude_code import has_memories, read_directory
from memdir.importing.codex import is_codex, read_codex
from memdir.importing.instruction_files import NAMES, read_instructions
from memdir.importing.mcp_memory import is_graph, read_graph
from memdir.importing.mem0 import is_mem0, read_mem0
from memdir.importing.own import is_own, read_own
from memdir.importing.piles import read_pile
from memdir.importing.records import Format, Found, Pile
from memdir.settings import Environment
from memdir.slugs import slug

_HINT = f"say which with --from: {', '.join(Format)}"
_TOLD = 3  # one line in so many that speaks of the user makes a text ChatGPT's


@dataclass(frozen=True, slots=True)
class Ground:
    """Where an import happens: the project that would remember, and the places of the tools."""

    root: Path
    environment: Environment
    now: datetime
    with_team: bool = False


def read_sources(given: str, format: Format | None, *, cwd: Path, ground: Ground) -> Found:
    """All that is found there; raises if it is nothing, or nobody knows what it is."""
    paths, named = find_paths(given, format, cwd=cwd, ground=ground)
    found = [read_source(read_pile(path), format or named, ground) for path in paths]
    return Found(found[0].format, tuple(at for each in found for at in each.candidates), found[0].index)


def find_paths(given: str, format: Format | None, *, cwd: Path, ground: Ground) -> tuple[Sequence[Path], Format | None]:
    """The files or folders that are meant, and the format if what was given is a tool's name."""
    try:
        path = cwd / Path(given).expanduser()
    except RuntimeError:
        raise NotFoundError(f"there is nothing at {given}", name=given, hint="no such person has a home here") from None
    named = next((at for at in Format if at.value == given), None)
    if named is not None and not path.exists():
        places = [place for place in _find_homes(named, ground) if place.exists()]
        if not places:
            hint = "name the file, folder or archive, as in `memdir import PATH --from " + f"{named.value}`"
            raise NotFoundError(f"nothing of {named.value} was found where it usually is", name=given, hint=hint)
        return places, named
    if path.is_dir() and not (path / "MEMORY.md").exists() and format in (None, Format.CLAUDE_CODE):
        kept = [path / "memory", ground.environment.claude_home / "projects" / slug(str(path.resolve())) / "memory"]
        if (place := next((at for at in kept if at.is_dir()), None)) is not None:
            return [place], Format.CLAUDE_CODE
    if path.is_dir() and format in (None, Format.AGENTS_MD, Format.GEMINI_MD):
        files = [at for at in (path / "AGENTS.md", path / "GEMINI.md") if at.is_file()]
        if meant := [at for at in files if format in (None, NAMES[at.name.lower()])]:
            return meant, None
    return [path], None


def read_source(pile: Pile, format: Format | None, ground: Ground) -> Found:
    """The candidates of a pile; raises FormatError where the format cannot be told."""
    format = format or detect(pile)
    if format is None:
        raise FormatError(f"it cannot be told whose memories {pile.where} holds", field="format", hint=_HINT)
    if format is Format.CLAUDE_CODE:
        return read_directory(pile, with_team=ground.with_team)
    if format is Format.MEMDIR and not any(is_own(file) for file in pile.files):
        return read_directory(pile, with_team=ground.with_team)
    if format is Format.MEMDIR:
        return read_own(pile, with_team=ground.with_team)
    if format is Format.CODEX:
        return read_codex(pile, project=str(ground.root), now=ground.now)
    if format is Format.MCP_MEMORY:
        return read_graph(pile)
    if format is Format.MEM0:
        return read_mem0(pile, now=ground.now)
    if format is Format.CHATGPT:
        return read_chatgpt(pile, now=ground.now)
    return read_instructions(pile, format, root=ground.root, now=ground.now)


def detect(pile: Pile) -> Format | None:
    """Whose memories these are, by what the files say; None if nothing tells."""
    if is_codex(pile):
        return Format.CODEX
    names = {NAMES.get(file.path.rpartition("/")[2].lower()) for file in pile.files} - {None}
    if has_memories(pile):
        return Format.CLAUDE_CODE
    if names:
        return min(at for at in names if at is not None)
    for file in pile.files:
        for format, is_it in (
            (Format.MEMDIR, is_own),
            (Format.MCP_MEMORY, is_graph),
            (Format.MEM0, is_mem0),
        ):
            if is_it(file):
                return format
    return Format.CHATGPT if any(_is_told(file.text) for file in pile.files) else None


def _is_told(text: str) -> bool:
    """Whether enough lines speak of "the user", as ChatGPT's memories do."""
    lines = [line for line in text.lower().split("\n") if line.strip()]
    return bool(lines) and sum("user" in line for line in lines) * _TOLD >= len(lines)


def _find_homes(format: Format, ground: Ground) -> Sequence[Path]:
    """Where a tool keeps its memories of this project and its person."""
    environment = ground.environment
    homes = {
        Format.CODEX: [environment.codex_home / "memories"],
        Format.GEMINI_MD: [environment.gemini_home / "GEMINI.md", ground.root / "GEMINI.md"],
        Format.AGENTS_MD: [environment.codex_home / "AGENTS.md", ground.root / "AGENTS.md"],
    }
    return homes.get(format, [])
