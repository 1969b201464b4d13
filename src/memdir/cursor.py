"""How far a conversation has been learned from: its last message, by id, or by content and place where there is none.

Pure. A cursor that points to nothing any more (the host compacted the conversation) is not an error: then the recent
messages count.
"""

import hashlib
from collections.abc import Mapping, Sequence

from memdir.frozen import dataclass
from memdir.limits import EXTRACT_WINDOW
from memdir.records import Message


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last message that was learned from."""

    id: str = ""
    digest: str = ""
    position: int = 0

    @property
    def key(self) -> str:
        """In one word, to name a range of messages by."""
        return self.id or f"{self.digest}.{self.position}"


@dataclass(frozen=True, slots=True)
class Slice:
    """The messages after a cursor, and how many came before them; `vanished` says that the cursor's own was gone."""

    messages: tuple[Message, ...]
    start: int
    vanished: bool = False


def make_cursor(messages: Sequence[Message], position: int | None = None, *, before: int = 0) -> Cursor | None:
    """The cursor that stands on a message, the last one if none is named; None where there is no message.

    `before` is how many messages of the conversation came before these.
    """
    at = len(messages) - 1 if position is None else position
    if not 0 <= at < len(messages):
        return None
    message = messages[at]
    return Cursor(message.id, digest_message(message), at + before)


def slice_after(messages: Sequence[Message], cursor: Cursor | None) -> Slice:
    """What is new since the cursor."""
    if cursor is None:
        return Slice(tuple(messages), 0)
    found = find_position(messages, cursor)
    if found is None:
        start = max(0, len(messages) - EXTRACT_WINDOW)
        return Slice(tuple(messages[start:]), start, vanished=True)
    return Slice(tuple(messages[found + 1 :]), found + 1)


def find_position(messages: Sequence[Message], cursor: Cursor) -> int | None:
    """Where the cursor's message stands now; by id if it has one, else at its place or, moved, where alone it stands.

    "Done." may stand anywhere: to take the last would pass over everything before it.
    """
    if cursor.id:
        return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].id == cursor.id), None)
    bare = [at for at, message in enumerate(messages) if not message.id]  # one with an id would be known by it
    if cursor.position in bare and digest_message(messages[cursor.position]) == cursor.digest:
        return cursor.position
    same = [at for at in bare if digest_message(messages[at]) == cursor.digest]
    return same[0] if len(same) == 1 else None


def parse_cursor(value: object) -> Cursor | None:
    """A cursor from whatever a record held."""
    if not isinstance(value, dict):
        return None
    id, digest, position = value.get("id"), value.get("digest"), value.get("position")
    if not isinstance(id, str) or not isinstance(digest, str) or type(position) is not int or position < 0:
        return None
    return Cursor(id, digest, position)


def render_cursor(cursor: Cursor) -> Mapping[str, object]:
    return {"id": cursor.id, "digest": cursor.digest, "position": cursor.position}


def digest_message(message: Message) -> str:
    text = f"{message.role}\0{message.text}\0{message.answers}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]
