"""A host's conversation with its memory: everything a host needs, without a terminal.

    instructions, context            into the prompt, once
    prompt_arrived, take_reminders   a message arrives: recall runs in the background
    turn_ended                       the answer is given: extraction and notes run in the background
    clear, compact, close            the conversation restarts, is shortened, or ends

State that must outlive the process (shown and read memories, the cursor, private) is in the conversation's record on
disk, so a session with the same ID continues it. All methods are thread-safe. Nothing here prints, and only `recall`,
`wait`, `compact`, `dream`, `close` and `take_reminders` with seconds take noticeable time.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from memdir.conversation import instructions, notes, notes_file, project_files
from memdir.conversation.instructions import Instructions
from memdir.conversation.notes import NotesSkip
from memdir.conversation.project_files import LoadedFiles
from memdir.conversation.tool_calls import list_recent_tools
from memdir.conversation.transcripts import copy_plain, read_host_messages
from memdir.conversation.typed import strip_host_text
from memdir.dream import DreamDue, DreamResult, DreamSkip, dream, find_dream_context, find_due, find_due_in
from memdir.dream.by_model import NO_CONTEXT
from memdir.dream.records import Cancelled, OnProgress, never_cancelled, say_nothing
from memdir.errors import LockedError, MemdirError, ModelError, NotFoundError, SettingsError
from memdir.extraction import WHO, ConversationSource, ExtractReason, ExtractResult, ExtractSkip
from memdir.extraction.find import FORGET
from memdir.extraction.turns import EndedTurn, ExtractOptions, extract_turn, make_conversation, read_extract_options
from memdir.format.age import HALF_LIVES
from memdir.format.rules import find_rules
from memdir.format.shown import show_memory, wrap
from memdir.frozen import dataclass, replace
from memdir.limits import DRAIN_SECONDS, NOTES_WAIT_SECONDS
from memdir.models.connection import can_use_tools
from memdir.models.open import find_model, new_run
from memdir.operations.turn import QUICK_CHORES, TurnContext, do_chores
from memdir.operations.write import PartlyMeantError, WriteAction, WriteContext, WriteResult, forget_meant, remember
from memdir.project.settings import DEFAULT
from memdir.recall import pipeline
from memdir.recall.pipeline import RecallRequest, RecallResult, RecallSkip
from memdir.recall.prefetch import FreshSearch, ModelSelector, Prefetch
from memdir.recall.reminder import shorten_paths
from memdir.records import Message, Model, Origin, Reply, Request, Usage
from memdir.store.contract import Clock, StoreBase
from memdir.store.open import Project
from memdir.store.sessions import DAY, SessionFile, SessionRecord, read_day
from memdir.text import estimate_tokens

__all__ = ["Callbacks", "RenderedReminders", "Session", "SkipReason"]

log = logging.getLogger("memdir.session")
SkipReason = RecallSkip | ExtractSkip | NotesSkip | DreamSkip
Result = TypeVar("Result")

LOCAL, MODEL = "local", "model"  # selectors
_ASKED = "asked for by the person"
# Keys of the conversation's record: the number of clears, of clears and compactions, and the notes.
_CLEARS, _ERA, _NOTES = "clears", "era", "notes"
_ACTIONS = {
    WriteAction.CREATED: "create",
    WriteAction.CHANGED: "update",
    WriteAction.UNCHANGED: "unchanged",
    WriteAction.FORGOTTEN: FORGET,
    WriteAction.WAITING: "wait",
}
# The actions that are reported as written, forgotten and waiting.
_RESULTS = ((WriteAction.CREATED, WriteAction.CHANGED), (WriteAction.FORGOTTEN,), (WriteAction.WAITING,))
_LOCK_TRIES = 10
_TOOL_MESSAGES = 40  # the newest messages, in which to look for tools in use


@dataclass(frozen=True, slots=True)
class RenderedReminders:
    """Recalled memories, rendered as a text for the conversation with a block for each."""

    text: str
    recalled: RecallResult
    tokens: int

    @property
    def message(self) -> Message:
        """The text as a message that does not count as the user's own."""
        return Message("user", self.text, is_meta=True)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(excerpt.header.name for excerpt in self.recalled)


def ignore(*_: object) -> None:
    """Do nothing; the default callback."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The host's functions, called from the thread that did the work, possibly two at the same time.

    `skipped` receives the skipped step ("recall", "extract", "notes", "dream") and the reason, whose `.words` is a
    sentence. `cost` receives the usage of each model request, with dollars if the price is known, and its purpose.
    Errors raised by a callback are logged under `memdir.session` and do not stop the work.
    """

    saved: Callable[[ExtractResult], None] = ignore
    recalled: Callable[[RenderedReminders], None] = ignore
    skipped: Callable[[str, SkipReason], None] = ignore
    cost: Callable[[Usage, str], None] = ignore
    dreamed: Callable[[DreamResult], None] = ignore
    error: Callable[[MemdirError], None] = ignore


SILENT = Callbacks()


class Session:
    """A conversation with memory. Leaving this context manager waits for background work.

    `stores` is a store, several (the first is written to), or a Project, whose settings then apply; with stores alone
    the environment is not read. `model` defaults to the model of the project's settings, or built-in patterns. `cwd`
    is the host's working directory: instruction files are found from there, and extraction may read below it. `state`
    is the folder for records and locks if the first store has none. `notes_home` is the folder for session notes;
    without it the project's, and for stores alone no notes are kept. `selector` is "local" or "model". `keeps_index`:
    the host's tools write memories through a store, which keeps MEMORY.md.
    """

    def __init__(
        self,
        stores: StoreBase | Sequence[StoreBase] | Project,
        *,
        model: Model | None = None,
        id: str = "",
        state: Path | None = None,
        cwd: Path | None = None,
        notes_home: Path | None = None,
        callbacks: Callbacks = SILENT,
        clock: Clock | None = None,
        selector: str = "",
        compacts: bool = True,
        is_headless: bool = False,
        keeps_index: bool = False,
    ) -> None:
        if selector not in ("", LOCAL, MODEL):
            raise SettingsError(f"unknown selector {selector!r}", key="selector", hint=f"use {LOCAL} or {MODEL}")
        self._selector = selector or MODEL
        self._project = project = stores if isinstance(stores, Project) else None
        several = stores.stores if isinstance(stores, Project) else stores
        self.stores: tuple[StoreBase, ...] = tuple(several) if isinstance(several, Sequence) else (several,)
        if not self.stores:
            raise SettingsError("a session needs a store", key="stores", hint="pass memdir.FileStore(path)")
        self.id = id or os.urandom(16).hex()
        self._state, self._place = state, self.stores[0].open_workplace(state)
        self.file = SessionFile(self._place.state, self.id)  # the conversation's record on disk
        self._callbacks, self._is_headless, self._keeps_index = callbacks, is_headless, keeps_index
        self._clock, self._notes_home, self._model = clock or self.stores[0].clock, notes_home, model
        self._fast: Model | None = None  # selects memories, if the settings name another model for this
        self._tools: tuple[str, ...] = ()  # the names of the tools used in the last turns
        self._has_rules = False  # whether the host was given the standing rules
        if project is None:
            self._cwd = cwd
            self._on, self._recalls, self._paused, self._has_log = True, True, False, False
            self._extract_options, self._notes_options = ExtractOptions(), notes.NotesOptions(compacts=compacts)
        else:
            settings, root = project.settings, project.places.root.path
            self._clock, self._cwd = clock or project.clock, cwd or root
            self._on, self._recalls = project.places.switch.on, settings.flag("recall")
            self._paused, self._selector = settings.flag("paused"), selector or settings.text("selector")
            frame = instructions.find_frame(project)
            self._has_log = self._on and frame.mode is instructions.InstructionMode.DAILY_LOG
            self._extract_options = read_extract_options(project)
            self._notes_options = notes.read_notes_options(project, compacts=compacts)
            self._notes_home = notes_home or notes.find_home(project)
            with self._reporting_errors():
                if settings.sources["select_model"] != DEFAULT:
                    self._fast = find_model(settings, project.environment, project=str(root), key="select_model")
                if model is None and self._on:
                    self._model = find_model(settings, project.environment, project=str(root))
        self._lock = threading.RLock()
        self._instructions: Instructions | None = None
        self._files: LoadedFiles | None = None
        self._known_files: LoadedFiles | None = None  # with the files added by `note_read`
        record = self.file.read()
        self._day = read_day(record)
        self._era, self._clears = _read_count(record, _ERA), _read_count(record, _CLEARS)
        self._prefetch, self._model_prefetch = Prefetch(), Prefetch()  # with the index, and with a model if any
        self._late: RecallResult | None = None  # the model's result for an earlier message, which was too late for it
        self._background = BackgroundExtraction(self._process_turn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what goes into the prompt: the same until clear or compact, because a provider caches by it ------------------

    def instructions(self) -> str:
        """Return the memory instructions for the system prompt; they do not change until clear or compact."""
        return self._build_instructions().guidance

    def context(self) -> str:
        """Return the instruction files and index for the first message; they do not change until clear or compact."""
        self._has_rules = True
        return _wrap_parts(project_files.render_files(self._load_files()), self._build_instructions().index)

    def date_notice(self) -> str:
        """Return the date as a sentence, at the start of the conversation and when the day has changed, else ""."""
        now = self._clock()
        today = now.astimezone().date()
        with self._lock:
            last, self._day = self._day, today
        if last != today:
            self._save_facts({DAY: today.isoformat()})
        return instructions.render_date(last, now, logs=self._place.root if self._has_log else None)

    def rules_notice(self) -> str:
        """Return the standing rules if the conversation needs them, else "". Call it once for each message, before recall.

        Returns all rules the first time if `context` was not used, and a short form after many messages.
        """
        is_due, is_again, self._has_rules = self.file.is_rules_turn(), self._has_rules, True
        if not (self._on and self._recalls) or (is_again and not is_due):
            return ""
        rules = find_rules(header for store in self.stores for header in store.scan())
        return instructions.render_rules(rules, is_again=is_again)

    def note_read(self, paths: Iterable[Path]) -> str:
        """Record that the agent has read these files, so that memories among them are not shown again.

        Returns the text of instruction files that apply to these files and are not in the conversation yet.
        """
        files_read = [Path(path) for path in paths]
        keys = [key for path in files_read if (key := pipeline.find_key(self.file, self.stores, path)) is not None]
        if keys and self._on:
            with self._reporting_errors():
                retry(lambda: self.file.note_read(keys))
        project = self._project
        if project is None or not files_read:
            return ""
        with self._lock:
            known = self._known_files or self._load_files()
            cwd, approved = self._cwd or project.places.root.path, project_files.find_approved(project.private)
            added = project_files.load_for_reads(
                project.environment, project.places, cwd, files_read, known, approved=approved
            )
            loaded = {file.real for file in added.files}
            pending = {rule.real: rule for rule in (*known.pending, *added.pending) if rule.real not in loaded}
            self._known_files = replace(known, files=(*known.files, *added.files), pending=tuple(pending.values()))
        return _wrap_parts(project_files.render_files(added))

    # --- a message arrives ------------------------------------------------------------------------------------------

    def recall(self, text: str, *, tools: Sequence[str] = (), limit: int | None = None) -> RecallResult:
        """Recall the memories for a message in this thread and return them. They count as shown."""
        request = replace(self._make_request(text, tools, trusts=False), limit=limit)
        result = pipeline.record_recall(pipeline.find_recalled(request), request)
        self._render_recalled(result, request.now)
        return result

    def prompt_arrived(self, text: str, *, tools: Sequence[str] = ()) -> None:
        """Start recall for a message in the background; never waits.

        `tools` are the names of the tools in use, by default those of the last turn that ended.
        """
        with self._reporting_errors():
            if (late := self._model_prefetch.take()) is not None and late.memories:
                self._late = late
        self._prefetch.cancel()
        self._model_prefetch.cancel()
        if self._on:
            request = replace(self._make_request(text, tools, trusts=True), has_rules=self._has_rules)
            self._prefetch.start(replace(request, selector=self._make_search(trusts=True)))
            if isinstance(request.selector, ModelSelector):
                self._model_prefetch.start(request)
        else:
            _notify(self._callbacks.skipped, "recall", RecallSkip.OFF)

    def take_reminders(self, *, seconds: float = 0) -> RenderedReminders | None:
        """Return the recalled memories for the last message once, or None if they are not ready or there are none.

        A host that can ask only once, such as one without tools, passes the seconds it can wait. If a model selects
        and is not ready by then, these are the certain matches from the index. The model's selection follows with a
        later call or the next message.
        """
        with self._reporting_errors():
            if (result := self._model_prefetch.take(seconds)) is None:
                result = self._prefetch.take(seconds)
            else:
                self._prefetch.cancel()
            late, self._late = self._late, None
            if late is not None:
                result = late if result is None or not result.memories else _join(late, result)
            if result is not None:
                return self._render_recalled(result, self._clock())
        return None

    def cancel_turn(self) -> None:
        """Cancel the running recall because the user stopped the turn; its memories do not count as shown."""
        self._prefetch.cancel()
        self._model_prefetch.cancel()

    # --- a turn ends ------------------------------------------------------------------------------------------------

    def turn_ended(
        self, messages: Sequence[object], *, parent: Mapping[str, object] | None = None, is_subagent: bool = False
    ) -> bool:
        """Extract memories from the conversation so far, in the background. Return whether a run started immediately.

        `messages` are all messages, as `Message` records, dicts in a provider's format, or SDK objects. `parent` is
        the body of the last request as the host sent it, with the answer appended to its messages. Extraction then
        continues that request, so that the provider reads nearly all of it from its cache.
        `memdir.models.open.render_parent` makes it for a request to one of memdir's models.
        """
        self._prefetch.cancel()  # the model's selection is kept for the next message
        if not self._on:
            _notify(self._callbacks.skipped, "extract", ExtractSkip.OFF)
            return False
        source = ConversationSource(project=self._cwd, others=self.stores[1:])
        if self._project is not None:
            source = make_conversation(self._project)
        source = replace(source, parent=copy_plain(parent))
        new_messages = read_host_messages(messages, self._era)
        self._tools = list_recent_tools(new_messages[-_TOOL_MESSAGES:])
        turn = EndedTurn(new_messages, is_headless=self._is_headless, is_subagent=is_subagent, conversation=source)
        return self._background.turn_ended(turn)

    def wait(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait for background work; return whether it is finished."""
        return self._background.drain(seconds)

    # --- by request -------------------------------------------------------------------------------------------------

    def remember(self, text: str) -> ExtractResult:
        """Save a text, or delete what it asks to forget, without a model. Raises MemdirError if that is not allowed."""
        if not self._on or self.is_private:
            result = ExtractResult(skipped=ExtractSkip.PRIVATE if self._on else ExtractSkip.OFF)
        else:
            try:
                result = _describe_write(remember(self.stores, text, self._make_context()), text)
            except NotFoundError as error:
                name = error.name if isinstance(error, PartlyMeantError) else ""
                result = ExtractResult(by="rules", reasons=(ExtractReason(name, "unclear", _ASKED, text),))
        self._report_extracted(result)
        return result

    def forget(self, text: str) -> ExtractResult:
        """Delete a memory by its name or subject. Raises NotFoundError if none clearly matches."""
        try:
            result = _describe_write(forget_meant(self.stores, text, self._make_context()), text)
        except PartlyMeantError:
            raise
        except NotFoundError:
            raise NotFoundError("no memory, or several, match this text", name=text, hint="pass its name") from None
        self._report_extracted(result)
        return result

    @property
    def is_private(self) -> bool:
        return self.file.read().private

    def set_private(self, on: bool = True) -> None:
        """Stop or resume recall, extraction and notes in this conversation."""
        if self._on:
            retry(lambda: self.file.set_private(on))

    def set_model(self, model: Model | None) -> None:
        """Use another model from now on, or none."""
        with self._lock:
            self._model = model

    def dream(
        self, *, force: bool = False, on_progress: OnProgress = say_nothing, cancelled: Cancelled = never_cancelled
    ) -> DreamResult:
        """Consolidate the memory in this thread, if it is due or `force` is true. One `undo` reverts it."""
        due = None if force else self._find_due()
        if not self._on or (due is not None and due.skip is not None):
            result = DreamResult(skipped=DreamSkip.OFF if due is None else due.skip)
        else:
            try:
                context = NO_CONTEXT if self._project is None else find_dream_context(self._project)
                model, now = self._open_model(), self._clock()
                options: dict[str, Any] = {"state": self._state, "context": context, "cancelled": cancelled}
                result = dream(self.stores[0], model=model, now=now, on_progress=on_progress, **options)
            except LockedError:
                result = DreamResult(skipped=DreamSkip.LOCKED)
        if result.skipped is not None:
            _notify(self._callbacks.skipped, "dream", result.skipped)
        else:
            _notify(self._callbacks.dreamed, result)
        return result

    # --- the conversation is shortened, or ends ---------------------------------------------------------------------

    def clear(self) -> None:
        """Start a new conversation with the same ID and new notes. A private conversation stays private."""
        self._start_over(cleared=True)

    def compact(self, messages: Sequence[object] = ()) -> str:
        """Return the text with which the shortened conversation begins, or "" if there are no notes.

        Notes are updated with `messages` first. Afterwards memories may be shown again.
        """
        text = ""
        if self._on:
            self.wait(NOTES_WAIT_SECONDS)
            text = self._finish_notes(read_host_messages(messages, self._era))
        self._start_over(cleared=False)
        return text

    def close(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait for background work and return whether it finished. The stores stay open."""
        self.cancel_turn()
        return self.wait(seconds)

    # --- inside: the prompt, the record -----------------------------------------------------------------------------

    def _build_instructions(self) -> Instructions:
        with self._lock:
            if self._instructions is None:
                where = self._project or self.stores
                self._instructions = instructions.build_instructions(where, keeps_index=self._keeps_index)
            return self._instructions

    def _load_files(self) -> LoadedFiles:
        project = self._project
        if project is None:
            return LoadedFiles()
        with self._lock:
            if self._files is None:
                cwd, approved = self._cwd or project.places.root.path, project_files.find_approved(project.private)
                self._files = project_files.load_project_files(
                    project.environment, project.places, cwd, approved=approved
                )
                if self._on:
                    project_files.ask_approval(project.private, self._files.asks, self._clock(), session=self.id)
            return self._files

    def _start_over(self, *, cleared: bool) -> None:
        self.cancel_turn()
        if self._on:
            retry(lambda: self.file.reset(cleared=cleared))
        with self._lock:
            self._instructions, self._has_rules = None, False
            self._files = self._known_files = None
            self._day = None  # the message that contained the date was removed
            self._era, self._clears = self._era + 1, self._clears + cleared
            facts: dict[str, object] = {_ERA: self._era, _CLEARS: self._clears, DAY: None}
        self._save_facts(facts | ({_NOTES: None} if cleared else {}))

    def _save_facts(self, facts: Mapping[str, object]) -> None:
        if self._on:
            with suppress(MemdirError):  # this process knows the values even if the disk is not writable
                retry(lambda: self.file.change(lambda record: replace(record, extra={**record.extra, **facts})))

    # --- inside: recall and requests --------------------------------------------------------------------------------

    def _make_request(self, text: str, tools: Sequence[str], *, trusts: bool) -> RecallRequest:
        search = self._make_search(trusts=trusts)
        model = self._open_model(fast=True) if self._selector == MODEL else None
        return RecallRequest(
            self.stores,
            strip_host_text(text),
            search if model is None else ModelSelector(model, search.select),
            self._clock(),
            self.file if self._on else None,
            tuple(tools) or self._tools,
            on=self._on and self._recalls,
            paused=self._paused,
            is_message=True,
        )

    def _make_search(self, *, trusts: bool) -> FreshSearch:
        half_lives = HALF_LIVES if self._project is None else self._project.settings.half_lives()
        return FreshSearch(self.stores, half_lives, trusts=trusts)

    def _render_recalled(self, result: RecallResult, now: datetime) -> RenderedReminders | None:
        """Report a recall to the host and render it; None if there are no memories."""
        if not result.memories:
            if result.skipped is not None:
                _notify(self._callbacks.skipped, "recall", result.skipped)
            return None
        home = "" if self._project is None else self._project.environment.home
        text = "\n".join(wrap(show_memory(excerpt, now=now)) for excerpt in shorten_paths(result, home))
        reminders = RenderedReminders(text, result, estimate_tokens(text))
        _notify(self._callbacks.recalled, reminders)
        return reminders

    def _make_context(self) -> WriteContext:
        # The origin is extraction, not the agent, so that the rest of the turn is still extracted.
        return WriteContext(Origin(WHO, _ASKED, self.id), self._clock())

    # --- inside: the background -------------------------------------------------------------------------------------

    def _process_turn(self, turn: EndedTurn) -> None:
        """Extract memories, then run the quick maintenance steps. An error in one step does not stop the next."""
        with self._reporting_errors():
            options, now, model = self._extract_options, self._clock(), self._open_model()
            limits: dict[str, Any] = {"options": options, "model": model, "now": now, "seconds": DRAIN_SECONDS}
            # Wait until other conversations have finished extracting, because this turn may be the last one.
            result = retry(lambda: extract_turn(self.stores[0], self.file, turn, place=self._place, **limits))
            self._report_extracted(result)
        context = TurnContext(
            self.stores,
            self.file.state,
            self._clock,
            self.id,
            self._project,
            notes=[lambda: self._update_notes(turn.messages, self._open_model())],
        )
        # A subagent's messages are not part of the notes, and nothing it says needs to be verified.
        chores = QUICK_CHORES[2:] if turn.is_subagent else QUICK_CHORES
        do_chores(context, lambda _, error: _notify(self._callbacks.error, error), chores)

    def _find_notes_file(self) -> notes.NotesFile | None:
        if self._notes_home is None:
            return None
        clears = _read_count(self.file.read(), _CLEARS)
        return notes.find_notes_file(self._notes_home, f"{self.id}-{clears}" if clears else self.id)

    def _update_notes(
        self, messages: Sequence[Message], model: Model | None, *, force: bool = False
    ) -> notes.NotesResult | None:
        """Update the notes and return the result, or None if no notes are kept or the update failed."""
        file = self._find_notes_file()
        if file is None or not self._notes_options.compacts:
            return None
        with self._reporting_errors():
            now, options = self._clock(), self._notes_options
            result = notes.update_notes(file, self.file, messages, now=now, options=options, model=model, force=force)
            if result.skipped not in (None, NotesSkip.NOT_DUE):
                _notify(self._callbacks.skipped, "notes", result.skipped)
            return result
        return None

    def _finish_notes(self, messages: Sequence[Message]) -> str:
        """Update the notes with all messages, and return them as the start of the shortened conversation."""
        file = self._find_notes_file()
        if file is None:
            return ""
        notes.wait_for_update(file, NOTES_WAIT_SECONDS)
        result = self._update_notes(messages, self._open_model(), force=True)
        if result is None or result.skipped not in (None, NotesSkip.NOTHING_NEW, NotesSkip.BUSY, NotesSkip.FAILED):
            return ""
        template = notes_file.make_template(self._notes_options.template)
        open_notes = notes_file.open_notes(notes.read_notes_file(file), template)
        return _wrap_parts(notes_file.render_for_compaction(open_notes, path=str(file.path), template=template))

    def _find_due(self) -> DreamDue:
        if self._project is not None:
            return find_due(self._project, now=self._clock(), session=self.id)
        return find_due_in(self._place, now=self._clock(), session=self.id)

    def _open_model(self, *, fast: bool = False) -> Model | None:
        """Return the model for one run, with its own budget. With `fast`, return the model that selects memories."""
        with self._lock:
            model = self._fast if fast and self._fast and self._model else self._model
        return None if model is None else _ReportedModel(new_run(model), self._callbacks)

    @contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except MemdirError as error:
            _notify(self._callbacks.error, error)

    def _report_extracted(self, result: ExtractResult) -> None:
        if result.written or result.forgotten or result.waiting:
            _notify(self._callbacks.saved, result)
        if result.skipped is not None:
            _notify(self._callbacks.skipped, "extract", result.skipped)
        if result.error:
            _notify(self._callbacks.error, MemdirError(result.error))


class BackgroundExtraction:
    """Runs `process` for one ended turn at a time, in a thread.

    Of the turns that end during a run, only the latest is kept, because its messages contain those of earlier turns.
    """

    def __init__(self, process: Callable[[EndedTurn], object]) -> None:
        self._process = process
        self._changed = threading.Condition()
        self._next: EndedTurn | None = None
        self._is_running = False

    def turn_ended(self, turn: EndedTurn) -> bool:
        """Process a turn as soon as possible; return whether a run started now."""
        with self._changed:
            if not self._is_running:
                self._start(turn)
                return True
            # Nothing is extracted from a subagent's turn, so it must not replace the agent's own.
            if self._next is None or not turn.is_subagent:
                self._next = turn
            return False

    def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait for running work; return whether it is finished."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, timeout=seconds)

    def _start(self, turn: EndedTurn) -> None:
        # Each turn has its own thread, so that an unexpected exception does not stop later turns.
        self._is_running = True
        threading.Thread(target=self._run, args=(turn,), name="memdir-learning", daemon=True).start()

    def _run(self, turn: EndedTurn) -> None:
        try:
            self._process(turn)
        finally:
            with self._changed:
                following, self._next, self._is_running = self._next, None, False
                if following is not None:
                    self._start(following)
                self._changed.notify_all()


class _ReportedModel:
    """A model that reports the usage of each request to the host."""

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
                _notify(self._callbacks.cost, error.usage, request.purpose)
            raise
        _notify(self._callbacks.cost, reply.usage, request.purpose)
        return reply


def retry(step: Callable[[], Result]) -> Result:
    """Repeat a step a few times while another process holds the lock, because hosts can wait longer than hooks."""
    for _ in range(_LOCK_TRIES - 1):
        try:
            return step()
        except LockedError:
            continue
    return step()


def _notify(callback: Callable[..., None], *values: object) -> None:
    try:
        callback(*values)
    except Exception:
        log.exception("a callback of the host failed")


def _join(first: RecallResult, second: RecallResult) -> RecallResult:
    memories, owners = (*first.memories, *second.memories), (*first.owners, *second.owners)
    return replace(second, memories=memories, owners=owners)


def _describe_write(result: WriteResult, quote: str) -> ExtractResult:
    """Convert the result of a requested write to an extraction result."""
    text = result.memory.text if result.memory and result.action is not WriteAction.UNCHANGED else ""
    reason = ExtractReason(result.name, _ACTIONS[result.action], _ASKED, quote, text)
    written, forgotten, waiting = ((result.name,) if result.action in actions else () for actions in _RESULTS)
    return ExtractResult(written, forgotten, waiting, by="rules", change=result.change, reasons=(reason,))


def _wrap_parts(*parts: str) -> str:
    """Return the parts in the block that hosts use for text the user did not write, or "" if all are empty."""
    text = "\n".join(part for part in parts if part)
    return wrap(text) if text else ""


def _read_count(record: SessionRecord, key: str) -> int:
    value = record.extra.get(key)
    return value if type(value) is int and value > 0 else 0
