"""`status`: how much is remembered, how full it is, and which settings are in force."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from memdir.conversation.instructions import build_instructions
from memdir.conversation.transcripts import list_transcripts
from memdir.errors import DiskError, ModelError, SettingsError
from memdir.format.clip import clip_index, measure_index
from memdir.frozen import dataclass, replace
from memdir.interfaces.cli import (
    KINDS,
    CliContext,
    CliVerb,
    VerbGroup,
    choose_store,
    complete_names,
    json_option,
    name_scope,
    scope_option,
)
from memdir.interfaces.cli.names import find_memory
from memdir.interfaces.cli.output import (
    NO_TYPE,
    REFUSED,
    Output,
    Styled,
    TableColumn,
    find_change_names,
    make_all_skip_rows,
    make_change_row,
    make_fill_row,
    make_time,
    render_error,
    show_time,
)
from memdir.interfaces.cli.places import find_collision
from memdir.interfaces.cli.read import make_part_rows
from memdir.interfaces.doctor import (
    LEVELS,
    DoctorFinding,
    HostConversation,
    check_settings,
    count_kinds,
    examine,
    examine_background,
    repair,
    repair_background,
)
from memdir.models.connection import add_usage
from memdir.models.usage import FILE, UsageReport, UsageRow, UsageTotal, read_usage_report, render_usage_row
from memdir.project.hosts import find_installed
from memdir.project.options import SETTINGS, Setting, Value, find_setting
from memdir.project.paths import read_paths
from memdir.project.settings import Settings, remove_setting, write_setting
from memdir.records import Header, Scope, Usage
from memdir.store.files import FileStore
from memdir.store.history import FILE as HISTORY
from memdir.store.open import Project
from memdir.store.plan import digest_of
from memdir.store.secrets import FILE as SECRETS_FILE
from memdir.store.secrets import OwnSecretRules, read_own_rules
from memdir.text import estimate_tokens
from memdir.verify.check import StampResult, VerifyReport, stamp, verify
from memdir.verify.records import (
    CheckedClaim,
    ClaimStatus,
    Verdict,
    VerifyState,
    read_verdicts,
    render_caveat,
    render_claim,
)

# --- spending ---
# The part of `status` about models: what they took, by week and project, and whether the memories are used at all.

ELSEWHERE = "other projects"
_WEEKS_SHOWN = 4


def make_usage_row(opened: Project) -> dict[str, Any]:
    """What models took, for `--json`; `problem` says why it could not be read."""
    report, problem = _read(opened)
    caps = {name: int(opened.settings.number(f"budget.{name}")) for name in ("run_tokens", "day_tokens")}
    return {
        "path": str(opened.environment.state_home / FILE),
        "problem": problem or None,
        "caps": caps,
        "today_tokens": report.today,
        "weeks": [_make_total_row(total) for total in report.totals],
        "requests": [_make_entry_row(entry) for entry in report.last],
    }


def make_recalled_row(store: FileStore) -> dict[str, int]:
    """How often memories were recalled, how many of those that are there, and how many never."""
    uses, names = store.uses(), {header.name for header in store.scan()}
    used = [name for name in names if uses.get(name)]
    return {"times": sum(uses.get(name, 0) for name in names), "memories": len(used), "never": len(names) - len(used)}


def show_usage(out: Output, opened: Project, *, whole: bool) -> None:
    """A line a week for this project and all others; with `whole` the newest requests too, a line each."""
    report, problem = _read(opened)
    day_cap = int(opened.settings.number("budget.day_tokens"))
    cap = f" of {day_cap:,}" if day_cap else ""
    out.line(Styled("models", "bold"), f"  {opened.settings.text('model')}; today {report.today:,}{cap} tokens")
    if problem:
        out.line(Styled(f"  {problem}", "red"))
    elif not report.last:
        out.line("  no model has been asked yet")
    for week, where, total in _sum_weeks(report, str(opened.places.root.path)):
        out.line(f"  week of {week}  {where:<15}{_say(total)}")
    if whole and report.last:
        out.line()
        out.line(Styled("the last requests", "bold"))
        for entry in report.last:
            out.line(f"  {make_time(entry.at)}  {render_usage_row(entry)}", Styled(f"  {entry.project}", "dim"))


def _read(opened: Project) -> tuple[UsageReport, str]:
    try:
        return read_usage_report(opened.environment.state_home / FILE, now=opened.now()), ""
    except DiskError as error:
        return UsageReport(), str(error)


def _sum_weeks(report: UsageReport, project: str) -> list[tuple[str, str, UsageTotal]]:
    sums: dict[tuple[str, str], UsageTotal] = {}
    for total in report.totals:
        key = (total.week, "this project" if total.project == project else ELSEWHERE)
        before = sums.get(key)
        sums[key] = total if before is None else _add(before, total)
    weeks = sorted({week for week, _ in sums}, reverse=True)[:_WEEKS_SHOWN]
    return [(week, where, total) for (week, where), total in sorted(sums.items(), reverse=True) if week in weeks]


def _add(one: UsageTotal, other: UsageTotal) -> UsageTotal:
    return replace(
        one,
        requests=one.requests + other.requests,
        failed=one.failed + other.failed,
        unpriced=one.unpriced + other.unpriced,
        usage=add_usage(one.usage, other.usage),
    )


def _say(total: UsageTotal) -> str:
    usage = total.usage
    failed = f" ({total.failed} failed)" if total.failed else ""
    share = f" ({usage.cached / usage.input:.0%} cached)" if usage.input else ""
    more = " and more" if total.unpriced and usage.dollars is not None else ""
    cost = "price unknown" if usage.dollars is None else f"about ${usage.dollars:.2f}{more}"
    read = f"{usage.input:,} tokens in{share}, {usage.output:,} out"
    return f"{total.requests} requests{failed}, {read}, {cost}"


def _make_total_row(total: UsageTotal) -> dict[str, Any]:
    return {
        "week": total.week,
        "project": total.project,
        "purpose": total.purpose,
        "requests": total.requests,
        "failed": total.failed,
        "unpriced": total.unpriced,
        **_make_tokens(total.usage),
    }


def _make_entry_row(entry: UsageRow) -> dict[str, Any]:
    return {
        "at": make_time(entry.at),
        "project": entry.project,
        "purpose": entry.purpose,
        "model": entry.model,
        "outcome": entry.outcome,
        "counted": entry.counted,
        **_make_tokens(entry.usage),
    }


def _make_tokens(usage: Usage) -> dict[str, Any]:
    return {
        "fresh": usage.fresh,
        "cached": usage.cached,
        "stored": usage.stored,
        "output": usage.output,
        "dollars": usage.dollars,
    }


# --- tuning ---
# `config`, `pause` and `resume`: the person's own settings.

_COLUMNS = (
    TableColumn("KEY", "cyan"),
    TableColumn("VALUE", "bold"),
    TableColumn("DEFAULT", "dim"),
    TableColumn("SOURCE", "dim", is_cut=True),
)


def _offer_keys(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(item.key, help=item.help) for item in SETTINGS if item.key.startswith(incomplete)]


_KEY = click.argument("key", shell_complete=_offer_keys)


@click.group("config", short_help="Look at settings and change them.", cls=VerbGroup)
def config_verb() -> None:
    """Look at settings and change your own (docs/settings.md has them all)."""


@config_verb.command("list", examples=("memdir config list", "memdir config list --json"))
@json_option
@click.pass_obj
def _list(call: CliContext, as_json: bool) -> None:
    """List every setting: key, value, default, and where the value comes from."""
    settings = _tuning_read(call)
    rows = [make_setting_row(settings, item) for item in SETTINGS]
    if as_json:
        call.out.json(rows)
        return
    cells = [[at["key"], show_value(at["value"]), show_value(at["default"]), at["source"]] for at in rows]
    call.out.table(_COLUMNS, cells)


@config_verb.command("get", examples=("memdir config get index_order",))
@_KEY
@json_option
@click.pass_obj
def _get(call: CliContext, key: str, as_json: bool) -> None:
    """Print the value of one setting."""
    item = find_setting(key)
    row = make_setting_row(_tuning_read(call), item)
    if as_json:
        call.out.json(row)
    else:
        call.out.line(show_value(row["value"]))


@config_verb.command("set", examples=("memdir config set index_order file",))
@_KEY
@click.argument("value")
@json_option
@click.pass_obj
def _set(call: CliContext, key: str, value: str, as_json: bool) -> None:
    """Write one setting into your config file; comments and other lines stay."""
    item = find_setting(key)
    problem = _check_model(call, value) if key == "model" else ""
    written = write_setting(call.environment, key, value)
    _report(call, item, f"{key} = {show_value(written)}", as_json=as_json)
    if problem:
        call.out.warn(problem)


@config_verb.command("unset", examples=("memdir config unset index_order",))
@click.argument("key", shell_complete=_offer_keys)
@json_option
@click.pass_obj
def _unset(call: CliContext, key: str, as_json: bool) -> None:
    """Take one setting out of your config file, so that the default counts again."""
    was_there = remove_setting(call.environment, key)
    known = {item.key: item for item in SETTINGS}.get(key) if was_there else find_setting(key)
    done = f"{key} is unset" if was_there else f"{key} was not set in your config file"
    if known is not None:
        _report(call, known, done, as_json=as_json)
    elif as_json:
        call.out.json({"key": key, "value": None, "default": None, "source": "none"})
    else:
        call.out.line(done)


@click.command("pause", short_help="Remember and recall nothing for a while.", cls=CliVerb, examples=("memdir pause",))
@json_option
@click.pass_obj
def pause_verb(call: CliContext, as_json: bool) -> None:
    """Remember nothing in the background and recall nothing until `memdir resume`; what you save is still saved."""
    write_setting(call.environment, "paused", True)
    _report(call, find_setting("paused"), "paused", as_json=as_json)


@click.command("resume", short_help="End a pause.", cls=CliVerb, examples=("memdir resume",))
@json_option
@click.pass_obj
def resume_verb(call: CliContext, as_json: bool) -> None:
    """End a pause."""
    remove_setting(call.environment, "paused")
    _report(call, find_setting("paused"), "resumed", as_json=as_json)


def make_setting_row(settings: Settings, item: Setting) -> dict[str, Any]:
    key = item.key
    return {"key": key, "value": settings[key], "default": item.default, "source": settings.sources[key]}


def show_value(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tuning_read(call: CliContext) -> Settings:
    return read_paths(call.environment, call.cwd.absolute())[0]


def _check_model(call: CliContext, value: str) -> str:
    """Refuses what names no model; answers what one that does still lacks, such as a key."""
    try:
        # Imported by name: only this one setting needs the room.
        import_module("memdir.models").open_model(value, environment=call.environment)
    except ModelError as error:
        return render_error(error)
    return ""


def _report(call: CliContext, item: Setting, done: str, *, as_json: bool) -> None:
    """What was done, and what holds now: something stronger may still say otherwise."""
    row = make_setting_row(_tuning_read(call), item)
    if as_json:
        call.out.json(row)
        return
    call.out.line(done)
    if row["source"] == item.variable:
        call.out.warn(f"{item.variable} in the environment still says {show_value(row['value'])}")


# --- standing ---

_SKIP_TITLES = {
    "recall": "recall brings nothing when",
    "extract": "nothing is learned from a turn when",
    "dream": "there is no dream when",
}


@click.command(
    "status",
    short_help="Counts, sizes, settings, and what models cost.",
    cls=CliVerb,
    examples=("memdir status", "memdir status --usage", "memdir status --json"),
)
@click.option("--usage", is_flag=True, help="Only what models took, with the last requests one by one.")
@json_option
@click.pass_obj
def status_verb(call: CliContext, usage: bool, as_json: bool) -> None:
    """Print counts, how full each index is, the size of history, what models cost, and every setting."""
    opened = call.open()
    if usage and not as_json:
        show_usage(call.out, opened, whole=True)
        return
    switch = opened.places.switch
    scopes = [_make_scope(store, opened.settings.text("index_order")) for store in opened.stores]
    facts = {
        "on": switch.on,
        "rule": switch.rule,
        "paused": opened.settings.flag("paused"),
        "loads": _make_loads(opened),
        "scopes": scopes,
        "settings": [make_setting_row(opened.settings, item) for item in SETTINGS],
        "skip_reasons": make_all_skip_rows(),
        "usage": make_usage_row(opened),
    }
    if as_json:
        call.out.json(facts)
    else:
        _show(call.out, opened, facts)


def _make_loads(opened: Project) -> dict[str, Any]:
    """What a session is told of its memory from the start, in tokens, whole and part by part."""
    told = build_instructions(opened, make=False)
    rows = make_part_rows(told)
    counts = [row["tokens"] for row in rows]
    return {
        "guidance_tokens": sum(counts[: len(told.parts)]),
        "index_tokens": sum(counts[len(told.parts) :]),
        "parts": [{key: row[key] for key in ("part", "path", "tokens")} for row in rows],
    }


def _make_scope(store: FileStore, order: str) -> dict[str, Any]:
    headers, index = store.scan(), store.index()
    kinds = Counter(header.kind or NO_TYPE for header in headers)
    last = store.changes(limit=1)
    return {
        "scope": store.scope.value,
        "path": str(store.root),
        "memories": len(headers),
        "types": {kind: kinds[kind] for kind in (*KINDS, NO_TYPE)},
        "pinned": sum(header.pinned for header in headers),
        "waiting": len(store.inbox()),
        "index": {
            **make_fill_row(measure_index(index, headers)),
            "tokens": estimate_tokens(clip_index(index, headers, order=order).text),
        },
        "history": {"changes": store.count_changes(), "bytes": _measure_history(store)},
        "last_change": make_change_row(last[0]) if last else None,
        "recalled": make_recalled_row(store),
        "verdicts": _count_verdicts(store, headers),
    }


def _count_verdicts(store: FileStore, headers: Sequence[Header]) -> dict[str, int]:
    """How many memories hold by the last verification of the text they have now."""
    verdicts, digests = read_verdicts(store), store.recorded() if store.count_changes() else {}
    counts = Counter(
        _find_state(store, header, verdicts[header.name], digests) if header.name in verdicts else VerifyState.UNCHECKED
        for header in headers
    )
    return {state.value: counts[state] for state in VerifyState}


def _find_state(store: FileStore, header: Header, verdict: Verdict, digests: Mapping[str, str]) -> VerifyState:
    digest = digests.get(header.file) or digest_of(store.read_bytes(header.file) or b"")
    return verdict.state if verdict.digest == digest else VerifyState.UNCHECKED


def _measure_history(store: FileStore) -> int:
    total = 0
    for suffix in ("", "-wal"):
        try:
            total += os.stat(store.state / f"{HISTORY}{suffix}", follow_symlinks=False).st_size
        except OSError:
            continue
    return total


def _show(out: Output, opened: Project, facts: dict[str, Any]) -> None:
    state = "on" if facts["on"] else "off"
    out.line(Styled("memory is ", "bold"), Styled(state, "green" if facts["on"] else "red"), f" ({facts['rule']})")
    if facts["paused"]:
        out.line(Styled("paused: nothing is remembered or recalled; `memdir resume` ends it", "yellow"))
    loads = facts["loads"]
    guidance, index = loads["guidance_tokens"], loads["index_tokens"]
    out.line(f"a session loads about {guidance + index:,} tokens: {guidance:,} of guidance and {index:,} of index")
    if parts := ", ".join(f"{row['part']} {row['tokens']:,}" for row in loads["parts"]):
        out.line(Styled(f"  {parts}; `memdir context` adds the instruction files", "dim"))
    if waiting := sum(scope["waiting"] for scope in facts["scopes"]):
        out.line(Styled(f"{waiting} in the inbox, waiting for you: `memdir inbox`", "yellow"))
    for scope, store in zip(facts["scopes"], opened.stores, strict=True):
        _show_scope(out, opened, scope, store)
    out.line()
    show_usage(out, opened, whole=False)
    out.line()
    out.line(Styled("settings", "bold"), Styled(" (a star: not the default)", "dim"))
    width = max(len(row["key"]) for row in facts["settings"])
    for row in facts["settings"]:
        is_default = row["source"] == "default"
        mark = " " if is_default else "*"
        source = "" if is_default else f"  from {row['source']}"
        out.line(f"{mark} {row['key']:<{width}}  {show_value(row['value'])}", Styled(source, "dim"))
    for what, title in _SKIP_TITLES.items():
        out.line()
        out.line(Styled(title, "bold"))
        for row in facts["skip_reasons"][what]:
            out.line(f"  {row['words']}", Styled(f"  ({row['reason']})", "dim"))


def _show_scope(out: Output, opened: Project, scope: dict[str, Any], store: FileStore) -> None:
    out.line()
    out.line(Styled(scope["scope"], "bold"), Styled(f"  {scope['path']}", "dim"))
    types = ", ".join(f"{count} {kind}" for kind, count in scope["types"].items() if count)
    pinned = f", {scope['pinned']} pinned" if scope["pinned"] else ""
    out.line(f"  memories  {scope['memories']}", f" ({types}{pinned})" if types else "")
    fill = scope["index"]
    size = f"{fill['lines']} lines, {fill['bytes']:,} bytes; about {fill['tokens']:,} tokens"
    out.line(f"  index     {fill['share']:.0%} full ({size})")
    out.line(f"  history   {scope['history']['changes']} changes, {scope['history']['bytes']:,} bytes")
    used = scope["recalled"]
    out.line(f"  recalled  {used['times']} times; {used['never']} never recalled")
    if any(count for state, count in scope["verdicts"].items() if state != VerifyState.UNCHECKED):
        told = ", ".join(f"{count} {state}" for state, count in scope["verdicts"].items())
        out.line(f"  verified  {told}", Styled("  (`memdir verify` looks again)", "dim"))
    last = next(iter(store.changes(limit=1)), None)
    if last is not None:
        when = show_time(out, last.at, opened.now())
        out.line(f"  last      {last.verb} {', '.join(find_change_names(last))} by {last.origin.who}, {when}")


# --- verifying ---
# `verify`: what memories name, looked up in the project.

_STYLES = {
    VerifyState.VERIFIED: "green",
    VerifyState.PARTLY: "yellow",
    VerifyState.STALE: "bold red",
    VerifyState.UNCHECKED: "dim",
}


@dataclass(frozen=True, slots=True)
class VerifiedRow:
    """What was said of one store's memories, and what was stamped there."""

    store: FileStore
    report: VerifyReport
    stamped: StampResult


@click.command(
    "verify",
    short_help="Look up in the project what memories name.",
    cls=CliVerb,
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
    call = ctx.ensure_object(CliContext)
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
        done = stamp(store, report, now=opened.now(), origin=call.origin()) if is_stamping else StampResult(None)
        seen.append(VerifiedRow(store, report, done))
    call.out.progress("")
    _verifying_report(call.out, seen, as_json=as_json)
    for problem in dict.fromkeys(at.report.problem for at in seen if at.report.problem):
        call.out.warn(problem)
    for name, reason in [at for one in seen for at in one.stamped.refused]:
        call.out.warn(f"{name} is not stamped: {reason}")
    if any(at.report.has_stale for at in seen):
        ctx.exit(REFUSED)


def _choose(opened: Project, names: Sequence[str], scope: str | None) -> list[tuple[FileStore, list[str] | None]]:
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


def _verifying_report(out: Output, seen: Sequence[VerifiedRow], *, as_json: bool) -> None:
    if as_json:
        out.json(_make_answer(seen))
        return
    found = [(one.store, verdict) for one in seen for verdict in one.report.verdicts]
    if not out.is_table:
        out.table((), [cells for store, verdict in found for cells in _make_cells(store, verdict)])
        return
    for store, verdict in found:
        if verdict.state is not VerifyState.UNCHECKED:
            _verifying_show(out, store, verdict)
    counts = Counter(verdict.state for _, verdict in found)
    words = {VerifyState.UNCHECKED: "with nothing to check"}
    said = ", ".join(f"{counts[state]} {words.get(state, state.value)}" for state in VerifyState if counts[state])
    out.line(f"{len(found)} {'memory' if len(found) == 1 else 'memories'}" + (f": {said}" if said else ""))
    for one in seen:
        if one.stamped.names:
            out.line(f"stamped {len(one.stamped.names)}; `memdir undo {one.stamped.change}` takes it back")


def _verifying_show(out: Output, store: FileStore, verdict: Verdict) -> None:
    known = [at for at in verdict.claims if at.status is not ClaimStatus.UNKNOWN]
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


def _make_answer(seen: Sequence[VerifiedRow]) -> dict[str, Any]:
    found = [(one.store, verdict) for one in seen for verdict in one.report.verdicts]
    counts = Counter(verdict.state for _, verdict in found)
    return {
        "memories": [_make_row(store, verdict) for store, verdict in found],
        "counts": {state.value: counts[state] for state in VerifyState},
        "stamped": [name for one in seen for name in one.stamped.names],
        "changes": [one.stamped.change for one in seen if one.stamped.change is not None],
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


def _make_claim(at: CheckedClaim) -> dict[str, Any]:
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


# --- checking ---
# `doctor`: what is wrong, one line each with its fix; and the fix for what can be rebuilt.

_CHECKING_STYLES = {"error": "bold red", "warning": "yellow", "advice": "blue"}


@dataclass(frozen=True, slots=True)
class DoctorRow:
    scope: str
    finding: DoctorFinding


@click.command(
    "doctor",
    short_help="What is wrong, and how to mend it.",
    cls=CliVerb,
    examples=("memdir doctor", "memdir doctor --fix", "memdir doctor --json"),
)
@click.option(
    "--fix",
    "is_fixing",
    is_flag=True,
    help="Rebuild what can be rebuilt, such as index lines. Memories are not touched.",
)
@scope_option
@json_option
@click.pass_context
def doctor_verb(ctx: click.Context, is_fixing: bool, scope: str | None, as_json: bool) -> None:
    """Look for what is wrong. Exits with 1 if there is anything above advice.

    In a pipe: level, kind, scope, place, what is wrong, what to do, with tabs between.
    """
    call = ctx.ensure_object(CliContext)
    found, fixed = _look(call, scope, is_fixing=is_fixing)
    _checking_report(call.out, found, fixed, is_fixing=is_fixing, as_json=as_json)
    if any(at.finding.level != "advice" for at in found):
        ctx.exit(REFUSED)


def _look(call: CliContext, scope: str | None, *, is_fixing: bool) -> tuple[list[DoctorRow], int]:
    """Everything that is wrong, and how much of what was wrong has been fixed."""
    environment = call.environment
    try:
        settings, places = read_paths(environment, call.cwd.absolute())
    except SettingsError as error:
        # Settings say where memory is: without them nothing else can be looked at.
        what = f"{error}; nothing else was looked at"
        return [
            DoctorRow("settings", DoctorFinding("unreadable_settings", "settings", what, error.hint or "mend it"))
        ], 0
    found = [DoctorRow("settings", at) for at in check_settings(settings, places)]
    collision = None if call.directory is not None else find_collision(environment, places)
    fixed = 0
    if collision is not None:
        # The files there are another project's; nothing can be said of this one's until it has a place.
        where = str(places.private.path)
        found.append(DoctorRow("private", DoctorFinding("slug_collision", where, collision.reason, collision.hint)))
    else:
        opened = call.open()
        if is_fixing:
            opened.check_on()
            fixed = _fix(opened, scope)
        found += _examine(opened, scope)
    return found, fixed


def _examine(opened: Project, scope: str | None) -> list[DoctorRow]:
    skip = opened.settings.flag("skip_index")
    own, problem = _read_rules(opened)
    found = [DoctorRow("settings", problem)] if problem else []
    stores = opened.stores if scope is None else (choose_store(opened, scope),)
    found += [DoctorRow(at.scope.value, found) for at in stores for found in examine(at, skip_index=skip, own=own)]
    return found if scope else [*found, *(DoctorRow("background", at) for at in _examine_background(opened))]


def _read_rules(opened: Project) -> tuple[OwnSecretRules, DoctorFinding | None]:
    """A person's own rules for secrets, or what is wrong with them."""
    try:
        return read_own_rules(opened.environment.config_file.with_name(SECRETS_FILE)), None
    except SettingsError as error:
        return OwnSecretRules(), DoctorFinding("setting", SECRETS_FILE, str(error), error.hint or "mend it")


def _examine_background(opened: Project) -> Sequence[DoctorFinding]:
    # Where memory is off hooks leave no trace, and where worktrees have their own, sessions cannot be told apart.
    is_known = opened.places.switch.on and opened.settings.text("worktree") == "shared"
    installed = find_installed(opened.environment, opened.places.root.path) if is_known else ()
    ran = _list_ran(opened, min(at.since for at in installed)) if installed else ()
    found = examine_background(opened.private.state, now=opened.now(), installed=installed, ran=ran)
    # What went wrong before a hook knew its project is kept with the person.
    return [*found, *examine_background(opened.environment.state_home, now=opened.now())]


def _list_ran(opened: Project, since: datetime) -> Sequence[HostConversation]:
    """The conversations of this project since then, as far as transcripts tell when they began."""
    found = list_transcripts(opened.environment, opened.places.root.path, since=since)
    return [
        HostConversation(at.host.value, at.started, at.ended or at.modified) for at in found if at.started is not None
    ]


def _fix(opened: Project, scope: str | None) -> int:
    fixed, own = 0, _read_rules(opened)[0]
    for store in opened.stores if scope is None else (choose_store(opened, scope),):
        findings = examine(store, skip_index=opened.settings.flag("skip_index"), own=own)
        fixed += repair(store, [at for at in findings if at.fixable])
    if scope is None:
        for state in (opened.private.state, opened.environment.state_home):
            fixed += repair_background(state, examine_background(state, now=opened.now()), now=opened.now())
    return fixed


def _checking_report(out: Output, found: Sequence[DoctorRow], fixed: int, *, is_fixing: bool, as_json: bool) -> None:
    if as_json:
        counts = count_kinds([at.finding for at in found])
        out.json({"findings": [_checking_make_row(at) for at in found], "counts": counts, "fixed": fixed})
        return
    if not out.is_table:
        out.table((), [_checking_make_cells(at) for at in found])
    else:
        for level in dict.fromkeys(LEVELS.values()):
            _show_level(out, level, [at for at in found if at.finding.level == level])
    if fixed:
        out.line(f"fixed {fixed}; `memdir history` shows how, `memdir undo` takes it back")
    elif is_fixing:
        out.line("nothing to fix by itself")
    if not found and out.is_table:
        out.line(Styled("nothing wrong", "green"))


def _show_level(out: Output, level: str, found: Sequence[DoctorRow]) -> None:
    if not found:
        return
    plural = {"error": "errors", "warning": "warnings"}.get(level, level)
    out.line(Styled(f"{len(found)} {level if len(found) == 1 else plural}", _CHECKING_STYLES[level]))
    for at in found:
        out.line(
            "  ",
            Styled(f"{at.scope}: {_name_place(at.finding)}", "cyan"),
            f": {at.finding.message}",
            Styled(f" — {at.finding.fix}", "dim"),
        )


def _name_place(finding: DoctorFinding) -> str:
    return finding.where if finding.line is None else f"{finding.where}:{finding.line}"


def _checking_make_cells(at: DoctorRow) -> list[str]:
    finding = at.finding
    return [finding.level, finding.kind, at.scope, _name_place(finding), finding.message, finding.fix]


def _checking_make_row(at: DoctorRow) -> dict[str, Any]:
    finding = at.finding
    return {
        "kind": finding.kind,
        "level": finding.level,
        "scope": at.scope,
        "where": finding.where,
        "line": finding.line,
        "message": finding.message,
        "fix": finding.fix,
        "fixable": finding.fixable,
    }
