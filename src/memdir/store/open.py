"""From a working directory to open stores: settings, paths and identity put together, the same way for every interface.

Opening checks; nothing is written until the first memory is saved.

Agents may have a memory of their own. An agent is defined by a Markdown file below `.claude/agents/` of the project or of the
person (the project's wins); its frontmatter may say `memory: user`, `project` or `local`:

    user      <base>/agent-memory/<agent>/                     in every project
    project   <root>/.claude/agent-memory/<agent>/             committed with the project
    local     <root>/.claude/agent-memory-local/<agent>/       this machine only; on the mount where there is one

A local one is kept out of version control by a line in the repository's `info/exclude`, written when the memory is first
written or shown. What lies in a work tree came with a clone, so a link on the way to it is refused.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.errors import NotFoundError, PathError, SettingsError
from memdir.files import disk_error, read_head, read_small
from memdir.format import frontmatter
from memdir.frozen import dataclass
from memdir.guard import check_root, find_refusal
from memdir.limits import AGENT_DEPTH, AGENT_FILES, HEADER_BYTES
from memdir.project.git import CONFIG_BYTES, find_git_dir
from memdir.project.identity import check_identity, find_identity, read_identity, write_identity
from memdir.project.paths import (
    MemoryDirectory,
    ProjectPaths,
    find_base,
    find_state_dir,
    is_shared_dir,
    read_paths,
    slug,
)
from memdir.project.settings import Environment, Settings, read_environment
from memdir.records import Scope
from memdir.store.contract import Clock, utc_now
from memdir.store.files import FileStore
from memdir.text import fold, one_line, shorten

if TYPE_CHECKING:
    from memdir.store.secret_text import SecretFinding
    from memdir.store.state import Author

EXCLUDED = "/.claude/agent-memory-local/"
_NAME_CHARS = 100


@dataclass(frozen=True, slots=True)
class Project:
    """All that follows from one working directory."""

    environment: Environment
    settings: Settings
    places: ProjectPaths
    private: FileStore
    user: FileStore | None
    clock: Clock
    project: FileStore | None = None

    @property
    def stores(self) -> tuple[FileStore, ...]:
        """Every store that is read here, the project's own first: of two memories with one name it wins."""
        return tuple(store for store in (self.private, self.project, self.user) if store is not None)

    def now(self) -> datetime:
        return self.clock()

    def check_on(self) -> None:
        """Raise if memory is switched off here: nothing may be written then."""
        if not self.places.switch.on:
            rule, hint = self.places.switch.rule, "`memdir where` shows which rule says so"
            raise SettingsError(f"memory is off here ({rule})", key=rule, hint=hint)

    def close(self) -> None:
        for store in self.stores:
            store.close()


def open_project(
    cwd: Path | None = None, *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Project:
    """Everything for a working directory; `directory` replaces the project's memory directory."""
    environment = read_environment(environ)
    settings, paths = read_paths(environment, (cwd or Path.cwd()).absolute())
    fixed = environment.now
    clock = utc_now if fixed is None else lambda: fixed
    root = paths.root.path

    def open_directory(place: MemoryDirectory, root: Path | None = None, *, shared: bool = False) -> FileStore:
        state = find_state_dir(place.path, environment)
        keyed = root if place.is_keyed else None
        if keyed is not None:
            check_identity(state, keyed)
        author = partial(_find_author, environment, root) if place.scope is Scope.PRIVATE else None
        on_open = partial(_record_identity, state, keyed)
        opening = (environment, settings, clock, on_open)
        return _open_files(place.path, place.scope, *opening, shared=shared, find_author=author)

    if directory is not None:
        place = MemoryDirectory(Scope.PRIVATE, directory.absolute(), "--dir")
        private = open_directory(place, shared=is_shared_dir(directory, environment))
        return Project(environment, settings, paths, private, None, clock)
    private = open_directory(paths.private, root)
    user = None if paths.user is None else open_directory(paths.user)
    own = None if paths.project is None else open_directory(paths.project)
    return Project(environment, settings, paths, private, user, clock, own)


def open_store(path: Path | str | None = None, *, cwd: Path | None = None, scope: Scope = Scope.PRIVATE) -> FileStore:
    """This project's memory, found from the git root; or the directory at `path`, whatever the environment says."""
    if path is not None:
        return FileStore(Path(path).absolute(), scope=scope)
    project = open_project(cwd)
    project.check_on()
    if scope is Scope.USER:
        project.private.close()
        if project.user is None:
            raise SettingsError("user memory is off", key="user_memory", hint="`memdir config set user_memory true`")
        return project.user
    return project.private


def _open_files(
    path: Path,
    scope: Scope,
    environment: Environment,
    settings: Settings,
    clock: Clock,
    on_open: Callable[[], object],
    *,
    shared: bool,
    find_author: "Callable[[], Author] | None" = None,
) -> FileStore:
    return FileStore(
        path,
        state=find_state_dir(path, environment),
        cache=environment.cache_home / "dirs" / slug(str(path))[-100:].strip("-"),
        scope=scope,
        skip_index=settings.flag("skip_index"),
        lock_seconds=settings.number("lock_seconds"),
        clock=clock,
        on_open=on_open,
        find_secrets=partial(_find_secrets, environment),
        shared=shared,
        team=scope is Scope.AGENT or settings.flag("team"),
        find_author=find_author,
    )


def _record_identity(state: Path, root: Path | None) -> None:
    """Write the project's record, made once and renewed when it was moved to a path with the same slug."""
    if root is not None:
        known = read_identity(state)
        if known is None or known.root != str(root):
            write_identity(state, find_identity(root))


def _find_secrets(environment: Environment, text: str) -> "Sequence[SecretFinding]":
    # Imported here: only writes to what others read are searched.
    from memdir.store.secrets import find_for

    return find_for(environment, text)


def _find_author(environment: Environment, root: Path | None) -> "Author":
    # Imported here: only writes to what a team shares are signed.
    from memdir.store.state import find_own_author

    return find_own_author(environment, root)


class AgentScope(StrEnum):
    """Where an agent's memory counts."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class AgentDirectory:
    """An agent's memory directory; `name` is the agent's as in the path."""

    name: str
    scope: AgentScope
    path: Path


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """An agent as its file describes it; `memory` is None where it asks for none, `problem` says what is wrong."""

    name: str
    memory: AgentScope | None
    path: Path
    description: str = ""
    problem: str = ""


def find_agent_place(name: str, scope: AgentScope, *, environment: Environment, root: Path) -> AgentDirectory:
    """The directory of that agent; raises PathError for a name or path that is not allowed.

    A name is one segment of the guard's grammar once its `:` have become `-` (plugins write `plugin:agent`).
    """
    leaf = name.replace(":", "-")
    if reason := find_refusal(leaf):
        raise PathError(name, reason, hint="an agent's name is letters, digits, `-`, `_` and `:`")
    if scope is AgentScope.USER:
        folder = find_base(environment)[0] / "agent-memory"
    elif scope is AgentScope.PROJECT:
        folder = root / ".claude" / "agent-memory"
    elif mount := environment.remote_memory_dir:
        check_root(mount)
        folder = Path(mount) / "projects" / slug(str(root)) / "agent-memory-local"
    else:
        folder = root / ".claude" / "agent-memory-local"
    path = folder / leaf
    check_root(str(path))
    if path.is_relative_to(root):
        for at in (path, *path.parents[: len(path.relative_to(root).parts) - 1]):
            if at.is_symlink():
                raise PathError(str(path), f"{at} is a symbolic link, and it came with the project")
    return AgentDirectory(leaf, scope, path)


def list_definitions(environment: Environment, root: Path) -> tuple[AgentDefinition, ...]:
    """Every agent that is defined here, by name; the project's precede the person's."""
    found: dict[str, AgentDefinition] = {}
    for folder in (root / ".claude" / "agents", environment.claude_home / "agents"):
        for path in _walk(folder, follow=folder.parent != root / ".claude"):
            if (definition := _read_definition(path)) is not None:
                found.setdefault(fold(definition.name), definition)
    return tuple(found[key] for key in sorted(found))


def list_agent_memories(environment: Environment, root: Path) -> Iterator[AgentDirectory]:
    """Every agent's memory that exists, whether anything defines the agent or not."""
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


def find_agent_directory(project: Project, name: str, scope: AgentScope | None = None) -> tuple[AgentDirectory, str]:
    """Where an agent keeps its memory, and which rule says so: the call, its definition, or the only one there is."""
    environment, root = project.environment, project.places.root.path
    if scope is not None:
        return find_agent_place(name, scope, environment=environment, root=root), "as asked"
    leaf = name.replace(":", "-")
    for definition in list_definitions(environment, root):
        if fold(definition.name.replace(":", "-")) == fold(leaf) and definition.memory is not None:
            place = find_agent_place(name, definition.memory, environment=environment, root=root)
            return place, f"`memory: {definition.memory}` in {definition.path}"
    find_agent_place(name, AgentScope.USER, environment=environment, root=root)  # raises for a name that cannot be one
    there = [place for place in list_agent_memories(environment, root) if fold(place.name) == fold(leaf)]
    if len(there) == 1:
        return there[0], "the only one there is"
    shown = shorten(one_line(name), 60)
    if there:
        scopes = " or ".join(place.scope for place in there)
        raise SettingsError(f"{shown} has several memories", key="scope", hint=f"say --scope {scopes}")
    hint = "put `memory: user`, `project` or `local` into its definition, or say --scope"
    raise NotFoundError(f"nothing says where the agent {shown} keeps its memory", name=name, hint=hint)


def open_agent_store(project: Project, place: AgentDirectory) -> FileStore:
    """An agent's memory with the same guard as any other; nothing is made until something is written."""
    opening = (project.environment, project.settings, project.clock, partial(keep_out, place))
    return _open_files(place.path, Scope.AGENT, *opening, shared=place.scope is AgentScope.PROJECT)


def keep_out(place: AgentDirectory) -> bool:
    """Keep a local memory out of version control; returns whether a line was written now. Raises DiskError."""
    root = place.path.parents[2]
    if place.scope is not AgentScope.LOCAL or not place.path.is_relative_to(root / ".claude"):
        return False  # on a mount, or meant to be seen
    if (git_dir := find_git_dir(root)) is None:
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


def _walk(folder: Path, *, follow: bool) -> Iterator[Path]:
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

    if follow or not (folder.is_symlink() or folder.parent.is_symlink()):
        yield from walk(folder, AGENT_DEPTH)


def _read_definition(path: Path) -> AgentDefinition | None:
    """The definition in a file; None for a file without frontmatter. One that cannot be parsed has a problem."""
    data = read_head(path, HEADER_BYTES).data
    lines = (data or b"").decode("utf-8-sig", "replace").splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        return None
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), len(lines))
    head, problem = "".join(lines[1:end]), ""
    try:
        fields = frontmatter.parse_yaml(head)
    except frontmatter.YamlError as error:
        fields, problem = frontmatter.parse_leniently(head), f"its head is not YAML: {error}"
    given = (fields.get(key, "") for key in ("name", "memory", "description"))
    name, memory, description = (value if isinstance(value, str) else "" for value in given)
    memory = memory.strip().lower()
    if memory and memory not in AgentScope.__members__.values():
        problem = f"memory: {shorten(one_line(memory), 40)} is none of user, project, local"
    scope = next((at for at in AgentScope if at.value == memory), None)
    short = one_line(name or path.stem)[:_NAME_CHARS]
    return AgentDefinition(short, scope, path, shorten(one_line(description), 200), one_line(problem))
