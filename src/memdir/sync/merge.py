"""Merge two versions of a memory with one base, by frontmatter keys and paragraphs. `format/index.py` merges indexes.

The result contains every paragraph that either side added, once, and none that one side removed and the other did not
change. Additions of both sides at the same position are ordered by their text. If both sides changed the same paragraph
in different ways, both texts are kept and a conflict is reported. An edit wins over a deletion. The order of the sides
does not matter and merging is idempotent, so that machines that merge the same versions get the same bytes.

If both sides changed a title or description, the result contains both, separated by a slash. For any other key, the
first value in alphabetical order is kept; of two modification times, the later one.
"""

import re
from collections.abc import Sequence
from contextlib import suppress

from memdir.errors import FormatError
from memdir.format import frontmatter
from memdir.frozen import dataclass
from memdir.limits import DESCRIPTION_CHARS, TITLE_CHARS
from memdir.text import list_lines, merge_units, shorten

_KEY = re.compile(r"([A-Za-z_\"'][^:\n]*):(?:\s|\Z)")
_BETWEEN = " / "
_JOINED = {"name": TITLE_CHARS, "description": DESCRIPTION_CHARS}


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The merged text, or None if the file is deleted, and a description of each conflict."""

    text: str | None
    clashes: tuple[str, ...] = ()


def merge_memory(base: str | None, one: str | None, other: str | None) -> MergeResult:
    """Merge two versions of a memory file. None stands for a missing file."""
    if one in (base, other):
        return MergeResult(other)
    if other == base:
        return MergeResult(one)
    if one is None or other is None:
        why = "one side deleted it and the other changed it; the change was kept"
        return MergeResult(other if one is None else one, (why,))
    parts = [frontmatter.split_frontmatter(text) for text in (base or "", one, other)]
    head, clashes = _merge_head(base or "", one, other)
    body = merge_units(*(split_paragraphs(text_part.body) for text_part in parts))
    conflicts = [f"both sides changed the paragraph “{shorten(' '.join(one.split()), 60)}”" for one in body.clashes]
    conflicts = [*(["both sides wrote one of this name"] if base is None else []), *clashes, *conflicts]
    text = head + ("\n" if head else "") + "\n\n".join(body.pieces) + ("\n" if body.pieces else "")
    return MergeResult(text, tuple(conflicts))


def split_paragraphs(body: str) -> tuple[str, ...]:
    """Split a body into paragraphs without the blank lines between them; a fenced block is one paragraph."""
    paragraphs: list[list[str]] = [[]]
    for line, fence in list_lines(body):
        if line.strip() or fence:
            paragraphs[-1].append(line.rstrip("\r") if not fence else line)
        elif paragraphs[-1]:
            paragraphs.append([])
    return tuple("\n".join(lines).rstrip("\r") for lines in paragraphs if lines)


def _merge_head(base: str, one: str, other: str) -> tuple[str, tuple[str, ...]]:
    """Return the merged frontmatter with its fences, and the conflicting keys."""
    before, first, second = (_read_head(text) for text in (base, one, other))
    if first in (before, second):
        return second, ()
    if second == before:
        return first, ()
    if not first or not second:
        return first or second, ("one side took the head away",)
    if first > second:
        first, second, one, other = second, first, other, one
    old, left, right = (_split_keys(text) for text in (before, first, second))
    merged: dict[str, str] = {}
    clashed: list[str] = []
    for key in [*left, *(key for key in right if key not in left)]:
        was, a, b = old.get(key), left.get(key), right.get(key)
        if a == b or b == was:
            value = a
        elif a == was:
            value = b
        else:
            value = max(a or "", b or "") if key.endswith("modified") else min(one for one in (a, b) if one)
            if not key.endswith("modified"):
                clashed.append(key)
        if value is not None:
            merged[key] = value
    opening = first.split("\n", 1)[0]
    # Keep the order, but put the keys inside `metadata:` directly after it.
    tops = [key for key in merged if "." not in key]
    ordered = [one for top in tops for one in (top, *(key for key in merged if key.startswith(f"{top}.")))]
    head = f"{opening}\n{''.join(merged[key] for key in ordered)}---\n"
    head, details = _join_fields(head, one, other, clashed)
    return head, tuple(f"both sides changed `{key}`{details.get(key, '')}" for key in clashed)


def _join_fields(head: str, one: str, other: str, clashed: Sequence[str]) -> tuple[str, dict[str, str]]:
    details: dict[str, str] = {}
    for key in clashed:
        values = [_read_field(text, key) for text in (one, other)]
        if key not in _JOINED:
            details[key] = f": {' and '.join(repr(value) for value in sorted(values))}" if all(values) else ""
            continue
        joined = _BETWEEN.join(sorted({part for value in values for part in value.split(_BETWEEN) if part}))
        if len(joined) <= _JOINED[key]:
            with suppress(FormatError):
                head = frontmatter.set_fields(head, {key: joined})
    return head, details


def _read_field(text: str, key: str) -> str:
    raw = frontmatter.parse_fields(text).raw
    value = raw.get(key.rpartition(".")[2]) or (raw.get("metadata") or {})
    if isinstance(value, dict):
        value = value.get(key.rpartition(".")[2], "")
    return value if isinstance(value, str) else ""


def _read_head(text: str) -> str:
    """Return the frontmatter with its fences and normalised line endings, or "" if there is none."""
    parts = frontmatter.split_frontmatter(text)
    lines = (parts.opening + parts.head + parts.closing).replace("\r\n", "\n").lstrip("\ufeff")
    return lines if not lines or lines.endswith("\n") else lines + "\n"


def _split_keys(head: str) -> dict[str, str]:
    """Return the lines of each key, in order; keys in `metadata:` are separate. A line without a key joins the previous
    one."""
    fields: dict[str, str] = {}
    top = key = ""
    for line in frontmatter.split_lines(head)[1:-1]:
        match = _KEY.match(line)
        inner = _KEY.match(line.strip()) if not match and line[:1] == " " and top == "metadata" else None
        if match:
            top = key = match.group(1)
        elif inner:
            key = f"{top}.{inner.group(1)}"
        fields[key] = fields.get(key, "") + line
    return fields
