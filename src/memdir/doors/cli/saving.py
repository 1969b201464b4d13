"""`save`: remember one thing."""

import click

from memdir.agent_places import AgentScope
from memdir.agents import find_place, open_agent_store
from memdir.doors.cli.call import Call, choose_store
from memdir.doors.cli.diffs import render_diff, shorten_diff
from memdir.doors.cli.incoming import (
    Dating,
    find_warnings,
    mask_secrets,
    measure_index,
    place_draft,
    read_body,
    warn_of_fill,
    warn_of_team,
)
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import make_fill_row, make_row
from memdir.doors.cli.verb import KINDS, SCOPE_HELP, SCOPES, Verb, json_option
from memdir.drafts import compose_body
from memdir.errors import ConflictError, NotFoundError
from memdir.frozen import replace
from memdir.opening import Opened
from memdir.records import Draft, Kind, Memory
from memdir.store.files import FileStore
from memdir.store.preview import find_existing, find_free_name, preview_text

_EXAMPLES = (
    "memdir save --type feedback --name terse-replies --description 'No summary at the end of a reply' \\\n"
    "  --body 'Leave out the closing summary.' --why 'The diff is read anyway.' --how 'In every reply.'",
    "memdir save --type reference --title 'Bug tracker' \\\n"
    "  --description 'Where bugs of the billing service are tracked' --body - < tracker.txt",
)


@click.command("save", short_help="Remember one thing.", cls=Verb, examples=_EXAMPLES)
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
    call: Call,
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
    dating = Dating(Kind(kind), opened.now().astimezone())
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


def _open_agent(opened: Opened, agent: str, scope: str | None) -> FileStore:
    place, _ = find_place(opened, agent, None if scope is None else AgentScope(scope))
    return open_agent_store(opened, place)


def _save(
    call: Call, store: FileStore, draft: Draft, *, is_new: bool, is_replacing: bool, as_json: bool
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


def _replace(call: Call, store: FileStore, draft: Draft) -> tuple[Memory, str]:
    existing = find_existing(store, draft)
    if existing is None:
        wanted = draft.name or draft.title
        raise NotFoundError(f"there is no memory {wanted} to replace", name=wanted, hint="save it without --replace")
    # Its own name: a title alone could by now lead to another file.
    memory = store.write(replace(draft, name=existing.header.name), expect=existing.digest, origin=call.origin())
    return memory, "unchanged" if memory.digest == existing.digest else "replaced"


def _refuse(call: Call, store: FileStore, draft: Draft, existing: Memory, *, as_json: bool) -> Memory:
    """Show what would change and refuse; the very same memory again is nothing to refuse."""
    name = existing.header.name
    new = preview_text(store, replace(draft, name=name), existing, store.clock())
    if new == existing.text:
        return existing
    if not as_json:
        old, mine = (mask_secrets(text, call.environment) for text in (existing.text, new))
        call.out.diff(shorten_diff(render_diff(old, mine, f"{name}.md", f"{name}.md (yours)")))
    raise ConflictError(
        f"{name} exists already and says something else",
        found=existing.digest,
        hint="--replace puts this in its place, --new saves it beside it under another name",
    )


def _report(
    call: Call,
    opened: Opened,
    store: FileStore,
    draft: Draft,
    memory: Memory,
    action: str,
    dating: Dating,
    *,
    as_json: bool,
) -> None:
    name = memory.header.name
    fill = measure_index(store, name)
    warnings = [*find_warnings(draft, name, opened.places.root.path, opened.environment), *warn_of_fill(fill)]
    warnings += warn_of_team(store, memory.header.scope)
    if as_json:
        last = store.acts(name, limit=1)
        act = last[0].id if last and action != "unchanged" else None
        row = make_row(memory.header, store) | {"action": action, "act": act, "dates": dating.rows}
        call.out.json(row | {"warnings": warnings, "index": make_fill_row(fill)})
    else:
        _show(call.out, memory, store, action, dating)
    for warning in warnings:
        call.out.warn(warning)


def _show(out: Output, memory: Memory, store: FileStore, action: str, dating: Dating) -> None:
    words = {"created": "saved", "replaced": "replaced", "unchanged": "already saved:"}
    header = memory.header
    out.line(f"{words[action]} ", Styled(header.name, "cyan"), f" ({header.kind}, {header.scope})")
    out.line(Styled(f"  {store.root / header.file}", "dim"))
    for at in dating.done if action != "unchanged" else []:
        out.line(f"  {at.was} -> {at.now_text}")
