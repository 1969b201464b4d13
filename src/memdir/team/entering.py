"""Into a team, out of it, and what has to be known for a sync: put together from an opened project.

The first contact has to work: an address with a slip in it should be told at once and not at every sync. Whoever
leaves keeps the files.
"""

import time
from datetime import datetime

from memdir.authors import find_own_author
from memdir.config_file import write_setting
from memdir.errors import NotFoundError, SettingsError
from memdir.frozen import replace
from memdir.kept_team import COPY, NEWS, POINT, RECORD, drop_copy
from memdir.limits import TEAM_SECONDS
from memdir.opening import Opened
from memdir.settings import DEFAULT
from memdir.team.git import Copy
from memdir.team.looking import check_team, look_at
from memdir.team.membership import (
    Membership,
    check_branch,
    drop_membership,
    read_membership,
    resolve_remote,
    write_membership,
)
from memdir.team.objects import open_copy
from memdir.team.point import Point
from memdir.team.remote import fetch_branch
from memdir.team.synced import Synced
from memdir.team.syncing import LOCK, Sync, find_point, sync
from memdir.team.telling import drop_waiting


def open_sync(opened: Opened, *, seconds: float = TEAM_SECONDS) -> Sync:
    """What a sync of this project needs; raises SettingsError for whoever is in no team."""
    member = read_membership(opened.private.state)
    if member is None:
        hint = "`memdir team init` begins one, `memdir team join` takes part in one"
        raise SettingsError("this project has no team memory", key="team", hint=hint)
    return _make_sync(opened, member, seconds)


def enter(opened: Opened, member: Membership, *, now: datetime, create: bool, seconds: float = TEAM_SECONDS) -> Synced:
    """Take part in a team, and begin it if `create` says so and nobody has; raises if the remote cannot be reached."""
    store, known = opened.private, read_membership(opened.private.state)
    check_branch(member.branch)
    address = resolve_remote(member, opened.places.root.path)
    member = replace(member, remote=address) if member.remote else member
    if known is not None and (known.remote, known.branch) != (member.remote, member.branch):
        hint = "`memdir team leave` first; the files stay"
        raise SettingsError("this project is in another team already", key="team", hint=hint)
    task = _make_sync(opened, member, seconds)
    with store.hold_beside(LOCK, seconds=seconds):
        copy = open_copy(open_team_copy(task))
        head = fetch_branch(copy, address, member.branch)
        if head is None and not create:
            hint = "`memdir team init` begins one"
            raise NotFoundError(f"the remote has no branch {member.branch}", name=member.branch, hint=hint)
        if head is not None and known is None:
            check_team(look_at(copy, head), member.branch)
        write_membership(store.state, task.member)
    if opened.settings.sources["team"] != DEFAULT and not opened.settings.flag("team"):
        write_setting(opened.environment, "team", True)
    return sync(task, now=now)


def leave(opened: Opened) -> bool:
    """Forget the remote and everything kept for it; the memories stay. Whether there was a team to leave."""
    store = opened.private
    was_in = read_membership(store.state) is not None
    if not was_in:
        return False
    with store.hold_beside(LOCK, seconds=TEAM_SECONDS):
        drop_membership(store.state)
        drop_copy(store.state)
        for file in (POINT, RECORD, NEWS):
            (store.state / file).unlink(missing_ok=True)
        drop_waiting(store)
    return True


def open_team_copy(task: Sync) -> Copy:
    return Copy(task.store.state / COPY, task.environment, deadline=time.monotonic() + task.seconds)


def read_head(task: Sync) -> Point:
    """Where this member and the branch were last in step; raises NotFoundError before the first sync."""
    point = find_point(task.store)
    if not point.head:
        raise NotFoundError("nothing was synced yet", hint="`memdir team sync`")
    return point


def _make_sync(opened: Opened, member: Membership, seconds: float) -> Sync:
    root = opened.places.root.path
    author = find_own_author(opened.environment, root)
    return Sync(opened.private, member, opened.environment, root, author, seconds)
