"""The conversation's record on disk, opened by id: what it was given, what it read, and what the person asked of it.

Each hook is a new process, so the state of a conversation is a small JSON file, `<state>/sessions/<id>.json`. A change
is made under a lock on what the file says at that moment, so several processes lose nothing of each other's. Reads take
no lock. A record that is missing or broken counts as empty: it can be deleted at any time, and the worst that follows
is a memory told twice. Fields this room does not know are kept as they are.

Memories of the directory the record lies in stand in it by name; those of other directories by a digest of the name.
So purging a memory never has to look for records it cannot know of.

Beside the records lie the prompts that conversations were given (prompt_cache). They hold index lines, so any purge
drops them all, and `reset` those of its own conversation.

What it does not do: decide what may be surfaced (recall), or keep anything a person said.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from memdir.errors import PathError
from memdir.files import disk_error, hold, make_private_dirs, read_small, write_private
from memdir.frozen import dataclass, field, list_fields, replace
from memdir.limits import EXTRACT_WINDOW, SESSION_BYTES, SESSION_DAYS, SESSION_SECONDS
from memdir.records import Message

# --- session ---

FOLDER = "sessions"
PROMPT = ".prompt"
_LOCK = "lock"
_PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")


@dataclass(frozen=True, slots=True)
class SurfacedMemory:
    """A memory as it was given to the conversation."""

    digest: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """All that is kept of a conversation; `surfaced` and `read` go by the keys of `make_key`."""

    surfaced: Mapping[str, SurfacedMemory] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    ignoring: bool = False
    private: bool = False
    turns: int = 0
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def surfaced_bytes(self) -> int:
        return sum(seen.bytes for seen in self.surfaced.values())

    def has(self, key: str) -> bool:
        return key in self.surfaced or key in self.read


_OWN = set(list_fields(SessionRecord)) - {"extra"}
_INDEXED = "indexed"


def open_session(state: Path, id: str) -> "SessionFile":
    """The conversation with that id, any string; `state` is the state folder of its project's memory."""
    return SessionFile(state, id)


class SessionFile:
    """One conversation's record. Safe to use from several threads and processes at once."""

    def __init__(self, state: Path, id: str) -> None:
        self.state = state
        self.id = id
        self.path = state / FOLDER / f"{make_leaf(id)}.json"

    def find_prompt_file(self, key: str) -> Path:
        """Where a prompt that this conversation was given is kept; `~` stands in no id's file name."""
        return self.path.with_name(f"{key}~{make_leaf(self.id)}{PROMPT}")

    def read(self) -> SessionRecord:
        return SessionRecord() if find_link(self.path.parent) else parse_record(read_json(self.path))

    def change(
        self, step: Callable[[SessionRecord], SessionRecord], *, seconds: float = SESSION_SECONDS
    ) -> SessionRecord:
        """Apply a step to the record as it is now and answer what came of it; raises LockedError or DiskError."""
        with holding(self.path.parent, seconds):
            is_new = not self.path.exists()
            before = self.read()
            after = step(before)
            if is_new or after != before:
                write_private(self.path, render_record_json(render_record(after)))
            if is_new:
                prune(self.path)
        return after

    def note_read(self, keys: Iterable[str]) -> None:
        """The agent has read these files itself."""
        new = frozenset(keys)
        if not new <= self.read().read:
            self.change(lambda at: replace(at, read=at.read | new))

    def count_turn(self) -> int:
        return self.change(lambda at: replace(at, turns=at.turns + 1)).turns

    def set_private(self, private: bool = True) -> None:
        """From now on nothing is remembered from this conversation, or again."""
        self.change(lambda at: replace(at, private=private))

    def set_ignoring(self, ignoring: bool = True) -> None:
        """The person asked that memory be left alone in this conversation, or took that back."""
        self.change(lambda at: replace(at, ignoring=ignoring))

    def find_index(self) -> str:
        """The digest of the index that this conversation was given; empty if it has none."""
        found = self.read().extra.get(_INDEXED)
        return found if isinstance(found, str) else ""

    def note_index(self, text: str) -> None:
        """It has been given this index."""
        self.change(lambda at: replace(at, extra={**at.extra, _INDEXED: digest(text)}))

    def reset(self, *, cleared: bool = False) -> SessionRecord:
        """What was surfaced or read is no longer in the conversation; answers the record as it was before.

        After compaction the conversation goes on, and a wish to ignore memory with it; after clear a new one begins.
        Private stays private both times.
        """
        old: list[SessionRecord] = []

        def step(record: SessionRecord) -> SessionRecord:
            old.append(record)
            # Under the lock, so that nobody who is just now making a prompt puts the old one back.
            for path in self.path.parent.glob(f"*~{make_leaf(self.id)}{PROMPT}"):
                path.unlink(missing_ok=True)
            extra = {key: value for key, value in record.extra.items() if key != _INDEXED}
            fresh = replace(record, surfaced={}, read=frozenset(), extra=extra)
            return replace(fresh, ignoring=False, turns=0) if cleared else fresh

        self.change(step)
        return old[0]


def make_key(session: SessionFile, name: str, *, state: Path | None, place: str) -> str:
    """How a conversation's record spells a memory: its name in the record's own directory, a digest for any other."""
    if state == session.state:
        return name
    return "#" + digest(f"{place}\0{name}")


def make_leaf(id: str) -> str:
    """An id as a file name: a plain one stays as it is, another gets a digest after a dot, which no plain one has."""
    if _PLAIN_ID.fullmatch(id):
        return id
    clean = re.sub(r"[^a-z0-9_-]+", "-", id[:200].lower()).strip("-_")[:40]
    return f"{clean or 'session'}.{digest(id)}"


def drop_name(state: Path, name: str, *, seconds: float) -> int:
    """Take a memory's name out of every record of a state folder, for purge; answers how many records held it.

    It goes by shape, not by field, so that fields other rooms add are covered: a key of a table, an item of a list.
    """
    folder = state / FOLDER
    if not folder.is_dir() or find_link(folder):
        return 0
    count = 0
    with holding(folder, seconds):
        for path in _list(folder):
            if not path.name.endswith(".json"):
                path.unlink(missing_ok=True)  # a prompt, or what a killed writer left
                continue
            before = read_json(path)
            after = {key: _without(value, name) for key, value in before.items()}
            if not before:
                path.unlink(missing_ok=True)  # nobody can tell what a broken one holds
            elif after != before:
                write_private(path, render_record_json(after))
                count += 1
    return count


def parse_record(table: Mapping[str, object]) -> SessionRecord:
    """A record from whatever the file held; a field of the wrong shape counts as not there."""
    surfaced, read, turns = table.get("surfaced"), table.get("read"), table.get("turns")
    return SessionRecord(
        surfaced=dict(_parse_surfaced(surfaced)) if isinstance(surfaced, dict) else {},
        read=frozenset(at for at in read if isinstance(at, str)) if isinstance(read, list) else frozenset(),
        ignoring=table.get("ignoring") is True,
        private=table.get("private") is True,
        turns=turns if type(turns) is int and turns >= 0 else 0,
        extra={key: value for key, value in table.items() if key not in _OWN},
    )


def render_record(record: SessionRecord) -> dict[str, object]:
    return {
        "surfaced": {key: {"digest": at.digest, "bytes": at.bytes} for key, at in record.surfaced.items()},
        "read": sorted(record.read),
        "ignoring": record.ignoring,
        "private": record.private,
        "turns": record.turns,
        **record.extra,
    }


def _parse_surfaced(table: Mapping[str, object]) -> Iterator[tuple[str, SurfacedMemory]]:
    for key, value in table.items():
        digest, size = (value.get("digest"), value.get("bytes")) if isinstance(value, dict) else (None, None)
        yield (
            key,
            SurfacedMemory(digest if isinstance(digest, str) else "", size if type(size) is int and size >= 0 else 0),
        )


def read_json(path: Path) -> dict[str, object]:
    data = read_small(path, SESSION_BYTES, follow=False).data
    try:
        table = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def render_record_json(table: Mapping[str, object]) -> bytes:
    return json.dumps(table, indent=1).encode("ascii") + b"\n"


@contextmanager
def holding(folder: Path, seconds: float) -> Iterator[None]:
    """One process at a time for all records of a folder: a change takes a millisecond."""
    if link := find_link(folder):
        raise PathError(str(link), "it is a symbolic link")
    try:
        make_private_dirs(folder)
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            with hold(handle, _LOCK, seconds=seconds):
                yield
        finally:
            os.close(handle)
    except OSError as error:
        raise disk_error(error, folder) from error


def find_link(folder: Path) -> Path | None:
    """Our own folders are never links: one would lead what we write to somebody else's files."""
    return next((path for path in (folder.parent, folder) if path.is_symlink()), None)


def prune(newest: Path) -> None:
    """Remove what nobody has touched for long, by the file system's own clock: the record just written is its now."""
    oldest = newest.stat().st_mtime - SESSION_DAYS * 86_400
    for path in _list(newest.parent):
        try:
            if path.lstat().st_mtime < oldest:
                path.unlink()
        except FileNotFoundError:
            continue


def _list(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(Path(at.path) for at in entries if at.name != _LOCK and not at.is_dir(follow_symlinks=False))


def _without(value: object, name: str) -> object:
    if isinstance(value, dict):
        return {key: at for key, at in value.items() if key != name}
    return [at for at in value if at != name] if isinstance(value, list) else value


def digest(text: str) -> str:
    # Imported here: most conversations have plain ids and no memory of other directories; OpenSSL takes milliseconds.
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


# --- cursor ---
# How far a conversation has been learned from: its last message, by id, or by content and place where there is none.
#
# Pure. A cursor that points to nothing any more (the host compacted the conversation) is not an error: then the recent
# messages count.


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
class MessageSlice:
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


def slice_after(messages: Sequence[Message], cursor: Cursor | None) -> MessageSlice:
    """What is new since the cursor."""
    if cursor is None:
        return MessageSlice(tuple(messages), 0)
    found = find_position(messages, cursor)
    if found is None:
        start = max(0, len(messages) - EXTRACT_WINDOW)
        return MessageSlice(tuple(messages[start:]), start, vanished=True)
    return MessageSlice(tuple(messages[found + 1 :]), found + 1)


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
    return digest(f"{message.role}\0{message.text}\0{message.answers}")
