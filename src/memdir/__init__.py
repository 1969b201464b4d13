"""memdir: a memory for AI agents that survives the conversation, in plain Markdown files.

    import memdir

    memory = memdir.Memory()  # this project's memory, found from the git root
    memory.remember("we deploy on Tuesdays only, because support is staffed then")
    for hit in memory.recall("may I deploy on Friday?"):
        print(hit.title, hit.text)

The names below are the public ones. They load on first use, so that `import memdir` costs next to nothing.
ARCHITECTURE.md has the packages and their order.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdir.errors import (
        BudgetError,
        ConflictError,
        DiskError,
        FormatError,
        LockedError,
        MemdirError,
        ModelError,
        NotFoundError,
        PathError,
        ReviewError,
        SecretError,
        SettingsError,
    )
    from memdir.interfaces.client import Client
    from memdir.models.open import open_model
    from memdir.operations.memory import AsyncMemory, Memory
    from memdir.operations.write import WriteResult
    from memdir.records import Change, Draft, Header, Kind, Message, Origin, Reply, Request, Scope, StoredMemory
    from memdir.session import Session
    from memdir.store.contract import Store
    from memdir.store.files import FileStore
    from memdir.store.memory import MemoryStore

__version__ = "0.2.0"

_HOMES = {
    name: f"memdir.{module}"
    for module, names in {
        "errors": "BudgetError ConflictError DiskError FormatError LockedError MemdirError ModelError NotFoundError "
        "PathError ReviewError SecretError SettingsError",
        "interfaces.client": "Client",
        "models.open": "open_model",
        "operations.memory": "AsyncMemory Memory",
        "operations.write": "WriteResult",
        "records": "Change Draft Header Kind Message Origin Reply Request Scope StoredMemory",
        "session": "Session",
        "store.contract": "Store",
        "store.files": "FileStore",
        "store.memory": "MemoryStore",
    }.items()
    for name in names.split()
}

__all__ = [
    "AsyncMemory",
    "BudgetError",
    "Change",
    "Client",
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
    "ModelError",
    "NotFoundError",
    "Origin",
    "PathError",
    "Reply",
    "Request",
    "ReviewError",
    "Scope",
    "SecretError",
    "Session",
    "SettingsError",
    "Store",
    "StoredMemory",
    "WriteResult",
    "open_model",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'memdir' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
