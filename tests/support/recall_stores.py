"""For tests of recall: a selector that counts common words, and stores filled with short memories."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

from memdir.records import Draft, Evidence, Header, Kind, Pick, Query
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore

NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
AnyStore = TypeVar("AnyStore", FileStore, MemoryStore)


def overlap(query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
    """The headers that share the most words with the query, in name and description; none that share none."""
    words = set(query.text.lower().split())
    scored = []
    for header in headers:
        common = words & set(f"{header.name.replace('-', ' ')} {header.description}".lower().split())
        if common:
            scored.append(Pick(header, float(len(common)), Evidence(len(common), 0, 0, tuple(sorted(common)))))
    return sorted(scored, key=lambda pick: (-pick.score, pick.header.name))[:limit]


def put(store: AnyStore, name: str, description: str = "", *, body: str = "", kind: Kind = Kind.FEEDBACK) -> AnyStore:
    """Save one short memory."""
    words = description or f"what is known of {name.replace('-', ' ')} so far"
    store.write(Draft(kind, name.replace("-", " ").title(), words, body or f"All about {name}.", name))
    return store
