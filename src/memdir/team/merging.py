"""Two versions of a file that come from one: what both sides meant, together. Pure.

    a memory   its head by key, its body by paragraph
    an index   by line

Both texts are kept only where both sides changed the same thing in different ways; the answer says where. An edit wins
over a deletion. Merging is the same in either direction, and doing it again changes nothing, so that machines that
merge the same things come to the same bytes.

A title or a description that both sides changed becomes both, with a stroke between. Of any other key the one that
comes first in the alphabet stays, and of two times of change the later: a type cannot be two. White space between
paragraphs is made even where both sides changed a body; a block of code counts as one paragraph.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from memdir import frontmatter, index
from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.limits import DESCRIPTION_CHARS, TITLE_CHARS
from memdir.team.units import merge_units
from memdir.text import fold

_KEY = re.compile(r"([A-Za-z_\"'][^:\n]*):(?:\s|\Z)")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_BETWEEN = " / "
_JOINED = {"name": TITLE_CHARS, "description": DESCRIPTION_CHARS}


@dataclass(frozen=True, slots=True)
class Merge:
    """A merged text, None for "no file", and in words where the two sides clashed."""

    text: str | None
    clashes: tuple[str, ...] = ()


def merge_memory(base: str | None, one: str | None, other: str | None) -> Merge:
    """Two versions of a memory file as one; None stands for "no file"."""
    if one in (base, other):
        return Merge(other)
    if other == base:
        return Merge(one)
    if one is None or other is None:
        return Merge(other if one is None else one, ("one side took it away, the other changed it: the change stays",))
    parts = [frontmatter.split(text) for text in (base or "", one, other)]
    head, clashes = _merge_head(base or "", one, other)
    body = merge_units(*(split_paragraphs(at.body) for at in parts))
    told = (*clashes, *(f"both sides changed the paragraph “{_begin(at)}”" for at in body.clashes))
    text = _join_body(head, body.pieces)
    if base is None:
        told = ("both sides wrote one of this name", *told)
    return Merge(text, told)


def merge_index(base: str, one: str, other: str) -> str:
    """Two versions of an index as one; a line that both sides have is there once."""
    lines = [_split_index(text) for text in (base, one, other)]
    return "".join(merge_units(*lines).pieces)


def tidy_index(
    text: str, names: Collection[str], preferred: str, *, revived: Collection[str] = (), known: Iterable[str] = ()
) -> str:
    """An index after a merge: no line for what is gone, one line a memory, and a line again for what came back.

    `preferred` says which of two lines for one memory stays; `revived` are memories that one side took away and the
    other kept, and `known` the indexes that may still have their lines.
    """
    alive, back = ({fold(name) for name in at} for at in (names, revived))
    liked = set(_split_index(preferred))
    lines = index.parse_index(text)
    best: dict[str, int] = {}
    for line in lines:
        key = fold(line.name)
        if line.is_pointer and (key not in best or (line.text in liked and lines[best[key]].text not in liked)):
            best[key] = line.number
    kept = [
        at.text for at in lines if not at.is_pointer or (fold(at.name) in alive and best[fold(at.name)] == at.number)
    ]
    tidied = "".join(kept)
    missing: dict[str, str] = {}
    for line in (line for other in known for line in index.parse_index(other)):
        key = fold(line.name)
        if line.is_pointer and key in alive & back and key not in best:
            missing[key] = min(missing.get(key, line.text.strip()), line.text.strip())
    for line_text in missing.values():
        tidied = index.append_pointer(tidied, line_text)
    return tidied


def split_paragraphs(body: str) -> tuple[str, ...]:
    """The paragraphs of a body, without the blank lines between; a fenced block is one with its blank lines."""
    found: list[list[str]] = [[]]
    fence = ""
    for line in body.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence) and not line.strip().strip("`~"):
            fence = ""
        if line.strip() or fence:
            found[-1].append(line.rstrip("\r") if not fence else line)
        elif found[-1]:
            found.append([])
    return tuple("\n".join(lines) for lines in found if lines)


def _join_body(head: str, paragraphs: Sequence[str]) -> str:
    return head + ("\n" if head else "") + "\n\n".join(paragraphs) + ("\n" if paragraphs else "")


def _merge_head(base: str, one: str, other: str) -> tuple[str, tuple[str, ...]]:
    """The fences and what stands between them; and where the keys clashed."""
    before, first, second = (_read_head(text) for text in (base, one, other))
    if first in (before, second):
        return second, ()
    if second == before:
        return first, ()
    if not first or not second:
        return first or second, ("one side took the head away",)
    if first > second:
        first, second, one, other = second, first, other, one
    return _merge_keys(base, first, second, one, other)


def _merge_keys(base: str, first: str, second: str, one: str, other: str) -> tuple[str, tuple[str, ...]]:
    old, left, right = (_split_keys(text) for text in (_read_head(base), first, second))
    merged: dict[str, str] = {}
    clashed: list[str] = []
    for key in [*left, *(key for key in right if key not in left)]:
        was, a, b = old.get(key), left.get(key), right.get(key)
        if a == b or b == was:
            found = a
        elif a == was:
            found = b
        else:
            found = max(a or "", b or "") if key.endswith("modified") else min(at for at in (a, b) if at)
            if not key.endswith("modified"):
                clashed.append(key)
        if found is not None:
            merged[key] = found
    opening = first.split("\n", 1)[0]
    head = f"{opening}\n{''.join(merged[key] for key in _order_keys(merged))}---\n"
    head, told = _join_fields(head, one, other, clashed)
    return head, tuple(f"both sides changed `{key}`{told.get(key, '')}" for key in clashed)


def _order_keys(keys: Iterable[str]) -> list[str]:
    """As they came, but what stands inside `metadata:` right behind it."""
    given = list(keys)
    tops = [key for key in given if "." not in key]
    return [at for top in tops for at in (top, *(key for key in given if key.startswith(f"{top}.")))]


def _join_fields(head: str, one: str, other: str, clashed: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Title and description of both sides where both changed it, as far as they fit."""
    told: dict[str, str] = {}
    for key in clashed:
        values = [_read_field(text, key) for text in (one, other)]
        if key not in _JOINED:
            told[key] = f": {' and '.join(repr(at) for at in sorted(values))}" if all(values) else ""
            continue
        parts = sorted({part for value in values for part in value.split(_BETWEEN) if part})
        joined = _BETWEEN.join(parts)
        if len(joined) > _JOINED[key]:
            continue
        try:
            head = frontmatter.set_fields(head, {key: joined})
        except FormatError:
            continue
    return head, told


def _read_field(text: str, key: str) -> str:
    raw = frontmatter.parse_fields(text).raw
    found = raw.get(key.rpartition(".")[2]) or (raw.get("metadata") or {})
    if isinstance(found, dict):
        found = found.get(key.rpartition(".")[2], "")
    return found if isinstance(found, str) else ""


def _read_head(text: str) -> str:
    """The head with its fences, line ends made even; empty where there is none."""
    parts = frontmatter.split(text)
    lines = (parts.opening + parts.head + parts.closing).replace("\r\n", "\n").lstrip("\ufeff")
    return lines if not lines or lines.endswith("\n") else lines + "\n"


def _split_keys(head: str) -> dict[str, str]:
    """Key -> its lines, in order; those inside `metadata:` each for itself. A line without a key goes with the last."""
    found: dict[str, str] = {}
    top = key = ""
    for line in frontmatter.split_lines(head)[1:-1]:
        match = _KEY.match(line)
        inner = _KEY.match(line.strip()) if not match and line[:1] == " " and top == "metadata" else None
        if match:
            top = key = match.group(1)
        elif inner:
            key = f"{top}.{inner.group(1)}"
        found[key] = found.get(key, "") + line
    return found


def _split_index(text: str) -> list[str]:
    """Lines with one kind of end: the last line of a file without one is the same line."""
    return [line.rstrip("\r\n") + "\n" for line in frontmatter.split_lines(text)]


def _begin(paragraph: str) -> str:
    words = " ".join(paragraph.split())
    return words if len(words) <= 60 else words[:59] + "…"
