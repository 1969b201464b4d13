"""`serve`: the memory of organisations in PostgreSQL, over HTTP, and what its operators do."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from memdir.errors import FormatError, SettingsError
from memdir.interfaces.cli import CliContext, TableColumn
from memdir.interfaces.cli.app import VerbGroup, confirm, json_option

_DSN = "The database as the application role, as libpq understands it; passwords belong into ~/.pgpass."
_OWNER = "The database as the role that owns the schema."
_DATA = "The folder of a PostgreSQL of memdir's own, used without a DSN; as root it must lie where others may enter."


@click.group("serve", short_help="Serve the memory of organisations over HTTP.", cls=VerbGroup, default="run")
def serve_verb() -> None:
    """The team server: PostgreSQL behind an HTTP API, for organisations with teams, members and tokens (docs/server.md).

    Without a DSN it starts a PostgreSQL of its own in a folder. TLS is the business of the proxy in front.
    """


def _place_options(decorated: Any) -> Any:
    for option, text in (("--data", _DATA), ("--owner-dsn", _OWNER), ("--dsn", _DSN)):
        decorated = click.option(option, metavar="PATH" if option == "--data" else "DSN", help=text)(decorated)
    return decorated


def _open(call: CliContext, dsn: str | None, owner_dsn: str | None, data: str | None) -> Any:
    """The module of operations and the place that the options mean."""
    if find_spec("psycopg") is None or find_spec("starlette") is None:
        raise SettingsError("the server needs packages that are not installed", hint="pip install 'memdir[server]'")
    # Imported here: no other verb needs a database.
    from memdir.interfaces.server import operations

    own = Path("/var/lib/memdir") if os.geteuid() == 0 else call.environment.state_home
    folder = Path(data) if data else own / "server"
    return operations, operations.ServerPlace((call.cwd / folder).absolute(), dsn, owner_dsn)


def _need_owner(owner: str) -> str:
    if not owner:
        raise SettingsError("this needs the role that owns the schema", key="owner_dsn", hint="give --owner-dsn")
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
@click.option("--public-url", default="", metavar="URL", help="The address that clients use, if a proxy is in front.")
@click.option("--oidc-issuer", default="", metavar="URL", help="Accept JWTs of this OpenID provider.")
@click.option("--oidc-audience", default="", metavar="TEXT", help="The audience that its tokens must name.")
@click.option("--oidc-client-id", default="", metavar="TEXT", help="Members log in on the page with it; its id there.")
@click.option("--oidc-secret-file", default="", metavar="PATH", help="A file with the client's secret, if it has one.")
@click.option("--connections", type=click.IntRange(1, 500), default=16, show_default=True, help="To the database.")
@click.option(
    "--check", "is_check", is_flag=True, help="Look at database, schema, roles and provider, and serve nothing."
)
@json_option
@click.pass_obj
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
    """Serve the API. It prints its address; at the first start of a database of its own also an admin's token, once.

    An address that others can reach is refused as long as nobody could log in.
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
    short_help="Bring the schema up to this version.",
    examples=('memdir serve migrate --owner-dsn "host=db user=memdir_owner dbname=memdir"',),
)
@_place_options
@click.pass_obj
def migrate_verb(call: CliContext, /, **place: Any) -> None:
    """Run the numbered migrations that have not run yet, each in a transaction. Safe to run several times and at once."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        migrations = operations.migrate(_need_owner(owner))
    call.out.line(f"ran {', '.join(migrations)}" if migrations else "nothing to do")


@serve_verb.command(
    "token",
    short_help="Make a token; it is shown once.",
    examples=("memdir serve token --organisation 5f0c6c1e-0000-4000-8000-000000000000 --access read_only --name ci",),
)
@_place_options
@click.option(
    "--organisation", required=True, metavar="ID", help="Whose token; `memdir serve tenant list` has the ids."
)
@click.option("--name", default="token", show_default=True, help="What it is for.")
@click.option(
    "--access", type=click.Choice(("read_only", "read_write", "admin")), default="read_write", show_default=True,
    help="What it may do.",
)  # fmt: skip
@click.option("--days", type=click.IntRange(1, 400), default=90, show_default=True, help="Until it expires.")
@json_option
@click.pass_obj
def token_verb(
    call: CliContext, /, organisation: str, name: str, access: str, days: int, as_json: bool, **place: Any
) -> None:
    """Make a token of an organisation. The server keeps a hash of it: who loses it makes another."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, app):
        database = operations.PostgresDatabase(app or owner, size=1)
        try:
            tenant = _parse_id(organisation)
            text, expires = operations.make_token(
                _need_owner(owner), database, tenant, name=name, access=access, days=days
            )
        finally:
            database.close()
    if as_json:
        call.out.json({"token": text, "expires": expires})
    else:
        call.out.line(text)


@serve_verb.group("tenant", short_help="Make, list, export and delete organisations.", cls=VerbGroup, default="list")
def tenant_group() -> None:
    """Organisations of a server. What belongs to one is reached by its own credentials only; these verbs need the owner."""


@tenant_group.command("list", short_help="The organisations.", examples=("memdir serve tenant list --json",))
@_place_options
@json_option
@click.pass_obj
def tenant_list_verb(call: CliContext, /, as_json: bool, **place: Any) -> None:
    """The organisations of this server, oldest first."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        tenants = operations.list_tenants(_need_owner(owner))
    rows = [{"id": str(id), "name": name, "created": created} for id, name, created in tenants]
    call.show_rows(
        [TableColumn("id", cell="id"), TableColumn("name", cell="name")], rows, as_json=as_json, empty="there is none"
    )


@tenant_group.command("create", short_help="Make an organisation.", examples=(
    'memdir serve tenant create "Example Works"',
))  # fmt: skip
@click.argument("name")
@_place_options
@click.pass_obj
def tenant_create_verb(call: CliContext, /, name: str, **place: Any) -> None:
    """Make an organisation and print its id."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        call.out.line(str(operations.create_tenant(_need_owner(owner), name)))


@tenant_group.command("export", short_help="Everything of an organisation as a zip.", examples=(
    "memdir serve tenant export 5f0c6c1e-0000-4000-8000-000000000000 all.zip",
))  # fmt: skip
@click.argument("organisation", metavar="ID")
@click.argument("target", metavar="FILE")
@_place_options
@json_option
@click.pass_obj
def tenant_export_verb(call: CliContext, /, organisation: str, target: str, as_json: bool, **place: Any) -> None:
    """Write every file and every row of an organisation into a new zip file, readable by you alone."""
    operations, where = _open(call, **place)
    with operations.open_place(where) as (owner, _):
        counts = operations.export_tenant(_need_owner(owner), _parse_id(organisation), call.cwd / target)
    _show_counts(call, counts, as_json)


@tenant_group.command("delete", short_help="Delete an organisation and all it has.", examples=(
    "memdir serve tenant delete 5f0c6c1e-0000-4000-8000-000000000000 --yes",
))  # fmt: skip
@click.argument("organisation", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_place_options
@json_option
@click.pass_obj
def tenant_delete_verb(call: CliContext, /, organisation: str, yes: bool, as_json: bool, **place: Any) -> None:
    """Delete every row of an organisation in one transaction, and count afterwards that none is left. Backups keep theirs."""
    operations, where = _open(call, **place)
    tenant = _parse_id(organisation)
    confirm(f"Delete everything of organisation {tenant}?", "this cannot be undone", yes=yes)
    with operations.open_place(where) as (owner, _):
        counts = operations.delete_tenant(_need_owner(owner), tenant)
    _show_counts(call, counts, as_json)


def _show_counts(call: CliContext, counts: dict[str, int], as_json: bool) -> None:
    rows = [{"table": name, "rows": count} for name, count in counts.items()]
    call.show_rows([TableColumn("table", cell="table"), TableColumn("rows", cell="rows")], rows, as_json=as_json)


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise FormatError(
            f"{text!r} is no id", field="organisation", hint="`memdir serve tenant list` has them"
        ) from None
