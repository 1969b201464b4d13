"""The queue's worker: a process of its own that no host waits for. It learns from every turn that waits, and ends.

One worker a directory at a time, decided by the operating system, so a killed one gives way at once. An entry leaves
the queue only after its turn was learned from, or cannot be any more; delivered twice it is learned once. Whatever goes
wrong with one conversation is noted in the record of runs and does not keep the others waiting.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain, groupby
from pathlib import Path

from memdir import queue
from memdir.cursor import parse_cursor
from memdir.detach import start_detached
from memdir.errors import FormatError, LockedError, NotFoundError
from memdir.extract_gates import ExtractSkip
from memdir.extracted import NOWHERE, Conversation, Extracted
from memdir.frozen import replace
from memdir.harvest import Piece, cut
from memdir.learning import Manner, Turn, count_failure, learn
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW
from memdir.queue import Entry
from memdir.records import Model
from memdir.runs import note_run
from memdir.session import SessionFile, open_session
from memdir.store.files import FileStore
from memdir.transcripts import describe, read_messages, read_slice
from memdir.transcripts.formats import is_agent_file

LOCK = "worker.lock"
_CHARS = 2_000_000  # learned from at once: sorting words by whose they are takes fifty times their size in memory
# What is tried again when the queue is next looked at.
_AGAIN = (ExtractSkip.BUSY, ExtractSkip.FAILED)


def start(cwd: Path, *arguments: str) -> int:
    """Begin a worker that outlives this process; answers its PID."""
    return start_detached(cwd, *arguments, "worker")


def work(
    store: FileStore,
    *,
    manner: Manner,
    model: Model | None,
    conversation: Conversation = NOWHERE,
    clock: Callable[[], datetime],
    on_done: Callable[[Entry, Extracted], None] = lambda entry, done: None,
) -> int:
    """Learn from what waits until nothing does; answers how many conversations were done. Another worker is let be."""
    count = 0
    left: set[Path] = set()
    while waiting := [entry for entry in queue.read_queue(store.state) if entry.path not in left]:
        try:
            with store.hold_beside(LOCK):
                for entries in _group(waiting):
                    done = Extracted()
                    for done in _learn_from(store, entries[-1], manner, model, conversation, clock()):
                        on_done(entries[-1], done)
                    if done.skipped in _AGAIN:
                        left.update(entry.path for entry in entries)
                    else:
                        queue.drop(entries)
                        count += 1
        except LockedError:
            return count
        # A turn may have been queued after the last look, by one who saw that a worker was at work: look again.
    return count


def _group(entries: Iterable[Entry]) -> list[list[Entry]]:
    """By conversation and transcript, those that waited longest first; the newest entry of each stands last."""
    ordered = sorted(entries, key=_name_talk)
    groups = [list(group) for _, group in groupby(ordered, key=_name_talk)]
    return sorted(groups, key=lambda group: group[0].path.name)


def _name_talk(entry: Entry) -> tuple[str, str]:
    """A conversation that was taken up again may go on in another file: neither file tells all of it."""
    return entry.session, entry.transcript


def _learn_from(
    store: FileStore, entry: Entry, manner: Manner, model: Model | None, conversation: Conversation, now: datetime
) -> Iterator[Extracted]:
    """What came of the turn an entry stands for, piece by piece where much has gathered; the last one tells of all."""
    session = open_session(store.state, entry.session)
    try:
        turns = read_turns(Path(entry.transcript), session, conversation, entry.headless)
        turn = _read_first(store, entry, session, turns, now)
        following = None
        while isinstance(turn, Turn):
            is_more = following is not None
            following = next(turns, None)
            # What has gathered for so long is due, whatever turn it is.
            due = replace(manner, every=1) if is_more or following is not None else manner
            done = learn(store, session, turn, manner=due, model=model, now=now)
            yield done
            if following is None or done.skipped in _AGAIN:
                return
            turn = following
        yield turn
    except Exception as error:
        # Nobody watches this process: what cannot be helped is noted, and the other conversations have their turn. The
        # entry stays, because what was queued is never lost; it is tried once for each worker.
        count_failure(session)
        yield _note_problem(store, entry, error, now, ExtractSkip.FAILED)


def _read_first(
    store: FileStore, entry: Entry, session: SessionFile, turns: Iterator[Turn], now: datetime
) -> Turn | Extracted:
    """The first of an entry's turns, or what came of it where there is none."""
    try:
        return next(turns)
    except NotFoundError as error:
        # The transcript is gone, and with it what could be learned.
        return _note_problem(store, entry, error, now, ExtractSkip.NOTHING_NEW)
    except FormatError as error:
        # Its first line may be half written; what is no transcript after several looks is none.
        is_new = count_failure(session) < EXTRACT_TRIES
        return _note_problem(store, entry, error, now, ExtractSkip.FAILED if is_new else ExtractSkip.NOTHING_NEW)


def read_turns(
    path: Path, session: SessionFile, conversation: Conversation, is_headless: bool, *, chars: int = _CHARS
) -> Iterator[Turn]:
    """What a transcript says after the conversation's cursor; only that is read where messages have ids.

    It is one turn, but for a conversation that was long before anybody learned from it: that comes in several, so that
    it needs little memory.
    """
    cursor = parse_cursor(session.read().extra.get("cursor"))
    is_headless = is_headless or describe(path).is_headless
    turn = Turn((), None, is_headless, is_agent_file(path), conversation)
    if cursor is not None and not cursor.id:
        yield replace(turn, messages=tuple(read_messages(path)))
        return
    start = 0 if cursor is None else cursor.position + 1
    new = read_messages(path) if cursor is None else read_slice(path, after=cursor.id, window=EXTRACT_WINDOW).messages
    pieces = cut(new, None, chars=chars, count=chars // 100)
    for piece in chain([next(pieces, Piece((), 0))], pieces):
        yield replace(turn, messages=piece.messages, start=start + piece.start)


def _note_problem(store: FileStore, entry: Entry, error: Exception, now: datetime, skip: ExtractSkip) -> Extracted:
    words = f"{type(error).__name__}: {error}"
    row = {"at": now.isoformat(timespec="seconds"), "task": "extract", "session": entry.session, "skipped": skip}
    note_run(store.state, {**row, "error": words})
    return Extracted(skipped=skip, error=words)
