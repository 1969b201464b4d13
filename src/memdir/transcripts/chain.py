"""Which lines of a Claude Code transcript are the conversation as it stands, found by reading the file backwards.

A transcript is a tree: each record names its parent, and a rewind leaves a branch behind. The conversation is the way
from the last leaf back to the root. Parents stand before their children, so one pass from the end finds it with no
table of the file in memory, and ends at the cursor: what was added since a turn costs only itself.

    two calls at once      their results hang side by side on the calls, off the way; they are taken with their call
    split messages         records of one API message that hang off the way are taken with it
    compaction             the boundary has no parent; its logical parent is followed, because all that was said counts
    a parent that is gone  the line was damaged: the way goes on at the record before, once it is sure that it is gone

What it does not do: read what the records say (claude), or follow a subagent.
"""

import re
from array import array
from collections.abc import Iterator
from typing import BinaryIO

from memdir.frozen import dataclass
from memdir.transcripts.blocks import list_blocks, read_text
from memdir.transcripts.lines import Json, Line, make_place, parse_records, read_lines_back

CHAINED = frozenset(("user", "assistant", "system", "attachment", "progress"))
_PENDING = 20_000  # results whose call was not met yet; more than that are those of a branch left behind
_GROUPS = 64  # messages whose records may still come
_LONG_PARENT = re.compile(rb'"parentUuid"\s*:\s*(?:"([^"\\]{1,100})"|null)')
_LONG_UUID = re.compile(rb'"uuid"\s*:\s*"([^"\\]{1,100})"')
_LONG_SIDE = re.compile(rb'"isSidechain"\s*:\s*true')


@dataclass(frozen=True, slots=True)
class Entry:
    """What a record says of its place. `group` is the id of the API message it is a part of, `is_lost` that the record
    itself cannot be read."""

    uuid: str
    parent: str
    kind: str
    group: str = ""
    logical: str = ""
    is_side: bool = False
    is_meta: bool = False
    is_result: bool = False
    is_queued: bool = False
    is_boundary: bool = False
    is_lost: bool = False

    @property
    def may_be_leaf(self) -> bool:
        return (self.kind in ("user", "assistant") and not self.is_meta) or self.is_queued

    @property
    def may_say(self) -> bool:
        """Whether a message may come of it."""
        return not self.is_lost and self.kind != "progress"


@dataclass(frozen=True, slots=True)
class Way:
    """Where the conversation's records lie (see `make_place`), first to last; `found` says that the cursor was met."""

    places: list[int]
    found: bool = False


def find_way(
    file: BinaryIO, *, after: str = "", count: int = 0, is_agent: bool = False, since_compaction: bool = False
) -> Way:
    """The records of the conversation, those after the record `after` if it is in it, else at least the last `count`
    messages, else all."""
    trace = Trace(after, count, since_compaction, None)
    trace.run(file, is_agent)
    if trace.is_broken:
        trace = Trace(after, count, since_compaction, _list_uuids(file, is_agent))
        trace.run(file, is_agent)
    return Way(trace.list_places(), trace.found)


def parse_entry(record: Json) -> Entry | None:
    """A record's place in the tree; None for records that have none."""
    kind, uuid = read_text(record.get("type")), read_text(record.get("uuid"))
    if kind not in CHAINED or not uuid:
        return None
    message = record.get("message")
    message = message if isinstance(message, dict) else {}
    attachment = record.get("attachment")
    is_queued = isinstance(attachment, dict) and attachment.get("type") == "queued_command"
    is_result = kind == "user" and any(at.get("type") == "tool_result" for at in list_blocks(message.get("content")))
    return Entry(
        uuid,
        read_text(record.get("parentUuid")),
        kind,
        read_text(message.get("id")) if kind == "assistant" else "",
        read_text(record.get("logicalParentUuid")),
        is_side=record.get("isSidechain") is True,
        is_meta=record.get("isMeta") is True or bool(record.get("teamName")),
        is_result=is_result,
        is_queued=is_queued,
        is_boundary=record.get("subtype") == "compact_boundary",
    )


class Trace:
    """One pass from the end. With `known`, the ids of all records, a parent that is gone is seen at once."""

    def __init__(self, after: str, count: int, since_compaction: bool, known: set[int] | None) -> None:
        self._after, self._count, self._since_compaction, self._known = after, count, since_compaction, known
        self._wanted: str | None = None  # the id the way goes on at; "" for any, None while there is no leaf
        self._is_at_root = False
        self._passed = 0  # records that were passed while waiting for the wanted one
        self._places = array("Q")
        self._groups: dict[str, None] = {}
        self._results: dict[str, list[tuple[int, str]]] = {}  # parent -> results that hang on it
        self._parts: dict[str, list[tuple[int, str]]] = {}  # group -> records of it off the way
        self._cursor: int | None = None
        self._messages = 0
        self._last_group = ""
        self.found = False

    @property
    def is_broken(self) -> bool:
        """Whether the way ended at a parent that may be gone, with more before it."""
        return self._known is None and bool(self._wanted) and not self._is_at_root and self._passed > 0

    def run(self, file: BinaryIO, is_agent: bool) -> None:
        for place, entry in _read_entries(file, is_agent):
            if self._step(place, entry):
                return

    def list_places(self) -> list[int]:
        first = self._cursor if self.found and self._cursor is not None else -1
        return sorted(place for place in self._places if place > first)

    def _step(self, place: int, entry: Entry) -> bool:
        """Take one record in; true when nothing that comes before it can matter."""
        if self._after and entry.uuid == self._after and self._cursor is None:
            self._cursor = place
        if self._is_next(entry):
            self._take_next(place, entry)
            if self._is_at_root:
                return True
            if self.found:
                return not (self._results or self._parts) or (entry.kind == "user" and not entry.is_result)
            # One message more than asked for, so that the first of those asked for is whole.
            return bool(self._count) and not self._after and self._messages > self._count
        self._passed += 1
        self._set_aside(place, entry)
        return False

    def _is_next(self, entry: Entry) -> bool:
        if self._wanted is None:
            return entry.may_be_leaf
        return entry.uuid == self._wanted or not self._wanted

    def _take_next(self, place: int, entry: Entry) -> None:
        self._take(place, entry.uuid, may_say=entry.may_say)
        if entry.kind in ("user", "assistant") and (not entry.group or entry.group != self._last_group):
            self._messages += 1
        if entry.group:
            self._last_group = entry.group
            self._take_parts(entry.group)
        self._passed = 0
        if entry.parent:
            self._want(entry.parent)
        elif entry.is_boundary and not self._since_compaction:
            self._want(entry.logical)
        else:
            self._is_at_root = True

    def _want(self, uuid: str) -> None:
        is_gone = self._known is not None and hash(uuid) not in self._known
        self._wanted = "" if is_gone else uuid

    def _take(self, place: int, uuid: str, *, may_say: bool = True) -> None:
        if may_say:
            self._places.append(place)
        self.found = self.found or (place == self._cursor)
        for at, result in self._results.pop(uuid, ()):
            self._take(at, result)

    def _take_parts(self, group: str) -> None:
        self._groups[group] = None
        if len(self._groups) > _GROUPS:
            del self._groups[next(iter(self._groups))]
        for at, uuid in self._parts.pop(group, ()):
            self._take(at, uuid)

    def _set_aside(self, place: int, entry: Entry) -> None:
        """A record off the way that may belong to one on it."""
        if entry.is_lost:
            return
        if entry.is_result:
            _hold(self._results, entry.parent, (place, entry.uuid))
        elif entry.group in self._groups:
            self._take(place, entry.uuid)
        elif entry.group:
            _hold(self._parts, entry.group, (place, entry.uuid))


def _hold(table: dict[str, list[tuple[int, str]]], key: str, value: tuple[int, str]) -> None:
    if len(table) >= _PENDING:
        del table[next(iter(table))]
    table.setdefault(key, []).append(value)


def _read_entries(file: BinaryIO, is_agent: bool) -> Iterator[tuple[int, Entry]]:
    """Records of the tree from the last to the first; a subagent's only in a file of its own."""
    for line in read_lines_back(file):
        entries = _parse_line(line)
        for index, entry in reversed(entries):
            if entry is not None and (is_agent or not entry.is_side):
                yield make_place(line.offset, index), entry


def _parse_line(line: Line) -> list[tuple[int, Entry | None]]:
    if line.is_whole:
        return [(index, parse_entry(record)) for index, record in enumerate(parse_records(line.data))]
    return [(0, _parse_long(line))]


def _parse_long(line: Line) -> Entry | None:
    """Of a line that is too long to be read, its place in the tree, if its edges say it."""
    parent = _LONG_PARENT.search(line.data)
    uuid = _LONG_UUID.search(line.data) or next(iter(_LONG_UUID.findall(line.end)[-1:]), None)
    if parent is None or uuid is None or _LONG_SIDE.search(line.data):
        return None
    name = uuid if isinstance(uuid, bytes) else uuid[1]
    return Entry(name.decode("utf-8", "replace"), (parent[1] or b"").decode("utf-8", "replace"), "system", is_lost=True)


def _list_uuids(file: BinaryIO, is_agent: bool) -> set[int]:
    return {hash(entry.uuid) for _, entry in _read_entries(file, is_agent)}
