"""Which project a memory directory belongs to, and finding the memory of a project that has moved.

Two projects can have the same slug, and the slug follows the path, so a project that is moved, renamed or cloned again
leaves its memory behind. Against both, memdir records root, remote and first commit in the state folder. A directory
of a project that still exists is never taken over silently. `relink` moves one memory; its caller holds the locks of
both directories.
"""

import json
import os
import re
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
    """A memory directory that may be the one searched for; `rank` is lower for better ones."""

    path: Path
    root: str
    reason: str
    rank: int


def find_identity(root: Path) -> Identity:
    """Returns the identity of a project; runs git for the first commit, so it is not for hooks."""
    return Identity(str(root), find_remote(root), find_root_commit(root))


def read_identity(state_dir: Path) -> Identity | None:
    """Returns the recorded project; None if there is no record that can be read."""
    record = read_root_record(state_dir)
    return Identity(record["root"], record.get("remote"), record.get("root_commit")) if record else None


def write_identity(state_dir: Path, identity: Identity) -> None:
    """Record the project; raises DiskError."""
    text = json.dumps(asdict(identity), indent=2, sort_keys=True) + "\n"
    write_private(state_dir / RECORD, text.encode("ascii"))


def check_identity(state_dir: Path, root: Path) -> None:
    """Raise PathError for a directory that belongs to another project which still exists.

    Only for a directory whose `is_keyed` is true: one that a person has chosen may be shared.
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
    """Returns memory directories that may be those of `identity` under an earlier path, best first."""
    try:
        with os.scandir(environment.claude_home / "projects") as entries:
            projects = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        projects = []
    found = [candidate for at in projects if (candidate := _judge(at, environment, identity)) is not None]
    return tuple(sorted(found, key=lambda candidate: (candidate.rank, str(candidate.path))))


def relink(source: Path, target: Path, *, environment: Environment) -> None:
    """Move a memory directory, and memdir's own files for it, to another path; raises and leaves all as it was.

    Raises PathError if the target holds anything of its own. What memdir kept for an empty target is moved into the new
    state directory and not deleted: it may be the history of memories forgotten there.
    """
    for path in (source, source.parent, target, target.parent):
        if path.is_symlink():
            raise PathError(str(path), "it is a link", hint="move by hand what the link leads to")
    if not source.is_dir():
        raise NotFoundError(f"there is no memory directory {source}", name=str(source))
    if _holds_anything(target):
        hint = "move or forget what is in there first; memdir does not mix two memories"
        raise PathError(str(target), "it already holds memories", hint=hint)
    old_state, new_state = find_state_dir(source, environment), find_state_dir(target, environment)
    moved_state = target / STATE if old_state == source / STATE else old_state
    try:
        make_private_dirs(target.parent)
        # A rename cannot cross file systems: that is checked before the first one.
        for old, new in ((source, target), (old_state, new_state), (target, new_state)):
            parent = next(path for path in new.parents if path.exists())
            if old.exists() and os.stat(old).st_dev != os.stat(parent).st_dev:
                raise PathError(str(old), f"it is on another file system than {parent}", hint="move it by hand")
        aside = _move(source, target)
        if moved_state != new_state and moved_state.is_dir():
            make_private_dirs(new_state.parent)
            _keep(_move(moved_state, new_state), new_state)
        _keep(aside, new_state)
    except OSError as error:
        raise disk_error(error, target) from error


def _judge(project: Path, environment: Environment, identity: Identity) -> RelinkCandidate | None:
    memory = project / "memory"
    if memory.is_symlink() or not memory.is_dir() or not _holds_anything(memory):
        return None
    known = read_identity(find_state_dir(memory, environment))
    if known is None:  # memdir has never recorded it; a project that exists keeps its own
        cwd = find_transcript_cwd(project)
        if cwd is None or os.path.isdir(cwd) or not _is_same_name(cwd, identity.root):
            return None
        return RelinkCandidate(memory, cwd, f"same name in its transcripts; {cwd} is gone", 3)
    if _is_same(known.root, identity.root):
        return None
    alive = os.path.isdir(known.root)
    where = f"{known.root} is still there" if alive else f"{known.root} is gone"
    if identity.root_commit and known.root_commit == identity.root_commit:
        return RelinkCandidate(memory, known.root, f"same first commit; {where}", 4 if alive else 0)
    if identity.remote and known.remote and _address(known.remote) == _address(identity.remote):
        return RelinkCandidate(memory, known.root, f"same remote; {where}", 5 if alive else 1)
    if not alive and _is_same_name(known.root, identity.root):
        return RelinkCandidate(memory, known.root, f"same name; {where}", 2)
    return None if alive else RelinkCandidate(memory, known.root, where, 6)


def _holds_anything(memory: Path) -> bool:
    """Whether there is anything but memdir's own files and empty ones."""
    try:
        with os.scandir(memory) as entries:
            for entry in entries:
                if entry.name in _LEFT_BEHIND:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found = _holds_anything(Path(entry.path))
                else:
                    found = entry.is_symlink() or entry.stat(follow_symlinks=False).st_size > 0
                if found:
                    return True
    except FileNotFoundError:
        return False
    except OSError:
        return True  # what cannot be listed is not empty
    return False


def _move(source: Path, target: Path) -> Path | None:
    """Rename the source to the target; returns the new path of what was there."""
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
    """Move what was replaced into the state directory."""
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
    """Host and path, so that a clone over ssh and one over https are the same."""
    plain = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://", "", remote)
    plain = re.sub(r"^[^@/:]+@", "", plain)
    return re.sub(r"^([^/:]+):(?:\d+/)?", r"\1/", plain).rstrip("/").removesuffix(".git").casefold()
