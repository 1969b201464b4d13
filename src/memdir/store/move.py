"""A memory moved to where others share it, to the memory for all projects, or back; its bytes stay as they are.

Inside one directory (private <-> team) a move is one change: the file, both index lines and the links that name it by its
whole path change together, and one undo takes all of it back. Between two directories it is two changes, the new place
first: killed in between, the memory is in both, and moving it once more ends it. No order loses it.

What may not be there is refused by the store that would hold it: a `user` memory and a secret in what a team shares, a
`project` or `reference` memory in the one for all projects, a description that says nothing.

It does not commit or push anything, and moves one memory at a time.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, SettingsError
from memdir.files import disk_error, hold, make_private_dirs, sync_dir
from memdir.format import index
from memdir.format.age import find_links
from memdir.format.drafts import make_slug
from memdir.frozen import dataclass, replace
from memdir.guard import check_name, disk_errors
from memdir.project.identity import Identity, relink, write_identity
from memdir.project.paths import find_state_dir, slug
from memdir.project.settings import Environment
from memdir.records import (
    BatchResult,
    Draft,
    Edit,
    Forget,
    InboxItem,
    InboxKind,
    InboxState,
    Memory,
    Origin,
    Put,
    Rewrite,
    Scope,
)
from memdir.store.contract import PERSON, StoreBase
from memdir.store.files import FileStore
from memdir.store.inbox import find_payload_edits, make_mark
from memdir.store.open import Project
from memdir.store.plan import TEAM_FOLDER, decode, digest_of, find_write_target, index_path, is_team, plan_write
from memdir.text import fold, fold_link, one_line, shorten

# --- promoting ---

VERBS = ("promote", "demote")


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What a move came to: the memory where it is now, the change there, and the change where it was if that is elsewhere."""

    memory: Memory
    store: FileStore
    change: int | None
    source: FileStore
    source_change: int | None = None


def find_scope_store(opened: Project, name: str, to: Scope) -> tuple[FileStore, str]:
    """The store of a scope, and how a memory of that name is called there; raises SettingsError where there is none."""
    short = name.partition("/")[2] if is_team(name) else name
    if to is Scope.TEAM:
        return opened.private, f"{TEAM_FOLDER}/{short}"
    store = {Scope.PRIVATE: opened.private, Scope.USER: opened.user, Scope.PROJECT: opened.project}.get(to)
    if store is None:
        hint = "`memdir where` shows which there are, and why"
        raise SettingsError(f"there is no {to.value} memory here", key="scope", hint=hint)
    return store, short


def move(
    opened: Project, source: FileStore, name: str, to: Scope, *, verb: str, origin: Origin, named: str = ""
) -> MoveResult:
    """Move a memory of `source`, as `named` if that is given; raises, and then it is still where it was."""
    data = source.read_bytes(f"{name}.md")
    if data is None:
        raise NotFoundError(f"no memory named {name}", name=name)
    target, new = find_scope_store(opened, named or name, to)
    if target is source and new == name:
        raise ConflictError(f"{name} is {to.value} memory already", hint="`memdir list` shows the scope of each")
    put, gone = Put(new, decode(data), _find_hook(source, name)), Forget(name, digest_of(data))
    try:
        if target is source:
            done = source.change([put, gone, *_relink(source, name, new, to)], verb=verb, origin=origin)
            return MoveResult(target.read(new), target, done.change, source)
        return _move_across(target, put, source, gone, data, verb=verb, origin=origin)
    except ConflictError as error:
        raise _explain(error, new, to) from None


def find_traces(opened: Project, store: FileStore, name: str) -> list[tuple[FileStore, str]]:
    """Where else history keeps a memory that was moved here from another directory, or there from here."""
    former = (name, *store.find_former(name))
    changes = [at for one in former for change in store.changes(one) for at in change.files if at.path == f"{one}.md"]
    digests = {digest for at in changes for digest in (at.before, at.after) if digest}
    found = [
        (other, at.path.removesuffix(".md"))
        for other in opened.stores
        if other is not store
        for change in other.changes()
        if change.verb in VERBS
        for at in change.files
        if not digests.isdisjoint((at.before, at.after)) and not os.path.lexists(other.root / at.path)
    ]
    return list(dict.fromkeys(found))


def _move_across(
    target: FileStore, put: Put, source: FileStore, gone: Forget, data: bytes, *, verb: str, origin: Origin
) -> MoveResult:
    change = None
    if target.read_bytes(f"{put.name}.md") != data:  # else a move that was killed half way
        why = replace(origin, why=origin.why or f"from {source.root}")
        change = target.change([put], verb=verb, origin=why).change
    why = replace(origin, why=origin.why or f"to {target.root}")
    try:
        left = source.change([gone], verb=verb, origin=why).change
    except ConflictError:
        # Changed meanwhile: what came to the new place is out of date. Gone meanwhile: that may be all there is.
        if change is not None and source.read_bytes(f"{gone.name}.md") is not None:
            target.undo(change, origin=replace(origin, why="it was changed meanwhile"))
        raise
    return MoveResult(target.read(put.name), target, change, source, left)


def _find_hook(store: FileStore, name: str) -> str:
    """What the index says of a memory, where somebody has put it in other words than its description."""
    path, short = index_path(name)
    lines = index.find_lines(store.index(path.removesuffix(index.INDEX_FILE).rstrip("/")), short)
    header = store.read(name).header
    usual = index.render_line(header.title, short, header.description)
    return lines[0].hook if lines and lines[0].text.strip() != usual else ""


def _relink(store: FileStore, old: str, new: str, to: Scope) -> Iterator[Edit]:
    """Links that spell the whole path with its folder; any other means the memory by its last part, here and there.

    What the team shares is not made to point to what others cannot see.
    """
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


def _explain(error: ConflictError, new: str, to: Scope) -> ConflictError:
    if "exists already" not in str(error):
        return error
    hint = f"`memdir read {new} --scope {to.value}` shows it; --name moves yours beside it, or merge and forget one"
    return ConflictError(f"the {to.value} memory has a {new} already", found=error.found, hint=hint)


# --- edits ---
# Texts that are in a person's editor: kept in the state folder until they are saved, so that none is ever lost.
#
# An edit that cannot be saved (broken frontmatter, somebody was quicker, the disk is full) stays there under the name
# it
# was told by. These are files of memdir's own, so `forget --purge` drops those of its memory.
#
# It does not run the editor and does not write memories.

_SUFFIX = ".md"  # editors know it, and the folder is no memory directory
_NAME_BYTES = 180  # file systems stop at 255, and the random part needs room


def open_edit(environment: Environment, root: Path, name: str, data: bytes) -> Path:
    """A file of its own with the text of a memory, mode 0600."""
    folder = _find_folder(environment, root)
    try:
        make_private_dirs(folder)
        handle, path = tempfile.mkstemp(prefix=f"{_flatten(name)}.", suffix=_SUFFIX, dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise disk_error(error, folder) from error
    return Path(path)


def find_outside_edits(environment: Environment, root: Path, name: str) -> tuple[Path, ...]:
    """What was left of earlier edits of this memory."""
    pattern = re.compile(rf"{re.escape(_flatten(name))}\.[A-Za-z0-9_]+{re.escape(_SUFFIX)}")
    folder = _find_folder(environment, root)
    try:
        return tuple(folder / leaf for leaf in sorted(os.listdir(folder)) if pattern.fullmatch(leaf))
    except OSError:
        return ()


def drop_edits(environment: Environment, root: Path, name: str) -> int:
    """Remove what was left of earlier edits of this memory; answers how many files that was."""
    found = find_outside_edits(environment, root, name)
    for path in found:
        try:
            path.unlink(missing_ok=True)
            sync_dir(path.parent)
        except OSError as error:
            raise disk_error(error, path) from error
    return len(found)


def _find_folder(environment: Environment, root: Path) -> Path:
    return environment.state_home / "edits" / slug(os.path.realpath(root))


def _flatten(name: str) -> str:
    """A name as one file name. Names have no dots, so no two become the same; a digest tells long ones apart."""
    flat = name.replace("/", ".")
    data = flat.encode("utf-8", "replace")
    if len(data) <= _NAME_BYTES:
        return flat
    return data[: _NAME_BYTES - 20].decode("utf-8", "ignore") + "-" + hashlib.sha256(data).hexdigest()[:16]


# --- moving ---
# Moving a memory directory to where its project now looks for it, with both directories held still meanwhile.
#
# Which directory is meant is decided before, by a person with the help of `identity`.


def move_memory(source: Path, target: Path, identity: Identity, *, environment: Environment, seconds: float) -> None:
    """Put a memory directory into the place of `identity` and record whose it is now."""
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


# --- deciding ---
# What a person decides about something that waits in the inbox: to let it happen, or not.
#
# Approving does what the item says, as one change of the person's that `undo` takes back, and then records the decision;
# if
# the process dies between the two, approving again does nothing twice. Rejecting only records. Both leave the item
# where
# it is, so that it is not asked again; one that was rejected can still be approved.

_WHY_CHARS = 200


def approve(store: StoreBase, item: InboxItem, *, origin: Origin = PERSON, note: str = "") -> BatchResult | None:
    """Carry an item out; answers what changed, None for one that changes no memory."""
    _check_open(item)
    edits = find_payload_edits(item.payload)
    if not edits and item.kind in (InboxKind.MEMORY, InboxKind.PROPOSAL):
        hint = "reject it; what made it can propose it anew"
        raise FormatError("it says nothing that could be done", field="edits", hint=hint)
    if not edits:
        store.inbox_decide(item.id, InboxState.APPROVED, note)
        return None
    words = shorten(one_line(f"approved inbox item {item.id}: {item.why}"), _WHY_CHARS)
    try:
        done = store.change(edits, verb="approve", origin=replace(origin, why=words), mark=make_mark(item))
    except ConflictError as error:
        hint = "`memdir inbox show` compares; change the memory by hand and reject the item"
        raise ConflictError(str(error), expected=error.expected, found=error.found, hint=hint) from None
    store.inbox_decide(item.id, InboxState.APPROVED, note, name=item.name or next(iter(done.names), ""))
    return done


def reject(store: StoreBase, item: InboxItem, *, note: str = "") -> InboxItem:
    """Record that an item is not wanted; nothing else happens."""
    _check_open(item)
    return store.inbox_decide(item.id, InboxState.REJECTED, note, was=item.state)


def _check_open(item: InboxItem) -> None:
    if item.state is InboxState.APPROVED:
        hint = "`memdir history` shows what it changed, and `memdir undo` takes that back"
        raise ConflictError("it was approved already", hint=hint)


# --- preview ---
# What a save would meet and what it would make of it, looked at without a lock and without writing.
#
# An answer can be out of date the moment it is given; `write` with `expect` decides.


def find_existing(store: FileStore, draft: Draft) -> Memory | None:
    """The memory a draft would land on; None where it would make a new one."""
    name, found = find_write_target(store, draft)
    return None if found is None else store.read(name)


def preview_text(store: FileStore, draft: Draft, memory: Memory, now: datetime) -> str:
    """The text of a memory after the draft has replaced it."""
    path = memory.header.file
    _, changes = plan_write(store, draft, memory.digest, now, store.rules)
    return next((decode(at.after) for at in changes if at.path == path and at.after is not None), memory.text)


def find_free_name(store: FileStore, draft: Draft) -> str:
    """A name for the draft that nothing has yet: its own, else with the next number behind it."""
    *folders, leaf = check_name(draft.name if draft.name is not None else make_slug(draft.title))
    taken = {fold(name.removesuffix(".md")) for name in store.list_files("/".join(folders))}
    for number in range(1, 1000):
        free = leaf if number == 1 else f"{leaf[:90]}-{number}"
        if fold(free) not in taken:
            return "/".join([*folders, free])
    raise ConflictError("a thousand memories have this name", hint="give it a name of its own with --name")
