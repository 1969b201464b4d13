"""Recall in a conversation: at once, or begun when a message arrives and taken when it is ready.

The local search is opened for each question: an open index belongs to one thread, a session to any. What is asked at
once is asked of the files as they are; a recall beside a model's work may go by an earlier listing of a large directory
(listing), which is looked at again when the turn is over.
"""

import threading
from collections.abc import Callable, Sequence

from memdir.age import HALF_LIVES, HalfLives
from memdir.conversing.ground import MODEL, Ground
from memdir.conversing.listing import Listings
from memdir.conversing.telling import RECALL, Callbacks, Reminders, tell, tell_recalled
from memdir.disk import Stat
from memdir.errors import MemdirError
from memdir.gates import Skip
from memdir.model_select import make_model_selector
from memdir.prefetch import Prefetch
from memdir.query import strip_host_text
from memdir.recall import Asked, Recalled, account, find_memories
from memdir.records import Header, Model, Pick, Query, Scope
from memdir.search.local import LocalSearch
from memdir.store.contract import Store
from memdir.store.files import FileStore


class FreshSearch:
    """A finder, and the selector that a model's falls back on; for one question. `trusts` as the listings allow it."""

    name = "local"

    def __init__(
        self,
        stores: Sequence[FileStore],
        half_lives: HalfLives = HALF_LIVES,
        listings: Listings | None = None,
        *,
        trusts: bool = False,
    ) -> None:
        self._stores, self._half_lives = tuple(stores), half_lives
        self._listings, self._trusts = listings or Listings(), trusts

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


class Recalling:
    """Of one conversation; safe to use from several threads. The latest message is the one that counts."""

    def __init__(self, ground: Ground, callbacks: Callbacks, open_model: Callable[[], Model | None]) -> None:
        self._ground, self._callbacks, self._open_model = ground, callbacks, open_model
        self._lock = threading.Lock()
        self._prefetch: Prefetch | None = None
        self._listings = Listings()

    def recall(self, text: str, tools: Sequence[str]) -> Recalled:
        asked = self._make_asked(text, tools, self._make_search())
        found = account(find_memories(asked), asked)
        tell_recalled(self._callbacks, found, asked.now)
        return found

    def start(self, text: str, tools: Sequence[str]) -> None:
        self.cancel()
        if not self._ground.on:
            tell(self._callbacks.skipped, RECALL, Skip.OFF)
            return
        asked = self._make_asked(text, tools, self._make_search(trusts=True))
        prefetch = Prefetch(asked, clock=self._ground.clock)
        prefetch.start(asked.text, tools=tools)
        with self._lock:
            self._prefetch = prefetch

    def take(self, seconds: float) -> Reminders | None:
        with self._lock:
            prefetch = self._prefetch
        if prefetch is None or not (prefetch.wait(seconds) if seconds > 0 else prefetch.poll()):
            return None
        problem = prefetch.problem
        found = prefetch.take()
        if problem:
            tell(self._callbacks.error, MemdirError(problem))
        return None if found is None else tell_recalled(self._callbacks, found, self._ground.clock())

    def look_again(self) -> None:
        """Between two turns: see that listings which were gone by still hold."""
        for store in self._ground.stores:
            self._listings.look_again(store)

    def cancel(self) -> None:
        with self._lock:
            prefetch, self._prefetch = self._prefetch, None
        if prefetch is not None:
            prefetch.cancel()

    def _make_search(self, *, trusts: bool = False) -> FreshSearch:
        return FreshSearch(self._ground.stores, self._ground.half_lives, self._listings, trusts=trusts)

    def _make_asked(self, text: str, tools: Sequence[str], search: FreshSearch) -> Asked:
        ground = self._ground
        model = self._open_model() if ground.selector == MODEL else None
        return Asked(
            ground.stores,
            strip_host_text(text),
            search if model is None else make_model_selector(model, search.select),
            ground.clock(),
            ground.file if ground.on else None,
            tuple(tools),
            on=ground.on and ground.recalls,
            paused=ground.paused,
        )
