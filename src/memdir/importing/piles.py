"""A source's files in memory, from a folder, an archive or a single file: bounded, and never through a link.

Whatever is in an archive came from somebody: members that are links or devices, that leave the archive's root, or are
larger than a memory may be, are named and left out; one that unpacks to more than all memories could be is refused
whole, after no more than that was unpacked. Nothing is ever unpacked to the disk.
"""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from memdir import disk, guard
from memdir.errors import FormatError, NotFoundError, PathError
from memdir.importing.records import File, Pile
from memdir.limits import FILE_BYTES, IMPORT_BYTES, IMPORT_FILES
from memdir.small_files import read_small
from memdir.text import one_line, shorten

_PACKED: dict[bytes, Callable[..., IO[Any]]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_TOO_LARGE = f"it is larger than {FILE_BYTES:,} bytes"


def read_pile(path: Path) -> Pile:
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
    return Pile(str(path), (File(path.name, data, when),))


def _read_folder(path: Path) -> Pile:
    """The readable files of a folder, hidden ones and links left out."""
    files: list[File] = []
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
                read = disk.read_file(root, found.path)
            except (OSError, PathError) as error:
                refused.append((found.path, one_line(str(error))))
                continue
            if read is not None:
                files.append(File(found.path, read[0], datetime.fromtimestamp(read[1].mtime_ns / 1e9, UTC)))
    finally:
        os.close(root)
    return Pile(str(path), tuple(sorted(files, key=lambda file: file.path)), tuple(refused), is_folder=True)


def _walk_folder(root: int) -> Iterator[disk.Found]:
    """Memory files, and every index, which `walk` leaves out."""
    folders = {""}
    for found in disk.walk(root):
        folders.add(found.path.rpartition("/")[0])
        yield found
    for folder in sorted(folders):
        for leaf in disk.list_files(root, folder):
            if leaf[:-3].casefold() == guard.INDEX_FOLDED and leaf.endswith(".md"):
                place = f"{folder}/{leaf}" if folder else leaf
                signature = disk.read_signature(root, place)
                if signature is not None:
                    yield disk.Found(place, signature)


def _gather(where: str, members: Iterator[tuple[str, datetime | None, bytes | str]]) -> Pile:
    """Files by path; a member whose second part is words was refused for them. Of two with one path the last counts."""
    files: dict[str, File] = {}
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
            files[clean] = File(clean, data, when)
    return Pile(where, tuple(files[path] for path in sorted(files)), tuple(refused), is_folder=True)


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
