"""The commands that find memories: `recall`, `search` and `why`."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from memdir.conversation.tool_calls import list_recent_tools
from memdir.conversation.transcripts import read_tail, search_transcripts
from memdir.errors import MemdirError
from memdir.frozen import asdict
from memdir.interfaces.cli import CliContext, Row, Styled, TableColumn, choose_stores, fill, make_skip_rows
from memdir.interfaces.cli.app import (
    CliVerb,
    everywhere_option,
    limit_option,
    list_everywhere,
    name_argument,
    scope_option,
    verb,
)
from memdir.interfaces.cli.quick import RecallCall, show_recall
from memdir.operations.find import find_past
from memdir.project.paths import list_folders
from memdir.recall.find import search_memories
from memdir.recall.pipeline import note_useless
from memdir.recall.prefetch import select_in_background
from memdir.records import count_outcomes
from memdir.store.state import note_problem

_TOOL_MESSAGES = 40  # the newest messages of a transcript, which are searched for tools in use
_MEMORIES = (
    TableColumn("NAME", "cyan", "name", is_cut=True),
    TableColumn("LINE", "dim", "line"),
    TableColumn("TEXT", "", "snippet", is_cut=True),
)
_TRANSCRIPTS = (
    TableColumn("TRANSCRIPT", "cyan", lambda row: os.path.basename(row["path"]), is_cut=True),
    TableColumn("LINE", "dim", "line"),
    TableColumn("WHEN", "dim", "time", is_time=True),
    TableColumn("WHO", "magenta", "role"),
    TableColumn("TEXT", "", "snippet", is_cut=True),
)
_SURFACED = (
    TableColumn("WHEN", "dim", "at", is_time=True),
    TableColumn("SCORE", "bold", lambda row: f"{row['score']:.3f}"),
    TableColumn("MOMENT", "", "moment"),
    TableColumn("QUESTION", "", "query", is_cut=True),
    TableColumn("SESSION", "dim", "session", is_cut=True),
    TableColumn("BY", "magenta", "selector"),
)


@verb(
    "recall", "Find memories for a question.",
    "memdir recall 'how do we deploy?'", "memdir recall --explain --no-semantic 'who reviews migrations?'",
)  # fmt: skip
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option("--session", metavar="ID", default="", help="The conversation; leaves out memories it already got.")
@click.option("--tools", metavar="A,B", default="", help="Tools currently in use.")
@limit_option(None, "Return the best N matches; default: only those confident to help.")
@click.option("--explain", is_flag=True, help="Show all candidates with their scores; does not count as a recall.")
@click.option("--no-semantic", is_flag=True, help="Match by words only, not by meaning.")
def recall_verb(call: CliContext, /, **options: Any) -> None:
    """Print the memories an agent would get for QUERY. `--explain` shows all candidates.

    They are printed as in a conversation, with their age and truncated if long; exits with 0 even without matches. On a
    terminal, without --session, they do not count as recalled; `memdir why NAME` shows what agents got. In a pipe,
    --explain prints name, score, its three parts, the matching words, and `selected` or the reason, separated by tabs.
    """
    show_recall(call, RecallCall(**options))


@click.command("select", hidden=True, cls=CliVerb, examples=("memdir select --session ID",), has_json=False)
@click.option("--session", metavar="ID", required=True, help="The conversation whose prompt hook left a question.")
def select_verb(call: CliContext, session: str) -> None:
    """Select memories for a pending question without output, for the next hook to show; a prompt hook starts this."""

    def read_tools(transcript: str) -> tuple[str, ...]:
        with suppress(MemdirError):  # the transcript does not exist yet, or memdir cannot read its format
            return list_recent_tools(read_tail(transcript, _TOOL_MESSAGES)) if transcript else ()
        return ()

    project = call.open()
    try:
        select_in_background(project, session, read_tools)
    except MemdirError as error:
        note_problem(project.private.state, "select", str(error), project.now())


@verb(
    "search", "Find exact words in memories.",
    "memdir search merge freeze", "memdir search --transcripts 'flaky test' --limit 5",
)  # fmt: skip
@click.argument("text", nargs=-1, required=True, metavar="TEXT")
@click.option("--transcripts", is_flag=True, help="Also search past conversations of this project.")
@limit_option(20, "Maximum results of each kind.")
@everywhere_option
def search_verb(
    call: CliContext, text: tuple[str, ...], transcripts: bool, limit: int, is_everywhere: bool, as_json: bool
) -> None:
    """Find memories that contain every word of TEXT, in any case and form, with the matching line.

    --transcripts also searches Claude Code's past conversations of this project, newest first. In a pipe, one line per
    memory: path, line, text; per message: path, line, time, role, text; separated by tabs.
    """
    project, out, words = call.open(), call.out, " ".join(text)
    stores = [store for store, _ in list_everywhere(project, is_everywhere=is_everywhere).values()]
    memories = [
        fill("name path scope line snippet", hit, hit.header) for hit in search_memories(stores, words, limit=limit)
    ]
    transcript_rows: list[Row] = []
    if transcripts:
        folders = list_folders(project.places, project.environment.claude_home, call.cwd)
        hits = search_transcripts(folders, words, limit=limit)
        transcript_rows = [fill("line role snippet", hit, path=hit.file, time=hit.at) for hit in hits]
    if as_json:
        out.json({"query": words, "memories": memories, "transcripts": transcript_rows if transcripts else None})
        return
    tables: list[tuple[Sequence[TableColumn], Sequence[Any]]] = [(_MEMORIES, memories), (_TRANSCRIPTS, transcript_rows)]
    for number, ((first, *others), rows) in enumerate([table for table in tables if table[1]]):
        if number and out.is_table:
            out.line()
        out.table((first if out.is_table else first._replace(cell="path"), *others), rows, project.now())
    if not memories and not transcript_rows and out.is_table:
        out.line("no matches")


@verb("why", "Show when a memory was recalled.", "memdir why terse-replies", "memdir why terse-replies --not-useful")
@name_argument()
@click.option(
    "--not-useful",
    "is_useless",
    is_flag=True,
    help="Record that it was shown for nothing; after three times it must fit better.",
)
@limit_option(20, "Maximum number; 0 for all.", minimum=0)
@scope_option
def why_verb(call: CliContext, name: str, is_useless: bool, limit: int, scope: str | None, as_json: bool) -> None:
    """Show when, at which moment and for which questions or actions a memory was recalled, newest first.

    A memory that was shown at actions also says how often: followed means that the action was not carried out as it was.
    If it never was, lists the reasons why recall returns nothing at all; `memdir recall --explain QUESTION` shows why a
    question did not recall it. In a pipe: time, score, moment, question, session, selector, separated by tabs.
    """
    project, out = call.open(), call.out
    store, past_name = find_past(choose_stores(project, scope), name, scope=scope, recalled=True)
    if is_useless:
        note_useless(store, past_name)
    recalls = store.recalls(past_name)
    rows = [
        fill("at moment query session selector", entry, score=round(entry.score, 4))
        for entry in recalls[: limit or None]
    ]
    outcomes = count_outcomes(recalls)
    count = sum(entry.moment.is_shown for entry in recalls)
    if as_json:
        facts = {"count": count, "actions": asdict(outcomes), "surfaced": rows, "skip_reasons": make_skip_rows()}
        out.json({"name": past_name, "scope": store.scope, **facts})
    elif rows:
        if out.is_table:
            often = "once" if count == 1 else f"{count} times"
            at_actions = f"; at actions {outcomes.describe()}" if outcomes.fired or outcomes.overridden else ""
            out.line(Styled(past_name, "bold"), f" was recalled {often}{at_actions}")
        out.table(_SURFACED, rows, project.now())
    elif out.is_table:
        out.line(Styled(past_name, "bold"), " was never recalled. Recall returns nothing if")
        for skip in make_skip_rows():
            out.line(f"  {skip['words']}", Styled(f"  ({skip['reason']})", "dim"))
