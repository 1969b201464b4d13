"""The `serve` command: run and administer the team server, an HTTP API over PostgreSQL."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar
from uuid import UUID

import click

from memdir.errors import FormatError, SettingsError
from memdir.interfaces.cli import CliContext, TableColumn
from memdir.interfaces.cli.app import VerbGroup, confirm

F = TypeVar("F", bound=Callable[..., Any])
_DSN = "The libpq connection string of the application role; put passwords in ~/.pgpass."
_OWNER = "The connection string of the role that owns the schema."


@click.group("serve", short_help="Run a team server.", cls=VerbGroup, default="run")
def serve_verb() -> None:
    """Run a team server: an HTTP API over PostgreSQL for organisations with teams, members and tokens (docs/server.md).

    Use a reverse proxy for TLS.
    """


def _dsn_option(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, required=True, metavar="DSN", help=text)


def _load() -> tuple[Any, Any]:
    """Return the modules that run a server and that connect to its database."""
    if find_spec("psycopg") is None or find_spec("starlette") is None:
        raise SettingsError("the server needs packages that are not installed", hint="pip install 'memdir[server]'")
    # Imported here, because no other command needs a database.
    from memdir.interfaces.server import operations
    from memdir.postgres import database

    return operations, database


@serve_verb.command(
    "run",
    short_help="Serve until stopped.",
    examples=(
        'memdir serve run --dsn "host=db user=memdir_app dbname=memdir" --public-url https://memory.example',
        'memdir serve run --dsn "host=db user=memdir_app dbname=memdir" --check',
    ),
)
@_dsn_option("--dsn", _DSN)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=7340, show_default=True, help="The port; 0 for a free one."
)
@click.option("--public-url", default="", metavar="URL", help="The URL that clients use, if there is a proxy.")
@click.option("--oidc-issuer", default="", metavar="URL", help="Accept JWTs from this OpenID provider.")
@click.option("--oidc-audience", default="", metavar="TEXT", help="The required audience of its tokens.")
@click.option("--oidc-client-id", default="", metavar="TEXT", help="The client ID for logging in to the web interface.")
@click.option("--oidc-secret-file", default="", metavar="PATH", help="A file with the client's secret, if it has one.")
@click.option(
    "--oidc-groups", default="groups", metavar="CLAIM", show_default=True, help="The claim of a token with its groups."
)
@click.option(
    "--proxy",
    multiple=True,
    metavar="NETWORK",
    help="Believe X-Forwarded-For and X-Forwarded-Proto of this address or network; repeatable.",
)
@click.option("--connections", type=click.IntRange(1, 500), default=16, show_default=True, help="To the database.")
@click.option("--check", "is_check", is_flag=True, help="Check database, schema, roles and provider without serving.")
def run_verb(call: CliContext, /, dsn: str, is_check: bool, as_json: bool, **given: Any) -> int:
    """Serve the API and print its URL. It refuses a public address while nobody can log in."""
    operations, _ = _load()
    options = operations.ServeOptions(**given)
    if not is_check:
        return int(operations.serve(dsn, options, operations.say_line))
    rows = [{"what": what, "found": state, "ok": ok} for what, state, ok in operations.check(dsn, options)]
    columns = [TableColumn("what", cell="what"), TableColumn("found", cell="found"), TableColumn("ok", cell="ok")]
    call.show_rows(columns, rows, as_json=as_json)
    return 0 if all(row["ok"] for row in rows) else 1


@serve_verb.command(
    "migrate",
    short_help="Update the database schema.",
    examples=('memdir serve migrate --owner-dsn "host=db user=memdir_owner dbname=memdir"',),
    has_json=False,
)
@_dsn_option("--owner-dsn", _OWNER)
def migrate_verb(call: CliContext, /, owner_dsn: str) -> None:
    """Run the pending migrations, each in a transaction. Safe to run repeatedly and concurrently."""
    migrations = _load()[1].migrate(owner_dsn)
    call.out.line(f"ran {', '.join(migrations)}" if migrations else "nothing to do")


@serve_verb.command(
    "token",
    short_help="Create a token; it is shown once.",
    examples=(
        'memdir serve token --organisation 5f0c6c1e-0000-4000-8000-000000000000 --access read_only --name ci --owner-dsn "user=memdir_owner dbname=memdir"',
    ),
)
@_dsn_option("--owner-dsn", _OWNER)
@click.option(
    "--organisation", required=True, metavar="ID", help="The organisation; `memdir serve tenant list` shows the IDs."
)
@click.option("--name", default="token", show_default=True, help="What it is for.")
@click.option(
    "--access", type=click.Choice(("read_only", "read_write", "admin")), default="read_write", show_default=True,
    help="What it may do.",
)  # fmt: skip
@click.option("--days", type=click.IntRange(1, 400), default=90, show_default=True, help="Days until it expires.")
def token_verb(
    call: CliContext, /, organisation: str, name: str, access: str, days: int, as_json: bool, owner_dsn: str
) -> None:
    """Create a token for an organisation. The server stores only a hash; replace a lost token with a new one."""
    operations, postgres = _load()
    database = postgres.PostgresDatabase(owner_dsn, size=1)
    try:
        options = {"name": name, "access": access, "days": days}
        text, expires = operations.make_token(owner_dsn, database, _parse_id(organisation), **options)
    finally:
        database.close()
    call.answer({"token": text, "expires": expires}, text, as_json=as_json)


@serve_verb.group(
    "tenant", short_help="Create, list, change, export, import and delete organisations.", cls=VerbGroup, default="list"
)
def tenant_group() -> None:
    """Manage the server's organisations. Each one is accessible only with its own tokens; these commands need the owner role."""


@tenant_group.command(
    "list",
    short_help="List organisations.",
    examples=('memdir serve tenant list --json --owner-dsn "user=memdir_owner dbname=memdir"',),
)
@_dsn_option("--owner-dsn", _OWNER)
def tenant_list_verb(call: CliContext, /, as_json: bool, owner_dsn: str) -> None:
    """List the organisations of this server, oldest first."""
    tenants = _load()[0].list_tenants(owner_dsn)
    rows = [{"id": str(id), "name": name, "created": created} for id, name, created in tenants]
    call.show_rows(
        [TableColumn("id", cell="id"), TableColumn("name", cell="name")], rows, as_json=as_json, empty="there is none"
    )


@tenant_group.command("create", short_help="Create an organisation.", examples=(
    'memdir serve tenant create "Example Works" --owner-dsn "user=memdir_owner dbname=memdir"',
), has_json=False)  # fmt: skip
@click.argument("name")
@_dsn_option("--owner-dsn", _OWNER)
def tenant_create_verb(call: CliContext, /, name: str, owner_dsn: str) -> None:
    """Create an organisation and print its ID."""
    call.out.line(str(_load()[1].create_tenant(owner_dsn, name)))


_LIMITS = {
    "max_stores": "Stores at most.", "max_memories": "Memories at most.", "max_bytes": "Bytes of memories at most.",
    "max_requests": "Requests a minute at most, of one credential.",
    "history_days": "Days that old versions are kept; 0: for ever.", "audit_days": "Days that the audit log is kept; 0: for ever.",
}  # fmt: skip


def _limit_options(decorated: F) -> F:
    for name, text in reversed(_LIMITS.items()):
        decorated = click.option(f"--{name.replace('_', '-')}", type=click.IntRange(0), help=text)(decorated)
    return decorated


@tenant_group.command("change", short_help="Set quotas and how long history is kept.", examples=(
    'memdir serve tenant change 5f0c6c1e-0000-4000-8000-000000000000 --history-days 365 --audit-days 730 --owner-dsn "user=memdir_owner dbname=memdir"',
), has_json=False)  # fmt: skip
@click.argument("organisation", metavar="ID")
@_limit_options
@_dsn_option("--owner-dsn", _OWNER)
def tenant_change_verb(call: CliContext, /, organisation: str, owner_dsn: str, **given: int | None) -> None:
    """Change the limits of an organisation; what is not named stays as it is.

    Servers delete older versions once a day. The current text of every memory and who wrote it last always stay.
    """
    limits = {
        name: value or (None if name.endswith("_days") else 0) for name, value in given.items() if value is not None
    }
    _load()[0].change_tenant(owner_dsn, _parse_id(organisation), limits)
    call.out.line(f"changed {', '.join(limits) or 'nothing'}")


@tenant_group.command("export", short_help="Export an organisation as a zip file.", examples=(
    'memdir serve tenant export 5f0c6c1e-0000-4000-8000-000000000000 all.zip --owner-dsn "user=memdir_owner dbname=memdir"',
))  # fmt: skip
@click.argument("organisation", metavar="ID")
@click.argument("target", metavar="FILE")
@_dsn_option("--owner-dsn", _OWNER)
def tenant_export_verb(call: CliContext, /, organisation: str, target: str, as_json: bool, owner_dsn: str) -> None:
    """Write every file and row of an organisation to a new zip file that only you can read."""
    counts = _load()[0].export_tenant(owner_dsn, _parse_id(organisation), call.cwd / target)
    _show_counts(call, counts, as_json)


@tenant_group.command("import", short_help="Import an organisation from a zip file.", examples=(
    'memdir serve tenant import all.zip --owner-dsn "user=memdir_owner dbname=memdir"',
))  # fmt: skip
@click.argument("source", metavar="FILE")
@_dsn_option("--owner-dsn", _OWNER)
def tenant_import_verb(call: CliContext, /, source: str, as_json: bool, owner_dsn: str) -> None:
    """Import an exported organisation with its ID, history, members and tokens, into a server that does not have it."""
    _show_counts(call, _load()[0].import_tenant(owner_dsn, call.cwd / source), as_json)


@tenant_group.command("delete", short_help="Delete an organisation and its data.", examples=(
    'memdir serve tenant delete 5f0c6c1e-0000-4000-8000-000000000000 --yes --owner-dsn "user=memdir_owner dbname=memdir"',
))  # fmt: skip
@click.argument("organisation", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_dsn_option("--owner-dsn", _OWNER)
def tenant_delete_verb(call: CliContext, /, organisation: str, yes: bool, as_json: bool, owner_dsn: str) -> None:
    """Delete every row of an organisation in one transaction and check that none is left. Backups are not changed."""
    tenant = _parse_id(organisation)
    confirm(f"Delete organisation {tenant} and all its data?", "this cannot be undone", yes=yes)
    _show_counts(call, _load()[0].delete_tenant(owner_dsn, tenant), as_json)


def _show_counts(call: CliContext, counts: dict[str, int], as_json: bool) -> None:
    rows = [{"table": name, "rows": count} for name, count in counts.items()]
    call.show_rows([TableColumn("table", cell="table"), TableColumn("rows", cell="rows")], rows, as_json=as_json)


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise FormatError(
            f"invalid organisation ID {text!r}", field="organisation", hint="`memdir serve tenant list` shows them"
        ) from None
