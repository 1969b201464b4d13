"""From which moment a memory's age counts: the latest of a change of its words, its last verification, and a touch.

A change is dated by what knows best: history; else the file's own `modified`; else, for what a team shares, the commit;
else the file's time of change. Bytes that a sync or an import brought are as old as the file or the commit says, not as
the day they came. A moment to come counts as now. `store.dating` says how a touch is told from a checkout.

For the few memories that are shown, not for a whole directory: each takes a look into `history.db`. Ranking goes by
what the derived index knows of a file, which is nearly the same and needs no history.
"""

from collections.abc import Sequence
from datetime import datetime

from memdir.age import HalfLives, count_from
from memdir.errors import MemdirError
from memdir.frontmatter import parse_fields
from memdir.records import Kind, Memory, Scope
from memdir.settings import Settings
from memdir.store.contract import Store, read_time
from memdir.store.dating import Dated
from memdir.store.files import FileStore


def find_since(store: Store, memory: Memory, *, now: datetime) -> datetime:
    """The moment from which this memory's age counts."""
    return find_ages(store, (memory,), now=now)[memory.header.name]


def find_ages(store: Store, memories: Sequence[Memory], *, now: datetime) -> dict[str, datetime]:
    """By name, the moment from which each memory's age counts; one look into history for all."""
    dates = _find_dates(store, memories)
    return {at.header.name: _find_latest(store, at, dated, now) for at, dated in zip(memories, dates, strict=True)}


def read_half_lives(settings: Settings) -> HalfLives:
    """How fast each type ages, in days, by the person's settings."""
    return {kind: settings.number(f"half_life.{kind}") for kind in Kind}


def _find_dates(store: Store, memories: Sequence[Memory]) -> Sequence[Dated]:
    if isinstance(store, FileStore):
        try:
            return store.find_dates(memories)
        except MemdirError:  # a damaged history costs no memory
            pass
    return [Dated() for _ in memories]


def _find_latest(store: Store, memory: Memory, dated: Dated, now: datetime) -> datetime:
    fields = parse_fields(memory.text)
    changed = _find_changed(store, memory, dated, read_time(fields.modified))
    return count_from((changed, read_time(fields.verified), dated.touched), now) or memory.header.modified


def _find_changed(store: Store, memory: Memory, dated: Dated, said: datetime | None) -> datetime | None:
    if dated.changed is not None and not dated.brought:
        return dated.changed
    if dated.is_known and dated.changed is None:
        # Somebody has changed it since history last looked; what the file says of itself may be older than that.
        return memory.header.modified if said is None else max(said, _read_mtime(memory))
    return said or _find_commit(store, memory) or dated.changed or dated.since or memory.header.modified


def _find_commit(store: Store, memory: Memory) -> datetime | None:
    """When the last author of a shared memory committed it."""
    if memory.header.scope is not Scope.TEAM or not isinstance(store, FileStore):
        return None
    # Imported here: few recalls bring what a team shares.
    from memdir.authors import read_authors

    author = read_authors(store.state).get(memory.header.name)
    return author.when if author is not None else None


def _read_mtime(memory: Memory) -> datetime:
    return datetime.fromtimestamp(memory.header.signature.mtime_ns / 1e9, memory.header.modified.tzinfo)
