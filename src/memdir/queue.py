"""Turns that wait to be learned from: small files in `<state>/queue/`, each on the disk before `enqueue` answers.

Every entry is a file of its own, so that one who is quicker never overwrites another's, and a worker removes exactly
the entries it has seen. What is delivered twice is learned once: a range of messages is known by its mark in history.

An entry says which conversation and where its transcript lies; nothing that anybody said is kept here.
"""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from memdir.errors import PathError
from memdir.frozen import dataclass
from memdir.small_files import disk_error, read_small, write_private

FOLDER = "queue"
_BYTES = 16_384  # an entry is two paths and an id
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn of one conversation that has ended."""

    session: str
    transcript: str
    headless: bool = False
    path: Path = Path()


def enqueue(state: Path, entry: Entry) -> Path:
    """Put a turn into the queue; when this returns it survives a power cut."""
    folder = state / FOLDER
    if state.is_symlink() or folder.is_symlink():
        raise PathError(str(folder), "it is a symbolic link")
    leaf = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_SUFFIX}"
    table = {"session": entry.session, "transcript": entry.transcript, "headless": entry.headless}
    path = folder / leaf
    write_private(path, json.dumps(table).encode("ascii") + b"\n")
    return path


def read_queue(state: Path) -> tuple[Entry, ...]:
    """What waits, oldest first; a file that is no entry is left where it is and not listed."""
    folder = state / FOLDER
    if state.is_symlink() or folder.is_symlink():
        return ()
    try:
        leaves = sorted(leaf for leaf in os.listdir(folder) if leaf.endswith(_SUFFIX) and not leaf.startswith("."))
    except OSError:
        return ()
    found = (_read_entry(folder / leaf) for leaf in leaves)
    return tuple(entry for entry in found if entry is not None)


def drop(entries: Iterable[Entry]) -> None:
    """These were learned from."""
    for entry in entries:
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(error, entry.path) from error


def _read_entry(path: Path) -> Entry | None:
    try:
        table = json.loads(read_small(path, _BYTES, follow=False).data or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict):
        return None
    session, transcript = table.get("session"), table.get("transcript")
    if not isinstance(session, str) or not isinstance(transcript, str):
        return None
    return Entry(session, transcript, table.get("headless") is True, path)
