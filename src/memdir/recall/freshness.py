"""How far a shown memory can be trusted: since when its words hold, and what verification found out of date in it.

A change is dated by what knows best: history; else the file's own `modified`; else, for what a team shares, the commit;
else the file's time of change. Bytes that a sync or an import brought are as old as the file or the commit says. A
moment in the future counts as now. `store.history` tells a touch from a checkout.

Both are for the few memories that are shown: each takes a look into `history.db`. Ranking uses what the derived index
has of a file, which is nearly the same. For caveats no project is read and no git runs: the kept verdicts are used,
each only for the text it was reached on.
"""

import sqlite3
from collections.abc import Sequence
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

_BUSY_SECONDS = 0.05  # a busy index is not worth waiting for


def find_since(store: Store, memory: Memory, *, now: datetime) -> datetime:
    """Return the moment from which this memory's age counts."""
    return find_ages(store, (memory,), now=now)[memory.header.name]


def find_ages(store: Store, memories: Sequence[Memory], *, now: datetime) -> dict[str, datetime]:
    """Return by name the moment from which each memory's age counts: its last change, verification or touch."""
    dates: Sequence[ChangeDate] = [ChangeDate() for _ in memories]
    if isinstance(store, FileStore):
        try:
            dates = store.find_dates(memories)
        except MemdirError:  # a damaged history costs no memory
            pass
    ages = {}
    for memory, dated in zip(memories, dates, strict=True):
        fields = parse_fields(memory.text)
        changed = _find_changed(store, memory, dated, read_time(fields.modified))
        moments = (changed, read_time(fields.verified), dated.touched)
        ages[memory.header.name] = count_from(moments, now) or memory.header.modified
    return ages


def read_half_lives(settings: Settings) -> HalfLives:
    """Return how fast each type ages, in days, by the person's settings."""
    return {kind: settings.number(f"half_life.{kind}") for kind in Kind}


def find_caveats(store: Store, memories: Sequence[Memory]) -> dict[str, str]:
    """Return by name what the last verification found out of date; nothing for memories that are sound or unverified."""
    digests = {memory.header.name: memory.digest for memory in memories}
    if not isinstance(store, FileStore):
        return {}
    path = files.find_header_cache(store.root, store.state, store.cache, write=False)
    marks = ",".join("?" * len(digests))
    select = f"SELECT 1 FROM verdicts WHERE name IN ({marks}) AND state IN ('stale', 'partly') LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as db:
            if db.execute(select, list(digests)).fetchone() is None:
                return {}
    except sqlite3.Error:  # no index, no verdicts in it, or another process is writing them
        return {}
    # Imported here: most recalls return nothing that is out of date.
    from memdir.verify.records import find_verdicts, render_caveat

    return {name: text for name, at in find_verdicts(store, digests).items() if (text := render_caveat(at))}


def _find_changed(store: Store, memory: Memory, dated: ChangeDate, said: datetime | None) -> datetime | None:
    header = memory.header
    if dated.changed is not None and not dated.brought:
        return dated.changed
    if dated.is_known and dated.changed is None:
        # It was changed since history last looked; what the file says of itself may be older than that.
        mtime = datetime.fromtimestamp(header.signature.mtime_ns / 1e9, header.modified.tzinfo)
        return header.modified if said is None else max(said, mtime)
    if said is None and header.scope is Scope.TEAM and isinstance(store, FileStore):
        # Imported here: few recalls return what a team shares.
        from memdir.store.state import read_authors

        author = read_authors(store.state).get(header.name)
        said = author.when if author is not None else None
    return said or dated.changed or dated.since or header.modified
