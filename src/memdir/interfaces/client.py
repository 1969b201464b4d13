"""`Client`: a store of a server (`memdir serve`), with the methods of `Memory` that a server answers.

with memdir.Client("https://memory.example", token) as memory:
    memory.remember("we deploy on Tuesdays only")
    print([hit.title for hit in memory.recall("may I deploy on Friday?")])
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self, Unpack
from urllib.parse import quote
from uuid import uuid4

from memdir.errors import (
    BudgetError,
    ConflictError,
    DiskError,
    FormatError,
    MemdirError,
    NotFoundError,
    SecretError,
    SettingsError,
    hint_extra,
)
from memdir.format.fields import FIELDS
from memdir.format.frontmatter import make_memory
from memdir.frozen import dataclass, replace
from memdir.operations.write import WriteAction, compose_update
from memdir.records import (
    Change,
    ChangedFile,
    Draft,
    Excerpt,
    FieldChanges,
    Header,
    InboxItem,
    InboxKind,
    InboxState,
    Kind,
    Origin,
    Save,
    Scope,
    Signature,
    StoredMemory,
)
from memdir.store.inbox import render_edits

try:
    import httpx2
except ModuleNotFoundError:
    raise SettingsError("the client needs httpx2, which is not installed", hint=hint_extra("client")) from None

_ERRORS: Mapping[str, type[MemdirError]] = {
    "not_found": NotFoundError, "conflict": ConflictError, "precondition": ConflictError, "secret": SecretError,
    "unauthenticated": SettingsError, "forbidden": SettingsError, "unavailable": DiskError, "quota": BudgetError, "rate": BudgetError,
}  # fmt: skip
_TRIES, _PAGE = 4, 1000
_AGAIN = (429, 502, 503, 504)  # the same request may be sent again
_NO: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What a write did. `change` is its version; None if nothing changed, or if it waits for review as this inbox item."""

    action: WriteAction
    name: str
    change: int | None
    item: int | None = None


class Client:
    """One store of a server, by name or ID; without one, the only store that the token may read.

    Requests that got no answer are sent again with the same idempotency key, so that they happen once. Methods raise the
    same errors as those of `Memory`.
    """

    def __init__(self, url: str, token: str, store: str = "", *, timeout: float = 30.0) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout)
        if not store:
            names = [row["name"] for row in self._ask("GET", "/v1/stores")["stores"]]
            if len(names) != 1:
                raise NotFoundError("no store was given", hint=f"use one of: {', '.join(names) or 'none'}")
            store = names[0]
        self._store = f"/v1/stores/{quote(store, safe='')}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def remember(self, text: str, *, kind: Kind | str | None = None, name: str | None = None) -> ClientResult:
        """Save a sentence in the memory that it extends or corrects, or as a new memory."""
        body = {"text": text, "type": kind and Kind(kind).value, "name": name}
        return self._write("POST", "/remember", {key: value for key, value in body.items() if value is not None})

    def save(self, draft: Draft, *, replace: bool = False) -> ClientResult:
        """Save a draft as a new memory or, with `replace`, replace the memory with its name."""
        expect = self.get(draft.name).digest if replace and draft.name else None
        return self._write("POST", "/changes", {"edits": render_edits([Save(draft, expect)]), "verb": "save"})

    def recall(self, question: str, *, limit: int | None = None) -> tuple[Excerpt, ...]:
        """Return the best matches for a question or a word."""
        rows = self._read("/search", {"q": question} | ({} if limit is None else {"limit": limit}))["memories"]
        hits = []
        for row in rows:
            header, lines = _make_header(row), row["text"].count("\n") + 1
            shown = (row["text"], row["content_sha256"], lines, lines, row["score"], row["truncated"])
            hits.append(Excerpt(header, header.file, *shown))
        return tuple(hits)

    def get(self, name: str) -> StoredMemory:
        row = self._read(f"/memories/{quote(name)}")
        return make_memory(name, row["content"].encode(), _make_header(row).signature, Scope.TEAM)

    def list(self, *, kind: Kind | str | None = None) -> tuple[Header, ...]:
        """Return the headers of all memories, newest first."""
        headers, cursor = [], ""
        while cursor is not None:
            page = self._read("/memories", {"limit": _PAGE, "cursor": cursor})
            headers += [_make_header(row) for row in page["memories"]]
            cursor = page["next"]
        headers.sort(key=lambda header: (header.modified, header.name), reverse=True)
        return tuple(header for header in headers if kind is None or header.kind == Kind(kind))

    def update(self, name: str, *, expect: str | None = None, **fields: Unpack[FieldChanges]) -> ClientResult:
        """Change fields of a memory. Raise ConflictError if its digest is no longer `expect`."""
        memory = self.get(name)
        text = compose_update(name, memory.text, fields, datetime.now(UTC))
        return self._write(
            "PUT", f"/memories/{quote(name)}", {"content": text, "content_sha256": expect or memory.digest}
        )

    def forget(self, name: str, *, expect: str | None = None) -> ClientResult:
        """Delete a memory. It can be restored from history."""
        query = {} if expect is None else {"content_sha256": expect}
        result = self._write("DELETE", f"/memories/{quote(name)}", None, query)
        return replace(result, action=WriteAction.FORGOTTEN) if result.item is None else result

    def restore(self, name: str, *, change: int | None = None) -> ClientResult:
        """Restore the version of a memory that a change wrote, by default the previous version."""
        return self._write("POST", "/restore", {"path": name, "version": change})

    def history(self, name: str | None = None, *, limit: int = 50) -> tuple[Change, ...]:
        """Return the changes of a memory, or of the store, newest first."""
        rows = self._read("/versions", {"limit": limit} | ({} if name is None else {"path": name}))["versions"]
        return tuple(map(_make_change, rows))

    def undo(self, change: int | None = None) -> ClientResult:
        """Undo the last change, or the change with this ID. An undo can itself be undone."""
        return self._write("POST", "/undo", {"version": change})

    def review(self, item: InboxItem | None = None, *, approve: bool = True) -> tuple[InboxItem, ...]:
        """Return the items that need review, oldest first. If an `item` is given, approve or reject it first."""
        if item is not None:
            self._ask("POST", f"{self._store}/inbox/{item.id}/{'approve' if approve else 'reject'}", {})
        return tuple(map(_make_item, self._read("/inbox")["items"]))

    def _read(self, path: str, query: Mapping[str, Any] = _NO) -> Any:
        return self._ask("GET", f"{self._store}{path}", None, query)

    def _write(self, method: str, path: str, body: object, query: Mapping[str, Any] = _NO) -> ClientResult:
        answer = self._ask(method, f"{self._store}{path}", body, query)
        if item := answer.get("review"):
            return ClientResult(WriteAction.WAITING, item["name"], None, item["id"])
        names = [path.removesuffix(".md") for path in answer.get("paths", ())] or [answer.get("path") or ""]
        action = WriteAction.UNCHANGED if answer["version"] is None else WriteAction(answer.get("action", "changed"))
        return ClientResult(action, names[0], answer["version"])

    def _ask(self, method: str, path: str, body: object = None, query: Mapping[str, Any] = _NO) -> Any:
        headers = {} if method == "GET" else {"Idempotency-Key": uuid4().hex}
        reason = ""
        for number in range(_TRIES):
            time.sleep(number**2 / 10)
            try:
                answer = self._http.request(method, path, json=body, params=dict(query), headers=headers)
            except httpx2.TransportError as error:
                reason = str(error)
                continue
            if answer.status_code not in _AGAIN or number == _TRIES - 1:
                return _parse(answer)
        raise DiskError(f"cannot reach the server: {reason}", hint="try again later")


def _parse(answer: "httpx2.Response") -> Any:
    try:
        row = answer.json()
        error = row["error"] if answer.is_error else None
    except (ValueError, KeyError, TypeError):
        raise DiskError(f"not a memdir server: status {answer.status_code}", hint="check the address") from None
    if error is None:
        return row
    hint, message = str(error.get("hint", "")), str(error.get("message", ""))
    kind = _ERRORS.get(error.get("type"), FormatError)
    if kind is ConflictError:
        raise ConflictError(message, expected=error.get("expected"), found=error.get("found"), hint=hint)
    raise kind(message, hint=hint)


def _make_header(row: Mapping[str, Any]) -> Header:
    modified = datetime.fromisoformat(row["modified"])
    mtime_ns = int(modified.timestamp() * 1e9)
    facts = {field.key: field.parse(row[field.key]) for field in FIELDS if row.get(field.key) is not None}
    facts = {"pinned": False} | facts | {"signature": Signature(row["version"], row["size"], mtime_ns, mtime_ns)}
    kind = Kind(row["type"]) if row["type"] else None
    return Header(row["path"], row["title"], row["description"], kind, Scope.TEAM, modified, **facts)


def _make_change(row: Mapping[str, Any]) -> Change:
    origin = Origin(row["who"], row["why"], row["session"])
    files = (ChangedFile(file["path"], file["before"], file["after"], None, file["redacted"]) for file in row["files"])
    undo = row["undoes"], row["undone_by"]
    time = datetime.fromisoformat(row["at"])
    return Change(row["version"], time, row["verb"], origin, tuple(files), *undo, row["actor"])


def _make_item(row: Mapping[str, Any]) -> InboxItem:
    payload = {"edits": row["edits"], "evidence": row["evidence"]}
    times: dict[str, Any] = {
        "at": datetime.fromisoformat(row["at"]),
        "decided": row["decided"] and datetime.fromisoformat(row["decided"]),
    }
    words: dict[str, Any] = {key: row[key] for key in ("title", "why", "name", "id", "note")}
    return InboxItem(InboxKind(row["kind"]), state=InboxState(row["state"]), payload=payload, **words, **times)
