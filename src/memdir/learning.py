"""When a turn has ended: may it be learned from, from where on, and what is noted of it afterwards.

One run at a time in a directory. The conversation's record holds the cursor and how often the model has failed on the
same messages; it moves on success only. Every run leaves a line in the record of runs, skipped ones included.
"""

from collections.abc import Sequence
from datetime import datetime

from memdir.cursor import Cursor, make_cursor, parse_cursor, render_cursor, slice_after
from memdir.errors import LockedError
from memdir.extract import clean, extract
from memdir.extract_gates import ExtractSkip
from memdir.extracted import NOWHERE, Conversation, Extracted
from memdir.frozen import dataclass, replace
from memdir.models import new_run
from memdir.opening import Opened
from memdir.records import Message, Model
from memdir.rules import find_hidden_wishes, find_wishes
from memdir.runs import note_run, render_ran
from memdir.session import Record, SessionFile
from memdir.store.files import FileStore

LOCK = "extract.lock"
HEADLESS_ON, HEADLESS_OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a place wants to be learned from; the defaults are those of the settings."""

    on: bool = True
    paused: bool = False
    headless: str = "explicit"
    every: int = 1


PLAINLY = Manner()


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that has ended: all messages so far, or those after the cursor with how many came before them."""

    messages: Sequence[Message]
    start: int | None = None
    is_headless: bool = False
    is_subagent: bool = False
    conversation: Conversation = NOWHERE


def read_manner(opened: Opened) -> Manner:
    settings = opened.settings
    return Manner(
        on=opened.places.switch.on and settings.flag("extract"),
        paused=settings.flag("paused"),
        headless=settings.text("extract_headless"),
        every=int(settings.number("extract_every")),
    )


def make_conversation(opened: Opened) -> Conversation:
    """A conversation held here."""
    return Conversation(project=opened.places.root.path, home=str(opened.environment.home))


def learn(
    store: FileStore,
    session: SessionFile,
    turn: Turn,
    *,
    manner: Manner = PLAINLY,
    model: Model | None,
    now: datetime,
    seconds: float = 0,
) -> Extracted:
    """Run extraction over what is new in a conversation, if it may be; another run is waited for so many seconds."""
    if turn.is_subagent:
        return _note(store, session, Extracted(skipped=ExtractSkip.SUBAGENT), now)
    record = session.change(lambda at: replace(at, turns=at.turns + 1))
    cursor = parse_cursor(record.extra.get("cursor"))
    if skip := _find_skip(manner, record, turn):
        # What was said while nobody should listen is never learned later.
        end = make_cursor(turn.messages, before=turn.start or 0) or cursor
        _keep(session, end, 0)
        return _note(store, session, Extracted(skipped=skip, cursor=end), now)
    throttled = record.turns % manner.every != 0
    if throttled and not _asks(turn, cursor, now):
        return _note(store, session, Extracted(skipped=ExtractSkip.THROTTLED), now)
    explicit = turn.is_headless and manner.headless != HEADLESS_ON
    try:
        with store.hold_beside(LOCK, seconds=seconds):
            if seconds:  # the run that was waited for may have been over the same conversation
                record = session.read()
                cursor = parse_cursor(record.extra.get("cursor"))
            done = _extract(store, session, turn, record, cursor, model, explicit, throttled, now)
    except LockedError:
        return _note(store, session, Extracted(skipped=ExtractSkip.BUSY), now)
    if done.cursor is not None:
        _keep(session, done.cursor, 0)
    return _note(store, session, done, now)


def _extract(
    store: FileStore,
    session: SessionFile,
    turn: Turn,
    record: Record,
    cursor: Cursor | None,
    model: Model | None,
    explicit: bool,
    is_partial: bool,
    now: datetime,
) -> Extracted:
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


def _read_failures(record: Record) -> int:
    count = record.extra.get("failures")
    return count if type(count) is int else 0


def _find_skip(manner: Manner, record: Record, turn: Turn) -> ExtractSkip | None:
    gates = (
        (ExtractSkip.OFF, not manner.on),
        (ExtractSkip.PAUSED, manner.paused),
        (ExtractSkip.PRIVATE, record.private),
        (ExtractSkip.HEADLESS, turn.is_headless and manner.headless == HEADLESS_OFF),
    )
    return next((skip for skip, shut in gates if shut), None)


def _asks(turn: Turn, cursor: Cursor | None, now: datetime) -> bool:
    """Whether a person asks for something in what is new: that does not wait for its turn."""
    new = turn.messages if turn.start is not None else slice_after(turn.messages, cursor).messages
    talk = clean(new)
    return any(wish.is_explicit for wish in find_wishes(talk, now=now)) or bool(find_hidden_wishes(talk, now=now))


def _keep(session: SessionFile, cursor: Cursor | None, failures: int) -> None:
    kept = {"cursor": None if cursor is None else render_cursor(cursor), "failures": failures}
    session.change(lambda at: replace(at, extra={**at.extra, **kept}))


def _note(store: FileStore, session: SessionFile, done: Extracted, now: datetime) -> Extracted:
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
            "act": done.act,
            **render_ran(done.ran),
            "error": done.error,
        },
    )
    return done
