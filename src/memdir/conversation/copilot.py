"""Read the event logs of Copilot CLI as messages. A message has the `id` of its event.

    {"type": "user.message" | "assistant.message" | "tool.execution_complete" | …, "data": {…}, "id": …, "timestamp": …}

Text from hooks, such as memdir's recalled memories, is recorded in separate events, in the copy of a message that was
sent, and at the end of a tool's result. It is not read.
"""

from collections.abc import Iterator
from pathlib import Path

from memdir.conversation.lines import (
    Json,
    TranscriptHead,
    TranscriptReader,
    list_blocks,
    parse_input,
    read_at,
    read_by_record,
)
from memdir.records import Message, ToolCall
from memdir.text import as_list, as_table, as_text


def _detect(record: Json) -> bool:
    return isinstance(record.get("data"), dict) and "parentId" in record and "." in as_text(record.get("type"))


def _read_head(record: Json, path: Path) -> TranscriptHead:
    data = as_table(record.get("data"))
    return TranscriptHead(as_text(data.get("sessionId")), as_text(as_table(data.get("context")).get("cwd")))


def _make_messages(record: Json) -> Iterator[Message]:
    kind, id, sent_at, data = (
        record.get("type"),
        as_text(record.get("id")),
        read_at(record),
        as_table(record.get("data")),
    )
    text = as_text(data.get("content"))
    if data.get("parentToolCallId"):  # the record belongs to a subagent
        return
    if kind == "user.message" and text:
        yield Message("user", text, id, sent_at, is_meta=bool(data.get("source")))
    elif kind == "assistant.message":
        calls = tuple(
            ToolCall(as_text(call.get("toolCallId")), as_text(call.get("name")), parse_input(call.get("arguments")))
            for call in list_blocks(as_list(data.get("toolRequests")))
        )
        if text or calls:
            yield Message("assistant", text, id, sent_at, calls=calls)
    elif kind == "tool.execution_complete":
        result = as_table(data.get("result"))
        exit_code = as_table(data.get("shellExecution")).get("exitCode")
        output = as_text(result.get("detailedContent")) or as_text(result.get("content"))
        failed = data.get("success") is False or bool(exit_code)
        yield Message("tool", output, id, sent_at, answers=as_text(data.get("toolCallId")), failed=failed)


READER = TranscriptReader(("session-state/*/events.jsonl",), _detect, *read_by_record(_make_messages), _read_head)
