"""What came of loading instruction files: each file with its text and why it is there, each refusal with its reason.

Records and their rendering; nothing here touches a disk. The rendering has no date and no order of its own, so the same
files give the same bytes.
"""

from collections.abc import Iterable
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES, INCLUDE_DEPTH, INSTRUCTION_CHARS, INSTRUCTION_FILES
from memdir.text import one_line, printable


class Layer(StrEnum):
    """Whose instructions they are, from the lowest to the highest."""

    MANAGED = "managed"
    USER = "user"
    USER_RULE = "user_rule"
    ABOVE = "above"
    PROJECT = "project"
    RULE = "rule"
    LOCAL = "local"

    @property
    def words(self) -> str:
        return _LAYERS[self]


class Reason(StrEnum):
    """Every reason why a file is not loaded."""

    EXCLUDED = "excluded"
    WORKTREE = "worktree"
    OUTSIDE = "outside"
    SECRET = "secret"
    MISSING = "missing"
    FOLDER = "folder"
    SPECIAL = "special"
    NOT_TEXT = "not_text"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY = "too_many"
    CYCLE = "cycle"
    UNREADABLE = "unreadable"

    @property
    def words(self) -> str:
        return _REASONS[self]


_LAYERS = {
    Layer.MANAGED: "for everybody on this machine, from its administrator",
    Layer.USER: "the person's own, for every project",
    Layer.USER_RULE: "a rule of the person's own, for every project",
    Layer.ABOVE: "of a folder above the project",
    Layer.PROJECT: "of the project, shared by all who work on it",
    Layer.RULE: "a rule of the project, shared by all who work on it",
    Layer.LOCAL: "the person's own, for this project only",
}
_REASONS = {
    Reason.EXCLUDED: "claudeMdExcludes names it",
    Reason.WORKTREE: "the worktree has its own copy of what the repository around it checks in",
    Reason.OUTSIDE: "it lies outside the project and waits for a person's approval",
    Reason.SECRET: "it looks like a secret; no approval changes that",
    Reason.MISSING: "there is no such file",
    Reason.FOLDER: "it is a folder",
    Reason.SPECIAL: "it is a device, a pipe, a socket or a file of the kernel",
    Reason.NOT_TEXT: "it is not a text file",
    Reason.TOO_LARGE: f"it is larger than {FILE_BYTES:,} bytes",
    Reason.TOO_DEEP: f"it is included more than {INCLUDE_DEPTH} files deep",
    Reason.TOO_MANY: f"the limits of one load are reached ({INSTRUCTION_FILES} files, and bytes and mentions alike)",
    Reason.CYCLE: "it includes the file that includes it",
    Reason.UNREADABLE: "it could not be read",
}


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """One file as a session is given it. `path` is where it was found, `real` where its links lead.

    `by` is the file that includes it, empty for one that is loaded for its place. `why` says it in words.
    """

    path: str
    real: str
    layer: Layer
    why: str
    text: str
    depth: int = 0
    by: str = ""

    @property
    def what(self) -> str:
        return f"{self.layer.words}; included by {self.by}" if self.by else self.layer.words

    @property
    def chars(self) -> int:
        return len(self.text)

    @property
    def bytes(self) -> int:
        return len(self.text.encode("utf-8", "replace"))

    @property
    def is_oversize(self) -> bool:
        return self.chars > INSTRUCTION_CHARS


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that was asked for and not loaded; `by` says what asked. `real` is empty where nobody looked."""

    path: str
    reason: Reason
    by: str
    real: str = ""


@dataclass(frozen=True, slots=True)
class PendingRule:
    """A rule that is loaded when a file is read that one of its patterns, relative to `base`, matches.

    `free` are approved folders outside the project that its links may lead to.
    """

    path: str
    real: str
    layer: Layer
    base: str
    paths: tuple[str, ...]
    globs: tuple[str, ...]
    free: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """All of one load, lowest first. `disabled` says what switched it off, empty if nothing did."""

    files: tuple[LoadedFile, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    pending: tuple[PendingRule, ...] = ()
    disabled: str = ""

    @property
    def asks(self) -> tuple[Refusal, ...]:
        """What waits for a person's word."""
        return tuple(refusal for refusal in self.refusals if refusal.reason is Reason.OUTSIDE)


def render_files(loaded: Loaded) -> str:
    """The files as blocks, in order; empty when there are none."""
    return join_blocks(render_block(file.path, file.what, file.text) for file in loaded.files)


def render_block(path: str, what: str, text: str) -> str:
    """One block. A line break in a path cannot begin another, and no character of the text is an unseen one."""
    return f"Contents of {one_line(path)} ({one_line(what)}):\n\n{printable(text).strip()}\n"


def join_blocks(blocks: Iterable[str]) -> str:
    return "\n".join(blocks)
