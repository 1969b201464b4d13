"""What the providers' rooms share: reading answers that may be anything, schemas that every endpoint takes. Pure."""

from collections.abc import Mapping, Sequence

from memdir.errors import ModelError
from memdir.records import Message, Model, Request, Usage

# What structured output refuses at one vendor or another; the rules behind them are checked by whoever asked.
_LEFT_OUT = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems"
    " minProperties maxProperties $schema default examples".split()
)
_COUNT_MOST = 1 << 40


def can_use_tools(model: Model) -> bool:
    """Whether a model takes tools and a parent's prefix; one that does not say so does, as a scripted one."""
    return bool(getattr(model, "has_tools", True))


def narrow_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The part of a schema that structured output takes everywhere: shapes, without sizes; objects are closed."""
    narrow: dict[str, object] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):  # below it, keys are names
            narrow[key] = {name: _narrow(at) for name, at in value.items()}
        elif key not in _LEFT_OUT:
            narrow[key] = value if key in ("enum", "const", "required") else _narrow(value)
    if narrow.get("type") == "object":
        narrow["additionalProperties"] = False
    return narrow


def _narrow(value: object) -> object:
    if isinstance(value, Mapping):
        return narrow_schema(value)
    return [_narrow(at) for at in value] if isinstance(value, list | tuple) else value


def check_request(request: Request) -> None:
    """Raise for what no endpoint can be asked."""
    if request.max_tokens < 1:
        raise ModelError("a request needs room for an answer: max_tokens is below 1")
    if not any(message.text.strip() or message.calls or message.raw for message in request.messages):
        raise ModelError("a request needs a message")
    if request.parent is not None and (request.system or request.tools):
        raise ModelError("a request with a parent has no system prompt or tools of its own: they are the parent's")


def wrong_parent(provider: str, why: str) -> ModelError:
    """The refusal of a parent in another provider's shape."""
    hint = "give the body exactly as the host sent it, to a model of the same provider"
    return ModelError(f"the parent is not a request of {provider}: {why}", hint=hint)


def add_usage(one: Usage, other: Usage) -> Usage:
    """Both together; the dollars of those that are known."""
    known = [at.dollars for at in (one, other) if at.dollars is not None]
    return Usage(
        one.fresh + other.fresh,
        one.cached + other.cached,
        one.output + other.output,
        one.stored + other.stored,
        sum(known) if known else None,
    )


def role_of(message: Message) -> str:
    """As providers call it: a tool's result is the caller's word, and so is whatever else is not the model's."""
    return "assistant" if message.role == "assistant" else "user"


def as_table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """A number of tokens; what is none is nothing, and what nobody could have counted is cut to what can be kept."""
    return min(max(0, value), _COUNT_MOST) if isinstance(value, int) and not isinstance(value, bool) else 0
