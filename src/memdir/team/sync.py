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
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir.errors import ConflictError, FormatError, LockedError, MemdirError, NotFoundError, SettingsError
from memdir.files import start_detached
from memdir.format.frontmatter import check_description, digest_of, encode, parse_fields, split_frontmatter
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, replace
from memdir.limits import TEAM_SECONDS, TEAM_TRIES
from memdir.project.settings import DEFAULT, Environment, write_setting
from memdir.records import TEAM_FOLDER, Edit, Forget, InboxItem, InboxKind, InboxState, Origin, Put, Rewrite
from memdir.store.contract import PERSON
from memdir.store.files import SYNC, FileStore
from memdir.store.inbox import render_edits
from memdir.store.open import Project
from memdir.store.plan import FileChange, Overlay, StoreView, plan_dead_pointers, plan_pointers
from memdir.store.secrets import find_secrets
from memdir.store.state import COPY, Author, drop_copy, find_own_author, read_authors, write_authors
from memdir.team import git, merge, plan, state
from memdir.team.git import GitError, LocalTeam, PushResult, PushState, TeamBranch, TeamClone, TeamCommit
from memdir.team.plan import Approved, IncomingChanges, OutgoingChanges, SyncClash, SyncInputs, WaitingChange
from memdir.team.state import Membership, SyncOutcome, SyncPoint, SyncResult, TeamNews
from memdir.text import fold, one_line, shorten

LOCK = "team.lock"
_LOSS = "all memories of the team were gone here, and the index with them: they were taken from the branch again"
_BRANCH_LOST = "the remote had lost the branch; it was put back from here"
_REWRITTEN = "the branch's history was rewritten; what it had dropped and was still here was put back"
_OUTCOMES = {
    PushResult.DONE: SyncOutcome.SYNCED,
    PushResult.DENIED: SyncOutcome.DENIED,
    PushResult.SILENT: SyncOutcome.OFFLINE,
}
WAIT = "team:wait:"
CLASH = "team:clash:"
_SHOWN_CHARS = 20_000  # of each side of a clash; the rest is in history
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
    """Bring both sides into step as far as possible; returns what came of it. A remote that does not answer, or
    accepts nothing, is an outcome and no error: nothing is lost by it."""
    store = task.store
    before = state.read_sync_record(store.state)
    try:
        with store.hold_beside(LOCK):
            done = _sync_held(task, now, pause)
    except LockedError:
        return SyncResult(SyncOutcome.BUSY, "another sync is under way")
    except MemdirError as error:
        outcome = SyncOutcome.OFFLINE if isinstance(error, GitError) else SyncOutcome.FAILED
        done = SyncResult(outcome, f"{error}; {error.hint}" if error.hint else str(error))
    done = replace(done, is_news=done.error != before.error)
    state.write_sync_record(store.state, done, now)
    return done


def _sync_held(task: SyncTask, now: datetime, pause: Pause) -> SyncResult:
    store, name = task.store, task.member.branch
    remote = state.resolve_remote(task.member, task.root)
    copy = git.open_copy(task.make_clone())
    for attempt in range(TEAM_TRIES):
        local, known = git.read_local(store), find_point(store, settle=True)
        point = plan.restore_if_all_lost(local, known)
        branch = git.read_branch(copy, remote, name, point)
        if not point.head:
            git.check_is_team(branch, name)
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


def find_point(store: FileStore, *, settle: bool = False) -> SyncPoint:
    """The point; the pending one of a killed sync counts if its change has happened. `settle` writes which it is."""
    point, pending = state.read_point(store.state)
    if pending is not None:
        point = pending if store.has_mark(pending.mark) else point
        if settle:
            state.write_point(store.state, point)
    return point


def _send(
    task: SyncTask, copy: TeamClone, remote: str, branch: TeamBranch, out: OutgoingChanges, now: datetime
) -> tuple[str, PushState]:
    """Put our changes on the branch; returns where it is then, and what the remote said."""
    if task.member.read_only:
        return branch.head, PushState(PushResult.SILENT)
    files: dict[str, bytes | None] = dict(out.files)
    if not branch.head:
        files[git.TEAM_FILE] = plan.make_team_file(review=task.member.review)
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
    store, sent = task.store, out if pushed.answer is PushResult.DONE else None
    tree = dict(branch.tree)
    for path, data in (sent.files if sent else {}).items():
        if data is None:
            tree.pop(path, None)
        else:
            tree[path] = git.TreeEntry("100644", git.hash_blob(data), len(data))
            inputs.blobs[git.hash_blob(data)] = data
    review = task.member.review or plan.asks_review(branch, inputs)
    come = plan.plan_incoming(inputs, tree, sent, head=head, review=review, approved=make_approved(store))
    authors = _find_authors(task, copy, inputs.point, head, branch, sent)
    put_in_inbox(store, come.waiting, inputs.local, authors)
    if sent is not None:
        report_clashes(store, sent.clashes)
    received = make_news(come.received, come.files, authors)
    # Before the files: if it is killed in between, news are shown twice rather than never.
    stays = {path for path in inputs.local.files if come.files.get(path, b"") is not None}
    stays |= {path for path, data in come.files.items() if data is not None}
    keep_authors(store, authors, sorted(stays - {INDEX_FILE}))
    state.add_news(store.state, received)
    by = shorten(one_line(_name_some(sorted({at.author for at in received if at.author}), 3)), 200)
    change = _write_files(store, inputs.local, inputs.point, come, by)
    known = state.read_sync_record(store.state)
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
        refused=state.mark_known(come.refused, known.refused),
        withheld=state.mark_known({inputs.show(path): why for path, why in withheld.items()}, known.withheld),
        waiting=tuple(name_memory(at.path) for at in come.waiting),
        notes=tuple(note for note, applies in notes.items() if applies),
        change=change,
        commit=head,
    )


def _write_files(store: FileStore, local: LocalTeam, point: SyncPoint, come: IncomingChanges, by: str) -> int | None:
    """The files as one change, then the point; raises ConflictError if somebody changed one of them meanwhile."""
    if not come.files:
        state.write_point(store.state, come.point)
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
    state.write_point(store.state, point, replace(come.point, mark=mark))
    origin = Origin(SYNC, f"from {by}" if by else "in step with the team")
    done = store.carry_out(planner, verb=SYNC, origin=origin, mark=mark)
    state.write_point(store.state, come.point)
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
    return find_authors(git.read_commits(copy, head, after=after))


def _name_some(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


# --- what a sync leaves for people: items in the inbox, news of others, who wrote what --------------------------------
# News are quoted text of others: one line each, cut, with its author, and never an instruction. What needs review is
# known by file and version. A clash is a notice in the inbox: the merged file holds both sides already.


def name_memory(path: str) -> str:
    return f"{TEAM_FOLDER}/{path.removesuffix('.md')}"


def make_approved(store: FileStore) -> Approved:
    """A function that says whether a person has approved a version of a file."""
    items = {item.key for item in store.inbox(InboxState.APPROVED) if item.key.startswith(WAIT)}
    return lambda path, sha: f"{WAIT}{path}:{sha}" in items


def put_in_inbox(
    store: FileStore, waiting: Sequence[WaitingChange], local: LocalTeam, authors: Mapping[str, Author]
) -> None:
    """Put what needs review into the inbox, and remove what no longer does."""
    now, items = store.clock(), []
    for at in waiting:
        name, author = name_memory(at.path), authors.get(at.path)
        by = f" (by {author.name})" if author else ""
        edits = _make_edits(at, name, local)
        kind = InboxKind.MEMORY if edits else InboxKind.APPROVAL
        payload: dict[str, object] = {"edits": render_edits(edits)} if edits else {"text": at.text or ""}
        title = f"{name} {'taken away' if at.text is None else 'from the team'}{by}"
        origin = Origin(SYNC, f"by {author.name}" if author else "")
        items.append(InboxItem(kind, title, at.why, now, f"{WAIT}{at.path}:{at.sha}", name, origin, payload))
    if items or any(item.key.startswith(WAIT) for item in store.inbox()):
        store.inbox_replace(WAIT, items)


def report_clashes(store: FileStore, clashes: Sequence[SyncClash]) -> None:
    now, items = store.clock(), []
    for at in clashes:
        key = f"{CLASH}{at.path}:{digest_of((at.ours + chr(0) + at.theirs).encode('utf-8', 'replace'))[:16]}"
        payload = {"ours": at.ours[:_SHOWN_CHARS], "theirs": at.theirs[:_SHOWN_CHARS]}
        name, why = name_memory(at.path), shorten(one_line("; ".join(at.told)), 500)
        title = f"{name}: both sides changed it"
        items.append(InboxItem(InboxKind.CONFLICT, title, why, now, key, name, Origin(SYNC), payload))
    store.inbox_add(items)


def find_authors(commits: Sequence[TeamCommit]) -> dict[str, Author]:
    """Path -> who changed it last, by commits given newest first."""
    return {path: commit.author for commit in reversed(commits) for path in commit.changes}


def keep_authors(store: FileStore, authors: Mapping[str, Author], paths: Sequence[str]) -> None:
    """Note who last changed each memory that is here; what the new commits do not tell is as it was."""
    before = read_authors(store.state)
    known = {name_memory(path): authors.get(path) or before.get(name_memory(path)) for path in paths}
    others = {name: at for name, at in before.items() if not name.startswith(f"{TEAM_FOLDER}/")}
    kept = {**others, **{name: at for name, at in known.items() if at is not None}}
    if kept != before:
        write_authors(store.state, kept)


def make_news(
    received: Mapping[str, plan.ArrivedChange], files: Mapping[str, bytes | None], authors: Mapping[str, Author]
) -> tuple[TeamNews, ...]:
    """A row for each file, with its description, else the first line of its body."""
    rows = []
    for path, change in sorted(received.items()):
        text = (files.get(path) or b"").decode("utf-8", "replace")
        words = parse_fields(text).description or split_frontmatter(text).body.strip().partition("\n")[0]
        author, line = authors.get(path), shorten(one_line(words), 200)
        who, when = (author.name, author.when) if author else ("", None)
        rows.append(TeamNews(name_memory(path), change.value, who, line, when))
    return tuple(rows)


def _make_edits(at: WaitingChange, name: str, local: LocalTeam) -> tuple[Edit, ...]:
    before = local.files.get(at.path)
    digest = None if before is None else digest_of(before)
    if at.text is None:
        return (Forget(name, digest),)
    if digest is not None:
        return (Rewrite(name, at.text, digest),)
    fields = parse_fields(at.text)
    try:
        check_description(fields.description, fields.kind)
    except FormatError:
        return ()
    return (Put(name, at.text),)


# --- taking part in a team, leaving it, and reverting what an author wrote --------------------------------------------


def open_sync(project: Project, *, seconds: float = TEAM_SECONDS) -> SyncTask:
    """What a sync of this project needs; raises SettingsError for whoever is in no team."""
    member = state.read_membership(project.private.state)
    if member is None:
        hint = "`memdir team init` begins one, `memdir team join` takes part in one"
        raise SettingsError("this project has no team memory", key="team", hint=hint)
    return _make_sync(project, member, seconds)


def enter(
    project: Project, member: Membership, *, now: datetime, create: bool, seconds: float = TEAM_SECONDS
) -> SyncResult:
    """Join a team, and begin it with `create` if there is none; raises if the remote cannot be reached."""
    store, known = project.private, state.read_membership(project.private.state)
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
            git.check_is_team(git.look_at(copy, head), member.branch)
        state.write_membership(store.state, task.member)
    if project.settings.sources["team"] != DEFAULT and not project.settings.flag("team"):
        write_setting(project.environment, "team", True)
    return sync(task, now=now)


def leave(project: Project) -> bool:
    """Forget the remote and everything kept for it; the memories stay. Returns whether there was a team."""
    store = project.private
    if state.read_membership(store.state) is None:
        return False
    with store.hold_beside(LOCK, seconds=TEAM_SECONDS):
        drop_copy(store.state)
        for file in state.FILES:
            (store.state / file).unlink(missing_ok=True)
        put_in_inbox(store, (), LocalTeam({}), {})
    return True


def read_remote_head(task: SyncTask) -> SyncPoint:
    """Where this member and the branch were last in step; raises NotFoundError before the first sync."""
    point = find_point(task.store)
    if not point.head:
        raise NotFoundError("nothing was synced yet", hint="`memdir team sync`")
    return point


def _make_sync(project: Project, member: Membership, seconds: float) -> SyncTask:
    environment, root = project.environment, project.places.root.path
    return SyncTask(project.private, member, environment, root, find_own_author(environment, root), seconds)


def start_sync(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Start a sync for the project at `cwd` in a process that outlives this one; returns its PID. `arguments` are
    options of the whole program, `environ` its variables."""
    return start_detached(cwd, *arguments, "team", "sync", environ=environ)


@dataclass(frozen=True, slots=True)
class RevertResult:
    """The change, how many commits it reverses, and the memories it changed, removed or restored."""

    change: int | None
    commits: int
    names: tuple[str, ...]
    left: tuple[str, ...] = ()  # what may not be restored: it would be refused today


def revert_author(
    store: FileStore, copy: TeamClone, head: str, wanted: str, *, since: datetime | None = None, origin: Origin = PERSON
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
    before = {path: data.decode("utf-8", "surrogateescape") for path, data in git.read_local(store).files.items()}
    after = _reverse(copy, commits, before)
    find = store.rules.find or find_secrets
    files = [(path, data) for path, text in after.items() if (data := _encode(text)) is not None]
    wrong = [path for path, data in files if plan.judge_text(path, data, find).refused]
    changed = {path: text for path, text in after.items() if text != before.get(path) and path not in wrong}
    left = sorted(name_memory(path) for path in wrong if after[path] != before.get(path))

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
    names = tuple(sorted(map(name_memory, changed)))
    return RevertResult(done.change if done else None, len(commits), names, tuple(left))


def _is_by(author: Author, wanted: str) -> bool:
    known = {author.name, author.email, f"{author.name} <{author.email}>"}
    return bool(wanted.strip()) and fold(wanted.strip()) in {fold(at) for at in known if at}


def _reverse(copy: TeamClone, commits: Sequence[TeamCommit], before: Mapping[str, str]) -> dict[str, str | None]:
    files: dict[str, str | None] = dict(before)
    changes = [(at.sha, path) for at in commits for path in at.changes]
    wanted = [at for at in changes if at[1] != INDEX_FILE and not plan.judge_place(at[1], git.PLAIN_MODE, 0)]
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
