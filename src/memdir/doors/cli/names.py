"""What a person typed, as one memory of one store. The project's own memory comes first; `--scope` narrows."""

import os
from collections.abc import Iterable
from difflib import get_close_matches

from memdir.doors.cli.call import choose_store
from memdir.errors import DiskError, LockedError, NotFoundError
from memdir.opening import Opened
from memdir.records import Header, Scope
from memdir.store.files import FileStore
from memdir.store.lookup import find_header
from memdir.store.plan import TEAM_FOLDER
from memdir.store.shared import is_team
from memdir.text import fold

# How long a verb that only looks waits to record outside edits before it goes on without.
_NOTICE_SECONDS = 1.0
# Whether a scope means what the team shares of the project's memory, or the rest of it; others mean all of theirs.
_SHARED: dict[str | None, bool] = {Scope.PRIVATE.value: False, Scope.TEAM.value: True}


def find_memory(opened: Opened, text: str, scope: str | None = None) -> tuple[FileStore, Header]:
    """The memory meant by a name, an unambiguous title or a path; raises NotFoundError."""
    stores = opened.stores if scope is None else (choose_store(opened, scope),)
    for store in stores:
        if inside := _find_inside(store, text):
            return store, find_header(store.scan(), inside)
    headers: list[Header] = []
    for store in stores:
        own = {fold(header.name) for header in headers}
        headers += [header for header in store.scan() if fold(header.name) not in own]
    wanted = _SHARED.get(scope)
    header = find_header([at for at in headers if wanted is None or (at.scope is Scope.TEAM) is wanted], text)
    home = Scope.PRIVATE if header.scope is Scope.TEAM else header.scope
    return next((store for store in stores if store.scope is home), stores[0]), header


def find_past(opened: Opened, text: str, scope: str | None = None) -> tuple[FileStore, str]:
    """As `find_memory`, for memories that may be gone: then their very name, if history knows it."""
    try:
        store, header = find_memory(opened, text, scope)
        return store, header.name
    except NotFoundError:
        name = spell_name(text, scope)
        for store in opened.stores if scope is None else (choose_store(opened, scope),):
            if store.acts(name, limit=1):
                return store, name
        raise


def spell_name(text: str, scope: str | None) -> str:
    """A name as it stands below the memory directory; of the team's memories the folder may be left out."""
    name = text.strip().removeprefix("./").removesuffix(".md")
    return f"{TEAM_FOLDER}/{name}" if scope == Scope.TEAM.value and not is_team(name) else name


def find_surfaced(opened: Opened, text: str, scope: str | None = None) -> tuple[FileStore, str]:
    """As `find_past`, also for memories that only the ledger of recalls remembers."""
    try:
        return find_past(opened, text, scope)
    except NotFoundError:
        name = spell_name(text, scope)
        for store in opened.stores if scope is None else (choose_store(opened, scope),):
            if store.recalls(name, limit=1):
                return store, name
        raise


def refuse_verb(word: str, verbs: Iterable[str]) -> str:
    """What to say to a verb that is none."""
    near = get_close_matches(word, list(verbs), n=1)
    return f"there is no verb {word!r}" + (f" (did you mean {near[0]}?)" if near else "")


def notice(store: FileStore) -> None:
    """Record outside edits before history is shown; a directory that is busy or read-only is shown as it stands."""
    if not store.root.is_dir():
        return
    try:
        store.notice(seconds=_NOTICE_SECONDS)
    except (LockedError, DiskError):
        return


def _find_inside(store: FileStore, text: str) -> str:
    """The name of a memory given by its whole path; empty if the path leads elsewhere or is none."""
    if not os.path.isabs(text) or "\0" in text:
        return ""
    for root in (str(store.root), os.path.realpath(store.root)):
        if text.startswith(root.rstrip("/") + "/"):
            return text[len(root.rstrip("/")) + 1 :]
    return ""
