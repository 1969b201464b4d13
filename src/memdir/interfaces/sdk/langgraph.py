"""A LangGraph store (`BaseStore`) in a memory directory: namespaces are folders, values are memories.

    graph = builder.compile(store=MemdirStore(memdir.FileStore("agent/memory")))

A value is a JSON object under a namespace and a key, and reads back unchanged. Its longest text becomes the body, so that
people and recall can read it; the rest follows as a JSON block. Both can be edited by hand. Namespace, key and the name of the
text field are in the frontmatter, under `item`. If that would not read back as the same value, the block contains everything.
Memories that LangGraph did not write are values, too, under their folders and name: {"type", "title", "description",
"content"}; a put replaces such a memory with an item.

All puts of a batch are one change in history. A search with a query returns the results of memdir's search, best first and with
a score; the rest of the limit is filled with the newest others, whose score is None, as in LangGraph's own stores. Team memories
are left out. Time to live is not supported, and putting the same value again changes nothing, not even its time.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from memdir.errors import NotFoundError, PathError
from memdir.files import find_refusal
from memdir.format import frontmatter
from memdir.format.frontmatter import digest_of, make_slug, read_time
from memdir.interfaces.sdk import describe_text, make_missing
from memdir.limits import NAME_CHARS, NAME_DEPTH
from memdir.operations.write import WriteContext, change, retry
from memdir.recall.select import BELOW, WORSE, LocalSearch
from memdir.records import Dialect, Edit, Forget, Kind, Origin, Put, Query, Rewrite, Scope, StoredMemory
from memdir.store.files import FileStore
from memdir.text import find_forbidden, fold, one_line, shorten

try:
    from langgraph.store import base
except ModuleNotFoundError as error:
    raise make_missing(error, "langgraph") from None

Value = dict[str, Any]
Address = tuple[tuple[str, ...], str]  # a namespace and a key
_ITEM = "item"
_OPENING, _CLOSING = "```json\n", "\n```\n"
_RESERVED = frozenset({"logs", "team"})  # top-level folders that memdir uses itself
_TITLE_CHARS = 80
DEEP = NAME_DEPTH - 2  # labels that become folders; the rest of a longer namespace is one folder
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda one, other: one == other,
    "$ne": lambda one, other: one != other,
    "$gt": lambda one, other: float(one) > float(other),
    "$gte": lambda one, other: float(one) >= float(other),
    "$lt": lambda one, other: float(one) < float(other),
    "$lte": lambda one, other: float(one) <= float(other),
}


class MemdirStore(base.BaseStore):
    """A LangGraph store. History records changes under `session`. Safe to use from several threads."""

    def __init__(self, store: FileStore, *, session: str = "") -> None:
        self.store = store
        self.origin = Origin("agent", "by LangGraph", session)

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Run operations: reads see the state before the batch, and the last of several puts to one key wins."""
        asked = list(ops)
        for op in asked:
            base.validate_op_namespace(op)
        results = [self._read_op(op) for op in asked]
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, base.PutOp)}
        if puts:
            retry(lambda: self._put_all(puts))
        return results

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _read_op(self, op: Any) -> Any:
        if isinstance(op, base.PutOp):
            return None
        if isinstance(op, base.GetOp):
            memory = self._find((op.namespace, op.key))
            return None if memory is None else parse_item(memory)[0]
        if isinstance(op, base.SearchOp):
            return self._search(op)
        if isinstance(op, base.ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"unknown operation {type(op).__name__}")

    def _find(self, address: Address) -> StoredMemory | None:
        for name in make_names(address):
            memory = self._read(name)
            if memory is not None and _find_address(parse_item(memory)[0]) == address:
                return memory
        return None

    def _read(self, name: str) -> StoredMemory | None:
        try:
            memory = self.store.read(name)
        except (NotFoundError, PathError):
            return None
        return memory if memory.header.scope is not Scope.TEAM else None

    def _list(self, namespace: tuple[str, ...]) -> list[str]:
        """Return memories that may be below a namespace, newest first; the exact namespace is only in the file."""
        folder = make_folder(namespace[:DEEP])
        return [header.name for header in self.store.scan() if not folder or header.name.startswith(f"{folder}/")]

    def _load(self, names: Iterable[str], namespace: tuple[str, ...]) -> Iterator[tuple[str, Any, bool]]:
        """Yield the items below a namespace with their names, and whether a text search can find them."""
        for name in names:
            memory = self._read(name)
            item, is_found = (None, False) if memory is None else parse_item(memory)
            if item is not None and item.namespace[: len(namespace)] == namespace:
                yield name, item, is_found

    def _search(self, op: Any) -> list[Any]:
        names, most = self._list(op.namespace_prefix), op.offset + op.limit
        scores = self._score(op.query, set(names), len(names) if op.filter else most) if op.query else {}
        names.sort(key=lambda name: -scores.get(name, -1.0))
        hidden, results = list[Any](), list[Any]()
        for name, item, is_found in self._load(names, op.namespace_prefix):
            if _matches_filter(item.value, op.filter or {}):
                is_hidden = name in scores and not is_found
                facts = item.namespace, item.key, item.value, item.created_at, item.updated_at
                (hidden if is_hidden else results).append(
                    base.SearchItem(*facts, None if is_hidden else scores.get(name))
                )
            if len(results) >= most:
                break
        return [*results, *hidden][op.offset : most]

    def _score(self, query: str, names: set[str], limit: int) -> dict[str, float]:
        with LocalSearch([self.store]) as search:
            asked = Query(query, now=self.store.clock())
            picks = search.find(asked, limit, lambda _, name: "" if name in names else "not asked for")
        return {pick.header.name: pick.score for pick in picks if pick.dropped in ("", BELOW, WORSE)}

    def _list_namespaces(self, op: Any) -> list[tuple[str, ...]]:
        namespaces = {item.namespace for _, item, _ in self._load(self._list(()), ()) if item.namespace}
        rules = op.match_conditions or ()
        matching = {one[: op.max_depth] for one in namespaces if all(_matches_namespace(one, rule) for rule in rules)}
        return sorted(matching)[op.offset : op.offset + op.limit]

    def _put_all(self, puts: dict[Address, Any]) -> None:
        taken: set[str] = set()
        edits = [edit for address, op in puts.items() if (edit := self._plan(address, op, taken)) is not None]
        if edits:
            change(self.store, edits, WriteContext(self.origin, self.store.clock()), verb="save").check_written()

    def _plan(self, address: Address, op: Any, taken: set[str]) -> Edit | None:
        memory = self._find(address)
        if op.value is None:
            return None if memory is None else Forget(memory.header.name, memory.digest)
        name = self._choose_name(address, taken) if memory is None else memory.header.name
        text = compose_item(
            address,
            op.value,
            kind=Kind.USER if self.store.scope is Scope.USER else Kind.REFERENCE,
            created=self.store.clock() if memory is None else parse_item(memory)[0].created_at,
            index=op.index is not False,
        )
        if memory is None:
            return Put(name, text)
        return Rewrite(name, text, memory.digest) if text != memory.text else None

    def _choose_name(self, address: Address, taken: set[str]) -> str:
        """Return the memory name for a new item, with a digest if the plain name is in use (ignoring case)."""
        own, marked = make_names(address)
        folder, _, leaf = own.rpartition("/")
        is_free = fold(own) not in taken
        if is_free and not any(fold(file) == fold(f"{leaf}.md") for file in self.store.list_files(folder)):
            taken.add(fold(own))
            return own
        return marked


def _find_address(item: Any) -> Address:
    return item.namespace, item.key


def _matches_filter(value: Any, rules: dict[str, Any]) -> bool:
    return all(_matches_rule(value.get(key), rule) for key, rule in rules.items())


def _matches_rule(value: Any, rule: Any) -> bool:
    """Return whether a value matches a filter rule: `$` operators, a table by field, a list by item, or equality."""
    if isinstance(rule, dict) and any(str(key).startswith("$") for key in rule):
        if unknown := rule.keys() - _COMPARE.keys():
            raise ValueError(f"unknown filter operator {min(unknown)!r}; use one of {', '.join(_COMPARE)}")
        try:
            return all(_COMPARE[key](value, operand) for key, operand in rule.items())
        except (TypeError, ValueError):  # not a number
            return False
    if isinstance(rule, dict):
        return isinstance(value, dict) and _matches_filter(value, rule)
    if isinstance(rule, list | tuple):
        is_list = isinstance(value, list | tuple) and len(value) == len(rule)
        return is_list and all(_matches_rule(one, other) for one, other in zip(value, rule, strict=True))
    return bool(value == rule)


def _matches_namespace(namespace: tuple[str, ...], rule: Any) -> bool:
    path = tuple(rule.path)
    if len(path) > len(namespace):
        return False
    if rule.match_type not in ("prefix", "suffix"):
        raise ValueError(f"unknown match type {rule.match_type!r}")
    part = namespace[: len(path)] if rule.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(pattern in ("*", label) for label, pattern in zip(part, path, strict=True))


def make_folder(namespace: tuple[str, ...]) -> str:
    """Return the folder of a namespace: its labels, with a digest for each that is not a valid folder name."""
    labels = list(namespace)
    if len(labels) >= NAME_DEPTH:
        labels = [*labels[:DEEP], json.dumps(labels[DEEP:])]
    return "/".join(_make_segment(label, is_first=not index) for index, label in enumerate(labels))


def make_names(address: Address) -> tuple[str, str]:
    """Return two names for an item's memory: a plain one, and one with a digest in case the plain name is in use."""
    namespace, key = address
    folder = make_folder(namespace)
    prefix = f"{folder}/" if folder else ""
    return prefix + _make_segment(key, is_first=not folder), prefix + _make_unique(key, json.dumps(address))


def parse_item(memory: StoredMemory) -> tuple[Any, bool]:
    """Return a memory as an item, and whether a text search can find it; an invalid block is treated as text."""
    fields, header = frontmatter.parse_fields(memory.text), memory.header
    about = _parse_table(fields.raw.get(_ITEM))
    if about is None:
        *folders, leaf = header.name.split("/")
        native = {
            "type": header.kind.value if header.kind else "",
            "title": header.title,
            "description": header.description,
            "content": memory.body.strip("\n"),
        }
        return base.Item(
            value=native, key=leaf, namespace=tuple(folders), created_at=header.modified, updated_at=header.modified
        ), True
    labels = about.get("namespace")
    namespace = tuple(map(str, labels if isinstance(labels, list) else ()))
    value = _parse_value(frontmatter.split_frontmatter(memory.text).body.removeprefix("\n"), about.get("text"))
    created = read_time(str(about.get("created", ""))) or header.modified
    # A file's time comes from a clock that is some milliseconds behind.
    times = {"created_at": created, "updated_at": max(created, header.modified)}
    return base.Item(value=value, key=str(about.get("key")), namespace=namespace, **times), about.get(
        "index"
    ) is not False


def compose_item(
    address: Address,
    value: Mapping[str, Any],
    *,
    kind: Kind,
    created: datetime,
    index: bool,
) -> str:
    plain: Value = json.loads(json.dumps(dict(value)))
    key = _find_text(plain)
    about: dict[str, Any] = {"namespace": list(address[0]), "key": address[1], "created": created.isoformat()}
    about |= {} if key is None else {"text": key}
    about |= {} if index else {"index": False}
    title = shorten(one_line(address[1]), _TITLE_CHARS) or "item"
    words = " ".join(re.findall(r"\w[^\"{}\[\]]*", json.dumps(plain, ensure_ascii=False)))
    description = describe_text(title, plain[key] if key is not None else words)
    fields = {"name": title, "description": description, "type": kind.value, _ITEM: json.dumps(about)}
    return frontmatter.compose_file(fields, "", Dialect.FLAT) + _render_value(plain, key)


def _find_text(value: Value) -> str | None:
    """Return the field with the longest text if it can be stored as the body, else None."""
    key = max(
        (key for key, text in value.items() if isinstance(text, str)), key=lambda key: len(value[key]), default=None
    )
    if key is None or not value[key].strip() or find_forbidden(value[key], lines=True):
        return None
    return key if _parse_value(_render_value(value, key), key) == value else None


def _render_value(value: Value, key: str | None) -> str:
    rest = {field: value[field] for field in value if field != key}
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


def _make_segment(label: str, *, is_first: bool) -> str:
    is_name = not find_refusal(label) and not (is_first and label.casefold() in _RESERVED)
    return label if is_name else _make_unique(label, label)


def _make_unique(label: str, hashed: str) -> str:
    digest = digest_of(hashed.encode("utf-8", "surrogatepass"))[:10]
    return f"{make_slug(label)[: NAME_CHARS // 2].strip('-_')}-{digest}"
