"""A conversation of a host with its memory: everything a host wires, without a terminal.

    instructions, context            into the prompt, once
    prompt_arrived, take_reminders   a message comes: recall beside the model's work
    turn_ended                       the answer is given: extraction and notes in the background
    clear, compact, close            the conversation begins anew, is shortened, ends

State that must outlive the process (what was surfaced and read, the cursor, private) is in the conversation's record on
disk, so the same id goes on where it was. Everything may be called from any thread; nothing here prints, and only
`recall`, `wait`, `compact`, `dream`, `close` and a `take_reminders` that was given seconds take their time.

The rooms: telling (callbacks), plain (hosts' messages), ground (stores and settings), recalling, asked (remember and
forget by request), shown (what goes into the prompt), working (what goes on behind the conversation).
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from memdir.conversing import asked, plain
from memdir.conversing.ground import find_ground, insist
from memdir.conversing.recalling import Recalling
from memdir.conversing.shown import Shown
from memdir.conversing.telling import EXTRACT, SILENT, Callbacks, Reminders, SkipReason, Watched, tell, tell_learned
from memdir.conversing.working import Working
from memdir.dream import Dreamed
from memdir.dream.progress import Cancelled, OnProgress, go_on, say_nothing
from memdir.errors import MemdirError
from memdir.extract_gates import ExtractSkip
from memdir.extracted import Extracted
from memdir.learning import Turn
from memdir.limits import DRAIN_SECONDS, NOTES_WAIT_SECONDS
from memdir.models import find_model, new_run
from memdir.opening import Opened
from memdir.recall import Recalled, find_key
from memdir.records import Model
from memdir.session import SessionFile
from memdir.store.contract import Clock
from memdir.store.files import FileStore

__all__ = ["Callbacks", "Reminders", "Session", "SkipReason"]


class Session:
    """One conversation. A context manager: leaving it waits for what is under way.

    `stores` is a store, several (the project's first: it is the one that is written to), or an Opened, whose settings
    are heard then. `model` is the one that helps; without one rules work alone, or the model of the settings. `cwd` is
    where the host works: instruction files are found from there, and extraction may look into it. `notes_home` is the
    folder for session notes; a place's own with an Opened, else none are kept. `selector` is "local" or "model".
    """

    def __init__(
        self,
        stores: FileStore | Sequence[FileStore] | Opened,
        *,
        model: Model | None = None,
        id: str = "",
        cwd: Path | None = None,
        notes_home: Path | None = None,
        callbacks: Callbacks = SILENT,
        clock: Clock | None = None,
        selector: str = "",
        compacts: bool = True,
        is_headless: bool = False,
    ) -> None:
        self._ground = find_ground(
            stores, id=id, cwd=cwd, notes_home=notes_home, clock=clock, selector=selector, compacts=compacts
        )
        self._callbacks = callbacks
        self._is_headless = is_headless
        self._lock = threading.Lock()
        self._model = self._find_model() if model is None else model
        self._recalling = Recalling(self._ground, callbacks, self._open_model)
        self._shown = Shown(self._ground)
        self._work = Working(self._ground, callbacks, self._open_model, self._recalling.look_again)

    @property
    def id(self) -> str:
        return self._ground.file.id

    @property
    def stores(self) -> tuple[FileStore, ...]:
        return self._ground.stores

    @property
    def file(self) -> SessionFile:
        """The conversation's record on disk."""
        return self._ground.file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what goes into the prompt ----------------------------------------------------------------------------------

    def instructions(self) -> str:
        """How the agent uses its memory: for the system prompt, the same bytes until clear or compact, no date."""
        return self._shown.instructions()

    def context(self) -> str:
        """Instruction files and the memory's index, for the first message of the conversation; as stable."""
        return self._shown.context()

    def date_notice(self) -> str:
        """A sentence for the conversation when the day has changed since it was last asked for; else nothing."""
        return self._shown.date_notice()

    def note_read(self, paths: Iterable[Path]) -> str:
        """The agent has read these files itself: memories among them are not told again.

        Answers the instruction files that reading them adds, if any, as text for the conversation.
        """
        found = [Path(path) for path in paths]
        keys = [key for path in found if (key := find_key(self.file, self.stores, path)) is not None]
        if keys and self._ground.on:
            try:
                insist(lambda: self.file.note_read(keys))
            except MemdirError as error:
                tell(self._callbacks.error, error)
        return self._shown.note_read(found)

    # --- a message arrives ------------------------------------------------------------------------------------------

    def recall(self, text: str, *, tools: Sequence[str] = ()) -> Recalled:
        """The memories for a message, now and in this thread; they count as surfaced."""
        return self._recalling.recall(text, tools)

    def prompt_arrived(self, text: str, *, tools: Sequence[str] = ()) -> None:
        """Begin to recall for what the person typed, beside whatever the host does next; never waits."""
        self._work.turn_began()
        self._recalling.start(text, tools)

    def take_reminders(self, *, seconds: float = 0) -> Reminders | None:
        """What the recall for this message brought, once; None if it is not ready or there is nothing.

        A host with one chance only, such as one without tools, waits for it as many seconds as it can spare.
        """
        return self._recalling.take(seconds)

    def cancel_turn(self) -> None:
        """The person stopped the turn: what was being recalled is dropped and does not count as surfaced."""
        self._recalling.cancel()
        self._work.turn_over()

    # --- a turn ends ------------------------------------------------------------------------------------------------

    def turn_ended(
        self,
        messages: Sequence[object],
        *,
        parent: Mapping[str, object] | None = None,
        is_subagent: bool = False,
    ) -> bool:
        """Learn from the conversation so far, in the background; answers whether a run began at once.

        `messages` are all of them, as memdir's, as tables in a provider's shape, or as its SDK's objects. `parent` is
        the body of the last request as the host sent it, with the answer after its messages: then extraction and notes
        go on from there, and read nearly all of it from the provider's cache. A host that asks one of memdir's models
        has it from `memdir.models.render_parent`.
        """
        self.cancel_turn()
        if not self._ground.on:
            tell(self._callbacks.skipped, EXTRACT, ExtractSkip.OFF)
            return False
        conversation = self._work.make_conversation(plain.copy_plain(parent))
        talk = self._shown.read_messages(messages)
        turn = Turn(talk, is_headless=self._is_headless, is_subagent=is_subagent, conversation=conversation)
        return self._work.turn_ended(turn)

    def wait(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait until nothing is under way; answers whether that is so now."""
        return self._work.wait(seconds)

    # --- by request -------------------------------------------------------------------------------------------------

    def remember(self, text: str) -> Extracted:
        """Keep what the person says, by rules, now. Raises MemdirError for what may not be kept."""
        if skip := self._find_shut():
            return self._tell_asked(Extracted(skipped=skip))
        now = self._ground.clock()
        return self._tell_asked(asked.remember(self._ground.store, text, now=now.astimezone(), session=self.id))

    def forget(self, text: str) -> Extracted:
        """Forget a memory by its name, or by what it is about. Raises NotFoundError if none is clearly meant."""
        now = self._ground.clock()
        return self._tell_asked(asked.forget(self.stores, text, now=now.astimezone(), session=self.id))

    @property
    def is_private(self) -> bool:
        return self.file.read().private

    def set_private(self, on: bool = True) -> None:
        """From now on nothing is recalled, learned or noted in this conversation, or again."""
        if self._ground.on:
            insist(lambda: self.file.set_private(on))

    def set_model(self, model: Model | None) -> None:
        """Another model helps from now on, or none."""
        with self._lock:
            self._model = model

    def dream_due(self) -> bool:
        """Whether it is time to tidy the memory."""
        return self._ground.on and self._ground.find_due().is_due

    def dream(
        self, *, force: bool = False, on_progress: OnProgress = say_nothing, cancelled: Cancelled = go_on
    ) -> Dreamed:
        """Tidy the memory if that is due, or with `force` in any case; in this thread. One `undo` takes it back."""
        return self._work.dream(force, on_progress, cancelled)

    # --- the conversation is shortened, or ends ---------------------------------------------------------------------

    def clear(self) -> None:
        """A new conversation begins under the same id, with notes of its own; a private one stays private."""
        self._begin_anew(cleared=True)

    def compact(self, messages: Sequence[object] = ()) -> str:
        """The conversation is about to be shortened: answers what the new one begins with, empty if nothing is noted.

        Notes are brought up to date with `messages` first. After it memories may be surfaced again.
        """
        text = ""
        if self._ground.on:
            self._work.wait(NOTES_WAIT_SECONDS)
            text = self._work.finish_notes(self._shown.read_messages(messages))
        self._begin_anew(cleared=False)
        return text

    def close(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait for what is under way; answers whether all of it is done. Stores stay open, and are the host's."""
        self.cancel_turn()
        return self._work.wait(seconds)

    # --- inside -----------------------------------------------------------------------------------------------------

    def _find_model(self) -> Model | None:
        opened = self._ground.opened
        if opened is None or not self._ground.on:
            return None
        try:
            return find_model(opened.settings, opened.environment, project=str(opened.places.root.path))
        except MemdirError as error:
            tell(self._callbacks.error, error)
            return None

    def _open_model(self) -> Model | None:
        """The model for one run, with a budget of its own, whose cost is told."""
        with self._lock:
            model = self._model
        return None if model is None else Watched(new_run(model), self._callbacks)

    def _find_shut(self) -> ExtractSkip | None:
        if not self._ground.on:
            return ExtractSkip.OFF
        return ExtractSkip.PRIVATE if self.is_private else None

    def _tell_asked(self, done: Extracted) -> Extracted:
        tell_learned(self._callbacks, done)
        return done

    def _begin_anew(self, *, cleared: bool) -> None:
        self.cancel_turn()
        if self._ground.on:
            insist(lambda: self.file.reset(cleared=cleared))
        self._shown.begin_anew(cleared=cleared)
