"""The seven memory tools for agents, independent of the protocol: MCP and the SDK adapters both use them.

`TOOLS` contains their names, descriptions and JSON schemas; `call_tool` runs one call on an open project and returns
plain data. It refuses a call with a MemdirError, whose message and hint the model reads. Calls share no state.

The descriptions must stay under 2 KB in total, because every prompt contains them. Schemas use only what every host
understands: one object, no combinations at its root, no references. Each write is one change in history with an agent
as its origin. No tool can pin a memory: only the user can.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from memdir.dream.logs import append_log
from memdir.errors import DiskError, FormatError, LockedError, MemdirError, NotFoundError, SettingsError
from memdir.format.age import render_age
from memdir.format.fields import FIELDS, LISTED_FIELDS
from memdir.format.shown import TextVoice, find_voice, list_notes, show_line, show_text, show_value
from memdir.format.when import describe_when
from memdir.frozen import dataclass
from memdir.interfaces.server.schemas import check_value
from memdir.limits import SELECTED
from memdir.operations.find import FoundMemory, find_memory, list_memories, make_rows
from memdir.operations.write import NameTakenError, WriteAction, WriteContext, WriteResult, forget, save, update
from memdir.recall.pipeline import RecallSkip, find_key, make_full_excerpt, recall_in_project
from memdir.records import Draft, FieldChanges, Header, Kind, Origin, Scope
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.plan import is_team
from memdir.store.secrets import open_finder, render_findings
from memdir.store.sessions import SessionFile, SessionRecord
from memdir.text import one_line, shorten

INDEX_SCOPE = "index"  # memdir://index/SCOPE is the index of a scope
_AGENT = Origin(who="agent")
_REQUIRED_TEXTS = ("description", "body")
_SAVED_FIELDS = tuple(row for row in FIELDS if row.ask is not None)
_WRITTEN_FIELDS = frozenset(("title", "description", *LISTED_FIELDS))
Schema = Mapping[str, object]
Row = dict[str, object]
Arguments = Mapping[str, Any]

LISTED = 50  # default number of listed memories: about 2,000 tokens
LISTED_MOST = 200
FOUND_MOST = 20  # the most results of one search
READ_CHARS = 60_000  # the most text of one memory: hosts truncate tool results at about 25,000 tokens


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool. `reads` means read-only, `destroys` that it may delete memories, `repeats` that it is idempotent.

    Agents see a `core` tool without searching for it.
    """

    name: str
    title: str
    description: str
    input: Schema
    output: Schema
    reads: bool = False
    destroys: bool = False
    repeats: bool = False
    core: bool = False


_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_MAYBE: Schema = {"type": ["string", "null"]}
_KINDS: Schema = {"type": "string", "enum": [kind.value for kind in Kind]}
_SCOPES: Schema = {"type": "string", "enum": [Scope.PRIVATE.value, Scope.USER.value]}
_ALL_SCOPES: Schema = {"type": "string", "enum": [scope.value for scope in Scope if scope is not Scope.AGENT]}


def _add_description(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema


def _integer(minimum: int, maximum: int | None = None) -> Schema:
    return {"type": "integer", "minimum": minimum} | ({} if maximum is None else {"maximum": maximum})


def _object(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """Return an object schema, without additionalProperties to save tokens; `check_arguments` refuses extra fields."""
    return {"type": "object", "properties": dict(properties)} | ({"required": list(required)} if required else {})


def _result(**properties: Schema) -> Schema:
    """Return the schema of a result: all fields are required, and no others are allowed."""
    return {**_object(properties, list(properties)), "additionalProperties": False}


_COMMON_FIELDS: Mapping[str, Schema] = {
    "name": _TEXT,
    "scope": _TEXT,
    "type": _MAYBE,
    "description": _TEXT,
    "age": _TEXT,
}
_ACTION: Schema = {"type": "string", "enum": ["created", "changed", "unchanged"]}
_WRITTEN = _result(name=_TEXT, scope=_TEXT, action=_ACTION, digest=_TEXT, dates=_TEXTS, warnings=_TEXTS)
_FOUND = _result(**_COMMON_FIELDS, text=_TEXT, truncated=_FLAG, note=_TEXT, score={"type": "number"})

TOOLS = (
    ToolSpec(
        "memory_search",
        "Search memory",
        "Search before you assume or ask.",
        _object({"query": _TEXT, "limit": _integer(1, FOUND_MOST)}, ["query"]),
        _result(memories={"type": "array", "items": _FOUND}, by=_TEXT, skipped=_MAYBE),
        reads=True,
        repeats=True,
        core=True,
    ),
    ToolSpec(
        "memory_read",
        "Read a memory",
        "Read a memory.",
        _object({"name": _TEXT}, ["name"]),
        _result(
            **_COMMON_FIELDS,
            title=_TEXT,
            modified=_TEXT,
            **LISTED_FIELDS,
            when=_TEXT,
            body=_TEXT,
            truncated=_FLAG,
            note=_TEXT,
            digest=_TEXT,
        ),
        reads=True,
        repeats=True,
    ),
    ToolSpec(
        "memory_save",
        "Save a memory",
        "Save one new thing. Not what code or git tell, no secrets.",
        _object(
            {
                "type": _KINDS,
                "name": _TEXT,
                "description": _add_description(_TEXT, "specific line to find it by"),
                "body": _add_description(_TEXT, "feedback, project: **Why:** and **How to apply:**"),
                **{row.key: _add_description(row.schema, row.ask or "") for row in _SAVED_FIELDS},
                "scope": _add_description(_SCOPES, "user: all projects"),
            },
            ["type", "name", "description", "body"],
        ),
        _WRITTEN,
        repeats=True,
        core=True,
    ),
    ToolSpec(
        "memory_update",
        "Change a memory",
        "Change a memory.",
        _object(
            {
                **dict.fromkeys(("name", *_REQUIRED_TEXTS), _TEXT),
                **{row.key: row.schema for row in _SAVED_FIELDS},
                "expect": _add_description(_TEXT, "digest you read"),
            },
            ["name"],
        ),
        _WRITTEN,
        destroys=True,
        repeats=True,
    ),
    ToolSpec(
        "memory_forget",
        "Forget a memory",
        "Forget a memory; undoable.",
        _object({"name": _TEXT}, ["name"]),
        _result(name=_TEXT, scope=_TEXT, undo=_TEXT),
        destroys=True,
    ),
    ToolSpec(
        "memory_list",
        "List memories",
        "Memories, newest first.",
        _object({"type": _KINDS, "scope": _ALL_SCOPES, "limit": _integer(1, LISTED_MOST), "offset": _integer(0)}),
        _result(memories={"type": "array", "items": _result(**_COMMON_FIELDS, **LISTED_FIELDS)}, total=_COUNT),
        reads=True,
        repeats=True,
    ),
    ToolSpec(
        "memory_log",
        "Log an entry",
        "Add to today's log.",
        _object({"text": _TEXT}, ["text"]),
        _result(day=_TEXT, path=_TEXT),
    ),
)
BY_NAME: Mapping[str, ToolSpec] = {offer.name: offer for offer in TOOLS}


def call_tool(project: Project, name: str, arguments: Arguments, *, origin: Origin = _AGENT) -> Row:
    """Call a tool; the result matches its output schema. `origin.session` is the conversation, if known."""
    if name not in BY_NAME:
        hint = f"use one of {', '.join(BY_NAME)}"
        raise NotFoundError(f"unknown tool {shorten(one_line(name), 60)!r}", name=name, hint=hint)
    arguments = check_arguments(name, BY_NAME[name].input, arguments)
    project.check_on()
    context = _ToolContext(project, origin)
    if not BY_NAME[name].reads and context.read_record().private:
        raise SettingsError("this conversation is private, so nothing is saved", hint="ask the person first")
    return _CALLS[name](context, arguments)


def render_refusal(error: MemdirError) -> str:
    """Return an error as text for a model: the problem and what to do next."""
    message = str(error).rstrip(".")
    return f"{message}. {error.hint[:1].upper()}{error.hint[1:]}." if error.hint else f"{message}."


def check_visible(store: FileStore, name: str) -> None:
    """Raise SettingsError if the conversation could not see a memory after writing it."""
    if is_team(name) and not store.team:
        hint = "leave `team/` out, or ask the user to set `team = true`"
        raise SettingsError("team memory is off here", key="team", hint=hint)


def find_visible(project: Project, text: str) -> FoundMemory[FileStore]:
    try:
        return find_memory(project.stores, text, visible=True)
    except NotFoundError as error:
        error.hint = error.hint.replace("`memdir list`", "memory_list")
        raise


def make_tool_time(when: datetime) -> str:
    with suppress(OverflowError):  # in the first or last hours of the calendar the conversion overflows
        when = when.astimezone(UTC)
    return when.isoformat(timespec="seconds")


def describe_tool(tool: ToolSpec) -> dict[str, Any]:
    """Return the fields of a tool that are the same in every MCP server: all except its schemas."""
    hints = {"read_only_hint": tool.reads, "destructive_hint": tool.destroys, "idempotent_hint": tool.repeats}
    facts = {"name": tool.name, "title": tool.title, "description": tool.description}
    return facts | {"annotations": hints | {"open_world_hint": False}}


def check_arguments(tool: str, schema: Schema, arguments: Arguments) -> dict[str, Any]:
    """Return the arguments without null values. Raises FormatError if they do not match the schema."""
    present = {key: value for key, value in arguments.items() if value is not None}
    properties = schema["properties"]
    assert isinstance(properties, Mapping)
    try:
        check_value(present, schema, tool)
    except FormatError as error:
        error.hint = f"{tool} takes {', '.join(properties)}"
        raise
    return present


@dataclass(frozen=True, slots=True)
class _ToolContext:
    project: Project
    origin: Origin

    @property
    def now(self) -> datetime:
        return self.project.now().astimezone()

    @property
    def write(self) -> WriteContext:
        return WriteContext(self.origin, self.now, self.project.places.root.path)

    def read_record(self) -> SessionRecord:
        session = self.origin.session
        return SessionFile(self.project.private.state, session).read() if session else SessionRecord()

    def note_read(self, paths: Sequence[str]) -> None:
        if not self.origin.session or not paths:
            return
        session = SessionFile(self.project.private.state, self.origin.session)
        keys = [find_key(session, self.project.stores, Path(path)) for path in paths]
        with suppress(DiskError, LockedError):
            session.note_read(key for key in keys if key)


def _search(context: _ToolContext, arguments: Arguments) -> Row:
    record = context.read_record()
    skip = RecallSkip.PRIVATE if record.private else RecallSkip.IGNORE_CONVERSATION if record.ignoring else None
    if skip is not None:
        return {"memories": [], "by": "", "skipped": skip.words}
    recalled = recall_in_project(context.project, arguments["query"], limit=arguments.get("limit", SELECTED))
    context.note_read([excerpt.path for excerpt in recalled.memories if not excerpt.truncated])
    rows = []
    for excerpt in recalled.memories:
        text = show_text(excerpt.text, find_voice(excerpt.header.scope))
        row = _describe(excerpt.header, excerpt.dated, context.now) | {"text": text, "truncated": excerpt.truncated}
        note = " ".join(list_notes(excerpt, now=context.now))
        rows.append(row | {"note": note, "score": round(excerpt.score, 4)})
    return {"memories": rows, "by": recalled.selector, "skipped": recalled.skipped and recalled.skipped.words}


def _read(context: _ToolContext, arguments: Arguments) -> Row:
    store, header = find_visible(context.project, str(arguments["name"]))
    memory = store.read(header.name)
    header = memory.header
    is_cut = len(memory.body) > READ_CHARS
    if not is_cut:
        context.note_read([str(store.root / header.file)])
    excerpt = make_full_excerpt(store, memory)
    fields = (*_COMMON_FIELDS, "title", "modified", *LISTED_FIELDS)
    (row,) = make_rows([FoundMemory(store, header)], fields, now=context.now)
    return show_fields(row) | {
        "modified": make_tool_time(header.modified),
        "when": show_line(describe_when(header.when)),
        "body": show_text(memory.body[:READ_CHARS], TextVoice.FILE),
        "truncated": is_cut,
        "note": " ".join(list_notes(excerpt, now=context.now)),
        "digest": memory.digest,
    }


def _list(context: _ToolContext, arguments: Arguments) -> Row:
    kind, scope, start = arguments.get("type"), arguments.get("scope"), arguments.get("offset", 0)
    listed = list_memories(context.project.stores, kind=kind, scope=scope, visible=True)
    page = listed[start : start + arguments.get("limit", LISTED)]
    rows = make_rows(page, (*_COMMON_FIELDS, *LISTED_FIELDS), now=context.now)
    return {"memories": [show_fields(row) for row in rows], "total": len(listed)}


def show_fields(row: Row) -> Row:
    """Return the row of a memory with user-written text made safe for a model to read."""
    return {key: show_value(value) if key in _WRITTEN_FIELDS else value for key, value in row.items()}


def _describe(header: Header, since: datetime, now: datetime) -> Row:
    kind = header.kind.value if header.kind else None
    values = (header.name, header.scope.value, kind, show_line(header.description), render_age(since, now))
    return dict(zip(_COMMON_FIELDS, values, strict=True))


def make_draft(arguments: Arguments) -> Draft:
    """Return the memory that the arguments of memory_save describe."""
    name = str(arguments["name"]).removesuffix(".md")
    return Draft(Kind(str(arguments["type"])), name, name=name, **_read_fields(arguments))


def make_changes(arguments: Arguments) -> FieldChanges:
    """Return the fields that the arguments of memory_update change; raise FormatError if there are none."""
    if fields := _read_fields(arguments):
        return cast(FieldChanges, fields)
    keys = (*_REQUIRED_TEXTS, *(row.key for row in _SAVED_FIELDS))
    raise FormatError("no changes were given", field="body", hint=f"pass one of {', '.join(keys)}")


def _read_fields(arguments: Arguments) -> dict[str, Any]:
    """Return the fields in the arguments. Texts stay as they are, for the plan to check."""
    keys = (*_REQUIRED_TEXTS, *(row.key for row in _SAVED_FIELDS))
    fields = {key: arguments[key] for key in keys if key in arguments}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}


def _save(context: _ToolContext, arguments: Arguments) -> Row:
    draft = make_draft(arguments)
    store = context.project.user if arguments.get("scope") == Scope.USER.value else context.project.private
    if store is None:
        raise SettingsError("no user memory is available here", key="user_memory", hint="leave `scope` out")
    check_visible(store, draft.title)
    try:
        return _make_written(context, save(store, draft, context.write))
    except NameTakenError as error:
        error.hint = "memory_read shows it, memory_update changes it, or save under another name"
        raise


def _update(context: _ToolContext, arguments: Arguments) -> Row:
    fields = make_changes(arguments)
    store, header = find_visible(context.project, str(arguments["name"]))
    done = update(store, header.name, fields, context.write, expect=arguments.get("expect"))
    return _make_written(context, done)


def _forget(context: _ToolContext, arguments: Arguments) -> Row:
    store, header = find_visible(context.project, str(arguments["name"]))
    change = forget(store, header.name, context.write).check_written().change
    option = f" --scope {store.scope}" if store.scope in (Scope.USER, Scope.PROJECT) else ""
    return {"name": header.name, "scope": header.scope.value, "undo": f"memdir undo{option} {change}"}


def _log(context: _ToolContext, arguments: Arguments) -> Row:
    log = append_log(context.project.private, str(arguments["text"]), now=context.project.now())
    return {"day": log.day.isoformat(), "path": log.path}


def _make_written(context: _ToolContext, done: WriteResult) -> Row:
    done.check_written()
    assert done.memory is not None
    return {
        "name": done.name,
        "scope": done.scope.value,
        "action": done.action.value,
        "digest": done.memory.digest,
        "dates": [f"{date.was} -> {date.now_text}" for date in done.dates],
        "warnings": [] if done.action is WriteAction.UNCHANGED else list(_render_warnings(context.project, done)),
    }


def _render_warnings(project: Project, done: WriteResult) -> Iterator[str]:
    assert done.memory is not None
    try:
        for finding in render_findings(open_finder(project.environment)(done.memory.text), place="the file"):
            yield f"this looks like a secret: {finding}; put where it is kept in its place"
    except SettingsError as error:  # the memory is written by now: a warning, not a failure
        yield f"secrets were not looked for: {error}"
    if missing := [warning.text for warning in done.warnings if warning.kind == "parts"]:
        yield f"a {done.memory.kind} memory should also say {' and '.join(missing)}"
    for warning in done.warnings:
        if warning.kind == "derivable":
            yield f"{warning.text} ({warning.source}); remember what was surprising about it instead"


_FUNCTIONS: Sequence[Callable[[_ToolContext, Arguments], Row]] = (_search, _read, _save, _update, _forget, _list, _log)
_CALLS = dict(zip(BY_NAME, _FUNCTIONS, strict=True))
