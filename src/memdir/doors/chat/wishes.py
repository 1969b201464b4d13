"""How chat was called, and the clock it goes by."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.text import one_line, shorten

_MORNING = timedelta(hours=9)  # a day without an hour begins when people do


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of `memdir chat`. `resume` is an id, empty for the newest one that is asked for, None for none."""

    script: str | None = None
    resume: str | None = None
    lists: bool = False
    model: str | None = None
    allowed: tuple[str, ...] = ()
    private: bool = False
    as_json: bool = False
    color: str = "auto"
    directory: Path | None = None


class Clock:
    """The time as it is, until somebody sets the day; from then on it goes on from there."""

    def __init__(self, real: Callable[[], datetime]) -> None:
        self._real = real
        self._set: datetime | None = None
        self._since = 0.0

    def __call__(self) -> datetime:
        if self._set is None:
            return self._real()
        return self._set + timedelta(seconds=time.monotonic() - self._since)

    @property
    def is_set(self) -> bool:
        return self._set is not None

    def set(self, text: str) -> datetime:
        """Another day or time, as a person writes it: 2026-03-02, or with an hour."""
        try:
            given = datetime.fromisoformat(text.strip())
        except ValueError:
            shown = shorten(one_line(text), 40)
            raise FormatError(f"{shown!r} is no date", field="now", hint="for example /now 2026-03-02") from None
        if len(text.strip()) <= len("2026-03-02"):
            given += _MORNING
        self._set = given if given.tzinfo else given.astimezone()
        self._since = time.monotonic()
        return self._set
