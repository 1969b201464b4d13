"""An import carried out: all its memories as one act, so that one `undo` takes it back; what holds a secret waits.

An index that is not there yet is taken over as it was, with its order, headings and prose; to one that is there lines
are added. An import says nothing new: files that do not tell their own time keep the time they had at their source.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from memdir import disk, frontmatter, guard, index
from memdir.errors import DiskError, LockedError, PathError
from memdir.importing.planning import VERB
from memdir.importing.records import Fate, Imported, ImportPlan, Step
from memdir.records import Kind, Origin, Rewrite
from memdir.secrets import find_secrets
from memdir.store.batch import Overlay, plan_batch
from memdir.store.files import FileStore
from memdir.store.plan import Finder, Planned, View, decode, encode, index_path
from memdir.text import find_forbidden, fold

_PLACED = 100  # new lines that are each put beside their relatives; more go to the end of the list in their own order


def apply_import(store: FileStore, plan: ImportPlan, *, origin: Origin) -> Imported:
    """Do it; raises, and then nothing was done. What somebody else changed meanwhile is left out and named."""
    new = [step for step in plan.steps if step.fate is Fate.NEW]
    dropped: list[str] = []

    def planner(view: View) -> list[Planned]:
        dropped.clear()
        return _plan(store, plan, new, view, dropped)

    act = store.carry_out(planner, verb=VERB, origin=origin).act if new or plan.merges else None
    _keep_times(store, [step for step in new if step.name not in dropped])
    items = [step.item for step in plan.steps if step.item is not None]
    return Imported(act, tuple(dropped), store.inbox_add(items) if items else ())


def _plan(store: FileStore, plan: ImportPlan, new: Sequence[Step], view: View, dropped: list[str]) -> list[Planned]:
    now, rules, overlay = store.clock(), store.rules, Overlay(view)
    rewrites = [Rewrite(*merge) for merge in plan.merges]
    merged = plan_batch(overlay, rewrites, now, rules, drop_conflicts=True, keep_pinned=True)
    overlay.put(merged.changes)
    free = _leave_out_taken(new, overlay)
    overlay.put([Planned(f"{step.name}.md", None, encode(step.text)) for step in free])
    dropped += [*merged.dropped, *sorted({step.name for step in new} - {step.name for step in free})]
    if not rules.skip_index:
        overlay.put(_plan_indexes(store, plan, free, overlay))
    return list(overlay.list_changes())


def _leave_out_taken(new: Sequence[Step], view: View) -> list[Step]:
    """The steps whose names are still free. Each folder is listed once: a large import fills one with thousands."""
    listed: dict[str, set[str]] = {}
    free = []
    for step in new:
        folder, _, leaf = step.name.rpartition("/")
        if folder not in listed:
            listed[folder] = {fold(at) for at in view.list_files(folder)}
        if fold(f"{leaf}.md") not in listed[folder]:
            free.append(step)
    return free


def _plan_indexes(store: FileStore, plan: ImportPlan, new: Sequence[Step], view: View) -> list[Planned]:
    find = store.rules.find or find_secrets
    by_index: defaultdict[str, list[Step]] = defaultdict(list)
    for step in new:
        by_index[index_path(step.name)[0]].append(step)
    changes = []
    for path, steps in by_index.items():
        found = view.read_bytes(path)
        text = decode(found or b"")
        taken = plan.found.index if path == index.INDEX_FILE and not text.strip() else ""
        if taken and not find_forbidden(taken, lines=True) and not find(taken):
            text = _take_over(taken, steps)
            # What had no line there gets none here; what had one and is called otherwise here gets it again.
            steps = [step for step in steps if step.candidate.hook or step.name != step.candidate.name]
        after = encode(_add_lines(text, steps, find))
        changes += [Planned(path, found, after)] if after != (found or b"") else []
    return changes


def _take_over(text: str, steps: Sequence[Step]) -> str:
    """An index as it was, without the lines of memories that did not come along."""
    here = {fold(step.name) for step in steps}
    lines = index.parse_index(text)
    return "".join(line.text for line in lines if not line.is_pointer or fold(line.name) in here)


def _add_lines(text: str, steps: Sequence[Step], find: Finder) -> str:
    lines = []
    for step in steps:
        fields, short = frontmatter.parse_fields(step.text), index_path(step.name)[1]
        if index.find_lines(text, short):
            continue
        hook = step.candidate.hook if not find(step.candidate.hook) else ""
        line = index.render_line(fields.title or short, short, hook or fields.description)
        if len(steps) > _PLACED:
            lines.append(line)
        else:
            words = f"{fields.title} {fields.description} {short}"
            text = index.add_line(text, line, kind=fields.kind or Kind.PROJECT, words=words)
    return index.append_pointer(text, "\n".join(lines)) if lines else text


def _keep_times(store: FileStore, steps: Sequence[Step]) -> None:
    """Give files the time they had; best effort, since the memories themselves are safe by now."""
    times = [(step.name, at) for step in steps if (at := _find_time(step, store.clock())) is not None]
    if not times:
        return
    try:
        root = guard.open_root(store.root)
        try:
            for name, when in times:
                disk.set_time(root, f"{name}.md", int(when.timestamp() * 1e9))
        finally:
            os.close(root)
        store.notice()
    except (OSError, PathError, DiskError, LockedError):
        pass


def _find_time(step: Step, now: datetime) -> datetime | None:
    """The time of a file that does not tell its own; none that is yet to come, or before there were files."""
    when = step.candidate.modified
    if when is None or frontmatter.parse_fields(step.text).modified:
        return None
    return when if 0 < when.timestamp() <= now.timestamp() else None
