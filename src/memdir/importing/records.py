"""What passes between the readers of other tools' memories and the plan: files, candidates, what becomes of them."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.records import InboxItem


class Format(StrEnum):
    """Whose memories these are."""

    CLAUDE_CODE = "claude-code"
    MEMDIR = "memdir"
    AGENTS_MD = "agents-md"
    GEMINI_MD = "gemini-md"
    CODEX = "codex"
    MCP_MEMORY = "mcp-memory"
    MEM0 = "mem0"
    CHATGPT = "chatgpt"


@dataclass(frozen=True, slots=True)
class File:
    """One file of a source: its path below the source's root, its bytes, and when they were written."""

    path: str
    data: bytes
    modified: datetime | None = None

    @property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class Pile:
    """The files of a source, and by path why some were not read. `where` is what the person named."""

    where: str
    files: tuple[File, ...]
    refused: tuple[tuple[str, str], ...] = ()
    is_folder: bool = False

    def find(self, path: str) -> File | None:
        return next((file for file in self.files if file.path == path), None)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that another tool remembers, as a whole file in the flat dialect, and where it stood.

    `is_whole` marks a file of a memory directory: its bytes are kept. `name` is wanted, not promised; empty, the title
    makes one. With a `refusal` there is no text, and `said` shows what it was about.
    """

    source: str
    text: str = ""
    name: str = ""
    hook: str = ""
    said: str = ""
    modified: datetime | None = None
    is_whole: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader found: candidates in their own order, and the index they were listed in, if there was one."""

    format: Format
    candidates: tuple[Candidate, ...]
    index: str = ""


class Fate(StrEnum):
    """What becomes of a candidate."""

    NEW = "new"
    SAME = "same"
    MERGED = "merged"
    BEFORE = "before"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Step:
    """One candidate and what becomes of it: `name` is the memory it is or goes into, `why` says it in words."""

    candidate: Candidate
    fate: Fate
    name: str = ""
    why: str = ""
    text: str = ""
    item: InboxItem | None = None


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do to one store. `merges` are texts for memories that exist, each with what it was."""

    found: Found
    steps: tuple[Step, ...]
    merges: Sequence[tuple[str, str, str]] = ()

    def count(self, fate: Fate) -> int:
        return sum(step.fate is fate for step in self.steps)


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to: the act, or None if nothing was to do; who lost to somebody quicker; what waits now."""

    act: int | None
    dropped: tuple[str, ...] = ()
    waiting: tuple[InboxItem, ...] = ()
