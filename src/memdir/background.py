"""Learning beside the conversation, in one process: a turn that ends is handed over, and nobody waits for it.

One run at a time. A turn that ends meanwhile is kept aside, the latest only, because its messages contain those of the
turns before; one more run follows. At exit `drain` waits for what is under way.
"""

import threading
from collections.abc import Callable

from memdir.errors import MemdirError
from memdir.extracted import Extracted
from memdir.learning import Turn
from memdir.limits import DRAIN_SECONDS

Learn = Callable[[Turn], Extracted]


class Background:
    """`learn` does one turn; `on_done` hears what came of it, `on_error` what it raised, both from the thread."""

    def __init__(
        self,
        learn: Learn,
        *,
        on_done: Callable[[Extracted], None] = lambda done: None,
        on_error: Callable[[MemdirError], None] = lambda error: None,
    ) -> None:
        self._learn = learn
        self._on_done, self._on_error = on_done, on_error
        self._changed = threading.Condition()
        self._stash: Turn | None = None
        self._is_running = False

    def turn_ended(self, turn: Turn) -> bool:
        """Learn from a turn as soon as possible; answers whether a run began now."""
        with self._changed:
            if self._is_running:
                # A helper's turn says nothing that is learned, and the agent's own must not be lost for it.
                if self._stash is None or not turn.is_subagent:
                    self._stash = turn
                return False
            self._is_running = True
        self._start(turn)
        return True

    def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait until nothing is under way; answers whether that is so now."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, timeout=seconds)

    def _start(self, turn: Turn) -> None:
        threading.Thread(target=self._run, args=(turn,), name="memdir-learning", daemon=True).start()

    def _run(self, turn: Turn) -> None:
        """One turn in a thread of its own: what nobody foresaw ends that thread, not the turns after it."""
        try:
            self._on_done(self._learn(turn))
        except MemdirError as error:
            self._on_error(error)
        finally:
            following = self._take_next()
            if following is not None:
                self._start(following)

    def _take_next(self) -> Turn | None:
        with self._changed:
            found, self._stash = self._stash, None
            if found is None:
                self._is_running = False
                self._changed.notify_all()
            return found
