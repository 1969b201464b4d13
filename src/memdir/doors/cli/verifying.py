"""`verify`: what memories name, looked up in the project."""

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from memdir.doors.cli.call import Call, choose_store, name_scope
from memdir.doors.cli.names import find_memory
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import make_time
from memdir.doors.cli.verb import Verb, complete_names, json_option, scope_option
from memdir.doors.cli.words import REFUSED
from memdir.frozen import dataclass
from memdir.opening import Opened
from memdir.records import Scope
from memdir.store.files import FileStore
from memdir.verify.records import Checked, State, Status, Verdict, render_caveat, render_claim
from memdir.verify.verifying import Report, Stamped, stamp, verify

_STYLES = {State.VERIFIED: "green", State.PARTLY: "yellow", State.STALE: "bold red", State.UNCHECKED: "dim"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What was said of one store's memories, and what was stamped there."""

    store: FileStore
    report: Report
    stamped: Stamped


@click.command(
    "verify",
    short_help="Look up in the project what memories name.",
    cls=Verb,
    examples=(
        "memdir verify",
        "memdir verify deploy-freeze",
        "memdir verify --changed --stamp",
        "memdir verify --json",
    ),
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_names)
@click.option("--stamp", "is_stamping", is_flag=True, help="Write `verified` into each memory whose claims all hold.")
@click.option("--changed", is_flag=True, help="Only memories whose files changed since they were last verified.")
@scope_option
@json_option
@click.pass_context
def verify_verb(
    ctx: click.Context, names: tuple[str, ...], is_stamping: bool, changed: bool, scope: str | None, as_json: bool
) -> None:
    """Look up paths, symbols, commands, flags, variables, packages, branches, deadlines and links that memories name.

    Exits with 1 if anything has moved, gone or passed. What was never in the project is not checkable, and no alarm.
    No model is asked, and nothing of the project is changed or run.

    In a pipe: scope, name, state, line, kind, claim, status, in words, with tabs between; a memory without stale claims
    has one line with the last five empty.
    """
    call = ctx.ensure_object(Call)
    opened = call.open_to_write() if is_stamping else call.open()
    seen = []
    for store, wanted in _choose(opened, names, scope):
        root = None if store.scope is Scope.USER else opened.places.root.path
        report = verify(
            store,
            root,
            wanted,
            now=opened.now(),
            changed_only=changed,
            on_progress=lambda text: call.out.progress(text),
        )
        done = stamp(store, report, now=opened.now(), origin=call.origin()) if is_stamping else Stamped(None)
        seen.append(Seen(store, report, done))
    call.out.progress("")
    _report(call.out, seen, as_json=as_json)
    for problem in dict.fromkeys(at.report.problem for at in seen if at.report.problem):
        call.out.warn(problem)
    for name, reason in [at for one in seen for at in one.stamped.refused]:
        call.out.warn(f"{name} is not stamped: {reason}")
    if any(at.report.has_stale for at in seen):
        ctx.exit(REFUSED)


def _choose(opened: Opened, names: Sequence[str], scope: str | None) -> list[tuple[FileStore, list[str] | None]]:
    """The stores to look at, each with the names wanted of it; None for all."""
    if names:
        wanted: dict[int, tuple[FileStore, list[str]]] = {}
        for name in names:
            store, header = find_memory(opened, name, scope)
            wanted.setdefault(id(store), (store, []))[1].append(header.name)
        return list(wanted.values())
    if scope in (Scope.PRIVATE.value, Scope.TEAM.value):
        store = choose_store(opened, scope)
        return [(store, [at.name for at in store.scan() if (at.scope is Scope.TEAM) == (scope == Scope.TEAM.value)])]
    return [(store, None) for store in (opened.stores if scope is None else (choose_store(opened, scope),))]


def _report(out: Output, seen: Sequence[Seen], *, as_json: bool) -> None:
    if as_json:
        out.json(_make_answer(seen))
        return
    found = [(one.store, verdict) for one in seen for verdict in one.report.verdicts]
    if not out.is_table:
        out.table((), [cells for store, verdict in found for cells in _make_cells(store, verdict)])
        return
    for store, verdict in found:
        if verdict.state is not State.UNCHECKED:
            _show(out, store, verdict)
    counts = Counter(verdict.state for _, verdict in found)
    words = {State.UNCHECKED: "with nothing to check"}
    said = ", ".join(f"{counts[state]} {words.get(state, state.value)}" for state in State if counts[state])
    out.line(f"{len(found)} {'memory' if len(found) == 1 else 'memories'}" + (f": {said}" if said else ""))
    for one in seen:
        if one.stamped.names:
            out.line(f"stamped {len(one.stamped.names)}; `memdir undo {one.stamped.act}` takes it back")


def _show(out: Output, store: FileStore, verdict: Verdict) -> None:
    known = [at for at in verdict.claims if at.status is not Status.UNKNOWN]
    held = len(known) - len(verdict.stale)
    what = f"{held} of {len(known)} hold" if verdict.stale else f"{len(known)} {'holds' if len(known) == 1 else 'hold'}"
    name = f"{name_scope(store, verdict.name)}: {verdict.name}"
    out.line(
        Styled(verdict.state.value, _STYLES[verdict.state]), "  ", Styled(name, "cyan"), Styled(f"  {what}", "dim")
    )
    for at in verdict.stale:
        out.line(f"    line {at.claim.line}: {render_claim(at)}")


def _make_cells(store: FileStore, verdict: Verdict) -> list[list[str]]:
    head = [name_scope(store, verdict.name), verdict.name, verdict.state.value]
    rows = [
        [*head, str(at.claim.line), at.claim.kind.value, at.claim.text, at.status.value, render_claim(at)]
        for at in verdict.stale
    ]
    return rows or [[*head, "", "", "", "", ""]]


def _make_answer(seen: Sequence[Seen]) -> dict[str, Any]:
    found = [(one.store, verdict) for one in seen for verdict in one.report.verdicts]
    counts = Counter(verdict.state for _, verdict in found)
    return {
        "memories": [_make_row(store, verdict) for store, verdict in found],
        "counts": {state.value: counts[state] for state in State},
        "stamped": [name for one in seen for name in one.stamped.names],
        "acts": [one.stamped.act for one in seen if one.stamped.act is not None],
    }


def _make_row(store: FileStore, verdict: Verdict) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "path": os.path.join(store.root, f"{verdict.name}.md"),
        "scope": name_scope(store, verdict.name),
        "state": verdict.state.value,
        "checked": make_time(verdict.checked),
        "caveat": render_caveat(verdict) or None,
        "claims": [_make_claim(at) for at in verdict.claims],
    }


def _make_claim(at: Checked) -> dict[str, Any]:
    return {
        "kind": at.claim.kind.value,
        "text": at.claim.text,
        "line": at.claim.line,
        "column": at.claim.column,
        "status": at.status.value,
        "where": at.where or None,
        "to": at.to or None,
        "commit": at.commit or None,
        "came": at.came or None,
        "note": at.note or None,
    }
