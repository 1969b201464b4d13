"""The commands that share memories: `promote`, `demote`, `team`, `sync` and `agent`."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from memdir.conversation.instructions import find_frame, load_indexes
from memdir.errors import MemdirError, NotFoundError, PathError, SettingsError
from memdir.format.frontmatter import digest_of
from memdir.format.index import INDEX_FILE
from memdir.interfaces import cli
from memdir.interfaces.cli import (
    CliContext,
    Row,
    Styled,
    TableColumn,
    app,
    choose_stores,
    count_words,
    describe_memories,
    describe_memory,
    fill,
    is_terminal,
    scope_flag,
)
from memdir.interfaces.cli.app import VerbGroup, name_argument, scope_option, verb
from memdir.interfaces.cli.context import make_index_row, show_index
from memdir.limits import TEAM_SECONDS
from memdir.operations.find import find_memory, list_memories
from memdir.operations.move import find_scope_store, move
from memdir.operations.write import WriteContext
from memdir.records import TEAM_FOLDER, InboxState, Origin, Scope
from memdir.store import open as opening
from memdir.store.open import AgentDirectory, AgentScope, Project, find_agent_directory, open_agent_store
from memdir.store.state import find_own_sync
from memdir.sync import own, state
from memdir.sync import sync as syncing
from memdir.sync.git import TEAM_FILE, hash_blob
from memdir.sync.server import TOKEN_VARIABLE, check_server, find_token
from memdir.sync.state import BRANCH, Membership, SyncOutcome, SyncPart, SyncRecord, SyncResult, read_local
from memdir.sync.sync import WAIT
from memdir.text import fold

# `promote` and `demote`.


def _move_arguments(decorated: Any) -> Any:
    named = click.option("--name", "named", metavar="NEW", help="The new name; default: keep the name.")
    return name_argument()(named(scope_option(decorated)))


@verb(
    "promote", "Share a memory with the team or with all your projects.",
    "memdir promote deploy-days", "memdir promote terse-replies --to user",
)  # fmt: skip
@click.option(
    "--to", type=click.Choice(("team", "user", "project")), default=Scope.TEAM.value, show_default=True,
    help="Team memory, your memory for all projects, or .claude/memory in the repository.",
)  # fmt: skip
@_move_arguments
def promote_verb(call: CliContext, to: str, **given: Any) -> None:
    """Move a memory and its index line to a shared directory; history records both sides.

    Team memories cannot contain secrets or be of type user; memories for all projects cannot be of type project or
    reference. A vague description, a name already in use and a missing team are refused too. Nothing is committed or
    pushed.
    """
    _move_memory(call, "promote", Scope(to), **given)


@verb(
    "demote", "Make a shared memory private again.",
    "memdir demote team/deploy-days", "memdir demote terse-replies --scope user",
)  # fmt: skip
@_move_arguments
def demote_verb(call: CliContext, **given: Any) -> None:
    """Move a memory of the team, or of all your projects, to your own memory for this project.

    The next sync removes it for the team too; copies that others made or committed remain.
    """
    _move_memory(call, "demote", Scope.PRIVATE, **given)


def _move_memory(
    call: CliContext, done: str, to: Scope, *, name: str, named: str | None, scope: str | None, as_json: bool
) -> None:
    project, out = call.open_to_write(), call.out
    store, header = app.pick_memory(choose_stores(project, scope), name, scope=scope)
    if to is Scope.TEAM and not project.private.team:
        hint = "`memdir team init` creates one; `memdir promote NAME --to user` shares it with all your projects"
        raise SettingsError("this project has no team, so recall would not search team memories", key="team", hint=hint)
    if scope is None and header.scope is to:  # An interrupted move leaves the memory in another scope too.
        for other in (candidate for candidate in app.SCOPES if candidate != to.value):
            try:
                store, header = find_memory(choose_stores(project, other), name, scope=other)
                break
            except (NotFoundError, SettingsError):
                continue
    new_name = (named or "").removesuffix(".md")
    target, new_name = find_scope_store(project, new_name or header.name, to)
    context = WriteContext(call.origin(), project.now())
    changes = move(store, header.name, target, new_name, context, verb=done).changes
    memory = target.read(new_name)
    now, warnings = memory.header, app.warn_of_team(target, to)
    if to in (Scope.PRIVATE, Scope.USER):
        warnings += app.warn_of_secrets(new_name, {now.file: memory.text}, project.environment)
    undos = [f"memdir undo{scope_flag(end)} {number}" for end, number in changes]
    if as_json:
        numbers = dict(changes)
        left = None if target is store else numbers.get(store)
        facts = {"action": f"{done}d", "was": fill("name scope", header), "undo": undos, "warnings": warnings}
        out.json(describe_memory(target, now) | {"change": numbers.get(target), "source_change": left} | facts)
    else:
        out.line(f"{done}d ", Styled(header.name, "cyan"), f" ({header.scope}) to ", Styled(now.name, "cyan"))
        out.line(Styled(f"  {target.root / now.file}", "dim"))
        undo = " and then ".join(f"`{undo}`" for undo in undos)
        out.line(f"  {undo} {'reverts' if len(undos) == 1 else 'revert'} it")
    for warning in warnings:
        out.warn(warning)


# `team`.

_LOG = (
    TableColumn("WHEN", "dim", "at"),
    TableColumn("AUTHOR", "cyan", "author", is_cut=True),
    TableColumn("ADDRESS", "dim", "email", is_cut=True),
    TableColumn("CHANGE", "yellow", "change"),
    TableColumn("MEMORY", "", lambda row: f"{TEAM_FOLDER}/{row['path'].removesuffix('.md')}", is_cut=True),
)
_WORDS = {
    SyncOutcome.SYNCED: "in sync",
    SyncOutcome.OFFLINE: "cannot reach the remote; the next sync will send your changes",
    SyncOutcome.DENIED: "the remote refuses your changes; changes of others were imported",
    SyncOutcome.BUSY: "another sync is running",
    SyncOutcome.FAILED: "the sync failed; your files are unchanged",
}
_timeout = click.option(
    "--timeout", "seconds", type=click.FloatRange(min=1), default=TEAM_SECONDS, show_default=True, metavar="SECONDS",
    help="Total time limit.",
)  # fmt: skip


def _remote_options(decorated: Any) -> Any:
    branch = click.option("--branch", metavar="NAME", default=BRANCH, show_default=True, help="The branch to share.")
    remote = click.option("--remote", metavar="URL", default="", help="Use another remote than the project's.")
    return remote(branch(decorated))


@click.group("team", short_help="Share memories with a team over git.", cls=VerbGroup)
def team_verb() -> None:
    """Share the memories in `team/` with others, using a separate git branch or a server.

    Your repository is only read for the URL of its remote: your commits, branches, stashes, hooks and files are not
    touched. Changes of others are checked first; conflicts and suspicious changes go to `memdir inbox`.
    """


def _server_options(decorated: Any) -> Any:
    url = click.argument("url", metavar="[URL]", required=False, default="")
    store = click.option("--store", metavar="NAME", default="", help="The store on the server.")
    token = click.option(
        "--token-file",
        type=click.File("r", encoding="utf-8"),
        help="A file with the server token; `-` for standard input.",
    )
    return url(store(token(decorated)))


@team_verb.command(
    "init",
    examples=(
        "memdir team init",
        "memdir team init --remote git@example.org:team/memory.git --no-review",
        "memdir team init https://memory.example.org --store platform",
    ),
)
@_server_options
@_remote_options
@click.option(
    "--review/--no-review", default=True, show_default=True, help="Require review of others' changes, for all members."
)
@_timeout
def _init(call: CliContext, /, remote: str, branch: str, review: bool, **given: Any) -> int:
    """Create a team, or join an existing one. Uploads the files in `team/`.

    URL is a server (`memdir serve`), where a missing store is created and, without --store, named after the project.
    Without URL, uses a git branch. For the token see `memdir team join`.
    """
    return _join_team(call, Membership(remote, branch, review=review), create=True, **given)


@team_verb.command(
    "join",
    examples=(
        "memdir team join",
        "memdir team join --remote ../team.git --read-only",
        "memdir team join https://memory.example.org --store platform",
    ),
)
@_server_options
@_remote_options
@click.option("--read-only", is_flag=True, help="Receive changes, but do not send any.")
@click.option("--review/--no-review", default=True, show_default=True, help="Review others' changes in your inbox.")
@_timeout
def _join(call: CliContext, /, remote: str, branch: str, read_only: bool, review: bool, **given: Any) -> int:
    """Join an existing team. Uploads the files in `team/`. Without URL, uses a git branch.

    URL is a server (`memdir serve`). If there are several stores, pass --store. The server token is prompted for, or
    read from --token-file, and stored in ~/.config/memdir/tokens.json; MEMDIR_TEAM_TOKEN overrides it.
    """
    return _join_team(call, Membership(remote, branch, read_only, review), create=False, **given)


def _join_team(
    call: CliContext, member: Membership, *, create: bool, seconds: float, url: str = "", store: str = "", token_file: Any = None,
    as_json: bool,
) -> int:  # fmt: skip
    project = call.open_to_write()
    now = project.now()
    if not url:
        return _report_sync(call, syncing.enter(project, member, now=now, create=create, seconds=seconds), as_json)
    address = check_server(url)
    token = token_file.read().strip() if token_file else ""
    if not token and not find_token(project.environment, address):
        if not is_terminal(sys.stdin):
            raise SettingsError("the server needs a token", key="token", hint=f"--token-file FILE, or {TOKEN_VARIABLE}")
        token = click.prompt("Token", hide_input=True, err=True).strip()
    result = syncing.enter_server(
        project, address, token, store=store, member=member, now=now, create=create, seconds=seconds
    )
    return _report_sync(call, result, as_json)


@team_verb.command("sync", examples=("memdir team sync", "memdir team sync --timeout 20"))
@_timeout
def _sync(call: CliContext, seconds: float, as_json: bool) -> int:
    """Send local changes and receive those of others. If the remote is offline, the next sync sends them."""
    project = call.open_to_write()
    task = syncing.open_sync(project, seconds=seconds)
    return _report_sync(call, syncing.sync(task, now=project.now()), as_json)


@team_verb.command("status", examples=("memdir team status", "memdir team status --json"))
def _status(call: CliContext, as_json: bool) -> None:
    """Show the remote, the last sync, unsent changes and refused files."""
    project, out = call.open(), call.out
    store = project.private
    member, record = state.read_membership(store.state), state.read_sync_record(store.state)
    try:
        remote = state.resolve_remote(member, project.places.root.path) if member else None
    except SettingsError:
        remote = None
    part = SyncPart(store)
    point = syncing.find_point(part) if member else None
    hash = digest_of if member and member.is_server else hash_blob
    changed = [path for path, data in read_local(part).files.items() if point and point.find(path) != hash(data)]
    row = fill(
        "branch? read_only review last_good outcome? error?",
        record,
        member or Membership("", ""),
        member=member is not None,
        remote=remote,
        last=record.at,
        unsent=[part.name(path) for path in sorted(changed) if path not in record.withheld],
        waiting=sum(item.key.startswith(WAIT) for item in store.inbox(InboxState.WAITING)),
        news=len(state.read_team_news(store.state)),
        **_list_held_back(record),
    )
    if as_json:
        out.json(row)
        return
    if member is None:
        out.line("this project has no team; `memdir team init` creates one, `memdir team join` joins one")
        return
    facts = {
        "remote": remote or "none: this project has no git remote",
        "branch": member.branch,
        "part": ", ".join(["read-only"] * member.read_only + ["review"] * member.review),
        **_describe_last(row),
        "unsent": ", ".join(row["unsent"]),
        "waiting": f"{row['waiting']} in `memdir inbox`" if row["waiting"] else None,
        "news": f"{row['news']} since the last session" if row["news"] else None,
    }
    _show_facts(call, facts)
    _show_held_back(call, row)


@team_verb.command("log", examples=("memdir team log", "memdir team log --author ada@example.org"))
@click.option("--author", metavar="NAME", default="", help="Only authors whose name or email contains this.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of changes.")
def _log(call: CliContext, author: str, limit: int, as_json: bool) -> None:
    """List changes and their authors as of the last sync, newest first. Author names are not verified.

    In a pipe: time, author, email, change, memory, separated by tabs.
    """
    project = call.open()
    remote = syncing.open_team(project)
    commits = remote.read_log(syncing.read_remote_head(project.private).head)
    wanted_author = fold(author.strip())
    matching = [item for item in commits if wanted_author in fold(f"{item.author.name} <{item.author.email}>")][:limit]
    hidden = (INDEX_FILE, TEAM_FILE)
    rows = []
    for commit in matching:
        who = commit.author
        changes = [{"path": path, "change": how} for path, how in sorted(commit.changes.items()) if path not in hidden]
        rows.append(fill("email", who, commit=commit.sha, at=who.when, author=who.name, changes=changes))
    lines = [{**row, **change} for row in rows for change in row["changes"]]
    call.show_rows(_LOG, rows if as_json else lines, as_json=as_json, empty="no changes yet")


@team_verb.command(
    "revert",
    examples=("memdir team revert --author ada@example.org",),
)
@click.option("--author", metavar="NAME", required=True, help="The full name or email, as `team log` shows it.")
def _revert(call: CliContext, author: str, as_json: bool) -> None:
    """Revert one author's changes; changes of others in the same memories are kept.

    This is one change: `memdir undo` reverts it, and the next sync sends it to the others.
    """
    project, out = call.open_to_write(), call.out
    remote = syncing.open_team(project)
    origin = Origin(why=f"reverted the changes of {author}", session=project.environment.session)
    head = syncing.read_remote_head(project.private).head
    reverted = syncing.revert_author(project.private, remote, head, author, origin=origin)
    if as_json:
        out.json(fill("commits names left change", reverted, author=author))
        return
    changed = count_words(len(reverted.names), "memory")
    out.line(f"reverted {count_words(reverted.commits, 'commit')}, which changed {changed}")
    for name in reverted.names:
        out.line(f"  {name}")
    for name in reverted.left:
        out.warn(f"the earlier version of {name} can no longer be shared; it was not changed")
    if reverted.change is not None:
        out.line(f"`memdir undo {reverted.change}` restores them; `memdir team sync` sends this to the others")


@team_verb.command("leave", examples=("memdir team leave",))
def _leave(call: CliContext, as_json: bool) -> None:
    """Leave the team. The files in `team/` are kept but no longer recalled; other members keep theirs."""
    was_in = syncing.leave(call.open())
    left = "left the team; the memories in `team/` are kept; `memdir config set team true` recalls them again"
    call.answer({"left": was_in}, left if was_in else "this project has no team", as_json=as_json)


def _report_sync(call: CliContext, done: SyncResult, as_json: bool) -> int:
    out, code = call.out, cli.REFUSED if done.outcome is SyncOutcome.FAILED else 0
    row = _make_sync_row(done)
    if as_json:
        out.json(row)
        return code
    out.line(Styled(_WORDS[done.outcome], "bold"))
    for note in (*done.notes, *([done.error] if done.error else [])):
        out.warn(note)
    for name in done.sent:
        out.line("  sent      ", Styled(name, "cyan"))
    for item in done.received:
        out.line(f"  {item.change:<9} ", Styled(item.name, "cyan"), f" by {item.author}" if item.author else "")
    for name in done.clashes:
        out.line("  both kept ", Styled(name, "yellow"), ": `memdir inbox` shows the two sides")
    for name in done.waiting:
        out.line("  to review ", Styled(name, "yellow"), ": `memdir inbox` shows it")
    _show_held_back(call, row)
    if done.change is not None:
        out.line(f"`memdir undo {done.change}` reverts the received changes")
    return code


def _make_sync_row(done: SyncResult) -> Row:
    refused, withheld = ([fill("path why new", file) for file in files] for files in (done.refused, done.withheld))
    facts = {"received": [state.render_row(item) for item in done.received], "refused": refused, "withheld": withheld}
    return fill("outcome error? sent clashes waiting notes change commit?", done, pid=None, **facts)


def _list_held_back(record: SyncRecord) -> Row:
    refused, withheld = (
        [{"path": path, "why": why} for path, why in sorted(files.items())]
        for files in (record.refused, record.withheld)
    )
    return {"refused": refused, "withheld": withheld}


def _describe_last(row: Row) -> Row:
    last, last_good = row["last"], row["last_good"]
    shown = f"{row['outcome']}, {last}" if last else "never"
    return {"last sync": shown, "error": row["error"], "in sync": last_good if last_good != last else None}


def _show_facts(call: CliContext, facts: Row) -> None:
    for label, text in facts.items():
        if text:
            call.out.line(Styled(f"{label:<10}", "dim"), text)


def _show_held_back(call: CliContext, row: Row) -> None:
    for label, files in (("refused ", row["refused"]), ("not sent", row["withheld"])):
        for file in files:
            call.out.line(f"  {label}  ", Styled(file["path"], "yellow"), f": {file['why']}")


# `sync`.


@click.group("sync", short_help="Sync your own memory between your machines.", cls=VerbGroup, default="now")
def sync_verb() -> None:
    """Keep your private memory of every project, and your memory for all projects, in sync on all your machines.

    It uses a branch of your own git repository, independent of any team. Projects are matched by their git remote or
    first commit, not by path. Once set up, it runs automatically after learning and when a session starts. docs/sync.md
    lists which files leave the machine.
    """


@sync_verb.command(
    "init",
    examples=(
        "memdir sync init git@example.org:me/memory.git",
        "memdir sync init ~/nas/memory.git --encrypt",
        "memdir sync init ~/nas/memory.git --key ~/keys/age.txt --recipient age1…",
    ),
)
@click.argument("remote", metavar="REMOTE")
@click.option("--branch", metavar="NAME", default=own.BRANCH, show_default=True, help="The branch to use.")
@click.option(
    "--encrypt/--plain", default=None,
    help="Encrypt names and contents with the key file, created if missing; or send clear text although there is one.",
)  # fmt: skip
@click.option("--key", metavar="FILE", default="", help="An age or SSH key; default: ~/.config/memdir/sync.key.")
@click.option("--recipient", "recipients", metavar="KEY", multiple=True, help="Encrypt to this public key too.")
@_timeout
def _sync_init(
    call: CliContext, remote: str, branch: str, encrypt: bool | None, key: str, recipients: tuple[str, ...], seconds: float,
    as_json: bool,
) -> int:  # fmt: skip
    """Sync with this repository, which may be empty or already used by another of your machines.

    An encrypted repository is recognised; copy the key file of the first machine to the others, or pass it with --key.
    """
    project = call.open_to_write()
    file = str((call.cwd / Path(key).expanduser()).absolute()) if key else ""
    setup = own.OwnSetup(remote, branch, recipients, file)
    result = own.start(project, setup, now=project.now(), encrypt=encrypt, seconds=seconds)
    setup_now = own.read_setup(project.environment)
    if setup_now and setup_now.recipients and not as_json:
        call.out.line(f"encrypted; the key is {setup_now.key_file}: keep a copy, and copy it to your other machines")
    return _report_sync(call, result, as_json)


@sync_verb.command("now", examples=("memdir sync now", "memdir sync now --json"))
@_timeout
def _sync_now(call: CliContext, seconds: float, as_json: bool) -> int:
    """Send local changes and receive those of your other machines. `memdir sync` does the same."""
    project = call.open()
    return _report_sync(call, own.sync_own(project, now=project.now(), seconds=seconds), as_json)


@sync_verb.command("status", examples=("memdir sync status", "memdir sync status --json"))
def _sync_status(call: CliContext, as_json: bool) -> None:
    """Show the remote, the last sync, and each directory with its unsent changes."""
    project, out = call.open(), call.out
    setup, folder = own.read_setup(project.environment), find_own_sync(project.environment)
    record = state.read_sync_record(folder, state.OWN_RECORD)
    rows = own.list_own(project) if setup else []
    row = fill(
        "last_good outcome? error?",
        record,
        on=setup is not None,
        remote=setup and setup.remote,
        branch=setup and setup.branch,
        encrypted=bool(setup and setup.recipients),
        last=record.at,
        directories=[
            {"path": str(one.path), "folder": one.prefix.rstrip("/") or None, "why": one.why or None, "unsent": unsent}
            for one, unsent in rows
        ],
        elsewhere=[fill("id name", other) for other in (own.list_elsewhere(project) if setup else ())],
        **_list_held_back(record),
    )
    if as_json:
        out.json(row)
        return
    if setup is None:
        out.line("this machine is not synced; `memdir sync init REMOTE` starts")
        return
    facts = {
        "remote": f"{setup.remote} ({setup.branch}{', encrypted' if setup.recipients else ''})",
        **_describe_last(row),
        "elsewhere": ", ".join(other["name"] or other["id"] for other in row["elsewhere"]),
    }
    _show_facts(call, facts)
    for directory in row["directories"]:
        unsent = f"{count_words(len(directory['unsent']), 'memory')} to send" if directory["unsent"] else ""
        details = directory["why"] or unsent
        out.line("  ", Styled(directory["folder"] or directory["path"], "cyan"), f": {details}" if details else "")
    _show_held_back(call, row)


@sync_verb.command("link", examples=("memdir sync link app", "memdir sync link app-1f0e3dad"))
@click.argument("name", metavar="NAME")
@_timeout
def _sync_link(call: CliContext, name: str, seconds: float, as_json: bool) -> None:
    """Link this project to a synced one by its name or ID in `sync status`; a new name creates one.

    Use this for a folder without git, a fork, or a clone whose remote has a new URL.
    """
    project_id = own.link(call.open_to_write(), name, seconds=seconds)
    pieces = ("this project is synced as ", Styled(project_id, "cyan"), "; run `memdir sync` to sync now")
    call.answer({"id": project_id}, *pieces, as_json=as_json)


@sync_verb.command("stop", examples=("memdir sync stop",))
def _sync_stop(call: CliContext, as_json: bool) -> None:
    """Stop syncing this machine. Memories on it and on the remote are kept, and so is the key file."""
    project = call.open()
    with own.open_directories(project) as directories:
        was_on = own.stop(project.environment, [store for store, _ in directories])
    text = "this machine is no longer synced" if was_on else "this machine is not synced"
    call.answer({"stopped": was_on}, text, as_json=as_json)


# `agent`.

_AGENTS = (
    TableColumn("AGENT", "cyan", "agent", is_cut=True),
    TableColumn("MEMORY", "magenta", lambda row: row["scope"] or "none"),
    TableColumn("COUNT", "bold", "memories"),
    TableColumn("DIRECTORY", "dim", "path", is_cut=True),
    TableColumn("PROBLEM", "yellow", "problem", is_cut=True),
)


def _agent_arguments(decorated: Any) -> Any:
    text = "For all projects (user), committed with this one (project), or on this machine (local); default: its definition's."
    scope = click.option("--scope", type=click.Choice([scope.value for scope in AgentScope]), help=text)
    name = click.argument("name", metavar="NAME")
    return name(scope(decorated))


@click.group("agent", short_help="Show the memories of agents.", cls=VerbGroup)
def agent_verb() -> None:
    """Show the memories that agents keep for themselves.

    An agent has a memory if its definition (.claude/agents/NAME.md in the project or your home) sets `memory:` to user,
    project or local. `memdir save --agent NAME` writes to it; background learning does not.
    """


@agent_verb.command("list", examples=("memdir agent list", "memdir agent list --json"))
def _list(call: CliContext, as_json: bool) -> None:
    """List the agents defined here and those with a memory here.

    In a pipe: agent, scope or `none`, number of memories, directory, problem, separated by tabs.
    """
    project = call.open()
    environment, root = project.environment, project.places.root.path
    agent_rows: list[tuple[str, AgentDirectory | None, Any, str]] = []  # name, directory, definition, problem
    for agent in opening.list_definitions(environment, root):
        own, problem = None, agent.problem
        try:
            if agent.memory is not None:
                own = opening.find_agent_place(agent.name, agent.memory, environment=environment, root=root)
        except PathError as error:
            problem = str(error)
        agent_rows.append((agent.name, own, agent.path, problem))
    asked = {(fold(own.name), own.scope) for _, own, *_ in agent_rows if own}
    others = [one for one in opening.list_agent_memories(environment, root) if (fold(one.name), one.scope) not in asked]
    rows = []
    for name, own, definition, problem in [*agent_rows, *((other.name, other, None, "") for other in others)]:
        count = 0
        if own is not None:
            try:
                with closing(open_agent_store(project, own)) as store:
                    count = len(store.scan())
            except MemdirError:
                pass  # The directory cannot be read.
        facts = {"exists": own is not None and own.path.is_dir(), "definition": definition, "problem": problem or None}
        place = {"scope": own and own.scope, "path": own and own.path}
        rows.append(fill("", agent=name, memories=count, **place, **facts))
    call.show_rows(_AGENTS, rows, as_json=as_json, empty="no agents are defined here or have a memory here")


@agent_verb.command("show", examples=("memdir agent show reviewer", "memdir agent show reviewer --scope local --json"))
@_agent_arguments
def _show(call: CliContext, name: str, scope: str | None, as_json: bool) -> None:
    """Print the part of an agent's memory that is loaded, and list its memories."""
    project, out = call.open(), call.out
    own, row = _find_agent(project, name, scope)
    indexes = load_indexes(find_frame(project, agent=own))
    with closing(open_agent_store(project, own)) as store:
        memories = describe_memories(list_memories([store]), project.now())
    if as_json:
        out.json(row | {"indexes": [make_index_row(index) for index in indexes], "memories": memories})
        return
    if not row["on"]:
        out.line(f"memory is off ({project.places.switch.rule}): an agent loads nothing")
    for loaded in indexes:
        show_index(out, loaded)
    out.line(Styled(count_words(len(memories), "memory"), "dim"))
    for memory in memories:
        out.line("  ", Styled(memory["name"], "cyan"), f"  {memory['description']}")


def _find_agent(project: Project, name: str, scope: str | None) -> tuple[AgentDirectory, Row]:
    own, rule = find_agent_directory(project, name, None if scope is None else AgentScope(scope))
    on = project.places.switch.on
    return own, fill("scope path", own, agent=own.name, rule=rule, exists=own.path.is_dir(), on=on)
