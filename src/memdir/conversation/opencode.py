"""Read conversations of opencode as messages, from the copies that memdir's plugin makes. A message has opencode's ID.

    {"type": "session", "host": "opencode", "id": …, "directory": …, "timestamp": …}
    {"type": "message", "timestamp": …, "info": {"id": …, "role": "user" | "assistant"}, "parts": […]}

Parts are texts and tool calls with their results. Synthetic texts, which memdir and opencode insert, are meta.
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
from memdir.conversation.typed import strip_reminders
from memdir.records import Message, ToolCall
from memdir.text import as_list, as_table, as_text


def _detect(record: Json) -> bool:
    return record.get("host") == "opencode" or (isinstance(record.get("info"), dict) and "parts" in record)


def _read_head(record: Json, path: Path) -> TranscriptHead:
    if record.get("host") != "opencode":
        return TranscriptHead()
    return TranscriptHead(as_text(record.get("id")), as_text(record.get("directory")), read_at(record))


def _make_messages(record: Json) -> Iterator[Message]:
    info, parts = as_table(record.get("info")), list(list_blocks(as_list(record.get("parts"))))
    id, sent_at = as_text(info.get("id")), read_at(record)
    texts = [(part.get("synthetic") is True, as_text(part.get("text"))) for part in parts if part.get("type") == "text"]
    typed, inserted = ("\n\n".join(text for is_meta, text in texts if is_meta is wanted) for wanted in (False, True))
    tools = [(part, as_table(part.get("state"))) for part in parts if part.get("type") == "tool"]
    if info.get("role") == "assistant":
        calls = tuple(
            ToolCall(as_text(part.get("callID")), as_text(part.get("tool")), parse_input(state.get("input")))
            for part, state in tools
        )
        if typed or calls:
            yield Message("assistant", typed, id, sent_at, calls=calls)
        for part, state in tools:
            failed = state.get("status") == "error" or bool(as_table(state.get("metadata")).get("exit"))
            output = strip_reminders(as_text(state.get("output")) or as_text(state.get("error")))
            yield Message("tool", output, id, sent_at, answers=as_text(part.get("callID")), failed=failed)
    elif info.get("role") == "user":
        if inserted:
            yield Message("user", inserted, id, sent_at, is_meta=True)
        # `opencode run` puts the prompt into quotation marks.
        if typed[:1] == typed[-1:] == '"' and typed.count('"') == 2:
            typed = typed[1:-1]
        if typed:
            yield Message("user", typed, id, sent_at)


READER = TranscriptReader(("*.jsonl",), _detect, *read_by_record(_make_messages), _read_head)
