"""MemoryStore: a store in memory, for tests and temporary sessions, and the reference for the contract.

It plans and records as FileStore does, without a disk: a difference between the two is a bug in one of them.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from weakref import finalize

from memdir.errors import NotFoundError
from memdir.files import check_name
from memdir.format.frontmatter import make_memory
from memdir.records import Header, Origin, Scope, Signature, StoredMemory, Surfacing
from memdir.store.contract import ChangeResult, Clock, StoreBase, Workplace, utc_now
from memdir.store.history import IN_MEMORY, History
from memdir.store.inbox import SqliteInbox
from memdir.store.plan import FileChange, Planner, WriteRules, is_index_path, list_folder


class MemoryStore(StoreBase):
    def __init__(self, *, scope: Scope = Scope.PRIVATE, skip_index: bool = False, clock: Clock = utc_now) -> None:
        self.scope = scope
        self.rules = WriteRules(scope, skip_index, shared=scope is Scope.PROJECT)
        self.clock = clock
        self._files: dict[str, tuple[bytes, Signature]] = {}
        self._lock = threading.RLock()
        self._history = History(Path(IN_MEMORY))
        self._folder: Path | None = None  # for records and locks, made when it is needed

    def scan(self) -> tuple[Header, ...]:
        with self._lock:
            names = [path.removesuffix(".md") for path in self._files if not is_index_path(path)]
            headers = (self.read(name).header for name in names)
            return tuple(sorted(headers, key=lambda header: (header.modified, header.name), reverse=True))

    def read(self, name: str) -> StoredMemory:
        check_name(name)
        with self._lock:
            file = self._files.get(f"{name}.md")
        if file is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        return make_memory(name, *file, self.scope)

    def read_bytes(self, path: str) -> bytes | None:
        return self._files.get(path, (None,))[0]

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]:
        return list_folder(self._files, folder)

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        with self._lock:
            self._history.add_recalls(recalls)

    def open_workplace(self, root: Path | None = None) -> Workplace:
        """Return where records and locks are stored, by default a temporary folder that is removed with the store."""
        if root is None and self._folder is None:
            self._folder = Path(mkdtemp(prefix="memdir-"))
            finalize(self, rmtree, self._folder, ignore_errors=True)
        return super().open_workplace(root or self._folder)

    def close(self) -> None:
        self._history.close()
        if self._folder is not None:
            rmtree(self._folder, ignore_errors=True)

    def __del__(self) -> None:
        if getattr(self, "_history", None) is not None:
            self.close()

    def _purge_name(self, name: str) -> int:
        self._forget_known(name)
        with self._lock:
            return self._history.purge(name)

    @contextmanager
    def _reading_history(self) -> Iterator[History]:
        with self._lock:
            yield self._history

    @contextmanager
    def _using_inbox(self, *, write: bool) -> Iterator[SqliteInbox]:
        with self._lock, self._history.transaction(durable=False) as db:
            yield SqliteInbox(db)

    def _apply(self, verb: str, origin: Origin, planner: Planner, undoes: int | None, mark: str) -> ChangeResult:
        with self._lock:
            if (change := self._history.find_marked(mark)) is not None:
                return ChangeResult(change, repeated=True)
            changes = planner(self)
            if not changes:
                return ChangeResult()
            now = self.clock()
            number = self._history.begin(verb, origin, now, changes, seen={}, undoes=undoes, mark=mark)
            written: list[tuple[FileChange, Signature | None]] = []
            nanoseconds = int(now.timestamp() * 1e9)
            for planned in changes:
                if planned.after is None:
                    del self._files[planned.path]
                    written.append((planned, None))
                else:
                    signature = Signature(number, len(planned.after), nanoseconds, nanoseconds)
                    self._files[planned.path] = planned.after, signature
                    written.append((planned, signature))
            self._history.finish(number, written)
            return ChangeResult(number, tuple(changes))
