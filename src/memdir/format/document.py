"""A memory's text as a document: the fact, Why and How to apply, and their sentences, each with its position.

Reading changes nothing, and an edit replaces a span: all other bytes stay as they were. A part begins at its label, in
bold, as a heading or as the first word of a line, and ends at the next label. A label in code is not a label.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import groupby

from memdir.format.frontmatter import split_frontmatter
from memdir.frozen import dataclass
from memdir.language.sentences import find_sentences
from memdir.records import Kind
from memdir.text import CodeFence, blank_fences, find_fences

_WORDS = r"(why|how[ \t]+to[ \t]+apply)"
_LABEL = re.compile(
    rf"""
      ^[ \t>]*\#{{1,6}}[ \t]*(?:[*_]*{_WORDS}[ \t]*[:：?]?[*_]*[:：?]?[ \t\#]*(?=\r?$)|(?=[*_]*{_WORDS}\b))
    | ^[ \t>]*(?:[-*+][ \t]+)?[*_]{{2}}[ \t]*{_WORDS}[ \t]*[:：?]?[ \t]*[*_]{{2}}[ \t]*[:：]?
    | [*_]{{2}}[ \t]*{_WORDS}[ \t]*(?:[:：?][ \t]*[*_]{{2}}|[*_]{{2}}[ \t]*[:：])
    | ^[ \t>*+-]*{_WORDS}[ \t]*[:：][*_]*
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_LANGUAGE_CHARS = 20  # a longer word after a code fence is text, not a language
_CODE = re.compile(r"`[^`\n]+`")
_PARAGRAPH = re.compile(r"\S.*(?:\n(?!\s*$|\*\*).*)*", re.MULTILINE)  # up to a blank line or a label in bold
_BLANK = re.compile(r"(?:[ \t]*\r?\n)+")
_BLOCK = re.compile(r"[ \t]*(?:[-*+>|#`~]|\d{1,3}[.)])")  # a list item or quotation, which a next line would join


class PartKind(StrEnum):
    """The parts of a body, by the labels that memdir writes."""

    FACT = ""
    WHY = "**Why:**"
    HOW = "**How to apply:**"


@dataclass(frozen=True, slots=True)
class BodyPart:
    """A part of a body. `start` is the offset of its label, `inner` the offset of the text after the label."""

    kind: PartKind
    start: int
    inner: int
    end: int


@dataclass(frozen=True, slots=True)
class BodySentence:
    text: str
    start: int
    end: int
    part: BodyPart


class MemoryDocument:
    """A memory file or its body, parsed on demand. The body begins at the offset `start`."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text, self.start = text, start

    @cached_property
    def fences(self) -> tuple[CodeFence, ...]:
        """The fenced code blocks of the body."""
        return find_fences(self.text[self.start :])

    @cached_property
    def parts(self) -> tuple[BodyPart, ...]:
        """Return the fact, which may be empty, and then each labelled part in order."""
        # Code is not replaced by spaces, because a label includes the spaces after it.
        prose = _CODE.sub(lambda match: "§" * len(match[0]), blank_fences(self.text[self.start :], "§"))
        labels = [(PartKind.FACT, self.start, self.start)]
        for label in _LABEL.finditer(prose):
            words = next(filter(None, label.groups()))
            kind = PartKind.WHY if words[:1] in "wW" else PartKind.HOW
            labels.append((kind, self.start + label.start(), self.start + label.end()))
        ends = [*(start for _, start, _ in labels[1:]), len(self.text)]
        return tuple(BodyPart(*label, end) for label, end in zip(labels, ends, strict=True))

    @cached_property
    def sentences(self) -> tuple[BodySentence, ...]:
        """The sentences of all parts. Lines of code count as sentences, code fences do not."""
        body = self.text[self.start :]
        marks = {
            self.start + fence.start
            for fence in self.fences
            if len(fence.language) <= _LANGUAGE_CHARS and len(body[fence.start : fence.inner].split()) == 1
        }
        sentences = []
        for part in self.parts:
            for low, high in find_sentences(self.text[part.inner : part.end]):
                start, end = part.inner + low, part.inner + high
                if start not in marks:
                    sentences.append(BodySentence(self.text[start:end], start, end, part))
        return tuple(sentences)

    def get_text(self, kind: PartKind) -> str:
        """Return the text of the first part of this kind without its label, or "" if there is none."""
        part = next((part for part in self.parts if part.kind is kind), None)
        return self.text[part.inner : part.end].strip() if part else ""

    def list_sentences(self, kind: PartKind | None = None) -> tuple[str, ...]:
        """Return the sentences of the body, or only those in parts of this kind."""
        return tuple(sentence.text for sentence in self.sentences if kind is None or sentence.part.kind is kind)


def parse_document(text: str) -> MemoryDocument:
    """Return a memory file as a document. To parse only a body, use `MemoryDocument(body)`."""
    return MemoryDocument(text, len(text) - len(split_frontmatter(text).body))


def find_missing_parts(kind: Kind, body: str) -> tuple[PartKind, ...]:
    """Return which of Why and How to apply a feedback or project body lacks."""
    if kind not in {Kind.FEEDBACK, Kind.PROJECT}:
        return ()
    present = {part.kind for part in MemoryDocument(body).parts}
    return tuple(part for part in PartKind if part not in present)


def compose_body(body: str, why: str | None, how: str | None) -> str:
    """Return the body with these Why and How to apply parts, replacing existing parts."""
    for kind, text in ((PartKind.WHY, why), (PartKind.HOW, how)):
        if text and text.strip():
            body = set_part(MemoryDocument(body), kind, text.strip())
    return body


def set_part(document: MemoryDocument, kind: PartKind, text: str) -> str:
    """Return the text with the first paragraph of this part replaced, adding the part if it is missing."""
    whole, paragraph = document.text, f"{kind} {text}"
    if part := next((part for part in document.parts if part.kind is kind), None):
        is_heading = "#" in whole[part.start : part.inner]
        label_end = part.inner + len(whole[part.inner : part.end].partition("\n")[0].rstrip()) * is_heading
        if old := _PARAGRAPH.search(whole, label_end, part.end):
            return _splice(document, old.start(), len(whole[: old.end()].rstrip()), text)
        return _splice(document, label_end, label_end, f"\n{text}" if is_heading else f" {text}")
    later = next((part for part in document.parts if part.kind is PartKind.HOW), None)
    return _insert(document, later.start if later else len(whole), paragraph, "\n\n")


def add_to_fact(document: MemoryDocument, text: str) -> str:
    """Return the text with a line added to its fact, as a new paragraph after a list, quotation or code block."""
    fact = document.parts[0]
    last_line = document.text[: fact.end].rstrip().rpartition("\n")[2]
    return _insert(document, fact.end, text, "\n\n" if _BLOCK.match(last_line) else "\n")


def replace_sentence(document: MemoryDocument, sentence: str, text: str) -> str:
    old = next(known for known in document.sentences if known.text == sentence)
    return _splice(document, old.start, old.end, text)


def drop_sentences(document: MemoryDocument, dropped: Collection[str]) -> str:
    """Return the text without these sentences; lines, parts and code blocks that become empty are removed."""
    text, spans = document.text, list[tuple[int, int]]()
    fences = [(document.start + fence.start, document.start + fence.end) for fence in document.fences]
    for start, end in (*((part.start, part.end) for part in document.parts[1:]), *fences):
        inside = [sentence.text in dropped for sentence in document.sentences if start <= sentence.start < end]
        spans += [(start, end)] if inside and all(inside) else []
    for _, group in groupby(document.sentences, lambda row: (row.part.start, text.rfind("\n", 0, row.start))):
        spans += _find_deletions(text, list(group), dropped)
    left, place = "", 0
    for start, end in [*sorted(spans), (len(text), len(text))]:
        piece = text[place : max(place, start)]
        # Of the blank lines before and after a cut, keep only one gap.
        is_double = place and (left.endswith(("\n\n", "\n\r\n")) or not left[document.start :].strip())
        left += _BLANK.sub("", piece, count=1) if is_double and _BLANK.match(piece) else piece
        place = max(place, end) if start < len(text) else place
    is_end_cut = bool(spans) and not text[place:].strip()
    return left.rstrip() + (_find_newline(text) if text.endswith("\n") else "") if is_end_cut else left


def _find_deletions(text: str, line: Sequence[BodySentence], dropped: Collection[str]) -> Iterable[tuple[int, int]]:
    """Yield the spans to delete from the text of a line in order to remove these sentences."""
    kept = [number for number, sentence in enumerate(line) if sentence.text not in dropped]
    line_end = text.find("\n", line[-1].end) + 1 or len(text)
    end = min(line_end, line[0].part.end)
    if not kept:
        start = text.rfind("\n", 0, line[0].start) + 1
        inner = line[0].part.inner
        yield (len(text[:inner].rstrip()), len(text[:end].rstrip())) if start < inner else (start, end)
        return
    for number, sentence in enumerate(line[: kept[-1]]):
        if sentence.text in dropped:
            yield sentence.start, line[number + 1].start
    if line[kept[-1]] is not line[-1]:
        yield len(text[: line[kept[-1] + 1].start].rstrip()), len(text[:end].rstrip())


def _insert(document: MemoryDocument, place: int, text: str, gap: str) -> str:
    """Insert lines at a position and return the text; `gap` separates them from the text before."""
    before = document.text[document.start : place]
    lead = _BLANK.match(before)
    start = len(before.rstrip()) or (lead.end() if lead else 0)
    ending = "\n" if place == len(document.text) else "\n\n"
    return _splice(document, document.start + start, place, (gap if before.strip() else "") + text + ending)


def _splice(document: MemoryDocument, start: int, end: int, text: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\n", _find_newline(document.text))
    return document.text[:start] + lines + document.text[end:]


def _find_newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
