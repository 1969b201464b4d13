"""What a worker does beside learning: notes that are due, the index, what memories claim, and a dream that is due.

Each chore stands alone. Nobody watches: what goes wrong with one is noted where `doctor` and the next session tell it,
and keeps no other from being done.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from memdir.dream import dream, find_due, find_surroundings
from memdir.errors import LockedError, MemdirError
from memdir.events import note_problem
from memdir.notes import find_home, find_place, read_manner, read_news, update_notes
from memdir.opening import Opened
from memdir.queue import Entry
from memdir.records import Model
from memdir.refreshing import refresh_verdicts
from memdir.search.local import LocalSearch
from memdir.session import open_session

WHO = "worker"
Chore = tuple[str, Callable[[], object]]


def do_chores(opened: Opened, entries: Iterable[Entry], model: Model | None) -> None:
    """Everything there is to do in this place, after the turns of these entries."""
    for name, chore in _list_chores(opened, {entry.session: entry for entry in entries}.values(), model):
        try:
            chore()
        except LockedError:
            continue  # somebody else is at it
        except MemdirError as error:
            note_problem(opened.private.state, WHO, f"{name}: {error}", opened.now())


def _list_chores(opened: Opened, entries: Iterable[Entry], model: Model | None) -> Iterator[Chore]:
    if not opened.places.switch.on or opened.settings.flag("paused"):
        return
    for entry in entries:
        yield "notes", partial(_note, opened, entry, model)
    yield "index", lambda: _refresh(opened)
    yield "verify", lambda: refresh_verdicts(opened, now=opened.now())
    session = next((entry.session for entry in entries), "")
    yield "dream", lambda: _dream(opened, session, model)


def _note(opened: Opened, entry: Entry, model: Model | None) -> None:
    place, session = (
        find_place(find_home(opened), entry.session),
        open_session(opened.private.state, entry.session),
    )
    news = read_news(opened, Path(entry.transcript), session, place)
    update_notes(place, session, news, now=opened.now(), manner=read_manner(opened), model=model)


def _refresh(opened: Opened) -> None:
    """Read what is new into the index, so that the next prompt need not."""
    with LocalSearch(opened.stores) as search:
        search.refresh()


def _dream(opened: Opened, session: str, model: Model | None) -> None:
    due = find_due(opened, now=opened.now(), session=session)
    if due.skip is None:
        dream(opened.private, model=model, now=opened.now(), surroundings=find_surroundings(opened), due=due)
