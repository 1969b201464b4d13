"""Plain search through past conversations of a project: the host's transcripts, one JSON record a line.

The format is the host's own and undocumented, and its files get damaged: a cut last line, runs of NUL, two records on
one line, bytes that are no UTF-8. What can be read is searched, the rest is passed over; nothing here raises for it.
Files are read line by line and only the hits are kept, so a transcript of gigabytes costs time and no memory.

What it does not do: follow a conversation's thread, look into subagents' transcripts, or learn from any of it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import BinaryIO

from memdir.finding import Word, find_spot, has_all, parse_words
from memdir.frozen import dataclass
from memdir.paths import DIR_NAME, Places
from memdir.query import strip_blocks
from memdir.slugs import find_project_dir, slug
from memdir.store.contract import read_time

LINE_BYTES = 8_388_608  # one record; what is larger is an image or a dump, and is passed over
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Said:
    """One message that holds every word, with its place. `role` is user, assistant, tool or summary."""

    file: str
    line: int
    role: str
    snippet: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    line: int
    role: str
    text: str
    at: datetime | None


def list_folders(places: Places, claude_home: Path, cwd: Path) -> tuple[Path, ...]:
    """Where the host keeps this project's transcripts: by the working directory, and by the root where they differ."""
    projects = claude_home / "projects"
    if places.private.rule == DIR_NAME:
        return (projects / places.private.path.parent.name,)
    names = (slug(os.path.realpath(cwd)), slug(str(places.root.path)))
    return tuple(dict.fromkeys(find_project_dir(projects, name, windows=os.name == "nt") for name in names))


def search_transcripts(folders: Iterable[Path], text: str, *, limit: int) -> tuple[Said, ...]:
    """Messages with every word, newest first; at most `limit`."""
    words = parse_words(text)
    best: list[tuple[float, int, Said]] = []
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


def _is_same(one: Said, other: Said) -> bool:
    """A conversation that was taken up again may hold its past a second time."""
    return one.at is not None and (one.at, one.role, one.snippet) == (other.at, other.role, other.snippet)


def _search_file(path: str, words: Sequence[Word]) -> Iterator[Said]:
    try:
        with open(path, "rb") as file:
            for piece in _read_pieces(file, words):
                if has_all(piece.text, words) and (spot := find_spot(piece.text, words)):
                    yield Said(path, piece.line, piece.role, spot.snippet, piece.at)
    except OSError:
        return


def _read_pieces(file: BinaryIO, words: Sequence[Word]) -> Iterator[_Piece]:
    for number, data in _read_lines(file):
        # Most lines hold none of it, and taking them apart is what costs the time.
        low = data.lower()
        if all(word.trace in low for word in words):
            for record in _parse_records(data):
                yield from _make_pieces(number, record)


def _read_lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; of one that is too long only the number counts."""
    number = 0
    while data := file.readline(LINE_BYTES):
        number += 1
        is_whole = len(data) < LINE_BYTES
        while data and not data.endswith(b"\n") and len(data) == LINE_BYTES:
            data = file.readline(LINE_BYTES)
        if is_whole:
            yield number, data


def _parse_records(data: bytes) -> Iterator[dict[str, object]]:
    """The records of a line: mostly one, none if it is damaged, two if a writer was interrupted by another."""
    text = data.replace(b"\0", b"").decode("utf-8", "replace").strip()
    while text:
        try:
            record, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            return
        if isinstance(record, dict):
            yield record
        text = text[end:].lstrip()


def _make_pieces(line: int, record: dict[str, object]) -> Iterator[_Piece]:
    at = read_time(str(record.get("timestamp", "")))
    if record.get("type") == "summary" and isinstance(record.get("summary"), str):
        yield _Piece(line, "summary", str(record["summary"]), at)
    message = record.get("message")
    role = record.get("type")
    if record.get("isMeta") is True or role not in ("user", "assistant") or not isinstance(message, dict):
        return
    role = "summary" if record.get("isCompactSummary") is True else str(role)
    for said_by, text in _read_content(message.get("content"), role):
        yield _Piece(line, said_by, strip_blocks(text) if said_by == "user" else text, at)


def _read_content(content: object, role: str) -> Iterator[tuple[str, str]]:
    """What was said, and what tools answered; not what a model thought, nor pictures."""
    for text in _read_texts(content):
        yield role, text
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            for text in _read_texts(block.get("content")):
                yield "tool", text


def _read_texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            yield block["text"]
