"""Codex's rollouts as messages. Nothing in them has an id that lasts, so the messages have none.

    response_item   the conversation: messages, calls and their results; what stands together of the assistant is one
    event_msg       mostly the same again for a screen. `thread_rolled_back` counts, it takes turns away; and so does
                    what a script of the model's called (`exec`, the only tool of newer models): it stands nowhere else
    compacted       a summary, as meta; what was said before it stays
    the rest        session_meta, turn_context and others: left out

Instructions, the environment, notices and other wrappers that Codex sends in the user's name are meta; of a message
from an editor only the request counts. Rollouts of 2025 without `payload` are read too. Thoughts are left out.
"""

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO
from urllib.parse import unquote

from memdir.conversation.lines import (
    Json,
    join_texts,
    list_texts,
    make_place,
    parse_input,
    parse_records,
    read_at,
    read_lines_back,
    read_record_places,
    read_text,
)
from memdir.frozen import replace
from memdir.records import Message, ToolCall

REQUEST_MARK = "## My request for Codex:"  # an editor's context stands before it
_WRAPPED = re.compile(r"<([a-z]+(?:_[a-z]+)+|skill|tools|INSTRUCTIONS)(?:\s[^<>]*)?>.*</\1>", re.DOTALL)
_AGENTS_FILE = re.compile(r"# AGENTS\.md instructions.*</INSTRUCTIONS>", re.DOTALL)
_NESTED = "exec-"  # how the id of a call begins that a script made
_FAILED_SCRIPT = "Script failed\n"
_PATCH_WORDS = {"add": "Add", "delete": "Delete"}
_EXIT = re.compile(r"(?:Exit code|Process exited with code):? (-?\d+)$")
_EXIT_LINES = 4  # it stands among the first, before what the command printed
_CALLS = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
_RESULTS = frozenset(("function_call_output", "custom_tool_call_output"))
_TURNS_MOST = 1_000_000


def read_rollout(file: BinaryIO, *, count: int = 0) -> Iterator[Message]:
    """The conversation, or at least its last `count` messages."""
    records = read_record_places(file, _list_kept(file, count))
    return merge(message for record in records for message in make_messages(record))


def merge(messages: Iterable[Message]) -> Iterator[Message]:
    """What the assistant says and calls without waiting for an answer is one message."""
    open_one: Message | None = None
    for message in messages:
        if open_one and message.role == "assistant" and not message.is_meta:
            text = "\n\n".join(filter(None, (open_one.text, message.text)))
            open_one = replace(open_one, text=text, calls=open_one.calls + message.calls)
            continue
        if open_one:
            yield open_one
        open_one = message if message.role == "assistant" and not message.is_meta else None
        if not open_one:
            yield message
    if open_one:
        yield open_one


def make_messages(record: Json) -> Iterator[Message]:
    """The messages of one line."""
    kind, at = record.get("type"), read_at(record)
    item = record.get("payload")
    if kind == "compacted" and isinstance(item, dict):
        if text := read_text(item.get("message")):
            yield Message("user", text, at=at, is_meta=True)
        return
    if kind == "event_msg" and isinstance(item, dict):
        if call := _find_nested(item):
            yield Message("assistant", "", at=at, calls=(call,))
        return
    item = item if isinstance(item, dict) and kind == "response_item" else record
    what = read_text(item.get("type"))
    if what == "message":
        yield from (replace(message, at=at) for message in _make_said(item))
    elif what in _CALLS:
        yield Message("assistant", "", at=at, calls=(_make_call(item, what),))
    elif what in _RESULTS:
        text, failed = _read_output(item.get("output"))
        yield Message("tool", text, at=at, answers=read_text(item.get("call_id")), failed=failed)


def _make_said(item: Json) -> Iterator[Message]:
    role, texts = read_text(item.get("role")), [text for text in list_texts(item.get("content")) if text]
    if role == "assistant" and texts:
        yield Message("assistant", "\n\n".join(texts))
    elif role in ("developer", "system") and texts:
        yield Message("user", "\n\n".join(texts), is_meta=True)
    elif role == "user":
        wrapped = [text for text in texts if _is_wrapped(text)]
        typed = [_strip_editor(text) for text in texts if not _is_wrapped(text)]
        if wrapped:
            yield Message("user", "\n\n".join(wrapped), is_meta=True)
        if any(typed):
            yield Message("user", "\n\n".join(filter(None, typed)))


def _make_call(item: Json, what: str) -> ToolCall:
    id = read_text(item.get("call_id")) or read_text(item.get("id"))
    if what == "local_shell_call":
        return ToolCall(id, "local_shell", parse_input(item.get("action")))
    name = "__".join(filter(None, (read_text(item.get("namespace")).strip("_"), read_text(item.get("name")))))
    return ToolCall(id, name, parse_input(item.get("arguments" if what == "function_call" else "input")))


def _find_nested(event: Json) -> ToolCall | None:
    """What a script has called and done, in the words of the tool itself; what failed has changed nothing."""
    item = event.get("item")
    if event.get("type") != "item_completed" or not isinstance(item, dict) or item.get("status") != "completed":
        return None
    id, what = read_text(item.get("id")), item.get("type")
    if not id.startswith(_NESTED):
        return None
    if what == "CommandExecution":
        cwd = read_text(item.get("cwd"))
        cwd = unquote(cwd.removeprefix("file://")) if cwd.startswith("file://") else cwd
        return ToolCall(id, "exec_command", {"command": item.get("command"), "workdir": cwd})
    if what == "McpToolCall":
        name = f"mcp__{read_text(item.get('server'))}__{read_text(item.get('tool'))}"
        return ToolCall(id, name, parse_input(item.get("arguments")))
    changes = item.get("changes")
    if what == "FileChange" and isinstance(changes, dict):
        lines = [line for path, change in changes.items() for line in _render_change(path, change)]
        return ToolCall(id, "apply_patch", {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))})
    return None


def _render_change(path: str, change: object) -> Iterator[str]:
    given: Mapping[str, object] = change if isinstance(change, dict) else {}
    yield f"*** {_PATCH_WORDS.get(read_text(given.get('type')), 'Update')} File: {path}"
    if moved := read_text(given.get("move_path")):
        yield f"*** Move to: {moved}"


def _read_output(output: object) -> tuple[str, bool]:
    """What a tool answered, and whether it failed: as text, as JSON in text, as a table or as blocks."""
    if isinstance(output, str) and output.lstrip().startswith('{"output"'):
        try:
            output = json.loads(output)
        except (ValueError, RecursionError):
            pass
    if not isinstance(output, dict):
        text = join_texts(output)
        return text, _has_failed(text) or text.startswith(_FAILED_SCRIPT)
    facts = output.get("metadata")
    code = facts.get("exit_code") if isinstance(facts, dict) else 0
    text = join_texts(output.get("output")) or join_texts(output.get("content"))
    return text, code not in (0, None) or output.get("success") is False


def _has_failed(text: str) -> bool:
    for line in text.split("\n", _EXIT_LINES)[:_EXIT_LINES]:
        if line == "Output:":
            break
        if exited := _EXIT.match(line):
            return exited[1] != "0"
    return False


def _is_wrapped(text: str) -> bool:
    whole = text.strip()
    return bool(_WRAPPED.fullmatch(whole) or _AGENTS_FILE.fullmatch(whole))


def _strip_editor(text: str) -> str:
    before, mark, request = text.partition(REQUEST_MARK)
    return request.strip() if mark and before.lstrip().startswith("# ") else text


def _list_kept(file: BinaryIO, count: int) -> list[int]:
    """Where the records are whose messages were not taken back, first to last: read backwards, as a rollback comes
    after what it takes away. With a `count`, one message more, so that the first of those asked for is whole."""
    kept = array("Q")
    turns, merged, last = 0, 0, ""
    for place, record in _read_back(file):
        turns = min(turns + _count_rolled_back(record), _TURNS_MOST)
        made = list(make_messages(record))
        if turns:
            turns -= any(message.role == "user" and not message.is_meta for message in made)
        elif made:
            kept.append(place)
            merged += made[-1].role != "assistant" or last != "assistant"
            last = made[0].role
            if count and merged > count:
                break
    return kept[::-1].tolist()


def _read_back(file: BinaryIO) -> Iterator[tuple[int, Json]]:
    for line in read_lines_back(file):
        records = parse_records(line.data) if line.is_whole else []
        for index in range(len(records) - 1, -1, -1):
            yield make_place(line.offset, index), records[index]


def _count_rolled_back(record: Json) -> int:
    event = record.get("payload")
    if record.get("type") != "event_msg" or not isinstance(event, dict) or event.get("type") != "thread_rolled_back":
        return 0
    turns = event.get("num_turns")
    return turns if isinstance(turns, int) and turns > 0 else 0
