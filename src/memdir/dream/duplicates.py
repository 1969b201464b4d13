"""Merge memories with the same text. Memories with the same meaning are left to a model.

A merge loses nothing: details that only the other description, title or index line has are added to the body.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

from memdir.dream.records import Patch, PatchKind
from memdir.errors import FormatError
from memdir.format import frontmatter
from memdir.format.age import find_link_target, make_targets, resolve_links
from memdir.format.document import MemoryDocument, PartKind, add_to_fact, parse_document
from memdir.format.frontmatter import encode, make_memory
from memdir.frozen import dataclass
from memdir.language.requests import find_request_languages
from memdir.records import TEAM_FOLDER, Edit, Forget, Header, Rewrite, StoredMemory
from memdir.store.plan import index_path
from memdir.text import blank_fences, find_fences, one_line, shorten

# --- texts as words --------------------------------------------------------------------------------------------------

_LONG = 6_000  # characters; a longer text is not compared word by word
_ARTICLES = frozenset("a an the".split())
_NEGATIONS = frozenset(
    "not never no none nobody nothing nowhere neither nor cannot without except unless hardly rarely seldom avoid "
    "skip refuse reject forbid stop lack fail instead".split()
)
_CONTRACTIONS = (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not"))
_TOKEN = re.compile(
    r"""
      (?P<code>`[^`\n]+`|"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»)
    | (?P<exact>\[\[[^\[\]\n]+\]\] | [A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`]*[\w/] | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w
        | (?<![\w/])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]+)* | (?<!\w)[#@][\w-]+ | (?<![\w-])--?[A-Za-z][\w-]*
        | \d{1,2}:\d\d(?::\d\d)? | [A-Za-z]*\d[\w]*(?:[.,:/-]?[A-Za-z0-9_]+)*(?:[.,]\d+)*
        | [A-Za-z_][\w]*(?:[./_][\w-]+)+(?:-[\w-]+)* | [^\W\d_]+(?:-\w+)*-\w*\d\w* )
    | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+(?:['’][^\W\d_]+)*)*)
    | (?P<stop>[.!](?=[\s"'”’»)*_]|\Z)|[。！]|\n\s*\n) | (?P<comma>[;；,，、]|[:：]|[()\[\]]|[—–]|\s-\s)
    | (?P<sign>(?<=\d)['"’”′″]|[^\s'’‘"“”„«»…])              # anything else: -20 is not 20, ✅ not ❌, C# not C
    """,
    re.VERBOSE,
)
# Markdown bullets, headings and paired stars; not underscores, which occur in names, nor the numbers of lists.
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
    """A word, compared by `key`. `is_hard`: a number, code, a quotation or a name, which has only one spelling."""

    key: str
    is_hard: bool = False


def is_prose(text: str) -> bool:
    """Return whether a text is English prose that is short enough to compare word by word."""
    is_plain = len(text) <= _LONG and not _NO_PROSE.search(text)
    return is_plain and any(language.name == "en" for language in find_request_languages(text))


def list_words(text: str) -> list[Word]:
    """Return the words of a text without markup and articles."""
    return [word for word in _parse_words(text) if word.key not in _ARTICLES]


def differ_in_value(one: Sequence[Word], other: Sequence[Word]) -> bool:
    """Return whether two texts differ only in one value, name or negation."""
    pairs = list(zip(one, other, strict=False))
    start = next((number for number, (mine, theirs) in enumerate(pairs) if mine.key != theirs.key), len(pairs))
    one, other = one[start:], other[start:]
    while one and other and one[-1].key == other[-1].key:
        one, other = one[:-1], other[:-1]
    if not one or not other:
        return [word.key for word in (*one, *other)] in (["not"], ["never"], ["no"])
    wide, narrow = sorted((one[0].key, other[0].key), key=len)
    is_less_exact = narrow.startswith((f"{wide}-", f"{wide}."))  # a date or a version
    return len(one) == len(other) == 1 and one[0].is_hard and other[0].is_hard and not is_less_exact


def find_words(text: str) -> frozenset[str]:
    """Return the keys of all words in a text except articles."""
    return frozenset(word.key.lower() for word in list_words(text))


def find_hard(text: str) -> frozenset[str]:
    """Return the keys of the values and names in a text."""
    return frozenset(word.key.lower() for word in list_words(text) if word.is_hard)


@lru_cache(maxsize=4_096)
def _parse_words(text: str) -> tuple[Word, ...]:
    return tuple(_name_words(_MARKDOWN.sub(_drop_markdown, text)))


def _drop_markdown(match: re.Match[str]) -> str:
    """Replace bullets and headings with a full stop and remove asterisks. Code is unchanged."""
    raw = match.group()
    if stars := match["stars"]:
        return f" {raw[len(stars) : -len(stars)]} "
    return raw if raw.startswith("`") else ". "


def _name_words(text: str) -> Iterator[Word]:
    opens = True
    for token in _TOKEN.finditer(text):
        sort, raw = token.lastgroup, token.group()
        if sort in ("stop", "comma"):
            opens = opens or sort == "stop"
            continue
        if sort == "word":
            yield from _parse_word(raw, opens=opens)
        elif sort == "code":
            yield Word(f"`{' '.join(raw[1:-1].split())}`", True)
        else:
            is_grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", raw)
            yield Word(raw.replace(",", "") if is_grouped else raw, True)
        opens = raw == "?"


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


# --- duplicate memories ----------------------------------------------------------------------------------------------

_NEIGHBOURS = 24  # copies that follow a memory in its group and are compared with it
_ORDERED = _NEGATIONS | frozenset("before after until since than above below only".split())
# Fields that tools set automatically. Any other frontmatter field may contain a fact.
_NOTED = frozenset("name description type pinned modified verified created updated node_type originsessionid".split())
_MARKUP = re.compile(
    r"`([^`\n]+)`|(?<![\w/*])\*\*(?=[^\s/*])|(?<=[^\s/*])\*\*(?![\w/*])|(^[ \t>]*(?:[-*+•]|#{1,6})[ \t]+)", re.MULTILINE
)
_COMMENT = re.compile(r"^[ \t]*#[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
_LINK = re.compile(r"(`[^`\n]*`)|\[\[([^\[\]\n|]{1,200})(\|[^\[\]\n]*)?\]\]")


class MemoryFacts:
    """A parsed memory. `exact` is its text in the form used for comparison."""

    def __init__(self, memory: StoredMemory, exact: str | None = None) -> None:
        self.memory = memory
        self.name = memory.header.name
        self.document = MemoryDocument(memory.body)
        self.main = self.document.get_text(PartKind.FACT)
        self.exact = make_exact(memory.body) if exact is None else exact

    @property
    def head(self) -> str:
        return f"{self.memory.header.title}. {self.memory.header.description}."

    @cached_property
    def group(self) -> tuple[str, str]:
        """Return the type and index of the memory. Only memories with equal groups can be duplicates."""
        return str(self.memory.header.kind), index_path(self.name)[0]

    @cached_property
    def hard(self) -> frozenset[str]:
        """Return the values and names in the title and description."""
        return find_hard(self.head)

    @cached_property
    def words(self) -> frozenset[str]:
        return find_words(f"{self.head} {self.memory.body}")


def is_copy(one: MemoryFacts, other: MemoryFacts) -> bool:
    return one.group == other.group and bool(one.exact) and one.exact == other.exact and _heads_agree(one, other)


def _heads_agree(one: MemoryFacts, other: MemoryFacts) -> bool:
    """Return whether the titles and descriptions of two memories do not contradict each other."""
    if one.hard - other.words and other.hard - one.words:
        return False
    mine, theirs = one.memory.header, other.memory.header
    for heads in ((mine.title, theirs.title), (mine.description, theirs.description)):
        first, second = map(list_words, heads)
        if len(first) == len(second) > 1 and sum(a != b for a, b in zip(first, second, strict=True)) == 1:
            return False
    return True


def make_exact(text: str) -> str:
    """Return a text without markup and with single spaces. Code blocks are unchanged."""
    text = text.replace("\r\n", "\n")
    edges = [0, *(edge for fence in find_fences(text) for edge in (fence.start, fence.end)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    pieces[::2] = (
        " ".join(_MARKUP.sub(lambda mark: mark[1] or (" " if mark[2] else ""), prose).split()) for prose in pieces[::2]
    )
    return "\n".join(pieces).strip()


def has_own_fields(away: MemoryFacts, kept: MemoryFacts) -> bool:
    """Return whether `away` has frontmatter fields or comments that a merge into `kept` would lose."""
    texts = (away.memory.text, kept.memory.text)
    own, theirs = (dict(_list_fields(frontmatter.parse_fields(text).raw)) for text in texts)
    remarks, known = (_COMMENT.findall(frontmatter.split_frontmatter(text).head) for text in texts)
    return any(theirs.get(key) != value for key, value in own.items()) or not set(remarks) <= set(known)


def _list_fields(raw: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in raw.items():
        if key == "metadata" and isinstance(value, dict):
            yield from _list_fields(value)
        elif key.lower() not in _NOTED:
            yield key, value


def repoint(text: str, targets: Mapping[str, str], old: str, new: str) -> str:
    """Return the text with links to memory `old` changed to `new`. Code is unchanged."""
    pieces, end = [], 0
    for match in _LINK.finditer(blank_fences(text)):
        if match[1] is None and find_link_target(match[2].strip(), targets) == old:
            pieces += [text[end : match.start()], f"[[{new}{match[3] or ''}]]"]
            end = match.end()
    return "".join((*pieces, text[end:]))


def unite(kept: MemoryFacts, other: MemoryFacts, hooks: tuple[str, ...] = ()) -> str:
    """Return `kept` with an added paragraph of details from the other description, title and index lines."""
    text, away = kept.memory.text, other.memory.header
    known = find_words(f"{kept.memory.header.title}. {text}")
    letters = make_exact(f"{text} {other.memory.body}").lower()
    titles = (away.title,) if find_hard(away.title) - known else ()
    phrases = []
    for phrase in (*away.description.split("; "), *titles, *hooks):
        words, plain = find_words(phrase), one_line(phrase).rstrip(" .;")
        # "A before B" and "B before A" have the same words, so compare their order too.
        if not words <= known or not (_ORDERED.isdisjoint(words) or plain.lower() in letters):
            phrases.append(plain)
            known |= words
            letters += f" {plain.lower()}"
    return add_to_fact(parse_document(text), ". ".join(phrases) + ".") if phrases else text


class DuplicateMerge:
    """Merge duplicate memories step by step. Each step uses the result of the previous one."""

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
        for name, linked in resolve_links(headers, {fact.name: fact.memory.text for fact in facts.values()}).items():
            for target in linked:
                self._links[target].add(name)
        self.touched: set[str] = set()
        self.gone: set[str] = set()

    def run(self) -> Iterator[Patch]:
        for one, other in list(self._pair_copies()):
            if one in self.facts and other in self.facts and (patch := self._merge(one, other)) is not None:
                yield patch

    def _pair_copies(self) -> Iterator[tuple[str, str]]:
        buckets: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for fact in self.facts.values():
            if fact.exact:
                buckets[*fact.group, fact.exact].append(fact.name)
        yield from (pair for names in buckets.values() for pair in _list_pairs(names))

    def _merge(self, one: str, other: str) -> Patch | None:
        first, second = self.facts[one], self.facts[other]
        if not is_copy(first, second):
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
        return self._apply(kept, away, text, linkers)

    def _apply(self, kept: MemoryFacts, away: MemoryFacts, text: str, linkers: Iterable[str]) -> Patch:
        edits: list[Edit] = [self._rewrite(kept.name, text, kept.exact)] if text != kept.memory.text else []
        for name in sorted(linkers):
            if name in self.facts:
                moved = repoint(self.facts[name].memory.text, self._targets, away.name, kept.name)
                edits.append(self._rewrite(name, moved))
                self._links[kept.name].add(name)
        edits.append(Forget(away.name, self._digests[away.name]))
        del self.facts[away.name]
        self.gone.add(away.name)
        self.touched |= {kept.name, away.name, *linkers}
        reason = f"{away.name} says the same text as {kept.name}; {kept.name} stays"
        evidence = f"{kept.name}: {shorten(kept.exact, 200)}\n{away.name}: {shorten(away.exact, 200)}"
        return Patch(PatchKind.DUPLICATE, (kept.name, away.name), tuple(edits), reason, (evidence,))

    def _rewrite(self, name: str, text: str, exact: str | None = None) -> Rewrite:
        header = self.facts[name].memory.header
        self.facts[name] = MemoryFacts(make_memory(name, encode(text), header.signature, header.scope), exact)
        return Rewrite(name, text, self._digests[name])

    def _rank(self, fact: MemoryFacts) -> tuple[object, ...]:
        """Return a sort key that puts the memory to keep first.

        Team memories are not ranked by facts that differ between machines, so that all machines keep the same one.
        """
        name, linked = fact.name, self._links[fact.name]
        pins, is_bare = (name not in self._keep, name in self._odd, not linked & self._keep), name not in self._hooks
        if name.startswith(f"{TEAM_FOLDER}/"):
            return *pins, is_bare, name
        return *pins, not linked, is_bare, fact.memory.header.modified, name


def _list_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, one in enumerate(names):
        yield from ((one, other) for other in names[index + 1 : index + 1 + _NEIGHBOURS])
