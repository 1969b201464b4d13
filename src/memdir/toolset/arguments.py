"""What a tool was called with, held against its schema: the part of JSON Schema that our own schemas use.

Refusals are for the model that called: they name the field, and what it may be.
"""

from collections.abc import Mapping, Sequence

from memdir.errors import FormatError, MemdirError
from memdir.text import one_line, shorten
from memdir.toolset.table import Offer, Schema

_TYPES: Mapping[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "boolean": (bool,)}


def check_arguments(offer: Offer, given: Mapping[str, object]) -> dict[str, object]:
    """The arguments without those that are null; raises FormatError for what the schema does not allow."""
    properties = offer.input["properties"]
    required = offer.input.get("required", ())
    assert isinstance(properties, Mapping) and isinstance(required, Sequence)
    known = f"it takes {', '.join(properties)}"
    said = {key: value for key, value in given.items() if value is not None}
    for key in said:
        if key not in properties:
            raise FormatError(f"{offer.name} has no {shorten(one_line(key), 40)!r}", field=key, hint=known)
    for key in required:
        if key not in said:
            raise FormatError(f"{offer.name} needs {key}", field=str(key), hint=known)
    for key, value in said.items():
        _check(key, value, properties[key])
    return said


def render_refusal(error: MemdirError) -> str:
    """What a refusal says to a model: what is wrong, and what to do next."""
    message = str(error).rstrip(".")
    return f"{message}. {error.hint[:1].upper()}{error.hint[1:]}." if error.hint else f"{message}."


def _check(key: str, value: object, schema: Schema) -> None:
    wanted = str(schema["type"])
    if not isinstance(value, _TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool)):
        raise FormatError(f"{key} is not a {wanted}", field=key, hint=f"give {key} as a {wanted}")
    if isinstance(value, str):
        _check_text(key, value)
    choices = schema.get("enum")
    if isinstance(choices, Sequence) and value not in choices:
        hint = f"one of {', '.join(map(str, choices))}"
        raise FormatError(f"{key} cannot be {shorten(one_line(str(value)), 40)!r}", field=key, hint=hint)
    if isinstance(value, int):
        least, most = schema.get("minimum"), schema.get("maximum")
        if (isinstance(least, int) and value < least) or (isinstance(most, int) and value > most):
            hint = f"from {least}" + (f" to {most}" if isinstance(most, int) else "")
            raise FormatError(f"{key} cannot be {shorten(str(value), 20)}", field=key, hint=hint)


def _check_text(key: str, value: str) -> None:
    """Half a surrogate pair is no text: no file can hold it, and no answer could name it."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError(f"{key} is not valid Unicode", field=key, hint="take the broken character out") from None
