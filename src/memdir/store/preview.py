"""What a save would meet and what it would make of it, looked at without a lock and without writing.

An answer can be out of date the moment it is given; `write` with `expect` decides.
"""

from datetime import datetime

from memdir.drafts import make_slug
from memdir.errors import ConflictError
from memdir.guard import check_name
from memdir.records import Draft, Memory
from memdir.store.files import FileStore
from memdir.store.plan import decode, find_target, plan_write
from memdir.text import fold


def find_existing(store: FileStore, draft: Draft) -> Memory | None:
    """The memory a draft would land on; None where it would make a new one."""
    name, found = find_target(store, draft)
    return None if found is None else store.read(name)


def preview_text(store: FileStore, draft: Draft, memory: Memory, now: datetime) -> str:
    """The text of a memory after the draft has replaced it."""
    path = memory.header.file
    _, changes = plan_write(store, draft, memory.digest, now, store.rules)
    return next((decode(at.after) for at in changes if at.path == path and at.after is not None), memory.text)


def find_free_name(store: FileStore, draft: Draft) -> str:
    """A name for the draft that nothing has yet: its own, else with the next number behind it."""
    *folders, leaf = check_name(draft.name if draft.name is not None else make_slug(draft.title))
    taken = {fold(name.removesuffix(".md")) for name in store.list_files("/".join(folders))}
    for number in range(1, 1000):
        free = leaf if number == 1 else f"{leaf[:90]}-{number}"
        if fold(free) not in taken:
            return "/".join([*folders, free])
    raise ConflictError("a thousand memories have this name", hint="give it a name of its own with --name")
