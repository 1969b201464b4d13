"""A change applied to the disk, and the healing of one that was killed half way.

Order: all new bytes are staged and flushed, then files are deleted, then topic files moved in, then indexes, then the folders
are flushed. So a full disk is met before anything visible happens; and if a killed change still has a deletion to do, only
deletions have happened, which are taken back; otherwise only writes are left, which are completed. Healing therefore never
deletes a topic file.
"""

from collections.abc import Sequence

from memdir import guard
from memdir.errors import ConflictError, MemdirError
from memdir.records import Change, Signature
from memdir.store.history import History
from memdir.store.plan import FileChange, digest_of, is_index_path, redo_index

Written = list[tuple[FileChange, Signature | None]]


def apply(root: int, plan: Sequence[FileChange], seen: dict[str, Signature | None]) -> Written:
    """Write what was planned; when this returns it is on the disk. Raises with nothing changed.

    `seen` holds the signatures of the files as they were read: one that has changed since then is a conflict.
    """
    folders = sorted({_folder(planned.path) for planned in plan})
    staged: dict[str, str] = {}
    try:
        for planned in plan:
            if planned.after is not None:
                staged[planned.path] = guard.stage_file(root, planned.path, planned.after)
        for planned in plan:
            if guard.read_signature(root, planned.path) != seen.get(planned.path):
                name = planned.path.removesuffix(".md")
                raise ConflictError(f"{name} changed while it was being written", hint="try again", found="")
    except MemdirError:
        for folder in {_folder(path) for path in staged}:
            guard.remove_temps(root, folder)
        raise
    written: Written = []
    for planned in sorted(plan, key=lambda at: 2 if at.is_index else at.after is not None):
        if planned.after is None:
            guard.remove_file(root, planned.path)
            written.append((planned, None))
        else:
            written.append((planned, guard.move_staged(root, staged[planned.path], planned.path)))
    for folder in folders:
        guard.flush_folder(root, folder)
    return written


def heal(root: int, history: History) -> int:
    """Complete or take back every change that was killed; returns how many there were."""
    pending = history.find_pending()
    for change in pending:
        for folder in {_folder(file.path) for file in change.files}:
            guard.remove_temps(root, folder)
        plan = _plan_healing(root, history, change)
        seen = {planned.path: guard.read_signature(root, planned.path) for planned in plan}
        written = apply(root, plan, seen)
        topics = [file for file in change.files if not is_index_path(file.path)] or list(change.files)
        if any(_digest(_read(root, file.path)) == file.after for file in topics):
            for path in {file.path for file in change.files} - {planned.path for planned, _ in written}:
                found = guard.read_file(root, path)
                written.append(
                    (FileChange(path, None, found[0]), found[1]) if found else (FileChange(path, None, None), None)
                )
            history.finish(change.id, written)
        else:
            history.abandon(change.id)
    return len(pending)


def _plan_healing(root: int, history: History, change: Change) -> list[FileChange]:
    """Forward if only writes are left, backward if a deletion is; nothing if nothing had begun."""
    files = [(file, current, _digest(current)) for file in change.files for current in [_read(root, file.path)]]
    if not any(found == file.after != file.before for file, _, found in files):
        return []
    topics = [(file, found) for file, _, found in files if not is_index_path(file.path)]
    if any(file.after is None and found == file.before for file, found in topics):
        gone = [file for file, found in topics if file.after is None and found is None]
        return [FileChange(file.path, None, history.read_content(file.before or "")) for file in gone]
    plan = []
    for file, current, found in files:
        if is_index_path(file.path):
            after = redo_index(file, current)
        else:
            after = history.read_content(file.after) if file.after and found == file.before else current
        if after != current:
            plan.append(FileChange(file.path, current, after))
    return plan


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _read(root: int, path: str) -> bytes | None:
    found = guard.read_file(root, path)
    return found[0] if found else None


def _digest(data: bytes | None) -> str | None:
    return digest_of(data) if data is not None else None
