"""The errors that memdir raises, as a tree. They have fields; interfaces render them.

    MemdirError(.hint)
    ├── SettingsError(.key)               a setting, a switch or a config file
    ├── PathError(.path, .reason)         a name or path that is not allowed
    ├── SecretError(.findings)            a credential in text; the findings never contain its value
    ├── ReviewError(.item)                a request that needs review first
    ├── FormatError(.field)               a draft or file that may not be written
    ├── NotFoundError(.name)              no such memory, or no such change
    ├── ConflictError(.expected, .found)  a file changed since it was read
    ├── LockedError(.pid, .since)         another process holds the directory
    ├── DiskError(.path, .errno)          the file system failed: full, read-only, no permission, no descriptors
    ├── BudgetError                       a token limit was reached
    └── ModelError(.usage)                with its cost, if known
        ├── UnreachableError(.reason, .is_transient, .retry_after)  no answer; whether and when to retry
        ├── ReplyError                    an answer that cannot be used
        └── StoppedError                  the caller cancelled the request

They never log and have no HTTP status.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdir.records import Usage


def hint_extra(extra: str) -> str:
    """Return the command that installs the packages of an extra, depending on how memdir was installed.

    It names the packages, because memdir may come from a checkout or a file that is in no package index.
    """
    # Imported here: only a missing package needs it, and it takes too long for a prompt hook.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires("memdir") or []
    except PackageNotFoundError:
        lines = []
    marked = [line.partition(";") for line in lines]
    names = [f"'{need.strip()}'" for need, _, marker in marked if f"extra == '{extra}'" in marker.replace('"', "'")]
    packages = " ".join(name for name in names if not name.startswith("'memdir")) or f"'memdir[{extra}]'"
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx inject memdir {packages}"
    if (prefix / "uv-receipt.toml").exists():
        return f"uv pip install --python {sys.executable} {packages}"
    return f"{sys.executable} -m pip install {packages}"


class MemdirError(Exception):
    """The base class of memdir's errors. `hint` tells the user what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class SettingsError(MemdirError):
    def __init__(self, message: str, *, key: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key


class PathError(MemdirError):
    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path!r} is refused: {reason}", hint=hint)
        self.path = path
        self.reason = reason


class SecretError(MemdirError):
    def __init__(self, message: str, *, findings: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.findings = tuple(findings)


class ReviewError(MemdirError):
    """The change needs review. `item` is its number in the inbox, or 0 if the user declined it before."""

    def __init__(self, message: str, *, item: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.item = item


class FormatError(MemdirError):
    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class NotFoundError(MemdirError):
    def __init__(self, message: str, *, name: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.name = name


class ConflictError(MemdirError):
    """A change conflicts with the current state. `expected` and `found` are digests, None for a missing file."""

    def __init__(self, message: str, *, expected: str | None = None, found: str | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.found = found


class LockedError(MemdirError):
    def __init__(self, message: str, *, pid: int | None = None, since: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.pid = pid
        self.since = since


class DiskError(MemdirError):
    def __init__(self, message: str, *, path: str = "", errno: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.errno = errno


class BudgetError(MemdirError):
    pass


class ModelError(MemdirError):
    """A model request failed. `usage` is its cost, or None if unknown."""

    def __init__(self, message: str, *, hint: str = "", usage: "Usage | None" = None) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class UnreachableError(ModelError):
    """A model did not answer. `reason` is a key of `connection.REASONS`; if `is_transient`, a retry may succeed."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        is_transient: bool = False,
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.is_transient = is_transient
        self.retry_after = retry_after


class ReplyError(ModelError):
    pass


class StoppedError(ModelError):
    pass
