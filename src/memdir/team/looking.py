"""Both sides as they are: the team's folder here, and the branch there, with what is odd about its history.

.memdir-team.json   in the branch: {"review": true} asks every member to look at what others write. Whoever may push
                    may change it, so a member who wants review in any case says so for himself
"""

import json
import os
from collections.abc import Mapping

from memdir import disk, guard
from memdir.errors import DiskError, FormatError, NotFoundError, PathError, SettingsError
from memdir.frozen import dataclass, field, replace
from memdir.index import INDEX_FILE
from memdir.limits import TEAM_BYTES
from memdir.secrets import find_secrets
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER, decode
from memdir.team.arriving import PLAIN_MODE, judge_place
from memdir.team.git import Copy
from memdir.team.ground import Ground, Local, find_needed
from memdir.team.membership import BRANCH
from memdir.team.objects import (
    Entry,
    find_common,
    find_kept,
    find_versions,
    hash_blob,
    is_ancestor,
    read_blobs,
    read_tree,
)
from memdir.team.point import Point
from memdir.team.remote import fetch_branch
from memdir.text import one_line

TEAM_FILE = ".memdir-team.json"
_TEAM_FILE_BYTES = 4_096
_MANY = 3  # memories that nobody forgets all at once


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch as it was fetched. `head` is empty where there is none at all.

    `mark` is the object of the team's own file, `is_team` whether there is one, of whatever kind. `is_gone`: the remote
    has lost the branch, and this is what was known of it. `common` is set where its history was rewritten: the files
    both histories come from.
    """

    head: str = ""
    tree: Mapping[str, Entry] = field(default_factory=dict)
    mark: str = ""
    is_gone: bool = False
    common: Mapping[str, Entry] | None = None
    is_team: bool = False


def read_local(store: FileStore) -> Local:
    """The team's folder as it is now; without a folder there is nothing in it."""
    try:
        root = guard.open_root(store.root)
    except NotFoundError:
        return Local({})
    files: dict[str, bytes] = {}
    blocked: dict[str, str] = {}
    try:
        for found in disk.walk(root, folder=TEAM_FOLDER):
            path = found.path.removeprefix(f"{TEAM_FOLDER}/")
            data = None if found.refusal else _read(root, found.path)
            if data is None:
                blocked[path] = (
                    f"in its place here lies something that is no plain file ({found.refusal or 'unreadable'})"
                )
            else:
                files[path] = data
        index = _read(root, f"{TEAM_FOLDER}/{INDEX_FILE}")
    finally:
        os.close(root)
    return Local(files, None if index is None else decode(index), blocked)


def read_branch(copy: Copy, remote: str, name: str, point: Point) -> Branch:
    """Fetch the branch and look at what it holds; raises GitError where the remote cannot be reached."""
    head = fetch_branch(copy, remote, name)
    if head is not None and (point.head in ("", head) or is_ancestor(copy, point.head, head)):
        return look_at(copy, head)
    is_known = bool(point.head) and find_kept(copy, point.head)
    if head is None:
        return look_at(copy, point.head, is_gone=True) if is_known else Branch()
    common = find_common(copy, point.head, head) if is_known else None
    return look_at(copy, head, common=read_tree(copy, common) if common else {})


def look_at(copy: Copy, head: str, *, is_gone: bool = False, common: Mapping[str, Entry] | None = None) -> Branch:
    tree = read_tree(copy, head)
    mark = tree.pop(TEAM_FILE, None)
    is_plain = mark is not None and mark.mode == PLAIN_MODE and mark.size <= _TEAM_FILE_BYTES
    return Branch(head, tree, mark.sha if mark is not None and is_plain else "", is_gone, common, mark is not None)


def check_team(branch: Branch, name: str) -> None:
    """Raises SettingsError for a branch that holds something else than a team's memory: nothing is added to that."""
    if branch.head and not branch.is_team:
        hint = f"choose another: --branch {BRANCH}; a team's own branch holds {TEAM_FILE}"
        raise SettingsError(f"the branch {name} is no team's memory: it holds other work", key="branch", hint=hint)


def asks_review(branch: Branch, ground: Ground) -> bool:
    """Whether the team wants everybody to look at what others write."""
    try:
        table = json.loads(ground.blobs.get(branch.mark, b"null"))
    except (ValueError, RecursionError):
        return False
    return isinstance(table, dict) and table.get("review") is True


def make_team_file(*, review: bool) -> bytes:
    return json.dumps({"review": review}).encode("ascii") + b"\n"


def make_ground(copy: Copy, store: FileStore, local: Local, point: Point, branch: Branch) -> Ground:
    """Everything that planning needs; raises FormatError if more would come than any team writes."""
    local = replace(local, blocked={**local.blocked, **_find_blocked(store, local, branch.tree)})
    needed = find_needed(local, point, branch.tree, branch.common)
    if sum(needed.values()) > TEAM_BYTES:
        size = TEAM_BYTES // 1_048_576
        raise FormatError(
            f"more than {size} MiB would come from the team's branch: nothing of it was taken",
            hint="`memdir team log` shows who wrote last",
        )
    return Ground(
        local,
        point,
        branch.tree,
        read_blobs(copy, [*needed, branch.mark]),
        find=store.rules.find or find_secrets,
        common=branch.common,
        seen=_find_seen(copy, local, point, branch),
        has_index=not store.rules.skip_index,
    )


def forgive_loss(local: Local, point: Point) -> Point:
    """The point, or one that knows of no files where all of them are gone and the index too: nobody forgets like that.

    A folder that somebody took away by hand, or that is not mounted, must not take everybody's memories with it.
    """
    if local.files or local.index is not None or len(point.files) < _MANY:
        return point
    return replace(point, files={}, index=None)


def _find_seen(copy: Copy, local: Local, point: Point, branch: Branch) -> dict[str, str]:
    """Files here that the branch has had in this very version since the point, path -> object.

    Who was in no team yet sends what lies here, so then only what the branch still has counts.
    """
    if branch.common is not None or branch.head in ("", point.head):
        return {}
    there = {path: entry.sha for path, entry in branch.tree.items()}
    ours = {path: hash_blob(data) for path, data in local.files.items() if point.head or path in there}
    changed = {path: sha for path, sha in ours.items() if sha not in (point.find(path), there.get(path))}
    versions = find_versions(copy, branch.head, after=point.head) if changed else {}
    return {path: sha for path, sha in changed.items() if sha in versions.get(path, ())}


def _find_blocked(store: FileStore, local: Local, tree: Mapping[str, Entry]) -> dict[str, str]:
    """Files of the branch that seem not to be here, and cannot be looked at either: they are not gone."""
    blocked = {}
    for path, entry in tree.items():
        if path not in local.files and not judge_place(path, entry.mode, entry.size):
            try:
                store.read_bytes(f"{TEAM_FOLDER}/{path}")
            except (PathError, DiskError) as error:
                blocked[path] = f"what is in its place here cannot be read ({one_line(str(error))})"
    return blocked


def _read(root: int, path: str) -> bytes | None:
    try:
        found = disk.read_file(root, path)
    except (OSError, PathError):
        return None
    return found[0] if found else None
