"""The content of the pages about recall, the timeline and the state of the project."""

from collections import Counter
from typing import Any

from memdir.errors import DiskError
from memdir.format.shown import show_memory
from memdir.interfaces import doctor
from memdir.interfaces.web.pages import Params, Row, find_row, home_of, make_change, make_meter, name_who, run_recall
from memdir.interfaces.web.render import find_words, plain, quote_path, show_time
from memdir.interfaces.web.site import Site, SiteList, name_scope
from memdir.limits import CONVERSATION_BYTES
from memdir.models.usage import FILE, UsageReport, describe_cost, read_usage_report, sum_last_week, sum_totals
from memdir.project.settings import SETTINGS, Settings
from memdir.recall.terms import parse_terms
from memdir.records import Pick
from memdir.text import printable

_CHANGES, _SHOWN = 60, 30  # rows of the timeline


# Why.


def show_why(site: Site, params: Params) -> Row:
    prompt, listed, now = params.get("prompt", ""), site.memories(), site.now()
    data: Row = {"prompt": prompt, "total": len(listed.rows), "result": None}
    if prompt.strip():
        recall = run_recall(site, prompt)
        picks = sorted(recall.picks, key=lambda pick: (bool(pick.dropped), -pick.score))
        texts = (f"{pick.header.title} {pick.header.description} {' '.join(pick.header.cues)}" for pick in picks)
        spelled, asked = find_words((*texts, prompt)), set(parse_terms(prompt))
        met = sorted({term for pick in picks for term in pick.evidence.words})
        data["result"] = {
            "skipped": recall.skipped.words if recall.skipped else "",
            "elapsed_ms": round(recall.elapsed_ms, 1),
            "selector": recall.selector,
            "shown": len(recall.memories),
            "best": round(max([pick.score for pick in picks], default=0.0), 3),
            "least": round(min([pick.score for pick in picks if not pick.dropped], default=0.0), 3),
            "words": [spelled.get(term, term) for term in met if term in asked][:12],
            "near": [spelled.get(term, term) for term in met if term not in asked][:12],
            "candidates": [
                _make_candidate(listed, site, number, pick, spelled) for number, pick in enumerate(picks[:24], 1)
            ],
            "given": [printable(show_memory(memory, now=now)) for memory in recall.memories],
            "bytes": sum(memory.size for memory in recall.memories),
            "most_bytes": CONVERSATION_BYTES,
        }
    return data


def _make_candidate(listed: SiteList, site: Site, number: int, pick: Pick, spelled: Params) -> Row:
    row = find_row(listed, site, pick)
    parts = pick.evidence
    return {
        "number": number,
        "title": plain(pick.header.title or pick.header.name, 120),
        "name": pick.header.name,
        "path": f"/m/{home_of(site, pick.header.scope)}/{quote_path(pick.header.name)}" if row else "",
        "score": round(pick.score, 3),
        "lexical": round(parts.lexical, 3),
        "semantic": round(parts.semantic, 3),
        "prior": round(parts.prior, 3),
        "words": [plain(spelled.get(term, term), 40) for term in parts.words],
        "sure": None if parts.sure is None else round(parts.sure, 3),
        "dropped": pick.dropped,
    }


def _list_shown(site: Site) -> list[Row]:
    """Return the latest recalls with their prompts; none on a server, where the prompts are those of other members."""
    files = site.files.items() if site.project is not None else ()
    recalls = [(home, recall) for home, store in files for recall in store.recalls(limit=_SHOWN)]
    recalls.sort(key=lambda entry: entry[1].at, reverse=True)
    rows, known = list[Row](), site.memories().by_key
    for home, recall in recalls[:_SHOWN]:
        row = known.get(f"{home}/{recall.name}")
        title = plain(row.header.title if row else recall.name, 80)
        facts = {
            "when": show_time(recall.at, site.now()),
            "moment": recall.moment.value,
            "query": plain(recall.query, 120),
        }
        rows.append({"title": title, "path": f"/m/{home}/{quote_path(recall.name)}", **facts})
    return rows


# The timeline.


def show_timeline(site: Site, params: Params) -> Row:
    now, who = site.now(), params.get("who", "")
    every = [(home, change) for home, store in site.stores.items() for change in store.changes(limit=5_000)]
    every.sort(key=lambda entry: entry[1].at, reverse=True)
    counts = Counter(change.origin.who for _, change in every)
    chosen = [(home, change) for home, change in every if who in ("", change.origin.who)]
    start = max(0, int(after)) if (after := params.get("after", "0")).isdecimal() else 0
    days: dict[str, list[Row]] = {}
    for home, change in chosen[start : start + _CHANGES]:
        row = make_change(site, home, change, now)
        days.setdefault(row["day"], []).append(row)
    return {
        "who": who,
        "total": len(every),
        "authors": [{"who": who, "words": name_who(who), "total": count} for who, count in counts.most_common()],
        "days": [{"day": day, "rows": rows} for day, rows in days.items()],
        "shown": _list_shown(site),
        "next": start + _CHANGES if start + _CHANGES < len(chosen) else None,
    }


# Health, settings, team.


def show_health(site: Site, params: Params) -> Row:
    project = site.local_project
    findings = list_findings(site)
    levels = Counter(finding["level"] for finding in findings)
    settings = [_make_setting(project.settings, setting) for setting in SETTINGS]
    return {
        "findings": findings,
        "levels": levels,
        "fixable": sum(finding["fixable"] for finding in findings),
        "cost": _make_cost(site),
        "settings": settings,
        "changed": sum(not row["is_default"] for row in settings),
        "all": params.get("all") == "1",
        "config": str(project.environment.config_file),
        "places": [{"scope": name_scope(key), "path": str(store.root)} for key, store in site.files.items()],
    }


def _make_cost(site: Site) -> Row:
    """Describe the cost of a session's start in each agent, and the last week with model requests."""
    report, problem = UsageReport(), ""
    try:
        report = read_usage_report(site.local_project.environment.state_home / FILE, now=site.now())
    except DiskError as error:
        problem = str(error)
    purposes = sum_last_week(report)
    sums = {"total": sum_totals([*purposes.values()])} if purposes else {}
    rows = [
        {"purpose": plain(purpose), "requests": total.requests, "tokens": total.usage.input + total.usage.output}
        | {"dollars": total.usage.dollars, "cost": describe_cost(total.usage, unpriced=total.unpriced)}
        for purpose, total in (purposes | sums).items()
    ]
    week, starts = sums["total"].week if sums else "", (make_meter(site) or {}).get("starts", {})
    return {"starts": starts, "week": week, "rows": rows, "today": report.today, "problem": plain(problem, 300)}


def list_findings(site: Site) -> list[Row]:
    project = site.project
    if project is None:
        return []
    rows = []
    for home, finding in doctor.examine_project(project, project.stores):
        name = finding.where.removesuffix(".md")
        row = site.memories().by_key.get(f"{home}/{name}")
        rows.append(
            {
                "home": home,
                "kind": finding.kind,
                "level": finding.level,
                "where": plain(finding.where, 120),
                "line": finding.line,
                "message": plain(finding.message, 400),
                "fix": plain(finding.fix, 300),
                "fixable": finding.fixable,
                "path": f"/m/{home}/{quote_path(name)}" if row else "",
            }
        )
    order = {"error": 0, "warning": 1, "advice": 2}
    return sorted(rows, key=lambda row: order[row["level"]])


_COMMON = frozenset("model recall extract dream team notes paused user_memory daily_log".split())


def _make_setting(settings: Settings, setting: Any) -> Row:
    source = settings.sources.get(setting.key, "default")
    value = settings[setting.key]
    return {
        "key": setting.key,
        "value": value,
        "default": setting.default,
        "is_default": value == setting.default and source == "default",
        "is_flag": isinstance(setting.default, bool),
        "source": plain(source, 200),
        "help": setting.help,
        "is_common": setting.key in _COMMON,
    }
