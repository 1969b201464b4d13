"""Memories that say the same, made one: to the letter, or nearly, with every number, date, name, negation and unit.

Only memories that share a block are compared (the exact text, or what must agree together with the first or the last
words), so the work grows with their number and not with its square. A merge keeps what either memory says: the wider
text, both reasons, and in its body what only the other description said.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from enum import Enum
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from memdir.dream.records import Patch, PatchKind
from memdir.errors import FormatError
from memdir.format import frontmatter
from memdir.format.age import find_link_target, make_targets, resolve_links
from memdir.format.frontmatter import encode, make_memory
from memdir.frozen import dataclass
from memdir.language.requests import find_request_languages
from memdir.records import TEAM_FOLDER, Edit, Forget, Header, Rewrite, StoredMemory
from memdir.store.plan import index_path
from memdir.text import blank_fences, find_fences, one_line, shorten

if TYPE_CHECKING:
    from rapidfuzz.distance import Opcodes


# --- texts as words --------------------------------------------------------------------------------------------------
# Texts as sequences of words, so that two memories can be found to say the same.
#
# Two texts are near duplicates if rapidfuzz aligns their words with no difference but articles, the ending of a number
# or a tense, two letters in the wrong order, and whole clauses that one of them adds. Numbers, dates, names, code,
# units, negations and limiting words are none of these, so they agree whenever two texts are near duplicates. A word
# that is merely similar counts as another word. English only; other languages and code are compared to the letter.

_LONG = 6_000  # characters; a longer text is compared as a whole or not at all
_ADDED_WORDS = 3  # an added clause of fewer may be one more item of a list
_ARTICLES = frozenset("a an the".split())
NEGATIONS = frozenset(
    "not never no none nobody nothing nowhere neither nor cannot without except unless hardly rarely seldom avoid "
    "skip refuse reject forbid stop lack fail instead".split()
)
# Two texts that say the same have the same ones of these.
_LIMITS = NEGATIONS | frozenset(
    "only always all any some every each both most many few several least up exactly about almost nearly must should "
    "may might can could would first second third last next previous before after until since more less fewer than "
    "above below over under if when whenever while once otherwise but still again twice half double".split()
)
# An added clause with one of these may narrow what the rest says, and is then no addition.
_NARROWING = NEGATIONS | frozenset(
    "only if when whenever until before after once but however though although otherwise rather just mostly partly "
    "sometimes may might least provided assuming depending most some few several half often maybe perhaps "
    "probably possibly supposedly apparently".split()
)
_CONTRACTIONS = (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not"))
_ENDINGS = (frozenset(("", "s", "es", "d", "ed")), frozenset(("y", "ies", "ied")))
_DAY = re.compile(r"(?<![\w.-])(\d{4})-(\d\d)(?:-(\d\d))?(?![\w-])")
_TOKEN = re.compile(
    r"""
      (?P<code>`[^`\n]+`|"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»)
    | (?P<exact>\[\[[^\[\]\n]+\]\] | [A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`]*[\w/] | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w
        | (?<![\w/])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]+)* | (?<!\w)[#@][\w-]+ | (?<![\w-])--?[A-Za-z][\w-]*
        | \d{1,2}:\d\d(?::\d\d)? | [A-Za-z]*\d[\w]*(?:[.,:/-]?[A-Za-z0-9_]+)*(?:[.,]\d+)*
        | [A-Za-z_][\w]*(?:[./_][\w-]+)+(?:-[\w-]+)* | [^\W\d_]+(?:-\w+)*-\w*\d\w* )
    | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+(?:['’][^\W\d_]+)*)*)
    | (?P<stop>[.!](?=[\s"'”’»)*_]|\Z)|[。！]|\n\s*\n) | (?P<comma>[;；,，、]|[:：]|[()\[\]]|[—–]|\s-\s)
    | (?P<sign>(?<=\d)['"’”′″]|[^\s'’‘"“”„«»…])              # all else: -20 is not 20, ✅ not ❌, C# not C
    """,
    re.VERBOSE,
)
# Marks of Markdown: bullets, headings, and stars in pairs. Not underscores, which names have, nor the numbers of lists.
_MARKDOWN = re.compile(
    r"""
      `[^`\n]+` | ^[ \t>]*(?:[-*+•]|\#{1,6})[ \t]+
    | (?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])[^*\n]*(?<=[^\s*])(?P=stars)(?![\w*])
    """,
    re.MULTILINE | re.VERBOSE,
)
_CAMEL = re.compile(r".[A-Z]|\A[A-Z]\Z")
_NO_PROSE = re.compile(r"^\s*(?:```|~~~|\|)|<[a-zA-Z/!]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Word:
    """`key` is what is compared. Numbers, code, quotations, signs and names are hard: they have no other spelling.

    A name is a word with capitals that does not open its sentence.
    """

    key: str
    is_hard: bool = False

    @property
    def must_agree(self) -> bool:
        return self.is_hard or self.key in _LIMITS


class Wording:
    """The words of a text without its marks and articles. `edges` are the places at which a clause begins or ends."""

    def __init__(self, text: str) -> None:
        self.words: list[Word] = []
        self.edges = {0}
        for word in _parse_words(text):
            if word is None:
                self.edges.add(len(self.words))
            elif word.key not in _ARTICLES:
                self.words.append(word)
        self.edges.add(len(self.words))
        self.keys = tuple(word.key for word in self.words)

    @property
    def blocks(self) -> tuple[tuple[object, ...], ...]:
        """Keys of which two texts that say the same share one: what must agree, and how they begin or end."""
        fixed = tuple(sorted(word.key for word in self.words if word.is_hard or word.key in NEGATIONS))
        edges = (("first", self.keys[:2]), ("last", self.keys[-2:])) if self.keys else ()
        return tuple((side, fixed, tuple(key[:3] for key in keys)) for side, keys in edges)

    @property
    def signature(self) -> tuple[str, ...]:
        """Values, names, negations and limits, sorted: texts that say the same have the same ones."""
        return tuple(sorted(word.key.lower() for word in self.words if word.must_agree))


class Difference(Enum):
    """How a text stands to another one that says the same."""

    NONE = 0
    MORE = 1
    LESS = -1


def is_prose(text: str) -> bool:
    """Whether a text is English prose of a length that can be compared word by word."""
    is_plain = len(text) <= _LONG and not _NO_PROSE.search(text)
    return is_plain and any(at.name == "en" for at in find_request_languages(text))


def compare(one: Wording, other: Wording) -> Difference | None:
    """Whether one text says the same as the other, or a clause more or less; None if they say different things."""
    if not one.keys or not other.keys:
        return None
    found = {Difference.NONE}
    for op in _align(one, other):
        mine, theirs = one.words[op.src_start : op.src_end], other.words[op.dest_start : op.dest_end]
        if op.tag == "replace" and not all(map(is_variant, mine, theirs)):
            return None
        if op.tag == "delete":
            found.add(Difference.MORE)
            if not _is_clause(one, op.src_start, op.src_end):
                return None
        elif op.tag == "insert":
            found.add(Difference.LESS)
            if not _is_clause(other, op.dest_start, op.dest_end):
                return None
    return max(found, key=lambda at: abs(at.value)) if len(found) < 3 else None


def says(one: str, other: str) -> bool:
    """Whether one text says all of the other."""
    is_comparable = is_prose(one) and is_prose(other)
    return is_comparable and compare(Wording(one), Wording(other)) in (Difference.NONE, Difference.MORE)


def differ_in_value(one: Wording, other: Wording) -> bool:
    """Whether two texts are the same but for one value or name, or for a negation; it proves no contradiction."""
    changes = [at for at in _align(one, other) if at.tag != "equal"]
    if len(changes) != 1:
        return False
    op = changes[0]
    mine, theirs = one.words[op.src_start : op.src_end], other.words[op.dest_start : op.dest_end]
    if op.tag != "replace":
        return [word.key for word in (*mine, *theirs)] in (["not"], ["never"], ["no"])
    wide, narrow = sorted((mine[0].key, theirs[0].key), key=len)
    is_less_exact = narrow.startswith((f"{wide}-", f"{wide}."))  # a date or a version
    return len(mine) == 1 and mine[0].is_hard and theirs[0].is_hard and not is_less_exact


def find_words(text: str) -> frozenset[str]:
    """The keys of everything in a text that says something."""
    return frozenset(word.key.lower() for word in Wording(text).words)


def find_hard(text: str) -> frozenset[str]:
    """Values and names of a text."""
    return frozenset(word.key.lower() for word in Wording(text).words if word.is_hard)


def find_last_days(text: str) -> list[date | None]:
    """For each date in a text, `2027-05-03` or `2027-05`, the last day it can mean; None for one of no calendar."""
    days: list[date | None] = []
    for at in _DAY.finditer(text):
        try:
            days.append(date(int(at[1]), int(at[2]), int(at[3] or 28)))
        except ValueError:
            days.append(None)
    return days


@lru_cache(maxsize=4_096)
def _parse_words(text: str) -> tuple[Word | None, ...]:
    """The words of a text, None for a mark between clauses; its Markdown is left out."""
    return tuple(_name_words(_MARKDOWN.sub(_drop_markdown, text)))


def _drop_markdown(match: re.Match[str]) -> str:
    """The mark of a list item ends what stood before it; code is left as it is."""
    raw = match.group()
    if stars := match["stars"]:
        return f" {raw[len(stars) : -len(stars)]} "
    return raw if raw.startswith("`") else ". "


def _name_words(text: str) -> Iterator[Word | None]:
    opens = True
    for token in _TOKEN.finditer(text):
        sort, raw = token.lastgroup, token.group()
        if sort in ("stop", "comma"):
            opens = opens or sort == "stop"
            yield None
            continue
        if sort == "word":
            yield from _parse_word(raw, opens=opens)
        elif sort == "code":
            yield Word(f"`{' '.join(raw[1:-1].split())}`", True)
        else:
            is_grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", raw)
            yield Word(raw.replace(",", "") if is_grouped else raw, True)
        if opens := raw == "?":
            yield None


def _parse_word(raw: str, *, opens: bool) -> Iterator[Word]:
    low = raw.replace("’", "'").lower()
    plain = low.removesuffix("'s").removesuffix("'")
    if _CAMEL.search(raw) and raw not in ("I", "A"):
        yield Word(raw.replace("’", "'").removesuffix("'s"), True)
    elif raw[:1].isupper() and not opens and plain != "i":
        yield Word(plain, True)
    else:
        for short, long in _CONTRACTIONS:
            plain = plain.replace(short, long)
        yield from map(Word, plain.split())


def is_variant(one: Word, other: Word) -> bool:
    """The same word in another number or tense, or with two neighbouring letters exchanged."""
    if one == other:
        return True
    if one.must_agree or other.must_agree:
        return False
    letters = zip(one.key, other.key, strict=False)
    stem = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], letters))
    mine, theirs = one.key[stem:], other.key[stem:]
    if stem < 3:
        return False
    doubled = one.key[stem - 1] + "ed"  # drops, dropped
    if doubled in (mine, theirs):
        return {mine, theirs} <= {doubled, "", "s"}
    return any({mine, theirs} <= endings for endings in _ENDINGS) or mine == theirs[1::-1] + theirs[2:]


def _align(one: Wording, other: Wording) -> "Opcodes":
    from rapidfuzz.distance import Levenshtein  # at first use: `save` and a session load this package for its logs

    return Levenshtein.opcodes(one.keys, other.keys)


def _is_clause(wording: Wording, start: int, end: int) -> bool:
    """Whether words are whole clauses with nothing in them that could narrow the rest.

    Where the words before and behind are alike, the alignment may have cut at any of several places; each is tried.
    """
    size = end - start
    if size < _ADDED_WORDS:
        return False
    keys = wording.keys
    while start and keys[start - 1] == keys[start + size - 1]:
        start -= 1
    while True:
        if {start, start + size} <= wording.edges:
            added = wording.words[start : start + size]
            return not any(word.is_hard or word.key in _NARROWING for word in added)
        if start + size >= len(keys) or keys[start] != keys[start + size]:
            return False
        start += 1


# --- memories that say the same --------------------------------------------------------------------------------------

LABELS = ("Why", "How to apply")

_CROWD = 24  # neighbours in a sorted block that are compared with a memory
_ORDERED = NEGATIONS | frozenset("before after until since than above below only".split())
# Fields that tools note for themselves; every other field of a head may be a fact.
_NOTED = frozenset("name description type pinned modified verified created updated node_type originsessionid".split())
_PART = re.compile(r"^\*\*(why|how to apply):\*\*[ \t]*", re.IGNORECASE | re.MULTILINE)
_MARKUP = re.compile(
    r"`([^`\n]+)`|(?<![\w/*])\*\*(?=[^\s/*])|(?<=[^\s/*])\*\*(?![\w/*])|(^[ \t>]*(?:[-*+•]|#{1,6})[ \t]+)",
    re.MULTILINE,
)
_COMMENT = re.compile(r"^[ \t]*#[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
_LINK = re.compile(r"(`[^`\n]*`)|\[\[([^\[\]\n|]{1,200})(\|[^\[\]\n]*)?\]\]")


class MemoryFacts:
    """One memory, read once; what the comparisons need of it is made on first use.

    `like` is the text by which a merged memory is compared with the next: its own has what came from descriptions too.
    """

    def __init__(self, memory: StoredMemory, like: "MemoryFacts | None" = None) -> None:
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
    """Return a text without its markup and with single spaces, except in blocks of code."""
    text = text.replace("\r\n", "\n")
    edges = [0, *(edge for fence in find_fences(text) for edge in (fence.start, fence.end)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    pieces[::2] = (
        " ".join(_MARKUP.sub(lambda mark: mark[1] or (" " if mark[2] else ""), prose).split()) for prose in pieces[::2]
    )
    return "\n".join(pieces).strip()


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
    """Return the text with each link that means one memory leading to another; code is left alone."""
    pieces, end = [], 0
    for match in _LINK.finditer(blank_fences(text)):
        if match[1] is None and find_link_target(match[2].strip(), targets) == old:
            pieces += [text[end : match.start()], f"[[{new}{match[3] or ''}]]"]
            end = match.end()
    return "".join((*pieces, text[end:]))


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
