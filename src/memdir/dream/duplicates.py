"""Memories that say the same, made one: to the letter, or in other words with every number, date, name and negation.

Candidates are met in buckets, by the text itself, by its bag of words, or by what is left without an added clause; no
two memories are compared that do not share one, so the work grows with their number and not with its square.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from memdir.dream.grammar import (
    AUXILIARY,
    BE,
    LIMITS,
    NEGATIONS,
    OPPOSITES,
    SINGLE,
    VERBS,
    WEEKDAYS,
    Keys,
    Piece,
    Shape,
    Sort,
    Token,
    covers,
    cut_clauses,
    is_past_tense,
    is_same,
    make_pieces,
    parse_tokens,
)
from memdir.dream.records import PatchKind, Proposal, ProposalKind, TidyPatch
from memdir.errors import FormatError
from memdir.extraction.provenance import guess_language
from memdir.format import frontmatter
from memdir.format.age import find_link_target, make_targets, resolve_links
from memdir.frozen import dataclass
from memdir.records import Edit, Forget, Header, Memory, Rewrite
from memdir.store.contract import make_memory, read_time
from memdir.store.inbox import InboxQuote
from memdir.store.plan import TEAM_FOLDER, digest_of, encode, index_path
from memdir.text import one_line, shorten

# --- facts ---
# A memory as the rules see it: the fact, its Why and How to apply, and what in its head must not be mixed up.
#
# Pure. Of a text that is not plain English prose (code, tables, other languages) only the exact form is known, so it
# can
# be found to be the same as another but never nearly the same.

LABELS = ("Why", "How to apply")

_PART = re.compile(r"^\*\*(why|how to apply):\*\*[ \t]*", re.IGNORECASE | re.MULTILINE)
_NO_PROSE = re.compile(r"^\s*(?:```|~~~|\|)|<[a-zA-Z/!]", re.MULTILINE)
_FENCED = re.compile(r"^([ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z))", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(
    r"`([^`\n]+)`|(?<![\w/*])\*\*(?=[^\s/*])|(?<=[^\s/*])\*\*(?![\w/*])|(^[ \t>]*(?:[-*+•]|#{1,6})[ \t]+)",
    re.MULTILINE,
)
_LONG = 6_000  # characters; a longer text is compared as a whole or not at all


def split_parts(body: str) -> tuple[str, dict[str, str]]:
    """The fact, and the paragraphs that begin with Why and How to apply; one label twice is no parting."""
    found = list(_PART.finditer(body))
    names = [at[1].capitalize() for at in found]
    if not found or len(set(names)) < len(names):
        return body.strip(), {}
    ends = [*(at.start() for at in found[1:]), len(body)]
    parts = {name: body[at.end() : end].strip() for name, at, end in zip(names, found, ends, strict=True)}
    return body[: found[0].start()].strip(), parts


def join_parts(main: str, parts: dict[str, str]) -> str:
    return "\n\n".join([main, *(f"**{label}:** {parts[label]}" for label in LABELS if parts.get(label))])


def make_exact(text: str) -> str:
    """A text without its markup and with single spaces: two that agree in this say the same to the letter.

    In blocks of code white space may be what it is all about, and stays.
    """
    parts = _FENCED.split(text.replace("\r\n", "\n"))
    return "\n".join(part if at % 2 else _flatten(part) for at, part in enumerate(parts)).strip()


def _flatten(text: str) -> str:
    return " ".join(_MARKUP.sub(lambda at: at[1] or (" " if at[2] else ""), text).split())


def find_shape(text: str) -> Shape | None:
    return Shape(parse_tokens(text)) if is_prose(text) else None


def is_prose(text: str) -> bool:
    """Whether a text is English prose of a length that can be compared by its build."""
    return len(text) <= _LONG and not _NO_PROSE.search(text) and guess_language(text) in ("en", "")


def find_words(text: str) -> frozenset[str]:
    """The keys of everything in a text that says something."""
    return frozenset(_key(at) for at in parse_tokens(text) if at.sort not in (Sort.BREAK, Sort.EMPTY))


def find_hard(text: str) -> frozenset[str]:
    """Numbers, dates, identifiers and names of a text."""
    tokens = parse_tokens(text)
    return frozenset(_key(at) for at in tokens if at.is_hard or (at.sort is Sort.NAME and not at.opens))


def _key(token: Token) -> str:
    return token.key.lower() if token.sort is Sort.NAME else token.key


class MemoryFacts:
    """One memory, read once; what the comparisons need of it is made when they first ask."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.name = memory.header.name
        self.main, self.parts = split_parts(memory.body)

    @property
    def head(self) -> str:
        return f"{self.memory.header.title}. {self.memory.header.description}."

    @cached_property
    def place(self) -> tuple[str, str]:
        """Memories of another type, or of another index, are never the same memory."""
        return str(self.memory.header.kind), index_path(self.name)[0]

    @cached_property
    def exact(self) -> str:
        return make_exact(self.memory.body)

    @cached_property
    def shape(self) -> Shape | None:
        return Shape(self.tokens) if self.tokens else None

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Those of the fact; none if it is no prose."""
        return parse_tokens(self.main) if is_prose(self.main) else ()

    @cached_property
    def words(self) -> frozenset[str]:
        return find_words(f"{self.head} {self.memory.body}")


# --- uniting ---
# Two memories made one without losing what either says: the wider text, both reasons, both descriptions.
#
# Pure. It does not judge whether the two belong together; `duplicates` does.

_COMMENT = re.compile(r"^[ \t]*#[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
_DESCRIPTION = 300  # characters up to which descriptions are joined; beyond that the second goes into the body
_ORDERED = NEGATIONS | frozenset("before after until since than above below only".split())
# What tools note of a memory for themselves; all else in a head may be a fact.
_NOTED = frozenset("name description type pinned modified verified created updated node_type originsessionid".split())
_LINK = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]*`)|\[\[([^\[\]\n|]{1,200})(\|[^\[\]\n]*)?\]\]", re.DOTALL)


def unite(kept: MemoryFacts, other: MemoryFacts, hooks: tuple[str, ...] = ()) -> str:
    """The text of `kept` with all that `other` says. `hooks` are what index lines say of the other."""
    newer, older = (kept, other) if _is_newer(kept, other) else (other, kept)
    main = choose_wider(newer.main, older.main) or newer.main
    parts = {label: _unite_part(newer.parts.get(label, ""), older.parts.get(label, "")) for label in LABELS}
    text = kept.memory.text
    if (main, parts) != (kept.main, {label: kept.parts.get(label, "") for label in LABELS}):
        text = frontmatter.replace_body(text, join_parts(main, parts))
    return _unite_heads(text, kept, other, hooks)


def choose_wider(one: str, other: str) -> str:
    """Of two texts that say the same the one that also says the other; empty if neither does."""
    if make_exact(one) == make_exact(other):
        return one
    first, second = find_shape(one), find_shape(other)
    if first is None or second is None:
        return ""
    if is_same(first, second) or is_within(second, first):
        return one
    return other if is_within(first, second) else ""


def is_within(inner: Shape, outer: Shape) -> bool:
    """Whether one text is the other with a clause added."""
    more = len(outer.keys) - len(inner.keys)
    return bool(inner.keys) and any(
        span[1] - span[0] == more and outer.leave_out(span) == inner.keys for span in outer.spans
    )


def has_own_fields(other: MemoryFacts, kept: MemoryFacts) -> bool:
    """Whether the head of one has a field or a remark that the other one's has not, and that a merge would drop."""
    own, theirs = (dict(_list_fields(frontmatter.parse_fields(at.memory.text).raw)) for at in (other, kept))
    remarks, known = (_COMMENT.findall(frontmatter.split_frontmatter(at.memory.text).head) for at in (other, kept))
    return any(theirs.get(key) != value for key, value in own.items()) or not set(remarks) <= set(known)


def _list_fields(raw: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in raw.items():
        if key == "metadata" and isinstance(value, dict):
            yield from _list_fields(value)
        elif key.lower() not in _NOTED:
            yield key, value


def repoint(text: str, targets: Mapping[str, str], old: str, new: str) -> str:
    """The text with each link that means one memory leading to another; code is left alone."""

    def swap(match: re.Match[str]) -> str:
        if match[1] is not None or find_link_target(match[2].strip(), targets) != old:
            return match.group()
        return f"[[{new}{match[3] or ''}]]"

    return _LINK.sub(swap, text)


def _is_newer(one: MemoryFacts, other: MemoryFacts) -> bool:
    return (one.memory.header.modified, one.name) >= (other.memory.header.modified, other.name)


def _unite_part(newer: str, older: str) -> str:
    if not newer or not older:
        return newer or older
    # A list or a block of code ends with its line.
    between = "\n\n" if "\n" in newer + older else " "
    return choose_wider(newer, older) or f"{newer}{between}{older}"


def _unite_heads(text: str, kept: MemoryFacts, other: MemoryFacts, hooks: tuple[str, ...]) -> str:
    header, away = kept.memory.header, other.memory.header
    said = find_words(f"{header.title}. {text}")
    letters = make_exact(f"{text} {other.memory.body}").lower()
    added = []
    for phrase in (*away.description.split("; "), away.title, *hooks):
        if not (find_words(phrase) <= said and (_is_plain(phrase) or _strip(phrase).lower() in letters)):
            added.append(_strip(phrase))
            said |= find_words(phrase)
            letters += f" {_strip(phrase).lower()}"
    if added:
        text = _add_phrases(text, header.description.rstrip(" .;"), added)
    return _renew_time(text, kept.memory, other.memory)


def _is_plain(phrase: str) -> bool:
    """Whether a phrase says what its words say, in whatever order: "A before B" has the words of "B before A"."""
    return _ORDERED.isdisjoint(at.key for at in parse_tokens(phrase))


def _strip(phrase: str) -> str:
    return one_line(phrase).rstrip(" .;")


def _add_phrases(text: str, description: str, added: list[str]) -> str:
    joined = "; ".join([description, *added])
    if len(joined) <= _DESCRIPTION:
        return frontmatter.set_fields(text, {"description": joined})
    return add_to_main(text, ". ".join(added) + ".")


def add_to_main(text: str, sentence: str) -> str:
    """The text with one more paragraph behind its fact, before Why and How to apply."""
    body = frontmatter.split_frontmatter(text).body.replace("\r\n", "\n").strip("\n")
    found = re.search(r"^\*\*(?:why|how to apply):\*\*", body, re.IGNORECASE | re.MULTILINE)
    place = found.start() if found else len(body)
    pieces = (body[:place].strip("\n"), sentence, body[place:].strip("\n"))
    return frontmatter.replace_body(text, "\n\n".join(piece for piece in pieces if piece))


def _renew_time(text: str, kept: Memory, other: Memory) -> str:
    """What was said again later is as new as that."""
    before = frontmatter.parse_fields(text).modified
    written = read_time(before)
    if written is None or text == kept.text or other.header.modified <= written:
        return text
    return frontmatter.set_fields(text, {"modified": other.header.modified.isoformat(timespec="seconds")})


# --- duplicates ---

_CROWD = 24  # memories in one bucket that are all compared with one another


def is_reworded(one: MemoryFacts, other: MemoryFacts) -> bool:
    """Whether two memories say the same in other words, or one says what the other does and a clause more."""
    if one.place != other.place or one.shape is None or other.shape is None or not _heads_agree(one, other):
        return False
    if not (is_same(one.shape, other.shape) or is_within(one.shape, other.shape) or is_within(other.shape, one.shape)):
        return False
    if _is_ahead(one, other) or _is_ahead(other, one):
        return False
    labels = one.parts.keys() & other.parts.keys()
    return all(find_signature(one.parts[label]) == find_signature(other.parts[label]) for label in labels)


def is_copy(one: MemoryFacts, other: MemoryFacts) -> bool:
    return one.place == other.place and bool(one.exact) and one.exact == other.exact and _heads_agree(one, other)


def find_signature(text: str) -> tuple[str, ...]:
    """What two texts must agree in to be the same: values, names, negations and limits, sorted."""
    keys = [
        token.key
        for token in parse_tokens(text)
        if token.is_hard or token.is_sign or token.sort is Sort.NAME or token.key in NEGATIONS or token.key in LIMITS
    ]
    return tuple(sorted(key.lower() for key in keys))


def _is_ahead(one: MemoryFacts, other: MemoryFacts) -> bool:
    """Whether one tells what will be and the other what was: in between it has happened, or has not."""
    will, did = ({"will", "shall"}.intersection(at.word for at in fact.tokens) for fact in (one, other))
    return bool(will) and not did and is_past_tense(other.tokens)


def _heads_agree(one: MemoryFacts, other: MemoryFacts) -> bool:
    """Titles and descriptions may differ, but not as those of two things of one sort do."""
    first, second = one.memory.header, other.memory.header
    if find_hard(one.head) - other.words and find_hard(other.head) - one.words:
        return False
    return not (_are_alike(first.title, second.title) or _are_alike(first.description, second.description))


def _are_alike(one: str, other: str) -> bool:
    """Whether two lines are the same but for one word: the left column and the right one."""
    first, second = ([at.key for at in parse_tokens(text) if at.key] for text in (one, other))
    return len(first) == len(second) > 1 and sum(map(str.__ne__, first, second)) == 1


class DuplicateMerge:
    """The memories while they are merged: each step sees what the last one left."""

    def __init__(
        self,
        facts: Mapping[str, MemoryFacts],
        headers: Sequence[Header],
        digests: Mapping[str, str],
        hooks: Mapping[str, tuple[str, ...]],
        keep: frozenset[str],
    ) -> None:
        self.facts = dict(facts)
        self._headers = headers
        self._digests = digests
        self._hooks = hooks
        self._keep = keep
        self._targets = make_targets(headers)
        self._links: dict[str, set[str]] = defaultdict(set)
        for name, linked in resolve_links(headers, {at.name: at.memory.text for at in facts.values()}).items():
            for target in linked:
                self._links[target].add(name)
        self.touched: set[str] = set()
        self.gone: set[str] = set()

    def run(self) -> Iterator[TidyPatch]:
        for pairs, kind in ((self._pair_copies, PatchKind.DUPLICATE), (self._pair_rewordings, PatchKind.REWORDING)):
            for one, other in list(pairs()):
                if one in self.facts and other in self.facts and (patch := self._merge(one, other, kind)) is not None:
                    yield patch

    def _pair_copies(self) -> Iterator[tuple[str, str]]:
        buckets: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for fact in self.facts.values():
            if fact.exact:
                buckets[*fact.place, fact.exact].append(fact.name)
        for names in buckets.values():
            yield from _pair(names)

    def _pair_rewordings(self) -> Iterator[tuple[str, str]]:
        bags: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        whole: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        sizes: set[tuple[object, ...]] = set()
        for fact in self.facts.values():
            if fact.shape is not None and fact.shape.keys:
                bags[*fact.place, fact.shape.bag].append(fact.name)
                whole[*fact.place, fact.shape.keys].append(fact.name)
                sizes.add((*fact.place, len(fact.shape.keys)))
        for names in bags.values():
            yield from _pair(names)
        for fact in self.facts.values():
            for keys in _list_shorter(fact, sizes):
                yield from ((fact.name, name) for name in whole.get((*fact.place, keys), ()) if name != fact.name)

    def _merge(self, one: str, other: str, kind: PatchKind) -> TidyPatch | None:
        first, second = self.facts[one], self.facts[other]
        if not (is_copy(first, second) if kind is PatchKind.DUPLICATE else is_reworded(first, second)):
            return None
        kept, away = sorted((first, second), key=self._rank)
        linkers = self._links[away.name] - {kept.name, away.name}
        if away.name in self._keep or linkers & self._keep or has_own_fields(away, kept):
            return None
        try:
            text = unite(kept, away, self._hooks.get(away.name, ()))
        except FormatError:
            return None
        if text != kept.memory.text and kept.name in self._keep:
            return None
        return self._apply(kept, away, text, linkers, kind)

    def _apply(
        self, kept: MemoryFacts, away: MemoryFacts, text: str, linkers: Iterable[str], kind: PatchKind
    ) -> TidyPatch:
        edits: list[Edit] = []
        if text != kept.memory.text:
            edits.append(self._rewrite(kept.name, text))
        for name in sorted(linkers):
            if name in self.facts:
                moved = repoint(self.facts[name].memory.text, self._targets, away.name, kept.name)
                edits.append(self._rewrite(name, moved))
                self._links[kept.name].add(name)
        edits.append(Forget(away.name, self._digests[away.name]))
        del self.facts[away.name]
        self.gone.add(away.name)
        self.touched |= {kept.name, away.name, *linkers}
        how = "the same text" if kind is PatchKind.DUPLICATE else "the same in other words"
        reason = f"{away.name} says {how} as {kept.name}; {kept.name} stays"
        evidence = f"{kept.name}: {shorten(kept.exact, 200)}\n{away.name}: {shorten(away.exact, 200)}"
        return TidyPatch(kind, (kept.name, away.name), tuple(edits), reason, evidence)

    def _rewrite(self, name: str, text: str) -> Rewrite:
        header = self.facts[name].memory.header
        made = make_memory(name, encode(text), header.signature, header.scope)
        self.facts[name] = MemoryFacts(made)
        return Rewrite(name, text, self._digests[name])

    def _rank(self, fact: MemoryFacts) -> tuple[object, ...]:
        """Who stays: pinned before linked, linked before indexed, then the older one.

        In team memory nothing counts that is another on another machine: if two people's dreams each kept the one that
        the other dropped, both would be gone after a sync.
        """
        linked = self._links[fact.name]
        if fact.name.startswith(f"{TEAM_FOLDER}/"):
            return fact.name not in self._keep, not linked & self._keep, fact.name not in self._hooks, fact.name
        return (
            fact.name not in self._keep,
            not linked & self._keep,
            not linked,
            fact.name not in self._hooks,
            fact.memory.header.modified,
            fact.name,
        )


def _list_shorter(fact: MemoryFacts, sizes: Container[tuple[object, ...]]) -> Iterator[Keys]:
    """What is left of a fact without each clause that could have been added, where a fact of that size is known."""
    if (shape := fact.shape) is not None:
        for span in shape.spans:
            if (*fact.place, len(shape.keys) - span[1] + span[0]) in sizes:
                yield shape.leave_out(span)


def _pair(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, one in enumerate(names):
        yield from ((one, other) for other in names[at + 1 : at + 1 + _CROWD])


# --- contradictions ---
# Statements of which at most one can hold: the same words about the same thing, and one value that differs.
#
# A statement is the clause a sentence begins with; a value is what stands behind its verb: a date, a number, a
# version, a
# name, or whether it is so at all. Only the present counts, and only what a thing can have one of: a person may speak
# two
# languages. A value that is merely less exact, or that the other memory also names, is no contradiction. Precision
# first: what is not clearly one is left alone, and even what is found is only proposed.

_CONTRADICTIONS_CROWD = 6  # so many values of one frame are a list, not a contradiction
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
class ValueClaim:
    """One value of one statement: `frame` is the statement with the value left open."""

    fact: MemoryFacts
    sentence: str
    frame: tuple[object, ...]
    sort: str
    value: str


def find_contradictions(facts: Iterable[MemoryFacts], *, keep: frozenset[str] = frozenset()) -> tuple[Proposal, ...]:
    """Proposals to let the newer of two statements stand; the older one, pinned, is left alone."""
    buckets: defaultdict[tuple[object, ...], list[ValueClaim]] = defaultdict(list)
    for fact in facts:
        for claim in find_claims(fact):
            buckets[*fact.place, claim.sort, claim.frame].append(claim)
    found: dict[tuple[str, str], Proposal] = {}
    for claims in buckets.values():
        if len({claim.value for claim in claims}) > _CONTRADICTIONS_CROWD:
            continue
        newest, *others = sorted(claims, key=_order, reverse=True)
        for older in others:
            if are_contrary(newest, older) and older.fact.name not in keep:
                found.setdefault((newest.fact.name, older.fact.name), _propose(newest, older))
    return tuple(found[names] for names in sorted(found))


def are_contrary(one: ValueClaim, other: ValueClaim) -> bool:
    if one.value == other.value or one.fact.name == other.fact.name:
        return False
    if one.sort == "truth":
        return _are_about_one(one.fact, other.fact)
    if covers(one.value, other.value) or covers(other.value, one.value):
        return False
    said, told = find_words(one.fact.memory.body), find_words(other.fact.memory.body)
    values = frozenset(value.lower() for value in (one.value, other.value))
    return one.value not in told and other.value not in said and _are_about_one(one.fact, other.fact, values)


def find_claims(fact: MemoryFacts) -> Iterator[ValueClaim]:
    for sentence in cut_sentences(fact.tokens):
        core, case = _find_core(sentence)
        verb = _find_verb(core)
        if verb is None or is_past_tense(sentence) or not _HEDGES.isdisjoint(at.key for at in core):
            continue
        text = fact.main[sentence[0].start : sentence[-1].end]
        statement, denied = _deny(core)
        yield ValueClaim(fact, text, (statement, case), "truth", denied)
        for at in range(verb + 1, len(core)):
            if sort := _find_sort(core, at, verb):
                frame = make_pieces([*core[:at], _leave_open(core[at], sort), *core[at + 1 :]])
                yield ValueClaim(fact, text, (frame, case), sort, core[at].key)


def _order(claim: ValueClaim) -> tuple[object, ...]:
    return claim.fact.memory.header.modified, claim.fact.name


def _are_about_one(one: MemoryFacts, other: MemoryFacts, values: frozenset[str] = frozenset()) -> bool:
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


def _propose(newer: ValueClaim, older: ValueClaim) -> Proposal:
    names = (older.fact.name, newer.fact.name)
    why = f"{older.fact.name} and {newer.fact.name} cannot both hold; {newer.fact.name} is newer"
    evidence = tuple(InboxQuote(at.sentence, f"{at.fact.name}.md") for at in (newer, older))
    key = digest_of(encode(f"{newer.sentence}\n{older.sentence}"))[:32]
    title = f"Contradiction: {older.fact.memory.header.title}"
    return Proposal(ProposalKind.CONTRADICTION, names, title, why, (_make_edit(newer, older),), evidence, key)


def _make_edit(newer: ValueClaim, older: ValueClaim) -> Edit:
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
