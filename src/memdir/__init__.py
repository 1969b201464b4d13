"""memdir: a memory for AI agents that survives the conversation, in plain Markdown files.

    import memdir

    memory = memdir.open_store()  # this project's memory, found from the git root
    memory.remember("we deploy on Tuesdays only, because support is staffed then")
    for found in memdir.recall(memory, "may I deploy on Friday?"):
        print(found.title, found.text)

The names below are the public ones. They load on first use, so that `import memdir` costs next to nothing.
ARCHITECTURE.md has the packages and their order.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdir.conversation.instructions import instructions
    from memdir.dream import dream, dream_is_due
    from memdir.errors import (
        ConflictError,
        DiskError,
        FormatError,
        LockedError,
        MemdirError,
        NotFoundError,
        PathError,
        SettingsError,
    )
    from memdir.extraction import extract
    from memdir.format.shown import show_manifest
    from memdir.models.open import open_model
    from memdir.recall.pipeline import recall
    from memdir.recall.reminder import render_reminder
    from memdir.records import Change, Draft, Header, Kind, Message, Origin, Scope, StoredMemory
    from memdir.session import Session
    from memdir.store.contract import Store
    from memdir.store.files import FileStore
    from memdir.store.memory import MemoryStore
    from memdir.store.open import open_store

__version__ = "0.1.0"

_HOMES = {
    name: f"memdir.{module}"
    for module, names in {
        "conversation.instructions": "instructions",
        "dream": "dream dream_is_due",
        "errors": "ConflictError DiskError FormatError LockedError MemdirError NotFoundError PathError SettingsError",
        "extraction": "extract",
        "format.shown": "show_manifest",
        "models.open": "open_model",
        "recall.pipeline": "recall",
        "recall.reminder": "render_reminder",
        "records": "Change Draft Header Kind Message Origin Scope StoredMemory",
        "session": "Session",
        "store.contract": "Store",
        "store.files": "FileStore",
        "store.memory": "MemoryStore",
        "store.open": "open_store",
    }.items()
    for name in names.split()
}

__all__ = [
    "Change",
    "ConflictError",
    "DiskError",
    "Draft",
    "FileStore",
    "FormatError",
    "Header",
    "Kind",
    "LockedError",
    "MemdirError",
    "MemoryStore",
    "Message",
    "NotFoundError",
    "Origin",
    "PathError",
    "Scope",
    "Session",
    "SettingsError",
    "Store",
    "StoredMemory",
    "dream",
    "dream_is_due",
    "extract",
    "instructions",
    "open_model",
    "open_store",
    "recall",
    "render_reminder",
    "show_manifest",
]


class _Package(ModuleType):
    """Keeps `memdir.recall` and other public names from being replaced by the module of that name when it is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'memdir' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
