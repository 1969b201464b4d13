"""Gemini CLI's chats as messages; a message has the id of its record, a tool's result that of its call.

    {"id": …, "type": …}       a message, written again when more comes to it: the last counts, where the first stood
    {"$set": {"messages": …}}  the history as the client now sends it, after a resume or a compression: what is new is
                               taken, copies are not, and nothing is taken away, because what was said before counts
    {"$rewindTo": id}          this message and what followed it are gone
    the rest                   the head, times, summaries: left out

What hooks and the client say in the user's name (`<hook_context>`, `<session_context>`, files named by `@`) is meta;
our own reminders are among it. Thoughts, notices and errors are left out.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from memdir.conversation.lines import (
    DOCUMENT,
    IMAGE,
    LINE_BYTES,
    Json,
    TranscriptLine,
    join_texts,
    list_blocks,
    list_calls,
    list_results,
    parse_input,
    parse_records,
    read_at,
    read_line,
    read_text,
    read_transcript_lines,
)
from memdir.frozen import dataclass
from memdir.records import Message, ToolCall
from memdir.store.contract import read_time

# --- gemini ---

_HOOK, _HOOK_END = "<hook_context>", "</hook_context>"  # the client writes no `<` of theirs between
_WHOLE = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_SNAPSHOT = "<state_snapshot>"  # the model's thoughts may stand before it
_FILES, _FILES_END = "--- Content from referenced files ---", "--- End of content ---"
_EXIT = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_EXIT_CHARS = 300  # it stands at the end of what a shell answered
# Most lines need not be parsed to know where they belong.
_START = re.compile(rb'\{"id":"([^"\\]{1,200})","timestamp":"[^"\\]*","type":"(\w+)"')
_GLUED = b'}{"'  # stands in no record, but for the end of a text
_SPEAKERS = ("user", "gemini")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a message lies: its line, the record there, and its number in a list of that record's, -1 for none."""

    offset: int
    index: int
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
        messages = list(_make_messages(file, places[-size:]))
        if len(messages) > count:
            return iter(messages)
        size *= 2
    return _make_messages(file, places)


def _make_messages(file: BinaryIO, places: Iterable[_Place]) -> Iterator[Message]:
    answered: frozenset[str] = frozenset()
    for record in _read_places(file, places):
        if record.get("type") == "gemini":
            answered = frozenset(read_text(call.get("id")) for call in _list_done(record))
            yield from _make_said(record)
        else:
            yield from _make_asked(record, answered)


def _read_places(file: BinaryIO, places: Iterable[_Place]) -> Iterator[Json]:
    """The records there; a line that has many is read once for all that stand together."""
    offset, records = -1, list[Json]()
    for place in places:
        if place.offset != offset:
            offset, records = place.offset, parse_records(read_line(file, place.offset))
        record = records[place.index] if place.index < len(records) else {}
        listed = _list_listed(record) if place.number >= 0 else [record]
        number = max(place.number, 0)
        yield listed[number] if number < len(listed) else {}  # gone meanwhile


def _list_places(file: BinaryIO) -> list[_Place]:
    """The messages that stand, first to last."""
    reading = _Reading(file)
    file.seek(0)
    for _, line in read_transcript_lines(file):
        reading.take(line)
    return list(reading.kept.values())


class _Reading:
    """Which messages stand as far as a chat was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.kept: dict[str, _Place] = {}
        self._listed: set[str] = set()
        self._copies: dict[str, int] = {}  # ids of what stands under another id -> where the history was that had them

    def take(self, line: TranscriptLine) -> None:
        if not line.is_whole:
            return
        start = _START.match(line.data)
        # Only a sound record may take another's place, and two may stand in one line: these are parsed.
        if start and line.data.rstrip().endswith(b"}") and _GLUED not in line.data:
            id, kind = start[1].decode("utf-8", "replace"), start[2].decode("ascii", "replace")
            if kind not in _SPEAKERS:
                return
            if id not in self.kept and id not in self._copies:
                self.kept[id] = _Place(line.offset, 0, -1, kind == "user")
                return
        at = self._file.tell()
        for index, record in enumerate(parse_records(line.data)):
            self._take_record(record, line.offset, index)
        self._file.seek(at)  # copies are looked for in what was read before

    def _take_record(self, record: Json, offset: int, index: int) -> None:
        id, is_user = read_text(record.get("id")), record.get("type") == "user"
        if back := read_text(record.get("$rewindTo")):
            self._rewind(back)
        elif id and record.get("type") in _SPEAKERS and not (is_user and id in self._copies):
            self.kept[id] = _Place(offset, index, -1, is_user)
        listed = {
            id: (_Place(offset, index, number, message.get("type") == "user"), message)
            for number, message in enumerate(_list_listed(record))
            if (id := read_text(message.get("id"))) and message.get("type") in _SPEAKERS
        }
        new = {id: message for id, (_, message) in listed.items() if id not in self._listed}
        self._listed |= listed.keys()
        if self.kept and self._has_copies(new):
            self._leave_out_copies(new, offset)
        for id, (place, message) in listed.items():
            # Results of tools get new ids there, and stand with their calls already.
            if id not in self._copies and not _is_result(message):
                self.kept.setdefault(id, place)

    def _rewind(self, back: str) -> None:
        ids = list(self.kept)
        if back in self.kept:
            ids = ids[ids.index(back) :]
        elif back in self._copies:
            ids = [id for id in ids if self.kept[id].offset > self._copies[back]]
        for id in ids:
            del self.kept[id]

    def _has_copies(self, new: Mapping[str, Json]) -> bool:
        """A compression gives new ids to what it keeps, and so does the masking of long results, which writes a record
        for each besides. What the model said has no `model` then."""
        bare = [id for id, at in new.items() if at.get("type") == "gemini" and "model" not in at]
        return not all(id in self.kept for id in bare) or any("model" not in at for at in self._read_kept(bare))

    def _leave_out_copies(self, new: Mapping[str, Json], offset: int) -> None:
        """Nothing in such a history was said anew."""
        old = self._read_kept([id for id in self.kept if id not in new])
        known = {key for record in old for key in _list_keys(record)}
        own = [id for id in new if id in self.kept]
        real = {id for id, record in zip(own, self._read_kept(own), strict=True) if "model" in record}
        for id, message in new.items():
            if id not in self.kept or (id not in real and known.issuperset(_list_keys(message))):
                self._copies[id] = offset
                self.kept.pop(id, None)

    def _read_kept(self, ids: Sequence[str]) -> Iterator[Json]:
        return _read_places(self._file, [self.kept[id] for id in ids])


def _list_keys(record: Json) -> Iterator[int]:
    """The texts of a message, each as a number."""
    is_user = record.get("type") == "user"
    return (hash((is_user, text.strip())) for text in _list_texts(record.get("content")) if text.strip())


def _is_result(record: Json) -> bool:
    parts = list(list_blocks(record.get("content")))
    return bool(parts) and all("functionResponse" in part for part in parts)


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
        if is_file or text.lstrip().startswith(_WHOLE) or _SNAPSHOT in text:
            meta.append(text)
            is_file = is_file and text.strip() != _FILES_END
            continue
        own, said = _cut_hooks(text)
        typed.append(own)
        meta += said
    return _join(typed), _join(meta)


def _cut_hooks(text: str) -> tuple[str, list[str]]:
    """A text without what hooks have said in it, and that."""
    own, said, at = list[str](), list[str](), 0
    while (start := text.find(_HOOK, at)) >= 0 and (end := text.find(_HOOK_END, start)) >= 0:
        own.append(text[at:start])
        said.append(text[start + len(_HOOK) : end])
        at = end + len(_HOOK_END)
    return "".join((*own, text[at:])), said


def _join(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in (at.strip() for at in texts) if text)


# --- plain ---
# Plain conversations as messages: `[{"role": …, "content": …}]`, `{"messages": […]}`, or one such message a line.
#
# Content is a string or blocks, in the shape of either large API; `tool_calls` and `tool_call_id` are understood. A
# system message is meta. These messages have no ids. One element is held at a time, so a large file needs little
# memory; what follows a damaged element of an array cannot be told apart and is left out, while a damaged line costs
# only
# itself.

_DECODER = json.JSONDecoder()
_TIMES = ("timestamp", "created_at", "at", "date")
_SPACE = " \t\r\n\0\ufeff"
_PIECE = 65_536  # read at once
_END = object()


def read_plain(file: BinaryIO) -> Iterator[Message]:
    file.seek(0)
    if is_lines(file):
        for _, line in read_transcript_lines(file):
            for record in parse_records(line.data if line.is_whole else b""):
                yield from make_messages(record)
    else:
        for record in _read_document(file):
            yield from make_messages(record)


def is_lines(file: BinaryIO) -> bool:
    """Whether each line is a message: then some line among the first is one by itself."""
    found = False
    for number, line in read_transcript_lines(file):
        found = any("role" in record for record in parse_records(line.data if line.is_whole else b""))
        if found or number >= 50:
            break
    file.seek(0)
    is_array = file.read(_PIECE).lstrip(b"\xef\xbb\xbf\0 \t\r\n").startswith(b"[")
    file.seek(0)
    return found and not is_array


def make_messages(record: Json) -> Iterator[Message]:
    """The messages of one element; none if it is something else."""
    role, content = read_text(record.get("role")), record.get("content")
    at = next((time for key in _TIMES if (time := read_time(read_text(record.get(key))))), None)
    text = join_texts(content)
    for result in list_results(content):
        yield Message("tool", result.text, at=at, answers=result.answers, failed=result.failed)
    if role in ("tool", "function"):
        yield Message("tool", text, at=at, answers=read_text(record.get("tool_call_id")))
    elif role in ("system", "developer") and text:
        yield Message("user", text, at=at, is_meta=True)
    elif role in ("user", "human") and text:
        yield Message("user", text, at=at, is_meta=record.get("is_meta") is True)
    elif role in ("assistant", "model", "ai"):
        calls = (*list_calls(content), *_list_functions(record.get("tool_calls")))
        if text or calls:
            yield Message("assistant", text, at=at, calls=calls)


def _list_functions(calls: object) -> Iterator[ToolCall]:
    for call in list_blocks(calls):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield ToolCall(read_text(call.get("id")), function["name"], parse_input(function.get("arguments")))


def _read_document(file: BinaryIO) -> Iterator[Json]:
    """The elements of the array, or of the array under `messages`."""
    file.seek(0)
    window = _Window(file)
    if window.take() == "{":
        while (key := window.decode()) is not _END and window.take() == ":" and key != "messages":
            if window.decode() is _END or window.take() != ",":
                return
        if key != "messages" or window.take() != "[":
            return
    while (element := window.decode()) is not _END:
        if isinstance(element, dict):
            yield element
        if window.take() != ",":
            return


class _Window:
    """A JSON text read piece by piece: only the value that is being decoded is in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text, self._at = "", 0
        self._is_over = False

    def take(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                self._at += 1
                return self._text[self._at - 1]
            if self._is_over:
                return ""
            self._grow()

    def decode(self) -> object:
        """The next value; _END where there is none, where it is damaged, and where it is too large."""
        if self.take() in ("", "]", "}"):
            return _END
        self._at -= 1
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                return _END
            except ValueError:
                end = -1
            # A number might go on where the text ends, so a value counts when something follows it.
            if end >= 0 and (end < len(self._text) or self._is_over):
                self._at = end
                return value
            if self._is_over or len(self._text) - self._at > LINE_BYTES:
                return _END
            self._grow()

    def _grow(self) -> None:
        """Read on, as much again as is there: a value is decoded anew each time, and must not cost its square."""
        data = self._file.read(max(_PIECE, len(self._text) - self._at))
        self._text = self._text[self._at :] + self._decoder.decode(data, not data)
        self._at = 0
        self._is_over = not data
