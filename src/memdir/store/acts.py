"""The recorded acts as records: which, in what order, with their changes, and which of them were taken back.

Functions on an open `history.db` or on acts that were read; they never write.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime

from memdir.records import Act, Change, Origin

# The migration of `history` with which acts came to have marks.
MARKS_SINCE = 3


def read_acts(db: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Iterator[Act]:
    undone = find_undone(db)
    rows = db.execute(f"SELECT id, at, verb, who, why, session, undoes FROM acts {where}", values)
    for act, at, verb, who, why, session, undoes in rows:
        changes = read_changes(db, act)
        when = datetime.fromisoformat(at)
        yield Act(act, when, verb, Origin(who, why, session), changes, undoes, undone.get(act))


def find_undone(db: sqlite3.Connection) -> dict[int, int]:
    """Act to the undo that took it back; an undo that was itself undone does not count."""
    select = "SELECT id, undoes FROM acts WHERE undoes IS NOT NULL AND NOT pending ORDER BY id"
    latest: dict[int, int] = {target: undo for undo, target in db.execute(select)}
    undone: dict[int, int] = {}
    for target in sorted(latest, reverse=True):
        if latest[target] not in undone:
            undone[target] = latest[target]
    return undone


def find_moved(acts: Iterable[Act], name: str) -> set[str]:
    """Names from or to which a memory was moved in these acts: the same bytes left one path and came to the other."""
    path, found = f"{name}.md", set()
    for act in acts:
        left = {at.before: at.path for at in act.changes if at.after is None}
        came = {at.after: at.path for at in act.changes if at.before is None}
        pairs = ((left[digest], came[digest]) for digest in left.keys() & came.keys() if digest is not None)
        found |= {other.removesuffix(".md") for pair in pairs if path in pair for other in pair if other != path}
    return found


def read_changes(db: sqlite3.Connection, act: int) -> tuple[Change, ...]:
    select = "SELECT path, before, after, splice_at, removed, inserted FROM changes WHERE act = ? ORDER BY seq"
    return tuple(
        Change(path, before, after, None if removed is None or inserted is None else (at, removed, inserted))
        for path, before, after, at, removed, inserted in db.execute(select, (act,)).fetchall()
    )


def find_marked(db: sqlite3.Connection, mark: str) -> int | None:
    """The act that was recorded with this mark and has happened."""
    select = "SELECT id FROM acts WHERE mark = ? AND mark <> '' AND NOT pending ORDER BY id LIMIT 1"
    row = db.execute(select, (mark,)).fetchone()
    return None if row is None else int(row[0])


def find_marks(db: sqlite3.Connection, path: str) -> tuple[str, ...]:
    """The marks of all acts that changed one file."""
    select = "SELECT DISTINCT mark FROM acts JOIN changes ON act = id WHERE path = ? AND mark <> ''"
    return tuple(row[0] for row in db.execute(select, (path,)))
