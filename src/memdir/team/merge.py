"""Two versions of a file that come from one, merged: a memory by the keys of its head and the paragraphs of its body, an
index by line. Pure.

A piece that either side wrote is in the result, a piece that one side removed and the other left alone is not, and
nothing is written twice. What both added in the same place stands in the order of its text. Both texts are kept only if
both sides changed the same thing in different ways; the result says where. An edit wins over a deletion. Merging is the
same in either direction and idempotent, so that machines that merge the same things come to the same bytes.

A title or a description that both sides changed becomes both, with a stroke between. Of any other key the one that
comes first in the alphabet stays, and of two times of change the later.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from difflib import SequenceMatcher

from memdir.errors import FormatError
from memdir.format import frontmatter, index
from memdir.frozen import dataclass
from memdir.limits import DESCRIPTION_CHARS, TITLE_CHARS
from memdir.text import fold, shorten

_PAIRS = 4_000_000  # of pieces compared: two thousand paragraphs on both sides, a quarter of a second
_KEY = re.compile(r"([A-Za-z_\"'][^:\n]*):(?:\s|\Z)")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_BETWEEN = " / "
_JOINED = {"name": TITLE_CHARS, "description": DESCRIPTION_CHARS}


@dataclass(frozen=True, slots=True)
class MergedUnits:
    """The pieces, and those of the base that both sides changed, each in its own way."""

    pieces: tuple[str, ...]
    clashes: tuple[str, ...] = ()


# A piece and how many of the same text stand before it: the second of two equal pieces is another piece.
_Piece = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Edits:
    """What one side did: base pieces taken out, pieces put in before a base piece, and what stands in place of one."""

    gone: frozenset[int]
    added: dict[int, tuple[_Piece, ...]]
    changed: dict[int, tuple[_Piece, ...]]  # nothing, if the piece was only taken out


def merge_units(base: Sequence[str], one: Sequence[str], other: Sequence[str], *, pairs: int = _PAIRS) -> MergedUnits:
    """What both sides made of the base together; with more than so many `pairs` to compare, less closely."""
    if tuple(one) == tuple(base) or tuple(one) == tuple(other):
        return MergedUnits(tuple(other))
    if tuple(other) == tuple(base):
        return MergedUnits(tuple(one))
    old = _number(base)
    first, second = _find_edits(old, _number(one), pairs), _find_edits(old, _number(other), pairs)
    # What a side has more often than the base it wrote anew: then the other's taking it out does not mean this one.
    counts = [Counter(at) for at in (base, one, other)]
    written = {text for text in {*one, *other} if max(counts[1][text], counts[2][text]) > counts[0][text]}
    # A piece that one side only moved is not one that it wrote: the other may take it out.
    dead = {piece for piece in set(old) - (set(_number(one)) & set(_number(other))) if piece[0] not in written}
    # A dictionary, because a piece that both put in stands once, wherever each of them put it.
    pieces: dict[_Piece, None] = {}
    for at in range(len(old) + 1):
        low, high = sorted((first.added.get(at, ()), second.added.get(at, ())))
        pieces |= dict.fromkeys(piece for piece in (*low, *high) if piece not in dead)
        is_kept = at not in first.gone and at not in second.gone
        if at < len(old) and (is_kept or base[at] in written):
            pieces[old[at]] = None
    clashes = [base[at] for at in _find_clashes(first, second)]
    return MergedUnits(tuple(text for text, _ in pieces), tuple(clashes))


def _number(pieces: Sequence[str]) -> list[_Piece]:
    seen: Counter[str] = Counter()
    numbered = []
    for piece in pieces:
        numbered.append((piece, seen[piece]))
        seen[piece] += 1
    return numbered


def _find_edits(base: Sequence[_Piece], side: Sequence[_Piece], pairs: int) -> _Edits:
    gone: set[int] = set()
    added: dict[int, tuple[_Piece, ...]] = {}
    changed: dict[int, tuple[_Piece, ...]] = {}
    is_small = len(base) * len(side) <= pairs
    steps = SequenceMatcher(None, base, side, autojunk=False).get_opcodes() if is_small else _compare_ends(base, side)
    for tag, low, high, start, end in steps:
        if tag == "equal":
            continue
        if end > start:
            added[low] = tuple(side[start:end])
        gone.update(range(low, high))
        changed |= dict.fromkeys(range(low, high), tuple(side[start:end]))
    return _Edits(frozenset(gone), added, changed)


def _compare_ends(base: Sequence[_Piece], side: Sequence[_Piece]) -> list[tuple[str, int, int, int, int]]:
    """As a SequenceMatcher tells it, but all between what both begin and what both end with is one change."""
    shorter = min(len(base), len(side))
    low = next((at for at in range(shorter) if base[at] != side[at]), shorter)
    tail = next((at for at in range(shorter - low) if base[-1 - at] != side[-1 - at]), shorter - low)
    return [("replace", low, len(base) - tail, low, len(side) - tail)]


def _find_clashes(first: _Edits, second: _Edits) -> list[int]:
    known: dict[tuple[int, int], bool] = {}  # neighbours were often replaced together, by one and the same thing
    both = sorted(first.gone & second.gone)
    for one, other in ((first.changed[at], second.changed[at]) for at in both):
        if (id(one), id(other)) not in known:
            # One that holds all of the other says nothing different.
            is_part = set(one) <= set(other) or set(other) <= set(one)
            known[id(one), id(other)] = not is_part or (not one) != (not other)
    return [at for at in both if known[id(first.changed[at]), id(second.changed[at])]]


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A merged text, None for "no file", and in words where the two sides clashed."""

    text: str | None
    clashes: tuple[str, ...] = ()


def merge_memory(base: str | None, one: str | None, other: str | None) -> MergeResult:
    """Two versions of a memory file as one; None stands for "no file"."""
    if one in (base, other):
        return MergeResult(other)
    if other == base:
        return MergeResult(one)
    if one is None or other is None:
        why = "one side took it away, the other changed it: the change stays"
        return MergeResult(other if one is None else one, (why,))
    parts = [frontmatter.split_frontmatter(text) for text in (base or "", one, other)]
    head, clashes = _merge_head(base or "", one, other)
    body = merge_units(*(split_paragraphs(at.body) for at in parts))
    told = [f"both sides changed the paragraph “{shorten(' '.join(at.split()), 60)}”" for at in body.clashes]
    told = [*(["both sides wrote one of this name"] if base is None else []), *clashes, *told]
    text = head + ("\n" if head else "") + "\n\n".join(body.pieces) + ("\n" if body.pieces else "")
    return MergeResult(text, tuple(told))


def merge_index(base: str, one: str, other: str) -> str:
    """Two versions of an index as one; a line that both sides have is there once."""
    return "".join(merge_units(*map(_split_index, (base, one, other))).pieces)


def tidy_index(
    text: str, names: Collection[str], preferred: str, *, revived: Collection[str] = (), known: Iterable[str] = ()
) -> str:
    """An index after a merge: no line for what is gone, one line a memory, and a line again for what came back.

    `preferred` says which of two lines for one memory stays; `revived` are memories that one side took away and the
    other kept, and `known` the indexes that may still have their lines.
    """
    alive, back = ({fold(name) for name in at} for at in (names, revived))
    liked = set(_split_index(preferred))
    lines = index.parse_index(text)
    best: dict[str, int] = {}
    for line in lines:
        is_better = line.key not in best or (line.text in liked and lines[best[line.key]].text not in liked)
        if line.is_pointer and is_better:
            best[line.key] = line.number
    kept = (at for at in lines if not at.is_pointer or (at.key in alive and best[at.key] == at.number))
    tidied = "".join(at.text for at in kept)
    missing: dict[str, str] = {}
    for line in (line for other in known for line in index.parse_index(other)):
        if line.is_pointer and line.key in alive & back and line.key not in best:
            missing[line.key] = min(missing.get(line.key, line.text.strip()), line.text.strip())
    for line_text in missing.values():
        tidied = index.append_pointer(tidied, line_text)
    return tidied


def split_paragraphs(body: str) -> tuple[str, ...]:
    """The paragraphs of a body, without the blank lines between; a fenced block is one with its blank lines."""
    found: list[list[str]] = [[]]
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence) and not line.strip().strip("`~"):
            fence = ""
        if line.strip() or fence:
            found[-1].append(line.rstrip("\r") if not fence else line)
        elif found[-1]:
            found.append([])
    return tuple("\n".join(lines) for lines in found if lines)


def _merge_head(base: str, one: str, other: str) -> tuple[str, tuple[str, ...]]:
    """The fences and what stands between them; and where the keys clashed."""
    before, first, second = (_read_head(text) for text in (base, one, other))
    if first in (before, second):
        return second, ()
    if second == before:
        return first, ()
    if not first or not second:
        return first or second, ("one side took the head away",)
    if first > second:
        first, second, one, other = second, first, other, one
    old, left, right = (_split_keys(text) for text in (before, first, second))
    merged: dict[str, str] = {}
    clashed: list[str] = []
    for key in [*left, *(key for key in right if key not in left)]:
        was, a, b = old.get(key), left.get(key), right.get(key)
        if a == b or b == was:
            found = a
        elif a == was:
            found = b
        else:
            found = max(a or "", b or "") if key.endswith("modified") else min(at for at in (a, b) if at)
            if not key.endswith("modified"):
                clashed.append(key)
        if found is not None:
            merged[key] = found
    opening = first.split("\n", 1)[0]
    # As they came, but what stands inside `metadata:` right behind it.
    tops = [key for key in merged if "." not in key]
    ordered = [at for top in tops for at in (top, *(key for key in merged if key.startswith(f"{top}.")))]
    head = f"{opening}\n{''.join(merged[key] for key in ordered)}---\n"
    head, told = _join_fields(head, one, other, clashed)
    return head, tuple(f"both sides changed `{key}`{told.get(key, '')}" for key in clashed)


def _join_fields(head: str, one: str, other: str, clashed: Sequence[str]) -> tuple[str, dict[str, str]]:
    told: dict[str, str] = {}
    for key in clashed:
        values = [_read_field(text, key) for text in (one, other)]
        if key not in _JOINED:
            told[key] = f": {' and '.join(repr(at) for at in sorted(values))}" if all(values) else ""
            continue
        joined = _BETWEEN.join(sorted({part for value in values for part in value.split(_BETWEEN) if part}))
        if len(joined) <= _JOINED[key]:
            with suppress(FormatError):
                head = frontmatter.set_fields(head, {key: joined})
    return head, told


def _read_field(text: str, key: str) -> str:
    raw = frontmatter.parse_fields(text).raw
    found = raw.get(key.rpartition(".")[2]) or (raw.get("metadata") or {})
    if isinstance(found, dict):
        found = found.get(key.rpartition(".")[2], "")
    return found if isinstance(found, str) else ""


def _read_head(text: str) -> str:
    """The head with its fences, line ends made even; empty where there is none."""
    parts = frontmatter.split_frontmatter(text)
    lines = (parts.opening + parts.head + parts.closing).replace("\r\n", "\n").lstrip("\ufeff")
    return lines if not lines or lines.endswith("\n") else lines + "\n"


def _split_keys(head: str) -> dict[str, str]:
    """Key -> its lines, in order; those inside `metadata:` each for itself. A line without a key goes with the last."""
    found: dict[str, str] = {}
    top = key = ""
    for line in frontmatter.split_lines(head)[1:-1]:
        match = _KEY.match(line)
        inner = _KEY.match(line.strip()) if not match and line[:1] == " " and top == "metadata" else None
        if match:
            top = key = match.group(1)
        elif inner:
            key = f"{top}.{inner.group(1)}"
        found[key] = found.get(key, "") + line
    return found


def _split_index(text: str) -> list[str]:
    """Lines with one kind of end: the last line of a file without one is the same line."""
    return [line.rstrip("\r") + "\n" for line in text.removesuffix("\n").split("\n")] if text else []
