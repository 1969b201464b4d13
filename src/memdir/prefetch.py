"""Recall beside the model's work: started when the message arrives, looked at when there is time.

One at a time: starting another ends the one before. Nothing counts as surfaced until it is taken, so a turn that ends
early leaves no trace. The thread is a daemon: it does not keep a process alive.

An error memdir knows of ends the run quietly, with its words in `problem`. Any other is a bug: Python reports it in the
thread's name, and here it looks like an empty run. It does not stop a recall that is under way; its answer is dropped.
"""

import sqlite3
import threading
from collections.abc import Sequence

from memdir.errors import MemdirError
from memdir.frozen import replace
from memdir.recall import Asked, Recalled, account, find_memories
from memdir.store.contract import Clock

_TAKE_SECONDS = 0.05  # for the conversation's record; it is held for a millisecond


class _Run:
    """One recall under way, or done."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.done = threading.Event()
        self.found: Recalled | None = None
        self.problem = ""

    def __call__(self) -> None:
        try:
            self.found = find_memories(self.asked)
        except (MemdirError, OSError, sqlite3.Error) as error:
            self.problem = str(error)
        finally:
            self.done.set()


class Prefetch:
    """`asked` has everything but the message: its text, tools and time are those of the start."""

    def __init__(self, asked: Asked, *, clock: Clock) -> None:
        self._asked = asked
        self._clock = clock
        self._lock = threading.Lock()
        self._run: _Run | None = None

    def start(self, query: str, *, tools: Sequence[str] = ()) -> None:
        """Begin a recall; one that was begun before is dropped."""
        run = _Run(replace(self._asked, text=query, tools=tuple(tools), now=self._clock()))
        with self._lock:
            self._run = run
        threading.Thread(target=run, name="memdir-prefetch", daemon=True).start()

    def poll(self) -> bool:
        """Whether there is something to take."""
        run = self._run
        return run is not None and run.done.is_set()

    def wait(self, seconds: float) -> bool:
        """The same, but no sooner than that or after so many seconds: for a host that has one chance only."""
        run = self._run
        return run is not None and run.done.wait(seconds)

    def take(self) -> Recalled | None:
        """The answer, once, accounted for as surfaced; None if there is none yet, none any more, or none at all."""
        with self._lock:
            run = self._run
            if run is None or not run.done.is_set():
                return None
            self._run = None
        return account(run.found, run.asked, seconds=_TAKE_SECONDS) if run.found else None

    def cancel(self) -> None:
        """The turn is over: whatever comes of it is dropped, and nothing counts as surfaced."""
        with self._lock:
            self._run = None

    @property
    def problem(self) -> str:
        """What went wrong with the run that is waiting to be taken, if anything."""
        run = self._run
        return run.problem if run is not None and run.done.is_set() else ""
