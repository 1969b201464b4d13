"""A memory moved to where others share it, to the memory for all projects, or back; its bytes stay as they are.

Inside one directory (private <-> team) a move is one act: the file, both index lines and the links that name it by its
whole path change together, and one undo takes all of it back. Between two directories it is two acts, the new place
first: killed in between, the memory is in both, and moving it once more ends it. No order loses it.

What may not be there is refused by the store that would hold it: a `user` memory and a secret in what a team shares, a
`project` or `reference` memory in the one for all projects, a description that says nothing.

It does not commit or push anything, and moves one memory at a time.
"""

import os
import re
from collections.abc import Iterator

from memdir import index
from memdir.errors import ConflictError, MemdirError, NotFoundError, SettingsError
from memdir.frozen import dataclass, replace
from memdir.links import find_links
from memdir.opening import Opened
from memdir.records import Edit, Forget, Memory, Origin, Put, Rewrite, Scope
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER, decode, digest_of, index_path
from memdir.store.shared import is_team
from memdir.text import fold_link

VERBS = ("promote", "demote")


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move came to: the memory where it is now, the act there, and the act where it was if that is elsewhere."""

    memory: Memory
    store: FileStore
    act: int | None
    source: FileStore
    source_act: int | None = None


def find_place(opened: Opened, name: str, to: Scope) -> tuple[FileStore, str]:
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
    opened: Opened, source: FileStore, name: str, to: Scope, *, verb: str, origin: Origin, named: str = ""
) -> Moved:
    """Move a memory of `source`, as `named` if that is given; raises, and then it is still where it was."""
    data = source.read_bytes(f"{name}.md")
    if data is None:
        raise NotFoundError(f"no memory named {name}", name=name)
    target, new = find_place(opened, named or name, to)
    if target is source and new == name:
        raise ConflictError(f"{name} is {to.value} memory already", hint="`memdir list` shows the scope of each")
    put, gone = Put(new, decode(data), _find_hook(source, name)), Forget(name, digest_of(data))
    try:
        if target is source:
            done = source.change([put, gone, *_relink(source, name, new, to)], verb=verb, origin=origin)
            return Moved(target.read(new), target, done.act, source)
        return _move_across(target, put, source, gone, data, verb=verb, origin=origin)
    except ConflictError as error:
        raise _explain(error, new, to) from None


def find_traces(opened: Opened, store: FileStore, name: str) -> list[tuple[FileStore, str]]:
    """Where else history keeps a memory that was moved here from another directory, or there from here."""
    former = (name, *store.find_former(name))
    changes = [at for one in former for act in store.acts(one) for at in act.changes if at.path == f"{one}.md"]
    digests = {digest for at in changes for digest in (at.before, at.after) if digest}
    found = [
        (other, at.path.removesuffix(".md"))
        for other in opened.stores
        if other is not store
        for act in other.acts()
        if act.verb in VERBS
        for at in act.changes
        if not digests.isdisjoint((at.before, at.after)) and not os.path.lexists(other.root / at.path)
    ]
    return list(dict.fromkeys(found))


def _move_across(
    target: FileStore, put: Put, source: FileStore, gone: Forget, data: bytes, *, verb: str, origin: Origin
) -> Moved:
    act = None
    if target.read_bytes(f"{put.name}.md") != data:  # else a move that was killed half way
        why = replace(origin, why=origin.why or f"from {source.root}")
        act = target.change([put], verb=verb, origin=why).act
    why = replace(origin, why=origin.why or f"to {target.root}")
    try:
        left = source.change([gone], verb=verb, origin=why).act
    except ConflictError:
        # Changed meanwhile: what came to the new place is out of date. Gone meanwhile: that may be all there is.
        if act is not None and source.read_bytes(f"{gone.name}.md") is not None:
            target.undo(act, origin=replace(origin, why="it was changed meanwhile"))
        raise
    return Moved(target.read(put.name), target, act, source, left)


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
