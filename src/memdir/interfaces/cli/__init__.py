"""The command line: translates between a terminal and the packages below, and holds no rule of memory.

`run` is the entry point. Each verb's module is imported when the verb is called, and `recall`, which agents call all the
time, does without click altogether (`quick`).

    app     the click program, options that verbs share, names typed by people
    quick   `recall` without click                                                  others  the verbs, by subject
"""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import StringIO
from itertools import accumulate, compress, takewhile
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from memdir import errors
from memdir.errors import MemdirError, PathError, SettingsError
from memdir.files import check_root
from memdir.format.age import render_age
from memdir.format.frontmatter import decode
from memdir.project.settings import Environment, read_environment
from memdir.records import Change, ChangedFile, Header, Origin, Scope
from memdir.store.contract import StoreBase
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.store.plan import is_index_path, is_team
from memdir.text import one_line, printable, replace_surrogates, shorten

if TYPE_CHECKING:
    from click import ClickException
    from rich.console import Console

    from memdir.operations.find import FoundMemory
    from memdir.records import Model


# --- what is printed -------------------------------------------------------------------------------------------------
# Everything the command line prints: lines, tables, JSON rows, diffs, errors.
#
# Anybody may have written the files that texts come from, so every text is made printable here, at the last step. A
# terminal gets tables that fit and, where the `color` extra is installed, colour; a pipe gets plain lines, uncut, with
# tabs between cells. What `--json` prints is described in docs/schemas.json; tests check every command against it.

COLOR_CHOICES = ("auto", "always", "never")
# Exit codes: done (an empty list is done), refused or failed or nothing found, wrong use, interrupted.
DONE, REFUSED, MISUSED, INTERRUPTED = 0, 1, 2, 130
NO_TYPE = "none"  # what a missing or unknown type is called where a word is needed
PURGED = "(this version was purged)"
GAP = 2  # spaces between columns

_MEMORY_FIELDS = tuple("name path title description type scope modified pinned author".split())
_LEAST = 12  # a cut column is not made narrower than this
_DIFF_STYLES = {"+++": "bold", "---": "bold", "+": "green", "-": "red", "@": "cyan"}
_BREAKS = str.maketrans({"\n": "\\n", "\t": "\\t"})

# What to do next, for errors that do not say it themselves.
NEXT: Mapping[type[MemdirError], str] = {
    errors.SettingsError: "`memdir config list` shows every setting and where it comes from",
    errors.PathError: "`memdir where` shows the directories in use",
    errors.SecretError: "take the secret out and say where it is kept instead",
    errors.FormatError: "`memdir save --help` shows what a memory needs",
    errors.NotFoundError: "`memdir list` shows what there is",
    errors.ConflictError: "`memdir history` shows what changed",
    errors.LockedError: "try again in a moment",
    errors.DiskError: "see that the place is writable and has room, then try again",
    errors.BudgetError: "raise the cap or wait until it renews",
    errors.ModelError: "try again, or work without a model: `memdir config set model none`",
    MemdirError: "`memdir doctor` looks for what is wrong",
}
# What click says, and the same in plain words.
_PLAIN = (("is not a valid integer range", "is no whole number"), ("is not a valid float range", "is no number"))

Row = dict[str, Any]
TOKENS = "fresh cached stored output"  # of requests to a model: read fresh, read from the cache, put into it, written


class PipeClosedError(Exception):
    """The reader of standard output has gone."""


class Styled(NamedTuple):
    text: str
    style: str


class TableColumn(NamedTuple):
    title: str
    style: str = ""
    cell: str | Callable[[Any], object] = ""  # the field of a row, or a function of the row
    is_cut: bool = False  # may be cut to fit
    is_time: bool = False  # a terminal shows it as an age


class Output:
    """Standard output and standard error, whatever they are at the time of writing."""

    def __init__(self, color: str = "auto", *, no_color: bool = False) -> None:
        self.is_terminal = is_terminal(sys.stdout)
        self._has_progress = False
        self._began = 0.0
        is_coloured = color == "always" or (color == "auto" and self.is_terminal and not no_color)
        self._console = _open_console() if is_coloured else None

    @property
    def is_table(self) -> bool:
        """Whether a person looks at it, so that it should fit and may be cut."""
        return self.is_terminal or self._console is not None

    @property
    def width(self) -> int:
        # Imported here: with its archive formats it takes milliseconds, and a pipe has no width.
        import shutil

        return shutil.get_terminal_size().columns

    @property
    def height(self) -> int:
        import shutil

        return shutil.get_terminal_size().lines

    def line(self, *pieces: str | Styled) -> None:
        """One line; a line break inside a piece cannot begin another."""
        styled = [piece if isinstance(piece, Styled) else Styled(piece, "") for piece in pieces]
        self._put([Styled(printable(text).translate(_BREAKS), style) for text, style in styled])

    def block(self, text: str) -> None:
        """Text of several lines, such as a body."""
        cleaned = printable(text.replace("\r\n", "\n"))
        _write(sys.stdout, cleaned if cleaned.endswith("\n") or not cleaned else cleaned + "\n")

    def diff(self, lines: Sequence[str]) -> None:
        for line in lines:
            style = next((style for start, style in _DIFF_STYLES.items() if line.startswith(start)), "")
            self.line(Styled(line, style))

    def table(self, columns: Sequence[TableColumn], rows: Sequence[Any], now: datetime | None = None) -> None:
        """Rows that fit the terminal; in a pipe whole cells with tabs between them, without titles."""
        now = now.astimezone() if now is not None and self.is_table else None
        cells = [[_clean_cell(_render_cell(column, row, now)) for column in columns] for row in rows]
        if not self.is_table:
            _write(sys.stdout, "".join("\t".join(row) + "\n" for row in cells))
            return
        used = [any(row[index] for row in cells) for index in range(len(columns))]
        columns, cells = list(compress(columns, used)), [list(compress(row, used)) for row in cells]
        lines = [
            self._render(
                [Styled(text, one.style if number else "bold") for one, text in zip(columns, row, strict=True)]
            )
            for number, row in enumerate(render_columns(columns, cells, self.width))
        ]
        if self.is_terminal and is_terminal(sys.stdin) and len(lines) >= self.height:
            _page("".join(lines))
        else:
            _write(sys.stdout, "".join(lines))

    def json(self, value: object) -> None:
        plain = (getattr(sys.stdout, "encoding", "") or "utf-8").lower().replace("-", "") != "utf8"
        _write(sys.stdout, render_json(value, ascii_only=plain) + "\n")

    def raw(self, data: bytes) -> None:
        """Exact bytes to a pipe; a terminal gets them cleaned."""
        stream = getattr(sys.stdout, "buffer", None)
        if self.is_terminal or stream is None:
            self.block(data.decode("utf-8", "replace"))
            return
        flush(sys.stdout)
        with _closing_pipe():
            stream.write(data)

    def progress(self, text: str, done: int = 0, total: int = 0) -> None:
        """A line that the next one replaces, on a terminal only; with a total it says how far it is, and the time left."""
        if not self._has_progress or not done:
            self._began = monotonic()
        if text and total:
            spent = monotonic() - self._began
            left = f", {render_seconds(spent / done * (total - done))} left" if done and spent > 1 else ""
            text = f"{text}: {done:,} of {total:,} ({done / total:.0%}{left})"
        if (text or self._has_progress) and is_terminal(sys.stderr):
            _write(sys.stderr, f"\r\x1b[K{one_line(text)}")
            flush(sys.stderr)
            self._has_progress = bool(text)

    def warn(self, text: str) -> None:
        complain(f"warning: {text}")

    def _put(self, pieces: Sequence[Styled]) -> None:
        _write(sys.stdout, self._render(pieces))

    def _render(self, pieces: Sequence[Styled]) -> str:
        if self._console is None:
            return "".join(piece.text for piece in pieces).rstrip(" ") + "\n"
        # Imported here: an optional extra, and it costs more than all of `memdir list`.
        from rich.text import Text

        with self._console.capture() as captured:
            self._console.print(Text.assemble(*pieces, end="\n"), soft_wrap=True)
        return captured.get()


def _page(text: str) -> None:
    """Show a long text through $PAGER or less; `PAGER=cat` prints it as it is."""
    from click import echo_via_pager

    echo_via_pager(text.removesuffix("\n"), color=True)


def render_seconds(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.0f} h"
    )


def complain(text: str) -> None:
    """One line on standard error."""
    with suppress(PipeClosedError):  # the exit code still tells
        _write(sys.stderr, f"memdir: {one_line(text)}\n")
        flush(sys.stderr)


def flush(stream: TextIO | None) -> None:
    with _closing_pipe():
        if stream is not None:
            stream.flush()


@contextmanager
def _closing_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise PipeClosedError from None


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def count_words(number: int, one: str, many: str = "") -> str:
    """A number with its noun, as in `1 memory` and `2 memories`."""
    plural = many or (f"{one[:-1]}ies" if one.endswith("y") else f"{one}s")
    return f"{number} {one if number == 1 else plural}"


def _write(stream: TextIO | None, text: str) -> None:
    """To a stream of any encoding; what it cannot encode is written as an escape."""
    if stream is not None:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        with _closing_pipe():
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _clean_cell(text: str) -> str:
    is_plain = text.isascii() and text.isprintable() and "  " not in text  # faster for a thousand rows
    return text.strip() if is_plain else one_line(text)


def _open_console() -> "Console | None":
    """rich, whose output is captured and printed by `_write`; None where it is not installed."""
    try:
        from rich.console import Console  # optional: pip install 'memdir[color]'
    except ImportError:
        return None
    return Console(file=StringIO(), force_terminal=True, no_color=False, markup=False, highlight=False, emoji=False)


# Tables. Widths are counted as terminals count: wide characters are two cells, combining marks none.


def render_columns(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """The titles and every row, each cell padded; together no wider than `width` where cutting can do it."""
    table = [[column.title for column in columns], *rows]
    widths = [max(measure_width(row[index]) for row in table) for index in range(len(columns))]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0:  # the widest column that may be cut gives first
        wide = [index for index, column in enumerate(columns) if column.is_cut and widths[index] > _LEAST]
        if not wide:
            break
        widest = max(wide, key=lambda at: widths[at])
        others = [widths[index] for index in wide if index != widest]
        step = max(1, min(excess, widths[widest] - max([_LEAST, *others])))
        widths[widest] -= step
        excess -= step
    table = [[cut_width(cell, widths[index]) for index, cell in enumerate(row)] for row in table]
    last = len(columns) - 1
    return [
        [cell + " " * (widths[i] + GAP - measure_width(cell) if i < last else 0) for i, cell in enumerate(row)]
        for row in table
    ]


def measure_width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_measure_char, text))


def cut_width(text: str, width: int) -> str:
    """The text in at most so many cells, with an ellipsis where something is missing."""
    if measure_width(text) <= width:
        return text
    totals = accumulate(map(_measure_char, text))
    fitting = takewhile(lambda at: at[1] <= max(width - 1, 0), zip(text, totals, strict=True))
    return "".join(char for char, _ in fitting).rstrip() + "…"


def _measure_char(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _render_cell(column: TableColumn, row: Any, now: datetime | None) -> str:
    value = row[column.cell] if isinstance(column.cell, str) else column.cell(row)
    if isinstance(value, str):
        return render_age(datetime.fromisoformat(value), now) if column.is_time and value and now else value
    if isinstance(value, bool):
        return str(column.cell) if value else ""
    if isinstance(value, list | tuple):
        return ", ".join(value)
    return "" if value is None else str(value)


# JSON rows.


def fill(fields: str, *sources: object, **given: Any) -> Row:
    """A row of JSON: these fields, each as given or else from the first source that has it, and what else is given.

    A source is a record, and its `is_NAME` gives the field NAME. A time and a path become text; a field with a question
    mark is null where the text is empty. docs/schemas.json has the fields of every row.
    """
    row: Row = {}
    for field in fields.split():
        key = field.removesuffix("?")
        if key not in given:
            value = next(getattr(item, name) for item in sources for name in (key, f"is_{key}") if hasattr(item, name))
            row[key] = None if value == "" and field != key else value
        else:
            row[key] = given[key]
    return {key: make_plain(value) for key, value in (row | given).items()}


def make_plain(value: Any) -> Any:
    """A value as JSON has it."""
    return make_time(value) if isinstance(value, datetime) else str(value) if isinstance(value, Path) else value


def render_json(value: object, *, ascii_only: bool = False) -> str:
    """JSON in which no character acts on a terminal: what `json` leaves bare is written as an escape."""
    if isinstance(value, list):
        # Rows one a line: easier on the eye for many, and several times faster than indented ones.
        rows = ",\n  ".join(json.dumps(row, ensure_ascii=ascii_only, default=make_plain) for row in value)
        text = f"[\n  {rows}\n]" if value else "[]"
    else:
        text = json.dumps(value, ensure_ascii=ascii_only, indent=2, default=make_plain)
    text = replace_surrogates(text)
    if (text.isascii() and "\x7f" not in text) or printable(text) == text:
        return text
    # Every such character is inside a string, as the rest of JSON is ASCII.
    return "".join(json.dumps(char)[1:-1] if char not in "\n\t" and printable(char) != char else char for char in text)


def make_time(when: datetime) -> str:
    with suppress(OverflowError):  # a file may claim to be of the first or last hours of the calendar
        when = when.astimezone(UTC)
    return when.isoformat(timespec="milliseconds")


def show_time(out: Output, when: datetime, now: datetime) -> str:
    """An age for a person, the time itself for a pipe."""
    return render_age(when, now.astimezone()) if out.is_table else make_time(when)


def describe_memory(store: FileStore, header: Header) -> Row:
    """Return a memory's JSON row."""
    # Imported here: `recall` makes no such rows.
    from memdir.operations.find import FoundMemory, make_rows

    return _make_plain_row(make_rows([FoundMemory(store, header)], _MEMORY_FIELDS, now=header.modified)[0])


def describe_memories(memories: "Sequence[FoundMemory[FileStore]]", now: datetime) -> list[Row]:
    """Return the JSON rows of a list, with since when each memory says what it says."""
    # Imported here: `recall` makes no such rows.
    from memdir.operations.find import make_rows

    return [_make_plain_row(row) for row in make_rows(memories, (*_MEMORY_FIELDS, "since"), now=now)]


def _make_plain_row(row: Mapping[str, object]) -> Row:
    return {field: make_plain(value) for field, value in row.items()}


def make_change_row(change: Change) -> Row:
    files = [fill("path before? after?", file) for file in change.files]
    names = find_change_names(change)
    return fill("id at verb who why session undoes undone_by", change, change.origin, names=names, files=files)


def find_change_names(change: Change) -> tuple[str, ...]:
    """The memories a change changed; for one that changed an index alone, the index."""
    paths = tuple(file.path for file in change.files)
    return tuple(path.removesuffix(".md") for path in paths if not path.endswith("MEMORY.md")) or paths


def make_skip_rows() -> list[Row]:
    """The closed list of why recall brings nothing."""
    # Imported here: a list of memories has no use for it.
    from memdir.recall.pipeline import RecallSkip

    return [{"reason": skip.value, "words": skip.words} for skip in RecallSkip]


# Errors: one line that says what is wrong and what to do next.


def render_error(error: MemdirError) -> str:
    return _join(str(error), error.hint or next(NEXT[kind] for kind in type(error).__mro__ if kind in NEXT))


def render_misuse(error: "ClickException") -> str:
    # Imported here: only click's own calls can be misuse, and others do without it.
    from click import NoSuchOption

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "memdir"
    hint = f"`{path} --help` shows how"
    if isinstance(error, NoSuchOption) and error.option_name in ("--dir", "--color") and context is not None:
        verb = path.removeprefix(context.find_root().command_path).strip()
        hint = f"it goes before the verb: `memdir {error.option_name} … {verb}`"
    message = error.format_message()
    for click_words, plain_words in _PLAIN:
        message = message.replace(click_words, plain_words)
    return _join(message, hint)


def render_os_error(error: OSError) -> str:
    what = (error.strerror or type(error).__name__).lower()
    return _join(f"{error.filename}: {what}" if error.filename else what, NEXT[errors.DiskError])


def _join(message: str, hint: str) -> str:
    # Room for any path; a hostile argument does not fill the screen.
    return shorten(f"{one_line(message).rstrip('.')}; {one_line(hint)}", 2_000)


# Diffs.


def render_text_diff(before: str, after: str, old: str, new: str) -> list[str]:
    """A unified diff without line ends; a missing one at the end of a text is said."""
    # Imported here: most calls show no difference.
    from difflib import unified_diff

    lines = []
    for line in unified_diff(_split(before), _split(after), old, new):
        lines += [line.rstrip("\r\n"), *([] if line.endswith("\n") else ["\\ no line end here"])]
    return lines


def shorten_diff(lines: Sequence[str]) -> list[str]:
    return list(lines) if len(lines) <= 40 else [*lines[:40], f"… and {len(lines) - 40} more lines"]


def render_change(change: ChangedFile, read: Callable[[str], bytes]) -> list[str]:
    """One file of a change. Of an index history keeps the changed lines only, so no context is shown."""
    old, new = (change.path if digest else "(no file)" for digest in (change.before, change.after))
    title = [f"--- {old}", f"+++ {new}"]
    if is_index_path(change.path):
        if change.splice is None:
            return [*title, PURGED]
        parts = zip("-+", change.splice[1:], strict=True)
        return title + [mark + line.rstrip("\r\n") for mark, part in parts for line in _split(decode(part))]
    try:
        before, after = (decode(read(digest)) if digest else "" for digest in (change.before, change.after))
    except errors.NotFoundError:
        return [*title, PURGED]
    return render_text_diff(before, after, old, new)


def _split(text: str) -> list[str]:
    """Lines with their ends, cut at line feeds alone."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


# --- one call --------------------------------------------------------------------------------------------------------

# Another interface that a verb leads to, such as the chat; returns an exit code.
Interface = Callable[..., int]


def run(
    argv: list[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    interfaces: Mapping[str, Interface] = MappingProxyType({}),
) -> int:
    """Run one call of the command line and return its exit code; errors of the person calling do not raise.

    `interfaces` are those that a verb leads to: interfaces do not import one another, so the caller passes them in.
    """
    call = CliContext(environ, cwd, interfaces)
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
        if call.project is not None:
            call.project.close()
    return REFUSED


class CliContext:
    """One call, passed to every verb. `variables` and `cwd` are the real ones unless a test gives others."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        interfaces: Mapping[str, Interface] = MappingProxyType({}),
    ) -> None:
        self.variables = environ
        self._interfaces = interfaces
        self._given_cwd = cwd
        self.directory: Path | None = None
        self.out = Output("never")
        self.project: Project | None = None  # from the first `open` on

    def prepare(self, directory: str | None, color: str) -> None:
        """Apply the options of the whole program."""
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
        """The project with its stores; opening creates nothing."""
        if self.project is None:
            self.project = open_project(self.cwd, environ=self.variables, directory=self.directory)
        return self.project

    def open_to_write(self) -> Project:
        self.open().check_on()
        return self.open()

    def origin(self, why: str = "") -> Origin:
        return Origin(why=why, session=self.open().environment.session)

    def choose_model(self, spec: str | None) -> "Model | None":
        """The model that a call names, or that of the settings; None for built-in patterns alone."""
        # Imported here: few verbs ask a model, and all verbs import this module.
        from memdir.models.open import find_model, open_model

        project = self.open()
        settings, environment, root = project.settings, project.environment, str(project.places.root.path)
        if spec is None:
            return find_model(settings, environment, project=root)
        if spec.strip() == "none":
            return None
        return open_model(spec, environment=environment, settings=settings, project=root)

    def enter(self, interface: str, **options: Any) -> int:
        """Go on at another interface; returns its exit code."""
        if interface not in self._interfaces:
            raise SettingsError(f"there is no way from here to {interface}", hint=f"start it as `memdir {interface}`")
        return self._interfaces[interface](**options)

    def show_rows(self, columns: Sequence[TableColumn], rows: Sequence[Any], *, as_json: bool, empty: str = "") -> None:
        """Rows as JSON or as a table; a terminal shows `empty` when there are none."""
        if as_json:
            self.out.json(rows)
        elif rows:
            self.out.table(columns, rows, self.open().now() if any(column.is_time for column in columns) else None)
        elif self.out.is_table and empty:
            self.out.line(empty)


def choose_store(project: Project, scope: str | None) -> FileStore:
    """The store of a scope, the project's own without one; team memories are in a folder of that."""
    if scope == Scope.PROJECT.value and project.project is None:
        hint = "make the folder .claude/memory in the repository, or use --scope team"
        raise SettingsError("this project keeps no memory in its own history", key="scope", hint=hint)
    if scope == Scope.USER.value and project.user is None:
        raise SettingsError("there is no user memory here", key="user_memory", hint="`memdir where` shows why")
    return {Scope.PROJECT.value: project.project, Scope.USER.value: project.user}.get(scope or "") or project.private


def choose_stores(project: Project, scope: str | None) -> tuple[FileStore, ...]:
    """All stores of the project, or that of the scope."""
    return tuple(project.stores) if scope is None else (choose_store(project, scope),)


def name_scope(store: FileStore, name: str = "") -> str:
    """The scope of a store, or of one of its memories."""
    return (Scope.TEAM if store.scope is Scope.PRIVATE and is_team(name) else store.scope).value


def scope_flag(store: StoreBase) -> str:
    """The option by which a later call means the same store."""
    return f" --scope {store.scope.value}" if store.scope in (Scope.USER, Scope.PROJECT) else ""


def _run(argv: list[str], call: CliContext) -> int:
    # Imported here: `recall` does without click, and the other verbs do without search.
    if "recall" in argv:
        from memdir.interfaces.cli.quick import parse_recall, show_recall

        if (quick := parse_recall(argv)) is not None:
            call.prepare(quick[0], "auto")
            show_recall(call, quick[1])
            return DONE
    from memdir.interfaces.cli.app import run_app

    return run_app(argv, call)


def _silence() -> None:
    """Point standard output at nothing for the interpreter's last flush: its reader has gone, or its disk is full."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # no descriptor behind it, so nothing is left to flush
