"""The ledger of recalls: which memory was put before a reader, when, for which query, in which conversation.

A table beside the acts in `history.db`, so that it is backed up, moved and purged with them. It is bounded, and nothing
depends on it: a row that could not be written is not missed.
"""

import re
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from memdir.limits import LEDGER_QUERY_CHARS, LEDGER_ROWS
from memdir.records import Surfacing
from memdir.text import fold_link, replace_surrogates

# The migration of `history` with which the ledger came.
SINCE = 2
MIGRATION = """
    CREATE TABLE recalls (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, name TEXT NOT NULL, query TEXT NOT NULL,
        session TEXT NOT NULL, selector TEXT NOT NULL, score REAL NOT NULL
    );
    CREATE INDEX recalls_name ON recalls (name);
"""


def add_rows(db: sqlite3.Connection, recalls: Sequence[Surfacing]) -> None:
    """Add rows; the oldest go when there are too many."""
    insert = "INSERT INTO recalls (at, name, query, session, selector, score) VALUES (?, ?, ?, ?, ?, ?)"
    db.executemany(insert, [_make_row(recall) for recall in recalls])
    db.execute("DELETE FROM recalls WHERE id <= (SELECT max(id) FROM recalls) - ?", (LEDGER_ROWS,))


def read_rows(db: sqlite3.Connection, name: str | None, limit: int) -> tuple[Surfacing, ...]:
    """Rows of one memory, or of all; newest first."""
    where, values = ("", (limit,)) if name is None else ("WHERE name = ?", (name, limit))
    select = f"SELECT name, at, query, session, selector, score FROM recalls {where} ORDER BY id DESC LIMIT ?"
    rows = db.execute(select, values).fetchall()
    return tuple(Surfacing(row[0], datetime.fromisoformat(row[1]), *row[2:]) for row in rows)


def count_rows(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT name, count(*) FROM recalls GROUP BY name").fetchall())


def drop_rows(db: sqlite3.Connection, name: str) -> None:
    """Rows of one memory go; queries that led to it, or that speak its name, go from the rows of others."""
    queries = {row[0] for row in db.execute("SELECT query FROM recalls WHERE name = ?", (name,))}
    db.execute("DELETE FROM recalls WHERE name = ?", (name,))
    spoken = f"-{_fold_words(name.rpartition('/')[2])}-"
    for (query,) in db.execute("SELECT DISTINCT query FROM recalls").fetchall():
        if query in queries or spoken in f"-{_fold_words(query)}-":
            db.execute("UPDATE recalls SET query = '' WHERE query = ?", (query,))


def _make_row(recall: Surfacing) -> tuple[object, ...]:
    query, session = replace_surrogates(recall.query[:LEDGER_QUERY_CHARS]), replace_surrogates(recall.session)
    return recall.at.isoformat(), replace_surrogates(recall.name), query, session, recall.selector, recall.score


def _fold_words(text: str) -> str:
    return re.sub(r"[\W_]+", "-", fold_link(text))
