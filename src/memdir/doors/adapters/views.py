"""How the memory tool shows folders and files: lines with sizes, lines with numbers. Pure.

What is longer than a view may be ends at a line, with a word on how to see the rest: models are told to expect that.
"""

from collections.abc import Mapping

from memdir.doors.adapters.paths import RefusedError, say
from memdir.frontmatter import split_lines
from memdir.toolset.looking import clean

LINES_MOST = 999_999
CHARS_MOST = 16_000  # of one view; what a model is told about text views
_DEPTH = 2
_AROUND = 2  # lines of a snippet before and after what changed
_SKIPPED = "node_modules"


def render_folder(path: str, depth: int, sizes: Mapping[str, int]) -> str:
    """The folder at `path`, itself so many levels deep, whose files are among these; two levels of it."""
    totals: dict[str, int] = {}
    for file, size in sizes.items():
        *folders, leaf = file.split("/")[depth:]
        if _SKIPPED in folders:
            continue
        for level in range(1, min(len(folders), _DEPTH) + 1):
            folder = "/".join(folders[:level]) + "/"
            totals[folder] = totals.get(folder, 0) + size
        if len(folders) < _DEPTH:
            totals["/".join([*folders, leaf])] = size
    lines = [f"{_render_size(sum(sizes.values()))}\t{path}"]
    lines += [f"{_render_size(size)}\t{path}/{clean(at)}" for at, size in sorted(totals.items())]
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
    kept = _fit(lines)
    rest = f"\n({len(lines) - kept} more; view a directory inside to see them)" if kept < len(lines) else ""
    return "\n".join([head, *lines[:kept]]) + rest


def render_lines(path: str, text: str, span: object) -> str:
    """A file with line numbers, or the lines from and to which `span` says; -1 stands for the last."""
    lines = split_lines(text)
    if len(lines) > LINES_MOST:
        raise RefusedError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first, last = _find_span(span, len(lines))
    shown = [_number(number, lines[number - 1]) for number in range(first, last + 1)]
    kept = _fit(shown)
    rest = ""
    if kept < len(shown):
        rest = f"\n(truncated: lines {first} to {first + kept - 1} of {len(lines)}; view_range shows the others)"
    return "\n".join([f"Here's the content of {path} with line numbers:", *shown[:kept]]) + rest


def render_snippet(text: str, at: int, fresh: str) -> str:
    """The lines around what has been put in."""
    lines = split_lines(text)
    first = text.count("\n", 0, at) + 1
    last = min(first + fresh.count("\n") + _AROUND, len(lines))
    shown = [_number(number, lines[number - 1]) for number in range(max(1, first - _AROUND), last + 1)]
    return "\n".join(shown[: _fit(shown)])


def _number(number: int, line: str) -> str:
    return f"{number:>6}\t{clean(line.removesuffix(chr(10)).removesuffix(chr(13)))}"


def _find_span(span: object, count: int) -> tuple[int, int]:
    if span is None:
        return 1, count
    if isinstance(span, list | tuple) and len(span) == 2 and all(type(at) is int for at in span):
        first, last = span[0], count if span[1] == -1 else min(span[1], count)
        if 1 <= first <= max(count, 1) and last >= first - (not count):
            return first, last
    raise RefusedError(
        f"Error: Invalid `view_range` parameter: {say(str(span))}. "
        f"It should be within the range of lines of the file: [1, {count}]"
    )


def _fit(lines: list[str]) -> int:
    """How many of the lines fit into a view; the first always does, cut by nobody."""
    room = CHARS_MOST
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return max(number, 1)
    return len(lines)


def _render_size(size: int) -> str:
    value, unit = float(size), "B"
    for unit in "BKMG":
        if value < 1024 or unit == "G":
            break
        value /= 1024
    return f"{value:.0f}{unit}" if unit == "B" else f"{value:.1f}{unit}"
