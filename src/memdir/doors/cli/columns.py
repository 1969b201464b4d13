"""Rows of text as columns that fit a width, counted as terminals count: wide characters are two, marks are none.

Pure. What does not fit is cut with an ellipsis, in the columns that may be cut only.
"""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

GAP = 2
_LEAST = 12  # a cut column narrower than this says nothing


class Column(NamedTuple):
    """A column's head, its colour, and whether it may be cut to fit."""

    title: str
    style: str = ""
    is_cut: bool = False


def measure_width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_measure_char, text))


def cut_width(text: str, width: int) -> str:
    """The text in at most so many cells, with an ellipsis where something is missing."""
    if measure_width(text) <= width:
        return text
    room, kept = max(width - 1, 0), []
    for char in text:
        room -= _measure_char(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def render_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """The head and every row, each cell padded; together no wider than `width` where cutting can do it."""
    table = [[column.title for column in columns], *rows]
    widths = [max(measure_width(row[at]) for row in table) for at in range(len(columns))]
    widths = _shrink(columns, widths, width)
    last = len(columns) - 1
    return [
        [_pad(cut_width(cell, widths[at]), widths[at] + GAP if at < last else 0) for at, cell in enumerate(row)]
        for row in table
    ]


def _shrink(columns: Sequence[Column], widths: list[int], width: int) -> list[int]:
    """Take what is too much from the widest column that may be cut, again and again."""
    widths = list(widths)
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0:
        wide = [at for at, column in enumerate(columns) if column.is_cut and widths[at] > _LEAST]
        if not wide:
            break
        widest = max(wide, key=lambda at: widths[at])
        others = [widths[at] for at in wide if at != widest]
        step = max(1, min(excess, widths[widest] - max([_LEAST, *others])))
        widths[widest] -= step
        excess -= step
    return widths


def _pad(text: str, width: int) -> str:
    return text + " " * max(width - measure_width(text), 0)


def _measure_char(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
