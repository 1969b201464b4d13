"""`read`: one memory."""

from datetime import datetime

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.names import find_memory
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import find_author, make_row, show_time
from memdir.doors.cli.verb import Verb, json_option, name_argument, scope_option
from memdir.errors import NotFoundError
from memdir.records import Memory
from memdir.store.files import FileStore


@click.command(
    "read",
    short_help="One memory.",
    cls=Verb,
    examples=("memdir read terse-replies", "memdir read 'Terse replies' --json"),
)
@name_argument()
@scope_option
@click.option("--raw", is_flag=True, help="The file's exact bytes; on a terminal they are still made printable.")
@json_option
@click.pass_obj
def read_verb(call: Call, name: str, scope: str | None, raw: bool, as_json: bool) -> None:
    """Print one memory. NAME is its name, a title that only one memory has, or its path."""
    opened = call.open()
    store, header = find_memory(opened, name, scope)
    memory = store.read(header.name)
    if as_json:
        extra = {"body": memory.body, "text": memory.text, "digest": memory.digest}
        call.out.json(make_row(memory.header, store) | extra)
    elif raw:
        data = store.read_bytes(header.file)
        if data is None:
            raise NotFoundError(f"{header.name} is gone", name=header.name)
        call.out.raw(data)
    else:
        _show_memory(call.out, memory, store, opened.now())


def _show_memory(out: Output, memory: Memory, store: FileStore, now: datetime) -> None:
    header = memory.header
    author = find_author(header, store)
    scope = f"{header.scope.value} by {author}" if author else header.scope.value
    facts = [header.kind or "no type", scope, show_time(out, header.modified, now)]
    out.line(Styled(header.title, "bold"))
    out.line(Styled(" · ".join([*facts, *(["pinned"] if header.pinned else [])]), "dim"))
    out.line(Styled(str(store.root / header.file), "dim"))
    if header.description:
        out.line(header.description)
    if header.problem:
        out.line(Styled(f"problem: {header.problem}", "yellow"))
    out.line()
    out.block(memory.body)
