"""One sync: fetch the remote's tree, add our changes, push, and only then write the incoming changes to the files.

    1. fetch              the current tree, and match its folders with local directories; each pair is a part
    2. compare            the files of each part with its merge base, which gives our changes
    3. commit and push    our changes on top of the tree, merged if both sides changed a file; if the remote has changed
                          since, start again
    4. write              the checked incoming files, as one change of each store
    5. update             the merge base

If a sync is killed after 3, the remote has our changes, and merging them again changes nothing. After 4, the
idempotency key of the change shows that the merge base can be updated. Changes made offline are sent by the next sync
that reaches the remote. One sync of a kind runs at a time, and no store is locked while git works.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path

from memdir.errors import ConflictError, FormatError, LockedError, MemdirError, NotFoundError, SettingsError
from memdir.format.frontmatter import check_description, digest_of, encode, parse_fields, split_frontmatter
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, replace
from memdir.limits import TEAM_SECONDS, TEAM_TRIES
from memdir.project.settings import DEFAULT, write_setting
from memdir.records import Edit, Forget, InboxItem, InboxKind, InboxState, Origin, Put, Rewrite
from memdir.store.contract import PERSON
from memdir.store.facts import find_sources
from memdir.store.files import SYNC, FileStore
from memdir.store.history import MemorySource
from memdir.store.inbox import render_edits
from memdir.store.open import Project, find_identity, read_identity, write_identity
from memdir.store.plan import FileChange, Overlay, StoreView, plan_dead_pointers, plan_pointers
from memdir.store.secrets import FILE as SECRET_RULES
from memdir.store.secrets import find_secrets
from memdir.store.state import COPY, Author, drop_copy, find_own_author, read_authors, write_authors
from memdir.store.state import RECORD as TEAM_RECORD
from memdir.sync import git, merge, plan, server, state
from memdir.sync.git import GitRemote, TeamClone
from memdir.sync.plan import IncomingChanges, OutgoingChanges, SyncClash, SyncInputs, WaitingChange
from memdir.sync.server import ServerRemote
from memdir.text import fold, merge_units, one_line, shorten

LOCK = "team.lock"
_LOSS = "all memories of {} were gone here, and the index with them: they were taken from the remote again"
_BRANCH_LOST = "the remote had lost the branch; it was put back from here"
_REWRITTEN = "the branch's history was rewritten; what it had dropped and was still here was put back"
_OUTCOMES = {
    state.PushResult.DONE: state.SyncOutcome.SYNCED,
    state.PushResult.DENIED: state.SyncOutcome.DENIED,
    state.PushResult.SILENT: state.SyncOutcome.OFFLINE,
}
WAIT = "team:wait:"
CLASH = "team:clash:"
OWN_CLASH = "sync:clash:"


@dataclass(frozen=True, slots=True)
class SyncTask:
    """A sync with one remote. `find_head` returns its current commit, `look` a digest of the local state, `arrange` the
    parts of a tree and the files that the tree lacks, and `is_last` whether no directory is left for another sync.
    `folder` and `record` locate the stored result."""

    open_remote: Callable[[], state.Remote]
    find_head: Callable[[], str]
    look: Callable[[], str]
    arrange: Callable[[state.Remote, state.RemoteTree], tuple[Sequence[state.SyncPart], Mapping[str, bytes]]]
    hold: Callable[[], AbstractContextManager[object]]
    author: Author
    folder: Path
    record: str = TEAM_RECORD
    read_only: bool = False
    review: bool = False
    is_named: bool = True  # whether commit messages may contain names of memories
    is_last: Callable[[], bool] = lambda: True


def sync(task: SyncTask, *, now: datetime) -> state.SyncResult:
    """Sync both sides as far as possible and return the result. If the remote is unreachable or rejects the push, that
    is reported in the result; it does not raise."""
    before, here = state.read_sync_record(task.folder, task.record), ""
    try:
        with task.hold():
            here = task.look()
            if here and here == before.here and task.find_head() == before.head:
                refused, withheld = map(state.list_refusals, (before.refused, before.withheld))
                result = state.SyncResult(
                    state.SyncOutcome.SYNCED, refused=refused, withheld=withheld, commit=before.head
                )
            else:
                result = _sync_held(task, now)
    except LockedError:
        return state.SyncResult(state.SyncOutcome.BUSY, "another sync is under way")
    except MemdirError as error:
        outcome = state.SyncOutcome.OFFLINE if isinstance(error, state.RemoteError) else state.SyncOutcome.FAILED
        result = state.SyncResult(outcome, f"{error}; {error.hint}" if error.hint else str(error))
    known = (state.mark_known(result.refused, before.refused), state.mark_known(result.withheld, before.withheld))
    result = replace(result, refused=known[0], withheld=known[1])
    moved = (result.sent, result.received, result.clashes, result.waiting, result.notes, result.change)
    is_same = result.outcome is state.SyncOutcome.SYNCED and not any(moved) and task.is_last()
    state.write_sync_record(task.folder, result, now, task.record, here=here if is_same else "")
    return result


def _sync_held(task: SyncTask, now: datetime) -> state.SyncResult:
    remote, parts_done = task.open_remote(), list[state.SyncResult]()
    for attempt in range(TEAM_TRIES):
        branch = remote.fetch()
        parts, more = task.arrange(remote, branch)
        notes, plans = _plan_parts(remote, branch, parts)
        message = _write_message(task, plans)
        files: dict[str, bytes | None] = dict(more)
        for inputs, out in plans:
            files |= {inputs.part.prefix + path: data for path, data in out.files.items()}
        head, pushed = branch.head, state.PushState(state.PushResult.DONE)
        if not task.read_only and (files or branch.is_gone):
            head, pushed = remote.push(branch, files, task.author, now, message)
        if pushed.answer is state.PushResult.QUICKER:
            # A random time, so that members who push at the same time do not collide again.
            time.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 5)))
            continue
        try:
            for inputs, out in plans:
                with _skip_on_error(inputs.part, notes):
                    parts_done.append(_receive(task, remote, inputs, branch, out, head, pushed))
        except ConflictError:
            continue  # a local file has changed since: merge that as well
        remote.keep(head)
        if branch.is_gone:
            notes.append(_BRANCH_LOST)
        return _join_results(parts_done, pushed, head, notes)
    raise state.RemoteError(
        "the remote changed during every push", hint="the next sync will retry; no changes are lost"
    )


def _plan_parts(
    remote: state.Remote, branch: state.RemoteTree, parts: Sequence[state.SyncPart]
) -> tuple[list[str], list[tuple[SyncInputs, OutgoingChanges]]]:
    notes, plans = list[str](), []
    commons: dict[str, Mapping[str, state.TreeEntry] | None] = {}
    for part in parts:
        with _skip_on_error(part, notes):
            local, known = state.read_local(part), find_point(part, settle=True)
            if part.is_shared and not known.head and isinstance(remote, GitRemote):
                remote.check_ours(branch)
            point = plan.restore_if_all_lost(local, known)
            if point is not known:
                notes.append(_LOSS.format("the team" if part.is_shared else part.prefix.rstrip("/")))
            if point.head not in commons:
                commons[point.head] = remote.find_common(point.head, branch.head) if branch.head else None
            common = commons[point.head]
            if common is not None and _REWRITTEN not in notes:
                notes.append(_REWRITTEN)
            inputs = plan.make_inputs(remote, part, local, point, branch, common)
            plans.append((inputs, plan.plan_outgoing(inputs)))
    return notes, plans


@contextmanager
def _skip_on_error(part: state.SyncPart, notes: list[str]) -> Iterator[None]:
    """Skip a part if it cannot be read or written, keeping its merge base. The other parts are still synced."""
    try:
        yield
    except (state.RemoteError, ConflictError):
        raise
    except MemdirError as error:
        if part.is_shared:
            raise
        notes.append(f"{part.prefix.rstrip('/')} was left out: {error}")


def _write_message(task: SyncTask, plans: Sequence[tuple[SyncInputs, OutgoingChanges]]) -> str:
    sources: dict[str, MemorySource] = {}
    for inputs, out in plans:
        sources |= _find_sources(inputs.part, out)
    if not task.is_named:
        return f"memdir: sync\n{state.render_sources(sources)}"
    paths = [inputs.part.prefix + path for inputs, out in plans for path in sorted(out.files) if path != INDEX_FILE]
    named = _name_some([path.removesuffix(".md") for path in paths], 5) or "index"
    return f"memdir: {named}\n{state.render_sources(sources)}"


def _find_sources(part: state.SyncPart, out: OutgoingChanges) -> dict[str, MemorySource]:
    """Return the age and author of the outgoing files by path."""
    paths = {part.name(path): path for path, data in out.files.items() if data is not None and path != INDEX_FILE}
    memories = [
        memory
        for name, memory in part.store.read_many(paths).items()
        if memory.digest == digest_of(out.files[paths[name]] or b"")  # otherwise the sent text is a merge result
    ]
    return {part.prefix + paths[name]: source for name, source in find_sources(part.store, memories).items()}


def find_point(part: state.SyncPart, *, settle: bool = False) -> state.SyncPoint:
    """Return the merge base, or that of an interrupted sync if its change was made. `settle` stores the choice."""
    folder, file = part.store.state, part.point_file
    point, pending = state.read_point(folder, file)
    if pending is not None:
        point = pending if part.store.has_mark(pending.mark) else point
        if settle:
            state.write_point(folder, point, file=file)
    return point


def _receive(
    task: SyncTask,
    remote: state.Remote,
    inputs: SyncInputs,
    branch: state.RemoteTree,
    out: OutgoingChanges,
    head: str,
    pushed: state.PushState,
) -> state.SyncResult:
    part, is_sent = inputs.part, pushed.answer is state.PushResult.DONE and not task.read_only
    sent = out if is_sent else None
    after = dict(inputs.theirs)
    for path, data in (sent.files if sent else {}).items():
        if data is None:
            after.pop(path, None)
        else:
            after[path] = state.TreeEntry(state.PLAIN_MODE, remote.hash(data), len(data))
            inputs.blobs[remote.hash(data)] = data
    review = part.is_shared and (task.review or plan.asks_review(branch, inputs))
    asked = [item for item in part.store.inbox(None) if item.key.startswith(WAIT)]
    approved = {item.key for item in asked if item.state is InboxState.APPROVED}
    come = plan.plan_incoming(
        inputs, after, sent, head=head, review=review, approved=lambda path, sha: f"{WAIT}{path}:{sha}" in approved
    )
    if sent is not None and sent.clashes:
        report_clashes(part, sent.clashes)
    if part.is_shared:
        received = _record_incoming(inputs, come, _find_authors(task, remote, inputs, head, branch, sent), asked)
    else:
        received = make_news(part, come)
    _note_sources(remote, inputs, come, head)
    by = shorten(one_line(_name_some(sorted({news.author for news in received if news.author}), 3)), 200)
    change = _write_files(inputs, come, by or ("" if part.is_shared else "another machine"))
    withheld = dict(out.withheld)
    if task.read_only:
        withheld |= {path: "this member only reads" for path in out.files if path != INDEX_FILE}
    turned_away = {part.prefix + path: why for path, why in come.refused.items()}
    kept_back = {part.prefix + inputs.show(path): why for path, why in withheld.items()}
    refused, held_back = map(state.list_refusals, (turned_away, kept_back))
    return state.SyncResult(
        _OUTCOMES[pushed.answer],
        sent=tuple(part.show(path) for path in sorted(sent.files) if path != INDEX_FILE) if sent else (),
        received=received,
        clashes=tuple(part.show(clash.path) for clash in sent.clashes) if sent else (),
        refused=refused,
        withheld=held_back,
        waiting=tuple(part.show(change.path) for change in come.waiting),
        change=change,
    )


def _join_results(
    parts: Sequence[state.SyncResult], pushed: state.PushState, head: str, notes: Sequence[str]
) -> state.SyncResult:
    """Combine the results of all parts, including those of every attempt of a retried part."""
    last = (
        {refusal.path: refusal for part in parts for refusal in part.refused},
        {refusal.path: refusal for part in parts for refusal in part.withheld},
    )
    changes = [part.change for part in parts if part.change is not None]
    return state.SyncResult(
        _OUTCOMES[pushed.answer],
        pushed.said if pushed.answer is not state.PushResult.DONE else "",
        sent=tuple(dict.fromkeys(chain.from_iterable(part.sent for part in parts))),
        received=tuple(chain.from_iterable(part.received for part in parts)),
        clashes=tuple(dict.fromkeys(chain.from_iterable(part.clashes for part in parts))),
        refused=tuple(last[0].values()),
        withheld=tuple(last[1].values()),
        waiting=tuple(dict.fromkeys(chain.from_iterable(part.waiting for part in parts))),
        notes=tuple(notes),
        change=changes[-1] if len(changes) == 1 else None,
        commit=head,
    )


def _record_incoming(
    inputs: SyncInputs, come: IncomingChanges, authors: Mapping[str, Author], asked: Sequence[InboxItem]
) -> tuple[state.TeamNews, ...]:
    """Put a team's changes that need review into the inbox, and store authors and incoming changes to show later."""
    part, store = inputs.part, inputs.part.store
    put_in_inbox(part, come.waiting, inputs.local, authors, asked)
    news = make_news(part, come, authors)
    # Store them before the files: if the sync is killed in between, they are shown twice rather than never.
    stays = {path for path in inputs.local.files if come.files.get(path, b"") is not None}
    stays |= {path for path, data in come.files.items() if data is not None}
    keep_authors(part, authors, sorted(stays - {INDEX_FILE}))
    state.add_news(store.state, news)
    return news


def _write_files(inputs: SyncInputs, come: IncomingChanges, by: str) -> int | None:
    """Write the files as one change, then the merge base. Raises ConflictError if a file changed during the sync."""
    part, local, store = inputs.part, inputs.local, inputs.part.store
    if not come.files:
        is_used = come.point.files or come.point.index or inputs.point.head or part.is_shared
        if is_used and come.point != inputs.point:
            state.write_point(store.state, come.point, file=part.point_file)
        return None

    def planner(view: StoreView) -> list[FileChange]:
        changes = []
        for path, after in sorted(come.files.items()):
            index = None if local.index is None else encode(local.index)
            current = view.read_bytes(part.locate(path))
            if current != (index if path == INDEX_FILE else local.files.get(path)):
                raise ConflictError(f"{part.name(path)} changed during the sync", hint="the next sync will include it")
            changes.append(FileChange(part.locate(path), current, after))
        return [file_change for file_change in changes if file_change.before != file_change.after]

    mark = f"team:{os.urandom(12).hex()}"
    state.write_point(store.state, inputs.point, replace(come.point, mark=mark), file=part.point_file)
    origin = Origin(SYNC, f"from {by}" if by else "in step with the team")
    result = store.carry_out(planner, verb=SYNC, origin=origin, mark=mark)
    state.write_point(store.state, come.point, file=part.point_file)
    return result.change


def _note_sources(remote: state.Remote, inputs: SyncInputs, come: IncomingChanges, head: str) -> None:
    """Record the age and author of files from other machines in history, so that a sync does not reset their age."""
    part, files = inputs.part, {path: data for path, data in come.files.items() if data is not None}
    files |= {change.path: encode(change.text) for change in come.waiting if change.text is not None}
    sources = remote.find_sources(head, inputs.point.head if inputs.common is None else "") if files else {}
    keys = {(part.locate(path), digest_of(data)): sources.get(part.prefix + path) for path, data in files.items()}
    # Authors of a team's files are those of its commits.
    known = {key: source._replace(who="") if part.is_shared else source for key, source in keys.items() if source}
    part.store.note_sources(known)


def _find_authors(
    task: SyncTask,
    remote: state.Remote,
    inputs: SyncInputs,
    head: str,
    branch: state.RemoteTree,
    sent: OutgoingChanges | None,
) -> dict[str, Author]:
    """Return who last changed each path, from the commits since the last sync, or from all if history was rewritten."""
    after = inputs.point.head if inputs.common is None else ""
    if head in ("", after):
        return {}
    if sent is not None and branch.head == after:
        return dict.fromkeys(sent.files, replace(task.author, when=inputs.part.store.clock()))
    return remote.find_authors(head, after)


def _name_some(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


# --- what a sync records for the user: inbox items, incoming changes, authors -----------------------------------------
# Incoming changes quote text of others: one shortened line each, with its author, never as an instruction. Changes to
# review are identified by file and version. After a conflict, the memory has the merged text, and an inbox item both.


def put_in_inbox(
    part: state.SyncPart,
    waiting: Sequence[WaitingChange],
    local: state.LocalTree,
    authors: Mapping[str, Author],
    asked: Sequence[InboxItem],
) -> None:
    """Put changes that need review into the inbox, and remove items in `asked` that no longer need review."""
    store, items = part.store, []
    for pending in waiting:
        name, author = part.name(pending.path), authors.get(pending.path)
        by = f" (by {author.name})" if author else ""
        edits = _make_edits(pending, name, local)
        kind = InboxKind.MEMORY if edits else InboxKind.APPROVAL
        payload: dict[str, object] = {"edits": render_edits(edits)} if edits else {"text": pending.text or ""}
        title = f"{name} {'deleted' if pending.text is None else 'from the team'}{by}"
        origin = Origin(SYNC, f"by {author.name}" if author else "")
        key = f"{WAIT}{pending.path}:{pending.sha}"
        items.append(InboxItem(kind, title, pending.why, store.clock(), key, name, origin, payload))
    if items or any(item.state is InboxState.WAITING for item in asked):
        store.inbox_replace(WAIT, items)


def report_clashes(part: state.SyncPart, clashes: Sequence[SyncClash]) -> None:
    now, items, prefix = part.store.clock(), [], CLASH if part.is_shared else OWN_CLASH
    for clash in clashes:
        key = f"{prefix}{clash.path}:{digest_of((clash.ours + chr(0) + clash.theirs).encode('utf-8', 'replace'))[:16]}"
        payload = {"ours": clash.ours, "theirs": clash.theirs, "merged": clash.merged}
        name, why = part.name(clash.path), shorten(one_line("; ".join(clash.told)), 500)
        title = f"{name}: both sides changed it"
        items.append(InboxItem(InboxKind.CONFLICT, title, why, now, key, name, Origin(SYNC), payload))
    part.store.inbox_add(items)


def keep_authors(part: state.SyncPart, authors: Mapping[str, Author], paths: Sequence[str]) -> None:
    """Record who last changed each memory here, keeping known authors that the new commits do not mention."""
    before = read_authors(part.store.state)
    folder, names = part.locate(""), [*map(part.name, paths)]
    known = {name: authors.get(path) or before.get(name) for path, name in zip(paths, names, strict=True)}
    others = {name: author for name, author in before.items() if not name.startswith(folder)}
    current = {**others, **{name: author for name, author in known.items() if author is not None}}
    if current != before:
        write_authors(part.store.state, current)


_NOBODY: Mapping[str, Author] = {}


def make_news(
    part: state.SyncPart, come: IncomingChanges, authors: Mapping[str, Author] = _NOBODY
) -> tuple[state.TeamNews, ...]:
    """Return a row for each incoming file, with its description or the first line of its body."""
    rows = []
    for path, change in sorted(come.received.items()):
        text = (come.files.get(path) or b"").decode("utf-8", "replace")
        words = parse_fields(text).description or split_frontmatter(text).body.strip().partition("\n")[0]
        author, line = authors.get(path), shorten(one_line(words), 200)
        who, when = (author.name, author.when) if author else ("", None)
        rows.append(state.TeamNews(part.show(path), change.value, who, line, when))
    return tuple(rows)


def _make_edits(pending: WaitingChange, name: str, local: state.LocalTree) -> tuple[Edit, ...]:
    before = local.files.get(pending.path)
    digest = None if before is None else digest_of(before)
    if pending.text is None:
        return (Forget(name, digest),)
    if digest is not None:
        return (Rewrite(name, pending.text, digest),)
    fields = parse_fields(pending.text)
    try:
        check_description(fields.description, fields.kind)
    except FormatError:
        return ()
    return (Put(name, pending.text),)


# --- joining a team, leaving it, and reverting an author's changes ----------------------------------------------------


def open_sync(project: Project, *, seconds: float = TEAM_SECONDS) -> SyncTask:
    """Return a sync task for this project. Raises SettingsError if it is not in a team."""
    return _make_sync(project, read_member(project), seconds)


def read_member(project: Project) -> state.Membership:
    member = state.read_membership(project.private.state)
    if member is None:
        hint = "`memdir team init` creates one, `memdir team join` joins one"
        raise SettingsError("this project has no team memory", key="team", hint=hint)
    return member


def open_team(project: Project) -> state.TeamRemote:
    """Return the remote of this project's team; a branch is read from memdir's clone, as of the last sync."""
    member = read_member(project)
    if member.is_server:
        return _open_server(project, member, TEAM_SECONDS)
    return _open_branch(project, member, TEAM_SECONDS, "")


def _open_branch(project: Project, member: state.Membership, seconds: float, address: str) -> GitRemote:
    copy = TeamClone(project.private.state / COPY, project.environment, deadline=time.monotonic() + seconds)
    return GitRemote(copy, address, member.branch)


def _open_server(project: Project, member: state.Membership, seconds: float) -> ServerRemote:
    token = server.find_token(project.environment, member.remote)
    api = server.ServerApi(member.remote, token, deadline=time.monotonic() + seconds)
    return ServerRemote(api, member.branch, project.private.state)


def _make_sync(project: Project, member: state.Membership, seconds: float) -> SyncTask:
    part = state.SyncPart(project.private)

    def open_remote() -> state.TeamRemote:
        if member.is_server:
            return _open_server(project, member, seconds)
        return _open_branch(project, member, seconds, state.resolve_remote(member, project.places.root.path))

    def look() -> str:
        rules = project.environment.config_file.with_name(SECRET_RULES)
        return state.look([part], member, project.settings.values, state.find_stat(rules))

    def arrange(remote: state.Remote, branch: state.RemoteTree) -> tuple[Sequence[state.SyncPart], Mapping[str, bytes]]:
        team_file = json.dumps({"review": member.review}).encode("ascii") + b"\n"
        return [part], {} if branch.head else {git.TEAM_FILE: team_file}

    return SyncTask(
        open_remote,
        lambda: open_remote().find_head(),
        look,
        arrange,
        lambda: part.store.hold_lock(LOCK),
        find_own_author(project.settings, project.environment, project.places.root.path),
        part.store.state,
        read_only=member.read_only,
        review=member.review,
    )


def enter(
    project: Project, member: state.Membership, *, now: datetime, create: bool, seconds: float = TEAM_SECONDS
) -> state.SyncResult:
    """Join a team, or with `create` start one if there is none. Raises an error if the remote is unreachable."""
    store, known = project.private, state.read_membership(project.private.state)
    state.check_branch(member.branch)
    address = state.resolve_remote(member, project.places.root.path)
    member = replace(member, remote=address) if member.remote else member
    _check_only_team(known, member)
    with store.hold_lock(LOCK, seconds=seconds):
        remote = _open_branch(project, member, seconds, address)
        head = remote.fetch_head()
        if head is None and not create:
            hint = "`memdir team init` creates one"
            raise NotFoundError(f"the remote has no branch {member.branch}", name=member.branch, hint=hint)
        if head is not None and known is None:
            remote.check_ours(remote.look_at(head))
        state.write_membership(store.state, member)
    return _begin(project, member, now, seconds)


def enter_server(
    project: Project, address: str, token: str, *, store: str = "", member: state.Membership, now: datetime,
    create: bool = False, seconds: float = TEAM_SECONDS,
) -> state.SyncResult:  # fmt: skip
    """Join a store on a server, with `create` creating it first; an empty token means the stored one."""
    api = server.ServerApi(address, token or server.find_token(project.environment, address),
                           deadline=time.monotonic() + seconds)  # fmt: skip
    if create:
        store = store or project.places.root.path.name
        server.make_store(api, store)
    chosen = server.choose_store(api, store)
    member = replace(member, remote=api.address, branch=chosen.id, is_server=True)
    member = replace(member, read_only=member.read_only or chosen.access == "read_only")
    _check_only_team(state.read_membership(project.private.state), member)
    if token:
        server.write_token(project.environment, api.address, token)
    with project.private.hold_lock(LOCK, seconds=seconds):
        state.write_membership(project.private.state, member)
    return _begin(project, member, now, seconds)


def _check_only_team(known: state.Membership | None, member: state.Membership) -> None:
    if known is not None and (known.remote, known.branch) != (member.remote, member.branch):
        hint = "run `memdir team leave` first; the files are kept"
        raise SettingsError("this project is already in another team", key="team", hint=hint)


def _begin(project: Project, member: state.Membership, now: datetime, seconds: float) -> state.SyncResult:
    place, known = project.places.private, read_identity(project.private.state)
    if known is None and place.is_keyed and project.private.root == place.path:
        # Otherwise recorded at the first change; if the project is moved before that, its team would not be found.
        write_identity(project.private.state, find_identity(project.places.root.path))
    if project.settings.sources["team"] != DEFAULT and not project.settings.flag("team"):
        write_setting(project.environment, "team", True)
    return sync(_make_sync(project, member, seconds), now=now)


def leave(project: Project) -> bool:
    """Remove the remote and its local state, keeping the memories. Return whether there was a team."""
    store = project.private
    if state.read_membership(store.state) is None:
        return False
    with store.hold_lock(LOCK, seconds=TEAM_SECONDS):
        drop_copy(store.state)
        for file in state.FILES:
            (store.state / file).unlink(missing_ok=True)
        asked = [item for item in store.inbox() if item.key.startswith(WAIT)]
        put_in_inbox(state.SyncPart(store), (), state.LocalTree({}), {}, asked)
    return True


def read_remote_head(store: FileStore) -> state.SyncPoint:
    """Return the merge base of this member and the branch; raises NotFoundError before the first sync."""
    point = find_point(state.SyncPart(store))
    if not point.head:
        raise NotFoundError("never synced", hint="run `memdir team sync`")
    return point


@dataclass(frozen=True, slots=True)
class RevertResult:
    """The change, the number of reverted commits, and the changed, removed and restored memories."""

    change: int | None
    commits: int
    names: tuple[str, ...]
    left: tuple[str, ...] = ()  # memories not restored, because sync would refuse their old text


def revert_author(
    store: FileStore, remote: state.TeamRemote, head: str, wanted: str, *, origin: Origin = PERSON
) -> RevertResult:
    """Revert a teammate's changes as one change. Raises NotFoundError if the branch has none.

    Reverts each of the author's commits, newest first, keeping later changes by others. `undo` reverts the change, and
    the next sync sends it. `wanted` is a full name, a full email address, or both as git writes them.
    """
    part = state.SyncPart(store)
    commits = [commit for commit in remote.read_log(head) if _is_by(commit.author, wanted)]
    if not commits:
        hint = "`memdir team log` shows who wrote what; pass the full name or email address"
        raise NotFoundError(f"the team's branch contains no changes by {wanted}", name=wanted, hint=hint)
    before = {path: data.decode("utf-8", "surrogateescape") for path, data in state.read_local(part).files.items()}
    after = _revert_commits(remote, commits, before)
    find = store.rules.find or find_secrets
    files = [(path, data) for path, text in after.items() if (data := _encode(text)) is not None]
    wrong = [path for path, data in files if plan.judge_text(path, data, find).refused]
    changed = {path: text for path, text in after.items() if text != before.get(path) and path not in wrong}
    left = sorted(part.name(path) for path in wrong if after[path] != before.get(path))

    def planner(view: StoreView) -> list[FileChange]:
        overlay = Overlay(view)
        for path, text in changed.items():
            current = view.read_bytes(part.locate(path))
            if current != _encode(before.get(path)):
                raise ConflictError(f"{part.name(path)} changed during the operation", hint="try again")
            overlay.put([FileChange(part.locate(path), current, _encode(text))])
        own = [part.name(path) for path in changed]
        overlay.put(plan_dead_pointers(overlay, own))
        overlay.put(plan_pointers(overlay, own))
        return list(overlay.list_changes())

    result = store.carry_out(planner, verb="revert", origin=origin) if changed else None
    names = tuple(sorted(map(part.name, changed)))
    return RevertResult(result.change if result else None, len(commits), names, tuple(left))


def _is_by(author: Author, wanted: str) -> bool:
    known = {author.name, author.email, f"{author.name} <{author.email}>"}
    return bool(wanted.strip()) and fold(wanted.strip()) in {fold(spelling) for spelling in known if spelling}


def _revert_commits(
    remote: state.TeamRemote, commits: Sequence[state.TeamCommit], before: Mapping[str, str]
) -> dict[str, str | None]:
    files: dict[str, str | None] = dict(before)
    changes = [(commit.sha, path) for commit in commits for path in commit.changes]
    usable = [one for one in changes if one[1] != INDEX_FILE and not plan.judge_place(one[1], state.PLAIN_MODE, 0)]
    texts = remote.read_texts([spec for sha, path in usable for spec in ((sha, path), (f"{sha}^", path))])
    for sha, path in usable:
        files[path] = _revert_file(texts.get((sha, path)), files.get(path), texts.get((f"{sha}^", path)))
    return files


def _revert_file(theirs: str | None, now: str | None, older: str | None) -> str | None:
    """Return the text `now` without a commit's change from `older` to `theirs`. None stands for a missing file."""
    if now == theirs:
        return older
    if now is None or theirs is None:
        return now  # deleted or recreated since
    if older is not None:
        return merge.merge_memory(theirs, now, older).text
    parts = split_frontmatter(now)
    added, standing = (merge.split_paragraphs(body) for body in (split_frontmatter(theirs).body, parts.body))
    left = merge_units(added, standing, ()).pieces
    return parts.opening + parts.head + parts.closing + "\n" + "\n\n".join(left) + "\n" if left else None


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
