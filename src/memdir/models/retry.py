"""Asking again when that may help: at most three tries, ninety seconds in all.

Only faults that pass are worth another try: a busy or broken provider, a lost connection. A wrong key, a spending
limit, a refusal or an unusable answer would be the same again. When words have already been shown to a person, nothing
is asked again either: they would read them twice.
"""

import random
import time
from collections.abc import Callable

from memdir.errors import StoppedError, UnreachableError
from memdir.frozen import replace
from memdir.limits import MODEL_RETRY_SECONDS, MODEL_TRIES
from memdir.models.wire import can_use_tools
from memdir.records import Model, Reply, Request

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 20.0
_NAP = 0.25  # how long a wait goes without looking whether anybody still waits


def with_retry(
    model: Model,
    *,
    tries: int = MODEL_TRIES,
    seconds: float = MODEL_RETRY_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> Model:
    """The same model, asked again for faults that pass; `chance` spreads the waits of many."""
    return Retrying(model, tries, seconds, sleep, clock, chance)


class Retrying:
    """See above; a class only so that it says what the model inside can do."""

    def __init__(
        self,
        model: Model,
        tries: int,
        seconds: float,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._model, self._tries, self._seconds = model, tries, seconds
        self._sleep, self._clock, self._chance = sleep, clock, chance
        self.has_tools = can_use_tools(model)

    def __call__(self, request: Request) -> Reply:
        deadline = self._clock() + self._seconds
        shown: list[str] = []
        asked = _note_text(request, shown)
        for attempt in range(1, self._tries + 1):
            try:
                return self._model(asked)
            except UnreachableError as error:
                wait = self._find_wait(error, attempt)
                if not error.passing or shown or attempt == self._tries or self._clock() + wait >= deadline:
                    raise
                fault = error
            except StoppedError:
                if attempt > 1 and not _is_cancelled(request):  # it was the deadline that stopped it
                    raise fault from None
                raise
            self._wait(wait, request)
            asked = replace(asked, cancelled=lambda: _is_cancelled(request) or self._clock() >= deadline)
        raise AssertionError("the last try returns or raises")

    def _find_wait(self, error: UnreachableError, attempt: int) -> float:
        """What the provider asks for, or twice as long each time, somewhere in the upper half of it."""
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * float(1 << (attempt - 1)))
        return max(error.after or 0.0, longest * (0.5 + self._chance() / 2))

    def _wait(self, seconds: float, request: Request) -> None:
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            if _is_cancelled(request):
                raise StoppedError("the request was cancelled while it waited for another try")
            self._sleep(min(left, _NAP) if request.cancelled else left)


def _note_text(request: Request, shown: list[str]) -> Request:
    tell = request.on_text
    if tell is None:
        return request

    def note(text: str) -> None:
        shown.append(text)
        tell(text)

    return replace(request, on_text=note)


def _is_cancelled(request: Request) -> bool:
    return request.cancelled is not None and request.cancelled()
