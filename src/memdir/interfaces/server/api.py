"""Stores, memories, versions, files and inbox of the HTTP API (docs/server.md).

A function gets a `Call`, checked against the schemas of its route (`routes.py`), and returns a status and a JSON value. The
store's plan, `sync.plan.judge_text` and the store's settings decide what can be written and what needs review.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from psycopg import errors

from memdir.errors import ConflictError, FormatError, NotFoundError, ReviewError, SecretError
from memdir.files import check_name
from memdir.format.frontmatter import digest_of, encode
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, field, replace
from memdir.interfaces.server.access import Caller, DeniedError, OidcProvider
from memdir.interfaces.server.schemas import HEADER, Json
from memdir.limits import SELECTED
from memdir.operations.find import FoundMemory, make_rows
from memdir.operations.review import decide
from memdir.operations.write import (
    WriteAction,
    WriteContext,
    WriteResult,
    carry_out,
    change,
    remember,
    restore,
    undo,
)
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
    Kind,
    Origin,
    Put,
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
PAGE, PAGE_MOST = 100, 1000
_HEADER_FIELDS = tuple(key for key in HEADER if key not in ("path", "content_sha256"))


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

    def find_store(self, *, write: bool = False, is_reviewed: bool = False, archived: bool = False) -> "OpenStore":
        """Return the store of the path, by ID or name. Raises NotFoundError if the caller cannot see it.

        `is_reviewed`: the changes were approved and do not need review again. `archived`: also for writes, if it is archived.
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
        opened = OpenStore(self, row, is_reviewed=is_reviewed)
        if write and opened.facts["archived"] is not None and not archived:
            raise FormatError("this store is archived", field="store", hint="it can be read and deleted")
        return opened


_STORE_COLUMNS = (
    "store, name, scope, team, owner, review, revision, epoch, memories, bytes, created, agents,"
    " archived, pruned, title, description, metadata, updated"
)


class OpenStore:
    """The store of a request with its database row, as `facts` by column."""

    def __init__(self, call: Call, row: Row, *, is_reviewed: bool = False) -> None:
        self.call, self.row, self._is_reviewed = call, row, is_reviewed
        self.facts = dict(zip(_STORE_COLUMNS.split(", "), row, strict=True))
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
            review=not self.facts["agents"],
            actor=caller.actor,
            actor_name=caller.name,
            clock=call.context.clock,
            screen=self._make_proposal,
        )

    def render(self) -> Json:
        facts, may = self.facts, "read_write" if self.call.caller.may_write else "read_only"
        keys = ("name", "scope", "review", "agents", "revision", "epoch", "memories", "bytes")
        team, created = facts["team"], facts["created"].isoformat()
        return {"id": str(self.id), "team": None if team is None else str(team), "access": may, "created": created} | {
            key: facts[key] for key in keys
        }

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
        facts = {"path": result.name, "action": result.action.value, "repeated": result.repeated}
        return 200, {"version": result.change, "content_sha256": digest, **facts}

    def write_files(
        self, versions: Mapping[str, tuple[str | None, str | None]], context: WriteContext, *, verb: str
    ) -> WriteResult:
        """Write whole files, by path: the digest that the caller knows, None for no file, and the content, None to delete it.

        Raises PushConflict if any file has changed since; one that has the new content already is left out.
        """

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

        return carry_out(self.store, planner, (), context, verb=verb, mark=self.call.mark)

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


def render_version(store: PostgresStore, change: Change) -> Json:
    return _render_versions(store, [change])[0]


def _render_versions(store: PostgresStore, changes: Sequence[Change]) -> list[Json]:
    people = store.find_people(change.id for change in changes)
    return [_render_version(change, people.get(change.id, change.actor)) for change in changes]


def _render_version(change: Change, author: str) -> Json:
    origin = change.origin
    return {
        "version": change.id, "at": change.at.astimezone(UTC).isoformat(), "verb": change.verb, "actor": change.actor,
        "author": author,
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


def find_stores(call: Call) -> list[OpenStore]:
    """Return all stores that the caller may see, by name."""
    (store_rows,) = call.ask(f"SELECT {_STORE_COLUMNS} FROM memdir.stores WHERE tenant = %(tenant)s ORDER BY name")
    return [OpenStore(call, row) for row in store_rows if call.caller.may_see(row[0], row[2], row[3], row[4])]


def list_stores(call: Call) -> Answer:
    return 200, cut_page(call, "stores", [opened.render() for opened in find_stores(call)], "name")


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
    columns |= {key: body[key] for key in ("title", "description", "metadata") if key in body}
    store_id = create_store(call.database, caller.tenant, body["name"], **columns)
    return 201, replace(call, params={"store": str(store_id)}).find_store().render()


def show_store(call: Call) -> Answer:
    return 200, call.find_store().render()


def change_store(call: Call) -> Answer:
    opened = call.find_store(write=True)
    check_keeper(call, opened)
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
    opened = call.find_store(write=True, archived=True)
    check_keeper(call, opened)
    deletes = (
        f"DELETE FROM memdir.{table} WHERE tenant = %(tenant)s AND store = %(store)s"
        for table in ("stores", "postings", "terms", "queue")  # the others follow the store
    )
    call.database.write(call.caller.tenant, *deletes, store=opened.id)
    return 200, {"deleted": str(opened.id)}


def check_keeper(call: Call, opened: OpenStore) -> None:
    if not (call.caller.is_admin or opened.scope == "private"):
        raise DeniedError("only admins of the organisation can do this")


# --- memories --------------------------------------------------------------------------------------------------------


def list_memories(call: Call) -> Answer:
    store, prefix, after = call.find_store().store, call.query.get("prefix", ""), call.query.get("cursor", "")
    limit = call.query.get("limit", PAGE)
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
    """Delete a memory, which undo restores; with `purge`, also erase it from history, search, inbox and audit log."""
    opened, name = call.find_store(write=True, archived=True), call.params["path"]
    check_name(name)
    if not call.query.get("purge"):
        return opened.change([Forget(name, call.query.get("content_sha256"))], verb="forget")
    check_keeper(call, opened)
    if opened.store.read_many([name]):
        opened.change([Forget(name, call.query.get("content_sha256"))], verb="forget")
    opened.store.purge(name)
    return 200, {"version": None, "content_sha256": None, "path": name, "action": "forgotten", "repeated": False}


def remember_text(call: Call) -> Answer:
    """Save a sentence in the memory that it extends or corrects, or as a new one, or forget what it asks to forget."""
    opened, body = call.find_store(write=True), call.body
    kind, context = Kind(body["type"]) if "type" in body else None, opened.make_context()
    return opened.write(lambda: remember([opened.store], body["text"], context, kind=kind, name=body.get("name")))


def restore_memory(call: Call) -> Answer:
    opened, version = call.find_store(write=True), call.body.get("version")
    return opened.write(lambda: restore(opened.store, call.body["path"], opened.make_context(), change=version))


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
    store, path, limit = call.find_store().store, call.query.get("path"), call.query.get("limit", PAGE)
    changes = store.changes(path, limit=limit + 1, below=call.query.get("before"))
    following = changes[limit - 1].id if len(changes) > limit else None
    return 200, {"versions": _render_versions(store, changes[:limit]), "next": following}


def show_version(call: Call) -> Answer:
    store = call.find_store().store
    return 200, render_version(store, store.read_change(int(call.params["version"])))


def read_content(call: Call) -> Answer:
    data = call.find_store().store.read_content(call.params["content_sha256"])
    return 200, {"content": data.decode("utf-8", "replace"), "content_sha256": digest_of(data)}


def redact_version(call: Call) -> Answer:
    opened = call.find_store(write=True, archived=True)
    check_keeper(call, opened)
    number = int(call.params["version"])
    opened.store.redact(number, f"{call.body['path']}.md")
    return 200, render_version(opened.store, opened.store.read_change(number))


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
    return opened.change(edits, verb=call.body.get("verb") or "edit")


# --- files, for synced folders --------------------------------------------------------------------------------------


def list_changed(call: Call) -> Answer:
    """Return the files changed or deleted after a revision, with their current content."""
    opened = call.find_store()
    store: Replicated = opened.store
    head, since = store.read_head(), call.query.get("since", 0)
    is_known = opened.facts["pruned"] <= since <= head.revision  # deletions before are no longer recorded
    is_reset = not is_known or call.query.get("epoch", head.epoch) != head.epoch
    since = 0 if is_reset else since
    head, written, deleted = store.read_changed(since, content=call.query.get("content", True))
    gone = [(path, None, version, actor, time, None) for path, version, actor, time in deleted if since]
    people = store.find_people({version for _, _, version, *_ in (*written, *gone)})
    files = [
        {
            "path": path, "content_sha256": digest, "version": version, "actor": actor,
            "author": people.get(version, actor), "at": time.astimezone(UTC).isoformat(),
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
        check_file(path, content)

    verb = call.body.get("verb") or "sync"
    origin = replace(call.origin(), who=SYNC)
    result = opened.write_files(versions, WriteContext(origin, call.context.clock()), verb=verb)
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
        super().__init__(
            f"{len(conflicts)} files changed since, or exist already", hint="read them, merge, and send them again"
        )
        self.conflicts = conflicts


def check_file(path: str, content: str | None, *, is_shared: bool = True) -> None:
    """Raise FormatError or SecretError if this cannot be a file of a store; if not `is_shared`, it may lack frontmatter."""
    data = encode(content or "")
    why = judge_place(path, PLAIN_MODE, len(data))
    if not why and content is not None and is_index_path(path):
        why = next((why for line in content.split("\n") if (why := judge_line(line, find_secrets))), "")
    elif not why and content is not None:
        why = judge_text(path, data, find_secrets, is_shared=is_shared).refused
    if why:
        error = SecretError if "secret" in why else FormatError
        raise error(f"{shorten(one_line(path), 80)} cannot be a memory here: {why}", hint="change it and send it again")


# --- the inbox -------------------------------------------------------------------------------------------------------


def list_items(call: Call) -> Answer:
    state = call.query.get("state", InboxState.WAITING.value)
    items = call.find_store().store.inbox(None if state == "all" else state)
    return 200, cut_page(call, "items", [render_item(item) for item in items], "id")


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


def cut_page(call: Call, name: str, items: list[Json], key: str) -> Json:
    """Return the items after the cursor, in the order of a key, and the cursor of the following page."""
    cursor, limit = call.query.get("cursor"), call.query.get("limit", PAGE_MOST)
    page = sorted(items, key=lambda item: item[key])
    if cursor is not None:
        page = [item for item in page if item[key] > (int(cursor) if isinstance(item[key], int) else cursor)]
    return {name: page[:limit], "next": str(page[limit - 1][key]) if len(page) > limit else None}
