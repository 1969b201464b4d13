"""Moving a memory directory to where its project now looks for it, with both directories held still meanwhile.

Which directory is meant is decided before, by a person with the help of `identity`.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from memdir.errors import NotFoundError
from memdir.guard import disk_errors
from memdir.identity import Identity, relink, write_identity
from memdir.lock import hold
from memdir.paths import find_state_dir
from memdir.settings import Environment


def move_memory(source: Path, target: Path, identity: Identity, *, environment: Environment, seconds: float) -> None:
    """Put a memory directory into the place of `identity` and record whose it is now."""
    states = sorted({find_state_dir(source, environment), find_state_dir(target, environment)})
    with ExitStack() as held:
        for state in states:
            held.enter_context(_hold_still(state, seconds))
        relink(source, target, environment=environment)
    write_identity(find_state_dir(target, environment), identity)


def claim(target: Path, identity: Identity, *, environment: Environment, seconds: float) -> None:
    """Record `identity` as the owner of a memory directory that is there already."""
    if not target.is_dir():
        raise NotFoundError(f"there is no memory directory {target} to claim", name=str(target))
    state = find_state_dir(target, environment)
    with _hold_still(state, seconds):
        write_identity(state, identity)


@contextmanager
def _hold_still(state: Path, seconds: float) -> Iterator[None]:
    """The lock of a directory; one that memdir has never written to has no lock and no other writer of ours."""
    try:
        folder = os.open(state, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    try:
        with disk_errors(str(state)), hold(folder, "lock", seconds=seconds):
            yield
    finally:
        os.close(folder)
