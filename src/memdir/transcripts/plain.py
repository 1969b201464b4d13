"""Plain conversations as messages: `[{"role": …, "content": …}]`, `{"messages": […]}`, or one such message a line.

Content is a string or blocks, in the shape of either large API; `tool_calls` and `tool_call_id` are understood. A
system message is meta. These messages have no ids. One element is held at a time, so a large file needs little
memory; what follows a damaged element of an array cannot be told apart and is left out, while a damaged line costs only
itself.
"""

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

from memdir.records import Message, ToolCall
from memdir.store.contract import read_time
from memdir.transcripts.blocks import join_texts, list_blocks, list_calls, list_results, parse_input, read_text
from memdir.transcripts.lines import LINE_BYTES, Json, parse_records, read_lines

_DECODER = json.JSONDecoder()
_TIMES = ("timestamp", "created_at", "at", "date")
_SPACE = " \t\r\n\0\ufeff"
_PIECE = 65_536  # read at once
_END = object()


def read_plain(file: BinaryIO) -> Iterator[Message]:
    file.seek(0)
    if is_lines(file):
        for _, line in read_lines(file):
            for record in parse_records(line.data if line.is_whole else b""):
                yield from make_messages(record)
    else:
        for record in _read_document(file):
            yield from make_messages(record)


def is_lines(file: BinaryIO) -> bool:
    """Whether each line is a message: then some line among the first is one by itself."""
    found = False
    for number, line in read_lines(file):
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
