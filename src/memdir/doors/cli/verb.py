"""A verb of the command line: a click command that shows how it is used, and the options several verbs share."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memdir.doors.cli.call import Call
from memdir.errors import MemdirError
from memdir.records import Kind, Scope
from memdir.text import one_line, printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

KINDS = tuple(kind.value for kind in Kind)
SCOPES = (Scope.PRIVATE.value, Scope.TEAM.value, Scope.USER.value, Scope.PROJECT.value)
SCOPE_HELP = "For you here, for the team, for you in all projects, or in the repository itself."
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Verb(click.Command):
    """A command with examples, which its help shows last."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("Example:" if len(self.examples) == 1 else "Examples:")
        with formatter.indentation():
            indent = " " * formatter.current_indent
            for line in "\n".join(self.examples).split("\n"):
                formatter.write(f"{indent}{line}\n")


class VerbGroup(click.Group):
    """A verb that has verbs of its own, such as `config`."""

    command_class = Verb

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"no_args_is_help": False, **kwargs})  # a whole help is no error message

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            ctx.fail(f"`{ctx.command_path}` needs one of: {', '.join(self.list_commands(ctx))}")
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(import_module("memdir.doors.cli.names").refuse_verb(args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


def json_option(decorated: Decorated) -> Decorated:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")(decorated)


def scope_option(decorated: Decorated) -> Decorated:
    text = "Only this memory: yours for this project, the team's, yours for all projects, or the repository's own."
    return click.option("--scope", type=click.Choice(SCOPES), help=text)(decorated)


def name_argument(
    *, required: bool = True, name: str = "name", metavar: str = "NAME"
) -> Callable[[Decorated], Decorated]:
    shown = metavar if required else f"[{metavar}]"
    return click.argument(name, required=required, metavar=shown, shell_complete=complete_names)


def complete_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Names of memories for the shell; whatever is wrong, it offers nothing and stays quiet."""
    # Imported here: only a shell that completes asks for it.
    from click.shell_completion import CompletionItem

    root = ctx.find_root()
    call = root.obj if isinstance(root.obj, Call) else Call()
    try:
        call.prepare(root.params.get("directory"), "never")
        headers = [header for store in call.open().stores for header in store.scan()]
    except (MemdirError, OSError):
        return []
    names = {header.name: one_line(header.description) for header in headers if _is_plain(header.name)}
    return [CompletionItem(name, help=text) for name, text in names.items() if name.startswith(incomplete)]


def _is_plain(name: str) -> bool:
    """Whether a shell can be handed this name: no spaces, nothing hidden, nothing it would act on."""
    return printable(name) == name and all(at.isalnum() or at in "-_/." or not at.isascii() for at in name)
