"""Statements of which at most one can hold: the same words about the same thing, and one value that differs.

A statement is the clause a sentence begins with; a value is what stands behind its verb: a date, a number, a version, a
name, or whether it is so at all. Only the present counts, and only what a thing can have one of: a person may speak two
languages. A value that is merely less exact, or that the other memory also names, is no contradiction. Precision
first: what is not clearly one is left alone, and even what is found is only proposed.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from memdir import frontmatter
from memdir.frozen import dataclass
from memdir.records import Edit, Forget, Rewrite
from memdir.store.payloads import Quote
from memdir.store.plan import digest_of, encode
from memdir.text import one_line
from memdir.tidy.facts import Fact, find_words
from memdir.tidy.pieces import Piece, make_pieces
from memdir.tidy.quantities import covers
from memdir.tidy.records import Proposal, ProposalKind
from memdir.tidy.shape import cut_clauses
from memdir.tidy.tokens import Sort, Token, is_past_tense
from memdir.tidy.words import AUXILIARY, BE, OPPOSITES, SINGLE, VERBS, WEEKDAYS

_CROWD = 6  # so many values of one frame are a list, not a contradiction
_DENIALS = frozenset("not never no".split())
# Words that tell that a statement holds for a time, for a case, or beside others.
_HEDGES = frozenset(
    "until since before after also or if unless when whenever while once either both sometimes formerly previously "
    "used-to longer no-longer first another other additionally plus except instead".split()
)
_REASONS = frozenset(["because", "because-of", "for", "with", "and", "so", "which", "not"])
_TIME = re.compile(r"\d{1,2}:\d\d(?::\d\d)?")
_VERSION = re.compile(r"v?\d+(?:\.\d+)*")
_MODAL = frozenset("can must should may".split())


@dataclass(frozen=True, slots=True)
class Claim:
    """One value of one statement: `frame` is the statement with the value left open."""

    fact: Fact
    sentence: str
    frame: tuple[object, ...]
    sort: str
    value: str


def find_contradictions(facts: Iterable[Fact], *, keep: frozenset[str] = frozenset()) -> tuple[Proposal, ...]:
    """Proposals to let the newer of two statements stand; the older one, pinned, is left alone."""
    buckets: defaultdict[tuple[object, ...], list[Claim]] = defaultdict(list)
    for fact in facts:
        for claim in find_claims(fact):
            buckets[*fact.place, claim.sort, claim.frame].append(claim)
    found: dict[tuple[str, str], Proposal] = {}
    for claims in buckets.values():
        if len({claim.value for claim in claims}) > _CROWD:
            continue
        newest, *others = sorted(claims, key=_order, reverse=True)
        for older in others:
            if are_contrary(newest, older) and older.fact.name not in keep:
                found.setdefault((newest.fact.name, older.fact.name), _propose(newest, older))
    return tuple(found[names] for names in sorted(found))


def are_contrary(one: Claim, other: Claim) -> bool:
    if one.value == other.value or one.fact.name == other.fact.name:
        return False
    if one.sort == "truth":
        return _are_about_one(one.fact, other.fact)
    if covers(one.value, other.value) or covers(other.value, one.value):
        return False
    said, told = find_words(one.fact.memory.body), find_words(other.fact.memory.body)
    values = frozenset(value.lower() for value in (one.value, other.value))
    return one.value not in told and other.value not in said and _are_about_one(one.fact, other.fact, values)


def find_claims(fact: Fact) -> Iterator[Claim]:
    for sentence in cut_sentences(fact.tokens):
        core, case = _find_core(sentence)
        verb = _find_verb(core)
        if verb is None or is_past_tense(sentence) or not _HEDGES.isdisjoint(at.key for at in core):
            continue
        text = fact.main[sentence[0].start : sentence[-1].end]
        statement, denied = _deny(core)
        yield Claim(fact, text, (statement, case), "truth", denied)
        for at in range(verb + 1, len(core)):
            if sort := _find_sort(core, at, verb):
                frame = make_pieces([*core[:at], _leave_open(core[at], sort), *core[at + 1 :]])
                yield Claim(fact, text, (frame, case), sort, core[at].key)


def _order(claim: Claim) -> tuple[object, ...]:
    return claim.fact.memory.header.modified, claim.fact.name


def _are_about_one(one: Fact, other: Fact, values: frozenset[str] = frozenset()) -> bool:
    """Titles that each name something the other memory never does speak of two things; the values are none of them."""
    first, second = find_words(one.memory.header.title), find_words(other.memory.header.title)
    return not (first - other.words - values and second - one.words - values)


def cut_sentences(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.sort is Sort.BREAK and token.key in ".;":
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _find_core(sentence: Sequence[Token]) -> tuple[list[Token], tuple[object, ...]]:
    """The clause the sentence begins with, and the cases to which the following ones narrow it."""
    clauses = cut_clauses(sentence)
    if not clauses or clauses[0][0]:
        return [], ()
    cases = [
        (label, make_pieces(clause))
        for label, clause in clauses[1:]
        if label not in ("", "because", "so") or (not label and clause[0].key not in _REASONS and _leads(clause))
    ]
    return clauses[0][1], tuple(cases)


def _leads(clause: Sequence[Token]) -> bool:
    """Whether a clause begins as one that says where, when or in which case."""
    return clause[0].word in ("in", "on", "at", "during", "under", "from", "to", "by", "only", "but", "then", "inside")


def _find_verb(core: Sequence[Token]) -> int | None:
    for at, token in enumerate(core):
        if token.word in AUXILIARY or token.key in _MODAL:
            return at
        if at and token.sort is Sort.WORD and token.key in VERBS and _is_finite(core, at):
            return at
    first = next((at for at, token in enumerate(core) if token.key not in (*_DENIALS, "always")), None)
    return first if first is not None and core[first].key in VERBS else None


def _is_finite(core: Sequence[Token], at: int) -> bool:
    """Of the third person, or in the plural behind a noun in the plural."""
    before = core[at - 1]
    if before.sort is Sort.EMPTY or before.word in ("to", "of", "for", "in", "on", "with"):
        return False
    return core[at].word.endswith("s") or before.word.endswith("s") or before.key in ("i", "we", "you", "they")


def _find_sort(core: Sequence[Token], at: int, verb: int) -> str:
    """What sort of value a token is, if a thing has just one of it."""
    token = core[at]
    if token.sort is Sort.DATE:
        return "date"
    if token.word.removesuffix("s") in WEEKDAYS:
        return "weekday"
    if token.sort is Sort.EXACT and _TIME.fullmatch(token.key):
        return "time"
    if token.sort is Sort.NUMBER or (token.sort is Sort.EXACT and _VERSION.fullmatch(token.key)):
        return "number"
    if token.sort in (Sort.NAME, Sort.EXACT) and _has_one(core, at, verb):
        return "name"
    owned = token.sort is Sort.WORD and at + 1 < len(core) and core[at + 1].key in ("team", "group", "department")
    return "owner" if owned and any(before.word == "by" for before in core[verb:at]) else ""


def _has_one(core: Sequence[Token], at: int, verb: int) -> bool:
    """Whether a thing has one of what the verb says: it is, runs on, is tracked in; or an order to use it for it."""
    between = [token for token in core[verb : at + 1] if token.sort is Sort.WORD]
    verbs = [token.key for token in between if token.key in VERBS]
    if core[verb].word in BE and not verbs:
        return True
    if verb == 0 and core[0].key == "use":
        return at + 1 < len(core) and core[at + 1].word in ("to", "for")
    return any(key in SINGLE for key in verbs) or core[verb].key in SINGLE


def _leave_open(token: Token, sort: str) -> Token:
    return Token(Sort.WORD, f"?{sort}", "?", token.start, token.end)


def _deny(core: Sequence[Token]) -> tuple[tuple[Piece, ...], str]:
    """The statement without its negation, and whether it had one."""
    kept: list[Token] = []
    denied = False
    for token in core:
        if token.sort is Sort.WORD and token.key in _DENIALS:
            denied = not denied
        elif token.sort is Sort.WORD and token.key in OPPOSITES:
            denied = not denied
            kept.append(Token(token.sort, OPPOSITES[token.key], token.word, token.start, token.end))
        elif token.key != "always":
            kept.append(token)
    return make_pieces(kept), "no" if denied else "yes"


def _propose(newer: Claim, older: Claim) -> Proposal:
    names = (older.fact.name, newer.fact.name)
    why = f"{older.fact.name} and {newer.fact.name} cannot both hold; {newer.fact.name} is newer"
    evidence = tuple(Quote(at.sentence, f"{at.fact.name}.md") for at in (newer, older))
    key = digest_of(encode(f"{newer.sentence}\n{older.sentence}"))[:32]
    title = f"Contradiction: {older.fact.memory.header.title}"
    return Proposal(ProposalKind.CONTRADICTION, names, title, why, (_make_edit(newer, older),), evidence, key)


def _make_edit(newer: Claim, older: Claim) -> Edit:
    """The older memory goes if it says no more than this, else its sentence gives way."""
    memory = older.fact.memory
    if not older.fact.parts and not older.fact.main.replace(older.sentence, "", 1).strip(" .;\n"):
        return Forget(memory.header.name, memory.digest)
    body = memory.body.replace(older.sentence, newer.sentence, 1)
    text = frontmatter.replace_body(memory.text, body)
    told = memory.header.description.replace(older.sentence, newer.sentence)
    if told != memory.header.description:
        text = frontmatter.set_fields(text, {"description": one_line(told)})
    return Rewrite(memory.header.name, text, memory.digest)
