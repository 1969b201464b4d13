"""The stores behind the web interface, an up-to-date list of their memories, and change events.

The files decide: each request first checks whether a folder, the history or the derived index has changed since the list was
created, which takes a few `stat` calls. An edit inside a file changes none of these, so a thread compares all files about once a
second while a page is open. Events only say that something changed; the page then requests its content.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from memdir.errors import MemdirError, NotFoundError
from memdir.files import Stat
from memdir.format.age import HALF_LIVES
from memdir.frozen import dataclass, field
from memdir.recall.find import SearchHit, search_memories
from memdir.recall.select import LocalSearch
from memdir.records import Header, InboxState, Origin, RecallCounts, Scope
from memdir.store.contract import Clock, Folder, StoreBase, utc_now
from memdir.store.facts import find_authors, find_listed_ages
from memdir.store.files import FileStore
from memdir.store.history import FILE as HISTORY
from memdir.store.history import OUTSIDE
from memdir.store.open import Project, open_others, open_project
from memdir.text import shorten_home
from memdir.verify.records import VerifyState, read_states, render_signature

_WATCH_SECONDS = 1.0  # between comparisons of all files while a page is open
_WATCH_SHARE = 20  # comparisons may use one twentieth of the time
_IDLE_SECONDS = 90.0  # without requests, until watching stops
_HITS = 20  # of a search in each other project
_EVENTS = 32  # queued per tab; a slower tab loses events, and its next event reloads everything
ORIGIN = Origin(why="on the page")


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One listed memory: its header, verification state, use and last change.

    `home` is the key of its store; team memories are in a folder of the project's store.
    """

    home: str
    header: Header
    state: VerifyState | None  # None: this text was not checked yet
    uses: int
    who: str
    changed: datetime

    @property
    def key(self) -> str:
        return f"{self.home}/{self.header.name}"


@dataclass(frozen=True, slots=True)
class SiteList:
    """All memories, newest change first; `number` grows with every detected change."""

    number: int = 0
    rows: tuple[MemoryRow, ...] = ()
    waiting: int = 0
    by_key: Mapping[str, MemoryRow] = field(default_factory=dict)


class Site:
    """The data behind a page: `stores` by key in order of precedence and, on the user's own machine, the project."""

    def __init__(
        self,
        stores: Sequence[StoreBase],
        *,
        title: str,
        place: str = "",
        clock: Clock = utc_now,
        project: Project | None = None,
        make_search: Callable[[Sequence[StoreBase]], LocalSearch] | None = None,
        origin: Origin = ORIGIN,
    ) -> None:
        self.stores = {store.scope.value: store for store in stores}
        self.title, self.place, self.clock, self.project = title, place, clock, project
        self.can_edit = self.can_review = make_search is None
        self._make_search, self.origin = make_search, origin
        self.published = 0  # events so far; a page rendered before the last one is outdated
        self._list = SiteList()
        self._stamps: dict[str, tuple[object, ...]] = {}
        self._marks: dict[str, dict[str, Stat]] = {}
        self._files: dict[str, dict[str, Stat]] = {}
        self._lock, self._searching = threading.RLock(), threading.RLock()
        self._search: LocalSearch | None = None
        self._searched = -1
        self._memos: dict[str, Any] = {}
        self._used = time.monotonic()
        self._watcher: threading.Thread | None = None
        self._stopped = threading.Event()
        self._tabs: dict[asyncio.Queue[tuple[str, int]], asyncio.AbstractEventLoop] = {}
        self.sites: Sites | None = None  # with those of the other projects, on the user's own machine
        self.key = ""

    def now(self) -> datetime:
        return self.clock()

    def store(self, home: str) -> StoreBase:
        if home not in self.stores:
            raise NotFoundError(f"store {home!r} not found", name=home)
        return self.stores[home]

    @property
    def files(self) -> dict[str, FileStore]:
        """The project's stores by key; empty on a server."""
        return {} if self.project is None else {store.scope.value: store for store in self.project.stores}

    @property
    def local_project(self) -> Project:
        """The project of this site. Raises NotFoundError on a server."""
        if self.project is None:
            raise NotFoundError("not available here: use the machine with the memory files")
        return self.project

    @contextmanager
    def search(self) -> Iterator[LocalSearch]:
        """Provide the local search, which stays open and compares files only after the list changed.

        With `make_search`, each call opens its own.
        """
        if self._make_search is not None:
            with self._make_search(tuple(self.stores.values())) as search:
                search.refresh()
                yield search
            return
        with self._searching:
            number = self.memories().number
            if self._search is None:
                lives = self.project.settings.half_lives() if self.project else HALF_LIVES
                self._search = LocalSearch(tuple(self.stores.values()), half_lives=lives, trusts=True)
            if self._searched != number:
                self._search.refresh()
                self._searched = number
            yield self._search

    def memo(self, key: str, make: Callable[[], Any]) -> Any:
        """Return `make()`, cached until something changes and for at most an hour."""
        number = (self._list.number, self.now().timestamp() // 3600)
        if self._memos.get("", None) != number:
            self._memos = {"": number}
        if key not in self._memos:
            self._memos[key] = make()
        return self._memos[key]

    # The list

    def memories(self) -> SiteList:
        """Return the current list; reads a store again only if its folders, history or index changed."""
        self._used = time.monotonic()
        self._start_watching()
        if any(self._stamps.get(key) != self._stamp(key) for key in self.stores):
            self.refresh()
        return self._list

    def refresh(self, *, whole: bool = False) -> bool:
        """Read changed stores and return whether there were any; `whole` compares every file first."""
        with self._lock:
            stale = [key for key in self.stores if self._is_stale(key, whole=whole)]
            if not stale:
                return False
            unchanged = [row for row in self._list.rows if row.home not in stale]
            rows = sorted(
                (
                    row
                    for key in self.stores
                    for row in (self._read_rows(key) if key in stale else unchanged)
                    if row.home == key
                ),
                key=lambda row: (row.changed, row.header.name),
                reverse=True,
            )
            waiting = sum(len(store.inbox(InboxState.WAITING)) for store in self.stores.values())
            by_key = {row.key: row for row in rows}
            self._list = SiteList(self._list.number + 1, tuple(rows), waiting, by_key)
        self.publish("change")
        return True

    def _is_stale(self, key: str, *, whole: bool) -> bool:
        store = self.stores[key]
        if whole and key in self._files:
            with suppress(MemdirError):
                if store.list_signatures() != self._files[key]:
                    return True
        return self._stamps.get(key) != self._stamp(key)

    def _stamp(self, key: str) -> tuple[object, ...]:
        """Return values that change when the store changes, except for edits inside a file; opens no files."""
        store = self.stores[key]
        if not isinstance(store, Folder):
            last = store.find_last_change()
            return store.count_changes(), last and last.id, len(store.inbox(None)), store.recalls(limit=1)
        paths = [store.root / folder for folder in self._marks.get(key) or ("",)]
        paths += [
            store.state / HISTORY,
            store.state / f"{HISTORY}-wal",
            store.root / "MEMORY.md",
            store.find_index_file(write=False) or store.root,
        ]
        return tuple(_read_time(path) for path in paths)

    def _read_rows(self, key: str) -> list[MemoryRow]:
        store = self.stores[key]
        states: dict[str, tuple[VerifyState, str]] = {}
        recalls = RecallCounts()
        # Before anything is read, so that what changes in the meantime is noticed at the next request.
        stamp = self._stamp(key)
        try:
            if isinstance(store, Folder):
                self._marks[key] = marks = dict[str, Stat]()
                self._files[key] = store.list_signatures(marks)
                states = read_states(store)
            headers = store.scan()
            recalls = store.count_recalls()
            authors = find_authors(store, [header.name for header in headers])
        except MemdirError:  # doctor reports why a directory cannot be read
            headers, authors = (), {}
        self._stamps[key] = stamp
        ages = self._find_ages(key, headers)
        rows = []
        for header in headers:
            recorded = states.get(header.name)
            state = recorded[0] if recorded and recorded[1] == render_signature(header.signature) else None
            name, who = header.name, authors.get(header.name, OUTSIDE)
            uses = recalls.by_name.get(name, 0)
            rows.append(MemoryRow(key, header, state, uses, who, ages[name]))
        return rows

    def _find_ages(self, key: str, headers: Sequence[Header]) -> dict[str, datetime]:
        """Return when each memory's content last changed; reads only files that are new or changed."""
        listed = {row.header.name: row for row in self._list.rows if row.home == key}
        same = {
            header.name
            for header in headers
            if header.name in listed and listed[header.name].header.signature == header.signature
        }
        fresh = [header for header in headers if header.name not in same]
        return {name: listed[name].changed for name in same} | find_listed_ages(self.stores[key], fresh, now=self.now())

    # Watching and events

    def _start_watching(self) -> None:
        if self.files and (self._watcher is None or not self._watcher.is_alive()):
            self._watcher = threading.Thread(target=self._watch_files, name="memdir-watch", daemon=True)
            self._watcher.start()

    def _watch_files(self) -> None:
        wait = _WATCH_SECONDS
        while not self._stopped.wait(wait):
            if not self._tabs and time.monotonic() - self._used > _IDLE_SECONDS:
                return
            begin = time.process_time()
            with suppress(MemdirError, OSError):
                if any(self._is_stale(key, whole=True) for key in self.stores):
                    self.refresh(whole=True)
                    continue
            wait = max(_WATCH_SECONDS, (time.process_time() - begin) * _WATCH_SHARE)

    def close(self) -> None:
        self._stopped.set()
        with self._searching:
            if self._search is not None:
                self._search.close()
                self._search = None
        self.publish("end")

    def open_tab(self) -> asyncio.Queue[tuple[str, int]]:
        """Return a queue of events for one tab; close it with `close_tab`."""
        queue: asyncio.Queue[tuple[str, int]] = asyncio.Queue(_EVENTS)
        self._tabs[queue] = asyncio.get_running_loop()
        self._used = time.monotonic()
        self._start_watching()
        return queue

    def close_tab(self, queue: asyncio.Queue[tuple[str, int]]) -> None:
        self._tabs.pop(queue, None)
        self._used = time.monotonic()

    def publish(self, event: str) -> None:
        self.published += 1
        for queue, loop in list(self._tabs.items()):
            with suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(_put_event, queue, (event, self.published))


def _put_event(queue: asyncio.Queue[tuple[str, int]], event: tuple[str, int]) -> None:
    with suppress(asyncio.QueueFull):
        queue.put_nowait(event)


def _read_time(path: "os.PathLike[str]") -> tuple[int, int]:
    try:
        facts = os.stat(path)
    except OSError:
        return 0, 0
    return facts.st_mtime_ns, facts.st_size


def open_site(project: Project) -> Site:
    root = project.places.root.path
    return Site(
        project.stores,
        title=root.name or str(root),
        place=shorten_home(str(root), project.environment.home),
        clock=project.clock,
        project=project,
    )


class Sites:
    """The site of the project that the page was started in and, opened on request, those of the user's other projects.

    The key of a site is the name of its project's folder in the user's home, "" for the first.
    """

    def __init__(self, project: Project, variables: Mapping[str, str] | None = None) -> None:
        self._project, self._variables, self._lock = project, variables, threading.Lock()
        self._sites = {"": open_site(project)}
        self._sites[""].sites = self

    def find(self, key: str) -> Site:
        """Return the site of a project. Raises NotFoundError if it is unknown."""
        with self._lock:
            if key not in self._sites:
                root = self.list_roots().get(key)
                if root is None:
                    raise NotFoundError("project not found: its folder was moved or deleted")
                self._sites[key] = site = open_site(open_project(Path(root), environ=self._variables))
                site.sites, site.key = self, key
            return self._sites[key]

    def list_roots(self) -> dict[str, str]:
        """Return the folders of the other projects by key; of those whose folder still exists."""
        roots = dict[str, str]()
        for store, root in open_others(self._project):
            store.close()
            if root and os.path.isdir(root):
                roots[store.root.parent.name] = root
        return roots

    def search(self, words: str, here: str) -> list[tuple[str, SearchHit]]:
        """Return the memories of other projects that contain all words, with the key of their project."""
        others = [key for key in ("", *self.list_roots()) if key != here]
        stores = {key: self.find(key).stores[Scope.PRIVATE.value] for key in others}
        return [(key, hit) for key, store in stores.items() for hit in search_memories([store], words, limit=_HITS)]

    def list_titles(self) -> dict[str, tuple[str, str]]:
        """Return the title and the folder of each project by key."""
        own = self._sites[""]
        homed = {key: shorten_home(root, self._project.environment.home) for key, root in self.list_roots().items()}
        return {"": (own.title, own.place), **{key: (os.path.basename(place), place) for key, place in homed.items()}}

    def close(self) -> None:
        for key, site in self._sites.items():
            site.close()
            if key and site.project is not None:
                site.project.close()


def name_scope(scope: Scope | str) -> str:
    return {"private": "this project", "user": "all projects", "team": "team", "project": "repository"}.get(
        scope, str(scope)
    )
