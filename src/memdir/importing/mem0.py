"""mem0's memories as `get_all` or an export gives them: JSON with rows that hold a `memory`, or JSON lines of them."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from memdir.importing.made import guess_kind, make_sentence, read_when
from memdir.importing.records import Candidate, File, Format, Found, Pile
from memdir.limits import IMPORT_ITEMS
from memdir.records import Kind

_LISTS = ("results", "memories", "data")
_WORDS = ("memory", "text", "data", "content")
_KINDS = {"reference": Kind.REFERENCE, "project": Kind.PROJECT, "feedback": Kind.FEEDBACK, "user": Kind.USER}


def is_mem0(file: File) -> bool:
    return any(isinstance(row.get("memory"), str) for row in _list_rows(file.text))


def read_mem0(pile: Pile, *, now: datetime) -> Found:
    return Found(Format.MEM0, tuple(at for file in pile.files for at in _read(file, now)))


def _read(file: File, now: datetime) -> Iterator[Candidate]:
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
    return _KINDS.get(str(named).lower()) or guess_kind(said, Kind.USER)


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
