"""Where memory is stored: slug, resolution order, switches. It computes and reads; it never makes anything.

The private directory comes from the first of these that names one:

    1. CLAUDE_COWORK_MEMORY_PATH_OVERRIDE, a whole path
    2. autoMemoryDirectory in Claude Code's policy or user settings; never in a file of the project
    3. <base>/projects/<name>/memory, with CLAUDE_CODE_PROJECT_DIR_NAME or the root's slug as the name

A project's files may have come with a clone or an archive, so they may not choose the directory: planted memories would
be recalled as the user's own. A refused value does not stop the search; it leaves a step and a note. Whether a directory found by its slug really belongs to this project is checked in `store/open`.
"""

import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from memdir.errors import PathError
from memdir.files import STATE, ReadResult, check_root, read_head, read_small
from memdir.frozen import compile_late, dataclass, field, replace
from memdir.limits import FILE_BYTES, SLUG_UNITS
from memdir.project.settings import DEFAULT, Environment, Settings, git_environ, parse_flag, read_settings
from memdir.records import Scope
from memdir.text import fold, one_line, shorten

Kind = Literal["git", "worktree", "plain"]
_POINTER_BYTES = 4_096  # one path a file: no path is longer
CONFIG_BYTES = 262_144  # a repository's config with some hundred branches has 20 KB
_GIT_SECONDS = 2.0  # a person waits for `where`, not for the whole history of a large repository
_SECTION = compile_late(r'\[((?:[^"\]]|"(?:[^"\\]|\\.)*")*)\]\s*(.*)')
_REMOTE = compile_late(r'remote\s+"((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_ADDRESS = compile_late(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*@)?([^?#]*)")


@dataclass(frozen=True, slots=True)
class GitRoot:
    """A project's root. `kind` is `worktree` if the working directory is in a linked worktree."""

    path: Path
    kind: Kind
    note: str = ""


DIR_NAME = "CLAUDE_CODE_PROJECT_DIR_NAME"
MEMBERSHIP = "team.json"  # in the state folder of a project that takes part in a team
RECORD = "project.json"  # in the state folder: the project's path, remote and first commit
_NOT_BY_PROJECT = "files of a project may not choose the directory; use your own settings"
BY_PROJECT = f"refused: {_NOT_BY_PROJECT}"  # the verdict on a setting which the host itself may accept
_OVERRIDE, _REMOTE_DIR = "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE", "CLAUDE_CODE_REMOTE_MEMORY_DIR"
_DIRECTORY_KEY, _ENABLED_KEY = "autoMemoryDirectory", "autoMemoryEnabled"
_DEFAULT_RULE = "default"
_PROJECT_SOURCES = ("local", "project")  # settings files inside the project
_OWN_FOLDERS = (".claude", "memory")  # where a project keeps memory in its own repository
_COMMITTED_FOLDERS = ("memory", "agent-memory")
_LOCAL, _COMMITTED = ".claude/settings.local.json", ".claude/settings.json"
_SETTINGS_NAMES = ("settings.json", "settings.local.json")
_RECORD_BYTES = 65_536  # three strings, of which one is a path
_TRANSCRIPT_BYTES = 65_536  # the first records name the directory; a transcript may have gigabytes


@dataclass(frozen=True, slots=True)
class PathStep:
    rule: str
    value: str
    verdict: str


@dataclass(frozen=True, slots=True)
class MemoryDirectory:
    scope: Scope
    path: Path
    rule: str
    steps: tuple[PathStep, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether the project's own path chose it, so that another project there is an accident and not intended."""
        return self.rule == _DEFAULT_RULE and self.scope is Scope.PRIVATE


@dataclass(frozen=True, slots=True)
class MemorySwitch:
    on: bool
    rule: str


@dataclass(frozen=True, slots=True)
class ProjectPaths:
    root: GitRoot
    switch: MemorySwitch
    private: MemoryDirectory
    user: MemoryDirectory | None
    notes: tuple[str, ...] = ()
    project: MemoryDirectory | None = None


@dataclass(frozen=True, slots=True)
class ClaudeSettings:
    """Claude Code's settings files as tables, with keys that memdir does not know.

    `policy` are the managed settings of the machine, `local` the person's own for this project
    (`.claude/settings.local.json`), `project` the committed ones (`.claude/settings.json`), `user` those in the home.
    """

    policy: Mapping[str, object] = field(default_factory=dict)
    local: Mapping[str, object] = field(default_factory=dict)
    project: Mapping[str, object] = field(default_factory=dict)
    user: Mapping[str, object] = field(default_factory=dict)
    local_is_committed: bool = False
    notes: tuple[str, ...] = ()


def read_paths(environment: Environment, cwd: Path) -> tuple[Settings, ProjectPaths]:
    """Returns settings and paths of a working directory; raises PathError only if even the default may not be used."""
    # Committed files are read where the person works: in a linked worktree that is its own top.
    top = find_root(cwd, worktree="own").path
    settings = read_settings(environment, root=top)
    claude = read_claude_settings(environment, top)
    root = find_root(cwd, worktree=settings.text("worktree"))
    base, base_note = find_base(environment)
    private = _find_private(claude, environment, root, base)
    user, user_note = _find_user(settings, base, private)
    project, project_note = _find_project(environment, private, base, root, top)
    refused = (f"{step.rule}: {step.verdict}" for step in private.steps if step.verdict.startswith("refused"))
    notes = (root.note, *settings.notes, *claude.notes, base_note, *refused, user_note, project_note)
    switch = _find_switch(claude, environment)
    paths = ProjectPaths(root, switch, private, user, tuple(note for note in notes if note), project)
    # A project that takes part in a team keeps and loads its memory, unless the person has set it on or off.
    state = find_state_dir(private.path, environment)
    if settings.sources["team"] == DEFAULT and os.path.isfile(state / MEMBERSHIP):
        values, sources = {**settings.values, "team": True}, {**settings.sources, "team": "`memdir team`"}
        settings = replace(settings, values=values, sources=sources)
    return settings, paths


def find_state_dir(memory_dir: Path, environment: Environment) -> Path:
    """Returns where memdir's own files for a memory directory are: inside it, but never inside a work tree."""
    real = os.path.realpath(memory_dir)
    if find_top(real) is None:
        return memory_dir / STATE
    # Imported here: most memory directories are in no work tree, and OpenSSL takes milliseconds to load.
    import hashlib

    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    return environment.state_home / "dirs" / f"{slug(real)[-60:].strip('-')}-{digest}"


def find_base(environment: Environment) -> tuple[Path, str]:
    """Returns the directory for all memory that no other rule places, and a note if a mount was refused."""
    given = environment.remote_memory_dir
    if not (environment.remote and given):
        return environment.claude_home, ""
    try:
        return _check_path(given), ""
    except PathError as error:
        return environment.claude_home, f"{_REMOTE_DIR}: refused: {error.reason}"


def find_project_home(environment: Environment, root: GitRoot) -> Path:
    """Returns the host's own directory of a project, with transcripts and notes, wherever its memory is."""
    if environment.project_dir_name:
        with suppress(PathError):  # `read_paths` has reported it already
            return _check_dir_name(environment.project_dir_name, environment.claude_home).parent
    return _find_keyed(environment, root, environment.claude_home).parent


def is_shared_dir(directory: Path, environment: Environment) -> bool:
    """Whether a directory that was given by its path is one that others read, or is inside one."""
    own = {os.path.realpath(at) for at in (environment.home / ".claude", environment.claude_home)}
    real = Path(os.path.realpath(directory))
    for at in (real, *real.parents):
        if at.parent.name == _OWN_FOLDERS[0] and at.name in _COMMITTED_FOLDERS and str(at.parent) not in own:
            return True
        # The team's folder of a memory directory, which has an index or a state folder.
        if fold(at.name) == "team" and any(os.path.lexists(at.parent / leaf) for leaf in ("MEMORY.md", STATE)):
            return True
    return False


def check_directory_setting(value: object, home: Path) -> Path:
    """Returns the directory in a settings file; raises PathError, also for the home or above. `~/` is the home."""
    if not isinstance(value, str):
        raise PathError(shorten(one_line(str(value)), 60), "a directory is written as text")
    is_in_home = value == "~" or value.startswith(("~/", "~\\" if os.name == "nt" else "~/"))
    path = _check_path(f"{home}/{value[2:]}" if is_in_home else value)
    for form, own in ((path, os.path.normpath(home)), (os.path.realpath(path), os.path.realpath(home))):
        if os.path.join(own, "").startswith(os.path.join(form, "")):
            hint = "name a directory of its own, for example ~/memory"
            raise PathError(value, "it is the home directory or above it", hint=hint)
    return path


def _find_private(claude: ClaudeSettings, environment: Environment, root: GitRoot, base: Path) -> MemoryDirectory:
    def refuse(value: object) -> Path:
        raise PathError(str(value), _NOT_BY_PROJECT)

    def check_setting(value: object) -> Path:
        return check_directory_setting(value, environment.home)

    rules: list[tuple[str, object, Callable[[object], Path]]] = [(_OVERRIDE, environment.memory_override, _check_path)]
    for source, table, _ in _list_tables(claude):
        judge = refuse if source in _PROJECT_SOURCES else check_setting
        rules.append((f"{_DIRECTORY_KEY} in {source} settings", table.get(_DIRECTORY_KEY), judge))
    rules.append((DIR_NAME, environment.project_dir_name, lambda value: _check_dir_name(str(value), base)))
    steps: list[PathStep] = []
    for rule, value, check in rules:
        if value is None or value == "":
            steps.append(PathStep(rule, "", "not set"))
            continue
        shown = shorten(one_line(str(value)), 200)
        try:
            path = check(value)
        except PathError as error:
            steps.append(PathStep(rule, shown, f"refused: {error.reason}"))
        else:
            return MemoryDirectory(Scope.PRIVATE, path, rule, (*steps, PathStep(rule, shown, "taken")))
    path = _find_keyed(environment, root, base)
    check_root(str(path))
    return MemoryDirectory(Scope.PRIVATE, path, _DEFAULT_RULE, (*steps, PathStep(_DEFAULT_RULE, str(path), "taken")))


def _find_keyed(environment: Environment, root: GitRoot, base: Path) -> Path:

    def is_taken(project: Path) -> bool:
        record = read_root_record(find_state_dir(project / "memory", environment))
        owner = record.get("root") or find_transcript_cwd(project)
        return owner is not None and os.path.realpath(owner) != str(root.path)

    name = slug(str(root.path))
    return find_project_dir(base / "projects", name, windows=os.name == "nt", is_taken=is_taken) / "memory"


def _find_user(settings: Settings, base: Path, private: MemoryDirectory) -> tuple[MemoryDirectory | None, str]:
    if not settings.flag("user_memory"):
        return None, ""
    path = base / "memory"
    if _are_nested(path, private.path):
        return None, f"no user memory: {private.path} and {path} lie in one another"
    try:
        check_root(str(path))
    except PathError as error:
        return None, f"no user memory: {error}"
    return MemoryDirectory(Scope.USER, path, "user memory", (PathStep("user_memory", "true", "taken"),)), ""


def _find_project(
    environment: Environment, private: MemoryDirectory, base: Path, root: GitRoot, top: Path
) -> tuple[MemoryDirectory | None, str]:
    """The memory in the repository itself, where the person works; it came with a clone."""
    path = (root.path if root.kind == "git" else top).joinpath(*_OWN_FOLDERS)
    if root.kind == "plain" or not os.path.lexists(path):
        return None, ""
    # A home that is a repository: there the same name is the person's own memory.
    if any(_are_nested(path, other) for other in (private.path, base / "memory", environment.claude_home / "memory")):
        return None, ""
    for at in (path.parent, path):
        if os.path.islink(at) or not at.is_dir():
            return None, f"no project memory: {at} is {'a link' if os.path.islink(at) else 'no directory'}"
    return MemoryDirectory(Scope.PROJECT, path, "kept in the project's own history"), ""


def _find_switch(claude: ClaudeSettings, environment: Environment) -> MemorySwitch:
    """The first rule that says on or off decides; a committed file may only say off."""
    disabled = parse_flag(environment.disable_auto_memory or "")
    if disabled is not None:
        return MemorySwitch(not disabled, "CLAUDE_CODE_DISABLE_AUTO_MEMORY")
    if environment.simple:
        return MemorySwitch(False, "CLAUDE_CODE_SIMPLE")
    if environment.remote and (not environment.remote_memory_dir or find_base(environment)[1]):
        return MemorySwitch(False, f"CLAUDE_CODE_REMOTE without a usable {_REMOTE_DIR}")
    for source, table, committed in _list_tables(claude):
        value = table.get(_ENABLED_KEY)
        if isinstance(value, bool) and not (committed and value):
            return MemorySwitch(value, f"{_ENABLED_KEY} in {source} settings")
    return MemorySwitch(True, _DEFAULT_RULE)


def _list_tables(claude: ClaudeSettings) -> tuple[tuple[str, Mapping[str, object], bool], ...]:
    """Claude Code's settings in the order of their precedence, and whether they are committed."""
    return (
        ("policy", claude.policy, False),
        ("local", claude.local, claude.local_is_committed),
        ("project", claude.project, True),
        ("user", claude.user, False),
    )


def _are_nested(one: Path, other: Path) -> bool:
    here, there = os.path.join(os.path.realpath(one), ""), os.path.join(os.path.realpath(other), "")
    return here.startswith(there) or there.startswith(here)


def _check_path(value: object) -> Path:
    """The path normalised, checked as it is written and where its links lead."""
    text = unicodedata.normalize("NFC", str(value))
    check_root(text)
    check_root(os.path.realpath(text))
    return Path(os.path.normpath(text))


def _check_dir_name(name: str, base: Path) -> Path:
    if name in (".", "..") or re.search(r"[/\\\x00-\x1f]", name) or len(os.fsencode(name)) > 255:
        raise PathError(name, "it is not the name of one directory")
    return base / "projects" / unicodedata.normalize("NFC", name) / "memory"


def read_claude_settings(environment: Environment, root: Path) -> ClaudeSettings:
    """Return Claude Code's settings; a missing or broken file counts as empty, a broken one with a note.

    A local file that is tracked by git counts as committed, whatever its name. Git is asked only if the file switches
    memory on against the user's own settings.
    """
    notes: list[str] = []
    files = (root / _LOCAL, environment.claude_home / "settings.json", environment.policy_file, root / _COMMITTED)
    read = [_read_settings_file(path, is_own) for path, is_own in zip(files, (False, True, True, False), strict=True)]
    local, user, policy, project = (_parse_table(path, result, notes) for path, result in zip(files, read, strict=True))
    widens = local.get(_ENABLED_KEY) is True and user.get(_ENABLED_KEY) is False
    is_committed = widens and is_tracked(root, _LOCAL)
    if is_committed:
        notes.append(f"{root / _LOCAL} counts as committed: git tracks it, or could not say that it does not")
    return ClaudeSettings(policy, local, project, user, is_committed, tuple(notes))


def _read_settings_file(path: Path, is_own: bool) -> ReadResult:
    """A file in the project may not be a link to anything but settings: a clone could name any file so."""
    with suppress(OSError, RecursionError):
        if is_own or os.path.basename(os.path.realpath(path)) in _SETTINGS_NAMES:
            return read_small(path, FILE_BYTES)
    return ReadResult(None, "it is a link to something else")


def _parse_table(path: Path, read: ReadResult, notes: list[str]) -> Mapping[str, object]:
    problem = read.problem
    if read.data is not None:
        try:
            table = json.loads(read.data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            problem = f"it is not JSON: {error}"
        else:
            if isinstance(table, dict):
                return table
            problem = "it is not a table"
    if problem:
        notes.append(f"{path} is ignored: {one_line(problem)}")
    return {}


def slug(path: str) -> str:
    """Returns the name of a project's directory as Claude Code computes it, in UTF-16; two paths can have the same."""
    try:
        # Bytes that are not UTF-8 are one U+FFFD for each broken run, as JavaScript hosts read them.
        text = path if path.isascii() else os.fsencode(path).decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a surrogate pair that no file name can hold
        text = path
    data = unicodedata.normalize("NFC", text).encode("utf-16-le", "surrogatepass")
    units = [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    return name if len(name) <= SLUG_UNITS else f"{name[:SLUG_UNITS]}-{_hash(units)}"


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


def find_project_dir(
    projects: Path, name: str, *, windows: bool = False, is_taken: Callable[[Path], bool] = lambda _: False
) -> Path:
    """Returns the directory of a slug, or for a long one that of an older hash; `is_taken` excludes other projects'."""
    exact = projects / name
    if len(name) <= SLUG_UNITS and not windows:
        return exact
    similar = [path for path in _list_similar(projects, name, windows) if path != exact and not is_taken(path)]
    order = [exact, *similar]
    with_memory = (path for path in order if (path / "memory").is_dir())
    return next(with_memory, None) or next((path for path in order if path.is_dir()), exact)


def _list_similar(projects: Path, name: str, windows: bool) -> list[Path]:
    """Existing directories whose names may stand for the same path, newest first."""
    prefix, is_long = name[: SLUG_UNITS + 1], len(name) > SLUG_UNITS
    found: list[tuple[int, Path]] = []
    try:
        with os.scandir(projects) as entries:
            for entry in entries:
                is_same_drive = windows and entry.name[:1].lower() == name[:1].lower()
                other = name[:1] + entry.name[1:] if is_same_drive else entry.name
                if (other.startswith(prefix) if is_long else other == name) and entry.is_dir(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


def read_root_record(state_dir: Path) -> dict[str, str]:
    """Returns the record in a state directory, with at least a `root`; empty when there is none that can be read."""
    data = read_small(state_dir / RECORD, _RECORD_BYTES, follow=False).data
    try:
        record = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    texts = {k: v for k, v in record.items() if isinstance(v, str)} if isinstance(record, dict) else {}
    return texts if _is_path(texts.get("root")) else {}


def find_transcript_cwd(project_dir: Path) -> str | None:
    """Returns the working directory named by the newest transcript, from its first records."""
    try:
        with os.scandir(project_dir) as entries:
            files = [at for at in entries if at.name.endswith(".jsonl") and at.is_file(follow_symlinks=False)]
            newest = max(((at.stat(follow_symlinks=False).st_mtime_ns, at.path) for at in files), default=None)
    except OSError:  # gone or closed to us: as if it had no transcript
        return None
    data = read_head(newest[1], _TRANSCRIPT_BYTES, follow=False).data if newest else None
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


# --- the canonical git root, found from files alone -------------------------------------------------------------------
# All worktrees of one repository have one root, so that they share one memory. A `.git` file is a claim, and anybody can
# put one into an archive; it is trusted only if the repository's own record of the worktree points back to this very
# file. Otherwise the directory stands for itself: it can never use the memory of another project.
#
#     .git is a directory              that directory's parent is the root
#     .git file, worktree, trusted     the main work tree; for a bare repository the repository itself
#     .git file, no `commondir`        a submodule, or --separate-git-dir: a project of its own
#     .git file, not trusted           the directory itself, and a note that says why
#     no .git on the way up            the working directory
#
# A link named `.git` counts if it leads to a directory, and then only for the directory it is in. GIT_DIR and the like
# are not read. Git itself is asked, with a time limit, only for the first commit and whether a file is tracked.


def find_root(cwd: Path, *, worktree: str = "shared") -> GitRoot:
    """Returns the root of the project that `cwd` is in; `worktree="own"` stays in the worktree. Never raises."""
    start = os.path.realpath(cwd)
    top = find_top(start)
    if top is None:
        return GitRoot(Path(start), "plain")
    kind, common, note = _read_repository(top)
    if kind != "worktree" or common is None or worktree == "own":
        return GitRoot(Path(top), kind, note)
    main = common.parent if common.name == ".git" else common
    return GitRoot(main, "worktree", f"{top} is a worktree of it")


def find_git_dir(root: Path) -> Path | None:
    """Returns the directory with the repository's config and history; None if there is none, or an untrusted one."""
    if os.path.lexists(root / ".git"):
        return _read_repository(os.path.realpath(root))[1]
    return root if (root / "HEAD").is_file() and (root / "objects").is_dir() else None


def find_remote(root: Path) -> str | None:
    """Returns the address of `origin`, else of the first remote, without any credentials."""
    address = find_address(root)
    return strip_credentials(address) if address else None


def find_address(root: Path) -> str | None:
    """The same as it is in the repository's config, with credentials: for use, not for storing."""
    common = find_git_dir(root)
    data = read_small(common / "config", CONFIG_BYTES).data if common else None
    addresses = _parse_remotes((data or b"").decode("utf-8", "replace"))
    return addresses.get("origin") or next(iter(addresses.values()), None)


def find_root_commit(root: Path, timeout: float = _GIT_SECONDS) -> str | None:
    """Returns the oldest commit without parents, which all clones share; None if git does not answer in time."""
    common = find_git_dir(root)
    if common is None or (common / "shallow").exists():  # a shallow clone ends somewhere in the middle
        return None
    code, output = run_git(root, ("rev-list", "--max-parents=0", "HEAD", "--"), timeout)
    commits = output.split()
    return commits[-1] if code == 0 and commits and re.fullmatch(r"[0-9a-f]{40,64}", commits[-1]) else None


def is_tracked(root: Path, name: str, timeout: float = _GIT_SECONDS) -> bool:
    """Whether a file below the root came with the repository. False only if git says so, or there is no repository."""
    top = os.path.realpath(root)
    if find_top(top) is None:
        return False
    if os.path.realpath(os.path.join(top, name)) != os.path.join(top, name):
        return True  # git knows nothing of files behind a link, and the link itself may be what came with the clone
    # Without regard to case: on many file systems `.Claude/` is the same folder, and git would not say so.
    code, _ = run_git(root, ("ls-files", "--error-unmatch", "--", f":(icase){name}"), timeout)
    return code != 1


def strip_credentials(address: str) -> str:
    """Returns a remote's address without user, password, query or fragment; `git@host:path` has no secret."""
    match = _ADDRESS.match(address)
    return one_line(match[1] + match[3] if match else address)


def find_top(start: str) -> str | None:
    """The nearest directory upwards with a `.git` that is a directory, a file or a link."""
    directory, below = start, ""
    while directory != below:
        try:
            mode = stat.S_IFMT(os.lstat(os.path.join(directory, ".git")).st_mode)
        except (OSError, ValueError):
            mode = 0
        if mode in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
            return directory
        directory, below = os.path.dirname(directory), directory
    return None


def _read_repository(top: str) -> tuple[Kind, Path | None, str]:
    """What the `.git` of a directory is, where config and history are if it is trusted, and why it is not."""
    dot_git = os.path.join(top, ".git")
    if os.path.isdir(dot_git):
        return "git", Path(os.path.realpath(dot_git)), ""
    if os.path.islink(dot_git):
        return "plain", None, f"{dot_git} is a link to no directory and is not followed"
    pointer = _read_line(dot_git)
    if not pointer.startswith("gitdir:"):
        return "plain", None, f"{dot_git} does not name a git directory"
    admin = os.path.realpath(os.path.join(top, pointer.removeprefix("gitdir:").strip()))
    if not os.path.isdir(admin):
        return "plain", None, f"{dot_git} names a git directory that is not there"
    link = _read_line(os.path.join(admin, "commondir"))
    if not link:
        return "git", Path(admin), ""
    common = os.path.realpath(os.path.join(admin, link))
    # The worktree's record must name this very file; the record may be relative to itself.
    back = _read_line(os.path.join(admin, "gitdir"))
    is_known = bool(back) and os.path.realpath(os.path.join(admin, back)) == os.path.realpath(dot_git)
    if os.path.dirname(admin) != os.path.join(common, "worktrees") or not is_known:
        return "plain", None, f"{dot_git} names a worktree of {common} that does not point back here"
    return "worktree", Path(common), ""


def _read_line(path: str) -> str:
    data = read_small(path, _POINTER_BYTES, follow=False).data or b""
    text = os.fsdecode(data).rstrip("\r\n")
    return "" if "\n" in text or "\0" in text else text


def _parse_remotes(config: str) -> dict[str, str]:
    """Each remote's first address, in the order of the file. Includes and rewritten addresses are not followed."""
    remotes: dict[str, str] = {}
    for section, key, value in _parse_lines(config):
        if key == "url" and value and (remote := _REMOTE.fullmatch(section)):
            remotes.setdefault(remote[1], value)
    return remotes


def parse_config(config: str, section: str) -> list[tuple[str, str]]:
    """Returns keys, in lower case, and values of a plain section such as [user], in the order of the file."""
    return [(key, value) for name, key, value in _parse_lines(config) if name.lower() == section]


def _parse_lines(config: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in config.splitlines():
        text = line.strip()
        if text.startswith("["):
            head = _SECTION.match(text)
            section, text = (head[1].strip(), head[2]) if head else ("", "")
        key, equals, value = text.partition("=")
        if equals:
            yield section, key.strip().lower(), _unquote(value)


def _unquote(value: str) -> str:
    plain, quoted, escaped = "", False, False
    for char in value.strip():
        if escaped:
            plain, escaped = plain + char, False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            plain += char
    return plain.strip()


def run_git(root: Path, arguments: tuple[str, ...], timeout: float) -> tuple[int, str]:
    """Returns exit code and output; -1 if git is missing or took too long. Hooks and monitors are not run."""
    # Imported here: hooks need no git process, and subprocess costs milliseconds.
    import subprocess

    quiet = ("--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
    try:
        null, command = subprocess.DEVNULL, ("git", "-C", str(root), *quiet, *arguments)
        done = subprocess.run(
            command, stdin=null, stdout=subprocess.PIPE, stderr=null, env=git_environ(), timeout=timeout, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return -1, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")


def list_folders(paths: ProjectPaths, claude_home: Path, cwd: Path) -> tuple[Path, ...]:
    """Claude Code's folders for this project's transcripts: by the working directory, and by the root if it differs."""
    projects = claude_home / "projects"
    if paths.private.rule == DIR_NAME:
        return (projects / paths.private.path.parent.name,)
    names = (slug(os.path.realpath(cwd)), slug(str(paths.root.path)))
    return tuple(dict.fromkeys(find_project_dir(projects, name, windows=os.name == "nt") for name in names))
