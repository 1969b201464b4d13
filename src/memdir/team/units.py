"""Three-way merging of a list of pieces: the paragraphs of a body, or the lines of an index. Pure.

Each side is taken as what it did to the base: which pieces it took out, and what it put in, and where. The merge does
what both did. So a piece that either side wrote is in the result, a piece that one side took out and the other left
alone is not, and nothing is written twice. Which side is whose does not matter: what both put in the same place stands
in the order of its text.

It does not know what a piece means, and it does not look inside one. Where there are more pieces than any person wrote,
it looks less closely at where each of them went, so that nobody can make a sync last for hours.
"""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from memdir.frozen import dataclass

_PAIRS = 4_000_000  # of pieces compared with each other: two thousand paragraphs on both sides, a quarter of a second


@dataclass(frozen=True, slots=True)
class Merged:
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


def merge_units(base: Sequence[str], one: Sequence[str], other: Sequence[str], *, pairs: int = _PAIRS) -> Merged:
    """What both sides made of the base together; with more than so many `pairs` to compare, less closely."""
    if tuple(one) == tuple(base) or tuple(one) == tuple(other):
        return Merged(tuple(other))
    if tuple(other) == tuple(base):
        return Merged(tuple(one))
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
    return Merged(tuple(text for text, _ in pieces), tuple(clashes))


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
    """The places of the base that both sides changed in different ways."""
    known: dict[tuple[int, int], bool] = {}  # neighbours were often replaced together, by one and the same thing
    found = []
    for at in sorted(first.gone & second.gone):
        one, other = first.changed[at], second.changed[at]
        key = (id(one), id(other))
        if key not in known:
            known[key] = _do_clash(one, other)
        if known[key]:
            found.append(at)
    return found


def _do_clash(one: Sequence[_Piece], other: Sequence[_Piece]) -> bool:
    """Whether two replacements of one piece say different things; one that holds all of the other does not."""
    return not (set(one) <= set(other) or set(other) <= set(one)) or (not one) != (not other)
