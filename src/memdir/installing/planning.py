"""From what a file holds to what it should hold, and back: pure, so that it can be shown before it is done.

    add(part, text)            our entries put in; what others wrote is not touched
    take_out(part, text, ...)  our entries gone, and what we had made around them if it is empty now

Entries are known by what they call: a hook whose command is `memdir hook`, a server of our name that runs us. Where
somebody else has put a server of that name, it is theirs and stays.
"""

from collections.abc import Iterator
from typing import Any

from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.hosts.places import OURS
from memdir.installing.command import NAME
from memdir.installing.entries import JsonPart, Part, TomlPart
from memdir.installing.json_text import Node, Splice, cut_child, insert_item, insert_member, parse
from memdir.installing.toml_text import add_block, check_toml, cut_block, find_block, has_block

_HOOKS = "hooks"
Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Added:
    """A text with our entries; what was put in, in this order, and the containers that had to be made for it."""

    text: str
    splices: tuple[Splice, ...] = ()
    made: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


def add(part: Part, text: str | None) -> Added:
    """The text with our entries; None is a file that does not exist. Raises FormatError for what cannot be edited."""
    if isinstance(part, JsonPart):
        return _add_json(part, text)
    if isinstance(part, TomlPart):
        return _add_toml(part, text or "")
    if text not in (None, part.text) and NAME not in str(text):
        raise FormatError("there is a file of somebody else's", field="file")
    return Added(part.text, (Splice(0, part.text),))


def is_there(part: Part, text: str) -> bool:
    """Whether all of our entries are there, exactly as they should be."""
    if isinstance(part, TomlPart):
        return find_block(text) == part.lines.strip()
    if not isinstance(part, JsonPart):
        return text == part.text
    table = parse(text).value
    hooks = table.get(_HOOKS) if isinstance(table, dict) else None
    groups = hooks if isinstance(hooks, dict) else {}
    wanted = list(part.hooks.values())
    found = [at for rows in groups.values() if isinstance(rows, list) for at in rows if _is_ours(at)]
    if len(found) != len(wanted) or any(group not in _rows(groups, name) for name, group in part.hooks.items()):
        return False
    return all(_find_server(table, key) == server for key, server in part.servers.items())


def take_out(part: Part, text: str, *, made: tuple[tuple[str, ...], ...] | None = None) -> str | None:
    """The text without our entries; None if nothing is left of a file that was ours alone.

    `made` are containers we are known to have made; without it every empty one around our entries is taken for ours.
    """
    if isinstance(part, TomlPart):
        return cut_block(text)
    if not isinstance(part, JsonPart):
        return None
    if not text.strip():
        return text
    touched: list[Keys] = []
    while (found := _find_ours(part, parse(text))) is not None:
        keys, number = found
        text = cut_child(text, _walk(parse(text), keys), number)
        touched.append(keys)
    around = {tuple(map(str, keys)) for at in touched if len(at) <= 2 for keys in (at, at[:1])}
    for names in sorted(around, key=len, reverse=True):
        if made is None or names in made:
            text = _drop_if_empty(text, names)
    return text


# --- JSON -----------------------------------------------------------------------------------------------------------

_THEIRS = object()
_EMPTY = "{}\n"


def _add_json(part: JsonPart, text: str | None) -> Added:
    splices: list[Splice] = []
    if text is None:
        text = _EMPTY
    elif not text.strip():
        text = _put(text, Splice(len(text), _EMPTY), splices)
    if parse(text).kind != "table":
        raise FormatError("it is no table", field="json")
    made: list[tuple[str, ...]] = []
    notes: list[str] = []
    for keys, kind in _list_containers(part):
        text = _make(text, keys, kind, splices, made)
    for name, group in part.hooks.items():
        text = _put(text, insert_item(text, _walk(parse(text), (_HOOKS, name)), group), splices)
    for key, server in part.servers.items():
        if _find_server(parse(text).value, key) is _THEIRS:
            notes.append(f"{part.path} has a server {NAME!r} of its own, which is left as it is")
            continue
        text = _put(text, insert_member(text, _walk(parse(text), (key,)), NAME, server), splices)
    return Added(text, tuple(splices), tuple(made), tuple(notes))


def _list_containers(part: JsonPart) -> Iterator[tuple[tuple[str, ...], str]]:
    if part.hooks:
        yield (_HOOKS,), "table"
        yield from (((_HOOKS, name), "list") for name in part.hooks)
    yield from (((key,), "table") for key in part.servers)


def _make(text: str, keys: tuple[str, ...], kind: str, splices: list[Splice], made: list[tuple[str, ...]]) -> str:
    """See that a container is there."""
    parent = _walk(parse(text), keys[:-1])
    found = parent.find(keys[-1])
    if found is not None:
        if found.kind != kind:
            raise FormatError(f"its {'.'.join(keys)} is no {kind}", field=".".join(keys))
        return text
    made.append(keys)
    return _put(text, insert_member(text, parent, keys[-1], {} if kind == "table" else []), splices)


def _put(text: str, splice: Splice, splices: list[Splice]) -> str:
    splices.append(splice)
    return splice.apply(text)


def _walk(node: Node, keys: Keys) -> Node:
    for key in keys:
        if isinstance(key, int):
            node = node.children[key]
            continue
        found = node.find(key) if node.kind == "table" else None
        if found is None:
            raise FormatError(f"it has no {key}", field=key)
        node = found
    if node.kind == "scalar":
        raise FormatError("it holds no table", field="json")
    return node


def _find_ours(part: JsonPart, root: Node) -> tuple[Keys, int] | None:
    """The first entry of ours: the way to its container, and its number there."""
    hooks = root.find(_HOOKS) if root.kind == "table" else None
    for name in dict.fromkeys(hooks.keys) if hooks else ():
        groups = hooks.find(name) if hooks else None
        for number, group in enumerate(groups.children if groups and groups.kind == "list" else ()):
            if _is_ours(group.value):
                return (_HOOKS, name), number
            # Somebody has put a hook of their own beside ours.
            handlers = group.find(_HOOKS) if group.kind == "table" else None
            for at, handler in enumerate(handlers.children if handlers else ()):
                if _is_ours(handler.value):
                    return (_HOOKS, name, number, _HOOKS), at
    for key in part.servers:
        servers = root.find(key) if root.kind == "table" else None
        place = servers.find_number(NAME) if servers else None
        if servers and place is not None and _is_own_server(servers.value):
            return (key,), place
    return None


def _drop_if_empty(text: str, keys: tuple[str, ...]) -> str:
    parent = _walk(parse(text), keys[:-1])
    number = parent.find_number(keys[-1])
    return text if number is None or parent.children[number].children else cut_child(text, parent, number)


def _is_ours(group: object) -> bool:
    """A group of hooks, or a single one, that calls us and nobody else."""
    if not isinstance(group, dict):
        return False
    handlers = group.get(_HOOKS)
    rows = handlers if isinstance(handlers, list) else [group]
    commands = [row.get("command") for row in rows if isinstance(row, dict)]
    return bool(commands) and all(isinstance(at, str) and OURS.search(at) for at in commands)


def _rows(groups: dict[str, Any], name: str) -> list[Any]:
    rows = groups.get(name)
    return rows if isinstance(rows, list) else []


def _find_server(table: object, key: str) -> object:
    """Our server, None if there is none of the name, _THEIRS if it is somebody else's."""
    servers = table.get(key) if isinstance(table, dict) else None
    if not isinstance(servers, dict) or NAME not in servers:
        return None
    return servers[NAME] if _is_own_server(servers) else _THEIRS


def _is_own_server(servers: object) -> bool:
    row = servers.get(NAME) if isinstance(servers, dict) else None
    if not isinstance(row, dict):
        return False
    arguments = row.get("args")
    words = [row.get("command"), *(arguments if isinstance(arguments, list) else ())]
    return words[-1:] == ["mcp"] and any(str(at).endswith(NAME) for at in words)


# --- TOML -----------------------------------------------------------------------------------------------------------


def _add_toml(part: TomlPart, text: str) -> Added:
    table = check_toml(text.removeprefix("\ufeff"))
    servers = table.get("mcp_servers")
    if has_block(text):
        return _add_toml(part, cut_block(text))
    if isinstance(servers, dict) and NAME in servers:
        return Added(text, notes=(f"{part.path} has a server {NAME!r} of its own, which is left as it is",))
    splice = add_block(text, part.lines)
    after = splice.apply(text)
    try:
        check_toml(after.removeprefix("\ufeff"))
    except FormatError:
        raise FormatError("its mcp_servers is written so that nothing can be added", field="mcp_servers") from None
    return Added(after, (splice,))
