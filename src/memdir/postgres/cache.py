"""A process's cache of a store in PostgreSQL: its files as of a change, contents by digest, memories that were read.

Only committed changes are cached, and callers compare a snapshot's change with the store before they use it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from memdir.errors import ConflictError
from memdir.format.fields import FrontmatterFields
from memdir.frozen import dataclass, field
from memdir.postgres.history import Row
from memdir.records import Signature, StoredMemory
from memdir.store.plan import list_folder

_CACHED_BYTES = 4_194_304  # of contents, by digest
_CACHED_HEADS = 20_000
_CACHED_MEMORIES = 500
_NEIGHBOURS = 16  # read together with the first content that a plan needs: it looks at their dialect


@dataclass(frozen=True, slots=True)
class FileRow:
    digest: str
    size: int
    change: int
    mtime_ns: int

    @property
    def signature(self) -> Signature:
        return Signature(self.change, self.size, self.mtime_ns, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """The files of a store at a revision. `key` identifies the change, because after a failover or restore another
    change may have the same number."""

    revision: int = 0
    epoch: int = -1
    key: UUID | None = None
    files: Mapping[str, FileRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchHead:
    """The last change of a store, and the change at which its search rows were updated. `version` is empty if never."""

    revision: int
    epoch: int
    key: UUID | None
    searched: int
    searched_epoch: int
    version: str
    docs: int
    length: int
    lines: int


class StoreCache:
    """A store's cache in this process: the last snapshot, and contents and headers by digest. Each use checks that the
    snapshot is current; contents with the same digest never change."""

    def __init__(self) -> None:
        self.snapshot = StoreSnapshot()
        self.is_current = False  # whether the snapshot was the newest when it was last used for a change
        self.heads: dict[str, FrontmatterFields] = {}
        self.memories: dict[str, StoredMemory] = {}  # by name, as read by searches
        self.search: object = None  # the cached rows of `postgres.search`
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, digest: str) -> bytes | None:
        with self._lock:
            return self._contents.get(digest)

    def keep(self, digest: str, data: bytes) -> None:
        with self._lock:
            if digest not in self._contents:
                self._contents[digest] = data
                self._bytes += len(data)
            while self._bytes > _CACHED_BYTES:
                self._bytes -= len(self._contents.popitem(last=False)[1])

    def keep_memory(self, memory: StoredMemory) -> None:
        if len(self.memories) >= _CACHED_MEMORIES:
            self.memories = {}
        if len(memory.text) <= _CACHED_BYTES // _CACHED_MEMORIES:
            self.memories[memory.header.name] = memory

    def add_head(self, digest: str, fields: FrontmatterFields) -> None:
        if len(self.heads) >= _CACHED_HEADS:
            self.heads = {}
        self.heads[digest] = fields

    def forget(self, digest: str) -> None:
        with self._lock:
            self._bytes -= len(self._contents.pop(digest, b""))
            self.heads.pop(digest, None)
            self.memories, self.search = {}, None

    def clear(self) -> None:
        with self._lock:
            self._contents.clear()
            self._bytes, self.heads, self.snapshot = 0, {}, StoreSnapshot()
            self.memories, self.search = {}, None


class SnapshotView:
    """The files of a snapshot as a `StoreView` for planning. `load` reads rows of `_READ` by path."""

    def __init__(self, cache: StoreCache, snapshot: StoreSnapshot, load: Callable[[Sequence[str]], list[Row]]) -> None:
        self._cache, self._files, self._load = cache, snapshot.files, load

    def read_bytes(self, path: str) -> bytes | None:
        row = self._files.get(path)
        if row is None:
            return None
        data = self._cache.find(row.digest)
        return self._read(path) if data is None else data

    def list_files(self, folder: str) -> list[str]:
        return list_folder(self._files, folder)

    def _read(self, path: str) -> bytes | None:
        paths = [path]
        for other, row in self._files.items():
            if len(paths) > _NEIGHBOURS:
                break
            if other != path and self._cache.find(row.digest) is None:
                paths.append(other)
        rows = self._load(paths)
        contents: dict[str, bytes | None] = {row[2]: row[0] for row in rows}
        for digest, data in contents.items():
            if data is not None:
                self._cache.keep(digest, data)
        if self._files[path].digest not in contents:  # it was changed since
            raise ConflictError(f"{path} changed while it was being read", hint="try again", found="")
        return contents[self._files[path].digest]
