"""What a run of extraction is told and what it tells: where its messages come from, what it came to and why. Pure."""

from collections.abc import Mapping
from pathlib import Path

from memdir.cursor import Cursor
from memdir.extract_gates import ExtractSkip
from memdir.fork import Ran
from memdir.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a run's messages come from: its id, the project and home it was held in, the host's own last request."""

    session: str = ""
    project: Path | None = None
    home: str = ""
    parent: Mapping[str, object] | None = None


NOWHERE = Conversation()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a memory was written, changed, forgotten or set aside."""

    name: str
    action: str
    why: str
    quote: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a run came to. Without a `cursor` the next run begins where this one did."""

    written: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    skipped: ExtractSkip | None = None
    cursor: Cursor | None = None
    by: str = ""
    messages: int = 0
    act: int | None = None
    ran: Ran | None = None
    error: str = ""
    reasons: tuple[Reason, ...] = ()

    @property
    def notice(self) -> str:
        """One line for the person; empty if there is nothing to tell."""
        parts = []
        if self.written:
            parts.append(f"[Memory saved: {', '.join(f'{name}.md' for name in self.written)}]")
        if self.forgotten:
            parts.append(f"[Memory forgotten: {', '.join(f'{name}.md' for name in self.forgotten)}]")
        if self.waiting:
            parts.append(f"[{len(self.waiting)} waiting for you: `memdir inbox`]")
        return " ".join(parts)
