"""`search`: plain search over memories and past transcripts, with the place."""

import os
from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.output import Output
from memdir.doors.cli.rows import make_time, show_time
from memdir.doors.cli.verb import Verb, json_option
from memdir.finding import Hit, find_memories
from memdir.opening import Opened
from memdir.transcript_search import Said, list_folders, search_transcripts

_LIMIT = 20
_MEMORIES = (Column("NAME", "cyan", is_cut=True), Column("LINE", "dim"), Column("TEXT", is_cut=True))
_TRANSCRIPTS = (
    Column("TRANSCRIPT", "cyan", is_cut=True),
    Column("LINE", "dim"),
    Column("WHEN", "dim"),
    Column("WHO", "magenta"),
    Column("TEXT", is_cut=True),
)


@click.command(
    "search",
    short_help="Where certain words stand.",
    cls=Verb,
    examples=("memdir search merge freeze", "memdir search --transcripts 'flaky test' --limit 5"),
)
@click.argument("text", nargs=-1, required=True, metavar="TEXT")
@click.option("--transcripts", is_flag=True, help="Look into past conversations of this project too.")
@click.option("--limit", type=click.IntRange(min=1), default=_LIMIT, show_default=True, help="At most so many of each.")
@json_option
@click.pass_obj
def search_verb(call: Call, text: tuple[str, ...], transcripts: bool, limit: int, as_json: bool) -> None:
    """Find memories that hold every word of TEXT, in any case and form, with the line where they stand.

    With --transcripts also messages of past conversations that Claude Code has kept of this project, newest first. In
    a pipe each memory is one line: path, line, text; each message: path, line, time, who, text; with tabs between.
    """
    opened = call.open()
    words = " ".join(text)
    hits = find_memories(opened.stores, words, limit=limit)
    said: tuple[Said, ...] = ()
    if transcripts:
        folders = list_folders(opened.places, opened.environment.claude_home, call.cwd)
        said = search_transcripts(folders, words, limit=limit)
    if as_json:
        rows = [_make_row(at) for at in said] if transcripts else None
        call.out.json({"query": words, "memories": [_make_hit_row(hit) for hit in hits], "transcripts": rows})
    else:
        _show(call.out, opened, hits, said)


def _make_hit_row(hit: Hit) -> dict[str, Any]:
    return {
        "name": hit.header.name,
        "path": hit.path,
        "scope": hit.header.scope.value,
        "line": hit.line,
        "snippet": hit.snippet,
    }


def _make_row(said: Said) -> dict[str, Any]:
    return {
        "path": said.file,
        "line": said.line,
        "time": make_time(said.at) if said.at else None,
        "role": said.role,
        "snippet": said.snippet,
    }


def _show(out: Output, opened: Opened, hits: tuple[Hit, ...], said: tuple[Said, ...]) -> None:
    if hits:
        names = [at.header.name if out.is_table else at.path for at in hits]
        out.table(_MEMORIES, [[name, str(at.line), at.snippet] for name, at in zip(names, hits, strict=True)])
    if hits and said and out.is_table:
        out.line()
    if said:
        out.table(_TRANSCRIPTS, [_make_cells(at, out, opened) for at in said])
    if not hits and not said and out.is_table:
        out.line("these words stand nowhere together")


def _make_cells(said: Said, out: Output, opened: Opened) -> list[str]:
    when = show_time(out, said.at, opened.now()) if said.at else ""
    file = os.path.basename(said.file) if out.is_table else said.file
    return [file, str(said.line), when, said.role, said.snippet]
