"""A memory's text as lines of prose with the code in them marked, and the lines of shell fences. Places are kept.

Code spans, addresses, tags and comments are blanked out of the prose at the same length, so that every place in it is a
place in the file. Of the frontmatter only the description is read. Fences of other languages than the shell are
examples, and left out. Every rule is linear in the length of the text.
"""

import re
from collections.abc import Iterator

from memdir.frontmatter import split, split_lines
from memdir.frozen import dataclass

_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}|~{3,})[ \t]*([\w+-]*)")
_TICKS = re.compile(r"`+")
_BLANKED = re.compile(
    r"""
      (?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>)\]]*   # an address
    | (?<![\w.])www\.[^\s<>)\]]+
    | (?<![\w.+-])[\w.+-]{1,80}@[\w-]{1,80}\.[\w.-]{1,80}           # mail
    | \[\[[^\[\]\n]{0,200}\]\]                                     # a link to a memory
    | </?[A-Za-z][^<>\n]{0,200}>                                    # a tag, or a placeholder
    """,
    re.VERBOSE,
)
SHELLS = frozenset({"", "sh", "bash", "zsh", "shell", "console", "shell-session", "shellsession", "terminal"})
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: where it starts in the text, its number from 1, and the same line without its code.

    `codes` are the insides of its code spans, as places in the line. `is_shell` marks a line of a shell fence, which
    is code as a whole; nothing is blanked then.
    """

    text: str
    start: int
    number: int
    prose: str
    codes: tuple[tuple[int, int], ...] = ()
    is_shell: bool = False


def read_lines(text: str) -> Iterator[Line]:
    """The lines of a memory file that say something, its description first."""
    parts = split(text)
    body = len(text) - len(parts.body)
    text = text[:body] + _COMMENT.sub(_blank, text[body:])
    start, number, fence = 0, 0, ""
    is_shell = False
    for raw in split_lines(text):
        line, number = raw.rstrip("\r\n"), number + 1
        if start < body:
            if line.startswith("description:"):
                yield _make_line(" " * 12 + line[12:], start, number)
        elif match := _FENCE.match(line):
            if not fence:
                fence, is_shell = match[1], match[2].lower() in SHELLS
            elif match[1].startswith(fence) and not match[2]:
                fence = ""
            # A longer or another fence inside a fence is its text.
        elif not fence and line.strip():
            yield _make_line(line, start, number)
        elif is_shell and line.strip():
            yield Line(line, start, number, "", is_shell=True)
        start += len(raw)


def _make_line(line: str, start: int, number: int) -> Line:
    codes = tuple(_find_codes(line))
    pieces, place = list[str](), 0
    for begin, end in codes:
        pieces += (line[place:begin], " " * (end - begin))
        place = end
    prose = "".join((*pieces, line[place:]))
    return Line(line, start, number, _BLANKED.sub(_blank, prose.replace("`", " ")) if prose.strip() else "", codes)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _find_codes(line: str) -> Iterator[tuple[int, int]]:
    """The insides of code spans: from a run of backticks to the next run of the same length."""
    runs = list(_TICKS.finditer(line))
    following: dict[int, list[int]] = {}
    for place in range(len(runs) - 1, -1, -1):
        following.setdefault(len(runs[place][0]), []).append(place)
    place = 0
    while place < len(runs):
        later = following[len(runs[place][0])]
        while later and later[-1] <= place:
            later.pop()
        if later:
            yield runs[place].end(), runs[later[-1]].start()
            place = later[-1]
        place += 1
