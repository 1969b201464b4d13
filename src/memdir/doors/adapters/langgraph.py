"""A LangGraph store (`BaseStore`) in a memory directory: namespaces are folders, values are memories.

    graph = builder.compile(store=MemdirStore(memdir.open_store()))

Values come back as they were put (`items`); all puts of a batch are one act of history. A search with a query tells
what memdir's own search finds, best first and with a score; what is left of the limit is filled with the newest others,
whose score is None, as LangGraph's own stores do. What a team shares is not here. Time to live is not supported, and
putting the same value again changes nothing, not even its time.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from memdir.doors.adapters import items, make_missing
from memdir.doors.adapters.items import Address
from memdir.errors import ConflictError, NotFoundError, PathError
from memdir.records import Edit, Forget, Kind, Memory, Origin, Put, Query, Rewrite, Scope
from memdir.search.local import BELOW, WORSE, LocalSearch
from memdir.store.files import FileStore
from memdir.text import fold

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        PutOp,
        SearchItem,
        SearchOp,
        validate_op_namespace,
    )
except ModuleNotFoundError as error:
    raise make_missing(error, "langgraph") from None

_TRIES = 5  # when somebody else changes the same memory between reading and writing
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda one, other: one == other,
    "$ne": lambda one, other: one != other,
    "$gt": lambda one, other: float(one) > float(other),
    "$gte": lambda one, other: float(one) >= float(other),
    "$lt": lambda one, other: float(one) < float(other),
    "$lte": lambda one, other: float(one) <= float(other),
}


class MemdirStore(BaseStore):
    """`session` is the conversation that history files the changes under. Safe to use from several threads."""

    def __init__(self, store: FileStore, *, session: str = "") -> None:
        self.store = store
        self.origin = Origin("agent", "by LangGraph", session)

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Reads see what was there before the batch; of several puts to one key the last counts."""
        asked = list(ops)
        for op in asked:
            validate_op_namespace(op)
        results = [self._look(op) for op in asked]
        puts = {Address(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        if puts:
            self._put_all(puts)
        return results

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        return await asyncio.to_thread(self.batch, list(ops))

    # --- looking ----------------------------------------------------------------------------------------------------

    def _look(self, op: Any) -> Any:
        if isinstance(op, PutOp):
            return None
        if isinstance(op, GetOp):
            memory = self._find(Address(op.namespace, op.key))
            return None if memory is None else _make_item(items.parse_item(memory))
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"unknown operation {type(op).__name__}")

    def _find(self, address: Address) -> Memory | None:
        for name in items.make_names(address):
            memory = self._read(name)
            if memory is not None and items.parse_item(memory).address == address:
                return memory
        return None

    def _read(self, name: str) -> Memory | None:
        try:
            memory = self.store.read(name)
        except (NotFoundError, PathError):
            return None
        return memory if memory.header.scope is not Scope.TEAM else None

    def _list(self, namespace: tuple[str, ...]) -> list[str]:
        """The memories that may lie below a namespace, newest first; which namespace it is only the file says."""
        folder = items.make_folder(namespace[: items.DEEP])
        return [at.name for at in self.store.scan() if not folder or at.name.startswith(f"{folder}/")]

    def _open(self, names: Iterable[str], namespace: tuple[str, ...]) -> Iterator[tuple[str, items.Item]]:
        """Those of them that do lie below it, as items; read one by one, as they are asked for."""
        for name in names:
            memory = self._read(name)
            item = None if memory is None else items.parse_item(memory)
            if item is not None and item.address.namespace[: len(namespace)] == namespace:
                yield name, item

    def _search(self, op: Any) -> list[Any]:
        names, most = self._list(op.namespace_prefix), op.offset + op.limit
        scores = self._score(op.query, set(names), len(names) if op.filter else most) if op.query else {}
        names.sort(key=lambda name: -scores.get(name, -1.0))
        hidden: list[tuple[None, items.Item]] = []
        found: list[tuple[float | None, items.Item]] = []
        for name, item in self._open(names, op.namespace_prefix):
            score = scores.get(name)
            if not _passes(item.value, op.filter or {}):
                continue
            if score is not None and not item.is_found:
                hidden.append((None, item))
            else:
                found.append((score, item))
            if len(found) >= most:
                break
        return [_make_found(item, score) for score, item in [*found, *hidden][op.offset : most]]

    def _score(self, query: str, names: set[str], limit: int) -> dict[str, float]:
        """What memdir's search thinks of the best of these, whether or not it would tell them by itself."""
        with LocalSearch([self.store]) as search:
            asked = Query(query, now=self.store.clock())
            picks = search.find(asked, limit, lambda _, name: "" if name in names else "not asked for")
        return {pick.header.name: pick.score for pick in picks if pick.dropped in ("", BELOW, WORSE)}

    def _list_namespaces(self, op: Any) -> list[tuple[str, ...]]:
        found = {item.address.namespace for _, item in self._open(self._list(()), ()) if item.address.namespace}
        kept = [at for at in found if all(_matches(at, rule) for rule in op.match_conditions or ())]
        cut = sorted({at[: op.max_depth] for at in kept} if op.max_depth is not None else kept)
        return cut[op.offset : op.offset + op.limit]

    # --- changing ---------------------------------------------------------------------------------------------------

    def _put_all(self, puts: dict[Address, Any]) -> None:
        for attempt in range(_TRIES):
            taken: set[str] = set()
            edits = [edit for address, op in puts.items() if (edit := self._plan(address, op, taken)) is not None]
            try:
                if edits:
                    self.store.change(edits, verb="save", origin=self.origin)
                return
            except (ConflictError, NotFoundError):
                if attempt == _TRIES - 1:
                    raise

    def _plan(self, address: Address, op: Any, taken: set[str]) -> Edit | None:
        memory = self._find(address)
        if op.value is None:
            return None if memory is None else Forget(memory.header.name, memory.digest)
        before = None if memory is None else items.parse_item(memory)
        name = self._choose_name(address, taken) if memory is None else memory.header.name
        text = items.compose_item(
            address,
            op.value,
            name=name,
            kind=Kind.USER if self.store.scope is Scope.USER else Kind.REFERENCE,
            created=self.store.clock() if before is None else before.created,
            index=op.index is not False,
            before=None if memory is None else memory.text,
        )
        if memory is None:
            return Put(name, text)
        return Rewrite(name, text, memory.digest) if text != memory.text else None

    def _choose_name(self, address: Address, taken: set[str]) -> str:
        """Its own name unless a file has it that would count as the same."""
        own, marked = items.make_names(address)
        folder, _, leaf = own.rpartition("/")
        is_free = fold(own) not in taken
        if is_free and not any(fold(at) == fold(f"{leaf}.md") for at in self.store.list_files(folder)):
            taken.add(fold(own))
            return own
        return marked


def _make_item(item: items.Item) -> Any:
    return Item(
        value=item.value,
        key=item.address.key,
        namespace=item.address.namespace,
        created_at=item.created,
        updated_at=item.updated,
    )


def _make_found(item: items.Item, score: float | None) -> Any:
    address = item.address
    return SearchItem(address.namespace, address.key, item.value, item.created, item.updated, score)


def _passes(value: Any, wanted: dict[str, Any]) -> bool:
    return all(_compare(value.get(key), rule) for key, rule in wanted.items())


def _compare(value: Any, rule: Any) -> bool:
    """Equal, or as the operators say; a table without operators is compared field by field, a list one by one."""
    if isinstance(rule, dict):
        if any(str(key).startswith("$") for key in rule):
            return all(_apply(key, value, wanted) for key, wanted in rule.items())
        return isinstance(value, dict) and _passes(value, rule)
    if isinstance(rule, list | tuple):
        is_list = isinstance(value, list | tuple) and len(value) == len(rule)
        return is_list and all(_compare(one, other) for one, other in zip(value, rule, strict=True))
    return bool(value == rule)


def _apply(key: str, value: Any, wanted: Any) -> bool:
    if key not in _COMPARE:
        raise ValueError(f"unknown filter operator {key!r}: there are {', '.join(_COMPARE)}")
    try:
        return bool(_COMPARE[key](value, wanted))
    except (TypeError, ValueError):  # not a number
        return False


def _matches(namespace: tuple[str, ...], rule: Any) -> bool:
    path = tuple(rule.path)
    if len(path) > len(namespace):
        return False
    if rule.match_type not in ("prefix", "suffix"):
        raise ValueError(f"unknown match type {rule.match_type!r}")
    part = namespace[: len(path)] if rule.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
