"""Move a memory to another scope, or erase all traces of it.

A memory's bytes stay as they are. Inside one directory (private <-> team) a move is one change: the file, both index lines
and the links that name it by its full path. Between two directories it is two changes, the target first: if the process dies in
between, the memory is in both, and moving it again completes the move. The target store refuses memories it cannot hold.
"""

import os
from collections.abc import Iterator

from memdir.errors import ConflictError, MemdirError, NotFoundError, SettingsError
from memdir.format import index
from memdir.format.frontmatter import decode, digest_of
from memdir.frozen import replace
from memdir.models.staged import rename_links
from memdir.operations.write import WriteAction, WriteContext, WriteResult, change
from memdir.records import TEAM_FOLDER, Edit, Forget, Put, Rewrite, Scope
from memdir.store.contract import StoreBase
from memdir.store.facts import find_authors, find_sources
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.plan import index_path, is_team
from memdir.store.state import OWN_COPY, drop_copy, drop_edits, find_own_sync

UNREACHED = (
    "what your daily logs say, copies that git has committed or pushed, a host's transcripts, notes of sessions,"
    " histories of other projects that it was promoted from, and backups"
)
_VERBS = ("promote", "demote")


def find_scope_store(project: Project, name: str, to: Scope) -> tuple[FileStore, str]:
    """Return the store of a scope and the memory's name there. Raise SettingsError if there is no such store."""
    short = name.partition("/")[2] if is_team(name) else name
    if to is Scope.TEAM:
        return project.private, f"{TEAM_FOLDER}/{short}"
    store = {Scope.PRIVATE: project.private, Scope.USER: project.user, Scope.PROJECT: project.project}.get(to)
    if store is None:
        hint = "`memdir where` shows which there are, and why"
        raise SettingsError(f"no {to.value} memory is available here", key="scope", hint=hint)
    return store, short


def move(
    source: FileStore, name: str, target: FileStore, new_name: str, context: WriteContext, *, verb: str
) -> WriteResult:
    """Move a memory to a store and name from `find_scope_store`. After an error it is still at its old location.

    The change in `source` is the first in the result: if they are undone in order, the memory always exists.
    """
    data = source.read_bytes(f"{name}.md")
    if data is None:
        raise NotFoundError(f"no memory named {name}", name=name)
    to = Scope.TEAM if is_team(new_name) else target.scope
    if target is source and new_name == name:
        raise ConflictError(f"{name} is already a {to.value} memory", hint="`memdir list` shows the scope of each")
    new_file, drop = Put(new_name, decode(data), _find_hook(source, name)), Forget(name, digest_of(data))
    memory = source.read(name)
    if memory.digest == drop.expect:  # otherwise the change is refused
        (facts,) = find_sources(source, [memory]).values()
        who = find_authors(source, [name], signed=False).get(name, "")
        target.note_sources({(f"{new_name}.md", memory.digest): facts._replace(who=who)})
    try:
        if target is source:
            edits = [new_file, drop, *_relink(source, name, new_name)]
            changes = change(source, edits, context, verb=verb).check_written().changes
        else:
            changes = _move_across(target, new_file, source, drop, data, context, verb=verb)
    except ConflictError as error:
        if "already exists" not in str(error):
            raise
        hint = f"`memdir read {new_name} --scope {to.value}` shows it; --name saves yours next to it, or merge and forget one"
        message = f"{new_name} already exists in {to.value} memory"
        raise ConflictError(message, found=error.found, hint=hint) from None
    source.move_recalls(name, target, new_name)
    return WriteResult(WriteAction.CHANGED, new_name, to, target.read(new_name), decode(data), changes)


def purge(project: Project, store: FileStore, name: str) -> int:
    """Erase a memory, its history and all traces in memdir's own files; return how many changes were cleaned."""
    traces = _find_traces(project, store, name)
    count = store.purge(name) + sum(other.purge(was) for other, was in traces)
    for holder, was in ((store, name), *traces):
        drop_edits(project.environment, holder.root, was)
    drop_copy(find_own_sync(project.environment), OWN_COPY)
    return count


def _find_traces(project: Project, store: FileStore, name: str) -> list[tuple[FileStore, str]]:
    """Return the other stores and names whose history contains this memory, because it was moved between stores."""
    former = (name, *store.find_former(name))
    files = [file for old in former for step in store.changes(old) for file in step.files if file.path == f"{old}.md"]
    digests = {digest for file in files for digest in (file.before, file.after) if digest}
    traces = [
        (other, file.path.removesuffix(".md"))
        for other in project.stores
        if other is not store
        for change in other.changes()
        if change.verb in _VERBS
        for file in change.files
        if not digests.isdisjoint((file.before, file.after)) and not os.path.lexists(other.root / file.path)
    ]
    return list(dict.fromkeys(traces))


def _move_across(
    target: FileStore, new_file: Put, source: FileStore, drop: Forget, data: bytes, context: WriteContext, *, verb: str
) -> tuple[tuple[StoreBase, int], ...]:
    def explain(why: str) -> WriteContext:
        return replace(context, origin=replace(context.origin, why=context.origin.why or why))

    added: tuple[tuple[StoreBase, int], ...] = ()
    if target.read_bytes(f"{new_file.name}.md") != data:  # otherwise an interrupted move is completed
        added = change(target, [new_file], explain(f"from {source.root}"), verb=verb).check_written().changes
    try:
        removed = change(source, [drop], explain(f"to {target.root}"), verb=verb).check_written().changes
    except ConflictError:
        # If the memory changed since, the copy is outdated; if it was deleted, the copy may be the only one.
        if added and source.read_bytes(f"{drop.name}.md") is not None:
            target.undo(added[0][1], origin=replace(context.origin, why="the source changed during the move"))
        raise
    return (*removed, *added)


def _find_hook(store: FileStore, name: str) -> str:
    """Return the text of a memory's index line if it was edited by hand, or ""."""
    path, short = index_path(name)
    lines = index.find_lines(store.index(path.removesuffix(index.INDEX_FILE).rstrip("/")), short)
    header = store.read(name).header
    usual = index.render_line(header.title, short, header.description)
    return lines[0].hook if lines and lines[0].text.strip() != usual else ""


def _relink(store: FileStore, old: str, new: str) -> Iterator[Edit]:
    """Yield rewrites of links that contain the full path; other links name the memory by its last part and still work.
    Team memories are not changed to point to memories that others cannot see."""
    if "/" not in old:
        return
    for header in store.scan():
        if header.name == old or (not is_team(new) and is_team(header.name)):
            continue
        try:
            data = store.read_bytes(header.file) or b""
        except MemdirError:
            continue
        text = decode(data)
        changed = rename_links(text, {old: new})
        if changed != text:
            yield Rewrite(header.name, changed, digest_of(data))
