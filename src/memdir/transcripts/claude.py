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

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO

from memdir.query import strip_host_text
from memdir.records import Message, ToolCall
from memdir.transcripts.blocks import Result, join_texts, list_calls, list_results, read_text
from memdir.transcripts.chain import Way
from memdir.transcripts.formats import read_at
from memdir.transcripts.lines import Json, read_places

_RECENT = 4_096  # ids that are remembered, to tell a record that was written twice
_ATTACHED = frozenset(("file", "directory", "pdf_reference", "compact_file_reference", "mcp_resource"))
_COMMAND_MODES = ("", "prompt")


def read_way(file: BinaryIO, way: Way) -> Iterator[Message]:
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
    results: list[Result] = []  # of tools that the provider runs itself
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
    for record in read_places(file, places):
        uuid = read_text(record.get("uuid"))
        if not uuid or uuid in seen:
            continue
        if len(recent) == _RECENT:
            seen.discard(recent[0])
        recent.append(uuid)
        seen.add(uuid)
        yield record
