"""Team memory over git: the files of `team/` kept in step with a branch that several people share.

    merge    two versions of one file made into one
    admit    what may come in, and what may go out
    git      the git program as a carrier, in memdir's own bare copy
    state    which remote; what the files were when both sides were last in step
    plan     what each side did, and what a sync would do
    sync     all of it in order
    news     results, records, news and items of the inbox
    revert   undoing what one author wrote

The person's own repository is read for the address of its remote only. Nobody's identity is proved: an author is what a
commit says.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from memdir.errors import NotFoundError, SettingsError
from memdir.files import start_detached
from memdir.frozen import replace
from memdir.limits import TEAM_SECONDS
from memdir.project.settings import DEFAULT, write_setting
from memdir.store.open import Project
from memdir.store.state import NEWS, POINT, RECORD, drop_copy, find_own_author
from memdir.team.git import fetch_branch, open_copy
from memdir.team.news import (
    SyncOutcome,
    SyncRecord,
    SyncRefusal,
    SyncResult,
    TeamNews,
    drop_waiting,
    is_sync_due,
    mark_seen,
    read_sync_record,
    read_team_news,
    render_news,
)
from memdir.team.plan import check_is_team, look_at
from memdir.team.revert import RevertResult, revert_author
from memdir.team.state import (
    BRANCH,
    Membership,
    SyncPoint,
    check_branch,
    drop_membership,
    read_membership,
    resolve_remote,
    write_membership,
)
from memdir.team.sync import LOCK, SyncTask, find_point, sync

__all__ = [
    "BRANCH",
    "Membership",
    "RevertResult",
    "SyncOutcome",
    "SyncRecord",
    "SyncRefusal",
    "SyncResult",
    "SyncTask",
    "TeamNews",
    "enter",
    "is_sync_due",
    "leave",
    "mark_seen",
    "open_sync",
    "read_membership",
    "read_remote_head",
    "read_sync_record",
    "read_team_news",
    "render_news",
    "revert_author",
    "start_sync",
    "sync",
]


def open_sync(project: Project, *, seconds: float = TEAM_SECONDS) -> SyncTask:
    """What a sync of this project needs; raises SettingsError for whoever is in no team."""
    member = read_membership(project.private.state)
    if member is None:
        hint = "`memdir team init` begins one, `memdir team join` takes part in one"
        raise SettingsError("this project has no team memory", key="team", hint=hint)
    return _make_sync(project, member, seconds)


def enter(
    project: Project, member: Membership, *, now: datetime, create: bool, seconds: float = TEAM_SECONDS
) -> SyncResult:
    """Join a team, and begin it with `create` if there is none; raises if the remote cannot be reached."""
    store, known = project.private, read_membership(project.private.state)
    check_branch(member.branch)
    address = resolve_remote(member, project.places.root.path)
    member = replace(member, remote=address) if member.remote else member
    if known is not None and (known.remote, known.branch) != (member.remote, member.branch):
        hint = "`memdir team leave` first; the files stay"
        raise SettingsError("this project is in another team already", key="team", hint=hint)
    task = _make_sync(project, member, seconds)
    with store.hold_beside(LOCK, seconds=seconds):
        copy = open_copy(task.make_clone())
        head = fetch_branch(copy, address, member.branch)
        if head is None and not create:
            hint = "`memdir team init` begins one"
            raise NotFoundError(f"the remote has no branch {member.branch}", name=member.branch, hint=hint)
        if head is not None and known is None:
            check_is_team(look_at(copy, head), member.branch)
        write_membership(store.state, task.member)
    if project.settings.sources["team"] != DEFAULT and not project.settings.flag("team"):
        write_setting(project.environment, "team", True)
    return sync(task, now=now)


def leave(project: Project) -> bool:
    """Forget the remote and everything kept for it; the memories stay. Returns whether there was a team."""
    store = project.private
    if read_membership(store.state) is None:
        return False
    with store.hold_beside(LOCK, seconds=TEAM_SECONDS):
        drop_membership(store.state)
        drop_copy(store.state)
        for file in (POINT, RECORD, NEWS):
            (store.state / file).unlink(missing_ok=True)
        drop_waiting(store)
    return True


def read_remote_head(task: SyncTask) -> SyncPoint:
    """Where this member and the branch were last in step; raises NotFoundError before the first sync."""
    point = find_point(task.store)
    if not point.head:
        raise NotFoundError("nothing was synced yet", hint="`memdir team sync`")
    return point


def _make_sync(project: Project, member: Membership, seconds: float) -> SyncTask:
    root = project.places.root.path
    author = find_own_author(project.environment, root)
    return SyncTask(project.private, member, project.environment, root, author, seconds)


def start_sync(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Start a sync for the project at `cwd` in a process of its own, which outlives this one; returns its PID.

    If a sync is running already, it ends at once. `arguments` are options of the whole program, `environ` its variables.
    """
    return start_detached(cwd, *arguments, "team", "sync", environ=environ)
