"""The lines of a transcript, forwards or backwards, and the JSON records in them; bounded, whatever the file holds.

Hosts' files get damaged: a cut last line, runs of NUL, two records on one line, bytes that are no UTF-8, a line of
fifty megabytes. What can be read is read and the rest is passed over: nothing here raises for it. A file that grows
meanwhile is read up to the size it had when its end was looked for.

What it does not do: know what a record means.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from memdir.errors import DiskError, FormatError, NotFoundError
from memdir.frozen import dataclass
from memdir.text import one_line, shorten

LINE_BYTES = 8_388_608  # one record; what is larger is an image or a dump, and is passed over
EDGE_BYTES = 65_536  # of such a line this much of its start and of its end is kept: who it is stands there
BLOCK_BYTES = 262_144  # what is read at once when going backwards
_INDEX_BITS = 8  # records on one line that are told apart
_DECODER = json.JSONDecoder()

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Line:
    """One line and where it starts. Of one that is too long, `data` is its start and `end` its end."""

    offset: int
    data: bytes
    is_whole: bool = True
    end: bytes = b""


@contextmanager
def open_transcript(path: str | Path) -> Iterator[BinaryIO]:
    """The file, open for reading; raises NotFoundError, DiskError, or FormatError for what is no regular file."""
    name = shorten(one_line(str(path)), 200)
    try:
        # A FIFO would be waited for until somebody writes into it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        hint = "give the path of a transcript, as the host's hooks name it in `transcript_path`"
        raise NotFoundError(f"there is no transcript {name}", name=str(path), hint=hint) from error
    except OSError as error:
        raise _cannot_read(error, path, name) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FormatError(f"{name} is not a regular file", field="path", hint="give the path of a transcript")
    with open(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise _cannot_read(error, path, name) from error


def read_lines(file: BinaryIO) -> Iterator[tuple[int, Line]]:
    """Lines with their numbers, from where the file stands."""
    number, offset = 0, file.tell()
    while data := file.readline(LINE_BYTES):
        number += 1
        line = Line(offset, data)
        offset += len(data)
        if len(data) == LINE_BYTES and not data.endswith(b"\n"):
            end = b""
            while rest := file.readline(BLOCK_BYTES):
                offset += len(rest)
                end = (end + rest)[-EDGE_BYTES:]
                if rest.endswith(b"\n"):
                    break
            line = Line(line.offset, data[:EDGE_BYTES], False, end)
        yield number, line


def read_lines_back(file: BinaryIO) -> Iterator[Line]:
    """Lines from the last to the first; empty ones are left out."""
    at = file.seek(0, os.SEEK_END)
    pieces: list[bytes] = []  # what is known of the line whose start is not read yet, last piece first
    size, end = 0, b""
    while at > 0:
        count = min(BLOCK_BYTES, at)
        at -= count
        file.seek(at)
        block = file.read(count)
        stop = len(block)
        while (start := block.rfind(b"\n", 0, stop)) >= 0:
            yield from _join(at + start + 1, block[start + 1 : stop], pieces, end)
            pieces, size, end, stop = [], 0, b"", start
        pieces.append(block[:stop])
        size += stop
        if size > LINE_BYTES:
            end = end or b"".join(reversed(pieces))[-EDGE_BYTES:]
            pieces, size = [block[:EDGE_BYTES]], LINE_BYTES
    yield from _join(0, b"", pieces, end)


def read_line(file: BinaryIO, offset: int) -> bytes:
    """The line that starts there; empty if it is too long or gone."""
    file.seek(offset)
    data = file.readline(LINE_BYTES)
    return data if len(data) < LINE_BYTES else b""


def make_place(offset: int, index: int) -> int:
    """A record's place as one number: where its line starts, and which record of the line it is."""
    return offset << _INDEX_BITS | min(index, (1 << _INDEX_BITS) - 1)


def read_places(file: BinaryIO, places: Sequence[int]) -> Iterator[Json]:
    """The records at those places; those that are gone meanwhile are left out."""
    for place in places:
        records = parse_records(read_line(file, place >> _INDEX_BITS))
        index = place & ((1 << _INDEX_BITS) - 1)
        if index < len(records):
            yield records[index]


def parse_records(data: bytes) -> list[Json]:
    """The records of a line: mostly one, none if it is damaged, two if a writer was interrupted by another."""
    text = data.replace(b"\0", b"").decode("utf-8", "replace").strip("\ufeff \t\r\n")
    found: list[Json] = []
    at = 0
    while at < len(text):
        try:
            record, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if isinstance(record, dict):
            found.append(record)
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def _join(offset: int, start: bytes, pieces: list[bytes], end: bytes) -> Iterator[Line]:
    data = start + b"".join(reversed(pieces))
    if end:
        yield Line(offset, data[:EDGE_BYTES], False, end)
    elif data.strip():
        yield Line(offset, data)


def _cannot_read(error: OSError, path: str | Path, name: str) -> DiskError:
    words = "no permission" if error.errno in (errno.EACCES, errno.EPERM) else (error.strerror or "").lower()
    hint = "check who owns it: `ls -ld` shows it"
    return DiskError(f"cannot read {name}: {words}", path=str(path), errno=error.errno or 0, hint=hint)
