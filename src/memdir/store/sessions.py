"""A conversation's record on disk, opened by id, how far it has been learned from, and the queue of ended turns.

Each hook is a new process, so the state of a conversation is a small table, `<state>/sessions/<id>.json`. A change is made
under a lock on what the file contains at that moment; reads take no lock. A missing or broken record counts as empty: it can
be deleted at any time, and the worst that follows is a memory shown twice. Unknown fields are kept as they are.

Memories of the record's own directory are recorded by name, those of others by a digest of the name: so a purge never has to
look for records it cannot know of. Beside the records are the prompts that conversations were given. They contain index
lines, so any purge drops them all, and `reset` those of its conversation.

A cursor marks the last message that was learned from, by id, or by content and position. If its message is gone (the host
compacted the conversation), the recent messages count.

The queue is a folder of small files, `<state>/queue/`, each on the disk before `enqueue` returns: one entry never
overwrites another, and a worker removes exactly the entries it has seen. An entry names the conversation and its
transcript; nothing that anybody said is kept in it. Turns whose hook was killed or late before it could queue them are
in a folder of the person's, `ended/`, until a worker queues them.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

from memdir.files import disk_error, write_private
from memdir.frozen import dataclass, field, list_fields, replace
from memdir.limits import EXTRACT_WINDOW, SESSION_BYTES, SESSION_DAYS, SESSION_SECONDS
from memdir.records import Message
from memdir.store import state as files
from memdir.store.state import check_no_link, digest_text, find_link, make_leaf, read_table, write_table

PROMPT = ".prompt"
DAY = "day"  # in a record: the last day that the conversation was given
STARTED = "started"  # in a record: memory was on when the conversation began; whether a person or a program talks
QUESTION, SELECTION = "question", "selection"  # prompts: what was asked beside the turn, and what was selected for it
_INDEXED = "indexed"
_FOREIGN, _TRIMMED = "foreign", "trimmed"
_ENTRY_BYTES = 16_384  # of the queue: two paths and an id
_ENTRY_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class SurfacedMemory:
    digest: str
    bytes: int


@dataclass(frozen=True, slots=True)
class TrimmedWrite:
    """A memory as a model wrote it, the words it rests on, and the digest of what was kept of it."""

    name: str
    text: str
    quote: str
    kept: str


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """All that is kept of a conversation; the keys of `surfaced` and `read` are those of `make_key`."""

    surfaced: Mapping[str, SurfacedMemory] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    ignoring: bool = False
    private: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def surfaced_bytes(self) -> int:
        return sum(seen.bytes for seen in self.surfaced.values())

    def has(self, key: str) -> bool:
        return key in self.surfaced or key in self.read


_OWN = set(list_fields(SessionRecord)) - {"extra"}


def open_session(state: Path, id: str) -> "SessionFile":
    """The conversation with that id, any string; `state` is the state folder of its project's memory."""
    return SessionFile(state, id)


class SessionFile:
    """One conversation's record. Safe to use from several threads and processes at once."""

    def __init__(self, state: Path, id: str) -> None:
        self.state = state
        self.id = id
        self.path = state / files.SESSIONS_FOLDER / f"{make_leaf(id)}.json"

    def find_prompt_file(self, key: str) -> Path:
        """Where a prompt that this conversation was given is kept; no id's file name contains `~`."""
        return self.path.with_name(f"{key}~{make_leaf(self.id)}{PROMPT}")

    def read_prompt(self, key: str) -> Mapping[str, object]:
        return self._read_table(self.find_prompt_file(key))

    def write_prompt(self, key: str, table: Mapping[str, object]) -> None:
        """Keep a prompt, under the lock of the folder."""
        path = self.find_prompt_file(key)
        write_table(path.parent, path.name, table)

    def drop_prompt(self, key: str) -> bool:
        """Remove a prompt; of several processes one gets True."""
        try:
            os.unlink(self.find_prompt_file(key))
        except OSError:
            return False
        return True

    def read_foreign(self) -> tuple[int, ...]:
        """The runs of foreign text in what was learned from so far."""
        data = self.read_prompt(_FOREIGN).get("runs")
        try:
            return tuple(int(run, 16) for run in data.split()) if isinstance(data, str) else ()
        except ValueError:
            return ()

    def write_foreign(self, runs: Sequence[int]) -> None:
        if runs:
            self.write_prompt(_FOREIGN, {"runs": " ".join(f"{run:08x}" for run in runs)})

    def read_trimmed(self) -> tuple[TrimmedWrite, ...]:
        """What the last run left out of memories."""
        rows = self.read_prompt(_TRIMMED).get("writes")
        rows = [row for row in rows if isinstance(row, list) and len(row) == 4] if isinstance(rows, list) else []
        return tuple(TrimmedWrite(*row) for row in rows if all(isinstance(at, str) for at in row))

    def write_trimmed(self, writes: Sequence[TrimmedWrite]) -> None:
        if writes:
            self.write_prompt(_TRIMMED, {"writes": [[at.name, at.text, at.quote, at.kept] for at in writes]})
        else:
            self.drop_prompt(_TRIMMED)

    def read(self) -> SessionRecord:
        return parse_record(self._read_table(self.path))

    def _read_table(self, path: Path) -> Mapping[str, object]:
        return {} if find_link(path.parent) else read_table(path.parent, path.name, SESSION_BYTES)

    def change(
        self, step: Callable[[SessionRecord], SessionRecord], *, seconds: float = SESSION_SECONDS
    ) -> SessionRecord:
        """Apply a step to the record as it is now and return the result; raises LockedError or DiskError."""
        with files.hold_sessions(self.path.parent, seconds):
            before = self.read()
            after = step(before)
            if after != before or not os.path.exists(self.path):
                write_table(self.path.parent, self.path.name, render_record(after))
        return after

    def note_read(self, keys: Iterable[str]) -> None:
        new = frozenset(keys)
        if not new <= self.read().read:
            self.change(lambda at: replace(at, read=at.read | new))

    def set_private(self, private: bool = True) -> None:
        """From now on nothing is remembered from this conversation, or again."""
        self.change(lambda at: replace(at, private=private))

    def set_ignoring(self, ignoring: bool = True) -> None:
        """The person asked that memory be ignored in this conversation, or took that back."""
        self.change(lambda at: replace(at, ignoring=ignoring))

    def find_index(self) -> str:
        """The digest of the index that this conversation was given; empty if it has none."""
        found = self.read().extra.get(_INDEXED)
        return found if isinstance(found, str) else ""

    def note_index(self, text: str) -> None:
        self.change(lambda at: replace(at, extra={**at.extra, _INDEXED: digest_text(text)}))

    def reset(self, *, cleared: bool = False) -> SessionRecord:
        """What was surfaced or read is no longer in the conversation; returns the record as it was before.

        After compaction the conversation goes on, and a request to ignore memory with it; after clear a new one begins.
        Private stays private both times.
        """
        old: list[SessionRecord] = []

        def step(record: SessionRecord) -> SessionRecord:
            old.append(record)
            # Under the lock, so that nobody who is making a prompt at this moment puts the old one back.
            for path in self.path.parent.glob(f"*~{make_leaf(self.id)}{PROMPT}"):
                path.unlink(missing_ok=True)
            extra = {key: value for key, value in record.extra.items() if key != _INDEXED}
            fresh = replace(record, surfaced={}, read=frozenset(), extra=extra)
            return replace(fresh, ignoring=False) if cleared else fresh

        self.change(step)
        return old[0]


def make_key(session: SessionFile, name: str, *, state: Path | None, place: str) -> str:
    """How a conversation's record names a memory: by its name in the record's own directory, else by a digest."""
    return name if state == session.state else "#" + digest_text(f"{place}\0{name}")


def parse_record(table: Mapping[str, object]) -> SessionRecord:
    """A record from whatever the file contained; a field of the wrong shape counts as absent."""
    surfaced, read = table.get("surfaced"), table.get("read")
    return SessionRecord(
        surfaced={key: _parse_surfaced(at) for key, at in surfaced.items()} if isinstance(surfaced, dict) else {},
        read=frozenset(at for at in read if isinstance(at, str)) if isinstance(read, list) else frozenset(),
        ignoring=table.get("ignoring") is True,
        private=table.get("private") is True,
        extra={key: value for key, value in table.items() if key not in _OWN},
    )


def read_day(record: SessionRecord) -> date | None:
    """The last day that a conversation was given; None if it was given none."""
    value = record.extra.get(DAY)
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def render_record(record: SessionRecord) -> dict[str, object]:
    return {
        "surfaced": {key: {"digest": at.digest, "bytes": at.bytes} for key, at in record.surfaced.items()},
        "read": sorted(record.read),
        "ignoring": record.ignoring,
        "private": record.private,
        **record.extra,
    }


def _parse_surfaced(value: object) -> SurfacedMemory:
    digest, size = (value.get("digest"), value.get("bytes")) if isinstance(value, dict) else (None, None)
    return SurfacedMemory(digest if isinstance(digest, str) else "", size if type(size) is int and size >= 0 else 0)


def prune_sessions(state: Path, *, seconds: float = SESSION_SECONDS) -> int:
    """Remove records that nobody has touched for long; returns how many. Looks at them once a day: there may be many.

    It goes by the file system's clock, which the lock that was just written tells.
    """
    folder = state / files.SESSIONS_FOLDER
    if not folder.is_dir():
        return 0
    count, mark = 0, folder / files.PRUNED
    with files.hold_sessions(folder, seconds) as lock:
        now = os.fstat(lock).st_mtime
        if mark.exists() and 0 <= now - mark.stat().st_mtime < 86_400:
            return 0
        write_private(mark, b"")
        for entry in files.list_session_files(folder):
            with suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mtime < now - SESSION_DAYS * 86_400:
                    os.unlink(entry.path)
                    count += 1
    return count


@dataclass(frozen=True, slots=True)
class Cursor:
    """A message of a conversation, and what was left out of memories up to it: the next message may say it."""

    id: str = ""
    digest: str = ""
    position: int = 0
    trimmed: tuple[TrimmedWrite, ...] = ()

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
    """The cursor that stands on a message, the last one if none is named; None where there is no message. `before`
    is how many messages of the conversation came before these."""
    at = len(messages) - 1 if position is None else position
    if not 0 <= at < len(messages):
        return None
    message = messages[at]
    return Cursor(message.id, digest_message(message), at + before)


def slice_after(messages: Sequence[Message], cursor: Cursor | None) -> MessageSlice:
    if cursor is None:
        return MessageSlice(tuple(messages), 0)
    found = find_position(messages, cursor)
    if found is None:
        start = max(0, len(messages) - EXTRACT_WINDOW)
        return MessageSlice(tuple(messages[start:]), start, vanished=True)
    return MessageSlice(tuple(messages[found + 1 :]), found + 1)


def find_position(messages: Sequence[Message], cursor: Cursor) -> int | None:
    """The position of the cursor's message now: by id if it has one, else its old position or, moved, the only
    equal one. "Done." may occur anywhere: to choose the last would skip everything before it."""
    if cursor.id:
        return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].id == cursor.id), None)
    bare = [at for at, message in enumerate(messages) if not message.id]  # one with an id would be known by it
    if cursor.position in bare and digest_message(messages[cursor.position]) == cursor.digest:
        return cursor.position
    same = [at for at in bare if digest_message(messages[at]) == cursor.digest]
    return same[0] if len(same) == 1 else None


def parse_cursor(value: object) -> Cursor | None:
    if not isinstance(value, dict):
        return None
    id, digest, position = value.get("id"), value.get("digest"), value.get("position")
    if not isinstance(id, str) or not isinstance(digest, str) or type(position) is not int or position < 0:
        return None
    return Cursor(id, digest, position)


def render_cursor(cursor: Cursor) -> Mapping[str, object]:
    return {"id": cursor.id, "digest": cursor.digest, "position": cursor.position}


def digest_message(message: Message) -> str:
    return digest_text(f"{message.role}\0{message.text}\0{message.answers}")


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    session: str
    transcript: str
    headless: bool = False
    path: Path = Path()
    cwd: tuple[str, ...] = ()  # of a turn that is not yet in a project's queue: where its conversation was held
    host: str = ""


def enqueue(state: Path, entry: QueuedTurn) -> Path:
    """Put a turn into the queue; when this returns it survives a power cut."""
    folder = state / files.QUEUE_FOLDER
    check_no_link(folder)
    leaf = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_ENTRY_SUFFIX}"
    table = {"session": entry.session, "transcript": entry.transcript, "headless": entry.headless}
    write_table(folder, leaf, table)
    return folder / leaf


def read_queue(state: Path) -> tuple[QueuedTurn, ...]:
    """The entries, oldest first; a file that is no entry is left in place and not listed."""
    return _read_entries(state / files.QUEUE_FOLDER)


def read_ended(home: Path) -> tuple[QueuedTurn, ...]:
    """Turns whose hook could not queue them, of all projects, oldest first; `home` is the person's state folder."""
    return _read_entries(home / files.ENDED_FOLDER)


def has_waiting(state: Path, home: Path) -> bool:
    """Whether either of these has an entry; none is read, since there may be thousands."""
    return bool(_list_entries(state / files.QUEUE_FOLDER) or _list_entries(home / files.ENDED_FOLDER))


def _read_entries(folder: Path) -> tuple[QueuedTurn, ...]:
    return tuple(entry for leaf in _list_entries(folder) if (entry := _read_entry(folder, leaf)) is not None)


def _list_entries(folder: Path) -> list[str]:
    try:
        leaves = () if find_link(folder) else os.listdir(folder)
    except OSError:
        return []
    return sorted(at for at in leaves if at.endswith(_ENTRY_SUFFIX) and not at.startswith("."))


def _read_entry(folder: Path, leaf: str) -> QueuedTurn | None:
    match read_table(folder, leaf, _ENTRY_BYTES):
        case {"session": str(session), "transcript": str(transcript), **rest}:
            cwd, host = rest.get("cwd"), rest.get("host")
            places = tuple(at for at in cwd if isinstance(at, str)) if isinstance(cwd, list) else ()
            is_headless, name = rest.get("headless") is True, host if isinstance(host, str) else ""
            return QueuedTurn(session, transcript, is_headless, folder / leaf, places, name)
    return None


def drop_turns(entries: Iterable[QueuedTurn]) -> None:
    for entry in entries:
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(error, entry.path) from error
