"""A memory file told in the other dialect: `type:` at the top of its head, or inside `metadata:`.

Only the head is written anew, and only where it has to be: a file that is in the wanted dialect already keeps every
byte, and the body always does. Keys that neither dialect knows move with their block. A head that cannot be read is
left as it is; it does not judge whether a file may be written.
"""

import re

from memdir.frontmatter import Parts, parse_fields, split, split_lines
from memdir.records import Dialect

# What stands inside `metadata:` in the nested dialect, in this order.
_NESTED = ("type", "pinned", "modified", "verified", "node_type", "originSessionId")
_METADATA = re.compile(r"metadata[ \t]*:[ \t]*(?:#.*)?\r?\n?\Z")


def translate(text: str, dialect: Dialect) -> str:
    """The same file in that dialect; as it is if it is so already, or its head cannot be moved line by line."""
    fields, parts = parse_fields(text), split(text)
    if fields.dialect is None or fields.dialect is dialect or fields.problem:
        return text
    lines = split_lines(parts.head)
    moved = _unnest(lines) if dialect is Dialect.FLAT else _nest(lines, "\r\n" if "\r\n" in parts.opening else "\n")
    told = Parts(parts.opening, "".join(moved), parts.closing, parts.body).text
    after = parse_fields(told)
    same = (after.title, after.description, after.kind, after.pinned, after.modified, after.verified)
    before = (fields.title, fields.description, fields.kind, fields.pinned, fields.modified, fields.verified)
    return told if same == before and after.dialect is dialect and not after.problem else text


def _unnest(lines: list[str]) -> list[str]:
    """The lines of the `metadata:` block at the top level; keys that stand there already win."""
    start = next((at for at, line in enumerate(lines) if _METADATA.match(line)), None)
    if start is None:
        return lines
    end = start + 1
    while end < len(lines) and (lines[end].startswith((" ", "\t")) or not lines[end].strip()):
        end += 1
    block = lines[start + 1 : end]
    width = min((len(line) - len(line.lstrip(" ")) for line in block if line.strip()), default=0)
    return [*lines[:start], *(line[width:] if line.strip() else line for line in block), *lines[end:]]


def _nest(lines: list[str], newline: str) -> list[str]:
    """Single-line keys of the nested dialect, moved into a block at the end."""
    inner: list[str] = []
    rest: list[str] = []
    for at, line in enumerate(lines):
        key = re.match(r"(\w+)[ \t]*:", line)
        continued = at + 1 < len(lines) and lines[at + 1].startswith((" ", "\t"))
        (inner if key and key[1] in _NESTED and not continued else rest).append(line)
    if rest and not rest[-1].endswith("\n"):
        rest[-1] += newline
    return [*rest, f"metadata:{newline}", *(f"  {line}" for line in inner)]
