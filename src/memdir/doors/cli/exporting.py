"""`export`: all memories of a place as one file to carry away."""

import gzip
import sys
from pathlib import Path

import click

from memdir.doors.cli.call import Call, choose_store
from memdir.doors.cli.output import PipeClosedError
from memdir.doors.cli.verb import Verb, json_option, scope_option
from memdir.errors import ConflictError, NotFoundError
from memdir.exporting import Exported, ExportFormat, export
from memdir.records import Scope
from memdir.small_files import write_private

_EXAMPLES = (
    "memdir export -o memories.tar",
    "memdir export --format markdown -o memories.md",
    "memdir export --format jsonl -o memories.jsonl",
)


@click.command("export", short_help="All memories as one file.", cls=Verb, examples=_EXAMPLES)
@click.option(
    "--format", "named", type=click.Choice([at.value for at in ExportFormat]), default="tar", show_default=True,
    help="An archive as it is; one text; JSON lines; an archive in Claude Code's newer or in the flat dialect.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE|-", default="-", help="Where to; standard output if not given.")
@click.option("--with-history", is_flag=True, help="With an archive: also the history of all changes.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@scope_option
@json_option
@click.pass_obj
def export_verb(
    call: Call, named: str, output: str, with_history: bool, force: bool, scope: str | None, as_json: bool
) -> None:
    """Write all memories into one file: an archive of the whole directory (the same memories give the same bytes), one
    Markdown text, or JSON lines. Without --scope what a team shares is included. FILE.gz is packed.

    `memdir import` reads archives and JSON lines back without loss. Secrets in memories are exported with them; a
    warning names the places.
    """
    format = ExportFormat(named)
    if as_json and output == "-":
        raise click.UsageError("--json needs -o FILE")
    if with_history and format.is_text:
        raise click.UsageError("--with-history goes with an archive")
    if output == "-" and call.out.is_terminal and not format.is_text:
        raise click.UsageError("an archive is nothing for a terminal: say -o FILE")
    opened = call.open()
    meant = None if scope is None else Scope(scope)
    store = choose_store(opened, scope)
    done = export(store, format, now=opened.now(), scope=meant, with_history=with_history)
    if not done.names:
        raise NotFoundError("there are no memories to export", hint="`memdir where` shows where they would be")
    warnings = _find_warnings(done)
    if output == "-":
        _print(call, done)
    else:
        path = call.cwd / Path(output).expanduser()
        size = _write(path, done.data, force=force)
        if as_json:
            answer = {"path": str(path), "format": format.value, "memories": list(done.names), "bytes": size}
            call.out.json(answer | {"warnings": warnings})
        else:
            counted = "1 memory" if len(done.names) == 1 else f"{len(done.names)} memories"
            call.out.line(f"{counted} in {path} ({size:,} bytes)")
    for warning in warnings:
        call.out.warn(warning)


def _print(call: Call, done: Exported) -> None:
    """To a person cleaned as everything, to a program to the letter."""
    if call.out.is_terminal:
        call.out.block(done.data.decode("utf-8", "replace"))
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(done.data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise PipeClosedError from None


def _write(path: Path, data: bytes, *, force: bool) -> int:
    if path.exists() and not force:
        raise ConflictError(f"{path} is there already", hint="--force replaces it")
    if not path.parent.is_dir():  # a folder made for a misspelled path would hide a backup
        raise NotFoundError(f"there is no folder {path.parent}", hint="make it first, or name another place")
    packed = gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data
    write_private(path, packed)
    return len(packed)


def _find_warnings(done: Exported) -> list[str]:
    unread = [f"{path} is not in it: {why}" for path, why in done.unread]
    return [*unread, *(f"the file holds a secret: {at}; keep it accordingly" for at in done.secrets)]
