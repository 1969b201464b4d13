"""The pending writes of a run: kept in memory, visible to the run, and returned as one batch of edits.

A run that fails halfway has changed nothing, and a successful one changes everything at once. Each write is checked
immediately by the store's rules, so that the model can still correct it. Nothing is written to the store here.

A model without tools, or a host whose prompt prefix is unknown, uses operations instead: one JSON list, which
`parse_operations` reads and `stage` applies one by one. All problems are returned together as text to send back.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from memdir.errors import FormatError, MemdirError, NotFoundError, ReplyError
from memdir.files import check_name
from memdir.format import frontmatter
from memdir.format.document import compose_body
from memdir.format.fields import list_set
from memdir.format.frontmatter import check_description, decode, digest_of, encode, split_frontmatter
from memdir.frozen import dataclass, replace
from memdir.limits import CUE_CHARS, CUES, FORK_CALLS, FORK_WRITTEN_BYTES
from memdir.records import Draft, Edit, Forget, Header, Kind, Rewrite, Save, StoredMemory
from memdir.store.plan import StoreView, WriteRules, check_file, number_names, plan_write, resolve_text
from memdir.text import check_text, find_json, fold, one_line, shorten

KEY = "operations"
_ACTIONS = ("create", "update", "delete")
_TEXTS = ("action", "name", "type", "title", "description", "body", "why", "how", "evidence")
_REASON, _CUES = "reason", "cues"
_DESCRIPTION_CHARS = 140  # of a description made from the body


class StagedView(StoreView, Protocol):
    """The files a run reads: a store, or a view of one."""

    @property
    def rules(self) -> WriteRules: ...
    def scan(self) -> tuple[Header, ...]: ...
    def read(self, name: str) -> StoredMemory: ...


@dataclass(frozen=True, slots=True)
class StagedMemory:
    """One memory after the run; None means no file. `before` is the text before the run, `digest` its digest."""

    name: str
    text: str | None
    before: str | None
    digest: str | None


class Staging:
    def __init__(self, store: StagedView, *, now: datetime) -> None:
        self.store = store
        # Dates are relative to the user's time zone, not to the clock's UTC.
        self.now = now.astimezone() if now.tzinfo is UTC else now
        self._staged: dict[str, StagedMemory] = {}

    def scan(self) -> tuple[Header, ...]:
        return self.store.scan()

    def read(self, name: str) -> str:
        """Return a memory's text as the run left it so far."""
        key = fold(name)
        if key in self._staged:
            text = self._staged[key].text
            if text is None:
                raise NotFoundError(f"no memory named {name}", name=name)
            return text
        check_name(name)
        return self.store.read(name).text

    def find_before(self, name: str) -> str | None:
        check_name(name)
        return self._find(name).before

    def write(self, name: str, text: str) -> bool:
        """Write a complete file, frontmatter included, and return whether the memory is new."""
        check_name(name)
        current = self._find(name)
        text = resolve_text(frontmatter.quote_values(text), self.now, current.before or "")
        if current.before is None:
            draft = parse_draft(name, text)
            check_description(draft.description, draft.kind)
            plan_write(self.store, draft, None, self.now, self.store.rules)
        else:
            fields, before = frontmatter.parse_fields(text), frontmatter.parse_fields(current.before)
            check_file(fields, self.store.rules, before)
            check_text(text, "body")
            if fields.description != before.description:
                check_description(fields.description, fields.kind)
        self._staged[fold(name)] = replace(current, text=text)
        return current.before is None

    def save(self, draft: Draft) -> str:
        """Write a draft under its own name, or that of the memory it replaces, and return the name."""
        data = None if draft.name is None else self.read_bytes(f"{draft.name}.md")
        digest = None if data is None else digest_of(data)
        name, planned = plan_write(self, draft, digest, self.now, self.store.rules)
        after = next((change.after for change in planned if change.path == f"{name}.md"), None)
        if after is not None:
            self._staged[fold(name)] = replace(self._find(name), name=name, text=after.decode("utf-8"))
        return name

    def forget(self, name: str) -> None:
        self.read(name)
        if (current := self._find(name)).before is None:
            del self._staged[fold(name)]  # it was new in this run
        else:
            self._staged[fold(name)] = replace(current, text=None)

    def drop(self, name: str) -> None:
        self._staged.pop(fold(name), None)

    def put(self, staged: StagedMemory) -> str:
        """Stage an accepted memory; a new one gets a free name if its own is used for another text."""
        numbered = number_names(staged.name)
        name = next(numbered)
        while staged.before is None and (existing := self.read_bytes(f"{name}.md")) is not None:
            if split_frontmatter(decode(existing)).body.strip() == split_frontmatter(staged.text or "").body.strip():
                return name
            name = next(numbered)
        self._staged[fold(name)] = replace(staged, name=name)
        return name

    def copy(self) -> dict[str, StagedMemory]:
        return dict(self._staged)

    def restore(self, copy: dict[str, StagedMemory]) -> None:
        self._staged = dict(copy)

    @property
    def staged(self) -> tuple[StagedMemory, ...]:
        """Return the changed memories, in the order of the first changes."""
        return tuple(memory for memory in self._staged.values() if memory.text != memory.before)

    def read_bytes(self, path: str) -> bytes | None:
        if (staged := self._staged.get(fold(path.removesuffix(".md")))) is not None:
            return None if staged.text is None else encode(staged.text)
        return self.store.read_bytes(path)

    def list_files(self, folder: str) -> list[str]:
        listed = self.store.list_files(folder)
        prefix = f"{folder}/" if folder else ""
        new = (f"{memory.name}.md" for memory in self._staged.values() if memory.text is not None)
        inside = (path[len(prefix) :] for path in new if path.startswith(prefix))
        return sorted({*listed, *(path for path in inside if "/" not in path)})

    def _find(self, name: str) -> StagedMemory:
        key = fold(name)
        if key in self._staged:
            return self._staged[key]
        try:
            memory = self.store.read(name)
        except NotFoundError:
            return StagedMemory(name, None, None, None)
        return StagedMemory(memory.header.name, memory.text, memory.text, memory.digest)


def make_edits(staged: Iterable[StagedMemory]) -> tuple[Edit, ...]:
    edits: list[Edit] = []
    for memory in staged:
        if memory.text is None:
            edits.append(Forget(memory.name, memory.digest))
        elif memory.digest is None:
            edits.append(Save(parse_draft(memory.name, memory.text)))
        else:
            edits.append(Rewrite(memory.name, memory.text, memory.digest))
    return tuple(edits)


def parse_draft(name: str, text: str) -> Draft:
    """Parse a complete file as a draft, so that a new memory is written in the directory's dialect."""
    fields = frontmatter.parse_fields(text)
    if fields.kind is None or fields.problem:
        why = fields.problem or "it has no type"
        hint = "add name, description and type (user, feedback, project or reference) between two --- lines"
        raise FormatError(f"{name}.md cannot be saved: {why}", field="frontmatter", hint=hint)
    body = split_frontmatter(text).body.lstrip("\r\n")
    own = {row.key: value for row, value in list_set(replace(fields, cues=fields.cues[:CUES]))}
    return Draft(Kind(fields.kind), fields.title or name, fields.description, body, name, **own)


def make_object(properties: Mapping[str, object]) -> Mapping[str, object]:
    """Return the JSON schema of an object with exactly these properties."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _make_schema(keys: Sequence[str]) -> Mapping[str, object]:
    # Strict schemas require every key; a deletion leaves the others empty.
    enums = {"action": {"enum": list(_ACTIONS)}, "type": {"enum": ["", *(kind.value for kind in Kind)]}}
    row = {key: {"type": "string", **enums.get(key, {})} for key in keys}
    cues = {_CUES: {"type": "array", "items": {"type": "string"}}}
    return make_object({KEY: {"type": "array", "items": make_object({**row, **cues})}})


SCHEMA = _make_schema(_TEXTS)
REASONED = _make_schema((*_TEXTS, _REASON))  # for a task that asks for reasons


@dataclass(frozen=True, slots=True)
class Operation:
    """One requested change; `evidence` quotes the conversation, `reason` is set if the task asks for it."""

    action: str
    name: str
    kind: Kind | None = None
    title: str = ""
    description: str = ""
    body: str = ""
    evidence: str = ""
    reason: str = ""
    cues: tuple[str, ...] = ()
    problem: str = ""  # why it cannot be applied, if already known


@dataclass(frozen=True, slots=True)
class StageResult:
    """The applied operations, by the name of their memory, and the problems with the others."""

    done: Mapping[str, Operation]
    problems: tuple[str, ...] = ()


def parse_operations(text: str, *, limit: int = FORK_CALLS) -> tuple[Operation, ...]:
    """Return the operations in a reply, at most `limit`, ignoring text around the JSON; raises ReplyError if there are none."""
    values = list(find_json(text))
    for value in values:
        rows = value.get(KEY) if isinstance(value, dict) else value
        if isinstance(rows, list):
            return tuple(_parse_row(row) for row in rows[:limit])
    if not values:
        raise ReplyError(f"there is no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")
    raise ReplyError(f'the JSON has no list "{KEY}"')


def stage(operations: Sequence[Operation], staging: Staging, *, limit: int = FORK_WRITTEN_BYTES) -> StageResult:
    """Apply the operations that are possible; an impossible one does not stop the others."""
    applied: dict[str, Operation] = {}
    problems: list[str] = []
    size = 0
    for number, operation in enumerate(operations, 1):
        size += len((operation.body + operation.description).encode("utf-8", "replace"))
        try:
            if operation.problem or size > limit:
                raise ReplyError(operation.problem or f"a run may write {limit:,} bytes, and with this one it is more")
            applied[_stage_one(operation, staging)] = operation
        except MemdirError as error:
            hint = f" ({error.hint})" if error.hint else ""
            named = shorten(one_line(f"{operation.action} {operation.name}".strip() or "no object"), 80)
            problems.append(f"operation {number} ({named}): {error}{hint}")
    return StageResult(applied, tuple(problems))


def _stage_one(operation: Operation, staging: Staging) -> str:
    name = operation.name
    if operation.action == "delete":
        staging.forget(name)
        return name
    was = ""
    try:
        was = frontmatter.parse_fields(staging.read(name)).description
    except NotFoundError:
        if operation.action == "update":
            raise
    else:
        if operation.action == "create":
            raise FormatError(f"{name} exists already", hint="update it instead")
    if operation.kind is None:
        raise FormatError("it has no type", field="type", hint="user, feedback, project or reference")
    cues = operation.cues or None
    title, description, body = operation.title or name, operation.description, operation.body
    try:
        if description != was:
            check_description(description, operation.kind)
    except FormatError:  # a bad description does not discard the memory; its body is descriptive enough
        description = shorten(one_line(body), _DESCRIPTION_CHARS)
    return staging.save(Draft(operation.kind, title, description, body, name, cues=cues))


def _parse_row(row: object) -> Operation:
    if not isinstance(row, dict):
        return Operation("", "", problem="it is not an object")
    values = {key: value.strip() for key in (*_TEXTS, _REASON) if isinstance(value := row.get(key), str)}
    action = values.get("action", "").lower()
    name = values.get("name", "").removeprefix("./").removesuffix(".md")
    problem = "" if action in _ACTIONS else f"it has no action of {', '.join(_ACTIONS)}"
    kind = values.get("type", "").lower()
    cues = row.get(_CUES)
    lines = [one_line(cue) for cue in cues if isinstance(cue, str)] if isinstance(cues, list) else []
    return Operation(
        action,
        name,
        Kind(kind) if kind in [member.value for member in Kind] else None,
        one_line(values.get("title", "")),
        one_line(values.get("description", "")),
        compose_body(values.get("body", ""), values.get("why"), values.get("how")),
        values.get("evidence", ""),
        one_line(values.get(_REASON, "")),
        tuple(line for line in lines if 0 < len(line) <= CUE_CHARS)[:CUES],
        problem or ("" if name else "it has no name"),
    )
