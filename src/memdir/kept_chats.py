"""The conversations of `memdir chat` on the disk: `<state>/chats/ID.jsonl`, mode 0600, one record a line.

A line is written the moment it is said, so a killed process loses nothing that was answered. What was said may hold a
memory's words: `forget --purge` drops every conversation that taught the memory, was given it, or names or quotes it.
They can be deleted at any time; a conversation that is gone cannot be resumed.

What stands in a record is not known here (doors.chat.transcript).
"""

import json
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from memdir.errors import PathError
from memdir.session import find_link, make_leaf
from memdir.small_files import disk_error, make_private_dirs, sync_dir

FOLDER = "chats"
_SUFFIX = ".jsonl"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_PARTS = re.compile(r"\n|(?<=[.!?])\s+|(?<=[。！？])|\*\*[\w ]+:\*\*")
_QUOTED = 16  # characters of a sentence: a shorter one stands in many a conversation by chance


def find_path(state: Path, id: str) -> Path:
    """Where the conversation with that id is kept, or would be."""
    return state / FOLDER / f"{make_leaf(id)}{_SUFFIX}"


def append_record(path: Path, record: dict[str, object]) -> None:
    """Add a record and hand it to the system; after a line that a killed writer left half, on a line of its own."""
    if link := find_link(path.parent):
        raise PathError(str(link), "it is a symbolic link")
    line = json.dumps(record, ensure_ascii=True).encode("ascii") + b"\n"
    try:
        make_private_dirs(path.parent)
        handle = os.open(path, _FLAGS, 0o600)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line
            while line:
                line = line[os.write(handle, line) :]
        finally:
            os.close(handle)
    except OSError as error:
        raise disk_error(error, path) from error


def list_chats(state: Path) -> tuple[Path, ...]:
    """Every conversation, the one that was spoken in last first."""
    folder = state / FOLDER
    if find_link(folder):
        return ()
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
                for entry in entries
                if entry.name.endswith(_SUFFIX) and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return ()
    return tuple(Path(path) for _, path in sorted(found, reverse=True))


def drop_chats(state: Path, *, ids: Collection[str], name: str, texts: Iterable[str]) -> int:
    """Remove the conversations with one of the ids, and those that name the memory or quote a sentence of its texts."""
    leaves = {f"{make_leaf(id)}{_SUFFIX}" for id in ids if id}
    said = {part.strip().casefold() for text in texts for part in _PARTS.split(text)}
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    quotes = [part for part in said if len(part) >= _QUOTED]
    dropped = 0
    try:
        for path in list_chats(state):
            if path.name in leaves or _holds(path, named, quotes):
                path.unlink(missing_ok=True)
                dropped += 1
        if dropped:
            sync_dir(state / FOLDER)
    except OSError as error:
        raise disk_error(error, state / FOLDER) from error
    return dropped


def _holds(path: Path, named: re.Pattern[str], quotes: Collection[str]) -> bool:
    with path.open("rb") as file:
        for line in file:
            try:
                said = json.dumps(json.loads(line), ensure_ascii=False)
            except (ValueError, RecursionError):
                return True  # nobody can tell what a broken one holds
            plain = said.replace("\\n", "\n").replace('\\"', '"').casefold()
            if named.search(plain) or any(quote in plain for quote in quotes):
                return True
    return False
