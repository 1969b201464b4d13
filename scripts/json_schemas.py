"""Prints docs/schemas.json, made from the rows that commands print: `python scripts/json_schemas.py > docs/schemas.json`.

A command's `--json` option names the type of what it prints; the types are TypedDicts. The file is one JSON Schema:
`properties` has a schema for each command, `$defs` one for each row. A test checks that it is in step with the code and
with what commands print.
"""

import json
import sys
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from cli_reference import list_commands
from memdir.interfaces.cli.app import JsonOption

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
# What a TypedDict cannot say: fields that must be there in a row whose other fields may be missing, and names that vary.
EXTRA: dict[str, dict[str, Any]] = {
    "ChatEventRow": {"required": ["event", "text"]},
    "FiguresRow": {"patternProperties": {"^(any|all)_at_[1-9][0-9]*$": {"type": "number", "minimum": 0, "maximum": 1}}},
}


def render_schemas() -> str:
    """The whole file."""
    rows: dict[str, Any] = {}
    commands = {
        path: make_schema(option.shape, rows)
        for path, command in list_commands()
        for option in command.params
        if isinstance(option, JsonOption)
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What `memdir COMMAND --json` prints, by command",
        "type": "object",
        "properties": commands,
        "$defs": dict(sorted(rows.items())),
    }
    return render_json(schema) + "\n"


def render_json(value: Any, indent: str = "") -> str:
    """JSON in which whatever fits stands on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or (len(indent + line) <= 120 and "properties" not in value):
        return line
    inner = indent + "  "
    parts = [f"{inner}{json.dumps(key)}: {render_json(at, inner)}" for key, at in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def make_schema(kind: Any, rows: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; TypedDicts that it refers to are added to `rows`."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if origin is NotRequired:
        return make_schema(args[0], rows)
    if origin is Annotated:
        rules = {name: list(value) if isinstance(value, tuple) else value for name, value in args[1:]}
        return rules if "enum" in rules else make_schema(args[0], rows) | rules
    if origin is Literal:
        return {"enum": list(args)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [at.value for at in kind]}
    if origin is list:
        return {"type": "array", "items": make_schema(args[0], rows)}
    if origin is dict:
        names = make_schema(args[0], rows)
        keys = {"propertyNames": names, "required": names["enum"]} if "enum" in names else {}
        return {"type": "object", "additionalProperties": make_schema(args[1], rows), **keys}
    if origin in (Union, UnionType):
        return _join([make_schema(at, rows) for at in args])
    if is_typeddict(kind):
        _add_row(kind, rows)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    raise TypeError(f"no schema for {kind!r}")


def _join(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One of several: by a list of types where that says it all."""
    if all(set(part) == {"type"} for part in parts):
        return {"type": [part["type"] for part in parts]}
    if {"type": "null"} in parts and len(parts) == 2:
        (other,) = (part for part in parts if part != {"type": "null"})
        if "enum" in other:
            return {"enum": [*other["enum"], None]}
        if isinstance(other.get("type"), str):
            return {**other, "type": [other["type"], "null"]}
    return {"anyOf": parts}


def _add_row(kind: Any, rows: dict[str, Any]) -> None:
    if kind.__name__ in rows:
        return
    rows[kind.__name__] = {}  # a row that holds rows of its own kind ends here
    fields = get_type_hints(kind, include_extras=True)
    text = " ".join((kind.__doc__ or "").split())
    rows[kind.__name__] = {
        **({"description": text} if text else {}),
        "type": "object",
        "properties": {name: make_schema(field, rows) for name, field in fields.items()},
        "required": [name for name in fields if name in kind.__required_keys__],
    } | EXTRA.get(kind.__name__, {})


if __name__ == "__main__":
    sys.stdout.buffer.write(render_schemas().encode())
