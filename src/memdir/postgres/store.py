"""PostgresStore: the store of an organisation in PostgreSQL, with the same plans and rules as FileStore.

A plan reads the files it needs by their keys. The change is then sent in one round trip: it locks the store's row,
takes the next revision, and replaces each file only if it still has the digest that the plan saw; otherwise the
database does nothing and the plan is made again. Each change gets a key before it begins. If the response to its commit
is lost, the retry finds the change by that key, so that it happens only once.

MEMORY.md is not stored. Each file's row has its index line and rank, and other lines of an index are rows of `prose`.
The cost of saving, reading or deleting a memory does not grow with the store; only reading a whole index does.
"""

import base64
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from psycopg import errors

from memdir.errors import BudgetError, ConflictError, MemdirError, NotFoundError
from memdir.files import check_name
from memdir.format.fields import FrontmatterFields
from memdir.format.frontmatter import decode, digest_of, encode, make_header, make_memory, parse_fields
from memdir.format.index import find_splice, render_line
from memdir.frozen import dataclass, replace
from memdir.limits import HEADER_BYTES, LEDGER_QUERY_CHARS, LEDGER_ROWS
from memdir.postgres.database import PostgresDatabase, Row, clean_text, execute, split_index
from memdir.postgres.history import OF_STORE, Ask, PostgresHistory, PostgresInbox
from memdir.postgres.search import drop_documents
from memdir.records import Header, Origin, Scope, Signature, StoredMemory, Surfacing
from memdir.store import inbox
from memdir.store.contract import ChangeResult, Clock, Screen, StoreBase, StoreHead, utc_now
from memdir.store.files import SYNC
from memdir.store.history import find_leading, make_link_ends
from memdir.store.plan import FileChange, Finder, Planner, WriteRules, index_path, is_index_path, list_folder
from memdir.store.state import Author, make_author
from memdir.text import fold

if TYPE_CHECKING:
    import psycopg

_RECALL_TYPES = {"at": "timestamptz", "score": "float"}
_TRIES = 20  # attempts to plan a change while others change the same files
_PAGE = 1_000  # files that are read at once


@dataclass(frozen=True, slots=True)
class StoreTable:
    """The rows of one store in the shared database."""

    database: PostgresDatabase
    tenant: UUID
    store: UUID

    def read(self, *statements: str, **values: object) -> list[list[Row]]:
        return self.database.read(self.tenant, *statements, store=self.store, **values)

    def write(self, *statements: str, **values: object) -> list[list[Row]]:
        return self.database.write(self.tenant, *statements, store=self.store, **values)


_HEAD = """
    SELECT s.revision, s.epoch, s.items, s.memories, s.bytes,
        (SELECT sum(o.memories) FROM memdir.stores o WHERE o.tenant = %(tenant)s)::bigint,
        (SELECT sum(o.bytes) FROM memdir.stores o WHERE o.tenant = %(tenant)s)::bigint, t.max_memories, t.max_bytes
    FROM memdir.stores s JOIN memdir.tenants t ON t.tenant = s.tenant
    WHERE s.tenant = %(tenant)s AND s.store = %(store)s
"""
_LOCK = f"{_HEAD} FOR NO KEY UPDATE OF s"
_FILE = "f.path, f.digest, f.size, f.change, f.mtime_ns, f.line, f.rank"
_WITH_DATA = """
    FROM memdir.files f JOIN memdir.contents c ON c.tenant = f.tenant AND c.store = f.store AND c.digest = f.digest
    WHERE f.tenant = %(tenant)s AND f.store = %(store)s
"""
# Files by name, in whatever case it is written.
_READ = f"SELECT {_FILE}, c.data {_WITH_DATA} AND f.folded = ANY(%(folded)s)"
_PAGED = f"""
    SELECT {_FILE}, substring(c.data FROM 1 FOR {HEADER_BYTES}) {_WITH_DATA}
        AND f.path > %(after)s AND f.path < %(before)s ORDER BY f.path LIMIT %(limit)s
"""
_LINES = (
    f"SELECT revision FROM memdir.stores WHERE {OF_STORE}",
    f"SELECT path, line, rank FROM memdir.files WHERE {OF_STORE}",
    f"SELECT path, line, rank FROM memdir.prose WHERE {OF_STORE}",
)
# A change: the next revision, its record, its contents, and the files, each of which must still have the digest that the
# plan saw. A failed condition divides by zero, which rolls back the whole transaction.
_OR_FAIL = "1 / (CASE WHEN count(*) = %({})s THEN 1 ELSE 0 END)"
_HAS_ROOM = """
    AND EXISTS (SELECT 1 FROM memdir.tenants t WHERE t.tenant = %(tenant)s
        AND t.max_memories >= %(memories)s + (SELECT sum(o.memories) FROM memdir.stores o WHERE o.tenant = %(tenant)s)
        AND t.max_bytes >= %(bytes)s + (SELECT sum(o.bytes) FROM memdir.stores o WHERE o.tenant = %(tenant)s))
"""
_CHANGE = f"""
    WITH head AS (
        UPDATE memdir.stores s SET revision = s.revision + 1, memories = s.memories + %(memories)s,
            bytes = s.bytes + %(bytes)s
        WHERE s.tenant = %(tenant)s AND s.store = %(store)s {{conditions}} RETURNING s.tenant, s.store, s.revision
    ), change AS (
        INSERT INTO memdir.changes (tenant, store, change, key, at, verb, who, why, session, actor, undoes, mark)
        SELECT h.tenant, h.store, h.revision, %(key)s, %(at)s, %(verb)s, %(who)s, %(why)s, %(session)s, %(actor)s,
            %(undoes)s::bigint, %(mark)s FROM head h
    ), changed AS (
        INSERT INTO memdir.changed_files
            (tenant, store, change, seq, path, before, after, splice_at, removed, inserted)
        SELECT h.tenant, h.store, h.revision, v.* FROM head h CROSS JOIN unnest(%(all_seq)s::int[], %(all_path)s::text[],
            %(all_before)s::text[], %(all_after)s::text[], %(all_offset)s::int[], %(all_removed)s::bytea[], %(all_inserted)s::bytea[]) AS v
    ), content AS (
        INSERT INTO memdir.contents (tenant, store, digest, data)
        SELECT h.tenant, h.store, v.* FROM head h CROSS JOIN unnest(%(digests)s::text[], %(contents)s::bytea[]) AS v
        ON CONFLICT (tenant, store, digest) DO UPDATE SET data = excluded.data, redacted = NULL
            WHERE memdir.contents.data IS NULL
    ), queued AS (
        INSERT INTO memdir.queue (tenant, store, revision) SELECT h.tenant, h.store, h.revision FROM head h
        ON CONFLICT (tenant, store) DO UPDATE SET revision = excluded.revision
    )
    SELECT max(h.revision), {_OR_FAIL.format("one")} FROM head h
"""
_OF_CHANGE = "FROM memdir.stores s CROSS JOIN unnest({}) AS v({}) WHERE s.tenant = %(tenant)s AND s.store = %(store)s"
_PUT = (
    """
    WITH done AS ({}) SELECT """
    + _OR_FAIL.format("{}")
    + " FROM done"
)
_ADD_FILES = _PUT.format(
    "INSERT INTO memdir.files (tenant, store, path, folded, digest, size, change, mtime_ns, line, rank)"
    " SELECT s.tenant, s.store, v.path, v.folded, v.digest, v.size, s.revision, %(mtime_ns)s, v.line,"
    " coalesce(v.rank, s.revision + v.seq / 1e6) "
    + _OF_CHANGE.format(
        "%(add_path)s::text[], %(add_folded)s::text[], %(add_after)s::text[], %(add_size)s::int[],"
        " %(add_line)s::text[], %(add_rank)s::float[], %(add_seq)s::int[]",
        "path, folded, digest, size, line, rank, seq",
    )
    + " ON CONFLICT DO NOTHING RETURNING 1",
    "added",
)
_SET_FILES = _PUT.format(
    "UPDATE memdir.files f SET digest = v.digest, size = v.size, change = s.revision, mtime_ns = %(mtime_ns)s, line = v.line "
    + _OF_CHANGE.format(
        "%(set_path)s::text[], %(set_before)s::text[], %(set_after)s::text[], %(set_size)s::int[],"
        " %(set_line)s::text[]",
        "path, before, digest, size, line",
    )
    + " AND f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = v.path AND f.digest = v.before RETURNING 1",
    "set",
)
_DROP_FILES = _PUT.format(
    "DELETE FROM memdir.files f USING unnest(%(drop_path)s::text[], %(drop_before)s::text[]) AS v(path, before)"
    " WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = v.path AND f.digest = v.before RETURNING 1",
    "dropped",
)
# The lines of an index that was written as a whole.
_SET_LINES = (
    "UPDATE memdir.files f SET line = v.line, rank = v.rank FROM unnest(%(line_paths)s::text[], %(lines)s::text[],"
    " %(ranks)s::float[]) AS v(path, line, rank) WHERE f.tenant = %(tenant)s AND f.store = %(store)s AND f.path = v.path",
    f"DELETE FROM memdir.prose WHERE {OF_STORE} AND path = ANY(%(index_paths)s)",
    "INSERT INTO memdir.prose (tenant, store, path, rank, line) SELECT s.tenant, s.store, v.path, v.rank, v.line "
    + _OF_CHANGE.format("%(prose_paths)s::text[], %(prose_ranks)s::float[], %(prose)s::text[]", "path, rank, line"),
)


@dataclass(frozen=True, slots=True)
class FileRow:
    path: str
    digest: str
    size: int
    change: int
    mtime_ns: int
    line: str
    rank: float
    data: bytes | None  # None if its content was redacted

    @property
    def signature(self) -> Signature:
        return Signature(self.change, self.size, self.mtime_ns, self.mtime_ns)


class PostgresStore(StoreBase):
    """A store of a tenant. `actor` is recorded as the author of its changes; `strict` is for private text that leaves
    the user's machine."""

    def __init__(
        self,
        database: PostgresDatabase,
        tenant: UUID,
        store: UUID,
        *,
        scope: Scope = Scope.PRIVATE,
        skip_index: bool = False,
        clock: Clock = utc_now,
        find_secrets: Finder | None = None,
        shared: bool = False,
        strict: bool = False,
        review: bool = True,
        actor: str = "",
        actor_name: str = "",
        screen: Screen | None = None,
    ) -> None:
        self._table = StoreTable(database, tenant, store)
        self.scope, self.clock, self.actor, self.actor_name = scope, clock, actor, actor_name
        self.rules = WriteRules(scope, skip_index, find_secrets, shared, review, strict, renders_index=True)
        self.screen = screen or self.screen
        self._history = PostgresHistory(self._table.read)
        self._held: dict[str, StoredMemory] = {}
        self._keys: dict[str, object] = {"tenant": tenant, "store": store}

    # Reading

    def scan(self) -> tuple[Header, ...]:
        headers, after = list[Header](), ""
        while page := self.read_page(after=after):
            headers += [header for header, _ in page]
            after = headers[-1].name
        return tuple(sorted(headers, key=lambda header: (header.modified, header.name), reverse=True))

    def read_page(self, prefix: str = "", *, after: str = "", limit: int = _PAGE) -> list[tuple[Header, str]]:
        values = {"after": f"{after}.md" if after > prefix else prefix, "before": f"{prefix}\U0010ffff"}
        head, rows = self._table.read(_HEAD, _PAGED, **values, limit=limit)
        self._make_head(head)
        files = [FileRow(*row) for row in rows]
        fields = [(file.path.removesuffix(".md"), _parse_head(file.data or b""), file.signature) for file in files]
        return [(make_header(*parts, self.scope), file.digest) for parts, file in zip(fields, files, strict=True)]

    def read(self, name: str) -> StoredMemory:
        check_name(name)
        if (memory := self._held.get(name) or self.read_many([name]).get(name)) is None:
            raise NotFoundError(f"no memory named {name}", name=name)
        return memory

    def read_many(self, names: Iterable[str]) -> dict[str, StoredMemory]:
        wanted = {f"{name}.md": name for name in names}
        known = {name: self._held[name] for name in wanted.values() if name in self._held}
        paths = [path for path, name in wanted.items() if name not in known]
        rows = self._table.read(_READ, folded=list(map(fold, paths)))[0] if paths else []
        files = {row[0]: FileRow(*row) for row in rows}
        return known | {
            wanted[path]: make_memory(wanted[path], file.data, file.signature, self.scope)
            for path, file in files.items()
            if path in wanted and file.data is not None
        }

    @contextmanager
    def _hold_memories(self) -> Iterator[dict[str, StoredMemory]]:
        """Yield a dict of memories that `read` returns without a query, for a search that reads memories twice."""
        try:
            yield self._held
        finally:
            self._held.clear()

    def has_any(self) -> bool:
        return bool(self.read_page(limit=1))

    def read_bytes(self, path: str) -> bytes | None:
        return _StoreView(self._table.read).read_bytes(path)

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]:
        return _StoreView(self._table.read).list_files(folder, alike=alike, most=most)

    def read_changed(self, since: int, *, content: bool) -> tuple[StoreHead, list[Row], list[Row]]:
        of_change = "h.tenant = f.tenant AND h.store = f.store AND h.change = f.change"
        mine = "f.tenant = %(tenant)s AND f.store = %(store)s"
        written = f"""
            SELECT f.path, f.digest, f.change, h.actor, h.at, {"b.data" if content else "NULL"} FROM memdir.files f
            JOIN memdir.changes h ON {of_change}
            LEFT JOIN memdir.contents b ON b.tenant = f.tenant AND b.store = f.store AND b.digest = f.digest
            WHERE {mine} AND f.change > %(since)s ORDER BY f.path
        """
        deleted = f"""
            SELECT DISTINCT ON (f.path) f.path, f.change, h.actor, h.at FROM memdir.changed_files f
            JOIN memdir.changes h ON {of_change}
            WHERE {mine} AND f.change > %(since)s AND f.after IS NULL AND NOT EXISTS (SELECT 1 FROM memdir.files n
                WHERE n.tenant = f.tenant AND n.store = f.store AND n.path = f.path)
            ORDER BY f.path, f.change DESC
        """
        last = f"SELECT change, actor, at FROM memdir.changes WHERE {OF_STORE} ORDER BY change DESC LIMIT 1"
        rows, files, gone, lasts, *lines = self._table.read(_HEAD, written, deleted, last, *_LINES, since=since)
        head = self._make_head(rows)
        if head.revision > since and lasts:  # any change may have changed an index
            for path, data in _render_indexes(*lines[1:]).items():
                files.append((path, digest_of(data), *lasts[0], data if content else None))
        return head, sorted(files), [row for row in gone if not is_index_path(row[0])]

    def read_content(self, digest: str) -> bytes:
        try:
            return super().read_content(digest)
        except NotFoundError:
            indexes = _render_indexes(*self._table.read(*_LINES)[1:]).values()
            if (data := next((index for index in indexes if digest_of(index) == digest), None)) is None:
                raise
            return data

    def read_head(self) -> StoreHead:
        (rows,) = self._table.read(_HEAD)
        return self._make_head(rows)

    def find_people(self, changes: Iterable[int]) -> dict[int, str]:
        return self._history.find_people(changes)

    def read_signers(self, names: Collection[str] = ()) -> Mapping[str, Author]:
        if self.scope is not Scope.TEAM:
            return {}
        steps = self._history.find_last_steps(names)
        people = self.find_people(step.id for step in steps.values())
        return {name: make_author(people[step.id], "", step.at) for name, step in steps.items() if step.id in people}

    # Writing

    def note_recalls(self, recalls: Sequence[Surfacing]) -> None:
        if not recalls:
            return
        start, texts = time.time_ns(), ("name", "session", "selector")
        columns: dict[str, list[object]] = {
            "id": [f"{start + number:016x}{random.getrandbits(32):08x}" for number in range(len(recalls))],
            "query": [clean_text(recall.query[:LEDGER_QUERY_CHARS]) for recall in recalls],
            "moment": [recall.moment.value for recall in recalls],
            **{key: [clean_text(getattr(recall, key)) for recall in recalls] for key in texts},
            **{key: [getattr(recall, key) for recall in recalls] for key in ("at", "score")},
        }
        rows = ", ".join(f"%({key})s::{_RECALL_TYPES.get(key, 'text')}[]" for key in columns)
        # This does not wait for the disk: a crash may lose the newest rows of the recall log.
        statements = [
            "SELECT set_config('synchronous_commit', 'off', true)",
            f"INSERT INTO memdir.recalls (tenant, store, {', '.join(columns)}) SELECT %(tenant)s, %(store)s, v.*"
            f" FROM unnest({rows}) AS v",
        ]
        if random.random() < len(recalls) / 100:  # occasionally remove the oldest rows
            select = f"SELECT id FROM memdir.recalls WHERE {OF_STORE} ORDER BY id DESC OFFSET {LEDGER_ROWS} LIMIT 1"
            statements.append(f"DELETE FROM memdir.recalls WHERE {OF_STORE} AND id <= ({select})")
        self._table.write(*statements, **columns)

    def redact(self, change: int, path: str) -> None:
        file = next((entry for entry in self.read_change(change).files if entry.path == path), None)
        if file is None or file.after is None or is_index_path(path):
            raise NotFoundError(f"change {change} did not write {path}", name=path)
        (rows,) = self._table.read(
            f"SELECT path FROM memdir.files WHERE {OF_STORE} AND digest = %(digest)s", digest=file.after
        )
        if rows:
            hint = "change or forget it first; current content cannot be redacted"
            raise ConflictError(f"{rows[0][0]} still has this content", found=file.after, hint=hint)
        lines = f"UPDATE memdir.changed_files SET removed = NULL, inserted = NULL WHERE {OF_STORE}"
        self._table.write(
            f"UPDATE memdir.contents SET data = NULL, redacted = now() WHERE {OF_STORE} AND digest = %(digest)s",
            # The memory's index line describes it.
            f"{lines} AND removed IS NOT NULL AND change IN (SELECT change FROM memdir.changed_files WHERE {OF_STORE}"
            " AND path = %(path)s AND (before = %(digest)s OR after = %(digest)s))",
            digest=file.after,
            path=path,
        )
        with self._locking() as ask:  # the indexer may not have come to the newer content yet
            stale = f"SELECT path FROM memdir.search WHERE {OF_STORE} AND digest = %(digest)s"
            _, paths = ask(
                f"SELECT 1 FROM memdir.searched WHERE {OF_STORE} FOR NO KEY UPDATE", stale, digest=file.after
            )
            drop_documents(ask, [row[0] for row in paths])

    def _apply(self, verb: str, origin: Origin, planner: Planner, undoes: int | None, mark: str) -> ChangeResult:
        words = {"who": origin.who, "why": origin.why, "session": origin.session, "actor": self.actor, "verb": verb}
        values = {name: clean_text(text) for name, text in {**words, "mark": mark}.items()}
        change = {**self._keys, **values, "key": uuid4(), "undoes": undoes}
        database = self._table.database
        result = database.run(lambda db, is_first: self._commit_once(db, is_first, change, planner))
        if result.changes:
            database.notify()
        return result

    def _commit_once(
        self, db: "psycopg.Connection[Row]", is_first: bool, change: Mapping[str, object], planner: Planner
    ) -> ChangeResult:
        ask = partial(self._table.database.ask_on, db, **self._keys)  # the pool may have no second connection
        for _ in range(_TRIES):
            if (done := self._find_earlier(ask, is_first, change)) is not None:
                return done
            view = _StoreView(ask)
            try:
                changes = planner(view)
            except MemdirError:
                # The response to the first attempt was lost, and it may have been committed after we looked for it.
                if not is_first and (done := self._find_earlier(ask, is_first, change)) is not None:
                    return done
                raise
            if not changes:
                self._make_head(ask(_HEAD)[0])
                return ChangeResult()
            try:
                return self._write(db, change, view, changes)
            except errors.DivisionByZero:  # others changed a file, or the store is full or missing
                _check_quota(self._make_head(ask(_HEAD)[0]), *_measure(changes))
            except errors.UniqueViolation as error:
                if error.diag.constraint_name in ("changes_key", "changes_mark"):
                    is_first = False
        raise ConflictError("others keep changing these files", hint="try again", found="")

    def _find_earlier(self, ask: Ask, is_first: bool, change: Mapping[str, object]) -> ChangeResult | None:
        """Return the result of an earlier attempt whose response was lost, or of a change with this idempotency key."""
        known = f"SELECT min(change) FROM memdir.changes WHERE {OF_STORE}"
        if not is_first and (number := ask(f"{known} AND key = %(key)s", key=change["key"])[0][0][0]) is not None:
            past, changes = PostgresHistory(ask), list[FileChange]()
            for file in past.read_change(number).files:
                if not is_index_path(file.path):
                    sides = [
                        None if digest is None else past.read_content(digest) for digest in (file.before, file.after)
                    ]
                    changes.append(FileChange(file.path, *sides))
            return ChangeResult(number, tuple(changes))
        if change["mark"] and (number := ask(f"{known} AND mark = %(mark)s", mark=change["mark"])[0][0][0]) is not None:
            return ChangeResult(number, repeated=True)
        return None

    def _write(
        self,
        db: "psycopg.Connection[Row]",
        change: Mapping[str, object],
        view: "_StoreView",
        changes: Sequence[FileChange],
    ) -> ChangeResult:
        """Record, apply and commit changes in one round trip."""
        now = self.clock()
        grown, size = _measure(changes)
        values = {
            **change,
            "at": now,
            "memories": grown,
            "bytes": size,
            "mtime_ns": int(now.timestamp() * 1e9),
            "one": 1,
        }
        view.load(planned.path for planned in changes if planned.before is not None)
        rows = [self._make_row(seq, planned, view, change) for seq, planned in enumerate(changes)]
        values |= _list_columns(rows, "seq path before after offset removed inserted", "all")
        files = [row for row in rows if not is_index_path(row.path)]
        contents = {row.after: row.data for row in files if row.after is not None}
        values |= {"digests": list(contents), "contents": list(contents.values())}
        added = [row for row in files if row.before is None]
        changed = [row for row in files if row.before is not None and row.after is not None]
        dropped = [row for row in files if row.after is None]
        values |= {"added": len(added), "set": len(changed), "dropped": len(dropped)}
        values |= _list_columns(added, "path folded after size line rank seq", "add")
        values |= _list_columns(changed, "path before after size line", "set")
        values |= _list_columns(dropped, "path before", "drop")
        kinds = (added, _ADD_FILES), (changed, _SET_FILES), (dropped, _DROP_FILES)
        statements = [statement for some, statement in kinds if some]
        conditions = _HAS_ROOM if grown > 0 or size > 0 else ""
        if indexes := [planned for planned in changes if planned.is_index]:
            conditions += " AND s.revision = %(since)s"  # the plan depends on all index lines
            values |= _split_lines(indexes, view, files) | {"since": view.revision}
            statements += _SET_LINES
        text = _CHANGE.format(conditions=conditions)
        number = self._table.database.ask_on(db, text, *statements, **values)[0][0][0]
        return ChangeResult(number, tuple(changes))

    def _make_row(
        self, seq: int, planned: FileChange, view: "_StoreView", change: Mapping[str, object]
    ) -> "_ChangedRow":
        before, after = (None if data is None else digest_of(data) for data in (planned.before, planned.after))
        if planned.is_index:
            splice = find_splice(planned.before or b"", planned.after or b"")
            return _ChangedRow(seq, planned.path, before, after, planned.after, *splice)
        row = _ChangedRow(seq, planned.path, before, after, planned.after)
        existing = None if planned.before is None else view.find(planned.path)
        old, new = (self._render_line(planned.path, data) for data in (planned.before, planned.after))
        if planned.after is None:
            # The deletion keeps the line and its rank, so that undoing it restores them.
            kept = (encode(existing.line), str(existing.rank).encode()) if existing is not None else (None, None)
            return replace(row, removed=kept[0], inserted=kept[1])
        is_synced = change["who"] == SYNC  # a synced folder sends its index itself
        if existing is not None:
            return replace(row, line=new if existing.line == old and not is_synced else existing.line)
        if is_synced:
            return row
        if change["undoes"] is not None or change["verb"] == "restore":
            line, rank = view.find_deleted(planned.path, after) or (new, None)
            return replace(row, line=line, rank=rank)
        return replace(row, line=new)

    def _render_line(self, path: str, data: bytes | None) -> str:
        """Return the index line made from a memory's fields, or "" if the file needs none."""
        if data is None or self.rules.skip_index or not path.endswith(".md"):
            return ""
        fields, short = parse_fields(decode(data)), index_path(path.removesuffix(".md"))[1]
        return clean_text(render_line(fields.title or short, short, fields.description))

    def _make_head(self, rows: list[Row]) -> StoreHead:
        if not rows:
            raise NotFoundError(
                "this store does not exist", name=str(self._table.store), hint="GET /v1/stores lists them"
            )
        return StoreHead(*rows[0])

    @contextmanager
    def _reading_history(self) -> Iterator[PostgresHistory]:
        yield self._history

    @contextmanager
    def _using_inbox(self, *, write: bool) -> Iterator[PostgresInbox]:
        if not write:
            yield PostgresInbox(self._table.read)
            return
        with self._locking() as ask:
            yield PostgresInbox(ask)

    @contextmanager
    def _locking(self) -> Iterator[Ask]:
        """Lock the row of the store, and yield a function that runs statements in the same transaction."""
        with self._table.database.transaction(self._table.tenant) as db:
            self._make_head(execute(db, _LOCK, **self._keys)[0])
            yield partial(execute, db, **self._keys)

    def _purge_name(self, name: str) -> int:
        self._forget_known(name)
        path, lines = f"{name}.md", make_link_ends(name)
        with self._locking() as ask_store:
            ask = partial(ask_store, path=path, name=name)
            select = f"SELECT change, before, after FROM memdir.changed_files WHERE {OF_STORE} AND path = %(path)s"
            mine, splices, recalls, prose = ask(
                select,
                f"SELECT change, seq, removed, inserted FROM memdir.changed_files WHERE {OF_STORE}"
                " AND splice_at IS NOT NULL",
                f"SELECT DISTINCT name, query FROM memdir.recalls WHERE {OF_STORE}",
                f"SELECT path, rank, line FROM memdir.prose WHERE {OF_STORE}",
            )
            changes = sorted({row[0] for row in mine})
            (marks,) = ask(
                f"SELECT DISTINCT mark FROM memdir.changes WHERE {OF_STORE} AND mark <> '' AND change = ANY(%(changes)s)",
                changes=changes,
            )
            inbox.drop_rows(PostgresInbox(ask), name, {mark for (mark,) in marks})
            known = {query for recalled, query in recalls if recalled == name}
            queries = find_leading([query for recalled, query in recalls if recalled != name], name, known)
            used = f"SELECT 1 FROM memdir.changed_files WHERE {OF_STORE} AND c.digest IN (before, after)"
            ask(
                f"DELETE FROM memdir.changed_files WHERE {OF_STORE} AND path = %(path)s",
                f"DELETE FROM memdir.contents c WHERE {OF_STORE} AND digest = ANY(%(digests)s) AND NOT EXISTS ({used})",
                f"UPDATE memdir.changes SET why = '' WHERE {OF_STORE} AND change = ANY(%(changes)s)",
                f"DELETE FROM memdir.recalls WHERE {OF_STORE} AND name = %(name)s",
                f"UPDATE memdir.recalls SET query = '' WHERE {OF_STORE} AND query = ANY(%(queries)s)",
                # A new epoch tells clients to fetch everything, because the deletion is no longer recorded.
                f"UPDATE memdir.stores SET epoch = epoch + 1 WHERE {OF_STORE}",
                digests=[digest for _, *both in mine for digest in both if digest],
                changes=changes,
                queries=queries,
            )
            drop_documents(ask, [path])
            # Refusals and purges in the audit log name the memory by its path or by the ID that is made from it.
            id = base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")
            words = [name, f"path={name}", f"memory=mem_{id}"]
            ask(
                "UPDATE memdir.audit SET target = '' WHERE tenant = %(tenant)s"
                " AND string_to_array(target, ' ') && %(words)s::text[]",
                f"DELETE FROM memdir.aliases WHERE {OF_STORE} AND path = %(name)s",
                "DELETE FROM memdir.idempotency WHERE tenant = %(tenant)s AND strpos(answer, %(name)s) > 0",
                words=words,
            )
            redact = f"UPDATE memdir.changed_files SET removed = NULL, inserted = NULL WHERE {OF_STORE}"
            for change, seq, *texts in splices:
                if any(line in (text or b"") for line in lines for text in texts):
                    ask(f"{redact} AND change = %(change)s AND seq = %(seq)s", change=change, seq=seq)
            drop = f"DELETE FROM memdir.prose WHERE {OF_STORE} AND path = %(index)s AND rank = %(rank)s"
            for index, rank, text in prose:
                if any(line in encode(text) for line in lines):
                    ask(drop, index=index, rank=rank)
        return len(changes)


class _StoreView:
    """The files of a store for a plan, which reads each file at most once, by its name."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._rows: dict[str, FileRow | None] = {}
        self._lines: tuple[list[Row], list[Row]] | None = None
        self.revision = 0  # the store's revision when the index was read

    def read_bytes(self, path: str) -> bytes | None:
        if is_index_path(path):
            return _render_indexes(*self.read_lines()).get(path)
        row = self.find(path)
        return None if row is None else row.data

    def find(self, path: str) -> FileRow | None:
        row = self._find_folded(path)
        return row if row is not None and row.path == path else None

    def load(self, paths: Iterable[str]) -> None:
        """Read several files with one query and keep them."""
        if keys := [key for key in map(fold, paths) if key not in self._rows]:
            found = (FileRow(*row) for row in self._ask(_READ, folded=keys)[0])
            self._rows |= dict.fromkeys(keys) | {fold(row.path): row for row in found}

    def _find_folded(self, path: str) -> FileRow | None:
        self.load([path])
        return self._rows[fold(path)]

    def read_lines(self) -> tuple[list[Row], list[Row]]:
        """Return (path, line, rank) for index lines of memories, and for other index lines, with the index's path."""
        if self._lines is None:
            head, *lines = self._ask(*_LINES)
            self.revision = head[0][0] if head else 0
            self._lines = lines[0], lines[1]
        return self._lines

    def find_deleted(self, path: str, digest: str | None) -> tuple[str, float] | None:
        """Return the index line and rank of a file when this version of it was deleted, or None."""
        where = "path = %(path)s AND before = %(digest)s AND after IS NULL AND removed IS NOT NULL"
        select = f"SELECT removed, inserted FROM memdir.changed_files WHERE {OF_STORE} AND {where}"
        (rows,) = self._ask(f"{select} ORDER BY change DESC LIMIT 1", path=path, digest=digest)
        return (decode(bytes(rows[0][0])), float(rows[0][1])) if rows else None

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        if alike and not is_index_path(alike):
            row = self._find_folded(f"{prefix}{alike}")
            return [] if row is None else list_folder([row.path], row.path.rpartition("/")[0])
        inside = "path >= %(prefix)s AND path < %(end)s AND strpos(substr(path, %(start)s::int), '/') = 0"
        select = f"SELECT path FROM memdir.files WHERE {OF_STORE} AND {inside} ORDER BY path LIMIT %(most)s::bigint"
        (rows,) = self._ask(select, prefix=prefix, end=f"{prefix}\U0010ffff", start=len(prefix) + 1, most=most)
        names = [path for (path,) in rows]
        if most is None:
            names += [path for path in _render_indexes(*self.read_lines()) if path.rpartition("/")[0] == folder]
        return list_folder(names, folder)


@dataclass(frozen=True, slots=True)
class _ChangedRow:
    """The database values of one file in a change. Without a `rank`, a new line is added at the end of the index."""

    seq: int
    path: str
    before: str | None
    after: str | None
    data: bytes | None
    offset: int | None = None
    removed: bytes | None = None
    inserted: bytes | None = None
    line: str = ""
    rank: float | None = None

    @property
    def folded(self) -> str:
        return fold(self.path)

    @property
    def size(self) -> int:
        return len(self.data or b"")


def _list_columns(rows: Sequence[_ChangedRow], names: str, prefix: str) -> dict[str, object]:
    return {f"{prefix}_{name}": [getattr(row, name) for row in rows] for name in names.split()}


def _render_indexes(files: Iterable[Row], prose: Iterable[Row]) -> dict[str, bytes]:
    """Return the text of every index by path, from rows of (path, line, rank)."""
    lines: dict[str, list[tuple[float, str, str]]] = {}
    for path, line, rank in files:
        if line:
            lines.setdefault(index_path(path.removesuffix(".md"))[0], []).append((rank, path, line))
    for path, line, rank in prose:
        lines.setdefault(path, []).append((rank, "", line))
    return {path: encode("".join(f"{row[2]}\n" for row in sorted(rows))) for path, rows in lines.items()}


def _split_lines(indexes: Iterable[FileChange], view: _StoreView, files: Sequence[_ChangedRow]) -> dict[str, object]:
    """Return query values with the lines and ranks of all memories in these indexes, and of the prose lines."""
    gone = {row.path for row in files if row.after is None}
    paths = sorted({*(row[0] for row in view.read_lines()[0]), *(row.path for row in files)} - gone)
    found: dict[str, tuple[str, float]] = {}
    prose: list[tuple[str, float, str]] = []
    for planned in indexes:
        own = [path for path in paths if index_path(path.removesuffix(".md"))[0] == planned.path]
        lines, rest = split_index(planned.path, decode(planned.after or b""), own)
        found |= {path: lines.get(path, ("", 0.0)) for path in own}
        prose += [(planned.path, rank, line) for rank, line in rest]
    values: dict[str, object] = {"index_paths": [planned.path for planned in indexes], "line_paths": list(found)}
    values |= {"lines": [line for line, _ in found.values()], "ranks": [rank for _, rank in found.values()]}
    for key, number in (("prose_paths", 0), ("prose_ranks", 1), ("prose", 2)):
        values[key] = [row[number] for row in prose]
    return values


@lru_cache(maxsize=20_000)  # most headers have not changed when a store is listed again
def _parse_head(data: bytes) -> FrontmatterFields:
    return parse_fields(data.decode("utf-8", "replace"))


def _measure(changes: Iterable[FileChange]) -> tuple[int, int]:
    """Return how many memories and bytes these changes add."""
    files = [file for file in changes if not file.is_index]
    grown = sum((file.after is not None) - (file.before is not None) for file in files)
    return grown, sum(len(file.after or b"") - len(file.before or b"") for file in files)


def _check_quota(head: StoreHead, grown: int, size: int) -> None:
    for more, have, most, what in (
        (grown, head.all_memories, head.max_memories, "memories"),
        (size, head.all_bytes, head.max_bytes, "bytes"),
    ):
        if more > 0 and have + more > most:
            hint = "forget old memories, or ask the server's administrator for more"
            raise BudgetError(f"this organisation has {have:,} of at most {most:,} {what}", hint=hint)
