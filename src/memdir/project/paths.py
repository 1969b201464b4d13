"""Where memory lives: slug, resolution order, switches. It computes and looks; it never makes anything.

The private directory comes from the first of these that names one:

    1. CLAUDE_COWORK_MEMORY_PATH_OVERRIDE, a whole path
    2. autoMemoryDirectory in Claude Code's policy, local or user settings; never in a committed file
    3. <base>/projects/<name>/memory, with CLAUDE_CODE_PROJECT_DIR_NAME or the root's slug as the name

A value that is refused does not stop the search (Claude Code goes on as well, and both must end in the same
directory); it leaves a step and a note that say so. What this room does not do: say whether a directory found by its
slug is really this project's (identity), or open anything in it (guard).
"""

import json
import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

from memdir.errors import PathError
from memdir.files import ReadResult, read_head, read_small
from memdir.frozen import dataclass, field, replace
from memdir.guard import STATE, check_root
from memdir.limits import FILE_BYTES, SLUG_UNITS
from memdir.project.git import GitRoot, find_root, is_tracked
from memdir.project.options import parse_flag
from memdir.project.settings import DEFAULT, Environment, Settings, read_settings
from memdir.records import Scope
from memdir.text import fold, one_line, shorten

# --- slugs ---
# The name Claude Code gives a project's directory, and finding the directory of that name.
#
# The name is lossy: different paths can have the same one. Who owns a directory is a question for identity.


def slug(path: str) -> str:
    """The name of a project's directory, unit for unit as Claude Code computes it (JavaScript counts in UTF-16)."""
    units = _utf16(unicodedata.normalize("NFC", _decode_as_hosts_do(path)))
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    return name if len(name) <= SLUG_UNITS else f"{name[:SLUG_UNITS]}-{_hash(units)}"


def find_project_dir(
    projects: Path, name: str, *, windows: bool = False, is_taken: Callable[[Path], bool] = lambda _: False
) -> Path:
    """The directory of a slug: the one of that name, or for a long one its like from an older hash.

    `is_taken` keeps out the directory of another project whose path begins the same.
    """
    exact = projects / name
    if len(name) <= SLUG_UNITS and not windows:
        return exact
    likes = [path for path in _list_likes(projects, name, windows) if path != exact]
    order = [exact, *(path for path in likes if not is_taken(path))]
    return next((path for path in order if (path / "memory").is_dir()), None) or next(
        (path for path in order if path.is_dir()), exact
    )


def _list_likes(projects: Path, name: str, windows: bool) -> list[Path]:
    """Existing directories whose names may stand for the same path, newest first."""
    prefix, is_long = name[: SLUG_UNITS + 1], len(name) > SLUG_UNITS
    found: list[tuple[int, Path]] = []
    try:
        with os.scandir(projects) as entries:
            for entry in entries:
                other = (
                    name[:1] + entry.name[1:] if windows and entry.name[:1].lower() == name[:1].lower() else entry.name
                )
                if (other.startswith(prefix) if is_long else other == name) and entry.is_dir(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


def _decode_as_hosts_do(path: str) -> str:
    """Bytes of a path that are no UTF-8 are one U+FFFD for each broken run, as JavaScript hosts read them."""
    try:
        return path if path.isascii() else os.fsencode(path).decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a surrogate pair that no file name can hold
        return path


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]


def _hash(units: list[int]) -> str:
    """|h·31 + c| in 32 bits, in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = 2**32 - value if value >= 2**31 else value
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


# --- claude_settings ---
# Claude Code's settings files, as far as memdir honours them: `autoMemoryDirectory` and `autoMemoryEnabled`.
#
#     policy   the managed settings of the machine
#     local    <root>/.claude/settings.local.json, the person's own for this project
#     project  <root>/.claude/settings.json, committed: it comes with a clone and may only switch off
#     user     <claude home>/settings.json
#
# A file that is missing or broken is an empty one with a note, and so is one in the project that is a link to
# something
# else than settings: a clone could name any file so. A local file that is tracked by git is not the person's
# own, whatever its name says, and counts as committed. This room reads; which file wins is decided in paths.

DIRECTORY_KEY = "autoMemoryDirectory"
ENABLED_KEY = "autoMemoryEnabled"
_LOCAL = ".claude/settings.local.json"
_PROJECT = ".claude/settings.json"
_NAMES = ("settings.json", "settings.local.json")


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """The four files as tables; keys memdir does not know are in there too."""

    policy: Mapping[str, object] = field(default_factory=dict)
    local: Mapping[str, object] = field(default_factory=dict)
    project: Mapping[str, object] = field(default_factory=dict)
    user: Mapping[str, object] = field(default_factory=dict)
    local_is_committed: bool = False
    notes: tuple[str, ...] = ()


def read_claude_settings(environment: Environment, root: Path) -> ClaudeSettings:
    """The four files. Git is asked about the local one only where it says something a clone may not say."""
    notes: list[str] = []
    local = _read_table(root / _LOCAL, notes, is_own=False)
    user = _read_table(environment.claude_home / "settings.json", notes)
    widens = local.get(ENABLED_KEY) is True and user.get(ENABLED_KEY) is False
    committed = (DIRECTORY_KEY in local or widens) and is_tracked(root, _LOCAL)
    if committed:
        notes.append(f"{root / _LOCAL} counts as committed: git tracks it, or could not say that it does not")
    return ClaudeSettings(
        policy=_read_table(environment.policy_file, notes),
        local=local,
        project=_read_table(root / _PROJECT, notes, is_own=False),
        user=user,
        local_is_committed=committed,
        notes=tuple(notes),
    )


def _read_table(path: Path, notes: list[str], *, is_own: bool = True) -> Mapping[str, object]:
    leads_there = is_own or _leads_to_settings(path)
    reading = read_small(path, FILE_BYTES) if leads_there else ReadResult(None, "it is a link to something else")
    problem = reading.problem
    if reading.data is not None:
        try:
            table = json.loads(reading.data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            problem = f"it is not JSON: {error}"
        else:
            if isinstance(table, dict):
                return table
            problem = "it is not a table"
    if problem:
        notes.append(f"{path} is ignored: {one_line(problem)}")
    return {}


def _leads_to_settings(path: Path) -> bool:
    """Whether a path, its links followed, still has a name that settings have."""
    try:
        return os.path.basename(os.path.realpath(path)) in _NAMES
    except (OSError, RecursionError):
        return False


# --- traces ---
# What a project's directory says of the path it was made for, since its name cannot be turned back into one.
#
# Two traces: the record memdir keeps beside its state, and the `cwd` in the host's transcripts. Both may be missing.
# What
# follows from them is decided by paths and identity.

RECORD = "project.json"
RECORD_BYTES = 65_536  # three strings, of which one is a path
TRANSCRIPT_BYTES = 65_536  # the first records name the directory; a transcript may have gigabytes


def read_root_record(state_dir: Path) -> dict[str, str]:
    """The record in a state directory, with at least a `root`; empty when there is none that can be read."""
    data = read_small(state_dir / RECORD, RECORD_BYTES, follow=False).data
    try:
        record = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    texts = {k: v for k, v in record.items() if isinstance(v, str)} if isinstance(record, dict) else {}
    return texts if _is_path(texts.get("root")) else {}


def find_transcript_cwd(project_dir: Path) -> str | None:
    """The working directory named by the newest transcript, from its first records."""
    newest = _find_newest(project_dir)
    data = read_head(newest, TRANSCRIPT_BYTES, follow=False).data if newest else None
    for line in (data or b"").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # the last line is mostly cut
            continue
        cwd = record.get("cwd") if isinstance(record, dict) else None
        if isinstance(cwd, str) and _is_path(cwd):
            return cwd
    return None


def _is_path(text: str | None) -> bool:
    """Whether the file system can be asked about it."""
    try:
        return text is not None and os.path.isabs(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _find_newest(project_dir: Path) -> str | None:
    best: tuple[int, str] | None = None
    try:
        with os.scandir(project_dir) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
                    found = (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
                    best = max(best, found) if best else found
    except OSError:
        pass  # gone or closed to us: as if it had no transcript
    return best[1] if best else None


# --- paths ---

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
class PathStep:
    """One rule that was tried, what it said, and what came of it."""

    rule: str
    value: str
    verdict: str


@dataclass(frozen=True, slots=True)
class MemoryDirectory:
    """A memory directory and the rule that chose it."""

    scope: Scope
    path: Path
    rule: str
    steps: tuple[PathStep, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether the project's own path chose it, so that another project there is an accident and not a wish."""
        return self.rule == DEFAULT_RULE and self.scope is Scope.PRIVATE


@dataclass(frozen=True, slots=True)
class MemorySwitch:
    """Whether memory is on, and which rule said so."""

    on: bool
    rule: str


@dataclass(frozen=True, slots=True)
class ProjectPaths:
    """Everything that follows from a working directory."""

    root: GitRoot
    switch: MemorySwitch
    private: MemoryDirectory
    user: MemoryDirectory | None
    notes: tuple[str, ...] = ()
    project: MemoryDirectory | None = None


def read_paths(environment: Environment, cwd: Path) -> tuple[Settings, ProjectPaths]:
    """Settings and places of a working directory: the one way every door takes."""
    # Committed files are read where the person works: in a linked worktree that is its own top.
    top = find_root(cwd, worktree="own").path
    settings = read_settings(environment, root=top)
    places = resolve_directory(settings, read_claude_settings(environment, top), environment, cwd)
    return _follow_team(settings, find_state_dir(places.private.path, environment)), places


def _follow_team(settings: Settings, state: Path) -> Settings:
    """A project that takes part in a team keeps and loads its memory, unless the person has said on or off."""
    if settings.sources["team"] != DEFAULT or not os.path.isfile(state / MEMBERSHIP):
        return settings
    values, sources = {**settings.values, "team": True}, {**settings.sources, "team": "`memdir team`"}
    return replace(settings, values=values, sources=sources)


def resolve_directory(settings: Settings, claude: ClaudeSettings, environment: Environment, cwd: Path) -> ProjectPaths:
    """The places by the order above; raises PathError only when even the default may not be used."""
    root = find_root(cwd, worktree=settings.text("worktree"))
    base, base_note = find_base(environment)
    private = _find_private(claude, environment, root, base)
    user, user_note = _find_user(settings, base, private)
    project, project_note = _find_project(environment, private, base, root, cwd)
    refused = (f"{step.rule}: {step.verdict}" for step in private.steps if step.verdict.startswith("refused"))
    notes = (root.note, *settings.notes, *claude.notes, base_note, *refused, user_note, project_note)
    found = tuple(note for note in notes if note)
    return ProjectPaths(root, _find_switch(claude, environment), private, user, found, project)


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


def _find_private(claude: ClaudeSettings, environment: Environment, root: GitRoot, base: Path) -> MemoryDirectory:
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
    steps: list[PathStep] = []
    for rule, value, check in rules:
        path = _try(steps, rule, value, check)
        if path is not None:
            return MemoryDirectory(Scope.PRIVATE, path, rule, tuple(steps))
    path = _find_keyed(environment, root, base)
    check_root(str(path))
    return MemoryDirectory(Scope.PRIVATE, path, DEFAULT_RULE, (*steps, PathStep(DEFAULT_RULE, str(path), "taken")))


def _try(steps: list[PathStep], rule: str, value: object, check: Callable[[object], Path]) -> Path | None:
    """Put one rule to the test and write down what came of it."""
    if value is None or value == "":
        steps.append(PathStep(rule, "", "not set"))
        return None
    try:
        path = check(value)
    except PathError as error:
        steps.append(PathStep(rule, _show(value), f"refused: {error.reason}"))
        return None
    steps.append(PathStep(rule, _show(value), "taken"))
    return path


def _find_keyed(environment: Environment, root: GitRoot, base: Path) -> Path:
    windows = os.name == "nt"

    def is_taken(project: Path) -> bool:
        record = read_root_record(find_state_dir(project / "memory", environment))
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


def find_project_home(environment: Environment, root: GitRoot) -> Path:
    """The host's own directory of a project, wherever its memory lies: transcripts and notes of sessions are there."""
    if environment.project_dir_name:
        try:
            return _check_dir_name(environment.project_dir_name, environment.claude_home).parent
        except PathError:
            pass  # resolving the memory directory has said so already
    return _find_keyed(environment, root, environment.claude_home).parent


def _find_user(settings: Settings, base: Path, private: MemoryDirectory) -> tuple[MemoryDirectory | None, str]:
    if not settings.flag("user_memory"):
        return None, ""
    path = base / "memory"
    if _are_one(path, private.path):
        return None, f"no user memory: {private.path} and {path} lie in one another"
    try:
        check_root(str(path))
    except PathError as error:
        return None, f"no user memory: {error}"
    return MemoryDirectory(Scope.USER, path, "user memory", (PathStep("user_memory", "true", "taken"),)), ""


def _find_project(
    environment: Environment, private: MemoryDirectory, base: Path, root: GitRoot, cwd: Path
) -> tuple[MemoryDirectory | None, str]:
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
    return MemoryDirectory(Scope.PROJECT, path, "kept in the project's own history"), ""


def _are_one(one: Path, other: Path) -> bool:
    """Whether one directory is the other, or lies in it."""
    here, there = os.path.join(os.path.realpath(one), ""), os.path.join(os.path.realpath(other), "")
    return here.startswith(there) or there.startswith(here)


def _find_switch(claude: ClaudeSettings, environment: Environment) -> MemorySwitch:
    """The first that speaks wins; a committed file is heard only when it says off."""
    disabled = parse_flag(environment.disable_auto_memory or "")
    if disabled is not None:
        return MemorySwitch(not disabled, "CLAUDE_CODE_DISABLE_AUTO_MEMORY")
    if environment.simple:
        return MemorySwitch(False, "CLAUDE_CODE_SIMPLE")
    if environment.remote and (not environment.remote_memory_dir or find_base(environment)[1]):
        return MemorySwitch(False, f"CLAUDE_CODE_REMOTE without a usable {REMOTE_DIR}")
    tables = (
        ("policy", claude.policy, False),
        ("local", claude.local, claude.local_is_committed),
        ("project", claude.project, True),
        ("user", claude.user, False),
    )
    for source, table, committed in tables:
        value = table.get(ENABLED_KEY)
        if isinstance(value, bool) and not (committed and value):
            return MemorySwitch(value, f"{ENABLED_KEY} in {source} settings")
    return MemorySwitch(True, DEFAULT_RULE)


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


def _show(value: object) -> str:
    return "" if value is None else shorten(one_line(str(value)), 200)
