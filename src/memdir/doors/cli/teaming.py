"""`team`: share memories over git: begin, take part, sync, look, take back, leave."""

from datetime import UTC, date, datetime

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.team_shown import (
    make_commit_row,
    make_status_row,
    make_sync_row,
    show_log,
    show_status,
    show_synced,
)
from memdir.doors.cli.verb import VerbGroup, json_option
from memdir.doors.cli.words import REFUSED
from memdir.limits import TEAM_SECONDS
from memdir.records import Origin
from memdir.team import Membership, Outcome, Synced, enter, leave, open_sync, read_head, revert_author, start_sync, sync
from memdir.team.entering import open_team_copy
from memdir.team.membership import BRANCH
from memdir.team.objects import read_log
from memdir.text import fold

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
def _init(call: Call, remote: str, branch: str, review: bool, seconds: float, as_json: bool) -> int:
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
def _join(call: Call, remote: str, branch: str, read_only: bool, review: bool, seconds: float, as_json: bool) -> int:
    """Take part in a team's memory that somebody has begun. What lies in `team/` already is sent there."""
    opened = call.open_to_write()
    member = Membership(remote, branch, read_only, review)
    return _tell(call, enter(opened, member, now=opened.now(), create=False, seconds=seconds), as_json=as_json)


@team_verb.command("sync", examples=("memdir team sync", "memdir team sync --background"))
@_TIMEOUT
@click.option("--background", "is_detached", is_flag=True, help="Let it run by itself; nobody waits.")
@json_option
@click.pass_obj
def _sync(call: Call, seconds: float, is_detached: bool, as_json: bool) -> int:
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
def _status(call: Call, as_json: bool) -> None:
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
def _log(call: Call, author: str, limit: int, as_json: bool) -> None:
    """Who changed what, newest first, as far as the last sync knows. Names are what commits say of themselves.

    In a pipe: time, author, address, change, memory, with tabs between.
    """
    opened = call.open()
    task = open_sync(opened)
    commits = read_log(open_team_copy(task), read_head(task).head)
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
def _revert(call: Call, author: str, since: str | None, as_json: bool) -> None:
    """Take back what one author wrote; what others wrote in the same memories stays.

    It is one act, so `memdir undo` takes it back, and the next sync brings it to the others.
    """
    opened = call.open_to_write()
    task = open_sync(opened)
    origin = Origin(why=f"what {author} wrote was taken back", session=opened.environment.session)
    begin = _parse_day(since) if since else None
    done = revert_author(opened.private, open_team_copy(task), read_head(task).head, author, since=begin, origin=origin)
    if as_json:
        call.out.json(
            {
                "author": author,
                "commits": done.commits,
                "names": list(done.names),
                "left": list(done.left),
                "act": done.act,
            }
        )
        return
    call.out.line(f"took back {_count(done.commits, 'commit')}, which changed {_count(len(done.names), 'memory')}")
    for name in done.names:
        call.out.line(f"  {name}")
    for name in done.left:
        call.out.warn(f"{name} as it was before may not be shared any more; it was left alone")
    if done.act is not None:
        call.out.line(f"`memdir undo {done.act}` brings it back; `memdir team sync` tells the others")


@team_verb.command("leave", examples=("memdir team leave",))
@json_option
@click.pass_obj
def _leave(call: Call, as_json: bool) -> int:
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


def _tell(call: Call, done: Synced, *, as_json: bool) -> int:
    if as_json:
        call.out.json(make_sync_row(done))
    else:
        show_synced(call.out, done)
    return REFUSED if done.outcome is Outcome.FAILED else 0


def _parse_day(text: str) -> datetime:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no day; write it as 2026-03-05") from None
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _count(number: int, what: str) -> str:
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else many}"
