"""Markdown notes as items: list entries and paragraphs, each with the headings it stands under and its line.

Code, tables, comments and frontmatter say nothing a memory could be made of and are left out. Pure.
"""

import re
from collections.abc import Iterator

from memdir.frontmatter import split
from memdir.frozen import dataclass
from memdir.text import one_line

_FENCE = re.compile(r"\s*(```+|~~~+)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_ENTRY = re.compile(r"(\s*)(?:[-*+•]|\d+[.)])\s+(.*)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_MARKUP = re.compile(r"(?<!\w)(?:\*\*|__)|(?:\*\*|__)(?!\w)")


@dataclass(frozen=True, slots=True)
class Item:
    """One statement: `headings` outermost first, `line` counted from 1."""

    headings: tuple[str, ...]
    text: str
    line: int
    is_entry: bool

    @property
    def section(self) -> str:
        return self.headings[-1] if self.headings else ""


def parse_items(text: str) -> Iterator[Item]:
    """The items of a text; the entries below an entry belong to it."""
    cut = len(text) - len(split(text).body)
    before = text[:cut].count("\n")
    body = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text[cut:])
    headings: list[tuple[int, str]] = []
    block: list[str] = []
    start, depth, is_entry, fence = 0, 0, False, ""

    def close() -> Iterator[Item]:
        said = _MARKUP.sub("", one_line(" ".join(block)))
        if said:
            yield Item(tuple(name for _, name in headings), said, start, is_entry)
        block.clear()

    for number, line in enumerate([*body.split("\n"), ""], before + 1):
        mark, heading, entry = _FENCE.match(line), _HEADING.match(line), _ENTRY.match(line)
        if fence or mark:
            fence = ("" if mark and mark[1].startswith(fence) else fence) if fence else mark[1] if mark else ""
            continue
        if heading:
            yield from close()
            headings = [at for at in headings if at[0] < len(heading[1])] + [(len(heading[1]), one_line(heading[2]))]
        elif entry and not (block and is_entry and len(entry[1].expandtabs(4)) > depth):
            yield from close()
            block.append(entry[2])
            start, depth, is_entry = number, len(entry[1].expandtabs(4)), True
        elif not line.strip() or line.lstrip().startswith("|"):
            yield from close()
        else:
            if not block:
                start, is_entry = number, False
            block.append(entry[2] if entry else line.strip())
    yield from close()
