"""A request meets what memory already holds: it says nothing new, adds to a memory, corrects it, or is new.

Sentences are compared by subject, values and negation, as far as words tell; no synonyms are known. A sentence is only put
in the place of one that it holds in full, or that the person plainly corrects ("no, …", "instead of"); two that disagree
otherwise are both kept, and `find_rival` names the older one. One request forgets one memory, if no other could be meant.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from functools import cache

from memdir.errors import NotFoundError
from memdir.extraction.find import FORGET, MemoryRequest
from memdir.format import frontmatter
from memdir.format.document import (
    MemoryDocument,
    PartKind,
    add_to_fact,
    drop_sentences,
    parse_document,
    replace_sentence,
)
from memdir.format.frontmatter import make_slug
from memdir.frozen import dataclass
from memdir.language import compile_any, load_words
from memdir.language.dates import load_date_languages
from memdir.language.requests import compile_pattern, has, load_request_languages
from memdir.models.staged import Staging
from memdir.recall.terms import STOP, make_term, parse_terms
from memdir.records import TEAM_FOLDER, Draft, Kind
from memdir.store.plan import is_team
from memdir.text import fold

_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-Q[1-4]\b|\bQ[1-4] \d{4}\b")
_NUMBER = re.compile(r"(?<![\w.-])v?\d+(?:[.,:]\d+)*(?![\w-])")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w*")  # "Go" and "Make" inside a sentence are names, however light the word
# Words as written, signs included ("us-east-1", "C#", an emoji); of runs without spaces each character.
_WORDS = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]|[^\s\u3040-\u9fff\uac00-\ud7af，。、；：！？]+")
_CLAUSE = re.compile(r"(?<=\w{4})[,;，；、:：—–]")
_ACTIONS = {"create": "created", "update": "updated", "unchanged": "unchanged"}
_SAME, _ALIKE, _COVER = 0.8, 0.6, 0.6
_READ = 16  # candidates whose text is read
_ALL = 300  # and at most so many when something is to be forgotten and no header names it
_STEM = 5  # letters that "allergy" and "allergic" share


@dataclass(frozen=True, slots=True)
class Placement:
    """What a request came to: create, update, forget, unchanged or unclear; the memory, if it is known."""

    name: str
    action: str
    request: MemoryRequest | None
    quote: str = ""


class SentenceRelation(IntEnum):
    """What a new sentence is to an old one, weakest first."""

    OTHER = 0
    RIVAL = 1  # they differ in one word
    CONTRADICTS = 2  # they differ in a value, or one is negated
    EXTENDS = 3  # it holds the old one in full
    SAME = 4  # it says nothing new


@dataclass(frozen=True, slots=True)
class SentenceSense:
    """The terms say what it is about; `words` are all of them in order, those of letters by their stem."""

    terms: frozenset[str]
    values: frozenset[str]
    negated: bool
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """A memory as the run sees it: its fields, and the sentences of its rule or fact."""

    name: str
    text: str
    title: str
    description: str
    sentences: tuple[str, ...]

    @property
    def whole(self) -> str:
        return f"{self.name.replace('-', ' ')} {self.title} {self.description} {' '.join(self.sentences)}"


def place(request: MemoryRequest, staging: Staging, *, team: bool = False) -> tuple[Placement, ...]:
    """Stage a request; returns what it came to. With `team` among what the team shares, and nowhere else."""
    name, action = _forget(request, staging) if request.action == FORGET else _save(request, staging, team=team)
    return (Placement(name, action, request, request.quote),)


def is_said(request: MemoryRequest, text: str) -> bool:
    """Whether a memory's text says what the request wants, perhaps in other words; for a forget, whether it is meant."""
    known = _parse("", text)
    if request.action == FORGET:
        return _covers(_find_terms(request.target), _find_terms(known.whole))
    whole, only = _parse_sense(f"{known.whole} {text}"), load_words("only")
    # A reason may be left out, so the first clause counts.
    wanted = [_parse_sense(_CLAUSE.split(sentence)[0]) for sentence in MemoryDocument(request.body).list_sentences()]
    said = [_measure(at.terms, whole.terms) >= _COVER and at.values - only <= whole.values for at in wanted if at.terms]
    return bool(said) and all(said)


def find_rival(text: str, name: str, staging: Staging) -> tuple[str, str] | None:
    """The memory, and its sentence, that says otherwise than the first sentence of a text; `name` is left out."""
    sense = _parse_sense(next(iter(MemoryDocument(text).list_sentences()), text))
    for known in (at for at in _find_candidates(text, staging) if at.name != name):
        relation, old = _compare(sense, known)
        is_rival = relation is SentenceRelation.RIVAL and len(_parse_sense(old).terms) > 1
        if is_rival or relation is SentenceRelation.CONTRADICTS:
            return known.name, old
    return None


def _save(request: MemoryRequest, staging: Staging, *, team: bool) -> tuple[str, str]:
    new = MemoryDocument(request.body).list_sentences()
    sense = _parse_sense(new[0] if new else request.description)
    found = [
        (*_compare(sense, at), at)
        for at in _find_candidates(f"{request.title} {request.body}", staging)
        # What others share is no place for what one person said to their own agent, unless it says so already.
        if is_team(at.name) is team or (not team and not _find_fresh(new, at))
    ]
    relation, old, known = max(found, key=lambda at: at[0], default=(SentenceRelation.OTHER, "", None))
    fresh = _find_fresh(new, known) if known else []
    if known and not fresh:
        return known.name, "unchanged"
    replaces = relation is SentenceRelation.EXTENDS
    if relation in (SentenceRelation.RIVAL, SentenceRelation.CONTRADICTS):
        # The person says that what was said before is wrong, or has another value from now on.
        signs = [(at.corrects, at.renews) for at in load_request_languages()]
        replaces = any(has(at, request.quote) for pair in signs for at in pair[: relation.value])
    if known is None or not (replaces or relation is SentenceRelation.SAME):
        return _create(request, staging, f"{TEAM_FOLDER}/" if team else ""), "create"
    staging.write(known.name, _merge(request, known, old if replaces else "", fresh))
    return known.name, "update"


def _merge(request: MemoryRequest, known: _Known, old: str, fresh: Sequence[str]) -> str:
    """The memory with the new sentences: the first in the place of the old one, if there is one, the rest after it."""
    added, document = " ".join(fresh) if len(fresh) > 1 else request.body.strip(), parse_document(known.text)
    text = replace_sentence(document, old, added) if old else add_to_fact(document, added)
    changes: dict[str, str | None] = {}
    sense, title = _parse_sense(added), _parse_sense(known.title)
    if len(known.sentences) <= 1 or _relate(sense, _parse_sense(known.description)):
        changes["description"] = request.description
    # A title that named the old rule may name the opposite of the new one.
    if old and (not title.terms | title.values <= sense.terms | sense.values or title.negated != sense.negated):
        changes["name"] = request.title
    return frontmatter.set_fields(text, changes)


def _create(request: MemoryRequest, staging: Staging, folder: str) -> str:
    slug = make_slug(request.title)
    used = {fold(path.removesuffix(".md")) for path in staging.list_files(folder.rstrip("/"))}
    numbered = (f"{slug[:90]}-{number}" for number in range(2, len(used) + 3))
    leaf = slug if fold(slug) not in used else next(name for name in numbered if fold(name) not in used)
    kind = request.kind or Kind.PROJECT
    return staging.save(Draft(kind, request.title, request.description, request.body, folder + leaf))


def _find_candidates(text: str, staging: Staging) -> list[_Known]:
    """The memories whose headers share most words with a text, and those of this run."""
    terms, headers = _find_terms(text), staging.scan()
    texts = {at.name: f"{at.name.replace('-', ' ')} {at.title} {at.description}" for at in headers}
    scores = {name: _measure(terms, _find_terms(told)) for name, told in texts.items()}
    return _read(staging, [at for at in sorted(scores, key=lambda at: -scores[at])[:_READ] if scores[at]])


def _compare(new: SentenceSense, known: _Known) -> tuple[SentenceRelation, str]:
    """The sentence nearest to the new one."""
    pairs = [(_relate(new, _parse_sense(old)), old) for old in known.sentences]
    return max(pairs, key=lambda at: at[0], default=(SentenceRelation.OTHER, ""))


def _find_fresh(new: Sequence[str], known: _Known) -> list[str]:
    """The sentences that say something which none of a memory's says, its Why and How included."""
    old = [_parse_sense(at) for at in parse_document(known.text).list_sentences()]
    return [at for at in new if not any(_relate(_parse_sense(at), one) is SentenceRelation.SAME for one in old)]


def _forget(request: MemoryRequest, staging: Staging) -> tuple[str, str]:
    target, values = _find_terms(request.target), _parse_sense(request.target).values
    fitting = [
        at
        for at in _find_candidates(request.target, staging) or _read(staging, [at.name for at in staging.scan()[:_ALL]])
        if _covers(target, _find_terms(at.whole)) and values <= _parse_sense(at.whole).values
    ]
    scores = [_measure(target, _find_terms(f"{at.title} {at.description}")) for at in fitting]
    if scores.count(max(scores, default=0)) != 1:
        return "", "unclear"
    meant = fitting[scores.index(max(scores))]
    left = _find_left(target, meant)
    if not left:
        staging.forget(meant.name)
        return meant.name, "forget"
    text = drop_sentences(parse_document(meant.text), set(meant.sentences) - set(left))
    staging.write(meant.name, frontmatter.set_fields(text, {"description": " ".join(left).rstrip(".。")[:140]}))
    return meant.name, "update"


def _find_left(target: frozenset[str], known: _Known) -> list[str]:
    """The sentences that stay, if the memory is about more than what is to be forgotten; else none."""
    gone = [at for at in known.sentences if _covers(target, _find_terms(at))]
    left = [at for at in known.sentences if at not in gone]
    own = _find_terms(" ".join(left)) - _find_terms(" ".join(gone)) - target
    return left if gone and own & _find_terms(f"{known.title} {known.description}") else []


def _read(staging: Staging, names: Sequence[str]) -> list[_Known]:
    """These memories, and those that this run has written."""
    new = [at.name for at in staging.staged if at.before is None and at.text is not None]
    found = []
    for name in dict.fromkeys([*names, *new]):
        with suppress(NotFoundError):  # forgotten in this run, or by somebody else meanwhile
            found.append(_parse(name, staging.read(name)))
    return found


def _parse(name: str, text: str) -> _Known:
    fields = frontmatter.parse_fields(text)
    return _Known(name, text, fields.title, fields.description, parse_document(text).list_sentences(PartKind.FACT))


def _find_terms(text: str) -> frozenset[str]:
    """The words that say what a text is about."""
    light = load_words("light")
    found = [term for term in parse_terms(text) if term not in light and not term.isdigit()]
    found += [name.casefold() for name in _NAME.findall(text)]
    if not text.isascii():
        # of a CJK run the pairs count; a single character says too little
        found = [term for term in found if term.isascii() or len(term) > 1 or not "\u3040" <= term <= "\u9fff"]
    return frozenset(found)


def _measure(target: frozenset[str], terms: frozenset[str]) -> float:
    """Which part of the target is among the terms; a word of the same stem counts."""
    stems = {term[:_STEM] for term in terms if len(term) > _STEM}
    return sum(at in terms or (len(at) > _STEM and at[:_STEM] in stems) for at in target) / len(target) if target else 0


def _covers(target: frozenset[str], terms: frozenset[str]) -> bool:
    """Whether a text is about a target; of one with few words, every one must be there."""
    return bool(target) and _measure(target, terms) >= (1 if len(target) <= 2 else _COVER)


def _parse_sense(sentence: str) -> SentenceSense:
    """Values first: what they say must not be counted as subject too."""
    values, rest = set[str](), compile_any("reply").sub("", sentence)
    *patterns, negations = _compile_values()
    for pattern in patterns:
        values |= {found.casefold().rstrip("s") for found in pattern.findall(rest)}
        rest = pattern.sub(" ", rest)
    negated = negations.search(re.split(r"[,;，；]", rest.strip())[0]) is not None
    found = (at.strip(".,;:!?…\"'()[]{}“”‘’„«»`*").casefold() for at in _WORDS.findall(sentence))
    words = tuple(make_term(at) if at.isalpha() else at for at in found if at)
    return SentenceSense(_find_terms(rest), frozenset(values), negated, words)


def _holds(one: SentenceSense, other: SentenceSense) -> bool:
    """Whether the words of a sentence that name something stand in another, in the same order."""
    free = STOP | load_words("only")  # "only on Tuesdays" is "on Tuesdays only"
    left = iter(other.words)
    return all(at in left for at in one.words if at not in free)


def _relate(new: SentenceSense, old: SentenceSense) -> SentenceRelation:
    """Whether a new sentence says what an old one says, more, something else about the same, or something else."""
    terms, values = (new.terms - old.terms, old.terms - new.terms), (new.values - old.values, old.values - new.values)
    same_sign = new.negated == old.negated
    if not new.terms & old.terms:
        return SentenceRelation.OTHER
    # "the flag is on" has no other names in it than "the flag is off", and yet it is not known.
    if same_sign and not terms[0] and not values[0] and set(new.words) <= set(old.words) and _holds(new, old):
        return SentenceRelation.SAME
    if same_sign and not terms[1] and not values[1] and _holds(old, new):
        return SentenceRelation.EXTENDS if len(old.terms | old.values) > 1 else SentenceRelation.RIVAL
    if not same_sign:
        return SentenceRelation.OTHER if any((*terms, *values)) else SentenceRelation.CONTRADICTS
    if values[0] and values[1]:
        one = max(map(len, values)) == 1 and max(map(len, terms)) < 2 and not (terms[0] and terms[1])
        return SentenceRelation.CONTRADICTS if one else SentenceRelation.OTHER
    one = len(terms[0]) == len(terms[1]) == 1 < len(new.terms) and not any(values)
    return SentenceRelation.RIVAL if one else SentenceRelation.OTHER


@cache
def _compile_values() -> tuple[re.Pattern[str], ...]:
    """Dates, weekdays, numbers and counting words, in this order; then what negates a sentence."""
    days = "|".join(name for language in load_date_languages() if language.spaced for name in language.weekdays)
    counts = "|".join(load_words("counts") | load_words("only"))
    named = rf"\b(?:{days})s?\b|(?:周|週|星期)[一二三四五六日天]|[月火水木金土日]曜日?"
    negations = "|".join(language.negates for language in load_request_languages())
    return _DATE, compile_pattern(named), _NUMBER, compile_pattern(rf"\b(?:{counts})\b"), compile_pattern(negations)
