"""Freshness."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime

from memdir.errors import MemdirError
from memdir.format.age import HalfLives, count_from
from memdir.format.frontmatter import parse_fields
from memdir.project.settings import Settings
from memdir.records import Kind, Memory, Scope
from memdir.store import files
from memdir.store.contract import Store, read_time
from memdir.store.files import FileStore
from memdir.store.history import ChangeDate

# --- aging ---
# From which moment a memory's age counts: the latest of a change of its words, its last verification, and a touch.
#
# A change is dated by what knows best: history; else the file's own `modified`; else, for what a team shares, the
# commit;
# else the file's time of change. Bytes that a sync or an import brought are as old as the file or the commit says, not
#  as
# the day they came. A moment to come counts as now. `store.dating` says how a touch is told from a checkout.
#
# For the few memories that are shown, not for a whole directory: each takes a look into `history.db`. Ranking goes by
# what the derived index knows of a file, which is nearly the same and needs no history.


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


def _find_dates(store: Store, memories: Sequence[Memory]) -> Sequence[ChangeDate]:
    if isinstance(store, FileStore):
        try:
            return store.find_dates(memories)
        except MemdirError:  # a damaged history costs no memory
            pass
    return [ChangeDate() for _ in memories]


def _find_latest(store: Store, memory: Memory, dated: ChangeDate, now: datetime) -> datetime:
    fields = parse_fields(memory.text)
    changed = _find_changed(store, memory, dated, read_time(fields.modified))
    return count_from((changed, read_time(fields.verified), dated.touched), now) or memory.header.modified


def _find_changed(store: Store, memory: Memory, dated: ChangeDate, said: datetime | None) -> datetime | None:
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
    from memdir.store.state import read_authors

    author = read_authors(store.state).get(memory.header.name)
    return author.when if author is not None else None


def _read_mtime(memory: Memory) -> datetime:
    return datetime.fromtimestamp(memory.header.signature.mtime_ns / 1e9, memory.header.modified.tzinfo)


# --- caveats ---
# What in a memory is out of date, for the few that are shown: the verdicts that `verify` has kept, in a sentence.
#
# No project is looked at, no git runs, nothing is waited for. A verdict holds for one text: of a memory that has
# changed
# since nothing is said. Who brings verdicts up to date works in the background (refreshing).

_SECONDS = 0.05  # a busy index is not worth waiting for


def find_caveats(store: Store, memories: Sequence[Memory]) -> dict[str, str]:
    """By name, what the last verification found to be out of date; nothing of those it found sound or never saw."""
    digests = {memory.header.name: memory.digest for memory in memories}
    if not isinstance(store, FileStore) or not _has_doubts(store, digests):
        return {}
    # Imported here: most recalls bring nothing that is in doubt, and have no time for it.
    from memdir.verify.records import find_verdicts, render_caveat

    verdicts = find_verdicts(store, digests)
    return {name: text for name, at in verdicts.items() if (text := render_caveat(at))}


def _has_doubts(store: FileStore, digests: Mapping[str, str]) -> bool:
    """A quick look whether any of them was found wanting."""
    path = files.find_header_cache(store.root, store.state, store.cache, write=False)
    marks = ",".join("?" * len(digests))
    select = f"SELECT 1 FROM verdicts WHERE name IN ({marks}) AND state IN ('stale', 'partly') LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_SECONDS)) as db:
            return db.execute(select, list(digests)).fetchone() is not None
    except sqlite3.Error:  # no index, no verdicts in it, or somebody is writing them
        return False
