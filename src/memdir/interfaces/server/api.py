"""The HTTP API as a table: each endpoint with its schemas, permission and function (docs/server.md).

Routes, request checks, the OpenAPI description and the MCP tools are made from this table. A function gets a checked `Call` and
returns a status and a JSON value. The store's plan, `sync.plan.judge_text` and the store's settings decide what can be written
and what needs review.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from psycopg import errors

from memdir.errors import ConflictError, FormatError, NotFoundError, ReviewError, SecretError
from memdir.files import check_name
from memdir.format.frontmatter import digest_of, encode
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, field, replace
from memdir.interfaces.server import access
from memdir.interfaces.server.access import Caller, DeniedError, OidcProvider
from memdir.interfaces.server.schemas import (
    ANY,
    AUDIT,
    FLAG,
    HEADER,
    ID,
    ITEM,
    MEMBER,
    NAME,
    NUMBER,
    SHA,
    STORE,
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
    maybe,
    one_of,
    result,
    rows,
    table,
    text,
    whole,
)  # fmt: skip
from memdir.limits import FILE_BYTES, SELECTED
from memdir.operations.find import FoundMemory, make_rows
from memdir.operations.review import decide
from memdir.operations.write import WriteAction, WriteContext, WriteResult, carry_out, change, undo
from memdir.postgres.database import PostgresDatabase, Row, clean_text, create_store
from memdir.postgres.search import PostgresSearch
from memdir.postgres.store import PostgresStore
from memdir.recall.pipeline import recall
from memdir.records import (
    Change,
    Edit,
    Excerpt,
    Forget,
    Header,
    InboxItem,
    InboxKind,
    InboxState,
    Origin,
    Put,
    ReplaceLine,
    Rewrite,
    Scope,
    StoredMemory,
)  # fmt: skip
from memdir.store import inbox
from memdir.store.contract import Replicated
from memdir.store.files import SYNC
from memdir.store.plan import AGENT, FileChange, StoreView, is_index_path, make_review_edits
from memdir.store.secrets import find_secrets as find_all_secrets
from memdir.sync.plan import judge_line, judge_place, judge_text
from memdir.text import fold, one_line, shorten

Answer = tuple[int, Json]
PLAIN_MODE = "100644"
find_secrets = partial(find_all_secrets, most=20)  # an error names no more; a text full of secrets would take seconds
_PAGE, _PAGE_MOST = 100, 1000
_HEADER_FIELDS = tuple(key for key in HEADER if key not in ("path", "content_sha256"))
_FILES_MOST = 2_000  # per push


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The state that requests share."""

    database: PostgresDatabase
    clock: Callable[[], datetime]
    oidc: OidcProvider | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One request whose path parameters, query and body match the endpoint's schemas."""

    context: ServerContext
    caller: Caller
    params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    who: str = "api"
    is_conditional: bool = False  # the digest came from If-Match or If-None-Match

    @property
    def database(self) -> PostgresDatabase:
        return self.context.database

    @property
    def mark(self) -> str:
        return f"key:{self.caller.actor}:{self.key}" if self.key else ""

    def origin(self, why: str = "") -> Origin:
        why, session = str(self.body.get("why") or why), str(self.body.get("session") or "")
        return Origin(self.who, shorten(why, 1000), shorten(session, 200))

    def ask(self, *statements: str, **values: object) -> list[list[Row]]:
        return self.database.read(self.caller.tenant, *statements, **values)

    def find_store(self, *, write: bool = False, is_reviewed: bool = False) -> "OpenStore":
        """Return the store of the path, by ID or name. Raises NotFoundError if the caller cannot see it.

        `is_reviewed`: the changes were approved and do not need review again.
        """
        store_name = self.params["store"]
        (matches,) = self.ask(
            f"SELECT {_STORE_COLUMNS} FROM memdir.stores WHERE tenant = %(tenant)s"
            " AND (name = %(name)s OR store::text = lower(%(name)s)) ORDER BY (name = %(name)s) LIMIT 1",
            name=clean_text(store_name),
        )
        row = next((match for match in matches if self.caller.may_see(match[0], match[2], match[3], match[4])), None)
        if row is None:
            raise NotFoundError("store not found", name=store_name, hint="GET /v1/stores lists them")
        if write and not self.caller.may_write:
            raise DeniedError("this credential is read-only", hint="ask an admin for write access")
        return OpenStore(self, row, is_reviewed=is_reviewed)


_STORE_COLUMNS = "store, name, scope, team, owner, review, revision, epoch, memories, bytes, created, agents"


class OpenStore:
    """The store of a request with its database row."""

    def __init__(self, call: Call, row: Row, *, is_reviewed: bool = False) -> None:
        self.call, self.row, self._is_reviewed = call, row, is_reviewed
        self.id, self.name, self.scope, _, _, self.review, *_ = row
        caller, is_shared = call.caller, self.scope == "team"
        self.store = PostgresStore(
            call.database,
            caller.tenant,
            self.id,
            scope=Scope.TEAM if is_shared else Scope.PRIVATE,
            shared=is_shared,
            strict=True,
            find_secrets=find_secrets,
            review=not row[-1],
            actor=caller.actor,
            actor_name=caller.name,
            clock=call.context.clock,
            screen=self._make_proposal,
        )

    def render(self) -> Json:
        id, name, scope, team, _, review, revision, epoch, memories, size, created, agents = self.row
        may = "read_write" if self.call.caller.may_write else "read_only"
        return {
            "id": str(id), "name": name, "scope": scope, "team": None if team is None else str(team), "review": review, "agents": agents,
            "access": may, "revision": revision, "epoch": epoch, "memories": memories, "bytes": size,
            "created": created.isoformat(),
        }  # fmt: skip

    def make_context(self, why: str = "") -> WriteContext:
        return WriteContext(self.call.origin(why), self.call.context.clock())

    def change(self, edits: Sequence[Edit], *, verb: str) -> Answer:
        context, mark = self.make_context(), self.call.mark
        return self.write(lambda: change(self.store, list(edits), context, verb=verb, mark=mark))

    def write(self, step: Callable[[], WriteResult]) -> Answer:
        """Run an operation that writes, and return its version, or the inbox item if the change needs review."""
        try:
            result = step()
        except ReviewError:
            raise DeniedError("this change was already rejected", hint="an admin can write it") from None
        if result.review is not None:
            return self.show_review(result.review)
        digest = None
        if len(result.names) == 1 and result.action is not WriteAction.FORGOTTEN:
            digest = result.memory and result.memory.digest
            if result.memory is not None and result.change not in (None, result.memory.header.signature.inode):
                files = self.store.read_change(result.change or 0).files  # the memory has changed again since
                digest = next((file.after for file in files if file.path == f"{result.name}.md"), None)
        return 200, {"version": result.change, "content_sha256": digest, "repeated": result.repeated}

    def show_review(self, review: ReviewError) -> Answer:
        return 202, {"review": render_item(self.store.inbox_item(review.item))}

    def _make_proposal(self, changes: Sequence[FileChange], verb: str, doubt: str) -> InboxItem | None:
        """Return the inbox item for changes that another user must approve first, or None if none has to."""
        is_held = changes and self.review and not self.call.caller.is_admin
        why = "this store requires review" if is_held else doubt
        if not why or self._is_reviewed:
            return None
        edits = make_review_edits(changes, pins=self.call.who != AGENT)
        title = shorten(one_line(f"{verb} {', '.join(edit.name for edit in edits)}"), 200)
        caller, session = self.call.caller, str(self.call.body.get("session") or "")
        name, payload = edits[0].name if edits else "", {"edits": inbox.render_edits(edits), "by": caller.name}
        now, origin = self.call.context.clock(), Origin(caller.actor, why, session)
        return InboxItem(InboxKind.PROPOSAL, title, why, now, self.call.mark, name, origin, payload)


# --- responses -------------------------------------------------------------------------------------------------------


def render_header(store: PostgresStore, header: Header, digest: str) -> Json:
    row: Json = make_rows([FoundMemory(store, header)], _HEADER_FIELDS, now=header.modified)[0]
    return {"path": header.name} | row | {"modified": header.modified.isoformat(), "content_sha256": digest}


def render_memory(store: PostgresStore, memory: StoredMemory) -> Json:
    return render_header(store, memory.header, memory.digest) | {"content": memory.text}


def render_version(change: Change) -> Json:
    origin = change.origin
    return {
        "version": change.id, "at": change.at.astimezone(UTC).isoformat(), "verb": change.verb, "actor": change.actor,
        "who": origin.who, "why": origin.why, "session": origin.session, "undoes": change.undoes,
        "undone_by": change.undone_by,
        "files": [
            {"path": file.path, "before": file.before, "after": file.after, "redacted": file.redacted}
            for file in change.files
        ],
    }  # fmt: skip


def render_item(item: InboxItem) -> Json:
    payload = inbox.mask_payload(dict(item.payload), item.payload)
    assert isinstance(payload, dict)
    edits, evidence = payload.get("edits"), payload.get("evidence")
    return {
        "id": item.id, "kind": item.kind.value, "title": item.title, "why": item.why, "name": item.name,
        "at": item.at.isoformat(), "state": item.state.value, "note": item.note,
        "decided": item.decided.isoformat() if item.decided else None,
        "edits": edits if isinstance(edits, list) else [],
        "evidence": [passage for passage in evidence if isinstance(passage, dict)] if isinstance(evidence, list) else [],
    }  # fmt: skip


# --- stores ----------------------------------------------------------------------------------------------------------


def show_me(call: Call) -> Answer:
    caller = call.caller
    stores, member = [str(id) for id in caller.stores], None if caller.member is None else str(caller.member)
    return 200, {
        "organisation": {"id": str(caller.tenant), "name": caller.organisation}, "actor": caller.actor, "role": caller.role,
        "access": caller.access, "member": member, "teams": [str(team) for team in caller.teams], "stores": stores,
        "expires": caller.expires.astimezone(UTC).isoformat() if caller.expires else None,
    }  # fmt: skip


def list_stores(call: Call) -> Answer:
    (store_rows,) = call.ask(f"SELECT {_STORE_COLUMNS} FROM memdir.stores WHERE tenant = %(tenant)s ORDER BY name")
    visible = [
        OpenStore(call, row).render() for row in store_rows if call.caller.may_see(row[0], row[2], row[3], row[4])
    ]
    return 200, _cut_page(call, "stores", visible, "name")


def make_store(call: Call) -> Answer:
    caller, body = call.caller, call.body
    scope, team = body.get("scope", "team"), body.get("team")
    if not caller.may_write or caller.stores:
        raise DeniedError("this credential cannot create stores")
    if scope == "private" and (caller.member is None or team):
        raise DeniedError("private stores can only be created by members, without a team")
    if scope == "team" and not caller.is_admin and (team is None or UUID(team) not in caller.teams):
        raise DeniedError("only admins can create organisation stores, and only team members team stores")
    owner = str(caller.member) if scope == "private" else ""
    columns = {"scope": scope, "team": None if team is None else UUID(team), "owner": owner}
    columns |= {key: bool(body.get(key)) for key in ("review", "agents")}
    store_id = create_store(call.database, caller.tenant, body["name"], **columns)
    return 201, replace(call, params={"store": str(store_id)}).find_store().render()


def show_store(call: Call) -> Answer:
    return 200, call.find_store().render()


def change_store(call: Call) -> Answer:
    opened = call.find_store(write=True)
    _check_keeper(call, opened)
    columns_given = {key: call.body[key] for key in ("name", "review", "agents") if call.body.get(key) is not None}
    if columns_given:
        columns = ", ".join(f"{key} = %({key})s" for key in columns_given)
        update = f"UPDATE memdir.stores SET {columns} WHERE tenant = %(tenant)s AND store = %(store)s"
        try:
            call.database.write(call.caller.tenant, update, store=opened.id, **columns_given)
        except errors.UniqueViolation:
            raise ConflictError("a store with this name already exists", hint="choose another name") from None
    return 200, replace(call, params={"store": str(opened.id)}).find_store().render()


def delete_store(call: Call) -> Answer:
    opened = call.find_store(write=True)
    _check_keeper(call, opened)
    deletes = (
        f"DELETE FROM memdir.{table} WHERE tenant = %(tenant)s AND store = %(store)s"
        for table in ("stores", "postings", "terms", "queue")  # the others follow the store
    )
    call.database.write(call.caller.tenant, *deletes, store=opened.id)
    return 200, {"deleted": str(opened.id)}


def _check_keeper(call: Call, opened: OpenStore) -> None:
    if not (call.caller.is_admin or opened.scope == "private"):
        raise DeniedError("only admins of the organisation can do this")


# --- memories --------------------------------------------------------------------------------------------------------


def list_memories(call: Call) -> Answer:
    store, prefix, after = call.find_store().store, call.query.get("prefix", ""), call.query.get("cursor", "")
    limit = call.query.get("limit", _PAGE)
    page = store.read_page(prefix, after=after, limit=limit + 1)
    listed = [render_header(store, header, digest) for header, digest in page[:limit]]
    return 200, {"memories": listed, "next": listed[-1]["path"] if len(page) > limit else None}


def read_memory(call: Call) -> Answer:
    store = call.find_store().store
    return 200, render_memory(store, store.read(call.params["path"]))


def write_memory(call: Call) -> Answer:
    opened, name, body = call.find_store(write=True), call.params["path"], call.body
    check_name(name)
    expect = body.get("content_sha256")
    edit: Edit = Put(name, body["content"]) if expect is None else Rewrite(name, body["content"], expect)
    status, answer = opened.change([edit], verb="save" if expect is None else "edit")
    return 201 if status == 200 and expect is None and not answer["repeated"] else status, answer


def forget_memory(call: Call) -> Answer:
    opened, name = call.find_store(write=True), call.params["path"]
    check_name(name)
    return opened.change([Forget(name, call.query.get("content_sha256"))], verb="forget")


def read_index(call: Call) -> Answer:
    content = call.find_store().store.read_bytes(INDEX_FILE)
    digest = None if content is None else digest_of(content)
    return 200, {"content": (content or b"").decode("utf-8", "replace"), "content_sha256": digest}


def search_store(call: Call, show: Callable[[Json, Excerpt], Json] = lambda row, excerpt: row) -> Answer:
    """Return the memories that match a question; `show` changes the row of each."""
    store = call.find_store().store
    with PostgresSearch([store]) as search:
        limit = call.query.get("limit", SELECTED)
        result = recall(store, call.query["q"], selector=search, limit=limit, now=call.context.clock())
    memories = []
    for excerpt in result.memories:
        facts = {"text": excerpt.text, "truncated": excerpt.truncated, "score": round(excerpt.score, 4)}
        memories.append(show(render_header(store, excerpt.header, excerpt.digest) | facts, excerpt))
    skipped = None if result.skipped is None else result.skipped.words
    return 200, {"memories": memories, "skipped": skipped, "complete": search.is_complete}


# --- versions --------------------------------------------------------------------------------------------------------


def list_versions(call: Call) -> Answer:
    store, path, limit = call.find_store().store, call.query.get("path"), call.query.get("limit", _PAGE)
    changes = store.changes(path, limit=limit + 1, below=call.query.get("before"))
    following = changes[limit - 1].id if len(changes) > limit else None
    return 200, {"versions": [render_version(change) for change in changes[:limit]], "next": following}


def show_version(call: Call) -> Answer:
    store = call.find_store().store
    return 200, render_version(store.read_change(int(call.params["version"])))


def read_content(call: Call) -> Answer:
    data = call.find_store().store.read_content(call.params["content_sha256"])
    return 200, {"content": data.decode("utf-8", "replace"), "content_sha256": digest_of(data)}


def redact_version(call: Call) -> Answer:
    opened = call.find_store(write=True)
    _check_keeper(call, opened)
    number = int(call.params["version"])
    opened.store.redact(number, f"{call.body['path']}.md")
    return 200, render_version(opened.store.read_change(number))


def undo_version(call: Call) -> Answer:
    opened = call.find_store(write=True)
    result = undo(opened.store, call.body.get("version"), opened.make_context())
    if result.review is not None:
        return opened.show_review(result.review)
    if result.change is None:  # all files already had their old content
        return 200, {"version": opened.store.changes(limit=1)[0].id, "paths": []}
    files = opened.store.read_change(result.change).files
    return 200, {"version": result.change, "paths": [file.path for file in files]}


def change_many(call: Call) -> Answer:
    opened = call.find_store(write=True)
    edits = inbox.parse_edits(call.body["edits"])
    if not edits:
        raise FormatError("there are no edits", field="edits", hint="send at least one edit")
    _check_file(INDEX_FILE, "\n".join(edit.line for edit in edits if isinstance(edit, ReplaceLine)))
    return opened.change(edits, verb=call.body.get("verb") or "edit")


# --- files, for synced folders --------------------------------------------------------------------------------------


def list_changed(call: Call) -> Answer:
    """Return the files changed or deleted after a revision, with their current content."""
    store: Replicated = call.find_store().store
    head, since = store.read_head(), call.query.get("since", 0)
    is_reset = since > head.revision or call.query.get("epoch", head.epoch) != head.epoch
    since = 0 if is_reset else since
    head, written, deleted = store.read_changed(since, content=call.query.get("content", True))
    gone = [(path, None, version, actor, time, None) for path, version, actor, time in deleted if since]
    files = [
        {
            "path": path, "content_sha256": digest, "version": version, "actor": actor, "at": time.astimezone(UTC).isoformat(),
            "content": None if data is None else bytes(data).decode("utf-8", "replace"),
        }
        for path, digest, version, actor, time, data in (*written, *gone)
    ]  # fmt: skip
    return 200, {"revision": head.revision, "epoch": head.epoch, "reset": is_reset or not since, "files": files}


def push_files(call: Call) -> Answer:
    """Write complete files as one version. A file that changed since the client read it is a conflict."""
    opened, pushed = call.find_store(write=True), call.body["files"]
    if len({fold(file["path"]) for file in pushed}) < len(pushed):
        raise FormatError("a path is repeated", field="files", hint="send each path once")
    versions = {file["path"]: (file.get("before"), file.get("content")) for file in pushed}
    for path, (_, content) in versions.items():
        _check_file(path, content)

    def planner(view: StoreView) -> list[FileChange]:
        changes, conflicts = [], []
        for path, (before, content) in versions.items():
            current, after = view.read_bytes(path), None if content is None else encode(content)
            known = None if current is None else digest_of(current)
            if current == after:
                continue
            folder, _, leaf = path.rpartition("/")
            names = (name for name in view.list_files(folder) if fold(name) == fold(leaf))
            if known != before or (after is not None and any(name != leaf for name in names)):
                conflicts.append({"path": path, "content_sha256": known})
            changes.append(FileChange(path, current, after))
        if conflicts:
            raise PushConflict(conflicts)
        return sorted(changes, key=lambda change: change.is_index)

    verb = call.body.get("verb") or "sync"
    origin = replace(call.origin(), who=SYNC)
    result = carry_out(opened.store, planner, (), WriteContext(origin, call.context.clock()), verb=verb, mark=call.mark)
    if result.review is not None:
        return opened.show_review(result.review)
    head = opened.store.read_head()
    files = [
        {"path": path, "content_sha256": content and digest_of(encode(content))}
        for path, (_, content) in versions.items()
    ]
    return 200, {"revision": head.revision, "version": result.change, "repeated": result.repeated, "files": files}


class PushConflict(ConflictError):
    """Files that changed since the client read them, each with its current digest."""

    def __init__(self, conflicts: list[Json]) -> None:
        super().__init__(f"{len(conflicts)} files changed since", hint="read them, merge, and send them again")
        self.conflicts = conflicts


def _check_file(path: str, content: str | None) -> None:
    data = encode(content or "")
    why = judge_place(path, PLAIN_MODE, len(data))
    if not why and content is not None and is_index_path(path):
        why = next((why for line in content.split("\n") if (why := judge_line(line, find_secrets))), "")
    elif not why and content is not None:
        why = judge_text(path, data, find_secrets).refused
    if why:
        error = SecretError if "secret" in why else FormatError
        raise error(f"{shorten(one_line(path), 80)} cannot be a memory here: {why}", hint="change it and send it again")


# --- the inbox -------------------------------------------------------------------------------------------------------


def list_items(call: Call) -> Answer:
    state = call.query.get("state", InboxState.WAITING.value)
    items = call.find_store().store.inbox(None if state == "all" else state)
    return 200, _cut_page(call, "items", [render_item(item) for item in items], "id")


def decide_item(call: Call) -> Answer:
    opened, note = call.find_store(write=True, is_reviewed=True), str(call.body.get("note") or "")
    item = opened.store.inbox_item(int(call.params["id"]))
    if not call.caller.is_admin and (opened.review or _is_own(call, item)):
        raise DeniedError("another person must decide this", hint="ask an admin of the organisation")
    is_approved = call.params["decision"] == "approve"
    result, item = decide(opened.store, item.id, is_approved, opened.make_context(), note=note)
    return 200, {"item": render_item(item), "version": result.change}


def _is_own(call: Call, item: InboxItem) -> bool:
    """Return whether the caller proposed the item, with any of their credentials."""
    who, member = item.origin.who, call.caller.member
    where = "tenant = %(tenant)s AND token::text = %(token)s AND member = %(member)s"
    (own_tokens,) = call.ask(
        f"SELECT 1 FROM memdir.tokens WHERE {where}", token=clean_text(who.removeprefix("token:")), member=member
    )
    return bool(own_tokens) or who in (call.caller.actor, f"member:{member}")


# --- permissions------------------------------------------------------------------------------------------------------


def list_members(call: Call) -> Answer:
    (member_rows,) = call.ask(
        "SELECT member, issuer, subject, name, role FROM memdir.members WHERE tenant = %(tenant)s"
    )
    return 200, _cut_page(call, "members", [_make_row(MEMBER, row) for row in member_rows], "id")


def make_member(call: Call) -> Answer:
    member, body = uuid4(), call.body
    values = {"issuer": body["issuer"], "subject": body["subject"]}
    values |= {"name": body.get("name", ""), "role": body["role"]}
    access.insert_row(call.database, call.caller.tenant, "members", member=member, **values)
    return 201, {"id": str(member), **values}


def change_member(call: Call) -> Answer:
    update = "UPDATE memdir.members SET role = %(role)s WHERE tenant = %(tenant)s AND member = %(member)s"
    columns = "RETURNING member, issuer, subject, name, role"
    values = {"role": call.body["role"], "member": UUID(call.params["id"])}
    (updated,) = call.database.write(call.caller.tenant, f"{update} {columns}", **values)
    if not updated:
        raise NotFoundError("member not found", name=call.params["id"])
    return 200, _make_row(MEMBER, updated[0])


def delete_member(call: Call) -> Answer:
    access.delete_row(call.database, call.caller.tenant, "members", member=UUID(call.params["id"]))
    return 200, {"deleted": call.params["id"]}


def list_teams(call: Call) -> Answer:
    teams, members = call.ask(
        "SELECT team, name FROM memdir.teams WHERE tenant = %(tenant)s ORDER BY name",
        "SELECT team, member FROM memdir.team_members WHERE tenant = %(tenant)s",
    )
    mine = [row for row in teams if call.caller.rules_organisation or row[0] in call.caller.teams]
    listed = [_make_row(TEAM, (*row, [str(member) for team, member in members if team == row[0]])) for row in mine]
    return 200, _cut_page(call, "teams", listed, "name")


def make_team(call: Call) -> Answer:
    team = uuid4()
    access.insert_row(call.database, call.caller.tenant, "teams", team=team, name=call.body["name"])
    return 201, {"id": str(team), "name": call.body["name"], "members": []}


def delete_team(call: Call) -> Answer:
    access.delete_row(call.database, call.caller.tenant, "teams", team=UUID(call.params["id"]))
    return 200, {"deleted": call.params["id"]}


def join_team(call: Call) -> Answer:
    team, member = UUID(call.params["id"]), UUID(call.params["member"])
    access.insert_row(call.database, call.caller.tenant, "team_members", team=team, member=member)
    return 201, {"team": str(team), "member": str(member)}


def leave_team(call: Call) -> Answer:
    team, member = UUID(call.params["id"]), UUID(call.params["member"])
    access.delete_row(call.database, call.caller.tenant, "team_members", team=team, member=member)
    return 200, {"team": str(team), "member": str(member)}


def list_tokens(call: Call) -> Answer:
    columns = "token, name, access, stores, member, expires"
    where = "tenant = %(tenant)s AND revoked IS NULL ORDER BY created"
    (token_rows,) = call.ask(f"SELECT {columns} FROM memdir.tokens WHERE {where}")
    return 200, _cut_page(call, "tokens", [_make_row(table(TOKEN_ROW), row) for row in token_rows], "id")


def make_token(call: Call) -> Answer:
    body, stores = call.body, [UUID(store_id) for store_id in call.body.get("stores", ())]
    member = None if body.get("member") is None else UUID(body["member"])
    id, secret, expires = access.create_token(
        call.database, call.caller.tenant, name=body["name"], access=body["access"], now=call.context.clock(),
        days=body.get("days", access.TOKEN_DAYS), stores=stores, member=member,
    )  # fmt: skip
    row = (id, body["name"], body["access"], stores, member, expires)
    return 201, _make_row(table(TOKEN_ROW), row) | {"token": secret}


def revoke_token(call: Call) -> Answer:
    update = (
        "UPDATE memdir.tokens SET revoked = now() WHERE tenant = %(tenant)s AND token = %(token)s AND revoked IS NULL"
    )
    (revoked,) = call.database.write(call.caller.tenant, f"{update} RETURNING token", token=UUID(call.params["id"]))
    if not revoked:
        raise NotFoundError("token not found", name=call.params["id"])
    return 200, {"deleted": call.params["id"]}


def list_audit(call: Call) -> Answer:
    (entries,) = call.ask(
        "SELECT id, at, actor, action, target, status FROM memdir.audit WHERE tenant = %(tenant)s"
        f" AND id < %(before)s ORDER BY id DESC LIMIT {call.query.get('limit', _PAGE)}",
        before=clean_text(call.query.get("before") or "g"),
    )
    return 200, {"entries": [_make_row(AUDIT, row) for row in entries]}


def _cut_page(call: Call, name: str, items: list[Json], key: str) -> Json:
    """Return the items after the cursor, in the order of a key, and the cursor of the following page."""
    cursor, limit = call.query.get("cursor"), call.query.get("limit", _PAGE_MOST)
    page = sorted(items, key=lambda item: item[key])
    if cursor is not None:
        page = [item for item in page if item[key] > (int(cursor) if isinstance(item[key], int) else cursor)]
    return {name: page[:limit], "next": str(page[limit - 1][key]) if len(page) > limit else None}


def show_usage(call: Call) -> Answer:
    limits, used = call.ask(
        "SELECT max_stores, max_memories, max_bytes, max_requests FROM memdir.tenants WHERE tenant = %(tenant)s",
        "SELECT count(*), coalesce(sum(memories), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM memdir.stores"
        " WHERE tenant = %(tenant)s",
    )
    return 200, _make_row(USAGE, (*used[0], *limits[0]))


def _make_row(schema: Schema, row: Sequence[object]) -> Json:
    return {key: _make_value(value) for key, value in zip(schema["properties"], row, strict=True)}


def _make_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, list | tuple):
        return [_make_value(item) for item in value]
    return str(value) if isinstance(value, UUID) else value


# --- the table -------------------------------------------------------------------------------------------------------


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


_S = "/v1/stores/{store}"
_CONTENT = text(FILE_BYTES)
_PUSHED = table({"path": text(1000, 1), "before": maybe(SHA), "content": maybe(_CONTENT)}, "path")
_FILE = result(
    path=STRING, content_sha256=maybe(STRING), content=maybe(STRING), version=NUMBER, actor=STRING, at=STRING
)  # fmt: skip
_FOUND = result(**HEADER, text=STRING, truncated=FLAG, score={"type": "number"})
_DELETED = result(deleted=STRING)
_LIMIT = {"limit": whole(1, _PAGE_MOST)}
_CURSOR = {**_LIMIT, "cursor": text(1000, 1)}
_PAGED = {**_LIMIT, "before": whole(0)}
ENDPOINTS = (
    Endpoint("GET", "/v1/me", "Who is asking", show_me, {200: result(
        organisation=result(id=STRING, name=STRING), actor=STRING, role=STRING, access=STRING, member=maybe(STRING),
        teams=rows(STRING), stores=rows(STRING), expires=maybe(STRING))}),
    Endpoint("GET", "/v1/stores", "Stores", list_stores, {200: result(stores=rows(STORE), next=maybe(STRING))},
             query=_CURSOR),
    Endpoint("POST", "/v1/stores", "Make a store", make_store, {201: STORE}, "write", body=table(
        {"name": NAME, "scope": one_of("team", "private"), "team": maybe(ID), "review": FLAG, "agents": FLAG}, "name")),
    Endpoint("GET", _S, "One store", show_store, {200: STORE}),
    Endpoint("PATCH", _S, "Rename a store, or ask for review", change_store, {200: STORE}, "write",
             body=table({"name": NAME, "review": FLAG, "agents": FLAG})),
    Endpoint("DELETE", _S, "Delete a store and its content", delete_store, {200: _DELETED}, "write"),
    Endpoint("GET", f"{_S}/memories", "Memories by path", list_memories,
             {200: result(memories=rows(result(**HEADER)), next=maybe(STRING))},
             query={**_LIMIT, "prefix": text(1000), "cursor": text(1000)}),
    Endpoint("GET", f"{_S}/memories/{{path:path}}", "Read a memory", read_memory,
             {200: result(**HEADER, content=STRING)}),
    Endpoint("PUT", f"{_S}/memories/{{path:path}}", "Write a memory", write_memory,
             {200: WRITTEN, 201: WRITTEN, 202: WAITING}, "write",
             body=table({"content": _CONTENT, "content_sha256": maybe(SHA), **WORDS}, "content"), precondition="body"),
    Endpoint("DELETE", f"{_S}/memories/{{path:path}}", "Forget a memory", forget_memory, {200: WRITTEN, 202: WAITING},
             "write", query={"content_sha256": SHA}, precondition="query"),
    Endpoint("GET", f"{_S}/index", "MEMORY.md", read_index, {200: result(content=STRING, content_sha256=maybe(STRING))}),
    Endpoint("GET", f"{_S}/search", "Memories that match a question", search_store,
             {200: result(memories=rows(_FOUND), skipped=maybe(STRING), complete=FLAG)},
             query={"q": text(10_000, 1), "limit": whole(1, 50)}, needs=("q",)),
    Endpoint("GET", f"{_S}/versions", "Versions, newest first", list_versions,
             {200: result(versions=rows(VERSION), next=maybe(NUMBER))}, query={**_PAGED, "path": text(1000)}),
    Endpoint("GET", f"{_S}/versions/{{version:int}}", "One version", show_version, {200: VERSION}),
    Endpoint("POST", f"{_S}/versions/{{version:int}}/redact", "Remove a version's content, keep its trail", redact_version,
             {200: VERSION}, "write", body=table({"path": text(1000, 1)}, "path")),
    Endpoint("GET", f"{_S}/contents/{{content_sha256}}", "A recorded content", read_content,
             {200: result(content=STRING, content_sha256=STRING)}),
    Endpoint("POST", f"{_S}/undo", "Undo a version", undo_version, {200: result(version=NUMBER, paths=rows(STRING)), 202: WAITING},
             "write", body=table({"version": maybe(whole(1)), **WORDS})),
    Endpoint("POST", f"{_S}/changes", "Many edits as one version", change_many, {200: WRITTEN, 202: WAITING}, "write",
             body=table({"edits": rows(ANY, _FILES_MOST), "verb": text(40), **WORDS}, "edits")),
    Endpoint("GET", f"{_S}/files", "Files that changed after a revision", list_changed,
             {200: result(revision=NUMBER, epoch=NUMBER, reset=FLAG, files=rows(_FILE))},
             query={"since": whole(0), "epoch": whole(0), "content": FLAG}),
    Endpoint("POST", f"{_S}/files", "Change files as one version", push_files, {
        200: result(revision=NUMBER, version=maybe(NUMBER), repeated=FLAG,
                    files=rows(result(path=STRING, content_sha256=maybe(STRING)))), 202: WAITING},
             "write", body=table({"files": rows(_PUSHED, _FILES_MOST), "verb": text(40), **WORDS}, "files")),
    Endpoint("GET", f"{_S}/inbox", "Items that need review", list_items, {200: result(items=rows(ITEM), next=maybe(STRING))},
             query={**_LIMIT, "cursor": text(19, 1, pattern="^[0-9]+$"), "state": one_of("waiting", "approved", "rejected", "all")}),
    Endpoint("POST", f"{_S}/inbox/{{id:int}}/{{decision}}", "Approve or reject", decide_item,
             {200: result(item=ITEM, version=maybe(NUMBER))}, "write", body=table({"note": text(1000)})),
    Endpoint("GET", "/v1/members", "Members", list_members, {200: result(members=rows(MEMBER), next=maybe(STRING))}, "admin",
             query=_CURSOR),
    Endpoint("POST", "/v1/members", "Add a member", make_member, {201: MEMBER}, "admin", body=table(
        {"issuer": text(500, 1), "subject": text(500, 1), "name": text(200), "role": one_of(*access.ROLES)},
        "issuer", "subject", "role")),
    Endpoint("PATCH", "/v1/members/{id:uuid}", "Change a member's role", change_member, {200: MEMBER}, "admin",
             body=table({"role": one_of(*access.ROLES)}, "role")),
    Endpoint("DELETE", "/v1/members/{id:uuid}", "Remove a member and their tokens", delete_member, {200: _DELETED}, "admin"),
    Endpoint("GET", "/v1/teams", "Teams", list_teams, {200: result(teams=rows(TEAM), next=maybe(STRING))}, query=_CURSOR),
    Endpoint("POST", "/v1/teams", "Create a team", make_team, {201: TEAM}, "admin", body=table({"name": NAME}, "name")),
    Endpoint("DELETE", "/v1/teams/{id:uuid}", "Delete a team", delete_team, {200: _DELETED}, "admin"),
    Endpoint("PUT", "/v1/teams/{id:uuid}/members/{member:uuid}", "Add a member to a team", join_team,
             {201: result(team=STRING, member=STRING)}, "admin"),
    Endpoint("DELETE", "/v1/teams/{id:uuid}/members/{member:uuid}", "Remove a member from a team", leave_team,
             {200: result(team=STRING, member=STRING)}, "admin"),
    Endpoint("GET", "/v1/tokens", "Tokens", list_tokens,
             {200: result(tokens=rows(result(**TOKEN_ROW)), next=maybe(STRING))}, "admin", query=_CURSOR),
    Endpoint("POST", "/v1/tokens", "Create a token; its text is returned once", make_token,
             {201: result(**TOKEN_ROW, token=STRING)}, "admin", body=table(
                 {"name": text(200, 1), "access": one_of(*access.ACCESS), "days": whole(1, access.TOKEN_DAYS_MOST),
                  "stores": rows(ID, 1000), "member": maybe(ID)}, "name", "access")),
    Endpoint("DELETE", "/v1/tokens/{id:uuid}", "Revoke a token", revoke_token, {200: _DELETED}, "admin"),
    Endpoint("GET", "/v1/audit", "Audit log, newest first", list_audit, {200: result(entries=rows(AUDIT))}, "admin",
             query={**_LIMIT, "before": text(64)}),
    Endpoint("GET", "/v1/usage", "Usage and limits of the organisation", show_usage, {200: USAGE}),
)  # fmt: skip
