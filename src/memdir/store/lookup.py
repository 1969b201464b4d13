"""What a person or a draft means in a store: the memory of a name or title, and what a save would meet.

Nothing is locked or written, so a result can be out of date the moment it is returned; `write` with `expect` decides.
"""

from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches

from memdir.errors import ConflictError, NotFoundError
from memdir.format.drafts import make_slug
from memdir.guard import check_name
from memdir.records import Draft, Header, Memory
from memdir.store.files import FileStore
from memdir.store.plan import decode, find_write_target, plan_write
from memdir.text import fold, fold_link, one_line, shorten


def find_header(headers: Sequence[Header], text: str) -> Header:
    """The memory that a name, a path or a title means; NotFoundError names similar ones, or all it could be."""
    wanted = text.strip().removeprefix("./").removesuffix(".md")
    for same in (lambda at: at.name == wanted, lambda at: fold(at.name) == fold(wanted)):
        if exact := next((header for header in headers if same(header)), None):
            return exact
    matches = [header for header in headers if fold_link(header.title) == fold_link(wanted)]
    matches = matches or [
        header for header in headers if fold_link(header.name.rpartition("/")[2]) == fold_link(wanted)
    ]
    if len(matches) == 1:
        return matches[0]
    shown = shorten(one_line(text), 60)
    if matches:
        names = ", ".join(header.name for header in matches[:5])
        raise NotFoundError(f"{shown!r} could be any of {names}", name=text, hint="say the name")
    near = get_close_matches(fold(wanted), [fold(header.name) for header in headers], n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "`memdir list` shows what there is"
    raise NotFoundError(f"no memory named {shown!r}", name=text, hint=hint)


def find_existing(store: FileStore, draft: Draft) -> Memory | None:
    """The memory a draft would land on; None where it would make a new one."""
    name, found = find_write_target(store, draft)
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
