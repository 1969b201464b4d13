"""`import`: bring memories of another tool, project or machine into this one; shows first what it would do."""

from datetime import UTC, date, datetime, time
from typing import Any

import click

from memdir import frontmatter
from memdir.doors.cli.call import Call, choose_store, scope_flag
from memdir.doors.cli.columns import Column
from memdir.doors.cli.diffs import render_diff, shorten_diff
from memdir.doors.cli.incoming import mask_secrets
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import Row, make_time
from memdir.doors.cli.verb import Verb, json_option
from memdir.errors import FormatError, NotFoundError
from memdir.importing import Fate, Format, Ground, Imported, ImportPlan, Step, apply_import, plan_import, read_sources
from memdir.records import Origin
from memdir.store.files import FileStore
from memdir.text import one_line, shorten

WHO = "import"
_SCOPES = ("private", "user")
_STYLES = {Fate.NEW: "green", Fate.MERGED: "green", Fate.WAITING: "yellow", Fate.REFUSED: "dim"}
_COLUMNS = (
    Column("WHAT", "bold"),
    Column("MEMORY", "cyan", is_cut=True),
    Column("TYPE", "magenta"),
    Column("SAYS", is_cut=True),
    Column("WHY", "dim", is_cut=True),
    Column("FROM", "dim", is_cut=True),
)
_EXAMPLES = (
    "memdir import ~/backup/memory",
    "memdir import memories.tar --apply",
    "memdir import codex",
    "memdir import saved.txt --from chatgpt --scope user --apply",
)


@click.command("import", short_help="Bring in memories of other tools and machines.", cls=Verb, examples=_EXAMPLES)
@click.argument("source", metavar="SOURCE|PATH")
@click.option("--from", "named", type=click.Choice([at.value for at in Format]), help="Whose; found out if not given.")
@click.option("--scope", type=click.Choice(_SCOPES), help="For this project, or for all. Private if not given.")
@click.option("--preview", "is_preview", is_flag=True, help="Only show what would be done. So it is without --apply.")
@click.option("--apply", "is_applied", is_flag=True, help="Do it, as one act that `memdir undo` takes back.")
@click.option("--since", metavar="DATE", help="Only what was written on this day or later, where that is known.")
@click.option("--with-team", is_flag=True, help="Of a memory directory also what a team shares; here it is shared too.")
@json_option
@click.pass_obj
def import_verb(
    call: Call,
    source: str,
    named: str | None,
    scope: str | None,
    is_preview: bool,
    is_applied: bool,
    since: str | None,
    with_team: bool,
    as_json: bool,
) -> None:
    """Bring in memories: a memory directory (Claude Code's or memdir's) or an archive of one, AGENTS.md, GEMINI.md,
    Codex's memories, the MCP memory server's file, a mem0 export, ChatGPT's memories as text.

    SOURCE is a path, or `codex`, `gemini-md`, `agents-md` for where those keep theirs. Shows first what is new, known
    already, merged or refused; --apply does it. What holds a secret waits in the inbox without it. Running it again
    adds nothing, and an import makes nothing look newer than it is.
    """
    if is_preview and is_applied:
        raise click.UsageError("--preview and --apply exclude one another")
    opened = call.open_to_write() if is_applied else call.open()
    store = choose_store(opened, scope)
    ground = Ground(opened.places.root.path, opened.environment, opened.now(), with_team)
    found = read_sources(source, None if named is None else Format(named), cwd=call.cwd, ground=ground)
    if not found.candidates:
        raise NotFoundError(f"no memories were found in {source}", name=source, hint="--from says whose they are")
    origin = Origin(WHO, f"{found.format.value} from {shorten(one_line(source), 200)}", opened.environment.session)
    begin = None if since is None else _parse_day(since)
    plan = plan_import(store, found, now=opened.now(), origin=origin, since=begin)
    done = apply_import(store, plan, origin=origin) if is_applied else None
    if as_json:
        call.out.json(_make_answer(call, source, store, plan, done))
        return
    _show(call, store, plan, done)


def _parse_day(text: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        shown = shorten(one_line(text), 40)
        raise FormatError(f"{shown!r} is no day", field="since", hint="as in 2026-10-01") from None


def _show(call: Call, store: FileStore, plan: ImportPlan, done: Imported | None) -> None:
    out = call.out
    steps = [step for fate in Fate for step in plan.steps if step.fate is fate]
    out.table(_COLUMNS, [_make_cells(step, call) for step in steps])
    if done is None:
        for name, text, _ in plan.merges:
            old, new = (mask_secrets(at, call.environment) for at in (store.read(name).text, text))
            out.diff(shorten_diff(render_diff(old, new, f"{name}.md", f"{name}.md (merged)")))
    counts = [f"{plan.count(fate)} {_say(fate)}" for fate in Fate if plan.count(fate)]
    out.line(Styled(f"{plan.found.format.value}: ", "dim"), ", ".join(counts) or "nothing in that time")
    if done is None:
        if plan.count(Fate.NEW) or plan.count(Fate.MERGED) or plan.count(Fate.WAITING):
            out.line("nothing was changed; the same with --apply does it, and `memdir undo` takes it back")
        return
    _tell(out, store, done)


def _tell(out: Output, store: FileStore, done: Imported) -> None:
    if done.act is not None:
        out.line(f"imported; `memdir undo{scope_flag(store)} {done.act}` takes it back")
    else:
        out.line("nothing was changed")
    if done.dropped:
        out.line(Styled(f"left out, changed or pinned meanwhile: {', '.join(done.dropped)}", "yellow"))
    if done.waiting:
        out.line(Styled(f"{len(done.waiting)} waiting for you: `memdir inbox`", "yellow"))


def _say(fate: Fate) -> str:
    words = {Fate.SAME: "known already", Fate.BEFORE: "imported before", Fate.WAITING: "for the inbox"}
    return words.get(fate, fate.value)


def _make_cells(step: Step, call: Call) -> list[str]:
    row = _make_row(step, call)
    said = str(row["description"] or row["title"])
    return [_say(step.fate), step.name, str(row["type"] or ""), said, str(row["why"]), str(row["source"])]


def _make_row(step: Step, call: Call) -> Row:
    candidate = step.candidate
    # What waits is shown without its secret, so by its masked text; what is refused has none.
    fields = frontmatter.parse_fields(step.text if step.fate is Fate.WAITING else candidate.text)
    is_kept = step.fate in (Fate.NEW, Fate.MERGED, Fate.WAITING)

    def clean(text: str) -> str:
        # What is new was searched when it was planned.
        return text if step.fate in (Fate.NEW, Fate.MERGED) else mask_secrets(text, call.environment)

    return {
        "fate": step.fate.value,
        "name": step.name or None,
        "title": clean(candidate.said or fields.title),
        "description": clean(fields.description),
        "type": fields.kind.value if fields.kind else None,
        "source": clean(candidate.source),
        "modified": None if candidate.modified is None else make_time(candidate.modified),
        "why": clean(step.why),
        "text": step.text if is_kept else "",
    }


def _make_answer(call: Call, source: str, store: FileStore, plan: ImportPlan, done: Imported | None) -> dict[str, Any]:
    return {
        "source": source,
        "format": plan.found.format.value,
        "scope": store.scope.value,
        "applied": done is not None,
        "act": None if done is None else done.act,
        "counts": {fate.value: plan.count(fate) for fate in Fate},
        "steps": [_make_row(step, call) for step in plan.steps],
        "dropped": [] if done is None else list(done.dropped),
        "waiting": [] if done is None else [item.id for item in done.waiting],
    }
