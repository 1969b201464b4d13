"""What a host is told of its memory, and the calls by which it hears of it.

A callback is the host's own code and is called from whichever thread did the work. What it raises stays with it: it is
logged under `memdir.conversing`, and neither a memory nor the work that follows is lost by it.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from memdir.dream import Dreamed
from memdir.dream_gates import DreamSkip
from memdir.errors import MemdirError, ModelError
from memdir.extract_gates import ExtractSkip
from memdir.extracted import Extracted
from memdir.frozen import dataclass
from memdir.gates import Skip
from memdir.models.wire import can_use_tools
from memdir.notes import NotesSkip
from memdir.recall import Recalled
from memdir.records import Message, Model, Reply, Request, Usage
from memdir.reminder import render_reminder
from memdir.tokens import estimate_tokens

log = logging.getLogger("memdir.conversing")
RECALL, EXTRACT, NOTES, DREAM = "recall", "extract", "notes", "dream"
SkipReason = Skip | ExtractSkip | NotesSkip | DreamSkip


@dataclass(frozen=True, slots=True)
class Reminders:
    """What a recall brought, as one text for the conversation: each memory in a block, so that it is nobody's word."""

    text: str
    recalled: Recalled
    tokens: int

    @property
    def message(self) -> Message:
        """The same as a message, which nobody takes for the person's own."""
        return Message("user", self.text, is_meta=True)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(excerpt.header.name for excerpt in self.recalled)


def ignore(*_: object) -> None:
    """What a callback does that nobody has set."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What a host wants to hear of. Each may be called from another thread, and two of them at the same time.

    `skipped` is told what did not happen ("recall", "extract", "notes", "dream") and why; `.words` of the reason is a
    sentence. `cost` is told what each request to a model took, dollars included where a price is known, and for what.
    """

    saved: Callable[[Extracted], None] = ignore
    recalled: Callable[[Reminders], None] = ignore
    skipped: Callable[[str, SkipReason], None] = ignore
    cost: Callable[[Usage, str], None] = ignore
    dreamed: Callable[[Dreamed], None] = ignore
    error: Callable[[MemdirError], None] = ignore


SILENT = Callbacks()


def tell(callback: Callable[..., None], *told: object) -> None:
    """Call the host back; what goes wrong there is logged and goes no further."""
    try:
        callback(*told)
    except Exception:
        log.exception("a callback of the host failed")


def tell_learned(callbacks: Callbacks, done: Extracted) -> None:
    """All that is to be told of one run of extraction."""
    if done.written or done.forgotten or done.waiting:
        tell(callbacks.saved, done)
    if done.skipped is not None:
        tell(callbacks.skipped, EXTRACT, done.skipped)
    if done.error:
        tell(callbacks.error, MemdirError(done.error))


def tell_recalled(callbacks: Callbacks, found: Recalled, now: datetime) -> Reminders | None:
    """What a recall brought, told and as text; None if it brought nothing."""
    if not found.memories:
        if found.skipped is not None:
            tell(callbacks.skipped, RECALL, found.skipped)
        return None
    text = "\n".join(render_reminder(excerpt, now=now, wrap=True) for excerpt in found)
    reminders = Reminders(text, found, estimate_tokens(text))
    tell(callbacks.recalled, reminders)
    return reminders


class Watched:
    """A model whose host hears what each request took."""

    def __init__(self, model: Model, callbacks: Callbacks) -> None:
        self._model, self._callbacks = model, callbacks

    @property
    def has_tools(self) -> bool:
        return can_use_tools(self._model)

    def __call__(self, request: Request) -> Reply:
        try:
            reply = self._model(request)
        except ModelError as error:
            if error.usage is not None:
                tell(self._callbacks.cost, error.usage, request.purpose)
            raise
        tell(self._callbacks.cost, reply.usage, request.purpose)
        return reply
