"""Common code for all transcripts: reading lines forwards or backwards, JSON records, content blocks, the format.

Transcript files get damaged: a truncated last line, runs of NUL, two records on one line, invalid UTF-8, a line of fifty
megabytes. Every read is bounded; readable parts are returned and the rest is skipped without an error. A file that grows
during the read is read up to its initial size. `describe_transcript` reads only some kilobytes of the start and the end. The
modules claude, codex, gemini and qwen interpret the records.
"""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from memdir.errors import DiskError, FormatError, NotFoundError
from memdir.files import read_small
from memdir.format.frontmatter import read_time
from memdir.frozen import dataclass, list_fields
from memdir.records import Message, ToolCall
from memdir.text import one_line, shorten

LINE_BYTES = 8_388_608  # of one record; a longer line is an image or a dump and is skipped
EDGE_BYTES = 65_536  # kept of the start and of the end of a longer line, because its ids are there
BLOCK_BYTES = 262_144  # read at once when going backwards
HEAD_LINES = 200  # a record that shows the format comes long before
TAIL_LINES = 50
IMAGE, DOCUMENT, AUDIO = "[image]", "[document]", "[audio]"
CLAUDE_TYPES = frozenset(
    "user assistant system attachment progress summary custom-title ai-title tag last-prompt file-history-snapshot "
    "queue-operation content-replacement mode permission-mode agent_metadata".split()
)
CODEX_TYPES = frozenset("session_meta response_item event_msg turn_context compacted world_state".split())
CODEX_ITEMS = frozenset("message reasoning function_call function_call_output local_shell_call".split())
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
_MATERIAL = ("document", "search_result")  # and every result of a tool that the provider runs itself
_OPAQUE = frozenset("type id tool_use_id media_type file_id signature encrypted_content encrypted_index".split())
_AGENT_FILE = re.compile(r"agent-[^/]+\.jsonl")
_PATH_BYTES = 4096
_MESSAGES_KEY = re.compile(rb'"messages"\s*:\s*\[')

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One line and its offset. For a line that is too long, `data` is its start and `end` its end."""

    offset: int
    data: bytes
    is_whole: bool = True
    end: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordPath:
    """Positions of a conversation's records, first to last. With `found`, these come after the cursor's record."""

    positions: list[int]
    found: bool = False


class TranscriptFormat(StrEnum):
    CLAUDE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini-cli"
    QWEN = "qwen-code"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class TranscriptInfo:
    """A transcript without messages. `cwd` is where it began; `is_headless`: a program talked to the agent (Codex)."""

    path: Path
    host: TranscriptFormat
    session: str
    cwd: str
    started: datetime | None
    ended: datetime | None
    modified: datetime
    size: int
    is_subagent: bool = False
    is_headless: bool = False


@contextmanager
def open_transcript(path: str | Path) -> Iterator[BinaryIO]:
    """Open a transcript for reading; raises NotFoundError, DiskError, or FormatError if it is not a regular file."""
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


def read_transcript_lines(file: BinaryIO) -> Iterator[tuple[int, TranscriptLine]]:
    """Yield the lines with their numbers, from the file's current offset."""
    number, offset = 0, file.tell()
    while data := file.readline(LINE_BYTES):
        number += 1
        line = TranscriptLine(offset, data)
        offset += len(data)
        if len(data) == LINE_BYTES and not data.endswith(b"\n"):
            end = b""
            while rest := file.readline(BLOCK_BYTES):
                offset += len(rest)
                end = (end + rest)[-EDGE_BYTES:]
                if rest.endswith(b"\n"):
                    break
            line = TranscriptLine(line.offset, data[:EDGE_BYTES], False, end)
        yield number, line


def read_lines_back(file: BinaryIO) -> Iterator[TranscriptLine]:
    """Yield the lines that are not empty, from the last to the first."""
    offset = file.seek(0, os.SEEK_END)
    pieces: list[bytes] = []  # of the line whose start has not been read, last piece first
    size, end = 0, b""
    while offset > 0:
        count = min(BLOCK_BYTES, offset)
        offset -= count
        file.seek(offset)
        block = file.read(count)
        stop = len(block)
        while (start := block.rfind(b"\n", 0, stop)) >= 0:
            yield from _join(offset + start + 1, block[start + 1 : stop], pieces, end)
            pieces, size, end, stop = [], 0, b"", start
        pieces.append(block[:stop])
        size += stop
        if size > LINE_BYTES:
            end = end or b"".join(reversed(pieces))[-EDGE_BYTES:]
            pieces, size = [block[:EDGE_BYTES]], LINE_BYTES
    yield from _join(0, b"", pieces, end)


def read_line(file: BinaryIO, offset: int) -> bytes:
    """Return the line at an offset, empty if it is too long or missing."""
    file.seek(offset)
    data = file.readline(LINE_BYTES)
    return data if len(data) < LINE_BYTES else b""


def make_position(offset: int, index: int) -> int:
    """Return a record's position as one number: the offset of its line and its index in the line."""
    return offset << _INDEX_BITS | min(index, (1 << _INDEX_BITS) - 1)


def split_position(position: int) -> tuple[int, int]:
    """Return the offset of the line and the record's index in it."""
    return position >> _INDEX_BITS, position & ((1 << _INDEX_BITS) - 1)


def read_records_at(file: BinaryIO, positions: Sequence[int]) -> Iterator[Json]:
    """Yield the records at these positions, without missing ones."""
    for position in positions:
        offset, index = split_position(position)
        records = parse_records(read_line(file, offset))
        if index < len(records):
            yield records[index]


def parse_line(line: TranscriptLine) -> list[Json]:
    """Return the records of a line, none if it is too long."""
    return parse_records(line.data) if line.is_whole else []


def parse_records(data: bytes) -> list[Json]:
    """Return the records of a line: usually one, none if it is damaged, two if one writer interrupted another."""
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


def _join(offset: int, start: bytes, pieces: list[bytes], end: bytes) -> Iterator[TranscriptLine]:
    data = start + b"".join(reversed(pieces))
    if end:
        yield TranscriptLine(offset, data[:EDGE_BYTES], False, end)
    elif data.strip():
        yield TranscriptLine(offset, data)


def _cannot_read(error: OSError, path: str | Path, name: str) -> DiskError:
    words = "no permission" if error.errno in (errno.EACCES, errno.EPERM) else (error.strerror or "").lower()
    hint = "check its owner with `ls -ld`"
    return DiskError(f"cannot read {name}: {words}", path=str(path), errno=error.errno or 0, hint=hint)


def list_texts(content: object) -> Iterator[str]:
    """Yield the texts of a message's content (a string or blocks), with placeholders for pictures and documents."""
    if isinstance(content, str):
        yield content
    for block in list_blocks(content):
        kind = block.get("type")
        if kind in _TEXTS and isinstance(block.get("text"), str):
            yield str(block["text"])
        elif isinstance(kind, str) and kind in _PLACEHOLDERS:
            yield _PLACEHOLDERS[kind]


def list_blocks(content: object) -> Iterator[Mapping[str, object]]:
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping):
            yield block
        elif hasattr(block, "model_dump"):  # a block object of an SDK
            yield block.model_dump()


def join_texts(content: object) -> str:
    return "\n\n".join(text for text in list_texts(content) if text)


def list_calls(content: object) -> Iterator[ToolCall]:
    for block in list_blocks(content):
        if block.get("type") in _CALLS and isinstance(block.get("name"), str):
            yield ToolCall(read_text(block.get("id")), str(block["name"]), parse_input(block.get("input")))


def list_results(content: object, id: str = "", sent_at: datetime | None = None) -> Iterator[Message]:
    """Yield tool results as messages, also documents and search results, which nobody in the conversation wrote."""
    for block in list_blocks(content):
        kind, answers = read_text(block.get("type")), read_text(block.get("tool_use_id"))
        if kind == _RESULT:
            inside = block.get("content")
            texts = (join_texts(inside), *(result.text for result in list_results(inside)))
            text, failed = "\n\n".join(filter(None, texts)), block.get("is_error") is True
            yield Message("tool", text, id, sent_at, answers=answers, failed=failed)
        elif (kind.endswith(f"_{_RESULT}") or kind in _MATERIAL) and (text := "\n".join(list_strings(block))):
            yield Message("tool", text, id, sent_at, answers=answers)


def list_strings(value: object) -> Iterator[str]:
    """Yield every text in a value of any type, except type names, ids and encoded bytes."""
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
    """Return a call's input as a table; hosts write a table, JSON in a string, or plain text."""
    if isinstance(value, str):
        parsed = None
        with suppress(ValueError, RecursionError):
            parsed = json.loads(value)
        value = parsed if isinstance(parsed, dict) else {"input": value}
    return value if isinstance(value, dict) else {}


def read_text(value: object) -> str:
    """Return the value if it is text, else ""."""
    return value if isinstance(value, str) else ""


def read_table(value: object) -> Json:
    """Return the value if it is a table, else an empty table."""
    return value if isinstance(value, dict) else {}


def read_at(record: Json) -> datetime | None:
    """Return a record's time in the local zone, because hosts write UTC and "today" depends on the user's zone."""
    sent_at = read_time(read_text(record.get("timestamp")))
    try:
        return sent_at.astimezone() if sent_at is not None and sent_at.tzinfo is UTC else sent_at
    except (OverflowError, ValueError, OSError):  # at an end of the calendar
        return sent_at


def check_format(file: BinaryIO, path: str | Path) -> TranscriptFormat | None:
    """Return the format, None for an empty file; raises FormatError if it is not a transcript."""
    transcript_format = detect_format(file)
    file.seek(0)
    if transcript_format is None and file.read(LINE_BYTES).strip(b"\0 \t\r\n"):
        name = shorten(one_line(str(path)), 200)
        hint = 'use a Claude Code, Codex, Gemini CLI or Qwen Code transcript, or JSON like [{"role": "user", "content": "…"}]'
        raise FormatError(f"{name} is not a supported transcript", field="format", hint=hint)
    return transcript_format


def detect_format(file: BinaryIO) -> TranscriptFormat | None:
    file.seek(0)
    start = b""
    guess: TranscriptFormat | None = None
    for number, line in read_transcript_lines(file):
        start = start or line.data.lstrip(b"\0\xef\xbb\xbf \t\r\n")[:1]
        for record in parse_line(line):
            transcript_format = _detect_record(record)
            # Claude Code and Qwen Code both write records of the type "system".
            if transcript_format and record.get("type") != "system":
                return transcript_format
            guess = guess or transcript_format
        if number >= HEAD_LINES or file.tell() > LINE_BYTES:
            break
    if guess:
        return guess
    # It may be one JSON document over many lines, none of which is a record.
    file.seek(0)
    is_plain = (start == b"[" and re.match(rb"[\0\xef\xbb\xbf\s]*\[\s*(\{|\]\s*$)", file.read(4096))) or (
        start == b"{" and _MESSAGES_KEY.search(file.read(LINE_BYTES))
    )
    return TranscriptFormat.PLAIN if is_plain else None


def describe_transcript(path: str | Path) -> TranscriptInfo:
    """Describe a transcript from its start and end; raises the errors of `read_messages`."""
    with open_transcript(path) as file:
        facts = os.fstat(file.fileno())
        host = check_format(file, path) or TranscriptFormat.PLAIN
        file.seek(0)
        start = (record for _, line in islice(read_transcript_lines(file), HEAD_LINES) for record in parse_line(line))
        head = _read_head(start, host, Path(path))
        tail = (record for line in islice(read_lines_back(file), TAIL_LINES) for record in parse_line(line))
        ended = next(filter(None, map(read_at, tail)), head.started)
    times = (head.started, ended, datetime.fromtimestamp(facts.st_mtime, UTC))
    flags = (head.is_subagent, head.is_headless)
    return TranscriptInfo(Path(path), host, head.session, head.cwd, *times, facts.st_size, *flags)


def is_agent_file(path: str | Path) -> bool:
    """Return whether the file belongs to a subagent; Claude Code writes a separate file for each."""
    return bool(_AGENT_FILE.fullmatch(os.path.basename(path)))


def _detect_record(record: Json) -> TranscriptFormat | None:
    kind = read_text(record.get("type"))
    if ("sessionId" in record and "projectHash" in record) or (kind == "gemini" and "id" in record) or "$set" in record:
        return TranscriptFormat.GEMINI
    if kind in CODEX_TYPES and isinstance(record.get("payload"), dict):
        return TranscriptFormat.CODEX
    if "sessionId" in record and isinstance(read_table(record.get("message")).get("parts"), list):
        return TranscriptFormat.QWEN
    marks = {"sessionId", "uuid", "leafUuid", "snapshot"}
    if kind in CLAUDE_TYPES and (marks & record.keys() or isinstance(record.get("message"), dict)):
        return TranscriptFormat.CLAUDE
    if kind in CODEX_ITEMS and "uuid" not in record and {"role", "call_id", "summary"} & record.keys():
        return TranscriptFormat.CODEX
    if "role" in record and ("content" in record or "tool_calls" in record):
        return TranscriptFormat.PLAIN
    return TranscriptFormat.PLAIN if isinstance(record.get("messages"), list) else None


@dataclass(frozen=True, slots=True)
class _Head:
    session: str = ""
    cwd: str = ""
    started: datetime | None = None
    is_subagent: bool = False
    is_headless: bool = False

    def join(self, other: "_Head") -> "_Head":
        return _Head(**{name: getattr(self, name) or getattr(other, name) for name in list_fields(_Head)})


def _read_head(records: Iterable[Json], host: TranscriptFormat, path: Path) -> _Head:
    head = _Head(is_subagent=host is TranscriptFormat.CLAUDE and is_agent_file(path))
    for record in records:
        if host is TranscriptFormat.CODEX:
            header = _read_codex(record)
        elif host is TranscriptFormat.GEMINI:
            header = _read_gemini(record, path)
        else:
            session = "" if host is TranscriptFormat.PLAIN else read_text(record.get("sessionId"))
            header = _Head(session, read_text(record.get("cwd")))
        head = head.join(header).join(_Head(started=read_at(record)))
        if head.session and head.cwd and head.started:
            break
    return head.join(_Head(path.stem))


def _read_codex(record: Json) -> _Head:
    payload = record.get("payload")
    about = payload if isinstance(payload, dict) else record
    if record.get("type") != "session_meta":
        return _Head(cwd=read_text(about.get("cwd")))
    source = about.get("source")
    is_subagent = bool(
        {"subagent", "sub_agent"} & read_table(source).keys()
        or read_text(about.get("thread_source")) in ("subagent", "memory_consolidation")
        or about.get("parent_thread_id")
    )
    return _Head(read_text(about.get("id")), read_text(about.get("cwd")), None, is_subagent, source == "exec")


def _read_gemini(record: Json, path: Path) -> _Head:
    """Return the header of a chat, which has a digest of its project; a file in a parent folder has the path."""
    digest = read_text(record.get("projectHash"))
    roots = [read_small(parent / ".project_root", _PATH_BYTES).data or b"" for parent in path.absolute().parents[1:3]]
    root = next((root for root in roots if digest and hashlib.sha256(root).hexdigest() == digest), b"")
    started, is_subagent = read_text(record.get("startTime")), record.get("kind") == "subagent"
    return _Head(read_text(record.get("sessionId")), os.fsdecode(root), read_time(started), is_subagent)
