"""Read Qwen Code chats as messages. A message has the `uuid` of its record.

    {"type": "user" | "assistant" | "tool_result" | "system", "message": {"role": …, "parts": […]}, "uuid": …, …}

A part is a text, a call (`functionCall`) or a result (`functionResponse`). Texts of `system` records, and those that the
client or hooks insert in the user's name, are meta. Other parts (thinking) and records without parts are ignored.
"""

from collections.abc import Iterator

from memdir.conversation.gemini import list_part_calls, list_part_texts, read_response
from memdir.conversation.lines import (
    Json,
    TranscriptReader,
    list_blocks,
    read_at,
    read_by_record,
    read_session,
)
from memdir.conversation.typed import split_gemini_parts
from memdir.records import Message
from memdir.text import as_table, as_text


def _detect(record: Json) -> bool:
    has_parts = isinstance(as_table(record.get("message")).get("parts"), list)
    return "sessionId" in record and (has_parts or "systemPayload" in record)


def make_messages(record: Json) -> Iterator[Message]:
    """Yield the messages of a record, starting with tool results."""
    kind, id, sent_at = record.get("type"), as_text(record.get("uuid")), read_at(record)
    parts = list(list_blocks(as_table(record.get("message")).get("parts")))
    texts = list(list_part_texts(parts))
    text = "\n\n".join(texts)
    if kind == "assistant":
        calls = tuple(list_part_calls(as_table(part.get("functionCall")) for part in parts))
        if text or calls:
            yield Message("assistant", text, id, sent_at, calls=calls)
    elif kind in ("user", "tool_result"):
        for part in parts:
            if isinstance(response := part.get("functionResponse"), dict):
                result, failed = read_response(response)
                yield Message("tool", result, id, sent_at, answers=as_text(response.get("id")), failed=failed)
        typed, inserted = split_gemini_parts(texts, ("hook_context", "qwen:user-prompt-submit-context"))
        if kind == "tool_result" and text:
            yield Message("tool", text, id, sent_at)
        elif kind == "user" and inserted:
            yield Message("user", inserted, id, sent_at, is_meta=True)
        if kind == "user" and typed:
            yield Message("user", typed, id, sent_at)
    elif kind == "system" and text:
        yield Message("user", text, id, sent_at, is_meta=True)


READER = TranscriptReader(("projects/*/chats/*.jsonl",), _detect, *read_by_record(make_messages), read_session)
