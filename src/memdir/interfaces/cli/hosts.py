"""`install`, `uninstall`, `hook`, `mcp`, `chat`, `demo`, `completion`, `import` and `export`: memdir and other programs.

Hooks, the MCP server and the chat are interfaces of their own; here is how they are called.
"""

import gzip
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class

from memdir.conversation.chat_exports import ChatExport, ExportedChat
from memdir.conversation.transcripts import list_transcripts
from memdir.errors import ConflictError, MemdirError, ModelError, NotFoundError, SettingsError, hint_extra
from memdir.files import write_private
from memdir.format import frontmatter
from memdir.interfaces import cli, imports, install
from memdir.interfaces.cli import (
    CliContext,
    Row,
    Styled,
    TableColumn,
    choose_store,
    count_words,
    fill,
    flush,
    render_error,
    render_text_diff,
    scope_flag,
)
from memdir.interfaces.cli.app import json_option, mask_secrets, model_option, parse_day, scope_option, verb
from memdir.interfaces.exports import ExportFormat, export
from memdir.interfaces.import_formats import ImportContext, read_sources
from memdir.interfaces.imports import ImportAction, ImportFormat, ImportPlan, ImportResult, ImportStep, apply_import
from memdir.project import hosts as agents
from memdir.project.hosts import CLAUDE_CODE, CODEX, CURSOR, HOSTS, VSCODE, HookEvent, Host
from memdir.project.paths import find_root
from memdir.project.settings import read_settings, write_setting
from memdir.records import Model, Origin, Scope
from memdir.store.files import FileStore
from memdir.store.state import note_learned, read_learned
from memdir.text import one_line, printable, shorten

_KEYS = tuple(HOSTS)


# `install` and `uninstall`.


def _host_arguments(decorated: Any) -> Any:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        return [key for key in _KEYS if key.startswith(incomplete)]

    names = click.argument("names", nargs=-1, metavar="[HOST]...", type=click.STRING, shell_complete=complete)
    every = click.option("--all", "is_all", is_flag=True, help="Every agent that has been used on this machine.")
    project = click.option("--project", "is_project", is_flag=True, help="In this project's files instead of your own.")
    print_option = click.option("--print", "is_shown", is_flag=True, help="Show what would be changed; change nothing.")
    return names(every(project(print_option(json_option(decorated)))))


@verb(
    "install", "Put memory into a coding agent.",
    "memdir install claude-code", "memdir install --all --print", "memdir install codex --model none",
    "memdir install cursor --project",
)  # fmt: skip
@_host_arguments
@click.option("--model", "spec", metavar="NAME", help="The model that learns, without a question; `none` for no model.")
@click.option("--yes", "is_silent", is_flag=True, help="Ask nothing; without --model nothing is decided about one.")
@click.option("--plugin", "is_plugin", is_flag=True, help="Claude Code: make a plugin folder; settings stay.")
@click.pass_obj
def install_verb(
    call: CliContext,
    /,
    names: Sequence[str],
    is_all: bool,
    is_project: bool,
    is_plugin: bool,
    spec: str | None,
    is_silent: bool,
    **how: bool,
) -> None:
    """Put memdir's hooks into the settings of coding agents: claude-code, codex, gemini-cli, vscode, cursor.

    What others put there stays, doing it twice changes nothing, and `memdir uninstall` takes it out again. Without a
    name and without --all it asks for each agent that is here. On a terminal it also asks once whether the agent's own program may
    do the learning: claude-cli, codex-cli or gemini-cli.
    """
    hosts, out = _choose_hosts(call, names, is_all), call.out
    problem = _check_model(call, spec) if spec else ""
    program = install.SHARED if is_project else install.find_program(sys.argv[0], sys.executable, which)
    is_asking = not (is_silent or how["as_json"]) and cli.is_terminal(sys.stdin) and out.is_terminal
    if is_plugin:
        _install_plugin(call, hosts, program, **how)
        if not how["is_shown"]:
            _decide_model(call, hosts, spec, problem, is_asking=is_asking, as_json=how["as_json"])
        return
    now, has_mcp = call.environment.now or datetime.now(UTC), find_spec("mcp") is not None
    root = find_root(call.cwd, worktree="own").path if is_project else None
    changes = install.plan_install(hosts, call.environment, program, now=now, root=root, has_mcp=has_mcp)
    _finish(call, changes, **how)
    if not how["as_json"]:
        _advise(call, hosts, program, has_mcp=has_mcp, is_project=is_project, is_shown=how["is_shown"])
    if not how["is_shown"]:
        _decide_model(call, hosts, spec, problem, is_asking=is_asking, as_json=how["as_json"])
    if not (how["is_shown"] or how["as_json"]):
        out.line("")
        out.line(Styled("Try it", "bold"), f": start {hosts[0].title} in a project and say")
        out.line("  remember that we deploy on Tuesdays only, because support is staffed then")
        out.line("then end it, start it again and ask: may I deploy on Friday?")
        out.line("`memdir status` shows what happened, `memdir undo` takes the last change back")


def _advise(
    call: CliContext,
    hosts: Sequence[Host],
    program: install.OwnCommand,
    *,
    has_mcp: bool,
    is_project: bool,
    is_shown: bool,
) -> None:
    """What a person may want to know or do next; nothing of it is done unasked."""
    out = call.out
    if program.note:
        out.line(program.note)
    if not has_mcp and any(host is not CLAUDE_CODE for host in hosts):
        out.line(f"the MCP server needs one more package: `{hint_extra('mcp')}`, then install again")
    if CODEX in hosts:
        out.line("Codex asks at its next start in a terminal whether these hooks may run; until then none of them does")
    if CLAUDE_CODE in hosts and VSCODE in hosts:
        out.line("VS Code also runs the hooks of Claude Code: with both, each of its conversations gets two starts")
    if CURSOR in hosts and not is_project:
        out.line("Cursor reads rules from a project only: `memdir install cursor --project` in each of them")
    try:
        past = 0 if is_shown else len(list_transcripts(call.environment, call.open().places.root.path))
    except MemdirError:
        return  # `status` and `doctor` say what is wrong here
    if past:
        out.line(f"{past} past conversations of this project can be learned from: `memdir extract --all`")


def _check_model(call: CliContext, spec: str) -> str:
    """What a known model lacks, such as its program; raises SettingsError for one that is not known."""
    # Imported here: only a decision about a model needs the package.
    from memdir.models.open import open_model

    try:
        open_model(spec, environment=call.environment)
    except ModelError as error:
        return render_error(error)
    return ""


def _decide_model(
    call: CliContext, hosts: Sequence[Host], spec: str | None, problem: str, *, is_asking: bool, as_json: bool
) -> None:
    """Store the model that was named or agreed to; a no is stored as well, so that nobody is asked twice."""
    settings = read_settings(call.environment, root=None)
    undecided, host = agents.render_undecided(settings, hosts), next((item for item in hosts if item.model), None)
    if spec is None and undecided and host is not None and is_asking:
        problem = _check_model(call, host.model)
        spec = None if problem else _ask_for_model(call, host, int(settings.number("budget.day_tokens")))
    if spec is not None:
        written = write_setting(call.environment, "model", spec)
        undecided = "" if as_json else f"model = {written}; `memdir config set model` changes it"
    if undecided and not as_json:
        call.out.line(undecided)
    if problem:
        call.out.warn(problem)


def _ask_for_model(call: CliContext, host: Host, day_tokens: int) -> str:
    cap = f"; {day_tokens:,} tokens a day at most" if day_tokens else ""
    for line in (
        "",
        f"Without a model memdir learns by built-in patterns, which find little. {host.title} can do it in the background,",
        "with your login.",
        "  sent:  what you typed, what the agent wrote, tool calls without their results; names and descriptions of your",
        "         memories, and the text of those concerned. Session notes also send shortened results of tools.",
        "  costs: after a turn that has something new one request of some thousand tokens and a smaller one that checks",
        "         what was found; now and then one for session notes or a dream",
        f"         from the plan or key of {host.title}{cap}; `memdir status` shows what was used",
    ):
        call.out.line(line)
    return host.model if click.confirm(f"May {host.title} do the learning?", default=None) else "none"


@verb(
    "uninstall", "Take memory out of a coding agent.",
    "memdir uninstall claude-code", "memdir uninstall --all", "memdir uninstall cursor --project",
)  # fmt: skip
@_host_arguments
@click.pass_obj
def uninstall_verb(call: CliContext, /, names: Sequence[str], is_all: bool, is_project: bool, **how: bool) -> None:
    """Take memdir's entries out of the settings of coding agents, and nothing else. Memories stay where they are."""
    hosts = tuple(HOSTS.values()) if is_all else _choose_hosts(call, names, is_all)
    root = find_root(call.cwd, worktree="own").path if is_project else None
    changes = install.plan_uninstall(hosts, call.environment, install.SHARED, root=root)
    has_plugin = CLAUDE_CODE in hosts and not is_project and not how["is_shown"]
    folder = call.environment.state_home / install.PLUGIN_FOLDER
    if has_plugin and install.remove_plugin(folder) and not how["as_json"]:
        call.out.line("the plugin folder is gone as well")
    _finish(call, changes, **how)


def _choose_hosts(call: CliContext, names: Sequence[str], is_all: bool) -> tuple[Host, ...]:
    known = ", ".join(_KEYS)
    if not names:
        present = agents.list_present(call.environment)
        if is_all and present:
            return present
        if is_all:
            raise NotFoundError("no agent that memdir knows has been used here", hint=f"name one: {known}")
        here = ", ".join(host.key for host in present) or "none that is known"
        if present and cli.is_terminal(sys.stdin) and call.out.is_terminal:
            accepted = [offer for offer in present if click.confirm(f"Put memory into {offer.title}?", default=True)]
            if accepted:
                return tuple(accepted)
        raise click.UsageError(f"which one? Here: {here}; known: {known}; --all takes those that are here")
    hosts_by_key: dict[str, Host] = {}
    for name in names:
        if (host := agents.find_host(name)) is None:
            raise NotFoundError(f"no agent is known by the name {name!r}", hint=f"known: {known}")
        hosts_by_key[host.key] = host
    return tuple(hosts_by_key.values())


def _finish(call: CliContext, changes: Sequence[install.InstallChange], *, is_shown: bool, as_json: bool) -> None:
    if not is_shown:
        install.apply_changes(changes, call.environment)
    rows = []
    for change in changes:
        before, after = ((data or b"").decode("utf-8", "replace") for data in (change.before, change.after))
        diff = render_text_diff(before, after, str(change.path), str(change.path))
        written = not is_shown and change.what != "unchanged"
        rows.append(fill("host path notes", change, change=change.what, written=written, diff=diff))
    if as_json:
        call.out.json(rows)
        return
    for row in rows:
        call.out.line(Styled(row["host"], "bold"), f"  {row['path']}  ", Styled(row["change"], "dim"))
        call.out.diff(row["diff"][2:])
        for note in row["notes"]:
            call.out.warn(note)
    if not rows:
        call.out.line("there is nothing of memdir's")


def _install_plugin(
    call: CliContext, hosts: Sequence[Host], program: install.OwnCommand, *, is_shown: bool, as_json: bool
) -> None:
    if list(hosts) != [CLAUDE_CODE]:
        raise click.UsageError("--plugin is for claude-code alone")
    folder = call.environment.state_home / install.PLUGIN_FOLDER
    changes = [] if is_shown else install.write_plugin(folder, program)
    if as_json:
        facts = {"change": "created", "written": bool(changes), "notes": [], "diff": []}
        call.out.json([{"host": CLAUDE_CODE.key, "path": folder, **facts}])
        return
    call.out.line(Styled(CLAUDE_CODE.key, "bold"), f"  {folder}")
    start = f"start Claude Code with `claude --plugin-dir {shlex.quote(str(folder))}`"
    call.out.line("nothing was written; without --print the plugin is put there" if is_shown else start)


# Other interfaces.

_NEWEST = "*"
_PAGE_NEEDS = ("jinja2", "markdown_it", "nh3", "starlette", "uvicorn")


@verb("hook", "What coding agents call at every turn.", "memdir hook user-prompt --host claude-code < event.json")
@click.argument("event", type=click.STRING, metavar=f"[{'|'.join(HookEvent)}]")
@click.option("--host", type=click.Choice(_KEYS), default="claude-code", show_default=True, help="Who calls.")
@click.pass_obj
def hook_verb(call: CliContext, event: str, host: str) -> None:
    """Answer one event of a coding agent: JSON on standard input, one line of JSON or nothing on standard output.

    `memdir install` puts this into an agent's settings; docs/hooks.md tells what each event does. Whatever goes
    wrong, the exit code is 0, and `memdir doctor` tells about it.
    """
    # The hook interface takes the call before this program begins, unless an option stands before it.
    cli.complain("a hook takes no option before its name; nothing was done")


@verb(
    "mcp", "Serve memory to any MCP client; `install` sets up a coding agent.",
    "memdir mcp", "memdir mcp --project ~/work/app", "memdir mcp --http --port 7337",
)  # fmt: skip
@click.option("--project", type=click.Path(), help="The project's folder; without it the one that this is started in.")
@click.option("--http", is_flag=True, help="Serve on loopback instead of standard input and output.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=7337, show_default=True, help="With --http; 0 takes a free one."
)
@click.option("--token-file", type=click.Path(), help="With --http: where the bearer token is kept; made if missing.")
@click.pass_obj
def mcp_verb(call: CliContext, project: str | None, http: bool, port: int, token_file: str | None) -> int:
    """Serve memory by the Model Context Protocol: tools, memories as resources, and prompts.

    An agent starts it as `memdir mcp` and talks to it on standard input and output. With --http it listens on
    127.0.0.1 for clients that show the token; the address is printed, the token never is.
    """
    cwd, token = (
        None if text is None else (call.cwd / Path(text).expanduser()).absolute() for text in (project, token_file)
    )
    return call.enter("mcp", cwd=cwd or call.cwd, directory=call.directory, http=http, port=port, token_file=token)


@verb("ui", "A page to see, search, review and mend memory.", "memdir ui --open", "memdir ui --port 8123")
@click.option("--open", "is_open", is_flag=True, help="Open it in the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The port on loopback; 0 takes a free one.",
)
@click.pass_obj
def ui_verb(call: CliContext, is_open: bool, port: int) -> int:
    """Serve a page on 127.0.0.1 where everything remembered can be seen, explained, edited and undone, until Ctrl-C.

    The address it prints works once, in one browser; nobody else on this machine can use it. Nothing is fetched from
    anywhere. Needs the extra `ui`.
    """
    if missing := [name for name in _PAGE_NEEDS if find_spec(name) is None]:
        message = f"the page needs packages that are not installed: {', '.join(missing)}"
        raise SettingsError(message, hint=hint_extra("ui"))
    return call.enter(
        "ui", cwd=call.cwd, directory=call.directory, port=port, is_open=is_open, variables=call.variables
    )


@verb(
    "chat", "Talk to an assistant that remembers.",
    "memdir chat",
    "memdir chat --continue",
    "memdir chat --script lines.txt --json",
    "memdir chat --model claude-cli --allow look",
)  # fmt: skip
@click.option("--script", metavar="FILE", help="Play the lines of a file and end; - is standard input.")
@click.option("--continue", "is_continued", is_flag=True, help="Go on with the newest conversation.")
@click.option(
    "--resume", metavar="[ID]", is_flag=False, flag_value=_NEWEST, help="Go on with a certain one; without ID: which."
)
@click.option("--model", "spec", metavar="NAME", help="Answer by this model; `none` for memory alone.")
@click.option(
    "--allow", "allowed", type=click.Choice(("look", "change")), multiple=True,
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
    is_listed = resume == _NEWEST
    options |= {"cwd": call.cwd, "variables": call.variables, "directory": call.directory, "lists": is_listed}
    options["color"] = ctx.find_root().params.get("color") or "auto"
    return call.enter("chat", resume="" if is_continued else None if is_listed else resume, **options)


@verb("demo", "Watch three days of memory in a few seconds; `chat` begins your own.", "memdir demo")
@click.pass_context
def demo_verb(ctx: click.Context) -> int:
    """Play three days of a project in a temporary folder: what is remembered, recalled and why, dreamed and undone.

    Nothing of yours is read or written, and no model is asked.
    """
    return ctx.ensure_object(CliContext).enter("demo", color=ctx.find_root().params.get("color") or "auto")


@verb(
    "completion", "Teach your shell the verbs and names.",
    'eval "$(memdir completion bash)"', "memdir completion fish > ~/.config/fish/completions/memdir.fish",
)  # fmt: skip
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion_verb(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell; put the line of the example into its start-up file."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    # Of the base class: bash's own first runs a bash to ask for its version, and warns where there is none.
    script = ShellComplete.source(kind(ctx.find_root().command, {}, "memdir", "_MEMDIR_COMPLETE"))
    ctx.ensure_object(CliContext).out.block(script)


# `import`.

IMPORT = "import"  # who, in the history
_FATES = {
    ImportAction.SAME: "known already",
    ImportAction.BEFORE: "imported before",
    ImportAction.WAITING: "for the inbox",
}
_STEPS = (
    TableColumn("WHAT", "bold", lambda row: _FATES.get(row["fate"], row["fate"].value)),
    TableColumn("MEMORY", "cyan", "name", is_cut=True),
    TableColumn("TYPE", "magenta", "type"),
    TableColumn("SAYS", "", lambda row: row["description"] or row["title"], is_cut=True),
    TableColumn("WHY", "dim", "why", is_cut=True),
    TableColumn("FROM", "dim", "source", is_cut=True),
)


@verb(
    "import", "Bring in memories and notes from elsewhere; `team` shares them with people.",
    "memdir import ~/Downloads/chatgpt-export.zip",
    "memdir import ~/Downloads/chatgpt-export.zip --learn --apply",
    "memdir import ~/Notes --apply",
    "memdir import codex",
    "memdir import memories.tar --apply",
)  # fmt: skip
@click.argument("source", metavar="SOURCE|PATH")
@click.option(
    "--from", "named", type=click.Choice([item.value for item in ImportFormat]), help="Whose; found out if not given."
)
@click.option(
    "--scope", type=click.Choice(("private", "user")), help="For this project, or for all. Private if not given."
)
@click.option("--preview", "is_preview", is_flag=True, help="Only show what would be done. So it is without --apply.")
@click.option("--apply", "is_applied", is_flag=True, help="Do it, as one change that `memdir undo` takes back.")
@click.option("--since", metavar="DATE", help="Only what was written on this day or later, where that is known.")
@click.option("--with-team", is_flag=True, help="Of a memory directory also what a team shares; here it is shared too.")
@click.option("--learn", "is_learning", is_flag=True, help="Of an export also learn from its conversations.")
@model_option
@click.option("--yes", "is_sure", is_flag=True, help="With --learn: do not ask before a model is paid for.")
@json_option
@click.pass_obj
def import_verb(
    call: CliContext,
    /,
    source: str,
    named: str | None,
    scope: str | None,
    since: str | None,
    spec: str | None,
    **flags: bool,
) -> None:
    """Bring in what you have elsewhere: an export of ChatGPT or Claude (zip or folder), notes of Obsidian, Logseq or
    basic-memory, a memory directory or an archive of one, CLAUDE.md, AGENTS.md, GEMINI.md, .cursorrules, Codex's
    memories, the MCP memory server's file, a mem0 export, ChatGPT's memories as text.

    SOURCE is a path, or `codex`, `gemini-md`, `agents-md` for where those keep theirs. Shows first what is new, known
    already or refused; --apply does it. What holds a secret waits in the inbox without it. Running it again
    adds nothing, and an import makes nothing look newer than it is.

    With --learn the conversations of an export are learned from: with a model after an estimate, without one only what
    you asked to be remembered. An interrupted run goes on where it stopped.
    """
    is_applied = flags["is_applied"]
    if is_applied and flags["is_preview"]:
        raise click.UsageError("--preview and --apply exclude one another")
    project = call.open_to_write() if is_applied else call.open()
    store = choose_store(project, scope)
    context = ImportContext(project.places.root.path, project.environment, project.now(), flags["with_team"])
    call.out.progress(f"reading {source}")
    hits = read_sources(source, None if named is None else ImportFormat(named), cwd=call.cwd, context=context)
    call.out.progress("")
    if not hits.candidates and hits.export is None:
        raise NotFoundError(f"no memories were found in {source}", name=source, hint="--from says whose they are")
    if flags["is_learning"] and hits.export is None:
        raise click.UsageError("--learn is for an export of ChatGPT or Claude; `memdir extract` reads transcripts")
    origin = Origin(IMPORT, f"{hits.format.value} from {shorten(one_line(source), 200)}", project.environment.session)
    begin = parse_day(since) if since is not None else None
    model = call.choose_model(spec) if hits.export is not None else None
    plan = imports.plan_import(store, hits, now=project.now(), origin=origin, since=begin)
    applied = apply_import(store, plan, origin=origin) if is_applied else None
    rows = [_make_step(step, call) for step in plan.steps]
    if not flags["as_json"]:
        _show_import(call, store, plan, applied, rows)
    learned = None
    if hits.export is not None:
        name = spec or project.settings.text("model")
        learned = _learn_export(call, store, hits.export, begin, (model, name), flags)
    if not flags["as_json"]:
        return
    result = applied or ImportResult(None)
    counts = {fate.value: plan.count(fate) for fate in ImportAction}
    facts = {"source": source, "scope": store.scope, "applied": is_applied, "counts": counts, "steps": rows}
    waiting = [item.id for item in result.waiting]
    call.out.json(fill("format change dropped", result, plan.found, waiting=waiting, conversations=learned, **facts))


def _show_import(
    call: CliContext, store: FileStore, plan: ImportPlan, done: ImportResult | None, rows: list[Row]
) -> None:
    out = call.out
    if out.is_table:
        _show_groups(out, rows)
    else:
        out.table(_STEPS, [row for fate in ImportAction for row in rows if row["fate"] is fate])
    if done is None and out.is_table:
        _show_texts(out, store, plan)
    counts = [f"{plan.count(item)} {_FATES.get(item, item.value)}" for item in ImportAction if plan.count(item)]
    out.line(Styled(f"{plan.found.format.value}: ", "dim"), ", ".join(counts) or "no memory to take over")
    if done is None:
        fitting, rest = imports.preview_index(store, plan) if plan.count(ImportAction.NEW) else (0, 0)
        if rest:
            text = f"the index has room for {fitting} of them; recall finds the other {rest} as well, and `memdir pin` lifts one"
            out.line(Styled(text, "yellow"))
        if any(plan.count(action) for action in (ImportAction.NEW, ImportAction.WAITING)):
            out.line("nothing was changed; the same with --apply does it, and `memdir undo` takes it back")
        if plan.found.export is not None and store.scope is not Scope.USER and rows:
            out.line("what is about you and not about this project: --scope user keeps it for all projects")
        return
    undo = f"imported; `memdir undo{scope_flag(store)} {done.change}` takes it back"
    out.line("nothing was changed" if done.change is None else undo)
    if done.dropped:
        out.line(Styled(f"left out, changed or pinned meanwhile: {', '.join(done.dropped)}", "yellow"))
    if done.waiting:
        out.line(Styled(f"{len(done.waiting)} waiting for you: `memdir inbox`", "yellow"))


def _show_texts(out: cli.Output, store: FileStore, plan: ImportPlan) -> None:
    """Every body and all prose of an index that would be taken over: what nobody has seen must not come in."""
    for step in (planned for planned in plan.steps if planned.fate is ImportAction.NEW):
        out.line(Styled(f"{step.name}.md", "cyan"))
        for line in frontmatter.split_frontmatter(step.text).body.strip().splitlines():
            out.line(Styled("  | ", "dim"), line)
    for line in imports.list_prose(store, plan):
        out.line(Styled("  MEMORY.md | ", "dim"), line)


_GROUPS = {"user": "about you", "feedback": "how you want things done", "project": "about projects", "reference": "where things are"}  # fmt: skip
_SHOWN = 8  # rows of a group that a terminal shows


def _show_groups(out: cli.Output, rows: Sequence[Row]) -> None:
    """What an import would do, for people: new memories by type, then the others by what becomes of them."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        kind = _GROUPS.get(str(row["type"]), "others")
        is_new = row["fate"] is ImportAction.NEW
        groups.setdefault(f"new, {kind}" if is_new else _FATES.get(row["fate"], row["fate"].value), []).append(row)
    for title, group in sorted(groups.items(), key=lambda at: not at[0].startswith("new")):
        out.line(Styled(f"{title}: {len(group)}", "bold"))
        for row in group[:_SHOWN]:
            why = f" ({row['why']})" if row["why"] else ""
            out.line(cli.cut_width(f"  {one_line(row['description'] or row['title'])}{why}", out.width))
        if len(group) > _SHOWN:
            out.line(Styled(f"  … and {len(group) - _SHOWN} more; in a pipe or with --json all are shown", "dim"))


def _learn_export(
    call: CliContext,
    store: FileStore,
    export: ChatExport,
    since: datetime | None,
    chosen: tuple[Model | None, str],
    flags: Row,
) -> Row:
    """Say what the conversations would take, and with --learn and --apply learn from those that are new."""
    # Imported here: only an export of a chat service needs them.
    from memdir.extraction import ExtractSkip, turns
    from memdir.interfaces.cli.learn import is_agreed

    out, project, known = call.out, call.open(), read_learned(store.state)

    def read() -> Iterator[tuple[str, ExportedChat]]:
        for chat in export.read_chats():
            id = f"{export.service}:{chat.id}"
            if id not in known and (since is None or chat.at is None or chat.at >= since):
                yield id, chat

    model, name = chosen
    ahead = turns.estimate_chats(chat for _, chat in read())
    row = fill("messages tokens", ahead, new=ahead.transcripts, all=export.chats, learned=0, written=[], waiting=0)
    if not (flags["is_learning"] and flags["is_applied"]) or not ahead.transcripts:
        if not flags["as_json"]:
            about = f"{ahead.transcripts} conversations with {ahead.messages} messages not yet learned from"
            how = (
                f"{name}, about {ahead.tokens:,} tokens"
                if model
                else "no model, so only what you asked to be remembered"
            )
            out.line(f"{about}; --learn --apply does it ({how})" if ahead.transcripts else "no new conversations")
        return row
    if not is_agreed(call, ahead, model, name, flags["is_sure"]):
        return row
    conversation, run = turns.make_conversation(project), next((cue for cue in known if cue.startswith("run:")), "")
    if not run:
        run = f"run:{project.now():%Y%m%dT%H%M%S}"
        note_learned(store.state, run)
    for number, (id, chat) in enumerate(read()):
        out.progress(f"learning from {shorten(one_line(chat.title), 40)!r}", number, ahead.transcripts)
        now = project.now()
        learned = turns.harvest_chat(
            store, chat, id + run.removeprefix("run"), model=model, conversation=conversation, now=now
        )
        if learned.skipped is ExtractSkip.FAILED:
            hint = f"{row['learned']} are done; the same command goes on"
            raise ModelError(f"the conversation {chat.title!r} could not be learned from: {learned.error}", hint=hint)
        note_learned(store.state, id)
        row["learned"] += 1
        row["written"] += learned.written
        row["waiting"] += len(learned.waiting)
    out.progress("")
    if not flags["as_json"]:
        memories = count_words(len(set(row["written"])), "memory")
        undo = f"`memdir undo{scope_flag(store)} --session '{export.service}:*'` takes it back"
        out.line(f"learned from {row['learned']} conversations: {memories}", f"; {undo}" if row["written"] else "")
        if row["waiting"]:
            out.line(Styled(f"{row['waiting']} waiting for you: `memdir inbox`", "yellow"))
    return row


def _make_step(step: ImportStep, call: CliContext) -> Row:
    candidate, is_waiting = step.candidate, step.fate is ImportAction.WAITING
    # What waits is shown without its secret, so by its masked text; what is refused has none.
    fields = frontmatter.parse_fields(step.text if is_waiting else candidate.text)
    texts = {"title": candidate.said or fields.title, "description": fields.description}
    texts |= {"source": candidate.source, "why": step.why}
    is_searched = step.fate is ImportAction.NEW  # for secrets, when it was planned
    if not is_searched:
        texts = {key: mask_secrets(text, call.environment) for key, text in texts.items()}
    texts["text"] = step.text if is_searched or is_waiting else ""
    return fill("fate name? modified", step, candidate, type=fields.kind, **texts)


# `export`.


@verb(
    "export", "Write all memories into one file, which `import` reads.",
    "memdir export -o memories.tar",
    "memdir export --format markdown -o memories.md",
    "memdir export --format jsonl -o memories.jsonl",
)  # fmt: skip
@click.option(
    "--format", "named", type=click.Choice([item.value for item in ExportFormat]), default="tar", show_default=True,
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
    project = call.open()
    store = choose_store(project, scope)
    only_scope = Scope(scope) if scope is not None else None
    exported = export(store, format, now=project.now(), scope=only_scope, with_history=with_history)
    if not exported.names:
        raise NotFoundError("there are no memories to export", hint="`memdir where` shows where they would be")
    warnings = [f"{path} is not in it: {why}" for path, why in exported.unread]
    warnings += [f"the file holds a secret: {secret}; keep it accordingly" for secret in exported.secrets]
    if output == "-":
        # An archive and JSON are exact; a text may end on somebody's terminal by way of a pipe.
        is_plain = format is ExportFormat.MARKDOWN
        call.out.raw(printable(exported.data.decode("utf-8", "replace")).encode() if is_plain else exported.data)
        flush(sys.stdout)
    else:
        path = call.cwd / Path(output).expanduser()
        if path.exists() and not force:
            raise ConflictError(f"{path} is there already", hint="--force replaces it")
        if not path.parent.is_dir():  # a folder made for a misspelled path would hide a backup
            raise NotFoundError(f"there is no folder {path.parent}", hint="make it first, or name another place")
        packed = gzip.compress(exported.data, mtime=0) if path.name.endswith(".gz") else exported.data
        write_private(path, packed)
        if as_json:
            facts = {"format": format, "memories": exported.names, "bytes": len(packed), "warnings": warnings}
            call.out.json({"path": path, **facts})
        else:
            call.out.line(f"{count_words(len(exported.names), 'memory')} in {path} ({len(packed):,} bytes)")
    for warning in warnings:
        call.out.warn(warning)
