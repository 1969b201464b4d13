"""The content of each page as tables of plain values, for the HTML template and the JSON version.

Keys that begin with `html` and `Markup` values are already safe; the template escapes everything else.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from memdir.conversation.start import measure_starts
from memdir.errors import DiskError, MemdirError, NotFoundError, SettingsError
from memdir.format.age import find_half_life, make_targets
from memdir.format.fields import FIELDS, NO_FIELDS, FrontmatterFields, describe_values, name_field
from memdir.format.frontmatter import decode, parse_fields, read_time, split_frontmatter
from memdir.format.index import clip_index, find_lines, measure_index
from memdir.format.rules import find_rules
from memdir.format.when import describe_when, dump_when
from memdir.interfaces.web.render import (
    mark_words,
    plain,
    quote_path,
    render_diff,
    show_ago,
    show_day,
    show_size,
    show_time,
    split_blocks,
)
from memdir.interfaces.web.site import MemoryRow, Site, SiteList, name_scope
from memdir.limits import INDEX_BYTES, INDEX_LINES
from memdir.recall.pipeline import RecallRequest, RecallResult, find_recalled
from memdir.records import (
    Change,
    Header,
    InboxState,
    Kind,
    Pick,
    Query,
    Scope,
    StoredMemory,
    Surfacing,
    When,
    count_outcomes,
)
from memdir.store.contract import Folder, StoreBase
from memdir.store.facts import find_ages, find_authors, find_stored_secrets, trace_sentences
from memdir.store.history import OUTSIDE
from memdir.store.inbox import find_evidence, mask_text
from memdir.store.plan import index_path, is_index_path
from memdir.text import estimate_tokens, fold
from memdir.verify.records import CheckedClaim, ClaimStatus, Verdict, VerifyState, find_verdicts, render_claim

Params = Mapping[str, str]
Row = dict[str, Any]
PAGE = 50  # memories per page
_FOUND = 40  # search results
_DIFFS = 10  # changes of a memory that are shown with their diff
_RECALLS, _CHANGES = 30, 60  # rows on a memory's page
# The author of a change: as a heading, after "by", and as a sentence about a text.
WHO = {
    "person": ("You", "you", "You wrote it"),
    "agent": ("Agent", "the agent", "The agent wrote it"),
    "extractor": ("Learned", "learning", "Learned from what you said"),
    "dream": ("Dream", "a dream", "Written by a dream"),
    "sync": ("Team", "the team", "From the team"),
    "import": ("Imported", "an import", "Imported"),
    "doctor": ("Repair", "a repair", "Repaired"),
    "outside": ("Outside", "an editor", "Written outside memdir"),
}
_STATES: dict[VerifyState | None, tuple[str, str, str]] = {
    None: ("dim", "dash", "not checked yet"),
    VerifyState.VERIFIED: ("ok", "check", "holds"),
    VerifyState.PARTLY: ("warn", "half", "partly holds"),
    VerifyState.STALE: ("bad", "cross", "out of date"),
    VerifyState.UNCHECKED: ("dim", "dash", "nothing to check"),
}
_AGES = {"week": 7, "month": 30, "older": 0}
_VERBS = {
    "save": "saved", "edit": "edited", "remember": "remembered", "forget": "forgot", "extract": "learned", "pin": "pinned",
    "unpin": "unpinned", "approve": "approved from the inbox", "reject": "rejected in the inbox", "undo": "undid a change of", "restore": "restored", "dream": "tidied",
    "sync": "synced", "import": "imported", "outside": "changed outside memdir", "index": "repaired the index line of",
    "promote": "moved", "demote": "moved", "verify": "checked", "revert": "reverted",
}  # fmt: skip


def name_who(who: str) -> str:
    return WHO[who][0] if who in WHO else (name := plain(who, 24))[:1].upper() + name[1:]


def name_by(who: str) -> str:
    """Return the author of a change as it reads after "by", such as `the agent`."""
    return WHO[who][1] if who in WHO else plain(who, 24)


def make_frame(site: Site, listed: SiteList) -> Row:
    project = site.project
    state = "on"
    if project is not None:
        state = "off" if not project.places.switch.on else "paused" if project.settings.flag("paused") else "on"
    return {
        "title": site.title,
        "place": site.place,
        "waiting": listed.waiting,
        "memory": state,
        "rule": project.places.switch.rule if project is not None else "",
        "is_local": project is not None,
        "can_edit": site.can_edit,
        "can_review": site.can_review,
        "key": site.key,
        "projects": site.memo("projects", site.sites.list_titles) if site.sites is not None else {},
    }


# The list and the search.


def show_memories(site: Site, params: Params) -> Row:
    listed, now = site.memories(), site.now()
    query = " ".join(params.get("q", "").split())
    chosen = {key: params.get(key, "") for key in ("type", "scope", "age", "state", "author", "never")}
    tests = [test for key, value in chosen.items() if value and (test := _TESTS[key](value, now)) is not None]
    rows = [row for row in listed.rows if all(test(row) for test in tests)] if tests else listed.rows
    counts: Row = site.memo("counts", lambda: _count_by_filter(listed, now))
    sort = params.get("sort", "changed")
    if sort in _SORTS and sort != "changed":
        rows = sorted(rows, key=_SORTS[sort], reverse=sort == "recalled")
    start = max(0, int(after)) if (after := params.get("after", "0")).isdecimal() else 0
    data: Row = {
        "query": query,
        "filters": chosen,
        "sort": sort,
        "counts": counts,
        "total": len(listed.rows),
        "found": len(rows),
        "start": start,
        "next": start + PAGE if start + PAGE < len(rows) else None,
        "stale": counts["state"][VerifyState.STALE.value],
        "meter": make_meter(site),
        "groups": [],
        "elapsed_ms": None,
        "forgotten": _list_forgotten(site, now) if chosen["state"] == "forgotten" else None,
        "directory": str(next(iter(site.files.values())).root) if site.files else "",
        "past": None,
        "elsewhere": [],
    }
    if query and site.sites is not None and params.get("everywhere"):
        data["elsewhere"] = [
            {
                "project": key,
                "name": hit.header.name,
                "title": plain(hit.header.title, 160),
                "line": plain(hit.snippet, 300),
            }
            for key, hit in site.sites.search(query, site.key)
        ]
    if query:
        data |= _search(site, listed, query, {row.key for row in rows})
    else:
        data["groups"] = [{"title": "", "rows": _make_rows(site, rows[start : start + PAGE])}]
    return data


def _count_by_filter(listed: SiteList, now: datetime) -> Row:
    rows = listed.rows
    return {
        "type": Counter(row.header.kind.value if row.header.kind else "none" for row in rows),
        "scope": Counter(row.header.scope.value for row in rows),
        "author": Counter(row.who for row in rows),
        "state": Counter(_name_state(row) for row in rows),
        "age": Counter(age for age in _AGES for is_so in [_make_age_test(age, now)] for row in rows if is_so(row)),
        "never": sum(not row.uses for row in rows),
    }


def _search(site: Site, listed: SiteList, query: str, allowed: set[str]) -> Row:
    """Return the memories recall would add, then other matches."""
    recalled = run_recall(site, query)
    recalled_rows = [find_row(listed, site, pick) for pick in recalled.picks if not pick.dropped]
    with site.search() as search:
        wide = search.find(Query(query, now=site.now(), wide=True), _FOUND, lambda scope, name: "")
    folded = fold(query)
    plainly = (
        row for row in listed.rows if folded in fold(f"{row.header.name} {row.header.title} {row.header.description}")
    )
    others = [
        *(find_row(listed, site, pick) for pick in wide if pick.evidence.words and not pick.dropped),
        *islice(plainly, _FOUND),
    ]
    keys = [row.key for row in recalled_rows if row and row.key in allowed]
    rest = {row.key: row for row in others if row and row.key in allowed and row.key not in keys}
    words = query.split()
    groups: list[Row] = [
        {
            "title": f"An agent would be given {'this one' if len(keys) == 1 else f'these {len(keys)}'}"
            if keys
            else "",
            "note": "for this question",
            "why": True,
            "rows": _make_rows(site, [listed.by_key[key] for key in keys], words),
        },
        {
            "title": "Other matches",
            "note": "agents would not be given these for this question",
            "why": not keys,
            "rows": _make_rows(site, [*rest.values()], words),
        },
    ]
    return {
        "groups": [group for group in groups if group["rows"]],
        "found": len(keys) + len(rest),
        "next": None,
        "elapsed_ms": round(recalled.elapsed_ms, 1),
        "skipped": recalled.skipped.words if recalled.skipped else "",
    }


def run_recall(site: Site, query: str) -> RecallResult:
    with site.search() as search:
        project = site.project
        is_on = project is None or (project.places.switch.on and project.settings.flag("recall"))
        stores = tuple(site.stores.values())
        request = RecallRequest(stores, query, search, site.now(), on=is_on, is_message=True, has_rules=True, acts=True)
        return find_recalled(request)


def home_of(site: Site, scope: Scope) -> str:
    """Return the key of the store for a scope; team memories are in a folder of the project's store."""
    return scope.value if scope.value in site.stores else Scope.PRIVATE.value


def find_row(listed: SiteList, site: Site, pick: Pick) -> MemoryRow | None:
    return listed.by_key.get(f"{home_of(site, pick.header.scope)}/{pick.header.name}")


def _make_age_test(age: str, now: datetime) -> Callable[[MemoryRow], bool]:
    if age == "older":
        return lambda row: now - row.changed > timedelta(days=_AGES["month"])
    return lambda row: now - row.changed <= timedelta(days=_AGES.get(age, 10**5))


def _name_state(row: MemoryRow) -> str:
    return "problem" if row.header.problem else row.state.value if row.state else "unknown"


_TESTS: dict[str, Callable[[str, datetime], Callable[[MemoryRow], bool] | None]] = {
    "type": lambda value, now: lambda row: (row.header.kind.value if row.header.kind else "none") == value,
    "scope": lambda value, now: lambda row: row.header.scope.value == value,
    "age": _make_age_test,
    "state": lambda value, now: None if value == "forgotten" else lambda row: _name_state(row) == value,
    "author": lambda value, now: lambda row: row.who == value,
    "never": lambda value, now: lambda row: not row.uses,
}
_SORTS: dict[str, Callable[[MemoryRow], Any]] = {
    "changed": lambda row: row.changed,
    "recalled": lambda row: (row.uses, row.changed),
    "title": lambda row: fold(row.header.title),
    "type": lambda row: (row.header.kind or "", fold(row.header.title)),
    "oldest": lambda row: row.changed,
}


def _make_rows(site: Site, rows: Sequence[MemoryRow], words: Sequence[str] = ()) -> list[Row]:
    now = site.now()
    table = []
    for row in rows:
        header = row.header
        title, description = header.title or header.name, header.description
        tone, icon, words_of_state = _STATES[row.state]
        table.append(
            {
                "key": row.key,
                "home": row.home,
                "name": header.name,
                "title": plain(title, 160),
                "description": plain(description, 400),
                "html_title": mark_words(plain(title, 160), words) if words else None,
                "html_description": mark_words(plain(description, 400), words) if words else None,
                "type": header.kind.value if header.kind else "none",
                "scope": header.scope.value,
                "scope_words": name_scope(header.scope),
                "pinned": header.pinned,
                "state": row.state.value if row.state else None,
                "tone": "bad" if header.problem else tone,
                "icon": "cross" if header.problem else icon,
                "state_words": "invalid frontmatter" if header.problem else words_of_state,
                "uses": row.uses,
                "who": row.who,
                "changed": row.changed,
                "ago": show_ago(row.changed, now),
                "path": f"/m/{row.home}/{quote_path(header.name)}",
            }
        )
    return table


def count_held(verdict: Verdict) -> str:
    known = [checked for checked in verdict.claims if checked.status is not ClaimStatus.UNKNOWN]
    return f"{len(known) - len(verdict.stale)} of {len(known)} hold"


def _list_forgotten(site: Site, now: datetime) -> list[Row]:
    listed, rows = site.memories(), list[Row]()
    for home, store in site.stores.items():
        for name, step in store.find_last_steps().items():
            if f"{home}/{name}" not in listed.by_key:
                path, who = f"/m/{home}/{quote_path(name)}", name_by(step.origin.who)
                row = {"home": home, "name": name, "who": who, "at": step.at, "ago": show_ago(step.at, now)}
                rows.append(row | {"path": path})
    return sorted(rows, key=lambda row: row["at"], reverse=True)[:200]


def make_meter(site: Site) -> Row | None:
    meter: Row | None = site.memo("meter", lambda: _measure(site))
    return meter


def _measure(site: Site) -> Row | None:
    store = next(iter(site.stores.values()), None)
    if store is None:
        return None
    text = store.index()
    used = measure_index(text)
    if site.project is not None:
        starts = {start.title: start.tokens for start in measure_starts(site.project)}
    else:
        headers = [row.header for row in site.memories().rows if row.home == store.scope.value]
        starts = {"": estimate_tokens(clip_index(text, headers).text)}
    return {
        "lines": used.lines,
        "most_lines": INDEX_LINES,
        "bytes": used.bytes,
        "most_bytes": INDEX_BYTES,
        "share": used.share,
        "is_high": used.is_high,
        "tokens": max(starts.values(), default=0),
        "starts": starts,
    }


# One memory.


def show_new(site: Site, params: Params) -> Row:
    if not site.can_edit:
        raise SettingsError("this memory is read-only for you")
    return {"homes": list(site.stores), "words": params.get("words", ""), "inputs": _make_inputs(NO_FIELDS)}


def show_memory(site: Site, home: str, name: str, params: Params, base: str) -> Row:
    store, now = site.store(home), site.now()
    tab = params.get("tab", "text") if site.can_edit or params.get("tab") == "source" else "text"
    memory: StoredMemory | None = None
    problem = ""
    try:
        memory = store.read(name)
    except NotFoundError:
        if not store.changes(name, limit=1):
            raise
    except DiskError as error:
        problem = str(error)
    changes, surfaced = store.changes(name), store.recalls(name)
    recalls, outcomes = [recall for recall in surfaced if recall.moment.is_shown], count_outcomes(surfaced)
    verdict = _find_verdict(store, memory)
    targets = _make_link_map(site, home, base)
    text = memory.text if memory else _read_last(store, name, changes)
    return {
        "home": home,
        "name": name,
        "file": f"{name}.md",
        "path": f"/m/{home}/{quote_path(name)}",
        "tab": tab if tab in ("text", "source", "edit") and memory else "text" if tab != "source" else tab,
        "is_gone": memory is None and not problem,
        "problem": problem or (memory.header.problem if memory else ""),
        "text": text,
        "digest": memory.digest if memory else "",
        "title": plain((memory.header.title if memory else "") or parse_fields(text).title or name, 200),
        "description": plain(memory.header.description if memory else parse_fields(text).description),
        "scope_words": name_scope(memory.header.scope if memory else Scope(home)),
        "pinned": bool(memory and memory.header.pinned),
        "can_pin": memory is not None and memory.header.scope is not Scope.TEAM,
        "fields": _describe_memory(site, store, memory, now) if memory else None,
        "inputs": _make_inputs(memory.header) if memory else [],
        "cues": list(memory.header.cues) if memory else [],
        "when": dump_when(memory.header.when if memory else When()),
        "is_rule": bool(memory and memory.header in find_rules(store.scan())),
        "secrets": [secret.what for secret in find_stored_secrets(store, text)] if memory else [],
        "blocks": _make_blocks(store, name, text, verdict, changes, targets, now),
        "is_cut": len(text) > 65_536,
        "verdict": _make_verdict(verdict, now),
        # On a server the prompts and conversations are those of other members.
        "recalls": [_make_recall(recall, now, with_prompt=site.project is not None) for recall in recalls[:_RECALLS]],
        "recalled": len(recalls),
        "at_actions": outcomes.describe() if outcomes.fired or outcomes.overridden else "",
        "history": [
            make_change(site, home, change, now, name, with_diff=number < _DIFFS or params.get("history") == "all")
            for number, change in enumerate(changes[:_CHANGES])
        ],
        "links": _find_links(site, home, name),
        "scopes": [{"value": scope, "words": name_scope(scope)} for scope in _list_scopes(site, home, name)],
        "kinds": [kind.value for kind in Kind],
        "body": split_frontmatter(text).body.strip("\r\n"),
    }


def _read_last(store: StoreBase, name: str, changes: Sequence[Change]) -> str:
    """Return the last recorded text of a deleted memory, or ""."""
    for change in changes:
        for file in change.files:
            if file.path == f"{name}.md" and (digest := file.after or file.before):
                with suppress(MemdirError):
                    return decode(store.read_content(digest))
    return ""


def _find_verdict(store: StoreBase, memory: StoredMemory | None) -> Verdict | None:
    if memory is None or not isinstance(store, Folder):
        return None
    return find_verdicts(store, {memory.header.name: memory.digest}).get(memory.header.name)


def _make_verdict(verdict: Verdict | None, now: datetime) -> Row | None:
    if verdict is None:
        return None
    tone, icon, words = _STATES[verdict.state]
    if verdict.state is VerifyState.PARTLY:
        words = count_held(verdict)
    claims = [_make_claim(number, checked) for number, checked in enumerate(verdict.claims)]
    ago = show_ago(verdict.checked, now)
    return {"state": verdict.state.value, "tone": tone, "icon": icon, "words": words, "ago": ago, "claims": claims}


def _make_claim(number: int, checked: CheckedClaim) -> Row:
    tone = "bad" if checked.is_stale else "ok" if checked.status is ClaimStatus.PRESENT else "dim"
    icon = {"bad": "cross", "ok": "check", "dim": "dash"}[tone]
    row = {
        "number": number,
        "text": plain(checked.claim.text, 120),
        "status": checked.status.value,
        "tone": tone,
        "icon": icon,
    }
    return row | {"words": plain(render_claim(checked).replace("`", ""), 200)}


def _make_blocks(
    store: StoreBase,
    name: str,
    text: str,
    verdict: Verdict | None,
    changes: Sequence[Change],
    links: Mapping[str, str],
    now: datetime,
) -> list[Row]:
    sources = trace_sentences(store, name) if changes else {}
    quotes = _find_quotes(store, name)
    claims = verdict.claims if verdict else ()
    numbers = {id(checked): number for number, checked in enumerate(claims)}
    rows, before = [], None
    for block in split_blocks(text, claims, links):
        changes_by_id = {change.id: change for sentence in block.sentences if (change := sources.get(sentence))}
        notes = [_make_source(store, change, quotes.get(change.id, ()), now) for change in changes_by_id.values()]
        ids = tuple(changes_by_id)
        is_same = before is not None and ids == before and bool(ids)
        rows.append(
            {
                "html": block.html,
                "sources": [{"words": notes[0]["words"], "is_same": True}] if is_same else notes,
                "claims": [_make_claim(numbers[id(checked)], checked) for checked in block.claims],
            }
        )
        before = ids
    return rows


def _make_source(store: StoreBase, change: Change, quotes: Sequence[str], now: datetime) -> Row:
    """Describe the change that a sentence came from."""
    origin = change.origin
    words = WHO[origin.who][2] if origin.who in WHO else f"By {plain(origin.who, 30)}"
    why = plain(origin.why, 160)
    if change.verb == "approve":
        words, why = f"{name_who(origin.who)} approved it", ""
    messages = why.partition(", from ")[2] if origin.who == "extractor" else ""
    return {
        "words": words,
        "is_same": False,
        "change": change.id,
        "at": show_time(change.at, now),
        "session": origin.session,
        "messages": messages,
        "why": "" if messages or why == "on the page" else why,
        "quotes": [plain(quote, 240) for quote in quotes],
    }


def _find_quotes(store: StoreBase, name: str) -> dict[int, list[str]]:
    """Map each change to the quotes that its approved inbox item was based on."""
    quotes = {}
    with suppress(MemdirError):
        for item in store.inbox(InboxState.APPROVED):
            if item.name == name and (change := store.find_marked(f"inbox:{item.id}")) is not None:
                quotes[change] = [
                    (f"{passage.source}: " if passage.source else "") + mask_text(passage.quote, item.payload)
                    for passage in find_evidence(item.payload)
                ]
    return quotes


def _make_inputs(record: Header | FrontmatterFields) -> list[Row]:
    """Return what the forms ask for the optional fields: their labels, and their values as they are stored."""
    rows = [
        row for row in FIELDS if row.help and not (row.is_personal and getattr(record, "scope", None) is Scope.TEAM)
    ]
    return [
        {
            "key": row.key,
            "type": row.schema["type"],
            "label": name_field(row.key).capitalize(),
            "help": row.help,
            "value": row.read(record),
        }
        for row in rows
    ]


def _describe_memory(site: Site, store: StoreBase, memory: StoredMemory, now: datetime) -> Row:
    header = memory.header
    path, short = index_path(header.name)
    folder = path.rpartition("/")[0]
    text = store.index(folder)
    lines = find_lines(text, short)
    life = (
        find_half_life(header.kind, site.project.settings.half_lives()) if site.project else find_half_life(header.kind)
    )
    since = find_ages(store, [memory], now=now)[header.name]
    author = find_authors(store, [header.name]).get(header.name, OUTSIDE)
    return {
        "type": header.kind.value if header.kind else "none",
        "age": show_ago(since, now) + (f"; counts half after {life:g} days" if life else ""),
        "author": name_who(author),
        "size": f"{show_size(len(memory.text.encode('utf-8', 'replace')))}, about {estimate_tokens(memory.text):,} tokens",
        "when": plain(describe_when(header.when), 400),
        "index": f"line {lines[0].number + 1} of {len(text.splitlines())}" if lines else "no line points to it",
        "verified": show_time(_read_verified(memory), now) if _read_verified(memory) else "",
        **{key: plain(text, 200) for key, text in describe_values(header).items() if text},
        "path": store.locate(header),
    }


def _read_verified(memory: StoredMemory) -> datetime | None:
    return read_time(parse_fields(memory.text).verified)


def _make_recall(recall: Surfacing, now: datetime, *, with_prompt: bool) -> Row:
    query, session = (recall.query, recall.session) if with_prompt else ("", "")
    row = {"at": recall.at, "when": show_time(recall.at, now), "query": plain(query, 300), "session": session}
    return row | {"session_words": plain(session, 14), "score": round(recall.score, 3), "selector": recall.selector}


def make_change(site: Site, home: str, change: Change, now: datetime, name: str = "", *, with_diff: bool = True) -> Row:
    """Describe one change; with a `name`, includes the diff of that memory."""
    store, listed = site.store(home), site.memories()
    names = [file.path.removesuffix(".md") for file in change.files if not is_index_path(file.path)]
    diff: Sequence[Any] = ()
    if name and with_diff:
        for file in change.files:
            if file.path == f"{name}.md":
                diff = render_diff(*(read_version(store, digest) for digest in (file.before, file.after)))
    return {
        "id": change.id,
        "home": home,
        "at": change.at,
        "when": show_time(change.at, now),
        "clock": f"{change.at.astimezone():%H:%M}",
        "day": show_day(change.at, now),
        "who": change.origin.who,
        "who_words": name_who(change.origin.who),
        "verb": _VERBS.get(change.verb, plain(change.verb, 30)),
        "why": "" if change.origin.why == "on the page" else plain(change.origin.why.partition(", from ")[0], 200),
        "session": change.origin.session,
        "names": [make_link(listed, home, path) for path in names[:6]],
        "more": max(0, len(names) - 6),
        "undoes": change.undoes,
        "undone_by": change.undone_by,
        "diff": diff,
        "is_new": any(file.path == f"{name}.md" and file.before is None for file in change.files),
    }


def read_version(store: StoreBase, digest: str | None) -> str:
    if digest is None:
        return ""
    try:
        return decode(store.read_content(digest))
    except MemdirError:
        return "(this version was purged)"


def _make_link_map(site: Site, home: str, base: str) -> dict[str, str]:
    headers = [row.header for row in site.memories().rows if row.home == home]
    targets = make_targets(headers)
    return {spelled: f"{base}/m/{home}/{quote_path(name)}" for spelled, name in targets.items()} | {
        fold(header.name): f"{base}/m/{home}/{quote_path(header.name)}" for header in headers
    }


def _find_links(site: Site, home: str, name: str) -> Row:
    to, back = [], []
    listed = site.memories()
    headers = [row.header for row in listed.rows if row.home == home]
    targets = make_targets(headers)
    for source, linked in read_links(site).get(home, {}).items():
        linked_names = {target for link in linked if (target := targets.get(link)) and target != source}
        to += sorted(linked_names) if source == name else []
        back += [source] if name in linked_names else []
    make = partial(make_link, listed, home)
    return {"to": [make(target) for target in to], "from": [make(source) for source in sorted(back)]}


def read_links(site: Site) -> dict[str, dict[str, frozenset[str]]]:
    """Map store key and memory name to the folded names it links to."""
    with site.search() as search:
        links_by_store = search.read_links()
    return {
        home: {path.removesuffix(".md"): targets for path, targets in links.items()}
        for home, links in zip(site.stores, links_by_store, strict=False)
    }


def make_link(listed: SiteList, home: str, name: str) -> Row:
    row = listed.by_key.get(f"{home}/{name}")
    title = plain(row.header.title if row else name, 120)
    return {"name": name, "title": title, "path": f"/m/{home}/{quote_path(name)}"}


def _list_scopes(site: Site, home: str, name: str) -> list[str]:
    current = Scope.TEAM.value if name.startswith("team/") and home == Scope.PRIVATE.value else home
    scopes = [*site.stores, *([Scope.TEAM.value] if Scope.PRIVATE.value in site.stores else [])]
    return [scope for scope in scopes if scope != current] if site.project is not None else []
