"""PostgresStore beyond the contract, which test_store_*.py run on it: tenants, lost answers, retries, purge, the schema."""

import ast
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from decisions import approve
from memdir.errors import BudgetError, ConflictError, DiskError, NotFoundError, ReviewError, SecretError
from memdir.format.frontmatter import digest_of
from memdir.frozen import replace
from memdir.interfaces.server.operations import TABLES
from memdir.postgres import database as database_module
from memdir.postgres import store as module
from memdir.postgres.database import APP_ROLE, PostgresDatabase, create_store, create_tenant, list_migrations, migrate
from memdir.postgres.search import PostgresSearch
from memdir.postgres.store import PostgresStore
from memdir.records import (
    Draft,
    Forget,
    InboxItem,
    InboxKind,
    Kind,
    Origin,
    Put,
    Query,
    Rewrite,
    Save,
    Scope,
    Surfacing,
)
from memdir.store.contract import utc_now
from memdir.store.plan import FileChange
from memdir.testing import sample_memory
from postgres import Postgres, Proxy

OF_NOBODY = {"migrations", "server", "directory", "queue", "logins", "upkeep"}  # tables whose rows belong to no tenant


@pytest.fixture
def tenants(postgres: Postgres) -> tuple[UUID, UUID]:
    """Two organisations with something in every table that a store fills."""
    made = postgres.tenant("one"), postgres.tenant("two")
    for tenant in made:
        fill(postgres.store(tenant))
    return made


def fill(store: PostgresStore) -> None:
    saved = store.write(sample_memory())
    store.edit("terse-replies", saved.text + "More.\n", expect=saved.digest)
    store.inbox_add([InboxItem(InboxKind.MEMORY, "t", "w", utc_now(), "k")])
    store.note_recalls([Surfacing("terse-replies", utc_now(), "how do we reply")])
    with PostgresSearch([store]) as search:
        search.refresh()


def count_rows(postgres: Postgres, tenant: UUID, table: str, role: str) -> tuple[int, int]:
    """How many rows a statement that forgets the WHERE sees: of this tenant, and of others."""
    with psycopg.connect(postgres.app if role == "app" else postgres.owner) as db:
        db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
        rows = db.execute(f"SELECT tenant FROM memdir.{table}").fetchall()
    return sum(row[0] == tenant for row in rows), sum(row[0] != tenant for row in rows)


@pytest.mark.parametrize("role", ["app", "owner"])
def test_a_statement_that_forgets_the_where_sees_one_tenant(
    postgres: Postgres, tenants: tuple[UUID, UUID], role: str
) -> None:
    seen = {table: count_rows(postgres, tenants[0], table, role) for table in TABLES}
    assert {table: others for table, (_, others) in seen.items() if others} == {}
    filled = "tenants stores contents files changes changed_files inbox recalls search searched postings terms".split()
    assert all(seen[table][0] > 0 for table in filled), seen


def test_a_statement_that_forgets_the_where_changes_one_tenant(postgres: Postgres, tenants: tuple[UUID, UUID]) -> None:
    before = postgres.dump(tenants[1])
    with psycopg.connect(postgres.app) as db:
        db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenants[0]),))
        db.execute("UPDATE memdir.files SET digest = 'x'")
        db.execute("UPDATE memdir.stores SET revision = 99")
        db.execute("DELETE FROM memdir.changed_files")
        for statement in (
            "UPDATE memdir.tenants SET name = 'x'",
            f"UPDATE memdir.changes SET tenant = '{tenants[1]}'",
            f"INSERT INTO memdir.teams (tenant, team, name) VALUES ('{tenants[1]}', gen_random_uuid(), 'x')",
        ):
            with pytest.raises(errors.InsufficientPrivilege), db.transaction():
                db.execute(statement)
    assert postgres.dump(tenants[1]) == before


def test_without_a_tenant_every_statement_fails(postgres: Postgres, tenants: tuple[UUID, UUID]) -> None:
    with psycopg.connect(postgres.app, autocommit=True) as db:
        for table in TABLES:
            with pytest.raises(psycopg.Error):
                db.execute(f"SELECT * FROM memdir.{table}").fetchall()
        # On a connection that a pool hands on, the setting of the last transaction is empty and not absent.
        with db.transaction():
            db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenants[0]),))
            assert db.execute("SELECT count(*) FROM memdir.files").fetchone() == (1,)
        with pytest.raises(psycopg.Error):
            db.execute("SELECT * FROM memdir.files").fetchall()


def test_the_application_owns_nothing_and_the_rows_are_guarded_for_all(postgres: Postgres) -> None:
    with psycopg.connect(postgres.owner) as db:
        select = "SELECT relname, relrowsecurity, relforcerowsecurity, relowner::regrole::text FROM pg_class"
        rows = db.execute(f"{select} WHERE relnamespace = 'memdir'::regnamespace AND relkind = 'r'").fetchall()
        guarded = [row for row in rows if row[0] not in OF_NOBODY]
        assert {row[0] for row in guarded} == set(TABLES) and all(row[1] and row[2] for row in guarded)
        assert all(row[3] != APP_ROLE for row in rows)
        policies = db.execute("SELECT tablename, permissive FROM pg_policies WHERE schemaname = 'memdir'").fetchall()
        assert {name for name, how in policies if how == "RESTRICTIVE"} == set(TABLES)
        role = db.execute("SELECT rolsuper, rolbypassrls, rolcreaterole FROM pg_roles WHERE rolname = %s", (APP_ROLE,))
        assert role.fetchone() == (False, False, False)
    with psycopg.connect(postgres.app, autocommit=True) as db:
        for statement in ("CREATE TABLE memdir.x (y int)", "DROP TABLE memdir.files"):
            with pytest.raises(errors.InsufficientPrivilege):
                db.execute(statement)
    tenant, row = postgres.tenant(), "(tenant, id, actor, action, target, status)"
    postgres.database.write(tenant, f"INSERT INTO memdir.audit {row} VALUES (%(tenant)s, '1', 'a', 'b', 'kept', 200)")
    postgres.database.write(tenant, "DELETE FROM memdir.audit WHERE tenant = %(tenant)s")
    for change in ("target = 'x'", "status = 403"):
        with pytest.raises(errors.InsufficientPrivilege):
            postgres.database.write(tenant, f"UPDATE memdir.audit SET {change} WHERE tenant = %(tenant)s")
    assert "kept" in postgres.dump(tenant)


def test_another_tenants_store_does_not_exist(postgres: Postgres, tenants: tuple[UUID, UUID]) -> None:
    theirs = postgres.store(tenants[1])
    theirs.write(sample_memory())
    mine = PostgresStore(postgres.database, tenants[0], theirs._table.store)
    assert mine.changes() == () and mine.index() == "" and mine.inbox() == ()
    for call in (lambda: mine.write(sample_memory()), lambda: mine.read("terse-replies"), mine.scan):
        with pytest.raises(NotFoundError):
            call()
    assert len(theirs.changes()) == 1


@pytest.fixture
def cutting(postgres: Postgres) -> Iterator[Proxy]:
    proxy = Proxy(postgres.app)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_lost_happens_once(postgres: Postgres, cutting: Proxy, when: str) -> None:
    tenant = postgres.tenant()
    made = create_store(postgres.database, tenant, "s")
    database = PostgresDatabase(cutting.dsn(postgres.app), size=2)
    try:
        store = PostgresStore(database, tenant, made)
        store.write(sample_memory())
        left = [1]

        def cut(data: bytes) -> str:
            return when if b"INSERT INTO memdir.changes" in data and left and left.pop() else ""

        cutting.cut = cut
        saved = store.write(sample_memory(title="Second"))
        assert cutting.cuts == 1 and saved.header.title == "Second"
        left.append(1)
        done = store.change([], verb="nothing")
        assert done.change is None
        change, files = store.undo()
        assert cutting.cuts == 2 and change.id == 2 and [at.path for at in files if not at.is_index] == ["second.md"]
        fresh = PostgresStore(postgres.database, tenant, made)
        assert [at.verb for at in fresh.changes()] == ["undo", "save", "save"]
        assert [at.name for at in fresh.scan()] == ["terse-replies"] and fresh.read_head().revision == 3
    finally:
        database.close()


def test_a_batch_with_a_mark_whose_answer_is_lost_happens_once(postgres: Postgres, cutting: Proxy) -> None:
    tenant = postgres.tenant()
    made = create_store(postgres.database, tenant, "s")
    database = PostgresDatabase(cutting.dsn(postgres.app), size=2)
    try:
        left = [1]
        cutting.cut = lambda data: "after" if b"INSERT INTO memdir.changes" in data and left and left.pop() else ""
        store = PostgresStore(database, tenant, made)
        done = store.change([Save(sample_memory())], verb="extract", mark="turn-1")
        again = store.change([Save(sample_memory())], verb="extract", mark="turn-1")
        assert cutting.cuts == 1 and done.change == again.change == 1 and done.names == again.names
        assert len(store.changes()) == 1
    finally:
        database.close()


def test_a_database_that_is_away_is_said_so(postgres: Postgres, cutting: Proxy) -> None:
    tenant = postgres.tenant()
    made = create_store(postgres.database, tenant, "s")
    database = PostgresDatabase(cutting.dsn(postgres.app), size=1)
    try:
        store = PostgresStore(database, tenant, made)
        store.write(sample_memory())
        cutting.cut = lambda data: "before"
        database.seconds = 0.2
        with pytest.raises(DiskError, match="is not responding"):
            store.write(sample_memory(title="Second"))
        assert [at.name for at in PostgresStore(postgres.database, tenant, made).scan()] == ["terse-replies"]
    finally:
        database.close()


def test_a_deadlock_is_retried(postgres: Postgres) -> None:
    """Two real transactions that wait for each other: the server ends one, which begins again."""
    tenant = postgres.tenant()
    stores = [postgres.store(tenant) for _ in range(2)]
    barrier, tries = threading.Barrier(2), list[int]()
    lock = "UPDATE memdir.stores SET items = items + 1 WHERE tenant = %s AND store = %s"

    def work(first: PostgresStore, second: PostgresStore) -> None:
        def both(db: "psycopg.Connection[tuple[object, ...]]", is_first: bool) -> None:
            tries.append(1)
            with db.transaction():
                db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
                db.execute(lock, (tenant, first._table.store))
                if is_first:
                    barrier.wait(120)
                db.execute(lock, (tenant, second._table.store))

        postgres.database.run(both)

    threads = [threading.Thread(target=work, args=pair) for pair in (stores, stores[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(tries) == 3 and [store.read_head().items for store in stores] == [2, 2]


def test_what_others_wrote_is_seen_by_a_store_that_remembers(postgres: Postgres) -> None:
    tenant = postgres.tenant()
    first = postgres.store(tenant)
    second = PostgresStore(postgres.database, tenant, first._table.store)
    first.write(sample_memory())
    assert [at.name for at in second.scan()] == ["terse-replies"]
    saved = first.write(sample_memory(title="Second"))
    second.delete("terse-replies")
    assert [at.name for at in first.scan()] == ["second"] == [at.name for at in second.scan()]
    second.edit("second", saved.text + "More.\n", expect=saved.digest)
    with pytest.raises(ConflictError):
        first.edit("second", saved.text + "Else.\n", expect=saved.digest)
    second.purge("second")
    assert first.scan() == () and first.index() == ""
    first.write(sample_memory(title="Second"))
    assert [at.name for at in second.scan()] == ["second"]


def test_a_restored_database_is_not_taken_for_the_old_one(postgres: Postgres) -> None:
    """The same revision by other changes, as after the loss of a primary: what was remembered is not used."""
    store = postgres.store()
    store.write(sample_memory())
    store.write(sample_memory(title="Lost"))
    with psycopg.connect(postgres.owner) as db:
        db.execute("SELECT set_config('app.tenant', %s, true)", (str(store._table.tenant),))
        db.execute("DELETE FROM memdir.changes WHERE change = 2")
        db.execute("DELETE FROM memdir.files WHERE path = 'lost.md'")
        db.execute("UPDATE memdir.stores SET revision = 1")
    other = PostgresStore(postgres.database, store._table.tenant, store._table.store)
    other.write(sample_memory(title="Other"))
    assert sorted(at.name for at in store.scan()) == ["other", "terse-replies"]


def test_a_full_organisation_can_still_forget(postgres: Postgres) -> None:
    tenant = postgres.tenant()
    store, other = postgres.store(tenant), postgres.store(tenant)
    store.write(sample_memory())
    with psycopg.connect(postgres.owner) as db:
        db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
        db.execute("UPDATE memdir.tenants SET max_memories = 1, max_stores = 2")
    with pytest.raises(BudgetError, match="of at most 1 memories"):
        other.write(sample_memory())
    with pytest.raises(BudgetError):
        create_store(postgres.database, tenant, "third")
    saved = store.pin("terse-replies")
    store.edit("terse-replies", saved.text.replace("closing", "last"), expect=saved.digest)
    store.delete("terse-replies")
    other.write(sample_memory())
    assert store.read_head().memories == 0 and store.read_head().all_memories == 1
    assert store.read_head().all_bytes == sum(
        len(at.read_bytes(path) or b"") for at in (store, other) for path in ("terse-replies.md",)
    )


def test_a_secret_is_refused_in_a_private_store_too(postgres: Postgres) -> None:
    draft = Draft(Kind.PROJECT, "Key", "The key of the deploy bucket", "AKIAQ3EGRMZ7KWYXP5VB is the key.")
    postgres.store().write(draft)
    with pytest.raises(SecretError):
        postgres.store(strict=True).write(draft)


def test_what_an_agent_writes_is_screened_as_at_the_edge(postgres: Postgres) -> None:
    agent, draft = Origin("agent"), replace(sample_memory(), pinned=True)
    team = postgres.store(scope=Scope.TEAM, shared=True, actor="token:ci")
    for _ in range(2):
        with pytest.raises(ReviewError) as waits:
            team.write(draft, origin=agent)
    (item,) = team.inbox()
    assert item.id == waits.value.item and item.origin.who == "token:ci" and team.scan() == () == team.changes()
    approve(team, item, origin=Origin("person"))
    saved = team.read("terse-replies")
    assert not saved.header.pinned
    with pytest.raises(ReviewError):
        team.delete("terse-replies", origin=agent)
    allowed, private = postgres.store(scope=Scope.TEAM, shared=True, review=False), postgres.store()
    for store in (allowed, private):
        assert "pinned" not in store.write(draft, origin=agent).text
        kept = store.pin("terse-replies")
        assert (
            "pinned: true" in store.edit("terse-replies", kept.text + "More.\n", expect=kept.digest, origin=agent).text
        ), "what a person pinned stays"


def test_a_purge_leaves_no_row_of_a_memory(postgres: Postgres) -> None:
    store = postgres.store()
    secret = "zebracrossing"
    other = store.write(sample_memory(title="Neighbour"))
    draft = Draft(Kind.PROJECT, f"{secret} title", f"{secret} words that describe it", f"{secret} body " * 50, secret)
    saved = store.write(draft, origin=Origin(why=f"because {secret}"))
    store.edit(secret, saved.text + "more\n", expect=saved.digest)
    store.write(sample_memory(title="Third"))
    store.undo()
    store.note_recalls([Surfacing(at, utc_now(), f"what of the {secret}?", "s1") for at in (secret, "neighbour")])
    store.inbox_add([InboxItem(InboxKind.PROPOSAL, secret, secret, utc_now(), "k", secret)])
    assert secret in postgres.dump(store._table.tenant)
    assert store.purge(secret) == 3
    assert secret not in postgres.dump(store._table.tenant)
    assert store.read("neighbour").digest == other.digest and [at.name for at in store.scan()] == ["neighbour"]
    with pytest.raises(NotFoundError):
        store.purge(secret)


def test_a_redacted_version_keeps_its_trail(postgres: Postgres) -> None:
    store = postgres.store(actor="token:ci")
    draft = Draft(Kind.PROJECT, "Plan", "The zebra plan of the quarter", "The zebra walks.")
    saved = store.write(draft)
    with PostgresSearch([store]) as indexer:
        indexer.refresh()
    with pytest.raises(ConflictError, match="still has this content"):
        store.redact(1, "plan.md")
    store.write(Draft(Kind.PROJECT, "Plan", "The quarterly herd migration plan", "It walks."), expect=saved.digest)
    before = store.read_change(1)
    assert "zebra" in postgres.dump(store._table.tenant)
    store.redact(1, "plan.md")
    assert "zebra" not in postgres.dump(store._table.tenant)
    after = store.read_change(1)
    assert [(at.path, at.before, at.after) for at in after.files] == [
        (at.path, at.before, at.after) for at in before.files
    ]
    changes = store.changes()
    assert {file.after for change in changes for file in change.files if file.redacted} >= {saved.digest}
    assert {change.id: change.actor for change in changes} == {1: "token:ci", 2: "token:ci"}
    with pytest.raises(NotFoundError, match="no longer in the history"):
        store.read_content(saved.digest)
    assert store.write(draft, expect=store.read("plan").digest).digest == saved.digest, "it may be written again"
    assert store.read_content(saved.digest)


# What Citus, YugabyteDB or CockroachDB lack, or do in another way (docs/server.md).
NOT_PORTABLE = {
    r"\bpg_(try_)?advisory": "advisory locks are no-ops in CockroachDB",
    r"\b(NOTIFY|LISTEN)\b": "CockroachDB has none, and PostgreSQL serialises commits by it",
    r"\b(BIG)?SERIAL\b|nextval|GENERATED \w+ AS IDENTITY": "a sequence is no order, and slow where it is distributed",
    r"CREATE EXTENSION": "no extension is required",
    r"CREATE (OR REPLACE )?(TRIGGER|FUNCTION|PROCEDURE|RULE)|\bDO \$\$": "no code in the database",
    r"\bLOCK TABLE\b": "CockroachDB has none",
    r"\bEXCLUDE USING\b|\bUNLOGGED\b|\bTABLESPACE\b|\bctid\b|\bxmin\b": "of one engine",
    r"SKIP LOCKED": "not under SERIALIZABLE in YugabyteDB",
    r"^(?!CREATE TABLE).*(tsvector|tsquery|ts_rank)": "CockroachDB has no array_to_tsvector, and row-level security keeps `@@` from its index",
    r"VALUES\s*\([^()]*\(SELECT": "Citus refuses a subquery in the values of an INSERT (docs.citusdata.com/en/stable/develop/reference_workarounds.html)",
    r"(?s)(?:INSERT INTO|UPDATE|DELETE FROM) memdir\.(\w+)\b.*\b(?:INSERT INTO|(?<!DO )(?<!KEY )UPDATE|DELETE FROM) memdir\.\1\b": (
        "CockroachDB refuses two changes of a table in one statement"
    ),
    r"SET TRANSACTION|SET SESSION|SET LOCAL": "set_config takes parameters",
    r"^GRANT [^;]*\([a-z_, ]+\)": "CockroachDB grants no columns (github.com/cockroachdb/cockroach/issues/72766)",
    r"search_path": "breaks behind PgBouncer",
}


# The modules that send SQL to the database, which is every one that uses a store of it or a connection.
SENDERS = ("postgres", "interfaces/server")
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|ALTER|BEGIN|AND (NOT )?EXISTS)\b")


def read_statements(senders: Sequence[str] = SENDERS) -> list[str]:
    sql = [re.sub(r"--.*", "", path.read_text(encoding="utf-8")) for _, path in list_migrations()]
    found = [part.strip() for text in sql for part in text.split(";") if part.strip()]
    source = Path(module.__file__ or "").parent.parent
    for at in senders:
        place = source / at
        for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            found += [text for text in find_texts(path.read_text(encoding="utf-8")) if STATEMENT.match(text)]
    return found


def find_texts(source: str) -> list[str]:
    """Every text of a module as it stands there, an f-string with the names of what is put in."""
    found, inside = [], set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = (at.value if isinstance(at, ast.Constant) else f"{{{ast.unparse(at)}}}" for at in node.values)
            found.append("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            found.append(node.value)
    return found


def find_unportable(statements: list[str]) -> list[str]:
    found = [
        f"{why}: {at[:80]}" for at in statements for pattern, why in NOT_PORTABLE.items() if re.search(pattern, at)
    ]
    for at in statements:
        if (table := re.match(r"CREATE TABLE memdir\.(\w+) \((.*)\)$", at, re.S)) and table[1] not in OF_NOBODY:
            for key in re.findall(r"(?:PRIMARY KEY|UNIQUE|FOREIGN KEY) \((\w+)", table[2]):
                found += [] if key == "tenant" else [f"a key of {table[1]} does not begin with the tenant"]
        if (index := re.match(r"CREATE (?:UNIQUE )?INDEX \w+ ON memdir\.\w+ (USING \w+ )?\((\w+)", at)) and index[
            2
        ] != "tenant":
            found.append(f"an index does not begin with the tenant: {at[:80]}")
    return found


def test_schema_and_statements_use_what_distributed_engines_have() -> None:
    statements = read_statements()
    assert len(statements) > 150 and find_unportable(statements) == []
    # One of each module, also those that an f-string makes and those of the server.
    for text in ("memdir.postings", "INTO memdir.audit", "INTO memdir.recalls", "FROM memdir.tokens", "h.revision"):
        assert any(text in at for at in statements), text
    planted = [
        "SELECT pg_advisory_xact_lock(1)",
        "CREATE INDEX x ON memdir.files (path)",
        "CREATE TABLE memdir.x (y int, PRIMARY KEY (y))",
        "NOTIFY changed",
        "GRANT UPDATE (target) ON memdir.audit TO memdir_app",
        "INSERT INTO memdir.x (a) VALUES ((SELECT 1))",
        "WITH a AS (DELETE FROM memdir.files WHERE x) INSERT INTO memdir.files VALUES (1)",
    ]
    assert len(find_unportable(planted)) == len(planted)


def test_every_statement_names_its_tenant() -> None:
    tables = r"(FROM|UPDATE|INTO|JOIN) memdir\.(?!migrations|server|directory|queue|logins|upkeep)"
    rows = [at for at in read_statements() if re.search(tables, at)]
    without = [
        at
        for at in rows
        if not re.search(r"tenant|of_store|OF_STORE|\{select\}|\{where\}|SET digest = v.digest|\{columns\}", at)
    ]
    assert len(rows) > 20 and without == []


def test_migrations_are_numbered_run_once_and_by_several_at_once(postgres: Postgres) -> None:
    assert [number for number, _ in list_migrations()] == list(range(1, len(list_migrations()) + 1))
    assert migrate(postgres.owner) == []
    name = f"fresh_{uuid4().hex[:8]}"
    with psycopg.connect(postgres.admin, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name} OWNER memdir_owner")
        ran: list[str] = []
        dsn = make_conninfo(postgres.owner, dbname=name)
        migrate_all = [threading.Thread(target=lambda: ran.extend(migrate(dsn))) for _ in range(3)]
        for thread in migrate_all:
            thread.start()
        for thread in migrate_all:
            thread.join(60)
        db.execute(f"DROP DATABASE {name}")
    assert sorted(ran) == [path.stem for _, path in list_migrations()]


def test_a_point_read_and_a_write_go_by_the_key(postgres: Postgres) -> None:
    """Plans of the statements that every request runs, on tables with many tenants: no scan over tenants."""
    first = postgres.store()
    for _ in range(30):
        fill(postgres.store())
    first.write(sample_memory())
    with psycopg.connect(postgres.owner, autocommit=True) as db:
        db.execute("ANALYZE")
    values = {
        "tenant": first._table.tenant,
        "store": first._table.store,
        "folded": ["terse-replies.md"],
        "after": "",
        "before": "z",
        "limit": 5,
    }
    statements = [module._READ, module._LOCK, module._PAGED]
    with psycopg.connect(postgres.app, cursor_factory=psycopg.ClientCursor) as db:
        db.execute("SELECT set_config('app.tenant', %s, true)", (str(first._table.tenant),))
        # Tables of a test fit into a page, where a scan would be the faster: how would it be read if it were large?
        db.execute("SET LOCAL enable_seqscan = off")
        for statement in statements:
            plan = "\n".join(row[0] for row in db.execute(f"EXPLAIN {statement}", values))
            assert "Seq Scan" not in plan, f"{statement}\n{plan}"
            conditions = re.findall(r"Index Cond: (.*)", plan)
            assert conditions and all("tenant" in at for at in conditions), plan


def test_a_database_of_the_version_before_keeps_its_index_byte_for_byte(postgres: Postgres) -> None:
    """Rows as 0006 has them, migrated; and once more from the backup, as after a failed upgrade."""
    index = "# Ours\n\n- [Two](two.md) — second first\nprose\n- [Gone](gone.md) — no file\n- [Ünï](ünï.md)\n"
    tenant, store = uuid4(), uuid4()
    with psycopg.connect(postgres.admin, autocommit=True) as db:
        for name in (f"old_{uuid4().hex[:8]}" for _ in range(2)):
            db.execute(f"CREATE DATABASE {name} OWNER memdir_owner")
            owner, app = (make_conninfo(dsn, dbname=name) for dsn in (postgres.owner, postgres.app))
            assert migrate(owner, until=6)[-1] == "0006_moments"
            create_tenant(owner, "old", tenant=tenant)
            with psycopg.connect(owner) as old:
                old.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))
                keys = {"t": tenant, "s": store, "index": index.encode()}
                old.execute(
                    "INSERT INTO memdir.stores (tenant, store, name, scope, revision) VALUES (%(t)s, %(s)s, 'x', 'team', 1)",
                    keys,
                )
                row = "INSERT INTO memdir.files VALUES (%(t)s, %(s)s, %(path)s, %(digest)s, 9, 1, 0, %(data)s)"
                for path in ("two.md", "ünï.md"):
                    text = f"---\nname: {path}\ndescription: the zebra\ntype: project\n---\nText.\n".encode()
                    digest = digest_of(text)
                    old.execute(row, {**keys, "path": path, "digest": digest, "data": None})
                    old.execute("INSERT INTO memdir.contents VALUES (%s, %s, %s, %s)", (tenant, store, digest, text))
                old.execute(row, {**keys, "path": "MEMORY.md", "digest": "x", "data": index.encode()})
            assert migrate(owner) == ["0007_lines", "0008_names", "0009_keys", "0010_sessions"] and migrate(owner) == []
            database = PostgresDatabase(app, size=2)
            try:
                made = PostgresStore(database, tenant, store)
                assert made.index() == index and {header.name for header in made.scan()} == {"two", "ünï"}
                assert made.read("two").header.description == "the zebra" and made.read_head().bytes == 18
                with pytest.raises(ConflictError):
                    made.write(sample_memory(name="TWO"))
                with PostgresSearch([made]) as search:
                    assert search.refresh() == 2
                made.write(sample_memory())
                assert (
                    made.index()
                    == f"{index}- [Terse replies](terse-replies.md) — No summary paragraph at the end of a reply\n"
                )
            finally:
                database.close()
            db.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_change_costs_the_same_in_a_larger_store_and_search_does_not_index(postgres: Postgres) -> None:
    """No statement of a put reads more rows than its own, and a search before the indexer says so."""
    store = postgres.store()
    files = [
        FileChange(f"m{number}.md", None, f"---\nname: {number}\n---\nzebra {number}\n".encode())
        for number in range(300)
    ]
    store.carry_out(lambda _: files, verb="import")
    saved = store.write(sample_memory())
    with PostgresSearch([store]) as search:
        assert not search.find(Query("zebra", now=utc_now(), wide=True), 5, lambda scope, name: "")
        assert not search.is_complete and search.refresh() == 301
    with PostgresSearch([store]) as search:
        assert len(search.find(Query("zebra", now=utc_now(), wide=True), 5, lambda scope, name: "")) >= 5
        assert search.is_complete
    seen: list[int] = []
    plain = database_module.execute

    def count(
        db: "psycopg.Connection[tuple[object, ...]]", *statements: str, **values: object
    ) -> list[list[tuple[object, ...]]]:
        results = plain(db, *statements, **values)
        seen.append(sum(map(len, results)))
        return results

    database_module.execute = count
    try:
        store.change([Rewrite("terse-replies", saved.text + "More.\n", saved.digest)], verb="edit")
        store.change([Put("new-one", saved.text)], verb="save")
        store.change([Forget("m7")], verb="forget")
    finally:
        database_module.execute = plain
    assert len(seen) <= 8 and sum(seen) <= 20, seen


def test_an_index_is_kept_line_by_line_with_its_prose(postgres: Postgres) -> None:
    store, text = postgres.store(), b"---\nname: n\ndescription: d\ntype: project\n---\nText.\n"
    index = b"# Ours\n\n- [B](b.md) \xe2\x80\x94 first\nprose\n- [Gone](gone.md)\n- [A](a.md)\n"
    files = [FileChange(name, None, text) for name in ("a.md", "b.md")]
    store.carry_out(lambda _: [*files, FileChange("MEMORY.md", None, index)], verb="import")
    assert store.read_bytes("MEMORY.md") == index
    store.delete("b")
    assert store.index() == index.decode().replace("- [B](b.md) — first\n", "")
    store.undo()
    assert store.read_bytes("MEMORY.md") == index, "the line comes back in its place"
    store.write(sample_memory())
    assert store.index().startswith(index.decode()) and "terse-replies" in store.index()


def test_a_full_disk_is_told_as_such_without_its_path(postgres: Postgres) -> None:
    database = PostgresDatabase(postgres.app, size=1)
    try:
        assert database.find_write_problem() == ""
        error = database._explain(errors.DiskFull('could not extend file "base/16384/16400"'))
        assert "no room" in str(error) and "base/" not in str(error)
        assert database.find_write_problem() == str(error)
    finally:
        database.close()
