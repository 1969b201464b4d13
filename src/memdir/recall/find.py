"""Plain search: memories that hold every word asked for, with the place. No ranking by meaning, no floor, no gate.

For somebody who knows what they are looking for. A word is met by itself, anywhere and in any case, or by another form
of it ("deploying" by "deployed"). What might help with a question is `recall`'s to say.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from memdir.errors import MemdirError
from memdir.frozen import dataclass
from memdir.recall.terms import make_term
from memdir.records import Header
from memdir.store.contract import Store
from memdir.store.files import FileStore
from memdir.text import fold

# --- finding ---

SNIPPET_CHARS = 160  # a line on most screens; who wants more opens the file
_BEFORE = 30  # so many of them before the first word that was found
_WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word asked for: folded, its stem if it has one, and bytes that every text with a form of it holds."""

    text: str
    stem: str
    trace: bytes


@dataclass(frozen=True, slots=True)
class BestLine:
    """The line of a text that holds the most of the words."""

    line: int
    snippet: str
    met: int


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A memory that holds every word, and its best line; 0 where only the name does."""

    header: Header
    path: str
    line: int
    snippet: str


def parse_words(text: str) -> tuple[QueryWord, ...]:
    return tuple(dict.fromkeys(_make_word(word) for word in fold(text).split()))


def search_memories(stores: Sequence[Store], text: str, *, limit: int) -> tuple[SearchHit, ...]:
    """Those with all words in one line before the others, then the newer first; at most `limit`."""
    words = parse_words(text)
    found = sorted(
        (hit for store in stores for hit in _find_in(store, words)),
        key=lambda hit: (hit[0], hit[1].header.modified, hit[1].header.name),
        reverse=True,
    )
    return tuple(hit for _, hit in found[:limit])


def has_all(text: str, words: Iterable[QueryWord]) -> bool:
    folded = fold(text)
    return all(_is_met(word, folded) for word in words)


def find_spot(text: str, words: Sequence[QueryWord]) -> BestLine | None:
    """The first line with the most of the words; None where no line has any."""
    best: BestLine | None = None
    for number, line in enumerate(text.split("\n"), 1):
        folded = fold(line)
        met = [word for word in words if _is_met(word, folded)]
        if met and (best is None or len(met) > best.met):
            best = BestLine(number, make_snippet(line, min(_find_start(word, folded) for word in met)), len(met))
            if len(met) == len(words):
                break
    return best


def make_snippet(line: str, start: int = 0) -> str:
    """The part of a line around a place in it, with an ellipsis at each end that was cut."""
    begin = max(0, start - _BEFORE) if len(line) > SNIPPET_CHARS else 0
    begin = min(begin, max(0, len(line) - SNIPPET_CHARS))
    if begin and (space := line.find(" ", begin, start)) >= 0:
        begin = space + 1
    piece = line[begin : begin + SNIPPET_CHARS]
    return ("…" if begin else "") + piece.strip() + ("…" if begin + SNIPPET_CHARS < len(line) else "")


def _find_in(store: Store, words: Sequence[QueryWord]) -> Iterator[tuple[bool, SearchHit]]:
    for header in store.scan():
        text = _read_text(store, header)
        if text is None or not words or not has_all(f"{header.name}\n{text}", words):
            continue
        path = str(store.root / header.file) if isinstance(store, FileStore) else header.file
        spot = find_spot(text, words) or BestLine(0, make_snippet(header.description or header.title), 0)
        yield spot.met == len(words), SearchHit(header, path, spot.line, spot.snippet)


def _read_text(store: Store, header: Header) -> str | None:
    """A memory's text; None for one that has gone or may not be read."""
    try:
        if isinstance(store, FileStore):
            data = store.read_bytes(header.file)
            return None if data is None else data.decode("utf-8", "replace")
        return store.read(header.name).text
    except MemdirError:
        return None


def _make_word(text: str) -> QueryWord:
    stem = make_term(text) if _WORDS.fullmatch(text) else ""
    # Forms of a word begin alike, but for a last letter that changes: "happy", "happiness".
    alike = next((at for at, pair in enumerate(zip(text, stem, strict=False)) if pair[0] != pair[1]), len(stem))
    common = text[: max(0, alike - 1)] if stem else text
    is_plain = common.isascii() and len(common) > 2 and not re.search(r"[^\w.-]", common)
    return QueryWord(text, stem, common.encode("ascii") if is_plain else b"")


def _is_met(word: QueryWord, folded: str) -> bool:
    return word.text in folded or _find_form(word, folded) >= 0


def _find_start(word: QueryWord, folded: str) -> int:
    place = folded.find(word.text)
    return place if place >= 0 else max(0, _find_form(word, folded))


def _find_form(word: QueryWord, folded: str) -> int:
    """Where another form of the word stands; -1 for nowhere."""
    if not word.stem or (word.trace and word.trace.decode("ascii") not in folded):
        return -1
    initial = word.stem[0]
    forms = (at.start() for at in _WORDS.finditer(folded) if at[0][0] == initial and make_term(at[0]) == word.stem)
    return next(forms, -1)
