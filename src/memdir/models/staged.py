"""Stage the writes of a run in memory, and return them as one batch of edits.

A run that fails halfway changes nothing, and a successful one changes everything at once. Each write is checked against
the store's rules immediately, while the model can still correct it. This module does not write to the store.

A model without tools returns a JSON list of operations instead, which `parse_operations` parses and `stage` applies one by
one. All problems are returned together as text for the model. This is also used if the host's prompt is unknown.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from memdir.errors import FormatError, MemdirError, NotFoundError, ReplyError
from memdir.files import check_name
from memdir.format import frontmatter
from memdir.format.age import find_links
from memdir.format.document import compose_body
from memdir.format.fields import list_set
from memdir.format.frontmatter import check_description, decode, digest_of, encode, make_slug, split_frontmatter
from memdir.format.when import PATTERN_KEYS, keep_valid, read_when
from memdir.frozen import dataclass, replace
from memdir.limits import CUE_CHARS, CUES, FORK_CALLS, FORK_WRITTEN_BYTES
from memdir.models.prompts import render_prompt
from memdir.records import (
    Draft,
    Edit,
    Forget,
    Header,
    Kind,
    Message,
    Model,
    Put,
    Reply,
    Request,
    Rewrite,
    Save,
    StopReason,
    StoredMemory,
    When,
)
from memdir.store.plan import StoreView, WriteRules, check_file, number_names, plan_write, resolve_text
from memdir.text import check_text, find_rows, fold, fold_link, one_line, shorten

KEY = "operations"
_ACTIONS = ("create", "update", "delete")
_TEXTS = ("action", "name", "type", "title", "description", "body", "why", "how")
_REASON, _CUES, _EVIDENCE, _WHEN, _NEW_NAME = "reason", "cues", "evidence", "when", "new_name"
_DESCRIPTION_CHARS = 140  # max length of a description that is made from the body


class StagedView(StoreView, Protocol):
    """What a run reads memories from: a store, or a view of a store with planned changes."""

    @property
    def rules(self) -> WriteRules: ...
    def scan(self) -> tuple[Header, ...]: ...
    def read(self, name: str) -> StoredMemory: ...


@dataclass(frozen=True, slots=True)
class StagedMemory:
    """The state of one memory after the run. A text of None means that it does not exist.

    `before` is the text before the run and `digest` its digest; `renamed` is a new name for an existing memory.
    """

    name: str
    text: str | None
    before: str | None
    digest: str | None
    renamed: str = ""

    @property
    def new_name(self) -> str:
        return self.renamed or self.name

    @property
    def is_changed(self) -> bool:
        return self.text != self.before or bool(self.renamed)


class Staging:
    def __init__(self, store: StagedView, *, now: datetime) -> None:
        self.store = store
        # Dates are relative to the user's time zone, not to the clock's UTC.
        self.now = now.astimezone() if now.tzinfo is UTC else now
        self._staged: dict[str, StagedMemory] = {}

    def scan(self) -> tuple[Header, ...]:
        return self.store.scan()

    def read(self, name: str) -> str:
        """Return the current text of a memory in this run."""
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
        """Stage a complete file with frontmatter. Return whether the memory is new."""
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
        """Stage a draft and return its name. If it replaces a memory, it gets that memory's name."""
        data = None if draft.name is None else self.read_bytes(f"{draft.name}.md")
        digest = None if data is None else digest_of(data)
        name, planned = plan_write(self, draft, digest, self.now, self.store.rules)
        after = next((change.after for change in planned if change.path == f"{name}.md"), None)
        if after is not None:
            self._staged[fold(name)] = replace(self._find(name), name=name, text=after.decode("utf-8"))
        return name

    def rename(self, name: str, new_name: str) -> None:
        """Rename an existing memory in its folder. Does nothing if the name is taken or the memory is new."""
        folder = name[: name.rfind("/") + 1]
        new_name, current = folder + make_slug(new_name), self._find(name)
        is_taken = fold(new_name) == fold(name) or self.read_bytes(f"{new_name}.md") is not None
        if current.before is not None and current.text is not None and not is_taken:
            self._staged[fold(name)] = replace(current, renamed=new_name)

    def forget(self, name: str) -> None:
        self.read(name)
        if (current := self._find(name)).before is None:
            del self._staged[fold(name)]  # it was new in this run
        else:
            self._staged[fold(name)] = replace(current, text=None)

    def drop(self, name: str) -> None:
        self._staged.pop(fold(name), None)

    def put(self, staged: StagedMemory) -> str:
        """Stage an accepted memory. A new one is renamed if its name is taken by a memory with another body."""
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
        """Return the changed memories in the order in which they were first changed."""
        return tuple(memory for memory in self._staged.values() if memory.is_changed)

    def read_bytes(self, path: str) -> bytes | None:
        if (staged := self._staged.get(fold(path.removesuffix(".md")))) is not None:
            return None if staged.text is None else encode(staged.text)
        return self.store.read_bytes(path)

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]:
        listed = self.store.list_files(folder, alike=alike, most=most)
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


def make_edits(staged: Iterable[StagedMemory], view: StagedView | None = None) -> tuple[Edit, ...]:
    """Return the edits for these memories. With a view, links to renamed memories in other memories are updated."""
    staged = tuple(staged)
    renames = {memory.name: memory.renamed for memory in staged if memory.renamed and memory.text is not None}
    edits: list[Edit] = []
    for memory in staged:
        text = None if memory.text is None else rename_links(memory.text, renames)
        if text is None:
            edits.append(Forget(memory.name, memory.digest))
        elif memory.digest is None:
            edits.append(Save(parse_draft(memory.name, text)))
        elif memory.renamed:
            edits += [Put(memory.renamed, text), Forget(memory.name, memory.digest)]
        else:
            edits.append(Rewrite(memory.name, text, memory.digest))
    if view is not None and renames:
        names = {memory.name for memory in staged}
        for other in (view.read(header.name) for header in view.scan() if header.name not in names):
            if (text := rename_links(other.text, renames)) != other.text:
                edits.append(Rewrite(other.header.name, text, other.digest))
    return tuple(edits)


def rename_links(text: str, renames: Mapping[str, str]) -> str:
    """Return the text with links to renamed memories changed to their new names."""
    for old, new in renames.items():
        parts = old.rpartition("/")[2], new.rpartition("/")[2]
        pairs = [pair for pair in ((old, new) if "/" in old else parts, parts) if pair[0] != pair[1]]
        for spelled in {link for link, _ in find_links(text)} if pairs else ():
            target = next((new for old, new in pairs if fold_link(spelled.removesuffix(".md")) == fold_link(old)), None)
            if target is not None:
                text = re.sub(rf"\[\[\s*{re.escape(spelled)}(?=\s*(?:\||\]\]))", f"[[{target}", text)
    return text


def parse_draft(name: str, text: str) -> Draft:
    """Parse a complete file as a draft."""
    fields = frontmatter.parse_fields(text)
    if fields.kind is None or fields.problem:
        why = fields.problem or "it has no type"
        hint = "add name, description and type (user, feedback, project or reference) between two --- lines"
        raise FormatError(f"{name}.md cannot be saved: {why}", field="frontmatter", hint=hint)
    body = split_frontmatter(text).body.lstrip("\r\n")
    optional = {
        row.key: value
        for row, value in list_set(replace(fields, cues=fields.cues[:CUES], when=keep_valid(fields.when)))
    }
    return Draft(Kind(fields.kind), fields.title or name, fields.description, body, name, **optional)


def make_object(properties: Mapping[str, object]) -> Mapping[str, object]:
    """Return the JSON schema of an object with exactly these properties."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}


def _make_schema(*others: str, evidence: Mapping[str, object]) -> Mapping[str, object]:
    # Strict schemas require every key; a deletion leaves the others empty.
    enums = {"action": {"enum": list(_ACTIONS)}, "type": {"enum": ["", *(kind.value for kind in Kind)]}}
    row: dict[str, object] = {key: {**_STRING, **enums.get(key, {})} for key in (*_TEXTS, _NEW_NAME, *others)}
    when = make_object({"always": {"type": "boolean"}, **dict.fromkeys(PATTERN_KEYS, _STRINGS)})
    row |= {_EVIDENCE: evidence, _CUES: _STRINGS, _WHEN: when}
    return make_object({KEY: {"type": "array", "items": make_object(row)}})


SCHEMA = _make_schema(evidence=_STRINGS)
REASONED = _make_schema(_REASON, evidence=_STRING)  # for a task that asks for reasons


@dataclass(frozen=True, slots=True)
class Operation:
    """A change that the model requests. `evidence` contains quotes from the conversation, one per line."""

    action: str
    name: str
    kind: Kind | None = None
    title: str = ""
    description: str = ""
    body: str = ""
    evidence: str = ""
    reason: str = ""
    cues: tuple[str, ...] = ()
    when: When | None = None
    new_name: str = ""  # only for an update
    problem: str = ""  # why it cannot be applied, if already known


def check_reply(reply: Reply) -> str:
    """Return the text of a reply. Raises ReplyError if the model declined or was cut off."""
    if reply.stop in (StopReason.REFUSED, StopReason.LENGTH):
        declined = reply.stop is StopReason.REFUSED
        raise ReplyError("the model declined" if declined else "the response was cut off by the token limit")
    return reply.text


def ask_repairing(
    model: Model, request: Request, read: Callable[[Reply], Sequence[str]], repair: str
) -> tuple[list[Reply], Sequence[str]]:
    """Send a request. If `read` finds problems in the reply, send them back once with the prompt `repair`.

    Return the replies and the problems of the last one. Raises ReplyError if no reply could be read.
    """
    replies: list[Reply] = []
    unread = 0
    while True:
        replies.append(model(request))
        try:
            problems = read(replies[-1])
        except ReplyError as error:
            unread, problems = unread + 1, (str(error),)
        if not problems or len(replies) > 1:
            break
        text = render_prompt(repair, problems="\n".join(f"- {problem}" for problem in problems))
        turn = (Message("assistant", replies[-1].text or "(nothing)"), Message("user", text))
        request = replace(request, messages=(*request.messages, *turn))
    if unread == len(replies):
        raise ReplyError(problems[0])
    return replies, problems


def parse_operations(text: str, *, limit: int = FORK_CALLS) -> tuple[Operation, ...]:
    """Return the operations in a reply, at most `limit`, ignoring text around the JSON; raises ReplyError if there are none."""
    return tuple(map(_parse_row, find_rows(text, KEY)[:limit]))


def stage(
    operations: Sequence[Operation], staging: Staging, *, limit: int = FORK_WRITTEN_BYTES
) -> tuple[dict[str, Operation], list[str]]:
    """Apply the valid operations. Return them by the name of the changed memory, and the problems with the others."""
    applied: dict[str, Operation] = {}
    problems: list[str] = []
    size = 0
    for number, operation in enumerate(operations, 1):
        size += len((operation.body + operation.description).encode("utf-8", "replace"))
        try:
            if operation.problem or size > limit:
                raise ReplyError(operation.problem or f"this operation exceeds the limit of {limit:,} bytes per run")
            applied[_stage_one(operation, staging)] = operation
        except MemdirError as error:
            hint = f" ({error.hint})" if error.hint else ""
            named = shorten(one_line(f"{operation.action} {operation.name}".strip() or "no object"), 80)
            problems.append(f"operation {number} ({named}): {error}{hint}")
    return applied, problems


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
            raise FormatError(f"{name} already exists", hint="update it instead")
    if operation.kind is None:
        raise FormatError("it has no type", field="type", hint="use user, feedback, project or reference")
    cues = operation.cues or None
    title, description, body = operation.title or name, operation.description, operation.body
    try:
        if description != was:
            check_description(description, operation.kind)
    except FormatError:  # a bad description does not discard the memory; its body is descriptive enough
        description = shorten(one_line(body), _DESCRIPTION_CHARS)
    name = staging.save(Draft(operation.kind, title, description, body, name, cues=cues, when=operation.when))
    if operation.new_name:
        staging.rename(name, operation.new_name)
    return name


def _parse_row(row: object) -> Operation:
    if not isinstance(row, dict):
        return Operation("", "", problem="it is not an object")
    keys = (*_TEXTS, _NEW_NAME, _REASON)
    values = {key: value.strip() for key in keys if isinstance(value := row.get(key), str)}
    action = values.get("action", "").lower()
    name = values.get("name", "").removeprefix("./").removesuffix(".md")
    problem = "" if action in _ACTIONS else f"it has no action of {', '.join(_ACTIONS)}"
    kind = values.get("type", "").lower()
    lines, quotes = map(one_line, _list_texts(row.get(_CUES))), map(str.strip, _list_texts(row.get(_EVIDENCE)))
    return Operation(
        action,
        name,
        Kind(kind) if kind in [member.value for member in Kind] else None,
        one_line(values.get("title", "")),
        one_line(values.get("description", "")),
        compose_body(values.get("body", ""), values.get("why"), values.get("how")),
        "\n".join(filter(None, quotes)),
        one_line(values.get(_REASON, "")),
        tuple(line for line in lines if 0 < len(line) <= CUE_CHARS)[:CUES],
        keep_valid(read_when(row.get(_WHEN))),
        values.get(_NEW_NAME, "").removesuffix(".md"),
        problem or ("" if name else "it has no name"),
    )


def _list_texts(value: object) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
