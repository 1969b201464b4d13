"""Gemini CLI's chats as messages; a message has the id of its record, a tool's result the id of its call.

    {"id": …, "type": …}       a message; written again when it grows: the last version counts, at the first position
    {"$set": {"messages": …}}  the history as the client now sends it, after a resume or a compression: new messages are
                               added, copies are not, and nothing is removed
    {"$rewindTo": id}          this message and those after it are removed

What hooks and the client insert in the user's name (`<hook_context>` with our own reminders, `<session_context>`, files
named by `@`) is meta. Everything else (the head, times, summaries, thinking, notices, errors) is left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO

from memdir.conversation.lines import (
    DOCUMENT,
    IMAGE,
    Json,
    TranscriptLine,
    list_blocks,
    parse_input,
    parse_records,
    read_at,
    read_line,
    read_table,
    read_text,
    read_transcript_lines,
)
from memdir.frozen import dataclass
from memdir.records import Message, ToolCall

_HOOK, _HOOK_END = "<hook_context>", "</hook_context>"  # the client escapes every `<` between
_WHOLE = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_SNAPSHOT = "<state_snapshot>"  # the model's thinking may come before it
_FILES, _FILES_END = "--- Content from referenced files ---", "--- End of content ---"
_EXIT = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_EXIT_CHARS = 300  # the exit code is at the end of a shell's output
# Most lines need not be parsed to know their position.
_START = re.compile(rb'\{"id":"([^"\\]{1,200})","timestamp":"[^"\\]*","type":"(\w+)"')
_GLUED = b'}{"'  # two records on one line
_SPEAKERS = ("user", "gemini")


@dataclass(frozen=True, slots=True)
class _Position:
    """A message's line, the record on it, and the number in a list of that record, -1 if it is the record itself."""

    offset: int
    index: int
    number: int
    is_user: bool


def read_chat(file: BinaryIO, *, count: int = 0) -> Iterator[Message]:
    """The conversation, or at least its last `count` messages."""
    history = _History(file)
    file.seek(0)
    for _, line in read_transcript_lines(file):
        history.add(line)
    positions = list(history.kept.values())
    size = count + 1
    while count and size < len(positions):
        # A user's record may hold results of the record before, and is read with it.
        while size < len(positions) and positions[-size].is_user:
            size += 1
        messages = list(_make_messages(file, positions[-size:]))
        if len(messages) > count:
            return iter(messages)
        size *= 2
    return _make_messages(file, positions)


def _make_messages(file: BinaryIO, positions: Iterable[_Position]) -> Iterator[Message]:
    answered: frozenset[str] = frozenset()
    for record in _read_positions(file, positions):
        if record.get("type") == "gemini":
            answered = frozenset(read_text(call.get("id")) for call in _list_done(record))
            yield from _make_said(record)
        else:
            yield from _make_asked(record, answered)


def _read_positions(file: BinaryIO, positions: Iterable[_Position]) -> Iterator[Json]:
    """The records; a line with several of them is read once for neighbours."""
    offset, records = -1, list[Json]()
    for at in positions:
        if at.offset != offset:
            offset, records = at.offset, parse_records(read_line(file, at.offset))
        for record in records[at.index : at.index + 1] or [{}]:  # none if the file changed meanwhile
            yield record if at.number < 0 else next(islice(_list_listed(record), at.number, None), {})


class _History:
    """The messages that are part of the conversation, as far as the chat was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.kept: dict[str, _Position] = {}
        self._listed: set[str] = set()
        self._copies: dict[str, int] = {}  # ids of copies of kept messages -> offset of the history with the copy

    def add(self, line: TranscriptLine) -> None:
        if not line.is_whole:
            return
        start = _START.match(line.data)
        # A record that would replace another must be sound, and a line may hold two records: both are parsed.
        if start and line.data.rstrip().endswith(b"}") and _GLUED not in line.data:
            id, kind = start[1].decode("utf-8", "replace"), start[2].decode("ascii", "replace")
            if kind not in _SPEAKERS:
                return
            if id not in self.kept and id not in self._copies:
                self.kept[id] = _Position(line.offset, 0, -1, kind == "user")
                return
        at = self._file.tell()
        for index, record in enumerate(parse_records(line.data)):
            self._add_record(record, line.offset, index)
        self._file.seek(at)  # looking for copies reads earlier records

    def _add_record(self, record: Json, offset: int, index: int) -> None:
        id, is_user = read_text(record.get("id")), record.get("type") == "user"
        if back := read_text(record.get("$rewindTo")):
            self._rewind(back)
        elif id and record.get("type") in _SPEAKERS and not (is_user and id in self._copies):
            self.kept[id] = _Position(offset, index, -1, is_user)
        listed = {
            id: (_Position(offset, index, number, message.get("type") == "user"), message)
            for number, message in enumerate(_list_listed(record))
            if (id := read_text(message.get("id"))) and message.get("type") in _SPEAKERS
        }
        new = {id: message for id, (_, message) in listed.items() if id not in self._listed}
        self._listed |= listed.keys()
        if self.kept and self._has_copies(new):
            self._leave_out_copies(new, offset)
        for id, (position, message) in listed.items():
            # Results of tools get new ids there; they are kept with their calls already.
            parts = list(list_blocks(message.get("content")))
            is_result = bool(parts) and all("functionResponse" in part for part in parts)
            if id not in self._copies and not is_result:
                self.kept.setdefault(id, position)

    def _rewind(self, back: str) -> None:
        ids = list(self.kept)
        if back in self.kept:
            ids = ids[ids.index(back) :]
        elif back in self._copies:
            ids = [id for id in ids if self.kept[id].offset > self._copies[back]]
        for id in ids:
            del self.kept[id]

    def _has_copies(self, new: Mapping[str, Json]) -> bool:
        """Whether a history holds copies under new ids (after a compression, or when long results were masked):
        messages of the model have no `model` then."""
        bare = [id for id, at in new.items() if at.get("type") == "gemini" and "model" not in at]
        return not all(id in self.kept for id in bare) or any("model" not in at for at in self._read_kept(bare))

    def _leave_out_copies(self, new: Mapping[str, Json], offset: int) -> None:
        """Mark as copies what such a history repeats; nothing in it is new."""
        old = self._read_kept([id for id in self.kept if id not in new])
        known = {key for record in old for key in _list_keys(record)}
        own = [id for id in new if id in self.kept]
        real = {id for id, record in zip(own, self._read_kept(own), strict=True) if "model" in record}
        for id, message in new.items():
            if id not in self.kept or (id not in real and known.issuperset(_list_keys(message))):
                self._copies[id] = offset
                self.kept.pop(id, None)

    def _read_kept(self, ids: Sequence[str]) -> Iterator[Json]:
        return _read_positions(self._file, [self.kept[id] for id in ids])


def _list_keys(record: Json) -> Iterator[int]:
    is_user = record.get("type") == "user"
    return (hash((is_user, text.strip())) for text in _list_texts(record.get("content")) if text.strip())


def _list_listed(record: Json) -> list[Json]:
    about = record.get("$set")
    messages = (about if isinstance(about, dict) else record).get("messages")
    return [read_table(at) for at in messages] if isinstance(messages, list) else []


def _make_asked(record: Json, answered: frozenset[str]) -> Iterator[Message]:
    at, content = read_at(record), record.get("content")
    for part in list_blocks(content):
        response = part.get("functionResponse")
        if isinstance(response, dict) and read_text(response.get("id")) not in answered:
            yield _make_result(response, record)
    typed, meta = _split(_list_texts(content))
    if "displayContent" in record:  # the typed text, before files and recalled memories were added
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
        found: Json = next((at for at in responses if isinstance(at, dict)), {})
        yield _make_result({**found, "id": call.get("id")}, record, failed=call.get("status") != "success")


def _list_done(record: Json) -> list[Json]:
    """The calls whose end is recorded."""
    calls = list_blocks(record.get("toolCalls"))
    return [
        dict(call) for call in calls if call.get("result") or call.get("status") in ("success", "error", "cancelled")
    ]


def _make_result(response: Json, record: Json, *, failed: bool = False) -> Message:
    given = read_table(response.get("response"))
    text = read_text(given.get("output")) or read_text(given.get("error"))
    exited = _EXIT.search(text[-_EXIT_CHARS:])
    id = read_text(response.get("id"))
    failed = failed or "error" in given or bool(exited and exited[1] != "0")
    return Message("tool", text, id=id, at=read_at(record), answers=id, failed=failed)


def _list_texts(content: object) -> Iterator[str]:
    """The texts of a content (a text or parts), with a placeholder for a picture or a document."""
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
    """The text that the person typed, and the text that was inserted."""
    typed, meta, is_file = [], [], False
    for text in texts:
        own: list[str] = []
        is_file = is_file or text.strip().startswith(_FILES)
        if is_file or text.lstrip().startswith(_WHOLE) or _SNAPSHOT in text:
            meta.append(text)
            is_file = is_file and text.strip() != _FILES_END
            continue
        at = 0  # no pattern: on unclosed marks it would take quadratic time
        while (start := text.find(_HOOK, at)) >= 0 and (end := text.find(_HOOK_END, start)) >= 0:
            own.append(text[at:start])
            meta.append(text[start + len(_HOOK) : end])
            at = end + len(_HOOK_END)
        typed.append("".join((*own, text[at:])))
    return _join(typed), _join(meta)


def _join(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in (at.strip() for at in texts) if text)
