"""The frontmatter of a memory file: text to fields, and fields back into the text without losing a byte of the rest.

Two dialects are read and written: `type:` at the top, and `type:` inside `metadata:`. Reading tolerates everything: what
cannot be parsed becomes an empty field and a `problem` in words. Writing edits single lines, so unknown keys, their
order, comments, line ends and the body stay as they were; a result that does not read back as intended raises.

Most frontmatter is `key: value` lines, and those are read here directly, because importing PyYAML costs every prompt
20 ms. The rest goes to PyYAML's event parser, from which only strings, lists and mappings of bounded depth are built:
`no` stays "no", a date stays text, and tags, anchors and aliases are errors.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, Union

from memdir.errors import FormatError
from memdir.frozen import compile_late, dataclass, field
from memdir.limits import FRONTMATTER_DEPTH, HEADER_BYTES, HEADER_LINES
from memdir.records import Dialect, Kind
from memdir.text import one_line, replace_surrogates

Node: TypeAlias = Union[str, list["Node"], dict[str, "Node"]]  # noqa: UP007  (a recursive alias cannot be written with `|`)

_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_TRUE = frozenset({"true", "yes", "on", "1"})
_ORDER = ("name", "description", "type")
# Keys inside `metadata:` in the nested dialect: those that memdir writes, and others that move with them.
_NESTED_KEYS = frozenset({"type", "pinned", "modified", "verified"})
_MOVED_KEYS = _NESTED_KEYS | {"node_type", "originSessionId"}
_METADATA = compile_late(r"metadata[ \t]*:[ \t]*(?:#.*)?\r?\n?\Z")
_KEY_LINE = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_-]*):(?:[ ]+(.*?))?[ ]*\r?\n?\Z")
_PLAIN = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`][^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]*\Z")
_QUOTED = compile_late(r"\"([^\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]*)\"\Z|'([^'\x00-\x1f\x7f-\x9f\u2028\u2029]*)'\Z")
_BARE_SCALAR = compile_late(r"[^\W\d_][\w .,;/()+=~$^<>–—…\u2010-\u201f-]*\Z")
# Words that other YAML readers turn into something that is not text.
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n", "nan", "inf"})
_MUST_ESCAPE = compile_late('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]')


class YamlError(Exception):
    """This is not the YAML that memdir reads; the message says where."""


@dataclass(frozen=True, slots=True)
class FrontmatterParts:
    """A file cut at its fences. `head` is the lines between them; without frontmatter `opening` is empty."""

    opening: str
    head: str
    closing: str
    body: str

    def render(self, head: str) -> str:
        """Returns the file with another head."""
        return self.opening + head + self.closing + self.body


@dataclass(frozen=True, slots=True)
class FrontmatterFields:
    """The fields of a file. `title` is its `name:`, else the first heading of the body."""

    title: str = ""
    description: str = ""
    kind: Kind | None = None
    pinned: bool = False
    modified: str = ""
    dialect: Dialect | None = None
    problem: str = ""
    verified: str = ""
    raw: Mapping[str, Node] = field(default_factory=dict)


def split_frontmatter(text: str) -> FrontmatterParts:
    """Cut a file at its fences; a fence that does not close within the first 30 lines is no frontmatter."""
    lines = split_lines(text, HEADER_LINES)
    if lines and _FENCE.match(lines[0].removeprefix("\ufeff")):
        for number, line in enumerate(lines[1:], 1):
            if _FENCE.match(line):
                head = "".join(lines[1:number])
                return FrontmatterParts(lines[0], head, line, text[len(lines[0]) + len(head) + len(line) :])
    return FrontmatterParts("", "", "", text)


def parse_fields(text: str) -> FrontmatterFields:
    """Returns the fields of a file's text, or of its first lines. Never raises."""
    parts = split_frontmatter(text)
    if not parts.opening:
        is_open = text.lstrip("\ufeff").startswith("---")
        problem = f"the frontmatter is not closed within {HEADER_LINES} lines" if is_open else "no frontmatter"
        return FrontmatterFields(title=_find_heading(text), problem=problem)
    problem = ""
    try:
        raw = parse_yaml(parts.head)
    except YamlError as error:
        raw, problem = parse_leniently(parts.head), f"frontmatter is not plain YAML: {error}"
    nested = _read_metadata(raw)
    kind = _read_scalar(raw, nested, "type")
    description = _read_line(raw.get("description"))
    if not problem and kind not in Kind.__members__.values():
        problem = f"unknown type {one_line(kind)!r}" if kind else "no type"
    return FrontmatterFields(
        title=_read_line(raw.get("name")) or _find_heading(parts.body),
        description=description,
        kind=Kind(kind) if kind in Kind.__members__.values() else None,
        pinned=_read_scalar(raw, nested, "pinned").lower() in _TRUE,
        modified=_read_scalar(raw, nested, "modified"),
        dialect=Dialect.NESTED if nested and "type" not in raw else Dialect.FLAT,
        problem=problem or ("" if description else "no description"),
        verified=_read_scalar(raw, nested, "verified"),
        raw=raw,
    )


def split_lines(text: str, limit: int = sys.maxsize) -> list[str]:
    """Lines with their ends, cut at `\\n` alone: `str.splitlines` would also cut at characters YAML keeps."""
    *ended, last = text.split("\n", limit)
    return [*(f"{line}\n" for line in ended), *([last] if last and len(ended) < limit else [])]


def take_head(data: bytes) -> bytes:
    """Returns the first 30 lines of a file's bytes, or fewer: all that a header needs."""
    end = 0
    for _ in range(HEADER_LINES):
        found = data.find(b"\n", end, HEADER_BYTES)
        if found < 0:
            return data[:HEADER_BYTES]
        end = found + 1
    return data[:end]


def _find_heading(text: str) -> str:
    match = _HEADING.search(text)
    return _read_line(match.group(1)) if match else ""


def _read_line(node: Node | None) -> str:
    return one_line(replace_surrogates(node)) if isinstance(node, str) else ""


def _read_metadata(raw: Mapping[str, Node]) -> Mapping[str, Node]:
    metadata = raw.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _read_scalar(raw: Mapping[str, Node], nested: Mapping[str, Node], key: str) -> str:
    value = raw.get(key, nested.get(key))
    return value.strip() if isinstance(value, str) else ""


def compose_file(wanted: Mapping[str, str | None], body: str, dialect: Dialect) -> str:
    """Returns a new file with `name`, `description`, `type` and, where given, `pinned`."""
    fields = {key: value for key, value in wanted.items() if value is not None}
    is_nested = dialect is Dialect.NESTED
    lines = [_render_field(*pair) for pair in fields.items() if not (is_nested and pair[0] in _NESTED_KEYS)]
    if is_nested:
        lines += ["metadata:", *(f"  {_render_field(*pair)}" for pair in fields.items() if pair[0] in _NESTED_KEYS)]
    text = "\n".join(["---", *lines, "---", "", body.lstrip("\n")])
    text = text if text.endswith("\n") else text + "\n"
    _check_reads_back(text, fields)
    return text


def set_fields(text: str, changes: Mapping[str, str | None]) -> str:
    """Returns the text with some fields changed (None removes a field); fields with that value already stay as is."""
    parts = split_frontmatter(text)
    if not parts.opening:
        hint = "add name, description and type to it"
        raise FormatError("this file has no frontmatter to edit", field="frontmatter", hint=hint)
    current = parse_fields(text)
    newline = _find_newline(parts)
    lines = split_lines(parts.head)
    for key, value in changes.items():
        nested = current.dialect is Dialect.NESTED and key in _NESTED_KEYS
        found = (_read_metadata(current.raw) if nested else current.raw).get(key)
        if (found if isinstance(found, str) else None) != value:
            lines = _set_line(lines, key, value, nested=nested, newline=newline)
    edited = parts.render("".join(lines))
    _check_reads_back(edited, changes)
    return edited


def replace_body(text: str, body: str) -> str:
    """Returns the text with another body; one that differs only in surrounding blank lines changes nothing."""
    parts = split_frontmatter(text)
    if body.strip() == parts.body.replace("\r\n", "\n").strip():
        return text
    lead = re.match(r"(?:[ \t]*\r?\n)*", parts.body)
    new = body.lstrip("\n")
    new = new if new.endswith("\n") or not new else new + "\n"
    if parts.opening.endswith("\r\n") or (not parts.opening and "\r\n" in parts.body):
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    return parts.opening + parts.head + parts.closing + (lead.group() if lead else "") + new


def translate_dialect(text: str, dialect: Dialect) -> str:
    """Returns the file in that dialect; unchanged if it is so already, or its head cannot be moved line by line."""
    fields, parts = parse_fields(text), split_frontmatter(text)
    if fields.dialect is None or fields.dialect is dialect or fields.problem:
        return text
    lines = split_lines(parts.head)
    moved = parts.render("".join(_unnest(lines) if dialect is Dialect.FLAT else _nest(lines, _find_newline(parts))))
    after = parse_fields(moved)
    names = ("title", "description", "kind", "pinned", "modified", "verified", "problem")
    is_same = all(getattr(after, name) == getattr(fields, name) for name in names)
    return moved if is_same and after.dialect is dialect else text


def _unnest(lines: list[str]) -> list[str]:
    """The lines of the `metadata:` block at the top level."""
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
        (inner if key and key[1] in _MOVED_KEYS and not continued else rest).append(line)
    if rest and not rest[-1].endswith("\n"):
        rest[-1] += newline
    return [*rest, f"metadata:{newline}", *(f"  {line}" for line in inner)]


def _check_reads_back(text: str, wanted: Mapping[str, str | None]) -> None:
    raw = parse_fields(text).raw
    nested = _read_metadata(raw)
    for key, value in wanted.items():
        if raw.get(key, nested.get(key)) != value:
            hint = f"use plain words on one line for {key}"
            raise FormatError(f"the frontmatter cannot hold this {key}", field=key, hint=hint)


def _set_line(lines: list[str], key: str, value: str | None, *, nested: bool, newline: str) -> list[str]:
    """Replace, insert or remove the line of one key, and nothing else."""
    start, end, indent = 0, len(lines), ""
    if nested:
        if (found := _find_key(lines, "metadata")) is None:
            raise FormatError("no metadata block in the frontmatter", field="metadata")
        start, end = found, _find_end(lines, found, 0)
        if (flow := _edit_flow(lines[start], key, value)) is not None:
            return [*lines[:start], flow, *lines[start + 1 :]]
        inner = (line for line in lines[start + 1 : end] if line.strip() and not line.lstrip().startswith("#"))
        first = next(inner, "  ")
        indent = first[: len(first) - len(first.lstrip(" "))]
    pattern = re.compile(rf"{indent}(?:{key}|\"{key}\"|'{key}')[ \t]*:")
    for number in range(start, end):
        if pattern.match(lines[number]):
            until = _find_end(lines, number, len(indent))
            if value is None:
                return [*lines[:number], *lines[until:]]
            line = lines[number]
            # A comment behind a value on one line stays.
            comment = re.search(r"[ \t]#[^\"']*$", line.rstrip("\r\n")) if until == number + 1 else None
            name, ending = line[: line.index(":")], newline if line.endswith("\n") else ""
            fresh = f"{name}: {_render_value(key, value)}{comment.group() if comment else ''}{ending}"
            return [*lines[:number], fresh, *lines[until:]]
    if value is None:
        return lines
    if not nested:
        end = _find_position(lines, key)
    if end and not lines[end - 1].endswith("\n"):
        lines = [*lines[: end - 1], lines[end - 1] + newline, *lines[end:]]
    return [*lines[:end], f"{indent}{_render_field(key, value)}{newline}", *lines[end:]]


def _find_key(lines: list[str], key: str) -> int | None:
    return next((number for number, line in enumerate(lines) if re.match(rf"{key}[ \t]*:", line)), None)


def _find_end(lines: list[str], number: int, indent: int) -> int:
    """Where the value of the key on this line ends: at the next line that is not indented deeper."""
    end = number + 1
    for later in range(number + 1, len(lines)):
        text = lines[later].strip()
        depth = len(lines[later]) - len(lines[later].lstrip(" "))
        if text and depth <= indent:
            break
        if text and not text.startswith("#"):
            end = later + 1
    return end


def _find_position(lines: list[str], key: str) -> int:
    """Where a new key goes: below the fields that usually come before it."""
    before = _ORDER[: _ORDER.index(key)] if key in _ORDER else _ORDER
    for earlier in reversed(before):
        if (number := _find_key(lines, earlier)) is not None:
            return _find_end(lines, number, 0)
    return 0 if key == "name" else len(lines)


def _edit_flow(line: str, key: str, value: str | None) -> str | None:
    """`metadata: {type: x}` on one line; None when it is written as a block."""
    match = re.match(r"(metadata[ \t]*:[ \t]*\{)(.*)(\}[^}]*)\Z", line, re.DOTALL)
    if not match:
        return None
    pairs = [pair for pair in match.group(2).split(",") if pair.strip() and not re.match(rf"\s*{key}\s*:", pair)]
    if value is not None:
        pairs.append(f" {_render_field(key, value)}" if pairs else f"{key}: {value}")
    return match.group(1) + ",".join(pairs) + match.group(3)


def _find_newline(parts: FrontmatterParts) -> str:
    return "\r\n" if parts.opening.endswith("\r\n") else "\n"


def _render_field(key: str, value: str) -> str:
    return f"{key}: {_render_value(key, value)}"


def _render_value(key: str, value: str) -> str:
    """A string as YAML that every reader reads as that string: plain where that is safe, else in double quotes."""
    if key == "pinned" and value in ("true", "false"):
        return value
    is_plain = bool(_BARE_SCALAR.match(value)) and value == value.strip() and " #" not in value
    if is_plain and value.lower() not in _RESERVED and not value.startswith("---"):
        return value
    escaped = _MUST_ESCAPE.sub(lambda at: f"\\{at[0]}" if at[0] in '"\\' else f"\\u{ord(at[0]):04x}", value)
    return f'"{escaped}"'


def parse_yaml(head: str) -> dict[str, Node]:
    if len(head) > HEADER_BYTES:
        raise YamlError(f"it is larger than {HEADER_BYTES} bytes")
    simple = _parse_simple(head)
    return simple if simple is not None else _parse_events(head)


def parse_leniently(head: str) -> dict[str, Node]:
    """Returns whatever `key: value` lines there are, for what is not YAML, such as an unquoted `a: b: c`."""
    fields: dict[str, Node] = {}
    nested: dict[str, Node] = {}
    for line in head[:HEADER_BYTES].split("\n"):
        match = re.match(r"( *)[\"']?([A-Za-z_][\w-]*)[\"']?[ ]*:(?:[ ]+(.*))?$", line.rstrip())
        if match:
            value = (match.group(3) or "").strip()
            quoted = _QUOTED.match(value)
            target = nested if match.group(1) else fields
            target[match.group(2)] = (quoted.group(1) or quoted.group(2) or "") if quoted else value
    if nested and fields.get("metadata") == "":
        fields["metadata"] = nested
    return fields


def _parse_simple(head: str) -> dict[str, Node] | None:
    """Plain `key: value` lines with one level of `metadata:` below; None when it needs a real parser."""
    fields: dict[str, Node] = {}
    block: dict[str, Node] | None = None
    opener, indent = "", ""
    for line in head.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        match = _KEY_LINE.match(line)
        value = _unquote(match.group(3)) if match else None
        if match is None or value is None:
            return None
        lead, key = match.group(1), match.group(2)
        if not lead:
            if opener and not block:
                fields[opener] = ""
            target, block, opener = fields, None, ""
            if match.group(3) is None:
                opener, indent, block = key, "", {}
                fields[key] = block
        else:
            if block is None or (indent and indent != lead) or match.group(3) is None:
                return None
            target, indent = block, lead
        if key in target and target[key] is not block:
            return None
        if lead or match.group(3) is not None:
            target[key] = value
    if opener and not block:
        fields[opener] = ""
    return fields


def _unquote(value: str | None) -> str | None:
    if value is None:
        return ""
    if _PLAIN.match(value):
        return None if ": " in value or " #" in value or value.endswith(":") else value
    quoted = _QUOTED.match(value)
    if quoted is None:
        return None
    return quoted.group(1) if quoted.group(1) is not None else quoted.group(2)


def _parse_events(head: str) -> dict[str, Node]:
    # Imported here: 20 ms that most directories never need.
    import yaml

    try:
        node = _build_document(iter(yaml.parse(head, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))), yaml)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark else ""
        raise YamlError(where + str(getattr(error, "problem", None) or "unreadable")) from None
    except (ValueError, RecursionError, UnicodeError) as error:
        raise YamlError(type(error).__name__) from None
    if not isinstance(node, dict):
        raise YamlError("it is not a mapping")
    return node


def _build_document(events: Iterator[Any], yaml: Any) -> Node:
    next(events)  # stream start
    if isinstance(next(events), yaml.StreamEndEvent):
        return {}
    node = _build(next(events), events, yaml, 1)
    next(events)  # document end
    if not isinstance(next(events), yaml.StreamEndEvent):
        raise YamlError("several documents in one head")
    return node


def _build(event: Any, events: Iterator[Any], yaml: Any, depth: int) -> Node:
    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise YamlError("anchors and aliases are not read")
    if event.tag is not None and event.tag != "!":
        raise YamlError("tags are not read")
    if isinstance(event, yaml.ScalarEvent):
        return str(event.value)
    if depth > FRONTMATTER_DEPTH:
        raise YamlError("nested too deep")
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(_build(event, events, yaml, depth + 1))
        return items
    mapping: dict[str, Node] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _build(event, events, yaml, depth + 1)
        value = _build(next(events), events, yaml, depth + 1)
        mapping[key if isinstance(key, str) else repr(key)] = value
    return mapping
