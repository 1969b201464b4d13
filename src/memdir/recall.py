"""Recall: for what the person typed, the few memories that matter, read within the limits, each at most once.

    gates -> scan -> without what the conversation has -> select -> read -> account -> (reminder)

`find_memories` does everything but the accounting, and `account` that alone: whoever looks ahead and may throw the
answer away (prefetch) calls them apart. Reads forgive: a directory or a memory that cannot be read is left out, and a
record or a ledger that cannot be written costs no memory.

How well a memory fits is the selector's to say; how it is told is reminder's.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from memdir.aging import find_ages
from memdir.caveats import find_caveats
from memdir.errors import MemdirError
from memdir.frozen import dataclass, field, replace
from memdir.gates import Skip, find_skip
from memdir.ignoring import Ignoring, find_ignoring
from memdir.limits import CONVERSATION_BYTES, SELECTED, SESSION_SECONDS, SURFACED_BYTES, SURFACED_LINES
from memdir.records import Evidence, Excerpt, Header, Memory, Pick, Query, Scope, Selector, Surfacing
from memdir.session import Record, Seen, SessionFile, make_key
from memdir.store.contract import Ledger, Store
from memdir.store.files import FileStore
from memdir.store.shared import is_team
from memdir.text import fold

# Why a candidate was dropped.
SURFACED = "the conversation has it already"
READ = "the agent has read it already"
HIDDEN = "the project has a memory of this name"
UNREADABLE = "it cannot be read"
OVER_BUDGET = "it would exceed the conversation's budget"
TEAM_OFF = "the team's memory is off"
# Before a question is searched for secrets it must hold a word for one, or letters and digits in one long word.
_SECRET_WORDS = ("passw", "passphrase", "pwd", "kennwort", "contraseñ", "密码", "口令", "パスワード")
_KEY_CHARS = 16


@runtime_checkable
class Finder(Protocol):
    """A selector that knows its stores and needs no headers: in a large directory a scan costs more than a search.

    `drop` says of a scope and a name why that memory may not be taken. What is dropped has no say in the others; it may
    be answered too, with the reason.
    """

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """All that a recall goes by. `stores` in the order of their say: of two memories with one name the project's
    hides the user's. `on` and `paused` are the person's settings."""

    stores: Sequence[Store]
    text: str
    selector: Selector | Finder
    now: datetime
    session: SessionFile | None = None
    tools: tuple[str, ...] = ()
    limit: int = SELECTED
    on: bool = True
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a recall brought, or why nothing. `picks` holds dropped ones too, after the taken, each with the reason."""

    query: str
    selector: str
    picks: tuple[Pick, ...] = ()
    memories: tuple[Excerpt, ...] = ()
    skipped: Skip | None = None
    elapsed_ms: float = 0.0
    owners: tuple[Store, ...] = field(default=(), repr=False, compare=False)  # of `memories`, one each

    def __iter__(self) -> Iterator[Excerpt]:
        return iter(self.memories)


def recall(
    stores: Sequence[Store],
    query: str,
    *,
    selector: Selector | Finder,
    now: datetime,
    session: SessionFile | None = None,
    tools: Sequence[str] = (),
    limit: int = SELECTED,
    on: bool = True,
    paused: bool = False,
) -> Recalled:
    """The memories that fit, at most `limit`, accounted for in the conversation and in the ledger."""
    asked = Asked(stores, query, selector, now, session, tuple(tools), limit, on, paused)
    return account(find_memories(asked), asked)


def find_memories(asked: Asked) -> Recalled:
    """As `recall`, but nothing counts as surfaced. Only a wish to ignore memory from now on is kept at once."""
    start = time.perf_counter()
    record = asked.session.read() if asked.session else Record()
    wish = find_ignoring(asked.text)
    empty = Recalled(asked.text, str(getattr(asked.selector, "name", "local")))
    skip = find_skip(asked.text, record, wish=wish, on=asked.on, paused=asked.paused)
    _keep_wish(asked.session, record, wish)
    found = replace(empty, skipped=skip) if skip else _select(asked, record, empty)
    return replace(found, elapsed_ms=(time.perf_counter() - start) * 1000)


def account(found: Recalled, asked: Asked, *, seconds: float = SESSION_SECONDS) -> Recalled:
    """Enter what was found into the conversation's record, within its budget, and into the ledger.

    Another process may have surfaced one of them meanwhile, or used up the budget: what is left is the answer.
    """
    if asked.session is not None and found.memories:
        found = _admit(found, asked.session, seconds)
    rows: dict[int, list[Surfacing]] = {}
    query = _mask(found.query) if found.memories else ""
    for excerpt, owner in zip(found.memories, found.owners, strict=True):
        session = asked.session.id if asked.session else ""
        row = Surfacing(excerpt.header.name, asked.now, query, session, found.selector, excerpt.score)
        rows.setdefault(id(owner), []).append(row)
    for owner in {id(owner): owner for owner in found.owners}.values():
        if isinstance(owner, Ledger):
            owner.note_recalls(rows[id(owner)])
    return found


def _mask(query: str) -> str:
    """The question as the ledger may keep it: people paste keys into their prompts."""
    if not _looks_secret(query):
        return query
    # Imported here: few questions hold what looks like a key, and the rules take longer to load than a recall.
    from memdir.secrets import find_secrets, mask

    return mask(query, find_secrets(query))


def _looks_secret(query: str) -> bool:
    folded = query.lower()
    if any(word in folded for word in _SECRET_WORDS):
        return True
    long = (word for word in folded.split() if len(word) >= _KEY_CHARS)
    return any(any(at.isdigit() for at in word) and any("a" <= at <= "z" for at in word) for word in long)


def make_excerpt(memory: Memory, *, path: str, score: float = 0.0) -> Excerpt:
    """The part of a memory that a conversation is given: its body, at most 200 lines and 4,096 bytes of it."""
    lines = (memory.body.strip() or memory.header.description).split("\n")
    kept = lines[:SURFACED_LINES]
    size = sum(len(line.encode("utf-8", "replace")) + 1 for line in kept) - 1
    while size > SURFACED_BYTES and len(kept) > 1:
        size -= len(kept.pop().encode("utf-8", "replace")) + 1
    text = "\n".join(kept).encode("utf-8", "replace")[:SURFACED_BYTES].decode("utf-8", "ignore").rstrip()
    is_cut = len(kept) < len(lines) or size > SURFACED_BYTES
    return Excerpt(memory.header, path, text, memory.digest, len(kept), len(lines), score, is_cut)


def find_key(session: SessionFile, stores: Sequence[Store], path: Path) -> str | None:
    """How the conversation's record spells a file, if it is a memory of one of the stores; `note_read` takes it."""
    real = os.path.realpath(path)
    for store in stores:
        if isinstance(store, FileStore):
            root = os.path.join(os.path.realpath(store.root), "")
            if real.startswith(root) and real.endswith(".md"):
                return _make_key(session, store, real[len(root) : -len(".md")])
    return None


def _make_key(session: SessionFile, store: Store, name: str) -> str:
    if isinstance(store, FileStore):
        return make_key(session, name, state=store.state, place=str(store.root))
    return make_key(session, name, state=None, place=str(getattr(store, "scope", "")))


def _keep_wish(session: SessionFile | None, record: Record, wish: Ignoring | None) -> None:
    ignoring = wish is Ignoring.CONVERSATION or (record.ignoring and wish is not Ignoring.LIFTED)
    if session is not None and ignoring != record.ignoring:
        try:
            session.set_ignoring(ignoring)
        except MemdirError:
            pass


def _select(asked: Asked, record: Record, empty: Recalled) -> Recalled:
    by = asked.selector
    picks = _find(by, asked, record) if isinstance(by, Finder) else _choose(by, asked, record)
    taken = [pick for pick in picks if not pick.dropped][: max(0, asked.limit)]
    read = [_read(asked.stores, pick) for pick in taken]
    fit = _complete([pair for pair in read if pair is not None], asked.now)
    gone = [replace(pick, dropped=UNREADABLE) for pick, pair in zip(taken, read, strict=True) if pair is None]
    skipped = None if fit else Skip.NOTHING_FITS if picks or _has_any(asked.stores) else Skip.EMPTY
    return replace(
        empty,
        selector=next((pick.by for pick in taken if pick.by), empty.selector),
        picks=(
            *(pick for pick, pair in zip(taken, read, strict=True) if pair),
            *gone,
            *(at for at in picks if at.dropped),
        ),
        memories=tuple(excerpt for excerpt, _ in fit),
        owners=tuple(owner for _, owner in fit),
        skipped=skipped,
    )


def _find(finder: Finder, asked: Asked, record: Record) -> Sequence[Pick]:
    """By a selector that knows the stores itself."""
    query = Query(asked.text, asked.tools, now=asked.now)
    return finder.find(query, asked.limit, lambda scope, name: _find_seen(asked, record, scope, name))


def _choose(selector: Selector, asked: Asked, record: Record) -> Sequence[Pick]:
    """By one that chooses among headers: those it may not choose are taken out before."""
    headers, hidden = _scan(asked.stores)
    seen = []
    if record.surfaced or record.read or _hides_team(asked.stores):
        reasons = [(at, _find_seen(asked, record, at.scope, at.name)) for at in headers]
        seen = [_drop(header, reason) for header, reason in reasons if reason]
        have = {id(pick.header) for pick in seen}
        headers = [header for header in headers if id(header) not in have]
    told = tuple(pick.header for pick in seen if pick.dropped != TEAM_OFF)  # a model is shown these, too
    query = Query(asked.text, asked.tools, now=asked.now, seen=told)
    chosen = selector(query, headers, asked.limit) if headers else ()
    return [*chosen, *seen, *hidden]


def _scan(stores: Sequence[Store]) -> tuple[list[Header], list[Pick]]:
    """The headers of all stores that can be read, and the user's memories that the project's hide."""
    headers: list[Header] = []
    hidden: list[Pick] = []
    for store in stores:
        try:
            found = store.scan()
        except MemdirError:
            continue
        above = set()
        if any(header.scope is Scope.USER for header in found):
            above = {fold(header.name) for header in headers if header.scope is Scope.PRIVATE}
        hidden += [_drop(header, HIDDEN) for header in found if fold(header.name) in above]
        headers += [header for header in found if fold(header.name) not in above] if above else found
    return headers, hidden


def _drop(header: Header, reason: str) -> Pick:
    return Pick(header, 0.0, Evidence(), reason)


def _find_seen(asked: Asked, record: Record, scope: Scope, name: str) -> str:
    """Why a memory is not news to the conversation, or not for it; empty if it is."""
    is_shared = scope is Scope.PROJECT or (scope is not Scope.USER and is_team(name))
    if is_shared and _hides_team(asked.stores):
        return TEAM_OFF
    if asked.session is None or not (record.surfaced or record.read):
        return ""
    keys = [_make_key(asked.session, store, name) for store in asked.stores if _may_hold(store, scope)]
    if any(key in record.surfaced for key in keys):
        return SURFACED
    return READ if any(key in record.read for key in keys) else ""


def _hides_team(stores: Sequence[Store]) -> bool:
    """Whether the person's settings leave out what a team shares; a store opened by its path leaves nothing out."""
    return any(not getattr(store, "team", True) for store in stores)


def _may_hold(store: Store, scope: Scope) -> bool:
    own = getattr(store, "scope", scope)
    return own is scope or (own is Scope.PRIVATE and scope is Scope.TEAM)


def _complete(fit: Sequence[tuple[Memory, Excerpt, Store]], now: datetime) -> list[tuple[Excerpt, Store]]:
    """The excerpts with what is known of each beside its words: from when it is, and what in it is out of date."""
    ages: dict[int, dict[str, datetime]] = {}
    doubts: dict[int, dict[str, str]] = {}
    for store in {id(store): store for _, _, store in fit}.values():
        memories = [memory for memory, _, owner in fit if owner is store]
        ages[id(store)] = find_ages(store, memories, now=now)
        doubts[id(store)] = find_caveats(store, memories)
    return [
        (replace(excerpt, since=ages[id(store)][name], caveat=doubts[id(store)].get(name, "")), store)
        for memory, excerpt, store in fit
        if (name := memory.header.name)
    ]


def _read(stores: Sequence[Store], pick: Pick) -> tuple[Memory, Excerpt, Store] | None:
    """The memory a pick means, from the store that has it; of several that could, the one whose file it is."""
    found: tuple[Memory, Store] | None = None
    for store in stores:
        if _may_hold(store, pick.header.scope):
            try:
                memory = store.read(pick.header.name)
            except MemdirError:
                continue
            if found is None or memory.header.signature == pick.header.signature:
                found = memory, store
    if found is None:
        return None
    memory, store = found
    path = str(store.root / pick.header.file) if isinstance(store, FileStore) else pick.header.file
    excerpt = make_excerpt(memory, path=path, score=pick.score)
    return memory, (_sign(excerpt, store) if pick.header.scope is Scope.TEAM else excerpt), store


def _sign(excerpt: Excerpt, store: Store) -> Excerpt:
    """With who wrote it, as far as that is known."""
    # Imported here: few recalls bring what a team shares.
    from memdir.authors import read_authors

    found = read_authors(store.state).get(excerpt.header.name) if isinstance(store, FileStore) else None
    return replace(excerpt, author=found.name) if found else excerpt


def _has_any(stores: Sequence[Store]) -> bool:
    for store in stores:
        try:
            if store.has_any() if isinstance(store, FileStore) else store.scan():
                return True
        except MemdirError:
            continue
    return False


def _admit(found: Recalled, session: SessionFile, seconds: float) -> Recalled:
    """Only what is new to the conversation and fits; if its record cannot be kept, all: better twice than never."""
    keys = [_make_key(session, owner, at.header.name) for at, owner in zip(found.memories, found.owners, strict=True)]
    refused: dict[str, str] = {}

    def step(record: Record) -> Record:
        surfaced, size = dict(record.surfaced), record.surfaced_bytes
        for key, excerpt in zip(keys, found.memories, strict=True):
            if record.has(key):
                refused[key] = SURFACED
            elif size + excerpt.size > CONVERSATION_BYTES:
                refused[key] = OVER_BUDGET
            else:
                surfaced[key] = Seen(excerpt.digest, excerpt.size)
                size += excerpt.size
        return replace(record, surfaced=surfaced)

    try:
        session.change(step, seconds=seconds)
    except MemdirError:
        return found
    return _without(found, keys, refused) if refused else found


def _without(found: Recalled, keys: Sequence[str], refused: dict[str, str]) -> Recalled:
    taken = iter(keys)  # the taken picks and the memories stand in the same order
    picks = [pick if pick.dropped else replace(pick, dropped=refused.get(next(taken), "")) for pick in found.picks]
    triples = zip(keys, found.memories, found.owners, strict=True)
    kept = [(excerpt, owner) for key, excerpt, owner in triples if key not in refused]
    reason = Skip.BUDGET if OVER_BUDGET in refused.values() else Skip.NOTHING_FITS
    return replace(
        found,
        picks=tuple(sorted(picks, key=lambda pick: bool(pick.dropped))),
        memories=tuple(excerpt for excerpt, _ in kept),
        owners=tuple(owner for _, owner in kept),
        skipped=None if kept else reason,
    )
