"""A memory moved to another scope and back, and a memory directory moved to where its project now looks for it.

A memory's bytes stay as they are. Inside one directory (private <-> team) a move is one change: the file, both index lines
and the links that name it by its whole path. Between two directories it is two changes, the target first: killed in between,
the memory is in both, and moving it once more completes the move. The target store refuses what it may not hold.
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from memdir.errors import ConflictError, MemdirError, NotFoundError, SettingsError
from memdir.files import disk_errors, hold
from memdir.format import index
from memdir.format.age import find_links
from memdir.format.frontmatter import decode, digest_of
from memdir.frozen import dataclass, replace
from memdir.project.paths import find_state_dir
from memdir.project.settings import Environment
from memdir.records import TEAM_FOLDER, Edit, Forget, Origin, Put, Rewrite, Scope, StoredMemory
from memdir.store.facts import find_ages
from memdir.store.files import FileStore
from memdir.store.open import Identity, Project, relink, write_identity
from memdir.store.plan import index_path, is_team
from memdir.text import fold_link

_VERBS = ("promote", "demote")


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The memory where it is now, the change there, and the change in the store it left if that is another."""

    memory: StoredMemory
    store: FileStore
    change: int | None
    source: FileStore
    source_change: int | None = None


def find_scope_store(project: Project, name: str, to: Scope) -> tuple[FileStore, str]:
    """The store of a scope, and the name of a memory there; raises SettingsError where there is none."""
    short = name.partition("/")[2] if is_team(name) else name
    if to is Scope.TEAM:
        return project.private, f"{TEAM_FOLDER}/{short}"
    store = {Scope.PRIVATE: project.private, Scope.USER: project.user, Scope.PROJECT: project.project}.get(to)
    if store is None:
        hint = "`memdir where` shows which there are, and why"
        raise SettingsError(f"there is no {to.value} memory here", key="scope", hint=hint)
    return store, short


def move(
    project: Project, source: FileStore, name: str, to: Scope, *, verb: str, origin: Origin, named: str = ""
) -> MoveResult:
    """Move a memory of `source`, as `named` if that is given; if this raises, it is still where it was."""
    data = source.read_bytes(f"{name}.md")
    if data is None:
        raise NotFoundError(f"no memory named {name}", name=name)
    target, new = find_scope_store(project, named or name, to)
    if target is source and new == name:
        raise ConflictError(f"{name} is {to.value} memory already", hint="`memdir list` shows the scope of each")
    put, gone = Put(new, decode(data), _find_hook(source, name)), Forget(name, digest_of(data))
    try:
        if target is source:
            change = source.change([put, gone, *_relink(source, name, new, to)], verb=verb, origin=origin).change
            moved = MoveResult(target.read(new), target, change, source)
        else:
            moved = _move_across(target, put, source, gone, data, verb=verb, origin=origin)
        source.move_recalls(name, target, new)
        return moved
    except ConflictError as error:
        if "exists already" not in str(error):
            raise
        hint = f"`memdir read {new} --scope {to.value}` shows it; --name moves yours beside it, or merge and forget one"
        message = f"the {to.value} memory has a {new} already"
        raise ConflictError(message, found=error.found, hint=hint) from None


def find_traces(project: Project, store: FileStore, name: str) -> list[tuple[FileStore, str]]:
    """Where else history keeps a memory that was moved here from another directory, or there from here."""
    former = (name, *store.find_former(name))
    changes = [at for one in former for change in store.changes(one) for at in change.files if at.path == f"{one}.md"]
    digests = {digest for at in changes for digest in (at.before, at.after) if digest}
    found = [
        (other, at.path.removesuffix(".md"))
        for other in project.stores
        if other is not store
        for change in other.changes()
        if change.verb in _VERBS
        for at in change.files
        if not digests.isdisjoint((at.before, at.after)) and not os.path.lexists(other.root / at.path)
    ]
    return list(dict.fromkeys(found))


def _move_across(
    target: FileStore, put: Put, source: FileStore, gone: Forget, data: bytes, *, verb: str, origin: Origin
) -> MoveResult:
    change = None
    if target.read_bytes(f"{put.name}.md") != data:  # else a move that was killed half way
        memory = source.read(gone.name)
        if memory.digest == gone.expect:  # else the change below is refused
            since = find_ages(source, [memory], now=source.clock())[gone.name]
            target.note_dates({(f"{put.name}.md", memory.digest): since})
        why = replace(origin, why=origin.why or f"from {source.root}")
        change = target.change([put], verb=verb, origin=why).change
    why = replace(origin, why=origin.why or f"to {target.root}")
    try:
        left = source.change([gone], verb=verb, origin=why).change
    except ConflictError:
        # Changed meanwhile: the copy is out of date. Gone meanwhile: the copy may be all there is.
        if change is not None and source.read_bytes(f"{gone.name}.md") is not None:
            target.undo(change, origin=replace(origin, why="it was changed meanwhile"))
        raise
    return MoveResult(target.read(put.name), target, change, source, left)


def _find_hook(store: FileStore, name: str) -> str:
    """The hook of a memory's index line, where somebody has worded it otherwise than the description."""
    path, short = index_path(name)
    lines = index.find_lines(store.index(path.removesuffix(index.INDEX_FILE).rstrip("/")), short)
    header = store.read(name).header
    usual = index.render_line(header.title, short, header.description)
    return lines[0].hook if lines and lines[0].text.strip() != usual else ""


def _relink(store: FileStore, old: str, new: str, to: Scope) -> Iterator[Edit]:
    """Rewrites of links that contain the whole path with its folder; any other names the memory by its last part.
    What the team shares is not made to point to what others cannot see."""
    if "/" not in old:
        return
    for header in store.scan():
        if header.name == old or (to is not Scope.TEAM and is_team(header.name)):
            continue
        try:
            data = store.read_bytes(header.file) or b""
        except MemdirError:
            continue
        text = decode(data)
        spelled = {link for link, _ in find_links(text) if fold_link(link.removesuffix(".md")) == fold_link(old)}
        changed = text
        for link in spelled:
            changed = re.sub(rf"\[\[\s*{re.escape(link)}(?=\s*(?:\||\]\]))", lambda _: f"[[{new}", changed)
        if changed != text:
            yield Rewrite(header.name, changed, digest_of(data))


def move_memory(source: Path, target: Path, identity: Identity, *, environment: Environment, seconds: float) -> None:
    """Move a memory directory to where its project now looks for it, both held meanwhile, and record its owner."""
    states = sorted({find_state_dir(source, environment), find_state_dir(target, environment)})
    with ExitStack() as held:
        for state in states:
            held.enter_context(_hold_still(state, seconds))
        relink(source, target, environment=environment)
    write_identity(find_state_dir(target, environment), identity)


def claim(target: Path, identity: Identity, *, environment: Environment, seconds: float) -> None:
    """Record `identity` as the owner of a memory directory that is there already."""
    if not target.is_dir():
        raise NotFoundError(f"there is no memory directory {target} to claim", name=str(target))
    state = find_state_dir(target, environment)
    with _hold_still(state, seconds):
        write_identity(state, identity)


@contextmanager
def _hold_still(state: Path, seconds: float) -> Iterator[None]:
    """The lock of a directory; one that memdir has never written to has no lock and no other writer of ours."""
    try:
        folder = os.open(state, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    try:
        with disk_errors(str(state)), hold(folder, "lock", seconds=seconds):
            yield
    finally:
        os.close(folder)
