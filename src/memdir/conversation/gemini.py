"""Read Gemini CLI chats as messages. A message has its record's ID, a tool result the ID of its call.

    {"id": …, "type": …}       a message; written again when it grows: the last version counts, at the first position
    {"$set": {"messages": …}}  the history as the client now sends it, after a resume or a compression: new messages are
                               added, copies are not, and nothing is removed
    {"$rewindTo": id}          this message and those after it are removed

Texts that hooks and the client insert in the user's name (`<hook_context>` with our own reminders, `<session_context>`, files
named with `@`) are meta. Everything else (the head, times, summaries, thinking, notices, errors) is ignored.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from memdir.conversation.lines import (
    DOCUMENT,
    IMAGE,
    Json,
    TranscriptHead,
    TranscriptReader,
    list_blocks,
    list_strings,
    parse_input,
    parse_records,
    read_at,
    read_in_order,
    read_transcript_lines,
)
from memdir.conversation.typed import split_gemini_parts
from memdir.files import read_small
from memdir.format.frontmatter import read_time
from memdir.records import Message, ToolCall
from memdir.text import as_table, as_text

_EXIT = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_EXIT_CHARS = 300  # the exit code is at the end of a shell's output
_SPEAKERS = ("user", "gemini")
_PATH_BYTES = 4096


def _detect(record: Json) -> bool:
    is_head = "sessionId" in record and "projectHash" in record
    return is_head or (record.get("type") == "gemini" and "id" in record) or "$set" in record


def _read_head(record: Json, path: Path) -> TranscriptHead:
    """Return the head of a chat. The project directory is known only if a file in the parent folder contains it."""
    digest = as_text(record.get("projectHash"))
    roots = [read_small(parent / ".project_root", _PATH_BYTES).data or b"" for parent in path.absolute().parents[1:3]]
    root = next((root for root in roots if digest and hashlib.sha256(root).hexdigest() == digest), b"")
    started, is_subagent = as_text(record.get("startTime")), record.get("kind") == "subagent"
    return TranscriptHead(as_text(record.get("sessionId")), os.fsdecode(root), read_time(started), is_subagent)


def _read_all(file: BinaryIO) -> Iterator[Message]:
    """Yield the messages of a chat. Reads all records into memory."""
    history = _History()
    file.seek(0)
    for number, line in read_transcript_lines(file):
        for record in parse_records(line):
            history.add(record, number)
    answered: frozenset[str] = frozenset()
    for _, record in history.messages.values():
        if record.get("type") == "gemini":
            answered = frozenset(as_text(call.get("id")) for call in _list_finished(record))
            yield from _make_model_messages(record)
        else:
            yield from _make_user_messages(record, answered)


class _History:
    """The messages read so far, with the record and line number of each ID."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[int, Json]] = {}
        self._listed: set[str] = set()
        self._copies: dict[str, int] = {}  # line of the history by the ID of each copy of a kept message

    def add(self, record: Json, line: int) -> None:
        id, kind = as_text(record.get("id")), record.get("type")
        if back := as_text(record.get("$rewindTo")):
            self._rewind(back)
        elif id and kind in _SPEAKERS and not (kind == "user" and id in self._copies):
            self.messages[id] = line, record
        messages = (as_table(record.get("$set")) or record).get("messages")
        tables = [as_table(message) for message in messages] if isinstance(messages, list) else []
        listed = {id: table for table in tables if (id := as_text(table.get("id"))) and table.get("type") in _SPEAKERS}
        new = {id: table for id, table in listed.items() if id not in self._listed}
        self._listed |= listed.keys()
        # After a compression, or when long results were masked, a history contains copies under new ids: then messages of
        # the model have no `model`, and nothing in it is new.
        bare = [id for id, table in new.items() if table.get("type") == "gemini" and "model" not in table]
        if self.messages and not all(self._has_model_message(id) for id in bare):
            self._leave_out_copies(new, line)
        for id, table in listed.items():
            # Tool results get new IDs in a history. They are not read again, because their calls already have them.
            parts = list(list_blocks(table.get("content")))
            is_result = bool(parts) and all("functionResponse" in part for part in parts)
            if id not in self._copies and not is_result:
                self.messages.setdefault(id, (line, table))

    def _rewind(self, back: str) -> None:
        ids = list(self.messages)
        if back in self.messages:
            ids = ids[ids.index(back) :]
        elif back in self._copies:
            ids = [id for id in ids if self.messages[id][0] > self._copies[back]]
        for id in ids:
            del self.messages[id]

    def _has_model_message(self, id: str) -> bool:
        return id in self.messages and "model" in self.messages[id][1]

    def _leave_out_copies(self, new: dict[str, Json], line: int) -> None:
        keys = {key for id, (_, record) in self.messages.items() if id not in new for key in _list_keys(record)}
        for id, message in new.items():
            if id not in self.messages or (not self._has_model_message(id) and keys.issuperset(_list_keys(message))):
                self._copies[id] = line
                self.messages.pop(id, None)


def _list_keys(record: Json) -> Iterator[int]:
    is_user = record.get("type") == "user"
    return (hash((is_user, text.strip())) for text in list_part_texts(record.get("content")) if text.strip())


def _make_user_messages(record: Json, answered: frozenset[str]) -> Iterator[Message]:
    sent_at, content = read_at(record), record.get("content")
    for part in list_blocks(content):
        response = part.get("functionResponse")
        if isinstance(response, dict) and as_text(response.get("id")) not in answered:
            yield _make_result(response, record)
    typed, inserted = split_gemini_parts(list_part_texts(content))
    if "displayContent" in record:  # the typed text, without files and recalled memories
        typed, _ = split_gemini_parts(list_part_texts(record.get("displayContent")))
    if inserted:
        yield Message("user", inserted, at=sent_at, is_meta=True)
    if typed:
        yield Message("user", typed, id=as_text(record.get("id")), at=sent_at)


def _make_model_messages(record: Json) -> Iterator[Message]:
    text = "\n\n".join(list_part_texts(record.get("content")))
    calls = tuple(list_part_calls(list_blocks(record.get("toolCalls"))))
    if text or calls:
        yield Message("assistant", text, id=as_text(record.get("id")), at=read_at(record), calls=calls)
    for call in _list_finished(record):
        responses = [part.get("functionResponse") for part in list_blocks(call.get("result"))]
        first: Json = next((response for response in responses if isinstance(response, dict)), {})
        yield _make_result({**first, "id": call.get("id")}, record, failed=call.get("status") != "success")


def _list_finished(record: Json) -> list[Json]:
    ends = ("success", "error", "cancelled")
    calls = list_blocks(record.get("toolCalls"))
    return [dict(call) for call in calls if call.get("result") or call.get("status") in ends]


def _make_result(response: Json, record: Json, *, failed: bool = False) -> Message:
    text, has_failed = read_response(response)
    id = as_text(response.get("id"))
    return Message("tool", text, id=id, at=read_at(record), answers=id, failed=failed or has_failed)


# The parts of a message in Gemini's API. Clients derived from Gemini CLI, such as Qwen Code, record them too.


def read_response(response: Json) -> tuple[str, bool]:
    """Return the text of a tool result, and whether the tool failed."""
    content = as_table(response.get("response"))
    text = as_text(content.get("output")) or as_text(content.get("error")) or "\n".join(list_strings(content))
    exited = _EXIT.search(text[-_EXIT_CHARS:])
    return text, "error" in content or bool(exited and exited[1] != "0")


def list_part_calls(calls: Iterable[Mapping[str, object]]) -> Iterator[ToolCall]:
    for call in calls:
        if name := as_text(call.get("name")):
            yield ToolCall(as_text(call.get("id")), name, parse_input(call.get("args")))


def list_part_texts(content: object) -> Iterator[str]:
    """Yield the texts in a string or list of parts, with placeholders for images and documents."""
    if isinstance(content, str) and content:
        yield content
    for part in list_blocks(content):
        if part.get("thought") is True:
            continue
        if text := as_text(part.get("text")):
            yield text
        elif isinstance(data := part.get("inlineData") or part.get("fileData"), dict):
            yield IMAGE if as_text(data.get("mimeType")).startswith("image/") else DOCUMENT


READER = TranscriptReader(("tmp/*/chats/*.jsonl",), _detect, *read_in_order(_read_all), _read_head)
