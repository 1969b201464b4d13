"""Read conversations of coding agents as messages, and list and search a project's transcripts.

Each format has its own module with a reader, listed in `READERS`. The plain format (`[{"role", "content"}]`,
`{"messages": […]}`, or one such message per line) is read here. Damaged parts are skipped without an error. A file that is
missing or not a transcript raises an error. Reading a transcript needs only a few bytes of memory per record, except for
Gemini and for one JSON document. This module does not extract memories.
"""

import os
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from memdir.conversation.claude import make_messages
from memdir.conversation.confidential import OpenMessages, leave_out
from memdir.conversation.lines import (
    LINE_BYTES,
    Json,
    RecordQuery,
    RecordSelection,
    TranscriptHead,
    TranscriptReader,
    join_texts,
    list_blocks,
    list_calls,
    list_results,
    open_transcript,
    parse_input,
    parse_records,
    read_at,
    read_in_order,
    read_lines_back,
    read_session,
    read_transcript_lines,
)
from memdir.conversation.typed import strip_blocks
from memdir.errors import FormatError, MemdirError
from memdir.format.frontmatter import read_time
from memdir.frozen import dataclass, replace
from memdir.limits import EXTRACT_SLICE_CHARS, EXTRACT_WINDOW
from memdir.project.hosts import HOSTS, find_folder
from memdir.project.paths import find_root
from memdir.project.settings import Environment
from memdir.recall.find import QueryWord, find_spot, has_all, parse_words
from memdir.records import Message, ToolCall
from memdir.store.sessions import Cursor, make_cursor
from memdir.text import as_list, as_table, as_text, find_json, one_line, shorten

PLAIN = "plain"  # the key of the format that belongs to no host
_HEAD_LINES = 200  # a record that shows the format comes long before
_TAIL_LINES = 50
PIECE_MESSAGES = 400
DOCUMENT_BYTES = 67_108_864  # max bytes that are read of one JSON document
_BLANK = b"\xef\xbb\xbf\0 \t\r\n"
_ARRAY_START = re.compile(rb"\[[\0\s]*(\{|\]\s*$)")
_MESSAGES_KEY = re.compile(rb'"messages"\s*:\s*\[')


@dataclass(frozen=True, slots=True)
class TranscriptInfo:
    """A transcript's metadata. `format` is its host's key or `plain`, and `cwd` the directory where it began."""

    path: Path
    format: str
    session: str
    cwd: str
    started: datetime | None
    ended: datetime | None
    modified: datetime
    size: int
    is_subagent: bool = False
    is_headless: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptHit:
    """A message that contains every word of a search. `role` is user, assistant, tool or summary."""

    file: str
    line: int
    role: str
    snippet: str
    at: datetime | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Consecutive messages. `start` is the number of messages before them, and `context` the last of those."""

    messages: tuple[Message, ...]
    start: int
    context: tuple[Message, ...] = ()


def read_messages(path: str | Path, *, after: str = "") -> Iterator[Message]:
    """Yield the messages in order. With `after`, starts after that message, or at the first one if it is missing.

    Messages before a compaction are included. Raises NotFoundError, DiskError or FormatError before the first message.
    """
    with open_transcript(path) as file:
        if reader := READERS.get(_find_format(file, path)):
            yield from reader.read(file, reader.find(file, RecordQuery(path, after)))


def read_tail(path: str | Path, count: int) -> tuple[Message, ...]:
    """Return the last messages, at most `count`; only the end of a host's transcript is read."""
    with open_transcript(path) as file:
        reader = READERS.get(_find_format(file, path)) if count > 0 else None
        if reader is None:
            return ()
        last = reader.read(file, reader.find(file, RecordQuery(path, count=count)))
        return tuple(deque(last, maxlen=count))


def read_pieces(
    path: str | Path,
    cursor: Cursor | None,
    *,
    chars: int = EXTRACT_SLICE_CHARS,
    count: int = PIECE_MESSAGES,
    window: int = 0,
) -> Iterator[MessageRun]:
    """Yield the messages after a cursor, or the last `window`, in batches of about `chars` characters."""
    before: tuple[Message, ...] | None = None
    if cursor is not None and cursor.id:
        before = _read_before(path, cursor.id, EXTRACT_WINDOW)
        if before is None and not window:
            cursor = None
        elif cursor is not None:
            new = read_tail(path, window) if before is None else read_messages(path, after=cursor.id)
            return cut(new, None, chars=chars, count=count, before=before or (), start=cursor.position + 1)
    # Search for the cursor first, because messages before it must not be learned from again.
    elif cursor and not any(
        _is_cursor_at(cursor, message, number) for number, message in enumerate(read_messages(path))
    ):
        cursor = None
    return cut(read_messages(path), cursor, chars=chars, count=count)


def cut(
    messages: Iterable[Message],
    cursor: Cursor | None,
    *,
    chars: int = EXTRACT_SLICE_CHARS,
    count: int = PIECE_MESSAGES,
    before: Iterable[Message] = (),
    start: int = 0,
) -> Iterator[MessageRun]:
    """Yield the messages after a cursor, or all of them, in batches. `before` and `start` describe earlier messages."""
    piece: list[Message] = []
    passed, first, size = deque(before, maxlen=EXTRACT_WINDOW), start, 0
    is_new = cursor is None
    for position, message in enumerate(messages, start):
        # The messages of one record share an ID, and the cursor is after the last of them.
        if cursor is not None and _is_cursor_at(cursor, message, position):
            is_new, first = True, position + 1
            passed.append(message)
            continue
        if not is_new:
            passed.append(message)
            continue
        full = size + len(message.text) > chars or len(piece) >= count
        # End a batch before a user message, so that no turn is split, unless it has twice the length.
        if piece and full and (message.role == "user" or size > 2 * chars):
            yield MessageRun(tuple(piece), first, tuple(passed))
            passed.extend(piece)
            piece, size, first = [], 0, position
        piece.append(message)
        size += len(message.text)
    if piece:
        yield MessageRun(tuple(piece), first, tuple(passed))


def _is_cursor_at(cursor: Cursor, message: Message, position: int) -> bool:
    if cursor.id or message.id:
        return cursor.id == message.id
    return cursor.position == position and cursor == make_cursor((message,), before=position)


def _read_before(path: str | Path, after: str, count: int) -> tuple[Message, ...] | None:
    """Return up to `count` messages that end with `after`, or None if it is missing."""
    with open_transcript(path) as file:
        reader = READERS.get(_find_format(file, path))
        if not reader or not (new := reader.find(file, RecordQuery(path, after))).found:
            return None
        # A message consists of one or several records.
        last = reader.find(file, RecordQuery(path, count=len(new.positions) + count)).positions
        old = [position for position in last if not new.positions or position < new.positions[0]][-4 * count :]
        return tuple(reader.read(file, RecordSelection(old)))[-count:]


def _find_format(file: BinaryIO, path: str | Path) -> str:
    """Return the format of the first known record, or "" for an empty file. Raises FormatError if there is none."""
    file.seek(0)
    for number, line in read_transcript_lines(file):
        for record in parse_records(line):
            if key := next((key for key, reader in reversed(READERS.items()) if reader.detect(record)), ""):
                return key
        if number >= _HEAD_LINES or file.tell() > LINE_BYTES:
            break
    # The file may be one JSON document with line breaks, so that no line is a record.
    file.seek(0)
    text = file.read(LINE_BYTES).lstrip(_BLANK)
    if _ARRAY_START.match(text[:4096]) or (text.startswith(b"{") and _MESSAGES_KEY.search(text)):
        return PLAIN
    if text:
        titles = ", ".join(host.title for host in HOSTS.values() if host.reader)
        hint = f'use a transcript of one of {titles}, or JSON like [{{"role": "user", "content": "…"}}]'
        message = f"{shorten(one_line(str(path)), 200)} is not a supported transcript"
        raise FormatError(message, field="format", hint=hint)
    return ""


def describe_transcript(path: str | Path) -> TranscriptInfo:
    """Describe a transcript from its first and last lines. Raises the same errors as `read_messages`."""
    path, head = Path(path), TranscriptHead()
    with open_transcript(path) as file:
        facts = os.fstat(file.fileno())
        key = _find_format(file, path) or PLAIN
        file.seek(0)
        for record in (
            row for _, line in islice(read_transcript_lines(file), _HEAD_LINES) for row in parse_records(line)
        ):
            head = head.join(READERS[key].read_head(record, path)).join(TranscriptHead(started=read_at(record)))
            if head.session and head.cwd and head.started:
                break
        tail = (record for _, line in islice(read_lines_back(file), _TAIL_LINES) for record in parse_records(line))
        ended = next(filter(None, map(read_at, tail)), head.started)
    modified = datetime.fromtimestamp(facts.st_mtime, UTC)
    return TranscriptInfo(
        path, key, head.session or path.stem, head.cwd, head.started, ended, modified, facts.st_size,
        head.is_subagent, head.is_headless,
    )  # fmt: skip


def _detect_plain(record: Json) -> bool:
    is_message = "role" in record and ("content" in record or "tool_calls" in record)
    return is_message or isinstance(record.get("messages"), list)


def _read_plain(file: BinaryIO) -> Iterator[Message]:
    """Yield the messages of a JSON array, of an array under `messages`, or of JSON lines. Stops at damaged data."""
    file.seek(0)
    first = islice(read_transcript_lines(file), 50)
    has_lines = any("role" in record for _, line in first for record in parse_records(line))
    file.seek(0)
    is_array = file.read(4096).lstrip(_BLANK).startswith(b"[")
    file.seek(0)
    if has_lines and not is_array:
        rows: Iterator[Any] = (record for _, line in read_transcript_lines(file) for record in parse_records(line))
    else:
        rows = find_json(file.read(DOCUMENT_BYTES).replace(b"\0", b"").decode("utf-8", "replace"))
    for row in rows:
        for message in row.get("messages", [row]) if isinstance(row, dict) else as_list(row):
            yield from make_plain_messages(as_table(message))


def copy_plain(value: Any) -> Any:
    """Copy a value to dicts, lists and scalars. SDK objects are converted to the form in which they are sent."""
    if isinstance(value, Mapping):
        return {key: copy_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain(item) for item in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if dump is not None else value


def read_host_messages(messages: Iterable[object], era: int = 0) -> tuple[Message, ...]:
    """Parse messages of any known format. Those without an ID get one from their text, position and `era`."""
    plain_messages: list[Message] = []
    for message in messages:
        if isinstance(message, Message):
            plain_messages.append(message)
        elif isinstance(table := copy_plain(message), dict):
            plain_messages += make_plain_messages(table)
    if not era:
        return tuple(plain_messages)
    sums = (zlib.crc32(message.text.encode("utf-8", "surrogatepass")) for message in plain_messages)
    ids = (f"{era}.{number}.{checksum:08x}" for number, checksum in enumerate(sums))
    return tuple(
        message if message.id else replace(message, id=id) for message, id in zip(plain_messages, ids, strict=True)
    )


def make_plain_messages(record: Json) -> Iterator[Message]:
    """Yield the messages of a `{"role", "content"}` object in the format of Anthropic or OpenAI."""
    role, content = as_text(record.get("role")), record.get("content")
    times = [time for key in ("timestamp", "created_at", "at", "date") if isinstance(time := record.get(key), str)]
    sent_at = next(filter(None, map(read_time, times)), None)
    text = join_texts(content)
    yield from list_results(content, sent_at=sent_at)
    if role in ("tool", "function"):
        yield Message("tool", text, at=sent_at, answers=as_text(record.get("tool_call_id")))
    elif role in ("system", "developer", "user", "human") and text:
        is_meta = role in ("system", "developer") or record.get("is_meta") is True
        yield Message("user", text, at=sent_at, is_meta=is_meta)
    elif role in ("assistant", "model", "ai"):
        calls = (*list_calls(content), *_list_functions(record.get("tool_calls")))
        if text or calls:
            yield Message("assistant", text, at=sent_at, calls=calls)


def _list_functions(calls: object) -> Iterator[ToolCall]:
    for call in list_blocks(calls):
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            yield ToolCall(as_text(call.get("id")), function["name"], parse_input(function.get("arguments")))


def list_transcripts(
    environment: Environment, root: Path, *, since: datetime | None = None
) -> tuple[TranscriptInfo, ...]:
    """Return the project's transcripts, oldest first. With `since`, only those modified since then.

    The hosts' folder names are ambiguous, so the working directory recorded in each transcript decides whether it belongs
    to the project. Subagents' transcripts and compressed rollouts (.zst) are omitted.
    """
    real_root, after = os.path.realpath(root), since.timestamp() if since else 0.0
    roots: dict[str, str] = {}
    infos = []
    folders = [
        (environment.home / host.transcripts if host.transcripts else find_folder(host, environment), READERS[host.key])
        for host in HOSTS.values()
        if host.reader
    ]
    found = (file for folder, reader in folders for name in reader.files for file in _list_matching(folder, name))
    for path in (path for modified, path in found if modified >= after):
        try:
            info = describe_transcript(path)
        except MemdirError:  # missing, not readable, or not a transcript
            continue
        if info.is_subagent or not os.path.isabs(info.cwd) or "\0" in info.cwd:
            continue
        if info.cwd not in roots:
            roots[info.cwd] = str(find_root(Path(info.cwd)).path)
        if roots[info.cwd] == real_root:
            infos.append(info)
    return tuple(sorted(infos, key=lambda info: (info.ended or info.modified, str(info.path))))


def _list_matching(folder: str | Path, pattern: str) -> Iterator[tuple[float, str]]:
    """Yield the matching files below a folder with their modification times. Does not follow links."""
    name, _, rest = pattern.partition("/")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if fnmatchcase(entry.name, name)]:
            if rest and entry.is_dir(follow_symlinks=False):
                yield from _list_matching(entry.path, rest)
            elif not rest and entry.is_file(follow_symlinks=False):
                yield entry.stat(follow_symlinks=False).st_mtime, entry.path


def search_transcripts(
    folders: Iterable[Path], text: str, *, limit: int, open_only: bool = False
) -> tuple[TranscriptHit, ...]:
    """Return up to `limit` messages that contain every word of `text`, newest first.

    With `open_only`, messages that the user asked not to remember are omitted.
    """
    words = parse_words(text)
    best: list[tuple[float, int, TranscriptHit]] = []
    count = 0
    found = (file for folder in folders for file in _list_matching(folder, "*.jsonl"))
    for modified, path in sorted(found, reverse=True) if words else ():
        if len(best) >= limit and modified < best[0][0]:
            break  # no message in this file or later ones is newer than the oldest hit
        hits = _search_file(path, words)
        for hit in _drop_hidden(path, hits) if open_only else hits:
            when = hit.at.timestamp() if hit.at else modified
            same = (hit.at, hit.role, hit.snippet)  # a resumed conversation may repeat earlier messages
            if hit.at is None or all((other.at, other.role, other.snippet) != same for _, _, other in best):
                count += 1
                heappush(best, (when, count, hit))
            if len(best) > limit:
                heappop(best)
    return tuple(hit for _, _, hit in sorted(best, reverse=True))


def _drop_hidden(path: str, hits: Iterator[TranscriptHit]) -> Iterator[TranscriptHit]:
    allowed: OpenMessages | None = None
    for hit in hits:
        if allowed is None:
            allowed = leave_out(tuple(read_messages(path)))
        if not allowed.whole and not allowed.hides(hit.text or hit.snippet):
            yield hit


def _search_file(path: str, words: Sequence[QueryWord]) -> Iterator[TranscriptHit]:
    with suppress(OSError), open(path, "rb") as file:
        for number, line in read_transcript_lines(file):
            # Most lines contain none of the words, and parsing is slow.
            low = line.lower()
            if not all(word.trace in low for word in words):
                continue
            for role, text, sent_at in (passage for record in parse_records(line) for passage in _list_texts(record)):
                if has_all(text, words) and (spot := find_spot(text, words)):
                    yield TranscriptHit(path, number, role, spot.snippet, sent_at, text)


def _list_texts(record: Json) -> Iterator[tuple[str, str, datetime | None]]:
    """Yield the role, text and time of messages, summaries and tool results."""
    if record.get("type") == "summary" and isinstance(record.get("summary"), str):
        yield "summary", str(record["summary"]), read_at(record)
    is_summary = record.get("isCompactSummary") is True and record.get("isMeta") is not True
    for message in make_messages(record):
        if message.is_meta and not is_summary:
            continue
        text = strip_blocks(message.text) if message.role == "user" else message.text
        yield "summary" if is_summary else message.role, text, message.at


# The key of a host, or `plain` -> how to read its transcripts; the row of a host names the module of its reader. In detection
# the last one comes first, because Claude Code's records have few marks of their own, and plain ones none.
READERS: dict[str, TranscriptReader] = {
    PLAIN: TranscriptReader((), _detect_plain, *read_in_order(_read_plain), read_session),
    **{host.key: import_module(f"memdir.conversation.{host.reader}").READER for host in HOSTS.values() if host.reader},
}
