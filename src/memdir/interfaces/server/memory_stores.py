"""The addresses of Anthropic's memory stores (`/v1/memory_stores`), so that its SDK works with this server as `base_url`.

A memory store is a store, a memory one of its files, and a memory version what one change did to one file. Contents are kept
byte for byte and may lack frontmatter; paths end in `.md`. The ID of a memory is its path, until it is renamed: then `aliases`
has the path of the ID, and another ID for the old path.
"""

import base64
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from memdir.errors import ConflictError, FormatError, NotFoundError
from memdir.files import check_name
from memdir.format.frontmatter import digest_of, read_time
from memdir.frozen import replace
from memdir.interfaces.server.access import DeniedError
from memdir.interfaces.server.api import (
    Answer,
    Call,
    OpenStore,
    check_file,
    check_keeper,
    delete_store,
    find_stores,
    make_store,
)
from memdir.interfaces.server.schemas import Json
from memdir.postgres.database import Row
from memdir.records import Change, ChangedFile
from memdir.store.plan import is_index_path

_STORE, _MEMORY, _VERSION = "memstore_", "mem_", "memver_"
_LISTED, _LISTED_FULL = 20, 20  # by default, and with contents
_PAIRS, _KEY_CHARS, _VALUE_CHARS = 16, 64, 512  # of metadata
_SIZES = (
    "SELECT digest, octet_length(data), redacted FROM memdir.contents WHERE tenant = %(tenant)s AND store = %(store)s"
)
_BEGUN = """
    SELECT DISTINCT ON (f.path) f.path, h.at FROM memdir.changed_files f
    JOIN memdir.changes h ON h.tenant = f.tenant AND h.store = f.store AND h.change = f.change
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = ANY(%(paths)s) AND f.before IS NULL
    ORDER BY f.path, f.change DESC
"""
_ALIASES = "SELECT id, path FROM memdir.aliases WHERE tenant = %(tenant)s AND store = %(store)s"
_ADD_ALIAS = (
    "INSERT INTO memdir.aliases (tenant, store, id, path) VALUES (%(tenant)s, %(store)s, %(id)s, %(path)s)"
    " ON CONFLICT (tenant, store, id) DO UPDATE SET path = excluded.path"
)


def list_memory_stores(call: Call) -> Answer:
    rows = [
        opened for opened in find_stores(call) if call.query.get("include_archived") or not opened.facts["archived"]
    ]
    since, until = _read_times(call)
    shown = [_render_store(opened) for opened in rows if since <= opened.facts["created"] <= until]
    shown.sort(key=lambda row: (row["created_at"], row["id"]), reverse=True)
    ids = [row["id"] for row in shown]
    start = ids.index(call.query["page"]) if call.query.get("page") in ids else 0
    shown, limit = shown[start:], call.query.get("limit", _LISTED)
    return 200, {"data": shown[:limit], "next_page": shown[limit]["id"] if len(shown) > limit else None}


def make_memory_store(call: Call) -> Answer:
    title, body = call.body["name"], call.body
    slug = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")[:80] or "store"
    columns = {"title": title, "description": body.get("description") or "", "metadata": _merge_pairs("{}", body)}
    for name in (slug, f"{slug}-{uuid4().hex[:8]}"):
        try:
            _, row = make_store(replace(call, body={"name": name, **columns}))
        except ConflictError:
            continue
        return 200, _render_store(replace(call, params={"store": row["id"]}).find_store())
    raise ConflictError("a store with this name already exists", hint="choose another name")


def show_memory_store(call: Call) -> Answer:
    return 200, _render_store(_open(call))


def change_memory_store(call: Call) -> Answer:
    opened, body = _open(call, write=True), call.body
    check_keeper(call, opened)
    values = {
        "title": body.get("name") or opened.facts["title"],
        "metadata": _merge_pairs(opened.facts["metadata"], body),
    }
    values["description"] = opened.facts["description"] if body.get("description") is None else body["description"]
    _update(call, opened, "title = %(title)s, description = %(description)s, metadata = %(metadata)s", **values)
    return show_memory_store(call)


def archive_memory_store(call: Call) -> Answer:
    opened = _open(call, write=True, archived=True)
    check_keeper(call, opened)
    _update(call, opened, "archived = coalesce(archived, now())")
    return show_memory_store(call)


def delete_memory_store(call: Call) -> Answer:
    opened = _open(call)
    delete_store(replace(call, params={"store": str(opened.id)}))
    return 200, {"id": call.params["store"], "type": "memory_store_deleted"}


# --- memories --------------------------------------------------------------------------------------------------------


def list_store_memories(call: Call) -> Answer:
    """List memories by path; with `depth=1`, those in folders below the prefix as one row for each folder."""
    opened, prefix = _open(call), call.query.get("path_prefix", "/").removeprefix("/")
    is_full, after = call.query.get("view") == "full", call.query.get("page", "")
    limit = min(call.query.get("limit", _LISTED), _LISTED_FULL if is_full else 100)
    rows = list[str]()  # names of memories, and of folders with a slash at the end
    while len(rows) <= limit and (page := opened.store.read_page(prefix, after=after, limit=limit + 1)):
        for header, _ in page:
            folder, slash, _ = header.name.removeprefix(prefix).partition("/")
            is_folder = slash and call.query.get("depth")
            rows.append(f"{prefix}{folder}/" if is_folder else header.name)
            after = f"{rows[-1]}\U0010ffff" if is_folder else header.name
            if is_folder:
                break
    shown = rows[:limit]
    memories = {row["path"]: row for row in _render_memories(opened, [row for row in shown if not row.endswith("/")])}
    data: list[Json] = []
    for row in shown:
        if row.endswith("/"):
            data.append({"type": "memory_prefix", "path": f"/{row}"})
        elif (memory := memories.get(f"/{row}.md")) is not None:  # not deleted since
            data.append(memory if is_full else {**memory, "content": None})
    last = f"{shown[-1]}\U0010ffff" if shown and shown[-1].endswith("/") else shown[-1] if shown else ""
    return 200, {"data": data, "next_page": last if len(rows) > limit else None}


def make_store_memory(call: Call) -> Answer:
    opened, name = _open(call, write=True), _read_path(call.body["path"])
    _write(opened, {name: (None, call.body.get("content") or "")}, "save")
    return 200, _show(call, opened, name, "basic")


def read_store_memory(call: Call) -> Answer:
    opened = _open(call)
    return 200, _show(call, opened, _find_name(opened, call.params["memory"]), "full")


def change_store_memory(call: Call) -> Answer:
    opened, body = _open(call, write=True), call.body
    name = _find_name(opened, call.params["memory"])
    memory = opened.store.read(name)
    if (expect := (body.get("precondition") or {}).get("content_sha256")) not in (None, memory.digest):
        raise ConflictError("the memory changed since", expected=expect, found=memory.digest, hint="read it again")
    text = memory.text if body.get("content") is None else body["content"]
    moved = name if body.get("path") is None else _read_path(body["path"])
    if moved == name:
        _write(opened, {name: (memory.digest, text)}, "edit")
    else:
        _write(opened, {name: (memory.digest, None), moved: (None, text)}, "move")
        for id, path in ((call.params["memory"], moved), (f"{_MEMORY}{uuid4().hex}", name)):
            call.database.write(call.caller.tenant, _ADD_ALIAS, store=opened.id, id=id, path=path)
    return 200, _show(call, opened, moved, "basic")


def delete_store_memory(call: Call) -> Answer:
    opened = _open(call, write=True, archived=True)
    name = _find_name(opened, call.params["memory"])
    expect = call.query.get("expected_content_sha256") or opened.store.read(name).digest
    _write(opened, {name: (expect, None)}, "forget")
    return 200, {"id": call.params["memory"], "type": "memory_deleted"}


# --- versions --------------------------------------------------------------------------------------------------------


def list_memory_versions(call: Call) -> Answer:
    opened, query = _open(call), call.query
    limit = min(query.get("limit", _LISTED), _LISTED_FULL if query.get("view") == "full" else 100)
    name = _find_name(opened, query["memory_id"], deleted=True) if "memory_id" in query else None
    since, until = _read_times(call)
    below = int(query["page"]) if str(query.get("page", "")).isdecimal() else None
    page = opened.store.changes(name, limit=limit + 1, below=below)
    pairs = [(change, file) for change in page[:limit] for file in _list_files(change)]
    pairs = [(change, file) for change, file in pairs if since <= change.at <= until]
    pairs = [(change, file) for change, file in pairs if name is None or file.path == f"{name}.md"]
    rows = _render_versions(opened, pairs, query.get("view", "basic"))
    actor = {key: query[key] for key in ("api_key_id", "session_id", "service_account_id") if key in query}.items()
    rows = [row for row in rows if actor <= row["created_by"].items()]
    rows = [row for row in rows if query.get("operation") in (None, row["operation"])]
    return 200, {"data": rows, "next_page": str(page[limit - 1].id) if len(page) > limit else None}


def show_memory_version(call: Call) -> Answer:
    opened = _open(call)
    return 200, _render_versions(opened, [_find_version(opened, call)], call.query.get("view", "full"))[0]


def redact_memory_version(call: Call) -> Answer:
    opened = _open(call, write=True, archived=True)
    check_keeper(call, opened)
    change, file = _find_version(opened, call)
    opened.store.redact(change.id, file.path)
    return 200, _render_versions(opened, [_find_version(opened, call)], "basic")[0]


def _find_version(opened: OpenStore, call: Call) -> tuple[Change, ChangedFile]:
    match = re.fullmatch(rf"{_VERSION}([0-9]{{1,18}})_([0-9a-f]{{16}})", call.params["version"])
    change = opened.store.read_change(int(match[1]) if match else 0)
    for file in change.files:
        if match and _hash(file.path) == match[2]:
            return change, file
    raise NotFoundError("memory version not found", name=call.params["version"])


def _list_files(change: Change) -> list[ChangedFile]:
    """Return the files of a change, without indexes and without the old path of a renamed memory."""
    files = [file for file in change.files if not is_index_path(file.path)]
    return [file for file in files if change.verb != "move" or file.after is not None]


def _render_versions(opened: OpenStore, pairs: Sequence[tuple[Change, ChangedFile]], view: str) -> list[Json]:
    digests = [file.after for _, file in pairs if file.after is not None]
    found = {digest: rest for digest, *rest in _ask(opened, f"{_SIZES} AND digest = ANY(%(digests)s)", digests=digests)}
    aliases, rows = _read_aliases(opened), []
    for change, file in pairs:
        is_gone, (size, redacted) = file.after is None, found.get(file.after, (None, None))
        kind, _, id = change.actor.partition(":")
        actor = {"type": "user_actor", "user_id": id} if kind == "member" else {"type": "api_actor", "api_key_id": id}
        is_new = file.before is None and change.verb != "move"
        row: Json = {
            "id": f"{_VERSION}{change.id}_{_hash(file.path)}", "type": "memory_version", "memory_store_id": _name_store(opened.id),
            "memory_id": _make_id(file.path.removesuffix(".md"), aliases), "created_at": _show_time(change.at), "created_by": actor,
            "operation": "deleted" if is_gone else "created" if is_new else "modified",
            "path": None if redacted else f"/{file.path}", "content_sha256": None if redacted else file.after,
            "content_size_bytes": size, "redacted_at": redacted and _show_time(redacted), "redacted_by": None, "content": None,
        }  # fmt: skip
        if view == "full" and size is not None and file.after is not None:
            row["content"] = opened.store.read_content(file.after).decode("utf-8", "replace")
        rows.append(row)
    return rows


# --- shared ----------------------------------------------------------------------------------------------------------


def _read_aliases(opened: OpenStore) -> dict[str, str]:
    return dict(_ask(opened, _ALIASES))


def _make_id(name: str, aliases: dict[str, str]) -> str:
    made = _MEMORY + base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")
    return next((id for id, path in aliases.items() if path == name), made)


def _find_name(opened: OpenStore, id: str, *, deleted: bool = False) -> str:
    """Return the name of the memory with an ID. Raises NotFoundError if there is none, unless it may be deleted."""
    name = _read_aliases(opened).get(id, "")
    if not name:
        data = id.removeprefix(_MEMORY)
        try:
            name = base64.b64decode(data + "=" * (-len(data) % 4), b"-_", validate=True).decode()
        except ValueError:
            name = ""
    if not name or not (deleted or opened.store.read_many([name])):
        raise NotFoundError("memory not found", name=id)
    return name


def _open(call: Call, *, write: bool = False, archived: bool = False) -> OpenStore:
    try:
        id = str(UUID(call.params["store"].removeprefix(_STORE)))
    except ValueError:
        raise NotFoundError("memory store not found", name=call.params["store"]) from None
    return replace(call, params={"store": id}).find_store(write=write, archived=archived)


def _ask(opened: OpenStore, statement: str, **values: object) -> list[Row]:
    return opened.call.ask(statement, store=opened.id, **values)[0]


def _update(call: Call, opened: OpenStore, columns: str, **values: object) -> None:
    update = f"UPDATE memdir.stores SET updated = now(), {columns} WHERE tenant = %(tenant)s AND store = %(store)s"
    call.database.write(call.caller.tenant, update, store=opened.id, **values)


def _write(opened: OpenStore, files: dict[str, tuple[str | None, str | None]], verb: str) -> None:
    """Write the content of each name, None to delete it, if the present file has the first digest, None for no file."""
    paths = {f"{name}.md": pair for name, pair in files.items()}
    for path, (_, text) in paths.items():
        check_file(path, text, is_shared=False)
    if opened.write_files(paths, opened.make_context(), verb=verb).review is not None:
        raise DeniedError("this change needs review", hint="it is in the inbox of the store")


def _show(call: Call, opened: OpenStore, name: str, view: str) -> Json:
    for row in _render_memories(opened, [name]):
        return row if call.query.get("view", view) == "full" else {**row, "content": None}
    raise NotFoundError("memory not found", name=name)


def _render_memories(opened: OpenStore, names: Sequence[str]) -> list[Json]:
    memories, paths = opened.store.read_many(names), [f"{name}.md" for name in names]
    begun: dict[str, datetime] = dict(_ask(opened, _BEGUN, paths=paths))
    aliases, rows = _read_aliases(opened), []
    for name in (name for name in names if name in memories):
        memory, signature = memories[name], memories[name].header.signature
        changed = datetime.fromtimestamp(signature.mtime_ns / 1e9, UTC)
        rows.append({
            "id": _make_id(name, aliases), "type": "memory", "memory_store_id": _name_store(opened.id), "path": f"/{name}.md",
            "content": memory.text, "content_sha256": memory.digest, "content_size_bytes": signature.size,
            "memory_version_id": f"{_VERSION}{signature.inode}_{_hash(f'{name}.md')}",
            "created_at": _show_time(begun.get(f"{name}.md", changed)), "updated_at": _show_time(changed),
        })  # fmt: skip
    return rows


def _render_store(opened: OpenStore) -> Json:
    facts = opened.facts
    return {
        "id": _name_store(opened.id), "type": "memory_store", "name": facts["title"] or facts["name"],
        "description": facts["description"], "metadata": json.loads(facts["metadata"]), "created_at": _show_time(facts["created"]),
        "updated_at": _show_time(facts["updated"]), "archived_at": facts["archived"] and _show_time(facts["archived"]),
    }  # fmt: skip


def _merge_pairs(known: str, body: Any) -> str:
    """Return metadata with the changes of a request as JSON; null removes a key."""
    pairs = json.loads(known) | (body.get("metadata") or {})
    pairs = {key: value for key, value in pairs.items() if value is not None}
    is_fit = all(isinstance(value, str) and len(value) <= _VALUE_CHARS for value in pairs.values())
    if not is_fit or len(pairs) > _PAIRS or any(not 0 < len(key) <= _KEY_CHARS for key in pairs):
        hint = f"at most {_PAIRS} texts of {_VALUE_CHARS} characters"
        raise FormatError("invalid metadata", field="metadata", hint=hint)
    return json.dumps(pairs)


def _read_path(path: str) -> str:
    name = path.removeprefix("/").removesuffix(".md")
    if path != f"/{name}.md":
        raise FormatError("paths begin with / and end in .md here", field="path", hint="for example /notes/deploys.md")
    check_name(name)
    return name


def _read_times(call: Call) -> tuple[datetime, datetime]:
    texts = call.query.get("created_at[gte]", "0001-01-01"), call.query.get("created_at[lte]", "9999-12-31")
    since, until = map(read_time, texts)
    if since is None or until is None:
        raise FormatError("this is not a time", field="created_at", hint="use RFC 3339")
    return since, until


def _hash(path: str) -> str:
    return digest_of(path.encode())[:16]


def _name_store(id: UUID) -> str:
    return f"{_STORE}{id.hex}"


def _show_time(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
