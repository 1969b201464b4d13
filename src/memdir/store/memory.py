"""MemoryStore: a store in memory, for tests and sessions that are thrown away, and the reference for the contract.

It plans and records as FileStore does, without a disk: a difference between the two is a bug in one of them.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from memdir.errors import NotFoundError
from memdir.format.index import INDEX_FILE, find_splice
from memdir.frozen import replace
from memdir.guard import check_name
from memdir.records import Change, ChangedFile, Header, Memory, Origin, Scope, Signature
from memdir.store import inbox
from memdir.store.contract import ChangeResult, Clock, StoreBase, make_memory, utc_now
from memdir.store.history import find_undone
from memdir.store.plan import FileChange, Planner, WriteRules, decode, digest_of, is_index_path


class MemoryStore(StoreBase):
    _waiting: sqlite3.Connection | None = None

    def __init__(self, *, scope: Scope = Scope.PRIVATE, skip_index: bool = False, clock: Clock = utc_now) -> None:
        self.scope = scope
        self.rules = WriteRules(scope, skip_index)
        self.clock = clock
        self._files: dict[str, tuple[bytes, Signature]] = {}
        self._contents: dict[str, bytes] = {}
        self._changes: list[Change] = []
        self._marks: dict[str, int] = {}
        self._lock = threading.RLock()

    def scan(self) -> tuple[Header, ...]:
        with self._lock:
            names = [path.removesuffix(".md") for path in self._files if not is_index_path(path)]
            headers = (self.read(name).header for name in names)
            return tuple(sorted(headers, key=lambda at: (at.modified, at.name), reverse=True))

    def read(self, name: str) -> Memory:
        check_name(name)
        with self._lock:
            found = self._files.get(f"{name}.md")
        if found is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        return make_memory(name, *found, self.scope)

    def index(self) -> str:
        return decode(self.read_bytes(INDEX_FILE) or b"")

    def changes(self, name: str | None = None, *, limit: int = -1) -> tuple[Change, ...]:
        undone = find_undone({at.undoes: at.id for at in self._changes if at.undoes is not None})
        found = [
            replace(change, undone_by=undone.get(change.id))
            for change in reversed(self._changes)
            if name is None or any(at.path == f"{name}.md" for at in change.files)
        ]
        return tuple(found if limit < 0 else found[:limit])

    def find_last_change(self) -> Change | None:
        return next((change for change in self.changes() if change.undoes is None and change.undone_by is None), None)

    def read_change(self, change: int) -> Change:
        for found in self.changes():
            if found.id == change:
                return found
        raise NotFoundError(f"no change {change} in this history", name=str(change))

    def read_content(self, digest: str) -> bytes:
        return self._contents[digest]

    def read_bytes(self, path: str) -> bytes | None:
        found = self._files.get(path)
        return found[0] if found else None

    def list_files(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        return [
            path[len(prefix) :] for path in self._files if path.startswith(prefix) and "/" not in path[len(prefix) :]
        ]

    def has_mark(self, mark: str) -> bool:
        return bool(mark) and mark in self._marks

    @contextmanager
    def _using_inbox(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """The same table as on disk, without the disk."""
        with self._lock:
            if self._waiting is None:
                self._waiting = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                self._waiting.executescript(inbox.MIGRATION)
            self._waiting.execute("BEGIN")
            try:
                yield self._waiting
                self._waiting.execute("COMMIT")
            finally:
                if self._waiting.in_transaction:
                    self._waiting.execute("ROLLBACK")

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

    def __del__(self) -> None:
        self.close()

    def _commit(
        self, verb: str, origin: Origin, planner: Planner, *, undoes: int | None = None, mark: str = ""
    ) -> ChangeResult:
        with self._lock:
            if self.has_mark(mark):
                return ChangeResult(self._marks[mark], repeated=True)
            changes = planner(self)
            if not changes:
                return ChangeResult()
            number = len(self._changes) + 1
            now = self.clock()
            for planned in changes:
                self._put(planned, number, int(now.timestamp() * 1e9))
            made = tuple(_make_change(planned) for planned in changes)
            self._changes.append(Change(number, now, verb, origin, made, undoes))
            if mark:
                self._marks[mark] = number
            return ChangeResult(number, tuple(changes))

    def _put(self, planned: FileChange, number: int, at: int) -> None:
        if planned.after is None:
            del self._files[planned.path]
        else:
            self._files[planned.path] = planned.after, Signature(number, len(planned.after), at, at)
        for data in (planned.before, planned.after):
            if data is not None and not planned.is_index:
                self._contents[digest_of(data)] = data


def _make_change(planned: FileChange) -> ChangedFile:
    before = digest_of(planned.before) if planned.before is not None else None
    after = digest_of(planned.after) if planned.after is not None else None
    splice = find_splice(planned.before or b"", planned.after or b"") if planned.is_index else None
    return ChangedFile(planned.path, before, after, splice)
