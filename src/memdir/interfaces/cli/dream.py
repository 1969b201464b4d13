"""The commands `dream`, which tidies the memory between sessions, and `log`, the daily log that dreams read."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import click
from click.shell_completion import CompletionItem

from memdir.dream import DreamResult, apply_preview, dream, find_dream_context, find_due, preview_dream
from memdir.dream.lock import find_holder, read_last
from memdir.dream.logs import append_log, list_logs, list_undistilled, read_log
from memdir.dream.records import DreamPhase, OnProgress, Patch, PatchSet, ProgressStep, list_sets
from memdir.errors import MemdirError, ModelError
from memdir.format.frontmatter import decode
from memdir.interfaces import cli
from memdir.interfaces.cli import (
    CliContext,
    Output,
    Row,
    Styled,
    TableColumn,
    app,
    count_words,
    fill,
    render_seconds,
    show_time,
)
from memdir.interfaces.cli.app import model_option, verb
from memdir.models.usage import describe_dollars
from memdir.records import InboxItem, Model, Reply, Request, make_log_path
from memdir.store.batch import StoreOverlay
from memdir.store.files import FileStore
from memdir.store.inbox import mask_text
from memdir.store.open import Project
from memdir.store.plan import FileChange
from memdir.text import one_line, shorten

_BAR = 20
_SHOWN_SETS = 5


@verb(
    "dream", "Tidy the memory between sessions.",
    "memdir dream", "memdir dream --preview", "memdir dream --status",
)  # fmt: skip
@click.option("--preview", is_flag=True, help="Show the changes and reasons without making them.")
@click.option("--apply", "apply_id", metavar="ID", help="Apply a preview.")
@click.option("--status", is_flag=True, help="Show the last dream and whether the next is due.")
@model_option
def dream_verb(
    call: CliContext, preview: bool, apply_id: str | None, status: bool, spec: str | None, as_json: bool
) -> None:
    """Merge duplicates, make dates absolute and repair the index, as one change. With a model, also summarise logs and
    resolve contradictions.

    `memdir undo` reverts it. Pinned memories and memories changed since are not touched, and open questions go to
    `memdir inbox`. Ctrl-C cancels without changes.
    """
    if sum((preview, apply_id is not None, status)) > 1:
        raise click.UsageError("--preview, --apply and --status cannot be used together")
    if spec is not None and (apply_id is not None or status):
        raise click.UsageError("--model can only be used with a dream or a preview")
    if status:
        _print_dream_status(call, as_json=as_json)
        return
    project = call.open_to_write()
    store = project.private
    with _show_progress(call) as show:
        if preview:
            model, around = call.choose_model(spec), find_dream_context(project)
            result = DreamResult(preview_dream(store, model=model, now=project.now(), context=around, on_progress=show))
        elif apply_id is not None:
            result = apply_preview(store, apply_id, now=project.now(), on_progress=show)
        else:
            result = _run_dream(call, project, spec, show)
    if as_json:
        call.out.json({"dream": _make_dreamed(store, result, project.now()), "status": None})
    elif preview and result.patches is not None:
        _show_preview(call.out, store, result.patches, project.now())
    else:
        _show_dreamed(call.out, result)


def _run_dream(call: CliContext, project: Project, spec: str | None, show: OnProgress) -> DreamResult:
    around, insist = find_dream_context(project), spec is not None
    model: Model | None
    try:
        model = call.choose_model(spec)
    except MemdirError as error:
        if insist:
            raise
        model = partial(_raise_model_error, error)
    return dream(project.private, model=model, now=project.now(), context=around, insist=insist, on_progress=show)


def _raise_model_error(error: MemdirError, _: Request) -> Reply:
    """Raise ModelError in place of a model that cannot be opened (missing key, unknown name)."""
    raise ModelError(str(error), hint=error.hint)


@contextmanager
def _show_progress(call: CliContext) -> Iterator[OnProgress]:
    """Show progress on a terminal, delaying Ctrl-C while the dream is being applied."""
    restored: list[Any] = []
    began = monotonic()

    def show(step: ProgressStep) -> None:
        filled, tokens, spent = round(step.share * _BAR), step.usage.input + step.usage.output, monotonic() - began
        used = f", {tokens:,} tokens" if tokens else ""
        # This is an upper limit: a model may finish before its last turn.
        left = f", at most {render_seconds(spent / step.share - spent)} left" if spent > 1 and step.share > 0.05 else ""
        call.out.progress(f"[{'#' * filled}{'-' * (_BAR - filled)}] {step.phase.value}, {step.files} files{used}{left}")
        is_main = threading.current_thread() is threading.main_thread()
        if step.phase is DreamPhase.APPLY and not restored and is_main:
            restored.append(signal.signal(signal.SIGINT, signal.SIG_IGN))

    try:
        yield show
    except KeyboardInterrupt:
        call.out.progress("")
        cli.complain("the dream was cancelled; nothing was changed")
        raise
    finally:
        if restored:
            signal.signal(signal.SIGINT, restored[0])
        call.out.progress("")


def _show_preview(out: Output, store: FileStore, patches: PatchSet, now: datetime) -> None:
    if not patches.patches and not patches.proposals:
        out.line(f"nothing to tidy, according to {patches.by}")
        _show_skipped_count(out, patches)
        return
    changes = {planned.path: planned for planned in _plan_file_changes(store, patches, now)}
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
    _show_skipped_count(out, patches)
    out.line()
    _show_cost(out, patches)
    out.line(f"nothing was changed; `memdir dream --apply {patches.id}` applies it, and `memdir undo` reverts it")


def _show_dreamed(out: Output, done: DreamResult) -> None:
    patches, applied = done.patches, done.applied
    if patches is None or applied is None:
        out.line(f"no dream: {done.skipped.words}" if done.skipped else "no dream")
        return
    undo = f"`memdir undo {applied.change}`"
    if applied.undone_by is not None or applied.repeated:
        undone = f", and undone since; `memdir undo {applied.undone_by}` restores it"
        takes = f"; {undo} reverts it" if applied.undone_by is None else undone
        out.line(f"this dream is already applied, as change {applied.change}{takes}")
        return
    if done.failures:
        text = f"without the model, which failed in the last {done.failures} dreams; `--model NAME` tries it again"
        out.line(Styled(text, "yellow"))
    if patches.error:
        out.line(Styled(f"the model failed, so only built-in patterns were used: {patches.error}", "yellow"))
    if applied.change is None and not applied.waiting and not applied.dropped:
        out.line(f"nothing to tidy, according to {patches.by}")
        _show_skipped_count(out, patches)
        _show_cost(out, patches)
        return
    for patch in patches.patches:
        _show_patch(out, patch)
    if applied.dropped:
        out.line(Styled(f"left out, changed or pinned since: {', '.join(applied.dropped)}", "yellow"))
    if applied.waiting:
        out.line(Styled(f"{len(applied.waiting)} to review: `memdir inbox`", "yellow"))
    _show_skipped_count(out, patches)
    proof = applied.proof
    if proof.removed:
        remaining = f"{proof.in_history} in history, {proof.elsewhere} also in another memory"
        out.line(f"nothing lost: of {count_words(proof.removed, 'sentence')} removed {remaining}")
    _show_cost(out, patches)
    if applied.change is not None:
        out.line(f"{done.text}; {undo} reverts it")


def _show_patch(out: Output, patch: Patch) -> None:
    kind, names = patch.kind.replace("_", " "), ", ".join(patch.names)
    out.line(Styled(f"{kind} ", "bold"), Styled(names, "cyan"), f": {patch.reason}")
    for line in patch.evidence:
        out.line(Styled(f"    rests on: {shorten(one_line(line), 160)}", "dim"))


def _show_change(out: Output, change: FileChange) -> None:
    old, new = (change.path if data is not None else "(no file)" for data in (change.before, change.after))
    out.diff(cli.render_text_diff(decode(change.before or b""), decode(change.after or b""), old, new))


def _show_skipped_count(out: Output, patches: PatchSet) -> None:
    if patches.spared:
        out.line(Styled(f"{patches.spared} skipped: a dream that changed them was undone", "dim"))


def _show_cost(out: Output, patches: PatchSet) -> None:
    usage = patches.usage
    if patches.requests:
        tokens = f"{usage.input + usage.output:,} tokens, {describe_dollars(usage)}"
        out.line(Styled(f"{patches.requests} requests, {patches.calls} calls, {tokens}", "dim"))
    if patches.summary:
        out.line(Styled(f"the model says: {patches.summary}", "dim"))


def _make_dreamed(store: FileStore, done: DreamResult, now: datetime) -> Row:
    patches, applied = done.patches or PatchSet("", now, ""), done.applied
    untouched: Row = {"change": None, "repeated": False, "changed": [], "dropped": [], "waiting": []}
    return fill(
        "id? at by? skipped spared failures requests summary error",
        patches,
        done,
        **(fill("change repeated changed dropped waiting", applied) if applied else untouched),
        patches=[fill("kind names reason evidence", patch) for patch in patches.patches],
        proposals=[_make_proposal(proposal) for proposal in patches.proposals],
        diff=[_make_diff(change) for change in ([] if applied else _plan_file_changes(store, patches, now))],
        sentences=fill("removed elsewhere in_history", applied.proof) if applied else None,
        tokens=fill(cli.TOKENS, patches.usage) if patches.requests else None,
        dollars=patches.usage.dollars if done.patches else None,
    )


def _make_proposal(item: InboxItem) -> Row:
    title, why = (mask_text(text, item.payload) for text in (item.title, item.why))
    return fill("kind name", item, title=title, why=why)


def _make_diff(change: FileChange) -> Row:
    before, after = (None if one is None else one.decode("utf-8", "replace") for one in (change.before, change.after))
    return {"path": change.path, "before": before, "after": after}


def _plan_file_changes(store: FileStore, patches: PatchSet, now: datetime) -> tuple[FileChange, ...]:
    return StoreOverlay(store, [patch.edits for patch in patches.patches], now=now).batch.changes


def _print_dream_status(call: CliContext, *, as_json: bool) -> None:
    project, out = call.open(), call.out
    store, now = project.private, project.now()
    due = find_due(project, now=now, session=project.environment.session)
    last, holder = read_last(store.root), find_holder(store.root, now=now)
    words, sets = (
        due.skip.words if due.skip else "",
        [(one, store.has_mark(one.mark)) for one in list_sets(store.state)],
    )
    if as_json:
        rows = [fill("id at by", one, patches=len(one.patches), applied=applied) for one, applied in sets[:_SHOWN_SETS]]
        owner = fill("pid since ours late", holder) if holder else None
        facts = {"reason": due.skip, "words": words, "last": last, "next": due.next_at, "holder": owner, "kept": rows}
        out.json({"dream": None, "status": fill("due sessions", due, **facts)})
        return

    def show(label: str, *pieces: str | Styled) -> None:
        out.line(Styled(f"{label:<12}", "bold"), *pieces)

    show("last dream", "never" if last is None else show_time(out, last, now))
    if due.sessions is not None:
        show("sessions", f"{due.sessions} since then")
    show("due", *((Styled("yes", "green"), "; `memdir dream` starts it") if due.is_due else (f"no: {words}",)))
    if due.next_at:
        show("ask again", cli.make_time(due.next_at))
    if holder:
        who = "memdir" if holder.is_ours else "another program"
        late = ", longer than an hour: see whether it still works" if holder.is_late else ""
        text = f"{who}, process {holder.pid}, since {show_time(out, holder.since, now)}{late}"
        show("held by", Styled(text, "yellow"))
    for stored, applied in sets[:_SHOWN_SETS]:
        state = "applied" if applied else f"`memdir dream --apply {stored.id}`"
        show("kept", f"{stored.id}, by {stored.by}, {count_words(len(stored.patches), 'change')}: {state}")


# `log`.


_LOGS = (
    TableColumn("DAY", "bold", "day"),
    TableColumn("BYTES", "", "bytes"),
    TableColumn("DREAM", "yellow", lambda row: "" if row["distilled"] else "waits"),
    TableColumn("FILE", "dim", "path", is_cut=True),
)


class LogGroup(app.VerbGroup):
    """A group that treats unknown subcommands as entry text, and shows today's log without arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_verb = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if not ctx.resilient_parsing and not is_verb:
            args = ["add", *args] if args else ["show"]
        return super().parse_args(ctx, args)


def complete_days(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return app.complete(ctx, incomplete, lambda at: {str(log.day): "" for log in reversed(list_logs(at.private))})


@click.group("log", short_help="Append to the daily log and read it.", cls=LogGroup)
def log_verb() -> None:
    """Keep a daily log: `memdir log TEXT` appends an entry to today's, `memdir log` shows it.

    Logs are append-only; memdir never changes an entry. Dreams summarise them into memories.
    """


@log_verb.command("add", examples=("memdir log add 'the release is out'", "memdir log add - < report.txt"))
@click.argument("words", metavar="TEXT|-", nargs=-1, required=True)
def _add(call: CliContext, words: tuple[str, ...], as_json: bool) -> None:
    """Append an entry to today's log; `-` reads it from standard input. `memdir log TEXT` does the same."""
    project = call.open_to_write()
    now = project.now()
    text = app.read_body(" ".join(words))
    log = append_log(project.private, text, now=now)
    row = {"day": str(log.day), "at": now, "path": project.private.root / log.path, "bytes": log.size}
    call.answer(row, "logged in ", Styled(log.path, "cyan"), as_json=as_json)
    for warning in app.warn_of_secrets("", {"the entry": text}, project.environment):
        call.out.warn(warning)


@log_verb.command("show", examples=("memdir log show", "memdir log show 2026-03-05", "memdir log show yesterday"))
@click.argument("day", metavar="[DAY]", required=False, shell_complete=complete_days)
def _show_log(call: CliContext, day: str | None, as_json: bool) -> None:
    """Print the log of a day: YYYY-MM-DD, today (the default) or yesterday."""
    project = call.open()
    today = project.now().astimezone().date()
    named = {None: today, "today": today, "yesterday": today - timedelta(days=1)}
    try:
        log_day = named[day] if day in named else date.fromisoformat(day or "")
    except ValueError:
        raise click.BadParameter(f"invalid date {day!r}; write it as {today.isoformat()}") from None
    text = read_log(project.private, log_day)
    if as_json:
        path = project.private.root / make_log_path(log_day)
        call.out.json({"day": str(log_day), "path": path, "text": text})
    else:
        call.out.block(text)


@log_verb.command("list", examples=("memdir log list", "memdir log list --json"))
def _list_logs(call: CliContext, as_json: bool) -> None:
    """List the days that have a log, newest first.

    In a pipe: day, bytes, `waits` if a dream has not read all of it yet, path, separated by tabs.
    """
    store = call.open().private
    waiting, root = {log.day for log in list_undistilled(store)}, store.root if as_json else Path()
    rows = [
        fill("", day=str(log.day), path=root / log.path, bytes=log.size, distilled=log.day not in waiting)
        for log in reversed(list_logs(store))
    ]
    call.show_rows(_LOGS, rows, as_json=as_json, empty="no log yet; `memdir log TEXT` starts one")
