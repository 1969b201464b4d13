"""Rebuild a damaged history from the rows that can still be read.

A query stops at an unreadable page, and cannot reach pages whose parent page is damaged. So the pages of the file are
read one by one, as SQLite's file format describes them, and each complete row is copied to a new history; contents only
if they match their digest. Deleted rows do not come back, because SQLite overwrites them (`secure_delete`). A change in
the new history counts the known losses, and the damaged file is kept.
"""

import os
import shutil
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from memdir.files import make_private_dirs, sync_dir
from memdir.format.frontmatter import digest_of
from memdir.store.history import ENDINGS, FILE, OUTSIDE, REBUILD, History
from memdir.store.plan import is_index_path

_INNER, _INDEX_LEAF, _TABLE_LEAF = 2, 10, 13  # the kinds of pages that contain rows
_PAGE_BYTES = 4_096  # SQLite's default, used if the first page is damaged
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)  # by serial type
Cell = int | float | str | bytes | None


def rebuild_history(state: Path, now: datetime) -> None:
    """Replace the history in a state folder with its readable rows. The caller must hold the directory's lock."""
    numbers = range(1, 1_000_000)
    aside = next(folder for number in numbers if not os.path.lexists(folder := state / f"replaced-{number}"))
    new = aside / "new" / FILE
    make_private_dirs(new.parent)
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(state / FILE)) as source:
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for ending in ENDINGS:
        with suppress(FileNotFoundError):
            shutil.copy2(state / f"{FILE}{ending}", aside / f"{FILE}{ending}")
    with closing(History(new)) as past:
        with past.transaction(durable=True) as db:
            for is_table, key, row in _read_rows((aside / FILE).read_bytes()):
                if table := _find_table(is_table, row):
                    row = (key, *row[1:]) if is_table else row
                    columns = db.execute(f"PRAGMA table_info({table})").fetchall()[: len(row)]
                    names = ", ".join(column[1] for column in columns)
                    db.execute(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", row)
            lost = ", ".join(_list_lost(db, now)) or "nothing that the rest names"
            counts = "SELECT (SELECT count(*) FROM acts), (SELECT count(*) FROM contents)"
            changes, versions = db.execute(counts).fetchone()
            why = f"kept {changes} changes and {versions} versions; lost: {lost}; the damaged file: {aside / FILE}"
            insert = "INSERT INTO acts (at, verb, who, why, session, pending) VALUES (?, ?, 'doctor', ?, '', 0)"
            db.execute(insert, (now.isoformat(), REBUILD, why))
        past.vacuum()
    # SQLite would apply the damaged file's log to the new file.
    for ending in ENDINGS[:0:-1]:
        (state / f"{FILE}{ending}").unlink(missing_ok=True)
    os.replace(new, state / FILE)
    new.parent.rmdir()
    sync_dir(state)


def _find_table(is_table: bool, row: Sequence[Cell]) -> str:
    """Return the table of a row, recognised by its cell types, or "" for rows of indexes and of SQLite's own tables."""
    kinds = "".join("-" if cell is None else {int: "i", float: "f", str: "t", bytes: "b"}[type(cell)] for cell in row)
    if is_table:
        columns = {14: "inbox", 9: "acts", 8: "recalls" if kinds[-1] == "t" else "acts", 7: "recalls"}
        return columns.get(len(row), "") if kinds.startswith("-tt") else ""
    if kinds == "tb" and isinstance(row[1], bytes):
        is_sound = digest_of(row[1]) == row[0]
        return "contents" if is_sound else "indexes" if is_index_path(str(row[0])) else ""
    if len(row) in (6, 8) and kinds.startswith("tt"):
        return "files"
    return "changes" if len(row) == 8 and kinds.startswith("iit") else "seen" if kinds in ("tti", "ttit") else ""


def _list_lost(db: sqlite3.Connection, now: datetime) -> Iterator[str]:
    """Yield descriptions of the losses. A change whose record is lost is recorded again, as made outside memdir."""
    if not db.execute("SELECT 1 FROM acts UNION SELECT 1 FROM contents").fetchone():
        yield "all of it"
        return
    rows = f"SELECT DISTINCT act, ?, '{OUTSIDE}', '{OUTSIDE}', 'its record was damaged', '', 0 FROM changes"
    insert = f"INSERT OR IGNORE INTO acts (id, at, verb, who, why, session, pending) {rows}"
    orphans = db.execute(insert, (now.isoformat(),)).rowcount
    named = "SELECT before AS digest, path FROM changes UNION SELECT after, path FROM changes UNION SELECT digest, path FROM files"
    queries = {
        "the files of # changes": "SELECT count(*) FROM acts WHERE id NOT IN (SELECT act FROM changes)",
        "# versions": f"SELECT count(DISTINCT digest) FROM ({named}) WHERE digest NOT NULL AND path NOT LIKE '%MEMORY.md'"
        " AND digest NOT IN (SELECT digest FROM contents)",
        "up to # changes": "SELECT max(id) - count(*) FROM acts",
    }
    counts = {what: db.execute(query).fetchone()[0] for what, query in queries.items()}
    for what, count in {"time and author of # changes": orphans, **counts}.items():
        if count:
            yield what.replace("#", str(count))


def _read_rows(data: bytes) -> Iterator[tuple[bool, int, tuple[Cell, ...]]]:
    """Yield each readable row of a database file: whether it is in a table with row IDs, its ID, and its cells."""
    size = int.from_bytes(data[16:18], "big")
    size = size if size >= 512 and data.startswith(b"SQLite format 3\0") else _PAGE_BYTES
    for begin in range(0, len(data), size):
        head = begin + (100 if begin == 0 else 0)
        kind, count = data[head], int.from_bytes(data[head + 3 : head + 5], "big")
        if kind not in (_INNER, _INDEX_LEAF, _TABLE_LEAF):
            continue
        pointers = head + (12 if kind == _INNER else 8)
        for number in range(count):
            with suppress(IndexError, ValueError):
                offset = begin + int.from_bytes(data[pointers + 2 * number : pointers + 2 * number + 2], "big")
                length, offset = _read_varint(data, offset + (4 if kind == _INNER else 0))
                key, offset = _read_varint(data, offset) if kind == _TABLE_LEAF else (0, offset)
                payload = _read_payload(data, offset, length, size, is_table=kind == _TABLE_LEAF)
                yield kind == _TABLE_LEAF, key, tuple(_parse_record(payload))


def _read_payload(data: bytes, offset: int, length: int, size: int, *, is_table: bool) -> bytes:
    """Return the bytes of a row, joining the overflow pages of a long row."""
    least = (size - 12) * 32 // 255 - 23
    most = size - 35 if is_table else (size - 12) * 64 // 255 - 23
    here = length if length <= most else least + (length - least) % (size - 4)
    here = here if here <= most else least
    parts, left = [data[offset : offset + here]], length - here
    page = int.from_bytes(data[offset + here : offset + here + 4], "big") if left else 0
    while left > 0:
        begin = (page - 1) * size
        if not size <= begin < len(data):
            raise ValueError(page)
        parts.append(data[begin + 4 : begin + 4 + min(left, size - 4)])
        left, page = left - len(parts[-1]), int.from_bytes(data[begin : begin + 4], "big")
    return b"".join(parts)


def _parse_record(payload: bytes) -> Iterator[Cell]:
    end, offset = _read_varint(payload, 0)
    position, types = end, []
    while offset < end:
        kind, offset = _read_varint(payload, offset)
        types.append(kind)
    widths = [
        _INTEGER_BYTES[kind] if kind < 7 else 8 if kind == 7 else 0 if kind < 12 else (kind - 12) // 2 for kind in types
    ]
    if not types or position + sum(widths) != len(payload):
        raise ValueError(len(payload))
    for kind, width in zip(types, widths, strict=True):
        cell = payload[position : position + width]
        position += width
        if kind >= 12:
            yield cell.decode("utf-8") if kind % 2 else cell
        elif kind == 7:
            yield struct.unpack(">d", cell)[0]
        else:
            yield None if kind == 0 else kind - 8 if kind > 7 else int.from_bytes(cell, "big", signed=True)


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    while data[offset] & 128:
        value, offset = value << 7 | data[offset] & 127, offset + 1
    return value << 7 | data[offset], offset + 1
