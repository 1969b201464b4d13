"""Recognise the clause in which somebody asks not to be quoted later: "keep that out of your notes", in six languages.

A linear model over kinds of words (negations, verbs of keeping, names of memory, what was said; the section `wish` of the
language data), their order, and the words themselves, fitted by `benchmarks/wishes.py`. The kinds are the same in all
languages, so each language learns from the others.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, pairwise

from memdir.frozen import dataclass, once
from memdir.language import read_section
from memdir.language.statements import load_model
from memdir.text import CJK

_CHARS, _TOKENS, _CLAUSES = 1_000, 120, 3  # of a sentence; clauses that are read together
_OTHER = rf"(?P<word>\w[\w./'-]*|[{CJK}])|(?P<stop>[,:;–—()（），、：；…!?！？]|\s-\s|\.(?=\s|$))"
_NEUTRAL = frozenset(("word", "words", "stop", "join"))


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    end: int
    kind: str
    text: str


@once
def _compile_scanner(code: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return the pattern of a language's words, longest first, and the kind of each. `*` stands for any ending."""
    kinds: dict[str, str] = {}
    for kind, phrases in read_section(code, "wish").items():
        for phrase in phrases.lower().split():
            kinds.setdefault(phrase.replace("_", " "), kind)
    is_wide = code in ("zh", "ja")
    patterns = []
    for phrase in sorted(kinds, key=len, reverse=True):
        pattern = re.escape(phrase).replace(r"\*", r"[\w'-]*").replace(r"\ ", r"\s+")
        patterns.append(pattern if is_wide or phrase[-1] in "*'" else rf"{pattern}(?!\w)")
    start, other = ("", _OTHER.replace(r"\w[\w./'-]*", "[A-Za-z0-9_./-]+")) if is_wide else (r"(?<!\w)", _OTHER)
    return re.compile(rf"{start}(?P<known>{'|'.join(patterns)})|{other}", re.IGNORECASE), kinds


def _find_kind(text: str, kinds: dict[str, str]) -> str:
    word = " ".join(text.lower().split())
    stems = (f"{word[:end]}*" for end in range(len(word), 0, -1))
    return kinds.get(word) or next(kinds[stem] for stem in stems if stem in kinds)


def _split_tokens(sentence: str, code: str) -> list[_Token]:
    pattern, kinds = _compile_scanner(code)
    tokens = []
    for match in pattern.finditer(sentence[:_CHARS]):
        kind = match.lastgroup or ""
        kind = _find_kind(match[0], kinds) if kind == "known" else kind
        tokens.append(_Token(match.start(), match.end(), "?" if match[0] in "?？" else kind, match[0].lower()))
    return tokens[:_TOKENS]


def list_readings(sentence: str, code: str) -> Iterator[tuple[int, int, set[str]]]:
    """Yield the start, end and features of each clause of a sentence, and of two and three in a row."""
    tokens = _split_tokens(sentence.replace("’", "'"), code)
    stops = [number for number, token in enumerate(tokens) if token.kind in ("stop", "join", "?")]
    edges = [-1, *stops, len(tokens)]
    for first, last in combinations(range(len(edges)), 2):
        clause = tokens[edges[first] + 1 : edges[last]]
        if last - first <= _CLAUSES and clause and edges[first + 1] - edges[first] > 1:
            is_asked = edges[last] < len(tokens) and tokens[edges[last]].kind == "?"
            yield clause[0].start, clause[-1].end, _list_features(clause, is_asked)


def _list_features(tokens: Sequence[_Token], is_asked: bool) -> set[str]:
    kinds = ["^"]
    for token in tokens:
        if token.kind == "word" and kinds[-1] in ("word", "words"):
            kinds[-1] = "words"
        else:
            kinds.append(token.kind)
    kinds.append("?" if is_asked else "$")
    bones = [kind for kind in kinds if kind not in _NEUTRAL]
    texts = ["^", *(token.text for token in tokens), "$"]
    features = {*kinds, f"#{min(6, len(tokens) // 4)}", *(f'"{text}' for text in texts)}
    features |= {f"{one} {two}" for one, two in pairwise(kinds)} | {f'"{one} {two}' for one, two in pairwise(texts)}
    features |= {f"{one} {two} {three}" for one, two, three in zip(kinds, kinds[1:], kinds[2:], strict=False)}
    features |= {f"{one}>{two}" for one, two in pairwise(bones)}
    features |= {f"{one}>{two}>{three}" for one, two, three in zip(bones, bones[1:], bones[2:], strict=False)}
    return features | {f"{one}&{two}" for one, two in combinations(sorted({*bones[1:-1]}), 2)}


@lru_cache(maxsize=4096)
def find_wish(sentence: str, code: str) -> tuple[int, int] | None:
    """Return the span of the clause of a sentence that asks not to remember something, or None."""
    model = load_model("wishes", "wish")
    scored = ((model.score(features), start, end) for start, end, features in list_readings(sentence, code))
    score, start, end = max(scored, default=(model.level, 0, 0))
    return (start, end) if score > model.level else None
