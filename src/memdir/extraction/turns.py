"""When a turn has ended: may it be learned from, from where on, and what is noted of it afterwards.

One run at a time in a directory. The conversation's record holds the cursor and how often the model has failed on the
same messages; it moves on success only. Every run leaves a line in the record of runs, skipped ones included.
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

# --- learning ---

LOCK = "extract.lock"
HEADLESS_ON, HEADLESS_OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """How a place wants to be learned from; the defaults are those of the settings."""

    on: bool = True
    paused: bool = False
    headless: str = "explicit"
    every: int = 1


PLAINLY = ExtractOptions()


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that has ended: all messages so far, or those after the cursor with how many came before them."""

    messages: Sequence[Message]
    start: int | None = None
    is_headless: bool = False
    is_subagent: bool = False
    conversation: ConversationSource = NOWHERE


def read_extract_options(opened: Project) -> ExtractOptions:
    settings = opened.settings
    return ExtractOptions(
        on=opened.places.switch.on and settings.flag("extract"),
        paused=settings.flag("paused"),
        headless=settings.text("extract_headless"),
        every=int(settings.number("extract_every")),
    )


def make_conversation(opened: Project) -> ConversationSource:
    """A conversation held here."""
    return ConversationSource(project=opened.places.root.path, home=str(opened.environment.home))


def extract_turn(
    store: FileStore,
    session: SessionFile,
    turn: EndedTurn,
    *,
    manner: ExtractOptions = PLAINLY,
    model: Model | None,
    now: datetime,
    seconds: float = 0,
) -> ExtractResult:
    """Run extraction over what is new in a conversation, if it may be; another run is waited for so many seconds."""
    if turn.is_subagent:
        return _note(store, session, ExtractResult(skipped=ExtractSkip.SUBAGENT), now)
    record = session.change(lambda at: replace(at, turns=at.turns + 1))
    cursor = parse_cursor(record.extra.get("cursor"))
    if skip := _find_skip(manner, record, turn):
        # What was said while nobody should listen is never learned later.
        end = make_cursor(turn.messages, before=turn.start or 0) or cursor
        _keep(session, end, 0)
        return _note(store, session, ExtractResult(skipped=skip, cursor=end), now)
    throttled = record.turns % manner.every != 0
    if throttled and not _asks(turn, cursor, now):
        return _note(store, session, ExtractResult(skipped=ExtractSkip.THROTTLED), now)
    explicit = turn.is_headless and manner.headless != HEADLESS_ON
    try:
        with store.hold_beside(LOCK, seconds=seconds):
            if seconds:  # the run that was waited for may have been over the same conversation
                record = session.read()
                cursor = parse_cursor(record.extra.get("cursor"))
            done = _extract(store, session, turn, record, cursor, model, explicit, throttled, now)
    except LockedError:
        return _note(store, session, ExtractResult(skipped=ExtractSkip.BUSY), now)
    if done.cursor is not None:
        _keep(session, done.cursor, 0)
    return _note(store, session, done, now)


def _extract(
    store: FileStore,
    session: SessionFile,
    turn: EndedTurn,
    record: SessionRecord,
    cursor: Cursor | None,
    model: Model | None,
    explicit: bool,
    is_partial: bool,
    now: datetime,
) -> ExtractResult:
    failures = _read_failures(record)
    done = extract(
        store,
        turn.messages,
        model=None if model is None else new_run(model),
        after=cursor,
        now=now,
        conversation=replace(turn.conversation, session=session.id),
        explicit_only=explicit,
        failures=failures,
        start=turn.start,
        is_partial=is_partial,
    )
    if done.skipped is ExtractSkip.FAILED:
        count_failure(session)
    return done


def count_failure(session: SessionFile) -> int:
    """One more run over the same messages that came to nothing; answers how many there were."""
    record = session.change(lambda at: replace(at, extra={**at.extra, "failures": _read_failures(at) + 1}))
    return _read_failures(record)


def _read_failures(record: SessionRecord) -> int:
    count = record.extra.get("failures")
    return count if type(count) is int else 0


def _find_skip(manner: ExtractOptions, record: SessionRecord, turn: EndedTurn) -> ExtractSkip | None:
    gates = (
        (ExtractSkip.OFF, not manner.on),
        (ExtractSkip.PAUSED, manner.paused),
        (ExtractSkip.PRIVATE, record.private),
        (ExtractSkip.HEADLESS, turn.is_headless and manner.headless == HEADLESS_OFF),
    )
    return next((skip for skip, shut in gates if shut), None)


def _asks(turn: EndedTurn, cursor: Cursor | None, now: datetime) -> bool:
    """Whether a person asks for something in what is new: that does not wait for its turn."""
    new = turn.messages if turn.start is not None else slice_after(turn.messages, cursor).messages
    talk = clean_messages(new)
    return any(wish.is_explicit for wish in find_requests(talk, now=now)) or bool(find_hidden_requests(talk, now=now))


def _keep(session: SessionFile, cursor: Cursor | None, failures: int) -> None:
    kept = {"cursor": None if cursor is None else render_cursor(cursor), "failures": failures}
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


# --- queue ---
# Turns that wait to be learned from: small files in `<state>/queue/`, each on the disk before `enqueue` answers.
#
# Every entry is a file of its own, so that one who is quicker never overwrites another's, and a worker removes exactly
# the entries it has seen. What is delivered twice is learned once: a range of messages is known by its mark in
# history.
#
# An entry says which conversation and where its transcript lies; nothing that anybody said is kept here.

FOLDER = "queue"
_BYTES = 16_384  # an entry is two paths and an id
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class QueuedTurn:
    """One turn of one conversation that has ended."""

    session: str
    transcript: str
    headless: bool = False
    path: Path = Path()


def enqueue(state: Path, entry: QueuedTurn) -> Path:
    """Put a turn into the queue; when this returns it survives a power cut."""
    folder = state / FOLDER
    if state.is_symlink() or folder.is_symlink():
        raise PathError(str(folder), "it is a symbolic link")
    leaf = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_SUFFIX}"
    table = {"session": entry.session, "transcript": entry.transcript, "headless": entry.headless}
    path = folder / leaf
    write_private(path, json.dumps(table).encode("ascii") + b"\n")
    return path


def read_queue(state: Path) -> tuple[QueuedTurn, ...]:
    """What waits, oldest first; a file that is no entry is left where it is and not listed."""
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
    """These were learned from."""
    for entry in entries:
        try:
            entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(error, entry.path) from error


def _read_entry(path: Path) -> QueuedTurn | None:
    try:
        table = json.loads(read_small(path, _BYTES, follow=False).data or b"null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict):
        return None
    session, transcript = table.get("session"), table.get("transcript")
    if not isinstance(session, str) or not isinstance(transcript, str):
        return None
    return QueuedTurn(session, transcript, table.get("headless") is True, path)


# --- harvest ---
# Learning from conversations that are over: a transcript in pieces, each piece a run of its own.
#
# A piece is what one request can carry. The cursor moves with each, so a harvest that was interrupted goes on where it
# stopped, and one that is repeated finds nothing new.

_PIECE_MESSAGES = 400
_TASK_TOKENS = 1_500  # what each request says besides the conversation, and its answer


@dataclass(frozen=True, slots=True)
class ExtractEstimate:
    """What a harvest would have before it; tokens only matter where a model is asked."""

    transcripts: int = 0
    messages: int = 0
    pieces: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Some messages in a row, and how many came before them in the conversation."""

    messages: tuple[Message, ...]
    start: int


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
    """How much there is to learn from in these transcripts."""
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
        done = extract_turn(store, session, turn, manner=ExtractOptions(), model=model, now=now)
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
