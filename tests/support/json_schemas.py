"""What docs/schemas.json says of a command's `--json`."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

DOCS = Path(__file__).parents[2] / "docs"
FILE = (DOCS / "schemas.json").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = json.loads(FILE)
COMMANDS: dict[str, Any] = SCHEMA["properties"]


def close(schema: Any) -> Any:
    """The schema without fields that it does not name: the file must name them all."""
    if isinstance(schema, list):
        return [close(at) for at in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: close(value) for key, value in schema.items()}
    return closed | {"unevaluatedProperties": False} if "properties" in schema else closed


# Rows include the optional fields, which are no row of their own.
ROWS = close(SCHEMA["$defs"]) | {"FieldsRow": SCHEMA["$defs"]["FieldsRow"]}


def check(command: str, printed: Any) -> None:
    schema = {**COMMANDS[command], "$defs": ROWS}
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(printed)
