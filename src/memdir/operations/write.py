"""Writing memories: save, update, rewrite, remember, forget, pin, restore, undo, and several edits at once.

Each operation is one change of a store and returns its number for undo. A change that needs review goes to the inbox
instead, as the result says. Interfaces choose the store and word the result.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, ReviewError
from memdir.format.document import compose_body, find_missing_parts
from memdir.format.fields import FIELDS
from memdir.format.frontmatter import decode, make_slug, parse_fields, set_fields, split_frontmatter
from memdir.frozen import dataclass, replace
from memdir.limits import INDEX_LINE_CHARS
from memdir.operations.find import find_memory
from memdir.records import (
    TEAM_FOLDER,
    BatchResult,
    Draft,
    FieldChanges,
    Forget,
    Kind,
    Origin,
    Pin,
    Rewrite,
    Save,
    Scope,
    StoredMemory,
)
from memdir.store import plan
from memdir.store.contract import Edits, StoreBase
from memdir.store.plan import Planner, is_team
from memdir.text import fold, fold_words, one_line, shorten

if TYPE_CHECKING:
    from memdir.extraction.find import MemoryRequest
    from memdir.language.dates import ReplacedDate

_TRIES = 5
Result = TypeVar("Result")


class WriteAction(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FORGOTTEN = "forgotten"
    WAITING = "waiting"  # for review, in the inbox


class TakenName(StrEnum):
    """What to do with a draft whose name is in use."""

    REFUSE = "refuse"
    REPLACE = "replace"
    ALONGSIDE = "alongside"


@dataclass(frozen=True, slots=True)
class WriteContext:
    """The author and time of a write. `root` is the project, searched for text that need not be remembered;
    `keeps_secrets` lets users, who are warned, save a secret; `check_on` raises SettingsError if memory is off."""

    origin: Origin
    now: datetime
    root: Path | None = None
    keeps_secrets: bool = False
    check_on: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class WriteWarning:
    """A warning about a write. `kind` is parts (`text` is the missing part), derivable (the text and its source file)
    or rival (a contradicting sentence and its memory). Interfaces render it."""

    kind: str
    text: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write. `memory` is the new version, or the deleted memory; `before` is the previous text.

    `names` are all affected memories, `name` is the first. `changes` are the stores with the changes to undo, in this
    order; empty if nothing changed. `repeated`: this is an earlier change with the same idempotency key. `review` is
    set if the change needs review, and contains its inbox item.
    """

    action: WriteAction
    name: str
    scope: Scope
    memory: StoredMemory | None = None
    before: str | None = None
    changes: tuple[tuple[StoreBase, int], ...] = ()
    dates: "tuple[ReplacedDate, ...]" = ()
    warnings: tuple[WriteWarning, ...] = ()
    names: tuple[str, ...] = ()
    repeated: bool = False
    review: ReviewError | None = None

    @property
    def change(self) -> int | None:
        """The ID of the change, or None if nothing changed."""
        return self.changes[0][1] if self.changes else None

    def check_written(self) -> "WriteResult":
        """Return the result. Raise ReviewError if the change needs review."""
        if self.review is not None:
            raise self.review
        return self


class NameTakenError(ConflictError):
    """Another memory has this name; `before` is its text, `after` the rejected text."""

    def __init__(self, memory: StoredMemory, after: str, hint: str = "") -> None:
        super().__init__(f"{memory.name} already exists and says something else", found=memory.digest, hint=hint)
        self.name, self.before, self.after = memory.name, memory.text, after


class PartlyMeantError(NotFoundError):
    """The memory `name` matches the request to forget, but the sentence that matches also says something else."""

    def __init__(self, name: str) -> None:
        hint = f"`memdir edit {name}` changes it, `memdir forget {name}` removes all of it"
        super().__init__(f"{name} also says something else", name=name, hint=hint)


def save(
    store: StoreBase, draft: Draft, context: WriteContext, *, taken: TakenName = TakenName.REFUSE, team: bool = False
) -> WriteResult:
    """Save a draft, with `team` as a team memory. Raise NameTakenError, or NotFoundError for REPLACE."""
    draft, dates = plan.resolve_dates(_place_draft(store, draft, team=team), context.now.astimezone())
    before = None
    if taken is TakenName.REPLACE:
        if (before := find_existing(store, draft)) is None:
            missing = draft.name or draft.title
            raise NotFoundError(f"cannot replace {missing}: memory not found", name=missing)
        draft = replace(draft, name=before.name)  # because the title could lead to another name
    elif taken is TakenName.ALONGSIDE:
        draft = replace(draft, name=plan.find_free_name(store, draft.name or make_slug(draft.title)))
    try:
        edit, verb = Save(draft, before.digest if before else None), "edit" if before else "save"
        result = change(store, [edit], context, verb=verb)
    except ConflictError:
        if before is not None or (existing := find_existing(store, draft)) is None:
            raise
        named = replace(draft, name=existing.name)
        _, planned = plan.plan_write(store, named, existing.digest, store.clock(), store.rules)
        file = next((one for one in planned if one.path == existing.header.file), None)
        after = decode(file.after or b"") if file else existing.text
        if after != existing.text:
            raise NameTakenError(existing, after) from None
        result = WriteResult(WriteAction.UNCHANGED, existing.name, existing.header.scope, existing, existing.text)
    return replace(result, dates=dates, warnings=_find_warnings(result.memory, context))


def update(
    store: StoreBase, name: str, fields: FieldChanges, context: WriteContext, *, expect: str | None = None
) -> WriteResult:
    """Change fields of a memory. Raise ConflictError if its digest is not `expect`."""
    before = store.read(name)
    if expect not in (None, before.digest):
        hint = "read it again and decide again"
        raise ConflictError(f"{name} changed after it was read", expected=expect, found=before.digest, hint=hint)
    draft, dates = plan.resolve_dates(_make_draft(name, before.text, fields), context.now.astimezone(), before.text)
    result = change(store, [Save(draft, before.digest)], context, verb="edit")
    return replace(result, dates=dates, warnings=_find_warnings(result.memory, context))


def compose_update(name: str, text: str, fields: FieldChanges, now: datetime) -> str:
    return plan.render_over(text, _make_draft(name, text, fields), now)


def rewrite(store: StoreBase, name: str, text: str, context: WriteContext, *, expect: str) -> WriteResult:
    return change(store, [Rewrite(name, text, expect)], context, verb="edit")


def forget(store: StoreBase, name: str, context: WriteContext, *, expect: str | None = None) -> WriteResult:
    """Delete a memory and its index line. Both can be restored from history."""
    return change(store, [Forget(name, expect)], context, verb="forget")


def forget_many(store: StoreBase, names: Sequence[str], context: WriteContext) -> WriteResult:
    return change(store, [Forget(name) for name in names], context, verb="forget")


def pin(store: StoreBase, names: Sequence[str], pinned: bool, context: WriteContext) -> WriteResult:
    edits = [Pin(name, pinned) for name in names]
    return change(store, edits, context, verb="pin" if pinned else "unpin")


def change(store: StoreBase, edits: Edits, context: WriteContext, *, verb: str, mark: str = "") -> WriteResult:
    """Apply edits as one change, all or none. With a `mark` (idempotency key) the change is made only once.

    The result describes the memory of the first edit. Raises the same errors as `StoreBase.change`.
    """
    first = next((edit for item in edits for edit in (item if isinstance(item, Sequence) else (item,))), None)
    name = first.draft.name if isinstance(first, Save) else None if first is None else first.name

    def step() -> BatchResult:
        return store.change(edits, verb=verb, origin=context.origin, mark=mark)

    return _write(store, step, name)


def carry_out(
    store: StoreBase, planner: Planner, names: Sequence[str], context: WriteContext, *, verb: str, mark: str = ""
) -> WriteResult:
    """Apply the file changes that `planner` makes as one change. `names` are the memories that it concerns."""

    def step() -> BatchResult:
        result = store.carry_out(planner, verb=verb, origin=context.origin, mark=mark)
        return BatchResult(result.change, tuple(names), repeated=result.repeated)

    return _write(store, step, next(iter(names), None))


def restore(store: StoreBase, name: str, context: WriteContext, *, change: int | None = None) -> WriteResult:
    return _write(store, lambda: store.restore(name, change=change, origin=context.origin), name)


def undo(store: StoreBase, change: int | None, context: WriteContext, *, names: Sequence[str] = ()) -> WriteResult:
    """Undo a change, by default the last one; with `names`, only its effect on these memories."""
    last = store.find_last_change() if change is None else store.read_change(change)
    files = [file.path for file in last.files if not plan.is_index_path(file.path)] if last else []
    touched = tuple(names) or tuple(path.removesuffix(".md") for path in files)

    def step() -> BatchResult:
        if names and change is not None:
            return store.undo_files(change, names, origin=context.origin)
        undone, _ = store.undo(last.id if last else None, origin=context.origin)
        return BatchResult(store.read_change(undone.id).undone_by, touched)

    return _write(store, step, next(iter(touched), None))


def remember(
    stores: Sequence[StoreBase],
    text: str,
    context: WriteContext,
    *,
    kind: Kind | None = None,
    name: str | None = None,
    team: bool = False,
    pin: bool = False,
) -> WriteResult:
    """Save a sentence in the first store, in the memory that it extends or corrects or as a new memory.

    With a `name`, always create a new memory. A request to forget something applies to the first store in which one
    memory clearly matches. Raise NotFoundError if none does, FormatError if the text is too vague or cannot be saved.
    """
    # Imported here because `save` and `update` do not need the language patterns.
    from memdir.extraction.find import SAVE, MemoryRequest, compose_memory, find_forgetting
    from memdir.language.requests import RequestCategory

    now = context.now.astimezone()
    if request_to_forget := find_forgetting(text, now=now):
        return forget_described(stores, request_to_forget, context)
    draft = compose_memory(text, now=now, kind=kind, secrets=context.keeps_secrets)
    draft = replace(draft, name=name, pinned=True if pin else None)
    if name is not None:
        draft = _place_draft(stores[0], draft, team=team)
    about = (draft.kind, draft.title, draft.description, draft.body, text)
    request = MemoryRequest(RequestCategory.REQUEST, SAVE, *about)
    result = retry(partial(_write_request, stores[0], request, context, draft, team=team))
    _, dates = plan.resolve_dates(replace(draft, description="", body=text), now)
    warnings = _find_warnings(result.memory, context, draft)
    if result.action is WriteAction.CREATED:
        warnings += find_rival(stores[0], draft.body, result.name, now)
    return replace(result, dates=dates, warnings=warnings)


def forget_meant(
    stores: Sequence[StoreBase], text: str, context: WriteContext, *, expect: str | None = None
) -> WriteResult:
    """Delete a memory by its name, title or subject. Raise NotFoundError if none clearly matches."""
    # Imported here because `forget` does not need the language patterns.
    from memdir.extraction.find import FORGET, MemoryRequest, find_forgetting
    from memdir.language.requests import RequestCategory

    try:
        store, header = find_memory(stores, text)
    except NotFoundError:
        plain = MemoryRequest(RequestCategory.FORGET, FORGET, None, text, text, text, text)
        return forget_described(stores, find_forgetting(text, now=context.now.astimezone()) or plain, context)
    return forget(store, header.name, context, expect=expect)


def forget_described(stores: Sequence[StoreBase], request: "MemoryRequest", context: WriteContext) -> WriteResult:
    """Delete a memory, or its sentences on a subject, in the first store in which one memory clearly matches."""
    for store in stores:
        result = retry(partial(_write_request, store, request, context))
        if result.changes:
            return result
        if result.name:
            raise PartlyMeantError(result.name)
    hint = "`memdir forget NAME` removes one, `memdir list` has the names"
    raise NotFoundError("no memory, or more than one, clearly matches this", name=request.target, hint=hint)


def _write_request(
    store: StoreBase, request: "MemoryRequest", context: WriteContext, draft: Draft | None = None, *, team: bool = False
) -> WriteResult:
    """Merge a request into the current memories and write the result. A draft with a name becomes a new memory."""
    from memdir.extraction.merge import place
    from memdir.models.staged import Staging, make_edits

    staging = Staging(store, now=context.now)
    if draft is None or draft.name is None:
        name = place(request, staging, team=team)[0].name
    elif staging.read_bytes(f"{draft.name}.md") is None:
        name = staging.save(draft)
    else:
        hint = "without a name it is merged; `memdir save --replace` replaces it"
        raise NameTakenError(store.read(draft.name), draft.body, hint)
    if draft is not None and draft.pinned:
        staging.write(name, set_fields(staging.read(name), {"pinned": "true"}))
    if not (edits := make_edits(staging.staged)):
        return _make_result(store, BatchResult(None, (name,) if name else ()), _read_if_found(store, name))
    return change(store, edits, context, verb="forget" if draft is None else "remember")


def find_existing(store: StoreBase, draft: Draft) -> StoredMemory | None:
    """Return the memory that a draft would replace, or None."""
    name, data = plan.find_write_target(store, draft)
    return None if data is None else store.read(name)


def _place_draft(store: StoreBase, draft: Draft, *, team: bool) -> Draft:
    """Return the draft with a name in the team folder, which is unique even if another title has the same slug."""
    if not team or (draft.name is not None and is_team(draft.name)):
        return draft
    named = replace(draft, name=f"{TEAM_FOLDER}/{draft.name or make_slug(draft.title)}")
    existing = find_existing(store, named) if draft.name is None else None
    if existing is None or fold(existing.title) == fold(draft.title):
        return named
    return replace(named, name=plan.find_free_name(store, named.name or ""))


def _read_if_found(store: StoreBase, name: str | None) -> StoredMemory | None:
    with suppress(MemdirError):
        return store.read(name) if name else None
    return None


def _make_draft(name: str, text: str, fields: FieldChanges) -> Draft:
    header = parse_fields(text)
    if (kind := fields.get("kind", header.kind)) is None:
        raise FormatError(f"{name} has no type", field="type", hint=f"`memdir edit {name} --type …` gives it one")
    body = fields.get("body", split_frontmatter(text).body)
    optional: dict[str, Any] = {row.key: cast(Mapping[str, Any], fields).get(row.key) for row in FIELDS}
    return Draft(
        kind,
        fields.get("title", header.title or name),
        fields["description"]
        if "description" in fields
        else _follow_body(header.description, split_frontmatter(text).body, body),
        compose_body(body, fields.get("why"), fields.get("how")),
        name,
        **optional,
    )


def _follow_body(description: str, before: str, body: str) -> str:
    """Return the description; if it only repeats the old body and not the new one, the new one's first line."""
    said = fold_words(description.rstrip("…"))
    if not said or said in fold_words(body) or said not in fold_words(before):
        return description
    return shorten(one_line(body.strip().split("\n\n")[0]), INDEX_LINE_CHARS) or description


def _write(store: StoreBase, step: Callable[[], BatchResult], name: str | None) -> WriteResult:
    """Run `step`, which changes the memory `name` and perhaps others. Return WAITING if the change needs review."""
    before = _read_if_found(store, name)
    try:
        return _make_result(store, step(), before)
    except ReviewError as review:
        if not review.item:
            raise
        item, text = store.inbox_item(review.item), before.text if before else None
        return WriteResult(WriteAction.WAITING, item.name, store.scope, before=text, names=(item.name,), review=review)


def _make_result(store: StoreBase, batch: BatchResult, before: StoredMemory | None) -> WriteResult:
    name = batch.names[0] if batch.names else ""
    after = _read_if_found(store, name)
    if batch.change is None:
        action = WriteAction.UNCHANGED
    elif name and after is None:
        action = WriteAction.FORGOTTEN
    else:
        action = WriteAction.CREATED if name and before is None else WriteAction.CHANGED
    memory = after or before
    scope = memory.header.scope if memory else store.scope
    changes = () if batch.change is None else ((store, batch.change),)
    text = before.text if before else None
    return WriteResult(action, name, scope, memory, text, changes, names=batch.names, repeated=batch.repeated)


def _find_warnings(
    memory: StoredMemory | None, context: WriteContext, draft: Draft | None = None
) -> tuple[WriteWarning, ...]:
    """Return warnings about parts missing from a memory, unless it is a sentence, and text already in the project."""
    if memory is None or context.root is None:
        return ()
    # Imported here because it is only needed with a project.
    from memdir.verify.derivable import find_derivable

    kind = memory.kind if draft is None else None
    description, body = (memory.description, memory.body) if draft is None else (draft.description, draft.body)
    parts = find_missing_parts(kind, body) if kind is not None else ()
    reasons = find_derivable(f"{description}\n\n{body}", context.root, timeout=2.0)
    return (
        *(WriteWarning("parts", part) for part in parts),
        *(WriteWarning("derivable", *reason) for reason in reasons),
    )


def find_rival(store: StoreBase, text: str, name: str, now: datetime) -> tuple[WriteWarning, ...]:
    """Return a warning if a memory other than `name` contradicts the first sentence of a text."""
    from memdir.extraction import merge
    from memdir.models.staged import Staging

    rival = merge.find_rival(text, name, Staging(store, now=now))
    return () if rival is None else (WriteWarning("rival", rival[1], rival[0]),)


def retry(step: Callable[[], Result]) -> Result:
    """Repeat a write while another process changes the same memory between reading and writing."""
    for _ in range(_TRIES - 1):
        try:
            return step()
        except NameTakenError:
            raise
        except ConflictError:
            continue
    return step()
