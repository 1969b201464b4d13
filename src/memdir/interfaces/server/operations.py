"""Server administration: start, check, create tokens, and create, change, export, import and delete organisations."""

import json
import logging
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, SettingsError
from memdir.frozen import dataclass
from memdir.interfaces.server.access import OidcProvider, create_token
from memdir.interfaces.server.api import ServerContext
from memdir.interfaces.server.app import BODY_BYTES, ApiServer, JsonLog, build_app
from memdir.interfaces.server.page import MemberPage
from memdir.interfaces.web.listen import HOST, HttpLimits, HttpServer, listen
from memdir.postgres.database import APP_ROLE, PostgresDatabase, list_migrations, run_as_owner
from memdir.store.contract import utc_now

_CONNECTIONS = 16
_LOOPBACK = (HOST, "localhost", "::1")
# Referenced tables come first. Derived tables are not exported and have no foreign keys.
KEPT = (
    "tenants members groups teams team_members tokens audit stores contents files prose changes changed_files aliases"
    " inbox recalls"
).split()
TABLES = (*KEPT, "search", "searched", "postings", "terms", "idempotency", "sessions", "rates")
_BATCH = 1_000  # rows per statement of an import
_NOTE_CREDENTIALS = "INSERT INTO memdir.server (name, value) VALUES ('credentials', 'yes') ON CONFLICT DO NOTHING"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    host: str = HOST
    port: int = 7340
    public_url: str = ""
    oidc_issuer: str = ""
    oidc_audience: str = ""
    oidc_client_id: str = ""
    oidc_secret_file: str = ""
    oidc_groups: str = "groups"
    proxy: tuple[str, ...] = ()
    connections: int = _CONNECTIONS


def serve(dsn: str, options: ServeOptions, say: Callable[[str], None]) -> int:
    """Serve until the process is stopped."""
    oidc = _open_oidc(options) if options.oidc_issuer or options.oidc_client_id else None
    database = PostgresDatabase(dsn, size=options.connections)
    try:
        if options.host not in _LOOPBACK and oidc is None and not has_credentials(database):
            hint = "create a token (`memdir serve token`), or pass --oidc-issuer"
            raise SettingsError("this address is public, but there are no credentials", key="host", hint=hint)
        context = ServerContext(database, utc_now, oidc)
        if why := ApiServer(context).check_ready():
            raise SettingsError(why, key="dsn", hint="`memdir serve --check` shows details")
        listener = listen(options.port, options.host)
        host = f"[{options.host}]" if ":" in options.host else options.host
        say(f"http://{host}:{listener.getsockname()[1]}")
        log = logging.StreamHandler()  # standard error
        log.setFormatter(JsonLog())
        logging.getLogger().addHandler(log)
        logging.getLogger("memdir").setLevel(logging.INFO)
        # A request waits for one interval per request that computes, by default 5 ms each.
        sys.setswitchinterval(0.0005)
        app = build_app(context, public_url=options.public_url, page=MemberPage, proxies=options.proxy)
        HttpServer(app, HttpLimits(connections=512, body_bytes=BODY_BYTES)).run([listener])
    finally:
        database.close()
    return 0


def check(dsn: str, options: ServeOptions) -> list[tuple[str, str, bool]]:
    """Check the server, and return the name, the result and whether it passed, for each check."""
    rows: list[tuple[str, str, bool]] = []

    def note(name: str, run: Callable[[], str]) -> bool:
        try:
            rows.append((name, run(), True))
        except MemdirError as error:
            rows.append((name, f"{error}. {error.hint}".strip(), False))
        return rows[-1][2]

    database = PostgresDatabase(dsn, size=1, seconds=10.0)
    try:
        if note("database", lambda: f"PostgreSQL {database.show('SHOW server_version')}"):
            note("schema", lambda: _check_schema(database))
            note("rows", lambda: _check_rows(database))
            note("credentials", lambda: _check_credentials(database, options))
    finally:
        database.close()
    if options.oidc_issuer or options.oidc_client_id:
        note("oidc", lambda: _open_oidc(options).check())
    return rows


def _check_schema(database: PostgresDatabase) -> str:
    number, known = database.count_migrations(), len(list_migrations())
    if number < known:
        raise SettingsError(f"migration {number} of {known}", hint="run `memdir serve migrate`")
    return f"migration {number} of {known}"


def _check_rows(database: PostgresDatabase) -> str:
    """Check that the role is not the owner and cannot bypass row-level security."""
    role = database.show("SELECT current_user")
    select = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    owned = "SELECT count(*) FROM pg_tables WHERE schemaname = 'memdir' AND tableowner = current_user"
    if database.show(select) == "True" or database.show(owned) != "0":
        raise SettingsError(f"{role} can read the rows of all tenants", hint=f"connect as {APP_ROLE} or a role in it")
    open_tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'memdir'::regnamespace AND relkind = 'r'"
    closed = f"{open_tables} AND relrowsecurity AND relforcerowsecurity"
    if (count := database.show(closed)) != str(len(TABLES)):
        raise SettingsError(f"row-level security only for {count} of {len(TABLES)} tables", hint="run the migrations")
    return f"{role}, row-level security forced on {count} tables"


def _check_credentials(database: PostgresDatabase, options: ServeOptions) -> str:
    if not has_credentials(database) and not options.oidc_issuer:
        raise SettingsError("no token exists", hint="`memdir serve token` creates one")
    return "there are tokens" if has_credentials(database) else "OIDC"


def _open_oidc(options: ServeOptions) -> OidcProvider:
    try:
        secret = Path(options.oidc_secret_file).read_text(encoding="utf-8").strip() if options.oidc_secret_file else ""
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the OIDC client secret: {error}", key="oidc_secret_file") from None
    client = options.oidc_client_id
    return OidcProvider(options.oidc_issuer, options.oidc_audience, client, secret, options.oidc_groups)


def has_credentials(database: PostgresDatabase) -> bool:
    return database.show("SELECT count(*) FROM memdir.server WHERE name = 'credentials'") != "0"


def make_token(owner: str, database: PostgresDatabase, tenant: UUID, **options: Any) -> tuple[str, str]:
    with run_as_owner(owner) as db, db.transaction():
        _set_tenant(db, tenant)
    _, text, expires = create_token(database, tenant, now=utc_now(), **options)
    with run_as_owner(owner) as db:
        db.execute(_NOTE_CREDENTIALS)
    return text, expires.isoformat()


def list_tenants(owner: str) -> list[tuple[UUID, str, str]]:
    with run_as_owner(owner) as db:
        rows = db.execute("SELECT tenant, name, created FROM memdir.directory ORDER BY created, tenant").fetchall()
    return [(row[0], row[1], row[2].isoformat()) for row in rows]


def export_tenant(owner: str, tenant: UUID, target: Path) -> dict[str, int]:
    """Export an organisation as a zip: current files in `stores/` and all rows as JSON in `rows/`; return the row counts."""
    counts = {}
    with run_as_owner(owner) as db, db.transaction():
        _set_tenant(db, tenant)
        descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in KEPT:
                rows = db.execute(f"SELECT to_jsonb(t)::text FROM memdir.{name} t WHERE t.tenant = %s", (tenant,))
                lines = [row[0] for row in rows]
                counts[name] = len(lines)
                archive.writestr(f"rows/{name}.jsonl", "".join(f"{line}\n" for line in lines))
            select = """
                SELECT s.name, f.path, c.data FROM memdir.files f
                JOIN memdir.stores s ON s.tenant = f.tenant AND s.store = f.store
                LEFT JOIN memdir.contents c ON c.tenant = f.tenant AND c.store = f.store AND c.digest = f.digest
                WHERE f.tenant = %s ORDER BY s.name, f.path
            """
            for store, path, data in db.execute(select, (tenant,)):
                archive.writestr(f"stores/{store}/{path}", data or b"")
    return counts


def import_tenant(owner: str, source: Path) -> dict[str, int]:
    """Import an organisation from an export into a database that does not have it; return the row counts."""
    counts: dict[str, int] = {}
    try:
        with zipfile.ZipFile(source) as archive, run_as_owner(owner) as db, db.transaction():
            for name in KEPT:
                with archive.open(f"rows/{name}.jsonl") as lines:
                    counts[name] = sum(_import_rows(db, name, batch) for batch in _split_batches(lines))
            # Search is made anew.
            db.execute(
                "INSERT INTO memdir.queue (tenant, store, revision) SELECT tenant, store, revision FROM memdir.stores"
            )
            if counts["tokens"]:
                db.execute(_NOTE_CREDENTIALS)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise FormatError(
            f"this is not an export of an organisation: {error}", hint="see `memdir serve tenant export`"
        ) from None
    except psycopg.Error as error:
        raise ConflictError(
            f"cannot import: {error.diag.message_primary}", hint="delete the organisation first"
        ) from None
    return counts


def _import_rows(db: Any, table: str, lines: Sequence[bytes]) -> int:
    rows = [json.loads(line) for line in lines]
    if table == "tenants":
        db.execute("SELECT set_config('app.tenant', %s, true)", (str(UUID(rows[0]["tenant"])),))
        db.execute("INSERT INTO memdir.directory (tenant, name) VALUES (%s, %s)", (rows[0]["tenant"], rows[0]["name"]))
        db.execute("INSERT INTO memdir.upkeep (tenant) VALUES (%s)", (rows[0]["tenant"],))
    # Columns that are newer than the export have their defaults.
    columns = sql.SQL(", ").join(map(sql.Identifier, rows[0]))
    insert = "INSERT INTO memdir.{table} ({columns}) SELECT {columns} FROM jsonb_populate_recordset(NULL::memdir.{table}, %s)"
    statement = sql.SQL(insert).format(table=sql.Identifier(table), columns=columns)
    return int(db.execute(statement, (Jsonb(rows),)).rowcount)


def _split_batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def change_tenant(owner: str, tenant: UUID, limits: Mapping[str, int | None]) -> None:
    """Set quotas and how many days history and audit log are kept, where None means for ever."""
    with run_as_owner(owner) as db, db.transaction():
        _set_tenant(db, tenant)
        for name, value in limits.items():
            column = sql.Identifier(name)
            db.execute(sql.SQL("UPDATE memdir.tenants SET {} = %s WHERE tenant = %s").format(column), (value, tenant))
        db.execute("UPDATE memdir.upkeep SET tidied = 'epoch' WHERE tenant = %s", (tenant,))


def delete_tenant(owner: str, tenant: UUID) -> dict[str, int]:
    """Delete an organisation; return the row count of each table. Raises MemdirError if rows remain."""
    with run_as_owner(owner) as db, db.transaction():
        _set_tenant(db, tenant)
        before = _count_rows(db, tenant)
        for name in ("postings", "terms", "queue", "rates", "upkeep", "tenants"):
            db.execute(f"DELETE FROM memdir.{name} WHERE tenant = %s", (tenant,))
        db.execute("DELETE FROM memdir.directory WHERE tenant = %s", (tenant,))
        if left := {name: count for name, count in _count_rows(db, tenant).items() if count}:
            raise MemdirError(f"rows remain in {', '.join(left)}; nothing was deleted")
    return before


def _set_tenant(db: Any, tenant: UUID) -> None:
    if not db.execute("SELECT 1 FROM memdir.directory WHERE tenant = %s", (tenant,)).fetchone():
        raise NotFoundError("organisation not found", name=str(tenant), hint="see `memdir serve tenant list`")
    db.execute("SELECT set_config('app.tenant', %s, true)", (str(tenant),))


def _count_rows(db: Any, tenant: UUID) -> dict[str, int]:
    count = "SELECT count(*) FROM memdir.{} WHERE tenant = %s"
    return {name: int(db.execute(count.format(name), (tenant,)).fetchone()[0]) for name in TABLES}


def say_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
