"""The command line: translates between a terminal and the packages below, without rules about memory.

`run` is the entry point. The module of a command is imported when it is called, and `recall`, which agents call often,
does not use click at all (`quick`).

    app     the click program, options that commands share, names that users type
    quick   `recall` without click                                                  others  the commands, by subject
"""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import accumulate, compress, takewhile
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from memdir import errors
from memdir.errors import MemdirError, PathError, SettingsError
from memdir.files import check_root
from memdir.format.age import render_age
from memdir.format.fields import LISTED_FIELDS
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

    from memdir.operations.find import FoundMemory
    from memdir.records import Model


# --- output -----------------------------------------------------------------------------------------------------------
# Everything the command line prints: lines, tables, JSON rows, diffs, errors.
#
# Texts may come from untrusted files, so every text is made printable here, as the last step. A
# terminal gets tables that fit, and colour; a pipe gets plain lines, uncut, with tabs between cells. What `--json` prints is described in docs/schemas.json; tests check every command against it.

COLOR_CHOICES = ("auto", "always", "never")
# Exit codes: success (even if a list is empty), refused or failed or nothing found, usage error, interrupted.
DONE, REFUSED, MISUSED, INTERRUPTED = 0, 1, 2, 130
NO_TYPE = "none"  # The name of a missing or unknown type.
PURGED = "(this version was purged)"
GAP = 2  # Spaces between columns.

_MEMORY_FIELDS = (*"name path title description type scope modified".split(), *LISTED_FIELDS, "author")
_LEAST = 12  # The minimum width of a truncated column.
_DIFF_STYLES = {"+++": "bold", "---": "bold", "+": "green", "-": "red", "@": "cyan"}
# The terminal escape code for each word in `Styled.style`.
_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_BREAKS = str.maketrans({"\n": "\\n", "\t": "\\t"})

# Hints for errors without their own.
NEXT: Mapping[type[MemdirError], str] = {
    errors.SettingsError: "`memdir config list` shows every setting and where it comes from",
    errors.PathError: "`memdir where` shows the directories in use",
    errors.SecretError: "remove the secret and write where it is stored instead",
    errors.FormatError: "`memdir save --help` shows what a memory needs",
    errors.NotFoundError: "`memdir list` shows the memories",
    errors.ConflictError: "`memdir history` shows what changed",
    errors.LockedError: "try again in a moment",
    errors.DiskError: "check permissions and free space, then try again",
    errors.BudgetError: "raise the limit or wait until it renews",
    errors.ModelError: "try again, or work without a model: `memdir config set model none`",
    MemdirError: "`memdir doctor` finds problems",
}
# click's messages in plainer words.
_PLAIN = (("is not a valid integer range", "is not a whole number"), ("is not a valid float range", "is not a number"))

Row = dict[str, Any]
TOKENS = "fresh cached stored output"  # tokens of model requests: uncached input, cached input, input written to the cache, output


class PipeClosedError(Exception):
    """Raised when the reader of standard output has closed the pipe."""


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
    """Standard output and standard error, resolved at each write."""

    def __init__(self, color: str = "auto", *, no_color: bool = False) -> None:
        self.is_terminal = is_terminal(sys.stdout)
        self._has_progress = False
        self._began = 0.0
        self._is_plain = no_color or color == "never"
        self._is_coloured = color == "always" or (color == "auto" and self.is_terminal and not no_color)

    @property
    def is_table(self) -> bool:
        """Return whether the output is a terminal, so tables must fit and may be truncated."""
        return self.is_terminal or self._is_coloured

    @property
    def width(self) -> int:
        # Imported here, because it takes milliseconds and pipes have no width.
        import shutil

        return shutil.get_terminal_size().columns

    def line(self, *pieces: str | Styled) -> None:
        """Print one line; line breaks inside a piece are replaced."""
        styled = [piece if isinstance(piece, Styled) else Styled(piece, "") for piece in pieces]
        cleaned = [Styled(printable(text).translate(_BREAKS), style) for text, style in styled]
        _write(sys.stdout, self._render(cleaned))

    def block(self, text: str) -> None:
        """Print several lines, such as a body."""
        cleaned = printable(text.replace("\r\n", "\n"))
        _write(sys.stdout, cleaned if cleaned.endswith("\n") or not cleaned else cleaned + "\n")

    def diff(self, lines: Sequence[str]) -> None:
        for line in lines:
            style = next((style for start, style in _DIFF_STYLES.items() if line.startswith(start)), "")
            self.line(Styled(line, style))

    def table(self, columns: Sequence[TableColumn], rows: Sequence[Any], now: datetime | None = None) -> None:
        """Print rows fitted to the terminal or, in a pipe, full cells separated by tabs, without titles."""
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
        _write(sys.stdout, "".join(lines))

    def json(self, value: object) -> None:
        plain = (getattr(sys.stdout, "encoding", "") or "utf-8").lower().replace("-", "") != "utf8"
        _write(sys.stdout, render_json(value, ascii_only=plain) + "\n")

    def raw(self, data: bytes) -> None:
        """Write exact bytes to a pipe, or printable text to a terminal."""
        stream = getattr(sys.stdout, "buffer", None)
        if self.is_terminal or stream is None:
            self.block(data.decode("utf-8", "replace"))
            return
        flush(sys.stdout)
        with _closing_pipe():
            stream.write(data)

    def progress(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show a progress line on a terminal, replacing the previous one; with a total, add percentage and time left."""
        if not done:
            self._began = monotonic()
        if text and total:
            spent = monotonic() - self._began
            left = f", {render_seconds(spent / done * (total - done))} left" if done and spent > 1 else ""
            text = f"{text}: {done:,} of {total:,} ({done / total:.0%}{left})"
        if (text or self._has_progress) and not self._is_plain and is_terminal(sys.stderr):
            _write(sys.stderr, f"\r\x1b[K{one_line(text)}")
            flush(sys.stderr)
            self._has_progress = bool(text)

    def warn(self, text: str) -> None:
        complain(f"warning: {text}")

    def _render(self, pieces: Sequence[Styled]) -> str:
        if not self._is_coloured:
            return "".join(piece.text for piece in pieces).rstrip(" ") + "\n"
        codes = (";".join(_CODES[word] for word in piece.style.split()) for piece in pieces)
        parts = [f"\x1b[{code}m{text}\x1b[0m" if code else text for code, (text, _) in zip(codes, pieces, strict=True)]
        return "".join(parts) + "\n"


def render_seconds(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.0f} h"
    )


def complain(text: str) -> None:
    with suppress(PipeClosedError):  # The exit code still shows the failure.
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


def count_words(number: int, singular: str) -> str:
    """Return a number and its noun, as in `1 memory` and `2 memories`."""
    plural = f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
    return f"{number} {singular if number == 1 else plural}"


def _write(stream: TextIO | None, text: str) -> None:
    """Write to a stream, escaping characters that its encoding does not support."""
    if stream is not None:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        with _closing_pipe():
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _clean_cell(text: str) -> str:
    is_plain = text.isascii() and text.isprintable() and "  " not in text  # faster for a thousand rows
    return text.strip() if is_plain else one_line(text)


# Tables. Widths are in terminal cells: wide characters take two, combining marks none.


def render_columns(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return the titles and rows with padded cells, truncated to `width` if possible."""
    table = [[column.title for column in columns], *rows]
    widths = [max(measure_width(row[index]) for row in table) for index in range(len(columns))]
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0:  # Shrink the widest column that can be truncated.
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
    return len(text) if text.isascii() else sum(map(_measure_char, text))


def cut_width(text: str, width: int) -> str:
    """Truncate the text to `width` cells, with an ellipsis."""
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


def fill(fields: str, *sources: object, **values: Any) -> Row:
    """Return a JSON row. Each field is a keyword argument, or else an attribute of the first source that has it.

    The attribute `is_NAME` also fills the field NAME. Times and paths become text; a field that ends in a question mark
    is null if its text is empty. Keyword arguments that are not in `fields` are added. docs/schemas.json lists the fields of every row.
    """
    row: Row = {}
    for field in fields.split():
        key = field.removesuffix("?")
        if key not in values:
            value = next(getattr(item, name) for item in sources for name in (key, f"is_{key}") if hasattr(item, name))
            row[key] = None if value == "" and field != key else value
        else:
            row[key] = values[key]
    return {key: make_plain(value) for key, value in (row | values).items()}


def make_plain(value: Any) -> Any:
    return make_time(value) if isinstance(value, datetime) else str(value) if isinstance(value, Path) else value


def render_json(value: object, *, ascii_only: bool = False) -> str:
    """Return JSON with all control characters escaped, so that it is safe on a terminal."""
    if isinstance(value, list):
        # One row per line is easier to read and several times faster than indented JSON.
        rows = ",\n  ".join(json.dumps(row, ensure_ascii=ascii_only, default=make_plain) for row in value)
        text = f"[\n  {rows}\n]" if value else "[]"
    else:
        text = json.dumps(value, ensure_ascii=ascii_only, indent=2, default=make_plain)
    text = replace_surrogates(text)
    if (text.isascii() and "\x7f" not in text) or printable(text) == text:
        return text
    # Such characters occur only inside strings, because the rest of JSON is ASCII.
    return "".join(json.dumps(char)[1:-1] if char not in "\n\t" and printable(char) != char else char for char in text)


def make_time(when: datetime) -> str:
    with suppress(OverflowError):  # The time may be in the first or last hours of the calendar.
        when = when.astimezone(UTC)
    return when.isoformat(timespec="milliseconds")


def show_time(out: Output, when: datetime, now: datetime) -> str:
    """Return an age for a terminal, the time for a pipe."""
    return render_age(when, now.astimezone()) if out.is_table else make_time(when)


def describe_memory(store: FileStore, header: Header) -> Row:
    # Imported here, because `recall` does not need it.
    from memdir.operations.find import FoundMemory, make_rows

    return fill("", **make_rows([FoundMemory(store, header)], _MEMORY_FIELDS, now=header.modified)[0])


def describe_memories(memories: "Sequence[FoundMemory[FileStore]]", now: datetime) -> list[Row]:
    """Return the JSON rows of a list, with the age of each memory's text."""
    # Imported here, because `recall` does not need it.
    from memdir.operations.find import make_rows

    return [fill("", **row) for row in make_rows(memories, (*_MEMORY_FIELDS, "since"), now=now)]


def make_change_row(change: Change) -> Row:
    files = [fill("path before? after?", file) for file in change.files]
    names = find_change_names(change)
    return fill("id at verb who why session undoes undone_by", change, change.origin, names=names, files=files)


def find_change_names(change: Change) -> tuple[str, ...]:
    """Return the names of the memories in a change, or of the index if nothing else changed."""
    paths = tuple(file.path for file in change.files)
    return tuple(path.removesuffix(".md") for path in paths if not path.endswith("MEMORY.md")) or paths


def make_skip_rows() -> list[Row]:
    """Return all reasons why recall returns nothing."""
    # Imported here, because few commands need it.
    from memdir.recall.pipeline import RecallSkip

    return [{"reason": skip.value, "words": skip.words} for skip in RecallSkip]


# Errors: one line with the problem and what to do next.


def render_error(error: MemdirError) -> str:
    return _join_hint(str(error), error.hint or next(NEXT[kind] for kind in type(error).__mro__ if kind in NEXT))


def render_misuse(error: "ClickException") -> str:
    # Imported here, because `recall` does not use click.
    from click import NoSuchOption

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "memdir"
    hint = f"`{path} --help` shows how"
    if isinstance(error, NoSuchOption) and error.option_name in ("--dir", "--color") and context is not None:
        verb = path.removeprefix(context.find_root().command_path).strip()
        hint = f"it goes before the command: `memdir {error.option_name} … {verb}`"
    message = error.format_message()
    for click_words, plain_words in _PLAIN:
        message = message.replace(click_words, plain_words)
    return _join_hint(message, hint)


def _join_hint(message: str, hint: str) -> str:
    # Long enough for any path, but a hostile argument cannot fill the screen.
    return shorten(f"{one_line(message).rstrip('.')}; {one_line(hint)}", 2_000)


# Diffs.


def render_text_diff(before: str, after: str, old: str, new: str) -> list[str]:
    """Return the lines of a unified diff, with a note if a file does not end with a newline."""
    # Imported here, because most calls show no diff.
    from difflib import unified_diff

    lines = []
    for line in unified_diff(_split_lines(before), _split_lines(after), old, new):
        lines += [line.rstrip("\r\n"), *([] if line.endswith("\n") else ["\\ No newline at end of file"])]
    return lines


def render_change(change: ChangedFile, read: Callable[[str], bytes]) -> list[str]:
    """Return the diff of a file in a change. History stores only the changed lines of an index, without context."""
    old, new = (change.path if digest else "(no file)" for digest in (change.before, change.after))
    title = [f"--- {old}", f"+++ {new}"]
    if is_index_path(change.path):
        if change.splice is None:
            return [*title, PURGED]
        parts = zip("-+", change.splice[1:], strict=True)
        return title + [mark + line.rstrip("\r\n") for mark, part in parts for line in _split_lines(decode(part))]
    try:
        before, after = (decode(read(digest)) if digest else "" for digest in (change.before, change.after))
    except errors.NotFoundError:
        return [*title, PURGED]
    return render_text_diff(before, after, old, new)


def _split_lines(text: str) -> list[str]:
    """Split at line feeds only, keeping them."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


# --- calls ------------------------------------------------------------------------------------------------------------

# Starts another interface, such as the chat; returns an exit code.
Interface = Callable[..., int]


def run(
    argv: list[str],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    interfaces: Mapping[str, Interface] = MappingProxyType({}),
) -> int:
    """Run one call of the command line and return its exit code; user errors do not raise.

    `interfaces` are those that commands start; the caller passes them in, because interfaces do not import each other.
    """
    call = CliContext(environ, cwd, interfaces)
    try:
        code = _run_command(argv, call)
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
        what = (error.strerror or type(error).__name__).lower()
        complain(_join_hint(f"{error.filename}: {what}" if error.filename else what, NEXT[errors.DiskError]))
        _silence()
    finally:
        if call.project is not None:
            call.project.close()
    return REFUSED


class CliContext:
    """One call, passed to every command. `variables` and `cwd` are the real ones except in tests."""

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
        self.color = "auto"
        self.out = Output("never")
        self.project: Project | None = None  # Set by the first `open`.

    def prepare(self, directory: str | None, color: str) -> None:
        self.directory = None if directory is None else (self.cwd / directory).absolute()
        if directory is not None:
            check_root(str(self.directory) if directory else "")
        self.color = color
        self.out = Output(color, no_color=self.environment.no_color)

    @property
    def cwd(self) -> Path:
        if self._given_cwd is not None:
            return self._given_cwd
        try:
            return Path.cwd()
        except FileNotFoundError:
            raise PathError(".", "the working directory no longer exists", hint="change into one that exists") from None

    @property
    def environment(self) -> Environment:
        return read_environment(self.variables)

    def open(self, *, creates: bool = False) -> Project:
        """Return the project with its stores; creates nothing. Unless the caller does, warns of a missing --dir."""
        if self.project is None:
            self.project = open_project(self.cwd, environ=self.variables, directory=self.directory)
            if self.directory is not None and not (creates or self.directory.exists()):
                self.out.warn(f"{self.directory} does not exist yet")
        return self.project

    def open_to_write(self) -> Project:
        project = self.open(creates=True)
        project.check_on()
        return project

    def origin(self, why: str = "") -> Origin:
        return Origin(why=why, session=self.open().environment.session)

    def choose_model(self, spec: str | None) -> "Model | None":
        """Return the named or configured model, or None for built-in patterns only."""
        # Imported here, because few commands use a model but all import this module.
        from memdir.models.open import find_model, open_model

        project = self.open()
        settings, environment, root = project.settings, project.environment, str(project.places.root.path)
        if spec is None:
            return find_model(settings, environment, project=root)
        if spec.strip() == "none":
            return None
        return open_model(spec, environment=environment, settings=settings, project=root)

    def enter(self, interface: str, **options: Any) -> int:
        """Continue in another interface and return its exit code."""
        if interface not in self._interfaces:
            raise SettingsError(f"cannot start {interface} here", hint=f"start it as `memdir {interface}`")
        return self._interfaces[interface](**options)

    def answer(self, row: Row, *pieces: str | Styled, as_json: bool) -> None:
        """Print a row as JSON, or one line."""
        if as_json:
            self.out.json(row)
        else:
            self.out.line(*pieces)

    def show_rows(self, columns: Sequence[TableColumn], rows: Sequence[Any], *, as_json: bool, empty: str = "") -> None:
        """Print rows as JSON or as a table; a terminal shows `empty` if there are none."""
        if as_json:
            self.out.json(rows)
        elif rows:
            self.out.table(columns, rows, self.open().now() if any(column.is_time for column in columns) else None)
        elif self.out.is_table and empty:
            self.out.line(empty)


def choose_store(project: Project, scope: str | None) -> FileStore:
    """Return the store of a scope, or the project's own, which includes the team folder."""
    if scope == Scope.PROJECT.value and project.project is None:
        hint = "create the folder .claude/memory in the repository, or use --scope team"
        raise SettingsError("this project has no memory in its repository", key="scope", hint=hint)
    if scope == Scope.USER.value and project.user is None:
        raise SettingsError("no user memory is available here", key="user_memory", hint="`memdir where` shows why")
    return {Scope.PROJECT.value: project.project, Scope.USER.value: project.user}.get(scope or "") or project.private


def choose_stores(project: Project, scope: str | None) -> tuple[FileStore, ...]:
    """Return all stores of the project, or the store of the scope."""
    return tuple(project.stores) if scope is None else (choose_store(project, scope),)


def name_scope(store: FileStore, name: str = "") -> str:
    """Return the scope of a store, or of one of its memories."""
    return (Scope.TEAM if store.scope is Scope.PRIVATE and is_team(name) else store.scope).value


def scope_flag(store: StoreBase) -> str:
    """Return the option that selects the same store in a later call."""
    return f" --scope {store.scope.value}" if store.scope in (Scope.USER, Scope.PROJECT) else ""


def _run_command(argv: list[str], call: CliContext) -> int:
    # Imported here, because `recall` does not use click, and the others do not search.
    if "recall" in argv:
        from memdir.interfaces.cli.quick import parse_recall, show_recall

        if (quick := parse_recall(argv)) is not None:
            call.prepare(quick[0], "auto")
            show_recall(call, quick[1])
            return DONE
    from memdir.interfaces.cli.app import run_app

    return run_app(argv, call)


def _silence() -> None:
    """Redirect standard output to null for the interpreter's last flush, because it is closed or its disk is full."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # There is no descriptor, so nothing to flush.
