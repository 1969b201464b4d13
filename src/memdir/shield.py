"""The parts of a Markdown text that are not prose and must not be rewritten: code, addresses, paths, links, quotations.

Spans only; it does not parse Markdown. Fences apart, no rule looks further than one line, and all take linear time.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

Span = tuple[int, int]

_FENCE = re.compile(r"^[ >]*(`{3,}|~{3,})[^\n]*(?:\n|\Z)", re.MULTILINE)
_BREAK = re.compile(r"\n\s*\n|\n(?=[^\S\n]*(?:[-*+#>|]|\d{1,9}[.)])[^\S\n])")
_TICKS = re.compile(r"`+")
_PROSELESS = re.compile(
    r"""
      (?<!\w)[A-Za-z][A-Za-z0-9+.-]{1,20}://\S*            # an address
    | (?<!\w)www\.\S+
    | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]+                 # mail
    | (?<![\w./\\~-])[A-Za-z0-9_.~@+-]*[/\\][A-Za-z0-9_./\\~@+:*-]*   # a path
    | \]\([^()\n]*\)                                       # where a link goes
    | \[\[[^\[\]\n]*\]\]                                   # a link to a memory
    | <[^<>\n]*>                                           # a tag
    | "[^"\n]*" | “[^“”\n]*” | „[^„“”\n]*[“”] | «[^«»\n]*» | ‹[^‹›\n]*› | 「[^「」\n]*」 | 『[^『』\n]*』
    | (?<!\w)'[^'\n]+'(?!\w) | ‘[^‘’\n]*’(?!\w)
    """,
    re.VERBOSE,
)


def find_blocks(text: str) -> Iterator[Span]:
    """The prose of a text, block by block: paragraphs and list items, outside of fences."""
    place = 0
    for start, end in [*_find_fences(text), (len(text), len(text))]:
        for gap in [*_BREAK.finditer(text, place, start), None]:
            stop = gap.start() if gap else start
            if text[place:stop].strip():
                yield place, stop
            place = gap.end() if gap else end


def find_shielded(block: str) -> tuple[Span, ...]:
    """The spans of a block to keep out of, in order and apart."""
    return tuple(_merge(sorted([*_find_ticks(block), *(match.span() for match in _PROSELESS.finditer(block))])))


def is_shielded(spans: tuple[Span, ...], start: int, end: int) -> bool:
    """Whether anything between start and end lies in one of the spans."""
    place = bisect_right(spans, (end - 1, len(spans) + end)) - 1
    return place >= 0 and spans[place][1] > start


def _find_fences(text: str) -> list[Span]:
    spans: list[Span] = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1].startswith(opened[1]):
            spans.append((opened.start(), match.end()))
            opened = None
    if opened is not None:
        spans.append((opened.start(), len(text)))
    return spans


def _find_ticks(text: str) -> list[Span]:
    """Code spans: a run of backticks up to the next run of the same length in its line."""
    runs = list(_TICKS.finditer(text))
    nearest: dict[int, int] = {}
    following: list[int | None] = [None] * len(runs)
    for place in range(len(runs) - 1, -1, -1):
        length = len(runs[place][0])
        following[place] = nearest.get(length)
        nearest[length] = place
    spans: list[Span] = []
    place = 0
    while place < len(runs):
        close = following[place]
        if close is not None and "\n" not in text[runs[place].end() : runs[close].start()]:
            spans.append((runs[place].start(), runs[close].end()))
            place = close
        place += 1
    return spans


def _merge(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
