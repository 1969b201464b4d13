"""Compare a request with existing memories, to decide whether to add to one, correct one or create one.

Sentences are compared by subject, values and negation, without synonyms. A sentence replaces another only if it contains
it in full, or if the user explicitly corrects it ("no, …", "instead of"). Otherwise both are kept, and `find_rival`
returns the older one. A request forgets one memory, and only if it is unambiguous.
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
from memdir.store.plan import find_free_name, is_team

_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-Q[1-4]\b|\bQ[1-4] \d{4}\b")
_NUMBER = re.compile(r"(?<![\w.-])v?\d+(?:[.,:]\d+)*(?![\w-])")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w*")  # "Go" and "Make" inside a sentence are names
# Words as written, with signs ("us-east-1", "C#", an emoji); in CJK text, single characters.
_WORDS = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]|[^\s\u3040-\u9fff\uac00-\ud7af，。、；：！？]+")
_CLAUSE = re.compile(r"(?<=\w{4})[,;，；、:：—–]")
# Where a clause may begin.
_JOINT = re.compile(r"[,;]?\s+(?:and|but)\s+|;\s+")
_COVER = 0.6
_CANDIDATES = 16  # memories whose text is compared with a request
_FORGET_READ = 300  # memories read to forget something that no header names
_STEM = 5  # letters that "allergy" and "allergic" share


@dataclass(frozen=True, slots=True)
class Placement:
    """The outcome of a request and the memory that it concerns, if known."""

    name: str
    action: str
    request: MemoryRequest | None
    quote: str = ""


class SentenceRelation(IntEnum):
    """How a new sentence relates to an old one, from weakest to strongest."""

    OTHER = 0
    RIVAL = 1  # the sentences differ in one word
    CONTRADICTS = 2  # the sentences differ in a value, or one of them is negated
    EXTENDS = 3  # the new sentence contains the old one in full
    SAME = 4  # the new sentence adds nothing


@dataclass(frozen=True, slots=True)
class SentenceSense:
    """The features by which sentences are compared: subject, values, negation and stemmed words."""

    terms: frozenset[str]
    values: frozenset[str]
    negated: bool
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Known:
    """An existing memory and the sentences of its rule or fact."""

    name: str
    text: str
    title: str
    description: str
    sentences: tuple[str, ...]

    @property
    def full_text(self) -> str:
        return f"{self.name.replace('-', ' ')} {self.title} {self.description} {' '.join(self.sentences)}"


def place(request: MemoryRequest, staging: Staging, *, team: bool = False) -> tuple[Placement, ...]:
    """Stage a request and return the outcome. With `team`, only team memories are considered."""
    name, action = _forget(request, staging) if request.action == FORGET else _save(request, staging, team=team)
    return (Placement(name, action, request, request.quote),)


def is_said(request: MemoryRequest, text: str) -> bool:
    """Return whether a memory contains what a request asks to remember, or matches what it asks to forget."""
    known = _parse_memory("", text)
    if request.action == FORGET:
        return _covers(_find_terms(request.target), _find_terms(known.full_text))
    whole, only = _parse_sense(f"{known.full_text} {text}"), load_words("only")
    # A memory may omit the reason, so compare only the first clause of each sentence.
    senses = [_parse_sense(_CLAUSE.split(sentence)[0]) for sentence in MemoryDocument(request.body).list_sentences()]
    pairs = [(_measure(sense.terms, whole.terms), sense.values - only) for sense in senses if sense.terms]
    return bool(pairs) and all(share >= _COVER and values <= whole.values for share, values in pairs)


def find_rival(text: str, name: str, staging: Staging) -> tuple[str, str] | None:
    """Return another memory and its sentence that contradicts the first sentence of a text, or None."""
    sense = _parse_sense(next(iter(MemoryDocument(text).list_sentences()), text))
    for known in (known for known in _find_candidates(text, staging) if known.name != name):
        relation, old = _compare(sense, known)
        is_rival = relation is SentenceRelation.RIVAL and len(_parse_sense(old).terms) > 1
        if is_rival or relation is SentenceRelation.CONTRADICTS:
            return known.name, old
    return None


def _save(request: MemoryRequest, staging: Staging, *, team: bool) -> tuple[str, str]:
    new = MemoryDocument(request.body).list_sentences()
    sense = _parse_sense(new[0] if new else request.description)
    relations = [
        (*_compare(sense, known), known)
        for known in _find_candidates(f"{request.title} {request.body}", staging)
        # A private request never changes a team memory, but it is already known if a team memory contains it.
        if is_team(known.name) is team or (not team and not _find_fresh(new, known))
    ]
    relation, old, known = max(relations, key=lambda row: row[0], default=(SentenceRelation.OTHER, "", None))
    fresh = _find_fresh(new, known) if known else []
    if known and not fresh:
        return known.name, "unchanged"
    replaces = relation is SentenceRelation.EXTENDS
    if relation in (SentenceRelation.RIVAL, SentenceRelation.CONTRADICTS):
        # The user says that the old sentence is wrong, or that a value changes from now on.
        signs = [(language.corrects, language.renews) for language in load_request_languages()]
        replaces = any(has(pattern, request.quote) for pair in signs for pattern in pair[: relation.value])
    if known is None or not (replaces or relation is SentenceRelation.SAME):
        return _create(request, staging, f"{TEAM_FOLDER}/" if team else ""), "create"
    staging.write(known.name, _merge(request, known, old if replaces else "", fresh))
    return known.name, "update"


def _merge(request: MemoryRequest, known: _Known, old: str, fresh: Sequence[str]) -> str:
    """Return the memory with the new sentences. If there is an old sentence, they replace it."""
    added, document = " ".join(fresh) if len(fresh) > 1 else request.body.strip(), parse_document(known.text)
    text = replace_sentence(document, old, added) if old else add_to_fact(document, added)
    changes: dict[str, str | None] = {}
    sense, title = _parse_sense(added), _parse_sense(known.title)
    if len(known.sentences) <= 1 or _relate(sense, _parse_sense(known.description)):
        changes["description"] = request.description
    # The old title may contradict the new rule.
    if old and (not title.terms | title.values <= sense.terms | sense.values or title.negated != sense.negated):
        changes["name"] = request.title
    return frontmatter.set_fields(text, changes)


def _create(request: MemoryRequest, staging: Staging, folder: str) -> str:
    name = find_free_name(staging, folder + make_slug(request.title))
    kind = request.kind or Kind.PROJECT
    return staging.save(Draft(kind, request.title, request.description, request.body, name))


def _find_candidates(text: str, staging: Staging) -> list[_Known]:
    """Return the memories with the most similar headers, and those written in this run."""
    terms, headers = _find_terms(text), staging.scan()
    texts = {header.name: f"{header.name.replace('-', ' ')} {header.title} {header.description}" for header in headers}
    scores = {name: _measure(terms, _find_terms(text)) for name, text in texts.items()}
    best = sorted(scores, key=lambda name: -scores[name])[:_CANDIDATES]
    return _read_memories(staging, [name for name in best if scores[name]])


def _compare(new: SentenceSense, known: _Known) -> tuple[SentenceRelation, str]:
    """Return how the new sentence relates to the memory's most similar sentence, and that sentence."""
    pairs = [(_relate(new, _parse_sense(old)), old) for old in known.sentences]
    return max(pairs, key=lambda pair: pair[0], default=(SentenceRelation.OTHER, ""))


def _find_fresh(new: Sequence[str], known: _Known) -> list[str]:
    """Return the sentences that a memory does not contain yet."""
    old = [_parse_sense(sentence) for sentence in parse_document(known.text).list_sentences()]
    return [text for text in new if all(_relate(_parse_sense(text), one) is not SentenceRelation.SAME for one in old)]


def _forget(request: MemoryRequest, staging: Staging) -> tuple[str, str]:
    target, values = _find_terms(request.target), _parse_sense(request.target).values
    candidates = _find_candidates(request.target, staging)
    candidates = candidates or _read_memories(staging, [header.name for header in staging.scan()[:_FORGET_READ]])
    matches = [
        memory
        for memory in candidates
        if _covers(target, _find_terms(memory.full_text)) and values <= _parse_sense(memory.full_text).values
    ]
    scores = [_measure(target, _find_terms(f"{memory.title} {memory.description}")) for memory in matches]
    if scores.count(max(scores, default=0)) != 1:
        return "", "unclear"
    memory = matches[scores.index(max(scores))]
    dropped = [sentence for sentence in memory.sentences if _covers(target, _find_terms(sentence))]
    if any(_says_more(target, sentence) for sentence in dropped):
        return memory.name, "unclear"
    left = " ".join(sentence for sentence in memory.sentences if sentence not in dropped)
    own = _find_terms(left) - _find_terms(" ".join(dropped)) - target
    # If the title and description contain no word of only the remaining text, that text explains what is forgotten.
    if not dropped or not own & _find_terms(f"{memory.title} {memory.description}"):
        staging.forget(memory.name)
        return memory.name, "forget"
    text = drop_sentences(parse_document(memory.text), dropped)
    staging.write(memory.name, frontmatter.set_fields(text, {"description": left.rstrip(".。")[:140]}))
    return memory.name, "update"


def _says_more(target: frozenset[str], sentence: str) -> bool:
    """Return whether a clause of a sentence has another subject than the target."""
    clauses = map(_find_terms, _JOINT.split(sentence))
    return any(terms and not _covers(target, terms) for terms in clauses)


def _read_memories(staging: Staging, names: Sequence[str]) -> list[_Known]:
    new = [memory.name for memory in staging.staged if memory.before is None and memory.text is not None]
    memories = []
    for name in dict.fromkeys([*names, *new]):
        with suppress(NotFoundError):  # forgotten in this run, or by another process
            memories.append(_parse_memory(name, staging.read(name)))
    return memories


def _parse_memory(name: str, text: str) -> _Known:
    fields = frontmatter.parse_fields(text)
    return _Known(name, text, fields.title, fields.description, parse_document(text).list_sentences(PartKind.FACT))


def _find_terms(text: str) -> frozenset[str]:
    """Return the words that describe the subject of a text."""
    light = load_words("light")
    terms = [term for term in parse_terms(text) if term not in light and not term.isdigit()]
    terms += [name.casefold() for name in _NAME.findall(text)]
    if not text.isascii():
        # In CJK text use only pairs of characters, because a single one is too ambiguous.
        terms = [term for term in terms if term.isascii() or len(term) > 1 or not "\u3040" <= term <= "\u9fff"]
    return frozenset(terms)


def _measure(target: frozenset[str], terms: frozenset[str]) -> float:
    """Return the share of the target's words that also occur in `terms`. Words are compared by stem."""
    stems = {term[:_STEM] for term in terms if len(term) > _STEM}
    shared = sum(term in terms or (len(term) > _STEM and term[:_STEM] in stems) for term in target)
    return shared / max(len(target), 1)


def _covers(target: frozenset[str], terms: frozenset[str]) -> bool:
    """Return whether a text contains most words of a target, or all of them if the target has one or two words."""
    return bool(target) and _measure(target, terms) >= (1 if len(target) <= 2 else _COVER)


def _parse_sense(sentence: str) -> SentenceSense:
    """Return the features of a sentence. Its values are not part of the subject."""
    values, rest = set[str](), compile_any("reply").sub("", sentence)
    *patterns, negations = _compile_values()
    for pattern in patterns:
        values |= {value.casefold().rstrip("s") for value in pattern.findall(rest)}
        rest = pattern.sub(" ", rest)
    negated = negations.search(re.split(r"[,;，；]", rest.strip())[0]) is not None
    stripped = (word.strip(".,;:!?…\"'()[]{}“”‘’„«»`*").casefold() for word in _WORDS.findall(sentence))
    words = tuple(make_term(word) if word.isalpha() else word for word in stripped if word)
    return SentenceSense(_find_terms(rest), frozenset(values), negated, words)


def _contains(one: SentenceSense, other: SentenceSense) -> bool:
    """Return whether `other` contains the meaningful words of `one` in the same order."""
    free = STOP | load_words("only")  # "only on Tuesdays" is "on Tuesdays only"
    remaining = iter(other.words)
    return all(word in remaining for word in one.words if word not in free)


def _relate(new: SentenceSense, old: SentenceSense) -> SentenceRelation:
    """Return how a new sentence relates to an old one."""
    terms, values = (new.terms - old.terms, old.terms - new.terms), (new.values - old.values, old.values - new.values)
    same_sign = new.negated == old.negated
    if not new.terms & old.terms:
        return SentenceRelation.OTHER
    # "the flag is on" has the same terms as "the flag is off", so the words are compared too.
    if same_sign and not terms[0] and not values[0] and set(new.words) <= set(old.words) and _contains(new, old):
        return SentenceRelation.SAME
    if same_sign and not terms[1] and not values[1] and _contains(old, new):
        return SentenceRelation.EXTENDS if len(old.terms | old.values) > 1 else SentenceRelation.RIVAL
    if not same_sign:
        return SentenceRelation.OTHER if any((*terms, *values)) else SentenceRelation.CONTRADICTS
    if values[0] and values[1]:
        is_single = max(map(len, values)) == 1 and max(map(len, terms)) < 2 and not (terms[0] and terms[1])
        return SentenceRelation.CONTRADICTS if is_single else SentenceRelation.OTHER
    is_single = len(terms[0]) == len(terms[1]) == 1 < len(new.terms) and not any(values)
    return SentenceRelation.RIVAL if is_single else SentenceRelation.OTHER


@cache
def _compile_values() -> tuple[re.Pattern[str], ...]:
    """Return the patterns for dates, weekdays, numbers, number words and negations, in this order."""
    days = "|".join(name for language in load_date_languages() if language.spaced for name in language.weekdays)
    counts = "|".join(load_words("counts") | load_words("only"))
    named = rf"\b(?:{days})s?\b|(?:周|週|星期)[一二三四五六日天]|[月火水木金土日]曜日?"
    negations = "|".join(language.negates for language in load_request_languages())
    return _DATE, compile_pattern(named), _NUMBER, compile_pattern(rf"\b(?:{counts})\b"), compile_pattern(negations)
