"""What took a word's place in a commit: told by lines that differ in nothing else, or by the definition that came.

Pure: it is given the hunks of one patch. What it answers is evidence, not proof, and is told as such.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from memdir.frozen import dataclass
from memdir.verify.gitlog import decode_path
from memdir.verify.words import is_defined

_TOKENS = re.compile(rb"[A-Za-z_$][\w$]*|\d+|[^\s\w]")
_IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]{2,}")
_PAIRS = 400  # lines of one hunk that are compared; more is a rewrite
_LIKE = 0.6
# A name after a word that defines, a constant, or a function that is assigned.
_NAMING = re.compile(
    rb"^[ \t]*(?:(?:export|default|pub(?:\([^()]*\))?|async|static|public|private|abstract|final)[ \t]+)*"
    rb"(?:def|class|function|func|fn|interface|struct|enum|trait|type|const)[ \t]+(?:\([^()\n]*\)[ \t]*)?"
    rb"([A-Za-z_$][\w$]*)|^([A-Z][A-Z0-9_]{2,})[ \t]*="
    rb"|^[ \t]*(?:[\w$]+[ \t.])*([A-Za-z_$][\w$]*)[ \t]*[=:][ \t]*(?:async[ \t]+)?function\b"
)


@dataclass(frozen=True, slots=True)
class Hunk:
    """The lines that one place of a file lost and won."""

    path: str
    minus: tuple[bytes, ...]
    plus: tuple[bytes, ...]


def read_hunks(chunk: bytes) -> Iterator[Hunk]:
    old, path = "", ""
    minus: list[bytes] = []
    plus: list[bytes] = []
    for line in chunk.split(b"\n"):
        first = line[:1]
        if line.startswith((b"@@ ", b"diff --git ")):
            if minus or plus:
                yield Hunk(path or old, tuple(minus), tuple(plus))
            minus, plus = [], []
        elif line.startswith(b"--- ") and not minus and not plus:
            old, path = decode_path(line[6:]), ""
        elif line.startswith(b"+++ ") and not plus and not minus:
            path = "" if line[4:].startswith(b"/dev/null") else decode_path(line[6:])
        elif first == b"-":
            minus.append(line[1:])
        elif first == b"+":
            plus.append(line[1:])
    if minus or plus:
        yield Hunk(path or old, tuple(minus), tuple(plus))


def find_successor(word: bytes, hunks: Sequence[Hunk], fewer: Counter[bytes], more: Counter[bytes]) -> str:
    """The identifier that took this word's place in most lines; empty if none did."""
    votes: Counter[bytes] = Counter()
    for hunk in hunks:
        if not any(word in line for line in hunk.minus) or len(hunk.minus) > _PAIRS or len(hunk.plus) > _PAIRS:
            continue
        added = [_TOKENS.findall(line) for line in hunk.plus]
        for line in hunk.minus:
            if word in line:
                weight = 4 if is_defined(line, word) else 2
                votes.update(dict.fromkeys(_find_swapped(word, _TOKENS.findall(line), added), weight))
        votes.update(dict.fromkeys(_find_heirs(word, hunk), 1))
    fresh = {other: count for other, count in votes.items() if more[other] > fewer[other] and other != word}
    best = sorted(fresh, key=lambda other: (-fresh[other], other))[:2]
    if not best or (len(best) == 2 and fresh[best[0]] == fresh[best[1]] and not _is_like(word, best[0])):
        return ""
    return best[0].decode("utf-8", "replace")


def _find_swapped(word: bytes, tokens: list[bytes], added: Sequence[list[bytes]]) -> set[bytes]:
    """What stands in the word's place in an added line that is otherwise the same."""
    swapped: set[bytes] = set()
    for other in added:
        if len(other) != len(tokens):
            continue
        pairs = {(mine, theirs) for mine, theirs in zip(tokens, other, strict=True) if mine != theirs}
        meant = {theirs for mine, theirs in pairs if mine == word}
        if len(meant) == 1 and len(pairs) <= 2 and _IDENTIFIER.fullmatch(next(iter(meant))):
            swapped |= meant
    return swapped


def _find_heirs(word: bytes, hunk: Hunk) -> Iterator[bytes]:
    """Definitions that came where this one went, if they are like it or the only ones."""
    if not any(is_defined(line, word) for line in hunk.minus):
        return
    went = {name for line in hunk.minus for name in find_names(line)}
    came = {name for line in hunk.plus for name in find_names(line)} - went
    if len(came) == 1 and len(went) == 1:
        yield next(iter(came))
    else:
        yield from (name for name in came if _is_like(word, name))


def find_names(line: bytes) -> Iterator[bytes]:
    """The name that a line defines, if it does so by name."""
    match = _NAMING.match(line)
    if match:
        yield match[1] or match[2] or match[3]


def _is_like(one: bytes, other: bytes) -> bool:
    first, second = one.decode("utf-8", "replace").lower(), other.decode("utf-8", "replace").lower()
    return difflib.SequenceMatcher(None, first, second).ratio() >= _LIKE
