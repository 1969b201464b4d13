"""The table of memdir's settings: each with its default, what it may be, and what it is for.

Values come in as text or as TOML values and are checked against their row. Where they come from, and which of them
wins, is in `settings`.
"""

import math
from collections.abc import Mapping

from memdir import limits
from memdir.errors import SettingsError
from memdir.frozen import dataclass
from memdir.text import one_line, shorten

Value = bool | int | float | str

_TRUE = frozenset({"1", "true", "on", "yes"})
_FALSE = frozenset({"0", "false", "off", "no"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `project`: a committed file may set it, but may not switch on what is off."""

    key: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    project: bool = False
    minimum: float = 0

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return "MEMDIR_" + self.key.upper().replace(".", "_")

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        if isinstance(self.default, bool):
            return "true or false (also on/off, yes/no, 1/0)"
        if isinstance(self.default, str):
            return " or ".join(self.choices) or "one line of text"
        return f"{'a whole number' if isinstance(self.default, int) else 'a number'}, {self.minimum:g} or more"


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "worktree",
        "shared",
        "Worktrees of one repository share its memory, or each has its own.",
        choices=("shared", "own"),
        project=True,
    ),
    Setting(
        "index_order",
        "rank",
        "What an index over the limit keeps: the lines of highest rank, or the first of the file.",
        choices=("rank", "file"),
        project=True,
    ),
    Setting("skip_index", False, "Save files only; leave MEMORY.md alone.", project=True),
    Setting("user_memory", True, "Load the memory for all projects too.", project=True),
    Setting("paused", False, "Nothing is remembered in the background, and nothing recalled."),
    Setting("lock_seconds", limits.LOCK_SECONDS, "How long a write waits for another one."),
    Setting("recall", True, "Bring memories into a conversation when they matter.", project=True),
    Setting(
        "selector",
        "local",
        "What selects memories beside a conversation: the local index or the model; hooks always use the index.",
        choices=("local", "model"),
    ),
    Setting("past_context", True, "Tell the agent how to search past sessions."),
    Setting("extract", True, "Extract memories from each turn in the background.", project=True),
    Setting(
        "extract_headless",
        "explicit",
        "What to extract in runs without a person: only what was asked for, everything, or nothing.",
        choices=("explicit", "on", "off"),
    ),
    Setting("extract_every", 1, "Extract after every so many turns.", minimum=1),
    Setting("team", False, "Keep and load the team's memory."),
    Setting("author", "default", "Author of what you share, as `Name <mail>`; `default` is git's user."),
    Setting("daily_log", False, "Append to a log a day instead of keeping an index."),
    Setting("notes", True, "Keep a running summary of each session.", project=True),
    Setting("dream", True, "Consolidate the memory between sessions.", project=True),
    Setting("dream_hours", limits.DREAM_HOURS, "Hours between two dreams."),
    Setting("dream_sessions", limits.DREAM_SESSIONS, "Sessions since the last dream before the next."),
    Setting("dream_scan_minutes", limits.DREAM_SCAN_MINUTES, "Minutes between two counts of the sessions."),
    Setting(
        "half_life.project", limits.HALF_LIFE_PROJECT, "Days until a memory about the project counts half; 0: never."
    ),
    Setting("half_life.reference", limits.HALF_LIFE_REFERENCE, "The same for references and memories without a type."),
    Setting("half_life.user", limits.HALF_LIFE_USER, "The same for what is known of a person."),
    Setting("half_life.feedback", limits.HALF_LIFE_FEEDBACK, "The same for feedback."),
    Setting("hook_patience", 1.0, "Factor for the time limits of hooks, for slow machines.", minimum=1),
    Setting("model", "none", "The model, as provider:name; `none` works with built-in patterns alone."),
    Setting("model_url", "default", "The address of the model; `default` is the provider's own."),
    Setting("model_seconds", limits.MODEL_SECONDS, "How long a model may be silent.", minimum=1),
    Setting("claude", "claude", "The program behind `claude-cli`: its name or its whole path."),
    Setting("budget.run_tokens", limits.RUN_TOKENS, "Tokens one run may spend; 0 is no cap."),
    Setting("budget.day_tokens", limits.DAY_TOKENS, "Tokens one day may spend; 0 is no cap."),
)
BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}


def find_setting(key: str) -> Setting:
    """Returns the row of that key; raises SettingsError when there is none."""
    if key not in BY_KEY:
        known = ", ".join(BY_KEY)
        raise SettingsError(f"there is no setting {shorten(one_line(key), 60)!r}", key=key, hint=f"settings: {known}")
    return BY_KEY[key]


def parse_value(setting: Setting, raw: object, source: str) -> Value:
    """Returns the value of `raw` in the default's type; raises SettingsError naming key, source and what is allowed."""
    value = convert(setting, raw)
    if value is None:
        shown = shorten(one_line(str(raw)), 60)
        message = f"{setting.key} = {shown!r} ({source}) cannot be used; allowed: {setting.allowed}"
        raise SettingsError(message, key=setting.key, hint=f"`memdir config list` shows {setting.key} and its source")
    return value


def parse_flag(text: str) -> bool | None:
    """A switch in words; None for anything else."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def convert(setting: Setting, raw: object) -> Value | None:
    """A value of the default's type, or None for what is not allowed. TOML values come typed, variables as text."""
    default = setting.default
    if isinstance(default, bool):
        return raw if isinstance(raw, bool) else parse_flag(str(raw)) if isinstance(raw, int | str) else None
    if isinstance(default, str):
        text = raw.strip() if isinstance(raw, str) else ""
        if setting.choices:
            return text.lower() if text.lower() in setting.choices else None
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
