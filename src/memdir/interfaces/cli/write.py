"""`save`, `remember`, `edit`, `pin` and `forget`: everything that writes memories."""

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from memdir.errors import MemdirError, NotFoundError, SettingsError
from memdir.format.document import PartKind, compose_body
from memdir.format.frontmatter import decode, digest_of
from memdir.format.index import INDEX_FILE, IndexFill, measure_index
from memdir.interfaces import cli
from memdir.interfaces.cli import (
    CliContext,
    Row,
    Styled,
    app,
    choose_store,
    choose_stores,
    describe_memory,
    fill,
    is_terminal,
    name_scope,
    scope_flag,
)
from memdir.interfaces.cli.app import KINDS, name_argument, scope_option, verb
from memdir.operations.find import find_past
from memdir.operations.move import UNREACHED
from memdir.operations.move import purge as erase
from memdir.operations.write import (
    NameTakenError,
    TakenName,
    WriteAction,
    WriteContext,
    WriteResult,
    forget,
    pin,
    remember,
    rewrite,
    save,
    update,
)
from memdir.records import Draft, FieldChanges, Kind, Scope
from memdir.store.files import FileStore
from memdir.store.open import AgentScope, Project, find_agent_directory, open_agent_store
from memdir.store.plan import index_path
from memdir.store.state import open_edit

if TYPE_CHECKING:
    from memdir.language.dates import ReplacedDate

_SCANNED_LINES = 1_000  # of an index: with more, looking at every memory takes longer than the save itself


def _render_dates(dates: "Sequence[ReplacedDate]") -> list[str]:
    return [f"  {date.was} -> {date.now_text}" for date in dates]


def _make_context(call: CliContext, project: Project) -> WriteContext:
    return WriteContext(call.origin(), project.now(), project.places.root.path, keeps_secrets=True)


# `save` and `remember`.


@verb(
    "save", "Save a memory field by field.",
    "memdir save --type feedback --name terse-replies --description 'No summary at the end of a reply' \\\n"
    "  --body 'Leave out the closing summary.' --why 'The diff is read anyway.' --how 'In every reply.'",
    "memdir save --type reference --title 'Bug tracker' \\\n"
    "  --description 'Where bugs of the billing service are tracked' --body - < tracker.txt",
)  # fmt: skip
@click.option("--type", "kind", type=click.Choice(KINDS), required=True, help="The type of memory.")
@click.option("--name", help="The file's name without .md: letters, digits, - and _. Default: made from --title.")
@click.option("--title", help="The title; default: the name.")
@click.option("--description", required=True, help="One line that says when this matters; used for recall.")
@click.option("--body", required=True, metavar="TEXT|-", help="The text; - reads standard input.")
@click.option("--why", help="Why it is so; becomes the Why part of the body.")
@click.option("--how", help="When and how to apply it; becomes the How part of the body.")
@click.option(
    "--scope", type=click.Choice((*app.SCOPES, AgentScope.LOCAL.value)),
    help=f"{app.SCOPE_HELP} Default: private. With --agent: user, project or local.",
)  # fmt: skip
@click.option("--agent", metavar="NAME", help="Save to this agent's own memory, chosen by its definition or --scope.")
@app.field_options(is_edit=False)
@app.when_options("when-")
@click.option("--always", is_flag=True, default=None, help="A standing rule: conversations have it from their start.")
@click.option(
    "--enforce",
    type=click.Choice(app.DECISIONS),
    help="At a matching command or text, always show it, ask you, or refuse.",
)
@click.option("--new", "is_new", is_flag=True, help="If the name is in use, save under the next free one.")
@click.option("--replace", "is_replacing", is_flag=True, help="Replace the memory with this name.")
def save_verb(
    call: CliContext,
    kind: str,
    name: str | None,
    title: str | None,
    description: str,
    body: str,
    why: str | None,
    how: str | None,
    scope: str | None,
    agent: str | None,
    always: bool | None,
    enforce: str | None,
    is_new: bool,
    is_replacing: bool,
    as_json: bool,
    **fields: Any,
) -> None:
    """Save one memory. If the name is in use, shows the difference; choose --replace or --new.

    --scope team saves to the folder that is synced with the team, --scope user to the memory for all projects (types
    user and feedback only), --scope project to .claude/memory in the repository, for you to commit.

    Warnings (a missing Why or How, a secret, text already in the project, a nearly full index) go to standard error.
    Team memories cannot contain secrets.
    """
    name = None if name is None else name.removesuffix(".md")
    shown_title = title if title is not None else name
    if shown_title is None:
        raise click.UsageError("a memory needs --name or --title")
    if is_new and is_replacing:
        raise click.UsageError("--new and --replace cannot be used together")
    if agent is None and scope == AgentScope.LOCAL:
        raise click.UsageError("--scope local needs --agent NAME")
    if agent is not None and scope not in (None, *(agent_scope.value for agent_scope in AgentScope)):
        raise click.UsageError("--scope must be user, project or local with --agent")
    project = call.open_to_write()
    text = compose_body(app.read_body(body), why, how)
    fields["when"] = app.read_when_options(fields, always=always, enforce=enforce)
    options: dict[str, Any] = {key: value for key, value in fields.items() if value}
    draft = Draft(Kind(kind), shown_title, description, text, name, **options)
    if agent is None:
        store = choose_store(project, scope)
    else:
        own, _ = find_agent_directory(project, agent, None if scope is None else AgentScope(scope))
        store = open_agent_store(project, own)
    on_taken = TakenName.REPLACE if is_replacing else TakenName.ALONGSIDE if is_new else TakenName.REFUSE
    is_shared = agent is None and scope == Scope.TEAM.value
    try:
        result = save(store, draft, _make_context(call, project), taken=on_taken, team=is_shared)
    except NameTakenError as error:
        if not as_json:
            call.out.diff(_render_diff(call, error.before, error.after, f"{error.name}.md", "yours"))
        error.hint = "--replace puts this in its place, --new saves it alongside under another name"
        raise
    except NotFoundError as error:
        error.hint = "save it without --replace"
        raise
    lines = [] if result.action is WriteAction.UNCHANGED else _render_dates(result.dates)
    texts = {"the title": shown_title, "the description": description, "the body": text}
    warnings = app.warn_of_secrets(result.name, texts, project.environment) + _render_warnings(call, store, result)
    words = {WriteAction.CHANGED: "replaced", WriteAction.UNCHANGED: "already saved:"}
    _report_saved(call, store, result, words, lines, warnings, as_json=as_json)


@verb(
    "remember", "Save something in your own words.",
    "memdir remember we deploy on Tuesdays only, because support is there then",
    'memdir remember --type user "I am new to React but know Go well"',
)  # fmt: skip
@click.argument("words", nargs=-1, required=True, metavar="TEXT...")
@click.option("--type", "kind", type=click.Choice(KINDS), help="The type of memory; guessed if omitted.")
@click.option("--name", help="The new file's name without .md; default: made from the text.")
@click.option("--scope", type=click.Choice(app.SCOPES), default="private", show_default=True, help=app.SCOPE_HELP)
@click.option("--pin", is_flag=True, help="Keep it first when the index is truncated.")
def remember_verb(
    call: CliContext, words: tuple[str, ...], kind: str | None, name: str | None, scope: str, pin: bool, as_json: bool
) -> None:
    """Save text as a memory. If it extends or corrects an existing memory, updates that one and shows the diff.

    - reads standard input. Type, title and description are derived from the text. A correction ("no, …", "instead of …")
    replaces the sentence; `memdir undo` reverts it. A contradicting memory is kept and reported. "Forget the deploy day"
    forgets the one memory about it. --name always creates a new memory.
    """
    # Imported here: `save` and `edit` need no patterns that read sentences.
    from memdir.extraction.find import find_secret_values, mask_values

    text = " ".join(words) if words != ("-",) else app.read_body("-")
    if (values := find_secret_values(text)) and is_terminal(sys.stdin) and is_terminal(sys.stderr):
        question = "This looks like a secret. Save the text without it (m), with it (k), or not at all (n)?"
        answer = click.prompt(question, type=click.Choice(["m", "k", "n"]), default="m", show_choices=False, err=True)
        if answer == "n":
            raise click.Abort
        text = mask_values(text, values, "[a secret, not saved]") if answer == "m" else text
        values = () if answer == "m" else values
    project = call.open_to_write()
    store, wanted_kind = choose_store(project, scope), None if kind is None else Kind(kind)
    name = None if name is None else name.removesuffix(".md")
    team = scope == Scope.TEAM.value
    result = remember([store], text, _make_context(call, project), kind=wanted_kind, name=name, team=team, pin=pin)
    memory = result.memory
    if memory is None:
        raise NotFoundError(f"{result.name} was deleted", name=result.name)
    warnings, lines = [], list[str]()
    if result.action is WriteAction.FORGOTTEN:
        lines = [f"  `memdir undo{scope_flag(store)} {result.change}` brings it back"]
    else:
        texts = {"the title": memory.title, "the description": memory.description, "the body": text}
        warnings = app.warn_of_secrets(result.name, texts, project.environment) + _render_warnings(call, store, result)
        if values and not any("secret" in warning for warning in warnings):
            warnings.append("this looks like a number that opens something; say where it is kept instead")
    if result.action is WriteAction.CREATED:
        body = app.mask_secrets(memory.body.strip(), call.environment).splitlines()
        lines = [*(f"  {line}" for line in body), *_render_dates(result.dates)]
    elif result.action is WriteAction.CHANGED and result.before is not None and not as_json:
        lines = _render_diff(call, result.before, memory.text, memory.header.file, "now")
    messages = {WriteAction.CHANGED: "updated", WriteAction.UNCHANGED: "nothing new, already in"}
    _report_saved(call, store, result, messages, lines, warnings, as_json=as_json)


def _report_saved(
    call: CliContext,
    store: FileStore,
    done: WriteResult,
    words: Mapping[WriteAction, str],
    lines: Sequence[str],
    warnings: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Report a write; `words` describe each action, and in JSON only CHANGED."""
    assert done.memory is not None
    header, out = done.memory.header, call.out
    action = words.get(done.action, done.action.value)
    if as_json:
        used = _measure_index(store, header.name)
        index = fill("lines bytes", used, share=round(used.share, 4))
        facts = {
            "action": action if done.action is WriteAction.CHANGED else done.action.value,
            "change": done.change,
            "dates": [{"was": date.was, "now": date.now_text} for date in done.dates],
            "warnings": warnings,
        }
        out.json(describe_memory(store, header) | facts | {"index": index})
    else:
        action = "saved" if done.action is WriteAction.CREATED else action
        out.line(f"{action} ", Styled(header.name, "cyan"), f" ({header.kind}, {header.scope})")
        out.line(Styled(f"  {store.root / header.file}", "dim"))
        out.diff(lines)
    for warning in warnings:
        out.warn(warning)


def _render_diff(call: CliContext, before: str, after: str, file: str, which: str) -> list[str]:
    old, new = (app.mask_secrets(text, call.environment) for text in (before, after))
    lines = cli.render_text_diff(old, new, file, f"{file} ({which})")
    return lines if len(lines) <= 40 else [*lines[:40], f"… and {len(lines) - 40} more lines"]


def _render_warnings(call: CliContext, store: FileStore, done: WriteResult) -> list[str]:
    """Return the warnings for a write as text, including a full index and a disabled team."""
    texts = list[str]()
    if missing := [warning.text for warning in done.warnings if warning.kind == "parts"]:
        options = {PartKind.WHY.value: "--why TEXT", PartKind.HOW.value: "--how TEXT"}
        adding = " ".join((f"memdir edit {done.name}", *(options[part] for part in missing)))
        kind = done.memory and done.memory.kind
        texts.append(f"a {kind} memory should also say {' and '.join(missing)}; `{adding}` adds it")
    for warning in done.warnings:
        if warning.kind == "derivable":
            texts.append(f"{warning.text} ({warning.source}); remember what was surprising about it instead")
    used = _measure_index(store, done.name)
    if used.is_high:
        advice = f": {'; '.join(used.proposals)}" if used.proposals else ""
        texts.append(f"the index is {used.share:.0%} full ({used.lines} lines, {used.bytes:,} bytes){advice}")
    texts += app.warn_of_team(store, done.scope)
    for warning in done.warnings:
        if warning.kind == "rival":
            other, sentence = warning.source, app.mask_secrets(warning.text, call.environment)
            times = [change.at for change in store.changes(other, limit=1)] or [store.read(other).header.modified]
            since = times[0].astimezone().date().isoformat()
            replacing = f"to replace it: `memdir forget {other}`, or `memdir edit {other}`"
            texts.append(f'"{sentence}" is there since {since} ({other}); {replacing}')
    return texts


def _measure_index(store: FileStore, name: str) -> IndexFill:
    """Return the size of the index that lists this memory; if it is very long, without suggestions."""
    text = store.index(index_path(name)[0].removesuffix(INDEX_FILE).rstrip("/"))
    return measure_index(text, store.scan() if text.count("\n") < _SCANNED_LINES else ())


# `edit` and `pin`.


@verb(
    "edit", "Change a memory.",
    "memdir edit terse-replies", "memdir edit terse-replies --description 'No closing summary in a reply'",
)  # fmt: skip
@name_argument()
@click.option("--description", help="The new description.")
@click.option("--body", metavar="TEXT|-", help="The new body; - reads standard input.")
@click.option("--title", help="The new title; the file keeps its name.")
@click.option("--type", "kind", type=click.Choice(KINDS), help="The new type.")
@click.option("--why", help="The Why part of the body.")
@click.option("--how", help="The How part of the body.")
@app.when_options("when-")
@click.option("--always/--not-always", default=None, help="A standing rule or not.")
@click.option(
    "--enforce",
    type=click.Choice((*app.DECISIONS, "none")),
    help="At a matching command or text, always show it, ask, refuse, or none of these.",
)
@app.field_options(is_edit=True)
@scope_option
def edit_verb(
    call: CliContext,
    /,
    name: str,
    scope: str | None,
    always: bool | None,
    enforce: str | None,
    as_json: bool,
    **changes: Any,
) -> None:
    """Change a memory in $VISUAL or $EDITOR, or directly with the options.

    The patterns of --when-path, --when-command and --when-content replace the memory's own; an empty one removes them.

    If it changed since you opened it, nothing is written. Text from the editor that cannot be saved is kept in a file
    named in the error.
    """
    project = call.open_to_write()
    store, header = app.pick_memory(choose_stores(project, scope), name, scope=scope, action="Edit")
    before = header.when
    changes["when"] = app.read_when_options(changes, before=before, always=always, enforce=enforce)
    fields = {key: value for key, value in changes.items() if value is not None}
    if fields:
        if "body" in fields:
            fields["body"] = app.read_body(fields["body"])
        if "kind" in fields:
            fields["kind"] = Kind(fields["kind"])
        result = update(store, header.name, cast(FieldChanges, fields), _make_context(call, project))
    else:
        result = _edit_in_editor(call, project, store, header.name)
    _report_edit(call, store, result, as_json=as_json)


@verb(
    "pin",
    "Keep a memory first in the index, and out of dreams.",
    "memdir pin terse-replies",
    "memdir pin terse-replies --off",
)
@name_argument(name="names", many=True)
@click.option("--off", is_flag=True, help="Remove the pin.")
@scope_option
def pin_verb(call: CliContext, names: Sequence[str], off: bool, scope: str | None, as_json: bool) -> None:
    """Pin memories: they come first when the index is truncated, and dreams do not change them.

    NAME is a name, a title, or words that only this memory contains.
    """
    project = call.open_to_write()
    action = "Unpin" if off else "Pin"
    picked = [app.pick_memory(choose_stores(project, scope), name, scope=scope, action=action) for name in names]
    for store, header in picked:
        result = pin(store, [header.name], not off, _make_context(call, project))
        _report_edit(call, store, result, is_pin=True, as_json=as_json)


def _edit_in_editor(call: CliContext, project: Project, store: FileStore, name: str) -> WriteResult:
    command = project.environment.editor
    try:
        editor = shlex.split(command)
    except ValueError:
        raise SettingsError(f"EDITOR = {command!r} is not a valid command", key="EDITOR") from None
    if not editor:
        hint = "set VISUAL or EDITOR, or change it with --body, --description, --title, --type, --why or --how"
        raise SettingsError("no editor is set", key="EDITOR", hint=hint)
    memory, data = store.read(name), store.read_bytes(f"{name}.md")
    if data is None:
        raise NotFoundError(f"{name} was deleted", name=name)
    path = open_edit(project.environment, store.root, name, data)
    environment = None if call.variables is None else dict(call.variables)
    try:
        try:
            ended = subprocess.run([*editor, str(path)], env=environment, check=False)
        except OSError as error:
            reason = (error.strerror or "cannot be started").lower()
            raise SettingsError(f"the editor {editor[0]} failed: {reason}", key="EDITOR", hint="set EDITOR") from error
        if ended.returncode:
            what = f"the editor {editor[0]} exited with status {ended.returncode}"
            raise SettingsError(what, key="EDITOR", hint="nothing was changed")
        edited = path.read_bytes()
        result = WriteResult(WriteAction.UNCHANGED, name, memory.header.scope, memory, memory.text)
        if edited != data:
            result = rewrite(store, name, decode(edited), _make_context(call, project), expect=digest_of(data))
    except MemdirError as error:
        if path.exists() and path.read_bytes() != data:
            note = f"your text is kept in {path}"
            error.hint = f"{error.hint}; {note}" if error.hint else note
        else:
            path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)
    return result


def _report_edit(call: CliContext, store: FileStore, done: WriteResult, *, is_pin: bool = False, as_json: bool) -> None:
    assert done.memory is not None
    header, changed = done.memory.header, done.action is WriteAction.CHANGED
    # A pin brings in no text.
    texts = {} if is_pin or not changed else {header.file: done.memory.text}
    warnings = app.warn_of_secrets(header.name, texts, call.environment)
    if as_json:
        facts = {"action": done.action.value, "change": done.change, "warnings": warnings}
        dates = [{"was": date.was, "now": date.now_text} for date in done.dates]
        call.out.json(describe_memory(store, header) | facts | {"dates": dates})
    else:
        words = "changed" if not is_pin else "pinned" if header.pinned else "unpinned"
        call.out.line(f"{words if changed else 'nothing to change in'} ", Styled(header.name, "cyan"))
        for line in _render_dates(done.dates):
            call.out.line(line)
    for warning in warnings:
        call.out.warn(warning)


# `forget`.


@verb(
    "forget", "Delete a memory.",
    "memdir forget terse-replies", "memdir forget terse-replies --purge --yes",
)  # fmt: skip
@name_argument(name="names", many=True)
@click.option("--purge", is_flag=True, help="Also erase it from history and memdir's other files; cannot be undone.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@scope_option
def forget_verb(
    call: CliContext, names: Sequence[str], purge: bool, yes: bool, scope: str | None, as_json: bool
) -> None:
    """Delete memories and their index lines. `memdir undo` restores them.

    NAME is a name, a title, or words that only this memory contains. This also works while memory is off.
    """
    project, stores = call.open(), choose_stores(call.open(), scope)
    for store, name in [_pick_past(stores, text, scope, is_sure=yes or purge) for text in names]:
        _forget(call, project, store, name, purge=purge, yes=yes, as_json=as_json)


def _pick_past(stores: Sequence[FileStore], text: str, scope: str | None, *, is_sure: bool) -> tuple[FileStore, str]:
    """Find a memory by name or words, or a forgotten one by its exact name."""
    try:
        return find_past(stores, text, scope=scope)
    except NotFoundError:
        store, header = app.pick_memory(stores, text, scope=scope, action="" if is_sure else "Forget")
        return store, header.name


def _forget(
    call: CliContext, project: Project, store: FileStore, past_name: str, *, purge: bool, yes: bool, as_json: bool
) -> None:
    out = call.out
    row: Row = {"name": past_name, "scope": name_scope(store, past_name), "change": None, "purged": purge}
    if purge:
        app.confirm(f"Wipe every trace of {past_name!r}? This cannot be undone.", "--purge cannot be undone", yes=yes)
        count = erase(project, store, past_name)
    else:
        count, row["change"] = 0, forget(store, past_name, _make_context(call, project)).change
    if as_json:
        out.json(row | {"changes_cleaned": count, "unreached": UNREACHED if purge else None})
    elif purge:
        changes = cli.count_words(count, "change")
        out.line("purged ", Styled(past_name, "cyan"), f" from the directory and from {changes} of its history")
        out.line(f"memdir cannot reach {UNREACHED}")
    else:
        undo = f"`memdir undo{scope_flag(store)} {row['change']}`"
        out.line("forgot ", Styled(past_name, "cyan"), f"; {undo} brings it back")
