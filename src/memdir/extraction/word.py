"""A draft from what somebody typed at `memdir remember`: with a cue ("remember that…") or without one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from functools import cache

from memdir.errors import FormatError, NotFoundError
from memdir.extraction.find import FORGET as FIND_FORGET
from memdir.extraction.find import (
    SAVE,
    Placement,
    Wanted,
    find_secret_values,
    find_wishes,
    guess_request_kind,
    holds_secret,
    word_memory,
)
from memdir.extraction.provenance import SpeakerSources, Trust, find_keys, judge_words, split_judged
from memdir.format import frontmatter
from memdir.format.drafts import HOW, WHY, check_description, compose_body, make_slug
from memdir.frozen import dataclass, replace
from memdir.language.dates import load_date_languages
from memdir.language.requests import find_request_languages, load_request_languages, starts
from memdir.language.words import split_sentences
from memdir.models.staged import StagedMemory, Staging
from memdir.recall.terms import parse_terms
from memdir.records import Draft, Header, Kind, Message
from memdir.store.inbox import MASK
from memdir.store.plan import TEAM_FOLDER, Finder, WriteRules, is_shared, is_team
from memdir.store.secret_text import SecretFinding
from memdir.store.secrets import find_secrets, mask, render_findings
from memdir.text import fold, one_line, shorten

# --- composing ---

_HINT = 'say what is so, or what to do: "the staging db is reset every Sunday", "no emoji in commit messages"'


def compose_memory(text: str, *, now: datetime, kind: Kind | None = None, secrets: bool = False) -> Draft:
    """A draft with a type, a title, a description and absolute dates; refused if nothing telling is in the text.

    With `secrets` one that holds a secret is not refused, but the value stands in the body alone: titles and
    descriptions are shown in lists, and become the names of files.
    """
    if secrets and (values := find_secret_values(text)):
        shown = text
        for value in values:
            shown = shown.replace(value, MASK)
        draft = _compose(shown, now, kind)
        return replace(draft, body=_compose(text, now, draft.kind).body)
    if holds_secret(text):
        raise FormatError(
            "this looks like a password or a key", field="body", hint="keep it in a password manager, remember where"
        )
    return _compose(text, now, kind)


def _compose(text: str, now: datetime, kind: Kind | None) -> Draft:
    asked = [wish for wish in find_wishes([Message("user", text)], now=now) if wish.action == SAVE]
    if len(asked) == 1 and len(split_sentences(text)) == 1 and asked[0].kind is not None:
        return Draft(kind or asked[0].kind, asked[0].title, asked[0].description, asked[0].body)
    tongue = next(iter([*find_request_languages(text), load_request_languages()[0]]))
    guess = kind or guess_request_kind(text, tongue, Kind.PROJECT)
    lines = "\n".join(sentence.text for sentence in split_sentences(text))
    worded = word_memory(lines, tongue, guess, now, asked=starts(tongue.prefers, text.strip()))
    if worded is None:
        raise FormatError("there is nothing in it that recall could find again", field="body", hint=_HINT)
    return Draft(guess, worded.title, worded.description, worded.body)


def is_forgetting(text: str, *, now: datetime) -> bool:
    """Whether the text asks to forget something."""
    return any(wish.action == FIND_FORGET for wish in find_wishes([Message("user", text)], now=now))


# --- sense ---
# What a sentence says, as far as words tell: its subject, its values, what it rejects, whether it is negated.
#
# Two sentences are about the same only if their names and versions agree; a date, a weekday or a number is a value,
#     which
# a newer sentence may change. It compares words and knows no synonyms: where it is in doubt,
#     two sentences are different.

_CONTRAST = re.compile(
    r"(?:[,;]?\s*\b(?:and |but |und |et |y )?(?:not|never|nicht|pas|no|nie)\b|\b(?:instead of|rather than|in place of|"
    r"statt|anstatt|au lieu de|"
    r"plutôt que|en vez de|en lugar de|no longer)\b|[，,]?(?:不要再?用?|不用|而不是|别用)|じゃなくて|"
    r"ではなく)\s*(?P<rejected>[^,;.。，]+)",
    re.IGNORECASE,
)
_SCOPE = re.compile(r"\b(?:in|for|on|im|für|bei|dans|pour|en|para)\s+(?P<scope>[^,;.]+)", re.IGNORECASE)
_VERSION = re.compile(r"\b(?:[A-Za-z][\w.+#-]*\s+v?\d+(?:\.\d+)*|v\d+(?:\.\d+)*|\d+\.\d+(?:\.\d+)*)\b")
_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-Q[1-4]\b|\bQ[1-4] \d{4}\b")
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,:]\d+)*(?![\w-])")
_COUNTS = frozenset("one two three four five six seven eight nine ten twelve fifteen twenty".split())
# Words that say how, not what about: two sentences are not alike for having them.
_LIGHT = frozenset(
    "user users alway never onli pleas use do make have go get should must need want happen start keep just instead "
    "now again ever also like "
    "benutz nutz verwend utilis utiliz usar uso usa prefer everi each all ani still day time code thing way und der "
    "die das nicht immer nur bitt ich wir dass ist sind ein eine "
    "le la les un une de des du que et est sont ne pas toujour jamai je nous on el los las y es son no siempr nunca "
    "yo se en con para por mi".split()
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")  # "Go" and "Make" inside a sentence are names, however light the word
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])|\n+")


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


def split_text(text: str) -> list[str]:
    """A body's sentences, list marks and empty ones left out."""
    parts = (part.strip() for part in _SENTENCE.split(text))
    return [part for part in parts if any(char.isalnum() for char in part)]


def find_sentence_terms(text: str) -> frozenset[str]:
    """The words that say what a text is about."""
    found = [term for term in parse_terms(text) if term not in _LIGHT and not term.isdigit()]
    found += [name.casefold() for name in _NAME.findall(text) if name.casefold() in _LIGHT]
    if not text.isascii():
        # of a CJK run the pairs count; a single character says too little
        found = [term for term in found if term.isascii() or len(term) > 1 or not _is_cjk(term)]
    return frozenset(found)


def parse_sense(sentence: str) -> SentenceSense:
    """Values and versions first: what they say must not be counted as subject too."""
    dates = frozenset(_DATE.findall(sentence))
    rest = _DATE.sub(" ", sentence)
    days = frozenset(found.casefold() for found in _compile_days().findall(rest))
    rest = _compile_days().sub(" ", rest)
    versions = frozenset(_fold_version(found) for found in _VERSION.findall(rest))
    rest = _VERSION.sub(lambda found: re.sub(r"\d", " ", found[0]), rest)
    numbers = frozenset(_NUMBER.findall(rest)) | {
        word for word in re.findall(r"[a-z]+", rest.lower()) if word in _COUNTS
    }
    rest = re.sub(rf"\b(?:{'|'.join(_COUNTS)})\b", " ", _NUMBER.sub(" ", rest), flags=re.IGNORECASE)
    contrast = _CONTRAST.search(rest)
    apart = contrast if contrast and contrast.start() > 0 else None
    main = rest[: apart.start()] + " " + rest[apart.end() :] if apart else rest
    scope = _SCOPE.search(rest)
    return SentenceSense(
        terms=find_sentence_terms(main),
        values=dates | days | numbers,
        versions=versions,
        rejected=find_sentence_terms(apart["rejected"]) if apart else frozenset(),
        scope=find_sentence_terms(scope["scope"]) if scope else frozenset(),
        negated=_is_negated(main),
    )


def relate(new: SentenceSense, old: SentenceSense) -> SentenceRelation:
    """Whether a new sentence says what an old one says, changes it, says more, or is about something else."""
    if new.versions != old.versions or not new.terms or not old.terms:
        return SentenceRelation.OTHER
    if _rejects(new, old):
        return SentenceRelation.CONTRADICTS
    shared, either = new.terms & old.terms, new.terms | old.terms
    likeness = len(shared) / len(either)
    same_values = new.values == old.values
    if new.terms <= old.terms and new.values <= old.values and new.negated == old.negated and likeness >= _ALIKE:
        return SentenceRelation.SAME
    if likeness >= _SAME or (likeness >= _ALIKE and len(shared) >= _SHARED and not same_values and old.values):
        return SentenceRelation.SAME if same_values and new.negated == old.negated else SentenceRelation.CONTRADICTS
    covers = old.terms <= new.terms and len(old.terms) >= _SHARED and old.values <= new.values
    return (
        SentenceRelation.EXTENDS
        if covers and likeness >= _ALIKE and new.negated == old.negated
        else SentenceRelation.OTHER
    )


def measure_cover(target: frozenset[str], terms: frozenset[str]) -> float:
    return len(target & terms) / len(target) if target else 0.0


_SAME = 0.8
_ALIKE = 0.6
_SHARED = 2
_SMALL = 4


def _rejects(new: SentenceSense, old: SentenceSense) -> bool:
    """ "pnpm, not npm" against "use npm": the old one asserts what the new one rejects, and nothing much else."""
    if not new.rejected or old.negated or not new.rejected <= old.terms or len(old.terms) > _SMALL:
        return False
    return new.scope <= old.scope if new.scope else True


def _is_negated(text: str) -> bool:
    clause = re.split(r"[,;，；]", text.strip())[0]
    return _compile_negations().search(clause) is not None


def _is_cjk(term: str) -> bool:
    return "\u3040" <= term <= "\u9fff"


def _fold_version(text: str) -> str:
    return re.sub(r"\s+v?", " ", text.casefold())


@cache
def _compile_days() -> re.Pattern[str]:
    spaced = "|".join(name for tongue in load_date_languages() if tongue.spaced for name in tongue.weekdays)
    return re.compile(rf"\b(?:{spaced})s?\b|(?:周|週|星期)[一二三四五六日天]|[月火水木金土日]曜日?", re.IGNORECASE)


@cache
def _compile_negations() -> re.Pattern[str]:
    return re.compile("|".join(tongue.negates for tongue in load_request_languages()), re.IGNORECASE)


# --- merging ---
# A wish meets what memory already holds: it is there, it changes something, it is new; or what is to be forgotten.
#
# A merge puts the new sentence in the place of the one it contradicts or extends, keeps Why and How, and renews the
# description. Only one memory is forgotten for one wish, and only where no other could be meant as well. It stages;
# what
# becomes of the staging is the caller's affair.

_READ = 8  # candidates whose text is read for a merge
_READ_FORGET = 300  # and at most so many when something is to be forgotten and no header names it
_COVER = 0.6
_ALL = 2  # of a target with so few words, every one must be there
_DESCRIPTION = 140
_FAMILIES = ({Kind.USER, Kind.FEEDBACK}, {Kind.PROJECT, Kind.REFERENCE})


@dataclass(frozen=True, slots=True)
class _Known:
    """A memory as the run sees it: the sentences of its rule or fact, and its parts after them."""

    name: str
    text: str
    kind: Kind | None
    title: str
    description: str
    sentences: tuple[str, ...]


def place(wish: Wanted, staging: Staging, *, team: bool = False) -> tuple[Placement, ...]:
    """Stage a wish; tells what it came to. With `team` among what the team shares, and nowhere else."""
    return (_forget(wish, staging) if wish.action == FIND_FORGET else _save(wish, staging, team=team),)


def is_said(wish: Wanted, text: str) -> bool:
    """Whether a memory's text already says what the wish wants; for a forget, whether it is what is to go."""
    known = _parse("", text)
    if wish.action == FIND_FORGET:
        return _matches(find_sentence_terms(wish.target), _find_all_terms(known))
    wanted = split_text(_cut_parts(wish.body))
    return bool(wanted) and all(_says(known, parse_sense(sentence)) for sentence in wanted)


# --- save -----------------------------------------------------------------------------------------------------------


def _save(wish: Wanted, staging: Staging, *, team: bool) -> Placement:
    new = split_text(_cut_parts(wish.body))
    sense = parse_sense(new[0]) if new else parse_sense(wish.description)
    best = max(
        (
            (relation, known, old)
            for known in _find_candidates(wish, staging)
            if is_team(known.name) or not team
            for relation, old in [_compare(sense, wish.kind, known)]
            # What others share is no place for what one person said to their own agent, unless it says so already.
            if is_team(known.name) is team or (relation is SentenceRelation.SAME and is_said(wish, known.text))
        ),
        key=lambda at: at[0],
        default=None,
    )
    if best is None or best[0] is SentenceRelation.OTHER:
        return Placement(_create(wish, staging, f"{TEAM_FOLDER}/" if team else ""), "create", wish, wish.quote)
    relation, known, old = best
    if relation is SentenceRelation.SAME and is_said(wish, known.text):
        return Placement(known.name, "unchanged", wish, wish.quote)
    staging.write(known.name, _merge(wish, known, old, len(new)))
    return Placement(known.name, "update", wish, wish.quote)


def _create(wish: Wanted, staging: Staging, folder: str) -> str:
    kind = wish.kind or Kind.PROJECT
    name = folder + _find_free(staging, make_slug(wish.title), folder.rstrip("/"))
    return staging.save(Draft(kind, wish.title, wish.description, wish.body, name))


def _find_free(staging: Staging, slug: str, folder: str) -> str:
    taken = {fold(path.removesuffix(".md")) for path in staging.list_files(folder)}
    numbered = (f"{slug[:90]}-{number}" for number in range(2, len(taken) + 3))
    return slug if fold(slug) not in taken else next(name for name in numbered if fold(name) not in taken)


def _find_candidates(wish: Wanted, staging: Staging) -> Iterable[_Known]:
    """The memories whose headers share most words with the wish, and those of this run."""
    terms = find_sentence_terms(f"{wish.title} {wish.description}")
    scored = [(len(terms & _find_header_terms(at)), at.name) for at in staging.scan()]
    names = [name for score, name in sorted(scored, key=lambda at: -at[0])[:_READ] if score]
    return _read(staging, [*names, *_list_new(staging)])


def _compare(new: SentenceSense, kind: Kind | None, known: _Known) -> tuple[SentenceRelation, str]:
    """The sentence nearest to the new one. A rule for work and a fact of the project are the same or apart."""
    pairs = [(relate(new, parse_sense(old)), old) for old in known.sentences]
    relation, old = max(pairs, key=lambda at: at[0], default=(SentenceRelation.OTHER, ""))
    related = any(kind in kinds and known.kind in kinds for kinds in _FAMILIES)
    return (relation, old) if related or relation is SentenceRelation.SAME else (SentenceRelation.OTHER, old)


def _says(known: _Known, wanted: SentenceSense) -> bool:
    """One sentence that says it; or, in other words, most of its words somewhere and no value of another kind."""
    for sentence in (*known.sentences, known.description):
        if relate(wanted, parse_sense(sentence)) is SentenceRelation.SAME:
            return True
        if relate(wanted, parse_sense(sentence)) is SentenceRelation.CONTRADICTS:
            return False
    whole = parse_sense(f"{known.title} {known.description} {' '.join(known.sentences)}")
    return (
        bool(wanted.terms)
        and measure_cover(wanted.terms, whole.terms | whole.rejected) >= _COVER
        and (wanted.values <= whole.values)
    )


def _merge(wish: Wanted, known: _Known, old: str, count: int) -> str:
    """The memory with the new sentence in the old one's place."""
    rule, why = _cut_parts(wish.body).strip(), _find_part(wish.body, WHY)
    body = frontmatter.split_frontmatter(known.text).body.replace(old, rule, 1)
    body = compose_body(body, why or None, _find_part(wish.body, HOW) or None)
    changes: dict[str, str | None] = {}
    sense = parse_sense(rule)
    alone = len(known.sentences) <= 1
    if alone or relate(sense, parse_sense(known.description)) is not SentenceRelation.OTHER:
        changes["description"] = wish.description
    if not parse_sense(known.title).values <= sense.values or (alone and _is_turned(known.title, old, sense)):
        changes["name"] = wish.title
    return frontmatter.set_fields(frontmatter.replace_body(known.text, body), changes)


def _is_turned(title: str, old: str, new: SentenceSense) -> bool:
    """Whether a title that named the old rule would name the opposite of the new one."""
    return parse_sense(old).negated != new.negated or bool(new.rejected & find_sentence_terms(title))


# --- forget ---------------------------------------------------------------------------------------------------------


def _forget(wish: Wanted, staging: Staging) -> Placement:
    target = find_sentence_terms(wish.target)
    values = parse_sense(wish.target).values
    fitting = [at for at in _find_meant(target, staging) if values <= parse_sense(_flatten(at)).values]
    meant = _pick(target, fitting)
    if meant is None:
        return Placement("", "unclear", wish, wish.quote)
    left = _find_left(target, meant)
    if not left:
        staging.forget(meant.name)
        return Placement(meant.name, "forget", wish, wish.quote)
    staging.write(meant.name, _cut(meant, left))
    return Placement(meant.name, "update", wish, wish.quote)


def _find_meant(target: frozenset[str], staging: Staging) -> list[_Known]:
    headers = staging.scan()
    scored = [(measure_cover(target, _find_header_terms(at)), at.name) for at in headers]
    named = [name for score, name in sorted(scored, key=lambda at: -at[0])[: 2 * _READ] if score]
    names = named or [at.name for at in headers[:_READ_FORGET]]
    known = _read(staging, [*names, *_list_new(staging)])
    return [at for at in known if _matches(target, _find_all_terms(at))]


def _pick(target: frozenset[str], fitting: Sequence[_Known]) -> _Known | None:
    """The one that is meant: the only one that fits, or the only one that fits best."""
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    scored = sorted(((_score(target, at), at) for at in fitting), key=lambda at: at[0], reverse=True)
    return scored[0][1] if scored[0][0] > scored[1][0] else None


def _score(target: frozenset[str], known: _Known) -> tuple[float, float]:
    return measure_cover(target, _find_all_terms(known)), measure_cover(
        target, find_sentence_terms(f"{known.title} {known.description}")
    )


def _find_left(target: frozenset[str], known: _Known) -> list[str]:
    """The sentences that stay, if the memory is about more than what is to be forgotten; else none."""
    gone = [at for at in known.sentences if _matches(target, find_sentence_terms(at))]
    left = [at for at in known.sentences if at not in gone]
    if not gone or not left:
        return []
    spoken = find_sentence_terms(" ".join(gone)) | target
    own = find_sentence_terms(" ".join(left)) - spoken
    return left if own & find_sentence_terms(f"{known.title} {known.description}") else []


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


# --- reading --------------------------------------------------------------------------------------------------------


def _read(staging: Staging, names: Sequence[str]) -> list[_Known]:
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append(_parse(name, staging.read(name)))
        except NotFoundError:
            continue  # forgotten in this run, or by somebody else meanwhile
    return found


def _list_new(staging: Staging) -> list[str]:
    return [at.name for at in staging.staged if at.before is None and at.text is not None]


def _parse(name: str, text: str) -> _Known:
    fields = frontmatter.parse_fields(text)
    body = frontmatter.split_frontmatter(text).body
    return _Known(name, text, fields.kind, fields.title, fields.description, tuple(split_text(_cut_parts(body))))


def _cut_parts(body: str) -> str:
    """A body without its Why and How."""
    ends = [place for mark in (WHY, HOW) if (place := body.find(mark)) >= 0]
    return body[: min(ends)] if ends else body


def _find_part(body: str, mark: str) -> str:
    _, found, rest = body.partition(mark)
    return rest.split("\n\n")[0].strip() if found else ""


def _find_header_terms(header: Header) -> frozenset[str]:
    return find_sentence_terms(f"{header.name.replace('-', ' ')} {header.title} {header.description}")


def _find_all_terms(known: _Known) -> frozenset[str]:
    return find_sentence_terms(_flatten(known))


def _flatten(known: _Known) -> str:
    return f"{known.name.replace('-', ' ')} {known.title} {known.description} {' '.join(known.sentences)}"


def _matches(target: frozenset[str], terms: frozenset[str]) -> bool:
    least = 1.0 if len(target) <= _ALL else _COVER
    return bool(target) and measure_cover(target, terms) >= least


# --- judging ---
# May what a model wrote be kept as it is? By where its words came from, not by what it says of itself.
#
# A model can be talked into anything by the text it reads, so it is not asked. What rests on the person's own plain
# words
# is kept. What carries text from tools, files, pages or quotes waits for a person, whatever its type. What rests on
# the
# agent's own words may be a fact about the project, but no rule and no portrait of the person. A deletion needs
# somebody's word, and so does an update that drops what nobody spoke of. What a team shares waits: others would read
# it.
#
# What waits is kept without the credentials in it.

FORGET = "forget"
SECRET = "it holds a secret"
ECHO = "the agent said it, and it had that from elsewhere"
SHARED = "a team shares it, and only a person may say so"
_FACTS = (Kind.PROJECT, Kind.REFERENCE)
_TELLING = 5  # characters of a secret that may stand at the end of a name: `ghp` tells nothing
# Lines of a head that say nothing besides what the fields say.
_PLAIN = re.compile(r"\s*(?:(?:name|description):[^#]*|metadata:|(?:type|pinned):\s*\w+|modified:[\s\d:TZ+.'\"-]*)\s*")


@dataclass(frozen=True, slots=True)
class DoubtfulWrite:
    """A write that has to wait, why, and the words it rests on as far as that is known."""

    staged: StagedMemory
    why: str
    quote: str = ""


def judge_staged(
    staged: Sequence[StagedMemory], sources: SpeakerSources, evidence: Mapping[str, str], wishes: Sequence[Wanted]
) -> tuple[DoubtfulWrite, ...]:
    """The writes that may not be kept without a person."""
    doubts = []
    for at in staged:
        quote = evidence.get(at.name, "")
        if why := _find_doubt(at, sources, quote, wishes):
            doubts.append(DoubtfulWrite(at, why, quote))
    return tuple(doubts)


def is_borrowed(wish: Wanted) -> bool:
    """Whether a wish has a sentence in words that are not the person's, as where they praise what the agent said."""
    own = find_keys(wish.quote)
    found = (find_keys(sentence) for sentence in split_judged(wish.body))
    return wish.action != FORGET and any(len(keys - own) * 2 > len(keys) for keys in found)


def doubt_shared(staged: StagedMemory, rules: WriteRules) -> DoubtfulWrite | None:
    """Why a write to what others read has to wait, whoever said it; None for any other."""
    return DoubtfulWrite(staged, SHARED) if is_shared(staged.name, rules) else None


def find_credentials(staged: StagedMemory, find: Finder | None) -> list[SecretFinding]:
    """The credentials in a write that were not in the memory before."""
    found = (find or find_secrets)(staged.text or "")
    return [at for at in found if (staged.text or "")[at.start : at.end] not in (staged.before or "")]


def doubt_credentials(staged: StagedMemory, find: Finder | None) -> DoubtfulWrite | None:
    """Why a write with a credential in it has to wait; None for one without."""
    found = find_credentials(staged, find)
    return DoubtfulWrite(staged, f"{SECRET}: {'; '.join(render_findings(found))}") if found else None


def mask_doubt(doubt: DoubtfulWrite, find: Finder | None) -> DoubtfulWrite:
    """A doubt as it may be kept: the credentials taken out of the text, the reason and the quotation."""
    text, found = doubt.staged.text or "", find_credentials(doubt.staged, find)
    secrets = [text[at.start : at.end] for at in found]
    masked = doubt.staged
    if secrets:
        name = masked.name if masked.before is not None else _mask_name(masked.name, secrets)
        masked = replace(masked, name=name, text=_mask_file(text, secrets))
    why, quote = (mask_words(_mask(words, secrets), find) for words in (doubt.why, doubt.quote))
    return DoubtfulWrite(masked, why, quote)


def mask_words(text: str, find: Finder | None) -> str:
    """A reason or a quotation as it may be kept."""
    return mask(text, (find or find_secrets)(text)) if text else ""


def _mask_file(text: str, secrets: Sequence[str]) -> str:
    """Field by field, so that the head can still be read."""
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return _mask(text, secrets)
    changes = {"name": _mask(fields.title, secrets), "description": _mask(fields.description, secrets)}
    body = _mask(frontmatter.split_frontmatter(text).body, secrets)
    return _mask(frontmatter.replace_body(frontmatter.set_fields(text, changes), body), secrets)


def _mask_name(name: str, secrets: Sequence[str]) -> str:
    """A name without a secret that became part of it: names are shown everywhere."""
    folder, slash, leaf = name.rpartition("/")
    for slug in map(make_slug, secrets):
        leaf = re.sub(re.escape(slug), "masked", leaf, flags=re.IGNORECASE)
        # A long title is cut, perhaps in the middle of the secret.
        cut = next((end for end in range(len(slug), _TELLING, -1) if leaf.lower().endswith(slug[:end])), 0)
        leaf = f"{leaf[:-cut]}masked" if cut else leaf
    return folder + slash + leaf


def _mask(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _find_doubt(staged: StagedMemory, sources: SpeakerSources, quote: str, wishes: Sequence[Wanted]) -> str:
    if is_team(staged.name):
        return SHARED
    if staged.text is None:
        asked = any(wish.action == FORGET and is_said(wish, staged.before or "") for wish in wishes)
        return "" if asked else "nobody asked to forget it"
    # A new memory is written anew from its fields; one that is rewritten keeps whatever its head says.
    if staged.before is not None and _find_extras(staged.text) - _find_extras(staged.before):
        return "it puts something into the head of the file that belongs nowhere"
    kind, was = (frontmatter.parse_fields(text or "").kind for text in (staged.text, staged.before))
    # A fact that becomes a rule is judged as if it were new: it was let in as a fact.
    added = _find_added("" if was in _FACTS and kind not in _FACTS else staged.before or "", staged.text)
    if not added:
        return "" if staged.before is None else "it only takes something away, and nobody asked for that"
    verdict = judge_words(added, quote, sources)
    if verdict.trust is Trust.PERSON or (verdict.trust is Trust.AGENT and kind in _FACTS):
        return _find_loss(staged.before or "", staged.text, sources)
    return verdict.why


def _find_added(before: str, after: str) -> str:
    """What a write says that the memory did not say before: title, description and body, sentence by sentence."""
    old = set(split_judged(_judging_flatten(before)))
    return "\n".join(sentence for sentence in split_judged(_judging_flatten(after)) if sentence not in old)


def _find_loss(before: str, after: str, sources: SpeakerSources) -> str:
    """Whether a sentence goes that is neither put in other words nor anything the person spoke of."""
    flat = _judging_flatten(after)
    kept, words = set(split_judged(flat)), find_keys(flat)
    for sentence in split_judged(frontmatter.split_frontmatter(before).body):
        keys = find_keys(sentence)
        is_gone = sentence not in kept and len(keys & words) * 2 < len(keys)
        if is_gone and not keys & sources.person.places.keys():
            return f"it takes away what nobody spoke of: “{shorten(one_line(sentence), 80)}”"
    return ""


def _judging_flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join((fields.title, fields.description, frontmatter.split_frontmatter(text).body))


def _find_extras(text: str) -> set[str]:
    """Lines of a head that say more than title, description and type."""
    lines = frontmatter.split_frontmatter(text).head.splitlines()
    return {line.strip() for line in lines if line.strip() and not _PLAIN.fullmatch(line)}
