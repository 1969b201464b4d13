"""Which host wrote a transcript, told from its first records; and what its head and tail say of the whole.

`describe` reads some kilobytes of the start and of the end, whatever the size. What it does not do: read the messages.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from memdir.errors import FormatError
from memdir.frozen import dataclass, replace
from memdir.small_files import read_small
from memdir.store.contract import read_time
from memdir.text import one_line, shorten
from memdir.transcripts.blocks import read_text
from memdir.transcripts.lines import (
    LINE_BYTES,
    Json,
    Line,
    open_transcript,
    parse_records,
    read_lines,
    read_lines_back,
)

HEAD_LINES = 200  # a host's kind of record comes long before
TAIL_LINES = 50
CLAUDE_TYPES = frozenset(
    "user assistant system attachment progress summary custom-title ai-title tag last-prompt file-history-snapshot "
    "queue-operation content-replacement mode permission-mode agent_metadata".split()
)
CODEX_TYPES = frozenset("session_meta response_item event_msg turn_context compacted world_state".split())
CODEX_ITEMS = frozenset("message reasoning function_call function_call_output local_shell_call".split())
_AGENT_FILE = re.compile(r"agent-[^/]+\.jsonl")
_ROOT_BYTES = 4096  # a path
_MESSAGES_KEY = re.compile(rb'"messages"\s*:\s*\[')


class Format(StrEnum):
    """Whose transcript it is."""

    CLAUDE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini-cli"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class TranscriptInfo:
    """A transcript from the outside. `cwd` is where it was begun, empty if it does not say; times may be unknown.

    `is_headless`: a program talked to the agent. Only Codex says so in its transcripts.
    """

    path: Path
    host: Format
    session: str
    cwd: str
    started: datetime | None
    ended: datetime | None
    modified: datetime
    size: int
    is_subagent: bool = False
    is_headless: bool = False


def find_format(path: str | Path) -> Format | None:
    """Whose transcript this is; None if it is nobody's. Raises only if it cannot be opened."""
    with open_transcript(path) as file:
        return detect(file)


def check_format(file: BinaryIO, path: str | Path) -> Format | None:
    """The format; None of a file that is still empty. Raises FormatError for what is no transcript."""
    found = detect(file)
    if found is None and not is_blank(file):
        name = shorten(one_line(str(path)), 200)
        hint = 'a Claude Code, Codex or Gemini CLI transcript, or JSON of the shape [{"role": "user", "content": "…"}]'
        raise FormatError(f"{name} is no transcript that memdir can read", field="format", hint=hint)
    return found


def detect(file: BinaryIO) -> Format | None:
    file.seek(0)
    start = b""
    for number, line in read_lines(file):
        start = start or line.data.lstrip(b"\0\xef\xbb\xbf \t\r\n")[:1]
        for record in parse_records(line.data if line.is_whole else b""):
            if found := _judge(record):
                return found
        if number >= HEAD_LINES or file.tell() > LINE_BYTES:
            break
    return _judge_document(file, start)


def is_blank(file: BinaryIO) -> bool:
    file.seek(0)
    return not file.read(LINE_BYTES).strip(b"\0 \t\r\n")


def describe(path: str | Path) -> TranscriptInfo:
    """What head and tail of a transcript say; raises as `read_messages` does."""
    with open_transcript(path) as file:
        facts = os.fstat(file.fileno())
        host = check_format(file, path) or Format.PLAIN
        file.seek(0)
        head = _flatten(line for _, line in islice(read_lines(file), HEAD_LINES))
        about = _read_head(head, host, Path(path))
        tail = _flatten(islice(read_lines_back(file), TAIL_LINES))
        ended = next((at for record in tail if (at := read_at(record))), None)
    modified = datetime.fromtimestamp(facts.st_mtime, UTC)
    return TranscriptInfo(
        Path(path),
        host,
        about.session,
        about.cwd,
        about.started,
        ended or about.started,
        modified,
        facts.st_size,
        about.is_subagent,
        about.is_headless,
    )


def is_agent_file(path: str | Path) -> bool:
    """Whether a subagent's messages are kept in it: Claude Code gives each a file of its own."""
    return bool(_AGENT_FILE.fullmatch(os.path.basename(path)))


def read_at(record: Json) -> datetime | None:
    """When a record was written."""
    text = record.get("timestamp")
    return read_time(text) if isinstance(text, str) else None


def _judge(record: Json) -> Format | None:
    kind = read_text(record.get("type"))
    if ("sessionId" in record and "projectHash" in record) or (kind == "gemini" and "id" in record) or "$set" in record:
        return Format.GEMINI
    if kind in CODEX_TYPES and isinstance(record.get("payload"), dict):
        return Format.CODEX
    if kind in CLAUDE_TYPES and ("sessionId" in record or "uuid" in record or "leafUuid" in record):
        return Format.CLAUDE
    if kind in CLAUDE_TYPES and (isinstance(record.get("message"), dict) or "snapshot" in record):
        return Format.CLAUDE
    if kind in CODEX_ITEMS and "uuid" not in record and {"role", "call_id", "summary"} & record.keys():
        return Format.CODEX
    if "role" in record and ("content" in record or "tool_calls" in record):
        return Format.PLAIN
    return Format.PLAIN if isinstance(record.get("messages"), list) else None


def _judge_document(file: BinaryIO, start: bytes) -> Format | None:
    """One JSON document over many lines, of which none is a record by itself."""
    if start == b"[":
        file.seek(0)
        return Format.PLAIN if re.match(rb"[\0\xef\xbb\xbf\s]*\[\s*(\{|\]\s*$)", file.read(4096)) else None
    if start == b"{":
        file.seek(0)
        return Format.PLAIN if _MESSAGES_KEY.search(file.read(LINE_BYTES)) else None
    return None


@dataclass(frozen=True, slots=True)
class _Head:
    session: str = ""
    cwd: str = ""
    started: datetime | None = None
    is_subagent: bool = False
    is_headless: bool = False


def _read_head(records: Iterable[Json], host: Format, path: Path) -> _Head:
    head = _Head(is_subagent=host is Format.CLAUDE and is_agent_file(path))
    for record in records:
        if host is Format.CODEX:
            found = _read_codex(record)
        elif host is Format.GEMINI:
            found = _read_gemini(record, path)
        else:
            session = read_text(record.get("sessionId")) if host is Format.CLAUDE else ""
            found = _Head(session, read_text(record.get("cwd")))
        head = _Head(
            head.session or found.session,
            head.cwd or found.cwd,
            head.started or found.started or read_at(record),
            head.is_subagent or found.is_subagent,
            head.is_headless or found.is_headless,
        )
        if head.session and head.cwd and head.started:
            break
    return replace(head, session=head.session or path.stem)


def _read_codex(record: Json) -> _Head:
    about = record.get("payload")
    about = about if isinstance(about, dict) else record
    if record.get("type") != "session_meta":
        return _Head(cwd=read_text(about.get("cwd")))
    is_headless = about.get("source") == "exec"
    return _Head(read_text(about.get("id")), read_text(about.get("cwd")), None, _is_codex_subagent(about), is_headless)


def _read_gemini(record: Json, path: Path) -> _Head:
    """A chat names its project by a digest; the folder that it lies in has a file with the path itself."""
    digest = read_text(record.get("projectHash"))
    roots = [read_small(at / ".project_root", _ROOT_BYTES).data or b"" for at in path.absolute().parents[1:3]]
    root = next((at for at in roots if digest and hashlib.sha256(at).hexdigest() == digest), b"")
    started, is_subagent = read_text(record.get("startTime")), record.get("kind") == "subagent"
    return _Head(read_text(record.get("sessionId")), os.fsdecode(root), read_time(started), is_subagent)


def _is_codex_subagent(meta: Json) -> bool:
    source = meta.get("source")
    return bool(
        (isinstance(source, dict) and {"subagent", "sub_agent"} & source.keys())
        or read_text(meta.get("thread_source")) in ("subagent", "memory_consolidation")
        or meta.get("parent_thread_id")
    )


def _flatten(lines: Iterable[Line]) -> Iterator[Json]:
    for line in lines:
        if line.is_whole:
            yield from parse_records(line.data)
