"""AGENTS.md and GEMINI.md: the facts in them, one candidate each.

What Gemini CLI itself added (`## Gemini Added Memories`) was asked to be remembered and is taken as such; of everything
else only what `facts` lets through.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from memdir.importing.facts import find_refusal
from memdir.importing.made import guess_kind, make_sentence, refuse
from memdir.importing.markdown import parse_items
from memdir.importing.records import Candidate, File, Format, Found, Pile
from memdir.limits import IMPORT_ITEMS
from memdir.records import Kind

ADDED = "gemini added memories"
NAMES = {"agents.md": Format.AGENTS_MD, "agents.override.md": Format.AGENTS_MD, "gemini.md": Format.GEMINI_MD}


def read_instructions(pile: Pile, format: Format, *, root: Path, now: datetime) -> Found:
    """The facts of every such file of a pile; `root` is the project that would remember them."""
    files = [file for file in pile.files if pile.is_folder is False or _is_meant(file, format)]
    return Found(format, tuple(at for file in files for at in _read(file, pile, root, now)))


def _is_meant(file: File, format: Format) -> bool:
    return NAMES.get(file.path.rpartition("/")[2].lower()) is format


def _read(file: File, pile: Pile, root: Path, now: datetime) -> Iterator[Candidate]:
    place = Path(pile.where) / file.path if pile.is_folder else Path(pile.where)
    for number, item in enumerate(parse_items(file.text)):
        source = f"{file.path}:{item.line}"
        if number >= IMPORT_ITEMS:
            return
        if item.section.lower() == ADDED:
            kind = guess_kind(item.text, Kind.USER)
            yield make_sentence(item.text, source, now=now, at=file.modified, kind=kind)
        elif why := find_refusal(item.text, root, place):
            yield refuse(source, item.text, why, file.modified)
        else:
            kind = guess_kind(item.text, Kind.PROJECT)
            yield make_sentence(item.text, source, now=now, at=file.modified, kind=kind)
