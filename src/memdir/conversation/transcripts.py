"""Past and running conversations of coding agents, read as messages.

    lines.py    lines forwards and backwards, records; bounded and forgiving
    blocks.py   a message's content: texts, calls, results
    formats.py  whose transcript it is; head and tail of it
    chain.py    which records of a Claude Code transcript are the conversation as it stands
    claude.py   those records as messages
    codex.py    Codex rollouts as messages
    gemini.py   Gemini CLI's chats as messages
    plain.py    [{"role", "content"}] as messages
    listing.py  all transcripts of a project

Damage costs what is damaged and raises nothing. A file that is not there or is no transcript is one clear error. Memory
does not grow with what is said in a file, only by some bytes for each record. Nothing here learns from a message.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import BinaryIO

from memdir.conversation import lines
from memdir.conversation.claude import ChainPath, find_way, make_messages, read_way
from memdir.conversation.codex import read_rollout
from memdir.conversation.gemini import read_chat, read_plain
from memdir.conversation.lines import (
    Json,
    TranscriptFormat,
    TranscriptInfo,
    check_format,
    describe_transcript,
    is_agent_file,
    open_transcript,
    parse_records,
    read_at,
    read_transcript_lines,
)
from memdir.errors import MemdirError
from memdir.frozen import dataclass
from memdir.project.git import find_root
from memdir.project.paths import DIR_NAME, ProjectPaths, find_project_dir, slug
from memdir.project.settings import Environment
from memdir.recall.find import QueryWord, find_spot, has_all, parse_words
from memdir.recall.query import strip_blocks
from memdir.records import Message

__all__ = [
    "TranscriptSlice",
    "list_transcripts",
    "read_messages",
    "read_slice",
    "read_tail",
]


# --- transcripts ---


@dataclass(frozen=True, slots=True)
class TranscriptSlice:
    """What was said since the cursor; without `found` the cursor is gone, and this is the recent window."""

    messages: tuple[Message, ...]
    found: bool


def read_messages(path: str | Path, *, after: str = "", since_compaction: bool = False) -> Iterator[Message]:
    """The conversation, first to last, one message at a time; with `after` what follows that one, all if it is gone.

    What was said before a compaction counts, unless `since_compaction`. Raises NotFoundError, DiskError or FormatError
    before the first message, and nothing else.
    """
    with open_transcript(path) as file:
        host = check_format(file, path)
        if host is TranscriptFormat.CLAUDE:
            is_agent = lines.is_agent_file(path)
            way = find_way(file, after=after, is_agent=is_agent, since_compaction=since_compaction)
            yield from read_way(file, way)
        elif host is TranscriptFormat.GEMINI and after:
            new = _read_after(file, after)
            yield from new if new is not None else read_chat(file)
        elif host:
            yield from _read_other(file, host)


def read_tail(path: str | Path, count: int) -> tuple[Message, ...]:
    """The last messages, at most so many; of a host's transcript only the end is read."""
    with open_transcript(path) as file:
        host = check_format(file, path)
        way = ChainPath([])
        if host is TranscriptFormat.CLAUDE and count > 0:
            way = find_way(file, count=count, is_agent=lines.is_agent_file(path))
        return _read_last(file, host, way, max(count, 0))


def read_slice(path: str | Path, *, after: str, window: int) -> TranscriptSlice:
    """What follows the message `after`; where that is gone, or was never known, the last `window` messages.

    Of a long Claude Code session only what was added is read. Codex's messages have no ids: the answer is the window.
    """
    with open_transcript(path) as file:
        host = check_format(file, path)
        way = ChainPath([])
        if host is TranscriptFormat.CLAUDE:
            is_agent = lines.is_agent_file(path)
            way = find_way(file, after=after, is_agent=is_agent) if after else way
            if way.found:
                return TranscriptSlice(tuple(read_way(file, way)), True)
            way = find_way(file, count=window, is_agent=is_agent) if window > 0 else way
        new = _read_after(file, after) if host is TranscriptFormat.GEMINI and after else None
        return (
            TranscriptSlice(_read_last(file, host, way, window), False)
            if new is None
            else TranscriptSlice(tuple(new), True)
        )


def _read_last(file: BinaryIO, host: TranscriptFormat | None, way: ChainPath, count: int) -> tuple[Message, ...]:
    if host is None or count <= 0:
        return ()
    messages = read_way(file, way) if host is TranscriptFormat.CLAUDE else _read_other(file, host, count)
    return tuple(deque(messages, maxlen=count))


def _read_after(file: BinaryIO, after: str) -> list[Message] | None:
    """The messages of a chat after one of them; None if it is gone."""
    new: list[Message] | None = None
    for message in read_chat(file):
        if message.id == after:
            new = []
        elif new is not None:
            new.append(message)
    return new


def _read_other(file: BinaryIO, host: TranscriptFormat, count: int = 0) -> Iterator[Message]:
    if host is TranscriptFormat.GEMINI:
        return read_chat(file, count=count)
    return read_rollout(file, count=count) if host is TranscriptFormat.CODEX else read_plain(file)


# --- listing ---
# All transcripts of one project: those whose recorded working directory has its canonical root.
#
# The folder names of the hosts are lossy and go by working directory, so every transcript is asked for its own.
# Worktrees
# and subfolders lead to the root they belong to; a worktree that is gone does so only where it lay inside its project.
# Subagents' transcripts and compressed rollouts (.zst) are left out.
#
# What it does not do: remember what it found. A scan of a thousand transcripts takes a fraction of a second, and who
# asks
# often keeps count himself.

_GEMINI_CHATS = "chats"  # tmp/<project>/chats/session-*.jsonl
_CODEX_DEPTH = 4  # sessions/YYYY/MM/DD/rollout-*.jsonl, archived ones lie flat


def list_transcripts(
    environment: Environment, root: Path, *, since: datetime | None = None
) -> tuple[TranscriptInfo, ...]:
    """The project's transcripts, oldest first by their last record; with `since` those written to at or after it."""
    wanted = os.path.realpath(root)
    roots: dict[str, str] = {}
    found = []
    for path in _list_files(environment, since):
        try:
            info = describe_transcript(path)
        except MemdirError:  # gone since, closed to us, or no transcript
            continue
        if info.is_subagent or not os.path.isabs(info.cwd) or "\0" in info.cwd:
            continue
        if info.cwd not in roots:
            roots[info.cwd] = str(find_root(Path(info.cwd)).path)
        if roots[info.cwd] == wanted:
            found.append(info)
    return tuple(sorted(found, key=lambda info: (info.ended or info.modified, str(info.path))))


def _list_files(environment: Environment, since: datetime | None) -> Iterator[str]:
    after = since.timestamp() if since else None
    for folder in _list_folders(environment.claude_home / "projects"):
        yield from (path for path in _list_files_in(folder, after) if not is_agent_file(path))
    for name in ("sessions", "archived_sessions"):
        for folder in _walk(str(environment.codex_home / name), _CODEX_DEPTH):
            yield from (path for path in _list_files_in(folder, after) if os.path.basename(path).startswith("rollout-"))
    for folder in _list_folders(environment.gemini_home / "tmp"):
        yield from _list_files_in(os.path.join(folder, _GEMINI_CHATS), after)


def _walk(folder: str, depth: int) -> Iterator[str]:
    yield folder
    if depth > 1:
        for below in _list_folders(folder):
            yield from _walk(below, depth - 1)


def _list_folders(folder: str | Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _list_files_in(folder: str, after: float | None) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if _is_wanted(entry, after)]
    except OSError:
        return []


def _is_wanted(entry: os.DirEntry[str], after: float | None) -> bool:
    if not entry.name.endswith(".jsonl") or not entry.is_file(follow_symlinks=False):
        return False
    return after is None or entry.stat(follow_symlinks=False).st_mtime >= after


# --- transcript_search ---
# Plain search through past conversations of a project: the host's transcripts, one JSON record a line.
#
# What can be read of them is searched, the rest is passed over (transcripts). Files are read line by line and only the
# hits are kept, so a transcript of gigabytes costs time and no memory.
#
# What it does not do: follow a conversation's thread, look into subagents' transcripts, or learn from any of it.


@dataclass(frozen=True, slots=True)
class TranscriptHit:
    """One message that holds every word, with its place. `role` is user, assistant, tool or summary.

    `text` is all of the message: only that tells whether the line stood in something that was pasted.
    """

    file: str
    line: int
    role: str
    snippet: str
    at: datetime | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Piece:
    line: int
    role: str
    text: str
    at: datetime | None


def list_folders(places: ProjectPaths, claude_home: Path, cwd: Path) -> tuple[Path, ...]:
    """Where the host keeps this project's transcripts: by the working directory, and by the root where they differ."""
    projects = claude_home / "projects"
    if places.private.rule == DIR_NAME:
        return (projects / places.private.path.parent.name,)
    names = (slug(os.path.realpath(cwd)), slug(str(places.root.path)))
    return tuple(dict.fromkeys(find_project_dir(projects, name, windows=os.name == "nt") for name in names))


def search_transcripts(folders: Iterable[Path], text: str, *, limit: int) -> tuple[TranscriptHit, ...]:
    """Messages with every word, newest first; at most `limit`."""
    words = parse_words(text)
    best: list[tuple[float, int, TranscriptHit]] = []
    count = 0
    files = sorted((at for folder in folders for at in _list(folder)), reverse=True) if words else []
    for modified, path in files:
        if len(best) >= limit and modified < best[0][0]:
            break  # nothing in it is newer than the oldest that was found
        for said in _search_file(path, words):
            when = said.at.timestamp() if said.at else modified
            if not any(_is_same(said, other) for _, _, other in best):
                count += 1
                heappush(best, (when, count, said))
            if len(best) > limit:
                heappop(best)
    return tuple(said for _, _, said in sorted(best, reverse=True))


def _list(folder: Path) -> Iterator[tuple[float, str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
                    yield entry.stat(follow_symlinks=False).st_mtime, entry.path
    except OSError:
        return


def _is_same(one: TranscriptHit, other: TranscriptHit) -> bool:
    """A conversation that was taken up again may hold its past a second time."""
    return one.at is not None and (one.at, one.role, one.snippet) == (other.at, other.role, other.snippet)


def _search_file(path: str, words: Sequence[QueryWord]) -> Iterator[TranscriptHit]:
    try:
        with open(path, "rb") as file:
            for piece in _read_pieces(file, words):
                if has_all(piece.text, words) and (spot := find_spot(piece.text, words)):
                    yield TranscriptHit(path, piece.line, piece.role, spot.snippet, piece.at, piece.text)
    except OSError:
        return


def _read_pieces(file: BinaryIO, words: Sequence[QueryWord]) -> Iterator[_Piece]:
    for number, line in read_transcript_lines(file):
        # Most lines hold none of it, and taking them apart is what costs the time.
        low = line.data.lower() if line.is_whole else b""
        if all(word.trace in low for word in words):
            for record in parse_records(line.data):
                yield from _make_pieces(number, record)


def _make_pieces(line: int, record: Json) -> Iterator[_Piece]:
    """What was said, and what tools answered; not what a model thought, nor what the host put in but for summaries."""
    if record.get("type") == "summary" and isinstance(record.get("summary"), str):
        yield _Piece(line, "summary", str(record["summary"]), read_at(record))
    is_summary = record.get("isCompactSummary") is True and record.get("isMeta") is not True
    for message in make_messages(record):
        if message.is_meta and not is_summary:
            continue
        text = strip_blocks(message.text) if message.role == "user" else message.text
        yield _Piece(line, "summary" if is_summary else message.role, text, message.at)
