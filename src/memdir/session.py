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

import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from memdir import guard
from memdir.conversation import notes
from memdir.conversation.gemini import make_messages
from memdir.conversation.instructions import (
    InstructionMode,
    Instructions,
    InstructionsCache,
    build_instructions,
    find_frame,
    session_instructions,
)
from memdir.conversation.notes import NotesInput, NotesResult, NotesSkip, read_notes_file, update_notes, wait_for_update
from memdir.conversation.notes_file import make_template, open_notes, render_for_compaction
from memdir.conversation.project_files import (
    LoadedFiles,
    ask_approval,
    find_approved,
    load_for_reads,
    load_project_files,
    render_files,
)
from memdir.dream import (
    NOWHERE,
    DreamContext,
    DreamDue,
    DreamResult,
    DreamSkip,
    dream,
    find_due,
    find_due_in,
    find_surroundings,
)
from memdir.dream.logs import find_date_change
from memdir.dream.records import Cancelled, OnProgress, go_on, say_nothing
from memdir.errors import ConflictError, LockedError, MemdirError, ModelError, NotFoundError, SettingsError
from memdir.extraction import WHO, ConversationSource, ExtractReason, ExtractResult, ExtractSkip, turns
from memdir.extraction.find import FORGET, SAVE, Placement, Wanted, find_wishes
from memdir.extraction.turns import EndedTurn, extract_turn
from memdir.extraction.word import compose_memory, place
from memdir.format.age import HALF_LIVES, HalfLives
from memdir.frozen import dataclass, replace
from memdir.guard import Stat
from memdir.language.grammar import RequestCategory
from memdir.limits import DRAIN_SECONDS, NOTES_WAIT_SECONDS
from memdir.models import find_model, new_run
from memdir.models.connection import can_use_tools
from memdir.models.staged import Staging, make_edits
from memdir.recall import RecallRequest, RecallResult, RecallSkip, account, find_key, find_recalled
from memdir.recall.find import read_half_lives, strip_host_text
from memdir.recall.reminder import render_reminder, wrap
from memdir.recall.select import LocalSearch, list_signatures, make_model_selector
from memdir.records import Header, Message, Model, Origin, Pick, Query, Reply, Request, Scope, Usage
from memdir.store.contract import Clock, Store
from memdir.store.files import FileStore
from memdir.store.memory import find_header
from memdir.store.open import Project
from memdir.store.sessions import SessionFile, SessionRecord, open_session
from memdir.text import estimate_tokens
from memdir.verify import refresh_verdicts

__all__ = [
    "Callbacks",
    "RenderedReminders",
    "Session",
    "SkipReason",
]


# --- asked ---
# What a person asks of memory in so many words: remember this, forget that. By rules, at once, without a model.
#
# `remember` words a text as a memory and lets it meet what is there; `forget` takes a memory's name, or says what it
# is
# about. Both are one change each, which `memdir undo` takes back.

REMEMBER = "remember"
_ASKED = "asked for by the person"
_BY = "rules"
_RETRIES = 3  # when somebody else changed the same memory between planning and writing


def remember(store: FileStore, text: str, *, now: datetime, session: str) -> ExtractResult:
    """Keep what somebody says; raises FormatError for what recall could not find again, or what looks like a secret."""
    draft = compose_memory(text, now=now)
    wish = Wanted(RequestCategory.REQUEST, SAVE, draft.kind, draft.title, draft.description, draft.body, text)
    return _carry_out(store, wish, REMEMBER, now, session)


def forget_now(stores: Sequence[FileStore], text: str, *, now: datetime, session: str) -> ExtractResult:
    """Forget the memory of that name, or the one that is meant; raises NotFoundError where none clearly is."""
    for store in stores:
        try:
            name = find_header(store.scan(), text).name
        except NotFoundError:
            continue
        store.delete(name, origin=_make_origin(session))
        change = store.changes(name, limit=1)[0].id
        return ExtractResult(
            forgotten=(name,), by=_BY, change=change, reasons=(ExtractReason(name, FORGET, _ASKED, text),)
        )
    wish = _make_forget(text, now)
    for store in stores:
        done = _carry_out(store, wish, FORGET, now, session)
        if done.change is not None:
            return done
    raise NotFoundError("it is not clear which memory is meant", name=text, hint="say its name")


def _make_forget(text: str, now: datetime) -> Wanted:
    """The wish in a sentence that has one, else the whole text as what is to go."""
    said = find_wishes([Message("user", text)], now=now)
    found = next((wish for wish in said if wish.action == FORGET), None)
    return found or Wanted(RequestCategory.FORGET, FORGET, None, text, text, text, text)


def _carry_out(store: FileStore, wish: Wanted, verb: str, now: datetime, session: str) -> ExtractResult:
    for _ in range(_RETRIES):
        try:
            return _try_once(store, wish, verb, now, session)
        except ConflictError:
            continue
    return _try_once(store, wish, verb, now, session)


def _try_once(store: FileStore, wish: Wanted, verb: str, now: datetime, session: str) -> ExtractResult:
    staging = Staging(store, now=now)
    placed = place(wish, staging)
    staged = staging.staged
    changed = store.change(make_edits(staged), verb=verb, origin=_make_origin(session)) if staged else None
    texts = {at.name: at.text or "" for at in staged}
    return ExtractResult(
        written=tuple(at.name for at in staged if at.text is not None),
        forgotten=tuple(at.name for at in staged if at.text is None),
        by=_BY,
        change=None if changed is None else changed.change,
        reasons=tuple(_make_reason(at, texts.get(at.name, "")) for at in placed),
    )


def _make_reason(placed: Placement, text: str) -> ExtractReason:
    return ExtractReason(placed.name, placed.action, _ASKED, placed.quote, text)


def _make_origin(session: str) -> Origin:
    """Not as another's write: the rest of the turn is still to be learned from."""
    return Origin(WHO, _ASKED, session)


# --- ground ---
# What a conversation stands on: its stores, its record on disk, and what the settings say of each part.
#
# From an Opened every setting of the place is heard. From stores alone nothing of the environment is read: recall and
# extraction are on, notes are kept only in a folder that the host names, and there is no model but the one it gives.

LOCAL, MODEL = "local", "model"
_TRIES = 10  # of half a second each
Done = TypeVar("Done")
CLEARS, ERA = "clears", "era"  # in the conversation's record: how often it was cleared, and cleared or compacted


@dataclass(frozen=True, slots=True)
class SessionContext:
    """All that does not change while a conversation lasts. `on` is the switch over everything."""

    stores: tuple[FileStore, ...]
    opened: Project | None
    file: SessionFile
    clock: Clock
    cwd: Path | None
    manner: turns.ExtractOptions
    notes_manner: notes.NotesOptions
    notes_home: Path | None
    selector: str = LOCAL
    on: bool = True
    recalls: bool = True
    paused: bool = False
    is_logging: bool = False

    @property
    def store(self) -> FileStore:
        """The one that is written to."""
        return self.stores[0]

    @property
    def conversation(self) -> ConversationSource:
        if self.opened is not None:
            return turns.make_conversation(self.opened)
        return ConversationSource(project=self.cwd)

    @property
    def half_lives(self) -> HalfLives:
        return HALF_LIVES if self.opened is None else read_half_lives(self.opened.settings)

    @property
    def surroundings(self) -> DreamContext:
        return NOWHERE if self.opened is None else find_surroundings(self.opened)

    def find_notes_place(self) -> notes.NotesFile | None:
        """Where this conversation's notes lie; one that was cleared has begun new ones."""
        if self.notes_home is None:
            return None
        clears = read_count(self.file.read(), CLEARS)
        return notes.find_notes_file(self.notes_home, f"{self.file.id}-{clears}" if clears else self.file.id)

    def find_due(self) -> DreamDue:
        now = self.clock()
        if self.opened is not None:
            return find_due(self.opened, now=now, session=self.file.id)
        return find_due_in(self.store, now=now, session=self.file.id)


def insist(step: Callable[[], Done]) -> Done:
    """Do it, again and again while the conversation's record is held: a hook may not wait for it longer, a host may."""
    for _ in range(_TRIES - 1):
        try:
            return step()
        except LockedError:
            continue
    return step()


def read_count(record: SessionRecord, key: str) -> int:
    """A number that the conversation's record holds; 0 if it holds none."""
    value = record.extra.get(key)
    return value if type(value) is int and value > 0 else 0


def make_session_context(
    where: FileStore | Sequence[FileStore] | Project,
    *,
    id: str,
    cwd: Path | None,
    notes_home: Path | None,
    clock: Clock | None,
    selector: str,
    compacts: bool,
) -> SessionContext:
    """The ground of a conversation with that id; one is made if it is empty."""
    if selector not in ("", LOCAL, MODEL):
        raise SettingsError(f"there is no selector {selector!r}", key="selector", hint=f"{LOCAL} or {MODEL}")
    id = id or os.urandom(16).hex()
    if isinstance(where, Project):
        return _find_here(where, id, cwd, notes_home, clock, selector, compacts)
    stores = tuple(where) if isinstance(where, Sequence) else (where,)
    if not stores:
        raise SettingsError("a session needs a store", key="stores", hint="memdir.open_store(path) opens one")
    return SessionContext(
        stores,
        None,
        open_session(stores[0].state, id),
        clock or stores[0].clock,
        cwd,
        turns.PLAINLY,
        notes.NotesOptions(compacts=compacts),
        notes_home,
        selector or LOCAL,
    )


def _find_here(
    opened: Project,
    id: str,
    cwd: Path | None,
    notes_home: Path | None,
    clock: Clock | None,
    selector: str,
    compacts: bool,
) -> SessionContext:
    settings = opened.settings
    on = opened.places.switch.on
    return SessionContext(
        opened.stores,
        opened,
        open_session(opened.private.state, id),
        clock or opened.clock,
        cwd or opened.places.root.path,
        turns.read_extract_options(opened),
        notes.read_notes_options(opened, compacts=compacts),
        notes_home or notes.find_home(opened),
        selector or settings.text("selector"),
        on,
        settings.flag("recall"),
        settings.flag("paused"),
        on and find_frame(opened).mode is InstructionMode.DAILY_LOG,
    )


# --- listing ---
# What the memory directories held when they were last looked at, for a conversation that asks again and again.
#
# To look at ten thousand files takes five times as long as to search them. So the listing of a large directory is
# trusted
# for a while, as long as no folder of it has changed: that tells of every file that came, went, or was put in place of
# another, as memdir, git and many editors do it. A file that was written over in place shows only to a look at all of
# them; one comes after every turn (`look_again`). Until then such a file is ranked by its old words. What is told of
# it
# is always read anew.

LARGE = 2_000  # files; to look at fewer takes no time that anybody would notice
_TRUSTED_SECONDS = 300.0
_SETTLED_NS = 2_000_000_000  # a folder that changed just now may change again with the same time


@dataclass(frozen=True, slots=True)
class _Known:
    marks: dict[str, int]
    signatures: dict[str, Stat]
    looked: float


class Listings:
    """Of one conversation; may be used from several threads, the last look counts."""

    def __init__(self, large: int = LARGE) -> None:
        self._large = large
        self._known: dict[int, _Known] = {}

    def find(self, store: Store) -> dict[str, Stat] | None:
        """The files as they were, if no folder has changed since; None if somebody has to look."""
        known = self._known.get(id(store))
        if known is None or not isinstance(store, FileStore) or time.monotonic() - known.looked > _TRUSTED_SECONDS:
            return None
        return known.signatures if _read_marks(store, known.marks) == known.marks else None

    def look(self, store: Store) -> dict[str, Stat]:
        """The files as they are now."""
        if not isinstance(store, FileStore):
            return list_signatures(store)
        marks: dict[str, int] = {}
        signatures = store.signatures(marks)
        is_large = bool(marks) and len(signatures) >= self._large
        if is_large and time.time_ns() - max(marks.values()) > _SETTLED_NS:
            self._known[id(store)] = _Known(marks, signatures, time.monotonic())
        else:
            self._known.pop(id(store), None)
        return signatures

    def look_again(self, store: Store) -> None:
        """Look at a store whose listing may be trusted; where none is, nothing is to do."""
        if id(store) in self._known:
            try:
                self.look(store)
            except MemdirError:
                self._known.pop(id(store), None)


def _read_marks(store: FileStore, folders: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        root = guard.open_root(store.root)
    except MemdirError:
        return found
    try:
        for folder in folders:
            found[folder] = os.stat(folder or ".", dir_fd=root, follow_symlinks=False).st_mtime_ns
    except OSError:
        return {}
    finally:
        os.close(root)
    return found


# --- plain ---
# A host's own messages and requests as memdir takes them. Pure.
#
# Hosts keep messages in their provider's shape, often with objects of its SDK in between, and go on changing the very
# lists they hand over. So everything is copied to plain tables and lists at once, as the SDK would send it.


def copy_plain(value: Any) -> Any:
    """The value in tables, lists and scalars that nobody else holds; an SDK's objects as they go over the wire."""
    if isinstance(value, Mapping):
        return {key: copy_plain(at) for key, at in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain(at) for at in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if dump is not None else value


def read_host_messages(messages: Iterable[object], era: int = 0) -> tuple[Message, ...]:
    """Messages of any of the known shapes; what is none is left out.

    `era` counts how often the conversation was cleared or compacted. A message without an id is known by its text and
    place, and both may come again in a new era; so there it gets an id that says which.
    """
    found: list[Message] = []
    for given in messages:
        if isinstance(given, Message):
            found.append(given)
        elif isinstance(table := copy_plain(given), dict):
            found += make_messages(table)
    return tuple(_name(at, number, era) for number, at in enumerate(found)) if era else tuple(found)


def _name(message: Message, number: int, era: int) -> Message:
    if message.id:
        return message
    return replace(message, id=f"{era}.{number}.{zlib.crc32(message.text.encode('utf-8', 'surrogatepass')):08x}")


# --- shown ---
# What a conversation is shown besides memories: instructions, the index, instruction files, the change of the day.
#
# Each is computed once and stays the same until the conversation is cleared or compacted, because it is the beginning
# of
# every request, and a provider caches by it. What is said in the person's place stands in the block that hosts use for
# such things, so that nobody learns from it as from the person's own words.

_DAY, _NOTES = "day", "notes"


class SessionPrompt:
    """Of one conversation; safe to use from several threads."""

    def __init__(self, ground: SessionContext) -> None:
        self._ground = ground
        self._lock = threading.RLock()
        self._told = InstructionsCache()
        self._files: LoadedFiles | None = None
        self._known: LoadedFiles | None = None  # with what reading files has added
        record = ground.file.read()
        self._day = _parse_day(record.extra.get(_DAY))
        self._era, self._clears = read_count(record, ERA), read_count(record, CLEARS)

    def instructions(self) -> str:
        return self._tell().guidance

    def context(self) -> str:
        parts = (render_files(self._load()), self._tell().index)
        text = "\n".join(part for part in parts if part)
        return wrap(text) if text else ""

    def note_read(self, paths: Sequence[Path]) -> str:
        """What reading these files adds to the instruction files."""
        opened = self._ground.opened
        if opened is None or not paths:
            return ""
        with self._lock:
            known = self._known or self._load()
            approved = find_approved(opened.private)
            added = load_for_reads(
                opened.environment, opened.places, self._cwd(opened), paths, known, approved=approved
            )
            here = {file.real for file in added.files}
            pending = {rule.real: rule for rule in (*known.pending, *added.pending) if rule.real not in here}
            self._known = replace(known, files=(*known.files, *added.files), pending=tuple(pending.values()))
        text = render_files(added)
        return wrap(text) if text else ""

    def date_notice(self) -> str:
        """Once for each change; the first day of a conversation is none."""
        now = self._ground.clock()
        today = now.astimezone().date()
        with self._lock:
            last, self._day = self._day, today
        if last != today:
            self._keep(**{_DAY: today.isoformat()})
        return find_date_change(last, now, logs=self._ground.is_logging)

    def read_messages(self, messages: Iterable[object]) -> tuple[Message, ...]:
        return read_host_messages(messages, self._era)

    def begin_anew(self, *, cleared: bool) -> None:
        with self._lock:
            self._told.drop()
            self._files = self._known = None
            self._era, self._clears = self._era + 1, self._clears + cleared
            counts: dict[str, object] = {ERA: self._era, CLEARS: self._clears}
        self._keep(**counts | ({_NOTES: None} if cleared else {}))

    def _tell(self) -> Instructions:
        ground = self._ground
        if ground.opened is not None:
            return session_instructions(ground.opened, ground.file.id)
        return self._told.take(lambda: build_instructions(ground.stores))

    def _load(self) -> LoadedFiles:
        opened = self._ground.opened
        if opened is None:
            return LoadedFiles()
        with self._lock:
            if self._files is None:
                approved = find_approved(opened.private)
                self._files = load_project_files(
                    opened.environment, opened.places, self._cwd(opened), approved=approved
                )
                if self._ground.on:
                    ask_approval(opened.private, self._files.asks, self._ground.clock(), session=self._ground.file.id)
            return self._files

    def _cwd(self, opened: Project) -> Path:
        return self._ground.cwd or opened.places.root.path

    def _keep(self, **facts: object) -> None:
        """Best effort: where nothing can be kept, the process still knows."""
        if not self._ground.on:
            return
        try:
            insist(lambda: self._ground.file.change(lambda at: replace(at, extra={**at.extra, **facts})))
        except MemdirError:
            pass


def _parse_day(value: object) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


# --- telling ---
# What a host is told of its memory, and the calls by which it hears of it.
#
# A callback is the host's own code and is called from whichever thread did the work. What it raises stays with it: it
# is
# logged under `memdir.session`, and neither a memory nor the work that follows is lost by it.

log = logging.getLogger("memdir.session")
RECALL, EXTRACT, NOTES, DREAM = "recall", "extract", "notes", "dream"
SkipReason = RecallSkip | ExtractSkip | NotesSkip | DreamSkip


@dataclass(frozen=True, slots=True)
class RenderedReminders:
    """What a recall brought, as one text for the conversation: each memory in a block, so that it is nobody's word."""

    text: str
    recalled: RecallResult
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

    saved: Callable[[ExtractResult], None] = ignore
    recalled: Callable[[RenderedReminders], None] = ignore
    skipped: Callable[[str, SkipReason], None] = ignore
    cost: Callable[[Usage, str], None] = ignore
    dreamed: Callable[[DreamResult], None] = ignore
    error: Callable[[MemdirError], None] = ignore


SILENT = Callbacks()


def tell(callback: Callable[..., None], *told: object) -> None:
    """Call the host back; what goes wrong there is logged and goes no further."""
    try:
        callback(*told)
    except Exception:
        log.exception("a callback of the host failed")


def tell_learned(callbacks: Callbacks, done: ExtractResult) -> None:
    """All that is to be told of one run of extraction."""
    if done.written or done.forgotten or done.waiting:
        tell(callbacks.saved, done)
    if done.skipped is not None:
        tell(callbacks.skipped, EXTRACT, done.skipped)
    if done.error:
        tell(callbacks.error, MemdirError(done.error))


def tell_recalled(callbacks: Callbacks, found: RecallResult, now: datetime) -> RenderedReminders | None:
    """What a recall brought, told and as text; None if it brought nothing."""
    if not found.memories:
        if found.skipped is not None:
            tell(callbacks.skipped, RECALL, found.skipped)
        return None
    text = "\n".join(render_reminder(excerpt, now=now, wrap=True) for excerpt in found)
    reminders = RenderedReminders(text, found, estimate_tokens(text))
    tell(callbacks.recalled, reminders)
    return reminders


class WatchedModel:
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


# --- prefetch ---
# Recall beside the model's work: started when the message arrives, looked at when there is time.
#
# One at a time: starting another ends the one before. Nothing counts as surfaced until it is taken, so a turn that
# ends
# early leaves no trace. The thread is a daemon: it does not keep a process alive.
#
# An error memdir knows of ends the run quietly, with its words in `problem`. Any other is a bug: Python reports it in
# the
# thread's name, and here it looks like an empty run. It does not stop a recall that is under way; its answer is
# dropped.

_TAKE_SECONDS = 0.05  # for the conversation's record; it is held for a millisecond


class _Run:
    """One recall under way, or done."""

    def __init__(self, asked: RecallRequest) -> None:
        self.asked = asked
        self.done = threading.Event()
        self.found: RecallResult | None = None
        self.problem = ""

    def __call__(self) -> None:
        try:
            self.found = find_recalled(self.asked)
        except (MemdirError, OSError, sqlite3.Error) as error:
            self.problem = str(error)
        finally:
            self.done.set()


class Prefetch:
    """`asked` has everything but the message: its text, tools and time are those of the start."""

    def __init__(self, asked: RecallRequest, *, clock: Clock) -> None:
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

    def take(self) -> RecallResult | None:
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


# --- recalling ---
# Recall in a conversation: at once, or begun when a message arrives and taken when it is ready.
#
# The local search is opened for each question: an open index belongs to one thread, a session to any. What is asked at
# once is asked of the files as they are; a recall beside a model's work may go by an earlier listing of a large
# directory
# (listing), which is looked at again when the turn is over.


class FreshSearch:
    """A finder, and the selector that a model's falls back on; for one question. `trusts` as the listings allow it."""

    name = "local"

    def __init__(
        self,
        stores: Sequence[FileStore],
        half_lives: HalfLives = HALF_LIVES,
        listings: Listings | None = None,
        *,
        trusts: bool = False,
    ) -> None:
        self._stores, self._half_lives = tuple(stores), half_lives
        self._listings, self._trusts = listings or Listings(), trusts

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        with self._open() as search:
            return search.find(query, limit, drop)

    def select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        with self._open() as search:
            return search.select(query, headers, limit)

    def _open(self) -> LocalSearch:
        return LocalSearch(self._stores, half_lives=self._half_lives, read_signatures=self._list)

    def _list(self, store: Store) -> dict[str, Stat]:
        known = self._listings.find(store) if self._trusts else None
        return self._listings.look(store) if known is None else known


class SessionRecall:
    """Of one conversation; safe to use from several threads. The latest message is the one that counts."""

    def __init__(self, ground: SessionContext, callbacks: Callbacks, open_model: Callable[[], Model | None]) -> None:
        self._ground, self._callbacks, self._open_model = ground, callbacks, open_model
        self._lock = threading.Lock()
        self._prefetch: Prefetch | None = None
        self._listings = Listings()

    def recall(self, text: str, tools: Sequence[str]) -> RecallResult:
        asked = self._make_asked(text, tools, self._make_search())
        found = account(find_recalled(asked), asked)
        tell_recalled(self._callbacks, found, asked.now)
        return found

    def start(self, text: str, tools: Sequence[str]) -> None:
        self.cancel()
        if not self._ground.on:
            tell(self._callbacks.skipped, RECALL, RecallSkip.OFF)
            return
        asked = self._make_asked(text, tools, self._make_search(trusts=True))
        prefetch = Prefetch(asked, clock=self._ground.clock)
        prefetch.start(asked.text, tools=tools)
        with self._lock:
            self._prefetch = prefetch

    def take(self, seconds: float) -> RenderedReminders | None:
        with self._lock:
            prefetch = self._prefetch
        if prefetch is None or not (prefetch.wait(seconds) if seconds > 0 else prefetch.poll()):
            return None
        problem = prefetch.problem
        found = prefetch.take()
        if problem:
            tell(self._callbacks.error, MemdirError(problem))
        return None if found is None else tell_recalled(self._callbacks, found, self._ground.clock())

    def look_again(self) -> None:
        """Between two turns: see that listings which were gone by still hold."""
        for store in self._ground.stores:
            self._listings.look_again(store)

    def cancel(self) -> None:
        with self._lock:
            prefetch, self._prefetch = self._prefetch, None
        if prefetch is not None:
            prefetch.cancel()

    def _make_search(self, *, trusts: bool = False) -> FreshSearch:
        return FreshSearch(self._ground.stores, self._ground.half_lives, self._listings, trusts=trusts)

    def _make_asked(self, text: str, tools: Sequence[str], search: FreshSearch) -> RecallRequest:
        ground = self._ground
        model = self._open_model() if ground.selector == MODEL else None
        return RecallRequest(
            ground.stores,
            strip_host_text(text),
            search if model is None else make_model_selector(model, search.select),
            ground.clock(),
            ground.file if ground.on else None,
            tuple(tools),
            on=ground.on and ground.recalls,
            paused=ground.paused,
        )


# --- background ---
# Learning beside the conversation, in one process: a turn that ends is handed over, and nobody waits for it.
#
# One run at a time. A turn that ends meanwhile is kept aside, the latest only, because its messages contain those of
# the
# turns before; one more run follows. At exit `drain` waits for what is under way.

Learn = Callable[[EndedTurn], ExtractResult]


class BackgroundExtraction:
    """`learn` does one turn; `on_done` hears what came of it, `on_error` what it raised, both from the thread."""

    def __init__(
        self,
        learn: Learn,
        *,
        on_done: Callable[[ExtractResult], None] = lambda done: None,
        on_error: Callable[[MemdirError], None] = lambda error: None,
    ) -> None:
        self._learn = learn
        self._on_done, self._on_error = on_done, on_error
        self._changed = threading.Condition()
        self._stash: EndedTurn | None = None
        self._is_running = False

    def turn_ended(self, turn: EndedTurn) -> bool:
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

    def _start(self, turn: EndedTurn) -> None:
        threading.Thread(target=self._run, args=(turn,), name="memdir-learning", daemon=True).start()

    def _run(self, turn: EndedTurn) -> None:
        """One turn in a thread of its own: what nobody foresaw ends that thread, not the turns after it."""
        try:
            self._on_done(self._learn(turn))
        except MemdirError as error:
            self._on_error(error)
        finally:
            following = self._take_next()
            if following is not None:
                self._start(following)

    def _take_next(self) -> EndedTurn | None:
        with self._changed:
            found, self._stash = self._stash, None
            if found is None:
                self._is_running = False
                self._changed.notify_all()
            return found


# --- working ---
# What goes on behind a conversation: extraction after each turn, then notes and verdicts, a turn at a time; dreams.
#
# An error memdir knows of is told to the host and ends that step alone. A conversation held beside this one over the
# same
# memory is waited for: this is the background, and a turn that gave up might be the last.
#
# Verdicts are long work of this very process, and threads take the processor from each other: they wait while a turn
# is
# on its way to the model.

_WAY_SECONDS = 5.0  # of a turn; by then the model is at work, and the person waits for that


class TurnPriority:
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


class SessionWork:
    """`open_model` gives the model for one run, or None; `tidy_up` is called when a turn is done with."""

    def __init__(
        self,
        ground: SessionContext,
        callbacks: Callbacks,
        open_model: Callable[[], Model | None],
        tidy_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._ground, self._callbacks, self._open_model = ground, callbacks, open_model
        self._tidy_up = tidy_up
        self._background = BackgroundExtraction(self._learn)
        self._way = TurnPriority()

    def turn_began(self) -> None:
        self._way.take()

    def make_conversation(self, parent: Mapping[str, object] | None) -> ConversationSource:
        return replace(self._ground.conversation, parent=parent)

    def turn_over(self) -> None:
        """It has ended, or was cancelled."""
        self._way.leave()

    def turn_ended(self, turn: EndedTurn) -> bool:
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

    def dream(self, force: bool, on_progress: OnProgress, cancelled: Cancelled) -> DreamResult:
        """Tidy the memory, if the gates are open or with `force`; another who does so already is no error."""
        ground = self._ground
        due = None if force else ground.find_due()
        if not ground.on or (due is not None and due.skip is not None):
            done = DreamResult(skipped=DreamSkip.OFF if due is None else due.skip, due=due)
        else:
            done = self._dream(on_progress, cancelled)
        if done.skipped is not None:
            tell(self._callbacks.skipped, DREAM, done.skipped)
        else:
            tell(self._callbacks.dreamed, done)
        return done

    def _dream(self, on_progress: OnProgress, cancelled: Cancelled) -> DreamResult:
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
            return DreamResult(skipped=DreamSkip.LOCKED)

    def _learn(self, turn: EndedTurn) -> ExtractResult:
        try:
            # A run that is repeated has happened once.
            done = insist(lambda: self._learn_once(turn))
            tell_learned(self._callbacks, done)
        except MemdirError as error:
            tell(self._callbacks.error, error)
            done = ExtractResult(skipped=ExtractSkip.FAILED, error=str(error))
        if not turn.is_subagent:
            news = self._make_news(tuple(turn.messages), turn.conversation.parent)
            self._note(news, self._open_model(), force=False)
            self._refresh()
        self._tidy_up()
        return done

    def _learn_once(self, turn: EndedTurn) -> ExtractResult:
        ground = self._ground
        return extract_turn(
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

    def _make_news(self, messages: tuple[Message, ...], parent: Mapping[str, object] | None) -> NotesInput:
        apart = tuple(str(store.root) for store in self._ground.stores)
        return NotesInput(messages, parent=parent, root=str(self._ground.cwd or ""), apart=apart)

    def _note(self, news: NotesInput, model: Model | None, *, force: bool) -> NotesResult | None:
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


# --- conversing ---


class Session:
    """One conversation. A context manager: leaving it waits for what is under way.

    `stores` is a store, several (the project's first: it is the one that is written to), or an Opened, whose settings
    are heard then. `model` is the one that helps; without one rules work alone, or the model of the settings. `cwd` is
    where the host works: instruction files are found from there, and extraction may look into it. `notes_home` is the
    folder for session notes; a place's own with an Opened, else none are kept. `selector` is "local" or "model".
    """

    def __init__(
        self,
        stores: FileStore | Sequence[FileStore] | Project,
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
        self._ground = make_session_context(
            stores, id=id, cwd=cwd, notes_home=notes_home, clock=clock, selector=selector, compacts=compacts
        )
        self._callbacks = callbacks
        self._is_headless = is_headless
        self._lock = threading.Lock()
        self._model = self._find_model() if model is None else model
        self._recalling = SessionRecall(self._ground, callbacks, self._open_model)
        self._shown = SessionPrompt(self._ground)
        self._work = SessionWork(self._ground, callbacks, self._open_model, self._recalling.look_again)

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

    def recall(self, text: str, *, tools: Sequence[str] = ()) -> RecallResult:
        """The memories for a message, now and in this thread; they count as surfaced."""
        return self._recalling.recall(text, tools)

    def prompt_arrived(self, text: str, *, tools: Sequence[str] = ()) -> None:
        """Begin to recall for what the person typed, beside whatever the host does next; never waits."""
        self._work.turn_began()
        self._recalling.start(text, tools)

    def take_reminders(self, *, seconds: float = 0) -> RenderedReminders | None:
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
        conversation = self._work.make_conversation(copy_plain(parent))
        talk = self._shown.read_messages(messages)
        turn = EndedTurn(talk, is_headless=self._is_headless, is_subagent=is_subagent, conversation=conversation)
        return self._work.turn_ended(turn)

    def wait(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait until nothing is under way; answers whether that is so now."""
        return self._work.wait(seconds)

    # --- by request -------------------------------------------------------------------------------------------------

    def remember(self, text: str) -> ExtractResult:
        """Keep what the person says, by rules, now. Raises MemdirError for what may not be kept."""
        if skip := self._find_shut():
            return self._tell_asked(ExtractResult(skipped=skip))
        now = self._ground.clock()
        return self._tell_asked(remember(self._ground.store, text, now=now.astimezone(), session=self.id))

    def forget(self, text: str) -> ExtractResult:
        """Forget a memory by its name, or by what it is about. Raises NotFoundError if none is clearly meant."""
        now = self._ground.clock()
        return self._tell_asked(forget_now(self.stores, text, now=now.astimezone(), session=self.id))

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
    ) -> DreamResult:
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
        return None if model is None else WatchedModel(new_run(model), self._callbacks)

    def _find_shut(self) -> ExtractSkip | None:
        if not self._ground.on:
            return ExtractSkip.OFF
        return ExtractSkip.PRIVATE if self.is_private else None

    def _tell_asked(self, done: ExtractResult) -> ExtractResult:
        tell_learned(self._callbacks, done)
        return done

    def _begin_anew(self, *, cleared: bool) -> None:
        self.cancel_turn()
        if self._ground.on:
            insist(lambda: self.file.reset(cleared=cleared))
        self._shown.begin_anew(cleared=cleared)
