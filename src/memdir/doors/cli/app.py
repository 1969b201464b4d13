"""The program's head: its options, its verbs by subject, and where each is found.

A verb's module is imported when the verb is called, so `memdir list` does not pay for what `memdir save` needs.
"""

from importlib import import_module
from typing import Any

import click

from memdir import __version__
from memdir.doors.cli.call import Call
from memdir.doors.cli.output import COLOR_CHOICES, complain
from memdir.doors.cli.words import DONE, INTERRUPTED, MISUSED, REFUSED, render_misuse

# Subject -> verb -> the module that holds it.
VERBS: dict[str, dict[str, str]] = {
    "Talk": {"chat": "chatting", "demo": "chatting"},
    "Write": {
        "save": "saving",
        "remember": "remembering",
        "edit": "changing",
        "pin": "changing",
        "forget": "forgetting",
        "promote": "promoting",
        "demote": "promoting",
        "log": "daybook",
    },
    "Read": {"list": "listing", "read": "reading", "show": "showing", "prompt": "prompting", "context": "surroundings"},
    "Find": {"recall": "recalling", "search": "searching", "why": "telling"},
    "Look back": {"history": "past", "diff": "past", "undo": "rewinding", "restore": "rewinding"},
    "Learn": {"extract": "extracting", "notes": "noting", "dream": "dreaming"},
    "Decide": {"inbox": "inboxing"},
    "Share": {"team": "teaming", "agent": "agenting"},
    "Places": {"where": "placing", "relink": "relinking"},
    "Carry": {"import": "importing", "export": "exporting"},
    "State": {
        "status": "standing",
        "config": "tuning",
        "pause": "tuning",
        "resume": "tuning",
        "verify": "verifying",
        "doctor": "checking",
    },
    "Agents": {"install": "installing", "uninstall": "installing", "hook": "hooking", "mcp": "serving"},
    "Measure": {"bench": "benching"},
    "Shell": {"completion": "completing"},
}
# What programs call and people need not see.
HIDDEN = {"worker": "extracting"}
_HOMES = {verb: module for verbs in VERBS.values() for verb, module in verbs.items()} | HIDDEN


class Program(click.Group):
    """A group whose commands are imported on demand and shown by subject."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb in _HOMES if verb not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        found = getattr(import_module(f"memdir.doors.cli.{_HOMES[cmd_name]}"), f"{cmd_name}_verb")
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _HOMES and not args[0].startswith("-"):
            ctx.fail(import_module("memdir.doors.cli.names").refuse_verb(args[0], _HOMES))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for subject, verbs in VERBS.items():
            commands = [(verb, self.get_command(ctx, verb)) for verb in verbs]
            with formatter.section(subject):
                formatter.write_dl([(verb, at.get_short_help_str(80)) for verb, at in commands if at is not None])


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        Call().out.line(f"memdir {__version__}")
        ctx.exit(0)


def _offer_folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    return click.Path(file_okay=False).shell_complete(ctx, param, incomplete)


@click.group(
    "memdir", cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--dir", "directory", metavar="PATH", shell_complete=_offer_folders,
    help="Use this memory directory in the project's place.",
)  # fmt: skip
@click.option(
    "--color", type=click.Choice(COLOR_CHOICES), default="auto", show_default=True, help="Colour the output or not."
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)
@click.pass_context
def app(ctx: click.Context, directory: str | None, color: str) -> None:
    """A memory for AI agents that survives the conversation: plain Markdown files, never lost.

    Options of the whole program go before the verb. Exit codes: 0 done, 1 refused or nothing found, 2 wrong use. An
    error is one line on standard error, with --json too.
    """
    call = ctx.obj
    if not isinstance(call, Call):
        return
    call.prepare(directory, color)
    if ctx.invoked_subcommand is None:
        import_module("memdir.doors.cli.orientation").show_orientation(call)


def run_app(argv: list[str], call: Call) -> int:
    """One call, as click understands it; answers the exit code."""
    try:
        answer = app.main(list(argv), prog_name="memdir", standalone_mode=False, obj=call)
    except SystemExit as end:  # click's way out of shell completion
        answer = end.code
    except click.ClickException as error:
        complain(render_misuse(error))
        return MISUSED if isinstance(error, click.UsageError) else REFUSED
    except click.Abort as error:
        return REFUSED if isinstance(error.__cause__, EOFError) else INTERRUPTED
    return answer if isinstance(answer, int) else DONE
