"""The table of memdir's settings: each with its default, what it may be, and what it is for.

Pure: a value comes in as text or as a TOML value and is checked against its row. Where values come from, and which
of them wins, is the business of settings.
"""

import math
from collections.abc import Mapping

from memdir.errors import SettingsError
from memdir.frozen import dataclass
from memdir.limits import (
    DAY_TOKENS,
    DREAM_HOURS,
    DREAM_SCAN_MINUTES,
    DREAM_SESSIONS,
    HALF_LIFE_FEEDBACK,
    HALF_LIFE_PROJECT,
    HALF_LIFE_REFERENCE,
    HALF_LIFE_USER,
    LOCK_SECONDS,
    MODEL_SECONDS,
    RUN_TOKENS,
)
from memdir.text import one_line, shorten

Value = bool | int | float | str

_TRUE = frozenset({"1", "true", "on", "yes"})
_FALSE = frozenset({"0", "false", "off", "no"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `since_reader` names the room that reads it; empty while no room does."""

    key: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    project: bool = False
    since_reader: str = ""
    minimum: float = 0

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return "MEMDIR_" + self.key.upper().replace(".", "_")

    @property
    def allowed(self) -> str:
        """In words, what it may be."""
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
        since_reader="paths",
    ),
    Setting(
        "index_order",
        "rank",
        "What an index over the limit keeps: the lines of highest rank, or the first of the file.",
        choices=("rank", "file"),
        project=True,
        since_reader="index",
    ),
    Setting("skip_index", False, "Save files only; leave MEMORY.md alone.", project=True, since_reader="store"),
    Setting("user_memory", True, "Load the memory for all projects too.", project=True, since_reader="paths"),
    Setting(
        "paused", False, "Nothing is remembered in the background, and nothing recalled.", since_reader="interfaces"
    ),
    Setting("lock_seconds", LOCK_SECONDS, "How long a write waits for another one.", since_reader="store"),
    Setting(
        "recall", True, "Bring memories into a conversation when they matter.", project=True, since_reader="asking"
    ),
    Setting(
        "selector",
        "local",
        "Who chooses memories beside a conversation: the local index, or the model; hooks always ask the index.",
        choices=("local", "model"),
        since_reader="conversing",
    ),
    Setting("past_context", True, "Tell the agent how to search past sessions.", since_reader="instructions"),
    Setting("extract", True, "Learn from each turn in the background.", project=True, since_reader="learning"),
    Setting(
        "extract_headless",
        "explicit",
        "Learn in runs without a person: only what was asked for, everything, or nothing.",
        choices=("explicit", "on", "off"),
        since_reader="learning",
    ),
    Setting("extract_every", 1, "Learn after every so many turns.", minimum=1, since_reader="learning"),
    Setting("team", False, "Keep and load the team's memory.", since_reader="instructions"),
    Setting(
        "author",
        "default",
        "Who signs what you share, as `Name <mail>`; `default` is who git's config says you are.",
        since_reader="authors",
    ),
    Setting("daily_log", False, "Append to a log a day instead of keeping an index.", since_reader="instructions"),
    Setting("notes", True, "Keep a running summary of each session.", project=True, since_reader="notes"),
    Setting("dream", True, "Tidy the memory between sessions.", project=True, since_reader="dream_gates"),
    Setting("dream_hours", DREAM_HOURS, "Hours between two dreams.", since_reader="dream_gates"),
    Setting("dream_sessions", DREAM_SESSIONS, "Sessions that must have been since.", since_reader="dream_gates"),
    Setting(
        "dream_scan_minutes",
        DREAM_SCAN_MINUTES,
        "Minutes between two counts of the sessions.",
        since_reader="dream_gates",
    ),
    Setting(
        "half_life.project",
        HALF_LIFE_PROJECT,
        "Days after which a memory about the project counts half as fresh; 0 is never.",
        since_reader="aging",
    ),
    Setting(
        "half_life.reference",
        HALF_LIFE_REFERENCE,
        "The same for references, and for memories without a type.",
        since_reader="aging",
    ),
    Setting("half_life.user", HALF_LIFE_USER, "The same for what is known of a person.", since_reader="aging"),
    Setting("half_life.feedback", HALF_LIFE_FEEDBACK, "The same for feedback.", since_reader="aging"),
    Setting(
        "hook_patience",
        1.0,
        "How many times longer than usual a hook may take: for slow disks and machines.",
        since_reader="interfaces",
        minimum=1,
    ),
    Setting(
        "model", "none", "The model that helps, as provider:name; `none` works by rules alone.", since_reader="models"
    ),
    Setting(
        "model_url",
        "default",
        "The address of the model's endpoint; `default` is the provider's own.",
        since_reader="models",
    ),
    Setting("model_seconds", MODEL_SECONDS, "How long a model may be silent.", since_reader="models", minimum=1),
    Setting("claude", "claude", "The program behind `claude-cli`: its name or its whole path.", since_reader="models"),
    Setting("budget.run_tokens", RUN_TOKENS, "Tokens one run may spend; 0 is no cap.", since_reader="models"),
    Setting("budget.day_tokens", DAY_TOKENS, "Tokens one day may spend; 0 is no cap.", since_reader="models"),
)
BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}


def find_setting(key: str) -> Setting:
    """The row of that key; raises SettingsError when there is none."""
    if key not in BY_KEY:
        known = ", ".join(BY_KEY)
        raise SettingsError(f"there is no setting {shorten(one_line(key), 60)!r}", key=key, hint=f"settings: {known}")
    return BY_KEY[key]


def parse_value(setting: Setting, raw: object, source: str) -> Value:
    """The value that `raw` stands for, of the default's type; raises SettingsError naming key, source and choice."""
    value = convert(setting, raw)
    if value is None:
        shown = shorten(one_line(str(raw)), 60)
        message = f"{setting.key} = {shown!r} ({source}) cannot be used; allowed: {setting.allowed}"
        raise SettingsError(message, key=setting.key, hint=f"`memdir config list` shows {setting.key} and its source")
    return value


def parse_flag(text: str) -> bool | None:
    """A switch in words; None when it does not speak."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def convert(setting: Setting, raw: object) -> Value | None:
    """A value of the default's type, or None for what is not allowed. TOML values come typed, variables as text."""
    default = setting.default
    if isinstance(default, bool):
        return raw if isinstance(raw, bool) else parse_flag(str(raw)) if isinstance(raw, int | str) else None
    if isinstance(default, str):
        return _convert_text(setting, raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    return _convert_number(setting, raw)


def _convert_text(setting: Setting, raw: object) -> str | None:
    if not isinstance(raw, str):
        return None
    text = raw.strip()
    if setting.choices:
        return text.lower() if text.lower() in setting.choices else None
    return text if text and text == one_line(text) else None


def _convert_number(setting: Setting, raw: int | float | str) -> int | float | None:
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number) or number < setting.minimum:
        return None
    if isinstance(setting.default, int):
        return int(number) if number.is_integer() and number <= 2**53 else None
    return number
