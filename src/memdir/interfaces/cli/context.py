"""The commands `show`, `prompt` and `context`: what a session loads at its start, with sources and sizes."""

from collections.abc import Sequence
from pathlib import Path

import click

from memdir.conversation import instructions, project_files
from memdir.conversation.instructions import InstructionMode, Instructions, LoadedIndex, build_instructions, find_frame
from memdir.frozen import replace
from memdir.interfaces.cli import CliContext, Output, Row, Styled, complain, fill
from memdir.interfaces.cli.app import verb
from memdir.records import InboxItem
from memdir.store.open import AgentScope, find_agent_place
from memdir.text import estimate_tokens

_CLIP = "text lines lines_total bytes bytes_total dead over_lines over_bytes warning"


@verb("show", "Print the index a session loads; `read` prints a memory.", "memdir show", "memdir show --json")
def show_verb(call: CliContext, as_json: bool) -> None:
    """Print each index as a session loads it: truncated to its limit, with a warning if so."""
    project = call.open()
    switch = project.places.switch
    indexes = instructions.load_indexes(find_frame(project))
    if as_json:
        call.out.json(fill("on rule", switch, indexes=[make_index_row(index) for index in indexes]))
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
    "prompt", "Print the memory section of the system prompt.",
    "memdir prompt", "memdir prompt --part guidance --json", "memdir prompt --agent reviewer --scope project",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice([*map(str, InstructionMode)]), help="Use this mode instead of the configured one."
)
@click.option("--agent", metavar="NAME", help="For this agent's own memory; needs --scope.")
@click.option("--scope", type=click.Choice([*map(str, AgentScope)]), help="The scope of that agent's memory.")
@click.option(
    "--part", type=click.Choice(("all", "guidance", "index")), default="all", show_default=True,
    help="Print only this part.",
)  # fmt: skip
def prompt_verb(
    call: CliContext, mode: str | None, agent: str | None, scope: str | None, part: str, as_json: bool
) -> None:
    """Print the memory section of the system prompt: the guidance, which does not change, then the current indexes.

    The prompt lists only existing directories, so missing ones are created (mode 0700) and reported on standard error.
    If memory is off, nothing is printed. --json always contains the full text, with estimated tokens of each part.
    """
    if (agent is None) != (scope is None):
        raise click.UsageError("pass --agent and --scope together, as in `--agent reviewer --scope project`")
    if (mode == InstructionMode.AGENT) != (agent is not None) and (agent is None or mode is not None):
        raise click.UsageError("--mode agent needs --agent NAME and --scope SCOPE; other modes do not accept them")
    project = call.open()
    switch = project.places.switch
    own, root = None, project.places.root.path
    if agent is not None and scope is not None:
        own = find_agent_place(agent, AgentScope(scope), environment=project.environment, root=root)
    frame = find_frame(project, mode=InstructionMode(mode) if mode else None, agent=own)
    created_paths = _make_directories(frame)
    built = build_instructions(project, mode=frame.mode, agent=own)
    if as_json:
        tokens = {"guidance": estimate_tokens(built.guidance), "index": estimate_tokens(built.index)}
        parts = [{"name": name, "text": text, "tokens": estimate_tokens(text)} for name, text in built.parts.items()]
        indexes = [make_index_row(clip) | {"tokens": estimate_tokens(clip.text)} for clip in built.clips]
        facts = {"tokens": tokens, "parts": parts, "indexes": indexes, "made": created_paths}
        call.out.json(fill("on rule mode guidance index", switch, built, **facts))
    elif built.mode is InstructionMode.OFF:
        complain("memory is off" + (f" ({switch.rule})" if not switch.on else ""))
    else:
        text = {"all": built.text, "guidance": built.guidance, "index": built.index}[part]
        call.out.raw(f"{text}\n".encode("utf-8", "replace") if text else b"")


@verb(
    "context", "List the instruction files a session loads.",
    "memdir context", "memdir context --file src/app.ts", "memdir context --json",
)  # fmt: skip
@click.option("--file", "files", multiple=True, metavar="PATH", type=click.Path(), help="Add the rules for this file.")
def context_verb(call: CliContext, files: tuple[str, ...], as_json: bool) -> None:
    """List everything a session loads at its start: instruction files in order, then the memory's own instructions.

    Sizes are of the loaded text; tokens are estimated. Refused files are listed with the reason. A file outside the
    project goes to the inbox and is loaded once you approve it.
    """
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
    built = build_instructions(project, make=False)
    waiting: tuple[InboxItem, ...] = ()
    if places.switch.on:  # Nothing is written if memory is off, but refusals are still shown.
        waiting = project_files.ask_approval(project.private, loaded.asks, project.now(), session=environment.session)
    items = {str(item.payload.get("real")): item.id for item in waiting}
    file_rows = [
        _measure(file.text) | fill("path real layer what why by? depth oversize", file, added=number >= started)
        for number, file in enumerate(loaded.files)
    ]
    memory = make_part_rows(built)
    row = fill(
        "disabled?",
        loaded,
        cwd=cwd,
        root=places.root.path,
        files=file_rows,
        memory=memory,
        total={key: sum(part[key] for part in (*file_rows, *memory)) for key in ("chars", "bytes", "tokens")},
        pending=[fill("path layer base paths", pending_file) for pending_file in loaded.pending],
        refused=[
            fill("path real? reason by", one, words=one.reason.words, inbox=items.get(one.real))
            for one in loaded.refusals
        ],
    )
    if as_json:
        call.out.json(row)
    else:
        _show_context(call.out, row)


def make_index_row(loaded: LoadedIndex) -> Row:
    return fill(_CLIP, loaded.clip, scope=loaded.scope, path=loaded.path)


def show_index(out: Output, loaded: LoadedIndex) -> None:
    clip = loaded.clip
    dead = f", {clip.dead} to missing files left out" if clip.dead else ""
    counts = f"{clip.lines} of {clip.lines_total} lines, {clip.bytes:,} of {clip.bytes_total:,} bytes{dead}"
    out.line(Styled(f"{loaded.scope}: {loaded.path}", "bold"), Styled(f" ({counts})", "dim"))
    out.block(clip.text or "nothing to load")
    if clip.warning:
        out.line(Styled(f"> {clip.warning}", "yellow"))


def make_part_rows(built: Instructions) -> list[Row]:
    """Return the parts of the memory section that a session loads, with their sizes."""
    parts = [(name, None, text) for name, text in built.parts.items()]
    parts += [("index", None, built.heading)] if built.heading else []
    indexes = [(f"index of {clip.scope.value} memory", clip.path, clip.text) for clip in built.clips if clip.text]
    return [_measure(text) | {"part": part, "path": path} for part, path, text in (*parts, *indexes)]


def _measure(text: str) -> Row:
    return {"chars": len(text), "bytes": len(text.encode("utf-8", "replace")), "tokens": estimate_tokens(text)}


def _make_directories(frame: instructions.InstructionsContext) -> list[str]:
    created_paths = [str(path) for path in instructions.make_directories(frame)]
    for path in created_paths:
        complain(f"created {path}, because the prompt lists only existing directories")
    return created_paths


def _show_context(out: Output, row: Row) -> None:
    total = row["total"]
    bytes_text = f" ({total['bytes']:,} bytes) before the first message"
    out.line(Styled(f"about {total['tokens']:,} tokens", "bold"), bytes_text)
    if row["disabled"]:
        out.line(Styled(f"no instruction files and no index: {row['disabled']} is set", "yellow"))
    files: list[tuple[str, Styled]] = []
    for file in row["files"]:
        mark = Styled("  oversize" if file["oversize"] else "", "yellow")
        files.append((f"  {file['tokens']:>7,}  {'  ' * file['depth']}{file['path']}", mark))
        if file["why"] and not file["by"]:
            why = f"           {'added: ' if file['added'] else ''}{file['what']}; {file['why']}"
            files.append(("", Styled(why, "dim")))
    refused = [(item, f"; `memdir inbox show {item['inbox']}`" if item["inbox"] else "") for item in row["refused"]]
    sections: dict[str, Sequence[tuple[str | Styled, ...]]] = {
        "instruction files": files,
        "memory": [(f"  {part['tokens']:>7,}  {part['path'] or part['part']}",) for part in row["memory"]],
        "rules for certain files": [
            (f"  {rule['path']}", Styled(f"  paths: {', '.join(rule['paths'])}", "dim")) for rule in row["pending"]
        ],
        "not loaded": [
            (f"  {item['path']}", Styled(f"  {item['words']}{wait} ({item['by']})", "dim")) for item, wait in refused
        ],
    }
    for title, lines in sections.items():
        if lines:
            out.line()
            out.line(Styled(title, "bold"))
        for line in lines:
            out.line(*line)
