"""Decide whether to learn from a turn that has ended, and learn from past transcripts.

There is one run at a time per directory. The session record contains the cursor and the number of failures of the model
with the same messages. Every run, even if skipped, adds a line to the run log.

A transcript is read in batches that fit into one request. The cursor moves with each, so an interrupted run resumes where
it stopped. The history stores an idempotency key for each batch, so a batch that is processed twice is saved once.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from memdir.conversation.chat_exports import ExportedChat
from memdir.conversation.transcripts import MessageRun, cut, read_pieces
from memdir.errors import LockedError
from memdir.extraction import NOWHERE, ConversationSource, ExtractResult, ExtractSkip, clean_messages, extract
from memdir.extraction.find import find_hidden_requests, find_requests
from memdir.frozen import dataclass, replace
from memdir.models.agent import render_ran
from memdir.models.open import new_run
from memdir.records import Message, Model
from memdir.store.contract import StoreBase, Workplace
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.sessions import (
    CONFIDENTIAL,
    Cursor,
    SessionFile,
    SessionRecord,
    is_confidential,
    make_cursor,
    parse_cursor,
    render_cursor,
    slice_after,
)
from memdir.store.state import note_run
from memdir.text import estimate_tokens

LOCK = "extract.lock"
_CHAT_SECONDS = 60.0  # how long an imported conversation waits for a background run
_TASK_TOKENS = 1_500  # per request, in addition to the conversation; includes the answer


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """The settings for extraction in a project.

    With `explicit_only`, only explicit requests are saved. `remote` means that the host runs on its provider's machine, and
    `every` is the number of user messages per run.
    """

    on: bool = True
    paused: bool = False
    headless: str = "explicit"
    every: int = 1
    explicit_only: bool = False
    remote: bool = False


_DEFAULTS = ExtractOptions()


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that has ended. `start` is the number of earlier messages, or None if `messages` is complete."""

    messages: Sequence[Message]
    start: int | None = None
    context: Sequence[Message] = ()
    is_headless: bool = False
    is_subagent: bool = False
    conversation: ConversationSource = NOWHERE


@dataclass(frozen=True, slots=True)
class ExtractEstimate:
    transcripts: int = 0
    messages: int = 0
    pieces: int = 0
    tokens: int = 0


def read_extract_options(project: Project) -> ExtractOptions:
    settings = project.settings
    return ExtractOptions(
        on=project.places.switch.on,
        paused=settings.flag("paused"),
        headless=settings.text("extract_headless"),
        every=int(settings.number("extract_every")),
        explicit_only=not settings.flag("extract"),
        remote=project.environment.remote,
    )


def make_conversation(project: Project) -> ConversationSource:
    """Describe a conversation in this project as a source to learn from."""
    others = tuple(store for store in project.stores if store is not project.private)
    return ConversationSource(project=project.places.root.path, home=str(project.environment.home), others=others)


def extract_turn(
    store: StoreBase,
    session: SessionFile,
    turn: EndedTurn,
    *,
    place: Workplace | None = None,
    options: ExtractOptions = _DEFAULTS,
    model: Model | None,
    now: datetime,
    seconds: float = 0,
) -> ExtractResult:
    """Learn from new messages if the options allow it. Waits up to `seconds` for another run to finish."""
    if turn.is_subagent:
        return _log_run(session, ExtractResult(skipped=ExtractSkip.SUBAGENT), now)
    record = session.read()
    cursor = parse_cursor(record.extra.get("cursor"))
    if skip := _find_skip(options, record, turn):
        # Messages from a time when learning was off are never learned later.
        end = make_cursor(turn.messages, before=turn.start or 0) or cursor
        _save_cursor(session, end)
        return _log_run(session, ExtractResult(skipped=skip, cursor=end), now)
    new = turn.messages if turn.start is not None else slice_after(turn.messages, cursor).messages
    talk = clean_messages(new) if options.every > 1 else ()
    is_throttled = 0 < sum(message.role == "user" for message in talk) < options.every
    if is_throttled and not _has_request(talk, now):
        return _log_run(session, ExtractResult(skipped=ExtractSkip.THROTTLED), now)
    try:
        with (place or store.open_workplace()).hold_lock(LOCK, seconds=seconds):
            if seconds:  # the other run may have changed this record
                record = session.read()
            result = extract(
                store,
                turn.messages,
                model=None if model is None else new_run(model),
                after=_read_cursor(session, record),
                now=now,
                conversation=replace(
                    turn.conversation,
                    session=session.id,
                    foreign=session.read_foreign(),
                    confidential=is_confidential(record),
                ),
                explicit_only=options.explicit_only or (turn.is_headless and options.headless != "on"),
                failures=_read_failures(record),
                start=turn.start,
                context=turn.context,
                is_partial=is_throttled,
            )
            session.write_foreign(result.foreign)
            if result.confidential:
                session.change(lambda old: replace(old, extra={**old.extra, CONFIDENTIAL: True}))
            if result.skipped is ExtractSkip.FAILED:
                count_failure(session)
    except LockedError:
        return _log_run(session, ExtractResult(skipped=ExtractSkip.BUSY), now)
    if options.explicit_only and result.skipped is ExtractSkip.NOTHING_FOUND:
        result = replace(result, skipped=ExtractSkip.OFF)
    if result.cursor is not None:
        _save_cursor(session, result.cursor)
    return _log_run(session, result, now)


def count_failure(session: SessionFile) -> int:
    """Count a failed run over the same messages, and return the number of such runs."""
    record = session.change(lambda old: replace(old, extra={**old.extra, "failures": _read_failures(old) + 1}))
    return _read_failures(record)


def _read_failures(record: SessionRecord) -> int:
    count = record.extra.get("failures")
    return count if type(count) is int else 0


def _find_skip(options: ExtractOptions, record: SessionRecord, turn: EndedTurn) -> ExtractSkip | None:
    skips = (
        (ExtractSkip.OFF, not options.on),
        (ExtractSkip.PAUSED, options.paused),
        (ExtractSkip.PRIVATE, record.private),
        (ExtractSkip.REMOTE, options.remote),
        (ExtractSkip.HEADLESS, turn.is_headless and options.headless == "off"),
    )
    return next((skip for skip, applies in skips if applies), None)


def _has_request(talk: Sequence[Message], now: datetime) -> bool:
    """Return whether these messages contain an explicit request. Such messages are processed immediately."""
    is_asked = any(request.is_explicit for request in find_requests(talk, now=now))
    return is_asked or bool(find_hidden_requests(talk, now=now))


def _save_cursor(session: SessionFile, cursor: Cursor | None) -> None:
    changes = {"cursor": None if cursor is None else render_cursor(cursor), "failures": 0}
    session.change(lambda record: replace(record, extra={**record.extra, **changes}))
    session.write_trimmed(() if cursor is None else cursor.trimmed)


def _read_cursor(session: SessionFile, record: SessionRecord) -> Cursor | None:
    cursor = parse_cursor(record.extra.get("cursor"))
    return None if cursor is None else replace(cursor, trimmed=session.read_trimmed())


def _log_run(session: SessionFile, result: ExtractResult, now: datetime) -> ExtractResult:
    note_run(
        session.state,
        {
            "at": now.isoformat(timespec="seconds"),
            "task": "extract",
            "session": session.id,
            "by": result.by,
            "skipped": result.skipped,
            "messages": result.messages,
            "written": len(result.written),
            "forgotten": len(result.forgotten),
            "waiting": len(result.waiting),
            "change": result.change,
            **render_ran(result.ran),
            "error": result.error,
        },
    )
    return result


def estimate_past(paths: Iterable[tuple[Path, SessionFile]]) -> ExtractEstimate:
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
    """Learn from one transcript in batches. Stops at a batch that fails, and continues there when called again."""
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
        turn = EndedTurn(piece.messages, piece.start, piece.context, conversation=conversation)
        result = extract_turn(store, session, turn, model=model, now=now)
        yield result
        if result.skipped in (ExtractSkip.FAILED, ExtractSkip.BUSY):
            return


def estimate_chats(chats: Iterable[ExportedChat]) -> ExtractEstimate:
    counts = [(len(chat.messages), sum(1 for _ in cut(chat.messages, None)), chat) for chat in chats]
    chars = sum(len(message.text) for _, _, chat in counts for message in chat.messages)
    pieces = sum(count for _, count, _ in counts)
    return ExtractEstimate(
        len(counts), sum(count for count, _, _ in counts), pieces, pieces * _TASK_TOKENS + chars // 4
    )


def harvest_chat(
    store: FileStore,
    chat: ExportedChat,
    id: str,
    *,
    model: Model | None,
    conversation: ConversationSource,
    now: datetime,
) -> ExtractResult:
    """Learn from an exported conversation. Without a model, only explicit requests are saved."""
    total = ExtractResult(skipped=ExtractSkip.NOTHING_FOUND)
    if model is None and not _has_request(clean_messages(chat.messages), now):
        return total
    for piece in cut(chat.messages, None):
        with store.hold_lock(LOCK, seconds=_CHAT_SECONDS):
            result = extract(
                store,
                piece.messages,
                model=None if model is None else new_run(model),
                now=now,
                conversation=replace(conversation, session=id),
                explicit_only=model is None,
                start=piece.start,
                context=piece.context,
            )
        if result.skipped is ExtractSkip.FAILED:
            return result
        total = replace(
            result,
            written=(*total.written, *result.written),
            waiting=(*total.waiting, *result.waiting),
            skipped=total.skipped and result.skipped,
        )
    return total


def _cut_new(path: Path, session: SessionFile) -> Iterator[MessageRun]:
    """Yield batches of messages after the session's cursor, or of all messages if the cursor was not found."""
    return read_pieces(path, parse_cursor(session.read().extra.get("cursor")))
