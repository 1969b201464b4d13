"""All that the command line prints goes through here, and nothing leaves uncleaned.

Names, titles, bodies and paths come from files that anybody may have written. Every piece of text is made printable at
this last step, so no verb can forget it: control characters and direction marks show as escapes. On a terminal there
are tables that fit and, where the `color` extra is installed, colour; in a pipe plain lines, nothing cut, cells apart
by tabs.

It does not decide what to say; the verbs do.
"""

import json
import sys
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple, TextIO

from memdir.doors.cli.columns import Column, render_columns
from memdir.text import one_line, printable, replace_surrogates

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLOR_CHOICES = ("auto", "always", "never")
_BREAKS = str.maketrans({"\n": "\\n", "\t": "\\t"})


class PipeClosedError(Exception):
    """Whoever read our output has gone; there is nobody to tell."""


class Styled(NamedTuple):
    """A piece of a line with a colour, for terminals that have one."""

    text: str
    style: str


Piece = str | Styled


def render_json(value: object, *, ascii_only: bool = False) -> str:
    """JSON in which no character acts on a terminal: what `json` leaves bare is written as an escape."""
    if isinstance(value, list):
        # Rows one a line: easier on the eye for many, and several times faster than indented ones.
        rows = ",\n  ".join(json.dumps(row, ensure_ascii=ascii_only) for row in value)
        text = f"[\n  {rows}\n]" if value else "[]"
    else:
        text = json.dumps(value, ensure_ascii=ascii_only, indent=2)
    text = replace_surrogates(text)
    if (text.isascii() and "\x7f" not in text) or printable(text) == text:
        return text
    # Outside of its strings JSON is plain ASCII, so every such character stands inside one.
    return "".join(json.dumps(at)[1:-1] if at not in "\n\t" and printable(at) != at else at for at in text)


class Output:
    """Where the words go: standard output and standard error, as they are at the time of writing."""

    def __init__(self, color: str = "auto", *, no_color: bool = False) -> None:
        self.is_terminal = is_terminal(sys.stdout)
        self._has_progress = False
        wanted = color == "always" or (color == "auto" and self.is_terminal and not no_color)
        self._console = _open_console() if wanted else None

    @property
    def is_table(self) -> bool:
        """Whether a person looks at it, so that it should fit and may be cut."""
        return self.is_terminal or self._console is not None

    @property
    def width(self) -> int:
        # Imported here: with its archive formats it takes milliseconds, and a pipe has no width.
        import shutil

        return shutil.get_terminal_size().columns

    def line(self, *pieces: Piece) -> None:
        """One line; a line break inside a piece cannot begin another."""
        self._put([_clean_piece(piece) for piece in pieces])

    def block(self, text: str) -> None:
        """Text of several lines, as a body is."""
        cleaned = printable(text.replace("\r\n", "\n"))
        _write(sys.stdout, cleaned if cleaned.endswith("\n") or not cleaned else cleaned + "\n")

    def diff(self, lines: Sequence[str]) -> None:
        styles = {"+": "green", "-": "red", "@": "cyan"}
        for line in lines:
            style = "bold" if line.startswith(("+++", "---")) else styles.get(line[:1], "")
            self.line(Styled(line, style))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Rows that fit the terminal; in a pipe whole cells with tabs between them, without a head."""
        cells = [[_clean_cell(cell) for cell in row] for row in rows]
        if not self.is_table:
            _write(sys.stdout, "".join("\t".join(row) + "\n" for row in cells))
            return
        used = [at for at in range(len(columns)) if any(row[at] for row in cells)]
        columns, cells = [columns[at] for at in used], [[row[at] for at in used] for row in cells]
        for head, row in zip(
            ("head", *("row" for _ in cells)), render_columns(columns, cells, self.width), strict=True
        ):
            self._put(
                [Styled(text, "bold" if head == "head" else at.style) for at, text in zip(columns, row, strict=True)]
            )

    def json(self, value: object) -> None:
        plain = (getattr(sys.stdout, "encoding", "") or "utf-8").lower().replace("-", "") != "utf8"
        _write(sys.stdout, render_json(value, ascii_only=plain) + "\n")

    def raw(self, data: bytes) -> None:
        """Exact bytes, for a pipe; a terminal gets them cleaned."""
        stream = getattr(sys.stdout, "buffer", None)
        if self.is_terminal or stream is None:
            self.block(data.decode("utf-8", "replace"))
            return
        flush(sys.stdout)
        try:
            stream.write(data)
        except BrokenPipeError:
            raise PipeClosedError from None

    def progress(self, text: str) -> None:
        """How far long work has come, on a line that the next one replaces; nothing where nobody looks on."""
        if (text or self._has_progress) and is_terminal(sys.stderr):
            _write(sys.stderr, f"\r\x1b[K{one_line(text)}")
            flush(sys.stderr)
            self._has_progress = bool(text)

    def warn(self, text: str) -> None:
        complain(f"warning: {text}")

    def _put(self, pieces: Sequence[Styled]) -> None:
        if self._console is None:
            _write(sys.stdout, "".join(piece.text for piece in pieces).rstrip(" ") + "\n")
            return
        self._console.print(_assemble(pieces), soft_wrap=True)
        page = self._console.file
        if isinstance(page, StringIO):
            _write(sys.stdout, page.getvalue())
            page.seek(0)
            page.truncate()


def complain(text: str) -> None:
    """One line on standard error, whatever the text holds."""
    try:
        _write(sys.stderr, f"memdir: {one_line(text)}\n")
        flush(sys.stderr)
    except PipeClosedError:
        pass  # nobody reads our complaints; the exit code still tells


def flush(stream: TextIO | None) -> None:
    try:
        if stream is not None:
            stream.flush()
    except BrokenPipeError:
        raise PipeClosedError from None


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _clean_cell(text: str) -> str:
    # Most cells are plain; a thousand rows of them should not cost a search each.
    plain = text.isascii() and text.isprintable() and "  " not in text
    return text.strip() if plain else one_line(text)


def _clean_piece(piece: Piece) -> Styled:
    text, style = (piece.text, piece.style) if isinstance(piece, Styled) else (piece, "")
    return Styled(printable(text).translate(_BREAKS), style)


def _write(stream: TextIO | None, text: str) -> None:
    """To a stream of any encoding; what it cannot spell is written as an escape."""
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    except BrokenPipeError:
        raise PipeClosedError from None


def _assemble(pieces: Sequence[Styled]) -> "Text":
    # Imported here: an optional extra, and it costs more than all of `memdir list`.
    from rich.text import Text

    return Text.assemble(*((piece.text, piece.style) for piece in pieces), end="\n")


def _open_console() -> "Console | None":
    """rich onto a page of our own, so that every byte still leaves through `_write`; None where it is not installed."""
    try:
        from rich.console import Console  # optional: pip install 'memdir[color]'
    except ImportError:
        return None
    page = StringIO()
    return Console(file=page, force_terminal=True, no_color=False, markup=False, highlight=False, emoji=False)
