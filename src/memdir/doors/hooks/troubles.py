"""What went wrong in a hook: noted where it will be seen. At the start of a session the person is told at once."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memdir.doors.hooks.answers import Answer
from memdir.errors import MemdirError
from memdir.events import note_problem
from memdir.hosts.rows import Event
from memdir.settings import read_environment

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready


def tell_trouble(ready: "Ready", event: Event, error: Exception) -> None:
    """Note it; never raises. Where the place itself could not be opened, the note goes to the person's own state."""
    text = str(error) if isinstance(error, MemdirError | TimeoutError) else f"{type(error).__name__}: {error}"
    try:
        if event is Event.START and isinstance(error, MemdirError) and ready.answer == Answer():
            hint = f"; {error.hint}" if error.hint else ""
            ready.answer = Answer(message=f"memdir is not at work here: {text}{hint}")
        environment = read_environment()
        now = environment.now or datetime.now(UTC)
        note_problem(ready.state or environment.state_home, ready.host.key, f"{event.value}: {text}", now)
    except (MemdirError, OSError):
        pass  # not even a home is known: there is nobody to tell
