"""Insert and remove values in JSON and TOML text without changing any other byte.

JSON may contain comments and trailing commas, which some hosts allow. In TOML, our table is appended at the end. Hosts may
add tables after it, so only our own is removed again.
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
# Includes the comments that earlier versions wrote around the table, and the empty line before it.
_OWN_TABLE = re.compile(
    r"(?:^[ \t]*\r?\n)?(?:^# memdir: begin.*\n)?(?:^[ \t]*\[\s*mcp_servers\s*\.\s*memdir\s*[.\]].*\n?(?:^(?![ \t]*(?:\[|#|\r?$)).*\n?)*)+"
    r"|^# memdir: end.*\n?",
    re.MULTILINE,
)


class TextSplice(NamedTuple):
    """An insertion of `text` at the offset `at`."""

    at: int
    text: str

    def apply(self, text: str) -> str:
        return text[: self.at] + self.text + text[self.at :]

    def undo(self, text: str) -> str:
        """Revert the insertion; `text` must be exactly the return value of `apply`."""
        return text[: self.at] + text[self.at + len(self.text) :]


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A JSON value and its span in the text. `children` are its members or items; `starts` are their offsets (of the key)."""

    kind: str
    start: int
    end: int
    value: object = None
    keys: tuple[str, ...] = ()
    children: tuple["JsonNode", ...] = ()
    starts: tuple[int, ...] = ()

    def find(self, key: str) -> "JsonNode | None":
        """Return the member with this name, or None; the last of several wins, as in JSON parsers."""
        return self.children[self.find_number(key)] if key in self.keys else None

    def find_number(self, key: str) -> int:
        return max(number for number, name in enumerate(self.keys) if name == key)


def parse_json_text(text: str) -> JsonNode:
    """Parse JSON with comments; raises FormatError with line and column."""
    node = _parse(text, _skip_blanks(text, 1 if text.startswith("\ufeff") else 0), 0)
    if (end := _skip_blanks(text, node.end)) != len(text):
        raise _make_syntax_error(text, end)
    return node


def insert_child(text: str, parent: JsonNode, key: str | None, value: object) -> TextSplice:
    """Return the insertion of a member at the end of a table or, if the key is None, of an item at the end of a list."""
    prefix = "" if key is None else f"{json.dumps(key)}: "
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, parent.start)
    if parent.children:
        first, offset = parent.starts[0], parent.children[-1].end
        if "\n" not in text[parent.start + 1 : first]:
            return TextSplice(offset, f", {prefix}{json.dumps(value)}")
        inner = _indent_at(text, first)
        unit, comma, tail = inner.removeprefix(outer) or _UNIT, ",", ""
    else:
        indented = re.search(r"\n([ \t]+)\S", text)
        unit, comma, offset = indented[1] if indented else _UNIT, "", parent.start + 1
        inner, tail = outer + unit, "" if "\n" in text[offset : parent.end - 1] else newline + outer
    rendered = json.dumps(value, indent=unit).replace("\n", newline + inner)
    return TextSplice(offset, f"{comma}{newline}{inner}{prefix}{rendered}{tail}")


def cut_child(text: str, parent: JsonNode, number: int) -> str:
    """Return the text without one member or item and its comma. Comments around it are kept, because they are not ours."""
    starts, children = parent.starts, parent.children
    start, end = starts[number], children[number].end
    if len(children) == 1:
        first, last = parent.start + 1, parent.end - 1
        rest = text[first:start] + _drop_comma(text, end, last)
        return text[:first] + (rest if rest.strip() else "") + text[last:]
    if number == len(children) - 1:
        before = children[number - 1].end
        return text[:before] + _end_comment(_drop_comma(text, before, start)) + text[end:]
    following, comma = starts[number + 1], _skip_blanks(text, end)
    rest = _end_comment(text[end:comma]) + text[comma + 1 : following].lstrip()
    return text[:start] + rest + text[following:]


def _drop_comma(text: str, start: int, end: int) -> str:
    comma = _skip_blanks(text, start)
    return text[start:comma] + text[comma + 1 : end] if comma < end else text[start:end]


def _end_comment(text: str) -> str:
    """Strip white space at the end, but keep the newline that ends a comment."""
    bare = text.rstrip()
    return f"{bare}\n" if "//" in bare.rpartition("\n")[2] else bare


def _indent_at(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _parse(text: str, start: int, depth: int) -> JsonNode:
    if depth > _DEPTH:
        raise FormatError("JSON is nested too deeply", field="json")
    close = {"{": "}", "[": "]"}.get(text[start : start + 1])
    if close is None:
        token = _STRING.match(text, start) or _SCALAR.match(text, start)
        return JsonNode("scalar", start, token.end() if token else start, _load_token(text, start, token))
    keys: list[str] = []
    children: list[JsonNode] = []
    starts: list[int] = []
    here = _skip_blanks(text, start + 1)
    while text[here : here + 1] != close:
        starts.append(here)
        if close == "}":
            key = _STRING.match(text, here)
            colon = _skip_blanks(text, key.end()) if key else here
            if text[colon : colon + 1] != ":":
                raise _make_syntax_error(text, colon)
            keys.append(str(_load_token(text, here, key)))
            here = _skip_blanks(text, colon + 1)
        children.append(_parse(text, here, depth + 1))
        here = _skip_blanks(text, children[-1].end)
        if text[here : here + 1] == ",":
            here = _skip_blanks(text, here + 1)
        elif text[here : here + 1] != close:
            raise _make_syntax_error(text, here)
    values = [child.value for child in children]
    value: object = dict(zip(keys, values, strict=True)) if close == "}" else values
    kind = "table" if close == "}" else "list"
    return JsonNode(kind, start, here + 1, value, tuple(keys), tuple(children), tuple(starts))


def _load_token(text: str, offset: int, token: re.Match[str] | None) -> object:
    try:
        return json.loads(token[0] if token else "")
    except ValueError:
        raise _make_syntax_error(text, offset) from None


def _skip_blanks(text: str, offset: int) -> int:
    return blank.end() if (blank := _BLANK.match(text, offset)) else offset


def _make_syntax_error(text: str, offset: int) -> FormatError:
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    return FormatError(f"invalid JSON: line {line}, column {column}", field="json")


def parse_toml_text(text: str) -> dict[str, object]:
    """Parse TOML; raises FormatError if it is invalid."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"invalid TOML: {error}", field="toml") from None


def append_table(text: str, lines: str) -> TextSplice:
    newline = "\r\n" if "\r\n" in text else "\n"
    start = "" if not text else newline if text.endswith("\n") else newline * 2
    return TextSplice(len(text), start + f"{lines}\n".replace("\n", newline))


def cut_own_table(text: str) -> str:
    return _OWN_TABLE.sub("", text)
