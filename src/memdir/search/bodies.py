"""What is kept of one memory for finding it: the terms of each passage, its links, and what counts before any question.

Pure: text goes in, a record comes out. The first passage is the head, title and description, unless the body says the
same; a file without words has no passage.
"""

from datetime import UTC, datetime

from memdir import frontmatter
from memdir.frozen import dataclass
from memdir.links import find_links
from memdir.records import Kind
from memdir.search.terms import parse_terms, split_passages
from memdir.store.contract import read_time
from memdir.text import fold_link


@dataclass(frozen=True, slots=True)
class Facts:
    """What counts for a memory before anything is asked: age, pin, type, and the names it links to."""

    modified: datetime
    pinned: bool
    kind: Kind | None
    links: frozenset[str]


@dataclass(frozen=True, slots=True)
class Body:
    """One memory as terms: passages on lines of their own, words apart by a space, and how many words in all."""

    path: str
    passages: str
    length: int
    facts: Facts

    @property
    def words(self) -> list[str]:
        """Every word as often as it occurs."""
        return self.passages.split()


def parse_body(path: str, text: str, signature: str) -> Body:
    """What is kept of one memory. A title or description that only repeats the body counts once."""
    fields = frontmatter.parse_fields(text)
    body = frontmatter.split(text).body
    plain = " ".join(body.split())
    stem = path.removesuffix(".md").replace("/", " ").replace("_", " ").replace("-", " ")
    heads = [fields.title or stem, fields.description]
    heads = [at for at in heads if at and " ".join(at.rstrip("….").split()) not in plain]
    parsed = [parse_terms("\n".join(heads)), *map(parse_terms, split_passages(body))]
    passages = [passage for passage in parsed if passage]
    links = frozenset(fold_link(link.removesuffix(".md")) for link, _ in find_links(text))
    written = read_time(fields.modified) or datetime.fromtimestamp(int(signature.split()[2]) / 1e9, UTC)
    modified = max(written, read_time(fields.verified) or written)
    facts = Facts(modified, fields.pinned, fields.kind, links)
    return Body(path, "\n".join(map(" ".join, passages)), sum(map(len, passages)), facts)
