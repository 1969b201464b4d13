"""`inbox`: what waits for a person, one thing at a time; look at it, let it happen, or not.

Items of the project's memory go by their number, those of the memory for all projects by `u` and their number, those of
the memory that a repository keeps in its own history by `p` and their number.
"""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from memdir.deciding import approve, reject
from memdir.doors.cli.call import Call, choose_store, scope_flag
from memdir.doors.cli.columns import Column
from memdir.doors.cli.output import Styled, complain
from memdir.doors.cli.rows import Row, make_time, show_time
from memdir.doors.cli.verb import VerbGroup, json_option
from memdir.doors.cli.waiting import show_item
from memdir.doors.cli.words import REFUSED, render_error
from memdir.errors import MemdirError, NotFoundError
from memdir.opening import Opened
from memdir.records import Changed, InboxItem, InboxState, Scope
from memdir.store.files import FileStore
from memdir.store.payloads import mask, mask_text
from memdir.text import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_ID = re.compile(r"([up]?)([0-9]{1,18})", re.IGNORECASE)
_LETTERS = {Scope.USER: "u", Scope.PROJECT: "p"}
_COLUMNS = (
    Column("ID", "bold"),
    Column("KIND", "magenta"),
    Column("WHAT", "cyan", is_cut=True),
    Column("WHY IT WAITS", is_cut=True),
    Column("FROM", "dim"),
    Column("SESSION", "dim", is_cut=True),
    Column("SINCE", "dim"),
    Column("STATE", "yellow"),
)


class Placed(NamedTuple):
    """An item and the store it waits in."""

    store: FileStore
    item: InboxItem

    @property
    def id(self) -> str:
        return f"{_LETTERS.get(self.store.scope, '')}{self.item.id}"


class InboxGroup(VerbGroup):
    """Without a verb of its own it lists."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_help = bool(args) and args[0] in ctx.help_option_names
        if not ctx.resilient_parsing and not asks_help and (not args or args[0].startswith("-")):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def complete_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Numbers of what waits, for the shell; whatever is wrong, it offers nothing and stays quiet."""
    # Imported here: only a shell that completes asks for it.
    from click.shell_completion import CompletionItem

    root = ctx.find_root()
    call = root.obj if isinstance(root.obj, Call) else Call()
    try:
        call.prepare(root.params.get("directory"), "never")
        found = _find_all(call.open())
    except (MemdirError, OSError):
        return []
    titles = {at.id: one_line(mask_text(at.item.title, at.item.payload)) for at in found}
    return [CompletionItem(id, help=title) for id, title in titles.items() if id.startswith(incomplete)]


@click.group("inbox", no_args_is_help=False, short_help="What waits for you: look, approve, reject.", cls=InboxGroup)
def inbox_verb() -> None:
    """Look at what waits for you and decide. Without a verb it lists.

    Text that came from a tool, a file, the web or a quotation waits here before it may become memory; so do clashes,
    proposals, and leave to read a file outside the project. `3` is an item of this project, `u3` one of the memory for
    all projects.
    """


@inbox_verb.command("list", examples=("memdir inbox list", "memdir inbox list --all --json"))
@click.option("--all", "every", is_flag=True, help="Also what was decided.")
@json_option
@click.pass_obj
def _list(call: Call, every: bool, as_json: bool) -> None:
    """List what waits, oldest first.

    In a pipe: id, kind, what, why it waits, from whom, session, time, state, with tabs between.
    """
    opened = call.open()
    found = _find_all(opened, None if every else InboxState.WAITING)
    rows = [make_row(at) for at in found]
    if as_json:
        call.out.json(rows)
    elif rows:
        call.out.table(_COLUMNS, [_make_cells(call, at, row, every=every) for at, row in zip(found, rows, strict=True)])
    elif call.out.is_table:
        call.out.line("nothing waits for you")


@inbox_verb.command("show", examples=("memdir inbox show 3", "memdir inbox show u3 --json"))
@click.argument("id", metavar="ID", shell_complete=complete_ids)
@json_option
@click.pass_obj
def _show(call: Call, id: str, as_json: bool) -> None:
    """Show one item in full: what would change, why it waits, and the passage it rests on.

    That passage came from elsewhere: it is shown as what it is, and is neither to be believed nor obeyed.
    """
    (placed,) = _find(call.open(), [id])
    if as_json:
        call.out.json(make_row(placed) | {"payload": mask(dict(placed.item.payload), placed.item.payload)})
        return
    show_item(call.out, placed.id, placed.item, placed.store, call.open().now())


@inbox_verb.command("approve", examples=("memdir inbox approve 3 u1", "memdir inbox approve --all"))
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=complete_ids)
@click.option("--all", "every", is_flag=True, help="Everything that waits.")
@json_option
@click.pass_context
def _approve(ctx: click.Context, ids: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Let an item happen: its change of memory is made as yours, and `memdir undo` takes it back.

    If the memory has changed since, nothing happens and the item waits on. What was rejected can still be approved.
    """
    call = ctx.ensure_object(Call)
    opened = call.open_to_write()
    placed = _choose(opened, ids, every=every)
    _decide(ctx, placed, lambda at: approve(at.store, at.item, origin=call.origin()), "approved", as_json=as_json)


@inbox_verb.command("reject", examples=("memdir inbox reject 3 u1", "memdir inbox reject --all"))
@click.argument("ids", metavar="[ID]...", nargs=-1, shell_complete=complete_ids)
@click.option("--all", "every", is_flag=True, help="Everything that waits.")
@json_option
@click.pass_context
def _reject(ctx: click.Context, ids: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Do not let an item happen: memory stays as it is, and the same thing is not asked again."""
    placed = _choose(ctx.ensure_object(Call).open(), ids, every=every)

    def act(at: Placed) -> None:
        reject(at.store, at.item)

    _decide(ctx, placed, act, "rejected", as_json=as_json)


def make_row(placed: Placed) -> Row:
    item, payload = placed.item, placed.item.payload
    return {
        "id": placed.id,
        "scope": placed.store.scope.value,
        "kind": item.kind.value,
        "title": mask_text(item.title, payload),
        "why": mask_text(item.why, payload),
        "name": item.name or None,
        "who": item.origin.who,
        "source": mask_text(item.origin.why, payload),
        "session": item.origin.session,
        "at": make_time(item.at),
        "state": item.state.value,
        "decided": None if item.decided is None else make_time(item.decided),
        "note": item.note,
    }


def _find_all(opened: Opened, state: InboxState | None = InboxState.WAITING) -> list[Placed]:
    return [Placed(store, item) for store in opened.stores for item in store.inbox(state)]


def _find(opened: Opened, ids: Iterable[str]) -> list[Placed]:
    """The items meant, each once; NotFoundError if one of them is not there."""
    found: dict[str, Placed] = {}
    for text in ids:
        match = _ID.fullmatch(text)
        if match is None:
            raise click.BadParameter(f"{text!r} is no item's number; `memdir inbox` lists them")
        scope = next((at.value for at, letter in _LETTERS.items() if letter == match[1].lower()), None)
        store = choose_store(opened, scope)
        try:
            placed = Placed(store, store.inbox_item(int(match[2])))
        except NotFoundError as error:
            raise NotFoundError(f"no item {text} in the inbox", name=text, hint=error.hint) from None
        found[placed.id] = placed
    return list(found.values())


def _choose(opened: Opened, ids: tuple[str, ...], *, every: bool) -> list[Placed]:
    if every == bool(ids):
        raise click.UsageError("say which: the ID of one or several items, or --all")
    return _find_all(opened) if every else _find(opened, ids)


def _decide(
    ctx: click.Context, chosen: list[Placed], act: Callable[[Placed], Changed | None], done: str, *, as_json: bool
) -> None:
    """One item after another: what cannot be done is said, and the others are done all the same."""
    call = ctx.ensure_object(Call)
    rows: list[Row] = []
    for placed in chosen:
        try:
            changed = act(placed)
        except MemdirError as error:
            complain(f"inbox item {placed.id}: {render_error(error)}")
            continue
        rows.append(_make_decision(placed, changed, done))
        if not as_json:
            _tell(call, placed, changed, done)
    if as_json and (rows or not chosen):
        call.out.json(rows)
    if not chosen and not as_json and call.out.is_table:
        call.out.line("nothing waits for you")
    if len(rows) < len(chosen):
        ctx.exit(REFUSED)


def _make_decision(placed: Placed, changed: Changed | None, done: str) -> Row:
    return {
        "id": placed.id,
        "scope": placed.store.scope.value,
        "kind": placed.item.kind.value,
        "state": done,
        "act": changed.act if changed else None,
        "names": list(changed.names) if changed else [],
    }


def _tell(call: Call, placed: Placed, changed: Changed | None, done: str) -> None:
    title = one_line(mask_text(placed.item.title, placed.item.payload))
    call.out.line(f"{done} ", Styled(placed.id, "bold"), f": {title}")
    if changed is not None and changed.act is not None:
        option = scope_flag(placed.store)
        names = ", ".join(dict.fromkeys(changed.names))
        call.out.line("  changed ", Styled(names, "cyan"), f"; `memdir undo{option} {changed.act}` takes it back")


def _make_cells(call: Call, placed: Placed, row: dict[str, Any], *, every: bool) -> list[str]:
    since = show_time(call.out, placed.item.at, call.open().now())
    state = row["state"] if every or not call.out.is_table else ""
    return [row["id"], row["kind"], row["title"], row["why"], row["who"], row["session"], since, state]
