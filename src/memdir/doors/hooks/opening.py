"""The memory of the place a hook is called in, with the call noted; and what comes before it is opened."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memdir.doors.hooks.given import Given
from memdir.events import note_event
from memdir.opening import Opened, open_places

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready


@contextmanager
def open_here(given: Given, ready: "Ready") -> Iterator[Opened | None]:
    """Everything open; None where memory is off. That the event arrived is noted at the end: `starting` reads it."""
    opened = open_places(given.cwd)
    try:
        ready.state, ready.patience = opened.private.state, opened.settings.number("hook_patience")
        yield opened if opened.places.switch.on else None
        if opened.places.switch.on:
            note_event(ready.state, given.host.key, given.event.value, opened.now())
    finally:
        opened.close()
