"""What a conversation stands on: its stores, its record on disk, and what the settings say of each part.

From an Opened every setting of the place is heard. From stores alone nothing of the environment is read: recall and
extraction are on, notes are kept only in a folder that the host names, and there is no model but the one it gives.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from memdir import learning, notes
from memdir.age import HALF_LIVES, HalfLives
from memdir.aging import read_half_lives
from memdir.dream import NOWHERE, Due, Surroundings, find_due, find_surroundings
from memdir.dream_gates import find_due_in
from memdir.errors import LockedError, SettingsError
from memdir.extracted import Conversation
from memdir.frozen import dataclass
from memdir.guidance import Mode
from memdir.instructions import find_frame
from memdir.opening import Opened
from memdir.session import Record, SessionFile, open_session
from memdir.store.contract import Clock
from memdir.store.files import FileStore

LOCAL, MODEL = "local", "model"
_TRIES = 10  # of half a second each
Done = TypeVar("Done")
CLEARS, ERA = "clears", "era"  # in the conversation's record: how often it was cleared, and cleared or compacted


@dataclass(frozen=True, slots=True)
class Ground:
    """All that does not change while a conversation lasts. `on` is the switch over everything."""

    stores: tuple[FileStore, ...]
    opened: Opened | None
    file: SessionFile
    clock: Clock
    cwd: Path | None
    manner: learning.Manner
    notes_manner: notes.Manner
    notes_home: Path | None
    selector: str = LOCAL
    on: bool = True
    recalls: bool = True
    paused: bool = False
    is_logging: bool = False

    @property
    def store(self) -> FileStore:
        """The one that is written to."""
        return self.stores[0]

    @property
    def conversation(self) -> Conversation:
        if self.opened is not None:
            return learning.make_conversation(self.opened)
        return Conversation(project=self.cwd)

    @property
    def half_lives(self) -> HalfLives:
        return HALF_LIVES if self.opened is None else read_half_lives(self.opened.settings)

    @property
    def surroundings(self) -> Surroundings:
        return NOWHERE if self.opened is None else find_surroundings(self.opened)

    def find_notes_place(self) -> notes.Place | None:
        """Where this conversation's notes lie; one that was cleared has begun new ones."""
        if self.notes_home is None:
            return None
        clears = read_count(self.file.read(), CLEARS)
        return notes.find_place(self.notes_home, f"{self.file.id}-{clears}" if clears else self.file.id)

    def find_due(self) -> Due:
        now = self.clock()
        if self.opened is not None:
            return find_due(self.opened, now=now, session=self.file.id)
        return find_due_in(self.store, now=now, session=self.file.id)


def insist(step: Callable[[], Done]) -> Done:
    """Do it, again and again while the conversation's record is held: a hook may not wait for it longer, a host may."""
    for _ in range(_TRIES - 1):
        try:
            return step()
        except LockedError:
            continue
    return step()


def read_count(record: Record, key: str) -> int:
    """A number that the conversation's record holds; 0 if it holds none."""
    value = record.extra.get(key)
    return value if type(value) is int and value > 0 else 0


def find_ground(
    where: FileStore | Sequence[FileStore] | Opened,
    *,
    id: str,
    cwd: Path | None,
    notes_home: Path | None,
    clock: Clock | None,
    selector: str,
    compacts: bool,
) -> Ground:
    """The ground of a conversation with that id; one is made if it is empty."""
    if selector not in ("", LOCAL, MODEL):
        raise SettingsError(f"there is no selector {selector!r}", key="selector", hint=f"{LOCAL} or {MODEL}")
    id = id or os.urandom(16).hex()
    if isinstance(where, Opened):
        return _find_here(where, id, cwd, notes_home, clock, selector, compacts)
    stores = tuple(where) if isinstance(where, Sequence) else (where,)
    if not stores:
        raise SettingsError("a session needs a store", key="stores", hint="memdir.open_store(path) opens one")
    return Ground(
        stores,
        None,
        open_session(stores[0].state, id),
        clock or stores[0].clock,
        cwd,
        learning.PLAINLY,
        notes.Manner(compacts=compacts),
        notes_home,
        selector or LOCAL,
    )


def _find_here(
    opened: Opened,
    id: str,
    cwd: Path | None,
    notes_home: Path | None,
    clock: Clock | None,
    selector: str,
    compacts: bool,
) -> Ground:
    settings = opened.settings
    on = opened.places.switch.on
    return Ground(
        opened.stores,
        opened,
        open_session(opened.private.state, id),
        clock or opened.clock,
        cwd or opened.places.root.path,
        learning.read_manner(opened),
        notes.read_manner(opened, compacts=compacts),
        notes_home or notes.find_home(opened),
        selector or settings.text("selector"),
        on,
        settings.flag("recall"),
        settings.flag("paused"),
        on and find_frame(opened).mode is Mode.DAILY_LOG,
    )
