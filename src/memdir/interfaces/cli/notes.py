"""`notes`: the running summary of a session; look at it, bring it up to date, find it."""

from pathlib import Path
from typing import Any

import click

from memdir.conversation.lines import describe_transcript
from memdir.conversation.notes import (
    NotesFile,
    NotesResult,
    NotesSkip,
    find_home,
    find_notes,
    find_notes_file,
    list_notes,
    read_notes_file,
    read_notes_input,
    read_notes_options,
    update_notes,
)
from memdir.conversation.notes_file import (
    Notes,
    hook_digest,
    is_empty,
    list_oversize,
    make_template,
    measure_notes,
    open_notes,
    render_for_compaction,
)
from memdir.conversation.transcripts import list_transcripts
from memdir.errors import LockedError, MemdirError, ModelError, NotFoundError, SettingsError
from memdir.interfaces.cli import CliContext, VerbGroup, json_option
from memdir.interfaces.cli.output import Styled, TableColumn, make_time, show_time
from memdir.store.open import Project
from memdir.store.sessions import open_session
from memdir.text import estimate_tokens, one_line, shorten

_FORMS = ("file", "compaction", "hook")
_COLUMNS = (
    TableColumn("SESSION", "bold"),
    TableColumn("TITLE", "cyan", is_cut=True),
    TableColumn("MODIFIED", "dim"),
    TableColumn("BYTES", "dim"),
)


class NotesGroup(VerbGroup):
    """Without a verb of its own it shows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = bool(args) and args[0] in ctx.help_option_names
        if not ctx.resilient_parsing and not asks_help and (not args or args[0].startswith("-")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def session_options(decorated: Any) -> Any:
    session = click.option("--session", "session_id", metavar="ID", help="This session; else the newest.")
    file = click.Path(path_type=Path)
    return session(click.option("--transcript", type=file, metavar="FILE", help="The session of this file.")(decorated))


@click.group("notes", short_help="The running summary of a session.", cls=NotesGroup)
def notes_verb() -> None:
    """Look at the notes of a session and bring them up to date. Without a verb it shows them.

    Notes stand in for a conversation when its host shortens it. They are no memories, and belong to one session.
    """


@notes_verb.command(
    "show",
    short_help="Print the notes of a session.",
    examples=("memdir notes show --as hook", "memdir notes show --json"),
)
@session_options
@click.option("--as", "form", type=click.Choice(_FORMS), default="file", show_default=True, help="As whom it is told.")
@json_option
@click.pass_obj
def _show(call: CliContext, session_id: str | None, transcript: Path | None, form: str, as_json: bool) -> None:
    """Print the notes of a session: the file, or what a conversation is given of it after it was shortened."""
    opened = call.open()
    session, place = _choose(call, opened, session_id, transcript)
    text, kept = read_notes_file(place), find_notes(place)
    if text is None or kept is None:
        raise NotFoundError(f"there are no notes of session {_name(session)}", hint="`memdir notes update` writes them")
    template = make_template(read_notes_options(opened).template)
    notes = open_notes(text, template)
    shown = _render(form, text, notes, template, place)
    if not as_json:
        call.out.raw(shown.encode("utf-8", "replace"))
        return
    row = {"session": session, "path": str(place.path), "modified": make_time(kept.modified)}
    call.out.json(row | _make_facts(notes, template) | {"text": shown})


@notes_verb.command(
    "update", examples=("memdir notes update", "memdir notes update --transcript ~/.claude/projects/-app/1f2e.jsonl")
)
@session_options
@click.option("--model", "spec", metavar="NAME", help="Ask this model; `none` for rules alone.")
@click.option("--if-due", is_flag=True, help="Only if enough has happened since the last time.")
@json_option
@click.pass_obj
def _update(
    call: CliContext, session_id: str | None, transcript: Path | None, spec: str | None, if_due: bool, as_json: bool
) -> None:
    """Bring the notes of a session up to date with its transcript, by the model of the settings or by rules."""
    opened = call.open_to_write()
    session_id, path = _find_transcript(call, opened, session_id, transcript)
    place, session = find_notes_file(find_home(opened), session_id), open_session(opened.private.state, session_id)
    call.out.progress(f"reading {path.name}")
    done = update_notes(
        place,
        session,
        read_notes_input(opened, path, session, place),
        now=opened.now(),
        options=read_notes_options(opened),
        model=call.choose_model(spec),
        force=not if_due,
    )
    _check(done)
    if as_json:
        row = {"session": session_id, "path": str(place.path), "transcript": str(path)}
        call.out.json(row | _make_outcome(done))
        return
    if done.skipped is not None:
        call.out.line(f"{done.skipped.words}: ", Styled(str(place.path), "dim"))
        return
    changed = "" if done.changed else ", nothing changed"
    told = f"{done.messages} messages noted by {done.by}; about {done.tokens:,} tokens{changed}: "
    call.out.line(told, Styled(str(place.path), "dim"))
    if done.cut:
        call.out.warn(f"cut to their limit: {', '.join(done.cut)}")


@notes_verb.command("where", examples=("memdir notes where", "memdir notes where --session 1f2e --json"))
@session_options
@json_option
@click.pass_obj
def _where(call: CliContext, session_id: str | None, transcript: Path | None, as_json: bool) -> None:
    """Print where the notes of a session are kept, whether there are any or not."""
    opened = call.open()
    session, place = _choose(call, opened, session_id, transcript)
    if not as_json:
        call.out.line(str(place.path))
        return
    manner = read_notes_options(opened)
    call.out.json(
        {
            "session": session,
            "path": str(place.path),
            "exists": find_notes(place) is not None,
            "on": manner.on,
            "own_template": bool(manner.template.strip()),
            "own_prompt": bool(manner.prompt.strip()),
        }
    )


@notes_verb.command("list", examples=("memdir notes list", "memdir notes list --json"))
@json_option
@click.pass_obj
def _list(call: CliContext, as_json: bool) -> None:
    """List the sessions of this project that have notes, newest first.

    In a pipe: session, title, time, bytes, with tabs between.
    """
    opened = call.open()
    template = make_template(read_notes_options(opened).template)
    found = list_notes(find_home(opened))
    titles = [_find_title(kept.place, template) for kept in found]
    rows = [
        {
            "session": kept.place.leaf,
            "path": str(kept.place.path),
            "title": title,
            "modified": make_time(kept.modified),
            "bytes": kept.size,
        }
        for kept, title in zip(found, titles, strict=True)
    ]
    if as_json:
        call.out.json(rows)
    elif rows:
        cells = [
            [kept.place.leaf, title, show_time(call.out, kept.modified, opened.now()), str(kept.size)]
            for kept, title in zip(found, titles, strict=True)
        ]
        call.out.table(_COLUMNS, cells)
    elif call.out.is_table:
        call.out.line("no session has notes")


# --- which session --------------------------------------------------------------------------------------------------


def _choose(
    call: CliContext, opened: Project, session_id: str | None, transcript: Path | None
) -> tuple[str, NotesFile]:
    """The session that is meant, and its place: the one named, the one we are in, else that of the newest notes."""
    home = find_home(opened)
    if session_id or transcript or opened.environment.session:
        found = session_id or (_read_session(call, transcript) if transcript else opened.environment.session)
        return found, find_notes_file(home, found)
    newest = next(iter(list_notes(home)), None)
    if newest is None:
        raise NotFoundError("no session of this project has notes", hint="`memdir notes update` writes them")
    return newest.place.leaf, newest.place


def _find_transcript(
    call: CliContext, opened: Project, session_id: str | None, transcript: Path | None
) -> tuple[str, Path]:
    """The session to write about, and its transcript."""
    if transcript is not None:
        return session_id or _read_session(call, transcript), call.cwd / transcript.expanduser()
    wanted = session_id or opened.environment.session
    found = list_transcripts(opened.environment, opened.places.root.path)
    chosen = next((info for info in reversed(found) if not wanted or info.session == wanted), None)
    if chosen is None:
        what = f"no transcript of session {_name(wanted)}" if wanted else "no conversation of this project"
        raise NotFoundError(f"{what} was found", hint="name one with --transcript")
    return chosen.session or str(chosen.path), chosen.path


def _read_session(call: CliContext, transcript: Path) -> str:
    path = call.cwd / transcript.expanduser()
    return describe_transcript(path).session or str(path)


# --- what is said of it ---------------------------------------------------------------------------------------------


def _render(form: str, text: str, notes: Notes, template: Notes, place: NotesFile) -> str:
    if form == "compaction":
        return render_for_compaction(notes, path=str(place.path), template=template)
    if form == "hook":
        digest = hook_digest(notes, path=str(place.path))
        return f"{digest}\n" if digest else ""
    return text


def _make_facts(notes: Notes, template: Notes) -> dict[str, Any]:
    return {
        "tokens": measure_notes(notes),
        "empty": is_empty(notes, template),
        "oversize": list(list_oversize(notes)),
        "sections": [
            {
                "name": at.name,
                "description": at.description.strip("_*"),
                "text": at.text,
                "tokens": estimate_tokens(at.text),
            }
            for at in notes.sections
        ],
    }


def _make_outcome(done: NotesResult) -> dict[str, Any]:
    usage = done.ran.usage if done.ran else None
    return {
        "by": done.by or None,
        "skipped": done.skipped,
        "changed": done.changed,
        "messages": done.messages,
        "tokens": done.tokens,
        "cut": list(done.cut),
        "requests": done.ran.turns if done.ran else 0,
        "spent": None
        if usage is None
        else {"fresh": usage.fresh, "cached": usage.cached, "stored": usage.stored, "output": usage.output},
        "dollars": usage.dollars if usage else None,
    }


def _check(done: NotesResult) -> None:
    """Raise where a person asked for notes and cannot have them."""
    if done.skipped is NotesSkip.FAILED:
        raise ModelError(f"the notes were not updated: {done.error}", hint="they are as they were; try again")
    if done.skipped is NotesSkip.BUSY:
        raise LockedError(done.skipped.words, hint="wait for it")
    if done.skipped in (NotesSkip.OFF, NotesSkip.PAUSED, NotesSkip.PRIVATE):
        key = "paused" if done.skipped is NotesSkip.PAUSED else "notes"
        hint = "`memdir resume`" if key == "paused" else "`memdir config get notes` shows who says so"
        raise SettingsError(done.skipped.words, key=key, hint=hint)


def _find_title(place: NotesFile, template: Notes) -> str:
    try:
        section = open_notes(read_notes_file(place), template).find("Session Title")
    except MemdirError:  # too large, or gone since
        return ""
    return shorten(one_line(section.text), 100) if section else ""


def _name(session: str) -> str:
    return repr(shorten(one_line(session), 60))
