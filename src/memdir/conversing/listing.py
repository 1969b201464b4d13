"""What the memory directories held when they were last looked at, for a conversation that asks again and again.

To look at ten thousand files takes five times as long as to search them. So the listing of a large directory is trusted
for a while, as long as no folder of it has changed: that tells of every file that came, went, or was put in place of
another, as memdir, git and many editors do it. A file that was written over in place shows only to a look at all of
them; one comes after every turn (`look_again`). Until then such a file is ranked by its old words. What is told of it
is always read anew.
"""

import os
import time

from memdir import guard
from memdir.disk import Stat
from memdir.errors import MemdirError
from memdir.frozen import dataclass
from memdir.search.local import list_signatures
from memdir.store.contract import Store
from memdir.store.files import FileStore

LARGE = 2_000  # files; to look at fewer takes no time that anybody would notice
_TRUSTED_SECONDS = 300.0
_SETTLED_NS = 2_000_000_000  # a folder that changed just now may change again with the same time


@dataclass(frozen=True, slots=True)
class _Known:
    marks: dict[str, int]
    signatures: dict[str, Stat]
    looked: float


class Listings:
    """Of one conversation; may be used from several threads, the last look counts."""

    def __init__(self, large: int = LARGE) -> None:
        self._large = large
        self._known: dict[int, _Known] = {}

    def find(self, store: Store) -> dict[str, Stat] | None:
        """The files as they were, if no folder has changed since; None if somebody has to look."""
        known = self._known.get(id(store))
        if known is None or not isinstance(store, FileStore) or time.monotonic() - known.looked > _TRUSTED_SECONDS:
            return None
        return known.signatures if _read_marks(store, known.marks) == known.marks else None

    def look(self, store: Store) -> dict[str, Stat]:
        """The files as they are now."""
        if not isinstance(store, FileStore):
            return list_signatures(store)
        marks: dict[str, int] = {}
        signatures = store.signatures(marks)
        is_large = bool(marks) and len(signatures) >= self._large
        if is_large and time.time_ns() - max(marks.values()) > _SETTLED_NS:
            self._known[id(store)] = _Known(marks, signatures, time.monotonic())
        else:
            self._known.pop(id(store), None)
        return signatures

    def look_again(self, store: Store) -> None:
        """Look at a store whose listing may be trusted; where none is, nothing is to do."""
        if id(store) in self._known:
            try:
                self.look(store)
            except MemdirError:
                self._known.pop(id(store), None)


def _read_marks(store: FileStore, folders: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        root = guard.open_root(store.root)
    except MemdirError:
        return found
    try:
        for folder in folders:
            found[folder] = os.stat(folder or ".", dir_fd=root, follow_symlinks=False).st_mtime_ns
    except OSError:
        return {}
    finally:
        os.close(root)
    return found
