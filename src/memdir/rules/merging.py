"""A wish meets what memory already holds: it is there, it changes something, it is new; or what is to be forgotten.

A merge puts the new sentence in the place of the one it contradicts or extends, keeps Why and How, and renews the
description. Only one memory is forgotten for one wish, and only where no other could be meant as well. It stages; what
becomes of the staging is the caller's affair.
"""

from collections.abc import Iterable, Sequence

from memdir import frontmatter
from memdir.drafts import HOW, WHY, check_description, compose_body, make_slug
from memdir.errors import FormatError, NotFoundError
from memdir.frozen import dataclass
from memdir.records import Draft, Header, Kind
from memdir.rules.records import FORGET, Placed, Wish
from memdir.rules.sense import Relation, Sense, find_terms, measure_cover, parse_sense, relate, split_text
from memdir.staging import Staging
from memdir.store.plan import TEAM_FOLDER
from memdir.store.shared import is_team
from memdir.text import fold, one_line, shorten

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


def place(wish: Wish, staging: Staging, *, team: bool = False) -> tuple[Placed, ...]:
    """Stage a wish; tells what it came to. With `team` among what the team shares, and nowhere else."""
    return (_forget(wish, staging) if wish.action == FORGET else _save(wish, staging, team=team),)


def is_said(wish: Wish, text: str) -> bool:
    """Whether a memory's text already says what the wish wants; for a forget, whether it is what is to go."""
    known = _parse("", text)
    if wish.action == FORGET:
        return _matches(find_terms(wish.target), _find_all_terms(known))
    wanted = split_text(_cut_parts(wish.body))
    return bool(wanted) and all(_says(known, parse_sense(sentence)) for sentence in wanted)


# --- save -----------------------------------------------------------------------------------------------------------


def _save(wish: Wish, staging: Staging, *, team: bool) -> Placed:
    new = split_text(_cut_parts(wish.body))
    sense = parse_sense(new[0]) if new else parse_sense(wish.description)
    best = max(
        (
            (relation, known, old)
            for known in _find_candidates(wish, staging)
            if is_team(known.name) or not team
            for relation, old in [_compare(sense, wish.kind, known)]
            # What others share is no place for what one person said to their own agent, unless it says so already.
            if is_team(known.name) is team or (relation is Relation.SAME and is_said(wish, known.text))
        ),
        key=lambda at: at[0],
        default=None,
    )
    if best is None or best[0] is Relation.OTHER:
        return Placed(_create(wish, staging, f"{TEAM_FOLDER}/" if team else ""), "create", wish, wish.quote)
    relation, known, old = best
    if relation is Relation.SAME and is_said(wish, known.text):
        return Placed(known.name, "unchanged", wish, wish.quote)
    staging.write(known.name, _merge(wish, known, old, len(new)))
    return Placed(known.name, "update", wish, wish.quote)


def _create(wish: Wish, staging: Staging, folder: str) -> str:
    kind = wish.kind or Kind.PROJECT
    name = folder + _find_free(staging, make_slug(wish.title), folder.rstrip("/"))
    return staging.save(Draft(kind, wish.title, wish.description, wish.body, name))


def _find_free(staging: Staging, slug: str, folder: str) -> str:
    taken = {fold(path.removesuffix(".md")) for path in staging.list_files(folder)}
    numbered = (f"{slug[:90]}-{number}" for number in range(2, len(taken) + 3))
    return slug if fold(slug) not in taken else next(name for name in numbered if fold(name) not in taken)


def _find_candidates(wish: Wish, staging: Staging) -> Iterable[_Known]:
    """The memories whose headers share most words with the wish, and those of this run."""
    terms = find_terms(f"{wish.title} {wish.description}")
    scored = [(len(terms & _find_header_terms(at)), at.name) for at in staging.scan()]
    names = [name for score, name in sorted(scored, key=lambda at: -at[0])[:_READ] if score]
    return _read(staging, [*names, *_list_new(staging)])


def _compare(new: Sense, kind: Kind | None, known: _Known) -> tuple[Relation, str]:
    """The sentence nearest to the new one. A rule for work and a fact of the project are the same or apart."""
    pairs = [(relate(new, parse_sense(old)), old) for old in known.sentences]
    relation, old = max(pairs, key=lambda at: at[0], default=(Relation.OTHER, ""))
    related = any(kind in kinds and known.kind in kinds for kinds in _FAMILIES)
    return (relation, old) if related or relation is Relation.SAME else (Relation.OTHER, old)


def _says(known: _Known, wanted: Sense) -> bool:
    """One sentence that says it; or, in other words, most of its words somewhere and no value of another kind."""
    for sentence in (*known.sentences, known.description):
        if relate(wanted, parse_sense(sentence)) is Relation.SAME:
            return True
        if relate(wanted, parse_sense(sentence)) is Relation.CONTRADICTS:
            return False
    whole = parse_sense(f"{known.title} {known.description} {' '.join(known.sentences)}")
    return (
        bool(wanted.terms)
        and measure_cover(wanted.terms, whole.terms | whole.rejected) >= _COVER
        and (wanted.values <= whole.values)
    )


def _merge(wish: Wish, known: _Known, old: str, count: int) -> str:
    """The memory with the new sentence in the old one's place."""
    rule, why = _cut_parts(wish.body).strip(), _find_part(wish.body, WHY)
    body = frontmatter.split(known.text).body.replace(old, rule, 1)
    body = compose_body(body, why or None, _find_part(wish.body, HOW) or None)
    changes: dict[str, str | None] = {}
    sense = parse_sense(rule)
    alone = len(known.sentences) <= 1
    if alone or relate(sense, parse_sense(known.description)) is not Relation.OTHER:
        changes["description"] = wish.description
    if not parse_sense(known.title).values <= sense.values or (alone and _is_turned(known.title, old, sense)):
        changes["name"] = wish.title
    return frontmatter.set_fields(frontmatter.replace_body(known.text, body), changes)


def _is_turned(title: str, old: str, new: Sense) -> bool:
    """Whether a title that named the old rule would name the opposite of the new one."""
    return parse_sense(old).negated != new.negated or bool(new.rejected & find_terms(title))


# --- forget ---------------------------------------------------------------------------------------------------------


def _forget(wish: Wish, staging: Staging) -> Placed:
    target = find_terms(wish.target)
    values = parse_sense(wish.target).values
    fitting = [at for at in _find_meant(target, staging) if values <= parse_sense(_flatten(at)).values]
    meant = _pick(target, fitting)
    if meant is None:
        return Placed("", "unclear", wish, wish.quote)
    left = _find_left(target, meant)
    if not left:
        staging.forget(meant.name)
        return Placed(meant.name, "forget", wish, wish.quote)
    staging.write(meant.name, _cut(meant, left))
    return Placed(meant.name, "update", wish, wish.quote)


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
        target, find_terms(f"{known.title} {known.description}")
    )


def _find_left(target: frozenset[str], known: _Known) -> list[str]:
    """The sentences that stay, if the memory is about more than what is to be forgotten; else none."""
    gone = [at for at in known.sentences if _matches(target, find_terms(at))]
    left = [at for at in known.sentences if at not in gone]
    if not gone or not left:
        return []
    spoken = find_terms(" ".join(gone)) | target
    own = find_terms(" ".join(left)) - spoken
    return left if own & find_terms(f"{known.title} {known.description}") else []


def _cut(known: _Known, left: Sequence[str]) -> str:
    body = frontmatter.split(known.text).body
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
    body = frontmatter.split(text).body
    return _Known(name, text, fields.kind, fields.title, fields.description, tuple(split_text(_cut_parts(body))))


def _cut_parts(body: str) -> str:
    """A body without its Why and How."""
    ends = [place for mark in (WHY, HOW) if (place := body.find(mark)) >= 0]
    return body[: min(ends)] if ends else body


def _find_part(body: str, mark: str) -> str:
    _, found, rest = body.partition(mark)
    return rest.split("\n\n")[0].strip() if found else ""


def _find_header_terms(header: Header) -> frozenset[str]:
    return find_terms(f"{header.name.replace('-', ' ')} {header.title} {header.description}")


def _find_all_terms(known: _Known) -> frozenset[str]:
    return find_terms(_flatten(known))


def _flatten(known: _Known) -> str:
    return f"{known.name.replace('-', ' ')} {known.title} {known.description} {' '.join(known.sentences)}"


def _matches(target: frozenset[str], terms: frozenset[str]) -> bool:
    least = 1.0 if len(target) <= _ALL else _COVER
    return bool(target) and measure_cover(target, terms) >= least
