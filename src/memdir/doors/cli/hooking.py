"""`hook`: told here, done at the hook door, which takes the call before this program begins."""

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.output import complain
from memdir.doors.cli.verb import Verb
from memdir.hosts.rows import HOSTS, Event


@click.command(
    "hook",
    short_help="What coding agents call at every turn.",
    cls=Verb,
    examples=("memdir hook user-prompt --host claude-code < event.json",),
)
@click.argument("event", type=click.STRING, metavar=f"[{'|'.join(Event)}]")
@click.option("--host", type=click.Choice(tuple(HOSTS)), default="claude-code", show_default=True, help="Who calls.")
@click.pass_obj
def hook_verb(call: Call, event: str, host: str) -> None:
    """Answer one event of a coding agent: JSON on standard input, one line of JSON or nothing on standard output.

    `memdir install` puts this into an agent's settings; docs/hooks.md tells what each event does. Whatever goes
    wrong, the exit code is 0, and `memdir doctor` tells about it.
    """
    complain("a hook takes no option before its name; nothing was done")
