"""`@path` in an instruction file: where it stands, and which path it means. Pure; nothing here looks at a disk.

A mention counts at the start of a line or after white space, and not in code (fences, indented blocks, `spans`) nor in
a comment. A space in a path is written with a backslash before it; what follows a `#` is a place inside the file.
Nothing is decoded: `%2e%2e` is a folder of that name.
"""

import os
import re
from itertools import groupby

from memdir.frozen import dataclass
from memdir.project_files.blocks import Block, split_blocks

_MENTION = re.compile(r"(?<!\S)@((?:[^\s\\]|\\ )+)")
_START = re.compile(r"~/|\.{0,2}/|[\w.-]")
_TICKS = re.compile(r"(?<!\\)`+")
_OWN_LINE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}[ \t])")
_AFTER = ".,;:!?)]}\"'*_"  # ends a sentence or an emphasis more often than a file name


@dataclass(frozen=True, slots=True)
class Mention:
    """One `@path` as written: the spellings it may mean, the likeliest first."""

    spellings: tuple[str, ...]

    @property
    def is_path(self) -> bool:
        """Whether it can only be meant as a path; `@someone` need not be."""
        return any(mark in self.spellings[-1] for mark in "/.")


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Every `@path` outside code and comments, in order, each once."""
    if "@" not in text:
        return ()
    found: dict[str, Mention] = {}
    for match in _MENTION.finditer(_mask(text)):
        written = match.group(1).replace("\\ ", " ").partition("#")[0]
        if _START.match(written) and written not in found:
            found[written] = Mention(tuple(dict.fromkeys((written, written.rstrip(_AFTER) or written))))
    return tuple(found.values())


def resolve(spelling: str, folder: str, home: str) -> str:
    """The absolute path that a spelling means in a file of that folder; links and `..` are left for the system."""
    if spelling.startswith("~/"):
        return os.path.join(home, spelling[2:].lstrip("/"))
    return os.path.join(folder, spelling)


def _mask(text: str) -> str:
    """The text with all code and comments as blanks."""
    parts: list[str] = []
    for is_text, pieces in groupby(split_blocks(text), lambda piece: piece.block is Block.TEXT):
        lines = [piece.text for piece in pieces]
        if is_text:
            parts.extend(_mask_paragraph(paragraph) for paragraph in _join_paragraphs(lines))
        else:
            parts.append("\n")
    return "".join(parts)


def _join_paragraphs(lines: list[str]) -> list[str]:
    """Lines put together as far as a code span may reach."""
    paragraphs: list[list[str]] = []
    is_open = False
    for line in lines:
        if is_open and line.strip() and not _OWN_LINE.match(line):
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line])
        is_open = bool(line.strip())
    return ["".join(paragraph) for paragraph in paragraphs]


def _mask_paragraph(text: str) -> str:
    return _mask_comments(_mask_spans(text)) if "`" in text or "<!--" in text else text


def _mask_spans(text: str) -> str:
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(text)]
    closing: list[int | None] = [None] * len(runs)
    latest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing[number] = latest.get(length)
        latest[length] = number
    parts, at, number = [], 0, 0
    while number < len(runs):
        end = closing[number]
        if end is not None:
            parts.append(text[at : runs[number][0]] + "`")  # no blank: what follows is not at the start of a word
            at, number = runs[end][1], end
        number += 1
    return "".join(parts) + text[at:]


def _mask_comments(text: str) -> str:
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[at:start])
        at = end + 3
    return "".join(parts) + text[at:]
