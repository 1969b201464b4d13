"""The head of a memory file: text to fields, and fields back into the text without losing a byte of the rest.

Two dialects are read and written: `type:` at the top, and `type:` inside `metadata:`. Reading forgives: whatever cannot
be understood becomes an empty field and a `problem` in words. Writing edits single lines, so unknown keys, their order,
comments, line ends and the body stay as they were; a result that does not read back as intended is refused.

It does not check whether a description is any good (`drafts`), nor whether a file may be written (`guard`).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, Union

from memdir.errors import FormatError
from memdir.frozen import compile_late, dataclass, field
from memdir.limits import FRONTMATTER_DEPTH, HEADER_BYTES, HEADER_LINES
from memdir.records import Dialect, Kind
from memdir.text import one_line, replace_surrogates

# --- yaml_subset ---
# YAML as frontmatter uses it: mappings, lists and strings; no tags, no anchors, bounded depth, one kind of error.
#
# Most heads are `key: value` lines, and those are read here directly, because importing PyYAML costs every prompt 20
# ms.
# Anything else goes to PyYAML's event parser, from which we build strings only: `no` stays "no", a date stays text, an
# alias bomb is refused before it is expanded. A head that even PyYAML cannot read is read line by line.

Node: TypeAlias = Union[str, list["Node"], dict[str, "Node"]]  # noqa: UP007  (a recursive alias cannot be written with `|`)

_KEY_LINE = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_-]*):(?:[ ]+(.*?))?[ ]*\r?\n?\Z")
_PLAIN = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`][^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]*\Z")
_QUOTED = compile_late(r"\"([^\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]*)\"\Z|'([^'\x00-\x1f\x7f-\x9f\u2028\u2029]*)'\Z")
_BARE_SCALAR = compile_late(r"[^\W\d_][\w .,;/()+=~$^<>–—…\u2010-\u201f-]*\Z")
# Words that other YAML readers turn into something that is not text.
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n", "nan", "inf"})
_MUST_ESCAPE = compile_late('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]')


class YamlError(Exception):
    """This is not the YAML we read; the message says where."""


def parse_yaml(head: str) -> dict[str, Node]:
    if len(head) > HEADER_BYTES:
        raise YamlError(f"it is larger than {HEADER_BYTES} bytes")
    simple = _parse_simple(head)
    return simple if simple is not None else _parse_events(head)


def parse_leniently(head: str) -> dict[str, Node]:
    """Whatever `key: value` lines there are, for heads that are no YAML, such as an unquoted `a: b: c`."""
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


def render_scalar(value: str) -> str:
    """A string as YAML that every reader takes for that string: plain where that is safe, else in double quotes."""
    plain = bool(_BARE_SCALAR.match(value)) and value == value.strip() and " #" not in value
    if plain and value.lower() not in _RESERVED and not value.startswith("---"):
        return value
    return '"' + _MUST_ESCAPE.sub(_escape, value) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    return "\\" + char if char in '"\\' else f"\\u{ord(char):04x}"


def _parse_simple(head: str) -> dict[str, Node] | None:
    """Plain `key: value` lines, one level of `metadata:` below; None when it takes a real parser."""
    fields: dict[str, Node] = {}
    block: dict[str, Node] | None = None
    opener, indent = "", ""
    for line in head.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        match = _KEY_LINE.match(line)
        value = _read_scalar(match.group(3)) if match else None
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


def _read_scalar(value: str | None) -> str | None:
    if value is None:
        return ""
    if _PLAIN.match(value):
        return None if ": " in value or " #" in value or value.endswith(":") else value
    quoted = _QUOTED.match(value)
    if quoted is None:
        return None
    return quoted.group(1) if quoted.group(1) is not None else quoted.group(2)


def _parse_events(head: str) -> dict[str, Node]:
    # Imported here and not above: 20 ms that most directories never need.
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        events = iter(yaml.parse(head, Loader=loader))
        node = _build_document(events, yaml)
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


# --- frontmatter ---

_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_TRUE = frozenset({"true", "yes", "on", "1"})
# Keys that live inside `metadata:` in the nested dialect.
_NESTED_KEYS = frozenset({"type", "pinned", "modified", "verified"})


@dataclass(frozen=True, slots=True)
class FrontmatterParts:
    """A file cut at its fences. `head` is the lines between them; without frontmatter `opening` is empty."""

    opening: str
    head: str
    closing: str
    body: str

    @property
    def text(self) -> str:
        return self.opening + self.head + self.closing + self.body


@dataclass(frozen=True, slots=True)
class FrontmatterFields:
    """What a head says. `title` is its `name:`, else the first heading below it."""

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
    start = 1 if lines and lines[0].startswith("\ufeff") else 0
    if not lines or not _FENCE.match(lines[0][start:]):
        return FrontmatterParts("", "", "", text)
    for number, line in enumerate(lines[1:], 1):
        if _FENCE.match(line):
            head = "".join(lines[1:number])
            opening, closing = lines[0], line
            return FrontmatterParts(opening, head, closing, text[len(opening) + len(head) + len(closing) :])
    return FrontmatterParts("", "", "", text)


def parse_fields(text: str) -> FrontmatterFields:
    """The fields of a file's text, or of its first lines. Never raises."""
    parts = split_frontmatter(text)
    if not parts.opening:
        if text.lstrip("\ufeff").startswith("---"):
            problem = f"the frontmatter is not closed within {HEADER_LINES} lines"
        else:
            problem = "no frontmatter"
        return FrontmatterFields(title=find_heading(text), problem=problem)
    problem = ""
    try:
        raw = parse_yaml(parts.head)
    except YamlError as error:
        raw, problem = parse_leniently(parts.head), f"frontmatter is not plain YAML: {error}"
    return _make_fields(raw, problem, parts.body)


def find_heading(text: str) -> str:
    match = _HEADING.search(text)
    return one_line(replace_surrogates(match.group(1))) if match else ""


def compose_file(wanted: Mapping[str, str | None], body: str, dialect: Dialect) -> str:
    """A new file from `name`, `description`, `type` and, where wanted, `pinned`."""
    fields = {key: value for key, value in wanted.items() if value is not None}
    top = {key: value for key, value in fields.items() if dialect is Dialect.FLAT or key not in _NESTED_KEYS}
    lines = [f"{key}: {_render_value(key, value)}\n" for key, value in top.items()]
    if dialect is Dialect.NESTED:
        lines.append("metadata:\n")
        nested = {key: value for key, value in fields.items() if key in _NESTED_KEYS}
        lines += [f"  {key}: {_render_value(key, value)}\n" for key, value in nested.items()]
    text = "---\n" + "".join(lines) + "---\n\n" + body.lstrip("\n")
    text = text if text.endswith("\n") else text + "\n"
    _check_reads_back(text, fields)
    return text


def set_fields(text: str, changes: Mapping[str, str | None]) -> str:
    """The same text with some fields changed (None takes a field out); fields that already say so are not touched."""
    parts = split_frontmatter(text)
    if not parts.opening:
        raise FormatError(
            "this file has no frontmatter to edit", field="frontmatter", hint="add name, description and type to it"
        )
    current = parse_fields(text)
    dialect = current.dialect or Dialect.FLAT
    newline = "\r\n" if parts.opening.endswith("\r\n") else "\n"
    lines = split_lines(parts.head)
    for key, value in changes.items():
        nested = dialect is Dialect.NESTED and key in _NESTED_KEYS
        if _field_text(current, key, nested=nested) != value:
            lines = _set_line(lines, key, value, nested=nested, newline=newline)
    edited = FrontmatterParts(parts.opening, "".join(lines), parts.closing, parts.body).text
    _check_reads_back(edited, changes)
    return edited


def replace_body(text: str, body: str) -> str:
    """The same head above another body; a body equal but for surrounding blank lines changes nothing."""
    parts = split_frontmatter(text)
    if body.strip() == parts.body.replace("\r\n", "\n").strip():
        return text
    crlf = parts.opening.endswith("\r\n") or (not parts.opening and "\r\n" in parts.body)
    lead = re.match(r"(?:[ \t]*\r?\n)*", parts.body)
    new = body.lstrip("\n")
    new = new if new.endswith("\n") or not new else new + "\n"
    if crlf:
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    return FrontmatterParts(parts.opening, parts.head, parts.closing, (lead.group() if lead else "") + new).text


def split_lines(text: str, limit: int | None = None) -> list[str]:
    """Lines with their ends, cut at `\\n` alone: `str.splitlines` would also cut at characters YAML keeps."""
    if limit is None:
        *ended, last = text.split("\n")
        return [*(f"{line}\n" for line in ended), *([last] if last else [])]
    lines: list[str] = []
    start = 0
    while start < len(text) and len(lines) < limit:
        end = text.find("\n", start) + 1 or len(text)
        lines.append(text[start:end])
        start = end
    return lines


def take_head(data: bytes) -> bytes:
    """The first 30 lines of a file's bytes, or fewer: all that a header needs."""
    end = 0
    for _ in range(HEADER_LINES):
        found = data.find(b"\n", end, HEADER_BYTES)
        if found < 0:
            return data[:HEADER_BYTES]
        end = found + 1
    return data[:end]


def _make_fields(raw: Mapping[str, Node], problem: str, body: str) -> FrontmatterFields:
    metadata = raw.get("metadata")
    nested: Mapping[str, Node] = metadata if isinstance(metadata, dict) else {}
    dialect = Dialect.NESTED if nested and "type" not in raw else Dialect.FLAT
    word = _scalar(raw, nested, "type")
    kind = Kind(word) if word in Kind.__members__.values() else None
    description = _text(raw.get("description"))
    if not problem and kind is None:
        problem = f"unknown type {one_line(word)!r}" if word else "no type"
    if not problem and not description:
        problem = "no description"
    return FrontmatterFields(
        title=_text(raw.get("name")) or find_heading(body),
        description=description,
        kind=kind,
        pinned=_scalar(raw, nested, "pinned").lower() in _TRUE,
        modified=_scalar(raw, nested, "modified"),
        dialect=dialect,
        problem=problem,
        verified=_scalar(raw, nested, "verified"),
        raw=raw,
    )


def _scalar(raw: Mapping[str, Node], nested: Mapping[str, Node], key: str) -> str:
    value = raw.get(key, nested.get(key))
    return value.strip() if isinstance(value, str) else ""


def _text(node: Node | None) -> str:
    return one_line(replace_surrogates(node)) if isinstance(node, str) else ""


def _field_text(fields: FrontmatterFields, key: str, *, nested: bool) -> str | None:
    holder = fields.raw.get("metadata") if nested else fields.raw
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, str) else None


def _check_reads_back(text: str, wanted: Mapping[str, str | None]) -> None:
    fields = parse_fields(text)
    metadata = fields.raw.get("metadata")
    nested = metadata if isinstance(metadata, dict) else {}
    for key, value in wanted.items():
        found = fields.raw.get(key, nested.get(key))
        if found != value:
            raise FormatError(
                f"the frontmatter cannot hold this {key}", field=key, hint=f"use plain words on one line for {key}"
            )


def _set_line(lines: list[str], key: str, value: str | None, *, nested: bool, newline: str) -> list[str]:
    """Replace, insert or remove the line of one key, and nothing else."""
    start, end = (0, len(lines)) if not nested else _find_block(lines, "metadata")
    if nested and (flow := _edit_flow(lines[start], key, value)) is not None:
        return [*lines[:start], flow, *lines[start + 1 :]]
    indent = "" if not nested else _find_indent(lines[start + 1 : end])
    pattern = re.compile(rf"{indent}(?:{key}|\"{key}\"|'{key}')[ \t]*:")
    for number in range(start, end):
        if pattern.match(lines[number]):
            until = _find_end(lines, number, len(indent))
            fresh = (
                []
                if value is None
                else [_render_over(lines[number], until - number == 1, _render_value(key, value), newline)]
            )
            return [*lines[:number], *fresh, *lines[until:]]
    if value is None:
        return lines
    place = end if nested else _find_place(lines, key)
    if place and not lines[place - 1].endswith("\n"):
        lines = [*lines[: place - 1], lines[place - 1] + newline, *lines[place:]]
    return [*lines[:place], f"{indent}{key}: {_render_value(key, value)}{newline}", *lines[place:]]


def _render_value(key: str, value: str) -> str:
    """A pin is a truth value; everything else is text, whatever it looks like."""
    return value if key == "pinned" and value in ("true", "false") else render_scalar(value)


def _render_over(line: str, is_single: bool, value: str, newline: str) -> str:
    """The same key with another value, rendered; a comment behind a one-line value stays."""
    prefix = line[: line.index(":") + 1]
    ending = newline if line.endswith("\n") else ""
    comment = re.search(r"[ \t]#[^\"']*$", line.rstrip("\r\n")) if is_single else None
    kept = comment.group() if comment else ""
    return f"{prefix} {value}{kept}{ending}"


def _find_block(lines: list[str], key: str) -> tuple[int, int]:
    for number, line in enumerate(lines):
        if re.match(rf"{key}[ \t]*:", line):
            return number, _find_end(lines, number, 0)
    raise FormatError(f"no {key} block in the frontmatter", field=key)


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


def _find_indent(lines: list[str]) -> str:
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            return line[: len(line) - len(line.lstrip(" "))]
    return "  "


def _find_place(lines: list[str], key: str) -> int:
    """Below the fields that come before it by custom: name, description, type."""
    order = ("name", "description", "type")
    before = order[: order.index(key)] if key in order else order
    for earlier in reversed(before):
        for number, line in enumerate(lines):
            if re.match(rf"{earlier}[ \t]*:", line):
                return _find_end(lines, number, 0)
    return 0 if key == "name" else len(lines)


def _edit_flow(line: str, key: str, value: str | None) -> str | None:
    """`metadata: {type: x}` on one line; None when it is written as a block."""
    match = re.match(r"(metadata[ \t]*:[ \t]*\{)(.*)(\}[^}]*)\Z", line, re.DOTALL)
    if not match:
        return None
    pairs = [pair for pair in match.group(2).split(",") if pair.strip() and not re.match(rf"\s*{key}\s*:", pair)]
    if value is not None:
        pairs.append(f" {key}: {_render_value(key, value)}" if pairs else f"{key}: {value}")
    return match.group(1) + ",".join(pairs) + match.group(3)


# --- dialects ---
# A memory file told in the other dialect: `type:` at the top of its head, or inside `metadata:`.
#
# Only the head is written anew, and only where it has to be: a file that is in the wanted dialect already keeps every
# byte, and the body always does. Keys that neither dialect knows move with their block. A head that cannot be read is
# left as it is; it does not judge whether a file may be written.

# What stands inside `metadata:` in the nested dialect, in this order.
_NESTED = ("type", "pinned", "modified", "verified", "node_type", "originSessionId")
_METADATA = re.compile(r"metadata[ \t]*:[ \t]*(?:#.*)?\r?\n?\Z")


def translate_dialect(text: str, dialect: Dialect) -> str:
    """The same file in that dialect; as it is if it is so already, or its head cannot be moved line by line."""
    fields, parts = parse_fields(text), split_frontmatter(text)
    if fields.dialect is None or fields.dialect is dialect or fields.problem:
        return text
    lines = split_lines(parts.head)
    moved = _unnest(lines) if dialect is Dialect.FLAT else _nest(lines, "\r\n" if "\r\n" in parts.opening else "\n")
    told = FrontmatterParts(parts.opening, "".join(moved), parts.closing, parts.body).text
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
