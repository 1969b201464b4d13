"""What a session loads of an index: at most 200 lines and 25,000 bytes, cut between lines, with a warning.

Pointers to files that do not exist are left out and counted. Over the limit the lines are selected by rank: pinned, the
newest, then by type and use; headings stay if a line below them stays; prose is dropped first. File order is kept. What
is cut off is still found by recall.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from memdir.format.index import IndexLine, parse_index
from memdir.frozen import dataclass, replace
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES, INDEX_NEWEST_KEPT, INDEX_WARN_SHARE
from memdir.records import Clip, Header, Kind
from memdir.text import fold

# What is missed most comes first.
_KIND_RANK = {Kind.FEEDBACK: 0, Kind.USER: 1, Kind.PROJECT: 2, Kind.REFERENCE: 3, None: 4}


@dataclass(frozen=True, slots=True)
class IndexFill:
    """How full an index is, and what could be compacted."""

    lines: int
    bytes: int
    share: float
    proposals: tuple[str, ...] = ()

    @property
    def is_high(self) -> bool:
        return self.share >= INDEX_WARN_SHARE


def clip_index(
    text: str,
    headers: Sequence[Header] | None = None,
    *,
    order: str = "rank",
    uses: Mapping[str, int] | None = None,
    file: str = "MEMORY.md",
) -> Clip:
    """Returns the part of an index that is loaded. Header names are relative to the index, as its pointers are."""
    lines = parse_index(text)
    known = {fold(header.name): header for header in headers} if headers is not None else None
    living = [line for line in lines if not line.is_pointer or known is None or fold(line.name) in known]
    size = sum(_size(line) for line in living)
    over_lines, over_bytes = len(living) > INDEX_LINES, size > INDEX_BYTES
    kept = living
    if over_lines or over_bytes:
        kept = _cut_by_rank(living, known, uses or {}) if known is not None and order == "rank" else _cut_at_end(living)
    loaded = "".join(line.text for line in kept)
    clip = Clip(
        text=loaded,
        lines=len(kept),
        lines_total=len(lines),
        bytes=len(loaded.encode("utf-8", "surrogateescape")),
        bytes_total=sum(_size(line) for line in lines),
        dead=len(lines) - len(living),
        over_lines=over_lines,
        over_bytes=over_bytes,
    )
    return clip if not clip.is_cut else _with_warning(clip, len(living), size, file)


def measure_index(text: str, headers: Sequence[Header] = ()) -> IndexFill:
    """Returns how full an index is; above 80 % with proposals of what to compact."""
    lines = parse_index(text)
    size = sum(_size(line) for line in lines)
    share = max(len(lines) / INDEX_LINES, size / INDEX_BYTES)
    return IndexFill(len(lines), size, share, _propose(lines, headers) if share >= INDEX_WARN_SHARE else ())


def find_long_lines(text: str) -> tuple[IndexLine, ...]:
    return tuple(line for line in parse_index(text) if len(line.text.rstrip("\r\n")) > INDEX_LINE_CHARS)


def _size(line: IndexLine) -> int:
    return len(line.text.encode("utf-8", "surrogateescape"))


def _cut_at_end(lines: Sequence[IndexLine]) -> list[IndexLine]:
    sizes = accumulate(map(_size, lines[:INDEX_LINES]))
    return [line for line, size in zip(lines, sizes, strict=False) if size <= INDEX_BYTES]


def _cut_by_rank(lines: Sequence[IndexLine], known: Mapping[str, Header], uses: Mapping[str, int]) -> list[IndexLine]:
    above = _find_headings(lines)
    chosen: set[int] = set()
    lines_left, bytes_left = INDEX_LINES, INDEX_BYTES
    for unit in [*_rank_pointers(lines, known, uses), *_group_prose(lines)]:
        wanted = [line for line in [*above[unit[0].number], *unit] if line.number not in chosen]
        cost = sum(_size(line) for line in wanted)
        if len(wanted) <= lines_left and cost <= bytes_left:
            chosen.update(line.number for line in wanted)
            lines_left, bytes_left = lines_left - len(wanted), bytes_left - cost
    for before, line in pairwise(lines):
        if before.is_blank and line.level and line.number in chosen and lines_left > 0 and bytes_left >= _size(before):
            chosen.add(before.number)
            lines_left, bytes_left = lines_left - 1, bytes_left - _size(before)
    return [line for line in lines if line.number in chosen]


def _rank_pointers(
    lines: Sequence[IndexLine], known: Mapping[str, Header], uses: Mapping[str, int]
) -> list[list[IndexLine]]:
    pairs = [(line, known[fold(line.name)]) for line in lines if line.is_pointer]
    pairs.sort(key=lambda pair: pair[1].modified, reverse=True)
    newest = {line.number for line, _ in pairs[:INDEX_NEWEST_KEPT]}

    def rank(pair: tuple[IndexLine, Header]) -> tuple[int, int, int]:
        line, header = pair
        if header.pinned:
            return 0, 0, 0
        if line.number in newest:
            return 1, 0, 0
        return 2, _KIND_RANK[header.kind], -uses.get(header.name, 0)

    return [[line] for line, _ in sorted(pairs, key=rank)]


def _group_prose(lines: Sequence[IndexLine]) -> list[list[IndexLine]]:
    """Prose as units that may be cut apart: single lines, and code fences as a whole."""
    units: list[list[IndexLine]] = []
    for line in lines:
        if line.is_pointer or line.level or (line.is_blank and not line.fenced):
            continue
        if line.fenced and units and units[-1][-1].fenced and units[-1][-1].number == line.number - 1:
            units[-1].append(line)
        else:
            units.append([line])
    return units


def _find_headings(lines: Sequence[IndexLine]) -> dict[int, list[IndexLine]]:
    """For each line the headings above it, outermost first."""
    above: dict[int, list[IndexLine]] = {}
    open_headings: list[IndexLine] = []
    for line in lines:
        if line.level:
            open_headings = [heading for heading in open_headings if heading.level < line.level]
            open_headings.append(line)
        above[line.number] = list(open_headings)
    return above


def _with_warning(clip: Clip, living: int, size: int, file: str) -> Clip:
    hit = [f"{living} lines (limit {INDEX_LINES})"] if clip.over_lines else []
    hit += [f"{size:,} bytes (limit {INDEX_BYTES:,})"] if clip.over_bytes else []
    warning = (
        f"{file} is too long: {' and '.join(hit)}. Only {clip.lines} of its {living} lines are loaded here; "
        f"the rest is still found by recall. To load all of it, keep each entry on one line below "
        f"{INDEX_LINE_CHARS} characters, move detail into the memory's own file, "
        "and take out entries that no longer matter."
    )
    return replace(clip, warning=warning)


def _propose(lines: Sequence[IndexLine], headers: Sequence[Header]) -> tuple[str, ...]:
    proposals = []
    long = sorted((line for line in lines if len(line.text) > INDEX_LINE_CHARS), key=lambda line: -len(line.text))
    if long:
        numbers = ", ".join(str(line.number + 1) for line in long[:5])
        proposals.append(f"shorten the longest lines ({numbers}): move their detail into topic files")
    prose = sum(1 for line in lines if not line.is_pointer and not line.level and not line.is_blank)
    if prose > len(lines) // 4:
        proposals.append(f"{prose} lines are prose: move them into topic files and point to those")
    projects = (header for header in headers if header.kind is Kind.PROJECT and not header.pinned)
    if old := sorted(projects, key=lambda header: header.modified):
        names = ", ".join(header.name for header in old[:3])
        proposals.append(f"merge or forget the oldest project memories ({names})")
    return tuple(proposals)
