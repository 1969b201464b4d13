"""Clauses as phrases: which word stands under which preposition, who does it and to whom. A passive is turned round.

Pieces are equal when they say the same of the same; how clauses follow one another is the business of `shape`.
"""

from collections.abc import Iterator, Sequence

from memdir.frozen import dataclass
from memdir.tidy.tokens import Sort, Token
from memdir.tidy.words import (
    AUXILIARY,
    BE,
    BETWEEN,
    DETERMINERS,
    MEANS,
    PERIODS,
    PREPOSITIONS,
    VERBS,
    WEEKDAYS,
    find_preposition,
    is_participle,
    is_past,
)

Keys = tuple[str, ...]
# Phrases in their order, each by its preposition; the empty one is for subject, verb and object.
Piece = tuple[tuple[str, Keys], ...]

# Where phrases were set off by a comma: on their own, or said of what stands before.
APART = Token(Sort.BREAK, ",", ",", -1, -1)
APPOSED = Token(Sort.BREAK, "=", ",", -1, -1)


@dataclass(frozen=True, slots=True)
class _Phrase:
    marker: str
    tokens: list[Token]


def make_pieces(tokens: Sequence[Token]) -> tuple[Piece, ...]:
    """What a clause says, cut at each bare "and"."""
    return tuple(piece for part in _split_and(tokens) if (piece := _make_piece(part)))


def make_key(token: Token) -> str:
    return token.key if token.sort is not Sort.EXACT else f"`{token.key}`"


def is_floating(part: Sequence[Token]) -> bool:
    return all(phrase.marker for phrase in _cut_phrases(part))


def _split_and(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for at, token in enumerate(tokens):
        if token.sort is Sort.WORD and token.key in ("and", "or") and not _joins_nouns(tokens, at):
            yield part
            part = [token] if token.key == "or" else []
        else:
            part.append(token)
    yield part


def _joins_nouns(tokens: Sequence[Token], at: int) -> bool:
    """`colours and spacing`: the word behind ends its phrase, and is no verb."""
    if at == 0 or at + 1 >= len(tokens) or tokens[at - 1].sort not in (Sort.WORD, Sort.NAME):
        return False
    after, then = tokens[at + 1], tokens[at + 2] if at + 2 < len(tokens) else None
    ends = then is None or then.sort in (Sort.EMPTY, Sort.BREAK) or then.word in PREPOSITIONS
    return ends and after.sort is Sort.WORD and after.key not in VERBS and after.word not in PREPOSITIONS


def _make_piece(tokens: Sequence[Token]) -> Piece:
    phrases = _cut_phrases(tokens)
    lead = next((at for at, phrase in enumerate(phrases) if not phrase.marker), 0)
    phrases = [*phrases[lead:], *phrases[:lead]]  # what stands in front could as well stand behind
    verb = _find_passive(tokens)
    if verb is not None:
        phrases = _turn(phrases, *verb)
    return tuple((phrase.marker, tuple(map(make_key, phrase.tokens))) for phrase in phrases)


def _turn(phrases: list[_Phrase], auxiliary: Token, verb: Token) -> list[_Phrase]:
    """A passive piece as it reads when it is active: who does it, the verb, to whom, and the rest in its order."""
    place = next((at for at, phrase in enumerate(phrases) if verb in phrase.tokens), None)
    if place is None or phrases[place].marker:
        return phrases
    held = phrases[place].tokens
    adverbs = [at for at in held if auxiliary.start < at.start < verb.start]
    subject, after = [at for at in held if at.start < auxiliary.start], [at for at in held if at.start > verb.start]
    doer = next((at for at in phrases[place + 1 :] if at.marker == "by" and not _is_means(at)), None)
    before = [*phrases[:place], *([_Phrase("", subject)] if subject else [])]
    first = before[0].tokens if before and not before[0].marker else []
    core = _Phrase("", [*(doer.tokens if doer else []), *adverbs, verb, *first])
    others = before[1:] if first else before
    if after and not others:
        core.tokens.extend(after)
    elif after:
        others = [*others, _Phrase("", after)]
    return [core, *others, *(at for at in phrases[place + 1 :] if at is not doer)]


def _is_means(phrase: _Phrase) -> bool:
    return len(phrase.tokens) == 1 and phrase.tokens[0].key in MEANS


def _find_passive(tokens: Sequence[Token]) -> tuple[Token, Token] | None:
    """The form of "be" and the participle after it, if a piece has them."""
    armed: Token | None = None
    for token in tokens:
        if token.sort is Sort.EMPTY and token.word in BE:
            armed = token
        elif armed is not None and token.sort is Sort.WORD and is_participle(token.word):
            return armed, token
        elif token.word not in BETWEEN:
            armed = None
    return None


def _cut_phrases(tokens: Sequence[Token]) -> list[_Phrase]:
    """The tokens by the preposition they stand under: up to the next one, or to where a new phrase begins."""
    phrases = [_Phrase("", [])]
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        last = phrases[-1]
        if token is APART or token is APPOSED:
            phrases.append(_Phrase("" if token is APART else "=", []))
        elif _is_marker(token, following):
            measured = following is not None and following.sort in (Sort.DATE, Sort.NUMBER)
            phrases.append(_Phrase(_name_marker(token) + ("#" if measured else ""), []))
        elif last.marker and last.tokens and (_ends_phrase(token) or _ends_front(phrases, token)):
            phrases.append(_Phrase("", [] if token.sort is Sort.EMPTY else [token]))
        elif token.sort is not Sort.EMPTY:
            last.tokens.append(token)
    return [phrase for phrase in phrases if phrase.tokens]


def _ends_front(phrases: Sequence[_Phrase], token: Token) -> bool:
    """After a date, and after a phrase in front when a verb follows: "for reports write SQL"."""
    fronted = all(phrase.marker or not phrase.tokens for phrase in phrases)
    return phrases[-1].tokens[-1].sort is Sort.DATE or (fronted and token.word == token.key and token.key in VERBS)


def _ends_phrase(token: Token) -> bool:
    return token.word in DETERMINERS or token.word in AUXILIARY or _is_finite(token)


def _is_finite(token: Token) -> bool:
    """A verb of the third person or of the past ends the phrase before it: "the freeze for release 9 begins"."""
    return token.sort is Sort.WORD and token.key in VERBS and (token.word.endswith("s") or is_past(token.word))


def _is_marker(token: Token, following: Token | None) -> bool:
    if token.sort is Sort.NAME or following is None:
        return False
    if token.key == "each":
        counted = following.sort is Sort.NUMBER and following.word != "one"
        return counted or following.key in PERIODS or following.word in WEEKDAYS
    return token.word in PREPOSITIONS or token.word == "since"


def _name_marker(token: Token) -> str:
    return "every" if token.key == "each" else find_preposition(token.word)
