"""Schemas of the HTTP API, request checks and the OpenAPI description.

The schemas use few JSON Schema keywords, which keeps the check short: type, properties, required, enum, pattern, sizes and
ranges. Requests that the description does not allow are refused.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memdir import __version__
from memdir.errors import FormatError
from memdir.format.fields import LISTED_FIELDS
from memdir.text import one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdir.interfaces.server.api import Endpoint

Schema = Mapping[str, Any]
Json = dict[str, Any]
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None), "number": (int, float),
}  # fmt: skip
_TEXTS = {"true": True, "false": False}


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
    version=NUMBER, at=STRING, verb=STRING, actor=STRING, who=STRING, why=STRING, session=STRING, undoes=maybe(NUMBER),
    undone_by=maybe(NUMBER),
    files=rows(result(path=STRING, before=maybe(STRING), after=maybe(STRING), redacted=FLAG)),
)  # fmt: skip
ITEM = result(
    id=NUMBER, kind=STRING, title=STRING, why=STRING, name=STRING, at=STRING, state=STRING, decided=maybe(STRING),
    note=STRING, edits=rows(ANY), evidence=rows(ANY),
)  # fmt: skip
WRITTEN = result(version=maybe(NUMBER), content_sha256=maybe(STRING), repeated=FLAG)
WAITING = result(review=ITEM)
MEMBER = result(id=STRING, issuer=STRING, subject=STRING, name=STRING, role=STRING)
TEAM = result(id=STRING, name=STRING, members=rows(STRING))
TOKEN_ROW: dict[str, Schema] = {
    "id": STRING, "name": STRING, "access": STRING, "stores": rows(STRING), "member": maybe(STRING), "expires": STRING,
}  # fmt: skip


AUDIT = result(id=STRING, at=STRING, actor=STRING, action=STRING, target=STRING, status=NUMBER)
USAGE = result(
    stores=NUMBER, memories=NUMBER, bytes=NUMBER, max_stores=NUMBER, max_memories=NUMBER, max_bytes=NUMBER, max_requests=NUMBER
)  # fmt: skip


def check_value(value: object, schema: Schema, place: str) -> None:
    """Raise FormatError if a value does not match its schema."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    is_number = not isinstance(value, bool) or "boolean" in types
    if not (is_number and any(isinstance(value, _TYPES[name]) for name in types)):
        raise _make_error(place, f"is not of type {' or '.join(types)}")
    if isinstance(value, str):
        _check_text(value, schema, place)
    elif isinstance(value, int) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            raise _make_error(place, f"is not from {schema.get('minimum')} to {schema.get('maximum')}")
    elif isinstance(value, dict):
        known = schema.get("properties")
        if known is not None:
            for key in schema.get("required", ()):
                if key not in value:
                    raise _make_error(place, f"needs {key}")
            for key, member in value.items():
                if key not in known:
                    raise _make_error(place, f"has an unknown field {shorten(one_line(str(key)), 40)!r}")
                check_value(member, known[key], f"{place}.{key}")
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            raise _make_error(place, f"has more than {schema['maxItems']:,} items")
        for item in value:
            check_value(item, schema["items"], f"{place}[]")


def _check_text(value: str, schema: Schema, place: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair
        raise _make_error(place, "is not valid Unicode") from None
    if "enum" in schema and value not in schema["enum"]:
        raise _make_error(place, f"is not one of {', '.join(map(str, schema['enum']))}")
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        raise _make_error(place, f"does not have {schema.get('minLength', 0)} to {schema.get('maxLength')} characters")
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        raise _make_error(place, f"does not match {schema['pattern']}")


def _make_error(place: str, why: str) -> FormatError:
    return FormatError(f"{place} {why}", field=place, hint="GET /openapi.json describes every request")


def read_query(params: "Iterable[tuple[str, str]]", endpoint: "Endpoint") -> Json:
    """Return a request's query parameters, converted and checked."""
    values: Json = {}
    for key, value in params:
        schema = endpoint.query.get(key)
        if schema is None or key in values:
            raise _make_error("the query", f"has an unknown or repeated parameter {shorten(one_line(key), 40)!r}")
        if schema["type"] == "integer":
            values[key] = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
        else:
            values[key] = _TEXTS.get(value, value) if schema["type"] == "boolean" else value
        check_value(values[key], schema, key)
    for key in endpoint.needs:
        if key not in values:
            raise _make_error("the query", f"needs {key}")
    return values


_ERROR = table(
    {"error": {"type": "object", "properties": {"type": STRING, "message": STRING, "hint": STRING}, "required": ["type", "message", "hint"]}},
    "error",
)  # fmt: skip
_FAILS = (400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429, 500, 503)
_NAMED: Mapping[str, Schema] = {
    "Store": STORE, "Memory": result(**HEADER), "Version": VERSION, "InboxItem": ITEM, "Written": WRITTEN, "NeedsReview": WAITING,
    "Member": MEMBER, "Team": TEAM, "Token": result(**TOKEN_ROW), "AuditEntry": AUDIT, "Usage": USAGE, "Error": _ERROR,
}  # fmt: skip


def render_openapi(endpoints: "Iterable[Endpoint]") -> Json:
    """Return the OpenAPI 3.1 description of the endpoints."""
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        plain = re.sub(r"\{(\w+)(?::\w+)?\}", r"{\1}", endpoint.path)
        kinds = dict(re.findall(r"\{(\w+)(?::(\w+))?\}", endpoint.path))
        parameters = [
            {"name": name, "in": "path", "required": True}
            | {"schema": _PATH_KINDS.get(kind) or _PATH_NAMES.get(name, text(1000, 1))}
            for name, kind in kinds.items()
        ]
        parameters += [
            {"name": name, "in": "query", "required": name in endpoint.needs, "schema": dict(schema)}
            for name, schema in endpoint.query.items()
        ]
        if endpoint.right != "read":
            parameters.append({"name": "Idempotency-Key", "in": "header", "schema": text(200, 1, pattern="^[!-~]+$")})
        words = re.sub(r"\W+", "_", f"{endpoint.method.lower()}{plain.removeprefix('/v1')}").strip("_")
        operation: Json = {"operationId": words, "summary": endpoint.summary, "parameters": parameters, "responses": {
            **{str(status): {"description": "done", "content": _json(schema)} for status, schema in endpoint.answers.items()},
            **{str(status): {"description": "refused", "content": _json(_ERROR)} for status in _FAILS},
        }}  # fmt: skip
        if endpoint.precondition is not None:
            parameters += [{"name": name, "in": "header", "schema": STRING} for name in ("If-Match", "If-None-Match")]
        if endpoint.body is not None:
            operation["requestBody"] = {"required": True, "content": _json(endpoint.body)}
        paths.setdefault(plain, {})[endpoint.method.lower()] = operation
    components = {
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        "schemas": {name: {key: _refer(value) for key, value in schema.items()} for name, schema in _NAMED.items()},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "memdir", "version": __version__},
        "components": components,
        "security": [{"bearer": []}],
        "paths": paths,
    }


_PATH_KINDS = {"uuid": ID, "int": whole(0)}
_PATH_NAMES = {"content_sha256": SHA, "decision": one_of("approve", "reject"), "store": NAME}


def _json(schema: Schema) -> Json:
    return {"application/json": {"schema": _refer(schema)}}


def _refer(value: Any) -> Any:
    """Return a schema with references to the named ones in it."""
    if isinstance(value, Mapping):
        if name := next((name for name, schema in _NAMED.items() if schema == value), ""):
            return {"$ref": f"#/components/schemas/{name}"}
        return {key: _refer(member) for key, member in value.items()}
    return [_refer(member) for member in value] if isinstance(value, list) else value
