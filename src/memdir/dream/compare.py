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

from memdir.extraction.provenance import guess_language
from memdir.frozen import dataclass

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
_NUMBERS = {
    word: str(at) for at, word in enumerate("two three four five six seven eight nine ten eleven twelve".split(), 2)
}
_ENDINGS = (frozenset(("", "s", "es", "d", "ed")), frozenset(("y", "ies", "ied")))

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = {name[:size]: at for at, name in enumerate(_MONTHS, 1) for size in (3, 4, len(name))}
_MONTH_NAMES = "|".join(name.title() for name in sorted(_MONTH, key=len, reverse=True))
_DATE = re.compile(
    rf"""
      (?<![\w.-])(?P<iso>\d{{4}}-\d\d(?:-\d\d)?)(?![\w-])
    | (?<![\w.])(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\ (?P<month>{_MONTH_NAMES})\b\.?(?:,?\ (?P<year>\d{{4}})(?!\w))?
    | (?<!\w)(?P<month2>{_MONTH_NAMES})\b\.?\ (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?,?\ (?P<year2>\d{{4}})(?!\w)
    | (?<!\w)(?P<month3>{_MONTH_NAMES})\b\.?\ (?P<year3>\d{{4}})(?!\w)
    | (?<!\w)(?P<quarter>Q[1-4])\ (?P<year4>\d{{4}})(?!\w)
    """,
    re.VERBOSE,
)
_TOKEN = re.compile(
    r"""
      (?P<code>`[^`\n]+`|"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+») | (?P<link>\[\[[^\[\]\n]+\]\])
    | (?P<exact>[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`]*[\w/] | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w
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


class WordKind(Enum):
    """What a word is; `VALUE` is a number, a date, code, a quotation, an identifier or a sign."""

    PLAIN = 0
    NAME = 1
    VALUE = 2
    MARK = 3  # punctuation between clauses


@dataclass(frozen=True, slots=True)
class Word:
    """`key` is what is compared; a name is a word with capitals that does not open its sentence."""

    kind: WordKind
    key: str

    @property
    def folded(self) -> str:
        return self.key.lower() if self.kind is WordKind.NAME else self.key

    @property
    def is_hard(self) -> bool:
        return self.kind in (WordKind.VALUE, WordKind.NAME)

    @property
    def must_agree(self) -> bool:
        return self.is_hard or self.key in _LIMITS


class Wording:
    """The words of a text without its marks and articles. `edges` are the places at which a clause begins or ends."""

    def __init__(self, text: str) -> None:
        self.words: list[Word] = []
        self.edges = {0}
        for word in parse_words(text):
            if word.kind is WordKind.MARK:
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
    return len(text) <= _LONG and not _NO_PROSE.search(text) and guess_language(text) in ("en", "")


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
    return len(mine) == 1 and mine[0].is_hard and theirs[0].is_hard and not _is_less_exact(mine[0].key, theirs[0].key)


def find_words(text: str) -> frozenset[str]:
    """The keys of everything in a text that says something."""
    return frozenset(word.folded for word in Wording(text).words)


def find_hard(text: str) -> frozenset[str]:
    """Values and names of a text."""
    return frozenset(word.folded for word in Wording(text).words if word.is_hard)


def find_last_days(text: str) -> list[date | None]:
    """For each date in a text the last day it can mean; None for one without a year, or of no calendar."""
    return [_find_last_day(_normalize_date(match)) for match in _DATE.finditer(text)]


@lru_cache(maxsize=4_096)
def parse_words(text: str) -> tuple[Word, ...]:
    """The words and marks of a text, its Markdown left out."""
    return tuple(_name_words(_scan(_MARKDOWN.sub(_drop_markdown, text))))


def _drop_markdown(match: re.Match[str]) -> str:
    """The mark of a list item ends what stood before it; code is left as it is."""
    raw = match.group()
    if stars := match["stars"]:
        return f" {raw[len(stars) : -len(stars)]} "
    return raw if raw.startswith("`") else ". "


def _scan(text: str) -> Iterator[tuple[str, str]]:
    """Each token with its sort."""
    place = 0
    for match in [*_DATE.finditer(text), None]:
        for token in _TOKEN.finditer(text, place, match.start() if match else len(text)):
            yield token.lastgroup or "", token.group()
        if match:
            yield "date", _normalize_date(match)
            place = match.end()


def _name_words(tokens: Iterator[tuple[str, str]]) -> Iterator[Word]:
    opens = True
    for sort, raw in tokens:
        if sort in ("stop", "comma"):
            opens = opens or sort == "stop"
            yield Word(WordKind.MARK, raw)
            continue
        if sort == "word":
            yield from _parse_word(raw, opens=opens)
        elif sort == "code":
            yield Word(WordKind.VALUE, f"`{' '.join(raw[1:-1].split())}`")
        else:
            is_grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", raw)
            yield Word(WordKind.VALUE, raw.replace(",", "") if is_grouped else raw)
        opens = raw == "?"
        if opens:
            yield Word(WordKind.MARK, raw)


def _parse_word(raw: str, *, opens: bool) -> Iterator[Word]:
    low = raw.replace("’", "'").lower()
    plain = low.removesuffix("'s").removesuffix("'")
    if plain in _NUMBERS:
        yield Word(WordKind.VALUE, _NUMBERS[plain])
    elif _CAMEL.search(raw) and raw not in ("I", "A"):
        yield Word(WordKind.NAME, raw.replace("’", "'").removesuffix("'s"))
    elif raw[:1].isupper() and not opens and plain != "i":
        yield Word(WordKind.NAME, plain)
    else:
        for short, long in _CONTRACTIONS:
            plain = plain.replace(short, long)
        yield from (Word(WordKind.PLAIN, part) for part in plain.split())


def is_variant(one: Word, other: Word) -> bool:
    """The same word in another number or tense, or with two neighbouring letters exchanged."""
    if one.key == other.key:
        return True
    if one.kind is not WordKind.PLAIN or other.kind is not WordKind.PLAIN or one.must_agree or other.must_agree:
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


def _normalize_date(match: re.Match[str]) -> str:
    """A date as `2027-05-03`, `2027-05` or `2027-Q1`; without a year `-05-03`."""
    at = match.groupdict()
    if at["iso"]:
        return str(at["iso"])
    if at["quarter"]:
        return f"{at['year4']}-{at['quarter']}"
    month = _MONTH[(at["month"] or at["month2"] or at["month3"]).lower()]
    year, day = at["year"] or at["year2"] or at["year3"] or "", at["day"] or at["day2"]
    return f"{year}-{month:02}-{int(day):02}" if day else f"{year}-{month:02}"


def _find_last_day(value: str) -> date | None:
    found = re.fullmatch(r"(\d{4})-(?:Q([1-4])|(\d\d)(?:-(\d\d))?)", value)
    if found is None:
        return None
    try:
        return date(int(found[1]), int(found[3] or int(found[2]) * 3), int(found[4] or 28))
    except ValueError:
        return None


def _is_less_exact(one: str, other: str) -> bool:
    """Whether a date or a version says the same as another one, less exactly."""
    wide, narrow = sorted((one, other), key=len)
    if (found := re.fullmatch(r"(\d{4})-(\d\d)(?:-\d\d)?", narrow)) and "-Q" in wide:
        return wide == f"{found[1]}-Q{(int(found[2]) + 2) // 3}"
    return narrow.startswith((f"{wide}-", f"{wide}.")) or (wide.startswith("-") and narrow.endswith(wide))
