"""Where a session's notes lie, how they are read and written, and who is writing them just now.

    <project>/<session>/session-memory/summary.md     0600 in a folder 0700
    <project>/<session>/session-memory/.update.lock   held while an update runs; it ends with its process

`<project>` is the host's own directory of the project, beside its transcripts. A session's id comes from outside: it
becomes one plain folder name, and no link below the project's directory is followed. A write is refused if the file
changed since it was read.

Notes are text of one session and no memories: `forget --purge` does not look into them, and says so. They go when the
host or the person deletes the session's folder.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from memdir import disk, guard
from memdir.errors import ConflictError, LockedError, NotFoundError, PathError
from memdir.frozen import dataclass
from memdir.limits import NOTES_BYTES, NOTES_WAIT_SECONDS
from memdir.lock import hold
from memdir.session import digest, make_leaf
from memdir.text import replace_surrogates

FOLDER, FILE, LOCK = "session-memory", "summary.md", ".update.lock"
_LISTED = 2_000  # session folders looked at
# Folders of a project's directory that are no session's: one of that name would put notes among the memories.
_TAKEN = frozenset(("memory", "subagents", FOLDER))
_DIGESTED = re.compile(r"[a-z0-9_-]{1,40}\.[0-9a-f]{20}")


@dataclass(frozen=True, slots=True)
class Place:
    """The notes of one session; `leaf` is its folder's name."""

    project: Path
    leaf: str

    @property
    def path(self) -> Path:
        return self.project / self.leaf / FOLDER / FILE

    @property
    def inner(self) -> str:
        """The file below the project's directory."""
        return f"{self.leaf}/{FOLDER}/{FILE}"


@dataclass(frozen=True, slots=True)
class Kept:
    """Notes that are on disk."""

    place: Place
    modified: datetime
    size: int


def find_place(project: Path, session: str) -> Place:
    """The place of a session's notes, whether there are any or not; any id is taken, and none leads elsewhere."""
    leaf = session if _DIGESTED.fullmatch(session) else make_leaf(session)
    return Place(project, f"{leaf}.{digest(session)}" if leaf in _TAKEN else leaf)


def read_notes_file(place: Place) -> str | None:
    """The text of the file; None if there is none. Raises PathError for a link or what is no notes file."""
    try:
        root = guard.open_root(place.project)
    except NotFoundError:
        return None
    try:
        with guard.disk_errors(place.inner):
            found = disk.read_file(root, place.inner, limit=NOTES_BYTES)
    finally:
        os.close(root)
    return None if found is None else found[0].decode("utf-8", "replace")


def write_notes_file(place: Place, text: str, *, expect: str | None) -> None:
    """Put the text there in one step, under `updating`; raises ConflictError if the file is not what `expect` says."""
    found = read_notes_file(place)
    if found != expect:
        raise ConflictError("the notes were changed by somebody else meanwhile", hint="the next update takes that in")
    root = guard.open_root(place.project, create=True)
    try:
        temp = disk.stage_file(root, place.inner, replace_surrogates(text).encode("utf-8"))
        disk.move_staged(root, temp, place.inner)
        disk.flush_folder(root, f"{place.leaf}/{FOLDER}")
    finally:
        os.close(root)


@contextmanager
def updating(place: Place, *, seconds: float = 0.0) -> Iterator[None]:
    """Be the one who updates these notes, or LockedError."""
    with _open_folder(place, create=True) as folder, hold(folder, LOCK, seconds=seconds):
        disk.remove_temps(folder, "")  # what a killed writer left staged
        yield


def wait_for_update(place: Place, seconds: float = NOTES_WAIT_SECONDS) -> bool:
    """Wait until no update is running, at most so long; says whether none is. One that died is not waited for."""
    try:
        with _open_folder(place) as folder, hold(folder, LOCK, seconds=seconds):
            return True
    except NotFoundError:
        return True
    except LockedError:
        return False


def find_notes(place: Place) -> Kept | None:
    """The notes of one session, if there are any that can be read."""
    try:
        root = guard.open_root(place.project)
    except NotFoundError:
        return None
    try:
        return _look(root, place)
    finally:
        os.close(root)


def list_notes(project: Path) -> tuple[Kept, ...]:
    """The notes of all sessions of a project, newest first; what may not be read is passed over."""
    try:
        with os.scandir(project) as entries:
            leaves = [at.name for at in entries if at.name not in _TAKEN and at.is_dir(follow_symlinks=False)]
        root = guard.open_root(project)
    except (OSError, NotFoundError):
        return ()
    try:
        found = [kept for leaf in leaves[:_LISTED] if (kept := _look(root, Place(project, leaf)))]
    finally:
        os.close(root)
    return tuple(sorted(found, key=lambda at: (at.modified, at.place.leaf), reverse=True))


def _look(root: int, place: Place) -> Kept | None:
    try:
        with guard.open_folder(root, (place.leaf, FOLDER)) as folder:
            facts = os.stat(FILE, dir_fd=folder, follow_symlinks=False)
    except (OSError, PathError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return Kept(place, datetime.fromtimestamp(facts.st_mtime, UTC), facts.st_size)


@contextmanager
def _open_folder(place: Place, *, create: bool = False) -> Iterator[int]:
    root = guard.open_root(place.project, create=create)
    try:
        with guard.disk_errors(place.inner):
            folder = _step_in(root, place, create)
    finally:
        os.close(root)
    try:
        yield folder
    finally:
        os.close(folder)


def _step_in(root: int, place: Place, create: bool) -> int:
    try:
        with guard.open_folder(root, (place.leaf, FOLDER), create=create) as folder:
            # Somebody else may have made it for all to read; the session's own folder above is the host's affair.
            if create and stat.S_IMODE(os.fstat(folder).st_mode) & 0o077:
                os.fchmod(folder, 0o700)
            return os.dup(folder)
    except FileNotFoundError:
        raise NotFoundError("there are no notes of this session", name=place.leaf) from None
