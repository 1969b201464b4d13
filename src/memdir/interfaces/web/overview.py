"""The content of the pages about recall, the timeline and the state of the project."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from memdir.errors import DiskError
from memdir.format.shown import show_memory
from memdir.interfaces import doctor
from memdir.interfaces.web import plots
from memdir.interfaces.web.pages import (
    Params,
    Row,
    find_row,
    home_of,
    make_change,
    make_link,
    name_who,
    run_recall,
)
from memdir.interfaces.web.render import plain, quote_path, show_ago, show_day, show_time
from memdir.interfaces.web.site import WEEKS, Site, SiteList, count_weeks, name_scope
from memdir.limits import CONVERSATION_BYTES
from memdir.models.connection import sum_usage
from memdir.models.usage import FILE as USAGE
from memdir.models.usage import UsageReport, UsageTotal, describe_dollars, read_usage_report
from memdir.project.hosts import HOSTS, find_installed
from memdir.project.settings import SETTINGS, Settings
from memdir.recall.terms import parse_terms
from memdir.records import Pick
from memdir.store.facts import find_authors
from memdir.store.state import read_events
from memdir.sync.state import read_membership, read_sync_record, read_team_news
from memdir.text import printable

_CHANGES = 60  # rows of the timeline


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
        top = max([pick.score for pick in picks], default=0.0) or 1.0
        texts = (f"{pick.header.title} {pick.header.description} {' '.join(pick.header.cues)}" for pick in picks)
        spelled, asked = plots.find_words((*texts, prompt)), set(parse_terms(prompt))
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
                _make_candidate(listed, site, number, pick, top, spelled) for number, pick in enumerate(picks[:24], 1)
            ],
            "given": [printable(show_memory(memory, now=now)) for memory in recall.memories],
            "bytes": sum(memory.size for memory in recall.memories),
            "most_bytes": CONVERSATION_BYTES,
        }
    return data


def _make_candidate(listed: SiteList, site: Site, number: int, pick: Pick, top: float, spelled: Params) -> Row:
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
        "svg": plots.score_bar((parts.lexical, parts.semantic, parts.prior), top),
    }


def _list_sessions(site: Site, now: datetime) -> list[Row]:
    """Return conversations with recalled memories, newest first."""
    sessions: dict[str, Row] = {}
    for store in site.files.values():
        for recall in store.recalls(limit=2_000):
            if recall.session and recall.session not in sessions:
                row = {"id": recall.session, "when": show_time(recall.at, now), "at": recall.at}
                sessions[recall.session] = row | {"query": plain(recall.query, 60)}
    return sorted(sessions.values(), key=lambda row: row["at"], reverse=True)[:40]


def _replay(site: Site, session: str, now: datetime) -> Row:
    """Return the prompts of a conversation for which memories were recalled."""
    links_by_query: dict[str, list[Row]] = {}
    times: dict[str, datetime] = {}
    for home, store in site.files.items():
        for recall in reversed(store.recalls(limit=-1)):
            if recall.session == session:
                row = site.memories().by_key.get(f"{home}/{recall.name}")
                title = plain(row.header.title if row else recall.name, 80)
                link = {"title": title, "path": f"/m/{home}/{quote_path(recall.name)}"}
                links_by_query.setdefault(recall.query, []).append(link)
                times.setdefault(recall.query, recall.at)
    prompts = [
        {"prompt": plain(query, 300), "shown": rows, "when": show_time(times[query], now)}
        for query, rows in links_by_query.items()
    ]
    return {"session": session, "prompts": prompts}


# The timeline and pictures.

_SPANS = {"month": 4, "12w": WEEKS, "all": 0}


def show_timeline(site: Site, params: Params) -> Row:
    now, listed = site.now(), site.memories()
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
            {
                "who": who,
                "words": name_who(who),
                "total": sum(counts),
                "weeks": counts,
                "svg": plots.strip(counts, most),
            }
            for who, counts in sorted(by_who.items(), key=lambda entry: -sum(entry[1]))
        ],
        "days": [{"day": day, "rows": rows} for day, rows in days.items()],
        "next": start + _CHANGES if start + _CHANGES < len(chosen) else None,
        "usage": _make_usage(site, now),
        "recalled": _make_recalled(listed),
        "never": sum(not row.uses for row in listed.rows),
        "shown": _make_shown(site, now, min(weeks, 26)),
    }


def _make_usage(site: Site, now: datetime) -> Row:
    report = UsageReport()
    if site.project is not None:
        with suppress(DiskError):
            report = read_usage_report(site.project.environment.state_home / USAGE, now=now)
    root = str(site.project.places.root.path) if site.project is not None else ""
    weeks = [(now - timedelta(weeks=back)).astimezone() for back in range(7, -1, -1)]
    names = [(week - timedelta(days=week.weekday())).date().isoformat() for week in weeks]
    rows: dict[str, list[UsageTotal]] = {}
    for total in report.totals:
        if total.project in (root, ""):
            rows.setdefault(total.purpose or "other", []).append(total)
    table = []
    for purpose, totals in sorted(rows.items()):
        tokens = [
            sum(total.usage.input + total.usage.output for total in totals if total.week == week) for week in names
        ]
        row = {"purpose": plain(purpose), "tokens": sum(tokens), "weeks": tokens, **_make_cost(totals)}
        table.append(row | {"svg": plots.strip(tokens, max([*tokens, 1]))})
    every = [total for totals in rows.values() for total in totals]
    return {"rows": table, "weeks": len(names), **_make_cost(every)}


def _make_cost(totals: Sequence[UsageTotal]) -> Row:
    usage = sum_usage(*(total.usage for total in totals))
    return {"dollars": usage.dollars, "cost": describe_dollars(usage, unpriced=sum(total.unpriced for total in totals))}


def _make_recalled(listed: SiteList) -> list[Row]:
    best = sorted((row for row in listed.rows if row.uses), key=lambda row: -row.uses)[:8]
    most = best[0].uses if best else 1
    return [
        {
            "title": plain(row.header.title or row.header.name, 80),
            "path": f"/m/{row.home}/{quote_path(row.header.name)}",
            "uses": row.uses,
            "svg": plots.bar(row.uses, most),
        }
        for row in best
    ]


def _make_shown(site: Site, now: datetime, weeks: int) -> Row:
    counts = [0] * weeks
    for store in site.stores.values():
        for by_week in store.count_recalls(weeks=weeks, now=now).by_week.values():
            counts = [count + added for count, added in zip(counts, by_week, strict=True)]
    label = f"Memories shown by week: {', '.join(map(str, counts))}"
    return {"total": sum(counts), "weeks": counts, "svg": plots.strip(counts, max([*counts, 1]), label)}


# Health, settings, team.


def show_health(site: Site, params: Params) -> Row:
    project, now = site.local_project, site.now()
    findings = list_findings(site)
    levels = Counter(finding["level"] for finding in findings)
    settings = [_make_setting(project.settings, setting) for setting in SETTINGS]
    return {
        "findings": findings,
        "levels": levels,
        "fixable": sum(finding["fixable"] for finding in findings),
        "hosts": _make_hosts(site, now),
        "team": _make_team(site, now),
        "settings": settings,
        "changed": sum(not row["is_default"] for row in settings),
        "all": params.get("all") == "1",
        "config": str(project.environment.config_file),
        "places": [{"scope": name_scope(key), "path": str(store.root)} for key, store in site.files.items()],
    }


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


def _make_hosts(site: Site, now: datetime) -> list[Row]:
    project = site.local_project
    installed: dict[str, set[str]] = {}
    for hook in find_installed(project.environment, project.places.root.path):
        installed.setdefault(hook.host, set()).update(str(event) for event in hook.events)
    arrived: dict[str, dict[str, datetime]] = {}
    for event in read_events(project.private.state):
        arrived.setdefault(event.host, {})[event.event] = event.at
    rows = []
    for key in HOSTS:
        events = arrived.get(key, {})
        expected = installed.get(key, set())
        words = "not installed"
        if expected:
            arrived_count = len([event for event in expected if event in events])
            is_partial = arrived_count < len(expected)
            words = (
                f"{arrived_count} of {len(expected)} events have arrived"
                if is_partial
                else f"all {len(expected)} events arrive"
            )
        last = max(events.values(), default=None)
        ago = f"{show_ago(last, now)} ago" if last else ""
        is_whole = bool(expected) and expected <= set(events)
        row = {"host": key, "words": words, "is_installed": bool(expected), "is_whole": is_whole, "ago": ago}
        rows.append(row)
    return sorted(rows, key=lambda row: not row["is_installed"])


def _make_team(site: Site, now: datetime) -> Row | None:
    store = site.local_project.private
    member = read_membership(store.state)
    if member is None:
        return None
    record = read_sync_record(store.state)
    signers = store.read_signers()
    listed, counts = site.memories(), Counter(find_authors(store, signers.keys()).values())
    emails = {author.name: author.email for author in signers.values()}
    return {
        "branch": member.branch,
        "outcome": record.outcome,
        "error": plain(record.error, 300),
        "last": f"{show_ago(record.last_good, now)} ago" if record.last_good else "never",
        "members": [
            {"name": plain(name, 60), "email": plain(emails.get(name, ""), 80), "count": count}
            for name, count in counts.most_common()
        ],
        "news": [
            make_link(listed, store.scope.value, entry.name)
            | {"author": plain(entry.author, 60), "change": plain(entry.change, 20)}
            for entry in read_team_news(store.state)[:20]
        ],
        "refused": [{"path": plain(path), "why": plain(why, 200)} for path, why in sorted(record.refused.items())],
        "withheld": [{"path": plain(path), "why": plain(why, 200)} for path, why in sorted(record.withheld.items())],
    }


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
        "choices": list(setting.choices),
        "source": plain(source, 200),
        "help": setting.help,
        "allowed": setting.allowed,
        "is_common": setting.key in _COMMON,
        "is_fixed": not (source == "default" or source.startswith("config file")),
    }
