"""`edit` and `pin`: change a memory that exists."""

import shlex
import subprocess
from pathlib import Path

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.incoming import Dating, read_body, warn_of_secrets
from memdir.doors.cli.names import find_memory
from memdir.doors.cli.output import Styled
from memdir.doors.cli.rows import make_row
from memdir.doors.cli.verb import KINDS, Verb, json_option, name_argument, scope_option
from memdir.drafts import compose_body
from memdir.edits import open_edit
from memdir.errors import FormatError, MemdirError, NotFoundError, SettingsError
from memdir.opening import Opened
from memdir.records import Draft, Kind, Memory
from memdir.store.files import FileStore
from memdir.store.plan import decode, digest_of

Changes = dict[str, str | None]


@click.command(
    "edit",
    short_help="Change a memory, in an editor or without.",
    cls=Verb,
    examples=("memdir edit terse-replies", "memdir edit terse-replies --description 'No closing summary in a reply'"),
)
@name_argument()
@click.option("--description", help="Another description.")
@click.option("--body", metavar="TEXT|-", help="Another body; - reads standard input.")
@click.option("--title", help="Another title; the file keeps its name.")
@click.option("--type", "kind", type=click.Choice(KINDS), help="Another type.")
@click.option("--why", help="The Why part of the body.")
@click.option("--how", help="The How part of the body.")
@scope_option
@json_option
@click.pass_obj
def edit_verb(call: Call, /, name: str, scope: str | None, as_json: bool, **changes: str | None) -> None:
    """Change a memory: in $VISUAL or $EDITOR, or with the options without any editor.

    If somebody else changed it meanwhile, nothing is written. A text from the editor that cannot be saved is kept, and
    the error says where.
    """
    opened = call.open_to_write()
    store, header = find_memory(opened, name, scope)
    before = store.read(header.name)
    dating = Dating(Kind(changes["kind"]) if changes["kind"] else before.header.kind, opened.now().astimezone())
    if any(value is not None for value in changes.values()):
        draft = _make_draft(before, changes, dating)
        after = store.write(draft, expect=before.digest, origin=call.origin())
    else:
        after = _edit_in_editor(call, opened, store, before)
    changed = after.digest != before.digest
    warnings = warn_of_secrets(after.text, header.file, opened.environment) if changed else []
    _report(call, store, before, after, dating, warnings, as_json=as_json)
    for warning in warnings:
        call.out.warn(warning)


@click.command(
    "pin",
    short_help="Keep a memory first; --off lets it go.",
    cls=Verb,
    examples=("memdir pin terse-replies", "memdir pin terse-replies --off"),
)
@name_argument()
@click.option("--off", is_flag=True, help="Take the pin off.")
@scope_option
@json_option
@click.pass_obj
def pin_verb(call: Call, name: str, off: bool, scope: str | None, as_json: bool) -> None:
    """Pin a memory: it comes first when an index must be cut, and no dream touches it."""
    store, header = find_memory(call.open_to_write(), name, scope)
    before = store.read(header.name)
    after = store.pin(header.name, pinned=not off, origin=call.origin())
    _report(call, store, before, after, None, [], as_json=as_json)


def _make_draft(memory: Memory, changes: Changes, dating: Dating) -> Draft:
    kind = dating.kind
    if kind is None:
        raise FormatError("this memory has no type", field="type", hint="give one with --type")
    header = memory.header
    body = memory.body
    if changes["body"] is not None:
        body = dating.apply(read_body(changes["body"]))
    return Draft(
        kind,
        changes["title"] if changes["title"] is not None else header.title,
        header.description if changes["description"] is None else dating.apply(changes["description"]),
        compose_body(body, dating.apply_maybe(changes["why"]), dating.apply_maybe(changes["how"])),
        header.name,
    )


def _edit_in_editor(call: Call, opened: Opened, store: FileStore, memory: Memory) -> Memory:
    editor = _find_editor(opened.environment.editor)
    name = memory.header.name
    data = store.read_bytes(memory.header.file)
    if data is None:
        raise NotFoundError(f"{name} is gone", name=name)
    path = open_edit(opened.environment, store.root, name, data)
    try:
        _run_editor(call, editor, path)
        edited = path.read_bytes()
        if edited != data:
            memory = store.edit(name, decode(edited), expect=digest_of(data), origin=call.origin())
    except MemdirError as error:
        _tell_where(error, path, data)
        raise
    path.unlink(missing_ok=True)
    return memory


def _find_editor(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError:
        raise SettingsError(f"EDITOR = {text!r} cannot be read as a command", key="EDITOR") from None
    if not words:
        hint = "set VISUAL or EDITOR, or change it with --body, --description, --title, --type, --why or --how"
        raise SettingsError("no editor is set", key="EDITOR", hint=hint)
    return words


def _run_editor(call: Call, editor: list[str], path: Path) -> None:
    try:
        ended = subprocess.run(
            [*editor, str(path)], env=None if call.variables is None else dict(call.variables), check=False
        )
    except OSError as error:
        reason = (error.strerror or "it cannot be started").lower()
        raise SettingsError(f"the editor {editor[0]} failed: {reason}", key="EDITOR", hint="set EDITOR") from error
    if ended.returncode:
        hint = "nothing was changed"
        raise SettingsError(f"the editor {editor[0]} ended with {ended.returncode}", key="EDITOR", hint=hint)


def _tell_where(error: MemdirError, path: Path, data: bytes) -> None:
    """Keep what the person wrote and say where; an untouched copy is of no use to anybody."""
    try:
        if path.read_bytes() == data:
            path.unlink()
            return
    except FileNotFoundError:
        return
    kept = f"your text is kept in {path}"
    error.hint = f"{error.hint}; {kept}" if error.hint else kept


def _report(
    call: Call,
    store: FileStore,
    before: Memory,
    after: Memory,
    dating: Dating | None,
    warnings: list[str],
    *,
    as_json: bool,
) -> None:
    header = after.header
    action = "unchanged" if after.digest == before.digest else "changed"
    if as_json:
        act = store.acts(header.name, limit=1)[0].id if action == "changed" else None
        row = make_row(header, store) | {"action": action, "act": act, "dates": dating.rows if dating else []}
        call.out.json(row | {"warnings": warnings})
        return
    pin = {(False, True): "pinned", (True, False): "unpinned"}.get((before.header.pinned, header.pinned))
    verb = "nothing to change in" if action == "unchanged" else pin or "changed"
    call.out.line(f"{verb} ", Styled(header.name, "cyan"))
    for at in dating.done if dating else []:
        call.out.line(f"  {at.was} -> {at.now_text}")
