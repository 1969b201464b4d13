"""The conversation on disk, in the form Claude Code keeps its own: `memdir extract`, `notes` and resuming read it.

Every message is written before anything is done with it. The id of a message is the one of its record, so the cursor of
extraction holds when the conversation is resumed. Where it was cleared or compacted stands a boundary; resuming begins
behind the last one.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memdir import __version__
from memdir.errors import MemdirError, NotFoundError
from memdir.frozen import dataclass, replace
from memdir.kept_chats import append_record, find_path, list_chats
from memdir.query import strip_host_text
from memdir.records import Message
from memdir.text import one_line, shorten
from memdir.transcripts import describe, read_messages, read_tail

_TITLE = 60
_INPUTS = 200  # messages that the arrow keys bring back
_BROKEN_OFF = "The conversation was broken off before this was done."


@dataclass(frozen=True, slots=True)
class Kept:
    """An earlier conversation: its id, when it was last spoken in, and how it began."""

    id: str
    at: datetime
    title: str


class Transcript:
    """Of one conversation; `clock` gives the times, and nothing is written before the first message.

    What cannot be written costs no answer: `on_lost` hears of it once. Without `keeps` nothing is written at all.
    """

    def __init__(
        self,
        state: Path,
        id: str,
        *,
        cwd: Path,
        clock: Callable[[], datetime],
        keeps: bool = True,
        on_lost: Callable[[MemdirError], None],
    ) -> None:
        self.path = find_path(state, id)
        self._id, self._cwd, self._clock = id, str(cwd), clock
        self._keeps, self._on_lost, self._is_lost = keeps, on_lost, False
        self._last: str | None = None

    def add(self, message: Message) -> Message:
        """Write a message down; answers it with its id and time."""
        at = message.at or self._clock()
        named = replace(message, id=str(uuid.uuid4()), at=at)
        kind = "assistant" if message.role == "assistant" else "user"
        facts: dict[str, object] = {"isMeta": True} if message.is_meta else {}
        self._append(kind, named.id, at, message=_render(named), **facts)
        return named

    def begin_anew(self, text: str) -> Message:
        """From here on it is another conversation, or a shortened one, and this is how it begins."""
        before, self._last, at = self._last, None, self._clock()
        self._append("system", str(uuid.uuid4()), at, subtype="compact_boundary", logicalParentUuid=before, content="")
        first = Message("user", text, str(uuid.uuid4()), at, is_meta=True)
        self._append("user", first.id, at, message=_render(first), isCompactSummary=True)
        return first

    def resume(self) -> tuple[Message, ...]:
        """What was said since the last boundary, fit to be gone on with."""
        found = tuple(read_messages(self.path, since_compaction=True))
        self._last = found[-1].id if found else None
        return tuple(mend(found))

    def _append(self, kind: str, id: str, at: datetime, **facts: object) -> None:
        place = {"sessionId": self._id, "cwd": self._cwd, "version": f"memdir {__version__}", "isSidechain": False}
        time = at.astimezone(UTC).isoformat(timespec="milliseconds")
        record = {"type": kind, "uuid": id, "parentUuid": self._last, "timestamp": time, **place, **facts}
        if not self._keeps:
            return
        try:
            append_record(self.path, record)
        except MemdirError as error:
            if not self._is_lost:
                self._is_lost = True
                self._on_lost(error)
            return
        self._last = id


def mend(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages with an answer for every call: a process that was killed may have left some without."""
    answered = {message.answers for message in messages if message.answers}
    for message in messages:
        yield message
        for call in message.calls:
            if call.id not in answered:
                yield Message("tool", _BROKEN_OFF, answers=call.id, failed=True)


def list_kept(state: Path, limit: int) -> tuple[Kept, ...]:
    """The conversations that can be resumed, newest first."""
    found = []
    for path in list_chats(state)[:limit]:
        try:
            info = describe(path)
            typed = (message for message in read_messages(path) if message.role == "user" and not message.is_meta)
            first = next(typed, None)
        except MemdirError:
            continue
        title = shorten(one_line(strip_host_text(first.text)), _TITLE) if first else ""
        found.append(Kept(info.session, info.ended or info.modified, title))
    return tuple(found)


def find_kept(state: Path, id: str) -> str:
    """The id of the conversation that is meant: the newest, or the one that begins so; raises NotFoundError."""
    kept = list_kept(state, 1 if not id else 1_000)
    fits = [at.id for at in kept if at.id.startswith(id)]
    if not fits or (len(fits) > 1 and id and id not in fits):
        problem = f"{len(fits)} conversations begin with {id}" if fits else f"there is no conversation {id}".strip()
        raise NotFoundError(problem, name=id, hint="`memdir chat --resume` lists those that can be resumed")
    return id if id in fits else fits[0]


def list_inputs(state: Path) -> list[str]:
    """What was typed in the newest conversation, for the arrow keys; nothing if that cannot be read."""
    for path in list_chats(state)[:1]:
        try:
            said = [at.text for at in read_tail(path, 2 * _INPUTS) if at.role == "user" and not at.is_meta]
        except MemdirError:
            return []
        return [text for text in said if "\n" not in text]
    return []


def _render(message: Message) -> dict[str, object]:
    """As the Messages API would have it."""
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.answers, "content": message.text}
        return {"role": "user", "content": [result | ({"is_error": True} if message.failed else {})]}
    if message.role != "assistant":
        return {"role": "user", "content": message.text}
    blocks: list[dict[str, object]] = [{"type": "text", "text": message.text}] if message.text else []
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.input)} for call in message.calls
    ]
    return {"id": f"msg_{message.id}", "type": "message", "role": "assistant", "model": "memdir", "content": blocks}
