"""`dream`: tidy the memory between sessions; look first, apply later, or ask whether it is time."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.dream_shown import make_dream_row, make_status_row, show_dreamed, show_preview, show_status
from memdir.doors.cli.output import complain
from memdir.doors.cli.verb import Verb, json_option
from memdir.dream import (
    Dreamed,
    DreamSkip,
    Phase,
    Progress,
    apply_kept,
    count_failures,
    dream,
    find_due,
    find_surroundings,
    note_failure,
    preview_dream,
)
from memdir.dream.progress import OnProgress
from memdir.errors import LockedError, MemdirError
from memdir.frozen import replace
from memdir.limits import DREAM_FAILURES
from memdir.opening import Opened
from memdir.records import Model

_BAR = 20
_EXAMPLES = ("memdir dream", "memdir dream --preview", "memdir dream --status", "memdir dream --if-due --model none")


@click.command("dream", short_help="Tidy the memory between sessions.", cls=Verb, examples=_EXAMPLES)
@click.option("--preview", "is_preview", is_flag=True, help="Show what would change and why; change nothing.")
@click.option("--apply", "apply_id", metavar="ID", help="Apply what a preview has shown.")
@click.option("--status", "is_status", is_flag=True, help="When the last one was, and whether the next is due.")
@click.option("--if-due", "is_gated", is_flag=True, help="Only if enough time and sessions have passed.")
@click.option("--model", "spec", metavar="NAME", help="Ask this model; `none` for rules alone.")
@json_option
@click.pass_obj
def dream_verb(
    call: Call,
    is_preview: bool,
    apply_id: str | None,
    is_status: bool,
    is_gated: bool,
    spec: str | None,
    as_json: bool,
) -> None:
    """Merge what says the same, spell out dates, mend the index; with a model also distil logs and settle
    contradictions.

    All of it is one act: `memdir undo` takes it back. Pinned memories are not touched, what somebody changes meanwhile
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
            done = Dreamed(_preview(call, opened, spec, show))
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


def _preview(call: Call, opened: Opened, spec: str | None, show: OnProgress) -> Any:
    model, around = call.choose_model(spec), find_surroundings(opened)
    return preview_dream(opened.private, model=model, now=opened.now(), surroundings=around, on_progress=show)


def _dream(call: Call, opened: Opened, spec: str | None, show: OnProgress, *, is_gated: bool) -> Dreamed:
    due = find_due(opened, now=opened.now(), session=opened.environment.session) if is_gated else None
    if due is not None and due.skip is not None:
        return Dreamed(skipped=due.skip, due=due)
    around, now, insist = find_surroundings(opened), opened.now(), spec is not None
    model, failures = _choose_model(call, opened, spec)
    try:
        done = dream(opened.private, model=model, now=now, surroundings=around, insist=insist, on_progress=show)
        return replace(done, failures=failures or done.failures)
    except LockedError:
        if not is_gated:
            raise
        return Dreamed(skipped=DreamSkip.LOCKED, due=due)


def _choose_model(call: Call, opened: Opened, spec: str | None) -> tuple[Model | None, int]:
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


def _tell_status(call: Call, *, as_json: bool) -> None:
    opened = call.open()
    due = find_due(opened, now=opened.now(), session=opened.environment.session)
    row = make_status_row(opened, due)
    if as_json:
        call.out.json({"dream": None, "status": row})
    else:
        show_status(call.out, opened, due, row)


@contextmanager
def _showing(call: Call) -> Iterator[OnProgress]:
    """How far it has come, on a terminal. While it is applied, a moment at the end, Ctrl-C has to wait."""
    restored: list[Any] = []

    def show(progress: Progress) -> None:
        call.out.progress(_render(progress))
        if progress.phase is Phase.APPLY and not restored and threading.current_thread() is threading.main_thread():
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


def _render(progress: Progress) -> str:
    done = round(progress.share * _BAR)
    tokens = progress.usage.input + progress.usage.output
    parts = [f"[{'#' * done}{'-' * (_BAR - done)}] {progress.phase.value}", f"{progress.files} files"]
    return ", ".join([*parts, f"{tokens:,} tokens"] if tokens else parts)
