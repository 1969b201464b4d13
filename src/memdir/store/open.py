"""Open the stores of a working directory according to its settings, paths and identity. All interfaces use this module.

Opening a store checks it; nothing is written until the first memory is saved.

Agents may have their own memory. An agent is defined by a Markdown file below `.claude/agents/` of the project or the user
(the project's wins); its frontmatter may contain `memory: user`, `project` or `local`:

    user      <base>/agent-memory/<agent>/                     in every project
    project   <root>/.claude/agent-memory/<agent>/             committed with the project
    local     <root>/.claude/agent-memory-local/<agent>/       this machine only; on the mount if there is one

A line in the repository's `info/exclude`, written when a local memory is first written or shown, keeps it out of version
control. Links in a work tree may have come with a clone, so a link on the way to a memory is refused.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.errors import NotFoundError, PathError, SettingsError
from memdir.files import (
    STATE,
    check_root,
    disk_errors,
    find_refusal,
    hold_folder,
    make_private_dirs,
    raise_disk_errors,
    read_head,
    read_small,
    sync_dir,
    write_private,
)
from memdir.format import frontmatter
from memdir.frozen import asdict, dataclass, replace
from memdir.limits import AGENT_DEPTH, AGENT_FILES, HEADER_BYTES, INDEX_BYTES, INDEX_LINES
from memdir.project import paths
from memdir.project.paths import (
    BY_PROJECT,
    MEMBERSHIP,
    MemoryDirectory,
    ProjectPaths,
    find_git_dir,
    find_root,
    find_state_dir,
    slug,
)
from memdir.project.settings import Environment, Settings, read_environment
from memdir.records import Scope
from memdir.store.contract import Clock, utc_now
from memdir.store.files import FileStore
from memdir.text import fold, one_line, shorten

if TYPE_CHECKING:
    from memdir.project.hosts import Host
    from memdir.store.secrets import SecretFinding
    from memdir.store.state import Author

_LEFT_BEHIND = frozenset({STATE, ".consolidate-lock"})  # allowed in a directory that counts as empty


@dataclass(frozen=True, slots=True)
class Identity:
    """A project's path, remote and first commit. The last two stay the same when the path changes."""

    root: str
    remote: str | None = None
    root_commit: str | None = None


@dataclass(frozen=True, slots=True)
class RelinkCandidate:
    """A memory directory that may belong to the moved project; a lower `rank` is better."""

    path: Path
    root: str
    reason: str
    rank: int


EXCLUDED = "/.claude/agent-memory-local/"
_NAME_CHARS = 100


@dataclass(frozen=True, slots=True)
class Project:
    environment: Environment
    settings: Settings
    places: ProjectPaths
    private: FileStore
    user: FileStore | None
    clock: Clock
    project: FileStore | None = None

    @property
    def stores(self) -> tuple[FileStore, ...]:
        """Return all stores that are read here, in order of precedence for memories with the same name."""
        return tuple(store for store in (self.private, self.project, self.user) if store is not None)

    def now(self) -> datetime:
        return self.clock()

    def check_on(self) -> None:
        """Raise SettingsError if memory is off here."""
        if not self.places.switch.on:
            rule, hint = self.places.switch.rule, "`memdir where` shows the rule"
            raise SettingsError(f"memory is off here ({rule})", key=rule, hint=hint)

    def close(self) -> None:
        for store in self.stores:
            store.close()


def does_load_index(project: Project, host: "Host") -> bool:
    """Return whether the host loads this project's MEMORY.md itself."""
    if not host.loads_index:
        return False
    if project.settings.text("worktree") == "own" and find_root(project.places.root.path).kind == "worktree":
        return False  # the host treats all worktrees of a repository as one project
    # Unlike memdir, a host may trust a project's settings.
    return not any(step.verdict == BY_PROJECT for step in project.places.private.steps)


def read_loaded_index(project: Project, host: "Host") -> str:
    """Return the part of the project's MEMORY.md that the host has loaded, which it cuts at the end."""
    if not does_load_index(project, host):
        return ""
    data = project.private.index().encode("utf-8", "replace")[:INDEX_BYTES]
    return "".join(data.decode("utf-8", "ignore").splitlines(keepends=True)[:INDEX_LINES])


class AgentScope(StrEnum):
    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class AgentDirectory:
    """An agent's memory directory; `name` is the agent's name in the path."""

    name: str
    scope: AgentScope
    path: Path


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """An agent's definition. `memory` is None if the agent has no memory; `problem` describes an error in its file."""

    name: str
    memory: AgentScope | None
    path: Path
    description: str = ""
    problem: str = ""


def open_project(
    cwd: Path | None = None, *, environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> Project:
    """Open all stores for a working directory; `directory` replaces the project's memory directory."""
    cwd = (cwd or Path.cwd()).absolute()
    environment, note = paths.drop_project_variables(read_environment(environ), cwd)
    settings, places = paths.read_paths(environment, cwd)
    places = replace(places, notes=(*places.notes, note)) if note else places
    fixed = environment.now
    clock = utc_now if fixed is None else lambda: fixed
    root = places.root.path

    def open_directory(location: MemoryDirectory, root: Path | None = None) -> FileStore:
        author = partial(_find_author, settings, environment, root) if location.scope is Scope.PRIVATE else None
        keyed = root if root is not None and location.is_keyed else None
        opening = (environment, settings, clock)
        return _open_files(location.path, location.scope, *opening, root=keyed, find_author=author)

    if directory is not None:
        scope = Scope.PROJECT if paths.is_shared_dir(directory, environment) else Scope.PRIVATE
        private = open_directory(MemoryDirectory(scope, directory.absolute(), "--dir"))
        return Project(environment, settings, places, private, None, clock)
    private = open_directory(places.private, root)
    user = None if places.user is None else open_directory(places.user)
    own = None if places.project is None else open_directory(places.project)
    return Project(environment, settings, places, private, user, clock, own)


def open_store(
    path: Path | str | None = None, *, cwd: Path | str | None = None, scope: Scope | str = Scope.PRIVATE
) -> FileStore:
    """Open the memory of the project in `cwd`, or the directory at `path` regardless of the environment.

    `scope` is "private", or "user" for the memory of all projects.
    """
    if scope not in list(Scope):
        raise SettingsError(f"invalid scope {scope!r}: use one of {', '.join(Scope)}", key="scope")
    scope = Scope(scope)
    for directory in (path, cwd):
        if directory is not None and "\0" in str(directory):
            raise PathError(str(directory).replace("\0", "\\0"), "it contains a NUL", hint="pass a directory's path")
    if path is not None:
        return FileStore(Path(path).absolute(), scope=scope)
    project = open_project(None if cwd is None else Path(cwd))
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
    *,
    root: Path | None = None,
    on_open: Callable[[], object] | None = None,
    shared: bool | None = None,
    agent: bool = False,
    find_author: "Callable[[], Author] | None" = None,
) -> FileStore:
    """Open a store. With `root`, the directory must belong to that project; the first write records it as the owner."""
    state = find_state_dir(path, environment)
    find = _make_finder(environment)
    if root is not None:
        check_identity(state, root)
    return FileStore(
        path,
        state=state,
        scope=scope,
        skip_index=settings.flag("skip_index"),
        lock_seconds=settings.number("lock_seconds"),
        clock=clock,
        on_open=on_open if root is None else partial(_record_identity, state, root),
        find_secrets=find,
        shared=shared,
        team=agent or settings.flag("team"),
        find_author=find_author,
        review=not (agent or settings.flag("team_agents")),
    )


def _record_identity(state: Path, root: Path) -> None:
    """Record the project that owns a directory, at the first write or after a move to a path with the same slug."""
    known = read_identity(state)
    if known is None or known.root != str(root):
        write_identity(state, find_identity(root))


def _make_finder(environment: Environment) -> "Callable[[str], Sequence[SecretFinding]]":
    @cache
    def open_once() -> "Callable[[str], Sequence[SecretFinding]]":
        # Imported here: only writes to shared files are scanned.
        from memdir.store.secrets import open_finder

        return open_finder(environment)

    return lambda text: open_once()(text)


def _find_author(settings: Settings, environment: Environment, root: Path | None) -> "Author":
    # Imported here: only writes to team memories are signed.
    from memdir.store.state import find_own_author

    return find_own_author(settings, environment, root)


def find_agent_place(name: str, scope: AgentScope, *, environment: Environment, root: Path) -> AgentDirectory:
    """Return the memory directory of an agent; raises PathError if its name or path is not allowed.

    With `:` replaced by `-` (plugins use `plugin:agent`), the name must be a valid path segment.
    """
    leaf = name.replace(":", "-")
    if reason := find_refusal(leaf):
        raise PathError(name, reason, hint="use letters, digits, `-`, `_` and `:`")
    if scope is AgentScope.USER:
        folder = paths.find_base(environment)[0] / "agent-memory"
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
        for part in (path, *path.parents[: len(path.relative_to(root).parts) - 1]):
            if part.is_symlink():
                raise PathError(str(path), f"{part} is a symbolic link inside the project")
    return AgentDirectory(leaf, scope, path)


def list_definitions(environment: Environment, root: Path) -> tuple[AgentDefinition, ...]:
    """Return all agents defined here, sorted by name; the project's definitions win over the user's."""
    definitions: dict[str, AgentDefinition] = {}
    for folder in (root / ".claude" / "agents", environment.claude_home / "agents"):
        for path in _walk(folder, follow=folder.parent != root / ".claude"):
            if (definition := _read_definition(path)) is not None:
                definitions.setdefault(fold(definition.name), definition)
    return tuple(definitions[key] for key in sorted(definitions))


def list_agent_memories(environment: Environment, root: Path) -> Iterator[AgentDirectory]:
    """Yield all existing agent memories, even without a definition of the agent."""
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
    """Return an agent's memory directory, and why: it was requested, is in the definition, or is the only one."""
    environment, root = project.environment, project.places.root.path
    if scope is not None:
        return find_agent_place(name, scope, environment=environment, root=root), "as asked"
    leaf = name.replace(":", "-")
    for definition in list_definitions(environment, root):
        if fold(definition.name.replace(":", "-")) == fold(leaf) and definition.memory is not None:
            place = find_agent_place(name, definition.memory, environment=environment, root=root)
            return place, f"`memory: {definition.memory}` in {definition.path}"
    find_agent_place(
        name, AgentScope.USER, environment=environment, root=root
    )  # raises PathError if the name is invalid
    existing = [place for place in list_agent_memories(environment, root) if fold(place.name) == fold(leaf)]
    if len(existing) == 1:
        return existing[0], "the only one there is"
    short_name = shorten(one_line(name), 60)
    if existing:
        scopes = " or ".join(place.scope for place in existing)
        raise SettingsError(f"{short_name} has memories in several scopes", key="scope", hint=f"pass --scope {scopes}")
    hint = "add `memory: user`, `project` or `local` to its definition, or pass --scope"
    raise NotFoundError(f"no memory scope is set for the agent {short_name}", name=name, hint=hint)


def open_agent_store(project: Project, place: AgentDirectory) -> FileStore:
    """Open an agent's memory with the same checks as any other; the first write creates it.

    A directory inside the project may have come with it, so its memories are labelled as the project's.
    """
    opening, is_shared = (project.environment, project.settings, project.clock), place.scope is AgentScope.PROJECT
    scope = Scope.PROJECT if place.path.is_relative_to(project.places.root.path) else Scope.AGENT
    return _open_files(place.path, scope, *opening, on_open=partial(keep_out, place), shared=is_shared, agent=True)


def keep_out(place: AgentDirectory) -> bool:
    """Exclude a local memory from version control and return whether a line was added. May raise DiskError."""
    root = place.path.parents[2]
    if place.scope is not AgentScope.LOCAL or not place.path.is_relative_to(root / ".claude"):
        return False  # on a mount, or committed on purpose
    if (git_dir := find_git_dir(root)) is None:
        return False
    path = git_dir / "info" / "exclude"
    reading = read_small(path, paths.CONFIG_BYTES)
    text = (reading.data or b"").decode("utf-8", "surrogateescape")
    if reading.problem or any(line.strip() in (EXCLUDED, EXCLUDED.rstrip("/")) for line in text.splitlines()):
        return False
    line = f"{EXCLUDED}\n" if not text or text.endswith("\n") else f"\n{EXCLUDED}\n"
    with raise_disk_errors(path):
        path.parent.mkdir(exist_ok=True)
        with open(path, "ab") as file:
            file.write(line.encode("ascii"))
    return True


def _walk(folder: Path, *, follow: bool) -> Iterator[Path]:
    """Yield the Markdown files below a folder; without `follow`, even the folder itself may not be a link."""
    budget = [AGENT_FILES]

    def walk(current: Path, left: int) -> Iterator[Path]:
        try:
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
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
    """Return the definition in a file, or None if it has no frontmatter. Invalid YAML is reported in `problem`."""
    data = read_head(path, HEADER_BYTES).data
    lines = (data or b"").decode("utf-8-sig", "replace").splitlines(keepends=True)
    if not lines or lines[0].strip() != "---":
        return None
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), len(lines))
    head, problem = "".join(lines[1:end]), ""
    try:
        fields = frontmatter.parse_yaml(head)
    except frontmatter.YamlError as error:
        fields, problem = frontmatter.parse_leniently(head), f"its frontmatter is not YAML: {error}"
    values = (fields.get(key, "") for key in ("name", "memory", "description"))
    name, memory, description = (value if isinstance(value, str) else "" for value in values)
    memory = memory.strip().lower()
    if memory and memory not in AgentScope.__members__.values():
        problem = f"memory: {shorten(one_line(memory), 40)} is not one of user, project, local"
    scope = next((member for member in AgentScope if member.value == memory), None)
    short = one_line(name or path.stem)[:_NAME_CHARS]
    return AgentDefinition(short, scope, path, shorten(one_line(description), 200), one_line(problem))


# --- the project that owns a memory directory, and the memory of a project that has moved -----------------------------
# Two projects can have the same slug, and the slug depends on the path, so a project that is moved, renamed or cloned again
# leaves its memory behind. memdir therefore records root, remote and first commit in the state folder, and never reassigns
# the directory of an existing project silently. The caller of `relink` holds the locks of both directories.


def find_identity(root: Path) -> Identity:
    """Return the identity of a project. It runs git to find the first commit, so hooks must not call it."""
    return Identity(str(root), paths.find_remote(root), paths.find_root_commit(root))


def read_identity(state_dir: Path) -> Identity | None:
    """Return the recorded owner of a directory, or None if there is no readable record."""
    record = paths.read_root_record(state_dir)
    return Identity(record["root"], record.get("remote"), record.get("root_commit")) if record else None


def write_identity(state_dir: Path, identity: Identity) -> None:
    text = json.dumps(asdict(identity), indent=2, sort_keys=True) + "\n"
    write_private(state_dir / paths.RECORD, text.encode("ascii"))


def check_identity(state_dir: Path, root: Path) -> None:
    """Raise PathError if the directory belongs to another existing project.

    Call it only if `is_keyed` is true: projects may share a directory that the user has chosen.
    """
    known = read_identity(state_dir)
    if known is None or _is_same(known.root, str(root)) or not os.path.isdir(known.root):
        return
    raise PathError(
        str(root),
        f"its memory directory already belongs to {known.root}, whose path has the same short name",
        hint="set CLAUDE_CODE_PROJECT_DIR_NAME to give this project its own directory",
    )


def find_moved_directories(environment: Environment, identity: Identity) -> tuple[RelinkCandidate, ...]:
    """Return memory directories that may have belonged to `identity` at an earlier path, best first."""
    try:
        with os.scandir(environment.claude_home / "projects") as entries:
            projects = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        projects = []
    candidates = [match for project in projects if (match := _rank_candidate(project, environment, identity))]
    return tuple(sorted(candidates, key=lambda candidate: (candidate.rank, str(candidate.path))))


def open_known(project: Project) -> Iterator[tuple[FileStore, Identity]]:
    """Yield the private stores of this project and of all others in the user's home, with their owners if known.

    Runs git if the record is incomplete; the caller closes the stores. Projects may share a directory that the user has
    chosen, so this project's owner then has no remote and no first commit.
    """
    place, own = project.places.private, Identity(str(project.places.root.path))
    is_keyed = place.is_keyed and project.private.root == place.path  # `--dir` names another
    yield project.private, _renew(own, read_identity(project.private.state)) if is_keyed else own
    for store, root in open_others(project):
        yield store, _renew(Identity(root), read_identity(store.state))


def open_others(project: Project) -> Iterator[tuple[FileStore, str]]:
    """Yield the private stores of all other projects in the user's home, with their folders or "" if unknown.

    The caller closes the stores.
    """
    environment = project.environment
    base = paths.find_base(environment)[0] / "projects"
    try:
        folders = sorted(os.listdir(base))
    except OSError:
        folders = []
    for path in (base / folder / "memory" for folder in folders):
        if path == project.private.root or path.is_symlink() or path.parent.is_symlink() or not path.is_dir():
            continue
        store = _open_files(path, Scope.PRIVATE, environment, project.settings, project.clock)
        known = read_identity(store.state)
        yield store, (known.root if known else paths.find_transcript_cwd(path.parent)) or ""


def _renew(identity: Identity, known: Identity | None) -> Identity:
    """Return the current identity of the repository, or the recorded one if the repository is missing."""
    root, is_there = Path(identity.root), bool(identity.root) and os.path.isdir(identity.root)
    if not is_there:
        return known or identity
    remote = paths.find_remote(root)
    if known is not None and known.root_commit and known.remote == remote:
        return known
    return Identity(identity.root, remote, paths.find_root_commit(root))


def relink(source: Path, target: Path, *, environment: Environment) -> None:
    """Move a memory directory and its state folder to another path; if this raises, nothing has moved.

    Raises PathError if the target is not empty. An empty target's state is moved into the new state folder, not deleted: it
    may contain the history of forgotten memories.
    """
    for path in (source, source.parent, target, target.parent):
        if path.is_symlink():
            raise PathError(str(path), "it is a symbolic link", hint="move its target by hand")
    if not source.is_dir():
        raise NotFoundError(f"memory directory not found: {source}", name=str(source))
    if _has_files(target):
        hint = "move or forget the memories there first; memdir does not merge directories"
        raise PathError(str(target), "it already contains memories", hint=hint)
    old_state, new_state = find_state_dir(source, environment), find_state_dir(target, environment)
    moved_state = target / STATE if old_state == source / STATE else old_state
    with raise_disk_errors(target):
        make_private_dirs(target.parent)
        # A rename cannot cross file systems, so check all of them before the first.
        for old, new in ((source, target), (old_state, new_state), (target, new_state)):
            parent = next(path for path in new.parents if path.exists())
            if old.exists() and os.stat(old).st_dev != os.stat(parent).st_dev:
                raise PathError(str(old), f"it is not on the same file system as {parent}", hint="move it by hand")
        aside = _move_directory(source, target)
        if moved_state != new_state and moved_state.is_dir():
            make_private_dirs(new_state.parent)
            _keep_replaced(_move_directory(moved_state, new_state), new_state)
        _keep_replaced(aside, new_state)


def move_memory(source: Path, target: Path, identity: Identity, *, environment: Environment, seconds: float) -> None:
    """Lock both directories, move the memory to its project's current path, and record the owner."""
    states = sorted({find_state_dir(source, environment), find_state_dir(target, environment)})
    with ExitStack() as held:
        for state in states:
            held.enter_context(_hold_state_lock(state, seconds))
        relink(source, target, environment=environment)
    write_identity(find_state_dir(target, environment), identity)


@contextmanager
def _hold_state_lock(state: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a state folder, if the folder exists."""
    with ExitStack() as held:
        if state.is_dir():
            held.enter_context(disk_errors(str(state)))
            held.enter_context(hold_folder(state, "lock", seconds=seconds))
        yield


def _rank_candidate(project: Path, environment: Environment, identity: Identity) -> RelinkCandidate | None:
    memory = project / "memory"
    if memory.is_symlink() or not memory.is_dir():
        return None
    state = find_state_dir(memory, environment)
    if not (_has_files(memory) or (state / MEMBERSHIP).is_file()):  # a team memory may still be empty
        return None
    known = read_identity(state)
    if known is None:  # there is no record; an existing project keeps its memory
        cwd = paths.find_transcript_cwd(project)
        if cwd is None or os.path.isdir(cwd) or not _is_same_name(cwd, identity.root):
            return None
        return RelinkCandidate(memory, cwd, f"same name in its transcripts; {cwd} is missing", 3)
    if _is_same(known.root, identity.root):
        return None
    alive = os.path.isdir(known.root)
    where = f"{known.root} still exists" if alive else f"{known.root} is missing"
    if identity.root_commit and known.root_commit == identity.root_commit:
        return RelinkCandidate(memory, known.root, f"same first commit; {where}", 4 if alive else 0)
    if identity.remote and known.remote and parse_address(known.remote) == parse_address(identity.remote):
        return RelinkCandidate(memory, known.root, f"same remote; {where}", 5 if alive else 1)
    if not alive and _is_same_name(known.root, identity.root):
        return RelinkCandidate(memory, known.root, f"same name; {where}", 2)
    return None if alive else RelinkCandidate(memory, known.root, where, 6)


def _has_files(memory: Path) -> bool:
    try:
        with os.scandir(memory) as entries:
            for entry in entries:
                if entry.name in _LEFT_BEHIND:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    has_content = _has_files(Path(entry.path))
                else:
                    has_content = entry.is_symlink() or entry.stat(follow_symlinks=False).st_size > 0
                if has_content:
                    return True
    except FileNotFoundError:
        return False
    except OSError:
        return True  # an unreadable directory counts as not empty
    return False


def _move_directory(source: Path, target: Path) -> Path | None:
    aside = _find_free(target.parent, ".memdir-replaced") if target.exists() else None
    if aside is not None:
        os.rename(target, aside)
    try:
        os.rename(source, target)
    except OSError:
        if aside is not None:
            os.rename(aside, target)
        raise
    sync_dir(target.parent)
    sync_dir(source.parent)
    return aside


def _keep_replaced(aside: Path | None, state: Path) -> None:
    if aside is not None:
        make_private_dirs(state)
        os.rename(aside, _find_free(state, "replaced"))


def _find_free(directory: Path, name: str) -> Path:
    return next(path for n in range(1, 1_000_000) if not os.path.lexists(path := directory / f"{name}-{n}"))


def _is_same(one: str, other: str) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _is_same_name(one: str, other: str) -> bool:
    return os.path.basename(one.rstrip("/")).casefold() == os.path.basename(other.rstrip("/")).casefold()


def parse_address(remote: str) -> str:
    """Return the host and path of a remote URL, which are the same for ssh and https."""
    plain = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://", "", remote)
    plain = re.sub(r"^[^@/:]+@", "", plain)
    return re.sub(r"^([^/:]+):(?:\d+/)?", r"\1/", plain).rstrip("/").removesuffix(".git").casefold()
