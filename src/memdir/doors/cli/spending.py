"""The part of `status` about models: what they took, by week and project, and whether the memories are used at all."""

from typing import Any

from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import make_time
from memdir.errors import DiskError
from memdir.frozen import replace
from memdir.models.meter import render_entry
from memdir.models.usage import FILE, Entry, Report, Total, read_usage
from memdir.models.wire import add_usage
from memdir.opening import Opened
from memdir.records import Usage
from memdir.store.files import FileStore

ELSEWHERE = "other projects"
_WEEKS_SHOWN = 4


def make_usage_row(opened: Opened) -> dict[str, Any]:
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


def show_usage(out: Output, opened: Opened, *, whole: bool) -> None:
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
            out.line(f"  {make_time(entry.at)}  {render_entry(entry)}", Styled(f"  {entry.project}", "dim"))


def _read(opened: Opened) -> tuple[Report, str]:
    try:
        return read_usage(opened.environment.state_home / FILE, now=opened.now()), ""
    except DiskError as error:
        return Report(), str(error)


def _sum_weeks(report: Report, project: str) -> list[tuple[str, str, Total]]:
    sums: dict[tuple[str, str], Total] = {}
    for total in report.totals:
        key = (total.week, "this project" if total.project == project else ELSEWHERE)
        before = sums.get(key)
        sums[key] = total if before is None else _add(before, total)
    weeks = sorted({week for week, _ in sums}, reverse=True)[:_WEEKS_SHOWN]
    return [(week, where, total) for (week, where), total in sorted(sums.items(), reverse=True) if week in weeks]


def _add(one: Total, other: Total) -> Total:
    return replace(
        one,
        requests=one.requests + other.requests,
        failed=one.failed + other.failed,
        unpriced=one.unpriced + other.unpriced,
        usage=add_usage(one.usage, other.usage),
    )


def _say(total: Total) -> str:
    usage = total.usage
    failed = f" ({total.failed} failed)" if total.failed else ""
    share = f" ({usage.cached / usage.input:.0%} cached)" if usage.input else ""
    more = " and more" if total.unpriced and usage.dollars is not None else ""
    cost = "price unknown" if usage.dollars is None else f"about ${usage.dollars:.2f}{more}"
    read = f"{usage.input:,} tokens in{share}, {usage.output:,} out"
    return f"{total.requests} requests{failed}, {read}, {cost}"


def _make_total_row(total: Total) -> dict[str, Any]:
    return {
        "week": total.week,
        "project": total.project,
        "purpose": total.purpose,
        "requests": total.requests,
        "failed": total.failed,
        "unpriced": total.unpriced,
        **_make_tokens(total.usage),
    }


def _make_entry_row(entry: Entry) -> dict[str, Any]:
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
