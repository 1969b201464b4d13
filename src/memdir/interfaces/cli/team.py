"""`team`: share memories over git: begin, take part, sync, look, take back, leave."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from typing import Any

import click

from memdir.conversation.instructions import find_frame, load_indexes
from memdir.errors import MemdirError, PathError, SettingsError
from memdir.format.index import INDEX_FILE
from memdir.interfaces.cli import CliContext, VerbGroup, json_option
from memdir.interfaces.cli.output import REFUSED, Output, Row, Styled, TableColumn, make_row, make_time
from memdir.interfaces.cli.read import make_index_row, show_index
from memdir.limits import TEAM_SECONDS
from memdir.records import InboxState, Origin
from memdir.store.open import (
    AgentDefinition,
    AgentDirectory,
    AgentScope,
    Project,
    find_agent_directory,
    find_agent_place,
    list_agent_memories,
    list_definitions,
    open_agent_store,
)
from memdir.team import (
    Membership,
    SyncOutcome,
    SyncRefusal,
    SyncResult,
    enter,
    leave,
    open_sync,
    open_team_copy,
    read_membership,
    read_remote_head,
    read_sync_record,
    read_team_news,
    revert_author,
    start_sync,
    sync,
)
from memdir.team.git import TeamCommit, hash_blob, read_commits
from memdir.team.news import WAIT, name_memory, render_row
from memdir.team.plan import TEAM_FILE, read_local
from memdir.team.state import BRANCH, resolve_remote
from memdir.team.sync import find_point
from memdir.text import fold

# --- team_shown ---
# What `team` prints: how a sync went, how things stand, who wrote what.

_LOG = (
    TableColumn("WHEN", "dim"),
    TableColumn("AUTHOR", "cyan", is_cut=True),
    TableColumn("ADDRESS", "dim", is_cut=True),
    TableColumn("CHANGE", "yellow"),
    TableColumn("MEMORY", is_cut=True),
)
_WORDS = {
    SyncOutcome.SYNCED: "in step with the team",
    SyncOutcome.OFFLINE: "the remote could not be reached; what was changed here goes out with the next sync",
    SyncOutcome.DENIED: "the remote takes nothing from you; what others wrote was taken",
    SyncOutcome.BUSY: "another sync is under way",
    SyncOutcome.FAILED: "the sync failed; nothing of yours is lost",
}


def make_sync_row(done: SyncResult | None) -> Row:
    """A sync, as `--json` prints it; None for one that was only begun."""
    if done is None:
        done, outcome = SyncResult(SyncOutcome.BUSY), "started"
    else:
        outcome = done.outcome.value
    return {
        "outcome": outcome,
        "error": done.error or None,
        "sent": list(done.sent),
        "received": [render_row(at) for at in done.received],
        "clashes": list(done.clashes),
        "refused": [_make_refusal(at) for at in done.refused],
        "withheld": [_make_refusal(at) for at in done.withheld],
        "waiting": list(done.waiting),
        "notes": list(done.notes),
        "change": done.change,
        "commit": done.commit or None,
        "pid": None,
    }


def show_synced(out: Output, done: SyncResult) -> None:
    out.line(Styled(_WORDS[done.outcome], "bold"))
    for note in done.notes:
        out.warn(note)
    if done.error:
        out.warn(done.error)
    for name in done.sent:
        out.line("  sent      ", Styled(name, "cyan"))
    for at in done.received:
        by = f" by {at.author}" if at.author else ""
        out.line(f"  {at.change:<9} ", Styled(at.name, "cyan"), by)
    for name in done.clashes:
        out.line("  both kept ", Styled(name, "yellow"), ": `memdir inbox` shows the two sides")
    for name in done.waiting:
        out.line("  waits     ", Styled(name, "yellow"), ": `memdir inbox` shows it")
    _show_refusals(out, "refused ", done.refused)
    _show_refusals(out, "not sent", done.withheld)
    if done.change is not None:
        out.line(f"`memdir undo {done.change}` takes back what came")


def make_status_row(opened: Project) -> Row:
    """How things stand, without asking the remote."""
    store = opened.private
    member, record = read_membership(store.state), read_sync_record(store.state)
    try:
        address = resolve_remote(member, opened.places.root.path) if member else None
    except SettingsError:
        address = None
    waiting = [item for item in store.inbox(InboxState.WAITING) if item.key.startswith(WAIT)]
    return {
        "member": member is not None,
        "remote": address,
        "branch": member.branch if member else None,
        "read_only": bool(member and member.read_only),
        "review": bool(member and member.review),
        "last": _make_time(record.at),
        "last_good": _make_time(record.last_good),
        "outcome": record.outcome or None,
        "error": record.error or None,
        "unsent": _find_unsent(opened) if member else [],
        "waiting": len(waiting),
        "news": len(read_team_news(store.state)),
        "refused": [{"path": path, "why": why} for path, why in sorted(record.refused.items())],
        "withheld": [{"path": path, "why": why} for path, why in sorted(record.withheld.items())],
    }


def show_status(out: Output, row: Row) -> None:
    if not row["member"]:
        out.line("this project is in no team; `memdir team init` begins one, `memdir team join` takes part in one")
        return
    how = ", ".join(word for word, is_on in (("read-only", row["read_only"]), ("review", row["review"])) if is_on)
    facts: list[tuple[str, Any]] = [
        ("remote", row["remote"] or "none: this project has no git remote"),
        ("branch", row["branch"]),
        ("part", how),
        ("last sync", f"{row['outcome']}, {row['last']}" if row["last"] else "never"),
        ("error", row["error"]),
        ("in step", row["last_good"] if row["last_good"] != row["last"] else None),
        ("unsent", ", ".join(row["unsent"])),
        ("waiting", f"{row['waiting']} in `memdir inbox`" if row["waiting"] else None),
        ("news", f"{row['news']} since the last session" if row["news"] else None),
    ]
    for label, text in facts:
        if text:
            out.line(Styled(f"{label:<10}", "dim"), str(text))
    _show_refusals(out, "refused ", [SyncRefusal(at["path"], at["why"]) for at in row["refused"]])
    _show_refusals(out, "not sent", [SyncRefusal(at["path"], at["why"]) for at in row["withheld"]])


def make_commit_row(commit: TeamCommit) -> Row:
    own = (INDEX_FILE, TEAM_FILE)
    changes = [{"path": path, "change": how} for path, how in sorted(commit.changes.items()) if path not in own]
    when = commit.author.when
    return {
        "commit": commit.sha,
        "at": None if when is None else make_time(when),
        "author": commit.author.name,
        "email": commit.author.email,
        "changes": changes,
    }


def show_log(out: Output, rows: list[Row]) -> None:
    cells = [
        [row["at"] or "", row["author"], row["email"], at["change"], name_memory(at["path"])]
        for row in rows
        for at in row["changes"]
    ]
    if cells:
        out.table(_LOG, cells)
    elif out.is_table:
        out.line("nobody has written anything yet")


def _find_unsent(opened: Project) -> list[str]:
    """What differs from the last sync here."""
    point = find_point(opened.private)
    files = read_local(opened.private).files
    changed = [path for path, data in files.items() if point.find(path) != hash_blob(data)]
    return [name_memory(path) for path in sorted(changed)]


def _make_refusal(at: SyncRefusal) -> Row:
    return {"path": at.path, "why": at.why, "new": at.is_new}


def _show_refusals(out: Output, label: str, refusals: Any) -> None:
    for at in refusals:
        out.line(f"  {label}  ", Styled(at.path, "yellow"), f": {at.why}")


def _make_time(when: datetime | None) -> str | None:
    return None if when is None else make_time(when)


# --- teaming ---

_REMOTE = click.option("--remote", metavar="URL", default="", help="Another remote than the project's own.")
_BRANCH = click.option("--branch", metavar="NAME", default=BRANCH, show_default=True, help="The branch to share.")
_REVIEW = click.option("--review", is_flag=True, help="What others write waits in your inbox.")
_TIMEOUT = click.option(
    "--timeout", "seconds", type=click.FloatRange(min=1), default=TEAM_SECONDS, show_default=True, metavar="SECONDS",
    help="How long it may take in all.",
)  # fmt: skip


@click.group("team", short_help="Share memories with a team over git.", cls=VerbGroup)
def team_verb() -> None:
    """Share the memories in `team/` with others, over a git branch of their own.

    Your repository is only read for the address of its remote: no commit, branch, stash, hook or file of yours is
    touched. What others write is checked before it comes in; clashes and doubtful things wait in `memdir inbox`.
    """


@team_verb.command(
    "init", examples=("memdir team init", "memdir team init --remote git@example.org:team/memory.git --review")
)
@_REMOTE
@_BRANCH
@click.option("--review", is_flag=True, help="Ask everybody to look at what others write.")
@_TIMEOUT
@json_option
@click.pass_obj
def _init(call: CliContext, remote: str, branch: str, review: bool, seconds: float, as_json: bool) -> int:
    """Begin a team's memory, or take part in one that is there: the first sync sends what lies in `team/`."""
    opened = call.open_to_write()
    done = enter(opened, Membership(remote, branch, review=review), now=opened.now(), create=True, seconds=seconds)
    return _tell(call, done, as_json=as_json)


@team_verb.command("join", examples=("memdir team join", "memdir team join --remote ../team.git --read-only"))
@_REMOTE
@_BRANCH
@click.option("--read-only", is_flag=True, help="Take what others write, send nothing.")
@_REVIEW
@_TIMEOUT
@json_option
@click.pass_obj
def _join(
    call: CliContext, remote: str, branch: str, read_only: bool, review: bool, seconds: float, as_json: bool
) -> int:
    """Take part in a team's memory that somebody has begun. What lies in `team/` already is sent there."""
    opened = call.open_to_write()
    member = Membership(remote, branch, read_only, review)
    return _tell(call, enter(opened, member, now=opened.now(), create=False, seconds=seconds), as_json=as_json)


@team_verb.command("sync", examples=("memdir team sync", "memdir team sync --background"))
@_TIMEOUT
@click.option("--background", "is_detached", is_flag=True, help="Let it run by itself; nobody waits.")
@json_option
@click.pass_obj
def _sync(call: CliContext, seconds: float, is_detached: bool, as_json: bool) -> int:
    """Send what was changed here, take what others changed. Offline it says so, and the next one sends it."""
    opened = call.open_to_write()
    task = open_sync(opened, seconds=seconds)
    if is_detached:
        where = ("--dir", str(call.directory)) if call.directory else ()
        pid = start_sync(call.cwd, *where, environ=opened.environment.inherited)
        if as_json:
            call.out.json(make_sync_row(None) | {"pid": pid})
        else:
            call.out.line(f"a sync runs as process {pid}; `memdir team status` tells how it went")
        return 0
    return _tell(call, sync(task, now=opened.now()), as_json=as_json)


@team_verb.command("status", examples=("memdir team status", "memdir team status --json"))
@json_option
@click.pass_obj
def _status(call: CliContext, as_json: bool) -> None:
    """Which remote, how the last sync went, what waits to be sent, and what is refused."""
    opened = call.open()
    row = make_status_row(opened)
    if as_json:
        call.out.json(row)
    else:
        show_status(call.out, row)


@team_verb.command("log", examples=("memdir team log", "memdir team log --author ada@example.org"))
@click.option("--author", metavar="NAME", default="", help="Only by whom this is a part of the name or address.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, the newest.")
@json_option
@click.pass_obj
def _log(call: CliContext, author: str, limit: int, as_json: bool) -> None:
    """Who changed what, newest first, as far as the last sync knows. Names are what commits say of themselves.

    In a pipe: time, author, address, change, memory, with tabs between.
    """
    opened = call.open()
    task = open_sync(opened)
    commits = read_commits(open_team_copy(task), read_remote_head(task).head)
    wanted = fold(author.strip())
    found = [at for at in commits if wanted in fold(f"{at.author.name} <{at.author.email}>")][:limit]
    rows = [make_commit_row(at) for at in found]
    if as_json:
        call.out.json(rows)
    else:
        show_log(call.out, rows)


@team_verb.command(
    "revert",
    examples=("memdir team revert --author ada@example.org", "memdir team revert --author Ada --since 2026-03-01"),
)
@click.option("--author", metavar="NAME", required=True, help="The whole name or address, as `team log` shows it.")
@click.option("--since", metavar="DAY", help="Only what was written on this day or later: YYYY-MM-DD.")
@json_option
@click.pass_obj
def _revert(call: CliContext, author: str, since: str | None, as_json: bool) -> None:
    """Take back what one author wrote; what others wrote in the same memories stays.

    It is one change, so `memdir undo` takes it back, and the next sync brings it to the others.
    """
    opened = call.open_to_write()
    task = open_sync(opened)
    origin = Origin(why=f"what {author} wrote was taken back", session=opened.environment.session)
    begin = _parse_day(since) if since else None
    done = revert_author(
        opened.private, open_team_copy(task), read_remote_head(task).head, author, since=begin, origin=origin
    )
    if as_json:
        call.out.json(
            {
                "author": author,
                "commits": done.commits,
                "names": list(done.names),
                "left": list(done.left),
                "change": done.change,
            }
        )
        return
    call.out.line(f"took back {_count(done.commits, 'commit')}, which changed {_count(len(done.names), 'memory')}")
    for name in done.names:
        call.out.line(f"  {name}")
    for name in done.left:
        call.out.warn(f"{name} as it was before may not be shared any more; it was left alone")
    if done.change is not None:
        call.out.line(f"`memdir undo {done.change}` brings it back; `memdir team sync` tells the others")


@team_verb.command("leave", examples=("memdir team leave",))
@json_option
@click.pass_obj
def _leave(call: CliContext, as_json: bool) -> int:
    """Forget the remote. The memories in `team/` stay here but are told no more; the others keep theirs."""
    was_in = leave(call.open())
    if as_json:
        call.out.json({"left": was_in})
    elif was_in:
        call.out.line(
            "left the team; the memories in `team/` stay, and are told again after `memdir config set team true`"
        )
    else:
        call.out.line("this project is in no team")
    return 0


def _tell(call: CliContext, done: SyncResult, *, as_json: bool) -> int:
    if as_json:
        call.out.json(make_sync_row(done))
    else:
        show_synced(call.out, done)
    return REFUSED if done.outcome is SyncOutcome.FAILED else 0


def _parse_day(text: str) -> datetime:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no day; write it as 2026-03-05") from None
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _count(number: int, what: str) -> str:
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else many}"


# --- agenting ---
# `agent`: the memories that agents keep for themselves; who has one, what is in it, and where it lies.

_COLUMNS = (
    TableColumn("AGENT", "cyan", is_cut=True),
    TableColumn("MEMORY", "magenta"),
    TableColumn("COUNT", "bold"),
    TableColumn("DIRECTORY", "dim", is_cut=True),
    TableColumn("PROBLEM", "yellow", is_cut=True),
)
_scope = click.option(
    "--scope",
    type=click.Choice([scope.value for scope in AgentScope]),
    help="All projects, committed with this one, or this machine; what its definition says if not given.",
)


@click.group("agent", short_help="Memories that agents keep for themselves.", cls=VerbGroup)
def agent_verb() -> None:
    """Look at the memories that agents keep for themselves.

    An agent has one where its definition (.claude/agents/NAME.md of the project, or of your home) says `memory: user`,
    `project` or `local`. `memdir save --agent NAME` writes to it; nothing is learned into it in the background.
    """


@agent_verb.command("list", examples=("memdir agent list", "memdir agent list --json"))
@json_option
@click.pass_obj
def _list(call: CliContext, as_json: bool) -> None:
    """List the agents that are defined here or have a memory here.

    In a pipe: agent, scope or `none`, how many memories, directory, problem, with tabs between.
    """
    rows = list(_find_rows(call.open()))
    if as_json:
        call.out.json(rows)
    elif rows:
        call.out.table(_COLUMNS, [_make_cells(row) for row in rows])
    elif call.out.is_table:
        call.out.line("no agent is defined here, and none has a memory here")


@agent_verb.command("show", examples=("memdir agent show reviewer", "memdir agent show reviewer --scope local --json"))
@click.argument("name", metavar="NAME")
@_scope
@json_option
@click.pass_obj
def _show(call: CliContext, name: str, scope: str | None, as_json: bool) -> None:
    """Print what an agent would load of its memory, and the memories that are in it."""
    opened = call.open()
    place, rule = find_agent_directory(opened, name, None if scope is None else AgentScope(scope))
    clips = load_indexes(find_frame(opened, agent=place))
    with closing(open_agent_store(opened, place)) as store:
        rows = [make_row(header, store) for header in store.scan()]
    if as_json:
        index = [make_index_row(at) for at in clips]
        call.out.json(_make_facts(opened, place, rule) | {"indexes": index, "memories": rows})
        return
    if not opened.places.switch.on:
        call.out.line(f"memory is off ({opened.places.switch.rule}): an agent loads nothing")
    for loaded in clips:
        show_index(call, loaded)
    call.out.line(Styled(f"{len(rows)} {'memory' if len(rows) == 1 else 'memories'}", "dim"))
    for row in rows:
        call.out.line("  ", Styled(row["name"], "cyan"), f"  {row['description']}")


@agent_verb.command(
    "where", examples=("memdir agent where reviewer", "memdir agent where plugin:reviewer --scope user")
)
@click.argument("name", metavar="NAME")
@_scope
@json_option
@click.pass_obj
def _where(call: CliContext, name: str, scope: str | None, as_json: bool) -> None:
    """Print the directory of an agent's memory, and which rule chose it. Nothing is made by asking."""
    opened = call.open()
    place, rule = find_agent_directory(opened, name, None if scope is None else AgentScope(scope))
    facts = _make_facts(opened, place, rule)
    if as_json:
        call.out.json(facts)
        return
    missing = "" if facts["exists"] else "; not made yet"
    call.out.line(str(place.path), Styled(f" ({place.scope}, {rule}{missing})", "dim"))


def _make_facts(opened: Project, place: AgentDirectory, rule: str) -> dict[str, Any]:
    switch = opened.places.switch
    return {
        "agent": place.name,
        "scope": place.scope.value,
        "rule": rule,
        "path": str(place.path),
        "exists": place.path.is_dir(),
        "on": switch.on,
    }


def _find_rows(opened: Project) -> Iterator[Row]:
    """One row for each definition, then one for each memory that no definition asks for."""
    environment, root = opened.environment, opened.places.root.path
    asked: set[tuple[str, AgentScope]] = set()
    for definition in list_definitions(environment, root):
        place, problem = None, definition.problem
        if definition.memory is not None:
            try:
                place = find_agent_place(definition.name, definition.memory, environment=environment, root=root)
                asked.add((fold(place.name), place.scope))
            except PathError as error:
                problem = str(error)
        yield _make_row(opened, definition.name, place, definition, problem)
    for kept in list_agent_memories(environment, root):
        if (fold(kept.name), kept.scope) not in asked:
            yield _make_row(opened, kept.name, kept, None, "")


def _make_row(
    opened: Project, name: str, place: AgentDirectory | None, definition: AgentDefinition | None, problem: str
) -> Row:
    return {
        "agent": name,
        "scope": None if place is None else place.scope.value,
        "path": None if place is None else str(place.path),
        "exists": place is not None and place.path.is_dir(),
        "memories": 0 if place is None else _agenting_count(opened, place),
        "definition": None if definition is None else str(definition.path),
        "problem": problem or None,
    }


def _agenting_count(opened: Project, place: AgentDirectory) -> int:
    try:
        with closing(open_agent_store(opened, place)) as store:
            return len(store.scan())
    except MemdirError:
        return 0


def _make_cells(row: Row) -> list[str]:
    return [row["agent"], row["scope"] or "none", str(row["memories"]), row["path"] or "", row["problem"] or ""]
