"""Export a memory directory as one archive.

The archive contains the complete directory with its indexes, in either dialect, and is byte for byte the same for the same
memories. It can be imported again without loss. Times are those that a memory's age is counted from, so a copy is as old as
its original. Secrets are included, because a backup must be complete; their locations are returned for a warning.
"""

import io
import tarfile
from contextlib import suppress
from datetime import datetime

from memdir.errors import MemdirError
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.records import TEAM_FOLDER, Scope, StoredMemory
from memdir.store.facts import find_ages
from memdir.store.files import FileStore
from memdir.store.plan import is_team
from memdir.store.secrets import find_secrets, render_findings


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The archive, its memories, unreadable files with the reason, and a description of its secrets."""

    data: bytes
    names: tuple[str, ...]
    unread: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()


def export(store: FileStore, *, now: datetime, scope: Scope | None = None) -> ExportResult:
    """Export the memories of a store, or only its private or team memories."""

    def is_selected(path: str) -> bool:
        return scope not in (Scope.PRIVATE, Scope.TEAM) or is_team(path) is (scope is Scope.TEAM)

    memories: list[StoredMemory] = []
    files: dict[str, bytes] = {}
    unread = [(file.path, file.refusal) for file in store.list_entries() if file.refusal and is_selected(file.path)]
    for header in store.scan():
        if is_selected(header.file):
            try:
                memory, content = store.read(header.name), store.read_bytes(header.file)
            except MemdirError as error:
                unread.append((header.file, str(error)))
                continue
            if content is not None:
                memories.append(memory)
                files[header.file] = content
    ages = {f"{name}.md": age for name, age in find_ages(store, memories, now=now).items()}
    for path in filter(is_selected, (INDEX_FILE, f"{TEAM_FOLDER}/{INDEX_FILE}")):
        with suppress(MemdirError):
            if (content := store.read_bytes(path)) is not None:
                files[path] = content
    find = store.rules.find or find_secrets
    secrets = [
        finding for memory in memories for finding in render_findings(find(memory.text), place=memory.header.file)
    ]
    names = tuple(memory.header.name for memory in memories)
    return ExportResult(_pack(files, ages), names, tuple(unread), tuple(secrets))


def _pack(files: dict[str, bytes], ages: dict[str, datetime]) -> bytes:
    buffer, newest = io.BytesIO(), max(ages.values(), default=None)
    with tarfile.open(fileobj=buffer, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(files.items()):
            member, when = tarfile.TarInfo(path), ages.get(path, newest)
            member.size, member.mode = len(data), 0o600
            member.mtime = int(when.timestamp()) if when is not None else 0
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
