"""Plain search through past conversations of a project: the host's transcripts, one JSON record a line.

What can be read of them is searched, the rest is passed over (transcripts). Files are read line by line and only the
hits are kept, so a transcript of gigabytes costs time and no memory.

What it does not do: follow a conversation's thread, look into subagents' transcripts, or learn from any of it.
"""

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
from memdir.transcripts.claude import make_messages
from memdir.transcripts.formats import read_at
from memdir.transcripts.lines import Json, parse_records, read_lines


@dataclass(frozen=True, slots=True)
class Said:
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
                    yield Said(path, piece.line, piece.role, spot.snippet, piece.at, piece.text)
    except OSError:
        return


def _read_pieces(file: BinaryIO, words: Sequence[Word]) -> Iterator[_Piece]:
    for number, line in read_lines(file):
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
