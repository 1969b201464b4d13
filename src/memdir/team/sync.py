"""One sync: fetch the branch, lay our changes on it, push, and only then write what came into the files.

    1. what is here       the files of `team/`, compared with the point: that is what this member did
    2. fetch              the branch as it is now
    3. commit and push    our changes on top of it, merged where both sides changed a file; if somebody was quicker,
                          again from 1
    4. change             everything that came, through the guard, as one change of the store
    5. the point moves

If it is killed after 3, the branch holds our changes, and merging them again changes nothing; after 4, the change's mark
shows that the point may move. Offline, the next sync that reaches the remote sends what the files say. One sync a
directory runs at a time, and no lock of the store is held while git works.
"""

import os
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import memdir.team.git as git
import memdir.team.news as news
import memdir.team.plan as plan
from memdir.errors import ConflictError, LockedError, MemdirError
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, replace
from memdir.limits import TEAM_SECONDS, TEAM_TRIES
from memdir.project.settings import Environment
from memdir.records import Origin
from memdir.store.files import SYNC, FileStore
from memdir.store.plan import TEAM_FOLDER, FileChange, StoreView, encode
from memdir.store.state import COPY, Author
from memdir.team.git import GitError, PushResult, PushState, TeamClone
from memdir.team.news import SyncOutcome, SyncResult, name_memory, read_sync_record
from memdir.team.plan import IncomingChanges, LocalTeam, OutgoingChanges, SyncInputs, TeamBranch
from memdir.team.state import Membership, SyncPoint, read_point, resolve_remote, write_point
from memdir.text import one_line, shorten

LOCK = "team.lock"
_LOSS = "all memories of the team were gone here, and the index with them: they were taken from the branch again"
_BRANCH_LOST = "the remote had lost the branch; it was put back from here"
_REWRITTEN = "the branch's history was rewritten; what it had dropped and was still here was put back"
_OUTCOMES = {
    PushResult.DONE: SyncOutcome.SYNCED,
    PushResult.DENIED: SyncOutcome.DENIED,
    PushResult.SILENT: SyncOutcome.OFFLINE,
}
Pause = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class SyncTask:
    """Who syncs what with what, and how long it may take. `author` signs the commits."""

    store: FileStore
    member: Membership
    environment: Environment
    root: Path
    author: Author
    seconds: float = TEAM_SECONDS

    def make_clone(self) -> TeamClone:
        return TeamClone(self.store.state / COPY, self.environment, deadline=time.monotonic() + self.seconds)


def pause_randomly(attempt: int) -> None:
    """Members that meet at a remote would meet again if they waited equally long."""
    time.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 5)))


def sync(task: SyncTask, *, now: datetime, pause: Pause = pause_randomly) -> SyncResult:
    """Bring both sides into step as far as possible; returns what came of it.

    A remote that does not answer, or accepts nothing, is an outcome and no error: nothing is lost by it.
    """
    store = task.store
    before = read_sync_record(store.state)
    try:
        with store.hold_beside(LOCK):
            done = _sync_held(task, now, pause)
    except LockedError:
        return SyncResult(SyncOutcome.BUSY, "another sync is under way")
    except MemdirError as error:
        outcome = SyncOutcome.OFFLINE if isinstance(error, GitError) else SyncOutcome.FAILED
        done = SyncResult(outcome, f"{error}; {error.hint}" if error.hint else str(error))
    done = replace(done, is_news=done.error != before.error)
    news.write_sync_record(store.state, done, now)
    return done


def _sync_held(task: SyncTask, now: datetime, pause: Pause) -> SyncResult:
    store, name = task.store, task.member.branch
    remote = resolve_remote(task.member, task.root)
    copy = git.open_copy(task.make_clone())
    for attempt in range(TEAM_TRIES):
        local, known = plan.read_local(store), find_point(store)
        if read_point(store.state)[1] is not None:
            write_point(store.state, known)
        point = plan.restore_if_all_lost(local, known)
        branch = plan.read_branch(copy, remote, name, point)
        if not point.head:
            plan.check_is_team(branch, name)
        inputs = plan.make_inputs(copy, store, local, point, branch)
        out = plan.plan_outgoing(inputs)
        head, pushed = _send(task, copy, remote, branch, out, now)
        if pushed.answer is PushResult.QUICKER:
            pause(attempt)
            continue
        try:
            done = _receive(task, copy, inputs, branch, out, head, pushed)
            return done if point is known else replace(done, notes=(*done.notes, _LOSS))
        except ConflictError:
            continue  # somebody wrote here meanwhile: that is merged as well
    raise GitError("others were quicker with every push", hint="the next sync sends it; nothing is lost")


def find_point(store: FileStore) -> SyncPoint:
    """The point; the pending one of a killed sync counts if its change has happened."""
    point, pending = read_point(store.state)
    return pending if pending is not None and store.has_mark(pending.mark) else point


def _send(
    task: SyncTask, copy: TeamClone, remote: str, branch: TeamBranch, out: OutgoingChanges, now: datetime
) -> tuple[str, PushState]:
    """Put our changes on the branch; returns where it is then, and what the remote said."""
    if task.member.read_only:
        return branch.head, PushState(PushResult.SILENT)
    files: dict[str, bytes | None] = dict(out.files)
    if not branch.head:
        files[plan.TEAM_FILE] = plan.make_team_file(review=task.member.review)
    if not files and not branch.is_gone:
        return branch.head, PushState(PushResult.DONE)
    names = [path.removesuffix(".md") for path in sorted(out.files) if path != INDEX_FILE]
    message = f"memdir: {_name_some(names, 5) or 'index'}\n"
    head = git.write_commit(copy, branch.head or None, files, task.author, now, message) if files else branch.head
    pushed = git.push_commit(copy, remote, task.member.branch, head)
    return (head if pushed.answer is PushResult.DONE else branch.head), pushed


def _receive(
    task: SyncTask,
    copy: TeamClone,
    inputs: SyncInputs,
    branch: TeamBranch,
    out: OutgoingChanges,
    head: str,
    pushed: PushState,
) -> SyncResult:
    """Write what came, move the point, and leave a record for people."""
    store, sent = task.store, out if pushed.answer is PushResult.DONE else None
    tree = dict(branch.tree)
    for path, data in (sent.files if sent else {}).items():
        if data is None:
            tree.pop(path, None)
        else:
            tree[path] = git.TreeEntry("100644", git.hash_blob(data), len(data))
            inputs.blobs[git.hash_blob(data)] = data
    review = task.member.review or plan.asks_review(branch, inputs)
    come = plan.plan_incoming(inputs, tree, sent, head=head, review=review, approved=news.make_approved(store))
    authors = _find_authors(task, copy, inputs.point, head, branch, sent)
    news.put_in_inbox(store, come.waiting, inputs.local, authors)
    if sent is not None:
        news.report_clashes(store, sent.clashes)
    received = news.make_news(come.received, come.files, authors)
    # Before the files: if it is killed in between, news are shown twice rather than never.
    stays = {path for path in inputs.local.files if come.files.get(path, b"") is not None}
    stays |= {path for path, data in come.files.items() if data is not None}
    news.keep_authors(store, authors, sorted(stays - {INDEX_FILE}))
    news.add_news(store.state, received)
    by = shorten(one_line(_name_some(sorted({at.author for at in received if at.author}), 3)), 200)
    change = _write_files(store, inputs.local, inputs.point, come, by)
    known = read_sync_record(store.state)
    withheld = dict(out.withheld)
    if task.member.read_only:
        withheld |= {path: "this member only reads" for path in out.files if path != INDEX_FILE}
    if head != inputs.point.head:
        git.keep_commit(copy, head)
        git.tidy_copy(copy)
    answer = pushed.answer if not task.member.read_only else PushResult.DONE
    notes = {_BRANCH_LOST: branch.is_gone, _REWRITTEN: branch.common is not None}
    return SyncResult(
        _OUTCOMES[answer],
        pushed.said if answer is not PushResult.DONE else "",
        sent=tuple(name_memory(path) for path in sorted(sent.files) if path != INDEX_FILE) if sent else (),
        received=received,
        clashes=tuple(name_memory(at.path) for at in sent.clashes) if sent else (),
        refused=news.mark_known(come.refused, known.refused),
        withheld=news.mark_known({inputs.show(path): why for path, why in withheld.items()}, known.withheld),
        waiting=tuple(name_memory(at.path) for at in come.waiting),
        notes=tuple(note for note, applies in notes.items() if applies),
        change=change,
        commit=head,
    )


def _write_files(store: FileStore, local: LocalTeam, point: SyncPoint, come: IncomingChanges, by: str) -> int | None:
    """The files as one change, then the point; raises ConflictError if somebody changed one of them meanwhile."""
    if not come.files:
        write_point(store.state, come.point)
        return None

    def planner(view: StoreView) -> list[FileChange]:
        changes = []
        for path, after in sorted(come.files.items()):
            index = None if local.index is None else encode(local.index)
            found = view.read_bytes(f"{TEAM_FOLDER}/{path}")
            if found != (index if path == INDEX_FILE else local.files.get(path)):
                raise ConflictError(f"{name_memory(path)} changed during the sync", hint="the next sync takes it along")
            changes.append(FileChange(f"{TEAM_FOLDER}/{path}", found, after))
        return [at for at in changes if at.before != at.after]

    mark = f"team:{os.urandom(12).hex()}"
    write_point(store.state, point, replace(come.point, mark=mark))
    origin = Origin(SYNC, f"from {by}" if by else "in step with the team")
    done = store.carry_out(planner, verb=SYNC, origin=origin, mark=mark)
    write_point(store.state, come.point)
    return done.change


def _find_authors(
    task: SyncTask, copy: TeamClone, point: SyncPoint, head: str, branch: TeamBranch, sent: OutgoingChanges | None
) -> dict[str, Author]:
    """Path -> who changed it last, by the commits that were not there at the last sync; by all after a rewriting."""
    after = point.head if branch.common is None else ""
    if head in ("", after):
        return {}
    if sent is not None and branch.head == after:
        return dict.fromkeys(sent.files, replace(task.author, when=task.store.clock()))
    return news.find_authors(git.read_commits(copy, head, after=after))


def _name_some(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
