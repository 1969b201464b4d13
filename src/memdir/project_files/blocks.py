"""Which lines of a Markdown text are code, which are block comments, and which are plain text.

One pass over the lines, because each hides the others: a fence inside a comment is no fence, a comment inside a fence
is no comment. Where Markdown's own rules need the whole tree (code inside nested lists), the answer leans towards code:
nothing is included from there, and nothing is dropped from it.

It knows blocks only. Code inside a line is `includes`' to find.
"""

import re
from collections.abc import Iterator
from enum import Enum

from memdir.frozen import dataclass

_COMMENT = re.compile(r" {0,3}<!--")
_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*\S")
_BLANK = re.compile(r"[^\S\n]*(?:\n|\Z)")
_LIST_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")


class Block(Enum):
    TEXT = "text"
    CODE = "code"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Piece:
    """A line with its end, or the part of one that a comment leaves over."""

    text: str
    block: Block


class _Lines:
    """What the lines so far mean for the next one."""

    def __init__(self) -> None:
        self.fence = ""
        self._after_gap = True  # a blank line, the start, or indented code: where indented code may stand
        self._in_list = False

    def read(self, line: str) -> Block:
        bare = line.rstrip("\r\n")
        if self.fence:
            if self._closes(bare):
                self.fence, self._after_gap = "", True
            return Block.CODE
        if not bare.strip():
            self._after_gap = True
            return Block.TEXT
        if self._after_gap and not self._in_list and _INDENTED.match(bare):
            return Block.CODE
        opened = _FENCE.match(bare)
        if opened:
            self.fence = opened.group(1)
            return Block.CODE
        self._in_list = bool(_LIST_ITEM.match(bare)) or (self._in_list and bare[0] in " \t")
        self._after_gap = False
        return Block.TEXT

    def _closes(self, bare: str) -> bool:
        run = bare.strip(" \t>")
        return len(run) >= len(self.fence) and set(run) == {self.fence[0]}


def split_blocks(text: str) -> Iterator[Piece]:
    """The text in pieces that put together are the text again."""
    lines = _Lines()
    at, has_ends = 0, True
    while at < len(text):
        if has_ends and not lines.fence and _COMMENT.match(text, at):
            end = text.find("-->", text.index("<!--", at) + 4)
            if end >= 0:
                stop = _skip_line_end(text, end + 3)
                yield Piece(text[at:stop], Block.COMMENT)
                at = stop
                continue
            has_ends = False  # an unclosed comment hides nothing, and no other can be closed either
        stop = text.find("\n", at) + 1 or len(text)
        line = text[at:stop]
        yield Piece(line, lines.read(line))
        at = stop


def _skip_line_end(text: str, at: int) -> int:
    """Past the rest of the line if that is blank."""
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at
