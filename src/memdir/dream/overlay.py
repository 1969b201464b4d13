"""A store as it would be with patches applied: in memory, for whoever dreams on from there.

It reads the files through the store, once, and writes nothing anywhere. The digests it gives are those of the texts it
shows; `find_digest` gives that of the file as it really is, which is what a batch compares with.
"""

from collections.abc import Sequence
from datetime import datetime

from memdir.errors import NotFoundError
from memdir.frontmatter import parse_fields
from memdir.frozen import replace
from memdir.records import Edit, Header, Memory, Signature
from memdir.store.batch import Batch, plan_batch
from memdir.store.contract import Verbs, make_header, make_memory
from memdir.store.plan import Rules, decode, digest_of, is_index


class Overlaid:
    """The store after these edits; those that clash or touch a pinned memory are left out, as they will be."""

    def __init__(self, store: Verbs, edits: Sequence[Sequence[Edit]], *, now: datetime) -> None:
        self._store = store
        self.rules: Rules = store.rules
        self.batch: Batch = plan_batch(store, edits, now, store.rules, drop_conflicts=True, keep_pinned=True)
        self._changed = {at.path: at.after for at in self.batch.changes}
        self._headers = {header.name: header for header in store.scan()}
        self._now = now

    def scan(self) -> tuple[Header, ...]:
        gone = {path.removesuffix(".md") for path, data in self._changed.items() if data is None}
        found = {name: header for name, header in self._headers.items() if name not in gone}
        for path, data in self._changed.items():
            if data is not None and not is_index(path):
                name = path.removesuffix(".md")
                found[name] = self._make_header(name, data)
        return tuple(sorted(found.values(), key=lambda header: (header.modified, header.name), reverse=True))

    def read(self, name: str) -> Memory:
        path = f"{name}.md"
        if path not in self._changed:
            return self._store.read(name)
        data = self._changed[path]
        if data is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        memory = make_memory(name, data, self._make_signature(name, data), self._store.scope)
        return replace(memory, header=self._make_header(name, data))

    def read_bytes(self, path: str) -> bytes | None:
        return self._changed[path] if path in self._changed else self._store.read_bytes(path)

    def list_files(self, folder: str) -> list[str]:
        names = dict.fromkeys(self._store.list_files(folder))
        for path, data in self._changed.items():
            place, _, leaf = path.rpartition("/")
            if place == folder and data is None:
                names.pop(leaf, None)
            elif place == folder:
                names[leaf] = None
        return list(names)

    def index(self) -> str:
        return decode(self.read_bytes("MEMORY.md") or b"")

    def find_digest(self, name: str) -> str | None:
        """Of the file as it is; of one that these edits make, as they make it."""
        path = f"{name}.md"
        data = self._store.read_bytes(path) if name in self._headers else self._changed.get(path)
        return None if data is None else digest_of(data)

    def is_changed(self, name: str) -> bool:
        return f"{name}.md" in self._changed

    def _make_header(self, name: str, data: bytes) -> Header:
        """The head of the new text; a memory is as old as it was, because tidying it says nothing new of the world."""
        made = make_header(name, parse_fields(decode(data)), self._make_signature(name, data), self._store.scope)
        old = self._headers.get(name)
        return made if old is None else replace(made, modified=old.modified)

    def _make_signature(self, name: str, data: bytes) -> Signature:
        old = self._headers.get(name)
        at = int(self._now.timestamp() * 1e9)
        return old.signature if old is not None else Signature(0, len(data), at, at)
