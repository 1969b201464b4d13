"""Memories that say the same, made one: to the letter, or nearly, with every number, date, name, negation and unit.

Only memories that share a block are compared (the exact text, or what must agree together with the first or the last
words), so the work grows with their number and not with its square. A merge keeps what either memory says: the wider
text, both reasons, and in its body what only the other description said.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from memdir.dream.compare import NEGATIONS, Word, Wording, compare, find_hard, find_words, is_prose, is_variant, says
from memdir.dream.records import Patch, PatchKind
from memdir.errors import FormatError
from memdir.format import frontmatter
from memdir.format.age import find_link_target, make_targets, resolve_links
from memdir.format.frontmatter import encode, make_memory
from memdir.records import TEAM_FOLDER, Edit, Forget, Header, Memory, Rewrite
from memdir.store.plan import index_path
from memdir.text import one_line, shorten

LABELS = ("Why", "How to apply")

_CROWD = 24  # neighbours in a sorted block that are compared with a memory
_ORDERED = NEGATIONS | frozenset("before after until since than above below only".split())
# Fields that tools note for themselves; every other field of a head may be a fact.
_NOTED = frozenset("name description type pinned modified verified created updated node_type originsessionid".split())
_PART = re.compile(r"^\*\*(why|how to apply):\*\*[ \t]*", re.IGNORECASE | re.MULTILINE)
_FENCED = re.compile(r"^([ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z))", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(
    r"`([^`\n]+)`|(?<![\w/*])\*\*(?=[^\s/*])|(?<=[^\s/*])\*\*(?![\w/*])|(^[ \t>]*(?:[-*+•]|#{1,6})[ \t]+)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"^[ \t]*#[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
_LINK = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]*`)|\[\[([^\[\]\n|]{1,200})(\|[^\[\]\n]*)?\]\]", re.DOTALL)


class MemoryFacts:
    """One memory, read once; what the comparisons need of it is made on first use.

    `like` is the text by which a merged memory is compared with the next: its own has what came from descriptions too.
    """

    def __init__(self, memory: Memory, like: "MemoryFacts | None" = None) -> None:
        self.memory, self._like = memory, like
        self.name = memory.header.name
        self.main, self.parts = split_parts(memory.body)

    @property
    def head(self) -> str:
        return f"{self.memory.header.title}. {self.memory.header.description}."

    @cached_property
    def group(self) -> tuple[str, str]:
        """Memories of another type, or of another index, are never the same memory."""
        return str(self.memory.header.kind), index_path(self.name)[0]

    @cached_property
    def exact(self) -> str:
        return self._like.exact if self._like else make_exact(self.memory.body)

    @cached_property
    def wording(self) -> Wording | None:
        """The words of the fact; None if it is not English prose."""
        return self._like.wording if self._like else Wording(self.main) if is_prose(self.main) else None

    @cached_property
    def blocks(self) -> tuple[tuple[object, ...], ...]:
        return () if self.wording is None else tuple((*self.group, *block) for block in self.wording.blocks)

    @cached_property
    def hard(self) -> frozenset[str]:
        """Values and names of title and description."""
        return find_hard(self.head)

    @cached_property
    def head_words(self) -> tuple[list[Word], list[Word]]:
        """The words of title and description."""
        return Wording(self.memory.header.title).words, Wording(self.memory.header.description).words

    @cached_property
    def words(self) -> frozenset[str]:
        return find_words(f"{self.head} {self.memory.body}")


def is_copy(one: MemoryFacts, other: MemoryFacts) -> bool:
    return one.group == other.group and bool(one.exact) and one.exact == other.exact and _heads_agree(one, other)


def is_reworded(one: MemoryFacts, other: MemoryFacts) -> bool:
    """Whether two memories say nearly the same, or one says what the other does and a clause more."""
    if one.group != other.group or one.wording is None or other.wording is None or not _heads_agree(one, other):
        return False
    if compare(one.wording, other.wording) is None:
        return False
    labels = one.parts.keys() & other.parts.keys()
    return all(Wording(one.parts[label]).signature == Wording(other.parts[label]).signature for label in labels)


def _heads_agree(one: MemoryFacts, other: MemoryFacts) -> bool:
    """Titles and descriptions may differ, but not in values or in one word only: "left column", "right column"."""
    if one.hard - other.words and other.hard - one.words:
        return False
    return not any(map(_differ_in_word, one.head_words, other.head_words))


def _differ_in_word(first: Sequence[Word], second: Sequence[Word]) -> bool:
    return len(first) == len(second) > 1 and sum(not is_variant(*pair) for pair in zip(first, second, strict=True)) == 1


def split_parts(body: str) -> tuple[str, dict[str, str]]:
    """The fact, and the paragraphs that begin with Why and How to apply; a body with a label twice is all fact."""
    found = list(_PART.finditer(body))
    names = [at[1].capitalize() for at in found]
    if not found or len(set(names)) < len(names):
        return body.strip(), {}
    ends = [*(at.start() for at in found[1:]), len(body)]
    parts = {name: body[at.end() : end].strip() for name, at, end in zip(names, found, ends, strict=True)}
    return body[: found[0].start()].strip(), parts


def make_exact(text: str) -> str:
    """A text without its markup and with single spaces, but for those in blocks of code."""
    parts = _FENCED.split(text.replace("\r\n", "\n"))
    parts[::2] = (" ".join(_MARKUP.sub(lambda at: at[1] or (" " if at[2] else ""), at).split()) for at in parts[::2])
    return "\n".join(parts).strip()


def unite(kept: MemoryFacts, other: MemoryFacts, hooks: tuple[str, ...] = ()) -> str:
    """The text of `kept` with all that `other` says. `hooks` are what index lines say of the other."""
    older, newer = sorted((kept, other), key=lambda at: (at.memory.header.modified, at.name))
    main = _choose_wider(newer.main, older.main) or newer.main
    parts = {label: _unite_part(newer.parts.get(label, ""), older.parts.get(label, "")) for label in LABELS}
    text = kept.memory.text
    if (main, parts) != (kept.main, {label: kept.parts.get(label, "") for label in LABELS}):
        labelled = (f"**{label}:** {parts[label]}" for label in LABELS if parts.get(label))
        text = frontmatter.replace_body(text, "\n\n".join((main, *labelled)))
    return _unite_heads(text, kept, other, hooks)


def _choose_wider(one: str, other: str) -> str:
    """Of two texts that say the same the one that also says the other; empty if neither does."""
    if make_exact(one) == make_exact(other) or says(one, other):
        return one
    return other if says(other, one) else ""


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


def _unite_part(newer: str, older: str) -> str:
    if not newer or not older:
        return newer or older
    between = "\n\n" if "\n" in newer + older else " "  # a list or a block of code ends with its line
    return _choose_wider(newer, older) or f"{newer}{between}{older}"


def _unite_heads(text: str, kept: MemoryFacts, other: MemoryFacts, hooks: tuple[str, ...]) -> str:
    """The text with what only the other one's description, title or index lines say, as a paragraph of its body.

    The description stays one line about the memory. A title is a label: it adds something only if it names something.
    """
    header, away = kept.memory.header, other.memory.header
    said = find_words(f"{header.title}. {text}")
    letters = make_exact(f"{text} {other.memory.body}").lower()
    titles = (away.title,) if find_hard(away.title) - said else ()
    added = []
    for phrase in (*away.description.split("; "), *titles, *hooks):
        words, plain = find_words(phrase), one_line(phrase).rstrip(" .;")
        # "A before B" has the words of "B before A".
        if not words <= said or not (_ORDERED.isdisjoint(words) or plain.lower() in letters):
            added.append(plain)
            said |= words
            letters += f" {plain.lower()}"
    return add_to_main(text, ". ".join(added) + ".") if added else text


def find_main_end(body: str) -> int:
    """Where the fact ends and Why or How to apply begins."""
    found = _PART.search(body)
    return found.start() if found else len(body)


def add_to_main(text: str, sentence: str) -> str:
    """The text with one more paragraph behind its fact, before Why and How to apply."""
    body = frontmatter.split_frontmatter(text).body.replace("\r\n", "\n").strip("\n")
    end = find_main_end(body)
    pieces = (body[:end].strip("\n"), sentence, body[end:].strip("\n"))
    return frontmatter.replace_body(text, "\n\n".join(piece for piece in pieces if piece))


class DuplicateMerge:
    """The memories while they are merged: each step sees what the last one left."""

    def __init__(
        self,
        facts: Mapping[str, MemoryFacts],
        headers: Sequence[Header],
        digests: Mapping[str, str],
        hooks: Mapping[str, tuple[str, ...]],
        keep: frozenset[str],
        odd: frozenset[str] = frozenset(),
    ) -> None:
        self.facts, self._digests, self._hooks, self._keep, self._odd = dict(facts), digests, hooks, keep, odd
        self._targets = make_targets(headers)
        self._links: dict[str, set[str]] = defaultdict(set)
        for name, linked in resolve_links(headers, {at.name: at.memory.text for at in facts.values()}).items():
            for target in linked:
                self._links[target].add(name)
        self.touched: set[str] = set()
        self.gone: set[str] = set()

    def run(self) -> Iterator[Patch]:
        for pairs, kind in ((self._pair_copies, PatchKind.DUPLICATE), (self._pair_rewordings, PatchKind.REWORDING)):
            for one, other in list(pairs()):
                if one in self.facts and other in self.facts and (patch := self._merge(one, other, kind)) is not None:
                    yield patch

    def _pair_copies(self) -> Iterator[tuple[str, str]]:
        buckets: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for fact in self.facts.values():
            if fact.exact:
                buckets[*fact.group, fact.exact].append(fact.name)
        yield from (pair for names in buckets.values() for pair in _pair(names))

    def _pair_rewordings(self) -> Iterator[tuple[str, str]]:
        buckets: defaultdict[tuple[object, ...], list[MemoryFacts]] = defaultdict(list)
        for fact in self.facts.values():
            for block in fact.blocks:
                buckets[block].append(fact)
        for facts in buckets.values():
            facts.sort(key=lambda at: at.wording.keys if at.wording else ())
            yield from _pair([at.name for at in facts])

    def _merge(self, one: str, other: str, kind: PatchKind) -> Patch | None:
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
        if text != kept.memory.text and kept.name in self._keep | self._odd:
            return None
        return self._apply(kept, away, text, linkers, kind)

    def _apply(self, kept: MemoryFacts, away: MemoryFacts, text: str, linkers: Iterable[str], kind: PatchKind) -> Patch:
        wider = kept if _choose_wider(kept.main, away.main) == kept.main else away
        edits: list[Edit] = [self._rewrite(kept.name, text, wider)] if text != kept.memory.text else []
        for name in sorted(linkers):
            if name in self.facts:
                moved = repoint(self.facts[name].memory.text, self._targets, away.name, kept.name)
                edits.append(self._rewrite(name, moved))
                self._links[kept.name].add(name)
        edits.append(Forget(away.name, self._digests[away.name]))
        del self.facts[away.name]
        self.gone.add(away.name)
        self.touched |= {kept.name, away.name, *linkers}
        how = "the same text" if kind is PatchKind.DUPLICATE else "nearly the same text"
        reason = f"{away.name} says {how} as {kept.name}; {kept.name} stays"
        evidence = f"{kept.name}: {shorten(kept.exact, 200)}\n{away.name}: {shorten(away.exact, 200)}"
        return Patch(kind, (kept.name, away.name), tuple(edits), reason, (evidence,))

    def _rewrite(self, name: str, text: str, like: MemoryFacts | None = None) -> Rewrite:
        header = self.facts[name].memory.header
        self.facts[name] = MemoryFacts(make_memory(name, encode(text), header.signature, header.scope), like)
        return Rewrite(name, text, self._digests[name])

    def _rank(self, fact: MemoryFacts) -> tuple[object, ...]:
        """Who stays: pinned before linked, linked before indexed, then the older one; a conflict copy last.

        In team memory nothing counts that differs between machines: two dreams must not each drop what the other kept.
        """
        name, linked = fact.name, self._links[fact.name]
        pins, is_bare = (name not in self._keep, name in self._odd, not linked & self._keep), name not in self._hooks
        if name.startswith(f"{TEAM_FOLDER}/"):
            return *pins, is_bare, name
        return *pins, not linked, is_bare, fact.memory.header.modified, name


def _pair(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, one in enumerate(names):
        yield from ((one, other) for other in names[at + 1 : at + 1 + _CROWD])
