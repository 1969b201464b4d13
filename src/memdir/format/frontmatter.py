"""Read the frontmatter of a memory file as fields, write fields without changing any other byte, and check drafts.

Two dialects are read and written: `type:` at the top, and `type:` inside `metadata:`. Reading never fails: an invalid part
becomes an empty field and a `problem`. Writing edits single lines, so unknown keys, their order, comments, line ends and the
body do not change; if the result does not read back as intended, an error is raised.

Most frontmatter consists of `key: value` lines, which are read here directly, because importing PyYAML would take 20 ms of
every prompt. The rest is parsed with PyYAML's event parser into strings, lists and mappings of limited depth: `no` stays
"no", a date stays text, and tags, anchors and aliases are errors.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any

from memdir import limits
from memdir.errors import FormatError
from memdir.files import find_refusal, is_name_char
from memdir.format.fields import FIELDS, FLAG, NO_FIELDS, FieldValue, FrontmatterFields, Node, check_line, read_line
from memdir.frozen import compile_late, dataclass
from memdir.limits import FRONTMATTER_DEPTH, HEADER_BYTES, HEADER_LINES
from memdir.records import TEAM_FOLDER, Dialect, Header, Kind, Scope, Signature, StoredMemory
from memdir.text import one_line

_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
_HEADING = compile_late(r"^#{1,6}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_UNQUOTED_KEYS = frozenset(row.key for row in FIELDS if row.schema is FLAG)
_ORDER = ("name", "description", "type")
# Keys inside `metadata:` in the nested dialect.
_NESTED_KEYS = frozenset({"type", "modified", "verified", *(row.key for row in FIELDS if row.is_nested)})
_KEY_LINE = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_-]*):(?:[ ]+(.*?))?[ ]*\r?\n?\Z")
# An unquoted value that contains the beginning of a mapping or a comment.
_UNQUOTED = compile_late(
    r"^((?:name|description):[ ]+)(?=[^\n]*(?:: | #))([^\s\"'|>\[{&*!#][^\n]*?)([ \t]*\r?)$", re.MULTILINE
)
_ITEM = compile_late(r" *- +(\S.*?)[ ]*\r?\Z")
_PLAIN = compile_late(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`][^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]*\Z")
_QUOTED = compile_late(r"\"([^\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]*)\"\Z|'([^'\x00-\x1f\x7f-\x9f\u2028\u2029]*)'\Z")
_BARE_SCALAR = compile_late(r"[^\W\d_][\w .,;/()+=~$^<>–—…\u2010-\u201f-]*\Z")
# Words that other YAML readers do not read as text.
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n", "nan", "inf"})
_MUST_ESCAPE = compile_late('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]')


class YamlError(Exception):
    """Unsupported or invalid YAML; the message says where."""


@dataclass(frozen=True, slots=True)
class FrontmatterParts:
    """A file split at its `---` lines. `head` is the text between them; `opening` is empty without frontmatter."""

    opening: str
    head: str
    closing: str
    body: str

    def render(self, head: str) -> str:
        return self.opening + head + self.closing + self.body


def split_frontmatter(text: str) -> FrontmatterParts:
    """Split a file at its `---` lines; frontmatter that is not closed within the first 30 lines is ignored."""
    lines = split_lines(text, HEADER_LINES)
    if lines and _FENCE.match(lines[0].removeprefix("\ufeff")):
        for number, line in enumerate(lines[1:], 1):
            if _FENCE.match(line):
                head = "".join(lines[1:number])
                return FrontmatterParts(lines[0], head, line, text[len(lines[0]) + len(head) + len(line) :])
    return FrontmatterParts("", "", "", text)


def parse_fields(text: str) -> FrontmatterFields:
    """Return the fields of a file's text, or of its first lines. Never raises."""
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
    description = read_line(raw.get("description"))
    nodes = [(row, raw.get(row.key, nested.get(row.key) if row.is_nested else None)) for row in FIELDS]
    if not problem and kind not in Kind.__members__.values():
        problem = f"unknown type {one_line(kind)!r}" if kind else "no type"
    return FrontmatterFields(
        title=read_line(raw.get("name")) or _find_heading(parts.body),
        description=description,
        kind=Kind(kind) if kind in Kind.__members__.values() else None,
        modified=_read_scalar(raw, nested, "modified"),
        dialect=Dialect.NESTED if nested and "type" not in raw else Dialect.FLAT,
        problem=problem or ("" if description else "no description"),
        verified=_read_scalar(raw, nested, "verified"),
        raw=raw,
        **{row.key: row.parse(node) for row, node in nodes if node is not None},
    )


def split_lines(text: str, limit: int = sys.maxsize) -> list[str]:
    """Split text into lines at `\\n` only, keeping line endings; `str.splitlines` also splits at other characters."""
    *ended, last = text.split("\n", limit)
    return [*(f"{line}\n" for line in ended), *([last] if last and len(ended) < limit else [])]


def take_head(data: bytes) -> bytes:
    """Return the first 30 lines of a file's bytes, which contain its frontmatter."""
    end = 0
    for _ in range(HEADER_LINES):
        newline = data.find(b"\n", end, HEADER_BYTES)
        if newline < 0:
            return data[:HEADER_BYTES]
        end = newline + 1
    return data[:end]


def _find_heading(text: str) -> str:
    match = _HEADING.search(text)
    return read_line(match.group(1)) if match else ""


def _read_metadata(raw: Mapping[str, Node]) -> Mapping[str, Node]:
    metadata = raw.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _read_scalar(raw: Mapping[str, Node], nested: Mapping[str, Node], key: str) -> str:
    value = raw.get(key, nested.get(key))
    return value.strip() if isinstance(value, str) else ""


def compose_file(values: Mapping[str, FieldValue], body: str, dialect: Dialect) -> str:
    """Return a new file with these fields and body; fields that are None are omitted."""
    fields = {key: value for key, value in values.items() if value is not None}
    is_nested = dialect is Dialect.NESTED
    lines = [_render_field(*pair) for pair in fields.items() if not (is_nested and pair[0] in _NESTED_KEYS)]
    if is_nested:
        lines += ["metadata:", *(f"  {_render_field(*pair)}" for pair in fields.items() if pair[0] in _NESTED_KEYS)]
    text = "\n".join(["---", *lines, "---", "", body.lstrip("\n")])
    text = text if text.endswith("\n") else text + "\n"
    _check_reads_back(text, fields)
    return text


def set_fields(text: str, changes: Mapping[str, FieldValue]) -> str:
    """Return the text with these fields changed; None removes a field. Lines with an unchanged value stay the same."""
    parts = split_frontmatter(text)
    if not parts.opening:
        hint = "add name, description and type to it"
        raise FormatError("this file has no frontmatter to edit", field="frontmatter", hint=hint)
    current = parse_fields(text)
    newline = "\r\n" if parts.opening.endswith("\r\n") else "\n"
    lines = split_lines(parts.head)
    for key, value in changes.items():
        nested = current.dialect is Dialect.NESTED and key in _NESTED_KEYS
        node = (_read_metadata(current.raw) if nested else current.raw).get(key)
        if _as_value(node) != value:
            lines = _set_line(lines, key, value, nested=nested, newline=newline)
    edited = parts.render("".join(lines))
    _check_reads_back(edited, changes)
    return edited


def quote_values(text: str) -> str:
    """Return the text with name and description quoted if they contain `: ` or ` #`, which YAML would misread."""
    parts = split_frontmatter(text)
    return parts.render(_UNQUOTED.sub(lambda match: match[1] + _render_value(match[2]) + match[3], parts.head))


def replace_body(text: str, body: str) -> str:
    """Return the text with its body replaced, unless the two differ only in surrounding blank lines."""
    parts = split_frontmatter(text)
    if body.strip() == parts.body.replace("\r\n", "\n").strip():
        return text
    lead = re.match(r"(?:[ \t]*\r?\n)*", parts.body)
    new = body.lstrip("\n")
    new = new if new.endswith("\n") or not new else new + "\n"
    if parts.opening.endswith("\r\n") or (not parts.opening and "\r\n" in parts.body):
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    return parts.opening + parts.head + parts.closing + (lead.group() if lead else "") + new


def follow_dialect(text: str, dialect: Dialect) -> str:
    """Return a file that memdir has just composed in the dialect of the directory for which it is meant."""
    fields = parse_fields(text)
    if fields.dialect is not Dialect.FLAT or dialect is Dialect.FLAT or fields.problem:
        return text
    return compose_file(
        {key: _as_value(node) for key, node in fields.raw.items()}, split_frontmatter(text).body, dialect
    )


def _as_value(node: Node | None) -> FieldValue:
    if isinstance(node, list):
        return tuple(item for item in node if isinstance(item, str))
    if isinstance(node, dict):
        return {key: value for key, item in node.items() if isinstance(value := _as_value(item), str | tuple)}
    return node if isinstance(node, str) else None


def _check_reads_back(text: str, values: Mapping[str, FieldValue]) -> None:
    raw = parse_fields(text).raw
    nested = _read_metadata(raw)
    for key, value in values.items():
        if _as_value(raw.get(key, nested.get(key))) != value:
            hint = f"use plain words on one line for {key}"
            raise FormatError(f"cannot write this {key} as frontmatter", field=key, hint=hint)


def _set_line(lines: list[str], key: str, value: FieldValue, *, nested: bool, newline: str) -> list[str]:
    """Replace, insert or remove only the line of one key."""
    start, end, indent = 0, len(lines), ""
    if nested:
        if (metadata := _find_key(lines, "metadata")) is None:
            raise FormatError("no metadata block in the frontmatter", field="metadata")
        start, end = metadata, _find_end(lines, metadata, 0)
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
            # Keep a comment after a one-line value.
            comment = re.search(r"[ \t]#[^\"']*$", line.rstrip("\r\n")) if until == number + 1 else None
            name, ending = line[: line.index(":")], newline if line.endswith("\n") else ""
            rendered = _render_field(name, value, newline)
            fresh = f"{rendered}{comment.group() if comment and isinstance(value, str) else ''}{ending}"
            return [*lines[:number], fresh, *lines[until:]]
    if value is None:
        return lines
    if not nested:
        end = _find_position(lines, key)
    if end and not lines[end - 1].endswith("\n"):
        lines = [*lines[: end - 1], lines[end - 1] + newline, *lines[end:]]
    return [*lines[:end], f"{indent}{_render_field(key, value, newline)}{newline}", *lines[end:]]


def _find_key(lines: list[str], key: str) -> int | None:
    return next((number for number, line in enumerate(lines) if re.match(rf"{key}[ \t]*:", line)), None)


def _find_end(lines: list[str], number: int, indent: int) -> int:
    """Return the index of the first line after the value of a key, which is the next line not indented deeper."""
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
    """Return the line index at which to insert a new key: after the fields that usually precede it."""
    before = _ORDER[: _ORDER.index(key)] if key in _ORDER else _ORDER
    for earlier in reversed(before):
        if (number := _find_key(lines, earlier)) is not None:
            return _find_end(lines, number, 0)
    return 0 if key == "name" else len(lines)


def _edit_flow(line: str, key: str, value: FieldValue) -> str | None:
    """Return the edited line of a one-line `metadata: {type: x}`, None if it is a block."""
    match = re.match(r"(metadata[ \t]*:[ \t]*\{)(.*)(\}[^}]*)\Z", line, re.DOTALL)
    if not match:
        return None
    pairs = [pair for pair in match.group(2).split(",") if pair.strip() and not re.match(rf"\s*{key}\s*:", pair)]
    if value is not None:
        pairs.append(f" {_render_field(key, value)}" if pairs else f"{key}: {value}")
    return match.group(1) + ",".join(pairs) + match.group(3)


def _render_field(key: str, value: str | tuple[str, ...] | Mapping[str, Any], newline: str = "\n") -> str:
    if isinstance(value, str):
        return f"{key}: {value if key in _UNQUOTED_KEYS else _render_value(value)}"
    if isinstance(value, Mapping):  # lists on one line, because a header has at most 30 lines
        rows = {name: f"[{', '.join(map(_quote, item))}]" for name, item in value.items() if isinstance(item, tuple)}
        texts = {name: item for name, item in value.items() if isinstance(item, str)}
        return newline.join([f"{key}:", *(f"  {name}: {item}" for name, item in {**texts, **rows}.items())])
    return newline.join([f"{key}:", *(f"  - {_render_value(item)}" for item in value)])


def _render_value(value: str) -> str:
    """Return a string as YAML: plain if every parser reads it as that string, otherwise in double quotes."""
    is_plain = bool(_BARE_SCALAR.match(value)) and value == value.strip() and " #" not in value
    if is_plain and value.lower() not in _RESERVED and not value.startswith("---"):
        return value
    return _quote(value)


def _quote(value: str) -> str:
    escaped = _MUST_ESCAPE.sub(lambda char: f"\\{char[0]}" if char[0] in '"\\' else f"\\u{ord(char[0]):04x}", value)
    return f'"{escaped}"'


def parse_yaml(head: str) -> dict[str, Node]:
    if len(head) > HEADER_BYTES:
        raise YamlError(f"it is larger than {HEADER_BYTES} bytes")
    simple = _parse_simple(head)
    return simple if simple is not None else _parse_events(head)


def parse_leniently(head: str) -> dict[str, Node]:
    """Return the `key: value` lines of text that is not valid YAML, such as an unquoted `a: b: c`."""
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
    """Parse `key: value` lines with at most one nested level; return None if a YAML parser is needed."""
    fields: dict[str, Node] = {}
    block: dict[str, Node] | None = None
    opener, indent = "", ""
    for line in head.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        if opener and not block and (item := _ITEM.match(line)):
            value, items = _unquote(item[1]), fields[opener]
            if value is None:
                return None
            fields[opener] = [*items, value] if isinstance(items, list) else [value]
            continue
        match = _KEY_LINE.match(line)
        value = _unquote(match.group(3)) if match else None
        if match is None or value is None:
            return None
        lead, key = match.group(1), match.group(2)
        if not lead:
            if opener and fields[opener] == {}:
                fields[opener] = ""
            target, block, opener = fields, None, ""
            if match.group(3) is None:
                opener, indent, block = key, "", {}
                fields[key] = block
        else:
            if block is None or fields[opener] is not block or (indent and indent != lead) or match.group(3) is None:
                return None
            target, indent = block, lead
        if key in target and target[key] is not block:
            return None
        if lead or match.group(3) is not None:
            target[key] = value
    if opener and fields[opener] == {}:
        fields[opener] = ""
    return fields


def _read_flow_list(value: str) -> list[Node] | None:
    """Parse a list of double-quoted strings, which is valid as YAML and JSON; return None for anything else."""
    try:
        items = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return items if isinstance(items, list) and all(isinstance(item, str) for item in items) else None


def _unquote(value: str | None) -> str | list[Node] | None:
    if value is None:
        return ""
    if _PLAIN.match(value):
        return None if ": " in value or " #" in value or value.endswith(":") else value
    if value.startswith("["):
        return _read_flow_list(value)
    quoted = _QUOTED.match(value)
    if quoted is None:
        return None
    return quoted.group(1) if quoted.group(1) is not None else quoted.group(2)


def _parse_events(head: str) -> dict[str, Node]:
    # Imported here: loading it takes 20 ms, and most directories never need it.
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
        raise YamlError("the frontmatter contains several documents")
    return node


def _build(event: Any, events: Iterator[Any], yaml: Any, depth: int) -> Node:
    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise YamlError("anchors and aliases are not supported")
    if event.tag is not None and event.tag != "!":
        raise YamlError("tags are not supported")
    if isinstance(event, yaml.ScalarEvent):
        return str(event.value)
    if depth > FRONTMATTER_DEPTH:
        raise YamlError("nested too deeply")
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


# --- checks of drafts: description, title, and the name of the file ---------------------------------------------------
# Pure functions. `files` checks whether a name is allowed. Files already on disk are not checked here.

_HINTS = {
    Kind.USER: 'say who the user is or what they know, as in "writes Go daily, new to React"',
    Kind.FEEDBACK: 'say what to do or to avoid, as in "no summary at the end of a reply"',
    Kind.PROJECT: 'say what is decided or due, as in "merge freeze from 2026-03-05 for the mobile release"',
    Kind.REFERENCE: 'say what is found where, as in "pipeline bugs are tracked in Linear, project INGEST"',
}
_HINT = "say in one line what recall should find it by: the subject and what is special about it"

_ENGLISH_ENDS = compile_late(
    r"(?<=\w)['’](?=(?:t|s|re|ve|ll|d|m)\b)"
)  # "don't" and "it's" are one word, "l'air" is two
# Invisible (default-ignorable) letters and marks are not allowed in names.
_IGNORABLE = compile_late("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")


def check_description(description: str, kind: Kind | None = None) -> None:
    """Raise FormatError if a description is too vague for recall."""
    hint = _HINTS[kind] if kind is not None else _HINT
    check_line(description, "description", limits.DESCRIPTION_CHARS, hint)
    # Imported here: only writing needs the word lists, and every prompt hook would load them.
    from memdir.language import count_content

    count = count_content(description)
    if count.words < limits.DESCRIPTION_WORDS:
        few = f"fewer than {limits.DESCRIPTION_WORDS} of its words are specific"
        raise FormatError(f"the description is too vague: {few}", field="description", hint=hint)
    if not count.telling:
        raise FormatError("the description is too vague: it fits any memory", field="description", hint=hint)


def check_title(title: str) -> None:
    check_line(title, "title", limits.TITLE_CHARS, "use a few words on one line")


def make_slug(title: str) -> str:
    """Return a file name for a title, made of lower-case letters, digits, `-` and `_`; never empty or reserved."""
    lowered = _ENGLISH_ENDS.sub("", unicodedata.normalize("NFC", unicodedata.normalize("NFC", title).lower()))
    visible = "".join(char for char in lowered if not _IGNORABLE.match(char) and unicodedata.category(char) != "Cf")
    chars: list[str] = []
    for char in visible:
        chars.append(char if is_name_char(char, chars[-1] if chars else " ") else "-")
    slug = _cut_slug(unicodedata.normalize("NFC", re.sub("-+", "-", "".join(chars)).strip("-")))
    if not any(char.isalnum() for char in slug):
        import hashlib  # OpenSSL takes milliseconds to load, and few titles need it

        return "memory-" + hashlib.sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug}-memory" if find_refusal(slug) else slug


def _cut_slug(slug: str) -> str:
    """Cut a slug to the maximum length, at a word boundary if that keeps more than half of it."""
    end = min(len(slug), limits.NAME_CHARS)
    while len(slug[:end].encode("utf-8")) > limits.NAME_BYTES:
        end -= 1
    if end == len(slug):
        return slug
    while end and unicodedata.category(slug[end])[0] == "M":
        end -= 1
    word = max(slug.rfind(mark, 0, end + 1) for mark in "-_")
    return slug[: word if word > end // 2 else end].strip("-_")


# --- complete files: bytes, text and records --------------------------------------------------------------------------


def make_header(name: str, fields: FrontmatterFields, signature: Signature, scope: Scope) -> Header:
    is_shared = name.startswith(TEAM_FOLDER + "/")
    if is_shared and scope is Scope.PRIVATE:
        scope = Scope.TEAM
    modified = read_time(fields.modified) or datetime.fromtimestamp(signature.mtime_ns / 1e9, UTC)
    from_others = is_shared or scope is Scope.PROJECT
    facts: dict[str, Any] = {
        row.key: getattr(NO_FIELDS if from_others and row.is_personal else fields, row.key) for row in FIELDS
    }
    facts |= {"signature": signature, "dialect": fields.dialect, "problem": fields.problem}
    return Header(name, fields.title or name, fields.description, fields.kind, scope, modified, **facts)


def make_memory(name: str, data: bytes, signature: Signature, scope: Scope) -> StoredMemory:
    text = data.decode("utf-8", "replace")
    header, body = make_header(name, parse_fields(text), signature, scope), split_frontmatter(text).body
    return StoredMemory(header, text, body.lstrip("\r\n"), digest_of(data))


def read_time(text: str) -> datetime | None:
    """Parse a time, in UTC if it has no zone; return None if it is not a valid time."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def digest_of(data: bytes) -> str:
    digest: str = _find_sha256()(data).hexdigest()
    return digest


@cache
def _find_sha256() -> Callable[[bytes], Any]:
    """Return the interpreter's built-in SHA-256 if available, because `hashlib` loads OpenSSL, which is slow."""
    for name in ("_sha2", "_sha256"):
        try:
            own: Callable[[bytes], Any] = import_module(name).sha256
            return own
        except ImportError:
            continue
    import hashlib

    return hashlib.sha256


def decode(data: bytes) -> str:
    """Decode bytes to text that encodes back to the same bytes, even if they are not valid UTF-8."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
