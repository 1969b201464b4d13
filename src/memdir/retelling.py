"""What a conversation had of its memories, told again after the host has shortened it.

Compaction takes the words of recalled memories out of the conversation, and the record of it begins anew. The memories
that mattered before will mostly go on to matter, so they are read once more, as they are now.
"""

from collections.abc import Sequence

from memdir.errors import MemdirError
from memdir.frozen import replace
from memdir.recall import make_excerpt
from memdir.records import Excerpt
from memdir.session import Record, Seen, SessionFile, make_key
from memdir.store.files import FileStore


def read_again(stores: Sequence[FileStore], session: SessionFile, before: Record) -> tuple[Excerpt, ...]:
    """The memories that a record says were surfaced, in that order; those that are gone are left out."""
    found: dict[str, Excerpt] = {}
    for store in stores:
        for key, name in _list_names(store, session, before):
            try:
                memory = store.read(name)
            except MemdirError:
                continue
            found[key] = make_excerpt(memory, path=str(store.root / memory.header.file))
    return tuple(found[key] for key in before.surfaced if key in found)


def account_again(stores: Sequence[FileStore], session: SessionFile, told: Sequence[Excerpt]) -> None:
    """These are in the conversation again."""
    if not told:
        return
    roots = {str(store.root / at.header.file): store for store in stores for at in told}
    seen = {_make_key(session, roots[at.path], at.header.name): Seen(at.digest, at.size) for at in told}
    session.change(lambda record: replace(record, surfaced={**record.surfaced, **seen}))


def _list_names(store: FileStore, session: SessionFile, before: Record) -> list[tuple[str, str]]:
    if store.state == session.state:
        return [(key, key) for key in before.surfaced if not key.startswith("#")]
    if not any(key.startswith("#") for key in before.surfaced):
        return []
    keys = ((_make_key(session, store, header.name), header.name) for header in store.scan())
    return [(key, name) for key, name in keys if key in before.surfaced]


def _make_key(session: SessionFile, store: FileStore, name: str) -> str:
    return make_key(session, name, state=store.state, place=str(store.root))
