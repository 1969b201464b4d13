"""`completion`: the script that teaches a shell memdir's verbs, options and memory names."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from memdir.doors.cli.call import Call
from memdir.doors.cli.verb import Verb

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    short_help="Teach your shell the verbs and names.",
    cls=Verb,
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
    ctx.ensure_object(Call).out.block(script)
