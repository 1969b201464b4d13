"""The optional fields of a memory as one table: how each field is read, checked, written and shown.

A field is a row of `FIELDS` and an attribute of the same name in `FrontmatterFields`, `Draft`, `FieldChanges` and
`Header`. Frontmatter, plans, the inbox, the header cache, updates and all interfaces use the table and name no fields.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, Union

from memdir import limits
from memdir.errors import FormatError
from memdir.format.when import check_when, read_flag, read_when, render_when
from memdir.frozen import dataclass, field, replace
from memdir.records import Dialect, Draft, Header, Kind, When
from memdir.text import one_line, replace_surrogates

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

    `parse` returns the valid part of a node of the frontmatter, or of such a JSON value; `render` the value to write in
    a file, None for no field; `dump` the JSON value. `check` raises FormatError. `help` says what to enter in the
    option of `save` and `edit`, which is called `option` or like the key, and in the input of the page's forms; without
    it, there is neither. `ask` tells an agent what to pass when it saves or changes a memory: "" if the key says
    enough, None if agents cannot. `is_listed`: every interface shows it. `is_nested`: in `metadata:` in the nested
    dialect. `is_personal`: without effect in memories that others can write. `is_learned`: models may set it when they
    extract or tidy memories, and each of its texts needs evidence.
    """

    key: str
    schema: Mapping[str, object]
    parse: Callable[[Any], Any]
    render: Callable[[Any], FieldValue] = lambda value: value or None
    dump: Callable[[Any], Any] = lambda value: value
    check: Callable[[Any], None] = lambda value: None
    help: str = ""
    option: str = ""
    ask: str | None = None
    is_listed: bool = False
    is_nested: bool = False
    is_personal: bool = False
    is_learned: bool = False

    def read(self, record: object) -> Any:
        """Return the JSON value of the field of a record."""
        return self.dump(getattr(record, self.key))

    def load(self, value: object) -> Any:
        """Return the field's value for a JSON value, or None if it has the wrong type."""
        return self.parse(value) if isinstance(value, _JSON_TYPES[self.schema["type"]]) else None


def name_field(key: str) -> str:
    """Return the name of a field for people."""
    return key.replace("_", " ")


def clean_value(value: Any, key: str) -> Any:
    """Return the value of a field with each text as one line. Raises FormatError for control and invisible characters."""
    if isinstance(value, tuple):
        return tuple(filter(None, (clean_value(text, key) for text in value)))
    if isinstance(value, str):
        value = " ".join(value.split())
        # A character that `read_line` escapes would not be read back from the file as it was written.
        if hidden := next((char for char, shown in zip(value, read_line(value), strict=False) if char != shown), ""):
            message = f"`{key}` contains the character U+{ord(hidden):04X}"
            raise FormatError(message, field=key, hint="remove the character and save again")
    return value


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


# In the order in which a new file has them.
FIELDS = (
    # Pins are personal: a teammate's pin must not move a line to the top for everybody.
    MemoryField("pinned", FLAG, read_flag, lambda flag: "true" if flag else None, help="Keep it first when the index is truncated.",
                option="pin", is_listed=True, is_nested=True, is_personal=True),
    MemoryField("cues", TEXTS, _parse_lines, dump=list, check=_check_cues, help="A task or question that should recall it, at most five.",
                option="cue", ask="up to 5 tasks or questions", is_learned=True),
    # Personal: a teammate must not decide what interrupts an agent.
    MemoryField(
        "when", {"type": "object"}, read_when, render_when, lambda when: render_when(when) or {}, check_when, is_personal=True,
        is_learned=True,
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


def clean_fields(draft: Draft) -> Draft:
    return replace(draft, **{row.key: clean_value(value, row.key) for row, value in list_set(draft)})


def list_phrases(fields: FrontmatterFields) -> tuple[str, ...]:
    """Return the texts of the fields that models may set; the moments of `when` are judged as sentences."""
    return tuple(text for values in _find_phrases(fields).values() for text in values)


def keep_phrases(fields: FrontmatterFields, fits: Callable[[str], bool]) -> dict[str, FieldValue]:
    """Return the fields that models may set, as values to write, with only the texts that fit."""
    kept = {key: tuple(filter(fits, texts)) for key, texts in _find_phrases(fields).items()}
    return {
        key: (texts and (texts if isinstance(getattr(fields, key), tuple) else texts[0])) or None
        for key, texts in kept.items()
    }


def _find_phrases(fields: FrontmatterFields) -> dict[str, tuple[str, ...]]:
    values = {row.key: getattr(fields, row.key) for row in FIELDS if row.is_learned and row.schema in (TEXT, TEXTS)}
    return {key: value if isinstance(value, tuple) else (value,) if value else () for key, value in values.items()}


def describe_fields(header: Header) -> list[str]:
    """Return the listed fields that are set, each as its name and value."""
    return [f"{name_field(key)} {text}".rstrip() for key, text in describe_values(header).items()]


def describe_values(header: Header) -> dict[str, str]:
    """Return the listed fields that are set, formatted for display; the value of a flag is ""."""
    values = {key: value for key, value in dump_fields(header).items() if key in LISTED_FIELDS}
    return {
        key: "" if value is True else ", ".join([value] if isinstance(value, str) else value)
        for key, value in values.items()
    }
