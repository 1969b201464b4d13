"""FileStore: Markdown files in one directory, written by one holder at a time, each change whole or not at all.

Reads take no lock and never fail for one bad file. A write takes the directory's lock, heals what a killed writer left,
plans on the files as they are, records the act, applies it, and answers only when it is on the disk. Safe to use from
several threads and processes at once.
"""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from memdir import disk, frontmatter, guard, session
from memdir.errors import ConflictError, DiskError, LockedError, MemdirError, NotFoundError, PathError
from memdir.frozen import replace
from memdir.index import INDEX_FILE
from memdir.limits import LOCK_SECONDS
from memdir.records import Act, Header, Memory, Origin, Scope, Signature
from memdir.store import headers, history
from memdir.store.acts import find_moved
from memdir.store.apply import apply
from memdir.store.contract import Clock, Done, Verbs, make_header, make_memory, utc_now
from memdir.store.held import NOTICE_SECONDS, STATE_FOLDER, DiskView, try_to_heal
from memdir.store.kept import KeptDirectory
from memdir.store.plan import Finder, Planned, Planner, Rules, decode
from memdir.store.shared import is_team

if TYPE_CHECKING:
    from memdir.authors import Author

SYNC = "sync"  # who brings what others wrote, and says by whom
_TRIES = 5
# The records of background runs (runs) and of hooks (events): their errors may speak a memory's name.
_DIARIES = ("runs.jsonl", "problems.jsonl")


class FileStore(KeptDirectory, Verbs):
    """`state` holds history and cache, `.memdir/` inside by default; `cache` is for a directory that is read-only.

    `shared` says that others will read all of it, `team` whether what a team shares in it is told in conversations;
    `find_author` says who signs what is written into that.
    """

    def __init__(
        self,
        root: Path,
        *,
        state: Path | None = None,
        cache: Path | None = None,
        scope: Scope = Scope.PRIVATE,
        skip_index: bool = False,
        lock_seconds: float = LOCK_SECONDS,
        clock: Clock = utc_now,
        on_open: Callable[[], None] | None = None,
        find_secrets: Finder | None = None,
        shared: bool = False,
        team: bool = True,
        find_author: "Callable[[], Author] | None" = None,
    ) -> None:
        super().__init__(root, state or root / STATE_FOLDER, lock_seconds=lock_seconds, on_open=on_open)
        self.cache = cache
        self.scope = scope
        self.rules = Rules(scope, skip_index, find_secrets, shared)
        self.clock = clock
        self.team = team
        self._find_author = find_author

    # --- reading ----------------------------------------------------------------------------------------------------

    def scan(self) -> tuple[Header, ...]:
        """Every memory's header, newest first; from the cache where the file has not changed."""
        self._heal_if_killed()
        try:
            root = guard.open_root(self.root)
        except NotFoundError:
            return ()
        try:
            found = {at.path: at.signature for at in disk.walk(root) if not at.refusal}
            cached = headers.read_headers(self._cache_file())
            fresh = self._read_fresh(root, found, cached)
        finally:
            os.close(root)
        gone = [path for path in cached if path not in found]
        if fresh or gone:
            self._keep_cache(fresh, gone)
        known = {**cached, **fresh}
        made = [
            make_header(path[:-3], known[path].fields, at, self.scope) for path, at in found.items() if path in known
        ]
        return tuple(sorted(made, key=lambda header: (header.modified, header.name), reverse=True))

    def signatures(self, marks: dict[str, int] | None = None) -> dict[str, disk.Stat]:
        """Every memory file with its stat signature: the cheapest way to see that nothing has changed.

        `marks` is given the folders that were looked into, each with the time of its last change.
        """
        try:
            root = guard.open_root(self.root)
        except NotFoundError:
            return {}
        try:
            return disk.read_signatures(root, marks=marks)
        finally:
            os.close(root)

    def find_index_file(self) -> Path | None:
        """Where the derived index lies, its folder made; None where nothing can be written."""
        try:
            return self._cache_file(write=True)
        except (OSError, DiskError):
            return None

    def has_any(self) -> bool:
        """Whether there is a memory at all; looks no further than the first."""
        try:
            root = guard.open_root(self.root)
        except NotFoundError:
            return False
        try:
            return any(not found.refusal for found in disk.walk(root))
        finally:
            os.close(root)

    def look(self) -> tuple[disk.Found, ...]:
        """Everything in the directory that looks like a memory, with what may not be read and why."""
        try:
            root = guard.open_root(self.root)
        except NotFoundError:
            return ()
        try:
            return tuple(disk.walk(root))
        finally:
            os.close(root)

    def read(self, name: str) -> Memory:
        found = self._read_file(f"{name}.md")
        if found is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        return make_memory(name, *found, self.scope)

    def index(self, folder: str = "") -> str:
        """The index as it stands in the file; empty if there is none or it may not be read."""
        try:
            found = self._read_file(f"{folder}/{INDEX_FILE}" if folder else INDEX_FILE)
        except (PathError, DiskError):
            return ""
        return decode(found[0]) if found else ""

    def read_bytes(self, path: str) -> bytes | None:
        """The exact bytes of a file; `read` decodes them forgivingly."""
        found = self._read_file(path)
        return found[0] if found else None

    def list_files(self, folder: str) -> list[str]:
        try:
            root = guard.open_root(self.root)
        except NotFoundError:
            return []
        try:
            return disk.list_files(root, folder)
        finally:
            os.close(root)

    def count_acts(self) -> int:
        with self._reading_history() as past:
            return past.count_acts() if past else 0

    def acts(self, name: str | None = None, *, limit: int = -1) -> tuple[Act, ...]:
        with self._reading_history() as past:
            return past.read_acts(path=None if name is None else f"{name}.md", limit=limit) if past else ()

    def find_last_act(self) -> Act | None:
        with self._reading_history() as past:
            return past.find_last() if past else None

    def read_act(self, act: int) -> Act:
        with self._reading_history() as past:
            if past is None:
                raise NotFoundError(f"no act {act} in this history", name=str(act))
            return past.read_act(act)

    def read_content(self, digest: str) -> bytes:
        with self._reading_history() as past:
            if past is None:
                raise NotFoundError("this directory has no history", name=digest[:12])
            return past.read_content(digest)

    def has_mark(self, mark: str) -> bool:
        """Whether an act with this mark has happened, a killed one that had begun included."""
        self._heal_if_killed()
        with self._reading_history() as past:
            return past is not None and past.find_marked(mark) is not None

    # --- writing ----------------------------------------------------------------------------------------------------

    def notice(self, *, seconds: float | None = None) -> tuple[str, ...]:
        """Record what somebody else changed; answers the files. A file never seen before becomes its own baseline."""
        with self._holding(seconds=seconds) as (root, past):
            found = {at.path: at.signature for at in disk.walk(root) if not at.refusal}
            for path in [INDEX_FILE, *(f"{at}/{INDEX_FILE}" for at in ("team",))]:
                if (signature := disk.read_signature(root, path)) is not None:
                    found[path] = signature
            recorded = past.find_recorded()
            seen = []
            for path, signature in found.items():
                if path not in recorded or recorded[path][1] != signature:
                    seen += self._read_seen(root, path)
            seen += [(path, None, None) for path in recorded if path not in found]
            return tuple(at.path for at in past.note_outside(seen, self.clock())) if seen else ()

    def purge(self, name: str) -> int:
        """Forget a memory and take every trace of it out, under former names too; answers in how many acts it was."""
        guard.check_name(name)
        former = self.find_former(name)
        return self._purge_name(name) + sum(map(self._purge_name, former))

    def find_former(self, name: str) -> tuple[str, ...]:
        """The names a memory had before it was moved, as far as nothing has them now."""
        known, left = {name}, [name]
        while left:
            moved = find_moved(self.acts(found := left.pop()), found)
            left += sorted(moved - known)
            known |= moved
        return tuple(at for at in sorted(known - {name}) if not os.path.lexists(self.root / f"{at}.md"))

    def _purge_name(self, name: str) -> int:
        # Imported here: a recall purges nothing, and has no time for it.
        from memdir import authors, kept_chats, kept_dreams, kept_team

        sessions, texts = self._find_said(name)
        lines = self._find_pointer_lines(name)
        try:
            self.delete(name)
        except NotFoundError:
            if not self.acts(name) and not self.recalls(name) and not self.has_items(name):
                raise
        with self._holding() as (_, past):
            count = past.purge(f"{name}.md", lines)
            # `relink` lays the history of a replaced directory into the state folder: purging means those too.
            aside = [*self.state.glob("replaced-*"), *self.root.parent.glob(".memdir-replaced-*")]
            for path in [path for folder in aside for path in folder.rglob(history.FILE)]:
                with closing(history.History(path)) as older:
                    count += older.purge(f"{name}.md", lines)
        for folder in [self.state, *(path.parent for old in aside for path in old.rglob(session.FOLDER))]:
            session.drop_name(folder, name, seconds=self._lock_seconds)
        for folder in [self.state, *(path.parent for old in aside for path in old.rglob(kept_dreams.FOLDER))]:
            kept_dreams.drop_sets(folder)
        for folder in [self.state, *(path.parent for old in aside for path in old.rglob(kept_chats.FOLDER))]:
            kept_chats.drop_chats(folder, ids=sessions, name=name, texts=texts)
        for folder in [self.state, *(path.parent for old in aside for path in old.rglob(authors.FILE))]:
            authors.drop_author(folder, name)
        for folder in [self.state, *(path.parent for old in aside for path in old.rglob(kept_team.POINT))]:
            kept_team.drop_name(folder, name)
        for folder in [self.state, *aside]:
            for path in [path for leaf in _DIARIES for path in folder.glob(f"**/{leaf}")]:
                path.unlink(missing_ok=True)
        self._drop_cache()
        return count

    def _act(self, verb: str, origin: Origin, planner: Planner, *, undoes: int | None = None, mark: str = "") -> Done:
        for attempt in range(_TRIES):
            try:
                with self._holding() as (root, past):
                    if mark and (found := past.find_marked(mark)) is not None:
                        return Done(found, repeated=True)
                    return self._act_once(root, past, verb, origin, planner, undoes, mark)
            except ConflictError as error:
                # An empty `found` is the answer of `apply`: somebody outside was quicker by milliseconds.
                if error.found != "" or attempt == _TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def _act_once(
        self,
        root: int,
        past: history.History,
        verb: str,
        origin: Origin,
        planner: Planner,
        undoes: int | None,
        mark: str,
    ) -> Done:
        view = DiskView(root)
        changes = planner(view)
        if not changes:
            return Done()
        seen = {planned.path: view.find_seen(planned.path) for planned in changes}
        act = past.begin(verb, origin, self.clock(), changes, undoes=undoes, mark=mark)
        try:
            written = apply(root, changes, seen)
        except ConflictError:
            past.abandon(act)
            raise
        except MemdirError:
            # Nothing visible has happened, or healing decides at the next open; the first error is the one to tell.
            try_to_heal(root, past)
            raise
        try:
            past.finish(act, written)
        except DiskError:
            # The files and the record are on the disk; only the mark is missing, and healing makes it at the next open.
            pass
        if self._find_author is not None and origin.who != SYNC:
            self._sign([at for at in changes if is_team(at.path) and not at.is_index], self._find_author)
        return Done(act, tuple(changes))

    def _sign(self, changes: list[Planned], find_author: "Callable[[], Author]") -> None:
        """Note who changed what the team shares: best effort, the next sync knows it from the commits."""
        if not changes:
            return
        # Imported here: only writes to what a team shares are signed.
        from memdir import authors

        names = {planned.path.removesuffix(".md"): planned.after is not None for planned in changes}
        try:
            author = replace(find_author(), when=self.clock())
            known = {name: at for name, at in authors.read_authors(self.state).items() if name not in names}
            authors.write_authors(self.state, known | {name: author for name, is_there in names.items() if is_there})
        except MemdirError:
            pass  # the act itself is done

    # --- inside -----------------------------------------------------------------------------------------------------

    def _read_file(self, path: str) -> tuple[bytes, Signature] | None:
        try:
            root = guard.open_root(self.root)
        except NotFoundError:
            return None
        try:
            guard.check_path(path)
            with guard.disk_errors(path):
                return disk.read_file(root, path)
        finally:
            os.close(root)

    def _read_fresh(
        self, root: int, found: dict[str, Signature], cached: dict[str, headers.Cached]
    ) -> dict[str, headers.Cached]:
        """Headers of the files that are new or changed, from their first lines only."""
        fresh: dict[str, headers.Cached] = {}
        for path, signature in found.items():
            known = cached.get(path)
            if known is None or known.signature != signature:
                head = disk.read_head(root, path)
                if head is not None:
                    fields = frontmatter.parse_fields(head.decode("utf-8", "replace"))
                    fresh[path] = headers.Cached(signature, fields)
        return fresh

    def _read_seen(self, root: int, path: str) -> list[tuple[str, bytes | None, Signature | None]]:
        try:
            found = disk.read_file(root, path)
        except (OSError, PathError):
            return []
        return [(path, found[0], found[1])] if found else []

    def _keep_cache(self, fresh: dict[str, headers.Cached], gone: list[str]) -> None:
        """Renew the cache; if files with a history changed, let history see them first."""
        if (self.state / history.FILE).is_file():
            try:
                self.notice(seconds=NOTICE_SECONDS)
            except (LockedError, DiskError, PathError):
                return
        if (path := self.find_index_file()) is not None:
            headers.write_headers(path, fresh, gone)

    def _cache_file(self, *, write: bool = False) -> Path:
        return headers.find_place(self.root, self.state, self.cache, write=write)

    def _drop_cache(self) -> None:
        for folder in (self.state, self.cache):
            if folder is not None:
                headers.drop_index(folder / headers.FILE)

    def _find_said(self, name: str) -> tuple[set[str], list[str]]:
        """The conversations that a memory was learned in or told to, and all it ever said, for purging."""
        acts, file = self.acts(name), f"{name}.md"
        sessions = {act.origin.session for act in acts} | {row.session for row in self.recalls(name)}
        changes = [change for act in acts for change in act.changes if change.path == file and not change.splice]
        data = [self.read_content(at) for change in changes for at in (change.before, change.after) if at is not None]
        try:
            data.append(self.read_bytes(file) or b"")
        except MemdirError:
            pass  # what may not be read was never told either
        found = [make_memory(name, at, Signature(0, 0, 0, 0), self.scope) for at in data]
        return sessions, [text for at in found for text in (at.header.title, at.header.description, at.body)]

    def _find_pointer_lines(self, name: str) -> list[bytes]:
        """How index lines that point to a memory look, for purging: any spelling of the link's end."""
        leaf = name.rpartition("/")[2]
        return [f"{leaf}.md)".encode(), f"{leaf}.md]".encode()]
