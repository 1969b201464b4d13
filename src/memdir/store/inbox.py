"""The inbox: what needs a person's review, and what its items propose as JSON.

It is a table in `history.db`. An item is known by its key: the same thing does not wait twice, and what a person has decided
is not asked again. An item that is replaced by a different one gets another number, so that nobody approves an unseen text.

A payload is {"edits": [...], "evidence": [{"quote": ..., "source": ..., "message": ...}], "secrets": [...]}. `evidence` is
text from elsewhere, to be shown and never believed; `secrets` are passages that no interface may print. Unknown fields are
ignored, but an edit that cannot be parsed is refused: it would be carried out.
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
from memdir.format.frontmatter import make_slug
from memdir.frozen import dataclass, list_fields, replace
from memdir.records import Draft, Edit, InboxItem, InboxKind, InboxState, Kind, Origin
from memdir.text import fold, replace_surrogates

MASK = "[masked]"
SINCE = 4  # the migration of `history` with which the inbox came
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
# What a purge leaves of a decided item: that it was decided, not what it was.
_BLANK = {"title": "", "why": "", "name": "", "reason": "", "payload": "{}", "note": ""}
# Every edit but records.Save by its word in a payload: fields that must be text, and fields that may be absent.
_EDITS: dict[str, tuple[type[Any], tuple[str, ...], tuple[str, ...]]] = {
    "forget": (records.Forget, ("name",), ("expect",)),
    "rewrite": (records.Rewrite, ("name", "text", "expect"), ()),
    "put": (records.Put, ("name", "text"), ("hook",)),
    "add_pointer": (records.AddPointer, ("name",), ()),
    "drop_pointer": (records.DropPointer, ("name",), ()),
    "replace_line": (records.ReplaceLine, ("name", "was", "line"), ()),
}


class InboxTable(Protocol):
    """The rows of one inbox, oldest first, wherever they lie; columns are named as in COLUMNS."""

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
    """The inbox of a store. Items and decisions are on the disk when a method returns, or it raises."""

    clock: Callable[[], datetime]

    @abstractmethod
    def _using_inbox(self, *, write: bool) -> AbstractContextManager[InboxTable | None]:
        """The rows of the inbox, None if there are none yet; for writing under the lock, in a transaction."""

    def inbox_add(self, items: Iterable[InboxItem]) -> tuple[InboxItem, ...]:
        """Add items; returns them as they now are, which for those already decided is decided."""
        given = tuple(items)
        if not given:
            return ()
        with self._using_inbox(write=True) as table:
            return tuple(_add(table, item) for item in given) if table is not None else ()

    def inbox_replace(self, prefix: str, items: Iterable[InboxItem]) -> tuple[InboxItem, ...]:
        """As `inbox_add`, after removing what waits under keys that begin with `prefix` and is not given again."""
        given = tuple(items)
        if not prefix or any(not item.key.startswith(prefix) for item in given):
            raise FormatError("items that replace others need keys that begin as theirs do", field="key")
        with self._using_inbox(write=True) as table:
            assert table is not None
            keys = {item.key for item in given}
            for old in list(table.read(state=InboxState.WAITING.value)):
                if old.key.startswith(prefix) and old.key not in keys:
                    table.remove(old.id)
            return tuple(_add(table, item) for item in given)

    def inbox(self, state: InboxState | str | None = InboxState.WAITING) -> tuple[InboxItem, ...]:
        """What is in this state, oldest first; None for everything."""
        with self._using_inbox(write=False) as table:
            equal = {} if state is None else {"state": str(state)}
            return () if table is None else tuple(table.read(**equal))

    def inbox_item(self, id: int) -> InboxItem:
        with self._using_inbox(write=False) as table:
            return _read_one(table, id)

    def inbox_find(self, key: str) -> InboxItem | None:
        with self._using_inbox(write=False) as table:
            return None if table is None or not key else next(iter(table.read(key=key)), None)

    def inbox_decide(
        self, id: int, state: InboxState | str, note: str = "", *, name: str = "", was: InboxState | None = None
    ) -> InboxItem:
        """Record what a person decided, and with `name` which memory came of it; `was` is the state he has seen."""
        with self._using_inbox(write=True) as table:
            old = _read_one(table, id)
            if was is not None and old.state is not was:
                raise ConflictError(f"item {id} was {old.state.value} meanwhile", hint=f"`memdir inbox show {id}`")
            assert table is not None
            decided, said = self.clock().isoformat(), replace_surrogates(note)
            table.update(id, state=InboxState(state).value, decided=decided, note=said, name=name or old.name)
            return _read_one(table, id)

    def inbox_reopen(self, id: int) -> InboxItem:
        """Let a decided item wait again, as a new one: the change made for its old number has happened."""
        with self._using_inbox(write=True) as table:
            old = _read_one(table, id)
            assert table is not None
            table.remove(id)
            return _add(table, old)


def make_mark(item: InboxItem) -> str:
    """The mark of the change by which an item is carried out."""
    return f"inbox:{item.id}"


def drop_rows(table: InboxTable, name: str, marks: Collection[str] = ()) -> None:
    """Remove what waits about one memory, and the text of what was decided about it; `marks` are its changes'. The
    key of a decided item stays, so that the same thing is not asked again, unless it contains the name."""
    for item in list(table.read()):
        if not (is_about(item, name) or make_mark(item) in marks):
            continue
        if item.state is InboxState.WAITING or fold(name) in fold(item.key):
            table.remove(item.id)
        else:
            table.update(item.id, **_BLANK)


def is_about(item: InboxItem, name: str) -> bool:
    """Whether an item concerns a memory: by its name, by a name in its payload, or by a draft that would be it."""
    return fold(name) in {fold(found) for found in (item.name, *_find_names(item.payload))}


def _find_names(value: object) -> Iterator[str]:
    """Every name in a payload; a draft without one has the name that its title makes."""
    if isinstance(value, Mapping):
        name, title = value.get("name"), value.get("title")
        if isinstance(name, str) and name:
            yield name.removesuffix(".md")
        elif isinstance(title, str) and title:
            yield make_slug(title)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for at in inner:
        yield from _find_names(at)


def _read_one(table: InboxTable | None, id: int) -> InboxItem:
    for item in () if table is None else table.read(id=id):
        return item
    raise NotFoundError(f"no item {id} in the inbox", name=str(id), hint="`memdir inbox` lists what waits")


def _add(table: InboxTable, item: InboxItem) -> InboxItem:
    """Add one item, unless it is there: a decided one stays, a waiting one is replaced if it differs."""
    row = _make_row(item)
    old = next(iter(table.read(key=row[2])), None) if item.key else None
    if old is not None:
        given = replace(make_item((old.id, *row)), at=old.at)
        if old.state is not InboxState.WAITING or given == old:
            return old
        table.remove(old.id)
    return make_item((table.insert(row), *row))


def _make_row(item: InboxItem) -> tuple[object, ...]:
    texts = (item.kind.value, item.key, item.title, item.why, item.name)
    origin = (item.origin.who, item.origin.why, item.origin.session)
    try:
        # As ASCII: what is no valid text, such as half a surrogate pair, comes back as it was.
        payload = json.dumps(dict(item.payload), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FormatError(f"an inbox item's payload must be JSON: {error}", field="payload") from None
    clean = (replace_surrogates(text) for text in (*texts, *origin))
    return item.at.isoformat(), *clean, payload, InboxState.WAITING.value, None, ""


def make_item(row: Sequence[Any]) -> InboxItem:
    id, at, kind, key, title, why, name, who, reason, session, payload, state, decided, note = row
    loaded = json.loads(payload)
    origin, table = Origin(who, reason, session), loaded if isinstance(loaded, dict) else {}
    decision = None if decided is None else datetime.fromisoformat(decided)
    added, form, stage = datetime.fromisoformat(at), InboxKind(kind), InboxState(state)
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
    return tuple(_parse_edit(at) for at in value)


def find_payload_edits(payload: Mapping[str, object]) -> tuple[Edit, ...]:
    return parse_edits(payload.get("edits") or ())


def render_evidence(quotes: Iterable[InboxQuote]) -> list[dict[str, object]]:
    return [{"quote": at.quote, "source": at.source, "message": at.message} for at in quotes]


def find_evidence(payload: Mapping[str, object]) -> tuple[InboxQuote, ...]:
    """The evidence of a payload; what is no quote is left out."""
    found = payload.get("evidence")
    rows = found if isinstance(found, list) else [found]
    tables = [{"quote": at} if isinstance(at, str) else at for at in rows if isinstance(at, str | Mapping)]
    parts = [[table.get(key) for key in ("quote", "source", "message")] for table in tables]
    quotes = (InboxQuote(*(at if isinstance(at, str) else "" for at in row)) for row in parts)
    return tuple(at for at in quotes if at.quote)


def mask_payload(value: object, payload: Mapping[str, object]) -> object:
    """The value, a text or any JSON, without the secrets the payload names."""
    listed = payload.get("secrets")
    secrets = [at for at in listed if isinstance(at, str) and at] if isinstance(listed, list) else []
    secrets.sort(key=len, reverse=True)

    def mask(value: object) -> object:
        if isinstance(value, str):
            for secret in secrets:
                value = value.replace(secret, MASK)
            return value
        if isinstance(value, Mapping):
            return {key: mask(at) for key, at in value.items()}
        return [mask(at) for at in value] if isinstance(value, list) else value

    return mask(value)


def mask_text(text: str, payload: Mapping[str, object]) -> str:
    return str(mask_payload(text, payload))


def _render_edit(edit: Edit) -> dict[str, object]:
    if isinstance(edit, records.Save):
        fields = {key: getattr(edit.draft, key) for key in ("title", "description", "body", "name", "pinned", "cues")}
        return {"edit": "save", "type": edit.draft.kind.value, **fields, "expect": edit.expect}
    word = next(word for word, (kind, _, _) in _EDITS.items() if isinstance(edit, kind))
    return {"edit": word, **{key: getattr(edit, key) for key in list_fields(edit)}}


def _parse_edit(value: object) -> Edit:
    if not isinstance(value, Mapping):
        raise _refusal("edit")
    if (row := _EDITS.get(str(value.get("edit")))) is not None:
        kind, needed, optional = row
        given = {key: found for key in optional if (found := _maybe(value, key)) is not None}
        edit: Edit = kind(**{key: _text(value, key) for key in needed}, **given)
        return edit
    if value.get("edit") != "save" or value.get("type") not in [kind.value for kind in Kind]:
        raise _refusal("edit")
    title, description, body = (_text(value, key) for key in ("title", "description", "body"))
    pinned = value.get("pinned")
    kept = pinned if isinstance(pinned, bool) else None
    listed = value.get("cues")
    cues = tuple(cue for cue in listed if isinstance(cue, str)) if isinstance(listed, list | tuple) else None
    draft = Draft(Kind(_text(value, "type")), title, description, body, _maybe(value, "name"), kept, cues)
    return records.Save(draft, _maybe(value, "expect"))


def _text(value: Mapping[str, object], field: str) -> str:
    found = value.get(field)
    if not isinstance(found, str):
        raise _refusal(field)
    return found


def _maybe(value: Mapping[str, object], field: str) -> str | None:
    return None if value.get(field) is None else _text(value, field)


def _refusal(field: str) -> FormatError:
    hint = "reject it; what made it can propose it anew"
    return FormatError("this item cannot be understood", field=field, hint=hint)
