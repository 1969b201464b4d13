"""`log`: append to today's log, read one, list them."""

from datetime import date, timedelta
from typing import TYPE_CHECKING

import click

from memdir.daily_log import append_log, list_logs, list_undistilled, make_path, read_log
from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.incoming import read_body, warn_of_secrets
from memdir.doors.cli.output import Styled
from memdir.doors.cli.rows import make_time
from memdir.doors.cli.verb import VerbGroup, json_option
from memdir.errors import MemdirError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COLUMNS = (Column("DAY", "bold"), Column("BYTES"), Column("DREAM", "yellow"), Column("FILE", "dim", is_cut=True))


class LogGroup(VerbGroup):
    """What is no verb of its own is the text of an entry; without a word it shows today's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_verb = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if not ctx.resilient_parsing and not is_verb:
            args = ["add", *args] if args else ["show"]
        return super().parse_args(ctx, args)


def complete_days(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Days that have a log, for the shell; whatever is wrong, it offers nothing and stays quiet."""
    # Imported here: only a shell that completes asks for it.
    from click.shell_completion import CompletionItem

    root = ctx.find_root()
    call = root.obj if isinstance(root.obj, Call) else Call()
    try:
        call.prepare(root.params.get("directory"), "never")
        days = [log.day.isoformat() for log in list_logs(call.open().private)]
    except (MemdirError, OSError):
        return []
    return [CompletionItem(day) for day in reversed(days) if day.startswith(incomplete)]


@click.group("log", no_args_is_help=False, short_help="Append to the log of the day, and read it.", cls=LogGroup)
def log_verb() -> None:
    """Keep a log, one file a day: `memdir log TEXT` appends an entry to today's, `memdir log` shows it.

    Logs are only appended to. The dream turns them into memories; until then no memory is made of them, and what stands
    in them is never changed by memdir.
    """


@log_verb.command("add", examples=("memdir log add 'the release is out'", "memdir log add - < report.txt"))
@click.argument("words", metavar="TEXT|-", nargs=-1, required=True)
@json_option
@click.pass_obj
def _add(call: Call, words: tuple[str, ...], as_json: bool) -> None:
    """Append an entry to today's log; `-` reads it from standard input. `memdir log TEXT` does the same."""
    opened = call.open_to_write()
    now = opened.now()
    text = read_body(" ".join(words))
    log = append_log(opened.private, text, now=now)
    if as_json:
        path = str(opened.private.root / log.path)
        call.out.json({"day": log.day.isoformat(), "at": make_time(now), "path": path, "bytes": log.size})
    else:
        call.out.line("logged in ", Styled(log.path, "cyan"))
    for warning in warn_of_secrets(text, "the entry", opened.environment):
        call.out.warn(warning)


@log_verb.command("show", examples=("memdir log show", "memdir log show 2026-03-05", "memdir log show yesterday"))
@click.argument("day", metavar="[DAY]", required=False, shell_complete=complete_days)
@json_option
@click.pass_obj
def _show(call: Call, day: str | None, as_json: bool) -> None:
    """Print the log of a day: YYYY-MM-DD, today (the default) or yesterday."""
    opened = call.open()
    wanted = _parse_day(day or "today", opened.now().astimezone().date())
    text = read_log(opened.private, wanted)
    if as_json:
        path = str(opened.private.root / make_path(wanted))
        call.out.json({"day": wanted.isoformat(), "path": path, "text": text})
        return
    call.out.block(text)


@log_verb.command("list", examples=("memdir log list", "memdir log list --json"))
@json_option
@click.pass_obj
def _list(call: Call, as_json: bool) -> None:
    """List the days that have a log, newest first.

    In a pipe: day, bytes, `waits` if a dream has not read all of it yet, path, with tabs between.
    """
    store = call.open().private
    waiting = {at.day for at in list_undistilled(store)}
    logs = tuple(reversed(list_logs(store)))
    if as_json:
        call.out.json(
            [
                {
                    "day": log.day.isoformat(),
                    "path": str(store.root / log.path),
                    "bytes": log.size,
                    "distilled": log.day not in waiting,
                }
                for log in logs
            ]
        )
    elif logs:
        rows = [[log.day.isoformat(), str(log.size), "waits" if log.day in waiting else "", log.path] for log in logs]
        call.out.table(_COLUMNS, rows)
    elif call.out.is_table:
        call.out.line("there is no log yet; `memdir log TEXT` begins one")


def _parse_day(text: str, today: date) -> date:
    if text in ("today", "yesterday"):
        return today if text == "today" else today - timedelta(days=1)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no day; write it as {today.isoformat()}") from None
