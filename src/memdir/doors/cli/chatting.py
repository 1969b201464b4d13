"""`chat` and `demo`: a conversation that remembers. What they do is the chat door's; here is how they are called."""

from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.verb import Verb, json_option

ALLOWED = ("look", "change")
_NEWEST = "*"
_CHAT = (
    "memdir chat",
    "memdir chat --continue",
    "memdir chat --script lines.txt --json",
    "memdir chat --model claude-cli --allow look",
)


@click.command("chat", short_help="Talk to an assistant that remembers.", cls=Verb, examples=_CHAT)
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
    call = ctx.ensure_object(Call)
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


@click.command("demo", short_help="Three days in a few seconds.", cls=Verb, examples=("memdir demo",))
@click.pass_context
def demo_verb(ctx: click.Context) -> int:
    """Play three days of a project in a temporary folder: what is remembered, recalled and why, dreamed and undone.

    Nothing of yours is read or written, and no model is asked.
    """
    return ctx.ensure_object(Call).enter("demo", color=ctx.find_root().params.get("color") or "auto")
