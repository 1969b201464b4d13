"""The tools an agent is offered, as data: names, words, JSON schemas of what goes in and comes out, and their nature.

What a model reads of them (names, descriptions, input schemas) has to stay under 2 KB: it is part of every prompt.
Schemas keep to what every host understands: one object, no combinations at its root, no references.
"""

from collections.abc import Mapping, Sequence

from memdir.frozen import dataclass
from memdir.records import Kind, Scope

Schema = Mapping[str, object]

LISTED = 50  # rows of one list if nobody asks for more: a page that costs a model some 2,000 tokens
LISTED_MOST = 200
FOUND_MOST = 20  # memories of one search
READ_CHARS = 60_000  # of one memory: hosts cut a tool's answer at about 25,000 tokens


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool. `reads` changes nothing; `destroys` may take something away; `repeats`: twice is as good as once.

    `core` is one that an agent should see without having to search for it.
    """

    name: str
    title: str
    description: str
    input: Schema
    output: Schema
    reads: bool = False
    destroys: bool = False
    repeats: bool = False
    core: bool = False


_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_MAYBE: Schema = {"type": ["string", "null"]}
_KINDS: Schema = {"type": "string", "enum": [kind.value for kind in Kind]}
_SCOPES: Schema = {"type": "string", "enum": [Scope.PRIVATE.value, Scope.USER.value]}
_ALL_SCOPES: Schema = {"type": "string", "enum": [scope.value for scope in Scope if scope is not Scope.AGENT]}


def _say(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _whole(least: int, most: int | None = None) -> Schema:
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def _object(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """What else a call holds is refused all the same (arguments); to say so here would cost every prompt some."""
    return {"type": "object", "properties": dict(properties)} | ({"required": list(required)} if required else {})


def _answer(**properties: Schema) -> Schema:
    """The schema of an answer: every field is always there, and no other."""
    return {**_object(properties, list(properties)), "additionalProperties": False}


_ROW: Mapping[str, Schema] = {"name": _TEXT, "scope": _TEXT, "type": _MAYBE, "description": _TEXT, "age": _TEXT}
_WRITTEN = _answer(
    name=_TEXT,
    scope=_TEXT,
    action={"type": "string", "enum": ["created", "changed", "unchanged"]},
    digest=_TEXT,
    dates=_TEXTS,
    warnings=_TEXTS,
)

OFFERS = (
    Offer(
        "memory_search",
        "Search memory",
        "Find memories that bear on a question; maybe none. Search before you assume or ask.",
        _object({"query": _TEXT, "limit": _whole(1, FOUND_MOST)}, ["query"]),
        _answer(
            memories={
                "type": "array",
                "items": _answer(**_ROW, text=_TEXT, truncated=_FLAG, note=_TEXT, score={"type": "number"}),
            },
            by=_TEXT,
            skipped=_MAYBE,
        ),
        reads=True,
        repeats=True,
        core=True,
    ),
    Offer(
        "memory_read",
        "Read a memory",
        "Read one memory in full.",
        _object({"name": _TEXT}, ["name"]),
        _answer(
            **_ROW, title=_TEXT, modified=_TEXT, pinned=_FLAG, body=_TEXT, truncated=_FLAG, note=_TEXT, digest=_TEXT
        ),
        reads=True,
        repeats=True,
    ),
    Offer(
        "memory_save",
        "Save a memory",
        "Remember one new thing for later. Not what code or git tell, no secrets.",
        _object(
            {
                "type": _KINDS,
                "name": _TEXT,
                "description": _say(_TEXT, "one specific line: search judges by it"),
                "body": _say(_TEXT, "feedback, project: with **Why:** and **How to apply:**"),
                "scope": _say(_SCOPES, "user: for all projects"),
            },
            ["type", "name", "description", "body"],
        ),
        _WRITTEN,
        repeats=True,
        core=True,
    ),
    Offer(
        "memory_update",
        "Change a memory",
        "Put another description or body in the place of a memory's.",
        _object(
            {
                "name": _TEXT,
                "description": _TEXT,
                "body": _TEXT,
                "expect": _say(_TEXT, "the digest you read; refused if it changed since"),
            },
            ["name"],
        ),
        _WRITTEN,
        destroys=True,
        repeats=True,
    ),
    Offer(
        "memory_forget",
        "Forget a memory",
        "Forget a memory; a person can undo it.",
        _object({"name": _TEXT}, ["name"]),
        _answer(name=_TEXT, scope=_TEXT, undo=_TEXT),
        destroys=True,
    ),
    Offer(
        "memory_list",
        "List memories",
        "List memories, newest first.",
        _object({"type": _KINDS, "scope": _ALL_SCOPES, "limit": _whole(1, LISTED_MOST), "offset": _whole(0)}),
        _answer(memories={"type": "array", "items": _answer(**_ROW, pinned=_FLAG)}, total=_COUNT),
        reads=True,
        repeats=True,
    ),
    Offer(
        "memory_log",
        "Log an entry",
        "Append an entry to today's log.",
        _object({"text": _TEXT}, ["text"]),
        _answer(day=_TEXT, path=_TEXT),
    ),
)
BY_NAME: Mapping[str, Offer] = {offer.name: offer for offer in OFFERS}
