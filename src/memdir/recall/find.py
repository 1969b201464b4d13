"""Plain search for memories that contain every word of a text, without ranking by meaning.

A word matches anywhere and in any case, also inside another word or in another form ("deploying" finds "deployed").
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from memdir.errors import MemdirError
from memdir.frozen import dataclass
from memdir.recall.terms import make_term
from memdir.records import Header
from memdir.store.contract import StoreReader
from memdir.text import fold

SNIPPET_CHARS = 160  # a line on most screens
_BEFORE = 30  # characters of the snippet before the first word that matched
_WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A search word. `trace` is a byte string that any text with a form of the word contains."""

    text: str
    stem: str
    trace: bytes


@dataclass(frozen=True, slots=True)
class BestLine:
    """The line of a text that contains the most search words. `met` is how many it contains."""

    line: int
    snippet: str
    met: int


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A memory that contains every word, and its best line. `line` is 0 if only the name matches."""

    header: Header
    path: str
    line: int
    snippet: str


def parse_words(text: str) -> tuple[QueryWord, ...]:
    return tuple(dict.fromkeys(_make_word(word) for word in fold(text).split()))


def search_memories(stores: Sequence[StoreReader], text: str, *, limit: int) -> tuple[SearchHit, ...]:
    """Return up to `limit` hits, newest first. Hits with all words in one line come before others."""
    words = parse_words(text)
    hits = sorted(
        (hit for store in stores for hit in _find_in(store, words)),
        key=lambda hit: (hit[0], hit[1].header.modified, hit[1].header.name),
        reverse=True,
    )
    return tuple(hit for _, hit in hits[:limit])


def has_all(text: str, words: Iterable[QueryWord]) -> bool:
    folded = fold(text)
    return all(_find_word(word, folded) >= 0 for word in words)


def find_spot(text: str, words: Sequence[QueryWord]) -> BestLine | None:
    """Return the first line with the most search words, or None if no line has any."""
    best: BestLine | None = None
    for number, line in enumerate(text.split("\n"), 1):
        folded = fold(line)
        starts = [start for word in words if (start := _find_word(word, folded)) >= 0]
        if starts and (best is None or len(starts) > best.met):
            best = BestLine(number, make_snippet(line, min(starts)), len(starts))
            if len(starts) == len(words):
                break
    return best


def make_snippet(line: str, start: int = 0) -> str:
    """Return the part of a line around a position, with ellipses where it was cut."""
    begin = max(0, start - _BEFORE) if len(line) > SNIPPET_CHARS else 0
    begin = min(begin, max(0, len(line) - SNIPPET_CHARS))
    if begin and (space := line.find(" ", begin, start)) >= 0:
        begin = space + 1
    piece = line[begin : begin + SNIPPET_CHARS]
    return ("…" if begin else "") + piece.strip() + ("…" if begin + SNIPPET_CHARS < len(line) else "")


def _find_in(store: StoreReader, words: Sequence[QueryWord]) -> Iterator[tuple[bool, SearchHit]]:
    for header in store.scan() if words else ():
        data = None
        with suppress(MemdirError):
            data = store.read_bytes(header.file)
        text = (data or b"").decode("utf-8", "replace")
        if data is not None and has_all(f"{header.name}\n{text}", words):
            spot = find_spot(text, words) or BestLine(0, make_snippet(header.description or header.title), 0)
            yield spot.met == len(words), SearchHit(header, store.locate(header), spot.line, spot.snippet)


def _make_word(text: str) -> QueryWord:
    stem = make_term(text) if _WORDS.fullmatch(text) else ""
    # Forms of a word begin alike, except for a last letter that changes: "happy", "happiness".
    alike = next((offset for offset, pair in enumerate(zip(text, stem, strict=False)) if pair[0] != pair[1]), len(stem))
    common = text[: max(0, alike - 1)] if stem else text
    is_plain = common.isascii() and len(common) > 2 and not re.search(r"[^\w.-]", common)
    return QueryWord(text, stem, common.encode("ascii") if is_plain else b"")


def _find_word(word: QueryWord, folded: str) -> int:
    """Return the offset of the word or one of its forms, or -1."""
    offset = folded.find(word.text)
    if offset >= 0 or not word.stem or (word.trace and word.trace.decode("ascii") not in folded):
        return offset
    matches = (match for match in _WORDS.finditer(folded) if match[0][0] == word.stem[0])
    return next((match.start() for match in matches if make_term(match[0]) == word.stem), -1)
