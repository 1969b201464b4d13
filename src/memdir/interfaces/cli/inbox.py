"""`inbox`: what waits for a person, one thing at a time; look at it, let it happen, or not.

Items of the project's memory go by their number, those of the memory for all projects by `u` and their number, those of
the memory that a repository keeps in its own history by `p` and their number.
"""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from memdir.errors import MemdirError, NotFoundError
from memdir.interfaces.cli import CliContext, VerbGroup, choose_store, json_option, scope_flag
from memdir.interfaces.cli.output import (
    REFUSED,
    Output,
    Row,
    Styled,
    TableColumn,
    complain,
    make_time,
    render_error,
    render_text_diff,
    show_time,
)
from memdir.records import BatchResult, Edit, Forget, InboxItem, InboxState, IndexEdit, ReplaceLine, Save, Scope
from memdir.store.files import FileStore
from memdir.store.inbox import approve, find_evidence, find_payload_edits, mask_payload, mask_text, reject
from memdir.store.open import Project
from memdir.text import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


# --- waiting ---
# One item of the inbox on the screen: what it would change, in full, and what it rests on, marked as what it is.
#
# Every line of a text that somebody else wrote stands behind a margin, so that it cannot pass for a line of ours.

_BAR, _QUOTE = "  | ", "  > "
# What `show` has a place of its own for.
_SHOWN = frozenset(("edits", "evidence", "secrets"))


def show_item(out: Output, shown: str, item: InboxItem, store: FileStore, now: datetime) -> None:
    out.line(Styled(f"item {shown}", "bold"), f": {item.kind.value}, ", Styled(item.state.value, "yellow"))
    _show_facts(out, item, now)
    try:
        edits = find_payload_edits(item.payload)
    except MemdirError as error:
        edits = ()
        out.line(Styled(f"what it would change cannot be understood ({error})", "red"))
    for edit in edits:
        out.line()
        _show_edit(out, edit, item, store)
    _show_evidence(out, item)
    if item.state is InboxState.WAITING:
        out.line()
        out.line(f"`memdir inbox approve {shown}` lets it happen, `memdir inbox reject {shown}` does not")


def _show_facts(out: Output, item: InboxItem, now: datetime) -> None:
    source = f" ({item.origin.why})" if item.origin.why else ""
    session = f", session {item.origin.session}" if item.origin.session else ""
    facts = [
        ("what", item.title),
        ("why", item.why),
        ("memory", item.name),
        ("from", f"{item.origin.who}{session}{source}"),
        ("since", show_time(out, item.at, now)),
        ("decided", show_time(out, item.decided, now) if item.decided else ""),
        ("note", item.note),
    ]
    facts += [(key, _render_value(value)) for key, value in item.payload.items() if key not in _SHOWN]
    for label, text in facts:
        if "\n" in text:
            out.line(f"  {label}")
            _show_lines(out, text, item, _BAR)
        elif text:
            out.line(Styled(f"  {label:<9}", "dim"), mask_text(text, item.payload))


def _render_value(value: object) -> str:
    return value if isinstance(value, str) else str(value)


def _show_edit(out: Output, edit: Edit, item: InboxItem, store: FileStore) -> None:
    if isinstance(edit, Save):
        draft = edit.draft
        verb = "would save" if edit.expect is None else "would replace"
        out.line(Styled(f"{verb} ", "bold"), Styled(mask_text(draft.name or draft.title, item.payload), "cyan"))
        head = f"title: {draft.title}\ndescription: {draft.description}\ntype: {draft.kind.value}\n\n"
        _show_lines(out, head + draft.body, item, _BAR)
        return
    if isinstance(edit, IndexEdit):
        out.line(Styled("would change the index line of ", "bold"), Styled(edit.name, "cyan"))
        if isinstance(edit, ReplaceLine):
            _show_lines(out, edit.line, item, _BAR)
        return
    before = _find_text(store, edit.name)
    if isinstance(edit, Forget):
        out.line(Styled("would forget ", "bold"), Styled(edit.name, "cyan"))
        _show_lines(out, before, item, _BAR)
        return
    out.line(Styled("would rewrite ", "bold"), Styled(edit.name, "cyan"))
    _show_lines(out, edit.text, item, _BAR)
    out.line(Styled("compared with what it says now", "bold"))
    diff = render_text_diff(mask_text(before, item.payload), mask_text(edit.text, item.payload), edit.name, edit.name)
    out.diff(diff[2:] or ["(no difference)"])


def _show_evidence(out: Output, item: InboxItem) -> None:
    for quote in find_evidence(item.payload):
        where = ", ".join(part for part in (quote.source, quote.message and f"message {quote.message}") if part)
        out.line()
        out.line(
            Styled("it rests on this, which came from elsewhere", "bold"),
            f" ({mask_text(where, item.payload)})" if where else "",
            Styled(": untrusted, neither a fact nor an instruction", "yellow"),
        )
        _show_lines(out, quote.quote, item, _QUOTE)


def _show_lines(out: Output, text: str, item: InboxItem, margin: str) -> None:
    for line in mask_text(text, item.payload).rstrip("\n").replace("\r\n", "\n").split("\n"):
        out.line(Styled(margin, "dim"), line)


def _find_text(store: FileStore, name: str) -> str:
    try:
        return store.read(name).text
    except MemdirError:
        return ""


# --- inboxing ---

_ID = re.compile(r"([up]?)([0-9]{1,18})", re.IGNORECASE)
_LETTERS = {Scope.USER: "u", Scope.PROJECT: "p"}
_COLUMNS = (
    TableColumn("ID", "bold"),
    TableColumn("KIND", "magenta"),
    TableColumn("WHAT", "cyan", is_cut=True),
    TableColumn("WHY IT WAITS", is_cut=True),
    TableColumn("FROM", "dim"),
    TableColumn("SESSION", "dim", is_cut=True),
    TableColumn("SINCE", "dim"),
    TableColumn("STATE", "yellow"),
)


class InboxRow(NamedTuple):
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
    call = root.obj if isinstance(root.obj, CliContext) else CliContext()
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
def _list(call: CliContext, every: bool, as_json: bool) -> None:
    """List what waits, oldest first.

    In a pipe: id, kind, what, why it waits, from whom, session, time, state, with tabs between.
    """
    opened = call.open()
    found = _find_all(opened, None if every else InboxState.WAITING)
    rows = [make_inbox_row(at) for at in found]
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
def _show(call: CliContext, id: str, as_json: bool) -> None:
    """Show one item in full: what would change, why it waits, and the passage it rests on.

    That passage came from elsewhere: it is shown as what it is, and is neither to be believed nor obeyed.
    """
    (placed,) = _find(call.open(), [id])
    if as_json:
        call.out.json(
            make_inbox_row(placed) | {"payload": mask_payload(dict(placed.item.payload), placed.item.payload)}
        )
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
    call = ctx.ensure_object(CliContext)
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
    placed = _choose(ctx.ensure_object(CliContext).open(), ids, every=every)

    def change(at: InboxRow) -> None:
        reject(at.store, at.item)

    _decide(ctx, placed, change, "rejected", as_json=as_json)


def make_inbox_row(placed: InboxRow) -> Row:
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


def _find_all(opened: Project, state: InboxState | None = InboxState.WAITING) -> list[InboxRow]:
    return [InboxRow(store, item) for store in opened.stores for item in store.inbox(state)]


def _find(opened: Project, ids: Iterable[str]) -> list[InboxRow]:
    """The items meant, each once; NotFoundError if one of them is not there."""
    found: dict[str, InboxRow] = {}
    for text in ids:
        match = _ID.fullmatch(text)
        if match is None:
            raise click.BadParameter(f"{text!r} is no item's number; `memdir inbox` lists them")
        scope = next((at.value for at, letter in _LETTERS.items() if letter == match[1].lower()), None)
        store = choose_store(opened, scope)
        try:
            placed = InboxRow(store, store.inbox_item(int(match[2])))
        except NotFoundError as error:
            raise NotFoundError(f"no item {text} in the inbox", name=text, hint=error.hint) from None
        found[placed.id] = placed
    return list(found.values())


def _choose(opened: Project, ids: tuple[str, ...], *, every: bool) -> list[InboxRow]:
    if every == bool(ids):
        raise click.UsageError("say which: the ID of one or several items, or --all")
    return _find_all(opened) if every else _find(opened, ids)


def _decide(
    ctx: click.Context,
    chosen: list[InboxRow],
    change: Callable[[InboxRow], BatchResult | None],
    done: str,
    *,
    as_json: bool,
) -> None:
    """One item after another: what cannot be done is said, and the others are done all the same."""
    call = ctx.ensure_object(CliContext)
    rows: list[Row] = []
    for placed in chosen:
        try:
            changed = change(placed)
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


def _make_decision(placed: InboxRow, changed: BatchResult | None, done: str) -> Row:
    return {
        "id": placed.id,
        "scope": placed.store.scope.value,
        "kind": placed.item.kind.value,
        "state": done,
        "change": changed.change if changed else None,
        "names": list(changed.names) if changed else [],
    }


def _tell(call: CliContext, placed: InboxRow, changed: BatchResult | None, done: str) -> None:
    title = one_line(mask_text(placed.item.title, placed.item.payload))
    call.out.line(f"{done} ", Styled(placed.id, "bold"), f": {title}")
    if changed is not None and changed.change is not None:
        option = scope_flag(placed.store)
        names = ", ".join(dict.fromkeys(changed.names))
        call.out.line("  changed ", Styled(names, "cyan"), f"; `memdir undo{option} {changed.change}` takes it back")


def _make_cells(call: CliContext, placed: InboxRow, row: dict[str, Any], *, every: bool) -> list[str]:
    since = show_time(call.out, placed.item.at, call.open().now())
    state = row["state"] if every or not call.out.is_table else ""
    return [row["id"], row["kind"], row["title"], row["why"], row["who"], row["session"], since, state]
