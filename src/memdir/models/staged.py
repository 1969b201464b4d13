"""A fork's writes before they happen: kept aside, shown back to it, and handed over as one batch of edits.

So a run that dies half way has changed nothing, and one that ends well changes everything at once. Each write is
checked when it is made, by the same rules as the store's own, because only then can the model still put it right.

It does not write to the store and does not judge where a text came from.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from memdir.errors import FormatError, MemdirError, NotFoundError, ReplyError
from memdir.format import frontmatter
from memdir.format.drafts import check_description, compose_body
from memdir.frozen import dataclass
from memdir.guard import check_name
from memdir.limits import FORK_CALLS, FORK_WRITTEN_BYTES
from memdir.records import Draft, Edit, Forget, Header, Kind, Memory, Rewrite, Save
from memdir.store.plan import StoreView, WriteRules, check_kind, check_text, digest_of, encode, plan_write
from memdir.text import find_json, fold, one_line, shorten

# --- staging ---


class StagedView(StoreView, Protocol):
    """What a run stands on: a store, or what one would be."""

    @property
    def rules(self) -> WriteRules: ...
    def scan(self) -> tuple[Header, ...]: ...
    def read(self, name: str) -> Memory: ...


@dataclass(frozen=True, slots=True)
class StagedMemory:
    """One memory as the fork left it; None stands for "no file". `before` is the text it found, `digest` its digest."""

    name: str
    text: str | None
    before: str | None
    digest: str | None


class Staging:
    """The writes of one run over one store."""

    def __init__(self, store: StagedView, *, now: datetime) -> None:
        self.store = store
        self._now = now
        self._staged: dict[str, StagedMemory] = {}

    def scan(self) -> tuple[Header, ...]:
        """The headers that were there before the run."""
        return self.store.scan()

    def read(self, name: str) -> str:
        """A memory's text as this run sees it."""
        key = fold(name)
        if key in self._staged:
            text = self._staged[key].text
            if text is None:
                raise NotFoundError(f"no memory named {name}", name=name)
            return text
        check_name(name)
        return self.store.read(name).text

    def find_before(self, name: str) -> str | None:
        """A memory's text as the run found it."""
        check_name(name)
        return self._find(name).before

    def write(self, name: str, text: str) -> bool:
        """Put a whole file, frontmatter included, under a name; answers whether the memory is new."""
        check_name(name)
        found = self._find(name)
        if found.before is None:
            self._check_new(name, text)
        else:
            fields = frontmatter.parse_fields(text)
            check_kind(fields, self.store.rules)
            check_text(text, "body")
            if fields.description != frontmatter.parse_fields(found.before).description:
                check_description(fields.description, fields.kind)
        self._staged[fold(name)] = StagedMemory(found.name, text, found.before, found.digest)
        return found.before is None

    def save(self, draft: Draft) -> str:
        """A draft under its own name, or under that of the memory it renews; answers the name."""
        name, planned = plan_write(self, draft, self._find_digest(draft), self._now, self.store.rules)
        after = next((at.after for at in planned if at.path == f"{name}.md"), None)
        if after is not None:
            found = self._find(name)
            self._staged[fold(name)] = StagedMemory(name, after.decode("utf-8"), found.before, found.digest)
        return name

    def forget(self, name: str) -> None:
        self.read(name)
        found = self._find(name)
        if found.before is None:
            del self._staged[fold(name)]  # it never came to be
        else:
            self._staged[fold(name)] = StagedMemory(found.name, None, found.before, found.digest)

    def drop(self, name: str) -> None:
        """Leave one memory as it was before the run."""
        self._staged.pop(fold(name), None)

    def copy(self) -> dict[str, StagedMemory]:
        """The run so far, for `take_back`."""
        return dict(self._staged)

    def take_back(self, copy: dict[str, StagedMemory]) -> None:
        """Go back to an earlier point of the run."""
        self._staged = dict(copy)

    @property
    def staged(self) -> tuple[StagedMemory, ...]:
        """What changed, in the order in which it was first touched."""
        return tuple(at for at in self._staged.values() if at.text != at.before)

    # --- a view for planning ----------------------------------------------------------------------------------------

    def read_bytes(self, path: str) -> bytes | None:
        staged = self._staged.get(fold(path.removesuffix(".md")))
        if staged is not None:
            return None if staged.text is None else encode(staged.text)
        return self.store.read_bytes(path)

    def list_files(self, folder: str) -> list[str]:
        listed = self.store.list_files(folder)
        prefix = f"{folder}/" if folder else ""
        new = (f"{at.name}.md" for at in self._staged.values() if at.text is not None)
        return sorted({*listed, *(path[len(prefix) :] for path in new if _is_directly_in(path, prefix))})

    def _find(self, name: str) -> StagedMemory:
        key = fold(name)
        if key in self._staged:
            return self._staged[key]
        try:
            memory = self.store.read(name)
        except NotFoundError:
            return StagedMemory(name, None, None, None)
        return StagedMemory(memory.header.name, memory.text, memory.text, memory.digest)

    def _find_digest(self, draft: Draft) -> str | None:
        if draft.name is None:
            return None
        data = self.read_bytes(f"{draft.name}.md")
        return None if data is None else digest_of(data)

    def _check_new(self, name: str, text: str) -> None:
        draft = parse_draft(name, text)
        check_description(draft.description, draft.kind)
        plan_write(self.store, draft, None, self._now, self.store.rules)


def make_edits(staged: Iterable[StagedMemory]) -> tuple[Edit, ...]:
    """The batch that makes the store read as the run left it."""
    edits: list[Edit] = []
    for at in staged:
        if at.text is None:
            edits.append(Forget(at.name, at.digest))
        elif at.digest is None:
            edits.append(Save(parse_draft(at.name, at.text)))
        else:
            edits.append(Rewrite(at.name, at.text, at.digest))
    return tuple(edits)


def parse_draft(name: str, text: str) -> Draft:
    """A whole file as a draft, so that a new one is written in the directory's own dialect."""
    fields = frontmatter.parse_fields(text)
    if fields.kind is None or fields.problem:
        raise FormatError(
            f"{name}.md cannot be saved: {fields.problem or 'it has no type'}",
            field="frontmatter",
            hint="it needs name, description and type (user, feedback, project or reference) between two --- lines",
        )
    body = frontmatter.split_frontmatter(text).body.lstrip("\r\n")
    return Draft(Kind(fields.kind), fields.title or name, fields.description, body, name, fields.pinned or None)


def _is_directly_in(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and "/" not in path[len(prefix) :]


# --- operations ---
# What a model without tools wants remembered: one JSON list of operations, checked as a whole.
#
# For hosts whose prompt prefix is not known, and for models that cannot call tools. `parse_operations` reads an answer
# whatever stands around the JSON and says in one sentence what is wrong with it, so that it can be sent back once.
# `stage` carries a list out on a staging, all of it or, with an error, none.

KEY = "operations"
_ACTIONS = ("create", "update", "delete")
_TEXTS = ("action", "name", "type", "title", "description", "body", "why", "how", "evidence")
_REASON = "reason"


def _make_schema(keys: Sequence[str]) -> Mapping[str, object]:
    row = {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(_ACTIONS)},
            "type": {"type": "string", "enum": [kind.value for kind in Kind]},
            **{key: {"type": "string"} for key in keys if key not in ("action", "type")},
        },
        "required": list(keys),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {KEY: {"type": "array", "items": row}},
        "required": [KEY],
        "additionalProperties": False,
    }


SCHEMA = _make_schema(_TEXTS)
# For a task that wants to hear why.
REASONED = _make_schema((*_TEXTS, _REASON))


@dataclass(frozen=True, slots=True)
class Operation:
    """One wish; `evidence` is what it rests on, in the conversation's own words; `reason` why, where that is asked."""

    action: str
    name: str
    kind: Kind | None = None
    title: str = ""
    description: str = ""
    body: str = ""
    evidence: str = ""
    reason: str = ""


def parse_operations(text: str, *, limit: int = FORK_CALLS) -> tuple[Operation, ...]:
    """The operations in an answer, at most `limit`; raises ReplyError saying what is wrong with it."""
    found = list(find_json(text))
    for value in found:
        rows = value.get(KEY) if isinstance(value, dict) else value
        if isinstance(rows, list):
            return tuple(_parse_row(row, number) for number, row in enumerate(rows[:limit], 1))
    if not found:
        raise ReplyError(f"there is no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")
    raise ReplyError(f'the JSON has no list "{KEY}"')


def stage(operations: Sequence[Operation], staging: Staging, *, limit: int = FORK_WRITTEN_BYTES) -> dict[str, str]:
    """Carry out all of them; answers name to evidence. Raises ReplyError naming the first that cannot be done."""
    evidence: dict[str, str] = {}
    size = 0
    for number, wish in enumerate(operations, 1):
        size += len((wish.body + wish.description).encode("utf-8", "replace"))
        if size > limit:
            raise ReplyError(f"a run may write {limit:,} bytes, and these are more")
        try:
            name = _stage_one(wish, staging)
        except MemdirError as error:
            hint = f" ({error.hint})" if error.hint else ""
            named = shorten(one_line(wish.name), 80)
            raise ReplyError(f"operation {number} ({wish.action} {named}): {error}{hint}") from None
        evidence[name] = wish.evidence
    return evidence


def _stage_one(wish: Operation, staging: Staging) -> str:
    if wish.action == "delete":
        staging.forget(wish.name)
        return wish.name
    if wish.action == "update":
        staging.read(wish.name)
    elif _exists(wish.name, staging):
        raise FormatError(f"{wish.name} exists already", hint="update it instead")
    if wish.kind is None:
        raise FormatError("it has no type", field="type", hint="user, feedback, project or reference")
    draft = Draft(wish.kind, wish.title or wish.name, wish.description, wish.body, wish.name)
    return staging.save(draft)


def _exists(name: str, staging: Staging) -> bool:
    try:
        staging.read(name)
    except NotFoundError:
        return False
    return True


def _parse_row(row: object, number: int) -> Operation:
    if not isinstance(row, dict):
        raise ReplyError(f"operation {number} is not an object")
    values = {key: value.strip() for key in (*_TEXTS, _REASON) if isinstance(value := row.get(key), str)}
    action = values.get("action", "").lower()
    if action not in _ACTIONS:
        raise ReplyError(f"operation {number} has no action of {', '.join(_ACTIONS)}")
    name = values.get("name", "").removeprefix("./").removesuffix(".md")
    if not name:
        raise ReplyError(f"operation {number} has no name")
    kind = values.get("type", "").lower()
    return Operation(
        action,
        name,
        Kind(kind) if kind in [at.value for at in Kind] else None,
        one_line(values.get("title", "")),
        one_line(values.get("description", "")),
        compose_body(values.get("body", ""), values.get("why"), values.get("how")),
        values.get("evidence", ""),
        one_line(values.get(_REASON, "")),
    )
