"""What a person does on a page. Each is a change that can be undone on the spot; nothing here decides anything about memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from memdir.dream import apply_kept
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, SettingsError
from memdir.format.frontmatter import parse_fields, split_frontmatter
from memdir.frozen import dataclass, replace
from memdir.interfaces import doctor
from memdir.interfaces.web.pages import Row, name_who
from memdir.interfaces.web.render import mark_inserted, plain, quote_path, show_time
from memdir.interfaces.web.review import REVIEW, find_item, find_last_review
from memdir.interfaces.web.site import Site, name_scope
from memdir.operations import write
from memdir.operations.move import find_scope_store, move
from memdir.operations.review import approve, reject, reopen
from memdir.operations.write import FieldChanges, WriteAction, WriteContext, WriteResult
from memdir.project.settings import find_setting, remove_setting, write_setting
from memdir.records import Draft, Edit, Kind, Put, Rewrite, Save, Scope
from memdir.store.contract import Folder, StoreBase
from memdir.store.inbox import find_payload_edits
from memdir.store.open import open_project
from memdir.sync import sync as team_sync
from memdir.sync.merge import merge_memory, split_paragraphs
from memdir.verify.check import verify
from memdir.verify.records import ClaimStatus, find_verdicts


class Form:
    """The fields of a form; a field may occur several times."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> str:
        found = self._values.get(key, ())
        return found[-1].replace("\r\n", "\n") if found else ""

    def has(self, key: str) -> bool:
        return key in self._values

    def every(self, key: str) -> list[str]:
        return [at for at in self._values.get(key, ()) if at]


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, in words; where to go on; and what takes it back: `home:change` in the order in which to undo."""

    text: str
    to: str
    undo: tuple[str, ...] = ()
    tone: str = "g"


class MergeNeeded(Exception):
    """A save that met a change of somebody else; `data` is what the page of the conflict shows."""

    def __init__(self, data: Row) -> None:
        super().__init__("the memory was changed meanwhile")
        self.data = data


def _path(home: str, name: str) -> str:
    return f"/m/{home}/{quote_path(name)}"


def _find_undo(done: WriteResult) -> tuple[str, ...]:
    return tuple(f"{store.scope.value}:{number}" for store, number in done.changes)


def _make_context(site: Site) -> WriteContext:
    return WriteContext(site.origin, site.now())


def _check_on(site: Site) -> None:
    if site.project is not None:
        site.project.check_on()


def save_memory(site: Site, home: str, name: str, form: Form) -> Done:
    """Save an edited memory, by its fields or as a whole text; MergeNeeded if it was changed since it was opened."""
    _check_on(site)
    store, base, expect, context = site.store(home), form["base"], form["expect"], _make_context(site)
    fields = FieldChanges() if form.has("text") else _find_changes(base, form)
    if form["text"] == base or not (fields or form.has("text")):
        return Done("Nothing was changed.", _path(home, name))
    try:
        if fields:
            done = write.update(store, name, fields, context, expect=expect)
        else:
            done = write.rewrite(store, name, form["text"], context, expect=expect)
    except (ConflictError, NotFoundError):
        text = write.compose_update(name, base, fields, site.now()) if fields else form["text"]
        raise MergeNeeded(_make_merge(site, store, home, name, base, text)) from None
    return _report(done, f"Saved {_name(done)}.", _path(home, name))


def _find_changes(base: str, form: Form) -> FieldChanges:
    """Return the fields in which the form differs from the text that was opened."""
    opened, fields = parse_fields(base), FieldChanges()
    title, description, body = form["title"].strip(), form["description"].strip(), form["body"].strip("\n")
    if title != opened.title:
        fields["title"] = title
    if description != opened.description:
        fields["description"] = description
    if form["type"] in set(Kind) and form["type"] != opened.kind:
        fields["kind"] = Kind(form["type"])
    if form.has("cues") and (cues := _read_cues(form)) != opened.cues:
        fields["cues"] = cues
    if form.has("pinned_shown") and form.has("pinned") != opened.pinned:
        fields["pinned"] = form.has("pinned")
    if body != split_frontmatter(base).body.strip("\r\n").replace("\r\n", "\n"):
        fields["body"] = body
    return fields


def _read_cues(form: Form) -> tuple[str, ...]:
    return tuple(line.strip() for line in form["cues"].split("\n") if line.strip())


def _name(done: WriteResult) -> str:
    return plain(done.memory.header.title, 80) if done.memory else plain(done.name, 80)


def _report(done: WriteResult, text: str, to: str) -> Done:
    """Return what the page says of a write; one that needs review leads to its item."""
    if done.review is None:
        return Done(text, to, _find_undo(done))
    item = f"/inbox?item={done.scope.value}:{done.review.item}"
    return Done("It was not written yet: somebody else has to approve it.", item, tone="w")


def _make_merge(site: Site, store: StoreBase, home: str, name: str, base: str, mine: str) -> Row:
    """The three versions side by side, and one merged of them."""
    try:
        current = store.read(name)
        theirs, expect = current.text, current.digest
    except NotFoundError:
        theirs, expect = None, ""
    merged = merge_memory(base, mine, theirs)
    change = next(iter(store.changes(name, limit=1)), None)
    sides = [split_paragraphs(split_frontmatter(at or "").body) for at in (mine, base, theirs)]
    now = site.now()
    return {
        "home": home,
        "name": name,
        "path": _path(home, name),
        "who": name_who(change.origin.who) if change else "Somebody",
        "when": show_time(change.at, now) if change else "",
        "is_gone": theirs is None,
        "clashes": [plain(at, 200) for at in merged.clashes],
        "rows": list(_align(*sides)),
        "result": merged.text if merged.text is not None else mine,
        "mine": mine,
        "theirs": theirs or "",
        "base": theirs if theirs is not None else base,
        "expect": expect,
    }


def _align(mine: Sequence[str], base: Sequence[str], theirs: Sequence[str]) -> list[Row]:
    """Paragraphs of three versions in rows; one that only a side has stands in a row of its own."""
    from difflib import SequenceMatcher

    rows: list[list[list[str]]] = [[[], [at], []] for at in base] + [[[], [], []]]
    for column, side in ((0, mine), (2, theirs)):
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, list(base), list(side), autojunk=False).get_opcodes():
            for offset in range(j2 - j1):
                at = min(i1 + offset, i2 - 1) if tag != "insert" and i2 > i1 else i1
                rows[min(at, len(rows) - 1)][column].append(side[j1 + offset])
    made = []
    for one, old, other in rows:
        texts = ["\n\n".join(at) for at in (one, old, other)]
        if not any(texts):
            continue
        is_mine, is_theirs = texts[0] != texts[1], texts[2] != texts[1]
        clash = is_mine and is_theirs and texts[0] != texts[2]
        cells = [mark_inserted(texts[1], text) for text in (texts[0], texts[1], texts[2])]
        note = "" if is_mine == is_theirs else "yours is taken" if is_mine else "theirs is taken"
        made.append({"cells": cells, "is_clash": clash, "note": note, "mine": texts[0], "theirs": texts[2]})
    return made


def pin_memory(site: Site, home: str, name: str, form: Form) -> Done:
    _check_on(site)
    pinned = form["pinned"] == "1"
    done = write.pin(site.store(home), [name], pinned, _make_context(site))
    return _report(done, f"{'Pinned' if pinned else 'Unpinned'}.", _path(home, name))


def forget_memory(site: Site, home: str, name: str, form: Form) -> Done:
    _check_on(site)
    done = write.forget(site.store(home), name, _make_context(site), expect=form["expect"] or None)
    return _report(done, f"Forgot {_name(done)}. It stays in history.", "/memories")


def restore_memory(site: Site, home: str, name: str, form: Form) -> Done:
    _check_on(site)
    change = int(form["change"]) if form["change"].isdecimal() else None
    done = write.restore(site.store(home), name, _make_context(site), change=change)
    return _report(done, f"Restored {_name(done)}.", _path(home, name))


def move_to(site: Site, home: str, name: str, form: Form) -> Done:
    _check_on(site)
    store = site.files.get(home)
    if site.project is None or store is None:
        raise NotFoundError("memories are moved where their files are")
    to = Scope(form["to"]) if form["to"] in set(Scope) else Scope.PRIVATE
    verb = "demote" if to is Scope.PRIVATE else "promote"
    target, new_name = find_scope_store(site.project, name, to)
    done = move(store, name, target, new_name, _make_context(site), verb=verb)
    return _report(done, f"Moved to {name_scope(to)}.", _path(target.scope.value, new_name))


def verify_memory(site: Site, home: str, name: str, form: Form) -> Done:
    store = site.files.get(home)
    if site.project is None or store is None:
        raise NotFoundError("memories are checked where the project's files are")
    root = None if store.scope is Scope.USER else site.project.places.root.path
    report = verify(store, root, [name], now=site.now())
    stale = sum(len(at.stale) for at in report.verdicts)
    text = report.problem or (
        f"{stale} of what it names no longer holds." if stale else "Checked: all that could be checked holds."
    )
    return Done(text, _path(home, name), tone="w" if stale or report.problem else "g")


def use_new_path(site: Site, home: str, name: str, form: Form) -> Done:
    """Put the new name of what moved in place of the old one."""
    _check_on(site)
    store = site.store(home)
    memory = store.read(name)
    verdict = find_verdicts(store, {name: memory.digest}).get(name) if isinstance(store, Folder) else None
    number = int(form["claim"]) if form["claim"].isdecimal() else -1
    if verdict is None or not 0 <= number < len(verdict.claims):
        raise NotFoundError("what was checked has changed since", hint="check it again")
    at = verdict.claims[number]
    if at.status is not ClaimStatus.MOVED or memory.text[at.claim.start : at.claim.end].find(at.claim.text) < 0:
        raise NotFoundError("this has no new name", hint="check it again")
    old = memory.text[at.claim.start : at.claim.end]
    text = memory.text[: at.claim.start] + old.replace(at.claim.text, at.to) + memory.text[at.claim.end :]
    done = write.rewrite(store, name, text, _make_context(site), expect=memory.digest)
    with suppress(MemdirError):
        verify_memory(site, home, name, form)
    return _report(done, f"{plain(at.claim.text, 60)} became {plain(at.to, 60)}.", _path(home, name))


def remember(site: Site, form: Form) -> Done:
    """A new memory in the person's own words, or with every field given."""
    _check_on(site)
    home = form["home"] or next(iter(site.stores))
    store, context = site.store(home), _make_context(site)
    if form.has("body"):
        kind = Kind(form["type"]) if form["type"] in set(Kind) else Kind.PROJECT
        about = form["title"].strip(), form["description"].strip(), form["body"]
        done = write.save(store, Draft(kind, *about, cues=_read_cues(form) or None), context)
    else:
        if not form["words"].strip():
            raise FormatError("there is nothing to remember", field="words", hint="write it in your own words")
        done = write.remember([store], form["words"], context)
    if done.action is WriteAction.FORGOTTEN:
        return _report(done, f"Forgot {_name(done)}. It stays in history.", "/memories")
    return _report(done, f"Remembered {_name(done)}.", _path(home, done.name))


def change_many(site: Site, form: Form) -> Done:
    """Forget, pin or check the selected memories of the list; forgetting and pinning are one change of each store."""
    _check_on(site)
    keys, verb, context = form.every("key"), form["do"], _make_context(site)
    names: dict[str, list[str]] = {}
    for key in keys:
        home, _, name = key.partition("/")
        names.setdefault(home, []).append(name)
    results = []
    for home, chosen in names.items():
        if verb == "forget":
            results.append(write.forget_many(site.store(home), chosen, context))
        elif verb in ("pin", "unpin"):
            results.append(write.pin(site.store(home), chosen, verb == "pin", context))
        elif verb == "check":
            for name in chosen:
                verify_memory(site, home, name, form)
    words = {"forget": "Forgot", "pin": "Pinned", "unpin": "Unpinned", "check": "Checked"}.get(verb, "Did nothing with")
    text = f"{words} {len(keys)} {'memory' if len(keys) == 1 else 'memories'}."
    if waiting := next((done for done in results if done.review), None):
        return _report(waiting, text, "/memories")
    return Done(text, "/memories", tuple(key for done in results for key in _find_undo(done)))


def undo(site: Site, form: Form) -> Done:
    """Take back changes, each given as `home:number`; the undo can itself be undone."""
    _check_on(site)
    made: list[str] = []
    back = form["to"] if form["to"].startswith("/") and not form["to"].startswith("//") else "/timeline"
    for key in form.every("change"):
        home, _, number = key.partition(":")
        store = site.store(home)
        change = store.read_change(int(number) if number.isdecimal() else 0)
        if change.undone_by is not None:
            raise ConflictError(f"change {change.id} was already undone")
        names = [form[f"only-{key}"]] if form.has(f"only-{key}") else []
        done = write.undo(store, change.id, _make_context(site), names=names)
        if done.review is not None:
            return _report(done, "", back)
        made = [*_find_undo(done), *made]
    return Done("Taken back.", back, tuple(made))


# The inbox.


def decide(site: Site, form: Form) -> Done:
    """Approve or reject items; with a text, the one item as the person has changed it."""
    what, note = form["do"], f"{REVIEW}{time.time_ns()}"
    keys = form.every("item")
    if not keys:
        raise NotFoundError("nothing was selected", hint="select an item first")
    problems = []
    done = 0
    for key in keys:
        _, store, item = find_item(site, key)
        try:
            if what == "approve":
                _check_on(site)
                edits = _edit_item(find_payload_edits(item.payload), form) if form.has("edited") else None
                approve(store, item, origin=site.origin, note=note, edits=edits)
            else:
                reject(store, item, note=note)
            done += 1
        except MemdirError as error:
            problems.append(f"{plain(item.title, 60)}: {error}")
    if problems and not done:
        raise ConflictError("; ".join(problems), hint="compare it, change the memory by hand, and reject the item")
    words = "Approved" if what == "approve" else "Rejected"
    left = f" Not done: {'; '.join(problems)}." if problems else ""
    return Done(f"{words} {done}.{left}", f"/inbox?item={form['next']}" if form["next"] else "/inbox", ("review",))


def _edit_item(edits: tuple[Edit, ...], form: Form) -> tuple[Edit, ...]:
    edit = edits[0]
    if isinstance(edit, Save):
        kind = Kind(form["type"]) if form["type"] in set(Kind) else edit.draft.kind
        title, description = form["title"] or edit.draft.title, form["description"] or edit.draft.description
        return (
            replace(
                edit, draft=replace(edit.draft, kind=kind, title=title, description=description, body=form["body"])
            ),
        )
    if isinstance(edit, Rewrite | Put):
        return (replace(edit, text=form["body"]),)
    raise FormatError("this item cannot be edited", field="edits")


def undo_review(site: Site, form: Form) -> Done:
    """Let the items that were decided last wait again, and take back what that changed."""
    found = find_last_review(site)
    if not found:
        raise NotFoundError("nothing was reviewed yet")
    for _, store, item in found:
        reopen(store, item, origin=site.origin)
    return Done(f"{len(found)} {'waits' if len(found) == 1 else 'wait'} for you again.", "/inbox")


# Dreams.


def start_dream(site: Site, form: Form) -> Done:
    is_preview = form["do"] != "run"
    site.start_dream(is_preview=is_preview, with_model=form["model"] != "none")
    return Done("", "/dream")


def cancel_dream(site: Site, form: Form) -> Done:
    site.cancel_dream()
    return Done("The dream is being cancelled; nothing was changed.", "/dream", tone="w")


def apply_dream(site: Site, id: str, form: Form) -> Done:
    """Apply the accepted patches of a preview as one change; the others are remembered as rejected."""
    _check_on(site)
    if site.project is None:
        raise NotFoundError("dreams are applied where the memory's files are")
    count = int(form["count"]) if form["count"].isdecimal() else 0
    accept = {number for number in range(count) if form[f"h{number}"] != "no"}
    result = apply_kept(site.project.private, id, accept=accept, now=site.now())
    applied = result.applied
    change = applied.change if applied else None
    names = ", ".join(plain(at, 60) for at in applied.dropped[:5]) if applied else ""
    left = f" Left out, because it was changed or pinned meanwhile: {names}." if names else ""
    if change is None:
        waiting = f" {len(applied.waiting)} need review." if applied and applied.waiting else ""
        return Done(f"Nothing was changed: {count - len(accept)} rejected.{left}{waiting}", "/dream", tone="w")
    proof = applied.proof if applied else None
    lost = f" Nothing lost: {proof.removed} sentences removed are in history." if proof and proof.removed else ""
    return Done(f"Applied {len(accept)} of {count}.{left}{lost}", f"/dream/{id}", (f"private:{change}",))


# Health, settings, team.


def fix(site: Site, form: Form) -> Done:
    """Do the safe fixes of one kind in one store, or all of them."""
    _check_on(site)
    project = site.project
    if project is None:
        raise NotFoundError("fixes are made where the memory's files are")
    kind, home, where, undo, fixed = form["kind"], form["home"], form["where"], [], 0
    skip = project.settings.flag("skip_index")
    for key, store in site.files.items():
        if home and home != key:
            continue
        before = next(iter(store.changes(limit=1)), None)
        found = [at for at in doctor.examine(store, skip_index=skip) if at.fixable]
        found = [at for at in found if not kind or (at.kind == kind and (not where or at.where == where))]
        fixed += doctor.repair(store, found)
        new = [at for at in store.changes(limit=10) if before is None or at.id > before.id]
        undo += [f"{key}:{at.id}" for at in new if at.verb != "outside"]
    if not kind or kind == "hook_problem":
        state, now = project.private.state, site.now()
        fixed += doctor.repair_background(state, doctor.examine_background(state, now=now), now=now)
    return Done(f"Fixed {fixed}." if fixed else "There was nothing to fix.", "/health", tuple(undo))


def change_setting(site: Site, form: Form) -> Done:
    if site.project is None:
        raise NotFoundError("settings are those of a person's machine")
    key, value = form["key"], form["value"]
    setting, environment = find_setting(key), site.project.environment
    if form["do"] == "default":
        remove_setting(environment, key)
    else:
        write_setting(environment, setting.key, value)
    reload_project(site)
    return Done(f"{key} is now {site.project.settings[key]}.", form["to"] or "/health#settings")


def reload_project(site: Site) -> None:
    """Read the settings again; the stores stay open, since what they look at has not moved."""
    old = site.project
    if old is not None:
        fresh = open_project(old.places.root.path, environ=old.environment.inherited)
        site.project = replace(old, settings=fresh.settings, places=fresh.places)
        for store in fresh.stores:
            store.close()


def sync_team(site: Site, form: Form) -> Done:
    _check_on(site)
    if site.project is None:
        raise SettingsError("there is no team here")
    done = team_sync.sync(team_sync.open_sync(site.project), now=site.now())
    undo = (f"private:{done.change}",) if getattr(done, "change", None) is not None else ()
    return Done(f"Synced: {done.outcome.value}.", "/health#team", undo)


def revert_author(site: Site, form: Form) -> Done:
    _check_on(site)
    if site.project is None:
        raise SettingsError("there is no team here")
    store, author = site.project.private, form["author"]
    head, remote = team_sync.read_remote_head(store).head, team_sync.open_team(site.project, is_offline=True)
    origin = replace(site.origin, why=f"what {plain(author, 60)} wrote was taken back")
    done = team_sync.revert_author(store, remote, head, author, origin=origin)
    undo_key = (f"private:{done.change}",) if done.change is not None else ()
    return Done(f"Took back {done.commits} commits by {plain(author, 60)}.", "/health#team", undo_key)


# Address below a memory's own, and of the whole, to what is done there.
MEMORY_ACTIONS: Mapping[str, Callable[[Site, str, str, Form], Done]] = {
    "save": save_memory,
    "pin": pin_memory,
    "forget": forget_memory,
    "restore": restore_memory,
    "move": move_to,
    "check": verify_memory,
    "use": use_new_path,
}
SITE_ACTIONS: Mapping[str, Callable[[Site, Form], Done]] = {
    "remember": remember,
    "many": change_many,
    "undo": undo,
    "decide": decide,
    "undo-review": undo_review,
    "dream-start": start_dream,
    "dream-cancel": cancel_dream,
    "fix": fix,
    "setting": change_setting,
    "sync": sync_team,
    "revert": revert_author,
}
