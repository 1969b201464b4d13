"""The optional fields of a memory as one table: how each is read, checked, written and shown.

A field is a row of `FIELDS` and an attribute of the same name in `FrontmatterFields`, `Draft`, `FieldChanges` and `Header`.
Frontmatter, plans, the inbox, the header cache, updates and the rows of all interfaces read the table and name no field.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, Union

from memdir import limits
from memdir.errors import FormatError
from memdir.format.when import check_when, read_flag, read_when, render_when
from memdir.frozen import dataclass, field
from memdir.records import Dialect, Draft, Header, Kind, When
from memdir.text import find_forbidden, one_line, replace_surrogates

# The value of a field to write; None removes the field.
FieldValue: TypeAlias = str | tuple[str, ...] | Mapping[str, str | tuple[str, ...]] | None
Node: TypeAlias = Union[str, list["Node"], dict[str, "Node"]]  # noqa: UP007  (a recursive alias cannot be written with `|`)

TEXT: Mapping[str, object] = {"type": "string"}
FLAG: Mapping[str, object] = {"type": "boolean"}
TEXTS: Mapping[str, object] = {"type": "array", "items": TEXT}
_JSON_TYPES: Mapping[object, type] = {"string": str, "boolean": bool, "array": list, "object": dict}


@dataclass(frozen=True, slots=True)
class FrontmatterFields:
    """The frontmatter fields of a file. `title` is the field `name`, or else the first heading of the body."""

    title: str = ""
    description: str = ""
    kind: Kind | None = None
    pinned: bool = False
    modified: str = ""
    dialect: Dialect | None = None
    problem: str = ""
    verified: str = ""
    cues: tuple[str, ...] = ()
    when: When = When()
    raw: Mapping[str, Node] = field(default_factory=dict)


NO_FIELDS = FrontmatterFields()


@dataclass(frozen=True, slots=True)
class MemoryField:
    """One optional field. `schema` describes its JSON value.

    `parse` returns the valid part of a node of the frontmatter, or of such a JSON value; `render` the value to write in a
    file, None for no field; `dump` the JSON value. `check` raises FormatError. `ask` tells an agent what to pass when it
    saves a memory; without it, agents cannot. `is_listed`: every interface shows it. `is_nested`: in `metadata:` in the
    nested dialect. `is_personal`: without effect in memories that others can write.
    """

    key: str
    schema: Mapping[str, object]
    parse: Callable[[Any], Any]
    render: Callable[[Any], FieldValue] = lambda value: value or None
    dump: Callable[[Any], Any] = lambda value: value
    check: Callable[[Any], None] = lambda value: None
    ask: str = ""
    is_listed: bool = False
    is_nested: bool = False
    is_personal: bool = False

    def read(self, record: object) -> Any:
        """Return the JSON value of the field of a record."""
        return self.dump(getattr(record, self.key))

    def load(self, value: object) -> Any:
        """Return the field's value for a JSON value, or None if it has the wrong type."""
        return self.parse(value) if isinstance(value, _JSON_TYPES[self.schema["type"]]) else None


def read_line(node: object) -> str:
    """Return a string as one printable line, or "" if the value is not a string."""
    if not isinstance(node, str):
        return ""
    line = " ".join(node.split())
    return line if line.isascii() and line.isprintable() else one_line(replace_surrogates(line))


def check_line(text: str, field: str, limit: int, hint: str) -> None:
    if not text.strip():
        raise FormatError(f"the {field} is empty", field=field, hint=hint)
    if len(text.strip().splitlines()) > 1:
        raise FormatError(f"the {field} has more than one line", field=field, hint=hint)
    if len(text) > limit:
        raise FormatError(f"the {field} has {len(text):,} characters; the limit is {limit:,}", field=field, hint=hint)


def _parse_lines(node: object) -> tuple[str, ...]:
    return tuple(filter(None, map(read_line, node if isinstance(node, list) else [node])))


def _check_cues(cues: Sequence[str]) -> None:
    """Raise FormatError if there are too many cues, or one is not a short line."""
    if len(cues) > limits.CUES:
        hint = "keep only the ones that differ most"
        raise FormatError(f"too many cues: {len(cues)}; the limit is {limits.CUES}", field="cues", hint=hint)
    for cue in cues:
        check_line(cue, "cue", limits.CUE_CHARS, 'use a short task or question, as in "may I deploy today?"')
        if problem := find_forbidden(cue, lines=False):
            raise FormatError(f"a cue contains {problem}", field="cues", hint="remove the character and save again")


# In the order of a new file.
FIELDS = (
    # Pins are personal: a teammate's pin must not move a line to the top for everybody.
    MemoryField("pinned", FLAG, read_flag, lambda flag: "true" if flag else None, is_listed=True, is_nested=True, is_personal=True),
    MemoryField("cues", TEXTS, _parse_lines, dump=list, check=_check_cues, ask="up to 5 tasks or questions it is for"),
    # Nobody else decides what interrupts an agent.
    MemoryField(
        "when", {"type": "object"}, read_when, render_when, lambda when: render_when(when) or {}, check_when, is_personal=True
    ),
)  # fmt: skip
_ROWS = {row.key: row for row in FIELDS}
LISTED_FIELDS = {row.key: row.schema for row in FIELDS if row.is_listed}


def list_set(
    record: FrontmatterFields | Draft | Header, before: FrontmatterFields = NO_FIELDS
) -> Iterator[tuple[MemoryField, Any]]:
    """Yield the fields that are set in a record and differ from `before`, with their values."""
    for row in FIELDS:
        value = getattr(record, row.key)
        if value is not None and value != getattr(before, row.key):
            yield row, value


def check_fields(record: FrontmatterFields | Draft, before: FrontmatterFields = NO_FIELDS) -> None:
    """Raise FormatError if a field that differs from `before` is invalid."""
    for row, value in list_set(record, before):
        if value != getattr(NO_FIELDS, row.key):
            row.check(value)


def dump_fields(record: FrontmatterFields | Draft | Header) -> dict[str, Any]:
    """Return the fields that are set in a record, as JSON values."""
    return {row.key: row.dump(value) for row, value in list_set(record)}


def load_fields(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields in a JSON object as keyword arguments for a record, skipping values of the wrong type."""
    loaded = ((key, _ROWS[key].load(value)) for key, value in values.items() if key in _ROWS)
    return {key: value for key, value in loaded if value is not None}


def describe_values(header: Header) -> dict[str, str]:
    """Return the listed fields that are set, formatted for display; the value of a flag is ""."""
    values = {key: value for key, value in dump_fields(header).items() if key in LISTED_FIELDS}
    return {
        key: "" if value is True else ", ".join([value] if isinstance(value, str) else value)
        for key, value in values.items()
    }
