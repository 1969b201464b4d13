"""What a person named on the command line, as files of a known format: a tool's name, a project, a file, an archive.

A tool's name means where that tool keeps its memories. Of a project the memory directory is meant that Claude Code or
memdir keep for it, else its instruction files. The format is told by what is in the files, not by their ending.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any

from memdir import guard
from memdir.errors import FormatError, NotFoundError, PathError
from memdir.files import read_small
from memdir.format import frontmatter, index
from memdir.format.drafts import check_description, make_slug
from memdir.format.frontmatter import split_frontmatter
from memdir.frozen import dataclass
from memdir.guard import check_name
from memdir.interfaces.imports import (
    ImportCandidate,
    ImportFormat,
    ReadSource,
    SourceFile,
    SourceFiles,
    find_import_refusal,
    guess_kind,
    make_list,
    make_sentence,
    read_when,
    refuse,
)
from memdir.limits import FILE_BYTES, IMPORT_BYTES, IMPORT_FILES, IMPORT_ITEMS, NAME_DEPTH
from memdir.project.paths import slug
from memdir.project.settings import Environment
from memdir.records import Dialect, Kind
from memdir.store.plan import TEAM_FOLDER, decode, is_team
from memdir.text import fold, one_line, shorten

# --- piles ---
# A source's files in memory, from a folder, an archive or a single file: bounded, and never through a link.
#
# Whatever is in an archive came from somebody: members that are links or devices, that leave the archive's root, or
# are
# larger than a memory may be, are named and left out; one that unpacks to more than all memories could be is refused
# whole, after no more than that was unpacked. Nothing is ever unpacked to the disk.

_PACKED: dict[bytes, Callable[..., IO[Any]]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_TOO_LARGE = f"it is larger than {FILE_BYTES:,} bytes"


def read_pile(path: Path) -> SourceFiles:
    """Everything at that path; raises NotFoundError, FormatError or PathError."""
    if path.is_dir():
        return _read_folder(path)
    reading = read_small(path, IMPORT_BYTES)
    if reading.data is None:
        if reading.problem:
            raise PathError(str(path), reading.problem)
        raise NotFoundError(f"there is nothing at {path}", name=str(path), hint="name a file, a folder or an archive")
    data = reading.data
    if zipfile.is_zipfile(io.BytesIO(data)) and data[:2] == b"PK":
        return _gather(str(path), _walk_zip(data))
    plain = _unpack(data)
    if plain is not data or _is_tar(plain):
        return _gather(str(path), _walk_tar(plain))
    when = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return SourceFiles(str(path), (SourceFile(path.name, data, when),))


def _read_folder(path: Path) -> SourceFiles:
    """The readable files of a folder, hidden ones and links left out."""
    files: list[SourceFile] = []
    refused: list[tuple[str, str]] = []
    total = 0
    root = guard.open_root(path)
    try:
        for found in _walk_folder(root):
            total += found.signature.size if not found.refusal else 0
            if total > IMPORT_BYTES:
                raise FormatError(
                    f"there are more than {IMPORT_BYTES:,} bytes below {path}", hint="name a folder in it"
                )
            if len(files) >= IMPORT_FILES:
                raise FormatError(
                    f"there are more than {IMPORT_FILES:,} files below {path}", hint="name a folder in it"
                )
            if found.refusal:
                refused.append((found.path, found.refusal))
                continue
            try:
                read = guard.read_file(root, found.path)
            except (OSError, PathError) as error:
                refused.append((found.path, one_line(str(error))))
                continue
            if read is not None:
                files.append(SourceFile(found.path, read[0], datetime.fromtimestamp(read[1].mtime_ns / 1e9, UTC)))
    finally:
        os.close(root)
    return SourceFiles(str(path), tuple(sorted(files, key=lambda file: file.path)), tuple(refused), is_folder=True)


def _walk_folder(root: int) -> Iterator[guard.DiskEntry]:
    """Memory files, and every index, which `walk` leaves out."""
    folders = {""}
    for found in guard.walk(root):
        folders.add(found.path.rpartition("/")[0])
        yield found
    for folder in sorted(folders):
        for leaf in guard.list_files(root, folder):
            if leaf[:-3].casefold() == guard.INDEX_FOLDED and leaf.endswith(".md"):
                place = f"{folder}/{leaf}" if folder else leaf
                signature = guard.read_signature(root, place)
                if signature is not None:
                    yield guard.DiskEntry(place, signature)


def _gather(where: str, members: Iterator[tuple[str, datetime | None, bytes | str]]) -> SourceFiles:
    """Files by path; a member whose second part is words was refused for them. Of two with one path the last counts."""
    files: dict[str, SourceFile] = {}
    refused: list[tuple[str, str]] = []
    total = 0
    for number, (path, when, data) in enumerate(members):
        total += len(data)
        if number >= IMPORT_FILES or total > IMPORT_BYTES:
            raise FormatError(f"{where} holds too much for an archive of memories", hint="name the one folder you mean")
        clean = path.removeprefix("./")
        if isinstance(data, str) or (why := _find_fault(clean)):
            refused.append((shorten(one_line(path), 200), data if isinstance(data, str) else why))
        elif not any(part.startswith(".") for part in clean.split("/")):
            files[clean] = SourceFile(clean, data, when)
    return SourceFiles(where, tuple(files[path] for path in sorted(files)), tuple(refused), is_folder=True)


def _find_fault(path: str) -> str:
    if not path or path.startswith("/") or "\\" in path or "\0" in path or ":" in path.split("/")[0]:
        return "its path does not begin inside the archive"
    return "its path leaves the archive" if ".." in path.split("/") else ""


def _unpack(data: bytes) -> bytes:
    """What a packed file holds, up to the limit; the same bytes if it is not packed."""
    opener = next((at for magic, at in _PACKED.items() if data.startswith(magic)), None)
    if opener is None:
        return data
    try:
        with opener(io.BytesIO(data), "rb") as packed:
            plain: bytes = packed.read(IMPORT_BYTES + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise FormatError(f"this archive is damaged: {one_line(str(error))}", hint="export it again") from None
    if len(plain) > IMPORT_BYTES:
        raise FormatError(
            f"this archive unpacks to more than {IMPORT_BYTES:,} bytes", hint="it holds no memories alone"
        )
    return plain


def _is_tar(data: bytes) -> bool:
    return data[257:262] == b"ustar"


def _walk_tar(data: bytes) -> Iterator[tuple[str, datetime | None, bytes | str]]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    yield member.name, None, "it is no plain file"
                elif member.size > FILE_BYTES:
                    yield member.name, None, _TOO_LARGE
                else:
                    content = archive.extractfile(member)
                    read = content.read(FILE_BYTES) if content is not None else b""
                    yield member.name, _make_time(member.mtime), read
    except (tarfile.TarError, OSError, ValueError, RecursionError) as error:
        raise FormatError(f"this archive is damaged: {one_line(str(error))}", hint="export it again") from None


def _walk_zip(data: bytes) -> Iterator[tuple[str, datetime | None, bytes | str]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.filename.endswith("/"):
                    continue
                mode = info.external_attr >> 16
                if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                    yield info.filename, None, "it is no plain file"
                elif info.flag_bits & 1:
                    yield info.filename, None, "it is encrypted"
                elif info.file_size > FILE_BYTES:  # what unpacks to more than this says fails its checksum
                    yield info.filename, None, _TOO_LARGE
                else:
                    with archive.open(info) as content:
                        read = content.read(FILE_BYTES)
                    yield info.filename, _parse_zip_time(info.date_time), read
    except (
        zipfile.BadZipFile,
        OSError,
        EOFError,
        ValueError,
        zlib.error,
        lzma.LZMAError,
        struct.error,
        NotImplementedError,
    ) as error:
        raise FormatError(f"this archive is damaged: {one_line(str(error))}", hint="export it again") from None


def _parse_zip_time(parts: tuple[int, ...]) -> datetime | None:
    """A member's time; none where the archive gives its earliest, or no day of the calendar."""
    year, month, day, hour, minute, second = parts
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC) if year > 1980 else None
    except ValueError:
        return None


def _make_time(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


# --- claude_code ---
# A memory directory, Claude Code's or memdir's own, of another project or machine: whole files, kept to the letter.
#
# A file without a type or a head gets one made from its own words, since nothing without them may be written; every
# other
# byte stays. Names outside the grammar become slugs. What a team shares there is left out unless it is asked for: here
#  it
# would be shared again.

TEAM = "a team shares it there; --with-team takes it along, and then it is shared from here"
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")


def read_directory(pile: SourceFiles, *, with_team: bool = False) -> ReadSource:
    """Every memory of a directory, in the order of its index."""
    files = list(_find_memories(pile))
    listed = next((decode(file.data) for path, file in files if path == index.INDEX_FILE), "")
    lines = [line for line in index.parse_index(listed) if line.is_pointer]
    places = {fold(line.name): (line.number, line.hook) for line in reversed(lines)}
    found = [
        (places.get(fold(path[:-3]), (len(lines) + at + 10**6, "")), path, file)
        for at, (path, file) in enumerate(files)
        if not _is_index(path)
    ]
    candidates = [
        _make(path, file, hook, with_team) for (_, hook), path, file in sorted(found, key=lambda at: at[0][0])
    ]
    refused = [refuse(path, path, why) for path, why in pile.refused if path.endswith(".md")]
    return ReadSource(ImportFormat.CLAUDE_CODE, (*candidates, *refused), listed)


def has_memories(pile: SourceFiles) -> bool:
    """Whether this looks like a memory directory: an index of pointers, or files with a memory's head."""
    for path, file in _find_memories(pile):
        if _is_index(path) and any(line.is_pointer for line in index.parse_index(file.text)):
            return True
        if not _is_index(path) and frontmatter.parse_fields(decode(file.data)).description:
            return True
    return False


def _find_memories(pile: SourceFiles) -> Iterator[tuple[str, SourceFile]]:
    """The memory files with their paths below the directory itself, wherever in the pile that begins."""
    base = _find_base(pile)
    for file in pile.files:
        if file.path.startswith(base) and file.path.endswith(".md"):
            path = file.path[len(base) :]
            if path.partition("/")[0].casefold() != "logs" or "/" not in path:
                yield path, file


def _find_base(pile: SourceFiles) -> str:
    """The folder of the outermost index; else `memory/` if there is one; else the folder that all files share."""
    indexes = [file.path for file in pile.files if file.path.rpartition("/")[2] == index.INDEX_FILE]
    if indexes:
        return min(indexes, key=lambda path: (path.count("/"), path)).removesuffix(index.INDEX_FILE)
    if any(file.path.startswith("memory/") for file in pile.files):
        return "memory/"
    paths = [file.path for file in pile.files if file.path.endswith(".md")]
    first = f"{paths[0].partition('/')[0]}/" if paths else ""
    return first if first != f"{TEAM_FOLDER}/" and all(path.startswith(first) for path in paths) else ""


def _is_index(path: str) -> bool:
    return path.rpartition("/")[2][:-3].casefold() == index.INDEX_FILE[:-3].casefold()


def _make(path: str, file: SourceFile, hook: str, with_team: bool) -> ImportCandidate:
    text = decode(file.data)
    fields = frontmatter.parse_fields(text)
    when = read_when(fields.modified) or file.modified
    if is_team(path) and not with_team:
        return refuse(path, fields.title or path, TEAM, when)
    if len(file.data) > FILE_BYTES:
        return refuse(path, fields.title or path, f"it is larger than {FILE_BYTES:,} bytes", when)
    try:
        whole = complete_frontmatter(text, fields, path)
    except FormatError as error:
        return refuse(path, fields.title or path, str(error), when)
    return ImportCandidate(path, whole, _make_name(path[:-3]), hook, modified=when, is_whole=True)


def _make_name(path: str) -> str:
    """The file's own name where that is one, else the nearest that is."""
    try:
        check_name(path)
    except PathError:
        return "/".join(make_slug(part) for part in path.split("/")[-NAME_DEPTH:])
    return path


def complete_frontmatter(text: str, fields: frontmatter.FrontmatterFields, path: str) -> str:
    """The text with type and description; the very same if it has them."""
    said = _find_sentence(text) or fields.title
    description = fields.description
    try:
        check_description(description, fields.kind)
    except FormatError:
        description = shorten(one_line(f"{description}: {said}" if description else said), 300)
    kind = fields.kind or guess_kind(f"{fields.title}. {said}", Kind.PROJECT)
    if not fields.problem and description == fields.description:
        return text
    if fields.dialect is None:
        wanted = {"name": fields.title or path.rpartition("/")[2][:-3], "description": description, "type": kind.value}
        return frontmatter.compose_file(wanted, text, Dialect.FLAT)
    changes = {"name": fields.title or path.rpartition("/")[2][:-3], "description": description, "type": kind.value}
    return frontmatter.set_fields(text, changes)


def _find_sentence(text: str) -> str:
    """The first sentence of the body that is no heading."""
    for line in frontmatter.split_frontmatter(text).body.splitlines():
        bare = line.strip().lstrip("-*+> ").strip()
        if bare and not bare.startswith(("#", "```", "|")):
            return _SENTENCE.split(bare)[0].strip("*_ ")
    return ""


# --- markdown ---
# Markdown notes as items: list entries and paragraphs, each with the headings it stands under and its line.
#
# Code, tables, comments and frontmatter say nothing a memory could be made of and are left out. Pure.

_FENCE = re.compile(r"\s*(```+|~~~+)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_ENTRY = re.compile(r"(\s*)(?:[-*+•]|\d+[.)])\s+(.*)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_MARKUP = re.compile(r"(?<!\w)(?:\*\*|__)|(?:\*\*|__)(?!\w)")


@dataclass(frozen=True, slots=True)
class MarkdownItem:
    """One statement: `headings` outermost first, `line` counted from 1."""

    headings: tuple[str, ...]
    text: str
    line: int
    is_entry: bool

    @property
    def section(self) -> str:
        return self.headings[-1] if self.headings else ""


def parse_items(text: str) -> Iterator[MarkdownItem]:
    """The items of a text; the entries below an entry belong to it."""
    cut = len(text) - len(split_frontmatter(text).body)
    before = text[:cut].count("\n")
    body = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text[cut:])
    headings: list[tuple[int, str]] = []
    block: list[str] = []
    start, depth, is_entry, fence = 0, 0, False, ""

    def close() -> Iterator[MarkdownItem]:
        said = _MARKUP.sub("", one_line(" ".join(block)))
        if said:
            yield MarkdownItem(tuple(name for _, name in headings), said, start, is_entry)
        block.clear()

    for number, line in enumerate([*body.split("\n"), ""], before + 1):
        mark, heading, entry = _FENCE.match(line), _HEADING.match(line), _ENTRY.match(line)
        if fence or mark:
            fence = ("" if mark and mark[1].startswith(fence) else fence) if fence else mark[1] if mark else ""
            continue
        if heading:
            yield from close()
            headings = [at for at in headings if at[0] < len(heading[1])] + [(len(heading[1]), one_line(heading[2]))]
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


# --- chatgpt ---
# ChatGPT's memories as text, copied from its settings or its own answer: one statement a line or paragraph.
#
# Numbers, bullets and dates before a statement (`[2025-04-05].`, `2025-04-05 -`) are read as what they are. The text
# is
# about the person, so the default type is `user`.

_DATED = re.compile(r"\s*\[?(\d{4}-\d{2}-\d{2})\]?\s*[.:–—-]*\s*")
_NUMBER = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")


def read_chatgpt(pile: SourceFiles, *, now: datetime) -> ReadSource:
    return ReadSource(ImportFormat.CHATGPT, tuple(at for file in pile.files for at in _read(file, now)))


def _read(file: SourceFile, now: datetime) -> Iterator[ImportCandidate]:
    # Every line is a statement of its own; a paragraph that is wrapped would begin with a small letter.
    lines = re.sub(r"\n(?=[^\sa-z])", "\n\n", _NUMBER.sub("", file.text)) if "\n-" not in file.text else file.text
    for number, item in enumerate(parse_items(lines)):
        if number >= IMPORT_ITEMS:
            return
        found = _DATED.match(item.text)
        said = item.text[found.end() :] if found else item.text
        when = _read_day(found[1]) if found else file.modified
        if said:
            kind = guess_kind(said, Kind.USER)
            yield make_sentence(said, f"{file.path}: {number + 1}", now=now, at=when, kind=kind)


def _read_day(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None


# --- codex ---
# Codex's memories: `memory_summary.md` and the handbook `MEMORY.md` of `~/.codex/memories/`.
#
# From the summary the profile and the preferences of the person; from each task group of the handbook its preferences
# and
# its reusable knowledge, one candidate a section. Groups that Codex says belong to another working directory are left
# out, and so are failures with their fixes, which the code has by now. Both layouts of the handbook are read: blocks
# that
# begin with `# Task Group:`, and the older ones that begin with a head between two `---` lines.

SUMMARY = "memory_summary.md"
HANDBOOK = "MEMORY.md"
_GROUP = re.compile(r"^# Task Group:[ \t]*(.*)$", re.MULTILINE)
_OLD_HEAD = re.compile(r"^---\n(rollout_summary_files:.*?)\n---\n", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^(scope|applies_to|description):[ \t]*(.*)$", re.MULTILINE)
_CWD = re.compile(r"\bcwd=([^;,)\s]+)")
_UPDATED = re.compile(r"\bupdated_at=([0-9T:.+Z-]+)")
_KINDS = {"user preferences": Kind.FEEDBACK, "reusable knowledge": Kind.PROJECT, "": Kind.PROJECT}


@dataclass(frozen=True, slots=True)
class _Group:
    """One block of the handbook."""

    title: str
    fields: str
    body: str
    line: int


def is_codex(pile: SourceFiles) -> bool:
    files = {file.path.rpartition("/")[2]: file for file in pile.files}
    handbook = files.get(HANDBOOK) if pile.is_folder else pile.files[0]
    text = handbook.text if handbook else ""
    return (SUMMARY in files and HANDBOOK in files) or bool(_GROUP.search(text) or _OLD_HEAD.search(text))


def read_codex(pile: SourceFiles, *, project: str, now: datetime) -> ReadSource:
    """What Codex remembers; `project` is the root of the project that would remember it."""
    found: list[ImportCandidate] = []
    for file in pile.files:
        leaf = file.path.rpartition("/")[2]
        if leaf == SUMMARY:
            found += _read_summary(file, now)
        elif leaf == HANDBOOK or not pile.is_folder:
            found += [at for group in _split_groups(file.text) for at in _read_group(group, file, project)]
    return ReadSource(ImportFormat.CODEX, tuple(found))


def _read_summary(file: SourceFile, now: datetime) -> Iterator[ImportCandidate]:
    profile: list[str] = []
    for item in parse_items(file.text):
        section, source = item.section.lower(), f"{file.path}:{item.line}"
        if section == "user profile":
            profile.append(item.text)
        elif section in ("user preferences", "general tips"):
            kind = Kind.FEEDBACK if section == "user preferences" else guess_kind(item.text, Kind.FEEDBACK)
            yield make_sentence(item.text, source, now=now, at=file.modified, kind=kind)
    if profile:
        yield make_list(Kind.USER, "User profile from Codex", profile, file.path, at=file.modified)


def _split_groups(text: str) -> Iterator[_Group]:
    starts = sorted([*_GROUP.finditer(text), *_OLD_HEAD.finditer(text)], key=lambda found: found.start())
    for found, end in zip(starts, [*(at.start() for at in starts[1:]), len(text)], strict=False):
        body, line = text[found.end() : end], text.count("\n", 0, found.start()) + 1
        if found.re is _GROUP:
            yield _Group(one_line(found[1]), body.partition("\n##")[0], body, line)
        else:
            fields = dict(_FIELD.findall(found[1]))
            yield _Group(one_line(fields.get("description", "")), found[1], body, line)


def _read_group(group: _Group, file: SourceFile, project: str) -> Iterator[ImportCandidate]:
    fields = dict(_FIELD.findall(group.fields))
    times = [at for at in map(_read_time, _UPDATED.findall(group.fields + group.body)) if at is not None]
    when = max(times, default=file.modified)
    places = _CWD.findall(group.fields)
    if places and not any(_is_here(place, project) for place in places):
        source = f"{file.path}:{group.line}"
        yield refuse(source, group.title, f"it belongs to another project ({shorten(places[0], 80)})", when)
        return
    sections: dict[str, list[MarkdownItem]] = {}
    for item in parse_items(group.body):
        if item.is_entry:
            sections.setdefault(item.section.lower(), []).append(item)
    for section, items in sections.items():
        source = f"{file.path}:{group.line + items[0].line - 1}"
        if section.startswith("failures"):
            yield refuse(source, group.title, "failures and their fixes: the code has them by now", when)
        elif section in _KINDS:
            title = f"{group.title}: {section}" if section else group.title
            scope = fields.get("scope", "")
            said = [item.text for item in items]
            told = f"{title}; {scope}" if scope else ""
            yield make_list(_KINDS[section], shorten(title, 100), said, source, at=when, description=told)


def _is_here(place: str, project: str) -> bool:
    """Whether a working directory is this project, here or on another machine: the same path, or the same last part."""
    if not place.startswith(("/", "~")):
        return True
    return PurePosixPath(place) == PurePosixPath(project) or PurePosixPath(place).name == PurePosixPath(project).name


def _read_time(text: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(text.rstrip("."))
        return when if when.tzinfo else when.astimezone()
    except (ValueError, OverflowError):
        return None


# --- instruction_files ---
# AGENTS.md and GEMINI.md: the facts in them, one candidate each.
#
# What Gemini CLI itself added (`## Gemini Added Memories`) was asked to be remembered and is taken as such; of
# everything
# else only what `facts` lets through.

ADDED = "gemini added memories"
NAMES = {
    "agents.md": ImportFormat.AGENTS_MD,
    "agents.override.md": ImportFormat.AGENTS_MD,
    "gemini.md": ImportFormat.GEMINI_MD,
}


def read_instructions(pile: SourceFiles, format: ImportFormat, *, root: Path, now: datetime) -> ReadSource:
    """The facts of every such file of a pile; `root` is the project that would remember them."""
    files = [file for file in pile.files if pile.is_folder is False or _is_meant(file, format)]
    return ReadSource(format, tuple(at for file in files for at in _instruction_files_read(file, pile, root, now)))


def _is_meant(file: SourceFile, format: ImportFormat) -> bool:
    return NAMES.get(file.path.rpartition("/")[2].lower()) is format


def _instruction_files_read(
    file: SourceFile, pile: SourceFiles, root: Path, now: datetime
) -> Iterator[ImportCandidate]:
    place = Path(pile.where) / file.path if pile.is_folder else Path(pile.where)
    for number, item in enumerate(parse_items(file.text)):
        source = f"{file.path}:{item.line}"
        if number >= IMPORT_ITEMS:
            return
        if item.section.lower() == ADDED:
            kind = guess_kind(item.text, Kind.USER)
            yield make_sentence(item.text, source, now=now, at=file.modified, kind=kind)
        elif why := find_import_refusal(item.text, root, place):
            yield refuse(source, item.text, why, file.modified)
        else:
            kind = guess_kind(item.text, Kind.PROJECT)
            yield make_sentence(item.text, source, now=now, at=file.modified, kind=kind)


# --- mcp_memory ---
# The knowledge graph of the MCP reference memory server: JSON lines of entities with observations, and relations.
#
# Each entity with something said about it becomes one memory, its relations lines with links. An entity of which
# nothing
# is known but its name is left out, and so are lines that are neither.

_BRACKETS = str.maketrans("", "", "[]")
_PEOPLE = frozenset({"user", "default_user", "me"})


def is_graph(file: SourceFile) -> bool:
    """Whether the first line with anything in it is an entity or a relation."""
    first = next((line for line in file.text.split("\n") if line.strip()), "")
    row = _parse(first)
    return row is not None and row.get("type") in ("entity", "relation")


def read_graph(pile: SourceFiles) -> ReadSource:
    return ReadSource(
        ImportFormat.MCP_MEMORY, tuple(at for file in pile.files if is_graph(file) for at in _mcp_memory_read(file))
    )


def _mcp_memory_read(file: SourceFile) -> Iterator[ImportCandidate]:
    entities: dict[str, tuple[int, str, list[str]]] = {}
    relations: defaultdict[str, list[str]] = defaultdict(list)
    for number, line in enumerate(file.text.split("\n")[:IMPORT_ITEMS], 1):
        row = _parse(line) if line.strip() else {}
        source = f"{file.path}:{number}"
        if row is None:
            yield refuse(source, line, "this line is no JSON object")
        elif row.get("type") == "entity" and isinstance(row.get("name"), str):
            name = str(row["name"])
            said = entities.setdefault(name, (number, str(row.get("entityType") or ""), []))[2]
            said += [text for at in _list(row.get("observations")) if (text := _say(at)) and text not in said]
        elif row.get("type") == "relation":
            ends = [row.get(key) for key in ("from", "relationType", "to")]
            if all(isinstance(at, str) and at for at in ends):
                relations[str(ends[0])].append(f"{str(ends[1]).replace('_', ' ')} [[{make_slug(str(ends[2]))}]]")
    for name, (number, sort, said) in entities.items():
        yield _mcp_memory_make(name, sort, said, relations[name], f"{file.path}:{number}", file.modified)


def _mcp_memory_make(
    name: str, sort: str, said: list[str], relations: list[str], source: str, at: datetime | None
) -> ImportCandidate:
    if not said and not relations:
        return refuse(source, name, "nothing is said about it")
    is_person = name.lower() in _PEOPLE or sort.lower() == "user"
    kind = Kind.USER if is_person else guess_kind(f"{sort} {' '.join(said)}", Kind.REFERENCE)
    label = f"{name} ({sort})" if sort else name
    title = name.replace("_", " ")
    told = f"{label}: {'; '.join(one_line(at).rstrip('.') for at in said or relations)}".translate(_BRACKETS)
    return make_list(kind, title, [*said, *relations], source, at=at, description=told, name=make_slug(name))


def _say(observation: object) -> str:
    """What an observation says; forks of the server keep it in an object."""
    if isinstance(observation, Mapping):
        observation = observation.get("content")
    return one_line(observation) if isinstance(observation, str) else ""


def _parse(line: str) -> Mapping[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


# --- mem0 ---
# mem0's memories as `get_all` or an export gives them: JSON with rows that hold a `memory`, or JSON lines of them.

_LISTS = ("results", "memories", "data")
_WORDS = ("memory", "text", "data", "content")
_MEM0_KINDS = {"reference": Kind.REFERENCE, "project": Kind.PROJECT, "feedback": Kind.FEEDBACK, "user": Kind.USER}


def is_mem0(file: SourceFile) -> bool:
    return any(isinstance(row.get("memory"), str) for row in _list_rows(file.text))


def read_mem0(pile: SourceFiles, *, now: datetime) -> ReadSource:
    return ReadSource(ImportFormat.MEM0, tuple(at for file in pile.files for at in _mem0_read(file, now)))


def _mem0_read(file: SourceFile, now: datetime) -> Iterator[ImportCandidate]:
    for number, row in enumerate(_list_rows(file.text), 1):
        if number > IMPORT_ITEMS:
            return
        said = next((at for key in _WORDS if isinstance(at := row.get(key), str) and at.strip()), "")
        if not said:
            continue
        when = _find_time(row) or file.modified
        source = f"{file.path}: {row.get('id') or number}"
        yield make_sentence(said, source, now=now, at=when, kind=_find_kind(row, said))


def _find_kind(row: Mapping[str, object], said: str) -> Kind:
    """The type that somebody gave it, if it is one of ours; else by what it says."""
    metadata = row.get("metadata")
    named = metadata.get("type") if isinstance(metadata, Mapping) else None
    return _MEM0_KINDS.get(str(named).lower()) or guess_kind(said, Kind.USER)


def _find_time(row: Mapping[str, object]) -> datetime | None:
    for key in ("updated_at", "created_at"):
        value = row.get(key)
        if isinstance(value, str) and (when := read_when(value)) is not None:
            return when
    return None


def _list_rows(text: str) -> list[Mapping[str, object]]:
    try:
        return _find_rows(json.loads(text))
    except (ValueError, RecursionError):
        pass
    rows: list[Mapping[str, object]] = []
    for line in text.split("\n")[:IMPORT_ITEMS]:
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        rows += [row] if isinstance(row, dict) else []
    return rows


def _find_rows(value: object) -> list[Mapping[str, object]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("memory"), str):
            return [value]
        value = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), [])
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


# --- own ---
# memdir's own export as JSON lines: each row holds a whole file, so nothing has to be guessed.


def is_own_export(file: SourceFile) -> bool:
    row = _parse(next((line for line in file.text.split("\n") if line.strip()), ""))
    return row is not None and isinstance(row.get("memdir"), int)


def read_own_export(pile: SourceFiles, *, with_team: bool = False) -> ReadSource:
    found: list[ImportCandidate] = []
    index = ""
    for file in pile.files:
        for number, row in _walk(file):
            text = row.get("text")
            if row.get("index") == "" and isinstance(text, str):
                index = text
            elif "name" in row:
                found.append(_own_make(row, f"{file.path}:{number}", with_team))
    return ReadSource(ImportFormat.MEMDIR, tuple(found), index)


def _walk(file: SourceFile) -> Iterator[tuple[int, Mapping[str, object]]]:
    # Cut at line feeds alone: JSON leaves other line ends bare inside its strings.
    for number, line in enumerate(file.data.decode("utf-8", "replace").split("\n")[:IMPORT_ITEMS], 1):
        row = _parse(line) if line.strip() else None
        if row is not None:
            yield number, row


def _own_make(row: Mapping[str, object], source: str, with_team: bool) -> ImportCandidate:
    name, text, hook = (at if isinstance(at := row.get(key), str) else "" for key in ("name", "text", "hook"))
    modified = row.get("modified")
    when = read_when(modified) if isinstance(modified, str) else None
    try:
        check_name(name)
    except PathError as error:
        return refuse(source, name, str(error), when)
    if is_team(name) and not with_team:
        return refuse(source, name, TEAM, when)
    try:
        text = complete_frontmatter(text, frontmatter.parse_fields(text), f"{name}.md")
    except FormatError as error:
        return refuse(source, name, str(error), when)
    return ImportCandidate(source, text, name, hook, modified=when, is_whole=True)


# --- sources ---

_HINT = f"say which with --from: {', '.join(ImportFormat)}"
_TOLD = 3  # one line in so many that speaks of the user makes a text ChatGPT's


@dataclass(frozen=True, slots=True)
class ImportContext:
    """Where an import happens: the project that would remember, and the places of the tools."""

    root: Path
    environment: Environment
    now: datetime
    with_team: bool = False


def read_sources(given: str, format: ImportFormat | None, *, cwd: Path, ground: ImportContext) -> ReadSource:
    """All that is found there; raises if it is nothing, or nobody knows what it is."""
    paths, named = find_paths(given, format, cwd=cwd, ground=ground)
    found = [read_source(read_pile(path), format or named, ground) for path in paths]
    return ReadSource(found[0].format, tuple(at for each in found for at in each.candidates), found[0].index)


def find_paths(
    given: str, format: ImportFormat | None, *, cwd: Path, ground: ImportContext
) -> tuple[Sequence[Path], ImportFormat | None]:
    """The files or folders that are meant, and the format if what was given is a tool's name."""
    try:
        path = cwd / Path(given).expanduser()
    except RuntimeError:
        raise NotFoundError(f"there is nothing at {given}", name=given, hint="no such person has a home here") from None
    named = next((at for at in ImportFormat if at.value == given), None)
    if named is not None and not path.exists():
        places = [place for place in _find_homes(named, ground) if place.exists()]
        if not places:
            hint = "name the file, folder or archive, as in `memdir import PATH --from " + f"{named.value}`"
            raise NotFoundError(f"nothing of {named.value} was found where it usually is", name=given, hint=hint)
        return places, named
    if path.is_dir() and not (path / "MEMORY.md").exists() and format in (None, ImportFormat.CLAUDE_CODE):
        kept = [path / "memory", ground.environment.claude_home / "projects" / slug(str(path.resolve())) / "memory"]
        if (place := next((at for at in kept if at.is_dir()), None)) is not None:
            return [place], ImportFormat.CLAUDE_CODE
    if path.is_dir() and format in (None, ImportFormat.AGENTS_MD, ImportFormat.GEMINI_MD):
        files = [at for at in (path / "AGENTS.md", path / "GEMINI.md") if at.is_file()]
        if meant := [at for at in files if format in (None, NAMES[at.name.lower()])]:
            return meant, None
    return [path], None


def read_source(pile: SourceFiles, format: ImportFormat | None, ground: ImportContext) -> ReadSource:
    """The candidates of a pile; raises FormatError where the format cannot be told."""
    format = format or detect_source(pile)
    if format is None:
        raise FormatError(f"it cannot be told whose memories {pile.where} holds", field="format", hint=_HINT)
    if format is ImportFormat.CLAUDE_CODE:
        return read_directory(pile, with_team=ground.with_team)
    if format is ImportFormat.MEMDIR and not any(is_own_export(file) for file in pile.files):
        return read_directory(pile, with_team=ground.with_team)
    if format is ImportFormat.MEMDIR:
        return read_own_export(pile, with_team=ground.with_team)
    if format is ImportFormat.CODEX:
        return read_codex(pile, project=str(ground.root), now=ground.now)
    if format is ImportFormat.MCP_MEMORY:
        return read_graph(pile)
    if format is ImportFormat.MEM0:
        return read_mem0(pile, now=ground.now)
    if format is ImportFormat.CHATGPT:
        return read_chatgpt(pile, now=ground.now)
    return read_instructions(pile, format, root=ground.root, now=ground.now)


def detect_source(pile: SourceFiles) -> ImportFormat | None:
    """Whose memories these are, by what the files say; None if nothing tells."""
    if is_codex(pile):
        return ImportFormat.CODEX
    names = {NAMES.get(file.path.rpartition("/")[2].lower()) for file in pile.files} - {None}
    if has_memories(pile):
        return ImportFormat.CLAUDE_CODE
    if names:
        return min(at for at in names if at is not None)
    for file in pile.files:
        for format, is_it in (
            (ImportFormat.MEMDIR, is_own_export),
            (ImportFormat.MCP_MEMORY, is_graph),
            (ImportFormat.MEM0, is_mem0),
        ):
            if is_it(file):
                return format
    return ImportFormat.CHATGPT if any(_is_told(file.text) for file in pile.files) else None


def _is_told(text: str) -> bool:
    """Whether enough lines speak of "the user", as ChatGPT's memories do."""
    lines = [line for line in text.lower().split("\n") if line.strip()]
    return bool(lines) and sum("user" in line for line in lines) * _TOLD >= len(lines)


def _find_homes(format: ImportFormat, ground: ImportContext) -> Sequence[Path]:
    """Where a tool keeps its memories of this project and its person."""
    environment = ground.environment
    homes = {
        ImportFormat.CODEX: [environment.codex_home / "memories"],
        ImportFormat.GEMINI_MD: [environment.gemini_home / "GEMINI.md", ground.root / "GEMINI.md"],
        ImportFormat.AGENTS_MD: [environment.codex_home / "AGENTS.md", ground.root / "AGENTS.md"],
    }
    return homes.get(format, [])
