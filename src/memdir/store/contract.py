"""The contract of a store, and the operations that its implementations share.

`Store` is the protocol for the rest of memdir and for stores of other projects; `memdir.testing.check_store` tests it.
`StoreBase` turns each operation into a plan that `_commit` carries out; FileStore and MemoryStore differ only in that.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from memdir.errors import MemdirError, NotFoundError, ReviewError, SettingsError
from memdir.files import STATE, ChangedListing, DiskEntry, Stat, check_name, disk_errors, hold, open_root, open_state
from memdir.format.frontmatter import decode, digest_of
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, replace
from memdir.records import (
    BatchResult,
    Change,
    Draft,
    Edit,
    Forget,
    Header,
    InboxItem,
    InboxKind,
    InboxState,
    Origin,
    Pin,
    Put,
    RecallCounts,
    Rewrite,
    Save,
    Scope,
    StoredMemory,
    Surfacing,
)
from memdir.store import inbox, plan
from memdir.store.inbox import Inbox
from memdir.store.plan import FileChange, Planner, StoreView, WriteRules

if TYPE_CHECKING:
    from memdir.store.history import ChangeDate, MemorySource
    from memdir.store.state import Author

Clock = Callable[[], datetime]
Screen = Callable[[Sequence[FileChange], str, str], InboxItem | None]  # changes, verb, and a reason for review or ""
PERSON = Origin()
# Single edits, and groups that are applied completely or not at all.
Edits = Sequence[Edit | Sequence[Edit]]


class Store(Protocol):
    """The methods that every store must have. `expect` is the digest of the version that the caller has read."""

    def scan(self) -> tuple[Header, ...]: ...
    def read(self, name: str) -> StoredMemory: ...
    def write(self, draft: Draft, *, expect: str | None = None, origin: Origin = PERSON) -> StoredMemory: ...
    def delete(self, name: str, *, expect: str | None = None, origin: Origin = PERSON) -> None: ...
    def index(self) -> str: ...


class ChangeLog(Protocol):
    """The methods of a history that a store uses."""

    def read_changes(
        self, *, path: str | None = None, limit: int = -1, below: int | None = None
    ) -> tuple[Change, ...]: ...
    def read_change(self, change: int) -> Change: ...
    def find_last(self) -> Change | None: ...
    def count_changes(self) -> int: ...
    def find_marked(self, mark: str) -> int | None: ...
    def read_content(self, digest: str) -> bytes: ...
    def find_last_steps(self, names: Collection[str] | None = None) -> dict[str, Change]: ...
    def find_dates(self, memories: Sequence[StoredMemory]) -> "tuple[ChangeDate, ...]": ...
    def read_recalls(self, name: str | None, limit: int) -> tuple[Surfacing, ...]: ...
    def count_recalls(self) -> RecallCounts: ...


@runtime_checkable
class RecallLog(Protocol):
    """A store that also records recalls."""

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None: ...
    def recalls(self, name: str | None = None, *, limit: int = -1) -> tuple[Surfacing, ...]: ...
    def count_recalls(self) -> RecallCounts: ...


@runtime_checkable
class Workplace(Protocol):
    """Where memdir keeps its records and locks for a store: the folder `state`, inside or outside `root`."""

    root: Path
    state: Path

    def hold_lock(self, name: str, *, seconds: float = 0) -> AbstractContextManager[object]: ...


@runtime_checkable
class Folder(Workplace, Protocol):
    """A store whose memories are files below `root`, which other programs may change."""

    def scan(self) -> tuple[Header, ...]: ...
    def read(self, name: str) -> StoredMemory: ...
    def read_bytes(self, path: str) -> bytes | None: ...
    def find_index_file(self, *, write: bool = True) -> Path | None: ...
    def find_changed(
        self, marks: Mapping[str, Stat], read_known: Callable[[str], Mapping[str, int]]
    ) -> ChangedListing: ...
    def read_signatures(self, paths: Iterable[str]) -> dict[str, Stat]: ...
    def list_entries(self) -> tuple[DiskEntry, ...]:
        """Return all files that look like memories, with the reason for those that cannot be read."""
        ...


class HistoryKeeper(Protocol):
    """A store that checks its own history, and records edits made outside memdir."""

    def check_history(self) -> None:
        """Raise DiskError if a part of the history cannot be read or is missing, or a newer memdir has written it."""

    def check_saving(self) -> None:
        """Raise an error if a save would fail: do the same steps as a save, but change nothing."""

    def rebuild_history(self) -> bool:
        """Replace a damaged history with a new one made of its readable rows. Return whether it was damaged."""
        ...

    def read_digests(self) -> dict[str, str]:
        """Return the last recorded digest of every file, by path."""
        ...

    def note_outside(self, *, seconds: float | None = None) -> tuple[str, ...]:
        """Record edits made outside memdir and return the changed files. New files have no previous version."""
        ...

    def note_sources(self, sources: "Mapping[tuple[str, str], MemorySource]") -> None:
        """Record the age and author of content, by path and digest, before the change that writes it."""

    def move_recalls(self, name: str, target: "StoreReader", new: str) -> None:
        """Move the recall log of a memory to the store `target` under the name `new`. Errors are ignored."""


@dataclass(frozen=True, slots=True)
class StoreHead:
    """The state of a store of an organisation, and the size and limits of the organisation."""

    revision: int
    epoch: int
    items: int
    memories: int
    bytes: int
    all_memories: int
    all_bytes: int
    max_memories: int
    max_bytes: int


class Replicated(Protocol):
    """A store that clients copy. Its revision is the number of changes; content can be removed from its history."""

    def read_head(self) -> StoreHead: ...
    def read_page(self, prefix: str = "", *, after: str = "", limit: int = ...) -> list[tuple[Header, str]]:
        """Return headers and digests of the memories whose names begin with `prefix`, in the order of their names."""
        ...

    def read_changed(
        self, since: int, *, content: bool
    ) -> tuple[StoreHead, list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return the head, files written after a revision (path, digest, version, actor, time, content), and those
        deleted (path, version, actor, time)."""
        ...

    def find_people(self, changes: Iterable[int]) -> dict[int, str]:
        """Return a dict from change IDs to the name of the member or token that made each, or else its credential."""
        ...

    def redact(self, change: int, path: str) -> None:
        """Remove the content that a change wrote to a file from history, keeping its author, time and digests."""


class FolderWorkplace:
    """The workplace of a store without a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, root / STATE
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def hold_lock(self, name: str, *, seconds: float = 0) -> Iterator[None]:
        with hold_state(self, name, seconds):
            yield


@contextmanager
def hold_state(place: Workplace, name: str, seconds: float) -> Iterator[tuple[int, int]]:
    """Hold a lock in the state folder, and yield the open root and the open state folder.

    Raises LockedError if it is still taken after `seconds`.
    """
    with (
        open_root(place.root, create=True) as root,
        disk_errors(str(place.state)),
        open_state(root, place.root, place.state) as state,
        hold(state, name, seconds=seconds),
    ):
        yield root, state


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The ID of a change, or None if nothing changed. `repeated`: an earlier change has the same idempotency key."""

    change: int | None = None
    changes: tuple[FileChange, ...] = ()
    repeated: bool = False


class _HeldError(MemdirError):
    """A change needs review. Internal: never reaches callers."""

    def __init__(self, item: InboxItem) -> None:
        super().__init__(item.why)
        self.item = item


class StoreReader(ABC):
    """The methods that readers use, with defaults for a store without files. `team`: team memories are shown."""

    scope: Scope = Scope.PRIVATE
    rules: WriteRules = WriteRules()
    team: bool = True

    @abstractmethod
    def scan(self) -> tuple[Header, ...]: ...
    @abstractmethod
    def read(self, name: str) -> StoredMemory: ...
    @abstractmethod
    def index(self, folder: str = "") -> str: ...
    @property
    @abstractmethod
    def original(self) -> Store:
        """Return the store that the caller passed."""

    def read_bytes(self, path: str) -> bytes | None:
        return self.read(path.removesuffix(".md")).text.encode("utf-8", "replace")

    def read_many(self, names: Iterable[str]) -> dict[str, StoredMemory]:
        """Return a dict of these memories by name, without those that cannot be read."""
        memories = {}
        for name in names:
            with suppress(MemdirError):
                memories[name] = self.read(name)
        return memories

    def has_any(self) -> bool:
        return bool(self.scan())

    def may_hold(self, scope: Scope) -> bool:
        """Return whether this store can contain memories of this scope; team memories are in the project's store."""
        return self.scope is scope or (self.scope is Scope.PRIVATE and scope is Scope.TEAM)

    def locate(self, header: Header) -> str:
        """Return the path of a memory's file, relative if the store has no folder."""
        return header.file

    def find_place(self) -> tuple[Path | None, str]:
        """Return the state folder, if any, and this store's key in a session record."""
        return None, self.scope.value

    def list_signatures(self, marks: dict[str, Stat] | None = None) -> dict[str, Stat]:
        """Return the signature of every file; the signatures of folders are added to `marks`."""
        files = ((header.file, header.signature) for header in self.scan())
        return {file: (facts.inode, facts.size, facts.mtime_ns, facts.ctime_ns) for file, facts in files}

    def find_dates(self, memories: Sequence[StoredMemory]) -> "tuple[ChangeDate, ...]":
        """Return the known dates of each memory's content; empty without a history."""
        return ()

    def read_signers(self, names: Collection[str] = ()) -> "Mapping[str, Author]":
        """Return a dict from team memory names to the author of the last change, at least for `names`."""
        return {}

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        """Add rows to the recall log, without waiting for locks; errors are ignored.

        By default a store has no recall log.
        """
        return

    def recalls(self, name: str | None = None, *, limit: int = -1) -> tuple[Surfacing, ...]:
        """Return the recalls of one memory, or of all memories, newest first."""
        return ()

    def count_recalls(self) -> RecallCounts:
        """Return how often each memory was shown; empty if the log is unreadable."""
        return RecallCounts()


class WidenedStore(StoreReader):
    """Adds the reader methods to a store that has only the five methods of `Store`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.scope = getattr(store, "scope", Scope.PRIVATE)

    @property
    def original(self) -> Store:
        return self._store

    def scan(self) -> tuple[Header, ...]:
        return self._store.scan()

    def read(self, name: str) -> StoredMemory:
        return self._store.read(name)

    def index(self, folder: str = "") -> str:
        return "" if folder else self._store.index()

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        if isinstance(self._store, RecallLog):
            self._store.note_recalls(recalls)

    def may_hold(self, scope: Scope) -> bool:
        return not hasattr(self._store, "scope") or super().may_hold(scope)


def widen(store: "Store | StoreReader") -> StoreReader:
    """Return the store if it has all reader methods, otherwise a wrapper that adds them."""
    return store if isinstance(store, StoreReader) else WidenedStore(store)


class StoreBase(StoreReader, Inbox):
    """The operations that change a store, each as one change, and the store's inbox."""

    clock: Clock
    actor: str = ""  # the credential that acts, if the store has credentials
    actor_name: str = ""  # the name of the user or the token
    screen: Screen = staticmethod(lambda changes, verb, doubt: None)  # returns an item if the change needs approval

    @abstractmethod
    def _apply(self, verb: str, origin: Origin, planner: Planner, undoes: int | None, mark: str) -> ChangeResult:
        """Plan a change on the current state and apply it, unless a change with this idempotency key exists."""

    def close(self) -> None:
        """Close open files and connections; does nothing by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def original(self) -> Store:
        return self

    @abstractmethod
    def read_bytes(self, path: str) -> bytes | None: ...
    @abstractmethod
    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]: ...
    def index(self, folder: str = "") -> str:
        return decode(self.read_bytes(f"{folder}/{INDEX_FILE}" if folder else INDEX_FILE) or b"")

    def open_workplace(self, root: Path | None = None) -> Workplace:
        """Return the place of records and locks: `root` or the store's folder. Raises SettingsError without either."""
        if root is None:
            problem = f"a {type(self).__name__} has no folder of its own for records and locks"
            raise SettingsError(problem, key="state", hint="pass a folder as state=PATH")
        return FolderWorkplace(root)

    @abstractmethod
    def _reading_history(self) -> AbstractContextManager[ChangeLog]:
        """Open the history for reading; it is empty if there is none yet."""

    def _commit(
        self, verb: str, origin: Origin, planner: Planner, *, undoes: int | None = None, mark: str = ""
    ) -> ChangeResult:
        """Plan and make a change. All changes use this method. Raises ReviewError if the change needs review."""

        def screened(view: StoreView) -> list[FileChange]:
            changes = plan.check_changes(planner(view), self.rules)
            if (item := self.screen(changes, verb, plan.find_doubt(changes, self.rules))) is not None:
                raise _HeldError(item)
            if plan.needs_review(changes, origin, self.rules):
                raise _HeldError(self._make_review(changes, origin))
            return plan.drop_powers(changes, origin)

        try:
            return self._apply(verb, origin, screened, undoes, mark)
        except _HeldError as held:
            raise self._hold(held.item) from None

    def hold_for_review(self, changes: Sequence[FileChange], origin: Origin) -> ReviewError:
        """Put an agent's changes to team memories into the inbox, and return the error to raise."""
        return self._hold(self._make_review(changes, origin))

    def _make_review(self, changes: Sequence[FileChange], origin: Origin) -> InboxItem:
        names = ", ".join(planned.path.removesuffix(".md") for planned in changes if not planned.is_index)
        key = digest_of("".join(f"{file.path}\0{file.before!r}\0{file.after!r}\0" for file in changes).encode())
        why = "an agent wants to change what the team shares"
        edits = inbox.render_edits(plan.make_review_edits(changes))
        payload = {"edits": edits, **({"by": self.actor_name or origin.who} if self.actor else {})}
        by = replace(origin, who=self.actor or origin.who)
        return InboxItem(InboxKind.MEMORY, names, why, self.clock(), f"agent:{key}", names, by, payload)

    def _hold(self, item: InboxItem) -> ReviewError:
        """Put an item into the inbox, unless an agent's item was already decided, and return the error to raise."""
        (stored,) = self.inbox_add([item])
        if item.kind is InboxKind.PROPOSAL:
            return ReviewError(f"{item.why}; nothing was written", item=stored.id, hint="somebody else must approve it")
        if stored.state is InboxState.WAITING:
            number = stored.id
            what = f"it waits for the person's review as item {number} of the inbox: do not try again"
        else:
            what, number = f"the person has {stored.state.value} exactly this before", 0
        message = f"{item.name} is shared with the team, so nothing was written; {what}"
        hint = "the person decides with `memdir inbox`, or allows it with `memdir config set team_agents true`"
        return ReviewError(message, item=number, hint=hint)

    def changes(self, name: str | None = None, *, limit: int = -1, below: int | None = None) -> tuple[Change, ...]:
        """Return the changes of one memory, or of all, newest first; with `below`, only changes with a smaller ID."""
        path = None if name is None else f"{name}.md"
        with self._reading_history() as past:
            return past.read_changes(path=path, limit=limit, below=below)

    def count_changes(self) -> int:
        with self._reading_history() as past:
            return past.count_changes()

    def find_last_steps(self, names: Collection[str] | None = None) -> dict[str, Change]:
        """Return a dict from memory names to the last change of the memory's text; its `files` are empty.

        Forgotten memories are included. `names` limits the result to these memories.
        """
        with self._reading_history() as past:
            return past.find_last_steps(names)

    def find_dates(self, memories: Sequence[StoredMemory]) -> "tuple[ChangeDate, ...]":
        with self._reading_history() as past:
            return past.find_dates(memories)

    def find_last_change(self) -> Change | None:
        with self._reading_history() as past:
            return past.find_last()

    def read_change(self, change: int) -> Change:
        with self._reading_history() as past:
            return past.read_change(change)

    def read_content(self, digest: str) -> bytes:
        with self._reading_history() as past:
            return past.read_content(digest)

    def recalls(self, name: str | None = None, *, limit: int = -1) -> tuple[Surfacing, ...]:
        with self._reading_history() as past:
            return past.read_recalls(name, limit)

    def count_recalls(self) -> RecallCounts:
        with self._reading_history() as past:
            return past.count_recalls()

    def find_marked(self, mark: str) -> int | None:
        with self._reading_history() as past:
            return past.find_marked(mark)

    def has_mark(self, mark: str) -> bool:
        return self.find_marked(mark) is not None

    def write(self, draft: Draft, *, expect: str | None = None, origin: Origin = PERSON) -> StoredMemory:
        """Save a draft: a new memory or, with `expect`, a new version of an existing one."""
        result = self.change([Save(draft, expect)], verb="save" if expect is None else "edit", origin=origin)
        return self.read(result.names[0])

    def edit(self, name: str, text: str, *, expect: str, origin: Origin = PERSON) -> StoredMemory:
        self.change([Rewrite(name, text, expect)], verb="edit", origin=origin)
        return self.read(name)

    def pin(self, name: str, *, pinned: bool = True, origin: Origin = PERSON) -> StoredMemory:
        self.change([Pin(name, pinned)], verb="pin" if pinned else "unpin", origin=origin)
        return self.read(name)

    def delete(self, name: str, *, expect: str | None = None, origin: Origin = PERSON) -> None:
        self.change([Forget(name, expect)], verb="forget", origin=origin)

    def change(
        self,
        edits: Edits,
        *,
        verb: str,
        origin: Origin = PERSON,
        mark: str = "",
        drop_conflicts: bool = False,
        keep_pinned: bool = False,
    ) -> BatchResult:
        """Make many edits as one change, all or none; `undo` reverts them together.

        Each edit sees the result of earlier ones. If an edit is invalid, an error is raised and nothing is written. An
        edit of a memory that changed since it was read raises ConflictError or, with `drop_conflicts`, is skipped;
        `keep_pinned` skips edits of pinned memories. Edits in a tuple are skipped together. `mark` is an idempotency
        key: if a change with this key exists, nothing is written.
        """
        # Imported here: a recall changes nothing.
        from memdir.store.batch import PlannedBatch, plan_batch

        planned: list[PlannedBatch] = []

        def planner(view: StoreView) -> list[FileChange]:
            now = self.clock().astimezone()
            batch = plan_batch(view, edits, now, self.rules, drop_conflicts=drop_conflicts, keep_pinned=keep_pinned)
            planned.append(batch)
            return list(batch.changes)

        result = self.carry_out(planner, verb=verb, origin=origin, mark=mark)
        if result.repeated and result.change is not None:
            paths = [file.path for file in self.read_change(result.change).files]
            names = tuple(path.removesuffix(".md") for path in paths if not plan.is_index_path(path))
            return BatchResult(result.change, names, repeated=True)
        return BatchResult(result.change, planned[-1].names, planned[-1].dropped)

    def carry_out(self, planner: Planner, *, verb: str, origin: Origin = PERSON, mark: str = "") -> ChangeResult:
        """Apply the file changes that a planner returns for the current files, as one change."""
        return self._commit(verb, origin, planner, mark=mark)

    def undo(self, change: int | None = None, *, origin: Origin = PERSON) -> tuple[Change, tuple[FileChange, ...]]:
        """Undo the last change, or the change with this ID. An undo is itself a change and can be undone by its ID."""
        target = self.find_last_change() if change is None else self.read_change(change)
        if target is None:
            raise NotFoundError("no changes to undo in this directory")
        if target.undone_by is not None:
            hint = f"`memdir undo {target.undone_by}` brings it back"
            raise NotFoundError(f"change {target.id} was already undone", name=str(target.id), hint=hint)
        result = self._commit(
            "undo", origin, lambda view: plan.plan_undo(view, target, self.read_content), undoes=target.id
        )
        return target, result.changes

    def undo_files(self, change: int, names: Iterable[str], *, origin: Origin = PERSON) -> BatchResult:
        """Undo part of a change: restore these memories to their state before it, as one change.

        Raises ConflictError if a memory was changed after that change.
        """
        files = {file.path.removesuffix(".md"): file for file in self.read_change(change).files}
        edits: list[Edit] = []
        for name in names:
            if (file := files.get(name)) is None:
                raise NotFoundError(f"change {change} did not change {name}", name=name)
            if file.before is None:
                edits.append(Forget(name, file.after))
            else:
                text = decode(self.read_content(file.before))
                edits.append(Put(name, text) if file.after is None else Rewrite(name, text, file.after))
        return self.change(edits, verb="restore", origin=origin)

    def purge(self, name: str) -> int:
        """Delete a memory and every trace of it, also under former names; return the number of changes it was in."""
        check_name(name)
        return sum(map(self._purge_name, (name, *self.find_former(name))))

    def find_former(self, name: str) -> tuple[str, ...]:
        """Return the names a memory had before it was moved, except those now used by other memories."""
        # Imported here: only a purge needs the history's module.
        from memdir.store.history import find_moved_files

        known, left = {name}, [name]
        while left:
            moved = find_moved_files(self.changes(current := left.pop()), current)
            left += sorted(moved - known)
            known |= moved
        former = ((one, *one.rpartition("/")[::2]) for one in sorted(known - {name}))
        return tuple(
            one for one, folder, leaf in former if f"{leaf}.md" not in self.list_files(folder, alike=f"{leaf}.md")
        )

    def _forget_known(self, name: str) -> None:
        """Delete the file of a memory that will be purged. Raises NotFoundError if there is no trace of the memory."""
        try:
            self.delete(name)
        except NotFoundError:
            items = self.inbox(None)
            if not (self.changes(name) or self.recalls(name) or any(inbox.is_about(item, name) for item in items)):
                raise

    @abstractmethod
    def _purge_name(self, name: str) -> int:
        """Remove every trace of a memory under this name."""

    def restore(self, name: str, *, change: int | None = None, origin: Origin = PERSON) -> BatchResult:
        """Restore the version of a memory written by a change, by default the previous version."""
        changes = self.changes(name)

        def planner(view: StoreView) -> list[FileChange]:
            return plan.plan_version(view, name, changes, change, self.read_content, self.rules)

        return BatchResult(self.carry_out(planner, verb="restore", origin=origin).change, (name,))
