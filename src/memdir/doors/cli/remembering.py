"""`remember`: keep what somebody says, in their own words; memdir names, types and merges it."""

import click

from memdir import frontmatter
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
from memdir.errors import ConflictError, FormatError
from memdir.frozen import dataclass, replace
from memdir.opening import Opened
from memdir.records import Draft, Kind, Memory, Scope
from memdir.rules import Category, Wish, compose, is_forgetting, place
from memdir.rules.plain import holds_secret
from memdir.staging import Staging, make_edits
from memdir.store.files import FileStore

VERB = "remember"
_ACTIONS = {"create": "created", "update": "updated", "unchanged": "unchanged"}
_EXAMPLES = (
    "memdir remember we deploy on Tuesdays only, because support is there then",
    'memdir remember --type user "I am new to React but know Go well"',
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a text came to: the memory it is in now, what was done, the act, and its text before and now, as shown."""

    memory: Memory
    action: str
    act: int | None
    before: str | None
    now: str = ""


@click.command("remember", short_help="Remember what you say, in your own words.", cls=Verb, examples=_EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="TEXT...")
@click.option("--type", "kind", type=click.Choice(KINDS), help="What sort of thing it is; guessed if not given.")
@click.option("--name", help="The new file's name without .md; made from the text if not given.")
@click.option("--scope", type=click.Choice(SCOPES), default="private", show_default=True, help=SCOPE_HELP)
@click.option("--pin", "pinned", is_flag=True, help="Keep it first when the index must be cut.")
@json_option
@click.pass_obj
def remember_verb(
    call: Call, words: tuple[str, ...], kind: str | None, name: str | None, scope: str, pinned: bool, as_json: bool
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
    draft = compose(text, now=now, kind=None if kind is None else Kind(kind), secrets=True)
    draft = replace(draft, name=None if name is None else name.removesuffix(".md"), pinned=True if pinned else None)
    if draft.name is not None:
        draft = place_draft(store, draft, scope)
    kept = _keep(call, store, draft, text, team=scope == Scope.TEAM.value)
    _report(call, opened, store, draft, kept, text, as_json=as_json)


def _keep(call: Call, store: FileStore, draft: Draft, text: str, *, team: bool) -> _Kept:
    staging = Staging(store, now=store.clock())
    name, action = _stage(staging, draft, text, team=team)
    if draft.pinned:
        staging.write(name, frontmatter.set_fields(staging.read(name), {"pinned": "true"}))
    before = next((at.before for at in staging.staged), None)
    if action == "unchanged" and staging.staged:
        action = "updated"  # it was not pinned
    changed = store.change(make_edits(staging.staged), verb=VERB, origin=call.origin())
    return _Kept(store.read(name), action, changed.act, before)


def _stage(staging: Staging, draft: Draft, text: str, *, team: bool) -> tuple[str, str]:
    if draft.name is not None:
        if staging.read_bytes(f"{draft.name}.md") is not None:
            raise ConflictError(
                f"{draft.name} exists already", hint="leave out --name to merge, or use `memdir save --replace`"
            )
        return staging.save(draft), "created"
    wish = Wish(Category.REQUEST, "save", draft.kind, draft.title, draft.description, draft.body, text)
    (placed,) = place(wish, staging, team=team)
    return placed.name, _ACTIONS[placed.action]


def _report(
    call: Call, opened: Opened, store: FileStore, draft: Draft, kept: _Kept, text: str, *, as_json: bool
) -> None:
    dating = Dating(draft.kind, opened.now().astimezone())
    dating.apply(text)
    name = kept.memory.header.name
    fill = measure_index(store, name)
    warnings = [*find_warnings(draft, name, opened.places.root.path, opened.environment), *warn_of_fill(fill)]
    warnings += warn_of_team(store, kept.memory.header.scope)
    if holds_secret(text) and not any("secret" in at for at in warnings):
        warnings.append("this looks like a number that opens something; say where it is kept instead")
    if as_json:
        row = make_row(kept.memory.header, store) | {"action": kept.action, "act": kept.act, "dates": dating.rows}
        call.out.json(row | {"warnings": warnings, "index": make_fill_row(fill)})
    else:
        before, after = (mask_secrets(at or "", opened.environment) for at in (kept.before, kept.memory.text))
        _show(call.out, replace(kept, before=None if kept.before is None else before, now=after), store, dating)
    for warning in warnings:
        call.out.warn(warning)


def _show(out: Output, kept: _Kept, store: FileStore, dating: Dating) -> None:
    words = {"created": "saved", "updated": "updated", "unchanged": "already known:"}
    header = kept.memory.header
    out.line(f"{words[kept.action]} ", Styled(header.name, "cyan"), f" ({header.kind}, {header.scope})")
    out.line(Styled(f"  {store.root / header.file}", "dim"))
    if kept.action == "created":
        out.line(f"  {header.description}")
        for at in dating.done:
            out.line(f"  {at.was} -> {at.now_text}")
    if kept.action == "updated" and kept.before is not None:
        out.diff(shorten_diff(render_diff(kept.before, kept.now, header.file, f"{header.file} (now)")))
