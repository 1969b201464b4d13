"""The background worker: learns from every queued turn, updates notes and index, runs a due dream, and ends.

No host waits for it. A file lock allows one worker per directory; the system releases the lock if a worker is killed. A
turn stays queued until it is extracted or never can be; if it is queued twice, it is extracted once. An error in
one conversation or chore is recorded and does not stop the others.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path

from memdir.conversation.lines import is_agent_file
from memdir.conversation.notes import find_home, find_notes_file, update_from_transcript
from memdir.conversation.transcripts import MessageRun, describe_transcript, read_messages, read_pieces
from memdir.errors import FormatError, LockedError, MemdirError, NotFoundError
from memdir.extraction import NOWHERE, ConversationSource, ExtractResult, ExtractSkip
from memdir.extraction.turns import EndedTurn, ExtractOptions, count_failure, extract_turn
from memdir.files import start_detached
from memdir.frozen import replace
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW, SESSION_DAYS
from memdir.operations.turn import WHO, TurnContext, do_chores
from memdir.project.hosts import find_host
from memdir.records import Model
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.store.sessions import QueuedTurn, SessionFile, drop_turns, enqueue, parse_cursor, read_ended, read_queue
from memdir.store.state import note_problem, note_run, note_saved

LOCK = "worker.lock"
_CHARS = 2_000_000  # extracted at once, because tracing their source takes fifty times their size in RAM
_AGAIN = (ExtractSkip.BUSY, ExtractSkip.FAILED)  # tried again when the queue is next read


def work(
    store: FileStore, *, options: ExtractOptions, model: Model | None, conversation: ConversationSource = NOWHERE,
    clock: Callable[[], datetime], on_done: Callable[[QueuedTurn, ExtractResult], None] = lambda entry, done: None,
) -> int:  # fmt: skip
    """Process queued turns until none are left; return the number of conversations, 0 if another worker is running."""
    count = 0
    left: set[Path] = set()
    while queued := [entry for entry in read_queue(store.state) if entry.path not in left]:
        try:
            with store.hold_lock(LOCK):
                for entries in _group_turns(queued):
                    result = ExtractResult()
                    for result in _extract_from(store, entries[-1], options, model, conversation, clock()):
                        on_done(entries[-1], result)
                        _record_saved_titles(store, result)
                    if result.skipped in _AGAIN:
                        left.update(entry.path for entry in entries)
                    else:
                        drop_turns(entries)
                        count += 1
        except LockedError:
            return count
        # A process that saw this worker may have queued a turn since: read the queue again.
    return count


def collect_ended(project: Project) -> int:
    """Queue turns whose hook was killed or late, each in its own project, and return how many. Starts a worker in other
    projects. A turn whose project cannot be opened is kept as long as conversations are."""
    others: set[Path] = set()
    count = 0
    for turn in read_ended(project.environment.state_home):
        folders = (Path(path) for path in turn.cwd if os.path.isabs(path) and "\0" not in path and os.path.isdir(path))
        cwd = next(folders, None)
        host = find_host(turn.host)
        try:
            if cwd is not None and host is not None and host.reader:
                with closing(open_project(cwd, environ=project.environment.inherited)) as other:
                    if other.places.switch.on:
                        enqueue(other.private.state, QueuedTurn(turn.session, turn.transcript, turn.headless))
                        count += 1
                        if other.private.state != project.private.state:
                            others.add(cwd)
            elif cwd is None and turn.path.stat().st_mtime > time.time() - SESSION_DAYS * 86_400:
                continue  # its folder may be on a disk that is not mounted
            drop_turns([turn])
        except (MemdirError, OSError) as error:
            note_problem(project.private.state, WHO, f"{turn.path.name}: {error}", project.now())
    for cwd in others:
        start_detached(cwd, "worker", environ=project.environment.inherited)
    return count


def _record_saved_titles(store: FileStore, result: ExtractResult) -> None:
    titles = []
    for name in result.written:
        with suppress(MemdirError):  # it was renamed or forgotten since
            titles.append(store.read(name).header.title)
    note_saved(store.state, titles)


def _group_turns(entries: Iterable[QueuedTurn]) -> list[list[QueuedTurn]]:
    """Group turns by conversation and transcript, oldest group first; the newest turn of a group is last."""
    # A resumed conversation may continue in another file, so process each file.
    key = attrgetter("session", "transcript")
    groups = [list(group) for _, group in groupby(sorted(entries, key=key), key=key)]
    return sorted(groups, key=lambda group: group[0].path.name)


def _extract_from(
    store: FileStore, entry: QueuedTurn, options: ExtractOptions, model: Model | None, conversation: ConversationSource,
    now: datetime,
) -> Iterator[ExtractResult]:  # fmt: skip
    """Yield the results of one queued turn, in pieces if it is long; the last decides whether the turn is done."""
    session = SessionFile(store.state, entry.session)
    try:
        turns = read_turns(Path(entry.transcript), session, conversation, entry.headless)
        turn = _read_first(store, entry, session, turns, now)
        following = None
        while isinstance(turn, EndedTurn):
            is_more = following is not None
            following = next(turns, None)
            # Several pieces are always extracted, whatever the number of the turn.
            due = replace(options, every=1) if is_more or following is not None else options
            result = extract_turn(store, session, turn, options=due, model=model, now=now)
            yield result
            if following is None or result.skipped in _AGAIN:
                return
            turn = following
        yield turn
    except Exception as error:
        # No user sees this process, so record the error; the turn stays queued for the next worker.
        count_failure(session)
        yield _record_error(store, entry, error, now, ExtractSkip.FAILED)


def _read_first(
    store: FileStore, entry: QueuedTurn, session: SessionFile, turns: Iterator[EndedTurn], now: datetime
) -> EndedTurn | ExtractResult:
    try:
        return next(turns)
    except NotFoundError as error:
        return _record_error(store, entry, error, now, ExtractSkip.NOTHING_NEW)
    except FormatError as error:
        # Its first line may be incomplete, so give up only after several tries.
        is_new = count_failure(session) < EXTRACT_TRIES
        return _record_error(store, entry, error, now, ExtractSkip.FAILED if is_new else ExtractSkip.NOTHING_NEW)


def read_turns(
    path: Path, session: SessionFile, conversation: ConversationSource, is_headless: bool
) -> Iterator[EndedTurn]:
    """Yield the part of a transcript after the session's cursor, a long one as several turns to save memory.

    If messages have IDs, only that part is read.
    """
    cursor = parse_cursor(session.read().extra.get("cursor"))
    is_headless = is_headless or describe_transcript(path).is_headless
    is_subagent = is_agent_file(path)
    turn = EndedTurn((), is_headless=is_headless, is_subagent=is_subagent, conversation=conversation)
    if cursor is not None and not cursor.id:
        yield replace(turn, messages=tuple(read_messages(path)))
        return
    nothing = MessageRun((), 0 if cursor is None else cursor.position + 1)
    pieces = read_pieces(path, cursor, chars=_CHARS, count=_CHARS // 100, window=EXTRACT_WINDOW)
    for piece in chain([next(pieces, nothing)], pieces):
        yield replace(turn, messages=piece.messages, start=piece.start, context=piece.context)


def _record_error(
    store: FileStore, entry: QueuedTurn, error: Exception, now: datetime, skip: ExtractSkip
) -> ExtractResult:
    words = f"{type(error).__name__}: {error}"
    row = {"at": now.isoformat(timespec="seconds"), "task": "extract", "session": entry.session, "skipped": skip}
    note_run(store.state, {**row, "error": words})
    if skip is ExtractSkip.FAILED:  # shown at the next start, because users do not read the list of runs
        note_problem(store.state, WHO, f"extract: {error if isinstance(error, MemdirError) else words}", now)
    return ExtractResult(skipped=skip, error=words)


def do_worker_chores(project: Project, entries: Iterable[QueuedTurn], model: Model | None) -> None:
    """Run the chores that are due after these turns, such as notes and dreams; record errors for the next session start."""
    latest = list({entry.session: entry for entry in entries}.values())
    context = TurnContext(
        project.stores,
        project.private.state,
        project.clock,
        latest[0].session if latest else "",
        project,
        model,
        [partial(_update_notes, project, entry, model) for entry in latest],
    )
    do_chores(context, lambda chore, error: note_problem(context.state, WHO, f"{chore}: {error}", project.now()))


def _update_notes(project: Project, entry: QueuedTurn, model: Model | None) -> None:
    file = find_notes_file(find_home(project), entry.session)
    session = SessionFile(project.private.state, entry.session)
    update_from_transcript(project, Path(entry.transcript), session, file, model=model)
