"""ChatGPT's memories as text, copied from its settings or its own answer: one statement a line or paragraph.

Numbers, bullets and dates before a statement (`[2025-04-05].`, `2025-04-05 -`) are read as what they are. The text is
about the person, so the default type is `user`.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from memdir.importing.made import guess_kind, make_sentence
from memdir.importing.markdown import parse_items
from memdir.importing.records import Candidate, File, Format, Found, Pile
from memdir.limits import IMPORT_ITEMS
from memdir.records import Kind

_DATED = re.compile(r"\s*\[?(\d{4}-\d{2}-\d{2})\]?\s*[.:–—-]*\s*")
_NUMBER = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")


def read_chatgpt(pile: Pile, *, now: datetime) -> Found:
    return Found(Format.CHATGPT, tuple(at for file in pile.files for at in _read(file, now)))


def _read(file: File, now: datetime) -> Iterator[Candidate]:
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
