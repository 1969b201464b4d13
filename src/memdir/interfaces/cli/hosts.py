"""`install` and `uninstall`: memdir's entries in the settings of coding agents."""

import gzip
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class

from memdir.conversation.transcripts import list_transcripts
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError
from memdir.files import write_private
from memdir.format import frontmatter
from memdir.interfaces.cli import CliContext, CliVerb, choose_store, json_option, scope_flag, scope_option
from memdir.interfaces.cli.names import mask_secrets
from memdir.interfaces.cli.output import (
    Output,
    PipeClosedError,
    Row,
    Styled,
    TableColumn,
    complain,
    make_time,
    render_text_diff,
    shorten_diff,
)
from memdir.interfaces.exports import ExportFormat, ExportResult, export
from memdir.interfaces.import_formats import ImportContext, read_sources
from memdir.interfaces.imports import (
    ImportAction,
    ImportFormat,
    ImportPlan,
    ImportResult,
    ImportStep,
    apply_import,
    plan_import,
)
from memdir.interfaces.install import (
    PLUGIN_FOLDER,
    SHARED,
    InstallChange,
    OwnCommand,
    apply_changes,
    find_program,
    plan_install,
    plan_uninstall,
    remove_plugin,
    write_plugin,
)
from memdir.limits import DAY_TOKENS
from memdir.project.git import find_root
from memdir.project.hosts import CLAUDE_CODE, CODEX, CURSOR, HOSTS, VSCODE, HookEvent, Host, find_host, list_present
from memdir.records import Origin, Scope
from memdir.store.files import FileStore
from memdir.text import one_line, shorten

# --- installing ---

_KEYS = tuple(HOSTS)


def _host_arguments(decorated: Any) -> Any:
    names = click.argument("names", nargs=-1, metavar="[HOST]...", type=click.STRING, shell_complete=_offer_hosts)
    every = click.option("--all", "is_all", is_flag=True, help="Every agent that has been used on this machine.")
    project = click.option("--project", "is_project", is_flag=True, help="In this project's files instead of your own.")
    shown = click.option("--print", "is_shown", is_flag=True, help="Show what would be changed; change nothing.")
    return names(every(project(shown(json_option(decorated)))))


def _offer_hosts(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [key for key in _KEYS if key.startswith(incomplete)]


@click.command(
    "install",
    short_help="Put memory into a coding agent.",
    cls=CliVerb,
    examples=("memdir install claude-code", "memdir install --all --print", "memdir install cursor --project"),
)
@_host_arguments
@click.option("--plugin", "is_plugin", is_flag=True, help="Claude Code: make a plugin folder; settings stay.")
@click.pass_obj
def install_verb(
    call: CliContext,
    names: tuple[str, ...],
    is_all: bool,
    is_project: bool,
    is_shown: bool,
    as_json: bool,
    is_plugin: bool,
) -> None:
    """Put memdir's hooks into the settings of coding agents: claude-code, codex, gemini-cli, vscode, cursor.

    What others put there stays, doing it twice changes nothing, and `memdir uninstall` takes it out again. Without a
    name and without --all it says which agents are here.
    """
    hosts = _choose(call, names, is_all)
    program = SHARED if is_project else find_program(sys.argv[0], sys.executable, which)
    if is_plugin:
        _install_plugin(call, hosts, program, is_shown=is_shown, as_json=as_json)
        return
    now = call.environment.now or datetime.now(UTC)
    has_mcp = find_spec("mcp") is not None
    root = _find_root(call, is_project)
    changes = plan_install(hosts, call.environment, program, now=now, root=root, has_mcp=has_mcp)
    _finish(call, changes, is_shown=is_shown, as_json=as_json)
    if not as_json:
        for note in _list_notes(hosts, program, has_mcp, is_project):
            call.out.line(note)
        if not is_shown:
            _offer(call)


@click.command(
    "uninstall",
    short_help="Take memory out of a coding agent.",
    cls=CliVerb,
    examples=("memdir uninstall claude-code", "memdir uninstall --all", "memdir uninstall cursor --project"),
)
@_host_arguments
@click.pass_obj
def uninstall_verb(
    call: CliContext, names: tuple[str, ...], is_all: bool, is_project: bool, is_shown: bool, as_json: bool
) -> None:
    """Take memdir's entries out of the settings of coding agents, and nothing else. Memories stay where they are."""
    hosts = tuple(HOSTS.values()) if is_all else _choose(call, names, is_all)
    changes = plan_uninstall(hosts, call.environment, SHARED, root=_find_root(call, is_project))
    has_plugin = CLAUDE_CODE in hosts and not is_project and not is_shown
    if has_plugin and remove_plugin(call.environment.state_home / PLUGIN_FOLDER) and not as_json:
        call.out.line("the plugin folder is gone as well")
    _finish(call, changes, is_shown=is_shown, as_json=as_json)


def _choose(call: CliContext, names: Sequence[str], is_all: bool) -> tuple[Host, ...]:
    present = list_present(call.environment)
    if is_all and not names:
        if not present:
            raise NotFoundError("no agent that memdir knows has been used here", hint=f"name one: {', '.join(_KEYS)}")
        return present
    if not names:
        here = ", ".join(host.key for host in present) or "none that is known"
        raise click.UsageError(f"which one? Here: {here}; known: {', '.join(_KEYS)}; --all takes those that are here")
    found = [(name, find_host(name)) for name in names]
    wrong = next((name for name, host in found if host is None), None)
    if wrong is not None:
        raise NotFoundError(f"no agent is known by the name {wrong!r}", hint=f"known: {', '.join(_KEYS)}")
    return tuple({host.key: host for _, host in found if host is not None}.values())


def _find_root(call: CliContext, is_project: bool) -> Path | None:
    return find_root(call.cwd, worktree="own").path if is_project else None


def _finish(call: CliContext, changes: Sequence[InstallChange], *, is_shown: bool, as_json: bool) -> None:
    if not is_shown:
        apply_changes(changes, call.environment)
    if as_json:
        call.out.json([_make_row(change, is_written=not is_shown) for change in changes])
        return
    for change in changes:
        _show(call, change)
    if not changes:
        call.out.line("there is nothing of memdir's")


def _make_row(change: InstallChange, *, is_written: bool) -> dict[str, Any]:
    return {
        "host": change.host,
        "path": str(change.path),
        "change": change.what,
        "written": is_written and change.what != "unchanged",
        "notes": list(change.notes),
        "diff": _render_diff(change),
    }


def _show(call: CliContext, change: InstallChange) -> None:
    call.out.line(Styled(change.host, "bold"), f"  {change.path}  ", Styled(change.what, "dim"))
    call.out.diff(_render_diff(change)[2:])
    for note in change.notes:
        call.out.warn(note)


def _render_diff(change: InstallChange) -> list[str]:
    before, after = ((data or b"").decode("utf-8", "replace") for data in (change.before, change.after))
    return render_text_diff(before, after, str(change.path), str(change.path))


def _list_notes(hosts: Sequence[Host], program: OwnCommand, has_mcp: bool, is_project: bool) -> list[str]:
    notes = [program.note] if program.note else []
    if not has_mcp and any(host is not CLAUDE_CODE for host in hosts):
        notes.append("the MCP server needs the extra `mcp`: `pip install 'memdir[mcp]'`, then install again")
    if CODEX in hosts:
        notes.append(
            "Codex asks at its next start in a terminal whether these hooks may run; until then none of them does"
        )
    if CLAUDE_CODE in hosts and VSCODE in hosts:
        notes.append("VS Code also runs the hooks of Claude Code: with both, each of its conversations gets two starts")
    if CURSOR in hosts and not is_project:
        notes.append("Cursor reads rules from a project only: `memdir install cursor --project` in each of them")
    return notes


def _offer(call: CliContext) -> None:
    """What a person may want to do next; nothing of it is done unasked."""
    try:
        opened = call.open()
        past = len(list_transcripts(opened.environment, opened.places.root.path))
        model = opened.settings.text("model")
    except MemdirError:
        return  # `status` and `doctor` say what is wrong here
    if past:
        call.out.line(f"{past} past conversations of this project can be learned from: `memdir extract --all`")
    if model == "none":
        call.out.line(
            "memdir learns by rules; `memdir config set model claude-cli` lets Claude Code help. That costs one "
            f"request of some thousand tokens of your plan for each turn, {DAY_TOKENS:,} tokens a day at most"
        )


def _install_plugin(
    call: CliContext, hosts: Sequence[Host], program: OwnCommand, *, is_shown: bool, as_json: bool
) -> None:
    if list(hosts) != [CLAUDE_CODE]:
        raise click.UsageError("--plugin is for claude-code alone")
    folder = call.environment.state_home / PLUGIN_FOLDER
    changes = [] if is_shown else write_plugin(folder, program)
    if as_json:
        row = {"host": CLAUDE_CODE.key, "path": str(folder), "change": "created", "written": bool(changes)}
        call.out.json([{**row, "notes": [], "diff": []}])
        return
    call.out.line(Styled(CLAUDE_CODE.key, "bold"), f"  {folder}")
    if is_shown:
        call.out.line("nothing was written; without --print the plugin is put there")
        return
    call.out.line(f"start Claude Code with `claude --plugin-dir {shlex.quote(str(folder))}`")


# --- hooking ---
# `hook`: told here, done at the hook door, which takes the call before this program begins.


@click.command(
    "hook",
    short_help="What coding agents call at every turn.",
    cls=CliVerb,
    examples=("memdir hook user-prompt --host claude-code < event.json",),
)
@click.argument("event", type=click.STRING, metavar=f"[{'|'.join(HookEvent)}]")
@click.option("--host", type=click.Choice(tuple(HOSTS)), default="claude-code", show_default=True, help="Who calls.")
@click.pass_obj
def hook_verb(call: CliContext, event: str, host: str) -> None:
    """Answer one event of a coding agent: JSON on standard input, one line of JSON or nothing on standard output.

    `memdir install` puts this into an agent's settings; docs/hooks.md tells what each event does. Whatever goes
    wrong, the exit code is 0, and `memdir doctor` tells about it.
    """
    complain("a hook takes no option before its name; nothing was done")


# --- serving ---
# `mcp`: memory as a server for agents. What it does is the MCP door's.

_PORT = 7337


@click.command(
    "mcp",
    short_help="Serve memory to an agent by MCP.",
    cls=CliVerb,
    examples=("memdir mcp", "memdir mcp --project ~/work/app", "memdir mcp --http --port 7337"),
)
@click.option("--project", type=click.Path(), help="The project's folder; without it the one that this is started in.")
@click.option("--http", is_flag=True, help="Serve on loopback instead of standard input and output.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="With --http; 0 takes a free one."
)
@click.option("--token-file", type=click.Path(), help="With --http: where the bearer token is kept; made if missing.")
@click.pass_obj
def mcp_verb(call: CliContext, project: str | None, http: bool, port: int, token_file: str | None) -> int:
    """Serve memory by the Model Context Protocol: tools, memories as resources, and prompts.

    An agent starts it as `memdir mcp` and talks to it on standard input and output. With --http it listens on
    127.0.0.1 for clients that show the token; the address is printed, the token never is.
    """
    return call.enter(
        "mcp",
        cwd=_find(call, project) or call.cwd,
        directory=call.directory,
        http=http,
        port=port,
        token_file=_find(call, token_file),
    )


def _find(call: CliContext, text: str | None) -> Path | None:
    return None if text is None else (call.cwd / Path(text).expanduser()).absolute()


# --- chatting ---
# `chat` and `demo`: a conversation that remembers. What they do is the chat door's; here is how they are called.

ALLOWED = ("look", "change")
_NEWEST = "*"
_CHAT = (
    "memdir chat",
    "memdir chat --continue",
    "memdir chat --script lines.txt --json",
    "memdir chat --model claude-cli --allow look",
)


@click.command("chat", short_help="Talk to an assistant that remembers.", cls=CliVerb, examples=_CHAT)
@click.option("--script", metavar="FILE", help="Play the lines of a file and end; - is standard input.")
@click.option("--continue", "is_continued", is_flag=True, help="Go on with the newest conversation.")
@click.option(
    "--resume",
    metavar="[ID]",
    is_flag=False,
    flag_value=_NEWEST,
    help="Go on with a certain one; without ID: which.",
)
@click.option("--model", "spec", metavar="NAME", help="Answer by this model; `none` for memory alone.")
@click.option(
    "--allow", "allowed", type=click.Choice(ALLOWED), multiple=True,
    help="What the model may do with files of the project without asking: look, change.",
)  # fmt: skip
@click.option("--private", is_flag=True, help="Remember and recall nothing in this conversation.")
@json_option
@click.pass_context
def chat_verb(ctx: click.Context, /, is_continued: bool, resume: str | None, **options: Any) -> int:
    """Talk in a terminal to an assistant that remembers what matters and finds it again when it does.

    With no model it answers from memory alone, with the name and age of what it quotes. From a pipe, or with --script,
    it plays the lines, prints plainly and ends; `/now 2026-03-02` in them sets the day. With --json there is one
    event a line. `/help` lists the commands.
    """
    call = ctx.ensure_object(CliContext)
    if is_continued and resume is not None:
        raise click.UsageError("--continue and --resume exclude one another")
    return call.enter(
        "chat",
        cwd=call.cwd,
        variables=call.variables,
        directory=call.directory,
        color=ctx.find_root().params.get("color") or "auto",
        resume="" if is_continued else None if resume == _NEWEST else resume,
        lists=resume == _NEWEST,
        **options,
    )


@click.command("demo", short_help="Three days in a few seconds.", cls=CliVerb, examples=("memdir demo",))
@click.pass_context
def demo_verb(ctx: click.Context) -> int:
    """Play three days of a project in a temporary folder: what is remembered, recalled and why, dreamed and undone.

    Nothing of yours is read or written, and no model is asked.
    """
    return ctx.ensure_object(CliContext).enter("demo", color=ctx.find_root().params.get("color") or "auto")


# --- completing ---
# `completion`: the script that teaches a shell memdir's verbs, options and memory names.

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    short_help="Teach your shell the verbs and names.",
    cls=CliVerb,
    examples=('eval "$(memdir completion bash)"', "memdir completion fish > ~/.config/fish/completions/memdir.fish"),
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_verb(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell; put the line of the example into its start-up file."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    program = ctx.find_root().command
    # Of the base class: bash's own first runs a bash to ask for its version, and warns where there is none.
    script = ShellComplete.source(kind(program, {}, "memdir", "_MEMDIR_COMPLETE"))
    ctx.ensure_object(CliContext).out.block(script)


# --- importing ---
# `import`: bring memories of another tool, project or machine into this one; shows first what it would do.

WHO = "import"
_SCOPES = ("private", "user")
_STYLES = {
    ImportAction.NEW: "green",
    ImportAction.MERGED: "green",
    ImportAction.WAITING: "yellow",
    ImportAction.REFUSED: "dim",
}
_COLUMNS = (
    TableColumn("WHAT", "bold"),
    TableColumn("MEMORY", "cyan", is_cut=True),
    TableColumn("TYPE", "magenta"),
    TableColumn("SAYS", is_cut=True),
    TableColumn("WHY", "dim", is_cut=True),
    TableColumn("FROM", "dim", is_cut=True),
)
_EXAMPLES = (
    "memdir import ~/backup/memory",
    "memdir import memories.tar --apply",
    "memdir import codex",
    "memdir import saved.txt --from chatgpt --scope user --apply",
)


@click.command("import", short_help="Bring in memories of other tools and machines.", cls=CliVerb, examples=_EXAMPLES)
@click.argument("source", metavar="SOURCE|PATH")
@click.option(
    "--from", "named", type=click.Choice([at.value for at in ImportFormat]), help="Whose; found out if not given."
)
@click.option("--scope", type=click.Choice(_SCOPES), help="For this project, or for all. Private if not given.")
@click.option("--preview", "is_preview", is_flag=True, help="Only show what would be done. So it is without --apply.")
@click.option("--apply", "is_applied", is_flag=True, help="Do it, as one change that `memdir undo` takes back.")
@click.option("--since", metavar="DATE", help="Only what was written on this day or later, where that is known.")
@click.option("--with-team", is_flag=True, help="Of a memory directory also what a team shares; here it is shared too.")
@json_option
@click.pass_obj
def import_verb(
    call: CliContext,
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
    context = ImportContext(opened.places.root.path, opened.environment, opened.now(), with_team)
    found = read_sources(source, None if named is None else ImportFormat(named), cwd=call.cwd, context=context)
    if not found.candidates:
        raise NotFoundError(f"no memories were found in {source}", name=source, hint="--from says whose they are")
    origin = Origin(WHO, f"{found.format.value} from {shorten(one_line(source), 200)}", opened.environment.session)
    begin = None if since is None else _parse_day(since)
    plan = plan_import(store, found, now=opened.now(), origin=origin, since=begin)
    done = apply_import(store, plan, origin=origin) if is_applied else None
    if as_json:
        call.out.json(_make_answer(call, source, store, plan, done))
        return
    _importing_show(call, store, plan, done)


def _parse_day(text: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        shown = shorten(one_line(text), 40)
        raise FormatError(f"{shown!r} is no day", field="since", hint="as in 2026-10-01") from None


def _importing_show(call: CliContext, store: FileStore, plan: ImportPlan, done: ImportResult | None) -> None:
    out = call.out
    steps = [step for fate in ImportAction for step in plan.steps if step.fate is fate]
    out.table(_COLUMNS, [_make_cells(step, call) for step in steps])
    if done is None:
        for name, text, _ in plan.merges:
            old, new = (mask_secrets(at, call.environment) for at in (store.read(name).text, text))
            out.diff(shorten_diff(render_text_diff(old, new, f"{name}.md", f"{name}.md (merged)")))
    counts = [f"{plan.count(fate)} {_say(fate)}" for fate in ImportAction if plan.count(fate)]
    out.line(Styled(f"{plan.found.format.value}: ", "dim"), ", ".join(counts) or "nothing in that time")
    if done is None:
        if plan.count(ImportAction.NEW) or plan.count(ImportAction.MERGED) or plan.count(ImportAction.WAITING):
            out.line("nothing was changed; the same with --apply does it, and `memdir undo` takes it back")
        return
    _tell(out, store, done)


def _tell(out: Output, store: FileStore, done: ImportResult) -> None:
    if done.change is not None:
        out.line(f"imported; `memdir undo{scope_flag(store)} {done.change}` takes it back")
    else:
        out.line("nothing was changed")
    if done.dropped:
        out.line(Styled(f"left out, changed or pinned meanwhile: {', '.join(done.dropped)}", "yellow"))
    if done.waiting:
        out.line(Styled(f"{len(done.waiting)} waiting for you: `memdir inbox`", "yellow"))


def _say(fate: ImportAction) -> str:
    words = {
        ImportAction.SAME: "known already",
        ImportAction.BEFORE: "imported before",
        ImportAction.WAITING: "for the inbox",
    }
    return words.get(fate, fate.value)


def _make_cells(step: ImportStep, call: CliContext) -> list[str]:
    row = _importing_make_row(step, call)
    said = str(row["description"] or row["title"])
    return [_say(step.fate), step.name, str(row["type"] or ""), said, str(row["why"]), str(row["source"])]


def _importing_make_row(step: ImportStep, call: CliContext) -> Row:
    candidate = step.candidate
    # What waits is shown without its secret, so by its masked text; what is refused has none.
    fields = frontmatter.parse_fields(step.text if step.fate is ImportAction.WAITING else candidate.text)
    is_kept = step.fate in (ImportAction.NEW, ImportAction.MERGED, ImportAction.WAITING)

    def clean(text: str) -> str:
        # What is new was searched when it was planned.
        return text if step.fate in (ImportAction.NEW, ImportAction.MERGED) else mask_secrets(text, call.environment)

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


def _make_answer(
    call: CliContext, source: str, store: FileStore, plan: ImportPlan, done: ImportResult | None
) -> dict[str, Any]:
    return {
        "source": source,
        "format": plan.found.format.value,
        "scope": store.scope.value,
        "applied": done is not None,
        "change": None if done is None else done.change,
        "counts": {fate.value: plan.count(fate) for fate in ImportAction},
        "steps": [_importing_make_row(step, call) for step in plan.steps],
        "dropped": [] if done is None else list(done.dropped),
        "waiting": [] if done is None else [item.id for item in done.waiting],
    }


# --- exporting ---
# `export`: all memories of a place as one file to carry away.

_EXPORTING_EXAMPLES = (
    "memdir export -o memories.tar",
    "memdir export --format markdown -o memories.md",
    "memdir export --format jsonl -o memories.jsonl",
)


@click.command("export", short_help="All memories as one file.", cls=CliVerb, examples=_EXPORTING_EXAMPLES)
@click.option(
    "--format", "named", type=click.Choice([at.value for at in ExportFormat]), default="tar", show_default=True,
    help="An archive as it is; one text; JSON lines; an archive in Claude Code's newer or in the flat dialect.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE|-", default="-", help="Where to; standard output if not given.")
@click.option("--with-history", is_flag=True, help="With an archive: also the history of all changes.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@scope_option
@json_option
@click.pass_obj
def export_verb(
    call: CliContext, named: str, output: str, with_history: bool, force: bool, scope: str | None, as_json: bool
) -> None:
    """Write all memories into one file: an archive of the whole directory (the same memories give the same bytes), one
    Markdown text, or JSON lines. Without --scope what a team shares is included. FILE.gz is packed.

    `memdir import` reads archives and JSON lines back without loss. Secrets in memories are exported with them; a
    warning names the places.
    """
    format = ExportFormat(named)
    if as_json and output == "-":
        raise click.UsageError("--json needs -o FILE")
    if with_history and format.is_text:
        raise click.UsageError("--with-history goes with an archive")
    if output == "-" and call.out.is_terminal and not format.is_text:
        raise click.UsageError("an archive is nothing for a terminal: say -o FILE")
    opened = call.open()
    meant = None if scope is None else Scope(scope)
    store = choose_store(opened, scope)
    done = export(store, format, now=opened.now(), scope=meant, with_history=with_history)
    if not done.names:
        raise NotFoundError("there are no memories to export", hint="`memdir where` shows where they would be")
    warnings = _find_warnings(done)
    if output == "-":
        _print(call, done)
    else:
        path = call.cwd / Path(output).expanduser()
        size = _write(path, done.data, force=force)
        if as_json:
            answer = {"path": str(path), "format": format.value, "memories": list(done.names), "bytes": size}
            call.out.json(answer | {"warnings": warnings})
        else:
            counted = "1 memory" if len(done.names) == 1 else f"{len(done.names)} memories"
            call.out.line(f"{counted} in {path} ({size:,} bytes)")
    for warning in warnings:
        call.out.warn(warning)


def _print(call: CliContext, done: ExportResult) -> None:
    """To a person cleaned as everything, to a program to the letter."""
    if call.out.is_terminal:
        call.out.block(done.data.decode("utf-8", "replace"))
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(done.data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise PipeClosedError from None


def _write(path: Path, data: bytes, *, force: bool) -> int:
    if path.exists() and not force:
        raise ConflictError(f"{path} is there already", hint="--force replaces it")
    if not path.parent.is_dir():  # a folder made for a misspelled path would hide a backup
        raise NotFoundError(f"there is no folder {path.parent}", hint="make it first, or name another place")
    packed = gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data
    write_private(path, packed)
    return len(packed)


def _find_warnings(done: ExportResult) -> list[str]:
    unread = [f"{path} is not in it: {why}" for path, why in done.unread]
    return [*unread, *(f"the file holds a secret: {at}; keep it accordingly" for at in done.secrets)]
