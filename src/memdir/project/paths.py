"""Find the memory directories of a project, and whether memory is on. It only reads and never creates anything.

The private directory comes from the first of these that is set:

    1. CLAUDE_COWORK_MEMORY_PATH_OVERRIDE, a full path
    2. autoMemoryDirectory in Claude Code's policy or user settings; never in a file of the project
    3. <base>/projects/<name>/memory, with CLAUDE_CODE_PROJECT_DIR_NAME or the root's slug as the name

A project's files may have come with a clone or an archive, so they may not choose the directory: planted memories would be
recalled as the user's own. After a refused value the search continues, with a step and a note. `store/open` checks whether a
directory found by its slug really belongs to this project.
"""

import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from memdir.errors import PathError
from memdir.files import STATE, ReadResult, check_root, read_head, read_small
from memdir.frozen import compile_late, dataclass, field, replace
from memdir.limits import FILE_BYTES, SLUG_UNITS
from memdir.project.settings import (
    DEFAULT,
    SETTINGS,
    Environment,
    Settings,
    git_environ,
    parse_flag,
    read_environment,
    read_settings,
)
from memdir.records import Scope
from memdir.text import as_table, as_text, fold, one_line, parse_json, shorten

Kind = Literal["git", "worktree", "plain"]
_POINTER_BYTES = 4_096  # a `.git` file contains one path
CONFIG_BYTES = 262_144  # a repository config with some hundred branches has 20 KB
_GIT_SECONDS = 2.0  # the user should not wait for the history of a large repository
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
MEMBERSHIP = "team.json"  # in the state folder of a project that has joined a team
RECORD = "project.json"  # in the state folder: the project's path, remote and first commit
_NOT_BY_PROJECT = "project files cannot choose the directory; use your own settings"
BY_PROJECT = f"refused: {_NOT_BY_PROJECT}"  # the verdict on a setting that the host may accept
_OVERRIDE, _REMOTE_DIR = "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE", "CLAUDE_CODE_REMOTE_MEMORY_DIR"
_DIRECTORY_KEY, _ENABLED_KEY = "autoMemoryDirectory", "autoMemoryEnabled"
_DEFAULT_RULE = "default"
# Variables that determine where memory and its files are, what is added to prompts, which programs run and which servers
# get conversations.
_STEERING = frozenset(
    f"{_OVERRIDE} {_REMOTE_DIR} {DIR_NAME} CLAUDE_CONFIG_DIR CODEX_HOME GEMINI_CLI_HOME HOME XDG_CONFIG_HOME XDG_STATE_HOME "
    "CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES ANTHROPIC_BASE_URL OPENAI_BASE_URL OLLAMA_HOST EDITOR VISUAL".split()
)
_IN_PROJECT = ("memory", "agent-memory", "agent-memory-local")  # folders of `.claude/` in a project
_PROJECT_SOURCES = ("local", "project")  # settings files inside the project
_OWN_FOLDERS = (".claude", "memory")  # the memory folder inside a repository
_LOCAL, _COMMITTED = ".claude/settings.local.json", ".claude/settings.json"
_RECORD_BYTES = 65_536  # three strings, one of them a path
_TRANSCRIPT_BYTES = 65_536  # the first records name the directory


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
        """Return whether the directory was derived from the project's path, so that no other project may use it."""
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
    """Claude Code's settings files as tables, including keys that memdir does not use.

    `policy` are the managed settings of the machine, `local` the user's for this project (`.claude/settings.local.json`),
    `project` the committed ones (`.claude/settings.json`), `user` those in the home.
    """

    policy: Mapping[str, object] = field(default_factory=dict)
    local: Mapping[str, object] = field(default_factory=dict)
    project: Mapping[str, object] = field(default_factory=dict)
    user: Mapping[str, object] = field(default_factory=dict)
    local_is_committed: bool = False
    notes: tuple[str, ...] = ()


def read_paths(environment: Environment, cwd: Path) -> tuple[Settings, ProjectPaths]:
    """Return settings and paths of a working directory.

    Raises SettingsError for an invalid setting, and PathError if even the default directory is not allowed.
    """
    # Committed files are read from the work tree in use, in a linked worktree from its own top.
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
    # A project that has joined a team uses team memory, unless the user has set `team`.
    state = find_state_dir(private.path, environment)
    if settings.sources["team"] == DEFAULT and os.path.isfile(state / MEMBERSHIP):
        values, sources = {**settings.values, "team": True}, {**settings.sources, "team": "`memdir team`"}
        settings = replace(settings, values=values, sources=sources)
    return settings, paths


def find_state_dir(memory_dir: Path, environment: Environment) -> Path:
    """Return the state folder of a memory directory: inside it, but never inside a project, which could bring one along."""
    real = os.path.realpath(memory_dir)
    if find_top(real) is None and not _is_in_project(Path(real), environment):
        return memory_dir / STATE
    # Imported here: few memory directories are in a work tree, and OpenSSL takes milliseconds to load.
    import hashlib

    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    return environment.state_home / "dirs" / f"{slug(real)[-60:].strip('-')}-{digest}"


def find_base(environment: Environment) -> tuple[Path, str]:
    """Return the default base directory for memory, and a note if a mount was refused."""
    mount = environment.remote_memory_dir
    if not (environment.remote and mount):
        return environment.claude_home, ""
    try:
        return _check_path(mount), ""
    except PathError as error:
        return environment.claude_home, f"{_REMOTE_DIR}: refused: {error.reason}"


def find_project_home(environment: Environment, root: GitRoot) -> Path:
    """Return the host's directory for a project, with transcripts and notes, wherever its memory is."""
    if environment.project_dir_name:
        with suppress(PathError):  # `read_paths` has reported it already
            return _check_dir_name(environment.project_dir_name, environment.claude_home).parent
    return _find_keyed(environment, root, environment.claude_home).parent


def is_shared_dir(directory: Path, environment: Environment) -> bool:
    """Return whether a directory is, or is inside, one that others read or that came with a project."""
    real = Path(os.path.realpath(directory))
    return _is_in_project(real, environment) or any(
        # The team folder of a memory directory, which has an index or a state folder.
        fold(path.name) == "team" and any(os.path.lexists(path.parent / leaf) for leaf in ("MEMORY.md", STATE))
        for path in (real, *real.parents)
    )


def _is_in_project(real: Path, environment: Environment) -> bool:
    own = {os.path.realpath(home) for home in (environment.home / ".claude", environment.claude_home)}
    return any(
        path.parent.name == _OWN_FOLDERS[0] and path.name in _IN_PROJECT and str(path.parent) not in own
        for path in (real, *real.parents)
    )


def check_directory_setting(value: object, home: Path) -> Path:
    """Return the directory named in a settings file; raises PathError if it is invalid, the home, or above it."""
    if not isinstance(value, str):
        raise PathError(shorten(one_line(str(value)), 60), "not a string")
    path = _check_path(f"{home}/{value[2:]}" if value == "~" or value.startswith("~/") else value)
    for form, own in ((path, os.path.normpath(home)), (os.path.realpath(path), os.path.realpath(home))):
        if os.path.join(own, "").startswith(os.path.join(form, "")):
            hint = "use a separate directory, for example ~/memory"
            raise PathError(value, "it is the home directory or above it", hint=hint)
    return path


def _find_private(claude: ClaudeSettings, environment: Environment, root: GitRoot, base: Path) -> MemoryDirectory:
    def refuse(value: object) -> Path:
        raise PathError(str(value), _NOT_BY_PROJECT)

    rules: list[tuple[str, object, Callable[[object], Path]]] = [(_OVERRIDE, environment.memory_override, _check_path)]
    for source, table, _ in _list_tables(claude):
        rule_check = refuse if source in _PROJECT_SOURCES else partial(check_directory_setting, home=environment.home)
        rules.append((f"{_DIRECTORY_KEY} in {source} settings", table.get(_DIRECTORY_KEY), rule_check))
    rules.append((DIR_NAME, environment.project_dir_name, lambda value: _check_dir_name(str(value), base)))
    steps: list[PathStep] = []
    for rule, value, check in rules:
        if value is None or value == "":
            steps.append(PathStep(rule, "", "not set"))
            continue
        value_text = shorten(one_line(str(value)), 200)
        try:
            path = check(value)
        except PathError as error:
            steps.append(PathStep(rule, value_text, f"refused: {error.reason}"))
        else:
            return MemoryDirectory(Scope.PRIVATE, path, rule, (*steps, PathStep(rule, value_text, "taken")))
    path = _find_keyed(environment, root, base)
    check_root(str(path))
    return MemoryDirectory(Scope.PRIVATE, path, _DEFAULT_RULE, (*steps, PathStep(_DEFAULT_RULE, str(path), "taken")))


def _find_keyed(environment: Environment, root: GitRoot, base: Path) -> Path:

    def is_taken(project: Path) -> bool:
        record = read_root_record(find_state_dir(project / "memory", environment))
        owner = record.get("root") or find_transcript_cwd(project)
        return owner is not None and os.path.realpath(owner) != str(root.path)

    name = slug(str(root.path))
    return find_project_dir(base / "projects", name, is_taken=is_taken) / "memory"


def _find_user(settings: Settings, base: Path, private: MemoryDirectory) -> tuple[MemoryDirectory | None, str]:
    if not settings.flag("user_memory"):
        return None, ""
    path = base / "memory"
    if _are_nested(path, private.path):
        return None, f"no user memory: {private.path} and {path} are nested"
    try:
        check_root(str(path))
    except PathError as error:
        return None, f"no user memory: {error}"
    return MemoryDirectory(Scope.USER, path, "user memory", (PathStep("user_memory", "true", "taken"),)), ""


def _find_project(
    environment: Environment, private: MemoryDirectory, base: Path, root: GitRoot, top: Path
) -> tuple[MemoryDirectory | None, str]:
    """Return the memory directory inside the repository, which may have come with a clone."""
    path = (root.path if root.kind == "git" else top).joinpath(*_OWN_FOLDERS)
    if root.kind == "plain" or not os.path.lexists(path):
        return None, ""
    # If the home is a repository, the same path is the user's own memory.
    if any(_are_nested(path, other) for other in (private.path, base / "memory", environment.claude_home / "memory")):
        return None, ""
    for part in (path.parent, path):
        if os.path.islink(part) or not part.is_dir():
            return None, f"no project memory: {part} is {'a link' if os.path.islink(part) else 'not a directory'}"
    return MemoryDirectory(Scope.PROJECT, path, "kept in the project's own history"), ""


def _find_switch(claude: ClaudeSettings, environment: Environment) -> MemorySwitch:
    """Return whether memory is on, according to the first rule that applies. Committed files can only switch it off."""
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
    """Return Claude Code's settings in order of precedence, and whether they are committed."""
    return (
        ("policy", claude.policy, False),
        ("local", claude.local, claude.local_is_committed),
        ("project", claude.project, True),
        ("user", claude.user, False),
    )


def _are_nested(one: Path, other: Path) -> bool:
    one_path, other_path = os.path.join(os.path.realpath(one), ""), os.path.join(os.path.realpath(other), "")
    return one_path.startswith(other_path) or other_path.startswith(one_path)


def _check_path(value: object) -> Path:
    """Return the path normalised; raises PathError if it or its link target is not allowed."""
    text = unicodedata.normalize("NFC", str(value))
    check_root(text)
    check_root(os.path.realpath(text))
    return Path(os.path.normpath(text))


def _check_dir_name(name: str, base: Path) -> Path:
    if name in (".", "..") or re.search(r"[/\\\x00-\x1f]", name) or len(os.fsencode(name)) > 255:
        raise PathError(name, "not a valid directory name")
    return base / "projects" / unicodedata.normalize("NFC", name) / "memory"


def drop_project_variables(environment: Environment, cwd: Path) -> tuple[Environment, str]:
    """Return the environment without variables that Claude Code took from the project's files, and a note of them.

    Its settings may have an `env` table, which reaches every hook. Files of a project may have come with a clone or an
    archive: they may not say where memory is or where conversations are sent, and of memdir's settings only those that a
    project's own file may set, committed ones none.
    """
    inherited, dropped = environment.inherited, set[str]()
    has_any = any(name in _STEERING or name.startswith("MEMDIR_") for name in inherited)
    top = find_root(cwd, worktree="own").path if has_any else environment.home
    for leaf in (_COMMITTED, _LOCAL) if top != environment.home else ():
        given = _parse_table(top / leaf, _read_settings_file(top / leaf, False), []).get("env")
        same = (
            [name for name, value in given.items() if inherited.get(name) == value] if isinstance(given, dict) else []
        )
        harmless = {setting.variable for setting in SETTINGS if setting.project and leaf == _LOCAL}
        dropped |= {name for name in same if name in _STEERING or (name.startswith("MEMDIR_") and name not in harmless)}
    if not dropped:
        return environment, ""
    kept = {name: value for name, value in inherited.items() if name not in dropped}
    note = f"{', '.join(sorted(dropped))} in `env` of the project's settings: refused: {_NOT_BY_PROJECT}"
    return read_environment(kept, policy_file=environment.policy_file), note


def read_claude_settings(environment: Environment, root: Path) -> ClaudeSettings:
    """Return Claude Code's settings. A missing or invalid file counts as empty; an invalid one adds a note.

    A local file that is tracked by git counts as committed, whatever its name. Git is asked only if the file switches
    memory on against the user's own settings.
    """
    notes: list[str] = []
    files = (root / _LOCAL, environment.claude_home / "settings.json", environment.policy_file, root / _COMMITTED)
    results = [
        _read_settings_file(path, is_own) for path, is_own in zip(files, (False, True, True, False), strict=True)
    ]
    local, user, policy, project = (
        _parse_table(path, result, notes) for path, result in zip(files, results, strict=True)
    )
    widens = local.get(_ENABLED_KEY) is True and user.get(_ENABLED_KEY) is False
    is_committed = widens and is_tracked(root, _LOCAL)
    if is_committed:
        notes.append(f"{root / _LOCAL} counts as committed: git tracks it, or did not answer")
    return ClaudeSettings(policy, local, project, user, is_committed, tuple(notes))


def _read_settings_file(path: Path, is_own: bool) -> ReadResult:
    """Read a settings file; in a project it may link only to another settings file, because a clone can contain any link."""
    with suppress(OSError, RecursionError):
        if is_own or os.path.basename(os.path.realpath(path)) in ("settings.json", "settings.local.json"):
            return read_small(path, FILE_BYTES)
    return ReadResult(None, "it is a link to something else")


def _parse_table(path: Path, result: ReadResult, notes: list[str]) -> Mapping[str, object]:
    problem = result.problem
    if result.data is not None:
        try:
            table = json.loads(result.data.decode("utf-8-sig"))
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
    """Return the name of a project's directory as Claude Code computes it, in UTF-16; two paths can share one."""
    try:
        # Each run of bytes that is not UTF-8 becomes one U+FFFD, as in JavaScript hosts.
        text = path if path.isascii() else os.fsencode(path).decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a surrogate pair, which no file name can contain
        text = path
    data = unicodedata.normalize("NFC", text).encode("utf-16-le", "surrogatepass")
    units = [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    return name if len(name) <= SLUG_UNITS else f"{name[:SLUG_UNITS]}-{_hash(units)}"


def _hash(units: list[int]) -> str:
    """Return the 32-bit hash |h·31 + c| in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = 2**32 - value if value >= 2**31 else value
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def find_project_dir(projects: Path, name: str, *, is_taken: Callable[[Path], bool] = lambda _: False) -> Path:
    """Return the directory for a slug; a long slug may have an older hash. `is_taken` excludes other projects."""
    exact = projects / name
    if len(name) <= SLUG_UNITS:
        return exact
    similar = [path for path in _list_similar(projects, name) if path != exact and not is_taken(path)]
    order = [exact, *similar]
    with_memory = (path for path in order if (path / "memory").is_dir())
    return next(with_memory, None) or next((path for path in order if path.is_dir()), exact)


def _list_similar(projects: Path, name: str) -> list[Path]:
    """Return existing directories whose names may stand for the same path, newest first."""
    similar: list[tuple[int, Path]] = []
    try:
        with os.scandir(projects) as entries:
            for entry in entries:
                if entry.name.startswith(name[: SLUG_UNITS + 1]) and entry.is_dir(follow_symlinks=False):
                    similar.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
    except OSError:
        return []
    return [path for _, path in sorted(similar, reverse=True)]


def read_root_record(state_dir: Path) -> dict[str, str]:
    """Return the record in a state folder, with at least a `root`; empty if it is missing or unreadable."""
    data = read_small(state_dir / RECORD, _RECORD_BYTES, follow=False).data
    texts = {key: value for key, value in as_table(parse_json(data or b"{}")).items() if isinstance(value, str)}
    return texts if _is_path(texts.get("root")) else {}


def find_transcript_cwd(project_dir: Path) -> str | None:
    """Return the working directory named in the first records of the newest transcript."""
    try:
        with os.scandir(project_dir) as entries:
            files = [
                entry for entry in entries if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False)
            ]
            newest = max(((file.stat(follow_symlinks=False).st_mtime_ns, file.path) for file in files), default=None)
    except OSError:  # a missing or unreadable folder has no transcript
        return None
    data = read_head(newest[1], _TRANSCRIPT_BYTES, follow=False).data if newest else None
    for line in (data or b"").splitlines():
        cwd = as_text(as_table(parse_json(line)).get("cwd"))  # the last line is usually incomplete
        if _is_path(cwd):
            return cwd
    return None


def _is_path(text: str | None) -> bool:
    try:
        return text is not None and os.path.isabs(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


# --- the canonical git root, found from files alone -------------------------------------------------------------------
# All worktrees of a repository have one root, so they share one memory. An archive can contain any `.git` file, so it is
# trusted only if the repository's record of the worktree points back to this file. Otherwise the directory is its own root
# and cannot use the memory of another project.
#
#     .git is a directory              that directory's parent is the root
#     .git file, worktree, trusted     the main work tree; for a bare repository the repository itself
#     .git file, no `commondir`        a submodule, or --separate-git-dir: a separate project
#     .git file, not trusted           the directory itself, and a note with the reason
#     no .git on the way up            the working directory
#
# A link named `.git` counts if it points to a directory, and then only for the directory it is in. GIT_DIR and similar
# variables are ignored. Git runs, with a time limit, only to find the first commit and whether a file is tracked.


def find_root(cwd: Path, *, worktree: str = "shared") -> GitRoot:
    """Return the root of the project that contains `cwd`, with `worktree="own"` that of the worktree. Never raises."""
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
    """Return the directory with the repository's config and history, or None if it is missing or untrusted."""
    if os.path.lexists(root / ".git"):
        return _read_repository(os.path.realpath(root))[1]
    return root if (root / "HEAD").is_file() and (root / "objects").is_dir() else None


def find_remote(root: Path) -> str | None:
    """Return the URL of `origin`, or else of the first remote, without credentials."""
    address = find_address(root)
    return strip_credentials(address) if address else None


def strip_credentials(address: str) -> str:
    """Return a remote's URL without user, password, query or fragment; `git@host:path` contains no secret."""
    match = _ADDRESS.match(address)
    return one_line(match[1] + match[3] if match else address)


def find_address(root: Path) -> str | None:
    """Return the remote URL as in the repository's config. It may contain credentials, so do not store it."""
    common = find_git_dir(root)
    data = read_small(common / "config", CONFIG_BYTES).data if common else None
    addresses = _parse_remotes((data or b"").decode("utf-8", "replace"))
    return addresses.get("origin") or next(iter(addresses.values()), None)


def find_root_commit(root: Path) -> str | None:
    """Return the oldest root commit, which all clones share, or None if git does not answer in time."""
    common = find_git_dir(root)
    if common is None or (common / "shallow").exists():  # a shallow clone lacks the first commit
        return None
    code, output = run_git(root, ("rev-list", "--max-parents=0", "HEAD", "--"), _GIT_SECONDS)
    commits = output.split()
    return commits[-1] if code == 0 and commits and re.fullmatch(r"[0-9a-f]{40,64}", commits[-1]) else None


def is_tracked(root: Path, name: str) -> bool:
    """Return whether git may track a file: False only if git reports that it does not, or there is no repository."""
    top = os.path.realpath(root)
    if find_top(top) is None:
        return False
    if os.path.realpath(os.path.join(top, name)) != os.path.join(top, name):
        return True  # git does not see files behind a link, and the link itself may be tracked
    # Ignore case: on many file systems `.Claude/` is the same folder, which git does not know.
    code, _ = run_git(root, ("ls-files", "--error-unmatch", "--", f":(icase){name}"), _GIT_SECONDS)
    return code != 1


def find_top(start: str) -> str | None:
    """Return the nearest directory, upwards from `start`, with a `.git` directory, file or link."""
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
    """Return the kind of a directory's `.git`, its config and history if trusted, and a note if it is not."""
    dot_git = os.path.join(top, ".git")
    if os.path.isdir(dot_git):
        return "git", Path(os.path.realpath(dot_git)), ""
    if os.path.islink(dot_git):
        return "plain", None, f"{dot_git} is a link, but not to a directory"
    pointer = _read_line(dot_git)
    if not pointer.startswith("gitdir:"):
        return "plain", None, f"{dot_git} does not name a git directory"
    admin = os.path.realpath(os.path.join(top, pointer.removeprefix("gitdir:").strip()))
    if not os.path.isdir(admin):
        return "plain", None, f"{dot_git} names a missing git directory"
    link = _read_line(os.path.join(admin, "commondir"))
    if not link:
        return "git", Path(admin), ""
    common = os.path.realpath(os.path.join(admin, link))
    # The worktree's record must point to this file; its path may be relative to the record.
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
    """Return each remote's first URL, in file order, without includes and URL rewrites."""
    remotes: dict[str, str] = {}
    for section, key, value in _parse_lines(config):
        if key == "url" and value and (remote := _REMOTE.fullmatch(section)):
            remotes.setdefault(remote[1], value)
    return remotes


def parse_config(config: str, section: str) -> list[tuple[str, str]]:
    """Return the keys, in lower case, and values of a plain section such as [user], in file order."""
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
    """Run git without hooks and return its exit code and output; the code is -1 if git is missing or times out."""
    # Imported here: hooks run no git process, and subprocess takes milliseconds to load.
    import subprocess

    quiet = ("--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
    try:
        null, command = subprocess.DEVNULL, ("git", "-C", str(root), *quiet, *arguments)
        process = subprocess.run(
            command, stdin=null, stdout=subprocess.PIPE, stderr=null, env=git_environ(), timeout=timeout, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return -1, ""
    return process.returncode, process.stdout.decode("utf-8", "replace")


def list_folders(paths: ProjectPaths, claude_home: Path, cwd: Path) -> tuple[Path, ...]:
    """Return Claude Code's transcript folders for this project, by the working directory and by the root."""
    projects = claude_home / "projects"
    if paths.private.rule == DIR_NAME:
        return (projects / paths.private.path.parent.name,)
    names = (slug(os.path.realpath(cwd)), slug(str(paths.root.path)))
    return tuple(dict.fromkeys(find_project_dir(projects, name) for name in names))
