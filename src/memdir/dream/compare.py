"""Texts as sequences of words, so that two memories can be found to say the same.

Two texts are near duplicates if rapidfuzz aligns their words with no difference but articles, the ending of a number or
a tense, two letters in the wrong order, and whole clauses that one of them adds. Numbers, dates, names, code, units,
negations and limiting words are none of these, so they agree whenever two texts are near duplicates. A word that is
merely similar counts as another word. English only; other languages and code are compared to the letter.
"""

import re
from collections.abc import Iterator
from datetime import date
from enum import Enum
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from memdir.frozen import dataclass
from memdir.language.requests import find_request_languages

if TYPE_CHECKING:
    from rapidfuzz.distance import Opcodes

_LONG = 6_000  # characters; a longer text is compared as a whole or not at all
_ADDED_WORDS = 3  # an added clause of fewer may be one more item of a list
_ARTICLES = frozenset("a an the".split())
NEGATIONS = frozenset(
    "not never no none nobody nothing nowhere neither nor cannot without except unless hardly rarely seldom avoid "
    "skip refuse reject forbid stop lack fail instead".split()
)
# Two texts that say the same have the same ones of these.
_LIMITS = NEGATIONS | frozenset(
    "only always all any some every each both most many few several least up exactly about almost nearly must should "
    "may might can could would first second third last next previous before after until since more less fewer than "
    "above below over under if when whenever while once otherwise but still again twice half double".split()
)
# An added clause with one of these may narrow what the rest says, and is then no addition.
_NARROWING = NEGATIONS | frozenset(
    "only if when whenever until before after once but however though although otherwise rather just mostly partly "
    "sometimes may might least provided assuming depending most some few several half often maybe perhaps "
    "probably possibly supposedly apparently".split()
)
_CONTRACTIONS = (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not"))
_ENDINGS = (frozenset(("", "s", "es", "d", "ed")), frozenset(("y", "ies", "ied")))
_DAY = re.compile(r"(?<![\w.-])(\d{4})-(\d\d)(?:-(\d\d))?(?![\w-])")
_TOKEN = re.compile(
    r"""
      (?P<code>`[^`\n]+`|"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»)
    | (?P<exact>\[\[[^\[\]\n]+\]\] | [A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`]*[\w/] | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w
        | (?<![\w/])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]+)* | (?<!\w)[#@][\w-]+ | (?<![\w-])--?[A-Za-z][\w-]*
        | \d{1,2}:\d\d(?::\d\d)? | [A-Za-z]*\d[\w]*(?:[.,:/-]?[A-Za-z0-9_]+)*(?:[.,]\d+)*
        | [A-Za-z_][\w]*(?:[./_][\w-]+)+(?:-[\w-]+)* | [^\W\d_]+(?:-\w+)*-\w*\d\w* )
    | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+(?:['’][^\W\d_]+)*)*)
    | (?P<stop>[.!](?=[\s"'”’»)*_]|\Z)|[。！]|\n\s*\n) | (?P<comma>[;；,，、]|[:：]|[()\[\]]|[—–]|\s-\s)
    | (?P<sign>(?<=\d)['"’”′″]|[^\s'’‘"“”„«»…])              # all else: -20 is not 20, ✅ not ❌, C# not C
    """,
    re.VERBOSE,
)
# Marks of Markdown: bullets, headings, and stars in pairs. Not underscores, which names have, nor the numbers of lists.
_MARKDOWN = re.compile(
    r"""
      `[^`\n]+` | ^[ \t>]*(?:[-*+•]|\#{1,6})[ \t]+
    | (?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])[^*\n]*(?<=[^\s*])(?P=stars)(?![\w*])
    """,
    re.MULTILINE | re.VERBOSE,
)
_CAMEL = re.compile(r".[A-Z]|\A[A-Z]\Z")
_NO_PROSE = re.compile(r"^\s*(?:```|~~~|\|)|<[a-zA-Z/!]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Word:
    """`key` is what is compared. Numbers, code, quotations, signs and names are hard: they have no other spelling.

    A name is a word with capitals that does not open its sentence.
    """

    key: str
    is_hard: bool = False

    @property
    def must_agree(self) -> bool:
        return self.is_hard or self.key in _LIMITS


class Wording:
    """The words of a text without its marks and articles. `edges` are the places at which a clause begins or ends."""

    def __init__(self, text: str) -> None:
        self.words: list[Word] = []
        self.edges = {0}
        for word in _parse_words(text):
            if word is None:
                self.edges.add(len(self.words))
            elif word.key not in _ARTICLES:
                self.words.append(word)
        self.edges.add(len(self.words))
        self.keys = tuple(word.key for word in self.words)

    @property
    def blocks(self) -> tuple[tuple[object, ...], ...]:
        """Keys of which two texts that say the same share one: what must agree, and how they begin or end."""
        fixed = tuple(sorted(word.key for word in self.words if word.is_hard or word.key in NEGATIONS))
        edges = (("first", self.keys[:2]), ("last", self.keys[-2:])) if self.keys else ()
        return tuple((side, fixed, tuple(key[:3] for key in keys)) for side, keys in edges)

    @property
    def signature(self) -> tuple[str, ...]:
        """Values, names, negations and limits, sorted: texts that say the same have the same ones."""
        return tuple(sorted(word.key.lower() for word in self.words if word.must_agree))


class Difference(Enum):
    """How a text stands to another one that says the same."""

    NONE = 0
    MORE = 1
    LESS = -1


def is_prose(text: str) -> bool:
    """Whether a text is English prose of a length that can be compared word by word."""
    is_plain = len(text) <= _LONG and not _NO_PROSE.search(text)
    return is_plain and any(at.name == "en" for at in find_request_languages(text))


def compare(one: Wording, other: Wording) -> Difference | None:
    """Whether one text says the same as the other, or a clause more or less; None if they say different things."""
    if not one.keys or not other.keys:
        return None
    found = {Difference.NONE}
    for op in _align(one, other):
        mine, theirs = one.words[op.src_start : op.src_end], other.words[op.dest_start : op.dest_end]
        if op.tag == "replace" and not all(map(is_variant, mine, theirs)):
            return None
        if op.tag == "delete":
            found.add(Difference.MORE)
            if not _is_clause(one, op.src_start, op.src_end):
                return None
        elif op.tag == "insert":
            found.add(Difference.LESS)
            if not _is_clause(other, op.dest_start, op.dest_end):
                return None
    return max(found, key=lambda at: abs(at.value)) if len(found) < 3 else None


def says(one: str, other: str) -> bool:
    """Whether one text says all of the other."""
    is_comparable = is_prose(one) and is_prose(other)
    return is_comparable and compare(Wording(one), Wording(other)) in (Difference.NONE, Difference.MORE)


def differ_in_value(one: Wording, other: Wording) -> bool:
    """Whether two texts are the same but for one value or name, or for a negation; it proves no contradiction."""
    changes = [at for at in _align(one, other) if at.tag != "equal"]
    if len(changes) != 1:
        return False
    op = changes[0]
    mine, theirs = one.words[op.src_start : op.src_end], other.words[op.dest_start : op.dest_end]
    if op.tag != "replace":
        return [word.key for word in (*mine, *theirs)] in (["not"], ["never"], ["no"])
    wide, narrow = sorted((mine[0].key, theirs[0].key), key=len)
    is_less_exact = narrow.startswith((f"{wide}-", f"{wide}."))  # a date or a version
    return len(mine) == 1 and mine[0].is_hard and theirs[0].is_hard and not is_less_exact


def find_words(text: str) -> frozenset[str]:
    """The keys of everything in a text that says something."""
    return frozenset(word.key.lower() for word in Wording(text).words)


def find_hard(text: str) -> frozenset[str]:
    """Values and names of a text."""
    return frozenset(word.key.lower() for word in Wording(text).words if word.is_hard)


def find_last_days(text: str) -> list[date | None]:
    """For each date in a text, `2027-05-03` or `2027-05`, the last day it can mean; None for one of no calendar."""
    days: list[date | None] = []
    for at in _DAY.finditer(text):
        try:
            days.append(date(int(at[1]), int(at[2]), int(at[3] or 28)))
        except ValueError:
            days.append(None)
    return days


@lru_cache(maxsize=4_096)
def _parse_words(text: str) -> tuple[Word | None, ...]:
    """The words of a text, None for a mark between clauses; its Markdown is left out."""
    return tuple(_name_words(_MARKDOWN.sub(_drop_markdown, text)))


def _drop_markdown(match: re.Match[str]) -> str:
    """The mark of a list item ends what stood before it; code is left as it is."""
    raw = match.group()
    if stars := match["stars"]:
        return f" {raw[len(stars) : -len(stars)]} "
    return raw if raw.startswith("`") else ". "


def _name_words(text: str) -> Iterator[Word | None]:
    opens = True
    for token in _TOKEN.finditer(text):
        sort, raw = token.lastgroup, token.group()
        if sort in ("stop", "comma"):
            opens = opens or sort == "stop"
            yield None
            continue
        if sort == "word":
            yield from _parse_word(raw, opens=opens)
        elif sort == "code":
            yield Word(f"`{' '.join(raw[1:-1].split())}`", True)
        else:
            is_grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", raw)
            yield Word(raw.replace(",", "") if is_grouped else raw, True)
        if opens := raw == "?":
            yield None


def _parse_word(raw: str, *, opens: bool) -> Iterator[Word]:
    low = raw.replace("’", "'").lower()
    plain = low.removesuffix("'s").removesuffix("'")
    if _CAMEL.search(raw) and raw not in ("I", "A"):
        yield Word(raw.replace("’", "'").removesuffix("'s"), True)
    elif raw[:1].isupper() and not opens and plain != "i":
        yield Word(plain, True)
    else:
        for short, long in _CONTRACTIONS:
            plain = plain.replace(short, long)
        yield from map(Word, plain.split())


def is_variant(one: Word, other: Word) -> bool:
    """The same word in another number or tense, or with two neighbouring letters exchanged."""
    if one == other:
        return True
    if one.must_agree or other.must_agree:
        return False
    letters = zip(one.key, other.key, strict=False)
    stem = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], letters))
    mine, theirs = one.key[stem:], other.key[stem:]
    if stem < 3:
        return False
    doubled = one.key[stem - 1] + "ed"  # drops, dropped
    if doubled in (mine, theirs):
        return {mine, theirs} <= {doubled, "", "s"}
    return any({mine, theirs} <= endings for endings in _ENDINGS) or mine == theirs[1::-1] + theirs[2:]


def _align(one: Wording, other: Wording) -> "Opcodes":
    from rapidfuzz.distance import Levenshtein  # at first use: `save` and a session load this package for its logs

    return Levenshtein.opcodes(one.keys, other.keys)


def _is_clause(wording: Wording, start: int, end: int) -> bool:
    """Whether words are whole clauses with nothing in them that could narrow the rest.

    Where the words before and behind are alike, the alignment may have cut at any of several places; each is tried.
    """
    size = end - start
    if size < _ADDED_WORDS:
        return False
    keys = wording.keys
    while start and keys[start - 1] == keys[start + size - 1]:
        start -= 1
    while True:
        if {start, start + size} <= wording.edges:
            added = wording.words[start : start + size]
            return not any(word.is_hard or word.key in _NARROWING for word in added)
        if start + size >= len(keys) or keys[start] != keys[start + size]:
            return False
        start += 1
