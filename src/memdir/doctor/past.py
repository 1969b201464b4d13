"""What is wrong with what a directory keeps: its history, whether that is in step with the files, and the dream's lock.

An edit by somebody else's editor is nothing wrong: listing records it. What is told is an edit that could not be
recorded, because then `undo` and `restore` know less than they should.
"""

from collections.abc import Iterator, Sequence

from memdir.doctor.findings import Finding
from memdir.dream_lock import FILE as DREAM_LOCK
from memdir.dream_lock import find_holder
from memdir.errors import MemdirError
from memdir.records import Memory
from memdir.store.files import FileStore
from memdir.store.plan import is_index

FIX = "`memdir doctor --fix` records it"


def check_history(store: FileStore) -> Iterator[Finding]:
    try:
        store.acts(limit=1)
    except MemdirError as error:
        yield Finding("history", str(store.state), str(error), error.hint or "move history.db away")


def check_step(store: FileStore, memories: Sequence[Memory]) -> Iterator[Finding]:
    """Memories that are not what history last saw of them, after it has had the chance to look."""
    try:
        recorded = store.recorded()
    except MemdirError:
        return  # told already
    found = {memory.header.file: memory.digest for memory in memories}
    for path, digest in recorded.items():
        if path in found and found[path] != digest:
            message = "it was changed by somebody else, and history has not seen it"
            yield Finding("out_of_step", path, message, FIX, fixable=True)
        elif path not in found and not is_index(path) and not (store.root / path).exists():
            message = "it was deleted by somebody else, and history has not seen it"
            yield Finding("out_of_step", path, message, FIX, fixable=True)


def check_dream(store: FileStore) -> Iterator[Finding]:
    holder = find_holder(store.root, now=store.clock())
    if holder is not None and holder.is_late:
        since = f"{holder.since.astimezone():%Y-%m-%d %H:%M}"
        message = f"process {holder.pid} dreams since {since}, and nobody else can meanwhile"
        yield Finding("dream_lock", DREAM_LOCK, message, "look what it does; the lock ends with its process")
