"""Turns that have ended: whether and from where they are learned from, the queue they wait in, and past transcripts.

One run at a time in a directory. The conversation's record holds the cursor and how often the model has failed on the
same messages. Every run leaves a line in the record of runs, skipped ones included.

The queue is a folder of small files, `<state>/queue/`, each on the disk before `enqueue` returns: one entry never
overwrites another, and a worker removes exactly the entries it has seen. What is delivered twice is learned once, since
a range of messages is known by its mark in the history. An entry names the conversation and its transcript; nothing that
anybody said is kept in it. A transcript is read in pieces that one request can carry; the cursor moves with each, so that
an interrupted run goes on where it stopped.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from memdir.conversation.transcripts import read_messages
from memdir.errors import LockedError, PathError
from memdir.extraction import NOWHERE, ConversationSource, ExtractResult, ExtractSkip, clean_messages, extract
from memdir.extraction.find import find_hidden_requests, find_requests
from memdir.files import disk_error, read_small, write_private
from memdir.frozen import dataclass, replace
from memdir.limits import EXTRACT_SLICE_CHARS
from memdir.models import new_run
from memdir.models.agent import note_run, render_ran
from memdir.records import Message, Model
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.sessions import (
    Cursor,
    SessionFile,
    SessionRecord,
    make_cursor,
    parse_cursor,
    render_cursor,
    slice_after,
)
from memdir.text import estimate_tokens

LOCK = "extract.lock"
FOLDER = "queue"
HEADLESS_ON, HEADLESS_OFF = "on", "off"
_ENTRY_BYTES = 16_384  # two paths and an id
_SUFFIX = ".json"
_PIECE_MESSAGES = 400
_TASK_TOKENS = 1_500  # what each request holds besides the conversation, and its answer


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """How a project wants to be learned from; the defaults are those of the settings."""

    on: bool = True
    paused: bool = False
    headless: str = "explicit"
    every: int = 1


_DEFAULTS = ExtractOptions()


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that has ended: all messages so far, or those after the cursor with how many came before them."""

    messages: Sequence[Message]
    start: int | None = None
    is_headless: bool = False
    is_subagent: bool = False
    conversation: ConversationSource = NOWHERE


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """One turn of one conversation that has ended."""

    session: str
    transcript: str
    headless: bool = False
    path: Path = Path()


@dataclass(frozen=True, slots=True)
class ExtractEstimate:
    """How much a harvest would read; tokens only matter where a model is asked."""

    transcripts: int = 0
    messages: int = 0
    pieces: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Some messages in a row, and how many came before them in the conversation."""

    messages: tuple[Message, ...]
    start: int


def read_extract_options(project: Project) -> ExtractOptions:
    settings = project.settings
    return ExtractOptions(
        on=project.places.switch.on and settings.flag("extract"),
        paused=settings.flag("paused"),
        headless=settings.text("extract_headless"),
        every=int(settings.number("extract_every")),
    )


def make_conversation(project: Project) -> ConversationSource:
    """A conversation held in this project."""
    return ConversationSource(project=project.places.root.path, home=str(project.environment.home))


def extract_turn(
    store: FileStore,
    session: SessionFile,
    turn: EndedTurn,
    *,
    options: ExtractOptions = _DEFAULTS,
    model: Model | None,
    now: datetime,
    seconds: float = 0,
) -> ExtractResult:
    """Run extraction over what is new in a conversation, if it may be; another run is waited for so many seconds."""
    if turn.is_subagent:
        return _note(store, session, ExtractResult(skipped=ExtractSkip.SUBAGENT), now)
    record = session.change(lambda at: replace(at, turns=at.turns + 1))
    cursor = parse_cursor(record.extra.get("cursor"))
    if skip := _find_skip(options, record, turn):
        # What was said while learning was off is never learned later.
        end = make_cursor(turn.messages, before=turn.start or 0) or cursor
        _keep_cursor(session, end)
        return _note(store, session, ExtractResult(skipped=skip, cursor=end), now)
    is_throttled = record.turns % options.every != 0
    if is_throttled and not _asks(turn, cursor, now):
        return _note(store, session, ExtractResult(skipped=ExtractSkip.THROTTLED), now)
    try:
        with store.hold_beside(LOCK, seconds=seconds):
            if seconds:  # the run that was waited for may have been over the same conversation
                record = session.read()
            done = extract(
                store,
                turn.messages,
                model=None if model is None else new_run(model),
                after=parse_cursor(record.extra.get("cursor")),
                now=now,
                conversation=replace(turn.conversation, session=session.id),
                explicit_only=turn.is_headless and options.headless != HEADLESS_ON,
                failures=_read_failures(record),
                start=turn.start,
                is_partial=is_throttled,
            )
            if done.skipped is ExtractSkip.FAILED:
                count_failure(session)
    except LockedError:
        return _note(store, session, ExtractResult(skipped=ExtractSkip.BUSY), now)
    if done.cursor is not None:
        _keep_cursor(session, done.cursor)
    return _note(store, session, done, now)


def count_failure(session: SessionFile) -> int:
    """One more run over the same messages that failed; returns how many there were."""
    record = session.change(lambda at: replace(at, extra={**at.extra, "failures": _read_failures(at) + 1}))
    return _read_failures(record)


def _read_failures(record: SessionRecord) -> int:
    count = record.extra.get("failures")
    return count if type(count) is int else 0


def _find_skip(options: ExtractOptions, record: SessionRecord, turn: EndedTurn) -> ExtractSkip | None:
    gates = (
        (ExtractSkip.OFF, not options.on),
        (ExtractSkip.PAUSED, options.paused),
        (ExtractSkip.PRIVATE, record.private),
        (ExtractSkip.HEADLESS, turn.is_headless and options.headless == HEADLESS_OFF),
    )
    return next((skip for skip, shut in gates if shut), None)


def _asks(turn: EndedTurn, cursor: Cursor | None, now: datetime) -> bool:
    """Whether a person asks for something in what is new: that does not wait for its turn."""
    new = turn.messages if turn.start is not None else slice_after(turn.messages, cursor).messages
    talk = clean_messages(new)
    asked = any(request.is_explicit for request in find_requests(talk, now=now))
    return asked or bool(find_hidden_requests(talk, now=now))


def _keep_cursor(session: SessionFile, cursor: Cursor | None) -> None:
    kept = {"cursor": None if cursor is None else render_cursor(cursor), "failures": 0}
    session.change(lambda at: replace(at, extra={**at.extra, **kept}))


def _note(store: FileStore, session: SessionFile, done: ExtractResult, now: datetime) -> ExtractResult:
    note_run(
        store.state,
        {
            "at": now.isoformat(timespec="seconds"),
            "task": "extract",
            "session": session.id,
            "by": done.by,
            "skipped": done.skipped,
            "messages": done.messages,
            "written": len(done.written),
            "forgotten": len(done.forgotten),
            "waiting": len(done.waiting),
            "change": done.change,
            **render_ran(done.ran),
            "error": done.error,
        },
    )
    return done


def enqueue(state: Path, entry: QueuedTurn) -> Path:
    """Put a turn into the queue; when this returns it survives a power cut."""
    folder = state / FOLDER
    if state.is_symlink() or folder.is_symlink():
        raise PathError(str(folder), "it is a symbolic link")
    table = {"session": entry.session, "transcript": entry.transcript, "headless": entry.headless}
    path = folder / f"{time.time_ns():020d}-{os.urandom(4).hex()}{_SUFFIX}"
    write_private(path, json.dumps(table).encode("ascii") + b"\n")
    return path


def read_queue(state: Path) -> tuple[QueuedTurn, ...]:
    """The entries, oldest first; a file that is no entry is left in place and not listed."""
    folder = state / FOLDER
    if state.is_symlink() or folder.is_symlink():
        return ()
    try:
        leaves = sorted(leaf for leaf in os.listdir(folder) if leaf.endswith(_SUFFIX) and not leaf.startswith("."))
    except OSError:
        return ()
    found = (_read_entry(folder / leaf) for leaf in leaves)
    return tuple(entry for entry in found if entry is not None)


def drop(entries: Iterable[QueuedTurn]) -> None:
    """Remove entries that were learned from."""
    for entry in entries:
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(error, entry.path) from error


def _read_entry(path: Path) -> QueuedTurn | None:
    try:
        table = json.loads(read_small(path, _ENTRY_BYTES, follow=False).data or b"null")
    except (ValueError, RecursionError):
        return None
    match table:
        case {"session": str(session), "transcript": str(transcript)}:
            return QueuedTurn(session, transcript, table.get("headless") is True, path)
    return None


def cut(
    messages: Iterable[Message],
    cursor: Cursor | None,
    *,
    chars: int = EXTRACT_SLICE_CHARS,
    count: int = _PIECE_MESSAGES,
) -> Iterator[MessageRun]:
    """The messages in pieces of about so many; with a cursor those after it, none if its own is not among them."""
    piece: list[Message] = []
    size = start = 0
    for position, message in enumerate(messages):
        # Several messages of one record have one id, and the cursor stands on the last of them.
        if cursor is not None and _stands_on(cursor, message, position):
            start = position + 1
            continue
        if cursor is not None and not start:
            continue
        full = size + len(message.text) > chars or len(piece) >= count
        # A piece ends before something the person says, so that no turn is torn; twice as long it ends anywhere.
        if piece and full and (message.role == "user" or size > 2 * chars):
            yield MessageRun(tuple(piece), start)
            piece, size, start = [], 0, position
        piece.append(message)
        size += len(message.text)
    if piece:
        yield MessageRun(tuple(piece), start)


def estimate_past(paths: Iterable[tuple[Path, SessionFile]]) -> ExtractEstimate:
    """How much is new in these transcripts."""
    transcripts = messages = pieces = tokens = 0
    for path, session in paths:
        before = pieces
        for piece in _cut_new(path, session):
            pieces += 1
            messages += len(piece.messages)
            tokens += _TASK_TOKENS + sum(estimate_tokens(message.text) for message in piece.messages)
        transcripts += pieces > before
    return ExtractEstimate(transcripts, messages, pieces, tokens)


def harvest(
    store: FileStore,
    path: Path,
    session: SessionFile,
    *,
    model: Model | None,
    conversation: ConversationSource,
    now: datetime,
    dry_run: bool = False,
) -> Iterator[ExtractResult]:
    """Learn from one transcript, piece by piece; ends early when a piece fails, and goes on there the next time."""
    conversation = replace(conversation, session=session.id)
    if dry_run and session.read().private:
        yield ExtractResult(skipped=ExtractSkip.PRIVATE)
        return
    for piece in _cut_new(path, session):
        if dry_run:
            yield extract(
                store, piece.messages, model=model, now=now, conversation=conversation, dry_run=True, start=piece.start
            )
            continue
        turn = EndedTurn(piece.messages, piece.start, conversation=conversation)
        done = extract_turn(store, session, turn, model=model, now=now)
        yield done
        if done.skipped in (ExtractSkip.FAILED, ExtractSkip.BUSY):
            return


def _cut_new(path: Path, session: SessionFile) -> Iterator[MessageRun]:
    """What a transcript says after its conversation's cursor; all of it if the cursor's own message is gone."""
    cursor = parse_cursor(session.read().extra.get("cursor"))
    # Looked for first: what lies before it must not be learned from again, and it may stand anywhere.
    if cursor is not None and not any(_stands_on(cursor, at, place) for place, at in enumerate(read_messages(path))):
        cursor = None
    return cut(read_messages(path), cursor)


def _stands_on(cursor: Cursor, message: Message, position: int) -> bool:
    if cursor.id or message.id:
        return cursor.id == message.id
    return cursor.position == position and cursor == make_cursor((message,), before=position)
