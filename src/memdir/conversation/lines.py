"""Shared code for reading transcripts: line readers in both directions, JSON records, and content blocks.

Transcript files get damaged: a truncated last line, runs of NUL, two records on one line, invalid UTF-8, a line of fifty
megabytes, which is skipped. Every read is bounded; readable parts are returned and the rest is skipped without an error. A file that grows
during the read is read up to its initial size. Each format has a module with a `READER`; a row in project/hosts.py names it.
"""

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from memdir.errors import DiskError, FormatError, NotFoundError
from memdir.format.frontmatter import read_time
from memdir.frozen import dataclass, list_fields, replace
from memdir.records import Message, ToolCall
from memdir.text import as_list, as_table, as_text, one_line, parse_json, shorten

LINE_BYTES = 8_388_608  # of one record; a longer line is an image or a dump and is skipped
BLOCK_BYTES = 262_144  # read at once when going backwards
IMAGE, DOCUMENT, AUDIO = "[image]", "[document]", "[audio]"
_INDEX_BITS = 8  # of a position: which record of the line
_DECODER = json.JSONDecoder()
_TEXTS = ("text", "input_text", "output_text")
_PLACEHOLDERS = {
    **dict.fromkeys(("image", "image_url", "input_image"), IMAGE),
    **dict.fromkeys(("document", "file", "input_file"), DOCUMENT),
    "input_audio": AUDIO,
}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_RESULT = "tool_result"
_MATERIAL = ("document", "search_result")  # besides results of tools that the provider runs
_OPAQUE = frozenset("type id tool_use_id media_type file_id signature encrypted_content encrypted_index".split())
_AGENT_FILE = re.compile(r"agent-[^/]+\.jsonl")

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Selects the records after the message `after`, the last ones with at least `count` messages, or all."""

    path: str | Path = ""
    after: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """The positions of the selected records. `found` is false if the message to start after is missing."""

    positions: Sequence[int]
    found: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptHead:
    """The metadata in the first records of a conversation."""

    session: str = ""
    cwd: str = ""
    started: datetime | None = None
    is_subagent: bool = False
    is_headless: bool = False

    def join(self, other: "TranscriptHead") -> "TranscriptHead":
        return replace(other, **{name: value for name in list_fields(TranscriptHead) if (value := getattr(self, name))})


Find = Callable[[BinaryIO, RecordQuery], RecordSelection]
Read = Callable[[BinaryIO, RecordSelection], Iterator[Message]]


@dataclass(frozen=True, slots=True)
class TranscriptReader:
    """Functions to recognise and read the transcripts of one host.

    `files` are patterns below the host's folder; links are not followed. `detect` returns whether a record is of this format,
    `read_head` the metadata of the conversation in a record. `find` selects records, and `read` yields their messages.
    """

    files: tuple[str, ...]
    detect: Callable[[Json], bool]
    find: Find
    read: Read
    read_head: Callable[[Json, Path], TranscriptHead]


@contextmanager
def open_transcript(path: str | Path) -> Iterator[BinaryIO]:
    """Open a transcript for reading. Raises NotFoundError, DiskError, or FormatError if it is not a regular file."""
    name = shorten(one_line(str(path)), 200)
    try:
        # Without O_NONBLOCK, opening a FIFO would block until another process writes to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        hint = "pass the path of a transcript, which the host's hooks get as `transcript_path`"
        raise NotFoundError(f"transcript not found: {name}", name=str(path), hint=hint) from error
    except OSError as error:
        raise _cannot_read(error, path, name) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FormatError(f"{name} is not a regular file", field="path", hint="pass the path of a transcript")
    with open(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise _cannot_read(error, path, name) from error


def read_transcript_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield each line from the current offset to the end, with its line number. A line that is too long is empty."""
    number, is_rest = 0, False
    while data := file.readline(LINE_BYTES):
        is_cut = len(data) == LINE_BYTES and not data.endswith(b"\n")
        if not is_rest:
            number += 1
            yield number, b"" if is_cut else data
        is_rest = is_cut


def read_lines_back(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines from last to first, each with its offset, without empty ones and those that are too long."""
    offset = file.seek(0, os.SEEK_END)
    pieces: list[bytes] = []  # of the line whose start has not been read, last piece first
    size = 0
    while offset > 0:
        count = min(BLOCK_BYTES, offset)
        offset -= count
        file.seek(offset)
        block = file.read(count)
        stop = len(block)
        while (start := block.rfind(b"\n", 0, stop)) >= 0:
            data = block[start + 1 : stop] + b"".join(reversed(pieces))
            if size <= LINE_BYTES and data.strip():
                yield offset + start + 1, data
            pieces, size, stop = [], 0, start
        size += stop
        pieces = [*pieces, block[:stop]] if size <= LINE_BYTES else []
    if (data := b"".join(reversed(pieces))).strip():
        yield 0, data


def read_line(file: BinaryIO, offset: int) -> bytes:
    """Return the line at an offset, or b"" if it is missing or too long."""
    file.seek(offset)
    data = file.readline(LINE_BYTES)
    return data if len(data) < LINE_BYTES else b""


def make_position(offset: int, index: int) -> int:
    """Combine a line's offset and a record's index in that line into one number."""
    return offset << _INDEX_BITS | min(index, (1 << _INDEX_BITS) - 1)


def split_position(position: int) -> tuple[int, int]:
    return position >> _INDEX_BITS, position & ((1 << _INDEX_BITS) - 1)


def read_records_at(file: BinaryIO, positions: Sequence[int]) -> Iterator[Json]:
    """Yield the records at these positions. Missing records are skipped."""
    for position in positions:
        offset, index = split_position(position)
        records = parse_records(read_line(file, offset))
        if index < len(records):
            yield records[index]


def read_records_back(file: BinaryIO) -> Iterator[tuple[int, Json]]:
    for offset, data in read_lines_back(file):
        for index, record in reversed(list(enumerate(parse_records(data)))):
            yield make_position(offset, index), record


def parse_records(data: bytes) -> list[Json]:
    """Return the JSON records in a line. There is usually one, but a line can be damaged or contain two."""
    text = data.replace(b"\0", b"").decode("utf-8", "replace").strip("\ufeff \t\r\n")
    records: list[Json] = []
    offset = 0
    while offset < len(text):
        try:
            record, offset = _DECODER.raw_decode(text, offset)
        except (ValueError, RecursionError):
            break
        if isinstance(record, dict):
            records.append(record)
        while offset < len(text) and text[offset].isspace():
            offset += 1
    return records


def _cannot_read(error: OSError, path: str | Path, name: str) -> DiskError:
    words = "no permission" if error.errno in (errno.EACCES, errno.EPERM) else (error.strerror or "").lower()
    hint = "check its owner with `ls -ld`"
    return DiskError(f"cannot read {name}: {words}", path=str(path), errno=error.errno or 0, hint=hint)


def list_texts(content: object) -> Iterator[str]:
    """Yield the texts in a string or list of content blocks, with placeholders for images and documents."""
    if isinstance(content, str):
        yield content
    for block in list_blocks(content):
        kind = block.get("type")
        if kind in _TEXTS and isinstance(block.get("text"), str):
            yield str(block["text"])
        elif isinstance(kind, str) and kind in _PLACEHOLDERS:
            yield _PLACEHOLDERS[kind]


def list_blocks(content: object) -> Iterator[Mapping[str, object]]:
    for block in as_list(content):
        if isinstance(block, Mapping):
            yield block
        elif hasattr(block, "model_dump"):  # a block object of an SDK
            yield block.model_dump()


def join_texts(content: object) -> str:
    return "\n\n".join(text for text in list_texts(content) if text)


def list_calls(content: object) -> Iterator[ToolCall]:
    for block in list_blocks(content):
        if block.get("type") in _CALLS and isinstance(block.get("name"), str):
            yield ToolCall(as_text(block.get("id")), str(block["name"]), parse_input(block.get("input")))


def list_results(content: object, id: str = "", sent_at: datetime | None = None) -> Iterator[Message]:
    """Yield tool results, documents and search results as messages with the role `tool`."""
    for block in list_blocks(content):
        kind, answers = as_text(block.get("type")), as_text(block.get("tool_use_id"))
        if kind == _RESULT:
            inside = block.get("content")
            texts = (join_texts(inside), *(result.text for result in list_results(inside)))
            text, failed = "\n\n".join(filter(None, texts)), block.get("is_error") is True
            yield Message("tool", text, id, sent_at, answers=answers, failed=failed)
        elif (kind.endswith(f"_{_RESULT}") or kind in _MATERIAL) and (text := "\n".join(list_strings(block))):
            yield Message("tool", text, id, sent_at, answers=answers)


def list_strings(value: object) -> Iterator[str]:
    """Yield all strings in a nested value, except type names, IDs and encoded data."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and value.strip():
            yield value
        elif isinstance(value, Mapping) and value.get("type") != "base64":
            waiting += [value[key] for key in reversed(list(value)) if key not in _OPAQUE]
        elif isinstance(value, list | tuple):
            waiting += reversed(value)


def parse_input(value: object) -> Mapping[str, object]:
    """Return the input of a call as a mapping. Accepts a mapping, a JSON string or plain text."""
    return as_table((as_table(parse_json(value)) or {"input": value}) if isinstance(value, str) else value)


def read_at(record: Json) -> datetime | None:
    """Return the time of a record in the local time zone."""
    sent_at = read_time(as_text(record.get("timestamp")))
    try:
        return sent_at.astimezone() if sent_at is not None and sent_at.tzinfo is UTC else sent_at
    except (OverflowError, ValueError, OSError):  # at an end of the calendar
        return sent_at


def read_session(record: Json, path: Path) -> TranscriptHead:
    """Return the session ID and working directory of a record, for formats that write them in every record."""
    return TranscriptHead(as_text(record.get("sessionId")), as_text(record.get("cwd")))


def read_in_order(read_all: Callable[[BinaryIO], Iterator[Message]]) -> tuple[Find, Read]:
    """Return `find` and `read` functions for a format that must be read from the start."""

    def find(file: BinaryIO, query: RecordQuery) -> RecordSelection:
        if not (query.after or query.count):
            return RecordSelection(range(sys.maxsize))
        ids = [message.id for message in read_all(file)]
        start = max((number for number, id in enumerate(ids, 1) if id and id == query.after), default=0)
        return RecordSelection(range(start, len(ids)), start > 0)

    def read(file: BinaryIO, selection: RecordSelection) -> Iterator[Message]:
        return (message for number, message in enumerate(read_all(file)) if number in selection.positions)

    return find, read


def read_by_record(make_messages: Callable[[Json], Iterator[Message]]) -> tuple[Find, Read]:
    """Return `find` and `read` functions for a format whose records are read in order, each by itself."""

    def read_all(file: BinaryIO) -> Iterator[Message]:
        file.seek(0)
        for _, line in read_transcript_lines(file):
            for record in parse_records(line):
                yield from make_messages(record)

    return read_in_order(read_all)


def is_agent_file(path: str | Path) -> bool:
    """Return whether a file belongs to a subagent of Claude Code."""
    return bool(_AGENT_FILE.fullmatch(os.path.basename(path)))
