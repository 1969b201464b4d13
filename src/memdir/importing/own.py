"""memdir's own export as JSON lines: each row holds a whole file, so nothing has to be guessed."""

import json
from collections.abc import Iterator, Mapping

from memdir import frontmatter
from memdir.errors import FormatError, PathError
from memdir.guard import check_name
from memdir.importing.claude_code import TEAM, complete
from memdir.importing.made import read_when, refuse
from memdir.importing.records import Candidate, File, Format, Found, Pile
from memdir.limits import IMPORT_ITEMS
from memdir.store.shared import is_team


def is_own(file: File) -> bool:
    row = _parse(next((line for line in file.text.split("\n") if line.strip()), ""))
    return row is not None and isinstance(row.get("memdir"), int)


def read_own(pile: Pile, *, with_team: bool = False) -> Found:
    found: list[Candidate] = []
    index = ""
    for file in pile.files:
        for number, row in _walk(file):
            text = row.get("text")
            if row.get("index") == "" and isinstance(text, str):
                index = text
            elif "name" in row:
                found.append(_make(row, f"{file.path}:{number}", with_team))
    return Found(Format.MEMDIR, tuple(found), index)


def _walk(file: File) -> Iterator[tuple[int, Mapping[str, object]]]:
    # Cut at line feeds alone: JSON leaves other line ends bare inside its strings.
    for number, line in enumerate(file.data.decode("utf-8", "replace").split("\n")[:IMPORT_ITEMS], 1):
        row = _parse(line) if line.strip() else None
        if row is not None:
            yield number, row


def _make(row: Mapping[str, object], source: str, with_team: bool) -> Candidate:
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
        text = complete(text, frontmatter.parse_fields(text), f"{name}.md")
    except FormatError as error:
        return refuse(source, name, str(error), when)
    return Candidate(source, text, name, hook, modified=when, is_whole=True)


def _parse(line: str) -> Mapping[str, object] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
