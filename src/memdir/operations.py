"""What a model without tools wants remembered: one JSON list of operations, checked as a whole.

For hosts whose prompt prefix is not known, and for models that cannot call tools. `parse_operations` reads an answer
whatever stands around the JSON and says in one sentence what is wrong with it, so that it can be sent back once.
`stage` carries a list out on a staging, all of it or, with an error, none.
"""

from collections.abc import Mapping, Sequence

from memdir.drafts import compose_body
from memdir.errors import FormatError, MemdirError, NotFoundError, ReplyError
from memdir.frozen import dataclass
from memdir.limits import FORK_CALLS, FORK_WRITTEN_BYTES
from memdir.loose_json import find_json
from memdir.records import Draft, Kind
from memdir.staging import Staging
from memdir.text import one_line, shorten

KEY = "operations"
_ACTIONS = ("create", "update", "delete")
_TEXTS = ("action", "name", "type", "title", "description", "body", "why", "how", "evidence")
_REASON = "reason"


def _make_schema(keys: Sequence[str]) -> Mapping[str, object]:
    row = {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(_ACTIONS)},
            "type": {"type": "string", "enum": [kind.value for kind in Kind]},
            **{key: {"type": "string"} for key in keys if key not in ("action", "type")},
        },
        "required": list(keys),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {KEY: {"type": "array", "items": row}},
        "required": [KEY],
        "additionalProperties": False,
    }


SCHEMA = _make_schema(_TEXTS)
# For a task that wants to hear why.
REASONED = _make_schema((*_TEXTS, _REASON))


@dataclass(frozen=True, slots=True)
class Operation:
    """One wish; `evidence` is what it rests on, in the conversation's own words; `reason` why, where that is asked."""

    action: str
    name: str
    kind: Kind | None = None
    title: str = ""
    description: str = ""
    body: str = ""
    evidence: str = ""
    reason: str = ""


def parse_operations(text: str, *, limit: int = FORK_CALLS) -> tuple[Operation, ...]:
    """The operations in an answer, at most `limit`; raises ReplyError saying what is wrong with it."""
    found = list(find_json(text))
    for value in found:
        rows = value.get(KEY) if isinstance(value, dict) else value
        if isinstance(rows, list):
            return tuple(_parse_row(row, number) for number, row in enumerate(rows[:limit], 1))
    if not found:
        raise ReplyError(f"there is no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")
    raise ReplyError(f'the JSON has no list "{KEY}"')


def stage(operations: Sequence[Operation], staging: Staging, *, limit: int = FORK_WRITTEN_BYTES) -> dict[str, str]:
    """Carry out all of them; answers name to evidence. Raises ReplyError naming the first that cannot be done."""
    evidence: dict[str, str] = {}
    size = 0
    for number, wish in enumerate(operations, 1):
        size += len((wish.body + wish.description).encode("utf-8", "replace"))
        if size > limit:
            raise ReplyError(f"a run may write {limit:,} bytes, and these are more")
        try:
            name = _stage_one(wish, staging)
        except MemdirError as error:
            hint = f" ({error.hint})" if error.hint else ""
            named = shorten(one_line(wish.name), 80)
            raise ReplyError(f"operation {number} ({wish.action} {named}): {error}{hint}") from None
        evidence[name] = wish.evidence
    return evidence


def _stage_one(wish: Operation, staging: Staging) -> str:
    if wish.action == "delete":
        staging.forget(wish.name)
        return wish.name
    if wish.action == "update":
        staging.read(wish.name)
    elif _exists(wish.name, staging):
        raise FormatError(f"{wish.name} exists already", hint="update it instead")
    if wish.kind is None:
        raise FormatError("it has no type", field="type", hint="user, feedback, project or reference")
    draft = Draft(wish.kind, wish.title or wish.name, wish.description, wish.body, wish.name)
    return staging.save(draft)


def _exists(name: str, staging: Staging) -> bool:
    try:
        staging.read(name)
    except NotFoundError:
        return False
    return True


def _parse_row(row: object, number: int) -> Operation:
    if not isinstance(row, dict):
        raise ReplyError(f"operation {number} is not an object")
    values = {key: value.strip() for key in (*_TEXTS, _REASON) if isinstance(value := row.get(key), str)}
    action = values.get("action", "").lower()
    if action not in _ACTIONS:
        raise ReplyError(f"operation {number} has no action of {', '.join(_ACTIONS)}")
    name = values.get("name", "").removeprefix("./").removesuffix(".md")
    if not name:
        raise ReplyError(f"operation {number} has no name")
    kind = values.get("type", "").lower()
    return Operation(
        action,
        name,
        Kind(kind) if kind in [at.value for at in Kind] else None,
        one_line(values.get("title", "")),
        one_line(values.get("description", "")),
        compose_body(values.get("body", ""), values.get("why"), values.get("how")),
        values.get("evidence", ""),
        one_line(values.get(_REASON, "")),
    )
