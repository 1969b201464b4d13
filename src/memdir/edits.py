"""Texts that are in a person's editor: kept in the state folder until they are saved, so that none is ever lost.

An edit that cannot be saved (broken frontmatter, somebody was quicker, the disk is full) stays there under the name it
was told by. These are files of memdir's own, so `forget --purge` drops those of its memory.

It does not run the editor and does not write memories.
"""

import hashlib
import os
import re
import tempfile
from pathlib import Path

from memdir.settings import Environment
from memdir.slugs import slug
from memdir.small_files import disk_error, make_private_dirs, sync_dir

_SUFFIX = ".md"  # editors know it, and the folder is no memory directory
_NAME_BYTES = 180  # file systems stop at 255, and the random part needs room


def open_edit(environment: Environment, root: Path, name: str, data: bytes) -> Path:
    """A file of its own with the text of a memory, mode 0600."""
    folder = _find_folder(environment, root)
    try:
        make_private_dirs(folder)
        handle, path = tempfile.mkstemp(prefix=f"{_flatten(name)}.", suffix=_SUFFIX, dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise disk_error(error, folder) from error
    return Path(path)


def find_edits(environment: Environment, root: Path, name: str) -> tuple[Path, ...]:
    """What was left of earlier edits of this memory."""
    pattern = re.compile(rf"{re.escape(_flatten(name))}\.[A-Za-z0-9_]+{re.escape(_SUFFIX)}")
    folder = _find_folder(environment, root)
    try:
        return tuple(folder / leaf for leaf in sorted(os.listdir(folder)) if pattern.fullmatch(leaf))
    except OSError:
        return ()


def drop_edits(environment: Environment, root: Path, name: str) -> int:
    """Remove what was left of earlier edits of this memory; answers how many files that was."""
    found = find_edits(environment, root, name)
    for path in found:
        try:
            path.unlink(missing_ok=True)
            sync_dir(path.parent)
        except OSError as error:
            raise disk_error(error, path) from error
    return len(found)


def _find_folder(environment: Environment, root: Path) -> Path:
    return environment.state_home / "edits" / slug(os.path.realpath(root))


def _flatten(name: str) -> str:
    """A name as one file name. Names have no dots, so no two become the same; a digest tells long ones apart."""
    flat = name.replace("/", ".")
    data = flat.encode("utf-8", "replace")
    if len(data) <= _NAME_BYTES:
        return flat
    return data[: _NAME_BYTES - 20].decode("utf-8", "ignore") + "-" + hashlib.sha256(data).hexdigest()[:16]
