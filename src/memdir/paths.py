"""Where memory lives: slug, resolution order, switches. It computes and looks; it never makes anything.

The private directory comes from the first of these that names one:

    1. CLAUDE_COWORK_MEMORY_PATH_OVERRIDE, a whole path
    2. autoMemoryDirectory in Claude Code's policy, local or user settings; never in a committed file
    3. <base>/projects/<name>/memory, with CLAUDE_CODE_PROJECT_DIR_NAME or the root's slug as the name

A value that is refused does not stop the search (Claude Code goes on as well, and both must end in the same
directory); it leaves a step and a note that say so. What this room does not do: say whether a directory found by its
slug is really this project's (identity), or open anything in it (guard).
"""

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from memdir.claude_settings import DIRECTORY_KEY, ENABLED_KEY, ClaudeSettings, read_claude_settings
from memdir.errors import PathError
from memdir.frozen import dataclass, replace
from memdir.gitroot import Root, find_root
from memdir.options import parse_flag
from memdir.records import Scope
from memdir.settings import DEFAULT, Environment, Settings, read_settings
from memdir.slugs import find_project_dir, slug
from memdir.text import fold, one_line, shorten
from memdir.traces import find_transcript_cwd, read_record

STATE = ".memdir"
DEFAULT_RULE = "default"
OVERRIDE = "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE"
DIR_NAME = "CLAUDE_CODE_PROJECT_DIR_NAME"
REMOTE_DIR = "CLAUDE_CODE_REMOTE_MEMORY_DIR"
OWN_FOLDERS = (".claude", "memory")  # where a project keeps memory in its own history
_COMMITTED = ("memory", "agent-memory")
_NOT_COMMITTED = "a committed file may not choose the directory"
COMMITTED = f"refused: {_NOT_COMMITTED}"  # the verdict on such a one, which the host itself may believe
MEMBERSHIP = "team.json"  # in the state folder of a project that takes part in a team


@dataclass(frozen=True, slots=True)
class Step:
    """One rule that was tried, what it said, and what came of it."""

    rule: str
    value: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Place:
    """A memory directory and the rule that chose it."""

    scope: Scope
    path: Path
    rule: str
    steps: tuple[Step, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether the project's own path chose it, so that another project there is an accident and not a wish."""
        return self.rule == DEFAULT_RULE and self.scope is Scope.PRIVATE


@dataclass(frozen=True, slots=True)
class Switch:
    """Whether memory is on, and which rule said so."""

    on: bool
    rule: str


@dataclass(frozen=True, slots=True)
class Places:
    """Everything that follows from a working directory."""

    root: Root
    switch: Switch
    private: Place
    user: Place | None
    notes: tuple[str, ...] = ()
    project: Place | None = None


def read_places(environment: Environment, cwd: Path) -> tuple[Settings, Places]:
    """Settings and places of a working directory: the one way every door takes."""
    # Committed files are read where the person works: in a linked worktree that is its own top.
    top = find_root(cwd, worktree="own").path
    settings = read_settings(environment, root=top)
    places = resolve(settings, read_claude_settings(environment, top), environment, cwd)
    return _follow_team(settings, find_state_dir(places.private.path, environment)), places


def _follow_team(settings: Settings, state: Path) -> Settings:
    """A project that takes part in a team keeps and loads its memory, unless the person has said on or off."""
    if settings.sources["team"] != DEFAULT or not os.path.isfile(state / MEMBERSHIP):
        return settings
    values, sources = {**settings.values, "team": True}, {**settings.sources, "team": "`memdir team`"}
    return replace(settings, values=values, sources=sources)


def resolve(settings: Settings, claude: ClaudeSettings, environment: Environment, cwd: Path) -> Places:
    """The places by the order above; raises PathError only when even the default may not be used."""
    root = find_root(cwd, worktree=settings.text("worktree"))
    base, base_note = find_base(environment)
    private = _find_private(claude, environment, root, base)
    user, user_note = _find_user(settings, base, private)
    project, project_note = _find_project(environment, private, base, root, cwd)
    refused = (f"{step.rule}: {step.verdict}" for step in private.steps if step.verdict.startswith("refused"))
    notes = (root.note, *settings.notes, *claude.notes, base_note, *refused, user_note, project_note)
    found = tuple(note for note in notes if note)
    return Places(root, _find_switch(claude, environment), private, user, found, project)


def find_state_dir(memory_dir: Path, environment: Environment) -> Path:
    """Where memdir's own files for a memory directory lie: inside it, but never inside anybody's work tree."""
    real = os.path.realpath(memory_dir)
    directory = real
    while not os.path.lexists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return memory_dir / STATE
        directory = parent
    # Imported here: most memory directories are in nobody's work tree, and OpenSSL takes milliseconds to load.
    import hashlib

    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    return environment.state_home / "dirs" / f"{slug(real)[-60:].strip('-')}-{digest}"


def is_shared_dir(directory: Path, environment: Environment) -> bool:
    """Whether a directory that was named by its path is one that others read, or lies in one."""
    own = {os.path.realpath(at) for at in (environment.home / ".claude", environment.claude_home)}
    real = Path(os.path.realpath(directory))
    for at in (real, *real.parents):
        if at.parent.name == OWN_FOLDERS[0] and at.name in _COMMITTED and str(at.parent) not in own:
            return True
        # The team's folder of a memory directory; such a one has an index or a state folder.
        if fold(at.name) == "team" and any(os.path.lexists(at.parent / leaf) for leaf in ("MEMORY.md", STATE)):
            return True
    return False


def check_directory_setting(value: object, home: Path) -> Path:
    """The directory a settings file names; raises PathError. `~/` is the home, and nothing may be the home or above."""
    if not isinstance(value, str):
        raise PathError(shorten(one_line(str(value)), 60), "a directory is written as text")
    text = unicodedata.normalize("NFC", value)
    if text == "~" or text.startswith(("~/", "~\\" if os.name == "nt" else "~/")):
        text = f"{home}/{text[2:]}"
    path = _check_place(text)
    for form, own in ((path, os.path.normpath(home)), (os.path.realpath(path), os.path.realpath(home))):
        if os.path.join(own, "").startswith(os.path.join(form, "")):
            hint = "name a directory of its own, for example ~/memory"
            raise PathError(value, "it is the home directory or above it", hint=hint)
    return Path(path)


def check_root(path: str) -> None:
    """Refuse, from its text alone, what may never be a memory directory; raises PathError."""
    hint = "give the whole path of a directory of its own, two levels down or more"
    drive, rest = (path[:2], path[2:]) if re.match(r"[A-Za-z]:", path) else ("", path)
    if "\0" in path:
        raise PathError(path, "it holds a NUL", hint=hint)
    if not _can_be_encoded(path):
        raise PathError(path, "no file name can be spelled like this", hint=hint)
    if re.match(r"[/\\]{2}", path):
        raise PathError(path, "it is a network path", hint=hint)
    if drive and not rest.strip("/\\."):
        raise PathError(path, "it is the root of a drive", hint=hint)
    if not os.path.isabs(path):
        raise PathError(path, "it is not an absolute path", hint=hint)
    parts = [part for part in re.split(r"[/\\]" if drive else "/", os.path.normpath(rest)) if part]
    if len(parts) < 2:
        raise PathError(path, "it is the root of the file system, or directly below it", hint=hint)


def _find_private(claude: ClaudeSettings, environment: Environment, root: Root, base: Path) -> Place:
    def check_setting(value: object) -> Path:
        return check_directory_setting(value, environment.home)

    def check_name(value: object) -> Path:
        return _check_dir_name(str(value), base)

    rules: tuple[tuple[str, object, Callable[[object], Path]], ...] = (
        (OVERRIDE, environment.memory_override, _check_override),
        (f"{DIRECTORY_KEY} in policy settings", claude.policy.get(DIRECTORY_KEY), check_setting),
        (
            f"{DIRECTORY_KEY} in local settings",
            claude.local.get(DIRECTORY_KEY),
            _refuse_committed if claude.local_is_committed else check_setting,
        ),
        (f"{DIRECTORY_KEY} in project settings", claude.project.get(DIRECTORY_KEY), _refuse_committed),
        (f"{DIRECTORY_KEY} in user settings", claude.user.get(DIRECTORY_KEY), check_setting),
        (DIR_NAME, environment.project_dir_name, check_name),
    )
    steps: list[Step] = []
    for rule, value, check in rules:
        path = _try(steps, rule, value, check)
        if path is not None:
            return Place(Scope.PRIVATE, path, rule, tuple(steps))
    path = _find_keyed(environment, root, base)
    check_root(str(path))
    return Place(Scope.PRIVATE, path, DEFAULT_RULE, (*steps, Step(DEFAULT_RULE, str(path), "taken")))


def _try(steps: list[Step], rule: str, value: object, check: Callable[[object], Path]) -> Path | None:
    """Put one rule to the test and write down what came of it."""
    if value is None or value == "":
        steps.append(Step(rule, "", "not set"))
        return None
    try:
        path = check(value)
    except PathError as error:
        steps.append(Step(rule, _show(value), f"refused: {error.reason}"))
        return None
    steps.append(Step(rule, _show(value), "taken"))
    return path


def _find_keyed(environment: Environment, root: Root, base: Path) -> Path:
    windows = os.name == "nt"

    def is_taken(project: Path) -> bool:
        record = read_record(find_state_dir(project / "memory", environment))
        owner = record.get("root") or find_transcript_cwd(project)
        return owner is not None and os.path.realpath(owner) != str(root.path)

    return find_project_dir(base / "projects", slug(str(root.path)), windows=windows, is_taken=is_taken) / "memory"


def find_base(environment: Environment) -> tuple[Path, str]:
    """Below which directory all memory lies that no other rule places, and a note if a mount was refused."""
    given = environment.remote_memory_dir
    if not (environment.remote and given):
        return environment.claude_home, ""
    try:
        return _check_override(given), ""
    except PathError as error:
        return environment.claude_home, f"{REMOTE_DIR}: refused: {error.reason}"


def find_project_home(environment: Environment, root: Root) -> Path:
    """The host's own directory of a project, wherever its memory lies: transcripts and notes of sessions are there."""
    if environment.project_dir_name:
        try:
            return _check_dir_name(environment.project_dir_name, environment.claude_home).parent
        except PathError:
            pass  # resolving the memory directory has said so already
    return _find_keyed(environment, root, environment.claude_home).parent


def _find_user(settings: Settings, base: Path, private: Place) -> tuple[Place | None, str]:
    if not settings.flag("user_memory"):
        return None, ""
    path = base / "memory"
    if _are_one(path, private.path):
        return None, f"no user memory: {private.path} and {path} lie in one another"
    try:
        check_root(str(path))
    except PathError as error:
        return None, f"no user memory: {error}"
    return Place(Scope.USER, path, "user memory", (Step("user_memory", "true", "taken"),)), ""


def _find_project(
    environment: Environment, private: Place, base: Path, root: Root, cwd: Path
) -> tuple[Place | None, str]:
    """The memory a repository keeps in its own history, where the person works; it came with a clone."""
    if root.kind == "plain":
        return None, ""
    top = root.path if root.kind == "git" else find_root(cwd, worktree="own").path
    path = top.joinpath(*OWN_FOLDERS)
    if not os.path.lexists(path):
        return None, ""
    # A home that is a repository: there the same name is the person's own memory.
    if any(_are_one(path, other) for other in (private.path, base / "memory", environment.claude_home / "memory")):
        return None, ""
    for at in (path.parent, path):
        if os.path.islink(at) or not at.is_dir():
            return None, f"no project memory: {at} is {'a link' if os.path.islink(at) else 'no directory'}"
    return Place(Scope.PROJECT, path, "kept in the project's own history"), ""


def _are_one(one: Path, other: Path) -> bool:
    """Whether one directory is the other, or lies in it."""
    here, there = os.path.join(os.path.realpath(one), ""), os.path.join(os.path.realpath(other), "")
    return here.startswith(there) or there.startswith(here)


def _find_switch(claude: ClaudeSettings, environment: Environment) -> Switch:
    """The first that speaks wins; a committed file is heard only when it says off."""
    disabled = parse_flag(environment.disable_auto_memory or "")
    if disabled is not None:
        return Switch(not disabled, "CLAUDE_CODE_DISABLE_AUTO_MEMORY")
    if environment.simple:
        return Switch(False, "CLAUDE_CODE_SIMPLE")
    if environment.remote and (not environment.remote_memory_dir or find_base(environment)[1]):
        return Switch(False, f"CLAUDE_CODE_REMOTE without a usable {REMOTE_DIR}")
    tables = (
        ("policy", claude.policy, False),
        ("local", claude.local, claude.local_is_committed),
        ("project", claude.project, True),
        ("user", claude.user, False),
    )
    for source, table, committed in tables:
        value = table.get(ENABLED_KEY)
        if isinstance(value, bool) and not (committed and value):
            return Switch(value, f"{ENABLED_KEY} in {source} settings")
    return Switch(True, DEFAULT_RULE)


def _check_override(value: object) -> Path:
    return Path(_check_place(unicodedata.normalize("NFC", str(value))))


def _refuse_committed(value: object) -> Path:
    raise PathError(_show(value), _NOT_COMMITTED)


def _check_place(text: str) -> str:
    """The text in its plain form, checked as it is written and where its links lead."""
    check_root(text)
    check_root(os.path.realpath(text))
    return os.path.normpath(text)


def _check_dir_name(name: str, base: Path) -> Path:
    if name in (".", "..") or re.search(r"[/\\\x00-\x1f]", name) or len(os.fsencode(name)) > 255:
        raise PathError(name, "it is not the name of one directory")
    return base / "projects" / unicodedata.normalize("NFC", name) / "memory"


def _can_be_encoded(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _show(value: object) -> str:
    return "" if value is None else shorten(one_line(str(value)), 200)
