"""The `serve` command: run and administer the team server, an HTTP API over PostgreSQL."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from memdir.errors import FormatError, SettingsError
from memdir.interfaces.cli import CliContext, TableColumn
from memdir.interfaces.cli.app import VerbGroup, confirm

_DSN = "The libpq connection string of the application role; put passwords in ~/.pgpass."
_OWNER = "The connection string of the role that owns the schema."
_DATA = "The folder of memdir's own PostgreSQL, used without a DSN; as root, others must be able to enter it."


@click.group("serve", short_help="Run a team server.", cls=VerbGroup, default="run")
def serve_verb() -> None:
    """Run a team server: an HTTP API over PostgreSQL for organisations with teams, members and tokens (docs/server.md).

    Without a DSN it starts its own PostgreSQL in a folder. Use a reverse proxy for TLS.
    """


def _place_options(decorated: Any) -> Any:
    for option, text in (("--data", _DATA), ("--owner-dsn", _OWNER), ("--dsn", _DSN)):
        decorated = click.option(option, metavar="PATH" if option == "--data" else "DSN", help=text)(decorated)
    return decorated


def _open(call: CliContext, dsn: str | None, owner_dsn: str | None, data: str | None) -> Any:
    """Return the operations module and the database that the options select."""
    if find_spec("psycopg") is None or find_spec("starlette") is None:
        raise SettingsError("the server needs packages that are not installed", hint="pip install 'memdir[server]'")
    # Imported here, because no other command needs a database.
    from memdir.interfaces.server import operations

    own = Path("/var/lib/memdir") if os.geteuid() == 0 else call.environment.state_home
    folder = Path(data) if data else own / "server"
    return operations, operations.ServerPlace((call.cwd / folder).absolute(), dsn, owner_dsn)


def _require_owner(owner: str) -> str:
    if not owner:
        raise SettingsError("this needs the schema owner's role", key="owner_dsn", hint="pass it with --owner-dsn")
    return owner


@serve_verb.command(
    "run",
    short_help="Serve until stopped.",
    examples=(
        "memdir serve run",
        "memdir serve run --port 8080 --public-url https://memory.example",
        'memdir serve run --dsn "host=db user=memdir_app dbname=memdir" --check',
    ),
)
@_place_options
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=7340, show_default=True, help="The port; 0 for a free one."
)
@click.option("--public-url", default="", metavar="URL", help="The URL that clients use, if there is a proxy.")
@click.option("--oidc-issuer", default="", metavar="URL", help="Accept JWTs from this OpenID provider.")
@click.option("--oidc-audience", default="", metavar="TEXT", help="The required audience of its tokens.")
@click.option("--oidc-client-id", default="", metavar="TEXT", help="The client ID for logging in to the web interface.")
@click.option("--oidc-secret-file", default="", metavar="PATH", help="A file with the client's secret, if it has one.")
@click.option("--connections", type=click.IntRange(1, 500), default=16, show_default=True, help="To the database.")
@click.option("--check", "is_check", is_flag=True, help="Check database, schema, roles and provider without serving.")
def run_verb(
    call: CliContext,
    /,
    dsn: str | None,
    owner_dsn: str | None,
    data: str | None,
    is_check: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Serve the API and print its URL; the first start of its own database also prints an admin token, once.

    It refuses a public address while nobody can log in.
    """
    operations, place = _open(call, dsn, owner_dsn, data)
    options = operations.ServeOptions(**given)
    if not is_check:
        return int(operations.serve(place, options, operations.say_line))
    rows = [{"what": what, "found": state, "ok": ok} for what, state, ok in operations.check(place, options)]
    columns = [TableColumn("what", cell="what"), TableColumn("found", cell="found"), TableColumn("ok", cell="ok")]
    call.show_rows(columns, rows, as_json=as_json)
    return 0 if all(row["ok"] for row in rows) else 1


@serve_verb.command(
    "migrate",
    short_help="Update the database schema.",
    examples=('memdir serve migrate --owner-dsn "host=db user=memdir_owner dbname=memdir"',),
    has_json=False,
)
@_place_options
def migrate_verb(call: CliContext, /, **place: Any) -> None:
    """Run the pending migrations, each in a transaction. Safe to run repeatedly and concurrently."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        migrations = operations.migrate(_require_owner(owner))
    call.out.line(f"ran {', '.join(migrations)}" if migrations else "nothing to do")


@serve_verb.command(
    "token",
    short_help="Create a token; it is shown once.",
    examples=("memdir serve token --organisation 5f0c6c1e-0000-4000-8000-000000000000 --access read_only --name ci",),
)
@_place_options
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
    call: CliContext, /, organisation: str, name: str, access: str, days: int, as_json: bool, **place: Any
) -> None:
    """Create a token for an organisation. The server stores only a hash; replace a lost token with a new one."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, app):
        database = operations.PostgresDatabase(app or owner, size=1)
        try:
            tenant = _parse_id(organisation)
            text, expires = operations.make_token(
                _require_owner(owner), database, tenant, name=name, access=access, days=days
            )
        finally:
            database.close()
    call.answer({"token": text, "expires": expires}, text, as_json=as_json)


@serve_verb.group("tenant", short_help="Create, list, export and delete organisations.", cls=VerbGroup, default="list")
def tenant_group() -> None:
    """Manage the server's organisations. Each one is accessible only with its own tokens; these commands need the owner role."""


@tenant_group.command("list", short_help="List organisations.", examples=("memdir serve tenant list --json",))
@_place_options
def tenant_list_verb(call: CliContext, /, as_json: bool, **place: Any) -> None:
    """List the organisations of this server, oldest first."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        tenants = operations.list_tenants(_require_owner(owner))
    rows = [{"id": str(id), "name": name, "created": created} for id, name, created in tenants]
    call.show_rows(
        [TableColumn("id", cell="id"), TableColumn("name", cell="name")], rows, as_json=as_json, empty="there is none"
    )


@tenant_group.command("create", short_help="Create an organisation.", examples=(
    'memdir serve tenant create "Example Works"',
), has_json=False)  # fmt: skip
@click.argument("name")
@_place_options
def tenant_create_verb(call: CliContext, /, name: str, **place: Any) -> None:
    """Create an organisation and print its ID."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        call.out.line(str(operations.create_tenant(_require_owner(owner), name)))


@tenant_group.command("export", short_help="Export an organisation as a zip file.", examples=(
    "memdir serve tenant export 5f0c6c1e-0000-4000-8000-000000000000 all.zip",
))  # fmt: skip
@click.argument("organisation", metavar="ID")
@click.argument("target", metavar="FILE")
@_place_options
def tenant_export_verb(call: CliContext, /, organisation: str, target: str, as_json: bool, **place: Any) -> None:
    """Write every file and row of an organisation to a new zip file that only you can read."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        counts = operations.export_tenant(_require_owner(owner), _parse_id(organisation), call.cwd / target)
    _show_counts(call, counts, as_json)


@tenant_group.command("delete", short_help="Delete an organisation and its data.", examples=(
    "memdir serve tenant delete 5f0c6c1e-0000-4000-8000-000000000000 --yes",
))  # fmt: skip
@click.argument("organisation", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_place_options
def tenant_delete_verb(call: CliContext, /, organisation: str, yes: bool, as_json: bool, **place: Any) -> None:
    """Delete every row of an organisation in one transaction and check that none is left. Backups are not changed."""
    operations, where = _open(call, **place)
    tenant = _parse_id(organisation)
    confirm(f"Delete organisation {tenant} and all its data?", "this cannot be undone", yes=yes)
    with operations.open_place(where) as (owner, _):
        counts = operations.delete_tenant(_require_owner(owner), tenant)
    _show_counts(call, counts, as_json)


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
