"""The patch sets of dreams on the disk: `<state>/dreams/ID.json`, mode 0600, the newest kept.

A set holds texts of memories, so any purge drops all of them: one that was applied is in history, and one that was only
looked at can be made anew. They can be deleted at any time.

What is in a set is not known here (dream.sets).
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from memdir.errors import PathError
from memdir.limits import DREAM_SETS
from memdir.session import find_link
from memdir.small_files import disk_error, read_small, sync_dir, write_private

FOLDER = "dreams"
_SUFFIX = ".json"
_BYTES = 67_108_864  # far more than a dream may write; evidence and index lines of the largest directory fit
_ID = re.compile(r"[0-9a-z][0-9a-z-]{0,60}")


def write_set(state: Path, id: str, table: Mapping[str, object]) -> Path:
    """Keep a set; the oldest beyond the limit go."""
    folder = state / FOLDER
    if link := find_link(folder):
        raise PathError(str(link), "it is a symbolic link")
    path = _find_path(state, id)
    write_private(path, json.dumps(table, ensure_ascii=True, indent=1).encode("ascii") + b"\n")
    for old in list_sets(state)[DREAM_SETS:]:
        _find_path(state, old).unlink(missing_ok=True)
    return path


def read_set(state: Path, id: str) -> dict[str, object] | None:
    """What was kept under an id; None for nothing, or nothing that can be read."""
    if not _ID.fullmatch(id) or find_link(state / FOLDER):
        return None
    data = read_small(_find_path(state, id), _BYTES, follow=False).data
    try:
        table = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def list_sets(state: Path) -> tuple[str, ...]:
    """The ids of all sets, newest first: an id begins with its time."""
    folder = state / FOLDER
    if find_link(folder):
        return ()
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return tuple(sorted((id for id in ids if _ID.fullmatch(id)), reverse=True))


def drop_sets(state: Path) -> int:
    """Remove every set and whatever a killed writer left, for purge; answers how many files that was."""
    folder = state / FOLDER
    if find_link(folder) or not folder.is_dir():
        return 0
    try:
        paths = [path for path in folder.iterdir() if path.is_file() or path.is_symlink()]
        for path in paths:
            path.unlink(missing_ok=True)
        sync_dir(folder)
    except OSError as error:
        raise disk_error(error, folder) from error
    return len(paths)


def _find_path(state: Path, id: str) -> Path:
    return state / FOLDER / f"{id}{_SUFFIX}"
