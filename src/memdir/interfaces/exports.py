"""Export a memory directory as one file: an archive, a Markdown document, or JSON lines.

The archive contains the complete directory with its indexes, in either dialect, and is byte for byte the same for the same
memories. Archives and JSON lines can be imported again without loss; the Markdown is for reading. Times are those that a
memory's age is counted from, so a copy is as old as its original. Secrets are included, because a backup must be complete;
their locations are returned for a warning.
"""

import io
import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum

from memdir.errors import MemdirError
from memdir.format import index
from memdir.format.fields import LISTED_FIELDS, describe_fields
from memdir.format.frontmatter import decode
from memdir.frozen import dataclass
from memdir.operations.find import FoundMemory, make_rows
from memdir.records import TEAM_FOLDER, Scope, StoredMemory
from memdir.store.facts import find_ages
from memdir.store.files import FileStore
from memdir.store.plan import is_team
from memdir.store.secrets import find_secrets, render_findings
from memdir.text import fold, list_lines

VERSION = 1  # The version of the JSON lines format.


class ExportFormat(StrEnum):
    TAR = "tar"
    MARKDOWN = "markdown"
    JSONL = "jsonl"

    @property
    def is_text(self) -> bool:
        return self in (ExportFormat.MARKDOWN, ExportFormat.JSONL)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The exported file, its memories, unreadable files with the reason, and a description of its secrets."""

    data: bytes
    names: tuple[str, ...]
    unread: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Content:  # Memories in index order, their bytes and ages by name, and indexes by path.
    memories: Sequence[StoredMemory]
    data: Mapping[str, bytes]
    indexes: Mapping[str, bytes]
    ages: Mapping[str, datetime]


def export(store: FileStore, format: ExportFormat, *, now: datetime, scope: Scope | None = None) -> ExportResult:
    """Export the memories of a store, or only its private or team memories."""
    content, unread = _read(store, now, scope)
    if format is ExportFormat.MARKDOWN:
        data = _render_markdown(content).encode("utf-8", "replace")
    elif format is ExportFormat.JSONL:
        data = _render_rows(store, content)
    else:
        data = _pack(content)
    find = store.rules.find or find_secrets
    secrets = [
        finding
        for memory in content.memories
        for finding in render_findings(find(memory.text), place=memory.header.file)
    ]
    return ExportResult(data, tuple(memory.header.name for memory in content.memories), unread, tuple(secrets))


def _read(store: FileStore, now: datetime, scope: Scope | None) -> tuple[_Content, tuple[tuple[str, str], ...]]:
    def is_selected(path: str) -> bool:
        return scope not in (Scope.PRIVATE, Scope.TEAM) or is_team(path) is (scope is Scope.TEAM)

    memories: list[StoredMemory] = []
    data: dict[str, bytes] = {}
    unread = [(file.path, file.refusal) for file in store.list_entries() if file.refusal and is_selected(file.path)]
    for header in store.scan():
        if not is_selected(header.file):
            continue
        try:
            memory, content = store.read(header.name), store.read_bytes(header.file)
        except MemdirError as error:
            unread.append((header.file, str(error)))
            continue
        if content is not None:
            memories.append(memory)
            data[header.name] = content
    indexes: dict[str, bytes] = {}
    names: list[str] = []
    for folder in ("", f"{TEAM_FOLDER}/"):
        path, content = f"{folder}{index.INDEX_FILE}", None
        with suppress(MemdirError):
            content = store.read_bytes(path) if is_selected(path) else None
        if content is not None:
            indexes[path] = content
            names += [fold(f"{folder}{line.name}") for line in index.parse_index(decode(content)) if line.is_pointer]
    positions = {name: position for position, name in reversed(list(enumerate(names)))}
    memories.sort(key=lambda memory: (positions.get(fold(memory.header.name), len(positions)), memory.header.name))
    return _Content(memories, data, indexes, find_ages(store, memories, now=now)), tuple(unread)


def _pack(content: _Content) -> bytes:
    buffer = io.BytesIO()
    newest = max(content.ages.values(), default=None)
    files = [(path, data, newest) for path, data in content.indexes.items()]
    files += [(f"{name}.md", data, content.ages[name]) for name, data in content.data.items()]
    with tarfile.open(fileobj=buffer, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for path, data, when in sorted(files, key=lambda file: file[0]):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o600
            member.mtime = int(when.timestamp()) if when is not None else 0
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _render_rows(store: FileStore, content: _Content) -> bytes:
    """Return one JSON object per line: the indexes, then the memories in index order."""
    rows: list[dict[str, object]] = []
    hooks: dict[str, str] = {}
    for path, data in content.indexes.items():
        folder = path.removesuffix(index.INDEX_FILE)
        rows.append({"memdir": VERSION, "index": folder.rstrip("/"), "text": decode(data)})
        lines = index.parse_index(decode(data))
        hooks |= {fold(f"{folder}{line.name}"): line.hook for line in reversed(lines) if line.is_pointer}
    fields = ("name", "title", "description", "type", "scope", *LISTED_FIELDS)
    for header in [memory.header for memory in content.memories]:
        (row,) = make_rows([FoundMemory(store, header)], fields, now=header.modified)
        facts = {"modified": content.ages[header.name].isoformat(), "hook": hooks.get(fold(header.name), "")}
        rows.append({"memdir": VERSION, **row, **facts, "text": decode(content.data[header.name])})
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode("ascii")


def _render_markdown(content: _Content) -> str:
    """Return one document with a section per memory; headings in a memory become subheadings."""
    parts = ["# Memories\n"]
    for memory in content.memories:
        header, when = memory.header, content.ages[memory.header.name]
        facts = [str(header.kind or "no type"), header.scope.value, when.date().isoformat(), *describe_fields(header)]
        facts.append(f"`{header.file}`")
        parts.append(f"\n## {header.title}\n\n*{' · '.join(facts)}*\n")
        parts += [f"\n> {header.description}\n"] if header.description else []
        lines = [
            f"##{line}" if re.match(r"#{1,4} ", line) and not fence else line
            for line, fence in list_lines(memory.body.replace("\r\n", "\n"))
        ]
        parts.append("\n" + "\n".join(lines).strip() + "\n")
    return "".join(parts)
