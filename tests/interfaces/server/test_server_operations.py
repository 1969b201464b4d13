"""What those who run a server do: start, check, tokens, organisations, backup and restore."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from clihelp import Cli
from http_servers import Client, search
from json_schemas import check as check_json
from loads import ROOT
from memdir.errors import NotFoundError, SettingsError
from memdir.interfaces.server import operations
from memdir.interfaces.server.operations import ServeOptions
from memdir.postgres.database import PostgresDatabase
from memdir.postgres.store import PostgresStore
from memdir.records import InboxItem, InboxKind, Surfacing
from memdir.store.contract import utc_now
from memdir.testing import sample_memory
from postgres import Postgres, find_binaries


def fill(store: PostgresStore) -> None:
    saved = store.write(sample_memory())
    store.edit("terse-replies", saved.text + "More.\n", expect=saved.digest)
    store.inbox_add([InboxItem(InboxKind.MEMORY, "t", "w", utc_now(), "k")])
    store.note_recalls([Surfacing("terse-replies", utc_now(), "how do we reply")])


def test_an_organisation_is_exported_whole_and_deleted_whole(postgres: Postgres, tmp_path: Path) -> None:
    tenant, other = postgres.tenant("leaving"), postgres.tenant("staying")
    for at in (tenant, other):
        fill(postgres.store(at))
    operations.make_token(postgres.owner, postgres.database, tenant, name="x", access="admin")
    kept = postgres.dump(other)
    counts = operations.export_tenant(postgres.owner, tenant, tmp_path / "all.zip")
    assert counts["changes"] == 2 and counts["tokens"] == 1 and (tmp_path / "all.zip").stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        names = archive.namelist()
        assert len([at for at in names if at.endswith("/terse-replies.md")]) == 1
        assert all(str(other) not in archive.read(at).decode("utf-8", "replace") for at in names)
        assert len(archive.read("rows/changed_files.jsonl").splitlines()) == counts["changed_files"]
    with pytest.raises(FileExistsError):
        operations.export_tenant(postgres.owner, tenant, tmp_path / "all.zip")
    assert operations.delete_tenant(postgres.owner, tenant).items() >= counts.items()
    assert postgres.dump(tenant) == "" and postgres.dump(other) == kept
    with psycopg.connect(postgres.admin) as db:  # who sees every row
        for table in operations.TABLES:
            assert db.execute(f"SELECT count(*) FROM memdir.{table} WHERE tenant = %s", (tenant,)).fetchone() == (0,)
    with pytest.raises(NotFoundError):
        operations.delete_tenant(postgres.owner, tenant)
    with pytest.raises(NotFoundError):
        operations.make_token(postgres.owner, postgres.database, tenant, name="x", access="admin")


def test_a_backup_by_pg_dump_is_restored(postgres: Postgres, tmp_path: Path) -> None:
    store = postgres.store()
    fill(store)
    before = postgres.dump(store._table.tenant)
    name = f"restored_{uuid4().hex[:8]}"
    # A pg_restore that is newer than the server sends settings that it does not know.
    major = int(postgres.database.show("SHOW server_version_num")) // 10_000
    system = Path(f"/usr/lib/postgresql/{major}/bin")
    programs = system if system.is_dir() else find_binaries()
    admin = postgres.admin
    restored = Postgres.__new__(Postgres)
    restored.owner = make_conninfo(postgres.owner, dbname=name)
    with psycopg.connect(admin, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name} OWNER memdir_owner")
        try:
            run(programs / "pg_dump", "-Fc", "-n", "memdir", "-f", tmp_path / "backup", "-d", admin)
            run(programs / "pg_restore", "--exit-on-error", "-d", restored.admin, tmp_path / "backup")
            assert sorted(restored.dump(store._table.tenant).split("\n")) == sorted(before.split("\n"))
            database = PostgresDatabase(make_conninfo(postgres.app, dbname=name), size=1)
            try:
                again = PostgresStore(database, store._table.tenant, store._table.store)
                again.write(sample_memory(title="After the restore"))
                assert len(again.changes()) == 3
            finally:
                database.close()
            rows = operations.check(make_conninfo(postgres.app, dbname=name), ServeOptions())
            assert [at[2] for at in rows[:3]] == [True] * 3, rows
        finally:
            db.execute(f"DROP DATABASE {name}")


def run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


def test_the_compose_file_runs_commands_that_exist(tmp_path: Path) -> None:
    """Docker is not needed to see that the files fit together: the commands are parsed, the roles are those that are made."""
    folder = ROOT / "examples" / "server"
    services = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))["services"]
    roles = (folder / "roles.sh").read_text(encoding="utf-8")
    run("sh", "-n", folder / "roles.sh")
    cli = Cli(tmp_path)
    for name in ("migrate", "server"):
        *command, dsn = services[name]["command"]
        assert cli(*command, dsn, "--help").code == 0, command
        given = conninfo_to_dict(dsn)
        assert given["host"] in services and f"CREATE ROLE {given['user']} LOGIN" in roles
        assert f"CREATE DATABASE {given['dbname']} " in roles
    assert set(re.findall(r"\$(\w+_PASSWORD)", roles)) <= set(services["database"]["environment"])
    unit = (folder / "memdir.service").read_text(encoding="utf-8")
    program, *command = shlex.split(unit.partition("ExecStart=")[2].partition("\n")[0])
    assert program.endswith("/bin/memdir") and cli(*command, "--help").code == 0


def test_a_check_says_what_is_wrong(postgres: Postgres, tmp_path: Path) -> None:
    rows = operations.check(postgres.owner, ServeOptions())
    assert {what: ok for what, _, ok in rows}["rows"] is False, "the owner sees the rows of all tenants"
    oidc = ServeOptions(oidc_issuer="http://127.0.0.1:9", oidc_audience="x")
    rows = operations.check(postgres.app, oidc)
    unread = ServeOptions(oidc_issuer="http://localhost", oidc_secret_file=str(tmp_path / "none"))
    for wrong in (ServeOptions(oidc_client_id="x"), unread):
        found = operations.check(postgres.app, wrong)
        assert [words for what, words, ok in found if what == "oidc" and not ok], wrong
    assert {what: ok for what, _, ok in rows} == {
        "database": True,
        "schema": True,
        "rows": True,
        "credentials": True,
        "oidc": False,
    }


def test_a_public_address_without_a_way_to_log_in_is_refused(postgres: Postgres, tmp_path: Path) -> None:
    with psycopg.connect(postgres.owner) as db:
        db.execute("DELETE FROM memdir.server")
    with pytest.raises(SettingsError, match="there are no credentials"):
        operations.serve(postgres.app, ServeOptions(host="0.0.0.0", port=0), lambda text: None)


@contextmanager
def running(dsn: str, *more: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """`memdir serve` as a process, and its port."""
    command = [sys.executable, "-m", "memdir", "serve", "--dsn", dsn, "--port", "0", *more]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline().rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def test_an_operator_sets_up_serves_moves_and_deletes_an_organisation(postgres: Postgres, tmp_path: Path) -> None:
    cli = Cli(tmp_path)

    def call(*argv: str, dsn: str = postgres.owner) -> str:
        done = cli("serve", *argv, "--owner-dsn", dsn)
        assert done.code == 0, done.err
        return done.out

    assert call("migrate").strip() == "nothing to do"
    made = call("tenant", "create", "Second works").strip()
    given = json.loads(call("token", "--organisation", made, "--access", "admin", "--json"))
    check_json("serve token", given)
    with running(postgres.app) as (process, port):
        admin = Client(port, given["token"])
        assert admin("POST", "/v1/stores", {"name": "main"})[0] == 201
        text = "---\nname: Deploys\ndescription: Deploys happen on Tuesdays only\ntype: project\n---\nYes.\n"
        assert admin("PUT", "/v1/stores/main/memories/deploys", {"content": text})[0] == 201
        checked = cli("serve", "run", "--dsn", postgres.app, "--check", "--json")
        check_json("serve run", json.loads(checked.out))
        assert checked.code == 0 and len(json.loads(checked.out)) == 4
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)
    rows = json.loads(call("tenant", "list", "--json"))
    check_json("serve tenant list", rows)
    assert (made, "Second works") in [(row["id"], row["name"]) for row in rows]
    assert "history_days" in call("tenant", "change", made, "--history-days", "30", "--max-stores", "7")
    counts = json.loads(call("tenant", "export", made, "x.zip", "--json"))
    check_json("serve tenant export", counts)
    before = sorted(postgres.dump(UUID(made)).split("\n"))
    assert cli("serve", "tenant", "import", "x.zip", "--owner-dsn", postgres.owner).code != 0, "it is there"
    gone = json.loads(call("tenant", "delete", made, "--yes", "--json"))
    check_json("serve tenant delete", gone)
    assert {"table": "tokens", "rows": 1} in gone and postgres.dump(UUID(made)) == ""
    taken = json.loads(call("tenant", "import", "x.zip", "--json"))
    check_json("serve tenant import", taken)
    assert taken == counts
    with running(postgres.app) as (_, port):
        admin = Client(port, given["token"])
        assert search(admin, "/v1/stores/main", "when do we deploy?")[0]["path"] == "deploys", "search is made anew"
        usage = admin("GET", "/v1/usage")[1]
        assert (usage["memories"], usage["max_stores"], usage["history_days"]) == (1, 7, 30)
    kept = set(before) - set(postgres.dump(UUID(made)).split("\n"))
    assert not [row for row in kept if "Yes." in row or "Deploys" in row], "byte for byte"
