"""The coding agents memdir lives in.

    rows.py     what each of them is like        places.py   where their files are here, and which have our hooks
    record.py   what `install` put where

The names below are imported when somebody asks for them: the hook door needs the rows alone, and at every prompt.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdir.hosts.places import Installed, find_installed
    from memdir.hosts.rows import HOSTS, Event, Host, find_host

__all__ = ["HOSTS", "Event", "Host", "Installed", "find_host", "find_installed"]
_IN_PLACES = ("Installed", "find_installed")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'places' if name in _IN_PLACES else 'rows'}"), name)
