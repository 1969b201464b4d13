"""Learning from conversations that are over: a transcript in pieces, each piece a run of its own.

A piece is what one request can carry. The cursor moves with each, so a harvest that was interrupted goes on where it
stopped, and one that is repeated finds nothing new.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from memdir.cursor import Cursor, make_cursor, parse_cursor
from memdir.extract import extract
from memdir.extract_gates import ExtractSkip
from memdir.extracted import Conversation, Extracted
from memdir.frozen import dataclass, replace
from memdir.learning import Manner, Turn, learn
from memdir.limits import EXTRACT_SLICE_CHARS
from memdir.records import Message, Model
from memdir.session import SessionFile
from memdir.store.files import FileStore
from memdir.tokens import estimate_tokens
from memdir.transcripts import read_messages

_PIECE_MESSAGES = 400
_TASK_TOKENS = 1_500  # what each request says besides the conversation, and its answer


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a harvest would have before it; tokens only matter where a model is asked."""

    transcripts: int = 0
    messages: int = 0
    pieces: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Some messages in a row, and how many came before them in the conversation."""

    messages: tuple[Message, ...]
    start: int


def cut(
    messages: Iterable[Message],
    cursor: Cursor | None,
    *,
    chars: int = EXTRACT_SLICE_CHARS,
    count: int = _PIECE_MESSAGES,
) -> Iterator[Piece]:
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
            yield Piece(tuple(piece), start)
            piece, size, start = [], 0, position
        piece.append(message)
        size += len(message.text)
    if piece:
        yield Piece(tuple(piece), start)


def estimate(paths: Iterable[tuple[Path, SessionFile]]) -> Estimate:
    """How much there is to learn from in these transcripts."""
    transcripts = messages = pieces = tokens = 0
    for path, session in paths:
        before = pieces
        for piece in _cut_new(path, session):
            pieces += 1
            messages += len(piece.messages)
            tokens += _TASK_TOKENS + sum(estimate_tokens(message.text) for message in piece.messages)
        transcripts += pieces > before
    return Estimate(transcripts, messages, pieces, tokens)


def harvest(
    store: FileStore,
    path: Path,
    session: SessionFile,
    *,
    model: Model | None,
    conversation: Conversation,
    now: datetime,
    dry_run: bool = False,
) -> Iterator[Extracted]:
    """Learn from one transcript, piece by piece; ends early when a piece fails, and goes on there the next time."""
    conversation = replace(conversation, session=session.id)
    if dry_run and session.read().private:
        yield Extracted(skipped=ExtractSkip.PRIVATE)
        return
    for piece in _cut_new(path, session):
        if dry_run:
            yield extract(
                store, piece.messages, model=model, now=now, conversation=conversation, dry_run=True, start=piece.start
            )
            continue
        turn = Turn(piece.messages, piece.start, conversation=conversation)
        done = learn(store, session, turn, manner=Manner(), model=model, now=now)
        yield done
        if done.skipped in (ExtractSkip.FAILED, ExtractSkip.BUSY):
            return


def _cut_new(path: Path, session: SessionFile) -> Iterator[Piece]:
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
