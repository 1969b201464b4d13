"""Verdicts brought up to date beside a conversation, so that recall has caveats to tell without looking at a project.

The queue's worker calls it when it has learned from what waited. At most once in a while, which is known from the
diary of events; a project in which nothing has changed takes a listing. Whatever goes wrong, the verdicts are as old
as they were.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from memdir.events import note_event, read_events
from memdir.limits import VERIFY_EVERY_MINUTES
from memdir.opening import Opened
from memdir.records import Scope
from memdir.verify.verifying import refresh

HOST, EVENT = "memdir", "verify"


def refresh_verdicts(opened: Opened, *, now: datetime, give_way: Callable[[], object] = lambda: None) -> int | None:
    """Look again at what memories claim; answers how many verdicts were reached anew, None if it is not time.

    `give_way` is called again and again, and may take its time.
    """
    if not opened.places.switch.on or opened.settings.flag("paused"):
        return None
    if not opened.private.root.is_dir() or not is_due(opened, now):
        return None
    note_event(opened.private.state, HOST, EVENT, now)
    root = opened.places.root.path
    roots = [(at, None if at.scope is Scope.USER else root) for at in opened.stores]
    return sum(refresh(store, place, now=now, give_way=give_way) for store, place in roots)


def is_due(opened: Opened, now: datetime) -> bool:
    """Whether the last time is long enough ago; one that lies ahead says nothing."""
    last = next((at.at for at in read_events(opened.private.state) if (at.host, at.event) == (HOST, EVENT)), None)
    return last is None or abs(now - last) >= timedelta(minutes=VERIFY_EVERY_MINUTES)
