"""The commands that connect memdir to other programs: `install`, `uninstall`, `import`, `export`, `completion`.

Also starts the interfaces that are separate modules: `hook`, `mcp`, `ui`, `chat` and `demo`.
"""

import gzip
import shutil
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
from memdir.interfaces.cli.app import app, confirm, mask_secrets, model_option, parse_day, scope_option, verb
from memdir.interfaces.import_formats import ImportContext, read_sources
from memdir.interfaces.imports import ImportAction, ImportFormat, ImportPlan, ImportResult, ImportStep, apply_import
from memdir.project import hosts as agents
from memdir.project.hosts import CLAUDE_CODE, CODEX, COPILOT, CURSOR, HOSTS, HookEvent, Host
from memdir.project.paths import find_root
from memdir.project.settings import make_bare, read_settings, write_setting
from memdir.records import Model, Origin, Scope
from memdir.store.files import FileStore
from memdir.store.open import open_others
from memdir.store.state import note_learned, read_learned
from memdir.text import one_line, shorten, shorten_home

_KEYS = tuple(HOSTS)
_INSTALL_HELP = f"""Add memdir's hooks to the settings of coding agents: {", ".join(_KEYS)}.

Other settings are kept, running it twice changes nothing, and `memdir uninstall` removes the hooks. Without HOST or
--all it offers every agent it finds. On a terminal it shows what it adds and asks once, also whether the agent's own program may do the
learning: {", ".join(host.model for host in HOSTS.values() if host.model)}."""


# `install` and `uninstall`.


def _host_arguments(decorated: Any) -> Any:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        return [key for key in _KEYS if key.startswith(incomplete)]

    names = click.argument("names", nargs=-1, metavar="[HOST]...", type=click.STRING, shell_complete=complete)
    every = click.option("--all", "is_all", is_flag=True, help="Every agent used on this machine.")
    project = click.option("--project", "is_project", is_flag=True, help="Use this project's settings, not your own.")
    print_option = click.option("--print", "is_shown", is_flag=True, help="Show the changes without making them.")
    return names(every(project(print_option(decorated))))


@verb(
    "install", "Connect memdir to a coding agent.",
    "memdir install claude-code", "memdir install --all --print", "memdir install codex --model none",
    "memdir install cursor --project", help=_INSTALL_HELP,
)  # fmt: skip
@_host_arguments
@click.option("--model", "spec", metavar="NAME", help="Learn with this model without asking; `none` for no model.")
@click.option("--yes", "is_silent", is_flag=True, help="Do not ask; without --model the choice of a model stays open.")
def install_verb(
    call: CliContext,
    /,
    names: Sequence[str],
    is_all: bool,
    is_project: bool,
    spec: str | None,
    is_silent: bool,
    **how: bool,
) -> None:
    hosts, out = _choose_hosts(call, names, is_all), call.out
    problem = _check_model(call, spec) if spec else ""
    program = install.SHARED if is_project else install.find_program(sys.argv[0], sys.executable, which)
    is_asking = not (is_silent or how["as_json"]) and cli.is_terminal(sys.stdin) and out.is_terminal
    now, has_mcp = call.environment.now or datetime.now(UTC), find_spec("mcp") is not None
    root = find_root(call.cwd, worktree="own").path if is_project else None
    changes = install.plan_install(hosts, call.environment, program, now=now, root=root, has_mcp=has_mcp)
    if is_asking and not how["is_shown"]:
        spec = _ask(call, changes, hosts, spec)
    _finish(call, changes, **how)
    if not how["as_json"]:
        _show_next_steps(call, hosts, program, has_mcp=has_mcp, is_project=is_project, is_shown=how["is_shown"])
    if not how["is_shown"]:
        _store_model(call, hosts, spec, problem, as_json=how["as_json"])
    if not (how["is_shown"] or how["as_json"]):
        out.line("")
        out.line(Styled("Try it", "bold"), f": start {hosts[0].title} in a project and say")
        out.line("  remember that we deploy on Tuesdays only, because support is staffed then")
        out.line("then restart it and ask: may I deploy on Friday?")
        out.line("`memdir status` shows what happened, `memdir undo` reverts the last change")


def _show_next_steps(
    call: CliContext,
    hosts: Sequence[Host],
    program: install.OwnCommand,
    *,
    has_mcp: bool,
    is_project: bool,
    is_shown: bool,
) -> None:
    out = call.out
    if program.note:
        out.line(program.note)
    if not has_mcp and any(any(host.servers_files) for host in hosts):
        out.line(f"the MCP server needs another package: `{hint_extra('mcp')}`, then install again")
    if CODEX in hosts:
        out.line("at its next start in a terminal, Codex asks whether these hooks may run; until then they do not")
    if CLAUDE_CODE in hosts and COPILOT in hosts:
        out.line("VS Code also runs Claude Code's hooks: with both, each conversation gets the index twice")
    if CURSOR in hosts and not is_project:
        out.line("Cursor reads rules only from projects: run `memdir install cursor --project` in each")
    try:
        past = 0 if is_shown else len(list_transcripts(call.environment, call.open().places.root.path))
    except MemdirError:
        return  # `status` and `doctor` report this error.
    if past:
        out.line(f"to learn from {past} past conversations of this project: `memdir extract --all`")


def _check_model(call: CliContext, spec: str) -> str:
    """Return why a model cannot be used, such as a missing program, or "". Raises SettingsError if it is unknown."""
    # Imported here, because only the choice of a model needs this package.
    from memdir.models.open import open_model

    try:
        open_model(spec, environment=call.environment)
    except ModelError as error:
        return render_error(error)
    return ""


def _store_model(call: CliContext, hosts: Sequence[Host], spec: str | None, problem: str, *, as_json: bool) -> None:
    """Store the model that the user chose, or the refusal, so that the question is asked only once."""
    undecided = agents.render_undecided(read_settings(call.environment, root=None), hosts)
    if spec is not None:
        written = write_setting(call.environment, "model", spec)
        undecided = "" if as_json else f"model = {written}; `memdir config set model` changes it"
    if undecided and not as_json:
        call.out.line(undecided)
    if problem:
        call.out.warn(problem)


def _ask(
    call: CliContext, changes: Sequence[install.InstallChange], hosts: Sequence[Host], spec: str | None
) -> str | None:
    """Show what an installation adds, ask once, and return the model that the user chose. Raises Abort for "quit"."""
    settings, out = read_settings(call.environment, root=None), call.out
    learner = next((host for host in hosts if host.model), None)
    is_open = spec is None and learner is not None and bool(agents.render_undecided(settings, hosts))
    if is_open and learner is not None and (problem := _check_model(call, learner.model)):
        out.warn(problem)
        is_open = False
    for change in changes:
        out.line(
            Styled(HOSTS[change.host].title, "bold"),
            f"  {shorten_home(str(change.path), call.environment.home)}  ",
            change.summary,
        )
    choices = {"y": "yes", "d": "show the difference", "n": "no"}
    question = "Write this?"
    if is_open and learner is not None:
        limit = int(settings.number("budget.day_tokens"))
        for line in (
            "",
            f"{learner.title} can also do the learning, in the background and with your login. Without it, memdir keeps",
            "what you ask it to remember and plain statements in English.",
            "  sent:  your messages, the agent's answers, tool calls without their results; names and descriptions of",
            "         your memories, and the text of those concerned. Session notes also send shortened tool results.",
            "  costs: about 8,000 tokens for a turn with something new; 20 such turns a day are 160,000 tokens, about",
            f"         $0.40 at API prices, paid by your {learner.title} plan or key"
            + (f"; at most {limit:,} tokens a day." if limit else "."),
        ):
            out.line(line)
        question = f"Connect, and let {learner.title} do the learning?"
        choices = {"y": "yes", "c": "connect without learning", "d": "show the difference", "n": "no"}
    help_text = ", ".join(f"{key} = {meaning}" for key, meaning in choices.items())
    while True:
        answer = click.prompt(f"{question} ({help_text})", type=click.Choice(list(choices)), show_choices=False)
        if answer == "d":
            for change in changes:
                out.diff(_render_change(change)[2:])
        elif answer == "n":
            raise click.Abort
        elif is_open and learner is not None:
            return learner.model if answer == "y" else "none"
        else:
            return spec


@verb(
    "uninstall", "Disconnect memdir from a coding agent.",
    "memdir uninstall claude-code", "memdir uninstall --all", "memdir uninstall cursor --project",
    "memdir uninstall --everything --print",
)  # fmt: skip
@_host_arguments
@click.option(
    "--everything",
    "is_everything",
    is_flag=True,
    help="Also delete memdir's settings, history and state. Keeps memories.",
)
@click.option("--yes", "is_sure", is_flag=True, help="With --everything: do not ask.")
def uninstall_verb(
    call: CliContext, /, names: Sequence[str], is_all: bool, is_project: bool, is_everything: bool, is_sure: bool,
    **how: bool,
) -> None:  # fmt: skip
    """Remove memdir's entries from the settings of coding agents, and nothing else. Memories are kept.

    --everything also deletes memdir's settings, state and, in each memory directory, the history, so that nothing can
    be undone afterwards. Memories are plain files; it lists where they are.
    """
    hosts = tuple(HOSTS.values()) if is_all or is_everything else _choose_hosts(call, names, is_all)
    root = find_root(call.cwd, worktree="own").path if is_project else None
    changes = install.plan_uninstall(hosts, call.environment, install.SHARED, root=root)
    if not is_everything:
        _finish(call, changes, **how)
        return
    if how["as_json"]:
        raise click.UsageError("--everything has no --json")
    project = call.open()
    stores = [*project.stores, *(store for store, _ in open_others(project))]
    own = [call.environment.config_file.parent, call.environment.state_home, *(store.state for store in stores)]
    folders = [folder for folder in dict.fromkeys(own) if folder.is_dir() and not folder.is_symlink()]
    kept = [(store.root, len(store.scan())) for store in stores if store.scan()]
    if not how["is_shown"]:
        question = "Delete memdir's settings, state and the history of all memories?"
        confirm(question, "the history cannot be restored", yes=is_sure)
    _finish(call, changes, **how)
    for store in stores:
        store.close()
    for folder in folders:
        if not how["is_shown"]:
            shutil.rmtree(folder, ignore_errors=True)
        call.out.line("would delete " if how["is_shown"] else "deleted ", Styled(str(folder), "cyan"))
    for directory, count in kept:
        call.out.line(f"kept {count_words(count, 'memory')} in ", Styled(str(directory), "cyan"))
    call.out.line("to remove the program: `pipx uninstall memdir`, or `uv tool uninstall memdir`")


def _choose_hosts(call: CliContext, names: Sequence[str], is_all: bool) -> tuple[Host, ...]:
    known = ", ".join(_KEYS)
    if not names:
        present = agents.list_present(call.environment)
        if is_all and present:
            return present
        if is_all:
            raise NotFoundError("no known agent is in use here", hint=f"pass one of {known}")
        here = ", ".join(host.key for host in present) or "none"
        if present and cli.is_terminal(sys.stdin) and call.out.is_terminal:
            return present
        raise click.UsageError(f"pass an agent; used here: {here}; known: {known}; --all selects those used here")
    hosts_by_key: dict[str, Host] = {}
    for name in names:
        if (host := agents.find_host(name)) is None:
            raise NotFoundError(f"unknown agent {name!r}", hint=f"use one of {known}")
        hosts_by_key[host.key] = host
    return tuple(hosts_by_key.values())


def _finish(
    call: CliContext,
    changes: Sequence[install.InstallChange],
    *,
    is_shown: bool,
    as_json: bool,
) -> None:
    if not is_shown:
        install.apply_changes(changes, call.environment)
    if as_json:
        written = [not is_shown and change.what != "unchanged" for change in changes]
        rows = [
            fill("host path notes", change, change=change.what, written=is_written, diff=_render_change(change))
            for change, is_written in zip(changes, written, strict=True)
        ]
        call.out.json(rows)
        return
    for change in changes:
        what = change.what if is_shown else change.summary
        path = shorten_home(str(change.path), call.environment.home)
        call.out.line(Styled(change.host, "bold"), f"  {path}  ", Styled(what, "dim"))
        if is_shown:
            call.out.diff(_render_change(change)[2:])
        for note in change.notes:
            call.out.warn(note)
    if not changes:
        call.out.line("no memdir entries found")


def _render_change(change: install.InstallChange) -> list[str]:
    before, after = ((data or b"").decode("utf-8", "replace") for data in (change.before, change.after))
    return render_text_diff(before, after, str(change.path), str(change.path))


# `hook`, `mcp`, `ui`, `chat`, `demo` and `completion`.

_PAGE_NEEDS = ("jinja2", "markdown_it", "nh3", "starlette", "uvicorn")


@verb(
    "hook", "Answer a hook event; agents call this.", "memdir hook user-prompt --host claude-code < event.json",
    has_json=False,
)  # fmt: skip
@click.argument("event", type=click.STRING, metavar=f"[{'|'.join(HookEvent)}]")
@click.option("--host", type=click.Choice(_KEYS), default="claude-code", show_default=True, help="The calling agent.")
def hook_verb(call: CliContext, event: str, host: str) -> None:
    """Answer one event of a coding agent: JSON on standard input, one line of JSON or nothing on standard output.

    `memdir install` adds this to an agent's settings; docs/hooks.md describes each event. The exit code is 0 even after
    an error; `memdir doctor` reports errors.
    """
    # The hook interface handles the call before the command line starts, unless an option precedes it.
    cli.complain("no option is allowed before `hook`; nothing was done")


@verb(
    "mcp", "Serve memory over MCP; `install` sets up a coding agent.",
    "memdir mcp", "memdir mcp --project ~/work/app", "memdir mcp --http --port 7337", has_json=False,
)  # fmt: skip
@click.option("--project", type=click.Path(), help="The project's folder; default: the current directory.")
@click.option("--http", is_flag=True, help="Serve on loopback instead of standard input and output.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=7337, show_default=True, help="With --http; 0 chooses a free one."
)
@click.option(
    "--token-file", type=click.Path(), help="With --http: the file with the bearer token; created if missing."
)
def mcp_verb(call: CliContext, project: str | None, http: bool, port: int, token_file: str | None) -> int:
    """Serve memory over the Model Context Protocol: tools, memories as resources, and prompts.

    An agent starts `memdir mcp` and uses standard input and output. With --http it listens on 127.0.0.1 for clients
    that send the token. It prints the URL, never the token.
    """
    cwd, token = (
        None if text is None else (call.cwd / Path(text).expanduser()).absolute() for text in (project, token_file)
    )
    return call.enter("mcp", cwd=cwd or call.cwd, directory=call.directory, http=http, port=port, token_file=token)


@verb("ui", "Open the web interface.", "memdir ui --open", "memdir ui --port 8123", has_json=False)
@click.option("--open", "is_open", is_flag=True, help="Open it in the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="The port on loopback; 0 chooses a free one.",
)
def ui_verb(call: CliContext, is_open: bool, port: int) -> int:
    """Serve the web interface on 127.0.0.1 until Ctrl-C: see, search, explain, edit, review and undo.

    The URL it prints works once, in one browser; other users of this machine cannot use it. The pages load nothing from
    the internet. Needs the extra `ui`.
    """
    if missing := [name for name in _PAGE_NEEDS if find_spec(name) is None]:
        message = f"the web interface needs packages that are not installed: {', '.join(missing)}"
        raise SettingsError(message, hint=hint_extra("ui"))
    return call.enter(
        "ui", cwd=call.cwd, directory=call.directory, port=port, is_open=is_open, variables=call.variables
    )


@verb(
    "chat", "Chat with an assistant that remembers.",
    "memdir chat",
    "memdir chat --script lines.txt --json",
    "memdir chat --model claude-cli --allow look",
)  # fmt: skip
@click.option(
    "--script", metavar="FILE", help="Read messages from a file, one per line, then exit; - is standard input."
)
@click.option("--model", "spec", metavar="NAME", help="Answer with this model; `none` for memory only.")
@click.option(
    "--allow", "allowed", type=click.Choice(("look", "change")), multiple=True,
    help="Let the model use project files without asking: look (read) or change.",
)  # fmt: skip
@click.option("--private", is_flag=True, help="Do not remember or recall in this conversation.")
@click.option("--bare", "is_bare", is_flag=True, help="Turn memory off, as CLAUDE_CODE_SIMPLE=1 does.")
def chat_verb(call: CliContext, /, is_bare: bool, **options: Any) -> int:
    """Chat in the terminal with an assistant that remembers what matters and recalls it when relevant.

    Without a model it answers only from memory, with the name and age of each memory. From a pipe, or with --script, it
    answers each line in plain text and exits; `/now 2026-03-02` sets the date. --json prints one event per line.
    `/help` lists the commands.
    """
    variables = make_bare(call.variables) if is_bare else call.variables
    options |= {"cwd": call.cwd, "variables": variables, "directory": call.directory, "color": call.color}
    return call.enter("chat", **options)


@verb("demo", "Watch three days of memory in a few seconds.", "memdir demo", has_json=False)
def demo_verb(call: CliContext) -> int:
    """Play three days of a project in a temporary folder: remember, recall, explain, dream and undo.

    It does not touch your files or use a model.
    """
    return call.enter("demo", color=call.color)


@verb(
    "completion", "Complete commands and names in your shell.",
    'eval "$(memdir completion bash)"', "memdir completion fish > ~/.config/fish/completions/memdir.fish",
    has_json=False,
)  # fmt: skip
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion_verb(call: CliContext, shell: str) -> None:
    """Print the completion script for a shell; add the example's line to its start-up file."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"completion for {shell} is not available")
    # Use the base class, because bash's own runs bash for its version and warns if there is none.
    script = ShellComplete.source(kind(app, {}, "memdir", "_MEMDIR_COMPLETE"))
    call.out.block(script)


# `import`.

IMPORT = "import"  # The author in the history.
_FATES = {
    ImportAction.SAME: "already known",
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
    "import", "Import memories and notes from other tools.",
    "memdir import ~/Downloads/chatgpt-export.zip",
    "memdir import ~/Downloads/chatgpt-export.zip --learn --apply",
    "memdir import ~/Notes --apply",
    "memdir import memories.tar --apply",
)  # fmt: skip
@click.argument("source", metavar="PATH")
@click.option(
    "--from", "named", type=click.Choice([*map(str, ImportFormat)]), help="Source format; detected if omitted."
)
@click.option(
    "--scope", type=click.Choice(("private", "user")), help="For this project (private, the default) or for all (user)."
)
@click.option("--apply", "is_applied", is_flag=True, help="Import, as one change that `memdir undo` reverts.")
@click.option("--since", metavar="DATE", help="Only memories from this day or later, where the date is known.")
@click.option("--with-team", is_flag=True, help="Also import a directory's team memories; they are shared here too.")
@click.option("--learn", "is_learning", is_flag=True, help="Also learn from the conversations in a chat export.")
@model_option
@click.option("--yes", "is_sure", is_flag=True, help="With --learn: do not ask before using a paid model.")
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
    """Import from a ChatGPT or Claude export (zip or folder), an Obsidian vault or other Markdown notes, a memory
    directory or an archive of one, a mem0 export, or ChatGPT's memories as text.

    Shows which memories are new, already known or refused; --apply imports them. Memories with a secret go to the inbox with the secret masked.
    Importing again adds nothing, and memories keep their age.

    --learn also learns from the conversations of an export: with a model after showing an estimate, without one only
    what you asked to be remembered. Run it again to continue an interrupted run.
    """
    is_applied = flags["is_applied"]
    project = call.open_to_write() if is_applied else call.open()
    store = choose_store(project, scope)
    context = ImportContext(project.environment, project.now(), flags["with_team"])
    call.out.progress(f"reading {source}")
    hits = read_sources(source, None if named is None else ImportFormat(named), cwd=call.cwd, context=context)
    call.out.progress("")
    if not hits.candidates and hits.export is None:
        raise NotFoundError(f"no memories found in {source}", name=source, hint="pass the format with --from")
    if flags["is_learning"] and hits.export is None:
        raise click.UsageError("--learn is for a ChatGPT or Claude export; `memdir extract` reads transcripts")
    origin = Origin(IMPORT, f"{hits.format.value} from {shorten(one_line(source), 200)}", project.environment.session)
    begin = parse_day(since) if since is not None else None
    model = call.choose_model(spec) if hits.export is not None else None
    plan = imports.plan_import(store, hits, now=project.now(), origin=origin, since=begin)
    applied = apply_import(store, plan, origin=origin) if is_applied else None
    rows = [_make_step_row(step, call) for step in plan.steps]
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
    out.table(_STEPS, [row for fate in ImportAction for row in rows if row["fate"] is fate])
    if done is None and out.is_table:
        _show_texts(out, store, plan)
    counts = [f"{plan.count(item)} {_FATES.get(item, item.value)}" for item in ImportAction if plan.count(item)]
    out.line(Styled(f"{plan.found.format.value}: ", "dim"), ", ".join(counts) or "no memories to import")
    if done is None:
        if any(plan.count(action) for action in (ImportAction.NEW, ImportAction.WAITING)):
            out.line("nothing was changed; pass --apply to import, and `memdir undo` reverts it")
        if plan.found.export is not None and store.scope is not Scope.USER and rows:
            out.line("--scope user imports them for all projects instead of this one")
        return
    undo = f"imported; `memdir undo{scope_flag(store)} {done.change}` reverts it"
    out.line("nothing was changed" if done.change is None else undo)
    if done.dropped:
        out.line(Styled(f"left out, changed or pinned since: {', '.join(done.dropped)}", "yellow"))
    if done.waiting:
        out.line(Styled(f"{len(done.waiting)} to review: `memdir inbox`", "yellow"))


def _show_texts(out: cli.Output, store: FileStore, plan: ImportPlan) -> None:
    """Print all bodies and index prose to be imported, so that the user can review them first."""
    for step in (planned for planned in plan.steps if planned.fate is ImportAction.NEW):
        out.line(Styled(f"{step.name}.md", "cyan"))
        for line in frontmatter.split_frontmatter(step.text).body.strip().splitlines():
            out.line(Styled("  | ", "dim"), line)
    for line in imports.list_prose(store, plan):
        out.line(Styled("  MEMORY.md | ", "dim"), line)


def _learn_export(
    call: CliContext,
    store: FileStore,
    export: ChatExport,
    since: datetime | None,
    chosen: tuple[Model | None, str],
    flags: Row,
) -> Row:
    """Print the estimated cost of learning from the conversations; with --learn and --apply, learn from new ones."""
    # Imported here, because only chat exports need them.
    from memdir.extraction import ExtractSkip, turns
    from memdir.interfaces.cli.learn import is_agreed

    out, project, known = call.out, call.open(), read_learned(store.state)

    def list_new_chats() -> Iterator[tuple[str, ExportedChat]]:
        for chat in export.read_chats():
            id = f"{export.service}:{chat.id}"
            if id not in known and (since is None or chat.at is None or chat.at >= since):
                yield id, chat

    model, name = chosen
    ahead = turns.estimate_chats(chat for _, chat in list_new_chats())
    row = fill("messages tokens", ahead, new=ahead.transcripts, all=export.chats, learned=0, written=[], waiting=0)
    if not (flags["is_learning"] and flags["is_applied"]) or not ahead.transcripts:
        if not flags["as_json"]:
            about = f"{ahead.transcripts} conversations with {ahead.messages} messages not learned from yet"
            how = f"{name}, about {ahead.tokens:,} tokens" if model else "no model: only what you asked to remember"
            out.line(f"{about}; --learn --apply learns ({how})" if ahead.transcripts else "no new conversations")
        return row
    if not is_agreed(call, ahead, model, name, flags["is_sure"]):
        return row
    conversation, run = turns.make_conversation(project), next((cue for cue in known if cue.startswith("run:")), "")
    if not run:
        run = f"run:{project.now():%Y%m%dT%H%M%S}"
        note_learned(store.state, run)
    for number, (id, chat) in enumerate(list_new_chats()):
        out.progress(f"learning from {shorten(one_line(chat.title), 40)!r}", number, ahead.transcripts)
        now = project.now()
        learned = turns.harvest_chat(
            store, chat, id + run.removeprefix("run"), model=model, conversation=conversation, now=now
        )
        if learned.skipped is ExtractSkip.FAILED:
            hint = f"{row['learned']} are done; run the command again to continue"
            raise ModelError(f"cannot learn from the conversation {chat.title!r}: {learned.error}", hint=hint)
        note_learned(store.state, id)
        row["learned"] += 1
        row["written"] += learned.written
        row["waiting"] += len(learned.waiting)
    out.progress("")
    if not flags["as_json"]:
        memories = count_words(len(set(row["written"])), "memory")
        undo = f"`memdir undo{scope_flag(store)} --session '{export.service}:*'` reverts it"
        out.line(f"learned from {row['learned']} conversations: {memories}", f"; {undo}" if row["written"] else "")
        if row["waiting"]:
            out.line(Styled(f"{row['waiting']} to review: `memdir inbox`", "yellow"))
    return row


def _make_step_row(step: ImportStep, call: CliContext) -> Row:
    candidate, is_waiting = step.candidate, step.fate is ImportAction.WAITING
    # Show inbox items by their masked text, without the secret; refused ones have no text.
    fields = frontmatter.parse_fields(step.text if is_waiting else candidate.text)
    texts = {"title": candidate.said or fields.title, "description": fields.description}
    texts |= {"source": candidate.source, "why": step.why}
    is_searched = step.fate is ImportAction.NEW  # New ones were scanned for secrets when planned.
    if not is_searched:
        texts = {key: mask_secrets(text, call.environment) for key, text in texts.items()}
    texts["text"] = step.text if is_searched or is_waiting else ""
    return fill("fate name? modified", step, candidate, type=fields.kind, **texts)


# `export`.


@verb(
    "export", "Write all memories to one archive.",
    "memdir export -o memories.tar", "memdir export --scope user -o mine.tar.gz",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE|-", default="-", help="The file to write; default: standard output.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@scope_option
def export_verb(call: CliContext, output: str, force: bool, scope: str | None, as_json: bool) -> None:
    """Write all memories to one archive of the directory; the same memories give the same bytes. Without --scope, team
    memories are included. FILE.gz is compressed.

    `memdir import` reads it without loss. Secrets in memories are exported too; a warning lists them.
    """
    if as_json and output == "-":
        raise click.UsageError("--json needs -o FILE")
    if output == "-" and call.out.is_terminal:
        raise click.UsageError("cannot write an archive to a terminal; pass -o FILE")
    project = call.open()
    store = choose_store(project, scope)
    only_scope = Scope(scope) if scope is not None else None
    exported = imports.export(store, now=project.now(), scope=only_scope)
    if not exported.names:
        raise NotFoundError("no memories to export", hint="`memdir where` shows the directories")
    warnings = [f"{path} was left out: {why}" for path, why in exported.unread]
    warnings += [f"the export contains a secret: {secret}; store it safely" for secret in exported.secrets]
    if output == "-":
        call.out.raw(exported.data)
        flush(sys.stdout)
    else:
        path = call.cwd / Path(output).expanduser()
        if path.exists() and not force:
            raise ConflictError(f"{path} already exists", hint="pass --force to replace it")
        if not path.parent.is_dir():  # Creating a folder for a misspelled path would hide a backup.
            raise NotFoundError(f"folder {path.parent} not found", hint="create the folder, or choose another path")
        packed = gzip.compress(exported.data, mtime=0) if path.name.endswith(".gz") else exported.data
        write_private(path, packed)
        if as_json:
            facts = {"format": "tar", "memories": exported.names, "bytes": len(packed), "warnings": warnings}
            call.out.json({"path": path, **facts})
        else:
            call.out.line(f"{count_words(len(exported.names), 'memory')} in {path} ({len(packed):,} bytes)")
    for warning in warnings:
        call.out.warn(warning)
