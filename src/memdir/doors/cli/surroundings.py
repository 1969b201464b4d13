"""`context`: what a session is given at its start, from where and why, how large it is, and what was refused."""

from pathlib import Path
from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Output, Styled, complain
from memdir.doors.cli.showing import make_part_rows, measure_text
from memdir.doors.cli.verb import Verb, json_option
from memdir.frozen import replace
from memdir.instructions import Instructions, build_instructions, find_frame, make_directories
from memdir.opening import Opened
from memdir.project_files import (
    Loaded,
    LoadedFile,
    Refusal,
    ask,
    find_approved,
    load_for_reads,
    load_project_files,
    render_files,
)
from memdir.records import InboxItem


@click.command(
    "context",
    short_help="Which instruction files a session loads, and which not.",
    cls=Verb,
    examples=("memdir context", "memdir context --file src/app.ts", "memdir context --json", "memdir context --text"),
)
@click.option(
    "--file", "files", multiple=True, metavar="PATH", type=click.Path(), help="Also what reading this file would add."
)
@click.option("--text", "as_text", is_flag=True, help="Print the text itself.")
@json_option
@click.pass_obj
def context_verb(call: Call, files: tuple[str, ...], as_text: bool, as_json: bool) -> None:
    """List everything a session is given at its start: instruction files in order, then the memory's own instructions.

    Sizes are of the text as loaded; tokens are estimated. What was refused is listed with its reason. A file outside
    the project is put into the inbox and loaded once a person has approved it. The text of --text is for a model, which
    is only told of directories that exist; so the missing ones are made, as by `memdir prompt`.
    """
    if as_text and as_json:
        raise click.UsageError("--text and --json cannot be used together")
    opened = call.open()
    start, added = _load(opened, call.cwd, files)
    for path in make_directories(find_frame(opened)) if as_text else ():
        complain(f"made {path}, so that a model can be told of it")
    told = build_instructions(opened, make=False)
    whole = _join(start, added)
    waiting = _ask(opened, whole)
    if as_text:
        text = "\n".join(part for part in (render_files(whole), told.text) if part)
        call.out.raw(f"{text.rstrip()}\n".encode("utf-8", "replace") if text else b"")
        return
    facts = _make_facts(opened, call.cwd, whole, told, len(start.files), waiting)
    if as_json:
        call.out.json(facts)
    else:
        _show(call.out, facts)


def _load(opened: Opened, cwd: Path, files: tuple[str, ...]) -> tuple[Loaded, Loaded]:
    approved = find_approved(opened.private)
    start = load_project_files(opened.environment, opened.places, cwd, approved=approved)
    if not files:
        return start, Loaded()
    paths = [Path(file) for file in files]
    return start, load_for_reads(opened.environment, opened.places, cwd, paths, start, approved=approved)


def _join(start: Loaded, added: Loaded) -> Loaded:
    """All of it; a rule that was read for a file waits no longer."""
    here = {file.real for file in added.files}
    pending = {rule.real: rule for rule in (*start.pending, *added.pending) if rule.real not in here}
    refusals = (*start.refusals, *added.refusals)
    return replace(start, files=(*start.files, *added.files), refusals=refusals, pending=tuple(pending.values()))


def _ask(opened: Opened, loaded: Loaded) -> tuple[InboxItem, ...]:
    """Nothing is written where memory is off; the refusals are shown all the same."""
    if not opened.places.switch.on:
        return ()
    return ask(opened.private, loaded.asks, opened.now(), session=opened.environment.session)


def _make_facts(
    opened: Opened, cwd: Path, loaded: Loaded, told: Instructions, started: int, waiting: tuple[InboxItem, ...]
) -> dict[str, Any]:
    items = {str(item.payload.get("real")): item.id for item in waiting}
    files = [_make_file(file, is_added=number >= started) for number, file in enumerate(loaded.files)]
    memory = make_part_rows(told)
    rows = [*files, *memory]
    return {
        "cwd": str(cwd),
        "root": str(opened.places.root.path),
        "disabled": loaded.disabled or None,
        "files": files,
        "memory": memory,
        "total": {key: sum(row[key] for row in rows) for key in ("chars", "bytes", "tokens")},
        "pending": [
            {"path": rule.path, "layer": rule.layer.value, "base": rule.base, "paths": list(rule.paths)}
            for rule in loaded.pending
        ],
        "refused": [_make_refusal(refusal, items.get(refusal.real)) for refusal in loaded.refusals],
    }


def _make_file(file: LoadedFile, *, is_added: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "real": file.real,
        "layer": file.layer.value,
        "what": file.what,
        "why": file.why,
        "by": file.by or None,
        "depth": file.depth,
        "added": is_added,
        **measure_text(file.text),
        "oversize": file.is_oversize,
    }


def _make_refusal(refusal: Refusal, item: int | None) -> dict[str, Any]:
    return {
        "path": refusal.path,
        "real": refusal.real or None,
        "reason": refusal.reason.value,
        "words": refusal.reason.words,
        "by": refusal.by,
        "inbox": item,
    }


def _show(out: Output, facts: dict[str, Any]) -> None:
    total = facts["total"]
    out.line(Styled(f"about {total['tokens']:,} tokens", "bold"), f" ({total['bytes']:,} bytes) before the first word")
    if facts["disabled"]:
        out.line(Styled(f"no instruction files and no index: {facts['disabled']} is set", "yellow"))
    _show_rows(out, "instruction files", facts["files"])
    _show_rows(out, "memory", facts["memory"])
    if facts["pending"]:
        out.line()
        out.line(Styled("rules that wait for a file", "bold"))
        for rule in facts["pending"]:
            out.line(f"  {rule['path']}", Styled(f"  paths: {', '.join(rule['paths'])}", "dim"))
    if facts["refused"]:
        out.line()
        out.line(Styled("not loaded", "bold"))
        for row in facts["refused"]:
            wait = f"; `memdir inbox show {row['inbox']}`" if row["inbox"] else ""
            out.line(f"  {row['path']}", Styled(f"  {row['words']}{wait} ({row['by']})", "dim"))


def _show_rows(out: Output, title: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    out.line()
    out.line(Styled(title, "bold"))
    for row in rows:
        name = row["path"] or row["part"]
        mark = "  oversize" if row.get("oversize") else ""
        out.line(f"  {row['tokens']:>7,}  {'  ' * row.get('depth', 0)}{name}", Styled(mark, "yellow"))
        if row.get("why") and not row["by"]:
            out.line(Styled(f"           {'added: ' if row['added'] else ''}{row['what']}; {row['why']}", "dim"))
