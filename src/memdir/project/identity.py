"""Which project a memory directory belongs to, and finding the memory of a project that has moved.

A directory's slug is lossy, so two projects can meet in one; and it follows the path, so a project that is moved,
renamed or cloned anew leaves its memory behind. Against both, memdir writes the true root, the remote and the first
commit beside its state. A directory of a living project is never taken over silently, and nothing here moves a memory
unless `relink` is called for that very one.

What this room does not do: make directories for memories, merge two memories, or take the lock: whoever relinks holds
the locks of both directories.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from memdir.errors import NotFoundError, PathError
from memdir.files import disk_error, make_private_dirs, sync_dir, write_private
from memdir.frozen import asdict, dataclass
from memdir.guard import STATE
from memdir.project.git import find_remote, find_root_commit
from memdir.project.paths import RECORD, find_state_dir, find_transcript_cwd, read_root_record
from memdir.project.settings import Environment

_LEFT_BEHIND = frozenset({STATE, ".consolidate-lock"})  # what a directory without memories may hold


@dataclass(frozen=True, slots=True)
class Identity:
    """A project by its path, and by what stays the same when the path changes."""

    root: str
    remote: str | None = None
    root_commit: str | None = None


@dataclass(frozen=True, slots=True)
class RelinkCandidate:
    """A memory directory that may be the one looked for; `rank` is lower for better ones."""

    path: Path
    root: str
    reason: str
    rank: int


def find_identity(root: Path) -> Identity:
    """What can be said of a project today; asks git for the first commit, so not for the hook path."""
    return Identity(str(root), find_remote(root), find_root_commit(root))


def read_identity(state_dir: Path) -> Identity | None:
    """The recorded project; None when there is no record, or none that can be read."""
    record = read_root_record(state_dir)
    return Identity(record["root"], record.get("remote"), record.get("root_commit")) if record else None


def write_identity(state_dir: Path, identity: Identity) -> None:
    """Record the project; raises DiskError."""
    text = json.dumps(asdict(identity), indent=2, sort_keys=True) + "\n"
    write_private(state_dir / RECORD, text.encode("ascii"))


def check_identity(state_dir: Path, root: Path) -> None:
    """Refuse a directory that belongs to another project which is still there; raises PathError.

    Only for a place whose `is_keyed` is true: where a person has chosen the directory, sharing it is their wish.
    """
    known = read_identity(state_dir)
    if known is None or _is_same(known.root, str(root)) or not os.path.isdir(known.root):
        return
    raise PathError(
        str(root),
        f"its memory directory already belongs to {known.root}; both paths have the same short name",
        hint="set autoMemoryDirectory in the project's .claude/settings.local.json or CLAUDE_CODE_PROJECT_DIR_NAME to"
        " give this project a directory of its own, or say `memdir relink --claim` if it is the same project",
    )


def find_moved_directories(environment: Environment, identity: Identity) -> tuple[RelinkCandidate, ...]:
    """Memory directories that may be those of `identity` under an earlier path, best first."""
    found = [
        candidate
        for project in _list_projects(environment.claude_home / "projects")
        if (candidate := _judge(project, environment, identity)) is not None
    ]
    return tuple(sorted(found, key=lambda candidate: (candidate.rank, str(candidate.path))))


def relink(source: Path, target: Path, *, environment: Environment) -> None:
    """Move a memory directory, and memdir's own files for it, to another place; raises and leaves all as it was.

    Refused when the target holds anything of its own. What memdir kept for an empty target is set aside in the new
    state directory and not deleted: it may be the history of things forgotten there.
    """
    _check_no_links(source, target)
    if not source.is_dir():
        raise NotFoundError(f"there is no memory directory {source}", name=str(source))
    if _holds_anything(target):
        hint = "move or forget what is in there first; memdir does not mix two memories"
        raise PathError(str(target), "it already holds memories", hint=hint)
    old_state, new_state = find_state_dir(source, environment), find_state_dir(target, environment)
    moved_state = target / STATE if old_state == source / STATE else old_state
    try:
        make_private_dirs(target.parent)
        _check_same_device((source, target), (old_state, new_state), (target, new_state))
        aside = _move(source, target)
        if moved_state != new_state and moved_state.is_dir():
            make_private_dirs(new_state.parent)
            older = _move(moved_state, new_state)
            _keep(older, new_state)
        _keep(aside, new_state)
    except OSError as error:
        raise disk_error(error, target) from error


def _judge(project: Path, environment: Environment, identity: Identity) -> RelinkCandidate | None:
    memory = project / "memory"
    if memory.is_symlink() or not memory.is_dir() or not _holds_anything(memory):
        return None
    known = read_identity(find_state_dir(memory, environment))
    if known is None:
        return _judge_transcripts(project, identity)
    if _is_same(known.root, identity.root):
        return None
    alive = os.path.isdir(known.root)
    where = f"{known.root} is still there" if alive else f"{known.root} is gone"
    if identity.root_commit and known.root_commit == identity.root_commit:
        return RelinkCandidate(memory, known.root, f"same first commit; {where}", 4 if alive else 0)
    if identity.remote and known.remote and _address(known.remote) == _address(identity.remote):
        return RelinkCandidate(memory, known.root, f"same remote; {where}", 5 if alive else 1)
    if alive:
        return None
    if _is_same_name(known.root, identity.root):
        return RelinkCandidate(memory, known.root, f"same name; {where}", 2)
    return RelinkCandidate(memory, known.root, where, 6)


def _judge_transcripts(project: Path, identity: Identity) -> RelinkCandidate | None:
    """A directory memdir has never recorded; a living project keeps its own."""
    cwd = find_transcript_cwd(project)
    if cwd is None or os.path.isdir(cwd) or not _is_same_name(cwd, identity.root):
        return None
    return RelinkCandidate(project / "memory", cwd, f"same name in its transcripts; {cwd} is gone", 3)


def _list_projects(projects: Path) -> Iterator[Path]:
    try:
        with os.scandir(projects) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return


def _holds_anything(memory: Path) -> bool:
    """Whether there is anything but memdir's own files and empty ones: a memory, an index, a log, whatever it is."""
    try:
        with os.scandir(memory) as entries:
            for entry in entries:
                if entry.name in _LEFT_BEHIND:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if _holds_anything(Path(entry.path)):
                        return True
                elif entry.is_symlink() or entry.stat(follow_symlinks=False).st_size > 0:
                    return True
    except FileNotFoundError:
        return False
    except OSError:
        return True  # what cannot be looked into is not empty
    return False


def _check_no_links(*memories: Path) -> None:
    for memory in memories:
        for path in (memory, memory.parent):
            if path.is_symlink():
                raise PathError(str(path), "it is a link", hint="move by hand what the link leads to")


def _check_same_device(*pairs: tuple[Path, Path]) -> None:
    """A rename cannot cross file systems; better to learn that before the first one."""
    for source, target in pairs:
        parent = next(path for path in target.parents if path.exists())
        if source.exists() and os.stat(source).st_dev != os.stat(parent).st_dev:
            raise PathError(str(source), f"it is on another file system than {parent}", hint="move it by hand")


def _move(source: Path, target: Path) -> Path | None:
    """Put the source in the target's place; what was there is returned under another name."""
    aside = _find_free(target.parent, ".memdir-replaced") if target.exists() else None
    if aside is not None:
        os.rename(target, aside)
    try:
        os.rename(source, target)
    except OSError:
        if aside is not None:
            os.rename(aside, target)
        raise
    sync_dir(target.parent)
    sync_dir(source.parent)
    return aside


def _keep(aside: Path | None, state: Path) -> None:
    """Lay what was replaced into the state directory."""
    if aside is not None:
        make_private_dirs(state)
        os.rename(aside, _find_free(state, "replaced"))


def _find_free(directory: Path, name: str) -> Path:
    return next(path for n in range(1, 1_000_000) if not os.path.lexists(path := directory / f"{name}-{n}"))


def _is_same(one: str, other: str) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _is_same_name(one: str, other: str) -> bool:
    return os.path.basename(one.rstrip("/")).casefold() == os.path.basename(other.rstrip("/")).casefold()


def _address(remote: str) -> str:
    """Host and path, so that a clone over ssh and one over https are seen as the same."""
    plain = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://", "", remote)
    plain = re.sub(r"^[^@/:]+@", "", plain)
    return re.sub(r"^([^/:]+):(?:\d+/)?", r"\1/", plain).rstrip("/").removesuffix(".git").casefold()
