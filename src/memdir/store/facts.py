"""The age and author of memories and whether they contain a secret, the same for every interface.

Age and author come from history first. If history only shows that the bytes were brought from elsewhere, the date in the file
counts, and if there is none, the commit of a team memory. The file's time is a last resort: a checkout, a pin or a sync
changes it.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from memdir.errors import MemdirError, NotFoundError, SettingsError
from memdir.format.fields import NO_FIELDS
from memdir.format.frontmatter import decode, parse_fields, read_time
from memdir.frozen import replace
from memdir.records import Change, Header, InboxState, Origin, Scope, StoredMemory
from memdir.store.contract import StoreBase, StoreReader
from memdir.store.files import SYNC
from memdir.store.history import ChangeDate, MemorySource
from memdir.store.inbox import make_mark
from memdir.store.plan import is_team
from memdir.text import fold

if TYPE_CHECKING:
    from memdir.store.secrets import SecretFinding

_BY = "by "  # begins the reason of an inbox item from a teammate


def find_ages(store: StoreReader, memories: Sequence[StoredMemory], *, now: datetime) -> dict[str, datetime]:
    """Return a dict from memory names to the time of the last change, verification or touch.

    The time comes from the history, else the date in the file, else the commit of a team memory.
    """
    dates: Sequence[ChangeDate] = ()
    with suppress(MemdirError):  # memories must be shown even if the history is damaged
        dates = store.find_dates(memories)
    ages = {}
    for memory, date in zip(memories, dates or [ChangeDate()] * len(memories), strict=True):
        has_dates = "ified" in memory.text[: len(memory.text) - len(memory.body)]  # most have none, and parsing is slow
        fields = parse_fields(memory.text) if has_dates else NO_FIELDS
        changed = _find_change(store, memory, date, read_time(fields.modified))
        moments = (changed, read_time(fields.verified), date.touched)
        ages[memory.header.name] = max(
            (min(moment, now) for moment in moments if moment), default=memory.header.modified
        )
    return ages


def find_listed_ages(store: StoreReader, headers: Sequence[Header], *, now: datetime) -> dict[str, datetime]:
    """Return the ages of memories by their headers; an unreadable memory has its file's time."""
    memories = store.read_many([header.name for header in headers])
    return {header.name: header.modified for header in headers} | find_ages(store, [*memories.values()], now=now)


def find_authors(store: StoreReader, names: Collection[str], *, signed: bool = True) -> dict[str, str]:
    """Return a dict from memory names to authors, if known.

    For a team memory that is a person's name, for others, or unless `signed` for one that was written here, the origin of
    the last change of its text, such as `person` or `agent`. An approved change has the author of the approved item.
    """
    if not names or not isinstance(store, StoreBase):
        return {}
    steps: dict[str, Change] = {}
    with suppress(MemdirError):
        steps = store.find_last_steps(names)
    origins = _find_approved(store) if any(step.verb == "approve" for step in steps.values()) else {}
    authors = {}
    for name, step in steps.items():
        origin = origins.get(step.id, step.origin)
        is_teammate = origin.who == SYNC and origin.why.startswith(_BY)
        authors[name] = origin.why.removeprefix(_BY) if is_teammate else origin.who
    is_signed = signed and (store.scope is Scope.TEAM or any(map(is_team, names)))
    signers = store.read_signers(names) if is_signed else {}
    is_approved = {name for name, step in steps.items() if step.id in origins}
    return authors | {name: signers[name].name for name in names if name in signers and name not in is_approved}


def find_sources(store: StoreBase, memories: Sequence[StoredMemory]) -> dict[str, MemorySource]:
    """Return a dict from memory names to age and author, which are kept when a memory is moved or synced."""
    ages = find_ages(store, memories, now=store.clock())
    authors = find_authors(store, [memory.name for memory in memories if not is_team(memory.name)])
    return {name: MemorySource(since, authors.get(name, "")) for name, since in ages.items()}


def find_stored_secrets(store: StoreBase, text: str) -> "Sequence[SecretFinding]":
    """Return the secrets in a text, using the built-in rules and those of the user.

    If the user's rules cannot be read, only the built-in ones are used.
    """
    from memdir.store.secrets import find_secrets  # few callers need it, and it has many patterns

    try:
        return (store.rules.find or find_secrets)(text)
    except SettingsError:
        return find_secrets(text)


def _find_change(
    store: StoreReader, memory: StoredMemory, date: ChangeDate, stated: datetime | None
) -> datetime | None:
    header = memory.header
    if date.changed is not None and not date.brought:
        return date.changed
    if date.is_known and date.changed is None:
        # The file changed since history last read it; the date in the file may be older than that.
        mtime = datetime.fromtimestamp(header.signature.mtime_ns / 1e9, header.modified.tzinfo)
        return header.modified if stated is None else max(stated, mtime)
    if stated is None and header.scope is Scope.TEAM:
        author = store.read_signers().get(header.name)
        moments = (date.changed, author.when if author else None)
        stated = min((moment for moment in moments if moment), default=None)
    return stated or date.changed or date.since or header.modified


def _find_approved(store: StoreBase) -> dict[int, Origin]:
    """Return a dict from change IDs to the origin of the inbox item that the change applied."""
    origins = {}
    with suppress(MemdirError):
        for item in store.inbox(InboxState.APPROVED):
            if (change := store.find_marked(make_mark(item))) is not None:
                origins[change] = replace(item.origin, who=str(item.payload.get("by") or item.origin.who))
    return origins


def trace_sentences(store: StoreBase, name: str) -> dict[str, Change]:
    """Return, by folded sentence, the change that added it to a memory, as far as recent changes show."""
    # Imported here: a recall asks for ages and authors only.
    from memdir.format.document import parse_document

    sources: dict[str, Change] = {}
    for change in reversed(store.changes(name, limit=100)):
        after = next((file.after for file in change.files if file.path == f"{name}.md"), None)
        text = ""
        with suppress(NotFoundError):  # a purged version
            text = "" if after is None else decode(store.read_content(after))
        sentences = map(fold, parse_document(text).list_sentences())
        sources = {sentence: sources.get(sentence, change) for sentence in sentences}
    return sources
