"""The environment and memdir's own settings: the only module that reads `os.environ`.

The first source that sets a value wins:

    1. its environment variable: MEMDIR_ and the key in capitals, dots as `_`; empty counts as unset
    2. the user's config file: $XDG_CONFIG_HOME/memdir/config.toml, else ~/.config/memdir/config.toml
    3. the project's committed file: <root>/.memdir.toml, only for keys marked `project`
    4. the default in the table

An invalid value in the first two is an error that names its source. The third comes with a clone and is untrusted: it may
restrict memdir but not enable anything. Its invalid values are ignored and listed in `ignored` or `notes`, and never make
memdir fail.
"""

import math
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memdir import limits
from memdir.errors import SettingsError
from memdir.files import ReadResult, read_small, write_private
from memdir.format.age import HalfLives
from memdir.frozen import dataclass, field
from memdir.records import Kind
from memdir.text import one_line, shorten

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


# --- the table: each setting with its default, allowed values and purpose ---------------------------------------------

Value = bool | int | float | str

_TRUE = frozenset({"1", "true", "on", "yes"})
_FALSE = frozenset({"0", "false", "off", "no"})
_WORKTREE, _ORDER, _HEADLESS_CHOICES = ("shared", "own"), ("rank", "file"), ("explicit", "on", "off")
_SELECTORS = "the model, if there is one, or the local index alone"
_EXTRACT_OFF = "if off, only explicit requests are saved"
_HEADLESS = "only explicit requests, everything, or nothing"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. With `project`, a committed file may set it, but not switch on what is off by default."""

    key: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    project: bool = False
    minimum: float = 0
    is_time: bool = False

    @property
    def variable(self) -> str:
        return "MEMDIR_" + self.key.upper().replace(".", "_")

    @property
    def allowed(self) -> str:
        if isinstance(self.default, bool):
            return "true or false (also on/off, yes/no, 1/0)"
        if isinstance(self.default, str):
            text = "none, or a time such as 2026-10-01T18:00:00+02:00" if self.is_time else "one line of text"
            return " or ".join(self.choices) or text
        return f"{'a whole number' if isinstance(self.default, int) else 'a number'}, {self.minimum:g} or more"


SETTINGS: tuple[Setting, ...] = (
    Setting("worktree", "shared", "Worktrees share their repository's memory, or each has its own.", _WORKTREE, True),
    Setting("index_order", "rank", "Index lines to load above the limit: by rank, or from the start.", _ORDER, True),
    Setting("skip_index", False, "Save memories without changing MEMORY.md.", project=True),
    Setting("user_memory", True, "Also load user memory, for all projects.", project=True),
    Setting("paused", False, "Stop background learning and recall."),
    Setting("paused_until", "none", "Pause until this time; `memdir pause 2h` sets it.", is_time=True),
    Setting("lock_seconds", limits.LOCK_SECONDS, "Seconds a write waits for another to finish."),
    Setting("recall", True, "Add relevant memories to conversations.", project=True),
    Setting("selector", "model", f"Selects memories in the background: {_SELECTORS}.", ("model", "local")),
    Setting("select_model", "default", "Model for background selection; `default` is `model` (claude-cli: `haiku`)."),
    Setting("encoder", "auto", "Sentence encoder for background selection: the installed one, none, or a folder."),
    Setting("visible", True, "Show a line with recalled and saved memories, in hosts that support it."),
    Setting("past_context", True, "Tell the agent how to search past sessions."),
    Setting("extract", True, f"Extract memories from each turn in the background; {_EXTRACT_OFF}.", project=True),
    Setting("extract_headless", "explicit", f"What to extract in runs without a user: {_HEADLESS}.", _HEADLESS_CHOICES),
    Setting("extract_every", 1, "Extract after every N turns.", minimum=1),
    Setting("team", False, "Keep and load team memory."),
    Setting("team_agents", False, "Let agents write to team memory without review."),
    Setting("author", "default", "Author of shared memories, as `Name <mail>`; `default` is git's user."),
    Setting("daily_log", False, "Append to a daily log instead of keeping an index."),
    Setting("notes", True, "Keep a running summary of each session.", project=True),
    Setting("dream", True, "Consolidate memory between sessions.", project=True),
    Setting("dream_hours", limits.DREAM_HOURS, "Minimum hours between two dreams."),
    Setting("dream_sessions", limits.DREAM_SESSIONS, "Minimum sessions between two dreams."),
    Setting("dream_scan_minutes", limits.DREAM_SCAN_MINUTES, "Minutes between two session counts."),
    Setting("half_life.project", limits.HALF_LIFE_PROJECT, "Days until a project memory's weight halves; 0: never."),
    Setting("half_life.reference", limits.HALF_LIFE_REFERENCE, "The same for references and memories without a type."),
    Setting("half_life.user", limits.HALF_LIFE_USER, "The same for user memories."),
    Setting("half_life.feedback", limits.HALF_LIFE_FEEDBACK, "The same for feedback."),
    Setting("hook_patience", 1.0, "Factor for hook time limits, for slow machines.", minimum=1),
    Setting("model", "none", "The model, as provider:name; `none` uses only built-in patterns."),
    Setting("model_url", "default", "URL of the model API; `default` is the provider's."),
    Setting("model_seconds", limits.MODEL_SECONDS, "Seconds a model may stay silent.", minimum=1),
    Setting("claude", "claude", "The program for `claude-cli`: its name or full path."),
    Setting("codex", "codex", "The program for `codex-cli`."),
    Setting("gemini", "gemini", "The program for `gemini-cli`."),
    Setting("budget.run_tokens", limits.RUN_TOKENS, "Token limit per run; 0 means unlimited."),
    Setting("budget.day_tokens", limits.DAY_TOKENS, "Token limit per day; 0 means unlimited."),
)
BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}


def find_setting(key: str) -> Setting:
    if key not in BY_KEY:
        known = ", ".join(BY_KEY)
        raise SettingsError(f"unknown setting {shorten(one_line(key), 60)!r}", key=key, hint=f"settings: {known}")
    return BY_KEY[key]


def parse_value(setting: Setting, raw: object, source: str) -> Value:
    """Return `raw` converted to the type of the default. Raises SettingsError with key, source and allowed values."""
    value = convert(setting, raw)
    if value is None:
        value_text = shorten(one_line(str(raw)), 60)
        message = f"{setting.key} = {value_text!r} ({source}) cannot be used; allowed: {setting.allowed}"
        raise SettingsError(message, key=setting.key, hint=f"`memdir config list` shows {setting.key} and its source")
    return value


def parse_flag(text: str) -> bool | None:
    """Return the boolean for a word such as "on" or "no", or None for any other text."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def convert(setting: Setting, raw: object) -> Value | None:
    """Convert `raw`, a TOML value or text, to the type of the default; return None if it is not allowed."""
    default = setting.default
    if isinstance(default, bool):
        return raw if isinstance(raw, bool) else parse_flag(str(raw)) if isinstance(raw, int | str) else None
    if isinstance(default, str):
        text = raw.strip() if isinstance(raw, str) else ""
        if setting.choices:
            return text.lower() if text.lower() in setting.choices else None
        if setting.is_time and text != setting.default:
            return text if _find_time(text) else None
        return text if text and text == one_line(text) else None
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number) or number < setting.minimum:
        return None
    if isinstance(default, int):
        return int(number) if number.is_integer() and number <= 2**53 else None
    return number


def _find_time(text: str) -> datetime | None:
    """Parse a time, in the local zone unless it has its own; return None if it is invalid."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return None


# --- where values come from ------------------------------------------------------------------------------------------

CONFIG_BYTES = 65_536  # all settings together need 2 KB
PROJECT_FILE = ".memdir.toml"
DEFAULT = "default"  # the source of unset values
_VENDOR_VARIABLES = (
    "MEMDIR_MODEL_KEY MEMDIR_TEAM_TOKEN ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL OPENAI_API_KEY OPENAI_BASE_URL OLLAMA_HOST"
).split()


@dataclass(frozen=True, slots=True)
class Environment:
    home: Path
    claude_home: Path
    codex_home: Path
    gemini_home: Path
    config_file: Path
    state_home: Path
    policy_file: Path
    memory_override: str = ""
    project_dir_name: str = ""
    disable_auto_memory: str | None = None
    simple: bool = False
    remote: bool = False
    remote_memory_dir: str = ""
    extra_guidelines: str = ""
    now: datetime | None = None
    editor: str = ""
    no_color: bool = False
    session: str = ""
    inside: bool = False  # set in programs that memdir itself has started
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)  # model vendors' variables, with API keys
    inherited: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)  # for child processes only
    disable_claude_mds: bool = False
    project_dir: str = ""  # the directory where a host was started; it may have changed since
    entrypoint: str = ""  # how Claude Code was started: `cli` by the user, `sdk-…` by a program
    variables: Mapping[str, str] = field(default_factory=dict)  # a setting's key -> the text of its variable

    @property
    def managed_dir(self) -> Path:
        """Return the directory for an administrator's settings for all users of a machine."""
        return self.policy_file.parent


@dataclass(frozen=True, slots=True)
class Settings:
    values: Mapping[str, Value]
    sources: Mapping[str, str]
    unknown: tuple[str, ...] = ()  # unknown keys in the user's file
    ignored: Mapping[str, str] = field(default_factory=dict)  # keys of the project's file -> why they are ignored
    notes: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> Value:
        return self.values[key]

    def flag(self, key: str) -> bool:
        return bool(self.values[key])

    def text(self, key: str) -> str:
        return str(self.values[key])

    def number(self, key: str) -> float:
        return float(self.values[key])

    def half_lives(self) -> HalfLives:
        return {kind: self.number(f"half_life.{kind}") for kind in Kind}

    def find_pause_end(self, now: datetime) -> datetime | None:
        """Return the end of a timed pause, or None if there is none or it has passed."""
        end = _find_time(self.text("paused_until"))
        return end if end is not None and end > now else None


def read_environment(environ: Mapping[str, str] | None = None, *, policy_file: Path | None = None) -> Environment:
    """Return the environment as a record; raises SettingsError for an invalid value."""
    env = os.environ if environ is None else environ
    home = _find_home(env)
    claude_dir = env.get("CLAUDE_CONFIG_DIR", "")
    if claude_dir and not os.path.isabs(claude_dir):
        message = f"CLAUDE_CONFIG_DIR = {shorten(one_line(claude_dir), 60)!r} is not an absolute path"
        raise SettingsError(message, key="CLAUDE_CONFIG_DIR", hint="use a full path; `~` is not expanded")
    managed = "/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code"
    return Environment(
        home=home,
        claude_home=Path(unicodedata.normalize("NFC", claude_dir or str(home / ".claude"))),
        codex_home=_read_folder(env, "CODEX_HOME", home / ".codex"),
        gemini_home=_read_folder(env, "GEMINI_CLI_HOME", home) / ".gemini",
        config_file=_read_folder(env, "XDG_CONFIG_HOME", home / ".config") / "memdir" / "config.toml",
        state_home=_read_folder(env, "XDG_STATE_HOME", home / ".local" / "state") / "memdir",
        policy_file=policy_file or Path(managed, "managed-settings.json"),
        memory_override=env.get("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE", ""),
        project_dir_name=env.get("CLAUDE_CODE_PROJECT_DIR_NAME", ""),
        disable_auto_memory=env.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY"),
        simple=parse_flag(env.get("CLAUDE_CODE_SIMPLE", "")) is True,
        remote=parse_flag(env.get("CLAUDE_CODE_REMOTE", "")) is True,
        remote_memory_dir=env.get("CLAUDE_CODE_REMOTE_MEMORY_DIR", ""),
        extra_guidelines=env.get("CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES", ""),
        now=_parse_now(env.get("MEMDIR_NOW", "")),
        editor=env.get("VISUAL") or env.get("EDITOR") or "",
        no_color=bool(env.get("NO_COLOR")) or env.get("TERM") == "dumb",
        session=env.get("MEMDIR_SESSION") or env.get("CLAUDE_CODE_SESSION_ID") or env.get("CLAUDE_SESSION_ID") or "",
        disable_claude_mds=parse_flag(env.get("CLAUDE_CODE_DISABLE_CLAUDE_MDS", "")) is True,
        project_dir=env.get("CLAUDE_PROJECT_DIR") or env.get("GEMINI_PROJECT_DIR") or "",
        entrypoint=env.get("CLAUDE_CODE_ENTRYPOINT", ""),
        inside=bool(env.get("MEMDIR_INSIDE")),
        keys={name: env[name].strip() for name in _VENDOR_VARIABLES if env.get(name, "").strip()},
        inherited=env,
        variables={item.key: env[item.variable] for item in SETTINGS if env.get(item.variable, "").strip()},
    )


def read_settings(environment: Environment, *, root: Path | None) -> Settings:
    """Return all settings by the precedence above; without `root`, no project file is read."""
    values: dict[str, Value] = {item.key: item.default for item in SETTINGS}
    sources = dict.fromkeys(values, DEFAULT)
    ignored: dict[str, str] = {}
    notes: list[str] = []
    if root is not None:
        for key, value in _read_project_file(root / PROJECT_FILE, ignored, notes):
            values[key], sources[key] = value, f"project file {root / PROJECT_FILE}"
    unknown: list[str] = []
    source = f"config file {environment.config_file}"
    for key, raw in _flatten(read_config(environment.config_file)):
        if key in BY_KEY:
            values[key], sources[key] = parse_value(BY_KEY[key], raw, source), source
        else:
            unknown.append(key)
    for key, text in environment.variables.items():
        variable = BY_KEY[key].variable
        values[key], sources[key] = parse_value(BY_KEY[key], text, variable), variable
    settings = Settings(values, sources, tuple(unknown), ignored, tuple(notes))
    if not values["paused"] and settings.find_pause_end(environment.now or datetime.now(UTC)):
        values["paused"], sources["paused"] = True, f"paused_until = {values['paused_until']}"
    return settings


def read_config(path: Path) -> dict[str, object]:
    """Return the user's config file as a table, empty if it is missing; raises SettingsError if it is invalid."""
    result = read_small(path, CONFIG_BYTES)
    if result.problem:
        raise SettingsError(f"cannot read the config file {path}: {result.problem}", hint="fix or remove it")
    table, problem = _parse_toml(result)
    if problem:
        raise SettingsError(f"config file {path} is not valid TOML: {problem}", hint="fix that line or remove the file")
    return table


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def make_bare(environ: Mapping[str, str] | None) -> dict[str, str]:
    """Return these environment variables, or those of the process, with memory off."""
    return {**(os.environ if environ is None else environ), "CLAUDE_CODE_SIMPLE": "1"}


def git_environ() -> dict[str, str]:
    """Return the environment for a git process that uses the given directory only and never prompts."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return inherited | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


def _read_project_file(path: Path, ignored: dict[str, str], notes: list[str]) -> Iterator[tuple[str, Value]]:
    result = read_small(path, CONFIG_BYTES, follow=False)
    table, problem = _parse_toml(result)
    if result.problem or problem:
        notes.append(f"project file {path} is ignored: {one_line(result.problem or problem)}")
    for key, raw in _flatten(table):
        setting = BY_KEY.get(key)
        value = convert(setting, raw) if setting else None
        if setting is None:
            ignored[one_line(key)] = "unknown setting"
        elif not setting.project:
            ignored[key] = "a committed file may not set it"
        elif value is None:
            ignored[key] = f"allowed: {setting.allowed}"
        elif setting.default is True and value is True:
            ignored[key] = "a committed file may switch it off, not on"
        else:
            yield key, value


def _parse_toml(result: ReadResult) -> tuple[dict[str, object], str]:
    if result.data is None:
        return {}, ""
    # Imported here: every hook reads settings, few users have a config file, and the parser takes milliseconds to load.
    import tomllib

    try:
        return tomllib.loads(result.data.decode("utf-8-sig")), ""
    except UnicodeDecodeError:
        return {}, "it is not UTF-8"
    except ValueError as error:  # TOMLDecodeError, and int() on thousands of digits
        return {}, str(error)
    except RecursionError:
        return {}, "it is nested too deeply"


def _find_home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME", "")
    if not os.path.isabs(home):
        import pwd  # most processes have HOME

        with suppress(KeyError):
            home = pwd.getpwuid(os.getuid()).pw_dir
    if not os.path.isabs(home):
        raise SettingsError("no home directory found", key="HOME", hint="set HOME to an absolute path")
    return Path(home)


def _read_folder(env: Mapping[str, str], name: str, default: Path) -> Path:
    """Return the directory in an environment variable; a relative path counts as unset (XDG specification)."""
    value = env.get(name, "")
    return Path(value) if os.path.isabs(value) else default


def _parse_now(text: str) -> datetime | None:
    if not text.strip():
        return None
    try:
        now = datetime.fromisoformat(text.strip())
        return now if now.tzinfo else now.astimezone()
    except (ValueError, OverflowError, OSError) as error:
        message = f"MEMDIR_NOW = {shorten(one_line(text), 60)!r} is not a date or time"
        raise SettingsError(message, key="MEMDIR_NOW", hint="for example 2026-03-05 or 2026-03-05T14:30:00Z") from error


# --- writing the user's config file: one key at a time; comments and other lines are kept -----------------------------
# tomlkit is imported inside, because every hook loads this module, but only `config set` and `pause` write. If two
# processes write at once, the file stays valid, and the later one wins.


def write_setting(environment: Environment, key: str, value: object) -> Value:
    """Set one key in the user's config file and return the value as it will be read; raises SettingsError."""
    import tomlkit

    checked = parse_value(find_setting(key), value, "new value")
    document = _read_document(environment.config_file)
    *tables, last = key.split(".")
    table: MutableMapping[str, object] = document
    for name in tables:
        table = _step_into(table.setdefault(name, tomlkit.table()), key)
    table[last] = checked
    _write_document(environment.config_file, document)
    return checked


def remove_setting(environment: Environment, key: str) -> bool:
    """Remove a key, known or not, from the user's config file; return False if it was not there."""
    document = _read_document(environment.config_file)
    *tables, last = key.split(".")
    table: MutableMapping[str, object] = document
    for name in tables:
        table = _step_into(table.get(name, {}), key)
    if last not in table:
        return False
    del table[last]
    _write_document(environment.config_file, document)
    return True


def _read_document(path: Path) -> "TOMLDocument":
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    read_config(path)  # raises the usual SettingsError if the file is broken
    data = read_small(path, CONFIG_BYTES).data or b""
    try:
        return tomlkit.parse(data.decode("utf-8-sig"))
    except (TOMLKitError, ValueError) as error:
        raise SettingsError(f"cannot edit the config file {path}: {error}", hint="edit it by hand") from error


def _write_document(path: Path, document: "TOMLDocument") -> None:
    # Config files are often links into another folder, so replace the target and keep the link.
    write_private(Path(os.path.realpath(path)), document.as_string().encode("utf-8"))


def _step_into(table: object, key: str) -> MutableMapping[str, object]:
    if not isinstance(table, MutableMapping):
        raise SettingsError(f"{key} has no table in the config file", key=key, hint="edit it by hand")
    return table
