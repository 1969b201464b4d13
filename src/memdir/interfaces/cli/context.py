"""`show`, `prompt` and `context`: what a session is given at its start, from where, and how large it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

import click

from memdir.conversation import instructions, project_files
from memdir.conversation.instructions import InstructionMode, Instructions, LoadedIndex, build_instructions, find_frame
from memdir.conversation.project_files import InstructionLayer, NotLoadedReason
from memdir.frozen import replace
from memdir.interfaces.cli import CliContext
from memdir.interfaces.cli.app import json_option, verb
from memdir.interfaces.cli.output import Count, Output, Styled, complain, fill
from memdir.records import InboxItem, Scope
from memdir.store.open import AgentScope, find_agent_place
from memdir.text import estimate_tokens


class LoadedIndexRow(TypedDict):
    """An index as a session loads it. `dead` counts pointers to missing files, which are left out."""

    scope: Scope
    path: str
    text: str
    lines: Count
    lines_total: Count
    bytes: Count
    bytes_total: Count
    dead: Count
    over_lines: bool
    over_bytes: bool
    warning: str


class PromptIndexRow(LoadedIndexRow):
    tokens: Count


class ShowRow(TypedDict):
    """Each index as a session loads it; there are none when memory is off."""

    on: bool
    rule: str
    indexes: list[LoadedIndexRow]


class PromptTokensRow(TypedDict):
    guidance: Count
    index: Count


class GuidanceRow(TypedDict):
    name: str
    text: str
    tokens: Count


class PromptRow(TypedDict):
    """What an agent is given of its memory: `guidance` stays the same, `index` is what is remembered now; `parts` and
    `indexes` are their parts. Tokens are estimates. `made` are the directories that were created. With memory off the
    texts are empty."""

    on: bool
    rule: str
    mode: InstructionMode
    guidance: str
    index: str
    tokens: PromptTokensRow
    parts: list[GuidanceRow]
    indexes: list[PromptIndexRow]
    made: list[str]


class SizeRow(TypedDict):
    """The size of a text; tokens are estimates."""

    chars: Count
    bytes: Count
    tokens: Count


class PartRow(SizeRow):
    """A part of the memory's own instructions; an index has a path."""

    part: str
    path: str | None


class ContextFileRow(SizeRow):
    """An instruction file. `by` is the file that includes it; `added`: reading a `--file` would add it."""

    path: str
    real: str
    layer: InstructionLayer
    what: str
    why: str
    by: str | None
    depth: Count
    added: bool
    oversize: bool


class PendingRow(TypedDict):
    """A rule that is loaded when a file is read that its `paths` match, from the folder `base`."""

    path: str
    layer: InstructionLayer
    base: str
    paths: list[str]


class RefusedRow(TypedDict):
    """What was not loaded. `inbox` is the item under which a file outside the project needs review."""

    path: str
    real: str | None
    reason: NotLoadedReason
    words: str
    by: str
    inbox: int | None


class ContextRow(TypedDict):
    """What a session is given at its start: instruction files, lowest first, then the memory's own instructions and
    indexes. Sizes are of the text as loaded. `disabled` names the switch that turned instruction files and indexes off."""

    cwd: str
    root: str
    disabled: str | None
    files: list[ContextFileRow]
    memory: list[PartRow]
    total: SizeRow
    pending: list[PendingRow]
    refused: list[RefusedRow]


@verb("show", "What a session loads of the index; `read` prints one memory.", "memdir show", "memdir show --json")
@json_option(ShowRow)
@click.pass_obj
def show_verb(call: CliContext, as_json: bool) -> None:
    """Print what a session would load: each index after the cut, with the warning if there was one."""
    project = call.open()
    switch = project.places.switch
    indexes = instructions.load_indexes(find_frame(project))
    if as_json:
        call.out.json(fill(ShowRow, switch, indexes=[make_index_row(at) for at in indexes]))
        return
    if not switch.on:
        call.out.line(f"memory is off ({switch.rule}): a session loads nothing")
    elif project.environment.disable_claude_mds:
        call.out.line(f"{project_files.DISABLED} is set: a session loads no index")
    for number, loaded in enumerate(indexes):
        if number:
            call.out.line()
        show_index(call.out, loaded)


@verb(
    "prompt", "What an agent is told of its memory.",
    "memdir prompt", "memdir prompt --part guidance --json", "memdir prompt --agent reviewer --scope project",
)  # fmt: skip
@click.option("--mode", type=click.Choice([*map(str, InstructionMode)]), help="This mode instead of the settings' own.")
@click.option("--agent", metavar="NAME", help="For this agent's own memory; needs --scope.")
@click.option("--scope", type=click.Choice([*map(str, AgentScope)]), help="Where that agent's memory counts.")
@click.option(
    "--part", type=click.Choice(("all", "guidance", "index")), default="all", show_default=True,
    help="Print only this of the text.",
)  # fmt: skip
@json_option(PromptRow)
@click.pass_obj
def prompt_verb(
    call: CliContext, mode: str | None, agent: str | None, scope: str | None, part: str, as_json: bool
) -> None:
    """Print the section for the system prompt: the guidance, which stays the same, then the indexes as they are now.

    A model is only told of directories that exist, so missing ones are created (mode 0700), and a line on standard error
    says which. With memory switched off nothing is printed. JSON holds the whole text whatever --part says, with an
    estimate of the tokens of each part.
    """
    if (agent is None) != (scope is None):
        raise click.UsageError("--agent and --scope go together: `--agent reviewer --scope project`")
    if (mode == InstructionMode.AGENT) != (agent is not None) and (agent is None or mode is not None):
        raise click.UsageError("--mode agent needs --agent NAME --scope SCOPE, and no other mode takes them")
    project = call.open()
    switch = project.places.switch
    own, root = None, project.places.root.path
    if agent is not None and scope is not None:
        own = find_agent_place(agent, AgentScope(scope), environment=project.environment, root=root)
    frame = find_frame(project, mode=InstructionMode(mode) if mode else None, agent=own)
    made = _make_directories(frame)
    built = build_instructions(project, mode=frame.mode, agent=own)
    if as_json:
        tokens = {"guidance": estimate_tokens(built.guidance), "index": estimate_tokens(built.index)}
        parts = [fill(GuidanceRow, at, tokens=estimate_tokens(at.text)) for at in built.parts]
        indexes = [fill(PromptIndexRow, make_index_row(at), tokens=estimate_tokens(at.text)) for at in built.clips]
        call.out.json(fill(PromptRow, switch, built, tokens=tokens, parts=parts, indexes=indexes, made=made))
    elif built.mode is InstructionMode.OFF:
        complain("memory is off" + (f" ({switch.rule})" if not switch.on else ""))
    else:
        text = {"all": built.text, "guidance": built.guidance, "index": built.index}[part]
        call.out.raw(f"{text}\n".encode("utf-8", "replace") if text else b"")


@verb(
    "context", "Which instruction files a session loads; `where` shows directories.",
    "memdir context", "memdir context --file src/app.ts", "memdir context --json", "memdir context --text",
)  # fmt: skip
@click.option(
    "--file", "files", multiple=True, metavar="PATH", type=click.Path(), help="Also what reading this file would add."
)
@click.option("--text", "as_text", is_flag=True, help="Print the text itself.")
@json_option(ContextRow)
@click.pass_obj
def context_verb(call: CliContext, files: tuple[str, ...], as_text: bool, as_json: bool) -> None:
    """List everything a session is given at its start: instruction files in order, then the memory's own instructions.

    Sizes are of the text as loaded; tokens are estimated. What was refused is listed with its reason. A file outside
    the project is put into the inbox and loaded once a person has approved it. The text of --text is for a model, which
    is only told of directories that exist; so missing ones are created, as by `memdir prompt`.
    """
    if as_text and as_json:
        raise click.UsageError("--text and --json cannot be used together")
    project, cwd = call.open(), call.cwd
    environment, places, approved = project.environment, project.places, project_files.find_approved(project.private)
    loaded = project_files.load_project_files(environment, places, cwd, approved=approved)
    started = len(loaded.files)
    if files:
        paths = [Path(file) for file in files]
        added = project_files.load_for_reads(environment, places, cwd, paths, loaded, approved=approved)
        here = {file.real for file in added.files}
        pending = {rule.real: rule for rule in (*loaded.pending, *added.pending) if rule.real not in here}
        refusals, every = (*loaded.refusals, *added.refusals), (*loaded.files, *added.files)
        loaded = replace(loaded, files=every, refusals=refusals, pending=tuple(pending.values()))
    if as_text:
        _make_directories(find_frame(project))
    built = build_instructions(project, make=False)
    waiting: tuple[InboxItem, ...] = ()
    if places.switch.on:  # nothing is written where memory is off; the refusals are shown all the same
        waiting = project_files.ask_approval(project.private, loaded.asks, project.now(), session=environment.session)
    if as_text:
        text = "\n".join(part for part in (project_files.render_files(loaded), built.text) if part)
        call.out.raw(f"{text.rstrip()}\n".encode("utf-8", "replace") if text else b"")
        return
    items = {str(item.payload.get("real")): item.id for item in waiting}
    file_rows = [
        fill(ContextFileRow, _measure(file.text), file, added=number >= started, oversize=file.is_oversize)
        for number, file in enumerate(loaded.files)
    ]
    memory = make_part_rows(built)
    sizes: list[Literal["chars", "bytes", "tokens"]] = ["chars", "bytes", "tokens"]
    total = {key: sum(row[key] for row in (*file_rows, *memory)) for key in sizes}
    refused = [fill(RefusedRow, at, words=at.reason.words, inbox=items.get(at.real)) for at in loaded.refusals]
    facts = {"cwd": cwd, "root": places.root.path, "files": file_rows, "memory": memory, "total": total}
    row = fill(ContextRow, loaded, refused=refused, **facts)
    if as_json:
        call.out.json(row)
    else:
        _show_context(call.out, row)


def make_index_row(loaded: LoadedIndex) -> LoadedIndexRow:
    return fill(LoadedIndexRow, loaded.clip, scope=loaded.scope, path=loaded.path)


def show_index(out: Output, loaded: LoadedIndex) -> None:
    clip = loaded.clip
    dead = f", {clip.dead} to missing files left out" if clip.dead else ""
    counts = f"{clip.lines} of {clip.lines_total} lines, {clip.bytes:,} of {clip.bytes_total:,} bytes{dead}"
    out.line(Styled(f"{loaded.scope}: {loaded.path}", "bold"), Styled(f" ({counts})", "dim"))
    out.block(clip.text or "nothing to load")
    if clip.warning:
        out.line(Styled(f"> {clip.warning}", "yellow"))


def make_part_rows(built: Instructions) -> list[PartRow]:
    """What a session is given of its memory, part by part and how large."""
    parts = [(part.name, None, part.text) for part in built.parts]
    parts += [("index", None, built.heading)] if built.heading else []
    indexes = [(f"index of {at.scope.value} memory", at.path, at.text) for at in built.clips if at.text]
    return [fill(PartRow, _measure(text), part=part, path=path) for part, path, text in (*parts, *indexes)]


def _measure(text: str) -> SizeRow:
    return {"chars": len(text), "bytes": len(text.encode("utf-8", "replace")), "tokens": estimate_tokens(text)}


def _make_directories(frame: instructions.InstructionsContext) -> list[str]:
    made = [str(path) for path in instructions.make_directories(frame)]
    for path in made:
        complain(f"made {path}, so that a model can be told of it")
    return made


def _show_context(out: Output, row: ContextRow) -> None:
    total = row["total"]
    out.line(Styled(f"about {total['tokens']:,} tokens", "bold"), f" ({total['bytes']:,} bytes) before the first word")
    if row["disabled"]:
        out.line(Styled(f"no instruction files and no index: {row['disabled']} is set", "yellow"))
    files: list[tuple[str, Styled]] = []
    for file in row["files"]:
        mark = Styled("  oversize" if file["oversize"] else "", "yellow")
        files.append((f"  {file['tokens']:>7,}  {'  ' * file['depth']}{file['path']}", mark))
        if file["why"] and not file["by"]:
            why = f"           {'added: ' if file['added'] else ''}{file['what']}; {file['why']}"
            files.append(("", Styled(why, "dim")))
    refused = [(at, f"; `memdir inbox show {at['inbox']}`" if at["inbox"] else "") for at in row["refused"]]
    sections: dict[str, Sequence[tuple[str | Styled, ...]]] = {
        "instruction files": files,
        "memory": [(f"  {part['tokens']:>7,}  {part['path'] or part['part']}",) for part in row["memory"]],
        "rules that wait for a file": [
            (f"  {rule['path']}", Styled(f"  paths: {', '.join(rule['paths'])}", "dim")) for rule in row["pending"]
        ],
        "not loaded": [
            (f"  {at['path']}", Styled(f"  {at['words']}{wait} ({at['by']})", "dim")) for at, wait in refused
        ],
    }
    for title, lines in sections.items():
        if lines:
            out.line()
            out.line(Styled(title, "bold"))
        for line in lines:
            out.line(*line)
