"""Values of a key-value store as memory files, and back to the letter. Pure.

A value is a JSON object under a namespace and a key. Its longest text becomes the body, so that people and recall can
read it, and what else it holds follows in a block of JSON; both can be edited by hand. Namespace, key and which field
the text was are in the head, under `item`. Where that would not read back as the same value, all of it is the block.

A memory that was not written here is a value too: {"type", "title", "description", "content"}, under its folders and
its name. Such a value is written as a plain memory, so graphs and people can share one directory.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memdir import frontmatter
from memdir.doors.adapters.pages import describe
from memdir.drafts import check_description, make_slug
from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.guard import find_refusal
from memdir.limits import NAME_CHARS, NAME_DEPTH
from memdir.records import Dialect, Kind, Memory
from memdir.store.contract import read_time
from memdir.store.plan import digest_of
from memdir.text import find_forbidden, one_line, shorten

Value = dict[str, Any]
_ITEM = "item"
_NATIVE = ("type", "title", "description", "content")
_OPENING, _CLOSING = "```json\n", "\n```\n"
_RESERVED = frozenset({"logs", "team"})  # folders at the top that mean something else here
_TITLE_CHARS = 80
DEEP = (
    NAME_DEPTH - 2
)  # labels of a namespace that are folders for certain; of more than a name may hold, the rest is one


@dataclass(frozen=True, slots=True)
class Address:
    namespace: tuple[str, ...]
    key: str


@dataclass(frozen=True, slots=True)
class Item:
    """`is_found` says whether a search by words may find it."""

    address: Address
    value: Value
    created: datetime
    updated: datetime
    is_found: bool = True


def make_folder(namespace: tuple[str, ...]) -> str:
    """The folder of a namespace: its labels, with a mark of its own for each that is no name of a folder."""
    labels = list(namespace)
    if len(labels) >= NAME_DEPTH:
        labels = [*labels[:DEEP], json.dumps(labels[DEEP:])]
    return "/".join(_make_segment(label, is_first=not at) for at, label in enumerate(labels))


def make_names(address: Address) -> tuple[str, str]:
    """Where an item may lie: under its own name, and if another has that, under one that nobody else has."""
    folder = make_folder(address.namespace)
    place = f"{folder}/" if folder else ""
    own = _make_segment(address.key, is_first=not folder)
    return place + own, place + _mark(address.key, json.dumps([address.namespace, address.key]))


def parse_item(memory: Memory) -> Item:
    """What a memory is as an item. Forgives: a block that cannot be read is text."""
    fields = frontmatter.parse_fields(memory.text)
    about = _parse_table(fields.raw.get(_ITEM))
    updated = memory.header.modified
    if about is None:
        *folders, leaf = memory.header.name.split("/")
        native = {
            "type": memory.header.kind.value if memory.header.kind else "",
            "title": memory.header.title,
            "description": memory.header.description,
            "content": memory.body.strip("\n"),
        }
        return Item(Address(tuple(folders), leaf), native, updated, updated)
    namespace, key = about.get("namespace"), about.get("key")
    address = Address(tuple(map(str, namespace if isinstance(namespace, list) else ())), str(key))
    value = _parse_value(frontmatter.split(memory.text).body.removeprefix("\n"), about.get("text"))
    created = read_time(str(about.get("created", ""))) or updated
    # A file's time comes from a clock that lags some milliseconds behind.
    return Item(address, value, created, max(created, updated), about.get("index") is not False)


def compose_item(
    address: Address,
    value: Mapping[str, Any],
    *,
    name: str,
    kind: Kind,
    created: datetime,
    index: bool,
    before: str | None,
) -> str:
    """The file of an item. `before` is the file it had, whose other fields stay if both are plain memories."""
    plain: Value = json.loads(json.dumps(dict(value)))
    is_at_home = name == "/".join([*address.namespace, address.key])
    native = _compose_native(plain, before) if index and is_at_home else None
    if native is not None:
        return native
    key = _find_text(plain)
    about: dict[str, Any] = {"namespace": list(address.namespace), "key": address.key, "created": created.isoformat()}
    about |= {} if key is None else {"text": key}
    about |= {} if index else {"index": False}
    title = shorten(one_line(address.key), _TITLE_CHARS) or "item"
    said = describe(title, plain[key] if key is not None else _list_texts(plain))
    fields = {"name": title, "description": said, "type": kind.value, _ITEM: json.dumps(about)}
    return frontmatter.compose(fields, "", Dialect.FLAT) + _render_value(plain, key)


def _compose_native(value: Value, before: str | None) -> str | None:
    """The value as a plain memory; None if it is none, or would not read back as the same."""
    if set(value) != set(_NATIVE) or not all(isinstance(at, str) for at in value.values()):
        return None
    if value["type"] not in Kind.__members__.values() or not value["content"].strip("\n"):
        return None
    fields = {"name": value["title"], "description": value["description"], "type": value["type"]}
    try:
        check_description(value["description"], Kind(value["type"]))
        if before is not None and _ITEM not in frontmatter.parse_fields(before).raw:
            text = frontmatter.replace_body(frontmatter.set_fields(before, fields), value["content"])
        else:
            text = frontmatter.compose(fields, value["content"], Dialect.FLAT)
    except FormatError:
        return None
    read, body = frontmatter.parse_fields(text), frontmatter.split(text).body.strip("\n")
    is_same = (read.title, read.description, body) == (value["title"], value["description"], value["content"])
    return text if is_same else None


def _find_text(value: Value) -> str | None:
    """The field that is the longest text, if it reads back from a body."""
    texts = sorted((key for key, at in value.items() if isinstance(at, str)), key=lambda key: -len(value[key]))
    for key in texts[:1]:
        if value[key].strip() and not find_forbidden(value[key], lines=True):
            return key if _parse_value(_render_value(value, key), key) == value else None
    return None


def _render_value(value: Value, key: str | None) -> str:
    rest = {at: value[at] for at in value if at != key}
    block = _OPENING + _render_json(rest) + _CLOSING if rest or key is None else ""
    if key is None:
        return block
    return f"{value[key]}\n\n{block}" if block else f"{value[key]}\n"


def _parse_value(body: str, key: object) -> Value:
    start = body.rfind(_OPENING)
    is_block = start >= 0 and (start == 0 or body[:start].endswith("\n\n")) and body.endswith(_CLOSING)
    rest = _parse_table(body[start + len(_OPENING) : -len(_CLOSING)]) if is_block else None
    if not isinstance(key, str):
        return rest if rest is not None else {"content": body.strip("\n")}
    if rest is None:
        return {key: body.removesuffix("\n")}
    return {key: body[:start].removesuffix("\n").removesuffix("\n"), **rest}


def _render_json(value: Value) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, indent=2) if find_forbidden(text, lines=True) else text


def _parse_table(text: object) -> Value | None:
    try:
        table = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def _list_texts(value: Value) -> str:
    """All that a value says, for its description."""
    parts: list[str] = []
    waiting: list[object] = [value]
    while waiting and len(parts) < 50:
        at = waiting.pop(0)
        if isinstance(at, Mapping):
            waiting[:0] = [part for pair in at.items() for part in pair]
        elif isinstance(at, list):
            waiting[:0] = at
        else:
            parts.append(str(at))
    return " ".join(parts)


def _make_segment(label: str, *, is_first: bool) -> str:
    is_name = not find_refusal(label) and not (is_first and label.casefold() in _RESERVED)
    return label if is_name else _mark(label, label)


def _mark(label: str, whole: str) -> str:
    digest = digest_of(whole.encode("utf-8", "surrogatepass"))[:10]
    return f"{make_slug(label)[: NAME_CHARS // 2].strip('-_')}-{digest}"
