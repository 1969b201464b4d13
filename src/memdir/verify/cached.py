"""Verdicts as they were last reached, kept in the derived index: one SQLite read, no git process, no look at a project.

For recall, status and doctor:

    find_verdict(store, name, digest)     of one memory, if its text is still the one that was verified
    find_verdicts(store, {name: digest})  of several, in one read
    read_verdicts(store)                  of all, whatever their digests
    render_caveat(verdict)                what a reader must be told; empty if nothing is stale (from `records`)

They lie in `index.db`, which may be deleted at any time (`forget --purge` does) and then knows nothing until the next
`verify` or `refresh`. Whatever is wrong with it, the answer is "nothing known".
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from memdir.frozen import dataclass
from memdir.records import Signature
from memdir.store import headers
from memdir.store.files import FileStore
from memdir.verify.records import Checked, Claim, ClaimKind, State, Status, Verdict, render_caveat

__all__ = ["Known", "find_verdict", "find_verdicts", "read_known", "read_verdicts", "render_caveat", "write_verdicts"]

_SCHEMA = "1"  # how rows are written; rows of another kind count as none
_COLUMNS = "name, kind, digest, state, checked, tree, claims, signature"
_TABLE = f"CREATE TABLE IF NOT EXISTS verdicts ({_COLUMNS.replace('name', 'name TEXT PRIMARY KEY')})"
_MANY = 400  # values in one IN (…)
_BUSY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """A verdict and the state of the project it was reached on: commit, work tree, what else its claims look at.

    `signature` is that of the memory's file: while it is the same, the text need not be read to know that it is.
    """

    verdict: Verdict
    tree: str
    signature: str = ""


def find_verdict(store: FileStore, name: str, digest: str) -> Verdict | None:
    return find_verdicts(store, {name: digest}).get(name)


def find_verdicts(store: FileStore, digests: Mapping[str, str]) -> dict[str, Verdict]:
    """Verdicts on the texts with these digests; a memory that has changed since has none."""
    known = _read(store, list(digests))
    return {name: at.verdict for name, at in known.items() if at.verdict.digest == digests[name]}


def read_verdicts(store: FileStore) -> dict[str, Verdict]:
    return {name: at.verdict for name, at in read_known(store).items()}


def read_known(store: FileStore) -> dict[str, Known]:
    return _read(store, None)


def write_verdicts(store: FileStore, known: Iterable[Known], gone: Iterable[str] = ()) -> bool:
    """Keep verdicts, and drop those of memories that are no more. A busy or broken index keeps none: it is a cache."""
    path = store.find_index_file()
    if path is None:
        return False
    try:
        with closing(headers.open_index(path, _BUSY_SECONDS)) as db:
            db.execute("BEGIN IMMEDIATE")
            with db:
                _make_table(db)
                db.executemany("DELETE FROM verdicts WHERE name = ?", [(name,) for name in gone])
                insert = f"INSERT OR REPLACE INTO verdicts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                db.executemany(insert, [_make_row(at) for at in known])
    except (sqlite3.Error, OSError):
        return False
    return True


def render_signature(at: Signature) -> str:
    return f"{at.inode} {at.size} {at.mtime_ns} {at.ctime_ns}"


def _make_table(db: sqlite3.Connection) -> None:
    """The table, or the one column that earlier versions did not have."""
    db.execute(_TABLE)
    if not db.execute("SELECT 1 FROM pragma_table_info('verdicts') WHERE name = 'signature'").fetchone():
        db.execute("ALTER TABLE verdicts ADD COLUMN signature")


def _read(store: FileStore, names: list[str] | None) -> dict[str, Known]:
    path = headers.find_place(store.root, store.state, store.cache, write=False)
    try:
        with closing(sqlite3.connect(_make_uri(path), uri=True, timeout=_BUSY_SECONDS)) as db:
            rows = list(_select(db, names))
    except (sqlite3.Error, ValueError):
        return {}
    found = (_read_row(row) for row in rows)
    return {at.verdict.name: at for at in found if at is not None}


def _make_uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"


def _select(db: sqlite3.Connection, names: list[str] | None) -> Iterable[tuple[object, ...]]:
    columns = f"SELECT {_COLUMNS} FROM verdicts"
    if names is None:
        yield from db.execute(columns)
        return
    for start in range(0, len(names), _MANY):
        some = names[start : start + _MANY]
        yield from db.execute(f"{columns} WHERE name IN ({','.join('?' * len(some))})", some)


def _make_row(known: Known) -> tuple[str, ...]:
    at = known.verdict
    claims = [
        [
            one.claim.kind.value, one.claim.text, one.claim.line, one.claim.column, one.claim.start, one.claim.end,
            one.claim.extra, one.claim.reason, one.claim.is_weak,
            one.status.value, one.where, one.to, one.commit, one.came, one.note,
        ]
        for one in at.claims
    ]  # fmt: skip
    said = json.dumps(claims, ensure_ascii=True)
    return at.name, _SCHEMA, at.digest, at.state.value, at.checked.isoformat(), known.tree, said, known.signature


def _read_row(row: tuple[object, ...]) -> Known | None:
    name, kind, digest, state, checked, tree, claims, signature = row
    if kind != _SCHEMA:
        return None
    try:
        made = tuple(_read_claim(*one) for one in json.loads(str(claims)))
        moment = datetime.fromisoformat(str(checked))
        return Known(Verdict(str(name), str(digest), State(str(state)), moment, made), str(tree), str(signature or ""))
    except (ValueError, TypeError):
        return None


def _read_claim(
    kind: str, text: str, line: int, column: int, start: int, end: int, extra: str, reason: str, is_weak: bool,
    status: str, where: str, to: str, commit: str, came: str, note: str,
) -> Checked:  # fmt: skip
    claim = Claim(ClaimKind(kind), text, line, column, start, end, extra, reason, is_weak)
    return Checked(claim, Status(status), where, to, commit, came, note)
