"""What team sync keeps in the state folder, by name; and how a purge takes a memory out of it.

    team.git          memdir's own copy of the team's branch: a bare repository that nobody else uses
    team.json         which remote, which branch, and how this member takes part
    team-point.json   what the files were when they were last in step with the branch
    team-sync.json    how the last sync went, and what is refused
    team-news.json    what came from others since somebody last looked

All but `team.json` can be deleted: the copy comes back with the next sync. What is in them is known to `team`.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from memdir.errors import PathError
from memdir.session import find_link
from memdir.small_files import disk_error, read_small, write_private
from memdir.text import fold

COPY = "team.git"
POINT = "team-point.json"
RECORD = "team-sync.json"
NEWS = "team-news.json"
_FOLDER = "team"
_BYTES = 67_108_864  # the names of all that a team may have, and its index


def read_table(state: Path, file: str) -> dict[str, object]:
    """What one of these files holds; empty if it is not there, or is no table."""
    if find_link(state / file):
        return {}
    try:
        table = json.loads(read_small(state / file, _BYTES, follow=False).data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def write_table(state: Path, file: str, table: Mapping[str, object]) -> None:
    """Put a table there in one step; raises DiskError or PathError."""
    if link := find_link(state / file):
        raise PathError(str(link), "it is a symbolic link")
    write_private(state / file, json.dumps(dict(table), ensure_ascii=True).encode("ascii") + b"\n")


def drop_copy(state: Path) -> None:
    """Take memdir's own copy of the branch away."""
    path = state / COPY
    try:
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    except OSError as error:
        raise disk_error(error, path) from error


def drop_name(state: Path, name: str) -> None:
    """Take one team memory out, for purge: the copy goes whole, and the record and the news with it.

    The point knows names by their digests only, so there the index is all that could speak of it.
    """
    folder, slash, leaf = name.partition("/")
    if not slash or fold(folder) != _FOLDER:
        return
    drop_copy(state)
    for file in (RECORD, NEWS):
        (state / file).unlink(missing_ok=True)
    point = read_table(state, POINT)
    if point:
        pending = point.get("pending")
        more = {"pending": _drop_lines(pending, leaf)} if isinstance(pending, dict) else {}
        write_table(state, POINT, {**_drop_lines(point, leaf), **more})


def _drop_lines(point: Mapping[str, object], leaf: str) -> dict[str, object]:
    lines = str(point.get("index") or "").splitlines(keepends=True)
    return {**point, "index": "".join(line for line in lines if f"{fold(leaf)}.md" not in fold(line))}
