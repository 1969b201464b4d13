"""Actions of the web interface. Each is one change that the page offers to undo; decisions about memory are made elsewhere."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from memdir.dream import apply_preview, find_dream_context, preview_dream
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError
from memdir.format.fields import FIELDS, FLAG, TEXTS, clean_value
from memdir.format.frontmatter import parse_fields, split_frontmatter
from memdir.format.when import PATTERN_KEYS
from memdir.frozen import dataclass, replace
from memdir.interfaces import doctor
from memdir.interfaces.web.pages import Row, name_who
from memdir.interfaces.web.render import plain, quote_path, render_diff, show_time
from memdir.interfaces.web.review import REVIEW, find_item, find_last_review
from memdir.interfaces.web.site import Site, name_scope
from memdir.models.open import find_model
from memdir.operations import review, write
from memdir.operations.move import UNREACHED, find_scope_store, move, purge
from memdir.operations.write import WriteAction, WriteContext, WriteResult
from memdir.recall.pipeline import note_useless
from memdir.records import Draft, Edit, Enforce, FieldChanges, InboxState, Kind, Put, Rewrite, Save, Scope, When
from memdir.store.contract import StoreBase
from memdir.store.inbox import find_payload_edits
from memdir.sync.merge import merge_memory
from memdir.verify.check import verify


class Form:
    """The fields of a form; a field may occur several times."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> str:
        values = self._values.get(key, ())
        return values[-1].replace("\r\n", "\n") if values else ""

    def has(self, key: str) -> bool:
        return key in self._values

    def every(self, key: str) -> list[str]:
        return [value for value in self._values.get(key, ()) if value]


@dataclass(frozen=True, slots=True)
class ActionResult:
    """A message, the page to open next, and the changes to undo, in order, as `home:change`."""

    text: str
    to: str
    undo: tuple[str, ...] = ()
    tone: str = "g"


class MergeNeeded(Exception):
    """The memory changed since it was opened; `data` fills the conflict page."""

    def __init__(self, data: Row) -> None:
        super().__init__("the memory changed since it was opened")
        self.data = data


def _make_path(home: str, name: str) -> str:
    return f"/m/{home}/{quote_path(name)}"


def _find_undo(result: WriteResult) -> tuple[str, ...]:
    return tuple(f"{store.scope.value}:{number}" for store, number in result.changes)


def _make_context(site: Site) -> WriteContext:
    """Return the author and time of a write. Raises SettingsError if memory is off for the project."""
    _check_on(site)
    return WriteContext(site.origin, site.now())


def _check_on(site: Site) -> None:
    if site.project is not None:
        site.project.check_on()


def save_memory(site: Site, home: str, name: str, form: Form) -> ActionResult:
    """Save an edited memory, by fields or as full text. Raises MergeNeeded if it changed since it was opened."""
    store, base, expect, context = site.store(home), form["base"], form["expect"], _make_context(site)
    fields = FieldChanges() if form.has("text") else _find_changes(base, form)
    if form["text"] == base or not (fields or form.has("text")):
        return ActionResult("Nothing was changed.", _make_path(home, name))
    try:
        if fields:
            result = write.update(store, name, fields, context, expect=expect)
        else:
            result = write.rewrite(store, name, form["text"], context, expect=expect)
    except (ConflictError, NotFoundError):
        text = write.compose_update(name, base, fields, site.now()) if fields else form["text"]
        raise MergeNeeded(_make_merge(site, store, home, name, base, text)) from None
    return _make_result(result, f"Saved {_name_memory(result)}.", _make_path(home, name))


def _find_changes(base: str, form: Form) -> FieldChanges:
    """Return the fields in which the form differs from the original text."""
    opened, body = parse_fields(base), form["body"].strip("\n")
    given = {key: form[key].strip() for key in ("title", "description")} | _read_fields(form)
    given |= {"kind": Kind(form["type"])} if form["type"] in set(Kind) else {}
    fields = {key: value for key, value in given.items() if value != getattr(opened, key)}
    if body != split_frontmatter(base).body.strip("\r\n").replace("\r\n", "\n"):
        fields["body"] = body
    return cast(FieldChanges, fields)


def _read_fields(form: Form) -> dict[str, Any]:
    """Return the optional fields in a form. Lists have one item per line; a hidden field shows that a flag was offered."""
    values = dict[str, Any]()
    for row in FIELDS:
        if row.schema is FLAG and form.has(f"{row.key}_shown"):
            values[row.key] = row.parse(form[row.key])
        elif row.schema is not FLAG and form.has(row.key):
            text = form[row.key]
            values[row.key] = clean_value(tuple(text.split("\n")) if row.schema is TEXTS else text, row.key)
    return values | ({"when": _read_when(form)} if form.has("when_shown") else {})


def _read_when(form: Form) -> When:
    lists = {key: tuple(filter(None, map(str.strip, form[f"when_{key}"].split("\n")))) for key in PATTERN_KEYS}
    always = {"true": True, "false": False}.get(form["when_always"])
    decision = form["when_enforce"]
    return When(always, **lists, enforce=Enforce(decision) if decision in set(Enforce) else None)


def _name_memory(result: WriteResult) -> str:
    return plain(result.memory.header.title, 80) if result.memory else plain(result.name, 80)


def _make_result(result: WriteResult, text: str, to: str) -> ActionResult:
    """Return the message for a write; if it needs review, its inbox item is opened next."""
    if result.review is None:
        return ActionResult(text, to, _find_undo(result))
    item = f"/inbox?item={result.scope.value}:{result.review.item}"
    return ActionResult("Not saved yet: another person has to approve it.", item, tone="w")


def _make_merge(site: Site, store: StoreBase, home: str, name: str, base: str, mine: str) -> Row:
    try:
        current = store.read(name)
        theirs, expect = current.text, current.digest
    except NotFoundError:
        theirs, expect = None, ""
    merged = merge_memory(base, mine, theirs)
    change = next(iter(store.changes(name, limit=1)), None)
    now = site.now()
    return {
        "home": home,
        "name": name,
        "path": _make_path(home, name),
        "who": name_who(change.origin.who) if change else "Another process",
        "when": show_time(change.at, now) if change else "",
        "is_gone": theirs is None,
        "clashes": [plain(clash, 200) for clash in merged.clashes],
        "lines": render_diff(theirs or "", mine),
        "result": merged.text if merged.text is not None else mine,
        "mine": mine,
        "theirs": theirs or "",
        "base": theirs if theirs is not None else base,
        "expect": expect,
    }


def pin_memory(site: Site, home: str, name: str, form: Form) -> ActionResult:
    pinned = form["pinned"] == "1"
    result = write.pin(site.store(home), [name], pinned, _make_context(site))
    return _make_result(result, f"{'Pinned' if pinned else 'Unpinned'}.", _make_path(home, name))


def rate_memory(site: Site, home: str, name: str, form: Form) -> ActionResult:
    _check_on(site)
    note_useless(site.store(home), name)
    return ActionResult("Noted. After three times this memory is shown only if it fits better.", _make_path(home, name))


def forget_memory(site: Site, home: str, name: str, form: Form) -> ActionResult:
    result = write.forget(site.store(home), name, _make_context(site), expect=form["expect"] or None)
    return _make_result(result, f"Forgot {_name_memory(result)}. It stays in history.", "/memories")


def purge_memory(site: Site, home: str, name: str, form: Form) -> ActionResult:
    """Erase a memory, its history and its traces for good."""
    store = site.files.get(home)
    if store is None or form["sure"] != "1":
        raise ConflictError("nothing was erased", hint="confirm that it cannot be undone")
    count = purge(site.local_project, store, name)
    return ActionResult(
        f"Erased, with {count} changes of its history. memdir cannot reach {UNREACHED}.", "/memories", tone="w"
    )


def restore_memory(site: Site, home: str, name: str, form: Form) -> ActionResult:
    change = int(form["change"]) if form["change"].isdecimal() else None
    result = write.restore(site.store(home), name, _make_context(site), change=change)
    return _make_result(result, f"Restored {_name_memory(result)}.", _make_path(home, name))


def move_to(site: Site, home: str, name: str, form: Form) -> ActionResult:
    store = site.files.get(home)
    if site.project is None or store is None:
        raise NotFoundError("memories can only be moved on the machine with their files")
    to = Scope(form["to"]) if form["to"] in set(Scope) else Scope.PRIVATE
    verb = "demote" if to is Scope.PRIVATE else "promote"
    target, new_name = find_scope_store(site.project, name, to)
    result = move(store, name, target, new_name, _make_context(site), verb=verb)
    return _make_result(result, f"Moved to {name_scope(to)}.", _make_path(target.scope.value, new_name))


def verify_memory(site: Site, home: str, name: str, form: Form) -> ActionResult:
    store = site.files.get(home)
    if site.project is None or store is None:
        raise NotFoundError("memories can only be verified on the machine with the project")
    root = None if store.scope is Scope.USER else site.project.places.root.path
    report = verify(store, root, [name], now=site.now())
    stale = sum(len(verdict.stale) for verdict in report.verdicts)
    text = report.problem or (f"Outdated claims: {stale}." if stale else "Verified: no outdated claims.")
    return ActionResult(text, _make_path(home, name), tone="w" if stale or report.problem else "g")


def remember(site: Site, form: Form) -> ActionResult:
    """Save a new memory from free text or from the form's fields."""
    home = form["home"] or next(iter(site.stores))
    store, context = site.store(home), _make_context(site)
    if form.has("body"):
        kind = Kind(form["type"]) if form["type"] in set(Kind) else Kind.PROJECT
        optional = {key: value for key, value in _read_fields(form).items() if value}
        about = form["title"].strip(), form["description"].strip(), form["body"]
        result = write.save(store, Draft(kind, *about, **optional), context)
    else:
        if not form["words"].strip():
            raise FormatError("the text is empty", field="words", hint="enter the text to remember")
        result = write.remember([store], form["words"], context)
    if result.action is WriteAction.FORGOTTEN:
        return _make_result(result, f"Forgot {_name_memory(result)}. It stays in history.", "/memories")
    return _make_result(result, f"Remembered {_name_memory(result)}.", _make_path(home, result.name))


def change_many(site: Site, form: Form) -> ActionResult:
    """Forget, pin or verify the selected memories; forgetting and pinning are one change per store."""
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
    if waiting := next((result for result in results if result.review), None):
        return _make_result(waiting, text, "/memories")
    return ActionResult(text, "/memories", tuple(key for result in results for key in _find_undo(result)))


def undo(site: Site, form: Form) -> ActionResult:
    """Undo changes given as `home:number`; the undo can itself be undone."""
    undo_keys: list[str] = []
    back = form["to"] if form["to"].startswith("/") and not form["to"].startswith("//") else "/timeline"
    for key in form.every("change"):
        home, _, number = key.partition(":")
        store = site.store(home)
        change = store.read_change(int(number) if number.isdecimal() else 0)
        if change.undone_by is not None:
            raise ConflictError(f"change {change.id} was already undone")
        names = [form[f"only-{key}"]] if form.has(f"only-{key}") else []
        result = write.undo(store, change.id, _make_context(site), names=names)
        if result.review is not None:
            return _make_result(result, "", back)
        undo_keys = [*_find_undo(result), *undo_keys]
    return ActionResult("Undone.", back, tuple(undo_keys))


# The inbox.


def decide(site: Site, form: Form) -> ActionResult:
    """Approve or reject items; an edited text replaces that of a single item."""
    take = form["do"] if form["do"] in review.VERSIONS else ""
    is_approved, note = form["do"] == "approve" or bool(take), f"{REVIEW}{time.time_ns()}"
    context = WriteContext(site.origin, site.now(), check_on=partial(_check_on, site))
    if not (keys := form.every("item")):
        raise NotFoundError("nothing was selected", hint="select an item first")
    problems, count = [], 0
    for key in keys:
        _, store, item = find_item(site, key)
        if len(keys) > 1 and item.state is not InboxState.WAITING:
            continue  # the decision about another item on the same memory closed it
        try:
            edits = _edit_item(find_payload_edits(item.payload), form) if form.has("edited") else None
            review.decide(store, item.id, is_approved, context, note=note, edits=edits, take=take)
            count += 1
        except MemdirError as error:
            problems.append(f"{plain(item.title, 60)}: {error}")
    if problems and not count:
        raise ConflictError("; ".join(problems), hint="edit the memory and reject the item")
    words = "Approved" if is_approved else "Rejected"
    left = f" Not done: {'; '.join(problems)}." if problems else ""
    return ActionResult(
        f"{words} {count}.{left}", f"/inbox?item={form['next']}" if form["next"] else "/inbox", ("review",)
    )


def _edit_item(edits: tuple[Edit, ...], form: Form) -> tuple[Edit, ...]:
    if isinstance(edit := edits[0], Save):
        kind = Kind(form["type"]) if form["type"] in set(Kind) else edit.draft.kind
        title, description = form["title"] or edit.draft.title, form["description"] or edit.draft.description
        draft = replace(edit.draft, kind=kind, title=title, description=description, body=form["body"])
        return (replace(edit, draft=draft),)
    if isinstance(edit, Rewrite | Put):
        return (replace(edit, text=form["body"]),)
    raise FormatError("this item cannot be edited", field="edits")


def undo_review(site: Site, form: Form) -> ActionResult:
    """Reopen the items of the last review and undo their changes."""
    if not (items := find_last_review(site)):
        raise NotFoundError("nothing has been reviewed yet")
    for _, store, item in items:
        review.reopen(store, item, WriteContext(site.origin, site.now()))
    return ActionResult(f"{len(items)} {'item needs' if len(items) == 1 else 'items need'} review again.", "/inbox")


# Dreams.


def start_dream(site: Site, form: Form) -> ActionResult:
    """Make a preview, with the configured model unless the form declines it."""
    project = site.local_project
    project.check_on()
    model = None
    if form["model"] != "none":
        model = find_model(project.settings, project.environment, project=str(project.places.root.path))
    patches = preview_dream(project.private, model=model, now=site.now(), context=find_dream_context(project))
    # By its ID: a preview of the same second may be listed before it.
    return ActionResult("Nothing to tidy.", "/dream") if patches.is_empty else ActionResult("", f"/dream/{patches.id}")


def apply_dream(site: Site, id: str, form: Form) -> ActionResult:
    """Apply the accepted patches of a preview as one change and record the others as rejected."""
    _check_on(site)
    count = int(form["count"]) if form["count"].isdecimal() else 0
    accept = {number for number in range(count) if form[f"h{number}"] != "no"}
    result = apply_preview(site.local_project.private, id, accept=accept, now=site.now())
    applied = result.applied
    change = applied.change if applied else None
    names = ", ".join(plain(name, 60) for name in applied.dropped[:5]) if applied else ""
    left = f" Skipped because changed or pinned since: {names}." if names else ""
    if change is None:
        waiting = f" {len(applied.waiting)} need review." if applied and applied.waiting else ""
        return ActionResult(f"Nothing was changed: {count - len(accept)} rejected.{left}{waiting}", "/dream", tone="w")
    proof = applied.proof if applied else None
    lost = f" Nothing lost: {proof.removed} sentences removed are in history." if proof and proof.removed else ""
    return ActionResult(f"Applied {len(accept)} of {count}.{left}{lost}", f"/dream/{id}", (f"private:{change}",))


# Health, settings, team.


def fix(site: Site, form: Form) -> ActionResult:
    """Apply every safe fix."""
    _check_on(site)
    project, undo = site.local_project, list[str]()
    before = {key: next(iter(store.changes(limit=1)), None) for key, store in site.files.items()}
    fixed = doctor.repair_project(project, project.stores)
    for key, store in site.files.items():
        last = before[key]
        new = [change for change in store.changes(limit=10) if last is None or change.id > last.id]
        undo += [f"{key}:{change.id}" for change in new if change.verb != "outside"]
    return ActionResult(f"Fixed {fixed}." if fixed else "There was nothing to fix.", "/health", tuple(undo))


# The last part of the URL to the action it runs.
MEMORY_ACTIONS: Mapping[str, Callable[[Site, str, str, Form], ActionResult]] = {
    "save": save_memory,
    "pin": pin_memory,
    "forget": forget_memory,
    "restore": restore_memory,
    "purge": purge_memory,
    "move": move_to,
    "rate": rate_memory,
    "check": verify_memory,
}
SITE_ACTIONS: Mapping[str, Callable[[Site, Form], ActionResult]] = {
    "remember": remember,
    "many": change_many,
    "undo": undo,
    "decide": decide,
    "undo-review": undo_review,
    "dream-start": start_dream,
    "fix": fix,
}
