"""Read the current conversation of Claude Code transcripts as messages, without abandoned branches and subagents.

A transcript is a tree: each record names its parent, and a rewind abandons a branch. The conversation is the path from
the last leaf to the root (`find_records`). Parents come before their children, so one pass from the end finds the path
without a table of the file in memory, and stops at the cursor.

    parallel calls       their results are siblings of records on the path; they are included with their call
    split messages       records of one API message next to the path are included with it
    compaction           the boundary has no parent, but its logical parent is followed, so no messages are lost
    a missing parent     its line was damaged: the path continues at the record before

One record is one message (`read_selected`), with these exceptions. An API message is split into one record per block; it
is joined again under the id of its last record, so that a cursor there misses nothing. Tool results come in user records and
become messages with the role `tool`. A `queued_command` attachment is text the user typed while the agent worked. Text that
the host inserted (hook context, summaries, slash commands, notices, messages of other agents) is `is_meta`. Listings,
snapshots, progress, hook output, thinking and unknown records are ignored.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from memdir.conversation.lines import (
    Json,
    RecordQuery,
    RecordSelection,
    TranscriptHead,
    TranscriptReader,
    is_agent_file,
    join_texts,
    list_blocks,
    list_calls,
    list_results,
    list_strings,
    read_at,
    read_records_at,
    read_records_back,
    read_session,
)
from memdir.conversation.typed import strip_host_text
from memdir.frozen import dataclass, replace
from memdir.records import Message, ToolCall
from memdir.text import as_table, as_text

_TYPES = frozenset(
    "user assistant system attachment progress summary custom-title ai-title tag last-prompt file-history-snapshot "
    "queue-operation content-replacement mode permission-mode agent_metadata".split()
)
_MARKS = frozenset(("sessionId", "uuid", "leafUuid", "snapshot"))
_PENDING = 20_000  # max results whose call was not read yet; further ones belong to an abandoned branch
_GROUPS = 64  # messages that may have more records
_RECENT = 4_096  # ids remembered, to recognise a record that was written twice
_ATTACHED = frozenset(("file", "directory", "pdf_reference", "compact_file_reference", "mcp_resource"))


@dataclass(frozen=True, slots=True)
class ChainNode:
    """A record's position in the tree. `group` is its API message ID."""

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

    @property
    def may_be_leaf(self) -> bool:
        return (self.kind in ("user", "assistant") and not self.is_meta) or self.is_queued


def _detect(record: Json) -> bool:
    has_marks = bool(_MARKS & record.keys()) or isinstance(record.get("message"), dict)
    return has_marks and as_text(record.get("type")) in _TYPES


def _read_head(record: Json, path: Path) -> TranscriptHead:
    return replace(read_session(record, path), is_subagent=is_agent_file(path))


def find_records(file: BinaryIO, query: RecordQuery) -> RecordSelection:
    nodes = partial(_read_nodes, file, is_agent_file(query.path))
    trace = ChainTrace(query, None).run(nodes())
    if trace.is_broken:
        trace = ChainTrace(query, {hash(node.uuid) for _, node in nodes()}).run(nodes())
    return RecordSelection(trace.list_positions(), trace.found)


def read_selected(file: BinaryIO, selection: RecordSelection) -> Iterator[Message]:
    """Yield the messages of these records. The records of one API message become one message."""
    return merge(_read_records(file, selection.positions))


def parse_node(record: Json) -> ChainNode | None:
    """Return the position of a record in the tree, or None if the record does not belong to the tree."""
    kind, uuid = as_text(record.get("type")), as_text(record.get("uuid"))
    if kind not in frozenset(("user", "assistant", "system", "attachment", "progress")) or not uuid:
        return None
    message = as_table(record.get("message"))
    blocks = list_blocks(message.get("content"))
    is_result = kind == "user" and any(block.get("type") == "tool_result" for block in blocks)
    return ChainNode(
        uuid,
        as_text(record.get("parentUuid")),
        kind,
        as_text(message.get("id")) if kind == "assistant" else "",
        as_text(record.get("logicalParentUuid")),
        is_side=record.get("isSidechain") is True,
        is_meta=record.get("isMeta") is True or bool(record.get("teamName")),
        is_result=is_result,
        is_queued=as_table(record.get("attachment")).get("type") == "queued_command",
        is_boundary=record.get("subtype") == "compact_boundary",
    )


class ChainTrace:
    """Find the conversation's records in one pass from the end of the file."""

    def __init__(self, query: RecordQuery, uuids: set[int] | None) -> None:
        self._query, self._known = query, uuids
        self._wanted: str | None = None  # ID of the next record on the path; "" for any, None before a leaf was found
        self._is_at_root, self._skipped = False, 0  # skipped: number of records since the last record on the path
        self._positions = array("Q")
        self._groups: dict[str, None] = {}
        self._results: dict[str, list[tuple[int, str]]] = {}  # tool results by the ID of their parent
        self._parts: dict[str, list[tuple[int, str]]] = {}  # records outside the path by group
        self._cursor: int | None = None
        self._messages, self._last_group, self.found = 0, "", False

    @property
    def is_broken(self) -> bool:
        """Return whether the path ended early, at a parent that may be missing from the file."""
        return self._known is None and bool(self._wanted) and not self._is_at_root and self._skipped > 0

    def run(self, nodes: Iterable[tuple[int, ChainNode]]) -> "ChainTrace":
        any(self._process(position, node) for position, node in nodes)
        return self

    def list_positions(self) -> list[int]:
        first = self._cursor if self.found and self._cursor is not None else -1
        return sorted(position for position in self._positions if position > first)

    def _process(self, position: int, node: ChainNode) -> bool:
        """Process one record and return whether the search is finished."""
        if self._query.after and node.uuid == self._query.after and self._cursor is None:
            self._cursor = position
        if not (node.may_be_leaf if self._wanted is None else self._wanted in ("", node.uuid)):
            self._skipped += 1
            self._keep_sibling(position, node)
            return False
        self._add_to_path(position, node)
        if self._is_at_root:
            return True
        if self.found:
            return not (self._results or self._parts) or (node.kind == "user" and not node.is_result)
        # One message more than requested, so that the first of those requested is complete.
        return bool(self._query.count) and not self._query.after and self._messages > self._query.count

    def _add_to_path(self, position: int, node: ChainNode) -> None:
        """Add a record of the path with the records that belong to it, and continue with its parent."""
        self._add(position, node.uuid, has_text=node.kind != "progress")
        if node.kind in ("user", "assistant") and (not node.group or node.group != self._last_group):
            self._messages += 1
        if node.group:
            self._last_group = node.group
            self._groups[node.group] = None
            if len(self._groups) > _GROUPS:
                del self._groups[next(iter(self._groups))]
            for offset, uuid in self._parts.pop(node.group, ()):
                self._add(offset, uuid)
        self._skipped = 0
        parent = node.parent or (node.logical if node.is_boundary else None)
        if parent is None:
            self._is_at_root = True
        else:
            self._wanted = "" if self._known is not None and hash(parent) not in self._known else parent

    def _add(self, position: int, uuid: str, *, has_text: bool = True) -> None:
        if has_text:
            self._positions.append(position)
        self.found = self.found or (position == self._cursor)
        for offset, result in self._results.pop(uuid, ()):
            self._add(offset, result)

    def _keep_sibling(self, position: int, node: ChainNode) -> None:
        """Store a record outside the path, because it may belong to a record on the path that is read later."""
        if not (node.is_result or node.group):
            return
        if not node.is_result and node.group in self._groups:
            self._add(position, node.uuid)
            return
        table, key = (self._results, node.parent) if node.is_result else (self._parts, node.group)
        if len(table) >= _PENDING:
            del table[next(iter(table))]
        table.setdefault(key, []).append((position, node.uuid))


def _read_nodes(file: BinaryIO, is_agent: bool) -> Iterator[tuple[int, ChainNode]]:
    """Yield the tree's records from last to first. Subagent records are included only in a subagent's own file."""
    for position, record in read_records_back(file):
        node = parse_node(record)
        if node is not None and (is_agent or not node.is_side):
            yield position, node


def merge(records: Iterable[Json]) -> Iterator[Message]:
    """Yield the messages of the records. The records of a split message are collected until it is complete."""
    parts: list[Json] = []
    pending: list[Message] = []
    for record in records:
        group = _find_group(record)
        if group and parts and group == _find_group(parts[0]):
            parts.append(record)
            continue
        messages = list(make_messages(record)) if not group else []
        if not group and all(parts and (message.role == "tool" or message.is_meta) for message in messages):
            pending += messages
            continue
        yield from _join_message(parts)
        yield from pending
        parts, pending = [record] if group else [], []
        yield from messages
    yield from _join_message(parts)
    yield from pending


def make_messages(record: Json) -> Iterator[Message]:
    kind, uuid, sent_at = record.get("type"), as_text(record.get("uuid")), read_at(record)
    message = record.get("message")
    if kind == "assistant":
        yield from _join_message([record])
    elif kind == "user" and isinstance(message, dict):
        content = message.get("content")
        yield from list_results(content, uuid, sent_at)
        if text := join_texts(content):
            yield Message("user", text, uuid, sent_at, is_meta=_is_meta(record, text))
    elif kind == "attachment":
        yield from _make_attached(record.get("attachment"), uuid, sent_at)
    elif kind == "system" and record.get("subtype") == "local_command" and (text := as_text(record.get("content"))):
        yield Message("user", text, uuid, sent_at, is_meta=True)


def _join_message(parts: Sequence[Json]) -> Iterator[Message]:
    """Yield the tool results among the records of an API message, then the message itself."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    results: list[Message] = []  # of tools that the provider runs
    uuid, sent_at = (as_text(parts[-1].get("uuid")), read_at(parts[0])) if parts else ("", None)
    for part in parts:
        content = as_table(part.get("message")).get("content")
        texts += filter(None, [join_texts(content)])
        calls += list_calls(content)
        results += list_results(content, uuid, sent_at)
    if not (texts or calls or results):
        return
    yield from results
    # API errors and fillers between two turns come from the host.
    is_meta = any(
        as_table(part.get("message")).get("model") == "<synthetic>"
        or part.get("isApiErrorMessage") is True
        or part.get("isMeta") is True
        for part in parts
    )
    yield Message("assistant", "\n\n".join(texts), uuid, sent_at, is_meta, tuple(calls))


def _make_attached(attachment: object, uuid: str, sent_at: datetime | None) -> Iterator[Message]:
    if not isinstance(attachment, dict):
        return
    kind = as_text(attachment.get("type"))
    if kind == "queued_command" and (text := join_texts(attachment.get("prompt"))):
        is_host = as_text(attachment.get("commandMode")) not in ("", "prompt")
        yield Message("user", text, uuid, sent_at, is_meta=is_host or _is_meta(attachment, text))
    elif kind == "hook_additional_context":
        if text := "\n\n".join(list_strings(attachment.get("content"))):
            yield Message("user", text, uuid, sent_at, is_meta=True)
    elif kind in _ATTACHED:
        name = as_text(attachment.get("filename")) or as_text(attachment.get("path"))
        texts = [f"[attached: {name}]" if name else "[attached]", *list_strings(attachment.get("content"))]
        yield Message("tool", "\n".join(texts), uuid, sent_at)


def _is_meta(record: Json, text: str) -> bool:
    """Return whether a user message was written by the host instead of the user."""
    return (
        any(record.get(mark) is True for mark in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))
        or bool(record.get("teamName"))
        or as_text(as_table(record.get("origin")).get("kind")) not in ("", "human")
        or not strip_host_text(text)
    )


def _find_group(record: Json) -> str:
    """Return the id of the API message that an assistant record belongs to, or ""."""
    return as_text(as_table(record.get("message")).get("id")) if record.get("type") == "assistant" else ""


def _read_records(file: BinaryIO, positions: Sequence[int]) -> Iterator[Json]:
    """Yield the records without duplicates."""
    recent: dict[str, None] = {}
    for record in read_records_at(file, positions):
        uuid = as_text(record.get("uuid"))
        if not uuid or uuid in recent:
            continue
        if len(recent) == _RECENT:
            del recent[next(iter(recent))]
        recent[uuid] = None
        yield record


READER = TranscriptReader(("projects/*/*.jsonl",), _detect, find_records, read_selected, _read_head)
