"""How far a dream has come, and whether it is still wanted. It counts and tells; it prints nothing."""

from collections.abc import Callable
from enum import StrEnum

from memdir.errors import StoppedError
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_TURNS
from memdir.models.wire import add_usage
from memdir.records import Model, Reply, Request, Usage


class Phase(StrEnum):
    """Where a dream is. Rules tidy first; a model then goes through four steps; at the end it is applied."""

    TIDY = "tidy"
    ORIENT = "orient"
    GATHER = "gather"
    CONSOLIDATE = "consolidate"
    PRUNE = "prune"
    CHECK = "check"
    APPLY = "apply"


_ORDER = tuple(Phase)


@dataclass(frozen=True, slots=True)
class Progress:
    """`files` are memories touched so far, `share` how much of the way is behind, from 0 to 1."""

    phase: Phase
    files: int = 0
    usage: Usage = Usage()
    turns: int = 0
    calls: int = 0

    @property
    def share(self) -> float:
        if self.phase in (Phase.CHECK, Phase.APPLY):
            return 0.9 if self.phase is Phase.CHECK else 0.95
        return 0.0 if self.phase is Phase.TIDY else 0.05 + 0.85 * min(1.0, self.turns / DREAM_TURNS)


OnProgress = Callable[[Progress], None]
Cancelled = Callable[[], bool]


def say_nothing(progress: Progress) -> None:
    """For whoever does not look on."""


def go_on() -> bool:
    """For whoever never cancels."""
    return False


class Watch:
    """The progress of one dream: every step is told, and asked whether to go on."""

    def __init__(self, on_progress: OnProgress = say_nothing, cancelled: Cancelled = go_on) -> None:
        self.now = Progress(Phase.TIDY)
        self._on_progress = on_progress
        self._cancelled = cancelled

    def enter(self, phase: Phase) -> None:
        """The next phase; nothing goes back to an earlier one."""
        if _ORDER.index(phase) >= _ORDER.index(self.now.phase):
            self.now = replace(self.now, phase=phase)
        self.tell()

    def touch(self, files: int) -> None:
        self.now = replace(self.now, files=files)
        self.tell()

    def count_call(self) -> None:
        self.now = replace(self.now, calls=self.now.calls + 1)

    def tell(self) -> None:
        self.check()
        self._on_progress(self.now)

    def check(self) -> None:
        if self._cancelled():
            raise StoppedError("the dream was cancelled", hint="nothing was changed")

    def wrap(self, model: Model) -> Model:
        """The same model, counted, and told when the answer is not wanted any more."""

        def ask(request: Request) -> Reply:
            self.check()
            reply = model(replace(request, cancelled=self._cancelled))
            usage = add_usage(self.now.usage, reply.usage)
            self.now = replace(self.now, turns=self.now.turns + 1, usage=usage)
            self.tell()
            return reply

        return ask
