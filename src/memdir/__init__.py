"""memdir: a memory for AI agents that survives the conversation. Plain Markdown files, found again, never lost.

    reading    files --scan--> headers --render--> manifest --select--> names --read--> memories --render--> reminder
                                  +------- MEMORY.md --clip--> instructions
    writing    draft --check--> plan --guard--> change (topic file + index line + history, together or not at all)

Three laws: nothing on the right is read by anything on its left; the file is canonical; reads forgive, writes refuse,
background stays quiet, doors speak. ARCHITECTURE.md has the rooms and their order.

The names below are the public ones. They load on first use, so that `import memdir` costs next to nothing.
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
    from memdir.format.index import render_manifest
    from memdir.models import open_model
    from memdir.recall.pipeline import recall
    from memdir.recall.reminder import render_reminder
    from memdir.records import Change, Draft, Header, Kind, Memory, Message, Origin, Scope
    from memdir.session import Session
    from memdir.store.contract import Store
    from memdir.store.files import FileStore
    from memdir.store.memory import MemoryStore
    from memdir.store.open import open_store

__version__ = "0.1.0"

_HOMES = {
    "Change": "memdir.records",
    "ConflictError": "memdir.errors",
    "DiskError": "memdir.errors",
    "Draft": "memdir.records",
    "FileStore": "memdir.store.files",
    "FormatError": "memdir.errors",
    "Header": "memdir.records",
    "Kind": "memdir.records",
    "LockedError": "memdir.errors",
    "MemdirError": "memdir.errors",
    "Memory": "memdir.records",
    "Message": "memdir.records",
    "NotFoundError": "memdir.errors",
    "Origin": "memdir.records",
    "PathError": "memdir.errors",
    "MemoryStore": "memdir.store.memory",
    "Scope": "memdir.records",
    "Session": "memdir.session",
    "SettingsError": "memdir.errors",
    "Store": "memdir.store.contract",
    "dream": "memdir.dream",
    "dream_is_due": "memdir.dream",
    "extract": "memdir.extraction",
    "instructions": "memdir.conversation.instructions",
    "open_model": "memdir.models",
    "open_store": "memdir.store.open",
    "recall": "memdir.recall.pipeline",
    "render_manifest": "memdir.format.index",
    "render_reminder": "memdir.recall.reminder",
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
    "Memory",
    "MemoryStore",
    "Message",
    "NotFoundError",
    "Origin",
    "PathError",
    "Scope",
    "Session",
    "SettingsError",
    "Store",
    "dream",
    "dream_is_due",
    "extract",
    "instructions",
    "open_model",
    "open_store",
    "recall",
    "render_manifest",
    "render_reminder",
]


class _Package(ModuleType):
    """`memdir.recall` is the function, whether or not the package of that name has been imported."""

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
