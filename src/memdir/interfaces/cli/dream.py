"""`dream`: tidy the memory between sessions; preview it, apply it, or ask whether it is time."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, TypedDict

import click

from memdir.dream import (
    DreamResult,
    DreamSkip,
    apply_kept,
    count_failures,
    dream,
    find_dream_context,
    find_due,
    note_failure,
    preview_dream,
)
from memdir.dream.lock import find_holder, read_last
from memdir.dream.records import DreamPhase, OnProgress, Patch, PatchSet, ProgressStep, list_sets
from memdir.errors import LockedError, MemdirError
from memdir.frozen import replace
from memdir.interfaces.cli import CliContext, output
from memdir.interfaces.cli.app import json_option, model_option, verb
from memdir.interfaces.cli.output import Count, Output, Row, Styled, Time, TokensRow, count_words, fill, show_time
from memdir.limits import DREAM_FAILURES
from memdir.records import InboxKind
from memdir.store.batch import StoreOverlay
from memdir.store.files import FileStore
from memdir.store.inbox import mask_text
from memdir.store.open import Project
from memdir.store.plan import FileChange, decode
from memdir.text import one_line, shorten

_BAR = 20
_SHOWN_SETS = 5


class PatchRow(TypedDict):
    """A change of a dream, its reason and what it rests on."""

    kind: str
    names: list[str]
    reason: str
    evidence: list[str]


class ProposalRow(TypedDict):
    kind: InboxKind
    name: str
    title: str
    why: str


class SentencesRow(TypedDict):
    """How many sentences were removed, and how many of them another memory and the history hold."""

    removed: Count
    elsewhere: Count
    in_history: Count


class DreamedRow(TypedDict):
    """What a dream, a preview or `--apply` came to. `proposals` are left to the person, and `waiting` are their numbers in
    the inbox. `diff` is given by `--preview` only: the files before and after, null for no file. `dropped` are memories
    that were changed or pinned meanwhile, so that nothing was done to them. `change` is the number `memdir undo` takes.
    `spared` counts changes that are not made again because a dream that made them was undone; `failures` is above 0 where
    the model was not asked because it failed so many times in a row."""

    id: str | None
    at: Time
    by: Literal["rules", "model"] | None
    skipped: DreamSkip | None
    change: int | None
    repeated: bool
    changed: list[str]
    dropped: list[str]
    waiting: list[int]
    patches: list[PatchRow]
    proposals: list[ProposalRow]
    diff: list[output.FileChangeRow]
    spared: Count
    failures: Count
    sentences: SentencesRow | None
    requests: Count
    tokens: TokensRow | None
    dollars: float | None
    summary: str


class DreamHolderRow(TypedDict):
    """Who dreams now; `late`: for more than an hour."""

    pid: int
    since: Time
    ours: bool
    late: bool


class KeptDreamRow(TypedDict):
    """A preview that can be applied."""

    id: str
    at: Time
    by: Literal["rules", "model"]
    patches: Count
    applied: bool


class DreamStatusRow(TypedDict):
    due: bool
    reason: DreamSkip | None
    words: str
    last: Time | None
    sessions: int | None
    next: Time | None
    holder: DreamHolderRow | None
    kept: list[KeptDreamRow]


class DreamRow(TypedDict):
    """`status` is what `--status` prints, `dream` everything else; the other one is null."""

    dream: DreamedRow | None
    status: DreamStatusRow | None


@verb(
    "dream", "Tidy the memory between sessions.",
    "memdir dream", "memdir dream --preview", "memdir dream --status", "memdir dream --if-due --model none",
)  # fmt: skip
@click.option("--preview", is_flag=True, help="Show what would change and why; change nothing.")
@click.option("--apply", "apply_id", metavar="ID", help="Apply what a preview has shown.")
@click.option("--status", is_flag=True, help="When the last one was, and whether the next is due.")
@click.option("--if-due", is_flag=True, help="Only if enough time and sessions have passed.")
@model_option
@json_option(DreamRow)
@click.pass_obj
def dream_verb(
    call: CliContext, preview: bool, apply_id: str | None, status: bool, if_due: bool, spec: str | None, as_json: bool
) -> None:
    """Merge what says the same, spell out dates, fix the index; with a model also distil logs and settle
    contradictions.

    All of it is one change: `memdir undo` takes it back. Pinned memories are not touched, what somebody changes meanwhile
    stays, and what needs a person goes to `memdir inbox`. Ctrl-C ends it with everything as it was.
    """
    if sum((preview, apply_id is not None, status, if_due)) > 1:
        raise click.UsageError("--preview, --apply, --status and --if-due exclude one another")
    if spec is not None and (apply_id is not None or status):
        raise click.UsageError("--model goes with a dream or a preview")
    if status:
        _print_dream_status(call, as_json=as_json)
        return
    project = call.open() if if_due else call.open_to_write()  # the gates know when memory is off, and say so
    store = project.private
    with _show_progress(call) as show:
        if preview:
            model, around = call.choose_model(spec), find_dream_context(project)
            done = DreamResult(preview_dream(store, model=model, now=project.now(), context=around, on_progress=show))
        elif apply_id is not None:
            done = apply_kept(store, apply_id, now=project.now(), on_progress=show)
        else:
            done = _dream(call, project, spec, show, is_gated=if_due)
    if as_json:
        call.out.json(DreamRow(dream=_make_dreamed(store, done, project.now()), status=None))
    elif preview and done.patches is not None:
        _show_preview(call.out, store, done.patches, project.now())
    else:
        _show_dreamed(call.out, done)


def _dream(call: CliContext, project: Project, spec: str | None, show: OnProgress, *, is_gated: bool) -> DreamResult:
    due = find_due(project, now=project.now(), session=project.environment.session) if is_gated else None
    if due is not None and due.skip is not None:
        return DreamResult(skipped=due.skip, due=due)
    around, now, insist, failures = find_dream_context(project), project.now(), spec is not None, 0
    try:
        model = call.choose_model(spec)
    except MemdirError as error:
        failures = count_failures(project.private.state)
        if insist or failures < DREAM_FAILURES:
            if not insist and project.private.root.is_dir():
                note_failure(project.private, error, now=project.now())
            raise
        model = None
    try:
        done = dream(project.private, model=model, now=now, context=around, insist=insist, on_progress=show)
        return replace(done, failures=failures or done.failures)
    except LockedError:
        if not is_gated:
            raise
        return DreamResult(skipped=DreamSkip.LOCKED, due=due)


@contextmanager
def _show_progress(call: CliContext) -> Iterator[OnProgress]:
    """Progress on a terminal. While the dream is applied, a moment at the end, Ctrl-C has to wait."""
    restored: list[Any] = []

    def show(step: ProgressStep) -> None:
        done, tokens = round(step.share * _BAR), step.usage.input + step.usage.output
        spent = f", {tokens:,} tokens" if tokens else ""
        call.out.progress(f"[{'#' * done}{'-' * (_BAR - done)}] {step.phase.value}, {step.files} files{spent}")
        is_main = threading.current_thread() is threading.main_thread()
        if step.phase is DreamPhase.APPLY and not restored and is_main:
            restored.append(signal.signal(signal.SIGINT, signal.SIG_IGN))

    try:
        yield show
    except KeyboardInterrupt:
        call.out.progress("")
        output.complain("the dream was cancelled; nothing was changed")
        raise
    finally:
        if restored:
            signal.signal(signal.SIGINT, restored[0])
        call.out.progress("")


def _show_preview(out: Output, store: FileStore, patches: PatchSet, now: datetime) -> None:
    if not patches.patches and not patches.proposals:
        out.line(f"nothing to tidy, by {patches.by}")
        _show_spared(out, patches)
        return
    changes = {at.path: at for at in _plan(store, patches, now)}
    for patch in patches.patches:
        _show_patch(out, patch)
        for name in patch.names:
            if change := changes.pop(f"{name}.md", None):
                _show_change(out, change)
    for change in changes.values():
        out.line()
        _show_change(out, change)
    for item in map(_make_proposal, patches.proposals):
        out.line(Styled("would ask ", "bold"), Styled(item["title"], "cyan"), f": {item['why']}")
    _show_spared(out, patches)
    out.line()
    _show_cost(out, patches)
    out.line(f"nothing was changed; `memdir dream --apply {patches.id}` does it, and `memdir undo` takes it back")


def _show_dreamed(out: Output, done: DreamResult) -> None:
    patches, applied = done.patches, done.applied
    if patches is None or applied is None:
        out.line(f"no dream: {done.skipped.words}" if done.skipped else "no dream")
        return
    undo = f"`memdir undo {applied.change}`"
    if applied.undone_by is not None or applied.repeated:
        undone = f", and undone since; `memdir undo {applied.undone_by}` brings it back"
        takes = f"; {undo} takes it back" if applied.undone_by is None else undone
        out.line(f"this dream was applied already, as change {applied.change}{takes}")
        return
    if done.failures:
        text = f"without a model: it failed in the last {done.failures} dreams; `--model NAME` asks it again"
        out.line(Styled(text, "yellow"))
    if applied.change is None and not applied.waiting and not applied.dropped:
        out.line(f"nothing to tidy, by {patches.by}")
        _show_spared(out, patches)
        _show_cost(out, patches)
        return
    for patch in patches.patches:
        _show_patch(out, patch)
    if applied.dropped:
        out.line(Styled(f"left out, changed or pinned meanwhile: {', '.join(applied.dropped)}", "yellow"))
    if applied.waiting:
        out.line(Styled(f"{len(applied.waiting)} waiting for you: `memdir inbox`", "yellow"))
    _show_spared(out, patches)
    proof = applied.proof
    if proof.removed:
        kept = f"{proof.in_history} in history, {proof.elsewhere} also stand in another memory"
        out.line(f"nothing lost: of {count_words(proof.removed, 'sentence')} removed {kept}")
    _show_cost(out, patches)
    if applied.change is not None:
        out.line(f"{undo} takes all of it back")


def _show_patch(out: Output, patch: Patch) -> None:
    kind, names = patch.kind.replace("_", " "), ", ".join(patch.names)
    out.line(Styled(f"{kind} ", "bold"), Styled(names, "cyan"), f": {patch.reason}")
    for line in patch.evidence:
        out.line(Styled(f"    rests on: {shorten(one_line(line), 160)}", "dim"))


def _show_change(out: Output, change: FileChange) -> None:
    old, new = (change.path if data is not None else "(no file)" for data in (change.before, change.after))
    out.diff(output.render_text_diff(decode(change.before or b""), decode(change.after or b""), old, new))


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


def _make_dreamed(store: FileStore, done: DreamResult, now: datetime) -> DreamedRow:
    patches, applied = done.patches, done.applied
    nothing: Row = {"id": None, "at": output.make_time(now), "by": None, "patches": [], "spared": 0, "requests": 0}
    untouched: Row = {"change": None, "repeated": False, "changed": [], "dropped": [], "waiting": []}
    return fill(
        DreamedRow,
        patches or nothing | {"summary": ""},
        applied or untouched,
        done,
        proposals=map(_make_proposal, patches.proposals if patches else ()),
        diff=map(_make_diff, _plan(store, patches, now) if patches and applied is None else ()),
        sentences=applied.proof if applied else None,
        tokens=patches.usage if patches and patches.requests else None,
        dollars=patches.usage.dollars if patches else None,
    )


def _make_proposal(item: Any) -> ProposalRow:
    title, why = (mask_text(text, item.payload) for text in (item.title, item.why))
    return fill(ProposalRow, item, title=title, why=why)


def _make_diff(change: FileChange) -> output.FileChangeRow:
    before, after = (None if at is None else at.decode("utf-8", "replace") for at in (change.before, change.after))
    return {"path": change.path, "before": before, "after": after}


def _plan(store: FileStore, patches: PatchSet, now: datetime) -> tuple[FileChange, ...]:
    return StoreOverlay(store, [patch.edits for patch in patches.patches], now=now).batch.changes


def _print_dream_status(call: CliContext, *, as_json: bool) -> None:
    project, out = call.open(), call.out
    store, now = project.private, project.now()
    due = find_due(project, now=now, session=project.environment.session)
    last, holder = read_last(store.root), find_holder(store.root, now=now)
    row = fill(
        DreamStatusRow,
        due,
        reason=due.skip,
        words=due.skip.words if due.skip else "",
        last=last,
        next=due.next_at,
        holder=holder,
        kept=[
            fill(KeptDreamRow, at, patches=len(at.patches), applied=store.has_mark(at.mark))
            for at in list_sets(store.state)[:_SHOWN_SETS]
        ],
    )
    if as_json:
        out.json(DreamRow(dream=None, status=row))
        return

    def show(label: str, *pieces: str | Styled) -> None:
        out.line(Styled(f"{label:<12}", "bold"), *pieces)

    show("last dream", "never" if last is None else show_time(out, last, now))
    if due.sessions is not None:
        show("sessions", f"{due.sessions} since then")
    if due.is_due:
        show("due", Styled("yes", "green"), "; `memdir dream` starts it")
    else:
        show("due", f"no: {row['words']}")
    if row["next"]:
        show("ask again", row["next"])
    if holder:
        who = "memdir" if holder.is_ours else "another program"
        late = ", longer than an hour: see whether it still works" if holder.is_late else ""
        text = f"{who}, process {holder.pid}, since {show_time(out, holder.since, now)}{late}"
        show("held by", Styled(text, "yellow"))
    for kept in row["kept"]:
        state = "applied" if kept["applied"] else f"`memdir dream --apply {kept['id']}`"
        show("kept", f"{kept['id']}, by {kept['by']}, {count_words(kept['patches'], 'change')}: {state}")
