"""What goes on behind a conversation: extraction after each turn, then notes and verdicts, a turn at a time; dreams.

An error memdir knows of is told to the host and ends that step alone. A conversation held beside this one over the same
memory is waited for: this is the background, and a turn that gave up might be the last.

Verdicts are long work of this very process, and threads take the processor from each other: they wait while a turn is
on its way to the model.
"""

import threading
import time
from collections.abc import Callable, Mapping

from memdir.background import Background
from memdir.conversing.ground import Ground, insist
from memdir.conversing.telling import DREAM, NOTES, Callbacks, tell, tell_learned
from memdir.dream import Dreamed, DreamSkip, dream
from memdir.dream.progress import Cancelled, OnProgress
from memdir.errors import LockedError, MemdirError
from memdir.extract_gates import ExtractSkip
from memdir.extracted import Conversation, Extracted
from memdir.frozen import replace
from memdir.learning import Turn, learn
from memdir.limits import DRAIN_SECONDS, NOTES_WAIT_SECONDS
from memdir.notes import (
    News,
    Noted,
    NotesSkip,
    make_template,
    open_notes,
    read_notes_file,
    render_for_compaction,
    update_notes,
    wait_for_update,
)
from memdir.records import Message, Model
from memdir.refreshing import refresh_verdicts
from memdir.reminder import wrap

_WAY_SECONDS = 5.0  # of a turn; by then the model is at work, and the person waits for that


class Way:
    """Who goes first: a turn that has just begun, before what can wait."""

    def __init__(self, seconds: float = _WAY_SECONDS) -> None:
        self._free = threading.Event()
        self._seconds, self._ends = seconds, 0.0

    def take(self) -> None:
        self._ends = time.monotonic() + self._seconds
        self._free.clear()

    def leave(self) -> None:
        self._free.set()

    def give(self) -> None:
        """Wait while a turn has the way, but not for ever: its host may never say that it has ended."""
        left = self._ends - time.monotonic()
        if left > 0:
            self._free.wait(left)


class Working:
    """`open_model` gives the model for one run, or None; `tidy_up` is called when a turn is done with."""

    def __init__(
        self,
        ground: Ground,
        callbacks: Callbacks,
        open_model: Callable[[], Model | None],
        tidy_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._ground, self._callbacks, self._open_model = ground, callbacks, open_model
        self._tidy_up = tidy_up
        self._background = Background(self._learn)
        self._way = Way()

    def turn_began(self) -> None:
        self._way.take()

    def make_conversation(self, parent: Mapping[str, object] | None) -> Conversation:
        return replace(self._ground.conversation, parent=parent)

    def turn_over(self) -> None:
        """It has ended, or was cancelled."""
        self._way.leave()

    def turn_ended(self, turn: Turn) -> bool:
        return self._background.turn_ended(turn)

    def wait(self, seconds: float) -> bool:
        self._way.leave()
        return self._background.drain(seconds)

    def finish_notes(self, messages: tuple[Message, ...]) -> str:
        """The notes with everything in them, as a conversation begins with them after it was shortened."""
        place = self._ground.find_notes_place()
        if place is None:
            return ""
        wait_for_update(place, NOTES_WAIT_SECONDS)
        news = self._make_news(messages, None)
        noted = self._note(news, self._open_model(), force=True)
        if noted is not None and noted.skipped is NotesSkip.FAILED:
            noted = self._note(news, None, force=True)
        if noted is None or noted.skipped not in (None, NotesSkip.NOTHING_NEW, NotesSkip.BUSY, NotesSkip.FAILED):
            return ""
        template = make_template(self._ground.notes_manner.template)
        notes = open_notes(read_notes_file(place), template)
        text = render_for_compaction(notes, path=str(place.path), template=template)
        return wrap(text) if text else ""

    def dream(self, force: bool, on_progress: OnProgress, cancelled: Cancelled) -> Dreamed:
        """Tidy the memory, if the gates are open or with `force`; another who does so already is no error."""
        ground = self._ground
        due = None if force else ground.find_due()
        if not ground.on or (due is not None and due.skip is not None):
            done = Dreamed(skipped=DreamSkip.OFF if due is None else due.skip, due=due)
        else:
            done = self._dream(on_progress, cancelled)
        if done.skipped is not None:
            tell(self._callbacks.skipped, DREAM, done.skipped)
        else:
            tell(self._callbacks.dreamed, done)
        return done

    def _dream(self, on_progress: OnProgress, cancelled: Cancelled) -> Dreamed:
        ground = self._ground
        try:
            return dream(
                ground.store,
                model=self._open_model(),
                now=ground.clock(),
                surroundings=ground.surroundings,
                on_progress=on_progress,
                cancelled=cancelled,
            )
        except LockedError:
            return Dreamed(skipped=DreamSkip.LOCKED)

    def _learn(self, turn: Turn) -> Extracted:
        try:
            # A run that is repeated has happened once.
            done = insist(lambda: self._learn_once(turn))
            tell_learned(self._callbacks, done)
        except MemdirError as error:
            tell(self._callbacks.error, error)
            done = Extracted(skipped=ExtractSkip.FAILED, error=str(error))
        if not turn.is_subagent:
            news = self._make_news(tuple(turn.messages), turn.conversation.parent)
            self._note(news, self._open_model(), force=False)
            self._refresh()
        self._tidy_up()
        return done

    def _learn_once(self, turn: Turn) -> Extracted:
        ground = self._ground
        return learn(
            ground.store,
            ground.file,
            turn,
            manner=ground.manner,
            model=self._open_model(),
            now=ground.clock(),
            seconds=DRAIN_SECONDS,
        )

    def _refresh(self) -> None:
        """Look again, now and then, at what memories claim of the project: recall tells what is no longer so."""
        opened = self._ground.opened
        if opened is None:
            return
        try:
            refresh_verdicts(opened, now=self._ground.clock(), give_way=self._way.give)
        except MemdirError as error:
            tell(self._callbacks.error, error)

    def _make_news(self, messages: tuple[Message, ...], parent: Mapping[str, object] | None) -> News:
        apart = tuple(str(store.root) for store in self._ground.stores)
        return News(messages, parent=parent, root=str(self._ground.cwd or ""), apart=apart)

    def _note(self, news: News, model: Model | None, *, force: bool) -> Noted | None:
        """Bring the notes up to date; None where none are kept, or nothing could be done."""
        ground, place = self._ground, self._ground.find_notes_place()
        if place is None or not ground.notes_manner.compacts:
            return None
        try:
            noted = update_notes(
                place,
                ground.file,
                news,
                now=ground.clock(),
                manner=ground.notes_manner,
                model=model,
                force=force,
            )
        except MemdirError as error:
            tell(self._callbacks.error, error)
            return None
        if noted.skipped not in (None, NotesSkip.NOT_DUE):
            tell(self._callbacks.skipped, NOTES, noted.skipped)
        return noted
