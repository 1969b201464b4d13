"""FileStore: Markdown files in one directory, written by one process at a time, each change completely or not at all.

Reads take no lock and never fail because of one bad file. A write takes the directory's lock, heals changes interrupted
by a killed process, plans on the current files, records the change, applies it, and returns when it is on the disk.
Several threads and processes can use a store at once. The derived index (`index.db`) caches each file's header and
stat signature, so an unchanged directory is listed without opening a memory. If deleted or damaged, it counts as empty.
"""

import errno
import json
import os
import sqlite3
import stat
import time
from _thread import RLock  # as in `threading`, which takes too long to import at every prompt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memdir import files as guard
from memdir.errors import ConflictError, DiskError, LockedError, MemdirError, NotFoundError, PathError
from memdir.files import is_plain_file
from memdir.format import frontmatter
from memdir.format.fields import FIELDS, FrontmatterFields, dump_fields, load_fields
from memdir.format.frontmatter import decode, digest_of, make_header, make_memory
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, replace
from memdir.limits import LOCK_SECONDS
from memdir.records import (
    TEAM_FOLDER,
    Change,
    Dialect,
    Header,
    Kind,
    Origin,
    RecallCounts,
    Scope,
    Signature,
    StoredMemory,
    Surfacing,
)
from memdir.store import history, inbox, plan
from memdir.store.contract import ChangeResult, Clock, StoreBase, StoreReader, Workplace, hold_state, utc_now
from memdir.store.history import History, MemorySource, create_file
from memdir.store.plan import FileChange, Finder, Planner, WriteRules, is_index_path, is_team
from memdir.store.state import INDEX

if TYPE_CHECKING:
    from memdir.store.state import Author

SYNC = "sync"  # the origin of teammates' changes, which come with their author
# How long a reader waits for the lock before it leaves recording outside edits, or creating a history, to others.
_NOTICE_SECONDS = 0.2
_TRIES = 5
_PROBE_BYTES = 65_536  # roughly the bytes that a save writes
_COLUMNS = "path, inode, size, mtime_ns, ctime_ns, title, description, kind, modified, dialect, problem, fields"
# The cache is rebuilt if columns or fields change. Increase the number if a column or field is read differently.
_VERSION = int(digest_of(f"6 {_COLUMNS} {' '.join(row.key for row in FIELDS)}".encode())[:7], 16)


class FileStore(StoreBase):
    """A store of Markdown files in a directory. `state` contains the lock, history and index, by default in `.memdir/`.

    `on_open` is called when a process opens the history to write. If `shared`, by default in a project's directory, other
    people read this store. If `team`,
    its team memories are shown in conversations. `find_author` returns the author to record for changes to team
    memories. If `review`, an agent's changes to team memories need review.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        state: Path | None = None,
        scope: Scope = Scope.PRIVATE,
        skip_index: bool = False,
        lock_seconds: float = LOCK_SECONDS,
        clock: Clock = utc_now,
        on_open: Callable[[], object] | None = None,
        find_secrets: Finder | None = None,
        shared: bool | None = None,
        team: bool = True,
        find_author: "Callable[[], Author] | None" = None,
        review: bool = True,
    ) -> None:
        self.root = guard.resolve_root(root)
        self.state = state or self.root / guard.STATE
        self.scope = scope
        is_shared = scope is Scope.PROJECT if shared is None else shared
        self.rules = WriteRules(scope, skip_index, find_secrets, is_shared, review and scope is not Scope.AGENT)
        self.clock = clock
        self.team = team
        self._lock_seconds = lock_seconds
        self._on_open = on_open
        self._find_author = find_author
        self._threads = RLock()
        self._history: History | None = None
        self._place: tuple[int, int] | None = None  # device and inode of the directory, once it was written to
        self._pid = 0

    def close(self) -> None:
        with self._threads:
            if self._history is not None and self._pid == os.getpid():
                self._history.close()
            self._history = None

    def __del__(self) -> None:
        if getattr(self, "_threads", None) is not None:
            self.close()

    # Reading the files

    def scan(self) -> tuple[Header, ...]:
        """Return the headers of all memories, newest first, using the cache for unchanged files."""
        self._heal_if_killed()
        with guard.open_existing(self.root) as root:
            if root is None:
                return ()
            signatures = {entry.path: entry.signature for entry in guard.walk(root) if not entry.refusal}
            index = self.find_index_file(write=False)
            cached = {} if index is None else _read_headers(index)
            fresh: dict[str, _CachedHeader] = {}
            for path, signature in signatures.items():
                if path in cached and cached[path].signature == signature:
                    continue
                if (head := guard.read_file_head(root, path)) is not None:
                    fresh[path] = _CachedHeader(signature, frontmatter.parse_fields(head.decode("utf-8", "replace")))
        gone = [path for path in cached if path not in signatures]
        if fresh or gone:
            self._keep_cache(fresh, gone)
        known = [(path, entry.fields) for path, entry in {**cached, **fresh}.items() if path in signatures]
        headers = [make_header(path[:-3], fields, signatures[path], self.scope) for path, fields in known]
        return tuple(sorted(headers, key=lambda header: (header.modified, header.name), reverse=True))

    def list_signatures(self, marks: dict[str, guard.Stat] | None = None) -> dict[str, guard.Stat]:
        with guard.open_existing(self.root) as root:
            return {} if root is None else guard.read_signatures(root, marks=marks)

    def find_changed(
        self, marks: Mapping[str, guard.Stat], read_known: Callable[[str], Mapping[str, int]]
    ) -> guard.ChangedListing:
        """Return the files added, removed or replaced since the folders had the signatures `marks`.

        `read_known` returns the paths and inodes of the files that were in a folder. A file overwritten in place is
        not noticed, because that does not change its folder.
        """
        signatures: dict[str, guard.Stat] = {}
        with guard.open_existing(self.root) as root:
            changed = [path for path, facts in marks.items() if root is None or guard.read_stat(root, path) != facts]
            known = {path: inode for folder in changed for path, inode in read_known(folder).items()}
            fresh = {folder: facts for folder, facts in marks.items() if folder not in changed}
            for folder in changed:
                if root is not None:
                    signatures |= guard.read_signatures(root, folder, fresh, known=known, passed=marks)
        gone = [path for path in known if path not in signatures]
        return guard.ChangedListing({path: facts for path, facts in signatures.items() if facts}, gone, fresh)

    def read_signatures(self, paths: Iterable[str]) -> dict[str, guard.Stat]:
        with guard.open_existing(self.root) as root:
            signatures = {} if root is None else {path: guard.read_stat(root, path) for path in paths}
        return {path: signature for path, signature in signatures.items() if signature}

    def find_index_file(self, *, write: bool = True) -> Path | None:
        """Return the path of the derived index. With `write`, creates its folder and returns None if that fails."""
        if os.path.islink(self.state):
            return None
        if write:
            with suppress(OSError, DiskError):
                guard.make_private_dirs(self.state)
            if not os.access(self.state, os.W_OK):
                return None
        return self.state / INDEX

    def has_any(self) -> bool:
        with guard.open_existing(self.root) as root:
            return root is not None and any(not entry.refusal for entry in guard.walk(root))

    def list_entries(self) -> tuple[guard.DiskEntry, ...]:
        with guard.open_existing(self.root) as root:
            return () if root is None else tuple(guard.walk(root))

    def read(self, name: str) -> StoredMemory:
        file = guard.read_below(self.root, f"{name}.md")
        if file is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        return make_memory(name, *file, self.scope)

    def read_many(self, names: Iterable[str]) -> dict[str, StoredMemory]:
        files = guard.read_several(self.root, [f"{name}.md" for name in names])
        return {path[:-3]: make_memory(path[:-3], *file, self.scope) for path, file in files.items()}

    def locate(self, header: Header) -> str:
        return os.path.join(self.root, header.file)

    def find_place(self) -> tuple[Path | None, str]:
        return self.state, str(self.root)

    def index(self, folder: str = "") -> str:
        """Return the text of the index file, or "" if it is missing or cannot be read."""
        try:
            file = guard.read_below(self.root, f"{folder}/{INDEX_FILE}" if folder else INDEX_FILE)
        except (PathError, DiskError):
            return ""
        return decode(file[0]) if file else ""

    def read_bytes(self, path: str) -> bytes | None:
        """Return the exact bytes of a file; `read` replaces invalid UTF-8."""
        return (guard.read_below(self.root, path) or (None,))[0]

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]:
        with guard.open_existing(self.root) as root:
            return [] if root is None else guard.list_files(root, folder)

    # Reading the history, the recall log and the inbox

    def has_mark(self, mark: str) -> bool:
        """Return whether a change with this idempotency key was made or has begun."""
        self._heal_if_killed()
        return super().has_mark(mark)

    def check_history(self) -> None:
        with self._reading_history() as past:
            past.check_version()
            past.check_tables()

    def check_saving(self) -> None:
        if not os.path.isfile(self.state / history.FILE):
            return  # memdir has not written here yet
        with (
            self._holding(seconds=min(self._lock_seconds, 1.0)) as (_, past),
            guard.open_root(self.state) as state,
            past.transaction(durable=True),
            guard.disk_errors(str(self.root)),
        ):
            if not os.access(self.root, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            guard.stage_file(state, "probe", bytes(_PROBE_BYTES))
            guard.remove_temps(state, "")

    def rebuild_history(self) -> bool:
        # Imported here: a history is rebuilt once in its life, if at all.
        from memdir.store.rebuild import rebuild_history

        with self._threads, hold_state(self, "lock", self._lock_seconds):
            try:
                self.check_history()
                return False
            except DiskError as error:
                if "rebuilds it" not in error.hint:
                    raise
            self.close()
            rebuild_history(self.state, self.clock())
        self.note_outside()
        return True

    def read_digests(self) -> dict[str, str]:
        with self._reading_history() as past:
            return {path: digest for path, (digest, _) in past.find_recorded().items()}

    def read_signers(self, names: Collection[str] = ()) -> "Mapping[str, Author]":
        # Imported here: only team memories are signed.
        from memdir.store.state import read_authors

        return read_authors(self.state)

    def count_recalls(self) -> RecallCounts:
        with suppress(DiskError):
            return super().count_recalls()
        return RecallCounts()

    # Writing

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        path = self.state / history.FILE
        with suppress(OSError, MemdirError):
            folder = self.state if os.path.exists(path) else self.root
            if not recalls or os.path.islink(path) or os.path.islink(self.state) or not os.access(folder, os.W_OK):
                return
            if os.path.exists(path) or self._make_history():
                with history.open_briefly(path, _NOTICE_SECONDS) as past:
                    past.add_recalls(recalls)

    def move_recalls(self, name: str, target: StoreReader, new: str) -> None:
        with suppress(OSError, MemdirError):
            if recalls := self.recalls(name):
                if target is not self:
                    target.note_recalls([replace(recall, name=new) for recall in reversed(recalls)])
                path = self.state / history.FILE
                with history.open_briefly(path, _NOTICE_SECONDS) as past:
                    past.move_recalls(name, new if target is self else None)

    def note_sources(self, sources: Mapping[tuple[str, str], MemorySource]) -> None:
        if sources:
            with self._holding() as (_, past):
                past.note_sources(sources)

    def note_outside(self, *, seconds: float | None = None) -> tuple[str, ...]:
        with self._holding(seconds=seconds) as (root, past):
            signatures = {entry.path: entry.signature for entry in guard.walk(root) if not entry.refusal}
            for path in (INDEX_FILE, f"{TEAM_FOLDER}/{INDEX_FILE}"):
                if (signature := guard.read_signature(root, path)) is not None:
                    signatures[path] = signature
            recorded = past.find_recorded()
            seen: list[tuple[str, bytes | None, Signature | None]] = []
            for path, signature in signatures.items():
                if path not in recorded or recorded[path][1] != signature:
                    with suppress(OSError, PathError):
                        if (read := guard.read_file(root, path)) is not None:
                            seen.append((path, *read))
            seen += [(path, None, None) for path in recorded if path not in signatures]
            return tuple(planned.path for planned in past.note_outside(seen, self.clock())) if seen else ()

    def _purge_name(self, name: str) -> int:
        # Imported here: a recall purges nothing.
        from memdir.store.state import PurgedMemory, purge_state

        self._forget_known(name)
        with self._holding() as (_, past):
            count = past.purge(name)
            # `relink` moves the history of a replaced directory into the state folder, which must be purged too.
            aside = [*self.state.glob("replaced-*"), *self.root.parent.glob(".memdir-replaced-*")]
            for path in [path for folder in aside for path in folder.rglob(history.FILE)]:
                try:
                    with closing(History(path)) as older:
                        count += older.purge(name)
                except DiskError:  # damaged, so that nothing shows what it contains
                    for ending in history.ENDINGS:
                        path.with_name(path.name + ending).unlink(missing_ok=True)
        purge_state(self.state, aside, PurgedMemory(name, self._lock_seconds))
        return count

    @contextmanager
    def hold_lock(self, name: str, *, seconds: float = 0) -> Iterator[None]:
        """Hold the lock `name`, independently of the write lock; raises LockedError if it is taken after `seconds`."""
        with hold_state(self, name, seconds):
            yield

    def open_workplace(self, root: Path | None = None) -> Workplace:
        return self if root is None else super().open_workplace(root)

    def _apply(self, verb: str, origin: Origin, planner: Planner, undoes: int | None, mark: str) -> ChangeResult:
        for _ in range(_TRIES - 1):
            try:
                return self._commit_once(verb, origin, planner, undoes, mark)
            except ConflictError as error:
                if error.found != "":  # an empty one comes from `apply`: another process was quicker by milliseconds
                    raise
        return self._commit_once(verb, origin, planner, undoes, mark)

    def _commit_once(self, verb: str, origin: Origin, planner: Planner, undoes: int | None, mark: str) -> ChangeResult:
        self._check_place()
        with self._holding() as (root, past):
            self._place = guard.read_inode(root)
            if mark and (change := past.find_marked(mark)) is not None:
                return ChangeResult(change, repeated=True)
            view = _DiskView(root)
            changes = planner(view)
            if not changes:
                return ChangeResult()
            signatures = {planned.path: view.find_seen(planned.path) for planned in changes}
            change = past.begin(verb, origin, self.clock(), changes, seen=signatures, undoes=undoes, mark=mark)
            try:
                written = apply(root, changes, signatures)
            except ConflictError:
                past.abandon(change)
                raise
            except MemdirError:
                # If files have changed, healing decides at the next open; the first error is the one to raise.
                with suppress(MemdirError):
                    heal(root, past)
                raise
            # The files and the record are on the disk; if this fails, healing finishes the change at the next open.
            with suppress(DiskError, LockedError):
                past.finish(change, written)
            if self._find_author is not None and origin.who != SYNC:
                self._sign([file for file in changes if is_team(file.path) and not file.is_index], self._find_author)
            return ChangeResult(change, tuple(changes))

    def _sign(self, changes: list[FileChange], find_author: "Callable[[], Author]") -> None:
        """Record the author of changes to team memories. If this fails, the next sync reads it from the commits."""
        if not changes:
            return
        # Imported here: only writes to team memories are signed.
        from memdir.store.state import read_authors, write_authors

        names = {planned.path.removesuffix(".md"): planned.after is not None for planned in changes}
        with suppress(MemdirError):  # the change itself is done
            author = replace(find_author(), when=self.clock())
            known = {name: signer for name, signer in read_authors(self.state).items() if name not in names}
            write_authors(self.state, known | {name: author for name, is_there in names.items() if is_there})

    # The lock, the history and the derived index

    @contextmanager
    def _holding(self, *, seconds: float | None = None) -> Iterator[tuple[int, History]]:
        wait = self._lock_seconds if seconds is None else seconds
        deadline = time.monotonic() + wait
        with self._threads, hold_state(self, "lock", wait) as (root, state):
            past = self._history if self._pid == os.getpid() else None
            if past is not None and not past.is_in_place:
                # It was deleted, moved or replaced, so changes written to the open file would be lost.
                past.close()
                past = None
                from memdir.store.state import note_problem  # most processes never see this

                text = "history.db was deleted, moved or replaced while in use; memdir now uses the current file"
                note_problem(self.state, "store", text, self.clock())
            if past is None:
                guard.check_target(state, history.FILE, history.FILE)
                past = self._history = History(self.state / history.FILE, busy_seconds=wait)
                self._pid = os.getpid()
                if self._on_open is not None:
                    self._on_open()
            past.wait_at_most(max(deadline - time.monotonic(), 0.05))
            heal(root, past)
            yield root, past

    def _check_place(self) -> None:
        """Raise DiskError if the directory was moved, deleted or replaced since this store last changed it; once, because
        the user may want a new one."""
        if (known := self._place) is None:
            return
        self._place = None
        with guard.open_existing(self.root) as root:
            if root is None or guard.read_inode(root) != known:
                hint = "move it back, or repeat to begin a new one there; `memdir relink` finds the memory of a moved project"
                message = "the memory directory was moved, deleted or replaced, so nothing was saved"
                raise DiskError(message, path=str(self.root), hint=hint)

    def _heal_if_killed(self) -> None:
        """Heal an interrupted change before reading, if the lock file names a process that no longer holds the lock."""
        with suppress(OSError, MemdirError):
            if os.stat(self.state / "lock").st_size > 0:
                with self._holding(seconds=0):
                    pass

    def _make_history(self) -> bool:
        if not self._threads.acquire(timeout=_NOTICE_SECONDS):
            return False
        try:
            with self._holding(seconds=_NOTICE_SECONDS):
                return True
        finally:
            self._threads.release()

    @contextmanager
    def _reading_history(self) -> Iterator[History]:
        """Yield the history for reading; it is empty if there is none yet. Works in read-only directories."""
        with self._threads:
            if self._history is not None and self._pid == os.getpid() and self._history.is_in_place:
                yield self._history
                return
            path = self.state / history.FILE
            is_there = os.path.isfile(path) and not os.path.islink(path) and not os.path.islink(self.state)
            wait = self._lock_seconds
            with closing(
                History(path, readonly=True, busy_seconds=wait) if is_there else History(Path(history.IN_MEMORY))
            ) as past:
                yield past

    @contextmanager
    def _using_inbox(self, *, write: bool) -> Iterator[inbox.SqliteInbox]:
        if not write:
            with self._reading_history() as past, past.reading() as db:
                yield inbox.SqliteInbox(db)
            return
        with self._holding() as (_, past), past.transaction(durable=True) as db:
            yield inbox.SqliteInbox(db)

    def _keep_cache(self, fresh: "dict[str, _CachedHeader]", gone: list[str]) -> None:
        """Record edits made outside memdir if there is a history, then update the cache."""
        if os.path.isfile(self.state / history.FILE):
            try:
                self.note_outside(seconds=_NOTICE_SECONDS)
            except (LockedError, DiskError, PathError):
                return
        if (path := self.find_index_file()) is not None:
            _write_headers(path, fresh, gone)


class _DiskView:
    """The files of a directory while its lock is held. Records the signature of each file it reads."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[str, Signature | None] = {}
        self._listed: dict[str, list[str]] = {}

    def read_bytes(self, path: str) -> bytes | None:
        with guard.disk_errors(path):
            data, self._seen[path] = guard.read_file(self._root, path) or (None, None)
        return data

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]:
        if folder not in self._listed:
            self._listed[folder] = guard.list_files(self._root, folder)
        return self._listed[folder]

    def find_seen(self, path: str) -> Signature | None:
        return self._seen[path] if path in self._seen else guard.read_signature(self._root, path)


def apply(
    root: int, changes: Sequence[FileChange], seen: dict[str, Signature | None]
) -> list[tuple[FileChange, Signature | None]]:
    """Write planned changes to disk durably. If it raises, nothing has changed.

    `seen` contains the signatures of the files when they were read; a file that has changed since then is a conflict.
    All new bytes are staged and flushed first, so a full disk is noticed before anything visible happens. Then files
    are deleted, then memory files are renamed to their targets, then indexes. If a killed change still has deletions
    to do, only deletions have happened, which `heal` reverts; otherwise it completes the writes. It never deletes a
    memory file.
    """
    staged: dict[str, str] = {}
    try:
        for planned in changes:
            if planned.after is not None:
                staged[planned.path] = guard.stage_file(root, planned.path, planned.after)
        for planned in changes:
            if guard.read_signature(root, planned.path) != seen.get(planned.path):
                name = planned.path.removesuffix(".md")
                raise ConflictError(f"{name} changed while it was being written", hint="try again", found="")
    except MemdirError:
        for folder in {_folder(path) for path in staged}:
            guard.remove_temps(root, folder)
        raise
    written: list[tuple[FileChange, Signature | None]] = []
    for planned in sorted(changes, key=lambda planned: 2 if planned.is_index else planned.after is not None):
        temp = staged.get(planned.path)
        written.append((planned, guard.move_staged(root, temp, planned.path) if temp else None))
        if temp is None:
            guard.remove_file(root, planned.path)
    for folder in sorted({_folder(planned.path) for planned in changes}):
        guard.flush_folder(root, folder)
    return written


def heal(root: int, past: History) -> int:
    """Complete or revert every interrupted change, and return their number."""
    pending = past.find_pending()
    for change in pending:
        for folder in {_folder(file.path) for file in change.files}:
            guard.remove_temps(root, folder)
        changes = _plan_healing(root, past, change)
        written = apply(root, changes, {planned.path: guard.read_signature(root, planned.path) for planned in changes})
        topics = [file for file in change.files if not is_index_path(file.path)] or list(change.files)
        if any(_digest(_read(root, file.path)) == file.after for file in topics):
            for path in {file.path for file in change.files} - {planned.path for planned, _ in written}:
                data, signature = guard.read_file(root, path) or (None, None)
                written.append((FileChange(path, None, data), signature))
            past.finish(change.id, written)
        else:
            past.abandon(change.id)
    return len(pending)


def _plan_healing(root: int, past: History, change: Change) -> list[FileChange]:
    """Return the file changes that complete an interrupted change, or revert it if it still has deletions to do."""
    files = [(file, current, _digest(current)) for file in change.files for current in [_read(root, file.path)]]
    if not any(digest == file.after != file.before for file, _, digest in files):
        return []
    topics = [(file, digest) for file, _, digest in files if not is_index_path(file.path)]
    if any(file.after is None and digest == file.before for file, digest in topics):
        gone = [file for file, digest in topics if file.after is None and digest is None]
        lost = [(file.path, _read_version(past, file.before)) for file in gone]
        return [FileChange(path, None, data) for path, data in lost if data is not None]
    planned = []
    for file, current, digest in files:
        if is_index_path(file.path):
            after = plan.redo_index(file, current)
        else:
            after = _read_version(past, file.after) if file.after and digest == file.before else current
            after = current if after is None else after
        if after != current:
            planned.append(FileChange(file.path, current, after))
    return planned


def _read_version(past: History, digest: str | None) -> bytes | None:
    """Return the bytes of a version, or None if they are missing or damaged."""
    try:
        return past.read_content(digest or "")
    except (DiskError, NotFoundError):
        return None


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _read(root: int, path: str) -> bytes | None:
    return (guard.read_file(root, path) or (None,))[0]


def _digest(data: bytes | None) -> str | None:
    return digest_of(data) if data is not None else None


def open_index(path: Path, seconds: float) -> sqlite3.Connection:
    """Open the derived index, creating or migrating it if necessary. Raises sqlite3.Error or OSError."""
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        facts = None
    if os.path.islink(path.parent) or (facts and (not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1)):
        raise sqlite3.OperationalError("the index is a link")  # to another database, which would be emptied
    create_file(path)
    db = sqlite3.connect(path, timeout=seconds, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA synchronous = OFF")
        if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("BEGIN IMMEDIATE")
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                db.execute(f"DROP TABLE {name}")
            db.execute(f"CREATE TABLE headers ({_COLUMNS}, PRIMARY KEY (path)) WITHOUT ROWID")
            db.execute(f"PRAGMA user_version = {_VERSION}")
            db.execute("COMMIT")
    except sqlite3.Error:
        db.close()
        raise
    return db


def read_index(path: Path, seconds: float) -> sqlite3.Connection:
    """Open the derived index for reading. Raises sqlite3.Error if it is missing. Never blocks on a FIFO."""
    if not is_plain_file(path):
        raise sqlite3.OperationalError("there is no index")
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=seconds)


def drop_index(path: Path) -> None:
    """Remove the derived index; the next scan creates it again."""
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _CachedHeader:
    signature: Signature
    fields: FrontmatterFields


def _read_headers(path: Path) -> dict[str, _CachedHeader]:
    try:
        with closing(read_index(path, 1.0)) as db:
            if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                return {}
            return {row[0]: _make_cached(row) for row in db.execute(f"SELECT {_COLUMNS} FROM headers")}
    except (sqlite3.Error, ValueError, TypeError):
        return {}


def _write_headers(path: Path, fresh: Mapping[str, _CachedHeader], gone: Iterable[str]) -> None:
    """Update the cached headers. Does nothing if the cache is not writable."""
    try:
        with closing(open_index(path, 1.0)) as db, db:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("DELETE FROM headers WHERE path = ?", [(path,) for path in gone])
            insert = f"INSERT OR REPLACE INTO headers VALUES ({', '.join('?' * len(_COLUMNS.split()))})"
            db.executemany(insert, [_make_row(*item) for item in fresh.items()])
    except (sqlite3.OperationalError, OSError):
        pass
    except sqlite3.DatabaseError:
        with suppress(OSError):
            drop_index(path)


def _make_row(path: str, cached: _CachedHeader) -> tuple[object, ...]:
    signature, fields = cached.signature, cached.fields
    # Inode numbers of some file systems do not fit SQLite's signed integers; as text they do.
    facts = (str(signature.inode), signature.size, signature.mtime_ns, signature.ctime_ns)
    texts = (fields.title, fields.description, fields.kind, fields.modified, fields.dialect, fields.problem)
    return path, *facts, *texts, json.dumps(optional) if (optional := dump_fields(fields)) else ""


def _make_cached(row: tuple[object, ...]) -> _CachedHeader:
    title, description, kind, modified, dialect, problem, own = row[5:]
    optional = load_fields(json.loads(str(own))) if own else {}
    optional |= {
        "modified": str(modified),
        "dialect": Dialect(str(dialect)) if dialect else None,
        "problem": str(problem),
    }
    fields = FrontmatterFields(str(title), str(description), Kind(str(kind)) if kind else None, **optional)
    return _CachedHeader(Signature(*(int(str(number)) for number in row[1:5])), fields)
