"""Agents with a memory of their own: which there are, where each keeps it, and opening that.

A definition is a Markdown file below `.claude/agents/` of the project or of the person; its head names the agent and
may say `memory: user`, `project` or `local`. The project's definition of a name goes before the person's. What cannot
be read is left out or told as a problem: it came with a clone as often as not.

Nothing is learned into an agent's memory in the background, and nothing is recalled from it unless it is opened here
and asked. A local one is kept out of version control by a line in the repository's own `info/exclude`, written when the
memory is first written or told of; worktrees share that file.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memdir import yaml_subset
from memdir.agent_places import AgentPlace, AgentScope, find_agent_place
from memdir.errors import NotFoundError, PathError, SettingsError
from memdir.frozen import dataclass
from memdir.gitroot import CONFIG_BYTES, find_git_dir
from memdir.limits import AGENT_DEPTH, AGENT_FILES, HEADER_BYTES
from memdir.opening import Opened
from memdir.paths import find_state_dir
from memdir.records import Scope
from memdir.settings import Environment
from memdir.slugs import slug
from memdir.small_files import disk_error, read_head, read_small
from memdir.store.files import FileStore
from memdir.text import fold, one_line, shorten

if TYPE_CHECKING:
    from memdir.secrets import Finding

EXCLUDED = "/.claude/agent-memory-local/"
_FENCE = "---"
_NAME_CHARS = 100


@dataclass(frozen=True, slots=True)
class Definition:
    """An agent as its file describes it; `memory` is None where it asks for none, `problem` says what is wrong."""

    name: str
    memory: AgentScope | None
    path: Path
    description: str = ""
    problem: str = ""


def list_definitions(environment: Environment, root: Path) -> tuple[Definition, ...]:
    """Every agent that is defined here, by name; the project's go before the person's."""
    found: dict[str, Definition] = {}
    for folder in (root / ".claude" / "agents", environment.claude_home / "agents"):
        for path in _walk(folder, follow=folder.parent != root / ".claude"):
            if (definition := _read_definition(path)) is not None:
                found.setdefault(fold(definition.name), definition)
    return tuple(found[key] for key in sorted(found))


def list_kept(environment: Environment, root: Path) -> Iterator[AgentPlace]:
    """Every agent's memory that is there, whether anything defines the agent or not."""
    for scope in AgentScope:
        try:
            folder = find_agent_place("any", scope, environment=environment, root=root).path.parent
            leaves = sorted(os.listdir(folder))
        except (OSError, PathError):
            continue
        for leaf in leaves:
            try:
                place = find_agent_place(leaf, scope, environment=environment, root=root)
            except PathError:
                continue
            if place.path.is_dir():
                yield place


def find_place(opened: Opened, name: str, scope: AgentScope | None = None) -> tuple[AgentPlace, str]:
    """Where an agent keeps its memory, and which rule says so: the call, its definition, or the only one there is."""
    environment, root = opened.environment, opened.places.root.path
    if scope is not None:
        return find_agent_place(name, scope, environment=environment, root=root), "as asked"
    leaf = name.replace(":", "-")
    for definition in list_definitions(environment, root):
        if fold(definition.name.replace(":", "-")) == fold(leaf) and definition.memory is not None:
            place = find_agent_place(name, definition.memory, environment=environment, root=root)
            return place, f"`memory: {definition.memory}` in {definition.path}"
    find_agent_place(name, AgentScope.USER, environment=environment, root=root)  # a name that may be none is told first
    there = [place for place in list_kept(environment, root) if fold(place.name) == fold(leaf)]
    if len(there) == 1:
        return there[0], "the only one there is"
    shown = shorten(one_line(name), 60)
    if there:
        scopes = " or ".join(place.scope for place in there)
        raise SettingsError(f"{shown} has several memories", key="scope", hint=f"say --scope {scopes}")
    hint = "put `memory: user`, `project` or `local` into its definition, or say --scope"
    raise NotFoundError(f"nothing says where the agent {shown} keeps its memory", name=name, hint=hint)


def open_agent_store(opened: Opened, place: AgentPlace) -> FileStore:
    """An agent's memory with the same guard as any other; nothing is made until something is written."""
    environment, settings = opened.environment, opened.settings

    def find_secrets(text: str) -> "Sequence[Finding]":
        # Imported here: only writes to what is committed with the project are searched.
        from memdir.secrets.own import find_for

        return find_for(environment, text)

    def exclude() -> None:
        keep_out(place)

    return FileStore(
        place.path,
        state=find_state_dir(place.path, environment),
        cache=environment.cache_home / "dirs" / slug(str(place.path))[-100:].strip("-"),
        scope=Scope.AGENT,
        skip_index=settings.flag("skip_index"),
        lock_seconds=settings.number("lock_seconds"),
        clock=opened.clock,
        on_open=exclude,
        find_secrets=find_secrets,
        shared=place.scope is AgentScope.PROJECT,
    )


def keep_out(place: AgentPlace) -> bool:
    """Keep a local memory out of version control; answers whether a line was written now. Raises DiskError."""
    root = place.path.parents[2]
    if place.scope is not AgentScope.LOCAL or not place.path.is_relative_to(root / ".claude"):
        return False  # on a mount, or meant to be seen
    git_dir = find_git_dir(root)
    if git_dir is None:
        return False
    path = git_dir / "info" / "exclude"
    reading = read_small(path, CONFIG_BYTES)
    text = (reading.data or b"").decode("utf-8", "surrogateescape")
    if reading.problem or any(line.strip() in (EXCLUDED, EXCLUDED.rstrip("/")) for line in text.splitlines()):
        return False
    line = f"{EXCLUDED}\n" if not text or text.endswith("\n") else f"\n{EXCLUDED}\n"
    try:
        path.parent.mkdir(exist_ok=True)
        with open(path, "ab") as file:
            file.write(line.encode("ascii"))
    except OSError as error:
        raise disk_error(error, path) from error
    return True


def _walk(folder: Path, *, follow: bool, depth: int = AGENT_DEPTH) -> Iterator[Path]:
    """Markdown files below a folder; in a project no link is followed, not even to the folder itself."""
    budget = [AGENT_FILES]

    def walk(at: Path, left: int) -> Iterator[Path]:
        try:
            entries = sorted(os.scandir(at), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if budget[0] <= 0:
                return
            budget[0] -= 1
            if entry.is_dir(follow_symlinks=follow) and left and not entry.name.startswith("."):
                yield from walk(Path(entry.path), left - 1)
            elif entry.name.endswith(".md") and entry.is_file(follow_symlinks=follow):
                yield Path(entry.path)

    if follow or not (_is_link(folder) or _is_link(folder.parent)):
        yield from walk(folder, depth)


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(path).st_mode)
    except OSError:
        return False


def _read_definition(path: Path) -> Definition | None:
    """An agent's own words about itself; None for a file without a head, which defines nothing."""
    data = read_head(path, HEADER_BYTES).data
    lines = (data or b"").decode("utf-8-sig", "replace").splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return None
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == _FENCE), len(lines))
    head, problem = "".join(lines[1:end]), ""
    try:
        fields = yaml_subset.parse(head)
    except yaml_subset.YamlError as error:
        fields, problem = yaml_subset.parse_leniently(head), f"its head is not YAML: {error}"
    name = one_line(_text(fields, "name") or path.stem)[:_NAME_CHARS]
    memory = _text(fields, "memory").strip().lower()
    if memory and memory not in AgentScope.__members__.values():
        problem = f"memory: {shorten(one_line(memory), 40)} is none of user, project, local"
    scope = next((at for at in AgentScope if at.value == memory), None)
    return Definition(name, scope, path, shorten(one_line(_text(fields, "description")), 200), one_line(problem))


def _text(fields: dict[str, yaml_subset.Node], key: str) -> str:
    value = fields.get(key, "")
    return value if isinstance(value, str) else ""
