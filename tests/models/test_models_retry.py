"""Asking again: three tries, ninety seconds, and only where it may help. No test waits."""

from collections.abc import Callable

import pytest

from memdir.errors import BudgetError, MemdirError, ModelError, ReplyError, StoppedError, UnreachableError
from memdir.models.connection import can_use_tools
from memdir.models.usage import with_retry
from memdir.records import Model, Reply, Request
from memdir.testing import ScriptedModel
from scripted_models import ask
from tables import table


def passing(after: float | None = None) -> UnreachableError:
    return UnreachableError("busy", reason="busy", is_transient=True, retry_after=after)


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds

    def wrap(self, model: Model, chance: float = 1.0) -> Model:
        return with_retry(model, sleep=self.sleep, clock=lambda: self.now, chance=lambda: chance)


def test_a_fault_that_passes_is_tried_again_after_longer_and_longer_waits() -> None:
    time, model = Time(), ScriptedModel([passing(), passing(), "yes"])
    assert time.wrap(model)(ask()).text == "yes"
    assert time.naps == [1.0, 2.0]


def test_after_three_tries_the_last_error_stands() -> None:
    model = ScriptedModel([passing(), passing(), passing(), "never"])
    with pytest.raises(UnreachableError):
        Time().wrap(model)(ask())
    assert len(model.requests) == 3


@table(
    "error",
    [
        UnreachableError("key", reason="key"),
        UnreachableError("spent", reason="spent"),
        ReplyError("not JSON"),
        BudgetError("cap"),
        ModelError("tools"),
        StoppedError("gone"),
    ],
)
def test_what_would_be_the_same_again_is_asked_once(error: MemdirError) -> None:
    time, model = Time(), ScriptedModel([error, "never"])
    with pytest.raises(type(error)):
        time.wrap(model)(ask())
    assert len(model.requests) == 1 and time.naps == []


def test_the_wait_that_a_provider_asks_for_is_kept() -> None:
    time = Time()
    assert time.wrap(ScriptedModel([passing(after=30), "yes"]))(ask()).text == "yes"
    assert time.naps == [30]


def test_a_wait_beyond_ninety_seconds_is_not_begun() -> None:
    time, model = Time(), ScriptedModel([passing(after=60), passing(after=60), "never"])
    with pytest.raises(UnreachableError):
        time.wrap(model)(ask())
    assert time.naps == [60] and len(model.requests) == 2


def test_a_later_try_is_ended_when_the_ninety_seconds_are_over() -> None:
    time = Time()
    tries: list[Request] = []

    def slow(request: Request) -> Reply:
        tries.append(request)
        if len(tries) == 1:
            raise passing()
        time.now += 100
        assert request.cancelled is not None and request.cancelled()
        raise StoppedError("ended")

    with pytest.raises(UnreachableError, match="busy"):
        time.wrap(slow)(ask())


def test_nothing_is_asked_again_once_words_were_shown() -> None:
    shown: list[str] = []

    def breaks(request: Request) -> Reply:
        assert request.on_text is not None
        request.on_text("Half of ")
        raise passing()

    with pytest.raises(UnreachableError):
        Time().wrap(breaks)(ask(on_text=shown.append))
    assert shown == ["Half of "]


def test_who_cancels_while_it_waits_waits_no_longer() -> None:
    time = Time()
    model = ScriptedModel([passing(after=50), "never"])
    with pytest.raises(StoppedError):
        time.wrap(model)(ask(cancelled=lambda: time.now > 101))
    assert sum(time.naps) < 2 and len(model.requests) == 1


def test_a_wrapped_model_still_says_what_it_can_do() -> None:
    class Plain:
        has_tools = False

        def __call__(self, request: Request) -> Reply:
            return Reply("x")

    plain: Callable[[Request], Reply] = Plain()
    assert not can_use_tools(with_retry(plain)) and can_use_tools(with_retry(lambda request: Reply("x")))
