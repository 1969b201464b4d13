"""Gemini CLI's chats as messages; a message has the id of its record, a tool's result that of its call.

    {"id": …, "type": …}       a message, written again when more comes to it: the last counts, where the first stood
    {"$set": {"messages": …}}  the history as the client now sends it, after a resume or a compression: what is new is
                               taken, and nothing is taken away, because what was said before counts
    {"$rewindTo": id}          this message and what followed it are gone
    the rest                   the head, times, summaries: left out

What hooks and the client say in the user's name (`<hook_context>`, `<session_context>`, files named by `@`) is meta;
our own reminders are among it. Thoughts, notices and errors are left out.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from memdir.frozen import dataclass
from memdir.records import Message, ToolCall
from memdir.transcripts.blocks import DOCUMENT, IMAGE, list_blocks, parse_input, read_text
from memdir.transcripts.formats import read_at
from memdir.transcripts.lines import Json, Line, parse_records, read_line, read_lines

_HOOKS = re.compile(r"<hook_context>(.*?)</hook_context>\s*", re.DOTALL)  # the client writes no `<` of theirs between
_WHOLE = ("<session_context>", "<state_snapshot>", "This is the Gemini CLI. We are setting up the context")
_FILES, _FILES_END = "--- Content from referenced files ---", "--- End of content ---"
_EXIT = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_EXIT_CHARS = 300  # it stands at the end of what a shell answered
# Most lines need not be parsed to know where they belong.
_START = re.compile(rb'\{"id":"([^"\\]{1,200})","timestamp":"[^"\\]*","type":"(\w+)"')
_SPEAKERS = ("user", "gemini")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a message lies: its line, and its number in a list of messages there, -1 for a line of its own."""

    offset: int
    number: int
    is_user: bool


def read_chat(file: BinaryIO, *, count: int = 0) -> Iterator[Message]:
    """The conversation, or at least its last `count` messages."""
    places = _list_places(file)
    size = count + 1
    while count and size < len(places):
        # A user's record may answer the calls of the one before, and is read with it.
        while size < len(places) and places[-size].is_user:
            size += 1
        messages = list(_read_places(file, places[-size:]))
        if len(messages) > count:
            return iter(messages)
        size *= 2
    return _read_places(file, places)


def _read_places(file: BinaryIO, places: Sequence[_Place]) -> Iterator[Message]:
    answered: frozenset[str] = frozenset()
    for place in places:
        record = _read_record(file, place)
        if record.get("type") == "gemini":
            answered = frozenset(read_text(call.get("id")) for call in _list_done(record))
            yield from _make_said(record)
        else:
            yield from _make_asked(record, answered)


def _list_places(file: BinaryIO) -> list[_Place]:
    """The messages that stand, first to last."""
    kept: dict[str, _Place] = {}
    file.seek(0)
    for _, line in read_lines(file):
        start = _START.match(line.data)
        if start and line.is_whole and line.data.rstrip().endswith(b"}"):
            kind = start[2].decode("ascii", "replace")
            if kind in _SPEAKERS:
                kept[start[1].decode("utf-8", "replace")] = _Place(line.offset, -1, kind == "user")
        elif line.is_whole:
            _take_record(line, kept)
    return list(kept.values())


def _take_record(line: Line, kept: dict[str, _Place]) -> None:
    for record in parse_records(line.data):
        if back := read_text(record.get("$rewindTo")):
            ids = list(kept)
            for id in ids[ids.index(back) :] if back in kept else ids:
                del kept[id]
        elif (id := read_text(record.get("id"))) and record.get("type") in _SPEAKERS:
            kept[id] = _Place(line.offset, -1, record.get("type") == "user")
        for number, message in enumerate(_list_listed(record)):
            # Results of tools get new ids there, and stand with their calls already.
            if (id := read_text(message.get("id"))) and message.get("type") in _SPEAKERS and not _is_result(message):
                kept.setdefault(id, _Place(line.offset, number, message.get("type") == "user"))


def _is_result(record: Json) -> bool:
    parts = list(list_blocks(record.get("content")))
    return bool(parts) and all("functionResponse" in part for part in parts)


def _read_record(file: BinaryIO, place: _Place) -> Json:
    for record in parse_records(read_line(file, place.offset)):
        if place.number < 0 and "id" in record:
            return record
        listed = _list_listed(record)
        if 0 <= place.number < len(listed):
            return listed[place.number]
    return {}  # gone meanwhile


def _list_listed(record: Json) -> list[Json]:
    about = record.get("$set")
    messages = (about if isinstance(about, dict) else record).get("messages")
    return [at if isinstance(at, dict) else {} for at in messages] if isinstance(messages, list) else []


# --- what a record says -----------------------------------------------------------------------------------------------


def _make_asked(record: Json, answered: frozenset[str]) -> Iterator[Message]:
    at, content = read_at(record), record.get("content")
    for part in list_blocks(content):
        response = part.get("functionResponse")
        if isinstance(response, dict) and read_text(response.get("id")) not in answered:
            yield _make_result(response, record)
    typed, meta = _split(_list_texts(content))
    if "displayContent" in record:  # what was typed, before files and recalled memories came to it
        typed, _ = _split(_list_texts(record.get("displayContent")))
    if meta:
        yield Message("user", meta, at=at, is_meta=True)
    if typed:
        yield Message("user", typed, id=read_text(record.get("id")), at=at)


def _make_said(record: Json) -> Iterator[Message]:
    text = "\n\n".join(_list_texts(record.get("content")))
    calls = tuple(
        ToolCall(read_text(call.get("id")), str(call["name"]), parse_input(call.get("args")))
        for call in list_blocks(record.get("toolCalls"))
        if isinstance(call.get("name"), str)
    )
    if text or calls:
        yield Message("assistant", text, id=read_text(record.get("id")), at=read_at(record), calls=calls)
    for call in _list_done(record):
        responses = [part.get("functionResponse") for part in list_blocks(call.get("result"))]
        found = next((at for at in responses if isinstance(at, dict)), {})
        yield _make_result({**found, "id": call.get("id")}, record, failed=call.get("status") != "success")


def _list_done(record: Json) -> list[Json]:
    """The calls whose end is on record."""
    return [
        dict(call)
        for call in list_blocks(record.get("toolCalls"))
        if call.get("result") or _is_ended(call.get("status"))
    ]


def _is_ended(status: object) -> bool:
    return status in ("success", "error", "cancelled")


def _make_result(response: Json, record: Json, *, failed: bool = False) -> Message:
    given = response.get("response")
    given = given if isinstance(given, dict) else {}
    text = read_text(given.get("output")) or read_text(given.get("error"))
    exited = _EXIT.search(text[-_EXIT_CHARS:])
    id = read_text(response.get("id"))
    failed = failed or "error" in given or bool(exited and exited[1] != "0")
    return Message("tool", text, id=id, at=read_at(record), answers=id, failed=failed)


def _list_texts(content: object) -> Iterator[str]:
    """The texts of a content, which is a text or parts; a word in brackets for what is none."""
    if isinstance(content, str) and content:
        yield content
    for part in list_blocks(content):
        if part.get("thought") is True:
            continue
        if text := read_text(part.get("text")):
            yield text
        elif isinstance(data := part.get("inlineData") or part.get("fileData"), dict):
            yield IMAGE if read_text(data.get("mimeType")).startswith("image/") else DOCUMENT


def _split(texts: Iterator[str]) -> tuple[str, str]:
    """What the person typed, and what was put beside it."""
    typed, meta, is_file = [], [], False
    for text in texts:
        is_file = is_file or text.strip().startswith(_FILES)
        if is_file or text.lstrip().startswith(_WHOLE):
            meta.append(text)
            is_file = is_file and text.strip() != _FILES_END
            continue
        meta += _HOOKS.findall(text)
        typed.append(_HOOKS.sub("", text))
    return _join(typed), _join(meta)


def _join(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in (at.strip() for at in texts) if text)
