"""Find memories in stores by name, title, path or address, list them, and make rows of their fields."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from memdir.errors import MemdirError, NotFoundError
from memdir.format.age import render_age
from memdir.format.fields import FIELDS
from memdir.records import TEAM_FOLDER, Header, Scope
from memdir.store.contract import Folder, StoreBase
from memdir.store.facts import find_authors, find_listed_ages
from memdir.store.plan import is_team
from memdir.text import fold, fold_link, one_line, shorten

SCHEME = "memdir://"
_LEAST_CHARS = 3  # of a word in English, because search also matches inside words
AnyStore = TypeVar("AnyStore", bound=StoreBase)


class FoundMemory(NamedTuple, Generic[AnyStore]):
    store: AnyStore
    header: Header


def make_address(scope: str, name: str) -> str:
    """Return the address of a memory for other programs: memdir://SCOPE/NAME."""
    return f"{SCHEME}{scope}/{quote(name, safe='/')}"


def parse_address(text: str) -> tuple[str, str] | None:
    """Return the scope and name in an address, or None. With the scope `index`, the name is a scope."""
    if not text.startswith(SCHEME):
        return None
    scope, _, name = text.removeprefix(SCHEME).partition("/")
    return (scope, unquote(name, errors="replace")) if scope and name else None


def find_memory(
    stores: Sequence[AnyStore], text: str, *, scope: str | None = None, visible: bool = False
) -> FoundMemory[AnyStore]:
    """Find a memory by its path, address, name or unambiguous title. If a name is in several stores, the first is used.

    `visible`: only memories that conversations see. Raises NotFoundError, which lists similar or ambiguous names.
    """
    scope, text = parse_address(text) or (scope, text)
    for store in stores:
        if inside := _find_inside(store, text):
            stores, text = (store,), inside
            break
    exact = None if visible else _find_exact(stores, _clean_name(text))
    if exact is not None and scope in (None, exact.header.scope):
        return exact
    candidates: list[FoundMemory[AnyStore]] = []
    for store in stores:
        known = {fold(other.header.name) for other in candidates}
        own = _list_store(store, scope, visible=visible)
        candidates += [candidate for candidate in own if fold(candidate.header.name) not in known]
    return _choose(candidates, text)


def find_past(
    stores: Sequence[AnyStore], text: str, *, scope: str | None = None, recalled: bool = False
) -> tuple[AnyStore, str]:
    """Find a memory as `find_memory` does, or by exact name in the history or, with `recalled`, the recall log."""
    try:
        store, header = find_memory(stores, text, scope=scope)
        return store, header.name
    except NotFoundError:
        name = _clean_name(text)
        if scope == Scope.TEAM and not is_team(name):
            name = f"{TEAM_FOLDER}/{name}"
        for store in stores:
            if store.changes(name, limit=1):
                return store, name
        for store in stores if recalled else ():
            if store.recalls(name, limit=1):
                return store, name
        raise


def find_by_words(
    stores: Sequence[AnyStore], text: str, *, scope: str | None = None, limit: int = 20
) -> list[FoundMemory[AnyStore]]:
    """Return the memories that contain all words of a text, in any form; none if a word is too short to say much."""
    from memdir.recall.find import search_memories  # only needed for text that is not a name

    if any(word.isascii() and len(word) < _LEAST_CHARS for word in text.split()):
        return []
    hits = [FoundMemory(store, hit.header) for store in stores for hit in search_memories([store], text, limit=limit)]
    return [memory for memory in hits if scope in (None, memory.header.scope)]


def list_memories(
    stores: Sequence[AnyStore], *, kind: str | None = None, scope: str | None = None, visible: bool = False
) -> list[FoundMemory[AnyStore]]:
    listed = [
        memory
        for store in stores
        for memory in _list_store(store, scope, visible=visible)
        if kind in (None, memory.header.kind)
    ]
    listed.sort(key=lambda memory: (memory.header.modified, memory.header.name), reverse=True)
    return listed


def make_rows(
    memories: Sequence[FoundMemory[AnyStore]], fields: Sequence[str], *, now: datetime
) -> list[dict[str, object]]:
    """Return these fields of each memory as dicts, in this order. Author and age are only looked up if requested."""
    facts: dict[tuple[int, str], _RowFacts] = {}
    for store in {id(memory.store): memory.store for memory in memories}.values():
        headers = [memory.header for memory in memories if memory.store is store]
        shared = [header.name for header in headers if header.scope is Scope.TEAM]
        authors = find_authors(store, shared) if "author" in fields else {}
        ages = {} if {"age", "since"}.isdisjoint(fields) else find_listed_ages(store, headers, now=now)
        for name in [header.name for header in headers]:
            facts[id(store), name] = _RowFacts(authors.get(name), ages.get(name, now), now)
    return [
        {field: _FIELDS[field](store, header, facts[id(store), header.name]) for field in fields}
        for store, header in memories
    ]


class _RowFacts(NamedTuple):
    author: str | None
    since: datetime
    now: datetime


# Functions instead of getattr for speed, because a list may have thousands of rows.
_FIELDS: dict[str, Callable[[StoreBase, Header, _RowFacts], object]] = {
    "name": lambda store, header, facts: header.name,
    "path": lambda store, header, facts: store.locate(header),
    "title": lambda store, header, facts: header.title,
    "description": lambda store, header, facts: header.description,
    "type": lambda store, header, facts: header.kind.value if header.kind else None,
    "scope": lambda store, header, facts: header.scope.value,
    "modified": lambda store, header, facts: header.modified,
    **{row.key: lambda store, header, facts, row=row: row.read(header) for row in FIELDS},  # type: ignore[misc]
    "size": lambda store, header, facts: header.signature.size,
    "version": lambda store, header, facts: header.signature.inode,
    "age": lambda store, header, facts: render_age(facts.since, facts.now),
    "since": lambda store, header, facts: facts.since,
    "author": lambda store, header, facts: facts.author,
}


def _list_store(store: AnyStore, scope: str | None, *, visible: bool) -> list[FoundMemory[AnyStore]]:
    # A conversation sees team memories only if the user enabled them.
    hides_team = visible and not store.team
    return [
        FoundMemory(store, header)
        for header in store.scan()
        if scope in (None, header.scope) and not (hides_team and header.scope is Scope.TEAM)
    ]


def _clean_name(text: str) -> str:
    return text.strip().removeprefix("./").removesuffix(".md")


def _choose(candidates: Sequence[FoundMemory[AnyStore]], text: str) -> FoundMemory[AnyStore]:
    name = _clean_name(text)
    for same in (lambda other: other == name, lambda other: fold(other) == fold(name)):
        if exact := next((candidate for candidate in candidates if same(candidate.header.name)), None):
            return exact
    link = fold_link(name)
    matches = [candidate for candidate in candidates if fold_link(candidate.header.title) == link]
    if not matches:
        leaves = ((candidate.header.name.rpartition("/")[2], candidate) for candidate in candidates)
        matches = [candidate for leaf, candidate in leaves if fold_link(leaf) == link]
    if len(matches) == 1:
        return matches[0]
    query = shorten(one_line(text), 60)
    if matches:
        names = ", ".join(match.header.name for match in matches[:5])
        raise NotFoundError(f"{query!r} is ambiguous: {names}", name=text, hint="pass the exact name")
    from difflib import get_close_matches  # only needed for an unknown name

    near = get_close_matches(fold(name), [fold(candidate.header.name) for candidate in candidates], n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "`memdir list` shows what there is"
    raise NotFoundError(f"no memory named {query!r}", name=text, hint=hint)


def _find_exact(stores: Sequence[AnyStore], name: str) -> FoundMemory[AnyStore] | None:
    """Return the memory with exactly this name without listing the store, or None if the store must be listed."""
    folder, _, leaf = name.rpartition("/")
    for store in stores:
        try:
            return FoundMemory(store, store.read(name).header)
        except NotFoundError:
            # A memory whose name differs only in case takes precedence over memories of later stores.
            if any(fold(file) == fold(f"{leaf}.md") for file in store.list_files(folder, alike=f"{leaf}.md")):
                return None
        except (MemdirError, OSError):
            return None
    return None


def _find_inside(store: StoreBase, text: str) -> str:
    """Return the name of the memory at an absolute path, or "" if the path is not in the store."""
    if not text.startswith("/") or "\0" in text or not isinstance(store, Folder):
        return ""
    roots = [root.rstrip("/") + "/" for root in (str(store.root), os.path.realpath(store.root))]
    return next((text.removeprefix(root) for root in roots if text.startswith(root)), "")
