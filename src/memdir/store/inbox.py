"""The inbox: items that need the user's review, and the edits they propose as JSON.

It is a table in `history.db`. Items with the same key are not added twice, even after a decision. A changed
item gets a new number, so that nobody approves a text they have not seen.

A payload is {"edits": [...], "evidence": [{"quote": ..., "source": ..., "message": ...}], "secrets": [...]}. `evidence` is
untrusted text, only to be shown; `secrets` are passages that no interface may print. Unknown fields are ignored, but an
edit that cannot be parsed is refused, because approval would apply it. "otherwise" are the edits that rejecting applies, in
the kinds for which `operations.review.KINDS` says so.
"""

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from memdir import records
from memdir.errors import ConflictError, FormatError, NotFoundError
from memdir.format.fields import FIELDS, load_fields
from memdir.format.frontmatter import make_slug
from memdir.frozen import dataclass, list_fields, replace
from memdir.records import Draft, Edit, InboxItem, InboxKind, InboxState, Kind, Origin
from memdir.text import fold, replace_surrogates

MASK = "[masked]"
PARTS = frozenset(("edits", "evidence", "secrets"))  # of a payload; other fields are facts to show
MIGRATION = """
    CREATE TABLE inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
        title TEXT NOT NULL, why TEXT NOT NULL, name TEXT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL,
        session TEXT NOT NULL, payload TEXT NOT NULL, state TEXT NOT NULL, decided TEXT, note TEXT NOT NULL
    );
    CREATE UNIQUE INDEX inbox_key ON inbox (key) WHERE key <> '';
    CREATE INDEX inbox_state ON inbox (state);
"""
COLUMNS = "at, kind, key, title, why, name, who, reason, session, payload, state, decided, note"
# A purge keeps the decision on an item but not its content.
_BLANK = {"title": "", "why": "", "name": "", "reason": "", "payload": "{}", "note": ""}
# Every edit except records.Save, by its name in a payload: required text fields, and optional ones.
_EDITS: dict[str, tuple[type[Any], tuple[str, ...], tuple[str, ...]]] = {
    "forget": (records.Forget, ("name",), ("expect",)),
    "rewrite": (records.Rewrite, ("name", "text", "expect"), ()),
    "put": (records.Put, ("name", "text"), ("hook",)),
    "add_pointer": (records.AddPointer, ("name",), ()),
    "drop_pointer": (records.DropPointer, ("name",), ()),
    "replace_line": (records.ReplaceLine, ("name", "was", "line"), ()),
}


class InboxTable(Protocol):
    """The database rows of one inbox, oldest first, with the columns in COLUMNS."""

    def read(self, **equal: object) -> Iterable[InboxItem]: ...
    def insert(self, row: Sequence[object]) -> int: ...
    def update(self, id: int, **values: object) -> None: ...
    def remove(self, id: int) -> None: ...


class SqliteInbox:
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def read(self, **equal: object) -> Iterable[InboxItem]:
        where = " AND ".join(f"{column} = ?" for column in equal) or "true"
        select = f"SELECT id, {COLUMNS} FROM inbox WHERE {where} ORDER BY id"
        return map(make_item, self._db.execute(select, tuple(equal.values())).fetchall())

    def insert(self, row: Sequence[object]) -> int:
        insert = f"INSERT INTO inbox ({COLUMNS}) VALUES ({', '.join('?' * len(row))})"
        return self._db.execute(insert, row).lastrowid or 0

    def update(self, id: int, **values: object) -> None:
        columns = ", ".join(f"{column} = ?" for column in values)
        self._db.execute(f"UPDATE inbox SET {columns} WHERE id = ?", (*values.values(), id))

    def remove(self, id: int) -> None:
        self._db.execute("DELETE FROM inbox WHERE id = ?", (id,))


class Inbox(ABC):
    """The inbox of a store. When a method returns, its items and decisions are on disk."""

    clock: Callable[[], datetime]

    @abstractmethod
    def _using_inbox(self, *, write: bool) -> AbstractContextManager[InboxTable]:
        """Yield the inbox rows. With `write`, takes the lock and opens a transaction."""

    def inbox_add(self, items: Iterable[InboxItem]) -> tuple[InboxItem, ...]:
        """Add items and return them as stored; items decided earlier stay decided."""
        new = tuple(items)
        if not new:
            return ()
        with self._using_inbox(write=True) as table:
            return tuple(_add(table, item) for item in new)

    def inbox_replace(self, prefix: str, items: Iterable[InboxItem]) -> tuple[InboxItem, ...]:
        """Add items as `inbox_add` does, and remove other pending items whose keys begin with `prefix`."""
        new = tuple(items)
        if not prefix or any(not item.key.startswith(prefix) for item in new):
            raise FormatError(f"the keys of these items must begin with {prefix!r}", field="key")
        with self._using_inbox(write=True) as table:
            keys = {item.key for item in new}
            for old in list(table.read(state=InboxState.WAITING.value)):
                if old.key.startswith(prefix) and old.key not in keys:
                    table.remove(old.id)
            return tuple(_add(table, item) for item in new)

    def inbox(self, state: InboxState | str | None = InboxState.WAITING) -> tuple[InboxItem, ...]:
        """Return the items in this state, oldest first, or all items if it is None."""
        with self._using_inbox(write=False) as table:
            equal = {} if state is None else {"state": str(state)}
            return tuple(table.read(**equal))

    def inbox_item(self, id: int) -> InboxItem:
        with self._using_inbox(write=False) as table:
            return _read_one(table, id)

    def inbox_find(self, key: str) -> InboxItem | None:
        with self._using_inbox(write=False) as table:
            return next(iter(table.read(key=key)), None) if key else None

    def inbox_decide(
        self, id: int, state: InboxState | str, note: str = "", *, name: str = "", was: InboxState | None = None
    ) -> InboxItem:
        """Record the user's decision and the resulting memory's name. Raises ConflictError unless in state `was`."""
        with self._using_inbox(write=True) as table:
            old = _read_one(table, id)
            if was is not None and old.state is not was:
                raise ConflictError(f"item {id} is already {old.state.value}", hint=f"`memdir inbox show {id}`")
            decided, comment = self.clock().isoformat(), replace_surrogates(note)
            table.update(id, state=InboxState(state).value, decided=decided, note=comment, name=name or old.name)
            return _read_one(table, id)

    def inbox_withdraw(self, id: int) -> None:
        """Remove a pending item that its source no longer proposes."""
        with self._using_inbox(write=True) as table:
            if _read_one(table, id).state is InboxState.WAITING:
                table.remove(id)

    def inbox_reopen(self, id: int) -> InboxItem:
        """Make a decided item pending again, with a new number because a change already uses the old one as its key."""
        with self._using_inbox(write=True) as table:
            old = _read_one(table, id)
            table.remove(id)
            return _add(table, old)


def make_mark(item: InboxItem) -> str:
    """Return the idempotency key of the change that applies an item."""
    return f"inbox:{item.id}"


def drop_rows(table: InboxTable, name: str, marks: Collection[str] = ()) -> None:
    """Remove pending items about a memory, and the text of decided ones; `marks` are the keys of its changes.

    The key of a decided item is kept unless it contains the name, so that the item is not added again.
    """
    for item in list(table.read()):
        if not (is_about(item, name) or make_mark(item) in marks):
            continue
        if item.state is InboxState.WAITING or fold(name) in fold(item.key):
            table.remove(item.id)
        else:
            table.update(item.id, **_BLANK)


def is_about(item: InboxItem, name: str) -> bool:
    """Return whether an item names a memory in its field `name` or its payload, or has a draft that would create it."""
    return fold(name) in {fold(other) for other in (item.name, *_find_names(item.payload))}


def find_subjects(item: InboxItem) -> frozenset[str]:
    """Return the normalised names of the memories that an item would change or create."""
    if item.kind in (InboxKind.CONFLICT, InboxKind.APPROVAL):  # these items are about text that is already saved
        return frozenset()
    try:
        edits = find_payload_edits(item.payload)
    except FormatError:
        edits = ()
    drafts = [edit.draft if isinstance(edit, records.Save) else edit for edit in edits]
    names = [draft.name or make_slug(draft.title) if isinstance(draft, Draft) else draft.name for draft in drafts]
    return frozenset(map(fold, filter(None, (item.name, *names))))


def _find_names(value: object) -> Iterator[str]:
    """Yield every name in a payload; a draft without a name is named after its title."""
    if isinstance(value, Mapping):
        name, title = value.get("name"), value.get("title")
        if isinstance(name, str) and name:
            yield name.removesuffix(".md")
        elif isinstance(title, str) and title:
            yield make_slug(title)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _find_names(part)


def _read_one(table: InboxTable, id: int) -> InboxItem:
    for item in table.read(id=id):
        return item
    raise NotFoundError(f"inbox item {id} not found", name=str(id), hint="`memdir inbox` lists pending items")


def _add(table: InboxTable, item: InboxItem) -> InboxItem:
    """Add an item. If its key exists, a decided item is kept, and a pending one is replaced if it differs."""
    row = _make_row(item)
    old = next(iter(table.read(key=row[2])), None) if item.key else None
    if old is not None:
        new = replace(make_item((old.id, *row)), at=old.at)
        if old.state is not InboxState.WAITING or new == old:
            return old
        table.remove(old.id)
    return make_item((table.insert(row), *row))


def _make_row(item: InboxItem) -> tuple[object, ...]:
    texts = (item.kind.value, item.key, item.title, item.why, item.name)
    origin = (item.origin.who, item.origin.why, item.origin.session)
    try:
        # ASCII keeps invalid text, such as half a surrogate pair, unchanged.
        payload = json.dumps(dict(item.payload), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FormatError(f"an inbox item's payload must be JSON: {error}", field="payload") from None
    clean = (replace_surrogates(text) for text in (*texts, *origin))
    return item.at.isoformat(), *clean, payload, InboxState.WAITING.value, None, ""


def make_item(row: Sequence[Any]) -> InboxItem:
    id, time, kind, key, title, why, name, who, reason, session, payload, state, decided, note = row
    loaded = json.loads(payload)
    origin, table = Origin(who, reason, session), loaded if isinstance(loaded, dict) else {}
    decision = None if decided is None else datetime.fromisoformat(decided)
    added, form, stage = datetime.fromisoformat(time), InboxKind(kind), InboxState(state)
    return InboxItem(form, title, why, added, key, name, origin, table, id, stage, decision, note)


@dataclass(frozen=True, slots=True)
class InboxQuote:
    quote: str
    source: str = ""
    message: str = ""


def render_edits(edits: Iterable[Edit]) -> list[dict[str, object]]:
    return [_render_edit(edit) for edit in edits]


def parse_edits(value: object) -> tuple[Edit, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise _refusal("edits")
    return tuple(_parse_edit(row) for row in value)


def find_payload_edits(payload: Mapping[str, object]) -> tuple[Edit, ...]:
    return parse_edits(payload.get("edits") or ())


def render_evidence(quotes: Iterable[InboxQuote]) -> list[dict[str, object]]:
    return [{"quote": quote.quote, "source": quote.source, "message": quote.message} for quote in quotes]


def find_evidence(payload: Mapping[str, object]) -> tuple[InboxQuote, ...]:
    """Return the evidence in a payload, skipping rows that are not quotes."""
    evidence = payload.get("evidence")
    rows = evidence if isinstance(evidence, list) else [evidence]
    tables = [{"quote": row} if isinstance(row, str) else row for row in rows if isinstance(row, str | Mapping)]
    parts = [[table.get(key) for key in ("quote", "source", "message")] for table in tables]
    quotes = (InboxQuote(*(part if isinstance(part, str) else "" for part in row)) for row in parts)
    return tuple(quote for quote in quotes if quote.quote)


def mask_payload(value: object, payload: Mapping[str, object]) -> object:
    """Return a JSON value with the secrets listed in the payload masked."""
    listed = payload.get("secrets")
    secrets = [secret for secret in listed if isinstance(secret, str) and secret] if isinstance(listed, list) else []
    secrets.sort(key=len, reverse=True)

    def mask(value: object) -> object:
        if isinstance(value, str):
            for secret in secrets:
                value = value.replace(secret, MASK)
            return value
        if isinstance(value, Mapping):
            return {key: mask(item) for key, item in value.items()}
        return [mask(item) for item in value] if isinstance(value, list) else value

    return mask(value)


def mask_text(text: str, payload: Mapping[str, object]) -> str:
    return str(mask_payload(text, payload))


def _render_edit(edit: Edit) -> dict[str, object]:
    if isinstance(edit, records.Save):
        fields = {key: getattr(edit.draft, key) for key in ("title", "description", "body", "name")}
        # Null leaves a field as it is, an empty value removes it.
        fields |= {row.key: None if getattr(edit.draft, row.key) is None else row.read(edit.draft) for row in FIELDS}
        return {"edit": "save", "type": edit.draft.kind.value, **fields, "expect": edit.expect}
    word = next(word for word, (kind, _, _) in _EDITS.items() if isinstance(edit, kind))
    return {"edit": word, **{key: getattr(edit, key) for key in list_fields(edit)}}


def _parse_edit(value: object) -> Edit:
    if not isinstance(value, Mapping):
        raise _refusal("edit")
    if (row := _EDITS.get(str(value.get("edit")))) is not None:
        kind, needed, optional = row
        options = {key: text for key in optional if (text := _maybe(value, key)) is not None}
        edit: Edit = kind(**{key: _text(value, key) for key in needed}, **options)
        return edit
    if value.get("edit") != "save" or value.get("type") not in [kind.value for kind in Kind]:
        raise _refusal("edit")
    title, description, body = (_text(value, key) for key in ("title", "description", "body"))
    name = _maybe(value, "name")
    draft = Draft(Kind(_text(value, "type")), title, description, body, name, **load_fields(value))
    return records.Save(draft, _maybe(value, "expect"))


def _text(value: Mapping[str, object], field: str) -> str:
    text = value.get(field)
    if not isinstance(text, str):
        raise _refusal(field)
    return text


def _maybe(value: Mapping[str, object], field: str) -> str | None:
    return None if value.get(field) is None else _text(value, field)


def _refusal(field: str) -> FormatError:
    hint = "reject it; memdir may propose the change again"
    return FormatError("this item is corrupt", field=field, hint=hint)
