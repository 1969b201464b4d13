"""The click program: its options, its verbs by subject, what verbs share, and names as people type them."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from difflib import get_close_matches
from importlib import import_module
from textwrap import indent
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from memdir import __version__
from memdir.errors import DiskError, FormatError, LockedError, MemdirError, SettingsError
from memdir.interfaces import cli
from memdir.interfaces.cli import COLOR_CHOICES, CliContext, Styled, count_words, is_terminal
from memdir.limits import FILE_BYTES
from memdir.project.settings import Environment
from memdir.records import Kind, Scope
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.secrets import mask, open_finder, render_findings
from memdir.text import one_line, printable, shorten

# Subject -> module -> its verbs.
SUBJECTS: dict[str, dict[str, str]] = {
    "Talk": {"hosts": "chat demo"},
    "See": {"hosts": "ui"},
    "Write": {"write": "save remember edit pin forget", "dream": "log", "team": "promote demote"},
    "Read": {"read": "list read", "context": "show prompt context"},
    "Find": {"recall": "recall search why"},
    "Look back": {"read": "history diff undo restore"},
    "Learn": {"learn": "extract notes", "dream": "dream"},
    "Decide": {"inbox": "inbox"},
    "Share": {"team": "team sync agent", "serve": "serve"},
    "Places": {"places": "where relink"},
    "Carry": {"hosts": "import export"},
    "State": {"status": "status verify doctor", "places": "config pause resume"},
    "Agents": {"hosts": "install uninstall hook mcp"},
    "Shell": {"hosts": "completion"},
}
VERBS = {subject: tuple(" ".join(modules.values()).split()) for subject, modules in SUBJECTS.items()}
# Verbs that programs call and people need not see.
HIDDEN = {"worker": "learn", "select": "recall"}
_MODULES = HIDDEN | {
    verb: module for modules in SUBJECTS.values() for module, verbs in modules.items() for verb in verbs.split()
}
KINDS = tuple(kind.value for kind in Kind)
SCOPES = (Scope.PRIVATE.value, Scope.TEAM.value, Scope.USER.value, Scope.PROJECT.value)
SCOPE_HELP = "For you here, for the team, for you in all projects, or in the repository itself."

_PLAIN_NAME = re.compile(r"[\w/.\x80-\U0010ffff-]*")
_TRY = {
    "memdir demo": "three days in a few seconds, in a temporary folder",
    "memdir remember TEXT": "keep something, in your own words",
    "memdir recall QUESTION": "what fits a question, or nothing",
    "memdir chat": "talk to an assistant that remembers",
    "memdir install": "put memory into the coding agent you use",
    "memdir list": "what is remembered here",
    "memdir ui --open": "all of it as a page in your browser",
    "memdir history": "what changed; `memdir undo` takes the last change back",
    "memdir doctor": "what is wrong, and how to fix it",
    "memdir --help": "every verb",
}

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class CliVerb(click.Command):
    """A command with examples, which its help shows last."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("Example:" if len(self.examples) == 1 else "Examples:")
        with formatter.indentation():
            formatter.write(indent("\n".join(self.examples) + "\n", " " * formatter.current_indent))


class CliGroup(click.Group):
    """A group that says which verb was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verbs = self.list_commands(ctx)
        if args[0] not in (*verbs, *HIDDEN) and not args[0].startswith("-"):
            near = get_close_matches(args[0], verbs, n=1)
            ctx.fail(f"there is no verb {args[0]!r}" + (f" (did you mean {near[0]}?)" if near else ""))
        return super().resolve_command(ctx, args)


class VerbGroup(CliGroup):
    """A verb that has verbs of its own, such as `config`; `default` is the one that is meant without any."""

    command_class = CliVerb

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **{"no_args_is_help": False, **kwargs})  # a whole help is no error message
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and self.default and not ctx.resilient_parsing:
            args = [self.default, *args]
        elif not args and not ctx.resilient_parsing:
            ctx.fail(f"`{ctx.command_path}` needs one of: {', '.join(self.list_commands(ctx))}")
        return super().parse_args(ctx, args)


class CliProgram(CliGroup):
    """The program: its verbs are imported on demand and shown by subject."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verbs in VERBS.values() for verb in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        command = getattr(import_module(f"memdir.interfaces.cli.{_MODULES[cmd_name]}"), f"{cmd_name}_verb")
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for subject, verbs in VERBS.items():
            commands = [(verb, self.get_command(ctx, verb)) for verb in verbs]
            with formatter.section(subject):
                formatter.write_dl([(verb, item.get_short_help_str(80)) for verb, item in commands if item is not None])


def verb(name: str, short_help: str, *examples: str, **more: Any) -> Callable[[Callable[..., Any]], CliVerb]:
    return click.command(name, short_help=short_help, cls=CliVerb, examples=examples, **more)


def json_option(decorated: Decorated) -> Decorated:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md).")(decorated)


def model_option(decorated: Decorated) -> Decorated:
    text = "Ask this model; `none` for the built-in patterns alone."
    return click.option("--model", "spec", metavar="NAME", help=text)(decorated)


def scope_option(decorated: Decorated) -> Decorated:
    text = "Only this memory: yours for this project, the team's, yours for all projects, or the repository's own."
    return click.option("--scope", type=click.Choice(SCOPES), help=text)(decorated)


def limit_option(
    default: int | None, text: str, least: int = 1, name: str = "--limit"
) -> Callable[[Decorated], Decorated]:
    is_shown = default is not None
    return click.option(name, type=click.IntRange(min=least), default=default, show_default=is_shown, help=text)


def name_argument(required: bool = True, name: str = "name", metavar: str = "NAME") -> Callable[[Decorated], Decorated]:
    label = metavar if required else f"[{metavar}]"
    return click.argument(name, required=required, metavar=label, shell_complete=complete_names)


def complete(ctx: click.Context, incomplete: str, find: Callable[[Project], dict[str, str]]) -> list[CompletionItem]:
    """Words of this project for the shell, with their help; whatever is wrong, none are offered and nothing is said."""
    root = ctx.find_root()
    call = root.obj if isinstance(root.obj, CliContext) else CliContext()
    try:
        call.prepare(root.params.get("directory"), "never")
        words = find(call.open())
    except (MemdirError, OSError):
        return []
    return [CompletionItem(word, help=text or None) for word, text in words.items() if word.startswith(incomplete)]


def complete_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of memories that a shell can be given: no spaces, nothing hidden, nothing it would act on."""

    def find(project: Project) -> dict[str, str]:
        headers = [header for store in project.stores for header in store.scan()]
        return {one.name: one_line(one.description) for one in headers if _PLAIN_NAME.fullmatch(printable(one.name))}

    return complete(ctx, incomplete, find)


def confirm(question: str, refusal: str, *, yes: bool) -> None:
    """Ask before what cannot be undone; wrong use where nobody can be asked."""
    if yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError(f"{refusal} and nobody can be asked here; say --yes")
    click.confirm(question, abort=True, err=True)


def parse_day(text: str) -> datetime:
    """A day as `--since` gives it; raises FormatError."""
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        excerpt = shorten(one_line(text), 40)
        raise FormatError(f"{excerpt!r} is no day", field="since", hint="as in 2026-10-01") from None


def notice(store: FileStore) -> None:
    """Record outside edits before history is shown; a directory that is busy or read-only is shown as it is."""
    with suppress(LockedError, DiskError):
        if store.root.is_dir():
            store.notice(seconds=1.0)  # how long it waits for the lock


def warn_of_secrets(texts: Mapping[str, str], environment: Environment) -> list[str]:
    """Which secrets texts hold, by rule and place; never the value. Each text has the name of its place as its key."""
    try:
        hits = [*map(open_finder(environment), texts.values())]
    except SettingsError as error:  # the text is kept by now; what is wrong is worth a warning, not a failure
        return [f"secrets were not looked for: {error}"]
    rendered = (line for place, each in zip(texts, hits, strict=True) for line in render_findings(each, place=place))
    plainly = "the file holds it as given, and it is never put into a prompt; say where it is kept instead"
    return [f"this looks like a secret: {finding}; {plainly}" for finding in rendered]


def warn_of_team(store: FileStore, scope: Scope) -> list[str]:
    if scope not in (Scope.TEAM, Scope.PROJECT) or store.team:
        return []
    return ["what a team shares is not shown in conversations here; `memdir config set team true` changes that"]


def mask_secrets(text: str, environment: Environment) -> str:
    """A text without the values of its secrets."""
    return mask(text, open_finder(environment, forgive=True)(text))


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        CliContext().out.line(f"memdir {__version__}")
        ctx.exit(0)


@click.group(
    "memdir", cls=CliProgram, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--dir", "directory", metavar="PATH", shell_complete=click.Path(file_okay=False).shell_complete,
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
    if isinstance(ctx.obj, CliContext):
        ctx.obj.prepare(directory, color)
        if ctx.invoked_subcommand is None:
            _show_orientation(ctx.obj)


def run_app(argv: Iterable[str], call: CliContext) -> int:
    try:
        result = app.main(list(argv), prog_name="memdir", standalone_mode=False, obj=call)
    except SystemExit as end:  # click's way out of shell completion
        result = end.code
    except click.ClickException as error:
        cli.complain(cli.render_misuse(error))
        return cli.MISUSED if isinstance(error, click.UsageError) else cli.REFUSED
    except click.Abort as error:
        return cli.REFUSED if isinstance(error.__cause__, EOFError) else cli.INTERRUPTED
    return result if isinstance(result, int) else cli.DONE


def _show_orientation(call: CliContext) -> None:
    """What `memdir` prints without a verb: which directories are used, and what to try."""
    out = call.out
    out.line(Styled("memdir", "bold"), ": a memory for AI agents that survives the conversation.")
    out.line()
    try:
        project = call.open()
        out.line(f"{'project':<8} {project.places.root.path}")
        for label, store in zip(("memory", "user"), project.stores, strict=False):
            out.line(f"{label:<8} {store.root} ({count_words(len(store.scan()), 'memory')})")
        if not project.places.switch.on:
            out.line(f"memory is off here ({project.places.switch.rule})")
    except MemdirError as error:
        out.line("this place has a problem: ", cli.render_error(error))
    out.line()
    out.line("Try:")
    width = max(map(len, _TRY))
    for command, meaning in _TRY.items():
        out.line("  ", Styled(f"{command:<{width}}", "cyan"), f"  {meaning}")


def read_body(text: str) -> str:
    """The text itself, or for `-` all of standard input."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise FormatError("standard input is closed", field="body", hint="give the text with --body")
    if cli.is_terminal(sys.stdin):
        cli.complain("type the text, then Ctrl-D on a line of its own")
    # One byte more than a memory may hold: enough to be refused, whatever is piped in.
    data = sys.stdin.buffer.read(FILE_BYTES + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if len(data) > FILE_BYTES:
            raise FormatError(f"a memory may hold {FILE_BYTES:,} bytes", field="body", hint="keep the gist") from None
        raise FormatError("the text on standard input is not UTF-8", field="body", hint="convert it first") from None
