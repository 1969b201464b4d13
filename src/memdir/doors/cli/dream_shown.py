"""A dream on the screen and as JSON: what changes and why, what waits, what was proved, and when the next is due."""

from datetime import datetime
from typing import Any

from memdir.doors.cli.diffs import render_diff
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import Row, make_time, show_time
from memdir.dream import Dreamed, Due, PatchSet
from memdir.dream.overlay import Overlaid
from memdir.dream.sets import Patch, list_kept
from memdir.dream_lock import find_holder, read_last
from memdir.opening import Opened
from memdir.records import InboxItem, Usage
from memdir.store.files import FileStore
from memdir.store.payloads import mask_text
from memdir.store.plan import Planned, decode
from memdir.text import one_line, shorten

_NOTHING = "(no file)"
_SHOWN_SETS = 5


# --- on the screen --------------------------------------------------------------------------------------------------


def show_preview(out: Output, store: FileStore, patches: PatchSet, now: datetime) -> None:
    if patches.is_empty:
        out.line(f"nothing to tidy, by {patches.by}")
        _show_spared(out, patches)
        return
    changes = {at.path: at for at in _plan(store, patches, now)}
    shown: set[str] = set()
    for patch in patches.patches:
        _show_patch(out, patch)
        for path in (f"{name}.md" for name in patch.names):
            if path in changes and path not in shown:
                shown.add(path)
                _show_change(out, changes[path])
    for path, change in changes.items():
        if path not in shown:
            out.line()
            _show_change(out, change)
    _show_proposals(out, patches.proposals)
    _show_spared(out, patches)
    out.line()
    _show_cost(out, patches)
    out.line(f"nothing was changed; `memdir dream --apply {patches.id}` does it, and `memdir undo` takes it back")


def show_dreamed(out: Output, done: Dreamed) -> None:
    patches, applied = done.patches, done.applied
    if patches is None or applied is None:
        out.line(f"no dream: {done.skipped.words}" if done.skipped else "no dream")
        return
    if applied.undone_by is not None:
        again = f"`memdir undo {applied.undone_by}` brings it back"
        out.line(f"this dream was applied already, as act {applied.act}, and undone since; {again}")
        return
    if applied.repeated:
        out.line(f"this dream was applied already, as act {applied.act}; `memdir undo {applied.act}` takes it back")
        return
    if done.failures:
        text = f"by rules alone: the model failed in the last {done.failures} dreams; `--model NAME` asks it again"
        out.line(Styled(text, "yellow"))
    if applied.act is None and not applied.waiting and not applied.dropped:
        out.line(f"nothing to tidy, by {patches.by}")
        _show_spared(out, patches)
        _show_cost(out, patches)
        return
    for patch in patches.patches:
        _show_patch(out, patch)
    if applied.dropped:
        names = ", ".join(applied.dropped)
        out.line(Styled(f"left out, changed or pinned meanwhile: {names}", "yellow"))
    if applied.waiting:
        out.line(Styled(f"{len(applied.waiting)} waiting for you: `memdir inbox`", "yellow"))
    _show_spared(out, patches)
    proof = applied.proof
    if proof.removed:
        kept = f"{proof.in_history} in history, {proof.elsewhere} also stand in another memory"
        sentences = "1 sentence" if proof.removed == 1 else f"{proof.removed} sentences"
        out.line(f"nothing lost: of {sentences} removed {kept}")
    _show_cost(out, patches)
    if applied.act is not None:
        out.line(f"`memdir undo {applied.act}` takes all of it back")


def show_status(out: Output, opened: Opened, due: Due, row: Row) -> None:
    now = opened.now()
    last = read_last(opened.private.root)
    out.line(Styled("last dream  ", "bold"), "never" if last is None else show_time(out, last, now))
    if due.sessions is not None:
        out.line(Styled("sessions    ", "bold"), f"{due.sessions} since then")
    if due.is_due:
        out.line(Styled("due         ", "bold"), Styled("yes", "green"), "; `memdir dream` starts it")
    else:
        out.line(Styled("due         ", "bold"), f"no: {row['words']}")
    if due.next_at is not None:
        out.line(Styled("ask again   ", "bold"), make_time(due.next_at))
    if holder := find_holder(opened.private.root, now=now):
        who = "memdir" if holder.is_ours else "another program"
        late = ", longer than an hour: see whether it still works" if holder.is_late else ""
        text = f"{who}, process {holder.pid}, since {show_time(out, holder.since, now)}{late}"
        out.line(Styled("held by     ", "bold"), Styled(text, "yellow"))
    for kept in row["kept"]:
        state = "applied" if kept["applied"] else f"`memdir dream --apply {kept['id']}`"
        changes = "1 change" if kept["patches"] == 1 else f"{kept['patches']} changes"
        out.line(Styled("kept        ", "bold"), f"{kept['id']}, by {kept['by']}, {changes}: {state}")


def _show_patch(out: Output, patch: Patch) -> None:
    names = ", ".join(patch.names)
    out.line(Styled(f"{patch.kind.replace('_', ' ')} ", "bold"), Styled(names, "cyan"), f": {patch.reason}")
    for line in patch.evidence:
        out.line(Styled(f"    rests on: {shorten(one_line(line), 160)}", "dim"))


def _show_change(out: Output, change: Planned) -> None:
    old = change.path if change.before is not None else _NOTHING
    new = change.path if change.after is not None else _NOTHING
    out.diff(render_diff(decode(change.before or b""), decode(change.after or b""), old, new))


def _show_proposals(out: Output, proposals: tuple[InboxItem, ...]) -> None:
    for item in proposals:
        title = mask_text(item.title, item.payload)
        out.line(Styled("would ask ", "bold"), Styled(title, "cyan"), f": {mask_text(item.why, item.payload)}")


def _show_spared(out: Output, patches: PatchSet) -> None:
    if patches.spared:
        out.line(Styled(f"{patches.spared} left as they are: a dream that changed them was undone", "dim"))


def _show_cost(out: Output, patches: PatchSet) -> None:
    usage = patches.usage
    if patches.requests:
        dollars = "" if usage.dollars is None else f", about ${usage.dollars:.2f}"
        tokens = f"{usage.input + usage.output:,} tokens{dollars}"
        out.line(Styled(f"{patches.requests} requests, {patches.calls} calls, {tokens}", "dim"))
    if patches.summary:
        out.line(Styled(f"the model says: {patches.summary}", "dim"))


# --- as JSON --------------------------------------------------------------------------------------------------------


def make_dream_row(store: FileStore, done: Dreamed, now: datetime) -> Row:
    patches, applied = done.patches, done.applied
    proof = applied.proof if applied else None
    return {
        "id": patches.id if patches else None,
        "at": make_time(patches.at if patches else now),
        "by": patches.by if patches else None,
        "skipped": done.skipped,
        "act": applied.act if applied else None,
        "repeated": bool(applied and applied.repeated),
        "changed": list(applied.changed) if applied else [],
        "dropped": list(applied.dropped) if applied else [],
        "waiting": list(applied.waiting) if applied else [],
        "patches": [_make_patch_row(at) for at in patches.patches] if patches else [],
        "proposals": [_make_item_row(at) for at in patches.proposals] if patches else [],
        "diff": _make_diffs(store, patches, now) if patches and applied is None else [],
        "spared": patches.spared if patches else 0,
        "failures": done.failures,
        "sentences": None
        if proof is None
        else {"removed": proof.removed, "elsewhere": proof.elsewhere, "in_history": proof.in_history},
        "requests": patches.requests if patches else 0,
        "tokens": _make_tokens(patches.usage) if patches and patches.requests else None,
        "dollars": patches.usage.dollars if patches else None,
        "summary": patches.summary if patches else "",
    }


def make_status_row(opened: Opened, due: Due) -> Row:
    store, now = opened.private, opened.now()
    last, holder = read_last(store.root), find_holder(store.root, now=now)
    return {
        "due": due.is_due,
        "reason": due.skip,
        "words": due.skip.words if due.skip else "",
        "last": make_time(last) if last else None,
        "sessions": due.sessions,
        "next": make_time(due.next_at) if due.next_at else None,
        "holder": None
        if holder is None
        else {"pid": holder.pid, "since": make_time(holder.since), "ours": holder.is_ours, "late": holder.is_late},
        "kept": [
            {
                "id": at.id,
                "at": make_time(at.at),
                "by": at.by,
                "patches": len(at.patches),
                "applied": store.has_mark(at.mark),
            }
            for at in list_kept(store.state)[:_SHOWN_SETS]
        ],
    }


def _make_patch_row(patch: Patch) -> Row:
    return {"kind": patch.kind, "names": list(patch.names), "reason": patch.reason, "evidence": list(patch.evidence)}


def _make_item_row(item: InboxItem) -> Row:
    words = [mask_text(text, item.payload) for text in (item.title, item.why)]
    return {"kind": item.kind.value, "name": item.name, "title": words[0], "why": words[1]}


def _make_diffs(store: FileStore, patches: PatchSet, now: datetime) -> list[Row]:
    return [
        {
            "path": at.path,
            "before": None if at.before is None else at.before.decode("utf-8", "replace"),
            "after": None if at.after is None else at.after.decode("utf-8", "replace"),
        }
        for at in _plan(store, patches, now)
    ]


def _make_tokens(usage: Usage) -> dict[str, Any]:
    return {"fresh": usage.fresh, "cached": usage.cached, "stored": usage.stored, "output": usage.output}


def _plan(store: FileStore, patches: PatchSet, now: datetime) -> tuple[Planned, ...]:
    return Overlaid(store, [patch.edits for patch in patches.patches], now=now).batch.changes
