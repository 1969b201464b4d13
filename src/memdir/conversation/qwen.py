"""Read Qwen Code chats as messages. A message has the `uuid` of its record.

    {"type": "user" | "assistant" | "tool_result" | "system", "message": {"role": …, "parts": […]}, "uuid": …, …}

A chat only grows, so its records are read in order, from the end as far as they are needed. A part is a text, a call
(`functionCall`) or a result (`functionResponse`). Texts of `system` records, and those that the client or hooks insert in
the user's name, are meta. Everything else, including thinking and records without parts, is ignored.
"""

from collections.abc import Iterator
from typing import BinaryIO

from memdir.conversation.gemini import list_part_calls, list_part_texts, read_response
from memdir.conversation.lines import (
    Json,
    RecordQuery,
    RecordSelection,
    TranscriptReader,
    list_blocks,
    read_at,
    read_records_at,
    read_records_back,
    read_session,
    read_table,
    read_text,
)
from memdir.conversation.typed import split_gemini_parts
from memdir.records import Message


def _detect(record: Json) -> bool:
    has_parts = isinstance(read_table(record.get("message")).get("parts"), list)
    return "sessionId" in record and (has_parts or "systemPayload" in record)


def _find(file: BinaryIO, query: RecordQuery) -> RecordSelection:
    positions: list[int] = []
    for position, record in read_records_back(file):
        if not any(make_messages(record)):
            continue
        if query.after and record.get("uuid") == query.after:
            return RecordSelection(positions[::-1], True)
        positions.append(position)
        if not query.after and len(positions) == query.count:  # each record is at least one message
            break
    return RecordSelection(positions[::-1])


def _read(file: BinaryIO, selection: RecordSelection) -> Iterator[Message]:
    for record in read_records_at(file, selection.positions):
        yield from make_messages(record)


def make_messages(record: Json) -> Iterator[Message]:
    """Yield the messages of a record, starting with tool results."""
    kind, id, sent_at = record.get("type"), read_text(record.get("uuid")), read_at(record)
    parts = list(list_blocks(read_table(record.get("message")).get("parts")))
    texts = list(list_part_texts(parts))
    text = "\n\n".join(texts)
    if kind == "assistant":
        calls = tuple(list_part_calls(read_table(part.get("functionCall")) for part in parts))
        if text or calls:
            yield Message("assistant", text, id, sent_at, calls=calls)
    elif kind in ("user", "tool_result"):
        for part in parts:
            if isinstance(response := part.get("functionResponse"), dict):
                result, failed = read_response(response)
                yield Message("tool", result, id, sent_at, answers=read_text(response.get("id")), failed=failed)
        typed, inserted = split_gemini_parts(texts, ("hook_context", "qwen:user-prompt-submit-context"))
        if kind == "tool_result" and text:
            yield Message("tool", text, id, sent_at)
        elif kind == "user" and inserted:
            yield Message("user", inserted, id, sent_at, is_meta=True)
        if kind == "user" and typed:
            yield Message("user", typed, id, sent_at)
    elif kind == "system" and text:
        yield Message("user", text, id, sent_at, is_meta=True)


READER = TranscriptReader(("projects/*/chats/*.jsonl",), _detect, _find, _read, read_session)
