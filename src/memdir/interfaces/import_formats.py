"""Read the memories of other tools as import candidates: one reader per format, for folders, archives and single files.

    path --_find_path--> path --read_files--> files --a reader--> candidates

For a project, this reads the memory directory of Claude Code or memdir. The format is detected from the contents of files. Instruction files are refused: agents load them.

Archives are not trusted and never unpacked to disk. Members that are links or devices, that leave the archive's root, or
that exceed the size limit of a memory are refused by name. An archive that unpacks to too much is refused as a whole.
"""

import gzip
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from memdir import files as guard
from memdir.conversation.chat_exports import ChatExport, find_export
from memdir.errors import FormatError, NotFoundError, PathError
from memdir.files import read_small
from memdir.format import frontmatter, index
from memdir.format.fields import FrontmatterFields
from memdir.format.frontmatter import check_description, decode, make_slug
from memdir.frozen import dataclass, replace
from memdir.interfaces import imports
from memdir.interfaces.imports import ImportCandidate, ImportFormat, ReadSource, guess_kind, make_sentence, refuse
from memdir.limits import FILE_BYTES, IMPORT_BYTES, IMPORT_FILES, IMPORT_ITEMS, NAME_DEPTH
from memdir.project.hosts import HOSTS
from memdir.project.paths import slug
from memdir.project.settings import Environment
from memdir.records import TEAM_FOLDER, Dialect, Kind
from memdir.store.history import MemorySource
from memdir.store.plan import is_team
from memdir.text import blank_fences, fold, list_lines, one_line, parse_json, shorten

_HINT = f"pass the format with --from: {', '.join(ImportFormat)}"
_TEAM_REFUSAL = "it is a team memory; pass --with-team to import it and share it from here"
_TOO_LARGE = f"larger than {FILE_BYTES:,} bytes"
_DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, ValueError, RecursionError,
    NotImplementedError,
)  # fmt: skip
_INSTRUCTIONS = {host.instructions for host in HOSTS.values() if host.instructions}
Row = Mapping[str, object]
_Member = tuple[str, MemorySource | None, bytes | str]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source, with its path below the source's root, its bytes, its time and, in our archives, its author."""

    path: str
    data: bytes
    modified: datetime | None = None
    author: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of a source, and skipped paths with the reasons. `where` is the path that the user passed."""

    where: str
    files: tuple[SourceFile, ...]
    refused: tuple[tuple[str, str], ...] = ()
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class ImportContext:
    environment: Environment
    now: datetime
    with_team: bool = False


def read_sources(argument: str, format: ImportFormat | None, *, cwd: Path, context: ImportContext) -> ReadSource:
    """Return the candidates for a path.

    Raises NotFoundError if there are none, FormatError if the format is unknown.
    """
    path, known = _find_path(argument, format, cwd=cwd, context=context)
    if format in (None, ImportFormat.CHATGPT, ImportFormat.CLAUDE) and (export := find_export(path)) is not None:
        return _read_export(export, context)
    return _read_source(read_files(path), format or known, context)


def _find_path(
    argument: str, format: ImportFormat | None, *, cwd: Path, context: ImportContext
) -> tuple[Path, ImportFormat | None]:
    try:
        path = cwd / Path(argument).expanduser()
    except RuntimeError:
        hint = "this user has no home directory"
        raise NotFoundError(f"nothing found at {argument}", name=argument, hint=hint) from None
    if path.is_dir() and not (path / index.INDEX_FILE).exists() and format in (None, ImportFormat.CLAUDE_CODE):
        for memory in (
            path / "memory",
            context.environment.claude_home / "projects" / slug(str(path.resolve())) / "memory",
        ):
            if memory.is_dir():
                return memory, ImportFormat.CLAUDE_CODE
    if format is None and (path / ".obsidian").exists():
        return path, ImportFormat.NOTES
    if format is None and (path.name in _INSTRUCTIONS or any((path / name).is_file() for name in _INSTRUCTIONS)):
        hint = "agents load instruction files themselves; `memdir remember` keeps one fact"
        raise FormatError(f"no memories in {argument}", field="source", hint=hint)
    return path, None


def _read_source(source: SourceFiles, format: ImportFormat | None, context: ImportContext) -> ReadSource:
    format = format or detect_source(source)
    if format is ImportFormat.NOTES:
        return _read_notes(source)
    if format is None:
        raise FormatError(f"unknown format: {source.where}", field="format", hint=_HINT)
    if format is ImportFormat.CLAUDE_CODE:
        return read_directory(source, with_team=context.with_team)
    read = _read_mem0 if format is ImportFormat.MEM0 else _read_chatgpt
    return ReadSource(format, tuple(candidate for file in source.files for candidate in read(file, context)))


def detect_source(source: SourceFiles) -> ImportFormat | None:
    """Detect the format from the contents of the files; return None if it is unknown."""
    if _has_memories(source):
        return ImportFormat.CLAUDE_CODE
    if any(_is_mem0(file) for file in source.files):
        return ImportFormat.MEM0
    has_notes = any(file.name.endswith(".md") for file in source.files)
    if any(_is_about_user(file.text) for file in source.files) and not (source.is_folder and has_notes):
        return ImportFormat.CHATGPT
    return ImportFormat.NOTES if has_notes else None


def _is_about_user(text: str) -> bool:  # In ChatGPT's memories at least one line in three mentions "the user".
    lines = [line for line in text.lower().split("\n") if line.strip()]
    is_prose = bool(lines) and not lines[0].lstrip().startswith(("{", "["))
    return is_prose and sum("user" in line for line in lines) * 3 >= len(lines)


def read_files(path: Path) -> SourceFiles:
    """Return the files of a folder or archive, or a single file; raises NotFoundError, FormatError or PathError."""
    if path.is_dir():
        return _collect_files(str(path), _walk_folder(path))
    reading = read_small(path, IMPORT_BYTES)
    if reading.data is None:
        if reading.problem:
            raise PathError(str(path), reading.problem)
        raise NotFoundError(f"nothing found at {path}", name=str(path), hint="pass a file, a folder or an archive")
    data, is_packed = reading.data, reading.data.startswith(b"\x1f\x8b")
    if is_packed or data[257:262] == b"ustar" or data.startswith(b"PK\3\4"):
        return _collect_files(str(path), _walk_archive(data, is_packed))
    when = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return SourceFiles(str(path), (SourceFile(path.name, data, when),))


def _collect_files(where: str, members: Iterator[_Member]) -> SourceFiles:
    """Collect the members as files, sorted by path; the last of equal paths wins. A member whose data is a string is
    refused, and the string is the reason."""
    files: dict[str, SourceFile] = {}
    refused: list[tuple[str, str]] = []
    total = 0
    for number, (path, source, data) in enumerate(members):
        total += len(data)
        if number >= IMPORT_FILES or total > IMPORT_BYTES:
            limit = f"{IMPORT_FILES:,} files or {IMPORT_BYTES:,} bytes"
            raise FormatError(f"{where} exceeds {limit}", hint="pass a smaller folder")
        if isinstance(data, str):
            refused.append((shorten(one_line(path), 200), data))
        elif not any(part.startswith(".") for part in path.split("/")):
            files[path] = SourceFile(path, data, *(source or (None, "")))
    return SourceFiles(where, tuple(files[path] for path in sorted(files)), tuple(refused), is_folder=True)


def _walk_folder(path: Path) -> Iterator[_Member]:
    """Yield the Markdown files of a folder at any depth; skips hidden files and does not follow links."""
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(leaf for leaf in names if leaf.endswith(".md") and not leaf.startswith(".")):
            file = Path(folder, name)
            reading = read_small(file, FILE_BYTES, follow=False)
            if reading.data is None:
                yield file.relative_to(path).as_posix(), None, reading.problem or "this file no longer exists"
            else:
                when = MemorySource(datetime.fromtimestamp(file.stat().st_mtime, UTC))
                yield file.relative_to(path).as_posix(), when, reading.data


def _walk_archive(data: bytes, is_packed: bool) -> Iterator[_Member]:
    try:
        if is_packed:
            with gzip.open(io.BytesIO(data), "rb") as packed:
                data = packed.read(IMPORT_BYTES + 1)
        for path, when, read in _walk_zip(data) if data.startswith(b"PK") else _walk_tar(data):
            clean = path.removeprefix("./")
            if not clean or clean.startswith("/") or "\\" in clean or "\0" in clean or ":" in clean.split("/")[0]:
                yield path, None, "its path does not begin inside the archive"
            elif ".." in clean.split("/"):
                yield path, None, "its path leaves the archive"
            else:
                yield clean, when, read
    except _DAMAGE as error:
        raise FormatError(f"this archive is damaged: {one_line(str(error))}", hint="export it again") from None


def _walk_tar(data: bytes) -> Iterator[_Member]:
    if len(data) > IMPORT_BYTES:
        hint = "it contains more than memories"
        raise FormatError(f"this archive unpacks to more than {IMPORT_BYTES:,} bytes", hint=hint)
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() and not member.issparse() else None
            when = None
            with suppress(ValueError, OverflowError, OSError):
                who = shorten(one_line(member.pax_headers.get(imports.AUTHOR, "")), 40)
                when = MemorySource(datetime.fromtimestamp(member.mtime, UTC), who) if member.mtime > 0 else None
            if content is None and not member.isdir():
                yield member.name, None, "not a regular file"
            elif content is not None:
                yield member.name, when, _TOO_LARGE if member.size > FILE_BYTES else content.read(FILE_BYTES)


def _walk_zip(data: bytes) -> Iterator[_Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            when = None
            with suppress(ValueError):  # The date may be invalid; 1980 means none.
                when = MemorySource(datetime(*info.date_time, tzinfo=UTC)) if info.date_time[0] > 1980 else None
            if info.filename.endswith("/"):
                continue
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                yield info.filename, None, "not a regular file"
            elif info.flag_bits & 1:
                yield info.filename, None, "it is encrypted"
            else:  # A member that unpacks to more than its stated size fails its checksum.
                yield info.filename, when, _TOO_LARGE if info.file_size > FILE_BYTES else archive.read(info)


# Memory directories of Claude Code or memdir. Files are kept byte for byte, but a missing type or frontmatter is derived
# from the text, because a store requires them. Invalid names become slugs.


def read_directory(source: SourceFiles, *, with_team: bool = False) -> ReadSource:
    """Return every memory of a directory in index order; team memories only with `with_team`."""
    files = list(_find_memories(source))
    listed = next((decode(file.data) for path, file in files if path == index.INDEX_FILE), "")
    lines = [line for line in index.parse_index(listed) if line.is_pointer]
    pointers = {fold(line.name): (line.number, line.hook) for line in reversed(lines)}
    rows = [
        (*pointers.get(fold(path[:-3]), (len(lines) + number + 10**6, "")), path, file)
        for number, (path, file) in enumerate(files)
        if not _is_index(path)
    ]
    candidates = []
    for _, hook, path, file in sorted(rows, key=lambda row: row[0]):
        text = decode(file.data)
        when = imports.read_when(frontmatter.parse_fields(text).modified) or file.modified
        why = _TOO_LARGE if len(file.data) > FILE_BYTES else ""
        candidate = _make_memory_candidate(path, path[:-3], text, hook, when, with_team=with_team, why=why)
        candidates.append(replace(candidate, author=file.author))
    refused = [refuse(path, path, why) for path, why in source.refused if path.endswith(".md")]
    return ReadSource(ImportFormat.CLAUDE_CODE, (*candidates, *refused), listed)


def _make_memory_candidate(
    source: str, name: str, text: str, hook: str, when: datetime | None, *, with_team: bool, why: str = ""
) -> ImportCandidate:
    fields = frontmatter.parse_fields(text)
    if is_team(name) and not with_team:
        why = _TEAM_REFUSAL
    try:
        whole = "" if why else _complete_frontmatter(text, fields, name)
    except FormatError as error:
        why = str(error)
    if why:
        return refuse(source, fields.title or source, why, when)
    try:
        guard.check_name(name)
    except PathError:
        name = "/".join(make_slug(part) for part in name.split("/")[-NAME_DEPTH:])
    return ImportCandidate(source, whole, name, hook, modified=when, is_whole=True)


def _has_memories(source: SourceFiles) -> bool:
    """Return whether this looks like a memory directory: it has an index, or files with a memory's frontmatter."""
    return any(
        any(line.is_pointer for line in index.parse_index(file.text))
        if _is_index(path)
        else frontmatter.parse_fields(decode(file.data)).description
        for path, file in _find_memories(source)
    )


def _find_memories(source: SourceFiles) -> Iterator[tuple[str, SourceFile]]:
    """Yield the memory files with their paths below the memory directory, which may be nested in the source."""
    base = _find_base(source)
    for file in source.files:
        path = file.path.removeprefix(base)
        if file.path.startswith(base) and path.endswith(".md") and not path.casefold().startswith("logs/"):
            yield path, file


def _find_base(source: SourceFiles) -> str:
    """Return the folder of the outermost index, else `memory/` if it exists, else the common parent folder."""
    indexes = [file.path for file in source.files if file.name == index.INDEX_FILE]
    if indexes:
        return min(indexes, key=lambda path: (path.count("/"), path)).removesuffix(index.INDEX_FILE)
    if any(file.path.startswith("memory/") for file in source.files):
        return "memory/"
    paths = [file.path for file in source.files if file.path.endswith(".md")]
    first = f"{paths[0].partition('/')[0]}/" if paths else ""
    return first if first != f"{TEAM_FOLDER}/" and all(path.startswith(first) for path in paths) else ""


def _is_index(path: str) -> bool:
    return path.rpartition("/")[2][:-3].casefold() == index.INDEX_FILE[:-3].casefold()


def _complete_frontmatter(text: str, fields: FrontmatterFields, name: str) -> str:
    sentence = _find_sentence(text) or fields.title
    description = fields.description
    try:
        check_description(description, fields.kind)
    except FormatError:
        description = shorten(one_line(f"{description}: {sentence}" if description else sentence), 300)
    if not fields.problem and description == fields.description:
        return text
    kind = fields.kind or guess_kind(f"{fields.title}. {sentence}", Kind.PROJECT)
    values = {"name": fields.title or name.rpartition("/")[2], "description": description, "type": kind.value}
    if fields.dialect is None:
        return frontmatter.compose_file(values, text, Dialect.FLAT)
    return frontmatter.set_fields(text, values)


def _find_sentence(text: str) -> str:
    for line in blank_fences(frontmatter.split_frontmatter(text).body).splitlines():
        bare = line.strip().lstrip("-*+> ").strip()
        if bare and not bare.startswith(("#", "|")):
            return re.split(r"(?<=[.!?。！？])\s+", bare)[0].strip("*_ ")
    return ""


_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_ENTRY = re.compile(r"(\s*)(?:[-*+•]|\d+[.)])\s+(.*)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_MARKUP = re.compile(r"(?<!\w)(?:\*\*|__)|(?:\*\*|__)(?!\w)")


@dataclass(frozen=True, slots=True)
class MarkdownItem:
    """A list entry or paragraph. `section` is the heading above it; `line` counts from 1."""

    section: str
    text: str
    line: int


def parse_items(text: str) -> Iterator[MarkdownItem]:
    """Yield the items of Markdown notes without code, tables, comments and frontmatter; nested entries join their parent."""
    cut = len(text) - len(frontmatter.split_frontmatter(text).body)
    body = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text[cut:])
    section = ""
    block: list[str] = []
    start, depth, is_entry = 0, 0, False

    def close() -> Iterator[MarkdownItem]:
        if item_text := _MARKUP.sub("", one_line(" ".join(block))):
            yield MarkdownItem(section, item_text, start)
        block.clear()

    for number, (line, fence) in enumerate([*list_lines(body), ("", None)], text[:cut].count("\n") + 1):
        heading, entry = _HEADING.match(line), _ENTRY.match(line)
        if fence:
            continue
        if heading:
            yield from close()
            section = one_line(heading[2])
        elif entry and not (block and is_entry and len(entry[1].expandtabs(4)) > depth):
            yield from close()
            block.append(entry[2])
            start, depth, is_entry = number, len(entry[1].expandtabs(4)), True
        elif not line.strip() or line.lstrip().startswith("|"):
            yield from close()
        else:
            if not block:
                start, is_entry = number, False
            block.append(entry[2] if entry else line.strip())
    yield from close()


# Notes: an Obsidian vault, or any folder of Markdown. A note keeps all its text and fields; a missing title,
# description and type are derived from the text. Daily notes are not imported.
_DAY = re.compile(r"\d{4}[-_]\d\d[-_]\d\d")
_CREATED = ("modified", "updated", "created", "date", "created-at")


def _read_notes(source: SourceFiles) -> ReadSource:
    candidates = []
    for file in source.files:
        if not file.name.endswith(".md") or file.path.startswith(("templates/", "Templates/")):
            continue
        leaf = file.name.removesuffix(".md")
        if source.is_folder and _DAY.match(leaf):
            why = "daily notes are skipped; pass this file to import it"
            candidates.append(refuse(file.path, leaf, why, file.modified))
        else:
            candidates.append(_make_note(file, leaf))
    candidates += [refuse(path, path, why) for path, why in source.refused if path.endswith(".md")]
    return ReadSource(ImportFormat.NOTES, tuple(candidates))


def _make_note(file: SourceFile, leaf: str) -> ImportCandidate:
    text = file.text
    fields, body = frontmatter.parse_fields(text), frontmatter.split_frontmatter(text).body
    raw = {key: value.strip() for key, value in fields.raw.items() if isinstance(value, str)}
    heading = next((match[2] for line in body.split("\n") if (match := _HEADING.match(line))), "")
    title = one_line(raw.get("title") or raw.get("name") or heading or leaf)
    times = (imports.read_when(raw.get(key, "")) for key in _CREATED)
    when = next(filter(None, times), file.modified)
    sentence = _find_sentence(text)
    if not sentence:
        return refuse(file.path, title, "it contains no text", when)
    description = fields.description or f"{title}: {sentence}"
    kind = fields.kind or guess_kind(f"{title}. {sentence}", Kind.REFERENCE)
    values = {"name": title, "description": shorten(one_line(description), 300), "type": kind.value}
    try:
        check_description(values["description"], kind)
        if fields.dialect is None:
            whole = frontmatter.compose_file(values, body, Dialect.FLAT)
        else:
            whole = frontmatter.set_fields(text, values)
    except FormatError as error:
        return refuse(file.path, title, str(error), when)
    return ImportCandidate(file.path, whole, make_slug(title), modified=when, is_whole=True)


def _read_export(export: ChatExport, context: ImportContext) -> ReadSource:
    """Return a chat service's memories and custom instructions. Its conversations are handled separately."""
    candidates: list[ImportCandidate] = []
    kinds = {"style": Kind.FEEDBACK, "project": Kind.PROJECT}
    for note in export.notes:
        if note.kind == "list":
            listed = SourceFile(note.source, re.sub(r"^#.*\n+", "", note.text).encode(), note.at)
            candidates += _read_chatgpt(listed, context)
        elif note.kind == "memory":
            kind = guess_kind(note.text, Kind.USER)
            candidates.append(make_sentence(note.text, note.source, now=context.now, at=note.at, kind=kind))
        else:
            kind = kinds.get(note.kind, Kind.USER)
            description = f"{note.title}: {_find_sentence(note.text) or note.text}"
            candidates.append(imports.make_memory(kind, note.title, description, note.text, note.source, at=note.at))
    return ReadSource(ImportFormat(export.service), tuple(candidates), export=export)


_DATED = re.compile(r"\s*\[?(\d{4}-\d{2}-\d{2})\]?\s*[.:–—-]*\s*")
_NUMBER = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")


def _read_chatgpt(file: SourceFile, context: ImportContext) -> Iterator[ImportCandidate]:
    # Each line is a statement, possibly after a date; continuation lines of a paragraph start in lower case.
    lines = re.sub(r"\n(?=[^\sa-z])", "\n\n", _NUMBER.sub("", file.text)) if "\n-" not in file.text else file.text
    for number, item in enumerate(islice(parse_items(lines), IMPORT_ITEMS), 1):
        date = _DATED.match(item.text)
        when = imports.read_when(f"{date[1]}T00:00:00Z") if date else file.modified
        if statement := item.text[date.end() if date else 0 :]:
            kind = guess_kind(statement, Kind.USER)
            yield make_sentence(statement, f"{file.path}: {number}", now=context.now, at=when, kind=kind)


def _is_mem0(file: SourceFile) -> bool:
    return any(isinstance(row.get("memory"), str) for row in _list_mem0_rows(file.text))


def _read_mem0(file: SourceFile, context: ImportContext) -> Iterator[ImportCandidate]:
    for number, row in enumerate(_list_mem0_rows(file.text)[:IMPORT_ITEMS], 1):
        texts = {key: value for key, value in row.items() if isinstance(value, str) and value.strip()}
        if text := next((texts[key] for key in ("memory", "text", "data", "content") if key in texts), ""):
            times = (imports.read_when(texts.get(key, "")) for key in ("updated_at", "created_at"))
            when = next(filter(None, times), file.modified)
            metadata = row.get("metadata")
            type_name = str(metadata.get("type")).lower() if isinstance(metadata, Mapping) else ""
            kind = Kind(type_name) if type_name in list(Kind) else guess_kind(text, Kind.USER)
            yield make_sentence(text, f"{file.path}: {row.get('id') or number}", now=context.now, at=when, kind=kind)


def _list_mem0_rows(text: str) -> list[Row]:
    value = parse_json(text)
    if value is None:
        # Split only at line feeds: JSON strings may contain other line endings unescaped.
        value = [parse_json(line) for line in text.split("\n")[:IMPORT_ITEMS]]
    if isinstance(value, Mapping):
        keys = ("results", "memories", "data")
        value = next((value[key] for key in keys if isinstance(value.get(key), list)), [value])
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
