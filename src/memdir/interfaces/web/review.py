"""The content of the inbox and dream pages."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial

from memdir.dream import find_due, is_rejected
from memdir.dream.records import PatchSet, list_sets, load, summarize
from memdir.errors import MemdirError, NotFoundError
from memdir.format.frontmatter import decode, split_frontmatter
from memdir.format.index import find_lines
from memdir.interfaces.web.pages import Params, Row, make_meter, name_by, name_who, read_version
from memdir.interfaces.web.render import (
    mark_block,
    mark_words,
    plain,
    quote_path,
    render_diff,
    show_ago,
    show_time,
)
from memdir.interfaces.web.site import Site, SiteList, name_scope
from memdir.models.usage import describe_dollars
from memdir.operations.review import KINDS, find_versions
from memdir.records import Edit, Forget, InboxItem, IndexEdit, Put, ReplaceLine, Rewrite, Save, Scope
from memdir.store.batch import StoreOverlay
from memdir.store.contract import StoreBase
from memdir.store.files import FileStore
from memdir.store.inbox import PARTS, find_evidence, find_payload_edits, mask_text
from memdir.store.plan import index_path, is_index_path

# The inbox.


def find_item(site: Site, key: str) -> tuple[str, StoreBase, InboxItem]:
    home, _, number = key.partition(":")
    if not number.isdecimal():
        raise NotFoundError(f"inbox item {plain(key, 40)} not found", name=key)
    store = site.store(home)
    return home, store, store.inbox_item(int(number))


def show_inbox(site: Site, params: Params) -> Row:
    now, listed = site.now(), site.memories()
    items = [(home, item) for home, store in site.stores.items() for item in store.inbox()]
    keys = [f"{home}:{item.id}" for home, item in items]
    chosen_key = params.get("item", "")
    current = keys.index(chosen_key) if chosen_key in keys else 0
    groups: dict[str, list[Row]] = {}
    for key, (_, item) in zip(keys, items, strict=True):
        row = {
            "key": key,
            "title": plain(mask_text(item.title, item.payload), 120) or plain(item.name),
            "note": f"{_name_item(item)} · {show_ago(item.at, now)}",
            "is_current": key == (keys[current] if keys else ""),
        }
        groups.setdefault(_name_group(item, now), []).append(row)
    decided = sorted(
        (item for store in site.stores.values() for item in store.inbox(None) if item.decided),
        key=lambda item: item.decided or now,
        reverse=True,
    )
    last = find_last_review(site)
    data: Row = {
        "count": len(items),
        "groups": [{"title": title, "rows": rows} for title, rows in groups.items()],
        "item": None,
        "last_review": {"count": len(last), "when": show_time(last[0][2].decided, now)} if last else None,
        "decided": [
            {"title": plain(mask_text(item.title, item.payload), 120), "state": item.state.value}
            | {"when": show_time(item.decided, now)}
            for item in decided[:10]
        ],
        "index_lines": (make_meter(site) or {}).get("lines", 0),
    }
    if items:
        home, item = items[current]
        place = {"number": current + 1, "previous": keys[current - 1], "next": keys[(current + 1) % len(keys)]}
        data["item"] = _make_item(site, listed, home, item, now) | place
    return data


def find_last_review(site: Site) -> list[tuple[str, StoreBase, InboxItem]]:
    """Return the items of the last review, newest decision first."""
    decided = [(home, store, item) for home, store in site.stores.items() for item in store.inbox(None) if item.decided]
    decided.sort(key=lambda entry: (entry[2].decided or entry[2].at, entry[2].note), reverse=True)
    if not decided:
        return []
    note = decided[0][2].note
    return [entry for entry in decided if entry[2].note == note] if note.startswith(REVIEW) else decided[:1]


REVIEW = "reviewed on the page, "  # followed by a number that items decided together share


def _name_item(item: InboxItem) -> str:
    edits: tuple[Edit, ...] = ()
    with suppress(MemdirError):
        edits = find_payload_edits(item.payload)
    edit = edits[0] if edits else None
    if isinstance(edit, Save):
        return f"{'new' if edit.expect is None else 'change'} · {edit.draft.kind.value}"
    if isinstance(edit, Forget):
        return "removal"
    return "change" if isinstance(edit, Rewrite) else KINDS[item.kind].label


def _name_group(item: InboxItem, now: datetime) -> str:
    sources = [passage.source for passage in find_evidence(item.payload) if passage.source]
    if item.origin.who == "dream":
        return f"From a dream, {show_time(item.at, now)}"
    if item.origin.who == "sync":
        return "From the team"
    if sources:
        return f"From {plain(sources[0], 60)}"
    session = f", conversation {plain(item.origin.session, 12)}" if item.origin.session else ""
    return f"From {name_by(_find_author(item))}{session}"


def _find_author(item: InboxItem) -> str:
    """Return who proposed the item, by name if the credential has one."""
    return str(item.payload.get("by") or item.origin.who)


def _make_item(site: Site, listed: SiteList, home: str, item: InboxItem, now: datetime) -> Row:
    store = site.store(home)
    mask = partial(mask_text, payload=item.payload)
    quotes = find_evidence(item.payload)
    passage = "\n".join(mask(passage.quote) for passage in quotes)
    edits, problem = tuple[Edit, ...](), ""
    try:
        edits = find_payload_edits(item.payload)
    except MemdirError as error:
        problem = str(error)
    edit_rows = [_make_edit(store, edit, mask, passage) for edit in edits]
    versions = find_versions(item)
    row = dict.fromkeys(("type", "html", "plain"), "") | {"name": plain(item.name)}
    edit_rows += [
        row | {"does": f"“{side.capitalize()}” would change", "diff": render_diff(mask(versions["merged"]), mask(text))}
        for side, text in versions.items()
        if text != versions["merged"]
    ]
    kind = KINDS[item.kind]
    texts = "\n".join(str(row["plain"]) for row in edit_rows)
    return {
        "key": f"{home}:{item.id}",
        "home": home,
        "title": plain(mask(item.title), 160) or plain(item.name),
        "why": plain(mask(item.why), 600),
        "kind": item.kind.value,
        "words": {key: getattr(kind, key) for key in ("label", "approving", "rejecting", "yes", "no")},
        "name": item.name,
        "path": f"/m/{home}/{quote_path(item.name)}" if f"{home}/{item.name}" in listed.by_key else "",
        "scope_words": name_scope(Scope.TEAM if item.name.startswith("team/") and home == "private" else home),
        "who": name_who(_find_author(item)),
        "session": item.origin.session,
        "at": show_time(item.at, now),
        "edits": edit_rows,
        "problem": problem,
        "sides": [side for side in versions if side != "merged"],
        "can_edit": len(edits) == 1 and isinstance(edits[0], Save | Rewrite | Put),
        "quotes": [
            {"source": plain(quote.source, 120), "message": plain(quote.message, 60)}
            | {"html": mark_words(mask(quote.quote), [texts])}
            for quote in quotes
        ],
        "facts": {
            plain(key, 40): plain(mask(str(value)), 400)
            for key, value in item.payload.items()
            if key not in (*PARTS, *versions)
        },
    }


def _make_edit(store: StoreBase, edit: Edit, mask: Callable[[str], str], passage: str) -> Row:
    if isinstance(edit, Save):
        draft = edit.draft
        body, description = mask(draft.body), mask(draft.description)
        return {
            "does": "Would be remembered" if edit.expect is None else "Would replace it",
            "name": plain(draft.name or draft.title),
            "type": draft.kind.value,
            "title": plain(mask(draft.title)),
            "description": plain(description),
            "html_description": mark_words(plain(description), [passage]),
            "html": [mark_block(body, passage)],
            "plain": f"{draft.title} {description} {body}",
            "body": body,
            "diff": (),
        }
    row: Row = dict.fromkeys(("type", "title", "description", "html_description", "body"), "")
    row |= {"name": plain(edit.name), "html": [], "diff": ()}
    before = ""
    with suppress(MemdirError):
        before = mask(store.read(edit.name).text)
    if isinstance(edit, Rewrite | Put):
        after = mask(edit.text)
        diff = render_diff(before, after)
        return row | {"does": "Would be changed", "diff": diff, "plain": split_frontmatter(after).body, "body": after}
    if isinstance(edit, Forget):
        return row | {"does": "Would be forgotten", "diff": render_diff(before, ""), "plain": before}
    line = mask(edit.line) if isinstance(edit, ReplaceLine) else ""
    return row | {"does": "Would change its line in MEMORY.md", "html": [mark_block(line, "")], "plain": line}


# Dreams.


def show_dream(site: Site, params: Params, id: str = "") -> Row:
    project, now = site.local_project, site.now()
    store = project.private
    sets = list_sets(store.state)
    open_sets = [patches for patches in sets if _is_open(store, patches)]
    chosen = load(store.state, id) if id else open_sets[0] if open_sets else None
    due, shown_id = find_due(project, now=now), chosen.id if chosen is not None else ""
    return {
        "set": _make_set(store, chosen, now) if chosen is not None else None,
        "past": [
            _make_past(store, patches, now)
            for patches in sets
            if patches.id != shown_id and not _is_open(store, patches)
        ][:20],
        "open": [
            {"id": patches.id, "when": show_time(patches.at, now)} for patches in open_sets if patches.id != shown_id
        ],
        "due": due.is_due,
        "due_words": due.skip.words if due.skip else "it is time for one",
        "sessions": due.sessions,
        "last": show_time(due.last, now) if due.last else "",
        "next": show_time(due.next_at, now) if due.next_at else "",
        "has_model": project.settings.text("model") != "none",
        "model": project.settings.text("model"),
    }


def _is_open(store: FileStore, patches: PatchSet) -> bool:
    if store.has_mark(patches.mark) or patches.is_empty:
        return False
    return not patches.patches or any(not is_rejected(store, patch) for patch in patches.patches)


_HUNKS = {
    "duplicate": "Two memories say the same",
    "date": "A date was relative",
    "long_line": "A line of the index is too long",
    "dead_pointer": "A line points to a memory that is gone",
    "missing_pointer": "No line points to a memory",
    "overtaken": "One memory is newer than another",
    "create": "A new memory",
    "update": "A memory is brought up to date",
    "merge": "Two memories become one",
    "forget": "A memory is no longer needed",
}


def _make_set(store: FileStore, patches: PatchSet, now: datetime) -> Row:
    change_id = store.find_marked(patches.mark)
    change = store.read_change(change_id) if change_id is not None else None
    files: dict[str, tuple[str, str]] = {}
    if change is not None:
        for file in change.files:
            if not is_index_path(file.path):
                files[file.path] = read_version(store, file.before), read_version(store, file.after)
            elif file.splice is not None:
                files[file.path] = decode(file.splice[1]), decode(file.splice[2])
    else:
        with suppress(MemdirError):
            planned = StoreOverlay(store, [patch.edits for patch in patches.patches], now=now).batch.changes
            files = {
                planned_file.path: (decode(planned_file.before or b""), decode(planned_file.after or b""))
                for planned_file in planned
            }
    hunks = []
    for number, patch in enumerate(patches.patches):
        file_rows = []
        # Two patches may concern the same memory, so show only what this one edits.
        edited = [edit.name for edit in patch.edits if not isinstance(edit, Save | IndexEdit)]
        saved = patch.names if any(isinstance(edit, Save) for edit in patch.edits) else ()
        for name in dict.fromkeys((*saved, *edited)):
            before, after = files.get(f"{name}.md", ("", ""))
            if before != after:
                file_rows.append(
                    {"file": f"{name}.md", "is_gone": not after, "name": name, "diff": render_diff(before, after)}
                )
        for edit in patch.edits:
            if isinstance(edit, IndexEdit):
                path, short = index_path(edit.name)
                before, after = files.get(path, ("", ""))
                was, new = ("".join(line.text for line in find_lines(text, short)) for text in (before, after))
                if was != new:
                    file_rows.append({"file": "MEMORY.md", "is_gone": False, "name": "", "diff": render_diff(was, new)})
        hunks.append(
            {
                "number": number,
                "title": _HUNKS.get(str(patch.kind), plain(str(patch.kind)).replace("_", " ").capitalize()),
                "reason": plain(patch.reason, 400),
                "evidence": list(dict.fromkeys(plain(text, 200).rstrip(".") for text in patch.evidence)),
                "files": file_rows,
                "is_rejected": is_rejected(store, patch),
            }
        )
    usage = patches.usage
    return {
        "id": patches.id,
        "when": show_time(patches.at, now),
        "by": "patterns" if patches.by == "rules" else f"patterns and {patches.by}",
        "tokens": usage.input + usage.output,
        "dollars": usage.dollars,
        "cost": describe_dollars(usage),
        "summary": plain(patches.summary, 600),
        "error": plain(patches.error, 300),
        "hunks": hunks,
        "memories": len({name for patch in patches.patches for name in patch.names}),
        "proposals": [
            {
                "title": plain(mask_text(proposal.title, proposal.payload), 120),
                "why": plain(mask_text(proposal.why, proposal.payload), 300),
            }
            for proposal in patches.proposals
        ],
        "change": change_id,
        "undone_by": change.undone_by if change else None,
        "spared": patches.spared,
    }


def _make_past(store: FileStore, patches: PatchSet, now: datetime) -> Row:
    change = store.find_marked(patches.mark)
    undone = store.read_change(change).undone_by if change is not None else None
    accepted = [patch for patch in patches.patches if not is_rejected(store, patch)]
    return {
        "id": patches.id,
        "when": show_time(patches.at, now),
        "by": "patterns" if patches.by == "rules" else f"patterns and {patches.by}",
        "what": plain(summarize(accepted), 200) or f"{len(patches.proposals)} left to you",
        "change": change,
        "undone_by": undone,
        "dollars": patches.usage.dollars,
        "cost": describe_dollars(patches.usage),
    }
