"""Maintenance at the end of a turn, after extraction. The worker and `Session` run the same steps in this order."""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from memdir.conversation.transcripts import list_transcripts, read_messages
from memdir.dream import dream, find_dream_context, find_due
from memdir.errors import LockedError, MemdirError
from memdir.frozen import dataclass
from memdir.limits import SYNC_DUE_MINUTES
from memdir.project.hosts import plain_name
from memdir.project.paths import find_root
from memdir.recall.select import LocalSearch
from memdir.recall.triggers import Action, find_action, note_frequent
from memdir.records import Model
from memdir.store.contract import Clock, StoreBase
from memdir.store.open import Project
from memdir.store.sessions import prune_sessions
from memdir.store.state import FREQUENT, find_own_sync, read_table, read_time
from memdir.verify.check import refresh_verdicts

_COUNTED_DAYS, _COUNTED_TRANSCRIPTS, _COUNTED_TURNS = 30, 20, 200
_LEAST_TURNS = 20  # with fewer turns, the share in which a trigger fires is not reliable
WHO = "worker"  # the author of background changes


class TurnChore(StrEnum):
    """The maintenance steps, in the order in which they run. `VERIFY` and those after `SESSIONS` need a project."""

    NOTES = "notes"
    VERIFY = "verify"
    INDEX = "index"
    SESSIONS = "sessions"
    DREAM = "dream"
    TEAM_SYNC = "team sync"
    SYNC = "sync"


# For a process that a host waits for. Dreams and syncs run in a separate process.
QUICK_CHORES = (TurnChore.NOTES, TurnChore.VERIFY, TurnChore.INDEX, TurnChore.SESSIONS)


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The input of the steps. `notes` update the session notes."""

    stores: Sequence[StoreBase]
    state: Path
    clock: Clock
    session: str = ""
    project: Project | None = None
    model: Model | None = None
    notes: Sequence[Callable[[], object]] = ()


def do_chores(
    context: TurnContext,
    report: Callable[[TurnChore, MemdirError], None],
    chores: Collection[TurnChore] = tuple(TurnChore),
) -> None:
    """Run the steps in `chores` that are due, unless memory is off or paused. Errors are passed to `report`."""
    project = context.project
    if project is not None and (not project.places.switch.on or project.settings.flag("paused")):
        return
    for chore, step in _list_steps(context):
        if chore in chores:
            try:
                step()
            except LockedError:
                continue
            except MemdirError as error:
                report(chore, error)
            except (OSError, sqlite3.Error) as error:
                report(chore, MemdirError(str(error)))


def _list_steps(context: TurnContext) -> Iterator[tuple[TurnChore, Callable[[], object]]]:
    project, now = context.project, context.clock
    for update in context.notes:
        yield TurnChore.NOTES, update
    if project is not None:
        yield TurnChore.VERIFY, lambda: refresh_verdicts(project, now=now())
    yield TurnChore.INDEX, lambda: refresh_index(context.stores)
    if project is not None:
        yield TurnChore.INDEX, lambda: _count_triggers(project, now())
    yield TurnChore.SESSIONS, lambda: prune_sessions(context.state)
    if project is not None:
        yield TurnChore.DREAM, lambda: _dream(project, context.session, context.model, now())
        yield TurnChore.TEAM_SYNC, lambda: _sync_team(project, now())
        yield TurnChore.SYNC, lambda: _sync_own(project, now())


def refresh_index(stores: Sequence[StoreBase]) -> None:
    """Update the search index and the triggers of actions, so that the next hook knows what changed."""
    with LocalSearch(stores) as search:
        search.refresh()


def _count_triggers(project: Project, now: datetime) -> None:
    """Once a day, record the triggers that would have fired in too many turns of the newest conversations."""
    state, index = project.private.state, project.private.find_index_file(write=False)
    known = read_time(read_table(state, FREQUENT).get("at"))
    if index is None or not index.exists() or (known is not None and now - known < timedelta(days=1)):
        return
    turns: list[list[Action]] = []
    infos = list_transcripts(project.environment, project.places.root.path, since=now - timedelta(days=_COUNTED_DAYS))
    for info in reversed(infos[-_COUNTED_TRANSCRIPTS:]):
        tops = [find_root(Path(info.cwd), worktree="own").path, project.places.root.path]
        with suppress(MemdirError):
            for message in read_messages(info.path):
                if message.role == "user" or not turns:
                    turns.append([])
                calls = (find_action(plain_name(call.name), call.input, info.cwd, tops) for call in message.calls)
                turns[-1] += [action for action in calls if action is not None]
        if len(turns) > _COUNTED_TURNS:
            break
    worked = [actions for actions in turns if actions]
    if len(worked) >= _LEAST_TURNS:
        note_frequent(state, index, worked[:_COUNTED_TURNS], now)


def _dream(project: Project, session: str, model: Model | None, now: datetime) -> None:
    due = find_due(project, now=now, session=session)
    if due.skip is None:
        dream(project.private, model=model, now=now, context=find_dream_context(project), due=due)


def _sync_team(project: Project, now: datetime) -> None:
    from memdir.sync.state import is_sync_due, read_membership  # imported here because a session does not sync
    from memdir.sync.sync import open_sync, sync

    state = project.private.state
    if project.settings.flag("team") and read_membership(state) is not None and is_sync_due(state, now):
        sync(open_sync(project), now=now)


def _sync_own(project: Project, now: datetime) -> None:
    """Sync immediately if there are unsent memories, otherwise at most every few minutes."""
    from memdir.sync.own import has_unsent, read_setup, sync_own
    from memdir.sync.state import OWN_RECORD, is_sync_due

    is_due = is_sync_due(find_own_sync(project.environment), now, minutes=SYNC_DUE_MINUTES, file=OWN_RECORD)
    if read_setup(project.environment) is not None and (is_due or has_unsent(project)):
        sync_own(project, now=now)
