"""Prints docs/cli.md, made from the commands themselves: `python scripts/cli_reference.py > docs/cli.md`.

A test checks that the page is in step. It is written from the commands' data and not from click's help screen, so that
another version of click makes no other page.
"""

import sys
from collections.abc import Iterator
from inspect import cleandoc

import click

from memdir.interfaces.cli.app import VERBS, CliVerb, app

_HEAD = """# The command line

Made from the commands by `python scripts/cli_reference.py`; do not edit it by hand.
What each `--json` prints is in [json.md](json.md), every setting in [settings.md](settings.md).

"""


def render_reference() -> str:
    """The whole page."""
    context = click.Context(app, info_name="memdir")
    parts = [_HEAD, _render_command(app, "memdir", "##")]
    for subject, verbs in VERBS.items():
        parts.append(f"## {subject}\n\n")
        for verb in verbs:
            for path, command in walk_commands(app.get_command(context, verb), f"memdir {verb}"):
                parts.append(_render_command(command, path, "###"))
    return "".join(parts).rstrip("\n") + "\n"


def list_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command that people see, in the order of the help, with the words that call it behind `memdir`."""
    context = click.Context(app, info_name="memdir")
    for verbs in VERBS.values():
        for verb in verbs:
            yield from walk_commands(app.get_command(context, verb), verb)


def walk_commands(command: click.Command | None, path: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, each with the words that call it."""
    if command is None:
        return
    yield path, command
    if isinstance(command, click.Group) and command is not app:
        for name, inner in command.commands.items():
            yield from walk_commands(inner, f"{path} {name}")


def _render_command(command: click.Command, path: str, level: str) -> str:
    arguments = [_name_argument(at) for at in command.params if isinstance(at, click.Argument)]
    rest = ["VERB", "…"] if isinstance(command, click.Group) else arguments
    usage = " ".join([path, "[OPTIONS]", *rest])
    parts = [f"{level} `{path}`\n\n", f"    {usage}\n\n", f"{cleandoc(command.help or '')}\n\n"]
    options = [_render_option(at) for at in command.params if isinstance(at, click.Option)]
    if options:
        parts += ["| option | meaning |\n|---|---|\n", *options, "\n"]
    if isinstance(command, CliVerb):
        parts.append("```sh\n" + "\n".join(command.examples) + "\n```\n\n")
    return "".join(parts)


def _render_option(option: click.Option) -> str:
    value = "" if option.is_flag else f" {_name_value(option)}"
    notes = ["required"] if option.required else []
    notes += [f"default: {option.default}"] if option.show_default else []
    noted = f" ({', '.join(notes)})" if notes else ""
    flags = ", ".join(option.opts)
    return f"| `{flags}{value}` | {option.help or ''}{noted} |\n".replace("TEXT|-", "TEXT or -")


def _name_argument(argument: click.Argument) -> str:
    if isinstance(argument.type, click.Choice):
        return "|".join(str(choice) for choice in argument.type.choices)
    return argument.metavar or (argument.name or "").upper()


def _name_value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " or ".join(str(choice) for choice in option.type.choices)
    return option.metavar or ("N" if isinstance(option.type, click.IntRange) else "TEXT")


if __name__ == "__main__":
    sys.stdout.buffer.write(render_reference().encode())
