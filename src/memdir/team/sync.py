"""One sync: fetch the branch, lay our changes on it, push, and only then write what came into the files.

    1. what is here       the files of `team/`, compared with the point: that is what this member did
    2. fetch              the branch as it is now
    3. commit and push    our changes on top of it, merged where both sides changed a file; if somebody was quicker,
                          again from 1
    4. change             everything that came, through the guard, as one change of the store
    5. the point moves

Killed anywhere, the next sync finds where it was: before 3 nothing has happened; after 3 the branch holds our changes,
and merging them again changes nothing; after 4 the change's mark shows that the point may move. Offline, the files are
the record, and the next sync that reaches the remote sends what they say. Only one sync a directory runs at a time, and
no lock of the store is held while git works.
"""

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir.errors import ConflictError, LockedError, MemdirError
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, replace
from memdir.limits import TEAM_SECONDS, TEAM_TRIES
from memdir.project.settings import Environment
from memdir.records import Origin
from memdir.store.files import SYNC, FileStore
from memdir.store.plan import TEAM_FOLDER, FileChange, StoreView, encode
from memdir.store.state import COPY, Author
from memdir.team.git import (
    GitError,
    PushResult,
    PushState,
    TeamClone,
    TreeEntry,
    hash_blob,
    keep_commit,
    open_copy,
    push_commit,
    read_commits,
    tidy_copy,
    write_commit,
)
from memdir.team.news import (
    SyncOutcome,
    SyncRefusal,
    SyncResult,
    add_news,
    find_authors,
    keep_authors,
    make_approved,
    make_news,
    mark_known,
    name_memory,
    put_in_inbox,
    read_sync_record,
    report_clashes,
    write_sync_record,
)
from memdir.team.plan import (
    TEAM_FILE,
    IncomingChanges,
    LocalTeam,
    OutgoingChanges,
    SyncInputs,
    TeamBranch,
    asks_review,
    check_is_team,
    make_inputs,
    make_team_file,
    plan_incoming,
    plan_outgoing,
    read_branch,
    read_local,
    restore_if_all_lost,
)
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
    """A random time: those who meet at a remote would meet again if they waited equally long."""
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
    write_sync_record(store.state, done, now)
    return done


def _sync_held(task: SyncTask, now: datetime, pause: Pause) -> SyncResult:
    store = task.store
    remote = resolve_remote(task.member, task.root)
    copy = open_copy(task.make_clone())
    for attempt in range(TEAM_TRIES):
        local, known = read_local(store), find_point(store)
        if read_point(store.state)[1] is not None:
            write_point(store.state, known)
        point = restore_if_all_lost(local, known)
        branch = read_branch(copy, remote, task.member.branch, point)
        if not point.head:
            check_is_team(branch, task.member.branch)
        inputs = make_inputs(copy, store, local, point, branch)
        out = plan_outgoing(inputs)
        head, pushed = _send(task, copy, remote, branch, out, now)
        if pushed.answer is PushResult.QUICKER:
            pause(attempt)
            continue
        sent = out if pushed.answer is PushResult.DONE else None
        try:
            done = _receive(task, copy, inputs, branch, out, sent, head, pushed, now)
            return done if point is known else replace(done, notes=(*done.notes, _LOSS))
        except ConflictError:
            # Somebody wrote here meanwhile: that is merged as well.
            continue
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
        files[TEAM_FILE] = make_team_file(review=task.member.review)
    if not files and not branch.is_gone:
        return branch.head, PushState(PushResult.DONE)
    names = [path.removesuffix(".md") for path in sorted(out.files) if path != INDEX_FILE]
    message = f"memdir: {_name_some(names, 5) or 'index'}\n"
    head = write_commit(copy, branch.head or None, files, task.author, now, message) if files else branch.head
    pushed = push_commit(copy, remote, task.member.branch, head)
    return (head if pushed.answer is PushResult.DONE else branch.head), pushed


def _receive(
    task: SyncTask,
    copy: TeamClone,
    inputs: SyncInputs,
    branch: TeamBranch,
    out: OutgoingChanges,
    sent: OutgoingChanges | None,
    head: str,
    pushed: PushState,
    now: datetime,
) -> SyncResult:
    """Write what came, move the point, and leave a record for people."""
    store = task.store
    tree = _lay_over(branch.tree, sent, inputs)
    review = task.member.review or asks_review(branch, inputs)
    come = plan_incoming(inputs, tree, sent, head=head, review=review, approved=make_approved(store))
    authors = _find_authors(task, copy, inputs.point, head, branch, sent)
    put_in_inbox(store, come.waiting, inputs.local, authors)
    if sent is not None:
        report_clashes(store, sent.clashes)
    news = make_news(come.received, come.files, authors)
    # Before the files: if it is killed in between, news are shown twice rather than never.
    keep_authors(store, authors, _list_here(inputs.local, come))
    add_news(store.state, news)
    by = shorten(one_line(_name_some(sorted({at.author for at in news if at.author}), 3)), 200)
    change = _write_files(store, inputs.local, inputs.point, come, by)
    known = read_sync_record(store.state)
    if head != inputs.point.head:
        keep_commit(copy, head)
        tidy_copy(copy)
    answer = pushed.answer if not task.member.read_only else PushResult.DONE
    notes = {_BRANCH_LOST: branch.is_gone, _REWRITTEN: branch.common is not None}
    return SyncResult(
        _OUTCOMES[answer],
        pushed.said if answer is not PushResult.DONE else "",
        sent=tuple(name_memory(path) for path in sorted(sent.files) if path != INDEX_FILE) if sent else (),
        received=news,
        clashes=tuple(name_memory(at.path) for at in sent.clashes) if sent else (),
        refused=mark_known(come.refused, known.refused),
        withheld=_list_withheld(task, out, inputs, known.withheld),
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
    mark = f"team:{os.urandom(12).hex()}"
    write_point(store.state, point, replace(come.point, mark=mark))
    origin = Origin(SYNC, f"from {by}" if by else "in step with the team")
    done = store.carry_out(_make_planner(local, come.files), verb=SYNC, origin=origin, mark=mark)
    write_point(store.state, come.point)
    return done.change


def _make_planner(local: LocalTeam, files: Mapping[str, bytes | None]) -> Callable[[StoreView], list[FileChange]]:
    def planner(view: StoreView) -> list[FileChange]:
        changes = []
        for path, after in sorted(files.items()):
            index = None if local.index is None else encode(local.index)
            expected = index if path == INDEX_FILE else local.files.get(path)
            found = view.read_bytes(f"{TEAM_FOLDER}/{path}")
            if found != expected:
                raise ConflictError(f"{name_memory(path)} changed during the sync", hint="the next sync takes it along")
            changes.append(FileChange(f"{TEAM_FOLDER}/{path}", found, after))
        return [at for at in changes if at.before != at.after]

    return planner


def _lay_over(tree: Mapping[str, TreeEntry], sent: OutgoingChanges | None, inputs: SyncInputs) -> dict[str, TreeEntry]:
    """The branch's tree after what was sent; the new contents are added to the inputs."""
    laid = dict(tree)
    for path, data in (sent.files if sent else {}).items():
        if data is None:
            laid.pop(path, None)
        else:
            laid[path] = TreeEntry("100644", hash_blob(data), len(data))
            inputs.blobs[hash_blob(data)] = data
    return laid


def _find_authors(
    task: SyncTask, copy: TeamClone, point: SyncPoint, head: str, branch: TeamBranch, sent: OutgoingChanges | None
) -> dict[str, Author]:
    """Path -> who changed it last, by the commits that were not there at the last sync; by all after a rewriting."""
    after = point.head if branch.common is None else ""
    if head in ("", after):
        return {}
    if sent is not None and branch.head == after:
        return dict.fromkeys(sent.files, replace(task.author, when=task.store.clock()))
    return find_authors(read_commits(copy, head, after=after))


def _list_here(local: LocalTeam, come: IncomingChanges) -> list[str]:
    there = {path for path in local.files if come.files.get(path, b"") is not None}
    return sorted((there | {path for path, data in come.files.items() if data is not None}) - {INDEX_FILE})


def _list_withheld(
    task: SyncTask, out: OutgoingChanges, inputs: SyncInputs, known: Mapping[str, str]
) -> tuple[SyncRefusal, ...]:
    held = dict(out.withheld)
    if task.member.read_only:
        held |= {path: "this member only reads" for path in out.files if path != INDEX_FILE}
    return mark_known({inputs.show(path): why for path, why in held.items()}, known)


def _name_some(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
