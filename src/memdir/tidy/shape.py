"""The build of what a text says, so that it can be seen whether another says the same in other words.

A sentence is cut into units (at full stops and semicolons), units into blocks (at commas and conjunctions), blocks into
pieces (at a bare "and"). A piece is its phrases in their order, each with the preposition before it; a phrase in front
is taken behind, and a passive piece is turned round. Two texts say the same if their pieces are equal: so a clause may
stand before or behind its neighbour and a phrase before or behind its clause, but nothing changes its role, its clause
or its place among its like. "A depends on B" and "B depends on A" have the same words and differ here; so do two
numbers that changed places.

It does not understand English. Whatever it cannot follow makes two texts differ, never agree.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from memdir.frozen import dataclass
from memdir.tidy.pieces import APART, APPOSED, Keys, Piece, is_floating, make_key, make_pieces
from memdir.tidy.tokens import Sort, Token
from memdir.tidy.words import NARROWING

_CAUSE, _EFFECT = "because", "so"
# Words that open a clause, with the label it gets; "which" and "who" go on telling.
_OPENERS = {
    "because": _CAUSE,
    "so": _EFFECT,
    "so-that": "so-that",
    "when": "when",
    "whenever": "when",
    "if": "if",
    "unless": "unless",
    "while": "while",
    "once": "once",
    "where": "where",
    "although": "although",
    "though": "although",
    "but": "but",
    "which": "",
    "who": "",
}
_ADDED_WORDS = 2  # an added clause of fewer may be one more item of a list


@dataclass(frozen=True, slots=True)
class Block:
    label: str
    pieces: tuple[Piece, ...]


Unit = tuple[Block, ...]


class Shape:
    """A text ready to be compared: its bag of keys, which equal texts share, and its keys in order.

    Its build and the clauses it could do without are made when a comparison first asks: of most texts none ever does.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.keys = tuple(make_key(token) for token in tokens if _is_key(token))

    @cached_property
    def bag(self) -> Keys:
        marked = (at for at in self._tokens if at.sort is not Sort.BREAK and at.sort is not Sort.EMPTY)
        return tuple(sorted(make_key(token) for token in marked if not _is_joint(token)))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        return tuple(unit for part in _split(self._tokens, ".;") if (unit := _make_unit(part)))

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The keys of each clause that could have been added, as places in `keys`."""
        return tuple(_find_spans(self._tokens))

    def leave_out(self, span: tuple[int, int]) -> Keys:
        return (*self.keys[: span[0]], *self.keys[span[1] :])


def is_same(one: Shape, other: Shape) -> bool:
    """Whether two texts say the same in the same words, in whatever order of clauses and phrases, active or passive."""
    if one.bag != other.bag or len(one.units) != len(other.units) or not one.keys:
        return False
    return all(map(_is_turned, one.units, other.units))


def cut_clauses(tokens: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """The clauses of one sentence, each with the label of what opens it."""
    return list(_cut_segments(tokens))


def _is_turned(one: Unit, other: Unit) -> bool:
    """The same clauses in the same order, the last ones put first, or all from the last to the first.

    What no word ties to the rest keeps its order: it may be the order in which things are done.
    """
    if len(one) != len(other) or [at for at in one if not at.label] != [at for at in other if not at.label]:
        return False
    return one == other[::-1] or any(one == (*other[turn:], *other[:turn]) for turn in range(len(other)))


def _is_key(token: Token) -> bool:
    return token.sort is not Sort.BREAK and token.sort is not Sort.EMPTY and token.key != "and"


def _is_joint(token: Token) -> bool:
    return token.sort is Sort.WORD and token.key in ("and", "so", "because", "which", "who", "by")


def _split(tokens: Sequence[Token], marks: str) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.sort is Sort.BREAK and token.key in marks:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _make_unit(tokens: Sequence[Token]) -> Unit:
    """The blocks of a sentence, with what is cause and what effect told in one way."""
    segments = _join_floating(list(_cut_segments(tokens)))
    blocks: list[Block] = []
    for label, part in segments:
        if pieces := make_pieces(part):
            blocks.append(Block(label, pieces))
    effect = next((at for at, block in enumerate(blocks) if block.label == _EFFECT), None)
    if effect:
        causes = [Block(_CAUSE if not at.label else at.label, at.pieces) for at in blocks[:effect]]
        blocks = [*causes, *(Block("" if at.label == _EFFECT else at.label, at.pieces) for at in blocks[effect:])]
    return tuple(blocks)


def _cut_segments(tokens: Sequence[Token]) -> Iterator[tuple[str, list[Token]]]:
    label, part = "", list[Token]()
    for at, token in enumerate(tokens):
        opener = _find_opener(tokens, at)
        if token.sort is Sort.BREAK or opener is not None:
            if part:
                yield label, part
                label, part = "", []
            label = opener if opener is not None else label
        elif not (token.key == "and" and not part):  # ", and": the comma has cut already
            part.append(token)
    if part:
        yield label, part


def _find_opener(tokens: Sequence[Token], at: int) -> str | None:
    token = tokens[at]
    if token.sort not in (Sort.WORD, Sort.NAME):
        return None
    first = at == 0 or tokens[at - 1].sort is Sort.BREAK
    if token.word == "as":
        return _CAUSE if first else None
    if token.word == "since":
        return None if any(_has_digit(after) for after in tokens[at + 1 : at + 3]) else _CAUSE
    return _OPENERS.get(token.key)


def _has_digit(token: Token) -> bool:
    return token.sort in (Sort.NUMBER, Sort.DATE) or any(letter.isdigit() for letter in token.word)


def _join_floating(segments: list[tuple[str, list[Token]]]) -> list[tuple[str, list[Token]]]:
    """A segment that is one phrase with a preposition belongs to the clause beside it."""
    joined: list[tuple[str, list[Token]]] = []
    for at, (label, part) in enumerate(segments):
        floats = bool(joined) and not label and _floats(part) and _is_last(segments[at:])
        leads = bool(joined) and not label and all(not mark and _floats(before) for mark, before in segments[:at])
        if floats or leads:
            joined[-1][1].extend([APPOSED if _is_apposed(part) else APART, *part])
        else:
            joined.append((label, list(part)))
    return joined


def _is_last(segments: Sequence[tuple[str, list[Token]]]) -> bool:
    """Whether only such phrases follow up to the next clause; between two clauses one could belong to either."""
    for label, part in segments:
        if label:
            return True
        if not _floats(part):
            return False
    return True


def _floats(part: Sequence[Token]) -> bool:
    return is_floating(part) or _is_apposed(part)


def _is_apposed(part: Sequence[Token]) -> bool:
    """`vault "Sandbox"`, `level AA`: one word and a name, said of what stands before it."""
    return len(part) == 2 and part[0].sort is Sort.WORD and part[1].sort in (Sort.EXACT, Sort.NAME)


def _find_spans(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Where each clause stands that only adds: set off by marks, with nothing in it that could narrow the rest."""
    edges = [at for at, token in enumerate(tokens) if token.sort is Sort.BREAK]
    keys = [0, *accumulate(map(_is_key, tokens))]
    narrowing = [0, *accumulate(map(_narrows, tokens))]
    ends = [*edges, len(tokens)]
    for first, left in enumerate(edges):
        for marks, right in enumerate(ends[first + 1 :]):
            if narrowing[right] > narrowing[left]:
                break  # and so would every longer one
            if right - left - 1 - marks > _ADDED_WORDS:
                yield keys[left], keys[right]


def _narrows(token: Token) -> bool:
    return _is_telling(token) or token.word in NARROWING or token.key in NARROWING


def _is_telling(token: Token) -> bool:
    return (token.is_hard and token.word != "one") or token.sort is Sort.NAME or token.is_sign
