"""Recall: for what the person typed, the few memories that matter, read within the limits, each at most once.

    gates -> scan -> without what the conversation has -> select -> read -> account -> (reminder)

`find_memories` does everything but the accounting, and `account` that alone: whoever looks ahead and may throw the
answer away (prefetch) calls them apart. Reads forgive: a directory or a memory that cannot be read is left out, and a
record or a ledger that cannot be written costs no memory.

How well a memory fits is the selector's to say; how it is told is reminder's.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Protocol, runtime_checkable

from memdir.errors import MemdirError
from memdir.frozen import dataclass, field, replace
from memdir.language.ignore import IgnoreReach, find_ignoring
from memdir.limits import CONVERSATION_BYTES, SELECTED, SESSION_SECONDS, SURFACED_BYTES, SURFACED_LINES
from memdir.recall.find import find_ages, read_half_lives
from memdir.recall.reminder import find_caveats
from memdir.recall.select import LocalSearch
from memdir.records import Evidence, Excerpt, Header, Memory, Pick, Query, Scope, Selector, Surfacing
from memdir.store.contract import Ledger, Store, utc_now
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.plan import is_team
from memdir.store.sessions import SessionFile, SessionRecord, SurfacedMemory, make_key, open_session
from memdir.text import fold

# --- gates ---
# May recall speak at all? The closed list of reasons why not, and the gates that need no memory to be read.
#
# Cheapest first. What a gate cannot know (whether there is a memory, whether one fits) is decided in recall with the
# last
# two reasons of the list.


class RecallSkip(StrEnum):
    """Every reason why a recall brings nothing."""

    OFF = "off"
    PAUSED = "paused"
    PRIVATE = "private"
    IGNORE_CONVERSATION = "ignore_conversation"
    IGNORE_TURN = "ignore_turn"
    ONE_WORD = "one_word"
    BUDGET = "budget"
    EMPTY = "empty"
    NOTHING_FITS = "nothing_fits"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    RecallSkip.OFF: "recall is switched off here",
    RecallSkip.PAUSED: "memory is paused",
    RecallSkip.PRIVATE: "this conversation is private",
    RecallSkip.IGNORE_CONVERSATION: "the person asked to leave memory out of this conversation",
    RecallSkip.IGNORE_TURN: "the message asks to leave memory out of this answer",
    RecallSkip.ONE_WORD: "one word is too little to search by",
    RecallSkip.BUDGET: f"this conversation was given its {CONVERSATION_BYTES:,} bytes of memory; compacting resets that",
    RecallSkip.EMPTY: "there is no memory yet",
    RecallSkip.NOTHING_FITS: "no memory fits the question",
}

# Chinese, Japanese and Korean write words without spaces, or in few characters.
_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# So do these, with an alphabet: what looks like one word of them may be a sentence.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_PLAIN = re.compile(r"\w+(?:[^\s\w]+\w+)*")
_CJK_CHARS = 4
_UNSPACED_CHARS = 8


def find_skip(
    text: str, record: SessionRecord, *, wish: IgnoreReach | None = None, on: bool = True, paused: bool = False
) -> RecallSkip | None:
    """The first gate that is shut for this message in this conversation, or None; `wish` is what it asks of memory."""
    gates = (
        (RecallSkip.OFF, not on),
        (RecallSkip.PAUSED, paused),
        (RecallSkip.PRIVATE, record.private),
        (RecallSkip.IGNORE_CONVERSATION, wish is IgnoreReach.CONVERSATION),
        (RecallSkip.IGNORE_CONVERSATION, record.ignoring and wish is not IgnoreReach.LIFTED),
        (RecallSkip.IGNORE_TURN, wish is IgnoreReach.TURN),
        (RecallSkip.ONE_WORD, is_one_word(text)),
        (RecallSkip.BUDGET, record.surfaced_bytes >= CONVERSATION_BYTES),
    )
    return next((skip for skip, shut in gates if shut), None)


def is_one_word(text: str) -> bool:
    """Whether a query says one word or less. Four CJK characters in a row are more than one word; so are two words."""
    if text.isascii():
        words = _PLAIN.finditer(text[:2000])
        return next(words, None) is None or next(words, None) is None
    count = 0
    for cjk, unspaced, _ in _compile_runs().findall(text[:2000]):
        count += 2 if len(cjk) >= _CJK_CHARS or len(unspaced) >= _UNSPACED_CHARS else 1
        if count > 1:
            return False
    return True


@cache
def _compile_runs() -> re.Pattern[str]:
    """Runs of each kind of script. Made when a text needs it: these sets take longer to compile than a search takes."""
    word, gap = rf"[^\W{_CJK}{_UNSPACED}]+", rf"[^\s\w{_CJK}{_UNSPACED}]+"
    return re.compile(rf"([{_CJK}]+)|([{_UNSPACED}]+)|({word}(?:{gap}{word})*)")


# --- recall ---

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
class StoreFinder(Protocol):
    """A selector that knows its stores and needs no headers: in a large directory a scan costs more than a search.

    `drop` says of a scope and a name why that memory may not be taken. What is dropped has no say in the others; it may
    be answered too, with the reason.
    """

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]: ...


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """All that a recall goes by. `stores` in the order of their say: of two memories with one name the project's
    hides the user's. `on` and `paused` are the person's settings."""

    stores: Sequence[Store]
    text: str
    selector: Selector | StoreFinder
    now: datetime
    session: SessionFile | None = None
    tools: tuple[str, ...] = ()
    limit: int = SELECTED
    on: bool = True
    paused: bool = False


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What a recall brought, or why nothing. `picks` holds dropped ones too, after the taken, each with the reason."""

    query: str
    selector: str
    picks: tuple[Pick, ...] = ()
    memories: tuple[Excerpt, ...] = ()
    skipped: RecallSkip | None = None
    elapsed_ms: float = 0.0
    owners: tuple[Store, ...] = field(default=(), repr=False, compare=False)  # of `memories`, one each

    def __iter__(self) -> Iterator[Excerpt]:
        return iter(self.memories)


def recall_from(
    stores: Sequence[Store],
    query: str,
    *,
    selector: Selector | StoreFinder,
    now: datetime,
    session: SessionFile | None = None,
    tools: Sequence[str] = (),
    limit: int = SELECTED,
    on: bool = True,
    paused: bool = False,
) -> RecallResult:
    """The memories that fit, at most `limit`, accounted for in the conversation and in the ledger."""
    asked = RecallRequest(stores, query, selector, now, session, tuple(tools), limit, on, paused)
    return account(find_recalled(asked), asked)


def find_recalled(asked: RecallRequest) -> RecallResult:
    """As `recall`, but nothing counts as surfaced. Only a wish to ignore memory from now on is kept at once."""
    start = time.perf_counter()
    record = asked.session.read() if asked.session else SessionRecord()
    wish = find_ignoring(asked.text)
    empty = RecallResult(asked.text, str(getattr(asked.selector, "name", "local")))
    skip = find_skip(asked.text, record, wish=wish, on=asked.on, paused=asked.paused)
    _keep_wish(asked.session, record, wish)
    found = replace(empty, skipped=skip) if skip else _select(asked, record, empty)
    return replace(found, elapsed_ms=(time.perf_counter() - start) * 1000)


def account(found: RecallResult, asked: RecallRequest, *, seconds: float = SESSION_SECONDS) -> RecallResult:
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
    from memdir.store.secrets import find_secrets, mask

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


def _keep_wish(session: SessionFile | None, record: SessionRecord, wish: IgnoreReach | None) -> None:
    ignoring = wish is IgnoreReach.CONVERSATION or (record.ignoring and wish is not IgnoreReach.LIFTED)
    if session is not None and ignoring != record.ignoring:
        try:
            session.set_ignoring(ignoring)
        except MemdirError:
            pass


def _select(asked: RecallRequest, record: SessionRecord, empty: RecallResult) -> RecallResult:
    by = asked.selector
    picks = _find(by, asked, record) if isinstance(by, StoreFinder) else _choose(by, asked, record)
    taken = [pick for pick in picks if not pick.dropped][: max(0, asked.limit)]
    read = [_read(asked.stores, pick) for pick in taken]
    fit = _complete([pair for pair in read if pair is not None], asked.now)
    gone = [replace(pick, dropped=UNREADABLE) for pick, pair in zip(taken, read, strict=True) if pair is None]
    skipped = None if fit else RecallSkip.NOTHING_FITS if picks or _has_any(asked.stores) else RecallSkip.EMPTY
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


def _find(finder: StoreFinder, asked: RecallRequest, record: SessionRecord) -> Sequence[Pick]:
    """By a selector that knows the stores itself."""
    query = Query(asked.text, asked.tools, now=asked.now)
    return finder.find(query, asked.limit, lambda scope, name: _find_seen(asked, record, scope, name))


def _choose(selector: Selector, asked: RecallRequest, record: SessionRecord) -> Sequence[Pick]:
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


def _find_seen(asked: RecallRequest, record: SessionRecord, scope: Scope, name: str) -> str:
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
    from memdir.store.state import read_authors

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


def _admit(found: RecallResult, session: SessionFile, seconds: float) -> RecallResult:
    """Only what is new to the conversation and fits; if its record cannot be kept, all: better twice than never."""
    keys = [_make_key(session, owner, at.header.name) for at, owner in zip(found.memories, found.owners, strict=True)]
    refused: dict[str, str] = {}

    def step(record: SessionRecord) -> SessionRecord:
        surfaced, size = dict(record.surfaced), record.surfaced_bytes
        for key, excerpt in zip(keys, found.memories, strict=True):
            if record.has(key):
                refused[key] = SURFACED
            elif size + excerpt.size > CONVERSATION_BYTES:
                refused[key] = OVER_BUDGET
            else:
                surfaced[key] = SurfacedMemory(excerpt.digest, excerpt.size)
                size += excerpt.size
        return replace(record, surfaced=surfaced)

    try:
        session.change(step, seconds=seconds)
    except MemdirError:
        return found
    return _without(found, keys, refused) if refused else found


def _without(found: RecallResult, keys: Sequence[str], refused: dict[str, str]) -> RecallResult:
    taken = iter(keys)  # the taken picks and the memories stand in the same order
    picks = [pick if pick.dropped else replace(pick, dropped=refused.get(next(taken), "")) for pick in found.picks]
    triples = zip(keys, found.memories, found.owners, strict=True)
    kept = [(excerpt, owner) for key, excerpt, owner in triples if key not in refused]
    reason = RecallSkip.BUDGET if OVER_BUDGET in refused.values() else RecallSkip.NOTHING_FITS
    return replace(
        found,
        picks=tuple(sorted(picks, key=lambda pick: bool(pick.dropped))),
        memories=tuple(excerpt for excerpt, _ in kept),
        owners=tuple(owner for _, owner in kept),
        skipped=None if kept else reason,
    )


# --- asking ---
# Recall with everything in its place: the local index opened, the settings heard, the conversation found by its id.
#
# For whoever has a store or a working directory and a question, and no wish to choose a selector. What recall does is
# `recall`'s; what fits is `search`'s.


def recall(
    stores: Store | Sequence[Store],
    query: str,
    *,
    now: datetime | None = None,
    session: SessionFile | None = None,
    tools: Sequence[str] = (),
    limit: int = SELECTED,
    semantic: bool = True,
) -> RecallResult:
    """The memories that fit a question, at most `limit` and possibly none; iterate over the answer.

    Of several stores, the project's comes first. With a `session` nothing is told twice in one conversation.
    """
    given = tuple(stores) if isinstance(stores, Sequence) else (stores,)
    with LocalSearch(given, semantic=semantic) as search:
        asked = RecallRequest(given, query, search, now or utc_now(), session, tuple(tools), limit)
        return account(find_recalled(asked), asked)


def recall_here(
    opened: Project,
    query: str,
    *,
    session: str = "",
    tools: Sequence[str] = (),
    limit: int = SELECTED,
    semantic: bool = True,
    peek: bool = False,
    on_read: Callable[[int], None] = lambda count: None,
    on_found: Callable[[RecallResult], None] = lambda found: None,
) -> RecallResult:
    """As `recall`, where somebody works: by their settings, in the conversation of that id.

    To `peek` is to look without telling: nothing counts as surfaced. `on_read` hears of files read into the index,
    `on_found` of what was found before it is accounted for.
    """
    settings = opened.settings
    lives = read_half_lives(settings)
    with LocalSearch(opened.stores, semantic=semantic, half_lives=lives, on_read=on_read) as search:
        asked = RecallRequest(
            opened.stores,
            query,
            search,
            opened.now(),
            open_session(opened.private.state, session) if session else None,
            tuple(tools),
            limit,
            on=opened.places.switch.on and settings.flag("recall"),
            paused=settings.flag("paused"),
        )
        found = find_recalled(asked)
        on_found(found)
        return found if peek else account(found, asked)


# --- retelling ---
# What a conversation had of its memories, told again after the host has shortened it.
#
# Compaction takes the words of recalled memories out of the conversation, and the record of it begins anew. The
# memories
# that mattered before will mostly go on to matter, so they are read once more, as they are now.


def read_again(stores: Sequence[FileStore], session: SessionFile, before: SessionRecord) -> tuple[Excerpt, ...]:
    """The memories that a record says were surfaced, in that order; those that are gone are left out."""
    found: dict[str, Excerpt] = {}
    for store in stores:
        for key, name in _list_names(store, session, before):
            try:
                memory = store.read(name)
            except MemdirError:
                continue
            found[key] = make_excerpt(memory, path=str(store.root / memory.header.file))
    return tuple(found[key] for key in before.surfaced if key in found)


def account_again(stores: Sequence[FileStore], session: SessionFile, told: Sequence[Excerpt]) -> None:
    """These are in the conversation again."""
    if not told:
        return
    roots = {str(store.root / at.header.file): store for store in stores for at in told}
    seen = {
        _retelling_make_key(session, roots[at.path], at.header.name): SurfacedMemory(at.digest, at.size) for at in told
    }
    session.change(lambda record: replace(record, surfaced={**record.surfaced, **seen}))


def _list_names(store: FileStore, session: SessionFile, before: SessionRecord) -> list[tuple[str, str]]:
    if store.state == session.state:
        return [(key, key) for key in before.surfaced if not key.startswith("#")]
    if not any(key.startswith("#") for key in before.surfaced):
        return []
    keys = ((_retelling_make_key(session, store, header.name), header.name) for header in store.scan())
    return [(key, name) for key, name in keys if key in before.surfaced]


def _retelling_make_key(session: SessionFile, store: FileStore, name: str) -> str:
    return make_key(session, name, state=store.state, place=str(store.root))
