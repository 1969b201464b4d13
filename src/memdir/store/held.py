"""A memory directory in the hands of one holder at a time: its lock, its history, and the healing in between.

FileStore is built on it. It knows nothing of drafts or headers: it opens, locks, heals and lets go.
"""

import os
from _thread import RLock  # what `threading` has, without importing all of it at every prompt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from memdir import disk, guard
from memdir.errors import MemdirError
from memdir.lock import hold
from memdir.records import Signature
from memdir.store import history
from memdir.store.apply import heal

STATE_FOLDER = ".memdir"
# How long a reader waits for the lock before it leaves noticing outside edits, or making a history, to somebody else.
NOTICE_SECONDS = 0.2


class HeldDirectory:
    """`state` is where lock and history lie; `on_open` is called when a process opens the history to write."""

    def __init__(
        self, root: Path, state: Path, *, lock_seconds: float, on_open: Callable[[], None] | None = None
    ) -> None:
        self.root = root
        self.state = state
        self._lock_seconds = lock_seconds
        self._on_open = on_open
        self._threads = RLock()
        self._history: history.History | None = None
        self._pid = 0

    def close(self) -> None:
        with self._threads:
            if self._history is not None and self._pid == os.getpid():
                self._history.close()
            self._history = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_threads", None) is not None:
            self.close()

    def _heal_if_killed(self) -> None:
        """A lock file that still names a holder, but is held by none, tells of a killed act: heal it before reading."""
        try:
            if os.stat(self.state / "lock").st_size > 0:
                with self._holding(seconds=0):
                    pass
        except (OSError, MemdirError):
            pass

    @contextmanager
    def _holding(self, *, seconds: float | None = None) -> Iterator[tuple[int, history.History]]:
        """The directory, locked and healed."""
        with self._threads:
            root = guard.open_root(self.root, create=True)
            try:
                with self._open_state(root) as state, guard.disk_errors(str(self.state)):
                    wait = self._lock_seconds if seconds is None else seconds
                    with hold(state, "lock", seconds=wait):
                        past = self._open_history(state)
                        heal(root, past)
                        yield root, past
            finally:
                os.close(root)

    @contextmanager
    def hold_beside(self, name: str, *, seconds: float = 0) -> Iterator[None]:
        """Hold another lock of this directory, for work that goes on beside its acts; LockedError if it is held."""
        root = guard.open_root(self.root, create=True)
        try:
            with self._open_state(root) as state, hold(state, name, seconds=seconds):
                yield
        finally:
            os.close(root)

    @contextmanager
    def _open_state(self, root: int) -> Iterator[int]:
        if self.state == self.root / STATE_FOLDER:
            with guard.disk_errors(str(self.state)), guard.open_folder(root, (STATE_FOLDER,), create=True) as state:
                yield state
            return
        state = guard.open_root(self.state, create=True)
        try:
            yield state
        finally:
            os.close(state)

    def _open_history(self, state: int) -> history.History:
        if self._history is None or self._pid != os.getpid():
            guard.check_plain(state, history.FILE)
            self._history = history.History(self.state / history.FILE)
            self._pid = os.getpid()
            if self._on_open is not None:
                self._on_open()
        return self._history

    @contextmanager
    def _reading_history(self) -> Iterator[history.History | None]:
        """History for readers: none yet is None, and a directory that cannot be written can still be looked at."""
        with self._threads:
            if self._history is not None and self._pid == os.getpid():
                yield self._history
                return
            path = self.state / history.FILE
            if not path.is_file() or path.is_symlink() or self.state.is_symlink():
                yield None
                return
            past = history.History(path, readonly=True)
            try:
                yield past
            finally:
                past.close()


class DiskView:
    """The files under the lock, remembering the signature each had when it was read."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[str, Signature | None] = {}

    def read_bytes(self, path: str) -> bytes | None:
        with guard.disk_errors(path):
            found = disk.read_file(self._root, path)
        self._seen[path] = found[1] if found else None
        return found[0] if found else None

    def list_files(self, folder: str) -> list[str]:
        return disk.list_files(self._root, folder)

    def find_seen(self, path: str) -> Signature | None:
        return self._seen[path] if path in self._seen else disk.read_signature(self._root, path)


def try_to_heal(root: int, past: history.History) -> None:
    """Healing after an error that is being told already: a second one adds nothing."""
    try:
        heal(root, past)
    except MemdirError:
        pass
