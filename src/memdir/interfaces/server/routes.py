"""The routes of the HTTP API: each with its schemas, permission and function (docs/server.md).

Requests are checked and the OpenAPI description is rendered from this table, which also decides what answers 405.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memdir import __version__
from memdir.frozen import dataclass, field
from memdir.interfaces.server import access, api, memory_stores, people
from memdir.interfaces.server.api import PAGE_MOST, Answer, Call
from memdir.interfaces.server.schemas import (
    ANY,
    AUDIT,
    FLAG,
    GROUP,
    HEADER,
    ID,
    ITEM,
    MEMBER,
    MEMORY_STORE,
    MEMORY_VERSION,
    NAME,
    NUMBER,
    SHA,
    STORE,
    STORE_MEMORY,
    STRING,
    TEAM,
    TOKEN_ROW,
    USAGE,
    VERSION,
    WAITING,
    WORDS,
    WRITTEN,
    Json,
    Schema,
    check_value,
    maybe,
    one_of,
    refuse_value,
    result,
    rows,
    table,
    text,
    whole,
)  # fmt: skip
from memdir.limits import FILE_BYTES
from memdir.records import Kind
from memdir.text import one_line, shorten


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API operation. `right` is the required permission: read, write or admin; the store's own rules also apply."""

    method: str
    path: str
    summary: str
    work: Callable[[Call], Answer]
    answers: Mapping[int, Schema]
    right: str = "read"
    query: Mapping[str, Schema] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    body: Schema | None = None
    precondition: str | None = None  # where If-Match puts its digest: body or query
    is_marked: bool = False  # the change it makes has the idempotency key, so that its answer need not be kept


_FILES_MOST = 2_000  # per push
_S = "/v1/stores/{store}"
_CONTENT = text(FILE_BYTES)
_PUSHED = table({"path": text(1000, 1), "before": maybe(SHA), "content": maybe(_CONTENT)}, "path")
_FILE = result(
    path=STRING, content_sha256=maybe(STRING), content=maybe(STRING), version=NUMBER, actor=STRING, author=STRING, at=STRING
)  # fmt: skip
_FOUND = result(**HEADER, text=STRING, truncated=FLAG, score={"type": "number"})
_DELETED = result(deleted=STRING)
_GONE = result(id=STRING, type=STRING)


def _listing(schema: Schema) -> Schema:
    return result(data=rows(schema), next_page=maybe(STRING))


_LIMIT = {"limit": whole(1, PAGE_MOST)}
_CURSOR = {**_LIMIT, "cursor": text(1000, 1)}
_PAGED = {**_LIMIT, "before": whole(0)}
_OWN = (
    Endpoint("GET", "/v1/me", "Who is asking", api.show_me, {200: result(
        organisation=result(id=STRING, name=STRING), actor=STRING, role=STRING, access=STRING, member=maybe(STRING),
        teams=rows(STRING), stores=rows(STRING), expires=maybe(STRING))}),
    Endpoint("GET", "/v1/stores", "Stores", api.list_stores, {200: result(stores=rows(STORE), next=maybe(STRING))},
             query=_CURSOR),
    Endpoint("POST", "/v1/stores", "Make a store", api.make_store, {201: STORE}, "write", body=table(
        {"name": NAME, "scope": one_of("team", "private"), "team": maybe(ID), "review": FLAG, "agents": FLAG}, "name")),
    Endpoint("GET", _S, "One store", api.show_store, {200: STORE}),
    Endpoint("PATCH", _S, "Rename a store, or ask for review", api.change_store, {200: STORE}, "write",
             body=table({"name": NAME, "review": FLAG, "agents": FLAG})),
    Endpoint("DELETE", _S, "Delete a store and its content", api.delete_store, {200: _DELETED}, "write"),
    Endpoint("GET", f"{_S}/memories", "Memories by path", api.list_memories,
             {200: result(memories=rows(result(**HEADER)), next=maybe(STRING))},
             query={**_LIMIT, "prefix": text(1000), "cursor": text(1000)}),
    Endpoint("GET", f"{_S}/memories/{{path:path}}", "Read a memory", api.read_memory,
             {200: result(**HEADER, content=STRING)}),
    Endpoint("PUT", f"{_S}/memories/{{path:path}}", "Write a memory", api.write_memory,
             {200: WRITTEN, 201: WRITTEN, 202: WAITING}, "write",
             body=table({"content": _CONTENT, "content_sha256": maybe(SHA), **WORDS}, "content"), precondition="body", is_marked=True),
    Endpoint("DELETE", f"{_S}/memories/{{path:path}}", "Forget a memory", api.forget_memory, {200: WRITTEN, 202: WAITING},
             "write", query={"content_sha256": SHA, "purge": FLAG}, precondition="query", is_marked=True),
    Endpoint("POST", f"{_S}/remember", "Save a sentence where it belongs", api.remember_text, {200: WRITTEN, 202: WAITING}, "write",
             body=table({"text": text(10_000, 1), "type": one_of(*Kind), "name": text(1000, 1), **WORDS}, "text")),
    Endpoint("POST", f"{_S}/restore", "Restore a version of a memory", api.restore_memory, {200: WRITTEN, 202: WAITING}, "write",
             body=table({"path": text(1000, 1), "version": maybe(whole(1)), **WORDS}, "path")),
    Endpoint("GET", f"{_S}/index", "MEMORY.md", api.read_index, {200: result(content=STRING, content_sha256=maybe(STRING))}),
    Endpoint("GET", f"{_S}/search", "Memories that match a question", api.search_store,
             {200: result(memories=rows(_FOUND), skipped=maybe(STRING), complete=FLAG)},
             query={"q": text(10_000, 1), "limit": whole(1, 50)}, needs=("q",)),
    Endpoint("GET", f"{_S}/versions", "Versions, newest first", api.list_versions,
             {200: result(versions=rows(VERSION), next=maybe(NUMBER))}, query={**_PAGED, "path": text(1000)}),
    Endpoint("GET", f"{_S}/versions/{{version:int}}", "One version", api.show_version, {200: VERSION}),
    Endpoint("POST", f"{_S}/versions/{{version:int}}/redact", "Remove a version's content, keep its trail", api.redact_version,
             {200: VERSION}, "write", body=table({"path": text(1000, 1)}, "path")),
    Endpoint("GET", f"{_S}/contents/{{content_sha256}}", "A recorded content", api.read_content,
             {200: result(content=STRING, content_sha256=STRING)}),
    Endpoint("POST", f"{_S}/undo", "Undo a version", api.undo_version, {200: result(version=NUMBER, paths=rows(STRING)), 202: WAITING},
             "write", body=table({"version": maybe(whole(1)), **WORDS})),
    Endpoint("POST", f"{_S}/changes", "Many edits as one version", api.change_many, {200: WRITTEN, 202: WAITING}, "write",
             body=table({"edits": rows(ANY, _FILES_MOST), "verb": text(40), **WORDS}, "edits"), is_marked=True),
    Endpoint("GET", f"{_S}/files", "Files that changed after a revision", api.list_changed,
             {200: result(revision=NUMBER, epoch=NUMBER, reset=FLAG, files=rows(_FILE))},
             query={"since": whole(0), "epoch": whole(0), "content": FLAG}),
    Endpoint("POST", f"{_S}/files", "Change files as one version", api.push_files, {
        200: result(revision=NUMBER, version=maybe(NUMBER), repeated=FLAG,
                    files=rows(result(path=STRING, content_sha256=maybe(STRING)))), 202: WAITING},
             "write", body=table({"files": rows(_PUSHED, _FILES_MOST), "verb": text(40), **WORDS}, "files"), is_marked=True),
    Endpoint("GET", f"{_S}/inbox", "Items that need review", api.list_items, {200: result(items=rows(ITEM), next=maybe(STRING))},
             query={**_LIMIT, "cursor": text(19, 1, pattern="^[0-9]+$"), "state": one_of("waiting", "approved", "rejected", "all")}),
    Endpoint("POST", f"{_S}/inbox/{{id:int}}/{{decision}}", "Approve or reject", api.decide_item,
             {200: result(item=ITEM, version=maybe(NUMBER))}, "write", body=table({"note": text(1000)})),
    Endpoint("GET", "/v1/members", "Members", people.list_members, {200: result(members=rows(MEMBER), next=maybe(STRING))}, "admin",
             query=_CURSOR),
    Endpoint("POST", "/v1/members", "Add a member", people.make_member, {201: MEMBER}, "admin", body=table(
        {"issuer": text(500, 1), "subject": text(500, 1), "name": text(200), "role": one_of(*access.ROLES)},
        "issuer", "subject", "role")),
    Endpoint("PATCH", "/v1/members/{id:uuid}", "Change a member's role", people.change_member, {200: MEMBER}, "admin",
             body=table({"role": one_of(*access.ROLES)}, "role")),
    Endpoint("DELETE", "/v1/members/{id:uuid}", "Remove a member and their tokens", people.delete_member, {200: _DELETED}, "admin"),
    Endpoint("GET", "/v1/groups", "Groups of the OIDC provider", people.list_groups,
             {200: result(groups=rows(GROUP), next=maybe(STRING))}, "admin", query=_CURSOR),
    Endpoint("POST", "/v1/groups", "Give the people of a group a role", people.make_group, {201: GROUP}, "admin",
             body=table({"name": text(200, 1), "role": one_of(*access.ROLES)}, "name", "role")),
    Endpoint("DELETE", "/v1/groups", "Take a group's role away", people.delete_group, {200: _DELETED}, "admin",
             query={"name": text(200, 1)}, needs=("name",)),
    Endpoint("GET", "/v1/teams", "Teams", people.list_teams, {200: result(teams=rows(TEAM), next=maybe(STRING))}, query=_CURSOR),
    Endpoint("POST", "/v1/teams", "Create a team", people.make_team, {201: TEAM}, "admin", body=table({"name": NAME}, "name")),
    Endpoint("DELETE", "/v1/teams/{id:uuid}", "Delete a team", people.delete_team, {200: _DELETED}, "admin"),
    Endpoint("PUT", "/v1/teams/{id:uuid}/members/{member:uuid}", "Add a member to a team", people.join_team,
             {201: result(team=STRING, member=STRING)}, "admin"),
    Endpoint("DELETE", "/v1/teams/{id:uuid}/members/{member:uuid}", "Remove a member from a team", people.leave_team,
             {200: result(team=STRING, member=STRING)}, "admin"),
    Endpoint("GET", "/v1/tokens", "Tokens", people.list_tokens,
             {200: result(tokens=rows(result(**TOKEN_ROW)), next=maybe(STRING))}, "admin", query=_CURSOR),
    Endpoint("POST", "/v1/tokens", "Create a token; its text is returned once", people.make_token,
             {201: result(**TOKEN_ROW, token=STRING)}, "admin", body=table(
                 {"name": text(200, 1), "access": one_of(*access.ACCESS), "days": whole(1, access.TOKEN_DAYS_MOST),
                  "stores": rows(ID, 1000), "member": maybe(ID)}, "name", "access")),
    Endpoint("DELETE", "/v1/tokens/{id:uuid}", "Revoke a token", people.revoke_token, {200: _DELETED}, "admin"),
    Endpoint("GET", "/v1/audit", "Audit log, newest first", people.list_audit, {200: result(entries=rows(AUDIT))}, "admin",
             query={**_LIMIT, "before": text(64)}),
    Endpoint("GET", "/v1/usage", "Usage and limits of the organisation", people.show_usage, {200: USAGE}),
)  # fmt: skip

# The addresses and shapes of Anthropic's memory stores. Its SDK adds `beta` to each request.
_A = "/v1/memory_stores/{store}"
_BETA: dict[str, Schema] = {"beta": text(40)}
_VIEW = _BETA | {"view": one_of("basic", "full")}
_PAGES = _BETA | {"limit": whole(1, 100), "page": text(1100)}
_TIMES = {"created_at[gte]": text(40), "created_at[lte]": text(40)}
_ABOUT = {"name": text(255, 1), "description": maybe(text(1024)), "metadata": maybe(ANY)}
_PATH, _OPTIONAL_CONTENT = text(1024, 1), maybe(_CONTENT)
_SDK = (
    Endpoint("GET", "/v1/memory_stores", "Memory stores, newest first", memory_stores.list_memory_stores, {200: _listing(MEMORY_STORE)},
             query={**_PAGES, **_TIMES, "include_archived": FLAG}),
    Endpoint("POST", "/v1/memory_stores", "Make a memory store", memory_stores.make_memory_store, {200: MEMORY_STORE}, "write", query=_BETA,
             body=table(_ABOUT, "name")),
    Endpoint("GET", _A, "One memory store", memory_stores.show_memory_store, {200: MEMORY_STORE}, query=_BETA),
    Endpoint("POST", _A, "Change a memory store", memory_stores.change_memory_store, {200: MEMORY_STORE}, "write", query=_BETA,
             body=table({**_ABOUT, "name": maybe(_ABOUT["name"])})),
    Endpoint("DELETE", _A, "Delete a memory store", memory_stores.delete_memory_store, {200: _GONE}, "write", query=_BETA),
    Endpoint("POST", f"{_A}/archive", "Archive a memory store", memory_stores.archive_memory_store, {200: MEMORY_STORE}, "write", query=_BETA),
    Endpoint("GET", f"{_A}/memories", "Memories of a memory store", memory_stores.list_store_memories, {200: _listing(ANY)},
             query={**_PAGES, **_VIEW, "path_prefix": text(1024, 1, pattern="^/(.*/)?$"), "depth": whole(0, 1)}),
    Endpoint("POST", f"{_A}/memories", "Create a memory", memory_stores.make_store_memory, {200: STORE_MEMORY}, "write", query=_VIEW,
             body=table({"path": _PATH, "content": _OPTIONAL_CONTENT}, "path"), is_marked=True),
    Endpoint("GET", f"{_A}/memories/{{memory}}", "One memory by its ID", memory_stores.read_store_memory, {200: STORE_MEMORY}, query=_VIEW),
    Endpoint("POST", f"{_A}/memories/{{memory}}", "Change or rename a memory", memory_stores.change_store_memory, {200: STORE_MEMORY}, "write",
             query=_VIEW, body=table({"path": maybe(_PATH), "content": _OPTIONAL_CONTENT, "precondition": maybe(table(
                 {"type": one_of("content_sha256"), "content_sha256": SHA}, "type"))}), is_marked=True),
    Endpoint("DELETE", f"{_A}/memories/{{memory}}", "Delete a memory by its ID", memory_stores.delete_store_memory, {200: _GONE}, "write",
             query={**_BETA, "expected_content_sha256": SHA}, is_marked=True),
    Endpoint("GET", f"{_A}/memory_versions", "Memory versions, newest first", memory_stores.list_memory_versions, {200: _listing(MEMORY_VERSION)},
             query={**_PAGES, **_VIEW, **_TIMES, "memory_id": text(1500, 1), "operation": one_of("created", "modified", "deleted"),
                    "api_key_id": text(64), "session_id": text(64), "service_account_id": text(64)}),
    Endpoint("GET", f"{_A}/memory_versions/{{version}}", "One memory version", memory_stores.show_memory_version, {200: MEMORY_VERSION}, query=_VIEW),
    Endpoint("POST", f"{_A}/memory_versions/{{version}}/redact", "Remove a memory version's content", memory_stores.redact_memory_version,
             {200: MEMORY_VERSION}, "write", query=_BETA),
)  # fmt: skip
ENDPOINTS = (*_OWN, *_SDK)


_TEXTS = {"true": True, "false": False}


def read_query(params: Iterable[tuple[str, str]], endpoint: Endpoint) -> Json:
    """Return a request's query parameters, converted and checked."""
    values: Json = {}
    for key, value in params:
        schema = endpoint.query.get(key)
        if schema is None or key in values:
            raise refuse_value("the query", f"has an unknown or repeated parameter {shorten(one_line(key), 40)!r}")
        if schema["type"] == "integer":
            values[key] = int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
        else:
            values[key] = _TEXTS.get(value, value) if schema["type"] == "boolean" else value
        check_value(values[key], schema, key)
    for key in endpoint.needs:
        if key not in values:
            raise refuse_value("the query", f"needs {key}")
    return values


_ERROR = table(
    {"error": {"type": "object", "properties": {"type": STRING, "message": STRING, "hint": STRING}, "required": ["type", "message", "hint"]}},
    "error",
)  # fmt: skip
_FAILS = (400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429, 500, 503)
_NAMED: Mapping[str, Schema] = {
    "Store": STORE, "Memory": result(**HEADER), "Version": VERSION, "InboxItem": ITEM, "Written": WRITTEN, "NeedsReview": WAITING,
    "Member": MEMBER, "Group": GROUP, "Team": TEAM, "Token": result(**TOKEN_ROW), "AuditEntry": AUDIT, "Usage": USAGE, "Error": _ERROR,
    "MemoryStore": MEMORY_STORE, "StoreMemory": STORE_MEMORY, "MemoryVersion": MEMORY_VERSION,
}  # fmt: skip


def render_openapi(endpoints: Iterable[Endpoint]) -> Json:
    """Return the OpenAPI 3.1 description of the endpoints."""
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        plain = re.sub(r"\{(\w+)(?::\w+)?\}", r"{\1}", endpoint.path)
        kinds = dict(re.findall(r"\{(\w+)(?::(\w+))?\}", endpoint.path))
        parameters = [
            {"name": name, "in": "path", "required": True}
            | {"schema": _PATH_KINDS.get(kind) or _PATH_NAMES.get(name, text(1000, 1))}
            for name, kind in kinds.items()
        ]
        parameters += [
            {"name": name, "in": "query", "required": name in endpoint.needs, "schema": dict(schema)}
            for name, schema in endpoint.query.items()
        ]
        if endpoint.right != "read":
            parameters.append({"name": "Idempotency-Key", "in": "header", "schema": text(200, 1, pattern="^[!-~]+$")})
        words = re.sub(r"\W+", "_", f"{endpoint.method.lower()}{plain.removeprefix('/v1')}").strip("_")
        operation: Json = {"operationId": words, "summary": endpoint.summary, "parameters": parameters, "responses": {
            **{str(status): {"description": "done", "content": _json(schema)} for status, schema in endpoint.answers.items()},
            **{str(status): {"description": "refused", "content": _json(_ERROR)} for status in _FAILS},
        }}  # fmt: skip
        if endpoint.precondition is not None:
            parameters += [{"name": name, "in": "header", "schema": STRING} for name in ("If-Match", "If-None-Match")]
        if endpoint.body is not None:
            operation["requestBody"] = {"required": True, "content": _json(endpoint.body)}
        paths.setdefault(plain, {})[endpoint.method.lower()] = operation
    components = {
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        "schemas": {name: {key: _refer(value) for key, value in schema.items()} for name, schema in _NAMED.items()},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "memdir", "version": __version__},
        "components": components,
        "security": [{"bearer": []}],
        "paths": paths,
    }


_PATH_KINDS = {"uuid": ID, "int": whole(0)}
_PATH_NAMES = {"content_sha256": SHA, "decision": one_of("approve", "reject"), "store": NAME}


def _json(schema: Schema) -> Json:
    return {"application/json": {"schema": _refer(schema)}}


def _refer(value: Any) -> Any:
    """Return a schema with references to the named ones in it."""
    if isinstance(value, Mapping):
        if name := next((name for name, schema in _NAMED.items() if schema == value), ""):
            return {"$ref": f"#/components/schemas/{name}"}
        return {key: _refer(member) for key, member in value.items()}
    return [_refer(member) for member in value] if isinstance(value, list) else value
