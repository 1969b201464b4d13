"""The frozen records that pass between the rooms. They hold values and know nothing of files or clocks.

A `Draft` goes into a store and a `Memory` comes out: an unguarded thing and a stored thing are different types, so
that forgetting the guard cannot be written down.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    """The four types of memory; the set is closed."""

    USER = "user"
    FEEDBACK = "feedback"
    PROJECT = "project"
    REFERENCE = "reference"


class Scope(StrEnum):
    """Whose memory it is."""

    PRIVATE = "private"
    USER = "user"
    TEAM = "team"
    AGENT = "agent"


class Dialect(StrEnum):
    """Where a file keeps its type: `type:` at the top, or inside `metadata:`."""

    FLAT = "flat"
    NESTED = "nested"


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody wants remembered, before any check.

    Without a `name` the title makes one; `pinned` None leaves a memory that exists as it is.
    """

    kind: Kind
    title: str
    description: str
    body: str
    name: str | None = None
    pinned: bool | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """What `stat` says of a file; as long as it is the same, the bytes are taken to be the same."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Header:
    """The head of a memory file plus its file facts. Fields that could not be read are empty, never an error."""

    name: str
    title: str
    description: str
    kind: Kind | None
    scope: Scope
    modified: datetime
    pinned: bool
    signature: Signature
    dialect: Dialect | None = None
    problem: str = ""

    @property
    def file(self) -> str:
        """The file below the memory directory."""
        return f"{self.name}.md"


@dataclass(frozen=True, slots=True)
class Memory:
    """One stored memory: header, the whole text, its body, and the digest that `expect` is compared with."""

    header: Header
    text: str
    body: str
    digest: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Who changed a memory, why, and in which session."""

    who: str = "person"
    why: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Clip:
    """An index as a session loads it, with what was left out and the warning that says so."""

    text: str
    lines: int
    lines_total: int
    bytes: int
    bytes_total: int
    dead: int = 0
    over_lines: bool = False
    over_bytes: bool = False
    warning: str = ""

    @property
    def is_cut(self) -> bool:
        return self.over_lines or self.over_bytes


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after, by content digest; None stands for "no file".

    Of an index only the spliced bytes are kept: an index is rewritten at every save, and keeping it whole each time
    would make history quadratic.
    """

    path: str
    before: str | None
    after: str | None
    splice: tuple[int, bytes, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """One step of a directory's history: all its changes happened together or not at all."""

    id: int
    at: datetime
    verb: str
    origin: Origin
    changes: tuple[Change, ...] = ()
    undoes: int | None = None
    undone_by: int | None = None
