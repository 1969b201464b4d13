"""The content of the pages about recall, the timeline and the state of the project."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from memdir.errors import DiskError
from memdir.format.shown import show_memory
from memdir.interfaces import doctor
from memdir.interfaces.web.pages import Params, Row, find_row, home_of, make_change, make_meter, name_who, run_recall
from memdir.interfaces.web.render import find_words, plain, quote_path, show_day, show_time, strip
from memdir.interfaces.web.site import WEEKS, Site, SiteList, count_weeks, name_scope
from memdir.limits import CONVERSATION_BYTES
from memdir.models.usage import FILE, UsageReport, describe_cost, read_usage_report, sum_last_week, sum_totals
from memdir.project.settings import SETTINGS, Settings
from memdir.recall.terms import parse_terms
from memdir.records import Pick, Surfacing
from memdir.text import printable

_CHANGES, _SHOWN = 60, 30  # rows of the timeline


# Why.


def show_why(site: Site, params: Params) -> Row:
    prompt, session = params.get("prompt", ""), params.get("session", "")
    listed, now = site.memories(), site.now()
    data: Row = {
        "prompt": prompt,
        "session": session,
        "total": len(listed.rows),
        "result": None,
        "sessions": _list_sessions(site, now),
        "replay": _replay(site, session, now) if session else None,
    }
    if prompt.strip():
        recall = run_recall(site, prompt, session=session)
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


def _list_sessions(site: Site, now: datetime) -> list[Row]:
    sessions: dict[str, Row] = {}
    for store in site.files.values():
        for recall in store.recalls(limit=2_000):
            if recall.session and recall.session not in sessions:
                row = {"id": recall.session, "when": show_time(recall.at, now), "at": recall.at}
                sessions[recall.session] = row | {"query": plain(recall.query, 60)}
    return sorted(sessions.values(), key=lambda row: row["at"], reverse=True)[:40]


def _replay(site: Site, session: str, now: datetime) -> Row:
    """Return the prompts and actions of a conversation for which memories were shown."""
    links_by_query: dict[str, list[Row]] = {}
    times: dict[str, datetime] = {}
    for home, store in site.files.items():
        for recall in reversed(store.recalls(limit=-1)):
            if recall.session == session and recall.moment.is_shown:
                links_by_query.setdefault(recall.query, []).append(_make_link(site, home, recall))
                times.setdefault(recall.query, recall.at)
    prompts = [
        {"prompt": plain(query, 300), "shown": rows, "when": show_time(times[query], now)}
        for query, rows in links_by_query.items()
    ]
    return {"session": session, "prompts": prompts}


def _make_link(site: Site, home: str, recall: Surfacing) -> Row:
    row = site.memories().by_key.get(f"{home}/{recall.name}")
    title = plain(row.header.title if row else recall.name, 80)
    return {"title": title, "path": f"/m/{home}/{quote_path(recall.name)}", "moment": recall.moment.value}


def _list_shown(site: Site, now: datetime) -> list[Row]:
    """Return what was shown to agents last, and at which moment. On a server the prompts are those of other members."""
    if site.project is None:
        return []
    recalls = [(home, recall) for home, store in site.files.items() for recall in store.recalls(limit=_SHOWN)]
    recalls.sort(key=lambda entry: entry[1].at, reverse=True)
    return [
        _make_link(site, home, recall) | {"when": show_time(recall.at, now), "query": plain(recall.query, 120)}
        for home, recall in recalls[:_SHOWN]
    ]


# The timeline and pictures.

_SPANS = {"month": 4, "12w": WEEKS, "all": 0}


def show_timeline(site: Site, params: Params) -> Row:
    now = site.now()
    span = params.get("span") if params.get("span") in _SPANS else "12w"
    weeks = _SPANS[str(span)] or 52
    since = now - timedelta(weeks=weeks) if span != "all" else datetime.min.replace(tzinfo=now.tzinfo)
    chosen_who = params.get("who", "")
    every = [(home, change) for home, store in site.stores.items() for change in store.changes(limit=5_000)]
    every.sort(key=lambda entry: entry[1].at, reverse=True)
    inside = [(home, change) for home, change in every if change.at >= since]
    by_who: dict[str, list[int]] = {}
    for _, change in inside:
        counts = by_who.setdefault(change.origin.who, [0] * weeks)
        if (week := count_weeks(change.at, now)) < weeks:
            counts[weeks - 1 - week] += 1
    most = max((max(counts) for counts in by_who.values()), default=1) or 1
    chosen = [(home, change) for home, change in inside if not chosen_who or change.origin.who == chosen_who]
    start = max(0, int(after)) if (after := params.get("after", "0")).isdecimal() else 0
    page = [make_change(site, home, change, now) for home, change in chosen[start : start + _CHANGES]]
    days: dict[str, list[Row]] = {}
    for row in page:
        days.setdefault(row["day"], []).append(row)
    return {
        "span": span,
        "who": chosen_who,
        "total": len(every),
        "inside": len(inside),
        "from": show_day(now - timedelta(weeks=weeks), now).partition(", ")[2],
        "to": show_day(now, now).partition(", ")[2],
        "authors": [
            {"who": who, "words": name_who(who), "total": sum(counts), "weeks": counts, "svg": strip(counts, most)}
            for who, counts in sorted(by_who.items(), key=lambda entry: -sum(entry[1]))
        ],
        "days": [{"day": day, "rows": rows} for day, rows in days.items()],
        "shown": _list_shown(site, now),
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
    findings: list[tuple[str, Any]] = [
        ("settings", finding) for finding in doctor.check_settings(project.settings, project.places)
    ]
    skip = project.settings.flag("skip_index")
    for home, store in site.files.items():
        findings += [(home, finding) for finding in doctor.examine(store, skip_index=skip)]
    findings += [
        ("background", finding) for finding in doctor.examine_background(project.private.state, now=site.now())
    ]
    rows = []
    for home, finding in findings:
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
