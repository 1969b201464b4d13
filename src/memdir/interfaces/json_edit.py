"""JSON and TOML as text: values are inserted and removed, and every other byte stays.

JSON may have comments and trailing commas, which some hosts allow. A TOML file gets one table at its end; of what stands
behind it there only our own table is removed again, since hosts add theirs.
"""

import json
import re
import tomllib
from typing import NamedTuple

from memdir.errors import FormatError
from memdir.frozen import dataclass

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_DEPTH = 100
_UNIT = "  "
# With the comments that earlier versions put around the table, and the empty line before it.
_OWN_TABLE = re.compile(
    r"(?:^[ \t]*\r?\n)?(?:^# memdir: begin.*\n)?(?:^[ \t]*\[\s*mcp_servers\s*\.\s*memdir\s*[.\]].*\n?(?:^(?![ \t]*(?:\[|#|\r?$)).*\n?)*)+"
    r"|^# memdir: end.*\n?",
    re.MULTILINE,
)


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
    starts: tuple[int, ...] = ()

    def find(self, key: str) -> "JsonNode | None":
        """The member of that name; the last of several counts, as it does for parsers."""
        return self.children[self.find_number(key)] if key in self.keys else None

    def find_number(self, key: str) -> int:
        return max(number for number, name in enumerate(self.keys) if name == key)


def parse_json_text(text: str) -> JsonNode:
    """Parse a text; raises FormatError with line and column."""
    node = _parse(text, _skip(text, 1 if text.startswith("\ufeff") else 0), 0)
    if (end := _skip(text, node.end)) != len(text):
        raise _fault(text, end)
    return node


def insert_child(text: str, parent: JsonNode, key: str | None, value: object) -> TextSplice:
    """Insert a member at the end of a table, or with None as the key an item at the end of a list."""
    prefix = "" if key is None else f"{json.dumps(key)}: "
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, parent.start)
    if parent.children:
        first, at = parent.starts[0], parent.children[-1].end
        if "\n" not in text[parent.start + 1 : first]:
            return TextSplice(at, f", {prefix}{json.dumps(value)}")
        inner = _indent_at(text, first)
        unit, comma, tail = inner.removeprefix(outer) or _UNIT, ",", ""
    else:
        indented = re.search(r"\n([ \t]+)\S", text)
        unit, comma, at = indented[1] if indented else _UNIT, "", parent.start + 1
        inner, tail = outer + unit, "" if "\n" in text[at : parent.end - 1] else newline + outer
    shown = json.dumps(value, indent=unit).replace("\n", newline + inner)
    return TextSplice(at, f"{comma}{newline}{inner}{prefix}{shown}{tail}")


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
    following, comma = starts[number + 1], _skip(text, end)
    rest = _end_comment(text[end:comma]) + text[comma + 1 : following].lstrip()
    return text[:start] + rest + text[following:]


def _drop_comma(text: str, start: int, end: int) -> str:
    comma = _skip(text, start)
    return text[start:comma] + text[comma + 1 : end] if comma < end else text[start:end]


def _end_comment(text: str) -> str:
    """Without white space at its end, but for the one that ends a comment."""
    bare = text.rstrip()
    return f"{bare}\n" if "//" in bare.rpartition("\n")[2] else bare


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _parse(text: str, at: int, depth: int) -> JsonNode:
    if depth > _DEPTH:
        raise FormatError("it is nested too deeply", field="json")
    close = {"{": "}", "[": "]"}.get(text[at : at + 1])
    if close is None:
        found = _STRING.match(text, at) or _SCALAR.match(text, at)
        return JsonNode("scalar", at, found.end() if found else at, _load(text, at, found))
    keys: list[str] = []
    children: list[JsonNode] = []
    starts: list[int] = []
    here = _skip(text, at + 1)
    while text[here : here + 1] != close:
        starts.append(here)
        if close == "}":
            key = _STRING.match(text, here)
            colon = _skip(text, key.end()) if key else here
            if text[colon : colon + 1] != ":":
                raise _fault(text, colon)
            keys.append(str(_load(text, here, key)))
            here = _skip(text, colon + 1)
        children.append(_parse(text, here, depth + 1))
        here = _skip(text, children[-1].end)
        if text[here : here + 1] == ",":
            here = _skip(text, here + 1)
        elif text[here : here + 1] != close:
            raise _fault(text, here)
    values = [child.value for child in children]
    value: object = dict(zip(keys, values, strict=True)) if close == "}" else values
    kind = "table" if close == "}" else "list"
    return JsonNode(kind, at, here + 1, value, tuple(keys), tuple(children), tuple(starts))


def _load(text: str, at: int, found: re.Match[str] | None) -> object:
    try:
        return json.loads(found[0] if found else "")
    except ValueError:
        raise _fault(text, at) from None


def _skip(text: str, at: int) -> int:
    return found.end() if (found := _BLANK.match(text, at)) else at


def _fault(text: str, at: int) -> FormatError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return FormatError(f"it is no valid JSON: line {line}, column {column}", field="json")


def parse_toml_text(text: str) -> dict[str, object]:
    """The table; raises FormatError."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is no valid TOML: {error}", field="toml") from None


def append_table(text: str, lines: str) -> TextSplice:
    newline = "\r\n" if "\r\n" in text else "\n"
    start = "" if not text else newline if text.endswith("\n") else newline * 2
    return TextSplice(len(text), start + f"{lines}\n".replace("\n", newline))


def cut_own_table(text: str) -> str:
    return _OWN_TABLE.sub("", text)
