"""The inbox: the one place where things wait for a person. A table beside the acts in `history.db`.

What waits cannot be derived from anything else, so it is kept with the history and as durably. An item is known by its
key: the same thing does not wait twice, and what a person has decided is not asked again. An item that is replaced by a
different one gets another number, so that nobody approves a text he has not seen.

It does not carry out what an item says; `deciding` does.
"""

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from memdir.drafts import make_slug
from memdir.errors import ConflictError, FormatError, NotFoundError
from memdir.frozen import replace
from memdir.records import InboxItem, InboxKind, InboxState, Origin
from memdir.text import fold, replace_surrogates

# The migration of `history` with which the inbox came.
SINCE = 4
MIGRATION = """
    CREATE TABLE inbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
        title TEXT NOT NULL, why TEXT NOT NULL, name TEXT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL,
        session TEXT NOT NULL, payload TEXT NOT NULL, state TEXT NOT NULL, decided TEXT, note TEXT NOT NULL
    );
    CREATE UNIQUE INDEX inbox_key ON inbox (key) WHERE key <> '';
    CREATE INDEX inbox_state ON inbox (state);
"""
_COLUMNS = "at, kind, key, title, why, name, who, reason, session, payload, state, decided, note"
# What a purge leaves of a decided item: that it was decided, not what it was.
_BLANK = "title = '', why = '', name = '', reason = '', payload = '{}', note = ''"


class Inbox(ABC):
    """What a store does for its inbox. Adding and deciding is on the disk when it returns, or raises."""

    clock: Callable[[], datetime]

    @abstractmethod
    def _using_inbox(self, *, write: bool) -> AbstractContextManager[sqlite3.Connection | None]:
        """The database the inbox lies in, None if there is none yet; for writing under the lock, in a transaction."""

    def inbox_add(self, items: Iterable[InboxItem]) -> tuple[InboxItem, ...]:
        """Let things wait; answers them as they now are, which for those already decided is decided."""
        given = tuple(items)
        if not given:
            return ()
        with self._using_inbox(write=True) as db:
            assert db is not None
            return tuple(_add(db, item) for item in given)

    def inbox_replace(self, prefix: str, items: Iterable[InboxItem]) -> tuple[InboxItem, ...]:
        """As `inbox_add`, after taking out what waits under keys that begin with `prefix` and is not given again."""
        given = tuple(items)
        if not prefix or any(not item.key.startswith(prefix) for item in given):
            raise FormatError("items that replace others need keys that begin as theirs do", field="key")
        with self._using_inbox(write=True) as db:
            assert db is not None
            keys = {item.key for item in given}
            for old in read_rows(db, "WHERE state = ? AND substr(key, 1, ?) = ?", ("waiting", len(prefix), prefix)):
                if old.key not in keys:
                    db.execute("DELETE FROM inbox WHERE id = ?", (old.id,))
            return tuple(_add(db, item) for item in given)

    def inbox(self, state: InboxState | str | None = InboxState.WAITING) -> tuple[InboxItem, ...]:
        """What is in this state, oldest first; None for everything."""
        with self._using_inbox(write=False) as db:
            if db is None:
                return ()
            if state is None:
                return tuple(read_rows(db, "ORDER BY id"))
            return tuple(read_rows(db, "WHERE state = ? ORDER BY id", (str(state),)))

    def inbox_item(self, id: int) -> InboxItem:
        with self._using_inbox(write=False) as db:
            found = None if db is None else next(read_rows(db, "WHERE id = ?", (id,)), None)
        if found is None:
            raise _not_found(id)
        return found

    def inbox_find(self, key: str) -> InboxItem | None:
        """The item with this key, waiting or decided."""
        with self._using_inbox(write=False) as db:
            return None if db is None or not key else next(read_rows(db, "WHERE key = ?", (key,)), None)

    def inbox_decide(
        self, id: int, state: InboxState | str, note: str = "", *, name: str = "", was: InboxState | None = None
    ) -> InboxItem:
        """Record what a person decided, and with `name` which memory came of it; `was` is the state he has seen."""
        with self._using_inbox(write=True) as db:
            assert db is not None
            old = next(read_rows(db, "WHERE id = ?", (id,)), None)
            if old is None:
                raise _not_found(id)
            if was is not None and old.state is not was:
                raise ConflictError(f"item {id} was {old.state.value} meanwhile", hint=f"`memdir inbox show {id}`")
            values = (InboxState(state).value, self.clock().isoformat(), replace_surrogates(note), name or old.name)
            db.execute("UPDATE inbox SET state = ?, decided = ?, note = ?, name = ? WHERE id = ?", (*values, id))
            return next(read_rows(db, "WHERE id = ?", (id,)))


def read_rows(db: sqlite3.Connection, where: str, values: tuple[object, ...] = ()) -> Iterator[InboxItem]:
    return map(_make_item, db.execute(f"SELECT id, {_COLUMNS} FROM inbox {where}", values).fetchall())


def make_mark(item: InboxItem) -> str:
    """The mark of the act by which an item is carried out."""
    return f"inbox:{item.id}"


def has_about(db: sqlite3.Connection, name: str) -> bool:
    return any(is_about(item, name) for item in read_rows(db, ""))


def drop_rows(db: sqlite3.Connection, name: str, marks: Sequence[str] = ()) -> None:
    """Take out what waits about one memory, and the text of what was decided about it; `marks` are its acts'.

    Of a decided item the key stays, so that the same thing is not asked again, unless the key speaks the name.
    """
    for item in list(read_rows(db, "")):
        if not (is_about(item, name) or make_mark(item) in marks):
            continue
        if item.state is InboxState.WAITING or fold(name) in fold(item.key):
            db.execute("DELETE FROM inbox WHERE id = ?", (item.id,))
        else:
            db.execute(f"UPDATE inbox SET {_BLANK} WHERE id = ?", (item.id,))


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
        for inner in value.values():
            yield from _find_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_names(inner)


def _not_found(id: int) -> NotFoundError:
    return NotFoundError(f"no item {id} in the inbox", name=str(id), hint="`memdir inbox` lists what waits")


def _add(db: sqlite3.Connection, item: InboxItem) -> InboxItem:
    """One item, unless it is there: decided it stays decided, waiting it stays as it is or gives way to another."""
    row = _make_row(item)
    old = next(read_rows(db, "WHERE key = ?", (row[2],)), None) if item.key else None
    if old is not None:
        given = replace(_make_item((old.id, *row)), at=old.at)
        if old.state is not InboxState.WAITING or given == old:
            return old
        db.execute("DELETE FROM inbox WHERE id = ?", (old.id,))
    insert = f"INSERT INTO inbox ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})"
    return _make_item((db.execute(insert, row).lastrowid, *row))


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


def _make_item(row: Sequence[object]) -> InboxItem:
    id, at, kind, key, title, why, name, who, reason, session, payload, state, decided, note = row
    loaded = json.loads(str(payload))
    return InboxItem(
        kind=InboxKind(str(kind)),
        title=str(title),
        why=str(why),
        at=datetime.fromisoformat(str(at)),
        key=str(key),
        name=str(name),
        origin=Origin(str(who), str(reason), str(session)),
        payload=loaded if isinstance(loaded, dict) else {},
        id=int(str(id)),
        state=InboxState(str(state)),
        decided=None if decided is None else datetime.fromisoformat(str(decided)),
        note=str(note),
    )
