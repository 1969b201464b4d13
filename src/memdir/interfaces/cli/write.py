"""`save`, `remember`, `edit`, `pin` and `forget`: everything that writes memories."""

import shlex
import subprocess
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, SettingsError
from memdir.format.frontmatter import HOW, WHY, compose_body, decode, digest_of, find_missing_parts, make_slug
from memdir.format.index import INDEX_FILE, IndexFill, measure_index
from memdir.frozen import replace
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
    name_scope,
    scope_flag,
)
from memdir.interfaces.cli.app import KINDS, json_option, name_argument, scope_option, verb
from memdir.interfaces.derivable import find_derivable
from memdir.operations.find import find_memory, find_past
from memdir.records import TEAM_FOLDER, Draft, Kind, Scope, StoredMemory
from memdir.store.contract import find_existing, find_free_name, preview_text
from memdir.store.files import FileStore
from memdir.store.move import find_traces
from memdir.store.open import AgentScope, Project, find_agent_directory, open_agent_store
from memdir.store.plan import index_path, is_team, resolve_dates
from memdir.store.state import OWN_COPY, drop_copy, drop_edits, find_own_sync, open_edit
from memdir.text import fold

if TYPE_CHECKING:
    from memdir.extraction.find import MemoryRequest

UNREACHED = (
    "what your daily logs say, copies that git has committed or pushed, a host's transcripts, notes of sessions,"
    " histories of other projects that it was promoted from, and backups"
)
_SCANNED_LINES = 1_000  # of an index: with more, looking at every memory takes longer than the save itself


def _resolve_dates(draft: Draft, now: datetime, old: str = "") -> tuple[Draft, list[Row]]:
    """The draft as the store would date it, and what was replaced."""
    dated, replaced = resolve_dates(draft, now.astimezone(), old)
    return dated, [{"was": at.was, "now": at.now_text} for at in replaced]


def _render_dates(rows: Sequence[Row]) -> list[str]:
    return [f"  {at['was']} -> {at['now']}" for at in rows]


# `save` and `remember`.


@verb(
    "save", "Save a memory field by field; `remember` takes plain words.",
    "memdir save --type feedback --name terse-replies --description 'No summary at the end of a reply' \\\n"
    "  --body 'Leave out the closing summary.' --why 'The diff is read anyway.' --how 'In every reply.'",
    "memdir save --type reference --title 'Bug tracker' \\\n"
    "  --description 'Where bugs of the billing service are tracked' --body - < tracker.txt",
)  # fmt: skip
@click.option("--type", "kind", type=click.Choice(KINDS), required=True, help="What sort of thing it is.")
@click.option("--name", help="The file's name without .md: letters, digits, - and _. Made from --title if not given.")
@click.option("--title", help="The title; the name if not given.")
@click.option("--description", required=True, help="One line that says when this matters; recall judges by it.")
@click.option("--body", required=True, metavar="TEXT|-", help="What is to be remembered; - reads standard input.")
@click.option("--why", help="Why it is so; becomes the Why part of the body.")
@click.option("--how", help="When and how to apply it; becomes the How part of the body.")
@click.option(
    "--scope", type=click.Choice((*app.SCOPES, AgentScope.LOCAL.value)),
    help=f"{app.SCOPE_HELP} Private if not given. With --agent: user, project or local.",
)  # fmt: skip
@click.option("--agent", metavar="NAME", help="Into this agent's own memory, by its definition or by --scope.")
@click.option("--cue", "cues", multiple=True, help="A task or question for which it should come up; up to five times.")
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
    cues: tuple[str, ...],
    pinned: bool,
    is_new: bool,
    is_replacing: bool,
    as_json: bool,
) -> None:
    """Save one memory. A name that exists is refused with the difference; --replace or --new then decide.

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
    if agent is None and scope == AgentScope.LOCAL:
        raise click.UsageError("--scope local is for an agent's memory: say --agent NAME")
    if agent is not None and scope not in (None, *(at.value for at in AgentScope)):
        raise click.UsageError("an agent's memory has the scope user, project or local")
    project = call.open_to_write()
    text = compose_body(app.read_body(body), why, how)
    draft = Draft(Kind(kind), shown_title, description, text, name, True if pinned else None, cues or None)
    draft, dates = _resolve_dates(draft, project.now())
    if agent is None:
        store = choose_store(project, scope)
        draft = _place_draft(store, draft, scope)
    else:
        own, _ = find_agent_directory(project, agent, None if scope is None else AgentScope(scope))
        store = open_agent_store(project, own)
    memory, action = _save(call, store, draft, is_new=is_new, is_replacing=is_replacing, as_json=as_json)
    last = store.changes(memory.header.name, limit=1) if as_json and action != "unchanged" else ()
    lines, change = [] if action == "unchanged" else _render_dates(dates), last[0].id if last else None
    warnings = _find_warnings(project, store, draft, memory)
    done = {"action": action, "change": change, "dates": dates, "warnings": warnings}
    _report_saved(call, store, memory, done, lines, same="already saved:", as_json=as_json)


def _save(
    call: CliContext, store: FileStore, draft: Draft, *, is_new: bool, is_replacing: bool, as_json: bool
) -> tuple[StoredMemory, str]:
    """Returns the memory and what was done; a taken name is refused, unless its memory is the very same."""
    existing = find_existing(store, draft) if is_replacing else None
    if existing is not None:
        # Its own name: a title alone could by now lead to another file.
        memory = store.write(replace(draft, name=existing.header.name), expect=existing.digest, origin=call.origin())
        return memory, "unchanged" if memory.digest == existing.digest else "replaced"
    if is_replacing:
        wanted = draft.name or draft.title
        hint = "save it without --replace"
        raise NotFoundError(f"there is no memory {wanted} to replace", name=wanted, hint=hint)
    if is_new:
        draft = replace(draft, name=find_free_name(store, draft))
    try:
        return store.write(draft, origin=call.origin()), "created"
    except ConflictError:
        existing = find_existing(store, draft)
        if existing is None:
            raise
        name = existing.header.name
        new = preview_text(store, replace(draft, name=name), existing, store.clock())
        if new == existing.text:
            return existing, "unchanged"
    if not as_json:
        call.out.diff(_render_diff(call, existing.text, new, f"{name}.md", "yours"))
    hint = "--replace puts this in its place, --new saves it beside it under another name"
    raise ConflictError(f"{name} exists already and says something else", found=existing.digest, hint=hint)


@verb(
    "remember", "Save what you say in your own words; `save` takes each field.",
    "memdir remember we deploy on Tuesdays only, because support is there then",
    'memdir remember --type user "I am new to React but know Go well"',
)  # fmt: skip
@click.argument("words", nargs=-1, required=True, metavar="TEXT...")
@click.option("--type", "kind", type=click.Choice(KINDS), help="What sort of thing it is; guessed if not given.")
@click.option("--name", help="The new file's name without .md; made from the text if not given.")
@click.option("--scope", type=click.Choice(app.SCOPES), default="private", show_default=True, help=app.SCOPE_HELP)
@click.option("--pin", is_flag=True, help="Keep it first when the index must be cut.")
@json_option
@click.pass_obj
def remember_verb(
    call: CliContext, words: tuple[str, ...], kind: str | None, name: str | None, scope: str, pin: bool, as_json: bool
) -> None:
    """Remember what you say, as you say it; - reads standard input. Type, title and description are taken from it.

    What adds to a memory goes into it, and a correction ("no, …", "instead of …") replaces its sentence; the difference
    is shown, and `memdir undo` takes it back. If a memory says something else, both are kept and you are told. "Forget
    the deploy day" forgets the one memory that is about it. With --name it is a memory of its own.
    """
    # Imported here: `save` and `edit` need none of it.
    from memdir.extraction.find import compose_memory, find_forgetting, holds_secret
    from memdir.extraction.merge import keep_draft

    text = " ".join(words) if words != ("-",) else app.read_body("-")
    project = call.open_to_write()
    now = project.now().astimezone()
    store = choose_store(project, scope)
    if wanted := find_forgetting(text, now=now):
        return _forget_said(call, store, wanted, as_json=as_json)
    draft = compose_memory(text, now=now, kind=None if kind is None else Kind(kind), secrets=True)
    draft = replace(draft, name=None if name is None else name.removesuffix(".md"), pinned=True if pin else None)
    if draft.name is not None:
        draft = _place_draft(store, draft, scope)
    done = keep_draft(store, draft, text, team=scope == Scope.TEAM.value, origin=call.origin())
    memory, action = done.memory, done.action
    _, dates = _resolve_dates(replace(draft, description="", body=text), now)
    warnings = _find_warnings(project, store, draft, memory, parts=False)
    warnings += _warn_of_rival(call, store, memory, draft) if action == "created" else []
    if holds_secret(text) and not any("secret" in at for at in warnings):
        warnings.append("this looks like a number that opens something; say where it is kept instead")
    said = app.mask_secrets(memory.body.strip(), call.environment).splitlines()
    lines = [*(f"  {line}" for line in said), *_render_dates(dates)] if action == "created" else []
    if action == "updated" and done.before is not None and not as_json:
        lines = _render_diff(call, done.before, memory.text, memory.header.file, "now")
    row = {"action": action, "change": done.change, "dates": dates, "warnings": warnings}
    _report_saved(call, store, memory, row, lines, same="nothing new, already in", as_json=as_json)


def _forget_said(call: CliContext, store: FileStore, wanted: "MemoryRequest", *, as_json: bool) -> None:
    """Forget what the words are about: a memory, or its sentences on that subject."""
    from memdir.extraction.merge import place
    from memdir.models.staged import Staging, make_edits

    staging = Staging(store, now=store.clock())
    (placed,) = place(wanted, staging)
    if not staging.staged:
        hint = "`memdir forget NAME` removes one, `memdir list` has the names"
        raise NotFoundError("no memory is clearly about that, or more than one is", name=wanted.target, hint=hint)
    before = store.read(placed.name)
    change = store.change(make_edits(staging.staged), verb="forget", origin=call.origin()).change
    row: Row = {"action": "forgotten", "change": change, "dates": [], "warnings": []}
    lines = [f"  `memdir undo{scope_flag(store)} {change}` brings it back"]
    if placed.action == "update":
        row["action"], after = "updated", store.read(placed.name)
        lines = _render_diff(call, before.text, after.text, after.header.file, "now")
    _report_saved(call, store, before, row, lines, same="", as_json=as_json)


def _warn_of_rival(call: CliContext, store: FileStore, memory: StoredMemory, draft: Draft) -> list[str]:
    """What another memory says instead, since when, and how to take it out."""
    from memdir.extraction.merge import find_rival
    from memdir.models.staged import Staging

    name = memory.header.name
    rival = find_rival(draft.body, name, Staging(store, now=store.clock()))
    if rival is None:
        return []
    other, said = rival[0], app.mask_secrets(rival[1], call.environment)
    times = [change.at for change in store.changes(other, limit=1)] or [store.read(other).header.modified]
    since = times[0].astimezone().date().isoformat()
    return [
        f'"{said}" is there since {since} ({other}); to replace it: `memdir forget {other}`, or `memdir edit {other}`'
    ]


def _place_draft(store: FileStore, draft: Draft, scope: str | None) -> Draft:
    """The draft with a name in the folder of its scope; two titles that make one name never meet there."""
    if scope != Scope.TEAM.value:
        return draft
    named = replace(draft, name=f"{TEAM_FOLDER}/{draft.name or make_slug(draft.title)}")
    if draft.name is not None:
        return draft if is_team(draft.name) else named
    existing = find_existing(store, named)
    if existing is None or fold(existing.header.title) == fold(draft.title):
        return named
    return replace(named, name=find_free_name(store, named))


def _report_saved(
    call: CliContext,
    store: FileStore,
    memory: StoredMemory,
    done: Row,
    lines: Sequence[str],
    *,
    same: str,
    as_json: bool,
) -> None:
    header, out = memory.header, call.out
    if as_json:
        used = _measure_index(store, header.name)
        index = fill("lines bytes", used, share=round(used.share, 4))
        out.json(describe_memory(store, header) | done | {"index": index})
    else:
        action = {"created": "saved", "unchanged": same}.get(done["action"], done["action"])
        out.line(f"{action} ", Styled(header.name, "cyan"), f" ({header.kind}, {header.scope})")
        out.line(Styled(f"  {store.root / header.file}", "dim"))
        out.diff(lines)
    for warning in done["warnings"]:
        out.warn(warning)


def _render_diff(call: CliContext, before: str, after: str, file: str, which: str) -> list[str]:
    old, new = (app.mask_secrets(text, call.environment) for text in (before, after))
    return cli.shorten_diff(cli.render_text_diff(old, new, file, f"{file} ({which})"))


def _find_warnings(
    project: Project, store: FileStore, draft: Draft, memory: StoredMemory, *, parts: bool = True
) -> list[str]:
    """Secrets in a memory, missing parts, what could be looked up in the project instead, and a full index."""
    name = memory.header.name
    texts = {"the title": draft.title, "the description": draft.description, "the body": draft.body}
    warnings = app.warn_of_secrets(texts, project.environment)
    missing = find_missing_parts(draft.kind, draft.body) if parts else ()
    if missing:
        options = {WHY: "--why TEXT", HOW: "--how TEXT"}
        adding = " ".join((f"memdir edit {name}", *(options[part] for part in missing)))
        warnings.append(f"a {draft.kind} memory should also say {' and '.join(missing)}; `{adding}` adds it")
    for reason in find_derivable(f"{draft.description}\n\n{draft.body}", project.places.root.path, timeout=2.0):
        warnings.append(f"{reason.what} ({reason.source}); remember what was surprising about it instead")
    used = _measure_index(store, name)
    if used.is_high:
        advice = f": {'; '.join(used.proposals)}" if used.proposals else ""
        warnings.append(f"the index is {used.share:.0%} full ({used.lines} lines, {used.bytes:,} bytes){advice}")
    return warnings + app.warn_of_team(store, memory.header.scope)


def _measure_index(store: FileStore, name: str) -> IndexFill:
    """How full the index is that points to this memory. Of a very long one no memory to forget is named."""
    text = store.index(index_path(name)[0].removesuffix(INDEX_FILE).rstrip("/"))
    return measure_index(text, store.scan() if text.count("\n") < _SCANNED_LINES else ())


# `edit` and `pin`.


@verb(
    "edit", "Change one memory, in an editor or by options.",
    "memdir edit terse-replies", "memdir edit terse-replies --description 'No closing summary in a reply'",
)  # fmt: skip
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
    project = call.open_to_write()
    store, header = find_memory(choose_stores(project, scope), name, scope=scope)
    before = store.read(header.name)
    header = before.header
    kind, dates = Kind(changes["kind"]) if changes["kind"] else header.kind, list[Row]()
    if any(value is not None for value in changes.values()):
        if kind is None:
            raise FormatError("this memory has no type", field="type", hint="give one with --type")
        title, description, body, why, how = (changes[key] for key in ("title", "description", "body", "why", "how"))
        draft = Draft(
            kind,
            header.title if title is None else title,
            header.description if description is None else description,
            compose_body(before.body if body is None else app.read_body(body), why, how),
            header.name,
        )
        draft, dates = _resolve_dates(draft, project.now(), before.text)
        after = store.write(draft, expect=before.digest, origin=call.origin())
    else:
        after = _edit_in_editor(call, project, store, before)
    _report_edit(call, store, before, after, dates, as_json=as_json)


@verb(
    "pin",
    "Keep a memory first in the index, and out of dreams.",
    "memdir pin terse-replies",
    "memdir pin terse-replies --off",
)
@name_argument()
@click.option("--off", is_flag=True, help="Take the pin off.")
@scope_option
@json_option
@click.pass_obj
def pin_verb(call: CliContext, name: str, off: bool, scope: str | None, as_json: bool) -> None:
    """Pin a memory: it comes first when an index must be cut, and no dream touches it."""
    stores = choose_stores(call.open_to_write(), scope)
    store, header = find_memory(stores, name, scope=scope)
    before = store.read(header.name)
    after = store.pin(header.name, pinned=not off, origin=call.origin())
    _report_edit(call, store, before, after, None, as_json=as_json)


def _edit_in_editor(call: CliContext, project: Project, store: FileStore, memory: StoredMemory) -> StoredMemory:
    command = project.environment.editor
    try:
        editor = shlex.split(command)
    except ValueError:
        raise SettingsError(f"EDITOR = {command!r} cannot be read as a command", key="EDITOR") from None
    if not editor:
        hint = "set VISUAL or EDITOR, or change it with --body, --description, --title, --type, --why or --how"
        raise SettingsError("no editor is set", key="EDITOR", hint=hint)
    name, data = memory.header.name, store.read_bytes(memory.header.file)
    if data is None:
        raise NotFoundError(f"{name} is gone", name=name)
    path = open_edit(project.environment, store.root, name, data)
    environment = None if call.variables is None else dict(call.variables)
    try:
        try:
            ended = subprocess.run([*editor, str(path)], env=environment, check=False)
        except OSError as error:
            reason = (error.strerror or "it cannot be started").lower()
            raise SettingsError(f"the editor {editor[0]} failed: {reason}", key="EDITOR", hint="set EDITOR") from error
        if ended.returncode:
            what = f"the editor {editor[0]} ended with {ended.returncode}"
            raise SettingsError(what, key="EDITOR", hint="nothing was changed")
        edited = path.read_bytes()
        if edited != data:
            memory = store.edit(name, decode(edited), expect=digest_of(data), origin=call.origin())
    except MemdirError as error:
        if path.exists() and path.read_bytes() != data:
            kept = f"your text is kept in {path}"
            error.hint = f"{error.hint}; {kept}" if error.hint else kept
        else:
            path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)
    return memory


def _report_edit(
    call: CliContext,
    store: FileStore,
    before: StoredMemory,
    after: StoredMemory,
    dates: list[Row] | None,
    *,
    as_json: bool,
) -> None:
    """What was changed; without `dates` it was the pin alone, which brings in no text."""
    header, changed = after.header, after.digest != before.digest
    warnings = app.warn_of_secrets({header.file: after.text}, call.environment) if changed and dates is not None else []
    if as_json:
        change = store.changes(header.name, limit=1)[0].id if changed else None
        facts = {"action": "changed" if changed else "unchanged", "change": change, "warnings": warnings}
        call.out.json(describe_memory(store, header) | facts | {"dates": dates or []})
    else:
        pin = {(False, True): "pinned", (True, False): "unpinned"}.get((before.header.pinned, header.pinned))
        call.out.line(f"{pin or 'changed' if changed else 'nothing to change in'} ", Styled(header.name, "cyan"))
        for line in _render_dates(dates or ()):
            call.out.line(line)
    for warning in warnings:
        call.out.warn(warning)


# `forget`.


@verb(
    "forget", "Remove a memory of your choice; `undo` takes back a change.",
    "memdir forget terse-replies", "memdir forget terse-replies --purge --yes",
)  # fmt: skip
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
    project, out = call.open(), call.out
    store, found = find_past(choose_stores(project, scope), name, scope=scope)
    row: Row = {"name": found, "scope": name_scope(store, found), "change": None, "purged": purge}
    if purge:
        app.confirm(f"Wipe every trace of {found!r}? This cannot be undone.", "--purge cannot be undone", yes=yes)
        traces = find_traces(project, store, found)
        count = store.purge(found) + sum(other.purge(was) for other, was in traces)
        for at, was in ((store, found), *traces):
            drop_edits(call.environment, at.root, was)
        drop_copy(find_own_sync(call.environment), OWN_COPY)
    else:
        store.delete(found, origin=call.origin())
        count, row["change"] = 0, store.changes(found, limit=1)[0].id
    if as_json:
        out.json(row | {"changes_cleaned": count, "unreached": UNREACHED if purge else None})
    elif purge:
        changes = cli.count_words(count, "change")
        out.line("purged ", Styled(found, "cyan"), f" from the directory and from {changes} of its history")
        out.line(f"memdir cannot reach {UNREACHED}")
    else:
        undo = f"`memdir undo{scope_flag(store)} {row['change']}`"
        out.line("forgot ", Styled(found, "cyan"), f"; {undo} brings it back")
