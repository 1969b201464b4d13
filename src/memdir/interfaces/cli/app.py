"""The click program: its options, its commands by group, and what commands share."""

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
from memdir.errors import DiskError, FormatError, LockedError, MemdirError, NotFoundError, SettingsError
from memdir.format.fields import FIELDS, FLAG, TEXTS
from memdir.format.when import PATTERN_KEYS, check_when
from memdir.frozen import replace
from memdir.interfaces import cli
from memdir.interfaces.cli import COLOR_CHOICES, CliContext, Styled, count_words, is_terminal
from memdir.limits import FILE_BYTES
from memdir.operations.find import FoundMemory, find_by_words, find_memory
from memdir.project.settings import Environment
from memdir.records import Enforce, Kind, Scope, When
from memdir.store.files import FileStore
from memdir.store.open import Project, open_others
from memdir.store.secrets import mask, open_finder, render_advice, render_findings
from memdir.text import one_line, printable, shorten

# The groups of the help text, in display order.
VERBS = {
    "Everyday": tuple("remember recall list read edit forget undo inbox status ui".split()),
    "Set up": tuple("install uninstall config pause resume".split()),
    "Organise": tuple("save pin rule search why promote demote".split()),
    "History": tuple("history diff restore".split()),
    "Learn": tuple("extract dream notes log".split()),
    "Transfer": tuple("import export".split()),
    "Share": tuple("sync team agent serve".split()),
    "Inspect": tuple("doctor verify where relink show context prompt".split()),
    "Chat": tuple("chat demo".split()),
    "Scripts": tuple("hook mcp completion".split()),
}
HIDDEN = ("worker", "select")  # Only programs call these commands.
_COMMANDS = {
    "write": "save remember edit pin forget", "read": "list read history diff undo restore", "recall": "recall search why select",
    "context": "show prompt context", "learn": "extract notes worker", "dream": "dream log", "inbox": "inbox",
    "team": "promote demote team sync agent", "serve": "serve", "rule": "rule", "status": "status verify doctor",
    "places": "where relink config pause resume",
    "hosts": "chat demo ui import export install uninstall hook mcp completion",
}  # fmt: skip
_MODULES = {verb: module for module, verbs in _COMMANDS.items() for verb in verbs.split()}
KINDS = tuple(kind.value for kind in Kind)
DECISIONS = tuple(decision.value for decision in Enforce)
SCOPES = (Scope.PRIVATE.value, Scope.TEAM.value, Scope.USER.value, Scope.PROJECT.value)
SCOPE_HELP = "For you in this project, for the team, for you in all projects, or in the repository."

_PLAIN_NAME = re.compile(r"[\w/.\x80-\U0010ffff-]*")
_TRY = {
    "memdir demo": "watch three days in a few seconds, in a temporary folder",
    "memdir remember TEXT": "save something in your own words",
    "memdir recall QUESTION": "find memories for a question",
    "memdir chat": "chat with an assistant that remembers",
    "memdir install": "connect your coding agent",
    "memdir list": "list memories",
    "memdir ui --open": "open the web interface",
    "memdir history": "list changes; `memdir undo` reverts the last one",
    "memdir doctor": "find problems and their fixes",
    "memdir --help": "list all commands",
}

_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON (docs/json.md).")

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class CliVerb(click.Command):
    """A command that receives the CliContext and, if `has_json`, `--json`. Examples come last in its help."""

    def __init__(
        self, *, callback: Callable[..., Any], params: Sequence[click.Parameter], examples: Sequence[str] = (),
        has_json: bool = True, **kwargs: Any,
    ) -> None:  # fmt: skip
        all_params = [*params, _JSON] if has_json else [*params]
        super().__init__(callback=click.pass_obj(callback), params=all_params, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("Example:" if len(self.examples) == 1 else "Examples:")
        with formatter.indentation():
            formatter.write(indent("\n".join(self.examples) + "\n", " " * formatter.current_indent))


class CliGroup(click.Group):
    """A group that suggests the closest command for a misspelled one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        verbs = self.list_commands(ctx)
        if args[0] not in (*verbs, *HIDDEN) and not args[0].startswith("-"):
            near = get_close_matches(args[0], verbs, n=1)
            ctx.fail(f"unknown command {args[0]!r}" + (f" (did you mean {near[0]}?)" if near else ""))
        return super().resolve_command(ctx, args)


class VerbGroup(CliGroup):
    """A command with subcommands, such as `config`; `default` is the subcommand to run if none is given."""

    command_class = CliVerb

    def __init__(self, *args: Any, default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **{"no_args_is_help": False, **kwargs})  # Do not print full help as an error.
        self.default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and self.default and not ctx.resilient_parsing:
            args = [self.default, *args]
        elif not args and not ctx.resilient_parsing:
            ctx.fail(f"`{ctx.command_path}` needs one of: {', '.join(self.list_commands(ctx))}")
        return super().parse_args(ctx, args)


class CliProgram(CliGroup):
    """The program: its commands are imported on demand and shown by group."""

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


def model_option(decorated: Decorated) -> Decorated:
    text = "Use this model; `none` for built-in patterns only."
    return click.option("--model", "spec", metavar="NAME", help=text)(decorated)


def scope_option(decorated: Decorated) -> Decorated:
    text = "Only this scope: yours for this project, the team's, yours for all projects, or the repository's."
    return click.option("--scope", type=click.Choice(SCOPES), help=text)(decorated)


def field_options(*, is_edit: bool) -> Callable[[Decorated], Decorated]:
    """Return an option for each optional field that has a help text; its value is that of the field, or None."""

    def decorate(decorated: Decorated) -> Decorated:
        for row in reversed([row for row in FIELDS if row.help]):
            flag, text = f"--{row.option or row.key.replace('_', '-')}", row.help
            form: dict[str, Any] = {}
            if row.schema is FLAG:
                flag, form = f"{flag}/--not-{flag[2:]}" if is_edit else flag, {"is_flag": True, "default": None}
            elif row.schema is TEXTS:
                text += " Can be repeated."
                form = {"multiple": True, "callback": lambda context, option, texts: texts or None}
            text += " An empty one removes it." if is_edit and row.schema is not FLAG else ""
            decorated = click.option(flag, row.key, help=text, **form)(decorated)
        return decorated

    return decorate


def when_options(prefix: str) -> Callable[[Decorated], Decorated]:
    """Return the options for the field `when`; `read_when_options` reads them."""
    texts = {
        "path": ("GLOB", "Show it when a file that matches this glob is read or written, as `src/**/*.sql`."),
        "command": ("REGEX", "Show it when a shell command matches this expression (RE2, case ignored)."),
        "content": ("REGEX", "Show it when text that matches this expression is written to a file."),
    }

    def decorate(decorated: Decorated) -> Decorated:
        for key, (metavar, text) in reversed(texts.items()):
            decorated = click.option(f"--{prefix}{key}", f"when_{key}", metavar=metavar, multiple=True, help=text)(
                decorated
            )
        return decorated

    return decorate


def read_when_options(
    options: dict[str, Any], *, before: When | None = None, always: bool | None = None, enforce: str | None = None
) -> When | None:
    """Remove the options of `when_options` and return the field, or None if nothing is to change.

    The patterns of an option replace those of `before`; an empty one removes them. `enforce` is a decision or `none`.
    """
    lists = {key: options.pop(f"when_{key.removesuffix('s')}", ()) for key in PATTERN_KEYS}
    if always is None and enforce is None and not any(lists.values()):
        return None
    when = before or When()
    patterns: dict[str, Any] = {key: tuple(filter(None, patterns)) for key, patterns in lists.items() if patterns}
    decision = when.enforce if enforce is None else None if enforce == "none" else Enforce(enforce)
    when = replace(when, **patterns, always=when.always if always is None else always, enforce=decision)
    check_when(when)
    return when


def everywhere_option(decorated: Decorated) -> Decorated:
    return click.option("--all", "is_everywhere", is_flag=True, help="In all your projects.")(decorated)


def list_everywhere(project: Project, *, is_everywhere: bool) -> dict[int, tuple[FileStore, str]]:
    """Return the project's stores by identity, with its folder, and if asked those of all other projects."""
    root = str(project.places.root.path)
    own = [(store, "" if store.scope is Scope.USER else root) for store in project.stores]
    others = open_others(project) if is_everywhere else ()
    return {id(store): (store, root) for store, root in (*own, *others)}


def limit_option(default: int | None, text: str, minimum: int = 1) -> Callable[[Decorated], Decorated]:
    is_shown = default is not None
    return click.option("--limit", type=click.IntRange(min=minimum), default=default, show_default=is_shown, help=text)


def name_argument(
    required: bool = True, name: str = "name", metavar: str = "NAME", *, many: bool = False
) -> Callable[[Decorated], Decorated]:
    label = f"{metavar}..." if many else metavar if required else f"[{metavar}]"
    return click.argument(
        name, required=required, metavar=label, nargs=-1 if many else 1, shell_complete=complete_names
    )


def complete(ctx: click.Context, incomplete: str, find: Callable[[Project], dict[str, str]]) -> list[CompletionItem]:
    """Return shell completions from this project, with their help; return none after an error."""
    root = ctx.find_root()
    call = root.obj if isinstance(root.obj, CliContext) else CliContext()
    try:
        call.prepare(root.params.get("directory"), "never")
        words = find(call.open())
    except (MemdirError, OSError):
        return []
    return [CompletionItem(word, help=text or None) for word, text in words.items() if word.startswith(incomplete)]


def complete_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete memory names that need no quoting in a shell."""

    def find(project: Project) -> dict[str, str]:
        headers = [header for store in project.stores for header in store.scan()]
        return {one.name: one_line(one.description) for one in headers if _PLAIN_NAME.fullmatch(printable(one.name))}

    return complete(ctx, incomplete, find)


def confirm(question: str, refusal: str, *, yes: bool) -> None:
    """Ask before an irreversible action. Raises UsageError if input is not interactive."""
    if yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError(f"{refusal}, and no terminal is available for confirmation; pass --yes")
    click.confirm(question, abort=True, err=True)


def pick_memory(
    stores: Sequence[FileStore], text: str, *, scope: str | None = None, action: str = ""
) -> FoundMemory[FileStore]:
    """Find a memory by name, title, path or words. On a terminal, ask which is meant, and before an `action`.

    Raises NotFoundError, which lists the memories if several match.
    """
    try:
        return find_memory(stores, text, scope=scope)
    except NotFoundError:
        matches = find_by_words(stores, text, scope=scope)
        if not matches:
            raise
    names = [match.header.name for match in matches]
    is_asking = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    if len(matches) == 1:
        if action and is_asking:
            click.confirm(
                f"{action} {names[0]}: {one_line(matches[0].header.description)}?", default=True, abort=True, err=True
            )
        return matches[0]
    if not is_asking:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        message = f"{shorten(one_line(text), 60)!r} matches several memories: {', '.join(names[:5])}{more}"
        raise NotFoundError(message, name=text, hint="pass the name of one, or more words")
    for number, match in enumerate(matches, 1):
        click.echo(printable(f"{number:>3}  {match.header.name}  {one_line(match.header.description)}"), err=True)
    number = click.prompt("Which one? (0 for none)", type=click.IntRange(0, len(matches)), err=True)
    if not number:
        raise click.Abort
    return matches[number - 1]


def parse_day(text: str) -> datetime:
    """Parse the date of `--since`; raises FormatError."""
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        excerpt = shorten(one_line(text), 40)
        raise FormatError(f"invalid date {excerpt!r}", field="since", hint="use a date such as 2026-10-01") from None


def notice(store: FileStore) -> None:
    """Record external edits before showing history, unless the directory is locked or read-only."""
    with suppress(LockedError, DiskError):
        if store.root.is_dir():
            store.note_outside(seconds=1.0)  # The time limit for the lock.


def warn_of_secrets(name: str, texts: Mapping[str, str], environment: Environment) -> list[str]:
    """Return a warning for each secret in the texts, by rule and location, never with its value."""
    try:
        hits = [*map(open_finder(environment), texts.values())]
    except SettingsError as error:  # The text is already saved, so only warn.
        return [f"cannot check for secrets: {error}"]
    rendered = (line for place, each in zip(texts, hits, strict=True) for line in render_findings(each, place=place))
    advice = render_advice(name) if name else "write where it is kept instead"
    return [f"this looks like a secret: {finding}; {advice}" for finding in rendered]


def warn_of_team(store: FileStore, scope: Scope) -> list[str]:
    if scope not in (Scope.TEAM, Scope.PROJECT) or store.team:
        return []
    return ["team memories are not recalled here; `memdir config set team true` enables them"]


def mask_secrets(text: str, environment: Environment) -> str:
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
    help="Use this memory directory instead of the project's.",
)  # fmt: skip
@click.option(
    "--color", type=click.Choice(COLOR_CHOICES), default="auto", show_default=True, help="When to use colour."
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)
@click.pass_context
def app(ctx: click.Context, directory: str | None, color: str) -> None:
    """Memory for AI agents, in Markdown files you can edit.

    Global options go before the command. Exit codes: 0 success, 1 refused or nothing found, 2 usage error. Errors are
    one line on standard error, also with --json.
    """
    if isinstance(ctx.obj, CliContext):
        ctx.obj.prepare(directory, color)
        if ctx.invoked_subcommand is None:
            _show_orientation(ctx.obj)


def run_app(argv: Iterable[str], call: CliContext) -> int:
    try:
        result = app.main(list(argv), prog_name="memdir", standalone_mode=False, obj=call)
    except SystemExit as end:  # click exits this way after shell completion.
        result = end.code
    except click.ClickException as error:
        cli.complain(cli.render_misuse(error))
        return cli.MISUSED if isinstance(error, click.UsageError) else cli.REFUSED
    except click.Abort as error:
        return cli.REFUSED if isinstance(error.__cause__, EOFError) else cli.INTERRUPTED
    return result if isinstance(result, int) else cli.DONE


def _show_orientation(call: CliContext) -> None:
    """Print the directories in use and commands to try; shown without a command."""
    out = call.out
    out.line(Styled("memdir", "bold"), ": memory for AI agents, in Markdown files you can edit.")
    out.line()
    try:
        project = call.open()
        out.line(f"{'project':<8} {project.places.root.path}")
        for label, store in zip(("memory", "user"), project.stores, strict=False):
            out.line(f"{label:<8} {store.root} ({count_words(len(store.scan()), 'memory')})")
        if not project.places.switch.on:
            out.line(f"memory is off here ({project.places.switch.rule})")
    except MemdirError as error:
        out.line("problem here: ", cli.render_error(error))
    out.line()
    out.line("Try:")
    width = max(map(len, _TRY))
    for command, meaning in _TRY.items():
        out.line("  ", Styled(f"{command:<{width}}", "cyan"), f"  {meaning}")


def read_body(text: str) -> str:
    """Return the text, or all of standard input for `-`."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise FormatError("standard input is closed", field="body", hint="pass the text with --body")
    if cli.is_terminal(sys.stdin):
        cli.complain("type the text, then press Ctrl-D on an empty line")
    # One byte above the limit is enough to refuse any input.
    data = sys.stdin.buffer.read(FILE_BYTES + 1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if len(data) > FILE_BYTES:
            raise FormatError(f"a memory is limited to {FILE_BYTES:,} bytes", field="body", hint="shorten it") from None
        raise FormatError("the text on standard input is not UTF-8", field="body", hint="convert it first") from None
