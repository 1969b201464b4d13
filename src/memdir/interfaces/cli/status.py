"""The commands `status`, `verify` and `doctor`: the state of the memory, outdated claims, and problems."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from operator import itemgetter

import click

from memdir.conversation.instructions import build_instructions
from memdir.conversation.start import measure_starts
from memdir.dream import DreamSkip
from memdir.errors import DiskError, NotFoundError, SettingsError
from memdir.extraction import ExtractSkip
from memdir.format.index import INDEX_FILE, clip_index, measure_index
from memdir.interfaces import cli, doctor
from memdir.interfaces.cli import (
    NO_TYPE,
    TOKENS,
    CliContext,
    Output,
    Row,
    Styled,
    TableColumn,
    choose_store,
    choose_stores,
    count_words,
    fill,
    name_scope,
)
from memdir.interfaces.cli.app import KINDS, complete_names, scope_option, verb
from memdir.interfaces.cli.context import make_part_rows
from memdir.interfaces.cli.places import find_collision, make_setting
from memdir.interfaces.doctor import LEVELS, DoctorFinding
from memdir.interfaces.probe import has_changed_since_probe
from memdir.limits import INDEX_WARN_SHARE
from memdir.models.usage import (
    FILE,
    UsageReport,
    UsageTotal,
    describe_cost,
    describe_dollars,
    read_usage_report,
    render_usage_row,
    sum_last_week,
    sum_totals,
)
from memdir.operations.find import find_memory
from memdir.project.hosts import HOSTS, find_host, find_installed, list_present, render_undecided
from memdir.project.paths import read_paths
from memdir.project.settings import SETTINGS
from memdir.recall.prefetch import BACKGROUND
from memdir.records import Header, Moment, Scope, Surfacing
from memdir.store.files import FileStore
from memdir.store.history import FILE as HISTORY
from memdir.store.open import Project
from memdir.text import estimate_tokens, one_line, shorten
from memdir.verify import records
from memdir.verify.check import StampResult, stamp, verify
from memdir.verify.records import ClaimStatus, Verdict, VerifyState, render_claim

_WEEKS_SHOWN = 4
_LATELY = 5
_RECALLS = 1_000  # the latest recalls, in which background selections are counted
_SCOPE_LABELS = {Scope.PRIVATE: "this project", Scope.USER: "all projects", Scope.PROJECT: "repository"}
_WEEK = f"{TOKENS} week project purpose requests failed unpriced dollars seconds"
_REQUEST = f"{TOKENS} at project purpose model outcome counted dollars"
_STATE_STYLES = {"verified": "green", "partly": "yellow", "stale": "bold red", "unchecked": "dim"}
_LEVEL_STYLES = {"error": "bold red", "warning": "yellow", "advice": "blue"}


@verb(
    "status", "Show activity and cost.",
    "memdir status", "memdir status --usage", "memdir status --json",
)  # fmt: skip
@click.option("--usage", is_flag=True, help="Only show model usage, with the last requests.")
def status_verb(call: CliContext, usage: bool, as_json: bool) -> None:
    """Print on one screen whether memory is on, its recent activity, what needs review, and what it costs.

    --json also has the size of each index and of history, verdicts, every setting, and the reasons why nothing is
    recalled or learned.
    """
    project, out = call.open(), call.out
    report, problem, usage_file = UsageReport(), "", project.environment.state_home / FILE
    try:
        report = read_usage_report(usage_file, now=project.now())
    except DiskError as error:
        problem = str(error)
    if usage and not as_json:
        _show_usage(out, project, report, problem)
        return
    instructions = build_instructions(project, make=False)
    parts, guidance = make_part_rows(instructions), len(instructions.parts)
    tokens = [row["tokens"] for row in parts]
    row = fill(
        "on rule",
        project.places.switch,
        paused=project.settings.flag("paused"),
        loads={
            "guidance_tokens": sum(tokens[:guidance]),
            "index_tokens": sum(tokens[guidance:]),
            "parts": [{key: part[key] for key in ("part", "path", "tokens")} for part in parts],
            "hosts": [
                fill("host title tokens", cost, sent_tokens=cost.sent, loaded_tokens=cost.loaded)
                for cost in measure_starts(project)
            ],
        },
        scopes=[_make_scope(store, project.settings.text("index_order")) for store in project.stores],
        settings=[make_setting(project.settings, item) for item in SETTINGS],
        skip_reasons={
            "recall": cli.make_skip_rows(),
            "extract": [{"reason": skip.value, "words": skip.words} for skip in ExtractSkip],
            "dream": [{"reason": skip.value, "words": skip.words} for skip in DreamSkip],
        },
        usage={
            "path": usage_file,
            "problem": problem or None,
            "caps": {name: int(project.settings.number(f"budget.{name}")) for name in ("run_tokens", "day_tokens")},
            "today_tokens": report.today,
            "weeks": [fill(_WEEK, total, total.usage) for total in report.totals],
            "requests": [fill(_REQUEST, entry, entry.usage) for entry in report.last],
        },
    )
    if as_json:
        out.json(row)
        return
    _show_summary(out, project, row, report, problem)
    more = (
        "`memdir status --json` has the rest, `memdir ui --open` shows it as a page, `memdir doctor` looks for faults"
    )
    out.line(Styled(more, "dim"))


def _make_scope(store: FileStore, order: str) -> Row:
    headers, index, size = store.scan(), store.index(), 0
    kinds = Counter(header.kind or NO_TYPE for header in headers)
    used, uses = measure_index(index, headers), store.count_recalls().by_name
    try:
        last, waiting, changes = store.changes(limit=1), len(store.inbox()), store.count_changes()
    except DiskError:  # `doctor` reports the cause
        last, waiting, changes = (), 0, 0
    times = [uses.get(name, 0) for name in {header.name for header in headers}]
    for suffix in ("", "-wal"):
        try:
            size += os.stat(store.state / f"{HISTORY}{suffix}", follow_symlinks=False).st_size
        except OSError:
            continue
    tokens = estimate_tokens(clip_index(index, headers, order=order).text)
    return fill(
        "scope",
        store,
        path=store.root,
        memories=len(headers),
        types={kind: kinds[kind] for kind in (*KINDS, NO_TYPE)},
        pinned=sum(header.pinned for header in headers),
        waiting=waiting,
        index=fill("lines bytes", used, share=round(used.share, 4), tokens=tokens),
        history={"changes": changes, "bytes": size},
        last_change=cli.make_change_row(last[0]) if last else None,
        recalled={"times": sum(times), "memories": sum(map(bool, times)), "never": times.count(0)}
        | _count_background_selections(store),
        verdicts=_count_verdicts(store, headers),
    )


def _count_background_selections(store: FileStore) -> dict[str, int]:
    """Count the latest background selections, and those that came only with the next prompt or not at all."""
    selected: list[Surfacing] = []
    with suppress(DiskError):  # `doctor` reports the cause
        selected = [recall for recall in store.recalls(limit=_RECALLS) if recall.selector in BACKGROUND]
    late = sum(recall.moment in (Moment.LATE, Moment.TOO_LATE) for recall in selected)
    return {"selected": len(selected), "late": late}


def _count_verdicts(store: FileStore, headers: Sequence[Header]) -> dict[str, int]:
    """Count memories by verification state; a memory that changed since its last check counts as unchecked."""
    checked = records.read_states(store)
    signatures = {header.name: records.render_signature(header.signature) for header in headers}
    counts = Counter(state for name, (state, signature) in checked.items() if signatures.get(name) == signature)
    counts[VerifyState.UNCHECKED] += len(headers) - counts.total()
    return {state.value: counts[state] for state in VerifyState}


def _show_state(out: Output, project: Project, row: Row) -> None:
    state = "on" if row["on"] else "off"
    out.line(Styled("memory is ", "bold"), Styled(state, "green" if row["on"] else "red"), f" ({row['rule']})")
    if row["paused"]:
        until = project.settings.find_pause_end(project.now())
        when = f" until {until.astimezone():%Y-%m-%d %H:%M}" if until else ""
        out.line(Styled(f"paused{when}: nothing is remembered or recalled; `memdir resume` ends it", "yellow"))


def _list_recent_events(store: FileStore) -> list[tuple[datetime, str]]:
    """Return the latest changes and recalls, or nothing if history cannot be read (`doctor` reports that)."""
    with suppress(DiskError):
        return [
            (change.at, f"{change.verb} {shorten(', '.join(cli.find_change_names(change)), 60)} by {change.origin.who}")
            for change in store.changes(limit=_LATELY)
        ] + [
            (recall.at, f"recalled {recall.name} for “{shorten(one_line(recall.query), 50)}”")
            for recall in store.recalls(limit=_LATELY)
            if recall.moment.is_shown
        ]
    return []


def _show_summary(out: Output, project: Project, row: Row, report: UsageReport, problem: str) -> None:
    """Print one screen: state, recent activity, items that need review, and costs."""
    now = project.now()
    _show_state(out, project, row)
    installed = {installation.host for installation in find_installed(project.environment, project.places.root.path)}
    hosts = [host for host in HOSTS.values() if host.key in installed]
    titles = ", ".join(host.title for host in hosts) or "none; `memdir install` puts it into one"
    out.line(f"{'agents':<14}{titles}")
    for host in hosts:
        if has_changed_since_probe(project.environment.state_home, host, project.environment.inherited.get("PATH")):
            out.line(
                f"{'':<14}{host.title} was updated: `memdir doctor --probe {host.key}` shows whether memdir still reaches it"
            )
    for scope in row["scopes"]:
        label = _SCOPE_LABELS.get(scope["scope"], scope["scope"])
        used = f"index {scope['index']['share']:.0%} full" if scope["memories"] else "empty"
        out.line(f"{label:<14}{count_words(scope['memories'], 'memory')}, {used}", Styled(f"  {scope['path']}", "dim"))
    lately = [event for store in project.stores for event in _list_recent_events(store)]
    out.line()
    out.line(Styled("lately", "bold"), "" if lately else "  nothing yet")
    for time, what in sorted(lately, key=itemgetter(0), reverse=True)[:_LATELY]:
        out.line(f"  {cli.show_time(out, time, now)}: {what}")
    out.line()
    needs = []
    if waiting := sum(scope["waiting"] for scope in row["scopes"]):
        needs.append(f"{waiting} in the inbox, waiting for you: `memdir inbox`")
    needs += [
        f"the index of {_SCOPE_LABELS.get(scope['scope'], scope['scope'])} is {scope['index']['share']:.0%} full: "
        "`memdir dream` tidies it"
        for scope in row["scopes"]
        if scope["index"]["share"] >= INDEX_WARN_SHARE
    ]
    stale = sum(scope["verdicts"][VerifyState.STALE] for scope in row["scopes"])
    needs += [f"{count_words(stale, 'memory')} no longer true: `memdir verify`"] if stale else []
    needs += [line for line in (problem, render_undecided(project.settings, hosts)) if line]
    out.line(Styled("needs you", "bold"), "" if needs else "  nothing")
    for need in needs:
        out.line(Styled(f"  {need}", "yellow"))
    model = project.settings.text("model")
    cap = f" of {caps:,}" if (caps := row["usage"]["caps"]["day_tokens"]) else ""
    week = sum_totals(totals) if (totals := [*sum_last_week(report).values()]) else None
    spent = f"; {describe_dollars(week.usage, unpriced=week.unpriced)} in the week of {week.week}" if week else ""
    out.line()
    out.line(Styled("costs", "bold"))
    for start in row["loads"]["hosts"]:
        loaded = (
            f", {start['loaded_tokens']:,} of them loaded by the agent from {INDEX_FILE}"
            if start["loaded_tokens"]
            else ""
        )
        out.line(f"  a session in {start['title']} starts with about {start['tokens']:,} tokens{loaded}")
    used = f"{report.today:,}{cap} tokens today{spent}" if model != "none" or report.last else "nothing is sent"
    out.line(f"  model {model}: {used}{'' if model != 'none' else '; session notes need a model'}")


def _show_usage(out: Output, project: Project, report: UsageReport, problem: str) -> None:
    """Print one line per week for this project and all others, and one per recent request."""
    cap = f" of {day_cap:,}" if (day_cap := int(project.settings.number("budget.day_tokens"))) else ""
    out.line(Styled("models", "bold"), f"  {project.settings.text('model')}; today {report.today:,}{cap} tokens")
    if problem:
        out.line(Styled(f"  {problem}", "red"))
    elif not report.last:
        out.line("  no model has been asked yet")
    sums: dict[tuple[str, str], UsageTotal] = {}
    for total in report.totals:
        key = (total.week, "this project" if total.project == str(project.places.root.path) else "other projects")
        sums[key] = sum_totals([sums[key], total]) if key in sums else total
    weeks = sorted({week for week, _ in sums}, reverse=True)[:_WEEKS_SHOWN]
    for (week, where), total in sorted(sums.items(), reverse=True):
        if week in weeks:
            out.line(f"  week of {week}  {where:<15}{_describe_total(total)}")
    for total in report.totals:
        if total.week == weeks[0]:
            took = "" if total.seconds is None else f", {total.seconds:.1f} s each"
            out.line(
                f"  this week for {total.purpose or 'other'}: {_describe_total(total)}{took}",
                Styled(f"  {total.project}", "dim"),
            )
    if report.last:
        out.line()
        out.line(Styled("the last requests", "bold"))
        for entry in report.last:
            out.line(f"  {cli.make_time(entry.at)}  {render_usage_row(entry)}", Styled(f"  {entry.project}", "dim"))


def _describe_total(total: UsageTotal) -> str:
    failed = f" ({total.failed} failed)" if total.failed else ""
    return f"{total.requests} requests{failed}, {describe_cost(total.usage, unpriced=total.unpriced)}"


# `verify`.


@verb(
    "verify", "Check memories against the project.",
    "memdir verify", "memdir verify deploy-freeze", "memdir verify --stamp", "memdir verify --json",
)  # fmt: skip
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_names)
@click.option("--stamp", "is_stamping", is_flag=True, help="Write `verified` into each memory whose claims all hold.")
@scope_option
def verify_verb(call: CliContext, names: tuple[str, ...], is_stamping: bool, scope: str | None, as_json: bool) -> int:
    """Check the paths, symbols, commands, flags, variables, deadlines and links that memories mention.

    Exits with 1 if anything has moved, disappeared or expired. Names that were never in the project cannot be checked.
    It does not use a model, and does not change or run anything in the project.

    In a pipe: scope, name, state, line, kind, claim, status, message, separated by tabs; a memory without stale claims
    has one line with the last five empty.
    """
    out, project = call.out, call.open_to_write() if is_stamping else call.open()
    verdicts: list[tuple[FileStore, Verdict]] = []
    reports, stamps = [], []
    for store, chosen_names in _choose(project, names, scope):
        root, now = None if store.scope is Scope.USER else project.places.root.path, project.now()
        report = verify(store, root, chosen_names, now=now, on_progress=out.progress)
        stamps.append(stamp(store, report, now=now, origin=call.origin()) if is_stamping else StampResult(None))
        reports.append(report)
        verdicts += [(store, verdict) for verdict in report.verdicts]
    out.progress("")
    counts = Counter(verdict.state for _, verdict in verdicts)
    if as_json:
        row = {
            "memories": [_make_verdict(store, verdict) for store, verdict in verdicts],
            "counts": {state.value: counts[state] for state in VerifyState},
            "stamped": [name for one in stamps for name in one.names],
            "changes": [one.change for one in stamps if one.change is not None],
        }
        out.json(row)
    elif out.is_table:
        _show_verdicts(out, verdicts, counts)
        for one in stamps:
            if one.names:
                out.line(f"stamped {len(one.names)}; `memdir undo {one.change}` reverts it")
    else:
        cells = [
            (name_scope(store, verdict.name), verdict.name, verdict.state.value, *claim)
            for store, verdict in verdicts
            for claim in [
                (str(item.claim.line), item.claim.kind.value, item.claim.text, item.status.value, render_claim(item))
                for item in verdict.stale
            ]
            or [("",) * 5]
        ]
        out.table([TableColumn("", "", itemgetter(index)) for index in range(8)], cells)
    for problem in dict.fromkeys(report.problem for report in reports if report.problem):
        out.warn(problem)
    for name, reason in [refusal for one in stamps for refusal in one.refused]:
        out.warn(f"{name} is not stamped: {reason}")
    return cli.REFUSED if any(report.has_stale for report in reports) else cli.DONE


def _choose(project: Project, names: Sequence[str], scope: str | None) -> list[tuple[FileStore, list[str] | None]]:
    """Return the stores to check, each with the names of the memories to check; None means all memories."""
    if names:
        names_by_store: dict[int, tuple[FileStore, list[str]]] = {}
        for name in names:
            store, header = find_memory(choose_stores(project, scope), name, scope=scope)
            names_by_store.setdefault(id(store), (store, []))[1].append(header.name)
        return list(names_by_store.values())
    if scope in (Scope.PRIVATE.value, Scope.TEAM.value):
        store = choose_store(project, scope)
        return [(store, [one.name for one in store.scan() if (one.scope is Scope.TEAM) == (scope == Scope.TEAM.value)])]
    return [(store, None) for store in choose_stores(project, scope)]


def _make_verdict(store: FileStore, verdict: Verdict) -> Row:
    fields = "kind text line column status where? to? commit? came? note?"
    return fill(
        "name state checked",
        verdict,
        path=store.root / f"{verdict.name}.md",
        scope=name_scope(store, verdict.name),
        caveat=records.render_caveat(verdict) or None,
        claims=[fill(fields, claim, claim.claim) for claim in verdict.claims],
    )


def _show_verdicts(out: Output, found: list[tuple[FileStore, Verdict]], counts: Mapping[VerifyState, int]) -> None:
    for store, verdict in found:
        if verdict.state is VerifyState.UNCHECKED:
            continue
        known = [claim for claim in verdict.claims if claim.status is not ClaimStatus.UNKNOWN]
        holding = len(known) - len(verdict.stale)
        what = (
            f"{holding} of {len(known)} hold" if verdict.stale else f"{len(known)} hold{'s' if len(known) == 1 else ''}"
        )
        state, name = verdict.state.value, f"{name_scope(store, verdict.name)}: {verdict.name}"
        out.line(Styled(state, _STATE_STYLES[state]), "  ", Styled(name, "cyan"), Styled(f"  {what}", "dim"))
        for checked in verdict.stale:
            out.line(f"    line {checked.claim.line}: {render_claim(checked)}")
    words = {VerifyState.UNCHECKED: "with nothing to check"}
    summary = ", ".join(f"{counts[state]} {words.get(state, state.value)}" for state in VerifyState if counts[state])
    out.line(cli.count_words(len(found), "memory") + (f": {summary}" if summary else ""))


# `doctor`.


@verb(
    "doctor", "Find problems with memdir and fix them.", "memdir doctor", "memdir doctor --fix",
    "memdir doctor --probe claude-code",
)  # fmt: skip
@click.option(
    "--fix", "is_fixing", is_flag=True,
    help="Rebuild derived data, such as index lines. Memories are not changed.",
)  # fmt: skip
@click.option(
    "--probe", metavar="AGENT", is_flag=False, flag_value="",
    help="Run the agent itself against a model on this machine, and show what reaches it. Without AGENT, all that are installed.",
)  # fmt: skip
@click.option("--seconds", type=click.FloatRange(1), default=180.0, show_default=True, help="Time limit of a probe.")
@scope_option
def doctor_verb(
    call: CliContext,
    is_fixing: bool,
    probe: str | None,
    seconds: float,
    scope: str | None,
    as_json: bool,
) -> int:
    """Find problems. Exits with 1 if there are errors or warnings.

    In a pipe: level, kind, scope, location, problem, fix, separated by tabs.
    """
    out = call.out
    if probe is not None:
        return _run_probe(call, probe, seconds, as_json=as_json)
    findings, fixed = _run_checks(call, scope, is_fixing=is_fixing)
    rows = [fill("kind level where line message fix fixable", finding, scope=where) for where, finding in findings]
    if as_json:
        out.json({"findings": rows, "counts": doctor.count_kinds([finding for _, finding in findings]), "fixed": fixed})
    else:
        if not out.is_table:
            cells = [
                (one["level"], one["kind"], one["scope"], _name_place(one), one["message"], one["fix"]) for one in rows
            ]
            out.table([TableColumn("", "", itemgetter(index)) for index in range(6)], cells)
        for level in dict.fromkeys(LEVELS.values()) if out.is_table else ():
            if at_level := [row for row in rows if row["level"] == level]:
                counted = f"{len(at_level)} advice" if level == "advice" else cli.count_words(len(at_level), level)
                out.line(Styled(counted, _LEVEL_STYLES[level]))
            for row in at_level:
                place, fix = Styled(f"{row['scope']}: {_name_place(row)}", "cyan"), Styled(f" — {row['fix']}", "dim")
                out.line("  ", place, f": {row['message']}", fix)
        if fixed or is_fixing:
            message = f"fixed {fixed}; `memdir history` shows how, `memdir undo` reverts it"
            out.line(message if fixed else "nothing to fix by itself")
        if not rows and out.is_table:
            out.line(Styled("nothing wrong", "green"))
    return cli.REFUSED if any(row["level"] != "advice" for row in rows) else cli.DONE


_MOMENTS = {"start": "session start", "prompt": "prompt", "action": "action", "end": "end of a turn"}


def _run_probe(call: CliContext, name: str, seconds: float, *, as_json: bool) -> int:
    # Imported here: it starts a server.
    from memdir.interfaces.probe import record_probe, run_probe

    out, environment = call.out, call.environment
    hosts = (
        [host for host in [find_host(name)] if host]
        if name
        else [host for host in list_present(environment) if host.hooks]
    )
    if not hosts:
        raise NotFoundError(
            f"unknown agent {name!r}" if name else "no agent was found",
            name=name,
            hint=f"use one of {', '.join(HOSTS)}",
        )
    rows, is_bad = [], False
    for host in hosts:
        if out.is_table and not as_json:
            out.line(Styled(f"running {host.title}…", "dim"))
        result = run_probe(host, environment.inherited, seconds=seconds)
        if result.reached is not None:
            record_probe(environment.state_home, host, result, environment.inherited.get("PATH"))
        reached = result.reached or {}
        is_bad |= bool(result.problem) or not all(reached.values())
        rows.append(fill("host version problem", result, reached=reached))
        if not as_json:
            what = result.problem or ", ".join(
                f"{_MOMENTS[key]} {'reached' if value else 'LOST'}" for key, value in reached.items()
            )
            out.line(Styled(f"{host.title} {result.version}".strip(), "bold"), f": {what}")
    if as_json:
        out.json({"probes": rows})
    elif any(row["reached"] and not all(row["reached"].values()) for row in rows):
        out.line(
            "what is lost does not reach the model or memdir: run `memdir install` again, or report it with the agent's version"
        )
    return cli.REFUSED if is_bad else cli.DONE


def _run_checks(call: CliContext, scope: str | None, *, is_fixing: bool) -> tuple[list[tuple[str, DoctorFinding]], int]:
    environment = call.environment
    try:
        settings, paths = read_paths(environment, call.cwd.absolute())
    except SettingsError as error:
        # Settings determine where memory is, so without them nothing else can be checked.
        what = f"{error}; no other checks were made"
        return [("settings", DoctorFinding("unreadable_settings", "settings", what, error.hint or "fix it"))], 0
    if call.directory is None and (collision := find_collision(environment, paths)) is not None:
        # The directory belongs to another project, and this one has no memory until the collision is resolved.
        hits, where = doctor.check_settings(settings, paths), str(paths.private.path)
        return [
            *(("settings", finding) for finding in hits),
            ("private", DoctorFinding("slug_collision", where, collision.reason, collision.hint)),
        ], 0
    project, is_wide = call.open(), scope is None
    stores = choose_stores(project, scope)
    fixed = doctor.repair_project(project, stores, is_wide=is_wide) if is_fixing else 0
    return doctor.examine_project(project, stores, is_wide=is_wide), fixed


def _name_place(row: Row) -> str:
    return row["where"] if row["line"] is None else f"{row['where']}:{row['line']}"
