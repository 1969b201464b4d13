"""Claude Code's transcripts as messages: the conversation as it stands, without branches left behind and subagents.

One record is one message, but for these:

    assistant              an API message is split over records, one for each block; it is put together again, and
                           its id is that of its last record, so that a cursor there misses nothing that follows
    results of tools       come in a user's record; each is a message of role `tool`, after the message that called
    queued_command         what a person typed while the agent worked stands in an attachment; it is theirs
    what the host put in   is_meta: hooks' context, summaries at compaction, the text of slash commands and what they
                           printed, notices, messages of other agents

Listings, snapshots, progress, hooks' own output and what a model thought are left out. The format is the host's own and
undocumented: a record of another shape is passed over.
"""

import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO

from memdir.conversation.lines import (
    Json,
    ToolResultBlock,
    TranscriptLine,
    join_texts,
    list_blocks,
    list_calls,
    list_results,
    make_place,
    parse_records,
    read_at,
    read_lines_back,
    read_record_places,
    read_text,
)
from memdir.frozen import dataclass
from memdir.recall.query import strip_host_text
from memdir.records import Message, ToolCall

# --- chain ---
# Which lines of a Claude Code transcript are the conversation as it stands, found by reading the file backwards.
#
# A transcript is a tree: each record names its parent, and a rewind leaves a branch behind. The conversation is the
# way
# from the last leaf back to the root. Parents stand before their children, so one pass from the end finds it with no
# table of the file in memory, and ends at the cursor: what was added since a turn costs only itself.
#
#     two calls at once      their results hang side by side on the calls, off the way; they are taken with their call
#     split messages         records of one API message that hang off the way are taken with it
#     compaction             the boundary has no parent; its logical parent is followed, because all that was said
# counts
#     a parent that is gone  the line was damaged: the way goes on at the record before, once it is sure that it is
# gone
#
# What it does not do: read what the records say (claude), or follow a subagent.

CHAINED = frozenset(("user", "assistant", "system", "attachment", "progress"))
_PENDING = 20_000  # results whose call was not met yet; more than that are those of a branch left behind
_GROUPS = 64  # messages whose records may still come
_LONG_PARENT = re.compile(rb'"parentUuid"\s*:\s*(?:"([^"\\]{1,100})"|null)')
_LONG_UUID = re.compile(rb'"uuid"\s*:\s*"([^"\\]{1,100})"')
_LONG_SIDE = re.compile(rb'"isSidechain"\s*:\s*true')


@dataclass(frozen=True, slots=True)
class ChainNode:
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
class ChainPath:
    """Where the conversation's records lie (see `make_place`), first to last; `found` says that the cursor was met."""

    places: list[int]
    found: bool = False


def find_way(
    file: BinaryIO, *, after: str = "", count: int = 0, is_agent: bool = False, since_compaction: bool = False
) -> ChainPath:
    """The records of the conversation, those after the record `after` if it is in it, else at least the last `count`
    messages, else all."""
    trace = ChainTrace(after, count, since_compaction, None)
    trace.run(file, is_agent)
    if trace.is_broken:
        trace = ChainTrace(after, count, since_compaction, _list_uuids(file, is_agent))
        trace.run(file, is_agent)
    return ChainPath(trace.list_places(), trace.found)


def parse_entry(record: Json) -> ChainNode | None:
    """A record's place in the tree; None for records that have none."""
    kind, uuid = read_text(record.get("type")), read_text(record.get("uuid"))
    if kind not in CHAINED or not uuid:
        return None
    message = record.get("message")
    message = message if isinstance(message, dict) else {}
    attachment = record.get("attachment")
    is_queued = isinstance(attachment, dict) and attachment.get("type") == "queued_command"
    is_result = kind == "user" and any(at.get("type") == "tool_result" for at in list_blocks(message.get("content")))
    return ChainNode(
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


class ChainTrace:
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

    def _step(self, place: int, entry: ChainNode) -> bool:
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

    def _is_next(self, entry: ChainNode) -> bool:
        if self._wanted is None:
            return entry.may_be_leaf
        return entry.uuid == self._wanted or not self._wanted

    def _take_next(self, place: int, entry: ChainNode) -> None:
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

    def _set_aside(self, place: int, entry: ChainNode) -> None:
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


def _read_entries(file: BinaryIO, is_agent: bool) -> Iterator[tuple[int, ChainNode]]:
    """Records of the tree from the last to the first; a subagent's only in a file of its own."""
    for line in read_lines_back(file):
        entries = _parse_line(line)
        for index, entry in reversed(entries):
            if entry is not None and (is_agent or not entry.is_side):
                yield make_place(line.offset, index), entry


def _parse_line(line: TranscriptLine) -> list[tuple[int, ChainNode | None]]:
    if line.is_whole:
        return [(index, parse_entry(record)) for index, record in enumerate(parse_records(line.data))]
    return [(0, _parse_long(line))]


def _parse_long(line: TranscriptLine) -> ChainNode | None:
    """Of a line that is too long to be read, its place in the tree, if its edges say it."""
    parent = _LONG_PARENT.search(line.data)
    uuid = _LONG_UUID.search(line.data) or next(iter(_LONG_UUID.findall(line.end)[-1:]), None)
    if parent is None or uuid is None or _LONG_SIDE.search(line.data):
        return None
    name = uuid if isinstance(uuid, bytes) else uuid[1]
    return ChainNode(
        name.decode("utf-8", "replace"), (parent[1] or b"").decode("utf-8", "replace"), "system", is_lost=True
    )


def _list_uuids(file: BinaryIO, is_agent: bool) -> set[int]:
    return {hash(entry.uuid) for _, entry in _read_entries(file, is_agent)}


# --- claude ---

_RECENT = 4_096  # ids that are remembered, to tell a record that was written twice
_ATTACHED = frozenset(("file", "directory", "pdf_reference", "compact_file_reference", "mcp_resource"))
_COMMAND_MODES = ("", "prompt")


def read_way(file: BinaryIO, way: ChainPath) -> Iterator[Message]:
    """The messages of the records on the way, each API message in one."""
    return merge(_read_records(file, way.places))


def merge(records: Iterable[Json]) -> Iterator[Message]:
    """Messages of records in order; one that was split is held until all of it is there, and its results with it."""
    parts: list[Json] = []
    held: list[Message] = []
    for record in records:
        group = _find_group(record)
        if group and parts and group == _find_group(parts[0]):
            parts.append(record)
            continue
        messages = list(make_messages(record)) if not group else []
        if not group and all(parts and (message.role == "tool" or message.is_meta) for message in messages):
            held += messages
            continue
        yield from _make_whole(parts)
        yield from held
        parts, held = [record] if group else [], []
        yield from messages
    yield from _make_whole(parts)
    yield from held


def make_messages(record: Json) -> Iterator[Message]:
    """The messages in one record, as it stands."""
    kind, uuid, at = record.get("type"), read_text(record.get("uuid")), read_at(record)
    message = record.get("message")
    if kind == "assistant":
        yield from _make_whole([record])
    elif kind == "user" and isinstance(message, dict):
        content = message.get("content")
        for result in list_results(content):
            yield Message("tool", result.text, uuid, at, answers=result.answers, failed=result.failed)
        if text := join_texts(content):
            yield Message("user", text, uuid, at, is_meta=_is_meta(record, text))
    elif kind == "attachment":
        yield from _make_attached(record.get("attachment"), uuid, at)
    elif kind == "system" and record.get("subtype") == "local_command" and (text := read_text(record.get("content"))):
        yield Message("user", text, uuid, at, is_meta=True)


def _make_whole(parts: Sequence[Json]) -> Iterator[Message]:
    """One message of the records of one API message."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[ToolResultBlock] = []  # of tools that the provider runs itself
    for part in parts:
        message = part.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        texts += filter(None, [join_texts(content)])
        calls += list_calls(content)
        results += list_results(content)
    if not (texts or calls or results):
        return
    uuid, at = read_text(parts[-1].get("uuid")), read_at(parts[0])
    for result in results:
        yield Message("tool", result.text, uuid, at, answers=result.answers)
    is_meta = any(_is_host_said(part) for part in parts)
    yield Message("assistant", "\n\n".join(texts), uuid, at, is_meta, tuple(calls))


def _make_attached(attachment: object, uuid: str, at: datetime | None) -> Iterator[Message]:
    if not isinstance(attachment, dict):
        return
    kind = read_text(attachment.get("type"))
    if kind == "queued_command" and (text := join_texts(attachment.get("prompt"))):
        is_host = read_text(attachment.get("commandMode")) not in _COMMAND_MODES
        yield Message("user", text, uuid, at, is_meta=is_host or _is_meta(attachment, text))
    elif kind == "hook_additional_context":
        content = attachment.get("content")
        texts = [at for at in content if isinstance(at, str)] if isinstance(content, list) else [read_text(content)]
        if text := "\n\n".join(filter(None, texts)):
            yield Message("user", text, uuid, at, is_meta=True)
    elif kind in _ATTACHED:
        name = read_text(attachment.get("filename")) or read_text(attachment.get("path"))
        yield Message("user", f"[attached: {name}]" if name else "[attached]", uuid, at, is_meta=True)


def _is_meta(record: Json, text: str) -> bool:
    """Whether the host wrote it and not the person."""
    origin = record.get("origin")
    by = read_text(origin.get("kind")) if isinstance(origin, dict) else ""
    marks = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
    return (
        any(record.get(mark) is True for mark in marks)
        or bool(record.get("teamName"))
        or by not in ("", "human")
        or not strip_host_text(text)
    )


def _is_host_said(record: Json) -> bool:
    """Whether an assistant's message came from the host: an error of the API, or a filler between two turns."""
    message = record.get("message")
    is_filler = isinstance(message, dict) and message.get("model") == "<synthetic>"
    return is_filler or record.get("isApiErrorMessage") is True or record.get("isMeta") is True


def _find_group(record: Json) -> str:
    message = record.get("message")
    if record.get("type") != "assistant" or not isinstance(message, dict):
        return ""
    return read_text(message.get("id"))


def _read_records(file: BinaryIO, places: Sequence[int]) -> Iterator[Json]:
    recent: deque[str] = deque(maxlen=_RECENT)
    seen: set[str] = set()
    for record in read_record_places(file, places):
        uuid = read_text(record.get("uuid"))
        if not uuid or uuid in seen:
            continue
        if len(recent) == _RECENT:
            seen.discard(recent[0])
        recent.append(uuid)
        seen.add(uuid)
        yield record
