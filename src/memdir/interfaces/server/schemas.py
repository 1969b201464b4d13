"""Schemas of the HTTP API, and the check of a value against one.

They use few JSON Schema keywords, which keeps the check short: type, properties, required, enum, pattern, sizes and ranges.
"""

import re
from collections.abc import Mapping
from typing import Any

from memdir.errors import FormatError
from memdir.format.fields import LISTED_FIELDS
from memdir.text import one_line, shorten

Schema = Mapping[str, Any]
Json = dict[str, Any]
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None), "number": (int, float),
}  # fmt: skip


def text(max_length: int, min_length: int = 0, **more: object) -> Schema:
    return {"type": "string", "maxLength": max_length, **({"minLength": min_length} if min_length else {}), **more}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def whole(minimum: int, maximum: int = 2**53) -> Schema:
    return {"type": "integer", "minimum": minimum, "maximum": maximum}


def maybe(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def table(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}


def rows(items: Schema, max_items: int | None = None) -> Schema:
    return {"type": "array", "items": items} | ({} if max_items is None else {"maxItems": max_items})


STRING, NUMBER, FLAG, ANY = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "object"}
SHA = {"type": "string", "pattern": "^[0-9a-f]{64}$", "maxLength": 64}
ID = {"type": "string", "format": "uuid", "pattern": "^[0-9a-fA-F-]{36}$", "maxLength": 36}
NAME = text(100, 1, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$")
WORDS = {"why": text(1000), "session": text(200)}


def result(**properties: Schema) -> Schema:
    return table(properties, *properties)


STORE = result(
    id=STRING, name=STRING, scope=STRING, team=maybe(STRING), review=FLAG, agents=FLAG, access=STRING, revision=NUMBER, epoch=NUMBER,
    memories=NUMBER, bytes=NUMBER, created=STRING,
)  # fmt: skip
HEADER: dict[str, Schema] = {
    "path": STRING, "title": STRING, "description": STRING, "type": maybe(STRING), **LISTED_FIELDS, "size": NUMBER,
    "modified": STRING, "version": NUMBER, "content_sha256": STRING,
}  # fmt: skip
VERSION = result(
    version=NUMBER, at=STRING, verb=STRING, actor=STRING, author=STRING, who=STRING, why=STRING, session=STRING, undoes=maybe(NUMBER),
    undone_by=maybe(NUMBER),
    files=rows(result(path=STRING, before=maybe(STRING), after=maybe(STRING), redacted=FLAG)),
)  # fmt: skip
ITEM = result(
    id=NUMBER, kind=STRING, title=STRING, why=STRING, name=STRING, at=STRING, state=STRING, decided=maybe(STRING),
    note=STRING, edits=rows(ANY), evidence=rows(ANY),
)  # fmt: skip
WRITTEN = result(version=maybe(NUMBER), content_sha256=maybe(STRING), path=STRING, action=STRING, repeated=FLAG)
WAITING = result(review=ITEM)
MEMBER = result(id=STRING, issuer=STRING, subject=STRING, name=STRING, role=STRING)
GROUP = result(name=STRING, role=STRING)
TEAM = result(id=STRING, name=STRING, members=rows(STRING))
TOKEN_ROW: dict[str, Schema] = {
    "id": STRING, "name": STRING, "access": STRING, "stores": rows(STRING), "member": maybe(STRING), "expires": STRING,
}  # fmt: skip


AUDIT = result(id=STRING, at=STRING, actor=STRING, action=STRING, target=STRING, status=NUMBER)
USAGE = result(
    stores=NUMBER, memories=NUMBER, bytes=NUMBER, max_stores=NUMBER, max_memories=NUMBER, max_bytes=NUMBER, max_requests=NUMBER,
    history_days=maybe(NUMBER), audit_days=maybe(NUMBER),
)  # fmt: skip

_OWNED = {"memory_store_id": STRING, "id": STRING, "type": STRING}
MEMORY_STORE = result(
    id=STRING, type=STRING, name=STRING, description=STRING, metadata=ANY, created_at=STRING, updated_at=STRING, archived_at=maybe(STRING)
)  # fmt: skip
STORE_MEMORY = result(
    **_OWNED, path=STRING, content=maybe(STRING), content_sha256=STRING, content_size_bytes=NUMBER, memory_version_id=STRING,
    created_at=STRING, updated_at=STRING,
)  # fmt: skip
MEMORY_VERSION = result(
    **_OWNED, memory_id=STRING, operation=STRING, path=maybe(STRING), content=maybe(STRING), content_sha256=maybe(STRING),
    content_size_bytes=maybe(NUMBER), created_at=STRING, created_by=ANY, redacted_at=maybe(STRING), redacted_by=maybe(ANY),
)  # fmt: skip


def check_value(value: object, schema: Schema, place: str) -> None:
    """Raise FormatError if a value does not match its schema."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    is_number = not isinstance(value, bool) or "boolean" in types
    if not (is_number and any(isinstance(value, _TYPES[name]) for name in types)):
        raise refuse_value(place, f"is not of type {' or '.join(types)}")
    if isinstance(value, str):
        _check_text(value, schema, place)
    elif isinstance(value, int) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            raise refuse_value(place, f"is not from {schema.get('minimum')} to {schema.get('maximum')}")
    elif isinstance(value, dict):
        known = schema.get("properties")
        if known is not None:
            for key in schema.get("required", ()):
                if key not in value:
                    raise refuse_value(place, f"needs {key}")
            for key, member in value.items():
                if key not in known:
                    raise refuse_value(place, f"has an unknown field {shorten(one_line(str(key)), 40)!r}")
                check_value(member, known[key], f"{place}.{key}")
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            raise refuse_value(place, f"has more than {schema['maxItems']:,} items")
        for item in value:
            check_value(item, schema["items"], f"{place}[]")


def _check_text(value: str, schema: Schema, place: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair
        raise refuse_value(place, "is not valid Unicode") from None
    if "enum" in schema and value not in schema["enum"]:
        raise refuse_value(place, f"is not one of {', '.join(map(str, schema['enum']))}")
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        raise refuse_value(place, f"does not have {schema.get('minLength', 0)} to {schema.get('maxLength')} characters")
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        raise refuse_value(place, f"does not match {schema['pattern']}")


def refuse_value(place: str, why: str) -> FormatError:
    """Return the error for a request that the description does not allow."""
    return FormatError(f"{place} {why}", field=place, hint="GET /openapi.json describes every request")
