"""What can go wrong, as a tree. Errors carry fields, not strings to match; doors turn them into words.

    MemdirError(.hint)
    ├── SettingsError(.key)               a setting, a switch or a config file
    ├── PathError(.path, .reason)         a name or place the guard refuses
    ├── SecretError(.findings)            a credential in text; the findings never hold its value
    ├── FormatError(.field)               a draft or file that may not be written as it is
    ├── NotFoundError(.name)              no such memory, or no such change
    ├── ConflictError(.expected, .found)  it changed since you looked
    ├── LockedError(.pid, .since)         somebody else holds the directory
    ├── DiskError(.path, .errno)          the file system said no: full, read-only, no permission, no descriptors
    ├── BudgetError                       a spending cap was reached
    └── ModelError(.usage)                what it cost all the same, where that is known
        ├── UnreachableError(.reason, .passing, .after)  no answer; whether, and after how long, to try again
        ├── ReplyError                    an answer that cannot be used
        └── StoppedError                  whoever asked did not want the answer any more

They never log, know no HTTP status, and shadow no builtin.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdir.records import Usage


class MemdirError(Exception):
    """The root of all errors memdir raises on purpose; `hint` says what to do next."""

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


class FormatError(MemdirError):
    def __init__(self, message: str, *, field: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class NotFoundError(MemdirError):
    def __init__(self, message: str, *, name: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.name = name


class ConflictError(MemdirError):
    """`expected` and `found` are content digests; None stands for "no file"."""

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
    """`usage` is what the request cost before it failed, None when nobody said."""

    def __init__(self, message: str, *, hint: str = "", usage: "Usage | None" = None) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class UnreachableError(ModelError):
    """`reason` is one word of a closed list (models.faults); `passing`: the same request may do better later."""

    def __init__(
        self, message: str, *, reason: str = "", passing: bool = False, after: float | None = None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.passing = passing
        self.after = after


class ReplyError(ModelError):
    pass


class StoppedError(ModelError):
    pass
