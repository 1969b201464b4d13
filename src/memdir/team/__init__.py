"""Team memory over git: the files of `team/` kept in step with a branch that several people share.

    merge    two versions of one file made into one
    admit    what may come in, and what may go out
    git      the git program as a carrier, in memdir's own bare copy
    state    which remote; what the files were when both sides were last in step
    plan     what each side did, and what a sync would do
    sync     all of it in order
    news     results, records, news and items of the inbox

The person's own repository is read for the address of its remote only. Nobody's identity is proved: an author is what a
commit says.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir.errors import ConflictError, NotFoundError, SettingsError
from memdir.files import start_detached
from memdir.format.frontmatter import split_frontmatter
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, replace
from memdir.limits import TEAM_SECONDS
from memdir.project.paths import MEMBERSHIP
from memdir.project.settings import DEFAULT, write_setting
from memdir.records import Origin
from memdir.store.contract import PERSON
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.plan import TEAM_FOLDER, FileChange, Overlay, StoreView, plan_dead_pointers, plan_pointers
from memdir.store.secrets import find_secrets
from memdir.store.state import NEWS, POINT, RECORD, Author, drop_copy, find_own_author
from memdir.team import git, merge, state
from memdir.team.admit import PLAIN_MODE, AdmitRuling, judge_place, judge_text
from memdir.team.news import (
    SyncOutcome as SyncOutcome,
)
from memdir.team.news import (
    SyncResult,
    name_memory,
    put_in_inbox,
)
from memdir.team.news import (
    is_sync_due as is_sync_due,
)
from memdir.team.news import (
    mark_seen as mark_seen,
)
from memdir.team.news import (
    read_sync_record as read_sync_record,
)
from memdir.team.news import (
    read_team_news as read_team_news,
)
from memdir.team.news import (
    render_news as render_news,
)
from memdir.team.plan import LocalTeam, check_is_team, look_at, read_local
from memdir.team.state import Membership, read_membership
from memdir.team.sync import LOCK, SyncTask, find_point, sync
from memdir.text import fold


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
    state.check_branch(member.branch)
    address = state.resolve_remote(member, project.places.root.path)
    member = replace(member, remote=address) if member.remote else member
    if known is not None and (known.remote, known.branch) != (member.remote, member.branch):
        hint = "`memdir team leave` first; the files stay"
        raise SettingsError("this project is in another team already", key="team", hint=hint)
    task = _make_sync(project, member, seconds)
    with store.hold_beside(LOCK, seconds=seconds):
        copy = git.open_copy(task.make_clone())
        head = git.fetch_branch(copy, address, member.branch)
        if head is None and not create:
            hint = "`memdir team init` begins one"
            raise NotFoundError(f"the remote has no branch {member.branch}", name=member.branch, hint=hint)
        if head is not None and known is None:
            check_is_team(look_at(copy, head), member.branch)
        state.write_membership(store.state, task.member)
    if project.settings.sources["team"] != DEFAULT and not project.settings.flag("team"):
        write_setting(project.environment, "team", True)
    return sync(task, now=now)


def leave(project: Project) -> bool:
    """Forget the remote and everything kept for it; the memories stay. Returns whether there was a team."""
    store = project.private
    if read_membership(store.state) is None:
        return False
    with store.hold_beside(LOCK, seconds=TEAM_SECONDS):
        drop_copy(store.state)
        for file in (MEMBERSHIP, POINT, RECORD, NEWS):
            (store.state / file).unlink(missing_ok=True)
        put_in_inbox(store, (), LocalTeam({}), {})
    return True


def read_remote_head(task: SyncTask) -> state.SyncPoint:
    """Where this member and the branch were last in step; raises NotFoundError before the first sync."""
    point = find_point(task.store)
    if not point.head:
        raise NotFoundError("nothing was synced yet", hint="`memdir team sync`")
    return point


def _make_sync(project: Project, member: Membership, seconds: float) -> SyncTask:
    environment, root = project.environment, project.places.root.path
    return SyncTask(project.private, member, environment, root, find_own_author(environment, root), seconds)


def start_sync(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Start a sync for the project at `cwd` in a process that outlives this one; returns its PID.

    `arguments` are options of the whole program, `environ` its variables.
    """
    return start_detached(cwd, *arguments, "team", "sync", environ=environ)


@dataclass(frozen=True, slots=True)
class RevertResult:
    """The change, how many commits it reverses, and the memories it changed, removed or restored."""

    change: int | None
    commits: int
    names: tuple[str, ...]
    left: tuple[str, ...] = ()  # what may not be restored: it would be refused today


def revert_author(
    store: FileStore,
    copy: git.TeamClone,
    head: str,
    wanted: str,
    *,
    since: datetime | None = None,
    origin: Origin = PERSON,
) -> RevertResult:
    """Undo what somebody wrote, as one change; raises NotFoundError if the branch has nothing of theirs.

    Each of the author's commits is reversed, newest first; what others have written since stays. `undo` reverses the
    change, the next sync sends it. `wanted` is a whole name, a whole address, or both as git writes them.
    """
    commits = [at for at in git.read_commits(copy, head) if _is_by(at.author, wanted)]
    commits = [at for at in commits if since is None or (at.author.when is not None and at.author.when >= since)]
    if not commits:
        hint = "`memdir team log` shows who wrote what; the name or address has to be whole"
        raise NotFoundError(f"the team's branch holds nothing by {wanted}", name=wanted, hint=hint)
    before = {path: data.decode("utf-8", "surrogateescape") for path, data in read_local(store).files.items()}
    after = _reverse(copy, commits, before)
    find = store.rules.find or find_secrets
    files = [(path, data) for path, text in after.items() if (data := _encode(text)) is not None]
    wrong = [path for path, data in files if judge_text(path, data, find).ruling is AdmitRuling.REFUSE]
    changed = {path: text for path, text in after.items() if text != before.get(path) and path not in wrong}
    names, left = (
        tuple(map(name_memory, sorted(paths)))
        for paths in (changed, [path for path in wrong if after[path] != before.get(path)])
    )

    def planner(view: StoreView) -> list[FileChange]:
        overlay = Overlay(view)
        for path, text in changed.items():
            found = view.read_bytes(f"{TEAM_FOLDER}/{path}")
            if found != _encode(before.get(path)):
                raise ConflictError(f"{name_memory(path)} changed meanwhile", hint="try again")
            overlay.put([FileChange(f"{TEAM_FOLDER}/{path}", found, _encode(text))])
        own = [name_memory(path) for path in changed]
        overlay.put(plan_dead_pointers(overlay, own))
        overlay.put(plan_pointers(overlay, own))
        return list(overlay.list_changes())

    done = store.carry_out(planner, verb="revert", origin=origin) if changed else None
    return RevertResult(done.change if done else None, len(commits), names, left)


def _is_by(author: Author, wanted: str) -> bool:
    known = {author.name, author.email, f"{author.name} <{author.email}>"}
    return bool(wanted.strip()) and fold(wanted.strip()) in {fold(at) for at in known if at}


def _reverse(
    copy: git.TeamClone, commits: Sequence[git.TeamCommit], before: Mapping[str, str]
) -> dict[str, str | None]:
    files: dict[str, str | None] = dict(before)
    changes = [(at.sha, path) for at in commits for path in at.changes]
    wanted = [at for at in changes if at[1] != INDEX_FILE and not judge_place(at[1], PLAIN_MODE, 0)]
    texts = git.read_versions(copy, [spec for sha, path in wanted for spec in ((sha, path), (f"{sha}^", path))])
    for sha, path in wanted:
        files[path] = _reverse_one(texts.get((sha, path)), files.get(path), texts.get((f"{sha}^", path)))
    return files


def _reverse_one(theirs: str | None, now: str | None, older: str | None) -> str | None:
    """One file without what one commit did to it: `theirs` is what it left, `older` what it found."""
    if now == theirs:
        return older
    if now is None or theirs is None:
        return now  # somebody else has decided since
    if older is not None:
        return merge.merge_memory(theirs, now, older).text
    parts = split_frontmatter(now)
    added, standing = (merge.split_paragraphs(body) for body in (split_frontmatter(theirs).body, parts.body))
    left = merge.merge_units(added, standing, ()).pieces
    return parts.opening + parts.head + parts.closing + "\n" + "\n\n".join(left) + "\n" if left else None


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
