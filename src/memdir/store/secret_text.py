"""The records of the secret scanner, its tables, and the readings of a text in which a disguised secret is plain.

A reading is the text folded (NFKC, without invisible characters), dense (only its long runs), joined (strings and lines put
together), or decoded from percent signs or base64. Each knows where its characters stand in the text it was made from.
Linear time; nothing is judged here. The tables are in `secret_rules.toml`, which is read when the first text is scanned.
"""

import re
import unicodedata
from binascii import a2b_base64
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from memdir.frozen import dataclass

Span = tuple[int, int]

TABLES_FILE = Path(__file__).with_name("secret_rules.toml")
# Characters that print as nothing, or only say where a word may be cut.
_UNSEEN = frozenset("\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\ufeff\uffa0")
_SHORTEST = 13  # of the tokens that are known by their shape
_RUN = rf"[!-~]{{{_SHORTEST},}}+"
_PART = r"[\w+/=~.-]"
_STRINGS = rf"[\"'`](?<={_PART}[\"'`])[ \t\r\n]{{0,40}}+[+.&\\]?[ \t\r\n]{{0,40}}+[\"'`](?={_PART})"  # "abc" + "def"
_LINES = rf"\n[ \t>#*|/\"'`+]{{0,40}}+(?={_PART})"  # a line that goes on
# Pieces with one blank between them: no ordinary words, but with digits, signs or capitals in them, or single letters.
_ODD = r"[A-Za-z]{0,40}+[0-9_+/=~-]|[A-Za-z][a-z]{0,40}+[A-Z]|[A-Z]{2,40}+(?![a-z])|[A-Za-z](?![A-Za-z])"
_PIECE = rf"(?={_ODD}){_PART}{{1,80}}+"
_BLANKS = rf"(?<!{_PART}){_PIECE}(?: {_PIECE})++"
_PERCENT = r"(?:%[0-9A-Fa-f]{2})++"
_BASE64 = (
    r"(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{20,20000}+={0,2}(?!\r?\n)"
    r"|(?:[A-Za-z0-9+/]{60,76}\r?\n[ \t>]{0,40}+){1,400}+[A-Za-z0-9+/]{0,76}+={0,2}|[A-Za-z0-9+/_-]{20,20000}+={0,2})"
)


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One format of a secret: a pattern for the value, or with a group `value` for its surroundings too.

    The text must contain one of `hints` (lower case). `bits` is the lowest entropy per character of a value. A match may
    be no part of a longer word, unless `inside` says that the pattern checks it.
    """

    id: str
    what: str
    pattern: str
    hints: tuple[str, ...] = ()
    bits: float = 0.0
    inside: bool = False


@dataclass(frozen=True, slots=True)
class AllowedValue:
    """A value that is no secret although a rule finds it, and why. With `rule`, for that rule only.

    The pattern is searched in the value, or with `on_line` in the line the value begins on.
    """

    pattern: str
    why: str
    rule: str = ""
    on_line: bool = False


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A secret in a text: which rule, in words what it is, and where; never the value. Lines count from 1."""

    rule: str
    what: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SecretMatch:
    """A match in some reading of a text, before it is known where it stands in the text itself."""

    rule: str
    what: str
    start: int
    end: int


@cache
def read_tables() -> dict[str, Any]:
    import tomllib  # most processes scan nothing

    return tomllib.loads(TABLES_FILE.read_text(encoding="utf-8"))


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text made from another: pieces, each with where it begins here, and where and how long it is there."""

    text: str
    here: tuple[int, ...] = (0,)
    there: tuple[int, ...] = (0,)
    lengths: tuple[int, ...] = (-1,)  # in the other text; -1: character by character
    joints: tuple[int, ...] = ()  # where something was left out, in order

    def find_place(self, start: int, end: int) -> Span:
        """Where a span stands in the text this one was made from."""
        return self._place(start)[0], self._place(max(end - 1, start))[1]

    def has_joint(self, start: int, end: int) -> bool:
        """Whether something was left out between the two."""
        at = bisect_right(self.joints, start)
        return at < len(self.joints) and self.joints[at] < end

    def _place(self, at: int) -> Span:
        piece = bisect_right(self.here, at) - 1
        begin, length = self.there[piece], self.lengths[piece]
        if length >= 0:
            return begin, begin + length
        return begin + at - self.here[piece], begin + at - self.here[piece] + 1


def fold_text(text: str) -> FoldedText:
    """NFKC by character, without what cannot be seen."""
    used = set(text)
    odd = {at: folded for at in used if at > "\x7f" and (folded := _fold(at)) != at}
    odd.update((at, "") for at in used if at < " " and at not in "\t\n\r")
    if not odd:
        return FoldedText(text)
    pattern = re.compile("[" + "".join(map(re.escape, odd)) + "]")
    return _rebuild(text, ((*match.span(), odd[match.group()]) for match in pattern.finditer(text)))


def find_dense(text: str) -> FoldedText:
    """Only the runs that are long enough for a token, a line each: of prose hardly anything is left."""
    return _gather(text, [[match.span()] for match in compile_pattern(_RUN).finditer(text)])


def decode_percent(text: str) -> FoldedText | None:
    """With %41 and the like as characters, one level; None if there are none."""
    matches = list(compile_pattern(_PERCENT).finditer(text)) if "%" in text else []
    said = [bytes.fromhex(at.group().replace("%", "")).decode("utf-8", "replace") for at in matches]
    return _rebuild(text, [(*at.span(), new) for at, new in zip(matches, said, strict=True)]) if matches else None


def join_pieces(text: str) -> FoldedText | None:
    """Strings put together, and words that go on after a line or a blank, each as one line; None if there are none.

    Ordinary words are not joined by a blank, only pieces that look like parts of something longer.
    """
    chains = list(_find_chains(text, sorted(_find_joints(text))))
    return _gather(text, chains) if chains else None


def find_base64(text: str) -> Iterator[tuple[int, int, str]]:
    """Runs of base64 that hold text, decoded once: start, end, what they say."""
    for match in compile_pattern(_BASE64).finditer(text):
        run = match.group()
        said = "" if run.islower() or run.isupper() else decode_base64(compile_pattern(r"[\s>]+").sub("", run))
        if said:
            yield match.start(), match.end(), said


def decode_base64(run: str) -> str:
    """The text behind a run of base64, of either alphabet; empty if it is not text."""
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    if len(bare) % 4 == 1:
        return ""
    try:
        text = a2b_base64(bare + "=" * (-len(bare) % 4)).decode("utf-8")
    except ValueError:
        return ""
    odd = sum(1 for at in text if at < " " and at not in "\t\n\r")
    return text if odd * 20 <= len(text) else ""


def _find_joints(text: str) -> Iterator[Span]:
    for match in compile_pattern(_STRINGS).finditer(text):
        yield match.span()
    for match in compile_pattern(_LINES).finditer(text):
        head = text[max(match.start() - 40, 0) : match.start()]
        bare = head.rstrip(" \t\r\\+\"'`")
        if bare and (bare[-1].isalnum() or bare[-1] in "_+/=~.-"):
            yield match.start() - len(head) + len(bare), match.end()
    for match in compile_pattern(_BLANKS).finditer(text):
        yield from (blank.span() for blank in compile_pattern(" ").finditer(text, *match.span()))


def _find_chains(text: str, joints: list[Span]) -> Iterator[list[Span]]:
    """The pieces that nothing but joints stand between, where a token could be made of them."""
    part = compile_pattern(rf"{_PART}++")
    chain: list[Span] = []
    reach = 0  # where the last piece ends
    for start, end in joints:
        if start < reach and chain and start < chain[-1][0]:
            continue  # the same joint, found in two ways
        if not chain or start != reach:
            yield from _close(text, chain)
            left = part.match(text[max(start - 400, 0) : start][::-1])
            chain = [(start - (left.end() if left else 0), start)]
        else:
            chain[-1] = chain[-1][0], start
        right = part.match(text, end)
        reach = right.end() if right else end
        chain.append((end, reach))
    yield from _close(text, chain)


def _close(text: str, chain: list[Span]) -> Iterator[list[Span]]:
    said = "".join(text[start:end] for start, end in chain)
    if len(chain) > 1 and len(said) >= _SHORTEST and not (said.isalpha() and said.islower()):
        yield chain


def _gather(text: str, chains: Iterable[list[Span]]) -> FoldedText:
    """The spans of each chain as one line; where two of a chain meet is a joint."""
    pieces: list[tuple[int, int, str]] = []
    joints: list[int] = []
    size = 0
    for chain in chains:
        for number, (start, end) in enumerate(chain):
            joints += [size] if number else []
            pieces.append((start, -1, text[start:end]))
            size += end - start
        pieces.append((chain[-1][1], -1, "\n"))
        size += 1
    return _assemble(pieces, joints)


def _rebuild(text: str, changes: Iterable[tuple[int, int, str]]) -> FoldedText:
    """The text with some spans replaced."""
    pieces: list[tuple[int, int, str]] = []
    at = 0
    for start, end, new in (*changes, (len(text), len(text), "")):
        pieces += [(at, -1, text[at:start]), (start, end - start, new)]
        at = end
    return _assemble(pieces)


def _assemble(pieces: Iterable[tuple[int, int, str]], joints: Iterable[int] = ()) -> FoldedText:
    """A text from pieces: where each begins in the other text, how long it is there, and what it is here."""
    kept = [piece for piece in pieces if piece[2]] or [(0, -1, "")]
    there, lengths, parts = zip(*kept, strict=True)
    here = accumulate((len(part) for part in parts[:-1]), initial=0)
    return FoldedText("".join(parts), tuple(here), there, lengths, tuple(joints))


@cache
def _fold(at: str) -> str:
    if at in _UNSEEN or "\ufe00" <= at <= "\ufe0f" or unicodedata.category(at) in ("Cf", "Cc", "Cs"):
        return ""
    return unicodedata.normalize("NFKC", at)
