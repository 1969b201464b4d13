"""`extract`: learn from a transcript, from all past ones, or from what waits in the queue. `worker` does the last."""

import os
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import click

from memdir.conversation.lines import describe_transcript
from memdir.conversation.transcripts import list_transcripts
from memdir.errors import FormatError, MemdirError, NotFoundError
from memdir.extraction import ExtractReason, ExtractResult, ExtractSkip, turns
from memdir.extraction.turns import ExtractEstimate, estimate_past, harvest, make_conversation, read_extract_options
from memdir.files import note_problem
from memdir.interfaces.cli import CliContext, CliVerb, json_option
from memdir.interfaces.cli.output import Output, Styled, is_terminal
from memdir.interfaces.worker import WHO, do_chores, work
from memdir.models import find_model
from memdir.models.agent import render_usage
from memdir.models.usage import find_price
from memdir.project.git import find_root
from memdir.records import Model
from memdir.store.open import Project
from memdir.store.sessions import SessionFile, open_session
from memdir.text import one_line, shorten

_EXAMPLES = (
    "memdir extract ~/.claude/projects/-home-me-app/1f2e.jsonl --dry-run",
    "memdir extract --all --since 2026-10-01",
    "memdir extract",
)


@click.command("extract", short_help="Learn from conversations.", cls=CliVerb, examples=_EXAMPLES)
@click.argument("transcript", required=False, type=click.Path(path_type=Path))
@click.option("--all", "is_all", is_flag=True, help="Every past conversation of this project.")
@click.option("--since", metavar="DATE", help="With --all: only conversations that went on after this day began.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Show what would be saved and why; save nothing.")
@click.option("--session", "session_id", help="The conversation's id, if the transcript does not tell.")
@click.option("--model", "spec", metavar="NAME", help="Ask this model; `none` for rules alone.")
@click.option("--yes", "is_sure", is_flag=True, help="With --all: do not ask before a model is paid for.")
@json_option
@click.pass_obj
def extract_verb(
    call: CliContext,
    transcript: Path | None,
    is_all: bool,
    since: str | None,
    is_dry: bool,
    session_id: str | None,
    spec: str | None,
    is_sure: bool,
    as_json: bool,
) -> None:
    """Learn from a transcript (Claude Code, Codex, or a JSON list of role and content).

    With --all from every past conversation of this project; without either from the turns that wait in the queue. What
    was learned from once is not learned from again, so an interrupted run simply goes on.
    """
    if transcript is not None and is_all:
        raise click.UsageError("a transcript and --all exclude one another")
    if since is not None and not is_all:
        raise click.UsageError("--since goes with --all")
    opened = call.open() if is_dry else call.open_to_write()
    model = call.choose_model(spec)
    if transcript is None and not is_all:
        _work(call, opened, model, is_dry=is_dry, as_json=as_json)
        return
    chosen = _choose(call, opened, transcript, since, session_id)
    ahead = estimate_past(chosen)
    if is_all and not _is_agreed(call, ahead, model, spec or opened.settings.text("model"), is_dry or is_sure):
        return
    rows = list(_harvest(call, opened, chosen, model, is_dry=is_dry, quiet=as_json))
    call.out.progress("")
    if as_json:
        call.out.json({"estimate": _make_estimate(ahead), "dry_run": is_dry, "conversations": rows})
    elif not rows:
        call.out.line("nothing new to learn from")


@click.command("worker", hidden=True, cls=CliVerb, examples=("memdir worker",))
@click.pass_obj
def worker_verb(call: CliContext) -> None:
    """Learn from what waits in the queue, quietly, then see to notes, index and dream; hooks start this."""
    opened = call.open()
    if opened.environment.inside:
        return
    try:
        model = find_model(opened.settings, opened.environment, project=str(opened.places.root.path))
    except MemdirError as error:
        # What a person asked to remember does not wait until the model is there again.
        note_problem(opened.private.state, WHO, f"model: {error}", opened.now())
        model = None
    entries: list[turns.QueuedTurn] = []
    _run_worker(opened, model, lambda entry, _: entries.append(entry))
    left = {entry.path for entry in turns.read_queue(opened.private.state)}
    do_chores(opened, entries, model)
    # The end of a session leaves a note and begins no worker: one that came meanwhile need not wait for the next start.
    if any(entry.path not in left for entry in turns.read_queue(opened.private.state)):
        _run_worker(opened, model, lambda entry, _: None)


def _choose(
    call: CliContext, opened: Project, transcript: Path | None, since: str | None, session_id: str | None
) -> list[tuple[Path, SessionFile]]:
    state = opened.private.state
    if transcript is not None:
        path = call.cwd / transcript.expanduser()
        info = describe_transcript(path)
        if _is_elsewhere(opened, info.cwd):
            call.out.warn(f"this conversation was held in {one_line(info.cwd)}; it is kept for the project here")
        return [(path, open_session(state, session_id or info.session or str(path)))]
    begin = None if since is None else _parse_day(since)
    found = list_transcripts(opened.environment, opened.places.root.path, since=begin)
    found = tuple(info for info in found if begin is None or (info.ended or info.modified) >= begin)
    if not found:
        when = f" since {since}" if since else ""
        raise NotFoundError(f"no conversation of this project was found{when}", hint="name a transcript instead")
    return [(info.path, open_session(state, info.session)) for info in found]


def _is_elsewhere(opened: Project, cwd: str) -> bool:
    """Whether a conversation was held in another project."""
    if not os.path.isabs(cwd) or "\0" in cwd:
        return False
    return find_root(Path(cwd), worktree=opened.settings.text("worktree")).path != opened.places.root.path


def _parse_day(text: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        raise FormatError(
            f"{shorten(one_line(text), 40)!r} is no day", field="since", hint="as in 2026-10-01"
        ) from None


def _is_agreed(call: CliContext, ahead: ExtractEstimate, model: Model | None, name: str, is_sure: bool) -> bool:
    """Tell what is ahead; where a model will be paid for, ask."""
    counts = f"{ahead.transcripts} conversations, {ahead.messages} messages"
    if model is None:
        call.out.progress(f"{counts}; by rules, at no cost")
        return True
    price = find_price(name.partition(":")[2])
    cost = "" if price is None else f", about ${ahead.tokens * price.input / 1e6:.2f}"
    text = f"{counts} in {ahead.pieces} requests to {name}: about {ahead.tokens:,} tokens{cost}"
    if is_sure or not ahead.pieces:
        call.out.progress(text)
        return True
    if not is_terminal(sys.stdin):
        raise FormatError(f"{text}", hint="--yes goes ahead, --dry-run shows what rules would find with --model none")
    return click.confirm(f"{text}. Go ahead?")


def _harvest(
    call: CliContext,
    opened: Project,
    chosen: list[tuple[Path, SessionFile]],
    model: Model | None,
    *,
    is_dry: bool,
    quiet: bool,
) -> Iterator[dict[str, Any]]:
    for number, (path, session) in enumerate(chosen, 1):
        place = make_conversation(opened)
        for done in harvest(
            opened.private, path, session, model=model, conversation=place, now=opened.now(), dry_run=is_dry
        ):
            call.out.progress(f"{number} of {len(chosen)}: {path.name}")
            if not quiet:
                _show(call.out, done, path.name, is_dry=is_dry)
            yield _make_row(done, session.id, str(path))


def _work(call: CliContext, opened: Project, model: Model | None, *, is_dry: bool, as_json: bool) -> None:
    if is_dry:
        raise click.UsageError("--dry-run needs a transcript or --all")
    rows: list[dict[str, Any]] = []

    def hear(entry: turns.QueuedTurn, done: ExtractResult) -> None:
        rows.append(_make_row(done, entry.session, entry.transcript))
        if not as_json:
            _show(call.out, done, Path(entry.transcript).name, is_dry=False)

    _run_worker(opened, model, hear)
    if as_json:
        call.out.json({"estimate": None, "dry_run": False, "conversations": rows})
    elif not rows:
        call.out.line("nothing waits to be learned from")


def _run_worker(opened: Project, model: Model | None, hear: Any = lambda entry, done: None) -> int:
    return work(
        opened.private,
        manner=read_extract_options(opened),
        model=model,
        conversation=make_conversation(opened),
        clock=opened.now,
        on_done=hear,
    )


def _show(out: Output, done: ExtractResult, what: str, *, is_dry: bool) -> None:
    if done.skipped is not None and not done.reasons:
        out.line(Styled(f"{what}: ", "dim"), done.skipped.words, f" ({done.error})" if done.error else "")
        return
    out.line(Styled(f"{what}: ", "dim"), f"{done.messages} messages, by {done.by}")
    for reason in done.reasons:
        _show_reason(out, reason, is_dry=is_dry)
    if done.skipped is ExtractSkip.FAILED:
        out.warn(f"{done.error}; what was asked for is kept, the rest is tried again next time")
    if done.notice and not is_dry:
        out.line(done.notice)


def _show_reason(out: Output, reason: ExtractReason, *, is_dry: bool) -> None:
    would = "would " if is_dry else ""
    out.line(f"  {would}{reason.action} ", Styled(reason.name, "cyan"), f" ({reason.why})")
    if reason.quote:
        out.line(Styled(f"    said: {shorten(one_line(reason.quote), 120)}", "dim"))
    if is_dry and reason.text:
        out.block("\n".join(f"    {line}" for line in reason.text.splitlines()))


def _make_row(done: ExtractResult, session: str, transcript: str) -> dict[str, Any]:
    usage = done.ran.usage if done.ran else None
    return {
        "session": session,
        "transcript": transcript,
        "messages": done.messages,
        "by": done.by,
        "skipped": done.skipped,
        "error": done.error,
        "written": list(done.written),
        "forgotten": list(done.forgotten),
        "waiting": list(done.waiting),
        "change": done.change,
        "requests": done.ran.turns if done.ran else 0,
        "tokens": None if usage is None else render_usage(usage),
        "dollars": usage.dollars if usage else None,
        "reasons": [
            {"name": at.name, "action": at.action, "why": at.why, "quote": at.quote, "text": at.text}
            for at in done.reasons
        ],
        "notice": done.notice,
    }


def _make_estimate(ahead: ExtractEstimate) -> dict[str, int]:
    return {
        "conversations": ahead.transcripts,
        "messages": ahead.messages,
        "pieces": ahead.pieces,
        "tokens": ahead.tokens,
    }
