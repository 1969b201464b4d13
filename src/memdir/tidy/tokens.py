"""A text as tokens in the form in which two texts are compared: words without inflection, values in one spelling.

What must match to the letter keeps its letters: code, quotations, addresses, identifiers, channels, units in capitals.
Articles and the auxiliaries of tense and voice are kept as tokens of no weight, since they tell where phrases begin and
which clause is passive. English; of other languages it makes tokens that equal only themselves.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.tidy.quantities import DATE, find_date, find_number
from memdir.tidy.words import (
    ARTICLES,
    AUXILIARY,
    BE,
    BETWEEN,
    CONTRACTIONS,
    FULL_VERBS,
    PHRASES,
    find_canon,
    find_lemma,
    is_participle,
    is_past,
    strip_progressive,
)


class Sort(StrEnum):
    """What a token is. `EXACT` is code and the like; a `BREAK` is punctuation, `EMPTY` a word without a fact."""

    WORD = "word"
    NAME = "name"
    NUMBER = "number"
    DATE = "date"
    EXACT = "exact"
    BREAK = "break"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Token:
    """`key` is what is compared, `word` the small-letter word as it stood, `start` and `end` its place in the text."""

    sort: Sort
    key: str
    word: str
    start: int
    end: int
    opens: bool = False

    @property
    def is_hard(self) -> bool:
        return self.sort in (Sort.NUMBER, Sort.DATE, Sort.EXACT)

    @property
    def is_sign(self) -> bool:
        return self.sort is Sort.WORD and not self.word[:1].isalnum()


_OTHER = re.compile(
    r"""
      (?P<code>`[^`\n]+`) | (?P<quote>"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»)
    | (?P<link>\[\[[^\[\]\n]+\]\])
    | (?P<exact>[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`]*[\w/] | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w
        | (?<![\w/])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]+)* | (?<!\w)[#@][\w-]+ | (?<![\w-])--?[A-Za-z][\w-]*
        | \d{1,2}:\d\d(?::\d\d)? | [A-Za-z]*\d[\w]*(?:[.,:/-]?[A-Za-z0-9_]+)*(?:[.,]\d+)*
        | [A-Za-z_][\w]*(?:[./_][\w-]+)+(?:-[\w-]+)* | [^\W\d_]+(?:-\w+)*-\w*\d\w* )
    | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+(?:['’][^\W\d_]+)*)*)
    | (?P<stop>[.!?](?=[\s"'”’»)*_]|\Z)|[。！？]|\n\s*\n) | (?P<semi>[;；])
    | (?P<comma>[,，、]|[:：]|[()\[\]]|[—–]|\s-\s)
    | (?P<sign>(?<=\d)['"’”′″]|[^\s'’‘"“”„«»…])              # all else: -20 is not 20, ✅ not ❌, C# not C
    """,
    re.VERBOSE,
)
# Marks of Markdown: bullets, headings, and stars in pairs. Not underscores, which names have, nor the numbers of lists.
_MARKS = re.compile(
    r"""
      `[^`\n]+` | ^[ \t>]*(?:[-*+•]|\#{1,6})[ \t]+
    | (?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])[^*\n]*(?<=[^\s*])(?P=stars)(?![\w*])
    """,
    re.MULTILINE | re.VERBOSE,
)
_FIRST: dict[str, list[int]] = {}  # the places of the phrases that begin with a word
for _at, (_words, _) in enumerate(PHRASES):
    _FIRST.setdefault(_words[0], []).append(_at)
_CAMEL = re.compile(r".[A-Z]|\A[A-Z]\Z")


def parse_tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text, its marks of Markdown left out; places are those of the text given."""
    bare = _MARKS.sub(_blank, text)
    return tuple(_join_phrases(_finish(list(_scan(bare)))))


def _blank(match: re.Match[str]) -> str:
    """The mark of a list item ends what stood before it; code is left as it is."""
    raw = match.group()
    if stars := match["stars"]:
        size = len(stars)
        return f"{' ' * size}{raw[size:-size]}{' ' * size}"
    return raw if raw.startswith("`") else "." + " " * (len(raw) - 1)


def _scan(text: str) -> Iterator[Token]:
    place = 0
    for date in [*DATE.finditer(text), None]:
        stop = date.start() if date else len(text)
        for match in _OTHER.finditer(text, place, stop):
            yield from _read(match)
        if date:
            yield Token(Sort.DATE, find_date(date), date.group().lower(), date.start(), date.end())
            place = date.end()


def _read(match: re.Match[str]) -> Iterator[Token]:
    kind, raw = match.lastgroup or "", match.group()
    start, end = match.span()
    if kind == "stop":
        if raw in "?？":  # what is asked is not said
            yield Token(Sort.WORD, "?", "?", start, end)
        yield Token(Sort.BREAK, ".", raw, start, end)
    elif kind in ("semi", "comma"):
        yield Token(Sort.BREAK, ";" if kind == "semi" else ",", raw, start, end)
    elif kind in ("code", "quote"):
        yield Token(Sort.EXACT, " ".join(raw[1:-1].split()), raw, start, end)
    elif kind == "word":
        yield from _read_word(raw, start, end)
    elif kind == "exact":
        number = find_number(raw)
        plain = number and re.fullmatch(r"[\d.]+", number)
        yield Token(Sort.NUMBER if plain else Sort.EXACT, number if plain else raw, raw, start, end)
    else:
        yield Token(Sort.EXACT if kind == "link" else Sort.WORD, raw, raw, start, end)


def _read_word(raw: str, start: int, end: int) -> Iterator[Token]:
    low = raw.replace("’", "'").lower()
    for short, long in CONTRACTIONS.items() if "'" in low or low == "cannot" else ():
        if low == short or (short[0] in "'n" and low.endswith(short)):
            first, *others = (low.removesuffix(short) + long).split()
            yield Token(Sort.WORD, "", first, start, end)
            yield from (Token(Sort.WORD, "", word, start, end) for word in others)
            return
    low = low.removesuffix("'s").removesuffix("'")
    if _CAMEL.search(raw) and raw not in ("I", "A"):
        yield Token(Sort.NAME, raw.removesuffix("'s"), low, start, end)
    elif raw[:1].isupper():
        yield Token(Sort.NAME, "", low, start, end)
    else:
        yield Token(Sort.WORD, "", low, start, end)


def _finish(tokens: Sequence[Token]) -> Iterator[Token]:
    """Keys for the words, which need their neighbours: sentence beginnings, auxiliaries before a verb."""
    opens, progressive = True, False
    for at, token in enumerate(tokens):
        if token.sort is Sort.BREAK:
            opens = opens or token.key == "."
            progressive = progressive and token.key == ","
            yield token
            continue
        made = token
        if not token.key:
            name = token.sort is Sort.NAME and not opens
            running = token.word.endswith("ing") and (_follows(tokens, at, BE) or (progressive and _begins(tokens, at)))
            progressive = progressive or running
            helps = token.word in FULL_VERBS and _is_helping(tokens, at)
            made = _make_word(token, name=name, running=running, helps=helps, opens=opens)
        yield made if made.sort is Sort.EMPTY or made.opens == opens else _copy(made, opens=opens)
        opens = False


def _make_word(token: Token, *, name: bool, running: bool, helps: bool, opens: bool) -> Token:
    word = token.word
    if number := find_number(word):
        return Token(Sort.NUMBER, number, word, token.start, token.end, opens)
    if name:
        return Token(Sort.NAME, word, word, token.start, token.end)
    if word in FULL_VERBS and not helps:
        return Token(Sort.WORD, FULL_VERBS[word], word, token.start, token.end, opens)
    if word in ARTICLES or word in AUXILIARY:
        return Token(Sort.EMPTY, "", word, token.start, token.end)
    lemma = strip_progressive(word) if running else find_lemma(word)
    return Token(Sort.WORD, find_canon(lemma), word, token.start, token.end, opens)


def _copy(token: Token, *, opens: bool) -> Token:
    return Token(token.sort, token.key, token.word, token.start, token.end, opens)


def _follows(tokens: Sequence[Token], at: int, words: frozenset[str]) -> bool:
    """Whether one of these auxiliaries stands before, adverbs between them or not."""
    for token in reversed(tokens[max(0, at - 3) : at]):
        if token.word in words:
            return True
        if token.word not in BETWEEN:
            return False
    return False


def _is_helping(tokens: Sequence[Token], at: int) -> bool:
    """Whether "have" or "do" only helps another verb: "has moved", "does not fail", and not "has root", "did it"."""
    have = FULL_VERBS.get(tokens[at].word) == "have"
    for token in tokens[at + 1 : at + 4]:
        if not have and token.word in ("not", "never"):
            return True
        if token.word not in BETWEEN:
            return have and (token.word in BE or is_participle(token.word))
    return False


def _begins(tokens: Sequence[Token], at: int) -> bool:
    return at > 0 and (tokens[at - 1].sort is Sort.BREAK or tokens[at - 1].word in ("and", "or"))


def _join_phrases(tokens: Iterator[Token]) -> Iterator[Token]:
    """Several words that are one become one token."""
    held = list(tokens)
    at = 0
    while at < len(held):
        joined = _find_phrase(held, at)
        if joined is None:
            yield held[at]
            at += 1
            continue
        first, last = held[at], held[at + len(joined[0]) - 1]
        yield Token(Sort.WORD, joined[1], joined[1], first.start, last.end, first.opens)
        at += len(joined[0])


def _find_phrase(tokens: Sequence[Token], at: int) -> tuple[tuple[str, ...], str] | None:
    word = tokens[at].word
    spelt = (word, tokens[at].key, find_lemma(word))
    if _FIRST.keys().isdisjoint(spelt):
        return None
    places = sorted({place for first in spelt for place in _FIRST.get(first, ())})
    return next((PHRASES[place] for place in places if _is_at(tokens, at, PHRASES[place][0])), None)


def _is_at(tokens: Sequence[Token], at: int, words: Sequence[str]) -> bool:
    here = tokens[at : at + len(words)]
    return len(here) == len(words) and all(
        token.sort in (Sort.WORD, Sort.EMPTY, Sort.NAME) and word in (token.word, token.key, find_lemma(token.word))
        for token, word in zip(here, words, strict=True)
    )


def is_past_tense(tokens: Sequence[Token]) -> bool:
    """Whether a sentence speaks of the past: by its auxiliary, or by a verb in the past without one."""
    for at, token in enumerate(tokens):
        if token.word in ("was", "were", "had", "did", "used-to"):
            return True
        if token.sort is Sort.WORD and is_past(token.word) and not _follows(tokens, at, AUXILIARY):
            return True
    return False
