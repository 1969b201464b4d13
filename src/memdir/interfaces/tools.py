"""Memory as tools for an agent: the same seven whatever carries them, MCP or an SDK's own tool protocol.

    table.py     names, words and schemas          arguments.py  what a call may hold
    looking.py   search, read, list                writing.py    save, update, forget, log
    addresses.py memdir://SCOPE/NAME

`call_tool` does one call on stores that are open. A refusal is a MemdirError, whose words and hint are for the model.
It keeps nothing between two calls.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

from memdir.dream.logs import append_log
from memdir.errors import ConflictError, DiskError, FormatError, LockedError, MemdirError, NotFoundError, SettingsError
from memdir.format.age import render_age, render_freshness
from memdir.format.drafts import find_missing_parts
from memdir.frozen import dataclass, replace
from memdir.interfaces.derivable import find_derivable
from memdir.language.dates import make_absolute
from memdir.limits import SELECTED
from memdir.project.settings import Environment
from memdir.recall.find import search_memories
from memdir.recall.freshness import find_caveats
from memdir.recall.pipeline import RecallSkip, find_key, make_excerpt, recall_in_project
from memdir.recall.reminder import defuse, render_byline
from memdir.records import Draft, Excerpt, Header, Kind, Memory, Origin, Scope
from memdir.store.files import FileStore
from memdir.store.lookup import find_existing, find_header, preview_text
from memdir.store.open import Project
from memdir.store.plan import is_team
from memdir.store.secrets import find_for, render_findings
from memdir.store.sessions import SessionFile, SessionRecord, open_session
from memdir.text import fold, one_line, printable, shorten

__all__ = [
    "BY_NAME",
    "OFFERS",
    "Row",
    "ToolSpec",
    "call_tool",
]


# --- addresses ---
# Addresses of memories for other programs: `memdir://SCOPE/NAME`, and `memdir://index/SCOPE` for an index.
#
# Pure. Whether there is such a memory, and whether it may be read, is for the store to say.

_SCHEME = "memdir://"
_INDEX = "index"


def make_address(scope: str, name: str) -> str:
    return f"{_SCHEME}{scope}/{quote(name, safe='/')}"


def make_index_address(scope: str) -> str:
    return make_address(_INDEX, scope)


def parse_address(text: str) -> tuple[str, str] | None:
    """Scope and name; None for anything else. The scope `index` means the index of the scope that stands as name."""
    if not text.startswith(_SCHEME):
        return None
    scope, _, name = text.removeprefix(_SCHEME).partition("/")
    return (scope, unquote(name, errors="replace")) if scope and name else None


def parse_index_address(text: str) -> str | None:
    """The scope whose index is meant."""
    scope, name = parse_address(text) or ("", "")
    return name if scope == _INDEX else None


# --- table ---
# The tools an agent is offered, as data: names, words, JSON schemas of what goes in and comes out, and their nature.
#
# What a model reads of them (names, descriptions, input schemas) has to stay under 2 KB: it is part of every prompt.
# Schemas keep to what every host understands: one object, no combinations at its root, no references.

Schema = Mapping[str, object]

LISTED = 50  # rows of one list if nobody asks for more: a page that costs a model some 2,000 tokens
LISTED_MOST = 200
FOUND_MOST = 20  # memories of one search
READ_CHARS = 60_000  # of one memory: hosts cut a tool's answer at about 25,000 tokens


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool. `reads` changes nothing; `destroys` may take something away; `repeats`: twice is as good as once.

    `core` is one that an agent should see without having to search for it.
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


def _say(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _whole(least: int, most: int | None = None) -> Schema:
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def _object(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """What else a call holds is refused all the same (arguments); to say so here would cost every prompt some."""
    return {"type": "object", "properties": dict(properties)} | ({"required": list(required)} if required else {})


def _answer(**properties: Schema) -> Schema:
    """The schema of an answer: every field is always there, and no other."""
    return {**_object(properties, list(properties)), "additionalProperties": False}


_ROW: Mapping[str, Schema] = {"name": _TEXT, "scope": _TEXT, "type": _MAYBE, "description": _TEXT, "age": _TEXT}
_WRITTEN = _answer(
    name=_TEXT,
    scope=_TEXT,
    action={"type": "string", "enum": ["created", "changed", "unchanged"]},
    digest=_TEXT,
    dates=_TEXTS,
    warnings=_TEXTS,
)

OFFERS = (
    ToolSpec(
        "memory_search",
        "Search memory",
        "Find memories that bear on a question; maybe none. Search before you assume or ask.",
        _object({"query": _TEXT, "limit": _whole(1, FOUND_MOST)}, ["query"]),
        _answer(
            memories={
                "type": "array",
                "items": _answer(**_ROW, text=_TEXT, truncated=_FLAG, note=_TEXT, score={"type": "number"}),
            },
            by=_TEXT,
            skipped=_MAYBE,
        ),
        reads=True,
        repeats=True,
        core=True,
    ),
    ToolSpec(
        "memory_read",
        "Read a memory",
        "Read one memory in full.",
        _object({"name": _TEXT}, ["name"]),
        _answer(
            **_ROW, title=_TEXT, modified=_TEXT, pinned=_FLAG, body=_TEXT, truncated=_FLAG, note=_TEXT, digest=_TEXT
        ),
        reads=True,
        repeats=True,
    ),
    ToolSpec(
        "memory_save",
        "Save a memory",
        "Remember one new thing for later. Not what code or git tell, no secrets.",
        _object(
            {
                "type": _KINDS,
                "name": _TEXT,
                "description": _say(_TEXT, "one specific line: search judges by it"),
                "body": _say(_TEXT, "feedback, project: with **Why:** and **How to apply:**"),
                "scope": _say(_SCOPES, "user: for all projects"),
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
        "Put another description or body in the place of a memory's.",
        _object(
            {
                "name": _TEXT,
                "description": _TEXT,
                "body": _TEXT,
                "expect": _say(_TEXT, "the digest you read; refused if it changed since"),
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
        "Forget a memory; a person can undo it.",
        _object({"name": _TEXT}, ["name"]),
        _answer(name=_TEXT, scope=_TEXT, undo=_TEXT),
        destroys=True,
    ),
    ToolSpec(
        "memory_list",
        "List memories",
        "List memories, newest first.",
        _object({"type": _KINDS, "scope": _ALL_SCOPES, "limit": _whole(1, LISTED_MOST), "offset": _whole(0)}),
        _answer(memories={"type": "array", "items": _answer(**_ROW, pinned=_FLAG)}, total=_COUNT),
        reads=True,
        repeats=True,
    ),
    ToolSpec(
        "memory_log",
        "Log an entry",
        "Append an entry to today's log.",
        _object({"text": _TEXT}, ["text"]),
        _answer(day=_TEXT, path=_TEXT),
    ),
)
BY_NAME: Mapping[str, ToolSpec] = {offer.name: offer for offer in OFFERS}


# --- arguments ---
# What a tool was called with, held against its schema: the part of JSON Schema that our own schemas use.
#
# Refusals are for the model that called: they name the field, and what it may be.

_TYPES: Mapping[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "boolean": (bool,)}


def check_arguments(offer: ToolSpec, given: Mapping[str, object]) -> dict[str, object]:
    """The arguments without those that are null; raises FormatError for what the schema does not allow."""
    properties = offer.input["properties"]
    required = offer.input.get("required", ())
    assert isinstance(properties, Mapping) and isinstance(required, Sequence)
    known = f"it takes {', '.join(properties)}"
    said = {key: value for key, value in given.items() if value is not None}
    for key in said:
        if key not in properties:
            raise FormatError(f"{offer.name} has no {shorten(one_line(key), 40)!r}", field=key, hint=known)
    for key in required:
        if key not in said:
            raise FormatError(f"{offer.name} needs {key}", field=str(key), hint=known)
    for key, value in said.items():
        _check(key, value, properties[key])
    return said


def render_refusal(error: MemdirError) -> str:
    """What a refusal says to a model: what is wrong, and what to do next."""
    message = str(error).rstrip(".")
    return f"{message}. {error.hint[:1].upper()}{error.hint[1:]}." if error.hint else f"{message}."


def _check(key: str, value: object, schema: Schema) -> None:
    wanted = str(schema["type"])
    if not isinstance(value, _TYPES[wanted]) or (wanted == "integer" and isinstance(value, bool)):
        raise FormatError(f"{key} is not a {wanted}", field=key, hint=f"give {key} as a {wanted}")
    if isinstance(value, str):
        _check_text(key, value)
    choices = schema.get("enum")
    if isinstance(choices, Sequence) and value not in choices:
        hint = f"one of {', '.join(map(str, choices))}"
        raise FormatError(f"{key} cannot be {shorten(one_line(str(value)), 40)!r}", field=key, hint=hint)
    if isinstance(value, int):
        least, most = schema.get("minimum"), schema.get("maximum")
        if (isinstance(least, int) and value < least) or (isinstance(most, int) and value > most):
            hint = f"from {least}" + (f" to {most}" if isinstance(most, int) else "")
            raise FormatError(f"{key} cannot be {shorten(str(value), 20)}", field=key, hint=hint)


def _check_text(key: str, value: str) -> None:
    """Half a surrogate pair is no text: no file can hold it, and no answer could name it."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError(f"{key} is not valid Unicode", field=key, hint="take the broken character out") from None


# --- looking ---
# The tools that look: search, read, list. They answer rows of plain data, made harmless for whoever quotes them.

Row = dict[str, object]
Arguments = Mapping[str, object]
_OWN_SCOPES = frozenset((Scope.PRIVATE, Scope.USER))
# What a search by words may still answer when recall does not: everything but a person's wish.
_UNFIT = frozenset((RecallSkip.ONE_WORD, RecallSkip.NOTHING_FITS))


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a tool acts: the stores, and the conversation it is called from if that is known."""

    opened: Project
    session: str = ""

    @property
    def now(self) -> datetime:
        return self.opened.now().astimezone()

    def find_record(self) -> SessionRecord:
        return open_session(self.opened.private.state, self.session).read() if self.session else SessionRecord()

    def note_read(self, paths: Sequence[str]) -> None:
        """The conversation has these now; a record that cannot be kept costs no answer."""
        if not self.session or not paths:
            return
        conversation = open_session(self.opened.private.state, self.session)
        keys = [_find_key(conversation, self.opened, path) for path in paths]
        try:
            conversation.note_read(key for key in keys if key)
        except (DiskError, LockedError):
            pass


def list_told(store: FileStore) -> list[Header]:
    """The memories that a conversation may see: what a team shares only where the person has it on."""
    return [header for header in store.scan() if store.team or header.scope is not Scope.TEAM]


def check_told(store: FileStore, name: str) -> None:
    """Refuse to write what the conversation could not see afterwards."""
    if is_team(name) and not store.team:
        hint = "leave `team/` out, or ask the person to set `team = true`"
        raise SettingsError("the team's memory is off here", key="team", hint=hint)


def find_one(opened: Project, text: str) -> tuple[FileStore, Header]:
    """The memory meant by a name, an unambiguous title or an address; the project's own hides the user's by name."""
    address = parse_address(text)
    scope, name = address or (None, text)
    owners: list[FileStore] = []
    headers: list[Header] = []
    for store in opened.stores:
        known = {fold(header.name) for header in headers}
        for header in list_told(store):
            if fold(header.name) not in known and scope in (None, header.scope.value):
                owners.append(store)
                headers.append(header)
    try:
        found = find_header(headers, name)
    except NotFoundError as error:
        error.hint = error.hint.replace("`memdir list`", "memory_list")
        raise
    return next(owner for owner, header in zip(owners, headers, strict=True) if header is found), found


def search(where: ToolContext, given: Arguments) -> Row:
    query, limit = str(given["query"]), _number(given, "limit", SELECTED)
    record = where.find_record()
    skip = RecallSkip.PRIVATE if record.private else RecallSkip.IGNORE_CONVERSATION if record.ignoring else None
    if skip is not None:
        return {"memories": [], "by": "", "skipped": skip.words}
    found = recall_in_project(where.opened, query, limit=limit)
    excerpts, by, skip = list(found.memories), found.selector, found.skipped
    if skip in _UNFIT and (held := _search_words(where.opened, query, limit)):
        excerpts, by, skip = held, "words", None
    where.note_read([at.path for at in excerpts if not at.truncated])
    rows = [_make_found(at, where.now) for at in excerpts]
    return {"memories": rows, "by": by, "skipped": None if skip is None else skip.words}


def read(where: ToolContext, given: Arguments) -> Row:
    store, header = find_one(where.opened, str(given["name"]))
    memory = store.read(header.name)
    header = memory.header
    is_cut = len(memory.body) > READ_CHARS
    if not is_cut:
        where.note_read([str(store.root / header.file)])
    return make_tool_row(header, where.now) | {
        "title": clean_result(header.title),
        "modified": make_tool_time(header.modified),
        "pinned": header.pinned,
        "body": clean_result(memory.body[:READ_CHARS]),
        "truncated": is_cut,
        "note": _make_note(_find_doubts(store, memory), where.now),
        "digest": memory.digest,
    }


def list_all(where: ToolContext, given: Arguments) -> Row:
    kind, scope, start = _word(given, "type"), _word(given, "scope"), _number(given, "offset", 0)
    found = [
        header
        for store in where.opened.stores
        for header in list_told(store)
        if kind in (None, header.kind) and scope in (None, header.scope.value)
    ]
    found.sort(key=lambda header: (header.modified, header.name), reverse=True)
    page = found[start : start + _number(given, "limit", LISTED)]
    rows = [make_tool_row(header, where.now) | {"pinned": header.pinned} for header in page]
    return {"memories": rows, "total": len(found)}


def make_tool_row(header: Header, now: datetime) -> Row:
    return {
        "name": header.name,
        "scope": header.scope.value,
        "type": header.kind.value if header.kind else None,
        "description": clean_result(header.description),
        "age": render_age(header.modified, now),
    }


def make_tool_time(when: datetime) -> str:
    try:
        when = when.astimezone(UTC)
    except OverflowError:  # a file may claim to be of the first or last hours of the calendar
        pass
    return when.isoformat(timespec="seconds")


def clean_result(text: str) -> str:
    """A memory's words for a conversation: nothing hidden in them, nothing that could pass for the host's own voice."""
    return defuse(printable(text.replace("\r\n", "\n")))


def _make_found(excerpt: Excerpt, now: datetime) -> Row:
    return make_tool_row(excerpt.header, now) | {
        "text": clean_result(excerpt.text),
        "truncated": excerpt.truncated,
        "note": _make_note(excerpt, now),
        "score": round(excerpt.score, 4),
    }


def _make_note(excerpt: Excerpt, now: datetime) -> str:
    """Whose words they are if not the person's own, how old, and what in them is known to be out of date."""
    parts = (render_byline(excerpt), render_freshness(excerpt.header.modified, now), one_line(excerpt.caveat))
    return clean_result(" ".join(part for part in parts if part))


def _find_doubts(store: FileStore, memory: Memory) -> Excerpt:
    excerpt = make_excerpt(memory, path=memory.header.file)
    return replace(excerpt, caveat=find_caveats(store, [memory]).get(memory.header.name, ""))


def _search_words(opened: Project, query: str, limit: int) -> list[Excerpt]:
    """Memories that hold every word; what a team shares only where the person has it on."""
    hits = search_memories(opened.stores, query, limit=limit)
    is_wanted = opened.settings.flag("team")
    read = [_read_hit(opened, at.header, at.path) for at in hits if is_wanted or at.header.scope in _OWN_SCOPES]
    return [at for at in read if at is not None]


def _read_hit(opened: Project, header: Header, path: str) -> Excerpt | None:
    for store in opened.stores:
        if path == str(store.root / header.file):
            try:
                return make_excerpt(store.read(header.name), path=path)
            except MemdirError:
                return None
    return None


def _find_key(conversation: SessionFile, opened: Project, path: str) -> str | None:
    return find_key(conversation, opened.stores, Path(path))


def _word(given: Arguments, key: str) -> str | None:
    value = given.get(key)
    return None if value is None else str(value)


def _number(given: Arguments, key: str, default: int) -> int:
    value = given.get(key, default)
    return value if isinstance(value, int) else default


# --- writing ---
# The tools that change memory: save, update, forget, log. Each is one change of history, said to be an agent's.
#
# The checks are those of every other way in: names by the guard, drafts by the store, dates made absolute, secrets
# refused in what a team shares and warned of elsewhere. Nothing is pinned here: what stays in every prompt is for a
# person to say.

_PARTS = ("description", "body")


class _Dating:
    """Makes the relative dates of a project memory absolute, and keeps what it replaced."""

    def __init__(self, where: ToolContext, kind: Kind | None) -> None:
        self.now, self.is_wanted = where.now, kind is Kind.PROJECT
        self.done: list[str] = []

    def apply(self, value: object) -> str:
        if not self.is_wanted:
            return str(value)
        text, replaced = make_absolute(str(value), self.now)
        self.done += [f"{at.was} -> {at.now_text}" for at in replaced]
        return text


def save(where: ToolContext, given: Arguments, origin: Origin) -> Row:
    opened = where.opened
    kind = Kind(str(given["type"]))
    dating = _Dating(where, kind)
    name = str(given["name"]).removesuffix(".md")
    draft = Draft(kind, name, dating.apply(given["description"]), dating.apply(given["body"]), name)
    store = _choose_store(opened, given.get("scope"))
    check_told(store, name)
    memory, action = _write(store, draft, origin)
    return _make_written(opened, memory, action, dating.done)


def update(where: ToolContext, given: Arguments, origin: Origin) -> Row:
    if not any(part in given for part in _PARTS):
        raise FormatError("there is nothing to change", field="body", hint=f"give one of {', '.join(_PARTS)}")
    store, header = find_one(where.opened, str(given["name"]))
    before = store.read(header.name)
    expect = given.get("expect")
    if isinstance(expect, str) and expect != before.digest:
        hint = "read it again and decide anew"
        raise ConflictError(f"{header.name} has changed since", expected=expect, found=before.digest, hint=hint)
    kind = before.header.kind
    if kind is None:
        hint = f"`memdir edit {header.name} --type …` gives it one; or save it anew and forget this"
        raise FormatError(f"{header.name} has no type", field="type", hint=hint)
    dating = _Dating(where, kind)
    draft = Draft(
        kind,
        before.header.title,
        dating.apply(given["description"]) if "description" in given else before.header.description,
        dating.apply(given["body"]) if "body" in given else before.body,
        header.name,
    )
    after = store.write(draft, expect=before.digest, origin=origin)
    action = "unchanged" if after.digest == before.digest else "changed"
    return _make_written(where.opened, after, action, dating.done)


def forget(where: ToolContext, given: Arguments, origin: Origin) -> Row:
    store, header = find_one(where.opened, str(given["name"]))
    store.delete(header.name, origin=origin)
    option = f" --scope {store.scope}" if store.scope in (Scope.USER, Scope.PROJECT) else ""
    change = store.changes(header.name, limit=1)[0].id
    return {"name": header.name, "scope": header.scope.value, "undo": f"memdir undo{option} {change}"}


def log(where: ToolContext, given: Arguments) -> Row:
    log = append_log(where.opened.private, str(given["text"]), now=where.opened.now())
    return {"day": log.day.isoformat(), "path": log.path}


def _choose_store(opened: Project, scope: object) -> FileStore:
    if scope != Scope.USER.value:
        return opened.private
    if opened.user is None:
        raise SettingsError("there is no user memory here", key="user_memory", hint="leave `scope` out")
    return opened.user


def _write(store: FileStore, draft: Draft, origin: Origin) -> tuple[Memory, str]:
    """The memory, and whether it was made now; the very same one again is nothing to refuse."""
    try:
        return store.write(draft, origin=origin), "created"
    except ConflictError:
        existing = find_existing(store, draft)
        if existing is None:
            raise
    name = existing.header.name
    if preview_text(store, replace(draft, name=name), existing, store.clock()) == existing.text:
        return existing, "unchanged"
    hint = "memory_read shows it, memory_update changes it, or save under another name"
    raise ConflictError(f"{name} exists already and says something else", found=existing.digest, hint=hint)


def _make_written(opened: Project, memory: Memory, action: str, dates: list[str]) -> Row:
    header = memory.header
    warnings = [] if action == "unchanged" else _find_warnings(opened, memory)
    return {
        "name": header.name,
        "scope": header.scope.value,
        "action": action,
        "digest": memory.digest,
        "dates": dates,
        "warnings": warnings,
    }


def _find_warnings(opened: Project, memory: Memory) -> list[str]:
    """What the one who wrote it may want to put right at once."""
    header = memory.header
    warnings = _find_secrets(memory.text, opened.environment)
    if header.kind is not None and (missing := find_missing_parts(header.kind, memory.body)):
        warnings.append(f"a {header.kind} memory should also say {' and '.join(missing)}")
    for reason in find_derivable(f"{header.description}\n\n{memory.body}", opened.places.root.path, timeout=2.0):
        warnings.append(f"{reason.what} ({reason.source}); remember what was surprising about it instead")
    return warnings


def _find_secrets(text: str, environment: Environment) -> list[str]:
    """Which secrets a text holds, by rule and place; never the value."""
    try:
        found = render_findings(find_for(environment, text), place="the file")
    except SettingsError as error:  # the text is kept by now; what is wrong is worth a warning, not a failure
        return [f"secrets were not looked for: {error}"]
    return [f"this looks like a secret: {at}; put where it is kept in its place" for at in found]


# --- toolset ---

AGENT = Origin(who="agent")
_LOOKS = {"memory_search": search, "memory_read": read, "memory_list": list_all}
_WRITES = {"memory_save": save, "memory_update": update, "memory_forget": forget}


def call_tool(opened: Project, name: str, given: Mapping[str, object], *, origin: Origin = AGENT) -> Row:
    """What one tool answers, in the shape of its output schema; `origin.session` is the conversation, if known."""
    if name not in BY_NAME:
        hint = f"there are {', '.join(BY_NAME)}"
        raise NotFoundError(f"there is no tool {shorten(one_line(name), 60)!r}", name=name, hint=hint)
    arguments = check_arguments(BY_NAME[name], given)
    opened.check_on()
    where = ToolContext(opened, origin.session)
    if name in _LOOKS:
        return _LOOKS[name](where, arguments)
    if where.find_record().private:
        raise SettingsError("this conversation is private: nothing is kept of it", hint="ask the person first")
    return _WRITES[name](where, arguments, origin) if name in _WRITES else log(where, arguments)
