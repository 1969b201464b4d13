"""`list`: what is remembered."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from memdir.conversation.instructions import (
    InstructionMode,
    Instructions,
    LoadedIndex,
    build_instructions,
    find_frame,
    load_indexes,
    make_directories,
)
from memdir.conversation.project_files import (
    DISABLED,
    LoadedFile,
    LoadedFiles,
    LoadRefusal,
    ask_approval,
    find_approved,
    load_for_reads,
    load_project_files,
    render_files,
)
from memdir.errors import NotFoundError
from memdir.frozen import replace
from memdir.interfaces.cli import KINDS, SCOPES, CliContext, CliVerb, json_option, name_argument, scope_option
from memdir.interfaces.cli.names import find_memory
from memdir.interfaces.cli.output import (
    NO_TYPE,
    Output,
    Styled,
    TableColumn,
    complain,
    find_author,
    make_row,
    show_time,
)
from memdir.records import Header, InboxItem, Memory
from memdir.store.files import FileStore
from memdir.store.open import AgentDirectory, AgentScope, Project, find_agent_place
from memdir.text import estimate_tokens

# --- listing ---

_ORDER = {kind: number for number, kind in enumerate((*KINDS, NO_TYPE))}
_COLUMNS = (
    TableColumn("NAME", "cyan", is_cut=True),
    TableColumn("TYPE", "magenta"),
    TableColumn("SCOPE", "dim"),
    TableColumn("AGE", "dim"),
    TableColumn("", "yellow"),
    TableColumn("DESCRIPTION", is_cut=True),
)

Listed = tuple[FileStore, Header]


@click.command(
    "list",
    short_help="What is remembered here.",
    cls=CliVerb,
    examples=("memdir list", "memdir list --type feedback --sort name", "memdir list --json"),
)
@click.option("--type", "kind", type=click.Choice((*KINDS, NO_TYPE)), help="Only memories of this type.")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help="Only this memory: yours for this project, the team's, yours for all projects, or the repository's own.",
)
@click.option(
    "--sort", type=click.Choice(("newest", "name", "type")), default="newest", show_default=True, help="The order."
)
@json_option
@click.pass_obj
def list_verb(call: CliContext, kind: str | None, scope: str | None, sort: str, as_json: bool) -> None:
    """List what is remembered here: the project's memory, what its team shares, and the memory for all projects.

    In a pipe each memory is one line: name, type, scope, time, `pinned` or nothing, description, with tabs between.
    Who wrote a team's memory is told on a terminal and in JSON.
    """
    opened = call.open()
    found = [(store, header) for store in opened.stores for header in store.scan()]
    chosen = sort_headers([at for at in found if _is_wanted(at[1], kind, scope)], sort)
    if as_json:
        call.out.json([make_row(header, store) for store, header in chosen])
    elif chosen:
        call.out.table(_COLUMNS, [_make_cells(header, store, call.out, opened.now()) for store, header in chosen])
    elif call.out.is_table:
        call.out.line("nothing is remembered here yet; `memdir remember TEXT` begins" if not found else "none")


def sort_headers(found: Sequence[Listed], order: str) -> list[Listed]:
    newest = sorted(found, key=lambda at: (at[1].modified, at[1].name), reverse=True)
    if order == "name":
        return sorted(newest, key=lambda at: at[1].name.casefold())
    if order == "type":
        return sorted(newest, key=lambda at: _ORDER[at[1].kind or NO_TYPE])
    return newest


def _is_wanted(header: Header, kind: str | None, scope: str | None) -> bool:
    return (kind is None or kind == (header.kind or NO_TYPE)) and (scope is None or scope == header.scope)


def _make_cells(header: Header, store: FileStore, out: Output, now: datetime) -> list[str]:
    pinned = "pinned" if header.pinned else ""
    when = show_time(out, header.modified, now)
    author = find_author(header, store) if out.is_table else None
    scope = f"{header.scope} by {author}" if author else header.scope
    return [header.name, header.kind or NO_TYPE, scope, when, pinned, header.description]


# --- reading ---
# `read`: one memory.


@click.command(
    "read",
    short_help="One memory.",
    cls=CliVerb,
    examples=("memdir read terse-replies", "memdir read 'Terse replies' --json"),
)
@name_argument()
@scope_option
@click.option("--raw", is_flag=True, help="The file's exact bytes; on a terminal they are still made printable.")
@json_option
@click.pass_obj
def read_verb(call: CliContext, name: str, scope: str | None, raw: bool, as_json: bool) -> None:
    """Print one memory. NAME is its name, a title that only one memory has, or its path."""
    opened = call.open()
    store, header = find_memory(opened, name, scope)
    memory = store.read(header.name)
    if as_json:
        extra = {"body": memory.body, "text": memory.text, "digest": memory.digest}
        call.out.json(make_row(memory.header, store) | extra)
    elif raw:
        data = store.read_bytes(header.file)
        if data is None:
            raise NotFoundError(f"{header.name} is gone", name=header.name)
        call.out.raw(data)
    else:
        _show_memory(call.out, memory, store, opened.now())


def _show_memory(out: Output, memory: Memory, store: FileStore, now: datetime) -> None:
    header = memory.header
    author = find_author(header, store)
    scope = f"{header.scope.value} by {author}" if author else header.scope.value
    facts = [header.kind or "no type", scope, show_time(out, header.modified, now)]
    out.line(Styled(header.title, "bold"))
    out.line(Styled(" · ".join([*facts, *(["pinned"] if header.pinned else [])]), "dim"))
    out.line(Styled(str(store.root / header.file), "dim"))
    if header.description:
        out.line(header.description)
    if header.problem:
        out.line(Styled(f"problem: {header.problem}", "yellow"))
    out.line()
    out.block(memory.body)


# --- showing ---
# `show`: what a session would load, after the cut and with the warning.


@click.command(
    "show", short_help="What a session would load.", cls=CliVerb, examples=("memdir show", "memdir show --json")
)
@json_option
@click.pass_obj
def show_verb(call: CliContext, as_json: bool) -> None:
    """Print what a session would load: each index after the cut, with the warning if there was one."""
    opened = call.open()
    switch = opened.places.switch
    clips = load_indexes(find_frame(opened))
    if as_json:
        call.out.json({"on": switch.on, "rule": switch.rule, "indexes": [make_index_row(at) for at in clips]})
        return
    if not switch.on:
        call.out.line(f"memory is off ({switch.rule}): a session loads nothing")
    elif opened.environment.disable_claude_mds:
        call.out.line(f"{DISABLED} is set: a session loads no index")
    for number, loaded in enumerate(clips):
        if number:
            call.out.line()
        show_index(call, loaded)


def make_index_row(loaded: LoadedIndex) -> dict[str, Any]:
    clip = loaded.clip
    return {
        "scope": loaded.scope.value,
        "path": loaded.path,
        "text": clip.text,
        "lines": clip.lines,
        "lines_total": clip.lines_total,
        "bytes": clip.bytes,
        "bytes_total": clip.bytes_total,
        "dead": clip.dead,
        "over_lines": clip.over_lines,
        "over_bytes": clip.over_bytes,
        "warning": clip.warning,
    }


def make_part_rows(told: Instructions) -> list[dict[str, Any]]:
    """What a session is told of its memory, piece by piece and how large; an index has a path."""
    guidance = [{"part": part.name, "path": None, **measure_text(part.text)} for part in told.parts]
    heading = [{"part": "index", "path": None, **measure_text(told.heading)}] if told.heading else []
    indexes = [
        {"part": f"index of {loaded.scope.value} memory", "path": loaded.path, **measure_text(loaded.text)}
        for loaded in told.clips
        if loaded.text
    ]
    return [*guidance, *heading, *indexes]


def measure_text(text: str) -> dict[str, int]:
    return {"chars": len(text), "bytes": len(text.encode("utf-8", "replace")), "tokens": estimate_tokens(text)}


def show_index(call: CliContext, loaded: LoadedIndex) -> None:
    clip = loaded.clip
    dead = f", {clip.dead} to missing files left out" if clip.dead else ""
    counts = f"{clip.lines} of {clip.lines_total} lines, {clip.bytes:,} of {clip.bytes_total:,} bytes{dead}"
    call.out.line(Styled(f"{loaded.scope}: {loaded.path}", "bold"), Styled(f" ({counts})", "dim"))
    if clip.text:
        call.out.block(clip.text)
    else:
        call.out.line("nothing to load")
    if clip.warning:
        call.out.line(Styled(f"> {clip.warning}", "yellow"))


# --- prompting ---
# `prompt`: what an agent is told of its memory at the start of a session.

_PARTS = ("all", "guidance", "index")


@click.command(
    "prompt",
    short_help="What an agent is told of its memory.",
    cls=CliVerb,
    examples=(
        "memdir prompt",
        "memdir prompt --part guidance --json",
        "memdir prompt --agent reviewer --scope project",
    ),
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in InstructionMode]),
    help="This mode instead of the settings' own.",
)
@click.option("--agent", metavar="NAME", help="For this agent's own memory; needs --scope.")
@click.option(
    "--scope", type=click.Choice([scope.value for scope in AgentScope]), help="Where that agent's memory counts."
)
@click.option(
    "--part", type=click.Choice(_PARTS), default="all", show_default=True, help="Print only this of the text."
)
@json_option
@click.pass_obj
def prompt_verb(
    call: CliContext, mode: str | None, agent: str | None, scope: str | None, part: str, as_json: bool
) -> None:
    """Print the section for the system prompt: the guidance, which stays the same, then the indexes as they are now.

    A model is only told of directories that exist, so the missing ones are made (mode 0700), and a line on standard
    error says which. With memory switched off nothing is printed. JSON holds the whole text whatever --part says, with
    an estimate of the tokens of each part.
    """
    _check_options(mode, agent, scope)
    opened = call.open()
    place = _find_place(opened, agent, scope)
    frame = find_frame(opened, mode=InstructionMode(mode) if mode else None, agent=place)
    made = [str(path) for path in make_directories(frame)]
    told = build_instructions(opened, mode=frame.mode, agent=place)
    for path in made:
        complain(f"made {path}, so that a model can be told of it")
    if as_json:
        call.out.json(_make_facts(opened, told, made))
    elif told.mode is InstructionMode.OFF:
        complain("memory is off" + (f" ({opened.places.switch.rule})" if not opened.places.switch.on else ""))
    else:
        text = {"all": told.text, "guidance": told.guidance, "index": told.index}[part]
        call.out.raw(f"{text}\n".encode("utf-8", "replace") if text else b"")


def _check_options(mode: str | None, agent: str | None, scope: str | None) -> None:
    if (agent is None) != (scope is None):
        raise click.UsageError("--agent and --scope go together: `--agent reviewer --scope project`")
    if (mode == InstructionMode.AGENT) != (agent is not None) and (agent is None or mode is not None):
        raise click.UsageError("--mode agent needs --agent NAME --scope SCOPE, and no other mode takes them")


def _find_place(opened: Project, agent: str | None, scope: str | None) -> AgentDirectory | None:
    if agent is None or scope is None:
        return None
    root = opened.places.root.path
    return find_agent_place(agent, AgentScope(scope), environment=opened.environment, root=root)


def _make_facts(opened: Project, told: Instructions, made: list[str]) -> dict[str, Any]:
    return {
        "on": opened.places.switch.on,
        "rule": opened.places.switch.rule,
        "mode": told.mode.value,
        "guidance": told.guidance,
        "index": told.index,
        "tokens": {"guidance": estimate_tokens(told.guidance), "index": estimate_tokens(told.index)},
        "parts": [{"name": at.name, "text": at.text, "tokens": estimate_tokens(at.text)} for at in told.parts],
        "indexes": [make_index_row(at) | {"tokens": estimate_tokens(at.text)} for at in told.clips],
        "made": made,
    }


# --- surroundings ---
# `context`: what a session is given at its start, from where and why, how large it is, and what was refused.


@click.command(
    "context",
    short_help="Which instruction files a session loads, and which not.",
    cls=CliVerb,
    examples=("memdir context", "memdir context --file src/app.ts", "memdir context --json", "memdir context --text"),
)
@click.option(
    "--file", "files", multiple=True, metavar="PATH", type=click.Path(), help="Also what reading this file would add."
)
@click.option("--text", "as_text", is_flag=True, help="Print the text itself.")
@json_option
@click.pass_obj
def context_verb(call: CliContext, files: tuple[str, ...], as_text: bool, as_json: bool) -> None:
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
    facts = _surroundings_make_facts(opened, call.cwd, whole, told, len(start.files), waiting)
    if as_json:
        call.out.json(facts)
    else:
        _show(call.out, facts)


def _load(opened: Project, cwd: Path, files: tuple[str, ...]) -> tuple[LoadedFiles, LoadedFiles]:
    approved = find_approved(opened.private)
    start = load_project_files(opened.environment, opened.places, cwd, approved=approved)
    if not files:
        return start, LoadedFiles()
    paths = [Path(file) for file in files]
    return start, load_for_reads(opened.environment, opened.places, cwd, paths, start, approved=approved)


def _join(start: LoadedFiles, added: LoadedFiles) -> LoadedFiles:
    """All of it; a rule that was read for a file waits no longer."""
    here = {file.real for file in added.files}
    pending = {rule.real: rule for rule in (*start.pending, *added.pending) if rule.real not in here}
    refusals = (*start.refusals, *added.refusals)
    return replace(start, files=(*start.files, *added.files), refusals=refusals, pending=tuple(pending.values()))


def _ask(opened: Project, loaded: LoadedFiles) -> tuple[InboxItem, ...]:
    """Nothing is written where memory is off; the refusals are shown all the same."""
    if not opened.places.switch.on:
        return ()
    return ask_approval(opened.private, loaded.asks, opened.now(), session=opened.environment.session)


def _surroundings_make_facts(
    opened: Project, cwd: Path, loaded: LoadedFiles, told: Instructions, started: int, waiting: tuple[InboxItem, ...]
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


def _make_refusal(refusal: LoadRefusal, item: int | None) -> dict[str, Any]:
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
