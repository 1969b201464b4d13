"""YAML as frontmatter uses it: mappings, lists and strings; no tags, no anchors, bounded depth, one kind of error.

Most heads are `key: value` lines, and those are read here directly, because importing PyYAML costs every prompt 20 ms.
Anything else goes to PyYAML's event parser, from which we build strings only: `no` stays "no", a date stays text, an
alias bomb is refused before it is expanded. A head that even PyYAML cannot read is read line by line.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias, Union

from memdir.lazy import compile_late
from memdir.limits import FRONTMATTER_DEPTH, HEADER_BYTES

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


def parse(head: str) -> dict[str, Node]:
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
