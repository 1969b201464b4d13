"""The queue's worker: a process of its own that no host waits for. It learns from every turn that waits, and ends.

One worker a directory at a time, decided by the operating system, so a killed one gives way at once. An entry leaves
the queue only after its turn was learned from, or cannot be any more; delivered twice it is learned once. Whatever goes
wrong with one conversation is noted in the record of runs and does not keep the others waiting.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from pathlib import Path

from memdir.conversation.lines import describe_transcript, is_agent_file
from memdir.conversation.notes import find_home, find_notes_file, read_notes_input, read_notes_options, update_notes
from memdir.conversation.transcripts import read_messages, read_slice
from memdir.dream import dream, find_dream_context, find_due
from memdir.errors import FormatError, LockedError, MemdirError, NotFoundError
from memdir.extraction import NOWHERE, ConversationSource, ExtractResult, ExtractSkip
from memdir.extraction import turns as queue
from memdir.extraction.turns import EndedTurn, ExtractOptions, MessageRun, QueuedTurn, count_failure, cut, extract_turn
from memdir.files import note_problem, start_detached
from memdir.frozen import replace
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW
from memdir.models.agent import note_run
from memdir.recall.select import LocalSearch
from memdir.records import Model
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.sessions import SessionFile, open_session, parse_cursor
from memdir.verify.check import refresh_verdicts

# --- worker ---

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
    manner: ExtractOptions,
    model: Model | None,
    conversation: ConversationSource = NOWHERE,
    clock: Callable[[], datetime],
    on_done: Callable[[QueuedTurn, ExtractResult], None] = lambda entry, done: None,
) -> int:
    """Learn from what waits until nothing does; answers how many conversations were done. Another worker is let be."""
    count = 0
    left: set[Path] = set()
    while waiting := [entry for entry in queue.read_queue(store.state) if entry.path not in left]:
        try:
            with store.hold_beside(LOCK):
                for entries in _group(waiting):
                    done = ExtractResult()
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


def _group(entries: Iterable[QueuedTurn]) -> list[list[QueuedTurn]]:
    """By conversation and transcript, those that waited longest first; the newest entry of each stands last."""
    ordered = sorted(entries, key=_name_talk)
    groups = [list(group) for _, group in groupby(ordered, key=_name_talk)]
    return sorted(groups, key=lambda group: group[0].path.name)


def _name_talk(entry: QueuedTurn) -> tuple[str, str]:
    """A conversation that was taken up again may go on in another file: neither file tells all of it."""
    return entry.session, entry.transcript


def _learn_from(
    store: FileStore,
    entry: QueuedTurn,
    manner: ExtractOptions,
    model: Model | None,
    conversation: ConversationSource,
    now: datetime,
) -> Iterator[ExtractResult]:
    """What came of the turn an entry stands for, piece by piece where much has gathered; the last one tells of all."""
    session = open_session(store.state, entry.session)
    try:
        turns = read_turns(Path(entry.transcript), session, conversation, entry.headless)
        turn = _read_first(store, entry, session, turns, now)
        following = None
        while isinstance(turn, EndedTurn):
            is_more = following is not None
            following = next(turns, None)
            # What has gathered for so long is due, whatever turn it is.
            due = replace(manner, every=1) if is_more or following is not None else manner
            done = extract_turn(store, session, turn, options=due, model=model, now=now)
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
    store: FileStore, entry: QueuedTurn, session: SessionFile, turns: Iterator[EndedTurn], now: datetime
) -> EndedTurn | ExtractResult:
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
    path: Path, session: SessionFile, conversation: ConversationSource, is_headless: bool, *, chars: int = _CHARS
) -> Iterator[EndedTurn]:
    """What a transcript says after the conversation's cursor; only that is read where messages have ids.

    It is one turn, but for a conversation that was long before anybody learned from it: that comes in several, so that
    it needs little memory.
    """
    cursor = parse_cursor(session.read().extra.get("cursor"))
    is_headless = is_headless or describe_transcript(path).is_headless
    turn = EndedTurn((), None, is_headless, is_agent_file(path), conversation)
    if cursor is not None and not cursor.id:
        yield replace(turn, messages=tuple(read_messages(path)))
        return
    start = 0 if cursor is None else cursor.position + 1
    new = read_messages(path) if cursor is None else read_slice(path, after=cursor.id, window=EXTRACT_WINDOW).messages
    pieces = cut(new, None, chars=chars, count=chars // 100)
    for piece in chain([next(pieces, MessageRun((), 0))], pieces):
        yield replace(turn, messages=piece.messages, start=start + piece.start)


def _note_problem(
    store: FileStore, entry: QueuedTurn, error: Exception, now: datetime, skip: ExtractSkip
) -> ExtractResult:
    words = f"{type(error).__name__}: {error}"
    row = {"at": now.isoformat(timespec="seconds"), "task": "extract", "session": entry.session, "skipped": skip}
    note_run(store.state, {**row, "error": words})
    return ExtractResult(skipped=skip, error=words)


# --- chores ---
# What a worker does beside learning: notes that are due, the index, what memories claim, and a dream that is due.
#
# Each chore stands alone. Nobody watches: what goes wrong with one is noted where `doctor` and the next session tell
# it,
# and keeps no other from being done.

WHO = "worker"
Chore = tuple[str, Callable[[], object]]


def do_chores(opened: Project, entries: Iterable[QueuedTurn], model: Model | None) -> None:
    """Everything there is to do in this place, after the turns of these entries."""
    for name, chore in _list_chores(opened, {entry.session: entry for entry in entries}.values(), model):
        try:
            chore()
        except LockedError:
            continue  # somebody else is at it
        except MemdirError as error:
            note_problem(opened.private.state, WHO, f"{name}: {error}", opened.now())


def _list_chores(opened: Project, entries: Iterable[QueuedTurn], model: Model | None) -> Iterator[Chore]:
    if not opened.places.switch.on or opened.settings.flag("paused"):
        return
    for entry in entries:
        yield "notes", partial(_note, opened, entry, model)
    yield "index", lambda: _refresh(opened)
    yield "verify", lambda: refresh_verdicts(opened, now=opened.now())
    session = next((entry.session for entry in entries), "")
    yield "dream", lambda: _dream(opened, session, model)


def _note(opened: Project, entry: QueuedTurn, model: Model | None) -> None:
    place, session = (
        find_notes_file(find_home(opened), entry.session),
        open_session(opened.private.state, entry.session),
    )
    news = read_notes_input(opened, Path(entry.transcript), session, place)
    update_notes(place, session, news, now=opened.now(), options=read_notes_options(opened), model=model)


def _refresh(opened: Project) -> None:
    """Read what is new into the index, so that the next prompt need not."""
    with LocalSearch(opened.stores) as search:
        search.refresh()


def _dream(opened: Project, session: str, model: Model | None) -> None:
    due = find_due(opened, now=opened.now(), session=session)
    if due.skip is None:
        dream(opened.private, model=model, now=opened.now(), context=find_dream_context(opened), due=due)
