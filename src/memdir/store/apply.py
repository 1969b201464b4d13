"""A change onto the disk, and the healing of one that was killed half way.

Order: all new bytes are staged and flushed, then files are deleted, then topic files moved in, then indexes, then the
folders are flushed. So a full disk is met before anything visible happens; and when a killed change still has a deletion
before it, only deletions have happened, which are taken back; otherwise only writes are left, which are done. Healing
therefore never deletes a topic file.
"""

from collections.abc import Sequence

from memdir import guard
from memdir.errors import ConflictError, MemdirError
from memdir.records import Change, ChangedFile, Signature
from memdir.store.history import History
from memdir.store.plan import FileChange, digest_of, is_index_path, redo_index

Written = list[tuple[FileChange, Signature | None]]


def apply(root: int, plan: Sequence[FileChange], seen: dict[str, Signature | None]) -> Written:
    """Do what was planned; when this returns it is on the disk. Raises with nothing changed, or not at all.

    `seen` holds the signatures of the files as they were read: one that has moved on since then is a conflict.
    """
    staged: dict[str, str] = {}
    try:
        for planned in plan:
            if planned.after is not None:
                staged[planned.path] = guard.stage_file(root, planned.path, planned.after)
        for planned in plan:
            _check_still(root, planned, seen.get(planned.path))
    except MemdirError:
        _unstage(root, staged)
        raise
    written: Written = []
    for planned in sorted(plan, key=_order):
        if planned.after is None:
            guard.remove_file(root, planned.path)
            written.append((planned, None))
        else:
            written.append((planned, guard.move_staged(root, staged[planned.path], planned.path)))
    _flush(root, plan)
    return written


def heal(root: int, history: History) -> int:
    """Finish or take back every change that was killed; answers how many there were."""
    pending = history.find_pending()
    for change in pending:
        for folder in {path_folder(file.path) for file in change.files}:
            guard.remove_temps(root, folder)
        plan = _plan_healing(root, history, change)
        written = apply(root, plan, _look(root, plan))
        if _has_happened(root, change):
            touched = {planned.path for planned, _ in written}
            written += [_as_written(root, file) for file in change.files if file.path not in touched]
            history.finish(change.id, written)
        else:
            history.abandon(change.id)
    return len(pending)


def path_folder(path: str) -> str:
    return path.rpartition("/")[0]


def _order(planned: FileChange) -> int:
    if planned.is_index:
        return 2
    return 0 if planned.after is None else 1


def _check_still(root: int, planned: FileChange, signature: Signature | None) -> None:
    found = guard.read_signature(root, planned.path)
    if found != signature:
        name = planned.path.removesuffix(".md")
        raise ConflictError(f"{name} changed while it was being written", hint="try again", found="")


def _unstage(root: int, staged: dict[str, str]) -> None:
    for folder in {path_folder(path) for path in staged}:
        guard.remove_temps(root, folder)


def _flush(root: int, plan: Sequence[FileChange]) -> None:
    for folder in sorted({path_folder(planned.path) for planned in plan}):
        guard.flush_folder(root, folder)


def _plan_healing(root: int, history: History, change: Change) -> list[FileChange]:
    """Forward if only writes are left, backward if a deletion is; nothing if nothing had begun."""
    states = [(file, _digest(root, file.path)) for file in change.files]
    topics = [(file, found) for file, found in states if not is_index_path(file.path)]
    begun = any(found == file.after != file.before for file, found in states)
    if not begun:
        return []
    if any(file.after is None and found == file.before for file, found in topics):
        gone = [file for file, found in topics if file.after is None and found is None]
        return [FileChange(file.path, None, history.read_content(file.before or "")) for file in gone]
    plan = []
    for file, found in states:
        current = _read(root, file.path)
        if is_index_path(file.path):
            after = redo_index(file, current)
        else:
            after = history.read_content(file.after) if file.after and found == file.before else current
        if after != current:
            plan.append(FileChange(file.path, current, after))
    return plan


def _has_happened(root: int, change: Change) -> bool:
    topics = [file for file in change.files if not is_index_path(file.path)] or list(change.files)
    return any(_digest(root, file.path) == file.after for file in topics)


def _as_written(root: int, change: ChangedFile) -> tuple[FileChange, Signature | None]:
    found = guard.read_file(root, change.path)
    if found is None:
        return FileChange(change.path, None, None), None
    return FileChange(change.path, None, found[0]), found[1]


def _look(root: int, plan: Sequence[FileChange]) -> dict[str, Signature | None]:
    return {planned.path: guard.read_signature(root, planned.path) for planned in plan}


def _read(root: int, path: str) -> bytes | None:
    found = guard.read_file(root, path)
    return found[0] if found else None


def _digest(root: int, path: str) -> str | None:
    data = _read(root, path)
    return digest_of(data) if data is not None else None
