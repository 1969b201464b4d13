"""The history and the inbox of one store in PostgreSQL, and how long they are kept.

`ask` runs statements for this store and its tenant.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from uuid import UUID

from memdir.errors import NotFoundError
from memdir.postgres.database import PostgresDatabase, Row, clean_text
from memdir.records import Change, ChangedFile, InboxItem, Moment, Origin, RecallCounts, StoredMemory, Surfacing
from memdir.store import inbox
from memdir.store.history import OUTSIDE, SAME_WORDS, SHOWN_MOMENTS, ChangeDate, find_undone
from memdir.store.plan import is_index_path

Ask = Callable[..., list[list[Row]]]
_PAGE = 50
OF_STORE = "tenant = %(tenant)s AND store = %(store)s"


def _render_limit(limit: int) -> str:
    return "ALL" if limit < 0 else str(limit)


class PostgresHistory:
    """A reader for the history of one store."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def read_changes(self, *, path: str | None = None, limit: int = -1, below: int | None = None) -> tuple[Change, ...]:
        where = "" if below is None else " AND change < %(below)s"
        if path is not None:
            touched = f"SELECT change FROM memdir.changed_files WHERE {OF_STORE} AND path = %(path)s"
            where += f" AND change IN ({touched})"
        return tuple(self._read(f"{where} ORDER BY change DESC LIMIT {_render_limit(limit)}", path=path, below=below))

    def read_change(self, change: int) -> Change:
        for record in self._read(" AND change = %(change)s", change=change) if abs(change) < 2**63 else ():
            return record
        raise NotFoundError(f"no change {change} in this history", name=str(change), hint="`memdir history` lists them")

    def find_last(self) -> Change | None:
        """Return the newest change that can be undone, ignoring undos and undone changes."""
        below: int | None = None
        while page := self.read_changes(limit=_PAGE, below=below):
            for change in page:
                if change.undoes is None and change.undone_by is None and change.verb != OUTSIDE:
                    return change
            below = page[-1].id
        return None

    def count_changes(self) -> int:
        (rows,) = self._ask(f"SELECT count(*) FROM memdir.changes WHERE {OF_STORE}")
        return int(rows[0][0])

    def find_marked(self, mark: str) -> int | None:
        select = f"SELECT min(change) FROM memdir.changes WHERE {OF_STORE} AND mark = %(mark)s AND mark <> ''"
        (rows,) = self._ask(select, mark=clean_text(mark))
        change: int | None = rows[0][0]
        return change

    def read_content(self, digest: str) -> bytes:
        select = f"SELECT data FROM memdir.contents WHERE {OF_STORE} AND digest = %(digest)s"
        (rows,) = self._ask(select, digest=clean_text(digest))
        if not rows or rows[0][0] is None:
            hint = "it was redacted" if rows else "it was purged"
            raise NotFoundError("this version is no longer in the history", name=digest[:12], hint=hint)
        return bytes(rows[0][0])

    def find_last_steps(self, names: Collection[str] | None = None) -> dict[str, Change]:
        """Return a dict from memory names to the last change of the text; `names` limits it. The `files` are empty."""
        select = f"""
            SELECT DISTINCT ON (path) path, change, at, verb, actor, who, why, session
            FROM memdir.changed_files JOIN memdir.changes USING (tenant, store, change)
            WHERE {OF_STORE} AND (before IS NULL OR verb <> ALL(%(verbs)s))
        """
        where = "" if names is None else " AND path = ANY(%(paths)s)"
        paths = [f"{clean_text(name)}.md" for name in names or ()]
        (rows,) = self._ask(f"{select}{where} ORDER BY path, change DESC", verbs=sorted(SAME_WORDS), paths=paths)
        return {
            path.removesuffix(".md"): Change(change, time, verb, Origin(*origin), actor=actor)
            for path, change, time, verb, actor, *origin in rows
            if not is_index_path(path)
        }

    def find_dates(self, memories: Sequence[StoredMemory]) -> tuple[ChangeDate, ...]:
        """Return when each memory's text last changed."""
        steps = self.find_last_steps([memory.name for memory in memories])
        return tuple(ChangeDate(steps[memory.name].at) if memory.name in steps else ChangeDate() for memory in memories)

    def read_recalls(self, name: str | None, limit: int) -> tuple[Surfacing, ...]:
        select = f"SELECT name, at, query, session, selector, score, moment FROM memdir.recalls WHERE {OF_STORE}"
        where = "" if name is None else " AND name = %(name)s"
        (rows,) = self._ask(f"{select}{where} ORDER BY id DESC LIMIT {_render_limit(limit)}", name=name)
        fields = ("name", "at", "query", "session", "selector", "score")
        return tuple(Surfacing(**dict(zip(fields, row, strict=False)), moment=Moment(row[-1])) for row in rows)

    def count_recalls(self) -> RecallCounts:
        by_name: dict[str, int] = dict(
            self._ask(
                f"SELECT name, count(*) FROM memdir.recalls WHERE {OF_STORE} AND moment IN {SHOWN_MOMENTS} GROUP BY 1"
            )[0]
        )
        return RecallCounts(sum(by_name.values()), by_name)

    def find_people(self, changes: Iterable[int]) -> dict[int, str]:
        """Return a dict from change IDs to the name of the member or token that made each, or else its credential."""
        select = """
            SELECT change, coalesce(nullif(p.name, ''), nullif(t.name, ''), actor) FROM memdir.changes c
            LEFT JOIN memdir.tokens t ON t.tenant = c.tenant AND actor = 'token:' || t.token
            LEFT JOIN memdir.members p ON p.tenant = c.tenant AND (p.member = t.member OR actor = 'member:' || p.member)
            WHERE c.tenant = %(tenant)s AND store = %(store)s AND change = ANY(%(changes)s) AND actor <> ''
        """
        return dict(self._ask(select, changes=ids)[0]) if (ids := list(changes)) else {}

    def _read(self, where: str, **values: object) -> Iterator[Change]:
        columns = "change, at, verb, who, why, session, undoes, actor"
        select = f"SELECT {columns} FROM memdir.changes WHERE {OF_STORE}{where}"
        files = f"""
            SELECT change, path, before, after, splice_at, removed, inserted, EXISTS (
                SELECT FROM memdir.contents WHERE {OF_STORE} AND digest = after AND data IS NOT NULL
            ) FROM memdir.changed_files WHERE {OF_STORE} AND change IN (SELECT change FROM ({select}) wanted) ORDER BY change, seq
        """
        # An undo is newer than what it undoes.
        undos = f"""
            SELECT undoes, change FROM memdir.changes WHERE {OF_STORE} AND undoes >= (
                SELECT min(change) FROM ({select}) wanted
            ) ORDER BY change
        """
        changes, rows, pairs = self._ask(select, files, undos, **values)
        undone = find_undone(pairs)
        by_change = {change: list(some) for change, some in groupby(rows, key=lambda row: row[0])}
        for change, time, verb, who, why, session, undoes, actor in changes:
            touched = tuple(_make_changed(*row[1:]) for row in by_change.get(change, ()))
            yield Change(change, time, verb, Origin(who, why, session), touched, undoes, undone.get(change), actor)


def _make_changed(
    path: str,
    before: str | None,
    after: str | None,
    offset: int | None,
    removed: bytes | None,
    inserted: bytes | None,
    has_content: bool,
) -> ChangedFile:
    splice = (
        None if offset is None or removed is None or inserted is None else (offset, bytes(removed), bytes(inserted))
    )
    redacted = splice is None if is_index_path(path) else after is not None and not has_content
    return ChangedFile(path, before, after, splice, redacted)


class PostgresInbox:
    """The inbox rows of a store, accessed in the transaction of `ask`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def read(self, **equal: object) -> Iterable[InboxItem]:
        if isinstance(number := equal.get("id"), int) and abs(number) >= 2**63:
            return ()
        where = "".join(f" AND {column} = %({column})s" for column in equal)
        select = f"SELECT id, {inbox.COLUMNS} FROM memdir.inbox WHERE {OF_STORE}{where} ORDER BY id"
        return map(inbox.make_item, self._ask(select, **equal)[0])

    def insert(self, row: Sequence[object]) -> int:
        cleaned = (clean_text(value) if isinstance(value, str) else value for value in row)
        values = {f"c{number}": value for number, value in enumerate(cleaned)}
        slots = ", ".join(f"%({name})s" for name in values)
        number = f"UPDATE memdir.stores SET items = items + 1 WHERE {OF_STORE} RETURNING items"
        ((id,),) = self._ask(number)[0]
        columns = f"tenant, store, id, {inbox.COLUMNS}"
        insert = f"INSERT INTO memdir.inbox ({columns}) VALUES (%(tenant)s, %(store)s, %(id)s, {slots})"
        self._ask(insert, id=id, **values)
        return int(id)

    def update(self, id: int, **values: object) -> None:
        columns = ", ".join(f"{column} = %({column})s" for column in values)
        clean = {key: clean_text(value) if isinstance(value, str) else value for key, value in values.items()}
        self._ask(f"UPDATE memdir.inbox SET {columns} WHERE {OF_STORE} AND id = %(id)s", id=id, **clean)

    def remove(self, id: int) -> None:
        self._ask(f"DELETE FROM memdir.inbox WHERE {OF_STORE} AND id = %(id)s", id=id)


# --- retention -------------------------------------------------------------------------------------------------------

# The newest changes of each file's text and the last one that wrote it stay: author, age and the list of changed files
# depend on them.
_PRUNED = f"""
    DELETE FROM memdir.changes c WHERE {OF_STORE} AND at < now() - %(days)s * interval '1 day' AND change <= %(indexed)s
        AND NOT EXISTS (SELECT 1 FROM memdir.files f WHERE f.tenant = c.tenant AND f.store = c.store AND f.change = c.change)
        AND NOT EXISTS (
            SELECT 1 FROM memdir.changed_files t JOIN memdir.files f ON f.tenant = t.tenant AND f.store = t.store AND f.path = t.path
            WHERE t.tenant = c.tenant AND t.store = c.store AND t.change = c.change
                AND (t.before IS NULL OR c.verb <> ALL(%(verbs)s)) AND NOT EXISTS (
                    SELECT 1 FROM memdir.changed_files n JOIN memdir.changes l
                        ON l.tenant = n.tenant AND l.store = n.store AND l.change = n.change
                    WHERE n.tenant = t.tenant AND n.store = t.store AND n.path = t.path AND n.change > t.change
                        AND (n.before IS NULL OR l.verb <> ALL(%(verbs)s))
                )
        )
    RETURNING change
"""
_UNUSED = f"""
    DELETE FROM memdir.contents c WHERE {OF_STORE}
        AND NOT EXISTS (SELECT 1 FROM memdir.files f WHERE f.tenant = c.tenant AND f.store = c.store AND f.digest = c.digest)
        AND NOT EXISTS (SELECT 1 FROM memdir.changed_files t WHERE t.tenant = c.tenant AND t.store = c.store
            AND t.after = c.digest)
"""
_SEEN = f"UPDATE memdir.stores SET pruned = greatest(pruned, %(last)s) WHERE {OF_STORE}"
_EXPIRED = (
    "DELETE FROM memdir.audit WHERE tenant = %(tenant)s AND at < now() - %(days)s * interval '1 day'",
    "DELETE FROM memdir.sessions WHERE tenant = %(tenant)s AND until < now()",
    "DELETE FROM memdir.rates WHERE tenant = %(tenant)s AND until < now()",
    "DELETE FROM memdir.idempotency WHERE tenant = %(tenant)s AND at < now() - interval '1 day'",
)


def tidy_tenant(database: PostgresDatabase, tenant: UUID) -> int:
    """Delete what an organisation keeps no longer; return the number of changes that were deleted from history."""
    limits, stores = database.read(
        tenant,
        "SELECT history_days, audit_days FROM memdir.tenants WHERE tenant = %(tenant)s",
        "SELECT s.store, coalesce(least(d.revision, d.dropped), 0) FROM memdir.stores s"
        " LEFT JOIN memdir.searched d ON d.tenant = s.tenant AND d.store = s.store WHERE s.tenant = %(tenant)s",
    )
    history_days, audit_days = limits[0] if limits else (None, None)
    database.write(tenant, *_EXPIRED[audit_days is None :], days=audit_days)
    count = 0
    for store, indexed in stores if history_days is not None else ():
        values = {"store": store, "days": history_days, "indexed": indexed, "verbs": sorted(SAME_WORDS)}
        if changes := [change for (change,) in database.write(tenant, _PRUNED, **values)[0]]:
            database.write(tenant, _SEEN, _UNUSED, store=store, last=max(changes))
            count += len(changes)
    return count
