"""JSON and TOML as text: values are inserted and removed, and every other byte stays.

JSON may have comments and trailing commas, which some hosts allow. A TOML file gets one block of ours at its end, between
two comments. Only our own table is removed again: Codex writes new tables before a comment at the end of its file, so not
all that stands between our comments is ours.
"""

import json
import re
import tomllib
from typing import NamedTuple

from memdir.errors import FormatError
from memdir.frozen import dataclass, field

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_DEPTH = 100
_UNIT = "  "


class TextSplice(NamedTuple):
    """Insert `text` at a position."""

    at: int
    text: str

    def apply(self, text: str) -> str:
        return text[: self.at] + self.text + text[self.at :]

    def undo(self, text: str) -> str:
        """The text before; only for the very text that `apply` made."""
        return text[: self.at] + text[self.at + len(self.text) :]


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value with its span. `children` are a table's members or a list's items, `starts` where each begins with its key."""

    kind: str
    start: int
    end: int
    value: object = None
    keys: tuple[str, ...] = ()
    children: tuple["JsonNode", ...] = ()
    starts: tuple[int, ...] = field(default=())

    def find(self, key: str) -> "JsonNode | None":
        """The member of that name; the last of several counts, as it does for parsers."""
        at = self.find_number(key)
        return None if at is None else self.children[at]

    def find_number(self, key: str) -> int | None:
        return max((number for number, name in enumerate(self.keys) if name == key), default=None)


def parse_json_text(text: str) -> JsonNode:
    """Parse a text; raises FormatError with line and column."""
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    node = _parse(text, start, 0)
    if _skip(text, node.end) != len(text):
        raise _fault(text, _skip(text, node.end))
    return node


def insert_member(text: str, table: JsonNode, key: str, value: object) -> TextSplice:
    return _insert(text, table, f"{json.dumps(key)}: ", value)


def insert_item(text: str, items: JsonNode, value: object) -> TextSplice:
    return _insert(text, items, "", value)


def cut_child(text: str, parent: JsonNode, number: int) -> str:
    """The text without one member or item, and without one comma. Comments beside it are somebody's, and stay."""
    starts, children = parent.starts, parent.children
    start, end = starts[number], children[number].end
    if len(children) == 1:
        first, last = parent.start + 1, parent.end - 1
        rest = text[first:start] + _drop_comma(text, end, last)
        return text[:first] + (rest if rest.strip() else "") + text[last:]
    if number == len(children) - 1:
        before = children[number - 1].end
        return text[:before] + _end_comment(_drop_comma(text, before, start)) + text[end:]
    following = starts[number + 1]
    comma = _skip(text, end)
    rest = _end_comment(text[end:comma]) + text[comma + 1 : following].lstrip()
    return text[:start] + rest + text[following:]


def _drop_comma(text: str, start: int, end: int) -> str:
    comma = _skip(text, start)
    return text[start:comma] + text[comma + 1 : end] if comma < end else text[start:end]


def _end_comment(text: str) -> str:
    """Without white space at its end, but for the one that ends a comment."""
    bare = text.rstrip()
    return f"{bare}\n" if "//" in bare.rpartition("\n")[2] else bare


def _insert(text: str, parent: JsonNode, prefix: str, value: object) -> TextSplice:
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, parent.start)
    if parent.children:
        first, last = parent.starts[0], parent.children[-1].end
        if "\n" not in text[parent.start + 1 : first]:
            return TextSplice(last, f", {prefix}{json.dumps(value)}")
        inner = _indent_at(text, first)
        unit = inner.removeprefix(outer) or _UNIT
        return TextSplice(last, f",{newline}{inner}{prefix}{_render(value, inner, unit, newline)}")
    indented = re.search(r"\n([ \t]+)\S", text)
    unit = indented[1] if indented else _UNIT
    inner = outer + unit
    tail = "" if "\n" in text[parent.start + 1 : parent.end - 1] else newline + outer
    return TextSplice(parent.start + 1, f"{newline}{inner}{prefix}{_render(value, inner, unit, newline)}{tail}")


def _render(value: object, indent: str, unit: str, newline: str) -> str:
    return json.dumps(value, indent=unit).replace("\n", newline + indent)


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _parse(text: str, at: int, depth: int) -> JsonNode:
    if depth > _DEPTH:
        raise FormatError("it is nested too deeply", field="json")
    sign = text[at : at + 1]
    if sign in ("{", "["):
        return _parse_container(text, at, depth, is_table=sign == "{")
    found = _STRING.match(text, at) or _SCALAR.match(text, at)
    if not found:
        raise _fault(text, at)
    try:
        return JsonNode("scalar", at, found.end(), json.loads(found[0]))
    except ValueError:
        raise _fault(text, at) from None


def _parse_container(text: str, at: int, depth: int, *, is_table: bool) -> JsonNode:
    close = "}" if is_table else "]"
    keys: list[str] = []
    children: list[JsonNode] = []
    starts: list[int] = []
    here = _skip(text, at + 1)
    while text[here : here + 1] != close:
        starts.append(here)
        if is_table:
            key = _STRING.match(text, here)
            colon = _skip(text, key.end()) if key else here
            if not key or text[colon : colon + 1] != ":":
                raise _fault(text, colon)
            keys.append(str(json.loads(key[0])))
            here = _skip(text, colon + 1)
        child = _parse(text, here, depth + 1)
        children.append(child)
        here = _skip(text, child.end)
        if text[here : here + 1] == ",":
            here = _skip(text, here + 1)
        elif text[here : here + 1] != close:
            raise _fault(text, here)
    values = [child.value for child in children]
    value: object = dict(zip(keys, values, strict=True)) if is_table else values
    return JsonNode("table" if is_table else "list", at, here + 1, value, tuple(keys), tuple(children), tuple(starts))


def _skip(text: str, at: int) -> int:
    return found.end() if (found := _BLANK.match(text, at)) else at


def _fault(text: str, at: int) -> FormatError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return FormatError(f"it is no valid JSON: line {line}, column {column}", field="json")


BEGIN, END = "# memdir: begin (`memdir uninstall` takes this out)", "# memdir: end"
_BEGINS, _ENDS = BEGIN.partition(" (")[0], END
_OWN = re.compile(r"\[\s*mcp_servers\s*\.\s*memdir\s*[.\]]")


def check_toml(text: str) -> dict[str, object]:
    """The table; raises FormatError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is no valid TOML: {error}", field="toml") from None


def add_block(text: str, lines: str) -> TextSplice:
    newline = "\r\n" if "\r\n" in text else "\n"
    start = "" if not text else newline if text.endswith("\n") else newline * 2
    block = f"{BEGIN}\n{lines.strip()}\n{END}\n".replace("\n", newline)
    return TextSplice(len(text), start + block)


def has_block(text: str) -> bool:
    return bool(_find_ours(text.splitlines(keepends=True)))


def find_block(text: str) -> str:
    lines = text.splitlines(keepends=True)
    own = "".join(lines[at] for at in _find_ours(lines) if not lines[at].startswith((_BEGINS, _ENDS)))
    return own.replace("\r\n", "\n").strip()


def cut_block(text: str) -> str:
    """Without our block, and without the empty line that was put before it."""
    lines = text.splitlines(keepends=True)
    ours = _find_ours(lines)
    if ours and ours[0] and not lines[ours[0] - 1].strip():
        ours = [ours[0] - 1, *ours]
    return "".join(line for at, line in enumerate(lines) if at not in ours)


def _find_ours(lines: list[str]) -> list[int]:
    """The numbers of our lines: the comments, and our table up to the next one of somebody else's."""
    begin = next((at for at, line in enumerate(lines) if line.startswith(_BEGINS)), None)
    end = next((at for at, line in enumerate(lines) if line.startswith(_ENDS) and at > (begin or 0)), None)
    if begin is None or end is None:
        return []
    found, is_own = [begin], True
    for at in range(begin + 1, end):
        if lines[at].lstrip().startswith("["):
            is_own = bool(_OWN.match(lines[at].lstrip()))
        found += [at] if is_own else []
    return [*found, end]
