"""The commands `extract` and `notes`: learn from conversations, and keep a running summary of a session.

`worker` learns in the background; hooks start it.
"""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from memdir.conversation import notes, notes_file
from memdir.conversation.notes import NotesFile, NotesSkip, find_home, list_notes, read_notes_options
from memdir.conversation.transcripts import describe_transcript, list_transcripts
from memdir.errors import FormatError, LockedError, MemdirError, ModelError, NotFoundError, SettingsError
from memdir.extraction import ExtractResult, ExtractSkip, turns
from memdir.interfaces.cli import TOKENS, CliContext, Output, Row, Styled, fill, is_terminal
from memdir.interfaces.cli.app import CliVerb, VerbGroup, model_option, parse_day, verb
from memdir.interfaces.worker import collect_ended, do_worker_chores, work
from memdir.models.open import find_model
from memdir.models.usage import find_price
from memdir.operations.turn import WHO
from memdir.project.paths import find_root
from memdir.records import Model
from memdir.store.open import Project
from memdir.store.sessions import QueuedTurn, SessionFile, read_queue
from memdir.store.state import note_problem
from memdir.text import estimate_tokens, one_line, shorten

# `extract`.


@verb(
    "extract", "Learn from past conversations.",
    "memdir extract ~/.claude/projects/-home-me-app/1f2e.jsonl --dry-run",
    "memdir extract --all --since 2026-10-01",
    "memdir extract",
)  # fmt: skip
@click.argument("transcript", required=False, type=click.Path(path_type=Path))
@click.option("--all", "is_all", is_flag=True, help="Every past conversation of this project.")
@click.option("--since", metavar="DATE", help="With --all: only conversations with messages from this day or later.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Show the memories and reasons without saving.")
@click.option("--session", "session_id", help="The conversation's ID, if not in the transcript.")
@model_option
@click.option("--yes", "is_sure", is_flag=True, help="With --all: do not ask before using a paid model.")
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

    With --all, learn from every past conversation of this project; without arguments, from the queued turns. Each
    conversation is learned from only once, so run it again to continue an interrupted run.
    """
    if transcript is not None and is_all:
        raise click.UsageError("a transcript and --all cannot be used together")
    if since is not None and not is_all:
        raise click.UsageError("--since needs --all")
    project = call.open() if is_dry else call.open_to_write()
    model = call.choose_model(spec)
    rows: list[Row] = []

    def show(done: ExtractResult, session: str, path: Path | str) -> None:
        # Of a long conversation, most pieces have nothing to say.
        is_silent = done.skipped is ExtractSkip.NOTHING_FOUND and rows and rows[-1]["transcript"] == path
        rows.append(_make_learned(done, session, path))
        if not (as_json or is_silent):
            call.out.progress("")
            _show_learned(call.out, done, Path(path).name, is_dry=is_dry)

    ahead, nothing = None, "no queued turns"
    if transcript is None and not is_all:
        if is_dry:
            raise click.UsageError("--dry-run needs a transcript or --all")
        _run_worker(project, model, lambda entry, done: show(done, entry.session, entry.transcript))
    else:
        chosen = _choose_transcripts(call, project, transcript, since, session_id)
        ahead, nothing = turns.estimate_past(chosen), "nothing new to learn from"
        if is_all and not is_agreed(call, ahead, model, spec or project.settings.text("model"), is_dry or is_sure):
            return
        store, around = project.private, turns.make_conversation(project)
        for path, session in chosen:
            now = project.now()
            call.out.progress(f"learning from {path.name}", len(rows), ahead.pieces)
            for item in turns.harvest(store, path, session, model=model, conversation=around, now=now, dry_run=is_dry):
                show(item, session.id, path)
                call.out.progress(f"learning from {path.name}", len(rows), ahead.pieces)
        call.out.progress("")
    if as_json:
        estimate = None if ahead is None else fill("messages pieces tokens", ahead, conversations=ahead.transcripts)
        call.out.json({"estimate": estimate, "dry_run": is_dry, "conversations": rows})
    elif not rows:
        call.out.line(nothing)


@click.command("worker", hidden=True, cls=CliVerb, examples=("memdir worker",), has_json=False)
def worker_verb(call: CliContext) -> None:
    """Process the queue without output, then update notes, index and dream; hooks start this command."""
    project = call.open()
    if project.environment.inside:
        return
    try:
        model = find_model(project.settings, project.environment, project=str(project.places.root.path))
    except MemdirError as error:
        # Explicit requests to remember are saved even if the model is unavailable.
        note_problem(project.private.state, WHO, f"model: {error}", project.now())
        model = None
    entries: list[QueuedTurn] = []
    _run_worker(project, model, lambda entry, _: entries.append(entry))
    left = {entry.path for entry in read_queue(project.private.state)}
    do_worker_chores(project, entries, model)
    # The end of a session queues a turn without starting a worker, so process turns that were queued in the meantime.
    if any(entry.path not in left for entry in read_queue(project.private.state)):
        _run_worker(project, model, lambda entry, _: None)


def _choose_transcripts(
    call: CliContext, project: Project, transcript: Path | None, since: str | None, session_id: str | None
) -> list[tuple[Path, SessionFile]]:
    state, root = project.private.state, project.places.root.path
    if transcript is not None:
        path = call.cwd / transcript.expanduser()
        info = describe_transcript(path)
        is_known = os.path.isabs(info.cwd) and "\0" not in info.cwd
        if is_known and find_root(Path(info.cwd), worktree=project.settings.text("worktree")).path != root:
            call.out.warn(f"this conversation is from {one_line(info.cwd)}; its memories are saved for this project")
        return [(path, SessionFile(state, session_id or info.session or str(path)))]
    begin = None if since is None else parse_day(since)
    transcripts = list_transcripts(project.environment, root, since=begin)
    transcripts = tuple(info for info in transcripts if begin is None or (info.ended or info.modified) >= begin)
    if not transcripts:
        when = f" since {since}" if since else ""
        raise NotFoundError(f"no conversation of this project found{when}", hint="pass a transcript instead")
    return [(info.path, SessionFile(state, info.session)) for info in transcripts]


def is_agreed(call: CliContext, estimate: turns.ExtractEstimate, model: Model | None, name: str, is_sure: bool) -> bool:
    """Show the estimate; ask before using a paid model and return whether to continue."""
    counts = f"{estimate.transcripts} conversations, {estimate.messages} messages"
    price = find_price(name.partition(":")[2])
    cost = f", about ${estimate.tokens * price[0] / 1e6:.2f}" if price else ""
    text = f"{counts} in {estimate.pieces} requests to {name}: about {estimate.tokens:,} tokens{cost}"
    if model is None or is_sure or not estimate.pieces:
        call.out.progress(text if model is not None else f"{counts}; without a model, at no cost")
        return True
    if not is_terminal(sys.stdin):
        raise FormatError(text, hint="--yes continues; --dry-run --model none shows what the built-in patterns find")
    return click.confirm(f"{text}. Continue?")


def _run_worker(project: Project, model: Model | None, on_done: Callable[[QueuedTurn, ExtractResult], None]) -> None:
    options, around = turns.read_extract_options(project), turns.make_conversation(project)
    collect_ended(project)
    work(project.private, options=options, model=model, conversation=around, clock=project.now, on_done=on_done)


def _show_learned(out: Output, done: ExtractResult, what: str, *, is_dry: bool) -> None:
    if done.skipped is not None and not done.reasons:
        out.line(Styled(f"{what}: ", "dim"), done.skipped.words, f" ({done.error})" if done.error else "")
        return
    out.line(Styled(f"{what}: ", "dim"), f"{done.messages} messages, by {done.by}")
    would = "would " if is_dry else ""
    for reason in done.reasons:
        out.line(f"  {would}{reason.action} ", Styled(reason.name, "cyan"), f" ({reason.why})")
        if reason.quote:
            out.line(Styled(f"    said: {shorten(one_line(reason.quote), 120)}", "dim"))
        if is_dry and reason.text:
            out.block("\n".join(f"    {line}" for line in reason.text.splitlines()))
    if done.skipped is ExtractSkip.FAILED:
        out.warn(f"{done.error}; explicit requests were saved, the rest is tried again next time")
    if done.notice and not is_dry:
        out.line(done.notice)


def _make_cost(ran: Any, tokens: str) -> dict[str, Any]:
    if ran is None:
        return {"requests": 0, tokens: None, "dollars": None}
    return {"requests": ran.turns, tokens: fill(TOKENS, ran.usage), "dollars": ran.usage.dollars}


def _make_learned(done: ExtractResult, session: str, path: Path | str) -> Row:
    reasons = [fill("name action why quote text", reason) for reason in done.reasons]
    fields = "messages by skipped error written forgotten waiting change notice"
    cost = _make_cost(done.ran, "tokens")
    return fill(fields, done, session=session, transcript=path, reasons=reasons, **cost)


# `notes`.


def session_options(decorated: Any) -> Any:
    session = click.option("--session", "session_id", metavar="ID", help="The session; default: the newest.")
    file = click.Path(path_type=Path)
    return session(
        click.option("--transcript", type=file, metavar="FILE", help="The session of this transcript.")(decorated)
    )


@click.group("notes", short_help="Show and update session notes.", cls=VerbGroup, default="show")
def notes_verb() -> None:
    """Show and update session notes. Without a subcommand it shows them.

    Notes replace a conversation when its agent compacts it. They are not memories, and belong to one session.
    """


@notes_verb.command(
    "show", short_help="Print the notes of a session.",
    examples=("memdir notes show", "memdir notes show --json"),
)  # fmt: skip
@session_options
def _show_notes(call: CliContext, session_id: str | None, transcript: Path | None, as_json: bool) -> None:
    """Print the notes of a session."""
    project = call.open()
    session, file = _choose_notes(call, project, session_id, transcript)
    text = notes.read_notes_file(file)
    if text is None:
        what = f"no notes of session {_quote(session)}"
        raise NotFoundError(what, hint="`memdir notes update` writes them")
    template = notes_file.make_template(read_notes_options(project).template)
    opened = notes_file.open_notes(text, template)
    if not as_json:
        call.out.raw(text.encode("utf-8", "replace"))
        return
    row = {
        "session": session,
        "path": file.path,
        "modified": datetime.fromtimestamp(file.path.lstat().st_mtime, UTC),
        "tokens": notes_file.measure_notes(opened),
        "empty": notes_file.is_empty(opened, template),
        "oversize": notes_file.list_oversize(opened),
        "sections": [
            fill("name text", item, description=item.description.strip("_*"), tokens=estimate_tokens(item.text))
            for item in opened.sections
        ],
        "text": text,
    }
    call.out.json(row)


@notes_verb.command(
    "update", examples=("memdir notes update", "memdir notes update --transcript ~/.claude/projects/-app/1f2e.jsonl")
)
@session_options
@model_option
def _update_notes(
    call: CliContext, session_id: str | None, transcript: Path | None, spec: str | None, as_json: bool
) -> None:
    """Update the notes of a session from its transcript with the configured model."""
    project, out = call.open_to_write(), call.out
    if transcript is not None:
        session_id, path = session_id or _read_session(call, transcript), call.cwd / transcript.expanduser()
    else:
        wanted_id = session_id or project.environment.session
        past = reversed(list_transcripts(project.environment, project.places.root.path))
        info = next((info for info in past if not wanted_id or info.session == wanted_id), None)
        if info is None:
            what = f"no transcript of session {_quote(wanted_id)}" if wanted_id else "no conversation of this project"
            raise NotFoundError(f"{what} found", hint="pass one with --transcript")
        session_id, path = info.session or str(info.path), info.path
    file, session = (
        notes.find_notes_file(find_home(project), session_id),
        SessionFile(project.private.state, session_id),
    )
    out.progress(f"reading {path.name}")
    model = call.choose_model(spec)
    result = notes.update_from_transcript(project, path, session, file, model=model, force=True)
    _check_notes(result)
    place = Styled(str(file.path), "dim")
    if as_json:
        cost = _make_cost(result.ran, "spent")
        facts = {"session": session_id, "path": file.path, "transcript": path}
        out.json(fill("by? skipped changed messages tokens cut", result, **facts, **cost))
    elif result.skipped is not None:
        out.line(f"{result.skipped.words}: ", place)
    else:
        changed = "" if result.changed else ", nothing changed"
        out.line(f"{result.messages} messages noted by {result.by}; about {result.tokens:,} tokens{changed}: ", place)
        if result.cut:
            out.warn(f"cut to their limit: {', '.join(result.cut)}")


def _choose_notes(
    call: CliContext, project: Project, session_id: str | None, transcript: Path | None
) -> tuple[str, NotesFile]:
    """Return the session and its notes file: the named or current session, or the one with the newest notes."""
    home = find_home(project)
    if chosen_id := session_id or (_read_session(call, transcript) if transcript else project.environment.session):
        return chosen_id, notes.find_notes_file(home, chosen_id)
    newest = next(iter(list_notes(home)), None)
    if newest is None:
        raise NotFoundError("no session of this project has notes", hint="`memdir notes update` writes them")
    return newest.leaf, newest


def _read_session(call: CliContext, transcript: Path) -> str:
    path = call.cwd / transcript.expanduser()
    return describe_transcript(path).session or str(path)


# Reasons why notes are not updated that a setting causes: the setting, and a hint how to change it.
_NOTES_REFUSED = {
    NotesSkip.PAUSED: ("paused", "`memdir resume`"),
    NotesSkip.NO_COMPACTION: ("notes", "see `autoCompactEnabled` in its settings"),
    NotesSkip.NO_MODEL: ("model", "`memdir config set model NAME`, or pass --model"),
    **dict.fromkeys((NotesSkip.OFF, NotesSkip.PRIVATE), ("notes", "`memdir config get notes` shows the source")),
}


def _check_notes(done: notes.NotesResult) -> None:
    """Raise an error if the update of the notes failed, is running elsewhere, or is prevented by a setting."""
    if done.skipped is NotesSkip.FAILED:
        raise ModelError(f"the notes were not updated: {done.error}", hint="they are unchanged; try again")
    if done.skipped is NotesSkip.BUSY:
        raise LockedError(done.skipped.words, hint="wait for it")
    if done.skipped in _NOTES_REFUSED:
        key, hint = _NOTES_REFUSED[done.skipped]
        raise SettingsError(done.skipped.words, key=key, hint=hint)


def _quote(session: str) -> str:
    return repr(shorten(one_line(session), 60))
