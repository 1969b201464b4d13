"""Read sessions of pi as messages. A message has the `id` of its entry.

    {"type": "session", "version": 3, "id": …, "cwd": …}
    {"type": "message", "id": …, "parentId": …, "timestamp": …, "message": {"role": "user" | "assistant" | "toolResult", …}}

Entries form a tree: after the user goes back in the conversation, the old branch stays in the file. Only the branch
that ends with the last entry is read. Messages of extensions, such as recalled memories, are meta.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from memdir.conversation.lines import (
    Json,
    TranscriptHead,
    TranscriptReader,
    join_texts,
    list_blocks,
    parse_input,
    parse_records,
    read_at,
    read_in_order,
    read_transcript_lines,
)
from memdir.conversation.typed import strip_reminders
from memdir.records import Message, ToolCall
from memdir.text import as_list, as_table, as_text


def _detect(record: Json) -> bool:
    is_head = record.get("type") == "session" and "cwd" in record and "version" in record
    return is_head or (record.get("type") in ("message", "model_change") and "parentId" in record)


def _read_head(record: Json, path: Path) -> TranscriptHead:
    if record.get("type") != "session":
        return TranscriptHead()
    return TranscriptHead(as_text(record.get("id")), as_text(record.get("cwd")), read_at(record))


def _read_all(file: BinaryIO) -> Iterator[Message]:
    file.seek(0)
    entries = {as_text(row.get("id")): row for _, line in read_transcript_lines(file) for row in parse_records(line)}
    branch: list[Json] = []
    id = next(reversed(entries), "")
    while id in entries:
        branch.append(entries.pop(id))
        id = as_text(branch[-1].get("parentId"))
    for record in reversed(branch):
        yield from _make_messages(record)


def _make_messages(record: Json) -> Iterator[Message]:
    id, sent_at, message = as_text(record.get("id")), read_at(record), as_table(record.get("message"))
    role, text = message.get("role"), strip_reminders(join_texts(message.get("content")))
    if record.get("type") == "custom_message":
        yield Message("user", join_texts(record.get("content")), id, sent_at, is_meta=True)
    elif role == "user" and text:
        yield Message("user", text, id, sent_at)
    elif role == "assistant":
        calls = tuple(
            ToolCall(as_text(block.get("id")), as_text(block.get("name")), parse_input(block.get("arguments")))
            for block in list_blocks(as_list(message.get("content")))
            if block.get("type") == "toolCall"
        )
        if text or calls:
            yield Message("assistant", text, id, sent_at, calls=calls)
    elif role == "toolResult":
        answers, failed = as_text(message.get("toolCallId")), message.get("isError") is True
        yield Message("tool", text, id, sent_at, answers=answers, failed=failed)


READER = TranscriptReader(("sessions/*/*.jsonl",), _detect, *read_in_order(_read_all), _read_head)
