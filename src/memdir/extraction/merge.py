"""A request meets what memory already holds: it is there, it changes something, it is new; or something is forgotten.

Sentences are compared by what they say as far as words tell: subject, values, what is rejected, whether it is negated.
Two are about the same only if their names and versions agree; a date, a weekday or a number is a value, which a newer
sentence may change. No synonyms are known: where it is in doubt, two sentences are different. A merge puts the new
sentence in the place of the one it contradicts or extends, keeps Why and How, and renews the description. Only one
memory is forgotten for one request, and only where no other could be meant as well. Writes go to a staging.
"""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache

from memdir.errors import FormatError, NotFoundError
from memdir.extraction.find import FORGET, MemoryRequest
from memdir.format import frontmatter
from memdir.format.drafts import HOW, WHY, check_description, compose_body, make_slug
from memdir.frozen import dataclass
from memdir.language.dates import load_date_languages
from memdir.language.requests import load_request_languages
from memdir.language.words import compile_any, load_words, split_text
from memdir.models.staged import Staging
from memdir.recall.terms import parse_terms
from memdir.records import Draft, Header, Kind
from memdir.store.plan import TEAM_FOLDER, is_team
from memdir.text import fold, one_line, shorten

_VERSION = re.compile(r"\b(?:[A-Za-z][\w.+#-]*\s+v?\d+(?:\.\d+)*|v\d+(?:\.\d+)*|\d+\.\d+(?:\.\d+)*)\b")
_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-Q[1-4]\b|\bQ[1-4] \d{4}\b")
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,:]\d+)*(?![\w-])")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")  # "Go" and "Make" inside a sentence are names, however light the word
_SAME = 0.8
_ALIKE = 0.6
_SHARED = 2
_SMALL = 4
_READ = 8  # candidates whose text is read for a merge
_READ_FORGET = 300  # and at most so many when something is to be forgotten and no header names it
_COVER = 0.6
_ALL = 2  # of a target with so few words, every one must be there
_DESCRIPTION = 140
_FAMILIES = ({Kind.USER, Kind.FEEDBACK}, {Kind.PROJECT, Kind.REFERENCE})


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
    EXTENDS = 1
    CONTRADICTS = 2
    SAME = 3


@dataclass(frozen=True, slots=True)
class SentenceSense:
    terms: frozenset[str]
    values: frozenset[str]
    versions: frozenset[str]
    rejected: frozenset[str]
    scope: frozenset[str]
    negated: bool


@dataclass(frozen=True, slots=True)
class _Known:
    """A memory as the run sees it: its fields, and the sentences of its rule or fact."""

    name: str
    text: str
    kind: Kind | None
    title: str
    description: str
    sentences: tuple[str, ...]


def place(request: MemoryRequest, staging: Staging, *, team: bool = False) -> tuple[Placement, ...]:
    """Stage a request; returns what it came to. With `team` among what the team shares, and nowhere else."""
    return (_forget(request, staging) if request.action == FORGET else _save(request, staging, team=team),)


def is_said(request: MemoryRequest, text: str) -> bool:
    """Whether a memory's text already says what the request wants; for a forget, whether it is what is to go."""
    known = _parse("", text)
    if request.action == FORGET:
        return _covers(_find_terms(request.target), _find_terms(_flatten(known)))
    wanted = split_text(_cut_parts(request.body))
    return bool(wanted) and all(_says(known, _parse_sense(sentence)) for sentence in wanted)


def _save(request: MemoryRequest, staging: Staging, *, team: bool) -> Placement:
    new = split_text(_cut_parts(request.body))
    sense = _parse_sense(new[0] if new else request.description)
    best = max(
        (
            (relation, known, old)
            for known in _find_candidates(request, staging)
            if is_team(known.name) or not team
            for relation, old in [_compare(sense, request.kind, known)]
            # What others share is no place for what one person said to their own agent, unless it says so already.
            if is_team(known.name) is team or (relation is SentenceRelation.SAME and is_said(request, known.text))
        ),
        key=lambda at: at[0],
        default=None,
    )
    if best is None or best[0] is SentenceRelation.OTHER:
        return Placement(_create(request, staging, f"{TEAM_FOLDER}/" if team else ""), "create", request, request.quote)
    relation, known, old = best
    if relation is SentenceRelation.SAME and is_said(request, known.text):
        return Placement(known.name, "unchanged", request, request.quote)
    staging.write(known.name, _merge(request, known, old))
    return Placement(known.name, "update", request, request.quote)


def _create(request: MemoryRequest, staging: Staging, folder: str) -> str:
    slug = make_slug(request.title)
    used = {fold(path.removesuffix(".md")) for path in staging.list_files(folder.rstrip("/"))}
    numbered = (f"{slug[:90]}-{number}" for number in range(2, len(used) + 3))
    leaf = slug if fold(slug) not in used else next(name for name in numbered if fold(name) not in used)
    kind = request.kind or Kind.PROJECT
    return staging.save(Draft(kind, request.title, request.description, request.body, folder + leaf))


def _find_candidates(request: MemoryRequest, staging: Staging) -> Iterable[_Known]:
    """The memories whose headers share most words with the request, and those of this run."""
    terms = _find_terms(f"{request.title} {request.description}")
    scored = [(len(terms & _find_header_terms(at)), at.name) for at in staging.scan()]
    return _read(staging, [name for score, name in sorted(scored, key=lambda at: -at[0])[:_READ] if score])


def _compare(new: SentenceSense, kind: Kind | None, known: _Known) -> tuple[SentenceRelation, str]:
    """The sentence nearest to the new one. A rule for work and a fact of the project are the same or apart."""
    pairs = [(_relate(new, _parse_sense(old)), old) for old in known.sentences]
    relation, old = max(pairs, key=lambda at: at[0], default=(SentenceRelation.OTHER, ""))
    related = any(kind in kinds and known.kind in kinds for kinds in _FAMILIES)
    return (relation, old) if related or relation is SentenceRelation.SAME else (SentenceRelation.OTHER, old)


def _says(known: _Known, wanted: SentenceSense) -> bool:
    """One sentence that says it; or, in other words, most of its words somewhere and no value of another kind."""
    for sentence in (*known.sentences, known.description):
        relation = _relate(wanted, _parse_sense(sentence))
        if relation in (SentenceRelation.SAME, SentenceRelation.CONTRADICTS):
            return relation is SentenceRelation.SAME
    whole = _parse_sense(f"{known.title} {known.description} {' '.join(known.sentences)}")
    covered = _measure_cover(wanted.terms, whole.terms | whole.rejected) >= _COVER
    return bool(wanted.terms) and covered and wanted.values <= whole.values


def _merge(request: MemoryRequest, known: _Known, old: str) -> str:
    """The memory with the new sentence in the old one's place."""
    rule, why = _cut_parts(request.body).strip(), _find_part(request.body, WHY)
    body = frontmatter.split_frontmatter(known.text).body.replace(old, rule, 1)
    body = compose_body(body, why or None, _find_part(request.body, HOW) or None)
    changes: dict[str, str | None] = {}
    sense = _parse_sense(rule)
    alone = len(known.sentences) <= 1
    if alone or _relate(sense, _parse_sense(known.description)) is not SentenceRelation.OTHER:
        changes["description"] = request.description
    # A title that named the old rule may name the opposite of the new one.
    turned = _parse_sense(old).negated != sense.negated or sense.rejected & _find_terms(known.title)
    if not _parse_sense(known.title).values <= sense.values or (alone and turned):
        changes["name"] = request.title
    return frontmatter.set_fields(frontmatter.replace_body(known.text, body), changes)


def _forget(request: MemoryRequest, staging: Staging) -> Placement:
    target = _find_terms(request.target)
    values = _parse_sense(request.target).values
    fitting = [at for at in _find_meant(target, staging) if values <= _parse_sense(_flatten(at)).values]
    meant = _pick(target, fitting)
    if meant is None:
        return Placement("", "unclear", request, request.quote)
    left = _find_left(target, meant)
    if not left:
        staging.forget(meant.name)
        return Placement(meant.name, "forget", request, request.quote)
    staging.write(meant.name, _cut(meant, left))
    return Placement(meant.name, "update", request, request.quote)


def _find_meant(target: frozenset[str], staging: Staging) -> list[_Known]:
    headers = staging.scan()
    scored = [(_measure_cover(target, _find_header_terms(at)), at.name) for at in headers]
    named = [name for score, name in sorted(scored, key=lambda at: -at[0])[: 2 * _READ] if score]
    known = _read(staging, named or [at.name for at in headers[:_READ_FORGET]])
    return [at for at in known if _covers(target, _find_terms(_flatten(at)))]


def _pick(target: frozenset[str], fitting: Sequence[_Known]) -> _Known | None:
    """The one that is meant: the only one that fits, or the only one that fits best."""
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    scored = sorted(((_score(target, at), at) for at in fitting), key=lambda at: at[0], reverse=True)
    return scored[0][1] if scored[0][0] > scored[1][0] else None


def _score(target: frozenset[str], known: _Known) -> tuple[float, ...]:
    texts = (_flatten(known), f"{known.title} {known.description}")
    return tuple(_measure_cover(target, _find_terms(text)) for text in texts)


def _find_left(target: frozenset[str], known: _Known) -> list[str]:
    """The sentences that stay, if the memory is about more than what is to be forgotten; else none."""
    gone = [at for at in known.sentences if _covers(target, _find_terms(at))]
    left = [at for at in known.sentences if at not in gone]
    if not gone or not left:
        return []
    own = _find_terms(" ".join(left)) - _find_terms(" ".join(gone)) - target
    return left if own & _find_terms(f"{known.title} {known.description}") else []


def _cut(known: _Known, left: Sequence[str]) -> str:
    body = frontmatter.split_frontmatter(known.text).body
    for sentence in known.sentences:
        if sentence not in left:
            body = body.replace(sentence, "", 1)
    lines = (line.rstrip() for line in body.replace("  ", " ").splitlines())
    kept = "\n".join(line for line in lines if line.strip(" -*+") or not line)
    changes: dict[str, str | None] = {}
    description = shorten(one_line(" ".join(left)), _DESCRIPTION).rstrip(".。")
    try:
        check_description(description)
        changes["description"] = description
    except FormatError:
        pass  # the old one says too much, a vague one too little
    return frontmatter.set_fields(frontmatter.replace_body(known.text, kept), changes)


def _read(staging: Staging, names: Sequence[str]) -> list[_Known]:
    """These memories, and those that this run has written."""
    new = [at.name for at in staging.staged if at.before is None and at.text is not None]
    found = []
    for name in dict.fromkeys([*names, *new]):
        try:
            found.append(_parse(name, staging.read(name)))
        except NotFoundError:
            continue  # forgotten in this run, or by somebody else meanwhile
    return found


def _parse(name: str, text: str) -> _Known:
    fields = frontmatter.parse_fields(text)
    sentences = split_text(_cut_parts(frontmatter.split_frontmatter(text).body))
    return _Known(name, text, fields.kind, fields.title, fields.description, sentences)


def _cut_parts(body: str) -> str:
    """A body without its Why and How."""
    ends = [start for mark in (WHY, HOW) if (start := body.find(mark)) >= 0]
    return body[: min(ends)] if ends else body


def _find_part(body: str, mark: str) -> str:
    _, found, rest = body.partition(mark)
    return rest.split("\n\n")[0].strip() if found else ""


def _flatten(known: _Known) -> str:
    return f"{known.name.replace('-', ' ')} {known.title} {known.description} {' '.join(known.sentences)}"


def _find_header_terms(header: Header) -> frozenset[str]:
    return _find_terms(f"{header.name.replace('-', ' ')} {header.title} {header.description}")


def _find_terms(text: str) -> frozenset[str]:
    """The words that say what a text is about."""
    light = load_words("light")
    found = [term for term in parse_terms(text) if term not in light and not term.isdigit()]
    found += [name.casefold() for name in _NAME.findall(text) if name.casefold() in light]
    if not text.isascii():
        # of a CJK run the pairs count; a single character says too little
        found = [term for term in found if term.isascii() or len(term) > 1 or not "\u3040" <= term <= "\u9fff"]
    return frozenset(found)


def _measure_cover(target: frozenset[str], terms: frozenset[str]) -> float:
    return len(target & terms) / len(target) if target else 0.0


def _covers(target: frozenset[str], terms: frozenset[str]) -> bool:
    return bool(target) and _measure_cover(target, terms) >= (1.0 if len(target) <= _ALL else _COVER)


def _parse_sense(sentence: str) -> SentenceSense:
    """Values and versions first: what they say must not be counted as subject too."""
    dates = frozenset(_DATE.findall(sentence))
    rest = _DATE.sub(" ", sentence)
    days = frozenset(found.casefold() for found in _compile_days().findall(rest))
    rest = _compile_days().sub(" ", rest)
    versions = frozenset(re.sub(r"\s+v?", " ", found.casefold()) for found in _VERSION.findall(rest))
    rest = _VERSION.sub(lambda found: re.sub(r"\d", " ", found[0]), rest)
    counts = load_words("counts")
    numbers = frozenset(_NUMBER.findall(rest)) | (counts & set(re.findall(r"[a-z]+", rest.lower())))
    rest = re.sub(rf"\b(?:{'|'.join(counts)})\b", " ", _NUMBER.sub(" ", rest), flags=re.IGNORECASE)
    contrast = compile_any("contrast").search(rest)
    apart = contrast if contrast and contrast.start() > 0 else None
    main = rest[: apart.start()] + " " + rest[apart.end() :] if apart else rest
    scope = compile_any("scope").search(rest)
    return SentenceSense(
        terms=_find_terms(main),
        values=dates | days | numbers,
        versions=versions,
        rejected=_find_terms(apart["rejected"]) if apart else frozenset(),
        scope=_find_terms(scope["scope"]) if scope else frozenset(),
        negated=_compile_negations().search(re.split(r"[,;，；]", main.strip())[0]) is not None,
    )


def _relate(new: SentenceSense, old: SentenceSense) -> SentenceRelation:
    """Whether a new sentence says what an old one says, changes it, says more, or is about something else."""
    if new.versions != old.versions or not new.terms or not old.terms:
        return SentenceRelation.OTHER
    # "pnpm, not npm" against "use npm": the old one asserts what the new one rejects, and nothing much else.
    asserted = new.rejected and not old.negated and new.rejected <= old.terms and len(old.terms) <= _SMALL
    if asserted and new.scope <= old.scope:
        return SentenceRelation.CONTRADICTS
    shared, either = new.terms & old.terms, new.terms | old.terms
    likeness = len(shared) / len(either)
    same_values, same_sign = new.values == old.values, new.negated == old.negated
    if new.terms <= old.terms and new.values <= old.values and same_sign and likeness >= _ALIKE:
        return SentenceRelation.SAME
    if likeness >= _SAME or (likeness >= _ALIKE and len(shared) >= _SHARED and not same_values and old.values):
        return SentenceRelation.SAME if same_values and same_sign else SentenceRelation.CONTRADICTS
    covers = old.terms <= new.terms and len(old.terms) >= _SHARED and old.values <= new.values
    return SentenceRelation.EXTENDS if covers and likeness >= _ALIKE and same_sign else SentenceRelation.OTHER


@cache
def _compile_days() -> re.Pattern[str]:
    spaced = "|".join(name for language in load_date_languages() if language.spaced for name in language.weekdays)
    return re.compile(rf"\b(?:{spaced})s?\b|(?:周|週|星期)[一二三四五六日天]|[月火水木金土日]曜日?", re.IGNORECASE)


@cache
def _compile_negations() -> re.Pattern[str]:
    return re.compile("|".join(language.negates for language in load_request_languages()), re.IGNORECASE)
