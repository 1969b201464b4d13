"""Errors in the command line's words: one line that says what is wrong and what to do next, and the exit code.

0    done; an empty list is done
1    refused, failed, or nothing found: any MemdirError
2    wrong use
130  interrupted
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from memdir.errors import (
    BudgetError,
    ConflictError,
    DiskError,
    FormatError,
    LockedError,
    MemdirError,
    ModelError,
    NotFoundError,
    PathError,
    SecretError,
    SettingsError,
)
from memdir.text import one_line, shorten

if TYPE_CHECKING:
    from click import ClickException

DONE, REFUSED, MISUSED, INTERRUPTED = 0, 1, 2, 130
_LENGTH = 2_000  # long enough for any path; a hostile argument does not fill the screen

# What to do next, for errors that do not say it themselves.
NEXT: Mapping[type[MemdirError], str] = {
    SettingsError: "`memdir config list` shows every setting and where it comes from",
    PathError: "`memdir where` shows the directories in use",
    SecretError: "take the secret out and say where it is kept instead",
    FormatError: "`memdir save --help` shows what a memory needs",
    NotFoundError: "`memdir list` shows what there is",
    ConflictError: "`memdir history` shows what changed",
    LockedError: "try again in a moment",
    DiskError: "see that the place is writable and has room, then try again",
    BudgetError: "raise the cap or wait until it renews",
    ModelError: "try again, or work without a model: `memdir config set model none`",
    MemdirError: "`memdir doctor` looks for what is wrong",
}
# What click says in the words of a programmer, and what is meant.
_PLAIN = (("is not a valid integer range", "is no whole number"), ("is not a valid float range", "is no number"))
# Options of the whole program, which people also write behind the verb.
_BEFORE_VERB = ("--dir", "--color")


def render_error(error: MemdirError) -> str:
    hint = error.hint or next(NEXT[kind] for kind in type(error).__mro__ if kind in NEXT)
    return _join(str(error), hint)


def render_misuse(error: "ClickException") -> str:
    # Imported here: only click's own calls can be misuse, and others do without it.
    from click import NoSuchOption

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "memdir"
    hint = f"`{path} --help` shows how"
    if isinstance(error, NoSuchOption) and error.option_name in _BEFORE_VERB and context is not None:
        verb = path.removeprefix(context.find_root().command_path).strip()
        hint = f"it goes before the verb: `memdir {error.option_name} … {verb}`"
    message = error.format_message()
    for said, meant in _PLAIN:
        message = message.replace(said, meant)
    return _join(message, hint)


def render_os_error(error: OSError) -> str:
    what = (error.strerror or type(error).__name__).lower()
    return _join(f"{error.filename}: {what}" if error.filename else what, NEXT[DiskError])


def _join(message: str, hint: str) -> str:
    return shorten(f"{one_line(message).rstrip('.')}; {one_line(hint)}", _LENGTH)
