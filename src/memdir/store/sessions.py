"""Conversation records on disk, the cursor up to which a conversation was learned from, and the queue of ended turns.

Each hook is a new process, so the state of a conversation is a small table, `<state>/sessions/<id>.json`. A lock protects
changes; reads take no lock. A missing or broken record counts as empty: it can be deleted at any time, and at worst a memory
is shown twice. Unknown fields are kept.

Memories in the record's own directory are recorded by name, others by a digest of the name, so a purge need not find the
records of other directories. The prompts given to conversations are next to the records. They contain index lines, so a purge
deletes all of them, and `reset` those of its conversation.

A cursor identifies the last message that was learned from, by id, or by content and position. If that message is missing
because the host compacted the conversation, the recent messages are used.

The queue is a folder of small files, `<state>/queue/`, each on disk before `enqueue` returns. Entries never overwrite each
other, and a worker removes only entries it has read. An entry contains the conversation's id and transcript path, no text. If
a hook was killed or too slow to queue a turn, the turn is in the user's folder `ended/` until a worker queues it.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path

from memdir.errors import MemdirError
from memdir.files import make_private_dirs, raise_disk_errors, write_private
from memdir.frozen import asdict, dataclass, field, list_fields, replace
from memdir.limits import EXTRACT_WINDOW, RULES_PROMPTS, SESSION_BYTES, SESSION_DAYS, SESSION_SECONDS
from memdir.records import Message
from memdir.store import state as files
from memdir.store.state import check_no_link, digest_text, find_link, make_leaf, read_table, write_table

PROMPT = ".prompt"
DAY = "day"  # in a record: the last date given to the conversation
STARTED = "started"  # in a record: memory was on at the start; whether the user or a program writes
QUESTION, SELECTION = "question", "selection"  # prompts: the background question and its selection
RANKING, ACTED = "ranking", "acted"  # prompts: the best memories for the last prompt, and the last action with a memory
CONFIDENTIAL = "confidential"  # in a record: the user asked to keep nothing of the conversation
_INDEXED, _PROMPTS = "indexed", "prompts"
_FOREIGN, _TRIMMED = "foreign", "trimmed"
_OVERRIDE_TIME = timedelta(days=1)  # an unused override expires after this time
_ENTRY_BYTES = 16_384  # of a queue entry: two paths and an id
_ENTRY_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class SurfacedMemory:
    """The version of a memory that was shown in a conversation, and its size there."""

    digest: str
    bytes: int


@dataclass(frozen=True, slots=True)
class TrimmedWrite:
    """A memory as a model wrote it, the quote it is based on, and the digest of the part that was saved."""

    name: str
    text: str
    quote: str
    kept: str


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """The record of a conversation. `surfaced` are the memories shown; its keys and `read` are from `make_key`."""

    surfaced: Mapping[str, SurfacedMemory] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    ignoring: bool = False
    private: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def surfaced_bytes(self) -> int:
        return sum(memory.bytes for memory in self.surfaced.values())

    def has(self, key: str) -> bool:
        return key in self.surfaced or key in self.read


_OWN = set(list_fields(SessionRecord)) - {"extra"}


def is_confidential(record: SessionRecord) -> bool:
    return record.extra.get(CONFIDENTIAL) is True


class SessionFile:
    """The record file of a conversation with any ID. `state` is the state folder of its project's memory.

    Safe to use from several threads and processes at once.
    """

    def __init__(self, state: Path, id: str) -> None:
        self.state = state
        self.id = id
        self.path = state / files.SESSIONS_FOLDER / f"{make_leaf(id)}.json"

    def find_prompt_file(self, key: str) -> Path:
        """Return the file of a prompt shown in this conversation. File names made from an ID never contain `~`."""
        return self.path.with_name(f"{key}~{make_leaf(self.id)}{PROMPT}")

    def read_prompt(self, key: str) -> Mapping[str, object]:
        return self._read_table(self.find_prompt_file(key))

    def write_prompt(self, key: str, table: Mapping[str, object], *, durable: bool = True) -> None:
        """Save a prompt. The caller must hold the folder's lock."""
        path = self.find_prompt_file(key)
        write_table(path.parent, path.name, table, durable=durable)

    def drop_prompt(self, key: str) -> bool:
        """Remove a prompt, and return whether this call removed it: of several processes, only one can."""
        try:
            os.unlink(self.find_prompt_file(key))
        except OSError:
            return False
        return True

    def is_rules_turn(self) -> bool:
        """Count one more message of the conversation, and return whether its standing rules are due again.

        A message is one byte that is appended to a file, because every prompt waits for it. `reset` starts again.
        """
        path = self.find_prompt_file(_PROMPTS)
        try:
            if find_link(path.parent):
                return False
            make_private_dirs(path.parent)
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "ab") as opened:
                opened.write(b".")
                return opened.tell() % RULES_PROMPTS == 0
        except OSError:
            return False

    def read_foreign(self) -> tuple[int, ...]:
        """Return hashes of the untrusted text in the messages processed so far."""
        data = self.read_prompt(_FOREIGN).get("runs")
        try:
            return tuple(int(run, 16) for run in data.split()) if isinstance(data, str) else ()
        except ValueError:
            return ()

    def write_foreign(self, runs: Sequence[int]) -> None:
        if runs:
            self.write_prompt(_FOREIGN, {"runs": " ".join(f"{run:08x}" for run in runs)})

    def read_trimmed(self) -> tuple[TrimmedWrite, ...]:
        """Return the parts that the last run left out of memories."""
        rows = self.read_prompt(_TRIMMED).get("writes")
        rows = [row for row in rows if isinstance(row, list) and len(row) == 4] if isinstance(rows, list) else []
        return tuple(TrimmedWrite(*row) for row in rows if all(isinstance(part, str) for part in row))

    def write_trimmed(self, writes: Sequence[TrimmedWrite]) -> None:
        if writes:
            self.write_prompt(
                _TRIMMED, {"writes": [[write.name, write.text, write.quote, write.kept] for write in writes]}
            )
        else:
            self.drop_prompt(_TRIMMED)

    def read(self) -> SessionRecord:
        return parse_record(self._read_table(self.path))

    def _read_table(self, path: Path) -> Mapping[str, object]:
        return {} if find_link(path.parent) else read_table(path.parent, path.name, SESSION_BYTES)

    def change(
        self, step: Callable[[SessionRecord], SessionRecord], *, seconds: float = SESSION_SECONDS
    ) -> SessionRecord:
        """Apply a function to the current record and return the new record. Raises LockedError or DiskError."""
        with files.hold_sessions(self.path.parent, seconds):
            before = self.read()
            after = step(before)
            if after != before or not os.path.exists(self.path):
                surfaced = {key: asdict(row) for key, row in after.surfaced.items()}
                flags = {"ignoring": after.ignoring, "private": after.private}
                table = {"surfaced": surfaced, "read": sorted(after.read), **flags, **after.extra}
                write_table(self.path.parent, self.path.name, table)
        return after

    def note_read(self, keys: Iterable[str]) -> None:
        new = frozenset(keys)
        if not new <= self.read().read:
            self.change(lambda record: replace(record, read=record.read | new))

    def set_private(self, private: bool = True) -> None:
        """Stop learning from this conversation, or resume if `private` is false."""
        self.change(lambda record: replace(record, private=private))

    def set_ignoring(self, ignoring: bool = True) -> None:
        self.change(lambda record: replace(record, ignoring=ignoring))

    def find_index(self) -> str:
        """Return the digest of the index that was shown in this conversation, or ""."""
        digest = self.read().extra.get(_INDEXED)
        return digest if isinstance(digest, str) else ""

    def note_index(self, text: str) -> None:
        self.change(lambda record: replace(record, extra={**record.extra, _INDEXED: digest_text(text)}))

    def reset(self, *, cleared: bool = False) -> SessionRecord:
        """Record that shown and read memories are no longer in the conversation, and return the previous record.

        A request to ignore memory continues after compaction and ends after clear. Private conversations stay private.
        """
        old: list[SessionRecord] = []

        def step(record: SessionRecord) -> SessionRecord:
            old.append(record)
            # Remove prompts under the lock, so that no other process writes an old prompt back.
            for path in self.path.parent.glob(f"*~{make_leaf(self.id)}{PROMPT}"):
                path.unlink(missing_ok=True)
            extra = {key: value for key, value in record.extra.items() if key != _INDEXED}
            fresh = replace(record, surfaced={}, read=frozenset(), extra=extra)
            return replace(fresh, ignoring=False) if cleared else fresh

        self.change(step)
        return old[0]


def make_key(session: SessionFile, name: str, *, state: Path | None, place: str) -> str:
    """Return the key of a memory in a record: its name if it is in the record's own directory, else a digest."""
    return name if state == session.state else "#" + digest_text(f"{place}\0{name}")


def parse_record(table: Mapping[str, object]) -> SessionRecord:
    """Convert a file's table to a record; fields of the wrong type count as missing."""
    surfaced, read = table.get("surfaced"), table.get("read")
    return SessionRecord(
        surfaced={key: _parse_surfaced(row) for key, row in surfaced.items()} if isinstance(surfaced, dict) else {},
        read=frozenset(key for key in read if isinstance(key, str)) if isinstance(read, list) else frozenset(),
        ignoring=table.get("ignoring") is True,
        private=table.get("private") is True,
        extra={key: value for key, value in table.items() if key not in _OWN},
    )


def read_day(record: SessionRecord) -> date | None:
    """Return the last date that a conversation was told, or None."""
    value = record.extra.get(DAY)
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _parse_surfaced(value: object) -> SurfacedMemory:
    digest, size = (value.get("digest"), value.get("bytes")) if isinstance(value, dict) else (None, None)
    return SurfacedMemory(digest if isinstance(digest, str) else "", size if type(size) is int and size >= 0 else 0)


def prune_sessions(state: Path) -> int:
    """Remove old records, at most once a day, and return how many.

    The current time is the modification time of the lock file that was just written.
    """
    folder = state / files.SESSIONS_FOLDER
    if not folder.is_dir():
        return 0
    count, mark = 0, folder / files.PRUNED
    with files.hold_sessions(folder, SESSION_SECONDS) as lock:
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
    """A position in a conversation, and the parts left out of memories so far, which the next message may confirm."""

    id: str = ""
    digest: str = ""
    position: int = 0
    trimmed: tuple[TrimmedWrite, ...] = ()

    @property
    def key(self) -> str:
        """Return the cursor as one word, to identify a range of messages."""
        return self.id or f"{self.digest}.{self.position}"


@dataclass(frozen=True, slots=True)
class MessageSlice:
    """The messages after a cursor and the number before them. `vanished`: the cursor's message is missing."""

    messages: tuple[Message, ...]
    start: int
    vanished: bool = False


def make_cursor(messages: Sequence[Message], position: int | None = None, *, before: int = 0) -> Cursor | None:
    """Return the cursor for a message, by default the last, or None if there is no such message.

    `before` is the number of messages of the conversation before these.
    """
    number = len(messages) - 1 if position is None else position
    if not 0 <= number < len(messages):
        return None
    message = messages[number]
    return Cursor(message.id, digest_message(message), number + before)


def slice_after(messages: Sequence[Message], cursor: Cursor | None) -> MessageSlice:
    if cursor is None:
        return MessageSlice(tuple(messages), 0)
    position = find_position(messages, cursor)
    if position is None:
        start = max(0, len(messages) - EXTRACT_WINDOW)
        return MessageSlice(tuple(messages[start:]), start, vanished=True)
    return MessageSlice(tuple(messages[position + 1 :]), position + 1)


def find_position(messages: Sequence[Message], cursor: Cursor) -> int | None:
    """Return the index of the cursor's message, matched by ID or by position and text, or None if it is ambiguous.

    A message such as "Done." may occur several times; choosing the last would skip everything before it.
    """
    if cursor.id:
        return next((number for number in range(len(messages) - 1, -1, -1) if messages[number].id == cursor.id), None)
    bare = [number for number, message in enumerate(messages) if not message.id]  # the cursor's message has no id
    if cursor.position in bare and digest_message(messages[cursor.position]) == cursor.digest:
        return cursor.position
    same = [number for number in bare if digest_message(messages[number]) == cursor.digest]
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


def add_override(state: Path, name: str, session: str = "", *, now: datetime) -> None:
    """Allow one action that a rule would refuse or ask about, within a day; `session` limits it to one conversation."""
    with files.hold_sessions(state / files.SESSIONS_FOLDER, SESSION_SECONDS):
        write_table(state, files.OVERRIDES, {**read_table(state, files.OVERRIDES), name: [session, now.isoformat()]})


def take_override(state: Path, name: str, session: str, now: datetime) -> bool:
    """Use up the override of a rule, and return whether there was one. Returns False if that cannot be recorded."""
    if not os.path.isfile(state / files.OVERRIDES):
        return False
    try:
        with files.hold_sessions(state / files.SESSIONS_FOLDER, SESSION_SECONDS):
            table = read_table(state, files.OVERRIDES)
            match table.pop(name, None):
                case [str(only), str(since)] if only in ("", session) and (added_at := files.read_time(since)):
                    write_table(state, files.OVERRIDES, table)
                    return timedelta(0) <= now - added_at < _OVERRIDE_TIME
    except MemdirError:
        pass
    return False


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    session: str
    transcript: str
    headless: bool = False
    path: Path = Path()
    cwd: tuple[str, ...] = ()  # working directories of a turn that is not yet in a project's queue
    host: str = ""


def enqueue(state: Path, entry: QueuedTurn) -> Path:
    """Add a turn to the queue; it survives a power cut once this returns."""
    folder = state / files.QUEUE_FOLDER
    check_no_link(folder)
    leaf = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_ENTRY_SUFFIX}"
    table = {"session": entry.session, "transcript": entry.transcript, "headless": entry.headless}
    write_table(folder, leaf, table)
    return folder / leaf


def read_queue(state: Path) -> tuple[QueuedTurn, ...]:
    """Return the entries, oldest first; files that are not entries are ignored."""
    return _read_entries(state / files.QUEUE_FOLDER)


def read_ended(home: Path) -> tuple[QueuedTurn, ...]:
    """Return the turns of all projects whose hook could not queue them, oldest first, from the user's state folder."""
    return _read_entries(home / files.ENDED_FOLDER)


def has_waiting(state: Path, home: Path) -> bool:
    """Return whether either queue has an entry. Does not read entries, because there may be thousands."""
    return bool(_list_entries(state / files.QUEUE_FOLDER) or _list_entries(home / files.ENDED_FOLDER))


def _read_entries(folder: Path) -> tuple[QueuedTurn, ...]:
    return tuple(entry for leaf in _list_entries(folder) if (entry := _read_entry(folder, leaf)) is not None)


def _list_entries(folder: Path) -> list[str]:
    try:
        leaves = () if find_link(folder) else os.listdir(folder)
    except OSError:
        return []
    return sorted(leaf for leaf in leaves if leaf.endswith(_ENTRY_SUFFIX) and not leaf.startswith("."))


def _read_entry(folder: Path, leaf: str) -> QueuedTurn | None:
    match read_table(folder, leaf, _ENTRY_BYTES):
        case {"session": str(session), "transcript": str(transcript), **rest}:
            cwd, host = rest.get("cwd"), rest.get("host")
            directories = tuple(path for path in cwd if isinstance(path, str)) if isinstance(cwd, list) else ()
            is_headless, name = rest.get("headless") is True, host if isinstance(host, str) else ""
            return QueuedTurn(session, transcript, is_headless, folder / leaf, directories, name)
    return None


def drop_turns(entries: Iterable[QueuedTurn]) -> None:
    for entry in entries:
        with raise_disk_errors(entry.path):
            entry.path.unlink(missing_ok=True)
