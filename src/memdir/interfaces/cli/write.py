"""`save`: remember one thing."""

import shlex
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memdir.dream.logs import append_log, list_logs, list_undistilled, make_path, read_log
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, SettingsError
from memdir.extraction.find import MemoryRequest, compose_memory, holds_secret, is_forgetting
from memdir.extraction.merge import place
from memdir.format import frontmatter
from memdir.format.drafts import compose_body
from memdir.frozen import dataclass, replace
from memdir.interfaces.cli import (
    KINDS,
    SCOPE_HELP,
    SCOPES,
    CliContext,
    CliVerb,
    VerbGroup,
    choose_store,
    json_option,
    name_argument,
    name_scope,
    scope_flag,
    scope_option,
)
from memdir.interfaces.cli.names import (
    DateResolver,
    find_memory,
    find_past,
    find_warnings,
    mask_secrets,
    measure_store_index,
    place_draft,
    read_body,
    warn_of_fill,
    warn_of_secrets,
    warn_of_team,
)
from memdir.interfaces.cli.output import (
    Output,
    Styled,
    TableColumn,
    is_terminal,
    make_fill_row,
    make_row,
    make_time,
    render_text_diff,
    shorten_diff,
)
from memdir.language.requests import RequestCategory
from memdir.models.staged import Staging, make_edits
from memdir.records import Draft, Header, Kind, Memory, Scope
from memdir.store.files import FileStore
from memdir.store.lookup import find_existing, find_free_name, preview_text
from memdir.store.move import MoveResult, find_traces, move
from memdir.store.open import AgentScope, Project, find_agent_directory, open_agent_store
from memdir.store.plan import decode, digest_of
from memdir.store.state import drop_edits, open_edit

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# --- saving ---

_EXAMPLES = (
    "memdir save --type feedback --name terse-replies --description 'No summary at the end of a reply' \\\n"
    "  --body 'Leave out the closing summary.' --why 'The diff is read anyway.' --how 'In every reply.'",
    "memdir save --type reference --title 'Bug tracker' \\\n"
    "  --description 'Where bugs of the billing service are tracked' --body - < tracker.txt",
)


@click.command("save", short_help="Remember one thing.", cls=CliVerb, examples=_EXAMPLES)
@click.option("--type", "kind", type=click.Choice(KINDS), required=True, help="What sort of thing it is.")
@click.option("--name", help="The file's name without .md: letters, digits, - and _. Made from --title if not given.")
@click.option("--title", help="The title; the name if not given.")
@click.option("--description", required=True, help="One line that says when this matters; recall judges by it.")
@click.option("--body", required=True, metavar="TEXT|-", help="What is to be remembered; - reads standard input.")
@click.option("--why", help="Why it is so; becomes the Why part of the body.")
@click.option("--how", help="When and how to apply it; becomes the How part of the body.")
@click.option(
    "--scope",
    type=click.Choice((*SCOPES, AgentScope.LOCAL.value)),
    help=f"{SCOPE_HELP} Private if not given. With --agent: user, project or local.",
)
@click.option("--agent", metavar="NAME", help="Into this agent's own memory, by its definition or by --scope.")
@click.option("--pin", "pinned", is_flag=True, help="Keep it first when the index must be cut.")
@click.option("--new", "is_new", is_flag=True, help="If the name is taken, save under the next free one.")
@click.option("--replace", "is_replacing", is_flag=True, help="Replace the memory of that name.")
@json_option
@click.pass_obj
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
    pinned: bool,
    is_new: bool,
    is_replacing: bool,
    as_json: bool,
) -> None:
    """Remember one thing. A name that exists is refused with the difference; --replace or --new then decide.

    --scope team puts it where the team's memory is synced from, --scope user into the memory for all projects (types
    user and feedback only), --scope project into .claude/memory of the repository, for people to commit.

    Warnings (a missing Why or How, a secret, text that the project already says, an index nearly full) go to standard
    error. In what a team shares a secret is refused.
    """
    name = None if name is None else name.removesuffix(".md")
    shown_title = title if title is not None else name
    if shown_title is None:
        raise click.UsageError("a memory needs --name or --title")
    if is_new and is_replacing:
        raise click.UsageError("--new and --replace exclude one another")
    _check_scope(scope, agent)
    opened = call.open_to_write()
    store = choose_store(opened, scope) if agent is None else _open_agent(opened, agent, scope)
    dating = DateResolver(Kind(kind), opened.now().astimezone())
    text = compose_body(dating.apply(read_body(body)), dating.apply_maybe(why), dating.apply_maybe(how))
    draft = Draft(Kind(kind), shown_title, dating.apply(description), text, name, True if pinned else None)
    draft = place_draft(store, draft, scope) if agent is None else draft
    memory, action = _save(call, store, draft, is_new=is_new, is_replacing=is_replacing, as_json=as_json)
    _report(call, opened, store, draft, memory, action, dating, as_json=as_json)


def _check_scope(scope: str | None, agent: str | None) -> None:
    """Words of one kind of memory mean nothing for the other."""
    if agent is None and scope == AgentScope.LOCAL:
        raise click.UsageError("--scope local is for an agent's memory: say --agent NAME")
    if agent is not None and scope not in (None, *(at.value for at in AgentScope)):
        raise click.UsageError("an agent's memory has the scope user, project or local")


def _open_agent(opened: Project, agent: str, scope: str | None) -> FileStore:
    place, _ = find_agent_directory(opened, agent, None if scope is None else AgentScope(scope))
    return open_agent_store(opened, place)


def _save(
    call: CliContext, store: FileStore, draft: Draft, *, is_new: bool, is_replacing: bool, as_json: bool
) -> tuple[Memory, str]:
    """The memory as it is now, and what was done: created, replaced or unchanged."""
    if is_replacing:
        return _replace(call, store, draft)
    if is_new:
        draft = replace(draft, name=find_free_name(store, draft))
    try:
        return store.write(draft, origin=call.origin()), "created"
    except ConflictError:
        existing = find_existing(store, draft)
        if existing is None:
            raise
        return _refuse(call, store, draft, existing, as_json=as_json), "unchanged"


def _replace(call: CliContext, store: FileStore, draft: Draft) -> tuple[Memory, str]:
    existing = find_existing(store, draft)
    if existing is None:
        wanted = draft.name or draft.title
        raise NotFoundError(f"there is no memory {wanted} to replace", name=wanted, hint="save it without --replace")
    # Its own name: a title alone could by now lead to another file.
    memory = store.write(replace(draft, name=existing.header.name), expect=existing.digest, origin=call.origin())
    return memory, "unchanged" if memory.digest == existing.digest else "replaced"


def _refuse(call: CliContext, store: FileStore, draft: Draft, existing: Memory, *, as_json: bool) -> Memory:
    """Show what would change and refuse; the very same memory again is nothing to refuse."""
    name = existing.header.name
    new = preview_text(store, replace(draft, name=name), existing, store.clock())
    if new == existing.text:
        return existing
    if not as_json:
        old, mine = (mask_secrets(text, call.environment) for text in (existing.text, new))
        call.out.diff(shorten_diff(render_text_diff(old, mine, f"{name}.md", f"{name}.md (yours)")))
    raise ConflictError(
        f"{name} exists already and says something else",
        found=existing.digest,
        hint="--replace puts this in its place, --new saves it beside it under another name",
    )


def _report(
    call: CliContext,
    opened: Project,
    store: FileStore,
    draft: Draft,
    memory: Memory,
    action: str,
    dating: DateResolver,
    *,
    as_json: bool,
) -> None:
    name = memory.header.name
    fill = measure_store_index(store, name)
    warnings = [*find_warnings(draft, name, opened.places.root.path, opened.environment), *warn_of_fill(fill)]
    warnings += warn_of_team(store, memory.header.scope)
    if as_json:
        last = store.changes(name, limit=1)
        change = last[0].id if last and action != "unchanged" else None
        row = make_row(memory.header, store) | {"action": action, "change": change, "dates": dating.rows}
        call.out.json(row | {"warnings": warnings, "index": make_fill_row(fill)})
    else:
        _show(call.out, memory, store, action, dating)
    for warning in warnings:
        call.out.warn(warning)


def _show(out: Output, memory: Memory, store: FileStore, action: str, dating: DateResolver) -> None:
    words = {"created": "saved", "replaced": "replaced", "unchanged": "already saved:"}
    header = memory.header
    out.line(f"{words[action]} ", Styled(header.name, "cyan"), f" ({header.kind}, {header.scope})")
    out.line(Styled(f"  {store.root / header.file}", "dim"))
    for at in dating.done if action != "unchanged" else []:
        out.line(f"  {at.was} -> {at.now_text}")


# --- remembering ---
# `remember`: keep what somebody says, in their own words; memdir names, types and merges it.

VERB = "remember"
_ACTIONS = {"create": "created", "update": "updated", "unchanged": "unchanged"}
_REMEMBERING_EXAMPLES = (
    "memdir remember we deploy on Tuesdays only, because support is there then",
    'memdir remember --type user "I am new to React but know Go well"',
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a text came to: the memory it is in now, what was done, the change, and its text before and now, as shown."""

    memory: Memory
    action: str
    change: int | None
    before: str | None
    now: str = ""


@click.command(
    "remember", short_help="Remember what you say, in your own words.", cls=CliVerb, examples=_REMEMBERING_EXAMPLES
)
@click.argument("words", nargs=-1, required=True, metavar="TEXT...")
@click.option("--type", "kind", type=click.Choice(KINDS), help="What sort of thing it is; guessed if not given.")
@click.option("--name", help="The new file's name without .md; made from the text if not given.")
@click.option("--scope", type=click.Choice(SCOPES), default="private", show_default=True, help=SCOPE_HELP)
@click.option("--pin", "pinned", is_flag=True, help="Keep it first when the index must be cut.")
@json_option
@click.pass_obj
def remember_verb(
    call: CliContext,
    words: tuple[str, ...],
    kind: str | None,
    name: str | None,
    scope: str,
    pinned: bool,
    as_json: bool,
) -> None:
    """Remember what you say; - reads standard input. Dates become absolute, and type, title and description are made.

    If a memory says something else about the same thing, its sentence is replaced and the difference shown; `memdir
    undo` takes that back. With --name it is a memory of its own.
    """
    text = " ".join(words) if words != ("-",) else read_body("-")
    opened = call.open_to_write()
    now = opened.now().astimezone()
    if is_forgetting(text, now=now):
        raise FormatError(
            "that asks to forget something",
            field="body",
            hint="`memdir forget NAME` does it, `memdir list` has the names",
        )
    store = choose_store(opened, scope)
    draft = compose_memory(text, now=now, kind=None if kind is None else Kind(kind), secrets=True)
    draft = replace(draft, name=None if name is None else name.removesuffix(".md"), pinned=True if pinned else None)
    if draft.name is not None:
        draft = place_draft(store, draft, scope)
    kept = _keep(call, store, draft, text, team=scope == Scope.TEAM.value)
    _remembering_report(call, opened, store, draft, kept, text, as_json=as_json)


def _keep(call: CliContext, store: FileStore, draft: Draft, text: str, *, team: bool) -> _Kept:
    staging = Staging(store, now=store.clock())
    name, action = _stage(staging, draft, text, team=team)
    if draft.pinned:
        staging.write(name, frontmatter.set_fields(staging.read(name), {"pinned": "true"}))
    before = next((at.before for at in staging.staged), None)
    if action == "unchanged" and staging.staged:
        action = "updated"  # it was not pinned
    changed = store.change(make_edits(staging.staged), verb=VERB, origin=call.origin())
    return _Kept(store.read(name), action, changed.change, before)


def _stage(staging: Staging, draft: Draft, text: str, *, team: bool) -> tuple[str, str]:
    if draft.name is not None:
        if staging.read_bytes(f"{draft.name}.md") is not None:
            raise ConflictError(
                f"{draft.name} exists already", hint="leave out --name to merge, or use `memdir save --replace`"
            )
        return staging.save(draft), "created"
    wish = MemoryRequest(RequestCategory.REQUEST, "save", draft.kind, draft.title, draft.description, draft.body, text)
    (placed,) = place(wish, staging, team=team)
    return placed.name, _ACTIONS[placed.action]


def _remembering_report(
    call: CliContext, opened: Project, store: FileStore, draft: Draft, kept: _Kept, text: str, *, as_json: bool
) -> None:
    dating = DateResolver(draft.kind, opened.now().astimezone())
    dating.apply(text)
    name = kept.memory.header.name
    fill = measure_store_index(store, name)
    warnings = [*find_warnings(draft, name, opened.places.root.path, opened.environment), *warn_of_fill(fill)]
    warnings += warn_of_team(store, kept.memory.header.scope)
    if holds_secret(text) and not any("secret" in at for at in warnings):
        warnings.append("this looks like a number that opens something; say where it is kept instead")
    if as_json:
        row = make_row(kept.memory.header, store) | {"action": kept.action, "change": kept.change, "dates": dating.rows}
        call.out.json(row | {"warnings": warnings, "index": make_fill_row(fill)})
    else:
        before, after = (mask_secrets(at or "", opened.environment) for at in (kept.before, kept.memory.text))
        _remembering_show(
            call.out, replace(kept, before=None if kept.before is None else before, now=after), store, dating
        )
    for warning in warnings:
        call.out.warn(warning)


def _remembering_show(out: Output, kept: _Kept, store: FileStore, dating: DateResolver) -> None:
    words = {"created": "saved", "updated": "updated", "unchanged": "already known:"}
    header = kept.memory.header
    out.line(f"{words[kept.action]} ", Styled(header.name, "cyan"), f" ({header.kind}, {header.scope})")
    out.line(Styled(f"  {store.root / header.file}", "dim"))
    if kept.action == "created":
        out.line(f"  {header.description}")
        for at in dating.done:
            out.line(f"  {at.was} -> {at.now_text}")
    if kept.action == "updated" and kept.before is not None:
        out.diff(shorten_diff(render_text_diff(kept.before, kept.now, header.file, f"{header.file} (now)")))


# --- changing ---
# `edit` and `pin`: change a memory that exists.

Changes = dict[str, str | None]


@click.command(
    "edit",
    short_help="Change a memory, in an editor or without.",
    cls=CliVerb,
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
def edit_verb(call: CliContext, /, name: str, scope: str | None, as_json: bool, **changes: str | None) -> None:
    """Change a memory: in $VISUAL or $EDITOR, or with the options without any editor.

    If somebody else changed it meanwhile, nothing is written. A text from the editor that cannot be saved is kept, and
    the error says where.
    """
    opened = call.open_to_write()
    store, header = find_memory(opened, name, scope)
    before = store.read(header.name)
    dating = DateResolver(Kind(changes["kind"]) if changes["kind"] else before.header.kind, opened.now().astimezone())
    if any(value is not None for value in changes.values()):
        draft = _make_draft(before, changes, dating)
        after = store.write(draft, expect=before.digest, origin=call.origin())
    else:
        after = _edit_in_editor(call, opened, store, before)
    changed = after.digest != before.digest
    warnings = warn_of_secrets(after.text, header.file, opened.environment) if changed else []
    _changing_report(call, store, before, after, dating, warnings, as_json=as_json)
    for warning in warnings:
        call.out.warn(warning)


@click.command(
    "pin",
    short_help="Keep a memory first; --off lets it go.",
    cls=CliVerb,
    examples=("memdir pin terse-replies", "memdir pin terse-replies --off"),
)
@name_argument()
@click.option("--off", is_flag=True, help="Take the pin off.")
@scope_option
@json_option
@click.pass_obj
def pin_verb(call: CliContext, name: str, off: bool, scope: str | None, as_json: bool) -> None:
    """Pin a memory: it comes first when an index must be cut, and no dream touches it."""
    store, header = find_memory(call.open_to_write(), name, scope)
    before = store.read(header.name)
    after = store.pin(header.name, pinned=not off, origin=call.origin())
    _changing_report(call, store, before, after, None, [], as_json=as_json)


def _make_draft(memory: Memory, changes: Changes, dating: DateResolver) -> Draft:
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


def _edit_in_editor(call: CliContext, opened: Project, store: FileStore, memory: Memory) -> Memory:
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


def _run_editor(call: CliContext, editor: list[str], path: Path) -> None:
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


def _changing_report(
    call: CliContext,
    store: FileStore,
    before: Memory,
    after: Memory,
    dating: DateResolver | None,
    warnings: list[str],
    *,
    as_json: bool,
) -> None:
    header = after.header
    action = "unchanged" if after.digest == before.digest else "changed"
    if as_json:
        change = store.changes(header.name, limit=1)[0].id if action == "changed" else None
        row = make_row(header, store) | {"action": action, "change": change, "dates": dating.rows if dating else []}
        call.out.json(row | {"warnings": warnings})
        return
    pin = {(False, True): "pinned", (True, False): "unpinned"}.get((before.header.pinned, header.pinned))
    verb = "nothing to change in" if action == "unchanged" else pin or "changed"
    call.out.line(f"{verb} ", Styled(header.name, "cyan"))
    for at in dating.done if dating else []:
        call.out.line(f"  {at.was} -> {at.now_text}")


# --- forgetting ---
# `forget`: take a memory away, or wipe every trace of it.

UNREACHED = (
    "what your daily logs say, copies that git has committed or pushed, a host's transcripts, notes of sessions,"
    " histories of other projects that it was promoted from, and backups"
)


@click.command(
    "forget",
    short_help="Forget a memory; --purge wipes every trace.",
    cls=CliVerb,
    examples=("memdir forget terse-replies", "memdir forget terse-replies --purge --yes"),
)
@name_argument()
@click.option(
    "--purge", is_flag=True, help="Also out of history and every other file of memdir's own. Cannot be undone."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@scope_option
@json_option
@click.pass_obj
def forget_verb(call: CliContext, name: str, purge: bool, yes: bool, scope: str | None, as_json: bool) -> None:
    """Forget a memory: its file and its index line go, history keeps them, and `memdir undo` brings them back.

    It works while memory is switched off, too.
    """
    opened = call.open()
    store, found = find_past(opened, name, scope)
    if purge:
        _confirm(found, yes=yes)
        _purge(call, opened, store, found, as_json=as_json)
        return
    store.delete(found, origin=call.origin())
    change = store.changes(found, limit=1)[0].id
    if as_json:
        call.out.json(_make_row(store, found, change=change))
        return
    call.out.line("forgot ", Styled(found, "cyan"), f"; `memdir undo{scope_flag(store)} {change}` brings it back")


def _confirm(name: str, *, yes: bool) -> None:
    if yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError("--purge cannot be undone and nobody can be asked here; say --yes")
    click.confirm(f"Wipe every trace of {name!r}? This cannot be undone.", abort=True, err=True)


def _purge(call: CliContext, opened: Project, store: FileStore, name: str, *, as_json: bool) -> None:
    traces = find_traces(opened, store, name)
    count = store.purge(name) + sum(other.purge(was) for other, was in traces)
    for at, was in ((store, name), *traces):
        drop_edits(call.environment, at.root, was)
    if as_json:
        call.out.json(_make_row(store, name) | {"purged": True, "changes_cleaned": count, "unreached": UNREACHED})
        return
    changes = "1 change" if count == 1 else f"{count} changes"
    call.out.line("purged ", Styled(name, "cyan"), f" from the directory and from {changes} of its history")
    call.out.line(f"memdir cannot reach {UNREACHED}")


def _make_row(store: FileStore, name: str, *, change: int | None = None) -> dict[str, Any]:
    row = {"name": name, "scope": name_scope(store, name), "change": change}
    return row | {"purged": False, "changes_cleaned": 0, "unreached": None}


# --- promoting ---
# `promote` and `demote`: move a memory to where others share it, or where all projects have it, and back.

_UP = (Scope.TEAM.value, Scope.USER.value, Scope.PROJECT.value)
_named = click.option("--name", "named", metavar="NEW", help="Call it this there; its own name if not given.")


@click.command(
    "promote",
    short_help="Share a memory with the team or with all your projects.",
    cls=CliVerb,
    examples=("memdir promote deploy-days", "memdir promote terse-replies --to user"),
)
@name_argument()
@click.option(
    "--to",
    type=click.Choice(_UP),
    default=Scope.TEAM.value,
    show_default=True,
    help="The team's memory, yours for all projects, or .claude/memory of the repository.",
)
@_named
@scope_option
@json_option
@click.pass_obj
def promote_verb(call: CliContext, name: str, to: str, named: str | None, scope: str | None, as_json: bool) -> None:
    """Move a memory to where more can use it. Its bytes and its index line go along, and history keeps both ends.

    Refused: a user memory and anything with a secret for a team, a project or reference memory for all projects, a
    description that says nothing, and a name that is taken there. Nothing is committed or pushed by it.
    """
    _move(call, name, Scope(to), named, scope, "promote", as_json=as_json)


@click.command(
    "demote",
    short_help="Take a shared memory back to yourself.",
    cls=CliVerb,
    examples=("memdir demote team/deploy-days", "memdir demote terse-replies --scope user"),
)
@name_argument()
@click.option(
    "--to",
    type=click.Choice((Scope.PRIVATE.value,)),
    default=Scope.PRIVATE.value,
    show_default=True,
    help="Your memory for this project.",
)
@_named
@scope_option
@json_option
@click.pass_obj
def demote_verb(call: CliContext, name: str, to: str, named: str | None, scope: str | None, as_json: bool) -> None:
    """Move a memory of the team, or of all your projects, to your own memory for this project.

    With the next sync it is gone for the team too; what others have committed or copied stays theirs.
    """
    _move(call, name, Scope(to), named, scope, "demote", as_json=as_json)


def _move(
    call: CliContext, name: str, to: Scope, named: str | None, scope: str | None, verb: str, *, as_json: bool
) -> None:
    opened = call.open_to_write()
    store, header = _find(opened, name, scope, to)
    moved = move(
        opened, store, header.name, to, verb=verb, origin=call.origin(), named=(named or "").removesuffix(".md")
    )
    warnings = warn_of_team(moved.store, moved.memory.header.scope)
    if to in (Scope.PRIVATE, Scope.USER):
        warnings += warn_of_secrets(moved.memory.text, moved.memory.header.file, opened.environment)
    if as_json:
        call.out.json(make_row(moved.memory.header, moved.store) | _make_facts(moved, header, verb, warnings))
    else:
        _promoting_show(call, moved, header, verb)
    for warning in warnings:
        call.out.warn(warning)


def _find(opened: Project, name: str, scope: str | None, to: Scope) -> tuple[FileStore, Header]:
    """The memory meant; one that is where it should go is not, if another scope has that name: a move was cut short."""
    found = find_memory(opened, name, scope)
    if scope is not None or found[1].scope is not to:
        return found
    for other in (at for at in SCOPES if at != to.value):
        try:
            return find_memory(opened, name, other)
        except (NotFoundError, SettingsError):
            continue
    return found


def _make_facts(moved: MoveResult, header: Header, verb: str, warnings: list[str]) -> dict[str, Any]:
    return {
        "action": f"{verb}d",
        "was": {"name": header.name, "scope": header.scope.value},
        "change": moved.change,
        "source_change": moved.source_change,
        "undo": _list_undos(moved),
        "warnings": warnings,
    }


def _list_undos(moved: MoveResult) -> list[str]:
    """What takes the move back; the old place first, so that the memory is never nowhere."""
    pairs = ((moved.source, moved.source_change), (moved.store, moved.change))
    return [f"memdir undo{scope_flag(store)} {change}" for store, change in pairs if change is not None]


def _promoting_show(call: CliContext, moved: MoveResult, header: Header, verb: str) -> None:
    now = moved.memory.header
    call.out.line(f"{verb}d ", Styled(header.name, "cyan"), f" ({header.scope}) to ", Styled(now.name, "cyan"))
    call.out.line(Styled(f"  {moved.store.root / now.file}", "dim"))
    undos = [f"`{undo}`" for undo in _list_undos(moved)]
    verb = "takes" if len(undos) == 1 else "take"
    call.out.line(f"  {' and then '.join(undos)} {verb} it back")


# --- daybook ---
# `log`: append to today's log, read one, list them.

_COLUMNS = (
    TableColumn("DAY", "bold"),
    TableColumn("BYTES"),
    TableColumn("DREAM", "yellow"),
    TableColumn("FILE", "dim", is_cut=True),
)


class LogGroup(VerbGroup):
    """What is no verb of its own is the text of an entry; without a word it shows today's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_verb = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if not ctx.resilient_parsing and not is_verb:
            args = ["add", *args] if args else ["show"]
        return super().parse_args(ctx, args)


def complete_days(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Days that have a log, for the shell; whatever is wrong, it offers nothing and stays quiet."""
    # Imported here: only a shell that completes asks for it.
    from click.shell_completion import CompletionItem

    root = ctx.find_root()
    call = root.obj if isinstance(root.obj, CliContext) else CliContext()
    try:
        call.prepare(root.params.get("directory"), "never")
        days = [log.day.isoformat() for log in list_logs(call.open().private)]
    except (MemdirError, OSError):
        return []
    return [CompletionItem(day) for day in reversed(days) if day.startswith(incomplete)]


@click.group("log", no_args_is_help=False, short_help="Append to the log of the day, and read it.", cls=LogGroup)
def log_verb() -> None:
    """Keep a log, one file a day: `memdir log TEXT` appends an entry to today's, `memdir log` shows it.

    Logs are only appended to. The dream turns them into memories; until then no memory is made of them, and what stands
    in them is never changed by memdir.
    """


@log_verb.command("add", examples=("memdir log add 'the release is out'", "memdir log add - < report.txt"))
@click.argument("words", metavar="TEXT|-", nargs=-1, required=True)
@json_option
@click.pass_obj
def _add(call: CliContext, words: tuple[str, ...], as_json: bool) -> None:
    """Append an entry to today's log; `-` reads it from standard input. `memdir log TEXT` does the same."""
    opened = call.open_to_write()
    now = opened.now()
    text = read_body(" ".join(words))
    log = append_log(opened.private, text, now=now)
    if as_json:
        path = str(opened.private.root / log.path)
        call.out.json({"day": log.day.isoformat(), "at": make_time(now), "path": path, "bytes": log.size})
    else:
        call.out.line("logged in ", Styled(log.path, "cyan"))
    for warning in warn_of_secrets(text, "the entry", opened.environment):
        call.out.warn(warning)


@log_verb.command("show", examples=("memdir log show", "memdir log show 2026-03-05", "memdir log show yesterday"))
@click.argument("day", metavar="[DAY]", required=False, shell_complete=complete_days)
@json_option
@click.pass_obj
def _daybook_show(call: CliContext, day: str | None, as_json: bool) -> None:
    """Print the log of a day: YYYY-MM-DD, today (the default) or yesterday."""
    opened = call.open()
    wanted = _parse_day(day or "today", opened.now().astimezone().date())
    text = read_log(opened.private, wanted)
    if as_json:
        path = str(opened.private.root / make_path(wanted))
        call.out.json({"day": wanted.isoformat(), "path": path, "text": text})
        return
    call.out.block(text)


@log_verb.command("list", examples=("memdir log list", "memdir log list --json"))
@json_option
@click.pass_obj
def _list(call: CliContext, as_json: bool) -> None:
    """List the days that have a log, newest first.

    In a pipe: day, bytes, `waits` if a dream has not read all of it yet, path, with tabs between.
    """
    store = call.open().private
    waiting = {at.day for at in list_undistilled(store)}
    logs = tuple(reversed(list_logs(store)))
    if as_json:
        call.out.json(
            [
                {
                    "day": log.day.isoformat(),
                    "path": str(store.root / log.path),
                    "bytes": log.size,
                    "distilled": log.day not in waiting,
                }
                for log in logs
            ]
        )
    elif logs:
        rows = [[log.day.isoformat(), str(log.size), "waits" if log.day in waiting else "", log.path] for log in logs]
        call.out.table(_COLUMNS, rows)
    elif call.out.is_table:
        call.out.line("there is no log yet; `memdir log TEXT` begins one")


def _parse_day(text: str, today: date) -> date:
    if text in ("today", "yesterday"):
        return today if text == "today" else today - timedelta(days=1)
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no day; write it as {today.isoformat()}") from None
