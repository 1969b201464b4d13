"""Read Qwen Code chats as messages; a message has the id of its record (`uuid`).

    {"type": "user" | "assistant" | "tool_result" | "system", "message": {"role": …, "parts": […]}, "uuid": …, …}

A chat only grows, so its records are read in order, from the end as far as they are needed. A part is a text, a call
(`functionCall`) or a result (`functionResponse`). Texts of `system` records, and those that the client or hooks insert in
the user's name, are meta. Everything else, including thinking and records without parts, is ignored.
"""

from collections.abc import Iterator, Mapping
from typing import BinaryIO

from memdir.conversation.lines import (
    DOCUMENT,
    IMAGE,
    Json,
    RecordPath,
    list_blocks,
    list_strings,
    make_position,
    parse_input,
    parse_line,
    read_at,
    read_lines_back,
    read_records_at,
    read_table,
    read_text,
)
from memdir.conversation.typed import split_gemini_parts
from memdir.records import Message, ToolCall


def find_turns(file: BinaryIO, *, after: str = "", count: int = 0) -> RecordPath:
    """Find the records after the message `after`, or else those of at least the last `count` messages, or all."""
    positions: list[int] = []
    for line in read_lines_back(file):
        for index, record in reversed(list(enumerate(parse_line(line)))):
            if not any(make_messages(record)):
                continue
            if after and record.get("uuid") == after:
                return RecordPath(positions[::-1], True)
            positions.append(make_position(line.offset, index))
        if not after and 0 < count <= len(positions):  # each record is at least one message
            break
    return RecordPath(positions[::-1])


def read_turns(file: BinaryIO, path: RecordPath) -> Iterator[Message]:
    """Yield the messages of these records."""
    for record in read_records_at(file, path.positions):
        yield from make_messages(record)


def make_messages(record: Json) -> Iterator[Message]:
    """Yield the messages of one record, results of tools first."""
    kind, id, sent_at = record.get("type"), read_text(record.get("uuid")), read_at(record)
    parts = list(list_blocks(read_table(record.get("message")).get("parts")))
    texts = list(_list_texts(parts))
    text = "\n\n".join(texts)
    if kind == "assistant":
        calls = tuple(_list_calls(parts))
        if text or calls:
            yield Message("assistant", text, id, sent_at, calls=calls)
    elif kind in ("user", "tool_result"):
        for part in parts:
            if isinstance(response := part.get("functionResponse"), dict):
                result, failed = _read_result(response)
                yield Message("tool", result, id, sent_at, answers=read_text(response.get("id")), failed=failed)
        typed, inserted = split_gemini_parts(texts)
        if kind == "tool_result" and text:
            yield Message("tool", text, id, sent_at)
        elif kind == "user" and inserted:
            yield Message("user", inserted, id, sent_at, is_meta=True)
        if kind == "user" and typed:
            yield Message("user", typed, id, sent_at)
    elif kind == "system" and text:
        yield Message("user", text, id, sent_at, is_meta=True)


def _list_texts(parts: list[Mapping[str, object]]) -> Iterator[str]:
    """Yield the texts, with placeholders for pictures and documents."""
    for part in parts:
        if part.get("thought") is True:
            continue
        if text := read_text(part.get("text")):
            yield text
        elif isinstance(data := part.get("inlineData") or part.get("fileData"), dict):
            yield IMAGE if read_text(data.get("mimeType")).startswith("image/") else DOCUMENT


def _list_calls(parts: list[Mapping[str, object]]) -> Iterator[ToolCall]:
    for part in parts:
        call = read_table(part.get("functionCall"))
        if name := read_text(call.get("name")):
            yield ToolCall(read_text(call.get("id")), name, parse_input(call.get("args")))


def _read_result(response: Json) -> tuple[str, bool]:
    """Return the text of a tool's result, and whether the tool failed."""
    content = read_table(response.get("response"))
    text = read_text(content.get("output")) or read_text(content.get("error")) or "\n".join(list_strings(content))
    return text, "error" in content
