"""Small questions about JSON that came in: is it of this form, and where not.

Each function yields sentences, as the rules do: none means that all is well. The schemas are looked at as far as the
providers look; whether a value fits a schema is not asked here.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONG_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
# Keywords that a grammar for the output cannot express.
_NOT_IN_GRAMMARS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
)


def is_whole(value: object, least: int = 1) -> bool:
    """An integer from `least` on; JSON's true is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def has_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def find_unknown(value: Mapping[str, object], known: Collection[str], where: str = "") -> Iterator[str]:
    for name in value:
        if name not in known:
            yield f"{where}{name}: Extra inputs are not permitted"


def check_schema(schema: object, where: str) -> Iterator[str]:
    """A JSON schema whose keywords have the form they must have."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{where}: a schema is an object"
        return
    yield from _check_keywords(schema, where)
    for at, part in list_subschemas(schema):
        yield from check_schema(part, f"{where}.{at}")


def _check_keywords(schema: Mapping[str, Any], where: str) -> Iterator[str]:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(kinds, list) or not all(isinstance(kind, str) and kind in _TYPES for kind in kinds):
        yield f"{where}.type: JSON schema is invalid: {schema['type']!r} is no type"
    if "properties" in schema and not isinstance(schema["properties"], dict):
        yield f"{where}.properties: JSON schema is invalid: must be an object"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"{where}.required: JSON schema is invalid: must be a list of names"
    elif len(set(required)) != len(required):
        yield f"{where}.required: JSON schema is invalid: a name stands twice"
    for keyword in ("enum", "anyOf", "oneOf", "allOf"):
        if keyword in schema and not (isinstance(schema[keyword], list) and schema[keyword]):
            yield f"{where}.{keyword}: JSON schema is invalid: must be a list with something in it"


def list_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(keyword), dict):
            yield from ((f"{keyword}.{name}", part) for name, part in schema[keyword].items())
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(keyword), list):
            yield from ((f"{keyword}.{at}", part) for at, part in enumerate(schema[keyword]))
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield keyword, schema[keyword]


def check_input_schema(schema: object, where: str) -> Iterator[str]:
    """The schema of a tool's input: an object at the top, and no choice between several."""
    if not isinstance(schema, dict):
        yield f"{where}: Input should be a valid dictionary"
        return
    if schema.get("type") != "object":
        yield f"{where}.type: Input should be 'object'"
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            yield f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level"
    yield from check_schema(schema, where)


def check_output_schema(schema: object, where: str, *, all_required: bool = False) -> Iterator[str]:
    """A schema that output is bound to: closed objects, no limits on numbers and lengths, no recursion.

    With `all_required` every property must be asked for, and the top must be an object.
    """
    problems = list(check_schema(schema, where))
    yield from problems
    if problems or not isinstance(schema, dict):
        return
    if all_required and schema.get("type") != "object":
        yield f"{where}: schema must be a JSON Schema of 'type: \"object\"', got {schema.get('type')!r}"
    for at, part in _walk(schema, where):
        yield from _check_closed(part, at, all_required=all_required)
    if _is_recursive(schema):
        yield f"{where}: recursive schemas are not supported"


def _check_closed(schema: Mapping[str, Any], where: str, *, all_required: bool) -> Iterator[str]:
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            yield f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false"
        if all_required and (
            missing := [at for at in schema.get("properties", {}) if at not in schema.get("required", [])]
        ):
            yield f"{where}: 'required' must name every property; missing {', '.join(missing)}"
    for keyword in () if all_required else _NOT_IN_GRAMMARS:
        if keyword in schema:
            yield f"{where}: property '{keyword}' is not supported"
    if not all_required and (schema.get("minItems", 0) not in (0, 1) or "maxItems" in schema):
        yield f"{where}: for 'array' type, only 'minItems' of 0 or 1 is supported"


def _walk(schema: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield where, schema
    for at, part in list_subschemas(schema):
        if isinstance(part, dict):
            yield from _walk(part, f"{where}.{at}")


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether some definition can be reached from itself."""
    places = {f"#{at.replace('.', '/')}": part for at, part in _walk(schema, "")} | {"#": schema}
    uses = {
        place: {part["$ref"] for _, part in _walk(at, "") if isinstance(part.get("$ref"), str)}
        for place, at in places.items()
        if place == "#" or place.startswith(("#/$defs/", "#/definitions/"))
    }
    if "#" in uses.pop("#", set()):
        return True
    return any(place in _reach(place, uses) for place in uses)


def _reach(place: str, uses: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    open_places = set(uses[place])
    while open_places:
        at = open_places.pop()
        if at not in reached:
            reached.add(at)
            open_places |= uses.get(at, set())
    return reached
