"""The command line. `run` is its door; each verb is a small room, imported when it is called.

    app.py      the program and its options        words.py    errors in words, exit codes
    call.py     what a call was given              output.py   all printing, everything cleaned   columns.py  tables
    quick.py    `recall` without click
    verb.py     what verbs share                   names.py    what was typed -> a memory         rows.py     JSON rows
    reference.py  docs/cli.md from the commands

It translates between a terminal and the rooms behind it, and holds no rule of memory.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memdir import __version__
from memdir.errors import MemdirError, PathError, SettingsError
from memdir.frozen import dataclass
from memdir.guard import check_root
from memdir.interfaces.cli.output import (
    COLOR_CHOICES,
    DONE,
    INTERRUPTED,
    MISUSED,
    REFUSED,
    Output,
    PipeClosedError,
    Styled,
    complain,
    flush,
    render_error,
    render_misuse,
    render_os_error,
)
from memdir.limits import SELECTED
from memdir.project.settings import Environment, read_environment
from memdir.records import Kind, Origin, Scope
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.store.plan import is_team
from memdir.text import one_line, printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from memdir.records import Model


# --- call ---
# One call of the command line: what it was given, and what follows from it, opened when first needed.

Door = Callable[..., int]


class CliContext:
    """Passed to every verb. `variables` and `cwd` are the real ones unless a test gives others."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        doors: Mapping[str, Door] = MappingProxyType({}),
    ) -> None:
        self.variables = environ
        self._doors = doors
        self._given_cwd = cwd
        self.directory: Path | None = None
        self.out = Output("never")
        self._opened: Project | None = None

    def prepare(self, directory: str | None, color: str) -> None:
        """Take the options of the whole program."""
        self.directory = None if directory is None else (self.cwd / directory).absolute()
        if directory is not None:
            check_root(str(self.directory) if directory else "")
        self.out = Output(color, no_color=self.environment.no_color)

    @property
    def cwd(self) -> Path:
        if self._given_cwd is not None:
            return self._given_cwd
        try:
            return Path.cwd()
        except FileNotFoundError:
            raise PathError(".", "the working directory is gone", hint="change into one that exists") from None

    @property
    def environment(self) -> Environment:
        return read_environment(self.variables)

    def open(self) -> Project:
        """The stores of this place; nothing is made by opening them."""
        if self._opened is None:
            self._opened = open_project(self.cwd, environ=self.variables, directory=self.directory)
        return self._opened

    def open_to_write(self) -> Project:
        opened = self.open()
        opened.check_on()
        return opened

    def origin(self, why: str = "") -> Origin:
        return Origin(why=why, session=self.open().environment.session)

    def choose_model(self, spec: str | None) -> "Model | None":
        """The model that a call names, or that of the settings; None for rules alone."""
        # Imported here: few verbs ask a model, and all verbs import this room.
        from memdir.models import find_model, open_model

        opened = self.open()
        project = str(opened.places.root.path)
        if spec is None:
            return find_model(opened.settings, opened.environment, project=project)
        if spec.strip() == "none":
            return None
        return open_model(spec, environment=opened.environment, settings=opened.settings, project=project)

    def enter(self, door: str, **wish: Any) -> int:
        """Go on at another door; answers its exit code."""
        if door not in self._doors:
            raise SettingsError(f"there is no way from here to {door}", hint=f"start it as `memdir {door}`")
        return self._doors[door](**wish)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def choose_store(opened: Project, scope: str | None) -> FileStore:
    """The store of a scope, the project's own without one; what a team shares lies in a folder of that."""
    if scope == Scope.PROJECT.value:
        if opened.project is None:
            hint = "make the folder .claude/memory in the repository, or use --scope team"
            raise SettingsError("this project keeps no memory in its own history", key="scope", hint=hint)
        return opened.project
    if scope != Scope.USER.value:
        return opened.private
    if opened.user is None:
        raise SettingsError("there is no user memory here", key="user_memory", hint="`memdir where` shows why")
    return opened.user


def name_scope(store: FileStore, name: str = "") -> str:
    """Whose memory a store's is, or one of its memories."""
    is_shared = store.scope is Scope.PRIVATE and is_team(name)
    return Scope.TEAM.value if is_shared else store.scope.value


def scope_flag(store: FileStore) -> str:
    """The option by which a later call means the same store."""
    return f" --scope {store.scope.value}" if store.scope in (Scope.USER, Scope.PROJECT) else ""


# --- app ---
# The program's head: its options, its verbs by subject, and where each is found.
#
# A verb's module is imported when the verb is called, so `memdir list` does not pay for what `memdir save` needs.

# Subject -> verb -> the module that holds it.
VERBS: dict[str, dict[str, str]] = {
    "Talk": {"chat": "hosts", "demo": "hosts"},
    "Write": {
        "save": "write",
        "remember": "write",
        "edit": "write",
        "pin": "write",
        "forget": "write",
        "promote": "write",
        "demote": "write",
        "log": "write",
    },
    "Read": {"list": "read", "read": "read", "show": "read", "prompt": "read", "context": "read"},
    "Find": {"recall": "recall", "search": "recall", "why": "recall"},
    "Look back": {"history": "history", "diff": "history", "undo": "history", "restore": "history"},
    "Learn": {"extract": "extract", "notes": "notes", "dream": "dream"},
    "Decide": {"inbox": "inbox"},
    "Share": {"team": "team", "agent": "team"},
    "Places": {"where": "places", "relink": "places"},
    "Carry": {"import": "hosts", "export": "hosts"},
    "State": {
        "status": "status",
        "config": "status",
        "pause": "status",
        "resume": "status",
        "verify": "status",
        "doctor": "status",
    },
    "Agents": {"install": "hosts", "uninstall": "hosts", "hook": "hosts", "mcp": "hosts"},
    "Measure": {"bench": "recall"},
    "Shell": {"completion": "hosts"},
}
# What programs call and people need not see.
HIDDEN = {"worker": "extract"}
_HOMES = {verb: module for verbs in VERBS.values() for verb, module in verbs.items()} | HIDDEN


class CliProgram(click.Group):
    """A group whose commands are imported on demand and shown by subject."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb for verb in _HOMES if verb not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _HOMES:
            return None
        found = getattr(import_module(f"memdir.interfaces.cli.{_HOMES[cmd_name]}"), f"{cmd_name}_verb")
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _HOMES and not args[0].startswith("-"):
            ctx.fail(import_module("memdir.interfaces.cli.names").refuse_verb(args[0], _HOMES))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for subject, verbs in VERBS.items():
            commands = [(verb, self.get_command(ctx, verb)) for verb in verbs]
            with formatter.section(subject):
                formatter.write_dl([(verb, at.get_short_help_str(80)) for verb, at in commands if at is not None])


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        CliContext().out.line(f"memdir {__version__}")
        ctx.exit(0)


def _offer_folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    return click.Path(file_okay=False).shell_complete(ctx, param, incomplete)


@click.group(
    "memdir", cls=CliProgram, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
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
    if not isinstance(call, CliContext):
        return
    call.prepare(directory, color)
    if ctx.invoked_subcommand is None:
        import_module("memdir.interfaces.cli").show_orientation(call)


def run_app(argv: list[str], call: CliContext) -> int:
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


# --- verb ---
# A verb of the command line: a click command that shows how it is used, and the options several verbs share.

KINDS = tuple(kind.value for kind in Kind)
SCOPES = (Scope.PRIVATE.value, Scope.TEAM.value, Scope.USER.value, Scope.PROJECT.value)
SCOPE_HELP = "For you here, for the team, for you in all projects, or in the repository itself."
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
            indent = " " * formatter.current_indent
            for line in "\n".join(self.examples).split("\n"):
                formatter.write(f"{indent}{line}\n")


class VerbGroup(click.Group):
    """A verb that has verbs of its own, such as `config`."""

    command_class = CliVerb

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
            ctx.fail(import_module("memdir.interfaces.cli.names").refuse_verb(args[0], self.list_commands(ctx)))
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
    call = root.obj if isinstance(root.obj, CliContext) else CliContext()
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


# --- orientation ---
# What `memdir` says when it is called without a verb: what is where, and what to try.

_TRY = (
    ("memdir demo", "three days in a few seconds, in a temporary folder"),
    ("memdir remember TEXT", "keep something, in your own words"),
    ("memdir recall QUESTION", "what fits a question, or nothing"),
    ("memdir chat", "talk to an assistant that remembers"),
    ("memdir install", "put memory into the coding agent you use"),
    ("memdir list", "what is remembered here"),
    ("memdir history", "what changed; `memdir undo` takes the last change back"),
    ("memdir doctor", "what is wrong, and how to mend it"),
    ("memdir --help", "every verb"),
)


def show_orientation(call: CliContext) -> None:
    call.out.line(Styled("memdir", "bold"), ": a memory for AI agents that survives the conversation.")
    call.out.line()
    try:
        for line in _describe(call):
            call.out.line(line)
    except MemdirError as error:
        call.out.line("this place has a problem: ", render_error(error))
    call.out.line()
    call.out.line("Try:")
    width = max(len(command) for command, _ in _TRY)
    for command, meaning in _TRY:
        call.out.line("  ", Styled(f"{command:<{width}}", "cyan"), f"  {meaning}")


def _describe(call: CliContext) -> list[str]:
    opened = call.open()
    lines = [f"{'project':<8} {opened.places.root.path}"]
    for label, store in zip(("memory", "user"), opened.stores, strict=False):
        count = len(store.scan())
        lines.append(f"{label:<8} {store.root} ({count} {'memory' if count == 1 else 'memories'})")
    if not opened.places.switch.on:
        lines.append(f"memory is off here ({opened.places.switch.rule})")
    return lines


# --- quick ---
# `memdir recall`, taken apart by hand: agents call it all the time, and importing click takes as long as recalling.
#
# One grammar with two readers: what this one does not understand to the letter (help, mistakes, options of another
# verb)
# it leaves to click. A test plays the two against each other.

_FLAGS = {"--explain": "explain", "--no-semantic": "no_semantic", "--json": "as_json"}
_VALUES = {"--session": "session", "--tools": "tools", "--limit": "limit"}
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class RecallCall:
    """A call of `recall`, as it was typed."""

    query: tuple[str, ...]
    session: str = ""
    tools: str = ""
    limit: int = SELECTED
    explain: bool = False
    no_semantic: bool = False
    as_json: bool = False


def parse_recall(argv: list[str]) -> tuple[str | None, RecallCall] | None:
    """The directory given and the wish; None for any other call, and for one that click should look at."""
    directory, rest = _take_directory(argv)
    if rest[:1] != ["recall"]:
        return None
    options: dict[str, Any] = {}
    words: list[str] = []
    rest = rest[1:]
    while rest:
        word = rest.pop(0)
        name, is_joined, value = word.partition("=")
        if word == "--":
            words += rest
            break
        if word in _FLAGS:
            options[_FLAGS[word]] = True
        elif name in _VALUES:
            if not is_joined:
                if not rest or rest[0].startswith("-"):
                    return None
                value = rest.pop(0)
            if name == "--limit" and not _NUMBER.fullmatch(value):
                return None
            options[_VALUES[name]] = int(value) if name == "--limit" else value
        elif word.startswith("-") and word != "-":
            return None
        else:
            words.append(word)
    return (directory, RecallCall(tuple(words), **options)) if words else None


def _take_directory(argv: list[str]) -> tuple[str | None, list[str]]:
    """The only option before the verb that is understood here."""
    if argv[:1] == ["--dir"] and len(argv) > 1 and not argv[1].startswith("-"):
        return argv[1], argv[2:]
    if argv and argv[0].startswith("--dir="):
        return argv[0].removeprefix("--dir="), argv[1:]
    return None, argv


# --- cli ---


def run(
    argv: list[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    doors: Mapping[str, Door] = MappingProxyType({}),
) -> int:
    """One call of the command line; answers its exit code and never raises for what a person can do wrong.

    `doors` are others that a verb leads to: doors do not know each other, so whoever knows them all hands them in.
    """
    call = CliContext(environ, cwd, doors)
    try:
        code = _run(argv, call)
        flush(sys.stdout)
        return code
    except MemdirError as error:
        complain(render_error(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except PipeClosedError:
        _silence()
        return DONE
    except OSError as error:
        complain(render_os_error(error))
        _silence()
    finally:
        call.close()
    return REFUSED


def _run(argv: list[str], call: CliContext) -> int:
    if (quick := parse_recall(argv)) is not None:
        from memdir.interfaces.cli.recall import answer

        directory, wish = quick
        call.prepare(directory, "auto")
        answer(call, wish)
        return DONE
    # Imported here, as the verbs are: whoever recalls does without click, and the others without search.

    return run_app(argv, call)


def _silence() -> None:
    """Let the interpreter's last flush go nowhere: its reader has gone, or its disk is full."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # no descriptor behind it, so nothing is left to flush
