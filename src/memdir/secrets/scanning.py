"""The rules over every reading of a text, and what is left of their hits. Pure.

Shapes of tokens are looked for in all readings; what depends on the words around it only where these stand as written.
Of two hits on the same place the one of the more particular rule is kept.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from memdir.secrets.contexts import find_placed
from memdir.secrets.folding import (
    Reading,
    decode_base64,
    decode_percent,
    find_base64,
    find_dense,
    fold_text,
    join_pieces,
)
from memdir.secrets.formats import FORMATS, JWT
from memdir.secrets.likeness import find_mask, is_published, measure_bits, measure_mixing
from memdir.secrets.prose import find_told
from memdir.secrets.records import Hit, Rule

_LEFT = r"(?<![A-Za-z0-9_])(?:"
_RIGHT = r")(?![A-Za-z0-9_-])"
# Those that may have blanks in them need the whole text; all others show in its long runs.
_WIDE = tuple(rule for rule in FORMATS if rule.inside)
_DENSE = tuple(rule for rule in FORMATS if not rule.inside)
# What a match in joined text must mix at least: words that happen to stand together do not.
_JOINED_MIXING = 0.25


def find_hits(text: str, extra: Sequence[Rule] = (), *, tokens_only: bool = False) -> Iterator[Hit]:
    """Every hit, placed in the text as it was given; they may overlap, the more particular ones come first."""
    folded = fold_text(text)
    yield from _place(folded, _find_plain(folded.text, extra, tokens_only=tokens_only))
    joined = join_pieces(folded.text)
    if joined is not None:
        yield from _place(folded, _place(joined, _find_joined(joined)))
    decoded = decode_percent(folded.text)
    if decoded is not None:
        again = fold_text(decoded.text)
        hits = _find_plain(again.text, extra, tokens_only=tokens_only)
        yield from _place(folded, _place(decoded, _place(again, hits)))
    for start, end, said in find_base64(folded.text):
        inner = next(_find_plain(fold_text(said).text, extra, tokens_only=tokens_only), None)
        if inner is not None:
            yield from _place(folded, [Hit(inner.rule, f"{inner.what}, in base64", start, end)])


def keep_apart(hits: Iterable[Hit]) -> list[Hit]:
    """Of hits that overlap the first; the rest in the order of the text."""
    ordered = sorted(enumerate(hits), key=lambda at: (at[1].start, at[0]))
    apart: list[tuple[int, Hit]] = []
    for rank, hit in ordered:
        while apart and apart[-1][1].end > hit.start and apart[-1][0] > rank:
            apart.pop()
        if not apart or apart[-1][1].end <= hit.start:
            apart.append((rank, hit))
    return [hit for _, hit in apart]


def _find_plain(text: str, extra: Sequence[Rule], *, tokens_only: bool) -> Iterator[Hit]:
    low = _lower(text)
    yield from _match(text, low, extra)
    yield from _match(text, low, _WIDE)
    dense = find_dense(text)
    yield from _place(dense, _match(dense.text, _lower(dense.text), _DENSE))
    if not tokens_only:
        yield from find_placed(text, low)
        yield from find_told(text, low, dense)


def _match(text: str, low: str, rules: Sequence[Rule]) -> Iterator[Hit]:
    for rule in rules:
        if not rule.hints or any(hint in low for hint in rule.hints):
            for match in _compile(rule, joined=False).finditer(text):
                yield from _judge(rule, match)


def _find_joined(reading: Reading) -> Iterator[Hit]:
    low = _lower(reading.text)
    for rule in _DENSE:
        if any(hint in low for hint in rule.hints):
            for match in _compile(rule, joined=True).finditer(reading.text):
                for hit in _judge(rule, match):
                    if _is_joined(reading, match.start(), hit):
                        yield Hit(hit.rule, f"{hit.what}, in pieces", hit.start, hit.end)


def _is_joined(reading: Reading, start: int, hit: Hit) -> bool:
    """Whether a match goes over a joint, begins and ends where a piece does, and is no row of words."""
    text, end = reading.text, hit.end
    if not reading.has_joint(start, end) or not (
        _is_edge(text[start - 1 : start]) or reading.has_joint(start - 1, start + 1)
    ):
        return False
    if not (_is_edge(text[end : end + 1]) or reading.has_joint(end - 1, end + 1)):
        return False
    value = text[hit.start : end]
    if value.isupper():  # in base32 digits are few
        return any(at.isdigit() for at in value)
    return measure_mixing(value[len(value) // 4 :]) >= _JOINED_MIXING


def _is_edge(at: str) -> bool:
    return not (at.isalnum() or at == "_")


def _lower(text: str) -> str:
    low = text.lower()
    if len(low) != len(text):  # a few letters grow in lower case; places must stay the same
        low = "".join(at if len(at.lower()) != 1 else at.lower() for at in text)
    return low


def _judge(rule: Rule, match: re.Match[str]) -> Iterator[Hit]:
    group = "value" if match.re.groupindex.get("value") and match["value"] else 0
    value = match[group]
    if not rule.inside and (find_mask(value) or measure_bits(value) < rule.bits):
        return
    if rule.id == "google-api-key" and is_published(value):
        return
    if rule is JWT and not _has_header(value):
        return
    yield Hit(rule.id, rule.what, *match.span(group))


def _has_header(value: str) -> bool:
    said = decode_base64(value.partition(".")[0])
    return said.startswith("{") and said.rstrip().endswith("}") and ('"alg"' in said or '"typ"' in said)


def _place(reading: Reading, hits: Iterable[Hit]) -> Iterator[Hit]:
    for hit in hits:
        yield Hit(hit.rule, hit.what, *reading.find_place(hit.start, hit.end))


@cache
def _compile(rule: Rule, *, joined: bool) -> re.Pattern[str]:
    return re.compile(rule.pattern if rule.inside or joined else f"{_LEFT}{rule.pattern}{_RIGHT}")
