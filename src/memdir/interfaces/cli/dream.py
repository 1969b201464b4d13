"""`dream`: tidy the memory between sessions; look first, apply later, or ask whether it is time."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click

from memdir.dream import (
    DreamDue,
    DreamPhase,
    DreamResult,
    DreamSkip,
    PatchSet,
    ProgressStep,
    apply_kept,
    count_failures,
    dream,
    find_dream_context,
    find_due,
    note_failure,
    preview_dream,
)
from memdir.dream.lock import find_holder, read_last
from memdir.dream.records import OnProgress, Patch, list_sets
from memdir.errors import LockedError, MemdirError
from memdir.frozen import replace
from memdir.interfaces.cli import CliContext, CliVerb, json_option
from memdir.interfaces.cli.output import Output, Row, Styled, complain, make_time, render_text_diff, show_time
from memdir.limits import DREAM_FAILURES
from memdir.records import InboxItem, Model, Usage
from memdir.store.batch import StoreOverlay
from memdir.store.files import FileStore
from memdir.store.inbox import mask_text
from memdir.store.open import Project
from memdir.store.plan import FileChange, decode
from memdir.text import one_line, shorten

# --- dream_shown ---
# A dream on the screen and as JSON: what changes and why, what waits, what was proved, and when the next is due.

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


def show_dreamed(out: Output, done: DreamResult) -> None:
    patches, applied = done.patches, done.applied
    if patches is None or applied is None:
        out.line(f"no dream: {done.skipped.words}" if done.skipped else "no dream")
        return
    if applied.undone_by is not None:
        again = f"`memdir undo {applied.undone_by}` brings it back"
        out.line(f"this dream was applied already, as change {applied.change}, and undone since; {again}")
        return
    if applied.repeated:
        out.line(
            f"this dream was applied already, as change {applied.change}; `memdir undo {applied.change}` takes it back"
        )
        return
    if done.failures:
        text = f"by rules alone: the model failed in the last {done.failures} dreams; `--model NAME` asks it again"
        out.line(Styled(text, "yellow"))
    if applied.change is None and not applied.waiting and not applied.dropped:
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
    if applied.change is not None:
        out.line(f"`memdir undo {applied.change}` takes all of it back")


def show_status(out: Output, opened: Project, due: DreamDue, row: Row) -> None:
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


def _show_change(out: Output, change: FileChange) -> None:
    old = change.path if change.before is not None else _NOTHING
    new = change.path if change.after is not None else _NOTHING
    out.diff(render_text_diff(decode(change.before or b""), decode(change.after or b""), old, new))


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


def make_dream_row(store: FileStore, done: DreamResult, now: datetime) -> Row:
    patches, applied = done.patches, done.applied
    proof = applied.proof if applied else None
    return {
        "id": patches.id if patches else None,
        "at": make_time(patches.at if patches else now),
        "by": patches.by if patches else None,
        "skipped": done.skipped,
        "change": applied.change if applied else None,
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


def make_status_row(opened: Project, due: DreamDue) -> Row:
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
            for at in list_sets(store.state)[:_SHOWN_SETS]
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


def _plan(store: FileStore, patches: PatchSet, now: datetime) -> tuple[FileChange, ...]:
    return StoreOverlay(store, [patch.edits for patch in patches.patches], now=now).batch.changes


# --- dreaming ---

_BAR = 20
_EXAMPLES = ("memdir dream", "memdir dream --preview", "memdir dream --status", "memdir dream --if-due --model none")


@click.command("dream", short_help="Tidy the memory between sessions.", cls=CliVerb, examples=_EXAMPLES)
@click.option("--preview", "is_preview", is_flag=True, help="Show what would change and why; change nothing.")
@click.option("--apply", "apply_id", metavar="ID", help="Apply what a preview has shown.")
@click.option("--status", "is_status", is_flag=True, help="When the last one was, and whether the next is due.")
@click.option("--if-due", "is_gated", is_flag=True, help="Only if enough time and sessions have passed.")
@click.option("--model", "spec", metavar="NAME", help="Ask this model; `none` for rules alone.")
@json_option
@click.pass_obj
def dream_verb(
    call: CliContext,
    is_preview: bool,
    apply_id: str | None,
    is_status: bool,
    is_gated: bool,
    spec: str | None,
    as_json: bool,
) -> None:
    """Merge what says the same, spell out dates, mend the index; with a model also distil logs and settle
    contradictions.

    All of it is one change: `memdir undo` takes it back. Pinned memories are not touched, what somebody changes meanwhile
    stays, and what needs a person waits in `memdir inbox`. Ctrl-C ends it with everything as it was.
    """
    if sum((is_preview, apply_id is not None, is_status, is_gated)) > 1:
        raise click.UsageError("--preview, --apply, --status and --if-due exclude one another")
    if spec is not None and (apply_id is not None or is_status):
        raise click.UsageError("--model goes with a dream or a preview")
    if is_status:
        _tell_status(call, as_json=as_json)
        return
    opened = call.open() if is_gated else call.open_to_write()  # the gates know when memory is off, and say so calmly
    with _showing(call) as show:
        if is_preview:
            done = DreamResult(_preview(call, opened, spec, show))
        elif apply_id is not None:
            done = apply_kept(opened.private, apply_id, now=opened.now(), on_progress=show)
        else:
            done = _dream(call, opened, spec, show, is_gated=is_gated)
    if as_json:
        call.out.json({"dream": make_dream_row(opened.private, done, opened.now()), "status": None})
    elif is_preview and done.patches is not None:
        show_preview(call.out, opened.private, done.patches, opened.now())
    else:
        show_dreamed(call.out, done)


def _preview(call: CliContext, opened: Project, spec: str | None, show: OnProgress) -> Any:
    model, around = call.choose_model(spec), find_dream_context(opened)
    return preview_dream(opened.private, model=model, now=opened.now(), context=around, on_progress=show)


def _dream(call: CliContext, opened: Project, spec: str | None, show: OnProgress, *, is_gated: bool) -> DreamResult:
    due = find_due(opened, now=opened.now(), session=opened.environment.session) if is_gated else None
    if due is not None and due.skip is not None:
        return DreamResult(skipped=due.skip, due=due)
    around, now, insist = find_dream_context(opened), opened.now(), spec is not None
    model, failures = _choose_model(call, opened, spec)
    try:
        done = dream(opened.private, model=model, now=now, context=around, insist=insist, on_progress=show)
        return replace(done, failures=failures or done.failures)
    except LockedError:
        if not is_gated:
            raise
        return DreamResult(skipped=DreamSkip.LOCKED, due=due)


def _choose_model(call: CliContext, opened: Project, spec: str | None) -> tuple[Model | None, int]:
    """The model; none, and how often it failed, where that of the settings could not be opened time and again."""
    try:
        return call.choose_model(spec), 0
    except MemdirError as error:
        failures = count_failures(opened.private.state)
        if spec is None and failures >= DREAM_FAILURES:
            return None, failures
        if spec is None and opened.private.root.is_dir():
            note_failure(opened.private, error, now=opened.now())
        raise


def _tell_status(call: CliContext, *, as_json: bool) -> None:
    opened = call.open()
    due = find_due(opened, now=opened.now(), session=opened.environment.session)
    row = make_status_row(opened, due)
    if as_json:
        call.out.json({"dream": None, "status": row})
    else:
        show_status(call.out, opened, due, row)


@contextmanager
def _showing(call: CliContext) -> Iterator[OnProgress]:
    """How far it has come, on a terminal. While it is applied, a moment at the end, Ctrl-C has to wait."""
    restored: list[Any] = []

    def show(progress: ProgressStep) -> None:
        call.out.progress(_render(progress))
        if (
            progress.phase is DreamPhase.APPLY
            and not restored
            and threading.current_thread() is threading.main_thread()
        ):
            restored.append(signal.signal(signal.SIGINT, signal.SIG_IGN))

    try:
        yield show
    except KeyboardInterrupt:
        call.out.progress("")
        complain("the dream was cancelled; nothing was changed")
        raise
    finally:
        if restored:
            signal.signal(signal.SIGINT, restored[0])
        call.out.progress("")


def _render(progress: ProgressStep) -> str:
    done = round(progress.share * _BAR)
    tokens = progress.usage.input + progress.usage.output
    parts = [f"[{'#' * done}{'-' * (_BAR - done)}] {progress.phase.value}", f"{progress.files} files"]
    return ", ".join([*parts, f"{tokens:,} tokens"] if tokens else parts)
