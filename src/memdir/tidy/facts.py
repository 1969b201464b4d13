"""A memory as the rules see it: the fact, its Why and How to apply, and what in its head must not be mixed up.

Pure. Of a text that is not plain English prose (code, tables, other languages) only the exact form is known, so it can
be found to be the same as another but never nearly the same.
"""

import re
from functools import cached_property

from memdir.records import Memory
from memdir.store.plan import index_path
from memdir.taint.claims import guess_language
from memdir.tidy.shape import Shape
from memdir.tidy.tokens import Sort, Token, parse_tokens

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


class Fact:
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
