"""What a session adds to recall: it runs beside the model's work, and a model can be the selector.

`Prefetch` runs a recall in a thread. `FreshSearch` is the selector for it: a local search opened for each question,
with `Listings` of large directories that are reused between questions.

`ModelSelector` gives a model the manifest, recent tools and the query, and takes up to five file names. Rules and
manifest come first and the query last, so that a provider can cache what stays the same from turn to turn. For the same
reason memories that may no longer be selected stay in the manifest, and it begins with the oldest: a memory that is saved
or changed moves to its end. A model is trusted with nothing but the choice: names that are not in the list are dropped, a
reply that cannot be parsed is sent back once, and after that, or if the model fails, the local selector is used.
"""

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from memdir import guard
from memdir.errors import MemdirError, ReplyError
from memdir.format.age import HalfLives
from memdir.format.index import render_manifest_line
from memdir.frozen import replace
from memdir.guard import Stat
from memdir.limits import MANIFEST_ENTRIES, MANIFEST_NEWEST, SELECT_TOKENS, SELECTED
from memdir.models.prompts import render_prompt
from memdir.recall.pipeline import RecallRequest, RecallResult, find_recalled, record_recall
from memdir.recall.select import LocalSearch, list_signatures
from memdir.records import Evidence, Header, Message, Model, Pick, Query, Request, Scope, Selector
from memdir.store.contract import Store
from memdir.store.files import FileStore
from memdir.text import find_json, fold, one_line, shorten

KEY = "selected_memories"
PURPOSE = "select"
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {KEY: {"type": "array", "items": {"type": "string"}, "maxItems": SELECTED}},
    "required": [KEY],
    "additionalProperties": False,
}
_QUERY_CHARS = 4000  # of a pasted log, the edges say what it is about
_TAKE_SECONDS = 0.05  # for the conversation's record; it is held for a millisecond
_LARGE = 2_000  # files; listing fewer takes no noticeable time
_TRUSTED_SECONDS = 300.0
_SETTLED_NS = 2_000_000_000  # a folder that changed just now may change again with the same time


class Prefetch:
    """A recall beside the model's work: started when the message arrives, taken when it is ready.

    Starting another drops the one before. Nothing counts as surfaced until it is taken, so a turn that ends early
    leaves no trace. The thread is a daemon, so that it does not keep a process alive.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run: _PrefetchRun | None = None

    def start(self, request: RecallRequest) -> None:
        run = _PrefetchRun(request)
        with self._lock:
            self._run = run
        threading.Thread(target=run, name="memdir-prefetch", daemon=True).start()

    def take(self, seconds: float = 0) -> RecallResult | None:
        """Returns the result, once, and counts it as surfaced; None if there is none. Raises what the recall raised."""
        run = self._run
        if run is None or not run.done.wait(seconds):
            return None
        with self._lock:
            if self._run is not run:
                return None
            self._run = None
        if run.error is not None:
            raise run.error
        return None if run.found is None else record_recall(run.found, run.request, seconds=_TAKE_SECONDS)

    def cancel(self) -> None:
        with self._lock:
            self._run = None


class _PrefetchRun:
    """One recall under way, or done. An unexpected exception is a bug: Python reports it, and nothing was found."""

    def __init__(self, request: RecallRequest) -> None:
        self.request = request
        self.done = threading.Event()
        self.found: RecallResult | None = None
        self.error: MemdirError | None = None

    def __call__(self) -> None:
        try:
            self.found = find_recalled(self.request)
        except (MemdirError, OSError, sqlite3.Error) as error:
            self.error = MemdirError(str(error))
        finally:
            self.done.set()


class Listings:
    """The files of large memory directories as they were last listed, for a conversation that recalls many times.

    Listing ten thousand files takes five times as long as searching them. So the listing of a large directory is
    reused for a while, as long as no folder of it has changed: that shows every file that was added, removed or
    replaced, as memdir, git and many editors do it. A file that was overwritten in place is seen by the next full
    listing, made after every turn (`look_again`); until then it is ranked by its old words. Surfaced text is always
    read anew. May be used from several threads.
    """

    def __init__(self, large: int = _LARGE) -> None:
        self._large = large
        self._known: dict[int, tuple[dict[str, int], dict[str, Stat], float]] = {}  # folders' times, files, when listed

    def find(self, store: Store) -> dict[str, Stat] | None:
        """Returns the files as last listed if no folder has changed since; None if they have to be listed again."""
        times, signatures, listed = self._known.get(id(store), ({}, {}, 0.0))
        if not times or not isinstance(store, FileStore) or time.monotonic() - listed > _TRUSTED_SECONDS:
            return None
        return signatures if _read_folder_times(store, times) == times else None

    def look(self, store: Store) -> dict[str, Stat]:
        """Returns the files as they are now."""
        if not isinstance(store, FileStore):
            return list_signatures(store)
        times: dict[str, int] = {}
        signatures = store.signatures(times)
        is_large = bool(times) and len(signatures) >= self._large
        if is_large and time.time_ns() - max(times.values()) > _SETTLED_NS:
            self._known[id(store)] = (times, signatures, time.monotonic())
        else:
            self._known.pop(id(store), None)
        return signatures

    def look_again(self, store: Store) -> None:
        """List a store again whose listing is being reused."""
        if id(store) in self._known:
            try:
                self.look(store)
            except MemdirError:
                self._known.pop(id(store), None)


def _read_folder_times(store: FileStore, folders: Iterable[str]) -> dict[str, int]:
    try:
        root = guard.open_root(store.root)
    except MemdirError:
        return {}
    try:
        return {at: os.stat(at or ".", dir_fd=root, follow_symlinks=False).st_mtime_ns for at in folders}
    except OSError:
        return {}
    finally:
        os.close(root)


class FreshSearch:
    """A local search opened for each question: an open index belongs to one thread, a session to any.

    With `trusts` an earlier listing of a large directory may be used.
    """

    name = "local"

    def __init__(self, stores: Sequence[FileStore], half_lives: HalfLives, listings: Listings, *, trusts: bool) -> None:
        self._stores, self._half_lives, self._listings, self._trusts = stores, half_lives, listings, trusts

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        with self._open() as search:
            return search.find(query, limit, drop)

    def select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        with self._open() as search:
            return search.select(query, headers, limit)

    def _open(self) -> LocalSearch:
        return LocalSearch(self._stores, half_lives=self._half_lives, read_signatures=self._list)

    def _list(self, store: Store) -> dict[str, Stat]:
        known = self._listings.find(store) if self._trusts else None
        return self._listings.look(store) if known is None else known


class ModelSelector:
    """Asks `model`; uses `fallback` for what to show it, and when it fails."""

    name = "model"

    def __init__(self, model: Model, fallback: Selector) -> None:
        self._model = model
        self._fallback = fallback

    def __call__(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        limit = min(limit, SELECTED)
        if not headers or limit < 1:
            return ()
        shown = self._choose_shown(query, headers)
        request = make_select_request(query, shown, limit)
        try:
            text = self._model(request).text
            try:
                names = parse_selected(text)
            except ReplyError as error:
                said = Message("assistant", text or "(nothing)")
                repair = Message("user", render_prompt("select_repair", problem=str(error)))
                again = replace(request, messages=(*request.messages, said, repair))
                names = parse_selected(self._model(again).text)
        except MemdirError:
            return self._fallback(query, headers, limit)
        return _match_names(names, [header for header in shown if header not in query.seen], limit)

    def _choose_shown(self, query: Query, headers: Sequence[Header]) -> list[Header]:
        """The manifest, oldest first: all, or of too many the newest and the best by local score."""
        known = [*headers, *query.seen]
        if len(known) > MANIFEST_ENTRIES:
            newest = sorted(known, key=lambda header: (header.modified, header.file), reverse=True)[:MANIFEST_NEWEST]
            room = MANIFEST_ENTRIES - len(newest)
            best = [pick.header for pick in self._fallback(replace(query, wide=True), headers, room)][:room]
            known = [*newest, *(header for header in best if header not in newest)]
        return sorted(known, key=lambda header: (header.modified, header.file))


def make_select_request(query: Query, shown: Sequence[Header], limit: int) -> Request:
    """Return two messages: the list, the same as long as the memories are, and what is asked of it now."""
    manifest = "\n".join(render_manifest_line(header) for header in shown)
    parts = []
    if files := sorted(one_line(header.file) for header in query.seen if header in shown):
        parts.append(render_prompt("select_seen", files=", ".join(files)))
    if query.recent_tools:
        parts.append(render_prompt("select_tools", tools=", ".join(one_line(tool) for tool in query.recent_tools)))
    text, half = query.text, _QUERY_CHARS // 2
    clipped = text if len(text) <= _QUERY_CHARS else f"{text[:half]}\n…\n{text[-half:]}"
    parts.append(render_prompt("select_query", query=clipped))
    return Request(
        system=render_prompt("select", limit=str(limit)),
        messages=(
            Message("user", render_prompt("select_list", manifest=manifest)),
            Message("user", "\n\n".join(parts)),
        ),
        max_tokens=SELECT_TOKENS,
        schema=SCHEMA,
        purpose=PURPOSE,
    )


def parse_selected(text: str) -> list[str]:
    """Return the names in a reply, whatever is around the JSON; raises ReplyError that says what is wrong with it."""
    found = list(find_json(text))
    for value in found:
        chosen = value.get(KEY) if isinstance(value, dict) else value
        if isinstance(chosen, list):
            return [name for name in chosen if isinstance(name, str)]
    if not found:
        raise ReplyError(f"there is no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")
    raise ReplyError(f'the JSON has no list "{KEY}"')


def _match_names(names: Sequence[str], headers: Sequence[Header], limit: int) -> list[Pick]:
    """The headers with these names, in their order, each once; names that match none are dropped."""
    known: dict[str, Header] = {}
    for header in headers:
        known.setdefault(fold(one_line(header.name)), header)
    chosen: dict[str, Header] = {}
    for name in names:
        # Models write a name as a whole line of the list, as a path, with or without the ending.
        bare = re.sub(r"^(?:- )?(?:\[\w+\] )?", "", name.strip().strip("`\"'"))
        bare = re.sub(r" \(\d{4}-\d\d-\d\dT.*", "", bare)
        key = fold(bare.removeprefix("./").removesuffix(".md"))
        if key in known:
            chosen.setdefault(key, known[key])
    picked = list(chosen.values())[:limit]
    return [Pick(header, 1 / (rank + 1), Evidence(), by=ModelSelector.name) for rank, header in enumerate(picked)]
