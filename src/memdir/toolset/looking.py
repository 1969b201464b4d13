"""The tools that look: search, read, list. They answer rows of plain data, made harmless for whoever quotes them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memdir.age import render_age, render_freshness
from memdir.asking import recall_here
from memdir.caveats import find_caveats
from memdir.errors import DiskError, LockedError, MemdirError, NotFoundError, SettingsError
from memdir.finding import find_memories
from memdir.frozen import dataclass, replace
from memdir.gates import Skip
from memdir.limits import SELECTED
from memdir.opening import Opened
from memdir.recall import find_key, make_excerpt
from memdir.records import Excerpt, Header, Memory, Scope
from memdir.reminder import defuse, render_byline
from memdir.session import Record, SessionFile, open_session
from memdir.store.files import FileStore
from memdir.store.lookup import find_header
from memdir.store.shared import is_team
from memdir.text import fold, one_line, printable
from memdir.toolset.addresses import parse_address
from memdir.toolset.table import LISTED, READ_CHARS

Row = dict[str, object]
Arguments = Mapping[str, object]
_OWN_SCOPES = frozenset((Scope.PRIVATE, Scope.USER))
# What a search by words may still answer when recall does not: everything but a person's wish.
_UNFIT = frozenset((Skip.ONE_WORD, Skip.NOTHING_FITS))


@dataclass(frozen=True, slots=True)
class Where:
    """Where a tool acts: the stores, and the conversation it is called from if that is known."""

    opened: Opened
    session: str = ""

    @property
    def now(self) -> datetime:
        return self.opened.now().astimezone()

    def find_record(self) -> Record:
        return open_session(self.opened.private.state, self.session).read() if self.session else Record()

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


def find_one(opened: Opened, text: str) -> tuple[FileStore, Header]:
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


def search(where: Where, given: Arguments) -> Row:
    query, limit = str(given["query"]), _number(given, "limit", SELECTED)
    record = where.find_record()
    skip = Skip.PRIVATE if record.private else Skip.IGNORE_CONVERSATION if record.ignoring else None
    if skip is not None:
        return {"memories": [], "by": "", "skipped": skip.words}
    found = recall_here(where.opened, query, limit=limit)
    excerpts, by, skip = list(found.memories), found.selector, found.skipped
    if skip in _UNFIT and (held := _search_words(where.opened, query, limit)):
        excerpts, by, skip = held, "words", None
    where.note_read([at.path for at in excerpts if not at.truncated])
    rows = [_make_found(at, where.now) for at in excerpts]
    return {"memories": rows, "by": by, "skipped": None if skip is None else skip.words}


def read(where: Where, given: Arguments) -> Row:
    store, header = find_one(where.opened, str(given["name"]))
    memory = store.read(header.name)
    header = memory.header
    is_cut = len(memory.body) > READ_CHARS
    if not is_cut:
        where.note_read([str(store.root / header.file)])
    return make_row(header, where.now) | {
        "title": clean(header.title),
        "modified": make_time(header.modified),
        "pinned": header.pinned,
        "body": clean(memory.body[:READ_CHARS]),
        "truncated": is_cut,
        "note": _make_note(_find_doubts(store, memory), where.now),
        "digest": memory.digest,
    }


def list_all(where: Where, given: Arguments) -> Row:
    kind, scope, start = _word(given, "type"), _word(given, "scope"), _number(given, "offset", 0)
    found = [
        header
        for store in where.opened.stores
        for header in list_told(store)
        if kind in (None, header.kind) and scope in (None, header.scope.value)
    ]
    found.sort(key=lambda header: (header.modified, header.name), reverse=True)
    page = found[start : start + _number(given, "limit", LISTED)]
    rows = [make_row(header, where.now) | {"pinned": header.pinned} for header in page]
    return {"memories": rows, "total": len(found)}


def make_row(header: Header, now: datetime) -> Row:
    return {
        "name": header.name,
        "scope": header.scope.value,
        "type": header.kind.value if header.kind else None,
        "description": clean(header.description),
        "age": render_age(header.modified, now),
    }


def make_time(when: datetime) -> str:
    try:
        when = when.astimezone(UTC)
    except OverflowError:  # a file may claim to be of the first or last hours of the calendar
        pass
    return when.isoformat(timespec="seconds")


def clean(text: str) -> str:
    """A memory's words for a conversation: nothing hidden in them, nothing that could pass for the host's own voice."""
    return defuse(printable(text.replace("\r\n", "\n")))


def _make_found(excerpt: Excerpt, now: datetime) -> Row:
    return make_row(excerpt.header, now) | {
        "text": clean(excerpt.text),
        "truncated": excerpt.truncated,
        "note": _make_note(excerpt, now),
        "score": round(excerpt.score, 4),
    }


def _make_note(excerpt: Excerpt, now: datetime) -> str:
    """Whose words they are if not the person's own, how old, and what in them is known to be out of date."""
    parts = (render_byline(excerpt), render_freshness(excerpt.header.modified, now), one_line(excerpt.caveat))
    return clean(" ".join(part for part in parts if part))


def _find_doubts(store: FileStore, memory: Memory) -> Excerpt:
    excerpt = make_excerpt(memory, path=memory.header.file)
    return replace(excerpt, caveat=find_caveats(store, [memory]).get(memory.header.name, ""))


def _search_words(opened: Opened, query: str, limit: int) -> list[Excerpt]:
    """Memories that hold every word; what a team shares only where the person has it on."""
    hits = find_memories(opened.stores, query, limit=limit)
    is_wanted = opened.settings.flag("team")
    read = [_read_hit(opened, at.header, at.path) for at in hits if is_wanted or at.header.scope in _OWN_SCOPES]
    return [at for at in read if at is not None]


def _read_hit(opened: Opened, header: Header, path: str) -> Excerpt | None:
    for store in opened.stores:
        if path == str(store.root / header.file):
            try:
                return make_excerpt(store.read(header.name), path=path)
            except MemdirError:
                return None
    return None


def _find_key(conversation: SessionFile, opened: Opened, path: str) -> str | None:
    return find_key(conversation, opened.stores, Path(path))


def _word(given: Arguments, key: str) -> str | None:
    value = given.get(key)
    return None if value is None else str(value)


def _number(given: Arguments, key: str, default: int) -> int:
    value = given.get(key, default)
    return value if isinstance(value, int) else default
