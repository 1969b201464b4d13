"""What in a memory is out of date, for the few that are shown: the verdicts that `verify` has kept, in a sentence.

No project is looked at, no git runs, nothing is waited for. A verdict holds for one text: of a memory that has changed
since nothing is said. Who brings verdicts up to date works in the background (refreshing).
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing

from memdir.records import Memory
from memdir.store import headers
from memdir.store.contract import Store
from memdir.store.files import FileStore

_SECONDS = 0.05  # a busy index is not worth waiting for


def find_caveats(store: Store, memories: Sequence[Memory]) -> dict[str, str]:
    """By name, what the last verification found to be out of date; nothing of those it found sound or never saw."""
    digests = {memory.header.name: memory.digest for memory in memories}
    if not isinstance(store, FileStore) or not _has_doubts(store, digests):
        return {}
    # Imported here: most recalls bring nothing that is in doubt, and have no time for it.
    from memdir.verify.cached import find_verdicts, render_caveat

    verdicts = find_verdicts(store, digests)
    return {name: text for name, at in verdicts.items() if (text := render_caveat(at))}


def _has_doubts(store: FileStore, digests: Mapping[str, str]) -> bool:
    """A quick look whether any of them was found wanting."""
    path = headers.find_place(store.root, store.state, store.cache, write=False)
    marks = ",".join("?" * len(digests))
    select = f"SELECT 1 FROM verdicts WHERE name IN ({marks}) AND state IN ('stale', 'partly') LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_SECONDS)) as db:
            return db.execute(select, list(digests)).fetchone() is not None
    except sqlite3.Error:  # no index, no verdicts in it, or somebody is writing them
        return False
