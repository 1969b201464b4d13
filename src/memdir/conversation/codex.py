"""Read Codex rollouts as messages. Records have no IDs, so a message is identified by the position and checksum of its last
record, which never changes.

    response_item   messages, calls and their results; adjacent messages of the assistant are merged
    event_msg       mostly copies for display. Two kinds are used: `thread_rolled_back`, which removes turns, and the
                    calls made by a script of the model (`exec`), which are recorded nowhere else
    compacted       a summary, marked as meta; the messages before it are kept

Instructions, environment, notices and other text that Codex sends as the user are marked as meta. Of a message from an editor,
only the request is kept. Everything else, including thinking, is ignored.
"""

import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from memdir.conversation.lines import (
    Json,
    RecordQuery,
    RecordSelection,
    TranscriptHead,
    TranscriptReader,
    join_texts,
    list_texts,
    parse_input,
    read_at,
    read_line,
    read_records_at,
    read_records_back,
    split_position,
)
from memdir.conversation.typed import split_codex_parts
from memdir.frozen import replace
from memdir.records import Message, ToolCall
from memdir.text import as_table, as_text, parse_json

_FILES = ("sessions/*/*/*/rollout-*.jsonl", "sessions/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl")
_TYPES = frozenset("session_meta response_item event_msg turn_context compacted world_state".split())
_NESTED = "exec-"  # prefix of the IDs of calls that a script of the model made
_PATCH_WORDS = {"add": "Add", "delete": "Delete"}
_EXIT = re.compile(r"(?:Exit code|Process exited with code):? (-?\d+)$")
_EXIT_LINES = 4  # the exit code is in one of the first lines, before the command's output
_CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
_RESULTS = frozenset(("function_call_output", "custom_tool_call_output"))
_MAX_TURNS = 1_000_000
_ID = re.compile(r"[0-9a-f]{1,15}\.[0-9a-f]{8}")


def _detect(record: Json) -> bool:
    return as_text(record.get("type")) in _TYPES and isinstance(record.get("payload"), dict)


def _read_head(record: Json, path: Path) -> TranscriptHead:
    about = as_table(record.get("payload"))
    if record.get("type") != "session_meta":
        return TranscriptHead(cwd=as_text(about.get("cwd")))
    source = about.get("source")
    is_subagent = bool(
        {"subagent", "sub_agent"} & as_table(source).keys()
        or as_text(about.get("thread_source")) in ("subagent", "memory_consolidation")
        or about.get("parent_thread_id")
    )
    return TranscriptHead(as_text(about.get("id")), as_text(about.get("cwd")), None, is_subagent, source == "exec")


def _find(file: BinaryIO, query: RecordQuery) -> RecordSelection:
    """Return the positions of the records that were not rolled back."""
    start = int(query.after.partition(".")[0], 16) if _ID.fullmatch(query.after) else -1
    start = start if start >= 0 and _make_id(file, start) == query.after else -1
    return RecordSelection(_list_positions(file, 0 if start >= 0 else query.count, start), start >= 0)


def _read_messages(file: BinaryIO, selection: RecordSelection) -> Iterator[Message]:
    records = ((position, record) for position in selection.positions for record in read_records_at(file, [position]))
    named = (
        replace(message, id=_make_id(file, position))
        for position, record in records
        for message in make_messages(record)
    )
    return merge(named)


def _make_id(file: BinaryIO, position: int) -> str:
    offset, _ = split_position(position)
    return f"{position:x}.{zlib.crc32(read_line(file, offset).rstrip()):08x}"


def merge(messages: Iterable[Message]) -> Iterator[Message]:
    """Merge adjacent assistant messages."""
    open_one: Message | None = None
    for message in messages:
        if open_one and message.role == "assistant" and not message.is_meta:
            text = "\n\n".join(filter(None, (open_one.text, message.text)))
            open_one = replace(open_one, id=message.id, text=text, calls=open_one.calls + message.calls)
            continue
        yield from filter(None, [open_one])
        open_one = message if message.role == "assistant" and not message.is_meta else None
        if not open_one:
            yield message
    yield from filter(None, [open_one])


def make_messages(record: Json) -> Iterator[Message]:
    kind, sent_at, item = record.get("type"), read_at(record), as_table(record.get("payload"))
    what = as_text(item.get("type")) if kind == "response_item" else ""
    if kind == "compacted" and (text := as_text(item.get("message"))):
        yield Message("user", text, at=sent_at, is_meta=True)
    elif kind == "event_msg" and (call := _find_script_call(item)):
        yield Message("assistant", "", at=sent_at, calls=(call,))
    elif what == "message":
        yield from (replace(message, at=sent_at) for message in _make_text_messages(item))
    elif what in _CALLS:
        yield Message("assistant", "", at=sent_at, calls=(_make_call(item, what),))
    elif what in _RESULTS:
        text, failed = _read_output(item.get("output"))
        yield Message("tool", text, at=sent_at, answers=as_text(item.get("call_id")), failed=failed)


def _make_text_messages(item: Json) -> Iterator[Message]:
    role, texts = as_text(item.get("role")), [text for text in list_texts(item.get("content")) if text]
    if role == "assistant" and texts:
        yield Message("assistant", "\n\n".join(texts))
    elif role in ("developer", "system") and texts:
        yield Message("user", "\n\n".join(texts), is_meta=True)
    elif role == "user":
        typed, inserted = split_codex_parts(texts)
        if inserted:
            yield Message("user", inserted, is_meta=True)
        if typed:
            yield Message("user", typed)


def _make_call(item: Json, what: str) -> ToolCall:
    id = as_text(item.get("call_id")) or as_text(item.get("id"))
    if what == "local_shell_call":
        return ToolCall(id, "local_shell", parse_input(item.get("action")))
    name = "__".join(filter(None, (as_text(item.get("namespace")).strip("_"), as_text(item.get("name")))))
    return ToolCall(id, name, parse_input(item.get("arguments" if what == "function_call" else "input")))


def _find_script_call(event: Json) -> ToolCall | None:
    """Return a completed tool call made by a script. Returns None for other events and for failed calls."""
    item = as_table(event.get("item"))
    id, what = as_text(item.get("id")), item.get("type")
    if event.get("type") != "item_completed" or item.get("status") != "completed" or not id.startswith(_NESTED):
        return None
    if what == "CommandExecution":
        cwd = as_text(item.get("cwd"))
        cwd = unquote(cwd.removeprefix("file://")) if cwd.startswith("file://") else cwd
        return ToolCall(id, "exec_command", {"command": item.get("command"), "workdir": cwd})
    if what == "McpToolCall":
        name = f"mcp__{as_text(item.get('server'))}__{as_text(item.get('tool'))}"
        return ToolCall(id, name, parse_input(item.get("arguments")))
    changes = item.get("changes")
    if what == "FileChange" and isinstance(changes, dict):
        lines = []
        for path, change in changes.items():
            lines.append(f"*** {_PATCH_WORDS.get(as_text(as_table(change).get('type')), 'Update')} File: {path}")
            if moved := as_text(as_table(change).get("move_path")):
                lines.append(f"*** Move to: {moved}")
        return ToolCall(id, "apply_patch", {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))})
    return None


def _read_output(output: object) -> tuple[str, bool]:
    """Return the output of a tool as text, and whether the tool failed."""
    if isinstance(output, str) and output.lstrip().startswith('{"output"'):
        output = parse_json(output) or output
    if not isinstance(output, dict):
        text = join_texts(output)
        head = takewhile(lambda line: line != "Output:", text.split("\n", _EXIT_LINES)[:_EXIT_LINES])
        failed = next((exited[1] != "0" for line in head if (exited := _EXIT.match(line))), False)
        return text, failed or text.startswith("Script failed\n")
    code = as_table(output.get("metadata")).get("exit_code")
    text = join_texts(output.get("output")) or join_texts(output.get("content"))
    return text, code not in (0, None) or output.get("success") is False


def _list_positions(file: BinaryIO, count: int, start: int) -> list[int]:
    """Return the positions after `start` that were not rolled back. With `count`, the last `count` + 1 messages."""
    positions = array("Q")
    turns, merged, last = 0, 0, ""
    for position, record in read_records_back(file):
        if position <= start:
            break
        turns = min(turns + _count_rolled_back(record), _MAX_TURNS)
        messages = list(make_messages(record))
        if turns:
            turns -= any(message.role == "user" and not message.is_meta for message in messages)
        elif messages:
            positions.append(position)
            merged += messages[-1].role != "assistant" or last != "assistant"
            last = messages[0].role
            if count and merged > count:
                break
    return positions[::-1].tolist()


def _count_rolled_back(record: Json) -> int:
    event = as_table(record.get("payload"))
    turns = event.get("num_turns")
    is_rollback = record.get("type") == "event_msg" and event.get("type") == "thread_rolled_back"
    return turns if is_rollback and isinstance(turns, int) and turns > 0 else 0


READER = TranscriptReader(_FILES, _detect, _find, _read_messages, _read_head)
