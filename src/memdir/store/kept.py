"""What a directory keeps beside its memories and their acts: the ledger of recalls, and the inbox.

Recalls are noted as best as can be, without the lock and without a word when it fails. The inbox is written under the
lock, and what was answered is on the disk.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memdir.errors import MemdirError
from memdir.records import Memory, Surfacing
from memdir.store import dating, history, inbox, ledger
from memdir.store.held import NOTICE_SECONDS, HeldDirectory


class KeptDirectory(HeldDirectory):
    """A held directory with a ledger and an inbox."""

    def recalls(self, name: str | None = None, *, limit: int = -1) -> tuple[Surfacing, ...]:
        """When and for which query a memory, or any, was surfaced; newest first."""
        with self._reading_table(ledger.SINCE) as db:
            return ledger.read_rows(db, name, limit) if db else ()

    def uses(self) -> dict[str, int]:
        """Name to how often it was surfaced, as far back as the ledger goes."""
        with self._reading_table(ledger.SINCE) as db:
            return ledger.count_rows(db) if db else {}

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        """Put rows into the ledger: best effort, at once or not at all, and nobody is told."""
        path = self.state / history.FILE
        try:
            place = self.state if path.exists() else self.root
            if not recalls or path.is_symlink() or self.state.is_symlink() or not os.access(place, os.W_OK):
                return
            if not path.exists() and not self._make_history():
                return
            with history.open_briefly(path, busy_seconds=NOTICE_SECONDS) as past, past.transaction(durable=False) as db:
                ledger.add_rows(db, recalls)
        except (OSError, MemdirError):
            pass

    def recorded(self) -> dict[str, str]:
        """Path to the digest of every file as history last saw it."""
        with self._reading_history() as past:
            return {path: digest for path, (digest, _) in past.find_recorded().items()} if past else {}

    def find_dates(self, memories: Sequence[Memory]) -> tuple[dating.Dated, ...]:
        """What history knows of when each memory came to have its bytes."""
        with self._reading_history() as past:
            if past is None:
                return tuple(dating.Dated() for _ in memories)
            with past.reading() as db:
                return tuple(dating.find_dates(db, at.header.file, at.digest, at.header.signature) for at in memories)

    def has_items(self, name: str) -> bool:
        """Whether anything in the inbox, waiting or decided, is about this memory."""
        with self._reading_table(inbox.SINCE) as db:
            return db is not None and inbox.has_about(db, name)

    @contextmanager
    def _using_inbox(self, *, write: bool) -> Iterator[sqlite3.Connection | None]:
        if not write:
            with self._reading_table(inbox.SINCE) as found:
                yield found
            return
        with self._holding() as (_, past), past.transaction(durable=True) as db:
            yield db

    @contextmanager
    def _reading_table(self, since: int) -> Iterator[sqlite3.Connection | None]:
        """The database, None if nobody has written to it since before there was this table."""
        with self._reading_history() as past:
            if past is None or past.version < since:
                yield None
                return
            with past.reading() as db:
                yield db

    def _make_history(self) -> bool:
        """An empty history, made under the lock; whether there is one now."""
        if not self._threads.acquire(timeout=NOTICE_SECONDS):
            return False
        try:
            with self._holding(seconds=NOTICE_SECONDS):
                return True
        finally:
            self._threads.release()
